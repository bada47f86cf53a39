"""The default method: fully corrective over a pool, proved by harvesting passes.

Column generation. The inner solve moves over a small pool of atoms; a pass over
all atoms proves the gap and harvests the best of them into the pool. A handful
of passes suffices.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np

from wolfhound.core import INNER, Hits, Ints, Objective, Oracle, Point, Start, State, Vector
from wolfhound.methods._ask import Asker, noise
from wolfhound.methods._begin import best_atom
from wolfhound.methods._pool import AtomPool, best_of
from wolfhound.oracles._hits import rescore
from wolfhound.progress import Cut
from wolfhound.rounding import LEAST, gamma, is_rounding
from wolfhound.validate import count, number

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


class Inner(Protocol):
    """Minimises f over the hull of the pool."""

    @property
    def positions(self) -> Ints:
        """(k,) pool positions of the active atoms."""

    @property
    def weights(self) -> Vector:
        """(k,) their weights."""

    @property
    def point(self) -> Point:
        """f there, without proof."""

    @property
    def work(self) -> float:
        """Multiplications since the last `improve` began."""

    def improve(self, *, stop: float, tol: float, budget: float) -> Iterator[int]:
        """Move until f <= stop, the pool's gap < tol, or work > budget; yield how many atoms joined."""

    def renumber(self, where: Ints) -> None:
        """The pool's positions changed: old position -> new."""


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
        ask = Asker(objective, oracle, start.exclude, goal=goal, start=start)
        pool = AtomPool(start.ids, start.rows.astype(oracle.atoms.dtype))
        pool.add(start.pool_ids, start.pool, np.arange(len(start.pool_ids)))
        ask.scored += 0 if start.scored else pool.size
        positions, weights = np.arange(len(start.ids)), start.weights
        point = _evaluate(objective, pool, positions, weights)
        yield ask.state(start.t, point, start.ids, weights, kind="start", pool_ids=pool.ids)
        inner = _enter(objective, ask, pool, Spot(positions, weights, point))
        show = functools.partial(_state, ask, pool, inner)
        steps, progress, budget = start.t, _Progress(), self.effort * max(n, 16 * d) * d
        while True:
            held = Spot(inner.positions.copy(), inner.weights / inner.weights.sum(), point)
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
            hits = ask(point, k=self._harvest(n, len(inner.positions)))
            if point.upper - ask.lower > goal:
                found = hits.ids[0] >= 0
                pool.add(hits.ids[0, found], hits.rows, hits.slots[0, found])
            yield show(steps, point, kind="pass", hit=int(hits.ids[0, 0]))
            flat = progress.flat(point, _left(ask, point, hits))
            if flat >= FLAT or (flat and is_rounding(point.upper - ask.lower, ask.blur(point))):
                return
            self._trim(pool, inner, point)

    def _harvest(self, n: int, active: int) -> int:
        return min(n, max(256, n // 4), max(self.harvest, 8 * active))

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


class Spot(NamedTuple):
    """A point of the pool's hull."""

    positions: Ints
    weights: Vector
    point: Point


def _enter(objective: Objective, ask: Asker, pool: AtomPool, start: Spot) -> Inner:
    """Bring the start into the domain of f, and choose how to move."""
    shares = objective.begin(pool.rows) if _cover(objective, ask, pool) else None
    if shares is not None:
        chosen = np.flatnonzero(shares)
        better = Spot(chosen, shares[chosen], _evaluate(objective, pool, chosen, shares[chosen]))
        start = better if better.point.value < start.point.value else start
    if not math.isfinite(start.point.value):
        raise FloatingPointError(
            "f must be finite at the start. Got inf: no atom that was found is inside the domain of f."
        )
    return _choose(objective, pool, start, most=ask.oracle.atoms.shape[0])


def _choose(objective: Objective, pool: AtomPool, start: Spot, *, most: int) -> Inner:
    if objective.quadratic:
        from wolfhound.methods._quadratic import QuadraticInner  # noqa: PLC0415 - compiles only what is used

        return QuadraticInner(objective, pool, start.point, start.positions, start.weights)
    from wolfhound.methods._newton import NewtonInner  # noqa: PLC0415 - likewise

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


def _back(objective: Objective, pool: AtomPool, inner: Inner, held: Spot) -> Spot:
    """A little of the way back from the inner solve to a point that was inside the domain."""
    dense = np.zeros(pool.size)
    dense[inner.positions] = (1.0 - EDGE) * inner.weights / inner.weights.sum()
    dense[held.positions] += EDGE * held.weights / held.weights.sum()
    where = np.flatnonzero(dense)
    weights = dense[where] / dense[where].sum()
    point = _evaluate(objective, pool, where, weights)
    return Spot(where, weights, point) if math.isfinite(point.value) else held


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
