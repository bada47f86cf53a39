"""`npmle`: the mixing distribution of largest likelihood, proved over all of them."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from wolfhound.core.contracts import Ids, Vector
from wolfhound.core.progress import Job, Reading, show_progress, time_solving
from wolfhound.core.rounding import UNIT, gamma
from wolfhound.core.validate import count, hint_keywords, number, real_array, require, require_finite
from wolfhound.data.encoding import Missing, check_missing, read_numbers
from wolfhound.mixtures._continuum import Continuum
from wolfhound.mixtures._exchange import exchange
from wolfhound.mixtures._newton import EXPONENTS, NARROW, LikelihoodRows, judge_end, scale_logs, solve
from wolfhound.mixtures.families import NULL_OBSERVATIONS, LikelihoodFamily, Parameters, as_family
from wolfhound.mixtures.fit import MixtureFit
from wolfhound.mixtures.weights import FLOAT32_GAP, check_weights

_BLOCK_ENTRIES = 1 << 21
_GRID = 300
_CHECKED = 150  # points of the grid on which `gap_on_grid` is told where none was given, besides the support
_ROUNDS = 60  # most rounds in which places where the certificate is largest join the grid


@hint_keywords
def npmle(
    x: ArrayLike,
    family: LikelihoodFamily | Callable[[Any, Any], Any],
    weights: ArrayLike | None = None,
    grid: ArrayLike | None = None,
    *,
    missing: Missing | str = Missing.DROP,
    null: float | None = None,
    atol: float = 1e-6,
    max_seconds: float = math.inf,
    progress: bool | None = None,
    seed: int = 0,
) -> MixtureFit:
    """Nonparametric maximum likelihood of a mixing distribution, with a proved gap.

    Maximises sum_j w_j log int p_j(x_j | theta) dF(theta) over all distributions F of theta.
    For Normal, Poisson and Binomial the support is free and the gap is proved over the
    continuum; else, or if a grid is given, over the grid, and `gap` says what leaving the
    grid could bring, inf where that is not known.

    Parameters
    ----------
    x : (n,)
        Observations.
    family
        `Normal(sigma)`, `Poisson(exposure)`, `Binomial(n)`, `StudentT(df, scale)`,
        `NormalScales(sigma)`, `NormalMeanScale(least)`, or a function of x (n,) and theta (m,) that
        returns (n, m) log-densities, together with a grid.
    weights : (n,), optional
        Of the observations, such as counts: 8 distinct counts are 8 observations.
    grid : (m,) or (m, 2), optional
        Parameters to choose among.
    missing
        Observations of a column of a frame that are missing are left out, `Missing.DROP`, or
        refused, `Missing.ERROR`; `ids` of the fit says which are there.
    null : float, optional
        A parameter that many observations have exactly, such as no effect, 0. It is in the support, and
        its mass p adds 9 log p to the log-likelihood, as ash does: 9 observations that only the null
        explains. What a fit says of signs and of false discoveries is calibrated only so.
    atol
        Wanted gap, in nats per observation.
    max_seconds
        Stop after a round that ends later.
    progress
        As for `minimize`.
    seed
        Of the sample of observations that very tall problems begin with.

    Returns
    -------
    MixtureFit

    Examples
    --------
    >>> from wolfhound import Normal
    >>> x = np.array([-2.1, -1.9, -0.1, 0.0, 0.1, 2.2, 2.4])
    >>> fit = npmle(x, Normal(0.5))
    >>> fit.support.round(1) + 0.0, fit.gap <= 1e-6
    (array([-2. ,  0. ,  2.3]), True)
    """
    begin = time.perf_counter()
    used = as_family(family)
    x, used, weights, ids = _leave_out(x, used, weights, missing)
    found = used.check(x)
    atol = number(atol, "atol", low=0.0, strict=True)
    end = begin + number(max_seconds, "max_seconds", low=0.0)
    raw = np.ones(len(found)) if weights is None else check_weights(weights, len(found))
    distinct = _collapse(used, found, raw)
    held = None if null is None else _check_null(used, null)
    if held is not None:  # beside the observations, those that only the null explains
        penalty = NULL_OBSERVATIONS / (float(raw.sum()) + NULL_OBSERVATIONS)
        shares = (1.0 - penalty) * distinct.shares
        distinct = distinct._replace(shares=shares, penalty=penalty, null=held)
    seed = count(seed, "seed")
    data = distinct.family.lay(distinct.x, distinct.shares)
    job = _Job(atol, end, seed)
    n = len(distinct.x)

    def read(job: Job) -> Reading:
        return Reading(0.0, f"{job.swept / n:,.0f} reads of {n:,} observations, {job.seconds:.0f} s")

    with show_progress(progress, read):
        if data is not None and grid is None and held is None:
            done = _fit_freely(data, distinct, job)
        elif data is not None and grid is None:
            done = _fit_beside_null(data, distinct, _check_grid(used, found, None), job)
        else:
            done = _fit_on_grid(data, distinct, _check_grid(used, found, grid), job)[0]
    gap = done.gap_on_grid if data is None or grid is not None else done.gap
    told = done._asdict()
    slack = told.pop("slack")
    return MixtureFit(
        **told,
        x=found,
        weights=raw,
        family=used,
        null=math.nan if held is None else held,
        ids=ids,
        seconds=time_solving(begin),
        status=judge_end(gap, atol, slack, late=time.perf_counter() > end),
    )


def _leave_out(
    x: Any, family: LikelihoodFamily, weights: Any, missing: Missing | str
) -> tuple[Any, LikelihoodFamily, Any, Ids | None]:
    """Leave out the missing observations of a column; arrays stay as they are."""
    missing = check_missing(missing)
    rule = "Missing.DROP or Missing.ERROR: a mean is no observation"
    require(missing in (Missing.DROP, Missing.ERROR), "missing", rule, missing)
    read = read_numbers(x)
    if read is None:
        return x, family, weights, None
    values, gone = read
    if not gone.any():
        return values, family, weights, None
    told = f"{gone.sum():,} missing, the first in row {gone.argmax()}"
    require(missing is Missing.DROP, "x", "free of missing values; leave them out (Missing.DROP)", told)
    keep = np.flatnonzero(~gone).astype(np.int64)
    if weights is not None:
        weights = check_weights(weights, len(values))[keep]
    return values[keep], family.take(keep), weights, keep


class _Distinct(NamedTuple):
    """Observations without repeats; the share of those that only the null explains, and that parameter."""

    family: LikelihoodFamily
    x: Vector
    shares: Vector
    penalty: float = 0.0
    null: float = math.nan


class _Job(NamedTuple):
    """The wanted gap, when to stop, and the seed of samples."""

    atol: float
    end: float
    seed: int


class _Found(NamedTuple):
    """What a fit found."""

    support: Parameters
    mass: Vector
    value: float
    gap: float
    gap_on_grid: float
    slack: float
    grid: Parameters
    rounds: int


def _collapse(family: LikelihoodFamily, x: Vector, weights: Vector) -> _Distinct:
    """Sum the weights of equal observations; those of weight 0 are left out."""
    keep = np.flatnonzero(weights)
    if len(keep) < len(x):
        family, x, weights = family.take(keep), x[keep], weights[keep]
    told = np.array([x, np.broadcast_to(getattr(family, family.varies), x.shape)] if family.varies else [x])
    _, first, which = np.unique(told, axis=1, return_index=True, return_inverse=True)
    if len(first) < len(x):
        summed = np.asarray(np.bincount(which.ravel(), weights), np.float64)
        family, x, weights = family.take(first), x[first], summed
    return _Distinct(family, x, weights / weights.sum())


def _check_null(family: LikelihoodFamily, null: float) -> float:
    """The parameter that stands for the null."""
    found = number(null, "null")
    low, high = family.limits
    require(low <= found <= high and math.isfinite(found), "null", f"from {low:g} to {high:g}", null)
    only = family.name != "normal-scales" or found == 0.0
    require(only, "null", "0 with NormalScales, whose effects are around it: subtract it from x", null)
    one = family.name != "normal-mean-scale"
    require(one, "null", "None with two parameters", null)
    return found


def _fit_beside_null(data: Continuum, distinct: _Distinct, grid: Parameters, job: _Job) -> _Found:
    """The support is anywhere, and at the null: places where the certificate is largest join it."""
    best: _Found | None = None
    for _ in range(_ROUNDS):
        found, places = _fit_on_grid(data, distinct, grid, job._replace(atol=0.3 * job.atol))
        if best is None or found.gap < best.gap:
            best = found
        if best.gap <= job.atol or time.perf_counter() > job.end:
            break
        grid = np.unique(np.concatenate([found.support, data.to_theta(places)]))
    return best  # type: ignore[return-value]


def _fit_freely(data: Continuum, distinct: _Distinct, job: _Job) -> _Found:
    """The support is anywhere."""
    done = exchange(data, atol=job.atol, end=job.end)
    order = np.argsort(done.theta, kind="stable")
    theta, mass = done.theta[order], done.mass[order]
    even = data.to_theta(np.linspace(data.low, data.high, _CHECKED))
    grid = np.unique(np.concatenate([theta, even]))
    return _Found(
        support=theta,
        mass=mass,
        value=done.value + float(distinct.shares @ distinct.family.tops(distinct.x)),
        gap=done.gap,
        gap_on_grid=min(done.gap, _bound_on_grid(data, done.f, grid)),
        slack=done.slack,
        grid=grid,
        rounds=done.rounds,
    )


def _bound_on_grid(data: Continuum, f: Vector, grid: Parameters, least: float = 0.0) -> float:
    """log max G over the grid, rounding included, or `least` if that is more."""
    if not f.min() > 0.0:
        return math.inf
    step = max(1, _BLOCK_ENTRIES // len(grid))
    total, c = np.zeros(len(grid)), data.w / f
    for first in range(0, data.n, step):
        here = slice(first, first + step)
        total += c[here] @ data.likelihood_of(grid, here)
    top = float(total.max()) + float(c @ data.bound_rounding(0.4))
    lost = data.rounding(f, len(grid)) + gamma(data.n + 16)
    return max(math.log(top / math.fsum(data.w)) + lost, least)


def _check_grid(family: LikelihoodFamily, x: Vector, grid: ArrayLike | None) -> Parameters:
    if grid is None:
        return family.make_grid(x, _GRID)
    axes = 2 if family.name == "normal-mean-scale" or np.ndim(grid) == 2 else 1
    found = real_array(grid, "grid", axes).astype(np.float64)
    require(len(found) > 0, "grid", "at least one parameter", "none")
    require_finite(found, "grid")
    low, high = family.limits
    good = low <= found.min() and found.max() <= high
    require(good, "grid", f"from {low:g} to {high:g}", f"{found.min():g} .. {found.max():g}")
    return np.unique(found, axis=0)


def _fit_on_grid(
    data: Continuum | None, distinct: _Distinct, grid: Parameters, job: _Job
) -> tuple[_Found, Vector]:
    """The support is among these parameters and the null; also where the certificate is largest."""
    if distinct.penalty:
        grid = np.union1d(grid, [distinct.null])
    n, m = len(distinct.x), len(grid)
    narrow = job.atol >= FLOAT32_GAP and n * m > 1 << 24
    matrix = np.empty((n + (distinct.penalty > 0.0), m), np.float32 if narrow else np.float64)
    offset = 0.0
    step = max(1, _BLOCK_ENTRIES // m)
    for first in range(0, n, step):
        here = slice(first, min(first + step, n))
        logs = distinct.family.take(here).log_density(distinct.x[here], grid)
        top = logs.max(axis=1)
        bad = np.flatnonzero(~np.isfinite(top))[:1]
        rule = "below inf, no nan, and above -inf for a parameter of the grid"
        require(len(bad) == 0, "the log-density", rule, f"{top[bad]} for observation {first + bad}")
        matrix[here], tops = scale_logs(logs, matrix.dtype)
        offset += float(distinct.shares[here] @ tops)
    shares = distinct.shares
    if distinct.penalty:
        matrix[n], shares = grid == distinct.null, np.append(shares, distinct.penalty)
    rows = LikelihoodRows(matrix, shares, lost=EXPONENTS + (NARROW if narrow else 0.0))
    done = solve(rows, job.atol, seed=job.seed, end=job.end)
    keep = done.x > 0.0
    theta, mass = grid[keep], done.x[keep] / done.x[keep].sum()
    gap, places = math.inf, np.empty(0)
    if data is not None:
        f, gap, _, proof = data.prove(theta, mass)
        # Heights are of sampled places: the true maxima beside them are somewhat higher.
        places = proof.places[proof.heights > 1.0 - 10.0 * gap]
        if distinct.penalty:
            gap = _bound_beside_null(data, distinct, f, gap, float(mass[theta == distinct.null].sum()))
    slack = rows.slack(done.look, len(theta))
    return _Found(theta, mass, done.look.value + offset, gap, done.gap, slack, grid, done.reads), places


def _bound_beside_null(data: Continuum, distinct: _Distinct, f: Vector, away: float, mass: float) -> float:
    """A gap with a null: elsewhere the largest G is that of the observations, at the null more is added.

    The logarithm is concave, so that no other mixture has a mean log-likelihood that is larger by more
    than log max(G elsewhere, G(null) + penalty / mass), the shares of observations and penalty summing to 1.
    """
    if mass == 0.0 or not math.isfinite(away):
        return math.inf
    total = math.fsum(data.w)
    at_null = total * math.exp(_bound_on_grid(data, f, np.array([distinct.null]), least=-math.inf))
    top = max(total * math.exp(away), at_null + distinct.penalty / mass)
    return max(math.log(top / (total + distinct.penalty)) + 64.0 * UNIT, 0.0)
