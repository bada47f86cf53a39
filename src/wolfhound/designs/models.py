"""Which terms a model has: from rows of factors to rows of terms."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeAlias, final, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from wolfhound.atoms import ArrayAtoms, MappedAtoms, block_rows, check_finite
from wolfhound.core import Atoms, Ints, Matrix, Vector
from wolfhound.designs.factors import Column
from wolfhound.progress import report_rows
from wolfhound.validate import flag, require

KEPT = 512 << 20
"""Terms of all candidates up to so many bytes are kept in memory, else made anew in every pass."""


class Coding:
    """Numbers become (x - centre) / half; a category of L levels L - 1 columns of effects."""

    __slots__ = ("centre", "columns", "half")

    def __init__(self, columns: Sequence[Column], centre: Vector, half: Vector) -> None:
        self.columns, self.centre, self.half = tuple(columns), centre, half

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
        for j, column in enumerate(self.columns):
            values = rows[:, j]
            if len(column.levels) == 1:
                out.append(np.zeros((len(rows), 1), rows.dtype))
            elif column.levels:
                effects = np.eye(len(column.levels), len(column.levels) - 1, dtype=rows.dtype)
                effects[-1] = -1.0
                out.append(effects[_check_places(values, column)])
            else:
                centre, half = rows.dtype.type(self.centre[j]), rows.dtype.type(self.half[j])
                plain = centre == 0.0 and half == 1.0
                out.append((values if plain else (values - centre) / half)[:, None])
        return np.concatenate(out, axis=1)


def _check_places(values: Matrix, column: Column) -> Ints:
    places = np.nan_to_num(values, nan=-1.0).astype(np.int64)
    right = (places == values) & (places >= 0) & (places < len(column.levels))
    require(
        bool(right.all()), column.name, f"a place of one of {len(column.levels)} levels", values[~right][:1]
    )
    return np.asarray(places)


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


ModelLike: TypeAlias = TermModel | Callable[[Matrix], Any] | None
"""A model, a function of blocks of rows to blocks of terms, or None: rows are terms."""


@final
@dataclass(frozen=True, slots=True)
class LinearModel:
    """A constant and a term for each factor: 1 + x1 + x2 + ...

    Numbers beyond [-1, 1] are coded to it; a category of L levels has L - 1 terms, effects that sum
    to zero. Without a constant numbers are divided only, so that it is Scheffe's model of mixtures.
    """

    intercept: bool = True

    def __post_init__(self) -> None:
        flag(self.intercept, "intercept")

    def choose_pairs(self, owners: Ints, numbers: NDArray[np.bool_]) -> list[tuple[int, int]]:
        """None."""
        return []


@final
@dataclass(frozen=True, slots=True)
class Interactions:
    """`LinearModel` and all products of two factors."""

    intercept: bool = True

    def __post_init__(self) -> None:
        flag(self.intercept, "intercept")

    def choose_pairs(self, owners: Ints, numbers: NDArray[np.bool_]) -> list[tuple[int, int]]:
        """Columns of different factors."""
        pairs = itertools.combinations(range(len(owners)), 2)
        return [(i, j) for i, j in pairs if owners[i] != owners[j]]


@final
@dataclass(frozen=True, slots=True)
class Quadratic:
    """`Interactions` and the squares of all numbers."""

    intercept: bool = True

    def __post_init__(self) -> None:
        flag(self.intercept, "intercept")

    def choose_pairs(self, owners: Ints, numbers: NDArray[np.bool_]) -> list[tuple[int, int]]:
        """Columns of different factors, and each number with itself."""
        pairs = itertools.combinations_with_replacement(range(len(owners)), 2)
        return [(i, j) for i, j in pairs if owners[i] != owners[j] or (i == j and numbers[i])]


# ---------------------------------------------------------------- from factors to terms


class TermMap:
    """A function of blocks of factors to blocks of terms; can be pickled."""

    def __init__(self, model: TermModel, coding: Coding) -> None:
        owners = coding.owners
        numbers = np.array([not coding.columns[owner].levels for owner in owners])
        pairs = model.choose_pairs(owners, numbers)
        self.coding, self._constant = coding, model.intercept
        self._left, self._right = (np.array([pair[side] for pair in pairs], np.int64) for side in (0, 1))

    @property
    def names(self) -> tuple[str, ...]:
        """Of the terms."""
        single = self.coding.names
        double = [
            f"{single[i]}^2" if i == j else f"{single[i]}*{single[j]}"
            for i, j in zip(self._left, self._right, strict=True)
        ]
        return (*(["1"] if self._constant else []), *single, *double)

    def __call__(self, rows: Matrix) -> Matrix:
        """(r, d) terms."""
        coded = self.coding.code(rows)
        first = int(self._constant)
        single = first + coded.shape[1]
        out = np.empty((len(rows), single + len(self._left)), rows.dtype)
        out[:, :first] = 1.0
        out[:, first:single] = coded
        for at, (i, j) in enumerate(zip(self._left, self._right, strict=True), single):
            np.multiply(coded[:, i], coded[:, j], out=out[:, at])
        return out


def measure_coding(
    atoms: Atoms, columns: Sequence[Column], sample: Matrix, *, shift: bool
) -> tuple[Coding, float]:
    """Choose how numbers are coded, and by how many passes: one for ranges if a sample leaves [-1, 1]."""
    d = atoms.shape[1]
    numbers = np.array([not column.levels for column in columns])
    centre, half = np.zeros(d), np.ones(d)
    if not numbers.any() or np.abs(sample[:, numbers]).max(initial=0.0) <= 1.0:
        return Coding(columns, centre, half), 0.0
    low, high = measure_ranges(atoms)
    middle = 0.5 * (low + high) if shift else np.zeros(d)
    wide = 0.5 * (high - low) if shift else np.maximum(np.abs(low), np.abs(high))
    centre, half = np.where(numbers, middle, 0.0), np.where(numbers & (wide > 0.0), wide, 1.0)
    return Coding(columns, centre, half), 1.0


def measure_ranges(atoms: Atoms, name: str = "atoms") -> tuple[Vector, Vector]:
    """(d,) least and largest entry of every column; one pass."""
    low, high = np.full(atoms.shape[1], np.inf), np.full(atoms.shape[1], -np.inf)
    for first, block in atoms.blocks(block_rows(atoms, 4 << 20)):
        report_rows(len(block))
        check_finite(block, first, name)
        low, high = np.minimum(low, block.min(axis=0)), np.maximum(high, block.max(axis=0))
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


# ---------------------------------------------------------------- models that can be saved

MODELS: dict[str, type[LinearModel] | type[Interactions] | type[Quadratic]] = {
    "linear": LinearModel,
    "interactions": Interactions,
    "quadratic": Quadratic,
}
"""Models by the name that the command line and saved designs give them."""


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
            return _keep
        if self.kind not in MODELS:
            return None
        model: TermModel = MODELS[self.kind](self.intercept)
        return TermMap(model, Coding(self.columns, np.array(self.centre), np.array(self.half)))


def _keep(rows: Matrix) -> Matrix:
    return rows
