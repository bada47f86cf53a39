"""Compiled: lists of the best atoms per target, from products of matrices or from int8 codes."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from wolfhound.compiled.jit import kernel, lean_kernel
from wolfhound.core.contracts import Ids, Ints, Singles
from wolfhound.oracles.int8._instructions import block_of_many, lowest_bit, rows_of_one
from wolfhound.oracles.int8.layout import GROUP, ROWS, CodedQueries, PackedRows, address, move

STRIDE = 64
"""Scores that are looked at at once: most strides hold none that counts."""


class TopLists(NamedTuple):
    """Per target the atoms of largest key; all others have at most `level`."""

    keys: NDArray[Any]  # (m, 2 h + 64) minus the keys
    ids: Ids  # (m, 2 h + 64) their atoms
    fill: Ints  # (m,) how many there are
    level: NDArray[Any]  # (m,) what a key must exceed


def make_lists(m: int, h: int, level: Singles | None, kind: np.dtype[Any]) -> TopLists:
    """Return empty lists of h atoms each, with keys of a type; without levels every key counts."""
    wide = 2 * h + STRIDE
    start = np.full(m, -np.inf, kind) if level is None else level.astype(kind)
    return TopLists(np.empty((m, wide), kind), np.zeros((m, wide), np.int64), np.zeros(m, np.int64), start)


@lean_kernel
def select(scores: NDArray[Any], first: int, lists: TopLists, h: int) -> None:
    """Offer the scores (m, b) of atoms first, first + 1, ... to the lists of h atoms."""
    for t in range(len(scores)):
        line, keys, ids = scores[t], lists.keys[t], lists.ids[t]
        level, fill = lists.level[t], lists.fill[t]
        for start in range(0, len(line), STRIDE):
            part = line[start : start + STRIDE]  # a view: an index that may be negative is ten times slower
            some = 0  # a count of integers is exact, whatever the order
            for i in range(len(part)):
                some += part[i] > level
            if some == 0:
                continue
            for i in range(len(part)):  # without branches: write, then advance
                keys[fill] = -part[i]
                ids[fill] = first + start + i
                fill += part[i] > level
            if fill >= 2 * h:
                level = -partition(keys, ids, fill, h)
                fill = h
        lists.level[t], lists.fill[t] = level, fill


def finish(lists: TopLists, h: int) -> None:
    """Cut every list to h atoms: once in a pass, and so compiled no more than it must be."""
    for t in np.flatnonzero(lists.fill > h).tolist():
        lists.level[t] = -partition(lists.keys[t], lists.ids[t], lists.fill[t], h)
        lists.fill[t] = h


@lean_kernel
def partition(keys: NDArray[Any], ids: Ids, count: int, h: int) -> Any:
    """Bring the h lowest keys to the front; return the largest of them."""
    low, high = 0, count - 1
    while low < high:
        pivot = keys[(low + high) >> 1]
        i, j = low, high
        while i <= j:
            while keys[i] < pivot:
                i += 1
            while keys[j] > pivot:
                j -= 1
            if i <= j:
                keys[i], keys[j] = keys[j], keys[i]
                ids[i], ids[j] = ids[j], ids[i]
                i += 1
                j -= 1
        if h - 1 <= j:
            high = j
        elif h - 1 >= i:
            low = i
        else:
            break
    top = keys[0]
    for i in range(1, h):
        top = max(top, keys[i])
    return top


# ---------------------------------------------------------------- codes


class Bans(NamedTuple):
    """Atoms that target i must not use: ``ids[starts[i]:starts[i + 1]]``, ascending."""

    starts: Ints
    ids: Ids


@lean_kernel
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


@lean_kernel
def _append(t: int, first: int, n: int, uppers: Singles, bans: Bans, lists: TopLists) -> None:
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
    packed: PackedRows, span: tuple[int, int], queries: CodedQueries, bans: Bans, lists: TopLists, h: int
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
