"""Policies of the feed that learn nothing: what an agent must beat."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from feed.environment import Feed
from wolfhound import Int8Scan
from wolfhound.core.validate import rng
from wolfhound.data.atoms import block_rows
from wolfhound.policy import ActionSet
from wolfhound.policy.actions import Rows
from wolfhound.policy.deep.worlds import Policy


@dataclass(frozen=True, slots=True, eq=False)
class GreedyItem:
    """The item of largest <u, a>: what the user likes most now."""

    actions: ActionSet

    def __call__(self, obs: Rows) -> Rows:
        """Return the best item for each taste."""
        return self.actions.frozen().argmax(obs[:, : self.actions.dim]).rows.astype(np.float32)


@dataclass(frozen=True, slots=True, eq=False)
class Myopic:
    """The mixture of largest reward now, by Frank-Wolfe with exact line searches.

    The reward is ``const - beta |a - y|^2`` with ``y = (m (u + alpha w) - phi f) /
    (2 beta)``, so the best mixture is the projection of y onto the hull; it is the
    item of largest <y, a> if beta is 0. The later moods and tastes are not
    thought of.

    Parameters
    ----------
    feed, actions
        The feed, and its items as actions.
    steps
        Frank-Wolfe steps of the projection.
    """

    feed: Feed
    actions: ActionSet
    steps: int = 20

    def __call__(self, obs: Rows) -> Rows:
        """Return the best mixture for each user."""
        p, actions = self.feed.parameters, self.actions.frozen()
        taste, fatigue, mood = self.feed.split(obs)
        slope = mood[:, None] * (taste + p.alpha * self.feed.axis) - p.phi * fatigue
        if p.beta == 0.0:
            return actions.argmax(slope).rows.astype(np.float32)
        return actions.project(slope / (2.0 * p.beta), steps=self.steps).points.astype(np.float32)


@dataclass(frozen=True, slots=True, eq=False)
class Constant:
    """The same action for everybody, always."""

    action: Rows

    @classmethod
    def mean(cls, actions: ActionSet) -> Constant:
        """Show the mean item; one pass."""
        atoms, total = actions.atoms, np.zeros(actions.dim)
        for _, block in atoms.blocks(block_rows(atoms)):
            total += block.sum(axis=0, dtype=np.float64)
        return cls((total / actions.n).astype(np.float32))

    def __call__(self, obs: Rows) -> Rows:
        """Return it once per user."""
        return np.repeat(self.action[None], len(obs), axis=0)


@dataclass(frozen=True, slots=True, eq=False)
class Random:
    """A random item for each user, every time another.

    Parameters
    ----------
    actions
        The items.
    seed
        Of the items.
    """

    actions: ActionSet
    seed: int = 0
    _rng: np.random.Generator = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_rng", rng(self.seed))

    def __call__(self, obs: Rows) -> Rows:
        """Return random items."""
        rows, _ = self.actions.random(len(obs), self._rng)
        return rows.astype(np.float32)


def feed_baselines(feed: Feed) -> dict[str, Callable[[int], Policy]]:
    """Return all policies of a feed that learn nothing: by name, a function of the seed."""
    actions = ActionSet(feed.atoms, oracle=Int8Scan.build(feed.atoms))
    return {
        "myopic hull": lambda seed: Myopic(feed, actions),
        "greedy": lambda seed: GreedyItem(actions),
        "mean item": lambda seed: Constant.mean(actions),
        "random": lambda seed: Random(actions, seed=seed),
    }
