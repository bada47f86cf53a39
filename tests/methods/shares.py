"""Runs of a known share: problems with exact minima, and oracles of a known ratio."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from tests.conformance.method import at_atom
from tests.oracles.degraded import Degraded, Follower, Scripted
from tests.problems import exact_minimum, images, interval, logistic, rational
from wolfhound.core.contracts import Hits, Ids, Matrix, Method, Objective, Oracle, Start, State, Vector
from wolfhound.data.atoms import as_atoms
from wolfhound.objectives.custom import Custom
from wolfhound.objectives.linear import LeastSquares, Logistic
from wolfhound.objectives.plain import SquaredDistance
from wolfhound.oracles.asking import check_question, offer
from wolfhound.oracles.scan import Scan
from wolfhound.paper.sublinear_frank_wolfe import SublinearFrankWolfe

ANY = 1e-12
"""A tau so small that every answer is good enough."""


@dataclass(frozen=True, eq=False)
class Case:
    """An objective over a few rows, and its exact minimum (never above it)."""

    objective: Objective
    rows: Matrix
    least: float

    @property
    def diameter(self) -> float:
        return float(np.linalg.norm(self.rows[:, None] - self.rows[None], axis=2).max())

    @property
    def curvature(self) -> float:
        """beta D^2."""
        return self.objective.smoothness * self.diameter**2

    def gap(self, state: State) -> float:
        """Frank-Wolfe gap over all rows, by numpy alone."""
        return float(state.point.grad @ state.point.x - (self.rows @ state.point.grad).min())

    @property
    def worst(self) -> Start:
        """The worst atom."""
        return at_atom(self.rows, int(self.objective.values(self.rows).argmax()))

    @property
    def middle(self) -> Start:
        """The mean of all atoms but one."""
        n = len(self.rows) - 1
        return replace(self.worst, ids=np.arange(n), weights=np.full(n, 1.0 / n), rows=self.rows[:n])


def cloud(n: int, d: int, seed: int = 0) -> Matrix:
    return np.random.default_rng(seed).standard_normal((n, d))


def projection(target: Vector, rows: Matrix) -> Case:
    exact = exact_minimum(rational(rows), rational(target)[0])
    return Case(SquaredDistance(target), rows, float(exact) * (1.0 - 1e-15))


@functools.cache
def cases() -> Sequence[Case]:
    """Targets inside and outside; an ill-conditioned and a curved loss."""
    rows, design = cloud(40, 3), cloud(6, 3, seed=1) * np.array([1.0, 0.3, 3.0])
    response, labels = 4.0 * cloud(1, 6, seed=2)[0], np.sign(cloud(1, 6, seed=3)[0])
    squares = exact_minimum(images(rows, design), [Fraction(float(entry)) for entry in response])
    return (
        projection(rows.mean(axis=0), rows),
        projection(np.array([1.5, -1.0, 2.0]), rows),
        Case(LeastSquares(design, response), rows, float(squares) * (1.0 - 1e-15)),
        Case(Logistic(design, labels), rows, interval(logistic(design, labels), rows).lower),
    )


@functools.cache
def far() -> Case:
    """A target so far away that h_0 is much larger than beta D^2; the minimum is an atom."""
    return projection(np.array([900.0, -300.0, 500.0]), cloud(40, 3))


def follow(
    method: Method, case: Case, make: Callable[[Follower], Oracle], *, start: Start | None = None, states: int
) -> list[State]:
    """Collect states of a run whose oracle knows where it is."""
    follower, out = Follower(), []
    begun = case.worst if start is None else start
    run = method.states(case.objective, make(follower), begun, goal=0.0, rng=np.random.default_rng(0))
    for state in itertools.islice(run, states):
        follower(state)
        out.append(state)
    return out


def degraded(case: Case, c: float, ratios: list[float]) -> Callable[[Follower], Oracle]:
    return lambda follower: Degraded(Scan(case.rows), c, follower.here, ratios)


def alone(**options: Any) -> SublinearFrankWolfe:
    """The method without anything beside its oracle, whose answers are then those of the run."""
    return SublinearFrankWolfe(cache=0, sample=0, **options)


def always(oracle: Oracle) -> Callable[[Follower], Oracle]:
    """Return an oracle that need not know where the run is."""
    return lambda follower: oracle


class Reluctant:
    """Answers with the worst atom at or above the threshold; without one, with the best. Proves nothing."""

    def __init__(self, rows: Matrix) -> None:
        self.atoms = as_atoms(rows)
        self.rows = rows
        self.thresholds: list[float] = []

    def query(
        self, queries: Matrix, *, k: int = 1, thresholds: Vector | None = None, exclude: Ids | None = None
    ) -> Hits:
        scores = self.rows @ queries[0]
        wanted = math.inf if thresholds is None else float(thresholds[0])
        self.thresholds.append(wanted)
        weak = np.where(scores >= wanted, scores, math.inf)
        chosen = np.where(np.isfinite(weak).any(), weak.argmin(), scores.argmax())
        ask = check_question(self.atoms, queries, k, exclude)
        return offer(self.atoms, ask, chosen.reshape(1, 1), scored=np.full(1, len(self.rows)))


def worst_of(rows: Matrix) -> Scripted:
    """An index that misses everything: it answers with the worst atom of all."""
    scan = Scan(rows, screen=False)

    def answer(queries: Matrix, k: int, exclude: Ids | None) -> Hits:
        hits = scan.query(-queries, k=k, exclude=exclude)
        return replace(hits, scores=-hits.scores, bounds=np.full(len(queries), math.inf), passes=0.0)

    return Scripted(rows, answer)


@functools.cache
def not_convex() -> Sequence[Case]:
    """A concave f, least at an atom, and a saddle on a cube, least in each coordinate by itself."""
    rows, target = cloud(40, 3), np.array([0.4, -0.2, 0.1])
    concave = Custom(
        lambda x: (-0.5 * float((x - target) @ (x - target)), target - x), convex=False, smoothness=1.0
    )
    cube = np.array(list(itertools.product([-1.0, 1.0], repeat=4)))
    bend, tilt = np.array([1.0, -1.0, 0.5, -2.0]), np.array([0.3, 0.2, -2.0, 0.1])
    saddle = Custom(
        lambda x: (float(0.5 * bend @ x**2 + tilt @ x), bend * x + tilt), convex=False, smoothness=2.0
    )
    # On [-1, 1] the least of b x^2 / 2 + a x is at an end, or at -a / b if f bends upwards there.
    inner = np.clip(np.where(bend > 0.0, -tilt / bend, 1.0), -1.0, 1.0)
    ends = 0.5 * bend - np.abs(tilt)
    least = np.minimum(ends, 0.5 * bend * inner**2 + tilt * inner).sum()
    return Case(concave, rows, float(concave.values(rows).min())), Case(saddle, cube, float(least))
