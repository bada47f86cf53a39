"""Environments as an agent sees them, B episodes at once, and what a policy earns in them.

Neither torch nor Gymnasium is imported: the interface of the latter is enough.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, final, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from wolfhound.core.contracts import Vector
from wolfhound.core.validate import count, describe, require
from wolfhound.policy.actions import Rows

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
        """A Box of shape (d,), or Discrete(n)."""

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
        """A Box of shape (d,), or Discrete(n)."""

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin B episodes, or those of a mask."""

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Take B actions."""


Env: TypeAlias = BatchEnv | GymEnv | GymVectorEnv


@dataclass(frozen=True, slots=True)
class Turn:
    """What B actions led to."""

    obs: Rows  # (B, o) of an episode that is over, its last
    rewards: Rows  # (B,)
    going: Rows  # (B,) 0 where the episode ended for good, else 1
    over: Mask  # (B,) where the episode is over, ended or cut off
    real: Mask  # (B,) where an action was taken; elsewhere an episode began instead
    ahead: Rows | None  # (B, o) before the next actions; None: all are over, `reset` comes next


def _turn(obs: Rows, rewards: Rows, *, ended: bool, cut: bool) -> Turn:
    """What B actions led to where all episodes are over together."""
    every, over = np.ones(len(obs), bool), bool(ended or cut)
    going = np.full(len(obs), not ended, np.float32)
    return Turn(obs, rewards, going, every & over, every, None if over else obs)


@final
class ManyWorlds:
    """A batched environment; its episodes are cut off together, and never end."""

    def __init__(self, env: BatchEnv) -> None:
        self._env = env
        self.size, self.obs_dim, self.first = env.size, env.obs_dim, None

    def reset(self, seed: int | None = None) -> Rows:
        """Begin B episodes."""
        return np.asarray(self._env.reset(seed), np.float32)

    def step(self, actions: NDArray[Any]) -> Turn:
        """Take B actions."""
        found, rewards, cut = self._env.step(actions)
        return _turn(np.asarray(found, np.float32), np.asarray(rewards, np.float32), ended=False, cut=cut)


@final
class OneWorld:
    """One Gymnasium environment, as a batch of one."""

    def __init__(self, env: GymEnv, shape: tuple[int, int] | None) -> None:
        self._env, self.size = env, 1
        self.obs_dim, self.first = _check_spaces(env, "", shape)

    def reset(self, seed: int | None = None) -> Rows:
        """Begin an episode."""
        return np.array(self._env.reset(seed=seed)[0], np.float32)[None]

    def step(self, actions: NDArray[Any]) -> Turn:
        """Take one action."""
        found, reward, ended, cut, _ = self._env.step(actions[0])
        return _turn(np.array(found, np.float32)[None], np.array([reward], np.float32), ended=ended, cut=cut)


@final
class VectorWorld:
    """A Gymnasium VectorEnv, in each of its autoreset modes."""

    def __init__(self, env: GymVectorEnv, shape: tuple[int, int] | None) -> None:
        self._env, self.size = env, int(env.num_envs)
        self.obs_dim, self.first = _check_spaces(env, "single_", shape)
        mode = env.metadata.get("autoreset_mode", "NextStep")
        self._mode = str(getattr(mode, "value", mode))
        known = ("NextStep", "SameStep", "Disabled")
        require(self._mode in known, "env.metadata['autoreset_mode']", f"one of {', '.join(known)}", mode)
        self._over: Mask = np.zeros(self.size, bool)

    def reset(self, seed: int | None = None) -> Rows:
        """Begin B episodes."""
        self._over = np.zeros(self.size, bool)
        return np.array(self._env.reset(seed=seed)[0], np.float32)

    def step(self, actions: NDArray[Any]) -> Turn:
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

    def __init__(self, obs_dim: int, first: int | None) -> None:
        self.size, self.obs_dim, self.first = 1, obs_dim, first

    def reset(self, seed: int | None = None) -> Rows:
        """There is nothing to begin."""
        raise ValueError("`env` must be given to `load` if the agent is to learn. Got None.")

    def step(self, actions: NDArray[Any]) -> Turn:
        """There is nothing to act on: `reset` comes first."""
        raise NotImplementedError


World: TypeAlias = ManyWorlds | OneWorld | VectorWorld | Nowhere
"""B episodes: `size` is B, `obs_dim` is o. `first`: the first number of a Discrete space, None for a Box."""


def as_world(env: object, shape: tuple[int, int] | None = None, *, name: str = "env") -> World:
    """Return a world from a batched environment, or one or many of Gymnasium, for (n, d) actions."""
    if isinstance(env, Nowhere):
        return env
    if isinstance(env, BatchEnv):
        return ManyWorlds(env)
    if isinstance(env, GymVectorEnv):
        return VectorWorld(env, shape)
    if isinstance(env, GymEnv):
        return OneWorld(env, shape)
    got = "None" if env is None else f"a {type(env).__name__}"
    raise TypeError(f"`{name}` must be a batched or a Gymnasium environment. Got {got}.")


def _check_spaces(env: Any, prefix: str, shape: tuple[int, int] | None) -> tuple[int, int | None]:
    """Return the width of an observation and `first`; ValueError for other spaces."""
    seen, done = f"{prefix}observation_space", f"{prefix}action_space"
    width, space = getattr(env, seen).shape, getattr(env, done)
    flat = "a Box with one axis, which gymnasium.wrappers.FlattenObservation makes of others"
    require(width is not None and len(width) == 1, f"env.{seen}", flat, getattr(env, seen))
    n, d = (None, None) if shape is None else shape
    if type(space).__name__ == "Discrete":
        require(n in (None, int(space.n)), f"env.{done}", f"Discrete({n}), as there are vectors", space)
        return int(width[0]), int(space.start)
    vector = space.shape is not None and len(space.shape) == 1 and type(space).__name__ != "MultiDiscrete"
    require(vector, f"env.{done}", "Discrete(n), or a Box with one axis", space)
    require(
        d in (None, int(space.shape[0])), f"env.{done}", f"a Box of shape ({d},), as the atoms are", space
    )
    return int(width[0]), None


# ---------------------------------------------------------------- what a policy earns

FRESH = 1_000_003
"""Added to a seed for the episodes of a test: no agent has learned from them."""


class Policy(Protocol):
    """Chooses actions for many observations at once."""

    def __call__(self, obs: Rows) -> NDArray[Any]:
        """(B, o) observations -> (B, d) actions, or (B,) numbers of actions where the space is Discrete."""


class Predictor(Protocol):
    """An agent of ours, or of Stable-Baselines3."""

    def predict(self, observation: Rows) -> tuple[NDArray[Any], object]:
        """As `Policy`, and what is not used here."""


PolicyLike: TypeAlias = Policy | Predictor


def evaluate(policy: PolicyLike, env: Env, *, episodes: int = 64, seed: int = 0) -> Vector:
    """Return the (episodes,) undiscounted returns of a policy.

    Parameters
    ----------
    policy
        An agent, or a function: (B, o) observations -> (B, d) actions, or (B,) numbers of them.
    env
        A batched environment, or a Gymnasium Env or VectorEnv (then B is 1, or its
        number) whose episodes end. Each of the B plays its share of the episodes, so
        that short ones count no more than long ones.
    episodes
        How many.
    seed
        Of the first `reset`: the same episodes for every policy that is tested.

    Examples
    --------
    >>> import gymnasium
    >>> cart = gymnasium.make("CartPole-v1")
    >>> evaluate(lambda obs: (obs[:, 2] > 0.0).astype(int), cart, episodes=3).shape
    (3,)
    """
    predict = getattr(policy, "predict", None)
    if not callable(policy) and not callable(predict):
        raise TypeError(f"`policy` must be a function of observations, or an agent. Got {describe(policy)}.")
    act: Policy = policy if callable(policy) else lambda obs: predict(obs)[0]  # type: ignore[misc]
    world = as_world(env)
    wanted = count(episodes, "episodes", low=1)
    left = wanted // world.size + (np.arange(world.size) < wanted % world.size)
    found: list[float] = []
    obs, earned = world.reset(count(seed, "seed")), np.zeros(world.size)
    while True:
        turn = world.step(act(obs))
        earned += np.where(turn.real, turn.rewards, 0.0)
        counted = turn.over & (left > 0)
        found += earned[counted].tolist()
        left -= counted
        earned[turn.over] = 0.0
        if not left.any():
            return np.array(found)
        obs = world.reset() if turn.ahead is None else turn.ahead
