"""A quasi-Newton model of f, for f that gives values and gradients only.

`Secant` stands where `Curved` does, with the Hessian that the gradients seen so far
suggest (BFGS). It starts as a multiple of the inverse variances of the pool, so that
the scale of a coordinate does not matter.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math

import numpy as np

from wolfhound.core import Matrix, Point, Vector
from wolfhound.rounding import UNIT, norm

LARGE = 1024
"""Up to this d the Hessian is a matrix, beyond it a sum of its last updates."""

UPDATES = 128
"""Updates after which such a sum starts again."""

DAMPED = 0.2
"""Least share of the expected curvature that an update may find (Powell 1978)."""

NOISE = 64.0 * UNIT
"""Gradients differ by rounding if by less than this share of their size."""


class Secant:
    """The space of the atoms with an approximate Hessian, see `Curved`.

    It begins with the scale that the rows of the pool show of every coordinate.
    """

    diagonal = False
    cheap = True
    patience = 40

    def __init__(self, point: Point, pool: Matrix) -> None:
        rows = pool.astype(np.float64)
        spread = rows.std(axis=0)
        with np.errstate(all="ignore"):
            base = 1.0 / (spread * spread)
        self._base = np.where(np.isfinite(base), base, 0.0)
        # One step of the first model goes about as far as the best atom of the pool promises.
        scores = rows @ point.grad
        best = rows[scores.argmin()] - point.x
        self._scale(best, float(-point.grad @ best))
        self._first = True
        self._last = point
        self._clear()

    def _scale(self, step: Vector, along: float) -> None:
        """Give the first model this curvature along a step, if floats can hold it."""
        with np.errstate(all="ignore"):
            bent = float(self._base @ (step * step))
            base = self._base * np.divide(along, bent)
        if along > 0.0 and np.isfinite(base).all():
            self._base = base

    def _clear(self) -> None:
        d = len(self._base)
        self._matrix = np.diag(self._base) if d <= LARGE else None
        self._plus: list[Vector] = []
        self._minus: list[Vector] = []

    def lift(self, rows: Matrix) -> Vector:
        """(r, d) float64 rows."""
        return rows.astype(np.float64, copy=False)

    def move(self, point: Point) -> None:
        """Learn from the way to this point."""
        step, turn = point.x - self._last.x, point.grad - self._last.grad
        noise = NOISE * (norm(point.grad) + norm(self._last.grad))
        self._last = point
        if not noise < norm(turn) < math.inf:
            return
        along = float(step @ turn)
        if self._first and along > 0.0:
            self._scale(step, along)
            self._clear()
            self._first = False
        self._update(step, turn, along)

    def _update(self, step: Vector, turn: Vector, along: float) -> None:
        bent = self.bend(step)
        expected = float(step @ bent)
        if not 0.0 < expected < math.inf:
            return
        if along < DAMPED * expected:
            share = (1.0 - DAMPED) * expected / (expected - along)
            turn = share * turn + (1.0 - share) * bent
            along = float(step @ turn)
        plus, minus = turn / math.sqrt(along), bent / math.sqrt(expected)
        if self._matrix is not None:
            self._matrix += np.outer(plus, plus) - np.outer(minus, minus)
        elif len(self._plus) == UPDATES:
            self._clear()
        else:
            self._plus.append(plus)
            self._minus.append(minus)

    def bend(self, rows: Vector) -> Vector:
        """(r, d) or (d,) products of the Hessian with rows."""
        if self._matrix is not None:
            return np.asarray(rows @ self._matrix)
        out = rows * self._base
        if self._plus:
            plus, minus = np.array(self._plus), np.array(self._minus)
            out += (rows @ plus.T) @ plus - (rows @ minus.T) @ minus
        return np.asarray(out)

    def gram(self, rows: Vector) -> Vector:
        """(r, r) products of rows."""
        return np.asarray(self.bend(rows) @ rows.T)

    def change(self, point: Point, move: Vector) -> float:
        """Inf: every step teaches something."""
        return math.inf
