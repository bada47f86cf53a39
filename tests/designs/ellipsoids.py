"""What is true of an ellipsoid, in rational numbers."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from fractions import Fraction
from typing import Any

import mpmath
import numpy as np

from wolfhound.designs.ellipsoid import Ellipsoid


def holds(found: Ellipsoid, points: Any) -> bool:
    """Whether every point is inside, exactly."""
    shape = [[Fraction(value) for value in row] for row in found.matrix.tolist()]
    centre = [Fraction(value) for value in found.centre.tolist()]
    return all(_form(shape, centre, row) <= 1 for row in points.astype(np.float64).tolist())


def _form(shape: list[list[Fraction]], centre: list[Fraction], row: list[float]) -> Fraction:
    away = [Fraction(value) - middle for value, middle in zip(row, centre, strict=True)]
    lines = (sum((a * b for a, b in zip(line, away, strict=True)), Fraction()) for line in shape)
    return sum((a * b for a, b in zip(lines, away, strict=True)), Fraction())


def is_definite(found: Ellipsoid) -> bool:
    """Whether the matrix is symmetric and positive definite, by its leading minors."""
    with mpmath.workdps(120):
        minors = [
            mpmath.det(mpmath.matrix(found.matrix[:k, :k].tolist())) for k in range(1, len(found.centre) + 1)
        ]
        return bool(np.array_equal(found.matrix, found.matrix.T)) and all(minor > 0 for minor in minors)
