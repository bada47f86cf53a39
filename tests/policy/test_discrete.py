"""Environments whose actions are the numbers of n vectors."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete, MultiDiscrete
from gymnasium.vector import SyncVectorEnv

import wolfhound
from tests.policy.deep import QUICK, cloud
from wolfhound.policy import SFWPO, ActionSet, Draw, Mix, Nearest, evaluate
from wolfhound.policy.actions import Rows
from wolfhound.policy.deep.rules import Execution

N = 40
VECTORS = cloud(N)


class Shelf(gymnasium.Env[Rows, Any]):
    """Pays <taste, vector> for the number of a vector; the taste is what is observed."""

    def __init__(self, start: int = 0, horizon: int = 4) -> None:
        self.observation_space = Box(-5.0, 5.0, (3,))
        self.action_space, self._start = Discrete(N, start=start), start
        self.taken: list[int] = []
        self._horizon, self._time, self._taste = horizon, 0, np.zeros(3, np.float32)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        self._time = 0
        return self._look(), {}

    def step(self, action: Any) -> Any:
        assert self.action_space.contains(action)
        self.taken.append(int(action))
        reward = float(self._taste @ VECTORS[int(action) - self._start])
        self._time += 1
        return self._look(), reward, False, self._time >= self._horizon, {}

    def _look(self) -> Rows:
        self._taste = self.np_random.uniform(-1.0, 1.0, 3).astype(np.float32)
        return self._taste


def match(obs: Any, actions: Any) -> Any:
    return (obs * actions).sum(dim=1, keepdim=True)


@pytest.mark.parametrize("start", [0, 7])
@pytest.mark.parametrize("execution", [None, Draw()])
def test_numbers_of_vectors_are_sent_and_the_vectors_are_learned_from(
    start: int, execution: Execution | None
) -> None:
    env = Shelf(start)
    agent = SFWPO(env, VECTORS, settings=QUICK, execution=execution).learn(60)
    assert len(env.taken) == 60
    kept = agent._learner.replay._rows[:60, 3:6]
    np.testing.assert_array_equal(kept, VECTORS[np.array(env.taken) - start])


def test_one_vector_is_chosen_unless_said_otherwise() -> None:
    assert SFWPO(Shelf(), VECTORS).execution == Nearest()
    with pytest.raises(ValueError, match=r"`execution` must be Nearest\(\) or Draw\(\).* Got Mix\(\)"):
        SFWPO(Shelf(), VECTORS, execution=Mix())


def test_an_agent_predicts_what_the_environment_takes() -> None:
    env = Shelf(3)
    agent = SFWPO(env, ActionSet(VECTORS), settings=QUICK)
    one, _ = agent.predict(env.reset(seed=0)[0])
    many, _ = agent.predict(np.eye(3))
    assert env.action_space.contains(one)
    assert many.shape == (3,)
    assert agent.decide(np.eye(3)).points.shape == (3, 3)


def test_a_saved_agent_counts_from_the_same_number(tmp_path: Path) -> None:
    agent = SFWPO(Shelf(5), VECTORS, settings=QUICK).learn(40)
    agent.save(tmp_path / "agent")
    alone = SFWPO.load(tmp_path / "agent", VECTORS)
    np.testing.assert_array_equal(alone.predict(np.eye(3))[0], agent.predict(np.eye(3))[0])
    assert (
        wolfhound.load(tmp_path / "agent", VECTORS).load(tmp_path / "agent", VECTORS, env=Shelf(5)).learn(8)
    )
    with pytest.raises(ValueError, match="`env` must be the action space that the agent was made for"):
        SFWPO.load(tmp_path / "agent", VECTORS, env=Shelf(0))


def test_a_vector_of_environments_is_given_numbers() -> None:
    agent = SFWPO(SyncVectorEnv([Shelf, Shelf]), VECTORS, settings=QUICK).learn(40)
    assert agent.num_timesteps >= 40
    assert evaluate(agent, SyncVectorEnv([Shelf, Shelf, Shelf]), episodes=4).shape == (4,)


@pytest.mark.slow
def test_it_learns_what_is_liked() -> None:
    settings = replace(QUICK, gamma=0.0, gradient_steps=8)
    agent = SFWPO(Shelf(), VECTORS, settings=settings, critic_features=match).learn(600)
    rng = np.random.default_rng(0)
    obs = rng.uniform(-1.0, 1.0, (200, 3)).astype(np.float32)
    scores = obs @ VECTORS.T
    chosen = scores[np.arange(200), agent.predict(obs)[0]]
    random, best = scores.mean(), scores.max(axis=1).mean()
    assert (chosen.mean() - random) / (best - random) > 0.6


@pytest.mark.parametrize("space", [Discrete(N + 1), MultiDiscrete([3, 3]), Box(-1.0, 1.0, (2, 2))])
def test_spaces_that_are_not_these_vectors_are_refused(space: Any) -> None:
    env = Shelf()
    env.action_space = space
    with pytest.raises(ValueError, match=r"`env\.action_space` must be"):
        SFWPO(env, VECTORS)


def test_observations_that_are_no_vectors_are_refused_with_a_remedy() -> None:
    env = Shelf()
    env.observation_space = Discrete(4)  # type: ignore[assignment]
    with pytest.raises(ValueError, match=r"gymnasium\.wrappers\.FlattenObservation"):
        SFWPO(env, VECTORS)


def test_queries_of_the_loop_are_not_checked_again() -> None:
    """Checks of arrays stand at the doors: a step of training passes none of them."""
    agent = SFWPO(Shelf(), VECTORS, settings=QUICK).learn(100)
    checks: set[str] = set()

    def note(frame: Any, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_filename.endswith("wolfhound/core/validate.py"):
            checks.add(frame.f_code.co_name)

    sys.setprofile(note)
    try:
        agent.learn(64, reset_num_timesteps=False)
    finally:
        sys.setprofile(None)
    assert "count" in checks
    assert checks.isdisjoint({"array", "real_array", "matrix", "vector", "ids"})
