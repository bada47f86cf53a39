"""Mixtures attacked: certificates over the continuum and of likelihood matrices, judged in mpmath.

Hostile data: widths over many scales, outliers, repeats, one observation, counts from 0 to
1e6, all successes. A bound on G is held against G at many places, evaluated with 60 digits,
and a proved gap against the likelihood of other mixtures, at many more.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import mpmath
import numpy as np
from numpy.typing import NDArray

from tests.fuzz.supervise import Findings
from wolfhound import Binomial, Normal, Poisson, fit_weights, npmle
from wolfhound.mixtures._continuum import Continuum, to_theta
from wolfhound.mixtures._continuum_kernels import BINOMIAL, NORMAL, POISSON

Array = NDArray[np.float64]
Rng = np.random.Generator

DIGITS = 60
PLACES = 12
"""Places of a certificate that are judged with all digits: the highest of many, and some others."""


def judge(seed: int, batch: int) -> Iterator[str | Findings]:
    """Judge a certificate of each family, a fit of one, and a matrix."""
    rng = np.random.default_rng([seed, batch, 7])
    for kind in (NORMAL, POISSON, BINOMIAL):
        found, label = Findings(), f"{seed}/{batch} certificate {kind}"
        yield label
        _take(found, label, judge_certificate(rng, kind), "certificates")
        yield found
    for what, judge_one in (("fit", judge_fit), ("matrix", judge_matrix)):
        found, label = Findings(), f"{seed}/{batch} {what}"
        yield label
        _take(found, label, judge_one(rng), "certificates")
        yield found


def _take(found: Findings, label: str, wrong: Sequence[str], counted: str) -> None:
    found.counts[counted] += 1
    found.violations.extend(f"{label}: {text}" for text in wrong)


# ---------------------------------------------------------------- what is drawn


def draw(rng: Rng, kind: int) -> tuple[Array, Array, Array]:
    """Observations, their second numbers and weights: hostile ones, and ordinary."""
    n = int(rng.choice([1, 2, 5, 40, 200]))
    if kind == NORMAL:
        widths = 10.0 ** rng.uniform(-rng.choice([0.0, 1.0, 3.0]), 1.0, n)
        centre = float(rng.choice([0.0, 1.0, 1e4, -1e8]))
        x = centre + rng.standard_t(float(rng.choice([1.0, 3.0])), n) * 10.0 ** rng.uniform(-2.0, 2.0)
        x, second = x + widths * rng.standard_normal(n), widths
    elif kind == POISSON:
        second = 10.0 ** rng.uniform(-2.0, 2.0, n)
        rates = 10.0 ** rng.uniform(-2.0, float(rng.choice([1.0, 4.0])), n)
        x = rng.poisson(np.minimum(rates * second, 1e6)).astype(np.float64)
    else:
        second = np.ceil(10.0 ** rng.uniform(0.0, float(rng.choice([1.0, 5.0])), n))
        x = rng.binomial(second.astype(np.int64), rng.beta(0.3, 0.3, n)).astype(np.float64)
    weights = rng.dirichlet(np.ones(n)) + 1e-9
    repeat = rng.integers(0, n, n) if rng.random() < 0.3 else np.arange(n)
    return x[repeat], second[repeat], weights / weights.sum()


# ---------------------------------------------------------------- judging


def judge_certificate(rng: Rng, kind: int) -> list[str]:
    """No value of G is above its bound, for likelihoods f of a poor mixture."""
    x, second, weights = draw(rng, kind)
    data = Continuum(kind, x, second, weights)
    theta = to_theta(kind, np.unique(np.concatenate([rng.choice(data.modes, 6), [data.low, data.high]])))
    f = np.maximum(data.mix(theta, rng.dirichlet(np.ones(len(theta)))), 10.0 ** rng.uniform(-40.0, -1.0))
    bound = data.certify(f, float(rng.choice([0.0, 5.0])))
    z = np.concatenate([np.linspace(data.low, data.high, 2000), rng.choice(data.modes, 200), bound.places])
    heights = np.concatenate([(weights / f) @ data.likelihood(each) for each in np.array_split(z, 20)])
    picked = np.concatenate([np.argsort(-heights)[: PLACES // 2], rng.integers(0, len(z), PLACES // 2)])
    with mpmath.workdps(DIGITS):
        truths = [log_height(kind, x, second, weights, f, float(z[i])) for i in picked]
        worst = max(truths)
        if not mpmath.mpf(bound.upper) >= worst:
            return [f"log G = {mpmath.nstr(worst, 20)} above its bound {bound.upper!r}, n {len(x)}"]
    return []


def log_height(kind: int, x: Array, second: Array, weights: Array, f: Array, z: float) -> Any:
    """log of sum_j w_j p_j(z) / f_j over sum_j w_j, with all digits."""
    place, total, whole = mpmath.mpf(z), mpmath.mpf(0), mpmath.mpf(0)
    for a, b, w, each in zip(x.tolist(), second.tolist(), weights.tolist(), f.tolist(), strict=True):
        total += mpmath.mpf(w) / mpmath.mpf(each) * share(kind, mpmath.mpf(a), mpmath.mpf(b), place)
        whole += mpmath.mpf(w)
    return mpmath.log(total / whole)


def share(kind: int, a: Any, b: Any, z: Any) -> Any:
    """p_j(z) as a share of its maximum."""
    if kind == NORMAL:
        return mpmath.exp(-(((z - a) / b) ** 2) / 2)
    if kind == POISSON:
        theta = z * z
        peak = mpmath.mpf(1) if a == 0 else (theta * b / a) ** a * mpmath.exp(a)
        return peak * mpmath.exp(-theta * b)
    sine, cosine = mpmath.sin(z) ** 2, mpmath.cos(z) ** 2
    one = mpmath.mpf(1) if a == 0 else (sine * b / a) ** a
    return one if a == b else one * (cosine * b / (b - a)) ** (b - a)


def judge_fit(rng: Rng) -> list[str]:
    """No other mixture has a likelihood above that of a fit by more than its gap."""
    kind = int(rng.integers(3))
    x, second, weights = draw(rng, kind)
    family = (Normal, Poisson, Binomial)[kind](second)
    fit = npmle(x, family, weights, atol=1e-6, max_seconds=20.0)
    best = mean_log(family, x, weights, fit.support, fit.mass)
    wrong = [] if abs(fit.mass.sum() - 1.0) < 1e-9 and fit.mass.min() >= 0.0 else ["mass"]
    fine = np.unique(np.concatenate([fit.grid, fit.support, family.make_grid(x, 400)]))
    rival = fit_weights(family.log_density(x, fine), weights=weights, log=True, atol=1e-7)
    other = mean_log(family, x, weights, fine[rival.support], rival.weights[rival.support])
    rounding = 1e-9 * (1.0 + abs(best))
    if other > best + fit.gap + rounding:
        wrong.append(f"a mixture on a grid is better by {other - best:.3g}, the gap is {fit.gap:.3g}")
    if best > other + rival.gap + rounding and len(fine) == len(np.union1d(fine, fit.support)):
        wrong.append(
            f"a mixture on the grid is better by {best - other:.3g} than one with gap {rival.gap:.3g}"
        )
    return wrong


def mean_log(family: Any, x: Array, weights: Array, theta: Array, mass: Array) -> float:
    """Mean log-likelihood of a mixture."""
    logs = family.log_density(x, theta) + np.log(np.maximum(mass / mass.sum(), 1e-320))
    most = logs.max(axis=1)
    return float(weights @ (most + np.log(np.exp(logs - most[:, None]).sum(axis=1))))


def judge_matrix(rng: Rng) -> list[str]:
    """A gap of weights is above that of the same weights in exact arithmetic's reach: 60 digits."""
    n, m = int(rng.choice([1, 7, 300, 5000])), int(rng.choice([1, 3, 30, 250]))
    matrix = np.exp(-0.5 * (rng.standard_normal((n, 1)) * 3.0 - np.linspace(-8.0, 8.0, m)) ** 2)
    matrix = np.maximum(matrix, 1e-30) * 10.0 ** rng.uniform(-60.0, 0.0, (n, 1))
    matrix = matrix.astype(np.float32) if matrix.min() > 1e-35 and rng.random() < 0.5 else matrix
    weights = rng.dirichlet(np.ones(n)) + 1e-12
    fit = fit_weights(matrix, weights=weights, atol=float(rng.choice([1e-3, 1e-6, 1e-9])))
    mixed = matrix.astype(np.longdouble) @ fit.weights.astype(np.longdouble)
    shares = weights.astype(np.longdouble) / weights.astype(np.longdouble).sum()
    top = ((shares / mixed) @ matrix.astype(np.longdouble)).max() * fit.weights.astype(np.longdouble).sum()
    # The Frank-Wolfe gap of these weights: what is proved may be less only by what rounding is.
    return [] if fit.gap >= float(np.log(top)) - 1e-15 else [f"gap {fit.gap!r} below {float(np.log(top))!r}"]
