"""Compiled loops over int8 codes: encoding, and the sweep that bounds every row.

Blocks hold 16 rows: for each pair of columns the 16 pairs of codes. Addresses go
to the emitted instructions of `_instructions`, so arrays must be C-ordered.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wolfhound.core import Ids, Ints, Matrix, Vector
from wolfhound.jit import fast_kernel, kernel
from wolfhound.oracles._scan_kernels import listed
from wolfhound.oracles.int8._instructions import GROUP, ROWS, block_of_many, lowest_bit, rows_of_one
from wolfhound.rounding import UNIT

Singles = NDArray[np.float32]
Shorts = NDArray[np.int16]

# ---------------------------------------------------------------- encoding


@kernel
def _centred(row: Matrix, centre: Matrix, unit: Any, y: Matrix, bits: Any, mask: Any) -> Any:
    """Write y = unit row - centre; return max|y|.

    `bits` are those of y, as integers: without their sign these have the order of |y|, and
    integers have the largest found in vector registers. `y` has one place more.
    """
    d = row.shape[0]
    for j in range(d):
        y[j] = unit * row[j] - centre[j]
    top = mask & bits[0]
    for j in range(d):
        top = max(top, mask & bits[j])
    bits[d] = top
    return y[d]


@fast_kernel
def _code(y: Matrix, scale: Any, inverse: Any, lowest: Any, codes: Any) -> tuple[Any, Any]:
    """Write codes modulo 256; return the sums of squares of residuals and codes."""
    residual = square = y.dtype.type(0.0)
    for j in range(y.shape[0]):
        code = np.rint(y[j] * inverse)
        code = code if code > lowest else lowest
        rest = y[j] - scale * code
        residual += rest * rest
        square += code * code
        codes[j] = np.int8(np.int32(code))
    return residual, square


@kernel
def _store(codes: Shorts, flip: Any, first: int, count: int, blocks: Shorts) -> None:
    """Put `count` coded rows at consecutive places into their blocks."""
    for i in range(count):
        block, row = (first + i) // ROWS, (first + i) % ROWS
        for pair in range(blocks.shape[1]):
            blocks[block, pair, row] = codes[i, pair] ^ flip


@kernel
def _store_block(codes: Shorts, flip: Any, block: Shorts) -> None:
    """Put 16 coded rows into the block that they fill."""
    for pair in range(block.shape[0]):
        for row in range(ROWS):
            block[pair, row] = codes[row, pair] ^ flip


@kernel
def encode(
    rows: Matrix,
    places: Ids,
    first: int,
    centre: Matrix,
    unit: Any,
    zero: int,
    y: Matrix,
    bits: Any,
    blocks: Shorts,
    scales: Singles,
    errors: Singles,
) -> tuple[float, float, float]:
    """Encode rows; row i goes to ``places[i]``, or ``first + i`` if there are none.

    A code is the nearest integer to y/scale, y = unit row - centre, from -127 to 127,
    or from 0 to 255 if `zero` is 128, which is then subtracted. The error of a row is
    at least |y - scale code|. All is computed in the dtype of rows, centre, unit and y, a
    scratch of d + 1 places, of which `bits` is a view as integers; u is its unit roundoff.

    Each entry of y - scale code is off by less than 4u max|y|, the sum of its squares
    by less than (d + 8) u of itself, and by 2**-149 d where squares underflow.

    Returns
    -------
    top, height, error : float
        The largest |entry of y|, |scale code| and error; error is nan if a row is not finite.
    """
    n, d = rows.shape
    top, height, worst, bad = 0.0, 0.0, 0.0, 0.0
    kind = rows.dtype.type
    mask = bits.dtype.type(0x7FFFFFFF if y.itemsize == 4 else 0x7FFFFFFFFFFFFFFF)  # all but the sign
    roundoff = 2.0**-24 if y.itemsize == 4 else UNIT
    lowest = kind(0.0) if zero > 0 else kind(-127.0)
    flip = np.int16(-32640 if zero > 0 else 0)  # 128 in either byte
    inflate = 1.0 + 2.0 * (d + 8) * roundoff
    lost = 8.0 * roundoff * np.sqrt(np.float64(d))
    vanished = np.sqrt(np.float64(d)) * (2.0**-74 if y.itemsize == 4 else 2.0**-148)
    codes = np.zeros((ROWS, 2 * blocks.shape[1]), np.int8)
    pairs = codes.view(np.int16)
    held, begin = 0, 0
    for i in range(n):
        place = places[i] if places.shape[0] > 0 else first + i
        if held > 0 and (place != begin + held or held == ROWS):
            if held == ROWS and begin % ROWS == 0:
                _store_block(pairs, flip, blocks[begin // ROWS])
            else:
                _store(pairs, flip, begin, held, blocks)
            held = 0
        if held == 0:
            begin = place
        entry = np.float64(_centred(rows[i], centre, unit, y, bits, mask))
        # A little above, so that no code is larger than it may be.
        single = np.float32(entry / (127.0 + zero) * (1.0 + 2.0**-21))
        single = single if single >= np.float32(2.0**-126) else np.float32(0.0)
        scale = kind(single)
        inverse = kind(1.0) / scale if single > 0 else kind(0.0)
        residual, square = _code(y[:d], scale, inverse, lowest, codes[held])
        error = np.sqrt(np.float64(residual)) * inflate + lost * entry + vanished
        errors[place] = np.float32(error * (1.0 + 2.0**-22) + 2.0**-148)
        scales[place] = single
        top = max(top, entry)
        height = max(height, np.float64(single) * np.sqrt(np.float64(square)) * inflate)
        worst = max(worst, np.float64(errors[place]))
        bad += error - error  # nan once one is not finite
        held += 1
    _store(pairs, flip, begin, held, blocks)
    return top, height, worst + bad


@kernel
def above(value: float) -> Any:
    """Round up to float32."""
    out = np.float32(value)
    return np.nextafter(out, np.float32(np.inf)) if np.float64(out) < value else out


@kernel
def round_queries(
    queries: Vector,
    exponents: Ints,
    middle: Vector,
    most: int,
    levels: Shorts,
    steps: Singles,
    lost: Vector,
    base: Vector,
) -> None:
    """Round ``y = 2**-exponent query`` to step * level with |level| <= most.

    `lost` becomes at least |y - step level| as computed, `base` <y, middle>.
    """
    m, d = queries.shape
    for i in range(m):
        # In two steps: a tiny query needs a factor that overflows.
        half = exponents[i] // 2
        first, second = math.ldexp(1.0, -half), math.ldexp(1.0, half - exponents[i])
        top = 0.0
        for j in range(d):
            top = max(top, abs(queries[i, j] * first * second))
        steps[i] = above(top / most)
        step = np.float64(steps[i])
        inverse = 1.0 / step if step > 0.0 else 0.0
        square, inner = 0.0, 0.0
        for j in range(d):
            y = queries[i, j] * first * second
            level = min(max(np.rint(y * inverse), -np.float64(most)), np.float64(most))
            rest = y - step * level
            square += rest * rest
            inner += y * middle[j]
            levels[i, j] = np.int16(np.int32(level))
        lost[i] = np.sqrt(square) * (1.0 + (d + 8) * UNIT)
        base[i] = inner


# ---------------------------------------------------------------- the sweep

Rules = np.dtype([("start", np.int32), ("step", np.float32), ("size", np.float32), ("floor", np.float32)])
"""One query: its bound is ``scale step (sum + start) + error size``; below the floor rows are dropped."""


@kernel
def below(value: float) -> Any:
    """Round down to float32."""
    out = np.float32(value)
    return np.nextafter(out, np.float32(-np.inf)) if np.float64(out) > value else out


@kernel
def largest(values: Singles, k: int) -> Any:
    """Return the k-th largest value, 1 <= k <= size; reorders the values.

    Hoare's selection: np.partition takes seconds to compile.
    """
    low, high, place = 0, values.shape[0] - 1, k - 1
    while low < high:
        pivot = values[(low + high) // 2]
        i, j = low, high
        while i <= j:
            while values[i] > pivot:
                i += 1
            while values[j] < pivot:
                j -= 1
            if i <= j:
                values[i], values[j] = values[j], values[i]
                i += 1
                j -= 1
        if place <= j:
            high = j
        elif place >= i:
            low = i
        else:
            break
    return values[place]


@kernel
def _raise_floor(
    q: int, k: int, rules: Any, keys: Singles, lows: Singles, places: Ids, fill: Ints, room: Singles
) -> None:
    """Set the floor to what the k-th best entry surely reaches; drop what is below."""
    size = fill[q]
    if size > k:
        for j in range(size):
            room[j] = lows[q, j]
        rules[q].floor = max(rules[q].floor, largest(room[:size], k))
    kept = 0
    for j in range(size):
        if keys[q, j] >= rules[q].floor:
            keys[q, kept] = keys[q, j]
            lows[q, kept] = lows[q, j]
            places[q, kept] = places[q, j]
            kept += 1
    fill[q] = kept


@kernel
def _take(
    q: int,
    block: int,
    bits: Any,
    uppers: Singles,
    errors: Singles,
    ids: Ids,
    n: int,
    exclude: Ids,
    rule: Any,
    slack: float,
    keys: Singles,
    lows: Singles,
    places: Ids,
    fill: Ints,
) -> None:
    """Keep the rows of a block that reach the floor and are not excluded; `bits` are those that may.

    Their `lows` are so low that a row with a key below them is surely worse.
    """
    at = fill[q]
    while bits != 0:
        row = lowest_bit(bits)
        bits &= bits - 1
        place = ROWS * block + row
        if uppers[row] >= rule.floor and place < n:
            atom = ids[place] if ids.shape[0] > 0 else place
            if exclude.shape[1] == 0 or not listed(exclude, q, atom):
                spread = 2.0 * (np.float64(rule.size) * np.float64(errors[place]) + slack)
                low = np.float64(uppers[row]) - spread
                keys[q, at] = uppers[row]
                lows[q, at] = np.float32(low - 2.0**-23 * abs(low))  # not above low
                places[q, at] = place
                at += 1
    fill[q] = at


@kernel
def sweep(
    blocks: Shorts,
    scales: Singles,
    errors: Singles,
    ids: Ids,
    n: int,
    span: tuple[int, int],
    levels: Shorts,
    rules: Any,
    slacks: Vector,
    k: int,
    exclude: Ids,
    keys: Singles,
    lows: Singles,
    places: Ids,
    fill: Ints,
) -> None:
    """Bound the rows of the blocks of a span; keep, per query, all that can be among the k best.

    `keys`, `lows`, `places` (m, room) and `fill` (m,) receive bounds and places, `rules`
    the raised floors. A query whose candidates do not fit gets ``fill = -1``.
    """
    pairs, m, room = blocks.shape[1], levels.shape[0], keys.shape[1]
    limits = np.full(m, min(2 * (k + ROWS), room - ROWS))
    spare = np.empty(room, np.float32)
    uppers = np.empty((GROUP, ROWS), np.float32)
    out = uppers.ctypes.data
    for block in range(span[0], span[1]):
        codes = blocks.ctypes.data + block * 2 * ROWS * pairs
        scale, error = scales.ctypes.data + 4 * ROWS * block, errors.ctypes.data + 4 * ROWS * block
        q = 0
        while q < m:
            level, rule = levels.ctypes.data + 4 * pairs * q, rules.ctypes.data + 16 * q
            group = GROUP if q + GROUP <= m else 1
            bits = np.int64((1 << ROWS) - 1)
            if group > 1:
                flags = np.int64(block_of_many(codes, level, pairs, scale, error, rule, out))
            else:
                bits = np.int64(rows_of_one(codes, level, pairs, scale, error, rule, out))
                flags = np.int64(bits != 0)
            if flags != 0:
                for g in range(group):
                    if (flags >> g) & 1 and fill[q + g] >= 0:
                        if fill[q + g] >= limits[q + g]:
                            _raise_floor(q + g, k, rules, keys, lows, places, fill, spare)
                            if 2 * fill[q + g] > room:
                                fill[q + g] = -1
                                rules[q + g].floor = np.float32(np.inf)
                                continue
                            # Twice what is left: raising costs a few operations per entry in all.
                            limits[q + g] = min(2 * (fill[q + g] + ROWS), room - ROWS)
                        _take(
                            q + g,
                            block,
                            bits,
                            uppers[g],
                            errors,
                            ids,
                            n,
                            exclude,
                            rules[q + g],
                            slacks[q + g],
                            keys,
                            lows,
                            places,
                            fill,
                        )
            q += group
    for q in range(m):
        if fill[q] >= 0:
            _raise_floor(q, k, rules, keys, lows, places, fill, spare)
