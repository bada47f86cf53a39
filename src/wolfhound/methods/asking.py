"""What every method does: it begins somewhere in the hull, and asks an oracle where to go.

`Asker` has the sign flip, the certificate and the counters, once. A query maximises and f is
minimised, so the query is the negative gradient: this is the only place that knows it. Where weights
are other than those of the plain hull, it knows what is paid for them, too: methods move f alone.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from dataclasses import replace
from typing import NamedTuple, cast

import numpy as np

from wolfhound.core.contracts import (
    INNER,
    Distance,
    Hits,
    Ids,
    Ints,
    Objective,
    Oracle,
    Point,
    Start,
    State,
    Status,
    Vector,
    WeightSet,
)
from wolfhound.core.rounding import SAFE, TINY, UNIT, gamma, length, norm
from wolfhound.core.validate import require, require_moderate
from wolfhound.core.weights import KnownPrices, caps_of, fill, least_price, pay, ray_bound

POOL = 1300  # least number of random atoms that a run begins with, and that give the scale of rtol
TRIED = 256  # pool atoms whose f is computed
SAMPLE = 64  # atoms whose values of f give the scale of rtol
_TRUSTED = 1e-12  # relative rounding that a trusted function may have
_CROSSED = 1e-3  # share of its slope by which f must lie below a tangent to be certainly not convex
_PER_QUERY = ("ids", "scores", "bounds", "slots", "scored")  # what `Hits` has a row of for every query


def cutgap(gap: float, excess: float) -> float:
    """Largest possible decrease of f, given a proved Frank-Wolfe gap.

    All atoms satisfy <grad, s - x> >= -gap. The minimum of a quadratic f over
    that half-space is ``f(x) - (gap - gap^2 / (2 N))`` if ``gap < N``, else
    ``f(x) - N/2``, with N = 2 (f(x) - min f over R^d) = `excess`. For other f
    (excess = inf) it is the gap itself. Rounded up.

    Examples
    --------
    >>> round(cutgap(1.0, 2.0), 12), round(cutgap(5.0, 2.0), 12), cutgap(3.0, np.inf)
    (0.75, 1.0, 3.0)
    """
    if math.isinf(excess):
        return gap
    if gap >= excess:
        return 0.5 * excess
    return gap * (1.0 - 0.5 * gap / excess) * (1.0 + 4.0 * UNIT)


def is_finite(point: Point) -> bool:
    """Whether x is inside the domain of f."""
    return math.isfinite(point.value) and bool(np.isfinite(point.grad).all())


def noise(point: Point) -> float:
    """How far two values of f here may differ by rounding alone, which of a trusted f is not known."""
    return point.value_error + 64.0 * UNIT * abs(point.value)


def tell_contradiction(value: float, bound: float, of: str) -> str:
    """Say that f is below a lower bound (`of`: on what), with as many digits as tell the two apart."""
    digits = next((k for k in range(6, 17) if f"{value:.{k}g}" != f"{bound:.{k}g}"), 17)
    return (
        f"f is {value:.{digits}g} at a point of the hull, below what its gradient elsewhere proves "
        f"({of} >= {bound:.{digits}g}): the gradient, `convex=True` or `floor` of f is wrong. "
        "`Custom.check(x)` compares a gradient with differences."
    )


def _refuse_crossing(here: Point, there: Point) -> None:
    """Raise if f `there` lies clearly below its tangent `here`, which no convex f does."""
    if not (math.isfinite(here.value) and math.isfinite(there.value)):
        return
    step = there.x - here.x
    rise = float(here.grad @ step)
    below = here.value + rise - there.value
    if not below > _CROSSED * abs(rise):
        return  # nearly always, and the norms below take longer
    size = abs(here.value) + abs(there.value) + norm(here.grad) * (norm(here.x) + norm(there.x))
    errors = here.value_error + here.sag + there.value_error + here.grad_error * norm(step)
    if below > errors + _CROSSED * abs(rise) + _TRUSTED * size:
        raise ValueError(tell_contradiction(there.value, here.value + rise, "f there"))


def add_paid(over: WeightSet | None, point: Point, weights: Vector) -> Point:
    """F where f is `point`: with what is paid for weights, and its rounding."""
    if over is None or (over.price == 0.0 and over.ridge == 0.0):
        return point
    paid = pay(over, weights)
    value, lost = point.value + paid, gamma(len(weights) + 8) * paid + (len(weights) + 4) * TINY
    error = SAFE * (point.value_error + lost + 2.0 * UNIT * abs(value))
    return replace(point, value=value, value_error=error)


class Active(NamedTuple):
    """The atoms that have weight, or are asked apart, with their rows in float64."""

    ids: Ids
    weights: Vector
    rows: Vector


class Scores(NamedTuple):
    """Upper bounds of <-grad, s>: of the active atoms, and of all that are left."""

    active: Vector
    others: float
    left: int
    away: float  # how wrong <grad, x> may be
    blur: float  # how much of a gap rounding may be


class ConeDirection(NamedTuple):
    """A u with <s, A'u> >= least > 0 for all atoms s: the cone has no line."""

    u: Vector
    least: float


FAR = 1e3  # times the weights in hand: the mass that a proof holds for where a cone has a line


class Asker:
    """Queries along one run; keeps `lower`, `upper` (of the best state), passes, atoms scored, ratio, slack.

    Where f is not convex, `goal` is the Frank-Wolfe gap that ends the run. The counters of a run that goes
    on from `start` go on too; its lower bound is not believed, but proved again: the first query is joined
    by that of its proof, in the same pass.
    """

    def __init__(self, objective: Objective, oracle: Oracle, start: Start, *, goal: float = 0.0) -> None:
        self.objective, self.oracle = objective, oracle
        self.exclude, self.goal = start.exclude, goal
        self.lower = objective.floor if objective.convex else -math.inf
        self.upper = math.inf
        self.passes, self.scored = start.passes, start.scored
        self.ratio, self.slack = math.nan, math.inf
        self.over, self.mass = start.over, math.inf
        self.direction: ConeDirection | None = None
        self._proof = self._again = start.proof if start.over is None else None
        self._hint = start.lower
        self._rounding = 0.0  # the largest slack so far
        self._last: Point | None = None  # of the states
        self._certified: Point | None = None  # where the last certificate holds, and its rounding
        self._blur = math.inf
        self._still: Point | None = None  # where f, not convex, was proved to be stationary

    def __call__(
        self, point: Point, *, k: int = 1, wanted: float | None = None, active: Active | None = None
    ) -> Hits:
        """Find k atoms of largest gap <-grad, s - x>, or any of gap `wanted`; raise `lower` if proved.

        Of other sets than the hull `active` is known, and asked apart.
        """
        if self.over is not None and active is not None:
            hits = self.query(-point.grad[None], k=k, exclude=np.union1d(self.exclude, active.ids))
            self._certify_set(point, hits, active)
            return hits
        if self._again is not None:
            return self._prove_again(point, k)
        here = -float(point.grad @ point.x)
        thresholds = None if wanted is None else np.array([here + wanted])
        hits = self.query(-point.grad[None], k=k, thresholds=thresholds)
        self._certify(point, hits)
        return hits

    def expect(self, point: Point) -> float:
        """Lower bound to move by: that of a run that goes on counts until it is proved again.

        Where by it the goal is reached, the value: nothing but a query is left to do.
        """
        if self._again is None:
            return self.lower
        hint = max(self.lower, self._hint)
        return hint if point.upper - hint > self.goal else point.value

    def _prove_again(self, point: Point, k: int) -> Hits:
        """Ask here, and where the run that goes on had its proof: no threshold, so whoever can prove does."""
        with np.errstate(all="ignore"):  # what was kept may be anything
            known = self.objective.at(np.asarray(self._again, np.float64))
        self._again = None
        points = [point, known] if is_finite(known) else [point]
        hits = self.query(np.stack([-each.grad for each in points]), k=k)
        for i, each in reversed(list(enumerate(points))):
            parts = {name: getattr(hits, name)[i : i + 1] for name in _PER_QUERY}
            answer = replace(hits, **parts)
            self._certify(each, answer)
        return answer

    def query(
        self, queries: Vector, *, k: int = 1, thresholds: Vector | None = None, exclude: Ids | None = None
    ) -> Hits:
        """Ask for atoms without a certificate; counted like any other query."""
        barred = self.exclude if exclude is None else exclude
        given = np.broadcast_to(barred, (len(queries), len(barred))) if len(barred) else None
        hits = self.oracle.query(queries, k=k, thresholds=thresholds, exclude=given)
        self.passes += hits.passes
        self.scored += int(hits.scored[0] if len(hits.scored) == 1 else hits.scored.sum())
        self.ratio = math.nan
        return hits

    def _certify(self, point: Point, hits: Hits) -> None:
        here, bound = -float(point.grad @ point.x), float(hits.bounds[0])
        length = norm(point.x)
        radius = max(hits.radius, length)
        if not (math.isfinite(bound) and math.isfinite(radius)):
            return
        gap = bound - here
        if gap > 0.0:
            self.ratio = (float(hits.scores[0, 0]) - here) / gap if hits.ids[0, 0] >= 0 else 0.0
        size = norm(point.grad)
        rounding = 1.01 * gamma(len(point.x) + 4) * size * radius + (len(point.x) + 2) * TINY
        if point.grad_error > 0.0:
            rounding += 2.0 * point.grad_error * radius
        self.slack = 2.0 * (point.value_error + rounding) + point.sag + 4.0 * UNIT * abs(point.value)
        self._certified, self._rounding = point, max(self._rounding, self.slack)
        self._blur = self.slack + 2.0 * point.turn * radius
        if self.objective.convex:
            cut = cutgap(max(gap + rounding, 0.0), point.excess)
            proved = point.value - point.value_error - point.sag - cut
            proved = proved - 4.0 * UNIT * abs(proved) - TINY
            if proved > self.lower:
                self.lower, self._proof = proved, point.x
        elif gap + rounding <= max(self.goal, 2.0 * self.slack):
            self._still = point

    # ------------------------------------------------ other sets than the hull

    def _certify_set(self, point: Point, hits: Hits, active: Active) -> None:
        """Raise `lower` by the least price over the set, see `core.weights`; by the dual of a free cone."""
        found = self._bound_scores(point, hits, active)
        if self.over is None or found is None:
            return
        self.slack = 2.0 * (point.value_error + found.blur) + point.sag + 4.0 * UNIT * abs(point.value)
        proved, mass = -math.inf, math.inf
        if self.over.free and self.objective.quadratic:
            proved = self._prove_cone(point, found, self.over.price)
        if not self.over.free:
            proved = self._prove_prices(point, found, active, self.over)
        elif math.isinf(proved):
            mass = FAR * max(float(active.weights.sum()), 1.0)
            self.slack += 2.0 * found.blur * mass / max(float(active.weights.sum()), UNIT)
            proved = self._prove_prices(point, found, active, replace(self.over, total=mass))
        self._certified, self._rounding = point, max(self._rounding, self.slack)
        turned = 2.0 * point.turn * (length(point.x) + hits.radius) if point.turn > 0.0 else 0.0
        self._blur = self.slack + turned
        proved = proved - 4.0 * UNIT * abs(proved) - TINY
        if self.objective.convex and proved > self.lower:
            self.lower, self.mass = proved, mass

    def _bound_scores(self, point: Point, hits: Hits, active: Active) -> Scores | None:
        """What is proved of <-grad, s>, the error of grad included; None if nothing is."""
        d, top, blurred = len(point.x), -math.inf, 0.0
        count = self.oracle.atoms.shape[0] - len(np.union1d(self.exclude, active.ids))
        if count:
            blurred = point.grad_error * hits.radius if point.grad_error > 0.0 else 0.0
            top = float(hits.bounds[0]) + SAFE * blurred
            if not math.isfinite(top):
                return None
        unit = SAFE * (SAFE * gamma(d + 4) * norm(point.grad) + point.grad_error)
        errors = unit * np.linalg.norm(active.rows, axis=1) + (d + 2) * TINY
        away = unit * length(point.x) + (d + 2) * TINY
        blur = away + SAFE * (float(errors.max(initial=0.0)) + blurred) * float(active.weights.sum())
        return Scores(errors - active.rows @ point.grad, top, count, away, blur)

    def _prove_prices(self, point: Point, found: Scores, active: Active, over: WeightSet) -> float:
        """f(x) - <grad, x> and the least of all prices over the set."""
        top, price = found.others, over.price
        prices = KnownPrices(
            active=(price - found.active) - 4.0 * UNIT * (price + np.abs(found.active)),
            caps=caps_of(over, active.ids),
            others=(price - top) - 4.0 * UNIT * (price + abs(top)) if found.left else math.inf,
            count=found.left,
            widest=float(np.max(over.cap)),
        )
        least = least_price(over, prices)
        gap = float(point.grad @ point.x) + found.away - least.value
        self.slack += 2.0 * least.rounding if math.isfinite(least.rounding) else 0.0
        most = max(self.goal, 2.0 * self.slack)
        if not self.objective.convex and gap + pay(over, active.weights) <= most:
            self._still = point
        # What is paid is no part of a half-space that cuts f.
        cut = gap if over.price > 0.0 or over.ridge > 0.0 else cutgap(max(gap, 0.0), point.excess)
        return point.value - point.value_error - point.sag - cut

    def _prove_cone(self, point: Point, found: Scores, price: float) -> float:
        """The dual of a free cone: y = r cut by the price, or r less what a direction takes; -inf if none."""
        b, r = cast(Distance, self.objective).residual(point)
        top, known = float(found.active.max(initial=found.others)), self.direction
        limit, delta, y, size = math.inf, 0.0, r, length(r)
        if top > 0.0 and price > 0.0:
            limit = price / top * (1.0 - 4.0 * UNIT)
            self.slack += SAFE * found.blur / price * length(b) * size
        elif top > 0.0:
            if known is None:
                return -math.inf
            delta = top / known.least * (1.0 + 4.0 * UNIT)
            self.slack += SAFE * found.blur / known.least * length(known.u) * (length(b) + size)
            y, size = r - delta * known.u, size + SAFE * delta * length(known.u)
        lost = SAFE * gamma(len(b) + 8) * (length(b) * size + 3.0 * size * size) + len(b) * TINY
        self.slack += 2.0 * lost
        return ray_bound(float(b @ y) - lost, float(y @ y) + lost, limit)

    def blur(self, point: Point) -> float:
        """Proved rounding of f, its gradient and its certificate at a point; inf if that has none."""
        return self._blur if point is self._certified else math.inf

    def stationary(self, point: Point) -> bool:
        """Whether f is not convex, and no atom was proved to promise more than the goal here."""
        return point is self._still

    def _agree(self, point: Point, upper: float) -> None:
        """Raise if f was found below a tangent or its own lower bound by more than rounding."""
        self.upper = min(self.upper, upper)
        rounding = 8.0 * self._rounding + _TRUSTED * max(abs(self.lower), abs(self.upper))
        if self.lower > self.upper + rounding:
            raise ValueError(tell_contradiction(self.upper, self.lower, "min f"))
        if self.objective.convex and self._last is not None and self._last is not point:
            _refuse_crossing(self._last, point)
            _refuse_crossing(point, self._last)
        self._last = point

    def state(
        self,
        t: int,
        point: Point,
        ids: Ids,
        weights: Vector,
        *,
        kind: str,
        hit: int = -1,
        end: Status | None = None,
        pool_ids: Ids | None = None,
        estimate: float | None = None,
    ) -> State:
        """Snapshot the run; the end of one that has reached a stationary point is set here."""
        whole = add_paid(self.over, point, weights)
        if kind != INNER:  # on the way nothing is proved
            self._agree(point, whole.upper)
        if end is None and self.stationary(point):
            end = Status.STATIONARY
        return State(
            t=t,
            point=whole,
            lower=min(self.lower, self.upper, whole.upper),
            ids=ids.copy(),
            weights=weights.copy(),
            passes=self.passes,
            scored=self.scored,
            ratio=self.ratio,
            slack=self.blur(point),
            kind=kind,
            hit=hit,
            end=end,
            pool_ids=None if pool_ids is None else pool_ids.copy(),
            estimate=estimate,
            proof=self._proof,
            mass=self.mass,
        )


# ---------------------------------------------------------------- where a run begins


def best_atom(objective: Objective, start: Start) -> Start:
    """Choose the first point of a start that has only its pool.

    The objective's own weights if it has any (a mixture's single atoms are
    mostly infinite), else the atom of least f among the first 256; where f is
    infinite at all of them, the mean of the pool.
    """
    known = _begin_there(objective, start)
    if known is not None:
        return known
    values = objective.values(start.pool[:TRIED])
    finite = np.isfinite(values)
    if not finite.any():
        return _at(start, np.arange(len(start.pool)), np.ones(len(start.pool)))
    return _at(start, np.array([np.argmin(np.where(finite, values, np.inf))]), np.ones(1))


def fill_start(objective: Objective, start: Start) -> Start:
    """As `best_atom`, within the start's set: what caps take goes to atoms of small f."""
    start, over = best_atom(objective, start), start.over
    if over is None:
        return start
    values = objective.values(start.pool[:TRIED])
    order = np.argsort(np.where(np.isnan(values), np.inf, values), kind="stable")
    order = np.concatenate([order, np.arange(len(order), len(start.pool))])
    dense = np.zeros(len(start.pool))
    places = np.argsort(start.pool_ids)
    dense[places[np.searchsorted(start.pool_ids, start.ids, sorter=places)]] = start.weights
    weights = fill(over, dense, caps_of(over, start.pool_ids), order)
    chosen = np.flatnonzero(weights)
    return replace(start, ids=start.pool_ids[chosen], weights=weights[chosen], rows=start.pool[chosen])


def random_mixture(objective: Objective, start: Start, rng: np.random.Generator, *, size: int) -> Start:
    """Choose the objective's own weights, or random ones of `size` atoms, for a start without a point."""
    known = _begin_there(objective, start)
    if known is not None:
        return known
    if not np.isfinite(objective.values(start.pool[:1])).all():
        return best_atom(objective, start)  # f has a domain, which random atoms need not reach
    chosen = rng.choice(len(start.pool_ids), min(size, len(start.pool_ids)), replace=False)
    return _at(start, chosen, rng.dirichlet(np.ones(len(chosen))))


def _begin_there(objective: Objective, start: Start) -> Start | None:
    """The start itself if it has ids, or where the objective's own weights lead, if it has any."""
    if len(start.ids):
        return start
    require(len(start.pool_ids) > 0, "start", "a start with ids or a pool", "neither")
    require_moderate(start.pool, "atoms")
    weights = objective.begin(start.pool)
    return None if weights is None else _at(start, np.arange(len(weights)), weights)


def _at(start: Start, chosen: Ints, weights: Vector) -> Start:
    """Begin at the atoms of the pool that have weight."""
    held = weights > 0.0
    chosen, weights = chosen[held], weights[held] / weights[held].sum()
    return replace(start, ids=start.pool_ids[chosen], weights=weights, rows=start.pool[chosen])
