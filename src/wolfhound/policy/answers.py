"""What an `ActionSet` answers: chosen atoms, points of the hull, subsets; and what won before."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from wolfhound import validate
from wolfhound.core import Atoms, Hits, Ids, Matrix, Vector
from wolfhound.threads import one_blas_thread

Rows: TypeAlias = NDArray[np.float32]
"""(m, anything) float32: a row per state, as environments and networks have them."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Chosen:
    """Answers to m directions, one atom each.

    Attributes
    ----------
    ids : (m,) int64
    rows : (m, d)
        The atoms, in their dtype.
    scores : (m,) float64
        <direction, atom>.
    bounds : (m,) float64
        Proved upper bound on the best score, inf where nothing is proved.
    gaps : (m,) float64
        <direction, atom - point>; nan where no points were given.
    scored : int
        Atoms scored, for all directions together.
    passes : float
        Share of the atoms swept to prove the answers.
    """

    ids: Ids
    rows: Matrix
    scores: Vector
    bounds: Vector
    gaps: Vector
    scored: int
    passes: float

    @classmethod
    def from_hits(cls, hits: Hits, columns: NDArray[np.int64]) -> Chosen:
        """Take the answer in this column of each query's; ids, rows and scores are fresh arrays."""
        at = (np.arange(len(hits.ids)), columns)
        return cls(
            ids=hits.ids[at],
            rows=hits.rows[hits.slots[at]],
            scores=np.asarray(hits.scores[at], np.float64),
            bounds=hits.bounds,
            gaps=np.full(len(hits.ids), np.nan),
            scored=int(hits.scored.sum()),
            passes=hits.passes,
        )

    @property
    def is_proved(self) -> NDArray[np.bool_]:
        """(m,) where the bound is finite."""
        return np.isfinite(self.bounds)


def gather(parts: Sequence[Chosen], places: Sequence[Ids]) -> Chosen:
    """Put answers to some of the directions each, whose places these are, together."""
    order = np.argsort(np.concatenate(places))
    columns = ("ids", "rows", "scores", "bounds", "gaps")
    joined = {name: np.concatenate([getattr(part, name) for part in parts])[order] for name in columns}
    return Chosen(
        **joined, scored=sum(part.scored for part in parts), passes=sum(part.passes for part in parts)
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class HullPoints:
    """m points of the hull, with the atoms that make them.

    Attributes
    ----------
    points : (m, d) float64
        ``sum_j weights[i, j] atoms[ids[i, j]]``.
    ids : (m, k) int64
        Atoms may repeat within a row.
    weights : (m, k) float64
        Not negative, each row of sum 1.
    scored : int
        Atoms scored to find them.
    """

    points: Vector
    ids: Ids
    weights: Vector
    scored: int = 0


@final
@dataclass(frozen=True, slots=True, eq=False)
class Subset:
    """The actions of one state, by id; made by `ActionSet.subset`.

    Attributes
    ----------
    ids : (r,) int64
        Ascending.
    """

    ids: Ids

    def __len__(self) -> int:
        return len(self.ids)

    def has(self, ids: Ids) -> NDArray[np.bool_]:
        """Whether each of these atoms belongs to it."""
        at = np.minimum(np.searchsorted(self.ids, ids), len(self.ids) - 1)
        return np.asarray(self.ids[at] == ids)


def draw_ids(ids: ArrayLike, weights: ArrayLike, n: int, rng: np.random.Generator) -> Ids:
    """(m,) one of each row's ids of n atoms, with these chances; see `ActionSet.draw`."""
    atoms, shares = validate.real_array(ids, "ids", 2), validate.matrix(weights, "weights")
    if atoms.dtype.kind not in "iu":
        raise TypeError(f"`ids` must be an array of integer ids. Got dtype {atoms.dtype}.")
    alike = atoms.shape == shares.shape
    validate.require(alike, "ids", f"like `weights`, {shares.shape}", f"shape {atoms.shape}")
    validate.ids(np.unique(atoms[shares > 0.0]), "ids", n)  # rows may be padded by any id
    totals = shares.sum(axis=1)
    good = bool((shares >= 0.0).all() and (np.abs(totals - 1.0) <= 1e-6).all())
    got = f"sums {totals.min():g} .. {totals.max():g}"
    validate.require(good, "weights", ">= 0 with rows of sum 1", got)
    steps = np.cumsum(shares, axis=1)
    steps /= steps[:, -1:]
    # The first step above a random number; it has a positive share, as the last step is 1.
    place = (steps <= rng.random(len(shares))[:, None]).sum(axis=1)
    return np.asarray(atoms[np.arange(len(atoms)), place], np.int64)


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
