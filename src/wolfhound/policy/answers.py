"""What an `ActionSet` answers: chosen atoms, points of the hull, subsets."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from wolfhound.core import Hits, Ids, Matrix, Vector


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

    @property
    def proved(self) -> NDArray[np.bool_]:
        """(m,) where the bound is finite."""
        return np.isfinite(self.bounds)


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


def first(hits: Hits, column: NDArray[np.int64] | None = None) -> Chosen:
    """One answer per query: column 0, or that of each query."""
    m = len(hits.ids)
    at = (np.arange(m), np.zeros(m, np.int64) if column is None else column)
    return Chosen(
        ids=hits.ids[at],
        rows=hits.rows[hits.slots[at]],
        scores=np.asarray(hits.scores[at], np.float64),
        bounds=hits.bounds,
        gaps=np.full(m, np.nan),
        scored=int(hits.scored.sum()),
        passes=hits.passes,
    )
