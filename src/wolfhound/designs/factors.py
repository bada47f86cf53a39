"""What may be set in an experiment: columns of numbers or of categories, and grids of their levels.

Rows of factors are numbers throughout: a category is the place of its level.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from wolfhound._files import lock, valid_ids
from wolfhound.atoms import as_atoms
from wolfhound.core import Atoms, AtomsLike, Ids, Matrix
from wolfhound.encoding import (
    EncodedColumn,
    EncodingPlan,
    Missing,
    Table,
    TableAtoms,
    check_missing,
    encode_source,
    find_table,
)
from wolfhound.validate import array, as_floats, describe, kind, require


class Column(NamedTuple):
    """One factor."""

    name: str
    levels: tuple[str, ...] = ()  # of a category, in order; empty for a number

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
    values = values.astype(str) if values.dtype.kind in "OSU" else as_floats(values, rule)
    require(len(np.unique(values)) == len(values), rule, "distinct", "repeated levels")
    require(values.dtype.kind == "U" or bool(np.isfinite(values).all()), rule, "finite", describe(given))
    return values


# ---------------------------------------------------------------- whatever the caller has


def read_factors(
    value: AtomsLike, name: str, known: Sequence[Column] = (), options: FactorOptions | None = None
) -> tuple[Atoms, tuple[Column, ...]]:
    """Return rows of numbers, and what their columns are; texts of tables are categories.

    Given runs and regions must have the `known` columns of the candidates.
    """
    found: Atoms
    if isinstance(value, Factors):
        found, columns = value, value.columns
    elif isinstance(value, TableAtoms):
        asked = options is not None and (options.columns is not None or options.numeric_only)
        rule = "left out: these rows are coded already; give them to `encode`"
        require(not asked, "columns` and `numeric_only", rule, options)
        found, columns = value, _list_columns(value)
    elif (source := find_table(value)) is not None:
        table = _read_table(source, name, known, options or FactorOptions())
        found, columns = table, _list_columns(table)
    else:
        given = options is None or options.columns is None
        require(given, "columns", "None: these have no names", options and options.columns)
        found = as_atoms(value, name)
        columns = tuple(Column(f"x{i}") for i in range(1, found.shape[1] + 1))
    if known:
        wide, rule = found.shape[1], f"rows of {len(known)} columns, as the candidates"
        require(wide == len(known), name, rule, f"{wide} columns")
    return found, tuple(known) or columns


class FactorOptions(NamedTuple):
    """How a table becomes rows of factors: see `encode`."""

    columns: Sequence[str] | None = None
    missing: Missing = Missing.DROP
    numeric_only: bool = False


def _read_table(source: Table, name: str, known: Sequence[Column], options: FactorOptions) -> TableAtoms:
    """Rows of factors, numbers first; a text is the place of its level."""
    check_missing(options.missing)
    like = tuple(EncodedColumn(column.name, column.levels, (column.name,)) for column in known)
    plan = EncodingPlan(
        missing=options.missing,
        numeric_only=options.numeric_only,
        places=True,
        names=False,
        like=like,
        called=name,
    )
    return encode_source(source, plan, None if like else options.columns)


def _list_columns(table: TableAtoms) -> tuple[Column, ...]:
    """The factors of a table; columns that are one-hot already are numbers."""
    coded = [column.levels if column.names == (column.name,) else () for column in table.columns]
    pairs = zip(table.columns, coded, strict=True)
    return tuple(Column(name, levels) for column, levels in pairs for name in column.names)
