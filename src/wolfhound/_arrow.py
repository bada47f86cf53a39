"""Columns of Arrow: tables in memory, and the batches that .parquet files are read by."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wolfhound._columns import BATCH, LABELS, ColumnCells, Kind, clean_numbers, code_truths, name_columns
from wolfhound._exact import require_same
from wolfhound.core import Ids
from wolfhound.validate import require


def import_pyarrow() -> Any:
    """Return pyarrow, which is an extra."""
    try:
        return importlib.import_module("pyarrow")
    except ImportError:
        raise ImportError('Arrow tables need pyarrow: pip install "wolfhound[data]"') from None


def unwrap(values: Any) -> Any:
    """Return a column of a library as an array of numpy; anything else as it is."""
    if type(values).__module__ == "pyarrow.lib" and not hasattr(values, "chunks"):
        return values.to_numpy(zero_copy_only=False)
    return values.to_numpy() if hasattr(values, "to_numpy") else values


class ArrowSource:
    """A table of pyarrow, or anything that gives a stream of Arrow."""

    resident = True

    def __init__(self, value: Any) -> None:
        self._arrow = import_pyarrow()
        self._table = value if isinstance(value, self._arrow.Table) else self._arrow.table(value)
        self.names = name_columns(self._table.column_names)

    def __reduce__(self) -> tuple[type[ArrowSource], tuple[Any]]:
        """Pickle the table."""
        return ArrowSource, (self._table,)

    @property
    def size(self) -> int:
        """How many rows."""
        return int(self._table.num_rows)

    def find_kinds(self) -> dict[str, Kind]:
        """By type."""
        return find_kinds(self._table.schema)

    def batches(self, names: Sequence[str]) -> Iterator[dict[str, ColumnCells]]:
        """Yield batches of the table."""
        kinds = self.find_kinds()
        for batch in self._table.select(list(names)).to_batches(max_chunksize=BATCH):
            if len(batch):
                yield {name: read_cells(batch.column(name), kinds[name], name) for name in names}

    def take(self, ids: Ids, added: Mapping[str, NDArray[Any]]) -> Any:
        """Return a table of rows."""
        out = self._table.take(self._arrow.array(ids))
        for name, values in added.items():
            out = out.append_column(name, [values])
        return out


def find_kinds(schema: Any) -> dict[str, Kind]:
    """Return what each column of a schema holds."""
    return {field.name: find_kind(field.type) for field in schema}


def find_kind(kind: Any) -> Kind:
    """Return what a type of Arrow is."""
    types = import_pyarrow().types
    if types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind):
        return Kind.NUMBER
    if types.is_boolean(kind):
        return Kind.TRUTH
    if types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind):
        return Kind.TEXT
    if types.is_dictionary(kind):
        return Kind.TEXT
    if types.is_temporal(kind):
        return Kind.TIME
    lists = types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)
    if lists and (types.is_integer(kind.value_type) or types.is_floating(kind.value_type)):
        return Kind.VECTOR
    return Kind.OTHER


def find_dtype(kind: Any, holds: Kind) -> list[np.dtype[Any]]:
    """Return the type that numbers or vectors of an Arrow type are read as; none for other columns."""
    if holds not in (Kind.NUMBER, Kind.VECTOR):
        return []
    plain = kind.value_type if holds is Kind.VECTOR else kind
    decimal = import_pyarrow().types.is_decimal(plain)
    return [np.dtype(np.float64 if decimal else plain.to_pandas_dtype())]


def read_cells(column: Any, kind: Kind, name: str) -> ColumnCells:
    """Read one array, not chunked, of a column of this kind."""
    missing = column.is_null().to_numpy(zero_copy_only=False)
    arrow = import_pyarrow()
    if arrow.types.is_null(column.type):
        return ColumnCells(
            np.zeros((len(column), 0) if kind is Kind.VECTOR else len(column), np.int8), missing
        )
    if kind is Kind.NUMBER:
        plain = column.cast(arrow.float64()) if arrow.types.is_decimal(column.type) else column
        found = plain.fill_null(0).to_numpy(zero_copy_only=False)
        if plain is not column:
            require_same(column.to_pylist, found, name)
        return clean_numbers(found, missing)
    if kind is Kind.TRUTH:
        return code_truths(column.fill_null(False).to_numpy(zero_copy_only=False), missing)
    if kind is Kind.VECTOR:
        return _read_vectors(column, missing, name)
    require(not arrow.types.is_nested(column.type), "by", LABELS, f"{column.type} in {name}")
    coded = column if hasattr(column, "dictionary") else column.dictionary_encode()
    levels = tuple(map(str, coded.dictionary.to_pylist()))
    # A null may be a place of the dictionary, too.
    gone = np.array([value is None for value in coded.dictionary.to_pylist()] or [False], np.bool_)
    codes = coded.indices.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    return ColumnCells(codes, missing | gone[codes], levels)


def read_chunks(values: Any, kind: Kind, name: str) -> ColumnCells:
    """Read a column in whatever gives an array of Arrow, in chunks or not."""
    arrow = import_pyarrow()
    column = arrow.array(values)
    whole = column.combine_chunks() if isinstance(column, arrow.ChunkedArray) else column
    return read_cells(whole, kind, name)


def _read_vectors(column: Any, missing: NDArray[np.bool_], name: str) -> ColumnCells:
    lengths = importlib.import_module("pyarrow.compute").list_value_length(column)
    sizes = lengths.fill_null(-1).to_numpy(zero_copy_only=False)[~missing]
    if not len(sizes):
        return ColumnCells(np.zeros((len(column), 0), np.int8), missing)
    equal = sizes[0] > 0 and bool((sizes == sizes[0]).all())
    got = f"lengths {sizes.min(initial=0)} to {sizes.max(initial=0)}"
    require(equal, name, "a column of lists of one length", got)
    flat = column.flatten()  # without the lists that are null
    holes = flat.is_null().to_numpy(zero_copy_only=False).reshape(len(sizes), -1).any(axis=1)
    values = flat.fill_null(0).to_numpy(zero_copy_only=False).reshape(len(sizes), -1)
    out = np.zeros((len(column), values.shape[1]), values.dtype)
    out[~missing] = values
    gone = missing.copy()
    gone[~missing] |= holes
    return clean_numbers(out, gone)
