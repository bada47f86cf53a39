"""The settings of a training run, and what is told about it on the way.

Names are those of Stable-Baselines3 where it has one. Knows no networks.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import contextlib
import csv
import math
import os
from collections.abc import Callable, Iterator
from dataclasses import astuple, dataclass, fields
from typing import TypeAlias

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
class Report:
    """How far a training run is.

    Attributes
    ----------
    timesteps : int
        Transitions made.
    episodes : int
        Episodes that are over.
    mean_return : float
        Mean undiscounted return of the last 100 of them; nan before the first.
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
    updates: int = 0
    critic_loss: float = math.nan
    actor_loss: float = math.nan
    ms_per_update: float = math.nan
    scored: int = 0
    ratio_mean: float = math.nan
    ratio_p5: float = math.nan


Listener: TypeAlias = Callable[[Report], bool | None]
"""Told how far training is; False stops it."""


@contextlib.contextmanager
def csv_log(path: str | os.PathLike[str] | None, interval: int) -> Iterator[Listener]:
    """Write a row of the report to a CSV file every `interval` transitions.

    An existing file is continued. None: write nothing.
    """
    if path is None:
        yield lambda report: None
        return
    with open(checked_path(path, "log"), "a", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        if stream.tell() == 0:
            writer.writerow(field.name for field in fields(Report))
        due = 0

        def write(report: Report) -> None:
            nonlocal due
            if report.timesteps >= due:
                due = report.timesteps - report.timesteps % interval + interval
                writer.writerow(astuple(report))
                stream.flush()  # what is written can be read while training goes on

        yield write


@contextlib.contextmanager
def progress(total: int, wanted: bool) -> Iterator[Listener]:
    """Show a progress bar on stderr, if wanted."""
    if not wanted:
        yield lambda report: None
        return
    from rich.console import Console  # noqa: PLC0415 - only for who wants a bar
    from rich.progress import Progress  # noqa: PLC0415

    with Progress(console=Console(stderr=True)) as bar:
        task = bar.add_task("learning", total=total)

        def show(report: Report) -> None:
            text = "learning" if math.isnan(report.mean_return) else f"return {report.mean_return:.2f}"
            bar.update(task, completed=report.timesteps, description=text)

        yield show
