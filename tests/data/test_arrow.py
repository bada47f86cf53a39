"""Columns of Arrow: of each library, of several files, and what is carried of them to other formats."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from wolfhound import encode
from wolfhound.data import files, tables
from wolfhound.data.table_files import open_table
from wolfhound.data.writers import write_rows

# ---------------------------------------------------------------- columns as each library holds them


def read(table: Any) -> Any:
    """The atoms of a table."""
    found = encode(table)
    return found.take(np.arange(found.shape[0]))


HOLED = [None, None, [1.0, 2.0], None, None, None, [3.0, 4.0]]


@pytest.mark.parametrize(
    "table",
    [
        pd.DataFrame({"v": HOLED}),
        pl.DataFrame({"v": HOLED}),
        pa.table(
            {"v": pa.chunked_array([HOLED[:2], HOLED[2:4], HOLED[4:6], HOLED[6:]], pa.list_(pa.float64()))}
        ),
        pd.DataFrame({"v": pd.Series(HOLED, dtype=pd.ArrowDtype(pa.list_(pa.float64())))}),
    ],
    ids=["pandas", "polars", "arrow", "pandas of arrow"],
)
def test_batches_without_any_vector_are_dropped(table: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "BATCH", 2)
    np.testing.assert_array_equal(read(table), [[1.0, 2.0], [3.0, 4.0]])
    assert encode(table).report.dropped == 5


def test_a_column_without_any_vector_is_refused() -> None:
    table = pa.table({"v": pa.array([None, None], pa.list_(pa.float64()))})
    with pytest.raises(ValueError, match="`the table` must be one with a value in every column that counts"):
        encode(table)


def test_lists_of_texts_are_carried() -> None:
    tags = [["a", "b"], ["c"], [], ["a"]]
    for frame in (
        pd.DataFrame({"x": [1.0, 2.0, 3.0, 4.0], "tags": tags}),
        pl.DataFrame({"x": [1.0] * 4, "tags": tags}),
    ):
        assert encode(frame).report.carried == (("tags", "neither numbers nor texts"),)
    empty_first = pd.DataFrame({"x": [1.0, 2.0, 3.0, 4.0], "tags": tags[2:] + tags[:2]})
    assert encode(empty_first).names == ("x",)
    nested = pd.DataFrame({"x": [1.0, 2.0], "tags": [[[1], [1, 2]], [[3], [4]]]})
    assert encode(nested).names == ("x",)


def test_types_of_arrow_in_pandas() -> None:
    arrays = {
        "kind": pa.array(["b", "a", None, "b"]).dictionary_encode(),
        "n": pa.array([1, 2, 3, 4], pa.int16()),
        "good": pa.array([True, False, True, True]),
    }
    frame = pd.DataFrame({name: pd.Series(pd.arrays.ArrowExtensionArray(v)) for name, v in arrays.items()})
    found = encode(frame)
    assert found.names == ("kind=a", "kind=b", "n", "good=False", "good=True")
    np.testing.assert_array_equal(read(frame), [[0, 1, 1, 0, 1], [1, 0, 2, 1, 0], [0, 1, 4, 0, 1]])


def test_masked_fields_are_missing() -> None:
    text = io.StringIO("x,y\n1,2\n,3\n4,\n5,6\n")
    records = np.genfromtxt(text, delimiter=",", names=True, usemask=True, dtype=[("x", "f8"), ("y", "i8")])
    found = encode(records)
    np.testing.assert_array_equal(found.ids, [0, 3])
    assert found.report.missing == (("x", 1), ("y", 1))
    taken = found.take_rows(np.array([2, 0]))
    assert taken["y"].mask.tolist() == [True, False]


def write(path: Path, *columns: Any) -> str:
    """Files of one column x each, and the glob that they match."""
    for i, values in enumerate(columns):
        pq.write_table(pa.table({"x": values}), path / f"part-{i}.parquet")
    return str(path / "part-*.parquet")


# ---------------------------------------------------------------- several files


@pytest.mark.parametrize("limit", [0, 1 << 20])
@pytest.mark.parametrize("vectors", [False, True])
def test_the_widest_type_of_all_files_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: int, vectors: bool
) -> None:
    monkeypatch.setattr(files, "IN_MEMORY", limit)
    monkeypatch.setattr("wolfhound.data.encoding.KEPT", limit)
    kinds = [(pa.float32(), pa.float64()), (pa.list_(pa.float32()), pa.list_(pa.float64()))][vectors]
    cells: Any = [[[1.5, 2.5], [1e300, 3.0]], [[[1.5], [2.5]], [[1e300], [3.0]]]][vectors]
    path = write(tmp_path, *map(pa.array, cells, kinds))
    found = encode(path)
    assert found.dtype == np.float64
    np.testing.assert_array_equal(found.take(np.arange(4))[:, 0], [1.5, 2.5, 1e300, 3.0])


@pytest.mark.parametrize(
    ("first", "second", "told"),
    [
        ([True, False], [2.0, 3.0], "files whose x holds truths, as .* Got numbers in .*part-1"),
        ([1.0, 2.0], ["a", "a"], "files whose x holds numbers, as .* Got texts in .*part-1"),
        ([[1.0], [2.0]], [1.0, 2.0], "files whose x holds vectors, as .* Got numbers in .*part-1"),
    ],
)
def test_columns_of_several_kinds_are_refused(tmp_path: Path, first: Any, second: Any, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        encode(write(tmp_path, first, second))
    with pytest.raises(ValueError, match=r"`columns` must be among y\. Got x"):
        pq.write_table(pa.table({"y": first}), tmp_path / "part-1.parquet")
        encode(str(tmp_path / "part-*.parquet"))


def test_a_file_without_any_value_has_the_kind_of_the_others(tmp_path: Path) -> None:
    empty = pa.nulls(2)
    for values in ([1.0, 2.0], ["a", "a"], [True, False], [[1.0], [2.0]]):
        assert encode(write(tmp_path, values, empty)).report.dropped == 2
        assert encode(write(tmp_path, empty, values)).report.dropped == 2


# ---------------------------------------------------------------- what is carried

BIG = 9007199254741031
CARRIED = {
    "x": pa.array([1.0, 2.0, 3.0]),
    "big": pa.array([BIG, None, 5]),
    "share": pa.array([0.5, None, 0.25]),
    "good": pa.array([True, None, False]),
    "day": pa.array([0, None, 1], pa.date32()),
    "ragged": pa.array([list(range(2000)), None, [1]]),
    "tags": pa.array([["a", "é"], ["b"], None]),
    "made": pa.array([{"a": 1}, None, {"a": 2}]),
    "holed": pa.array([[1, None], [BIG, 2], [3, 4]]),
}


@pytest.fixture
def carried(tmp_path: Path) -> Any:
    """A table of columns with nulls, and of lists and structs."""
    pq.write_table(pa.table(CARRIED), tmp_path / "t.parquet")
    return open_table(str(tmp_path / "t.parquet"))


def test_carried_columns_lose_nothing_in_json(tmp_path: Path, carried: Any) -> None:
    write_rows(tmp_path / "out.json", carried, np.arange(3), np.ones(3))
    rows = json.loads((tmp_path / "out.json").read_text())
    expected = pa.table(CARRIED).set_column(4, "day", pa.array(["1970-01-01", None, "1970-01-02"]))
    assert [{name: row[name] for name in CARRIED} for row in rows] == expected.to_pylist()


def test_carried_columns_lose_nothing_in_csv(tmp_path: Path, carried: Any) -> None:
    write_rows(tmp_path / "out.csv", carried, np.arange(3), np.ones(3))
    found = pd.read_csv(tmp_path / "out.csv", dtype=str, keep_default_na=False)
    assert found["big"].tolist() == [str(BIG), "", "5"]
    assert found["share"].tolist() == ["0.5", "", "0.25"]
    assert found["good"].tolist() == ["True", "", "False"]
    assert found["day"].tolist() == ["1970-01-01", "", "1970-01-02"]
    assert json.loads(found["ragged"][0]) == list(range(2000))
    assert found["tags"].tolist() == ['["a", "é"]', '["b"]', ""]
    assert json.loads(found["holed"][1]) == [BIG, 2]


def test_numbers_with_nulls_stay_numbers_in_npy(tmp_path: Path, carried: Any) -> None:
    write_rows(tmp_path / "out.npy", carried, np.arange(3), np.ones(3))
    found = np.load(tmp_path / "out.npy")
    np.testing.assert_array_equal(found["share"], [0.5, np.nan, 0.25])
    assert found["big"].tolist() == [str(BIG), "", "5"]
