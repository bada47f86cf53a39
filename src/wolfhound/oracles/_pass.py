"""One pass over all atoms with the float64 loop, top scores kept on the way.

The outcome never depends on the number of threads: blocks are fixed, their
results are taken in order, and the best entries of a stream are unique.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from wolfhound.atoms import block_rows, check_finite
from wolfhound.core import Atoms, Ids, Matrix, Singles, Vector
from wolfhound.editing import in_files
from wolfhound.oracles import _scan_kernels as kernels
from wolfhound.oracles._question import Question
from wolfhound.progress import report_rows
from wolfhound.rounding import TINY, UNIT
from wolfhound.threads import get_threads, map_ordered
from wolfhound.validate import require

_BLOCK = 32 << 20
"""Bytes of a block: with smaller ones too much time goes between two blocks."""

_FILE_BLOCK = 16 << 20
"""Bytes of a block that is read: memory for larger ones is given back to the system each time."""

_LEAST_BLOCK = 64 << 10

_BESIDE = 40
"""Bytes per row of a block that a pass takes beside it: scores, ids, squares, and what it picks."""

_SCREEN = 12
"""Bytes per atom that screening takes during a pass."""

_LEAD = 16
"""Rows per answer, at the beginning of a block, that give a first floor."""

_NOTHING: Vector = np.empty(0)
_NO_COPY: Singles = np.empty(0, np.float32)


class PassPlan(NamedTuple):
    """How passes are done within a memory.

    Attributes
    ----------
    block : int
        Bytes of a block.
    screen : bool
        Whether a pass is kept, to answer later queries from it.
    """

    block: int
    screen: bool


def least_memory(atoms: Atoms) -> int:
    """Bytes that a pass takes at least."""
    return _blocks_memory(atoms, _LEAST_BLOCK)


def _blocks_memory(atoms: Atoms, nbytes: int) -> int:
    """Bytes of all blocks that are under way: two per thread, those read ahead, and one in another type."""
    row = atoms.shape[1] * atoms.dtype.itemsize + _BESIDE
    return (2 * get_threads() + 4) * row * block_rows(atoms, nbytes)


def plan_pass(atoms: Atoms, max_memory: float, screen: bool | None) -> PassPlan:
    """Choose blocks, and whether to screen if that is not said, so that a memory is kept."""
    block = _FILE_BLOCK if in_files(atoms) else _BLOCK
    if max_memory == math.inf:
        return PassPlan(block, screen is None or screen)
    kept = _SCREEN * atoms.shape[0]
    least = least_memory(atoms) + (kept if screen else 0)
    rule = f"at least {least:,} bytes, for {get_threads()} threads and these atoms"
    require(max_memory >= least, "max_memory", rule, f"{max_memory:,.0f}")
    screened = kept <= max_memory / 2 and least + kept <= max_memory if screen is None else screen
    left = max_memory - (kept if screened else 0)
    while block > _LEAST_BLOCK and _blocks_memory(atoms, block) > left:
        block //= 2
    return PassPlan(block, screened)


# ---------------------------------------------------------------- norms

_SQUARES_UNDERFLOW = 1e-150
"""Norms below are known by the largest entry: their squares say too little."""


class Norms(NamedTuple):
    """What a whole pass has measured; never written to.

    Attributes
    ----------
    radius : float
        The largest norm, rounded up.
    each : (n,) float32
        Norms, rounded up; empty if they are not kept.
    """

    radius: float
    each: Singles


class NormRecorder:
    """Measures the atoms during one pass, which also checks that they are finite.

    A pass has its own: passes of other threads measure for themselves.

    Parameters
    ----------
    atoms
        What is measured.
    known
        What an earlier pass has measured: nothing is measured again.
    keep
        Whether the norm of each atom is kept (4n bytes), else only the maximum.
    """

    def __init__(self, atoms: Atoms, known: Norms | None = None, *, keep: bool) -> None:
        n, self._d = atoms.shape
        self._known = known
        self._each = np.empty(n if keep and known is None else 0, np.float32)
        self._tops: list[float] = []

    def norms(self) -> Norms:
        """Return what is known after a pass that has read all atoms."""
        return Norms(max(self._tops), self._each) if self._known is None else self._known

    def room(self, rows: int) -> Vector:
        """Return room for the squared norms of a block; none if they are known."""
        return np.empty(rows if self._known is None else 0)

    def measure(self, first: int, block: Matrix) -> Singles:
        """Return the norms of a block's rows, rounded up to float32."""
        if self._known is not None and len(self._known.each):
            return self._known.each[first : first + len(block)]
        squares = np.empty(len(block))
        kernels.square_all(block, squares)
        return self.note(first, block, squares)

    def note(self, first: int, block: Matrix, squares: Vector) -> Singles:
        """Take the squared norms of a block, once; return its norms, rounded up."""
        stop = first + len(block)
        norms = self._each[first:stop] if len(self._each) else np.empty(len(block), np.float32)
        # Rounded up, to float32 too; inf or nan if one is not finite.
        above = np.sqrt(squares + self._d * TINY) * (1.0 + (self._d + 4) * UNIT)
        with np.errstate(over="ignore"):
            norms[:] = above * (1.0 + 2.0**-22) + 2.0**-148
        top = float(above.max())
        if not math.isfinite(top):
            check_finite(block, first)
            row = first + int(np.flatnonzero(~np.isfinite(squares))[0])
            raise ValueError(f"`atoms` must have norms below 1e154. Got a larger one in row {row}.")
        if top < _SQUARES_UNDERFLOW:
            top = min(top, math.sqrt(self._d) * float(np.abs(block).max()) * (1.0 + 8.0 * UNIT) + TINY)
        self._tops.append(top)
        return norms


# ---------------------------------------------------------------- the k best


class TopKScan:
    """The k best atoms of one query, over blocks that come in order; equal scores keep the smaller id.

    Parameters
    ----------
    question, i
        The query is number i.
    copy, scale
        Where ``scale * score`` of every atom is kept, excluded or not; (n,) float32.
    """

    def __init__(self, question: Question, i: int, copy: Singles | None = None, scale: float = 1.0) -> None:
        self._asked = question.queries, i, question.exclude
        self._k = question.k
        self._copy, self._scale = copy, scale
        self._floor = -math.inf
        self.scores: Vector = np.empty(0)
        self.ids: Ids = np.empty(0, np.int64)

    def look(self, first: int, block: Matrix, squares: Vector) -> tuple[Vector, Ids]:
        """Return the k best of a block, in no order; on any thread."""
        lead = _LEAD * self._k
        if self._k == 1 or self._floor > -math.inf or len(block) < 2 * lead:
            scores, ids = self._list(first, block, squares, self._floor)
            if self._k == 1 and len(ids) > 1 and scores[-2] < scores[-1]:  # they rise
                return scores[-1:], ids[-1:]
            return self._cut(scores, ids)
        # The k-th best of the first few rows is a floor for all others.
        scores, ids = self._cut(*self._list(first, block[:lead], squares[:lead], -math.inf))
        floor = float(scores.min()) if len(scores) == self._k else -math.inf
        more, others = self._list(first + lead, block[lead:], squares[lead:], floor)
        return self._cut(np.concatenate((scores, more)), np.concatenate((ids, others)))

    def _list(self, first: int, rows: Matrix, squares: Vector, floor: float) -> tuple[Vector, Ids]:
        """Scores and ids of rows at or above the floor, the best among them."""
        found = np.empty(len(rows)), np.empty(len(rows), np.int64)
        copy = _NO_COPY if self._copy is None else self._copy[first : first + len(rows)]
        aside = kernels.Aside(squares, copy, self._scale)
        count = kernels.scan_rows(rows, first, self._asked, floor, found, self._k == 1, aside)
        return found[0][:count], found[1][:count]

    def _cut(self, scores: Vector, ids: Ids) -> tuple[Vector, Ids]:
        """Keep the k best."""
        if len(ids) <= self._k:
            return scores, ids
        if len(ids) > 4 * self._k:
            last = np.partition(scores, len(ids) - self._k)[len(ids) - self._k]
            near = np.flatnonzero(scores >= last)
            scores, ids = scores[near], ids[near]
        order = np.lexsort((ids, -scores))[: self._k]
        return scores[order], ids[order]

    def add_scores(self, first: int, scores: Vector) -> None:
        """Take the scores of a block that were computed elsewhere, -inf for excluded atoms."""
        places = np.flatnonzero(scores >= self._floor if self._floor > -math.inf else scores > -math.inf)
        self.add(*self._cut(scores[places], places + first))

    def add(self, scores: Vector, ids: Ids) -> None:
        """Take what `look` gave of a block, after the blocks before it."""
        if len(self.ids):
            scores, ids = self._cut(np.concatenate((self.scores, scores)), np.concatenate((self.ids, ids)))
        self.scores, self.ids = scores, ids
        if len(ids) == self._k:
            self._floor = float(scores.min())


def full_pass(atoms: Atoms, recorder: NormRecorder, scans: Sequence[TopKScan], block: int) -> Norms:
    """Read all atoms once, by blocks of so many bytes, for some queries. Return the norms."""
    rows = block_rows(atoms, block)

    def work(task: tuple[int, Matrix]) -> tuple[int, list[tuple[Vector, Ids]]]:
        first, block = task
        squares = recorder.room(len(block))
        picked = [scans[0].look(first, block, squares)]
        if len(squares):
            recorder.note(first, block, squares)
        return len(block), picked + [scan.look(first, block, _NOTHING) for scan in scans[1:]]

    blocks = atoms.blocks(rows)
    for size, picked in map_ordered(work, blocks, blas=False) if rows < atoms.shape[0] else map(work, blocks):
        report_rows(size)
        for scan, part in zip(scans, picked, strict=True):
            scan.add(*part)
    return recorder.norms()
