"""Compiled loop that proves codes of unknown origin to be those of some rows."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import numpy as np

from wolfhound.core import Ids, Matrix, Vector
from wolfhound.jit import fast_kernel, kernel
from wolfhound.oracles.int8._instructions import ROWS
from wolfhound.oracles.int8._kernels import Shorts, Singles
from wolfhound.rounding import UNIT


@kernel
def _decode(block: Shorts, row: int, zero: int, out: Vector) -> Any:
    """Write the codes of one row of a block, as numbers; return the lowest as it is kept."""
    lowest = np.int64(127)
    for pair in range(block.shape[0]):
        both = np.int64(block[pair, row])
        second = both >> 8
        first = ((both & 255) ^ 128) - 128
        lowest = min(lowest, first, second)
        out[2 * pair], out[2 * pair + 1] = np.float64(first + zero), np.float64(second + zero)
    return lowest


@kernel
def _centre(row: Matrix, centre: Vector, unit: float, y: Vector) -> None:
    """Write y = unit row - centre: by itself, so that nothing is reordered across it."""
    for j in range(row.shape[0]):
        y[j] = unit * np.float64(row[j]) - centre[j]


@fast_kernel
def _apart(y: Vector, scale: float, codes: Vector) -> tuple[float, float]:
    """Sums of squares of ``y - scale code`` and of the code."""
    residual = square = 0.0
    for j in range(y.shape[0]):
        rest = y[j] - scale * codes[j]
        residual += rest * rest
        square += codes[j] * codes[j]
    return residual, square


@kernel
def verify(
    rows: Matrix,
    places: Ids,
    first: int,
    centre: Vector,
    unit: float,
    blocks: Shorts,
    scales: Singles,
    errors: Singles,
    height: float,
    zero: int,
) -> int:
    """Return the id of a row whose error or height is not proved, -1 if there is none.

    Entries of the residual are off by at most 2u times those of y and the code together,
    its sum of squares by (d + 3) u of itself, and by 2**-1074 d where squares underflow.
    `encode` leaves more room than that. Without `zero`, a code of -128 could overflow sums.
    """
    d = rows.shape[1]
    codes, y = np.empty(2 * blocks.shape[1]), np.empty(d)
    inflate = 1.0 + (d + 8) * UNIT
    vanished = np.sqrt(np.float64(d)) * 2.0**-500
    for i in range(rows.shape[0]):
        place = places[i] if places.shape[0] > 0 else first + i
        lowest = _decode(blocks[place // ROWS], place % ROWS, zero, codes)
        scale = np.float64(scales[place])
        _centre(rows[i], centre, unit, y)
        residual, square = _apart(y, scale, codes)
        size, away = scale * np.sqrt(square) * inflate, np.sqrt(residual)
        error = away * inflate + 4.0 * UNIT * (size + away) + vanished
        if not (error <= errors[place] and size <= height and (lowest >= -127 or zero > 0)):
            return first + i
    return -1
