"""Files to atoms: .npy, .npz, .csv, .parquet, and globs of these.

Knows formats, not what the rows mean. Only .parquet needs pyarrow; .csv uses
it when it is there, for speed.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import array
import atexit
import csv
import functools
import glob
import importlib
import os
import re
import shutil
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from wolfhound._files import NOT_NPY
from wolfhound.atoms import ArrayAtoms, ConcatAtoms, FileAtoms, widened
from wolfhound.core import Atoms, Matrix, Vector
from wolfhound.validate import matrix, require, vector

PathLike: TypeAlias = str | os.PathLike[str]
Columns: TypeAlias = Mapping[str, NDArray[Any]]

IN_MEMORY = 64 << 20
"""Bytes of a .npy file, or of the rows of a .parquet file, that are still loaded."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Table:
    """Atoms and what stood beside them in the file.

    Attributes
    ----------
    atoms : Atoms
        The numeric columns.
    names : tuple of str
        Their names; empty if the format has none.
    columns : dict
        The other columns, each of length n.
    """

    atoms: Atoms
    names: tuple[str, ...] = ()
    columns: Columns = field(default_factory=dict)


# ---------------------------------------------------------------- what callers use


def read_atoms(path: PathLike, *, columns: Sequence[str] | None = None) -> Atoms:
    """Return the atoms of a file or of all files that a glob matches, sorted.

    Parameters
    ----------
    path
        - ``x.npy``: up to 64 MiB is loaded, a larger file stays on disk;
        - ``x.npz``: its one 2-D array; ``x.npz:key`` chooses;
        - ``x.csv``: the columns whose first cell is a number, as float64. The
          first line is a header if none of its cells is a number;
        - ``x.parquet``: its one column of equally long lists, else its numeric
          columns; above 64 MiB they are written once to a temporary .npy file,
          removed when the process ends;
        - ``part-*.npy``: all matches, in the order of their names.
    columns
        As for `read_table`.
    """
    return _read(path, columns, False).atoms


def read_table(path: PathLike, *, columns: Sequence[str] | None = None) -> Table:
    """Return the atoms of a file with their names and the other columns.

    Parameters
    ----------
    path
        As for `read_atoms`.
    columns
        Names of the columns that are the atoms (.csv and .parquet).
    """
    return _read(path, columns, True)


def read_matrix(path: PathLike) -> Matrix:
    """Return a finite float64 matrix, loaded: targets, a design."""
    value = read_array(path)
    return matrix(value[None] if value.ndim == 1 else value, str(path))


def read_vector(path: PathLike) -> Vector:
    """Return a finite float64 vector: a 1-D array, one row or one column."""
    value = read_array(path)
    single = value.ndim == 1 or (value.ndim == 2 and 1 in value.shape)
    require(single, str(path), "a vector, one row or one column", f"shape {value.shape}")
    return vector(value.ravel(), str(path))


def read_names(path: PathLike) -> tuple[str, ...]:
    """Return the lines of a text file, one name each."""
    with open(_existing(path), encoding="utf-8-sig") as file:
        return tuple(line.rstrip("\n") for line in file)


def read_array(path: PathLike) -> NDArray[Any]:
    """Return what a file holds, loaded, of any shape and type."""
    text = os.fspath(path)
    if text.endswith(".npy"):
        return _load_npy(_existing(text))
    if _split(text)[0].endswith(".npz"):
        return _load_npz(text, None)
    atoms = read_atoms(path)
    return atoms.take(np.arange(atoms.shape[0]))


# ---------------------------------------------------------------- finding files


def _read(path: PathLike, columns: Sequence[str] | None, carry: bool) -> Table:
    text = os.fspath(path)
    file = _split(text)[0]
    if not os.path.exists(file) and glob.has_magic(file):
        found = sorted(glob.glob(file, recursive=True))
        require(bool(found), "path", "a glob that matches a file", text)
        return _joined(found, [_read(match + text[len(file) :], columns, carry) for match in found])
    ending = Path(file).suffix.lower()
    known = ", ".join(_READERS)
    require(ending in _READERS, "path", f"a file that ends in one of {known}", repr(text))
    named = ending in (".csv", ".parquet")
    require(columns is None or named, "columns", f"None: {ending} files have no names", columns)
    _existing(file)
    return _READERS[ending](text, columns, carry)


def _split(text: str) -> tuple[str, str | None]:
    """Split ``file.npz:key`` into file and key."""
    found = re.fullmatch(r"(.*\.npz):(.+)", text, re.IGNORECASE)
    return (found[1], found[2]) if found else (text, None)


def _existing(path: PathLike) -> Path:
    file = Path(path)
    if not file.is_file():
        raise FileNotFoundError(f"`path` must name a file. Got {str(path)!r}, which is not there.")
    require(file.stat().st_size > 0, "path", "a file with content", f"{file}, which is empty")
    return file


def _joined(files: list[str], tables: list[Table]) -> Table:
    first = tables[0]
    for file, table in zip(files, tables, strict=True):
        same = table.names == first.names and table.columns.keys() == first.columns.keys()
        require(same, "path", f"files with the columns of {files[0]}", f"other columns in {file}")
    columns = {name: np.concatenate([table.columns[name] for table in tables]) for name in first.columns}
    atoms = ConcatAtoms([table.atoms for table in tables])
    return Table(atoms=atoms, names=first.names, columns=columns)


# ---------------------------------------------------------------- npy, npz


def _npy(path: str, columns: Sequence[str] | None, carry: bool) -> Table:
    small = os.path.getsize(path) <= IN_MEMORY
    return Table(atoms=ArrayAtoms(_load_npy(Path(path))) if small else FileAtoms(path))


def _load_npy(path: Path) -> NDArray[Any]:
    try:
        with open(path, "rb") as file:
            return np.lib.format.read_array(file, allow_pickle=False)
    except NOT_NPY as error:
        raise ValueError(f"`path` must be a .npy file of numbers. Got {path}: {error}.") from None


def _npz(path: str, columns: Sequence[str] | None, carry: bool) -> Table:
    return Table(atoms=ArrayAtoms(_load_npz(path, 2)))


def _load_npz(text: str, ndim: int | None) -> NDArray[Any]:
    """Return the named array, else the only one (with `ndim` axes)."""
    file, key = _split(text)
    require(zipfile.is_zipfile(_existing(file)), "path", "a .npz file", file)
    try:
        with np.load(file) as content:
            known = content.files
            arrays: dict[str, NDArray[Any]] = {name: content[name] for name in known if key in (None, name)}
    except (zipfile.BadZipFile, zlib.error, *NOT_NPY) as error:
        raise ValueError(f"`path` must be a .npz file of numbers. Got {file}: {error}.") from None
    fitting = [value for value in arrays.values() if key or ndim in (None, value.ndim)]
    rule = f"{file}:key, key one of {', '.join(known)}"
    require(len(fitting) == 1, "path", rule, repr(text))
    return fitting[0]


# ---------------------------------------------------------------- csv


class Layout(NamedTuple):
    """What the first lines of a .csv file say."""

    names: tuple[str, ...]
    header: int  # lines before the first row of data
    numeric: tuple[int, ...]


def _csv(path: str, columns: Sequence[str] | None, carry: bool) -> Table:
    try:
        layout = csv_layout(path, columns)
        values, texts = _csv_by_arrow(path, layout) or _csv_by_rows(path, layout)
    except (UnicodeDecodeError, csv.Error) as error:
        raise ValueError(f"`path` must be comma-separated UTF-8 text. Got {path}: {error}.") from None
    names = tuple(layout.names[i] for i in layout.numeric)
    return Table(atoms=ArrayAtoms(values), names=names, columns=texts)


def csv_rows(path: str) -> Iterator[tuple[int, list[str]]]:
    """Yield (line it ends on, cells) of every row that is not blank."""
    with open(path, encoding="utf-8-sig", newline="") as file:
        reader = csv.reader(file, strict=True)
        for cells in reader:
            if cells:
                yield reader.line_num, cells


def _number(cell: str) -> float | None:
    try:
        return None if "_" in cell else float(cell)  # Python reads 1_000, others do not
    except ValueError:
        return None


def csv_layout(path: str, columns: Sequence[str] | None) -> Layout:
    """Read the first lines; without names of columns, those of numbers are the atoms."""
    rows = csv_rows(path)
    line, first = next(rows, (0, []))
    header = all(_number(cell) is None for cell in first)
    data = next(rows, (0, []))[1] if header else first
    require(bool(data), "path", "a .csv file with at least one row of numbers", path)
    names = tuple(first) if header else tuple(f"column {i}" for i in range(1, len(first) + 1))
    require(len(set(names)) == len(names), "path", "a .csv file whose names are distinct", names)
    if columns is None:
        numeric = [i for i, cell in enumerate(data[: len(names)]) if _number(cell) is not None]
    else:
        numeric = [names.index(name) for name in _chosen(columns, names)]
    require(bool(numeric), "path", "a comma-separated file with numeric columns", f"none in {path}")
    return Layout(names, line if header else 0, tuple(numeric))


def _chosen(columns: Sequence[str], names: Sequence[str]) -> Sequence[str]:
    missing = [name for name in columns if name not in names]
    require(not missing, "columns", f"among {', '.join(names)}", ", ".join(missing))
    return columns


def _csv_by_rows(path: str, layout: Layout) -> tuple[NDArray[Any], Columns]:
    """Read with the standard library; errors name line and column."""
    values = array.array("d")
    carried = [i for i in range(len(layout.names)) if i not in layout.numeric]
    texts: list[list[str]] = [[] for _ in carried]
    for line, cells in csv_rows(path):
        if line <= layout.header:
            continue
        where = f"line {line} of {path}"
        require(len(cells) == len(layout.names), where, f"{len(layout.names)} cells", f"{len(cells)}")
        for i in layout.numeric:
            value = _number(cells[i])
            if value is None or not np.isfinite(value):
                raise ValueError(
                    f"Column {layout.names[i]!r} in {where} must be a finite number. Got {cells[i]!r}."
                )
            values.append(value)
        for text, i in zip(texts, carried, strict=True):
            text.append(cells[i])
    columns = {layout.names[i]: np.array(text, object) for text, i in zip(texts, carried, strict=True)}
    return np.array(values).reshape(-1, len(layout.numeric)), columns


def _csv_by_arrow(path: str, layout: Layout) -> tuple[NDArray[Any], Columns] | None:
    """Read with pyarrow; None if it is not there or the file is not perfectly plain."""
    try:
        arrow = importlib.import_module("pyarrow")
        reader = importlib.import_module("pyarrow.csv")
    except ImportError:
        return None
    keys = [str(i) for i in range(len(layout.names))]
    types = {key: arrow.float64() if int(key) in layout.numeric else arrow.string() for key in keys}
    try:
        table = reader.read_csv(
            path,
            read_options=reader.ReadOptions(column_names=keys, skip_rows=layout.header),
            parse_options=reader.ParseOptions(newlines_in_values=True),
            convert_options=reader.ConvertOptions(column_types=types, null_values=[]),
        )
    except arrow.ArrowInvalid:
        return None
    values = np.column_stack([table[keys[i]].to_numpy() for i in layout.numeric])
    columns = {
        layout.names[int(key)]: table[key].to_numpy() for key in keys if int(key) not in layout.numeric
    }
    return (values, columns) if np.isfinite(values).all() else None


# ---------------------------------------------------------------- parquet


def _parquet(path: str, columns: Sequence[str] | None, carry: bool) -> Table:
    try:
        arrow = importlib.import_module("pyarrow")
        parquet = importlib.import_module("pyarrow.parquet")
    except ImportError:
        raise ImportError('reading .parquet needs pyarrow: pip install "wolfhound[data]"') from None
    try:
        file = parquet.ParquetFile(path)
    except arrow.ArrowInvalid as error:
        raise ValueError(f"`path` must be a .parquet file. Got {path}: {error}.") from None
    with file:
        schema = file.schema_arrow
        chosen = list(_chosen(columns, schema.names)) if columns else numeric_columns(arrow.types, schema)
        require(bool(chosen) and file.metadata.num_rows > 0, "path", "a file with numeric columns", path)
        blocks = _batches(path, file, chosen)
        first = next(_batches(path, file, chosen, rows=1))
        shape = (file.metadata.num_rows, first.shape[1])
        large = shape[0] * shape[1] * first.itemsize > IN_MEMORY
        atoms = _spooled(blocks, shape, first.dtype) if large else ArrayAtoms(np.concatenate(list(blocks)))
        rest = [name for name in schema.names if name not in chosen] if carry else []
        table = file.read(columns=rest) if rest else {}
        carried = {name: table[name].to_numpy() for name in rest}
    return Table(atoms=atoms, names=tuple(chosen), columns=carried)


def numeric_columns(types: Any, schema: Any) -> list[str]:
    """Return the one column of lists, else the columns of numbers."""

    def plain(kind: Any) -> bool:
        return bool(types.is_integer(kind) or types.is_floating(kind))

    def listed(kind: Any) -> bool:
        is_list = types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)
        return bool(is_list and plain(kind.value_type))

    lists = [column.name for column in schema if listed(column.type)]
    require(len(lists) <= 1, "columns", f"given to choose among {', '.join(lists)}", "None")
    return lists or [column.name for column in schema if plain(column.type)]


def _batches(path: str, file: Any, chosen: list[str], rows: int = 65_536) -> Iterator[Matrix]:
    """Yield the chosen columns side by side, a block of rows at a time."""
    lengths = importlib.import_module("pyarrow.compute").list_value_length
    first, widths = 0, dict.fromkeys(chosen, 0)
    for batch in file.iter_batches(rows, columns=chosen):
        parts = []
        for name in chosen:
            column = flat = batch.column(name)
            where = f"column {name!r} of {path}, rows {first} to {first + len(batch) - 1},"
            require(column.null_count == 0, where, "free of nulls", "null")
            if column.type.num_fields:  # lists
                sizes = lengths(column).to_numpy(zero_copy_only=False)
                widths[name] = widths[name] or int(sizes[0])
                equal = widths[name] > 0 and bool((sizes == widths[name]).all())
                require(equal, where, "lists of one length", f"lengths {sizes.min()} to {sizes.max()}")
                flat = column.flatten()
            require(flat.null_count == 0, where, "free of nulls", "null")
            values = flat.to_numpy(zero_copy_only=False)
            parts.append(values.reshape(len(batch), -1).astype(widened(values.dtype, where), copy=False))
        yield np.ascontiguousarray(np.concatenate(parts, axis=1))
        first += len(batch)


def _spooled(blocks: Iterator[Matrix], shape: tuple[int, int], dtype: np.dtype[Any]) -> FileAtoms:
    descriptor, name = tempfile.mkstemp(suffix=".npy", dir=_spool_folder())
    header = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": shape}
    with open(descriptor, "wb") as file:
        np.lib.format.write_array_header_1_0(file, header)
        for block in blocks:
            file.write(block.tobytes())
    return FileAtoms(name)


@functools.cache
def _spool_folder() -> str:
    folder = tempfile.mkdtemp(prefix="wolfhound-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


_READERS: dict[str, Callable[[str, Sequence[str] | None, bool], Table]] = {
    ".npy": _npy,
    ".npz": _npz,
    ".csv": _csv,
    ".parquet": _parquet,
}
