"""Compiled loop that scans the most promising buckets of a query."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from wolfhound.core import Ids, Ints, Matrix, Singles, Vector
from wolfhound.jit import kernel
from wolfhound.oracles._heap_kernels import is_listed, push
from wolfhound.oracles._one_kernels import BareTop, Top, best_offered, close, offer_listed
from wolfhound.oracles._order_kernels import Promises, order
from wolfhound.oracles.int8._encode_kernels import BareScale, CodeScale, code_one
from wolfhound.oracles.int8._instructions import lowest_bit, prefetch, rows_of_one
from wolfhound.oracles.int8.layout import ROWS, Address, BareRows, PackedQueries, PackedRows, address, move

_LINES = 16


class ProbeState(NamedTuple):
    """What is known of m queries between two rounds.

    Attributes
    ----------
    keys, places, fill, floors
        `Heaps` of the best estimates; the floors are those of the rules.
    done : (m,)
        How many atoms were scanned.
    scored : (m,)
        Atoms scored are added.
    """

    keys: Singles
    places: Ids
    fill: Ints
    floors: Singles
    done: Ints
    scored: Ints


@kernel
def _rows_inside(block: int, begin: int, end: int) -> Any:
    """Bits of the rows of a block whose places are in a range."""
    return ~((1 << max(0, begin - ROWS * block)) - 1) & ((1 << min(ROWS, end - ROWS * block)) - 1)


@kernel
def _prefetch_rows(first: Address, place: int) -> None:
    """Ask for the first cache lines of the codes at a place."""
    ahead = move(first, place // ROWS, 0).codes
    for line in range(_LINES):
        prefetch(ahead + 64 * line)


@kernel
def probe(
    which: Ints,
    budgets: Ints,
    promises: Promises,
    offsets: Ints,
    packed: PackedRows,
    queries: PackedQueries,
    progress: ProbeState,
) -> None:
    """Scan, per query, the most promising atoms that were not scanned yet.

    Parameters
    ----------
    which
        Queries to go on with.
    budgets : (m,)
        Atoms that have been scanned for a query when this ends, if there are so many.
    promises
        What buckets promise.
    offsets : (buckets + 1,)
        Places where buckets begin.
    packed, queries, progress
        What is scanned, for what, and how far that has come.
    """
    keys, places, fill, floors, done, scored = progress
    uppers = np.empty(ROWS, np.float32)
    room = np.empty((3, offsets.shape[0]), np.int64)
    first, out = address(packed, queries), uppers.ctypes.data
    ids, exclude, some = packed.ids, queries.exclude, queries.exclude.shape[1] > 0
    for q in which:
        budget = budgets[q]
        count = order(promises, q, offsets, budget, room)
        total = 0
        for i in range(count):
            begin, end = offsets[room[0, i]], offsets[room[0, i] + 1]
            if i + 1 < count:
                _prefetch_rows(first, offsets[room[0, i + 1]])
            # Buckets are uneven: the first was begun in an earlier round, the last is cut.
            span = (begin + max(0, done[q] - total), min(end, begin + budget - total))
            total += end - begin
            scored[q] += max(0, span[1] - span[0])
            for block in range(span[0] // ROWS, (span[1] + ROWS - 1) // ROWS if span[1] > span[0] else 0):
                bits = np.int64(rows_of_one(move(first, block, q), out))
                if bits != 0:
                    bits &= _rows_inside(block, span[0], span[1])
                while bits != 0:
                    row = lowest_bit(bits)
                    bits &= bits - 1
                    place = ROWS * block + row
                    if uppers[row] > floors[q] and not (some and is_listed(exclude, q, ids[place])):
                        push(keys, places, fill, q, uppers[row], place)
                        if fill[q] == keys.shape[1]:
                            floors[q] = keys[q, 0]
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

    Parameters
    ----------
    promises
        The fields of `Promises`.
    codes
        Fields of `PackedRows` and `CodeScale`, and where buckets begin.
    rounds
        Budgets, the scores that are enough after each but the last, and candidates to keep.
    """
    top, promised = Top(*bare), Promises(*promises)
    packed, scale, offsets = PackedRows(*codes[0]), CodeScale(*codes[1]), codes[2]
    budgets, enough, room = rounds
    coded = code_one(query, sizes, scale, 2 * packed.blocks.shape[1])
    coded.rules[0].size = np.float32(0.0)
    keys, places = np.empty((1, room), np.float32), np.full((1, room), -1)
    fill, done, which = np.zeros(1, np.int64), np.zeros(1, np.int64), np.zeros(1, np.int64)
    state = ProbeState(keys, places, fill, coded.rules["floor"], done, top.scored)
    asked = PackedQueries(coded.levels, coded.rules, coded.slack, exclude)
    ids, got, last = np.empty(room, np.int64), np.zeros(1, np.int64), budgets.shape[0] - 1
    for r in range(last + 1):
        probe(which, budgets[r : r + 1], promised, offsets, packed, asked, state)
        for i in range(fill[0]):
            ids[i] = packed.ids[places[0, i]]
        got[0] = 0
        offer_listed(rows, query[0], ids[: fill[0]], top, got)
        if r < last and best_offered(top, got) >= enough[r]:
            break
    return close(rows, top, got, 0.0, np.inf)
