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

from wolfhound.core import Matrix, Vector
from wolfhound.rounding import SAFE, TINY, gamma, length

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


@dataclass(frozen=True, slots=True, eq=False)
class Factor:
    """1/2 |A x - b|^2 = 1/2 |R x - c|^2 + a constant that is at least `floor`."""

    lift: Matrix  # (p, d) R, p = min(m, d)
    centre: Vector  # (p,) c
    floor: float = 0.0  # proved lower bound of the minimum
    proof: Proof | None = None  # None if nothing could be proved (m <= d, or A is ill-conditioned)

    def excess(self, grad: Vector, grad_error: float) -> float:
        """Upper bound on g'(A'A)^-1 g for |g - grad| <= grad_error, or inf."""
        if self.proof is None:
            return math.inf
        size = self.proof.project(grad, grad_error)
        return size * size * (1.0 + gamma(4))


def factor(a: Matrix, b: Vector) -> Factor:
    """Factor A and prove what can be proved about the minimum."""
    m, d = a.shape
    if m <= d:
        return Factor(a, b)
    # Overflow ends in a proof that fails, which is an answer.
    with np.errstate(all="ignore"):
        r = np.asarray(np.linalg.qr(np.column_stack([a, b]), mode="r"))
        lift, centre = np.ascontiguousarray(r[:d, :d]), np.ascontiguousarray(r[:d, d])
        proof = _prove(a, lift)
        floor = 0.0 if proof is None else _floor(proof, a, b, proof.inverse @ centre)
    return Factor(lift, centre, floor, proof)


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
