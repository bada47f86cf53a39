"""Actions that a state allows: row by row in an `ActionSet`, and for agents."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from feed.rivals import NFWPO, TD3, Wolpertinger
from hypothesis import given
from hypothesis import strategies as st

import wolfhound as wh
from tests.policy.deep import QUICK, Bandit, D, cloud
from wolfhound.policy import SFWPO, ActionSet, Agent, Draw, Mix, Nearest, Settings
from wolfhound.policy.actions import Rows

ATOMS = cloud(40)
EVEN, ODD = np.arange(0, 40, 2), np.arange(1, 40, 2)

ids = st.lists(st.integers(0, 39), min_size=1, max_size=40, unique=True)


@given(st.lists(st.none() | ids, min_size=1, max_size=6), st.integers(0, 1000))
def test_each_row_has_the_best_of_its_own(subsets: list[list[int] | None], seed: int) -> None:
    directions = np.random.default_rng(seed).standard_normal((len(subsets), D))
    scores = directions @ ATOMS.T.astype(np.float64)
    allowed = [np.arange(40) if each is None else np.array(each) for each in subsets]
    best = [max(row[part]) for row, part in zip(scores, allowed, strict=True)]
    view = ActionSet(ATOMS).within(subsets)
    chosen = view.argmax(directions)
    np.testing.assert_allclose(chosen.scores, best, rtol=1e-12)
    np.testing.assert_allclose(view.scan(directions).scores, best, rtol=1e-12)
    assert all(i in part for i, part in zip(chosen.ids, allowed, strict=True))


def test_an_index_stays_within_subsets() -> None:
    index = wh.ClusterIndex.build(ATOMS)
    view = ActionSet(ATOMS, oracle=index).within([EVEN, ODD, EVEN])
    chosen = view.argmax(np.random.default_rng(0).standard_normal((3, D)))
    assert (chosen.ids % 2).tolist() == [0, 1, 0]


def test_neighbours_and_random_atoms_are_those_of_the_row() -> None:
    view = ActionSet(ATOMS).within([EVEN, [7]])
    near = view.neighbours(np.zeros((2, D)), 3)
    nearest = EVEN[np.argsort((ATOMS[EVEN].astype(np.float64) ** 2).sum(axis=1))[:3]]
    np.testing.assert_array_equal(near, [nearest, [7, 7, 7]])
    drawn = view.random(8, 0)[1]
    assert (drawn[:4] % 2).tolist() == [0] * 4
    assert drawn[4:].tolist() == [7] * 4


def test_projections_use_allowed_atoms_only() -> None:
    hull = ActionSet(ATOMS).within([EVEN, ODD]).project(np.ones((2, D)), steps=5)
    assert (hull.ids % 2).tolist() == [[0] * 6, [1] * 6]


def test_a_batch_of_another_size_is_refused() -> None:
    view = ActionSet(ATOMS).within([EVEN, ODD])
    with pytest.raises(ValueError, match="`rows` must be 2, as there are subsets"):
        view.argmax(np.ones((3, D)))
    with pytest.raises(ValueError, match="`subset` must be None: each row has its own"):
        view.argmax(np.ones((2, D)), subset=[1])
    with pytest.raises(ValueError, match=r"`subsets\[1\]` must be at least one id"):
        ActionSet(ATOMS).within([EVEN, []])


# ---------------------------------------------------------------- agents


def by_sign(obs: Rows) -> list[Any]:
    """Even atoms where the first number is positive, odd ones elsewhere."""
    return [EVEN if row[0] > 0.0 else ODD for row in obs]


class Watched(Bandit):
    """Notes what was seen before each action."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[Rows] = []

    def _look(self) -> Rows:
        obs = super()._look()
        self.seen.append(obs)
        return obs


def parity(rows: Rows) -> Any:
    """Which of the atoms each row is, odd or even."""
    return np.abs(ATOMS[None] - rows[:, None]).sum(axis=2).argmin(axis=1) % 2


@pytest.mark.parametrize("execution", [Nearest(), Draw()])
@pytest.mark.parametrize("rule", [TD3(), NFWPO(project=2), Wolpertinger(neighbours=3)])
def test_nothing_else_is_sent(rule: Any, execution: Any) -> None:
    env = Watched()
    Agent(env, ActionSet(ATOMS), rule=rule, settings=QUICK, execution=execution, subsets=by_sign).learn(120)
    obs = np.concatenate([each for i, each in enumerate(env.seen) if i % 6 < 5])[: len(env.sent) * 8]
    np.testing.assert_array_equal(parity(np.concatenate(env.sent)), obs[:, 0] <= 0.0)


def agent_of(**options: Any) -> SFWPO:
    return SFWPO(Bandit(), ActionSet(ATOMS), settings=QUICK, **options)


def test_decisions_and_audits_keep_to_the_subsets() -> None:
    settings = Settings(learning_starts=32, hidden=8, audit_every=2)
    actions = ActionSet(ATOMS)
    agent = SFWPO(Bandit(), actions, settings=settings, execution=Mix(), subsets=by_sign).learn(100)
    obs = np.random.default_rng(3).standard_normal((9, 2), dtype=np.float32)
    hull = agent.decide(obs)
    odd = (obs[:, 0] <= 0.0).astype(np.int64)
    assert ((hull.ids % 2 == odd[:, None]) | (hull.weights == 0.0)).all()
    assert agent.stats.ratio_mean == pytest.approx(1.0)  # exact, within the subsets
    assert agent.stats.scored > 0


def test_all_allowed_is_no_subset() -> None:
    obs = np.ones((2, 2), np.float32)
    free, bound = agent_of(), agent_of(subsets=lambda obs: [None] * len(obs))
    np.testing.assert_array_equal(free.learn(60).predict(obs)[0], bound.learn(60).predict(obs)[0])


def test_subsets_come_back_with_the_agent(tmp_path: Path) -> None:
    agent = agent_of(subsets=by_sign).learn(40)
    agent.save(tmp_path / "agent")
    again = SFWPO.load(tmp_path / "agent", ATOMS, subsets=by_sign)
    obs = np.ones((2, 2), np.float32)
    np.testing.assert_array_equal(again.predict(obs)[0], agent.predict(obs)[0])
    with pytest.raises(ValueError, match="`subsets` must be the function that the agent was made with"):
        SFWPO.load(tmp_path / "agent", ATOMS)


def test_wrong_subsets_are_refused() -> None:
    with pytest.raises(TypeError, match="`subsets` must be a function of observations"):
        agent_of(subsets=[1, 2])
    with pytest.raises(ValueError, match=r"`subsets\(...\)` must be of length 8. Got 1"):
        agent_of(subsets=lambda obs: [None]).learn(10)
