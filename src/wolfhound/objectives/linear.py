"""f(x) = c sum_i loss_i(<a_i, x>): least squares, logistic and robust regression.

`LinearObjective` knows how to evaluate losses of A x with proved rounding errors; what adds a loss
must know nothing of that. Before `LeastSquares` is how its minimum is proved.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import abc
import copy
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from wolfhound.core.contracts import Matrix, Point, Vector
from wolfhound.core.rounding import ELEMENTWISE, SAFE, TINY, UNIT, drift_length, gamma, length
from wolfhound.core.validate import as_floats, matrix, number, require, require_moderate, vector
from wolfhound.objectives.plain import PlainObjective

_EXACT_SIDE = 1024
_STALE = 4.0
_CACHED = 1 << 14  # losses that are made at a time: their arrays stay in a cache, and with malloc


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
    _lift: Matrix  # (p, d) A, or what has the same products
    _size: float
    _spectral: float

    def _keep(self, design: ArrayLike) -> None:
        found = matrix(design, "design")
        self._set(design=found, _lift=found, _size=length(found), _spectral=math.nan)
        require_moderate(self._size, "design")

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

    def _excess(self, z: Vector, error: float, grad: Vector, grad_error: float) -> float:
        """At least 2 (f(x) - min f) of a quadratic f, else inf."""
        return math.inf

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
            size, (side, other), a = self._size, sorted(self.design.shape), self.design
            bound = size * size
            if side <= _EXACT_SIDE:
                gram = a.T @ a if a.shape[1] == side else a @ a.T
                # The products lose gamma, the backward stable eigenvalues a small multiple of side units.
                lost = (gamma(other) + gamma(32 * side)) * size * size
                bound = min(float(np.linalg.eigvalsh(gram)[-1]) + lost, bound)
            self._set(_spectral=bound)
        return self._scale * self._bend * self._spectral * (1.0 + gamma(4))

    def at(self, x: Vector, drift: Vector | float = 0.0) -> Point:
        """Evaluate f at x."""
        x = as_floats(x, "x")
        return self._point(x, self._image(x), drift_length(drift, len(x)))

    def values(self, rows: Matrix) -> Vector:
        """f at each row."""
        rows = as_floats(rows, "rows")
        self._check(float(np.abs(rows).max(initial=0.0)))
        images, values = rows @ self.design.T, np.empty(len(rows))
        step = max(1, _CACHED // len(self.design))
        for start in range(0, len(rows), step):
            values[start : start + step] = self._losses(images[start : start + step]).sum(axis=1)
        return self._scale * values

    def line(self, start: Point, direction: Vector) -> _ImageLine:
        """f along a line; one product with A, then O(m) per value and slope."""
        return _ImageLine(self, start, direction)

    def lift(self, rows: Matrix) -> Matrix:
        """A x for each row, or R x where A = Q R."""
        return np.asarray(np.asarray(rows, np.float64) @ self._lift.T)

    def pull(self, slope: Vector) -> Vector:
        """Transpose of the lift, times a slope."""
        return np.asarray(slope @ self._lift)

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
        self._model, self._direction = model, direction
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


# ---------------------------------------------------------------- least squares
#
# The proved minimum of a least squares problem, from any approximate inverse.
#
# Let X be d x d, B = A X and |B'B - I| <= loss < 1. Then X and A have full rank,
# and (A'A)^-1 = X (B'B)^-1 X'. So for the projection P on the range of A
#
#     |P v|^2 = (A'v)' (A'A)^-1 (A'v) <= |X'A'v|^2 / (1 - loss),
#
# whatever X is: here the inverse of the R of a QR factorisation, which is thus not
# trusted but checked. As (I - P) b = (I - P)(b - A y) for every y, the minimum of
# 1/2 |A x - b|^2 is 1/2 (|v|^2 - |P v|^2) with v = b - A y; and
# 2 (f(x) - min f) = g'(A'A)^-1 g <= |X'g|^2 / (1 - loss) with g the gradient at x.

_BLOCK = 4096
_MAX_LOSS = 0.25


@dataclass(frozen=True, slots=True, eq=False)
class Proof:
    """An approximate inverse X that was checked."""

    inverse: Matrix  # (d, d)
    size: float  # at least |X|_F
    loss: float  # at least |B'B - I|_2

    def project(self, g: Vector, error: float) -> float:
        """Upper bound on |P v| for every v with |A'v - g| <= error."""
        d = len(g)
        missed = self.size * (gamma(d) * length(g) + error) + d * d * TINY
        return (length(g @ self.inverse) + SAFE * missed) / math.sqrt(1.0 - self.loss) * (1.0 + gamma(4))


def _factor(a: Matrix, b: Vector) -> tuple[Matrix, Vector, Proof | None, float]:
    """R (p, d), c (p,) with 1/2 |A x - b|^2 = 1/2 |R x - c|^2 + a constant, the proof, and a bound below it.

    Nothing is proved where m <= d, or A is ill-conditioned.
    """
    m, d = a.shape
    if m <= d:
        return a, b, None, 0.0
    # Overflow ends in a proof that fails, which is an answer.
    with np.errstate(all="ignore"):
        r = np.asarray(np.linalg.qr(np.column_stack([a, b]), mode="r"))
        lift, centre = np.ascontiguousarray(r[:d, :d]), np.ascontiguousarray(r[:d, d])
        proof = _prove(a, lift)
        least = 0.0 if proof is None else _floor(proof, a, b, proof.inverse @ centre)
    return lift, centre, proof, least


def _prove(a: Matrix, r: Matrix) -> Proof | None:
    try:
        inverse = np.linalg.inv(r)
    except np.linalg.LinAlgError:
        return None
    size, loss = length(inverse), _loss(a, inverse)
    return Proof(inverse, size, loss) if loss <= _MAX_LOSS and math.isfinite(size) else None


def _loss(a: Matrix, x: Matrix) -> float:
    """Upper bound on |B'B - I|_F, B = A X, with the rounding of both products."""
    m, d = a.shape
    gram = np.zeros((d, d))
    for first in range(0, m, _BLOCK):
        b = a[first : first + _BLOCK] @ x
        gram += b.T @ b
    squares = SAFE * (float(np.trace(gram)) + m * d * TINY)
    away = gamma(d) * length(a) * length(x) + d * math.sqrt(m * d) * TINY
    gram[np.diag_indices(d)] -= 1.0
    lost = gamma(m + 2) * squares + away * (2.0 * math.sqrt(squares) + away) + m * d * TINY
    return float(SAFE * (length(gram) + lost))


def _floor(proof: Proof, a: Matrix, b: Vector, y: Vector) -> float:
    """Lower bound of the minimum, given a point y near it."""
    m, d = a.shape
    # One step of refinement: the QR factorisation has lost up to cond(A) units.
    y = y + proof.inverse @ (((b - a @ y) @ a) @ proof.inverse)
    v = b - a @ y
    size_a, size_v = length(a), length(v)
    error = SAFE * (gamma(d + 2) * size_a * length(y) + gamma(2) * length(b) + m * d * TINY)
    inside = proof.project(v @ a, SAFE * (gamma(m) * size_a * size_v + d * m * TINY))
    squares = float(v @ v) * (1.0 - gamma(m + 4)) - inside * inside * (1.0 + gamma(4)) - m * TINY
    away = math.sqrt(squares) * (1.0 - gamma(4)) - error if squares > 0.0 else 0.0
    return 0.5 * away * away * (1.0 - gamma(4)) if away > 0.0 else 0.0


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
    _centre: Vector  # c: f is 1/2 |R x - c|^2 and a constant
    _proof: Proof | None
    _least: float

    def __init__(self, design: ArrayLike, response: ArrayLike) -> None:
        self._keep(design)
        found = vector(response, "response", size=len(self.design))
        require_moderate(length(found) * max(1.0, self._size), "response")
        lift, centre, proof, least = _factor(self.design, found)
        self._set(response=found, _lift=lift, _centre=centre, _proof=proof, _least=least)

    @property
    def floor(self) -> float:
        """The minimum over R^d less its rounding; 0 if A is ill-conditioned."""
        return self._least

    def slope(self, point: Point) -> Vector:
        """R x - Q'b."""
        return np.asarray(self._lift @ point.x - self._centre)

    def curvature(self, point: Point) -> Vector:
        """Ones."""
        return np.ones(len(self._centre))

    def residual(self, point: Point) -> tuple[Vector, Vector]:
        """b and b - A x."""
        return self.response, np.asarray(self.response - self._image_of(point)[:-1])

    def to_origin(self) -> LeastSquares:
        """1/2 |A x|^2."""
        return LeastSquares(self.design, np.zeros(len(self.response)))

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
        if self._proof is not None:
            projected = self._proof.project(grad, grad_error)
            plain = min(plain, projected * projected * (1.0 + gamma(4)))
        return plain + TINY


# ---------------------------------------------------------------- mean losses

_LEAST_CURVATURE = 1e-6
_TAIL_CURVATURE = 0.1
_SHARP = 2.0**-25  # width of a loss, beside its residuals, whose slopes have as many digits as its value
_WIDEST = 2.0**512  # most by which a width is multiplied: its share must not underflow


@dataclass(frozen=True, slots=True, eq=False, repr=False, init=False)
class _MeanLoss(LinearObjective):
    """A mean of losses >= 0, lifted to z = A x."""

    floor = 0.0

    def slope(self, point: Point) -> Vector:
        """Derivative with respect to A x."""
        blunt = self._blunt(point.x)
        return blunt._scale * blunt._slopes(self._image_of(point)[:-1])

    @property
    def _scale(self) -> float:
        return 1.0 / len(self.design)


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
        self._set(labels=np.where(found > 0.0, 1.0, -1.0))

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
        self._set(response=found, delta=width, _share=1.0, _reach=length(found))

    def curvature(self, point: Point) -> Vector:
        """1/m where the loss is quadratic, else 0.1 delta / (m |r|) instead of 0."""
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
        wide._set(delta=width, _share=self._share * self.delta / width)
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
