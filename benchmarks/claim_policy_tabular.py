"""Claim: a share of the gap is enough to find the best policy, in few steps.

Random decision processes whose actions are mixtures of n sparse distributions (`random_acmdp`):
affine in the action, and with a quadratic cost. Oracles find the worst atom that still has a
share c of the best gap in every state: 1, 0.9, 0.7, 0.5. Then the paper's table of policies:
preprocessing time and bytes, and the cost of a step, for exact scans (of rows, and of
int8 codes) and for indexes (ClusterIndex, LshIndex), against n.

Protocol: one thread. The error of a policy is (J* - J) / (J* - J of the start), J* the optimum of policy
iteration where the model is affine, else the upper bound that a long exact run has proved. Steps are
counted to an error of 0.1 % and 1 %. T: how many steps the per-state step's theorem asks for
(`policy_steps`), against how many it took to the same root of summed squared gaps, for several
eps and c. The paper's own step runs beside. Of a step, the time of its |S| queries in one
batch, atoms scored per query, and the mean gap ratio (of gaps above 1e-3 of the largest) at the
first policy of a run and after one exact step, where most states have arrived; indexes with their
default settings and a winners' cache that has seen another run.

Whole runs, 64 states: smooth, sparse distributions, d = 32, n from 1e4 to 1e6; affine and smooth with
word vectors as actions (glove100, 341,479 x 100; five successors of each state, whose chances lean with the
action; the taste of a state, less 5 |a|^2 where smooth). atol is 3e-3 of the first root of summed squared
gaps. Exact runs (rows, int8 codes), and `sfwpo` on every index, on random samples of 100, 200, 1,000 and
n/20 atoms, and on `LshIndex` with a sample of 500 beside it, all with the past winners that an action set
remembers: seconds with and without the build, from how many runs over the same actions a way beats both
exact ones, and an index all random ones.

Thresholds: affine to 0.1 % in at most 10 steps for every c >= 0.5; smooth to 1 % in at most 150, J
monotone; steps at most T; an index scores fewer atoms per query than a scan at every n >= 1e5; every whole
run proves what the exact one does, and with a million actions the better of the two indexes takes less
time than the faster exact run, its build included. With words a run may be too short for an index: from
how many on it pays is in the table, and not judged.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import policy_runs
from policy_runs import ORACLES, build_oracle, sparse_atoms, sparse_problem
from poor_oracles import with_share_of_gap, with_share_of_score
from reference import Vector
from rig import Claim, held_threads, interleave

from wolfhound.policy import (
    ACMDP,
    ActionSet,
    Chosen,
    Evaluation,
    PaperStep,
    PolicyState,
    TabularResult,
    fwpo,
    policy_iteration,
    policy_steps,
    random_acmdp,
    scales,
    sfwpo,
)

SHARES = (1.0, 0.9, 0.7, 0.5)


@dataclass(frozen=True, slots=True)
class Size:
    """States, atoms and dimensions of a problem, with its discount."""

    states: int
    n: int
    dim: int
    gamma: float = 0.9

    def make(self, curvature: float, seed: int = 1) -> ACMDP:
        return random_acmdp(self.states, self.n, self.dim, curvature=curvature, gamma=self.gamma, seed=seed)

    def __str__(self) -> str:
        return f"{self.states} x {self.n} x {self.dim}, gamma {self.gamma:g}"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the claim; return the exit code."""
    claim = Claim(__file__, __doc__, argv, repeats=5)
    tiny = claim.options.tiny
    sizes = [Size(20, 1000, 8), Size(100, 10_000, 16), Size(50, 10_000, 16, 0.97)]
    sizes = [Size(8, 120, 4)] if tiny else sizes
    with held_threads(claim.options.threads):
        for size in sizes:
            if claim.wants("affine"):
                judge_affine(claim, size)
            if claim.wants("smooth"):
                judge_smooth(claim, size)
        if claim.wants("steps"):
            judge_steps(claim, sizes[0])
        if claim.wants("cost"):
            judge_cost(claim)
        if claim.wants("whole"):
            policy_runs.judge_whole_runs(claim)
        if claim.wants("words"):
            policy_runs.judge_words(claim)
    return claim.finish()


# ---------------------------------------------------------------- steps against c


def judge_affine(claim: Claim, size: Size) -> None:
    """Steps to 0.1 %, for every share of the gap and three seeds."""
    for share in SHARES:
        counts, errors = [], []
        for seed in range(1, 4):
            acmdp = size.make(0.0, seed)
            best = policy_iteration(acmdp).score
            result = _poor_run(acmdp, share, steps=30)
            left = _errors(result, best)
            counts.append(_first(left, 1e-3))
            errors.append(float(left[-1]))
        claim.row(model="affine", size=str(size), c=share, steps_to_01=max(counts), error=max(errors))
        name = f"affine, {size}, c {share:g}: steps to 0.1 %"
        claim.at_most(name, max(counts), 10)
    acmdp = size.make(0.0)
    best = policy_iteration(acmdp).score
    stalled = sfwpo(with_share_of_score(acmdp, 0.99), confirm=False, max_steps=200)
    paper = fwpo(acmdp, step=PaperStep(), rtol=0.0, max_steps=_many(size))
    for what, result in (("0.99 of the inner product", stalled), ("the paper's step", paper)):
        claim.row(model="affine", size=str(size), c=what, steps=result.steps, error=_errors(result, best)[-1])
    claim.at_least(f"affine, {size}: error of 0.99 of the inner product", _errors(stalled, best)[-1], 0.01)
    claim.at_least(f"affine, {size}: error of the paper's step", _errors(paper, best)[-1], 0.9)


def _many(size: Size) -> int:
    """As many steps as are affordable, to show that the paper's do hardly anything: 2,000 at 20 states."""
    return round(2000 * min(1.0, 20_000 / (size.states * size.n)))


def judge_smooth(claim: Claim, size: Size) -> None:
    """Steps to 1 % of what a long run has proved, and whether J ever falls."""
    acmdp = size.make(2.0)
    steps, seconds = (600, float("inf")) if claim.options.tiny else (1500, 90.0)
    long = fwpo(acmdp, rtol=1e-9, max_steps=steps, max_seconds=seconds)
    for share in SHARES:
        result = _poor_run(acmdp, share, steps=150)
        left = _errors(result, long.upper)
        falls = float(np.diff(result.scores).min())
        claim.row(
            model="smooth",
            size=str(size),
            c=share,
            steps_to_10=_first(left, 0.1),
            steps_to_1=_first(left, 0.01),
            error=float(left[-1]),
            least_gain=falls,
        )
        claim.at_most(f"smooth, {size}, c {share:g}: steps to 1 %", _first(left, 0.01), 150)
        claim.holds(f"smooth, {size}, c {share:g}: J is monotone", falls >= -1e-10)


def _poor_run(acmdp: ACMDP, share: float, *, steps: int) -> TabularResult:
    """A run with the poorest oracle of this share of the gap, confirmed by nobody."""
    if share == 1.0:
        return fwpo(acmdp, rtol=0.0, atol=0.0, max_steps=steps)
    poor = with_share_of_gap(acmdp, share)
    return sfwpo(poor, ratio=share, rtol=0.0, atol=0.0, confirm=False, max_steps=steps)


def _errors(result: TabularResult, best: float) -> Vector:
    """(steps + 1,) errors, relative to that of the start."""
    scores = result.scores[1:]
    return np.asarray(np.maximum(best - scores, 0.0) / (best - scores[0]))


def _first(errors: Vector, wanted: float) -> float:
    """Steps until the error is reached; inf if it never is."""
    there = np.flatnonzero(errors <= wanted)
    return float(there[0]) if len(there) else float("inf")


# ---------------------------------------------------------------- steps against T


def judge_steps(claim: Claim, size: Size) -> None:
    """The theorem's number of steps against what they were, for the same eps and c."""
    acmdp = size.make(2.0)
    known = scales(acmdp)
    first = fwpo(acmdp, max_steps=1).measures[1]
    for share in (1.0, 0.5):
        for part in (0.3, 0.1, 0.03):
            eps = part * first
            promised = policy_steps(
                eps,
                c=share,
                span=known.span,
                largest=known.slope * known.diameter,
                curvature=known.action_smoothness * known.diameter**2,
                least=float(acmdp.start.min()),
            )
            result = _poor_run(acmdp, share, steps=1000)
            # What the oracle found, divided by its share, bounds the true gaps.
            took = _first(result.measures[1:], eps)
            claim.row(model="smooth", size=str(size), c=share, eps=eps, steps=took, theorem_T=promised)
            claim.at_most(f"smooth, c {share:g}, eps {part:g} of the start: steps / T", took / promised, 1.0)


# ---------------------------------------------------------------- cost per step, against n


def judge_cost(claim: Claim) -> None:
    """The paper's table: preprocessing, bytes, and the cost of one step, against n."""
    tiny = claim.options.tiny
    states, dim = (8, 6) if tiny else (64, 32)
    for n in (300, 3000) if tiny else (1000, 10_000, 100_000, 1_000_000):
        atoms = sparse_atoms(n, dim)
        acmdp = sparse_problem(atoms, states)
        earlier, first, later = _directions(acmdp)
        built = {name: build_oracle(make, atoms) for name, make in ORACLES.items()}
        sets = {name: ActionSet(atoms, oracle=oracle) for name, (oracle, _) in built.items()}
        for actions in sets.values():
            for here in earlier:
                actions.argmax(here.gradients)
        ratios = {name: [_ratio(sets, name, here) for here in (first, later)] for name in sets}
        calls = {name: _call(actions, first) for name, actions in sets.items()}
        timed = interleave(calls, repeats=claim.options.repeats)
        for name, (oracle, seconds) in built.items():
            chosen = timed[name].last
            per_query = chosen.scored / states
            claim.row(
                table="policies",
                n=n,
                oracle=name,
                preprocessing_s=seconds,
                megabytes=getattr(oracle, "nbytes", 0) / 2**20,
                ms_per_step=1e3 * timed[name].median,
                scored_per_query=per_query,
                gap_ratio=ratios[name][0],
                gap_ratio_later=ratios[name][1],
            )
            if name in ("ClusterIndex", "LshIndex") and n >= 100_000:
                claim.at_most(f"n {n:,}, {name}: atoms scored / n", per_query / n, 0.5, full_size=True)
        judge_runs(claim, acmdp, sets["ClusterIndex"], n)


def judge_runs(claim: Claim, acmdp: ACMDP, indexed: ActionSet, n: int) -> None:
    """Whole runs to a proved 1e-3, with exact scans and with an index."""
    exact = fwpo(acmdp)
    found = sfwpo(acmdp.with_actions(indexed))
    for name, result in (("Scan", exact), ("ClusterIndex", found)):
        claim.row(
            table="runs",
            n=n,
            oracle=name,
            steps=result.steps,
            passes=result.passes,
            scored=result.scored,
            seconds=result.seconds,
            gap=result.gap,
        )
    claim.holds(f"n {n:,}: both runs proved what was asked", exact.success and found.success)
    claim.at_most(
        f"n {n:,}: difference of the two J / the proved gaps",
        abs(exact.score - found.score) / max(exact.gap + found.gap, exact.goal),
        1.0,
    )


def _directions(acmdp: ACMDP) -> tuple[list[Evaluation], Evaluation, Evaluation]:
    """Policies of one exact run, to learn winners from; the first and the second policy of another."""
    runs: list[list[Evaluation]] = []
    for seed in (5, 6):
        seen: list[PolicyState] = []
        fwpo(acmdp, max_steps=1, callback=seen.append, seed=seed)
        runs.append([state.here for state in seen[1:]])
    return runs[0], runs[1][0], runs[1][-1]


def _ratio(sets: dict[str, ActionSet], name: str, here: Evaluation) -> float:
    """Mean share of the exact gap, over states where it is above 1e-3 of the largest."""
    gaps, best = (sets[which].argmax(here.gradients, points=here.policy).gaps for which in (name, "Scan"))
    moving = best > 1e-3 * best.max()
    return float((np.maximum(gaps, 0.0)[moving] / best[moving]).mean())


def _call(actions: ActionSet, here: Evaluation) -> Callable[[], Chosen]:
    return lambda: actions.argmax(here.gradients, points=here.policy)


if __name__ == "__main__":
    sys.exit(main())
