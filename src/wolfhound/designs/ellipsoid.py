"""The smallest ellipsoid that holds all points: the dual of a D-optimal design."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import Any, NamedTuple, NoReturn

import numpy as np

from wolfhound.core import validate
from wolfhound.core.contracts import Atoms, AtomsLike, Ids, Matrix, Status, Vector
from wolfhound.core.progress import time_solving
from wolfhound.core.rounding import TINY, UNIT, gamma, is_rounding, length
from wolfhound.core.text import seconds_text
from wolfhound.data.atoms import as_atoms
from wolfhound.designs.criteria import AliasedTerms, list_aliases, scale_to_one
from wolfhound.designs.design import design
from wolfhound.designs.factors import map_terms, measure_ranges
from wolfhound.designs.proof import WIDE, Between, enclose, enclose_log_det, excuse, invert
from wolfhound.designs.result import Design
from wolfhound.oracles.forms import FormScan, survey
from wolfhound.show.markup import Field, RunResult, Summary, list_weights, pick
from wolfhound.solve.result import LISTED

_LARGEST = 1e70  # points are smaller than this
# Columns are wider: the matrix must have numbers. Floats above 1e-70 that differ, differ by more.
_NARROWEST = 1e-90


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Ellipsoid(RunResult):
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
    def log_volume(self) -> float:
        """Logarithm of the volume."""
        d, sizes = len(self.centre), np.sqrt(np.diagonal(self.matrix))
        ball = 0.5 * d * math.log(math.pi) - math.lgamma(0.5 * d + 1.0)
        even = float(np.linalg.slogdet(self.matrix / np.outer(sizes, sizes))[1])  # in any units
        return ball - 0.5 * even - math.fsum(np.log(sizes))

    def measure(self, rows: Matrix) -> Vector:
        """(r,) (x - centre)' matrix (x - centre) of rows: at most 1 inside."""
        away = validate.as_floats(rows, "rows") - self.centre
        return np.asarray(np.einsum("ij,jk,ik->i", away, self.matrix, away))

    def summary(self) -> Summary:
        """Return its size, what is proved of it, and the cost."""
        d, k, ratio = len(self.centre), len(self.ids), f"{self.ratio:.9g}"
        cost, time = f"{self.passes:.3g} passes, {self.seconds:.3g} s", ("time", seconds_text(self.seconds))
        proved, size = f"least volume / volume >= {ratio}", self.log_volume
        order = np.argsort(-self.weights, kind="stable")[:LISTED]
        weights = zip(self.ids[order].tolist(), self.weights[order].tolist(), strict=True)
        atoms = [(i, None, weight) for i, weight in weights]
        return Summary.of_run(
            "Ellipsoid",
            self.status,
            fields=(
                Field("holds", f"all points of {d} dimensions, touched by {k:,} with weight"),
                Field("volume", f"exp({size:.6g})", {"log_volume": size}),
                Field("proved", proved, {"ratio": self.ratio}, ("proved ratio", ratio)),
                Field("cost", cost, pick(self, "passes", "seconds"), time),
            ),
            tables=(list_weights("The points that hold it", atoms, size=k),),
            title="The smallest enclosing ellipsoid",
        )


@dataclass(frozen=True, slots=True, eq=False)
class _Frame:
    """Coordinates in which the search and the proof work: y = (x - middle) * scale, between -1 and 1.

    The scale is of powers of two, and a difference of two floats is within one unit of itself: so y is
    known to a relative unit in every entry, however far from the origin the points are.
    """

    middle: Vector
    scale: Vector

    def __call__(self, rows: Matrix, dtype: type[np.floating[Any]] = np.float64) -> Matrix:
        """(r, d + 1) rows (y, 1)."""
        away = (rows.astype(dtype) - self.middle.astype(dtype)) * self.scale.astype(dtype)
        return np.concatenate([away, np.ones((len(rows), 1), dtype)], axis=1)


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
    began = time.perf_counter()
    goal = validate.within(ratio, "ratio", "(0, 1)")
    validate.number(max_seconds, "max_seconds", low=0.0)
    rows = as_atoms(points, "points")
    d = rows.shape[1]
    frame = _choose_frame(rows)
    lifted = map_terms(rows, frame, d + 1, np.dtype(np.float64))
    left = max(0.0, max_seconds - (time.perf_counter() - began))
    try:
        # A gap of e in the design is one of (d + 1) e / 2 in the volume.
        fine = 1.0 - (1.0 - goal) / (d + 1)
        found = design(FormScan(lifted), efficiency=fine, max_passes=max_passes, max_seconds=left, seed=seed)
    except AliasedTerms as error:
        _refuse_flat(d, list_aliases(error.null, [*(f"x{j}" for j in range(1, d + 1)), "1"]))
    fit = _enclose_points(lifted, frame, found)
    inside = enclose(frame(rows.take(found.ids), WIDE), found.weights, None)
    outside = enclose_log_det(fit.matrix)
    if inside is None or outside is None:
        _refuse_flat(d, "some direction in which they are closer together than float64 can tell")
    proved, slack = _bound_ratio(found, fit, inside, outside)
    return Ellipsoid(
        centre=fit.centre,
        matrix=fit.matrix * np.outer(frame.scale, frame.scale),
        ids=found.ids,
        weights=found.weights,
        ratio=proved,
        passes=found.passes + fit.passes + 1.0,
        status=_judge(found.status, proved, goal, slack),
        seconds=time_solving(began),
    )


def _refuse_flat(d: int, where: str) -> NoReturn:
    rule = f"`points` must span all {d} dimensions; leave out columns that are constant or follow from others"
    raise ValueError(f"{rule}. Got flat ones: {where}.")


def _choose_frame(rows: Atoms) -> _Frame:
    """Middle and scale of every column, by one pass."""
    low, high = (each.astype(np.float64) for each in measure_ranges(rows, "points"))
    top = float(np.maximum(np.abs(low), np.abs(high)).max())
    validate.require(top < _LARGEST, "points", f"below {_LARGEST:g} in size; scale them", f"{top:g}")
    half = 0.5 * high - 0.5 * low
    constant = [f"x{j + 1} is constant" for j in np.flatnonzero(half == 0.0).tolist()]
    if constant:
        _refuse_flat(len(half), "; ".join(constant[:6]) + ("; ..." if len(constant) > 6 else ""))
    least = float(half.min())
    rule = f"columns wider than {_NARROWEST:g}; scale them"
    validate.require(least > _NARROWEST, "points", rule, f"{least:g}")
    return _Frame(0.5 * low + 0.5 * high, scale_to_one(half))


class _Fit(NamedTuple):
    """An ellipsoid that holds all points."""

    centre: Vector  # (d,) in the caller's coordinates
    matrix: Vector  # (d, d) in those of the frame
    loose: float  # factor by which rounding alone makes the squares of its axes larger
    passes: float


def _enclose_points(lifted: Atoms, frame: _Frame, found: Design) -> _Fit:
    """Turn a design into an ellipsoid, and prove by a pass that it holds all points."""
    d = lifted.shape[1] - 1
    inverse = invert(found.information)
    if inverse is None:
        _refuse_flat(d, "some direction in which they are closer together than float64 can tell")
    shape = inverse[:d, :d] / d
    # The centre that is returned is rounded to the caller's floats; what is proved is proved of that one.
    centre = frame.middle + found.information[:d, d] / found.information[d, d] / frame.scale
    here = (centre - frame.middle) * frame.scale
    lean = shape @ here
    form = np.empty((d + 1, d + 1))
    form[:d, :d], form[:d, d], form[d, :d], form[d, d] = shape, -lean, -lean, here @ lean
    hits = survey(FormScan(lifted), form, 1, np.empty(0, np.int64))
    # The form was rounded: 2 (E c)_i by d + 1 units, c'E c by 2 d + 2, and svec by a few.
    size, near = length(shape), length(here)
    lost = gamma(3 * d + 16) * (length(form) + 2.0 * size * near * (1.0 + near))
    top = (hits.bound + lost * hits.radius) * (1.0 + 4.0 * UNIT)
    # Entries of y and of the centre are known to a unit each, the matrix is rounded once more.
    reach = math.sqrt(hits.radius) + near
    blur = 1.01 * UNIT * reach * math.sqrt(size)
    top = (math.sqrt(top) + blur) ** 2 + 4.0 * UNIT * size * reach * reach
    top *= 1.0 + 16.0 * UNIT
    return _Fit(centre, shape / top, top / float(hits.scores[0]), hits.passes)


def _bound_ratio(found: Design, fit: _Fit, inside: Between, outside: Between) -> tuple[float, float]:
    """Lower bound of sqrt(det M d^d det E), and how much of it rounding takes.

    The square of the least volume is at least that of det M, by duality.
    """
    d = len(fit.matrix)
    total = math.log(max(1.0, math.fsum(found.weights) * (1.0 + 2.0 * UNIT)))
    half = 0.5 * ((d + 1) * (inside.low - total) + d * math.log(d) + d * outside.low)
    size = (d + 1) * (abs(inside.low) + abs(outside.low) + math.log(d) + 1.0)
    proved = min(1.0, math.exp(half - 16.0 * UNIT * size) * (1.0 - 16.0 * UNIT))
    more = (d + 1) * (inside.high - inside.low) + d * (outside.high - outside.low) + d * math.log(fit.loose)
    return proved, excuse(proved * math.exp(min(0.5 * more + 32.0 * UNIT * size, 1.0)), proved)


def _judge(status: Status, proved: float, goal: float, slack: float) -> Status:
    """Why a search ended, by what is proved of the volume: rounding only if its bounds are the reason."""
    if proved >= goal:
        return Status.GAP_REACHED
    if status not in (Status.GAP_REACHED, Status.ROUNDING, Status.STALLED):
        return status
    return Status.ROUNDING if is_rounding(-math.log(max(proved, TINY)), slack) else Status.STALLED
