"""Ways to solve a problem over given atoms, timed: the paper's algorithms and `minimize`."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import functools
import math
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import problems
import runs
from problems import Problem
from reference import Distance, Matrix, Vector
from rig import interleave

import wolfhound
from wolfhound.core.contracts import Method, Point, State
from wolfhound.paper.sublinear_frank_wolfe import SublinearFrankWolfe
from wolfhound.solve.result import Result

SHARE = 0.8
"""c of Algorithm 2, the default of `SublinearFrankWolfe`."""
MIXED = 64
"""Atoms whose mean is an interior target."""
FIRST = 10_000
"""Atoms of the smallest set: interior targets are means of some of them, so inside every hull."""
EPS = (1e-2, 1e-3)
"""Wanted f - min f, in units of the problem's scale."""
_SEED = 7
MOST = 2000
"""Iterations after which a way is stopped, and counts as one that never gets there."""
_ENOUGH = 2.5
"""Seconds of one way and target after which it is not timed again."""

CODES = "Alg. 1, Int8Scan"
TOGETHER = "Alg. 2, LshIndex, memory and sample"
MEMORY = "Alg. 2, memory and sample"
ALONE = "Alg. 2, LshIndex alone"
SIZES = {"100": 100, "200": 200, "1,000": 1000, "n/20": None}
SAMPLES = tuple(f"Alg. 2, random {size}" for size in SIZES)
DEFAULT = "minimize, its default"


@dataclass(frozen=True, slots=True)
class Tool:
    """An oracle over some atoms, who makes its passes, and the seconds that both took to build."""

    oracle: Any
    exact: Any
    build: float
    megabytes: float


@dataclass(frozen=True, slots=True)
class Way:
    """How the oracle is made (None: it is the exact one), and the method for a share c and an exact oracle.

    No method: that of `minimize`, on the atoms.
    """

    make: Callable[[Matrix], Any] | None
    method: Callable[[float, Any], Method] | None


def _alg1(share: float, exact: Any) -> Method:
    return wolfhound.FrankWolfe(wolfhound.Vanilla(), wolfhound.OpenLoop(2.0))


def _together(share: float, exact: Any) -> Method:
    # From the same start as the others: the best atom of the pool.
    return SublinearFrankWolfe(ratio=share, mixed=0, exact=exact)


def _alone(share: float, exact: Any) -> Method:
    return SublinearFrankWolfe(ratio=share, mixed=0, exact=exact, cache=0, sample=0)


def _sample(size: int | None) -> Callable[[Matrix], Any]:
    return lambda atoms: wolfhound.RandomSubset(atoms, size=size or max(1, len(atoms) // 20))


# With proof: passes are made over the codes that the index has anyway.
_hashes = functools.partial(wolfhound.LshIndex.build, proof=True)

WAYS: Mapping[str, Way] = {
    CODES: Way(None, _alg1),
    TOGETHER: Way(_hashes, _together),
    MEMORY: Way(_sample(500), _together),
    ALONE: Way(_hashes, _alone),
    **{name: Way(_sample(size), _alone) for name, size in zip(SAMPLES, SIZES.values(), strict=True)},
    DEFAULT: Way(lambda atoms: atoms, None),
}


def build_tools(atoms: Matrix, *, repeats: int = 1) -> dict[str, Tool]:
    """Make the oracles of all ways; an index with proof makes its own passes, all others ask the codes.

    A build is timed as often as given; its seconds are the median.
    """
    exact, exact_s = _build(wolfhound.Int8Scan.build, atoms, repeats)
    index, index_s = _build(_hashes, atoms, repeats)
    tools = {}
    for name, way in WAYS.items():
        if way.make is _hashes:
            tools[name] = Tool(index, index, index_s, index.nbytes / 2**20)
        elif way.method is None:
            tools[name] = Tool(atoms, None, 0.0, 0.0)
        else:
            oracle = exact if way.make is None else way.make(atoms)
            tools[name] = Tool(oracle, exact, exact_s, exact.nbytes / 2**20)
    return tools


def _build(make: Callable[[Matrix], Any], atoms: Matrix, repeats: int) -> tuple[Any, float]:
    took = []
    for _ in range(repeats):
        begin = time.perf_counter()
        made = make(atoms)
        took.append(time.perf_counter() - begin)
    return made, statistics.median(took)


def compile_kernels(atoms: Matrix) -> None:
    """Run every way on a few atoms, so that nothing is compiled while a clock runs."""
    few = np.ascontiguousarray(atoms[:2000])
    tools = build_tools(few)
    for share in (0.0, 1.0):
        task = Task(problems.distance("warm", few, share=share), least=0.0)
        for name, tool in tools.items():
            solve(name, tool, task, most=50)


# ---------------------------------------------------------------- problems


@dataclass(frozen=True, slots=True)
class Task:
    """A problem, and a lower bound that is nearly min f."""

    problem: Problem
    least: float

    def error(self, value: float) -> float:
        """f - min f in units of the problem's scale."""
        return (value - self.least) / self.problem.scale


def interior_tasks(atoms: Matrix, many: int, *, name: str) -> list[Task]:
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
        tasks.append(Task(problem, least=0.0))
    return tasks


def boundary_tasks(atoms: Matrix, many: int, *, name: str) -> list[Task]:
    """Targets outside the hull, in random directions."""
    tasks = []
    for seed in range(1, many + 1):
        problem = problems.distance(name, atoms, share=1.0, seed=seed)
        tasks.append(Task(problem, least=runs.solve(problem, 1e-6 * problem.scale).lower))
    return tasks


# ---------------------------------------------------------------- runs


class Mark(NamedTuple):
    """What a run had cost when it reached an eps."""

    steps: float
    passes: float
    scored: float
    seconds: float


NEVER = Mark(math.inf, math.inf, math.inf, math.inf)


def solve(name: str, tool: Tool, task: Task, *, share: float = SHARE, most: int = MOST) -> list[Mark]:
    """Run one way until f - min f <= each eps; `minimize` as it is proves this, the others are told."""
    method = WAYS[name].method
    if method is None:
        return [_prove(task, tool.oracle, eps) for eps in EPS]
    marks: list[Mark] = []
    begin = time.perf_counter()

    def follow(state: State) -> bool:
        while len(marks) < len(EPS) and task.error(state.point.value) <= EPS[len(marks)]:
            marks.append(Mark(state.t, state.passes, state.scored, time.perf_counter() - begin))
        return len(marks) == len(EPS)

    run(tool, task, method(share, tool.exact), follow, most=most)
    return marks + [NEVER] * (len(EPS) - len(marks))


def run(
    tool: Tool, task: Task, method: Method, callback: Callable[[State], bool], *, most: int = MOST
) -> Result:
    """Run a method on the oracle of a tool until it is told to stop."""
    return wolfhound.minimize(
        task.problem.objective(),
        tool.oracle,
        method=method,
        rtol=0.0,
        atol=1e-9 * task.problem.scale,
        max_steps=most,
        callback=callback,
    )


def _prove(task: Task, atoms: Matrix, eps: float) -> Mark:
    begin = time.perf_counter()
    result = wolfhound.minimize(task.problem.objective(), atoms, rtol=0.0, atol=eps * task.problem.scale)
    return Mark(result.steps, result.passes, result.scored, time.perf_counter() - begin)


def measure_shares(name: str, tool: Tool, task: Task, *, every: int = 3) -> Vector:
    """Shares of the best gap that the steps of a run to the last eps had, every so many; by passes apart."""
    method, shares, before = WAYS[name].method, list[float](), list[Point]()

    def follow(state: State) -> bool:
        if before and state.hit >= 0 and state.t % every == 0:
            query, here = -before[0].grad, -float(before[0].grad @ before[0].x)
            best = float(tool.exact.query(query[None]).scores[0, 0])
            shares.append((float(task.problem.atoms[state.hit] @ query) - here) / (best - here))
        before[:] = [state.point]
        return task.error(state.point.value) <= EPS[-1]

    assert method is not None
    run(tool, task, method(SHARE, tool.exact), follow)
    return np.array(shares)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What a problem costs by some way: means over problems of the median seconds.

    Attributes
    ----------
    build, seconds : float
        To build the oracle, once; to solve a problem, inf if some was stopped.
    steps, passes, scored : float
        Iterations, passes, and atoms scored in all.
    """

    build: float
    seconds: float
    steps: float
    passes: float
    scored: float

    def total(self, many: int) -> float:
        """Seconds of so many problems over the same atoms, with the build."""
        return self.build + many * self.seconds


def time_ways(
    tools: Mapping[str, Tool], tasks: Sequence[Task], *, repeats: int
) -> dict[float, dict[str, Cost]]:
    """Solve all problems by all ways, in turn: costs by eps and way."""
    ends: dict[str, list[list[list[Mark]]]] = {name: [] for name in tools}  # by problem, repeat, eps
    for task in tasks:
        calls = {name: functools.partial(solve, name, tool, task) for name, tool in tools.items()}
        for name, timed in interleave(calls, repeats=repeats, budget=_ENOUGH).items():
            ends[name].append(timed.answers)
    return {
        eps: {name: _cost(tools[name].build, ends[name], at) for name in tools} for at, eps in enumerate(EPS)
    }


def _cost(build: float, ends: Sequence[Sequence[Sequence[Mark]]], at: int) -> Cost:
    marks = [answers[-1][at] for answers in ends]
    clocks = [statistics.median(marks[at].seconds for marks in answers) for answers in ends]
    steps, passes, scored, _ = np.mean(marks, axis=0).tolist()
    # Other ways are told as multiples of the steps of one: a start that is good enough counts as a step.
    return Cost(
        build=build, seconds=float(np.mean(clocks)), steps=max(steps, 1.0), passes=passes, scored=scored
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
