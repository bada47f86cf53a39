"""Compiled loops of quadratic forms: x'Bx of every row, at the speed of a block product."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math

import numpy as np

from wolfhound.compiled.jit import lean_fast_kernel, lean_kernel
from wolfhound.core.contracts import Matrix, Vector

TILE = 4  # matrices come padded with zeros to a multiple of this

_LANES = 32
_ROOT = math.sqrt(2.0)


def make_room(width: int) -> tuple[Vector, Vector]:
    """Memory for `forms` of matrices so wide."""
    return np.zeros((width, _LANES)), np.empty(_LANES)


@lean_fast_kernel
def forms(rows: Matrix, upper: Vector, scores: Vector, squares: Vector, room: tuple[Vector, Vector]) -> None:
    """Evaluate sum_{i <= j} upper[i, j] x_i x_j of every row in float64, and |x|^2 if there is room for it.

    32 rows are turned so that they lie side by side, and meet 4 x 4 entries of the
    matrix at a time. Every row takes the same steps, wherever it stands: equal rows
    have equal bits. `room` is of `make_room`.
    """
    n, d = rows.shape
    width = upper.shape[0]
    turned, total = room
    for first in range(0, n, _LANES):
        here = min(_LANES, n - first)
        for lane in range(here):
            for j in range(d):
                turned[j, lane] = rows[first + lane, j]
        for lane in range(_LANES):
            total[lane] = 0.0
        for i in range(0, width, 4):
            a, b, c, e = upper[i], upper[i + 1], upper[i + 2], upper[i + 3]
            for j in range(i, width, 4):
                a0, a1, a2, a3 = a[j], a[j + 1], a[j + 2], a[j + 3]
                b0, b1, b2, b3 = b[j], b[j + 1], b[j + 2], b[j + 3]
                c0, c1, c2, c3 = c[j], c[j + 1], c[j + 2], c[j + 3]
                e0, e1, e2, e3 = e[j], e[j + 1], e[j + 2], e[j + 3]
                for lane in range(_LANES):
                    w, x = turned[j, lane], turned[j + 1, lane]
                    y, z = turned[j + 2, lane], turned[j + 3, lane]
                    total[lane] += (
                        turned[i, lane] * (a0 * w + a1 * x + a2 * y + a3 * z)
                        + turned[i + 1, lane] * (b0 * w + b1 * x + b2 * y + b3 * z)
                        + turned[i + 2, lane] * (c0 * w + c1 * x + c2 * y + c3 * z)
                        + turned[i + 3, lane] * (e0 * w + e1 * x + e2 * y + e3 * z)
                    )
        for lane in range(here):
            scores[first + lane] = total[lane]
        if squares.shape[0] > 0:
            for lane in range(_LANES):
                total[lane] = 0.0
            for j in range(d):
                for lane in range(_LANES):
                    total[lane] += turned[j, lane] * turned[j, lane]
            for lane in range(here):
                squares[first + lane] = total[lane]


@lean_kernel
def pair_up(rows: Matrix, out: Vector) -> None:
    """Write svec(x x') of every row: x_i x_j for i <= j, times sqrt 2 off the diagonal."""
    n, d = rows.shape
    for r in range(n):
        at = 0
        for i in range(d):
            x = np.float64(rows[r, i])
            out[r, at] = x * x
            at += 1
            for j in range(i + 1, d):
                out[r, at] = (x * np.float64(rows[r, j])) * _ROOT
                at += 1
