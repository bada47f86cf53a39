"""Small worlds and agents for the tests of the deep part."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from wolfhound.policy import ActionSet, Agent, Settings
from wolfhound.policy.actions import Rows
from wolfhound.policy.deep.rules import Rule, torch
from wolfhound.policy.deep.training import Learner

D = 3
TARGET = np.array([0.5, 0.3, 0.2], np.float32)
"""Inside the simplex, whose corners are the atoms of `corners`."""

QUICK = Settings(learning_starts=32, batch_size=32, hidden=16, train_freq=8, learning_rate=1e-2)


def corners() -> ActionSet:
    return ActionSet(np.eye(D, dtype=np.float32))


def cloud(n: int = 60, seed: int = 0) -> Rows:
    """Random atoms of different lengths, away from the origin."""
    rows = np.random.default_rng(seed).standard_normal((n, D)) + 0.4
    return rows.astype(np.float32)


class Bandit:
    """One step counts: the reward is 1 - |a - target|^2, whatever is observed."""

    def __init__(self, size: int = 8, horizon: int = 5) -> None:
        self.size, self.obs_dim = size, 2
        self._rng = np.random.default_rng(0)
        self._horizon, self._time = horizon, 0
        self.sent: list[Rows] = []
        self.seeds: list[int | None] = []

    def reset(self, seed: int | None = None) -> Rows:
        self.seeds.append(seed)
        if seed is not None:
            self._rng = np.random.default_rng(seed)
        self._time = 0
        return self._look()

    def step(self, actions: NDArray[Any]) -> tuple[Rows, Rows, bool]:
        self.sent.append(actions.copy())
        self._time += 1
        rewards = 1.0 - ((actions - TARGET) ** 2).sum(axis=1)
        return self._look(), rewards.astype(np.float32), self._time >= self._horizon

    def _look(self) -> Rows:
        return self._rng.standard_normal((self.size, self.obs_dim), dtype=np.float32)


def learner(agent: Agent) -> Learner:
    return agent._learner


def brain_of(rule: Rule, actions: ActionSet, *, seed: int = 0) -> Any:
    """Untrained networks, as a rule sees them."""
    return Learner(2, actions, rule=rule, settings=Settings(hidden=8, seed=seed)).brain


def observations(m: int, seed: int = 0) -> Any:
    rows = np.random.default_rng(seed).standard_normal((m, 2), dtype=np.float32)
    return torch.from_numpy(rows)
