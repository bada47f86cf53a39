"""Kernels: against scikit-learn, plain float64 sums and finite differences."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from sklearn.metrics.pairwise import euclidean_distances, laplacian_kernel, manhattan_distances, rbf_kernel

import wolfhound as wh
from wolfhound.herding import Gaussian, Laplace, Linear, Stein, with_scores
from wolfhound.herding.kernels import Kernel

KERNELS: list[Kernel] = [Gaussian(2.0), Laplace(3.0), Linear(), Stein(1.5)]


def rows_of(n: int, d: int, seed: int = 0, dtype: Any = np.float64) -> NDArray[Any]:
    return np.random.default_rng(seed).normal(size=(n, d)).astype(dtype)


def direct_gaussian(x: NDArray[Any], y: NDArray[Any], length: float) -> NDArray[np.float64]:
    apart = x[:, None].astype(np.float64) - y[None].astype(np.float64)
    out: NDArray[np.float64] = np.exp(-(apart**2).sum(axis=2) / (2.0 * length**2))
    return out


# ---------------------------------------------------------------- values


@pytest.mark.parametrize(("dtype", "atol"), [(np.float64, 1e-13), (np.float32, 1e-6), (np.float16, 1e-6)])
def test_gaussian_is_that_of_scikit_learn(dtype: Any, atol: float) -> None:
    x, y = rows_of(40, 7, 0, dtype), rows_of(30, 7, 1, dtype)
    wanted = rbf_kernel(x.astype(np.float64), y.astype(np.float64), gamma=1.0 / (2.0 * 1.7**2))
    np.testing.assert_allclose(Gaussian(1.7).gram(x, y), wanted, atol=atol)


@pytest.mark.parametrize(("dtype", "atol"), [(np.float64, 1e-14), (np.float32, 1e-6), (np.float16, 1e-6)])
def test_laplace_is_that_of_scikit_learn(dtype: Any, atol: float) -> None:
    x, y = rows_of(150, 7, 0, dtype), rows_of(131, 7, 1, dtype)
    wanted = laplacian_kernel(x.astype(np.float64), y.astype(np.float64), gamma=1.0 / 2.5)
    np.testing.assert_allclose(Laplace(2.5).gram(x, y), wanted, atol=atol)


def test_linear_is_the_product_in_float64() -> None:
    x, y = rows_of(5, 3, 0, np.float32), rows_of(4, 3, 1, np.float32)
    found = Linear().gram(x, y)
    assert found.dtype == np.float64
    np.testing.assert_allclose(found, x.astype(np.float64) @ y.T.astype(np.float64), atol=1e-14)


@pytest.mark.parametrize("kernel", [Gaussian(1.0), Laplace(1.0)])
def test_values_have_the_dtype_of_the_rows(kernel: Kernel) -> None:
    single, double = rows_of(3, 2, 0, np.float32), rows_of(3, 2)
    assert kernel.gram(single, single).dtype == np.float32
    assert kernel.gram(double, double).dtype == np.float64
    assert kernel.against(double, single=True)(double).dtype == np.float32


@pytest.mark.parametrize("kernel", KERNELS)
def test_the_diagonal_and_the_symmetry(kernel: Kernel) -> None:
    rows = rows_of(20, 6)
    gram = kernel.gram(rows, rows)
    np.testing.assert_allclose(kernel.diagonal(rows), np.diag(gram), rtol=1e-12)
    np.testing.assert_allclose(gram, gram.T, atol=1e-12)
    assert np.linalg.eigvalsh(gram).min() > -1e-10


@pytest.mark.parametrize("kernel", KERNELS)
def test_prepared_rows_give_the_same_values(kernel: Kernel) -> None:
    left, right = rows_of(20, 6), rows_of(9, 6, 1)
    np.testing.assert_array_equal(kernel.against(left)(right), kernel.gram(left, right))
    # Stein's values reach tens, float32 is not used for them.
    np.testing.assert_allclose(kernel.against(left, single=True)(right), kernel.gram(left, right), atol=1e-6)


@pytest.mark.parametrize("kernel", KERNELS)
def test_rows_are_not_written_to(kernel: Kernel) -> None:
    rows = rows_of(8, 4)
    rows.flags.writeable = False
    assert kernel.gram(rows, rows[:3]).shape == (8, 3)
    assert kernel.gram(np.asfortranarray(rows), rows[::2]).shape == (8, 4)


# ---------------------------------------------------------------- digits


@pytest.mark.parametrize("shift", [1e3, 1e5])
def test_clouds_far_from_the_origin_lose_no_digits(shift: float) -> None:
    rows = (rows_of(60, 5) + shift).astype(np.float32)
    wanted = direct_gaussian(rows, rows, 2.0)
    np.testing.assert_allclose(Gaussian(2.0).gram(rows, rows), wanted, atol=1e-6)
    np.testing.assert_allclose(Gaussian(2.0).gram(rows.astype(np.float64), rows), wanted, atol=1e-12)
    np.testing.assert_allclose(
        Laplace(2.0).gram(rows, rows), laplacian_kernel(rows.astype(np.float64), gamma=0.5), atol=1e-6
    )


@pytest.mark.parametrize("kernel", [Gaussian(2.0), Laplace(2.0)])
def test_single_precision_of_far_double_rows(kernel: Kernel) -> None:
    rows = rows_of(50, 5) + 1e9
    np.testing.assert_allclose(kernel.against(rows, single=True)(rows), kernel.gram(rows, rows), atol=1e-6)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("far", [40.0, 1e4, 1e9, 1e18, 1e30])
def test_far_rows_are_close_to_themselves(dtype: Any, far: float) -> None:
    rows = rows_of(20, 3, 0, dtype)
    rows[4] = rows[11] = far
    rows[12] = -far
    gram = Gaussian(0.5).gram(rows, rows)
    np.testing.assert_allclose(gram, direct_gaussian(rows, rows, 0.5), atol=1e-5)
    assert gram[4, 11] == 1.0
    assert gram[4, 12] == 0.0


@given(
    length=st.floats(1e-3, 1e3),
    spread=st.floats(1e-3, 1e4),
    shift=st.floats(-1e4, 1e4),
    seed=st.integers(0, 99),
)
def test_gaussian_equals_direct_sums_at_any_scale(
    length: float, spread: float, shift: float, seed: int
) -> None:
    rows = (spread * rows_of(12, 3, seed) + shift).astype(np.float32)
    wanted = direct_gaussian(rows, rows, length)
    np.testing.assert_allclose(Gaussian(length).gram(rows, rows), wanted, atol=2e-4)
    np.testing.assert_allclose(Gaussian(length).gram(rows.astype(np.float64), rows), wanted, atol=1e-9)


@pytest.mark.parametrize("kernel", [Laplace(2.0), Gaussian(2.0)])
def test_rows_near_the_largest_number(kernel: Kernel) -> None:
    rows = np.array([[1e200, 0.0], [1e200, 0.0], [-1e200, 1.0]])
    np.testing.assert_array_equal(kernel.gram(rows, rows), [[1, 1, 0], [1, 1, 0], [0, 0, 1]])


# ---------------------------------------------------------------- the lengthscale


def test_the_median_distance() -> None:
    rows = rows_of(200, 4, 3, np.float32)
    pairs = np.triu_indices(200, 1)
    middle = np.median(euclidean_distances(rows.astype(np.float64))[pairs])
    assert Gaussian().fit(rows).lengthscale == pytest.approx(middle, rel=1e-6)
    assert Stein().fit(np.hstack([rows, 9.0 * rows])).lengthscale == pytest.approx(middle, rel=1e-6)
    middle = np.median(manhattan_distances(rows.astype(np.float64))[pairs])
    assert Laplace().fit(rows).lengthscale == pytest.approx(middle, rel=1e-6)


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_kernel_that_has_all_stays_as_it_is(kernel: Kernel) -> None:
    assert kernel.fit(rows_of(5, 4)) is kernel


def test_many_equal_rows_and_constant_columns() -> None:
    rows = np.zeros((100, 3))
    rows[:, 1] = 7.0
    rows[:5, 2] = 4.0
    assert Gaussian().fit(rows).lengthscale == 4.0


@pytest.mark.parametrize("rows", [np.ones((10, 3)), np.ones((1, 3))])
@pytest.mark.parametrize("kernel", [Gaussian(), Laplace()])
def test_equal_rows_have_no_median(kernel: Kernel, rows: NDArray[np.float64]) -> None:
    with pytest.raises(ValueError, match=r"`lengthscale` must be given where rows do not differ. Got 1"):
        kernel.fit(rows)


@pytest.mark.parametrize("kind", [Gaussian, Laplace, Stein])
@pytest.mark.parametrize(
    ("value", "rule"),
    [
        (0.0, "> 0"),
        (-1.0, "> 0"),
        (math.inf, "finite"),
        (math.nan, "> 0"),
        (1e-300, r"in \[1e-150, 1e\+150\]: scale the rows"),
        (1e158, r"in \[1e-150, 1e\+150\]"),
    ],
)
def test_wrong_lengthscales(kind: Any, value: float, rule: str) -> None:
    with pytest.raises(ValueError, match=f"`lengthscale` must be .*{rule}"):
        kind(value)


def test_a_lengthscale_is_needed() -> None:
    with pytest.raises(ValueError, match=r"`lengthscale` must be given: use Gaussian\(\).fit"):
        Gaussian().gram(rows_of(2, 2), rows_of(2, 2))


def test_rows_that_are_not_finite_have_no_median() -> None:
    with pytest.raises(ValueError, match=r"`rows` must be finite. Got nan"):
        Gaussian().fit(np.array([[0.0], [math.nan]]))


# ---------------------------------------------------------------- Stein


def imq(x: NDArray[np.float64], y: NDArray[np.float64], length: float) -> float:
    return float((1.0 + ((x - y) ** 2).sum() / length**2) ** -0.5)


def stein_by_differences(row: NDArray[np.float64], other: NDArray[np.float64], length: float) -> float:
    d, h = len(row) // 2, 1e-4
    (x, sx), (y, sy) = np.split(row, 2), np.split(other, 2)
    total = imq(x, y, length) * float(sx @ sy)
    for e in h * np.eye(d):
        along = int(np.argmax(e))
        by_x = (imq(x + e, y, length) - imq(x - e, y, length)) / (2 * h)
        by_y = (imq(x, y + e, length) - imq(x, y - e, length)) / (2 * h)
        ahead = imq(x + e, y + e, length) - imq(x + e, y - e, length)
        behind = imq(x - e, y + e, length) - imq(x - e, y - e, length)
        total += sx[along] * by_y + sy[along] * by_x + (ahead - behind) / (4 * h * h)
    return total


def test_stein_is_made_of_derivatives_of_its_base() -> None:
    left, right = rows_of(6, 8, 0), rows_of(5, 8, 1)
    wanted = [[stein_by_differences(x, y, 1.3) for y in right] for x in left]
    np.testing.assert_allclose(Stein(1.3).gram(left, right), wanted, atol=1e-6)


def test_stein_does_not_depend_on_the_origin() -> None:
    left, right = rows_of(6, 8, 0), rows_of(5, 8, 1)
    shift = np.r_[np.full(4, 1e5), np.zeros(4)]
    found = Stein(1.3).gram(left + shift, right + shift)
    np.testing.assert_allclose(found, Stein(1.3).gram(left, right), atol=1e-9)


def test_steins_mean_is_zero_under_the_density() -> None:
    samples = np.random.default_rng(2).normal(size=(200_000, 2)) * [1.0, 2.0] + [3.0, -1.0]
    scores = -(samples - [3.0, -1.0]) / [1.0, 4.0]
    points = np.array([[3.0, -1.0], [4.0, 2.0], [0.0, 0.0]])
    at = np.hstack([points, -(points - [3.0, -1.0]) / [1.0, 4.0]])
    values = Stein(1.5).gram(at, np.hstack([samples, scores]))
    errors = values.std(axis=1) / math.sqrt(len(samples))
    assert np.all(np.abs(values.mean(axis=1)) < 4.0 * errors)
    assert np.all(errors < 0.01)


def test_stein_needs_scores() -> None:
    with pytest.raises(ValueError, match=r"`rows` must be \[x, score\] of 2 d columns.* Got 3 columns"):
        Stein(1.0).gram(rows_of(2, 3), rows_of(2, 3))


def test_rows_joined_with_scores(tmp_path: Path) -> None:
    rows, scores = rows_of(11, 3, 0, np.float32), rows_of(11, 3, 1)
    np.save(tmp_path / "scores.npy", scores)
    atoms = with_scores([rows[:4], rows[4:]], tmp_path / "scores.npy")
    wanted = np.hstack([rows, scores])
    assert atoms.shape == (11, 6)
    assert atoms.dtype == np.float64
    np.testing.assert_array_equal(atoms.take(np.array([7, 0, 7])), wanted[[7, 0, 7]])
    found = list(atoms.blocks(3))
    assert [first for first, _ in found] == [0, 3, 4, 7, 10]
    np.testing.assert_array_equal(np.concatenate([block for _, block in found]), wanted)
    assert not found[0][1].flags.writeable


def test_scores_of_another_shape() -> None:
    with pytest.raises(
        ValueError, match=r"`scores` must be of shape \(5, 2\), as the atoms. Got shape \(4, 2\)"
    ):
        with_scores(rows_of(5, 2), rows_of(4, 2))


def test_joined_rows_are_atoms() -> None:
    x = rows_of(30, 2)
    found = wh.minimize(wh.SquaredDistance(np.zeros(4)), with_scores(x, -x))
    assert found.success
