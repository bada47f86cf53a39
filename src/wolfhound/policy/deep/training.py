"""Training: its settings, logs, transitions that are kept, updates from them, the loop that acts and learns.

Twin critics move towards their targets, the actor by its rule. Names of settings are those of
Stable-Baselines3 where it has one. Agents are saved elsewhere.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import contextlib
import copy
import csv
import importlib
import math
import os
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, fields
from typing import Any, TypeAlias, final

import numpy as np
from numpy.typing import NDArray

from wolfhound.core.contracts import Status, Vector
from wolfhound.core.progress import time_solving
from wolfhound.core.validate import count, ids, number, require, within
from wolfhound.core.validate import path as checked_path
from wolfhound.data.atoms import norms
from wolfhound.data.store import Stored
from wolfhound.policy.actions import ActionSet, HullPoints, Rows
from wolfhound.policy.deep.rules import (
    Actor,
    Brain,
    Critic,
    CriticFeatures,
    Execution,
    Rule,
    SubsetsOf,
    Tensor,
    follow,
    nn,
    to_tensor,
    torch,
)
from wolfhound.policy.deep.worlds import Turn, World

# ---------------------------------------------------------------- settings and progress


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How an agent is trained.

    Parameters
    ----------
    learning_rate
        Of Adam, for actor and critics.
    buffer_size
        Transitions kept for replay.
    learning_starts
        Transitions that are collected at random before the first update.
    batch_size
        Transitions per update.
    tau
        Share by which the slow networks follow, at every update of the actor.
    gamma
        Discount.
    train_freq, gradient_steps
        After every `train_freq` transitions come `gradient_steps` updates. A
        batched environment makes B transitions at a time.
    policy_delay
        Updates of the critics per update of the actor.
    hidden
        Width of the networks.
    seed
        Of everything: the first weights, the environment, exploration, replay.
    audit_every
        Updates between audits, in which a few directions are also answered by an
        exact scan to measure the gap ratio of the oracle; 0: none.

    Examples
    --------
    >>> Settings(gamma=1.5)
    Traceback (most recent call last):
    ...
    ValueError: `gamma` must be in [0, 1). Got 1.5.
    """

    learning_rate: float = 1e-3
    buffer_size: int = 40_000
    learning_starts: int = 800
    batch_size: int = 128
    tau: float = 0.02
    gamma: float = 0.9
    train_freq: int = 16
    gradient_steps: int = 4
    policy_delay: int = 2
    hidden: int = 128
    seed: int = 0
    audit_every: int = 0

    def __post_init__(self) -> None:
        within(self.gamma, "gamma", "[0, 1)")
        within(self.tau, "tau", "(0, 1]")
        rate = number(self.learning_rate, "learning_rate", low=0.0, strict=True)
        require(rate < math.inf, "learning_rate", "finite", rate)
        for name in ("buffer_size", "batch_size", "train_freq", "gradient_steps", "policy_delay", "hidden"):
            count(getattr(self, name), name, low=1)
        for name in ("learning_starts", "seed", "audit_every"):
            count(getattr(self, name), name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Training:
    """How far a training run is.

    Attributes
    ----------
    timesteps : int
        Transitions made.
    episodes : int
        Episodes that are over.
    mean_return : float
        Mean undiscounted return of the last 100 of them, exploring; nan before the first.
    eval_return : float
        Mean undiscounted return of the last evaluation, without exploration; nan before the first.
    updates : int
        Updates of the critics.
    critic_loss, actor_loss : float
        Of the last update; nan before the first.
    ms_per_update : float
        Mean; nan before the first.
    scored : int
        Atoms scored to decide and to learn: along the critic, for projections, as
        neighbours.
    ratio_mean, ratio_p5 : float
        Of the audited gap ratios, where the gap is positive and not next to nothing;
        nan without audits.
    """

    timesteps: int = 0
    episodes: int = 0
    mean_return: float = math.nan
    eval_return: float = math.nan
    updates: int = 0
    critic_loss: float = math.nan
    actor_loss: float = math.nan
    ms_per_update: float = math.nan
    scored: int = 0
    ratio_mean: float = math.nan
    ratio_p5: float = math.nan

    def tell_return(self) -> str:
        """What it earns, once an episode is over."""
        return f", mean return {self.mean_return:.4g}" if math.isfinite(self.mean_return) else ""


TrainingCallback: TypeAlias = Callable[[Training], bool | None]
"""Told how far training is; True stops it."""


# ---------------------------------------------------------------- logs

COLUMNS = [field.name for field in fields(Training)]

SCALARS = {
    "rollout/ep_rew_mean": "mean_return",
    "rollout/episodes": "episodes",
    "eval/mean_reward": "eval_return",
    "train/critic_loss": "critic_loss",
    "train/actor_loss": "actor_loss",
    "train/n_updates": "updates",
    "time/ms_per_update": "ms_per_update",
    "oracle/scored": "scored",
    "oracle/ratio_mean": "ratio_mean",
    "oracle/ratio_p5": "ratio_p5",
}
"""Names in TensorBoard, those of Stable-Baselines3 where it has one, and what they show."""


@contextlib.contextmanager
def open_log(path: str | os.PathLike[str], interval: int) -> Iterator[TrainingCallback]:
    """Write a row of the training to a CSV file every `interval` transitions; goes on with an old one."""
    with open(checked_path(path, "log"), "a+", newline="", encoding="utf-8") as stream:
        stream.seek(0)
        head = next(csv.reader(stream), None)
        rule = "a new file, or a log with the columns of this version"
        require(head in (None, COLUMNS), "log", rule, f"other columns in {os.fspath(path)}")
        stream.seek(0, os.SEEK_END)
        writer = csv.writer(stream)
        if head is None:
            writer.writerow(COLUMNS)

        def write(training: Training) -> None:
            writer.writerow(astuple(training))
            stream.flush()  # what is written can be read while training goes on

        yield every(interval, write)


@contextlib.contextmanager
def open_tensorboard(folder: str | os.PathLike[str], interval: int) -> Iterator[TrainingCallback]:
    """Write the numbers of the training for TensorBoard every `interval` transitions.

    Needs ``wolfhound[tensorboard]``.
    """
    where = checked_path(folder, "tensorboard")
    try:
        writer: Any = importlib.import_module("torch.utils.tensorboard").SummaryWriter(str(where))
    except ImportError as error:
        what = 'install it with: pip install "wolfhound[tensorboard]"'
        raise ImportError(f"`tensorboard` needs the package tensorboard; {what}.") from error

    def write(training: Training) -> None:
        for name, field in SCALARS.items():
            value = getattr(training, field)
            if math.isfinite(value):
                writer.add_scalar(name, value, training.timesteps)
        writer.flush()

    with contextlib.closing(writer):
        yield every(interval, write)


def every(interval: int, tell: Callable[[Training], None], first: int = 0) -> TrainingCallback:
    """Tell at the transition `first`, and then whenever another `interval` of them are made."""
    due = first

    def hear(training: Training) -> None:
        nonlocal due
        if training.timesteps >= due:
            due = training.timesteps - training.timesteps % interval + interval
            tell(training)

    return hear


# ---------------------------------------------------------------- replay, updates, the loop

AUDITED = 8
"""Directions per audit: an exact scan of them costs little beside an update."""

_SMALL = 0.01  # share of the largest gap of an audit below which a gap is not looked at


@dataclass(frozen=True, slots=True)
class Transitions:
    """Transitions, one per row."""

    obs: Tensor  # (m, o)
    actions: Tensor  # (m, d)
    rewards: Tensor
    next_obs: Tensor
    going: Tensor  # (m,) 0 where the episode ended for good; 1 else, also where it was merely cut off


@final
class Replay:
    """Room for `size` transitions; the oldest give way."""

    def __init__(self, size: int, *, obs_dim: int, dim: int) -> None:
        self._size = count(size, "buffer_size", low=1)
        widths = (obs_dim, dim, 1, obs_dim, 1)
        # A row holds a transition, so that a random draw touches one place of memory.
        self._rows: Rows = np.zeros((self._size, sum(widths)), np.float32)
        self._ends = np.cumsum(widths)[:-1].tolist()
        self._added = 0

    def __len__(self) -> int:
        return min(self._added, self._size)

    def add(self, obs: Rows, actions: Rows, rewards: Rows, next_obs: Rows, going: Rows) -> None:
        """Add m transitions, see `Transitions`."""
        rows = np.concatenate([obs, actions, rewards[:, None], next_obs, going[:, None]], axis=1)
        self._rows[np.arange(self._added, self._added + len(rows)) % self._size] = rows
        self._added += len(rows)

    def sample(self, m: int, rng: np.random.Generator) -> Transitions:
        """Draw m transitions, with replacement."""
        require(len(self) > 0, "replay", "non-empty", "no transitions")
        # The gather is a fresh array: torch may share it.
        rows = torch.from_numpy(self._rows[rng.integers(len(self), size=m)])
        obs, actions, rewards, next_obs, going = rows.tensor_split(self._ends, dim=1)
        return Transitions(obs, actions, rewards[:, 0], next_obs, going[:, 0])

    def arrays(self) -> dict[str, NDArray[Any]]:
        """What is kept, to be saved."""
        return {"replay": self._rows[: len(self)], "replay_added": np.array(self._added)}

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Take over what `arrays` gave, of a buffer of the same shape."""
        rows = arrays["replay"]
        fits = len(rows) <= self._size and rows.shape[1] == self._rows.shape[1]
        require(fits, "replay", f"at most {self._rows.shape}", rows.shape)
        added = int(arrays["replay_added"])
        require(min(added, self._size) == len(rows), "replay_added", f"of {len(rows)} that are kept", added)
        self._rows[: len(rows)] = rows
        self._added = added


@final
class Learner:
    """Networks that learn from replay by a rule; keeps what the updates came to, and audited gap ratios."""

    def __init__(
        self,
        obs_dim: int,
        actions: ActionSet,
        rule: Rule,
        settings: Settings,
        *,
        features: CriticFeatures | None = None,
        subsets: SubsetsOf | None = None,
    ) -> None:
        generator = torch.Generator().manual_seed(settings.seed)
        scale = float(norms(actions.atoms).max()) or 1.0
        actor = Actor(obs_dim, actions.dim, hidden=settings.hidden, scale=scale, generator=generator)
        critic = Critic(
            obs_dim, actions.dim, hidden=settings.hidden, scale=scale, features=features, generator=generator
        )
        rng = np.random.default_rng(settings.seed)
        self.brain = Brain(actor, critic, copy.deepcopy(actor), copy.deepcopy(critic), actions, rng, subsets)
        self.replay = Replay(settings.buffer_size, obs_dim=obs_dim, dim=actions.dim)
        self.updates, self.seconds = 0, 0.0
        self.critic_loss = self.actor_loss = math.nan
        self.ratios: list[Vector] = []
        self.rule, self.settings = rule, settings
        self._tutors = {
            who: torch.optim.Adam(network.parameters(), settings.learning_rate, fused=True)
            for who, network in (("actor", actor), ("critic", critic))
        }

    # ------------------------------------------------------------ learning

    def update(self) -> None:
        """Move the critics by one batch; every `policy_delay` times, the actor too."""
        began, brain = time.perf_counter(), self.brain
        batch = self.replay.sample(self.settings.batch_size, brain.rng)
        with torch.no_grad():
            ahead = self.rule.ahead(brain.facing(batch.next_obs), batch.next_obs)
            later = torch.minimum(*brain.slow_critic(batch.next_obs, ahead))
            goal = batch.rewards + self.settings.gamma * batch.going * later
        one, two = brain.critic(batch.obs, batch.actions)
        self.critic_loss = self._descend("critic", ((one - goal) ** 2 + (two - goal) ** 2).mean())
        self.updates += 1
        if self.updates % self.settings.policy_delay == 0:
            self.actor_loss = self._descend("actor", self.rule.loss(brain.facing(batch.obs), batch.obs))
            follow(brain.slow_actor, brain.actor, self.settings.tau)
            follow(brain.slow_critic, brain.critic, self.settings.tau)
        self.seconds += time_solving(began)
        if self.settings.audit_every and self.updates % self.settings.audit_every == 0:
            self.audit(batch.obs[:AUDITED])

    def _descend(self, who: str, loss: Tensor) -> float:
        value = float(loss.detach())
        if not math.isfinite(value):
            raise FloatingPointError(
                f"the loss of the {who} is {value} after {self.updates} updates:"
                " are observations and rewards of moderate size?"
            )
        tutor = self._tutors[who]
        tutor.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        tutor.step()
        return value

    # ------------------------------------------------------------ looking on

    def directions(self, obs: Tensor) -> tuple[Tensor, Tensor]:
        """(m, d) unit gradients of the critic, and the actor's points they are taken at."""
        with torch.no_grad():
            points: Tensor = self.brain.actor(obs)
        return self.brain.critic.directions(obs, points), points

    def audit(self, obs: Tensor) -> None:
        """Compare the action set's answers with an exact scan; keep the gap ratios that say something."""
        directions, points = (part.numpy().astype(np.float64) for part in self.directions(obs))
        actions = self.brain.facing(obs).actions
        found = actions.frozen().argmax(directions, points=points)
        best = actions.scan(directions).scores
        gaps = best - np.einsum("ij,ij->i", directions, points)
        # The actor's points may lie outside the hull, and a ratio to next to nothing says nothing.
        open_ = gaps > _SMALL * max(0.0, float(gaps.max()))
        self.ratios.append(found.gaps[open_] / gaps[open_])

    # ------------------------------------------------------------ keeping

    def _networks(self) -> dict[str, nn.Module]:
        return {who: getattr(self.brain, who) for who in ("actor", "critic", "slow_actor", "slow_critic")}

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Weights and the moments of Adam, those of a network one after the other; past winners."""
        out = {who: _flat(network.parameters()) for who, network in self._networks().items()}
        for who, tutor in self._tutors.items():
            state = tutor.state_dict()["state"]
            for name in state[0] if state else ():
                out[f"adam_{who}_{name}"] = _flat(state[at][name] for at in sorted(state))
        return out | {"winners": self.brain.actions.winners.ids}

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Take over what `arrays` gave, of a learner of the same shape."""
        for who, network in self._networks().items():
            size, saved = sum(weight.numel() for weight in network.parameters()), arrays[who]
            rule = f"such that {who} has {len(saved)} weights, as saved"
            require(size == len(saved), "critic_features", rule, size)
            nn.utils.vector_to_parameters(torch.from_numpy(np.array(saved)), network.parameters())
        for who, tutor in self._tutors.items():
            mine = tutor.param_groups[0]["params"]
            state: dict[int, dict[str, Tensor]] = {at: {} for at in range(len(mine))}
            prefix = f"adam_{who}_"
            for name in (name for name in arrays if name.startswith(prefix)):
                likes = [torch.empty(())] * len(mine) if name == f"{prefix}step" else mine
                parts = np.split(np.array(arrays[name]), np.cumsum([like.numel() for like in likes])[:-1])
                for at, (part, like) in enumerate(zip(parts, likes, strict=True)):
                    state[at][name.removeprefix(prefix)] = torch.from_numpy(part).reshape(like.shape)
            known = {at: moments for at, moments in state.items() if moments}
            tutor.load_state_dict({**tutor.state_dict(), "state": known})


def _flat(tensors: Iterable[Tensor]) -> NDArray[Any]:
    """All numbers of some tensors, one after the other."""
    return np.concatenate([tensor.detach().numpy().ravel() for tensor in tensors])


def check_weights(stored: Stored, least: int) -> None:
    """Raise StoreError unless all arrays hold finite numbers, those of the actor at least so many.

    So that the networks which are made for them are no larger than what was saved.
    """
    for name, array in stored.arrays.items():
        if array.dtype.kind not in "fiu" or not np.isfinite(array).all():
            raise stored.wrong(f"{name!r} must hold finite numbers")
    if len(stored.array("actor", np.float32, (None,))) < least:
        raise stored.wrong(f"'actor' must hold {least} numbers at least")


def execute(
    execution: Execution, brain: Brain, hull: HullPoints, first: int | None
) -> tuple[Rows, NDArray[Any]]:
    """Return the (m, d) actions that are done, and what the environment is given for them.

    Where the space is Discrete, these are the numbers of atoms, counted from `first`.
    """
    done = execution.act(brain.actions, hull, brain.rng)
    if not execution.single:
        return np.asarray(done, np.float32), done
    ids = np.asarray(done, np.int64)
    rows = brain.actions.atoms.take(ids).astype(np.float32, copy=False)
    return rows, rows if first is None else first + ids


@final
class Trainer:
    """Acts in a world and learns from it, B episodes at a time.

    `timesteps` counts transitions since it was last set to 0, `seen` all ever, `episodes` those that are
    over; `eval_return` is the mean return of the last evaluation, nan before the first.
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
            scored=learner.brain.work[0],
            ratio_mean=float(ratios.mean()) if len(ratios) else math.nan,
            ratio_p5=float(np.quantile(ratios, 0.05)) if len(ratios) else math.nan,
        )

    def run(
        self,
        total: int,
        max_seconds: float,
        callbacks: Sequence[TrainingCallback],
        examine: TrainingCallback | None = None,
    ) -> Status:
        """Go on until there are `total` timesteps; why it ended.

        `examine` is told before the callbacks, and may set `eval_return`.
        """
        began, status = time.perf_counter(), None
        try:
            while status is None:
                self.advance()
                if examine is not None:
                    examine(self.stats)
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
        rows, sent = execute(self._execution, brain, hull, self._world.first)
        turn = self._world.step(sent)
        self._keep(obs, rows, turn)
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
            "first": self._world.first,
            "subsets": learner.brain.subsets is not None,
            "counts": [self.timesteps, self.seen, self.episodes, learner.updates],
            "rng": learner.brain.rng.bit_generator.state,
        }

    def restore(self, stored: Stored) -> None:
        """Take over what was learned."""
        learner, params = self._learner, stored.params
        width, got = params["obs_dim"], self._world.obs_dim
        require(got == width, "env", f"observations of {width} numbers", got)
        first, numbered = params["first"], self._world.first
        require(numbered == first, "env", "the action space that the agent was made for", numbered)
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
            actions = learner.brain.actions
            won = ids(stored.array("winners", np.int64, (None,)), "winners", actions.n)
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
