"""The policies that compete on the feed: all rules, SFWPO with an index, and the baselines.

`feed_learners` needs torch; the rest does not.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from wolfhound.core import Oracle
from wolfhound.oracles.wrappers import check_same_atoms
from wolfhound.planning.choose import choose_oracle
from wolfhound.policy.actions import ActionSet
from wolfhound.policy.deep import RULES
from wolfhound.policy.feed.baselines import Constant, GreedyItem, Myopic, Random
from wolfhound.policy.feed.batch import BatchedFeed
from wolfhound.policy.feed.compare import FRESH, PolicyMaker, Trainee, TraineeMaker
from wolfhound.policy.feed.environment import Feed, feed_features
from wolfhound.validate import count, kind
from wolfhound.validate import oracle as valid_oracle

if TYPE_CHECKING:
    from wolfhound.policy.deep.rules import Rule
    from wolfhound.policy.deep.settings import Settings

_AUDIT = 20  # updates between audits of the gap ratio
_BATCH = 16  # users at once in training
_QUERIES = 100_000  # of an exact oracle, in a training of some 10,000 steps


def fresh_users(feed: Feed, *, size: int = 64) -> Callable[[int], BatchedFeed]:
    """Return a `test` for `compare`: users that no agent of the feed has met.

    Examples
    --------
    >>> import numpy as np
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
    >>> import numpy as np
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
    >>> import numpy as np
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
