"""Tables of very many columns: what is done for a column does not grow with their number.

Counted, not timed: comparisons of names, characters of messages that are made, whether or
not they are shown, and passes over a file.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from wolfhound import encode, read_atoms
from wolfhound.cli._options import read_table
from wolfhound.core.validate import require
from wolfhound.data import encoding, table_files, tables
from wolfhound.data.encoding import EncodingPlan, encode_source
from wolfhound.data.table_files import open_table
from wolfhound.herding.herd import herd

COLUMNS = 1500
"""Quadratic work would be two million comparisons, linear work is a few thousand."""

COUNTS: Counter[str] = Counter()


class Name(str):
    """A text that counts how often it is compared."""

    __slots__ = ()
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        COUNTS["comparisons"] += 1
        return str.__eq__(self, other)


@pytest.fixture(autouse=True)
def counted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    COUNTS.clear()
    rows = table_files.rows

    def count_rows(path: str) -> Iterator[tuple[int, list[str]]]:
        COUNTS["passes"] += 1
        return ((line, [Name(cell) for cell in cells]) for line, cells in rows(path))

    def count_message(ok: bool, name: str, rule: str, got: object) -> None:
        COUNTS["characters"] += len(rule) + len(str(got))
        require(ok, name, rule, got)

    monkeypatch.setattr(table_files, "rows", count_rows)
    for module in (table_files, tables, encoding):
        monkeypatch.setattr(module, "require", count_message)


def write(columns: int) -> None:
    """Numbers, categories and keys, and a column without a name."""
    cells = [["1", "2", "3"], ["a", "b", "a"], ["k1", "k2", "k3"]]
    names = ["", *(f"c{i}" for i in range(1, columns))]
    lines = [",".join(cells[i % 3][r] for i in range(columns)) for r in range(3)]
    Path("x.csv").write_text("\n".join([",".join(names), *lines, ""]))


def open_named(path: str) -> Any:
    """A file with named columns."""
    return open_table(path)


def encode_like() -> Any:
    like = encode("x.csv").columns
    return encode_source(open_named("x.csv"), EncodingPlan(like=like))


USES: dict[str, Callable[[], Any]] = {
    "encode": lambda: encode("x.csv"),
    "all by name": lambda: encode("x.csv", columns=[f"c{i}" for i in range(1, COLUMNS) if i % 3 < 2]),
    "all are labels but one": lambda: encode(
        "x.csv", columns=["c3"], labels=[f"c{i}" for i in range(1, COLUMNS)]
    ),
    "like another": encode_like,
    "atoms": lambda: read_atoms("x.csv"),
    "atoms by name": lambda: read_atoms("x.csv", columns=[f"c{3 * i}" for i in range(1, COLUMNS // 3)]),
    "texts": lambda: open_named("x.csv").texts,
    "rows": lambda: open_named("x.csv").rows(np.array([1])),
    "the command line": lambda: read_table("x.csv", None, missing="drop", numeric_only=False),
    "herd": lambda: herd("x.csv", 2, by="c1"),
}


@pytest.mark.parametrize("use", USES)
def test_work_grows_with_the_columns_and_not_with_their_square(use: str) -> None:
    write(COLUMNS)
    USES[use]()
    assert COUNTS["comparisons"] <= 40 * COLUMNS
    assert COUNTS["characters"] <= 1000 * COLUMNS
    assert COUNTS["passes"] <= 12


def test_names_that_come_twice_are_still_told() -> None:
    Path("x.csv").write_text("b,a,c,a,b\n1,2,3,4,5\n")
    with pytest.raises(ValueError, match=r"names are distinct\. Got a, b twice in x\.csv"):
        encode("x.csv")
    for frame in (pd.DataFrame(np.ones((1, 3)), columns=["a", "b", "a"]), pa.table([[1], [2]], ["a", "a"])):
        with pytest.raises(ValueError, match=r"one whose columns have distinct names\. Got a twice"):
            encode(frame)


def test_a_frame_is_asked_for_its_schema_once(monkeypatch: pytest.MonkeyPatch) -> None:
    frame, schema = pl.DataFrame({f"c{i}": [1.0, 2.0] for i in range(50)}), pl.DataFrame.schema
    asked: list[int] = []

    def count(self: pl.DataFrame) -> Any:
        asked.append(1)
        return schema.fget(self)  # type: ignore[attr-defined]

    monkeypatch.setattr(pl.DataFrame, "schema", property(count))
    assert encode(frame).shape == (2, 50)
    assert len(asked) < 10


def test_several_columns_that_are_not_there_are_named_together() -> None:
    Path("x.csv").write_text("a,b\n1,2\n")
    with pytest.raises(ValueError, match=r"`columns` must be among a, b\. Got c, d\."):
        encode("x.csv", columns=["a", "c", "d"])
    with pytest.raises(ValueError, match=r"`by` must be a column among a, b\. Got e, f\."):
        encode("x.csv", labels=["e", "f"])
