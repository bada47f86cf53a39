"""Compiled: lists of the best atoms per target, from products of matrices."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import NamedTuple

import numpy as np

from wolfhound.core import Ids, Ints
from wolfhound.gram._tableau import Singles
from wolfhound.jit import kernel

STRIDE = 64
"""Scores that are looked at at once: most strides hold none that counts."""


class Lists(NamedTuple):
    """Per target the atoms of largest key; all others have at most `level`.

    Attributes
    ----------
    keys, ids : (m, 2 h + 64)
        Minus the keys, and their atoms.
    fill : (m,) int64
        How many there are.
    level : (m,) float32
        What a key must exceed.
    """

    keys: Singles
    ids: Ids
    fill: Ints
    level: Singles


def make_lists(m: int, h: int, level: Singles | None) -> Lists:
    """Return empty lists of h atoms each; without levels every key counts."""
    wide = 2 * h + STRIDE
    start = np.full(m, -np.inf, np.float32) if level is None else level
    return Lists(np.empty((m, wide), np.float32), np.zeros((m, wide), np.int64), np.zeros(m, np.int64), start)


@kernel
def select(scores: Singles, first: int, lists: Lists, h: int) -> None:
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


@kernel
def finish(lists: Lists, h: int) -> None:
    """Cut every list to h atoms."""
    for t in range(len(lists.fill)):
        if lists.fill[t] > h:
            lists.level[t] = -partition(lists.keys[t], lists.ids[t], lists.fill[t], h)
            lists.fill[t] = h


@kernel
def partition(keys: Singles, ids: Ids, count: int, h: int) -> np.float32:
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
    top: np.float32 = keys[0]
    for i in range(1, h):
        top = max(top, keys[i])
    return top
