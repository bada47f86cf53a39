"""Claim: weights without a sum, or with caps, prices or a ridge: faster than the tools for each, and proved.

*nnls*: 200 x 100,000 columns, non-negative and Gaussian with a mean; 60 x 300 columns with batches of
10,000 right sides; the arrays of scipy#25389. Against scipy's nnls, a compiled FNNLS (Bro and de Jong,
1997) where its Gram matrix fits, and adelie for one right side. *Synthetic control*: 1,500 weights, 250
periods, caps of 0.05 and a ridge, against Clarabel where it is installed. *Concepts*: 1,000 vectors of 100
numbers by 10,000 concepts with a price per unit, against scikit-learn's positive Lasso at a tolerance that
finds the same support; its default is reported.

Protocol: one thread, interleaved rounds, medians of wall time after one warm-up; of scipy, FNNLS and Lasso
some of the right sides are solved, and their time scaled; adelie, in an environment of its own, times itself,
from the same C-ordered matrix. Values are evaluated anew from the weights, in float64, for all alike; proofs
are re-checked: no answer of any tool is below a lower bound, and gaps are taken from values and lower bounds.
Relative is to the value, and at least to 1e-6 of that without any weights.

Threshold: value within 1e-9 (relative) of the best of all, proved to 1e-8; at least 10 times (non-negative)
and 7 times (Gaussian) faster than scipy's nnls, and faster than FNNLS and adelie; at least 30 times faster
than Clarabel; at least 20 times faster than the positive Lasso, at equal support and no larger value.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import isolated
import numpy as np
from fnnls import fnnls
from reference import Vector
from rig import Claim, held_threads, interleave
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
    if b.ndim == 1 and not claim.options.tiny and (apart := solve_adelie(claim, design, b)) is not None:
        seconds, answer = apart
        least[...] = residuals(design, b, np.maximum(answer.weights, 0.0))
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


def solve_adelie(claim: Claim, design: Vector, b: Vector) -> tuple[float, Answer] | None:
    """Median seconds of adelie's active set for bounds, and its answer; None if it does not install."""
    given, threads = {"design": design, "b": b}, claim.options.threads
    try:
        found = isolated.call(ADELIE, given, threads=threads, limit=300.0)
    except RuntimeError as error:
        claim.notes["adelie"] = str(error)
        return None
    return float(found["seconds"]), Answer(found["x"])


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

    calls = {"wolfhound": ours}
    if importlib.util.find_spec("clarabel") is not None:
        calls["Clarabel"] = lambda: solve_clarabel(units, target, cap, ridge)
    calls["wolfhound"]()
    timed = interleave(calls, repeats=claim.options.repeats, budget=120.0)

    def value(weights: Vector) -> float:
        return float(0.5 * np.square(weights @ units - target).sum() + 0.5 * ridge * weights @ weights)

    mine, lower = value(timed["wolfhound"].last.weights), float(timed["wolfhound"].last.lower)
    for name, found in timed.items():
        claim.row(
            problem="synthetic control", method=name, seconds=found.median, value=value(found.last.weights)
        )
    claim.at_most("synthetic control: proved gap, relative", (mine - lower) / mine, 1e-8)
    if "Clarabel" in timed:
        times = timed["Clarabel"].median / timed["wolfhound"].median
        claim.at_least("synthetic control: times faster than Clarabel", times, 30.0, full_size=True)
        other = value(np.clip(timed["Clarabel"].last.weights, 0.0, cap))
        claim.holds("synthetic control: Clarabel is not below the proof", lower <= other * (1.0 + 1e-6))


def solve_clarabel(units: Vector, target: Vector, cap: float, ridge: float) -> Answer:
    """The quadratic program in n weights, as it is."""
    clarabel, sparse = importlib.import_module("clarabel"), importlib.import_module("scipy.sparse")
    n = len(units)
    quadratic = sparse.csc_matrix(np.triu(units @ units.T + ridge * np.eye(n)))
    lines = sparse.vstack([np.ones((1, n)), -sparse.eye(n), sparse.eye(n)]).tocsc()
    right = np.concatenate([np.ones(1), np.zeros(n), np.full(n, cap)])
    cones = [clarabel.ZeroConeT(1), clarabel.NonnegativeConeT(2 * n)]
    settings: Any = clarabel.DefaultSettings()
    settings.verbose = False
    solver = clarabel.DefaultSolver(quadratic, -(units @ target), lines, right, cones, settings)
    return Answer(np.asarray(solver.solve().x))


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
    calls["wolfhound"]()
    timed = interleave(calls, repeats=1, budget=600.0)

    def values(weights: Vector) -> Vector:
        return np.asarray(residuals(concepts.T, vectors.T, weights) + price * weights.sum(axis=0))

    mine, lower = values(timed["wolfhound"].last.weights), np.asarray(timed["wolfhound"].last.lower)
    theirs = values(timed["Lasso"].last.weights)[:some]
    for name, found in timed.items():
        support = float((found.last.weights[:, :some] > 1e-9).sum(axis=0).mean())
        claim.row(problem="concepts", method=name, seconds=found.median / found.last.share, support=support)
    times = timed["Lasso"].median / timed["Lasso"].last.share / timed["wolfhound"].median
    claim.at_least("concepts: times faster than Lasso", times, 20.0, full_size=True)
    claim.at_most("concepts: proved gap, relative", float((1.0 - lower / mine).max()), 1e-7)
    claim.at_most(
        "concepts: value above that of Lasso, relative", float((mine[:some] / theirs).max() - 1.0), 1e-9
    )


if __name__ == "__main__":
    sys.exit(main())
