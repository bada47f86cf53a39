"""Updates: twin critics towards their targets, the actor by its rule; and the latest transitions.

Knows networks and rules; nothing of environments, logs or files.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import copy
import math
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from wolfhound.atoms import norms
from wolfhound.core import Vector
from wolfhound.policy.actions import ActionSet
from wolfhound.policy.answers import Rows
from wolfhound.policy.deep._torch import Tensor, nn, torch
from wolfhound.policy.deep.networks import Actor, Critic, CriticFeatures, follow
from wolfhound.policy.deep.rules import Brain, Rule, SubsetsOf
from wolfhound.policy.deep.settings import Settings
from wolfhound.store import Stored
from wolfhound.validate import count, require

AUDITED = 8
"""Directions per audit: an exact scan of them costs little beside an update."""

_SMALL = 0.01  # share of the largest gap of an audit below which a gap is not looked at


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


@final
class Learner:
    """Networks that learn from replay by a rule.

    Parameters
    ----------
    obs_dim
        Numbers in an observation.
    actions
        The hull.
    rule
        How the actor learns.
    settings
        Of the training.
    features
        Further inputs of the critics.
    subsets
        Which actions an observation allows.

    Attributes
    ----------
    brain, replay
        Networks and transitions.
    updates, seconds, critic_loss, actor_loss
        What the updates came to so far.
    ratios : list of vectors
        Audited gap ratios.
    """

    def __init__(
        self,
        obs_dim: int,
        actions: ActionSet,
        rule: Rule,
        settings: Settings,
        *,
        features: CriticFeatures | None = None,
        subsets: SubsetsOf | None = None,
    ) -> None:
        generator = torch.Generator().manual_seed(settings.seed)
        scale = float(norms(actions.atoms).max()) or 1.0
        actor = Actor(obs_dim, actions.dim, hidden=settings.hidden, scale=scale, generator=generator)
        critic = Critic(
            obs_dim, actions.dim, hidden=settings.hidden, scale=scale, features=features, generator=generator
        )
        rng = np.random.default_rng(settings.seed)
        self.brain = Brain(actor, critic, copy.deepcopy(actor), copy.deepcopy(critic), actions, rng, subsets)
        self.replay = Replay(settings.buffer_size, obs_dim=obs_dim, dim=actions.dim)
        self.updates, self.seconds = 0, 0.0
        self.critic_loss = self.actor_loss = math.nan
        self.ratios: list[Vector] = []
        self.rule, self.settings = rule, settings
        self._tutors = {
            who: torch.optim.Adam(network.parameters(), settings.learning_rate, fused=True)
            for who, network in (("actor", actor), ("critic", critic))
        }

    # ------------------------------------------------------------ learning

    def update(self) -> None:
        """Move the critics by one batch; every `policy_delay` times, the actor too."""
        began, brain = time.perf_counter(), self.brain
        batch = self.replay.sample(self.settings.batch_size, brain.rng)
        with torch.no_grad():
            ahead = self.rule.ahead(brain.facing(batch.next_obs), batch.next_obs)
            later = torch.minimum(*brain.slow_critic(batch.next_obs, ahead))
            goal = batch.rewards + self.settings.gamma * batch.going * later
        one, two = brain.critic(batch.obs, batch.actions)
        self.critic_loss = self._descend("critic", ((one - goal) ** 2 + (two - goal) ** 2).mean())
        self.updates += 1
        if self.updates % self.settings.policy_delay == 0:
            self.actor_loss = self._descend("actor", self.rule.loss(brain.facing(batch.obs), batch.obs))
            follow(brain.slow_actor, brain.actor, self.settings.tau)
            follow(brain.slow_critic, brain.critic, self.settings.tau)
        self.seconds += time.perf_counter() - began
        if self.settings.audit_every and self.updates % self.settings.audit_every == 0:
            self.audit(batch.obs[:AUDITED])

    def _descend(self, who: str, loss: Tensor) -> float:
        value = float(loss.detach())
        if not math.isfinite(value):
            raise FloatingPointError(
                f"the loss of the {who} is {value} after {self.updates} updates:"
                " are observations and rewards of moderate size?"
            )
        tutor = self._tutors[who]
        tutor.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        tutor.step()
        return value

    # ------------------------------------------------------------ looking on

    def directions(self, obs: Tensor) -> tuple[Tensor, Tensor]:
        """(m, d) unit gradients of the critic, and the actor's points they are taken at."""
        with torch.no_grad():
            points: Tensor = self.brain.actor(obs)
        return self.brain.critic.directions(obs, points), points

    def audit(self, obs: Tensor) -> None:
        """Compare the action set's answers with an exact scan; keep the gap ratios.

        Only where there is a gap to speak of: the actor's points may lie outside the
        hull, and a ratio to next to nothing says nothing.
        """
        directions, points = (part.numpy().astype(np.float64) for part in self.directions(obs))
        actions = self.brain.facing(obs).actions
        found = actions.frozen().argmax(directions, points=points)
        best = actions.scan(directions).scores
        gaps = best - np.einsum("ij,ij->i", directions, points)
        open_ = gaps > _SMALL * max(0.0, float(gaps.max()))
        self.ratios.append(found.gaps[open_] / gaps[open_])

    # ------------------------------------------------------------ keeping

    def _networks(self) -> dict[str, nn.Module]:
        return {who: getattr(self.brain, who) for who in ("actor", "critic", "slow_actor", "slow_critic")}

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Weights and the moments of Adam, those of a network one after the other; past winners."""
        out = {who: _flat(network.parameters()) for who, network in self._networks().items()}
        for who, tutor in self._tutors.items():
            state = tutor.state_dict()["state"]
            for name in state[0] if state else ():
                out[f"adam_{who}_{name}"] = _flat(state[at][name] for at in sorted(state))
        return out | {"winners": self.brain.actions.winners.to_array()}

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Take over what `arrays` gave, of a learner of the same shape."""
        for who, network in self._networks().items():
            size, saved = sum(weight.numel() for weight in network.parameters()), arrays[who]
            rule = f"such that {who} has {len(saved)} weights, as saved"
            require(size == len(saved), "critic_features", rule, size)
            nn.utils.vector_to_parameters(torch.from_numpy(np.array(saved)), network.parameters())
        for who, tutor in self._tutors.items():
            mine = tutor.param_groups[0]["params"]
            state: dict[int, dict[str, Tensor]] = {at: {} for at in range(len(mine))}
            prefix = f"adam_{who}_"
            for name in (name for name in arrays if name.startswith(prefix)):
                likes = [torch.empty(())] * len(mine) if name == f"{prefix}step" else mine
                for at, part in enumerate(_parts(arrays[name], likes)):
                    state[at][name.removeprefix(prefix)] = part
            known = {at: moments for at, moments in state.items() if moments}
            tutor.load_state_dict({**tutor.state_dict(), "state": known})


def _flat(tensors: Iterable[Tensor]) -> NDArray[Any]:
    """All numbers of some tensors, one after the other."""
    return np.concatenate([tensor.detach().numpy().ravel() for tensor in tensors])


def _parts(numbers: NDArray[Any], likes: Sequence[Tensor]) -> list[Tensor]:
    """Cut numbers into tensors of the shapes of these."""
    ends = np.cumsum([like.numel() for like in likes])[:-1]
    parts = np.split(np.array(numbers), ends)
    return [torch.from_numpy(part).reshape(like.shape) for part, like in zip(parts, likes, strict=True)]


def check_weights(stored: Stored, least: int) -> None:
    """Raise StoreError unless all arrays hold finite numbers, those of the actor at least so many.

    So that the networks which are made for them are no larger than what was saved.
    """
    for name, array in stored.arrays.items():
        if array.dtype.kind not in "fiu" or not np.isfinite(array).all():
            raise stored.wrong(f"{name!r} must hold finite numbers")
    if len(stored.array("actor", np.float32, (None,))) < least:
        raise stored.wrong(f"'actor' must hold {least} numbers at least")
