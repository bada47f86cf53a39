"""Newton moves over the pool where weights are other than those of the plain hull: caps, a cone, a ridge.

At x the model is f's second-order expansion, with all that is paid for weights, over the active atoms and the
hottest of the pool; the one active set solves it, and a line search goes there. Spaces are those of `newton`.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from wolfhound.compiled.corral import BLOCK, Dense, correct
from wolfhound.core.contracts import Ints, Objective, Point, Vector
from wolfhound.core.progress import report_rows
from wolfhound.core.rounding import UNIT
from wolfhound.core.validate import LARGEST
from wolfhound.core.weights import KnownPrices, caps_of, least_price
from wolfhound.methods.atom_sets import AtomPool, PaidLine, PoolWeights, best_of
from wolfhound.methods.newton import GAIN, SOLVED, Curved, Secant, Space, step_length
from wolfhound.oracles.asking import rescore

HOT = 64
"""Atoms of the pool that may join a model."""

FARTHEST = 1e9
"""Longest step, in those of the model: curvature may be far too large, and weights know no scale."""

SAME = 64.0 * UNIT
"""Relative difference of weights that are one but for rounding."""

NOTHING = 1e-13
"""Share of all weight that is rounding: beside atoms at their caps it would be all that can move."""

FALL = 0.01
"""F falls on if by this share of all that it fell before."""


class SetNewton:
    """Minimises F over the weights of the pool that are allowed.

    The caller, who shares the pool, may add atoms: see `renumber`.
    """

    def __init__(
        self,
        objective: Objective,
        pool: AtomPool,
        point: Point,
        positions: Ints,
        weights: Vector,
        *,
        within: PoolWeights,
    ) -> None:
        self._objective, self._pool, self._within = objective, pool, within
        self.point, self.positions, self.weights = point, positions, weights
        lifts = objective.lift(pool.rows[:1]) is not None
        self._curved: Space = Curved(objective, point.x) if lifts else Secant(point, pool.rows)
        width = self._curved.lift(point.x[None]).shape[1]
        self._corral = within.corral(min(len(point.x), width) + 2 + BLOCK, 1.0)
        self.work = 0.0

    def renumber(self, where: Ints) -> None:
        """The pool's positions changed: old position -> new."""
        self.positions = where[self.positions]

    def improve(self, *, stop: float, tol: float, budget: float) -> Iterator[int]:
        """Move until F <= stop, the pool's gap < tol, or work > budget; yield how many atoms joined."""
        idle, least, self.work = 0, np.inf, 0.0
        first = last = np.inf
        while True:
            report_rows(0)
            scores = rescore(self._pool.rows, self.point.grad)
            gap, value = self._gap(scores), self.point.value + self._within.pay(self.positions, self.weights)
            first = value if first == np.inf else first
            # The gap of a cone says little on the way: F that falls like before is progress, too.
            moved = gap <= GAIN * least or value < last - FALL * (first - value)
            idle, least, last = 0 if moved else idle + 1, min(gap, least), value
            self.work += scores.size * len(self.point.x)
            done = gap <= tol or value + self.point.value_error <= stop or idle >= self._curved.patience
            if done or self.work >= budget:
                return
            yield self._step(scores, gap)

    def _gap(self, scores: Vector) -> float:
        """How much F can fall over the pool, as far as its tangent tells."""
        everywhere, within = np.arange(self._pool.size), self._within
        real = within.real(everywhere)
        caps = caps_of(within.over, self._pool.ids)
        known = KnownPrices(
            active=(scores + within.costs(everywhere))[real], caps=caps[real], others=np.inf, count=0
        )
        least = least_price(within.over, known).value
        return float(self.point.grad @ self.point.x) + within.pay(self.positions, self.weights) - least

    def _step(self, scores: Vector, gap: float) -> int:
        """One model and one line search; returns how many atoms joined."""
        within, curved, corral, point = self._within, self._curved, self._corral, self.point
        hot, violation = self._find_hot(scores)
        places = np.concatenate([self.positions, hot])
        if not len(places):
            return 0  # zero is the answer, but for rounding
        curved.move(point)
        rows = self._pool.rows[places].astype(np.float64)
        lifted, k = curved.lift(rows), len(self.positions)
        with np.errstate(over="ignore", invalid="ignore"):
            bent = curved.bend(lifted) @ lifted.T
            gram = 0.5 * (bent + bent.T)
        if not np.isfinite(gram).all():
            return 0  # floats cannot hold the model
        gram[np.diag_indices(len(gram))] += within.ridges(places)
        here = curved.bend(self.weights @ lifted[:k]) - curved.slope(point)
        linear = lifted @ here - within.costs(places)
        model = Dense(gram, linear, SOLVED * violation)
        corral.clear(float(np.trace(gram)) / len(gram))
        corral.cap = caps_of(within.over, self._pool.ids[places]) if within.over.capped else np.inf
        corral.adopt(np.arange(k), self.weights, model)
        joined = correct(corral, model)
        before, after = np.zeros((2, len(places)))
        before[:k] = self.weights
        after[corral.labels] = within.settle(places[corral.labels], corral.weights)
        total = within.over.total
        if total < np.inf and not abs(float(after.sum()) - total) <= NOTHING * total:
            after = before  # curvature that underflows has cost the model atoms that hold weight
        # A long step multiplies what rounding has put between the two.
        before = np.where(np.abs(after - before) <= SAME * before, after, before)
        self.work += len(lifted) ** 2 * lifted.shape[1]
        if not np.abs(after).max() * max(np.abs(rows).max(), 1.0) <= LARGEST:
            return 0  # nor can they hold where it leads
        self._search(places, before, after, rows, gap)
        return joined

    def _find_hot(self, scores: Vector) -> tuple[Ints, float]:
        """The atoms without weight whose price is least, and by how much it is below that of the others."""
        within, active = self._within, self.positions
        prices = within.prices(active, self.weights, scores[active])
        inside = self.weights < (1.0 - NOTHING) * caps_of(within.over, self._pool.ids[active])
        order = np.argsort(~inside, kind="stable")
        here = within.common(prices[order], self.weights[order], int(inside.sum()))
        violation = here - scores - within.costs(np.arange(len(scores)))
        violation[active] = -np.inf
        hot = best_of(violation, HOT)
        return hot[violation[hot] > 0.0], max(float(violation.max()), 0.0)

    def _search(self, places: Ints, before: Vector, after: Vector, rows: Vector, gap: float) -> None:
        """Go towards the model's minimum."""
        real = self._within.real(places)
        line = self._objective.line(self.point, after @ rows - self.point.x)
        paid = PaidLine(line, self._within.over, before[real], after[real])
        caps = caps_of(self._within.over, self._pool.ids[places])
        reach = step_length(paid, _find_end(before, after, caps), gap)
        weights = after if reach == 1.0 else np.clip(before + reach * (after - before), 0.0, caps)
        held = weights > NOTHING * weights.sum()
        self.positions = places[held]
        self.weights = self._within.settle(self.positions, weights[held])
        self.point = self._objective.at(self.weights @ rows[held])


def _find_end(before: Vector, after: Vector, caps: Vector) -> float:
    """How far beyond the model's minimum all weights stay within their bounds; 1 if one is there."""
    way = after - before
    down, up = way < 0.0, way > 0.0
    low = (before[down] / -way[down]).min(initial=FARTHEST)
    high = ((caps[up] - before[up]) / way[up]).min(initial=FARTHEST)
    return max(1.0, min(float(low), float(high)))
