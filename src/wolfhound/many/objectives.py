"""Lists of objectives over the same atoms: what is a distance becomes one, others are minimised in turn."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from wolfhound.atoms import as_atoms
from wolfhound.core import Atoms, Ids, Objective, Oracle, Status, Vector
from wolfhound.many.batch import TargetBatch, judge
from wolfhound.many.result import CODES, ManyResult
from wolfhound.objectives.quadratic import LeastSquares, SquaredDistance
from wolfhound.rounding import TINY, gamma
from wolfhound.solve import minimize
from wolfhound.threads import one_blas_thread
from wolfhound.validate import kind, require


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
) -> tuple[TargetBatch, Status]:
    """Minimise one objective as `minimize` does, which is asked; the answer, and how it ended."""
    found = minimize(objective, oracle, exclude=banned, progress=False, **options)
    order = np.lexsort((found.ids, -found.weights))
    order = order[found.weights[order] > 0.0]
    batch = TargetBatch(
        np.array([0, len(order)]),
        found.ids[order],
        found.weights[order],
        np.array([found.value]),
        np.array([min(found.lower, found.value)]),
        np.array([found.goal]),
        np.array([CODES[found.status]], np.int8),
        np.array([math.ceil(found.passes)]),
        np.zeros(1),
    )
    return batch, found.status
