"""Names of `wolfhound policy` -> feeds, oracles, rules, agents. Loads nothing heavy itself."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from wolfhound.core import Oracle
    from wolfhound.policy.deep.agent import Agent
    from wolfhound.policy.deep.rules import Execution, Rule
    from wolfhound.policy.feed import Feed

_SEARCHES = 24  # of the atoms, per transition: 8 to decide, and those of the updates that are due
_TOGETHER = 16  # queries that are asked at once, at least
_AUDIT = 20  # updates between audits of the gap ratio
TESTED = 64  # episodes of a test, and users that are tested at once


class Method(StrEnum):
    """How to learn."""

    SFWPO = "sfwpo"
    NFWPO = "nfwpo"
    TD3 = "td3"
    WOLPERTINGER = "wolpertinger"


class ExecutionName(StrEnum):
    """What is shown to a user."""

    HULL = "hull"
    NEAREST = "nearest"
    DRAW = "draw"


class Search(StrEnum):
    """How atoms are searched."""

    AUTO = "auto"
    SCAN = "scan"
    INT8 = "int8"
    CLUSTERS = "clusters"
    LSH = "lsh"
    PQ = "pq"


_ORACLES = {
    Search.INT8: "Int8Scan",
    Search.CLUSTERS: "ClusterIndex",
    Search.LSH: "LshIndex",
    Search.PQ: "FaissIndex Pq",
}


def feed_of(atoms: str | None, users: int, seed: int) -> Feed:
    """The feed of a file of items, or of the shipped words."""
    from wolfhound import readers  # noqa: PLC0415 - numba comes with what it reads for
    from wolfhound.policy.feed import Feed  # noqa: PLC0415

    return Feed.build(None if atoms is None else readers.read_atoms(atoms), users=users, seed=seed)


def oracle_of(feed: Feed, search: Search, steps: int, ratio: float) -> Oracle | None:
    """The oracle of this name, built; None for a scan."""
    from wolfhound import choose_oracle  # noqa: PLC0415
    from wolfhound.atoms import as_atoms  # noqa: PLC0415

    if search is Search.SCAN:
        return None
    choice = choose_oracle(feed.atoms, queries=_SEARCHES * steps, ratio=ratio, proof=False, batch=_TOGETHER)
    if search is Search.AUTO:
        return choice.build()
    named = next(each for each in choice.candidates if each.name == _ORACLES[search])
    oracle: Oracle = named.make(as_atoms(feed.atoms), 0)
    return oracle


def rule_of(method: Method, neighbours: int, refine: int) -> Rule:
    """How this method decides and learns."""
    from wolfhound.policy.deep.agent import HullDecision  # noqa: PLC0415 - torch
    from wolfhound.policy.deep.rivals import NFWPO, TD3, Wolpertinger  # noqa: PLC0415
    from wolfhound.policy.deep.rules import FrankWolfeRule  # noqa: PLC0415

    decision = HullDecision(refine=refine)
    match method:
        case Method.SFWPO:
            return FrankWolfeRule(decision=decision)
        case Method.NFWPO:
            return NFWPO(decision=decision)
        case Method.TD3:
            return TD3(decision=decision)
        case Method.WOLPERTINGER:
            return Wolpertinger(k=neighbours)


def agent_of(feed: Feed, *, rule: Rule, execution: ExecutionName, oracle: Oracle | None, seed: int) -> Agent:
    """An agent that has learned nothing yet; of the class `SFWPO` where it is one."""
    from wolfhound.policy.actions import ActionSet  # noqa: PLC0415
    from wolfhound.policy.deep.agent import SFWPO, Agent, Draw, Hull, Nearest, Settings  # noqa: PLC0415
    from wolfhound.policy.deep.rules import FrankWolfeRule  # noqa: PLC0415
    from wolfhound.policy.feed import feed_features  # noqa: PLC0415
    from wolfhound.policy.feed.batch import BatchedFeed  # noqa: PLC0415

    executions: dict[ExecutionName, Execution] = {
        ExecutionName.HULL: Hull(),
        ExecutionName.NEAREST: Nearest(),
        ExecutionName.DRAW: Draw(),
    }
    env, shown = BatchedFeed(feed, _TOGETHER), executions[execution]
    actions = ActionSet(feed.atoms, oracle=oracle, seed=seed)
    if isinstance(rule, FrankWolfeRule):
        return SFWPO(
            env,
            actions,
            refine=rule.decision.refine,
            execution=shown,
            critic_features=feed_features,
            seed=seed,
            audit_every=_AUDIT,
        )
    settings = Settings(seed=seed, audit_every=_AUDIT)
    return Agent(env, actions, rule=rule, settings=settings, execution=shown, critic_features=feed_features)


def returns_of(feed: Feed, agent: Agent, episodes: int, seed: int) -> dict[str, float]:
    """Mean returns on fresh users: of the agent, and of what learns nothing."""
    from wolfhound.policy.feed.compare import FRESH, evaluate  # noqa: PLC0415
    from wolfhound.policy.feed.contenders import feed_baselines, fresh_users  # noqa: PLC0415

    test = fresh_users(feed, size=min(episodes, TESTED))
    policies: dict[str, Any] = {"agent": lambda obs: agent.predict(obs)[0]}
    policies |= {name: make(seed) for name, make in feed_baselines(feed).items()}
    return {
        name: float(evaluate(policy, test(seed), episodes=episodes, seed=seed + FRESH).mean())
        for name, policy in policies.items()
    }
