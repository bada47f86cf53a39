"""Labels that tables hold, and what is said of scales."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from wolfhound import encode
from wolfhound.data.encoding import find_table, read_column
from wolfhound.data.tables import BATCH


def write(path: Path, labels: Sequence[str]) -> Path:
    """A .csv file with a column x that counts and a column g of labels."""
    lines = [f"{i / 4},{label}" for i, label in enumerate(labels)]
    (path / "t.csv").write_text("\n".join(["x,g", *lines]) + "\n")
    return path / "t.csv"


def read(table: Any, name: str = "g") -> list[Any]:
    """The labels of all rows."""
    source = find_table(table)
    assert source is not None
    return read_column(source, name)[0].tolist()  # type: ignore[no-any-return]


# ---------------------------------------------------------------- labels


def test_texts_that_look_like_truths_stay_texts() -> None:
    texts = np.resize(["Unknown", "False", "True"], BATCH + 2)
    texts[BATCH:] = ["False", "True"]
    assert set(read(pd.DataFrame({"g": texts}))) == {"Unknown", "False", "True"}
    assert read(pd.DataFrame({"g": ["False", "True"]})) == ["False", "True"]
    assert read(pd.DataFrame({"g": [False, True]})) == [False, True]


BIG = [9007199254740992, 9007199254740993, 9007199254740994, 9007199254740995]


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (["1", "2", "1", "4"], [1, 2, 1, 4]),
        (["1.0", "2", "1", "007"], [1, 2, 1, 7]),
        (["0.5", "2", "1e3", "-1"], [0.5, 2.0, 1000.0, -1.0]),
        (list(map(str, BIG)), BIG),
        (["1", "2", "3", "K"], ["1", "2", "3", "K"]),
        (["9007199254740992", "9007199254740993", "0.5", "1"],) * 2,
        (["1e300", "inf", "0.5", "1"], [1e300, np.inf, 0.5, 1.0]),
        (["123456789012345678901", "123456789012345678902", "1", "2"],) * 2,
    ],
)
def test_labels_of_a_csv_file_are_kept_apart(tmp_path: Path, texts: list[str], expected: list[Any]) -> None:
    path = write(tmp_path, texts)
    found = read(path)
    assert found == expected
    assert list(map(type, found)) == list(map(type, expected))
    assert encode(path, labels=["g"]).read_labels(["g"]).tolist() == expected


def test_blank_labels_of_a_csv_file_are_missing(tmp_path: Path) -> None:
    path = write(tmp_path, ["1", "NA", " ", "NAN", "", "3"])
    found = encode(path, labels=["g"])
    assert found.report.missing == (("g", 4),)
    assert found.read_labels(["g"]).tolist() == [1, 3]


@pytest.mark.parametrize(
    "values",
    [pa.array([{"a": 1}, {"a": 2}]), pl.Series([["a"], ["b", "c"]]), pd.Series([["a"], ["b", "c"]])],
    ids=["arrow", "polars", "pandas"],
)
def test_labels_that_are_nested_are_refused(values: Any) -> None:
    make = {"pyarrow.lib": pa.table, "polars.series.series": pl.DataFrame}
    frame = make.get(type(values).__module__, pd.DataFrame)({"x": [1.0, 2.0], "g": values})
    with pytest.raises(
        ValueError, match=r"`by` must be columns of numbers, texts, truths or dates. Got .* in g"
    ):
        encode(frame, labels=["g"])


def test_the_index_of_a_parquet_file_may_be_a_label(tmp_path: Path) -> None:
    frame = pd.DataFrame({"x": [1.0, 2.0, 3.0], "g": ["b", "a", "b"]}).set_index("g")
    frame.to_parquet(tmp_path / "t.parquet")
    found = encode(tmp_path / "t.parquet", labels=["g"])
    assert found.names == ("x",)
    assert found.read_labels(["g"]).tolist() == ["b", "a", "b"]


# ---------------------------------------------------------------- scales


def test_constant_columns_make_no_alarm() -> None:
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(100, 3)) * [1.0, 1.0, 1e3]
    table = encode(pd.DataFrame(rows))
    found = table.find_swamping(rows)
    assert found is not None
    assert found[0] == "2"
    rows[:, :2] = 0.1
    assert encode(pd.DataFrame(rows)).find_swamping(rows) is None
    rows[:, 0] = 900.0 * rng.normal(size=100)
    assert encode(pd.DataFrame(rows)).find_swamping(rows) is None
