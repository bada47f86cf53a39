"""Newton moves over the pool where weights are other than those of the plain hull: caps, a cone, a ridge.

At x the model is f's second-order expansion, with all that is paid for weights, over the active atoms and the
hottest of the pool; the one active set solves it, and a line search goes there. Spaces are those of `newton`,
whose loop does not serve here: it keeps an old point as one virtual atom, which has no cap and no ridge.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from wolfhound.compiled.corral import BLOCK, Dense, correct
from wolfhound.core.contracts import Ints, Objective, Vector
from wolfhound.core.progress import report_rows
from wolfhound.core.rounding import UNIT
from wolfhound.core.validate import LARGEST
from wolfhound.core.weights import KnownPrices, least_price
from wolfhound.methods.atom_sets import HullPoint, PaidLine, PoolWeights, best_of
from wolfhound.methods.newton import GAIN, SOLVED, Curved, Secant, Space, step_length
from wolfhound.methods.steps import LineSearch
from wolfhound.oracles.asking import rescore

HOT = 64  # atoms of the pool that may join a model
FARTHEST = 1e9  # longest step, in those of the model: curvature may be far too large
SAME = 64.0 * UNIT  # relative difference of weights that are one but for rounding
NOTHING = 1e-13  # share of all weight that is rounding: beside atoms at their caps all that could move
FALL = 0.01  # F falls on if by this share of all that it fell before
CROWD = 256  # where caps keep so many atoms active, they join and leave in blocks
LEAPS = 100  # most fills that are tried in a row
NEAR = 1e-4  # share of the first gap at which the slopes tell who is at its cap


def leap(objective: Objective, within: PoolWeights, positions: Ints, weights: Vector) -> HullPoint | None:
    """Where caps keep many atoms active, the greedy fill by slopes near the minimum's, if F falls there.

    Single exchanges would take thousands of steps to most of the atoms at their caps. Frank-Wolfe, whose
    vertices are such fills, finds the slopes in some tens of them; of the fills that of least F is
    returned: between two of them all atoms that only one of them has would be free.
    """
    pool, over, everywhere = within.pool, within.over, np.arange(within.pool.size)
    total = within.room
    room, real = np.minimum(within.caps(), total), within.real(everywhere)
    few = pool.size <= CROWD or CROWD * float(np.median(room)) >= total
    if few or not np.isfinite(room).all():
        return None
    before, best = np.zeros(pool.size), None
    before[positions] = weights
    point = objective.at(weights @ pool.rows[positions].astype(np.float64))
    least, first = point.value + within.pay(positions, weights), 0.0
    for _ in range(LEAPS):
        prices = within.prices(everywhere, before, rescore(pool.rows, point.grad))
        order, after = np.argsort(prices, kind="stable"), np.zeros(pool.size)
        after[order] = np.clip(total - (np.cumsum(room[order]) - room[order]), 0.0, room[order])
        if total == np.inf:
            after[prices >= 0.0] = 0.0
        held = np.flatnonzero(after)
        fill = objective.at(after[held] @ pool.rows[held].astype(np.float64))
        value = fill.value + within.pay(held, after[held])
        if value < least:
            least, best = value, HullPoint(held, after[held], fill)
        gap = float(prices @ (before - after))
        first = max(first, gap)
        if not gap > NEAR * first:
            break
        line = PaidLine(objective.line(point, fill.x - point.x), over, before[real], after[real])
        s = LineSearch(rtol=NEAR)(line, 1.0, 0, 0.0)[0]
        point, before = line.at(s), before + s * (after - before)
    return best


class SetNewton:
    """Minimises F over the weights of the pool that are allowed; the caller may add atoms to the pool."""

    def __init__(self, objective: Objective, within: PoolWeights, start: HullPoint) -> None:
        self._objective, self._pool, self._within = objective, within.pool, within
        self.positions, self.weights, self.point = start
        pool, point = within.pool, start.point
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
        found = leap(self._objective, self._within, self.positions, self.weights)
        if found is not None:
            self.positions, self.weights, self.point = found
        idle, least, self.work = 0, np.inf, 0.0
        first = lowest = np.inf
        while True:
            report_rows(0)
            scores = rescore(self._pool.rows, self.point.grad)
            gap, value = self._gap(scores), self.point.value + self._within.pay(self.positions, self.weights)
            first = value if first == np.inf else first
            # The gap of a cone says little on the way: F that falls like before is progress, too; below
            # all that was seen, or rounding to and fro would be.
            moved = gap <= GAIN * least or value < lowest - FALL * (first - value)
            idle, least, lowest = 0 if moved else idle + 1, min(gap, least), min(value, lowest)
            self.work += scores.size * len(self.point.x)
            done = gap <= tol or value + self.point.value_error <= stop or idle >= self._curved.patience
            if done or self.work >= budget:
                return
            yield self._step(scores, gap)

    def _gap(self, scores: Vector) -> float:
        """How much F can fall over the pool, as far as its tangent tells."""
        everywhere, within = np.arange(self._pool.size), self._within
        real = within.real(everywhere)
        prices = (scores + within.costs(everywhere))[real]
        known = KnownPrices(active=prices, caps=within.caps()[real], others=np.inf, count=0)
        least = least_price(within.over, known).value
        return float(self.point.grad @ self.point.x) + within.pay(self.positions, self.weights) - least

    def _step(self, scores: Vector, gap: float) -> int:
        """One model and one line search; returns how many atoms joined."""
        within, curved, corral, point = self._within, self._curved, self._corral, self.point
        kept, hot, violation = self._find_hot(scores)
        fixed = np.delete(np.arange(len(self.positions)), kept)  # they stay at their caps
        total = within.room - float(self.weights[fixed].sum())
        places, held = np.concatenate([self.positions[kept], hot]), self.weights[kept]
        if not len(places):
            return 0  # zero is the answer, but for rounding
        curved.move(point)
        rows = self._pool.rows[places].astype(np.float64)
        lifted, k = curved.lift(rows), len(kept)
        with np.errstate(over="ignore", invalid="ignore"):
            bent = curved.bend(lifted) @ lifted.T
            gram = 0.5 * (bent + bent.T)
        if not np.isfinite(gram).all():
            return 0  # floats cannot hold the model
        gram[np.diag_indices(len(gram))] += within.ridges(places)
        here = curved.bend(held @ lifted[:k]) - curved.slope(point)
        linear = lifted @ here - within.costs(places)
        # Of a model's weights the sum counts, too, in what it accepts.
        model = Dense(gram, linear, SOLVED * violation / max(1.0, float(held.sum())))
        corral.total, corral.cap = total if total < np.inf else None, within.caps(places)
        corral.clear(float(np.trace(gram)) / len(gram))
        corral.adopt(np.arange(k), held, model)
        joined = correct(corral, model)
        before, after = np.zeros((2, len(places)))
        before[:k] = held
        after[corral.labels] = within.settle(places[corral.labels], corral.weights, total)
        if total < np.inf and not abs(float(after.sum()) - total) <= NOTHING * total:
            after = before  # curvature that underflows has cost the model atoms that hold weight
        # A long step multiplies what rounding has put between the two.
        before = np.where(np.abs(after - before) <= SAME * before, after, before)
        self.work += len(lifted) ** 2 * lifted.shape[1]
        if not np.abs(after).max() * max(np.abs(rows).max(), 1.0) <= LARGEST:
            return 0  # nor can they hold where it leads
        self._search(places, before, after, fixed, gap)
        return joined

    def _find_hot(self, scores: Vector) -> tuple[Ints, Ints, float]:
        """Which active atoms may move, those without weight of least price, and by how much it is too low.

        Of the atoms at their caps those that are too dear may move, and the next: there can be thousands.
        """
        within, active = self._within, self.positions
        prices = within.prices(active, self.weights, scores[active])
        inside = self.weights < (1.0 - NOTHING) * within.caps(active)
        order = np.argsort(~inside, kind="stable")
        here = within.common(prices[order], self.weights[order], int(inside.sum()))
        free = inside | (prices > here)
        kept = np.sort(best_of(np.where(free, np.inf, prices), int(free.sum()) + CROWD))
        violation = here - scores - within.costs(np.arange(len(scores)))
        violation[active] = -np.inf
        hot = best_of(violation, HOT)
        return kept, hot[violation[hot] > 0.0], max(float(violation.max()), 0.0)

    def _search(self, places: Ints, before: Vector, after: Vector, fixed: Ints, gap: float) -> None:
        """Go towards the model's minimum; active atoms that are `fixed` stay as they are."""
        real, stay, rest = self._within.real(places), self.positions[fixed], self.weights[fixed]
        rows = self._pool.rows[np.concatenate([places, stay])].astype(np.float64)
        line = self._objective.line(self.point, np.concatenate([after, rest]) @ rows - self.point.x)
        paid = PaidLine(line, self._within.over, before[real], after[real])
        caps, way = self._within.caps(places), after - before
        # How far beyond the model's minimum all weights stay within their bounds.
        low = (before[way < 0.0] / -way[way < 0.0]).min(initial=FARTHEST)
        high = ((caps - before)[way > 0.0] / way[way > 0.0]).min(initial=FARTHEST)
        reach = step_length(paid, max(1.0, min(float(low), float(high))), gap)
        weights = after if reach == 1.0 else np.clip(before + reach * (after - before), 0.0, caps)
        weights = np.concatenate([weights, rest])
        held = weights > NOTHING * weights.sum()
        self.positions = np.concatenate([places, stay])[held]
        self.weights = self._within.settle(self.positions, weights[held])
        self.point = self._objective.at(self.weights @ rows[held])
