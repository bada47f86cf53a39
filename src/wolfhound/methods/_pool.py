"""The pool: atoms kept close, on which almost all work happens."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import numpy as np

from wolfhound.active import enlarge
from wolfhound.core import Ids, Ints, Matrix, Vector
from wolfhound.validate import require_moderate


class AtomPool:
    """Distinct atoms with their ids; a position is an index into both. Rows keep their dtype."""

    def __init__(self, ids: Ids, rows: Matrix) -> None:
        require_moderate(rows, "atoms")
        self._ids = ids.copy()
        self._rows = np.ascontiguousarray(rows)
        self.size = len(ids)

    @property
    def ids(self) -> Ids:
        """(size,) atom ids by position."""
        return self._ids[: self.size]

    @property
    def rows(self) -> Matrix:
        """(size, d) atoms by position."""
        return self._rows[: self.size]

    def add(self, ids: Ids, rows: Matrix, slots: Ints) -> int:
        """Add the distinct atoms ``ids[i]``, ``rows[slots[i]]``, not yet here; return how many were new."""
        fresh = np.flatnonzero(~np.isin(ids, self.ids))
        end = self.size + len(fresh)
        if end > len(self._ids):
            room = end + end // 2
            self._ids, self._rows = enlarge(self.ids, room), enlarge(self.rows, room)
        self._ids[self.size : end] = ids[fresh]
        self._rows[self.size : end] = rows[slots[fresh]]
        require_moderate(self._rows[self.size : end], "atoms")
        self.size = end
        return len(fresh)

    def keep(self, positions: Ints) -> Ints:
        """Keep only these (sorted) positions; return old position -> new, or -1."""
        moved = np.full(self.size, -1, np.int64)
        moved[positions] = np.arange(len(positions))
        self._ids[: len(positions)] = self.ids[positions]
        self._rows[: len(positions)] = self.rows[positions]
        self.size = len(positions)
        return moved


def best_of(scores: Vector, count: int) -> Ints:
    """Positions of the `count` largest scores, in no order."""
    if count >= len(scores):
        return np.arange(len(scores))
    return np.argpartition(scores, len(scores) - count)[len(scores) - count :]
