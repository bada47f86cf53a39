"""Mean losses of linear models: logistic regression, robust regression."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import copy
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from wolfhound.core import Matrix, Point, Vector
from wolfhound.objectives._linear import LinearObjective
from wolfhound.rounding import length
from wolfhound.validate import number, require, require_moderate, vector

_LEAST_CURVATURE = 1e-6
_TAIL_CURVATURE = 0.01
_SHARP = 2.0**-25
"""Width of a loss, beside its residuals, whose slopes have as many right digits as its value."""
_WIDEST = 2.0**512
"""Most by which a width is multiplied: its share must not underflow."""


@dataclass(frozen=True, slots=True, eq=False, repr=False, init=False)
class _MeanLoss(LinearObjective):
    """A mean of losses >= 0, lifted to z = A x."""

    floor = 0.0

    def lift(self, rows: Matrix) -> Matrix:
        """A x for each row."""
        return np.asarray(np.asarray(rows, np.float64) @ self.design.T)

    def slope(self, point: Point) -> Vector:
        """Derivative with respect to A x."""
        blunt = self._blunt(point.x)
        return blunt._scale * blunt._slopes(self._image_of(point)[:-1])

    def pull(self, slope: Vector) -> Vector:
        """A'u for a slope u."""
        return np.asarray(slope @ self.design)

    @property
    def _scale(self) -> float:
        return 1.0 / len(self.design)

    def _excess(self, z: Vector, error: float, grad: Vector, grad_error: float) -> float:
        return math.inf


@dataclass(frozen=True, slots=True, eq=False, repr=False, init=False)
class Logistic(_MeanLoss):
    """Mean logistic loss.

    f(x) = 1/m sum_i log(1 + exp(-y_i <a_i, x>)). The lift is z = A x.

    Parameters
    ----------
    design : (m, d)
        The matrix A.
    labels : (m,)
        The classes y, -1 or +1; 0 and 1 (or booleans) are read as -1 and +1.

    Examples
    --------
    >>> f = Logistic([[1.0], [2.0]], [True, False])
    >>> round(f.at(np.zeros(1)).value, 6), f.labels
    (0.693147, array([ 1., -1.]))
    """

    _bend = 0.25
    _steepest = 1.0
    labels: Vector

    def __init__(self, design: ArrayLike, labels: ArrayLike) -> None:
        self._keep(design)
        found = vector(labels, "labels", size=len(self.design))
        kinds = np.unique(found)
        known = bool(np.isin(kinds, (-1.0, 1.0)).all() or np.isin(kinds, (0.0, 1.0)).all())
        require(known, "labels", "-1 and +1, or 0 and 1", f"{kinds[:5]}")
        object.__setattr__(self, "labels", np.where(found > 0.0, 1.0, -1.0))

    def curvature(self, point: Point) -> Vector:
        """p (1 - p) / m, but at least 1e-6 / m, p the probability of a label."""
        wrong = np.abs(self._slopes(self._image_of(point)[:-1]))
        return np.asarray(self._scale * np.maximum(wrong * (1.0 - wrong), _LEAST_CURVATURE))

    def _losses(self, z: Vector) -> Vector:
        margin = self.labels * z
        return np.asarray(np.maximum(-margin, 0.0) + np.log1p(np.exp(-np.abs(margin))))

    def _slopes(self, z: Vector) -> Vector:
        margin = self.labels * z
        small = np.exp(-np.abs(margin))
        return np.asarray(-self.labels * np.where(margin > 0.0, small, 1.0) / (1.0 + small))


@dataclass(frozen=True, slots=True, eq=False, repr=False, init=False)
class Huber(_MeanLoss):
    """Mean Huber loss: quadratic near 0, linear beyond delta.

    f(x) = 1/m sum_i h(<a_i, x> - b_i) with h(r) = r^2 / 2 if |r| <= delta, else
    delta (|r| - delta/2). The lift is z = A x.

    A delta far below the residuals' rounding makes slopes that rounding turns about. With a
    wider w, delta/w times the loss of width w lies below the loss, by at most delta w / 2: its
    tangents are proofs, too, and sharp. Rounding blurs them by u r / w of a slope, r the size of
    residuals; w = r sqrt(8 u) balances both at about 1e-8 delta r.

    Parameters
    ----------
    design : (m, d)
        The matrix A.
    response : (m,)
        The vector b.
    delta
        Where the loss becomes linear, > 0 and finite.

    Examples
    --------
    >>> Huber([[1.0], [1.0]], [0.5, 3.0]).at(np.zeros(1)).value
    1.3125
    """

    _bend = 1.0
    response: Vector
    delta: float
    _share: float
    _reach: float

    def __init__(self, design: ArrayLike, response: ArrayLike, *, delta: float = 1.0) -> None:
        self._keep(design)
        found = vector(response, "response", size=len(self.design))
        require_moderate(found, "response")
        width = number(delta, "delta", low=0.0, strict=True)
        require_moderate(width, "delta")
        object.__setattr__(self, "response", found)
        object.__setattr__(self, "delta", width)
        object.__setattr__(self, "_share", 1.0)
        object.__setattr__(self, "_reach", length(found))

    def curvature(self, point: Point) -> Vector:
        """1/m where the loss is quadratic, else 0.01 delta / (m |r|) instead of 0."""
        blunt = self._blunt(point.x)
        size = np.abs(self._image_of(point)[:-1] - self.response)
        tail = _TAIL_CURVATURE * (blunt.delta / np.maximum(size, blunt.delta))
        return np.asarray(blunt._scale * np.where(size <= blunt.delta, 1.0, tail))

    def _blunt(self, x: Vector) -> Huber:
        """A share of a wider loss, where the width is less than half the digits of residuals resolve."""
        residual = (self._size * length(x) + self._reach) / math.sqrt(len(self.design))
        if not self.delta < _SHARP * residual < _WIDEST * self.delta:
            return self
        # A power of two: the same at points of about the same size.
        width = max(2.0 ** math.floor(math.log2(_SHARP * residual)), self.delta)
        wide = copy.copy(self)
        object.__setattr__(wide, "delta", width)
        object.__setattr__(wide, "_share", self._share * self.delta / width)
        return wide

    @property
    def _scale(self) -> float:
        return self._share / len(self.design)

    @property
    def _steepest(self) -> float:
        return self.delta

    def _losses(self, z: Vector) -> Vector:
        residual = z - self.response
        clipped = np.clip(residual, -self.delta, self.delta)
        return np.asarray(clipped * (residual - 0.5 * clipped))

    def _slopes(self, z: Vector) -> Vector:
        return np.clip(z - self.response, -self.delta, self.delta)
