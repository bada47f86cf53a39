"""Where the targets of a chunk are, whoever finds atoms for them."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from wolfhound.core import Ints, Vector
from wolfhound.gram._answers import Answers, make_answers, write_sorted
from wolfhound.many._pool_kernels import Ask, Points, Pools

FLAT = 3
"""Passes in a row without progress after which a target is given up."""

_COLUMNS = ("value", "lower", "slack", "passes", "best", "flat")


@dataclass(slots=True)
class ChunkState:
    """Where the targets of a chunk are."""

    ask: Ask
    pools: Pools
    points: Points
    value: Vector
    lower: Vector
    slack: Vector
    passes: Ints
    best: Vector
    flat: Ints

    def pick(self, rows: Ints) -> ChunkState:
        """Copy some targets."""
        mine = {name: getattr(self.ask, name)[rows] for name in ("targets", "norms", "goals")}
        ask = self.ask._replace(**mine)
        pools, points = Pools._make(c[rows] for c in self.pools), Points._make(c[rows] for c in self.points)
        return ChunkState(ask, pools, points, **{name: getattr(self, name)[rows] for name in _COLUMNS})

    def put(self, rows: Ints, part: ChunkState) -> None:
        """Write some targets back."""
        for mine, theirs in ((self.pools, part.pools), (self.points, part.points)):
            for column, other in zip(mine, theirs, strict=True):
                column[rows] = other
        for name in _COLUMNS:
            getattr(self, name)[rows] = getattr(part, name)

    @property
    def gap(self) -> Vector:
        """(m,) what is not proved yet."""
        return self.value - self.lower

    def settled(self) -> NDArray[np.bool_]:
        """Which targets need no more passes."""
        return np.asarray((self.gap <= self.ask.goals) | (self.flat >= FLAT))

    def note_progress(self, before: Vector) -> None:
        """Count passes in a row after which neither the gap nor f, `before` it, was clearly smaller."""
        fell = before > self.value + 0.01 * self.ask.goals
        self.flat = np.where(self.gap < 0.99 * self.best, 0, np.where(fell, self.flat, self.flat + 1))
        self.best = np.minimum(self.best, self.gap)

    def write(self, out: Answers, where: Ints) -> None:
        """Write atoms by decreasing weight, equal weights by id."""
        for t, place in enumerate(where):
            k = int(self.pools.active[t])
            write_sorted(self.pools.ids[t], self.pools.weights[t], k, out.ids[place], out.weights[place])
            out.support[place] = k

    def answers(self) -> Answers:
        """All but the codes."""
        m, wide = self.pools.weights.shape
        out = make_answers(np.empty((m, wide), np.int64), np.empty((m, wide)))
        self.write(out, np.arange(m))
        out.value[:], out.lower[:], out.goal[:] = self.value, self.lower, self.ask.goals
        out.slack[:], out.passes[:] = self.slack, self.passes
        return out


def begin_state(ask: Ask, cap: int) -> ChunkState:
    """Return the state of targets before anything is known, with up to `cap` active atoms each."""
    m, d = ask.targets.shape
    pools = Pools(
        np.zeros((m, pool_size(d)), np.int64),
        np.zeros(m, np.int64),
        np.zeros(m, np.int64),
        np.zeros((m, cap)),
    )
    points = Points(ask.targets.copy(), np.full(m, -np.inf), np.zeros((m, 6)))
    return ChunkState(
        ask,
        pools,
        points,
        np.full(m, np.inf),
        np.zeros(m),
        np.zeros(m),
        np.zeros(m, np.int64),
        np.full(m, np.inf),
        np.zeros(m, np.int64),
    )


def pool_size(d: int) -> int:
    """Most atoms in the pool of a target: three times as many as can be active."""
    return max(384, 3 * (d + 2))


def choose_room(limit: int, cap: int, d: int) -> int:
    """Pools keep active atoms only, unless few of many are to be chosen in the end."""
    return 0 if limit > cap else 3 * pool_size(d) // 4
