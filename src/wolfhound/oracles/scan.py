"""`Scan`: reads every atom and proves its answers."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import final

import numpy as np

from wolfhound.atoms import as_atoms
from wolfhound.core import Atoms, AtomsLike, Hits, Ids, Matrix, Singles, Vector
from wolfhound.oracles import _scan_kernels as kernels
from wolfhound.oracles._batch import candidates, group_size, product_pass
from wolfhound.oracles._hits import (
    Cost,
    build_hits,
    highest,
    in_memory,
    join,
    patch,
    prove,
    rank_one,
    rescore,
    settle,
    take_from,
)
from wolfhound.oracles._pass import NormRecorder, Norms, TopKScan, full_pass, plan_pass
from wolfhound.oracles._question import CheckedOracle, Question, slack_of_one
from wolfhound.oracles.costs import Estimate, Workload
from wolfhound.oracles.indexes import IndexKind
from wolfhound.progress import report_rows
from wolfhound.rounding import TINY, UNIT, gamma
from wolfhound.validate import flag, memory

_FEW = 4
"""So many queries are faster one by one than as a product of matrices."""

_SHORT = 1 << 18
"""Entries of atoms that are read in less time than screening takes."""

_NOTHING: Vector = np.empty(0)

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
        bytes, and 4n more during a pass; default: where there are so many entries, 262,144, that it
        pays, 8n is at most 1 GiB, and 12n at most half of `max_memory`.
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
        n, d = self._atoms.shape
        if wish is None and (8 * n > SCREEN_MEMORY or n * d < _SHORT):
            wish = False
        self._plan = plan_pass(self._atoms, self._memory, wish)
        # Both are replaced whole, never changed: a query of another thread may hold them.
        self._norms: Norms | None = None
        self._reference: ReferencePass | None = None

    def answer(self, question: Question, thresholds: Vector | None = None) -> Hits:
        """Answer checked queries; thresholds are ignored."""
        if len(question.queries) == 1:
            return (
                self._answer_near(question)
                or self._answer_at_once(question)
                or self._loop(question, keep=True)
            )
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
        """Answer from a block of rows in memory that were measured, and are not screened: few calls."""
        norms, rows, k = self._norms, in_memory(self._atoms), question.k
        if self._plan.screen or norms is None or rows is None or rows.nbytes > self._plan.block:
            return None
        slack = slack_of_one(float(question.sizes[0]), rows.shape[1], norms.radius)
        scores, ids = TopKScan(question, 0).look(0, rows, _NOTHING)
        if len(ids) < k:  # some are excluded, and answers padded
            return None
        report_rows(len(rows))
        if k > 1:
            (scores,), (ids,) = rank_one(scores, ids, k)
        bound = math.nextafter(float(scores[0]) + slack, math.inf)
        return Hits(
            ids=ids[None],
            scores=scores[None],
            bounds=np.array([bound]),
            rows=rows[ids],
            slots=np.arange(k)[None],
            scored=np.array([len(rows)]),
            passes=1.0,
            radius=norms.radius,
        )

    def _answer_near(self, question: Question) -> Hits | None:
        """Answer from the atoms that can still win; None if they are too many."""
        size, query, reference = float(question.sizes[0]), question.queries[0], self._reference
        if reference is None or not fits(size, reference.norms.radius):
            return None
        screen = Screening(reference, query, size, question.exclusions(0))
        ids = screen.survivors(self._atoms, question.k)
        if ids is None:
            return None
        rows = self._atoms.take(ids)
        scores, best = rank_one(rescore(rows, query), ids, question.k)
        scored = len(ids) + screen.probed
        cost = Cost(np.array([scored]), min(1.0, scored / self._atoms.shape[0]), reference.norms.radius)
        return _prove_all(take_from(ids, rows), question, scores, best, cost)

    def _record(self) -> NormRecorder:
        return NormRecorder(self._atoms, self._norms, keep=self._plan.screen)

    # ------------------------------------------------------------ several queries

    def _many(self, question: Question, size: int) -> Hits:
        """Answer by products; what they cannot decide, by the float64 loop."""
        ids, uppers, rest, norms = product_pass(
            self._atoms, self._record(), question, size, block=min(self._plan.block, 16 << 20)
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
        copy, size, scale = None, float(question.sizes[0]), 1.0
        if keep and self._plan.screen and self._atoms.shape[0] >= WORTH and fits(size, 1.0):
            copy, scale = np.empty(self._atoms.shape[0], np.float32), scale_of(size)
        scans = [TopKScan(question, 0, copy, scale)]
        scans += [TopKScan(question, i) for i in range(1, len(question.queries))]
        self._norms = norms = full_pass(self._atoms, self._record(), scans, self._plan.block)
        if copy is not None and fits(size, norms.radius):
            self._reference = ReferencePass(question.queries[0].copy(), size, scale, copy, norms)
        ranked = [rank_one(scan.scores, scan.ids, question.k) for scan in scans]
        scores, ids = map(np.concatenate, zip(*ranked, strict=True))
        cost = Cost(np.full(len(scans), self._atoms.shape[0]), 1.0, norms.radius)
        return _prove_all(self._atoms.take, question, scores, ids, cost)


def _prove_all(
    take: Callable[[Ids], Matrix], question: Question, scores: Vector, ids: Ids, cost: Cost
) -> Hits:
    """Pack answers that no other atom can beat."""
    return build_hits(take, scores, ids, prove(question, scores, -np.inf, cost.radius), cost)


# ---------------------------------------------------------------- screening
#
# Most atoms cannot win a query that is close to an earlier one. With the scores of a reference
# query q0 and the norms kept, any number a gives
# <q, s> = a <q0, s> + <q - a q0, s> <= a <q0, s> + |q - a q0| |s|.

CHUNK = 1 << 16
"""Upper bounds that are computed at a time: they stay in the cache."""

PROBES = 256
"""Atoms whose best score is the threshold of screening."""

SHARE = 0.05
"""Largest share of the atoms that is scored instead of a pass."""

WORTH = 2 * PROBES
"""Atoms from which on screening can score fewer than all."""

_RANGE = 2.0**100
_SINGLE, _SINGLE_TINY = 2.0**-24, 2.0**-126


@dataclass(frozen=True, slots=True)
class ReferencePass:
    """A full pass that was kept.

    Attributes
    ----------
    query : (d,) float64
    size : float
        |query|, rounded up.
    scale : float
        The power of two by which kept scores were multiplied.
    scores : (n,) float32
        ``scale * score``.
    norms : Norms
        Of each atom too.
    """

    query: Vector
    size: float
    scale: float
    scores: Singles
    norms: Norms

    def rule(self, query: Vector, size: float) -> kernels.ScreenRule:
        """Bounds on the true and on the computed float64 scores of a query.

        rho collects all that is proportional to the norm of an atom: the distance of the queries
        and its own rounding, beside which squares that underflow are nothing; the float64 loop of
        the reference, its storage in float32, and the loop of the new query; the three roundings
        of the bound itself.
        """
        d = len(query)
        near = _multiply(query, self.query) / _multiply(self.query, self.query)
        away = query - near * self.query
        loop, kept = gamma(d + 2), abs(near) * self.size
        rho = math.sqrt(_multiply(away, away)) * (1.0 + gamma(d + 4))
        rho += 4.0 * UNIT * (size + kept)
        rho += kept * (loop + 1.001 * _SINGLE) + loop * size
        rho += 8.0 * UNIT * (rho + 1.01 * kept)
        shift = abs(near) * (d * TINY + 2.0 * _SINGLE_TINY / self.scale) + d * TINY
        return kernels.ScreenRule(near / self.scale, rho * (1.0 + 4.0 * UNIT), shift * (1.0 + 4.0 * UNIT))


def _multiply(first: Vector, second: Vector) -> float:
    """Inner product: not by BLAS, whose bits depend on the threads."""
    return float(np.einsum("i,i->", first, second))


def scale_of(size: float) -> float:
    """Return a power of two that brings a query of this size near 1."""
    return math.ldexp(1.0, -math.frexp(size)[1])


def fits(size: float, radius: float) -> bool:
    """Whether scaled scores and norms are far from the limits of float32."""
    return 1.0 / _RANGE < size < _RANGE and 1.0 / _RANGE < radius < _RANGE


class Screening:
    """Upper bounds on the scores of one query, computed chunk by chunk.

    Parameters
    ----------
    reference
        What is known.
    query, size
        The new query and its norm, rounded up; `fits` must hold.
    banned
        Atoms that are not asked for, ascending.
    """

    def __init__(self, reference: ReferencePass, query: Vector, size: float, banned: Ids) -> None:
        self._reference = reference
        self._query = query
        self._size = size
        self._banned = banned
        self._rule = reference.rule(query, size)
        self.probed = 0

    def survivors(self, atoms: Atoms, k: int) -> Ids | None:
        """Return the atoms that can win, filled up to k by best upper bounds.

        None if more than a small share of the atoms can win.
        """
        if self._rule.slope <= 0.0 or self._rule.rho > 0.5 * self._size:
            return None
        probes = self._probes()
        if not len(probes):
            return None
        self.probed = len(probes)
        best = float(rescore(atoms.take(probes), self._query).max())
        can_win = self._reaching(best, int(SHARE * atoms.shape[0]))
        if can_win is None or len(can_win) >= k:
            return can_win
        return self._highest(k)

    def _chunks(self) -> Iterator[tuple[int, Vector]]:
        """Yield (first id, upper bounds); -inf for banned atoms."""
        ref = self._reference
        for first in range(0, len(ref.scores), CHUNK):
            stop = min(first + CHUNK, len(ref.scores))
            out = np.empty(stop - first)
            kernels.uppers(ref.scores[first:stop], ref.norms.each[first:stop], self._rule, out)
            low, high = np.searchsorted(self._banned, (first, stop))
            out[self._banned[low:high] - first] = -np.inf
            yield first, out

    def _probes(self) -> Ids:
        """Return atoms with high upper bounds, far apart: the best is a good threshold."""
        n = len(self._reference.scores)
        window = max(1, n // PROBES)
        best, ids = np.full(-(-n // window), -np.inf), np.full(-(-n // window), -1)
        for first, uppers in self._chunks():
            kernels.peaks(uppers, first, window, best[first // window :], ids[first // window :])
        return ids[ids >= 0]

    def _reaching(self, threshold: float, most: int) -> Ids | None:
        """Return the atoms whose upper bound is at least the threshold."""
        below = np.nextafter(threshold, -np.inf)
        parts, size = [], 0
        for first, uppers in self._chunks():
            parts.append(kernels.collect(uppers, below) + first)
            size += len(parts[-1])
            if size > most:
                return None
        return np.concatenate(parts)

    def _highest(self, k: int) -> Ids:
        """Return the k atoms of highest upper bounds."""
        scores, ids = np.empty(0), np.empty(0, np.int64)
        for first, uppers in self._chunks():
            found = kernels.collect(uppers, scores.min() if len(scores) == k else -np.inf) + first
            scores, ids = np.concatenate((scores, uppers[found - first])), np.concatenate((ids, found))
            best = np.flatnonzero(highest(scores, k))
            scores, ids = scores[best], ids[best]
        return ids


# ---------------------------------------------------------------- what it costs


def _make(atoms: AtomsLike, *, seed: int = 0, screen: bool | None = None) -> Scan:
    return Scan(atoms, screen=screen)


def _estimate(work: Workload) -> Estimate:
    """Every row, for every query."""
    screen = 8 * work.n <= min(work.max_memory, SCREEN_MEMORY)
    return Estimate(
        recipe="Scan(atoms)" if screen else "Scan(atoms, screen=False)",
        make=partial(_make, screen=None if screen else False),
        build=0.0,
        query=work.query_seconds(work.nbytes) + work.file_seconds(1) / work.batch,
        scored=work.n,
        nbytes=8.0 * work.n if screen else 0.0,
    )


SCAN = IndexKind(name="scan", title="Scan", build=_make, expected=_estimate, proves=True)
