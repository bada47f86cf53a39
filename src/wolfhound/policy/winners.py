"""The atoms that won last, with their rows: candidates of the next queries."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import final

import numpy as np

from wolfhound.core import Atoms, Ids, Matrix


@final
class Winners:
    """Distinct atoms that won, up to `room`; what won longest ago goes first.

    Of one batch, atoms that won more of its queries count as more recent.
    """

    def __init__(self, atoms: Atoms, room: int) -> None:
        self.room = min(room, atoms.shape[0])
        self._ids = np.empty(self.room, np.int64)
        self._rows = np.empty((self.room, atoms.shape[1]), atoms.dtype)
        self._won = np.zeros(self.room, np.int64)
        self._size = 0
        self._clock = 0

    def kept(self) -> tuple[Ids, Matrix]:
        """(r,) ids and (r, d) rows; not to be written to."""
        return self._ids[: self._size], self._rows[: self._size]

    def saved(self) -> Ids:
        """(2, r) ids and when they won; see `restore`."""
        return np.stack([self._ids[: self._size], self._won[: self._size]])

    def restore(self, saved: Ids, atoms: Atoms) -> None:
        """Take over what `saved` gave: where there is less room, those that won last."""
        ids, won = saved[:, np.sort(np.argsort(-saved[1], kind="stable")[: self.room])]
        self._size = len(ids)
        self._ids[: self._size], self._won[: self._size] = ids, won
        self._rows[: self._size] = atoms.take(ids)
        self._clock = int(won.max(initial=0))

    def remember(self, ids: Ids, rows: Matrix) -> None:
        """Take the winners of a batch, (m,) ids and (m, d) rows."""
        if not self.room:
            return
        unique, first, times = np.unique(ids, return_index=True, return_counts=True)
        rank = np.argsort(-times, kind="stable")[: self.room]
        unique, first = unique[rank], first[rank]
        known = self._ids[: self._size]
        order = np.argsort(known)
        place = np.minimum(np.searchsorted(known, unique, sorter=order), max(self._size - 1, 0))
        at = order[place] if self._size else np.zeros(len(unique), np.int64)
        old = known[at] == unique if self._size else np.zeros(len(unique), bool)
        # Later ranks are older: the clock runs down within a batch.
        stamps = self._clock + len(unique) - np.arange(len(unique))
        self._clock += len(unique)
        self._won[at[old]] = stamps[old]
        fresh = ~old
        slots = self._slots(int(fresh.sum()))
        self._ids[slots], self._rows[slots] = unique[fresh], rows[first[fresh]]
        self._won[slots] = stamps[fresh]

    def _slots(self, wanted: int) -> Ids:
        """Places for new atoms: free ones, then those that won longest ago."""
        free = min(wanted, self.room - self._size)
        self._size += free
        spare = np.arange(self._size - free, self._size)
        oldest = np.argsort(self._won[: self._size - free], kind="stable")[: wanted - free]
        return np.concatenate([spare, oldest])
