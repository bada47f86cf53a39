"""Compiled loops of probing: hashing queries, which buckets promise most, and the best atoms in them."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import numpy as np

from wolfhound.compiled.jit import inlined, kernel, lean_fast_kernel, lean_kernel
from wolfhound.core.contracts import Ids, Ints, Matrix, Singles, Vector
from wolfhound.oracles._scan_kernels import BareTop, Top, close, is_listed, score_pairs, sort_best
from wolfhound.oracles.int8._instructions import lowest_bit, prefetch, rows_of_one
from wolfhound.oracles.int8._kernels import BareScale, CodeScale, code_queries
from wolfhound.oracles.int8.layout import ROWS, RULE, BareRows, CodedQueries, PackedRows, address, move

BINS = 256  # promises are compared to this part of their range
_LINES = 16  # cache lines of a bucket that are asked for before it is scanned


class Promises(NamedTuple):
    """How good buckets (r, i, j) are for m queries: ``norms[r] (lift[r] + first[i] + second[j])``."""

    first: Singles  # (m, i)
    second: Singles  # (m, j)
    norms: Singles  # (r,), not negative
    lift: Singles  # (m, r)

    @classmethod
    def plain(cls, promises: Singles) -> Promises:
        """One number for every query and bucket."""
        none = _NONE if len(promises) == 1 else np.zeros((len(promises), 1), np.float32)
        return cls(promises, none, _ONE, none)


_NONE, _ONE = np.zeros((1, 1), np.float32), np.ones(1, np.float32)


# ---------------------------------------------------------------- the order of buckets


@lean_kernel
def per_unit(low: Any, high: Any, count: int) -> Any:
    """How many of so many bins there are per unit, 0 if there is no range."""
    if not high > low:
        return np.float32(0.0)
    # The highest is in bin count - 1, after rounding too.
    return np.float32((count - 0.01) / (np.float64(high) - np.float64(low)))


@lean_kernel
def bin_of(promised: Any, low: Any, scale: Any, count: int) -> int:
    """Bin of a promise, below `count` whatever the numbers are; equal promises are in the same one."""
    place = (promised - low) * scale
    if not place > 0.0:  # also if it is nan: the scale of a tiny range overflows
        return 0
    return int(place) if place < count else count - 1


@lean_kernel
def promise(level: Any, lift: Any, u: Any, v: Any) -> Any:
    """What a bucket promises, see `Promises`."""
    return level * (lift + u) + level * v


@inlined
def find_range(promises: Promises, q: int) -> tuple[Any, Any]:
    """The least that a bucket may promise query q, and how many bins there are per unit.

    What a bucket promises rises with both of its numbers, after rounding too.
    """
    first, second, norms, lift = promises
    least, most, lower, upper = first[q, 0], first[q, 0], second[q, 0], second[q, 0]
    for i in range(first.shape[1]):
        least, most = min(least, first[q, i]), max(most, first[q, i])
    for j in range(second.shape[1]):
        lower, upper = min(lower, second[q, j]), max(upper, second[q, j])
    low = high = promise(norms[0], lift[q, 0], most, upper)
    for r in range(norms.shape[0]):
        low = min(low, promise(norms[r], lift[q, r], least, lower))
        high = max(high, promise(norms[r], lift[q, r], most, upper))
    return low, per_unit(low, high, BINS)


Room: TypeAlias = tuple[Singles, Ints]
"""Memory of a thread: promises and their buckets, as listed and of `second`, then bounds of 16 rows and
atoms by bins."""


def make_room(buckets: int) -> Room:
    """Memory for so many buckets."""
    shape = 3, max(buckets, BINS)
    return np.empty(shape, np.float32), np.empty(shape, np.int64)


@lean_kernel
def order(promises: Promises, q: int, offsets: Ints, budget: int, room: Room) -> int:
    """List buckets of query q by falling promise, of equal ones the first, until they hold `budget` atoms.

    What a larger budget lists begins with what a smaller one does. Counts by bins of promises find
    what is to be sorted; most buckets are not even looked at. Returns how many are listed.

    `offsets` (buckets + 1,) are the places where buckets begin; the list is ``room[1][0]``.
    """
    first, second, norms, lift = promises
    keys, ids = room
    ranges, ones, twos = norms.shape[0], first.shape[1], second.shape[1]
    for j in range(twos):
        keys[1, j], ids[1, j] = second[q, j], j
    sort_best(keys, ids, 1, twos)
    low, scale = find_range(promises, q)
    for b in range(BINS):
        ids[2, b] = 0
    # The highest bin from which on buckets hold the budget: it rises with what was seen.
    last, total, seen = 0, 0, 0
    for r in range(ranges):
        for i in range(ones):
            for j in range(twos):
                promised = promise(norms[r], lift[q, r], first[q, i], keys[1, j])
                here = bin_of(promised, low, scale, BINS)
                if here < last:
                    break
                b = (r * ones + i) * twos + ids[1, j]
                keys[0, seen], ids[0, seen] = promised, b
                seen += 1
                size = offsets[b + 1] - offsets[b]
                ids[2, here] += size
                total += size
            while last < BINS - 1 and total - ids[2, last] >= budget:
                total -= ids[2, last]
                last += 1
    found = 0
    for i in range(seen):
        if bin_of(keys[0, i], low, scale, BINS) >= last:
            keys[0, found], ids[0, found] = keys[0, i], ids[0, i]
            found += 1
    sort_best(keys, ids, 0, found)
    total, listed = 0, 0
    while listed < found and total < budget:
        total += offsets[ids[0, listed] + 1] - offsets[ids[0, listed]]
        listed += 1
    return listed


# ---------------------------------------------------------------- the atoms in them


class ProbeState(NamedTuple):
    """What is known of m queries between two rounds."""

    keys: Singles  # (m, 2 r) estimates; the first r are the best
    places: Ids  # (m, 2 r)
    fill: Ints  # (m,) how many there are, at most r between rounds
    floors: Singles  # (m,) of the rules: what is at or below is not wanted
    done: Ints  # (m,) how many atoms were scanned
    scored: Ints  # (m,) atoms scored are added


@lean_kernel
def probe(
    which: Ints,
    budgets: Ints,
    promises: Promises,
    offsets: Ints,
    packed: PackedRows,
    queries: CodedQueries,
    progress: ProbeState,
    room: Room,
) -> None:
    """Scan, per query, the most promising atoms that were not scanned yet.

    `which` are the queries to go on with; a query ends when `budgets` (m,) atoms were scanned for it.
    """
    keys, places, fill, floors, done, scored = progress
    uppers, listed = room
    first, most = address(packed, queries), keys.shape[1] // 2
    out = uppers.ctypes.data + 8 * uppers.shape[1]  # row 2
    for q in which:
        budget, at = budgets[q], fill[q]
        count = order(promises, q, offsets, budget, room)
        total = 0
        for i in range(count):
            begin, end = offsets[listed[0, i]], offsets[listed[0, i] + 1]
            if i + 1 < count:
                ahead = move(first, offsets[listed[0, i + 1]] // ROWS, 0).codes
                for line in range(_LINES):
                    prefetch(ahead + 64 * line)
            # Buckets are uneven: the first was begun in an earlier round, the last is cut.
            start, stop = begin + max(0, done[q] - total), min(end, begin + budget - total)
            total += end - begin
            scored[q] += max(0, stop - start)
            for block in range(start // ROWS, (stop + ROWS - 1) // ROWS if stop > start else 0):
                bits = np.int64(rows_of_one(move(first, block, q), out))
                while bits != 0:
                    row = lowest_bit(bits)
                    bits &= bits - 1
                    place = ROWS * block + row
                    if place < start or place >= stop or not uppers[2, row] > floors[q]:
                        continue
                    if queries.exclude.shape[1] > 0 and is_listed(queries.exclude, q, packed.ids[place]):
                        continue
                    keys[q, at], places[q, at] = uppers[2, row], place
                    at += 1
                    if at == 2 * most:
                        sort_best(keys, places, q, at)
                        floors[q], at = keys[q, most - 1], most
        sort_best(keys, places, q, at)
        if at >= most:
            floors[q], at = keys[q, most - 1], most
        fill[q] = at
        done[q] = max(done[q], min(total, budget))


@kernel
def best_of_probed(
    rows: Matrix,
    query: Vector,
    sizes: Vector,
    exclude: Ids,
    promises: tuple[Singles, Singles, Singles, Singles],
    codes: tuple[BareRows, BareScale, Ints],
    rounds: tuple[Ints, Vector, int],
    bare: BareTop,
) -> int:
    """Probe for one query, round by round, and answer with the best by their rows; see `close`.

    `promises` are the fields of `Promises`; `codes` those of `PackedRows` and `CodeScale`, and where buckets
    begin; `rounds` budgets, the scores that are enough after each but the last, and candidates to keep.
    """
    top, promised = Top(*bare), Promises(*promises)
    packed, offsets, (budgets, enough, most) = PackedRows(*codes[0]), codes[2], rounds
    # Room as of `empty_queries` and `make_room`: here it is made in no time.
    levels, rules = np.zeros((1, 2 * packed.blocks.shape[1]), np.int16), np.empty(1, RULE)
    asked, wide = CodedQueries(levels, rules, np.empty((4, 1)), exclude), max(offsets.shape[0], BINS)
    room = np.empty((3, wide), np.float32), np.empty((3, wide), np.int64)
    code_queries(query, sizes, CodeScale(*codes[1]), asked)
    asked.rules[0].size = np.float32(0.0)
    keys, places = np.empty((1, 2 * most), np.float32), np.empty((1, 2 * most), np.int64)
    fill, done, which = np.zeros(1, np.int64), np.zeros(1, np.int64), np.zeros(1, np.int64)
    state = ProbeState(keys, places, fill, asked.rules["floor"], done, top.scored)
    scores, ids, last = np.empty((1, most)), np.empty((1, most), np.int64), budgets.shape[0] - 1
    for r in range(last + 1):
        probe(which, budgets[r : r + 1], promised, offsets, packed, asked, state, room)
        best = -np.inf
        for i in range(fill[0]):
            ids[0, i] = packed.ids[places[0, i]]
        score_pairs(rows, ids, query, (0, fill[0]), scores)
        for i in range(fill[0]):
            best = max(best, scores[0, i])
        if r < last and best >= enough[r]:
            break
    return close(rows, top, (scores, ids), fill[0], 0.0, np.inf)


@lean_fast_kernel
def project(units: Singles, directions: Singles, weight: float, i: int, out: Singles) -> None:
    """Write row i of out: weighted products with all directions, and their opposites if there is room."""
    wide = directions.shape[0]
    for w in range(wide):
        total = np.float32(0.0)
        for j in range(directions.shape[1]):
            total += units[j] * directions[w, j]
        out[i, w] = total * np.float32(weight)
        if out.shape[1] > wide:
            out[i, wide + w] = -out[i, w]


@lean_kernel
def project_queries(
    queries: Vector,
    sizes: Vector,
    hashing: tuple[Singles, Singles, Singles, Singles, Singles, float, float],
    out: tuple[Singles, Singles, Singles],
    units: Singles,
) -> None:
    """Project unit queries on the directions of both codes, and write what their best row adds.

    `hashing` are fields of `Hash`: first, second, norms, shifts, variances, weight, above; `out` is
    (m, w) or (m, 2 w), the same, and (m, r); `sizes` are norms, rounded up; `units` (d,) is room for a query.
    """
    first, second, norms, shifts, variances, weight, above = hashing
    one, two, lift = out
    for i in range(queries.shape[0]):
        size = sizes[i] if 0.0 < sizes[i] < np.inf else np.inf
        spread = np.float32(0.0)
        for j in range(queries.shape[1]):
            units[j] = np.float32(queries[i, j] / size)
            spread += units[j] * units[j] * variances[j]
        project(units, first, weight, i, one)
        project(units, second, weight, i, two)
        project(units, shifts, 1.0, i, lift)
        added = np.float32(above) * np.sqrt(spread)
        for r in range(norms.shape[0]):
            lift[i, r] = added + lift[i, r] / norms[r]


@lean_kernel
def count_above(promises: Promises, sizes: Ints, cuts: Singles, room: Ints, out: Ints) -> None:
    """Atoms that are probed by the time that all buckets which promise at least a cut were.

    `sizes` (buckets,) are the atoms in each, `cuts` (t,), `room` (BINS,), `out` (t, m).
    """
    first, second, norms, lift = promises
    for q in range(first.shape[0]):
        low, scale = find_range(promises, q)
        for b in range(BINS):
            room[b] = 0
        b = 0
        for r in range(norms.shape[0]):
            for i in range(first.shape[1]):
                for j in range(second.shape[1]):
                    promised = promise(norms[r], lift[q, r], first[q, i], second[q, j])
                    room[bin_of(promised, low, scale, BINS)] += sizes[b]
                    b += 1
        for t in range(cuts.shape[0]):
            # Within a bin the order is not that of promises: a bin that is cut counts whole.
            out[t, q] = 0
            for b in range(bin_of(cuts[t], low, scale, BINS), BINS):
                out[t, q] += room[b]
