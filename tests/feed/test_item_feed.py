"""The Gymnasium environment: its checker, its spaces, and that it is the feed."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import gymnasium
import numpy as np
import pytest
from feed.environment import Feed, FeedParameters, feed_features
from feed.item_feed import ID, HullSpace, ItemFeed, register
from gymnasium.spaces import Box
from gymnasium.utils.env_checker import check_env

from tests.feed.test_feed import items
from tests.policy.deep import cloud
from wolfhound.policy import SFWPO, Draw, Mix, Nearest, Settings
from wolfhound.policy.actions import ActionSet
from wolfhound.policy.deep.rules import Execution

FEED = Feed.build(items(), users=50, parameters=FeedParameters(horizon=6))


@pytest.mark.parametrize("check", [False, True])
def test_gymnasiums_checker_passes(check: bool) -> None:
    check_env(gymnasium.make(ID, feed=FEED, check=check).unwrapped)


def test_the_default_is_the_shipped_words() -> None:
    env = gymnasium.make(ID)
    check_env(env.unwrapped)
    assert env.action_space.shape == (100,)
    assert env.observation_space.shape == (201,)


def test_registration_may_be_repeated() -> None:
    register()
    assert gymnasium.spec(ID).id == ID


def test_it_is_the_feed() -> None:
    env = ItemFeed(FEED)
    first, _ = env.reset(seed=4)
    generator, _ = gymnasium.utils.seeding.np_random(4)
    obs = FEED.start(1, generator)
    np.testing.assert_array_equal(first, obs[0])
    for action in FEED.atoms[:6]:
        seen, reward, terminated, _, info = env.step(action)
        obs, rewards = FEED.step(obs, action[None], generator)
        np.testing.assert_allclose(seen, obs[0], atol=1e-6)
        assert reward == float(rewards[0])
        assert (terminated, info) == (False, {})


def test_it_is_truncated_and_never_terminated() -> None:
    env = gymnasium.make(ID, feed=FEED)
    env.reset(seed=0)
    ends = [env.step(env.action_space.sample())[2:4] for _ in range(6)]
    assert ends == [(False, False)] * 5 + [(False, True)]


def test_sampled_actions_are_in_the_hull() -> None:
    space, actions = HullSpace(FEED.atoms, seed=3), ActionSet(FEED.atoms)
    for _ in range(20):
        action = space.sample()
        assert action in space
        assert actions.prove(action, rtol=1e-9).value < 1e-8


def test_the_space_is_a_box_to_others() -> None:
    space = HullSpace(FEED.atoms)
    assert isinstance(space, Box)
    assert (space.low.min(), space.high.max()) == (-1.0, 1.0)
    assert space == HullSpace(FEED.atoms.copy())
    assert space != HullSpace(FEED.atoms[:-1])


@pytest.mark.parametrize(
    "action",
    [np.ones(5, np.float32), np.zeros(4, np.float32), np.full(5, np.nan), [0.0] * 5, np.zeros(5, np.int64)],
    ids=["too long", "another shape", "nan", "a list", "integers"],
)
def test_what_cannot_be_an_action_is_refused(action: object) -> None:
    env = ItemFeed(FEED)
    env.reset(seed=0)
    with pytest.raises(ValueError, match="`action` must be a point of the hull of the items"):
        env.step(action)  # type: ignore[arg-type]


def test_check_proves_that_an_action_is_inside() -> None:
    # Inside the unit ball, so that only the proof can tell.
    outside = -0.9 * FEED.atoms.mean(axis=0)
    strict, loose = ItemFeed(FEED, check=True), ItemFeed(FEED)
    for env in (strict, loose):
        env.reset(seed=0)
    assert ActionSet(FEED.atoms).prove(outside).lower > 1e-3
    loose.step(outside)
    strict.step(0.3 * FEED.atoms[0] + 0.7 * FEED.atoms[1])
    with pytest.raises(
        ValueError, match=r"`action` must be a point of the hull of the items\. Got one .* outside"
    ):
        strict.step(outside)


@pytest.mark.parametrize("execution", [Mix(), Nearest(), Draw()], ids=repr)
def test_an_agent_sends_nothing_that_a_proof_refuses(execution: Execution) -> None:
    env = gymnasium.make(ID, feed=FEED, check=True)
    agent = SFWPO(
        env,
        ActionSet(FEED.atoms),
        execution=execution,
        settings=Settings(learning_starts=10, batch_size=8),
        critic_features=feed_features,
    )
    assert agent.learn(36).stats.episodes == 6


def test_reset_comes_first() -> None:
    with pytest.raises(RuntimeError, match="`step` must come after `reset`"):
        ItemFeed(FEED).step(FEED.atoms[0])


@pytest.mark.slow
def test_the_registered_feed_can_be_learned() -> None:
    feed = Feed.build(cloud(40), users=10)
    env = gymnasium.make(ID, feed=feed, check=True)  # refuses what is not in the hull
    settings = Settings(learning_starts=16, hidden=8)
    agent = SFWPO(env, ActionSet(feed.atoms), settings=settings, critic_features=feed_features)
    stats = agent.learn(64).stats
    assert stats.episodes == 64 // feed.parameters.horizon
    assert stats.updates == 4 * (64 - 16 + 16) // 16
