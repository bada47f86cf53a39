"""The quasi-Newton model: what it learns, and that Custom gets as far as a model with a lift."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math

import numpy as np
import pytest

from wolfhound import Custom, LeastSquares, Status, minimize
from wolfhound.core.contracts import Matrix, Point, Vector
from wolfhound.methods import newton
from wolfhound.methods.newton import Secant


def quadratic(hessian: Matrix, x: Vector) -> Point:
    return Point(x=x, value=0.5 * float(x @ hessian @ x), grad=hessian @ x)


def learnt(hessian: Matrix, steps: int) -> Secant:
    """A model that has followed conjugate steps of a quadratic."""
    d = len(hessian)
    rng = np.random.default_rng(0)
    x = rng.standard_normal(d)
    secant = Secant(quadratic(hessian, x), rng.standard_normal((50, d)))
    directions = np.linalg.inv(np.linalg.cholesky(hessian)).T
    for step in directions[:, :steps].T:
        x = x + step
        secant.move(quadratic(hessian, x))
    return secant


@pytest.mark.parametrize("large", [1024, 2])
def test_conjugate_steps_teach_the_hessian(large: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a matrix, and as a sum of updates."""
    monkeypatch.setattr(newton, "LARGE", large)
    root = np.random.default_rng(1).standard_normal((6, 6))
    hessian = root @ root.T + np.eye(6)
    secant = learnt(hessian, 6)
    rows = np.random.default_rng(2).standard_normal((4, 6))
    np.testing.assert_allclose(secant.bend(rows), rows @ hessian, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(secant.bend(rows[0]), rows[0] @ hessian, rtol=1e-8, atol=1e-8)


def test_a_sum_of_updates_starts_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(newton, "LARGE", 2)
    monkeypatch.setattr(newton, "UPDATES", 3)
    hessian = np.diag([1.0, 2.0, 3.0, 4.0])
    assert np.linalg.eigvalsh(learnt(hessian, 4).bend(np.eye(4))).min() > 0.0


def test_curvature_stays_positive_where_f_has_none() -> None:
    hessian = np.diag([-1.0, 2.0, 0.0])
    rng = np.random.default_rng(0)
    x = rng.standard_normal(3)
    secant = Secant(quadratic(hessian, x), rng.standard_normal((50, 3)))
    for _ in range(20):
        x = x + rng.standard_normal(3)
        secant.move(quadratic(hessian, x))
    assert np.linalg.eigvalsh(secant.bend(np.eye(3))).min() > 0.0


def test_rounding_teaches_nothing() -> None:
    point = quadratic(np.eye(3), np.ones(3))
    secant = Secant(point, np.random.default_rng(0).standard_normal((50, 3)))
    before = secant.bend(np.eye(3))
    secant.move(Point(x=point.x + 1.0, value=0.0, grad=point.grad * (1.0 + 2.0**-52)))
    np.testing.assert_array_equal(secant.bend(np.eye(3)), before)


@pytest.mark.parametrize("scale", [1e-200, 1e-160, 1e140])
def test_any_scale_gives_a_finite_model(scale: float) -> None:
    rows = scale * np.random.default_rng(0).standard_normal((20, 3))
    secant = Secant(Point(x=rows[0], value=0.0, grad=rows[0]), rows)
    assert np.isfinite(secant.bend(rows)).all()


def test_a_curvature_that_floats_cannot_hold_teaches_nothing() -> None:
    secant = Secant(Point(x=np.zeros(2), value=0.0, grad=np.zeros(2)), np.eye(2))
    secant.move(Point(x=np.array([1e-160, 0.0]), value=0.0, grad=np.array([1e150, 1e150])))
    assert np.isfinite(secant.bend(np.eye(2))).all()
    secant.move(Point(x=np.array([2e-160, 0.0]), value=0.0, grad=np.array([3e150, -1e150])))
    assert np.isfinite(secant.bend(np.eye(2))).all()


# ---------------------------------------------------------------- Custom by such models


@pytest.mark.parametrize("d", [5, 40])
def test_custom_goes_as_far_as_least_squares(d: int) -> None:
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((3000, d))
    design, response = rng.standard_normal((2 * d, d)), rng.standard_normal(2 * d)
    calls = []

    def value_and_grad(x: Vector) -> tuple[float, Vector]:
        calls.append(x)
        residual = design @ x - response
        return 0.5 * float(residual @ residual), residual @ design

    known = minimize(LeastSquares(design, response), rows, rtol=1e-10)
    result = minimize(Custom(value_and_grad, convex=True), rows, rtol=1e-10)
    assert result.status is Status.GAP_REACHED
    assert result.passes <= 3.0
    assert len(calls) <= 600
    assert result.value == pytest.approx(known.value, rel=1e-10)


def poisson(means: Vector, counts: Vector) -> Matrix:
    logs = np.array([math.lgamma(count + 1.0) for count in counts])
    return np.asarray(np.exp(counts * np.log(means[:, None]) - means[:, None] - logs))


def test_a_weighted_mixture_is_solved_to_a_small_gap() -> None:
    """The curvatures of its 25 coordinates differ by many orders of magnitude."""
    rng = np.random.default_rng(0)
    counts, seen = np.unique(rng.poisson(rng.choice([1.0, 4.0, 12.0], 2000)), return_counts=True)
    shares = seen / seen.sum()

    def value_and_grad(x: Vector) -> tuple[float, Vector]:
        if not (x > 0.0).all():
            return math.inf, np.zeros(len(x))
        return -float(shares @ np.log(x)), -shares / x

    rows = poisson(np.linspace(0.05, 30.0, 20_001), counts.astype(np.float64))
    result = minimize(Custom(value_and_grad, convex=True), rows, rtol=0.0, atol=1e-7, max_passes=20)
    assert result.status is Status.GAP_REACHED
    # -sum log has its optimum where every atom's mean ratio is at most 1.
    assert ((rows / result.x) @ shares).max() <= 1.0 + 2e-7
