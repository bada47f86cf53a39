"""The error bounds hold against long double, at any scale, and are not idle."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.objectives.cases import (
    Exact,
    exact_distance,
    exact_huber,
    exact_least_squares,
    exact_logistic,
    exact_mixture,
)
from wolfhound import Huber, LeastSquares, Logistic, MixtureLikelihood, SquaredDistance
from wolfhound.core.contracts import Objective, Point, Vector
from wolfhound.core.rounding import drift_length, length

seeds = st.integers(0, 2**32 - 1)
exponents = st.integers(-100, 100)
halves = st.integers(-50, 50)
dims = st.integers(1, 9)
counts = st.integers(1, 14)
drifts = st.sampled_from([0.0, 1e-18, 1e-12, 1e-6, 1e-1])
kinds = st.sampled_from([np.float32, np.float64])


def _value_holds(point: Point, exact: Exact, x: np.ndarray[tuple[int], np.dtype[np.longdouble]]) -> None:
    assert abs(exact(x)[0] - np.longdouble(point.value)) <= point.value_error


def _grad_holds(point: Point, exact: Exact) -> None:
    missed = exact(point.x.astype(np.longdouble))[1] - point.grad
    assert np.sqrt((missed**2).sum()) <= point.grad_error + point.turn


def _check(objective: Objective, exact: Exact, x: Vector, drift: float, rng: np.random.Generator) -> None:
    away = drift * np.abs(x) * rng.random(len(x))
    point = objective.at(x, away)
    for sign in (-1.0, 1.0, rng.choice([-1.0, 1.0], len(x))):
        _value_holds(point, exact, x.astype(np.longdouble) + sign * away.astype(np.longdouble))
    _grad_holds(point, exact)
    _grad_holds(objective.at(x), exact)
    _value_holds(objective.at(x, float(away.max())), exact, x.astype(np.longdouble) - away)
    _value_holds(objective.at(x), exact, x.astype(np.longdouble))


def _draw(rng: np.random.Generator, exponent: int, *shape: int) -> Vector:
    return np.asarray(rng.standard_normal(shape) * 10.0**exponent)


def _moves(objective: Objective, exact: Exact, point: Point, rng: np.random.Generator) -> None:
    for _ in range(20):
        direction = rng.standard_normal(len(point.x)) * (1e-12 + np.abs(point.x))
        point = objective.line(point, direction).at(rng.random())
        _value_holds(point, exact, point.x.astype(np.longdouble))
        _grad_holds(point, exact)


@given(seeds, dims, exponents, exponents, drifts)
def test_squared_distance(seed: int, d: int, e: int, f: int, drift: float) -> None:
    rng = np.random.default_rng(seed)
    target = _draw(rng, e, d)
    _check(SquaredDistance(target), exact_distance(target), _draw(rng, f, d), drift, rng)


@pytest.mark.slow
@given(seeds, dims, counts, halves, halves, exponents, drifts, kinds)
def test_least_squares(
    seed: int, d: int, m: int, e: int, f: int, g: int, drift: float, kind: type[np.floating]
) -> None:
    rng = np.random.default_rng(seed)
    design, response = _draw(rng, e, m, d), _draw(rng, g, m)
    design = (design * 10.0**-e).astype(kind).astype(np.float64) * 10.0**e
    objective, exact = LeastSquares(design, response), exact_least_squares(design, response)
    x = _draw(rng, f, d)
    _check(objective, exact, x, drift, rng)
    _moves(objective, exact, objective.at(x), rng)


@pytest.mark.slow
@given(seeds, dims, counts, halves, st.integers(-3, 3), drifts)
def test_logistic(seed: int, d: int, m: int, e: int, f: int, drift: float) -> None:
    rng = np.random.default_rng(seed)
    design, labels = _draw(rng, e, m, d), rng.choice([-1.0, 1.0], m)
    objective, exact = Logistic(design, labels), exact_logistic(design, labels)
    x = _draw(rng, f - e, d)
    _check(objective, exact, x, drift, rng)
    _moves(objective, exact, objective.at(x), rng)


@pytest.mark.slow
@given(seeds, dims, counts, halves, halves, exponents, drifts)
def test_huber(seed: int, d: int, m: int, e: int, f: int, g: int, drift: float) -> None:
    rng = np.random.default_rng(seed)
    design, response, delta = (
        _draw(rng, e, m, d),
        _draw(rng, g, m),
        10.0 ** rng.integers(e + f - 2, e + f + 2),
    )
    objective, exact = Huber(design, response, delta=delta), exact_huber(design, response, delta)
    x = _draw(rng, f, d)
    _check(objective, exact, x, drift, rng)
    _moves(objective, exact, objective.at(x), rng)


@given(seeds, dims, exponents, drifts)
def test_mixture(seed: int, d: int, e: int, drift: float) -> None:
    rng = np.random.default_rng(seed)
    x = np.abs(_draw(rng, e, d)) * 10.0 ** rng.integers(-50, 50, d)
    _check(MixtureLikelihood(), exact_mixture, x, drift, rng)


@settings(max_examples=30)
@given(seeds, exponents)
def test_bounds_are_not_idle(seed: int, e: int) -> None:
    rng = np.random.default_rng(seed)
    design, x = _draw(rng, 0, 300, 20), _draw(rng, e, 20)
    point = LeastSquares(design, np.zeros(300)).at(x)
    assert point.value_error <= 1e-11 * point.value
    assert point.grad_error <= 1e-11 * np.linalg.norm(point.grad)


@pytest.mark.parametrize("size", [0.0, 1e-320, 1e-200, 1.0, 1e150])
def test_length_is_an_upper_bound(size: float) -> None:
    vector = np.full(7, size)
    true = np.sqrt((vector.astype(np.longdouble) ** 2).sum())
    assert true <= length(vector) <= true * (1.0 + 1e-14) + 1e-152


def test_drift_length_of_a_number_is_that_of_a_vector() -> None:
    np.testing.assert_allclose(drift_length(0.5, 9), drift_length(np.full(9, 0.5), 9), rtol=1e-14)
    assert drift_length(0.0, 9) == 0.0


@pytest.mark.parametrize("scale", [5e-324, 1e-310, 1e-200, 1e-130, 1e130, 1e200, 1e307])
def test_lengths_are_rounded_up_where_squares_leave_the_range(scale: float) -> None:
    vector = scale * np.array([3.0, -4.0])
    exact = sum(Fraction(float(entry)) ** 2 for entry in vector)
    found = length(vector)
    assert exact <= Fraction(found) ** 2
    assert found <= 5.0 * scale * (1.0 + 1e-12) + 3e-308


@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("target", lambda large: SquaredDistance([large, 0.0])),
        ("design", lambda large: LeastSquares([[large]], [1.0])),
        ("response", lambda large: LeastSquares([[1.0]], [large])),
        ("response", lambda large: LeastSquares([[1e100]], [large / 1e80])),
        ("design", lambda large: Logistic([[large]], [1.0])),
        ("design", lambda large: Huber([[large]], [1.0])),
        ("response", lambda large: Huber([[1.0]], [large])),
        ("delta", lambda large: Huber([[1.0]], [1.0], delta=large)),
        ("design @ atom", lambda large: LeastSquares([[1.0]], [1.0]).values(np.array([[large]]))),
        ("design @ atom", lambda large: Logistic([[1e100]], [1.0]).at(np.array([large / 1e80]))),
    ],
)
@pytest.mark.parametrize("large", [1e158, 1e300])
def test_what_would_overflow_is_refused_by_name(
    name: str, make: Callable[[float], object], large: float
) -> None:
    with pytest.raises(ValueError, match=rf"`{name}` must be at most 1e\+150 in size; scale the problem."):
        make(large)


@pytest.mark.parametrize("make", [lambda: Logistic([[1.0]], [1.0]), lambda: Huber([[1.0]], [0.0])])
def test_a_bounded_slope_bounds_the_error_far_out(make: Callable[[], Objective]) -> None:
    """The image errs by 1e84 there: squared, that would say nothing."""
    point = make().at(np.array([-1e100]))
    assert point.value == pytest.approx(1e100)
    assert point.value_error <= 1e86
