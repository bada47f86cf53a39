"""Rows joined with the scores of the density that they were drawn from."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from wolfhound.atoms import as_atoms
from wolfhound.core import Atoms, AtomsLike, Ids, Matrix
from wolfhound.validate import require


@final
@dataclass(frozen=True, slots=True, eq=False)
class ScoredAtoms:
    """Rows [x, score(x)]; both are read together, block by block.

    Parameters
    ----------
    rows
        Atoms, an array or a path: x.
    scores
        The same, of the same shape: the gradients of log p at x.

    Examples
    --------
    >>> ScoredAtoms(np.eye(2), -np.eye(2)).take(np.array([1]))
    array([[ 0.,  1., -0., -1.]])
    """

    rows: Atoms
    scores: Atoms

    def __post_init__(self) -> None:
        object.__setattr__(self, "rows", as_atoms(self.rows, "rows"))
        object.__setattr__(self, "scores", as_atoms(self.scores, "scores"))
        rule = f"of shape {self.rows.shape}, as the rows"
        require(self.scores.shape == self.rows.shape, "scores", rule, f"shape {self.scores.shape}")

    @property
    def shape(self) -> tuple[int, int]:
        """(n, 2d)."""
        n, d = self.rows.shape
        return n, 2 * d

    @property
    def dtype(self) -> np.dtype[Any]:
        """The wider of the two."""
        return np.result_type(self.rows.dtype, self.scores.dtype)

    def take(self, ids: Ids) -> Matrix:
        """Return the rows of these ids, a fresh C-ordered array."""
        return np.concatenate([self.rows.take(ids), self.scores.take(ids)], axis=1, dtype=self.dtype)

    def blocks(self, rows: int) -> Iterator[tuple[int, Matrix]]:
        """Yield (first id, read-only block) over all rows once, in order."""
        for first, block in self.rows.blocks(rows):
            # By ids, not by blocks: the two may be cut in other places.
            beside = self.scores.take(np.arange(first, first + len(block)))
            both: Matrix = np.concatenate([block, beside], axis=1, dtype=self.dtype)
            both.flags.writeable = False
            yield first, both


def with_scores(rows: AtomsLike, scores: AtomsLike) -> ScoredAtoms:
    """Return rows [x, score(x)] for the `Stein` kernel.

    Parameters
    ----------
    rows
        (n, d) samples: atoms, an array or a path.
    scores
        (n, d) gradients of log p at the samples.

    Examples
    --------
    >>> with_scores(np.zeros((3, 2)), np.zeros((3, 2))).shape
    (3, 4)
    """
    return ScoredAtoms(as_atoms(rows, "rows"), as_atoms(scores, "scores"))
