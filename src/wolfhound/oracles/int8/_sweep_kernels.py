"""Compiled loops that read codes: what bounds every row, and keeps the best."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from wolfhound.core import Ids, Ints, Matrix, Singles, Vector
from wolfhound.jit import kernel, lean_kernel
from wolfhound.oracles._scan_kernels import BareTop, Top, close, score_pairs
from wolfhound.oracles._top_kernels import is_listed, keep_best
from wolfhound.oracles.int8._encode_kernels import BareCoded, BareScale, CodedRows, CodeScale, code_queries
from wolfhound.oracles.int8._instructions import block_of_many, lowest_bit, rows_of_one
from wolfhound.oracles.int8.layout import GROUP, ROWS, BareRows, PackedQueries, PackedRows, address, move
from wolfhound.rounding import TINY


class Found(NamedTuple):
    """Room for the candidates of m queries.

    Attributes
    ----------
    keys, lows, places : (m, room)
        Upper bounds, what a row surely reaches, and places.
    fill : (m,)
        How many there are; -1: they do not fit.
    spare, numbers : (1, room)
        To raise floors.
    """

    keys: Singles
    lows: Singles
    places: Ids
    fill: Ints
    spare: Singles
    numbers: Ids


def empty_found(m: int, room: int) -> Found:
    """Room for so many candidates of m queries."""
    keys, lows = np.empty((m, room), np.float32), np.empty((m, room), np.float32)
    places, fill = np.empty((m, room), np.int64), np.zeros(m, np.int64)
    return Found(keys, lows, places, fill, np.empty((1, room), np.float32), np.empty((1, room), np.int64))


@lean_kernel
def _raise_floor(q: int, k: int, rules: Any, found: Found) -> None:
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
    q: int, first: int, bits: Any, uppers: Singles, packed: PackedRows, queries: PackedQueries, found: Found
) -> None:
    """Keep the rows from place `first` on that reach the floor and are not excluded; `bits`: that may.

    Their `lows` are so low that a row with a key below them is surely worse.
    """
    rule, slack, exclude = queries.rules[q], queries.slacks[q], queries.exclude
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
def sweep(packed: PackedRows, span: tuple[int, int], queries: PackedQueries, k: int, found: Found) -> None:
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

UNDECIDED = -2
"""Instead of a number of answers: codes decide too little."""

BareCodes: TypeAlias = tuple[BareRows, BareScale]
"""The fields of `PackedRows` and of `CodeScale`."""


@lean_kernel
def unscale(key: Any, coded: CodedRows) -> float:
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
    asked: BareCoded,
    room: int,
    slack: float,
    bare: BareTop,
) -> int:
    """Bound all rows by their codes, score those that can be among the k best; see `close`.

    The more the first k reach, the fewer others must be scored. `asked` is of `empty_coded`, `room` the
    most candidates. Returns `UNDECIDED` if they do not fit, or the query is hopeless.
    """
    top, packed, coded = Top(*bare), PackedRows(*codes[0]), CodedRows(*asked)
    keys, lows = np.empty((1, room), np.float32), np.empty((1, room), np.float32)
    places, fill = np.empty((1, room), np.int64), np.zeros(1, np.int64)
    spare, numbers = np.empty((1, room), np.float32), np.empty((1, room), np.int64)
    found = Found(keys, lows, places, fill, spare, numbers)
    scores, ids = np.empty((1, room)), np.empty((1, room), np.int64)
    k = top.ids.shape[1]
    code_queries(query, sizes, CodeScale(*codes[1]), coded)
    if coded.numbers[3, 0] > 0.0:
        return UNDECIDED
    asking = PackedQueries(coded.levels, coded.rules, coded.numbers[1], exclude)
    sweep(packed, (0, packed.blocks.shape[0]), asking, k, found)
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
def bound_queries(queries: Vector, sizes: Vector, codes: BareCodes, asked: BareCoded, out: Singles) -> None:
    """Upper bound of every row for every query; out: (m, 16 b)."""
    packed, coded = PackedRows(*codes[0]), CodedRows(*asked)
    code_queries(queries, sizes, CodeScale(*codes[1]), coded)
    first = address(packed, coded)
    for q in range(out.shape[0]):
        for block in range(packed.blocks.shape[0]):
            rows_of_one(move(first, block, q), out.ctypes.data + 4 * (q * out.shape[1] + ROWS * block))
