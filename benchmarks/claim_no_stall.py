"""Claim: bare indexes stall on boundary problems; in tiers they reach a proved 1e-6.

Problem B (projection of an outside point) on glove100, fashion_mnist and a Gaussian
mixture of 200,000 x 64, by blended pairwise Frank-Wolfe. A bare index answers every
query; where it misses an atom it misses it again, as x and so the query stop moving.
`Tiered` accepts an answer only if it promises half of the gap that is left, and asks an
exact pass otherwise.

Protocol: one thread; indexes with their default parameters; one goal for all, 1e-6 of
the problem's first gap; a cap of 60 s, 20 s for random subsets, which run once; medians of interleaved
repeats; indexes are built once, outside the time. The true gap of a run is its f,
recomputed in numpy, minus a lower bound that an independent numpy pass proves near the
optimum. The time to a true gap of 1e-6, known afterwards only, is read off the trace of
the last repeat. Fresh random subsets do not stall, but nothing tells them when they are
done, so they run to the cap: reported, not judged. So is the exact oracle alone.

Threshold: every bare index ends by itself, without progress and without a proof of 1e-6; on two
of the three data sets at least its true gap is above that. Every index in tiers proves 1e-6,
confirmed by the independent bound.

First stated with a true gap above 1e-6 on all three data sets. Restated, because ClusterIndex,
since its clusters are better, has ended at the optimum of the mixture (a true gap of 6e-14 where it
had proved 0.12): which atoms an index misses is luck, and with luck it misses none that counts.
That it cannot know so is the claim, and is judged on every data set by what is proved.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import functools
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import data
import faissed
import numpy as np
import problems
import runs
from problems import Problem
from reference import Matrix, Proof, prove
from rig import Claim, held_threads, interleave

import wolfhound
from wolfhound.core.contracts import Oracle

GOAL = 1e-6
SETS = 3
CAP, RANDOM_CAP, TINY_CAP = 60.0, 20.0, 0.3
METHOD = wolfhound.FrankWolfe(wolfhound.BlendedPairwise(), wolfhound.LineSearch(), lazy=True)
# An unlucky sample says nothing of the next.
PATIENT = wolfhound.FrankWolfe(wolfhound.BlendedPairwise(), wolfhound.LineSearch(), lazy=True, patience=10**9)

INDEXES: dict[str, Callable[[Matrix], Oracle]] = {
    "FaissIndex Hnsw": faissed.hnsw,
    "FaissIndex IvfPq": faissed.ivf_pq,
    "FaissIndex Pq": faissed.pq,
    "ClusterIndex": wolfhound.ClusterIndex.build,
    "LshIndex": wolfhound.LshIndex.build,
}
RANDOM = "RandomSubset"


def atom_sets(tiny: bool) -> dict[str, Callable[[], Matrix]]:
    """The data by name; in tiny runs small mixtures stand in for all."""
    if tiny:
        shapes = {"glove100": (3000, 10), "fashion_mnist": (600, 30), "mixture": (2000, 8)}
        return {name: functools.partial(data.mixture, n, d) for name, (n, d) in shapes.items()}
    return {
        "glove100": functools.partial(data.atoms, "glove100"),
        "fashion_mnist": functools.partial(data.atoms, "fashion_mnist"),
        "mixture": functools.partial(data.mixture, 200_000, 64),
    }


def main(argv: Sequence[str] | None = None) -> int:
    """Run the claim; return the exit code."""
    claim = Claim(__file__, __doc__, argv, repeats=3)
    sets = {name: make for name, make in atom_sets(claim.options.tiny).items() if claim.wants(name)}
    with held_threads(claim.options.threads):
        gaps = [
            judge(claim, problems.distance(f"{name} B", make(), share=1.0)) for name, make in sets.items()
        ]
    for index in INDEXES if len(gaps) == SETS else ():
        above = sum(each[index] >= GOAL for each in gaps)
        claim.at_least(
            f"{index}: data sets with a true gap above 1e-6, bare", above, SETS - 1, full_size=True
        )
    return claim.finish()


def judge(claim: Claim, problem: Problem) -> dict[str, float]:
    """Run all indexes on one problem, bare and in tiers; add rows and checks; true gaps of the bare."""
    claim.say(f"{problem.name}: {problem.shape}")
    finest = runs.solve(problem, 1e-3 * GOAL * problem.scale)
    best = prove(problem.loss, problem.atoms, finest.ids, finest.weights)
    ask = functools.partial(measure, claim, problem, best)
    ask("Scan", {"exact": lambda: wolfhound.Scan(problem.atoms)})
    gaps: dict[str, float] = {}
    for name, build in INDEXES.items():
        begin = time.perf_counter()
        index = build(problem.atoms)
        took = time.perf_counter() - begin
        ends = ask(name, {"bare": _same(index), "tiers": _tiers(index)}, build_seconds=took)
        bare, tiers = ends["bare"], ends["tiers"]
        what = f"{problem.name}, {name}"
        claim.at_least(f"{what}: bare, ends without progress", float(bare.stalled), 1.0, full_size=True)
        gaps[name] = bare.true
        claim.at_least(f"{what}: bare, proved gap", bare.proved, GOAL, full_size=True)
        claim.at_most(f"{what}: in tiers, proved gap", tiers.proved, GOAL)
        claim.at_most(f"{what}: in tiers, true gap", tiers.true, GOAL * (1.0 + 1e-6))
        claim.holds(f"{what}: in tiers, value and lower bound are true", tiers.honest)
    subset = functools.partial(wolfhound.RandomSubset, problem.atoms)
    ask(RANDOM, {"bare": subset, "tiers": lambda: wolfhound.Tiered(subset())})
    return gaps


def _same(index: Oracle) -> Callable[[], Oracle]:
    return lambda: index


def _tiers(index: Oracle) -> Callable[[], Oracle]:
    return lambda: wolfhound.Tiered(index)  # anew for each run: it remembers


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """How the last run of some repeats ended; gaps are relative.

    Attributes
    ----------
    true, proved : float
        f minus the independent lower bound, and what the run itself proved.
    honest : bool
        Whether its value and its lower bound are true.
    """

    true: float
    proved: float
    stalled: bool
    honest: bool


def measure(
    claim: Claim,
    problem: Problem,
    best: Proof,
    name: str,
    makes: Mapping[str, Callable[[], Oracle]],
    *,
    build_seconds: float | None = None,
) -> dict[str, End]:
    """Run on some oracles, interleaved; add a row for each."""
    slow = TINY_CAP if claim.options.tiny else RANDOM_CAP
    cap = slow if name == RANDOM else CAP
    calls = {tier: functools.partial(solve, problem, name, make, cap) for tier, make in makes.items()}
    ends = {}
    for tier, timed in interleave(calls, repeats=claim.options.repeats, budget=cap).items():
        result, served = timed.last
        proof = prove(problem.loss, problem.atoms, result.ids, result.weights)
        excess = result.trace.value - best.lower
        arrived = np.flatnonzero(excess <= GOAL * problem.scale)
        room = 1e-3 * GOAL * problem.scale
        ahead = result.value - proof.value
        honest = proof.feasible and abs(ahead) <= room and result.lower <= best.value + 1e-3 * room
        ends[tier] = End(
            true=(proof.value - best.lower) / problem.scale,
            proved=result.gap / problem.scale,
            stalled=result.status is wolfhound.Status.STALLED,
            honest=bool(honest),
        )
        claim.row(
            data=problem.name,
            index=name,
            tier=tier,
            status=result.status.name,
            true_gap=ends[tier].true,
            proved_gap=ends[tier].proved,
            steps=result.steps,
            passes=result.passes,
            atoms_scored=result.scored,
            seconds=timed.median,
            seconds_to_true_goal=result.trace.seconds[arrived[0]] if len(arrived) else None,
            build_seconds=build_seconds,
            **{f"from_{source}": times for source, times in served.items()},
        )
    return ends


def solve(
    problem: Problem, name: str, make: Callable[[], Oracle], cap: float
) -> tuple[wolfhound.Result, dict[str, int]]:
    """One run, and how many queries each tier served."""
    oracle = make()
    method = PATIENT if name == RANDOM else METHOD
    result = wolfhound.minimize(
        problem.objective(), oracle, method=method, rtol=0.0, atol=GOAL * problem.scale, max_seconds=cap
    )
    return result, oracle.counts if isinstance(oracle, wolfhound.Tiered) else {}


if __name__ == "__main__":
    sys.exit(main())
