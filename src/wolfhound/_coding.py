"""One pass over the columns of a table: numbers as they are, texts as places of their levels.

Private to `wolfhound.encoding`.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from wolfhound import _files
from wolfhound._arrays import ArrayAtoms
from wolfhound._columns import BATCH, TRUTHS, ColumnCells, ColumnSource, Kind
from wolfhound._csv import CsvTable
from wolfhound._exact import is_wide, require_exact
from wolfhound._files import widen
from wolfhound._spool import spool
from wolfhound.core import Atoms, Ids, Ints, Matrix, Vector
from wolfhound.progress import report_rows
from wolfhound.validate import require

MOST_LEVELS = 64
"""Levels of a category; more are names of rows."""


class EncodedColumn(NamedTuple):
    """A column that counts.

    Attributes
    ----------
    name : str
    levels : tuple of str
        Of a text, in sorted order; empty for a number.
    names : tuple of str
        Of the columns that it becomes.
    """

    name: str
    levels: tuple[str, ...]
    names: tuple[str, ...]


class Coder:
    """What a pass finds in one column: levels, missing values, sums."""

    def __init__(self, name: str, kind: Kind, levels: Sequence[str] = ()) -> None:
        self.name, self.is_text = name, kind in (Kind.TEXT, Kind.TRUTH)
        self._named, self._given = kind is Kind.TEXT, bool(levels)
        levels = TRUTHS if kind is Kind.TRUTH and not levels else levels
        self._places = {level: place for place, level in enumerate(levels)}
        self._fixed, self.width = bool(levels), 0
        self.gone, self.first_gone, self.rows = 0, -1, 0
        self.sums: Vector = np.zeros(0)
        self.at = 0
        self._masks: list[tuple[int, NDArray[np.uint8] | None]] = []
        self.dtype = np.dtype(np.float32)

    @property
    def levels(self) -> tuple[str, ...]:
        """Of a text, as they were found; at most one more than may be."""
        return tuple(self._places)

    @property
    def too_many(self) -> bool:
        """Whether there are more levels than a category has; they are then no longer counted."""
        return len(self._places) > MOST_LEVELS and not self._fixed

    def read(self, cells: ColumnCells) -> Matrix:
        """(r, w) of some rows, nan where a value is missing; w = 0 if no vector is there."""
        self.note(cells)
        values = self._read_texts(cells) if self.is_text else cells.values
        values = values[:, None] if values.ndim == 1 else values
        if not values.shape[1]:
            return np.zeros((len(values), 0), self.dtype)
        self.width = self.width or values.shape[1]
        require(values.shape[1] == self.width, self.name, f"vectors of length {self.width}", values.shape[1])
        self.dtype = np.result_type(self.dtype, widen(values.dtype, self.name))
        if is_wide(values.dtype):
            there = np.flatnonzero(~cells.missing)
            require_exact(values[there], self.name, there + (self.rows - len(values)))
        out = np.array(values, self.dtype)
        out[cells.missing] = np.nan
        self._check_finite(out)
        self._add(out[~cells.missing])
        return out

    def _check_finite(self, values: Matrix) -> None:
        bad = np.isinf(values).any(axis=1)
        if bad.any():
            row = self.rows - len(values) + int(bad.argmax())
            got = f"{values[bad][0][np.isinf(values[bad][0])][0]} in row {row}"
            raise ValueError(f"`{self.name}` must be a column of finite numbers. Got {got}.")

    def note(self, cells: ColumnCells) -> None:
        """Note which values are missing."""
        missing = cells.missing
        some = bool(missing.any())
        if some and not self.gone:
            self.first_gone = self.rows + int(missing.argmax())
        self.gone += int(missing.sum())
        self.rows += len(missing)
        # A bit per row: a file may have very many, and a text may yet be a name that does not count.
        self._masks.append((len(missing), np.packbits(missing) if some else None))

    def _read_texts(self, cells: ColumnCells) -> NDArray[np.float32]:
        if self.too_many:
            return np.zeros((len(cells.missing), 1), np.float32)
        used = np.zeros(max(len(cells.levels), 1), bool)
        used[cells.values[~cells.missing]] = True
        table = np.zeros(len(used), np.float32)
        for place in np.flatnonzero(used).tolist():
            level = cells.levels[place]
            if self._fixed:
                known = level in self._places
                rule = f"one of {', '.join(self.levels)}; or leave it out by `columns`"
                require(known, self.name, rule, repr(level))
            table[place] = self._places.setdefault(level, len(self._places))
            if len(self._places) > MOST_LEVELS and not self._fixed:
                break  # it is a name, and what is stored of it is not read
        return np.asarray(table[cells.values][:, None], np.float32)

    def _add(self, there: Matrix) -> None:
        """Sum what there is, for means: of a text how often each level comes."""
        if self.too_many:
            return
        if self.is_text:
            counts = np.bincount(there[:, 0].astype(np.int64), minlength=len(self._places))
            self.sums = np.concatenate([self.sums, np.zeros(len(counts) - len(self.sums))]) + counts
        else:
            with np.errstate(over="ignore", invalid="ignore"):
                sums = there.sum(axis=0, dtype=np.float64)
            self.sums = sums if not len(self.sums) else self.sums + sums

    def find_levels(self) -> Ints:
        """Return the places of the levels that rows have, or that were given, in sorted order."""
        every = range(len(self.levels)) if self._given else np.flatnonzero(self.sums).tolist()
        return np.array(sorted(every, key=self.levels.__getitem__), np.int64)

    def find_reason(self, names: bool) -> str:
        """Return why a text is no category; "" if it is one, or no text."""
        if self.too_many:
            return f"more than {MOST_LEVELS} different texts"
        there = self.rows - self.gone
        alone = self._named and names and len(self._places) == there > 1
        return "no text comes twice" if alone else "no values" if self.is_text and not there else ""

    def find_gone(self) -> NDArray[np.bool_]:
        """(rows,) whether the value is missing."""
        parts = [
            np.zeros(r, np.uint8) if bits is None else np.unpackbits(bits, count=r) for r, bits in self._masks
        ]
        return np.concatenate(parts).astype(np.bool_)


class StoredColumns(NamedTuple):
    """What a pass wrote down.

    Attributes
    ----------
    atoms : Atoms
        (rows, w) numbers and places, nan where a value is missing.
    rows : int
        Of the table.
    unlabelled, first_unlabelled : dict
        Of each column of labels, missing values and the first row that has one.
    gone : (rows,) bool
        Rows without a label.
    """

    atoms: Atoms
    rows: int
    unlabelled: dict[str, int]
    first_unlabelled: dict[str, int]
    gone: NDArray[np.bool_]

    def find_gone(self, coders: Sequence[Coder]) -> NDArray[np.bool_]:
        """(rows,) whether a label or a column that counts is missing."""
        out = self.gone.copy()
        for each in coders:
            out |= each.find_gone()
        return out

    def recount(self, coders: Sequence[Coder], keep: Ids) -> None:
        """Count the levels of these rows alone; there is none without a value."""
        texts = [each for each in coders if each.is_text]
        for each in texts:
            each.sums = np.zeros(len(each.levels))
        for first, block in self.atoms.blocks(BATCH) if texts else ():
            low, high = np.searchsorted(keep, (first, first + len(block)))
            rows = block[keep[low:high] - first]
            for each in texts:
                each.sums += np.bincount(rows[:, each.at].astype(np.int64), minlength=len(each.levels))


def store_columns(
    source: ColumnSource, coders: Sequence[Coder], labels: Sequence[str], called: str
) -> StoredColumns:
    """Read a table once; what is large and in files goes to a temporary file, coded."""
    marks = {name: Coder(name, Kind.NUMBER) for name in labels}
    if isinstance(source, CsvTable):
        counted = {each.name for each in coders}
        source = source.keep_texts([name for name in labels if name not in counted])

    held: list[list[Matrix]] = []  # until the length of every vector is known

    def read() -> Iterator[Matrix]:
        names = dict.fromkeys([each.name for each in coders] + list(labels))
        for batch in source.batches(list(names)):
            for name, mark in marks.items():
                mark.note(batch[name])
            held.append([each.read(batch[each.name]) for each in coders])
            if all(each.width for each in coders):
                yield from (_join(parts, coders) for parts in held)
                held.clear()
        empty = ", ".join(each.name for each in coders if not each.width)
        require(not held, called, "one with a value in every column that counts", f"none in {empty}")

    blocks = read()
    first = next(blocks, None)
    if first is None:
        raise ValueError(f"`{called}` must be a table with rows. Got none.")
    atoms = _keep(source, first, blocks)
    ends = np.cumsum([0, *(each.width for each in coders)])
    for each, at in zip(coders, ends.tolist(), strict=False):
        each.at = at
    rows = atoms.shape[0]
    gone = np.zeros(rows, np.bool_)
    for mark in marks.values():
        gone |= mark.find_gone()
    unlabelled = {name: mark.gone for name, mark in marks.items()}
    return StoredColumns(
        atoms, rows, unlabelled, {name: mark.first_gone for name, mark in marks.items()}, gone
    )


def _join(parts: Sequence[Matrix], coders: Sequence[Coder]) -> Matrix:
    """(r, w) columns side by side; nan for vectors of which there were none."""
    r = len(parts[0])
    pairs = zip(parts, coders, strict=True)
    wide = [part if part.shape[1] else np.full((r, each.width), np.nan, each.dtype) for part, each in pairs]
    return np.concatenate(wide, axis=1)


def _keep(source: ColumnSource, first: Matrix, blocks: Iterator[Matrix]) -> Atoms:
    """In memory, unless it is large and in files."""

    def every() -> Iterator[Matrix]:
        yield first
        yield from blocks

    large = not source.resident and source.size * first[:1].nbytes > _files.IN_MEMORY
    if large:
        return spool(every(), (source.size, first.shape[1]), first.dtype)
    parts = []
    for block in every():
        parts.append(block)
        report_rows(len(block))
    return ArrayAtoms(np.concatenate(parts))


class Expansion:
    """From what is stored to what counts: one-hot columns, means for what is missing; can be pickled.

    Parameters
    ----------
    coders
        The columns that count.
    one_hot
        Whether a text becomes a column for each level, rather than its place.
    fill
        Whether nan becomes the mean of its column.
    """

    def __init__(self, coders: Sequence[Coder], *, one_hot: bool, fill: bool) -> None:
        self._steps: list[tuple[int, int, Ints | None]] = []
        self._one_hot, columns, means = one_hot, [], []
        for each in coders:
            order = each.find_levels() if each.is_text else np.zeros(0, np.int64)
            levels = tuple(each.levels[place] for place in order)
            ranks = np.zeros(len(each.levels), np.int64)
            ranks[order] = np.arange(len(order))
            self._steps.append((each.at, each.width, ranks if each.is_text else None))
            columns.append(EncodedColumn(each.name, levels, self._name(each, levels)))
            means.append((each.sums[order] if each.is_text else each.sums) / max(each.rows - each.gone, 1))
        self.columns = tuple(columns)
        self.dim = sum(len(column.names) for column in columns)
        stored = sum(each.width for each in coders)
        self._fill = np.concatenate(means) if fill and any(each.gone for each in coders) else None
        in_order = [each.at for each in coders] == np.cumsum([0, *(c.width for c in coders)])[:-1].tolist()
        texts = any(each.is_text for each in coders)
        self._stored, self._in_order = stored, in_order and not texts and self._fill is None

    def _name(self, coder: Coder, levels: Sequence[str]) -> tuple[str, ...]:
        if coder.is_text:
            return tuple(f"{coder.name}={level}" for level in levels) if self._one_hot else (coder.name,)
        single = coder.width == 1
        return (coder.name,) if single else tuple(f"{coder.name}[{i}]" for i in range(coder.width))

    def is_plain(self, atoms: Atoms) -> bool:
        """Whether nothing is changed."""
        return self._in_order and atoms.shape[1] == self._stored

    def __call__(self, rows: Matrix) -> Matrix:
        """(r, dim) coded rows."""
        out = np.empty((len(rows), self.dim), rows.dtype)
        first = 0
        for (at, width, ranks), column in zip(self._steps, self.columns, strict=True):
            wide = len(column.names)
            here = out[:, first : first + wide]
            here[:] = rows[:, at : at + width] if ranks is None else self._code(rows[:, at], ranks, wide)
            first += wide
        if self._fill is not None:
            holes = np.isnan(out)
            out[holes] = np.broadcast_to(self._fill, out.shape)[holes]
        return out

    def _code(self, stored: Matrix, ranks: Ints, wide: int) -> Any:
        gone = np.isnan(stored)
        places = ranks[np.where(gone, 0, stored).astype(np.int64)]
        if not self._one_hot:
            return np.where(gone, np.nan, places)[:, None]
        coded = np.eye(wide, dtype=stored.dtype)[places]
        coded[gone] = np.nan
        return coded
