"""Units in which many targets are solved: atoms about the origin, of size about 1.

The problem does not change when atoms and targets are moved together; numbers near the
origin lose less. Each entry is rounded once: by its difference from the centre.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from wolfhound.core import Ints, Matrix, Vector
from wolfhound.rounding import TINY, gamma

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


def average(rows: Matrix) -> Vector:
    """Mean of some rows, float64."""
    return np.asarray(np.add.reduce(rows, axis=0, dtype=np.float64) / len(rows))


def choose_units(rows: Matrix, out: Vector | None = None) -> tuple[Units, Vector]:
    """Centre at the mean of some rows, make their largest entry less than 1, and convert them, into `out`."""
    centre = average(rows)
    away = np.subtract(rows, centre, order="C", out=out)
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
