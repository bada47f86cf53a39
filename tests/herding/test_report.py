"""Reports: on which rows an MMD is measured, and how many random subsets there are."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wolfhound.herding import mmd
from wolfhound.herding._report import curve_sizes, effort
from wolfhound.herding.herd import herd

LARGE = np.random.default_rng(1).normal(size=(21_000, 2)).astype(np.float32)


def test_rows_are_held_out_where_there_are_enough() -> None:
    result = herd(LARGE, 30, candidates=500)
    assert result.reference == "10,000 rows held out, calibrated; 10 random subsets"
    assert result.mmd == pytest.approx(mmd(LARGE[result.ids], LARGE, result.kernel), abs=2e-3)  # type: ignore[arg-type]
    assert result.gain < 0.5
    assert 0.0 < result.mmd_random_spread < result.mmd_random


def test_candidates_are_used_again_where_none_are_left() -> None:
    result = herd(LARGE, 10, candidates=20_500)
    assert result.reference == "10,000 rows drawn, also candidates, calibrated; 10 random subsets"


@pytest.mark.parametrize(
    ("m", "wanted"), [(2000, (10_000, 10)), (10_000, (10_000, 5)), (10_001, (10_000, 3))]
)
def test_large_herds_are_measured_with_less_effort(m: int, wanted: tuple[int, int]) -> None:
    assert effort(m) == wanted


@given(st.integers(1, 100_000))
def test_sizes_of_a_curve(m: int) -> None:
    sizes = curve_sizes(m)
    assert sizes[0] == 1
    assert sizes[-1] == m
    assert (np.diff(sizes) > 0).all()
    assert len(sizes) <= 24
