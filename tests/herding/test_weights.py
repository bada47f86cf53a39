"""Fitted weights with labels: neither the whole nor a label is met worse."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wolfhound.core.contracts import Vector
from wolfhound.herding import Gaussian, Kernel, Laplace, mmd
from wolfhound.herding.herd import herd
from wolfhound.herding.labels import fit_jointly
from wolfhound.herding.result import HerdResult

SIZES = [900, 600, 300, 140, 50, 10]
GROUPS = np.repeat(np.arange(len(SIZES)), SIZES)
TABLE = np.random.default_rng(0).normal(size=(sum(SIZES), 3)) + 0.1 * GROUPS[:, None]


def within(result: HerdResult, kernel: Kernel) -> list[float]:
    """MMD of each group, from the definition."""
    found = []
    for group in range(len(SIZES)):
        mine = result.labels == group
        weights = result.weights[mine]
        found.append(mmd(TABLE[result.ids[mine]], TABLE[group == GROUPS], kernel, left_weights=weights))
    return found


@pytest.mark.parametrize("balanced", [False, True], ids=["proportional", "balanced"])
@pytest.mark.parametrize("kernel", [Gaussian(3.0), Laplace(3.0)], ids=["Gaussian", "Laplace"])
def test_weights_make_neither_the_whole_nor_a_label_worse(kernel: Kernel, balanced: bool) -> None:
    plain, fitted = (
        herd(TABLE, 60, by=GROUPS, balanced=balanced, kernel=kernel, weights=weights)
        for weights in (False, True)
    )
    assert np.array_equal(plain.ids, fitted.ids)
    assert "(exact)" in fitted.reference
    assert fitted.mmd < plain.mmd
    before, after = within(plain, kernel), within(fitted, kernel)
    # Embeddings are summed in single precision.
    assert np.all(np.square(after) <= np.square(before) + 1e-7)
    assert sum(after) < 0.995 * sum(before)
    assert fitted.mmd_by is not None
    np.testing.assert_allclose(fitted.mmd_by, after, rtol=1e-3, atol=1e-3)


def test_labels_and_weights_of_0_are_reported(tmp_path: Path) -> None:
    result = herd(TABLE, 300, by=GROUPS, weights=True)
    assert result.mmd_by is not None
    assert result.zeros == np.count_nonzero(result.weights == 0.0) > 0
    lines = repr(result).splitlines()
    assert f", {result.zeros} of weight 0: " in lines[1]
    low, high, worst = result.mmd_by.min(), result.mmd_by.max(), int(result.mmd_by.argmax())
    assert f"  by       6 labels, MMD within them {low:.3g} .. {high:.3g} ({worst})" in lines
    result.save(tmp_path / "run")
    loaded = HerdResult.load(tmp_path / "run").mmd_by
    assert loaded is not None
    assert np.array_equal(loaded, result.mmd_by)


def test_without_labels_nothing_is_said_of_them() -> None:
    result = herd(TABLE, 30)
    assert result.mmd_by is None
    assert result.zeros == 0
    assert [line.split()[0] for line in repr(result).splitlines()[1:]] == ["atoms", "mmd", "on", "cost", "in"]
    assert herd(TABLE, 30, by=GROUPS, evaluate=False).mmd_by is None


@pytest.mark.parametrize("stop", [2, 4])
def test_weights_of_a_run_cut_before_every_label_has_a_row(stop: int) -> None:
    result = herd(TABLE, 60, by=GROUPS, weights=True, callback=lambda state: state.t == stop)
    assert len(result.ids) == stop
    assert result.weights.sum() == pytest.approx(1.0)


def distances(gram: Vector, whole: Vector, own: Vector, blocks: list[slice], weights: Vector) -> list[float]:
    """Squared distances, up to constants: the whole, then each label."""
    parts = [(weights, gram, whole), *((weights[b], gram[b, b], own[b]) for b in blocks)]
    return [float(w @ inner @ w - 2.0 * w @ mean) for w, inner, mean in parts]


@pytest.mark.slow
@given(st.integers(0, 2**32 - 1))
def test_no_distance_grows_whatever_the_means(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(9, 4))
    # Means that contradict each other: that of all is none of those of the labels.
    blocks = [slice(0, 4), slice(4, 8), slice(8, 9)]
    means = rows @ rows.T, rows @ rng.normal(size=4), rng.normal(size=9), blocks
    start = rng.dirichlet(np.ones(9))
    fitted = fit_jointly(*means, start)
    assert (fitted >= 0.0).all()
    for block in blocks:
        assert fitted[block].sum() == pytest.approx(start[block].sum())
    before, after = distances(*means, start), distances(*means, fitted)
    assert all(new <= old + 1e-9 * (1.0 + abs(old)) for old, new in zip(before, after, strict=True))
