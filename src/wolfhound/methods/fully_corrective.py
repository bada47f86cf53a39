"""The default method: fully corrective over a pool, proved by harvesting passes.

Column generation. The inner solve moves over a small pool of atoms; a pass over
all atoms proves the gap and harvests the best of them into the pool. A handful
of passes suffices. `QuadraticInner` moves where f is quadratic, `newton.NewtonInner` elsewhere,
`newton_sets.SetNewton` where weights are other than those of the hull, too.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from collections.abc import Generator, Iterator
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, cast

import numpy as np

from wolfhound.compiled.corral import BLOCK, Corral, corrections, most_violated
from wolfhound.core.contracts import (
    INNER,
    Distance,
    Hits,
    Ints,
    Matrix,
    Objective,
    Oracle,
    Point,
    Start,
    State,
    Status,
    Vector,
)
from wolfhound.core.progress import Cut, report_rows
from wolfhound.core.rounding import SAFE, UNIT, is_rounding, norm
from wolfhound.core.validate import count, number
from wolfhound.core.weights import NOBODY, fill
from wolfhound.methods.asking import Active, Asker, ConeDirection, add_paid, cutgap, fill_start, noise
from wolfhound.methods.atom_sets import AtomPool, HullPoint, PoolWeights, best_of, lift_rows, mix
from wolfhound.methods.newton import NewtonInner
from wolfhound.methods.newton_sets import SetNewton, leap
from wolfhound.oracles.asking import rescore

FLAT = 3  # passes in a row without progress after which the run ends
GAINED = 0.99  # a pass gains if the gap falls below this share of the least so far, or f by the rest of it
EDGE = 1e-6  # how much of an inner solve is taken back where rounding would cross the edge of the domain
SHOWN, STATE = 100, 10_000  # an inner state is shown after so many times the work of its point and a constant
NEXT = 64  # least number of atoms of the pool beside the active ones that are asked apart
COVERED = 64  # coordinates that one pass covers
SPREAD = 0.05  # share of the mean's square that all atoms have along it, if it is a direction of the cone
PATIENT = 50  # most passes for such a direction


@dataclass(frozen=True, slots=True, kw_only=True)
class FullyCorrective:
    """Fully corrective Frank-Wolfe over a pool, with harvesting passes.

    Parameters
    ----------
    harvest
        Least number of atoms that a pass brings into the pool; more, if more
        than an eighth of them are active.
    pool
        Size beyond which the pool is halved.
    effort
        Inner work between two passes, in multiplications per atom entry.
    """

    harvest: int = 4096
    pool: int = 16384
    effort: float = 300.0

    def __post_init__(self) -> None:
        count(self.harvest, "harvest", low=1)
        count(self.pool, "pool", low=2)
        number(self.effort, "effort", low=0.0, strict=True)

    def begin(self, objective: Objective, start: Start, rng: np.random.Generator) -> Start:
        """Start at the pool atom with least f, or where the objective says; within the caps."""
        return fill_start(objective, start)

    def states(
        self, objective: Objective, oracle: Oracle, start: Start, *, goal: float, rng: np.random.Generator
    ) -> Iterator[State]:
        """Yield the start, then a state after every inner solve and every pass, and some on the way."""
        n, d = oracle.atoms.shape
        ask = Asker(objective, oracle, start, goal=goal)
        pool, weights = _make_pool(start, oracle.atoms.dtype)
        ask.scored += 0 if start.scored else pool.size
        hand = Hand(objective, ask, PoolWeights(start.over, pool))
        point = hand.evaluate(np.arange(len(weights)), weights)
        yield hand.state(start.t, point, np.arange(len(weights)), weights, kind="start")
        ask.direction = self._find_direction(objective, ask, start, rng)
        inner = _enter(hand, HullPoint(np.arange(len(weights)), weights, point))
        steps, progress, budget = start.t, _Progress(), self.effort * max(n, 16 * d) * d
        while True:
            held = HullPoint(inner.positions.copy(), hand.settle(inner), point)
            steps, end = yield from hand.improve(inner, steps, goal, budget)
            fitted = hand.within.fit_room(inner.positions, hand.settle(inner)) if end is None else None
            if fitted is not None:
                inner = _move(hand, HullPoint(*fitted, hand.evaluate(*fitted)))
                continue
            point = hand.evaluate(inner.positions, inner.weights)
            if not math.isfinite(point.value):
                # The inner solve was inside the domain: only rounding is between x and the edge.
                back = _back(hand, inner, held)
                yield hand.state(steps, back.point, back.positions, back.weights, kind="corrective")
                return
            yield hand.show(steps, point, inner, kind="corrective", end=end)
            active, harvest = hand.list_active(inner, point), max(self.harvest, 8 * len(inner.positions))
            hits = ask(point, k=min(n, max(256, n // 4), harvest), active=active)
            whole = add_paid(start.over, point, active.weights)
            if whole.upper - ask.lower > goal:
                found = hits.ids[0] >= 0
                pool.add(hits.ids[0, found], hits.rows, hits.slots[0, found])
            yield hand.show(steps, point, inner, kind="pass", hit=int(hits.ids[0, 0]))
            flat = progress.flat(whole, _left(ask, whole, hits))
            if flat >= FLAT or (flat and is_rounding(whole.upper - ask.lower, ask.blur(point))):
                return
            self._trim(pool, inner, point)

    def _find_direction(
        self, objective: Objective, ask: Asker, start: Start, rng: np.random.Generator
    ) -> ConeDirection | None:
        """Find u with <s, u> > 0 for all atoms: their mean, or their least point; None: 0 is in the hull.

        Cones alone need it that nothing else bounds.
        """
        if start.over is None or not start.over.free or start.over.price > 0.0:
            return None
        origin = cast(Distance, objective).to_origin()
        found = _try_direction(origin, ask, start.pool.astype(np.float64).mean(axis=0), SPREAD)
        if found is not None:
            return found
        first = replace(start, over=None, ids=start.pool_ids[:1], rows=start.pool[:1], weights=np.ones(1))
        asked = replace(first, passes=0.0, scored=0, t=0, lower=-math.inf, proof=None)
        known, x = (0.0, 0), asked.rows[0].astype(np.float64)
        for state in self.states(origin, ask.oracle, asked, goal=0.0, rng=rng):
            known, x = (state.passes, state.scored), state.point.x
            if state.kind == "pass" and (state.lower > 0.25 * state.value or state.passes > PATIENT):
                break
        ask.passes, ask.scored = ask.passes + known[0], ask.scored + known[1]
        return _try_direction(origin, ask, x, 0.0)

    def _trim(self, pool: AtomPool, inner: Inner, point: Point) -> None:
        """Halve a full pool: keep the active atoms and the best others."""
        active = len(inner.positions)
        if pool.size <= max(self.pool, 10 * active):
            return
        scores = -rescore(pool.rows, point.grad)
        scores[inner.positions] = scores[pool.ids == NOBODY] = math.inf
        inner.renumber(pool.keep(np.sort(best_of(scores, max(self.pool // 2, 5 * active)))))


class Hand:
    """A run's pool and what its weights may be: points and states of them."""

    def __init__(self, objective: Objective, ask: Asker, within: PoolWeights) -> None:
        self.objective, self.ask, self.within, self.pool = objective, ask, within, within.pool

    def evaluate(self, positions: Ints, weights: Vector) -> Point:
        """f at the point of these weights, with all its rounding."""
        rows = self.pool.rows[positions].astype(np.float64)
        return self.objective.at(*mix(self.within.settle(positions, weights), rows))

    def settle(self, inner: Inner) -> Vector:
        """Weights of an inner solve, whose sum and caps hold up to rounding."""
        return self.within.settle(inner.positions, inner.weights)

    def list_active(self, inner: Inner, point: Point) -> Active:
        """The atoms of an inner solve that have weight, the zero atom left out; those that are asked apart.

        With caps or a ridge every atom whose price is too low counts in a proof: those next in the pool are
        listed, too, or each of all others would be taken for the worst of them.
        """
        over, known = self.within.over, inner.positions
        weights = self.settle(inner)
        if over.capped or over.ridge > 0.0:
            scores = -rescore(self.pool.rows, point.grad)
            scores[known] = -math.inf
            more = best_of(scores, max(NEXT, len(known)))
            more = more[scores[more] > -math.inf]
            known, weights = np.append(known, more), np.append(weights, np.zeros(len(more)))
        real = self.within.real(known)
        positions = known[real]
        return Active(self.pool.ids[positions], weights[real], self.pool.rows[positions].astype(np.float64))

    def improve(
        self, inner: Inner, steps: int, goal: float, budget: float
    ) -> Generator[State, None, tuple[int, Status | None]]:
        """Solve the pool as far as the goal needs, and show some states; return steps, and why it was cut."""
        shown, d = 0.0, self.pool.rows.shape[1]
        try:
            for joined in inner.improve(stop=self.ask.lower + 0.9 * goal, tol=goal / 4, budget=budget):
                steps += joined
                if inner.work - shown >= SHOWN * (len(inner.weights) * d + STATE):
                    yield self.show(steps, inner.point, inner, kind=INNER)
                    shown = inner.work
        except Cut as cut:
            return steps, cut.status
        return steps, None

    def show(self, steps: int, point: Point, inner: Inner, **more: Any) -> State:
        """A state at the weights of the inner solve."""
        return self.state(steps, point, inner.positions, self.settle(inner), **more)

    def state(self, steps: int, point: Point, positions: Ints, weights: Vector, **more: Any) -> State:
        """As `Asker.state`."""
        real, pool_ids = self.within.real(positions), self.pool.ids
        ids = self.pool.ids[positions[real]]
        return self.ask.state(steps, point, ids, weights[real], pool_ids=pool_ids[pool_ids != NOBODY], **more)


def _make_pool(start: Start, dtype: np.dtype[Any]) -> tuple[AtomPool, Vector]:
    """The pool of a start, whose atoms come first, and their weights; before all the zero atom, if any."""
    ids, rows, weights = start.ids, start.rows.astype(dtype), start.weights
    if start.over is not None and start.over.slack:
        ids, rows = np.append(NOBODY, ids), np.concatenate([np.zeros((1, rows.shape[1]), dtype), rows])
        weights = np.append(max(start.over.total - float(weights.sum()), 0.0), weights)
    pool = AtomPool(ids, rows)
    pool.add(start.pool_ids, start.pool, np.arange(len(start.pool_ids)))
    return pool, weights


def _try_direction(origin: Distance, ask: Asker, x: Vector, share: float) -> ConeDirection | None:
    """A direction that all atoms share, by the pull of x: a query proves it."""
    point = origin.at(x)
    hits = ask.query(-point.grad[None])
    least = -float(hits.bounds[0]) - SAFE * point.grad_error * hits.radius
    if not (least > 0.0 and least >= share * 2.0 * point.value):
        return None
    return ConeDirection(-origin.residual(point)[1], least * (1.0 - 4.0 * UNIT))


def _enter(hand: Hand, start: HullPoint) -> Inner:
    """Bring the start into the domain of f, and move from there."""
    objective, pool, within = hand.objective, hand.pool, hand.within
    shares = objective.begin(pool.rows) if _cover(objective, hand.ask, pool) else None
    if shares is not None:
        if not within.plain:
            shares = fill(within.over, shares, within.caps(), np.arange(pool.size))
        chosen = np.flatnonzero(shares)
        better = HullPoint(chosen, shares[chosen], hand.evaluate(chosen, shares[chosen]))
        start = better if better.point.value < start.point.value else start
    if not math.isfinite(start.point.value):
        raise FloatingPointError(
            "f must be finite at the start. Got inf: no atom that was found is inside the domain of f."
        )
    return _move(hand, start)


def _move(hand: Hand, start: HullPoint) -> Inner:
    """Choose how to move from a start."""
    objective, within = hand.objective, hand.within
    if objective.quadratic:
        return QuadraticInner(objective, within, start)
    if within.plain:
        return NewtonInner(objective, within, start, most=hand.ask.oracle.atoms.shape[0])
    return SetNewton(objective, within, start)


@dataclass(slots=True)
class _Progress:
    """Passes in a row after which neither the gap nor f was clearly smaller than ever before."""

    least: float = math.inf
    lowest: float = math.inf
    passes: int = 0

    def flat(self, point: Point, left: float) -> int:
        """Count such passes, given what is left after one."""
        fell = point.value < self.lowest - max(noise(point), (1.0 - GAINED) * left)
        self.passes = 0 if fell or left < GAINED * self.least else self.passes + 1
        self.least, self.lowest = min(self.least, left), min(self.lowest, point.value)
        return self.passes


def _left(ask: Asker, point: Point, hits: Hits) -> float:
    """The gap; where none is proved, that of the best atom that was found."""
    left = point.upper - ask.lower
    if math.isfinite(left):
        return left
    return max(float(hits.scores[0, 0] + point.grad @ point.x), 0.0)


def _back(hand: Hand, inner: Inner, held: HullPoint) -> HullPoint:
    """A little of the way back from the inner solve to a point that was inside the domain."""
    dense = np.zeros(hand.pool.size)
    dense[inner.positions] = (1.0 - EDGE) * hand.settle(inner)
    dense[held.positions] += EDGE * hand.within.settle(held.positions, held.weights)
    where = np.flatnonzero(dense)
    weights = hand.within.settle(where, dense[where])
    point = hand.evaluate(where, weights)
    return HullPoint(where, weights, point) if math.isfinite(point.value) else held


def _cover(objective: Objective, ask: Asker, pool: AtomPool) -> bool:
    """Bring atoms into the pool for coordinates that it leaves outside the domain.

    Each such coordinate asks for the atom that is largest there, `COVERED` at a
    time in one pass. Returns whether any atom was brought.
    """
    brought, asked = False, np.empty(0, np.int64)
    while True:
        missing = np.setdiff1d(objective.find_uncovered(pool.rows), asked)[:COVERED]
        if len(missing) == 0:
            return brought
        queries = np.zeros((len(missing), pool.rows.shape[1]))
        queries[np.arange(len(missing)), missing] = 1.0
        hits = ask.query(queries)
        found, best = np.unique(hits.ids[:, 0], return_index=True)
        best = best[found >= 0]
        brought = pool.add(hits.ids[best, 0], hits.rows, hits.slots[best, 0]) > 0 or brought
        asked = np.concatenate([asked, missing])


# ---------------------------------------------------------------- moves where f is quadratic

CLOSE = 256  # least number of pool atoms priced between two pricings of the whole pool
WORN = 0.4  # the close atoms are used up once their gap is below this share of the pool's
SAMPLE = 32


class QuadraticInner:
    """Minimises a quadratic f over the hull of the pool, or other weights, and keeps factor and weights."""

    def __init__(self, objective: Objective, within: PoolWeights, start: HullPoint) -> None:
        self._pool, self._objective, self._within = within.pool, objective, within
        pool, point, slope = within.pool, start.point, objective.slope(start.point)
        sample = pool.rows[:SAMPLE].astype(np.float64)
        middle = sample.mean(0) if within.plain else 0.0 * point.x  # which a sum of 1 alone allows
        self._centre = lift_rows(objective, middle[None])[0]
        self._target = lift_rows(objective, point.x[None])[0] - slope - self._centre
        self._const = point.value - 0.5 * float(slope @ slope)
        self._span = float(np.sqrt((pool.rows[:CLOSE].astype(np.float64) ** 2).sum(1).max(initial=0.0)))
        self._far = norm(self._target) + norm(self._centre)
        width, room = len(slope), len(slope) + 1 + BLOCK
        self._lifted, self._used = np.zeros((room, width)), 0
        self._free = list(range(room - 1, -1, -1))
        self._slot = np.full(pool.size, -1, np.int64)
        lifted = lift_rows(objective, sample) - self._centre
        alpha = float((lifted * lifted).sum(1).mean())
        self._corral = within.corral(room, alpha)
        self._corral.cap = within.caps()
        self._new, self._fresh = np.empty(0, np.int64), np.empty((0, width))
        self._close, self._close_rows, self._worn = np.empty(0, np.int64), pool.rows[:0], 0.0
        self._stop, self._tol, self._budget, self.work = -np.inf, 0.0, 0.0, 0.0
        self._slope = slope
        self._corral.adopt(start.positions, start.weights, self)

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
        slope, weights = self._slope, self.weights
        weights = weights / weights.sum() if self._within.plain else weights
        x = weights @ self._pool.rows[self.positions].astype(np.float64)
        return Point(x=x, value=0.5 * float(slope @ slope) + self._const, grad=self._objective.pull(slope))

    def improve(self, *, stop: float, tol: float, budget: float) -> Iterator[int]:
        """Move until f <= stop, the pool's proved gap < tol, or work > budget; yield how many joined."""
        self._stop, self._tol, self._budget, self.work = stop, tol, budget, 0.0
        self._slot = np.concatenate([self._slot, np.full(self._pool.size - len(self._slot), -1)])
        self._close = self._close[:0]
        self._corral.cap = self._within.caps()
        now = self._objective, self._within, self.positions, self.weights
        found = None if self._within.plain else leap(*now)
        if found is not None:
            self._slot[:], self._used = -1, 0
            self._free = list(range(len(self._lifted) - 1, -1, -1))
            self._corral.clear(self._corral.alpha)
            self._corral.adopt(found.positions, found.weights, self)
        return corrections(self._corral, self)

    def renumber(self, where: Ints) -> None:
        """The pool's positions changed: old position -> new."""
        self._corral.relabel(where)
        self._corral.cap = self._within.caps()
        slots = self._slot[self._slot >= 0]
        positions = where[np.flatnonzero(self._slot >= 0)]
        self._slot = np.full(self._pool.size, -1)
        self._slot[positions] = slots

    # ------------------------------------------------------------ Model of a corral

    def price(self, corral: Corral) -> tuple[float, Ints]:
        """Return 1/2 |z - c|^2, with what is paid, and the pool positions that promise most."""
        report_rows(0)
        held = np.zeros(self._used)
        held[self._slot[corral.labels]] = corral.weights
        self._slope = slope = held @ self._lifted[: self._used] - self._target
        excess, nothing = float(slope @ slope), self._close[:0]
        value = 0.5 * excess + self._within.pay(corral.labels, corral.weights)
        if value + self._const <= self._stop or self.work >= self._budget:
            return value, nothing
        grad = self._objective.pull(slope)
        here = float(slope @ (slope + self._target + self._centre))
        # Both sides of a violation are sums that may cancel.
        noise = 16.0 * UNIT * (norm(grad) * self._span + excess**0.5 * self._far)
        first, back, most = nothing, nothing, -np.inf
        if not self._within.plain:
            here, back, most = self._price_held(corral)
            noise += 16.0 * UNIT * abs(here)
            if corral.size == 0 and corral.total is not None:  # that price is the common one
                first, most = back, -np.inf
        if len(self._close):
            violation = self._violation(self._close, self._close_rows, grad, here)
            if violation.max() >= max(self._worn, most):
                return value, self._candidates(self._close, violation, first)
        violation = self._violation(None, self._pool.rows, grad, here)
        best = max(float(violation.max()), most)
        if best <= noise or self._gap(best, excess) < self._tol:
            return value, nothing
        if most == best:
            return value, back
        close = best_of(violation, max(CLOSE, corral.size))
        if 2 * len(close) < len(violation):
            self._close, self._close_rows = close, self._pool.rows[close]
            self._worn = WORN * best
            violation = violation[close]
        else:
            close = np.arange(len(violation))
        return value, self._candidates(close, violation, first)

    def _price_held(self, corral: Corral) -> tuple[float, Ints, float]:
        """The common price of the free atoms; which atom at its cap is dearest, and by how much too dear."""
        free, labels, weights = corral.size, corral.labels, corral.weights
        scores = self._lifted[self._slot[labels]] @ self._slope
        prices = self._within.prices(labels, weights, scores)
        here = self._within.common(prices, weights, free)
        if not len(corral.capped):
            return here, labels[:0], -np.inf
        dearest = int(prices[free:].argmax())
        return here, corral.capped[dearest][None], float(prices[free + dearest]) - here

    def _gap(self, best: float, excess: float) -> float:
        """How much f can fall by atoms of the pool that violate by at most this; inf if that is not known."""
        return cutgap(best, excess) if self._within.plain else 2.0 * best * self._within.over.total

    def _violation(self, which: Ints | None, rows: Matrix, grad: Vector, here: float) -> Vector:
        self.work += rows.size
        violation = here - rescore(rows, grad)
        if self._within.over.price > 0.0:
            violation -= self._within.costs(np.arange(len(rows)) if which is None else which)
        violation[(self._slot if which is None else self._slot[which]) >= 0] = -np.inf
        return violation

    def _candidates(self, positions: Ints, violation: Vector, first: Ints) -> Ints:
        found = positions[most_violated(violation, -np.inf)[:BLOCK]]
        return np.concatenate([first, found]) if len(first) else found

    def gram(self, new: Ints, held: Ints) -> tuple[Vector, Vector, Vector]:
        """(cross, gram, linear) of the new positions."""
        self._fresh = lift_rows(self._objective, self._pool.rows[new].astype(np.float64)) - self._centre
        self.work += self._fresh.size * (len(held) + self._pool.rows.shape[1])
        self._new = new
        cross = (self._fresh @ self._lifted[: self._used].T)[:, self._slot[held]]
        gram, linear = self._fresh @ self._fresh.T, self._fresh @ self._target
        if not self._within.plain:
            gram[np.diag_indices(len(new))] += self._within.ridges(new)
            linear = linear - self._within.costs(new)
        return cross, gram, linear

    def swap(self, joined: Ints, left: Ints) -> None:
        """Keep the lifted rows of the active atoms."""
        if len(self._free) < len(joined):  # which caps and a ridge allow
            room = len(self._lifted)
            self._lifted = np.pad(self._lifted, ((0, room + len(joined)), (0, 0)))
            self._free = [*range(2 * room + len(joined) - 1, room - 1, -1), *self._free]
        slots = self._free[len(self._free) - len(joined) :][::-1]
        del self._free[len(self._free) - len(joined) :]
        self._used = max(self._used, 1 + max(slots, default=-1))
        some = len(joined) < len(self._new)
        self._lifted[slots] = self._fresh[np.isin(self._new, joined)] if some else self._fresh
        self._slot[joined] = slots
        self._free.extend(self._slot[left].tolist())
        self._slot[left] = -1


Inner: TypeAlias = QuadraticInner | NewtonInner | SetNewton
"""Minimises f over the hull of the pool, to which the caller may add atoms: `improve` moves, `renumber` hears
that positions changed."""
