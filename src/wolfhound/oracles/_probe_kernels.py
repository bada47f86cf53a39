"""Compiled loops that bound buckets for a query and scan the best of them."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import numpy as np

from wolfhound.core import Ids, Ints
from wolfhound.jit import kernel
from wolfhound.oracles._order_kernels import order, order_pairs
from wolfhound.oracles._scan_kernels import listed, push
from wolfhound.oracles.int8._instructions import (
    GROUP,
    ROWS,
    block_of_many,
    lowest_bit,
    prefetch,
    rows_of_one,
)
from wolfhound.oracles.int8._kernels import Shorts, Singles

_LINES = 16


@kernel
def bound_all(
    blocks: Shorts, scales: Singles, errors: Singles, levels: Shorts, rules: Any, out: Singles
) -> None:
    """Upper bound of every row for every query; out: (m, n)."""
    pairs, m = blocks.shape[1], levels.shape[0]
    uppers = np.empty((GROUP, ROWS), np.float32)
    address = uppers.ctypes.data
    for block in range(blocks.shape[0]):
        codes = blocks.ctypes.data + block * 2 * ROWS * pairs
        scale, error = scales.ctypes.data + 4 * ROWS * block, errors.ctypes.data + 4 * ROWS * block
        q = 0
        while q < m:
            level, rule = levels.ctypes.data + 4 * pairs * q, rules.ctypes.data + 16 * q
            group = GROUP if q + GROUP <= m else 1
            if group > 1:
                block_of_many(codes, level, pairs, scale, error, rule, address)
            else:
                rows_of_one(codes, level, pairs, scale, error, rule, address)
            for g in range(group):
                for row in range(min(ROWS, out.shape[1] - ROWS * block)):
                    out[q + g, ROWS * block + row] = uppers[g, row]
            q += group


@kernel
def _scan(
    q: int,
    span: tuple[int, int],
    blocks: Shorts,
    scales: Singles,
    ids: Ids,
    levels: Shorts,
    rules: Any,
    exclude: Ids,
    uppers: Singles,
    keys: Singles,
    places: Ids,
    fill: Ints,
) -> None:
    """Offer the rows of one bucket to the heap of query q."""
    pairs = blocks.shape[1]
    level, rule = levels.ctypes.data + 4 * pairs * q, rules.ctypes.data + 16 * q
    out = uppers.ctypes.data
    for block in range(span[0] // ROWS, (span[1] + ROWS - 1) // ROWS):
        codes = blocks.ctypes.data + block * 2 * ROWS * pairs
        scale = scales.ctypes.data + 4 * ROWS * block
        # The size of the rule is 0: estimates, not bounds; errors are not read for their value.
        bits = np.int64(rows_of_one(codes, level, pairs, scale, scale, rule, out))
        if bits == 0:
            continue
        bits &= ~((1 << max(0, span[0] - ROWS * block)) - 1) & ((1 << min(ROWS, span[1] - ROWS * block)) - 1)
        while bits != 0:
            row = lowest_bit(bits)
            bits &= bits - 1
            place = ROWS * block + row
            if uppers[row] > rules[q].floor and (exclude.shape[1] == 0 or not listed(exclude, q, ids[place])):
                push(keys, places, fill, q, uppers[row], place)
                if fill[q] == keys.shape[1]:
                    rules[q].floor = keys[q, 0]


@kernel
def probe(
    which: Ints,
    first: Singles,
    second: Singles,
    norms: Singles,
    lift: Singles,
    offsets: Ints,
    budget: int,
    blocks: Shorts,
    scales: Singles,
    ids: Ids,
    levels: Shorts,
    rules: Any,
    exclude: Ids,
    keys: Singles,
    places: Ids,
    fill: Ints,
    done: Ints,
    scored: Ints,
) -> None:
    """Scan, per query, the most promising atoms that were not scanned yet.

    Parameters
    ----------
    which
        Queries to go on with.
    first, second, norms, lift : (m, i), (m, j), (r,), (m, r)
        What buckets promise, see `order_pairs`.
    offsets : (buckets + 1,)
        Places where buckets begin.
    budget
        Atoms that have been scanned for a query when this ends, if there are so many.
    keys, places : (m, room), fill : (m,)
        Heaps of the best estimates.
    done : (m,)
        How many atoms were scanned.
    scored : (m,)
        Atoms scored is added.
    """
    uppers = np.empty(ROWS, np.float32)
    room = np.empty((3, offsets.shape[0]), np.int64)
    plain = norms.shape[0] == 1 and second.shape[1] == 1
    stride = 2 * ROWS * blocks.shape[1]
    for q in which:
        if plain:
            count = order(first[q], offsets, budget, room)
        else:
            count = order_pairs(first[q], second[q], norms, lift[q], offsets, budget, room)
        total = 0
        for i in range(count):
            begin, end = offsets[room[0, i]], offsets[room[0, i] + 1]
            if i + 1 < count:
                ahead = blocks.ctypes.data + offsets[room[0, i + 1]] // ROWS * stride
                for line in range(_LINES):
                    prefetch(ahead + 64 * line)
            # Buckets are uneven: the first was begun in an earlier round, the last is cut.
            span = (begin + max(0, done[q] - total), min(end, begin + budget - total))
            total += end - begin
            if span[1] > span[0]:
                _scan(q, span, blocks, scales, ids, levels, rules, exclude, uppers, keys, places, fill)
                scored[q] += span[1] - span[0]
        done[q] = max(done[q], min(total, budget))
