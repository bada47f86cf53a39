"""`MixtureFit`: a mixing distribution, what is proved of it, and what it says of observations."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from os import PathLike
from typing import Any, NamedTuple, final

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtr

from wolfhound.atoms import Fingerprint
from wolfhound.codec import WEIGHTS, Array, Codec, Scalar, check_weights
from wolfhound.core import AtomsLike, Ids, Matrix, Status, Vector
from wolfhound.display import read_count, show_progress
from wolfhound.markup import HasSummary, Summary
from wolfhound.mixtures._newton import improve
from wolfhound.mixtures._rows import EXPONENTS, LikelihoodRows, scale_logs
from wolfhound.mixtures.families import (
    FAMILIES,
    NULL_OBSERVATIONS,
    LikelihoodFamily,
    NormalScales,
    OwnDensity,
    Parameters,
)
from wolfhound.mixtures.words import describe_gaps, summarise
from wolfhound.result import make_frame
from wolfhound.validate import count, number, require, rng, vector, within

_BLOCK_ENTRIES = 1 << 21

_HALVINGS = 64
"""Of the range of an observation's quantile."""


class _Posterior(NamedTuple):
    """Probabilities of the support for some observations, and what each point says of their parameters."""

    shares: Matrix  # (n, k) posterior probabilities
    means: Vector  # (n, k) or (k,) of the parameter, given a point of the support
    deviations: Vector  # 0: the mean is that number itself

    def below(self, level: Vector | float, *, strict: bool = False) -> Vector:
        """(n,) probabilities that the parameter is at most the level, one or (n,), or below it."""
        away = np.broadcast_to(level, len(self.shares))[:, None] - self.means
        point = away > 0.0 if strict else away >= 0.0
        with np.errstate(divide="ignore", invalid="ignore"):
            smooth = ndtr(away / self.deviations)
        return np.asarray((self.shares * np.where(self.deviations > 0.0, smooth, point)).sum(axis=1))

    def quantile(self, share: float) -> Vector:
        """(n,) least numbers that the parameter is at most with this probability."""
        far = 40.0 * self.deviations
        low = np.broadcast_to(self.means - far, self.shares.shape).min(axis=1)
        high = np.broadcast_to(self.means + far, self.shares.shape).max(axis=1)
        for _ in range(_HALVINGS):
            middle = 0.5 * (low + high)
            enough = self.below(middle) >= share
            low, high = np.where(enough, low, middle), np.where(enough, middle, high)
        for column in np.flatnonzero(~self.deviations.any(axis=0)):  # a point is hit exactly, or not at all
            point = self.means[:, column]
            hit = (self.below(point, strict=True) < share) & (self.below(point) >= share)
            high = np.where(hit, point, high)
        return np.asarray(high)


class Bootstrap(NamedTuple):
    """Fits to resampled observations, on one grid.

    Attributes
    ----------
    grid : (m,)
        Parameters.
    masses : (repeats, m)
        The mass that each fit gives them.
    gaps : (repeats,)
        Proved gaps on the grid.
    """

    grid: Parameters
    masses: Matrix
    gaps: Vector


@final
@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class MixtureFit(HasSummary):
    """A mixing distribution fitted by maximum likelihood.

    Attributes
    ----------
    support : (k,) or (k, 2)
        Parameters, increasing.
    mass : (k,)
        Their probabilities.
    value : float
        Mean log-likelihood of the observations, as computed.
    gap : float
        Proved over the continuum: no mixing distribution at all has a mean log-likelihood
        that is larger by more, in nats. inf where that is not proved: Student-t,
        two parameters, densities of your own.
    gap_on_grid : float
        Proved: none on `grid` has.
    grid : (m,) or (m, 2)
        Parameters that were tried, the support among them.
    x, weights : (n,)
        The observations and their weights, as given.
    family : LikelihoodFamily
        Of the observations.
    null : float
        The parameter whose mass the fit was asked to favour (`npmle(null=)`); nan: none. `value` and
        gaps are then those of the likelihood with its penalty.
    rounds, seconds
        Certificates, or reads of the likelihoods, and the time that it took.
    status : Status
        Why it ended.
    ids : (n,) int64, optional
        Rows of the column that `x` was; None: all of it.

    Examples
    --------
    >>> from wolfhound import Poisson, npmle
    >>> fit = npmle(range(8), Poisson(), weights=[7840, 1317, 239, 42, 14, 4, 4, 1])
    >>> fit.success, fit.gap <= 1e-6, fit.support.round(2)
    (True, True, array([0.  , 0.34, 2.56]))
    >>> fit.posterior_mean([0, 1, 2]).round(2)
    array([0.17, 0.36, 0.53])
    """

    support: Parameters
    mass: Vector
    value: float
    gap: float
    gap_on_grid: float
    grid: Parameters
    x: Vector
    weights: Vector
    family: LikelihoodFamily
    rounds: int
    seconds: float
    status: Status
    null: float = math.nan
    ids: Ids | None = None
    fingerprint: Fingerprint = ()

    @property
    def success(self) -> bool:
        """Whether the wanted gap is proved."""
        return self.status.success

    @property
    def message(self) -> str:
        """Why it ended, how good it is and what it took."""
        return f"{self.status.value}: {describe_gaps(self)} after {self.seconds:.3g} s"

    def posterior(self, x: ArrayLike | None = None, family: LikelihoodFamily | None = None) -> Matrix:
        """(n, k) posterior probabilities of the support, for each observation.

        Parameters
        ----------
        x : (n,), optional
            Observations; those of the fit if not given.
        family
            Theirs, such as ``Normal(standard_errors)``; by default that of the fit, if it is
            the same for all observations.
        """
        return np.concatenate([each.shares for each, _ in self._blocks(x, family)])

    def posterior_mean(self, x: ArrayLike | None = None, family: LikelihoodFamily | None = None) -> Vector:
        """(n,) posterior means: shrunken estimates. (n, 2) for two parameters."""
        if self.support.ndim == 2:
            return np.concatenate([each.shares @ self.support for each, _ in self._blocks(x, family)])
        return np.concatenate([(each.shares * each.means).sum(axis=1) for each, _ in self._blocks(x, family)])

    def posterior_interval(
        self, x: ArrayLike | None = None, family: LikelihoodFamily | None = None, *, level: float = 0.95
    ) -> Matrix:
        """(n, 2) ends of intervals with at least this posterior probability, equal tails.

        The largest likelihood puts the prior on a few points, so that the intervals of an `npmle` of
        `Normal` are too short for truths that spread smoothly: fit `NormalScales` for intervals.
        """
        tail = (1.0 - within(level, "level", "(0, 1)")) / 2.0
        self._line("posterior_interval")

        def ends(each: _Posterior) -> Matrix:
            if each.deviations.any():
                return np.column_stack([each.quantile(tail), each.quantile(1.0 - tail)])
            below = np.cumsum(each.shares, axis=1)
            last, theta = len(self.support) - 1, self.support
            return np.column_stack(
                [theta[np.minimum((below < share).sum(axis=1), last)] for share in (tail, 1.0 - tail - 1e-12)]
            )

        return np.concatenate([ends(each) for each, _ in self._blocks(x, family)])

    def local_fdr(
        self,
        x: ArrayLike | None = None,
        family: LikelihoodFamily | None = None,
        *,
        null: float = 0.0,
        radius: float = 0.0,
    ) -> Vector:
        """(n,) posterior probabilities that the parameter is within `radius` of `null`.

        A plain fit has points of support near the null, none of them at it: fit with `npmle(null=)`.
        """
        radius, centre = number(radius, "radius", low=0.0), number(null, "null")
        self._line("local_fdr")

        def inside(each: _Posterior) -> Vector:
            found = each.below(centre + radius) - each.below(centre - radius, strict=True)
            return np.maximum(found, 0.0)

        return np.concatenate([inside(each) for each, _ in self._blocks(x, family)])

    def lfsr(
        self, x: ArrayLike | None = None, family: LikelihoodFamily | None = None, *, null: float = 0.0
    ) -> Vector:
        """(n,) local false sign rates: the smaller of P(theta >= null) and P(theta <= null).

        Where many parameters are exactly the null, a plain fit puts their mass beside it, on one side, and
        these rates are far too small: fit with `npmle(null=)`.
        """
        centre = number(null, "null")
        self._line("lfsr")

        def rates(each: _Posterior) -> Vector:
            mirrored = each._replace(means=-each.means)  # small probabilities above keep their digits
            return np.minimum(each.below(centre), mirrored.below(-centre))

        return np.concatenate([rates(each) for each, _ in self._blocks(x, family)])

    def density(self, x: ArrayLike | None = None, family: LikelihoodFamily | None = None) -> Vector:
        """(n,) densities, or probabilities, of observations under the mixture."""
        with np.errstate(over="ignore", under="ignore"):
            return np.asarray(np.exp(np.concatenate([logs for _, logs in self._blocks(x, family)])))

    def log_likelihood(
        self,
        x: ArrayLike | None = None,
        family: LikelihoodFamily | None = None,
        *,
        weights: ArrayLike | None = None,
    ) -> float:
        """Sum of the log-densities of observations, times weights if given."""
        logs = np.concatenate([logs for _, logs in self._blocks(x, family)])
        if weights is None:
            return float(self.weights @ logs) if x is None else float(logs.sum())
        found = vector(weights, "weights", size=len(logs))
        return float(found @ logs)

    def sample(self, size: int, *, seed: int | np.random.Generator = 0) -> Parameters:
        """Draw parameters from the prior; of `NormalScales`, means of observations."""
        share, generator = self.mass / self.mass.sum(), rng(seed)
        drawn = self.support[generator.choice(len(share), count(size, "size"), p=share)]
        return drawn * generator.standard_normal(size) if isinstance(self.family, NormalScales) else drawn

    def bootstrap(
        self, repeats: int, *, progress: bool | None = None, seed: int | np.random.Generator = 0
    ) -> Bootstrap:
        """Fit resampled observations on the grid of this fit, each from its mass.

        Observations are drawn by weights, so their likelihoods are evaluated once.
        """
        generator, repeats = rng(seed), count(repeats, "repeats", low=1)
        logs = self.family.log_density(self.x, self.grid)
        matrix = scale_logs(logs, np.float64)[0]
        share = self.weights / self.weights.sum()
        size = max(1, round(float(self.weights.sum())))
        masses, gaps = np.empty((repeats, len(self.grid))), np.empty(repeats)
        only_null = np.full((0 if math.isnan(self.null) else 1, len(self.grid)), self.grid == self.null)
        with show_progress(progress, read_count("resamples", repeats)) as hear:
            for i in range(repeats):
                drawn = generator.multinomial(size, share)
                some = np.flatnonzero(drawn)
                held = np.append(drawn[some], np.full(len(only_null), NULL_OBSERVATIONS))
                rows = LikelihoodRows(np.vstack([matrix[some], only_null]), held / held.sum(), lost=EXPONENTS)
                found = improve(rows, np.full(len(self.grid), 1.0 / len(self.grid)), 1e-6)
                masses[i], gaps[i] = found.x, found.gap
                if hear is not None:
                    hear(i + 1)
        return Bootstrap(self.grid, masses, gaps)

    def _line(self, name: str) -> None:
        if self.support.ndim != 1:
            raise ValueError(f"{name} must have one parameter. Got {self.support.shape[1]}: use posterior.")

    def _blocks(self, x: Any, family: LikelihoodFamily | None) -> Iterator[tuple[_Posterior, Vector]]:
        """(posterior, log-densities) of some observations at a time."""
        if x is None:
            require(family is None, "family", "given with the observations `x`", "`family` alone")
            found, used = self.x, self.family
        else:
            used = self.family if family is None else as_family(family)
            found = used.check(x)
        step = max(1, _BLOCK_ENTRIES // len(self.mass))
        with np.errstate(divide="ignore"):
            prior = np.log(self.mass)
        for first in range(0, max(len(found), 1), step):
            here = slice(first, first + step)
            logs = used.take(here).log_density(found[here], self.support) + prior
            most = np.max(logs, axis=1)
            most = np.where(np.isfinite(most), most, 0.0)
            with np.errstate(under="ignore", divide="ignore", invalid="ignore"):
                rows = np.exp(logs - most[:, None])
                total = rows.sum(axis=1)
                shares, levels = rows / total[:, None], np.log(total) + most
            told = self.support, np.zeros(1)
            if isinstance(used, NormalScales):
                told = used.take(here).condition(found[here], self.support)
            yield _Posterior(shares, *told), levels

    def to_frame(self) -> Any:
        """The support and its mass as a pandas frame."""
        names = ["theta"] if self.support.ndim == 1 else ["mu", "sigma"]
        columns = dict(zip(names, np.atleast_2d(self.support.T), strict=True))
        return make_frame({**columns, "mass": self.mass})

    def save(self, path: str | PathLike[str]) -> None:
        """Write to a file that `wolfhound.load` reads; a density of your own cannot be saved."""
        if isinstance(self.family, OwnDensity):
            raise ValueError("`family` must not be a function to be saved. Save `support` and `mass`.")
        CODEC.save(self, path)

    @classmethod
    def load(cls, path: str | PathLike[str], atoms: AtomsLike | None = None) -> MixtureFit:
        """Read a fit that `save` wrote; StoreError if it is damaged, or of no fit."""
        require(atoms is None, "atoms", "None: a mixture has none", "atoms")
        return CODEC.load(path)

    @property
    def constants(self) -> NDArray[np.float64]:
        """(numbers, n) numbers of the family, as they are saved."""
        names = FAMILIES[self.family.name][1]
        return np.array([np.broadcast_to(getattr(self.family, name), self.x.shape) for name in names])

    def summary(self) -> Summary:
        """Return support, gaps and cost."""
        return summarise(self)


def as_family(value: Any) -> LikelihoodFamily:
    """A family as it is; a function becomes one."""
    if hasattr(value, "log_density") and hasattr(value, "lay") and not isinstance(value, type):
        family: LikelihoodFamily = value
        return family
    return OwnDensity(value) if not isinstance(value, type) else OwnDensity(None)  # type: ignore[arg-type]


# ---------------------------------------------------------------- saved


def _make(*, name: str, constants: NDArray[np.float64], **fields: Any) -> MixtureFit:
    """A fit from what was saved: two parameters are columns."""
    require(name in FAMILIES, "family", f"one of {', '.join(FAMILIES)}", repr(name))
    make, names = FAMILIES[name]
    require(len(constants) == len(names), "constants", f"{len(names)} rows", len(constants))
    # What is the same for all observations is one number.
    values = [row if np.ptp(row) > 0.0 else float(row[0]) for row in constants]
    one = fields["support"].shape[1] == 1
    for each in ("support", "grid"):
        fields[each] = fields[each][:, 0] if one else fields[each]
    return MixtureFit(**fields, family=make(*values))


def _check(fit: MixtureFit) -> None:
    check_weights(fit.mass)
    for gap in (fit.gap, fit.gap_on_grid):
        require(gap >= 0.0, "gap", ">= 0", gap)
    require(bool(fit.weights.sum() > 0.0), "weights", "of a positive sum", fit.weights.sum())
    fit.family.check(fit.x)
    right = (fit.support.ndim == 2) == (fit.family.name == "normal-mean-scale")
    require(right, "support", "of the family's parameters", fit.support.shape)


class _Saved(NamedTuple):
    """What of a fit is written: as its fields, but for the family."""

    fit: MixtureFit

    def __getattr__(self, name: str) -> Any:
        value: Any = self.fit.family.name if name == "name" else getattr(self.fit, name)
        return value[:, None] if name in ("support", "grid") and value.ndim == 1 else value


class _FitCodec:
    """`Codec` of fits, whose parameters are always written as columns."""

    def __init__(self, codec: Codec[MixtureFit]) -> None:
        self._codec = codec

    def save(self, fit: MixtureFit, path: str | PathLike[str]) -> None:
        """Write to a file."""
        self._codec.save(_Saved(fit), path)  # type: ignore[arg-type]

    def load(self, path: str | PathLike[str]) -> MixtureFit:
        """Read it back, checked."""
        return self._codec.load(path)


CODEC = _FitCodec(
    Codec(
        "mixture",
        _make,
        {
            "support": Array(shape=("k", "p"), low=-1e150, high=1e150),
            "mass": Array(shape=("k",), low=0.0, high=1.0 + WEIGHTS),
            "grid": Array(shape=("m", "p"), low=-1e150, high=1e150),
            "x": Array(shape=("observations",), low=-1e150, high=1e150),
            "weights": Array(shape=("observations",), low=0.0, high=1e300),
            "ids": Array(shape=("observations",), dtype=np.int64, low=0, optional=True),
            "constants": Array(shape=("numbers", "observations"), low=0.0, high=1e300),
            "value": Scalar.NUMBER,
            "gap": Scalar.NUMBER,
            "null": Scalar.NUMBER,
            "gap_on_grid": Scalar.NUMBER,
            "seconds": Scalar.COST,
            "rounds": Scalar.COUNT,
            "name": Scalar.TEXT,
            "status": Scalar.STATUS,
        },
        _check,
    )
)
"""How fits are saved."""
