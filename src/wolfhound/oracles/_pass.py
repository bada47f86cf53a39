"""One pass over all atoms with the float64 loop, top scores kept on the way.

The outcome never depends on the number of threads: blocks are fixed, their
results are taken in order, and the best entries of a stream are unique.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from wolfhound.atoms import block_rows
from wolfhound.core import Atoms, Ids, Matrix, Singles, Vector
from wolfhound.oracles import _scan_kernels as kernels
from wolfhound.oracles._best import Best
from wolfhound.oracles._norms import Gauge, Norms
from wolfhound.pulse import pulse
from wolfhound.threads import map_ordered

BLOCK = 32 << 20
"""Bytes of a block: with smaller ones too much time goes between two blocks."""

_NOTHING: Vector = np.empty(0)
_NO_COPY: Singles = np.empty(0, np.float32)


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


def full_pass(atoms: Atoms, gauge: Gauge, watches: Sequence[Watch]) -> Norms:
    """Read all atoms once and let every watch keep its part; return what was measured."""
    rows = block_rows(atoms, BLOCK)
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
        pulse(size)
        for watch, part in zip(watches, picked, strict=True):
            watch.best.add(*part)
    return gauge.norms()
