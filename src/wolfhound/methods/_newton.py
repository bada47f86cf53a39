"""Fully corrective moves over the pool for smooth f: Newton models on a simplex.

At x the model is f's second-order expansion over the active atoms and promising
ones of the pool, a simplex quadratic program: over the hottest, each lifted once,
or over many where a lift costs nothing. After a short step the old point stays
as one virtual atom, which keeps its weights.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from wolfhound.compiled.corral import BLOCK, Corral, correct
from wolfhound.core import Ints, Line, Objective, Point, Vector
from wolfhound.methods._curved import Curved, Hot, Near, Space
from wolfhound.methods._pool import AtomPool, best_of
from wolfhound.methods._secant import Secant
from wolfhound.methods.steps import LineSearch
from wolfhound.oracles._hits import rescore
from wolfhound.progress import report_rows
from wolfhound.rounding import UNIT, norm

HOT = 64
"""Pool atoms that join a model where lifts are dear."""

NEAR = 128
"""Least number of the pool's best atoms that are priced between two pricings of all."""

SPREAD = 128
"""Most others beside them, evenly from the pool: the best may be neighbours of one peak."""

WORN = 0.1
"""The near atoms are used up once their gap is below this share of the pool's."""

CAREFUL = 4
"""Both are so many times larger where a model costs more than pricing all."""

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

SAMPLE = 32
GAIN = 0.7
VIRTUAL = -1


class NearAtoms:
    """The pool's best atoms, and some of all: priced alone between two pricings of the whole pool.

    With `care`, so many times more atoms are near.
    """

    def __init__(self, pool: AtomPool, point: Point, *, care: int) -> None:
        self._pool = pool
        self._care = care
        self._scores, self._scored = np.empty(0), point
        self.positions, self.rows = np.empty(0, np.int64), pool.rows[:0]
        self._worn = 0.0
        self.turns = 0

    def forget(self) -> None:
        """Forget all scores: the pool's positions changed."""
        self._scores = self._scores[:0]

    def find(self, active: Ints) -> tuple[Ints, Ints]:
        """Return which near atoms are active, and as which."""
        at = np.minimum(np.searchsorted(self.positions, active), len(self.positions) - 1)
        labels = np.flatnonzero(self.positions[at] == active)
        return at[labels], labels

    def price(self, point: Point, active: int, tol: float) -> tuple[Vector, bool]:
        """Return violations of the near atoms, and whether the largest is the pool's.

        Between two pricings of all only the near atoms are priced, a few times
        and while they promise a good share of what all did.
        """
        grad, here = point.grad, float(point.grad @ point.x)
        if self.turns > 0:
            self.turns -= 1
            violation = here - rescore(self.rows, grad)
            if violation.max() >= max(self._worn, tol):
                return violation, False
        # A pass only adds atoms: the others were scored at this point before.
        known = self._scores if self._scored is point else self._scores[:0]
        fresh = rescore(self._pool.rows[len(known) :], grad)
        self._scores, self._scored = np.concatenate([known, fresh]), point
        violation = here - self._scores
        best, size = max(self._care * NEAR, active), len(violation)
        if size <= 2 * max(best + SPREAD, self._care * (NEAR + SPREAD)):
            self.positions, self.rows = np.arange(size), self._pool.rows
            return violation, True
        self.positions = np.union1d(best_of(violation, best), np.arange(0, size, -(-size // SPREAD)))
        self.rows = self._pool.rows[self.positions]
        self._worn, self.turns = self._care * WORN * float(violation.max()), TURNS
        return violation[self.positions], True


class PoolLifts:
    """Lifted rows of the pool, each lifted once, when it is first taken."""

    def __init__(self, pool: AtomPool, curved: Space, width: int) -> None:
        self._pool = pool
        self._curved = curved
        # Only rows that are used take memory: room for many costs nothing.
        self._store = np.empty((0 if curved.cheap else 64 * HOT, width))
        self.clear()

    def clear(self) -> None:
        """Begin anew: the pool's positions changed."""
        self._slot = np.full(self._pool.size, -1, np.int64)
        self._used = 0

    def take(self, positions: Ints) -> Vector:
        """(r, p) lifted rows of these pool positions."""
        if len(self._slot) < self._pool.size:
            fresh = np.full(self._pool.size - len(self._slot), -1, np.int64)
            self._slot = np.concatenate([self._slot, fresh])
        new = positions[self._slot[positions] < 0]
        end = self._used + len(new)
        if end > len(self._store):
            self._store = np.concatenate([self._store[: self._used], np.empty((end, self._store.shape[1]))])
        self._store[self._used : end] = self._curved.lift(self._pool.rows[new])
        self._slot[new] = np.arange(self._used, end)
        self._used = end
        return self._store[self._slot[positions]]


class NewtonInner:
    """Minimises f over the hull of the pool by Newton models.

    The caller, who shares the pool, may add atoms: see `renumber`. No model holds more atoms than there are,
    `most`, however many dimensions they have.
    """

    def __init__(
        self,
        objective: Objective,
        pool: AtomPool,
        point: Point,
        positions: Ints,
        weights: Vector,
        *,
        most: int = 1 << 62,
    ) -> None:
        self._objective = objective
        self._pool = pool
        self._point = point
        lifts = objective.lift(pool.rows[:1]) is not None
        self._curved: Space = Curved(objective, point.x) if lifts else Secant(point, pool.rows)
        lifted = self._curved.lift(point.x[None])
        self._lifts = PoolLifts(pool, self._curved, lifted.shape[1])
        self._near = NearAtoms(pool, point, care=1 if self._curved.diagonal else CAREFUL)
        self._corral = Corral(min(len(point.x), lifted.shape[1], most) + 2 + BLOCK, 1.0)
        # Several atoms start as one virtual atom: the first models choose among the pool.
        single = len(positions) == 1
        self._virtual = None if single else (positions.copy(), weights.copy())
        self._virtual_x = point.x
        self._active = positions.copy() if single else np.array([VIRTUAL])
        self._weights = np.ones(1)
        self._lifted = lifted
        self._known = np.empty((0, 0))
        self._stale = True
        self._span = float(np.linalg.norm(pool.rows[:SAMPLE].astype(np.float64), axis=1).max())
        self.work = 0.0

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

    def renumber(self, where: Ints) -> None:
        """The pool's positions changed: old position -> new."""
        real = self._active >= 0
        self._active[real] = where[self._active[real]]
        if self._virtual is not None:
            self._virtual = where[self._virtual[0]], self._virtual[1]
        self._lifts.clear()
        self._near.forget()

    @property
    def point(self) -> Point:
        """f where the last step led."""
        return self._point

    def improve(self, *, stop: float, tol: float, budget: float) -> Iterator[int]:
        """Move until f <= stop, the pool's gap < tol, or work > budget; yield how many atoms joined."""
        idle, least, self.work = 0, np.inf, 0.0
        self._near.turns = 0
        while True:
            report_rows(0)
            violation, full = self._near.price(self._point, len(self._active), tol)
            gap = float(violation.max())
            if full:
                idle = idle + 1 if gap > GAIN * least else 0
                least = min(gap, least)
            priced = self._pool.size if full else len(violation)
            self.work += priced * len(self._point.x) + len(self._active) ** 2 * self._lifted.shape[1]
            done = gap <= tol or self._point.upper <= stop or idle >= self._curved.patience
            if done or self.work >= budget:
                return
            self._stale = self._stale or idle > 0
            joined = self._step(violation, gap, tol)
            self.work += joined * len(violation) * len(self._point.x)
            yield joined

    def _step(self, violation: Vector, gap: float, tol: float) -> int:
        """One model and one line search; returns how many atoms joined."""
        if self._stale:
            self._curved.move(self._point)
            self._known = self._known[:0, :0]
        accepted, corral, k = max(SOLVED * gap, 0.5 * tol), self._corral, len(self._active)
        others, model = self._model(violation, tol, accepted)
        if self._stale:
            corral.clear(model.scale)
            corral.adopt(np.arange(k), self._weights, model)
        else:
            corral.relinearize(model.linear(np.arange(k)))
        joined = correct(corral, model)
        self._search(np.concatenate([self._active, others]), model, gap)
        return joined

    def _model(self, violation: Vector, tol: float, accepted: float) -> tuple[Ints, Hot | Near]:
        """Return the other atoms of a model, and the model."""
        curved, point, near, active = self._curved, self._point, self._near, self._lifted
        places, labels = near.find(self._active)
        if curved.cheap:
            # Both sides of a violation are sums that may cancel.
            size = norm(point.grad) * (norm(point.x) + self._span)
            accepted = max(accepted, 16.0 * UNIT * size)
            twins = np.full(len(near.positions), -1)
            twins[places] = labels
            model = Near(curved, point, active=active, others=near.rows, twins=twins, tol=accepted)
            return near.positions, model
        violation[places] = -np.inf
        hot = best_of(violation, HOT)
        others = near.positions[hot[violation[hot] > tol]]
        linear, lifts = curved.bend(self._z) - self._objective.slope(point), self._lifts.take(others)
        return others, Hot(curved, linear, active=active, others=lifts, known=self._known, tol=accepted)

    @property
    def _z(self) -> Vector:
        """The point in the space of the models."""
        return np.asarray(self._weights @ self._lifted)

    def _search(self, places: Ints, model: Hot | Near, gap: float) -> None:
        """Go towards the model's minimum."""
        labels, weights = self._corral.labels, self._corral.weights / self._corral.weights.sum()
        active, lifted = places[labels], model.rows(labels)
        real = active >= 0
        line = self._objective.line(self._point, self._mix(active, weights) - self._point.x)
        reach = step_length(line, self._end(labels, weights), gap)
        if reach < 1.0:
            self._blend(reach, active[real], weights[real], lifted[real], float(weights[~real].sum()))
            self._point = line.at(reach)
            return
        if reach == 1.0:
            self._point = line.at(1.0)
        else:
            weights = self._before(labels) + reach * (weights - self._before(labels))
            weights = np.maximum(weights, 0.0) / np.maximum(weights, 0.0).sum()
            self._corral.weights[:] = weights
            # Beyond 1 a line multiplies what rounding has put between x and its weights: mix anew.
            self._point = self._objective.at(self._mix(active, weights))
        change = self._curved.change(self._point, weights @ lifted - self._z)
        self._stale = abs(change - 1.0) > CHORD
        self._known = model.gram_of(labels)
        self._active, self._weights, self._lifted = active, weights, lifted
        self._corral.labels[:] = np.arange(len(labels))

    def _mix(self, active: Ints, weights: Vector) -> Vector:
        """The point of these weights, by pool position or virtual."""
        real = active >= 0
        x = weights[real] @ self._pool.rows[active[real]].astype(np.float64)
        return np.asarray(x + weights[~real].sum() * self._virtual_x)

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

    def _blend(self, reach: float, active: Ints, weights: Vector, lifted: Vector, virtual: float) -> None:
        """After a short step the old point, with its weights, is the virtual atom."""
        share = 1.0 - reach + reach * virtual
        old = self._dense() * (1.0 - reach)
        blended = (1.0 - reach) * self._z
        if self._virtual is not None and virtual > 0.0:
            old[self._virtual[0]] += reach * virtual * self._virtual[1]
            blended += reach * virtual * self._lifted[self._active < 0][0]
        where = np.flatnonzero(old)
        self._virtual_x = ((1.0 - reach) * self._point.x + reach * virtual * self._virtual_x) / share
        self._virtual = where, old[where] / share
        self._active = np.concatenate([active, [VIRTUAL]])
        self._weights = np.concatenate([reach * weights, [share]])
        self._lifted = np.concatenate([lifted, blended[None] / share])
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
