"""How a table becomes atoms: which columns count, how texts are coded, what a missing value does.

The one place that knows. Stored are numbers and the places of texts among their levels, nan where
a value is missing; rows are left out, filled and coded as they are read, so a file may be
far larger than memory.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import enum
import os
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from wolfhound import _files
from wolfhound._arrays import ArrayAtoms
from wolfhound._coding import Coder, EncodedColumn, Expansion, StoredColumns, store_columns
from wolfhound._columns import ColumnSource, Kind, find_source, find_vectors
from wolfhound._exact import join_numbers
from wolfhound._table_atoms import (
    CodedAtoms,
    RowAtoms,
    TableAtoms,
    TableReport,
    join_labels,
    list_some,
    read_column,
)
from wolfhound.core import Atoms, Ids
from wolfhound.tables import ArrayTable, open_table
from wolfhound.validate import describe, require

__all__ = [
    "ColumnSource",
    "Missing",
    "RowAtoms",
    "TableAtoms",
    "TableReport",
    "encode",
    "join_labels",
    "read_column",
]

KEPT = 256 << 20
"""Coded rows up to so many bytes are kept in memory, else made anew in every pass."""

BLOCK = 65_536
"""Rows that are coded at a time."""


class Missing(enum.Enum):
    """What happens to rows in which a column that counts has no value."""

    DROP = "drop"
    MEAN = "mean"
    ERROR = "error"


# ---------------------------------------------------------------- from a table to atoms


def find_table(value: Any) -> ColumnSource | None:
    """Return a frame, a table of Arrow, or a .csv or .parquet file, as a source; None for others."""
    paths = value if isinstance(value, (list, tuple)) and value else [value]
    if all(isinstance(path, (str, os.PathLike)) for path in paths):
        if paths is value and len({os.path.splitext(path)[1].lower() for path in paths}) > 1:
            return None  # files of several kinds are atoms, one after the other
        table = open_table(value)
        return None if isinstance(table, ArrayTable) else table
    return find_source(value) or find_vectors(value)


def encode(
    table: Any,
    *,
    columns: Sequence[str] | None = None,
    missing: Missing = Missing.DROP,
    numeric_only: bool = False,
    labels: Sequence[str] = (),
) -> TableAtoms:
    """Make the rows of a table atoms.

    Numbers count as they are. Texts, categories and truths are one-hot: a column of 0 and 1 for
    each level of the rows that are kept, in sorted order. A column of vectors, if there is one, is what
    counts, and nothing else. Texts with more than 64 levels, or none twice, are names, and dates are no
    numbers: they are carried, which means that they do not count, and `report` says so.

    Parameters
    ----------
    table
        A frame of pandas or polars, a table of Arrow, a structured array, or the path of .csv
        or .parquet files.
    columns
        Those that count, in this order; None: all that can.
    missing
        `Missing.DROP`: rows are left out; `Missing.MEAN`: the mean of the column, of one-hot
        columns too; `Missing.ERROR`: refused.
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
    check_missing(missing)
    source = find_table(table)
    if source is None:
        raise TypeError(f"`table` must be a frame, or a .csv or .parquet file. Got {describe(table)}.")
    for names, called in ((columns, "columns"), (labels, "labels")):
        if isinstance(names, str):
            raise TypeError(f"`{called}` must be a list of names. Got {names!r}.")
    plan = EncodingPlan(missing=missing, numeric_only=numeric_only, labels=tuple(map(str, labels)))
    return encode_source(source, plan, columns)


def check_missing(value: Any) -> None:
    """Raise TypeError unless this is one of `Missing`."""
    if not isinstance(value, Missing):
        names = ", ".join(str(each) for each in Missing)
        raise TypeError(f"`missing` must be one of {names}. Got {describe(value)}.")


class EncodingPlan(NamedTuple):
    """How to code: the options of `encode`, and those of its other callers.

    Attributes
    ----------
    missing, numeric_only, labels
        As for `encode`.
    places : bool
        Whether a text stays the place of its level rather than become one-hot.
    names : bool
        Whether texts of which none comes twice are names.
    like : tuple of EncodedColumn
        Columns, with their levels, of a table that this one must match.
    called : str
        What the caller calls the table.
    """

    missing: Missing = Missing.DROP
    numeric_only: bool = False
    labels: tuple[str, ...] = ()
    places: bool = False
    names: bool = True
    like: tuple[EncodedColumn, ...] = ()
    called: str = "the table"


def encode_source(
    source: ColumnSource,
    plan: EncodingPlan,
    columns: Sequence[str] | None = None,
    *,
    order: Mapping[str, int] | None = None,
) -> TableAtoms:
    """As `encode`, of an open table; columns in this order, if one is given."""
    kinds = source.find_kinds()
    columns = None if columns is None else list(map(str, columns))
    wanted = [column.name for column in plan.like] or columns
    chosen, carried = choose_columns(kinds, wanted, plan)
    known = set(source.names)
    unknown = [name for name in plan.labels if name not in known]
    require(not unknown, "by", f"a column among {', '.join(source.names)}", ", ".join(unknown))
    chosen = chosen if order is None else sorted(chosen, key=order.__getitem__)
    require(bool(chosen), plan.called, "one with columns that can count", _list_carried(carried))
    levels = {column.name: column.levels for column in plan.like}
    coders = [Coder(name, kinds[name], levels.get(name, ())) for name in chosen]
    stored = store_columns(source, coders, plan.labels, plan.called)
    if wanted is not None:  # whoever names a text wants it to count
        plan = plan._replace(names=False)
    kept_coders, names = _part(coders, plan)
    rule = "of numbers, or texts with at most 64 levels"
    require(wanted is None or not names, "columns", rule, _list_carried(names))
    carried = {**carried, **names}
    require(bool(kept_coders), plan.called, "one with columns that can count", _list_carried(carried))
    keep = _find_kept(stored, kept_coders, plan)
    if keep is not None:
        stored.recount(kept_coders, keep)
    expand = Expansion(kept_coders, one_hot=not plan.places, fill=plan.missing is Missing.MEAN)
    counted = set(chosen)
    counts = [(each.name, each.gone) for each in kept_coders if each.gone]
    counts += [(name, gone) for name, gone in stored.unlabelled.items() if gone and name not in counted]
    report = TableReport(
        rows=stored.rows,
        dropped=0 if keep is None else stored.rows - len(keep),
        missing=tuple(counts),
        counted=tuple(each.name for each in kept_coders),
        coded=tuple((column.name, len(column.levels)) for column in expand.columns if column.levels),
        carried=tuple((name, carried[name]) for name in source.names if name in carried),
    )
    return TableAtoms(_build(stored, expand, keep), expand.columns, report, source, keep)


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


def _part(coders: Sequence[Coder], plan: EncodingPlan) -> tuple[list[Coder], dict[str, str]]:
    """Return the columns that count, and texts that are names, with the reason."""
    names = {} if plan.like else {each.name: each.find_reason(plan.names) for each in coders}
    return [each for each in coders if not names.get(each.name)], {n: why for n, why in names.items() if why}


def _list_carried(carried: Mapping[str, str]) -> str:
    return list_some(f"{name} ({why})" for name, why in carried.items()) or "none"


def _find_kept(stored: StoredColumns, coders: Sequence[Coder], plan: EncodingPlan) -> Ids | None:
    """Return the rows without missing values; None for all. Refuse what cannot be helped."""
    gone = [(each.name, each.gone, each.first_gone) for each in coders if each.gone]
    labels = [
        (name, count, stored.first_unlabelled[name]) for name, count in stored.unlabelled.items() if count
    ]
    fills = plan.missing is Missing.MEAN
    texts = [bad for bad, each in zip(gone, [c for c in coders if c.gone], strict=True) if each.is_text]
    bad = gone + labels if plan.missing is Missing.ERROR else labels + (texts if plan.places else [])
    if plan.missing is not Missing.DROP and bad:
        first = min(row for _, _, row in bad)
        listed = ", ".join(f"{name} ({count:,})" for name, count, _ in dict.fromkeys(bad))
        more = "" if fills else ", or fill them with means (mean)"
        rule = f"`{plan.called}` must be free of missing values; leave such rows out (drop){more}"
        raise ValueError(f"{rule}. Got some, the first in row {first}: {listed}.")  # all, however many
    if fills or not (gone or labels):
        for each in coders if fills else ():
            require(each.gone < stored.rows, each.name, "a column with at least one value", "none")
        return None
    keep = np.flatnonzero(~stored.find_gone(coders)).astype(np.int64)
    listed = list_some(f"{name} ({count:,} missing)" for name, count, _ in dict.fromkeys(gone + labels))
    require(len(keep) > 0, plan.called, "one with a row that has no missing value", listed)
    return keep


def _build(stored: StoredColumns, expand: Expansion, keep: Ids | None) -> Atoms:
    """Rows as they are kept: in memory if they are few, else coded in every pass."""
    if keep is None and expand.is_plain(stored.atoms):
        return stored.atoms
    atoms = CodedAtoms(stored.atoms, expand, keep)
    n, d = atoms.shape
    if n * d * atoms.dtype.itemsize > max(KEPT, _files.IN_MEMORY):
        return atoms
    out = np.empty((n, d), atoms.dtype)
    for first, block in atoms.blocks(BLOCK):
        out[first : first + len(block)] = block
    return ArrayAtoms(out)


def read_numbers(values: Any) -> tuple[NDArray[Any], NDArray[np.bool_]] | None:
    """Return a column of a frame as numbers, and where they are missing; None for anything else."""
    frame = values.to_frame() if hasattr(values, "to_frame") and not hasattr(values, "columns") else None
    source = None if frame is None else find_source(frame)
    if source is None or list(source.find_kinds().values()) != [Kind.NUMBER]:
        return None
    cells = [batch[source.names[0]] for batch in source.batches(source.names)]
    missing = np.concatenate([each.missing for each in cells])
    return join_numbers([each.values for each in cells], "x"), missing
