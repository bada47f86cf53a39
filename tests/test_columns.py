"""Columns as each library holds them: vectors, masks, lists of texts, types of Arrow in pandas."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import io
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from wolfhound import _arrow, encode


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
    monkeypatch.setattr(_arrow, "BATCH", 2)
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
