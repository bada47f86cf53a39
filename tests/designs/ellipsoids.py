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


def _centre_exactly(points: Any) -> Any:
    """Points relative to the first, columns divided by powers of two, as floats: rounded to a unit each."""
    first = [Fraction(value) for value in points[0].tolist()]
    away = [[Fraction(v) - m for v, m in zip(row, first, strict=True)] for row in points.tolist()]
    tops = [max((abs(row[j]) for row in away), default=Fraction()) or Fraction(1) for j in range(len(first))]
    return np.array([[float(v / top) for v, top in zip(row, tops, strict=True)] for row in away]), first, tops


def is_flat(points: Any, share: float) -> bool:
    """Whether points nearly lie in a plane, their columns scaled to equal sizes."""
    even, _, _ = _centre_exactly(points)
    values = np.linalg.svd(even - even.mean(axis=0), compute_uv=False)
    return len(points) <= points.shape[1] or bool(values.min() <= share * values.max())


def is_least(found: Ellipsoid, points: Any) -> bool:
    """Whether one by Khachiyan's steps, which holds all points too, has no volume below what is proved."""
    even, first, tops = _centre_exactly(points)
    d = len(first)
    lifted = np.column_stack([even, np.ones(len(even))])
    weights = np.full(len(even), 1.0 / len(even))
    with np.errstate(all="ignore"):
        turn = np.linalg.pinv(np.linalg.qr(lifted, mode="r"))
        steep = lifted @ turn
        for _ in range(300):
            inverse = np.linalg.pinv((steep * weights[:, None]).T @ steep)
            weights = weights * np.einsum("ij,jk,ik->i", steep, inverse, steep)
            weights /= weights.sum()
    with mpmath.workdps(120):
        rows = mpmath.matrix(lifted[:, :d].tolist())
        shares = [mpmath.mpf(value) for value in (weights / weights.sum()).tolist()]
        total = mpmath.fsum(shares)
        centre = [mpmath.fsum(s * rows[i, j] for i, s in enumerate(shares)) / total for j in range(d)]
        spread = mpmath.matrix(d, d)
        for i, share in enumerate(shares):
            away = mpmath.matrix([rows[i, j] - centre[j] for j in range(d)])
            spread += share / total * (away * away.T)
        if not mpmath.det(spread) > mpmath.mpf(10) ** -80:
            return True
        shape = mpmath.inverse(spread)
        top = mpmath.mpf(0)
        for row in points.tolist():
            exact = [
                _big((Fraction(v) - m) / t) - c for v, m, t, c in zip(row, first, tops, centre, strict=True)
            ]
            away = mpmath.matrix(exact)
            top = max(top, (away.T * shape * away)[0])
        # Logarithms of squared volumes, in the caller's coordinates.
        other = mpmath.log(mpmath.det(spread)) + d * mpmath.log(top)
        other += 2 * mpmath.fsum(mpmath.log(_big(t)) for t in tops)
        mine = -mpmath.log(mpmath.det(mpmath.matrix(found.matrix.tolist())))
        return bool(other >= mine + 2 * mpmath.log(mpmath.mpf(found.ratio))) if found.ratio else True


def _big(number: Fraction) -> Any:
    return mpmath.mpf(number.numerator) / mpmath.mpf(number.denominator)
