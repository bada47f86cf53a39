"""The linear kernel, whose mean is a row."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np

from wolfhound.core import Atoms, Matrix, Vector
from wolfhound.herding.kernels import Kernel, KernelColumns
from wolfhound.herding.kernels.features import Identity, feature_mean


@final
@dataclass(frozen=True, slots=True, repr=False)
class Linear(Kernel):
    """The linear kernel ``<x, y>``: matches the plain mean of the rows.

    Computed in float64, also for float32 rows: what counts are small
    differences of large values.

    Examples
    --------
    >>> Linear().gram(np.eye(2), np.array([[2.0, 3.0]]))
    array([[2.],
           [3.]])
    """

    name: ClassVar[str] = "linear"

    def gram(self, left: Matrix, right: Matrix) -> Matrix:
        """(r, s) float64 values of k."""
        return self.against(left)(right)

    def against(self, left: Matrix, *, single: bool = False) -> KernelColumns:
        """Prepare ``gram(left, .)`` for many calls; always in float64."""
        table = np.ascontiguousarray(left, np.float64)

        def columns(right: Matrix) -> Matrix:
            with np.errstate(over="ignore", invalid="ignore"):  # what is not finite is found in sums
                return np.asarray(table @ np.asarray(right, np.float64).T)

        return columns

    def diagonal(self, rows: Matrix) -> Vector:
        """(r,) squared lengths."""
        return np.asarray(np.einsum("ij,ij->i", rows, rows, dtype=np.float64))

    def features(
        self, dim: int, count: int, rng: np.random.Generator, *, centre: Vector | None = None
    ) -> Identity:
        """The rows themselves: exact, whatever `count` is."""
        return Identity(dim)

    def mean(self, atoms: Atoms, weights: Vector | None, name: str) -> Vector:
        """(d,) the mean of the atoms; one pass."""
        return feature_mean(atoms, Identity(atoms.shape[1]), weights=weights, name=name)
