"""Families of likelihoods p(x | theta): what one observation says of its own parameter."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, TypeAlias, final

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import gammaln, xlogy

from wolfhound.core import Matrix, Vector
from wolfhound.mixtures._continuum import Continuum, log_shares, tabulate_theta
from wolfhound.mixtures._continuum_kernels import BINOMIAL, NORMAL, POISSON, Waves
from wolfhound.validate import function, number, real_array, require, require_moderate, vector

Parameters: TypeAlias = NDArray[np.float64]
"""(m,) parameters, or (m, 2) pairs of them."""

NULL_OBSERVATIONS = 9.0
"""Observations that only a null explains: its customary penalty, that of ash (a Dirichlet prior of 10)."""

_HALF_LOG_2PI = 0.5 * math.log(2.0 * math.pi)


class LikelihoodFamily(Protocol):
    """What `npmle` asks of a family."""

    name: ClassVar[str]

    def check(self, x: ArrayLike) -> Vector:
        """Return the observations, float64, or raise an error that names what is wrong."""

    def log_density(self, x: Vector, theta: Parameters) -> Matrix:
        """(n, m) logarithms of p(x_j | theta_k)."""

    def take(self, here: Any) -> LikelihoodFamily:
        """The family of some of the observations."""

    def make_grid(self, x: Vector, size: int) -> Parameters:
        """Parameters among which those of the data are."""

    def lay(self, x: Vector, weights: Vector) -> Continuum | None:
        """What a proof over all parameters needs; None where there is none."""

    def tops(self, x: Vector) -> Vector:
        """(n,) largest log-density of each observation over all parameters, where `lay` is known."""


def _positive(value: float | ArrayLike, name: str) -> float | Vector:
    if np.ndim(value) == 0:
        out = number(value, name, low=0.0, strict=True)
        require(math.isfinite(out), name, "finite", value)
        return out
    found = vector(value, name)
    require(len(found) > 0 and bool(found.min() > 0.0), name, "> 0", found.min(initial=0.0))
    return found


def _some(value: float | Vector, here: Any) -> float | Vector:
    return value[here] if isinstance(value, np.ndarray) else value


@final
@dataclass(frozen=True, slots=True, eq=False)
class Normal:
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

    def __post_init__(self) -> None:
        object.__setattr__(self, "sigma", _positive(self.sigma, "sigma"))
        require_moderate(np.asarray(1.0 / np.asarray(self.sigma)), "1 / sigma")

    def check(self, x: ArrayLike) -> Vector:
        """Any finite numbers."""
        found = _numbers(x)
        _spread(self.sigma, "sigma", len(found))
        return found

    def take(self, here: Any) -> Normal:
        """The family of some of the observations."""
        return Normal(_some(self.sigma, here))

    def log_density(self, x: Vector, theta: Parameters) -> Matrix:
        """(n, m) log-densities."""
        sigma = _spread(self.sigma, "sigma", len(x))[:, None]
        return -0.5 * ((x[:, None] - theta) / sigma) ** 2 - np.log(sigma) - _HALF_LOG_2PI

    def make_grid(self, x: Vector, size: int) -> Parameters:
        """Evenly from the least to the largest observation."""
        return np.unique(np.linspace(x.min(), x.max(), size))

    def lay(self, x: Vector, weights: Vector) -> Continuum:
        """Over all theta."""
        return Continuum(NORMAL, x, _spread(self.sigma, "sigma", len(x)), weights)

    def tops(self, x: Vector) -> Vector:
        """(n,) log-densities at theta = x."""
        return -np.log(_spread(self.sigma, "sigma", len(x))) - _HALF_LOG_2PI


@final
@dataclass(frozen=True, slots=True, eq=False)
class Poisson:
    """x ~ Poisson(theta exposure): counts, theta the rate.

    Parameters
    ----------
    exposure : float or (n,)
        Time, area or number at risk.
    """

    exposure: Any = 1.0
    name: ClassVar[str] = "poisson"

    def __post_init__(self) -> None:
        object.__setattr__(self, "exposure", _positive(self.exposure, "exposure"))

    def check(self, x: ArrayLike) -> Vector:
        """Counts 0, 1, 2, ..."""
        found = _whole(x)
        _spread(self.exposure, "exposure", len(found))
        return found

    def take(self, here: Any) -> Poisson:
        """The family of some of the observations."""
        return Poisson(_some(self.exposure, here))

    def log_density(self, x: Vector, theta: Parameters) -> Matrix:
        """(n, m) log-probabilities."""
        waves = Waves(POISSON, x, _spread(self.exposure, "exposure", len(x)))
        return log_shares(waves, tabulate_theta(POISSON, theta)) + self.tops(x)[:, None]

    def make_grid(self, x: Vector, size: int) -> Parameters:
        """Evenly in the square root of the rate."""
        rates = np.sqrt(x / _spread(self.exposure, "exposure", len(x)))
        return np.unique(np.linspace(rates.min(), rates.max(), size) ** 2)

    def lay(self, x: Vector, weights: Vector) -> Continuum:
        """Over all theta >= 0."""
        return Continuum(POISSON, x, _spread(self.exposure, "exposure", len(x)), weights)

    def tops(self, x: Vector) -> Vector:
        """(n,) log-probabilities at theta = x / exposure."""
        return -_stirling(x)


@final
@dataclass(frozen=True, slots=True, eq=False)
class Binomial:
    """x ~ Binomial(n, theta): successes of n trials.

    Parameters
    ----------
    n : int or (n,)
        Trials.
    """

    n: Any
    name: ClassVar[str] = "binomial"

    def __post_init__(self) -> None:
        trials = _positive(self.n, "n")
        require(bool(np.all(np.asarray(trials) % 1.0 == 0.0)), "n", "whole numbers", self.n)
        object.__setattr__(self, "n", trials)

    def check(self, x: ArrayLike) -> Vector:
        """Whole numbers from 0 to n."""
        found = _whole(x)
        over = np.flatnonzero(found > _spread(self.n, "n", len(found)))
        require(len(over) == 0, "x", "at most n", f"{found[over[:1]]} at index {over[:1]}")
        return found

    def take(self, here: Any) -> Binomial:
        """The family of some of the observations."""
        return Binomial(_some(self.n, here))

    def log_density(self, x: Vector, theta: Parameters) -> Matrix:
        """(n, m) log-probabilities."""
        waves = Waves(BINOMIAL, x, _spread(self.n, "n", len(x)))
        return log_shares(waves, tabulate_theta(BINOMIAL, theta)) + self.tops(x)[:, None]

    def make_grid(self, x: Vector, size: int) -> Parameters:
        """Evenly in arcsin of the root of the probability."""
        angles = np.arcsin(np.sqrt(x / _spread(self.n, "n", len(x))))
        return np.unique(np.sin(np.linspace(angles.min(), angles.max(), size)) ** 2)

    def lay(self, x: Vector, weights: Vector) -> Continuum:
        """Over all theta in [0, 1]."""
        return Continuum(BINOMIAL, x, _spread(self.n, "n", len(x)), weights)

    def tops(self, x: Vector) -> Vector:
        """(n,) log-probabilities at theta = x / n."""
        n = _spread(self.n, "n", len(x))
        return _stirling(n) - _stirling(x) - _stirling(n - x)


@final
@dataclass(frozen=True, slots=True, eq=False)
class StudentT:
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

    def __post_init__(self) -> None:
        object.__setattr__(self, "df", number(self.df, "df", low=0.0, strict=True))
        require(math.isfinite(self.df), "df", "finite: use Normal", self.df)
        object.__setattr__(self, "scale", _positive(self.scale, "scale"))

    def check(self, x: ArrayLike) -> Vector:
        """Any finite numbers."""
        found = _numbers(x)
        _spread(self.scale, "scale", len(found))
        return found

    def take(self, here: Any) -> StudentT:
        """The family of some of the observations."""
        return StudentT(self.df, _some(self.scale, here))

    def log_density(self, x: Vector, theta: Parameters) -> Matrix:
        """(n, m) log-densities."""
        scale, df = _spread(self.scale, "scale", len(x))[:, None], self.df
        const = gammaln((df + 1.0) / 2.0) - gammaln(df / 2.0) - 0.5 * math.log(df * math.pi)
        away = ((x[:, None] - theta) / scale) ** 2
        return np.asarray(const - np.log(scale) - (df + 1.0) / 2.0 * np.log1p(away / df))

    def make_grid(self, x: Vector, size: int) -> Parameters:
        """Evenly from the least to the largest observation."""
        return np.unique(np.linspace(x.min(), x.max(), size))

    def lay(self, x: Vector, weights: Vector) -> None:
        """Nothing: its poles and heavy tails have no bound here."""
        return None

    def tops(self, x: Vector) -> Vector:
        """Refuse: nothing is known over all theta."""
        raise NotImplementedError


@final
@dataclass(frozen=True, slots=True, eq=False)
class NormalMeanScale:
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

    def check(self, x: ArrayLike) -> Vector:
        """Any finite numbers."""
        return _numbers(x)

    def take(self, here: Any) -> NormalMeanScale:
        """The same."""
        return self

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

    def lay(self, x: Vector, weights: Vector) -> None:
        """Nothing: two parameters."""
        return None

    def tops(self, x: Vector) -> Vector:
        """Refuse: nothing is known over all theta."""
        raise NotImplementedError


@final
@dataclass(frozen=True, slots=True, eq=False)
class NormalScales:
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

    def __post_init__(self) -> None:
        object.__setattr__(self, "sigma", Normal(self.sigma).sigma)

    def check(self, x: ArrayLike) -> Vector:
        """Any finite numbers."""
        return Normal(self.sigma).check(x)

    def take(self, here: Any) -> NormalScales:
        """The family of some of the observations."""
        return NormalScales(_some(self.sigma, here))

    def log_density(self, x: Vector, theta: Parameters) -> Matrix:
        """(n, m) log-densities."""
        size = np.hypot(_spread(self.sigma, "sigma", len(x))[:, None], theta)
        return np.asarray(-0.5 * (x[:, None] / size) ** 2 - np.log(size) - _HALF_LOG_2PI)

    def condition(self, x: Vector, theta: Parameters) -> tuple[Vector, Vector]:
        """(n, m) means and standard deviations of the mean of each observation, given its scale."""
        sigma = _spread(self.sigma, "sigma", len(x))[:, None]
        share = theta / np.hypot(sigma, theta)
        return x[:, None] * share**2, sigma * share

    def make_grid(self, x: Vector, size: int) -> Parameters:
        """0, and scales from a tenth of the least standard error to twice the largest observation."""
        sigma = _spread(self.sigma, "sigma", len(x))
        least = 0.1 * float(sigma.min())
        return np.append(0.0, np.geomspace(least, max(2.0 * float(np.abs(x).max()), 8.0 * least), size // 4))

    def lay(self, x: Vector, weights: Vector) -> None:
        """Nothing: no bound is known between scales."""
        return None

    def tops(self, x: Vector) -> Vector:
        """Refuse: nothing is known over all theta."""
        raise NotImplementedError


@final
@dataclass(frozen=True, slots=True, eq=False)
class OwnDensity:
    """A log-density of your own. Proved on the grid only, which must be given.

    Parameters
    ----------
    log_density : function
        Of x (n,) and theta (m,) or (m, 2); returns (n, m) log-densities.
    """

    function: Callable[[Any, Any], Any]
    name: ClassVar[str] = "own"

    def __post_init__(self) -> None:
        function(self.function, "family", "a family such as Normal(sigma), or a log-density of x and theta")

    def check(self, x: ArrayLike) -> Vector:
        """Any finite numbers."""
        return _numbers(x)

    def take(self, here: Any) -> OwnDensity:
        """The same."""
        return self

    def log_density(self, x: Vector, theta: Parameters) -> Matrix:
        """(n, m) log-densities, checked."""
        found = real_array(self.function(x, theta), "the log-density", 2)
        wanted = (len(x), len(theta))
        require(found.shape == wanted, "the log-density", f"of shape {wanted}", f"shape {found.shape}")
        return found.astype(np.float64)

    def make_grid(self, x: Vector, size: int) -> Parameters:
        """Refuse: nothing is known of theta."""
        raise ValueError("`grid` must be given with a log-density of your own. Got None.")

    def lay(self, x: Vector, weights: Vector) -> None:
        """Nothing: no bound is known."""
        return None

    def tops(self, x: Vector) -> Vector:
        """Refuse: nothing is known over all theta."""
        raise NotImplementedError


FAMILIES: dict[str, tuple[Callable[..., Any], tuple[str, ...]]] = {
    "normal": (Normal, ("sigma",)),
    "poisson": (Poisson, ("exposure",)),
    "binomial": (Binomial, ("n",)),
    "normal-scales": (NormalScales, ("sigma",)),
    "student-t": (StudentT, ("df", "scale")),
    "normal-mean-scale": (NormalMeanScale, ("least",)),
}
"""By name: how a family is made, and of which numbers; read by saving and the command line."""


def _spread(value: float | Vector, name: str, n: int) -> Vector:
    found = np.asarray(value, np.float64)
    if found.ndim:
        require(
            len(found) == n, name, f"one number, or one for each of {n} observations", f"{len(found)} numbers"
        )
    return np.ascontiguousarray(np.broadcast_to(found, (n,)))


def _stirling(x: Vector) -> Vector:
    """log x! - x log x + x, to all digits: the large parts never meet."""
    small, large = np.minimum(x, 15.0), np.maximum(x, 16.0)
    series = np.zeros_like(large)
    for below in (1188.0, -1680.0, 1260.0, -360.0, 12.0):
        series = series / large**2 + 1.0 / below
    far = 0.5 * np.log(large) + _HALF_LOG_2PI + series / large
    return np.where(x < 16.0, gammaln(small + 1.0) - xlogy(small, small) + small, far)


def _numbers(x: ArrayLike) -> Vector:
    found = vector(x.to_numpy() if hasattr(x, "to_numpy") else x, "x")
    require(len(found) > 0, "x", "at least one observation", "none")
    require_moderate(found, "x")
    return found


def _whole(x: ArrayLike) -> Vector:
    found = _numbers(x)
    bad = np.flatnonzero((found < 0.0) | (found % 1.0 != 0.0))
    require(len(bad) == 0, "x", "whole numbers >= 0", f"{found[bad[:1]]} at index {bad[:1]}")
    return found
