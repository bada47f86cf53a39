"""What kernels of a distance share: lengthscales, rows one against many, random frequencies."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from wolfhound._exact import require_exact
from wolfhound.atoms import widen
from wolfhound.core import Matrix, Vector
from wolfhound.herding.kernels import Kernel, KernelRow
from wolfhound.herding.kernels.features import RandomFourier
from wolfhound.threads import map_ordered
from wolfhound.validate import array, kind, number, require, require_finite
from wolfhound.validate import count as whole

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

ALONE = 16 << 20
"""Bytes of candidates up to which one thread is as fast: they stay in its cache."""

BLOCK = 4 << 20
"""Bytes of candidates per task above that."""

SINGLE = 1e18
"""Lengthscales of float32 rows lie within [1 / SINGLE, SINGLE], so that their squares are float32 too."""

_LARGEST = 3e38  # float32 numbers are below it


@dataclass(frozen=True, slots=True, repr=False)
class Scaled(Kernel):
    """A kernel with a lengthscale, which `fit` chooses where it is not given."""

    lengthscale: float | None = None

    def __post_init__(self) -> None:
        if self.lengthscale is None:
            return
        value = number(self.lengthscale, "lengthscale", low=0.0, strict=True)
        require(bool(np.isfinite(value)), "lengthscale", "finite", value)
        rule = f"in [{1.0 / WIDEST:g}, {WIDEST:g}]: scale the rows"
        require(1.0 / WIDEST <= value <= WIDEST, "lengthscale", rule, value)
        object.__setattr__(self, "lengthscale", value)

    @property
    def length(self) -> float:
        """The lengthscale; ValueError if it is yet to be chosen."""
        rule = f"given: use {type(self).__name__}().fit(rows)"
        require(self.lengthscale is not None, "lengthscale", rule, None)
        return float(self.lengthscale or 0.0)

    def measure(self, rows: Matrix) -> float:
        """Return the lengthscale of these rows: the median distance of pairs."""
        return median_distance(rows)

    def fit(self, rows: Matrix) -> Self:
        """Return the kernel with a lengthscale, one that rows of this type can be divided by."""
        found = self if self.lengthscale else replace(self, lengthscale=self.measure(rows))
        rule = f"in [{1.0 / SINGLE:g}, {SINGLE:g}] for float32 rows: scale the rows, or give float64"
        single = np.asarray(rows).dtype == np.float32
        require(not single or 1.0 / SINGLE <= found.length <= SINGLE, "lengthscale", rule, found.length)
        return found

    def gram(self, left: Matrix, right: Matrix) -> Matrix:
        """(r, s) values of k, float32 for float32 rows where that will do, else float64."""
        return self.against(left)(right)


@dataclass(frozen=True, slots=True, repr=False)
class Stationary(Scaled):
    """A kernel of the difference of two rows in lengthscales, 1 for equal rows."""

    def diagonal(self, rows: Matrix) -> Vector:
        """(r,) ones."""
        return np.ones(len(rows))

    def frequencies(self, dim: int, half: int, rng: np.random.Generator) -> Vector:
        """(d, h) random frequencies, for the lengthscale 1."""
        raise NotImplementedError

    def features(
        self, dim: int, count: int, rng: np.random.Generator, *, centre: Vector | None = None
    ) -> RandomFourier:
        """Random Fourier features, in float32: random frequencies over the lengthscale."""
        kind(rng, "rng", "a numpy.random.Generator", np.random.Generator)
        half = (whole(count, "count", low=1) + 1) // 2
        draws = self.frequencies(whole(dim, "dim", low=1), half, rng)
        rule = "larger for more rows than are taken whole, as float32 counts there: scale the rows"
        fits = bool(np.abs(draws).max() < _LARGEST * self.length)
        require(fits, "lengthscale", rule, self.length)
        return RandomFourier(draws / self.length, centre)


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
    require_exact(table, "rows")
    return table.astype(widen(table.dtype, "rows"), copy=False)


def float_kind(rows: Matrix, single: bool) -> np.dtype[Any]:
    """Type of the kernel values of these rows."""
    return np.dtype(np.float32 if single or rows.dtype == np.float32 else np.float64)


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


def exponential_row(
    distances: Callable[[Matrix, Matrix, float, Matrix], None], rows: Matrix, scale: float
) -> KernelRow:
    """Return the exponentials of scaled distances between one row and many, on our threads.

    `distances`, compiled, writes ``scale * distance`` of all C-ordered rows to one, in their precision; the
    scale is below 0.
    """
    out = np.empty(len(rows), rows.dtype)
    step = len(rows)
    if rows.nbytes > ALONE:
        step = max(1, BLOCK // (rows.shape[1] * rows.itemsize))

    def values(row: Matrix) -> Matrix:
        def fill(first: int) -> None:
            part = out[first : first + step]
            distances(rows[first : first + step], row, scale, part)
            np.exp(part, out=part)

        if step == len(rows):
            fill(0)
        else:
            list(map_ordered(fill, range(0, len(rows), step), blas=False))
        return out

    return values
