"""f(x) = c sum_i loss_i(<a_i, x>): everything but the loss.

Knows how to evaluate a loss of A x with proved rounding errors. A file that adds
a loss must know nothing of that.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import abc
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from wolfhound.core import Matrix, Point, Vector
from wolfhound.objectives._plain import PlainObjective
from wolfhound.rounding import ELEMENTWISE, SAFE, TINY, UNIT, drift_length, gamma, length
from wolfhound.validate import as_floats, matrix, require_moderate

_EXACT_SIDE = 1024
_STALE = 4.0


@dataclass(frozen=True, slots=True, eq=False, repr=False, init=False)
class LinearObjective(PlainObjective, abc.ABC):
    """A sum of losses of the image z = A x; subclasses give the loss.

    Error analysis. The computed image has |z - A x| <= e = gamma_d |A|_F |x| in
    the 2-norm. With u the slope of f in z, and B (c `_bend`) its Lipschitz
    constant, f(x) differs from f computed from z by at most |u| e + B e^2 / 2,
    and the slope by B e; but the tangent at z is as good a lower bound as the one at A x, and
    lies at most |u| e below it at x. Where a gap is cut by N, which bounds |P u|^2 (P projects on
    the range of A), a move w in that range has |z + w - A x| >= |w| - e: that costs at most
    sqrt(N) e more. Evaluating a loss (>= 0) or its slope, with the rounding
    of z - b, costs fewer than `ELEMENTWISE` units relative to each; sums gamma_m.
    """

    convex = True  # so are the losses
    design: Matrix  # (m, d) A
    _size: float
    _spectral: float

    def _keep(self, design: ArrayLike) -> None:
        object.__setattr__(self, "design", matrix(design, "design"))
        object.__setattr__(self, "_size", length(self.design))
        require_moderate(self._size, "design")
        object.__setattr__(self, "_spectral", math.nan)

    def __repr__(self) -> str:
        m, d = self.design.shape
        return f"{type(self).__name__}(m={m}, d={d})"

    # ------------------------------------------------ what a subclass gives

    @property
    @abc.abstractmethod
    def _scale(self) -> float:
        """The factor c: 1 for a sum, 1/m for a mean."""

    @property
    @abc.abstractmethod
    def _bend(self) -> float:
        """A Lipschitz constant of every loss's slope."""

    @property
    @abc.abstractmethod
    def _steepest(self) -> float:
        """Largest slope of a loss, or inf."""

    @abc.abstractmethod
    def _losses(self, z: Vector) -> Vector:
        """Losses, elementwise; (m,) or (r, m)."""

    @abc.abstractmethod
    def _slopes(self, z: Vector) -> Vector:
        """Their derivatives."""

    @abc.abstractmethod
    def _excess(self, z: Vector, error: float, grad: Vector, grad_error: float) -> float:
        """At least 2 (f(x) - min f), or inf."""

    def _blunt(self, x: Vector) -> LinearObjective:
        """Return what lies below f, close to it, and has slopes that rounding at x leaves sharp: mostly f."""
        return self

    # ------------------------------------------------ Objective

    @property
    def dim(self) -> int:
        """The d of the atoms."""
        return int(self.design.shape[1])

    @property
    def smoothness(self) -> float:
        """c B |A|_2^2, rounded up (|A|_F instead if min(m, d) > 1024)."""
        if math.isnan(self._spectral):
            object.__setattr__(self, "_spectral", _sq_spectral(self.design, self._size))
        return self._scale * self._bend * self._spectral * (1.0 + gamma(4))

    def at(self, x: Vector, drift: Vector | float = 0.0) -> Point:
        """Evaluate f at x."""
        x = as_floats(x, "x")
        return self._point(x, self._image(x), drift_length(drift, len(x)))

    def values(self, rows: Matrix) -> Vector:
        """f at each row."""
        rows = as_floats(rows, "rows")
        self._check(float(np.abs(rows).max(initial=0.0)))
        images = rows @ self.design.T
        return np.asarray(self._scale * self._losses(images).sum(axis=1))

    def line(self, start: Point, direction: Vector) -> _ImageLine:
        """f along a line; one product with A, then O(m) per value and slope."""
        return _ImageLine(self, start, direction)

    # ------------------------------------------------ inside

    def _image(self, x: Vector) -> Vector:
        """Return (m + 1,): the image of x, then its error bound e."""
        m, size = len(self.design), length(x)
        self._check(size)
        out = np.empty(m + 1)
        np.dot(self.design, x, out=out[:-1])
        out[-1] = self._fresh_error(size)
        return out

    def _check(self, size: float) -> None:
        """Raise if the image of such an x, or a gradient there, could overflow."""
        require_moderate(self._size * max(1.0, self._size) * size, "design @ atom")

    def _image_of(self, point: Point) -> Vector:
        return self._image(point.x) if point.cache is None else point.cache

    def _fresh_error(self, size_x: float) -> float:
        m, d = self.design.shape
        underflow = math.sqrt(m) * (d + 1) * TINY
        return float(SAFE * (gamma(d) * self._size * size_x + underflow))

    def _point(self, x: Vector, image: Vector, drift: float = 0.0) -> Point:
        m, d = self.design.shape
        z, error = image[:-1], float(image[-1])
        value = self._scale * float(self._losses(z).sum())
        blunt = self._blunt(x)
        sag = 0.0 if blunt is self else max(value - blunt._scale * float(blunt._losses(z).sum()), 0.0)
        slope = blunt._scale * blunt._slopes(z)
        grad = slope @ self.design
        lost, bend, size = gamma(m + ELEMENTWISE), self._scale * self._bend, length(slope)
        reach = error + SAFE * self._size * drift
        # Where the slopes are bounded, so is what a coarse image can change.
        steepest = self._scale * math.sqrt(m) * self._steepest
        rise = min(size + 0.5 * bend * reach, steepest) if blunt is self else steepest
        grad_error = SAFE * (self._size * (lost * size + m * TINY) + d * m * TINY)
        bent = SAFE * self._size * min(bend * error, 2.0 * steepest)
        excess = self._excess(z, error, grad, grad_error + bent)
        return Point(
            x=x,
            value=value,
            grad=grad,
            value_error=SAFE * (lost * value + reach * rise + m * TINY),
            grad_error=grad_error,
            sag=sag + (0.0 if math.isinf(excess) else SAFE * error * math.sqrt(excess)),
            turn=SAFE * self._size * min(blunt._scale * blunt._bend * reach, 2.0 * steepest),
            excess=excess,
            cache=image,
        )


class _ImageLine:
    """phi(s) from the images of the start and of the direction."""

    def __init__(self, model: LinearObjective, start: Point, direction: Vector) -> None:
        self.start = start
        # Values and slopes of one function, whose slopes are sharp.
        self._blunt = model._blunt(start.x)
        self.sq_length = float(direction @ direction)
        self._model = model
        self._direction = direction
        self._from = model._image_of(start)
        self._along = model._image(direction)

    def value(self, s: float) -> float:
        """phi(s)."""
        return self._blunt._scale * float(self._blunt._losses(self._move(s)).sum())

    def slope(self, s: float) -> float:
        """phi'(s)."""
        return self._blunt._scale * float(self._blunt._slopes(self._move(s)) @ self._along[:-1])

    def at(self, s: float) -> Point:
        """Evaluate f at x + s d, from the moved image unless its error has grown."""
        model = self._model
        x = self.start.x + s * self._direction
        fresh = model._fresh_error(length(x))
        error = self._error_at(s)
        if error > _STALE * fresh:
            return model._point(x, model._image(x))
        return model._point(x, np.append(self._move(s), error))

    def _move(self, s: float) -> Vector:
        return self._from[:-1] + s * self._along[:-1]

    def _error_at(self, s: float) -> float:
        # Both x + s d and z + s A d are rounded: gamma_2 of the parts each.
        size, far = self._model._size, abs(s) * length(self._direction)
        images = length(self._from[:-1]) + abs(s) * length(self._along[:-1])
        added = gamma(3) * (images + size * (length(self.start.x) + far))
        underflow = 2.0 * (1.0 + size) * math.sqrt(len(self._from)) * len(self._direction) * TINY
        added += abs(s) * float(self._along[-1]) + underflow
        return (float(self._from[-1]) + SAFE * added) * (1.0 + 4.0 * UNIT)


def _sq_spectral(a: Matrix, size: float) -> float:
    """Upper bound on |A|_2^2 from the smaller Gram matrix."""
    side, other = sorted(a.shape)
    if side > _EXACT_SIDE:
        return size * size
    gram = a.T @ a if a.shape[1] == side else a @ a.T
    top = float(np.linalg.eigvalsh(gram)[-1])
    # The products lose gamma, the backward stable eigenvalues a small multiple of side units.
    return min(top + (gamma(other) + gamma(32 * side)) * size * size, size * size)
