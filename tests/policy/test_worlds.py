"""Environments as an agent sees them: Gymnasium's vectors in every mode, and what a policy earns."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from tests.policy.deep import QUICK, corners
from wolfhound.policy import SFWPO, ActionSet, evaluate
from wolfhound.policy.actions import Rows
from wolfhound.policy.deep.worlds import VectorWorld, as_world

MODES = list(AutoresetMode)


class Walk(gymnasium.Env[Rows, Rows]):
    """Counts its steps from `first`; pays the count; ends, or is cut off, at `length`."""

    observation_space = gymnasium.spaces.Box(-100.0, 100.0, (2,))
    action_space = gymnasium.spaces.Box(-1.0, 1.0, (3,))

    def __init__(self, length: int, *, first: float = 0.0, ends: bool = True) -> None:
        self._length, self._first, self._ends = length, first, ends
        self._time = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        self._time = 0
        return self._look(), {}

    def step(self, action: Rows) -> Any:
        self._time += 1
        over = self._time >= self._length
        return self._look(), float(self._time), over and self._ends, over and not self._ends, {}

    def _look(self) -> Rows:
        return np.array([self._first, self._time], np.float32)


def vector(mode: Any, *lengths: int, ends: bool = True) -> Any:
    makers = [lambda n=n, i=i: Walk(n, first=float(i), ends=ends) for i, n in enumerate(lengths)]
    return SyncVectorEnv(makers, autoreset_mode=mode)


def play(world: VectorWorld, turns: int) -> list[tuple[float, float, float, float, bool]]:
    """Transitions of all environments: which one, time before and after, going, over."""
    seen, obs = [], world.reset(0)
    for _ in range(turns):
        turn = world.step(np.zeros((world.size, 3), np.float32))
        for i in np.flatnonzero(turn.real):
            last = float(obs[i, 1]), float(turn.obs[i, 1]), float(turn.going[i]), bool(turn.over[i])
            seen.append((float(obs[i, 0]), *last))
        assert turn.ahead is not None
        obs = turn.ahead
    return seen


@pytest.mark.parametrize("ends", [True, False])
@pytest.mark.parametrize("mode", MODES)
def test_every_mode_has_the_same_transitions(mode: Any, ends: bool) -> None:
    seen = play(VectorWorld(vector(mode, 2, 3, ends=ends), (5, 3)), 12)
    stay = 0.0 if ends else 1.0
    wanted = {
        (0.0, 0.0, 1.0, 1.0, False),
        (0.0, 1.0, 2.0, stay, True),
        (1.0, 0.0, 1.0, 1.0, False),
        (1.0, 1.0, 2.0, 1.0, False),
        (1.0, 2.0, 3.0, stay, True),
    }
    assert set(seen) == wanted


@pytest.mark.parametrize("mode", MODES)
def test_an_agent_learns_in_a_vector_of_environments(mode: Any) -> None:
    agent = SFWPO(vector(mode, 2, 3), corners(), settings=QUICK).learn(60)
    assert 60 <= agent.num_timesteps <= 61
    rows = agent._learner.replay._rows[: len(agent._learner.replay)]
    before, after, going = rows[:, 1], rows[:, 7], rows[:, 8]
    np.testing.assert_array_equal(after, before + 1.0)  # no transition leads from an end to a beginning
    np.testing.assert_array_equal(going == 0.0, after == rows[:, 0] + 2.0)
    assert agent.stats.mean_return == pytest.approx(4.5, abs=0.4)  # 1 + 2 and 1 + 2 + 3


def no_action(obs: Rows) -> Rows:
    return np.zeros((len(obs), 3), np.float32)


@pytest.mark.parametrize("mode", MODES)
def test_short_episodes_count_no_more_than_long_ones(mode: Any) -> None:
    returns = evaluate(no_action, vector(mode, 1, 4), episodes=7)
    assert sorted(returns) == [1.0] * 4 + [10.0] * 3


def test_one_environment_is_evaluated() -> None:
    np.testing.assert_array_equal(evaluate(no_action, Walk(3), episodes=2), [6.0, 6.0])


def test_an_agent_is_a_policy() -> None:
    agent = SFWPO(Walk(3), corners(), settings=QUICK)
    assert evaluate(agent, Walk(3), episodes=2).tolist() == [6.0, 6.0]


def test_a_policy_must_act() -> None:
    with pytest.raises(TypeError, match="`policy` must be a function of observations, or an agent"):
        evaluate(3, Walk(3))  # type: ignore[arg-type]


def test_other_spaces_are_refused() -> None:
    with pytest.raises(ValueError, match=r"`env.single_action_space` must be a Box of shape \(5,\)"):
        SFWPO(vector(MODES[0], 2), ActionSet(np.eye(5)))
    with pytest.raises(TypeError, match="`eval_env` must be a batched or a Gymnasium environment"):
        SFWPO(Walk(2), corners()).learn(5, eval_env=3)  # type: ignore[arg-type]


def test_an_unknown_mode_is_refused() -> None:
    env = vector(MODES[0], 2)
    env.metadata = {"autoreset_mode": "sometimes"}
    with pytest.raises(ValueError, match="one of NextStep, SameStep, Disabled"):
        as_world(env)
