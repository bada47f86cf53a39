"""Columns scaled to mean 0 and variance 1, from one pass, as the rows are read."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from wolfhound.atoms import MappedAtoms, block_rows, check_finite
from wolfhound.core import Atoms, Matrix, Vector, pulse
from wolfhound.threads import ordered


@dataclass(frozen=True, slots=True, eq=False)
class Scaling:
    """x -> (x - shift) * scale, column by column, in float64.

    Parameters
    ----------
    shift, scale : (d,)
        Of the columns.
    """

    shift: Vector
    scale: Vector

    def __call__(self, rows: Matrix) -> Matrix:
        """Scale rows."""
        out: Matrix = (rows - self.shift) * self.scale
        return out

    def of(self, atoms: Atoms) -> MappedAtoms:
        """Return the atoms scaled, block by block, in their own precision."""
        d = len(self.shift)
        if atoms.shape[1] != d:
            raise ValueError(f"`--target` must have {d} columns, as ROWS. Got {atoms.shape[1]}.")
        return MappedAtoms(atoms, self, d, atoms.dtype)

    def of_scores(self, scores: Atoms) -> MappedAtoms:
        """Return gradients of log p after the change of variables."""
        inverse = Scaling(np.zeros_like(self.shift), 1.0 / self.scale)
        return MappedAtoms(scores, inverse, len(self.shift), scores.dtype)


def unit_variance(atoms: Atoms) -> Scaling:
    """Return the scaling to mean 0 and variance 1; a constant column keeps its scale.

    Parameters
    ----------
    atoms
        The rows; read once.
    """
    mean, squares, done = np.zeros(atoms.shape[1]), np.zeros(atoms.shape[1]), 0
    for rows, block_mean, block_squares in ordered(_moments, atoms.blocks(block_rows(atoms))):
        # Chan, Golub and LeVeque: sums of squares about the means, so nothing cancels.
        ahead = block_mean - mean
        mean += ahead * (rows / (done + rows))
        squares += block_squares + ahead**2 * (done * rows / (done + rows))
        done += rows
        pulse(rows)
    deviation = np.sqrt(squares / done)
    # Rounding leaves a constant column a deviation of some units of its last place.
    constant = deviation <= 1e-12 * np.abs(mean)
    return Scaling(mean, 1.0 / np.where(constant, 1.0, deviation))


def _moments(task: tuple[int, Matrix]) -> tuple[int, Vector, Vector]:
    first, block = task
    check_finite(block, first)
    mean = block.mean(axis=0, dtype=np.float64)
    return len(block), mean, ((block - mean) ** 2).sum(axis=0, dtype=np.float64)
