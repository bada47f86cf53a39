"""`SFWPO`, the agent for huge action sets; `Agent`, the one training loop for all rules.

What differs between methods is a `Rule`; episodes, seeds, logs and files are
here, once.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
import os
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from typing import Self, final

import numpy as np
from numpy.typing import ArrayLike

from wolfhound import store
from wolfhound.atoms import fingerprint
from wolfhound.policy.actions import ActionSet
from wolfhound.policy.answers import HullPoints
from wolfhound.policy.deep._torch import one_torch_thread
from wolfhound.policy.deep.kept import check_weights, execution_of, rule_of, rule_params
from wolfhound.policy.deep.learner import Learner
from wolfhound.policy.deep.networks import Features
from wolfhound.policy.deep.rules import (
    Brain,
    Draw,
    Execution,
    FrankWolfeRule,
    Hull,
    HullDecision,
    Nearest,
    Rows,
    Rule,
    tensor,
)
from wolfhound.policy.deep.settings import Listener, Report, Settings, csv_log, progress
from wolfhound.policy.deep.worlds import Env, Nowhere, as_world
from wolfhound.store import StoreError
from wolfhound.threads import one_blas_thread
from wolfhound.validate import array, count, flag, function, ids, kind, real_array, require, require_finite

__all__ = ["SFWPO", "Agent", "Draw", "Hull", "HullDecision", "Nearest", "Report", "Settings"]

KIND = "policy"

_PREDICT = 1
"""Second word of the seed of what `predict` draws."""


class Agent:
    """Learns which point of a hull of atoms to execute, by any rule.

    Everything that is executed is a point of the hull, made of atoms with
    weights, or an atom. The same seed gives the same agent: torch and BLAS are held
    to one thread meanwhile, and nothing random is drawn from global generators.
    Past winners are remembered by each agent for itself, and while it learns only:
    `predict` depends on the observations and on what was learned, and changes nothing.

    Parameters
    ----------
    env
        A batched environment, or one Gymnasium environment.
    actions
        The hull; its oracle answers every search.
    rule
        How to decide and to learn, e.g. one of `wolfhound.policy.deep.rivals`.
    settings
        Of the training.
    execution
        `Hull()`, `Nearest()` or `Draw()`: what the environment is given.
    critic_features
        (m, o) observations and (m, d) actions, as tensors, to (m, f) further inputs
        of the critics, such as inner products.

    Examples
    --------
    >>> from wolfhound.policy.feed.batch import BatchedFeed
    >>> from wolfhound.policy.feed.environment import Feed, feed_features
    >>> from wolfhound.policy.deep.rivals import TD3
    >>> feed = Feed.build(np.eye(3), users=5)
    >>> agent = Agent(
    ...     BatchedFeed(feed, 2), ActionSet(feed.atoms), rule=TD3(), critic_features=feed_features
    ... )
    >>> agent.learn(10).stats.timesteps
    10
    """

    def __init__(
        self,
        env: Env | Nowhere,
        actions: ActionSet,
        *,
        rule: Rule,
        settings: Settings | None = None,
        execution: Execution | None = None,
        critic_features: Features | None = None,
    ) -> None:
        kind(actions, "actions", "an ActionSet", ActionSet)
        kind(rule, "rule", "a rule such as TD3()", "decision", "ahead", "loss")
        if settings is not None:
            kind(settings, "settings", "Settings(...)", Settings)
        if execution is not None:
            kind(execution, "execution", "Hull(), Nearest() or Draw()", Hull, Nearest, Draw)
        if critic_features is not None:
            function(critic_features, "critic_features", "a function of observations and actions")
        self._world = as_world(env, actions.dim)
        self._actions, self._rule = actions, rule
        self._settings = Settings() if settings is None else settings
        self._execution: Execution = Hull() if execution is None else execution
        with self._held():
            self._learner = Learner(
                self._world.obs_dim,
                actions.fresh(),
                rule=rule,
                settings=self._settings,
                features=critic_features,
            )
        brain, own = self._learner.brain, np.random.default_rng([self._settings.seed, _PREDICT])
        # The same networks and winners; but asking neither moves the winners nor the generator of training.
        self._still = replace(brain, actions=brain.actions.frozen(), rng=own)
        self._obs: Rows | None = None
        self._earned: Rows = np.zeros(self._world.size, np.float32)
        self._returns: deque[float] = deque(maxlen=100)
        self.num_timesteps = 0
        self._seen = self._episodes = 0
        self._begun = False

    @property
    def actions(self) -> ActionSet:
        """The hull."""
        return self._actions

    @property
    def rule(self) -> Rule:
        """How it decides and learns."""
        return self._rule

    @property
    def settings(self) -> Settings:
        """Of the training."""
        return self._settings

    @property
    def stats(self) -> Report:
        """How far training is and what it cost."""
        tally, ratios = self._learner.tally, self._learner.ratios
        audited = np.concatenate(ratios) if ratios else np.empty(0)
        return Report(
            timesteps=self.num_timesteps,
            episodes=self._episodes,
            mean_return=float(np.mean(self._returns)) if self._returns else math.nan,
            updates=tally.updates,
            critic_loss=tally.critic_loss,
            actor_loss=tally.actor_loss,
            ms_per_update=1e3 * tally.seconds / tally.updates if tally.updates else math.nan,
            scored=self._learner.brain.scored,
            ratio_mean=float(audited.mean()) if len(audited) else math.nan,
            ratio_p5=float(np.quantile(audited, 0.05)) if len(audited) else math.nan,
        )

    # ------------------------------------------------------------ learning

    def learn(
        self,
        total_timesteps: int,
        callback: Listener | None = None,
        *,
        log: str | os.PathLike[str] | None = None,
        log_interval: int = 1000,
        progress_bar: bool = False,
        reset_num_timesteps: bool = True,
    ) -> Self:
        """Act and learn until `total_timesteps` transitions are made.

        Parameters
        ----------
        total_timesteps
            Transitions; a batched environment makes B at a time.
        callback
            Called with a `Report` after every step of the environment; returning
            False stops, as in Stable-Baselines3.
        log
            A CSV file, continued if it exists: a row every `log_interval` transitions.
        log_interval
            See `log`.
        progress_bar
            Whether to show one, on stderr.
        reset_num_timesteps
            Whether to count from 0 again; what was learned stays either way.
        """
        total = count(total_timesteps, "total_timesteps", low=1)
        interval = count(log_interval, "log_interval", low=1)
        flag(progress_bar, "progress_bar")
        if callback is not None:
            function(callback, "callback", "a function of a Report")
        if flag(reset_num_timesteps, "reset_num_timesteps"):
            self.num_timesteps = 0
        total += self.num_timesteps
        with self._held(), csv_log(log, interval) as note, progress(total, progress_bar) as show:
            while self.num_timesteps < total:
                self._advance()
                report = self.stats
                note(report)
                show(report)
                if callback is not None and callback(report) is False:
                    break
        return self

    def _advance(self) -> None:
        """One step of the environment, and the updates that are due after it."""
        world, learner, settings = self._world, self._learner, self._settings
        if self._obs is None:
            # The first reset alone has a seed: later episodes must differ, also those after `load`.
            self._obs = world.reset(None if self._begun else settings.seed + self._seen)
            self._begun = True
            self._earned = np.zeros(world.size, np.float32)
        actions = self._explored(self._obs)
        turn = world.step(actions)
        learner.replay.add(self._obs, actions, turn.rewards, turn.obs, turn.going)
        before, after = self._seen, self._seen + world.size
        self._seen, self.num_timesteps = after, self.num_timesteps + world.size
        self._earned = self._earned + turn.rewards
        self._obs = turn.obs
        if turn.over:
            self._returns.extend(self._earned.tolist())
            self._episodes += world.size
            self._obs = None
        if len(learner.replay) >= min(settings.learning_starts, settings.buffer_size):
            rounds = after // settings.train_freq - before // settings.train_freq
            for _ in range(rounds * settings.gradient_steps):
                learner.update()

    def _explored(self, obs: Rows) -> Rows:
        decision, brain = self._rule.decision, self._learner.brain
        if self._seen < self._settings.learning_starts:
            return self._executed(brain, decision.start(brain, len(obs)))
        return self._executed(brain, decision.decide(brain, tensor(obs), explore=True))

    def _executed(self, brain: Brain, hull: HullPoints) -> Rows:
        return self._execution.rows(brain.actions, hull, brain.rng)

    @contextmanager
    def _held(self) -> Iterator[None]:
        with one_torch_thread(), one_blas_thread():
            yield

    # ------------------------------------------------------------ deciding

    def predict(
        self,
        observation: ArrayLike,
        state: None = None,
        episode_start: None = None,
        deterministic: bool = True,
    ) -> tuple[Rows, None]:
        """Choose actions for (m, o) observations, or for one of shape (o,).

        Parameters
        ----------
        observation
            Finite numbers.
        state, episode_start
            Not used: here because Stable-Baselines3 has them.
        deterministic
            False explores as in training. `Draw` draws in either case. What is random
            comes from a generator of its own: training goes on as if nothing was asked.

        Returns
        -------
        (m, d) or (d,) actions, and None.
        """
        obs, explore = self._observed(observation), not flag(deterministic, "deterministic")
        with self._held():
            hull = self._rule.decision.decide(self._still, tensor(obs), explore=explore)
            actions = self._executed(self._still, hull)
        return (actions if np.ndim(observation) == 2 else actions[0]), None

    def decide(self, observation: ArrayLike) -> HullPoints:
        """Return the points of the hull for (m, o) observations, with atoms and weights."""
        obs = self._observed(observation)
        with self._held():
            return self._rule.decision.decide(self._still, tensor(obs), explore=False)

    def directions(self, observation: ArrayLike) -> tuple[Rows, Rows]:
        """Return what an update asks of the oracle: unit directions and points, (m, d) each.

        Gradients of the first critic in the action, at the actor's output.
        """
        obs = self._observed(observation)
        with self._held():
            directions, points = self._learner.directions(tensor(obs))
        return directions.numpy(), points.numpy()

    def _observed(self, observation: ArrayLike) -> Rows:
        obs = array(observation, "observation", "an array of real numbers")
        obs = real_array(obs, "observation", 1 if obs.ndim == 1 else 2)
        width = self._world.obs_dim
        require(obs.shape[-1] == width, "observation", f"of {width} numbers each", f"shape {obs.shape}")
        require_finite(obs, "observation")
        return np.ascontiguousarray(obs.reshape(-1, width), np.float32)

    # ------------------------------------------------------------ files

    def save(self, path: str | os.PathLike[str], *, replay: bool = False) -> None:
        """Write the agent to a folder, whole or not at all.

        Parameters
        ----------
        path
            The folder.
        replay
            Whether to write the transitions too, to go on learning from them.
        """
        learner = self._learner
        params = {
            "agent": type(self).__name__,
            "obs_dim": self._world.obs_dim,
            "rule": rule_params(self._rule),
            "settings": asdict(self._settings),
            "execution": type(self._execution).__name__,
            "counts": [self.num_timesteps, self._seen, self._episodes, learner.tally.updates],
            "rng": learner.brain.rng.bit_generator.state,
            "predict_rng": self._still.rng.bit_generator.state,
        }
        arrays = learner.arrays() | (learner.replay.arrays() if replay else {})
        store.save(path, KIND, arrays, params, fingerprint(self._actions.atoms))

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        actions: ActionSet,
        *,
        env: Env | None = None,
        critic_features: Features | None = None,
    ) -> Self:
        """Read an agent that `save` wrote.

        Parameters
        ----------
        path
            The folder.
        actions
            A set of the same atoms; any oracle will do.
        env
            Needed only to go on learning.
        critic_features
            The function that the agent was made with.

        Raises
        ------
        StoreError
            If the folder is damaged, holds another kind of agent, or was made from
            other atoms.
        """
        stored = store.load(path, KIND)
        store.check_fingerprint(stored, actions.atoms)
        kind, params = stored.params.get("agent"), stored.params
        if cls is not Agent and kind != cls.__name__:
            raise StoreError(f"`path` must hold a saved {cls.__name__}. Got a {kind} in {stored.folder}.")
        with stored.reading():
            width, settings = count(params["obs_dim"], "obs_dim", low=1), Settings(**params["settings"])
            rule, execution = rule_of(params["rule"]), execution_of(params["execution"])
            check_weights(stored, width * settings.hidden)
        agent = cls.__new__(cls)
        # Not the initialiser of a subclass: its options are the rule and the settings, which are here.
        Agent.__init__(
            agent,
            Nowhere(width) if env is None else env,
            actions,
            rule=rule,
            settings=settings,
            execution=execution,
            critic_features=critic_features,
        )
        agent._take_over(stored)
        return agent

    def _take_over(self, stored: store.Stored) -> None:
        learner, width = self._learner, stored.params["obs_dim"]
        require(self._world.obs_dim == width, "env", f"observations of {width} numbers", self._world.obs_dim)
        with stored.reading(ValueError):  # that of features of the critic which are not those of before
            learner.restore(stored.arrays)
        with stored.reading():
            if "replay" in stored.arrays:
                learner.replay.restore(stored.arrays)
            counts = [count(number, "counts") for number in stored.params["counts"]]
            self.num_timesteps, self._seen, self._episodes, learner.tally.updates = counts
            learner.brain.rng.bit_generator.state = stored.params["rng"]
            if "predict_rng" in stored.params:  # older folders have neither this generator nor winners
                self._still.rng.bit_generator.state = stored.params["predict_rng"]
                won = stored.array("winners", np.int64, (2, None), low=0)
                ids(won[0], "winners", self._actions.n)
                learner.brain.actions.winners.restore(won, self._actions.atoms)


@final
class SFWPO(Agent):
    """Sublinear Frank-Wolfe policy optimisation over the hull of many atoms.

    Twin critics as in TD3. The actor is drawn to the Frank-Wolfe step from its
    own output, so an update costs one search of the atoms and no projection.
    At decision time that output is projected by a few Frank-Wolfe steps, then
    improved by a few more on the critic. See `Agent` for the other methods.

    Parameters
    ----------
    env, actions, execution, critic_features
        See `Agent`.
    refine
        Frank-Wolfe steps on the critic, per decision.
    project
        Frank-Wolfe steps of the projection, per decision.
    exploration
        Largest share of the random atom that exploration mixes in.
    learning_rate, buffer_size, learning_starts, batch_size, tau, gamma
        See `Settings`.
    train_freq, gradient_steps, policy_delay, hidden, seed, audit_every
        See `Settings`.

    Examples
    --------
    >>> import numpy as np
    >>> from wolfhound.policy.feed.batch import BatchedFeed
    >>> from wolfhound.policy.feed.environment import Feed, feed_features
    >>> feed = Feed.build(np.eye(3), users=5)
    >>> env = BatchedFeed(feed, 4)
    >>> agent = SFWPO(env, ActionSet(feed.atoms), learning_starts=8, critic_features=feed_features)
    >>> action, _ = agent.learn(40).predict(env.reset(0))
    >>> bool((action >= 0.0).all()), action.sum(axis=1).round(5)
    (True, array([1., 1., 1., 1.], dtype=float32))
    """

    def __init__(
        self,
        env: Env,
        actions: ActionSet,
        *,
        gamma: float = 0.9,
        seed: int = 0,
        execution: Execution | None = None,
        refine: int = 3,
        project: int = 4,
        exploration: float = 0.4,
        critic_features: Features | None = None,
        learning_rate: float = 1e-3,
        buffer_size: int = 40_000,
        learning_starts: int = 800,
        batch_size: int = 128,
        tau: float = 0.02,
        train_freq: int = 16,
        gradient_steps: int = 4,
        policy_delay: int = 2,
        hidden: int = 128,
        audit_every: int = 0,
    ) -> None:
        settings = Settings(
            learning_rate=learning_rate,
            buffer_size=buffer_size,
            learning_starts=learning_starts,
            batch_size=batch_size,
            tau=tau,
            gamma=gamma,
            train_freq=train_freq,
            gradient_steps=gradient_steps,
            policy_delay=policy_delay,
            hidden=hidden,
            seed=seed,
            audit_every=audit_every,
        )
        decision = HullDecision(project=project, refine=refine, exploration=exploration)
        super().__init__(
            env,
            actions,
            rule=FrankWolfeRule(decision=decision),
            settings=settings,
            execution=execution,
            critic_features=critic_features,
        )
