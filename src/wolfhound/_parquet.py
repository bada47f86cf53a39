"""Tables in .parquet files: types are kept, and no column is read before it is needed."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import contextlib
import importlib
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wolfhound import _files
from wolfhound._arrays import ArrayAtoms
from wolfhound._arrow import find_dtype, find_kind, find_kinds, read_cells
from wolfhound._columns import ColumnCells, Kind
from wolfhound._csv import check_columns
from wolfhound._exact import require_exact
from wolfhound._files import widen
from wolfhound._spool import spool
from wolfhound.core import Atoms, Ids, Matrix
from wolfhound.validate import require

_BATCH = 65_536  # rows


def import_arrow() -> tuple[Any, Any]:
    """Return pyarrow and pyarrow.parquet, which are an extra."""
    try:
        return importlib.import_module("pyarrow"), importlib.import_module("pyarrow.parquet")
    except ImportError:
        raise ImportError('.parquet needs pyarrow: pip install "wolfhound[data]"') from None


class ParquetTable:
    """One or several .parquet files; those after the first must have the columns that are read."""

    def __init__(self, files: Sequence[str]) -> None:
        self._arrow, self._parquet = import_arrow()
        self._files = files
        with self._open(files[0]) as file:
            self._schema = file.schema_arrow

    def __reduce__(self) -> tuple[type[ParquetTable], tuple[list[str]]]:
        """Pickle the paths."""
        return ParquetTable, (list(self._files),)

    @property
    def names(self) -> tuple[str, ...]:
        """All columns, in order."""
        return tuple(self._schema.names)

    @property
    def numbers(self) -> tuple[str, ...]:
        """The one column of lists, else the columns of numbers; never a data frame's index."""
        return find_numbers(self._arrow.types, self._schema)

    @property
    def texts(self) -> tuple[str, ...]:
        """Columns of text, or of categories."""
        types = self._arrow.types
        kinds = (types.is_string, types.is_large_string, types.is_dictionary)
        return tuple(field.name for field in self._schema if any(kind(field.type) for kind in kinds))

    def parts(self, columns: Sequence[str] | None, *, load: bool | None = None) -> list[Atoms]:
        """Rows of these columns, of each file; spooled to disk if they are many."""
        fits = self.weigh(columns) <= _files.IN_MEMORY if load is None else load
        return [self._read_atoms(path, columns, load=fits) for path in self._files]

    resident = False

    @property
    def size(self) -> int:
        """How many rows all files have."""
        out = 0
        for path in self._files:
            with self._open(path) as file:
                out += file.metadata.num_rows
        return out

    def find_kinds(self) -> dict[str, Kind]:
        """What each column holds; a data frame's index is none."""
        index = _find_index(self._schema)
        return {name: kind for name, kind in self._find_kinds().items() if name not in index}

    def _find_kinds(self) -> dict[str, Kind]:
        """As the first file has it; of columns without any value there, the first that has some."""
        out = find_kinds(self._schema)
        empty = {field.name for field in self._schema if self._arrow.types.is_null(field.type)}
        for path in self._files[1:] if empty else ():
            with self._open(path) as file:
                schema = file.schema_arrow
            some = {field.name for field in schema if not self._arrow.types.is_null(field.type)}
            out |= {name: kind for name, kind in find_kinds(schema).items() if name in empty & some}
            empty -= some
        return out

    def batches(self, names: Sequence[str]) -> Iterator[dict[str, ColumnCells]]:
        """Yield these columns of some rows at a time, of all files."""
        kinds, dtypes = self._unite(names)
        for path in self._files:
            with self._open(path) as file, _name_file(self._arrow, path):
                for batch in file.iter_batches(_BATCH, columns=list(names)):
                    cells = {name: read_cells(batch.column(name), kinds[name], name) for name in names}
                    yield {name: _widen(each, dtypes.get(name), name) for name, each in cells.items()}

    def _unite(self, names: Sequence[str]) -> tuple[dict[str, Kind], dict[str, np.dtype[Any]]]:
        """Return the kinds of columns, one for all files, and the widest types of numbers."""
        kinds = self._find_kinds()
        types: dict[str, list[np.dtype[Any]]] = {name: [] for name in names}
        for path in self._files:
            with self._open(path) as file:
                schema = file.schema_arrow
            check_columns(names, schema.names)
            for field in schema:
                if field.name in types and not self._arrow.types.is_null(field.type):
                    kind, wanted = find_kinds([field])[field.name], kinds[field.name]
                    rule = f"files whose {field.name} holds {wanted.value}, as {self._files[0]}"
                    require(kind is wanted, "path", rule, f"{kind.value} in {path}")
                    types[field.name] += find_dtype(field.type, kind)
        return kinds, {name: np.result_type(*found) for name, found in types.items() if found}

    def take(self, ids: Ids, added: Mapping[str, NDArray[Any]]) -> Any:
        """Return rows, with columns added, as a frame of pandas."""
        return self._take(ids).to_pandas().assign(**added)

    def weigh(self, columns: Sequence[str] | None) -> int:
        """About the bytes of these columns, if they were loaded."""
        return sum(self._weigh(path, columns) for path in self._files)

    def _weigh(self, path: str, columns: Sequence[str] | None) -> int:
        with self._open(path) as file, _name_file(self._arrow, path):
            n, chosen = file.metadata.num_rows, tuple(columns or self.numbers)
            if not chosen or not n or not set(chosen) <= set(file.schema_arrow.names):
                return 0  # refused when it is read
            first = next(_read_blocks(path, file, chosen, rows=1))
            return int(n * first.nbytes)

    def _read_atoms(self, path: str, columns: Sequence[str] | None, *, load: bool) -> Atoms:
        with self._open(path) as file, _name_file(self._arrow, path):
            schema, n = file.schema_arrow, file.metadata.num_rows
            check_columns(columns or (), schema.names)
            chosen = tuple(columns or find_numbers(self._arrow.types, schema))
            same = bool(columns) or chosen == self.numbers
            require(same, "path", f"files with the columns of {self._files[0]}", f"other columns in {path}")
            require(bool(chosen) and n > 0, "path", "a file with numeric columns", path)
            first = next(_read_blocks(path, file, chosen, rows=1))
            shape = (n, first.shape[1])
            blocks = _read_blocks(path, file, chosen)
            return ArrayAtoms(np.concatenate(list(blocks))) if load else spool(blocks, shape, first.dtype)

    def columns(self, names: Sequence[str], missing: str | None = None) -> dict[str, NDArray[Any]]:
        """Some columns; only they are read, and no text of them more than once.

        `missing` is what stands for a null in a column of text; None: refused.
        """
        parts = [self._parquet.read_table(file, columns=list(names)) for file in self._files]
        joined = self._arrow.concat_tables(parts, promote_options="permissive")
        return {name: self._read_column(joined[name], name, missing) for name in names}

    def _read_column(self, joined: Any, name: str, missing: str | None) -> NDArray[Any]:
        if missing is not None:
            joined = joined.cast(self._arrow.string()).fill_null(missing)
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

    def rows(self, ids: Ids, ending: str) -> Any:
        """Every column of these rows: a table of pyarrow for .parquet, else arrays of plain types."""
        table = self._take(ids)
        if ending == ".parquet":
            return table
        types = self._arrow.types
        return {name: _simplify(types, table[name], ending) for name in table.column_names}

    def _take(self, ids: Ids) -> Any:
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
        except (self._arrow.ArrowException, OSError) as error:
            raise ValueError(f"`path` must be a .parquet file. Got {path}: {error}.") from None


@contextlib.contextmanager
def _name_file(arrow: Any, path: str) -> Iterator[None]:
    """Say which file it is that arrow cannot read on."""
    try:
        yield
    except (arrow.ArrowException, OSError, MemoryError) as error:
        if isinstance(error, OSError) and error.errno is not None:  # of the disk, not of the content
            raise
        text = " ".join(str(error).split())
        raise ValueError(f"`path` must be a .parquet file that can be read. Got {path}: {text}.") from None


def find_numbers(types: Any, schema: Any) -> tuple[str, ...]:
    """Return the one column of lists, else the columns of numbers; never a data frame's index."""
    index = _find_index(schema)

    def is_number(kind: Any) -> bool:
        return bool(types.is_integer(kind) or types.is_floating(kind))

    def holds_lists(kind: Any) -> bool:
        is_list = types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)
        return bool(is_list and is_number(kind.value_type))

    lists = [column.name for column in schema if holds_lists(column.type)]
    require(len(lists) <= 1, "columns", f"given to choose among {', '.join(lists)}", "None")
    found = lists or [column.name for column in schema if is_number(column.type)]
    return tuple(name for name in found if name not in index)


def _find_index(schema: Any) -> set[str]:
    """Return the columns that a data frame was indexed by."""
    stored = (schema.metadata or {}).get(b"pandas")
    named = json.loads(stored)["index_columns"] if stored else []
    return {each for each in named if isinstance(each, str)}  # a range is told by its numbers


def _read_blocks(path: str, file: Any, chosen: Sequence[str], rows: int = _BATCH) -> Iterator[Matrix]:
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
            values = flat.to_numpy(zero_copy_only=False).reshape(len(batch), -1)
            require_exact(values, f"column {name!r} of {path}", first)
            parts.append(values.astype(widen(values.dtype, where), copy=False))
        yield np.ascontiguousarray(np.concatenate(parts, axis=1))
        first += len(batch)


def _widen(cells: ColumnCells, dtype: np.dtype[Any] | None, name: str) -> ColumnCells:
    if dtype is None:
        return cells
    if dtype.kind == "f":
        require_exact(cells.values, name)
    return cells._replace(values=cells.values.astype(dtype, copy=False))


def _simplify(types: Any, column: Any, ending: str) -> NDArray[Any]:
    """Numbers, text, or vectors of one length: what every format can hold; None for a null."""
    values: NDArray[Any] = column.to_numpy()
    if values.dtype.kind in "Mm":
        texts = values.astype(np.str_).astype(object if column.null_count else np.str_)
        texts[np.isnat(values)] = None
        return texts
    if values.dtype.kind != "O" and not column.null_count:
        return values
    if types.is_nested(column.type):
        vectors = _stack(column)
        return (
            _as_objects([_as_json(each, ending) for each in column.to_pylist()])
            if vectors is None
            else vectors
        )
    simple = (str, bool, int, float, type(None))
    return _as_objects([each if isinstance(each, simple) else str(each) for each in column.to_pylist()])


def _as_objects(values: Sequence[Any]) -> NDArray[Any]:
    out = np.empty(len(values), object)
    out[:] = values
    return out


def _stack(column: Any) -> NDArray[Any] | None:
    """(r, w) of lists of numbers of one length, all there; None for any other column."""
    if find_kind(column.type) is not Kind.VECTOR or column.null_count:
        return None
    values = list(column.to_numpy())
    whole = len({len(value) for value in values}) == 1 and not any(
        chunk.flatten().null_count for chunk in column.chunks
    )
    return np.stack(values) if whole else None


def _as_json(value: Any, ending: str) -> Any:
    """Return a list or a struct as text of JSON; as it is, in plain types, where JSON is written."""
    if value is None:
        return None
    text = json.dumps(value, default=str, ensure_ascii=False)
    return json.loads(text) if ending == ".json" else text
