"""Compiled loops that order buckets for a query and scan the best of them."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import numpy as np

from wolfhound.core import Ids, Ints
from wolfhound.jit import kernel
from wolfhound.oracles._block import GROUP, ROWS, block_of_many, block_of_one, prefetch
from wolfhound.oracles._int8_kernels import Shorts, Singles
from wolfhound.oracles._scan_kernels import listed, push

_BINS = 1024
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
                block_of_one(codes, level, pairs, scale, error, rule, address)
            for g in range(group):
                for row in range(min(ROWS, out.shape[1] - ROWS * block)):
                    out[q + g, ROWS * block + row] = uppers[g, row]
            q += group


@kernel
def _bin(promise: Any, low: Any, scale: Any) -> int:
    return int((promise - low) * scale)


@kernel
def order(promises: Singles, offsets: Ints, budget: int, picked: Ints) -> int:
    """List buckets by falling promise until they hold `budget` atoms.

    Promises are compared to a thousandth of their range, equal ones by number: what
    a larger budget lists begins with what a smaller one does. Returns how many.
    """
    low, high = promises[0], promises[0]
    for b in range(promises.shape[0]):
        low = min(low, promises[b])
        high = max(high, promises[b])
    # At most _BINS - 1 after rounding.
    scale = (
        np.float32((_BINS - 0.01) / (np.float64(high) - np.float64(low))) if high > low else np.float32(0.0)
    )
    held = np.zeros(_BINS, np.int64)
    counts = np.zeros(_BINS, np.int64)
    for b in range(promises.shape[0]):
        bucket = _bin(promises[b], low, scale)
        held[bucket] += offsets[b + 1] - offsets[b]
        counts[bucket] += 1
    last, total = _BINS, 0
    starts = np.zeros(_BINS, np.int64)
    count = 0
    while last > 0 and total < budget:
        last -= 1
        starts[last] = count
        count += counts[last]
        total += held[last]
    for b in range(promises.shape[0]):
        bucket = _bin(promises[b], low, scale)
        if bucket >= last:
            picked[starts[bucket]] = b
            starts[bucket] += 1
    total, listed_ = 0, 0
    while listed_ < count and total < budget:
        total += offsets[picked[listed_] + 1] - offsets[picked[listed_]]
        listed_ += 1
    return listed_


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
        if block_of_one(codes, level, pairs, scale, scale, rule, out) == 0:
            continue
        for row in range(max(0, span[0] - ROWS * block), min(ROWS, span[1] - ROWS * block)):
            if uppers[row] > rules[q].floor:
                place = ROWS * block + row
                if exclude.shape[1] == 0 or not listed(exclude, q, ids[place]):
                    push(keys, places, fill, q, uppers[row], place)
                    if fill[q] == keys.shape[1]:
                        rules[q].floor = keys[q, 0]


@kernel
def probe(
    which: Ints,
    promises: Singles,
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
    """Scan, per query, the most promising buckets that were not scanned yet.

    Parameters
    ----------
    which
        Queries to go on with.
    promises : (m, buckets)
    offsets : (buckets + 1,)
        Places where buckets begin.
    budget
        Atoms that all buckets scanned so far may hold, the last one apart.
    keys, places : (m, room), fill : (m,)
        Heaps of the best estimates.
    done : (m,)
        How many buckets were scanned.
    scored : (m,)
        Atoms scored is added.
    """
    uppers = np.empty(ROWS, np.float32)
    picked = np.empty(promises.shape[1], np.int64)
    stride = 2 * ROWS * blocks.shape[1]
    for q in which:
        count = order(promises[q], offsets, budget, picked)
        for i in range(done[q], count):
            begin, end = offsets[picked[i]], offsets[picked[i] + 1]
            if i + 1 < count:
                ahead = blocks.ctypes.data + offsets[picked[i + 1]] // ROWS * stride
                for line in range(_LINES):
                    prefetch(ahead + 64 * line)
            if end > begin:
                _scan(
                    q, (begin, end), blocks, scales, ids, levels, rules, exclude, uppers, keys, places, fill
                )
                scored[q] += end - begin
        done[q] = max(done[q], count)
