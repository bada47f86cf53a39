"""Many episodes at once: what an agent learns from and is tested on.

Knows the feed; must not know gymnasium or how an action is chosen.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from wolfhound.policy.answers import Rows
from wolfhound.policy.feed.environment import Feed
from wolfhound.validate import count, kind, real_array, require, require_finite, rng

ROUNDING = 1e-5
"""By which the float32 sum of a mixture of unit atoms may leave the unit ball."""


class BatchedFeed:
    """`size` users at once, whose episodes begin and are cut off together.

    Parameters
    ----------
    feed
        The feed.
    size
        Users at once.
    seed
        Of the users that come and of what happens to them.

    Attributes
    ----------
    size, obs_dim, action_dim : int
        Users at once, numbers in an observation (2 d + 1) and in an action (d).

    Examples
    --------
    >>> env = BatchedFeed(Feed.build(np.eye(3), users=5), 2)
    >>> obs = env.reset()
    >>> obs, reward, truncated = env.step(env.feed.atoms[:2])
    >>> obs.shape, reward.shape, truncated
    ((2, 7), (2,), False)
    """

    def __init__(self, feed: Feed, size: int = 16, *, seed: int = 0) -> None:
        kind(feed, "feed", "a Feed", Feed)
        self.feed = feed
        self.size = count(size, "size", low=1)
        self.obs_dim, self.action_dim = feed.obs_dim, feed.dim
        self._rng = rng(seed)
        self._obs: Rows | None = None
        self._time = 0

    def reset(self, seed: int | None = None) -> Rows:
        """Begin with new users; a seed makes all that follows repeatable."""
        if seed is not None:
            self._rng = rng(seed)
        self._obs, self._time = self.feed.start(self.size, self._rng), 0
        return self._obs.copy()

    def step(self, actions: NDArray[Any]) -> tuple[Rows, Rows, bool]:
        """Show (size, d) actions; give observations, rewards, and whether the horizon is reached.

        Actions must be in the hull; only those outside the unit ball are refused.
        After the horizon comes `reset`.
        """
        if self._obs is None or self._time >= self.feed.parameters.horizon:
            raise RuntimeError("`step` must come after `reset`, and not after the horizon.")
        shown = real_array(actions, "actions", 2).astype(np.float32)
        shape = (self.size, self.feed.dim)
        require(shown.shape == shape, "actions", f"an array of shape {shape}", f"shape {shown.shape}")
        require_finite(shown, "actions")
        longest = float(np.linalg.norm(shown, axis=1).max())
        require(longest <= 1.0 + ROUNDING, "actions", "points of the hull of unit atoms", f"norm {longest:g}")
        self._obs, rewards = self.feed.step(self._obs, shown, self._rng)
        self._time += 1
        return self._obs.copy(), rewards, self._time >= self.feed.parameters.horizon
