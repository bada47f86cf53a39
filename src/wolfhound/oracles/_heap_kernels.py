"""Compiled heaps: the best keys of many queries."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from wolfhound.core import Ids, Ints, Matrix, Singles
from wolfhound.jit import kernel

_CHUNK = 128


class Heaps(NamedTuple):
    """The highest keys of each query; entry 0 of a row is the lowest kept.

    Attributes
    ----------
    keys, ids : (m, size)
    fill : (m,)
        How many there are.
    floors : (m,)
        Keys must be above to be offered; raised when a heap is full.
    """

    keys: Matrix
    ids: Ids
    fill: Ints
    floors: Matrix


@kernel
def _worse(keys: Matrix, ids: Ids, i: int, a: int, b: int) -> bool:
    """Whether entry a of heap i goes before entry b: smaller key, then larger id."""
    if keys[i, a] != keys[i, b]:
        return bool(keys[i, a] < keys[i, b])
    return bool(ids[i, a] > ids[i, b])


@kernel
def _swap(keys: Matrix, ids: Ids, i: int, a: int, b: int) -> None:
    keys[i, a], keys[i, b] = keys[i, b], keys[i, a]
    ids[i, a], ids[i, b] = ids[i, b], ids[i, a]


@kernel
def _sift_down(keys: Matrix, ids: Ids, i: int, size: int) -> None:
    at = 0
    while 2 * at + 1 < size:
        child = 2 * at + 1
        if child + 1 < size and _worse(keys, ids, i, child + 1, child):
            child += 1
        if not _worse(keys, ids, i, child, at):
            return
        _swap(keys, ids, i, child, at)
        at = child


@kernel
def push(keys: Matrix, ids: Ids, fill: Ints, i: int, key: Any, atom: int) -> None:
    """Offer (key, atom) to heap i, whose root is the worst entry kept."""
    size = fill[i]
    if size < keys.shape[1]:
        keys[i, size] = key
        ids[i, size] = atom
        fill[i] = size + 1
        at = size
        while at > 0 and _worse(keys, ids, i, at, (at - 1) // 2):
            _swap(keys, ids, i, at, (at - 1) // 2)
            at = (at - 1) // 2
        return
    if key > keys[i, 0] or (key == keys[i, 0] and atom < ids[i, 0]):
        keys[i, 0] = key
        ids[i, 0] = atom
        _sift_down(keys, ids, i, size)


@kernel
def is_listed(sorted_ids: Ids, i: int, atom: int) -> bool:
    """Whether row i, in ascending order, holds the atom."""
    low = 0
    high = sorted_ids.shape[1]
    while low < high:
        middle = (low + high) // 2
        if sorted_ids[i, middle] < atom:
            low = middle + 1
        else:
            high = middle
    return bool(low < sorted_ids.shape[1] and sorted_ids[i, low] == atom)


class Widths(NamedTuple):
    """Keys are ``product + (width * norm + shift)``, a width for each query."""

    widths: Matrix
    shift: Any


@kernel
def _count_above(products: Matrix, norms: Singles, width: Any, shift: Any, floor: Any) -> int:
    """How many keys are above the floor; a loop of its own, so that it is vectorised."""
    count = 0
    for j in range(products.shape[0]):
        count += products[j] + (width * norms[j] + shift) > floor
    return count


@kernel
def keep_best(
    products: Matrix, norms: Singles, bounds: Widths, first: int, exclude: Ids, heaps: Heaps
) -> None:
    """Keep the best keys of each query; row j is atom ``first + j``.

    Ids must come in ascending order: a key equal to the floor is then too late.
    """
    widths, shift = bounds
    keys, ids, fill, floors = heaps
    for i in range(products.shape[0]):
        for start in range(0, products.shape[1], _CHUNK):
            stop = min(start + _CHUNK, products.shape[1])
            part = products[i, start:stop]
            if _count_above(part, norms[start:stop], widths[i], shift, floors[i]) == 0:
                continue
            for j in range(start, stop):
                key = products[i, j] + (widths[i] * norms[j] + shift)
                if key > floors[i] and not is_listed(exclude, i, first + j):
                    push(keys, ids, fill, i, key, first + j)
                    if fill[i] == keys.shape[1]:
                        floors[i] = max(floors[i], keys[i, 0])


@kernel
def merge_best(heaps: Heaps, others: Heaps) -> None:
    """Offer the entries of other heaps to these."""
    keys, ids, fill, floors = heaps
    more, names, sizes, _ = others
    for i in range(keys.shape[0]):
        for j in range(sizes[i]):
            push(keys, ids, fill, i, more[i, j], names[i, j])
        if fill[i] == keys.shape[1]:
            floors[i] = keys[i, 0]


@kernel
def unheap(heaps: Heaps) -> None:
    """Sort each heap in place: highest key first, smallest id first; pad the rest."""
    keys, ids, fill = heaps.keys, heaps.ids, heaps.fill
    for i in range(keys.shape[0]):
        for end in range(fill[i] - 1, 0, -1):
            _swap(keys, ids, i, 0, end)
            _sift_down(keys, ids, i, end)
        for j in range(fill[i], keys.shape[1]):
            keys[i, j] = -np.inf
            ids[i, j] = -1
