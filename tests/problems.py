"""Independent minima for the tests: exact ones for quadratics, certified ones else.

Nothing here uses the package: only rational numbers, extended precision and scipy.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Exact = list[list[Fraction]]


def rational(values: Array) -> Exact:
    """Return a matrix of floats as exact rational numbers."""
    return [[Fraction(float(entry)) for entry in row] for row in np.atleast_2d(values)]


def images(rows: Array, design: Array | None = None) -> Exact:
    """Return A s for every row s, exactly; s itself without a matrix."""
    atoms = rational(rows)
    if design is None:
        return atoms
    return [[_dot(line, atom) for line in rational(design)] for atom in atoms]


def squared_distance(points: Exact, target: Sequence[Fraction], weights: Sequence[Fraction]) -> Fraction:
    """1/2 |sum w p / sum w - t|^2, exactly."""
    total = sum(weights, Fraction())
    x = [_dot(weights, column) / total for column in zip(*points, strict=True)]
    return sum(((a - b) ** 2 for a, b in zip(x, target, strict=True)), Fraction()) / 2


def exact_minimum(points: Exact, target: Sequence[Fraction]) -> Fraction:
    """min 1/2 |x - t|^2 over the hull of the points, exactly."""
    away = [[a - b for a, b in zip(point, target, strict=True)] for point in points]
    scale = math.lcm(*(entry.denominator for row in away for entry in row))
    whole = np.array([[int(entry * scale) for entry in row] for row in away], object)
    return least_square(whole) / (2 * scale * scale)


def least_square(points: Array) -> Fraction:
    """min |x|^2 over the hull of points with whole coordinates, exactly.

    Wolfe's algorithm in rational numbers: it ends after finitely many steps, and
    only where the optimality conditions hold exactly. So this needs no tolerance.
    """
    squares = (points * points).sum(axis=1)
    first = int(squares.argmin())
    weights, rows = {first: Fraction(1)}, {first: points @ points[first]}
    while True:
        unit = math.lcm(*(w.denominator for w in weights.values()))
        whole = {i: int(w * unit) for i, w in weights.items()}
        scores = sum(w * rows[i] for i, w in whole.items())
        square = sum(w * int(scores[i]) for i, w in whole.items())
        best = int(scores.argmin())
        if int(scores[best]) * unit >= square:
            return Fraction(square, unit * unit)
        weights[best] = Fraction()
        rows.setdefault(best, points @ points[best])
        weights = _minor_cycle(rows, weights)


def _minor_cycle(rows: dict[int, Array], weights: dict[int, Fraction]) -> dict[int, Fraction]:
    while True:
        held = list(weights)
        gram = [[int(rows[i][j]) for j in held] for i in held]
        wanted = dict(zip(held, _affine_minimiser(gram), strict=True))
        if min(wanted.values()) > 0:
            return wanted
        blocking = [i for i in held if wanted[i] <= 0]
        reach = min(weights[i] / (weights[i] - wanted[i]) for i in blocking)
        moved = {i: w + reach * (wanted[i] - w) for i, w in weights.items()}
        weights = {i: w for i, w in moved.items() if w > 0}


def _affine_minimiser(gram: list[list[int]]) -> list[Fraction]:
    """Solve G a = c 1, sum a = 1 by fraction-free elimination (Bareiss 1968)."""
    k = len(gram) + 1
    table = [[*row, 1, 0] for row in gram] + [[1] * (k - 1) + [0, 1]]
    previous = 1
    for step in range(k):
        pivot = next(i for i in range(step, k) if table[i][step] != 0)
        table[step], table[pivot] = table[pivot], table[step]
        for i in (i for i in range(k) if i != step):
            head, factor = table[step][step], table[i][step]
            table[i] = [
                (head * a - factor * b) // previous for a, b in zip(table[i], table[step], strict=True)
            ]
        previous = table[step][step]
    return [Fraction(table[i][k], table[i][i]) for i in range(k - 1)]


def _dot(left: Sequence[Fraction], right: Sequence[Fraction]) -> Fraction:
    return sum((a * b for a, b in zip(left, right, strict=True)), Fraction())


# ---------------------------------------------------------------- any smooth f, in extended precision

Evaluate = Callable[[Array], tuple[np.longdouble, Array]]
LONG_UNIT = float(np.finfo(np.longdouble).eps)


@dataclass(frozen=True)
class Interval:
    """Where the minimum over a hull is: its own Frank-Wolfe gap proves it."""

    lower: float
    upper: float


def interval(evaluate: Evaluate, rows: Array, *, steps: int = 3000) -> Interval:
    """Bracket min f over the hull of a few rows by pairwise Frank-Wolfe.

    Value, gradient and gap are extended precision sums over exact inputs, so the
    only error is theirs: 1e-17 of the sizes involved, by which both ends give way.
    """
    atoms = rows.astype(np.longdouble)
    weights = np.full(len(atoms), np.longdouble(1.0) / len(atoms))
    lower, upper = -math.inf, math.inf
    for _ in range(steps):
        x = weights @ atoms
        value, grad = evaluate(x)
        scores = atoms @ grad
        give = 64.0 * len(x) * LONG_UNIT * float(abs(value) + np.abs(grad) @ np.abs(atoms).max(axis=0))
        upper = min(upper, float(value) + give)
        lower = max(lower, float(value - (weights @ scores - scores.min())) - give)
        best, worst = int(scores.argmin()), int(np.where(weights > 0.0, scores, -np.inf).argmax())
        if upper - lower <= 4.0 * give or best == worst:
            break
        step = _search(evaluate, x, atoms[best] - atoms[worst], weights[worst])
        weights[best] += step
        weights[worst] = np.longdouble(0.0) if step == weights[worst] else weights[worst] - step
        weights /= weights.sum()
    return Interval(math.nextafter(lower, -math.inf), math.nextafter(upper, math.inf))


def _search(evaluate: Evaluate, x: Array, direction: Array, end: np.longdouble) -> np.longdouble:
    """Root of the slope along a line, by bisection."""

    def slope(s: np.longdouble) -> np.longdouble:
        return np.longdouble(evaluate(x + s * direction)[1] @ direction)

    low, high = np.longdouble(0.0), end
    if slope(end) <= 0.0:
        return end
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if slope(middle) < 0.0 else (low, middle)
    return low


def logistic(design: Array, labels: Array) -> Evaluate:
    """Mean logistic loss and its gradient."""
    a, y = design.astype(np.longdouble), labels.astype(np.longdouble)

    def evaluate(x: Array) -> tuple[np.longdouble, Array]:
        margin = y * (a @ x)
        loss = np.maximum(-margin, 0.0) + np.log1p(np.exp(-np.abs(margin)))
        return np.longdouble(loss.mean()), (-y / (1.0 + np.exp(margin)) / len(y)) @ a

    return evaluate


def huber(design: Array, response: Array, delta: float = 1.0) -> Evaluate:
    """Mean Huber loss and its gradient."""
    a, b, width = design.astype(np.longdouble), response.astype(np.longdouble), np.longdouble(delta)

    def evaluate(x: Array) -> tuple[np.longdouble, Array]:
        residual = a @ x - b
        clipped = np.clip(residual, -width, width)
        return np.longdouble((clipped * (residual - clipped / 2)).mean()), (clipped / len(b)) @ a

    return evaluate


def mixture(x: Array) -> tuple[np.longdouble, Array]:
    """Mean negative log and its gradient."""
    return np.longdouble(-np.log(x).mean()), -1.0 / (len(x) * x)


def half_square(design: Array, response: Array) -> Evaluate:
    """1/2 |A x - b|^2 and its gradient."""
    a, b = design.astype(np.longdouble), response.astype(np.longdouble)

    def evaluate(x: Array) -> tuple[np.longdouble, Array]:
        residual = a @ x - b
        return np.longdouble(residual @ residual / 2), residual @ a

    return evaluate
