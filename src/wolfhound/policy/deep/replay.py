"""The replay buffer: the latest transitions, drawn from uniformly.

Knows arrays and tensors; nothing of networks or environments.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from wolfhound.policy.answers import Rows
from wolfhound.policy.deep._torch import Tensor, torch
from wolfhound.validate import count, require


@dataclass(frozen=True, slots=True)
class Transitions:
    """Transitions, one per row.

    Attributes
    ----------
    obs, actions, rewards, next_obs : (m, o), (m, d), (m,), (m, o)
    going : (m,)
        0 where the episode ended for good, so that nothing is to come; 1 else,
        also where it was merely cut off.
    """

    obs: Tensor
    actions: Tensor
    rewards: Tensor
    next_obs: Tensor
    going: Tensor


@final
class Replay:
    """Room for `size` transitions; the oldest give way.

    Parameters
    ----------
    size
        Transitions kept.
    obs_dim, dim
        o and d.

    Examples
    --------
    >>> replay = Replay(4, obs_dim=2, dim=1)
    >>> ones = np.ones((3, 2), np.float32)
    >>> replay.add(ones, ones[:, :1], ones[:, 0], ones, np.ones(3, np.float32))
    >>> len(replay), replay.sample(5, np.random.default_rng(0)).obs.shape
    (3, torch.Size([5, 2]))
    """

    def __init__(self, size: int, *, obs_dim: int, dim: int) -> None:
        self._size = count(size, "buffer_size", low=1)
        widths = (obs_dim, dim, 1, obs_dim, 1)
        # A row holds a transition, so that a random draw touches one place of memory.
        self._rows: Rows = np.zeros((self._size, sum(widths)), np.float32)
        self._ends = np.cumsum(widths)[:-1].tolist()
        self._added = 0

    def __len__(self) -> int:
        return min(self._added, self._size)

    def add(self, obs: Rows, actions: Rows, rewards: Rows, next_obs: Rows, going: Rows) -> None:
        """Add m transitions, see `Transitions`."""
        rows = np.concatenate([obs, actions, rewards[:, None], next_obs, going[:, None]], axis=1)
        self._rows[np.arange(self._added, self._added + len(rows)) % self._size] = rows
        self._added += len(rows)

    def sample(self, m: int, rng: np.random.Generator) -> Transitions:
        """Draw m transitions, with replacement."""
        require(len(self) > 0, "replay", "non-empty", "no transitions")
        # The gather is a fresh array: torch may share it.
        rows = torch.from_numpy(self._rows[rng.integers(len(self), size=m)])
        obs, actions, rewards, next_obs, going = rows.tensor_split(self._ends, dim=1)
        return Transitions(obs, actions, rewards[:, 0], next_obs, going[:, 0])

    def arrays(self) -> dict[str, NDArray[Any]]:
        """What is kept, to be saved."""
        return {"replay": self._rows[: len(self)], "replay_added": np.array(self._added)}

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Take over what `arrays` gave, of a buffer of the same shape."""
        rows = arrays["replay"]
        fits = len(rows) <= self._size and rows.shape[1] == self._rows.shape[1]
        require(fits, "replay", f"at most {self._rows.shape}", rows.shape)
        added = int(arrays["replay_added"])
        require(min(added, self._size) == len(rows), "replay_added", f"of {len(rows)} that are kept", added)
        self._rows[: len(rows)] = rows
        self._added = added
