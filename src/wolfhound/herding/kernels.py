"""Kernels k(x, y) on rows: what a kernel knows of itself, the table of all, and those of a distance.

A kernel knows rows only: no picks, no files but for a mean that it has in closed form. All are frozen
records. `Stein` has a file of its own.

Tiles of the Gaussian kernel are a matrix product and an exponential. ``|x|^2 + |y|^2 - 2 <x, y>`` loses
digits where rows are long against their distance, so rows are first shifted to a point amid them; pairs of
rows that are still long are done by differences. Sums of absolute differences, of the Laplace kernel, no
matrix product gives.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Protocol, Self, TypeAlias, final

import numpy as np

from wolfhound.core.contracts import Atoms, Ids, Matrix, Vector
from wolfhound.core.registry import Registry
from wolfhound.core.rounding import product
from wolfhound.core.threads import map_ordered
from wolfhound.core.validate import array, kind, number, require, require_exact, require_finite
from wolfhound.core.validate import count as whole
from wolfhound.data.atoms import widen
from wolfhound.herding._compiled import distances_absolute, distances_squared, pairs_absolute
from wolfhound.herding.features import Features, Identity, RandomFourier, feature_mean, normal_frequencies

# (s, d) rows on the right -> (r, s) values of k, for rows on the left that are fixed.
KernelColumns: TypeAlias = Callable[[Matrix], Matrix]
# (d,) row -> (r,) values of k with rows that are fixed; the answer may be overwritten by the next.
KernelRow: TypeAlias = Callable[[Matrix], Matrix]

SAMPLE = 1000  # rows whose distances give the median
MIDDLE = 101  # rows whose medians are the centre
# Squared length in lengthscales, per bytes of a number, beyond which a row is far.
FAR = {4: 2.0**10, 8: 2.0**20}
WIDEST = 1e150  # lengthscales lie within [1 / WIDEST, WIDEST]: beyond it squares overflow, or vanish
BEYOND = 1e30  # half a squared length that leaves no kernel value, yet is a float32
ALONE = 16 << 20  # bytes of candidates up to which one thread is as fast: they stay in its cache
BLOCK = 4 << 20  # bytes of candidates per task above that
# Lengthscales of float32 rows lie within [1 / SINGLE, SINGLE], so that their squares are float32 too.
SINGLE = 1e18
_LARGEST = 3e38  # float32 numbers are below it


class Kernel(Protocol):
    """A positive definite k(x, y) on rows of d entries.

    Derive from it to write one: `gram` and `diagonal` are needed, all else has a general
    way, which a kernel that knows a faster one replaces. A frozen dataclass of plain
    numbers that has a `name` can be added to `KERNELS`: results are then saved with it.

    Attributes
    ----------
    name : str
        Small letters: what a saved result and the command line call it.
    centred : bool
        Whether the mean embedding of its own target is exactly 0, as by Stein's
        identity: rows are then compared with that target, and never with others.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True, repr=False)
    ... class Cosine(Kernel):
    ...     power: float = 1.0
    ...     name = "cosine"
    ...
    ...     def gram(self, left, right):
    ...         unit = [rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in (left, right)]
    ...         return (0.5 + 0.5 * unit[0] @ unit[1].T) ** self.power
    ...
    ...     def diagonal(self, rows):
    ...         return np.ones(len(rows))
    >>> Cosine(2.0)
    Cosine(power=2)
    """

    name: ClassVar[str] = ""
    centred: ClassVar[bool] = False

    def gram(self, left: Matrix, right: Matrix) -> Matrix:
        """(r, s) values of k; float32 or float64, not tiled: callers do that."""

    def diagonal(self, rows: Matrix) -> Vector:
        """(r,) values of k(x, x)."""

    def fit(self, rows: Matrix) -> Self:
        """Return a kernel with nothing left to choose: itself, if it has all.

        Parameters
        ----------
        rows : (r, d)
            A random sample of the rows.
        """
        return self

    def against(self, left: Matrix, *, single: bool = False) -> KernelColumns:
        """Prepare ``gram(left, .)`` for many calls.

        Parameters
        ----------
        left : (r, d)
        single
            Float32 will do, also for float64 rows (shifted first, so that no
            digits are lost where rows are far from the origin).
        """
        return lambda right: self.gram(left, right)

    def row(self, rows: Matrix) -> KernelRow:
        """Prepare the values of k between one row and these, the candidates, for many calls."""
        columns = self.against(rows)
        return lambda row: np.ascontiguousarray(columns(row[None])[:, 0])

    def features(
        self, dim: int, count: int, rng: np.random.Generator, *, centre: Vector | None = None
    ) -> Features | None:
        """Return features with <F(x), F(y)> ~ k(x, y); None if there are none.

        Parameters
        ----------
        dim
            d.
        count
            How many, if they are random: rounded up to an even number.
        rng
            Draws them.
        centre : (d,), optional
            A point amid the rows, see `RandomFourier`.
        """
        return None

    def mean(self, atoms: Atoms, weights: Vector | None, name: str) -> Vector | None:
        """(d,) a row whose embedding is the mean embedding of all atoms; None: there is none.

        There is one if k is affine in either row. Distances of means are then the
        same for rows that are shifted.

        Parameters
        ----------
        atoms
            What the mean is of.
        weights : (n,), optional
            Of the atoms, 1 in sum; None: equal.
        name
            What the caller calls the atoms, for errors.
        """
        return None

    def to_json(self) -> dict[str, Any]:
        """Return the JSON values that `from_json` needs: the fields of a dataclass."""
        return {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type]

    @classmethod
    def from_json(cls, saved: dict[str, Any]) -> Self:
        """Return the kernel of such values."""
        return cls(**saved)

    def __repr__(self) -> str:
        """The kernel, numbers to four digits."""
        given = {name: value for name, value in self.to_json().items() if value is not None}
        parts = (f"{k}={v:.4g}" if isinstance(v, float) else f"{k}={v!r}" for k, v in given.items())
        return f"{type(self).__name__}({', '.join(parts)})"


_MEMBERS = ("centred", "gram", "diagonal", "fit", "against", "row", "features", "mean")

KERNELS: Registry[type[Kernel]] = Registry(
    "kernel",
    (*_MEMBERS, "to_json", "from_json"),
    {
        "gaussian": "wolfhound.herding.kernels:Gaussian",
        "laplace": "wolfhound.herding.kernels:Laplace",
        "linear": "wolfhound.herding.kernels:Linear",
        "stein": "wolfhound.herding.stein:Stein",
    },
)
"""All kernels by name; ``KERNELS.add(Cosine)`` enters one of your own, which can then be saved."""


def check_kernel(kernel: object) -> None:
    """Raise TypeError unless this is a kernel."""
    kind(kernel, "kernel", "a kernel such as Gaussian()", *_MEMBERS)


# ---------------------------------------------------------------- what kernels with a lengthscale share


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


# ---------------------------------------------------------------- the kernels


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
        return lambda right: product(table, np.asarray(right, np.float64).T)  # sums find what is not finite

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
        rows, scale = floats(left), 1.0 / self.length
        centre, kind = centre_of(rows), float_kind(rows, single)
        mine = _Side(rows, centre, scale, kind, last=False)

        def columns(right: Matrix) -> Matrix:
            side = _Side(floats(right), centre, scale, kind, last=True)
            out: Matrix = product(mine.table, side.table.T)
            # Two rows that are both far may be close to each other.
            if len(mine.far) and len(side.far):
                from scipy.spatial.distance import cdist  # noqa: PLC0415 - as in `median_distance`

                between = cdist(mine.longest, side.longest, "sqeuclidean")
                with np.errstate(over="ignore"):
                    exponents = -0.5 * between * scale * scale
                out[np.ix_(mine.far, side.far)] = np.maximum(exponents, -BEYOND)
            np.minimum(out, 0.0, out=out)
            with np.errstate(under="ignore"):
                np.exp(out, out=out)
            return out

        return columns

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
        rows, lengthscale = floats(left), self.length
        centre, mine, kind = np.zeros(rows.shape[1]), rows, float_kind(rows, single)
        if rows.dtype != kind:  # differences of the rows as they are would have the fewest roundings
            middle = centre_of(rows)
            near = rows - middle
            widest = float(np.abs(near).sum(axis=1).max())
            if widest <= BEYOND and widest / lengthscale <= math.sqrt(FAR[4]):
                centre, mine = middle, near.astype(kind)
        mine, scale = np.ascontiguousarray(mine), 1.0 / lengthscale

        def columns(right: Matrix) -> Matrix:
            near = right - centre if centre.any() else floats(right)
            found = np.empty((len(mine), len(right)), mine.dtype)
            with np.errstate(over="ignore"):  # a row too far for float32 has kernel value 0
                table = np.ascontiguousarray(near, mine.dtype)
            pairs_absolute(mine, table, found)
            found *= -min(scale, BEYOND) if found.itemsize == 4 else -scale
            with np.errstate(under="ignore"):
                np.exp(found, out=found)
            return found.astype(kind, copy=False)

        return columns

    def row(self, rows: Matrix) -> KernelRow:
        """Prepare the values of k between one row and these for many calls."""
        return exponential_row(distances_absolute, rows, -1.0 / self.length)

    def frequencies(self, dim: int, half: int, rng: np.random.Generator) -> Vector:
        """Cauchy's."""
        return rng.standard_cauchy((dim, half))
