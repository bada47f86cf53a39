"""Independent float64 values, gradients and proofs, in plain numpy.

Nothing here uses the library: these functions re-check what it reports.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

Vector: TypeAlias = NDArray[np.float64]
Matrix: TypeAlias = NDArray[np.floating[Any]]
Ids: TypeAlias = NDArray[np.int64]

_BLOCK_NUMBERS = 2**24


class Loss(Protocol):
    """A convex f with its gradient."""

    @property
    def floor(self) -> float:
        """A lower bound of f everywhere."""

    def value(self, x: Vector) -> float:
        """f(x)."""

    def grad(self, x: Vector) -> Vector:
        """Gradient at x."""

    def excess(self, x: Vector) -> float:
        """2 (f(x) - min f over R^d) for quadratic f, else inf."""


class Distance:
    """1/2 |x - target|^2."""

    floor = 0.0

    def __init__(self, target: Vector) -> None:
        self.target = target

    def value(self, x: Vector) -> float:
        return 0.5 * self.excess(x)

    def grad(self, x: Vector) -> Vector:
        return x - self.target

    def excess(self, x: Vector) -> float:
        return float(np.square(x - self.target).sum())

    def lift(self, rows: Matrix) -> Vector:
        return rows.astype(np.float64)


class Squares:
    """1/2 |A x - b|^2."""

    def __init__(self, design: Vector, response: Vector) -> None:
        self.design, self.response = design, response
        self._range = np.linalg.qr(design)[0]
        self.target = self._range.T @ response
        self.floor = 0.5 * float(np.square(response - self._range @ self.target).sum())

    def value(self, x: Vector) -> float:
        return 0.5 * float(np.square(self.design @ x - self.response).sum())

    def grad(self, x: Vector) -> Vector:
        return self.design.T @ (self.design @ x - self.response)

    def excess(self, x: Vector) -> float:
        return float(np.square(self._range.T @ (self.design @ x - self.response)).sum())

    def lift(self, rows: Matrix) -> Vector:
        return rows.astype(np.float64) @ (self._range.T @ self.design).T


class LogLoss:
    """mean log(1 + exp(-y <a, x>)), labels y = -1 or 1."""

    floor = 0.0

    def __init__(self, design: Vector, labels: Vector) -> None:
        self.design, self.labels = design, labels

    def value(self, x: Vector) -> float:
        return float(np.logaddexp(0.0, -self.labels * (self.design @ x)).mean())

    def grad(self, x: Vector) -> Vector:
        margin = self.labels * (self.design @ x)
        return -self.design.T @ (self.labels * np.exp(-np.logaddexp(0.0, margin))) / len(margin)

    def excess(self, x: Vector) -> float:
        return math.inf


class HuberLoss:
    """Mean Huber loss of <a, x> - b: square up to delta, then linear."""

    floor = 0.0

    def __init__(self, design: Vector, response: Vector, delta: float) -> None:
        self.design, self.response, self.delta = design, response, delta

    def value(self, x: Vector) -> float:
        size = np.abs(self.design @ x - self.response)
        return float(
            np.where(size <= self.delta, 0.5 * size**2, self.delta * (size - 0.5 * self.delta)).mean()
        )

    def grad(self, x: Vector) -> Vector:
        residual = self.design @ x - self.response
        return self.design.T @ np.clip(residual, -self.delta, self.delta) / len(residual)

    def excess(self, x: Vector) -> float:
        return math.inf


class NegativeLogLikelihood:
    """-mean log x; at least 0 where every entry of every atom is at most 1."""

    floor = 0.0

    def value(self, x: Vector) -> float:
        return -float(np.log(x).mean()) if x.min() > 0.0 else math.inf

    def grad(self, x: Vector) -> Vector:
        return -1.0 / (len(x) * x)

    def excess(self, x: Vector) -> float:
        return math.inf


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """What an independent pass proves at a point of the hull.

    Attributes
    ----------
    value : float
        f at the point.
    gap : float
        Frank-Wolfe gap, max <grad, x - s> over all atoms.
    lower : float
        Lower bound on min f that follows.
    feasible : bool
        Whether the weights are >= 0 and sum to 1.
    """

    value: float
    gap: float
    lower: float
    feasible: bool


def prove(loss: Loss, atoms: Matrix, ids: Ids, weights: Vector) -> Proof:
    """Recompute x, f, gradient and gap in float64, reading every atom."""
    x = weights @ atoms[ids].astype(np.float64)
    value, grad = loss.value(x), loss.grad(x)
    gap = best_score(atoms, -grad) + float(grad @ x)
    feasible = bool(weights.min() >= 0.0 and abs(weights.sum() - 1.0) <= 1e-12)
    lower = max(value - largest_decrease(gap, loss.excess(x)), loss.floor)
    return Proof(value=value, gap=gap, lower=lower, feasible=feasible)


def best_score(atoms: Matrix, query: Vector) -> float:
    """max <query, atom>, in float64, block by block."""
    rows = max(1, _BLOCK_NUMBERS // atoms.shape[1])
    starts = range(0, len(atoms), rows)
    return max(float((atoms[at : at + rows].astype(np.float64) @ query).max()) for at in starts)


def largest_decrease(gap: float, excess: float) -> float:
    """Most by which f can fall: a quadratic's minimum on the proved half-space."""
    if gap >= excess:
        return 0.5 * excess
    return gap - 0.5 * gap * gap / excess
