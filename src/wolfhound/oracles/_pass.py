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
from wolfhound.core import Atoms, Ids, Matrix, Vector, pulse
from wolfhound.oracles import _scan_kernels as kernels
from wolfhound.oracles._best import Best
from wolfhound.oracles._gauge import Gauge
from wolfhound.threads import ordered

_BLOCK = 32 << 20
"""Bytes of a block: with smaller ones too much time goes between two blocks."""


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
    copy: kernels.Singles | None = None
    scale: float = 1.0

    def look(self, first: int, scores: Vector) -> tuple[Vector, Ids]:
        """Pick what matters from the scores of a block; on any thread."""
        stop = first + len(scores)
        copy = kernels.NOTHING if self.copy is None else self.copy[first:stop]
        low, high = np.searchsorted(self.banned, (first, stop)) if len(self.banned) else (0, 0)
        hidden = self.banned[low:high] - first
        true = scores[hidden]
        scores[hidden] = -np.inf
        found = kernels.collect(scores, self.best.floor_for(scores), self.scale, copy)
        if self.copy is not None:
            copy[hidden] = self.scale * true
        return scores[found], found + first


def full_pass(atoms: Atoms, gauge: Gauge, watches: Sequence[Watch]) -> None:
    """Read all atoms once and let every watch keep its part."""
    rows = block_rows(atoms, _BLOCK)
    spare: list[Vector] = []

    def work(task: tuple[int, Matrix]) -> tuple[int, list[tuple[Vector, Ids]]]:
        first, block = task
        # Fresh memory for every block would cost a page fault per 512 scores.
        room = spare.pop() if spare else np.empty(rows)
        scores = room[: len(block)]
        gauge.score(first, block, watches[0].query, scores)
        picked = [watches[0].look(first, scores)]
        for watch in watches[1:]:
            kernels.score(block, watch.query, scores)
            picked.append(watch.look(first, scores))
        spare.append(room)
        return len(block), picked

    gauge.begin()
    for size, picked in ordered(work, atoms.blocks(rows)):
        pulse(size)
        for watch, part in zip(watches, picked, strict=True):
            watch.best.add(*part)
    gauge.finish()
