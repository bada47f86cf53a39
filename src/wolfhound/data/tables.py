"""The one table: columns of Arrow, some rows at a time; and tables in memory.

Knows how each library holds a column; must not know which columns count. Frames of pandas and polars,
tables of Arrow and structured arrays become columns of Arrow at the door, and rows go out as the kind of
table that came in. pyarrow is slow to load, so it is imported by what holds a table, and by nothing else.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import contextlib
import enum
import functools
import importlib
import math
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from wolfhound.core.contracts import Ids
from wolfhound.core.validate import (
    array,
    cast_objects,
    require,
    require_distinct,
    require_exact,
    require_same,
)
from wolfhound.data.files import import_extra

BATCH = 65_536
"""Rows that are read at a time."""


TRUTHS = ("False", "True")

BLANKS = ("", "NA", "N/A", "NaN", "nan", "null", "NULL", "<NA>", "#N/A")
"""Texts that stand for a missing value, in every format; pandas reads them so, too."""

LABELS = "columns of numbers, texts, truths or dates"


def import_arrow(part: str = "") -> Any:
    """Return pyarrow, or a module of it."""
    return importlib.import_module(f"pyarrow{part}")


class Kind(enum.Enum):
    """What the cells of a column are; the value says it in a report."""

    NUMBER = "numbers"
    TRUTH = "truths"
    TEXT = "texts"
    VECTOR = "vectors"
    TIME = "dates or times: make numbers of them to count"
    UNNAMED = "a column without a name"
    OTHER = "neither numbers nor texts"


def find_kind(kind: Any) -> Kind:
    """Return what a type of Arrow is."""
    types = import_arrow().types
    if types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind):
        return Kind.NUMBER
    if types.is_boolean(kind):
        return Kind.TRUTH
    texts = (types.is_string, types.is_large_string, types.is_string_view, types.is_dictionary)
    if any(each(kind) for each in texts):
        return Kind.TEXT
    if types.is_temporal(kind):
        return Kind.TIME
    lists = types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)
    if lists and (types.is_integer(kind.value_type) or types.is_floating(kind.value_type)):
        return Kind.VECTOR
    return Kind.OTHER


def find_dtype(kind: Any) -> np.dtype[Any]:
    """Return the type that numbers of an Arrow type, or vectors of them, are read as."""
    plain = kind.value_type if find_kind(kind) is Kind.VECTOR else kind
    return np.dtype(np.float64 if import_arrow().types.is_decimal(plain) else plain.to_pandas_dtype())


class Table:
    """A table whose columns can be read, all rows in order, some at a time; the base of all.

    Its kinds are those of columns that may count or be carried: not the index of a data frame. `resident`:
    it is in memory already.
    """

    names: tuple[str, ...]
    kinds: Any
    size: Any
    resident = False

    def batches(self, names: Sequence[str]) -> Iterator[Any]:
        """Yield these columns as record batches of Arrow."""
        raise NotImplementedError

    def find_dtypes(self, name: str) -> list[np.dtype[Any]]:
        """Return the types of a column of numbers or vectors, one for each file."""
        raise NotImplementedError

    def label_arrays(self, name: str) -> Iterator[Any]:
        """Yield a column as labels, which are never rounded."""
        return (batch.column(name) for batch in self.batches([name]))

    def text_arrays(self, name: str) -> Iterator[Any]:
        """Yield a column as it is written."""
        return self.label_arrays(name)

    def rows(self, ids: Ids, *, as_text: bool = False) -> Any:
        """Return every column of these rows as a table of Arrow, or of the cells of a .csv file."""
        raise NotImplementedError

    def take(self, ids: Ids, added: Mapping[str, NDArray[Any]]) -> Any:
        """Return rows, with columns added, as the kind of table that this is; of files, as pandas."""
        import_extra("pandas", "rows of a file as a frame", "data")
        return self.rows(ids).to_pandas().assign(**added)

    def check_exact(self, names: Sequence[str]) -> None:
        """Refuse columns of texts whose numbers were rounded as they were read."""

    @property
    def numbers(self) -> tuple[str, ...]:
        """The one column of vectors, else the columns of numbers: what a plain path means."""
        kinds = self.kinds
        vectors = [name for name, kind in kinds.items() if kind is Kind.VECTOR]
        require(len(vectors) <= 1, "columns", f"given to choose among {', '.join(vectors)}", "None")
        return tuple(vectors or [name for name, kind in kinds.items() if kind is Kind.NUMBER])

    @property
    def texts(self) -> tuple[str, ...]:
        """Columns of text, or of categories."""
        return tuple(name for name, kind in self.kinds.items() if kind is Kind.TEXT)


def check_columns(columns: Sequence[str], names: Sequence[str]) -> None:
    """Refuse names that no column has."""
    known = set(names)
    missing = [name for name in columns if name not in known]
    require(not missing, "columns", f"among {', '.join(names)}", ", ".join(missing))


def find_free(name: str, taken: Collection[str], prefix: str = "herd_") -> str:
    """Return a name for a column that is added: the prefix goes before it until it is free.

    Examples
    --------
    >>> find_free("id", ["id", "herd_id"]), find_free("weight", ["id"])
    ('herd_herd_id', 'weight')
    """
    while name in taken:
        name = f"{prefix}{name}"
    return name


def pick_rows(batches: Iterator[Any], ids: Ids) -> Any:
    """Return the rows of these ids as a table of Arrow; what lies behind the last of them is not read."""
    arrow = import_arrow()
    order = np.argsort(ids, kind="stable")
    wanted, parts, first = ids[order], [], 0
    for batch in batches:
        low, high = np.searchsorted(wanted, (first, first + len(batch)))
        if low < high:
            parts.append(arrow.Table.from_batches([batch]).take(arrow.array(wanted[low:high] - first)))
        if high == len(wanted):
            break
        first += len(batch)
    table = arrow.concat_tables(parts, promote_options="permissive")
    return table.take(arrow.array(np.argsort(order)))


# ---------------------------------------------------------------- cells


class ColumnCells(NamedTuple):
    """One column of some rows."""

    values: NDArray[Any]  # (r,) or (r, w), w = 0 if all are missing; of texts, truths: places in `levels`
    missing: NDArray[np.bool_]  # texts of `BLANKS` among them; what `values` has there means nothing
    levels: Any = ()  # distinct texts, in any order; some may be in no cell


def read_cells(column: Any, kind: Kind, name: str) -> ColumnCells:
    """Read one array of Arrow, not chunked, of a column of this kind."""
    arrow = import_arrow()
    missing = column.is_null().to_numpy(zero_copy_only=False)
    if arrow.types.is_null(column.type):
        shape = (len(column), 0) if kind is Kind.VECTOR else len(column)
        return ColumnCells(np.zeros(shape, np.int8), missing)
    if kind is Kind.NUMBER:
        plain = column.cast(arrow.float64()) if arrow.types.is_decimal(column.type) else column
        found = (plain.fill_null(0) if column.null_count else plain).to_numpy(zero_copy_only=False)
        if plain is not column:
            require_same(column.to_pylist, found, name)
        return _mark_nan(found, missing)
    if kind is Kind.TRUTH:
        places = column.fill_null(False).to_numpy(zero_copy_only=False).astype(np.int64)
        return ColumnCells(places, missing, TRUTHS)
    if kind is Kind.VECTOR:
        return _read_vectors(column, missing, name)
    require(not arrow.types.is_nested(column.type), "by", LABELS, f"{column.type} in {name}")
    if arrow.types.is_string_view(column.type):
        column = column.cast(arrow.large_string())
    coded = column if hasattr(column, "dictionary") else column.dictionary_encode()
    levels = coded.dictionary
    codes = coded.indices.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    if len(levels) and (arrow.types.is_string(levels.type) or arrow.types.is_large_string(levels.type)):
        compute = import_arrow(".compute")
        words = arrow.array(BLANKS, levels.type)
        blank = compute.is_in(compute.utf8_trim_whitespace(levels), value_set=words)
        blank = compute.or_(blank, levels.is_null())
        missing = missing | blank.to_numpy(zero_copy_only=False)[codes]
    return ColumnCells(codes, missing, levels)


def _mark_nan(values: NDArray[Any], missing: NDArray[np.bool_]) -> ColumnCells:
    """Return numbers or vectors; nan is missing too."""
    if values.dtype.kind == "f":
        nan = np.isnan(values)
        missing = missing | (nan if nan.ndim == 1 else nan.any(axis=1))
    return ColumnCells(values, missing)


def _read_vectors(column: Any, missing: NDArray[np.bool_], name: str) -> ColumnCells:
    lengths = import_arrow(".compute").list_value_length(column)
    sizes = lengths.fill_null(-1).to_numpy(zero_copy_only=False)[~missing]
    if not len(sizes):
        return ColumnCells(np.zeros((len(column), 0), np.int8), missing)
    equal = sizes[0] > 0 and bool((sizes == sizes[0]).all())
    got = f"lengths {sizes.min()} to {sizes.max()}"
    require(equal, name, "a column of vectors of one length", got)
    flat = column.flatten()  # without the lists that are null
    holes = flat.is_null().to_numpy(zero_copy_only=False).reshape(len(sizes), -1).any(axis=1)
    values = flat.fill_null(0).to_numpy(zero_copy_only=False).reshape(len(sizes), -1)
    out = np.zeros((len(column), values.shape[1]), values.dtype)
    out[~missing] = values
    gone = missing.copy()
    gone[~missing] |= holes
    return _mark_nan(out, gone)


# ---------------------------------------------------------------- tables in memory


@final
class FrameTable(Table):
    """A frame of pandas or polars, a table of Arrow or a structured array, as columns of Arrow."""

    resident = True

    def __init__(self, frame: Any) -> None:
        known = isinstance(frame, np.ndarray) or _is_from("pandas", "DataFrame", frame)
        if not known and not _is_from("polars", "DataFrame", frame):
            frame = import_arrow().table(frame)  # a stream can be read once only
        keys = frame.dtype.names if isinstance(frame, np.ndarray) else None
        keys = getattr(frame, "column_names", None) or frame.columns if keys is None else keys
        self._frame, self.names = frame, tuple(map(str, keys))
        require_distinct(self.names, "the table", "one whose columns have distinct names")

    @functools.cached_property
    def _columns(self) -> dict[str, Any]:
        """Arrays of Arrow by name; None for what it cannot hold."""
        frame = self._frame
        if isinstance(frame, np.ndarray):
            return {name: convert_array(frame[name], name) for name in self.names}
        if _is_from("pandas", "DataFrame", frame):
            return {name: _convert(frame.iloc[:, i], name) for i, name in enumerate(self.names)}
        table = frame.to_arrow() if hasattr(frame, "to_arrow") else frame
        return dict(zip(self.names, table.columns, strict=True))

    @functools.cached_property
    def kinds(self) -> dict[str, Kind]:
        """By the types of Arrow."""
        columns = self._columns.items()
        return {name: Kind.OTHER if each is None else find_kind(each.type) for name, each in columns}

    @property
    def size(self) -> int:
        """How many rows."""
        return len(self._frame)

    def batches(self, names: Sequence[str]) -> Iterator[Any]:
        """Yield slices of the columns."""
        arrow = import_arrow()
        for name in names:
            require(self._columns[name] is not None, "by", LABELS, f"other objects in {name}")
        table = arrow.table({name: self._columns[name] for name in names})
        return (batch for batch in table.to_batches(max_chunksize=BATCH) if len(batch))

    def find_dtypes(self, name: str) -> list[np.dtype[Any]]:
        """Return the type of a column."""
        return [find_dtype(self._columns[name].type)]

    def take(self, ids: Ids, added: Mapping[str, NDArray[Any]]) -> Any:
        """Return rows of what came in, with their own index."""
        frame = self._frame
        if isinstance(frame, np.ndarray):
            return _take_records(frame, ids, added)
        if _is_from("pandas", "DataFrame", frame):
            return frame.iloc[ids].assign(**added)
        if _is_from("polars", "DataFrame", frame):
            return frame[ids].with_columns([sys.modules["polars"].Series(*pair) for pair in added.items()])
        out = frame.take(import_arrow().array(ids))
        for name, values in added.items():
            out = out.append_column(name, [values])
        return out


_NUMBERS = (bool, int, float, Decimal, np.integer, np.floating)


def _convert(values: Any, name: str) -> Any:
    """Return a column of pandas, or of Python's objects, as Arrow has it; None where it has nothing like it.

    The rule for objects of several types: numbers are numbers, vectors of numbers are vectors, texts
    beside numbers and truths are texts, and all else is carried.
    """
    arrow = import_arrow()
    refusals = (arrow.ArrowException, TypeError, ValueError, OverflowError, NotImplementedError)
    with contextlib.suppress(*refusals):
        return arrow.array(values, from_pandas=True)
    objects = np.asarray(values, object)
    gone = [each is None or (isinstance(each, float) and math.isnan(each)) for each in objects]
    missing = values.isna().to_numpy(bool) if hasattr(values, "isna") else np.array(gone, bool)
    there = objects[~missing]
    if any(isinstance(each, (list, tuple, np.ndarray)) for each in there):
        return _convert_vectors(objects, missing, name)
    if all(isinstance(each, _NUMBERS) and not isinstance(each, bool) for each in there):
        return arrow.array(cast_objects(np.where(missing, 0, objects), name), mask=missing)
    if all(isinstance(each, (str, np.bool_, *_NUMBERS)) for each in there):
        texts = [None if hole else str(each) for each, hole in zip(objects, missing, strict=True)]
        return arrow.array(texts, arrow.string())
    return None


def _convert_vectors(objects: NDArray[Any], missing: NDArray[np.bool_], name: str) -> Any:
    """Return vectors of several types, or of integers that are floats too; None for anything else."""
    vectors = [array(each, name, "a column of vectors of numbers") for each in objects[~missing]]
    if not all(each.ndim == 1 and each.dtype.kind in "fiub" for each in vectors):
        return None
    out: list[Any] = [None] * len(objects)
    for place, each in zip(np.flatnonzero(~missing).tolist(), vectors, strict=True):
        require_exact(each, name)
        out[place] = each.astype(np.float64)
    return import_arrow().array(out)


def convert_array(values: NDArray[Any], name: str) -> Any:
    """Return numbers, texts or vectors, a row each, as Arrow has them; None where it has nothing like it."""
    arrow = import_arrow()
    masked = np.ma.getmaskarray(values).reshape(len(values), -1).any(axis=1)
    plain = np.ma.getdata(values)
    if plain.dtype.byteorder == ">":
        plain = plain.astype(plain.dtype.newbyteorder("="))
    if plain.ndim > 2 or (plain.ndim == 2 and plain.dtype.kind not in "fiub"):
        return None
    if plain.ndim == 2:
        flat = arrow.array(plain.astype(np.int8 if plain.dtype.kind == "b" else plain.dtype).ravel())
        return arrow.FixedSizeListArray.from_arrays(flat, plain.shape[1], mask=arrow.array(masked))
    if plain.dtype.kind == "S":
        plain = np.char.decode(plain)
    if plain.dtype.kind == "O":
        plain = plain.copy()
        plain[masked] = None
        return _convert(plain, name)
    return arrow.array(plain, mask=masked)


def _take_records(records: NDArray[Any], ids: Ids, added: Mapping[str, NDArray[Any]]) -> NDArray[Any]:
    """Return a structured array of rows, with fields added."""
    fields = {name: records.dtype[name] for name in records.dtype.names or ()}
    fields |= {name: values.dtype for name, values in added.items()}
    make = np.ma.empty if isinstance(records, np.ma.MaskedArray) else np.empty
    out = make(len(ids), list(fields.items()))
    for name in fields:
        out[name] = added[name] if name in added else records[name][ids]
    return np.asanyarray(out)


def _is_from(library: str, name: str, value: Any) -> bool:
    """Whether a value is of a library: without importing it, for what a caller holds has been imported."""
    kind = getattr(sys.modules.get(library), name, None)
    return kind is not None and isinstance(value, kind)


def find_frame(value: Any) -> Table | None:
    """Return a table in memory, or a single column of vectors, as a table; None if it is neither."""
    if isinstance(value, np.ndarray):
        return FrameTable(value) if value.dtype.names and value.ndim == 1 else None
    if _is_from("polars", "LazyFrame", value):
        raise TypeError("`atoms` must be a frame whose rows are known. Got a LazyFrame: call .collect().")
    column = None
    if _is_from("pandas", "Series", value) or _is_from("polars", "Series", value):
        column = value.to_frame()
    elif _is_from("pyarrow", "ChunkedArray", value) or _is_from("pyarrow", "Array", value):
        column = import_arrow().table({"row": value})
    if column is not None:
        table = FrameTable(column)
        return table if Kind.VECTOR in table.kinds.values() else None
    frames = _is_from("pandas", "DataFrame", value) or hasattr(type(value), "__arrow_c_stream__")
    return FrameTable(value) if frames else None


def unwrap(values: Any) -> Any:
    """Return a column of a library as an array of numpy; anything else as it is."""
    if type(values).__module__ == "pyarrow.lib" and not hasattr(values, "chunks"):
        return values.to_numpy(zero_copy_only=False)
    return values.to_numpy() if hasattr(values, "to_numpy") else values
