"""The policies that compete on the feed: SFWPO, its rivals, and the baselines.

`feed_learners` needs torch; the rest does not.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from wolfhound.core import Oracle
from wolfhound.oracles.int8.scan import Int8Scan
from wolfhound.oracles.wrappers import check_same_atoms
from wolfhound.policy.actions import ActionSet
from wolfhound.policy.feed.baselines import Constant, Greedy, Myopic, Random
from wolfhound.policy.feed.batch import BatchedFeed
from wolfhound.policy.feed.compare import FRESH, Learner, LearnerMaker, PolicyMaker
from wolfhound.policy.feed.environment import Feed, feed_features
from wolfhound.validate import count, kind
from wolfhound.validate import oracle as valid_oracle

if TYPE_CHECKING:
    from wolfhound.policy.deep.rules import Rule
    from wolfhound.policy.deep.settings import Settings

_AUDIT = 20  # updates between audits of the gap ratio
_BATCH = 16  # users at once in training


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


def _exact(feed: Feed) -> Int8Scan:
    """Exact answers with a proof, as those of a scan, and faster for batches."""
    return Int8Scan.build(feed.atoms)


def feed_baselines(feed: Feed) -> dict[str, PolicyMaker]:
    """Return the makers of all policies of a feed that learn nothing.

    Examples
    --------
    >>> import numpy as np
    >>> list(feed_baselines(Feed.build(np.eye(3), users=5)))
    ['myopic hull', 'greedy', 'mean item', 'random']
    """
    kind(feed, "feed", "a Feed", Feed)
    actions = ActionSet(feed.atoms, oracle=_exact(feed))
    return {
        "myopic hull": lambda seed: Myopic(feed, actions),
        "greedy": lambda seed: Greedy(actions),
        "mean item": lambda seed: Constant.mean(actions),
        "random": lambda seed: Random(actions, seed=seed),
    }


def feed_learners(
    feed: Feed, *, oracle: Oracle | None = None, settings: Settings | None = None
) -> dict[str, LearnerMaker]:
    """Return the makers of SFWPO and all its rivals for a feed.

    All have the same networks, features, replay and training. Only "SFWPO, index"
    searches with `oracle`, and is left out without one; the others are given exact
    answers by `Int8Scan`.

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
    from wolfhound.policy.deep.agent import HullDecision  # noqa: PLC0415 - torch
    from wolfhound.policy.deep.rivals import NFWPO, TD3, Wolpertinger  # noqa: PLC0415
    from wolfhound.policy.deep.rules import FrankWolfeRule  # noqa: PLC0415
    from wolfhound.policy.deep.settings import Settings  # noqa: PLC0415

    kind(feed, "feed", "a Feed", Feed)
    if settings is not None:
        kind(settings, "settings", "Settings(...)", Settings)
    exact = _exact(feed)
    if oracle is not None:
        check_same_atoms(exact.atoms, valid_oracle(oracle, "oracle").atoms, "oracle")
    rules: dict[str, tuple[Rule, Oracle]] = {
        "SFWPO, exact": (FrankWolfeRule(), exact),
        "NFWPO": (NFWPO(), exact),
        "TD3, refined": (TD3(), exact),
        "TD3": (TD3(decision=HullDecision(refine=0)), exact),
        "Wolpertinger 1": (Wolpertinger(k=1), exact),
        "Wolpertinger 10": (Wolpertinger(k=10), exact),
        "Wolpertinger 100": (Wolpertinger(k=100), exact),
    }
    if oracle is not None:
        rules = {"SFWPO, index": (FrankWolfeRule(), oracle), **rules}
    return {name: _maker(feed, rule, used, settings) for name, (rule, used) in rules.items()}


def _maker(feed: Feed, rule: Rule, oracle: Oracle, settings: Settings | None) -> LearnerMaker:
    def make(seed: int) -> Learner:
        from wolfhound.policy.deep.agent import Agent  # noqa: PLC0415 - torch
        from wolfhound.policy.deep.settings import Settings  # noqa: PLC0415

        return Agent(
            BatchedFeed(feed, _BATCH),
            ActionSet(feed.atoms, oracle=oracle, seed=seed),
            rule=rule,
            settings=replace(settings or Settings(), seed=seed, audit_every=_AUDIT),
            critic_features=feed_features,
        )

    return make
