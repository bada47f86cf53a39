"""The proved minimum of a least squares problem, from any approximate inverse.

Let X be d x d, B = A X and |B'B - I| <= loss < 1. Then X and A have full rank,
and (A'A)^-1 = X (B'B)^-1 X'. So for the projection P on the range of A

    |P v|^2 = (A'v)' (A'A)^-1 (A'v) <= |X'A'v|^2 / (1 - loss),

whatever X is: here the inverse of the R of a QR factorisation, which is thus not
trusted but checked. As (I - P) b = (I - P)(b - A y) for every y, the minimum of
1/2 |A x - b|^2 is 1/2 (|v|^2 - |P v|^2) with v = b - A y; and
2 (f(x) - min f) = g'(A'A)^-1 g <= |X'g|^2 / (1 - loss) with g the gradient at x.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from wolfhound.core import TINY, UNIT, Matrix, Vector, gamma
from wolfhound.objectives._rounding import SAFE, length

_BLOCK = 4096
_MAX_LOSS = 0.25


@dataclass(frozen=True, slots=True, eq=False)
class Factor:
    """1/2 |A x - b|^2 = 1/2 |R x - c|^2 + a constant that is at least `floor`.

    Attributes
    ----------
    lift : (p, d)
        R, p = min(m, d).
    centre : (p,)
        c.
    inverse : (d, d), optional
        X; None if nothing could be proved (m <= d, or A is ill-conditioned).
    size : float
        At least |X|_F.
    loss : float
        At least |B'B - I|_2.
    floor : float
        Proved lower bound of the minimum.
    """

    lift: Matrix
    centre: Vector
    inverse: Matrix | None = None
    size: float = math.inf
    loss: float = 1.0
    floor: float = 0.0

    def excess(self, grad: Vector, grad_error: float) -> float:
        """Upper bound on g'(A'A)^-1 g for |g - grad| <= grad_error."""
        if self.inverse is None:
            return math.inf
        return _projected(self, grad, grad_error) ** 2 * (1.0 + gamma(8))


def factor(a: Matrix, b: Vector) -> Factor:
    """Factor A and prove what can be proved about the minimum."""
    m, d = a.shape
    if m <= d:
        return Factor(a, b)
    with np.errstate(all="ignore"):
        r = np.linalg.qr(np.column_stack([a, b]), mode="r")
        lift, centre = np.ascontiguousarray(r[:d, :d]), np.ascontiguousarray(r[:d, d])
        inverse = _inverse(lift)
        if inverse is None:
            return Factor(lift, centre)
        size, loss = length(inverse), _loss(a, inverse)
        if not (loss <= _MAX_LOSS and math.isfinite(size)):
            return Factor(lift, centre)
        found = Factor(lift, centre, inverse, size, loss)
        return Factor(lift, centre, inverse, size, loss, _floor(found, a, b))


def _inverse(r: Matrix) -> Matrix | None:
    try:
        out = np.linalg.inv(r)
    except np.linalg.LinAlgError:
        return None
    return out if np.isfinite(out).all() else None


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
    return SAFE * (length(gram) + lost)


def _projected(found: Factor, g: Vector, error: float) -> float:
    """Upper bound on |P v| given g = A'v within `error`."""
    assert found.inverse is not None
    d = len(g)
    missed = found.size * (gamma(d) * length(g) + error) + d * d * TINY
    return (length(g @ found.inverse) + SAFE * missed) / math.sqrt(1.0 - found.loss) * (1.0 + gamma(4))


def _floor(found: Factor, a: Matrix, b: Vector) -> float:
    assert found.inverse is not None
    m, d = a.shape
    x = found.inverse @ found.centre
    # One step of refinement: the QR factorisation has lost up to cond(A) units.
    x += found.inverse @ (((b - a @ x) @ a) @ found.inverse)
    v = b - a @ x
    size_a, size_v = length(a), length(v)
    error = SAFE * (gamma(d + 2) * size_a * length(x) + gamma(2) * length(b) + m * d * TINY)
    inside = _projected(found, v @ a, SAFE * (gamma(m) * size_a * size_v + d * m * TINY))
    squares = float(v @ v) * (1.0 - gamma(m + 4)) - inside * inside * (1.0 + gamma(4)) - m * TINY
    away = math.sqrt(max(squares, 0.0)) * (1.0 - gamma(4)) - error
    return 0.5 * max(away, 0.0) ** 2 * (1.0 - 8.0 * UNIT) if away > 0.0 else 0.0
