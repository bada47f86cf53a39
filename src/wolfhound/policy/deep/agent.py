"""`SFWPO`, the agent for huge action sets; `Agent`, the one training loop for all rules.

What differs between methods is a `Rule`; the loop, seeds and files are here, once.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import contextlib
import math
import os
from dataclasses import asdict, replace
from typing import Any, ClassVar, Self, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from wolfhound.core import validate
from wolfhound.core.contracts import AtomsLike, Status
from wolfhound.core.progress import read_count, show_progress
from wolfhound.data import store
from wolfhound.data.atoms import as_atoms, fingerprint
from wolfhound.policy.actions import ActionSet, HullPoints, Rows
from wolfhound.policy.deep import EXECUTIONS, RULES
from wolfhound.policy.deep.rules import (
    CriticFeatures,
    Execution,
    FrankWolfeRule,
    HullDecision,
    Mix,
    Nearest,
    Rule,
    SubsetsOf,
    Tensor,
    describe,
    one_thread,
    recall,
    to_tensor,
)
from wolfhound.policy.deep.training import (
    Learner,
    Settings,
    Trainer,
    Training,
    TrainingCallback,
    check_weights,
    every,
    execute,
    open_log,
    open_tensorboard,
)
from wolfhound.policy.deep.worlds import FRESH, Env, Nowhere, as_world, evaluate

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
        A Gymnasium Env or VectorEnv, or a batched environment. Its actions are vectors
        (a Box), or the numbers of n vectors (Discrete).
    actions
        An `ActionSet`, whose oracle answers every search; or the (n, d) vectors.
    rule
        How to decide and to learn: one of the table `RULES`, such as ``FrankWolfeRule()``.
    settings
        Of the training.
    execution
        What the environment is given: `Mix()`, the default; `Nearest()` or `Draw()` choose
        one vector, as a Discrete space needs, where `Nearest()` is the default.
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
        actions: ActionSet | AtomsLike,
        *,
        rule: Rule,
        settings: Settings | None = None,
        execution: Execution | None = None,
        critic_features: CriticFeatures | None = None,
        subsets: SubsetsOf | None = None,
    ) -> None:
        self.settings = Settings() if settings is None else settings
        known = actions if isinstance(actions, ActionSet) else ActionSet(as_atoms(actions, "actions"))
        self.actions, self.rule = known, rule
        self.status: Status | None = None
        self._world = as_world(env, (self.actions.n, self.actions.dim))
        numbered = self._world.first is not None
        self.execution: Execution = execution or (Nearest() if numbered else Mix())
        validate.kind(rule, "rule", "a rule such as FrankWolfeRule()", "decision", "ahead", "loss")
        validate.kind(self.settings, "settings", "Settings(...)", Settings)
        validate.kind(self.execution, "execution", "Mix(), Nearest() or Draw()", "act")
        describe(RULES, rule, "rule")  # what could not be saved is refused
        describe(EXECUTIONS, self.execution, "execution")
        if critic_features is not None:
            validate.function(critic_features, "critic_features", "a function of observations and actions")
        if subsets is not None:
            validate.function(subsets, "subsets", "a function of observations")
        choices = "Nearest() or Draw() where the action space is Discrete"
        validate.require(self.execution.single or not numbered, "execution", choices, self.execution)
        with one_thread():
            own = self.actions.fresh()
            self._learner = Learner(
                self._world.obs_dim, own, rule, self.settings, features=critic_features, subsets=subsets
            )
        self._trainer = Trainer(self._world, self._learner, self.execution)
        brain, still = self._learner.brain, np.random.default_rng([self.settings.seed, _PREDICT])
        # The same networks and winners; but asking neither moves the winners nor the generator of training.
        self._still = replace(brain, actions=brain.actions.frozen(), rng=still, work=[0])

    def __repr__(self) -> str:
        """The rule, the actions, how far training is and what it earns."""
        how = "" if type(self) is not Agent else f"{self.rule!r}, "
        far = f"{self.num_timesteps:,} steps{self.stats.tell_return()}"
        return f"{type(self).__name__}({how}{self.actions!r}, {self.execution!r}, {far})"

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
        progress: bool | None = None,
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
        progress
            As for `minimize`.
        """
        total = validate.count(total_timesteps, "total_timesteps", low=1)
        interval = validate.count(log_interval, "log_interval", low=1)
        limit = validate.number(max_seconds, "max_seconds", low=0.0)
        if callback is not None:
            validate.function(callback, "callback", "a function of a Training")
        examine = self._plan_tests(eval_env, eval_freq, n_eval_episodes)
        if validate.flag(reset_num_timesteps, "reset_num_timesteps"):
            self._trainer.timesteps = 0
        end = self.num_timesteps + total
        read = read_count("steps", end, lambda training: training.timesteps, Training.tell_return)
        with contextlib.ExitStack() as stack:
            stack.enter_context(one_thread())
            logs = ((open_log, log), (open_tensorboard, tensorboard))
            told = [stack.enter_context(begin(path, interval)) for begin, path in logs if path is not None]
            hear = stack.enter_context(show_progress(progress, read, callback))
            told += [] if hear is None else [hear]
            self.status = self._trainer.run(end, limit, told, examine)
        return self

    def _plan_tests(self, env: Env | None, freq: int, episodes: int) -> TrainingCallback | None:
        """Return what tests the policy whenever another `freq` transitions are made."""
        freq = validate.count(freq, "eval_freq", low=1)
        episodes = validate.count(episodes, "n_eval_episodes", low=1)
        if env is None:
            return None
        as_world(env, (self.actions.n, self.actions.dim), name="eval_env")

        def examine(_: Training) -> None:
            returns = evaluate(self, env, episodes=episodes, seed=self.settings.seed + FRESH)
            self._trainer.eval_return = float(returns.mean())

        return every(freq, examine, first=self.num_timesteps - self.num_timesteps % freq + freq)

    def predict(
        self,
        observation: ArrayLike,
        state: None = None,
        episode_start: None = None,
        deterministic: bool = True,
    ) -> tuple[NDArray[Any], None]:
        """Choose what the environment is given for (m, o) observations, or for one of shape (o,), and None.

        (m, d) or (d,) vectors; (m,) numbers of actions, or one, where the action space is Discrete.

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
            _, sent = execute(self.execution, brain, hull, self._world.first)
        return (sent if np.ndim(observation) == 2 else sent[0]), None

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

    def save(self, path: str | os.PathLike[str], *, replay: bool = False) -> None:
        """Write the agent to a file, whole or not at all.

        Parameters
        ----------
        path
            It must be new, or hold an agent; the ending .safetensors is added.
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
        store.save(path, KIND, arrays, params, fingerprint(self.actions.atoms))

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        actions: ActionSet | AtomsLike,
        *,
        env: Env | None = None,
        critic_features: CriticFeatures | None = None,
        subsets: SubsetsOf | None = None,
    ) -> Self:
        """Read an agent that `save` wrote.

        Parameters
        ----------
        path
            Where it was saved.
        actions
            A set of the same atoms, with any oracle; or the atoms.
        env
            Needed only to go on learning.
        critic_features, subsets
            The functions that the agent was made with.
        """
        known = actions if isinstance(actions, ActionSet) else ActionSet(as_atoms(actions, "actions"))
        stored = store.load(path, KIND)
        store.check_fingerprint(stored, known.atoms)
        params, wanted = stored.params, cls._RULE
        with stored.reading():
            width = validate.count(params["obs_dim"], "obs_dim", low=1)
            settings, first = Settings(**params["settings"]), params["first"]
            rule, execution = recall(RULES, params["rule"]), recall(EXECUTIONS, params["execution"])
            check_weights(stored, width * settings.hidden)
            validate.require(first is None or type(first) is int, "first", "an integer or null", first)
        if wanted is not None and type(rule) is not wanted:
            got = f"one of {params['rule']['name']} in {stored.path}"
            raise store.StoreError(f"`path` must hold an agent of {wanted.name}. Got {got}.")
        agent = cls.__new__(cls)
        # Not the initialiser of a subclass: its options are the rule and the settings, which are here.
        Agent.__init__(
            agent,
            Nowhere(width, first) if env is None else env,
            known,
            rule=rule,
            settings=settings,
            execution=execution,
            critic_features=critic_features,
            subsets=subsets,
        )
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
    improved by a few more on the critic. `Agent` is the same with a rule of your own.

    Parameters
    ----------
    env, actions, settings, execution, critic_features, subsets
        See `Agent`.
    decision
        From the actor's output to an action: how many steps, and how it explores.

    Examples
    --------
    >>> import gymnasium
    >>> cart = gymnasium.make("CartPole-v1")  # two actions: push to the left, or to the right
    >>> agent = SFWPO(cart, [[-1.0], [1.0]], settings=Settings(learning_starts=8))
    >>> action, _ = agent.learn(40).predict(cart.reset(seed=0)[0])
    >>> bool(cart.action_space.contains(action))
    True
    """

    _RULE = FrankWolfeRule

    def __init__(
        self,
        env: Env,
        actions: ActionSet | AtomsLike,
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
