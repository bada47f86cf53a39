"""Compiled loops that read codes: what bounds every row, and keeps the best."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from wolfhound.core import Ids, Ints, Singles
from wolfhound.jit import kernel
from wolfhound.oracles._heap_kernels import is_listed
from wolfhound.oracles.int8._instructions import block_of_many, lowest_bit, rows_of_one
from wolfhound.oracles.int8.layout import GROUP, ROWS, PackedQueries, PackedRows, address, move


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


class Found(NamedTuple):
    """Room for the candidates of m queries.

    Attributes
    ----------
    keys, lows, places : (m, room)
        Upper bounds, what a row surely reaches, and places.
    fill : (m,)
        How many there are; -1: they do not fit.
    """

    keys: Singles
    lows: Singles
    places: Ids
    fill: Ints


@kernel
def _raise_floor(q: int, k: int, rules: Any, found: Found, room: Singles) -> None:
    """Set the floor to what the k-th best entry surely reaches; drop what is below."""
    keys, lows, places, fill = found
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
    spare = np.empty(room, np.float32)
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
                            _raise_floor(q + g, k, rules, found, spare)
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
            _raise_floor(q, k, rules, found, spare)
