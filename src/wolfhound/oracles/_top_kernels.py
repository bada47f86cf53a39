"""The best of many: the one top-k of all compiled loops.

A loop writes what reaches its floor to the end of a list, twice as long as what is wanted. When
the list is full, `keep_best` brings the best to the front and gives the new floor: a few operations
per entry in all, however many are wanted. `sort_best` puts the list in order at the end.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

from wolfhound.core import Ids, Matrix
from wolfhound.jit import lean_kernel


@lean_kernel
def keep_best(keys: Matrix, ids: Ids, row: int, count: int, k: int) -> Any:
    """Bring the k best of `count` > 0 entries of a row to the front; return the least key of these.

    The best have the highest keys, of equal ones the smallest ids; the ids are distinct, no key is nan.
    Hoare's selection.
    """
    low, high, last = 0, count - 1, min(k, count) - 1
    while low < high and k < count:
        key, atom = keys[row, (low + high) // 2], ids[row, (low + high) // 2]
        i, j = low, high
        while i <= j:
            while keys[row, i] > key or (keys[row, i] == key and ids[row, i] < atom):
                i += 1
            while keys[row, j] < key or (keys[row, j] == key and ids[row, j] > atom):
                j -= 1
            if i <= j:
                keys[row, i], keys[row, j] = keys[row, j], keys[row, i]
                ids[row, i], ids[row, j] = ids[row, j], ids[row, i]
                i += 1
                j -= 1
        if last <= j:
            high = j
        elif last >= i:
            low = i
        else:
            break
    least = keys[row, 0]
    for i in range(1, last + 1):
        least = min(least, keys[row, i])
    return least


@lean_kernel
def sort_best(keys: Matrix, ids: Ids, row: int, count: int) -> None:
    """Sort `count` entries of a row in the order of `keep_best`, by Shell's method: short, and no slower."""
    gap = 1
    while 9 * gap < 4 * count:
        gap = 9 * gap // 4 + 1
    while gap > 0:
        for i in range(gap, count):
            key, atom = keys[row, i], ids[row, i]
            j = i
            while j >= gap and (
                keys[row, j - gap] < key or (keys[row, j - gap] == key and ids[row, j - gap] > atom)
            ):
                keys[row, j], ids[row, j] = keys[row, j - gap], ids[row, j - gap]
                j -= gap
            keys[row, j], ids[row, j] = key, atom
        gap = 4 * gap // 9


@lean_kernel
def is_listed(sorted_ids: Ids, i: int, atom: int) -> bool:
    """Whether row i, in ascending order, holds the atom."""
    low, high = 0, sorted_ids.shape[1]
    while low < high:
        middle = (low + high) // 2
        if sorted_ids[i, middle] < atom:
            low = middle + 1
        else:
            high = middle
    return bool(low < sorted_ids.shape[1] and sorted_ids[i, low] == atom)
