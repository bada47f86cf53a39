"""Logistic and Huber losses against scikit-learn and scipy; arguments."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from scipy.special import expit, huber
from sklearn.metrics import log_loss

from wolfhound import Huber, Logistic
from wolfhound.core import Objective, Vector

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
    np.testing.assert_allclose(f.curvature(f.at(np.zeros(1))), [0.5, 0.01 * 0.2 / 2])


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
