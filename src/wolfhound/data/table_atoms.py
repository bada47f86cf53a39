"""The rows of a table as atoms, what they were, and what is said of it.

Private: import the names from `wolfhound.data.encoding`, which makes them.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from wolfhound.core.contracts import Atoms, Ids, Matrix
from wolfhound.core.text import list_some
from wolfhound.core.validate import array, count, join_numbers, require
from wolfhound.data.files import lock
from wolfhound.data.tables import Kind, Table, find_free, find_kind, read_cells, unwrap

MISSING = "missing"
"""The level of texts and labels that are missing, and the name of the column that says where numbers are."""

SWAMPS = 100.0
"""A column with so many times the variance of half of the others leaves nothing to them."""

_PAIRS = ("missing", "coded", "carried")


# ---------------------------------------------------------------- what is said of it


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class TableReport:
    """What became of the rows and columns of a table.

    Attributes
    ----------
    rows : int
        Of the table.
    dropped : int
        Rows left out, because a value is missing.
    missing : tuple of (name, count)
        Missing values of the columns that count, or are labels.
    counted : tuple of str
        Columns that count.
    coded : tuple of (name, levels)
        Those of texts, categories and truths, and how many levels they have.
    carried : tuple of (name, reason)
        Columns that do not count, and why.
    swamping : (name, share), optional
        The column beside which half of the others hardly count in the squared distances between
        rows, where distances are what counts.
    marked : bool
        Whether missing values are levels of their own, and of numbers the mean and a column that says so.
    """

    rows: int
    dropped: int
    missing: tuple[tuple[str, int], ...]
    counted: tuple[str, ...]
    coded: tuple[tuple[str, int], ...]
    carried: tuple[tuple[str, str], ...]
    swamping: tuple[str, float] | None = None
    marked: bool = False

    @property
    def notes(self) -> tuple[tuple[str, str], ...]:
        """What a reader must know: (subject, sentence), nothing where all is plain."""
        out = []
        if self.missing:
            columns = list_some(f"{name} ({gone:,})" for name, gone in self.missing)
            many = sum(gone for _, gone in self.missing)
            done = f"{many:,} values {'are levels of their own' if self.marked else 'filled with means'}"
            if self.dropped:
                done = f"{self.dropped:,} of {self.rows:,} rows left out for missing values"
            out.append(("missing", f"{done}: {columns}"))
        if self.coded:
            out.append(("one-hot", list_some(f"{name} ({levels})" for name, levels in self.coded)))
        if self.carried:
            out.append(("carried", list_some(f"{name} ({why})" for name, why in self.carried)))
        if self.swamping is not None:
            name, share = self.swamping
            much = f"{name} makes up {math.floor(1000.0 * share) / 10.0:g} % of the squared distances"
            out.append(("scale", f"{much} between rows, half of the columns hardly anything: standardize"))
        return tuple(out)

    def to_json(self) -> dict[str, Any]:
        """Return JSON values."""
        return asdict(self)

    @classmethod
    def from_json(cls, saved: dict[str, Any] | None) -> TableReport | None:
        """Return the report of such values."""
        if saved is None:
            return None
        pairs = {name: tuple((str(key), value) for key, value in saved[name]) for name in _PAIRS}
        rows, dropped = (count(saved[name], name) for name in ("rows", "dropped"))
        one = saved["swamping"]
        swamping = None if one is None else (str(one[0]), float(one[1]))
        counted, marked = tuple(map(str, saved["counted"])), bool(saved.get("marked", False))
        return cls(rows=rows, dropped=dropped, counted=counted, swamping=swamping, marked=marked, **pairs)


# ---------------------------------------------------------------- rows, coded


class EncodedColumn(NamedTuple):
    """A column that counts: its levels, sorted, if it is of texts, and the columns that it becomes."""

    name: str
    levels: tuple[str, ...]
    names: tuple[str, ...]
    marked: bool = False  # missing values are a level, or have the last column


@final
class CodedAtoms:
    """Rows that a pass stored, coded each time they are read."""

    def __init__(self, stored: Atoms, expand: Callable[[Matrix], Matrix], dim: int) -> None:
        self.stored, self._expand = stored, expand
        self.shape, self.dtype = (stored.shape[0], dim), stored.dtype

    def take(self, ids: Ids) -> Matrix:
        """Return the rows of these places."""
        return self._expand(self.stored.take(ids))

    def blocks(self, rows: int) -> Iterator[tuple[int, Matrix]]:
        """Yield (first place, read-only block) over all kept rows once, in order."""
        for first, block in self.stored.blocks(rows):
            yield first, lock(self._expand(block))


@final
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class TableAtoms:
    """The rows of a table as atoms, and what they were.

    Ids of atoms are places among the rows that are kept; functions that take a table give the
    rows of the table itself.

    Attributes
    ----------
    atoms : Atoms
        Rows that are kept, coded.
    columns : tuple of EncodedColumn
        The columns that count.
    report : TableReport
        What became of the table.
    source : Table
        The table.
    ids : (r,) int64, optional
        Rows that are kept; None: all.
    """

    atoms: Atoms
    columns: tuple[EncodedColumn, ...]
    report: TableReport
    source: Table
    ids: Ids | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """(rows that are kept, coded columns)."""
        return self.atoms.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """float32 or float64."""
        return self.atoms.dtype

    @property
    def names(self) -> tuple[str, ...]:
        """Of the coded columns: age, carrier=AA, embedding[0]."""
        return tuple(name for column in self.columns for name in column.names)

    def take(self, ids: Ids) -> Matrix:
        """Return the coded rows of these places."""
        return self.atoms.take(ids)

    def blocks(self, rows: int) -> Iterator[tuple[int, Matrix]]:
        """Yield (first place, read-only block) over all kept rows once, in order."""
        return self.atoms.blocks(rows)

    def name_rows(self, places: Ids) -> Ids:
        """Return the rows of the table at these places."""
        return places if self.ids is None else self.ids[places]

    def find_places(self, rows: ArrayLike | None, name: str, *, strict: bool = True) -> Any:
        """Return the places of rows of the table; of rows left out none, refused if strict."""
        if rows is None or self.ids is None:
            return rows
        given = array(rows, name, "a vector of integer ids")
        if given.ndim != 1 or given.dtype.kind not in "iu":
            return given  # refused where ids are checked
        n = self.report.rows
        inside = bool(((given >= 0) & (given < n)).all())
        require(inside, name, f"ids in [0, {n})", f"{given.min(initial=0)} .. {given.max(initial=0)}")
        places = np.minimum(np.searchsorted(self.ids, given), len(self.ids) - 1)
        found = self.ids[places] == given
        gone = f"row {given[~found][:1]}, which has missing values"
        require(bool(found.all()) or not strict, name, "rows that are kept", gone)
        return places[found]

    def pick(self, values: Any, name: str) -> Any:
        """Return of one value per row of the table those of kept rows."""
        if values is None or self.ids is None:
            return values
        given = unwrap(values)
        n = self.report.rows
        require(len(given) == n, name, f"{n:,} values, one per row of the table", f"{len(given):,}")
        if isinstance(given, np.ndarray):
            return given[self.ids]
        return [given[i] for i in self.ids.tolist()]

    def read_labels(self, names: Sequence[str]) -> NDArray[Any]:
        """(r,) labels of the kept rows: one column, or several together; missing ones may be a label, too."""
        parts, kept = [], slice(None) if self.ids is None else self.ids
        for name in names:
            labels, missing = (each[kept] for each in read_column(self.source, name))
            rule = f"a column without missing values: encode(table, labels=[{name!r}]) leaves such rows out"
            require(self.report.marked or not missing.any(), "by", rule, f"{missing.sum():,} in {name}")
            parts.append(name_missing(labels, missing))
        return parts[0] if len(parts) == 1 else join_labels(parts)

    def take_rows(self, rows: Ids, **added: NDArray[Any]) -> Any:
        """Return rows of the table as it came, with columns added under names that are free."""
        taken = self.source.names
        return self.source.take(rows, {find_free(name, taken): values for name, values in added.items()})

    def find_swamping(self, rows: Matrix) -> tuple[str, float] | None:
        """Return the column beside which half of the others hardly count in distances, and its share."""
        with np.errstate(over="ignore", invalid="ignore"):
            spread = np.var(rows, axis=0, dtype=np.float64)
        spread[(rows == rows[:1]).all(axis=0)] = 0.0  # not what rounding leaves of a constant
        owners = np.repeat(np.arange(len(self.columns)), [len(column.names) for column in self.columns])
        each = np.bincount(owners, weights=spread, minlength=len(self.columns))
        varying = np.sort(each[each > 0.0])
        if len(varying) < 2 or not each.sum() < np.inf:
            return None
        most = int(each.argmax())
        middle = float(varying[(len(varying) - 1) // 2])
        share = float(each[most] / each.sum())
        return (self.columns[most].name, share) if each[most] > SWAMPS * middle else None

    def __repr__(self) -> str:
        """Shape, dtype, and what is to be known."""
        n, d = self.shape
        lines = [f"TableAtoms({n:,} x {d:,}, {self.dtype})"]
        return "\n".join([*lines, *(f"  {subject:<8} {text}" for subject, text in self.report.notes)])


@final
class RowAtoms:
    """The coded rows of a table by the ids that they have there; those left out cannot be taken."""

    def __init__(self, table: TableAtoms) -> None:
        self._table = table
        self.shape, self.dtype = (table.report.rows, table.shape[1]), table.dtype

    def take(self, ids: Ids) -> Matrix:
        """Return these rows of the table, coded."""
        return self._table.take(self._table.find_places(ids, "ids"))

    def blocks(self, rows: int) -> Iterator[tuple[int, Matrix]]:
        """Refuse: there are gaps."""
        raise ValueError("Rows that were left out cannot be read; read those of the table that are kept.")


def join_labels(parts: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """Return one label for those of several columns."""
    return np.array([str(labels) for labels in zip(*(part.tolist() for part in parts), strict=True)])


def name_missing(labels: NDArray[Any], missing: NDArray[np.bool_]) -> NDArray[Any]:
    """Labels of which those that are missing are one, too; as they were where none is."""
    return np.where(missing, MISSING, labels.astype(str)) if missing.any() else labels


def read_column(source: Table, name: str) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """(rows,) values of a column of labels, and where there are none: what stands there means nothing."""
    found, gone, kind = [], [], Kind.TEXT
    for column in source.label_arrays(name):
        kind = find_kind(column.type)
        cells = read_cells(column, kind, name)
        texts = np.array([str(level) for level in cells.levels] or [""], np.str_)
        found.append(texts[cells.values] if len(cells.levels) else cells.values)
        gone.append(cells.missing)
    labels, missing = join_numbers(found, name), np.concatenate(gone)
    require(labels.ndim == 1, "by", "columns of numbers or texts", f"vectors in {name}")
    if labels.dtype.kind == "f":  # a whole number beside missing ones, or in text, is still one
        there = labels[~missing]
        whole = bool((np.isfinite(there) & (there == np.floor(there)) & (np.abs(there) < 2.0**53)).all())
        return np.where(missing, 0.0, labels).astype(np.int64) if whole else labels, missing
    return labels == "True" if kind is Kind.TRUTH else labels, missing


def read_texts(source: Table, name: str, missing: str) -> list[str]:
    """Return a column of texts of all rows as they stand, with this text where there is none."""
    cells = (cell for column in source.text_arrays(name) for cell in column.to_pylist())
    return [missing if cell is None else str(cell) for cell in cells]
