"""What may be set in an experiment, and the terms that a model makes of it.

Rows of factors are numbers throughout: a category is the place of its level. A model codes them and
multiplies pairs of coded columns: rows of terms.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Protocol, TypeAlias, final, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from wolfhound.core.contracts import Atoms, AtomsLike, Ids, Ints, Matrix, Vector
from wolfhound.core.validate import array, as_floats, describe, flag, kind, require
from wolfhound.data.atoms import ArrayAtoms, MappedAtoms, as_atoms, block_rows, map_blocks
from wolfhound.data.encoding import (
    EncodedColumn,
    EncodingPlan,
    Missing,
    TableAtoms,
    encode_source,
    find_table,
)
from wolfhound.data.files import import_extra, lock, valid_ids
from wolfhound.solve.result import make_frame

# Terms of all candidates up to so many bytes are kept in memory, else made anew in every pass.
KEPT = 512 << 20
MOST_ROWS = 10_000_000  # combinations, or runs, up to which a table of all is made unasked


class Column(NamedTuple):
    """One factor."""

    name: str
    levels: tuple[str, ...] = ()  # of a category, in order; empty for a number

    def show(self, value: float) -> str:
        """A value as the user wrote it."""
        return self.levels[int(value)] if self.levels else f"{value:.6g}"


def show_settings(columns: Sequence[Column], settings: Matrix) -> dict[str, NDArray[Any]]:
    """Columns of numbers, and of texts as the user wrote them."""
    return {
        column.name: np.array(column.levels)[values.astype(np.int64)] if column.levels else values
        for column, values in zip(columns, settings.T, strict=True)
    }


def name_columns(width: int) -> tuple[Column, ...]:
    """Numbers without names: x1, x2, ..."""
    return tuple(Column(f"x{i}") for i in range(1, width + 1))


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
        require(self.shape[0] < 2**62, "levels", "fewer than 2^62 combinations", "more")

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
        return math.prod(map(len, self.levels.values())), len(self.levels)

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

    def to_frame(self) -> Any:
        """Return a pandas DataFrame of all combinations, a row each, as the levels were written."""
        rule = f"at most {MOST_ROWS:,} combinations to be a frame; give ids to `take`"
        require(self.shape[0] <= MOST_ROWS, "levels", rule, f"{self.shape[0]:,}")
        return make_frame(show_settings(self.columns, self._decode(np.arange(self.shape[0]))))

    def __repr__(self) -> str:
        """How many levels each factor has."""
        return f"Factors({', '.join(f'{name}: {len(values)}' for name, values in self.levels.items())})"

    def _items(self) -> list[tuple[str, NDArray[Any]]]:
        return [(name, np.asarray(values)) for name, values in self.levels.items()]

    def _decode(self, ids: Ids) -> Matrix:
        out, left = np.empty((len(ids), len(self.levels))), ids
        for j, (_, values) in reversed(list(enumerate(self._items()))):
            left, place = np.divmod(left, len(values))
            out[:, j] = place if values.dtype.kind == "U" else values[place]
        return out


def _check_levels(name: str, given: Any) -> NDArray[Any]:
    what, rule = f"levels of {name}", "a list of numbers or texts"
    values = array(given, what, rule)
    require(values.ndim == 1 and len(values) > 0, what, rule, describe(given))
    values = values.astype(str) if values.dtype.kind in "OSU" else as_floats(values, what)
    require(len(np.unique(values)) == len(values), what, "distinct", "repeated levels")
    require(values.dtype.kind == "U" or bool(np.isfinite(values).all()), what, "finite", describe(given))
    return values


def read_factors(
    value: AtomsLike,
    name: str,
    known: Sequence[Column] = (),
    *,
    columns: Sequence[str] | str | None = None,
    missing: Missing = Missing.DROP,
    numeric_only: bool = False,
) -> tuple[Atoms, tuple[Column, ...]]:
    """Return rows of numbers, and what their columns are; texts of tables are categories.

    Given runs and regions must have the `known` columns of the candidates. The options are those of
    `encode`, for tables.
    """
    found: Atoms
    if isinstance(value, Factors):
        found, named = value, value.columns
    elif isinstance(value, TableAtoms):
        rule = "left out: these rows are coded already; give them to `encode`"
        asked = columns is not None or numeric_only
        require(not asked, "columns` and `numeric_only", rule, f"{columns}, {numeric_only}")
        found, named = value, _list_columns(value)
    elif (source := find_table(value)) is not None:
        like = tuple(EncodedColumn(column.name, column.levels, (column.name,)) for column in known)
        plan = EncodingPlan(missing=missing, numeric_only=numeric_only, places=True, like=like, called=name)
        table = encode_source(source, plan, None if like else columns)
        found, named = table, _list_columns(table)
    else:
        require(columns is None, "columns", "None: these have no names", columns)
        found = as_atoms(value, name)
        named = name_columns(found.shape[1])
    if known:
        wide, rule = found.shape[1], f"rows of {len(known)} columns, as the candidates"
        require(wide == len(known), name, rule, f"{wide} columns")
    return found, tuple(known) or named


def _list_columns(table: TableAtoms) -> tuple[Column, ...]:
    """The factors of a table; columns that are one-hot already are numbers."""
    coded = [column.levels if column.names == (column.name,) else () for column in table.columns]
    pairs = zip(table.columns, coded, strict=True)
    return tuple(Column(name, levels) for column, levels in pairs for name in column.names)


# ---------------------------------------------------------------- models


@runtime_checkable
class TermModel(Protocol):
    """Which products of coded columns are terms."""

    @property
    def intercept(self) -> bool:
        """Whether there is a constant term."""

    def choose_pairs(self, owners: Ints, numbers: NDArray[np.bool_]) -> list[tuple[int, int]]:
        """Pairs of coded columns whose product is a term.

        Of each column `owners` has the factor, and `numbers` whether it is one of numbers.
        """


# A model, a function of blocks of rows to blocks of terms, or None: rows are terms.
ModelLike: TypeAlias = TermModel | Callable[[Matrix], Any] | None


@dataclass(frozen=True, slots=True)
class Polynomial:
    """What the models of this room share: a constant or none, and which products they have."""

    crossed: ClassVar[bool] = False  # those of two factors
    squared: ClassVar[bool] = False  # those of a number with itself
    intercept: bool = True

    def __post_init__(self) -> None:
        flag(self.intercept, "intercept")

    def choose_pairs(self, owners: Ints, numbers: NDArray[np.bool_]) -> list[tuple[int, int]]:
        """Return the pairs of coded columns, see `TermModel`."""
        pairs = itertools.combinations_with_replacement(range(len(owners)), 2) if self.crossed else ()
        squares = numbers & self.squared
        return [(i, j) for i, j in pairs if owners[i] != owners[j] or (i == j and squares[i])]


@final
@dataclass(frozen=True, slots=True)
class LinearModel(Polynomial):
    """A constant and a term for each factor: 1 + x1 + x2 + ...

    Numbers beyond [-1, 1] are coded to it; a category of L levels has L - 1 terms, effects that sum
    to zero. Without a constant numbers are divided only, so that it is Scheffe's model of mixtures.
    """


@final
@dataclass(frozen=True, slots=True)
class Interactions(Polynomial):
    """`LinearModel` and all products of two factors."""

    crossed: ClassVar[bool] = True


@final
@dataclass(frozen=True, slots=True)
class Quadratic(Polynomial):
    """`Interactions` and the squares of all numbers."""

    crossed: ClassVar[bool] = True
    squared: ClassVar[bool] = True


MODELS: dict[str, type[Polynomial]] = {
    "linear": LinearModel,
    "interactions": Interactions,
    "quadratic": Quadratic,
}
"""Models by the name that the command line and saved designs give them."""


# ---------------------------------------------------------------- from factors to terms


class Coding(NamedTuple):
    """Numbers become (x - centre) / half; a category of L levels L - 1 columns of effects."""

    columns: tuple[Column, ...]
    centre: Vector
    half: Vector

    @property
    def owners(self) -> Ints:
        """(c,) which factor each coded column belongs to."""
        widths = [max(1, len(column.levels) - 1) for column in self.columns]
        return np.repeat(np.arange(len(widths)), widths)

    @property
    def names(self) -> list[str]:
        """Of the coded columns."""
        return [
            name
            for column in self.columns
            for name in ([f"{column.name}[{level}]" for level in column.levels[:-1]] or [column.name])
        ]

    def code(self, rows: Matrix) -> Matrix:
        """(r, c) coded columns, in the precision of the rows."""
        out = []
        for j, (name, levels) in enumerate(self.columns):
            values, size = rows[:, j], len(levels)
            if size == 1:
                out.append(np.zeros((len(rows), 1), rows.dtype))
            elif levels:
                places = np.nan_to_num(values, nan=-1.0).astype(np.int64)
                right = (places == values) & (places >= 0) & (places < size)
                require(bool(right.all()), name, f"a place of one of {size} levels", values[~right][:1])
                effects = np.eye(size, size - 1, dtype=rows.dtype)
                effects[-1] = -1.0
                out.append(effects[places])
            else:
                centre, half = rows.dtype.type(self.centre[j]), rows.dtype.type(self.half[j])
                plain = centre == 0.0 and half == 1.0
                out.append((values if plain else (values - centre) / half)[:, None])
        return np.concatenate(out, axis=1)


class TermMap:
    """A function of blocks of factors to blocks of terms; can be pickled."""

    def __init__(self, model: TermModel, coding: Coding) -> None:
        owners = coding.owners
        numbers = np.array([not coding.columns[owner].levels for owner in owners])
        self.coding, self._constant = coding, model.intercept
        self._pairs = model.choose_pairs(owners, numbers)

    @property
    def names(self) -> tuple[str, ...]:
        """Of the terms."""
        single = self.coding.names
        double = [f"{single[i]}^2" if i == j else f"{single[i]}*{single[j]}" for i, j in self._pairs]
        return (*(["1"] if self._constant else []), *single, *double)

    def __call__(self, rows: Matrix) -> Matrix:
        """(r, d) terms."""
        coded = self.coding.code(rows)
        first = int(self._constant)
        single = first + coded.shape[1]
        out = np.empty((len(rows), single + len(self._pairs)), rows.dtype)
        out[:, :first] = 1.0
        out[:, first:single] = coded
        for at, (i, j) in enumerate(self._pairs, single):
            np.multiply(coded[:, i], coded[:, j], out=out[:, at])
        return out


def measure_coding(
    atoms: Atoms, columns: tuple[Column, ...], sample: Matrix, *, shift: bool
) -> tuple[Coding, float]:
    """Choose how numbers are coded, and by how many passes: one for ranges if a sample leaves [-1, 1]."""
    d = atoms.shape[1]
    numbers = np.array([not column.levels for column in columns])
    if not numbers.any() or np.abs(sample[:, numbers]).max(initial=0.0) <= 1.0:
        return Coding(columns, np.zeros(d), np.ones(d)), 0.0
    low, high = measure_ranges(atoms)
    middle = 0.5 * (low + high) if shift else np.zeros(d)
    wide = 0.5 * (high - low) if shift else np.maximum(np.abs(low), np.abs(high))
    centre, half = np.where(numbers, middle, 0.0), np.where(numbers & (wide > 0.0), wide, 1.0)
    return Coding(columns, centre, half), 1.0


def measure_ranges(atoms: Atoms, name: str = "atoms") -> tuple[Vector, Vector]:
    """(d,) least and largest entry of every column; one pass."""
    low, high = np.full(atoms.shape[1], np.inf), np.full(atoms.shape[1], -np.inf)
    ends = map_blocks(atoms, lambda _, block: (block.min(axis=0), block.max(axis=0)), name=name)
    for _, (least, most) in ends:
        low, high = np.minimum(low, least), np.maximum(high, most)
    return low, high


def map_terms(atoms: Atoms, terms: Callable[[Matrix], Any], d: int, dtype: np.dtype[Any]) -> Atoms:
    """Return the atoms of terms: kept in memory if they are few, else made in every pass."""
    mapped = MappedAtoms(atoms, terms, d, dtype)
    n = atoms.shape[0]
    if n * d * dtype.itemsize > KEPT:
        return mapped
    out = np.empty((n, d), dtype)
    for first, block in mapped.blocks(block_rows(mapped, 4 << 20)):
        out[first : first + len(block)] = block
    return ArrayAtoms(out)


class ModelSpec(NamedTuple):
    """How rows of factors become rows of terms, in values that can be saved."""

    kind: str  # a key of `MODELS`; "terms": rows are terms; "function": one of the caller's
    intercept: bool
    columns: tuple[Column, ...]
    terms: tuple[str, ...]  # their names
    centre: tuple[float, ...] = ()  # with `half`: how numbers are coded
    half: tuple[float, ...] = ()

    def make_map(self) -> Callable[[Matrix], Matrix] | None:
        """The function of rows to terms; None if it is the caller's."""
        if self.kind == "terms":
            return lambda rows: rows
        if self.kind not in MODELS:
            return None
        coding = Coding(self.columns, np.array(self.centre), np.array(self.half))
        return TermMap(MODELS[self.kind](self.intercept), coding)


# ---------------------------------------------------------------- texts over factors


EXAMPLE = '"1 + t * p + C(catalyst)"'


def show_frame(columns: Sequence[Column], settings: Matrix) -> Any:
    """Return rows of factors as a frame of pandas; categories know all their levels, whichever are there."""
    pandas = import_extra("pandas", "a formula", "data")
    frame, dtype = pandas.DataFrame(show_settings(columns, settings)), pandas.CategoricalDtype
    return frame.astype({column.name: dtype(column.levels) for column in columns if column.levels})


@final
class Formula:
    """A function of blocks of factors to blocks of terms, as a formula says; can be pickled.

    What a term learns from data, such as the mean of ``center(t)``, it learns from a sample, once.
    """

    def __init__(self, text: str, columns: Sequence[Column], sample: Matrix) -> None:
        formulaic = import_extra("formulaic", "a formula for `model`", "formulas")
        self._columns = tuple(columns)
        rule = f"a formula of {', '.join(column.name for column in columns)}, such as {EXAMPLE}"
        try:
            made = formulaic.model_matrix(text, show_frame(columns, sample), context={}, output="numpy")
        except (formulaic.errors.FormulaicError, SyntaxError, ValueError, TypeError) as error:
            why = str(error).partition("\n")[0]
            raise ValueError(f"`model` must be {rule}. Got {describe(text)}: {why}") from None
        require(isinstance(made, formulaic.ModelMatrix), "model", f"{rule}, without a left side", text)
        self._spec: Any = made.model_spec
        require(bool(self.names), "model", f"{rule}, with at least one term", text)

    @property
    def names(self) -> tuple[str, ...]:
        """Of the terms."""
        return tuple("1" if name == "Intercept" else str(name) for name in self._spec.column_names)

    def __call__(self, rows: Matrix) -> Matrix:
        """(r, d) terms."""
        made = self._spec.get_model_matrix(show_frame(self._columns, rows), context={})
        return np.asarray(made, rows.dtype)


@final
class Expression:
    """A function of factors by name to truths, as an expression says: "t > 80 and catalyst == 'Pd'"."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __call__(self, settings: dict[str, Any]) -> Any:
        """(r,) truths."""
        frame = import_extra("pandas", "an expression", "data").DataFrame(settings)
        try:
            return np.asarray(frame.eval(self._text, engine="python"))
        except (NameError, SyntaxError, TypeError, ValueError, AttributeError, KeyError) as error:
            rule = f"an expression of {', '.join(settings)}, such as \"t > 80 and catalyst == 'Pd'\""
            raise ValueError(f"`exclude` must be {rule}. Got {self._text!r}: {error}.") from None
