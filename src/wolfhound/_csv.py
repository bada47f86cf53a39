"""Files of comma-separated text: names, columns of numbers, the other columns.

Private: `wolfhound.readers` makes atoms of them. Uses pyarrow when it is there,
for speed.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import array
import csv
import importlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from wolfhound.validate import require

SAMPLE = 1000
"""Rows that say which columns are numbers; more, while a column is still blank."""


class Layout(NamedTuple):
    """What the first rows of a .csv file say."""

    names: tuple[str, ...]
    header: int  # lines before the first row of data
    numeric: tuple[int, ...]


def read(path: str, layout: Layout) -> tuple[NDArray[Any], Mapping[str, NDArray[Any]]]:
    """Return the columns of numbers as a matrix, and the others by name."""
    return by_arrow(path, layout) or by_rows(path, layout)


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


# ---------------------------------------------------------------- what the columns are


def layout(path: str, columns: Sequence[str] | None) -> Layout:
    """Read the first rows; without names of columns, those of numbers are the atoms.

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
    names = tuple(first) if header else tuple(f"column {i}" for i in range(1, len(first) + 1))
    twice = sorted({name for name in names if names.count(name) > 1})
    require(not twice, "path", "a .csv file whose names are distinct", f"{', '.join(twice)} twice in {path}")
    if columns is None:
        numeric = [i for i, is_numeric in enumerate(below.numeric) if is_numeric]
    else:
        numeric = [names.index(name) for name in chosen(columns, names)]
    require(bool(numeric), "path", "a comma-separated file with numeric columns", f"none in {path}")
    return Layout(names, line if header else 0, tuple(numeric))


def _counts(numbers: list[float]) -> bool:
    """Whether these are 0, 1, 2, ... or 1, 2, 3, ..., two at least."""
    return len(numbers) > 1 and numbers in ([*range(len(numbers))], [*range(1, len(numbers) + 1)])


def chosen(columns: Sequence[str], names: Sequence[str]) -> Sequence[str]:
    missing = [name for name in columns if name not in names]
    require(not missing, "columns", f"among {', '.join(names)}", ", ".join(missing))
    return columns


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
            if cell.strip():
                self._filled[i] += 1
                self._numbers[i] += number(cell) is not None

    def read(self, found: Iterator[tuple[int, list[str]]]) -> None:
        for _, cells in found:
            self.add(cells)
            if self.rows >= SAMPLE and all(self._filled):
                return


# ---------------------------------------------------------------- two ways to read it


def by_rows(path: str, layout: Layout) -> tuple[NDArray[Any], Mapping[str, NDArray[Any]]]:
    """Read with the standard library; errors name line and column."""
    values = array.array("d")
    carried = [i for i in range(len(layout.names)) if i not in layout.numeric]
    texts: list[list[str]] = [[] for _ in carried]
    for line, cells in rows(path):
        if line <= layout.header:
            continue
        where = f"line {line} of {path}"
        require(len(cells) == len(layout.names), where, f"{len(layout.names)} cells", f"{len(cells)}")
        for i in layout.numeric:
            value = number(cells[i])
            if value is None or not np.isfinite(value):
                told = f"Column {layout.names[i]!r} in {where} must be a finite number. Got {cells[i]!r}"
                raise ValueError(told + _remedy(cells[i], first=line == 1))
            values.append(value)
        for text, i in zip(texts, carried, strict=True):
            text.append(cells[i])
    columns = {layout.names[i]: np.array(text, object) for text, i in zip(texts, carried, strict=True)}
    return np.array(values).reshape(-1, len(layout.numeric)), columns


def _remedy(cell: str, *, first: bool) -> str:
    missing = "" if cell.strip() else ", a missing value: fill it in or leave the row out"
    return missing + ("; names in line 1 must not be numbers." if first else ".")


def by_arrow(path: str, layout: Layout) -> tuple[NDArray[Any], Mapping[str, NDArray[Any]]] | None:
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
