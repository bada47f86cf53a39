"""What a policy earns: whole episodes, in any environment that an agent can learn from. Knows no torch."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Protocol, TypeAlias

import numpy as np

from wolfhound.core import Vector
from wolfhound.policy.answers import Rows
from wolfhound.policy.deep.worlds import Env, as_world
from wolfhound.validate import count, describe

FRESH = 1_000_003
"""Added to a seed for the episodes of a test: no agent has learned from them."""


class Policy(Protocol):
    """Chooses actions for many observations at once."""

    def __call__(self, obs: Rows) -> Rows:
        """(B, o) observations -> (B, d) actions."""


class Predictor(Protocol):
    """An agent of ours, or of Stable-Baselines3."""

    def predict(self, observation: Rows) -> tuple[Rows, object]:
        """(B, o) observations -> (B, d) actions, and what is not used here."""


PolicyLike: TypeAlias = Policy | Predictor


def evaluate(policy: PolicyLike, env: Env, *, episodes: int = 64, seed: int = 0) -> Vector:
    """Return the (episodes,) undiscounted returns of a policy.

    Parameters
    ----------
    policy
        An agent, or a function: (B, o) observations -> (B, d) actions.
    env
        A batched environment, or a Gymnasium Env or VectorEnv (then B is 1, or its
        number) whose episodes end. Each of the B plays its share of the episodes, so
        that short ones count no more than long ones.
    episodes
        How many.
    seed
        Of the first `reset`: the same episodes for every policy that is tested.

    Examples
    --------
    >>> from wolfhound.policy.feed.environment import BatchedFeed
    >>> from wolfhound.policy.feed.environment import Feed
    >>> feed = Feed.build(np.eye(3), users=5)
    >>> evaluate(lambda obs: feed.atoms[[0] * len(obs)], BatchedFeed(feed, 4), episodes=6).shape
    (6,)
    """
    act = _as_function(policy)
    world = as_world(env)
    wanted = count(episodes, "episodes", low=1)
    left = wanted // world.size + (np.arange(world.size) < wanted % world.size)
    found: list[float] = []
    obs, earned = world.reset(count(seed, "seed")), np.zeros(world.size)
    while True:
        turn = world.step(act(obs))
        earned += np.where(turn.real, turn.rewards, 0.0)
        counted = turn.over & (left > 0)
        found += earned[counted].tolist()
        left -= counted
        earned[turn.over] = 0.0
        if not left.any():
            return np.array(found)
        obs = world.reset() if turn.ahead is None else turn.ahead


def _as_function(policy: PolicyLike) -> Policy:
    if callable(policy):
        return policy
    if not callable(getattr(policy, "predict", None)):
        raise TypeError(f"`policy` must be a function of observations, or an agent. Got {describe(policy)}.")
    predict = policy.predict
    return lambda obs: predict(obs)[0]
