"""Ways to solve a problem over given atoms, timed: the paper's algorithms and `minimize`."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import functools
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import problems
import runs
from problems import Problem
from reference import Distance, Matrix
from rig import interleave

import wolfhound
from wolfhound.core.contracts import Method, State
from wolfhound.paper.sublinear_frank_wolfe import SublinearFrankWolfe

SHARE = 0.8
"""c of Algorithm 2, the default of `SublinearFrankWolfe`."""
MIXED = 64
"""Atoms whose mean is an interior target."""
FIRST = 10_000
"""Atoms of the smallest set: interior targets are means of some of them, so inside every hull."""
_SEED = 7
_MOST_STEPS, _MOST_SECONDS = 5000, 60.0
_ENOUGH = 1.0
"""Seconds of one way and target after which it is not timed again."""

SCAN, CODES = "Alg. 1, Scan", "Alg. 1, Int8Scan"
HASHES, CLUSTERS = "Alg. 2, LshIndex", "Alg. 2, ClusterIndex"
RANDOM, FEW = "Alg. 2, RandomSubset 1 %", "Alg. 2, RandomSubset 1,000"
DEFAULT = "minimize, its default"
EXACT, SAMPLES = (SCAN, CODES), (RANDOM, FEW)


@dataclass(frozen=True, slots=True)
class Way:
    """How the oracle is made, whether that is work, and the method for a share c; None: the default."""

    make: Callable[[Matrix], Any]
    built: bool
    method: Callable[[float], Method | None]


def _alg1(share: float) -> Method:
    return wolfhound.FrankWolfe(wolfhound.Vanilla(), wolfhound.OpenLoop(2.0))


def _alg2(share: float) -> Method:
    # From the same start as the others: the best atom of the pool.
    return SublinearFrankWolfe(ratio=share, mixed=0)


WAYS: Mapping[str, Way] = {
    SCAN: Way(wolfhound.Scan, False, _alg1),
    CODES: Way(wolfhound.Int8Scan.build, True, _alg1),
    # With proof: a "none" is confirmed by a pass over the codes that the index has anyway.
    HASHES: Way(functools.partial(wolfhound.LshIndex.build, proof=True), True, _alg2),
    CLUSTERS: Way(functools.partial(wolfhound.ClusterIndex.build, proof=True), True, _alg2),
    RANDOM: Way(wolfhound.RandomSubset, False, _alg2),
    FEW: Way(functools.partial(wolfhound.RandomSubset, size=1000), False, _alg2),
    DEFAULT: Way(lambda atoms: atoms, False, lambda share: None),
}


@dataclass(frozen=True, slots=True)
class Tool:
    """An oracle over some atoms, and the seconds that it took to build."""

    oracle: Any
    build: float

    @property
    def megabytes(self) -> float:
        """Memory beside the atoms; 0 where nothing is built."""
        return float(self.oracle.nbytes) / 2**20 if self.build else 0.0


def build_tools(atoms: Matrix) -> dict[str, Tool]:
    """Make the oracles of all ways."""
    return {name: build_tool(way, atoms) for name, way in WAYS.items()}


def build_tool(way: Way, atoms: Matrix) -> Tool:
    """Make the oracle of a way."""
    begin = time.perf_counter()
    oracle = way.make(atoms)
    return Tool(oracle, time.perf_counter() - begin if way.built else 0.0)


def compile_kernels(atoms: Matrix) -> None:
    """Run every way on a few atoms, so that nothing is compiled while a clock runs."""
    few = np.ascontiguousarray(atoms[:2000])
    tools = build_tools(few)
    for share in (0.0, 1.0):
        problem = problems.distance("warm", few, share=share)
        task = Task(problem, least=0.0, goal=0.05 * problem.scale)
        for name, tool in tools.items():
            solve(name, tool.oracle, task, most=50)


# ---------------------------------------------------------------- problems


@dataclass(frozen=True, slots=True)
class Task:
    """A problem, a lower bound that is nearly min f, and the wanted f - min f."""

    problem: Problem
    least: float
    goal: float


def interior_tasks(atoms: Matrix, many: int, eps: float, *, name: str) -> list[Task]:
    """Targets inside the hull: means of random atoms among the first; the same for nested atoms."""
    rng, first = np.random.default_rng(_SEED), atoms[:FIRST]
    tasks = []
    for _ in range(many):
        chosen = first[rng.choice(len(first), min(MIXED, len(first) // 2), replace=False)]
        target = chosen.mean(0, dtype=np.float64)
        loss = Distance(target)
        scale = problems.scale_of(loss, first)
        objective = functools.partial(wolfhound.SquaredDistance, target)
        problem = Problem(name=name, atoms=atoms, loss=loss, objective=objective, scale=scale)
        tasks.append(Task(problem, least=0.0, goal=eps * scale))
    return tasks


def boundary_tasks(atoms: Matrix, many: int, eps: float, *, name: str) -> list[Task]:
    """Targets outside the hull, in random directions."""
    tasks = []
    for seed in range(1, many + 1):
        problem = problems.distance(name, atoms, share=1.0, seed=seed)
        least = runs.solve(problem, 1e-5 * problem.scale).lower
        tasks.append(Task(problem, least=least, goal=eps * problem.scale))
    return tasks


# ---------------------------------------------------------------- runs


@dataclass(frozen=True, slots=True)
class Ending:
    """How a run ended; its error is f - min f in units of the problem's scale."""

    steps: int
    passes: float
    scored: int
    error: float
    reached: bool


def solve(name: str, oracle: Any, task: Task, *, share: float = SHARE, most: int = _MOST_STEPS) -> Ending:
    """Run one way until f - min f <= goal; `minimize` as it is proves this, the others are told."""
    method = WAYS[name].method(share)
    wanted = task.least + task.goal

    def follow(state: State) -> bool:
        return state.point.value <= wanted

    told: dict[str, Any] = {} if method is None else {"method": method, "callback": follow}
    result = wolfhound.minimize(
        task.problem.objective(),
        oracle,
        rtol=0.0,
        atol=task.goal,
        max_steps=most,
        max_seconds=_MOST_SECONDS,
        **told,
    )
    return Ending(
        steps=result.steps,
        passes=result.passes,
        scored=result.scored,
        error=(result.value - task.least) / task.problem.scale,
        reached=result.value <= wanted * (1.0 + 1e-9),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What a problem costs by some way: means over problems of the median seconds.

    Attributes
    ----------
    build, seconds : float
        To build the oracle, once; to solve a problem, inf if some was not solved.
    """

    build: float
    seconds: float
    steps: float
    passes: float
    scored: float
    error: float

    def total(self, many: int) -> float:
        """Seconds of so many problems over the same atoms, with the build."""
        return self.build + many * self.seconds


def time_ways(
    tools: Mapping[str, Tool], tasks: Sequence[Task], *, repeats: int, share: float = SHARE
) -> dict[str, Cost]:
    """Solve all problems by all ways, in turn."""
    clocks: dict[str, list[float]] = {name: [] for name in tools}
    ends: dict[str, list[Ending]] = {name: [] for name in tools}
    for task in tasks:
        calls = {
            name: functools.partial(solve, name, tool.oracle, task, share=share)
            for name, tool in tools.items()
        }
        for name, timed in interleave(calls, repeats=repeats, budget=_ENOUGH).items():
            clocks[name].append(timed.median if timed.last.reached else math.inf)
            ends[name].append(timed.last)
    return {name: _cost(tools[name].build, clocks[name], ends[name]) for name in tools}


def _cost(build: float, clocks: Sequence[float], ends: Sequence[Ending]) -> Cost:
    return Cost(
        build=build,
        seconds=float(np.mean(clocks)),
        steps=float(np.mean([end.steps for end in ends])),
        passes=float(np.mean([end.passes for end in ends])),
        scored=float(np.mean([end.scored / max(1, end.steps) for end in ends])),
        error=max(end.error for end in ends),
    )


def pays_from(mine: tuple[float, float], others: Sequence[tuple[float, float]]) -> float:
    """Least number of uses from which (build, seconds per use) beats all others; inf: never.

    Examples
    --------
    >>> pays_from((2.0, 0.1), [(0.0, 1.0), (0.2, 0.5)])
    5.0
    >>> pays_from((2.0, 0.6), [(0.2, 0.5)])
    inf
    >>> pays_from((0.0, 0.1), [(0.2, 0.5)])
    1.0
    """
    least = 1.0
    for build, seconds in others:
        ahead, saved = mine[0] - build, seconds - mine[1]
        if saved <= 0.0:
            return math.inf
        least = max(least, math.floor(ahead / saved) + 1.0)
    return least
