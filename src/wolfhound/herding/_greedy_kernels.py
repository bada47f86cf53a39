"""Compiled loops of kernel herding: distances to one row, and the next pick.

Every number depends on its own row and a fixed order of sums, so nothing
depends on how the rows are cut into blocks for threads.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import numpy as np

from wolfhound.core import Matrix, Vector
from wolfhound.jit import fast_kernel, kernel


@fast_kernel
def squared_distances(rows: Matrix, to: Matrix, scale: float, out: Matrix) -> None:
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
def absolute_distances(rows: Matrix, to: Matrix, scale: float, out: Matrix) -> None:
    """out = scale |row - to|_1, in the precision of the rows."""
    for i in range(rows.shape[0]):
        total = np.float32(0.0)
        for j in range(rows.shape[1]):
            total += abs(rows[i, j] - to[j])
        out[i] = scale * total


@kernel
def shift(potential: Vector, row: Matrix, sign: float) -> None:
    """Add a kernel row to the potential, or take it away."""
    for i in range(potential.shape[0]):
        potential[i] += sign * row[i]


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
