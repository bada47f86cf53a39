"""The default method: fully corrective over a pool, proved by harvesting passes.

Column generation. The inner solve moves over a small pool of atoms; a pass over
all atoms proves the gap and harvests the best of them into the pool. A handful
of passes suffices. `QuadraticInner` moves where f is quadratic, `newton.NewtonInner` elsewhere.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from wolfhound.compiled.corral import BLOCK, Corral, corrections, most_violated
from wolfhound.core.contracts import INNER, Hits, Ints, Matrix, Objective, Oracle, Point, Start, State, Vector
from wolfhound.core.progress import Cut, report_rows
from wolfhound.core.rounding import LEAST, UNIT, gamma, is_rounding, norm
from wolfhound.core.validate import count, number
from wolfhound.methods.asking import Asker, best_atom, cutgap, noise
from wolfhound.methods.atom_sets import AtomPool, best_of, lift_rows
from wolfhound.methods.newton import NewtonInner
from wolfhound.oracles.asking import rescore

FLAT = 3
"""Passes in a row without progress after which the run ends."""

GAINED = 0.99
"""A pass makes progress if the gap falls below this share of the least so far, or f by the rest of it."""

EDGE = 1e-6
"""How much of an inner solve is taken back where rounding would cross the edge of the domain."""

SHOWN, STATE = 100, 10_000
"""An inner state is shown after so many times the work that it costs: its point, and a constant."""

COVERED = 64
"""Coordinates that one pass covers."""


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
        """Start at the pool atom with least f, or where the objective says."""
        return best_atom(objective, start)

    def states(
        self, objective: Objective, oracle: Oracle, start: Start, *, goal: float, rng: np.random.Generator
    ) -> Iterator[State]:
        """Yield the start, then a state after every inner solve and every pass, and some on the way."""
        n, d = oracle.atoms.shape
        ask = Asker(objective, oracle, start, goal=goal)
        pool = AtomPool(start.ids, start.rows.astype(oracle.atoms.dtype))
        pool.add(start.pool_ids, start.pool, np.arange(len(start.pool_ids)))
        ask.scored += 0 if start.scored else pool.size
        positions, weights = np.arange(len(start.ids)), start.weights
        point = _evaluate(objective, pool, positions, weights)
        yield ask.state(start.t, point, start.ids, weights, kind="start", pool_ids=pool.ids)
        inner = _enter(objective, ask, pool, HullPoint(positions, weights, point))
        show = functools.partial(_state, ask, pool, inner)
        steps, progress, budget = start.t, _Progress(), self.effort * max(n, 16 * d) * d
        while True:
            held = HullPoint(inner.positions.copy(), inner.weights / inner.weights.sum(), point)
            end, shown = None, 0.0
            try:
                for joined in inner.improve(stop=ask.lower + 0.9 * goal, tol=goal / 4, budget=budget):
                    steps += joined
                    if inner.work - shown >= SHOWN * (len(inner.weights) * d + STATE):
                        yield show(steps, inner.point, kind=INNER)
                        shown = inner.work
            except Cut as cut:
                end = cut.status
            point = _evaluate(objective, pool, inner.positions, inner.weights)
            if not math.isfinite(point.value):
                # The inner solve was inside the domain: only rounding is between x and the edge.
                back = _back(objective, pool, inner, held)
                yield ask.state(steps, back.point, pool.ids[back.positions], back.weights, kind="corrective")
                return
            yield show(steps, point, kind="corrective", end=end)
            harvest = max(self.harvest, 8 * len(inner.positions))
            hits = ask(point, k=min(n, max(256, n // 4), harvest))
            if point.upper - ask.lower > goal:
                found = hits.ids[0] >= 0
                pool.add(hits.ids[0, found], hits.rows, hits.slots[0, found])
            yield show(steps, point, kind="pass", hit=int(hits.ids[0, 0]))
            flat = progress.flat(point, _left(ask, point, hits))
            if flat >= FLAT or (flat and is_rounding(point.upper - ask.lower, ask.blur(point))):
                return
            self._trim(pool, inner, point)

    def _trim(self, pool: AtomPool, inner: Inner, point: Point) -> None:
        """Halve a full pool: keep the active atoms and the best others."""
        active = len(inner.positions)
        if pool.size <= max(self.pool, 10 * active):
            return
        scores = -rescore(pool.rows, point.grad)
        scores[inner.positions] = math.inf
        inner.renumber(pool.keep(np.sort(best_of(scores, max(self.pool // 2, 5 * active)))))


def _state(ask: Asker, pool: AtomPool, inner: Inner, steps: int, point: Point, **more: Any) -> State:
    """As `Asker.state`, at the weights of the inner solve."""
    weights = inner.weights / inner.weights.sum()
    return ask.state(steps, point, pool.ids[inner.positions], weights, pool_ids=pool.ids, **more)


class HullPoint(NamedTuple):
    """A point of the pool's hull."""

    positions: Ints
    weights: Vector
    point: Point


def _enter(objective: Objective, ask: Asker, pool: AtomPool, start: HullPoint) -> Inner:
    """Bring the start into the domain of f, and choose how to move."""
    shares = objective.begin(pool.rows) if _cover(objective, ask, pool) else None
    if shares is not None:
        chosen = np.flatnonzero(shares)
        better = HullPoint(chosen, shares[chosen], _evaluate(objective, pool, chosen, shares[chosen]))
        start = better if better.point.value < start.point.value else start
    if not math.isfinite(start.point.value):
        raise FloatingPointError(
            "f must be finite at the start. Got inf: no atom that was found is inside the domain of f."
        )
    if objective.quadratic:
        return QuadraticInner(objective, pool, start.point, start.positions, start.weights)
    most = ask.oracle.atoms.shape[0]
    return NewtonInner(objective, pool, start.point, start.positions, start.weights, most=most)


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


def _back(objective: Objective, pool: AtomPool, inner: Inner, held: HullPoint) -> HullPoint:
    """A little of the way back from the inner solve to a point that was inside the domain."""
    dense = np.zeros(pool.size)
    dense[inner.positions] = (1.0 - EDGE) * inner.weights / inner.weights.sum()
    dense[held.positions] += EDGE * held.weights / held.weights.sum()
    where = np.flatnonzero(dense)
    weights = dense[where] / dense[where].sum()
    point = _evaluate(objective, pool, where, weights)
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


def _evaluate(objective: Objective, pool: AtomPool, positions: Ints, weights: Vector) -> Point:
    """f at the hull point of these weights, with all its rounding."""
    rows = pool.rows[positions].astype(np.float64)
    shares = weights / weights.sum()
    x = shares @ rows
    np.abs(rows, out=rows)
    # The product loses gamma_k, and the shares sum to 1 only within gamma_k.
    k = len(shares)
    return objective.at(x, gamma(2 * k + 5) * (shares @ rows) + (k + 1) * LEAST)


# ---------------------------------------------------------------- moves where f is quadratic

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
        self._pool, self._objective = pool, objective
        slope = objective.slope(point)
        sample = pool.rows[:SAMPLE].astype(np.float64)
        self._centre = lift_rows(objective, sample.mean(0)[None])[0]
        self._target = lift_rows(objective, point.x[None])[0] - slope - self._centre
        self._const = point.value - 0.5 * float(slope @ slope)
        self._span = float(np.sqrt((pool.rows[:CLOSE].astype(np.float64) ** 2).sum(1).max(initial=0.0)))
        self._far = norm(self._target) + norm(self._centre)
        width, room = len(slope), len(slope) + 1 + BLOCK
        self._lifted, self._used = np.zeros((room, width)), 0
        self._free = list(range(room - 1, -1, -1))
        self._slot = np.full(pool.size, -1, np.int64)
        lifted = lift_rows(objective, sample) - self._centre
        self._corral = Corral(room, float((lifted * lifted).sum(1).mean()))
        self._new, self._fresh = np.empty(0, np.int64), np.empty((0, width))
        self._close, self._close_rows, self._worn = np.empty(0, np.int64), pool.rows[:0], 0.0
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
        excess, nothing = float(slope @ slope), self._close[:0]
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
        self._fresh = lift_rows(self._objective, self._pool.rows[new].astype(np.float64)) - self._centre
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


Inner: TypeAlias = QuadraticInner | NewtonInner
"""Minimises f over the hull of the pool: `improve` moves, `renumber` hears that positions changed."""
