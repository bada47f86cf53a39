"""Kernel values against rows that were prepared once.

Gaussian tiles are a matrix product and an exponential. ``|x|^2 + |y|^2 - 2 <x, y>``
loses digits where rows are long against their distance, so rows are first shifted
to a point amid them; pairs of rows that are still long are done by differences.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Protocol, final

import numpy as np

from wolfhound.atoms import widened
from wolfhound.core import Ids, Matrix, Vector
from wolfhound.validate import array, require, require_finite

SAMPLE = 1000
"""Rows whose distances give the median."""

MIDDLE = 101
"""Rows whose medians are the centre."""

FAR = {4: 2.0**10, 8: 2.0**20}
"""Squared length in lengthscales, per bytes of a number, beyond which a row is far."""

WIDEST = 1e150
"""Lengthscales lie within [1 / WIDEST, WIDEST]: beyond it squares overflow, or vanish."""

BEYOND = 1e30
"""Half a squared length that leaves no kernel value, yet is a float32."""


class Columns(Protocol):
    """k(left, .) for rows on the left that are fixed."""

    def __call__(self, right: Matrix) -> Matrix:
        """(r, s) values of k for s rows on the right."""


def median_distance(rows: Matrix, *, absolute: bool = False) -> float:
    """Median distance of the pairs of at most 1,000 rows; of those above 0, if it is 0.

    Examples
    --------
    >>> median_distance(np.array([[0.0], [1.0], [3.0]]))
    2.0
    """
    from scipy.spatial.distance import pdist  # noqa: PLC0415 - takes 0.1 s to load

    require_finite(np.asarray(rows), "rows")
    chosen = np.linspace(0, len(rows) - 1, min(SAMPLE, len(rows))).round().astype(np.int64)
    sample = rows[chosen].astype(np.float64)
    found = pdist(sample, "cityblock" if absolute else "euclidean")
    middle = float(np.median(found)) if len(found) else 0.0
    if middle == 0.0 and found.any():
        middle = float(np.median(found[found > 0.0]))
    got = f"{len(sample)} equal rows" if len(sample) > 1 else "1 row"
    differ = bool((sample != sample[:1]).any())
    require(differ, "lengthscale", "given where rows do not differ", got)
    rule = f"of moderate size, with distances in [{1.0 / WIDEST:g}, {WIDEST:g}]: scale them"
    require(1.0 / WIDEST <= middle <= WIDEST, "rows", rule, f"a median distance of {middle:g}")
    return middle


def floats(rows: Matrix) -> Matrix:
    """Rows as float32 or float64, whatever real numbers they are."""
    table = array(rows, "rows", "an array of real numbers")
    return table.astype(widened(table.dtype, "rows"), copy=False)


def _kind(rows: Matrix, single: bool) -> np.dtype[Any]:
    return np.dtype(np.float32 if single or rows.dtype == np.float32 else np.float64)


def _squares(rows: Vector) -> Vector:
    with np.errstate(over="ignore"):
        squares: Vector = np.einsum("ij,ij->i", rows, rows)
    return squares


def centre_of(rows: Matrix) -> Vector:
    """(d,) medians of the columns of some rows: a point amid them, whatever the outliers.

    Examples
    --------
    >>> centre_of(np.array([[1.0], [2.0], [1e9]]))
    array([2.])
    """
    some = rows[np.linspace(0, len(rows) - 1, min(MIDDLE, len(rows))).astype(np.int64)]
    middle = np.median(some.astype(np.float64), axis=0) if len(some) else np.zeros(rows.shape[1])
    # Any point will do; one of float32 can be taken from rows of either kind.
    return middle.clip(-1e38, 1e38).astype(np.float32).astype(np.float64)


def _by_differences(left: Vector, right: Vector) -> Vector:
    """Squared distances of all pairs of rows, no digit lost."""
    from wolfhound.herding._kernel_tiles import squared  # noqa: PLC0415 - loads numba

    out = np.empty((len(left), len(right)))
    squared(left, right, out)
    return out


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


@final
@dataclass(frozen=True, slots=True, eq=False)
class GaussianColumns:
    """Columns of the Gaussian kernel."""

    centre: Vector
    scale: float
    kind: np.dtype[Any]
    left: _Side

    @classmethod
    def of(cls, left: Matrix, lengthscale: float, *, single: bool) -> GaussianColumns:
        """Prepare the rows on the left."""
        centre, kind = centre_of(left), _kind(left, single)
        return cls(centre, 1.0 / lengthscale, kind, _Side(left, centre, 1.0 / lengthscale, kind, last=False))

    def __call__(self, right: Matrix) -> Matrix:
        """(r, s) values of k."""
        side = _Side(floats(right), self.centre, self.scale, self.kind, last=True)
        out: Matrix = self.left.table @ side.table.T
        # Two rows that are both far may be close to each other.
        if len(self.left.far) and len(side.far):
            between = _by_differences(self.left.longest, side.longest)
            with np.errstate(over="ignore"):
                exponents = -0.5 * between * self.scale * self.scale
            out[np.ix_(self.left.far, side.far)] = np.maximum(exponents, -BEYOND)
        np.minimum(out, 0.0, out=out)
        with np.errstate(under="ignore"):
            np.exp(out, out=out)
        return out


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
        kind = _kind(left, single)
        zero = np.zeros(left.shape[1])
        if left.dtype == kind:  # differences of the rows as they are have the fewest roundings
            return cls(zero, 1.0 / lengthscale, np.ascontiguousarray(left), kind)
        centre = centre_of(left)
        near = left - centre
        widest = float(np.abs(near).sum(axis=1).max())
        if widest > BEYOND or widest / lengthscale > math.sqrt(FAR[4]):
            return cls(zero, 1.0 / lengthscale, np.ascontiguousarray(left), kind)
        return cls(centre, 1.0 / lengthscale, near.astype(kind), kind)

    def __call__(self, right: Matrix) -> Matrix:
        """(r, s) values of k."""
        from wolfhound.herding._kernel_tiles import absolute  # noqa: PLC0415 - loads numba

        near = right - self.centre if self.centre.any() else floats(right)
        found = np.empty((len(self.left), len(right)), self.left.dtype)
        with np.errstate(over="ignore"):  # a row too far for float32 has kernel value 0
            table = np.ascontiguousarray(near, self.left.dtype)
        absolute(self.left, table, found)
        found *= -min(self.scale, BEYOND) if found.itemsize == 4 else -self.scale
        with np.errstate(under="ignore"):
            np.exp(found, out=found)
        return found.astype(self.result, copy=False)


@final
@dataclass(frozen=True, slots=True, eq=False)
class LinearColumns:
    """Columns of the linear kernel."""

    left: Vector

    def __call__(self, right: Matrix) -> Matrix:
        """(r, s) values of k."""
        with np.errstate(over="ignore", invalid="ignore"):  # sums and scores that are not finite are errors
            out: Matrix = self.left @ np.asarray(right, np.float64).T
        return out


@final
@dataclass(frozen=True, slots=True, eq=False)
class SteinColumns:
    """Columns of Stein's kernel; rows [x, t] with x in lengthscales, t = l s."""

    centre: Vector
    scale: float
    left: Vector
    squares: Vector
    products: Vector

    @classmethod
    def of(cls, left: Matrix, lengthscale: float) -> SteinColumns:
        """Prepare the rows on the left."""
        centre = centre_of(left[:, : left.shape[1] // 2])
        return cls(centre, lengthscale, *_scaled(left, centre, lengthscale))

    def __call__(self, right: Matrix) -> Matrix:
        """(r, s) values of k.

        With r = x - y and q = 1 + |r|^2:
        ``(d q^(-3/2) - 3 |r|^2 q^(-5/2) + q^(-3/2) <t_x - t_y, r> + q^(-1/2) <t_x, t_y>) / l^2``.
        """
        from wolfhound.herding._kernel_tiles import stein  # noqa: PLC0415 - loads numba

        d, s = len(self.centre), len(right)
        rows, squares, products = _scaled(right, self.centre, self.scale)
        # <x, y>, <x, t_y> + <t_x, y> and <t_x, t_y> from one read of the rows on the left.
        asked = np.zeros((3, s, 2 * d))
        asked[0, :, :d] = rows[:, :d]
        asked[1, :, :d], asked[1, :, d:] = rows[:, d:], rows[:, :d]
        asked[2, :, d:] = rows[:, d:]
        found = self.left @ asked.reshape(3 * s, 2 * d).T
        out = np.empty((len(self.left), s))
        stein(found, (self.squares, squares), (self.products, products), float(d), out)
        out /= self.scale**2
        return out


def _scaled(rows: Matrix, centre: Vector, lengthscale: float) -> tuple[Vector, Vector, Vector]:
    """Rows [x, t], |x|^2 and <x, t>."""
    d = len(centre)
    out = np.empty(rows.shape)
    np.subtract(rows[:, :d], centre, out=out[:, :d])
    out[:, :d] /= lengthscale
    np.multiply(rows[:, d:], lengthscale, out=out[:, d:])
    return out, _squares(out[:, :d]), np.einsum("ij,ij->i", out[:, :d], out[:, d:])
