"""Environments as an agent sees them: B episodes at once, of one kind of environment or another.

Neither torch nor Gymnasium is imported: the interface of the latter is enough.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, final, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from wolfhound.policy.answers import Rows
from wolfhound.validate import require

Mask: TypeAlias = NDArray[np.bool_]


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


@runtime_checkable
class GymVectorEnv(Protocol):
    """What is used of a Gymnasium VectorEnv: B episodes that end and begin again each for itself."""

    @property
    def num_envs(self) -> int:
        """B."""

    @property
    def metadata(self) -> dict[str, Any]:
        """Its "autoreset_mode" says who begins an episode that follows; if it is missing, NEXT_STEP."""

    @property
    def single_observation_space(self) -> Any:
        """A Box of shape (o,)."""

    @property
    def single_action_space(self) -> Any:
        """A Box of shape (d,)."""

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin B episodes, or those of a mask."""

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Take B actions."""


Env: TypeAlias = BatchEnv | GymEnv | GymVectorEnv


@dataclass(frozen=True, slots=True)
class Turn:
    """What B actions led to.

    Attributes
    ----------
    obs, rewards : (B, o), (B,)
        Of an episode that is over, its last.
    going : (B,)
        0 where the episode ended for good, else 1.
    over : (B,) bool
        Where the episode is over, ended or cut off.
    real : (B,) bool
        Where an action was taken; elsewhere an episode began instead.
    ahead : (B, o) or None
        What is observed before the next actions; None: all are over, `reset` comes next.
    """

    obs: Rows
    rewards: Rows
    going: Rows
    over: Mask
    real: Mask
    ahead: Rows | None


@final
class ManyWorlds:
    """A batched environment; its episodes are cut off together, and never end."""

    def __init__(self, env: BatchEnv) -> None:
        self._env = env
        self.size, self.obs_dim = env.size, env.obs_dim

    def reset(self, seed: int | None = None) -> Rows:
        """Begin B episodes."""
        return np.asarray(self._env.reset(seed), np.float32)

    def step(self, actions: Rows) -> Turn:
        """Take B actions."""
        found, rewards, cut = self._env.step(actions)
        obs, every = np.asarray(found, np.float32), np.ones(self.size, bool)
        going = np.ones(self.size, np.float32)
        ahead = None if cut else obs
        return Turn(obs, np.asarray(rewards, np.float32), going, every & bool(cut), every, ahead)


@final
class OneWorld:
    """One Gymnasium environment, as a batch of one."""

    def __init__(self, env: GymEnv, dim: int | None) -> None:
        self._env = env
        self.size, self.obs_dim = 1, _check_spaces(env, "", dim)

    def reset(self, seed: int | None = None) -> Rows:
        """Begin an episode."""
        return np.array(self._env.reset(seed=seed)[0], np.float32)[None]

    def step(self, actions: Rows) -> Turn:
        """Take one action."""
        found, reward, ended, cut, _ = self._env.step(actions[0])
        obs, over = np.array(found, np.float32)[None], bool(ended or cut)
        going = np.array([not ended], np.float32)
        earned = np.array([reward], np.float32)
        return Turn(obs, earned, going, np.array([over]), np.ones(1, bool), None if over else obs)


@final
class VectorWorld:
    """A Gymnasium VectorEnv, in each of its autoreset modes."""

    def __init__(self, env: GymVectorEnv, dim: int | None) -> None:
        self._env = env
        self.size, self.obs_dim = int(env.num_envs), _check_spaces(env, "single_", dim)
        mode = env.metadata.get("autoreset_mode", "NextStep")
        self._mode = str(getattr(mode, "value", mode))
        known = ("NextStep", "SameStep", "Disabled")
        require(self._mode in known, "env.metadata['autoreset_mode']", f"one of {', '.join(known)}", mode)
        self._over: Mask = np.zeros(self.size, bool)

    def reset(self, seed: int | None = None) -> Rows:
        """Begin B episodes."""
        self._over = np.zeros(self.size, bool)
        return np.array(self._env.reset(seed=seed)[0], np.float32)

    def step(self, actions: Rows) -> Turn:
        """Take B actions; in the mode NEXT_STEP, those of episodes that are over begin the next."""
        found, rewards, ended, cut, info = self._env.step(actions)
        ahead, ends = np.array(found, np.float32), np.array(ended, bool)
        real = ~self._over if self._mode == "NextStep" else np.ones(self.size, bool)
        over = (ends | np.array(cut, bool)) & real
        obs = ahead
        if over.any() and self._mode == "SameStep":
            obs = ahead.copy()
            for i in np.flatnonzero(over):
                obs[i] = info["final_obs"][i]
        elif over.any() and self._mode == "Disabled":
            begun = np.array(self._env.reset(options={"reset_mask": over})[0], np.float32)
            ahead = np.where(over[:, None], begun, ahead)
        self._over = over
        going = 1.0 - (ends & real).astype(np.float32)
        return Turn(obs, np.array(rewards, np.float32), going, over, real, ahead)


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


World: TypeAlias = ManyWorlds | OneWorld | VectorWorld | Nowhere
"""B episodes: `size` is B, `obs_dim` is o."""


def as_world(env: object, dim: int | None = None, *, name: str = "env") -> World:
    """Return a world from a batched environment, or one or many of Gymnasium.

    Parameters
    ----------
    env
        What the caller has.
    dim
        Dimension of an action; None: any.
    name
        What the caller calls it, for error messages.
    """
    if isinstance(env, Nowhere):
        return env
    if isinstance(env, BatchEnv):
        return ManyWorlds(env)
    if isinstance(env, GymVectorEnv):
        return VectorWorld(env, dim)
    if isinstance(env, GymEnv):
        return OneWorld(env, dim)
    got = "None" if env is None else f"a {type(env).__name__}"
    raise TypeError(f"`{name}` must be a batched or a Gymnasium environment. Got {got}.")


def _check_spaces(env: Any, prefix: str, dim: int | None) -> int:
    """Raise ValueError unless both spaces are vectors; return the numbers in an observation."""
    widths = []
    for name in (f"{prefix}observation_space", f"{prefix}action_space"):
        shape = getattr(env, name).shape
        require(shape is not None and len(shape) == 1, f"env.{name}", "a Box with one axis", shape)
        widths.append(int(shape[0]))
    fits, rule = dim in (None, widths[1]), f"a Box of shape ({dim},), as the atoms are"
    require(fits, f"env.{prefix}action_space", rule, f"({widths[1]},)")
    return widths[0]
