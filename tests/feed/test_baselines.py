"""Policies that learn nothing: each does what it says, in the hull."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from feed.baselines import Constant, GreedyItem, Myopic, Random
from feed.environment import BatchedFeed, Feed, FeedParameters

from tests.feed.test_feed import items, states
from wolfhound import ClusterIndex
from wolfhound.data.shipped import words
from wolfhound.policy.actions import ActionSet, Rows
from wolfhound.policy.deep.worlds import Policy

FEED = Feed.build(items(200, 6), users=100, seed=1)
ACTIONS = ActionSet(FEED.atoms)
POLICIES: dict[str, Callable[[], Policy]] = {
    "greedy": lambda: GreedyItem(ACTIONS),
    "myopic": lambda: Myopic(FEED, ACTIONS),
    "mean": lambda: Constant.mean(ACTIONS),
    "random": lambda: Random(ACTIONS),
}


def total(policy: Policy, feed: Feed, *, size: int = 64) -> float:
    """Mean return of one episode per user."""
    env = BatchedFeed(feed, size)
    obs, rewards = env.reset(3), np.zeros(size)
    for _ in range(feed.parameters.horizon):
        obs, reward, _ = env.step(policy(obs))
        rewards += reward
    return float(rewards.mean())


@pytest.mark.parametrize("name", POLICIES)
def test_actions_are_proved_to_be_in_the_hull(name: str) -> None:
    shown = POLICIES[name]()(states(FEED, 5, seed=2))
    assert shown.shape == (5, 6)
    assert shown.dtype == np.float32
    distances = [2.0 * ACTIONS.prove(action, rtol=1e-9).value for action in shown]
    assert max(distances) < 1e-8


@pytest.mark.parametrize("name", POLICIES)
def test_observations_are_not_written_to(name: str) -> None:
    obs = states(FEED, 5, seed=2)
    obs.flags.writeable = False
    np.testing.assert_array_equal(POLICIES[name]()(obs), POLICIES[name]()(obs))


def test_greedy_is_the_brute_force_maximum() -> None:
    obs = states(FEED, 30, seed=4)
    best = (obs[:, :6] @ FEED.atoms.T).argmax(axis=1)
    np.testing.assert_array_equal(GreedyItem(ACTIONS)(obs), FEED.atoms[best])


def test_no_item_and_no_mixture_pays_more_now_than_the_myopic_one() -> None:
    obs = states(FEED, 10, seed=5)
    ours = FEED.reward(obs, Myopic(FEED, ACTIONS, steps=400)(obs))
    generator = np.random.default_rng(0)
    for _ in range(300):
        weights = generator.dirichlet(np.full(4, 0.5), size=10)
        mixed = np.einsum("ij,ijk->ik", weights, FEED.atoms[generator.integers(200, size=(10, 4))])
        assert (FEED.reward(obs, mixed.astype(np.float32)) <= ours + 2e-3).all()
    single = np.stack([FEED.reward(obs, np.repeat(item[None], 10, axis=0)) for item in FEED.atoms])
    assert (single.max(axis=0) <= ours + 2e-3).all()


@pytest.mark.slow
def test_the_myopic_mixture_is_the_proved_projection() -> None:
    obs, p = states(FEED, 3, seed=6), FEED.parameters
    u, f, m = FEED.split(obs.astype(np.float64))
    y = (m[:, None] * (u + p.alpha * FEED.axis) - p.phi * f) / (2.0 * p.beta)
    ours = Myopic(FEED, ACTIONS, steps=2000)(obs)
    exact = np.stack([ACTIONS.prove(point, rtol=1e-9).x for point in y])
    np.testing.assert_allclose(ours, exact, atol=0.02)


def test_without_a_bonus_for_breadth_an_item_is_best() -> None:
    feed = Feed.build(FEED.atoms, users=10, parameters=FeedParameters(beta=0.0))
    obs = states(feed, 10, seed=7)
    shown = Myopic(feed, ACTIONS)(obs)
    rewards = np.stack([feed.reward(obs, np.repeat(item[None], 10, axis=0)) for item in feed.atoms])
    np.testing.assert_array_equal(shown, feed.atoms[rewards.argmax(axis=0)])


def test_the_constant_is_the_mean_item() -> None:
    shown = Constant.mean(ACTIONS)(np.zeros((3, 13), np.float32))
    np.testing.assert_allclose(shown, np.tile(FEED.atoms.mean(axis=0), (3, 1)), atol=1e-6)


def test_random_items_are_items_and_change() -> None:
    policy, obs = Random(ACTIONS, seed=2), np.zeros((50, 13), np.float32)
    first, second = policy(obs), policy(obs)
    assert (first[:, None] == FEED.atoms[None]).all(axis=2).any(axis=1).all()
    assert not np.array_equal(first, second)
    np.testing.assert_array_equal(Random(ACTIONS, seed=2)(obs), first)


@pytest.mark.slow
def test_neither_the_liked_item_nor_a_single_one_is_optimal() -> None:
    feed = Feed.build(words().vectors[:1500], users=200)
    actions = ActionSet(feed.atoms)
    liked, mixed = (total(policy, feed, size=16) for policy in (GreedyItem(actions), Myopic(feed, actions)))

    def myopic_item(obs: Rows) -> Rows:
        return actions.atoms.take(actions.nearest(Myopic(feed, actions)(obs))).astype(np.float32)

    assert mixed > liked
    assert mixed > total(myopic_item, feed, size=16)


def test_baselines_decide_alike_whatever_was_asked() -> None:
    feed = Feed.build(np.random.default_rng(0).standard_normal((500, 8)), users=10)
    obs, others = (feed.start(size, np.random.default_rng(size)) for size in (20, 400))
    actions = ActionSet(feed.atoms, oracle=ClusterIndex.build(feed.atoms, budget=4))
    for policy in (Myopic(feed, actions), GreedyItem(actions)):
        first = policy(obs)
        policy(others)
        assert np.array_equal(policy(obs), first)
