"""What a pass over a table finds: levels of the rows that are kept."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from wolfhound import Missing, _files, encode
from wolfhound.encoding import EncodingPlan, encode_source, find_table

FRAME = pd.DataFrame(
    {
        "x": [1.0, np.nan, 3.0, 4.0, np.nan],
        "kind": ["b", "a", "c", "b", "a"],
        "good": [True, False, True, True, False],
    }
)


def read(table: Any) -> Any:
    """The atoms of an encoded table."""
    return table.take(np.arange(table.shape[0]))


def test_levels_are_those_of_kept_rows() -> None:
    found = encode(FRAME)
    assert found.names == ("x", "kind=b", "kind=c", "good=True")
    assert found.report.coded == (("kind", 2), ("good", 1))
    np.testing.assert_array_equal(read(found), [[1, 1, 0, 1], [3, 0, 1, 1], [4, 1, 0, 1]])
    filled = encode(FRAME, missing=Missing.MEAN)
    assert filled.names == ("x", "kind=a", "kind=b", "kind=c", "good=False", "good=True")


def test_levels_of_a_large_file_are_those_of_kept_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = read(encode(FRAME))
    FRAME.to_parquet(tmp_path / "t.parquet")
    monkeypatch.setattr(_files, "IN_MEMORY", 0)
    monkeypatch.setattr("wolfhound.encoding.KEPT", 0)
    np.testing.assert_array_equal(read(encode(tmp_path / "t.parquet")), expected)


def test_levels_that_are_given_stay() -> None:
    like = encode(FRAME, missing=Missing.MEAN).columns
    source = find_table(FRAME)
    assert source is not None
    found = encode_source(source, EncodingPlan(like=like))
    assert found.names == ("x", "kind=a", "kind=b", "kind=c", "good=False", "good=True")
    assert found.shape == (3, 6)


# ---------------------------------------------------------------- mistakes


def test_names_that_are_numbers() -> None:
    assert encode(pd.DataFrame(np.eye(3)), columns=[0, 2], labels=[1]).names == ("0", "2")  # type: ignore[list-item]


@pytest.mark.parametrize("option", ["columns", "labels"])
def test_one_text_is_no_list_of_names(option: str) -> None:
    with pytest.raises(TypeError, match=f"`{option}` must be a list of names. Got 'xy'"):
        encode(pd.DataFrame({"x": [1.0], "y": [2.0]}), **{option: "xy"})  # type: ignore[arg-type]


def test_every_column_with_a_missing_value_is_named() -> None:
    frame = pd.DataFrame({f"a_rather_long_name_{i}": [1.0, np.nan] for i in range(20)})
    told = r"the first in row 1: a_rather_long_name_0 \(1\), .*a_rather_long_name_19 \(1\)\.$"
    with pytest.raises(ValueError, match=told):
        encode(frame, missing=Missing.ERROR)


def test_labels_that_are_all_missing_are_named() -> None:
    frame = pd.DataFrame({"x": [1.0, 2.0], "g": [None, None]})
    with pytest.raises(ValueError, match=r"no missing value. Got g \(2 missing\)"):
        encode(frame, labels=["g"])


def test_a_column_without_a_name_is_carried(tmp_path: Path) -> None:
    pd.DataFrame({"x": [1.5, 2.5], "y": [3.0, 4.0]}).to_csv(tmp_path / "t.csv")
    found = encode(tmp_path / "t.csv")
    assert found.names == ("x", "y")
    assert found.report.carried == (("column 1", "a column without a name"),)
    with pytest.raises(ValueError, match="Got column 1: a column without a name"):
        encode(tmp_path / "t.csv", columns=["column 1"])
    assert encode(tmp_path / "t.csv", labels=["column 1"]).read_labels(["column 1"]).tolist() == ["0", "1"]
