"""Blended pairwise moves over the pool, for f without a lift.

Slower than a model of f, but all it needs is value and gradient (Tsuji, Tanaka
and Pokutta 2022).
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import numpy as np

from wolfhound.core import UNIT, Ints, Objective, Point, Vector, pulse
from wolfhound.methods._pool import Pool
from wolfhound.methods.steps import LineSearch
from wolfhound.oracles._hits import rescore

REFRESH = 64
"""Steps after which x is summed up anew from its weights."""

PATIENCE = 8
"""Steps without progress after which nothing more is to be had."""


class PairwiseInner:
    """Minimises f over the hull of the pool by pairwise and forward steps.

    Parameters
    ----------
    objective
        Any.
    pool
        Shared with the caller, who may add atoms; see `moved`.
    point
        The start, whose `positions` in the pool carry `weights`.
    """

    def __init__(
        self, objective: Objective, pool: Pool, point: Point, positions: Ints, weights: Vector
    ) -> None:
        self._objective = objective
        self._pool = pool
        self._point = point
        self._weights = np.zeros(pool.size)
        self._weights[positions] = weights
        self._step = LineSearch(rtol=1e-3)

    @property
    def positions(self) -> Ints:
        """(k,) pool positions of the active atoms."""
        return np.flatnonzero(self._weights)

    @property
    def weights(self) -> Vector:
        """(k,) their weights."""
        return self._weights[self._weights > 0.0]

    def moved(self, where: Ints) -> None:
        """The pool's positions changed: old position -> new."""
        positions, weights = self.positions, self.weights
        self._weights = np.zeros(self._pool.size)
        self._weights[where[positions]] = weights

    def improve(self, *, stop: float, tol: float, budget: float) -> int:
        """Move until f <= stop, the pool's gap < tol, or work > budget.

        Returns
        -------
        joined : int
            Atoms added on the way.
        """
        self._weights = np.concatenate([self._weights, np.zeros(self._pool.size - len(self._weights))])
        joined, idle, steps = 0, 0, 0
        while True:
            pulse(0)
            scores = -rescore(self._pool.rows, self._point.grad)
            best = int(scores.argmax())
            gap = float(scores[best] + self._point.grad @ self._point.x)
            budget -= self._pool.rows.size
            if gap <= tol or self._point.upper <= stop or idle >= PATIENCE or budget <= 0.0:
                return joined
            before = self._point.value
            joined += int(self._weights[best] == 0.0)
            self._move(scores, best, gap)
            steps += 1
            if steps % REFRESH == 0:
                self._refresh()
            idle = 0 if self._point.value < before - 4.0 * UNIT * abs(before) else idle + 1

    def _move(self, scores: Vector, best: int, gap: float) -> None:
        """Swap weight inside the active set if that promises more, else add."""
        active = self.positions
        away = active[scores[active].argmin()]
        towards = active[scores[active].argmax()]
        pairwise = scores[towards] - scores[away] >= gap
        rows = self._pool.rows
        origin = rows[away].astype(np.float64) if pairwise else self._point.x
        target = towards if pairwise else best
        line = self._objective.line(self._point, rows[target].astype(np.float64) - origin)
        end = float(self._weights[away]) if pairwise else 1.0
        reach, _ = self._step(line, end, 0, 0.0)
        if pairwise:
            self._weights[away] = 0.0 if reach == end else self._weights[away] - reach
        else:
            self._weights *= 1.0 - reach
        self._weights[target] += reach
        self._point = line.at(reach)

    def _refresh(self) -> None:
        active = self.positions
        shares = self._weights[active] / self._weights[active].sum()
        self._weights[active] = shares
        self._point = self._objective.at(shares @ self._pool.rows[active].astype(np.float64))
