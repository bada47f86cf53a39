"""The settings of a training run, and how far it is, for who looks on. Knows no torch.

Names are those of Stable-Baselines3 where it has one.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from wolfhound.validate import count, number, require, within


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
