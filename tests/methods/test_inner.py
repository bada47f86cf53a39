"""The inner solves: over a pool that grows, moves and is trimmed."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

from tests.methods.losses import gaussian, huber, inside, logistic, outside, quartic, regression
from tests.problems import exact_minimum, rational, squared_distance
from wolfhound import MixtureLikelihood, SquaredDistance, minimize
from wolfhound.core.contracts import Matrix, Objective, Vector
from wolfhound.methods import newton
from wolfhound.methods.atom_sets import AtomPool, HullPoint, PoolWeights
from wolfhound.methods.fully_corrective import Inner, QuadraticInner
from wolfhound.methods.newton import NewtonInner, step_length
from wolfhound.oracles.asking import rescore

Make = Callable[..., Inner]

# ---------------------------------------------------------------- the inner solves


INNERS: tuple[tuple[Make, Callable[[Matrix], Objective]], ...] = (
    (QuadraticInner, outside),
    (QuadraticInner, inside),
    (QuadraticInner, regression),
    (NewtonInner, logistic),
    (NewtonInner, huber),
    # Short lifts are stored, long ones replaced by a matrix.
    (NewtonInner, partial(logistic, m=20)),
    (NewtonInner, partial(huber, m=20)),
    (NewtonInner, outside),
    (NewtonInner, outside),
    (NewtonInner, quartic),
)


def begin(make: Make, objective: Objective, pool: AtomPool, weights: Vector) -> Inner:
    positions = np.arange(len(weights))
    point = objective.at(weights @ pool.rows[positions].astype(np.float64))
    return make(objective, PoolWeights(None, pool), HullPoint(positions, weights, point))


def value_of(objective: Objective, pool: AtomPool, inner: Inner) -> float:
    assert (inner.weights > 0.0).all()
    assert len(np.unique(inner.positions)) == len(inner.positions) == len(inner.weights)
    assert inner.weights.sum() == pytest.approx(1.0, abs=1e-12)
    return objective.at(inner.weights @ pool.rows[inner.positions].astype(np.float64)).value


def pool_gap(objective: Objective, pool: AtomPool, inner: Inner) -> float:
    rows = pool.rows.astype(np.float64)
    point = objective.at(inner.weights @ rows[inner.positions])
    return float(point.grad @ point.x - (rows @ point.grad).min())


@pytest.mark.parametrize(("make", "loss"), INNERS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("start", [[1.0], [0.25, 0.5, 0.25]])
def test_an_inner_solve_survives_a_growing_and_moving_pool(
    make: Make, loss: Callable[[Matrix], Objective], dtype: Any, start: list[float]
) -> None:
    rows = gaussian(900, 6, dtype=dtype)
    objective = loss(rows)
    pool = AtomPool(np.arange(300), rows[:300])
    inner = begin(make, objective, pool, np.array(start))
    tol = 1e-7 * (objective.values(rows).max() - objective.values(rows).min())
    last = value_of(objective, pool, inner)
    for first in (300, 600):
        joined = sum(inner.improve(stop=-math.inf, tol=tol, budget=math.inf))
        value = value_of(objective, pool, inner)
        assert joined >= 0
        assert value <= last * (1.0 + 1e-13)
        # Half of a quadratic's gap is real (cutgap), and f >= 0 proves too.
        assert min(pool_gap(objective, pool, inner), value) <= 2.1 * tol
        ids = pool.ids[inner.positions].copy()
        before = dict(zip(ids.tolist(), inner.weights.tolist(), strict=True))
        kept = np.union1d(inner.positions, np.arange(0, pool.size, 3))
        inner.renumber(pool.keep(kept))
        after = dict(zip(pool.ids[inner.positions].tolist(), inner.weights.tolist(), strict=True))
        assert after == before
        pool.add(np.arange(first, first + 300), rows, np.arange(first, first + 300))
        assert value_of(objective, pool, inner) == pytest.approx(value, rel=1e-12)
        last = value
    sum(inner.improve(stop=-math.inf, tol=tol, budget=math.inf))
    assert value_of(objective, pool, inner) <= last * (1.0 + 1e-13)


@pytest.mark.parametrize(("make", "loss"), INNERS)
def test_an_inner_solve_obeys_stop_and_budget(make: Make, loss: Callable[[Matrix], Objective]) -> None:
    rows = gaussian(300, 6)
    objective = loss(rows)
    pool = AtomPool(np.arange(300), rows)
    inner = begin(make, objective, pool, np.ones(1))
    first = value_of(objective, pool, inner)
    assert sum(inner.improve(stop=first + 1.0, tol=0.0, budget=math.inf)) == 0
    assert sum(inner.improve(stop=-math.inf, tol=0.0, budget=0.0)) == 0
    assert sum(inner.improve(stop=-math.inf, tol=math.inf, budget=math.inf)) == 0
    assert value_of(objective, pool, inner) == first
    assert sum(inner.improve(stop=-math.inf, tol=1e-3 * first, budget=math.inf)) > 0
    assert value_of(objective, pool, inner) < first


def test_the_quadratic_solve_is_exact_on_its_pool() -> None:
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((40, 4))
    objective = outside(rows)
    pool = AtomPool(np.arange(40), rows)
    inner = begin(QuadraticInner, objective, pool, np.ones(1))
    sum(inner.improve(stop=-math.inf, tol=1e-14, budget=math.inf))
    points, target = rational(rows), rational(objective.target)[0]
    here = squared_distance([points[i] for i in inner.positions], target, rational(inner.weights)[0])
    assert float(here - exact_minimum(points, target)) <= 1e-14 * float(here)


@pytest.mark.parametrize("offset", [0.0, 1e3, 1e6])
def test_the_quadratic_solve_does_not_mind_where_the_origin_is(offset: float) -> None:
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((2000, 6))
    objective = outside(rows)
    plain = minimize(objective, rows, rtol=1e-6)
    moved = minimize(SquaredDistance(objective.target + offset), rows + offset, rtol=1e-6, max_passes=20)
    assert moved.success
    assert moved.passes <= plain.passes + 2.0
    assert moved.value == pytest.approx(plain.value, rel=1e-5)


def test_a_far_target_costs_no_more_inner_work() -> None:
    """Rounding of <grad, x> must not look like a violation: atoms would join for ever."""
    rng = np.random.default_rng(0)
    rows = 1e-10 * rng.standard_normal((50, 3))
    result = minimize(SquaredDistance(1e-5 * rng.standard_normal(3)), rows, rtol=0.0, max_passes=20)
    assert result.success
    assert result.steps <= 100


# ---------------------------------------------------------------- the Newton solve


def locations(order: Vector) -> Matrix:
    """Likelihoods of normal locations at 40 observations."""
    seen = np.random.default_rng(0).standard_normal(40) + np.repeat([-3.0, 0.0, 3.0, 5.0], 10)
    away = order[:, None] - seen
    return np.asarray(np.exp(-0.5 * away**2), np.float32)


def mixture(rows: Matrix) -> MixtureLikelihood:
    return MixtureLikelihood()


@pytest.mark.parametrize("shuffled", [False, True])
@pytest.mark.parametrize("tol", [1e-4, 1e-8])
def test_a_mixture_is_solved_over_a_pool_of_neighbours(shuffled: bool, tol: float) -> None:
    """The best atoms of a grid are neighbours of one peak; there are several peaks."""
    grid = np.linspace(-6.0, 8.0, 5000)
    grid = np.random.default_rng(1).permutation(grid) if shuffled else grid
    objective, rows = MixtureLikelihood(), locations(grid)
    pool = AtomPool(np.arange(5000), rows)
    inner = begin(NewtonInner, objective, pool, np.full(5000, 1.0 / 5000))
    joined = sum(inner.improve(stop=-math.inf, tol=tol, budget=math.inf))
    assert pool_gap(objective, pool, inner) <= 1.01 * tol
    assert len(inner.positions) <= joined


def priced(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Record how many atoms each pricing sees."""
    sizes: list[int] = []

    def recorded(rows: Matrix, query: Vector) -> Vector:
        sizes.append(len(rows))
        return rescore(rows, query)

    monkeypatch.setattr(newton, "rescore", recorded)
    return sizes


@pytest.mark.parametrize("loss", [mixture, partial(logistic, m=20)])
def test_the_whole_pool_is_priced_first_and_last(
    loss: Callable[[Matrix], Objective], monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = locations(np.random.default_rng(1).uniform(-6.0, 8.0, 4000))
    objective = loss(rows)
    pool = AtomPool(np.arange(3000), rows[:3000])
    inner = begin(NewtonInner, objective, pool, np.full(3000, 1.0 / 3000))
    sizes = priced(monkeypatch)
    sum(inner.improve(stop=-math.inf, tol=1e-6, budget=math.inf))
    assert (sizes[0], sizes[-1]) == (3000, 3000)
    assert min(sizes) < 1000
    pool.add(np.arange(3000, 4000), rows, np.arange(3000, 4000))
    sizes.clear()
    sum(inner.improve(stop=-math.inf, tol=1e-6, budget=math.inf))
    assert (sizes[0], sizes[-1]) == (4000, 4000)
    assert pool_gap(objective, pool, inner) <= 1.01e-6
    inner.renumber(pool.keep(np.union1d(inner.positions, np.arange(2500))))
    sizes.clear()
    sum(inner.improve(stop=-math.inf, tol=1e-9, budget=math.inf))
    assert sizes[0] == pool.size
    assert pool_gap(objective, pool, inner) <= 1.01e-9


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("loss", [partial(logistic, m=5), partial(huber, m=5), quartic])
def test_a_point_stays_with_its_weights(loss: Callable[..., Objective], seed: int) -> None:
    """Where f hardly bends, steps go far beyond the minima of models, one after the other."""
    rng = np.random.default_rng(seed)
    rows = 10.0 * rng.standard_normal((100, 5))
    objective, pool = loss(rows), AtomPool(np.arange(100), rows)
    inner = begin(NewtonInner, objective, pool, np.eye(100)[0])
    for _ in inner.improve(stop=-math.inf, tol=1e-12, budget=1e6):
        mixed = inner.weights @ rows[inner.positions]
        np.testing.assert_allclose(inner.point.x, mixed, atol=1e-12 * np.abs(rows).max())


class Slopes:
    """A line of which only slopes matter; phi = s^2 / 2 - fall s."""

    def __init__(self, fall: float) -> None:
        self._fall = fall
        self.start = SquaredDistance([0.0]).at(np.ones(1))
        self.sq_length = 1.0

    def value(self, s: float) -> float:
        return 0.5 * s * s - self._fall * s

    def slope(self, s: float) -> float:
        return s - self._fall

    def at(self, s: float) -> Any:
        raise NotImplementedError


@pytest.mark.parametrize(
    ("fall", "end", "reach"),
    [
        (2.0, 1.0, 1.0),
        (2.0, 8.0, 2.0),
        (2.0, 1.5, 1.5),
        (1.0, 8.0, 1.0),
        (0.95, 8.0, 1.0),
        (0.5, 8.0, 0.5),
        (0.01, 1.0, 0.01),
        (-1.0, 8.0, 0.0),
    ],
)
def test_a_full_step_is_taken_where_it_is_flat(fall: float, end: float, reach: float) -> None:
    assert step_length(Slopes(fall), end, gap=1.0) == pytest.approx(reach, rel=0.06)


def test_a_slope_that_is_small_beside_the_gap_leaves_the_choice_to_the_model() -> None:
    assert step_length(Slopes(-0.1), 1.0, gap=100.0) == 1.0
