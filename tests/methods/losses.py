"""Losses over Gaussian atoms: one of each kind of inner solve."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from wolfhound import Custom, Huber, LeastSquares, Logistic, SquaredDistance
from wolfhound.core.contracts import Matrix, Vector
from wolfhound.methods.fully_corrective import Inner

Make = Callable[..., Inner]


def gaussian(n: int, d: int, seed: int = 0, dtype: Any = np.float32) -> Matrix:
    rows = np.random.default_rng(seed).standard_normal((n, d))
    return (rows * np.arange(1, d + 1) ** -0.3).astype(dtype)


def outside(rows: Matrix, share: float = 1.5, seed: int = 1) -> SquaredDistance:
    """Return the distance to a point beyond the hull, in a random direction."""
    unit = np.random.default_rng(seed).standard_normal((1, rows.shape[1]))[0]
    unit = unit / np.linalg.norm(unit)
    return SquaredDistance(rows.mean(axis=0, dtype=np.float64) + share * float((rows @ unit).max()) * unit)


def inside(rows: Matrix) -> SquaredDistance:
    return SquaredDistance(rows.mean(axis=0, dtype=np.float64))


def regression(rows: Matrix) -> LeastSquares:
    """Return least squares with an ill-conditioned matrix."""
    rng = np.random.default_rng(2)
    d = rows.shape[1]
    design = rng.standard_normal((2 * d, d)) * np.logspace(0.0, -1.5, d)
    return LeastSquares(design, design @ outside(rows).target + 0.1 * rng.standard_normal(2 * d))


def logistic(rows: Matrix, m: int = 200) -> Logistic:
    rng = np.random.default_rng(3)
    design = rng.standard_normal((m, rows.shape[1]))
    return Logistic(design, np.where(design @ outside(rows).target + rng.standard_normal(m) > 0.0, 1.0, -1.0))


def huber(rows: Matrix, m: int = 200) -> Huber:
    rng = np.random.default_rng(4)
    design = rng.standard_normal((m, rows.shape[1]))
    return Huber(design, design @ outside(rows).target + rng.standard_t(2, m), delta=0.5)


def quartic(rows: Matrix) -> Custom:
    target = outside(rows).target

    def value_and_grad(x: Vector) -> tuple[float, Vector]:
        away = x - target
        square = float(away @ away)
        return square + 0.25 * square * square, (2.0 + square) * away

    return Custom(value_and_grad, convex=True, floor=0.0)
