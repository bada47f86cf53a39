"""Custom: what it believes, what it refuses."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
import re
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy.optimize import rosen, rosen_der

from tests.objectives.cases import half_square
from tests.problems import rational, squared_distance
from wolfhound import (
    Away,
    Custom,
    FrankWolfe,
    FullyCorrective,
    OpenLoop,
    Status,
    SublinearFrankWolfe,
    Vanilla,
    minimize,
)
from wolfhound.core.contracts import Method, Vector
from wolfhound.methods.asking import tell_contradiction

X = np.array([1.0, -2.0, 3.0])


def _rosenbrock(x: Vector) -> tuple[float, Vector]:
    return float(rosen(x)), rosen_der(x)


def _wrong(x: Vector) -> tuple[float, Vector]:
    return float(x @ x), 2.0 * x + np.array([0.0, 1e-3, 0.0])


@pytest.mark.parametrize("smoothness", [1.0, math.inf])
def test_errors_are_taken_as_zero_and_the_drift_to_second_order(smoothness: float) -> None:
    f = Custom(half_square, convex=True, smoothness=smoothness)
    assert f.at(X).value_error == f.at(X).grad_error == 0.0
    drift = np.array([0.0, 1e-3, 0.0])
    np.testing.assert_allclose(f.at(X, drift).value_error, math.sqrt(14.0) * 1e-3, rtol=0.02)
    assert f.at(X).excess == math.inf
    # Where the gradient vanishes only the second order is left.
    flat = Custom(lambda x: half_square(x - X), convex=True, smoothness=smoothness)
    assert 0.5e-6 <= flat.at(X, drift).value_error <= 1.1e-6


def test_answers_in_float32_have_the_rounding_of_float32() -> None:
    f = Custom(lambda x: (half_square(x)[0], x.astype(np.float32)), convex=True)
    assert f.at(X).value_error == pytest.approx(7.0 * 2.0**-21)
    assert f.at(X).grad_error == pytest.approx(math.sqrt(14.0) * 2.0**-21)
    rows = np.random.default_rng(0).standard_normal((100, 3)) + 2.0
    result = minimize(f, rows, rtol=1e-12)
    assert result.status is Status.ROUNDING
    assert 1e-12 < result.gap / result.value < 1e-4


@pytest.mark.parametrize(
    "answer",
    [
        (math.inf, np.ones(3)),
        (math.nan, np.full(3, math.nan)),
        (0.0, np.array([0.0, math.nan, 0.0])),
        (0.0, np.array([0.0, math.inf, 0.0])),
    ],
)
def test_outside_its_domain_it_is_infinite_and_points_nowhere(answer: Any) -> None:
    f = Custom(lambda x: answer, convex=True)
    point = f.at(X)
    assert (point.value, point.value_error, point.grad_error) == (math.inf, math.inf, math.inf)
    assert not point.grad.any()
    assert f.values(X[None]).tolist() == [math.inf]
    assert f.line(Custom(half_square, convex=True).at(X), -X).slope(0.5) == math.inf
    with pytest.raises(ValueError, match="`x` must be a point where value and gradient are finite"):
        f.check(X)


def minus_logs(x: Vector) -> tuple[float, Vector]:
    if (x <= 0.0).any():
        return math.nan, np.full(len(x), math.nan)
    return -float(np.log(x).sum()), -1.0 / x


@pytest.mark.parametrize("method", [FullyCorrective(), FrankWolfe(Away()), FrankWolfe(Vanilla(), OpenLoop())])
def test_steps_stay_inside_the_domain(method: Method) -> None:
    """Every atom but one lies outside; the closed form is the centre of the simplex."""
    rows = np.vstack([np.eye(4), [[0.7, 0.1, 0.1, 0.1]]])
    result = minimize(Custom(minus_logs, convex=True), rows, method=method, rtol=1e-2, max_steps=3000)
    assert result.success
    np.testing.assert_allclose(result.x, 0.25, atol=0.1)


@pytest.mark.parametrize("method", [FullyCorrective(), FrankWolfe(Away()), SublinearFrankWolfe()])
def test_a_start_outside_the_domain_is_mixed_or_an_error(method: Method) -> None:
    f = Custom(minus_logs, convex=True)
    mixed = minimize(f, np.eye(4), method=method, rtol=1e-2, max_steps=3000)
    assert mixed.success
    with pytest.raises(FloatingPointError, match="must be finite at the start"):
        minimize(f, -np.eye(4), method=method)


@pytest.mark.parametrize("n", [1, 7])
def test_the_value_is_not_below_f_at_the_exact_weights(n: int) -> None:
    """Atoms far from the origin: x is rounded, and near the minimum only the second order sees it."""
    rng = np.random.default_rng(0)
    rows = 1e6 + rng.standard_normal((n, 3))
    target = rng.dirichlet(np.ones(n)) @ rows
    result = minimize(Custom(lambda x: half_square(x - target), convex=True), rows, rtol=0.0, max_passes=20)
    points, weights = rational(rows[result.ids]), rational(result.weights)[0]
    exact = squared_distance(points, rational(target)[0], [w / sum(weights) for w in weights])
    assert Fraction(result.value) >= exact


def test_a_zero_by_cancellation_drifts_too() -> None:
    """Large atoms whose sum is rounded to 0: what was lost is in the second order only."""
    f = Custom(half_square, convex=True)
    assert f.at(np.zeros(3), np.array([1e10, 0.0, 0.0])).value_error >= 0.5e20
    edge = Custom(minus_logs, convex=True)
    assert math.isfinite(edge.at(np.array([1.0, 1.0]), np.full(2, 5e-324)).value_error)


@pytest.mark.parametrize(
    ("value_and_grad", "more"),
    [
        (lambda x: (half_square(x - 100.0)[0], 0.5 * (x - 100.0)), {}),
        (lambda x: (-half_square(x)[0], -x), {}),
        (half_square, {"floor": 10.0}),
    ],
)
@pytest.mark.parametrize("method", [FullyCorrective(), FrankWolfe(Away())])
def test_a_value_below_the_lower_bound_is_an_error(
    value_and_grad: Any, more: dict[str, float], method: Method
) -> None:
    rows = np.random.default_rng(0).standard_normal((50, 3))
    f = Custom(value_and_grad, convex=True, **more)
    with pytest.raises(ValueError, match=r"below what its gradient elsewhere proves.*Custom.check"):
        minimize(f, rows, method=method, max_steps=1000, start=([0], [1.0]))


@pytest.mark.parametrize(
    "turn",
    [
        lambda away: 3.0 * away,
        lambda away: -away,
        lambda away: away * np.array([1.0, 1.0, 1.0, 1.0, -2.0]),
        lambda away: away + np.array([2.0, -1.0, 0.5, 1.0, -2.0]),
    ],
)
def test_the_numbers_of_a_contradiction_contradict(turn: Any) -> None:
    said = [
        _contradict(turn, method, seed)
        for method in (FullyCorrective(), FrankWolfe(Away()))
        for seed in range(20)
    ]
    pairs = re.findall(r"f is (\S+) at a point of the hull, below .*>= (\S+)\)", "\n".join(said))
    assert len(pairs) == len([text for text in said if text]) >= 5
    assert all(float(value) < float(bound) for value, bound in pairs)


def _contradict(turn: Any, method: Method, seed: int) -> str:
    """What a run with a wrong gradient says where it sees that."""
    rng = np.random.default_rng(seed)
    rows, target = rng.standard_normal((30, 5)), 3.0 * rng.standard_normal(5)
    f = Custom(lambda x: (half_square(x - target)[0], turn(x - target)), convex=True)
    try:
        minimize(f, rows, method=method, max_steps=100)
    except ValueError as error:
        return str(error)
    return ""


def test_close_numbers_are_told_apart() -> None:
    assert "f is 1.000000001 at" in tell_contradiction(1.000000001, 1.000000002, "min f")
    assert "f is 1 at" in tell_contradiction(1.0, 2.0, "min f")


def test_repr_says_trusted() -> None:
    assert repr(Custom(half_square, convex=True)) == "Custom(half_square, convex; trusted, not proved)"
    assert "not convex" in repr(Custom(_rosenbrock, convex=False))


def test_what_is_said_is_believed() -> None:
    f = Custom(half_square, convex=False, smoothness=2.0, floor=-1.0)
    assert (f.convex, f.smoothness, f.floor, f.quadratic, f.dim) == (False, 2.0, -1.0, False, None)


def test_there_is_no_lift() -> None:
    f = Custom(half_square, convex=True)
    point = f.at(X)
    with pytest.raises(TypeError, match="no lift"):
        f.slope(point)
    with pytest.raises(TypeError, match="no lift"):
        f.curvature(point)


def test_the_function_may_write_to_its_arrays() -> None:
    buffer = np.zeros(3)

    def careless(x: Vector) -> tuple[float, Vector]:
        buffer[:] = 2.0 * x
        value = float(x @ x)
        x[:] = 0.0
        return value, buffer

    f = Custom(careless, convex=True)
    x = X.copy()
    first = f.at(x)
    f.at(np.zeros(3))
    np.testing.assert_array_equal(x, X)
    np.testing.assert_array_equal(first.grad, 2.0 * X)


def test_the_line_calls_the_function_once_per_new_s() -> None:
    calls = []

    def counted(x: Vector) -> tuple[float, Vector]:
        calls.append(x)
        return half_square(x)

    f = Custom(counted, convex=True)
    line = f.line(f.at(X), -X)
    assert (line.value(0.0), line.value(0.5), line.slope(0.5), line.at(0.5).value) == (7.0, 1.75, -7.0, 1.75)
    assert len(calls) == 2


def test_check_accepts_a_right_gradient() -> None:
    assert Custom(_rosenbrock, convex=False).check(X) < 1e-8
    assert Custom(lambda x: (1e6 + x.sum(), np.ones(3)), convex=True).check(X) < 1e-5


def test_check_names_the_wrong_coordinate() -> None:
    f = Custom(_wrong, convex=True)
    with pytest.raises(ValueError, match=r"-3.999 as coordinate 1 of the gradient, .* give -4\."):
        f.check(X)
    assert f.check(X, coordinates=np.array([0, 2])) < 1e-8


@pytest.mark.parametrize(
    ("answer", "error", "message"),
    [
        (1.0, TypeError, r"must return \(value, gradient\). Got float"),
        ((np.zeros(2), np.zeros(3)), ValueError, r"`value` must be one number. Got shape \(2,\)"),
        ((0.0, np.zeros(2)), ValueError, r"`gradient` must be of shape \(3,\), like x. Got shape \(2,\)"),
        ((-math.inf, np.zeros(3)), FloatingPointError, "returned the value -inf: f has no minimum"),
    ],
)
def test_wrong_answers(answer: Any, error: type[Exception], message: str) -> None:
    f = Custom(lambda x: answer, convex=True)
    with pytest.raises(error, match=message):
        f.at(X)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"value_and_grad": 3, "convex": True}, "`value_and_grad` must be a function"),
        ({"value_and_grad": half_square, "convex": "yes"}, "`convex` must be True or False"),
    ],
)
def test_wrong_types(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(TypeError, match=message):
        Custom(**arguments)


def test_wrong_smoothness() -> None:
    with pytest.raises(ValueError, match="`smoothness` must be a number >= 0"):
        Custom(half_square, convex=True, smoothness=-1.0)
