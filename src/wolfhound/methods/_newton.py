"""Fully corrective moves over the pool for smooth f: Newton models on a simplex.

At x the model is f's second-order expansion in the lifted space over the active
atoms and the hottest pool atoms, a simplex quadratic program. After a short step
the old point stays as one virtual atom, which keeps its weights.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import numpy as np

from wolfhound.core import Ints, Line, Matrix, Objective, Point, Vector, pulse
from wolfhound.methods._pool import Pool, best_of
from wolfhound.methods.steps import LineSearch
from wolfhound.oracles._hits import rescore
from wolfhound.simplex import BLOCK, Corral, Dense, correct

HOT = 64
"""Pool atoms that join a model."""

CLOSE = 256
"""Pool atoms priced between two pricings of the whole pool."""

FEW = 8
"""Up to so many times as many, all are priced every time: gathering the close ones costs, too."""

WORN = 0.4
"""The close atoms are used up once their gap is below this share of the pool's."""

TURNS = 8
"""Most models between two pricings of the whole pool."""

SOLVED = 0.03
"""The model is solved to this share of the gap."""

FLAT = 0.1
"""A full step is taken if the slope there is at most this share of the first."""

CHORD = 0.25
"""The curvature is kept while it changes by less than this share on a step."""

FARTHEST = 64.0
"""Longest step, where a curvature that is far too large makes the model too timid."""

PATIENCE = 6
GAIN = 0.7
VIRTUAL = -1


class NewtonInner:
    """Minimises f over the hull of the pool by Newton models.

    Parameters
    ----------
    objective
        With a lift.
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
        lifted = self._lift(point.x[None])
        # Only rows that are used take memory: room for many costs nothing.
        self._store = np.empty((64 * HOT, lifted.shape[1]))
        self._stored = 0
        self._slot = np.full(pool.size, -1, np.int64)
        self._corral = Corral(min(len(point.x), lifted.shape[1]) + 2 + BLOCK, 1.0)
        # Several atoms start as one virtual atom: the first models choose among the pool.
        single = len(positions) == 1
        self._virtual = None if single else (positions.copy(), weights.copy())
        self._virtual_x = point.x
        self._active = positions.copy() if single else np.array([VIRTUAL])
        self._weights = np.ones(1)
        self._lifted = lifted
        self._gram = np.empty((0, 0))
        self._curvature = np.empty(0)
        self._stale = True
        self._close = positions
        self._close_rows = pool.rows[:0]
        self._worn, self._turns = 0.0, 0

    def _lift(self, rows: Matrix) -> Vector:
        lifted = self._objective.lift(rows)
        if lifted is None:
            raise TypeError("a Newton model needs an objective with a lift")
        return lifted.astype(np.float64, copy=False)

    @property
    def positions(self) -> Ints:
        """(k,) pool positions of the active atoms."""
        return np.flatnonzero(self._dense())

    @property
    def weights(self) -> Vector:
        """(k,) their weights."""
        dense = self._dense()
        return dense[dense > 0.0]

    def _dense(self) -> Vector:
        """Weights by pool position, the virtual atom resolved."""
        out = np.zeros(self._pool.size)
        real = self._active >= 0
        out[self._active[real]] = self._weights[real]
        if self._virtual is not None:
            out[self._virtual[0]] += self._weights[~real].sum() * self._virtual[1]
        return out

    def moved(self, where: Ints) -> None:
        """The pool's positions changed: old position -> new."""
        real = self._active >= 0
        self._active[real] = where[self._active[real]]
        if self._virtual is not None:
            self._virtual = where[self._virtual[0]], self._virtual[1]
        self._slot = np.full(self._pool.size, -1, np.int64)
        self._stored = 0

    def improve(self, *, stop: float, tol: float, budget: float) -> int:
        """Move until f <= stop, the pool's gap < tol, or work > budget.

        Returns
        -------
        joined : int
            Atoms added on the way.
        """
        fresh = np.full(self._pool.size - len(self._slot), -1, np.int64)
        self._slot = np.concatenate([self._slot, fresh])
        joined, idle, least = 0, 0, np.inf
        self._turns = 0
        while True:
            pulse(0)
            where, violation, full = self._price(tol)
            gap = float(violation.max())
            if full:
                idle = idle + 1 if gap > GAIN * least else 0
                least = min(gap, least)
            budget -= len(where) * len(self._point.x) + len(self._active) ** 2 * self._lifted.shape[1]
            if gap <= tol or self._point.upper <= stop or idle >= PATIENCE or budget <= 0.0:
                return joined
            violation[np.isin(where, self._active)] = -np.inf
            hot = best_of(violation, HOT)
            joined += self._step(where[hot[violation[hot] > tol]], gap, max(SOLVED * gap, 0.5 * tol))
            self._stale = self._stale or idle > 0

    def _price(self, tol: float) -> tuple[Ints, Vector, bool]:
        """Return pool positions, their violations, and whether these are all.

        Between two pricings of all only the close atoms are priced, a few times
        and while they promise a good share of what all did.
        """
        grad, here = self._point.grad, float(self._point.grad @ self._point.x)
        if self._turns > 0:
            self._turns -= 1
            violation = here - rescore(self._close_rows, grad)
            if violation.max() >= self._worn:
                return self._close, violation, False
        violation = here - rescore(self._pool.rows, grad)
        if len(violation) > FEW * CLOSE:
            self._close = np.union1d(best_of(violation, CLOSE), self._active[self._active >= 0])
            self._close_rows = self._pool.rows[self._close]
            self._worn = max(WORN * float(violation.max()), tol)
            self._turns = TURNS
        return np.arange(len(violation)), violation, True

    def _hot_lifts(self, hot: Ints) -> Vector:
        """Lifted rows of these pool positions, each lifted once."""
        new = hot[self._slot[hot] < 0]
        end = self._stored + len(new)
        if end > len(self._store):
            self._store = np.concatenate([self._store[: self._stored], np.empty((end, self._store.shape[1]))])
        self._store[self._stored : end] = self._lift(self._pool.rows[new])
        self._slot[new] = np.arange(self._stored, end)
        self._stored = end
        return self._store[self._slot[hot]]

    def _step(self, hot: Ints, gap: float, tol: float) -> int:
        """One model and one line search; returns how many atoms joined."""
        z = self._weights @ self._lifted
        slope = self._objective.slope(self._point)
        lifts = self._hot_lifts(hot)
        rows = np.concatenate([self._lifted, lifts])
        gram = self._model_gram(rows, lifts)
        linear = rows @ (self._curvature * z - slope)
        model = Dense(gram, linear, tol)
        if self._stale:
            self._corral.clear(float(gram.trace()) / len(gram))
            self._corral.adopt(np.arange(len(self._active)), self._weights, model)
        else:
            self._corral.relinearize(linear[: len(self._active)])
        joined = correct(self._corral, model)
        self._search(np.concatenate([self._active, hot]), rows, gram, z, gap)
        return joined

    def _model_gram(self, rows: Vector, lifts: Vector) -> Vector:
        if self._stale:
            self._curvature = self._objective.curvature(self._point)
            scaled = rows * np.sqrt(self._curvature)
            return np.asarray(scaled @ scaled.T)
        below = (lifts * self._curvature) @ rows.T
        k = len(self._gram)
        return np.block([[self._gram, below[:, :k].T], [below[:, :k], below[:, k:]]])

    def _search(self, places: Ints, rows: Vector, gram: Vector, z: Vector, gap: float) -> None:
        """Go towards the model's minimum."""
        labels, weights = self._corral.labels, self._corral.weights / self._corral.weights.sum()
        active, lifted = places[labels], rows[labels]
        real = active >= 0
        x = weights[real] @ self._pool.rows[active[real]].astype(np.float64)
        x += weights[~real].sum() * self._virtual_x
        line = self._objective.line(self._point, x - self._point.x)
        reach = step_length(line, self._end(labels, weights), gap)
        if reach < 1.0:
            self._blend(reach, active[real], weights[real], lifted[real], z, float(weights[~real].sum()))
            self._point = line.at(reach)
            return
        self._point = line.at(reach)
        if reach > 1.0:
            weights = self._before(labels) + reach * (weights - self._before(labels))
            weights = np.maximum(weights, 0.0) / np.maximum(weights, 0.0).sum()
            self._corral.weights[:] = weights
        dz = weights @ lifted - z
        change = (self._objective.curvature(self._point) * dz) @ dz / max((self._curvature * dz) @ dz, 1e-300)
        self._active, self._weights, self._lifted = active, weights, lifted
        self._gram = gram[np.ix_(labels, labels)]
        self._corral.labels[:] = np.arange(len(labels))
        self._stale = abs(change - 1.0) > CHORD

    def _before(self, labels: Ints) -> Vector:
        """Weights that the labels of a model had before it."""
        return np.concatenate([self._weights, np.zeros(labels.max() + 1)])[labels]

    def _end(self, labels: Ints, weights: Vector) -> float:
        """How far beyond the model's minimum all weights stay positive; 1 if atoms left."""
        before = self._before(labels)
        if before.sum() < 1.0 - 1e-12:
            return 1.0
        fall = before - weights
        return float((before[fall > 0.0] / fall[fall > 0.0]).min(initial=FARTHEST))

    def _blend(
        self, reach: float, active: Ints, weights: Vector, lifted: Vector, z: Vector, virtual: float
    ) -> None:
        """After a short step the old point, with its weights, is the virtual atom."""
        share = 1.0 - reach + reach * virtual
        old = self._dense() * (1.0 - reach)
        previous = np.zeros(len(z))
        if self._virtual is not None and virtual > 0.0:
            old[self._virtual[0]] += reach * virtual * self._virtual[1]
            previous = reach * virtual * self._lifted[self._active < 0][0]
        where = np.flatnonzero(old)
        blended = ((1.0 - reach) * z + previous) / share
        self._virtual_x = ((1.0 - reach) * self._point.x + reach * virtual * self._virtual_x) / share
        self._virtual = where, old[where] / share
        self._active = np.concatenate([active, [VIRTUAL]])
        self._weights = np.concatenate([reach * weights, [share]])
        self._lifted = np.concatenate([lifted, blended[None]])
        self._stale = True


def step_length(line: Line, end: float, gap: float) -> float:
    """1 if the slope there is flat, else near the minimiser on [0, end], end >= 1."""
    first, last = line.slope(0.0), line.slope(1.0)
    if not first < 0.0:
        # The model's start is x only up to dependent atoms and rounding. A step that costs
        # little beside the gap gets rid of them.
        return 1.0 if last <= FLAT * gap else 0.0
    if abs(last) <= FLAT * abs(first) or (last < 0.0 and end == 1.0):
        return 1.0
    return LineSearch(rtol=0.5 * FLAT)(line, end if last < 0.0 else 1.0, 0, 0.0)[0]
