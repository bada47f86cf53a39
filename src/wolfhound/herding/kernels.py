"""Kernels k(x, y) on rows: Gaussian, Laplace, linear, and Stein's for samplers.

A kernel knows rows only: no means, no picks. All are frozen records; where a
lengthscale is not given, `fitted` chooses it.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol, final

import numpy as np

from wolfhound.core import Matrix, Vector
from wolfhound.herding._columns import (
    WIDEST,
    Columns,
    GaussianColumns,
    LaplaceColumns,
    LinearColumns,
    SteinColumns,
    floats,
    median_distance,
)
from wolfhound.herding._scored import ScoredAtoms, with_scores
from wolfhound.herding.features import Features, Identity, RandomFourier, normal_frequencies
from wolfhound.validate import count as whole
from wolfhound.validate import kind, number, require

__all__ = [
    "Columns",
    "Gaussian",
    "Kernel",
    "Laplace",
    "Linear",
    "ScoredAtoms",
    "Stein",
    "with_scores",
]

_SINGLE = 3e38
"""Float32 numbers are below it."""


class Kernel(Protocol):
    """A positive definite k(x, y) on rows of d entries."""

    @property
    def centred(self) -> bool:
        """Whether the mean embedding of the target is exactly 0, as by Stein's identity."""

    def fitted(self, rows: Matrix) -> Kernel:
        """Return a kernel with nothing left to choose: itself, if it has all.

        Parameters
        ----------
        rows : (r, d)
            A random sample of the rows.
        """

    def gram(self, left: Matrix, right: Matrix) -> Matrix:
        """(r, s) values of k; float32 or float64, not tiled: callers do that."""

    def against(self, left: Matrix, *, single: bool = False) -> Columns:
        """Prepare ``gram(left, .)`` for many calls.

        Parameters
        ----------
        left : (r, d)
        single
            Float32 will do, also for float64 rows (shifted first, so that no
            digits are lost where rows are far from the origin).
        """

    def diagonal(self, rows: Matrix) -> Vector:
        """(r,) values of k(x, x)."""

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


def _length(lengthscale: float | None) -> float | None:
    if lengthscale is None:
        return None
    value = number(lengthscale, "lengthscale", low=0.0, strict=True)
    require(bool(np.isfinite(value)), "lengthscale", "finite", value)
    rule = f"in [{1.0 / WIDEST:g}, {WIDEST:g}]: scale the rows"
    require(1.0 / WIDEST <= value <= WIDEST, "lengthscale", rule, value)
    return value


def _pairs(count: int, rng: object) -> int:
    """How many cosines and sines make `count` features; the generator is checked too."""
    kind(rng, "rng", "a numpy.random.Generator", np.random.Generator)
    return (whole(count, "count", low=1) + 1) // 2


def _fourier(draws: Vector, lengthscale: float, centre: Vector | None) -> RandomFourier:
    """Features of these frequencies over the lengthscale, in float32."""
    rule = "larger for more rows than are taken whole, as float32 counts there: scale the rows"
    fits = bool(np.abs(draws).max() < _SINGLE * lengthscale)
    require(fits, "lengthscale", rule, lengthscale)
    return RandomFourier(draws / lengthscale, centre)


def check_kernel(kernel: object) -> None:
    """Raise TypeError unless this is a kernel."""
    kind(kernel, "kernel", "a kernel such as Gaussian()", "centred", "fitted", "against", "diagonal")


def _chosen(lengthscale: float | None, kernel: str) -> float:
    require(lengthscale is not None, "lengthscale", f"given: use {kernel}().fitted(rows)", None)
    return float(lengthscale or 0.0)


@final
@dataclass(frozen=True, slots=True)
class Gaussian:
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
    >>> Gaussian().fitted(3.0 * rows)
    Gaussian(lengthscale=3.0)
    """

    lengthscale: float | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "lengthscale", _length(self.lengthscale))

    @property
    def centred(self) -> bool:
        """False: its mean embedding is never 0."""
        return False

    def fitted(self, rows: Matrix) -> Gaussian:
        """Return the kernel with a lengthscale."""
        return self if self.lengthscale else replace(self, lengthscale=median_distance(rows))

    def gram(self, left: Matrix, right: Matrix) -> Matrix:
        """(r, s) values of k, float32 for float32 rows, else float64."""
        return self.against(left)(right)

    def against(self, left: Matrix, *, single: bool = False) -> Columns:
        """Prepare ``gram(left, .)`` for many calls."""
        return GaussianColumns.of(floats(left), _chosen(self.lengthscale, "Gaussian"), single=single)

    def diagonal(self, rows: Matrix) -> Vector:
        """(r,) ones."""
        return np.ones(len(rows))

    def features(
        self, dim: int, count: int, rng: np.random.Generator, *, centre: Vector | None = None
    ) -> RandomFourier:
        """Random Fourier features: normal frequencies, orthogonal as far as they can be."""
        half = _pairs(count, rng)
        draws = normal_frequencies(whole(dim, "dim", low=1), half, rng)
        return _fourier(draws, _chosen(self.lengthscale, "Gaussian"), centre)


@final
@dataclass(frozen=True, slots=True)
class Laplace:
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

    lengthscale: float | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "lengthscale", _length(self.lengthscale))

    @property
    def centred(self) -> bool:
        """False: its mean embedding is never 0."""
        return False

    def fitted(self, rows: Matrix) -> Laplace:
        """Return the kernel with a lengthscale."""
        if self.lengthscale:
            return self
        return replace(self, lengthscale=median_distance(rows, absolute=True))

    def gram(self, left: Matrix, right: Matrix) -> Matrix:
        """(r, s) values of k, float32 for float32 rows, else float64."""
        return self.against(left)(right)

    def against(self, left: Matrix, *, single: bool = False) -> Columns:
        """Prepare ``gram(left, .)`` for many calls."""
        return LaplaceColumns.of(floats(left), _chosen(self.lengthscale, "Laplace"), single=single)

    def diagonal(self, rows: Matrix) -> Vector:
        """(r,) ones."""
        return np.ones(len(rows))

    def features(
        self, dim: int, count: int, rng: np.random.Generator, *, centre: Vector | None = None
    ) -> RandomFourier:
        """Random Fourier features: Cauchy frequencies."""
        half = _pairs(count, rng)
        draws = rng.standard_cauchy((whole(dim, "dim", low=1), half))
        return _fourier(draws, _chosen(self.lengthscale, "Laplace"), centre)


@final
@dataclass(frozen=True, slots=True)
class Linear:
    """The linear kernel ``<x, y>``: matches the plain mean of the rows.

    Computed in float64, also for float32 rows: what counts are small
    differences of large values.

    Examples
    --------
    >>> Linear().gram(np.eye(2), np.array([[2.0, 3.0]]))
    array([[2.],
           [3.]])
    """

    @property
    def centred(self) -> bool:
        """False: the mean of the rows can be anywhere."""
        return False

    def fitted(self, rows: Matrix) -> Linear:
        """Return itself."""
        return self

    def gram(self, left: Matrix, right: Matrix) -> Matrix:
        """(r, s) float64 values of k."""
        return self.against(left)(right)

    def against(self, left: Matrix, *, single: bool = False) -> Columns:
        """Prepare ``gram(left, .)`` for many calls; always in float64."""
        return LinearColumns(np.ascontiguousarray(left, np.float64))

    def diagonal(self, rows: Matrix) -> Vector:
        """(r,) squared lengths."""
        squares: Vector = np.einsum("ij,ij->i", rows, rows, dtype=np.float64)
        return squares

    def features(
        self, dim: int, count: int, rng: np.random.Generator, *, centre: Vector | None = None
    ) -> Identity:
        """The rows themselves: exact, whatever `count` is."""
        return Identity(dim)


@final
@dataclass(frozen=True, slots=True)
class Stein:
    """Stein's kernel of a density p, for samples of p with their scores.

    ``div_x div_y k + <s(x), grad_y k> + <s(y), grad_x k> + k <s(x), s(y)>`` with
    the score s = grad log p and ``k = (1 + |x - y|^2 / l^2)^(-1/2)``. Its mean
    under p is 0 for every x, so rows can be compared with p itself rather than
    with a sample: biased chains are corrected. Computed in float64.

    Parameters
    ----------
    lengthscale
        l; the median distance of pairs of samples if not given.

    Notes
    -----
    Acts on rows [x, s(x)] of 2d entries: see `with_scores`.

    Examples
    --------
    >>> x = np.array([[0.0], [1.0]])  # of a standard normal: the score is -x
    >>> Stein(1.0).gram(np.hstack([x, -x]), np.hstack([x, -x])).round(3)
    array([[ 1.  , -0.53],
           [-0.53,  2.  ]])
    """

    lengthscale: float | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "lengthscale", _length(self.lengthscale))

    @property
    def centred(self) -> bool:
        """True, by Stein's identity."""
        return True

    def fitted(self, rows: Matrix) -> Stein:
        """Return the kernel with a lengthscale."""
        if self.lengthscale:
            return self
        return replace(self, lengthscale=median_distance(rows[:, : _half(rows)]))

    def gram(self, left: Matrix, right: Matrix) -> Matrix:
        """(r, s) float64 values of k."""
        return self.against(left)(right)

    def against(self, left: Matrix, *, single: bool = False) -> Columns:
        """Prepare ``gram(left, .)`` for many calls; always in float64."""
        _half(left)
        return SteinColumns.of(left, _chosen(self.lengthscale, "Stein"))

    def diagonal(self, rows: Matrix) -> Vector:
        """(r,) values ``d / l^2 + |s(x)|^2``."""
        d = _half(rows)
        scores = rows[:, d:]
        squares: Vector = np.einsum("ij,ij->i", scores, scores, dtype=np.float64)
        return d / _chosen(self.lengthscale, "Stein") ** 2 + squares

    def features(
        self, dim: int, count: int, rng: np.random.Generator, *, centre: Vector | None = None
    ) -> None:
        """None: it needs none, for its mean embedding is known."""


def _half(rows: Matrix) -> int:
    width = int(rows.shape[1])
    require(width % 2 == 0, "rows", "[x, score] of 2 d columns: see `with_scores`", f"{width} columns")
    return width // 2
