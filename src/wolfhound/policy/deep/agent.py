"""`SFWPO`, the agent for huge action sets; `Agent`, the one training loop for all rules.

What differs between methods is a `Rule`; the loop, seeds and files are here, once.
Everything that a caller of the deep part needs can be imported from here.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
import os
from collections.abc import Callable
from dataclasses import asdict, replace
from typing import ClassVar, Self, final

import numpy as np
from numpy.typing import ArrayLike

from wolfhound import store, validate
from wolfhound.atoms import fingerprint
from wolfhound.core import AtomsLike, Status
from wolfhound.policy.actions import ActionSet
from wolfhound.policy.answers import HullPoints, Rows
from wolfhound.policy.deep import EXECUTIONS, RULES
from wolfhound.policy.deep._torch import Tensor, one_thread
from wolfhound.policy.deep.evaluation import FRESH, evaluate
from wolfhound.policy.deep.learner import Learner
from wolfhound.policy.deep.logs import open_log, open_tensorboard
from wolfhound.policy.deep.networks import CriticFeatures, to_tensor
from wolfhound.policy.deep.recalling import recall_parts
from wolfhound.policy.deep.rules import (
    Draw,
    Execution,
    FrankWolfeRule,
    Hull,
    HullDecision,
    Nearest,
    Rule,
    SubsetsOf,
    describe,
)
from wolfhound.policy.deep.settings import Settings, Training, TrainingCallback
from wolfhound.policy.deep.training import Trainer
from wolfhound.policy.deep.worlds import Env, Nowhere, as_world

__all__ = ["SFWPO", "Agent", "Draw", "Hull", "HullDecision", "Nearest", "Settings", "Training"]

KIND = "agent"

_PREDICT = 1  # second word of the seed of what `predict` draws


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
        How to decide and to learn: one of the table `RULES`, such as ``TD3()``.
    settings
        Of the training.
    execution
        `Hull()`, `Nearest()` or `Draw()`: what the environment is given.
    critic_features
        (m, o) observations and (m, d) actions, as tensors, to (m, f) further inputs
        of the critics, such as inner products; differentiable in the actions.
    subsets
        Which actions a state allows: (m, o) observations to a list of m, each the ids, or
        ``actions.subset(ids)``, which is checked once, or None: all. Whatever is done
        in a state is then a mixture of these.

    Attributes
    ----------
    status : Status or None
        Why the last `learn` ended.
    num_timesteps : int
        Transitions made.
    """

    _RULE: ClassVar[type[Rule] | None] = None

    def __init__(
        self,
        env: Env | Nowhere,
        actions: ActionSet,
        *,
        rule: Rule,
        settings: Settings | None = None,
        execution: Execution | None = None,
        critic_features: CriticFeatures | None = None,
        subsets: SubsetsOf | None = None,
    ) -> None:
        self.settings = Settings() if settings is None else settings
        self.execution: Execution = Hull() if execution is None else execution
        self.actions, self.rule = actions, rule
        _check_parts(actions, rule, self.settings, self.execution, (critic_features, subsets))
        self.status: Status | None = None
        self._world = as_world(env, actions.dim)
        with one_thread():
            own = actions.fresh()
            self._learner = Learner(
                self._world.obs_dim, own, rule, self.settings, features=critic_features, subsets=subsets
            )
        self._trainer = Trainer(self._world, self._learner, self.execution)
        brain, still = self._learner.brain, np.random.default_rng([self.settings.seed, _PREDICT])
        # The same networks and winners; but asking neither moves the winners nor the generator of training.
        self._still = replace(brain, actions=brain.actions.frozen(), rng=still, work=[0])

    @property
    def stats(self) -> Training:
        """How far training is and what it cost."""
        return self._trainer.stats

    @property
    def num_timesteps(self) -> int:
        """Transitions made."""
        return self._trainer.timesteps

    def learn(
        self,
        total_timesteps: int,
        *,
        callback: TrainingCallback | None = None,
        max_seconds: float = math.inf,
        log: str | os.PathLike[str] | None = None,
        tensorboard: str | os.PathLike[str] | None = None,
        log_interval: int = 1000,
        eval_env: Env | None = None,
        eval_freq: int = 1000,
        n_eval_episodes: int = 16,
        reset_num_timesteps: bool = True,
    ) -> Self:
        """Act and learn until `total_timesteps` transitions are made; Ctrl-C keeps what was learned.

        Parameters
        ----------
        total_timesteps
            Transitions; a batched environment makes B at a time.
        callback
            Called with a `Training` after every step of the environment; returning
            True stops.
        max_seconds
            Limit.
        log, tensorboard, log_interval
            A CSV file, continued if it exists; a folder for TensorBoard, which needs
            ``wolfhound[tensorboard]``; and after how many transitions they have a row.
        eval_env, eval_freq, n_eval_episodes
            Another environment, in which the policy is tested without exploration after every
            so many transitions, with so many episodes, the same each time; their mean return is
            `Training.eval_return`, in the logs too. Training goes on as if it had not been tested.
        reset_num_timesteps
            Whether to count from 0 again; what was learned stays either way.
        """
        total = validate.count(total_timesteps, "total_timesteps", low=1)
        interval = validate.count(log_interval, "log_interval", low=1)
        limit = validate.number(max_seconds, "max_seconds", low=0.0)
        if callback is not None:
            validate.function(callback, "callback", "a function of a Training")
        examine = self._plan_tests(eval_env, eval_freq, n_eval_episodes)
        if validate.flag(reset_num_timesteps, "reset_num_timesteps"):
            self._trainer.timesteps = 0
        with one_thread(), open_log(log, interval) as write, open_tensorboard(tensorboard, interval) as show:
            told = [write, show] if callback is None else [write, show, callback]
            self.status = self._trainer.run(self.num_timesteps + total, limit, told, examine)
        return self

    def _plan_tests(self, env: Env | None, freq: int, episodes: int) -> Callable[[int], None] | None:
        """Return what tests the policy whenever another `freq` transitions are made."""
        freq = validate.count(freq, "eval_freq", low=1)
        episodes = validate.count(episodes, "n_eval_episodes", low=1)
        if env is None:
            return None
        as_world(env, self.actions.dim, name="eval_env")
        due = self.num_timesteps - self.num_timesteps % freq + freq

        def examine(timesteps: int) -> None:
            nonlocal due
            if timesteps >= due:
                due = timesteps - timesteps % freq + freq
                returns = evaluate(self, env, episodes=episodes, seed=self.settings.seed + FRESH)
                self._trainer.eval_return = float(returns.mean())

        return examine

    def predict(
        self,
        observation: ArrayLike,
        state: None = None,
        episode_start: None = None,
        deterministic: bool = True,
    ) -> tuple[Rows, None]:
        """Choose actions for (m, o) observations, or for one of shape (o,): (m, d) or (d,), and None.

        Parameters
        ----------
        observation
            Finite numbers.
        state, episode_start
            Not used: here because Stable-Baselines3 has them.
        deterministic
            False explores as in training. `Draw` draws in either case. What is random
            comes from a generator of its own: training goes on as if nothing was asked.
        """
        obs, greedy = self._as_tensor(observation), validate.flag(deterministic, "deterministic")
        with one_thread():
            brain = self._still.facing(obs)
            hull = self.rule.decision.decide(brain, obs, explore=not greedy)
            actions = self.execution.act(brain.actions, hull, brain.rng)
        return (actions if np.ndim(observation) == 2 else actions[0]), None

    def decide(self, observation: ArrayLike) -> HullPoints:
        """Return the points of the hull for (m, o) observations, with atoms and weights."""
        obs = self._as_tensor(observation)
        with one_thread():
            return self.rule.decision.decide(self._still.facing(obs), obs, explore=False)

    def directions(self, observation: ArrayLike) -> tuple[Rows, Rows]:
        """Return what an update asks of the oracle: unit directions and points, (m, d) each.

        Gradients of the first critic in the action, at the actor's output.
        """
        with one_thread():
            directions, points = self._learner.directions(self._as_tensor(observation))
        return directions.numpy(), points.numpy()

    def _as_tensor(self, observation: ArrayLike) -> Tensor:
        width = self._world.obs_dim
        obs = validate.array(observation, "observation", "an array of real numbers")
        obs = validate.real_array(obs, "observation", 1 if obs.ndim == 1 else 2)
        fits = obs.shape[-1] == width
        validate.require(fits, "observation", f"of {width} numbers each", f"shape {obs.shape}")
        return to_tensor(validate.singles(obs, "observation").reshape(-1, width))

    def save(self, folder: str | os.PathLike[str], *, replay: bool = False) -> None:
        """Write the agent to a folder, whole or not at all.

        Parameters
        ----------
        folder
            It must be new, empty, or hold an agent.
        replay
            Whether to write the transitions too, to go on learning from them.
        """
        learner = self._learner
        arrays = learner.arrays() | (learner.replay.arrays() if replay else {})
        params = {
            "rule": describe(RULES, self.rule, "rule"),
            "settings": asdict(self.settings),
            "execution": describe(EXECUTIONS, self.execution, "execution"),
            "predict_rng": self._still.rng.bit_generator.state,
            **self._trainer.describe(),
        }
        store.save(folder, KIND, arrays, params, fingerprint(self.actions.atoms))

    @classmethod
    def load(
        cls,
        folder: str | os.PathLike[str],
        actions: ActionSet | AtomsLike,
        *,
        env: Env | None = None,
        critic_features: CriticFeatures | None = None,
        subsets: SubsetsOf | None = None,
    ) -> Self:
        """Read an agent that `save` wrote.

        Parameters
        ----------
        folder
            Where it was saved.
        actions
            A set of the same atoms, with any oracle; or the atoms.
        env
            Needed only to go on learning.
        critic_features, subsets
            The functions that the agent was made with.
        """
        known = actions if isinstance(actions, ActionSet) else ActionSet(actions)
        stored = store.load(folder, KIND)
        store.check_fingerprint(stored, known.atoms)
        width, parts = recall_parts(stored, cls._RULE)
        agent = cls.__new__(cls)
        world = Nowhere(width) if env is None else env
        # Not the initialiser of a subclass: its options are the rule and the settings, which are here.
        Agent.__init__(agent, world, known, critic_features=critic_features, subsets=subsets, **parts)
        agent._trainer.restore(stored)
        with stored.reading():
            agent._still.rng.bit_generator.state = stored.params["predict_rng"]
        return agent


@final
class SFWPO(Agent):
    """Sublinear Frank-Wolfe policy optimisation over the hull of many atoms.

    Twin critics as in TD3. The actor is drawn to the Frank-Wolfe step from its
    own output, so an update costs one search of the atoms and no projection.
    At decision time that output is projected by a few Frank-Wolfe steps, then
    improved by a few more on the critic. See `Agent` for the other methods.

    Parameters
    ----------
    env, actions, settings, execution, critic_features, subsets
        See `Agent`.
    decision
        From the actor's output to an action: how many steps, and how it explores.

    Examples
    --------
    >>> from wolfhound.policy.feed import BatchedFeed, Feed, feed_features
    >>> feed = Feed.build(np.eye(3), users=5)
    >>> env, settings = BatchedFeed(feed, 4), Settings(learning_starts=8)
    >>> agent = SFWPO(env, ActionSet(feed.atoms), settings=settings, critic_features=feed_features)
    >>> action, _ = agent.learn(40).predict(env.reset(0))
    >>> bool((action >= 0.0).all()), action.sum(axis=1).round(5)
    (True, array([1., 1., 1., 1.], dtype=float32))
    """

    _RULE = FrankWolfeRule

    def __init__(
        self,
        env: Env,
        actions: ActionSet,
        *,
        settings: Settings | None = None,
        decision: HullDecision | None = None,
        execution: Execution | None = None,
        critic_features: CriticFeatures | None = None,
        subsets: SubsetsOf | None = None,
    ) -> None:
        super().__init__(
            env,
            actions,
            rule=FrankWolfeRule() if decision is None else FrankWolfeRule(decision=decision),
            settings=settings,
            execution=execution,
            critic_features=critic_features,
            subsets=subsets,
        )


# ---------------------------------------------------------------- checks


def _check_parts(
    actions: object, rule: Rule, settings: object, execution: Execution, functions: tuple[object, object]
) -> None:
    """Raise TypeError where one of these is of another kind, or could not be saved."""
    validate.kind(actions, "actions", "an ActionSet", ActionSet)
    validate.kind(rule, "rule", "a rule such as TD3()", "decision", "ahead", "loss")
    describe(RULES, rule, "rule")
    validate.kind(settings, "settings", "Settings(...)", Settings)
    validate.kind(execution, "execution", "Hull(), Nearest() or Draw()", "act")
    describe(EXECUTIONS, execution, "execution")
    features, subsets = functions
    if features is not None:
        validate.function(features, "critic_features", "a function of observations and actions")
    if subsets is not None:
        validate.function(subsets, "subsets", "a function of observations")
