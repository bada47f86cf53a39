"""The atoms that won last, with their rows: candidates of the next queries."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from dataclasses import replace
from typing import final

import numpy as np

from wolfhound.core import Atoms, Ids, Matrix, Vector
from wolfhound.policy.answers import Chosen, Subset
from wolfhound.threads import one_blas_thread


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

    @property
    def ids(self) -> Ids:
        """(r,) not to be written to."""
        return self._ids[: self._size]

    @property
    def rows(self) -> Matrix:
        """(r, d) their rows, not to be written to."""
        return self._rows[: self._size]

    def to_array(self) -> Ids:
        """(2, r) ids and when they won; see `restore`."""
        return np.stack([self.ids, self._won[: self._size]])

    def compete(self, queries: Vector, chosen: Chosen, part: Subset | None) -> Chosen:
        """Put past winners, those of a subset only, in the place of worse answers that are not proved."""
        open_ = np.flatnonzero(~chosen.is_proved)
        ids, rows = self.ids, self.rows
        if part is not None:
            mine = part.has(ids)
            ids, rows = ids[mine], rows[mine]
        if not len(open_) or not len(ids):
            return chosen
        asked = queries[open_]
        with one_blas_thread(), np.errstate(over="ignore", invalid="ignore"):
            place = (asked.astype(rows.dtype) @ rows.T).argmax(axis=1)
        scores = np.einsum("ij,ij->i", asked, rows[place], dtype=np.float64)
        better = scores > chosen.scores[open_]
        where, place = open_[better], place[better]
        out = replace(chosen, scored=chosen.scored + len(open_) * len(ids))
        if len(where):
            out.ids[where], out.rows[where], out.scores[where] = ids[place], rows[place], scores[better]
        return out

    def restore(self, saved: Ids, atoms: Atoms) -> None:
        """Take over what `to_array` gave: where there is less room, those that won last."""
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
        known = self.ids
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
