"""Compiled loops of int8 codes: rows to codes and back, queries to levels, and a pass that keeps the best."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from wolfhound.compiled.jit import inlined, kernel, lean_fast_kernel, lean_kernel
from wolfhound.core.contracts import Ids, Ints, Matrix, Singles, Vector
from wolfhound.core.rounding import TINY, UNIT
from wolfhound.oracles._scan_kernels import BareTop, Top, close, is_listed, keep_best, score_pairs
from wolfhound.oracles.int8._instructions import block_of_many, lowest_bit, rows_of_one
from wolfhound.oracles.int8.layout import (
    GROUP,
    ROWS,
    RULE,
    BareQueries,
    BareRows,
    CodedQueries,
    PackedRows,
    Shorts,
    address,
    get_row,
    move,
    put_rows,
)

_SINGLE = 2.0**-24
_UNDERFLOW = 2.0**-100
_LOWEST = -900  # queries with smaller exponents are hopeless: products underflow


class CodeFrame(NamedTuple):
    """Codes stand for ``y = unit row - centre``; `zero` is 128 if it was subtracted from them, else 0."""

    centre: Matrix
    unit: Any
    zero: int


class Scratch(NamedTuple):
    """Room for y, with one place more, and its bits as integers; for 16 rows of codes, and their pairs."""

    y: Matrix
    bits: Any
    codes: Any
    pairs: Shorts


def make_scratch(d: int, dtype: np.dtype[Any]) -> Scratch:
    """Room to encode rows of dimension d."""
    y, codes = np.empty(d + 1, dtype), np.zeros((ROWS, d + d % 2), np.int8)
    return Scratch(y, y.view(np.int32 if y.itemsize == 4 else np.int64), codes, codes.view(np.int16))


# ---------------------------------------------------------------- encoding


@lean_fast_kernel
def _code(y: Matrix, scale: Any, inverse: Any, lowest: Any, codes: Any, row: int) -> tuple[Any, Any]:
    """Write codes modulo 256; return the sums of squares of residuals and codes."""
    residual = square = y.dtype.type(0.0)
    for j in range(y.shape[0] - 1):
        code = np.rint(y[j] * inverse)
        code = code if code > lowest else lowest
        rest = y[j] - scale * code
        residual += rest * rest
        square += code * code
        codes[row, j] = np.int8(np.int32(code))
    return residual, square


@inlined
def _centre(row: Matrix, frame: CodeFrame, y: Matrix, bits: Any) -> float:
    """Write y of a row; return its largest |entry|.

    Without their sign, the bits have the order of |y|; integers have their largest found in registers.
    """
    d, mask = row.shape[0], bits.dtype.type(0x7FFFFFFF if y.itemsize == 4 else 0x7FFFFFFFFFFFFFFF)
    for j in range(d):
        y[j] = frame.unit * row[j] - frame.centre[j]
    most = mask & bits[0]
    for j in range(d):
        most = max(most, mask & bits[j])
    bits[d] = most
    return np.float64(y[d])


@lean_kernel
def encode(
    rows: Matrix, places: Ids, frame: CodeFrame, scratch: Scratch, out: PackedRows
) -> tuple[float, float, float]:
    """Encode rows; row i goes to ``places[i]``.

    A code is the nearest integer to y/scale, y = unit row - centre, from -127 to 127,
    or from 0 to 255 if `zero` is 128, which is then subtracted. The error of a row is
    at least |y - scale code|. All is computed in the dtype of rows, frame and scratch; u is
    its unit roundoff.

    Each entry of y - scale code is off by less than 4u max|y|, the sum of its squares
    by less than (d + 8) u of itself, and by 2**-149 d where squares underflow.

    Returns the largest |entry of y|, |scale code| and error; the error is nan if a row is not finite.
    """
    n, d = rows.shape
    zero = frame.zero
    y, bits, codes, pairs = scratch
    top, height, worst, bad = 0.0, 0.0, 0.0, 0.0
    kind = rows.dtype.type
    roundoff = 2.0**-24 if y.itemsize == 4 else UNIT
    lowest = kind(0.0) if zero > 0 else kind(-127.0)
    flip = np.int16(-32640 if zero > 0 else 0)  # 128 in either byte
    inflate = 1.0 + 2.0 * (d + 8) * roundoff
    root = math.sqrt(np.float64(d))
    lost, vanished = 8.0 * roundoff * root, root * (2.0**-74 if y.itemsize == 4 else 2.0**-148)
    held, begin = 0, 0
    for i in range(n):
        place = places[i]
        if held > 0 and (place != begin + held or held == ROWS):
            put_rows(pairs, flip, begin, held, out.blocks)
            held = 0
        if held == 0:
            begin = place
        entry = _centre(rows[i], frame, y, bits)
        # A little above, so that no code is larger than it may be.
        single = np.float32(entry / (127.0 + zero) * (1.0 + 2.0**-21))
        single = single if single >= np.float32(2.0**-126) else np.float32(0.0)
        scale = kind(single)
        inverse = kind(1.0) / scale if single > 0 else kind(0.0)
        residual, square = _code(y, scale, inverse, lowest, codes, held)
        error = math.sqrt(np.float64(residual)) * inflate + lost * entry + vanished
        out.errors[place] = np.float32(error * (1.0 + 2.0**-22) + 2.0**-148)
        out.scales[place] = single
        top = max(top, entry)
        height = max(height, np.float64(single) * math.sqrt(np.float64(square)) * inflate)
        worst = max(worst, np.float64(out.errors[place]))
        bad += error - error  # nan once one is not finite
        held += 1
    put_rows(pairs, flip, begin, held, out.blocks)
    return top, height, worst + bad


# ---------------------------------------------------------------- proving


@lean_fast_kernel
def _apart(y: Vector, scale: float, codes: Vector) -> tuple[float, float]:
    """Sums of squares of ``y - scale code`` and of the code."""
    residual = square = 0.0
    for j in range(y.shape[0]):
        rest = y[j] - scale * codes[j]
        residual += rest * rest
        square += codes[j] * codes[j]
    return residual, square


@kernel
def verify(rows: Matrix, places: Ids, frame: CodeFrame, height: float, packed: PackedRows) -> int:
    """Return the number of a row whose error or height is not proved, -1 if there is none.

    Entries of the residual are off by at most 2u times those of y and the code together,
    its sum of squares by (d + 3) u of itself, and by 2**-1074 d where squares underflow.
    `encode` leaves more room than that. Without `zero`, a code of -128 could overflow sums.
    """
    d = rows.shape[1]
    centre, unit, zero = frame
    codes, y = np.empty(2 * packed.blocks.shape[1]), np.empty(d)
    inflate = 1.0 + (d + 8) * UNIT
    vanished = math.sqrt(np.float64(d)) * 2.0**-500
    for i in range(rows.shape[0]):
        place = places[i]
        lowest = get_row(packed.blocks, place, zero, codes)
        scale = np.float64(packed.scales[place])
        for j in range(d):  # here, so that nothing is reordered across it
            y[j] = unit * np.float64(rows[i, j]) - centre[j]
        residual, square = _apart(y, scale, codes)
        size, away = scale * math.sqrt(square) * inflate, math.sqrt(residual)
        error = away * inflate + 4.0 * UNIT * (size + away) + vanished
        if not (error <= packed.errors[place] and size <= height and (lowest >= -127 or zero > 0)):
            return i
    return -1


# ---------------------------------------------------------------- queries


class CodeScale(NamedTuple):
    """What of `Codes` decides how a query is rounded."""

    middle: Vector  # (d,) the centre, in units of 2**exponent, as are height, error and radius
    zero: int
    exponent: int
    height: float  # the largest |scale code|
    error: float
    radius: float  # the largest norm
    most: int  # largest level with which no sum overflows


BareScale: TypeAlias = tuple[Vector, int, int, float, float, float, int]  # the fields of a `CodeScale`


@lean_kernel
def above(value: float) -> Any:
    """Round up to float32."""
    out = np.float32(value)
    return np.nextafter(out, np.float32(np.inf)) if np.float64(out) < value else out


@lean_kernel
def code_queries(queries: Vector, sizes: Vector, scale: CodeScale, out: CodedQueries) -> None:
    """Round ``y = 2**-exponent query`` to step * level with |level| <= most, and bound what that loses.

    The float32 operations of the kernel lose at most ``(1 + u)**4 - 1`` of
    ``scale step sum`` and ``(1 + u)**2 - 1`` of ``|q| error``, u = 2**-24; 8u is more.
    The float64 terms, gamma(d + 2) |q| radius each: the loop that defines a score, the
    product with the centre, and what cancels when base, key and slack are added.
    """
    m, d = queries.shape
    levels, rules, numbers, _ = out
    middle, zero, exponent, height, error, radius, most = scale
    loop = (d + 2) * UNIT / (1.0 - (d + 2) * UNIT)
    for i in range(m):
        mine = math.frexp(sizes[i])[1]
        size = math.ldexp(sizes[i], -mine)
        # In two steps: a tiny query needs a factor that overflows.
        half = mine // 2
        first, second = math.ldexp(1.0, -half), math.ldexp(1.0, half - mine)
        top = 0.0
        for j in range(d):
            top = max(top, abs(queries[i, j] * first * second))
        single = above(top / most)
        step = np.float64(single)
        inverse = 1.0 / step if step > 0.0 else 0.0
        square, inner, total = 0.0, 0.0, 0
        for j in range(d):
            y = queries[i, j] * first * second
            level = min(max(np.rint(y * inverse), -np.float64(most)), np.float64(most))
            rest = y - step * level
            square += rest * rest
            inner += y * middle[j]
            levels[i, j] = np.int16(np.int32(level))
            total += int(level)
        rules[i].start = np.int32(zero * total)
        rules[i].step = single
        rules[i].size = np.nextafter(np.float32(size), np.float32(np.inf))
        rules[i].floor = -np.float32(np.inf)
        # At least |y - step level|; 4e-16 pays for what computing y and the sum lost.
        away = math.sqrt(square) * (1.0 + (d + 8) * UNIT) + 4e-16
        lost = away * height + 8.0 * _SINGLE * ((size + away) * height + size * error)
        # The centre is no longer than the radius.
        lost += 5.0 * loop * size * radius + d * _UNDERFLOW
        numbers[0, i], numbers[1, i], numbers[2, i] = inner, 1.001 * lost, mine + exponent
        numbers[3, i] = 1.0 if sizes[i] == 0.0 or mine + exponent < _LOWEST else 0.0


class CandidateLists(NamedTuple):
    """Room for the candidates of m queries."""

    keys: Singles  # (m, room) upper bounds
    lows: Singles  # (m, room) what a row surely reaches
    places: Ids  # (m, room)
    fill: Ints  # (m,) how many there are; -1: they do not fit
    spare: Singles  # (1, room) to raise floors, as are the numbers
    numbers: Ids  # (1, room)


def empty_candidates(m: int, room: int) -> CandidateLists:
    """Room for so many candidates of m queries."""
    keys, lows = np.empty((m, room), np.float32), np.empty((m, room), np.float32)
    places, fill = np.empty((m, room), np.int64), np.zeros(m, np.int64)
    return CandidateLists(
        keys, lows, places, fill, np.empty((1, room), np.float32), np.empty((1, room), np.int64)
    )


@lean_kernel
def _raise_floor(q: int, k: int, rules: Any, found: CandidateLists) -> None:
    """Set the floor to what the k-th best entry surely reaches; drop what is below."""
    keys, lows, places, fill, spare, numbers = found
    size = fill[q]
    if size > k:
        for j in range(size):
            spare[0, j], numbers[0, j] = lows[q, j], j
        rules[q].floor = max(rules[q].floor, keep_best(spare, numbers, 0, size, k))
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
    first: int,
    bits: Any,
    uppers: Singles,
    packed: PackedRows,
    queries: CodedQueries,
    found: CandidateLists,
) -> None:
    """Keep the rows from place `first` on that reach the floor and are not excluded; `bits`: that may.

    Their `lows` are so low that a row with a key below them is surely worse.
    """
    rule, slack, exclude = queries.rules[q], queries.numbers[1, q], queries.exclude
    at = found.fill[q]
    while bits != 0:
        row = lowest_bit(bits)
        bits &= bits - 1
        place = first + row
        if uppers[row] >= rule.floor and place < packed.n:
            atom = packed.ids[place] if packed.ids.shape[0] > 0 else place
            if exclude.shape[1] == 0 or not is_listed(exclude, q, atom):
                spread = 2.0 * (np.float64(rule.size) * np.float64(packed.errors[place]) + slack)
                low = np.float64(uppers[row]) - spread
                found.keys[q, at] = uppers[row]
                found.lows[q, at] = np.float32(low - 2.0**-23 * abs(low))  # not above low
                found.places[q, at] = place
                at += 1
    found.fill[q] = at


@kernel
def sweep(
    packed: PackedRows, span: tuple[int, int], queries: CodedQueries, k: int, found: CandidateLists
) -> None:
    """Bound the rows of the blocks of a span; keep, per query, all that can be among the k best.

    The floors of the rules are raised. A query whose candidates do not fit gets ``fill = -1``.
    """
    rules, fill = queries.rules, found.fill
    m, room = found.keys.shape
    limits = np.full(m, min(2 * (k + ROWS), room - ROWS))
    uppers = np.empty((GROUP, ROWS), np.float32)
    first, out = address(packed, queries), uppers.ctypes.data
    for block in range(span[0], span[1]):
        q = 0
        while q < m:
            here = move(first, block, q)
            group = GROUP if q + GROUP <= m else 1
            bits = np.int64((1 << ROWS) - 1)
            if group > 1:
                flags = np.int64(block_of_many(here, out))
            else:
                bits = np.int64(rows_of_one(here, out))
                flags = np.int64(bits != 0)
            if flags != 0:
                for g in range(group):
                    if (flags >> g) & 1 and fill[q + g] >= 0:
                        if fill[q + g] >= limits[q + g]:
                            _raise_floor(q + g, k, rules, found)
                            if 2 * fill[q + g] > room:
                                fill[q + g] = -1
                                rules[q + g].floor = np.float32(np.inf)
                                continue
                            # Twice what is left: raising costs a few operations per entry in all.
                            limits[q + g] = min(2 * (fill[q + g] + ROWS), room - ROWS)
                        _take(q + g, ROWS * block, bits, uppers[g], packed, queries, found)
            q += group
    for q in range(m):
        if fill[q] >= 0:
            _raise_floor(q, k, rules, found)


# ---------------------------------------------------------------- one query at once

UNDECIDED = -2  # instead of a number of answers: codes decide too little

BareCodes: TypeAlias = tuple[BareRows, BareScale]  # the fields of `PackedRows` and of `CodeScale`


@lean_kernel
def unscale(key: Any, coded: CodedQueries) -> float:
    """Turn a key of the first query into an upper bound in the caller's units, as `CodedQueries.scores`."""
    total = np.float64(key) + (coded.numbers[0, 0] + coded.numbers[1, 0])
    return math.ldexp(total * (1.0 + 1e-15 * np.sign(total)), int(coded.numbers[2, 0])) + TINY


@kernel
def best_by_codes(
    rows: Matrix,
    query: Vector,
    sizes: Vector,
    exclude: Ids,
    codes: BareCodes,
    room: int,
    slack: float,
    bare: BareTop,
) -> int:
    """Bound all rows by their codes, score those that can be among the k best; see `close`.

    The more the first k reach, the fewer others must be scored. `room` is the most candidates. Returns
    `UNDECIDED` if they do not fit, or the query is hopeless.
    """
    top, packed = Top(*bare), PackedRows(*codes[0])
    levels, rules = np.zeros((1, 2 * packed.blocks.shape[1]), np.int16), np.empty(1, RULE)
    coded = CodedQueries(levels, rules, np.empty((4, 1)), exclude)
    keys, lows = np.empty((1, room), np.float32), np.empty((1, room), np.float32)
    places, fill = np.empty((1, room), np.int64), np.zeros(1, np.int64)
    spare, numbers = np.empty((1, room), np.float32), np.empty((1, room), np.int64)
    found = CandidateLists(keys, lows, places, fill, spare, numbers)
    scores, ids = np.empty((1, room)), np.empty((1, room), np.int64)
    k = top.ids.shape[1]
    code_queries(query, sizes, CodeScale(*codes[1]), coded)
    if coded.numbers[3, 0] > 0.0:
        return UNDECIDED
    sweep(packed, (0, packed.blocks.shape[0]), coded, k, found)
    count = found.fill[0]
    if count < 0:
        return UNDECIDED
    # First the k that reach most by the middle of their bounds.
    for j in range(count):
        found.spare[0, j], found.numbers[0, j] = found.keys[0, j] + found.lows[0, j], j
    if count > k:
        keep_best(found.spare, found.numbers, 0, count, k)
    first = min(k, count)
    for j in range(count):
        place = found.places[0, found.numbers[0, j]]
        ids[0, j] = packed.ids[place] if packed.ids.shape[0] > 0 else place
    score_pairs(rows, ids, query, (0, first), scores)
    least, at = np.inf, first
    for j in range(first):
        least = min(least, scores[0, j])
    for j in range(first, count):
        if unscale(found.keys[0, found.numbers[0, j]], coded) >= least:
            ids[0, at] = ids[0, j]
            at += 1
    score_pairs(rows, ids, query, (first, at), scores)
    top.scored[0] += packed.n + at
    floor = coded.rules[0].floor
    rest = unscale(floor, coded) if np.isfinite(floor) else -np.inf
    return close(rows, top, (scores, ids), at, slack, rest)


@lean_kernel
def bound_queries(queries: Vector, sizes: Vector, codes: BareCodes, asked: BareQueries, out: Singles) -> None:
    """Upper bound of every row for every query; out: (m, 16 b)."""
    packed, coded = PackedRows(*codes[0]), CodedQueries(*asked)
    code_queries(queries, sizes, CodeScale(*codes[1]), coded)
    first = address(packed, coded)
    for q in range(out.shape[0]):
        for block in range(packed.blocks.shape[0]):
            rows_of_one(move(first, block, q), out.ctypes.data + 4 * (q * out.shape[1] + ROWS * block))
