"""One solve of a problem, by the library or by a baseline, as one record."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from problems import Problem
from reference import Ids, Proof, Vector, prove
from rig import Claim

import wolfhound
from wolfhound.core.contracts import Method

FULLY_CORRECTIVE = wolfhound.FullyCorrective()
CLASSICAL = wolfhound.FrankWolfe(wolfhound.Vanilla(), wolfhound.LineSearch())
BLENDED = wolfhound.FrankWolfe(wolfhound.BlendedPairwise(), wolfhound.LineSearch(), lazy=True)


class Mark(NamedTuple):
    """When a run reached a gap."""

    seconds: float
    passes: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What a method found, what it claims to have proved, and its cost.

    Attributes
    ----------
    clock, swept, gaps : (states,)
        Seconds, passes and gap along the run.
    inner_seconds : float
        Part of `seconds` spent in corrective solves over the pool; nan for methods
        without.
    """

    seconds: float
    value: float
    lower: float
    ids: Ids
    weights: Vector
    steps: int
    passes: float
    scored: int
    status: str
    clock: Vector
    swept: Vector
    gaps: Vector
    inner_seconds: float = math.nan

    @property
    def gap(self) -> float:
        """value - lower."""
        return self.value - self.lower

    @property
    def step_seconds(self) -> float:
        """Inner seconds per atom that joined the active set."""
        return self.inner_seconds / max(self.steps, 1)

    def reached(self, goal: float) -> Mark | None:
        """When the gap first was at most the goal; None if it never was."""
        good = np.flatnonzero(self.gaps <= goal)
        return Mark(float(self.clock[good[0]]), float(self.swept[good[0]])) if len(good) else None


def solve(
    problem: Problem,
    goal: float,
    *,
    method: Method = FULLY_CORRECTIVE,
    screen: bool | None = None,
    cap: float = math.inf,
) -> Run:
    """Solve by the library to an absolute gap, or until `cap` seconds are over.

    Atoms, oracle and objective are made anew: their set-up is part of the time.

    Parameters
    ----------
    problem
        What to solve.
    goal
        Absolute gap.
    method
        Ours by default.
    screen
        Whether a pass may be answered from an earlier one; None: the library's
        default. The published methods know no screening.
    cap
        Seconds.
    """
    begin = time.perf_counter()
    oracle = wolfhound.Scan(wolfhound.ArrayAtoms(problem.atoms), screen=screen)
    result = wolfhound.minimize(
        problem.objective(), oracle, method=method, rtol=0.0, atol=goal, max_seconds=cap
    )
    seconds = time.perf_counter() - begin
    spent = np.diff(result.trace.seconds, prepend=0.0)
    inner = result.trace.kind == "corrective"
    return Run(
        seconds=seconds,
        value=result.value,
        lower=result.lower,
        ids=result.ids,
        weights=result.weights,
        steps=result.steps,
        passes=result.passes,
        scored=result.scored,
        status=result.status.name,
        clock=result.trace.seconds,
        swept=result.trace.passes,
        gaps=result.trace.gap,
        inner_seconds=float(spent[inner].sum()) if inner.any() else math.nan,
    )


def confirm(claim: Claim, problem: Problem, run: Run, goal: float) -> Proof:
    """Re-check a run's value, feasibility and gap by independent float64 passes.

    The lower bound of a run may come from an earlier point than its last one, so
    where the last point alone proves less, a finer solve supplies a better one:
    every point of the hull proves a lower bound for all.
    """
    proof = prove(problem.loss, problem.atoms, run.ids, run.weights)
    lower, least = proof.lower, proof.value
    if proof.value - lower > goal:
        finer = solve(problem, goal / 30.0)
        better = prove(problem.loss, problem.atoms, finer.ids, finer.weights)
        lower, least = max(lower, better.lower), min(least, better.value)
    tiny = 1e-12 * max(problem.scale, abs(proof.value))
    claim.holds(f"{problem.name} {goal / problem.scale:.0e}: weights on the simplex", proof.feasible)
    claim.holds(
        f"{problem.name} {goal / problem.scale:.0e}: value and lower are true",
        bool(
            proof.value - tiny <= run.value <= proof.value + 1e-3 * goal + tiny and run.lower <= least + tiny
        ),
    )
    claim.at_most(
        f"{problem.name} {goal / problem.scale:.0e}: independent gap / goal",
        (proof.value - lower) / goal,
        1.0 + 1e-6,
    )
    return proof
