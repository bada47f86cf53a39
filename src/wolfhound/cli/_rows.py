"""Files of rows: which columns count, and every column of the rows that were chosen.

A table may be far larger than memory: columns that do not count are not read
before rows are chosen, and then a batch at a time.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import glob
import io
import itertools
import json
import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from wolfhound import _csv, _formats, readers
from wolfhound.cli import _output as output
from wolfhound.core import Atoms, Ids, Vector

Columns: TypeAlias = Mapping[str, NDArray[Any]]

ROW = "row"
"""What the rows of a file without named columns are called in the output."""

_BATCH = 65_536


class Source(Protocol):
    """One file, or several with the same columns."""

    @property
    def names(self) -> tuple[str, ...]:
        """All columns, in order; empty if the format has no names."""

    @property
    def numbers(self) -> tuple[str, ...]:
        """The columns that count if none are named."""

    def atoms(self, columns: Sequence[str]) -> Atoms:
        """Rows of these columns."""

    def column(self, name: str) -> NDArray[Any]:
        """One column, of numbers or texts."""

    def rows(self, ids: Ids) -> Columns:
        """Every column of these rows, in this order."""


def open_rows(path: str) -> Source:
    """Open a file, or all files that a glob matches, as `readers.read_atoms` would.

    Parameters
    ----------
    path
        A .npy, .npz, .csv or .parquet file, or a glob of these.
    """
    kinds: dict[str, Callable[[str], Source]] = {".csv": CsvSource, ".parquet": ParquetSource}
    return kinds.get(Path(path).suffix.lower(), BareSource)(path)


def _files(path: str) -> tuple[str, ...]:
    """Return what a path stands for; `readers` joins them in the same order."""
    single = os.path.exists(path) or not glob.has_magic(path)
    found = (path,) if single else tuple(sorted(glob.glob(path, recursive=True)))
    if not found or not all(map(os.path.isfile, found)):
        raise FileNotFoundError(f"`path` must name a file. Got {path!r}, which is not there.")
    return found


def counting(source: Source, columns: Sequence[str] | None, without: Collection[str] = ()) -> tuple[str, ...]:
    """Columns that count: those named, else all of numbers but some.

    Parameters
    ----------
    source
        The file.
    columns
        Names that the user gave.
    without
        Columns that count only if they are named.
    """
    if columns is None:
        rest = tuple(name for name in source.numbers if name not in without)
        if source.names and not rest:
            raise ValueError(f"ROWS must have columns of numbers. Got only {', '.join(source.names)}.")
        return rest
    if not source.names:
        raise ValueError("`--columns` must be left out: these files have no named columns.")
    for name in columns:
        if name not in source.names:
            raise ValueError(f"`--columns` must be among {', '.join(source.names)}. Got {name}.")
    if len(set(columns)) != len(columns):
        raise ValueError(f"`--columns` must be distinct. Got {', '.join(columns)}.")
    return tuple(columns)


# ---------------------------------------------------------------- one class per kind of file


class BareSource:
    """.npy and .npz: rows without names."""

    names: tuple[str, ...] = ()
    numbers: tuple[str, ...] = ()

    def __init__(self, path: str) -> None:
        self._atoms = readers.read_atoms(path)

    def atoms(self, columns: Sequence[str]) -> Atoms:
        """All columns: there are no names to choose by."""
        return self._atoms

    def column(self, name: str) -> NDArray[Any]:
        """Refuse: there are no names."""
        raise ValueError(f"{name} must be a column of a .csv or .parquet file.")

    def rows(self, ids: Ids) -> Columns:
        """Return the rows as one column of vectors."""
        return {ROW: self._atoms.take(ids)}


class CsvSource:
    """.csv: cells are carried as they stand in the file."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._layouts = [(file, _csv.layout(file, None)) for file in _files(path)]
        self._layout = self._layouts[0][1]
        for file, layout in self._layouts:
            if layout.names != self._layout.names:  # cells are found by their place
                raise ValueError(f"ROWS must be files with the same columns in the same order. Got {file}.")

    @property
    def names(self) -> tuple[str, ...]:
        """All columns, in order."""
        return self._layout.names

    @property
    def numbers(self) -> tuple[str, ...]:
        """Columns of numbers, as the first rows have it."""
        return tuple(self._layout.names[i] for i in self._layout.numeric)

    def atoms(self, columns: Sequence[str]) -> Atoms:
        """Rows of these columns, in memory."""
        return readers.read_atoms(self._path, columns=columns)

    def column(self, name: str) -> NDArray[Any]:
        """Cells of one column, as text."""
        at = self.names.index(name)
        return np.array([cells[at] for cells in self._cells()])

    def rows(self, ids: Ids) -> Columns:
        """Cells of these rows, as text."""
        wanted = set(ids.tolist())
        upto = itertools.islice(self._cells(), int(ids.max()) + 1)
        found = {i: cells for i, cells in enumerate(upto) if i in wanted}
        chosen = [found[i] for i in ids.tolist()]
        return {name: np.array([row[i] for row in chosen]) for i, name in enumerate(self.names)}

    def typed(self, columns: Columns) -> Columns:
        """Turn the text of columns of numbers into numbers."""
        return {n: _numbers(texts) if n in self.numbers else texts for n, texts in columns.items()}

    def _cells(self) -> Iterator[list[str]]:
        for file, layout in self._layouts:
            yield from (cells for line, cells in _csv.rows(file) if line > layout.header)


def _numbers(texts: NDArray[Any]) -> NDArray[Any]:
    for dtype in (np.int64, np.float64):
        try:
            return texts.astype(dtype)
        except (ValueError, OverflowError):
            continue
    return texts


class ParquetSource:
    """.parquet: types are kept; no column is read before it is needed."""

    def __init__(self, path: str) -> None:
        self._arrow, self._parquet = output.import_pyarrow("ROWS")
        self._path, self._files = path, _files(path)
        with self._open(self._files[0]) as file:
            self._schema = file.schema_arrow

    @property
    def names(self) -> tuple[str, ...]:
        """All columns, in order."""
        return tuple(self._schema.names)

    @property
    def numbers(self) -> tuple[str, ...]:
        """The one column of lists, else the columns of numbers; never a data frame's index."""
        found = _formats.numeric_columns(self._arrow.types, self._schema)
        stored = (self._schema.metadata or {}).get(b"pandas")
        index = json.loads(stored)["index_columns"] if stored else []
        return tuple(name for name in found if name not in index)

    def atoms(self, columns: Sequence[str]) -> Atoms:
        """Rows of these columns, spooled to disk if they are many."""
        return readers.read_atoms(self._path, columns=columns)

    def column(self, name: str) -> NDArray[Any]:
        """One column; only it is read, and no text of it more than once."""
        parts = [self._parquet.read_table(file, columns=[name]) for file in self._files]
        joined = self._arrow.concat_tables(parts, promote_options="permissive")[name]
        if joined.null_count:
            raise ValueError(f"Column {name} must have no nulls. Got {joined.null_count:,} of them.")
        if self._arrow.types.is_nested(joined.type):
            raise ValueError(f"Column {name} must hold numbers or texts. Got {joined.type}.")
        encoded = joined.combine_chunks()
        if not self._arrow.types.is_dictionary(encoded.type):
            encoded = encoded.dictionary_encode()
        values = encoded.dictionary.to_numpy(zero_copy_only=False)
        values = values.astype(np.str_) if values.dtype.kind in "OMm" else values
        found: NDArray[Any] = values[encoded.indices.to_numpy()]
        return found

    def rows(self, ids: Ids) -> Columns:
        """Every column of these rows, of plain types."""
        table = self.table(ids)
        return {name: _plain(table[name].to_numpy()) for name in table.column_names}

    def table(self, ids: Ids) -> Any:
        """Every column of these rows as a table of pyarrow, with its own types."""
        order = np.argsort(ids)
        wanted = ids[order]
        parts = [
            self._arrow.Table.from_batches([batch]).take(self._arrow.array(wanted[low:high] - first))
            for first, batch in self._batches(wanted)
            for low, high in [np.searchsorted(wanted, (first, first + len(batch)))]
        ]
        table = self._arrow.concat_tables(parts, promote_options="permissive")
        return table.take(self._arrow.array(np.argsort(order)))

    def _batches(self, wanted: Ids) -> Iterator[tuple[int, Any]]:
        """Yield (first id, batch) of the row groups that hold a wanted row."""
        first = 0
        for path in self._files:
            with self._open(path) as file:
                for group in range(file.metadata.num_row_groups):
                    last = first + file.metadata.row_group(group).num_rows
                    low, high = np.searchsorted(wanted, (first, last))
                    if low < high:
                        for batch in file.iter_batches(_BATCH, row_groups=[group]):
                            yield first, batch
                            first += len(batch)
                    first = last

    def _open(self, path: str) -> Any:
        try:
            return self._parquet.ParquetFile(path)
        except self._arrow.ArrowInvalid as error:
            raise ValueError(f"`path` must be a .parquet file. Got {path}: {error}.") from None


def _plain(values: NDArray[Any]) -> NDArray[Any]:
    """Numbers, text, or vectors of one length: what every format can hold."""
    if values.dtype.kind in "Mm":
        return values.astype(np.str_)
    if values.dtype.kind != "O":
        return values
    if all(isinstance(value, np.ndarray) and value.dtype.kind in "fiu" for value in values):
        if len({len(value) for value in values}) == 1:
            return np.stack(list(values))
    simple = (str, bool, int, float, type(None))
    plain = [value if isinstance(value, simple) else str(value) for value in values]
    out = np.empty(len(plain), object)
    out[:] = plain
    return out


# ---------------------------------------------------------------- writing


def write_rows(path: Path, source: Source, ids: Ids, weights: Vector) -> None:
    """Write every column of these rows, then their ids and weights, all or nothing.

    Parameters
    ----------
    path
        Its ending chooses the format: .csv, .json, .npy or .parquet.
    source
        Where the rows are.
    ids, weights : (m,)
        The rows, in order.
    """
    taken = source.names or (ROW,)
    added = {_free("id", taken): ids, _free("weight", taken): weights}
    ending = path.suffix.lower()
    if ending == ".parquet":
        output.write_bytes(path, _parquet_bytes(source, ids, added))
        return
    columns = source.rows(ids)
    if ending == ".csv":
        output.write_table(path, {**_flat(columns), **added})
        return
    columns = source.typed(columns) if isinstance(source, CsvSource) else columns
    if ending == ".json":
        output.write_table(path, {**columns, **added})
    else:
        output.write_bytes(path, _npy_bytes({**columns, **added}))


def _free(name: str, taken: Collection[str]) -> str:
    while name in taken:
        name = f"herd_{name}"
    return name


def _flat(columns: Columns) -> Columns:
    """Return columns of vectors as a column per entry, named as readers name them."""
    flat: dict[str, NDArray[Any]] = {}
    for name, values in columns.items():
        if values.ndim == 1:
            flat[name] = values
            continue
        prefix = "column" if name == ROW else name
        flat |= {f"{prefix} {i + 1}": values[:, i] for i in range(values.shape[1])}
    return flat


def _npy_bytes(columns: Columns) -> bytes:
    """One structured array; a column of vectors is a field of them."""
    fixed = {
        name: np.array(["" if value is None else str(value) for value in values])
        if values.dtype.kind == "O"
        else values
        for name, values in columns.items()
    }
    layout = np.dtype([(name, values.dtype, values.shape[1:]) for name, values in fixed.items()])
    table = np.empty(len(next(iter(fixed.values()))), layout)
    for name, values in fixed.items():
        table[name] = values
    buffer = io.BytesIO()
    np.save(buffer, table, allow_pickle=False)
    return buffer.getvalue()


def _parquet_bytes(source: Source, ids: Ids, added: Columns) -> bytes:
    arrow, parquet = output.import_pyarrow("--out")
    if isinstance(source, ParquetSource):
        table = source.table(ids)
    else:
        columns = source.rows(ids)
        columns = source.typed(columns) if isinstance(source, CsvSource) else columns
        table = arrow.table({name: _arrow(arrow, values) for name, values in columns.items()})
    for name, values in added.items():
        table = table.append_column(name, arrow.array(values))
    buffer = io.BytesIO()
    parquet.write_table(table, buffer)
    return buffer.getvalue()


def _arrow(arrow: Any, values: NDArray[Any]) -> Any:
    if values.ndim == 1:
        return arrow.array(values)
    return arrow.FixedSizeListArray.from_arrays(arrow.array(values.ravel()), values.shape[1])
