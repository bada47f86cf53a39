"""Compiled: lists of the best atoms per target, from int8 codes."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import NamedTuple

import numpy as np

from wolfhound.core import Ids, Ints, Singles
from wolfhound.jit import kernel
from wolfhound.many._pass_kernels import Lists, partition
from wolfhound.oracles.int8._instructions import block_of_many, lowest_bit, rows_of_one
from wolfhound.oracles.int8.layout import GROUP, ROWS, PackedQueries, PackedRows, address, move


class Bans(NamedTuple):
    """Atoms that target i must not use: ``ids[starts[i]:starts[i + 1]]``, ascending."""

    starts: Ints
    ids: Ids


@kernel
def _is_banned(bans: Bans, t: int, atom: int) -> bool:
    low, high = bans.starts[t], bans.starts[t + 1]
    end = high
    while low < high:
        middle = (low + high) // 2
        if bans.ids[middle] < atom:
            low = middle + 1
        else:
            high = middle
    return bool(low < end and bans.ids[low] == atom)


@kernel
def _append(t: int, first: int, n: int, uppers: Singles, bans: Bans, lists: Lists) -> None:
    """Append the rows from place `first` on that reach the level of target t and may be used."""
    keys, ids, fill, level = lists.keys[t], lists.ids[t], lists.fill[t], lists.level[t]
    for row in range(min(ROWS, n - first)):
        atom = first + row
        keys[fill], ids[fill] = -uppers[row], atom
        if uppers[row] >= level and not _is_banned(bans, t, atom):
            fill += 1
    lists.fill[t] = fill


@kernel
def list_blocks(
    packed: PackedRows, span: tuple[int, int], queries: PackedQueries, bans: Bans, lists: Lists, h: int
) -> None:
    """Offer the rows of the blocks of a span to the lists of h atoms; keys are the bounds of the codes.

    The levels of the lists are the floors of the queries; both are raised.
    """
    rules, m = queries.rules, len(lists.fill)
    uppers = np.empty((GROUP, ROWS), np.float32)
    first, out = address(packed, queries), uppers.ctypes.data
    for block in range(span[0], span[1]):
        q = 0
        while q < m:
            here = move(first, block, q)
            group = GROUP if q + GROUP <= m else 1
            flags = np.int64(block_of_many(here, out) if group > 1 else rows_of_one(here, out) != 0)
            while flags != 0:
                g = lowest_bit(flags)
                flags &= flags - 1
                t = q + g
                _append(t, ROWS * block, packed.n, uppers[g], bans, lists)
                if lists.fill[t] >= 2 * h:
                    level = -partition(lists.keys[t], lists.ids[t], lists.fill[t], h)
                    lists.level[t], lists.fill[t], rules[t].floor = level, h, level
            q += group
