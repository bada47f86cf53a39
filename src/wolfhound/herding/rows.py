"""What is herded: rows from whatever a caller has, drawn at random, with weights.

Tables become atoms here, with labels by names of columns and a target that matches. Knows no kernel.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, final

import numpy as np
from numpy.typing import ArrayLike

from wolfhound.core.contracts import Atoms, AtomsLike, Ids, Matrix, Vector
from wolfhound.core.identity import identify
from wolfhound.core.validate import flag, require, vector
from wolfhound.data.atoms import Fingerprint, as_atoms, fingerprint, finite_rows
from wolfhound.data.encoding import EncodingPlan, Missing, Table, TableAtoms, encode_source, find_table
from wolfhound.data.scaling import unit_variance
from wolfhound.herding.labels import Labels

FEWEST = 4
"""Rows that were not used before serve if there are a quarter of those wanted."""

_SAMPLE = 1000  # rows that say whether one column swamps the others

_SHOWN = 8  # texts of `by` in an error

# ---------------------------------------------------------------- random ids and the rows behind them


def draw_ids(n: int, count: int, exclude: Ids, rng: np.random.Generator) -> Ids:
    """Ascending distinct random ids in [0, n), none excluded; all that are left, if not more than `count`."""
    gone = np.sort(exclude)
    left, size = n - len(gone), min(count, n - len(gone))
    ranks = np.sort(rng.choice(left, size, replace=False, shuffle=False)) if size < left else np.arange(left)
    # Rank r is the id r plus the excluded ids before it: as many as have at most r ids left below them.
    return ranks + np.searchsorted(gone - np.arange(len(gone)), ranks, side="right")


def draw_weighted(shares: Vector, count: int, rng: np.random.Generator) -> Ids:
    """Ascending random ids, repeats allowed, each drawn with its share (not exactly 1 in sum)."""
    edges = np.cumsum(shares)
    # An id without a share is never hit: its edge is that of the id before it.
    found = np.searchsorted(edges, rng.random(count) * edges[-1], side="right")
    return np.sort(np.minimum(found, np.flatnonzero(shares)[-1])).astype(np.int64)


def draw_held_out(
    n: int, count: int, used: Ids, shares: Vector | None, rng: np.random.Generator
) -> tuple[Ids, bool]:
    """(random ids, whether none was used before): those used come back where too few others are left.

    Examples
    --------
    >>> draw_held_out(6, 2, np.array([0, 1, 2, 3]), None, np.random.default_rng(0))
    (array([4, 5]), True)
    """
    fresh = FEWEST * (n - len(used)) >= count
    gone = used if fresh else used[:0]
    if shares is None:
        return draw_ids(n, count, gone, rng), fresh
    unused = shares.copy()
    unused[gone] = 0.0
    return draw_weighted(unused if unused.any() else shares, count, rng), fresh


def row_shares(weights: ArrayLike | None, n: int, name: str = "weights") -> Vector | None:
    """Return row weights that sum to 1; None stays None, equal weights."""
    if weights is None:
        return None
    shares = vector(weights, name, size=n)
    require(bool(shares.min() >= 0.0), name, ">= 0 in each entry", f"{shares.min():g}")
    largest = shares.max()
    require(bool(largest > 0.0), name, "above 0 in some entry", "all 0")
    shares = shares / largest  # the sum of huge weights would overflow
    return np.asarray(shares / shares.sum())


@contextlib.contextmanager
def speak_of(name: str, instead_of: str = "atoms") -> Iterator[None]:
    """Let an error call an argument as the caller does."""
    try:
        yield
    except ValueError as error:
        raise ValueError(str(error).replace(f"`{instead_of}`", f"`{name}`", 1)) from None


def take_rows(atoms: Atoms, ids: Ids, name: str = "atoms") -> Matrix:
    """Rows of these ids; ValueError if one is not finite, by the caller's name for the atoms."""
    with speak_of(name):
        return finite_rows(atoms, ids)


# ---------------------------------------------------------------- what a caller has


class TableOptions(NamedTuple):
    """How a table becomes atoms, as `herd` was asked; saved with a result, so that it can go on."""

    columns: Sequence[str] | str | None = None
    missing: Missing = Missing.DROP
    numeric_only: bool = False
    standardize: bool = False

    def check(self) -> TableOptions:
        """Refuse what is none of these; a list of names becomes a tuple."""
        flag(self.numeric_only, "numeric_only")
        flag(self.standardize, "standardize")
        columns = (self.columns,) if isinstance(self.columns, str) else self.columns
        return self if columns is None else self._replace(columns=tuple(columns))

    def to_json(self) -> dict[str, Any]:
        """Return JSON values."""
        return {**self._asdict(), "missing": self.missing.value}

    @classmethod
    def from_json(cls, saved: dict[str, Any]) -> TableOptions:
        """Return the options of such values."""
        names = None if saved["columns"] is None else [str(name) for name in saved["columns"]]
        return cls(**{**saved, "columns": names, "missing": Missing(saved["missing"])}).check()


AS_USUAL = TableOptions()
"""What is done if the caller says nothing."""


@final
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class HerdData:
    """What is picked from and stood for."""

    atoms: Atoms  # to pick from
    target: Atoms | None  # to stand for; None: the atoms
    labels: Labels | None
    row_weights: Vector | None  # (t,) of what is to be stood for, with sum 1
    table: TableAtoms | None = None  # what the atoms were; ids of its rows are what a caller sees
    target_table: TableAtoms | None = None  # what the target was

    @classmethod
    def read(
        cls,
        atoms: Any,
        target: AtomsLike | None = None,
        by: Any = None,
        row_weights: ArrayLike | None = None,
        *,
        options: TableOptions = AS_USUAL,
    ) -> HerdData:
        """Read what `herd` was given: an array, files or tables, labels or names of columns."""
        table, names = _read_table(atoms, by, options)
        rows = as_atoms(atoms) if table is None else table.atoms
        goal, goal_table = _read_target(target, table, options.missing)
        if table is not None and by is not None:
            by = table.read_labels(names) if names else table.pick(by, "by")
        if options.standardize:
            scaling = unit_variance(rows)
            rows, goal = scaling.of(rows), None if goal is None else scaling.of(goal)
        elif table is not None:  # the report says whether one column swamps the others
            n = table.shape[0]
            some = (
                np.arange(n) if n <= _SAMPLE else np.random.default_rng(0).choice(n, _SAMPLE, replace=False)
            )
            found = table.find_swamping(finite_rows(table.atoms, np.sort(some).astype(np.int64)))
            table = replace(table, report=replace(table.report, swamping=found))
        if goal is not None:
            check_width(goal, rows.shape[1])
        weighed = table if goal is None else goal_table
        if weighed is not None:
            row_weights = weighed.pick(row_weights, "row_weights")
        shares = row_shares(row_weights, (rows if goal is None else goal).shape[0], "row_weights")
        labels = None if by is None else Labels.of(by, rows.shape[0], shares)
        return cls(
            atoms=rows, target=goal, labels=labels, row_weights=shares, table=table, target_table=goal_table
        )

    @property
    def fingerprint(self) -> Fingerprint:
        """Of the atoms; of a table with the number of its rows, of which ids are."""
        parts = fingerprint(self.atoms)
        return parts if self.table is None else tuple(p.resize(self.table.report.rows) for p in parts)

    def fingerprints(self) -> dict[str, Any]:
        """What tells this data from other data: the fields of `HerdSettings` of these names."""
        return {
            "target": () if self.target is None else fingerprint(self.target),
            "by": "" if self.labels is None else identify(self.labels.values),
            "row_weights": "" if self.row_weights is None else identify(self.row_weights),
        }


def check_width(target: Atoms, d: int) -> None:
    """Check that the target has d columns, as what it is compared with."""
    got = target.shape[1]
    require(got == d, "target", f"rows of {d} columns", f"{got} columns")


def _read_table(atoms: Any, by: Any, options: TableOptions) -> tuple[TableAtoms | None, tuple[str, ...]]:
    """Return the table that atoms are, coded, if they are one; and the columns that `by` names."""
    columns = options.columns
    source = atoms.source if isinstance(atoms, TableAtoms) else find_table(atoms)
    names = _find_names(by, source)
    if isinstance(atoms, TableAtoms):
        _check_encoded(atoms, options)
        return atoms, names
    if source is not None:
        plan = EncodingPlan(
            missing=options.missing, numeric_only=options.numeric_only, labels=names, called="atoms"
        )
        return encode_source(source, plan, columns), names
    require(columns is None, "columns", "None: these atoms have no names", columns)
    return None, names


def _check_encoded(table: TableAtoms, options: TableOptions) -> None:
    """Refuse options that rows which are coded already do not follow."""
    report, missing = table.report, options.missing
    followed = Missing.DROP if report.dropped else Missing.LEVEL if report.marked else Missing.MEAN
    broken = {
        "columns": options.columns is not None and options.columns != report.counted,
        "numeric_only": options.numeric_only and bool(report.coded),
        "missing": bool(report.missing) and missing not in (Missing.DROP, followed),
    }
    wrong = [name for name, bad in broken.items() if bad]
    rule = "left out, or as `encode` had it: these rows are coded already"
    got = ", ".join(f"{name}={getattr(options, name)}" for name in wrong)
    require(not wrong, "` and `".join(wrong), rule, got)


def _find_names(by: Any, source: Table | None) -> tuple[str, ...]:
    """Return the columns that `by` names; none if it is labels. A column may be called by a number."""
    by = str(by) if isinstance(by, int) and not isinstance(by, bool) else by
    known = () if source is None else source.names
    if isinstance(by, str):
        rule = (
            f"a column among {', '.join(known)}" if known else "labels, one per row, or a column of a table"
        )
        require(by in known, "by", rule, repr(by))
        return (by,)
    plain = isinstance(by, (list, tuple)) and len(by) > 0 and all(isinstance(each, str) for each in by)
    if not plain or source is None:
        return ()
    if set(by) <= set(known) and len(set(by)) == len(by):
        return tuple(by)
    rule = f"distinct columns among {', '.join(known)}, or {source.size:,} labels, one per row"
    some = ", ".join(map(repr, by[:_SHOWN])) + (f", ... ({len(by)} in all)" if len(by) > _SHOWN else "")
    require(len(by) == source.size, "by", rule, some)
    return ()


def _read_target(
    target: Any, table: TableAtoms | None, missing: Missing
) -> tuple[Atoms | None, TableAtoms | None]:
    """Return the target, and the table that it was, coded as the atoms are."""
    if target is None:
        return None, None
    if not isinstance(target, TableAtoms):
        source = None if table is None else find_table(target)
        if table is None or source is None:
            return as_atoms(target, "target"), None
        target = encode_source(source, EncodingPlan(missing=missing, like=table.columns, called="target"))
    return target.atoms, target
