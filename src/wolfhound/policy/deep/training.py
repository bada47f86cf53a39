"""The training loop: acts in a world, learns from it, and tells how far it is.

Knows the learner and the world; nothing of files but its log.
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
from dataclasses import astuple, fields
from typing import final

import numpy as np

from wolfhound.core import Status
from wolfhound.policy.answers import Rows
from wolfhound.policy.deep.learner import Learner
from wolfhound.policy.deep.networks import to_tensor
from wolfhound.policy.deep.rules import Execution
from wolfhound.policy.deep.settings import Training, TrainingCallback
from wolfhound.policy.deep.worlds import World
from wolfhound.validate import path as checked_path


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
