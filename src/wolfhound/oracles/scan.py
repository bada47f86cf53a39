"""`Scan`: reads every atom and proves its answers."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import final

import numpy as np

from wolfhound.atoms import as_atoms
from wolfhound.core import Atoms, AtomsLike, Hits, Ids, Matrix, Vector
from wolfhound.oracles._asked import Asked, asked, slacks
from wolfhound.oracles._batch import candidates, group_size, product_pass
from wolfhound.oracles._best import Best
from wolfhound.oracles._gauge import Gauge, Norms
from wolfhound.oracles._hits import best_of_one, held, joined, packed, patched, rescore, row, settle
from wolfhound.oracles._pass import Watch, full_pass
from wolfhound.oracles._screen import Reference, Screen, fits, scale_of
from wolfhound.oracles.indexes import Estimate, IndexKind, Workload
from wolfhound.validate import flag

_FEW = 4
"""So many queries are faster one by one than as a product of matrices."""

SCREEN_MEMORY = 1 << 30
"""Bytes that screening may take by default; it needs 8 per atom."""


@final
class Scan:
    """Exact oracle: the best atom of all, and a bound to float64 rounding.

    One query is scored in float64 sums, a little slower than a read. Several queries
    share one pass of matrix products in the precision of the atoms; whatever
    can still win is scored again in float64. All rows are checked to be finite
    when they are first read.

    The best atom, its score and the bound are the same to the bit alone and among
    others, with screening and without. Without screening so are all k answers; with
    it, a query close to an earlier one may have good atoms, scored right, in place
    of the next best.

    Parameters
    ----------
    atoms
        Atoms, an array or a path.
    screen
        Whether to keep the scores of the last full pass, so that a query close
        to it is answered from the few atoms that can still win. Takes 8n
        bytes, and 4n more during a pass; default: where 8n is at most 1 GiB.

    Examples
    --------
    >>> hits = Scan(np.eye(3)).query(np.array([[1.0, 3.0, 2.0]]), k=2)
    >>> hits.ids, hits.scores
    (array([[1, 2]]), array([[3., 2.]]))
    """

    def __init__(self, atoms: AtomsLike, *, screen: bool | None = None) -> None:
        self._atoms = as_atoms(atoms)
        self._screen = 8 * self._atoms.shape[0] <= SCREEN_MEMORY if screen is None else flag(screen, "screen")
        # Both are replaced whole, never changed: a query of another thread may hold them.
        self._norms: Norms | None = None
        self._reference: Reference | None = None

    @property
    def atoms(self) -> Atoms:
        """The atoms that are searched."""
        return self._atoms

    def query(
        self,
        queries: Matrix,
        *,
        k: int = 1,
        thresholds: Vector | None = None,
        exclude: Ids | None = None,
    ) -> Hits:
        """Answer m queries, see `Oracle.query`; thresholds are ignored."""
        return self.answer(asked(self._atoms, queries, k, exclude))

    def answer(self, ask: Asked) -> Hits:
        """Answer checked queries."""
        if len(ask.queries) == 1:
            return self._screened(ask) or self._one(ask)
        if len(ask.queries) <= _FEW:
            return self._loop(ask)
        size = candidates(self._atoms, ask.k)
        step = group_size(self._atoms, size)
        starts = range(0, len(ask.queries), step)
        return joined([self._many(ask.only(slice(start, start + step)), size) for start in starts])

    def __repr__(self) -> str:
        """The atoms and the options."""
        return f"Scan({self._atoms!r}, screen={self._screen})"

    # ------------------------------------------------------------ one query

    def _screened(self, ask: Asked) -> Hits | None:
        """Answer from the atoms that can still win; None if they are too many."""
        size, query, reference = float(ask.sizes[0]), ask.queries[0], self._reference
        if reference is None or not fits(size, reference.norms.radius):
            return None
        screen = Screen(reference, query, size, ask.banned(0))
        ids = screen.survivors(self._atoms, ask.k)
        if ids is None:
            return None
        rows = self._atoms.take(ids)
        scores, best = row(rescore(rows, query), ids, ask.k)
        scored = len(ids) + screen.probed
        share = min(1.0, scored / self._atoms.shape[0])
        radius = reference.norms.radius
        return self._hits(ask, scores, best, take=held(ids, rows), radius=radius, scored=scored, passes=share)

    def _one(self, ask: Asked) -> Hits:
        """Answer from a full pass, which becomes the reference of screening."""
        n, k = self._atoms.shape[0], ask.k
        watch = Watch(query=ask.queries[0], banned=ask.banned(0), best=Best(k))
        radius = self._keep_pass(watch, float(ask.sizes[0])).radius
        scores, ids = watch.best.kept()
        return best_of_one(
            self._atoms,
            ids,
            scores,
            k=k,
            slack=slacks(ask.sizes, self._atoms.shape[1], radius),
            rest=np.full(1, -np.inf),
            scored=np.full(1, n),
            passes=1.0,
            radius=radius,
        )

    def _keep_pass(self, watch: Watch, size: float) -> Norms:
        """Read all atoms and keep their scores for screening."""
        if self._screen and fits(size, 1.0):
            watch.copy, watch.scale = np.empty(self._atoms.shape[0], np.float32), scale_of(size)
        norms = self._pass([watch])
        if watch.copy is not None and fits(size, norms.radius):
            query = watch.query.copy()
            self._reference = Reference(
                query=query, size=size, scale=watch.scale, scores=watch.copy, norms=norms
            )
        return norms

    def _pass(self, watches: list[Watch]) -> Norms:
        self._norms = norms = full_pass(self._atoms, self._gauge(), watches)
        return norms

    def _gauge(self) -> Gauge:
        return Gauge(self._atoms, self._norms, keep=self._screen)

    # ------------------------------------------------------------ several queries

    def _many(self, ask: Asked, size: int) -> Hits:
        """Answer by products; what they cannot decide, by the float64 loop."""
        ids, uppers, rest, norms = product_pass(self._atoms, self._gauge(), ask, size)
        self._norms = norms
        hits = settle(
            self._atoms,
            ask,
            ids,
            uppers,
            rest=rest,
            scored=np.full(len(ids), self._atoms.shape[0], np.int64),
            passes=1.0,
            radius=norms.radius,
        )
        undecided = np.flatnonzero((rest > -np.inf) & (rest >= hits.scores[:, -1]))
        return patched(hits, undecided, self._loop(ask.only(undecided))) if len(undecided) else hits

    def _loop(self, ask: Asked) -> Hits:
        """Answer by the float64 loop, in one pass: the k best, proved."""
        n, k = self._atoms.shape[0], ask.k
        watches = [
            Watch(query=query, banned=ask.banned(i), best=Best(k)) for i, query in enumerate(ask.queries)
        ]
        radius = self._pass(watches).radius
        ranked = [row(*watch.best.kept(), k) for watch in watches]
        scores, ids = (np.concatenate(part) for part in zip(*ranked, strict=True))
        return self._hits(ask, scores, ids, take=self._atoms.take, radius=radius, scored=n, passes=1.0)

    def _hits(
        self,
        ask: Asked,
        scores: Vector,
        ids: Ids,
        *,
        take: Callable[[Ids], Matrix],
        radius: float,
        scored: int,
        passes: float,
    ) -> Hits:
        """Pack answers that no other atom can beat."""
        m = len(ids)
        return packed(
            take,
            scores,
            ids,
            slack=slacks(ask.sizes, self._atoms.shape[1], radius),
            rest=np.full(m, -np.inf),
            scored=np.full(m, scored, np.int64),
            passes=passes,
            radius=radius,
        )


# ---------------------------------------------------------------- what it costs


def _make(atoms: AtomsLike, *, seed: int = 0, screen: bool | None = None) -> Scan:
    return Scan(atoms, screen=screen)


def _estimate(work: Workload) -> Estimate:
    """Every row, for every query."""
    screen = 8 * work.n <= min(work.max_memory, SCREEN_MEMORY)
    return Estimate(
        recipe="Scan(atoms)" if screen else "Scan(atoms, screen=False)",
        make=partial(_make, screen=screen),
        build=0.0,
        query=work.pass_seconds(work.speeds.scan, work.nbytes),
        reads=work.nbytes,
        scored=work.n,
        nbytes=8.0 * work.n if screen else 0.0,
        ratio=1.0,
    )


SCAN = IndexKind(
    name="scan",
    title="Scan",
    build=_make,
    expected=_estimate,
    proves=True,
    speeds=lambda speed, few, many: {"scan": speed},
)
