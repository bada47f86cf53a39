"""Squared distance and least squares: exact minima, proofs, arguments."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.objectives.cases import exact_minimum, exact_value
from wolfhound import LeastSquares, SquaredDistance
from wolfhound.core.contracts import Matrix, Vector
from wolfhound.core.rounding import length
from wolfhound.objectives.linear import Proof, _floor, _loss

KINDS = ("random", "ill-conditioned", "nearly dependent", "dependent", "scaled", "wide", "square")


def _design(kind: str, rng: np.random.Generator) -> Matrix:
    tall = rng.standard_normal((7, 3))
    left, right = np.linalg.qr(tall)[0], np.linalg.qr(rng.standard_normal((3, 3)))[0]
    designs = {
        "random": tall,
        "ill-conditioned": (left * [1.0, 1e-4, 1e-8]) @ right,
        "nearly dependent": (left * [1.0, 1.0, 1e-15]) @ right,
        "dependent": np.round(tall[:, [0, 1, 0]], 3) * [1.0, 1.0, 2.0],
        "scaled": tall * [1e-40, 1.0, 1e40],
        "wide": tall[:2],
        "square": tall[:3],
    }
    return np.asarray(designs[kind])


def _response(noise: float, design: Matrix, rng: np.random.Generator) -> Vector:
    size = float(np.linalg.norm(design))
    return np.asarray(
        design @ rng.standard_normal(design.shape[1]) + noise * size * rng.standard_normal(len(design))
    )


@pytest.mark.slow
@settings(max_examples=150)
@given(st.integers(0, 2**32 - 1), st.sampled_from(KINDS), st.sampled_from([0.0, 1e-8, 1.0]))
def test_floor_and_excess_hold_exactly(seed: int, kind: str, noise: float) -> None:
    rng = np.random.default_rng(seed)
    design = _design(kind, rng)
    response = _response(noise, design, rng)
    f = LeastSquares(design, response)
    minimum = exact_minimum(design, response)
    best = np.asarray(np.linalg.lstsq(design, response)[0], np.float64)
    assert Fraction(f.floor) <= minimum
    for x in (rng.standard_normal((design.shape[1],)), best, best * (1.0 + 1e-9)):
        assert Fraction(f.at(x).excess) >= 2 * (exact_value(design, response, x) - minimum)


@pytest.mark.parametrize(("kind", "loss"), [("random", 1e-12), ("ill-conditioned", 1e-6)])
def test_floor_is_tight(kind: str, loss: float) -> None:
    rng = np.random.default_rng(0)
    design = _design(kind, rng)
    response = _response(1.0, design, rng)
    f = LeastSquares(design, response)
    assert f.floor >= float(exact_minimum(design, response)) * (1.0 - loss)


def test_floor_holds_for_a_poor_inverse_and_a_poor_point() -> None:
    rng = np.random.default_rng(0)
    design, response = rng.standard_normal((9, 3)), rng.standard_normal(9)
    inverse = 1.1 * np.linalg.inv(np.linalg.qr(design)[1])
    loss = _loss(design, inverse)
    assert 0.21 <= loss < 0.21 * np.sqrt(3.0) * 1.02
    floor = _floor(Proof(inverse, length(inverse), loss), design, response, np.ones(3))
    true = float(exact_minimum(design, response))
    assert 0.0 < floor < true * 0.999


def test_floor_is_zero_where_nothing_is_proved() -> None:
    rng = np.random.default_rng(0)
    found = [LeastSquares(_design(kind, rng), np.ones(7)) for kind in ("nearly dependent", "dependent")]
    assert [f.floor for f in found] == [0.0, 0.0]
    point = found[0].at(np.zeros(3))
    assert 7.0 <= point.excess <= 7.0 + 1e-12


def test_excess_is_tight_near_the_minimum() -> None:
    rng = np.random.default_rng(0)
    design, response = rng.standard_normal((200, 5)), rng.standard_normal(200)
    f = LeastSquares(design, response)
    best = np.asarray(np.linalg.lstsq(design, response)[0], np.float64)
    for away in (1.0, 1e-3, 1e-6):
        true = away**2 * float(np.sum((design @ np.ones(5)) ** 2))
        assert true * (1.0 - 1e-6) <= f.at(best + away).excess <= true * (1.0 + 1e-4)


@given(st.integers(0, 2**32 - 1), st.integers(-100, 100))
def test_excess_of_a_distance_holds_exactly(seed: int, exponent: int) -> None:
    target, x = np.random.default_rng(seed).standard_normal((2, 5)) * 10.0**exponent
    true = sum((Fraction(float(s)) - Fraction(float(t))) ** 2 for s, t in zip(x, target, strict=True))
    excess = Fraction(SquaredDistance(target).at(x).excess)
    assert true <= excess <= true * Fraction(1.0 + 1e-13)


def test_lift_is_no_wider_than_the_atoms() -> None:
    rng = np.random.default_rng(0)
    design, response, x = rng.standard_normal((50, 4)), rng.standard_normal(50), rng.standard_normal(4)
    f = LeastSquares(design, response)
    assert f.lift(x[None]).shape == (1, 4)
    slope = f.slope(f.at(x))
    np.testing.assert_allclose(0.5 * slope @ slope + f.floor, f.at(x).value, rtol=1e-12)
    assert LeastSquares(design[:3], response[:3]).lift(x[None]).shape == (1, 3)


def test_smoothness_is_a_tight_upper_bound() -> None:
    design = np.random.default_rng(0).standard_normal((30, 5))
    top = np.linalg.norm(design.astype(np.float64), 2) ** 2
    assert top <= LeastSquares(design, np.ones(30)).smoothness <= top * (1.0 + 1e-11)
    assert top <= LeastSquares(design.T, np.ones(5)).smoothness <= top * (1.0 + 1e-11)


def test_smoothness_of_a_large_design_is_its_frobenius_norm() -> None:
    eye = np.eye(1025)
    assert 1025.0 <= LeastSquares(eye, np.ones(1025)).smoothness <= 1025.0 * (1.0 + 1e-9)


def test_line_of_a_quadratic_is_a_parabola() -> None:
    rng = np.random.default_rng(0)
    f = LeastSquares(rng.standard_normal((9, 3)), rng.standard_normal(9))
    line = f.line(f.at(rng.standard_normal(3)), rng.standard_normal(3))
    slopes = [line.slope(s) for s in (0.0, 1.0, 2.0)]
    np.testing.assert_allclose(np.diff(slopes, 2), 0.0, atol=1e-12)
    np.testing.assert_allclose(line.value(2.0) - line.value(0.0), slopes[0] + slopes[2], rtol=1e-12)


def test_distance_of_a_point_to_itself_is_zero() -> None:
    target = np.array([0.1, 0.2])
    point = SquaredDistance(target).at(target)
    assert point.value == 0.0
    assert point.value_error < 1e-300
    assert point.excess < 1e-300


def test_dimension() -> None:
    assert SquaredDistance(np.zeros(3)).dim == 3
    assert LeastSquares(np.zeros((2, 3)), np.zeros(2)).dim == 3


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ([], "`target` must be non-empty"),
        ([0.0, np.nan], "`target` must be finite. Got nan at index 1"),
        ([[1.0]], "`target` must be an array with 1 axes"),
    ],
)
def test_wrong_targets(target: Vector, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        SquaredDistance(target)


@pytest.mark.parametrize(
    ("design", "response", "message"),
    [
        (np.zeros((2, 3)), np.zeros(3), "`response` must be a vector of length 2"),
        (np.zeros((0, 3)), np.zeros(0), "`design` must be non-empty"),
        (np.full((2, 2), np.inf), np.zeros(2), "`design` must be finite"),
        (np.zeros((2, 2)), np.array([0.0, np.nan]), "`response` must be finite"),
    ],
)
def test_wrong_problems(design: Matrix, response: Vector, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        LeastSquares(design, response)
