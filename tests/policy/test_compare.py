"""Comparisons: what is measured, on whom, and what the table and picture say."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
import subprocess
import sys
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import pytest

import wolfhound as wh
from tests.policy.test_feed import items
from wolfhound.policy.answers import Rows
from wolfhound.policy.deep.evaluation import FRESH, evaluate
from wolfhound.policy.deep.settings import Settings, Training, TrainingCallback
from wolfhound.policy.feed.compare import Bout, Comparison, Standing, compare
from wolfhound.policy.feed.contenders import feed_baselines, feed_learners, fresh_users
from wolfhound.policy.feed.environment import BatchedFeed, Feed, FeedParameters

FEED = Feed.build(items(120, 4), users=40, parameters=FeedParameters(horizon=4))


class Counting:
    """Every step of an episode pays its number in the batch, plus the action."""

    size = 3
    obs_dim = 1

    def __init__(self) -> None:
        self.seeds: list[int | None] = []
        self.left = 0

    def reset(self, seed: int | None = None) -> Rows:
        self.seeds.append(seed)
        self.left = 4
        return np.zeros((3, 1), np.float32)

    def step(self, actions: Rows) -> tuple[Rows, Rows, bool]:
        self.left -= 1
        paid = np.arange(3, dtype=np.float32) + actions[:, 0]
        return np.full((3, 1), 4 - self.left, np.float32), paid, self.left == 0


def own_number(obs: Rows) -> Rows:
    """An action that is the observation: 0, 1, 2, 3 along an episode."""
    return obs


# ---------------------------------------------------------------- evaluate


def test_returns_are_sums_over_whole_episodes() -> None:
    env = Counting()
    np.testing.assert_array_equal(evaluate(own_number, env, episodes=7, seed=5), [6, 10, 14, 6, 10, 14, 6])
    assert env.seeds == [5, None, None]


def test_the_seed_fixes_the_users() -> None:
    policy = feed_baselines(FEED)["greedy"](0)
    first, again, other = (
        evaluate(policy, BatchedFeed(FEED, 4), episodes=8, seed=seed) for seed in (1, 1, 2)
    )
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)
    assert not np.array_equal(first[:4], first[4:])


def test_episodes_must_be_positive() -> None:
    with pytest.raises(ValueError, match=r"`episodes` must be an integer >= 1\. Got 0"):
        evaluate(own_number, Counting(), episodes=0)


# ---------------------------------------------------------------- compare


@dataclass
class Novice:
    """Shows 1 item better for every transition; makes them in batches of 16."""

    seed: int
    steps: int = 0
    scored: int = 0
    asked: list[int] = field(default_factory=list)

    status: wh.Status | None = None

    @property
    def stats(self) -> Training:
        return Training(
            timesteps=self.steps,
            ms_per_update=1.0 + self.seed,
            scored=self.scored,
            ratio_mean=0.9,
            ratio_p5=0.5 + 0.2 * self.seed,
        )

    def learn(
        self, total_timesteps: int, *, reset_num_timesteps: bool, callback: TrainingCallback | None = None
    ) -> None:
        assert not reset_num_timesteps
        self.asked.append(total_timesteps)
        batches = math.ceil(total_timesteps / 16)
        self.steps += 16 * batches
        self.scored += 10 * batches

    def predict(self, observation: Rows) -> tuple[Rows, None]:
        self.scored += 1000
        return np.full((len(observation), 1), self.steps + 100.0 * self.seed, np.float32), None


def test_a_learner_is_trained_and_tested_in_turn() -> None:
    made: list[Novice] = []

    def make(seed: int) -> Novice:
        made.append(Novice(seed))
        return made[-1]

    said: list[Bout] = []
    found = compare(
        {"novice": make},
        {"fixed": lambda seed: own_number},
        test=lambda seed: Counting(),
        steps=100,
        points=3,
        seeds=(0, 1),
        episodes=3,
        callback=said.append,
    )
    row = found["novice"]
    np.testing.assert_array_equal(row.steps, [33, 66, 100])
    assert [novice.asked for novice in made] == [[33, 18, 20]] * 2
    # Four steps of it, and 0, 1, 2 for the place in the batch.
    at = np.array([48, 80, 112])
    np.testing.assert_array_equal(row.returns, [4 * at + 4, 4 * (at + 100) + 4])
    assert row.mean == 4 * 162 + 4
    assert row.spread == pytest.approx(np.std([452, 852], ddof=1))
    assert (row.ms_per_update, row.scored) == (1.5, 70.0)
    assert row.ratio_mean == pytest.approx(0.9)
    assert row.ratio_p5 == pytest.approx(0.6)
    assert [bout[:2] for bout in said] == [("novice", 0), ("fixed", 0), ("novice", 1), ("fixed", 1)]
    assert [(bout.done, bout.total) for bout in said] == [(done, 4) for done in range(4)]
    assert (row.learns, found["fixed"].learns) == (True, False)


def test_a_callback_stops_with_what_is_done() -> None:
    found = compare(
        {"novice": Novice},
        {"fixed": lambda seed: own_number, "other": lambda seed: own_number},
        test=lambda seed: Counting(),
        seeds=(0, 1),
        episodes=3,
        callback=lambda bout: bout.done == 3,
    )
    assert {each.name: len(each.returns) for each in found.standings} == {"novice": 1, "fixed": 1, "other": 1}


def test_an_interruption_of_a_learner_interrupts_all() -> None:
    interrupted = partial(Novice, status=wh.Status.INTERRUPTED)
    with pytest.raises(KeyboardInterrupt):
        compare({"novice": interrupted}, {}, test=lambda seed: Counting(), episodes=3)


def test_all_policies_are_tested_on_the_same_fresh_users() -> None:
    seen: dict[str, list[Rows]] = {"a": [], "b": []}

    def watching(name: str, seed: int) -> object:
        def policy(obs: Rows) -> Rows:
            seen[name].append(obs)
            return np.repeat(FEED.atoms[:1], len(obs), axis=0)

        return policy

    makers = {name: (lambda seed, name=name: watching(name, seed)) for name in seen}
    compare({}, makers, test=fresh_users(FEED, size=6), seeds=(3, 4), episodes=6)  # type: ignore[arg-type]
    np.testing.assert_array_equal(seen["a"], seen["b"])
    users = seen["a"][0][:, :4]
    assert not (users[:, None] == FEED.users[None]).all(axis=2).any()
    expected = FEED.fresh(seed=3 + FRESH).users
    assert (users[:, None] == expected[None]).all(axis=2).any(axis=1).all()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"baselines": {}}, "`learners` must be at least one policy"),
        ({"seeds": ()}, "`seeds` must be at least one seed"),
        ({"steps": 0}, "`steps` must be an integer >= 1"),
        ({"points": 0}, "`points` must be an integer >= 1"),
    ],
)
def test_misuse_is_refused(given: dict[str, object], message: str) -> None:
    options = {"baselines": {"a": lambda seed: own_number}, "test": lambda seed: Counting(), **given}
    with pytest.raises(ValueError, match=message):
        compare({}, **options)  # type: ignore[arg-type]


# ---------------------------------------------------------------- the table and the picture


def some_rows() -> tuple[Standing, ...]:
    one = Standing(name="one", steps=np.zeros(1), returns=np.array([[2.0]]))
    two = Standing(
        name="the other",
        steps=np.array([10.0, 20.0]),
        returns=np.array([[1.0, 3.0], [2.0, 5.0]]),
        ms_per_update=1.25,
        scored=12345.6,
        ratio_mean=0.95,
        ratio_p5=0.8,
    )
    return one, two


def test_the_table_has_the_best_first() -> None:
    lines = repr(Comparison(some_rows())).split("\n")
    assert lines[0].split() == [
        "policy", "return", "spread", "ms/update", "atoms", "scored", "gap", "ratio", "5th", "pct"
    ]  # fmt: skip
    assert lines[1].split() == ["the", "other", "4.00", "1.41", "1.25", "12,346", "0.950", "0.800"]
    assert lines[2].split() == ["one", "2.00", "-", "-", "-", "-", "-"]


def test_a_row_is_found_by_name() -> None:
    found = Comparison(some_rows())
    assert found["one"].mean == 2.0
    with pytest.raises(ValueError, match=r"`name` must be one of the other, one\. Got two"):
        found["two"]


def test_the_picture_has_curves_and_levels() -> None:
    figure = Comparison(some_rows()).plot(title="heading")
    (axes,) = figure.axes
    curve, level = axes.get_lines()
    np.testing.assert_array_equal(curve.get_xydata(), [[10.0, 1.5], [20.0, 4.0]])
    np.testing.assert_array_equal(level.get_ydata(), [2.0, 2.0])
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["the other", "one"]


def test_curves_can_be_told_apart() -> None:
    rows = [Standing(name=str(i), steps=np.array([1.0, 2.0]), returns=np.ones((1, 2)) * i) for i in range(9)]
    lines = Comparison(tuple(rows)).plot().axes[0].get_lines()
    assert len({(line.get_color(), line.get_linestyle()) for line in lines}) == 9


# ---------------------------------------------------------------- the contenders of the feed


@pytest.mark.slow
def test_every_contender_learns_and_is_measured() -> None:
    oracle = wh.ClusterIndex.build(FEED.atoms, budget=60)
    settings = Settings(learning_starts=32, batch_size=8, hidden=8, gradient_steps=3)
    found = compare(
        feed_learners(FEED, oracle=oracle, settings=settings),
        feed_baselines(FEED),
        test=fresh_users(FEED, size=8),
        steps=160,
        points=2,
        seeds=(0,),
        episodes=8,
    )
    assert {row.name for row in found.standings} == {
        "SFWPO, index",
        "SFWPO, exact",
        "NFWPO",
        "TD3, refined",
        "TD3",
        "Wolpertinger 1",
        "Wolpertinger 10",
        "Wolpertinger 100",
        "myopic hull",
        "greedy",
        "mean item",
        "random",
    }
    learned = [row for row in found.standings if row.learns]
    assert all(math.isfinite(row.mean) and row.ms_per_update > 0.0 for row in learned)
    exact = [row.ratio_mean for row in learned if row.name != "SFWPO, index"]
    np.testing.assert_allclose(exact, 1.0, atol=1e-6)
    assert 0.0 < found["SFWPO, index"].ratio_mean <= 1.0 + 1e-6
    assert all(row.scored > 0 for row in learned)


def test_without_an_index_there_is_no_contender_for_it() -> None:
    assert "SFWPO, index" not in feed_learners(FEED)


def test_a_seed_makes_the_same_agent() -> None:
    make = feed_learners(FEED, settings=Settings(learning_starts=16, batch_size=8, hidden=8))["TD3"]
    obs = FEED.start(3, np.random.default_rng(0))
    actions = []
    for seed in (1, 1, 2):
        agent = make(seed)
        agent.learn(64, reset_num_timesteps=False)
        actions.append(agent.predict(obs)[0])
    np.testing.assert_array_equal(actions[0], actions[1])
    assert not np.array_equal(actions[0], actions[2])


@pytest.mark.slow
def test_without_torch_learners_say_what_to_install_and_baselines_work() -> None:
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "import numpy as np\n"
        "from wolfhound.policy.feed.contenders import feed_baselines, feed_learners, fresh_users\n"
        "from wolfhound.policy.feed.compare import compare\n"
        "from wolfhound.policy.feed import Feed\n"
        "feed = Feed.build(np.eye(4), users=3)\n"
        "print(len(compare({}, feed_baselines(feed), test=fresh_users(feed), seeds=[0]).standings))\n"
        "feed_learners(feed)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "4\n")
    assert "pip install 'wolfhound[rl]'" in done.stderr.splitlines()[-1]
