"""Families of likelihoods p(x | theta): what one observation says of its own parameter."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self, TypeAlias, final

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import gammaln, xlogy

from wolfhound.core.contracts import Matrix, Vector
from wolfhound.core.validate import function, number, real_array, require, require_moderate, vector
from wolfhound.mixtures import _continuum

Parameters: TypeAlias = NDArray[np.float64]  # (m,) parameters, or (m, 2) pairs of them

# Observations that only a null explains: its customary penalty, that of ash (a Dirichlet prior of 10).
NULL_OBSERVATIONS = 9.0
_HALF_LOG_2PI = 0.5 * math.log(2.0 * math.pi)


@dataclass(frozen=True, slots=True, eq=False)
class LikelihoodFamily(ABC):
    """What `npmle` asks of a family; most observe numbers, and have one of their own that may vary."""

    name: ClassVar[str]
    varies: ClassVar[str] = ""  # the number that may differ between observations; empty: none
    limits: ClassVar[tuple[float, float]] = (-math.inf, math.inf)  # of its parameters
    kind: ClassVar[int | None] = None  # of `_continuum`: those that are proved over all parameters

    def __post_init__(self) -> None:
        if not (name := self.varies):
            return
        found: float | Vector
        if np.ndim(getattr(self, name)) == 0:
            found = number(getattr(self, name), name, low=0.0, strict=True)
            require(math.isfinite(found), name, "finite", found)
        else:
            found = vector(getattr(self, name), name)
            require(len(found) > 0 and bool(found.min() > 0.0), name, "> 0", found.min(initial=0.0))
        object.__setattr__(self, name, found)

    @abstractmethod
    def log_density(self, x: Vector, theta: Parameters) -> Matrix:
        """(n, m) logarithms of p(x_j | theta_k)."""

    def check(self, x: ArrayLike) -> Vector:
        """Return the observations, any finite numbers, in float64, or say what is wrong with them."""
        found = vector(x.to_numpy() if hasattr(x, "to_numpy") else x, "x")
        require(len(found) > 0, "x", "at least one observation", "none")
        require_moderate(found, "x")
        if self.varies:
            self._spread(len(found))
        return found

    def take(self, here: Any) -> Self:
        """The family of some of the observations."""
        value = getattr(self, self.varies) if self.varies else None
        return replace(self, **{self.varies: value[here]}) if isinstance(value, np.ndarray) else self

    def make_grid(self, x: Vector, size: int) -> Parameters:
        """Parameters among which those of the data are: evenly from the least to the largest observation."""
        return np.unique(np.linspace(x.min(), x.max(), size))

    def lay(self, x: Vector, weights: Vector) -> _continuum.Continuum | None:
        """Over all parameters; None: no bound is known between those of a grid."""
        if self.kind is None:
            return None
        return _continuum.Continuum(self.kind, x, self._spread(len(x)), weights)

    def tops(self, x: Vector) -> Vector:
        """(n,) largest log-density of each observation over all parameters; known where `lay` is."""
        raise NotImplementedError

    def _spread(self, n: int) -> Vector:
        """(n,) the number that may vary."""
        found = np.asarray(getattr(self, self.varies), np.float64)
        rule = f"one number, or one for each of {n} observations"
        require(found.ndim == 0 or len(found) == n, self.varies, rule, f"{found.size} numbers")
        return np.ascontiguousarray(np.broadcast_to(found, (n,)))


@dataclass(frozen=True, slots=True, eq=False)
class _Counts(LikelihoodFamily):
    """Families of counts, whose likelihoods are those of the proof."""

    def check(self, x: ArrayLike) -> Vector:
        """Counts 0, 1, 2, ..."""
        found = LikelihoodFamily.check(self, x)
        bad = np.flatnonzero((found < 0.0) | (found % 1.0 != 0.0))
        require(len(bad) == 0, "x", "whole numbers >= 0", f"{found[bad[:1]]} at index {bad[:1]}")
        return found

    def log_density(self, x: Vector, theta: Parameters) -> Matrix:
        """(n, m) log-probabilities."""
        waves = _continuum.Waves(self.kind or 0, x, self._spread(len(x)))
        shares = _continuum.log_shares(waves, _continuum.tabulate_theta(waves.kind, theta))
        return shares + self.tops(x)[:, None]

    def make_grid(self, x: Vector, size: int) -> Parameters:
        """Evenly in the root of a rate, or in the arcsine of that of a probability."""
        kind = self.kind or 0
        places = _continuum.from_theta(kind, x / self._spread(len(x)))
        return np.unique(_continuum.to_theta(kind, np.linspace(places.min(), places.max(), size)))


@final
@dataclass(frozen=True, slots=True, eq=False)
class Normal(LikelihoodFamily):
    """x ~ N(theta, sigma^2), sigma known.

    Parameters
    ----------
    sigma : float or (n,)
        Standard errors.

    Examples
    --------
    >>> Normal(2.0).log_density(np.array([0.0]), np.array([0.0])).round(4)
    array([[-1.6121]])
    """

    sigma: Any = 1.0
    name: ClassVar[str] = "normal"
    varies: ClassVar[str] = "sigma"
    kind: ClassVar[int | None] = _continuum.NORMAL

    def __post_init__(self) -> None:
        LikelihoodFamily.__post_init__(self)
        require_moderate(np.asarray(1.0 / np.asarray(self.sigma)), "1 / sigma")

    def log_density(self, x: Vector, theta: Parameters) -> Matrix:
        """(n, m) log-densities."""
        sigma = self._spread(len(x))[:, None]
        return -0.5 * ((x[:, None] - theta) / sigma) ** 2 - np.log(sigma) - _HALF_LOG_2PI

    def tops(self, x: Vector) -> Vector:
        """(n,) log-densities at theta = x."""
        return -np.log(self._spread(len(x))) - _HALF_LOG_2PI


@final
@dataclass(frozen=True, slots=True, eq=False)
class Poisson(_Counts):
    """x ~ Poisson(theta exposure): counts, theta the rate.

    Parameters
    ----------
    exposure : float or (n,)
        Time, area or number at risk.
    """

    exposure: Any = 1.0
    name: ClassVar[str] = "poisson"
    varies: ClassVar[str] = "exposure"
    limits: ClassVar[tuple[float, float]] = (0.0, math.inf)
    kind: ClassVar[int | None] = _continuum.POISSON

    def tops(self, x: Vector) -> Vector:
        """(n,) log-probabilities at theta = x / exposure."""
        return -_stirling(x)


@final
@dataclass(frozen=True, slots=True, eq=False)
class Binomial(_Counts):
    """x ~ Binomial(n, theta): successes of n trials.

    Parameters
    ----------
    n : int or (n,)
        Trials.
    """

    n: Any
    name: ClassVar[str] = "binomial"
    varies: ClassVar[str] = "n"
    limits: ClassVar[tuple[float, float]] = (0.0, 1.0)
    kind: ClassVar[int | None] = _continuum.BINOMIAL

    def __post_init__(self) -> None:
        LikelihoodFamily.__post_init__(self)
        require(bool(np.all(np.asarray(self.n) % 1.0 == 0.0)), "n", "whole numbers", self.n)

    def check(self, x: ArrayLike) -> Vector:
        """Whole numbers from 0 to n."""
        found = _Counts.check(self, x)
        over = np.flatnonzero(found > self._spread(len(found)))
        require(len(over) == 0, "x", "at most n", f"{found[over[:1]]} at index {over[:1]}")
        return found

    def tops(self, x: Vector) -> Vector:
        """(n,) log-probabilities at theta = x / n."""
        n = self._spread(len(x))
        return _stirling(n) - _stirling(x) - _stirling(n - x)


@final
@dataclass(frozen=True, slots=True, eq=False)
class StudentT(LikelihoodFamily):
    """(x - theta) / scale ~ t with df degrees of freedom: heavy tails. Proved on the grid only.

    Parameters
    ----------
    df
        Degrees of freedom.
    scale : float or (n,)
        Standard errors.
    """

    df: float
    scale: Any = 1.0
    name: ClassVar[str] = "student-t"
    varies: ClassVar[str] = "scale"

    def __post_init__(self) -> None:
        object.__setattr__(self, "df", number(self.df, "df", low=0.0, strict=True))
        require(math.isfinite(self.df), "df", "finite: use Normal", self.df)
        LikelihoodFamily.__post_init__(self)

    def log_density(self, x: Vector, theta: Parameters) -> Matrix:
        """(n, m) log-densities."""
        scale, df = self._spread(len(x))[:, None], self.df
        const = gammaln((df + 1.0) / 2.0) - gammaln(df / 2.0) - 0.5 * math.log(df * math.pi)
        away = ((x[:, None] - theta) / scale) ** 2
        return np.asarray(const - np.log(scale) - (df + 1.0) / 2.0 * np.log1p(away / df))


@final
@dataclass(frozen=True, slots=True, eq=False)
class NormalMeanScale(LikelihoodFamily):
    """x ~ N(mu, sigma^2), theta = (mu, sigma) both unknown. Proved on the grid only.

    Parameters
    ----------
    least
        Least sigma: without one the likelihood has no maximum.
    """

    least: float
    name: ClassVar[str] = "normal-mean-scale"

    def __post_init__(self) -> None:
        object.__setattr__(self, "least", number(self.least, "least", low=0.0, strict=True))

    def log_density(self, x: Vector, theta: Parameters) -> Matrix:
        """(n, m) log-densities; theta is (m, 2)."""
        mu, sigma = theta[:, 0], theta[:, 1]
        return -0.5 * ((x[:, None] - mu) / sigma) ** 2 - np.log(sigma) - _HALF_LOG_2PI

    def make_grid(self, x: Vector, size: int) -> Parameters:
        """Means from the least to the largest observation, by sigmas from the least to their range."""
        side = max(2, math.isqrt(size))
        most = max(self.least, float(np.ptp(x)) / 2.0)
        sigmas = np.unique(np.geomspace(self.least, most, max(2, side // 2)))
        means = np.unique(np.linspace(x.min(), x.max(), 2 * side))
        return np.column_stack([each.ravel() for each in np.meshgrid(means, sigmas, indexing="ij")])


@final
@dataclass(frozen=True, slots=True, eq=False)
class NormalScales(LikelihoodFamily):
    """x ~ N(mean, sigma^2), mean ~ N(0, theta^2): theta is the scale of effects. Proved on the grid only.

    The prior of the means is then a scale mixture of normals at 0, smooth but for a point mass where
    theta = 0, as ash has it: what a fit says of observations (means, intervals, signs) is of their means.

    Parameters
    ----------
    sigma : float or (n,)
        Standard errors.

    Examples
    --------
    >>> means, deviations = NormalScales(1.0).condition(np.array([2.0]), np.array([0.0, 1.0]))
    >>> means, (deviations**2).round(6)
    (array([[0., 1.]]), array([[0. , 0.5]]))
    """

    sigma: Any = 1.0
    name: ClassVar[str] = "normal-scales"
    varies: ClassVar[str] = "sigma"
    limits: ClassVar[tuple[float, float]] = (0.0, math.inf)

    def __post_init__(self) -> None:
        object.__setattr__(self, "sigma", Normal(self.sigma).sigma)

    def log_density(self, x: Vector, theta: Parameters) -> Matrix:
        """(n, m) log-densities."""
        size = np.hypot(self._spread(len(x))[:, None], theta)
        return np.asarray(-0.5 * (x[:, None] / size) ** 2 - np.log(size) - _HALF_LOG_2PI)

    def condition(self, x: Vector, theta: Parameters) -> tuple[Vector, Vector]:
        """(n, m) means and standard deviations of the mean of each observation, given its scale."""
        sigma = self._spread(len(x))[:, None]
        share = theta / np.hypot(sigma, theta)
        return x[:, None] * share**2, sigma * share

    def make_grid(self, x: Vector, size: int) -> Parameters:
        """0, and scales from a tenth of the least standard error to twice the largest observation."""
        least = 0.1 * float(self._spread(len(x)).min())
        return np.append(0.0, np.geomspace(least, max(2.0 * float(np.abs(x).max()), 8.0 * least), size // 4))


@final
@dataclass(frozen=True, slots=True, eq=False)
class OwnDensity(LikelihoodFamily):
    """A log-density of your own. Proved on the grid only, which must be given.

    Parameters
    ----------
    log_density : function
        Of x (n,) and theta (m,) or (m, 2); returns (n, m) log-densities.
    """

    function: Callable[[Any, Any], Any] | None
    name: ClassVar[str] = "own"

    def __post_init__(self) -> None:
        function(self.function, "family", "a family such as Normal(sigma), or a log-density of x and theta")

    def log_density(self, x: Vector, theta: Parameters) -> Matrix:
        """(n, m) log-densities, checked."""
        found = real_array(self.function(x, theta), "the log-density", 2)  # type: ignore[misc]
        wanted = (len(x), len(theta))
        require(found.shape == wanted, "the log-density", f"of shape {wanted}", f"shape {found.shape}")
        return found.astype(np.float64)

    def make_grid(self, x: Vector, size: int) -> Parameters:
        """Refuse: nothing is known of theta."""
        raise ValueError("`grid` must be given with a log-density of your own. Got None.")


FAMILIES: dict[str, type[Any]] = {
    each.name: each for each in (Normal, Poisson, Binomial, NormalScales, StudentT, NormalMeanScale)
}
"""By name, as saving and the command line know them."""


def _stirling(x: Vector) -> Vector:
    """log x! - x log x + x, to all digits: the large parts never meet."""
    small, large = np.minimum(x, 15.0), np.maximum(x, 16.0)
    series = np.zeros_like(large)
    for below in (1188.0, -1680.0, 1260.0, -360.0, 12.0):
        series = series / large**2 + 1.0 / below
    far = 0.5 * np.log(large) + _HALF_LOG_2PI + series / large
    return np.where(x < 16.0, gammaln(small + 1.0) - xlogy(small, small) + small, far)


def as_family(value: Any) -> LikelihoodFamily:
    """A family as it is; a function becomes one."""
    if isinstance(value, LikelihoodFamily):
        return value
    return OwnDensity(None if isinstance(value, type) else value)
