"""The training loop: acts in a world, learns from it, and tells how far it is.

A world is an environment as an agent sees it: B episodes at once, one or many. Gymnasium
itself is not imported: its interface is enough. Knows no files but its log.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import contextlib
import csv
import math
import os
import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass, fields
from typing import Any, Protocol, TypeAlias, final, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from wolfhound.core import Status
from wolfhound.policy.answers import Rows
from wolfhound.policy.deep.learner import Learner
from wolfhound.policy.deep.networks import to_tensor
from wolfhound.policy.deep.rules import Execution
from wolfhound.policy.deep.settings import Training, TrainingCallback
from wolfhound.validate import path as checked_path
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


@contextlib.contextmanager
def open_log(path: str | os.PathLike[str] | None, interval: int) -> Iterator[TrainingCallback]:
    """Write a row of the training to a CSV file every `interval` transitions.

    An existing file is continued. None: write nothing.
    """
    if path is None:
        yield lambda training: None
        return
    with open(checked_path(path, "log"), "a", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        if stream.tell() == 0:
            writer.writerow(field.name for field in fields(Training))
        due = 0

        def write(training: Training) -> None:
            nonlocal due
            if training.timesteps >= due:
                due = training.timesteps - training.timesteps % interval + interval
                writer.writerow(astuple(training))
                stream.flush()  # what is written can be read while training goes on

        yield write


@final
class Trainer:
    """Acts in a world and learns from it, B episodes at a time.

    Parameters
    ----------
    world, learner
        Where to act, and what learns; its rule decides.
    execution
        What is sent to the world.

    Attributes
    ----------
    timesteps : int
        Transitions since the count was last set to 0.
    seen : int
        Transitions ever.
    episodes : int
        Episodes that are over.
    """

    def __init__(self, world: World, learner: Learner, execution: Execution) -> None:
        self.timesteps = self.seen = self.episodes = 0
        self._world, self._learner, self._execution = world, learner, execution
        self._obs: Rows | None = None
        self._earned: Rows = np.zeros(world.size, np.float32)
        self._returns: deque[float] = deque(maxlen=100)
        self._begun = False

    @property
    def stats(self) -> Training:
        """How far it is and what it cost."""
        learner = self._learner
        ratios = np.concatenate(learner.ratios) if learner.ratios else np.empty(0)
        return Training(
            timesteps=self.timesteps,
            episodes=self.episodes,
            mean_return=float(np.mean(self._returns)) if self._returns else math.nan,
            updates=learner.updates,
            critic_loss=learner.critic_loss,
            actor_loss=learner.actor_loss,
            ms_per_update=1e3 * learner.seconds / learner.updates if learner.updates else math.nan,
            scored=learner.brain.scored,
            ratio_mean=float(ratios.mean()) if len(ratios) else math.nan,
            ratio_p5=float(np.quantile(ratios, 0.05)) if len(ratios) else math.nan,
        )

    def run(self, total: int, max_seconds: float, callbacks: Sequence[TrainingCallback]) -> Status:
        """Go on until there are `total` timesteps; why it ended."""
        began, status = time.perf_counter(), None
        try:
            while status is None:
                self.advance()
                training = self.stats
                stops = any([tell(training) for tell in callbacks])
                reasons = (
                    (Status.FINISHED, self.timesteps >= total),
                    (Status.STOPPED, stops),
                    (Status.MAX_SECONDS, time.perf_counter() - began > max_seconds),
                )
                status = next((each for each, holds in reasons if holds), None)
        except KeyboardInterrupt:
            return Status.INTERRUPTED
        return status

    def advance(self) -> None:
        """One step of the world, and the updates that are due after it."""
        learner, settings, before = self._learner, self._learner.settings, self.seen
        obs, brain, decision = self._observe(), learner.brain, learner.rule.decision
        if before < settings.learning_starts:
            hull = decision.start(brain, len(obs))
        else:
            hull = decision.decide(brain, to_tensor(obs), explore=True)
        actions = self._execution.act(brain.actions, hull, brain.rng)
        turn = self._world.step(actions)
        learner.replay.add(obs, actions, turn.rewards, turn.obs, turn.going)
        self.seen, self.timesteps = self.seen + len(obs), self.timesteps + len(obs)
        self._earned = self._earned + turn.rewards
        self._obs = None if turn.over else turn.obs
        if turn.over:
            self._returns.extend(self._earned.tolist())
            self.episodes += len(obs)
        if len(learner.replay) >= min(settings.learning_starts, settings.buffer_size):
            rounds = self.seen // settings.train_freq - before // settings.train_freq
            for _ in range(rounds * settings.gradient_steps):
                learner.update()

    def _observe(self) -> Rows:
        if self._obs is None:
            # The first reset alone has a seed: later episodes must differ, also those after `load`.
            self._obs = self._world.reset(None if self._begun else self._learner.settings.seed + self.seen)
            self._begun = True
            self._earned = np.zeros(self._world.size, np.float32)
        return self._obs
