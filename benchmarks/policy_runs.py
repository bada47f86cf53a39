"""Whole runs of tabular policies by every oracle: sparse distributions, and word vectors as actions."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import functools
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import data
import numpy as np
import ways
from copies import Copies
from numpy.typing import NDArray
from rig import Claim

import wolfhound
from wolfhound.core.contracts import Oracle
from wolfhound.policy import ACMDP, ActionSet, TabularResult, fwpo, random_acmdp, sfwpo
from wolfhound.policy.tabular.models import AffineReward, AffineTransition, QuadraticReward

Atoms = NDArray[np.float32]
ORACLES: dict[str, Callable[[Any], Oracle | None]] = {
    "Scan": lambda atoms: None,
    "Int8Scan": wolfhound.Int8Scan.build,
    "ClusterIndex": wolfhound.ClusterIndex.build,
    "LshIndex": wolfhound.LshIndex.build,
}
EXACT, INDEXES = ("Scan", "Int8Scan"), ("ClusterIndex", "LshIndex")
RANDOM = {
    "RandomSubset 100": 100,
    "RandomSubset 200": 200,
    "RandomSubset 1,000": 1000,
    "RandomSubset n/20": None,
}
BESIDE = 500
"""Random atoms beside the index."""
GOAL = 3e-3
"""Of the first root of summed squared gaps."""
SUCCESSORS = 5
CURVATURE, OF_WORDS = 2.0, 10.0
"""Costs of long actions, half of it times |a|^2: with them, runs of a hundred steps."""
_MOST = 5000


@dataclass(frozen=True, slots=True)
class Course:
    """A problem by name, and what judges its runs with a million actions."""

    model: str
    actions: str
    acmdp: ACMDP
    judged: bool = False


def judge_whole_runs(claim: Claim) -> None:
    """Runs to one and the same proved measure, by every oracle."""
    tiny = claim.options.tiny
    states, dim = (8, 6) if tiny else (64, 32)
    for n in (1000,) if tiny else (10_000, 100_000, 1_000_000):
        acmdp = sparse_problem(sparse_atoms(n, dim), states, curvature=CURVATURE)
        judge_course(claim, Course("smooth", "sparse distributions", acmdp, judged=n == 1_000_000 or tiny))


def judge_words(claim: Claim) -> None:
    """The same with word vectors as actions, affine and smooth."""
    tiny = claim.options.tiny
    words = data.mixture(1000, 8) if tiny else data.atoms("glove100")
    for model, curvature in (("affine", 0.0), ("smooth", OF_WORDS)):
        acmdp = word_problem(words, 8 if tiny else 64, curvature)
        judge_course(claim, Course(model, "glove100", acmdp))


def judge_course(claim: Claim, course: Course) -> None:
    """Run a problem by every oracle; add rows and checks."""
    atoms: Atoms = course.acmdp.actions.atoms.take(np.arange(course.acmdp.actions.atoms.shape[0]))
    n, atol = len(atoms), GOAL * float(fwpo(course.acmdp, max_steps=1).measures[1])
    costs: dict[str, tuple[float, float]] = {}
    sizes: dict[str, float] = {}
    runs: dict[str, TabularResult] = {}
    sizes_of = {name: size or n // 20 for name, size in RANDOM.items()}
    samples = {name: functools.partial(wolfhound.RandomSubset, size=size) for name, size in sizes_of.items()}
    makers = ORACLES | {"LshIndex, random 500": with_sample} | samples
    for name, make in makers.items():
        oracle, build = build_oracle(make, atoms)
        mine = course.acmdp.with_actions(ActionSet(atoms, oracle=oracle))
        run = fwpo if name in EXACT else sfwpo
        runs[name] = run(mine, rtol=0.0, atol=atol, max_steps=_MOST)
        costs[name] = (0.0 if name in ("Scan", *RANDOM) else build, runs[name].seconds)
        sizes[name] = getattr(oracle, "nbytes", 0) / 2**20
    what = f"{course.model}, {course.actions}, n {n:,}"
    for name, result in runs.items():
        claim.row(
            table="whole runs",
            model=course.model,
            actions=course.actions,
            n=n,
            oracle=name,
            megabytes=sizes[name],
            **_cells(name, result, costs),
            measure_by_atol=result.measures[-1] / atol,
        )
        same = result.success and result.measures[-1] <= atol
        claim.holds(f"{what}, {name}: proves what was asked", same)
    if course.judged:
        index, exact = (min(sum(costs[each]) for each in names) for names in (INDEXES, EXACT))
        claim.at_most(f"{what}: index with its build / exact", index / exact, 1.0, full_size=True)


def _cells(
    name: str, result: TabularResult, costs: Mapping[str, tuple[float, float]]
) -> dict[str, float | int | None]:
    """What a run cost."""
    build, seconds = costs[name]
    pays = None if name in EXACT else ways.pays_from(costs[name], [costs[each] for each in EXACT])
    rivals = [costs[each] for each in RANDOM]
    return {
        "build_s": build,
        "steps": result.steps,
        "ms_per_step": 1e3 * seconds / max(1, result.steps),
        "seconds": seconds,
        "total_s": build + seconds,
        "pays_from_runs": pays,
        "pays_beside_random": None if name not in INDEXES else ways.pays_from(costs[name], rivals),
        "passes": result.passes,
        "scored_per_step": result.scored / max(1, result.steps),
        "score": result.score,
    }


# ---------------------------------------------------------------- problems


def sparse_atoms(n: int, dim: int) -> Atoms:
    """Sparse distributions in float32, a block at a time."""
    rng = np.random.default_rng(0)
    atoms = np.empty((n, dim), np.float32)
    for at in range(0, n, 100_000):
        block = rng.standard_gamma(0.3, atoms[at : at + 100_000].shape) + 1e-30
        atoms[at : at + 100_000] = block / block.sum(axis=1, keepdims=True)
    return atoms


def sparse_problem(atoms: Atoms, states: int, curvature: float = 0.0) -> ACMDP:
    """Mixtures of pure actions, each of which leads somewhere and earns something."""
    small = random_acmdp(states, 1, atoms.shape[1], curvature=curvature)
    return ACMDP(small.reward, small.transition, small.gamma, small.start, ActionSet(atoms))


def word_problem(words: Atoms, states: int, curvature: float) -> ACMDP:
    """Words as actions: rewards by a random taste of each state, less a cost of long actions.

    Five successors, of chance 1/5 each and up to twice or none of it, as the action leans.
    """
    rng = np.random.default_rng(3)
    dim, few = words.shape[1], min(SUCCESSORS, states)
    leanings = rng.standard_normal((states, dim, few))
    leanings -= leanings.mean(axis=2, keepdims=True)  # chances keep their sum
    longest = float(np.linalg.norm(words, axis=1).max()) * float(np.linalg.norm(leanings, axis=1).max())
    tensor, offset = np.zeros((states, dim, states)), np.zeros((states, states))
    for state in range(states):
        next_states = rng.choice(states, few, replace=False)
        tensor[state][:, next_states] = leanings[state] / (few * longest * (1.0 + 1e-6))
        offset[state, next_states] = 1.0 / few
    taste = rng.standard_normal((states, dim)) * rng.lognormal(size=(states, 1))  # some states are worth more
    smooth = QuadraticReward(taste, np.zeros((states, dim)), curvature=curvature) if curvature else None
    reward = AffineReward(taste) if smooth is None else smooth
    start = np.full(states, 1.0 / states)
    return ACMDP(reward, AffineTransition(tensor, offset), 0.9, start, ActionSet(words))


def with_sample(atoms: Atoms) -> Oracle:
    """The mechanism of `Tiered`: index and fresh sample together; past winners are the action set's."""
    some = wolfhound.RandomSubset(atoms, size=min(BESIDE, len(atoms)))
    return Copies([wolfhound.LshIndex.build(atoms), some])


def build_oracle(make: Callable[[Any], Oracle | None], atoms: Atoms) -> tuple[Oracle | None, float]:
    """Make an oracle; return it and the seconds."""
    begin = time.perf_counter()
    oracle = make(atoms)
    return oracle, time.perf_counter() - begin
