"""Columns scaled to mean 0 and variance 1, block by block."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from wolfhound.core.contracts import Atoms, Matrix, Vector
from wolfhound.core.validate import require
from wolfhound.data.atoms import MappedAtoms, map_blocks

_ROUNDING = 1e-12
_LARGE = 1e150  # squares of these are still finite, and of their inverses positive


@dataclass(frozen=True, slots=True, eq=False)
class Scaling:
    """x -> (x - shift) * scale, column by column, in float64."""

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
            raise ValueError(f"`target` must have {d} columns, as the atoms. Got {atoms.shape[1]}.")
        return MappedAtoms(atoms, self, d, atoms.dtype)

    def of_scores(self, scores: Atoms) -> MappedAtoms:
        """Return gradients of log p after the change of variables."""
        inverse = Scaling(np.zeros_like(self.shift), 1.0 / self.scale)
        return MappedAtoms(scores, inverse, len(self.shift), scores.dtype)


def unit_variance(atoms: Atoms) -> Scaling:
    """Return the scaling to mean 0 and variance 1, by one read; a constant column keeps its scale."""
    mean, squares, done = np.zeros(atoms.shape[1]), np.zeros(atoms.shape[1]), 0
    extent = np.zeros(atoms.shape[1])
    for _, (rows, block_mean, block_squares, block_extent) in map_blocks(atoms, _moments):
        extent = np.maximum(extent, np.maximum(block_extent, np.abs(block_mean - mean) if done else 0.0))
        _check_extent(extent.max(), "at most 1e+150", extent.max() <= _LARGE)
        # Chan, Golub and LeVeque: sums of squares about the means, so nothing cancels.
        ahead = block_mean - mean
        mean += ahead * (rows / (done + rows))
        squares += block_squares + ahead**2 * (done * rows / (done + rows))
        done += rows
    varied = extent[extent > _ROUNDING * np.abs(mean)].min(initial=np.inf)
    _check_extent(varied, "at least 1e-150", varied >= 1.0 / _LARGE)
    deviation = np.sqrt(squares / done)
    # Rounding leaves a constant column a deviation of some units of its last place.
    constant = deviation <= _ROUNDING * np.abs(mean)
    return Scaling(mean, 1.0 / np.where(constant, 1.0, deviation))


def _check_extent(extent: float, rule: str, ok: bool) -> None:
    require(ok, "atoms", f"of moderate size, with columns that vary by {rule}", f"{extent:g}")


def _moments(_: int, block: Matrix) -> tuple[int, Vector, Vector, Vector]:
    mean = block.mean(axis=0, dtype=np.float64)
    apart = block - mean
    extent = np.nan_to_num(np.abs(apart).max(axis=0), nan=np.inf).astype(np.float64)
    # Squares overflow only where the extent is refused.
    return len(block), mean, (apart**2).sum(axis=0, dtype=np.float64), extent
