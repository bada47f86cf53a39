"""`nnls`: exact minima, scipy's answers, many right sides, lines, wrong use."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import copy
import math
import pickle
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import nnls as scipy_nnls

from tests.weight_sets import fractions, least
from wolfhound import nnls
from wolfhound.compiled.active_set import SHUT, make_state, pad
from wolfhound.core.contracts import WeightSet
from wolfhound.solve._cone_kernels import solve_cones
from wolfhound.solve.nnls import FEW

CONE = WeightSet(total=np.inf, at_most=True)
HALVES = st.integers(-6, 6).map(lambda k: k / 2.0)


def best(design: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> Fraction:
    """The least |A x - b|^2, exactly."""
    n = design.shape[1]
    return 2 * least([fractions(column) for column in design.T], fractions(b), CONE, [np.inf] * n)


@given(st.lists(st.tuples(HALVES, HALVES, HALVES), min_size=3, max_size=3), st.tuples(HALVES, HALVES, HALVES))
def test_exact_minima_lie_between_the_bounds(rows: list[tuple[float, ...]], side: tuple[float, ...]) -> None:
    """Columns may be zero, repeat, or hold a line: without a mass the lower bound is one for all x."""
    design, b = np.array(rows), np.array(side)
    found = nnls(design, b)
    truth, x = best(design, b), fractions(found.x)
    away = [sum((Fraction(float(a)) * w for a, w in zip(row, x, strict=True)), Fraction()) for row in design]
    here = sum(((z - Fraction(float(t))) ** 2 for z, t in zip(away, b, strict=True)), Fraction())
    assert (found.x >= 0.0).all()
    assert here <= Fraction(found.rnorm) ** 2
    assert Fraction(found.lower) ** 2 <= (truth if math.isinf(found.mass) else here)
    assert found.rnorm**2 - float(truth) <= 1e-9 * (1.0 + b @ b)
    assert found.success


def test_the_arrays_that_scipy_once_got_wrong() -> None:
    """Issue 25389 of scipy: the unconstrained answer is (-1, 3), the right one (0, 1.6)."""
    x, rnorm = nnls([[1.0, 1.0], [3.0, 2.0]], [2.0, 3.0])
    assert x == pytest.approx([0.0, 1.6], abs=1e-12)
    assert rnorm == pytest.approx(math.sqrt(0.2), abs=1e-12)


@pytest.mark.parametrize("mean", [0.0, 0.7, 5.0])
@pytest.mark.parametrize("shape", [(5, 3), (20, 60), (60, 20), (1, 4), (4, 1)])
def test_scipy_finds_nothing_better(shape: tuple[int, int], mean: float) -> None:
    rng = np.random.default_rng(3)
    design, b = rng.standard_normal(shape) + mean, rng.standard_normal(shape[0])
    found, (_, rnorm) = nnls(design, b), scipy_nnls(design, b)
    assert found.success
    assert found.rnorm <= rnorm * (1.0 + 1e-9) + 1e-6 * np.linalg.norm(b)
    assert found.lower <= rnorm * (1.0 + 1e-12)
    assert np.linalg.norm(design @ found.x - b) <= found.rnorm


@pytest.mark.parametrize("kind", ["non-negative", "gaussian", "line"])
def test_many_right_sides_are_each_solved_and_proved(kind: str) -> None:
    rng = np.random.default_rng(4)
    design = {
        "non-negative": rng.gamma(0.5, 1.0, (12, 40)),
        "gaussian": rng.standard_normal((12, 40)) + 0.9,
        "line": np.concatenate([np.eye(12)[:, :4], -np.eye(12)[:, :4]], axis=1),
    }[kind]
    sides = rng.standard_normal((12, 1500 if kind != "line" else 5))
    found = nnls(design, sides)
    assert found.x.shape == (design.shape[1], sides.shape[1])
    assert found.success.all()
    assert (found.x >= 0.0).all()
    assert (np.linalg.norm(design @ found.x - sides, axis=0) <= found.rnorm).all()
    assert (found.gap <= 1e-5 * np.linalg.norm(sides, axis=0)).all()
    for i in range(0, sides.shape[1], 50):
        rnorm = scipy_nnls(design, sides[:, i])[1]
        assert found.lower[i] <= rnorm * (1.0 + 1e-12)
        assert found.rnorm[i] <= rnorm * (1.0 + 1e-9)
        assert nnls(design, sides[:, i]).rnorm == pytest.approx(found.rnorm[i], rel=1e-9)
    assert np.isinf(found.mass).all() == (kind != "line")


@pytest.mark.parametrize("kind", ["even", "uneven"])
def test_many_right_sides_over_many_columns(kind: str) -> None:
    """More columns than have a Gram matrix: every right side has a pool."""
    rng = np.random.default_rng(8)
    design, sides = rng.gamma(0.5, 1.0, (10, FEW + 100)), rng.gamma(0.5, 1.0, (10, 30))
    design[:, 7] = 0.0
    if kind == "uneven":
        design *= 10.0 ** rng.uniform(-12.0, 12.0, design.shape[1])
    found = nnls(design, sides)
    assert found.success.all()
    assert not found.x[7].any()
    for i in range(0, 30, 10):
        rnorm = scipy_nnls(design, sides[:, i])[1]
        assert found.lower[i] <= rnorm * (1.0 + 1e-12)
        assert np.linalg.norm(design @ found.x[:, i] - sides[:, i]) <= found.rnorm[i]
        assert found.rnorm[i] <= rnorm * (1.0 + 1e-9) + 1e-5 * np.linalg.norm(sides[:, i])


@pytest.mark.parametrize("scale", [1e-3, 1.0, 300.0])
def test_the_mass_of_a_line_is_of_columns_as_they_are_given(scale: float) -> None:
    """sum_j x_j |a_j| of what was found is within it, whether columns were scaled or not."""
    design = scale * np.array([[1.0, -1.0, 0.5], [0.0, 0.0, 1.0]])
    found = nnls(design, [3.0, -2.0])
    assert found.success
    assert found.x @ np.linalg.norm(design, axis=0) < found.mass < math.inf


def test_it_is_the_pair_that_scipy_gives() -> None:
    found = nnls(np.eye(2), [1.0, -2.0])
    x, rnorm = found
    assert found[0] is x
    assert found[1] == rnorm == pytest.approx(2.0)
    assert found.gap == found.rnorm - found.lower
    assert isinstance(found, tuple)
    assert len(found) == 2


@pytest.mark.parametrize("make", [copy.copy, copy.deepcopy, lambda found: pickle.loads(pickle.dumps(found))])
def test_copies_keep_the_proof(make: Any) -> None:
    found = nnls(np.array([[1.0, -1.0, 0.5], [0.0, 0.0, 1.0]]), [3.0, -2.0])
    other = make(found)
    assert other.x.tolist() == found.x.tolist()
    assert (other.rnorm, other.lower, other.mass) == (found.rnorm, found.lower, found.mass)
    assert repr(other) == repr(found)


def test_it_tells_what_is_proved() -> None:
    assert "lower=0.0, success=True)" in repr(nnls(np.eye(2), [1.0, 2.0]))
    assert "mass=" not in repr(nnls(np.eye(2), [[1.0, 2.0], [1.0, -1.0]]))
    assert "mass=" in repr(nnls(np.array([[1.0, -1.0, 0.5], [0.0, 0.0, 1.0]]), [3.0, -2.0]))


@pytest.mark.parametrize("scale", [1e-140, 1e-21, 1.0, 1e100])
def test_columns_of_any_scale_are_solved_alike(scale: float) -> None:
    """Issue 21630 of scipy: what is small was taken for zero."""
    rng = np.random.default_rng(5)
    design, b = rng.random((8, 5)) * 10.0 ** np.linspace(-6.0, 6.0, 5), rng.random(8)
    plain, scaled = nnls(design, b), nnls(scale * design, b)
    assert scaled.rnorm == pytest.approx(plain.rnorm, rel=1e-9)
    assert scaled.success


def test_columns_of_zeros_have_no_weight() -> None:
    design = np.array([[1.0, 0.0], [1.0, 0.0]])
    found = nnls(design, [1.0, 3.0])
    assert found.x == pytest.approx([2.0, 0.0])
    assert math.isinf(found.mass)
    nothing = nnls(np.zeros((2, 3)), [3.0, 4.0])
    assert nothing.lower <= 5.0 <= nothing.rnorm
    assert nothing.gap < 1e-14
    assert not nothing.x.any()


def test_a_right_side_of_zeros() -> None:
    found = nnls(np.random.default_rng(0).random((4, 3)), np.zeros(4))
    assert not found.x.any()
    assert found.lower == 0.0
    assert found.rnorm < 1e-150


def test_an_end_on_the_way_is_no_success() -> None:
    rng = np.random.default_rng(6)
    found = nnls(rng.random((30, 60)), rng.random(30), maxiter=1)
    assert not found.success
    assert found.lower <= found.rnorm


@pytest.mark.parametrize(
    ("design", "b", "more", "error"),
    [
        (np.ones((2, 2)), np.ones(3), {}, r"`b` must be \(2,\), or \(2, k\). Got shape \(3,\)."),
        (np.ones((2, 2)), np.ones((2, 1, 1)), {}, r"`b` must be \(2,\), or \(2, k\). Got shape"),
        (np.ones(2), np.ones(2), {}, "`A` must be an array with 2 axes"),
        (np.full((2, 2), np.nan), np.ones(2), {}, "`A` must be finite. Got nan"),
        (np.ones((2, 2)), [1.0, np.inf], {}, "`b` must be finite. Got inf"),
        (np.ones((2, 2)), [1.0, 1e200], {}, "`b` must be at most 1e\\+150 in size; scale the problem"),
        (np.ones((2, 2)), np.ones(2), {"maxiter": 0}, "`maxiter` must be an integer >= 1. Got 0."),
        (np.ones((2, 2)), np.ones(2), {"rtol": -1.0}, "`rtol` must be a number >= 0. Got -1.0."),
    ],
)
def test_bad_input_is_refused_by_name(design: Any, b: Any, more: dict[str, Any], error: str) -> None:
    with pytest.raises(ValueError, match=error):
        nnls(design, b, **more)


def test_sparse_matrices_are_refused() -> None:
    sparse = pytest.importorskip("scipy.sparse")
    with pytest.raises(TypeError, match="`A` must be a dense array"):
        nnls(sparse.csr_array(np.eye(2)), np.ones(2))


def test_the_kernel_solves_what_scipy_does() -> None:
    rng = np.random.default_rng(7)
    atoms, targets = rng.random((9, 6)), rng.standard_normal((20, 6))
    n, wide = 9, pad(9)
    gram = np.zeros((n, wide))
    gram[:, :n] = atoms @ atoms.T
    cross = np.full((20, wide), SHUT)
    cross[:, :n] = targets @ atoms.T
    cross[:, 4] = SHUT  # an atom that must not be used
    ids, weights, support = np.zeros((20, 7), np.int64), np.zeros((20, 7)), np.zeros(20, np.int64)
    state = make_state(gram, gram, np.empty((0, 6)), 7)
    solve_cones(state, cross, (targets**2).sum(axis=1), np.full(20, 1e-12), ids, weights, support)
    for t in range(20):
        dense = np.zeros(9)
        dense[ids[t, : support[t]]] = weights[t, : support[t]]
        kept = np.delete(np.arange(9), 4)
        truth = np.zeros(9)
        truth[kept] = scipy_nnls(atoms[kept].T, targets[t])[0]
        assert dense == pytest.approx(truth, abs=1e-9)
