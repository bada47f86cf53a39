"""Quadratic objectives: distance to a point, least squares."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from wolfhound.core import Matrix, Point, Vector
from wolfhound.objectives._factor import Factor, factor
from wolfhound.objectives._line import ParabolaLine
from wolfhound.objectives._linear import LinearObjective
from wolfhound.objectives._plain import PlainObjective
from wolfhound.rounding import SAFE, TINY, drift_length, gamma, length
from wolfhound.validate import as_floats, require, require_moderate, vector


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
        object.__setattr__(self, "target", found)

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


@dataclass(frozen=True, slots=True, eq=False, repr=False, init=False)
class LeastSquares(LinearObjective):
    """Half the squared residual of a linear model.

    f(x) = 1/2 |A x - b|^2. The lift is z = R x with A = Q R, so p <= d however
    many rows A has. Where A is well-conditioned, `floor` is the minimum of f over
    R^d less its rounding; otherwise it is 0.

    Parameters
    ----------
    design : (m, d)
        The matrix A.
    response : (m,)
        The vector b.

    Examples
    --------
    >>> f = LeastSquares([[1.0], [1.0]], [0.0, 2.0])
    >>> f.at(np.zeros(1)).value, round(f.floor, 12)
    (2.0, 1.0)
    """

    quadratic = True  # the constant beside 1/2 |z - c|^2 is at least `floor`
    _scale = 1.0
    _bend = 1.0
    _steepest = math.inf
    response: Vector
    _factor: Factor

    def __init__(self, design: ArrayLike, response: ArrayLike) -> None:
        self._keep(design)
        found = vector(response, "response", size=len(self.design))
        require_moderate(length(found) * max(1.0, self._size), "response")
        object.__setattr__(self, "response", found)
        object.__setattr__(self, "_factor", factor(self.design, found))

    @property
    def floor(self) -> float:
        """The minimum over R^d less its rounding; 0 if A is ill-conditioned."""
        return self._factor.floor

    def lift(self, rows: Matrix) -> Matrix:
        """R x for each row; R is A itself if m <= d."""
        return np.asarray(np.asarray(rows, np.float64) @ self._factor.lift.T)

    def slope(self, point: Point) -> Vector:
        """R x - Q'b."""
        return np.asarray(self._factor.lift @ point.x - self._factor.centre)

    def pull(self, slope: Vector) -> Vector:
        """R'u for a slope u."""
        return np.asarray(slope @ self._factor.lift)

    def curvature(self, point: Point) -> Vector:
        """Ones."""
        return np.ones(len(self._factor.centre))

    def _losses(self, z: Vector) -> Vector:
        residual = z - self.response
        return np.asarray(0.5 * residual * residual)

    def _slopes(self, z: Vector) -> Vector:
        return np.asarray(z - self.response)

    def _excess(self, z: Vector, error: float, grad: Vector, grad_error: float) -> float:
        # |r|^2 - 2 min f cancels near the minimum; |X'g|^2 is loose if A is ill-conditioned.
        # Twice the error: what is outside the range of A may be that much less at z than at A x.
        square = (length(z - self.response) + 2.0 * error) ** 2 * (1.0 + gamma(8))
        plain = max(square - 2.0 * self.floor, 0.0) + gamma(4) * square
        proved = self._factor.excess(grad, grad_error)
        return (min(plain, proved) if math.isfinite(proved) else plain) + TINY
