"""Claim: mixtures are fitted many times faster than by mixsqp or EM, and proved, over the continuum too.

20k      20,000 observations x 800 components: at least 40 times faster than mixsqp, at a
         smaller gap
200k     200,000 x 157: at least 20 times
tall     4,000,000 x 157, float32, proved to 1e-6 nats in at most 6 reads of the likelihoods and
         4 GB; at least 10 times less time than 100 reads of EM, and a gap 1,000 times smaller
normal   normal means of 100,000 observations, standard errors from 0.3 to 3; poisson: counts with
poisson  exposures; binomial: successes of 3 to 59 trials: proved over the continuum to 1e-6, and no
binomial place of a grid of 4,001 is above the bound
million  1,000,000 normal means: proved to 1e-6 in at most 12 times the seconds of 100,000
shrunken posterior means within 1e-3 standard errors (root mean square) of a fit on a grid that is
         ten times finer than the one a user would choose

Protocol: one thread by default; kernels are compiled before. Likelihoods are those of ashr: a
point mass and normal scales from 0.05 to 20, observations with their own standard errors.
mixsqp is Debian's, on OpenBLAS, in a process of its own; its solve alone is timed, with its
defaults. One that is not done after 200 s is stopped and counts with that time, a lower bound.
Gaps are those of the weights, log max_k mean_j L_jk / (Lx)_j, computed alike for all. The tall
problem runs in a process of its own, whose peak of memory is measured, likelihoods included.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

import mixsqp_rival
import numpy as np
from reference import Vector
from rig import Claim, held_threads, peak_bytes

import wolfhound as wh
from wolfhound.mixtures._newton import LikelihoodRows
from wolfhound.mixtures.families import LikelihoodFamily

T = TypeVar("T")
LIMIT = 200.0


class Sizes(NamedTuple):
    """How large everything is."""

    wide: tuple[int, int]
    long: tuple[int, int]
    tall: tuple[int, int]
    means: int
    million: int


FULL = Sizes((20_000, 800), (200_000, 157), (4_000_000, 157), 100_000, 1_000_000)
TINY = Sizes((400, 30), (2_000, 20), (5_000, 12), 400, 1_000)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the claim; return the exit code."""
    given = sys.argv[1:] if argv is None else list(argv)
    if given[:1] == ["--measure-tall"]:
        return measure_tall(int(given[1]), int(given[2]), int(given[3]))
    claim = Claim(__file__, __doc__, given, repeats=1)
    sizes = TINY if claim.options.tiny else FULL
    with held_threads(claim.options.threads):
        wh.fit_weights(make_likelihoods(300, 10, 1).astype(np.float32))
        for kind in ("normal", "poisson", "binomial"):
            wh.npmle(*draw(kind, 300, 1))
        if claim.wants("20k"):
            judge_rival(claim, "20k", sizes.wide, least=40.0)
        if claim.wants("200k"):
            judge_rival(claim, "200k", sizes.long, least=20.0)
        if claim.wants("tall"):
            judge_tall(claim, sizes.tall)
        for kind in ("normal", "poisson", "binomial"):
            if claim.wants(kind):
                judge_continuum(claim, kind, sizes.means)
        if claim.wants("million"):
            judge_million(claim, sizes)
        if claim.wants("shrunken"):
            judge_shrunken(claim, sizes.means)
    return claim.finish()


def clock(call: Callable[[], T]) -> tuple[float, T]:
    """Seconds and the answer."""
    begin = time.perf_counter()
    answer = call()
    return time.perf_counter() - begin, answer


# ---------------------------------------------------------------- data


def make_likelihoods(n: int, m: int, seed: int) -> Any:
    """Likelihoods as ashr has them, float32, largest 1 per row, made block by block."""
    rng = np.random.default_rng(seed)
    scales = np.r_[0.0, np.geomspace(0.05, 20.0, m - 1)]
    means = np.where(rng.random(n) < 0.7, 0.0, 2.0 * rng.standard_t(4, n))
    errors = np.sqrt(rng.chisquare(8, n) / 8.0)
    z = means + errors * rng.standard_normal(n)
    out = np.empty((n, m), np.float32)
    for first in range(0, n, 1 << 14):
        here = slice(first, first + (1 << 14))
        variance = errors[here, None] ** 2 + scales**2
        logs = -0.5 * np.log(variance) - 0.5 * z[here, None] ** 2 / variance
        out[here] = np.exp(logs - logs.max(axis=1, keepdims=True))
    return out


def draw(kind: str, n: int, seed: int) -> tuple[Vector, LikelihoodFamily]:
    """Observations and their family."""
    rng = np.random.default_rng([seed, 11])
    if kind in ("normal", "million"):
        errors = np.exp(rng.uniform(np.log(0.3), np.log(3.0), n))
        others = np.where(rng.random(n) < 0.5, rng.normal(3.0, 1.0, n), 2.0 * rng.standard_t(4, n))
        means = np.where(rng.random(n) < 0.5, 0.0, others)
        return means + errors * rng.standard_normal(n), wh.Normal(errors)
    if kind == "poisson":
        exposure = rng.gamma(2.0, 2.0, n) + 0.2
        rates = rng.choice([0.5, 2.0, 8.0], n) * rng.gamma(5.0, 0.2, n)
        return rng.poisson(rates * exposure).astype(np.float64), wh.Poisson(exposure)
    trials = rng.integers(3, 60, n)
    chances = np.where(rng.random(n) < 0.5, rng.beta(2.0, 8.0, n), rng.beta(20.0, 10.0, n))
    return rng.binomial(trials, chances).astype(np.float64), wh.Binomial(trials)


def gap_of(matrix: Any, weights: Vector) -> float:
    """log max_k mean_j L_jk / (Lx)_j of weights, in float64."""
    top = np.zeros(matrix.shape[1])
    for first in range(0, len(matrix), 1 << 16):
        block = matrix[first : first + (1 << 16)].astype(np.float64)
        top += (1.0 / (block @ weights)) @ block
    return float(np.log(top.max() / len(matrix)))


# ---------------------------------------------------------------- given components


def judge_rival(claim: Claim, name: str, shape: tuple[int, int], *, least: float) -> None:
    """Against mixsqp."""
    matrix = make_likelihoods(*shape, 2)
    goal = 1e-8
    seconds, fit = clock(lambda: wh.fit_weights(matrix, atol=goal))
    ours = gap_of(matrix, fit.weights)
    add_row(claim, name, "fit_weights", shape, seconds=seconds, gap=ours, reads=fit.reads)
    claim.holds(f"{name}: proved", fit.success and fit.gap >= ours - 1e-12)
    if not mixsqp_rival.is_installed():
        claim.notes["mixsqp"] = "not installed: apt install r-cran-mixsqp libopenblas0-pthread"
        if not claim.options.tiny:
            claim.holds(f"{name}: mixsqp is installed", False)
        return
    rival = mixsqp_rival.solve(matrix, limit=LIMIT, threads=claim.options.threads)
    if rival.weights is None:
        claim.notes[f"{name}: mixsqp"] = f"stopped after {LIMIT:g} s"
        add_row(claim, name, "mixsqp, stopped", shape, seconds=rival.seconds, gap=None, reads=None)
    else:
        theirs = gap_of(matrix, rival.weights)
        add_row(claim, name, "mixsqp", shape, seconds=rival.seconds, gap=theirs, reads=None)
        claim.at_most(f"{name}: gap as a share of mixsqp's", ours / theirs, 1.0, full_size=True)
    claim.at_least(f"{name}: times faster than mixsqp", rival.seconds / seconds, least, full_size=True)


def add_row(
    claim: Claim, problem: str, method: str, shape: tuple[int, int], **measured: float | None
) -> None:
    """Add a row: seconds, gap and reads."""
    claim.row(problem=problem, size=f"{shape[0]:,} x {shape[1]}", method=method, **measured)


def judge_tall(claim: Claim, shape: tuple[int, int]) -> None:
    """Millions of observations, in a process of its own."""
    command = [sys.executable, __file__, "--measure-tall", str(shape[0]), str(shape[1])]
    done = subprocess.run([*command, str(claim.options.threads)], capture_output=True, text=True, check=True)
    found = json.loads(done.stdout.splitlines()[-1])
    add_row(
        claim, "tall", "fit_weights", shape, seconds=found["seconds"], gap=found["gap"], reads=found["reads"]
    )
    add_row(claim, "tall", "EM", shape, seconds=found["em_seconds"], gap=found["em_gap"], reads=100)
    claim.notes["tall: peak in GB, likelihoods included"] = found["peak"]
    claim.notes["tall: likelihoods in GB"] = 4e-9 * shape[0] * shape[1]
    claim.at_most("tall: proved gap", found["gap"], 1e-6)
    claim.at_most("tall: reads", found["reads"], 6, full_size=True)
    claim.at_most("tall: peak GB", found["peak"], 4.0, full_size=True)
    claim.at_least("tall: times faster than EM", found["em_seconds"] / found["seconds"], 10.0, full_size=True)
    claim.at_least("tall: times smaller gap than EM", found["em_gap"] / found["gap"], 1000.0, full_size=True)


def measure_tall(n: int, m: int, threads: int) -> int:
    """Measure the tall problem in this process, and print it."""
    with held_threads(threads):
        wh.fit_weights(make_likelihoods(2000, 12, 1))
        matrix = make_likelihoods(n, m, 3)
        seconds, fit = clock(lambda: wh.fit_weights(matrix))
        peak = peak_bytes() / 1e9
        rows, u = LikelihoodRows(matrix, np.full(n, 1.0 / n)), np.empty(n)
        begin, x = time.perf_counter(), np.full(m, 1.0 / m)
        for _ in range(100):
            look = rows.look(x, u)
            x = x * look.slopes
        em_seconds = time.perf_counter() - begin
    answer = {"seconds": seconds, "gap": fit.gap, "reads": fit.reads, "peak": peak}
    print(json.dumps(answer | {"em_seconds": em_seconds, "em_gap": rows.prove(look, m)}))
    return 0


# ---------------------------------------------------------------- the continuum


def judge_million(claim: Claim, sizes: Sizes) -> None:
    """Ten times as many observations, beside as many as `normal` has, before and after it."""
    x, family = draw("normal", sizes.means, 2)
    before, _ = clock(lambda: wh.npmle(x, family))
    seconds = judge_continuum(claim, "million", sizes.million)
    after, _ = clock(lambda: wh.npmle(x, family))
    ratio = seconds / (0.5 * (before + after))
    claim.at_most("million: seconds over those of a tenth", ratio, 12.0, full_size=True)


def judge_continuum(claim: Claim, kind: str, n: int) -> float:
    """Proved over all parameters, and no place of a fine grid is above the bound; the seconds."""
    x, family = draw(kind, n, 2)
    seconds, fit = clock(lambda: wh.npmle(x, family))
    seen = highest(fit, 4001)
    claim.row(
        problem=kind,
        size=f"{n:,}",
        method="npmle",
        seconds=seconds,
        gap=fit.gap,
        reads=fit.rounds,
        support=len(fit.mass),
        seen=seen,
    )
    claim.at_most(f"{kind}: gap proved over the continuum", fit.gap, 1e-6)
    claim.holds(f"{kind}: no place is above the bound", seen <= fit.gap)
    return seconds


def highest(fit: wh.MixtureFit, places: int) -> float:
    """The largest log G on a grid, by the densities themselves, for some of the observations' blocks."""
    grid = fit.family.make_grid(fit.x, places)
    step = max(1, (1 << 23) // len(grid))
    total = np.zeros(len(grid))
    mixed = fit.density()
    for first in range(0, len(fit.x), step):
        here = slice(first, first + step)
        dense = np.exp(fit.family.take(here).log_density(fit.x[here], grid))
        total += (fit.weights[here] / mixed[here]) @ dense
    return float(np.log(total.max() / fit.weights.sum()))


def judge_shrunken(claim: Claim, n: int) -> None:
    """Posterior means of the free fit, beside fits on a usual grid and on one ten times finer."""
    x, family = draw("normal", n // 5, 3)
    assert isinstance(family, wh.Normal)
    _, free = clock(lambda: wh.npmle(x, family))
    coarse, fine = (wh.npmle(x, family, grid=family.make_grid(x, points)) for points in (300, 3000))
    for name, other in (("free", free), ("300 points", coarse)):
        away = (other.posterior_mean() - fine.posterior_mean()) / family.sigma
        rms = float(np.sqrt(np.mean(away**2)))
        claim.row(problem="shrunken", size=f"{n // 5:,}", method=name, gap=other.gap, rms=rms)
        if name == "free":
            claim.at_most("shrunken: root mean square, in standard errors", rms, 1e-3, full_size=True)


if __name__ == "__main__":
    sys.exit(main())
