"""Compiled loops that list the most promising buckets of a query."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from wolfhound.core import Ints, Singles
from wolfhound.jit import kernel

BINS = 256
_STRIDE = 16
_RUN = 32
_FEW = 24


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
def _swap_order(numbers: Any, out: Any) -> None:
    """Turn the bits of float32 into integers of the same order, or such integers back.

    Loops that compare integers use vector registers, those that compare floats do not.
    """
    shift, mask = np.int32(31), np.int32(0x7FFFFFFF)
    for i in range(numbers.shape[0]):
        out[i] = numbers[i] ^ ((numbers[i] >> shift) & mask)


@kernel
def _highest(keys: Any) -> Any:
    best = keys[0]
    for i in range(keys.shape[0]):
        best = max(best, keys[i])
    return best


@kernel
def _lowest(keys: Any) -> Any:
    best = keys[0]
    for i in range(keys.shape[0]):
        best = min(best, keys[i])
    return best


@kernel
def _tops(promises: Singles, keys: Any) -> tuple[Any, Any]:
    """Return the lowest promise, and the highest of each run; keys: (buckets,) int32, to work in."""
    _swap_order(promises.view(np.int32), keys)
    runs = (keys.shape[0] + _RUN - 1) // _RUN
    ends = np.empty(runs + 1, np.int32)
    for run in range(runs):
        ends[run] = _highest(keys[run * _RUN : (run + 1) * _RUN])
    ends[runs] = _lowest(keys)
    _swap_order(ends, ends)
    values = ends.view(np.float32)
    return values[runs], values[:runs]


@kernel
def _extremes(values: Singles) -> tuple[Any, Any]:
    low, tops = _tops(values, np.empty(values.shape[0], np.int32))
    return low, tops.max()


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
    low, high = _extremes(promises)
    return low, per_unit(low, high, count)


@kernel
def bin_of(promised: Any, low: Any, scale: Any, count: int = BINS) -> int:
    """Bin of a promise, below `count` whatever the numbers are; equal promises are in the same one."""
    place = (promised - low) * scale
    if not place > 0.0:  # also if it is nan: the scale of a tiny range overflows
        return 0
    return int(place) if place < count else count - 1


@kernel
def _cut_of_few(tops: Singles, wanted: int) -> Any:
    """Return a promise that at least so many buckets have: those that are highest in their runs."""
    cut = np.float32(np.inf)
    for _ in range(wanted):
        below = np.float32(-np.inf)
        for top in tops:
            if below < top < cut:
                below = top
        cut = below
    return cut


@kernel
def _cut(promises: Singles, offsets: Ints, budget: int, low: Any, scale: Any) -> Any:
    """Guess a promise above which buckets hold a little more than the budget, from a few."""
    held = np.zeros(BINS, np.int64)
    for b in range(0, promises.shape[0], _STRIDE):
        held[bin_of(promises[b], low, scale)] += offsets[b + 1] - offsets[b]
    last, total = BINS, 0
    while last > 0 and _STRIDE * total < 2 * budget:
        last -= 1
        total += held[last]
    return low + np.float32(last) / scale if last > 0 else np.float32(-np.inf)


@kernel
def _above(promises: Singles, tops: Singles, cut: Any, near: Ints) -> int:
    """List the buckets whose promise is at least `cut`; whole runs without one are skipped."""
    count = 0
    for run in range(tops.shape[0]):
        if tops[run] >= cut:
            for b in range(run * _RUN, min((run + 1) * _RUN, promises.shape[0])):
                near[count] = b
                count += promises[b] >= cut
    return count


@kernel
def order(promises: Singles, offsets: Ints, budget: int, room: Ints) -> int:
    """List buckets by falling promise until they hold `budget` atoms.

    Promises are compared to a 256th of their range, equal ones by number: what
    a larger budget lists begins with what a smaller one does. Returns how many.

    Parameters
    ----------
    promises : (buckets,)
    offsets : (buckets + 1,)
        Places where buckets begin.
    budget
        Atoms wanted.
    room : (3, buckets + 1)
        The list is ``room[0]``.
    """
    near, place = room[1], room[2]
    buckets = promises.shape[0]
    low, tops = _tops(promises, near.view(np.int32)[:buckets])
    scale = per_unit(low, tops.max(), BINS)
    found, total = 0, 0
    if scale > 0.0:
        wanted = 2 + 3 * budget * buckets // (2 * max(1, offsets[-1]))
        if 3 * wanted <= tops.shape[0]:
            cut = _cut_of_few(tops, wanted)
        else:
            cut = _cut(promises, offsets, budget, low, scale)
        listed_ = _above(promises, tops, cut, near)
        # The lowest bin may be cut in two: it is left out.
        last = BINS
        for i in range(listed_):
            place[i] = bin_of(promises[near[i]], low, scale)
            last = min(last, place[i])
        for i in range(listed_):
            near[found], place[found] = near[i], place[i]
            if place[i] > last:
                total += offsets[near[i] + 1] - offsets[near[i]]
                found += 1
    if total < budget:
        found = buckets
        for b in range(found):
            near[b], place[b] = b, bin_of(promises[b], low, scale)
    if found <= _FEW:
        return _one_by_one(near[:found], place[:found], offsets, budget, room[0])
    return _by_bin(near[:found], place[:found], offsets, budget, room[0])


@kernel
def _one_by_one(near: Ints, place: Ints, offsets: Ints, budget: int, picked: Ints) -> int:
    """As `_by_bin`, for a few buckets: insertion, of equal bins the first stays first."""
    for i in range(near.shape[0]):
        bucket, here, j = near[i], place[i], i
        while j > 0 and place[j - 1] < here:
            place[j], picked[j] = place[j - 1], picked[j - 1]
            j -= 1
        place[j], picked[j] = here, bucket
    return _until(near.shape[0], offsets, budget, picked)


@kernel
def descending(values: Singles) -> Ints:
    """Return places by falling value, of equal ones the first: into bins, then one by one."""
    size = values.shape[0]
    low, high = _extremes(values)
    scale = per_unit(low, high, size)
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
def _bin_of_pair(pairs: _Pairs, r: int, i: int, j: int) -> int:
    promised = promise(pairs.norms[r], pairs.lift[r], pairs.u[i], pairs.v[j])
    return bin_of(promised, pairs.low, pairs.scale)


@kernel
def order_pairs(promises: Promises, q: int, offsets: Ints, budget: int, room: Ints) -> int:
    """As `order`, for query q and the buckets of pairs; only pairs that are listed are looked at."""
    first, second, norms, lift = promises.first[q], promises.second[q], promises.norms, promises.lift[q]
    one, two = descending(first), descending(second)
    u, v = first[one], second[two]
    low, high = promise(norms[0], lift[0], u[0], v[0]), promise(norms[0], lift[0], u[0], v[0])
    for r in range(norms.shape[0]):
        for ends in (promise(norms[r], lift[r], u[0], v[0]), promise(norms[r], lift[r], u[-1], v[-1])):
            low, high = min(low, ends), max(high, ends)
    pairs = _Pairs(u, v, norms, lift, low, per_unit(low, high, BINS))
    near, place = room[1], room[2]
    wanted = 1.5 * budget * (offsets.shape[0] - 1) / max(1, offsets[-1]) + 8.0
    while True:
        last = _last_bin(pairs, wanted)
        found, total = 0, 0
        for r in range(norms.shape[0]):
            for i in range(u.shape[0]):
                if _bin_of_pair(pairs, r, i, 0) < last:
                    break
                start = (r * u.shape[0] + one[i]) * v.shape[0]
                for j in range(v.shape[0]):
                    here = _bin_of_pair(pairs, r, i, j)
                    if here < last:
                        break
                    b = start + two[j]
                    near[found], place[found] = b, here
                    total += offsets[b + 1] - offsets[b]
                    found += 1
        if total >= budget or last == 0:
            return _by_bin(near[:found], place[:found], offsets, budget, room[0])
        wanted *= 2.0


@kernel
def promise(level: Any, lift: Any, u: Any, v: Any) -> Any:
    """What a bucket promises, see `Promises`."""
    return level * (lift + u) + level * v


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
def _by_bin(near: Ints, place: Ints, offsets: Ints, budget: int, picked: Ints) -> int:
    """List some buckets by their bins, from the highest on, until they hold the budget."""
    held = np.zeros(BINS, np.int64)
    counts = np.zeros(BINS, np.int64)
    for i in range(near.shape[0]):
        held[place[i]] += offsets[near[i] + 1] - offsets[near[i]]
        counts[place[i]] += 1
    last, total, count = BINS, 0, 0
    starts = np.zeros(BINS, np.int64)
    while last > 0 and total < budget:
        last -= 1
        starts[last] = count
        count += counts[last]
        total += held[last]
    for i in range(near.shape[0]):
        if place[i] >= last:
            picked[starts[place[i]]] = near[i]
            starts[place[i]] += 1
    return _until(count, offsets, budget, picked)


@kernel
def _until(count: int, offsets: Ints, budget: int, picked: Ints) -> int:
    """How many of the picked buckets hold the budget, or all."""
    total, listed_ = 0, 0
    while listed_ < count and total < budget:
        total += offsets[picked[listed_] + 1] - offsets[picked[listed_]]
        listed_ += 1
    return listed_
