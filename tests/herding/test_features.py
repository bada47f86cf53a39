"""Random features: their kernel, and their mean over a pass."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import kstest

import wolfhound as wh
from wolfhound.core.contracts import Matrix
from wolfhound.core.progress import on_progress
from wolfhound.core.validate import row_shares
from wolfhound.herding import (
    Features,
    Gaussian,
    Identity,
    Laplace,
    Linear,
    RandomFourier,
    Stein,
    feature_mean,
)
from wolfhound.herding.features import CHUNK, normal_frequencies
from wolfhound.herding.kernels import Kernel


def rows_of(n: int, d: int, seed: int = 0, dtype: Any = np.float64) -> NDArray[Any]:
    return np.random.default_rng(seed).normal(size=(n, d)).astype(dtype)


def some(kernel: Kernel, d: int, count: int = 64, centre: NDArray[np.float64] | None = None) -> Features:
    found = kernel.features(d, count, np.random.default_rng(5), centre=centre)
    assert found is not None
    return found


# ---------------------------------------------------------------- features


@pytest.mark.parametrize("kernel", [Gaussian(2.0), Laplace(4.0)])
def test_inner_products_estimate_the_kernel(kernel: Kernel) -> None:
    rows, count = rows_of(30, 3), 20_000
    found = some(kernel, 3, count)(rows)
    # A pair of features estimates k by cos(w'(x - y)): at most 1 in absolute value.
    worst = np.abs(found @ found.T - kernel.gram(rows, rows)).max()
    assert worst < 5.0 / math.sqrt(count / 2)
    np.testing.assert_allclose((found**2).sum(axis=1), 1.0, atol=1e-5)


@pytest.mark.slow
def test_the_estimate_is_unbiased() -> None:
    rows, kernel = rows_of(6, 2), Gaussian(1.5)
    rng = np.random.default_rng(1)
    draws = np.array([(f := kernel.features(2, 8, rng)(rows)) @ f.T for _ in range(2000)])
    errors = draws.std(axis=0) / math.sqrt(2000)
    assert np.all(np.abs(draws.mean(axis=0) - kernel.gram(rows, rows)) < 5.0 * errors + 1e-6)


@pytest.mark.slow
def test_normal_frequencies_are_normal_and_orthogonal_in_groups() -> None:
    draws = np.array([normal_frequencies(3, 5, np.random.default_rng(seed)) for seed in range(2000)])
    products = np.abs(np.swapaxes(draws, 1, 2) @ draws)
    np.testing.assert_allclose(products[:, [0, 0, 1, 3], [1, 2, 2, 4]], 0.0, atol=1e-12)
    assert products[:, :3, 3:].mean() > 0.5
    for column in range(5):
        # Up to its sign, which no kernel value depends on.
        along = np.abs(draws[:, :, column] @ [0.6, 0.0, 0.8])
        assert kstest(along, "halfnorm").pvalue > 0.001
        assert kstest((draws[:, :, column] ** 2).sum(axis=1), "chi2", (3,)).pvalue > 0.001


def test_the_linear_kernel_has_exact_features() -> None:
    rows = rows_of(9, 4, 0, np.float32)
    found = some(Linear(), 4)(rows)
    assert found.dtype == np.float64
    np.testing.assert_array_equal(found, rows)


def test_stein_has_no_features() -> None:
    kernel: Kernel = Stein(1.0)
    assert kernel.features(4, 8, np.random.default_rng(0)) is None


@pytest.mark.parametrize(("count", "dim"), [(1, 2), (7, 8), (8, 8)])
def test_features_come_in_pairs(count: int, dim: int) -> None:
    features = Gaussian(1.0).features(3, count, np.random.default_rng(0))
    assert features.dim_out == dim
    assert features(rows_of(5, 3)).shape == (5, dim)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_centre_changes_no_inner_product(dtype: Any) -> None:
    rows = (rows_of(40, 3) + 1e4).astype(dtype)
    near = some(Gaussian(1.0), 3, 64, np.full(3, 1e4))(rows)
    shifted = some(Gaussian(1.0), 3, 64)((rows.astype(np.float64) - 1e4).astype(np.float32))
    np.testing.assert_allclose(near @ near.T, shifted @ shifted.T, atol=2e-6)


def test_features_map_atoms() -> None:
    rows = rows_of(10, 3, 0, np.float32)
    features = some(Gaussian(1.0), 3, 8)
    mapped = wh.MappedAtoms(wh.ArrayAtoms(rows), features, features.dim_out, np.dtype(np.float32))
    np.testing.assert_array_equal(mapped.take(np.arange(10)), features(rows))


@pytest.mark.parametrize(
    ("frequencies", "centre", "message"),
    [
        (np.zeros((2, 0)), None, "`frequencies` must be non-empty"),
        (np.full((2, 1), math.nan), None, "`frequencies` must be finite"),
        (np.zeros((2, 1)), np.zeros(3), "`centre` must be a vector of length 2"),
    ],
)
def test_wrong_frequencies(frequencies: Any, centre: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        RandomFourier(frequencies, centre)


# ---------------------------------------------------------------- their mean


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_the_mean_is_that_of_all_features(dtype: Any) -> None:
    rows = rows_of(3 * CHUNK + 17, 5, 0, dtype)
    features = some(Gaussian(1.0), 5)
    found = feature_mean(rows, features)
    assert found.dtype == np.float64
    wanted = features(rows.astype(np.float64)).mean(axis=0, dtype=np.float64)
    np.testing.assert_allclose(found, wanted, atol=1e-6)


def test_the_mean_of_rows_is_exact() -> None:
    rows = rows_of(5000, 3, 0, np.float32) + np.float32(1000.0)
    np.testing.assert_allclose(
        feature_mean(rows, Identity(3)), rows.mean(axis=0, dtype=np.float64), rtol=1e-14
    )


@pytest.mark.parametrize("scale", [1.0, 1e-300, 1e300])
def test_a_weighted_mean(scale: float) -> None:
    rows = rows_of(2 * CHUNK + 5, 3)
    weights = np.random.default_rng(3).random(len(rows))
    weights[: CHUNK + 1] = 0.0
    features = some(Gaussian(1.0), 3)
    wanted = np.average(features(rows), axis=0, weights=weights)
    np.testing.assert_allclose(feature_mean(rows, features, weights=scale * weights), wanted, atol=1e-6)


def test_a_file_gives_the_bits_of_memory(tmp_path: Path) -> None:
    rows = rows_of(3000, 4, 0, np.float32)
    np.save(tmp_path / "rows.npy", rows)
    features = some(Laplace(2.0), 4)
    np.testing.assert_array_equal(feature_mean(tmp_path / "rows.npy", features), feature_mean(rows, features))


@pytest.fixture
def threads_back() -> Iterator[None]:
    yield
    wh.set_threads(None)


@pytest.mark.usefixtures("threads_back")
def test_threads_do_not_change_a_bit() -> None:
    # 19 MB: two blocks.
    rows, features = rows_of(120_000, 20), some(Gaussian(3.0), 20, 16)
    found = []
    for threads in (1, 2, 3):
        wh.set_threads(threads)
        found.append(feature_mean(rows, features, weights=np.arange(120_000.0)))
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[0], found[2])


def test_a_pass_reports() -> None:
    swept: list[int] = []
    with on_progress(swept.append):
        feature_mean([rows_of(10, 2), rows_of(7, 2)], Identity(2))
    assert swept == [10, 7]


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_row_that_is_not_finite_is_named(value: float) -> None:
    rows = rows_of(5000, 3)
    rows[4321, 1] = value
    with pytest.raises(ValueError, match=rf"`atoms` must be finite. Got {value} in row 4321, column 1"):
        feature_mean(rows, some(Gaussian(1.0), 3))
    with pytest.raises(ValueError, match=r"`target` must be finite"):
        feature_mean(rows, some(Gaussian(1.0), 3), name="target")


class Wrong:
    """Features of the caller's own that break their promise."""

    dim_out = 2

    def __init__(self, columns: int, value: float) -> None:
        self.columns, self.value = columns, value

    def __call__(self, rows: Matrix) -> Matrix:
        out = np.zeros((len(rows), self.columns))
        out[rows[:, 0] == 1500.0] = self.value
        return out


def test_features_that_are_not_finite_name_the_row() -> None:
    with pytest.raises(ValueError, match=r"`features` must give finite numbers. Those of row 1500 are not"):
        feature_mean(np.arange(3000.0)[:, None], Wrong(2, math.nan))


def test_features_of_another_width() -> None:
    with pytest.raises(ValueError, match=r"`features` must be a map to 2 columns. Got shape \(4, 3\)"):
        feature_mean(np.zeros((4, 1)), Wrong(3, 0.0))


def test_rows_too_large_for_float32_are_named() -> None:
    rows = np.zeros((5, 2))
    rows[3] = 1e200
    with pytest.raises(ValueError, match="Those of row 3 are not"):
        feature_mean(rows, some(Gaussian(1.0), 2))


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([1.0, -1.0], "`weights` must be >= 0 in each entry. Got -1"),
        ([0.0, 0.0], "`weights` must be above 0 in some entry. Got all 0"),
        ([1.0], "`weights` must be a vector of length 2. Got length 1"),
        ([1.0, math.nan], "`weights` must be finite. Got nan at index 1"),
    ],
)
def test_wrong_weights(weights: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        feature_mean(np.zeros((2, 1)), Identity(1), weights=np.array(weights))


def test_shares_sum_to_one() -> None:
    assert row_shares(None, 3) is None
    np.testing.assert_allclose(np.array(row_shares(np.array([1.0, 3.0]), 2)), [0.25, 0.75])
    np.testing.assert_allclose(np.array(row_shares(np.full(4, 1e308), 4)), np.full(4, 0.25))
