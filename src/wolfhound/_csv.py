"""Tables in .csv files: names, columns of numbers, and cells that are carried as they stand.

Uses pyarrow when it is there, for speed.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import array
import contextlib
import copy
import csv
import importlib
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from wolfhound._arrays import ArrayAtoms
from wolfhound._columns import ColumnCells, Kind, clean_numbers, code_texts
from wolfhound._exact import EXACT, HELD
from wolfhound.core import Atoms, Ids, Matrix
from wolfhound.validate import require, require_distinct

SAMPLE = 1000
"""Rows that say which columns are numbers; more, while a column is still blank."""


BLANKS = ("", "NA", "N/A", "NaN", "nan", "null", "NULL", "<NA>", "#N/A")
"""Cells that stand for a missing value; pandas reads them so, too."""


class Layout(NamedTuple):
    """What the first rows of a .csv file say."""

    names: tuple[str, ...]
    header: int  # lines before the first row of data
    numeric: tuple[int, ...]
    unnamed: tuple[str, ...] = ()

    def rows(self, path: str) -> Iterator[tuple[int, list[str]]]:
        """Yield (line it ends on, cells) of every row of data."""
        return ((line, cells) for line, cells in rows(path) if line > self.header)


class CsvTable:
    """One or several .csv files with the same columns in the same order."""

    def __init__(self, files: Sequence[str]) -> None:
        self._layouts = [(file, find_layout(file)) for file in files]
        self._layout = self._layouts[0][1]
        self._as_texts: frozenset[str] = frozenset()
        for file, layout in self._layouts:  # cells are found by their place
            same = layout.names == self._layout.names
            require(same, "path", f"files with the columns of {files[0]}", f"other columns in {file}")

    @property
    def names(self) -> tuple[str, ...]:
        """All columns, in order."""
        return self._layout.names

    @property
    def numbers(self) -> tuple[str, ...]:
        """Columns of numbers, as the first rows have it."""
        return tuple(self.names[i] for i in self._layout.numeric)

    @property
    def texts(self) -> tuple[str, ...]:
        """The other columns."""
        numbers = set(self.numbers)
        return tuple(name for name in self.names if name not in numbers)

    resident = True

    @property
    def size(self) -> int:
        """How many rows all files have."""
        return sum(1 for _ in self._cells())

    def find_kinds(self) -> dict[str, Kind]:
        """Numbers or texts; what has no name is mostly the index of a data frame."""
        numbers = set(self.numbers) - self._as_texts
        kinds = {name: Kind.NUMBER if name in numbers else Kind.TEXT for name in self.names}
        return kinds | dict.fromkeys(self._layout.unnamed, Kind.UNNAMED)

    def keep_texts(self, names: Sequence[str]) -> CsvTable:
        """Return the same table, of which these columns are read as they stand, numbers or not."""
        out = copy.copy(self)
        out._as_texts = frozenset(names)
        return out

    def batches(self, names: Sequence[str]) -> Iterator[dict[str, ColumnCells]]:
        """Yield these columns, of one file or less at a time; blank cells and NA are missing."""
        kinds = self.find_kinds()
        places = dict(zip(names, self._find_places(names), strict=True))
        types = {at: "float64" if kinds[name] is Kind.NUMBER else "string" for name, at in places.items()}
        loose = self._as_texts & set(self.numbers)
        for file, layout in self._layouts:
            table = _read_arrow(file, layout, types, BLANKS)
            if table is None or _has_large(table):
                found = read_cells(file, layout, {at: kinds[name] for name, at in places.items()})
                yield _drop_blanks({name: found[at] for name, at in places.items()}, loose)
                continue
            read = importlib.import_module("wolfhound._arrow").read_cells
            for batch in table.to_batches():
                columns = {name: batch.column(str(at)) for name, at in places.items()}
                cells = {name: read(column, kinds[name], name) for name, column in columns.items()}
                yield _drop_blanks(cells, loose)

    def take(self, ids: Ids, added: Mapping[str, NDArray[Any]]) -> Any:
        """Return rows, with columns added, as a frame of pandas."""
        frame = import_pandas("rows of a .csv file as a frame")
        return frame.DataFrame({**self.rows(ids, ""), **added})

    def weigh(self, columns: Sequence[str] | None) -> int:
        """Nothing: text is always loaded."""
        return 0

    def parts(self, columns: Sequence[str] | None, *, load: bool | None = None) -> list[Atoms]:
        """Rows of these columns, of each file, in memory."""
        if columns is None:
            for file, layout in self._layouts:
                same = layout.numeric == self._layout.numeric
                others = f"other columns of numbers in {file}"
                require(same, "path", f"files with the columns of {self._layouts[0][0]}", others)
            have = f"none in {self._layouts[0][0]}"
            require(bool(self.numbers), "path", "a comma-separated file with numeric columns", have)
        wanted = self.numbers if columns is None else columns
        check_columns(wanted, self.names)
        places = self._find_places(wanted)
        return [ArrayAtoms(read(file, layout, places)) for file, layout in self._layouts]

    def columns(self, names: Sequence[str], missing: str | None = None) -> dict[str, NDArray[Any]]:
        """Cells of some columns, as text; none is ever missing."""
        places = self._find_places(names)
        parts = [read_texts(file, layout, places) for file, layout in self._layouts]
        each = zip(*parts, strict=True)
        return {name: np.concatenate(texts) for name, texts in zip(names, each, strict=True)}

    def rows(self, ids: Ids, ending: str) -> dict[str, NDArray[Any]]:
        """Cells of these rows: as they stand for .csv, else as numbers where they are."""
        wanted = set(ids.tolist())
        upto = itertools.islice(self._cells(), int(ids.max()) + 1)
        found = {i: cells for i, cells in enumerate(upto) if i in wanted}
        chosen = [found[i] for i in ids.tolist()]
        columns = {name: np.array([row[i] for row in chosen]) for i, name in enumerate(self.names)}
        if ending == ".csv":
            return columns
        numbers = set(self.numbers)
        return {name: _parse(texts) if name in numbers else texts for name, texts in columns.items()}

    def _find_places(self, names: Sequence[str]) -> list[int]:
        places = {name: place for place, name in enumerate(self.names)}
        return [places[name] for name in names]

    def _cells(self) -> Iterator[list[str]]:
        for file, layout in self._layouts:
            yield from (cells for _, cells in layout.rows(file))


def _parse(texts: NDArray[Any]) -> NDArray[Any]:
    blank = np.isin(texts, BLANKS)
    texts = np.where(blank, "nan", texts) if blank.any() else texts
    with contextlib.suppress(ValueError, OverflowError):
        return texts.astype(np.int64)
    held = all(is_exact(text) for text in texts.tolist())  # a long key beside blanks stays what it is
    with contextlib.suppress(ValueError):
        return texts.astype(np.float64) if held else texts
    return texts


def check_columns(columns: Sequence[str], names: Sequence[str]) -> None:
    """Refuse names that no column has."""
    known = set(names)
    missing = [name for name in columns if name not in known]
    require(not missing, "columns", f"among {', '.join(names)}", ", ".join(missing))


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


def number(cell: str) -> float | None:
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


# ---------------------------------------------------------------- what the columns are


def find_layout(path: str) -> Layout:
    """Read the first rows.

    A column is of numbers if at least half of its cells are: a blank cell says
    nothing, and one that is no number is a mistake to be told, not a reason to
    leave the column out. The first line is a header if none of its cells is a
    number, if one that is none stands over numbers, or if its numbers count from 0
    or 1 beside a text or a blank, as those of a table whose columns have no names.
    """
    found = rows(path)
    line, first = next(found, (0, []))
    below = _Tally(len(first))
    below.read(found)
    texts = [bool(cell.strip()) and number(cell) is None for cell in first]
    over_numbers = any(text and numeric for text, numeric in zip(texts, below.numeric, strict=True))
    numbers = [value for cell in first if (value := number(cell)) is not None]
    counted = len(numbers) < len(first) and _counts(numbers)
    header = over_numbers or counted or all(number(cell) is None for cell in first)
    if not header:
        below.add(first)
    require(below.rows > 0, "path", "a .csv file with at least one row of numbers", path)
    named = [bool(cell.strip()) for cell in first]
    pairs = enumerate(zip(first, named, strict=True), 1)
    names = tuple(cell if header and good else f"column {i}" for i, (cell, good) in pairs)
    unnamed = tuple(name for name, good in zip(names, named, strict=True) if header and not good)
    require_distinct(names, "path", "a .csv file whose names are distinct", f" in {path}")
    nameless = set(unnamed)
    numeric = tuple(i for i, good in enumerate(below.numeric) if good and names[i] not in nameless)
    return Layout(names, line if header else 0, numeric, unnamed)


def _counts(numbers: list[float]) -> bool:
    """Whether these are 0, 1, 2, ... or 1, 2, 3, ..., two at least."""
    return len(numbers) > 1 and numbers in ([*range(len(numbers))], [*range(1, len(numbers) + 1)])


class _Tally:
    """How many cells of each column are filled, and how many are numbers."""

    def __init__(self, width: int) -> None:
        self.rows, self._filled, self._numbers = 0, [0] * width, [0] * width

    @property
    def numeric(self) -> list[bool]:
        counts = zip(self._filled, self._numbers, strict=True)
        return [0 < filled <= 2 * numbers for filled, numbers in counts]

    def add(self, cells: Sequence[str]) -> None:
        self.rows += 1
        for i, cell in enumerate(cells[: len(self._filled)]):
            if cell.strip() not in BLANKS:
                self._filled[i] += 1
                self._numbers[i] += number(cell) is not None

    def read(self, found: Iterator[tuple[int, list[str]]]) -> None:
        for _, cells in found:
            self.add(cells)
            if self.rows >= SAMPLE and all(self._filled):
                return


# ---------------------------------------------------------------- two ways to read it


def read(path: str, layout: Layout, places: Sequence[int]) -> Matrix:
    """Return the columns at these places, which must be numbers."""
    plain = read_plain(path, layout, places)
    return read_rows(path, layout, places) if plain is None else plain


def read_rows(path: str, layout: Layout, places: Sequence[int]) -> Matrix:
    """Read with the standard library; errors name line and column."""
    values = array.array("d")
    for line, cells in layout.rows(path):
        where = f"line {line} of {path}"
        require(len(cells) == len(layout.names), where, f"{len(layout.names)} cells", f"{len(cells)}")
        for i in places:
            value = number(cells[i])
            if value is None or not np.isfinite(value):
                told = f"Column {layout.names[i]!r} in {where} must be a finite number. Got {cells[i]!r}"
                raise ValueError(told + _remedy(cells[i], first=line == 1))
            require(is_exact(cells[i]), f"column {layout.names[i]} in {where}", HELD, cells[i])
            values.append(value)
    return np.array(values).reshape(-1, len(places))


def _remedy(cell: str, *, first: bool) -> str:
    missing = "" if cell.strip() else ", a missing value: fill it in or leave the row out"
    return missing + ("; names in line 1 must not be numbers." if first else ".")


def read_plain(path: str, layout: Layout, places: Sequence[int]) -> Matrix | None:
    """Read with pyarrow; None if it is not there or the file is not perfectly plain."""
    chosen = set(places)
    types = {i: "float64" if i in chosen else "string" for i in range(len(layout.names))}
    table = _read_arrow(path, layout, types)
    if table is None:
        return None
    values = np.column_stack([table[str(i)].to_numpy() for i in places])
    return values if (np.abs(values) < EXACT).all() else None  # else by cells, of which errors tell


def read_texts(path: str, layout: Layout, places: Sequence[int]) -> list[NDArray[Any]]:
    """Return the cells of the columns at these places, as text."""
    table = _read_arrow(path, layout, dict.fromkeys(places, "string"))
    if table is None:
        every = [cells for _, cells in layout.rows(path)]
        return [np.array([cells[place] for cells in every], np.str_) for place in places]
    return [table[str(place)].to_numpy().astype(np.str_) for place in places]


def read_cells(path: str, layout: Layout, kinds: Mapping[int, Kind]) -> dict[int, ColumnCells]:
    """Read columns, by place, in one pass of the standard library.

    What is neither a number nor blank is refused in a column of numbers.
    """
    values: dict[int, list[Any]] = {place: [] for place in kinds}
    for line, cells in layout.rows(path):
        where = f"line {line} of {path}"
        require(len(cells) == len(layout.names), where, f"{len(layout.names)} cells", f"{len(cells)}")
        for place, kind in kinds.items():
            cell: Any = None if cells[place].strip() in BLANKS else cells[place]
            if kind is Kind.NUMBER and cell is not None:
                cell = number(cells[place])
                if cell is None:
                    told = f"Column {layout.names[place]!r} in {where} must be a number. Got {cells[place]!r}"
                    raise ValueError(told + _remedy(cells[place], first=line == 1))
                called = f"column {layout.names[place]} in {where}"
                require(is_exact(cells[place]), called, HELD, cells[place])
            values[place].append(cell)
    return {place: _code(values[place], kind) for place, kind in kinds.items()}


def _code(values: list[Any], kind: Kind) -> ColumnCells:
    missing = np.array([value is None for value in values], np.bool_)
    if kind is not Kind.NUMBER:
        return code_texts(values, missing)
    return clean_numbers(np.array([0.0 if value is None else value for value in values]), missing)


def _has_large(table: Any) -> bool:
    """Whether a number may have been rounded as it was parsed: its text will say."""
    columns = (column.to_numpy() for column in table.columns if str(column.type) == "double")
    return any(bool((np.abs(values) >= EXACT).any()) for values in columns)


def _drop_blanks(batch: dict[str, ColumnCells], names: frozenset[str]) -> dict[str, ColumnCells]:
    """Return cells where those of numbers read as text are missing wherever they would be as numbers."""
    for name in names & batch.keys():
        cells = batch[name]
        blank = [level.strip() in BLANKS or math.isnan(number(level) or 0.0) for level in cells.levels]
        gone = np.array(blank or [False], np.bool_)
        batch[name] = cells._replace(missing=cells.missing | gone[cells.values])
    return batch


def import_pandas(what: str) -> Any:
    """Return pandas, which is an extra."""
    try:
        return importlib.import_module("pandas")
    except ImportError:
        raise ImportError(f'{what} needs pandas: pip install "wolfhound[data]"') from None


def _read_arrow(path: str, layout: Layout, types: Mapping[int, str], blanks: Sequence[str] = ()) -> Any:
    """Return a table of pyarrow with these columns, by place; None if it cannot be had."""
    try:
        arrow = importlib.import_module("pyarrow")
        reader = importlib.import_module("pyarrow.csv")
    except ImportError:
        return None
    named = {str(i): getattr(arrow, kind)() for i, kind in types.items()}
    keys = [str(i) for i in range(len(layout.names))]
    try:
        plain = reader.ReadOptions(column_names=keys, skip_rows=layout.header)
        lines = reader.ParseOptions(newlines_in_values=True)
        cells = reader.ConvertOptions(
            column_types=named,
            include_columns=list(named),
            null_values=list(blanks),
            strings_can_be_null=bool(blanks),
        )
        return reader.read_csv(path, read_options=plain, parse_options=lines, convert_options=cells)
    except arrow.ArrowInvalid:
        return None
