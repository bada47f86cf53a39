"""What herding takes from a table: rows as atoms, labels by names of columns, a target that matches."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from wolfhound.atoms import as_atoms, finite_rows
from wolfhound.core import Atoms, Ids
from wolfhound.encoding import (
    EncodingPlan,
    Missing,
    Table,
    TableAtoms,
    check_missing,
    encode_source,
    find_table,
)
from wolfhound.scaling import unit_variance
from wolfhound.validate import flag, require

_SAMPLE = 1000  # rows that say whether one column swamps the others

_SHOWN = 8  # texts of `by` in an error


class TableOptions(NamedTuple):
    """How a table becomes atoms, as `herd` was asked; saved with a result, so that it can go on."""

    columns: tuple[str, ...] | None = None
    missing: Missing = Missing.DROP
    numeric_only: bool = False
    standardize: bool = False

    def check(self) -> TableOptions:
        """Refuse what is none of these."""
        check_missing(self.missing)
        for name in ("numeric_only", "standardize"):
            flag(getattr(self, name), name)
        if isinstance(self.columns, str):
            raise TypeError(f"`columns` must be a list of names. Got {self.columns!r}.")
        return self if self.columns is None else self._replace(columns=tuple(self.columns))

    def to_json(self) -> dict[str, Any]:
        """Return JSON values."""
        return {**self._asdict(), "missing": self.missing.value}

    @classmethod
    def from_json(cls, saved: dict[str, Any] | None) -> TableOptions:
        """Return the options of such values; what is missing is as usual."""
        if saved is None:
            return cls()
        names = None if saved["columns"] is None else tuple(map(str, saved["columns"]))
        values = {**saved, "columns": names, "missing": Missing(saved["missing"])}
        return cls(**{name: values[name] for name in cls._fields}).check()


AS_USUAL = TableOptions()
"""What is done if the caller says nothing."""


class HerdRows(NamedTuple):
    """What is picked from and stood for, with a label per atom, and the tables that both were."""

    atoms: Atoms
    target: Atoms | None
    by: Any
    table: TableAtoms | None
    target_table: TableAtoms | None = None


def read_rows(atoms: Any, target: Any, by: Any, options: TableOptions) -> HerdRows:
    """Return atoms, the target and the labels, from whatever the caller has."""
    source = atoms.source if isinstance(atoms, TableAtoms) else find_table(atoms)
    names = _find_names(by, source)
    table = None
    if isinstance(atoms, TableAtoms):
        _check_encoded(atoms, options)
        table = atoms
    elif source is not None:
        plan = EncodingPlan(
            missing=options.missing, numeric_only=options.numeric_only, labels=names, called="atoms"
        )
        table = encode_source(source, plan, options.columns)
    require(
        table is not None or options.columns is None,
        "columns",
        "None: these atoms have no names",
        options.columns,
    )
    rows = as_atoms(atoms) if table is None else table.atoms
    goal = _read_target(target, table, options.missing)
    goal, goal_table = (goal.atoms, goal) if isinstance(goal, TableAtoms) else (goal, None)
    if table is not None and by is not None:
        by = table.read_labels(names) if names else table.pick(by, "by")
    if options.standardize:
        scaling = unit_variance(rows)
        rows, goal = scaling.of(rows), None if goal is None else scaling.of(goal)
    elif table is not None:
        table = _note_scale(table)
    return HerdRows(rows, goal, by, table, goal_table)


def _check_encoded(table: TableAtoms, options: TableOptions) -> None:
    """Refuse options that rows which are coded already do not follow."""
    report, missing = table.report, options.missing
    broken = {
        "columns": options.columns is not None and options.columns != report.counted,
        "numeric_only": options.numeric_only and bool(report.coded),
        "missing": (missing is Missing.MEAN and report.dropped > 0)
        or (missing is Missing.ERROR and bool(report.missing)),
    }
    wrong = [name for name, bad in broken.items() if bad]
    rule = "left out, or as `encode` had it: these rows are coded already"
    require(
        not wrong,
        "` and `".join(wrong),
        rule,
        ", ".join(f"{name}={getattr(options, name)}" for name in wrong),
    )


def _find_names(by: Any, source: Table | None) -> tuple[str, ...]:
    """Return the columns that `by` names; none if it is labels. A column may be called by a number."""
    by = str(by) if isinstance(by, int) and not isinstance(by, bool) else by
    if isinstance(by, str):
        names = () if source is None else source.names
        rule = (
            f"a column among {', '.join(names)}" if names else "labels, one per row, or a column of a table"
        )
        require(by in names, "by", rule, repr(by))
        return (by,)
    plain = isinstance(by, (list, tuple)) and len(by) > 0 and all(isinstance(each, str) for each in by)
    if not plain or source is None:
        return ()
    known, distinct = set(by) <= set(source.names), len(set(by)) == len(by)
    if known and distinct:
        return tuple(by)
    size = source.size
    rule = f"distinct columns among {', '.join(source.names)}, or {size:,} labels, one per row"
    some = ", ".join(map(repr, by[:_SHOWN])) + (f", ... ({len(by)} in all)" if len(by) > _SHOWN else "")
    require(len(by) == size, "by", rule, some)
    return ()


def _read_target(target: Any, table: TableAtoms | None, missing: Missing) -> Atoms | None:
    if target is None:
        return None
    if isinstance(target, TableAtoms):
        return target
    source = None if table is None else find_table(target)
    if table is None or source is None:
        return as_atoms(target, "target")
    plan = EncodingPlan(missing=missing, like=table.columns, called="target")
    return encode_source(source, plan)


def _note_scale(table: TableAtoms) -> TableAtoms:
    """Note, in the report, whether one column swamps the others."""
    n = table.shape[0]
    some = np.arange(n) if n <= _SAMPLE else np.random.default_rng(0).choice(n, _SAMPLE, replace=False)
    found = table.find_swamping(finite_rows(table.atoms, np.sort(some).astype(np.int64)))
    return replace(table, report=replace(table.report, swamping=found))


def name_rows(table: TableAtoms | None, places: Ids) -> Ids:
    """Return the rows of the table that was given; of other atoms, the ids as they are."""
    return places if table is None else table.name_rows(places)


def as_names(columns: Sequence[str] | None) -> tuple[str, ...] | None:
    """Return a list of names as a tuple; a text is checked later."""
    return columns if columns is None or isinstance(columns, str) else tuple(columns)  # type: ignore[return-value]
