"""Environments as an agent sees them: B episodes at once, one or many.

Knows the two kinds of environment; nothing of networks or of how actions are
chosen. Gymnasium itself is not imported: its interface is enough.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, final, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from wolfhound.policy.answers import Rows
from wolfhound.validate import require


@runtime_checkable
class BatchEnv(Protocol):
    """B episodes at once, all of the same length: what an agent learns from."""

    @property
    def size(self) -> int:
        """B."""

    @property
    def obs_dim(self) -> int:
        """Numbers in an observation."""

    def reset(self, seed: int | None = None) -> Rows:
        """Begin B episodes; give their (B, obs_dim) observations."""

    def step(self, actions: NDArray[Any]) -> tuple[Rows, Rows, bool]:
        """Take (B, d) actions; give observations, rewards, and whether all are cut off."""


@runtime_checkable
class GymEnv(Protocol):
    """What is used of a Gymnasium environment."""

    @property
    def observation_space(self) -> Any:
        """A Box of shape (o,)."""

    @property
    def action_space(self) -> Any:
        """A Box of shape (d,)."""

    def reset(self, *, seed: int | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode."""

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Take an action."""


Env: TypeAlias = BatchEnv | GymEnv


@dataclass(frozen=True, slots=True)
class Turn:
    """What B actions led to.

    Attributes
    ----------
    obs, rewards : (B, o), (B,)
    going : (B,)
        0 where the episode ended for good, else 1.
    over : bool
        Whether all episodes are over, or cut off: `reset` comes next.
    """

    obs: Rows
    rewards: Rows
    going: Rows
    over: bool


@final
class ManyWorlds:
    """A batched environment; its episodes are cut off, and never end."""

    def __init__(self, env: BatchEnv) -> None:
        self._env = env
        self.size, self.obs_dim = env.size, env.obs_dim

    def reset(self, seed: int | None = None) -> Rows:
        """Begin B episodes."""
        return np.asarray(self._env.reset(seed), np.float32)

    def step(self, actions: Rows) -> Turn:
        """Take B actions."""
        obs, rewards, cut = self._env.step(actions)
        going = np.ones(self.size, np.float32)
        return Turn(np.asarray(obs, np.float32), np.asarray(rewards, np.float32), going, bool(cut))


@final
class OneWorld:
    """One Gymnasium environment, as a batch of one."""

    def __init__(self, env: GymEnv, dim: int) -> None:
        for name, shape in (
            ("observation_space", env.observation_space.shape),
            ("action_space", env.action_space.shape),
        ):
            require(shape is not None and len(shape) == 1, f"env.{name}", "a Box with one axis", shape)
        acts = env.action_space.shape[0]
        require(acts == dim, "env.action_space", f"a Box of shape ({dim},), as the atoms are", f"({acts},)")
        self._env = env
        self.size, self.obs_dim = 1, int(env.observation_space.shape[0])

    def reset(self, seed: int | None = None) -> Rows:
        """Begin an episode."""
        return np.array(self._env.reset(seed=seed)[0], np.float32)[None]

    def step(self, actions: Rows) -> Turn:
        """Take one action."""
        obs, reward, ended, cut, _ = self._env.step(actions[0])
        going = np.array([not ended], np.float32)
        return Turn(np.array(obs, np.float32)[None], np.array([reward], np.float32), going, ended or cut)


@final
class Nowhere:
    """No environment: for an agent that only decides."""

    def __init__(self, obs_dim: int) -> None:
        self.size, self.obs_dim = 1, obs_dim

    def reset(self, seed: int | None = None) -> Rows:
        """There is nothing to begin."""
        raise ValueError("`env` must be given to `load` if the agent is to learn. Got None.")

    def step(self, actions: Rows) -> Turn:
        """There is nothing to act on: `reset` comes first."""
        raise NotImplementedError


World: TypeAlias = ManyWorlds | OneWorld | Nowhere
"""B episodes that begin and are over together: `size` is B, `obs_dim` is o."""


def as_world(env: object, dim: int) -> World:
    """Return a world from a batched or a Gymnasium environment.

    Parameters
    ----------
    env
        What the caller has.
    dim
        Dimension of an action.
    """
    if isinstance(env, Nowhere):
        return env
    if isinstance(env, BatchEnv):
        return ManyWorlds(env)
    if isinstance(env, GymEnv):
        return OneWorld(env, dim)
    raise TypeError(f"`env` must be a batched or a Gymnasium environment. Got a {type(env).__name__}.")
