"""The feed: its dynamics against the formulas, its parts, and many users at once."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from feed.environment import (
    BatchedFeed,
    Feed,
    FeedParameters,
    clickbait_axis,
    draw_users,
    feed_features,
    normalise,
)
from hypothesis import given
from hypothesis import strategies as st

from wolfhound.data.atoms import ArrayAtoms
from wolfhound.data.shipped import words
from wolfhound.policy.actions import Rows

D = 5


def items(n: int = 40, d: int = D, seed: int = 0) -> Rows:
    """Random unit rows with a mean that is not zero."""
    rows = np.random.default_rng(seed).standard_normal((n, d)) + 0.5
    out: Rows = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)
    return out


def some_feed(**parameters: Any) -> Feed:
    return Feed.build(items(), users=30, seed=1, parameters=FeedParameters(**parameters))


def states(feed: Feed, size: int, seed: int) -> Rows:
    """Observations after a few random steps: every part of them is in use."""
    generator = np.random.default_rng(seed)
    obs = feed.start(size, generator)
    for _ in range(4):
        obs, _ = feed.step(obs, feed.atoms[generator.integers(len(feed.atoms), size=size)], generator)
    return obs


# ---------------------------------------------------------------- dynamics


def by_the_book(feed: Feed, obs: Rows, action: Rows, xi: Rows) -> tuple[list[float], float]:
    """One user, one step, in float64 and as the formulas are written."""
    p, d = feed.parameters, feed.dim
    o, a, w = obs.astype(float), action.astype(float), feed.axis.astype(float)
    u, f, m = o[:d], o[d : 2 * d], float(o[2 * d])
    ua, wa, fa = float(u @ a), float(w @ a), float(f @ a)
    r = m * (ua + p.alpha * wa) + p.beta * (1 - float(a @ a)) - p.phi * fa
    moved = u + p.eta * max(ua, 0.0) * a - p.eta / 2 * f + p.sigma * xi.astype(float)
    u_next = moved / math.sqrt(float(moved @ moved))
    f_next = p.rho * f + (1 - p.rho) * a
    m_next = p.delta * m + (1 - p.delta) / (1 + math.exp(p.kappa * wa - 1))
    return [*u_next, *f_next, m_next], r


@pytest.mark.parametrize(
    "parameters", [{}, {"beta": 0.7, "phi": 0.1, "alpha": 1.5, "kappa": 2.0, "sigma": 0.5}]
)
def test_a_step_is_by_the_book(parameters: dict[str, float]) -> None:
    feed = some_feed(**parameters)
    obs = states(feed, 8, seed=3)
    actions = 0.5 * (feed.atoms[:8] + feed.atoms[8:16])
    after, rewards = feed.step(obs, actions, np.random.default_rng(9))
    noise = np.random.default_rng(9).standard_normal((8, D), dtype=np.float32)
    expected = [by_the_book(feed, *each) for each in zip(obs, actions, noise, strict=True)]
    np.testing.assert_allclose(after, [state for state, _ in expected], rtol=0, atol=2e-6)
    np.testing.assert_allclose(rewards, [reward for _, reward in expected], rtol=0, atol=2e-6)


def test_the_default_constants() -> None:
    p = FeedParameters()
    assert (p.beta, p.phi, p.alpha, p.eta) == (0.15, 0.6, 0.5, 0.15)
    assert (p.rho, p.delta, p.kappa, p.sigma, p.horizon) == (0.8, 0.85, 6.0, 0.02, 30)


@pytest.mark.slow
@given(seed=st.integers(0, 1000), steps=st.integers(1, 40))
def test_states_stay_where_they_belong(seed: int, steps: int) -> None:
    feed, generator = some_feed(sigma=0.3), np.random.default_rng(seed)
    obs = feed.start(3, generator)
    shown = []
    for _ in range(steps):
        weights = generator.dirichlet(np.ones(3), size=3).astype(np.float32)
        shown.append(np.einsum("ij,ijk->ik", weights, feed.atoms[generator.integers(40, size=(3, 3))]))
        obs, _ = feed.step(obs, shown[-1], generator)
    taste, fatigue, mood = feed.split(obs)
    np.testing.assert_allclose(np.linalg.norm(taste, axis=1), 1.0, atol=1e-5)
    remembered = sum(0.2 * 0.8 ** (steps - 1 - t) * a.astype(float) for t, a in enumerate(shown))
    np.testing.assert_allclose(fatigue, remembered, atol=1e-5)
    assert (mood >= 0.0).all()
    assert (mood <= 1.0).all()


def test_clickbait_pays_at_once_and_spoils_the_mood() -> None:
    feed = some_feed(sigma=0.0)
    bait, bore = feed.axis[None], -feed.axis[None]
    obs = feed.start(1, np.random.default_rng(0))
    (after_bait, pays), (after_bore, pays_not) = (
        feed.step(obs, a, np.random.default_rng(0)) for a in (bait, bore)
    )
    u = obs[0, :D].astype(float)
    np.testing.assert_allclose(pays - pays_not, 2.0 * (u @ bait[0].astype(float) + 0.5), atol=1e-5)
    assert after_bait[0, -1] < after_bore[0, -1]


def test_an_extreme_axis_does_not_overflow() -> None:
    feed = some_feed(kappa=1e6)
    obs = feed.start(2, np.random.default_rng(0))
    after, _ = feed.step(obs, np.stack([feed.axis, -feed.axis]), np.random.default_rng(0))
    np.testing.assert_allclose(after[:, -1], [0.85, 1.0], atol=1e-6)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"beta": -0.1}, "`beta` must be a number >= 0. Got -0.1"),
        ({"kappa": math.nan}, "`kappa` must be a number >= 0. Got nan"),
        ({"eta": math.inf}, "`eta` must be finite. Got inf"),
        ({"rho": 1.5}, r"`rho` must be in \[0, 1\]. Got 1.5"),
        ({"delta": math.nan}, r"`delta` must be in \[0, 1\]. Got nan"),
        ({"horizon": 0}, "`horizon` must be an integer >= 1. Got 0"),
    ],
)
def test_constants_that_mean_nothing_are_refused(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        FeedParameters(**parameters)


# ---------------------------------------------------------------- parts


def test_rows_are_divided_by_their_norms() -> None:
    rows = np.random.default_rng(0).standard_normal((50, 4)) * np.arange(1, 51)[:, None]
    rows.flags.writeable = False
    expected = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    np.testing.assert_allclose(normalise(rows), expected, atol=1e-7)
    np.testing.assert_array_equal(normalise(ArrayAtoms(rows)), normalise(rows))


def test_unit_rows_are_not_copied() -> None:
    rows = items()
    assert np.shares_memory(normalise(rows), rows)
    assert not np.shares_memory(normalise(2.0 * rows), rows)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([[1.0, 0.0], [0.0, 0.0]], "`atoms` must be without a row of zeros. Got row 1"),
        ([[1.0, 0.0], [math.nan, 0.0]], "`atoms` must be finite. Got nan in row 1"),
    ],
)
def test_rows_without_a_direction_are_refused(rows: list[list[float]], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Feed.build(rows)


def test_a_user_is_the_normalised_sum_of_two_items() -> None:
    atoms = np.eye(6, dtype=np.float32)
    users = draw_users(atoms, 200, seed=4)
    entries = np.sort(users, axis=1)[:, ::-1]
    single, double = np.isclose(entries[:, 0], 1.0), np.isclose(entries[:, 1], math.sqrt(0.5))
    assert (single ^ double).all()
    assert double.any()
    np.testing.assert_allclose(np.linalg.norm(users, axis=1), 1.0, atol=1e-6)


def test_opposite_items_still_make_a_user() -> None:
    users = draw_users(np.array([[1.0, 0.0], [-1.0, 0.0]], np.float32), 50)
    np.testing.assert_allclose(np.linalg.norm(users, axis=1), 1.0, atol=1e-6)


def test_the_axis_is_the_first_principal_one() -> None:
    atoms = items(300)
    centred = atoms.astype(float) - atoms.astype(float).mean(axis=0)
    expected = np.linalg.svd(centred)[2][0]
    axis = clickbait_axis(atoms)
    assert abs(float(axis @ expected)) == pytest.approx(1.0, abs=1e-6)
    assert float((atoms @ axis).mean()) > 0.0
    np.testing.assert_allclose(clickbait_axis(-atoms), -axis, atol=1e-6)


def test_the_shipped_words_are_the_default() -> None:
    feed = Feed.build(users=10)
    assert feed.atoms.shape == (20_000, 100)
    vector = words().vector("king")
    np.testing.assert_allclose(feed.atoms[words().id("king")], vector / np.linalg.norm(vector), atol=1e-6)
    assert Feed.build(users=10).atoms is feed.atoms
    assert not feed.atoms.flags.writeable
    assert repr(feed) == "Feed(20000 items x 100, 10 users)"


def test_fresh_users_are_others_of_the_same_feed() -> None:
    feed = some_feed(phi=0.1)
    other = feed.fresh(users=7, seed=99)
    assert other.users.shape == (7, D)
    assert not np.isin(other.users[:, 0], feed.users[:, 0]).all()
    assert other.atoms is feed.atoms
    assert other.axis is feed.axis
    assert other.parameters.phi == 0.1


# ---------------------------------------------------------------- many users at once


def play(env: BatchedFeed, actions: Rows, seed: int | None) -> tuple[Rows, list[bool]]:
    env.reset(seed)
    rewards, cuts = [], []
    for _ in range(env.feed.parameters.horizon):
        _, reward, cut = env.step(actions)
        rewards.append(reward)
        cuts.append(cut)
    return np.array(rewards), cuts


def test_an_episode_is_cut_at_the_horizon() -> None:
    env = BatchedFeed(some_feed(horizon=4), 3)
    _, cuts = play(env, env.feed.atoms[:3], 0)
    assert cuts == [False, False, False, True]
    with pytest.raises(RuntimeError, match="not after the horizon"):
        env.step(env.feed.atoms[:3])


def test_the_seed_decides_all_that_follows() -> None:
    feed = some_feed()
    first, again, other = (play(BatchedFeed(feed, 3), feed.atoms[:3], seed)[0] for seed in (5, 5, 6))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


def test_users_differ_from_episode_to_episode() -> None:
    env = BatchedFeed(some_feed(), 3, seed=8)
    assert not np.array_equal(env.reset(), env.reset())
    assert (env.size, env.obs_dim, env.action_dim) == (3, 2 * D + 1, D)


def test_what_is_given_out_is_the_callers() -> None:
    env = BatchedFeed(some_feed(), 2)
    kept, spoilt = BatchedFeed(env.feed, 2), env.reset(0)
    kept.reset(0)
    spoilt[:] = 7.0
    actions = env.feed.atoms[:2].copy()
    actions.flags.writeable = False
    np.testing.assert_array_equal(env.step(actions)[0], kept.step(actions)[0])


@pytest.mark.parametrize(
    ("actions", "message"),
    [
        (np.zeros((3, D)), r"`actions` must be an array of shape \(2, 5\). Got shape \(3, 5\)"),
        (np.full((2, D), np.nan), "`actions` must be finite"),
        (np.ones((2, D)), "`actions` must be points of the hull of unit atoms. Got norm 2.236"),
    ],
)
def test_actions_that_cannot_be_are_refused(actions: Rows, message: str) -> None:
    env = BatchedFeed(some_feed(), 2)
    env.reset()
    with pytest.raises(ValueError, match=message):
        env.step(actions)


def test_reset_comes_first() -> None:
    with pytest.raises(RuntimeError, match="`step` must come after `reset`"):
        BatchedFeed(some_feed(), 2).step(np.zeros((2, D)))


# ---------------------------------------------------------------- features


def test_features_are_the_inner_products() -> None:
    feed = some_feed()
    obs, a = states(feed, 6, seed=2).astype(float), feed.atoms[:6].astype(float)
    u, f, m = obs[:, :D], obs[:, D : 2 * D], obs[:, -1]
    ua = (u * a).sum(axis=1)
    expected = [3 * ua, 3 * m * ua, 3 * (f * a).sum(axis=1), (a * a).sum(axis=1), 3 * (u * f).sum(axis=1)]
    np.testing.assert_allclose(feed_features(obs, a), np.transpose(expected), atol=1e-12)


def test_tensors_give_the_same_features_and_a_gradient() -> None:
    feed = some_feed()
    obs, a = states(feed, 6, seed=2), feed.atoms[:6]
    action = torch.tensor(a, requires_grad=True)
    features = feed_features(torch.tensor(obs), action)
    np.testing.assert_allclose(features.detach().numpy(), feed_features(obs, a), atol=1e-6)
    (slope,) = torch.autograd.grad(features[:, 0].sum(), action)
    np.testing.assert_allclose(slope.numpy(), 3.0 * obs[:, :D], atol=1e-6)


def test_features_take_any_leading_axes() -> None:
    feed = some_feed()
    obs, a = states(feed, 6, seed=2), feed.atoms[:6]
    stacked = feed_features(obs.reshape(2, 3, -1), a.reshape(2, 3, -1))
    np.testing.assert_array_equal(stacked.reshape(6, 5), feed_features(obs, a))
