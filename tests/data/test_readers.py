"""Files to atoms, and errors that say what is wrong where."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pyarrow as pa
import pytest
import zarr
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyarrow import feather, parquet
from safetensors import numpy as safetensors

from tests.conformance.atoms import Rows, check_atoms
from wolfhound.core.contracts import Atoms
from wolfhound.data import files, table_files
from wolfhound.data.atoms import ArrayAtoms, ConcatAtoms, FileAtoms
from wolfhound.data.encoding import read_column, read_texts
from wolfhound.data.readers import read_atoms, read_matrix, read_names, read_vector
from wolfhound.data.table_files import ArrayTable, open_table
from wolfhound.data.tables import BLANKS, Kind

ROWS = np.array([[1.5, -2.0], [3.0, 4e-3], [0.1, 6.0]])


def values(atoms: Atoms) -> Rows:
    return np.asarray(atoms.take(np.arange(atoms.shape[0])), np.float64)


def open_named(path: Path) -> Any:
    """A file with named columns."""
    table = open_table(path)
    assert not isinstance(table, ArrayTable)
    return table


def text_file(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


# ---------------------------------------------------------------- every format gives atoms


def write_npy(path: Path, rows: Rows) -> None:
    np.save(path, rows)


def write_npz(path: Path, rows: Rows) -> None:
    np.savez(path, rows=rows, labels=np.zeros(3))


def write_csv(path: Path, rows: Rows) -> None:
    np.savetxt(path, rows, delimiter=",")


def write_parquet(path: Path, rows: Rows) -> None:
    parquet.write_table(pa.table({f"c{i}": column for i, column in enumerate(rows.T)}), path)


def write_feather(path: Path, rows: Rows) -> None:
    feather.write_feather(pa.table({f"c{i}": column for i, column in enumerate(rows.T)}), path)


def write_h5(path: Path, rows: Rows) -> None:
    with h5py.File(path, "w") as file:
        file["rows"], file["labels"] = rows, np.zeros(3)


def write_chunks(path: Path, rows: Rows) -> None:
    with h5py.File(path, "w") as file:
        file.create_dataset("deep/rows", data=rows, chunks=(1, rows.shape[1]), compression="gzip")


def write_zarr(path: Path, rows: Rows) -> None:
    zarr.open_group(path, mode="w").create_array("rows", data=rows, chunks=(2, rows.shape[1]))


def write_safetensors(path: Path, rows: Rows) -> None:
    path.write_bytes(safetensors.save({"rows": np.ascontiguousarray(rows), "labels": np.zeros(3)}))


WRITERS = {
    ".npy": write_npy,
    ".npz": write_npz,
    ".csv": write_csv,
    ".parquet": write_parquet,
    ".arrow": write_feather,
    ".feather": write_feather,
    ".h5": write_h5,
    ".hdf5": write_chunks,
    ".zarr": write_zarr,
    ".safetensors": write_safetensors,
}


@pytest.mark.parametrize("ending", WRITERS)
@pytest.mark.parametrize("limit", [0, 1 << 20])
def test_every_format_conforms_on_disk_and_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ending: str, limit: int
) -> None:
    monkeypatch.setattr(files, "IN_MEMORY", limit)

    def make(rows: Rows) -> Atoms:
        WRITERS[ending](tmp_path / f"x{ending}", rows)
        return read_atoms(tmp_path / f"x{ending}")

    check_atoms(make)


@pytest.mark.parametrize("ending", WRITERS)
def test_a_glob_joins_its_matches_in_order(tmp_path: Path, ending: str) -> None:
    for name, rows in (("part-1", ROWS[:2]), ("part-0", ROWS[1:])):
        WRITERS[ending](tmp_path / f"{name}{ending}", rows)
    atoms = read_atoms(str(tmp_path / f"part-*{ending}"))
    assert isinstance(atoms, ConcatAtoms)
    np.testing.assert_array_equal(values(atoms), np.concatenate([ROWS[1:], ROWS[:2]]))


@pytest.mark.parametrize("ending", WRITERS)
def test_a_file_whose_name_looks_like_a_glob_is_itself(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"[a]*{ending}"
    WRITERS[ending](path, ROWS)
    np.testing.assert_array_equal(values(read_atoms(path)), ROWS)


@pytest.mark.parametrize("ending", WRITERS)
def test_matrices_and_vectors_are_read_as_float64(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"x{ending}"
    WRITERS[ending](path, ROWS)
    where = f"{path}::rows" if ending in (".npz", ".h5", ".safetensors") else str(path)
    np.testing.assert_array_equal(read_matrix(where), ROWS)
    with pytest.raises(ValueError, match=r"must be a vector, one row or one column. Got shape \(3, 2\)"):
        read_vector(where)
    for vector in (ROWS[:1], ROWS[:, :1]):
        WRITERS[ending](path, vector)
        np.testing.assert_array_equal(read_vector(where), vector.ravel())


# ---------------------------------------------------------------- errors of all


@pytest.mark.parametrize("read", [read_atoms, open_table, read_matrix, read_vector, read_names])
def test_missing_and_empty_files_are_refused(tmp_path: Path, read: Callable[[Path], object]) -> None:
    for ending in WRITERS:
        path = tmp_path / f"x{ending}"
        with pytest.raises(FileNotFoundError, match=rf"`path` must name a file. Got '.*x{ending}'"):
            read(path)
        path.touch()
        with pytest.raises(ValueError, match=rf"`path` must be a file with content. Got .*x{ending}"):
            read(path)


def test_unknown_endings_and_empty_globs_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"ends in one of \.npy, .*, \.safetensors. Got 'x\.txt'"):
        read_atoms("x.txt")
    with pytest.raises(ValueError, match="`path` must be a glob that matches a file"):
        read_atoms(tmp_path / "part-*.npy")
    with pytest.raises(FileNotFoundError):
        read_atoms(f"{tmp_path}/absent.npz:key")


@pytest.mark.parametrize("ending", [".npy", ".npz", ".parquet", ".feather"])
def test_damaged_files_are_refused_by_name(tmp_path: Path, ending: str) -> None:
    path = text_file(tmp_path / f"x{ending}", "certainly nothing of the kind")
    with pytest.raises(ValueError, match=rf"`path` must be a .*{ending} file.* Got .*x{ending}"):
        read_atoms(path)


# ---------------------------------------------------------------- npy, npz, names


def test_small_npy_files_are_loaded_and_large_ones_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x.npy"
    np.save(path, np.asfortranarray(ROWS))
    assert isinstance(read_atoms(path), ArrayAtoms)
    monkeypatch.setattr(files, "IN_MEMORY", path.stat().st_size - 1)
    with pytest.raises(ValueError, match="C order"):
        read_atoms(path)
    np.save(path, ROWS)
    assert isinstance(read_atoms(path), FileAtoms)


def test_one_dimensional_arrays_are_vectors(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.arange(3, dtype=np.int8))
    np.savez(tmp_path / "x.npz", np.arange(3.0))
    for path in (tmp_path / "x.npy", tmp_path / "x.npz"):
        np.testing.assert_array_equal(read_vector(path), [0, 1, 2])
        np.testing.assert_array_equal(read_matrix(path), [[0, 1, 2]])
    with pytest.raises(ValueError, match="2 axes"):
        read_atoms(tmp_path / "x.npy")


def test_targets_must_be_finite(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.array([[1.0, np.nan]]))
    with pytest.raises(ValueError, match=r"x.npy` must be finite. Got nan at index \(0, 1\)"):
        read_matrix(tmp_path / "x.npy")


def test_a_key_chooses_an_array(tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    np.savez(path, a=ROWS, b=ROWS + 1, c=np.zeros(3))
    np.testing.assert_array_equal(values(read_atoms(f"{path}:b")), ROWS + 1)
    for wrong in (str(path), f"{path}:d"):
        with pytest.raises(
            ValueError, match=r"`path` must be .*x.npz::name, name one of a \(3, 2\), b \(3, 2\), c"
        ):
            read_atoms(wrong)
    with pytest.raises(ValueError, match="`columns` must be None"):
        read_atoms(f"{path}:a", columns=["a"])


def test_names_are_lines(tmp_path: Path) -> None:
    path = text_file(tmp_path / "names.txt", "\ufeffthe\nNew York\n\n naïve\u2028x \r\n")
    assert read_names(path) == ("the", "New York", "", " naïve\u2028x ")


# ---------------------------------------------------------------- csv


def test_a_table_keeps_names_and_other_columns(tmp_path: Path) -> None:
    text = 'word,x,"y, of z",kind\n"a ""b""",1,2.5e-1,u\n\n"line\nbreak",-3,4,\n'
    path = text_file(tmp_path / "x.csv", "\ufeff" + text)
    table = open_named(path)
    assert table.numbers == ("x", "y, of z")
    np.testing.assert_array_equal(values(read_atoms(path)), [[1, 0.25], [-3, 4]])
    assert {name: read_texts(table, name, "none") for name in table.texts} == {
        "word": ['a "b"', "line\nbreak"],
        "kind": ["u", ""],
    }


def test_lines_without_a_header_get_names(tmp_path: Path) -> None:
    path = text_file(tmp_path / "x.csv", "a,1,3\nb,3,4")
    table = open_named(path)
    assert table.numbers == ("column 2", "column 3")
    assert read_texts(table, "column 1", "") == ["a", "b"]
    np.testing.assert_array_equal(values(read_atoms(path)), [[1, 3], [3, 4]])


@pytest.mark.parametrize(
    ("text", "names", "rows"),
    [
        ("id,1,2\n7,3,4\n8,5,6\n", ("id", "1", "2"), [[7, 3, 4], [8, 5, 6]]),
        ("1,x\n3,4\n", ("1", "x"), [[3, 4]]),
        (",0,1\n0,3,4\n1,5,6\n", ("0", "1"), [[3, 4], [5, 6]]),
        ("id,1,2\nu,3,4\nv,5,6\n", ("1", "2"), [[3, 4], [5, 6]]),
        ("id,1,3\nu,3,4\nv,5,6\n", ("column 2", "column 3"), [[1, 3], [3, 4], [5, 6]]),
        (",x,y\n0,3,4\n1,5,6\n", ("x", "y"), [[3, 4], [5, 6]]),
        ("1,2\n3,4\n", ("column 1", "column 2"), [[1, 2], [3, 4]]),
    ],
)
def test_names_may_be_numbers(tmp_path: Path, text: str, names: tuple[str, ...], rows: list[Any]) -> None:
    path = text_file(tmp_path / "x.csv", text)
    assert open_table(path).numbers == names
    np.testing.assert_array_equal(values(read_atoms(path)), rows)


@pytest.mark.parametrize("cell", ["", " ", "n/a", "-"])
@pytest.mark.parametrize("row", [1, 2, 3])
def test_a_column_is_not_left_out_for_one_cell(tmp_path: Path, cell: str, row: int) -> None:
    lines = ["name,a,b", "u,1,2", "v,3,4", "w,5,6"]
    lines[row] = f"t,{cell},9"
    with pytest.raises(
        ValueError, match=rf"Column 'a' in line {row + 1} of .*x\.csv must be a finite number"
    ):
        read_atoms(text_file(tmp_path / "x.csv", "\n".join(lines)))


def test_a_column_that_is_blank_for_long_is_looked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table_files, "_SAMPLE", 2)
    path = text_file(tmp_path / "x.csv", "a,b,note\n" + ",1,\n" * 5 + "3,1,\n")
    with pytest.raises(ValueError, match=r"Column 'a' in line 2 .* Got '', a missing value: fill it in"):
        read_atoms(path)
    np.testing.assert_array_equal(values(read_atoms(path, columns=["b"])), [[1]] * 6)


def test_columns_can_be_chosen(tmp_path: Path) -> None:
    path = text_file(tmp_path / "x.csv", "id,x,y\n7,1,2\n8,3,4\n")
    np.testing.assert_array_equal(values(read_atoms(path, columns=["y", "x"])), [[2, 1], [4, 3]])
    with pytest.raises(ValueError, match=r"`columns` must be among id, x, y. Got z"):
        read_atoms(path, columns=["z", "x"])


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("x,y\n1,2\n3,oops\n", r"Column 'y' in line 3 of .*x.csv must be a finite number. Got 'oops'"),
        ("x,y\n1,2\n\n3,\n", r"Column 'y' in line 4 of .*x.csv must be a finite number. Got ''"),
        ("1,2\nnan,2\n", r"Column 'column 1' in line 2 of .* Got 'nan'"),
        ("1,2\n3,inf\n", r"Column 'column 2' in line 2 of .* Got 'inf'"),
        ("1,2\n3,1_0\n", r"Got '1_0'"),
        ("x,y\n1,2\n3\n", r"`line 3 of .*x.csv` must be 2 cells. Got 1"),
        ("x,y\n1,2\n3,4,5\n", r"`line 3 of .*x.csv` must be 2 cells. Got 3"),
        ("x,y\n", "at least one row of numbers"),
        ("\n\n", "at least one row of numbers"),
        ("x,y\na,b\n", "`path` must be a file with numeric columns. Got none"),
        ("x;y\n1;2\n", "with numeric columns"),
        ("x,x\n1,2\n", "names are distinct. Got x twice"),
        (",0,7\n0,2.5,3\n", r"Column 'column 1' in line 1 .* Got '', .*names in line 1 must not be numbers"),
        ('x,y\n1,2\n3,"4\n', "comma-separated UTF-8 text"),
    ],
)
def test_junk_is_named_by_line_and_column(tmp_path: Path, text: str, error: str) -> None:
    with pytest.raises(ValueError, match=error):
        read_atoms(text_file(tmp_path / "x.csv", text))


def test_other_encodings_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_bytes("name,x\nb,1\né,2\n".encode("latin-1"))
    with pytest.raises(ValueError, match=r"comma-separated UTF-8 text. Got .*x.csv"):
        read_atoms(path)


CELLS = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.sampled_from(
        [" 1", "1 ", "+1", ".5", "5.", "1e3", "1E-3", "0x1", "", "nan", "NA", "null", "a", '"1"']
    ),
)


def parse(cell: str) -> float | None:
    """What Python reads: None for a text, nan for a blank."""
    cell = cell.strip('"')
    if cell.strip() in BLANKS:
        return np.nan
    try:
        return float(cell)
    except ValueError:
        return None


@settings(
    max_examples=150,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(st.lists(CELLS, min_size=1, max_size=6))
def test_a_column_is_of_numbers_if_python_reads_every_cell(tmp_path: Path, cells: list[str]) -> None:
    path = text_file(tmp_path / "x.csv", "x,y\n1,2\n" + "".join(f"{cell},0\n" for cell in cells))
    expected = [1.0, *map(parse, cells)]
    table = open_named(path)
    assert table.kinds["x"] is (Kind.TEXT if None in expected else Kind.NUMBER)
    found = [cell for batch in table.batches(["x"]) for cell in batch.column("x").to_pylist()]
    read = [parse("" if cell is None else str(cell)) for cell in found]
    np.testing.assert_array_equal(np.array(read, np.float64), np.array(expected, np.float64))


# ---------------------------------------------------------------- parquet


def parquet_file(path: Path, columns: dict[str, Any]) -> Path:
    parquet.write_table(pa.table(columns), path, row_group_size=2)
    return path


LISTS = {
    "fixed": pa.array(ROWS.tolist(), pa.list_(pa.float32(), 2)),
    "list": pa.array(ROWS.tolist(), pa.list_(pa.float32())),
    "large": pa.array(ROWS.tolist(), pa.large_list(pa.float32())),
}


@pytest.mark.parametrize("lists", LISTS.values(), ids=LISTS.keys())
@pytest.mark.parametrize("limit", [0, 1 << 20])
def test_a_column_of_lists_is_the_atoms(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lists: Any, limit: int
) -> None:
    monkeypatch.setattr(files, "IN_MEMORY", limit)
    path = parquet_file(tmp_path / "x.parquet", {"id": [7, 8, 9], "vector": lists, "word": ["a", "b", None]})
    table = open_named(path)
    assert read_atoms(path).dtype == np.float32
    assert table.numbers == ("vector",)
    np.testing.assert_array_equal(values(read_atoms(path)), ROWS.astype(np.float32))
    assert read_column(table, "id")[0].tolist() == [7, 8, 9]
    assert read_texts(table, "word", "-") == ["a", "b", "-"]
    np.testing.assert_array_equal(values(read_atoms(path, columns=["id"])), [[7], [8], [9]])


@pytest.mark.parametrize("limit", [0, 1 << 20])
def test_numeric_columns_become_the_widest_float(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: int
) -> None:
    monkeypatch.setattr(files, "IN_MEMORY", limit)
    columns = {"a": np.arange(5, dtype=np.int8), "b": np.arange(5, dtype=np.float32) / 2, "on": [True] * 5}
    path = parquet_file(tmp_path / "x.parquet", columns)
    table = open_named(path)
    assert read_atoms(path).dtype == np.float32
    assert table.numbers == ("a", "b")
    assert read_column(table, "on")[0].tolist() == [True] * 5
    np.testing.assert_array_equal(values(read_atoms(path)), [[i, i / 2] for i in range(5)])
    wide = read_atoms(parquet_file(tmp_path / "x.parquet", columns | {"c": np.arange(5)}))
    assert wide.dtype == np.float64


@pytest.mark.parametrize("limit", [0, 1 << 20])
@pytest.mark.parametrize(
    ("columns", "error"),
    [
        ({"a": ["x"]}, "`path` must be a file with numeric columns"),
        ({"a": pa.array([], pa.int64())}, "`path` must be a file with numeric columns"),
        ({"a": [1, 2, None]}, r"x.parquet` must be free of missing values.* the first in row 2: a \(1\)"),
        ({"a": [[1.0], None]}, r"must be free of missing values.* the first in row 1: a \(1\)"),
        ({"a": [[1.0, None]]}, r"must be free of missing values.* the first in row 0: a \(1\)"),
        ({"a": [[1.0], [2.0, 3.0], [1.0]]}, "column 'a' of .*x.parquet` must be a column of vectors of one"),
        ({"a": [[1.0], [2.0, 3.0, 4.0]]}, "column 'a' of .* must be a column of vectors of one length"),
        ({"a": [[1.0], [2.0], [3.0], [4.0, 5.0]]}, "vectors of one length. Got lengths 1 to 2"),
        (
            {"a": pa.array([[]], pa.list_(pa.float32()))},
            "column 'a' of .* must be a column of vectors of one",
        ),
        ({"a": [[]]}, "numeric columns"),
        ({"a": [[1.0]], "b": [[2.0]]}, "`columns` must be given to choose among a, b"),
    ],
)
def test_columns_that_are_no_atoms_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, columns: dict[str, Any], error: str, limit: int
) -> None:
    monkeypatch.setattr(files, "IN_MEMORY", limit)
    path = parquet_file(tmp_path / "x.parquet", columns)
    with pytest.raises(ValueError, match=error):
        read_atoms(path)


def test_joined_files_must_have_the_same_columns(tmp_path: Path) -> None:
    text_file(tmp_path / "p0.csv", "x,y\n1,2\n")
    text_file(tmp_path / "p1.csv", "x,z\n1,2\n")
    with pytest.raises(
        ValueError, match=r"files with the columns of .*p0.csv. Got other columns in .*p1.csv"
    ):
        read_atoms(tmp_path / "p*.csv")
    text_file(tmp_path / "p0.csv", "w,y\na,2\n")
    text_file(tmp_path / "p1.csv", "w,y\nb,3\n")
    table = open_named(tmp_path / "p*.csv")
    assert table.numbers == ("y",)
    assert read_texts(table, "w", "") == ["a", "b"]
