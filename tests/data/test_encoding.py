"""Tables to atoms: which rows and columns count, against what pandas says, and by properties."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.conformance.atoms import check_atoms
from wolfhound import FileAtoms, Missing, encode, minimize, minimize_many
from wolfhound.data import files, tables
from wolfhound.data.atoms import as_atoms, fingerprint
from wolfhound.data.encoding import EncodingPlan, TableAtoms, TableReport, encode_source, find_table
from wolfhound.objectives.plain import SquaredDistance

FLIGHTS = Path(__file__).parent / "flights.csv"
FORMATS = ("csv", "parquet", "feather")
COUNTED = ["dep_time", "dep_delay", "arr_delay", "air_time"]


def read(table: TableAtoms) -> Any:
    return table.take(np.arange(table.shape[0]))


def frames(path: Path) -> dict[str, Callable[[], Any]]:
    """The same table in every form that holds it."""
    frame = pd.read_csv(FLIGHTS)
    frame.to_parquet(path / "flights.parquet", row_group_size=300)
    half = len(frame) // 2
    frame[:half].to_parquet(path / "part-0.parquet")
    frame[half:].to_parquet(path / "part-1.parquet")
    return {
        "csv": lambda: FLIGHTS,
        "pandas": lambda: frame,
        "nullable": frame.convert_dtypes,
        "categories": lambda: frame.astype({"carrier": "category", "origin": "category"}),
        "polars": lambda: pl.read_csv(FLIGHTS, null_values="NA"),
        "arrow": lambda: pa.Table.from_pandas(frame),
        "parquet": lambda: path / "flights.parquet",
        "glob": lambda: path / "part-*.parquet",
    }


FORMS = ("csv", "pandas", "nullable", "categories", "polars", "arrow", "parquet", "glob")


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_a_table_gives_the_same_atoms(tmp_path: Path, form: str) -> None:
    frame = pd.read_csv(FLIGHTS)
    found = encode(frames(tmp_path)[form]())
    kept = np.flatnonzero(frame[COUNTED].notna().all(axis=1))
    assert found.ids is not None
    np.testing.assert_array_equal(found.ids, kept)
    names = ["month", "day", "dep_time", "dep_delay", "arr_delay", "carrier", "flight", "origin", "air_time"]
    coded = pd.get_dummies(
        frame.loc[kept, [*names, "distance"]], columns=["carrier", "origin"], prefix_sep="="
    )
    assert set(found.names) == set(coded.columns)
    np.testing.assert_array_equal(read(found), coded[list(found.names)].to_numpy(np.float64))
    assert found.report.dropped == len(frame) - len(kept)
    assert dict(found.report.missing) == frame[COUNTED].isna().sum().to_dict()
    assert found.report.coded == (("carrier", 15), ("origin", 3))
    assert [name for name, _ in found.report.carried] == ["tailnum", "dest", "time_hour"]


def test_a_list_of_files_is_one_table(tmp_path: Path) -> None:
    frames(tmp_path)
    found = encode([tmp_path / "part-0.parquet", tmp_path / "part-1.parquet"])
    np.testing.assert_array_equal(read(found), read(encode(FLIGHTS)))
    np.save(tmp_path / "rows.npy", np.eye(2))
    assert find_table([tmp_path / "rows.npy", FLIGHTS]) is None
    assert find_table([tmp_path / "rows.npy"]) is None
    assert find_table([[1.0, 2.0]]) is None


def test_means_fill_what_is_missing() -> None:
    frame = pd.read_csv(FLIGHTS)
    found = encode(frame, missing=Missing.MEAN)
    assert found.ids is None
    assert found.shape[0] == len(frame)
    for name in COUNTED:
        expected = frame[name].fillna(frame[name].mean())
        np.testing.assert_allclose(read(found)[:, found.names.index(name)], expected, rtol=1e-12)
    assert "234 values filled with means" in dict(found.report.notes)["missing"]


def test_the_mean_of_a_category_is_its_shares() -> None:
    frame = pd.DataFrame({"x": [1.0, 2.0, 3.0, 4.0, 5.0], "kind": ["b", None, "a", "b", "b"]})
    found = encode(frame, missing=Missing.MEAN)
    np.testing.assert_array_equal(read(found)[1], [2.0, 0.25, 0.75])


def test_an_error_names_columns_row_and_remedy() -> None:
    told = (
        r"`the table` must be free of missing values; leave such rows out \(drop\), "
        r"or make them a level of their own \(level\), or fill them with means"
    )
    with pytest.raises(ValueError, match=told + r".*the first in row 11: dep_time \(54\).*air_time \(63\)\."):
        encode(FLIGHTS, missing=Missing.ERROR)
    with pytest.raises(TypeError, match=r"`missing` must be one of 'drop', .* Got 'leave'"):
        encode(FLIGHTS, missing="leave")
    with pytest.raises(ValueError, match=r"`the table` must be one with a row that has no missing value"):
        encode(pd.DataFrame({"x": [math.nan, 1.0], "y": [1.0, math.nan]}))
    with pytest.raises(ValueError, match=r"free of missing values.* the first in row 1: kind \(1\)"):
        encode(pd.DataFrame({"x": [1.0, 2.0], "kind": ["a", None]}), labels=["kind"], missing=Missing.MEAN)
    with pytest.raises(ValueError, match="`the table` must be a table with rows"):
        encode(pd.DataFrame({"x": np.empty(0)}))


def test_missing_values_are_levels() -> None:
    frame = pd.DataFrame({"x": [1.0, None, 4.0], "kind": ["b", None, "b"], "z": [0.0, 1.0, 2.0]})
    found = encode(frame, missing="level")
    assert found.names == ("x", "x=missing", "kind=b", "kind=missing", "z")
    expected = [[1.0, 0.0, 1.0, 0.0, 0.0], [2.5, 1.0, 0.0, 1.0, 1.0], [4.0, 0.0, 1.0, 0.0, 2.0]]
    np.testing.assert_array_equal(read(found), expected)
    assert (found.ids, found.report.dropped, found.report.marked) == (None, 0, True)
    assert found.report.notes[0] == ("missing", "2 values are levels of their own: x (1), kind (1)")
    assert TableReport.from_json(found.report.to_json()) == found.report
    vectors = pd.DataFrame({"v": [[1.0, 2.0], None, [3.0, 6.0]]})
    np.testing.assert_array_equal(read(encode(vectors, missing="level")), [[1, 2, 0], [2, 4, 1], [3, 6, 0]])


def test_a_table_that_is_matched_has_the_same_levels() -> None:
    frame = pd.DataFrame({"x": [1.0, None, 4.0, 5.0], "kind": ["b", None, "a", "a"]})
    like = encode(frame, missing="level").columns
    whole = find_table(pd.DataFrame({"x": [2.0, 3.0], "kind": ["a", "b"]}))
    assert whole is not None
    plan = EncodingPlan(missing=Missing.LEVEL, like=like, called="target")
    np.testing.assert_array_equal(read(encode_source(whole, plan)), [[2, 0, 1, 0, 0], [3, 0, 0, 1, 0]])
    table = find_table(frame)
    assert table is not None
    np.testing.assert_array_equal(read(encode_source(table, plan))[:, 1], [0, 1, 0, 0])
    plain = plan._replace(like=encode(frame).columns)
    with pytest.raises(ValueError, match=r"`target` must be free of missing values in x, .* Got 1\."):
        encode_source(table, plain)


@pytest.mark.parametrize("word", [*tables.BLANKS, " NA "])
def test_words_for_nothing_are_missing_in_every_format(word: str, tmp_path: Path) -> None:
    frame = pd.DataFrame({"x": [1.0, 2.0, 3.0, 4.0], "kind": ["a", word, "a", "b"]})
    frame.to_csv(tmp_path / "t.csv", index=False)
    frame.to_parquet(tmp_path / "t.parquet")
    frame.to_feather(tmp_path / "t.feather")
    for form in (frame, pl.from_pandas(frame), *(tmp_path / f"t.{each}" for each in FORMATS)):
        found = encode(form).ids
        assert found is not None
        assert found.tolist() == [0, 2, 3]


def test_a_carried_column_drops_no_row() -> None:
    names = [None, *(f"n{i}" for i in range(99))]
    found = encode(pd.DataFrame({"x": np.arange(100.0), "name": names}))
    assert found.ids is None
    assert found.report.carried == (("name", "more than 64 different texts"),)
    few = encode(pd.DataFrame({"x": [1.0, 2.0, 3.0], "name": ["a", "b", None]}))
    assert few.report.carried == (("name", "no text comes twice"),)


def test_dates_and_objects_are_carried_with_the_reason() -> None:
    frame = pd.DataFrame(
        {"x": [1.0, 2.0], "day": pd.to_datetime(["2020-01-01", "2020-01-02"]), "z": [1j, 2j]}
    )
    expected = (("day", "dates or times: make numbers of them to count"), ("z", "neither numbers nor texts"))
    assert encode(frame).report.carried == expected


def test_numeric_only_leaves_texts_and_truths() -> None:
    frame = pd.DataFrame({"x": [1.0, 2.0, 3.0], "good": [True, False, True], "kind": ["a", "b", "a"]})
    assert encode(frame).names == ("x", "good=False", "good=True", "kind=a", "kind=b")
    assert encode(frame, numeric_only=True).names == ("x",)
    assert encode(frame, columns=["kind", "x"]).names == ("kind=a", "kind=b", "x")


VECTORS = np.arange(12, dtype=np.float32).reshape(4, 3)


@pytest.mark.parametrize(
    "table",
    [
        pd.DataFrame({"v": list(VECTORS), "n": [1, 2, 3, 4]}),
        pd.DataFrame({"v": list(VECTORS)})["v"],
        pl.DataFrame({"v": VECTORS.tolist()}, schema={"v": pl.List(pl.Float32)}),
        pl.DataFrame({"v": VECTORS}),
        pa.table({"v": pa.array(VECTORS.tolist(), pa.list_(pa.float32()))}),
        pa.table({"v": pa.FixedSizeListArray.from_arrays(VECTORS.ravel(), 3)}),
        pa.chunked_array([pa.array(VECTORS.tolist(), pa.list_(pa.float32()))]),
        np.array([(row,) for row in VECTORS], [("v", np.float32, (3,))]),
        torch.tensor(VECTORS, requires_grad=True),
        torch.tensor(VECTORS, dtype=torch.bfloat16),
    ],
    ids=lambda table: type(table).__module__.partition(".")[0] + type(table).__name__,
)
def test_vectors_in_a_column(table: Any) -> None:
    atoms = as_atoms(table)
    assert atoms.dtype == np.float32
    np.testing.assert_array_equal(atoms.take(np.arange(4)), VECTORS)


def test_vectors_with_holes() -> None:
    holes = [[1.0, 2.0], None, [3.0, None], [5.0, 6.0]]
    for table in (pa.table({"v": holes}), pl.DataFrame({"v": holes})):
        found = encode(table)
        np.testing.assert_array_equal(found.ids, [0, 3])
        np.testing.assert_array_equal(read(found), [[1.0, 2.0], [5.0, 6.0]])
    with pytest.raises(ValueError, match="`v` must be a column of vectors of one length"):
        encode(pd.DataFrame({"v": [np.ones(2), np.ones(3)]}))


def test_a_large_file_stays_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = frames(tmp_path)["parquet"]()
    expected = encode(path)
    monkeypatch.setattr(files, "IN_MEMORY", 1000)
    monkeypatch.setattr("wolfhound.data.encoding.KEPT", 0)
    found = encode(path)
    assert isinstance(found.atoms.stored.atoms, FileAtoms)  # type: ignore[attr-defined]
    np.testing.assert_array_equal(np.concatenate([block for _, block in found.blocks(77)]), read(expected))
    np.testing.assert_array_equal(found.take(np.array([5, 900, 3])), read(expected)[[5, 900, 3]])
    assert fingerprint(found) == fingerprint(expected)
    assert read(pickle.loads(pickle.dumps(found.atoms))).tolist() == read(expected).tolist()


def test_rows_that_are_kept_are_atoms() -> None:
    def make(rows: Any) -> Any:
        holed = np.full((2 * len(rows), rows.shape[1]), np.nan, rows.dtype)
        holed[::2] = rows
        return encode(pd.DataFrame(holed))

    check_atoms(make)


def test_another_table_by_the_same_columns() -> None:
    frame = pd.DataFrame({"x": [1.0, 2.0, 3.0, 4.0], "kind": ["a", "b", "c", "a"]})
    table = encode(frame)
    other = pd.DataFrame({"kind": ["c", "a"], "y": [0, 0], "x": [7.0, 8.0]})
    source = find_table(other)
    assert source is not None
    like = encode_source(source, EncodingPlan(like=table.columns))
    np.testing.assert_array_equal(read(like), [[7.0, 0.0, 0.0, 1.0], [8.0, 1.0, 0.0, 0.0]])
    for wrong, told in (
        ({"x": [1.0], "kind": ["z"]}, "`kind` must be one of a, b, c; or leave it out"),
        ({"x": ["1"], "kind": ["a"]}, "a table whose x holds numbers. Got texts"),
        ({"x": [1.0], "kind": [2]}, "a table whose kind holds texts. Got numbers"),
        ({"x": [1.0]}, "a table with the columns that count. Got no kind"),
    ):
        made = find_table(pd.DataFrame(wrong))
        assert made is not None
        with pytest.raises(ValueError, match=told):
            encode_source(made, EncodingPlan(like=table.columns))


# ---------------------------------------------------------------- levels of the rows that are kept

FRAME = pd.DataFrame(
    {
        "x": [1.0, np.nan, 3.0, 4.0, np.nan],
        "kind": ["b", "a", "c", "b", "a"],
        "good": [True, False, True, True, False],
    }
)


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
    monkeypatch.setattr(files, "IN_MEMORY", 0)
    monkeypatch.setattr("wolfhound.data.encoding.KEPT", 0)
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


def test_one_text_is_the_name_of_one_column() -> None:
    frame = pd.DataFrame({"x": [1.0, 2.0], "xy": [3.0, 4.0]})
    assert encode(frame, columns="xy").names == ("xy",)
    assert encode(frame, labels="xy").names == ("x",)


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


# ---------------------------------------------------------------- properties

CELLS = st.tuples(
    st.one_of(st.none(), st.floats(-1e6, 1e6)),
    st.one_of(st.none(), st.sampled_from("abcdé")),
    st.one_of(st.none(), st.booleans()),
)


@settings(deadline=None, max_examples=60)
@given(st.lists(CELLS, min_size=1, max_size=40))
def test_what_is_kept_is_what_is_complete(rows: list[tuple[Any, Any, Any]]) -> None:
    rows = [(1.5, "a", True), (2.5, "a", False), *rows]  # so that neither text is a name
    x, kind, good = zip(*rows, strict=True)
    frame = pl.DataFrame(
        {"x": x, "kind": kind, "good": good}, schema={"x": pl.Float64, "kind": pl.String, "good": pl.Boolean}
    )
    found = encode(frame)
    complete = [i for i, row in enumerate(rows) if None not in row]
    places = np.arange(found.shape[0])
    np.testing.assert_array_equal(found.name_rows(places), complete)
    np.testing.assert_array_equal(found.find_places(complete, "ids"), places)
    assert found.report.dropped == len(rows) - len(complete)
    assert dict(found.report.missing).get("x", 0) == sum(value is None for value in x)
    levels = sorted({kind[i] for i in complete})
    assert found.names == ("x", *(f"kind={level}" for level in levels), "good=False", "good=True")
    atoms = read(found)
    np.testing.assert_array_equal(atoms[:, 1:].sum(axis=1), 2.0)
    np.testing.assert_array_equal(atoms[:, 0], [x[i] for i in complete])
    where = [levels.index(kind[i]) for i in complete]
    np.testing.assert_array_equal(atoms[:, 1:-2].argmax(axis=1), where)
    full = encode(frame, missing=Missing.MEAN)
    filled = read(full)
    np.testing.assert_allclose(filled[:, 1:].sum(axis=1), 2.0)
    common = [full.names.index(name) for name in found.names]
    np.testing.assert_array_equal(filled[complete][:, common], atoms)
    shuffled = np.random.default_rng(0).permutation(len(rows))
    assert encode(frame[shuffled]).names == found.names


def test_reports_are_written_and_read() -> None:
    report = encode(FLIGHTS).report
    assert TableReport.from_json(report.to_json()) == report
    assert TableReport.from_json(None) is None


# ---------------------------------------------------------------- solves over a frame


def test_ids_of_a_solve_are_rows_of_the_frame() -> None:
    rng = np.random.default_rng(3)
    rows = rng.standard_normal((50, 4))
    holed = rows.copy()
    holed[[0, 7, 30], [1, 2, 0]] = np.nan
    frame = pd.DataFrame(holed)
    gone = [0, 7, 30]
    target = rows[10] * 0.5 + rows[40] * 0.5 + 0.01
    expected = minimize(SquaredDistance(target), rows, exclude=gone, rtol=1e-9)
    seen: list[Any] = []

    def note(state: Any) -> None:
        seen.append(state.ids)

    names = [f"r{i}" for i in range(50)]
    found = minimize(SquaredDistance(target), frame, rtol=1e-9, names=names, callback=note)
    assert found.lower <= expected.value
    assert expected.lower <= found.value
    assert not set(found.ids.tolist()) & set(gone)
    assert found.names == tuple(f"r{i}" for i in found.ids)
    np.testing.assert_allclose(found.weights @ rows[found.ids], found.x, atol=1e-12)
    assert set(found.ids.tolist()) <= set(np.concatenate(seen).tolist())
    other = int(np.setdiff1d(np.arange(50), [*found.ids, *gone])[0])
    again = minimize(SquaredDistance(target), frame, start=found, exclude=[other, 7], rtol=1e-9)
    assert other not in again.ids
    many = minimize_many(rows[[10, 40]], frame, exclude=np.array([[10, 7], [-1, 40]]))
    assert not set(many.ids.tolist()) & set(gone)
    np.testing.assert_allclose(many.x(1), many.weights[many.indptr[1] :] @ rows[many.ids[many.indptr[1] :]])
    with pytest.raises(ValueError, match="`start` must be rows that are kept"):
        minimize(SquaredDistance(target), frame, start=([7], [1.0]))
    with pytest.raises(ValueError, match="`atoms` must be free of missing values"):
        as_atoms(frame)
