"""Claim: weights without a sum, or with caps, prices or a ridge: faster than the tools for each, and proved.

*nnls*: 200 x 100,000 columns, non-negative and Gaussian with a mean; 60 x 300 columns with batches of
10,000 right sides; the arrays of scipy#25389. Against scipy's nnls, a compiled FNNLS (Bro and de Jong,
1997) where its Gram matrix fits, and adelie for one right side. *Synthetic control*: 1,500 weights, 250
periods, caps of 0.05 and a ridge, against Clarabel. *Concepts*: 1,000 vectors of 100 numbers by 10,000
concepts with a price per unit, in one call, against scikit-learn's positive Lasso at a tolerance that finds
the same support; its default is reported. *Stacking*: log scores of 40 and of 10,000 models at 1,000 points
of heavy tails, and the same 1,000 nats lower, where exponentials are 0; of 40 models against scipy's SLSQP
over all weights but one, with gradients.

Protocol: one thread, interleaved rounds, medians of wall time after one warm-up; of scipy, FNNLS and Lasso
some of the right sides are solved, and their time scaled; adelie and Clarabel, where they install, run in
environments of their own and time themselves, adelie from the same C-ordered matrix. Values are evaluated
anew from the weights, in float64, for all alike; proofs are re-checked: no answer of any tool is below a
lower bound, and gaps are taken from values and lower bounds. Relative is to the value, and at least to 1e-6
of that without any weights.

Threshold: value within 1e-9 (relative) of the best of all, proved to 1e-8; at least 10 times (non-negative)
and 7 times (Gaussian) faster than scipy's nnls, and faster than FNNLS and adelie; at least 30 times faster
than Clarabel; at least 20 times faster than the positive Lasso, at equal support and no larger value.
Stacking is proved to 1e-6 nats, also 1,000 nats lower, and faster than SLSQP at no lower score.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import isolated
import numpy as np
from fnnls import fnnls
from reference import Vector
from rig import Claim, held_threads, interleave
from scipy.optimize import minimize as scipy_minimize
from scipy.optimize import nnls as scipy_nnls

import wolfhound
from wolfhound import Cone, Hull, SquaredDistance, minimize, minimize_many

ADELIE = isolated.Tool(
    "adelie",
    ("adelie==1.1.52",),
    """
import adelie
times = []
for _ in range(6):
    begin = time.perf_counter()
    design = np.asfortranarray(given["design"])  # it reads columns
    bounds = np.zeros(design.shape[1]), np.full(design.shape[1], 1e300)
    state = adelie.solver.bvls(design, given["b"], *bounds, tol=1e-13, max_iters=1_000_000)
    times.append(time.perf_counter() - begin)
answer = {"x": np.asarray(state.beta), "seconds": np.median(times[1:])}
""",
)
"""It needs an older numpy than ours. At its default tolerance of 1e-7 values are 2e-6 above the best."""

CLARABEL = isolated.Tool(
    "clarabel",
    ("clarabel==0.11.1", "numpy", "scipy"),
    """
import clarabel
from scipy import sparse
units, target, cap, ridge = (given[name] for name in ("units", "target", "cap", "ridge"))
n, times = len(units), []
for _ in range(4):
    begin = time.perf_counter()
    quadratic = sparse.csc_matrix(np.triu(units @ units.T + ridge * np.eye(n)))
    lines = sparse.vstack([np.ones((1, n)), -sparse.eye(n), sparse.eye(n)]).tocsc()
    right = np.concatenate([np.ones(1), np.zeros(n), np.full(n, cap)])
    cones = [clarabel.ZeroConeT(1), clarabel.NonnegativeConeT(2 * n)]
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    solver = clarabel.DefaultSolver(quadratic, -(units @ target), lines, right, cones, settings)
    x = np.asarray(solver.solve().x)
    times.append(time.perf_counter() - begin)
answer = {"x": x, "seconds": np.median(times[1:])}
""",
)
"""The quadratic program in n weights, as it is."""

SOME = 50
"""Right sides that a slow rival solves."""


class Answer(NamedTuple):
    """Weights of one or more right sides, the share of them that was solved, and what was proved."""

    weights: Vector  # (n,) or (n, k)
    share: float = 1.0
    lower: Vector | float = 0.0


def main(argv: Sequence[str] | None = None) -> int:
    """Compare, and report."""
    claim = Claim(__file__, __doc__, argv, repeats=3)
    tiny = claim.options.tiny
    with held_threads(claim.options.threads):
        rng = np.random.default_rng(0)
        m, n = (20, 600) if tiny else (200, 100_000)
        wide = rng.gamma(0.5, 1.0, (m, n))
        judge_nnls(claim, "non-negative, one", wide, 3.0 * rng.gamma(0.5, 1.0, m), 10.0)
        wide = rng.standard_normal((m, n)) + 0.8 * rng.standard_normal((m, 1))
        judge_nnls(claim, "gaussian, one", wide, rng.standard_normal(m) + 0.3 * wide.mean(axis=1), 7.0)
        m, n, k = (10, 40, 200) if tiny else (60, 300, 10_000)
        sides = rng.gamma(0.5, 1.0, (m, k))
        judge_nnls(claim, "non-negative, batch", rng.gamma(0.5, 1.0, (m, n)), sides, 10.0)
        design = rng.standard_normal((m, n)) + 0.8 * rng.standard_normal((m, 1))
        judge_nnls(claim, "gaussian, batch", design, rng.standard_normal((m, k)), 7.0)
        judge_arrays(claim)
        judge_control(claim, rng)
        judge_concepts(claim, rng)
        judge_stacking(claim, rng)
    return claim.finish()


def judge_nnls(claim: Claim, name: str, design: Vector, b: Vector, wanted: float) -> None:
    """Compare one matrix with one or many right sides."""
    if not claim.wants(f"nnls {name}"):
        return
    calls: dict[str, Callable[[], Answer]] = {
        "wolfhound": lambda: solve_ours(design, b),
        "scipy": lambda: solve_scipy(design, b),
    }
    if design.shape[1] <= 20_000:
        calls["FNNLS"] = lambda: solve_fnnls(design, b)
    for call in calls.values():
        call()
    timed = interleave(calls, repeats=claim.options.repeats, budget=120.0)
    ours = timed["wolfhound"].last
    least = np.full(b.shape[1:], np.inf)
    given, apart = {"design": design, "b": b}, None
    if b.ndim == 1 and not claim.options.tiny:
        apart = solve_apart(claim, ADELIE, given)
    if apart is not None:
        seconds, x = apart
        least[...] = residuals(design, b, np.maximum(x, 0.0))
        claim.row(problem=f"nnls {name}", method="adelie", seconds=seconds)
        times = seconds / timed["wolfhound"].median
        claim.at_least(f"nnls {name}: times faster than adelie", times, 1.0, full_size=True)
    for found in timed.values():
        k = round(found.last.share * (1 if b.ndim == 1 else b.shape[1]))
        values = residuals(design, b, found.last.weights)
        part = least[..., :k] if b.ndim == 2 else least
        part[...] = np.minimum(part, values[..., :k] if b.ndim == 2 else values)
    mine = residuals(design, b, ours.weights)
    for rival, found in timed.items():
        seconds = found.median / found.last.share
        claim.row(problem=f"nnls {name}", method=rival, seconds=seconds)
        if rival == "scipy":
            times = seconds / timed["wolfhound"].median
            claim.at_least(f"nnls {name}: times faster than scipy", times, wanted, full_size=True)
        elif rival != "wolfhound":
            times = seconds / timed["wolfhound"].median
            claim.at_least(f"nnls {name}: times faster than {rival}", times, 1.0, full_size=True)
    size = np.maximum(mine, 1e-6 * 0.5 * np.square(b).sum(axis=0))
    claim.at_most(f"nnls {name}: above the best, relative", float(((mine - least) / size).max()), 1e-9)
    lower = 0.5 * np.asarray(ours.lower) ** 2
    claim.at_most(f"nnls {name}: proved gap, relative", float(((mine - lower) / size).max()), 1e-8)
    claim.holds(f"nnls {name}: no answer below the proof", bool((lower <= least + 1e-12 * size).all()))


def residuals(design: Vector, b: Vector, weights: Vector) -> Vector:
    """1/2 |A x - b|^2, by right side."""
    return np.asarray(0.5 * np.square(design @ weights - b).sum(axis=0))


def solve_ours(design: Vector, b: Vector) -> Answer:
    """All right sides, with their proofs."""
    found = wolfhound.nnls(design, b)
    return Answer(found.x, 1.0, found.lower)


def solve_scipy(design: Vector, b: Vector) -> Answer:
    """One, or some of the right sides."""
    most = 100 * design.shape[1]
    if b.ndim == 1:
        return Answer(scipy_nnls(design, b, maxiter=most)[0])
    return _some(design, b, lambda side: scipy_nnls(design, side, maxiter=most)[0])


def solve_fnnls(design: Vector, b: Vector) -> Answer:
    """One, or some of the right sides; the Gram matrix is made once."""
    gram = design.T @ design

    def solve(side: Vector) -> Vector:
        x = np.zeros(design.shape[1])
        cross = design.T @ side
        fnnls(gram, cross, x, 1e-12 * np.abs(cross).max())
        return x

    return Answer(solve(b)) if b.ndim == 1 else _some(design, b, solve)


def solve_apart(claim: Claim, tool: isolated.Tool, given: isolated.Arrays) -> tuple[float, Vector] | None:
    """Median seconds of a tool in its own environment, and its answer; None if it does not install."""
    try:
        found = isolated.call(tool, given, threads=claim.options.threads, limit=300.0)
    except RuntimeError as error:
        claim.notes[tool.name] = str(error)
        return None
    return float(found["seconds"]), found["x"]


def _some(design: Vector, b: Vector, solve: Callable[[Vector], Vector]) -> Answer:
    k = min(SOME, b.shape[1])
    weights = np.zeros((design.shape[1], b.shape[1]))
    for i in range(k):
        weights[:, i] = solve(b[:, i])
    return Answer(weights, k / b.shape[1])


def judge_arrays(claim: Claim) -> None:
    """The arrays of scipy#25389: (-1, 3) without bounds, (0, 1.6) with them."""
    if not claim.wants("nnls scipy#25389"):
        return
    found = wolfhound.nnls([[1.0, 1.0], [3.0, 2.0]], [2.0, 3.0])
    claim.at_most("nnls scipy#25389: distance from (0, 1.6)", float(np.abs(found.x - [0.0, 1.6]).max()), 1e-9)
    claim.at_most("nnls scipy#25389: proved gap", found.gap, 1e-8)


def judge_control(claim: Claim, rng: np.random.Generator) -> None:
    """Capped weights of sum 1 with a ridge."""
    if not claim.wants("synthetic control"):
        return
    n, d = (40, 12) if claim.options.tiny else (1500, 250)
    units = np.cumsum(rng.standard_normal((n, d)), axis=1) + 10.0
    target = units[: n // 10].mean(axis=0) + rng.standard_normal(d)
    cap, ridge = max(0.05, 2.0 / n), 1.0

    def ours() -> Answer:
        found = minimize(
            SquaredDistance(target), units, over=Hull(cap=cap), ridge=ridge, rtol=1e-9, progress=False
        )
        weights = np.zeros(n)
        weights[found.ids] = found.weights
        return Answer(weights, 1.0, found.lower)

    ours()
    timed = interleave({"wolfhound": ours}, repeats=claim.options.repeats, budget=120.0)["wolfhound"]

    def value(weights: Vector) -> float:
        return float(0.5 * np.square(weights @ units - target).sum() + 0.5 * ridge * weights @ weights)

    mine, lower = value(timed.last.weights), float(timed.last.lower)
    claim.row(problem="synthetic control", method="wolfhound", seconds=timed.median, value=mine)
    claim.at_most("synthetic control: proved gap, relative", (mine - lower) / mine, 1e-8)
    given = {"units": units, "target": target, "cap": np.array(cap), "ridge": np.array(ridge)}
    if not claim.options.tiny and (apart := solve_apart(claim, CLARABEL, given)) is not None:
        seconds, x = apart
        theirs = value(np.clip(x, 0.0, cap))
        claim.row(problem="synthetic control", method="Clarabel", seconds=seconds, value=theirs)
        times = seconds / timed.median
        claim.at_least("synthetic control: times faster than Clarabel", times, 30.0, full_size=True)
        claim.holds("synthetic control: Clarabel is not below the proof", lower <= theirs * (1.0 + 1e-6))


def judge_concepts(claim: Claim, rng: np.random.Generator) -> None:
    """Vectors as sparse sums of concepts, a price per unit."""
    if not claim.wants("concepts"):
        return
    from sklearn.linear_model import Lasso  # noqa: PLC0415 - slow to import

    n, d, k = (300, 20, 5) if claim.options.tiny else (10_000, 100, 1000)
    concepts = rng.standard_normal((n, d)) + 0.5
    concepts /= np.linalg.norm(concepts, axis=1, keepdims=True)
    picks = np.array([rng.choice(n, 8, replace=False) for _ in range(k)])
    vectors = (rng.gamma(2.0, 1.0, (k, 8, 1)) * concepts[picks]).sum(axis=1) + 0.05 * rng.standard_normal(
        (k, d)
    )
    price, some = 0.3, min(20, k)

    def ours() -> Answer:
        found = minimize_many(vectors, concepts, over=Cone(price=price), rtol=1e-9, progress=False)
        return Answer(found.to_dense().T, 1.0, found.lower)

    def lasso(tol: float) -> Answer:
        weights = np.zeros((n, k))
        for i in range(some):
            model = Lasso(price / d, positive=True, fit_intercept=False, tol=tol, max_iter=100_000)
            weights[:, i] = model.fit(concepts.T, vectors[i]).coef_
        return Answer(weights, some / k)

    calls = {"wolfhound": ours, "Lasso, default": lambda: lasso(1e-4), "Lasso": lambda: lasso(1e-8)}
    ours()
    timed = interleave(calls, repeats=1, budget=600.0)

    def values(weights: Vector) -> Vector:
        return np.asarray(residuals(concepts.T, vectors.T, weights) + price * weights.sum(axis=0))

    mine, lower = values(timed["wolfhound"].last.weights), np.asarray(timed["wolfhound"].last.lower)
    theirs = values(timed["Lasso"].last.weights)[:some]
    supports = {name: found.last.weights[:, :some] > 1e-9 for name, found in timed.items()}
    for name, found in timed.items():
        support = float(supports[name].sum(axis=0).mean())
        claim.row(problem="concepts", method=name, seconds=found.median / found.last.share, support=support)
    times = timed["Lasso"].median / timed["Lasso"].last.share / timed["wolfhound"].median
    claim.at_least("concepts: times faster than Lasso", times, 20.0, full_size=True)
    other = float((supports["wolfhound"] != supports["Lasso"]).sum(axis=0).mean())
    claim.at_most("concepts: atoms of one support alone, on average", other, 0.5, full_size=True)
    claim.at_most("concepts: proved gap, relative", float((1.0 - lower / mine).max()), 1e-8)
    claim.at_most(
        "concepts: value above that of Lasso, relative", float((mine[:some] / theirs).max() - 1.0), 1e-9
    )


def judge_stacking(claim: Claim, rng: np.random.Generator) -> None:
    """Mixtures of predictive distributions, by the log score of each model at each point."""
    if not claim.wants("stacking"):
        return
    points, few, many = (60, 5, 50) if claim.options.tiny else (1000, 40, 10_000)
    y = 3.0 * rng.standard_t(2, points)
    centres, widths = rng.normal(0.0, 3.0, many), np.exp(rng.normal(0.0, 0.7, many))
    scores = -0.5 * np.square((y[:, None] - centres) / widths) - np.log(widths)
    for name, given in ((f"{few} models", scores[:, :few]), (f"{many} models", scores)):
        calls: dict[str, Callable[[], Answer]] = {"wolfhound": partial(solve_stacking, given)}
        if given.shape[1] == few:
            calls["SLSQP"] = partial(solve_slsqp, given)
        for call in calls.values():
            call()
        timed = interleave(calls, repeats=claim.options.repeats, budget=60.0)
        ours = timed["wolfhound"]
        mine, lower = mean_score(given, ours.last.weights), float(ours.last.lower)
        for method, found in timed.items():
            score = mean_score(given, found.last.weights)
            claim.row(problem=f"stacking {name}", method=method, seconds=found.median, score=score)
        claim.at_most(f"stacking {name}: proved gap, nats", -mine - lower, 1e-6)
        if "SLSQP" in timed:
            theirs = mean_score(given, timed["SLSQP"].last.weights)
            times = timed["SLSQP"].median / ours.median
            claim.at_least(f"stacking {name}: times faster than SLSQP", times, 1.0, full_size=True)
            claim.at_most(f"stacking {name}: score below that of SLSQP", theirs - mine, 1e-6)
            claim.holds(f"stacking {name}: SLSQP is not above the proof", -theirs >= lower - 1e-12)
        low = solve_stacking(given - 1000.0)
        gap = -mean_score(given - 1000.0, low.weights) - float(low.lower)
        claim.at_most(f"stacking {name}: proved gap 1,000 nats lower", gap, 1e-6)


def mean_score(scores: Vector, weights: Vector) -> float:
    """Mean log score of a mixture of models."""
    top = scores.max(axis=1)
    return float(np.mean(np.log(np.exp(scores - top[:, None]) @ weights) + top))


def solve_stacking(scores: Vector) -> Answer:
    """The weights of all models, and the least mean negative score that is proved."""
    found = wolfhound.fit_weights(scores, log=True)
    return Answer(found.weights, 1.0, -found.value - found.gap)


def solve_slsqp(scores: Vector) -> Answer:
    """All weights but one, whose bounds and sum are constraints; densities, not their logarithms."""
    densities, k = np.exp(scores), scores.shape[1]
    apart = densities[:, :-1] - densities[:, -1:]

    def lose(w: Vector) -> tuple[float, Vector]:
        mixed = np.maximum(apart @ w + densities[:, -1], 1e-300)
        return -float(np.log(mixed).mean()), -(apart / mixed[:, None]).mean(axis=0)

    rest = {"type": "ineq", "fun": lambda w: 1.0 - w.sum(), "jac": lambda w: -np.ones(k - 1)}
    start, bounds = np.full(k - 1, 1.0 / k), [(0.0, 1.0)] * (k - 1)
    found = scipy_minimize(lose, start, jac=True, method="SLSQP", bounds=bounds, constraints=[rest])
    weights = np.append(found.x, max(1.0 - found.x.sum(), 0.0)).clip(0.0)
    return Answer(weights / weights.sum())


if __name__ == "__main__":
    sys.exit(main())
