"""The Laplace kernel: sums of absolute differences, which no matrix product gives."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, final

import numpy as np

from wolfhound.core import Matrix, Vector
from wolfhound.herding._compiled import distances_absolute, pairs_absolute
from wolfhound.herding.kernels import KernelColumns, KernelRow
from wolfhound.herding.kernels.distances import (
    BEYOND,
    FAR,
    Scaled,
    centre_of,
    exponential_row,
    float_kind,
    floats,
    fourier,
    median_distance,
)
from wolfhound.herding.kernels.features import RandomFourier


@final
@dataclass(frozen=True, slots=True, repr=False)
class Laplace(Scaled):
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
        return LaplaceColumns.of(floats(left), self.length, single=single)

    def row(self, rows: Matrix) -> KernelRow:
        """Prepare the values of k between one row and these for many calls."""
        return exponential_row(distances_absolute, rows, -1.0 / self.length)

    def diagonal(self, rows: Matrix) -> Vector:
        """(r,) ones."""
        return np.ones(len(rows))

    def features(
        self, dim: int, count: int, rng: np.random.Generator, *, centre: Vector | None = None
    ) -> RandomFourier:
        """Random Fourier features: Cauchy frequencies."""

        def draw(d: int, half: int) -> Vector:
            return rng.standard_cauchy((d, half))

        return fourier(draw, (dim, count), rng=rng, lengthscale=self.length, centre=centre)


@final
@dataclass(frozen=True, slots=True, eq=False)
class LaplaceColumns:
    """Columns of the Laplace kernel."""

    centre: Vector
    scale: float
    left: Matrix
    result: np.dtype[Any]

    @classmethod
    def of(cls, left: Matrix, lengthscale: float, *, single: bool) -> LaplaceColumns:
        """Prepare the rows on the left."""
        kind = float_kind(left, single)
        centre = np.zeros(left.shape[1])
        table = left
        if left.dtype != kind:  # differences of the rows as they are would have the fewest roundings
            middle = centre_of(left)
            near = left - middle
            widest = float(np.abs(near).sum(axis=1).max())
            if widest <= BEYOND and widest / lengthscale <= math.sqrt(FAR[4]):
                centre, table = middle, near.astype(kind)
        return cls(centre, 1.0 / lengthscale, np.ascontiguousarray(table), kind)

    def __call__(self, right: Matrix) -> Matrix:
        """(r, s) values of k."""
        near = right - self.centre if self.centre.any() else floats(right)
        found = np.empty((len(self.left), len(right)), self.left.dtype)
        with np.errstate(over="ignore"):  # a row too far for float32 has kernel value 0
            table = np.ascontiguousarray(near, self.left.dtype)
        pairs_absolute(self.left, table, found)
        found *= -min(self.scale, BEYOND) if found.itemsize == 4 else -self.scale
        with np.errstate(under="ignore"):
            np.exp(found, out=found)
        return found.astype(self.result, copy=False)
