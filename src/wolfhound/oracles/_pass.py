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
from wolfhound.oracles._gauge import Gauge
from wolfhound.oracles._hits import Best, highest
from wolfhound.threads import ordered


class Windows:
    """The best atom of each window of consecutive ids."""

    def __init__(self, n: int, window: int) -> None:
        self.window = window
        self.scores = np.full(-(-n // window), -np.inf)
        self.ids = np.full(len(self.scores), -1, np.int64)

    def look(self, first: int, scores: Vector) -> tuple[int, Vector, Ids]:
        """Return (first window, best scores, ids) of a block."""
        base = first // self.window
        size = (first + len(scores) - 1) // self.window + 1 - base
        best, where = np.full(size, -np.inf), np.full(size, -1, np.int64)
        kernels.peaks(scores, first, self.window, best, where)
        return base, best, where

    def add(self, base: int, best: Vector, where: Ids) -> None:
        """Take the windows of a block; blocks come in order."""
        here = slice(base, base + len(best))
        better = best > self.scores[here]
        self.scores[here][better] = best[better]
        self.ids[here][better] = where[better]

    def highest(self, count: int) -> tuple[Vector, Ids]:
        """Return scores and ids of the `count` best windows, ids ascending."""
        marked = highest(self.scores, count) & (self.ids >= 0)
        return self.scores[marked], self.ids[marked]


@dataclass(slots=True, kw_only=True)
class Watch:
    """What a pass keeps for one query.

    Attributes
    ----------
    query : (d,) float64
    banned : (e,) int64
        Atoms that must not be kept, ascending.
    best : Best
    windows : Windows, optional
    copy : (n,) float32, optional
        Where ``scale * score`` of every atom is stored, banned or not.
    """

    query: Vector
    banned: Ids
    best: Best
    windows: Windows | None = None
    copy: kernels.Singles | None = None
    scale: float = 1.0

    def look(self, first: int, scores: Vector) -> tuple[Vector, Ids, tuple[int, Vector, Ids] | None]:
        """Pick what matters from the scores of a block; on any thread."""
        stop = first + len(scores)
        if self.copy is not None:
            kernels.shrink(scores, self.scale, self.copy[first:stop])
        if len(self.banned):
            low, high = np.searchsorted(self.banned, (first, stop))
            scores[self.banned[low:high] - first] = -np.inf
        found = kernels.collect(scores, self.best.floor_for(scores))
        tops = None if self.windows is None else self.windows.look(first, scores)
        return scores[found], found + first, tops

    def add(self, scores: Vector, ids: Ids, tops: tuple[int, Vector, Ids] | None) -> None:
        """Keep what `look` has picked; blocks come in order."""
        self.best.add(scores, ids)
        if self.windows is not None and tops is not None:
            self.windows.add(*tops)


def full_pass(atoms: Atoms, gauge: Gauge, watches: Sequence[Watch]) -> None:
    """Read all atoms once and let every watch keep its part."""
    rows = block_rows(atoms)
    spare: list[Vector] = []

    def work(
        task: tuple[int, Matrix],
    ) -> tuple[int, list[tuple[Vector, Ids, tuple[int, Vector, Ids] | None]]]:
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
            watch.add(*part)
    gauge.finish()
