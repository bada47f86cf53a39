"""`Scan`: reads every atom and proves its answers."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import final

import numpy as np

from wolfhound.atoms import as_atoms
from wolfhound.core import AtomsLike, Hits, Ids, Matrix, Vector
from wolfhound.oracles import _one_kernels as kernels
from wolfhound.oracles._batch import candidates, group_size, product_pass
from wolfhound.oracles._best import Best
from wolfhound.oracles._hits import (
    Cost,
    build_hits,
    in_memory,
    join,
    patch,
    prove,
    rank_one,
    rescore,
    settle,
    take_from,
)
from wolfhound.oracles._norms import Gauge, Norms
from wolfhound.oracles._one import empty_top, make_hits
from wolfhound.oracles._pass import Watch, full_pass, plan_pass
from wolfhound.oracles._question import CheckedOracle, Question, slack_of_one
from wolfhound.oracles._screen import WORTH, ReferencePass, Screen, fits, scale_of
from wolfhound.oracles.costs import Estimate, Workload
from wolfhound.oracles.indexes import IndexKind
from wolfhound.progress import report_rows
from wolfhound.validate import flag, memory

_FEW = 4
"""So many queries are faster one by one than as a product of matrices."""

_NOT_KEPT = (np.empty(0, np.float32), 1.0)

SCREEN_MEMORY = 1 << 30
"""Bytes that screening may take by default; it needs 8 per atom."""


@final
class Scan(CheckedOracle):
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
        bytes, and 4n more during a pass; default: where 8n is at most 1 GiB, and 12n at
        most half of `max_memory`.
    max_memory
        Bytes, or a text such as "1GB", that passes may take, beside atoms in memory and the
        answer; default: any, blocks are of 32 MiB, 16 in files.

    Examples
    --------
    >>> hits = Scan(np.eye(3)).query(np.array([[1.0, 3.0, 2.0]]), k=2)
    >>> hits.ids, hits.scores
    (array([[1, 2]]), array([[3., 2.]]))
    """

    def __init__(
        self, atoms: AtomsLike, *, screen: bool | None = None, max_memory: float | str | None = None
    ) -> None:
        self._atoms = as_atoms(atoms)
        self._memory = math.inf if max_memory is None else memory(max_memory, "max_memory")
        wish = None if screen is None else flag(screen, "screen")
        if wish is None and 8 * self._atoms.shape[0] > SCREEN_MEMORY:
            wish = False
        self._plan = plan_pass(self._atoms, self._memory, wish)
        # Both are replaced whole, never changed: a query of another thread may hold them.
        self._norms: Norms | None = None
        self._reference: ReferencePass | None = None

    def answer(self, question: Question, thresholds: Vector | None = None) -> Hits:
        """Answer checked queries; thresholds are ignored."""
        if len(question.queries) == 1:
            hits = self._answer_at_once(question) if question.often else None
            return hits or self._answer_near(question) or self._loop(question, keep=True)
        if len(question.queries) <= _FEW:
            return self._loop(question, keep=True)
        size = candidates(self._atoms, question.k)
        step = group_size(self._atoms, size, self._memory)
        starts = range(0, len(question.queries), step)
        return join([self._many(question.only(slice(start, start + step)), size) for start in starts])

    def __repr__(self) -> str:
        """The atoms and the options."""
        return f"Scan({self._atoms!r}, screen={self._plan.screen})"

    # ------------------------------------------------------------ one query

    def _answer_at_once(self, question: Question) -> Hits | None:
        """Answer from rows in memory that were measured, in one block; None if they are not."""
        norms, rows = self._norms, in_memory(self._atoms)
        if norms is None or rows is None or rows.nbytes > self._plan.block:
            return None
        n, d = rows.shape
        query, size, exclude = question.queries[0], float(question.sizes[0]), question.exclude
        slack, top = slack_of_one(size, d, norms.radius), empty_top(rows, question.k)
        screened = n >= WORTH and self._plan.screen and fits(size, norms.radius)
        if screened and self._reference is not None:
            found = kernels.best_of_near(rows, query, size, exclude, self._reference.pack(), slack, top)
            if found != kernels.TOO_MANY:
                return make_hits(top, found, min(1.0, float(top[4][0]) / n), norms.radius)
        kept = (np.empty(n, np.float32), scale_of(size)) if screened else _NOT_KEPT
        found = kernels.best_of_all(rows, query, exclude, kept, slack, top)
        report_rows(n)
        if screened:
            self._reference = ReferencePass(query.copy(), size, kept[1], kept[0], norms)
        return make_hits(top, found, 1.0, norms.radius)

    def _answer_near(self, question: Question) -> Hits | None:
        """Answer from the atoms that can still win; None if they are too many."""
        size, query, reference = float(question.sizes[0]), question.queries[0], self._reference
        if reference is None or not fits(size, reference.norms.radius):
            return None
        screen = Screen(reference, query, size, question.exclusions(0))
        ids = screen.survivors(self._atoms, question.k)
        if ids is None:
            return None
        rows = self._atoms.take(ids)
        scores, best = rank_one(rescore(rows, query), ids, question.k)
        scored = len(ids) + screen.probed
        cost = Cost(np.array([scored]), min(1.0, scored / self._atoms.shape[0]), reference.norms.radius)
        return _prove_all(take_from(ids, rows), question, scores, best, cost)

    def _gauge(self) -> Gauge:
        return Gauge(self._atoms, self._norms, keep=self._plan.screen)

    # ------------------------------------------------------------ several queries

    def _many(self, question: Question, size: int) -> Hits:
        """Answer by products; what they cannot decide, by the float64 loop."""
        ids, uppers, rest, norms = product_pass(
            self._atoms, self._gauge(), question, size, block=min(self._plan.block, 16 << 20)
        )
        self._norms = norms
        cost = Cost(np.full(len(ids), self._atoms.shape[0]), 1.0, norms.radius)
        hits = settle(self._atoms, question, ids, uppers, rest=rest, cost=cost)
        undecided = np.flatnonzero((rest > -np.inf) & (rest >= hits.scores[:, -1]))
        return patch(hits, undecided, self._loop(question.only(undecided))) if len(undecided) else hits

    def _loop(self, question: Question, *, keep: bool = False) -> Hits:
        """Answer by the float64 loop, in one pass: the k best, proved.

        With `keep`, the pass of the first query becomes the reference of screening.
        """
        watches = [
            Watch(query=query, banned=question.exclusions(i), best=Best(question.k))
            for i, query in enumerate(question.queries)
        ]
        first, size = watches[0], float(question.sizes[0])
        if keep and self._plan.screen and self._atoms.shape[0] >= WORTH and fits(size, 1.0):
            first.copy, first.scale = np.empty(self._atoms.shape[0], np.float32), scale_of(size)
        self._norms = norms = full_pass(self._atoms, self._gauge(), watches, self._plan.block)
        if first.copy is not None and fits(size, norms.radius):
            self._reference = ReferencePass(first.query.copy(), size, first.scale, first.copy, norms)
        ranked = [rank_one(*watch.best.entries(), question.k) for watch in watches]
        scores, ids = map(np.concatenate, zip(*ranked, strict=True))
        cost = Cost(np.full(len(watches), self._atoms.shape[0]), 1.0, norms.radius)
        return _prove_all(self._atoms.take, question, scores, ids, cost)


def _prove_all(
    take: Callable[[Ids], Matrix], question: Question, scores: Vector, ids: Ids, cost: Cost
) -> Hits:
    """Pack answers that no other atom can beat."""
    return build_hits(take, scores, ids, prove(question, scores, -np.inf, cost.radius), cost)


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
        query=work.query_seconds(work.nbytes) + work.file_seconds(1) / work.batch,
        scored=work.n,
        nbytes=8.0 * work.n if screen else 0.0,
    )


SCAN = IndexKind(name="scan", title="Scan", build=_make, expected=_estimate, proves=True)
