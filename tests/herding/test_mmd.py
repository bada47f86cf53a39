"""MMD: against full double sums of scikit-learn's kernels."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.metrics.pairwise import laplacian_kernel, rbf_kernel

import wolfhound as wh
from wolfhound.herding import Gaussian, Laplace, Linear, Reference, Stein, mmd, with_scores
from wolfhound.herding.kernels import Kernel
from wolfhound.herding.mmd import kernel_sums, self_sums

KERNELS: list[Kernel] = [Gaussian(2.0), Laplace(3.0), Linear(), Stein(1.5)]


def rows_of(n: int, d: int, seed: int = 0, dtype: Any = np.float64) -> NDArray[Any]:
    return np.random.default_rng(seed).normal(size=(n, d)).astype(dtype)


def full(kernel: Kernel, x: NDArray[Any], a: NDArray[Any], y: NDArray[Any], b: NDArray[Any]) -> float:
    k = kernel.gram
    return math.sqrt(max(a @ k(x, x) @ a - 2.0 * a @ k(x, y) @ b + b @ k(y, y) @ b, 0.0))


def equal(n: int) -> NDArray[np.float64]:
    return np.full(n, 1.0 / n)


# ---------------------------------------------------------------- tiles


@pytest.mark.parametrize("sums", [lambda k, x, w: kernel_sums(k, x, x, w), self_sums])
def test_nan_in_a_sum_is_an_error(sums: Any) -> None:
    rows, weights = rows_of(3, 2), np.array([1.0, np.nan, 1.0])
    assert np.isfinite(sums(Linear(), rows, np.ones(3))).all()
    with pytest.raises(FloatingPointError, match="sums of kernel values are nan"):
        sums(Linear(), rows, weights)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("n", [1, 511, 1500, 2100])
def test_sums_over_tiles(kernel: Kernel, n: int) -> None:
    rows, weights = rows_of(n, 4), np.random.default_rng(1).normal(size=n) / n
    wanted = kernel.gram(rows, rows) @ weights
    np.testing.assert_allclose(self_sums(kernel, rows, weights, single=False), wanted, atol=1e-12)
    np.testing.assert_allclose(kernel_sums(kernel, rows, rows, weights, single=False), wanted, atol=1e-12)
    np.testing.assert_allclose(self_sums(kernel, rows, weights), wanted, atol=1e-6)
    np.testing.assert_allclose(kernel_sums(kernel, rows[:7], rows, weights), wanted[:7], atol=1e-6)


@pytest.fixture
def threads_back() -> Iterator[None]:
    yield
    wh.set_threads(None)


@pytest.mark.usefixtures("threads_back")
@pytest.mark.parametrize("kernel", KERNELS)
def test_threads_do_not_change_a_bit(kernel: Kernel) -> None:
    rows, weights = rows_of(2500, 6, 0, np.float32), equal(2500)
    found = []
    for threads in (1, 2):
        wh.set_threads(threads)
        sums = [self_sums(kernel, rows, weights), kernel_sums(kernel, rows[::2], rows, weights)]
        found.append(np.concatenate([*sums, Reference.of(rows, kernel).curve(rows[:1100])]))
    np.testing.assert_array_equal(found[0], found[1])


def test_no_rows_have_no_sums() -> None:
    assert kernel_sums(Gaussian(1.0), np.empty((0, 2)), rows_of(3, 2), equal(3)).shape == (0,)
    np.testing.assert_array_equal(
        kernel_sums(Gaussian(1.0), rows_of(3, 2), np.empty((0, 2)), np.empty(0)), 0.0
    )


# ---------------------------------------------------------------- two sets


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_full_double_sums_on_5000_rows(dtype: Any) -> None:
    x, y = rows_of(5000, 3, 0, dtype), rows_of(300, 3, 1, dtype)
    wide, narrow = x.astype(np.float64), y.astype(np.float64)
    for kernel, values in ((Gaussian(1.5), rbf_kernel), (Laplace(4.5), laplacian_kernel)):
        inside = values(wide, gamma=1 / 4.5).mean() + values(narrow, gamma=1 / 4.5).mean()
        square = inside - 2.0 * values(wide, narrow, gamma=1 / 4.5).mean()
        assert mmd(x, y, kernel) == pytest.approx(math.sqrt(square), rel=1e-9)


@pytest.mark.parametrize("kernel", KERNELS)
def test_weights_count(kernel: Kernel) -> None:
    x, y = rows_of(30, 4), rows_of(20, 4, 1) + 0.3
    a, b = np.random.default_rng(2).random(30), np.random.default_rng(3).random(20)
    found = mmd(x, y, kernel, left_weights=a, right_weights=7.0 * b)
    assert found == pytest.approx(full(kernel, x, a / a.sum(), y, b / b.sum()), rel=1e-9)


@pytest.mark.parametrize("kernel", KERNELS)
def test_equal_sets_and_shuffled_sets(kernel: Kernel) -> None:
    x = rows_of(700, 4, 0, np.float32)
    assert mmd(x, x, kernel) < 1e-7
    assert mmd(x, x[::-1], kernel) < 1e-7
    assert mmd(x, np.repeat(x, 2, axis=0), kernel) < 1e-7


def test_the_linear_mmd_is_the_distance_of_the_means() -> None:
    x, y = rows_of(50, 3) + 1e6, rows_of(40, 3, 1) + 1e6
    wanted = np.linalg.norm((x - 1e6).mean(axis=0) - (y - 1e6).mean(axis=0))
    assert mmd(x, y, Linear()) == pytest.approx(wanted, rel=1e-6)
    assert Reference.of(x, Linear(), exact=True).mmd(y) == pytest.approx(wanted, rel=1e-6)


def test_files_and_several_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = rows_of(90, 3, 0, np.float32), rows_of(70, 3, 1)
    np.save(tmp_path / "x.npy", x)
    wanted = mmd(x, y, Gaussian(1.0))
    found = mmd(tmp_path / "x.npy", [y[:30], y[30:31], y[31:]], Gaussian(1.0))
    assert found == pytest.approx(wanted, rel=1e-12)


def test_the_lengthscale_comes_from_both_sets() -> None:
    x, y = rows_of(100, 2), rows_of(80, 2, 1) + 5.0
    chosen = Gaussian().fit(np.concatenate([x, y]))
    assert mmd(x, y, Gaussian()) == pytest.approx(mmd(x, y, chosen), rel=1e-12)


@pytest.mark.parametrize("kernel", KERNELS)
def test_rows_that_are_not_finite_are_named(kernel: Kernel) -> None:
    x, y = rows_of(2000, 4), rows_of(1000, 4, 1)
    y[777, 2] = math.nan
    with pytest.raises(ValueError, match=r"`right` must be finite. Got nan in row 777, column 2"):
        mmd(x, y, kernel)
    with pytest.raises(ValueError, match=r"`left` must be finite. Got nan in row 777, column 2"):
        mmd(y, x, kernel)


def test_sets_of_another_width() -> None:
    with pytest.raises(ValueError, match=r"`right` must be rows of 3 columns. Got 2 columns"):
        mmd(rows_of(5, 3), rows_of(5, 2), Gaussian(1.0))


# ---------------------------------------------------------------- a reference


@pytest.mark.parametrize("kernel", [Gaussian(2.0), Laplace(3.0), Linear()])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_reference_of_all_rows_gives_the_mmd(kernel: Kernel, dtype: Any) -> None:
    x = rows_of(1300, 4, 0, dtype)
    a = np.random.default_rng(2).random(1300)
    b = np.random.default_rng(3).random(50)
    reference = Reference.of(x, kernel, weights=a, exact=True)
    wanted = mmd(x[:50], x, kernel, left_weights=b, right_weights=a)
    assert reference.mmd(x[:50], b) == pytest.approx(wanted, abs=1e-5)
    assert reference.exact


def draws(kernel: Kernel, x: NDArray[Any], weights: NDArray[Any] | None, subset: NDArray[Any]) -> Any:
    rng = np.random.default_rng(4)
    # Squares of roots: the subset is so far off that no estimate is clipped.
    return np.square(
        [Reference.draw(x, kernel, count=60, row_weights=weights, rng=rng).mmd(subset) for _ in range(400)]
    )


@pytest.mark.parametrize("kernel", [Gaussian(1.0), Linear()])
def test_the_estimate_is_unbiased_for_weighted_rows(kernel: Kernel) -> None:
    x, weights = rows_of(400, 2), np.linspace(0.0, 1.0, 400)
    subset = x[:5] + 1.0
    exact = mmd(subset, x, kernel, right_weights=weights) ** 2
    found = draws(kernel, x, weights, subset)
    error = found.std() / math.sqrt(len(found))
    assert found.min() > 0.0
    assert abs(found.mean() - exact) < 3.0 * error < 0.1 * exact


@pytest.mark.parametrize("kernel", [Gaussian(1.0), Linear()])
def test_the_estimate_is_unbiased_for_what_rows_are_drawn_from(kernel: Kernel) -> None:
    x = rows_of(400, 2)
    subset = x[:5] + 1.0
    gram = kernel.gram(x, x)
    # The pairs of a row with itself do not stand for pairs of rows of the source.
    apart = (gram.sum() - np.trace(gram)) / (400 * 399)
    exact = kernel.gram(subset, subset).mean() - 2.0 * kernel.gram(subset, x).mean() + apart
    found = draws(kernel, x, None, subset)
    error = found.std() / math.sqrt(len(found))
    assert found.min() > 0.0
    assert abs(found.mean() - exact) < 3.0 * error < 0.1 * exact


def test_the_curve_is_the_mmd_of_first_rows() -> None:
    x = rows_of(2000, 3, 0, np.float32)
    reference = Reference.of(x[1100:], Gaussian(1.5))
    curve = reference.curve(x[:1100])
    sizes = [1, 2, 100, 1024, 1025, 1100]
    wanted = [reference.mmd(x[:m]) for m in sizes]
    # Tiles of the kernel are in float32: a square is good to some units of its largest value, 1.
    fine = 16.0 * float(np.finfo(np.float32).eps)
    np.testing.assert_allclose(curve[np.array(sizes) - 1] ** 2, np.square(wanted), rtol=0.0, atol=fine)


def test_a_reference_for_stein_is_the_density() -> None:
    x = rows_of(300, 2)
    rows = np.hstack([x, -x])
    reference = Reference.draw(with_scores(x, -x), Stein(1.0), count=100, rng=np.random.default_rng(0))
    wanted = math.sqrt(Stein(1.0).gram(rows[:40], rows[:40]).mean())
    assert reference.mmd(rows[:40]) == pytest.approx(wanted, rel=1e-12)
    assert reference.exact
    np.testing.assert_array_equal(reference.at(rows[:3]), 0.0)


def test_held_out_rows_are_not_those_used() -> None:
    x = np.arange(1000.0)[:, None]
    used = np.arange(0, 1000, 2)
    for weights in (None, np.ones(1000)):
        found = Reference.draw(
            x, Gaussian(1.0), count=200, row_weights=weights, exclude=used, rng=np.random.default_rng(0)
        )
        assert found.rows.shape == (200, 1)
        assert np.all(found.rows % 2 == 1)
        assert not found.exact


def test_too_few_rows_left_out_are_not_used_alone() -> None:
    x = np.arange(1000.0)[:, None]
    found = Reference.draw(x, Gaussian(1.0), count=400, exclude=np.arange(999), rng=np.random.default_rng(0))
    assert len(np.unique(found.rows)) == 400


def test_few_rows_are_all_used() -> None:
    x = rows_of(200, 2)
    found = Reference.draw(x, Gaussian(), count=100, exclude=np.arange(9), rng=np.random.default_rng(0))
    np.testing.assert_array_equal(found.rows, x)
    assert found.exact


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (np.zeros((3, 1)), r"`rows` must be at least one row of 2 columns. Got shape \(3, 1\)"),
        (np.zeros((0, 2)), r"`rows` must be at least one row of 2 columns. Got shape \(0, 2\)"),
        (np.zeros(2), r"Got shape \(2,\)"),
    ],
)
def test_subsets_of_another_width(rows: NDArray[np.float64], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Reference.of(rows_of(5, 2), Gaussian(1.0)).mmd(rows)


def test_wrong_references() -> None:
    with pytest.raises(ValueError, match=r"`rows` must be two rows or more. Got 1"):
        Reference.of(rows_of(1, 2), Gaussian(1.0))
    with pytest.raises(ValueError, match=r"`rows` must be finite. Got nan in row 1, column 0"):
        Reference.of(np.array([[0.0], [math.nan]]), Gaussian(1.0))
    with pytest.raises(ValueError, match=r"`weights` must be above 0 for two rows or more"):
        Reference.of(rows_of(3, 2), Gaussian(1.0), weights=np.array([0.0, 1.0, 0.0]))
    with pytest.raises(ValueError, match=r"`count` must be an integer >= 2"):
        Reference.draw(rows_of(3, 2), Gaussian(1.0), count=1, rng=np.random.default_rng(0))
