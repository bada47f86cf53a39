"""What the caller gives: targets in whatever shape, atoms that each must not use, or a list of objectives.

Objectives that are distances become targets; others are minimised in turn.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from wolfhound.core import validate
from wolfhound.core.contracts import Atoms, Ids, Ints, Objective, Oracle, Status, Vector
from wolfhound.core.rounding import TINY, gamma
from wolfhound.core.threads import one_blas_thread
from wolfhound.core.validate import LARGEST, kind, require, require_exact
from wolfhound.data.atoms import as_atoms, check_order
from wolfhound.data.encoding import TableAtoms
from wolfhound.data.files import FileRows, unmap
from wolfhound.data.tables import find_frame
from wolfhound.many.batch import Banned, TargetBatch, judge, make_unsolved
from wolfhound.many.result import CODES, ManyResult
from wolfhound.objectives.linear import LeastSquares
from wolfhound.objectives.plain import SquaredDistance
from wolfhound.solve.minimize import minimize

_BLOCK = 1 << 22
"""Entries of targets that are looked at at once."""


class Targets(NamedTuple):
    """Targets, some of which may be none."""

    rows: NDArray[Any] | FileRows  # (m, d) of any real type; an array is not copied, a file not read whole
    shape: tuple[int, ...]  # how the m targets were given
    good: NDArray[np.bool_]  # (m,) which can be solved

    def read(self, start: int, stop: int) -> Vector:
        """(stop - start, d) float64; those that cannot be solved are zeros."""
        # BLAS adds rows of another order in memory otherwise: the same targets, the same bits.
        out = np.array(self.rows[start:stop], np.float64, order="C")
        out[~self.good[start:stop]] = 0.0
        return out


def read_targets(targets: Any, d: int, *, skip: bool) -> Targets:
    """Check targets: an array (m, d) or (rows, columns, d), a table, or a list of vectors.

    With `skip`, one that is not finite or of another width is passed over rather than refused.
    """
    rows, shape, fits = _gather(targets, d, skip)
    good = fits.copy()
    step = max(1, _BLOCK // d)
    for start in range(0, len(rows), step):
        part = rows[start : start + step]
        with np.errstate(invalid="ignore"):
            inside = np.abs(part).max(axis=1, initial=0).astype(np.float64) <= LARGEST  # False for nan
        good[start : start + step] &= inside
        wrong = np.flatnonzero(~inside & fits[start : start + step])
        if len(wrong) and not skip:
            at = np.unravel_index(start + int(wrong[0]), shape)
            place = ", ".join(map(str, at))
            _refuse(part[wrong[0]], f"target {place}" if len(at) == 1 else f"target ({place})")
    return Targets(rows, shape, good)


def _refuse(row: NDArray[Any], which: str) -> None:
    bad = row[~(np.abs(row).astype(np.float64) <= LARGEST)][0]
    rule = "finite" if not np.isfinite(bad) else f"at most {LARGEST:g} in size; scale the problem"
    remedy = "`skip=True` solves the others"
    raise ValueError(f"`targets` must be {rule}. Got {bad:g} in {which}; {remedy}.")


def _gather(
    targets: Any, d: int, skip: bool
) -> tuple[NDArray[Any] | FileRows, tuple[int, ...], NDArray[np.bool_]]:
    """Rows, shape, and which rows are of the right width."""
    if isinstance(targets, (list, tuple)) and _is_ragged(targets, d):
        return _gather_ragged(targets, d, skip)
    targets = unmap(targets)
    kept = isinstance(targets, FileRows)
    found: Any = targets if kept else validate.array(targets, "targets", "an array of real numbers")
    if found.dtype.kind not in "fiub" or found.dtype.itemsize > 8:
        raise TypeError(f"`targets` must be an array of real numbers. Got {validate.describe(targets)}.")
    if not kept:  # rows of a file are looked at as they are read
        require_exact(found, "targets")
    rule = f"an array (m, {d}) or (rows, columns, {d}): as wide as the atoms"
    require(found.ndim >= 2 and found.shape[-1] == d, "targets", rule, f"shape {found.shape}")
    rows, shape = (found, found.axes[:-1]) if kept else (found.reshape(-1, d), found.shape[:-1])
    return rows, shape, np.ones(len(rows), np.bool_)


def _is_ragged(targets: Sequence[Any], d: int) -> bool:
    """Whether a list holds vectors, not all of the right width."""
    shapes = {np.shape(row) if not isinstance(row, (list, tuple)) else (len(row),) for row in targets}
    return all(len(shape) == 1 for shape in shapes) and not shapes <= {(d,)}


def _gather_ragged(
    targets: Sequence[Any], d: int, skip: bool
) -> tuple[NDArray[Any], tuple[int, ...], NDArray[np.bool_]]:
    rows, fits = np.zeros((len(targets), d)), np.zeros(len(targets), np.bool_)
    for i, given in enumerate(targets):
        row = validate.real_array(given, f"targets[{i}]", 1)
        fits[i] = len(row) == d
        if fits[i]:
            rows[i] = row
        elif not skip:
            rule, remedy = f"vectors of length {d}, as wide as the atoms", "`skip=True` solves the others"
            raise ValueError(f"`targets` must be {rule}. Got length {len(row)} in target {i}; {remedy}.")
    return rows, (len(targets),), fits


# ---------------------------------------------------------------- exclude


class Excluded(NamedTuple):
    """Atoms that target i must not use: ``ids[starts[i]:starts[i + 1]]``; one row serves all."""

    starts: Ints
    ids: Ids
    shared: bool

    def read(self, start: int, stop: int) -> Banned:
        """Return what targets start .. stop must not use."""
        m = stop - start
        if self.shared:
            return Banned(np.repeat(np.arange(m), len(self.ids)), np.tile(self.ids, m))
        here = self.starts[start : stop + 1]
        return Banned(np.repeat(np.arange(m), np.diff(here)), self.ids[here[0] : here[-1]])

    def counts(self, m: int) -> Ints:
        """(m,) how many atoms each must not use."""
        return np.full(m, len(self.ids)) if self.shared else np.diff(self.starts)


def read_exclude(exclude: Any, m: int, n: int) -> Excluded:
    """Check excluded ids: None, a vector for all m targets, one vector each, or (m, e) padded with -1."""
    if exclude is None:
        return Excluded(np.zeros(2, np.int64), np.empty(0, np.int64), True)
    if isinstance(exclude, np.ndarray) and exclude.ndim == 2 and exclude.dtype.kind in "iu":
        return _read_padded(_unmask(exclude).astype(np.int64), m, n)
    nested = isinstance(exclude, (list, tuple)) and any(np.ndim(each) for each in exclude)
    if not nested:
        ids = validate.ids(exclude, "exclude", n)
        return Excluded(np.array([0, len(ids)]), ids, True)
    require(len(exclude) == m, "exclude", f"ids for all targets, or {m} vectors of ids", f"{len(exclude)}")
    parts = [validate.ids(each, f"exclude[{i}]", n) for i, each in enumerate(exclude)]
    starts = np.cumsum([0, *map(len, parts)]).astype(np.int64)
    return Excluded(starts, np.concatenate(parts), False)


def check_target_columns(table: TableAtoms, targets: Any) -> None:
    """Refuse a table of targets that has columns of the atoms at other places."""
    source = find_frame(targets)
    check_order(table.names, () if source is None else source.names, "targets")


def find_excluded(table: TableAtoms, exclude: Any) -> Any:
    """Return excluded rows of a table as places among those that are kept, in the same form."""
    if exclude is None or table.ids is None:
        return exclude
    if isinstance(exclude, np.ndarray) and exclude.ndim == 2 and exclude.dtype.kind in "iu":
        rows = _unmask(exclude)
        return [table.find_places(row[row >= 0], "exclude", strict=False) for row in rows]
    if isinstance(exclude, (list, tuple)) and any(np.ndim(each) for each in exclude):
        return [table.find_places(each, "exclude", strict=False) for each in exclude]
    return table.find_places(exclude, "exclude", strict=False)


def _unmask(exclude: NDArray[Any]) -> NDArray[Any]:
    return validate.array(exclude, "exclude", "an array of ids padded with -1")


def _read_padded(exclude: Ids, m: int, n: int) -> Excluded:
    """Ids (m, e) padded with -1: one check for all rows."""
    require(len(exclude) == m, "exclude", f"ids for all targets, or {m} vectors of ids", f"{len(exclude)}")
    low, high = exclude.min(initial=0), exclude.max(initial=-1)
    require(low >= -1 and high < n, "exclude", f"ids in [0, {n}), padded with -1", f"{low} .. {high}")
    rows = np.sort(exclude, axis=1)
    repeated = bool(((rows[:, 1:] == rows[:, :-1]) & (rows[:, 1:] >= 0)).any())
    require(not repeated, "exclude", "distinct ids for each target", "repeated ids")
    held = exclude >= 0
    return Excluded(np.concatenate([[0], np.cumsum(held.sum(axis=1))]), exclude[held], False)


# ---------------------------------------------------------------- objectives


def is_list_of_objectives(targets: Any) -> bool:
    """Whether these are objectives rather than points."""
    return isinstance(targets, (list, tuple)) and len(targets) > 0 and hasattr(targets[0], "at")


class Lifted(NamedTuple):
    """Least squares as distances: points b, atoms A a, and how far these are from the true ones."""

    targets: Vector
    atoms: Atoms
    off: float


def read_objectives(objectives: Sequence[Any], d: int) -> list[Objective]:
    """Check objectives over atoms of dimension d."""
    for i, each in enumerate(objectives):
        what = "an objective such as SquaredDistance(target)"
        kind(each, f"targets[{i}]", what, "dim", "quadratic", "at", "values", "line", "lift")
        require(each.dim in (None, d), f"targets[{i}]", f"of dimension {d}, as the atoms", each.dim)
    return list(objectives)


def as_points(objectives: Sequence[Objective]) -> Vector | None:
    """Targets of squared distances; None if one is something else."""
    points = [each.target for each in objectives if isinstance(each, SquaredDistance)]
    return np.stack(points) if len(points) == len(objectives) else None


def lift_shared(objectives: Sequence[Objective], atoms: Atoms, max_memory: float) -> Lifted | None:
    """Least squares that share a design which is not tall, as distances; None for others.

    Each A a is computed with an error of at most gamma_d |A| |a|, by which every distance may be off.
    """
    squares = [each for each in objectives if isinstance(each, LeastSquares)]
    design = squares[0].design if len(squares) == len(objectives) else np.empty((0, 0))
    p, (n, d) = len(design), atoms.shape
    shared = all(each.design is design or np.array_equal(each.design, design) for each in squares)
    if not (shared and 0 < p <= 2 * d and 8 * n * p <= max_memory / 2):
        return None
    lifted, longest = np.empty((n, p)), 0.0
    with one_blas_thread():
        for first, block in atoms.blocks(max(1, (1 << 22) // d)):
            rows = np.asarray(block, np.float64)
            lifted[first : first + len(rows)] = rows @ design.T
            longest = max(longest, float(np.sqrt(np.einsum("ij,ij->i", rows, rows).max())))
    off = 1.01 * gamma(d + 8) * float(np.sqrt((design * design).sum())) * longest
    return Lifted(np.stack([each.response for each in squares]), as_atoms(lifted), off)


def widen(value: Vector, lower: Vector, off: Vector | float) -> tuple[Vector, Vector]:
    """Value and bound of a squared distance whose atoms and target may be off by so much, together."""
    up, down = 1.0 + 1e-15, 1.0 - 1e-15
    far = np.sqrt(2.0 * value) * up + off
    near = np.maximum(np.sqrt(2.0 * lower) * down - off, 0.0)
    return 0.5 * far * far * up * up + TINY, np.maximum(0.5 * near * near * down * down - TINY, 0.0)


def widen_result(result: ManyResult, off: float) -> dict[str, Any]:
    """Values, bounds and codes of a result for atoms that may be off by so much."""
    value, lower = widen(result.value, result.lower, off)
    gap, rounding = value - lower, (value - result.value) + (result.lower - lower)
    lost = (result.codes == CODES[Status.GAP_REACHED]) & (gap > result.goal)
    codes = np.where(lost, judge(gap, result.goal, rounding), result.codes)
    return {"value": value, "lower": lower, "codes": codes}


# ---------------------------------------------------------------- others


def solve_objective(
    objective: Objective, oracle: Oracle, banned: Ids, options: dict[str, Any]
) -> TargetBatch:
    """Minimise one objective as `minimize` does, which is asked."""
    found = minimize(objective, oracle, exclude=banned, progress=False, **options)
    return make_answer(
        (found.ids, found.weights),
        (found.value, found.lower, found.goal),
        found.status,
        math.ceil(found.passes),
        found.mass,
    )


def make_answer(
    mixture: tuple[Ids, Vector],
    proof: tuple[float, float, float],
    status: Status,
    passes: int,
    mass: float = math.inf,
) -> TargetBatch:
    """Return the answer for one target: its atoms that have weight, the largest first; value, lower, goal."""
    ids, weights = mixture
    order = np.lexsort((ids, -weights))
    order = order[weights[order] > 0.0]
    value, lower, goal = proof
    return make_unsolved(1, status)._replace(
        indptr=np.array([0, len(order)]),
        ids=ids[order],
        weights=weights[order],
        value=np.array([value]),
        lower=np.array([min(lower, value)]),
        goal=np.array([goal]),
        passes=np.array([passes]),
        mass=np.array([mass]),
    )
