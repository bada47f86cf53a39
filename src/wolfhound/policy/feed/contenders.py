"""The policies that compete on the feed: all rules, SFWPO with an index, and the baselines.

`feed_learners` needs torch; the rest does not.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from wolfhound.atoms import block_rows
from wolfhound.core import Oracle
from wolfhound.oracles.wrappers import check_same_atoms
from wolfhound.planning.choose import choose_oracle
from wolfhound.policy.actions import ActionSet
from wolfhound.policy.answers import Rows
from wolfhound.policy.deep import RULES
from wolfhound.policy.deep.evaluation import FRESH
from wolfhound.policy.feed.compare import PolicyMaker, Trainee, TraineeMaker
from wolfhound.policy.feed.environment import BatchedFeed, Feed, feed_features
from wolfhound.validate import count, kind, rng, vector
from wolfhound.validate import oracle as valid_oracle

if TYPE_CHECKING:
    from wolfhound.policy.deep.rules import Rule
    from wolfhound.policy.deep.settings import Settings

_AUDIT = 20  # updates between audits of the gap ratio
_BATCH = 16  # users at once in training
_QUERIES = 100_000  # of an exact oracle, in a training of some 10,000 steps


# ---------------------------------------------------------------- policies that learn nothing


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


# ---------------------------------------------------------------- what is compared


def fresh_users(feed: Feed, *, size: int = 64) -> Callable[[int], BatchedFeed]:
    """Return a `test` for `compare`: users that no agent of the feed has met.

    Examples
    --------
    >>> fresh_users(Feed.build(np.eye(3), users=5), size=4)(0).size
    4
    """
    kind(feed, "feed", "a Feed", Feed)
    count(size, "size", low=1)

    def test(seed: int) -> BatchedFeed:
        return BatchedFeed(feed.fresh(seed=seed + FRESH), size)

    return test


def _build_exact(feed: Feed) -> Oracle:
    """The cheapest oracle that answers as a scan does, with a proof."""
    return choose_oracle(feed.atoms, queries=_QUERIES, proof=True, batch=_BATCH).build()


def feed_baselines(feed: Feed) -> dict[str, PolicyMaker]:
    """Return the makers of all policies of a feed that learn nothing.

    Examples
    --------
    >>> list(feed_baselines(Feed.build(np.eye(3), users=5)))
    ['myopic hull', 'greedy', 'mean item', 'random']
    """
    kind(feed, "feed", "a Feed", Feed)
    actions = ActionSet(feed.atoms, oracle=_build_exact(feed))
    return {
        "myopic hull": lambda seed: Myopic(feed, actions),
        "greedy": lambda seed: GreedyItem(actions),
        "mean item": lambda seed: Constant.mean(actions),
        "random": lambda seed: Random(actions, seed=seed),
    }


def feed_learners(
    feed: Feed, *, oracle: Oracle | None = None, settings: Settings | None = None
) -> dict[str, TraineeMaker]:
    """Return the makers of SFWPO and all its rivals for a feed.

    All variants of all `RULES`, with the same networks, features, replay and training.
    Only "SFWPO, index" searches with `oracle`, and is left out without one; the others
    are given exact answers.

    Parameters
    ----------
    feed
        The feed to learn from.
    oracle
        An index over ``feed.atoms``.
    settings
        Of the training; seed and audits are set here.

    Examples
    --------
    >>> list(feed_learners(Feed.build(np.eye(3), users=5)))[:3]
    ['SFWPO, exact', 'NFWPO', 'TD3, refined']
    """
    from wolfhound.policy.deep.rules import FrankWolfeRule  # noqa: PLC0415 - torch
    from wolfhound.policy.deep.settings import Settings  # noqa: PLC0415

    kind(feed, "feed", "a Feed", Feed)
    if settings is not None:
        kind(settings, "settings", "Settings(...)", Settings)
    exact = _build_exact(feed)
    chosen: dict[str, tuple[Rule, Oracle]] = {}
    if oracle is not None:
        check_same_atoms(exact.atoms, valid_oracle(oracle, "oracle").atoms, "oracle")
        chosen["SFWPO, index"] = (FrankWolfeRule(), oracle)
    for each in RULES.values():
        chosen |= {name: (rule, exact) for name, rule in each.variants().items()}
    return {name: _maker(feed, rule, used, settings) for name, (rule, used) in chosen.items()}


def _maker(feed: Feed, rule: Rule, oracle: Oracle, settings: Settings | None) -> TraineeMaker:
    from wolfhound.policy.deep.agent import Agent, Settings  # noqa: PLC0415 - torch

    def make(seed: int) -> Trainee:
        return Agent(
            BatchedFeed(feed, _BATCH),
            ActionSet(feed.atoms, oracle=oracle, seed=seed),
            rule=rule,
            settings=replace(settings or Settings(), seed=seed, audit_every=_AUDIT),
            critic_features=feed_features,
        )

    return make
