"""Columns scaled to mean 0 and variance 1."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.preprocessing import StandardScaler

from wolfhound.data.atoms import ArrayAtoms
from wolfhound.data.scaling import unit_variance


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_unit_variance_is_that_of_scikit_learn(monkeypatch: pytest.MonkeyPatch, dtype: Any) -> None:
    rng = np.random.default_rng(0)
    rows = (rng.standard_normal((1000, 4)) * [1e-3, 1.0, 50.0, 0.0] + [1e3, -5.0, 0.0, 0.1]).astype(dtype)
    monkeypatch.setattr("wolfhound.data.atoms.block_rows", lambda *_: 77)
    scaled = unit_variance(ArrayAtoms(rows)).of(ArrayAtoms(rows))
    assert scaled.dtype == dtype
    expected = StandardScaler().fit_transform(rows.astype(np.float64))
    np.testing.assert_allclose(scaled.take(np.arange(1000)), expected, rtol=1e-5, atol=1e-5)


def test_scores_follow_the_change_of_variables() -> None:
    rows = np.random.default_rng(0).standard_normal((500, 2)) * [2.0, 5.0] + 3.0
    scaling = unit_variance(ArrayAtoms(rows))
    spread = rows.std(axis=0)
    # Of N(3, spread^2): the score of the scaled variable, a standard normal but for its mean, is -z.
    scores = ArrayAtoms(-(rows - rows.mean(axis=0)) / spread**2)
    ids = np.arange(500)
    expected = -scaling.of(ArrayAtoms(rows)).take(ids)
    np.testing.assert_allclose(scaling.of_scores(scores).take(ids), expected, atol=1e-12)


@pytest.mark.parametrize(("scale", "rule"), [(1e158, "at most 1e\\+150"), (1e-170, "at least 1e-150")])
def test_columns_whose_squares_are_no_numbers_are_refused(scale: float, rule: str) -> None:
    rows = ArrayAtoms(np.random.default_rng(0).standard_normal((9, 2)) * [1.0, scale])
    with pytest.raises(
        ValueError, match=f"`atoms` must be of moderate size, with columns that vary by {rule}"
    ):
        unit_variance(rows)


def test_scaling_names_a_row_that_is_not_finite() -> None:
    rows = np.zeros((5, 2))
    rows[3, 1] = np.nan
    with pytest.raises(ValueError, match="Got nan in row 3, column 1"):
        unit_variance(ArrayAtoms(rows))
