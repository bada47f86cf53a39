"""Critic and actor: shapes, slopes, weights from the caller's generator; replay."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import importlib
import sys
from typing import Any

import numpy as np
import pytest
import torch

from wolfhound.policy.deep.rules import Actor, Critic, follow, one_thread
from wolfhound.policy.deep.training import Replay

OBS, D = 4, 3


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def products(obs: torch.Tensor, actions: torch.Tensor) -> torch.Tensor:
    return (obs[:, :D] * actions).sum(dim=1, keepdim=True)


def critic(**options: Any) -> Critic:
    return Critic(OBS, D, hidden=8, generator=seeded(), **options)


def inputs(m: int, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    generator = seeded(seed)
    return torch.randn(m, OBS, generator=generator), torch.randn(m, D, generator=generator)


# ---------------------------------------------------------------- critic


def test_first_and_each_agree_with_forward() -> None:
    network = critic(features=products)
    obs, actions = inputs(5)
    choices = torch.stack([actions, 2.0 * actions, -actions], dim=1)
    one, two = network(obs, actions)
    assert torch.equal(network.first(obs, actions), one)
    assert not torch.isclose(one, two).any()
    each = network.each(obs, choices)
    for at in range(3):
        assert torch.allclose(each[:, at], network.first(obs, choices[:, at]), atol=1e-6)


@pytest.mark.parametrize("features", [None, products])
def test_directions_are_unit_slopes(features: Any) -> None:
    network = critic(features=features, scale=2.0).double()
    obs, actions = (part.double() for part in inputs(6))
    step = 1e-6 * torch.eye(D, dtype=torch.float64)
    rises = [network.first(obs, actions + axis) - network.first(obs, actions - axis) for axis in step]
    slopes = torch.stack(rises, dim=1)
    expected = slopes / slopes.norm(dim=1, keepdim=True)
    assert torch.allclose(network.directions(obs, actions), expected, atol=1e-6)
    assert all(parameter.grad is None for parameter in network.parameters())


def test_a_flat_critic_has_direction_zero() -> None:
    network = critic()
    for parameter in network.parameters():
        torch.nn.init.zeros_(parameter)
    assert torch.equal(network.directions(*inputs(2)), torch.zeros(2, D))


def test_actions_enter_relative_to_the_scale() -> None:
    obs, actions = inputs(4)
    large, small = critic(scale=10.0), critic(scale=1.0)
    assert torch.allclose(large.first(obs, 10.0 * actions), small.first(obs, actions), atol=1e-6)


@pytest.mark.parametrize("bad", [lambda obs, actions: obs[:, 0], lambda obs, actions: 3.0])
def test_features_must_be_columns(bad: Any) -> None:
    with pytest.raises(ValueError, match="`critic_features` must be a function to"):
        critic(features=bad)


# ---------------------------------------------------------------- actor


def test_actor_stays_in_its_ball() -> None:
    actor = Actor(OBS, D, hidden=8, scale=3.0, generator=seeded())
    far = actor(1e3 * inputs(20)[0])
    assert torch.allclose(far.norm(dim=1), torch.full((20,), 3.0), rtol=1e-5)
    near = actor(1e-3 * inputs(20)[0])
    assert (near.norm(dim=1) < 2.9).all()


def test_weights_come_from_the_generator_alone() -> None:
    before = torch.get_rng_state()
    first, again = (Actor(OBS, D, hidden=8, generator=seeded(3)) for _ in range(2))
    other = Actor(OBS, D, hidden=8, generator=seeded(4))
    assert torch.equal(torch.get_rng_state(), before)
    pairs = zip(first.parameters(), again.parameters(), other.parameters(), strict=True)
    for mine, same, different in pairs:
        assert torch.equal(mine, same)
        assert not torch.isclose(mine, different).any()


def test_follow_goes_a_share_of_the_way() -> None:
    slow, fast = (Actor(OBS, D, hidden=8, generator=seeded(seed)) for seed in (1, 2))
    expected = [
        0.75 * a.detach() + 0.25 * b.detach()
        for a, b in zip(slow.parameters(), fast.parameters(), strict=True)
    ]
    follow(slow, fast, 0.25)
    for got, wanted in zip(slow.parameters(), expected, strict=True):
        assert torch.allclose(got, wanted, atol=1e-7)


# ---------------------------------------------------------------- replay


def filled(size: int, added: int) -> Replay:
    """Transition t has t in every place, going is 0 for odd t."""
    replay = Replay(size, obs_dim=OBS, dim=D)
    for t in range(added):
        number = np.full((1, max(OBS, D)), t, np.float32)
        obs, going = number[:, :OBS], np.array([1 - t % 2], np.float32)
        replay.add(obs, number[:, :D], number[:, 0], obs + 0.5, going)
    return replay


def test_replay_keeps_the_latest_and_rows_together() -> None:
    replay = filled(5, 12)
    batch = replay.sample(400, np.random.default_rng(0))
    assert len(replay) == 5
    assert set(batch.rewards.tolist()) == {7.0, 8.0, 9.0, 10.0, 11.0}
    assert torch.equal(batch.obs, batch.rewards[:, None].expand(-1, OBS))
    assert torch.equal(batch.actions, batch.rewards[:, None].expand(-1, D))
    assert torch.equal(batch.next_obs, batch.obs + 0.5)
    assert torch.equal(batch.going, 1.0 - batch.rewards % 2)


def test_replay_is_uniform() -> None:
    drawn = filled(4, 4).sample(4000, np.random.default_rng(1)).rewards
    counts = torch.bincount(drawn.long())
    assert (counts - 1000).abs().max() < 5 * (4000 * 0.25 * 0.75) ** 0.5


@pytest.mark.parametrize("added", [3, 5, 8])
def test_replay_comes_back(added: int) -> None:
    one, two = filled(5, added), Replay(5, obs_dim=OBS, dim=D)
    two.restore(one.arrays())
    assert len(two) == len(one)
    extra = (np.full((1, OBS), 99, np.float32), np.full((1, D), 99, np.float32), np.full(1, 99, np.float32))
    for replay in (one, two):
        replay.add(*extra, extra[0], np.ones(1, np.float32))
    draws = [replay.sample(50, np.random.default_rng(2)).rewards for replay in (one, two)]
    assert torch.equal(draws[0], draws[1])


def test_bad_replays_are_refused() -> None:
    with pytest.raises(ValueError, match="`replay` must be non-empty"):
        Replay(5, obs_dim=OBS, dim=D).sample(1, np.random.default_rng(0))
    with pytest.raises(ValueError, match="`replay` must be at most"):
        Replay(5, obs_dim=OBS, dim=D).restore(filled(6, 6).arrays())


# ---------------------------------------------------------------- torch


def test_threads_of_torch_come_back() -> None:
    before = torch.get_num_threads()
    with pytest.raises(RuntimeError, match="inside"), one_thread():
        assert torch.get_num_threads() == 1
        raise RuntimeError("inside")
    assert torch.get_num_threads() == before


@pytest.mark.parametrize("name", ["agent", "training", "rules"])
def test_without_torch_it_says_what_to_install(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    for module in [each for each in sys.modules if each.startswith("wolfhound.policy.")]:
        monkeypatch.delitem(sys.modules, module)
    with pytest.raises(ImportError, match=r"need torch: pip install 'wolfhound\[rl\]'"):
        importlib.import_module(f"wolfhound.policy.deep.{name}")
    assert importlib.import_module("wolfhound.policy").ActionSet
