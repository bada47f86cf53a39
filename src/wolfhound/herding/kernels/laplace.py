"""The Laplace kernel: sums of absolute differences, which no matrix product gives."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np

from wolfhound.core import Matrix, Vector
from wolfhound.herding._compiled import distances_absolute, pairs_absolute
from wolfhound.herding.kernels import KernelColumns, KernelRow
from wolfhound.herding.kernels.distances import (
    BEYOND,
    FAR,
    Stationary,
    centre_of,
    exponential_row,
    float_kind,
    floats,
    median_distance,
)


@final
@dataclass(frozen=True, slots=True, repr=False)
class Laplace(Stationary):
    """The Laplace kernel ``exp(-|x - y|_1 / l)``, with sums of absolute differences.

    Parameters
    ----------
    lengthscale
        l; the median of |x - y|_1 over pairs of rows if not given.

    Examples
    --------
    >>> rows = np.array([[0.0], [1.0]])
    >>> Laplace(1.0).gram(rows, rows).round(3)
    array([[1.   , 0.368],
           [0.368, 1.   ]])
    """

    name: ClassVar[str] = "laplace"

    def measure(self, rows: Matrix) -> float:
        """Median of |x - y|_1."""
        return median_distance(rows, absolute=True)

    def against(self, left: Matrix, *, single: bool = False) -> KernelColumns:
        """Prepare ``gram(left, .)`` for many calls."""
        return _prepare(floats(left), self.length, single=single)

    def row(self, rows: Matrix) -> KernelRow:
        """Prepare the values of k between one row and these for many calls."""
        return exponential_row(distances_absolute, rows, -1.0 / self.length)

    def frequencies(self, dim: int, half: int, rng: np.random.Generator) -> Vector:
        """Cauchy's."""
        return rng.standard_cauchy((dim, half))


def _prepare(rows: Matrix, lengthscale: float, *, single: bool) -> KernelColumns:
    """Columns of the kernel, for these rows on the left."""
    centre, left, kind = np.zeros(rows.shape[1]), rows, float_kind(rows, single)
    if rows.dtype != kind:  # differences of the rows as they are would have the fewest roundings
        middle = centre_of(rows)
        near = rows - middle
        widest = float(np.abs(near).sum(axis=1).max())
        if widest <= BEYOND and widest / lengthscale <= math.sqrt(FAR[4]):
            centre, left = middle, near.astype(kind)
    left, scale = np.ascontiguousarray(left), 1.0 / lengthscale

    def columns(right: Matrix) -> Matrix:
        near = right - centre if centre.any() else floats(right)
        found = np.empty((len(left), len(right)), left.dtype)
        with np.errstate(over="ignore"):  # a row too far for float32 has kernel value 0
            table = np.ascontiguousarray(near, left.dtype)
        pairs_absolute(left, table, found)
        found *= -min(scale, BEYOND) if found.itemsize == 4 else -scale
        with np.errstate(under="ignore"):
            np.exp(found, out=found)
        return found.astype(kind, copy=False)

    return columns
