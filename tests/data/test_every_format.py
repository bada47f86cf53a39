"""A messy table is the same table in every format: rows that are lost, columns that count, picks."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import datetime
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.feather as pf
import pyarrow.parquet as pq
import pytest

from wolfhound import Missing, encode, herd
from wolfhound.data import table_files

N = 400
LATE = 350  # rows before the first text among numbers


def make_columns() -> dict[str, list[Any]]:
    """Numbers, texts, truths and dates with gaps; a text far down, blanks, integers that are texts."""
    rng = np.random.default_rng(3)
    size = rng.normal(size=N).round(3).tolist()
    return {
        "size": [None if i % 17 == 3 else size[i] for i in range(N)],
        "count": [None if i % 23 == 5 else i % 7 for i in range(N)],
        "kind": [{1: None, 2: "", 3: " "}.get(i % 29, ("b", "a", "b b")[i % 3]) for i in range(N)],
        "code": [str(i % 9) if i < LATE else "x7" for i in range(N)],
        "good": [None if i % 43 == 7 else i % 5 < 2 for i in range(N)],
        "day": [datetime.date(2020, 1, 1 + i % 28) for i in range(N)],
        "name": [f"n{i}" for i in range(N)],
    }


def write_csv(columns: dict[str, list[Any]], path: Path) -> Path:
    """As a spreadsheet has it: nulls are blank, or NA."""
    lines = [",".join(columns)]
    for i in range(N):
        null = "NA" if i % 2 else ""
        lines.append(",".join(null if column[i] is None else str(column[i]) for column in columns.values()))
    path.write_text("\n".join(lines) + "\n")
    return path


def list_forms(path: Path) -> dict[str, Callable[[], Any]]:
    """The same table in every form that holds it."""
    columns = make_columns()
    table = pa.table(columns)
    objects = pd.DataFrame({name: pd.Series(values, dtype=object) for name, values in columns.items()})
    mixed = [int(code) if code.isdecimal() else code for code in columns["code"]]
    pq.write_table(table, path / "t.parquet", row_group_size=90)
    pq.write_table(table[:LATE], path / "part-0.parquet")
    pq.write_table(table[LATE:], path / "part-1.parquet")
    pf.write_feather(table, path / "t.feather", chunksize=90)
    return {
        "csv": lambda: write_csv(columns, path / "t.csv"),
        "parquet": lambda: path / "t.parquet",
        "parts": lambda: path / "part-*.parquet",
        "feather": lambda: path / "t.feather",
        "arrow": lambda: table,
        "pandas": table.to_pandas,
        "nullable": lambda: table.to_pandas().convert_dtypes(),
        "objects": lambda: objects,
        "mixed objects": lambda: objects.assign(code=pd.Series(mixed, dtype=object)),
        "arrow in pandas": lambda: table.to_pandas(types_mapper=pd.ArrowDtype),
        "categories": lambda: table.to_pandas().astype({"kind": "category", "code": "category"}),
        "polars": lambda: pl.DataFrame(columns),
        "polars categories": lambda: pl.DataFrame(columns).with_columns(pl.col("code").cast(pl.Categorical)),
    }


FORMS = (
    *("csv", "parquet", "parts", "feather", "arrow", "pandas", "nullable", "objects", "mixed objects"),
    *("arrow in pandas", "categories", "polars", "polars categories"),
)


def find_complete() -> list[int]:
    """The rows in which no column that counts is blank, by the definition."""
    columns = make_columns()
    counted = zip(*(columns[name] for name in ("size", "count", "kind", "code", "good")), strict=True)
    return [i for i, row in enumerate(counted) if None not in row and all(str(cell).strip() for cell in row)]


@pytest.mark.parametrize("form", FORMS)
def test_the_same_rows_are_lost_and_the_same_picked(tmp_path: Path, form: str) -> None:
    forms = list_forms(tmp_path)
    table, same = forms[form](), forms["arrow"]()
    found, expected = encode(table), encode(same)
    assert found.ids is not None
    assert found.ids.tolist() == find_complete()
    levels = [f"code={i}" for i in range(9)] + ["code=x7"]
    kinds = ["kind=a", "kind=b", "kind=b b"]
    assert found.names == ("size", "count", *kinds, *levels, "good=False", "good=True")
    assert found.report == expected.report
    rows = found.take(np.arange(found.shape[0]))
    np.testing.assert_array_equal(rows, expected.take(np.arange(expected.shape[0])))
    filled, wanted = (encode(each, missing=Missing.MEAN) for each in (table, same))
    np.testing.assert_allclose(filled.take(np.arange(N)), wanted.take(np.arange(N)), rtol=1e-12)
    picks, wanted_picks = (
        herd(each, 12, by="kind", standardize=True, evaluate=False).ids for each in (table, same)
    )
    np.testing.assert_array_equal(picks, wanted_picks)


@pytest.mark.parametrize("kept", [0, 1 << 30])
def test_a_text_after_many_numbers_neither_raises_nor_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kept: int
) -> None:
    monkeypatch.setattr(table_files, "_BLOCK", 4096)
    monkeypatch.setattr(table_files, "KEPT", kept)
    lines = ["x,code,on,when", *(f"{i / 8},{i % 9},{i % 2 == 0},2020-01-01" for i in range(5000))]
    (tmp_path / "t.csv").write_text("\n".join([*lines, "1.5,x7,maybe,soon", " , 3 ,NA, ", ""]))
    found = encode(tmp_path / "t.csv", labels=["code", "when"])
    assert found.names == ("x", "on=False", "on=True", "on=maybe")
    assert found.report.missing == (("x", 1), ("on", 1), ("when", 1))
    assert found.read_labels(["code"])[-2:].tolist() == ["4", "x7"]
    assert found.read_labels(["when"])[-2:].tolist() == ["2020-01-01", "soon"]


def test_keys_among_texts_are_texts_however_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_files, "_BLOCK", 4096)
    keys = [str(2**53 + 1 + i % 3) for i in range(3000)]
    lines = ["x,key", *(f"{i / 8},{key}" for i, key in enumerate(keys)), "1.5,none"]
    (tmp_path / "t.csv").write_text("\n".join(lines) + "\n")
    assert encode(tmp_path / "t.csv").names == ("x", *(f"key={key}" for key in sorted(set(keys))), "key=none")
    with pytest.raises(ValueError, match=rf"column 'key' in line 2 of .*t\.csv` must be .* Got {keys[0]}"):
        encode(_cut(tmp_path / "t.csv"))


def _cut(path: Path) -> Path:
    """Leave out the last line, the only text."""
    path.write_text("\n".join(path.read_text().splitlines()[:-1]) + "\n")
    return path


@pytest.mark.parametrize(
    "cells", [["1500-01-01", "2020-02-29"], ["2020-01-01T10:00:00.123456789Z"] * 2, ["2020-01-01 10:00"] * 2]
)
def test_iso_dates_of_a_csv_file_are_carried(tmp_path: Path, cells: list[str]) -> None:
    (tmp_path / "t.csv").write_text("x,when\n" + "".join(f"{i},{cell}\n" for i, cell in enumerate(cells)))
    reason = "dates or times: make numbers of them to count"
    assert encode(tmp_path / "t.csv").report.carried == (("when", reason),)
