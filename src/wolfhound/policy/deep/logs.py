"""Where a training run is written down while it goes on: a CSV file, TensorBoard."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import contextlib
import csv
import importlib
import math
import os
from collections.abc import Callable, Iterator
from dataclasses import astuple, fields
from typing import Any

from wolfhound.policy.deep.settings import Training, TrainingCallback
from wolfhound.validate import path as checked_path
from wolfhound.validate import require

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
