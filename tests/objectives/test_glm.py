"""Logistic and Huber losses against scikit-learn and scipy; arguments."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import dataclasses
from fractions import Fraction

import numpy as np
import pytest
from scipy.optimize import linprog
from scipy.special import expit, huber
from sklearn.metrics import log_loss

from tests.fuzz import exact
from wolfhound import Huber, Logistic, minimize
from wolfhound.core.contracts import Objective, Vector

RNG = np.random.default_rng(0)
DESIGN, X, NOISE = RNG.standard_normal((30, 4)), RNG.standard_normal(4), RNG.standard_normal(30)
LABELS = NOISE > 0


def test_logistic_is_the_log_loss() -> None:
    value = Logistic(DESIGN, LABELS).at(X).value
    np.testing.assert_allclose(value, log_loss(LABELS, expit(DESIGN @ X)), rtol=1e-12)


@pytest.mark.parametrize(
    "labels", [LABELS, LABELS.astype(int), 2 * LABELS.astype(np.int8) - 1, 2.0 * LABELS - 1]
)
def test_labels_may_be_written_in_many_ways(labels: Vector) -> None:
    np.testing.assert_array_equal(Logistic(DESIGN, labels).labels, np.where(LABELS, 1.0, -1.0))


@pytest.mark.parametrize("margin", [-1e5, -800.0, 0.0, 800.0, 1e5])
def test_logistic_never_overflows(margin: float) -> None:
    f = Logistic([[1.0]], [1])
    point = f.at(np.array([margin]))
    np.testing.assert_allclose(point.value, np.logaddexp(0.0, -margin), rtol=1e-14)
    np.testing.assert_allclose(point.grad, -expit(-margin), rtol=1e-14)
    assert f.curvature(point)[0] >= 1e-6


@pytest.mark.parametrize(
    ("objective", "bend"), [(Logistic(DESIGN, LABELS), 0.25), (Huber(DESIGN, np.zeros(30)), 1.0)]
)
def test_smoothness_is_attained_at_zero(objective: Objective, bend: float) -> None:
    top = bend * np.linalg.norm(DESIGN, 2) ** 2 / 30
    np.testing.assert_allclose(objective.curvature(objective.at(np.zeros(4))), bend / 30)
    assert top <= objective.smoothness <= top * (1.0 + 1e-11)


@pytest.mark.parametrize("delta", [1e-3, 0.7, 1e3])
def test_huber_is_that_of_scipy(delta: float) -> None:
    f = Huber(DESIGN, NOISE, delta=delta)
    np.testing.assert_allclose(f.at(X).value, huber(delta, DESIGN @ X - NOISE).mean(), rtol=1e-13)


def test_huber_tail_has_a_small_curvature() -> None:
    f = Huber([[1.0], [1.0]], [0.5, 10.0], delta=2.0)
    np.testing.assert_allclose(f.curvature(f.at(np.zeros(1))), [0.5, 0.1 * 0.2 / 2])


@pytest.mark.parametrize("objective", [Logistic(DESIGN, LABELS), Huber(DESIGN, NOISE)])
def test_a_point_without_cache_will_do(objective: Objective) -> None:
    point = objective.at(X)
    bare = dataclasses.replace(point, cache=None)
    np.testing.assert_array_equal(objective.slope(bare), objective.slope(point))
    np.testing.assert_array_equal(objective.curvature(bare), objective.curvature(point))
    assert objective.line(bare, X).value(0.5) == objective.line(point, X).value(0.5)


def test_many_small_moves_stay_accurate() -> None:
    f = Logistic(DESIGN, LABELS)
    fresh = point = f.at(X)
    for _ in range(2000):
        point = f.line(point, X).at(1e-3)
    assert point.value_error <= 8.0 * f.at(point.x).value_error
    assert point.grad_error <= 8.0 * f.at(point.x).grad_error
    assert abs(f.at(point.x).value - point.value) <= 2.0 * point.value_error
    np.testing.assert_allclose(point.x, fresh.x * 3.0, rtol=1e-12)


@pytest.mark.parametrize("labels", [[0, 2], [-1, 0], [1.0, 0.5]])
def test_wrong_labels(labels: list[float]) -> None:
    with pytest.raises(ValueError, match="`labels` must be -1 and \\+1, or 0 and 1"):
        Logistic(np.ones((2, 1)), labels)


@pytest.mark.parametrize("delta", [0.0, -1.0, np.nan, np.inf])
def test_wrong_delta(delta: float) -> None:
    with pytest.raises(ValueError, match="`delta` must be"):
        Huber(DESIGN, NOISE, delta=delta)


def test_wrong_lengths() -> None:
    with pytest.raises(ValueError, match=r"`labels` must be a vector of length 30\. Got length 29"):
        Logistic(DESIGN, LABELS[1:])
    with pytest.raises(ValueError, match=r"`response` must be a vector of length 30\. Got length 29"):
        Huber(DESIGN, NOISE[1:])


def test_repr_is_short() -> None:
    assert repr(Huber(DESIGN, NOISE)) == "Huber(m=30, d=4)"


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("delta", [1e-12, 1e-9, 1e-6, 1e-3, 1.0])
@pytest.mark.parametrize("scale", [1.0, 1e7])
def test_tangents_of_huber_are_below_it(delta: float, scale: float, seed: int) -> None:
    """In rational numbers, however narrow the loss beside its residuals."""
    rng = np.random.default_rng(seed)
    design, x = scale * rng.standard_normal((6, 3)), rng.standard_normal(3)
    # Some residuals are rounding, some are of the size of delta, some are large.
    response = design @ x + np.array([0.0, 0.0, delta, -3.0 * delta, scale, -scale])
    point = Huber(design, response, delta=delta).at(x)
    for length in (1e-12, 1e-6, 1.0):
        y = x + length * rng.standard_normal(3)
        away = [Fraction(b) - Fraction(a) for a, b in zip(x.tolist(), y.tolist(), strict=True)]
        rise = sum((Fraction(g) * a for g, a in zip(point.grad.tolist(), away, strict=True)), Fraction())
        room = Fraction(
            1.01 * point.grad_error * float(np.linalg.norm(y - x)) + point.value_error + point.sag
        )
        assert Fraction(point.value) + rise - room <= exact_huber(design, response, delta, y)
    assert abs(Fraction(point.value) - exact_huber(design, response, delta, x)) <= Fraction(point.value_error)


def exact_huber(design: Vector, response: Vector, delta: float, x: Vector) -> Fraction:
    images = exact.images(design, exact.mix(x[None], np.ones(1)))
    return exact.huber(images, response, delta).low


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("ratio", [1e-14, 1e-12, 1e-10, 1e-8])
def test_a_narrow_huber_is_solved_as_the_linear_program_that_it_nearly_is(ratio: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    n, m, d, scale = 50, 3, 4, 1e7
    rows = rng.standard_normal((n, d))
    design, response = scale * rng.standard_normal((m, d)), scale * rng.standard_normal(m)
    f = Huber(design, response, delta=ratio * scale)
    result = minimize(f, rows)
    images, aim, unit = design @ rows.T / scale, response / scale, np.eye(m)
    bounds = np.block([[images, -unit], [-images, -unit]]), np.concatenate([aim, -aim])
    costs, whole = np.repeat([0.0, 1.0], [n, m]), [np.repeat([1.0, 0.0], [n, m])]
    shares = linprog(costs, *bounds, whole, [1.0]).x[:n]
    known = f.at(shares / shares.sum() @ rows).value
    assert result.success
    assert result.value <= known + result.goal + 1e-9 * f.at(rows[0]).value
