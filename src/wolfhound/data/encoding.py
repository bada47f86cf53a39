"""How a table becomes atoms: which columns count, how texts are coded, what a missing value does.

The one place that knows. One pass over batches stores numbers and the places of texts among their
levels, nan where a value is missing; rows are left out, filled and coded as they are read, so a file
may be far larger than memory. A null, a nan and a text of `BLANKS` are the same in every format.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import enum
import itertools
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from wolfhound.core.contracts import Atoms, Ids, Ints, Matrix, Vector
from wolfhound.core.progress import report_rows
from wolfhound.core.text import list_some
from wolfhound.core.validate import describe, hint_keywords, join_numbers, require, require_exact
from wolfhound.data import files
from wolfhound.data.datasets import read_rows, weigh_rows
from wolfhound.data.files import ArrayAtoms, KeptAtoms, spool, widen
from wolfhound.data.table_atoms import (
    MISSING,
    CodedAtoms,
    EncodedColumn,
    TableAtoms,
    TableReport,
    join_labels,
    name_missing,
    read_column,
    read_texts,
)
from wolfhound.data.table_files import ArrayTable, CsvTable, FileTable, open_table
from wolfhound.data.tables import (
    BATCH,
    TRUTHS,
    ColumnCells,
    Kind,
    Table,
    check_columns,
    find_frame,
    read_cells,
)

__all__ = ["EncodedColumn", "Missing", "Table", "TableAtoms", "TableReport", "encode"]
__all__ += ["join_labels", "name_missing", "read_column", "read_texts"]

MOST_LEVELS = 64
"""Levels of a category; more are names of rows."""

KEPT = 256 << 20
"""Coded rows up to so many bytes are kept in memory, else made anew in every pass."""


class Missing(enum.Enum):
    """What happens to rows in which a column that counts has no value."""

    DROP = "drop"
    MEAN = "mean"
    LEVEL = "level"
    ERROR = "error"


_FILLS = (Missing.MEAN, Missing.LEVEL)


# ---------------------------------------------------------------- from a table to atoms


def find_table(value: Any) -> Table | None:
    """Return a frame, a table of Arrow, or a file with named columns, as a table; None for others."""
    if type(value) is np.ndarray and value.dtype.names is None:
        return None  # at once, as `as_atoms` takes it
    paths = value if isinstance(value, (list, tuple)) and value else [value]
    if all(isinstance(path, (str, os.PathLike)) for path in paths):
        if paths is value and len({os.path.splitext(path)[1].lower() for path in paths}) > 1:
            return None  # files of several kinds are atoms, one after the other
        table = open_table(value)
        return None if isinstance(table, ArrayTable) else table
    return find_frame(value)


@hint_keywords
def encode(
    table: Any,
    *,
    columns: Sequence[str] | str | None = None,
    missing: Missing | str = Missing.DROP,
    numeric_only: bool = False,
    labels: Sequence[str] | str = (),
) -> TableAtoms:
    """Make the rows of a table atoms.

    Numbers count as they are. Texts, categories and truths are one-hot: a column of 0 and 1 for
    each level of the rows that are kept, in sorted order. A column of vectors, if there is one, is what
    counts, and nothing else. Texts with more than 64 levels, or none twice, are names, and dates are no
    numbers: they are carried, which means that they do not count, and `report` says so. A null, a nan,
    a text of nothing but blanks, and NA, N/A, NaN or null as a text are missing values in every format.

    Parameters
    ----------
    table
        A frame of pandas or polars, a table of Arrow, a structured array, or the path of .csv,
        .parquet, .arrow or .feather files.
    columns
        Those that count, in this order, or the only one; None: all that can.
    missing
        `Missing.DROP`: rows are left out; `Missing.MEAN`: the mean of the column, of one-hot
        columns too; `Missing.LEVEL`: of texts a level of its own, of numbers the mean and a column
        that is 1 there and else 0; `Missing.ERROR`: refused. Names do, too: "drop".
    numeric_only
        Whether texts, categories and truths are carried rather than coded.
    labels
        Columns that count only if they are named, and must have a value.

    Examples
    --------
    >>> table = np.array([(1.5, "a"), (2.5, "b"), (np.nan, "a"), (0.5, "b")], [("x", "f8"), ("y", "U1")])
    >>> rows = encode(table)
    >>> rows.names, rows.ids, rows.take(np.array([0, 1]))
    (('x', 'y=a', 'y=b'), array([0, 1, 3]), array([[1.5, 1. , 0. ],
           [2.5, 0. , 1. ]]))
    """
    missing = check_missing(missing)
    source = find_table(table)
    if source is None:
        raise TypeError(f"`table` must be a frame, or a .csv or .parquet file. Got {describe(table)}.")
    named = (labels,) if isinstance(labels, str) else tuple(map(str, labels))
    plan = EncodingPlan(missing=missing, numeric_only=numeric_only, labels=named)
    return encode_source(source, plan, columns)


def check_missing(value: Any) -> Missing:
    """Return one of `Missing`, which may be given by its name; TypeError for anything else."""
    if isinstance(value, str) and value in [each.value for each in Missing]:
        return Missing(value)
    if not isinstance(value, Missing):
        names = ", ".join(repr(each.value) for each in Missing)
        raise TypeError(f"`missing` must be one of {names}. Got {describe(value)}.")
    return value


class EncodingPlan(NamedTuple):
    """How to code: the options of `encode`, and those of its other callers."""

    missing: Missing = Missing.DROP
    numeric_only: bool = False
    labels: tuple[str, ...] = ()
    places: bool = False  # texts are no names, and stay places of levels, not one-hot; numbers come first
    like: tuple[EncodedColumn, ...] = ()  # of a table that this one must match, levels too
    called: str = "the table"  # by the caller
    file: str = ""  # that errors name beside the column
    load: bool | None = None  # rows are kept in memory; None: unless they are many and in files


def encode_source(
    source: Table, plan: EncodingPlan, columns: Sequence[str] | str | None = None
) -> TableAtoms:
    """As `encode`, of an open table."""
    columns = [columns] if isinstance(columns, str) else columns
    columns = None if columns is None else list(map(str, columns))
    wanted = [column.name for column in plan.like] or columns
    coders, carried = _make_coders(source, wanted, plan)
    marks = [Coder(name, Kind.NUMBER) for name in plan.labels]
    stored = _store(source, coders, marks, plan)
    alone = not plan.places and wanted is None  # whoever names a text wants it to count
    reasons = {} if plan.like else {each.name: each.find_reason(alone) for each in coders}
    names = {name: why for name, why in reasons.items() if why}
    rule = f"of numbers, or texts with at most {MOST_LEVELS} levels"
    require(wanted is None or not names, "columns", rule, _list_carried(names))
    coders = [each for each in coders if each.name not in names]
    carried = {**carried, **names}
    require(bool(coders), plan.called, "one with columns that can count", _list_carried(carried))
    keep = _find_kept(coders, marks, plan)
    if keep is not None:
        _recount(stored, coders, keep)
    if plan.missing is Missing.LEVEL:
        _mark_missing(coders, plan)
    expand = Expansion(coders, one_hot=not plan.places, fill=plan.missing in _FILLS)
    rows = stored.shape[0]
    gone = [(each.name, each.gone) for each in coders + marks if each.gone]
    report = TableReport(
        rows=rows,
        dropped=0 if keep is None else rows - len(keep),
        missing=tuple(dict.fromkeys(gone)),
        counted=tuple(each.name for each in coders),
        coded=tuple((column.name, len(column.levels)) for column in expand.columns if column.levels),
        carried=tuple((name, carried[name]) for name in source.names if name in carried),
        marked=plan.missing is Missing.LEVEL and bool(gone),
    )
    return TableAtoms(_build(stored, expand, keep), expand.columns, report, source, keep)


def _make_coders(
    source: Table, wanted: Sequence[str] | None, plan: EncodingPlan
) -> tuple[list[Coder], dict[str, str]]:
    """Coders of the columns that may count, before any row is read, and why others do not."""
    kinds = source.kinds
    chosen, carried = choose_columns(kinds, wanted, plan)
    known = set(source.names)
    unknown = [name for name in plan.labels if name not in known]
    require(not unknown, "by", f"a column among {', '.join(source.names)}", ", ".join(unknown))
    if plan.places and not plan.like:
        chosen.sort(key=lambda name: kinds[name] in (Kind.TEXT, Kind.TRUTH))  # stable
    require(bool(chosen), plan.called, "one with columns that can count", _list_carried(carried))
    levels = {column.name: column.levels for column in plan.like}
    return [Coder(name, kinds[name], levels.get(name, ()), plan.file) for name in chosen], carried


def choose_columns(
    kinds: Mapping[str, Kind], columns: Sequence[str] | None, plan: EncodingPlan
) -> tuple[list[str], dict[str, str]]:
    """Return the columns that may count, and why others do not."""
    usable = [Kind.NUMBER, Kind.VECTOR] + ([] if plan.numeric_only else [Kind.TEXT, Kind.TRUTH])
    if columns is not None:
        unknown = [name for name in columns if name not in kinds]
        have, gone = not plan.like or not unknown, ", ".join(unknown)
        require(have, plan.called, "a table with the columns that count", f"no {gone}")
        require(not unknown, "columns", f"among {', '.join(kinds)}", gone)
        for column in plan.like:  # texts where the other table has numbers, or the other way round
            same = bool(column.levels) == (kinds[column.name] in (Kind.TEXT, Kind.TRUTH))
            what = f"a table whose {column.name} holds {'texts' if column.levels else 'numbers'}"
            require(same, plan.called, what, kinds[column.name].value)
        for name in columns:
            usual = kinds[name] not in (Kind.TIME, Kind.UNNAMED, Kind.OTHER)
            require(usual, "columns", "of numbers, texts, truths or vectors", f"{name}: {kinds[name].value}")
        require(len(set(columns)) == len(columns), "columns", "distinct", ", ".join(columns))
        return list(columns), {}
    carried: dict[str, str] = dict.fromkeys(plan.labels, "label")
    vectors = [name for name, kind in kinds.items() if kind is Kind.VECTOR and name not in carried]
    require(len(vectors) <= 1, "columns", f"given to choose among {', '.join(vectors)}", "None")
    for name, kind in kinds.items():
        if vectors and name not in vectors:
            carried.setdefault(name, f"the vectors of {vectors[0]} count")
        elif kind not in usable:
            carried.setdefault(name, kind.value)
    return [name for name in kinds if name not in carried], carried


def _list_carried(carried: Mapping[str, str]) -> str:
    return list_some(f"{name} ({why})" for name, why in carried.items()) or "none"


def _find_kept(coders: Sequence[Coder], marks: Sequence[Coder], plan: EncodingPlan) -> Ids | None:
    """Return the rows without missing values; None for all. Refuse what cannot be helped."""
    gone, labels = [each for each in coders if each.gone], [each for each in marks if each.gone]
    fills = plan.missing in _FILLS
    unfit = [each for each in gone if plan.places and (each.is_text or plan.missing is Missing.LEVEL)]
    unlabelled = [] if plan.missing is Missing.LEVEL else labels
    bad = gone + labels if plan.missing is Missing.ERROR else unlabelled + unfit
    if plan.missing is not Missing.DROP and bad:
        first = min(each.first_gone for each in bad)
        listed = ", ".join(dict.fromkeys(f"{each.name} ({each.gone:,})" for each in bad))
        more = "" if plan.places else ", or make them a level of their own (level)"
        more += "" if fills else ", or fill them with means (mean)"
        remedy = "`encode` leaves such rows out" if plan.file else f"leave such rows out (drop){more}"
        rule = f"`{plan.called}` must be free of missing values; {remedy}"
        raise ValueError(f"{rule}. Got some, the first in row {first}: {listed}.")  # all, however many
    if fills or not (gone or labels):
        for each in coders if fills else ():
            require(each.gone < each.rows, each.name, "a column with at least one value", "none")
        return None
    left_out = np.zeros(coders[0].rows, np.bool_)
    for each in gone + labels:
        left_out |= each.find_gone()
    listed = list_some(dict.fromkeys(f"{each.name} ({each.gone:,} missing)" for each in gone + labels))
    keep = np.flatnonzero(~left_out).astype(np.int64)
    require(len(keep) > 0, plan.called, "one with a row that has no missing value", listed)
    return keep


def _mark_missing(coders: Sequence[Coder], plan: EncodingPlan) -> None:
    """Make missing values a level, or a column beside the mean; as the table does that is matched."""
    marked = {column.name for column in plan.like if column.marked}
    for each in coders:
        known = not plan.like or each.name in marked
        rule = (
            f"free of missing values in {each.name}, as what it is compared with; leave such rows out (drop)"
        )
        require(known or not each.gone, plan.called, rule, f"{each.gone:,}")
        if each.gone or each.name in marked:
            each.mark_missing()


def _build(stored: Atoms, expand: Expansion, keep: Ids | None) -> Atoms:
    """Rows as they are kept: in memory if they are few, else coded in every pass."""
    if keep is None and expand.plain and stored.shape[1] == expand.dim:
        return stored
    rows = stored if keep is None else KeptAtoms(stored, keep)
    atoms = CodedAtoms(rows, expand, expand.dim)
    n, d = atoms.shape
    if n * d * atoms.dtype.itemsize > max(KEPT, files.IN_MEMORY):
        return atoms
    out = np.empty((n, d), atoms.dtype)
    for first, block in atoms.blocks(BATCH):
        out[first : first + len(block)] = block
    return ArrayAtoms(out)


def read_numbers(values: Any) -> tuple[NDArray[Any], NDArray[np.bool_]] | None:
    """Return a column of a frame as numbers, and where they are missing; None for anything else."""
    frame = values.to_frame() if hasattr(values, "to_frame") and not hasattr(values, "columns") else None
    source = None if frame is None else find_frame(frame)
    if source is None or list(source.kinds.values()) != [Kind.NUMBER]:
        return None
    name = source.names[0]
    cells = [read_cells(batch.column(name), Kind.NUMBER, name) for batch in source.batches([name])]
    missing = np.concatenate([each.missing for each in cells])
    return join_numbers([each.values for each in cells], "x"), missing


# ---------------------------------------------------------------- files as plain atoms


def read_parts(tables: Iterable[FileTable], columns: Sequence[str] | None = None) -> list[Atoms]:
    """Return the rows of each file: arrays, or columns of numbers, none of which may be missing.

    They are loaded if all files together are small.
    """
    split: list[list[FileTable]] = []  # each file is a table of its own; arrays stay together
    for table in tables:
        several = not isinstance(table, ArrayTable) and len(table.files) > 1
        split.append([type(table)([file]) for file in table.files] if several else [table])
    load = sum(_weigh(part, columns) for parts in split for part in parts) <= files.IN_MEMORY
    out: list[Atoms] = []
    for part, first in ((part, parts[0]) for parts in split for part in parts):
        if isinstance(part, ArrayTable):
            require(columns is None, "columns", "None: files of arrays have no names", columns)
            out += [read_rows(file, load=load) for file in part.files]
            continue
        file = part.files[0]
        check_columns(columns or (), part.names)
        wanted = list(columns or part.numbers)
        require(bool(wanted) and part.size > 0, "path", "a file with numeric columns", f"none in {file}")
        same = columns is not None or part.numbers == first.numbers
        require(same, "path", f"files with the columns of {first.files[0]}", f"other columns in {file}")
        plan = EncodingPlan(missing=Missing.ERROR, called=file, file=file, load=load)
        if isinstance(part, CsvTable) and any(part.kinds[name] is not Kind.NUMBER for name in wanted):
            part.blame(wanted)
        try:
            out.append(encode_source(part, plan, wanted).atoms)
        except ValueError:
            if isinstance(part, CsvTable):
                part.blame(wanted)
            raise
    return out


def _weigh(table: FileTable, columns: Sequence[str] | None) -> int:
    """About the bytes of the rows, if they were loaded."""
    if isinstance(table, ArrayTable):
        return sum(map(weigh_rows, table.files))
    kinds = table.kinds
    wanted = [name for name in columns or table.numbers if name in kinds]
    wide = len(wanted)
    if Kind.VECTOR in map(kinds.get, wanted):
        for batch in itertools.islice(table.batches(wanted), 1):
            called = {name: f"column {name!r} of {table.files[0]}" for name in wanted}
            cells = [read_cells(batch.column(name), kinds[name], text) for name, text in called.items()]
            wide = sum(each.values[:1].size for each in cells)
    return 8 * wide * table.size


# ---------------------------------------------------------------- one pass


class Coder:
    """What a pass finds in one column: levels, missing values, sums."""

    def __init__(self, name: str, kind: Kind, levels: Sequence[str] = (), file: str = "") -> None:
        self.called = f"column {name!r} of {file}" if file else name
        self.name, self.is_text = name, kind in (Kind.TEXT, Kind.TRUTH)
        self._named, self._given = kind is Kind.TEXT, bool(levels)
        levels = TRUTHS if kind is Kind.TRUTH and not levels else levels
        self._places = {level: place for place, level in enumerate(levels)}
        self._fixed, self.width = bool(levels), 0
        self.gone, self.first_gone, self.rows = 0, -1, 0
        self.sums: Vector = np.zeros(0)
        self.at = 0  # the first column of what is stored
        self.marked, self.missing_place = False, 0
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
        wide, rule = values.shape[1], f"vectors of length {self.width}"
        require(wide == self.width, self.called, rule, wide)
        self.dtype = np.result_type(self.dtype, widen(values.dtype, self.called))
        if values.dtype.kind in "iu":
            there = np.flatnonzero(~cells.missing)
            require_exact(values[there], self.called, there + (self.rows - len(values)))
        out = np.array(values, self.dtype)
        some = bool(cells.missing.any())
        if some:
            out[cells.missing] = np.nan
        if not self.too_many:
            self._add(out[~cells.missing] if some else out)
        infinite = () if np.isfinite(self.sums).all() else np.argwhere(np.isinf(out)).tolist()
        for row, place in infinite:  # the sum of finite numbers may be infinite, too
            got = f"{out[row, place]} in row {self.rows - len(out) + row}"
            raise ValueError(f"`{self.called}` must be a column of finite numbers. Got {got}.")
        return out

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
            level = str(cells.levels[place])
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

    def mark_missing(self) -> None:
        """Let missing values be a level of a text, and have a column of their own beside numbers."""
        self.marked = True
        if self.is_text:
            place = self.missing_place = self._places.setdefault(MISSING, len(self._places))
            self.sums = np.append(self.sums, np.zeros(len(self._places) - len(self.sums)))
            self.sums[place] += self.gone

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


def _store(source: Table, coders: Sequence[Coder], marks: Sequence[Coder], plan: EncodingPlan) -> Atoms:
    """Read a table once; what is large and in files goes to a temporary file, coded."""
    source.check_exact([each.name for each in coders])
    kinds = source.kinds
    for each in coders:
        dtypes = [] if each.is_text else source.find_dtypes(each.name)
        each.dtype = np.result_type(each.dtype, *(widen(dtype, each.called) for dtype in dtypes))
    held: list[list[Matrix]] = []  # until the length of every vector is known

    def read() -> Iterator[Matrix]:
        names = {each.name: each.called for each in (*marks, *coders)}
        for batch in source.batches(list(names)):
            cells = {
                name: read_cells(batch.column(name), kinds.get(name, Kind.TEXT), called)
                for name, called in names.items()
            }
            for mark in marks:
                mark.note(cells[mark.name])
            held.append([each.read(cells[each.name]) for each in coders])
            if all(each.width for each in coders):
                yield from (_join(parts, coders) for parts in held)
                held.clear()
        empty = ", ".join(each.name for each in coders if not each.width)
        require(not held, plan.called, "one with a value in every column that counts", f"none in {empty}")

    blocks = read()
    first = next(blocks, None)
    if first is None:
        raise ValueError(f"`{plan.called}` must be a table with rows. Got none.")
    for each, at in zip(coders, np.cumsum([0, *(each.width for each in coders)]).tolist(), strict=False):
        each.at = at
    every = itertools.chain([first], blocks)
    large = not source.resident and source.size * first[:1].nbytes > files.IN_MEMORY
    if large if plan.load is None else not plan.load:
        return spool(every, (source.size, first.shape[1]), first.dtype)
    out = np.empty((source.size, first.shape[1]), first.dtype)
    at = 0
    for block in every:
        out[at : at + len(block)] = block
        at += len(block)
        report_rows(len(block))
    return ArrayAtoms(out)


def _join(parts: Sequence[Matrix], coders: Sequence[Coder]) -> Matrix:
    """(r, w) columns side by side; nan for vectors of which there were none."""
    r = len(parts[0])
    pairs = zip(parts, coders, strict=True)
    wide = [part if part.shape[1] else np.full((r, each.width), np.nan, each.dtype) for part, each in pairs]
    return np.concatenate(wide, axis=1)


def _recount(stored: Atoms, coders: Sequence[Coder], keep: Ids) -> None:
    """Count the levels of the rows that are kept alone; there is none without a value."""
    texts = [each for each in coders if each.is_text]
    for each in texts:
        each.sums = np.zeros(len(each.levels))
    for first, block in stored.blocks(BATCH) if texts else ():
        low, high = np.searchsorted(keep, (first, first + len(block)))
        rows = block[keep[low:high] - first]
        for each in texts:
            each.sums += np.bincount(rows[:, each.at].astype(np.int64), minlength=len(each.levels))


class Expansion:
    """From what is stored to what counts: one-hot columns or places, means for gaps; can be pickled."""

    def __init__(self, coders: Sequence[Coder], *, one_hot: bool, fill: bool) -> None:
        self._steps: list[tuple[int, int, Ints | None, int | None]] = []
        self._one_hot, columns, means = one_hot, [], []
        for each in coders:
            order = each.find_levels() if each.is_text else np.zeros(0, np.int64)
            levels = tuple(each.levels[place] for place in order)
            ranks = np.zeros(len(each.levels), np.int64)
            ranks[order] = np.arange(len(order))
            missing = each.missing_place if each.marked else None
            self._steps.append((each.at, each.width, ranks if each.is_text else None, missing))
            columns.append(EncodedColumn(each.name, levels, self._name(each, levels), each.marked))
            means.append((each.sums[order] if each.is_text else each.sums) / max(each.rows - each.gone, 1))
            if each.marked and not each.is_text:
                means.append(np.zeros(1))
        self.columns = tuple(columns)
        self.dim = sum(len(column.names) for column in columns)
        self._fill = np.concatenate(means) if fill and any(each.gone for each in coders) else None
        self.plain = self._fill is None and not any(each.is_text for each in coders)

    def _name(self, coder: Coder, levels: Sequence[str]) -> tuple[str, ...]:
        if coder.is_text:
            return tuple(f"{coder.name}={level}" for level in levels) if self._one_hot else (coder.name,)
        single, marks = coder.width == 1, (f"{coder.name}={MISSING}",) if coder.marked else ()
        named = (coder.name,) if single else tuple(f"{coder.name}[{i}]" for i in range(coder.width))
        return named + marks

    def __call__(self, rows: Matrix) -> Matrix:
        """(r, dim) coded rows."""
        out = np.empty((len(rows), self.dim), rows.dtype)
        first = 0
        for (at, width, ranks, missing), column in zip(self._steps, self.columns, strict=True):
            wide = len(column.names)
            here = out[:, first : first + wide]
            if ranks is None:
                here[:, width:] = np.isnan(rows[:, at : at + 1])
                here[:, :width] = rows[:, at : at + width]
            else:
                places = rows[:, at] if missing is None else np.nan_to_num(rows[:, at], nan=missing)
                here[:] = self._code(places, ranks, wide)
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
