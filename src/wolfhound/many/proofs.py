"""Units in which many targets are solved, and what is proved there of mixtures of few rows.

The problem does not change when atoms and targets are moved together; numbers near the origin lose less.
So each entry of a row or target is that of the caller, less a fixed vector, times a power of two, rounded
once: its error is at most a unit of itself. All bounds hold for sums in any order, fused or not.

With x = sum w a / sum w for the true rows a, b the true target, r = x - b:

- the computed x is off by at most ``away = gamma_(2k+8) sum w |a|``, the computed r by
  ``lost = u (|r| + 2 |b|) + away``;
- f = |r|^2 / 2 is at most the computed one plus gamma_(d+4) of it plus
  ``lost (|r| + lost / 2)``;
- the gap max <r, x - a> is at most the computed one plus the errors of its two
  products plus ``2 lost radius + |r| (away + 2 u radius)``.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from wolfhound.core.contracts import Ints, Matrix, Vector
from wolfhound.core.rounding import TINY, UNIT, gamma

LOWEST = -1000
"""Least power of two that is 1: smaller atoms stay small."""

HIGHEST = 500
"""Targets are scaled down to this power of two: beyond it, rounding hides the atoms."""


class Units(NamedTuple):
    """Where the origin is, and the power of two that is 1."""

    centre: Vector
    exponent: int

    def convert(self, rows: Matrix) -> Vector:
        """Rows in these units, float64; each entry is off by at most a unit of itself, and underflow."""
        return np.asarray(np.subtract(rows, self.centre, order="C") * math.ldexp(1.0, -self.exponent))

    def convert_targets(self, rows: Vector) -> Ints:
        """Bring targets into these units, where they are; return by how many powers of two each is below."""
        away = np.subtract(rows, self.centre, out=rows)
        top = np.maximum(away.max(axis=1, initial=0.0), -away.min(axis=1, initial=0.0))
        size = np.frexp(top)[1].astype(np.int64)
        over = np.where(top > 0.0, np.maximum(size - self.exponent - HIGHEST, 0), 0)
        away *= np.ldexp(1.0, -(self.exponent + over))[:, None]
        return np.asarray(over)

    def measure_origin(self) -> float:
        """How far the caller's origin is from ours, rounded up.

        Without its weight those of an answer sum to what they do, not to 1, and `away` grows by that much.
        """
        return float(measure_norms(self.convert(np.zeros((1, len(self.centre)))))[0])

    def square_up(self, values: Vector) -> Vector:
        """Values of f in the caller's units, rounded up."""
        return _scale(values, 2 * self.exponent, np.inf)

    def square_down(self, values: Vector) -> Vector:
        """Values of f in the caller's units, rounded down, but not below 0."""
        return np.maximum(_scale(values, 2 * self.exponent, 0.0), 0.0)

    def square_in(self, value: float) -> float:
        """A value of f in these units."""
        with np.errstate(over="ignore", under="ignore"):
            return float(np.ldexp(value, -2 * self.exponent))


def _scale(values: Vector, exponent: int, towards: float) -> Vector:
    with np.errstate(over="ignore", under="ignore"):
        out = np.ldexp(values, exponent)
        # Exact, unless it underflows.
        exact = np.ldexp(out, -exponent) == values
    return np.where(exact, out, np.nextafter(out, towards))


def choose_units(rows: Matrix) -> tuple[Units, Vector]:
    """Centre at the mean of some rows, make their largest entry less than 1, and convert them."""
    centre = np.asarray(np.add.reduce(rows, axis=0, dtype=np.float64) / len(rows))
    away = np.subtract(rows, centre, order="C")
    exponent = exponent_of(max(np.maximum.reduce(away, axis=None), -np.minimum.reduce(away, axis=None)))
    away *= math.ldexp(1.0, -exponent)
    return Units(centre, exponent), away


def exponent_of(top: float) -> int:
    """The power of two just above a size, but so that its inverse does not overflow."""
    return max(math.frexp(top)[1], LOWEST) if top > 0.0 else 0


def measure_norms(rows: Vector) -> Vector:
    """Norms of rows in these units, rounded up."""
    squares, d = np.einsum("ij,ij->i", rows, rows), rows.shape[1]
    return np.asarray(np.sqrt(squares + d * TINY) * (1.0 + gamma(d + 8)))


def most_active(n: int, d: int) -> int:
    """Room for active atoms: as many as can be independent, and one more."""
    return min(n, d + 1) + 1


# ---------------------------------------------------------------- proofs


SAFE = 1.01
"""Factor on an error bound that covers the rounding of the bound itself."""

RHO, SQUARE, X = range(3)
"""Of (m, 3) sums that a point leaves, as computed: sum w |a|, |r|^2 and |x|^2."""


class PointSizes(NamedTuple):
    """Per point the computed |r|^2; |r|, |x| and sum w |a| rounded up; `away` and `lost`."""

    square: Vector
    r: Vector
    x: Vector
    rho: Vector
    away: Vector
    lost: Vector


def measure_points(sums: Vector, k: Ints, norms: Vector, d: int, shift: float) -> PointSizes:
    """Sizes of points, mixtures of k rows; (m,) `norms` of targets, `shift` that of `measure_origin`."""
    unit = UNIT / (1.0 - (d + k + 8) * UNIT)
    up = 1.0 + (d + 6) * unit
    rho = sums[:, RHO] * (1.0 + (d + k + 8) * unit)
    r, x = np.sqrt(sums[:, SQUARE] + d * TINY) * up, np.sqrt(sums[:, X] + d * TINY) * up
    away = SAFE * ((2 * k + 8) * (UNIT / (1.0 - (2 * k + 8) * UNIT)) * (rho + shift) + (k + 2) * d * TINY)
    return PointSizes(sums[:, SQUARE], r, x, rho, away, SAFE * (UNIT * (r + 2.0 * norms) + away))


class Brackets(NamedTuple):
    """Per target ``lower <= min f``, ``f <= value``, and the part of their difference that is rounding."""

    value: Vector
    lower: Vector
    slack: Vector


def certify(
    sizes: PointSizes, d: int, inner: Vector, least: Vector, *, radius: float, error: Vector
) -> Brackets:
    """Prove what a pricing shows.

    `inner` and `least` are the computed <r, x>, and the least computed <r, a> over all atoms; `radius` is at
    least every |a|, `error` (m,) that of `least` against the product of the computed r and rows.
    """
    value, lost, size = 0.5 * sizes.square, sizes.lost, sizes.r
    off = SAFE * (gamma(d + 4) * value + d * TINY + lost * (size + 0.5 * lost))
    far = np.maximum(radius, sizes.x) * (1.0 + 8.0 * UNIT)
    rounding = 2.0 * lost * far + size * (sizes.away + 2.0 * UNIT * far)
    rounding += gamma(d + 2) * size * sizes.x + error + (d + 2) * TINY
    rounding *= SAFE
    # Rounding of the difference: a unit of either part.
    with np.errstate(invalid="ignore"):  # where nothing is known of some atoms
        gap = inner - least + rounding + 4.0 * UNIT * (np.abs(inner) + np.abs(least))
    gap = np.where(np.isnan(gap), np.inf, np.maximum(gap, 0.0))
    excess = 2.0 * (value + off) * (1.0 + 4.0 * UNIT) + TINY
    # The largest possible decrease of a quadratic f with 2 (f - min f) <= excess; rounded up.
    inside = np.minimum(gap, excess)
    cut = np.where(gap >= excess, 0.5 * excess, inside * (1.0 - 0.5 * inside / excess) * (1.0 + 4.0 * UNIT))
    proved = value - off - cut - 4.0 * UNIT * value - TINY
    upper = (value + off) * (1.0 + 2.0 * UNIT)
    slack = 2.0 * (off + rounding) + 4.0 * UNIT * value
    return Brackets(upper, np.minimum(np.maximum(proved, 0.0), upper), slack)
