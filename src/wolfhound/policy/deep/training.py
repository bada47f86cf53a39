"""The training loop: acts in a world, learns from it, and tells how far it is. Knows no files."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, final

import numpy as np

from wolfhound.core import Status
from wolfhound.policy.answers import Rows
from wolfhound.policy.deep.learner import Learner
from wolfhound.policy.deep.networks import to_tensor
from wolfhound.policy.deep.rules import Execution
from wolfhound.policy.deep.settings import Training, TrainingCallback
from wolfhound.policy.deep.worlds import Turn, World
from wolfhound.store import Stored
from wolfhound.validate import count, ids, require


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
    eval_return : float
        Mean return of the last evaluation; nan before the first.
    """

    def __init__(self, world: World, learner: Learner, execution: Execution) -> None:
        self.timesteps = self.seen = self.episodes = 0
        self.eval_return = math.nan
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
            eval_return=self.eval_return,
            updates=learner.updates,
            critic_loss=learner.critic_loss,
            actor_loss=learner.actor_loss,
            ms_per_update=1e3 * learner.seconds / learner.updates if learner.updates else math.nan,
            scored=learner.brain.scored,
            ratio_mean=float(ratios.mean()) if len(ratios) else math.nan,
            ratio_p5=float(np.quantile(ratios, 0.05)) if len(ratios) else math.nan,
        )

    def run(
        self,
        total: int,
        max_seconds: float,
        callbacks: Sequence[TrainingCallback],
        examine: Callable[[int], None] | None = None,
    ) -> Status:
        """Go on until there are `total` timesteps; why it ended.

        `examine` is called with the timesteps before anybody is told of them.
        """
        began, status = time.perf_counter(), None
        try:
            while status is None:
                self.advance()
                if examine is not None:
                    examine(self.timesteps)
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
        obs, decision = self._observe(), learner.rule.decision
        brain = learner.brain.facing(obs)
        if before < settings.learning_starts:
            hull = decision.start(brain, len(obs))
        else:
            hull = decision.decide(brain, to_tensor(obs), explore=True)
        actions = self._execution.act(brain.actions, hull, brain.rng)
        turn = self._world.step(actions)
        self._keep(obs, actions, turn)
        if len(learner.replay) >= min(settings.learning_starts, settings.buffer_size):
            rounds = self.seen // settings.train_freq - before // settings.train_freq
            for _ in range(rounds * settings.gradient_steps):
                learner.update()

    # ------------------------------------------------------------ keeping

    def describe(self) -> dict[str, Any]:
        """What is saved of the training beside arrays."""
        learner = self._learner
        return {
            "obs_dim": self._world.obs_dim,
            "subsets": learner.brain.subsets is not None,
            "counts": [self.timesteps, self.seen, self.episodes, learner.updates],
            "rng": learner.brain.rng.bit_generator.state,
        }

    def restore(self, stored: Stored) -> None:
        """Take over what was learned."""
        learner, params = self._learner, stored.params
        width, got = params["obs_dim"], self._world.obs_dim
        require(got == width, "env", f"observations of {width} numbers", got)
        had, has = bool(params.get("subsets")), learner.brain.subsets is not None
        wish = "the function that the agent was made with" if had else "None: the agent was made without"
        require(had == has, "subsets", wish, "a function" if has else "None")
        with stored.reading(ValueError):  # that of features of the critic which are not those of before
            learner.restore(stored.arrays)
        with stored.reading():
            if "replay" in stored.arrays:
                learner.replay.restore(stored.arrays)
            counts = [count(number, "counts") for number in params["counts"]]
            self.timesteps, self.seen, self.episodes, learner.updates = counts
            learner.brain.rng.bit_generator.state = params["rng"]
            won = stored.array("winners", np.int64, (2, None), low=0)
            actions = learner.brain.actions
            ids(won[0], "winners", actions.n)
            actions.winners.restore(won, actions.atoms)

    # ------------------------------------------------------------ one step

    def _keep(self, obs: Rows, actions: Rows, turn: Turn) -> None:
        """Remember the transitions, and count what is over."""
        real, made = turn.real, int(turn.real.sum())
        parts = obs, actions, turn.rewards, turn.obs, turn.going
        self._learner.replay.add(*(part[real] for part in parts))
        self.seen, self.timesteps = self.seen + made, self.timesteps + made
        self._earned = self._earned + np.where(real, turn.rewards, np.float32(0.0))
        self._returns.extend(self._earned[turn.over].tolist())
        self.episodes += int(turn.over.sum())
        self._earned[turn.over] = 0.0
        self._obs = turn.ahead

    def _observe(self) -> Rows:
        if self._obs is None:
            # The first reset alone has a seed: later episodes must differ, also those after `load`.
            self._obs = self._world.reset(None if self._begun else self._learner.settings.seed + self.seen)
            self._begun = True
            self._earned = np.zeros(self._world.size, np.float32)
        return self._obs
