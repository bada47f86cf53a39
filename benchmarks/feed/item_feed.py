"""`wolfhound/ItemFeed-v0`: the feed for one user, as a Gymnasium environment.

Importing this module registers it. The same feed for many users at once is
`feed.environment.BatchedFeed`.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box
from numpy.typing import NDArray

from feed.environment import ROUNDING, Feed
from wolfhound.core.validate import require
from wolfhound.policy.actions import ActionSet, Rows

ID = "wolfhound/ItemFeed-v0"

_OUTSIDE = 1e-3  # distance from the hull above which `check=True` refuses an action
_RTOL = 1e-7  # of the proof: its gap must not reach that distance
_MIXED = 4  # atoms in a random action


class HullSpace(Box):
    """Actions that are mixtures of unit atoms; a Box of [-1, 1] to other code.

    `sample` gives mixtures of random atoms, so it never leaves the hull.
    `contains` is a quick necessary condition, ``|a| <= 1``; `ActionSet.prove`
    decides.

    Parameters
    ----------
    atoms : (n, d) float32
        Rows of norm 1.
    seed
        Of `sample`.
    """

    def __init__(self, atoms: Rows, *, seed: int | None = None) -> None:
        super().__init__(-1.0, 1.0, (atoms.shape[1],), np.float32, seed=seed)
        self.atoms = atoms

    def sample(self, mask: None = None, probability: None = None) -> Rows:
        """Return a random mixture of a few random atoms."""
        del mask, probability  # a Box has none
        ids = self.np_random.integers(len(self.atoms), size=_MIXED)
        weights = self.np_random.dirichlet(np.full(_MIXED, 0.5))
        return (weights @ self.atoms[ids]).astype(np.float32)

    def contains(self, x: object) -> bool:
        """Whether x may be in the hull: of the right shape, finite, in the unit ball."""
        if not isinstance(x, np.ndarray) or x.shape != self.shape or x.dtype.kind != "f":
            return False
        norm = float(np.linalg.norm(x.astype(np.float64)))
        return norm <= 1.0 + ROUNDING  # false for nan

    def __repr__(self) -> str:
        """Number and dimension of the atoms."""
        n, d = self.atoms.shape
        return f"HullSpace({n} x {d})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, HullSpace) and np.array_equal(self.atoms, other.atoms)

    __hash__ = None  # type: ignore[assignment]


class ItemFeed(gymnasium.Env[NDArray[Any], NDArray[Any]]):
    """One user of a feed; see `Feed` for what happens.

    Observations are ``[taste, fatigue, mood]``, actions points of the hull of the
    items. Episodes have no end: after the horizon they are truncated, so keep
    bootstrapping from the last observation.

    Parameters
    ----------
    feed
        The feed; default: the shipped words and 20,000 users.
    check
        Whether every action is proved to be within 1e-3 of the hull: one
        `minimize` each, so slow, meant for tests. Otherwise only actions outside
        the unit ball are refused.
    """

    metadata = {"render_modes": []}  # noqa: RUF012 - Gymnasium's own spelling
    render_mode = None

    def __init__(self, feed: Feed | None = None, *, check: bool = False) -> None:
        self.feed = Feed.build() if feed is None else feed
        d = self.feed.dim
        low = np.full(2 * d + 1, -1.0, np.float32)
        low[-1] = 0.0
        self.observation_space = self._space = Box(low, np.ones(2 * d + 1, np.float32))
        self.action_space = HullSpace(self.feed.atoms)
        self._actions = ActionSet(self.feed.atoms) if check else None
        self._obs: Rows | None = None
        self._time = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Rows, dict[str, Any]]:
        """Begin with a new user; give the observation and an empty info."""
        super().reset(seed=seed)
        self._obs, self._time = self.feed.start(1, self.np_random), 0
        return self._clip(self._obs), {}

    def step(self, action: NDArray[Any]) -> tuple[Rows, float, bool, bool, dict[str, Any]]:
        """Show a mixture of items: observation, reward, False, truncated, info."""
        if self._obs is None:
            raise RuntimeError("`step` must come after `reset`.")
        self._refuse_outside(action)
        self._obs, rewards = self.feed.step(self._obs, action.astype(np.float32)[None], self.np_random)
        self._time += 1
        return self._clip(self._obs), float(rewards[0]), False, self._time >= self.feed.parameters.horizon, {}

    def _refuse_outside(self, action: NDArray[Any]) -> None:
        rule = f"a point of the hull of the items, an array of shape ({self.feed.dim},) with norm <= 1"
        inside = self.action_space.contains(action)
        require(inside, "action", rule, f"{type(action).__name__} of shape {np.shape(action)}")
        if self._actions is not None:
            # The value is a proved upper bound of 1/2 |action - hull|^2.
            far = math.sqrt(2.0 * max(self._actions.prove(action, rtol=_RTOL).value, 0.0))
            require(far <= _OUTSIDE, "action", "a point of the hull of the items", f"one {far:.2g} outside")

    def _clip(self, obs: Rows) -> Rows:
        # Rounding may carry an entry past the bounds of the space.
        return np.asarray(np.clip(obs[0], self._space.low, self._space.high))


def register() -> None:
    """Make `gymnasium.make("wolfhound/ItemFeed-v0")` work; done at import."""
    if ID not in gymnasium.registry:
        gymnasium.register(ID, entry_point="feed.item_feed:ItemFeed")


register()
