"""The smallest ellipsoid that holds all points: the dual of a D-optimal design."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from wolfhound import validate
from wolfhound.atoms import as_atoms
from wolfhound.core import Atoms, AtomsLike, Ids, Matrix, Oracle, Status, Vector
from wolfhound.designs.design import design
from wolfhound.designs.models import map_terms
from wolfhound.designs.proof import enclose, enclose_log_det
from wolfhound.designs.result import Design
from wolfhound.markup import Shown, Summary
from wolfhound.oracles.forms import FormScan, survey
from wolfhound.rounding import UNIT, gamma, length


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Ellipsoid(Shown):
    """All x with (x - centre)' matrix (x - centre) <= 1.

    Attributes
    ----------
    centre : (d,)
    matrix : (d, d)
        Symmetric, positive definite.
    ids, weights : (k,)
        Points that hold it: those with weight in the dual design.
    ratio : float
        Proved lower bound on least volume / volume, rounding included.
    passes : float
    status : Status
    seconds : float
    """

    centre: Vector
    matrix: Vector
    ids: Ids
    weights: Vector
    ratio: float
    passes: float
    status: Status
    seconds: float

    @property
    def success(self) -> bool:
        """Whether the wanted ratio is proved, or all that rounding allows."""
        return self.status.success

    @property
    def log_volume(self) -> float:
        """Logarithm of the volume."""
        d = len(self.centre)
        ball = 0.5 * d * math.log(math.pi) - math.lgamma(0.5 * d + 1.0)
        return ball - 0.5 * float(np.linalg.slogdet(self.matrix)[1])

    def measure(self, rows: Matrix) -> Vector:
        """(r,) (x - centre)' matrix (x - centre) of rows: at most 1 inside."""
        away = validate.as_floats(rows, "rows") - self.centre
        return np.asarray(np.einsum("ij,jk,ik->i", away, self.matrix, away))

    def summary(self) -> Summary:
        """Return its size, what is proved of it, and the cost."""
        lines = (
            (
                "holds",
                f"all points of {len(self.centre)} dimensions, touched by {len(self.ids):,} with weight",
            ),
            ("volume", f"exp({self.log_volume:.6g})"),
            ("proved", f"least volume / volume >= {self.ratio:.9g}"),
            ("cost", f"{self.passes:.3g} passes, {self.seconds:.3g} s"),
        )
        return Summary(f"Ellipsoid({self.status.name}: {self.status.value})", lines)


def _add_one(rows: Matrix) -> Matrix:
    return np.concatenate([rows, np.ones((len(rows), 1), rows.dtype)], axis=1)


def enclosing_ellipsoid(
    points: AtomsLike,
    *,
    ratio: float = 1.0 - 1e-6,
    max_passes: float = math.inf,
    max_seconds: float = math.inf,
    seed: int | np.random.Generator = 0,
) -> Ellipsoid:
    """Find the ellipsoid of least volume that holds all points, with a proved ratio.

    Parameters
    ----------
    points : (n, d)
        Atoms, an array or a path; they must span all d dimensions.
    ratio
        What is to be proved: least volume / volume.
    max_passes, max_seconds
        Limits; what is returned holds all points nevertheless.
    seed
        Of the points that are read first.

    Returns
    -------
    Ellipsoid
        Every point is inside, rounding included: the proof is a last pass over all of them.

    Examples
    --------
    >>> found = enclosing_ellipsoid(np.array([[3.0, 0.0], [-3.0, 0.0], [0.0, 1.0], [0.0, -1.0], [1.0, 0.2]]))
    >>> np.diag(found.matrix).round(5), found.ratio > 0.999999
    (array([0.11111, 1.     ]), True)
    """
    rows = as_atoms(points, "points")
    d = rows.shape[1]
    goal = validate.within(ratio, "ratio", "(0, 1)")
    lifted = map_terms(rows, _add_one, d + 1, rows.dtype)
    oracle = FormScan(lifted)
    # A gap of e in the design is one of (d + 1) e / 2 in the volume.
    fine = 1.0 - (1.0 - goal) / (d + 1)
    found = design(oracle, efficiency=fine, max_passes=max_passes, max_seconds=max_seconds, seed=seed)
    return _enclose_points(oracle, lifted, found, goal)


def _enclose_points(oracle: Oracle, lifted: Atoms, found: Design, goal: float) -> Ellipsoid:
    """Turn a design into an ellipsoid, and prove that it holds all points."""
    d = lifted.shape[1] - 1
    inverse = np.linalg.inv(found.information)
    shape = 0.5 * (inverse[:d, :d] + inverse[:d, :d].T) / d
    centre = -np.linalg.solve(inverse[:d, :d], inverse[:d, d])
    lean = shape @ centre
    form = np.empty((d + 1, d + 1))
    form[:d, :d], form[:d, d], form[d, :d], form[d, d] = shape, -lean, -lean, centre @ lean
    hits = survey(oracle, form, 1, np.empty(0, np.int64))
    # The form was rounded: 2 (E c)_i by d + 1 units, c'E c by 2 d + 2, and svec by a few.
    lost = gamma(3 * d + 16) * (length(form) + 2.0 * length(shape) * length(centre) * (1.0 + length(centre)))
    top = (hits.bound + lost * hits.radius) * (1.0 + 4.0 * UNIT)
    matrix = np.ascontiguousarray(shape / top * (1.0 - 8.0 * UNIT))
    matrix = np.triu(matrix) + np.triu(matrix, 1).T
    proved = _bound_ratio(lifted, found, matrix)
    status = found.status if proved < goal else Status.GAP_REACHED
    return Ellipsoid(
        centre=centre,
        matrix=matrix,
        ids=found.ids,
        weights=found.weights,
        ratio=proved,
        passes=found.passes + hits.passes,
        status=status if proved >= goal or not status.success else Status.ROUNDING,
        seconds=found.seconds,
    )


def _bound_ratio(lifted: Atoms, found: Design, matrix: Vector) -> float:
    """Lower bound of sqrt(det M d^d det E): least volume^2 is at least that of det M, by duality."""
    d = len(matrix)
    inside = enclose(np.asarray(lifted.take(found.ids), np.float64), found.weights, None)
    outside = enclose_log_det(matrix)
    if inside is None or outside is None:
        return 0.0
    total = math.log(max(1.0, math.fsum(found.weights) * (1.0 + 2.0 * UNIT)))
    half = 0.5 * ((d + 1) * (inside.low - total) + d * math.log(d) + d * outside.low)
    size = (d + 1) * (abs(inside.low) + abs(outside.low) + math.log(d) + 1.0)
    return min(1.0, math.exp(half - 16.0 * UNIT * size) * (1.0 - 16.0 * UNIT))
