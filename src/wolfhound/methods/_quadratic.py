"""Fully corrective moves over the pool for quadratic f.

f = 1/2 |z - c|^2 + const in the lifted space, z the lift of x. Lifted rows are
shifted by a centre of the pool, which changes nothing (weights sum to 1) but
keeps the factor well conditioned when the atoms lie far from the origin.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from wolfhound.compiled.corral import BLOCK, Corral, corrections, most_violated
from wolfhound.core import Ints, Matrix, Objective, Point, Vector
from wolfhound.methods._ask import cutgap
from wolfhound.methods._curved import lift
from wolfhound.methods._pool import AtomPool, best_of
from wolfhound.oracles._hits import rescore
from wolfhound.progress import report_rows
from wolfhound.rounding import UNIT, norm

CLOSE = 256
"""Least number of pool atoms priced between two pricings of the whole pool."""

WORN = 0.4
"""The close atoms are used up once their gap is below this share of the pool's."""

SHARE = 0.3
"""Atoms join whose violation is at least this share of the best."""

SAMPLE = 32


class QuadraticInner:
    """Minimises a quadratic f over the hull of the pool, and keeps factor and weights.

    The caller, who shares the pool, may add atoms: see `renumber`.
    """

    def __init__(
        self, objective: Objective, pool: AtomPool, point: Point, positions: Ints, weights: Vector
    ) -> None:
        self._pool = pool
        self._objective = objective
        slope = objective.slope(point)
        sample = pool.rows[:SAMPLE].astype(np.float64)
        self._centre = lift(objective, sample.mean(0)[None])[0]
        self._target = lift(objective, point.x[None])[0] - slope - self._centre
        self._const = point.value - 0.5 * float(slope @ slope)
        self._span = float(np.sqrt((pool.rows[:CLOSE].astype(np.float64) ** 2).sum(1).max(initial=0.0)))
        self._far = norm(self._target) + norm(self._centre)
        width = len(slope)
        room = width + 1 + BLOCK
        self._lifted = np.zeros((room, width))
        self._free = list(range(room - 1, -1, -1))
        self._used = 0
        self._slot = np.full(pool.size, -1, np.int64)
        lifted = lift(objective, sample) - self._centre
        self._corral = Corral(room, float((lifted * lifted).sum(1).mean()))
        self._new, self._fresh = np.empty(0, np.int64), np.empty((0, width))
        self._close = np.empty(0, np.int64)
        self._close_rows = pool.rows[:0]
        self._worn = 0.0
        self._stop, self._tol, self._budget, self.work = -np.inf, 0.0, 0.0, 0.0
        self._slope = slope
        self._corral.adopt(positions, weights, self)

    @property
    def positions(self) -> Ints:
        """(k,) pool positions of the active atoms."""
        return self._corral.labels

    @property
    def weights(self) -> Vector:
        """(k,) their weights."""
        return self._corral.weights

    @property
    def point(self) -> Point:
        """f as it was priced last, without bounds on its rounding."""
        weights, slope = self.weights / self.weights.sum(), self._slope
        x = weights @ self._pool.rows[self.positions].astype(np.float64)
        return Point(x=x, value=0.5 * float(slope @ slope) + self._const, grad=self._objective.pull(slope))

    def improve(self, *, stop: float, tol: float, budget: float) -> Iterator[int]:
        """Move until f <= stop, the pool's proved gap < tol, or work > budget; yield how many joined."""
        self._stop, self._tol, self._budget, self.work = stop, tol, budget, 0.0
        self._slot = np.concatenate([self._slot, np.full(self._pool.size - len(self._slot), -1)])
        self._close = self._close[:0]
        return corrections(self._corral, self)

    def renumber(self, where: Ints) -> None:
        """The pool's positions changed: old position -> new."""
        self._corral.labels[:] = where[self._corral.labels]
        slots = self._slot[self._slot >= 0]
        positions = where[np.flatnonzero(self._slot >= 0)]
        self._slot = np.full(self._pool.size, -1)
        self._slot[positions] = slots

    # ------------------------------------------------------------ Model of a corral

    def price(self, corral: Corral) -> tuple[float, Ints]:
        """Return 1/2 |z - c|^2 and the pool positions that promise most."""
        report_rows(0)
        held = np.zeros(self._used)
        held[self._slot[corral.labels]] = corral.weights
        self._slope = slope = held @ self._lifted[: self._used] - self._target
        excess = float(slope @ slope)
        nothing = self._close[:0]
        value = 0.5 * excess
        if value + self._const <= self._stop or self.work >= self._budget:
            return value, nothing
        grad = self._objective.pull(slope)
        here = float(slope @ (slope + self._target + self._centre))
        # Both sides of a violation are sums that may cancel.
        noise = 16.0 * UNIT * (norm(grad) * self._span + excess**0.5 * self._far)
        if len(self._close):
            violation = self._violation(self._close, self._close_rows, grad, here)
            if violation.max() >= self._worn:
                return value, self._candidates(self._close, violation)
        violation = self._violation(None, self._pool.rows, grad, here)
        best = float(violation.max())
        if best <= noise or cutgap(best, excess) < self._tol:
            return value, nothing
        close = best_of(violation, max(CLOSE, corral.size))
        if 2 * len(close) < len(violation):
            self._close, self._close_rows = close, self._pool.rows[close]
            self._worn = WORN * best
            violation = violation[close]
        else:
            close = np.arange(len(violation))
        return value, self._candidates(close, violation)

    def _violation(self, which: Ints | None, rows: Matrix, grad: Vector, here: float) -> Vector:
        self.work += rows.size
        violation = here - rescore(rows, grad)
        violation[(self._slot if which is None else self._slot[which]) >= 0] = -np.inf
        return violation

    def _candidates(self, positions: Ints, violation: Vector) -> Ints:
        return positions[most_violated(violation, SHARE * violation.max())[:BLOCK]]

    def gram(self, new: Ints, held: Ints) -> tuple[Vector, Vector, Vector]:
        """(cross, gram, linear) of the new positions."""
        self._fresh = lift(self._objective, self._pool.rows[new].astype(np.float64)) - self._centre
        self.work += self._fresh.size * (len(held) + self._pool.rows.shape[1])
        self._new = new
        cross = (self._fresh @ self._lifted[: self._used].T)[:, self._slot[held]]
        return cross, self._fresh @ self._fresh.T, self._fresh @ self._target

    def swap(self, joined: Ints, left: Ints) -> None:
        """Keep the lifted rows of the active atoms."""
        slots = self._free[len(self._free) - len(joined) :][::-1]
        del self._free[len(self._free) - len(joined) :]
        self._used = max(self._used, 1 + max(slots, default=-1))
        self._lifted[slots] = self._fresh[np.isin(self._new, joined)]
        self._slot[joined] = slots
        self._free.extend(self._slot[left].tolist())
        self._slot[left] = -1
