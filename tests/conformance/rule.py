"""What every policy `Rule` promises, checked on untrained networks and in a short training."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tests.policy.deep import QUICK, Bandit, brain_of, cloud, observations
from wolfhound.policy import RULES, ActionSet, Agent, HullPoints
from wolfhound.policy.deep.rules import Rule


def check_rule(rule: Rule) -> None:
    """Check a rule: its description, what it decides, what it learns from, and its files.

    Parameters
    ----------
    rule
        Of a class in the table `RULES`.
    """
    _check_description(rule)
    _check_decisions(rule)
    _check_updates(rule)
    _check_training(rule)


def _check_description(rule: Rule) -> None:
    known = RULES[rule.name]
    assert type(rule) is known
    for each in (rule, known()):
        saved = json.loads(json.dumps(each.to_json()))
        assert known.from_json(saved) == each


def _check_hull(hull: HullPoints, m: int, rows: Any) -> None:
    """Points of the hull, with the atoms that make them."""
    assert hull.points.shape == (m, rows.shape[1])
    assert hull.ids.shape == hull.weights.shape
    assert hull.weights.min() >= 0.0
    np.testing.assert_allclose(hull.weights.sum(axis=1), 1.0, rtol=1e-9)
    made = np.einsum("mk,mkd->md", hull.weights, rows[hull.ids])
    np.testing.assert_allclose(hull.points, made, atol=1e-6)


def _check_decisions(rule: Rule) -> None:
    rows, obs = cloud(), observations(7)
    brain, before = brain_of(rule, ActionSet(rows)), obs.clone()
    _check_hull(rule.decision.start(brain, 5), 5, rows)
    for explore in (False, True):
        _check_hull(rule.decision.decide(brain, obs, explore=explore), 7, rows)
    one, two = (rule.decision.decide(brain, obs, explore=False).points for _ in range(2))
    np.testing.assert_array_equal(one, two)
    assert torch.equal(obs, before)


def _check_updates(rule: Rule) -> None:
    obs = observations(6)
    brain = brain_of(rule, ActionSet(cloud()))
    with torch.no_grad():
        ahead = rule.ahead(brain, obs)
    assert ahead.shape == (6, 3)
    assert ahead.dtype == torch.float32
    assert bool(torch.isfinite(ahead).all())
    loss = rule.loss(brain, obs)
    assert loss.ndim == 0
    assert bool(torch.isfinite(loss.detach()))
    loss.backward()  # type: ignore[no-untyped-call]
    slopes = [parameter.grad for parameter in brain.actor.parameters()]
    assert all(slope is not None for slope in slopes)
    slow = (*brain.slow_actor.parameters(), *brain.slow_critic.parameters())
    assert all(parameter.grad is None for parameter in slow)


def _check_training(rule: Rule) -> None:
    """The same seed gives the same agent; a saved one decides alike and goes on learning."""
    rows, obs = cloud(), observations(4).numpy()
    one, two = (Agent(Bandit(), ActionSet(rows), rule=rule, settings=QUICK).learn(64) for _ in range(2))
    assert one.stats.updates > 0
    np.testing.assert_array_equal(one.predict(obs)[0], two.predict(obs)[0])
    with tempfile.TemporaryDirectory() as folder:
        one.save(Path(folder) / "agent", replay=True)
        loaded = Agent.load(Path(folder) / "agent", rows, env=Bandit())
    assert loaded.rule == rule
    np.testing.assert_array_equal(loaded.predict(obs)[0], one.predict(obs)[0])
    assert loaded.learn(16).stats.updates > one.stats.updates
