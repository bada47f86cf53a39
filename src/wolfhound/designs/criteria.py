"""What makes a design good: D, A and I, and what the search and the proof need of them."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeAlias, final

import numpy as np

from wolfhound.atoms import as_atoms, block_rows
from wolfhound.core import Atoms, AtomsLike, Matrix, Vector
from wolfhound.pulse import pulse
from wolfhound.threads import map_ordered
from wolfhound.validate import require

Terms: TypeAlias = Callable[[AtomsLike], Atoms]
"""Maps rows of factors to the terms of the model."""


class Criterion(Protocol):
    """A design criterion: -log det M, or trace C'M^-1 C for a matrix C, its root."""

    @property
    def name(self) -> str:
        """One letter."""

    def find_root(self, candidates: Atoms, terms: Terms) -> tuple[Vector | None, float]:
        """Return (d, r) C, None for the determinant, and how many passes it took."""


@final
@dataclass(frozen=True, slots=True)
class DOptimal:
    """Smallest volume of the confidence ellipsoid of all coefficients: largest det M.

    Does not depend on how factors are scaled. The efficiency of a design is
    (det M / det M*)^(1/d): 0.5 means twice as many runs for the same.
    """

    @property
    def name(self) -> str:
        """D."""
        return "D"

    def find_root(self, candidates: Atoms, terms: Terms) -> tuple[Vector | None, float]:
        """None: the determinant."""
        return None, 0.0


@final
@dataclass(frozen=True, slots=True)
class AOptimal:
    """Smallest mean variance of the coefficients: least trace M^-1.

    Depends on the scale of the factors: models code theirs to [-1, 1].
    """

    @property
    def name(self) -> str:
        """A."""
        return "A"

    def find_root(self, candidates: Atoms, terms: Terms) -> tuple[Vector | None, float]:
        """Return the identity."""
        return np.eye(candidates.shape[1]), 0.0


@final
@dataclass(frozen=True, slots=True, eq=False)
class IOptimal:
    """Smallest mean variance of the predictions over a region: least trace M^-1 R.

    R is the mean of x x' over the region, as it is computed in float64.

    Parameters
    ----------
    region
        Rows of factors where predictions are wanted, in any form that candidates may
        have; None: all candidates, which takes one more pass.
    """

    region: AtomsLike | None = None

    @property
    def name(self) -> str:
        """I."""
        return "I"

    def find_root(self, candidates: Atoms, terms: Terms) -> tuple[Vector | None, float]:
        """Return C with C C' = R, by eigenvectors: R may be singular."""
        region = candidates if self.region is None else terms(self.region)
        values, vectors = np.linalg.eigh(mean_information(region))
        kept = values > 1e-13 * values.max()
        return np.asarray(vectors[:, kept] * np.sqrt(values[kept])), float(self.region is None)


def mean_information(atoms: AtomsLike) -> Vector:
    """(d, d) mean of x x' over all rows; one pass.

    Examples
    --------
    >>> mean_information(np.array([[1.0, -1.0], [1.0, 1.0]]))
    array([[1., 0.],
           [0., 1.]])
    """
    rows = as_atoms(atoms)
    n, d = rows.shape
    total = np.zeros((d, d))

    def work(task: tuple[int, Matrix]) -> tuple[int, Vector]:
        block = task[1].astype(np.float64)
        with np.errstate(over="ignore", invalid="ignore"):
            return len(block), block.T @ block

    for size, part in map_ordered(work, rows.blocks(block_rows(rows, 4 << 20))):
        pulse(size)
        total += part
    require(bool(np.isfinite(total).all()), "region", "rows that are finite and below 1e150", "others")
    return np.asarray(total / n)
