"""lower <= min f <= value, always: the promise that everything else rests on.

For quadratic f the minimum comes from rational arithmetic: it is exact, and no
tolerance is allowed. For other f it is an interval that extended precision proves.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.problems import (
    Array,
    Evaluate,
    Exact,
    exact_minimum,
    huber,
    images,
    interval,
    logistic,
    mixture,
    rational,
    squared_distance,
)
from wolfhound import (
    Adaptive,
    Away,
    BlendedPairwise,
    FrankWolfe,
    FullyCorrective,
    Huber,
    LeastSquares,
    Logistic,
    MixtureLikelihood,
    OpenLoop,
    Pairwise,
    Result,
    SquaredDistance,
    Status,
    Vanilla,
    minimize,
)
from wolfhound.core.contracts import Method, Objective
from wolfhound.core.rounding import UNIT

FRANK_WOLFE: tuple[Method, ...] = (
    FrankWolfe(Vanilla()),
    FrankWolfe(Vanilla(), OpenLoop()),
    FrankWolfe(Vanilla(), lazy=True),
    FrankWolfe(Away()),
    FrankWolfe(Away(), Adaptive()),
    FrankWolfe(Away(), lazy=True),
    FrankWolfe(Pairwise()),
    FrankWolfe(Pairwise(), lazy=True),
    FrankWolfe(BlendedPairwise()),
    FrankWolfe(BlendedPairwise(), lazy=True),
)
RTOLS = (1e-2, 1e-4, 1e-6, 1e-9, 0.0)
LIMIT = 12.0
"""Passes after which FullyCorrective has failed; it needs three or four."""


@dataclass(frozen=True)
class Cloud:
    """Atoms, a point near them, and what they are."""

    name: str
    rows: Array
    target: Array


def shapes(count: int, dim: int, rng: np.random.Generator) -> dict[str, Array]:
    """Clouds that a solver tends to get wrong."""
    rows = rng.standard_normal((count, dim))
    some = rng.integers(0, (count + 1) // 2, count)
    return {
        "plain": rows,
        "repeated": rows[some],
        "zeros": rows * (rng.random((count, 1)) < 0.5),
        "collinear": rows[:, :1] * rng.standard_normal(dim) + rng.standard_normal(dim),
        "lattice": rng.integers(-2, 3, (count, dim)).astype(np.float64),
        "clustered": rows[some] + 1e-9 * rows,
        "all the same": np.repeat(rows[:1], count, axis=0),
        "far away": rows + 1e6,
        "thin": rows * np.logspace(0.0, -8.0, dim),
    }


def targets(rows: Array, rng: np.random.Generator) -> dict[str, Array]:
    """Points inside, outside and exactly on atoms, edges and the mean."""
    count, dim = rows.shape
    mean = rows.mean(axis=0)
    return {
        "inside": rng.dirichlet(np.ones(count)) @ rows,
        "outside": mean + 3.0 * rng.standard_normal(dim),
        "on an atom": rows[int(rng.integers(count))],
        "mean": mean,
        "very far": mean + 1e5 * rng.standard_normal(dim),
        "on an edge": 0.5 * (rows[0] + rows[-1]),
    }


SCALES = {np.float64: (1e-120, 1e-30, 1e-3, 1.0, 1.0, 1e3, 1e30, 1e120), np.float32: (1e-30, 1.0, 1.0, 1e30)}


@st.composite
def clouds(draw: st.DrawFn, *, counts: Sequence[int] = (1, 2, 3, 5, 8, 12, 20)) -> Cloud:
    """All shapes, all targets, both precisions, all scales."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    count, dim = draw(st.sampled_from(counts)), draw(st.sampled_from([1, 2, 3, 4, 6]))
    dtype = draw(st.sampled_from([np.float64, np.float32]))
    shape = draw(st.sampled_from(sorted(shapes(1, 1, rng))))
    rows = shapes(count, dim, rng)[shape]
    aim = draw(st.sampled_from(sorted(targets(rows, rng))))
    scale = draw(st.sampled_from(SCALES[dtype]))
    target = (scale * targets(rows, rng)[aim]).astype(draw(st.sampled_from([dtype, np.float64])))
    return Cloud(
        f"{shape}, {aim}, {dtype.__name__}, {scale}", (scale * rows).astype(dtype), target.astype(np.float64)
    )


def check_point(result: Result, rows: Array) -> None:
    """Weights on the simplex, ids of atoms, and x is what they say."""
    n, k = len(rows), len(result.ids)
    assert result.ids.dtype == np.int64
    assert len(np.unique(result.ids)) == k > 0
    assert result.ids.min() >= 0
    assert result.ids.max() < n
    assert (result.weights > 0.0).all()
    assert abs(math.fsum(result.weights) - 1.0) <= 4.0 * UNIT * k
    x = np.array([math.fsum(result.weights * column) for column in rows[result.ids].astype(np.float64).T])
    size = np.abs(rows).max(axis=0).astype(np.float64)
    assert (np.abs(result.x - x) <= 64.0 * UNIT * (k + 5) * size).all()


def check_quadratic(result: Result, rows: Array, points: Exact, target: Array) -> None:
    """Without any tolerance: all numbers are rational."""
    aim = rational(target)[0]
    best = exact_minimum(points, aim)
    here = squared_distance([points[i] for i in result.ids], aim, rational(result.weights)[0])
    assert Fraction(result.lower) <= best
    assert best <= here <= Fraction(result.value)
    check_point(result, rows)


# ---------------------------------------------------------------- quadratics


@pytest.mark.slow
@settings(max_examples=250)
@given(clouds(), st.sampled_from(FRANK_WOLFE), st.sampled_from(RTOLS))
def test_distance_by_frank_wolfe(cloud: Cloud, method: Method, rtol: float) -> None:
    result = minimize(SquaredDistance(cloud.target), cloud.rows, method=method, rtol=rtol, max_steps=150)
    check_quadratic(result, cloud.rows, images(cloud.rows), cloud.target)


@pytest.mark.slow
@settings(max_examples=250)
@given(clouds(), st.sampled_from(RTOLS))
def test_distance_by_fully_corrective(cloud: Cloud, rtol: float) -> None:
    result = minimize(SquaredDistance(cloud.target), cloud.rows, rtol=rtol, max_passes=LIMIT)
    check_quadratic(result, cloud.rows, images(cloud.rows), cloud.target)
    assert result.success


@pytest.mark.parametrize("method", [FullyCorrective(), *FRANK_WOLFE])
@pytest.mark.parametrize("n", [1, 2, 10])
@pytest.mark.parametrize("scale", [5e-324, 1e-320, 1e-308, 1e-300, 1e-170, 1e-160, 1e-150, 1e140, 1e149])
def test_distance_where_squares_leave_the_range_of_floats(method: Method, n: int, scale: float) -> None:
    rng = np.random.default_rng(0)
    rows = scale * rng.standard_normal((n, 3))
    target = scale * rng.standard_normal(3)
    result = minimize(SquaredDistance(target), rows, method=method, max_steps=50)
    check_quadratic(result, rows, images(rows), target)


def designs(m: int, d: int, rng: np.random.Generator) -> dict[str, Array]:
    """Matrices of full rank, nearly and clearly not."""
    design = rng.standard_normal((m, d))
    return {
        "plain": design,
        "ill-conditioned": design * np.logspace(0.0, -7.0, d),
        "rank one": design[:, :1] * rng.standard_normal(d),
        "zero": np.zeros((m, d)),
    }


@st.composite
def regressions(draw: st.DrawFn) -> tuple[Cloud, Array, Array]:
    """Atoms, a design with fewer or more rows than columns, and a response."""
    cloud = draw(clouds(counts=(1, 2, 5, 12)))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    d = len(cloud.target)
    kind = draw(st.sampled_from(sorted(designs(1, 1, rng))))
    design = designs(draw(st.sampled_from([1, 2, d, d + 1, 3 * d])), d, rng)[kind]
    image = design @ cloud.target
    noise = np.abs(image).mean() * rng.standard_normal(len(design))
    return cloud, design, draw(st.sampled_from([image, image + noise]))


@pytest.mark.slow
@settings(max_examples=150)
@given(regressions(), st.sampled_from(FRANK_WOLFE), st.sampled_from(RTOLS))
def test_least_squares_by_frank_wolfe(
    problem: tuple[Cloud, Array, Array], method: Method, rtol: float
) -> None:
    cloud, design, response = problem
    result = minimize(LeastSquares(design, response), cloud.rows, method=method, rtol=rtol, max_steps=100)
    check_quadratic(result, cloud.rows, images(cloud.rows, design), response)


@pytest.mark.slow
@settings(max_examples=150)
@given(regressions(), st.sampled_from(RTOLS))
def test_least_squares_by_fully_corrective(problem: tuple[Cloud, Array, Array], rtol: float) -> None:
    cloud, design, response = problem
    result = minimize(LeastSquares(design, response), cloud.rows, rtol=rtol, max_passes=LIMIT)
    check_quadratic(result, cloud.rows, images(cloud.rows, design), response)
    assert result.success


def test_the_exact_minimum_is_right_where_it_is_known() -> None:
    corners = rational(np.eye(3))
    assert exact_minimum(corners, rational(np.zeros(3))[0]) == Fraction(1, 6)
    assert exact_minimum(corners, rational(np.array([2.0, 0.0, 0.0]))[0]) == Fraction(1, 2)
    assert exact_minimum(corners, [Fraction(1, 3)] * 3) == 0
    assert exact_minimum(corners[:1], rational(np.zeros(3))[0]) == Fraction(1, 2)


# ---------------------------------------------------------------- other smooth f


def check_smooth(result: Result, rows: Array, evaluate: Evaluate) -> None:
    truth = interval(evaluate, rows)
    assert result.lower <= truth.upper
    assert result.value >= truth.lower
    check_point(result, rows)


@st.composite
def losses(draw: st.DrawFn) -> tuple[Objective, Evaluate, Array]:
    """A loss of the package, the same in extended precision, and a few atoms."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    count, d, m = (draw(st.sampled_from(sizes)) for sizes in ([1, 2, 5, 12], [1, 2, 4], [1, 5, 20]))
    rows = shapes(count, d, rng)[draw(st.sampled_from(["plain", "repeated", "zeros", "collinear"]))]
    rows = rows.astype(draw(st.sampled_from([np.float64, np.float32])))
    design, response = rng.standard_normal((m, d)), 3.0 * rng.standard_normal(m)
    labels = np.where(response > 0.0, 1.0, -1.0)
    likelihoods = np.exp(-0.5 * rows * rows)
    choices: list[tuple[Objective, Evaluate, Array]] = [
        (Logistic(design, labels), logistic(design, labels), rows),
        (Huber(design, response), huber(design, response), rows),
        (MixtureLikelihood(), mixture, likelihoods),
    ]
    return choices[draw(st.integers(0, 2))]


@pytest.mark.slow
@settings(max_examples=80)
@given(losses(), st.sampled_from([1e-2, 1e-4, 1e-6, 1e-8]))
def test_losses_by_fully_corrective(problem: tuple[Objective, Evaluate, Array], rtol: float) -> None:
    objective, evaluate, rows = problem
    result = minimize(objective, rows, rtol=rtol, max_passes=LIMIT)
    check_smooth(result, rows, evaluate)
    assert result.success


@pytest.mark.slow
@settings(max_examples=40)
@given(losses(), st.sampled_from(FRANK_WOLFE), st.sampled_from(RTOLS))
def test_losses_by_frank_wolfe(
    problem: tuple[Objective, Evaluate, Array], method: Method, rtol: float
) -> None:
    objective, evaluate, rows = problem
    result = minimize(objective, rows, method=method, rtol=rtol, max_steps=60)
    check_smooth(result, rows, evaluate)


def test_a_long_run_in_high_dimension_is_certified() -> None:
    """Many active atoms, float32 rows, a goal at the edge of rounding."""
    rng = np.random.default_rng(5)
    rows = rng.standard_normal((400, 60)).astype(np.float32)
    target = 0.4 * rng.standard_normal(60)
    result = minimize(SquaredDistance(target), rows, rtol=1e-13)
    long = rows.astype(np.longdouble) - target.astype(np.longdouble)
    x = result.weights.astype(np.longdouble) @ long[result.ids] / result.weights.sum(dtype=np.longdouble)
    value, gap = x @ x / 2, x @ x - (long @ x).min()
    assert result.status in (Status.GAP_REACHED, Status.ROUNDING)
    assert value <= result.value
    assert result.lower <= value
    assert gap <= 4.0 * result.gap + 1e-14
