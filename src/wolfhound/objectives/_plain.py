"""What most objectives have in common."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math

import numpy as np

from wolfhound.core import Ints, Matrix, Point, Vector


def outside(x: Vector) -> Point:
    """What is known outside the domain of f."""
    return Point(x=x, value=math.inf, grad=np.zeros(len(x)), value_error=math.inf, grad_error=math.inf)


class PlainObjective:
    """f of all of R^d, whatever d is, not quadratic, and lifted by itself: see `Objective`."""

    __slots__ = ()

    quadratic = False

    @property
    def dim(self) -> int | None:
        """Any."""
        return None

    def lift(self, rows: Matrix) -> Matrix | None:
        """Return the rows as float64, without a copy if they are."""
        return np.asarray(rows, np.float64)

    def slope(self, point: Point) -> Vector:
        """The gradient."""
        return point.grad

    def pull(self, slope: Vector) -> Vector:
        """Return the slope: the lift is the identity."""
        return slope

    def begin(self, rows: Matrix) -> Vector | None:
        """None: start at the best single row."""
        return None

    def find_uncovered(self, rows: Matrix) -> Ints:
        """None: f is finite everywhere, or nothing is known of its domain."""
        return np.empty(0, np.int64)
