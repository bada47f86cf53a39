"""The best entries of a stream of scores."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from wolfhound.core import Ids, Vector


class Best:
    """The `limit` best (score, id) of a stream that comes in order of ids.

    Equal scores keep the smaller id. Sorting is put off until several times
    `limit` are there; `floor` then rises, and later entries at or below it
    cannot matter.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._floor = -math.inf
        self._guess = -math.inf
        self._room = max(4 * limit, 4096)
        self._scores: list[Vector] = []
        self._ids: list[Ids] = []
        self._size = 0

    @property
    def floor(self) -> float:
        """The floor so far: what is at or below it cannot matter."""
        return max(self._floor, self._guess)

    def lead(self, size: int) -> int:
        """How many of the next `size` scores give a first floor; 0 if there is one or they cannot."""
        few = min(16 * self.limit, size)
        return few if self.floor == -math.inf and few >= 8 * self.limit else 0

    def floor_for(self, scores: Vector) -> float:
        """Return a floor for the next scores; before there is one, from the first of them."""
        few = self.lead(len(scores))
        if few:
            # These alone hold `limit` entries at or above it. Ties are still taken, so it
            # holds for blocks in any order.
            floor = np.partition(scores[:few], few - self.limit)[few - self.limit]
            self._guess = float(np.nextafter(floor, -np.inf))
        return self.floor

    def add(self, scores: Vector, ids: Ids) -> None:
        """Take entries with ids above all earlier ones, in ascending order."""
        if not len(ids):
            return
        self._scores.append(scores)
        self._ids.append(ids)
        self._size += len(ids)
        if self._size > self._room:
            self._shrink()

    def _shrink(self) -> None:
        scores, ids = np.concatenate(self._scores), np.concatenate(self._ids)
        if len(ids) > self.limit:
            keep = highest(scores, self.limit)
            scores, ids = scores[keep], ids[keep]
            self._floor = float(scores.min())
        self._scores, self._ids, self._size = [scores], [ids], len(ids)

    def entries(self) -> tuple[Vector, Ids]:
        """Return scores and ids, ids ascending."""
        if not self._ids:
            return np.empty(0), np.empty(0, np.int64)
        self._shrink()
        return self._scores[0], self._ids[0]


def highest(scores: Vector, count: int) -> NDArray[np.bool_]:
    """Mark the `count` highest scores; of equal ones the first.

    Examples
    --------
    >>> highest(np.array([1.0, 3.0, 2.0, 2.0]), 2)
    array([False,  True,  True, False])
    """
    if count >= len(scores):
        return np.ones(len(scores), bool)
    if count <= 0:
        return np.zeros(len(scores), bool)
    floor = np.partition(scores, len(scores) - count)[len(scores) - count]
    marked: NDArray[np.bool_] = scores > floor
    marked[np.flatnonzero(scores == floor)[: count - int(marked.sum())]] = True
    return marked
