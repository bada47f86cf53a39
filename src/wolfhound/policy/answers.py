"""What an `ActionSet` answers: chosen atoms, points of the hull, subsets."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from wolfhound import validate
from wolfhound.core import Hits, Ids, Matrix, Vector

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
