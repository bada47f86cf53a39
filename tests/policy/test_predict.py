"""Decisions depend on the observation and on what was learned, and on nothing else."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from feed.rivals import NFWPO, TD3, Wolpertinger

import wolfhound
from tests.policy.deep import QUICK, Bandit, cloud, learner
from wolfhound.policy import ActionSet, Agent, Draw, HullDecision, Mix
from wolfhound.policy.actions import Winners
from wolfhound.policy.deep.rules import Execution, FrankWolfeRule, Rule
from wolfhound.policy.deep.worlds import evaluate

ROWS = cloud(500)
RULES: dict[str, Rule] = {
    "SFWPO": FrankWolfeRule(),
    "NFWPO": NFWPO(project=3),
    "TD3": TD3(),
    "TD3, not refined": TD3(decision=HullDecision(refine=0)),
    "Wolpertinger": Wolpertinger(neighbours=5),
}


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """A few atoms are not worth the way to another thread."""
    wolfhound.set_threads(1)
    yield
    wolfhound.set_threads(None)


def poorly_indexed() -> ActionSet:
    """A set whose oracle misses much, so that past winners decide."""
    return ActionSet(ROWS, oracle=wolfhound.ClusterIndex.build(ROWS, budget=4))


def trained(rule: Rule, actions: ActionSet, *, execution: Execution | None = None, audits: int = 0) -> Agent:
    settings = replace(QUICK, audit_every=audits)
    return Agent(Bandit(), actions, rule=rule, settings=settings, execution=execution).learn(80)


def observations(m: int, seed: int) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    return 3.0 * np.random.default_rng(seed).standard_normal((m, 2))


@pytest.mark.slow
@pytest.mark.parametrize("rule", RULES.values(), ids=RULES.keys())
def test_what_was_asked_before_does_not_change_a_decision(rule: Rule, tmp_path: Path) -> None:
    agent = trained(rule, poorly_indexed())
    obs = observations(20, 0)
    first = agent.predict(obs)[0]
    for seed in range(1, 5):
        agent.predict(observations(200, seed))
        agent.decide(observations(200, 10 + seed))
        agent.predict(observations(200, seed), deterministic=False)
    assert np.array_equal(agent.predict(obs)[0], first)
    agent.save(tmp_path / "saved")
    assert np.array_equal(Agent.load(tmp_path / "saved", poorly_indexed()).predict(obs)[0], first)


@pytest.mark.slow
def test_an_evaluation_can_be_repeated() -> None:
    agent = trained(FrankWolfeRule(), poorly_indexed())
    runs = [evaluate(lambda obs: agent.predict(obs)[0], Bandit(), episodes=40, seed=3) for _ in range(3)]
    assert np.array_equal(runs[0], runs[1])
    assert np.array_equal(runs[0], runs[2])


@pytest.mark.slow
def test_agents_of_one_action_set_keep_their_own_winners() -> None:
    actions = poorly_indexed()
    alone, one, two = (trained(FrankWolfeRule(), each) for each in (poorly_indexed(), actions, actions))
    obs = observations(50, 0)
    for each in (one, two):
        assert np.array_equal(each.predict(obs)[0], alone.predict(obs)[0])


@pytest.mark.slow
@pytest.mark.parametrize("execution", [Mix(), Draw()])
def test_looking_on_does_not_change_training(execution: Execution) -> None:
    watched, alone = (
        trained(FrankWolfeRule(), poorly_indexed(), execution=execution, audits=audits) for audits in (3, 0)
    )
    for deterministic in (True, False):
        watched.predict(observations(300, 1), deterministic=deterministic)
    for agent in (watched, alone):
        agent.learn(80)
    for name, array in learner(alone).arrays().items():
        assert np.array_equal(learner(watched).arrays()[name], array), name


def test_draws_go_on_after_a_load(tmp_path: Path) -> None:
    agent = trained(FrankWolfeRule(), poorly_indexed(), execution=Draw())
    obs = observations(30, 0)
    agent.predict(obs)
    agent.save(tmp_path / "saved")
    loaded = Agent.load(tmp_path / "saved", poorly_indexed())
    assert np.array_equal(loaded.predict(obs)[0], agent.predict(obs)[0])


@pytest.mark.parametrize("room", [0, 2, 5])
def test_winners_come_back_as_far_as_there_is_room(room: int) -> None:
    atoms = ActionSet(ROWS).atoms
    full, other = Winners(atoms, 4), Winners(atoms, room)
    for batch in ([7, 3, 3], [9, 7], [1], [4]):
        full.remember(np.array(batch), ROWS[batch])
    other.restore(full.ids, atoms)
    ids, rows = (other.ids, other.rows)
    newest = [4, 1, 7, 9][:room]  # 3 won longest ago; of one batch, the smaller id counts as later
    assert ids.tolist() == newest
    assert np.array_equal(rows, ROWS[ids])
