"""The Gaussian kernel: tiles are a matrix product and an exponential.

``|x|^2 + |y|^2 - 2 <x, y>`` loses digits where rows are long against their distance, so
rows are first shifted to a point amid them; pairs of rows that are still long are
done by differences.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, final

import numpy as np

from wolfhound.core import Ids, Matrix, Vector
from wolfhound.herding._compiled import distances_squared, pairs_squared
from wolfhound.herding.kernels import KernelColumns, KernelRow
from wolfhound.herding.kernels.distances import (
    BEYOND,
    FAR,
    Stationary,
    centre_of,
    exponential_row,
    float_kind,
    floats,
)
from wolfhound.herding.kernels.features import normal_frequencies


@final
@dataclass(frozen=True, slots=True, repr=False)
class Gaussian(Stationary):
    """The Gaussian kernel ``exp(-|x - y|^2 / (2 l^2))``.

    Parameters
    ----------
    lengthscale
        l; the median distance of pairs of rows if not given.

    Examples
    --------
    >>> rows = np.array([[0.0], [1.0]])
    >>> Gaussian(1.0).gram(rows, rows).round(3)
    array([[1.   , 0.607],
           [0.607, 1.   ]])
    >>> Gaussian().fit(3.0 * rows)
    Gaussian(lengthscale=3)
    """

    name: ClassVar[str] = "gaussian"

    def against(self, left: Matrix, *, single: bool = False) -> KernelColumns:
        """Prepare ``gram(left, .)`` for many calls."""
        return _prepare(floats(left), 1.0 / self.length, single=single)

    def row(self, rows: Matrix) -> KernelRow:
        """Prepare the values of k between one row and these for many calls."""
        return exponential_row(distances_squared, rows, -0.5 / self.length**2)

    def frequencies(self, dim: int, half: int, rng: np.random.Generator) -> Vector:
        """Normal ones, orthogonal as far as they can be."""
        return normal_frequencies(dim, half, rng)


class _Side:
    """Rows as [x, -|x|^2/2, 1], or [x, 1, -|x|^2/2]: their products are -|x - y|^2/2.

    x counts in lengthscales from the centre. Far rows are kept aside in float64.
    """

    __slots__ = ("far", "longest", "table")

    def __init__(
        self, rows: Matrix, centre: Vector, scale: float, kind: np.dtype[Any], *, last: bool
    ) -> None:
        d = rows.shape[1]
        self.table: Matrix = np.empty((len(rows), d + 2), kind)
        x = self.table[:, :d]
        with np.errstate(over="ignore", invalid="ignore"):
            if 1.0 / BEYOND <= scale <= BEYOND:
                # Float32 rows less a float32 centre: as exact as in float64, up to a rounding of the result.
                wider = np.result_type(rows.dtype, kind)
                np.subtract(rows, centre.astype(rows.dtype), out=x, casting="same_kind", dtype=wider)
                np.multiply(x, kind.type(scale), out=x)
            else:  # some rows may be beyond float32, though near to the others in lengthscales
                np.multiply(rows - centre, scale, out=x, casting="same_kind")
            squares = np.einsum("ij,ij->i", x, x)
        self.far: Ids = np.flatnonzero(~(squares <= FAR[kind.itemsize]))
        if len(self.far):
            self.longest: Vector = rows[self.far].astype(np.float64)
            gone = self.far[~(squares[self.far] <= 1e12)]  # their products would overflow
            x[gone] = 0.0
            squares[gone] = BEYOND
        self.table[:, d + last] = squares
        self.table[:, d + last] *= -0.5
        self.table[:, d + 1 - last] = 1.0


def _prepare(rows: Matrix, scale: float, *, single: bool) -> KernelColumns:
    """Columns of the kernel, for these rows on the left."""
    centre, kind = centre_of(rows), float_kind(rows, single)
    left = _Side(rows, centre, scale, kind, last=False)

    def columns(right: Matrix) -> Matrix:
        side = _Side(floats(right), centre, scale, kind, last=True)
        out: Matrix = left.table @ side.table.T
        # Two rows that are both far may be close to each other.
        if len(left.far) and len(side.far):
            between = np.empty((len(left.far), len(side.far)))
            pairs_squared(left.longest, side.longest, between)
            with np.errstate(over="ignore"):
                exponents = -0.5 * between * scale * scale
            out[np.ix_(left.far, side.far)] = np.maximum(exponents, -BEYOND)
        np.minimum(out, 0.0, out=out)
        with np.errstate(under="ignore"):
            np.exp(out, out=out)
        return out

    return columns
