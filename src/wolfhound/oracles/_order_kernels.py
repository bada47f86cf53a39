"""Compiled loops that list the most promising buckets of a query."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from wolfhound.core import Ints, Singles
from wolfhound.jit import kernel

BINS = 256
"""Promises are compared to this part of their range."""


class Promises(NamedTuple):
    """How good buckets (r, i, j) are for m queries: ``norms[r] (lift[r] + first[i] + second[j])``.

    Attributes
    ----------
    first, second : (m, i) and (m, j) float32
    norms : (r,) float32
        Not negative.
    lift : (m, r) float32
    """

    first: Singles
    second: Singles
    norms: Singles
    lift: Singles

    @classmethod
    def plain(cls, promises: Singles) -> Promises:
        """One number for every query and bucket."""
        none = _NONE if len(promises) == 1 else np.zeros((len(promises), 1), np.float32)
        return cls(promises, none, _ONE, none)


_NONE, _ONE = np.zeros((1, 1), np.float32), np.ones(1, np.float32)


@kernel
def per_unit(low: Any, high: Any, count: int) -> Any:
    """How many of so many bins there are per unit, 0 if there is no range."""
    if not high > low:
        return np.float32(0.0)
    # The highest is in bin count - 1, after rounding too.
    return np.float32((count - 0.01) / (np.float64(high) - np.float64(low)))


@kernel
def spans(promises: Singles, count: int) -> tuple[Any, Any]:
    """Return the lowest promise, and how many bins there are per unit."""
    low = high = promises[0]
    for promised in promises:
        low, high = min(low, promised), max(high, promised)
    return low, per_unit(low, high, count)


@kernel
def bin_of(promised: Any, low: Any, scale: Any, count: int) -> int:
    """Bin of a promise, below `count` whatever the numbers are; equal promises are in the same one."""
    place = (promised - low) * scale
    if not place > 0.0:  # also if it is nan: the scale of a tiny range overflows
        return 0
    return int(place) if place < count else count - 1


@kernel
def descending(values: Singles) -> Ints:
    """Return places by falling value, of equal ones the first: into bins, then one by one."""
    size = values.shape[0]
    low, scale = spans(values, size)
    starts = np.zeros(size + 1, np.int64)
    for i in range(size):
        starts[size - bin_of(values[i], low, scale, size)] += 1
    for b in range(size):
        starts[b + 1] += starts[b]
    out = np.empty(size, np.int64)
    for i in range(size):
        b = size - 1 - bin_of(values[i], low, scale, size)
        out[starts[b]] = i
        starts[b] += 1
    for i in range(1, size):
        moved = out[i]
        j = i
        while j > 0 and values[out[j - 1]] < values[moved]:
            out[j] = out[j - 1]
            j -= 1
        out[j] = moved
    return out


class _Pairs(NamedTuple):
    """Promises of one query, both parts falling, and their bins."""

    u: Singles
    v: Singles
    norms: Singles
    lift: Singles
    low: Any
    scale: Any


@kernel
def promise(level: Any, lift: Any, u: Any, v: Any) -> Any:
    """What a bucket promises, see `Promises`."""
    return level * (lift + u) + level * v


@kernel
def _bin_of_pair(pairs: _Pairs, r: int, i: int, j: int) -> int:
    promised = promise(pairs.norms[r], pairs.lift[r], pairs.u[i], pairs.v[j])
    return bin_of(promised, pairs.low, pairs.scale, BINS)


@kernel
def _sort_pairs(promises: Promises, q: int, one: Ints, two: Ints) -> _Pairs:
    """Bring both parts into the order of their places, and find the range of the sums."""
    norms, lift = promises.norms, promises.lift[q]
    u, v = np.empty(one.shape[0], np.float32), np.empty(two.shape[0], np.float32)
    for i in range(one.shape[0]):
        u[i] = promises.first[q, one[i]]
    for j in range(two.shape[0]):
        v[j] = promises.second[q, two[j]]
    low = high = promise(norms[0], lift[0], u[0], v[0])
    for r in range(norms.shape[0]):
        high = max(high, promise(norms[r], lift[r], u[0], v[0]))
        low = min(low, promise(norms[r], lift[r], u[-1], v[-1]))
    return _Pairs(u, v, norms, lift, low, per_unit(low, high, BINS))


@kernel
def order(promises: Promises, q: int, offsets: Ints, budget: int, room: Ints) -> int:
    """List buckets of query q by falling promise until they hold `budget` atoms.

    Promises are compared to a 256th of their range: what a larger budget lists begins with what
    a smaller one does. Only pairs that are listed are looked at. Returns how many.

    Parameters
    ----------
    promises
        Of the buckets.
    offsets : (buckets + 1,)
        Places where buckets begin.
    budget
        Atoms wanted.
    room : (3, buckets + 1)
        The list is ``room[0]``.
    """
    one, two = descending(promises.first[q]), descending(promises.second[q])
    pairs = _sort_pairs(promises, q, one, two)
    near, place = room[1], room[2]
    wanted = 1.5 * budget * (offsets.shape[0] - 1) / max(1, offsets[-1]) + 8.0
    while True:
        last = _last_bin(pairs, wanted)
        found, total = 0, 0
        for r in range(pairs.norms.shape[0]):
            for i in range(one.shape[0]):
                if _bin_of_pair(pairs, r, i, 0) < last:
                    break
                start = (r * one.shape[0] + one[i]) * two.shape[0]
                for j in range(two.shape[0]):
                    here = _bin_of_pair(pairs, r, i, j)
                    if here < last:
                        break
                    b = start + two[j]
                    near[found], place[found] = b, here
                    total += offsets[b + 1] - offsets[b]
                    found += 1
        if total >= budget or last == 0:
            return _by_bin(found, room, offsets, budget)
        wanted *= 2.0


@kernel
def _last_bin(pairs: _Pairs, wanted: float) -> int:
    """Return the highest bin from which on there are so many buckets."""
    begin, end = 0, BINS
    while end - begin > 1:
        middle = (begin + end) // 2
        count = 0
        for r in range(pairs.norms.shape[0]):
            j = pairs.v.shape[0]
            for i in range(pairs.u.shape[0]):
                while j > 0 and _bin_of_pair(pairs, r, i, j - 1) < middle:
                    j -= 1
                if j == 0:
                    break
                count += j
        if count >= wanted:
            begin = middle
        else:
            end = middle
    return begin


@kernel
def _by_bin(found: int, room: Ints, offsets: Ints, budget: int) -> int:
    """List the found buckets by their bins, from the highest on, until they hold the budget; how many do."""
    picked, near, place = room[0], room[1], room[2]
    held, starts = np.zeros(BINS, np.int64), np.zeros(BINS, np.int64)
    for i in range(found):
        held[place[i]] += offsets[near[i] + 1] - offsets[near[i]]
        starts[place[i]] += 1
    last, total, count = BINS, 0, 0
    while last > 0 and total < budget:
        last -= 1
        total += held[last]
        starts[last], count = count, count + starts[last]
    for i in range(found):
        if place[i] >= last:
            picked[starts[place[i]]] = near[i]
            starts[place[i]] += 1
    total, listed = 0, 0
    while listed < count and total < budget:
        total += offsets[picked[listed] + 1] - offsets[picked[listed]]
        listed += 1
    return listed
