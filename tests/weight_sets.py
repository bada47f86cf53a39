"""What is true of weights other than those of the plain hull, in rational numbers: values, and minima."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import itertools
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wolfhound.core.contracts import WeightSet

Array = NDArray[Any]
Line = list[Fraction]

ZERO, FREE, FULL = range(3)


def fractions(values: Array) -> Line:
    """Floats as they are."""
    return [Fraction(float(value)) for value in values]


def shares(over: WeightSet, weights: Array) -> Line:
    """What weights stand for: where they must have a sum, their quotient by it."""
    exact = fractions(weights)
    if over.at_most:
        return exact
    scale = Fraction(over.total) / sum(exact)
    return [weight * scale for weight in exact]


def paid(over: WeightSet, weights: Sequence[Fraction]) -> Fraction:
    """price sum w + ridge/2 |w|^2."""
    square = sum((weight * weight for weight in weights), Fraction())
    return Fraction(over.price) * sum(weights, Fraction()) + Fraction(over.ridge) * square / 2


def least(points: Sequence[Line], target: Line, over: WeightSet, caps: Sequence[float]) -> Fraction:
    """min 1/2 |sum w s - b|^2 and what is paid over the set, exactly: the best of all faces.

    Every face is tried on which the minimum without bounds is one point; one of them has the answer.
    """
    atoms, prices, ridges = [list(point) for point in points], [Fraction(over.price)] * len(points), []
    ridges = [Fraction(over.ridge)] * len(points)
    limits = [None if np.isinf(cap) else Fraction(float(cap)) for cap in caps]
    total = None if np.isinf(over.total) else Fraction(over.total)
    if over.at_most and total is not None:  # the zero atom
        atoms, prices, ridges = (
            [*atoms, [Fraction()] * len(target)],
            [*prices, Fraction()],
            [*ridges, Fraction()],
        )
        limits = [*limits, None]
    found = []
    for states in itertools.product(range(3), repeat=len(atoms)):
        if any(state == FULL and limit is None for state, limit in zip(states, limits, strict=True)):
            continue
        weights = _solve_face(atoms, target, (prices, ridges), limits, states, total)
        if weights is None:
            continue
        inside = all(w >= 0 and (c is None or w <= c) for w, c in zip(weights, limits, strict=True))
        if inside and (total is None or sum(weights) == total):
            found.append(_value(atoms, target, (prices, ridges), weights))
    return min(found)


def _value(atoms: Sequence[Line], target: Line, pays: tuple[Line, Line], weights: Line) -> Fraction:
    away = [
        sum((w * a[j] for w, a in zip(weights, atoms, strict=True)), Fraction()) - t
        for j, t in enumerate(target)
    ]
    cost = sum((p * w + r * w * w / 2 for p, r, w in zip(*pays, weights, strict=True)), Fraction())
    return sum((z * z for z in away), Fraction()) / 2 + cost


def _solve_face(
    atoms: Sequence[Line],
    target: Line,
    pays: tuple[Line, Line],
    limits: Sequence[Fraction | None],
    states: Sequence[int],
    total: Fraction | None,
) -> Line | None:
    """The minimum with some atoms at zero and some at their cap; None if it is not one point."""
    weights = [
        limit if state == FULL and limit is not None else Fraction()
        for state, limit in zip(states, limits, strict=True)
    ]
    free = [i for i, state in enumerate(states) if state == FREE]
    left = None if total is None else total - sum(weights)
    held = [
        sum((w * a[j] for w, a in zip(weights, atoms, strict=True)), Fraction()) for j in range(len(target))
    ]
    rows, right = [], []
    for i in free:
        line = [_dot(atoms[i], atoms[j]) + (pays[1][i] if i == j else 0) for j in free]
        rows.append([*line, Fraction(1)] if left is not None else line)
        right.append(_dot(atoms[i], [t - h for t, h in zip(target, held, strict=True)]) - pays[0][i])
    if left is not None and free:
        rows.append([*[Fraction(1)] * len(free), Fraction()])
        right.append(left)
    found = _eliminate(rows, right) if free else []
    if found is None:
        return None
    for i, weight in zip(free, found, strict=False):
        weights[i] = weight
    return weights


def _dot(left: Sequence[Fraction], right: Sequence[Fraction]) -> Fraction:
    return sum((a * b for a, b in zip(left, right, strict=True)), Fraction())


def _eliminate(rows: list[Line], right: Line) -> Line | None:
    """Solve a square system exactly; None if it is singular."""
    table = [[*row, value] for row, value in zip(rows, right, strict=True)]
    for i in range(len(table)):
        pivot = next((k for k in range(i, len(table)) if table[k][i] != 0), None)
        if pivot is None:
            return None
        table[i], table[pivot] = table[pivot], table[i]
        table[i] = [value / table[i][i] for value in table[i]]
        for k in range(len(table)):
            if k != i and table[k][i] != 0:
                table[k] = [a - table[k][i] * b for a, b in zip(table[k], table[i], strict=True)]
    return [row[-1] for row in table]
