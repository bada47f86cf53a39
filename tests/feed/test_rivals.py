"""The rules: each sends only what it may, learns, and is what it says it is."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from feed.rivals import NFWPO, TD3, Wolpertinger

import wolfhound
from tests.policy.deep import QUICK, TARGET, Bandit, D, brain_of, cloud, corners, learner, observations
from wolfhound.policy import ActionSet, Agent, HullDecision
from wolfhound.policy.deep.rules import GRID, FrankWolfeRule, Rule, climb, measure_step, to_tensor

PLAIN = HullDecision(refine=0)
RULES: dict[str, Rule] = {
    "SFWPO": FrankWolfeRule(),
    "NFWPO": NFWPO(project=3),
    "TD3": TD3(),
    "TD3, not refined": TD3(decision=PLAIN),
    "Wolpertinger 1": Wolpertinger(neighbours=1),
    "Wolpertinger 10": Wolpertinger(neighbours=10),
}


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """A few atoms are not worth the way to another thread."""
    wolfhound.set_threads(1)
    yield
    wolfhound.set_threads(None)


def trained(rule: Rule, env: Bandit, actions: ActionSet, steps: int, **changes: Any) -> Agent:
    settings = replace(QUICK, gamma=0.0, **changes)
    agent = Agent(env, actions, rule=rule, settings=settings, critic_features=lambda obs, acts: acts * acts)
    return agent.learn(steps)


# ---------------------------------------------------------------- all rules


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
def test_only_the_hull_is_sent(rule: Rule) -> None:
    env, actions = Bandit(), ActionSet(cloud())
    agent = trained(rule, env, actions, 80)
    sent = np.concatenate([*env.sent, agent.predict(observations(4).numpy())[0]])
    assert max(2.0 * actions.prove(row, rtol=1e-12).value for row in sent[::20]) < 1e-11


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
def test_the_same_seed_gives_the_same_weights(rule: Rule) -> None:
    one, two = (learner(trained(rule, Bandit(), ActionSet(cloud()), 64)).arrays() for _ in range(2))
    assert one.keys() == two.keys()
    assert all(np.array_equal(one[name], two[name]) for name in one)


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
def test_every_rule_comes_back_from_a_file(rule: Rule, tmp_path: Path) -> None:
    agent = Agent(Bandit(), corners(), rule=rule, settings=QUICK)
    agent.save(tmp_path / "saved")
    loaded = Agent.load(tmp_path / "saved", corners())
    assert loaded.rule == rule
    obs = observations(5).numpy()
    assert np.array_equal(loaded.predict(obs)[0], agent.predict(obs)[0])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rule", "bound"),
    [
        # The mean of the corners, the best guess without learning, has 0.047.
        (FrankWolfeRule(), 0.03),
        (NFWPO(project=1), 0.03),
        (TD3(), 0.03),
        # The best corner.
        (Wolpertinger(neighbours=2), float(((np.eye(D)[0] - TARGET) ** 2).sum()) + 1e-6),
    ],
)
def test_every_rule_learns(rule: Rule, bound: float) -> None:
    agent = trained(rule, Bandit(), corners(), 360, seed=1)
    chosen = agent.predict(observations(40, seed=3).numpy())[0]
    assert ((chosen - TARGET) ** 2).sum(axis=1).mean() < bound


def test_an_unknown_rule_is_refused_before_training() -> None:
    class Mine:
        decision = PLAIN
        ahead, loss = TD3.ahead, TD3.loss

    rule: Any = Mine()
    with pytest.raises(TypeError, match="`rule` must be of the table of sfwpo, nfwpo, td3, wolpertinger"):
        Agent(Bandit(), corners(), rule=rule)


# ---------------------------------------------------------------- Frank-Wolfe


def test_a_climb_is_the_best_step_of_the_grid_to_the_best_atom() -> None:
    rows = cloud()
    brain, obs = brain_of(FrankWolfeRule(), ActionSet(rows)), observations(7)
    points = brain.actor(obs).detach()
    chosen, steps = climb(brain, obs, points)
    directions = brain.critic.directions(obs, points).numpy()
    assert np.array_equal(chosen.ids, (directions @ rows.T).argmax(axis=1))
    ends = points + torch.tensor(GRID)[:, None, None] * (to_tensor(chosen.rows) - points)
    with torch.no_grad():
        values = torch.stack([brain.critic.first(obs, end) for end in ends])
    assert torch.equal(steps, torch.tensor(GRID)[values.argmax(dim=0)])
    assert brain.work[0] >= 7 * len(rows)


def test_the_actor_is_drawn_to_the_step() -> None:
    brain, obs = brain_of(FrankWolfeRule(), ActionSet(cloud())), observations(5)
    points = brain.actor(obs)
    chosen, steps = climb(brain, obs, points.detach())
    goal = points.detach() + steps[:, None] * (to_tensor(chosen.rows) - points.detach())
    loss = FrankWolfeRule().loss(brain, obs)
    expected = ((points.detach() - goal) ** 2).sum(dim=1).mean()
    assert float(loss.detach()) == pytest.approx(float(expected), rel=1e-5)
    loss.backward()  # type: ignore[no-untyped-call]
    assert all(parameter.grad is not None for parameter in brain.actor.parameters())
    assert all(parameter.grad is None for parameter in brain.critic.parameters())


def test_refinement_never_lowers_the_critic() -> None:
    brain, obs = brain_of(FrankWolfeRule(), ActionSet(cloud())), observations(30)
    values = []
    for refine in (0, 1, 3):
        hull = HullDecision(refine=refine).decide(brain, obs, explore=False)
        with torch.no_grad():
            values.append(brain.critic.first(obs, to_tensor(hull.points)))
    assert (values[1] >= values[0] - 1e-6).all()
    assert (values[2] >= values[1] - 1e-6).all()
    assert float(values[2].mean()) > float(values[0].mean())


def test_sfwpo_does_not_project_in_an_update_and_nfwpo_does() -> None:
    actions, obs = ActionSet(cloud()), 9.0 * observations(6)
    ours, theirs = (brain_of(rule, actions) for rule in (FrankWolfeRule(), NFWPO()))
    with torch.no_grad():
        free, projected = FrankWolfeRule().ahead(ours, obs), NFWPO(project=5).ahead(theirs, obs)
    assert torch.equal(free, ours.slow_actor(obs))
    assert np.allclose(projected.numpy(), actions.project(free.numpy(), steps=5).points, atol=1e-6)
    origin = to_tensor(actions.project(free.numpy(), steps=5).points)
    expected = measure_step(theirs, obs, theirs.actor(obs), origin).detach()
    assert float(NFWPO(project=5).loss(theirs, obs).detach()) == pytest.approx(float(expected), rel=1e-5)


# ---------------------------------------------------------------- TD3, Wolpertinger


def test_plain_td3_executes_the_projection() -> None:
    actions, obs = ActionSet(cloud()), observations(6)
    rule = TD3(decision=PLAIN)
    brain = brain_of(rule, actions)
    hull = rule.decision.decide(brain, obs, explore=False)
    assert np.allclose(hull.points, actions.project(brain.actor(obs).detach().numpy()).points)


def test_td3_climbs_the_critic() -> None:
    brain, obs = brain_of(TD3(), corners()), observations(50)
    before = float(TD3().loss(brain, obs).detach())
    tutor = torch.optim.SGD(brain.actor.parameters(), 0.1)
    for _ in range(5):
        tutor.zero_grad()
        TD3().loss(brain, obs).backward()  # type: ignore[no-untyped-call]
        tutor.step()
    assert float(TD3().loss(brain, obs).detach()) < before


@pytest.mark.parametrize("k", [1, 5, 60])
def test_wolpertinger_takes_the_best_of_the_nearest(k: int) -> None:
    rows, obs = cloud(), observations(6)
    rule = Wolpertinger(neighbours=k)
    brain = brain_of(rule, ActionSet(rows))
    hull = rule.decision.decide(brain, obs, explore=False)
    with torch.no_grad():
        points = brain.actor(obs).numpy()
        for at in range(6):
            near = np.argsort(((rows - points[at]) ** 2).sum(axis=1))[:k]
            values = brain.critic.first(obs[at : at + 1].expand(k, -1), to_tensor(rows[near]))
            assert hull.ids[at, 0] == near[int(values.argmax())]
    assert np.array_equal(hull.points, rows[hull.ids[:, 0]])
    assert np.array_equal(hull.weights, np.ones((6, 1)))


def test_wolpertinger_sends_atoms_and_explores() -> None:
    rows, env = cloud(), Bandit()
    agent = trained(Wolpertinger(neighbours=3), env, ActionSet(rows), 120)
    assert {row.tobytes() for sent in env.sent for row in sent} <= {row.tobytes() for row in rows}
    obs = np.zeros((30, 2))
    assert len(np.unique(agent.predict(obs)[0], axis=0)) == 1
    assert len(np.unique(agent.predict(obs, deterministic=False)[0], axis=0)) > 1


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Wolpertinger(neighbours=0), "`neighbours` must be an integer >= 1"),
        (lambda: Wolpertinger(noise=-1.0), "`noise` must be a number >= 0"),
        (lambda: NFWPO(project=-1), "`project` must be an integer >= 0"),
        (lambda: HullDecision(exploration=-0.1), "`exploration` must be in"),
    ],
)
def test_bad_rules_are_refused(make: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()
