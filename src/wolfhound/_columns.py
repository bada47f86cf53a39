"""Columns of tables in memory: pandas, polars, Arrow and structured arrays, read in one way.

Knows how each library holds a column; must not know which columns count. No library is
imported for this: what a caller holds has been imported already.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import enum
import importlib
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from wolfhound._exact import cast_objects, require_exact, require_same
from wolfhound.core import Ids
from wolfhound.validate import array, require, require_distinct

Mask = NDArray[np.bool_]

BATCH = 65_536
"""Rows of a frame that are read at a time."""

TRUTHS = ("False", "True")

LABELS = "columns of numbers, texts, truths or dates"


class Kind(enum.Enum):
    """What the cells of a column are; the value says it in a report."""

    NUMBER = "numbers"
    TRUTH = "truths"
    TEXT = "texts"
    VECTOR = "vectors"
    TIME = "dates or times: make numbers of them to count"
    UNNAMED = "a column without a name"
    OTHER = "neither numbers nor texts"


class ColumnCells(NamedTuple):
    """One column of some rows.

    Attributes
    ----------
    values : (r,) or (r, w)
        Numbers or vectors, w = 0 if all are missing; of texts and truths their places among `levels`.
    missing : (r,) bool
        Cells without a value; what `values` has there means nothing.
    levels : sequence of str
        Distinct texts, in any order; there may be some that no cell has.
    truths : bool
        Whether these are truths, and not texts that look like them.
    """

    values: NDArray[Any]
    missing: Mask
    levels: Sequence[str] = ()
    truths: bool = False


class ColumnSource(Protocol):
    """A table whose columns can be read, all rows in order, some at a time."""

    @property
    def names(self) -> tuple[str, ...]:
        """All columns, in order."""

    @property
    def size(self) -> int:
        """How many rows."""

    @property
    def resident(self) -> bool:
        """Whether it is in memory already."""

    def find_kinds(self) -> dict[str, Kind]:
        """What each column holds."""

    def batches(self, names: Sequence[str]) -> Iterator[dict[str, ColumnCells]]:
        """Yield these columns of some rows at a time."""

    def take(self, ids: Ids, added: Mapping[str, NDArray[Any]]) -> Any:
        """Return rows, with columns added, as the kind of table that this is."""


# ---------------------------------------------------------------- cells of any library


def code_texts(values: Sequence[Any] | NDArray[Any], missing: Mask) -> ColumnCells:
    """Return texts as places among their distinct ones, in the order of appearance.

    Examples
    --------
    >>> code_texts(["b", "a", "b"], np.array([False, False, False]))[::2]
    (array([0, 1, 0]), ('b', 'a'))
    """
    places: dict[str, int] = {}
    pairs = zip(values, missing.tolist(), strict=True)
    codes = [0 if gone else places.setdefault(str(value), len(places)) for value, gone in pairs]
    return ColumnCells(np.array(codes, np.int64), missing, tuple(places))


def code_truths(values: NDArray[Any], missing: Mask) -> ColumnCells:
    """Return truths as 0 and 1, two levels."""
    places = np.where(missing, False, values).astype(np.bool_).astype(np.int64)
    return ColumnCells(places, missing, TRUTHS, truths=True)


def clean_numbers(values: NDArray[Any], missing: Mask) -> ColumnCells:
    """Return numbers; nan is missing too."""
    nan = np.isnan(values) if values.dtype.kind == "f" else np.zeros(values.shape, np.bool_)
    return ColumnCells(values, missing | (nan if nan.ndim == 1 else nan.any(axis=1)))


def stack_vectors(values: NDArray[Any], missing: Mask, name: str) -> ColumnCells:
    """Return a column of lists or arrays as a matrix."""
    there = [array(value, name, "a column of vectors of numbers") for value in values[~missing]]
    if not there:
        return ColumnCells(np.zeros((len(values), 0), np.int8), missing)
    widths = {value.shape for value in there}
    one = len(widths) == 1 and len(next(iter(widths))) == 1 and there[0].size > 0
    require(one, name, "a column of vectors of one length", f"shapes {sorted(widths)[:3]}")
    out = np.zeros((len(values), len(there[0])), np.result_type(*{value.dtype for value in there}))
    require(out.dtype.kind in "fiub", name, "a column of vectors of numbers", out.dtype)
    for each in there if out.dtype.kind == "f" else ():
        require_exact(each, name)
    out[~missing] = there
    return clean_numbers(out, missing)


def _holds_vectors(values: NDArray[Any], missing: Mask) -> bool:
    lists = (np.ndarray, list, tuple)
    there = (each for each in values[~missing] if isinstance(each, lists) and getattr(each, "ndim", True))
    first = next((each for each in there if len(each)), [""])
    return not any(isinstance(each, lists) for each in first) and np.asarray(first).dtype.kind in "fiub"


def name_columns(keys: Sequence[Any]) -> tuple[str, ...]:
    """Return the names of columns as texts, all distinct."""
    names = tuple(map(str, keys))
    require_distinct(names, "the table", "one whose columns have distinct names")
    return names


# ---------------------------------------------------------------- pandas


class PandasSource:
    """A DataFrame of pandas."""

    resident = True

    def __init__(self, frame: Any) -> None:
        self._frame, self._types = frame, sys.modules["pandas"].api.types
        self.names = name_columns(list(frame.columns))

    def __reduce__(self) -> tuple[type[PandasSource], tuple[Any]]:
        """Pickle the frame."""
        return PandasSource, (self._frame,)

    @property
    def size(self) -> int:
        """How many rows."""
        return len(self._frame)

    def find_kinds(self) -> dict[str, Kind]:
        """By dtype; columns of objects by what they hold."""
        return {name: self._find_kind(self._frame.iloc[:, i]) for i, name in enumerate(self.names)}

    def _find_kind(self, series: Any) -> Kind:
        types, dtype = self._types, series.dtype
        if isinstance(dtype, sys.modules["pandas"].CategoricalDtype):
            return Kind.TEXT
        if hasattr(dtype, "pyarrow_dtype"):
            found: Kind = importlib.import_module("wolfhound._arrow").find_kind(dtype.pyarrow_dtype)
            return found
        if types.is_bool_dtype(dtype):
            return Kind.TRUTH
        if types.is_complex_dtype(dtype):
            return Kind.OTHER
        if types.is_numeric_dtype(dtype):
            return Kind.NUMBER
        if types.is_datetime64_any_dtype(dtype) or types.is_timedelta64_dtype(dtype):
            return Kind.TIME
        inferred = types.infer_dtype(series, skipna=True)
        known = {"string": Kind.TEXT, "boolean": Kind.TRUTH, "mixed-integer": Kind.TEXT}
        known |= dict.fromkeys(("integer", "floating", "mixed-integer-float", "decimal"), Kind.NUMBER)
        known |= dict.fromkeys(("date", "datetime", "datetime64", "time", "timedelta", "period"), Kind.TIME)
        if inferred == "mixed" and _holds_vectors(series.to_numpy(object), series.isna().to_numpy(bool)):
            return Kind.VECTOR
        return known.get(inferred, Kind.OTHER)

    def batches(self, names: Sequence[str]) -> Iterator[dict[str, ColumnCells]]:
        """Yield slices of the frame."""
        places = {name: i for i, name in enumerate(self.names)}
        columns = {name: self._frame.iloc[:, places[name]] for name in names}
        kinds = {name: self._find_kind(series) for name, series in columns.items()}
        for first in range(0, self.size, BATCH):
            yield {
                name: _read_series(series.iloc[first : first + BATCH], kinds[name], name)
                for name, series in columns.items()
            }

    def take(self, ids: Ids, added: Mapping[str, NDArray[Any]]) -> Any:
        """Return rows of the frame, with their own index."""
        return self._frame.iloc[ids].assign(**added)


def _read_series(series: Any, kind: Kind, name: str) -> ColumnCells:
    if hasattr(series.dtype, "pyarrow_dtype"):
        arrow = importlib.import_module("wolfhound._arrow")
        cells: ColumnCells = arrow.read_chunks(series.array, kind, name)
        return cells
    missing = series.isna().to_numpy(bool)
    if kind is Kind.NUMBER:
        if isinstance(series.dtype, np.dtype) and series.dtype.kind != "O":
            return clean_numbers(series.to_numpy(), missing)
        objects = np.where(missing, 0, series.to_numpy(object))
        kept = getattr(series.dtype, "numpy_dtype", np.dtype(object)).kind in "fiu"
        found = objects.astype(series.dtype.numpy_dtype) if kept else cast_objects(objects, name)
        return clean_numbers(found, missing)
    if kind is Kind.TEXT and hasattr(series, "cat"):
        codes = np.maximum(series.cat.codes.to_numpy(), 0).astype(np.int64)
        return ColumnCells(codes, missing, tuple(map(str, series.cat.categories)))
    values = series.to_numpy(object)
    if kind is Kind.VECTOR:
        return stack_vectors(values, missing, name)
    if kind is Kind.TRUTH:
        return code_truths(values, missing)
    nested = [type(value).__name__ for value in values if isinstance(value, (list, tuple, dict, np.ndarray))]
    require(not nested, "by", LABELS, f"{nested[:1]} in {name}")
    return code_texts(values, missing)


# ---------------------------------------------------------------- polars


class PolarsSource:
    """A DataFrame of polars."""

    resident = True

    def __init__(self, frame: Any) -> None:
        self._frame, self._polars = frame, sys.modules["polars"]
        self.names = name_columns(frame.columns)

    def __reduce__(self) -> tuple[type[PolarsSource], tuple[Any]]:
        """Pickle the frame."""
        return PolarsSource, (self._frame,)

    @property
    def size(self) -> int:
        """How many rows."""
        return int(self._frame.height)

    def find_kinds(self) -> dict[str, Kind]:
        """By dtype."""
        return {name: self._find_kind(dtype) for name, dtype in self._frame.schema.items()}

    def _find_kind(self, dtype: Any) -> Kind:
        library = self._polars
        if dtype == library.Boolean:
            return Kind.TRUTH
        if dtype.is_numeric():
            return Kind.NUMBER
        if dtype in (library.String, library.Categorical, library.Enum):
            return Kind.TEXT
        if dtype.is_temporal():
            return Kind.TIME
        if dtype in (library.List, library.Array) and dtype.inner.is_numeric():
            return Kind.VECTOR
        return Kind.OTHER

    def batches(self, names: Sequence[str]) -> Iterator[dict[str, ColumnCells]]:
        """Yield slices of the frame."""
        for first in range(0, self.size, BATCH):
            some = self._frame.slice(first, BATCH)
            yield {name: self._read(some.get_column(name)) for name in names}

    def _read(self, series: Any) -> ColumnCells:
        library, kind = self._polars, self._find_kind(series.dtype)
        missing = series.is_null().to_numpy().astype(np.bool_)
        if kind is Kind.NUMBER:
            plain = series.cast(library.Float64) if series.dtype == library.Decimal else series
            found = plain.fill_null(0).to_numpy()
            if plain is not series:
                require_same(series.to_list, found, series.name)
            return clean_numbers(found, missing)
        if kind is Kind.VECTOR:
            values = np.empty(len(series), object)
            values[:] = [None if value is None else np.asarray(value) for value in series]
            return stack_vectors(values, missing, series.name)
        if kind is Kind.TRUTH:
            return code_truths(series.fill_null(False).to_numpy(), missing)
        told = f"{series.dtype} in {series.name}"
        require(kind is not Kind.OTHER or series.dtype == library.Null, "by", LABELS, told)
        return code_texts(series.cast(library.String).to_list(), missing)

    def take(self, ids: Ids, added: Mapping[str, NDArray[Any]]) -> Any:
        """Return rows of the frame."""
        columns = [self._polars.Series(name, values) for name, values in added.items()]
        return self._frame[ids].with_columns(columns)


# ---------------------------------------------------------------- structured arrays


class RecordSource:
    """A structured array of numpy: its fields are the columns."""

    resident = True

    def __init__(self, records: NDArray[Any]) -> None:
        self._records = records
        self.names = tuple(records.dtype.names or ())

    @property
    def size(self) -> int:
        """How many rows."""
        return len(self._records)

    def find_kinds(self) -> dict[str, Kind]:
        """By dtype."""
        return {name: self._find_kind(self._records.dtype[name]) for name in self.names}

    def _find_kind(self, dtype: np.dtype[Any]) -> Kind:
        if dtype.shape:
            vector = len(dtype.shape) == 1 and dtype.base.kind in "fiub"
            return Kind.VECTOR if vector else Kind.OTHER
        kinds = dict.fromkeys("fiu", Kind.NUMBER) | dict.fromkeys("USO", Kind.TEXT)
        return (kinds | dict.fromkeys("Mm", Kind.TIME) | {"b": Kind.TRUTH}).get(dtype.kind, Kind.OTHER)

    def batches(self, names: Sequence[str]) -> Iterator[dict[str, ColumnCells]]:
        """Yield slices of the fields."""
        for first in range(0, self.size, BATCH):
            yield {name: self._read(self._records[name][first : first + BATCH]) for name in names}

    def _read(self, values: NDArray[Any]) -> ColumnCells:
        masked: Mask = np.asarray(np.ma.getmaskarray(values).reshape(len(values), -1).any(axis=1))
        values = np.ma.getdata(values)
        if values.dtype.kind == "b" and values.ndim == 1:
            return code_truths(values, masked)
        if values.dtype.kind in "fiub":
            return clean_numbers(values, masked)
        blank = np.array([value is None or value in ("", b"") for value in values.tolist()], np.bool_)
        return code_texts([_decode(value) for value in values.tolist()], blank | masked)

    def take(self, ids: Ids, added: Mapping[str, NDArray[Any]]) -> Any:
        """Return a structured array of rows, with fields added."""
        fields = [(name, self._records.dtype[name]) for name in self.names]
        make = np.ma.empty if isinstance(self._records, np.ma.MaskedArray) else np.empty
        out = make(len(ids), fields + [(name, values.dtype) for name, values in added.items()])
        for name in self.names:
            out[name] = self._records[name][ids]
        for name, values in added.items():
            out[name] = values
        return out


def _decode(value: Any) -> Any:
    return value.decode() if isinstance(value, bytes) else value


# ---------------------------------------------------------------- which it is


def find_source(value: Any) -> ColumnSource | None:
    """Return a table in memory as a source of columns; None if it is no table."""
    if isinstance(value, np.ndarray):
        return RecordSource(value) if value.dtype.names and value.ndim == 1 else None
    if _is_from("pandas", "DataFrame", value):
        return PandasSource(value)
    if _is_from("polars", "DataFrame", value):
        return PolarsSource(value)
    if _is_from("polars", "LazyFrame", value):
        raise TypeError("`atoms` must be a frame whose rows are known. Got a LazyFrame: call .collect().")
    if hasattr(type(value), "__arrow_c_stream__") and not _is_series(value):
        arrow = importlib.import_module("wolfhound._arrow")
        source: ColumnSource = arrow.ArrowSource(value)
        return source
    return None


def _is_from(library: str, name: str, value: Any) -> bool:
    kind = getattr(sys.modules.get(library), name, None)
    return kind is not None and isinstance(value, kind)


def _is_series(value: Any) -> bool:
    found = _is_from("pandas", "Series", value) or _is_from("polars", "Series", value)
    return found or _is_from("pyarrow", "ChunkedArray", value)


def find_vectors(value: Any) -> ColumnSource | None:
    """Return a single column of vectors as a source; None for anything else."""
    if _is_from("pandas", "Series", value) or _is_from("polars", "Series", value):
        source = find_source(value.to_frame())
        return source if source and Kind.VECTOR in source.find_kinds().values() else None
    if _is_from("pyarrow", "ChunkedArray", value) or _is_from("pyarrow", "Array", value):
        source = find_source(sys.modules["pyarrow"].table({"row": value}))
        return source if source and Kind.VECTOR in source.find_kinds().values() else None
    return None
