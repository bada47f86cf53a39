"""Claim: SFWPO learns a feed of 10,000 items better than what exists, in minutes.

Data: 10,000 random GloVe words, their first 64 principal axes, as unit vectors, in
`ItemFeed` with its default constants; 10,000 transitions of 16 users at a time. All
methods share networks, features of the critic, replay and training, see
`wolfhound.policy.deep.agent`; they differ in how they decide and how the actor learns.

Protocol: five seeds (`--repeats`), each with other first weights, users and
exploration; two processes of one thread each. Tests play 128 episodes of users that no
agent has met, the same for all methods of a seed, after 3,000 and 10,000 transitions.
A number is the mean over the seeds. Nothing was tuned on these users. The index is
`ClusterIndex` with its defaults; fresh random samples of 100 and of n/20 atoms in its place, with the
past winners that every action set remembers, are reported (other sizes: `claim_policy_search.py`); all
else searches by `Int8Scan`, which is exact. NFWPO, the exact reference, is reported with one seed in
two: it is slow.

Thresholds: return of SFWPO at least 1.15 times the best of Wolpertinger with k in
{1, 10, 100}, 1.1 times the myopic hull, 0.97 times TD3 with projection, with the same
refinement and without; after 3,000 transitions at least 1.25 times TD3 with projection and
without refinement; with the index at least 0.97 times the exact version. Of every method
actions are taken at random, and each is an atom or its proved squared distance from the
hull is below what float32 rounds off.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import functools
import multiprocessing
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import data
import numpy as np
from feed.baselines import feed_baselines
from feed.environment import BatchedFeed, Feed, feed_features
from feed.rivals import NFWPO, TD3, Wolpertinger
from reference import Matrix
from rig import Claim, held_threads

import wolfhound
from wolfhound.core.contracts import Oracle
from wolfhound.policy import ActionSet, Agent, Settings
from wolfhound.policy.actions import Rows
from wolfhound.policy.deep.rules import FrankWolfeRule, HullDecision, Rule
from wolfhound.policy.deep.worlds import Policy, evaluate

OURS, INDEXED, PLAIN = "SFWPO", "SFWPO, index", "TD3, not refined"
REFINED, REFERENCE = "TD3, refined", "NFWPO"
SAMPLED = {"SFWPO, random 100": 100, "SFWPO, random n/20": None}
"""Fresh samples in the place of the index."""
WOLPERTINGERS = {f"Wolpertinger {k}": Wolpertinger(neighbours=k) for k in (1, 10, 100)}
RULES: dict[str, Rule] = {
    OURS: FrankWolfeRule(),
    INDEXED: FrankWolfeRule(),
    **{name: FrankWolfeRule() for name in SAMPLED},
    REFINED: TD3(),
    PLAIN: TD3(decision=HullDecision(refine=0)),
    **WOLPERTINGERS,
    REFERENCE: NFWPO(),
}
PROCESSES = 2
PROVED = 8
"""Actions of each run whose place in the hull is proved."""

ROUNDED = 1e-10
"""Squared distance from the hull that float32 coordinates of unit atoms may have."""

TIGHT = 1e-12
"""Relative gap of that proof."""


@dataclass(frozen=True, slots=True)
class Size:
    """What is run: the full claim, or a tiny one."""

    n: int
    d: int
    early: int
    steps: int
    users: int
    episodes: int
    tiny: bool = False
    settings: Settings = field(default_factory=Settings)


FULL = Size(10_000, 64, 3_000, 10_000, 20_000, 128)
TINY = Size(300, 8, 64, 128, 100, 16, True, Settings(learning_starts=32, batch_size=16, hidden=16))


@dataclass(frozen=True, slots=True)
class Run:
    """One method, one seed."""

    name: str
    seed: int
    early: float
    late: float
    seconds: float = float("nan")
    ms_per_update: float = float("nan")
    scored: int = 0
    ratio: float = float("nan")
    ratio_p5: float = float("nan")
    outside: float = 0.0


@functools.cache
def feed_of(size: Size) -> Feed:
    """The feed; processes make their own."""
    rows = data.mixture(size.n, size.d) if size.tiny else data.atoms("glove100")[: size.n]
    return Feed.build(principal(rows, size.d), users=size.users, seed=0)


def principal(rows: Matrix, d: int) -> Matrix:
    """Coordinates on the first d principal axes, centred."""
    centred = rows.astype(np.float64) - rows.mean(0, dtype=np.float64)
    axes = np.linalg.eigh(centred.T @ centred)[1][:, ::-1]
    return np.ascontiguousarray(centred @ axes[:, :d], np.float32)


@functools.cache
def oracle_of(size: Size, name: str) -> Oracle:
    """The index, a sample, or an exact scan."""
    atoms = feed_of(size).atoms
    if name in SAMPLED:
        return wolfhound.RandomSubset(atoms, size=SAMPLED[name] or size.n // 20)
    return wolfhound.ClusterIndex.build(atoms) if name == INDEXED else wolfhound.Int8Scan.build(atoms)


# ---------------------------------------------------------------- one run


def tested(policy: Policy, size: Size, seed: int) -> float:
    """Mean return on users that no agent has met, the same for all methods."""
    fresh = feed_of(size).fresh(users=size.users, seed=1_000_003 + seed)
    env = BatchedFeed(fresh, size.episodes)
    return float(evaluate(policy, env, episodes=size.episodes, seed=seed).mean())


def train(task: tuple[str, int, Size]) -> Run:
    """Train and test one method with one seed, on one thread."""
    name, seed, size = task
    feed = feed_of(size)
    actions = ActionSet(feed.atoms, oracle=oracle_of(size, name if name in (INDEXED, *SAMPLED) else OURS))
    settings = replace(size.settings, seed=seed, audit_every=50)
    agent = Agent(
        BatchedFeed(feed, 16), actions, rule=RULES[name], settings=settings, critic_features=feed_features
    )
    returns: list[float] = []
    seconds, scored = 0.0, 0
    shown = Shown(agent)
    for steps in (size.early, size.steps - size.early):
        begin, known = time.perf_counter(), agent.stats.scored
        agent.learn(steps, reset_num_timesteps=False)
        seconds += time.perf_counter() - begin
        scored += agent.stats.scored - known
        returns.append(tested(shown, size, seed))
    stats = agent.stats
    return Run(
        name,
        seed,
        returns[0],
        returns[1],
        seconds,
        stats.ms_per_update,
        scored,
        stats.ratio_mean,
        stats.ratio_p5,
        outside(actions, shown.seen, seed),
    )


class Shown:
    """The policy of an agent; keeps some of the actions that the environment got."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self.seen: list[Rows] = []

    def __call__(self, obs: Rows) -> Rows:
        """Decide."""
        actions = self._agent.predict(obs)[0]
        self.seen.append(actions[:1].copy())
        return actions


def outside(actions: ActionSet, seen: Sequence[Rows], seed: int) -> float:
    """Largest proved squared distance from the hull of some of the actions."""
    sample = np.random.default_rng(seed).choice(len(seen), min(PROVED, len(seen)), replace=False)
    return max(2.0 * actions.prove(seen[at][0], rtol=TIGHT).value for at in sample)


def baselines(size: Size, seed: int) -> list[Run]:
    """Test what does not learn."""
    makers = feed_baselines(feed_of(size))
    scores = {name: tested(make(seed), size, seed) for name, make in makers.items()}
    return [Run(name, seed, score, score) for name, score in scores.items()]


# ---------------------------------------------------------------- all runs


def main(argv: Sequence[str] | None = None) -> int:
    """Run the claim; return the exit code."""
    claim = Claim(__file__, __doc__, argv, repeats=5)
    size = TINY if claim.options.tiny else FULL
    seeds = range(claim.options.repeats)
    wanted = [name for name in RULES if claim.wants(name)]
    tasks = [(name, seed, size) for seed in seeds for name in wanted if name != REFERENCE]
    # No check needs the reference: it comes last.
    tasks += [(REFERENCE, seed, size) for seed in seeds[::2] if REFERENCE in wanted]
    with held_threads(1):
        runs = [run for seed in seeds for run in baselines(size, seed)]
    for run in trained(tasks, size):
        runs.append(run)
        claim.say(f"{run.name}, seed {run.seed}: {run.early:.2f} {run.late:.2f} in {run.seconds:.0f} s")
    report(claim, runs)
    return claim.finish()


def trained(tasks: Sequence[tuple[str, int, Size]], size: Size) -> Iterator[Run]:
    """Run all tasks, in two processes at full size."""
    if size.tiny:
        with held_threads(1):
            yield from map(train, tasks)
        return
    with multiprocessing.get_context("spawn").Pool(
        PROCESSES, initializer=wolfhound.set_threads, initargs=(1,)
    ) as pool:
        yield from pool.imap_unordered(train, tasks)


def report(claim: Claim, runs: Sequence[Run]) -> None:
    """Add a row per method, then the checks."""
    early, late = {}, {}
    for name in dict.fromkeys(run.name for run in runs):
        mine = [run for run in runs if run.name == name]
        early[name], late[name] = (
            float(np.mean([getattr(run, at) for run in mine])) for at in ("early", "late")
        )
        claim.row(
            method=name,
            seeds=len(mine),
            early=early[name],
            early_sd=float(np.std([run.early for run in mine])),
            late=late[name],
            late_sd=float(np.std([run.late for run in mine])),
            seconds=float(np.mean([run.seconds for run in mine])),
            ms_update=float(np.mean([run.ms_per_update for run in mine])),
            scored_millions=float(np.mean([run.scored for run in mine])) / 1e6,
            gap_ratio=float(np.mean([run.ratio for run in mine])),
            gap_ratio_p5=float(np.mean([run.ratio_p5 for run in mine])),
        )
    if not set(RULES) <= set(late):
        return  # asked for some methods only
    best = max(late[name] for name in WOLPERTINGERS)
    for what, ratio, limit in (
        ("the best Wolpertinger", late[OURS] / best, 1.15),
        ("the myopic hull", late[OURS] / late["myopic hull"], 1.1),
        ("TD3 with projection and refinement", late[OURS] / late[REFINED], 0.97),
        ("TD3 with projection", late[OURS] / late[PLAIN], 0.97),
        ("TD3 with projection, early", early[OURS] / early[PLAIN], 1.25),
    ):
        claim.at_least(f"return / that of {what}", ratio, limit, full_size=True)
    claim.at_least("return with an index / exact", late[INDEXED] / late[OURS], 0.97, full_size=True)
    claim.at_most("squared distance of actions from the hull", max(run.outside for run in runs), ROUNDED)


if __name__ == "__main__":
    sys.exit(main())
