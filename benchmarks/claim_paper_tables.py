"""Claim: the paper's four tables, measured: what hashing saves, and at what price.

glove100, fashion_mnist and Gaussian atoms, 1e6 x 128; nested subsets from 1e4 atoms up;
queries along Frank-Wolfe runs to the means of parts of the atoms (interior, herding) and to
points outside the hull (boundary), another for each run.

preprocessing  seconds and bytes of `LshIndex.build` against n
iterations     steps 2/(ct+2) to f - min f <= eps with the worst answers of gap ratio c, against
               `theory.steps`; with the paper's steps clipped at 1, against their bound; with a
               real index, its mean and least ratio
candidates     atoms scored per query for a mean gap ratio of 0.9: `LshIndex`, the paper's raw
               construction (one D_x, shift, lift, one group of norms) and a uniform subset,
               with exponents fitted over n; the planner's rho beside them
construction   at the largest n, what each correction is worth; classic tables of gathered rows
space          one, two and four tables, beside the curve of space and time
scores         how many atoms have 0.9, 0.7 and 0.5 of the best gap, as powers of n; rho for the mean
               gap, and for the cosine of a query and its best atom if all others were orthogonal

Protocol: one thread; the means over six runs of 100 steps; candidates between two budgets
by interpolation of logarithms; the uniform subset by its expectation over all subsets.

Threshold: the steps never exceed the bound. At 0.9, interior: an exponent of at most 0.5
where n spans 1.5 decades, and 10 times fewer candidates than the uniform subset at 1e6.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import functools
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import constructions
import data
import descents
import lineage
import numpy as np
import scores
import walks
from constructions import Some, probing
from reference import Matrix
from rig import Claim, held_threads, interleave
from walks import INTERIOR, SHARES, Walk

import wolfhound
from wolfhound.oracles.lsh import LshIndex
from wolfhound.paper import theory
from wolfhound.planning.plan import plan

WANTED = 0.9
RUNS = 6
DECADES = 1.5
LEVELS = (0.9, 0.7, 0.5)
"""Gap ratios whose atoms are counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """Candidates at one n, by kind of index, and how many atoms have each of the `LEVELS`."""

    n: int
    ours: float
    raw: float
    uniform: float
    good: tuple[float, ...]


def atom_sets(tiny: bool) -> dict[str, Callable[[], Matrix]]:
    """The data by name."""
    if tiny:
        return {"gaussian": functools.partial(data.gaussian, 3000, 16)}
    return {
        "glove100": functools.partial(data.atoms, "glove100"),
        "fashion_mnist": functools.partial(data.atoms, "fashion_mnist"),
        "gaussian 1e6 x 128": functools.partial(data.gaussian, 1_000_000, 128),
    }


def sizes(n: int, tiny: bool) -> list[int]:
    """Nested subsets, two per decade."""
    low = 500 if tiny else 10_000
    return [round(size) for size in np.geomspace(low, n, round(2 * math.log10(n / low)) + 1).tolist()]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the claim; return the exit code."""
    claim = Claim(__file__, __doc__, argv, repeats=3)
    with held_threads(claim.options.threads):
        for name, make in atom_sets(claim.options.tiny).items():
            if claim.wants(name):
                judge(claim, name, make())
    return claim.finish()


def judge(claim: Claim, name: str, atoms: Matrix) -> None:
    """Fill all tables for one data set; add rows and checks."""
    points: dict[str, list[Point]] = {kind: [] for kind in SHARES}
    for n in sizes(len(atoms), claim.options.tiny):
        part = atoms[:n]
        exact, index = wolfhound.Int8Scan.build(part), build(claim, name, part)
        asked = {kind: walked(claim, part, exact, kind) for kind in SHARES}
        some = {kind: Some.of(walk, part) for kind, walk in asked.items()}
        first = max(float(np.linalg.norm(walk.queries, axis=1).max()) for walk in asked.values())
        raw = lineage.Probing(part, lineage.paper(part, first))
        for kind, walk in asked.items():
            points[kind].append(count(claim, f"{name} {kind}", index, walk, some[kind], raw=raw))
    known = {
        kind: {constructions.RAW: mine[-1].raw, "LshIndex": mine[-1].ours, "uniform subset": mine[-1].uniform}
        for kind, mine in points.items()
    }
    constructions.report(claim, name, atoms, some, known)
    space(claim, name, index, atoms, asked)
    for kind, mine in points.items():
        exponents(claim, f"{name} {kind}", mine, plan(atoms, ratio=WANTED).tau)
    descents.judge(claim, name, atoms)


def build(claim: Claim, name: str, atoms: Matrix) -> LshIndex:
    """Build the index, and say what it took."""
    call = {"": functools.partial(LshIndex.build, atoms)}
    timed = interleave(call, repeats=claim.options.repeats, budget=2.0)[""]
    n = len(atoms)
    claim.row(
        table="preprocessing",
        data=name,
        n=n,
        seconds=timed.median,
        megabytes=timed.last.nbytes / 2**20,
        microseconds_per_atom=1e6 * timed.median / n,
        bytes_per_atom=timed.last.nbytes / n,
        buckets=timed.last.buckets,
    )
    return timed.last


def walked(claim: Claim, atoms: Matrix, exact: wolfhound.Int8Scan, kind: str) -> Walk:
    """Return the queries of some runs."""
    steps = 20 if claim.options.tiny else 100
    return walks.joined([walks.walk(atoms, exact, kind, steps=steps, seed=1 + run) for run in range(RUNS)])


# ---------------------------------------------------------------- candidates


def count(claim: Claim, what: str, index: LshIndex, walk: Walk, some: Some, *, raw: lineage.Probing) -> Point:
    """Candidates at one n, and the scores behind them."""
    n = index.atoms.shape[0]
    share = scores.uniform_share(scores.profile(some.walk, some.scores), WANTED)
    point = Point(
        n=n,
        ours=candidates(index, walk),
        raw=probing(raw, some),
        uniform=n * share,
        good=tuple(scores.good(some.walk, some.scores, level) for level in LEVELS),
    )
    claim.row(
        table="candidates",
        data=what,
        n=n,
        candidates=point.ours,
        raw=point.raw,
        uniform=point.uniform,
        times_fewer=point.uniform / point.ours,
    )
    here, gap = on_sphere(index, walk)
    near = scores.cosine(some.walk, some.scores, raw.atoms, index.centre)
    claim.row(
        table="scores",
        data=what,
        n=n,
        **levels(point.good),
        here=here,
        gap=gap,
        rho_of_gap=theory.space_time(theory.distance_ratio(WANTED, gap, here=here), 0.0),
        cosine=near,
        rho_if_others_orthogonal=theory.rho(1e-9, near, theory.Regime.CROSS_POLYTOPE),
    )
    return point


def levels(numbers: Sequence[float]) -> dict[str, float]:
    """One cell for each level."""
    return {f"atoms_at_{level:g}": number for level, number in zip(LEVELS, numbers, strict=True)}


def on_sphere(index: LshIndex, walk: Walk) -> tuple[float, float]:
    """Means of <q, x - m> and of the gap, both over |q| R."""
    size = np.linalg.norm(walk.queries, axis=1) * index.radius
    here = (walk.here - walk.queries @ index.centre) / size
    return float(here.mean()), float(((walk.best - walk.here) / size).mean())


def candidates(index: LshIndex, walk: Walk) -> float:
    """Atoms that the index scores per query at the wanted mean ratio."""
    n = index.atoms.shape[0]
    budgets = np.unique(np.geomspace(8, n, 2 + 2 * round(math.log2(n / 8))).round().astype(int))
    scored, ratios = [], []
    for budget in budgets:
        hits = index.with_budget(int(budget)).query(walk.queries)
        scored.append(float(hits.scored.mean()))
        ratios.append(float(walk.ratios(hits.scores[:, 0].astype(np.float64)).mean()))
        if ratios[-1] >= WANTED:
            break
    return scores.needed(np.array(scored), np.array(ratios), WANTED)


def slope(points: Sequence[Point], get: Callable[[Point], float]) -> float:
    """Exponent of n in a number."""
    if len(points) < 2:
        return math.nan
    logs = np.log([[point.n, max(get(point), 1e-300)] for point in points])
    return float(np.polyfit(logs[:, 0], logs[:, 1], 1)[0])


def _good(at: int, point: Point) -> float:
    return point.good[at]


def exponents(claim: Claim, what: str, points: Sequence[Point], tau: float) -> None:
    """Fit exponents over all n; judge them."""
    ours, uniform = slope(points, lambda p: p.ours), slope(points, lambda p: p.uniform)
    claim.row(
        table="exponents",
        data=what,
        candidates=ours,
        raw=slope(points, lambda p: p.raw),
        uniform=uniform,
        **levels([slope(points, functools.partial(_good, at)) for at in range(len(LEVELS))]),
        planner_tau=tau,
        planner_rho=theory.rho(WANTED, tau),
        cross_polytope_rho=theory.rho(WANTED, tau, theory.Regime.CROSS_POLYTOPE),
    )
    if INTERIOR not in what:
        return
    if points[-1].n >= 10**DECADES * points[0].n or claim.options.tiny:
        claim.at_most(f"{what}: exponent of candidates at {WANTED:g}", ours, 0.5, full_size=True)
    if points[-1].n >= 10**6 or claim.options.tiny:
        fewer = points[-1].uniform / points[-1].ours
        claim.at_least(f"{what}: times fewer than a uniform subset", fewer, 10.0, full_size=True)


# ---------------------------------------------------------------- space


def space(claim: Claim, name: str, index: LshIndex, atoms: Matrix, asked: Mapping[str, Walk]) -> None:
    """More tables for fewer candidates, beside the curve of space and time."""
    n = len(atoms)
    for tables in (1, 2, 4):
        made = index if tables == 1 else LshIndex.build(atoms, tables=tables)
        rho_u = math.log(tables) / math.log(n)
        for kind, walk in asked.items():
            here, gap = on_sphere(index, walk)
            scored = candidates(made, walk)
            claim.row(
                table="space",
                data=f"{name} {kind}",
                n=n,
                tables=tables,
                megabytes=made.nbytes / 2**20,
                candidates=scored,
                rho_u=rho_u,
                rho_q=math.log(scored) / math.log(n),
                rho_q_of_curve=theory.space_time(theory.distance_ratio(WANTED, gap, here=here), rho_u),
            )


if __name__ == "__main__":
    sys.exit(main())
