"""Steps of Frank-Wolfe to a wanted gap with answers of some gap ratio, against the bounds."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import problems
import runs
from problems import Problem
from reference import Matrix, Vector, prove
from rig import Claim
from walks import SHARES

import wolfhound
from wolfhound.core.contracts import Atoms, Hits, Ids, Method, Oracle, State, StepSize
from wolfhound.data.atoms import ArrayAtoms, diameter_bound
from wolfhound.methods.steps import Clipped
from wolfhound.oracles.asking import check_question, offer
from wolfhound.oracles.lsh import LshIndex
from wolfhound.paper import theory
from wolfhound.paper.sublinear_frank_wolfe import SublinearFrankWolfe

RATIOS = (1.0, 0.9, 0.7, 0.5)
EPS = 0.02
"""Wanted gap, relative to the first."""
MOST = 1000
"""Steps after which a run is given up; a quarter of them for a real index."""


class Worst:
    """Answers with the worst atom whose gap ratio is at least c; proves nothing.

    No oracle knows x, so somebody must tell.
    """

    def __init__(self, atoms: Matrix, c: float) -> None:
        self.atoms: Atoms = ArrayAtoms(atoms)
        self.rows, self.c, self.x = atoms, c, np.zeros(atoms.shape[1])

    def query(
        self, queries: Matrix, *, k: int = 1, thresholds: Vector | None = None, exclude: Ids | None = None
    ) -> Hits:
        """Answer one query."""
        ask = check_question(self.atoms, queries, k, exclude)
        gaps = self.rows @ ask.queries[0].astype(self.rows.dtype) - ask.queries[0] @ self.x
        allowed = np.where(gaps >= self.c * gaps.max(), gaps, np.inf)
        # Where c is 1 or x is best, rounding must not decide: the best will do.
        atom = gaps.argmax() if self.c == 1.0 or gaps.max() <= 0.0 else allowed.argmin()
        return offer(self.atoms, ask, np.full((1, 1), atom), scored=np.full(1, len(gaps)))


class Bare:
    """An index that probes its whole budget for every query, whatever would be enough."""

    def __init__(self, index: LshIndex) -> None:
        self.index = index
        self.atoms = index.atoms
        self.scored: list[int] = []

    def query(
        self, queries: Matrix, *, k: int = 1, thresholds: Vector | None = None, exclude: Ids | None = None
    ) -> Hits:
        """Ask without thresholds."""
        hits = self.index.query(queries, k=k, exclude=exclude)
        self.scored.extend(hits.scored.tolist())
        return hits


@dataclass(frozen=True, slots=True, kw_only=True)
class Course:
    """A problem and where it is to end.

    Attributes
    ----------
    least : float
        A lower bound on min f, nearly min f.
    first, eps, curvature : float
        f(w_0) - least, the wanted f - least, and D^2.
    """

    problem: Problem
    least: float
    first: float
    eps: float
    curvature: float


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """Steps to eps (None: not reached), passes, atoms scored, audited ratios, all f - least."""

    steps: int | None
    passes: float
    scored: float
    ratios: Vector
    gaps: list[float]


def judge(claim: Claim, name: str, atoms: Matrix) -> None:
    """Count steps inside and outside the hull; add rows and checks."""
    for kind, share in SHARES.items():
        course = planned(problems.distance(f"{name} {kind}", atoms, share=share))
        exact = descend(course, Worst(atoms, 1.0), steps_of(wolfhound.OpenLoop(2.0)))
        for c in RATIOS:
            for schedule, (step, bound) in schedules(course, c).items():
                end = descend(course, Worst(atoms, c), steps_of(step))
                row(claim, course, f"worst of ratio c, {schedule}", end, exact, c=c, bound=bound)
                taken = math.inf if end.steps is None else end.steps
                what = f"{course.problem.name}, c = {c:g}, {schedule}"
                claim.at_most(f"{what}: steps / bound", taken / bound, 1.0)
        real(claim, course, exact)


def real(claim: Claim, course: Course, exact: End) -> None:
    """Real indexes, whose ratios are what they are: reported."""
    atoms = course.problem.atoms
    index, codes = LshIndex.build(atoms), wolfhound.Int8Scan.build(atoms)
    bare = Bare(index)
    audited = wolfhound.Audited(bare, codes, every=1)
    end = descend(course, audited, steps_of(wolfhound.OpenLoop(2.0 / 0.9)), most=MOST // 4)
    cost = float(np.mean(bare.scored))
    row(claim, course, "LshIndex, steps for c = 0.9", end, exact, scored_per_step=cost)
    end = descend(course, index, SublinearFrankWolfe(ratio=0.8, exact=codes, mixed=0, cache=0, sample=0))
    end = replace(end, ratios=np.empty(0))  # of its passes
    row(claim, course, "SublinearFrankWolfe(ratio=0.8), LshIndex, tau halved", end, exact)


def planned(problem: Problem) -> Course:
    """Find min f, the first gap and the diameter."""
    finest = runs.solve(problem, 1e-5 * problem.scale)
    least = prove(problem.loss, problem.atoms, finest.ids, finest.weights).lower
    blank = Course(problem=problem, least=least, first=math.inf, eps=math.inf, curvature=math.inf)
    first = descend(blank, Worst(problem.atoms, 1.0), steps_of(wolfhound.OpenLoop(2.0))).gaps[0]
    curvature = diameter_bound(ArrayAtoms(problem.atoms)) ** 2
    return Course(problem=problem, least=least, first=first, eps=EPS * first, curvature=curvature)


def schedules(course: Course, c: float) -> dict[str, tuple[StepSize, int]]:
    """Steps and what is proved of them."""
    sizes = {"c": c, "curvature": course.curvature, "first": course.first}
    low, high = 0, 1
    while theory.gap_after_clipped(high, **sizes) > course.eps:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        reached = theory.gap_after_clipped(middle, **sizes) <= course.eps
        low, high = (low, middle) if reached else (middle, high)
    return {
        "2/(ct+2)": (wolfhound.OpenLoop(2.0 / c), theory.steps(course.eps, **sizes)),
        "2/(c(t+2)) clipped": (Clipped(c), high),
    }


def row(claim: Claim, course: Course, oracle: str, end: End, exact: End, **cells: float | int | None) -> None:
    """Say how a run ended."""
    relative = None if end.steps is None or not exact.steps else end.steps / exact.steps
    claim.row(
        table="iterations",
        data=course.problem.name,
        oracle=oracle,
        mean_ratio=float(end.ratios.mean()) if len(end.ratios) else None,
        least_ratio=float(end.ratios.min()) if len(end.ratios) else None,
        steps=end.steps,
        times_exact=relative,
        relative_gap=min(end.gaps) / course.first,
        passes=end.passes,
        **({"scored_per_step": end.scored} | cells),
    )


def steps_of(step: StepSize) -> Method:
    """Frank-Wolfe with a step rule."""
    return wolfhound.FrankWolfe(wolfhound.Vanilla(), step)


def descend(course: Course, oracle: Oracle, method: Method, *, most: int = MOST) -> End:
    """Run until f - least <= eps."""
    gaps: list[float] = []

    def follow(state: State) -> bool:
        if isinstance(oracle, Worst):
            oracle.x = state.point.x
        gaps.append(state.point.value - course.least)
        return gaps[-1] <= course.eps

    objective = course.problem.objective()
    result = wolfhound.minimize(objective, oracle, method=method, rtol=0.0, max_steps=most, callback=follow)
    ratios = result.trace.ratio[np.isfinite(result.trace.ratio)]
    return End(
        steps=result.steps if gaps[-1] <= course.eps else None,
        passes=result.passes,
        scored=result.scored / max(1, result.steps),
        ratios=ratios,
        gaps=gaps,
    )
