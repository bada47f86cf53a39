"""`MixtureFit`: a mixing distribution, what is proved of it, and what it says of observations.

Its posteriors first, then itself in words and pictures, and how it is saved.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from functools import partial
from os import PathLike
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple, Self, final

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtr

from wolfhound.core.contracts import AtomsLike, Ids, Ints, Matrix, Status, Vector
from wolfhound.core.progress import read_count, show_progress
from wolfhound.core.text import seconds_text
from wolfhound.core.validate import count, number, require, rng, vector, within
from wolfhound.data.atoms import Fingerprint
from wolfhound.data.codec import WEIGHTS, Array, Codec, HasCodec, Scalar, check_weights
from wolfhound.mixtures._newton import EXPONENTS, LikelihoodRows, improve, scale_logs
from wolfhound.mixtures.families import (
    FAMILIES,
    NULL_OBSERVATIONS,
    LikelihoodFamily,
    Normal,
    NormalScales,
    OwnDensity,
    Parameters,
    as_family,
)
from wolfhound.show import plot
from wolfhound.show.markup import Bar, Field, Grid, Picture, RunResult, Summary, list_columns, pick
from wolfhound.solve.result import LISTED, make_frame

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_BLOCK_ENTRIES = 1 << 21
_HALVINGS = 64  # of the range of an observation's quantile
_NAMED = 8  # points of the support that a summary names
# Bars of the data, observations and points of a curve that pictures show.
_BARS, _DRAWN, _CURVE = 60, 2000, 400
_TRUTHS = {"normal": "mean", "poisson": "rate", "binomial": "probability", "normal-scales": "scale around 0"}
_MEANING = (
    "The mixing distribution is how the true parameters are spread, each of which was observed with noise. "
    "No other spread {} explains the observations better by more than the gap, in nats of the mean "
    "log-likelihood."
)
_TAIL = 0.002  # of the mass at each end that a picture may leave out


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
    """Fits to resampled observations, on one grid."""

    grid: Parameters  # (m,)
    masses: Matrix  # (repeats, m) that each fit gives them
    gaps: Vector  # (repeats,) proved on the grid

    def __repr__(self) -> str:
        """How many fits, on what grid, and how good."""
        return (
            f"Bootstrap({len(self.gaps)} fits on a grid of {len(self.grid)}, gaps <= {self.gaps.max():.2g})"
        )


@final
@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class MixtureFit(HasCodec, RunResult):
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
    def message(self) -> str:
        """Why it ended, how good it is and what it took."""
        return f"{self.status.value}: {self._describe_gaps()} after {self.seconds:.3g} s"

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
        return self._gather(x, family, lambda each: each.shares)

    def posterior_mean(self, x: ArrayLike | None = None, family: LikelihoodFamily | None = None) -> Vector:
        """(n,) posterior means: shrunken estimates. (n, 2) for two parameters."""
        if self.support.ndim == 2:
            return self._gather(x, family, lambda each: each.shares @ self.support)
        return self._gather(x, family, lambda each: (each.shares * each.means).sum(axis=1))

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
            below, last = np.cumsum(each.shares, axis=1), len(self.support) - 1
            places = [(below < share).sum(axis=1) for share in (tail, 1.0 - tail - 1e-12)]
            return np.asarray(self.support[np.minimum(np.column_stack(places), last)])

        return self._gather(x, family, ends)

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

        low, high = centre - radius, centre + radius
        return self._gather(
            x, family, lambda each: np.maximum(each.below(high) - each.below(low, strict=True), 0.0)
        )

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

        return self._gather(x, family, rates)

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
        matrix = scale_logs(self.family.log_density(self.x, self.grid), np.float64)[0]
        share = self.weights / self.weights.sum()
        size = max(1, round(float(self.weights.sum())))
        masses, gaps = np.empty((repeats, len(self.grid))), np.empty(repeats)
        null = [] if math.isnan(self.null) else [self.grid == self.null]  # two parameters have none
        only_null = np.reshape(null, (-1, len(self.grid)))
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

    def _gather(self, x: Any, family: LikelihoodFamily | None, tell: Callable[[_Posterior], Any]) -> Vector:
        """What is told of the posteriors of some observations at a time, together."""
        return np.concatenate([tell(each) for each, _ in self._blocks(x, family)])

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
        told = {each.name: getattr(self, each.name) for each in fields(self)}
        for name in ("support", "grid"):  # parameters are columns, two of them or one
            told[name] = told[name].reshape(len(told[name]), -1)
        numbers = (getattr(self.family, each.name) for each in fields(self.family))
        constants = [np.broadcast_to(each, self.x.shape) for each in numbers]
        saved: Any = SimpleNamespace(**told, name=self.family.name, constants=np.array(constants))
        self.codec.save(saved, path)

    @classmethod
    def load(cls, path: str | PathLike[str], atoms: AtomsLike | None = None) -> Self:
        """Read a fit that `save` wrote; StoreError if it is damaged, or of no fit."""
        require(atoms is None, "atoms", "None: a mixture has none", "atoms")
        found: Self = cls.codec.load(path)
        return found

    def summary(self) -> Summary:
        """Return support, gaps and cost."""
        points, n, family = len(self.mass), len(self.x), self.family.name
        heavy = self._find_heavy(_NAMED)
        shown = ", ".join(f"{_show_theta(self.support[i])} ({self.mass[i]:.3g})" for i in heavy)
        more = f", {points - _NAMED} more" if points > _NAMED else ""
        beside = f"; on the grid of {len(self.grid)} {self.gap_on_grid:.2g}"
        on_grid = beside if math.isfinite(self.gap) else f" of {len(self.grid)}"
        gap = f"{self.gap if math.isfinite(self.gap) else self.gap_on_grid:.2g}"
        held = {"support": self.support.tolist(), "mass": self.mass.tolist()}
        seen, cost = {"observations": n, "family": family}, f"{self.seconds:.3g} s, {self.rounds} rounds"
        proved, time = ("proved gap, nats", gap), ("time", seconds_text(self.seconds))
        told = (
            Field("data", f"{n:,} observations, {family}", seen, ("observations", f"{n:,}")),
            Field("support", f"{points} points: {shown}{more}", held, ("points of support", f"{points}")),
            Field("value", f"mean log-likelihood {self.value:.9g}", {"value": self.value}),
            Field("gap", f"{self._describe_gaps()}{on_grid}", pick(self, "gap", "gap_on_grid"), proved),
            ("good for", self._say_use()),
            Field("cost", cost, pick(self, "rounds", "seconds"), time),
        )
        most = float(self.mass.max())
        listed = self._find_heavy(LISTED)
        rows = [(_show_theta(self.support[i]), Bar(self.mass[i], most, ".4g")) for i in listed]
        return Summary.of_run(
            "MixtureFit",
            self.status,
            fields=told,
            tables=(Grid("The mixing distribution", ("theta", "mass"), rows, (0, 1), points),),
            meaning=_MEANING.format("of any shape" if math.isfinite(self.gap) else "on the same grid"),
            title="A mixing distribution",
            message=self.message,
            caption=f"{family} mixture: {self._describe_gaps()}",
            pictures=lambda: _picture_mixture(self),
        )

    def _find_heavy(self, most: int) -> Ids:
        """Places of the points of largest mass, in their order."""
        return np.sort(np.argsort(-self.mass, kind="stable")[:most])

    def _say_use(self) -> str:
        """What a prior of a few points answers well, and which fit the rest; nothing of a smooth one."""
        if isinstance(self.family, NormalScales):
            return ""
        if not isinstance(self.family, Normal):
            return "posterior means; intervals over so few points are too short"
        signs = ", signs" if math.isfinite(self.null) else "; for signs null=0.0 (--null 0)"
        return f"posterior means{signs}; for intervals NormalScales (--family normal-scales)"

    def _describe_gaps(self) -> str:
        """How near the best it is, and among what."""
        if math.isfinite(self.gap):
            return f"within {self.gap:.2g} nats per observation of the best, proved over the continuum"
        return f"within {self.gap_on_grid:.2g} nats per observation of the best on the grid"


def _show_theta(theta: Any) -> str:
    """One parameter, or several in brackets."""
    return f"{theta:.4g}" if np.ndim(theta) == 0 else "(" + ", ".join(f"{each:.4g}" for each in theta) + ")"


# ---------------------------------------------------------------- in pictures


def _picture_mixture(fit: MixtureFit) -> list[Picture]:
    """Prior, marginal against the data, shrinkage; two parameters have no line to stand on."""
    if fit.support.ndim != 1:
        return []
    some = np.linspace(0, len(fit.x) - 1, min(len(fit.x), _DRAWN)).astype(np.int64)
    alone, means = fit.x[some], fit.posterior_mean(fit.x[some], fit.family.take(some))
    if fit.family.name in ("poisson", "binomial"):
        alone = alone / np.broadcast_to(getattr(fit.family, fit.family.varies), fit.x.shape)[some]
    heavy = f"{fit.support[fit.mass.argmax()]:.4g}, has mass {fit.mass.max():.3g}"
    return [
        Picture(
            "The mixing distribution",
            f"{len(fit.mass)} points of support; the heaviest, {heavy}.",
            partial(_draw_prior, fit=fit),
        ),
        Picture(
            "The data, and what was fitted to them",
            f"The density of {len(fit.x):,} observations, and that of the mixture.",
            partial(_draw_marginal, fit=fit, some=some),
        ),
        Picture(
            "How observations are shrunken",
            f"Posterior means of {len(alone):,} observations, from {means.min():.4g} to {means.max():.4g}.",
            partial(_draw_shrinkage, x=alone, means=means),
            list_columns("Posterior means", {"alone": alone, "posterior mean": means}),
        ),
    ]


def _draw_prior(axes: Axes, fit: MixtureFit) -> None:
    """Draw the support where nearly all mass is: one observation far away has a point of its own."""
    plot.draw_stems(axes, fit.support, fit.mass, x=_TRUTHS.get(fit.family.name, "theta"), y="prior mass")
    below = np.cumsum(fit.mass) / fit.mass.sum()
    held = fit.support[(below > _TAIL) & (below - fit.mass < 1.0 - _TAIL)]
    spread, middle = float(np.ptp(held)) or 1.0, 0.5 * float(held.min() + held.max())
    outside = np.flatnonzero(np.abs(fit.support - middle) > 2.0 * spread)
    if len(outside):
        axes.set_xlim(held.min() - 0.2 * spread, held.max() + 0.2 * spread)
        far = ", ".join(f"{_show_theta(fit.support[i])} ({fit.mass[i]:.2g})" for i in outside[:2])
        plot.add_note(axes, f"and far away {far}{', ...' if len(outside) > 2 else ''}")


def _draw_marginal(axes: Axes, fit: MixtureFit, some: Ints) -> None:
    share = fit.weights / fit.weights.sum()
    low, high = plot.robust_limits(fit.x)
    inside, counts = (fit.x >= low) & (fit.x <= high), fit.family.name in ("poisson", "binomial")
    if counts:
        sizes = np.broadcast_to(getattr(fit.family, fit.family.varies), fit.x.shape)
        if np.ptp(sizes) > 0.0:
            _draw_rates(axes, fit, share, sizes, some)
            return
        values, which = np.unique(fit.x, return_inverse=True)
        axes.bar(values, np.bincount(which.ravel(), share), width=0.8, color=plot.SOFT, label="data")
        axes.set_xlim(low - 0.5, high + 0.5)
        first = int(values.max()) + 1
        line, style = np.arange(float(first)) if first <= _CURVE else values, "o-"
    else:
        # Bars are of the share that is shown, so that they stay comparable with the curve.
        height, edges = np.histogram(fit.x[inside], bins=_BARS, weights=share[inside], range=(low, high))
        axes.stairs(height / np.diff(edges), edges, fill=True, color=plot.SOFT, label="data")
        line, style = np.linspace(low, high, _CURVE), "-"
    look: Any = {"markersize": 3.5} if style == "o-" else {"linewidth": 1.8}
    axes.plot(line, _average(fit, line, some), style, color=plot.COLOURS[1], label="fitted", **look)
    plot.finish_axes(axes, "x", "share of observations" if counts else "density", legend=True)
    plot.say_outside(axes, inside, "observations")


def _draw_rates(axes: Axes, fit: MixtureFit, share: Vector, sizes: Vector, some: Ints) -> None:
    """Draw counts of unequal n or exposure as rates: as counts they could not be compared."""
    rates = fit.x / sizes
    low, high = plot.robust_limits(rates)
    inside = (rates >= low) & (rates <= high)
    edges = np.linspace(max(low, 0.0), high, min(_BARS, max(8, math.isqrt(4 * len(rates)))) + 1)
    fitted = np.zeros(len(edges) - 1)
    for i, weight, top in _pick_few(fit, some):
        first, last = math.ceil(edges[0] * sizes[i]), min(top, math.floor(high * sizes[i]))
        step = 1 + int(last - first) // _DRAWN
        line = np.arange(float(first), last + 1.0, step)
        mass = np.exp(fit.family.take(np.full(len(line), i)).log_density(line, fit.support)) @ fit.mass
        fitted += np.histogram(line / sizes[i], edges, weights=step * weight * mass)[0]
    axes.stairs(np.histogram(rates, edges, weights=share)[0], edges, fill=True, color=plot.SOFT, label="data")
    axes.stairs(fitted, edges, color=plot.COLOURS[1], linewidth=1.8, label="fitted")
    plot.finish_axes(axes, f"rate, x / {fit.family.varies}", "share of observations", legend=True)
    plot.say_outside(axes, inside, "observations")


def _pick_few(fit: MixtureFit, some: Ints) -> Iterator[tuple[Any, Any, Any]]:
    """Yield observations that a fitted curve is averaged over, their shares, and how large they can be."""
    picked = some[np.linspace(0, len(some) - 1, min(len(some), 100)).astype(np.int64)]
    shares = fit.weights[picked] / max(fit.weights[picked].sum(), 1e-300)
    most: Any = getattr(fit.family, "n", math.inf)  # no more successes than trials
    yield from zip(picked, shares, np.broadcast_to(most, fit.x.shape)[picked], strict=True)


def _average(fit: MixtureFit, line: Vector, some: Ints) -> Vector:
    """Marginal density, averaged over the observations' own families."""
    out = np.zeros(len(line))
    for i, weight, top in _pick_few(fit, some):
        inside = line <= top
        family = fit.family.take(np.full(int(inside.sum()), i))
        out[inside] += weight * (np.exp(family.log_density(line[inside], fit.support)) @ fit.mass)
    return out


def _draw_shrinkage(axes: Axes, x: Vector, means: Vector) -> None:
    ends = [float(min(x.min(), means.min())), float(max(x.max(), means.max()))]
    axes.plot(ends, ends, color=plot.GREY, linestyle="--", linewidth=1.0, label="no shrinkage")
    size = 24.0 if len(x) <= _BARS else 8.0
    axes.scatter(x, means, s=size, color=plot.COLOURS[0], linewidths=0.0, alpha=0.6, label="posterior mean")
    plot.finish_axes(axes, "estimate of each alone", "posterior mean", legend=True)
    plot.limit_axes(axes, np.column_stack([x, means]), "observations")


# ---------------------------------------------------------------- saved


def _make(*, name: str, constants: NDArray[np.float64], **told: Any) -> MixtureFit:
    """A fit from what was saved: two parameters are columns."""
    require(name in FAMILIES, "family", f"one of {', '.join(FAMILIES)}", repr(name))
    wanted = len(fields(FAMILIES[name]))
    require(len(constants) == wanted, "constants", f"{wanted} rows", len(constants))
    # What is the same for all observations is one number.
    values = [row if np.ptp(row) > 0.0 else float(row[0]) for row in constants]
    if told["support"].shape[1] == 1:
        told |= {each: told[each][:, 0] for each in ("support", "grid")}
    return MixtureFit(**told, family=FAMILIES[name](*values))


def _check(fit: MixtureFit) -> None:
    check_weights(fit.mass)
    for gap in (fit.gap, fit.gap_on_grid):
        require(gap >= 0.0, "gap", ">= 0", gap)
    require(bool(fit.weights.sum() > 0.0), "weights", "of a positive sum", fit.weights.sum())
    fit.family.check(fit.x)
    right = (fit.support.ndim == 2) == (fit.family.name == "normal-mean-scale")
    require(right, "support", "of the family's parameters", fit.support.shape)


MixtureFit.codec = Codec(
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
        **dict.fromkeys(("value", "gap", "null", "gap_on_grid"), Scalar.NUMBER),
        "seconds": Scalar.COST,
        "rounds": Scalar.COUNT,
        "name": Scalar.TEXT,
        "status": Scalar.STATUS,
    },
    _check,
)
