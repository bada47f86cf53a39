"""Frames as atoms of many targets: rows that are left out, and what is saved of them."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import wolfhound as wh
from tests.many.test_gram_solver import normal

FRAME = pd.DataFrame(normal(60, 4), columns=list("abcd"))
FRAME.loc[0, "a"] = np.nan
TARGETS = 2.0 * FRAME.to_numpy()[[3, 4, 6]]


@pytest.mark.parametrize("given", [FRAME, wh.encode(FRAME)], ids=["frame", "encoded"])
def test_a_loaded_result_reads_the_rows_of_the_frame(given: Any, tmp_path: Path) -> None:
    solved = wh.minimize_many(TARGETS, FRAME)
    solved.save(tmp_path / "saved")
    loaded = wh.load(tmp_path / "saved", given)
    for i in range(len(TARGETS)):
        np.testing.assert_array_equal(loaded.x(i), solved.x(i))
    np.testing.assert_array_equal(loaded.to_dense(), solved.to_dense())
    assert loaded.to_dense().shape == (3, 60)


def test_a_loaded_result_of_a_whole_frame(tmp_path: Path) -> None:
    whole = FRAME.dropna()
    solved = wh.minimize_many(TARGETS, whole)
    solved.save(tmp_path / "saved")
    np.testing.assert_array_equal(wh.load(tmp_path / "saved", whole).x(0), solved.x(0))
    np.testing.assert_array_equal(wh.load(tmp_path / "saved", whole.to_numpy()).x(0), solved.x(0))


def test_targets_whose_columns_are_in_another_order_are_refused() -> None:
    targets = pd.DataFrame(TARGETS, columns=list("abcd"))
    text = r"`targets` must be a table with .* in their order, a, b, c, d\. Got d, c, b, a\."
    with pytest.raises(ValueError, match=text):
        wh.minimize_many(targets[list("dcba")], FRAME)
    unnamed = targets.set_axis(range(4), axis=1)
    np.testing.assert_array_equal(
        wh.minimize_many(targets, FRAME).value, wh.minimize_many(unnamed, FRAME).value
    )
