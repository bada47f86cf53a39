"""Policies of the feed that learn nothing: what a learned one must beat.

Each is a callable, (B, o) observations -> (B, d) actions in the hull.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from wolfhound.atoms import block_rows
from wolfhound.core import Atoms
from wolfhound.policy.actions import ActionSet
from wolfhound.policy.answers import Rows
from wolfhound.policy.feed.environment import Feed
from wolfhound.validate import count, kind, rng, vector


class Policy(Protocol):
    """Chooses actions for many users at once."""

    def __call__(self, obs: Rows) -> Rows:
        """(B, o) observations -> (B, d) actions."""


@dataclass(frozen=True, slots=True, eq=False)
class GreedyItem:
    """The item of largest <u, a>: what the user likes most now.

    Examples
    --------
    >>> feed = Feed.build(np.eye(3), users=4)
    >>> obs = feed.start(2, np.random.default_rng(0))
    >>> bool((GreedyItem(ActionSet(feed.atoms))(obs).max(axis=1) == 1.0).all())
    True
    """

    actions: ActionSet

    def __post_init__(self) -> None:
        kind(self.actions, "actions", "an ActionSet", ActionSet)

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

    Examples
    --------
    >>> feed = Feed.build(np.eye(3), users=4)
    >>> obs = feed.start(2, np.random.default_rng(0))
    >>> Myopic(feed, ActionSet(feed.atoms))(obs).sum(axis=1).round(5)
    array([1., 1.], dtype=float32)
    """

    feed: Feed
    actions: ActionSet
    steps: int = 20

    def __post_init__(self) -> None:
        kind(self.feed, "feed", "a Feed", Feed)
        kind(self.actions, "actions", "an ActionSet", ActionSet)
        count(self.steps, "steps", low=1)

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
    """The same action for everybody, always.

    Examples
    --------
    >>> Constant.mean(ActionSet(np.eye(4)))(np.zeros((2, 9), np.float32))[0]
    array([0.25, 0.25, 0.25, 0.25], dtype=float32)
    """

    action: Rows

    def __post_init__(self) -> None:
        vector(self.action, "action")

    @classmethod
    def mean(cls, actions: ActionSet) -> Constant:
        """Show the mean item; one pass."""
        kind(actions, "actions", "an ActionSet", ActionSet)
        return cls(_mean(actions.atoms))

    def __call__(self, obs: Rows) -> Rows:
        """Return it once per user."""
        return np.repeat(self.action[None], len(obs), axis=0)


def _mean(atoms: Atoms) -> Rows:
    total = np.zeros(atoms.shape[1])
    for _, block in atoms.blocks(block_rows(atoms)):
        total += block.sum(axis=0, dtype=np.float64)
    return (total / atoms.shape[0]).astype(np.float32)


@dataclass(frozen=True, slots=True, eq=False)
class Random:
    """A random item for each user, every time another.

    Parameters
    ----------
    actions
        The items.
    seed
        Of the items.

    Examples
    --------
    >>> Random(ActionSet(np.eye(4)))(np.zeros((2, 9), np.float32)).shape
    (2, 4)
    """

    actions: ActionSet
    seed: int = 0
    _rng: np.random.Generator = field(init=False, repr=False)

    def __post_init__(self) -> None:
        kind(self.actions, "actions", "an ActionSet", ActionSet)
        object.__setattr__(self, "_rng", rng(self.seed))

    def __call__(self, obs: Rows) -> Rows:
        """Return random items."""
        rows, _ = self.actions.random(len(obs), self._rng)
        return rows.astype(np.float32)
