"""Mixtures attacked: certificates over the continuum and of likelihood matrices, judged in mpmath.

Hostile data: widths over many scales, outliers, repeats, one observation, counts from 0 to
1e15, exposures from 1e-6 to 1e12, all successes. A bound on G is held against G at many places,
evaluated with 60 digits, and a proved gap against the likelihood of other mixtures, at many more.
Likelihood matrices have exact zeros, columns of them, rows with one component, rows of any scale.
A status is a claim: success needs a gap below its goal or near a slack, and a stall is a finding.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import mpmath
import numpy as np
from numpy.typing import NDArray

from tests.fuzz.supervise import Findings
from wolfhound import Binomial, Normal, Poisson, Status, fit_weights, npmle
from wolfhound.core.rounding import gamma
from wolfhound.mixtures._continuum import BINOMIAL, NORMAL, POISSON, Continuum

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
        low, high = ((-2.0, 2.0), (-6.0, 12.0), (12.0, 12.0))[rng.integers(3)]
        second = 10.0 ** rng.uniform(low, high, n)
        rates = 10.0 ** rng.uniform(-2.0, float(rng.choice([-1.9, 1.0, 4.0])), n)
        x = rng.poisson(np.minimum(rates * second, float(rng.choice([1e6, 1e15])))).astype(np.float64)
    else:
        second = np.ceil(10.0 ** rng.uniform(0.0, float(rng.choice([1.0, 5.0, 12.0])), n))
        x = rng.binomial(second.astype(np.int64), rng.beta(0.3, 0.3, n)).astype(np.float64)
    weights = rng.dirichlet(np.ones(n)) + 1e-9
    repeat = rng.integers(0, n, n) if rng.random() < 0.3 else np.arange(n)
    return x[repeat], second[repeat], weights / weights.sum()


# ---------------------------------------------------------------- judging


def judge_certificate(rng: Rng, kind: int) -> list[str]:
    """No value of G is above its bound, for likelihoods f of a poor mixture."""
    x, second, weights = draw(rng, kind)
    data = Continuum(kind, x, second, weights)
    theta = data.to_theta(np.unique(np.concatenate([rng.choice(data.modes, 6), [data.low, data.high]])))
    f = np.maximum(data.mix(theta, rng.dirichlet(np.ones(len(theta)))), 10.0 ** rng.uniform(-40.0, -1.0))
    bound = data.certify(f, float(rng.choice([0.0, 5.0])))
    z = np.concatenate([np.linspace(data.low, data.high, 2000), rng.choice(data.modes, 200), bound.places])
    heights = np.concatenate([(weights / f) @ data.likelihood(each) for each in np.array_split(z, 20)])
    picked = np.concatenate([np.argsort(-heights)[: PLACES // 2], rng.integers(0, len(z), PLACES // 2)])
    with mpmath.workdps(DIGITS):
        places = [mpmath.mpf(float(z[i])) + mpmath.mpf(data.origin) for i in picked]
        exact = [mpmath.mpf(each) for each in f.tolist()]
        truths = [log_height(kind, x, second, weights, exact, parameter(kind, each)) for each in places]
        worst = max(truths)
        if not mpmath.mpf(bound.upper) >= worst:
            return [f"log G = {mpmath.nstr(worst, 20)} above its bound {bound.upper!r}, n {len(x)}"]
    return []


def log_height(kind: int, x: Array, second: Array, weights: Array, f: Sequence[Any], theta: Any) -> Any:
    """log of sum_j w_j p_j(theta) / f_j over sum_j w_j, with all digits."""
    total, whole = mpmath.mpf(0), mpmath.mpf(0)
    for a, b, w, each in zip(x.tolist(), second.tolist(), weights.tolist(), f, strict=True):
        total += mpmath.mpf(w) / each * share_of(kind, mpmath.mpf(a), mpmath.mpf(b), theta)
        whole += mpmath.mpf(w)
    return mpmath.log(total / whole)


def parameter(kind: int, z: Any) -> Any:
    """The parameter of a place."""
    return z if kind == NORMAL else z * z if kind == POISSON else mpmath.sin(z) ** 2


def share(kind: int, a: Any, b: Any, z: Any) -> Any:
    """p_j(z) as a share of its maximum."""
    return share_of(kind, a, b, parameter(kind, z))


def share_of(kind: int, a: Any, b: Any, theta: Any) -> Any:
    """p_j of a parameter as a share of its maximum."""
    if kind == NORMAL:
        return mpmath.exp(-(((theta - a) / b) ** 2) / 2)
    if kind == POISSON:
        peak = mpmath.mpf(1) if a == 0 else (theta * b / a) ** a * mpmath.exp(a)
        return peak * mpmath.exp(-theta * b)
    one = mpmath.mpf(1) if a == 0 else (theta * b / a) ** a
    return one if a == b else one * ((1 - theta) * b / (b - a)) ** (b - a)


def judge_fit(rng: Rng) -> list[str]:
    """No other mixture has a likelihood above that of a fit by more than its gap; its status is true."""
    kind, goal = int(rng.integers(3)), float(rng.choice([1e-6, 1e-9, 1e-12]))
    x, second, weights = draw(rng, kind)
    family = (Normal, Poisson, Binomial)[kind](second)
    fit = npmle(x, family, weights, atol=goal)
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
    data = Continuum(kind, x, second, weights)
    data.lay_cells(1)
    f = data.mix(fit.support, fit.mass)
    slack = data.certify(f).slack + data.rounding(f, len(f))
    height = find_height(data, fit.support, fit.mass, fine)
    if not height <= fit.gap:
        wrong.append(f"log G = {mpmath.nstr(height, 20)} above the gap {fit.gap!r}")
    return wrong + judge_status(fit, goal, 2.0 * slack)


def find_height(data: Continuum, theta: Array, mass: Array, places: Array) -> Any:
    """log G of a fit where it is highest among places, with all digits."""
    kind, x, second = data.told
    heights = (data.w / data.mix(theta, mass)) @ data.likelihood_of(places)
    with mpmath.workdps(DIGITS):
        parts = [(mpmath.mpf(t), mpmath.mpf(m)) for t, m in zip(theta.tolist(), mass.tolist(), strict=True)]
        whole = mpmath.fsum(m for _, m in parts)
        pairs = [(mpmath.mpf(a), mpmath.mpf(b)) for a, b in zip(x.tolist(), second.tolist(), strict=True)]
        f = [mpmath.fsum(m * share_of(kind, a, b, t) for t, m in parts) / whole for a, b in pairs]
        top = [mpmath.mpf(float(places[i])) for i in np.argsort(-heights)[:2]]
        return max(log_height(kind, x, second, data.w, f, each) for each in top)


def judge_status(fit: Any, goal: float, slack: float) -> list[str]:
    """What a status claims: a goal that is reached, rounding that is most of the gap; a stall is told."""
    told = f"{fit.status.name}: gap {fit.gap:.3g}, goal {goal:.3g}, slack {slack:.3g}"
    right = {Status.GAP_REACHED: fit.gap <= goal, Status.ROUNDING: goal < fit.gap <= 8.0 * slack}
    return [] if right.get(fit.status, False) else [told]


def mean_log(family: Any, x: Array, weights: Array, theta: Array, mass: Array) -> float:
    """Mean log-likelihood of a mixture."""
    logs = family.log_density(x, theta) + np.log(np.maximum(mass / mass.sum(), 1e-320))
    most = logs.max(axis=1)
    return float(weights @ (most + np.log(np.exp(logs - most[:, None]).sum(axis=1))))


def draw_matrix(rng: Rng) -> Array:
    """Likelihoods: zeros and ones, sparse, columns of zeros, rows with one component, far tails."""
    n, m = int(rng.choice([1, 3, 20, 200, 600, 5000])), int(rng.choice([1, 2, 5, 20, 40, 120, 250]))
    bells = (rng.standard_normal((n, 1)) * 3.0 - np.linspace(-8.0, 8.0, m)) ** 2
    one = np.zeros((n, m))
    one[np.arange(n), rng.integers(0, m, n)] = 1.0
    matrix = (
        lambda: (rng.random((n, m)) < rng.choice([0.02, 0.1, 0.4, 0.8])).astype(np.float64),
        lambda: np.where(rng.random((n, m)) < rng.choice([0.4, 0.8, 0.95]), 0.0, rng.random((n, m)) ** 8),
        lambda: one + rng.random((n, m)) * (rng.random((n, 1)) < 0.5),
        lambda: rng.random((n, m)) * (rng.random(m) < 0.5),
        lambda: np.exp(-rng.exponential(10.0, (n, m))),
        lambda: np.exp(-0.5 * bells),
        lambda: np.where(bells < 1.0, np.exp(-50.0 * bells), 0.0),
    )[rng.integers(7)]()
    return np.where(matrix.max(axis=1, keepdims=True) > 0.0, matrix, one)


def judge_matrix(rng: Rng) -> list[str]:
    """A gap of weights is above that of the same weights in 64 bits, its value is right, its status true."""
    matrix = draw_matrix(rng)
    n, m = matrix.shape
    scale = float(rng.choice([0.0, 60.0, 300.0]))
    matrix = matrix * 10.0 ** rng.uniform(-scale, min(scale, 290.0), (n, 1))
    matrix = matrix.astype(np.float32) if scale == 0.0 and rng.random() < 0.3 else matrix
    weights = rng.dirichlet(np.ones(n)) + 1e-12 if rng.random() < 0.5 else np.ones(n)
    goal = float(rng.choice([1e-3, 1e-6, 1e-9, 1e-12]))
    alive = matrix.max(axis=1) > 0.0
    matrix, weights = matrix[alive], weights[alive]
    fit = fit_weights(matrix, weights=weights, atol=goal)
    wide, x = matrix.astype(np.longdouble), fit.weights.astype(np.longdouble)
    mixed, shares = wide @ x, weights.astype(np.longdouble) / weights.astype(np.longdouble).sum()
    top = float(np.log(((shares / mixed) @ wide).max() * x.sum()))
    # The Frank-Wolfe gap of these weights: what is proved may be less only by what rounding is.
    wrong = [] if fit.gap >= top - 1e-15 else [f"gap {fit.gap!r} below {top!r}"]
    value, size = float(shares @ np.log(mixed)), float(shares @ np.abs(np.log(mixed)))
    if abs(value - fit.value) > (n + 64) * 2.0**-52 * (1.0 + size):
        wrong.append(f"value {fit.value!r} is {value!r}")
    return wrong + judge_status(fit, goal, 1.01 * (gamma(n + 64) + gamma(m + 16)))
