"""One pass over all atoms with the float64 loop, top scores kept on the way.

The outcome never depends on the number of threads: blocks are fixed, their
results are taken in order, and the best entries of a stream are unique.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from wolfhound.atoms import block_rows
from wolfhound.core import Atoms, Ids, Matrix, Singles, Vector
from wolfhound.oracles import _scan_kernels as kernels
from wolfhound.oracles._best import Best
from wolfhound.oracles._norms import Gauge, Norms
from wolfhound.oracles.indexes import in_files
from wolfhound.progress import report_rows
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


@dataclass(slots=True, kw_only=True)
class Watch:
    """What a pass keeps for one query.

    Attributes
    ----------
    query : (d,) float64
    banned : (e,) int64
        Atoms that must not be kept, ascending.
    best : Best
    copy : (n,) float32, optional
        Where ``scale * score`` of every atom is stored, banned or not.
    """

    query: Vector
    banned: Ids
    best: Best
    copy: Singles | None = None
    scale: float = 1.0

    def look(self, first: int, block: Matrix, squares: Vector, room: kernels.Room) -> tuple[Vector, Ids]:
        """Score a block and pick what matters; on any thread."""
        lead = self.best.lead(len(block))
        if not lead:
            return self._above(first, block, squares, room)
        scores, ids = self._above(first, block[:lead], squares[:lead], room)
        above = scores > self.best.floor_for(scores)
        more, others = self._above(first + lead, block[lead:], squares[lead:], room)
        return np.concatenate((scores[above], more)), np.concatenate((ids[above], others))

    def _above(self, first: int, rows: Matrix, squares: Vector, room: kernels.Room) -> tuple[Vector, Ids]:
        """Return scores and ids of rows above the floor, ids ascending."""
        copy = _NO_COPY if self.copy is None else self.copy[first : first + len(rows)]
        aside = kernels.Aside(squares, copy, self.scale)
        count = kernels.sweep(rows, self.query, self.best.floor, aside, room)
        scores, ids = room.scores[:count], room.found[:count] + first
        if len(self.banned):
            place = np.searchsorted(self.banned[:-1], ids)
            allowed = self.banned[place] != ids
            return scores[allowed], ids[allowed]
        return scores.copy(), ids


def full_pass(atoms: Atoms, gauge: Gauge, watches: Sequence[Watch], block: int) -> Norms:
    """Read all atoms once, by blocks of so many bytes; let every watch keep its part. Return the norms."""
    rows = block_rows(atoms, block)
    spare: list[kernels.Room] = []

    def work(task: tuple[int, Matrix]) -> tuple[int, list[tuple[Vector, Ids]]]:
        first, block = task
        try:
            room = spare.pop()
        except IndexError:  # asking first would leave another thread time to take it
            room = kernels.Room(np.empty(rows), np.empty(rows, np.int64))
        squares = gauge.room(len(block))
        picked = [watches[0].look(first, block, squares, room)]
        if len(squares):
            gauge.note(first, block, squares)
        picked += [watch.look(first, block, _NOTHING, room) for watch in watches[1:]]
        spare.append(room)
        return len(block), picked

    blocks = atoms.blocks(rows)
    for size, picked in map_ordered(work, blocks, blas=False) if rows < atoms.shape[0] else map(work, blocks):
        report_rows(size)
        for watch, part in zip(watches, picked, strict=True):
            watch.best.add(*part)
    return gauge.norms()
