"""Formats of files: .npy, .npz, .csv, .parquet, and globs of these.

Private: `wolfhound.readers` and `as_atoms` join what is found here. Knows formats, not what
the rows mean. Only .parquet needs pyarrow; .csv uses it when it is there, for speed.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import atexit
import contextlib
import functools
import glob
import importlib
import math
import os
import re
import shutil
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from wolfhound import _csv as _csv_files
from wolfhound._arrays import ArrayAtoms
from wolfhound._files import NOT_NPY, FileAtoms, Header, check_holds, npy_header, widened
from wolfhound.core import Atoms, Matrix
from wolfhound.validate import require

PathLike: TypeAlias = str | os.PathLike[str]
Columns: TypeAlias = Mapping[str, NDArray[Any]]

IN_MEMORY = 64 << 20
"""Bytes of a .npy file, or of the rows of a .parquet file, that are still loaded."""


_PACKED, _HARMLESS = 200, 1 << 30
"""An array that is packed more times than this, and has more bytes, may be a trap."""

_CHUNK = 1 << 20


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


# ---------------------------------------------------------------- finding files


def read_files(path: PathLike, columns: Sequence[str] | None = None, *, carry: bool = False) -> list[Table]:
    """Return a table per file that a path or glob names, in the order of their names.

    Parameters
    ----------
    path
        A file, ``x.npz:key``, or a glob; all files must have the same columns.
    columns
        Names of the columns that are the atoms (.csv and .parquet).
    carry
        Whether to read the other columns of .parquet files too.
    """
    text = os.fspath(path)
    file = split_key(text)[0]
    if os.path.exists(file) or not glob.has_magic(file):
        return [_read_file(text, columns, carry)]
    found = sorted(glob.glob(file, recursive=True))
    require(bool(found), "path", "a glob that matches a file", text)
    tables = [_read_file(match + text[len(file) :], columns, carry) for match in found]
    first = tables[0]
    for match, table in zip(found, tables, strict=True):
        same = table.names == first.names and table.columns.keys() == first.columns.keys()
        require(same, "path", f"files with the columns of {found[0]}", f"other columns in {match}")
    return tables


def _read_file(text: str, columns: Sequence[str] | None, carry: bool) -> Table:
    file = split_key(text)[0]
    ending = Path(file).suffix.lower()
    known = ", ".join(_READERS)
    require(ending in _READERS, "path", f"a file that ends in one of {known}", repr(text))
    named = ending in (".csv", ".parquet")
    require(columns is None or named, "columns", f"None: {ending} files have no names", columns)
    check_exists(file)
    return _READERS[ending](text, columns, carry)


def split_key(text: str) -> tuple[str, str | None]:
    """Split ``file.npz:key`` into file and key."""
    found = re.fullmatch(r"(.*\.npz):(.+)", text, re.IGNORECASE)
    return (found[1], found[2]) if found else (text, None)


def check_exists(path: PathLike) -> Path:
    """Return the path of a file that is there and not empty."""
    file = Path(path)
    if not file.is_file():
        raise FileNotFoundError(f"`path` must name a file. Got {str(path)!r}, which is not there.")
    require(file.stat().st_size > 0, "path", "a file with content", f"{file}, which is empty")
    return file


# ---------------------------------------------------------------- npy, npz


def _npy(path: str, columns: Sequence[str] | None, carry: bool) -> Table:
    small = os.path.getsize(path) <= IN_MEMORY
    return Table(atoms=ArrayAtoms(load_npy(Path(path))) if small else FileAtoms(path))


def load_npy(path: Path) -> NDArray[Any]:
    """Return the array of a .npy file, of any shape."""
    with open(path, "rb") as file:
        with _told(".npy", path):
            header = npy_header(file)
        check_holds(header, os.fstat(file.fileno()).st_size, path)
        with _told(".npy", path):
            return header.values(file)


@contextlib.contextmanager
def _told(kind: str, path: object) -> Iterator[None]:
    """Say which file it is that cannot be read as of this kind."""
    try:
        yield
    except (*NOT_NPY, zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError) as error:
        text = f"{type(error).__name__} {error}".strip() if isinstance(error, MemoryError) else str(error)
        raise ValueError(f"`path` must be a {kind} file of numbers. Got {path}: {text}.") from None


def _npz(path: str, columns: Sequence[str] | None, carry: bool) -> Table:
    return Table(atoms=ArrayAtoms(load_npz(path, 2)))


def load_npz(text: str, ndim: int | None) -> NDArray[Any]:
    """Return the named array, else the only one (with `ndim` axes); others are not unpacked."""
    file, key = split_key(text)
    require(zipfile.is_zipfile(check_exists(file)), "path", "a .npz file", file)
    with _told(".npz", file), zipfile.ZipFile(file) as archive:
        members = {info.filename.removesuffix(".npy"): info for info in archive.infolist()}
        headers = {name: _member(archive, info) for name, info in members.items()}
    wanted = [
        name
        for name, header in headers.items()
        if (name == key if key else ndim in (None, len(header.shape)))
    ]
    require(len(wanted) == 1, "path", f"{file}:key, key one of {', '.join(headers)}", repr(text))
    return _unpacked(file, members[wanted[0]], headers[wanted[0]])


def _member(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> Header:
    with archive.open(info) as stream:
        return npy_header(cast(BinaryIO, stream))


def _unpacked(file: str, info: zipfile.ZipInfo, header: Header) -> NDArray[Any]:
    """Unpack an array; nothing is allocated that the archive cannot fill."""
    where = f"{info.filename} of {file}"
    check_holds(header, info.file_size, where)
    most = max(_PACKED * info.compress_size, _HARMLESS)
    rule = f"a file whose arrays are packed at most {_PACKED} times; unpack it to a .npy file"
    require(header.end <= most, "path", rule, f"{header.end:,} bytes in {where}")
    with _told(".npz", file), zipfile.ZipFile(file) as archive, archive.open(info) as stream:
        flat = np.empty(math.prod(header.shape), header.dtype)
        left = flat.view(np.uint8).data
        stream.read(header.offset)
        while len(left):
            data = stream.read(min(len(left), _CHUNK))
            if not data:
                raise EOFError(f"{where} ends early")
            left[: len(data)] = data
            left = left[len(data) :]
        stream.read(1)  # at the end its checksum is compared
        return flat.reshape(header.shape, order="F" if header.fortran else "C")


# ---------------------------------------------------------------- csv


def _csv(path: str, columns: Sequence[str] | None, carry: bool) -> Table:
    layout = _csv_files.layout(path, columns)
    values, texts = _csv_files.read(path, layout)
    names = tuple(layout.names[i] for i in layout.numeric)
    return Table(atoms=ArrayAtoms(values), names=names, columns=texts)


# ---------------------------------------------------------------- parquet


def _parquet(path: str, columns: Sequence[str] | None, carry: bool) -> Table:
    try:
        arrow = importlib.import_module("pyarrow")
        parquet = importlib.import_module("pyarrow.parquet")
    except ImportError:
        raise ImportError('reading .parquet needs pyarrow: pip install "wolfhound[data]"') from None
    try:
        file = parquet.ParquetFile(path)
    except (arrow.ArrowException, OSError) as error:
        raise ValueError(f"`path` must be a .parquet file. Got {path}: {error}.") from None
    with file, _parquet_errors(arrow, path):
        schema = file.schema_arrow
        named = list(_csv_files.chosen(columns or (), schema.names))
        chosen = named or numeric_columns(arrow.types, schema)
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


@contextlib.contextmanager
def _parquet_errors(arrow: Any, path: str) -> Iterator[None]:
    """Say which file it is that arrow cannot read on."""
    try:
        yield
    except (arrow.ArrowException, OSError, MemoryError) as error:
        if isinstance(error, OSError) and error.errno is not None:  # of the disk, not of the content
            raise
        text = " ".join(str(error).split())
        raise ValueError(f"`path` must be a .parquet file that can be read. Got {path}: {text}.") from None


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
