"""The mean embedding at candidates: against full sums, and what it leaves out."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import importlib
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

import wolfhound as wh
from wolfhound.core.contracts import Matrix, Vector
from wolfhound.core.progress import on_progress
from wolfhound.herding import Gaussian, Identity, Laplace, Linear, Stein, feature_mean, with_scores
from wolfhound.herding.kernels import Kernel, KernelColumns
from wolfhound.herding.mmd import Embedding, calibrate, draw_ids, draw_weighted, embed, kernel_sums

module = importlib.import_module("wolfhound.herding.mmd")  # `mmd` of the package is a function


def rows_of(n: int, d: int, seed: int = 0, dtype: Any = np.float32) -> NDArray[Any]:
    rng = np.random.default_rng(seed)
    return (rng.normal(size=(n, d)) + 2.0 * rng.integers(0, 3, size=(n, 1))).astype(dtype)


def rng_of(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


@pytest.fixture
def small_base(monkeypatch: pytest.MonkeyPatch) -> None:
    """Targets of more than 500 rows count as large."""
    monkeypatch.setattr(module, "BASE", 500)


@pytest.fixture
def threads_back() -> Iterator[None]:
    yield
    wh.set_threads(None)


def error_of(found: Embedding, rows: NDArray[Any], weights: NDArray[np.float64]) -> float:
    exact = kernel_sums(found.mean.kernel, found.rows, rows, weights, single=False)
    return float(np.sqrt(np.mean((found.ku - exact) ** 2)))


# ---------------------------------------------------------------- small targets: exact


@pytest.mark.parametrize("kernel", [Gaussian(2.0), Laplace(3.0), Linear()])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_few_rows_are_all_used(kernel: Kernel, dtype: Any) -> None:
    rows = rows_of(600, 3, 0, dtype)
    weights = np.random.default_rng(1).random(600)
    gone = np.arange(0, 600, 3)
    found = embed(rows, kernel, count=1000, row_weights=weights, exclude=gone, rng=rng_of())
    wide, shares = rows.astype(np.float64), weights / weights.sum()
    full = kernel.gram(wide, wide) @ shares
    np.testing.assert_array_equal(found.ids, np.setdiff1d(np.arange(600), gone))
    np.testing.assert_array_equal(found.rows, rows[found.ids])
    np.testing.assert_allclose(found.ku, full[found.ids], atol=1e-6)
    np.testing.assert_allclose(found.mean.square, shares @ full, atol=1e-6)
    np.testing.assert_allclose(found.at(rows[:9].astype(np.float64)), full[:9], atol=1e-6)
    assert found.mean.exact
    assert found.passes == 1.0
    assert found.scored == 600 + 400


def test_few_candidates_of_few_rows() -> None:
    rows = rows_of(300, 3)
    found = embed(rows, Gaussian(2.0), count=7, rng=rng_of())
    assert len(found.ids) == 7
    assert len(np.unique(found.ids)) == 7
    wanted = Gaussian(2.0).gram(rows, rows).mean(axis=1)[found.ids]
    np.testing.assert_allclose(found.ku, wanted, atol=1e-6)


def test_a_small_target() -> None:
    rows, target = rows_of(800, 3), rows_of(200, 3, 1) + np.float32(0.5)
    found = embed(rows, Gaussian(2.0), count=100, target=target, rng=rng_of())
    values = Gaussian(2.0).gram(rows[found.ids], target).mean(axis=1)
    np.testing.assert_allclose(found.ku, values, atol=1e-6)
    wanted = Gaussian(2.0).gram(target, target).mean(dtype=np.float64)
    assert found.mean.square == pytest.approx(wanted, abs=1e-6)
    np.testing.assert_array_equal(found.base_ids, np.arange(200))


def test_the_lengthscale_is_chosen_from_rows_and_target() -> None:
    rows, target = rows_of(300, 3), rows_of(300, 3, 1) + np.float32(9.0)
    assert embed(rows, Gaussian(), count=300, rng=rng_of()).mean.kernel == Gaussian().fit(rows)
    both = embed(rows, Gaussian(), count=300, target=target, rng=rng_of()).mean.kernel
    assert both == Gaussian().fit(np.concatenate([rows, target]))


# ---------------------------------------------------------------- large targets: calibrated


@pytest.mark.usefixtures("small_base")
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_calibration_removes_most_of_the_error(dtype: Any) -> None:
    rows = rows_of(5000, 3, 0, dtype)
    found = embed(rows, Gaussian(), count=700, features=128, rng=rng_of())
    plain = kernel_sums(found.mean.kernel, found.rows, found.rows, np.full(700, 1 / 700))
    exact = kernel_sums(found.mean.kernel, found.rows, rows.astype(np.float64), np.full(5000, 1 / 5000))
    assert error_of(found, rows, np.full(5000, 1 / 5000)) < 0.1 * np.sqrt(np.mean((plain - exact) ** 2))
    np.testing.assert_array_equal(found.base_ids, found.ids)
    assert math.isclose(found.mean.weights.sum(), 1.0, rel_tol=1e-14)
    assert found.mean.square == pytest.approx(found.mean.weights @ found.ku, rel=1e-12)
    assert found.scored == 5700
    assert found.passes == 1.0
    assert not found.mean.exact


@pytest.mark.usefixtures("small_base")
def test_the_values_are_those_of_the_mass() -> None:
    rows = rows_of(3000, 4)
    found = embed(rows, Laplace(), count=600, features=64, rng=rng_of())
    wanted = found.mean.kernel.gram(found.rows, found.mean.rows).astype(np.float64) @ found.mean.weights
    np.testing.assert_allclose(found.ku, wanted, atol=1e-6)
    np.testing.assert_allclose(found.at(found.rows), found.ku, atol=1e-6)


@pytest.mark.usefixtures("small_base")
def test_a_large_target() -> None:
    rows, target = rows_of(2000, 3), rows_of(4000, 3, 1, np.float64) * 1.5
    shares = np.full(4000, 1 / 4000)
    found = embed(rows, Gaussian(2.0), count=600, target=target, rng=rng_of())
    assert len(found.base_ids) == 600
    np.testing.assert_array_equal(found.mean.rows, target[found.base_ids])
    plain = kernel_sums(found.mean.kernel, found.rows, found.mean.rows, np.full(600, 1 / 600))
    exact = kernel_sums(found.mean.kernel, found.rows, target, shares)
    assert error_of(found, target, shares) < 0.2 * np.sqrt(np.mean((plain - exact) ** 2))
    wanted = (
        found.mean.weights @ found.mean.kernel.gram(found.mean.rows, found.mean.rows) @ found.mean.weights
    )
    assert found.mean.square == pytest.approx(wanted, abs=1e-6)


@pytest.mark.usefixtures("small_base")
def test_many_candidates_do_not_all_stand_for_the_target(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST", 700)
    rows = rows_of(5000, 3)
    found = embed(rows, Gaussian(), count=2000, rng=rng_of())
    assert len(found.ids) == len(found.ku) == 2000
    assert len(found.base_ids) == len(found.mean.weights) == 700
    assert error_of(found, rows, np.full(5000, 1 / 5000)) < 1e-3
    whole = embed(rows, Gaussian(), count=5000, rng=rng_of())
    assert whole.mean.exact
    assert error_of(whole, rows, np.full(5000, 1 / 5000)) < 1e-6


@pytest.mark.usefixtures("small_base")
@pytest.mark.parametrize("power", [1.0, 12.0])
def test_row_weights_are_matched(power: float) -> None:
    rows = rows_of(5000, 3)
    weights = np.random.default_rng(2).random(5000) ** power
    found = embed(rows, Gaussian(), count=600, row_weights=weights, rng=rng_of())
    assert error_of(found, rows, weights / weights.sum()) < 2e-3
    # Even weights would be this far off.
    assert error_of(embed(rows, Gaussian(), count=600, rng=rng_of()), rows, weights / weights.sum()) > 2e-3


@pytest.mark.usefixtures("small_base")
def test_only_few_rows_have_weight() -> None:
    rows, weights = rows_of(5000, 3), np.zeros(5000)
    weights[[17, 3000]] = [1.0, 3.0]
    found = embed(rows, Gaussian(2.0), count=600, row_weights=weights, rng=rng_of())
    np.testing.assert_array_equal(found.base_ids, [17, 3000])
    np.testing.assert_allclose(found.mean.weights, [0.25, 0.75], atol=1e-3)


@pytest.mark.usefixtures("small_base")
def test_excluded_rows_are_no_candidates_but_count() -> None:
    rows = rows_of(5000, 2)
    gone = np.flatnonzero(rows[:, 0] > 1.0)
    found = embed(rows, Gaussian(), count=600, exclude=gone, rng=rng_of())
    assert len(found.ids) == 600
    assert not np.isin(found.ids, gone).any()
    # The mean of the rows that are left would be wrong, and so would any weights of candidates.
    assert error_of(found, rows, np.full(5000, 1 / 5000)) < 2e-3


@pytest.mark.usefixtures("small_base")
def test_far_from_the_origin() -> None:
    rows = rows_of(3000, 3, 0, np.float64)
    near = embed(rows, Gaussian(2.0), count=600, rng=rng_of())
    far = embed(rows + 1e7, Gaussian(2.0), count=600, rng=rng_of())
    np.testing.assert_allclose(far.ku, near.ku, atol=1e-5)


@pytest.mark.usefixtures("small_base")
def test_constant_columns_change_nothing() -> None:
    rows = rows_of(3000, 3)
    wider = np.hstack([rows, np.full((3000, 2), 1e4, np.float32)])
    found = embed(wider, Gaussian(2.0), count=600, rng=rng_of())
    assert error_of(found, wider, np.full(3000, 1 / 3000)) < 1e-3


@pytest.mark.usefixtures("small_base")
def test_the_linear_kernel_is_exact() -> None:
    rows = rows_of(3000, 4)
    weights = np.random.default_rng(1).random(3000)
    mean = np.average(rows.astype(np.float64), axis=0, weights=weights)
    found = embed(rows, Linear(), count=50, row_weights=weights, rng=rng_of())
    np.testing.assert_allclose(found.ku, rows[found.ids] @ mean, rtol=1e-12)
    np.testing.assert_allclose(found.at(rows[:5]), rows[:5] @ mean, rtol=1e-12)
    assert found.mean.square == pytest.approx(mean @ mean, rel=1e-12)
    assert found.mean.exact
    assert found.passes == 1.0


class Cubic(Kernel):
    """A kernel of the caller's own, without features: (1 + <x, y> / 9)^3."""

    def gram(self, left: Matrix, right: Matrix) -> Matrix:
        return self.against(left)(right)

    def against(self, left: Matrix, *, single: bool = False) -> KernelColumns:
        return lambda right: (1.0 + left @ right.T / 9.0) ** 3

    def diagonal(self, rows: Matrix) -> Vector:
        out: Vector = (1.0 + (rows * rows).sum(axis=1) / 9.0) ** 3
        return out


@pytest.mark.usefixtures("small_base")
def test_a_kernel_without_features_takes_a_plain_mean() -> None:
    rows = rows_of(3000, 2, 0, np.float64)
    found = embed(rows, Cubic(), count=600, rng=rng_of())
    wanted: Vector = Cubic().gram(found.rows, found.rows).mean(axis=1)
    np.testing.assert_allclose(found.ku, wanted, rtol=1e-9)
    assert found.passes == 0.0
    assert found.scored == 600
    assert not found.mean.exact


def test_stein_needs_no_pass() -> None:
    x = rows_of(400, 2)
    swept: list[int] = []
    with on_progress(swept.append):
        found = embed(with_scores(x, -x), Stein(), count=50, rng=rng_of())
    np.testing.assert_array_equal(found.ku, np.zeros(50))
    np.testing.assert_array_equal(found.at(found.rows[:3]), np.zeros(3))
    assert found.mean.kernel == Stein().fit(found.rows)
    assert found.mean.square == 0.0
    assert found.passes == 0.0
    assert found.mean.exact
    assert swept == []


@pytest.mark.usefixtures("small_base")
def test_a_pass_reports_once_per_row() -> None:
    swept: list[int] = []
    with on_progress(swept.append):
        embed(rows_of(3000, 2), Gaussian(1.0), count=500, rng=rng_of())
    assert sum(swept) == 3000


# ---------------------------------------------------------------- the same again


@pytest.mark.usefixtures("small_base", "threads_back")
@pytest.mark.parametrize("kernel", [Gaussian(), Laplace(), Linear()])
def test_threads_and_files_do_not_change_a_bit(kernel: Kernel, tmp_path: Path) -> None:
    rows = rows_of(3000, 3)
    np.save(tmp_path / "rows.npy", rows)
    found = []
    for threads, atoms in ((1, rows), (2, rows), (2, wh.FileAtoms(tmp_path / "rows.npy"))):
        wh.set_threads(threads)
        found.append(embed(atoms, kernel, count=600, rng=rng_of(7)))
    for other in found[1:]:
        np.testing.assert_array_equal(other.ids, found[0].ids)
        np.testing.assert_array_equal(other.ku, found[0].ku)
        assert other.mean.square == found[0].mean.square


# ---------------------------------------------------------------- calibration and draws


def test_calibrated_weights_have_the_mean() -> None:
    rows = rows_of(3000, 3)
    features = Gaussian(2.0).features(3, 32, rng_of())
    mean = feature_mean(rows, features)
    start = np.full(400, 1 / 400)
    weights = calibrate(features, rows[:400], mean, start, ridge=1e-9)
    np.testing.assert_allclose(weights @ features(rows[:400]), mean, atol=1e-6)
    ridged = calibrate(features, rows[:400], mean, start)
    off = np.abs(features(rows[:400]).mean(axis=0) - mean).max()
    assert np.abs(ridged @ features(rows[:400]) - mean).max() < 0.1 * off


def test_weights_that_match_already_stay() -> None:
    rows = rows_of(50, 4, 0, np.float64)
    start = np.random.default_rng(0).random(50)
    start /= start.sum()
    np.testing.assert_allclose(calibrate(Identity(4), rows, start @ rows, start), start, rtol=1e-12)


@pytest.mark.slow
@given(n=st.integers(1, 40), count=st.integers(1, 50), share=st.floats(0.0, 1.0), seed=st.integers(0, 9))
def test_drawn_ids(n: int, count: int, share: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    gone = rng.permutation(n)[: int(share * (n - 1))]
    found = draw_ids(n, count, gone, rng)
    assert len(found) == min(count, n - len(gone))
    assert np.all(np.diff(found) > 0)
    assert np.isin(found, np.setdiff1d(np.arange(n), gone)).all()


def test_each_id_is_drawn_as_often() -> None:
    rng = rng_of()
    counts = np.zeros(8)
    for _ in range(4000):
        counts[draw_ids(8, 3, np.array([5, 2]), rng)] += 1
    np.testing.assert_array_equal(counts[[2, 5]], 0)
    # 4,000 draws of probability 1/2: a standard deviation of 32.
    np.testing.assert_allclose(counts[[0, 1, 3, 4, 6, 7]], 2000, atol=130)


def test_weighted_ids() -> None:
    shares = np.array([0.0, 0.5, 0.0, 0.25, 0.25, 0.0])
    counts = np.bincount(draw_weighted(shares, 40_000, rng_of()), minlength=6)
    np.testing.assert_allclose(counts / 40_000, shares, atol=0.012)
    np.testing.assert_array_equal(counts[[0, 2, 5]], 0)


# ---------------------------------------------------------------- wrong input


@pytest.mark.usefixtures("small_base")
def test_rows_that_are_not_finite_are_named() -> None:
    rows, target = rows_of(3000, 2), rows_of(2500, 2, 1)
    target[1234, 1] = math.nan
    with pytest.raises(ValueError, match=r"`atoms` must be finite. Got nan in row 1234, column 1"):
        embed(target, Gaussian(1.0), count=600, rng=rng_of())
    with pytest.raises(ValueError, match=r"`target` must be finite. Got nan in row 1234, column 1"):
        embed(rows, Gaussian(1.0), count=600, target=target, rng=rng_of())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"row_weights": np.ones(3)}, r"`row_weights` must be a vector of length 5. Got length 3"),
        ({"row_weights": -np.ones(5)}, r"`row_weights` must be >= 0"),
        ({"kernel": Gaussian(), "atoms": np.ones((5, 2))}, r"`lengthscale` must be given where rows do not"),
    ],
)
def test_wrong_input(options: dict[str, Any], message: str) -> None:
    call: dict[str, Any] = {"atoms": rows_of(5, 2), "kernel": Gaussian(1.0), "count": 3, "rng": rng_of()}
    with pytest.raises(ValueError, match=message):
        embed(**(call | options))
