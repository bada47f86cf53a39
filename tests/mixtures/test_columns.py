"""Observations in a column of a frame, some of them missing."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

from wolfhound import Missing, MixtureFit, Normal, npmle

X = [1.0, None, -2.0, 2.5, None, 0.0]
SIGMA = np.array([1.0, 9.0, 1.0, 2.0, 9.0, 1.0])


@pytest.mark.parametrize("x", [pd.Series(X), pd.Series(X, dtype="Float64"), pl.Series("x", X)])
def test_missing_observations_are_left_out(tmp_path: Path, x: Any) -> None:
    weights = np.arange(1.0, 7.0)
    found = npmle(x, Normal(SIGMA), weights)
    there = np.array([0, 2, 3, 5])
    expected = npmle(np.array([1.0, -2.0, 2.5, 0.0]), Normal(SIGMA[there]), weights[there])
    np.testing.assert_array_equal(found.ids, there)
    np.testing.assert_array_equal(found.support, expected.support)
    np.testing.assert_array_equal(found.posterior_mean(), expected.posterior_mean())
    assert npmle(x.fillna(0.0) if hasattr(x, "fillna") else x.fill_null(0.0), Normal(1.0)).ids is None
    found.save(tmp_path / "fit")
    np.testing.assert_array_equal(MixtureFit.load(tmp_path / "fit").ids, there)


def test_they_can_be_refused() -> None:
    with pytest.raises(
        ValueError, match=r"`x` must be free of missing values.* 2 missing, the first in row 1"
    ):
        npmle(pd.Series(X), Normal(1.0), missing=Missing.ERROR)
    with pytest.raises(ValueError, match="a mean is no observation"):
        npmle(pd.Series(X), Normal(1.0), missing=Missing.MEAN)
