"""Files and globs of them, by their endings: arrays without names, or tables of named columns.

Knows endings and what a column holds, not what the rows mean. A table may be far larger than memory:
columns that do not count are not read before rows are chosen, and then a batch at a time.

One rule for the cells of a .csv file, which are texts: a column holds numbers if every cell that is not
blank is a number, else truths if every one is true or false, else dates if every one is an ISO date, else
texts. So a text far down the file neither raises nor is lost, and the same table has the same columns in
every format. A first pass over the file finds that out; what is small is kept for the second.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import contextlib
import csv
import functools
import glob
import itertools
import json
import math
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias, cast, final

import numpy as np

from wolfhound.core.contracts import Ids
from wolfhound.core.validate import EXACT, HELD, require, require_distinct
from wolfhound.data.datasets import ARRAYS
from wolfhound.data.files import PathLike, check_exists, name_file, split_key
from wolfhound.data.tables import (
    BATCH,
    BLANKS,
    Kind,
    Table,
    check_columns,
    find_dtype,
    find_kind,
    import_arrow,
    pick_rows,
)

# ---------------------------------------------------------------- files of Arrow

ARROW = (".parquet", ".arrow", ".feather")
"""Endings of files of Arrow."""


@contextlib.contextmanager
def _open(path: str) -> Iterator[tuple[Any, int, Callable[[Sequence[str] | None], Iterator[Any]]]]:
    """Give the schema of a file, its rows and a reader of batches; every error of its content names it."""
    arrow, ending = import_arrow(), Path(path).suffix.lower()
    errors = arrow.ArrowException, OSError, MemoryError
    reader = import_arrow(".parquet").ParquetFile if ending == ".parquet" else arrow.OSFile
    with name_file(f"{ending} file", path, *errors), reader(path) as file:
        found = _look_into(file)
        with name_file(f"{ending} file that can be read", path, *errors):
            yield found


def _look_into(file: Any) -> tuple[Any, int, Callable[[Sequence[str] | None], Iterator[Any]]]:
    if hasattr(file, "schema_arrow"):
        rows = int(file.metadata.num_rows)
        return file.schema_arrow, rows, lambda names: file.iter_batches(BATCH, columns=names)
    ipc = import_arrow(".ipc")
    schema = ipc.open_file(file).schema

    def read(names: Sequence[str] | None) -> Iterator[Any]:
        chosen = schema.names if names is None else list(names)
        fields = sorted(schema.get_field_index(name) for name in chosen)
        reader = ipc.open_file(file, options=ipc.IpcReadOptions(included_fields=fields))
        return (reader.get_batch(i).select(chosen) for i in range(reader.num_record_batches))

    return schema, sum(map(len, read(schema.names[:1]))), read


@final
class ArrowFiles(Table):
    """Files that end in .parquet, .arrow or .feather; all have the columns that are read."""

    def __init__(self, files: Sequence[str]) -> None:
        self.files, self._schemas, self.size = list(files), [], 0
        for path in files:
            with _open(path) as (schema, rows, _):
                self._schemas.append(schema)
                self.size += rows
        self.names = tuple(self._schemas[0].names)

    @functools.cached_property
    def _every_kind(self) -> dict[str, Kind]:
        """As the first file has it; of columns without any value there, the first that has some."""
        out: dict[str, Kind] = {}
        for field in (field for schema in self._schemas for field in schema):
            if not import_arrow().types.is_null(field.type):
                out.setdefault(field.name, find_kind(field.type))
        return {name: out.get(name, Kind.OTHER) for name in self.names}

    @functools.cached_property
    def kinds(self) -> dict[str, Kind]:
        """What each column holds; a data frame's index is none."""
        stored = (self._schemas[0].metadata or {}).get(b"pandas")
        index = json.loads(stored)["index_columns"] if stored else []
        named = {each for each in index if isinstance(each, str)}  # a range is told by its numbers
        return {name: kind for name, kind in self._every_kind.items() if name not in named}

    def batches(self, names: Sequence[str]) -> Iterator[Any]:
        """Yield batches of all files, which must have these columns, of one kind."""
        for path, schema in zip(self.files, self._schemas, strict=True):
            check_columns(names, schema.names)
            for name in names:
                found, wanted = schema.field(name).type, self._every_kind[name]
                same = import_arrow().types.is_null(found) or find_kind(found) is wanted
                rule = f"files whose {name} holds {wanted.value}, as {self.files[0]}"
                require(same, "path", rule, f"{find_kind(found).value} in {path}")
        yield from self._read(list(names))

    def _read(self, names: Sequence[str] | None) -> Iterator[Any]:
        for path in self.files:
            with _open(path) as (_, _, read):
                yield from read(names)

    def find_dtypes(self, name: str) -> list[np.dtype[Any]]:
        """Return the type that each file has, where it has values."""
        types = [schema.field(name).type for schema in self._schemas if name in schema.names]
        return [find_dtype(each) for each in types if find_kind(each) is self._every_kind[name]]

    def rows(self, ids: Ids, *, as_text: bool = False) -> Any:
        """Return every column of these rows as a table of Arrow."""
        return pick_rows(self._read(None), ids)


# ---------------------------------------------------------------- tables of texts


KEPT = 256 << 20
"""Files up to so many bytes, all together, are kept in memory after the first pass."""

_SAMPLE = 100  # rows that say whether the first line holds names
_BLOCK = 1 << 20  # bytes that are parsed at once, at least; Arrow reads some forty blocks ahead
_TRUTHS = {"true": True, "false": False}


class Layout(NamedTuple):
    """What the first rows of a .csv file say."""

    names: tuple[str, ...]
    header: int  # lines before the first row of data
    numeric: tuple[bool, ...]  # of each column, whether at least half of the first cells are numbers
    unnamed: frozenset[str]  # columns that the file has no name for
    longest: int  # characters of a row


class _Contents(NamedTuple):
    """What the first pass finds."""

    kinds: dict[str, Kind]
    size: int
    held: list[Any] | None  # batches, if they are few
    inexact: set[str]  # columns with a number that float64 rounds


@final
class CsvTable(Table):
    """One or several .csv files with the same columns in the same order."""

    def __init__(self, files: Sequence[str]) -> None:
        self.files = list(files)
        self._layouts = [(file, find_layout(file)) for file in files]
        self._layout = self._layouts[0][1]
        self.names = self._layout.names
        for file, layout in self._layouts:  # cells are found by their place
            same = layout.names == self.names
            require(same, "path", f"files with the columns of {files[0]}", f"other columns in {file}")

    @property
    def kinds(self) -> dict[str, Kind]:
        """As all rows of all files have it."""
        return self._contents.kinds

    @property
    def size(self) -> int:
        """How many rows all files have."""
        return self._contents.size

    @property
    def numbers(self) -> tuple[str, ...]:
        """Columns of numbers, and those that were meant to be: one wrong cell is told, not left out."""
        kinds, meant = self.kinds, zip(self.names, self._layout.numeric, strict=True)
        hurt = {name for name, numeric in meant if numeric and kinds[name] is Kind.TEXT}
        return tuple(name for name in self.names if kinds[name] is Kind.NUMBER or name in hurt)

    @functools.cached_property
    def _contents(self) -> _Contents:
        kinds: dict[str, Kind | None] = dict.fromkeys(self.names)
        kinds |= dict.fromkeys(self._layout.unnamed, Kind.UNNAMED)
        small = sum(map(os.path.getsize, self.files)) <= KEPT
        held: list[Any] | None = [] if small else None
        inexact: set[str] = set()
        size = 0
        for batch in self._stream(self.names):
            typed = []
            for name, column in zip(self.names, batch.columns, strict=True):
                was = kinds[name]
                kinds[name], found = _judge(column, was)
                held = None if was is Kind.NUMBER and kinds[name] is not was else held  # it is text, then
                if found is not column:
                    large = np.abs(found.to_numpy(zero_copy_only=False)) >= EXACT
                    if not all(is_exact(column[place].as_py()) for place in np.flatnonzero(large).tolist()):
                        inexact.add(name)
                typed.append(found)
            if held is not None:
                held.append(import_arrow().RecordBatch.from_arrays(typed, names=list(self.names)))
            size += len(batch)
        every = {name: kind or Kind.TEXT for name, kind in kinds.items()}
        return _Contents(every, size, held, {name for name in inexact if every[name] is Kind.NUMBER})

    def _stream(self, names: Sequence[str], *, raw: bool = False) -> Iterator[Any]:
        """Yield batches of texts; unless `raw`, blank cells are null."""
        reader, text = import_arrow(".csv"), import_arrow().string()
        places = {name: str(place) for place, name in enumerate(self.names)}
        every, keys = list(places.values()), [places[name] for name in names]
        blanks = {} if raw else {"null_values": list(BLANKS), "strings_can_be_null": True}
        types = dict.fromkeys(keys, text)
        convert = reader.ConvertOptions(column_types=types, include_columns=keys, **blanks)
        for file, layout in self._layouts:
            block = max(_BLOCK, 64 * layout.longest)
            lines = reader.ReadOptions(column_names=every, skip_rows=layout.header, block_size=block)
            quoted = reader.ParseOptions(newlines_in_values=True)
            try:
                with reader.open_csv(file, lines, quoted, convert) as batches:
                    for batch in batches:
                        yield batch.rename_columns(list(names))
            except import_arrow().ArrowInvalid as error:
                for _ in _read_lines(file, layout):
                    pass  # it names the line
                said = " ".join(str(error).split())
                raise ValueError(f"`path` must be comma-separated UTF-8 text. Got {file}: {said}.") from None

    def batches(self, names: Sequence[str]) -> Iterator[Any]:
        """Yield these columns; blank cells and NA are null."""
        held = self._contents.held
        for batch in self._stream(names) if held is None else held:
            columns = [_convert(batch.column(name), self.kinds[name]) for name in names]
            yield import_arrow().RecordBatch.from_arrays(columns, names=list(names))

    def label_arrays(self, name: str) -> Iterator[Any]:
        """Yield numbers as integers, if all are, else as float64, if that holds all, else as texts."""
        if self.kinds[name] is not Kind.NUMBER:
            return super().label_arrays(name)
        chunks = [batch.column(0) for batch in self._stream([name])]
        return iter([self._parse(name, import_arrow().chunked_array(chunks).combine_chunks())])

    def _parse(self, name: str, cells: Any) -> Any:
        """Return cells of numbers as the narrowest type that holds all of them."""
        arrow = import_arrow()
        with contextlib.suppress(arrow.ArrowInvalid):
            return cells.cast(arrow.int64())
        return cells if name in self._contents.inexact else _parse_numbers(cells)

    def text_arrays(self, name: str) -> Iterator[Any]:
        """Yield cells as they stand."""
        return (batch.column(0) for batch in self._stream([name], raw=True))

    def find_dtypes(self, name: str) -> list[np.dtype[Any]]:
        """Numbers of texts are float64."""
        return [np.dtype(np.float64)]

    def check_exact(self, names: Sequence[str]) -> None:
        """Refuse the first number that float64 rounds, by its line."""
        rounded = [name for name in names if name in self._contents.inexact]
        self.blame(rounded, blanks=True)

    def blame(self, columns: Sequence[str], *, blanks: bool = False) -> None:
        """Raise ValueError for the first cell of these columns that is no finite number, by its line.

        Slow, so that reading need not be. `blanks` says that a cell may be blank, nan or infinite.
        """
        places = {name: place for place, name in enumerate(self.names)}
        every = ((file, *row) for file, layout in self._layouts for row in _read_lines(file, layout))
        for file, line, cells in every if columns else ():
            for name in columns:
                cell, value = cells[places[name]], number(cells[places[name]])
                where = f"{name!r} in line {line} of {file}"
                if not blanks and (value is None or not math.isfinite(value)):
                    missing = "" if cell.strip() else ", a missing value: fill it in or leave the row out"
                    named = "; names in line 1 must not be numbers" if line == 1 else ""
                    raise ValueError(f"Column {where} must be a finite number. Got {cell!r}{missing}{named}.")
                require(is_exact(cell), f"column {where}", HELD, cell)

    def rows(self, ids: Ids, *, as_text: bool = False) -> Any:
        """Return every column of these rows as a table of Arrow: cells as they stand, or numbers."""
        table = pick_rows(self._stream(self.names, raw=True), ids)
        for i, name in enumerate(() if as_text else self.names):
            if self.kinds[name] is Kind.NUMBER:
                cells = [None if cell.strip() in BLANKS else cell.strip() for cell in table[name].to_pylist()]
                column = self._parse(name, import_arrow().array(cells, import_arrow().string()))
                table = table.set_column(i, name, column)
        return table


# ---------------------------------------------------------------- cells


def number(cell: str) -> float | None:
    """Return the number of a cell; None if it is none."""
    try:
        return None if "_" in cell else float(cell)  # Python reads 1_000, others do not
    except ValueError:
        return None


def is_exact(cell: str) -> bool:
    """Whether a cell is not an integer that float64 rounds; fractions and exponents are always nearest."""
    try:
        whole = int(cell)
    except ValueError:
        return True
    return abs(whole) <= EXACT or (math.isfinite(value := float(cell)) and int(value) == whole)


def _judge(column: Any, known: Kind | None) -> tuple[Kind | None, Any]:
    """Return what a column holds after some more cells, and they as numbers if all so far are."""
    if known in (Kind.TEXT, Kind.UNNAMED) or column.null_count == len(column):
        return known, column
    if known in (None, Kind.NUMBER):
        found = _parse_numbers(column)
        if found is not None:
            return (known, column) if found.null_count == len(found) else (Kind.NUMBER, found)
    kind = _judge_words([text for cell in column.unique().to_pylist() if (text := (cell or "").strip())])
    return kind if known in (None, kind) else Kind.TEXT, column


def _judge_words(cells: list[str]) -> Kind:
    """Return what distinct cells that are no numbers are."""
    arrow = import_arrow()
    if all(cell.lower() in _TRUTHS for cell in cells):
        return Kind.TRUTH
    for unit, zone in itertools.product(("us", "ns"), (None, "UTC")):
        with contextlib.suppress(arrow.ArrowInvalid):
            arrow.array(cells).cast(arrow.timestamp(unit, zone))
            return Kind.TIME
    return Kind.TEXT


def _parse_numbers(column: Any) -> Any:
    """Return texts as float64, null where they are blank; None if one is no number."""
    arrow = import_arrow()
    with contextlib.suppress(arrow.ArrowInvalid):
        return column.cast(arrow.float64())
    coded, values = column.dictionary_encode(), []
    for cell in coded.dictionary.to_pylist():
        value = None if cell.strip() in BLANKS else number(cell)
        if value is None and cell.strip() not in BLANKS:
            return None
        values.append(value)
    return arrow.array(values, arrow.float64()).take(coded.indices)


def _convert(column: Any, kind: Kind) -> Any:
    """Return texts as what their column holds."""
    arrow = import_arrow()
    if kind is Kind.NUMBER:
        return _parse_numbers(column) if arrow.types.is_string(column.type) else column
    if kind is Kind.TRUTH:
        coded = column.dictionary_encode()
        words = [_TRUTHS.get(cell.strip().lower()) for cell in coded.dictionary.to_pylist()]
        return arrow.array(words, arrow.bool_()).take(coded.indices)
    return column


# ---------------------------------------------------------------- lines


def rows(path: str) -> Iterator[tuple[int, list[str]]]:
    """Yield (line it ends on, cells) of every row that is not blank."""
    try:
        with open(path, encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file, strict=True)
            for cells in reader:
                if cells:
                    yield reader.line_num, cells
    except (UnicodeDecodeError, csv.Error) as error:
        raise ValueError(f"`path` must be comma-separated UTF-8 text. Got {path}: {error}.") from None


def _read_lines(path: str, layout: Layout) -> Iterator[tuple[int, list[str]]]:
    """Yield every row of data, slowly; one with too few or too many cells is refused by its line."""
    for line, cells in rows(path):
        if line > layout.header:
            wide = len(layout.names)
            require(len(cells) == wide, f"line {line} of {path}", f"{wide} cells", f"{len(cells)}")
            yield line, cells


def find_layout(path: str) -> Layout:
    """Read the first rows.

    The first line is a header if none of its cells is a number, if one that is none stands over
    numbers (at least half of the first cells), or if its numbers count from 0 or 1 beside a text or a
    blank, as those of a table whose columns have no names.
    """
    found = rows(path)
    line, first = next(found, (0, []))
    below = [cells for _, cells in itertools.islice(found, _SAMPLE)]
    numeric = _find_numeric(below, len(first))
    texts = [bool(cell.strip()) and number(cell) is None for cell in first]
    over_numbers = any(text and good for text, good in zip(texts, numeric, strict=True))
    numbers = [value for cell in first if (value := number(cell)) is not None]
    upto = range(len(numbers) + 1)
    counted = 1 < len(numbers) < len(first) and numbers in ([*upto[:-1]], [*upto[1:]])
    header = over_numbers or counted or all(number(cell) is None for cell in first)
    if not header:
        numeric = _find_numeric([first, *below], len(first))
    some = bool(below) or (bool(first) and not header)
    require(some, "path", "a .csv file with at least one row of numbers", path)
    named = [bool(cell.strip()) for cell in first]
    pairs = enumerate(zip(first, named, strict=True), 1)
    names = tuple(cell if header and good else f"column {i}" for i, (cell, good) in pairs)
    unnamed = frozenset(name for name, good in zip(names, named, strict=True) if header and not good)
    require_distinct(names, "path", "a .csv file whose names are distinct", f" in {path}")
    longest = max(sum(map(len, cells)) + len(cells) for cells in (first, *below))
    return Layout(names, line if header else 0, tuple(numeric), unnamed, longest)


def _find_numeric(below: Sequence[Sequence[str]], width: int) -> list[bool]:
    """Return whether at least half of the cells of each column that are not blank are numbers."""
    out = []
    for place in range(width):
        cells = [row[place] for row in below if len(row) > place and row[place].strip() not in BLANKS]
        out.append(0 < len(cells) <= 2 * sum(number(cell) is not None for cell in cells))
    return out


# ---------------------------------------------------------------- files by their endings


ROW = "row"
"""What the rows of a file without named columns are called."""


def find_files(path: str) -> list[str]:
    """Return the files that a text stands for, without the names of datasets; there may be none."""
    file = split_key(path)[0]
    return [file] if os.path.exists(file) else sorted(glob.glob(file, recursive=True))


def split_paths(text: str) -> list[str]:
    """Return a, b of "a,b", unless that is itself the name of a file."""
    whole = "," not in text or bool(find_files(text))
    return [text] if whole else [part.strip() for part in text.split(",") if part.strip()]


class ArrayTable:
    """Files of arrays: rows without names."""

    names: tuple[str, ...] = ()
    numbers: tuple[str, ...] = ()

    def __init__(self, files: Sequence[str]) -> None:
        self.files = files


FileTable: TypeAlias = ArrayTable | ArrowFiles | CsvTable
"""One file, or several with the same columns, of which little is read before it is asked for."""

_KINDS: dict[str, type[FileTable]] = {
    ".npy": ArrayTable,
    ".npz": ArrayTable,
    ".csv": CsvTable,
    **dict.fromkeys(ARROW, ArrowFiles),
    **dict.fromkeys(ARRAYS, ArrayTable),
}

NAMED = tuple(ending for ending, kind in _KINDS.items() if kind is not ArrayTable)
"""Endings of files with named columns."""


def open_table(path: PathLike | Sequence[PathLike]) -> FileTable:
    """Open a file, or all files that a glob matches, in the order of their names.

    ``file::name`` is one array of several; commas, or a list, join several files of one kind.
    """
    several = isinstance(path, (list, tuple))
    texts = list(map(os.fspath, cast(Any, path))) if several else split_paths(os.fspath(cast(PathLike, path)))
    text = ", ".join(texts)
    files = []
    for part in texts:
        pattern = split_key(part)[0]  # of a glob, each file has the name of the array that is wanted
        found = find_files(part) if glob.has_magic(pattern) else [pattern]
        require(bool(found), "path", "a glob that matches a file", part)
        files += [file + part[len(pattern) :] for file in found]
    endings = [Path(split_key(file)[0]).suffix.lower() for file in files]
    known = all(ending in _KINDS for ending in endings)
    require(known, "path", f"a file that ends in one of {', '.join(_KINDS)}", repr(text))
    require(len({_KINDS[ending] for ending in endings}) == 1, "path", "files of one kind", repr(text))
    for file in files:
        check_exists(split_key(file)[0])
    return _KINDS[endings[0]](files)
