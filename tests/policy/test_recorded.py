"""Answers as they were recorded: the same seeds must go on giving them.

``python -m tests.policy.test_recorded`` says what differs in the last bit, which is
meant for a change on one machine; other machines add in another order.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from feed.baselines import feed_baselines
from feed.environment import BatchedFeed, Feed, feed_features
from feed.item_feed import HullSpace, ItemFeed
from feed.rivals import NFWPO, TD3, Wolpertinger

from tests.policy.deep import QUICK, Bandit, cloud
from tests.policy.problems import rising_gap, softmax_acmdp
from wolfhound import ClusterIndex, RandomSubset, set_threads
from wolfhound.core.contracts import Oracle
from wolfhound.policy import (
    ACMDP,
    SFWPO,
    ActionSet,
    Agent,
    Backtracking,
    Draw,
    HullDecision,
    Mix,
    Nearest,
    PaperStep,
    PerState,
    Settings,
    TabularResult,
    Visitation,
    fwpo,
    policy_iteration,
    random_acmdp,
    scales,
    sfwpo,
)
from wolfhound.policy.actions import Rows
from wolfhound.policy.deep.rules import Execution, FrankWolfeRule, Rule
from wolfhound.policy.tabular.steps import PolicyStep

RECORDED = Path(__file__).with_name("recorded.json")


def run_sfwpo(acmdp: ACMDP, ratio: float, **options: bool) -> TabularResult:
    return sfwpo(acmdp, ratio=ratio, max_steps=12, rtol=1e-4, **options)  # type: ignore[arg-type]


def make_agent(rows: Rows, rule: Rule, oracle: Oracle | None, execution: Execution) -> Agent:
    settings = replace(QUICK, audit_every=4)
    actions = ActionSet(rows, oracle=oracle)
    return Agent(Bandit(), actions, rule=rule, settings=settings, execution=execution)


def make_sfwpo(env: Any, actions: ActionSet, features: Any) -> SFWPO:
    settings = Settings(learning_starts=32, batch_size=16, hidden=8, seed=2)
    return SFWPO(env, actions, settings=settings, critic_features=features)


def _numbers(*parts: Any) -> list[float]:
    return [float(x) for part in parts for x in np.asarray(part, np.float64).ravel()]


def tabular() -> Iterator[tuple[str, list[float]]]:
    problems = {
        "affine": random_acmdp(6, 60, 4),
        "quadratic": random_acmdp(6, 60, 4, curvature=2.0, seed=1),
        "softmax": softmax_acmdp(4, 40, 3),
        "subsets": _subsets(random_acmdp(3, 40, 4, seed=5)),
        "functions": rising_gap(),
    }
    steps: dict[str, PolicyStep] = {
        "per state": PerState(),
        "visitation": Visitation(20.0),
        "backtracking": Backtracking(),
    }
    for name, acmdp in problems.items():
        for how, step in steps.items():
            yield f"fwpo, {name}, {how}", _solved(fwpo(acmdp, step=step, max_steps=12, rtol=1e-4))
    yield "fwpo, affine, paper", _solved(fwpo(problems["affine"], step=PaperStep(), max_steps=3))
    for name in ("affine", "quadratic", "subsets"):
        acmdp = problems[name]
        atoms = acmdp.actions.atoms
        oracles: dict[str, Oracle] = {
            "clusters": ClusterIndex.build(atoms, budget=20),
            "subset": RandomSubset(atoms, size=5),
        }
        for how, oracle in oracles.items():
            for insist, confirm in ((False, True), (True, False)):
                poor = acmdp.with_actions(ActionSet(atoms, oracle=oracle))
                result = run_sfwpo(poor, 0.8, insist=insist, confirm=confirm)
                yield f"sfwpo, {name}, {how}, {insist}", _solved(result)
    yield "policy iteration", _solved(policy_iteration(problems["affine"]))
    yield "scales", _numbers([getattr(scales(problems["softmax"]), each) for each in SCALES])


def _subsets(acmdp: ACMDP) -> ACMDP:
    sets = [list(range(0, 6)), list(range(6, 40, 4)), [3, 30]]
    return ACMDP(acmdp.reward, acmdp.transition, acmdp.gamma, acmdp.start, acmdp.actions, subsets=sets)


SCALES = ("diameter", "span", "slope", "action_smoothness", "policy_smoothness")


def _solved(result: Any) -> list[float]:
    known = result.score, min(result.upper, 1e300), result.steps, result.scored, result.passes
    return _numbers(known, result.scores, result.ids[:, :2], result.weights[:, :2], result.policy[:2])


def actions() -> Iterator[tuple[str, list[float]]]:
    rows = np.random.default_rng(0).standard_normal((300, 4))
    y = np.random.default_rng(1).standard_normal((6, 4))
    index = ActionSet(rows, oracle=ClusterIndex.build(rows, budget=15), seed=3)
    for name, asked in {"scan": ActionSet(rows), "index": index}.items():
        for subset in (None, np.arange(20), np.arange(0, 300, 2)):
            chosen = asked.argmax(y, points=y, subset=subset)
            size = 0 if subset is None else len(subset)
            yield f"argmax, {name}, {size}", _numbers(chosen.ids, chosen.gaps, chosen.scored, chosen.passes)
        hull = asked.project(y, steps=3)
        yield f"project, {name}", _numbers(hull.points, hull.ids, hull.weights, hull.scored)
    yield "neighbours", _numbers(index.neighbours(y, 3), index.nearest(y))
    yield "draws", _numbers(index.draw(hull.ids, hull.weights), index.random(5)[1])


def deep() -> Iterator[tuple[str, list[float]]]:
    rows, plain = cloud(60), HullDecision(refine=0)
    clusters = ClusterIndex.build(rows, budget=8)
    agents: dict[str, Callable[[], Agent]] = {
        "sfwpo": lambda: make_agent(rows, FrankWolfeRule(), None, Mix()),
        "sfwpo, index": lambda: make_agent(rows, FrankWolfeRule(), clusters, Mix()),
        "sfwpo, nearest": lambda: make_agent(rows, FrankWolfeRule(), None, Nearest()),
        "sfwpo, draw": lambda: make_agent(rows, FrankWolfeRule(), clusters, Draw()),
        "nfwpo": lambda: make_agent(rows, NFWPO(project=3), None, Mix()),
        "td3": lambda: make_agent(rows, TD3(), None, Mix()),
        "td3, plain": lambda: make_agent(rows, TD3(decision=plain), None, Mix()),
        "wolpertinger": lambda: make_agent(rows, Wolpertinger(neighbours=5), None, Mix()),
    }
    obs = np.random.default_rng(5).standard_normal((3, 2))
    for name, make in agents.items():
        agent = make().learn(80)
        known = agent.stats
        told = known.timesteps, known.episodes, known.updates, known.scored, known.mean_return
        losses = known.critic_loss, known.actor_loss, known.ratio_mean, known.ratio_p5
        asked = agent.predict(obs)[0], agent.predict(obs, deterministic=False)[0], agent.directions(obs)[0]
        yield name, _numbers(told, losses, *asked)
    feed = Feed.build(cloud(40), users=10)
    for name, env in {"feed": BatchedFeed(feed, 4), "item feed": ItemFeed(feed)}.items():
        agent = make_sfwpo(env, ActionSet(feed.atoms), feed_features).learn(160)
        loss, mean = agent.stats.critic_loss, agent.stats.mean_return
        yield f"sfwpo, {name}", _numbers(agent.predict(np.full(7, 0.3))[0], loss, mean)


def feeds() -> Iterator[tuple[str, list[float]]]:
    feed = Feed.build(cloud(40), users=10)
    yield "feed", _numbers(feed.axis, feed.users[:3], feed.fresh(seed=4).users[:2])
    env = BatchedFeed(feed, 2, seed=3)
    seen = [env.reset(), env.reset(8)]
    for at in range(3):
        obs, rewards, _ = env.step(feed.atoms[[at, at + 7]])
        seen += [obs, rewards]
    yield "batched feed", _numbers(*seen)
    one = ItemFeed(feed)
    seen = [one.reset(seed=2)[0]]
    for at in range(3):
        obs, reward, *_ = one.step(feed.atoms[at])
        seen += [obs, np.array(reward)]
    yield "item feed", _numbers(*seen, HullSpace(feed.atoms, seed=1).sample())
    for name, make in feed_baselines(feed).items():
        yield name, _numbers(make(1)(env.reset(5)))


KNOWN: dict[str, list[float]] = json.loads(RECORDED.read_text())


def everything() -> dict[str, list[float]]:
    """All that is recorded, computed again."""
    return dict([*tabular(), *actions(), *deep(), *feeds()])


@pytest.fixture(scope="module")
def now() -> Iterator[dict[str, list[float]]]:
    set_threads(1)
    yield everything()
    set_threads(None)


@pytest.mark.slow
@pytest.mark.parametrize("name", KNOWN)
def test_answers_are_those_that_were_recorded(name: str, now: dict[str, list[float]]) -> None:
    np.testing.assert_allclose(now[name], KNOWN[name], rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_everything_is_recorded(now: dict[str, list[float]]) -> None:
    assert now.keys() == KNOWN.keys()


if __name__ == "__main__":
    set_threads(1)
    found = everything()
    print([each for each in KNOWN if not np.array_equal(found[each], KNOWN[each], equal_nan=True)])
