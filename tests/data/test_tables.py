"""Tables: what counts, what is carried, and how it is written, in every format."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import csv
import datetime
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.feather as pf
import pyarrow.parquet as pq
import pytest

from wolfhound.data.atoms import join
from wolfhound.data.encoding import encode, read_column, read_parts, read_texts
from wolfhound.data.table_files import open_table as open_file
from wolfhound.data.writers import write_rows


def open_table(path: Any) -> Any:
    """A file; the tests know of which kind."""
    return open_file(path)


IDS = np.array([7, 0, 4])
WEIGHTS = np.array([0.5, 0.3, 0.2])
N = 10


@pytest.fixture
def table() -> pa.Table:
    """Numbers, texts with nulls, dates, categories: ten rows."""
    return pa.table(
        {
            "x": pa.array(np.arange(N) / 4.0, pa.float32()),
            "kind": pa.array(["b", "a"] * 5).dictionary_encode(),
            "count": pa.array(range(N), pa.int16()),
            "day": [datetime.date(2020, 1, 1 + i) for i in range(N)],
            "note": [None, *(f"note {i}, good" for i in range(1, N))],
        }
    )


@pytest.fixture
def parquet(table: pa.Table, tmp_path: Path) -> str:
    """The table in two files, in groups of three rows."""
    pq.write_table(table[:6], tmp_path / "part-0.parquet", row_group_size=3)
    pq.write_table(table[6:], tmp_path / "part-1.parquet", row_group_size=3)
    return str(tmp_path / "part-*.parquet")


@pytest.fixture
def text(tmp_path: Path) -> str:
    """A .csv file with a header, quoted cells and a blank line."""
    lines = ["code,x,name", *(f'{i:03d},{i / 4},"n, {i}"' for i in range(5)), ""]
    lines += [f"{i:03d},{i / 4},n{i}" for i in range(5, N)]
    (tmp_path / "rows.csv").write_text("\n".join(lines) + "\n")
    return str(tmp_path / "rows.csv")


# ---------------------------------------------------------------- reading


def test_parquet_columns(parquet: str) -> None:
    source = open_table(parquet)
    assert source.names == ("x", "kind", "count", "day", "note")
    assert source.numbers == ("x", "count")
    rows = join(read_parts([source], ["count", "x"])).take(np.arange(N))
    np.testing.assert_array_equal(rows, np.column_stack([np.arange(N), np.arange(N) / 4.0]))


@pytest.mark.parametrize(("name", "kind"), [("kind", "U"), ("count", "i"), ("x", "f")])
def test_one_column(parquet: str, table: pa.Table, name: str, kind: str) -> None:
    found, missing = read_column(open_table(parquet), name)
    assert not missing.any()
    assert found.dtype.kind == kind
    assert found.tolist() == table[name].to_pylist()


def test_a_column_of_dates(parquet: str) -> None:
    assert read_column(open_table(parquet), "day")[0].tolist()[-1] == "2020-01-10"


def test_unused_and_unsorted_categories(tmp_path: Path) -> None:
    kinds = pd.Categorical(["z", "b", "z"], categories=["z", "unused", "b"])
    pd.DataFrame({"x": [1.0, 2.0, 3.0], "kind": kinds}).to_parquet(tmp_path / "t.parquet")
    assert read_column(open_table(str(tmp_path / "t.parquet")), "kind")[0].tolist() == ["z", "b", "z"]


def test_the_index_of_a_data_frame_does_not_count(tmp_path: Path) -> None:
    frame = pd.DataFrame({"x": np.arange(4.0), "y": np.arange(4.0)}, index=[10, 30, 20, 40])
    frame.to_parquet(tmp_path / "frame.parquet")
    source = open_table(str(tmp_path / "frame.parquet"))
    assert source.numbers == ("x", "y")
    write_rows(tmp_path / "out.parquet", source, np.array([2, 0]), np.array([0.5, 0.5]))
    assert pd.read_parquet(tmp_path / "out.parquet").index.tolist() == [20, 10]


def test_csv_columns(text: str) -> None:
    source = open_table(text)
    assert source.names == ("code", "x", "name")
    assert source.numbers == ("code", "x")
    np.testing.assert_array_equal(
        join(read_parts([source], ["x"])).take(np.arange(N))[:, 0], np.arange(N) / 4.0
    )
    assert read_texts(source, "name", "")[3:6] == ["n, 3", "n, 4", "n5"]


def test_a_csv_file_without_header(tmp_path: Path) -> None:
    (tmp_path / "bare.csv").write_text("1,a\n2,b\n3,c\n")
    source = open_table(str(tmp_path / "bare.csv"))
    assert source.names == ("column 1", "column 2")
    assert source.rows(np.array([2, 0]), as_text=True).to_pydict() == {
        "column 1": ["3", "1"],
        "column 2": ["c", "a"],
    }


def test_parts_must_have_their_columns_in_one_order(tmp_path: Path) -> None:
    (tmp_path / "p0.csv").write_text("x,a,b\n1,u,v\n")
    (tmp_path / "p1.csv").write_text("x,b,a\n2,v,u\n")
    with pytest.raises(
        ValueError, match=r"files with the columns of .*p0\.csv. Got other columns in .*p1\.csv"
    ):
        open_table(str(tmp_path / "p*.csv"))


# ---------------------------------------------------------------- writing


def written(path: str, ending: str, ids: Any = IDS) -> Path:
    """Write three rows of a file, or others."""
    out = Path(path).parent / f"out.{ending}"
    write_rows(out, open_table(path), np.array(ids), WEIGHTS if ids is IDS else np.ones(len(ids)))
    return out


@pytest.mark.parametrize(
    ("ending", "read"), [("parquet", pq.read_table), ("arrow", pf.read_table), ("feather", pf.read_table)]
)
def test_files_of_arrow_keep_types(parquet: str, table: pa.Table, ending: str, read: Any) -> None:
    found = read(written(parquet, ending))
    assert found.schema.types == [*table.schema.types, pa.int64(), pa.float64()]
    expected = table.take(pa.array(IDS)).append_column("id", pa.array(IDS))
    assert found.to_pylist() == expected.append_column("weight", pa.array(WEIGHTS)).to_pylist()


def test_parquet_to_csv(parquet: str) -> None:
    with open(written(parquet, "csv"), newline="") as file:
        found = list(csv.reader(file))
    assert found == [
        ["x", "kind", "count", "day", "note", "id", "weight"],
        ["1.75", "a", "7", "2020-01-08", "note 7, good", "7", "0.5"],
        ["0.0", "b", "0", "2020-01-01", "", "0", "0.3"],
        ["1.0", "b", "4", "2020-01-05", "note 4, good", "4", "0.2"],
    ]


def test_parquet_to_json(parquet: str) -> None:
    found = json.loads(written(parquet, "json").read_text())
    expected = {"x": 0.0, "kind": "b", "count": 0, "day": "2020-01-01", "note": None, "id": 0, "weight": 0.3}
    assert found[1] == expected
    assert [row["id"] for row in found] == IDS.tolist()


def test_parquet_to_npy(parquet: str) -> None:
    found = np.load(written(parquet, "npy"), allow_pickle=False)
    assert found.dtype["x"] == np.float32
    assert found[["kind", "count", "day", "note"]].tolist()[1] == ("b", 0, "2020-01-01", "")
    assert found["weight"].tolist() == WEIGHTS.tolist()


def test_csv_to_csv_keeps_every_cell(text: str) -> None:
    with open(written(text, "csv"), newline="") as file:
        found = list(csv.reader(file))
    assert found[1:] == [
        ["007", "1.75", "n7", "7", "0.5"],
        ["000", "0.0", "n, 0", "0", "0.3"],
        ["004", "1.0", "n, 4", "4", "0.2"],
    ]


def test_csv_to_parquet_makes_numbers(text: str) -> None:
    found = pq.read_table(written(text, "parquet"))
    assert found.schema.types == [pa.int64(), pa.float64(), pa.string(), pa.int64(), pa.float64()]
    assert found["code"].to_pylist() == IDS.tolist()


def test_rows_without_names(tmp_path: Path) -> None:
    rows = np.random.default_rng(0).standard_normal((N, 3)).astype(np.float32)
    np.save(tmp_path / "rows.npy", rows)
    path = str(tmp_path / "rows.npy")
    found = np.load(written(path, "npy"))
    np.testing.assert_array_equal(found["row"], rows[IDS])
    np.testing.assert_array_equal(found["id"], IDS)
    # A table of lists is read back as the rows that it holds.
    table = open_table(str(written(path, "parquet")))
    np.testing.assert_array_equal(join(read_parts([table])).take(np.arange(3)), rows[IDS])
    assert written(path, "csv").read_text().startswith("column 1,column 2,column 3,id,weight\n")
    assert json.loads(written(path, "json").read_text())[0]["row"] == rows[7].tolist()


def test_a_column_of_lists(tmp_path: Path) -> None:
    rows = np.arange(12.0).reshape(6, 2)
    pq.write_table(pa.table({"vector": rows.tolist(), "n": range(6)}), tmp_path / "lists.parquet")
    path = str(tmp_path / "lists.parquet")
    assert open_table(path).numbers == ("vector",)
    out = tmp_path / "out.csv"
    write_rows(out, open_table(path), np.array([5, 1]), np.array([0.5, 0.5]))
    assert out.read_text() == "vector 1,vector 2,n,id,weight\n10.0,11.0,5,5,0.5\n2.0,3.0,1,1,0.5\n"


def test_names_that_are_taken(tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": [3, 4], "weight": [70.0, 80.0]}), tmp_path / "people.parquet")
    source = open_table(str(tmp_path / "people.parquet"))
    write_rows(tmp_path / "out.json", source, np.array([1]), np.array([1.0]))
    expected = [{"id": 4, "weight": 80.0, "herd_id": 1, "herd_weight": 1.0}]
    assert json.loads((tmp_path / "out.json").read_text()) == expected


# ---------------------------------------------------------------- mistakes


@pytest.mark.parametrize(
    ("columns", "labels", "message"),
    [
        (["x", "y"], (), "`columns` must be among x, kind, count, day, note. Got y."),
        (["x", "x"], (), "`columns` must be distinct. Got x, x."),
        (["day"], (), "`columns` must be of numbers, texts, truths or vectors. Got day: dates or times"),
        (None, ("x", "count", "kind"), r"Got x \(label\), count \(label\), kind \(label\), day \(dates"),
        (None, ("y",), "`by` must be a column among x, kind, count, day, note. Got y."),
    ],
)
def test_columns_that_cannot_count(parquet: str, columns: Any, labels: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        encode(parquet, columns=columns, labels=labels)


def test_files_without_names_have_no_columns(tmp_path: Path) -> None:
    np.save(tmp_path / "rows.npy", np.eye(2))
    with pytest.raises(TypeError, match="`table` must be a frame, or a"):
        encode(tmp_path / "rows.npy")
    with pytest.raises(ValueError, match="`columns` must be None: files of arrays have no names"):
        read_parts([open_table(str(tmp_path / "rows.npy"))], ["x"])


@pytest.mark.parametrize(
    ("name", "message"),
    [("note", "a column without missing values.* Got 1 in note"), ("vector", "Got vectors in vector")],
)
def test_labels_that_are_none(tmp_path: Path, name: str, message: str) -> None:
    columns = {"x": [1.0, 2.0], "note": [None, "a"], "vector": [[1.0], [2.0]]}
    pq.write_table(pa.table(columns), tmp_path / "t.parquet")
    with pytest.raises(ValueError, match=message):
        encode(tmp_path / "t.parquet", columns=["x"]).read_labels([name])


@pytest.mark.parametrize("ending", ["npy", "npz", "csv", "parquet"])
def test_files_that_are_not_there(tmp_path: Path, ending: str) -> None:
    with pytest.raises(FileNotFoundError, match="which is not there"):
        open_table(tmp_path / f"no.{ending}")
    with pytest.raises(ValueError, match="`path` must be a glob that matches a file"):
        open_table(tmp_path / f"no-*.{ending}")


def test_files_of_two_kinds(tmp_path: Path) -> None:
    (tmp_path / "p0.csv").write_text("x\n1\n")
    np.save(tmp_path / "p1.npy", np.eye(2))
    with pytest.raises(ValueError, match="`path` must be files of one kind"):
        open_table(tmp_path / "p*")


def test_rows_of_several_arrays(tmp_path: Path) -> None:
    rows = np.arange(12.0).reshape(6, 2)
    np.save(tmp_path / "p0.npy", rows[:4])
    np.savez(tmp_path / "p1.npz", rows=rows[4:])
    ids = np.array([5, 0, 3])
    write_rows(tmp_path / "out.npy", open_table(tmp_path / "p*.np?"), ids, np.ones(3))
    np.testing.assert_array_equal(np.load(tmp_path / "out.npy")["row"], rows[ids])


def test_nulls_of_a_column_of_text(tmp_path: Path) -> None:
    columns = {"x": [1.0, 2.0], "note": [None, "a"], "on": [True, False]}
    pq.write_table(pa.table(columns), tmp_path / "t.parquet")
    table = open_table(tmp_path / "t.parquet")
    assert table.texts == ("note",)
    assert read_texts(table, "note", "None") == ["None", "a"]
    assert read_column(table, "on")[0].tolist() == [True, False]


def test_rows_of_a_feather_file_are_written_and_read(tmp_path: Path) -> None:
    rows = np.arange(12.0).reshape(6, 2)
    np.save(tmp_path / "rows.npy", rows)
    path = written(str(tmp_path / "rows.npy"), "feather", ids=[5, 1])
    found = encode(path)
    np.testing.assert_array_equal(found.take(np.arange(2)), rows[[5, 1]])
    again = written(str(path), "csv", ids=[1])
    assert again.read_text() == "column 1,column 2,id,weight,herd_id,herd_weight\n2.0,3.0,1,1.0,1,1.0\n"


def test_a_file_that_is_not_parquet(tmp_path: Path) -> None:
    (tmp_path / "t.parquet").write_text("no table at all")
    with pytest.raises(ValueError, match=r"`path` must be a \.parquet file"):
        open_table(str(tmp_path / "t.parquet"))
