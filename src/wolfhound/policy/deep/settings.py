"""The settings of a training run, how far it is, and where that is written down: a CSV file, TensorBoard.

Names are those of Stable-Baselines3 where it has one. Knows no torch.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import contextlib
import csv
import importlib
import math
import os
from collections.abc import Callable, Iterator
from dataclasses import astuple, dataclass, fields
from typing import Any, TypeAlias

from wolfhound.validate import count, number, require, within
from wolfhound.validate import path as checked_path


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
def open_log(path: str | os.PathLike[str] | None, interval: int) -> Iterator[TrainingCallback]:
    """Write a row of the training to a CSV file every `interval` transitions.

    An existing log is continued. None: write nothing.
    """
    if path is None:
        yield lambda training: None
        return
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
def open_tensorboard(folder: str | os.PathLike[str] | None, interval: int) -> Iterator[TrainingCallback]:
    """Write the numbers of the training for TensorBoard every `interval` transitions.

    None: write nothing. Needs ``wolfhound[tensorboard]``.
    """
    if folder is None:
        yield lambda training: None
        return
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


def every(interval: int, tell: Callable[[Training], None]) -> TrainingCallback:
    """Tell at once, and then whenever another `interval` transitions are made."""
    due = 0

    def hear(training: Training) -> None:
        nonlocal due
        if training.timesteps >= due:
            due = training.timesteps - training.timesteps % interval + interval
            tell(training)

    return hear
