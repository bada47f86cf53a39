"""Compiled loops of herding: distances of rows, Stein's kernel, and the next pick.

No matrix product gives absolute differences; squared ones keep every digit where
the product would lose them. Arrays are C-ordered, of one dtype. Every number depends on
its own rows and a fixed order of sums, not on how rows are cut into blocks for threads.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import numpy as np

from wolfhound.compiled.jit import fast_kernel, kernel
from wolfhound.core.contracts import Matrix, Vector

WIDE = 64  # rows on the right that stay in the first cache while those on the left go by


@fast_kernel
def pairs_absolute(left: Matrix, right: Matrix, out: Matrix) -> None:
    """Write the sums of absolute differences of all pairs of rows."""
    zero = left.dtype.type(0.0)
    r, d = left.shape
    s = right.shape[0]
    for begin in range(0, s, WIDE):
        stop = min(begin + WIDE, s)
        for i in range(r):
            for j in range(begin, stop):
                total = zero
                for c in range(d):
                    total += abs(left[i, c] - right[j, c])
                out[i, j] = total


@fast_kernel
def stein(
    found: Vector, squares: tuple[Vector, Vector], products: tuple[Vector, Vector], d: float, out: Vector
) -> None:
    """Write l^2 times Stein's kernel, from (r, 3 s) inner products.

    `found` holds <x, y>, then <x, t_y> + <t_x, y>, then <t_x, t_y>; `squares` are |x|^2 and
    |y|^2, `products` <x, t_x> and <y, t_y>.
    """
    r, s = out.shape
    for i in range(r):
        for j in range(s):
            apart = max(squares[0][i] + squares[1][j] - 2.0 * found[i, j], 0.0)
            inverse = 1.0 / (1.0 + apart)
            slope = d + products[0][i] + products[1][j] - found[i, s + j]
            slope = (slope - 3.0 * apart * inverse) * inverse
            out[i, j] = (slope + found[i, 2 * s + j]) * np.sqrt(inverse)


@fast_kernel
def distances_squared(rows: Matrix, to: Matrix, scale: float, out: Matrix) -> None:
    """out = scale |row - to|^2, in the precision of the rows.

    From differences: norms and products would cancel far from the origin, and
    the time is that of reading the rows either way.
    """
    for i in range(rows.shape[0]):
        total = np.float32(0.0)
        for j in range(rows.shape[1]):
            difference = rows[i, j] - to[j]
            total += difference * difference
        out[i] = scale * total


@fast_kernel
def distances_absolute(rows: Matrix, to: Matrix, scale: float, out: Matrix) -> None:
    """out = scale |row - to|_1, in the precision of the rows."""
    for i in range(rows.shape[0]):
        total = np.float32(0.0)
        for j in range(rows.shape[1]):
            total += abs(rows[i, j] - to[j])
        out[i] = scale * total


@kernel
def best(potential: Vector, linear: Vector, half: Vector, size: float, scores: Vector) -> int:
    """First i of the largest ``size * linear - potential - half``; -1: all are closed.

    A closed candidate has an infinite `half`. The scores are left in `scores`.
    """
    top = -np.inf
    for i in range(potential.shape[0]):
        score = size * linear[i] - potential[i] - half[i]
        scores[i] = score
        top = max(top, score)
    if top == -np.inf:
        return -1
    # A second, short look: ties go to the first.
    for i in range(potential.shape[0]):
        if scores[i] == top:
            return i
    return -1
