"""Custom: what it believes, what it refuses."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy.optimize import rosen, rosen_der

from tests.objectives.cases import half_square
from wolfhound.core import Vector
from wolfhound.objectives import Custom

X = np.array([1.0, -2.0, 3.0])


def _rosenbrock(x: Vector) -> tuple[float, Vector]:
    return float(rosen(x)), rosen_der(x)


def _wrong(x: Vector) -> tuple[float, Vector]:
    return float(x @ x), 2.0 * x + np.array([0.0, 1e-3, 0.0])


def test_errors_are_taken_as_zero_and_the_drift_to_first_order() -> None:
    f = Custom(half_square, convex=True)
    assert f.at(X).value_error == f.at(X).grad_error == 0.0
    np.testing.assert_allclose(
        f.at(X, np.array([0.0, 1e-3, 0.0])).value_error, math.sqrt(14.0) * 1e-3, rtol=0.02
    )
    assert f.at(X).excess == math.inf


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
        ((math.inf, np.zeros(3)), FloatingPointError, "returned the value inf"),
        ((0.0, np.array([0.0, math.nan, 0.0])), FloatingPointError, "the slope nan at coordinate 1"),
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
