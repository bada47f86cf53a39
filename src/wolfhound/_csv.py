"""Tables in .csv files: cells are texts of Arrow, and the whole file says what a column holds.

One rule: a column holds numbers if every cell that is not blank is a number, else truths if every
one is true or false, else dates if every one is an ISO date, else texts. So a text far down the file
neither raises nor is lost, and the same table has the same columns in every format. A first pass over
the file finds that out; what is small is kept for the second.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import contextlib
import csv
import functools
import itertools
import math
import os
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, final

import numpy as np

from wolfhound._arrow import Kind, Table, import_arrow, pick_rows
from wolfhound._exact import EXACT, HELD
from wolfhound.core import Ids
from wolfhound.validate import require, require_distinct

BLANKS = ("", "NA", "N/A", "NaN", "nan", "null", "NULL", "<NA>", "#N/A")
"""Cells that stand for a missing value; pandas reads them so, too."""

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


class _Scanned(NamedTuple):
    """What the first pass finds."""

    kinds: dict[str, Kind]
    size: int
    held: list[Any] | None  # batches, if they are few
    inexact: set[str]  # columns with a number that float64 rounds


@final
class CsvTable(Table):
    """One or several .csv files with the same columns in the same order."""

    def __init__(self, files: Sequence[str]) -> None:
        self._layouts = [(file, find_layout(file)) for file in files]
        self._layout = self._layouts[0][1]
        self.names = self._layout.names
        for file, layout in self._layouts:  # cells are found by their place
            same = layout.names == self.names
            require(same, "path", f"files with the columns of {files[0]}", f"other columns in {file}")

    @property
    def files(self) -> list[str]:
        """Where it is."""
        return [file for file, _ in self._layouts]

    def split(self) -> list[CsvTable]:
        """Return each file as a table of its own."""
        return [self] if len(self._layouts) == 1 else [CsvTable([file]) for file in self.files]

    @property
    def kinds(self) -> dict[str, Kind]:
        """As all rows of all files have it."""
        return self._scanned.kinds

    @property
    def size(self) -> int:
        """How many rows all files have."""
        return self._scanned.size

    @property
    def numbers(self) -> tuple[str, ...]:
        """Columns of numbers, and those that were meant to be: one wrong cell is told, not left out."""
        kinds, meant = self.kinds, zip(self.names, self._layout.numeric, strict=True)
        hurt = {name for name, numeric in meant if numeric and kinds[name] is Kind.TEXT}
        return tuple(name for name in self.names if kinds[name] is Kind.NUMBER or name in hurt)

    @functools.cached_property
    def _scanned(self) -> _Scanned:
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
                if found is not column and _is_rounded(column, found):
                    inexact.add(name)
                typed.append(found)
            if held is not None:
                held.append(import_arrow().RecordBatch.from_arrays(typed, names=list(self.names)))
            size += len(batch)
        every = {name: kind or Kind.TEXT for name, kind in kinds.items()}
        return _Scanned(every, size, held, {name for name in inexact if every[name] is Kind.NUMBER})

    def _stream(self, names: Sequence[str], *, raw: bool = False) -> Iterator[Any]:
        return itertools.chain.from_iterable(
            _stream(file, layout, names, raw=raw) for file, layout in self._layouts
        )

    def batches(self, names: Sequence[str]) -> Iterator[Any]:
        """Yield these columns; blank cells and NA are null."""
        held = self._scanned.held
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
        return cells if name in self._scanned.inexact else _parse_numbers(cells)

    def text_arrays(self, name: str) -> Iterator[Any]:
        """Yield cells as they stand."""
        return (batch.column(0) for batch in self._stream([name], raw=True))

    def find_dtypes(self, name: str) -> list[np.dtype[Any]]:
        """Numbers of texts are float64."""
        return [np.dtype(np.float64)]

    def check_exact(self, names: Sequence[str]) -> None:
        """Refuse the first number that float64 rounds, by its line."""
        rounded = [name for name in names if name in self._scanned.inexact]
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


def _is_rounded(cells: Any, numbers: Any) -> bool:
    """Whether float64 does not hold one of these numbers."""
    large = np.flatnonzero(np.abs(numbers.to_numpy(zero_copy_only=False)) >= EXACT).tolist()
    return not all(is_exact(cells[place].as_py()) for place in large)


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


def _stream(file: str, layout: Layout, names: Sequence[str], *, raw: bool = False) -> Iterator[Any]:
    """Yield batches of texts; unless `raw`, blank cells are null."""
    reader, invalid = import_arrow(".csv"), import_arrow().ArrowInvalid
    places = {name: str(place) for place, name in enumerate(layout.names)}
    keys = [places[name] for name in names]
    plain = reader.ReadOptions(
        column_names=list(places.values()),
        skip_rows=layout.header,
        block_size=max(_BLOCK, 64 * layout.longest),
    )
    convert = reader.ConvertOptions(
        column_types=dict.fromkeys(keys, import_arrow().string()),
        include_columns=keys,
        null_values=[] if raw else list(BLANKS),
        strings_can_be_null=not raw,
    )
    lines = reader.ParseOptions(newlines_in_values=True)
    try:
        with reader.open_csv(file, plain, lines, convert) as batches:
            for batch in batches:
                yield batch.rename_columns(list(names))
    except invalid as error:
        for _ in _read_lines(file, layout):
            pass  # it names the line
        text = " ".join(str(error).split())
        raise ValueError(f"`path` must be comma-separated UTF-8 text. Got {file}: {text}.") from None


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
    require(
        bool(below) or (bool(first) and not header),
        "path",
        "a .csv file with at least one row of numbers",
        path,
    )
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
