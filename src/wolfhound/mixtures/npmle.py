"""`npmle`: the mixing distribution of largest likelihood, proved over all of them."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from wolfhound.core import Ids, Ints, Matrix, Vector
from wolfhound.encoding import Missing, check_missing, read_numbers
from wolfhound.mixtures import _newton
from wolfhound.mixtures._continuum import Continuum
from wolfhound.mixtures._exchange import bound_gap, exchange
from wolfhound.mixtures._rows import EXPONENTS, NARROW, LikelihoodRows, judge_end, scale_logs
from wolfhound.mixtures.families import LikelihoodFamily, Parameters
from wolfhound.mixtures.fit import MixtureFit, as_family
from wolfhound.mixtures.weights import FLOAT32_GAP, check_weights
from wolfhound.rounding import gamma
from wolfhound.validate import count, number, real_array, require, require_finite

_BLOCK_ENTRIES = 1 << 21
_GRID = 300
_RANGES = {"poisson": (0.0, math.inf), "binomial": (0.0, 1.0)}
_CHECKED = 150
"""Points of the grid on which `gap_on_grid` is told where none was given, besides the support."""


def npmle(
    x: ArrayLike,
    family: LikelihoodFamily | Callable[[Any, Any], Any],
    weights: ArrayLike | None = None,
    grid: ArrayLike | None = None,
    *,
    missing: Missing = Missing.DROP,
    atol: float = 1e-6,
    max_seconds: float = math.inf,
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
        `NormalMeanScale(least)`, or a function of x (n,) and theta (m,) that returns (n, m)
        log-densities, together with a grid.
    weights : (n,), optional
        Of the observations, such as counts: 8 distinct counts are 8 observations.
    grid : (m,) or (m, 2), optional
        Parameters to choose among.
    missing
        Observations of a column of a frame that are missing are left out, `Missing.DROP`, or
        refused, `Missing.ERROR`; `ids` of the fit says which are there.
    atol
        Wanted gap, in nats per observation.
    max_seconds
        Stop after a round that ends later.
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
    begin = time.monotonic()
    used = as_family(family)
    x, used, weights, ids = _leave_out(x, used, weights, missing)
    found = used.check(x)
    atol = number(atol, "atol", low=0.0, strict=True)
    end = begin + number(max_seconds, "max_seconds", low=0.0)
    raw = np.ones(len(found)) if weights is None else check_weights(weights, len(found))
    distinct = _collapse(used, found, raw)
    seed = count(seed, "seed")
    data = distinct.family.lay(distinct.x, distinct.shares) if grid is None else None
    if data is not None:
        done = _fit_freely(data, distinct, atol=atol, end=end)
    else:
        done = _fit_on_grid(distinct, _check_grid(used, found, grid), atol=atol, end=end, seed=seed)
    gap = done.gap_on_grid if data is None else done.gap
    told = done._asdict()
    slack = told.pop("slack")
    return MixtureFit(
        **told,
        x=found,
        weights=raw,
        family=used,
        ids=ids,
        seconds=time.monotonic() - begin,
        status=judge_end(gap, atol, slack, late=time.monotonic() > end),
    )


def _leave_out(
    x: Any, family: LikelihoodFamily, weights: Any, missing: Missing
) -> tuple[Any, LikelihoodFamily, Any, Ids | None]:
    """Leave out the missing observations of a column; arrays stay as they are."""
    check_missing(missing)
    rule = "Missing.DROP or Missing.ERROR: a mean is no observation"
    require(missing is not Missing.MEAN, "missing", rule, missing)
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
    """Observations without repeats."""

    family: LikelihoodFamily
    x: Vector
    shares: Vector


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
    numbers = [np.broadcast_to(np.asarray(each, np.float64), x.shape) for each in _vary(family)]
    _, first, which = np.unique(
        np.column_stack([x, *numbers]), axis=0, return_index=True, return_inverse=True
    )
    if len(first) < len(x):
        family, x, weights = (
            family.take(first),
            x[first],
            np.asarray(np.bincount(which.ravel(), weights), np.float64),
        )
    return _Distinct(family, x, weights / weights.sum())


def _vary(family: LikelihoodFamily) -> list[Any]:
    """Numbers of a family that may differ between observations."""
    names = ("sigma", "exposure", "n", "scale")
    return [getattr(family, name) for name in names if hasattr(family, name)]


def _fit_freely(data: Continuum, distinct: _Distinct, *, atol: float, end: float) -> _Found:
    """The support is anywhere."""
    done = exchange(data, atol=atol, end=end)
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


def _bound_on_grid(data: Continuum, f: Vector, grid: Parameters) -> float:
    """log max G over the grid, rounding included."""
    if not f.min() > 0.0:
        return math.inf
    step = max(1, _BLOCK_ENTRIES // len(grid))
    total, c = np.zeros(len(grid)), data.w / f
    for first in range(0, data.n, step):
        here = slice(first, first + step)
        total += c[here] @ data.likelihood_of(grid, here)
    top = float(total.max()) + float(c @ data.bound_rounding(0.4))
    lost = data.rounding(f, len(grid)) + gamma(data.n + 16)
    return max(math.log(top / math.fsum(data.w)) + lost, 0.0)


def _check_grid(family: LikelihoodFamily, x: Vector, grid: ArrayLike | None) -> Parameters:
    if grid is None:
        return family.make_grid(x, _GRID)
    axes = 2 if family.name == "normal-mean-scale" or np.ndim(grid) == 2 else 1
    found = real_array(grid, "grid", axes).astype(np.float64)
    require(len(found) > 0, "grid", "at least one parameter", "none")
    require_finite(found, "grid")
    low, high = _RANGES.get(family.name, (-math.inf, math.inf))
    good = low <= found.min() and found.max() <= high
    require(good, "grid", f"from {low:g} to {high:g}", f"{found.min():g} .. {found.max():g}")
    return np.unique(found, axis=0)


def _fit_on_grid(distinct: _Distinct, grid: Parameters, *, atol: float, end: float, seed: int) -> _Found:
    """The support is among these parameters."""
    n, m = len(distinct.x), len(grid)
    narrow = atol >= FLOAT32_GAP and n * m > 1 << 24
    matrix = np.empty((n, m), np.float32 if narrow else np.float64)
    offset = 0.0
    step = max(1, _BLOCK_ENTRIES // m)
    for first in range(0, n, step):
        here = slice(first, first + step)
        logs = distinct.family.take(here).log_density(distinct.x[here], grid)
        _check_logs(logs, first)
        matrix[here], tops = scale_logs(logs, matrix.dtype)
        offset += float(distinct.shares[here] @ tops)
    rows = LikelihoodRows(matrix, distinct.shares, lost=EXPONENTS + (NARROW if narrow else 0.0))
    done = _newton.solve(rows, atol, seed=seed, end=end)
    keep = done.x > 0.0
    theta, mass = grid[keep], done.x[keep] / done.x[keep].sum()
    data = distinct.family.lay(distinct.x, distinct.shares)
    gap = math.inf
    if data is not None:
        f = data.mix(theta, mass)
        gap = bound_gap(data, f, len(theta), data.certify(f))[0]
    slack = rows.slack(done.look, len(theta))
    return _Found(theta, mass, done.look.value + offset, gap, done.gap, slack, grid, done.reads)


def _check_logs(logs: Matrix, first: int) -> None:
    top = np.max(logs, axis=1)
    bad: Ints = np.flatnonzero(~np.isfinite(top))
    rule = "below inf, no nan, and above -inf for a parameter of the grid"
    require(len(bad) == 0, "the log-density", rule, f"{top[bad[:1]]} for observation {first + bad[:1]}")
