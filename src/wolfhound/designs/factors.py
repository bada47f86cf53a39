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

    levels: Mapping[str, Sequence[Any]]

    def __post_init__(self) -> None:
        kind(self.levels, "levels", "a mapping of names to levels", Mapping)
        require(len(self.levels) > 0, "levels", "at least one factor", "none")
        checked = {str(name): _check_levels(str(name), given) for name, given in self.levels.items()}
        object.__setattr__(self, "levels", checked)
        require(math.prod(map(len, checked.values())) < 2**62, "levels", "fewer than 2^62 combinations", "more")

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
class BesideAtoms:
    """Rows of numbers and, beside them, categories as places of their levels."""

    def __init__(self, numbers: Atoms | None, places: NDArray[np.float32]) -> None:
        require(numbers is None or numbers.shape[0] == len(places), "numbers", "as long as texts", "not")
        self._numbers, self._places = numbers, places

    @property
    def shape(self) -> tuple[int, int]:
        """(n, columns)."""
        wide = 0 if self._numbers is None else self._numbers.shape[1]
        return len(self._places), wide + self._places.shape[1]

    @property
    def dtype(self) -> np.dtype[Any]:
        """That of the numbers."""
        return np.dtype(np.float32) if self._numbers is None else self._numbers.dtype

    def take(self, ids: Ids) -> Matrix:
        """Return the rows of these ids."""
        ids = valid_ids(ids, len(self._places))
        parts = [self._places[ids].astype(self.dtype)]
        return np.concatenate(parts if self._numbers is None else [self._numbers.take(ids), *parts], axis=1)

    def blocks(self, rows: int) -> Iterator[tuple[int, Matrix]]:
        """Yield (first id, block) over all rows once, in order."""
        if self._numbers is None:
            for first in range(0, len(self._places), rows):
                yield first, lock(self._places[first : first + rows].copy())
            return
        for first, block in self._numbers.blocks(rows):
            beside = self._places[first : first + len(block)].astype(self.dtype)
            yield first, lock(np.concatenate([block, beside], axis=1))


def read_factors(value: AtomsLike, name: str, known: Sequence[Column] = ()) -> tuple[Atoms, tuple[Column, ...]]:
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
    if isinstance(value, Factors):
        found: tuple[Atoms, tuple[Column, ...]] = value, value.columns
    elif hasattr(value, "columns") and hasattr(value, "to_numpy"):
        names = [str(column) for column in value.columns]
        found = _read_columns({text: np.asarray(value[key]) for text, key in zip(names, value.columns, strict=True)}, name, known)
    elif isinstance(value, (str, os.PathLike)):
        found = _read_file(value, name, known)
    else:
        atoms = as_atoms(value, name)
        found = atoms, tuple(Column(f"x{i}") for i in range(1, atoms.shape[1] + 1))
    if known:
        wide = found[0].shape[1]
        require(wide == len(known), name, f"rows of {len(known)} columns, as the candidates", f"{wide} columns")
    return found[0], tuple(known) or found[1]


def _read_columns(
    columns: Mapping[str, NDArray[Any]], name: str, known: Sequence[Column]
) -> tuple[Atoms, tuple[Column, ...]]:
    require(len(columns) > 0 and len(next(iter(columns.values()))) > 0, name, "a table with rows", "none")
    if known:
        missing = [column.name for column in known if column.name not in columns]
        require(not missing, name, "a table with the columns of the candidates", f"none named {', '.join(missing)}")
        columns = {column.name: columns[column.name] for column in known}
    wanted = {column.name: column for column in known}
    kinds, rows = [], []
    for title, values in columns.items():
        kinds.append(_describe_column(title, values, name, wanted.get(title)))
        rows.append(_place(values, kinds[-1], name) if kinds[-1].levels else values.astype(np.float64))
    return ArrayAtoms(np.ascontiguousarray(np.stack(rows, axis=1))), tuple(kinds)


def _describe_column(title: str, values: NDArray[Any], name: str, known: Column | None) -> Column:
    if known is not None:
        return known
    if values.dtype.kind in "fiub":
        return Column(title)
    levels = tuple(dict.fromkeys(sorted(map(str, values.tolist()))))
    few = len(levels) <= MOST_LEVELS
    require(few, name, f"a table whose texts have at most {MOST_LEVELS} levels; leave out names", f"{len(levels):,} in {title}")
    return Column(title, levels)


def _place(values: NDArray[Any], column: Column, name: str) -> NDArray[np.float64]:
    """The places of texts among the levels."""
    places = {level: float(i) for i, level in enumerate(column.levels)}
    texts = list(map(str, values.tolist()))
    strange = [text for text in texts if text not in places]
    require(not strange, name, f"a table whose {column.name} is one of {', '.join(column.levels)}", repr(strange[:1]))
    return np.array([places[text] for text in texts])


def _read_file(path: Any, name: str, known: Sequence[Column]) -> tuple[Atoms, tuple[Column, ...]]:
    """Numbers stay in the file if they are many; texts are read."""
    table = open_table(path)
    if not table.names:
        atoms = join(table.parts(None))
        return atoms, tuple(Column(f"x{i}") for i in range(1, atoms.shape[1] + 1))
    wanted = {column.name: column for column in known}
    missing = [each for each in wanted if each not in table.names]
    require(not missing, name, "a table with the columns of the candidates", f"none named {', '.join(missing)}")
    numbers = [each.name for each in known if not each.levels] if known else list(table.numbers)
    texts = [each.name for each in known if each.levels] if known else list(table.texts)
    atoms = join(table.parts(numbers)) if numbers else None
    kinds = [Column(each) for each in numbers]
    places = []
    for title in texts:
        values = table.column(title)
        kinds.append(_describe_column(title, values, name, wanted.get(title)))
        places.append(_place(values, kinds[-1], name).astype(np.float32))
    if not places:
        require(atoms is not None, name, "a table with columns of numbers or texts", "none")
        return as_atoms(atoms if atoms is not None else path), tuple(kinds)
    return BesideAtoms(atoms, np.stack(places, axis=1)), tuple(kinds)
