"""Compiled: lists of the best atoms per target, from products of matrices or from int8 codes."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from wolfhound.compiled.jit import kernel, lean_kernel
from wolfhound.core.contracts import Ids, Ints, Singles
from wolfhound.oracles._scan_kernels import keep_best
from wolfhound.oracles.int8._instructions import block_of_many, lowest_bit, rows_of_one
from wolfhound.oracles.int8.layout import GROUP, ROWS, CodedQueries, PackedRows, address, move

STRIDE = 64
"""Scores that are looked at at once: most strides hold none that counts."""


class TopLists(NamedTuple):
    """Per target the atoms of largest key; all others have at most `level`."""

    keys: NDArray[Any]  # (m, 2 h + 64)
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
                keys[fill] = part[i]
                ids[fill] = first + start + i
                fill += part[i] > level
            if fill >= 2 * h:
                level = keep_best(lists.keys, lists.ids, t, fill, h)
                fill = h
        lists.level[t], lists.fill[t] = level, fill


def finish(lists: TopLists, h: int) -> None:
    """Cut every list to h atoms: once in a pass, and so compiled no more than it must be."""
    for t in np.flatnonzero(lists.fill > h).tolist():
        lists.level[t] = keep_best(lists.keys, lists.ids, t, lists.fill[t], h)
        lists.fill[t] = h


# ---------------------------------------------------------------- codes


@lean_kernel
def _holds(ids: Ids, low: int, end: int, atom: int) -> bool:
    """Whether a part of the ids, ascending, holds an atom."""
    high = end
    while low < high:
        middle = (low + high) // 2
        if ids[middle] < atom:
            low = middle + 1
        else:
            high = middle
    return bool(low < end and ids[low] == atom)


@lean_kernel
def _append(t: int, first: int, n: int, uppers: Singles, banned: tuple[Ints, Ids], lists: TopLists) -> None:
    """Append the rows from place `first` on that reach the level of target t and may be used."""
    keys, ids, fill, level = lists.keys[t], lists.ids[t], lists.fill[t], lists.level[t]
    starts, out = banned
    for row in range(min(ROWS, n - first)):
        atom = first + row
        keys[fill], ids[fill] = uppers[row], atom
        if uppers[row] >= level and not _holds(out, starts[t], starts[t + 1], atom):
            fill += 1
    lists.fill[t] = fill


@kernel
def list_blocks(
    packed: PackedRows,
    span: tuple[int, int],
    queries: CodedQueries,
    banned: tuple[Ints, Ids],
    lists: TopLists,
    h: int,
) -> None:
    """Offer the rows of the blocks of a span to the lists of h atoms; keys are the bounds of the codes.

    The levels of the lists are the floors of the queries; both are raised. Of `banned`, starts and atoms, the
    atoms from start t to the next, ascending, are those that target t must not use.
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
                _append(t, ROWS * block, packed.n, uppers[g], banned, lists)
                if lists.fill[t] >= 2 * h:
                    level = keep_best(lists.keys, lists.ids, t, lists.fill[t], h)
                    lists.level[t], lists.fill[t], rules[t].floor = level, h, level
            q += group
