"""What all objectives share, and the plainest of them: the squared distance to a point."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from wolfhound.core.contracts import Ints, Line, Matrix, Objective, Point, Vector
from wolfhound.core.rounding import SAFE, TINY, drift_length, gamma, length
from wolfhound.core.validate import as_floats, require, require_moderate, vector


def outside(x: Vector) -> Point:
    """What is known outside the domain of f."""
    return Point(x=x, value=math.inf, grad=np.zeros(len(x)), value_error=math.inf, grad_error=math.inf)


class PlainObjective:
    """f of all of R^d, whatever d is, not quadratic, and lifted by itself: see `Objective`."""

    __slots__ = ()

    quadratic = False

    def _set(self, **fields: object) -> None:
        """Set fields while an instance, which is frozen, is made."""
        for name, value in fields.items():
            object.__setattr__(self, name, value)

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

    def line(self: Objective, start: Point, direction: Vector) -> Line:
        """f along a line, by evaluating it: once per new s."""
        return PlainLine(self, start, direction)

    def begin(self, rows: Matrix) -> Vector | None:
        """None: start at the best single row."""
        return None

    def find_uncovered(self, rows: Matrix) -> Ints:
        """None: f is finite everywhere, or nothing is known of its domain."""
        return np.empty(0, np.int64)


class PlainLine:
    """phi(s) = f(x + s d) by evaluating f; the last point is kept.

    Outside the domain of f, phi = inf and the slope points back inside.
    """

    def __init__(self, objective: Objective, start: Point, direction: Vector) -> None:
        self._objective, self._direction, self._last = objective, direction, (0.0, start)
        self.start, self.sq_length = start, float(direction @ direction)

    def value(self, s: float) -> float:
        """phi(s)."""
        return self.at(s).value

    def slope(self, s: float) -> float:
        """phi'(s)."""
        point = self.at(s)
        if math.isinf(point.value):
            return math.copysign(math.inf, s)
        return float(point.grad @ self._direction)

    def at(self, s: float) -> Point:
        """Evaluate f at x + s d."""
        if s != self._last[0]:
            self._last = (s, self._objective.at(self.start.x + s * self._direction))
        return self._last[1]


# ---------------------------------------------------------------- the squared distance


class ParabolaLine(PlainLine):
    """phi(s) = f(x) + s <grad, d> + s^2/2 |d|^2, for f = 1/2 |x - t|^2."""

    def __init__(self, objective: Objective, start: Point, direction: Vector) -> None:
        super().__init__(objective, start, direction)
        self._slope = float(start.grad @ direction)

    def value(self, s: float) -> float:
        """phi(s)."""
        return self.start.value + s * (self._slope + 0.5 * s * self.sq_length)

    def slope(self, s: float) -> float:
        """phi'(s)."""
        return self._slope + s * self.sq_length


@dataclass(frozen=True, slots=True, eq=False, repr=False, init=False)
class SquaredDistance(PlainObjective):
    """Half the squared distance to a target.

    f(x) = 1/2 |x - t|^2: the projection on the hull, moment matching, herding.

    Parameters
    ----------
    target : (d,)
        The point t.

    Examples
    --------
    >>> point = SquaredDistance([3.0, 4.0]).at(np.zeros(2))
    >>> point.value, point.grad
    (12.5, array([-3., -4.]))
    """

    convex = True
    quadratic = True  # with z = x and c = t
    smoothness = 1.0
    floor = 0.0  # at the target
    target: Vector

    def __init__(self, target: ArrayLike) -> None:
        found = vector(target, "target")
        require(len(found) > 0, "target", "non-empty", "length 0")
        require_moderate(found, "target")
        self._set(target=found)

    def __repr__(self) -> str:
        return f"SquaredDistance(d={self.dim})"

    @property
    def dim(self) -> int:
        """The d of the atoms."""
        return len(self.target)

    def at(self, x: Vector, drift: Vector | float = 0.0) -> Point:
        """Evaluate f at x."""
        x = as_floats(x, "x")
        grad = x - self.target
        d = len(x)
        value = 0.5 * float(grad @ grad)
        size, away = length(grad), drift_length(drift, d)
        rounding = gamma(d + 4) * value + d * TINY + away * (size + 0.5 * away)
        return Point(
            x=x,
            value=value,
            grad=grad,
            value_error=SAFE * rounding,
            grad_error=gamma(2) * size + TINY,
            turn=away,
            excess=size * size * (1.0 + gamma(8)) + TINY,
        )

    def values(self, rows: Matrix) -> Vector:
        """f at each row."""
        away = as_floats(rows, "rows") - self.target
        return np.asarray(0.5 * np.einsum("ij,ij->i", away, away))

    def line(self, start: Point, direction: Vector) -> ParabolaLine:
        """f along a line: two products, then O(1) per value and slope."""
        return ParabolaLine(self, start, direction)

    def curvature(self, point: Point) -> Vector:
        """Ones."""
        return np.ones(len(point.x))

    def residual(self, point: Point) -> tuple[Vector, Vector]:
        """The target, and the way there."""
        return self.target, -point.grad

    def to_origin(self) -> SquaredDistance:
        """1/2 |x|^2."""
        return SquaredDistance(np.zeros(self.dim))
