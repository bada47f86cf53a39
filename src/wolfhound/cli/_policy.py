"""Names of `wolfhound policy` -> feeds, oracles, rules, agents. Loads nothing heavy itself."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from wolfhound.cli._options import option
from wolfhound.validate import require

if TYPE_CHECKING:
    from wolfhound.core import Oracle
    from wolfhound.oracles.indexes import IndexKind
    from wolfhound.policy.deep.agent import Agent
    from wolfhound.policy.deep.rules import Rule
    from wolfhound.policy.feed import Feed

_SEARCHES = 24  # of the atoms, per transition: 8 to decide, and those of the updates that are due
_TOGETHER = 16  # queries that are asked at once, at least
_AUDIT = 20  # updates between audits of the gap ratio
TESTED = 64  # episodes of a test, and users that are tested at once


AUTO, SCAN = "auto", "scan"

_KNOWN = f"{AUTO}, {SCAN}, or an index, as for index build --kind"
Search = Annotated[str, option(f"How atoms are searched: {_KNOWN}.", "--search", metavar="NAME")]


def feed_of(atoms: str | None, users: int, seed: int) -> Feed:
    """The feed of a file of items, or of the shipped words."""
    from wolfhound import readers  # noqa: PLC0415 - numba comes with what it reads for
    from wolfhound.policy.feed import Feed  # noqa: PLC0415

    return Feed.build(None if atoms is None else readers.read_atoms(atoms), users=users, seed=seed)


def oracle_of(feed: Feed, search: str, steps: int, ratio: float) -> Oracle | None:
    """The oracle of this name, built; None for a scan."""
    from wolfhound import choose_oracle  # noqa: PLC0415 - numba

    if search == SCAN:
        return None
    choice = choose_oracle(feed.atoms, queries=_SEARCHES * steps, ratio=ratio, proof=False, batch=_TOGETHER)
    return choice.build(None if search == AUTO else find_index(search).name)


def find_index(search: str) -> IndexKind:
    """The index that `--search` names."""
    from wolfhound import INDEXES  # noqa: PLC0415

    known = [name for name, kind in INDEXES.items() if kind.build is not None]
    require(search in known, "--search", f"one of {AUTO}, {', '.join(known)}", search)
    return INDEXES[search]


def rule_of(name: str, options: dict[str, int | None]) -> Rule:
    """The rule of this name, with those of its settings that are given.

    An option sets the setting of its name, of the rule itself or of its decision.
    """
    from wolfhound.policy import RULES  # noqa: PLC0415

    rule = RULES.find(name, "--method")
    settings = rule().to_json()
    for setting, value in options.items():
        if value is None:
            continue
        homes = [each for each in (settings, settings.get("decision", {})) if setting in each]
        if not homes:
            raise ValueError(f"`--{setting}` must not be given with --method {name}. Got {value}.")
        homes[0][setting] = value
    return rule.from_json(settings)


def agent_of(feed: Feed, *, rule: Rule, execution: str, oracle: Oracle | None, seed: int) -> Agent:
    """An agent that has learned nothing yet."""
    from wolfhound.policy import EXECUTIONS, ActionSet  # noqa: PLC0415
    from wolfhound.policy.deep.agent import Agent, Settings  # noqa: PLC0415 - torch
    from wolfhound.policy.feed import BatchedFeed, feed_features  # noqa: PLC0415

    return Agent(
        BatchedFeed(feed, _TOGETHER),
        ActionSet(feed.atoms, oracle=oracle, seed=seed),
        rule=rule,
        settings=Settings(seed=seed, audit_every=_AUDIT),
        execution=EXECUTIONS.find(execution, "--execution").from_json({}),
        critic_features=feed_features,
    )


def exam_options(feed: Feed, freq: int, seed: int) -> dict[str, Any]:
    """Options of `learn`: tests on fresh users after every `freq` transitions; none for 0."""
    from wolfhound.policy.feed.contenders import fresh_users  # noqa: PLC0415

    if not freq:
        return {}
    return {"eval_env": fresh_users(feed, size=TESTED)(seed), "eval_freq": freq, "n_eval_episodes": TESTED}


def returns_of(feed: Feed, agent: Agent, episodes: int, seed: int) -> dict[str, float]:
    """Mean returns on fresh users: of the agent, and of what learns nothing."""
    from wolfhound.policy.deep.evaluation import FRESH, evaluate  # noqa: PLC0415
    from wolfhound.policy.feed.contenders import feed_baselines, fresh_users  # noqa: PLC0415

    test = fresh_users(feed, size=min(episodes, TESTED))
    policies: dict[str, Any] = {"agent": lambda obs: agent.predict(obs)[0]}
    policies |= {name: make(seed) for name, make in feed_baselines(feed).items()}
    return {
        name: float(evaluate(policy, test(seed), episodes=episodes, seed=seed + FRESH).mean())
        for name, policy in policies.items()
    }
