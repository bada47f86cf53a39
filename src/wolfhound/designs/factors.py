"""What may be set in an experiment: columns of numbers or of categories, and grids of their levels.

Rows of factors are numbers throughout: a category is the place of its level.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from wolfhound._files import lock, valid_ids
from wolfhound.atoms import ArrayAtoms, as_atoms, join
from wolfhound.core import Atoms, AtomsLike, Ids, Matrix
from wolfhound.tables import open_table
from wolfhound.validate import array, describe, kind, require

MOST_LEVELS = 64
"""Levels of a category; more are a name of the row."""


class Column(NamedTuple):
    """One factor.

    Attributes
    ----------
    name : str
    levels : tuple of str
        Of a category, in order; empty for a number.
    """

    name: str
    levels: tuple[str, ...] = ()

    def show(self, value: float) -> str:
        """A value as the user wrote it."""
        return self.levels[int(value)] if self.levels else f"{value:.6g}"


@final
@dataclass(frozen=True, slots=True, eq=False)
class Factors:
    """Every combination of the levels of some factors, as candidates; made when they are read.

    Numbers are used as numbers, texts as categories. The last factor turns fastest.

    Parameters
    ----------
    levels
        Name -> its levels: distinct numbers, or distinct texts.

    Examples
    --------
    >>> grid = Factors({"temperature": [20.0, 30.0, 40.0], "catalyst": ["none", "Pd"]})
    >>> grid.shape, grid.take(np.array([0, 5]))
    ((6, 2), array([[20.,  0.],
           [40.,  1.]]))
    """

    levels: Mapping[str, Sequence[Any] | NDArray[Any]]

    def __post_init__(self) -> None:
        kind(self.levels, "levels", "a mapping of names to levels", Mapping)
        require(len(self.levels) > 0, "levels", "at least one factor", "none")
        checked = {str(name): _check_levels(str(name), given) for name, given in self.levels.items()}
        object.__setattr__(self, "levels", checked)
        require(
            math.prod(map(len, checked.values())) < 2**62, "levels", "fewer than 2^62 combinations", "more"
        )

    @property
    def columns(self) -> tuple[Column, ...]:
        """The factors."""
        return tuple(
            Column(name, tuple(map(str, values)) if values.dtype.kind == "U" else ())
            for name, values in self._items()
        )

    @property
    def shape(self) -> tuple[int, int]:
        """(combinations, factors)."""
        return math.prod(len(values) for _, values in self._items()), len(self.levels)

    @property
    def dtype(self) -> np.dtype[Any]:
        """float64."""
        return np.dtype(np.float64)

    def take(self, ids: Ids) -> Matrix:
        """Return the combinations of these ids."""
        return self._decode(valid_ids(ids, self.shape[0]))

    def blocks(self, rows: int) -> Iterator[tuple[int, Matrix]]:
        """Yield (first id, block) over all combinations once, in order."""
        n = self.shape[0]
        for first in range(0, n, rows):
            yield first, lock(self._decode(np.arange(first, min(n, first + rows), dtype=np.int64)))

    def __repr__(self) -> str:
        """How many levels each factor has."""
        sizes = ", ".join(f"{name}: {len(values)}" for name, values in self._items())
        return f"Factors({sizes})"

    def _items(self) -> list[tuple[str, NDArray[Any]]]:
        return [(name, np.asarray(values)) for name, values in self.levels.items()]

    def _decode(self, ids: Ids) -> Matrix:
        out = np.empty((len(ids), len(self.levels)))
        left = ids.copy()
        for j, (_, values) in reversed(list(enumerate(self._items()))):
            place = left % len(values)
            out[:, j] = place if values.dtype.kind == "U" else values[place]
            left //= len(values)
        return out


def _check_levels(name: str, given: Any) -> NDArray[Any]:
    rule = f"levels of {name}"
    values = array(given, rule, "a list of numbers or texts")
    require(values.ndim == 1 and len(values) > 0, rule, "a list of numbers or texts", describe(given))
    values = values.astype(str) if values.dtype.kind in "OSU" else values.astype(np.float64)
    require(len(np.unique(values)) == len(values), rule, "distinct", "repeated levels")
    require(values.dtype.kind == "U" or bool(np.isfinite(values).all()), rule, "finite", describe(given))
    return values


# ---------------------------------------------------------------- whatever the caller has


@final
class FactorTable:
    """Rows of factors in a file or a frame, and what their columns are: atoms.

    Parameters
    ----------
    numbers
        Atoms, which may stay in a file; None if all columns are categories.
    places : (n, c)
        Categories, as places of their levels: the last columns.
    columns
        All columns.
    """

    def __init__(self, numbers: Atoms | None, places: Matrix, columns: Sequence[Column]) -> None:
        self._numbers, self._places, self.columns = numbers, places, tuple(columns)

    @property
    def shape(self) -> tuple[int, int]:
        """(n, columns)."""
        n = len(self._places) if self._numbers is None else self._numbers.shape[0]
        return n, len(self.columns)

    @property
    def dtype(self) -> np.dtype[Any]:
        """That of the numbers."""
        return np.dtype(np.float32) if self._numbers is None else self._numbers.dtype

    def take(self, ids: Ids) -> Matrix:
        """Return the rows of these ids."""
        ids = valid_ids(ids, self.shape[0])
        return self._join(None if self._numbers is None else self._numbers.take(ids), self._places[ids])

    def blocks(self, rows: int) -> Iterator[tuple[int, Matrix]]:
        """Yield (first id, block) over all rows once, in order."""
        if self._numbers is None:
            for first in range(0, len(self._places), rows):
                yield first, lock(self._join(None, self._places[first : first + rows]))
            return
        for first, block in self._numbers.blocks(rows):
            yield first, lock(self._join(block, self._places[first : first + len(block)]))

    def _join(self, numbers: Matrix | None, places: Matrix) -> Matrix:
        beside = places.astype(self.dtype)
        return beside if numbers is None else np.concatenate([numbers, beside], axis=1)


def read_factors(
    value: AtomsLike, name: str, known: Sequence[Column] = ()
) -> tuple[Atoms, tuple[Column, ...]]:
    """Return rows of numbers, and what their columns are.

    Parameters
    ----------
    value
        Factors, atoms, an array, a frame, or a path; texts of frames and files are categories.
    name
        What the caller calls it.
    known
        Columns that it must have: those of the candidates, for given runs and regions.
    """
    found: Atoms
    frame: Any = value
    if isinstance(value, (Factors, FactorTable)):
        found, columns = value, value.columns
    elif hasattr(frame, "columns") and hasattr(frame, "to_numpy"):
        found = _read_columns({str(key): np.asarray(frame[key]) for key in frame.columns}, name, known)
        columns = found.columns
    elif isinstance(value, (str, os.PathLike)):
        found = open_factors(value, name, known=known)
        columns = found.columns
    else:
        found = as_atoms(value, name)
        columns = _number_columns(found.shape[1])
    if known:
        wide, rule = found.shape[1], f"rows of {len(known)} columns, as the candidates"
        require(wide == len(known), name, rule, f"{wide} columns")
    return found, tuple(known) or columns


def open_factors(
    path: str | os.PathLike[str], name: str, *, wanted: Sequence[str] = (), known: Sequence[Column] = ()
) -> FactorTable:
    """Open a file; its numbers stay there if they are many, its texts are read.

    Parameters
    ----------
    path
        .npy, .npz, .csv or .parquet.
    name
        What the caller calls it.
    wanted
        Names of the columns to use; none: all of numbers and texts.
    known
        As in `read_factors`.
    """
    table = open_table(path)
    if not table.names:
        require(not wanted, "columns", "none: .npy and .npz files have no names", ", ".join(wanted))
        atoms = join(table.parts(None))
        return FactorTable(atoms, np.empty((atoms.shape[0], 0)), _number_columns(atoms.shape[1]))
    asked = {column.name: column for column in known}
    names = list(asked) or list(wanted) or [*table.numbers, *table.texts]
    missing = [each for each in names if each not in table.names]
    require(not missing, name, f"a table with a column {missing[:1]}", f"columns {', '.join(table.names)}")
    texts = [each for each in names if (each in asked and asked[each].levels) or each in table.texts]
    numbers = [each for each in names if each not in texts]
    require(
        not known or [*numbers, *texts] == names,
        name,
        "a table with numbers where the candidates have them",
        "texts",
    )
    kinds, places = [Column(each) for each in numbers], []
    for title in texts:
        values = table.column(title)
        kinds.append(_describe_column(title, values, name, asked.get(title)))
        places.append(_place(values, kinds[-1], name))
    held = join(table.parts(numbers)) if numbers else None
    require(bool(kinds), name, "a table with columns of numbers or texts", "none")
    n = len(places[0]) if held is None else held.shape[0]
    return FactorTable(held, np.stack(places, axis=1) if places else np.empty((n, 0)), kinds)


def _number_columns(count: int) -> tuple[Column, ...]:
    return tuple(Column(f"x{i}") for i in range(1, count + 1))


def _read_columns(columns: Mapping[str, NDArray[Any]], name: str, known: Sequence[Column]) -> FactorTable:
    """Columns of a frame; numbers first, as files have them."""
    require(len(columns) > 0 and len(next(iter(columns.values()))) > 0, name, "a table with rows", "none")
    asked = {column.name: column for column in known}
    missing = [each for each in asked if each not in columns]
    require(not missing, name, f"a table with a column {missing[:1]}", f"columns {', '.join(columns)}")
    kinds = [_describe_column(title, columns[title], name, asked.get(title)) for title in (asked or columns)]
    kinds = sorted(kinds, key=lambda column: bool(column.levels))
    numbers = [_read_numbers(columns[each.name], each.name, name) for each in kinds if not each.levels]
    places = [_place(columns[each.name], each, name) for each in kinds if each.levels]
    n = len(columns[kinds[0].name])
    atoms = ArrayAtoms(np.ascontiguousarray(np.stack(numbers, axis=1))) if numbers else None
    return FactorTable(atoms, np.stack(places, axis=1) if places else np.empty((n, 0)), kinds)


def _read_numbers(values: NDArray[Any], title: str, name: str) -> NDArray[np.float64]:
    require(values.dtype.kind in "fiub", name, f"a table whose {title} is a column of numbers", values.dtype)
    return values.astype(np.float64)


def _describe_column(title: str, values: NDArray[Any], name: str, known: Column | None) -> Column:
    if known is not None:
        return known
    if values.dtype.kind in "fiub":
        return Column(title)
    levels = tuple(sorted(set(map(str, values.tolist()))))
    rule = f"a table whose texts have at most {MOST_LEVELS} levels; leave names of rows out"
    require(len(levels) <= MOST_LEVELS, name, rule, f"{len(levels):,} in {title}")
    return Column(title, levels)


def _place(values: NDArray[Any], column: Column, name: str) -> NDArray[np.float64]:
    """The places of texts among the levels."""
    places = {level: float(i) for i, level in enumerate(column.levels)}
    texts = list(map(str, values.tolist()))
    strange = [text for text in texts if text not in places]
    rule = f"a table whose {column.name} is one of {', '.join(column.levels)}"
    require(not strange, name, rule, repr(strange[:1]))
    return np.array([places[text] for text in texts])
