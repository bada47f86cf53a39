"""One line per objective, and exact references that share no code with them."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from wolfhound import Custom, Huber, LeastSquares, Logistic, MixtureLikelihood, SquaredDistance
from wolfhound.core.contracts import Matrix, Objective, Vector

Long: TypeAlias = NDArray[np.longdouble]
Exact: TypeAlias = Callable[[Long], tuple[Any, Long]]


def half_square(x: Vector) -> tuple[float, Vector]:
    """A function that a caller could write."""
    return 0.5 * float(x @ x), x


def _draw(seed: int, *shape: int) -> Vector:
    return np.random.default_rng(seed).standard_normal(shape)


TALL, WIDE, NOISE = _draw(0, 40, 4), _draw(1, 3, 4), _draw(2, 40)
LABELS = np.where(NOISE > 0, 1.0, -1.0)
POINTS = _draw(3, 4, 4)
ROWS = _draw(4, 12, 4).astype(np.float32)

CASES: dict[str, tuple[Objective, Matrix, Matrix]] = {
    "squared distance": (SquaredDistance(_draw(5, 4)), POINTS, ROWS),
    "least squares": (LeastSquares(TALL, NOISE), POINTS, ROWS),
    "least squares, wide": (LeastSquares(WIDE, NOISE[:3]), POINTS, ROWS),
    "least squares, dependent": (LeastSquares(TALL @ (WIDE.T @ WIDE), NOISE), POINTS, ROWS),
    "logistic": (Logistic(TALL, LABELS), POINTS, ROWS),
    "huber": (Huber(TALL, NOISE, delta=0.7), POINTS, ROWS),
    "mixture": (MixtureLikelihood(), np.abs(POINTS) + 0.1, np.abs(ROWS)),
    "custom": (Custom(half_square, convex=True, smoothness=1.0, floor=0.0), POINTS, ROWS),
}
LIFTED = tuple(name for name in CASES if name != "custom")
SLACK = {"huber": 0.1 * float(np.linalg.norm(TALL, 2)) ** 2 / 40}


def exact_distance(target: Vector) -> Exact:
    """f and its gradient in long double."""
    return lambda x: (((x - target) ** 2).sum() / 2, x - target)


def exact_least_squares(design: Matrix, response: Vector) -> Exact:
    """f and its gradient in long double."""
    a = design.astype(np.longdouble)
    return lambda x: (((a @ x - response) ** 2).sum() / 2, a.T @ (a @ x - response))


def exact_logistic(design: Matrix, labels: Vector) -> Exact:
    """f and its gradient in long double."""
    a, zero = (labels[:, None] * design).astype(np.longdouble), np.longdouble(0)

    def both(x: Long) -> tuple[Any, Long]:
        margin = a @ x
        return np.logaddexp(zero, -margin).mean(), -a.T @ np.exp(-np.logaddexp(zero, margin)) / len(a)

    return both


def exact_huber(design: Matrix, response: Vector, delta: float) -> Exact:
    """f and its gradient in long double."""
    a, width = design.astype(np.longdouble), np.longdouble(delta)

    def both(x: Long) -> tuple[Any, Long]:
        residual = a @ x - response
        size = np.abs(residual)
        losses = np.where(size <= width, residual**2 / 2, width * (size - width / 2))
        return losses.mean(), a.T @ np.where(size <= width, residual, width * np.sign(residual)) / len(a)

    return both


def exact_mixture(x: Long) -> tuple[Any, Long]:
    """f and its gradient in long double."""
    return -np.log(x).mean(), -1 / (len(x) * x)


def exact_minimum(design: Matrix, response: Vector) -> Fraction:
    """Return min 1/2 |A x - b|^2 in rationals, by elimination on the normal equations."""
    a = [[Fraction(float(v)) for v in row] for row in design]
    b = [Fraction(float(v)) for v in response]
    columns = [list(column) for column in zip(*a, strict=True)]
    system = [[_dot(u, v) for v in [*columns, b]] for u in columns]
    rest = _dot(b, b)
    # Eliminating the positive pivots turns the corner b'b into |b|^2 - |P b|^2.
    full = [*system, [row[-1] for row in system] + [rest]]
    for k in range(len(columns)):
        pivot = full[k][k]
        inverse = 1 / pivot if pivot else Fraction(0)
        for i in range(k + 1, len(full)):
            factor = full[i][k] * inverse
            full[i] = [x - factor * y for x, y in zip(full[i], full[k], strict=True)]
    return full[-1][-1] / 2


def exact_value(design: Matrix, response: Vector, x: Vector) -> Fraction:
    """Return 1/2 |A x - b|^2 in rationals."""
    at = [Fraction(float(v)) for v in x]
    rows = [[Fraction(float(v)) for v in row] for row in design]
    away = [_dot(row, at) - Fraction(float(v)) for row, v in zip(rows, response, strict=True)]
    return _dot(away, away) / 2


def _dot(u: list[Fraction], v: list[Fraction]) -> Fraction:
    return sum((x * y for x, y in zip(u, v, strict=True)), Fraction(0))
