"""Agents: what they send, the same seed, learning, reports, files, wrong use."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import csv
import math
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from feed.rivals import TD3, Wolpertinger

import wolfhound
from tests.policy.deep import QUICK, Bandit, cloud, corners, learner
from wolfhound.core.contracts import Status
from wolfhound.data import store
from wolfhound.data.store import StoreError
from wolfhound.policy import SFWPO, ActionSet, Agent, Draw, HullDecision, Mix, Nearest, Settings, Training
from wolfhound.policy.actions import Rows
from wolfhound.policy.deep.rules import Execution, FrankWolfeRule

ROUNDED = 1e-11
"""Squared distance from the hull that float32 coordinates of size 1 may have."""


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """A few atoms are not worth the way to another thread."""
    wolfhound.set_threads(1)
    yield
    wolfhound.set_threads(None)


def quick(
    env: Any, actions: ActionSet, *, execution: Execution | None = None, seed: int = 0, **changes: Any
) -> Agent:
    settings = replace(QUICK, seed=seed, **changes)
    return Agent(env, actions, rule=FrankWolfeRule(), settings=settings, execution=execution)


def weights(agent: Agent) -> list[Any]:
    return [value for name, value in sorted(learner(agent).arrays().items())]


# ---------------------------------------------------------------- what is sent


def outside(actions: ActionSet, rows: Rows) -> float:
    """Largest proved squared distance of some rows from the hull."""
    return max(2.0 * actions.prove(row, rtol=1e-12).value for row in rows[:: max(1, len(rows) // 10)])


def test_nothing_outside_the_hull_is_sent() -> None:
    env, actions = Bandit(), ActionSet(cloud())
    agent = quick(env, actions).learn(120)
    sent = np.concatenate(env.sent)
    assert len(sent) == 120
    assert outside(actions, sent) < ROUNDED
    # The actor itself does leave the hull: the test can fail.
    raw = agent.directions(np.random.default_rng(0).standard_normal((50, 2)) * 9.0)[1]
    assert outside(actions, raw) > 1e-3


@pytest.mark.parametrize("execution", [Nearest(), Draw()])
def test_atoms_are_sent_if_asked(execution: Execution) -> None:
    env, rows = Bandit(), cloud()
    agent = quick(env, ActionSet(rows), execution=execution).learn(120)
    known = {row.tobytes() for row in rows}
    sent = np.concatenate([*env.sent, agent.predict(np.zeros((4, 2)))[0]])
    assert {row.tobytes() for row in sent} <= known


def test_decisions_are_made_of_atoms() -> None:
    rows = cloud()
    agent = quick(Bandit(), ActionSet(rows)).learn(80)
    obs = np.random.default_rng(1).standard_normal((9, 2))
    hull = agent.decide(obs)
    assert hull.weights.min() >= 0.0
    assert hull.weights.sum(axis=1) == pytest.approx(1.0)
    assert hull.points == pytest.approx(np.einsum("mk,mkd->md", hull.weights, rows[hull.ids]), abs=1e-6)
    assert np.array_equal(agent.predict(obs)[0], hull.points.astype(np.float32))


def test_drawn_atoms_belong_to_the_decision() -> None:
    rows = cloud()
    agent = SFWPO(Bandit(), ActionSet(rows), decision=HullDecision(refine=0), execution=Draw())
    obs = np.zeros((1, 2))
    hull = agent.decide(obs)
    allowed = {rows[i].tobytes() for i, weight in zip(hull.ids[0], hull.weights[0], strict=True) if weight}
    drawn = {agent.predict(obs)[0].tobytes() for _ in range(60)}
    assert 1 < len(drawn)
    assert drawn <= allowed


def test_exploration_is_random_and_prediction_is_not() -> None:
    agent = quick(Bandit(), ActionSet(cloud())).learn(80)
    obs = np.zeros((3, 2), np.float32)
    assert np.array_equal(agent.predict(obs)[0], agent.predict(obs)[0])
    explored = agent.predict(obs, deterministic=False)[0]
    assert not np.isclose(explored, agent.predict(obs)[0]).all()
    assert outside(agent.actions, explored) < ROUNDED


def test_read_only_and_single_observations_are_taken() -> None:
    agent = quick(Bandit(), corners())
    obs = np.ones((2, 2), np.float32)
    obs.flags.writeable = False
    many, state = agent.predict(obs)
    one, _ = agent.predict(obs[0])
    assert state is None
    assert many.shape == (2, 3)
    assert np.array_equal(one, many[0])


# ---------------------------------------------------------------- the same seed


@pytest.fixture
def torch_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.mark.slow
@pytest.mark.usefixtures("torch_threads")
def test_the_same_seed_gives_the_same_agent_at_any_thread_count() -> None:
    trained = []
    for threads in (1, 2):
        torch.set_num_threads(threads)
        wolfhound.set_threads(threads)
        torch.manual_seed(threads)
        np.random.seed(threads)
        trained.append(quick(Bandit(), ActionSet(cloud())).learn(160))
    for one, two in zip(*map(weights, trained), strict=True):
        assert np.array_equal(one, two)
    assert trained[0].stats.updates == trained[1].stats.updates > 30


@pytest.mark.slow
def test_an_index_answers_alike_twice() -> None:
    rows = cloud(300)
    index = wolfhound.ClusterIndex.build(rows, budget=20)
    one, two = (quick(Bandit(), ActionSet(rows, oracle=index)).learn(80) for _ in range(2))
    assert all(map(np.array_equal, weights(one), weights(two)))
    exact = quick(Bandit(), ActionSet(rows)).learn(80)
    assert one.stats.scored < exact.stats.scored


def test_another_seed_gives_another_agent() -> None:
    one, two = (quick(Bandit(), ActionSet(cloud()), seed=seed).learn(80) for seed in (0, 1))
    assert not np.isclose(weights(one)[0], weights(two)[0]).all()


def test_only_the_first_reset_has_the_seed() -> None:
    env = Bandit(horizon=2)
    quick(env, corners(), seed=5).learn(64).learn(64)
    assert env.seeds == [5, *[None] * 7]


# ---------------------------------------------------------------- learning


class Ending(gymnasium.Env[Rows, Rows]):
    """Each step earns 1; after `length` steps the episode ends, or is merely cut off."""

    observation_space = gymnasium.spaces.Box(-1.0, 1.0, (2,), np.float32)
    action_space = gymnasium.spaces.Box(-1.0, 1.0, (3,), np.float32)

    def __init__(self, ends: bool) -> None:
        self._ends = ends

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Rows, dict[str, Any]]:
        return np.zeros(2, np.float32), {}

    def step(self, action: Rows) -> tuple[Rows, float, bool, bool, dict[str, Any]]:
        assert self.action_space.contains(action)
        return np.zeros(2, np.float32), 1.0, self._ends, not self._ends, {}


@pytest.mark.slow
@pytest.mark.parametrize(("ends", "value"), [(True, 1.0), (False, 2.0)])
def test_an_end_is_not_a_cut(ends: bool, value: float) -> None:
    settings = replace(QUICK, gamma=0.5, tau=0.5)
    agent = Agent(Ending(ends), corners(), rule=Wolpertinger(neighbours=3), settings=settings).learn(200)
    brain = learner(agent).brain
    with torch.no_grad():
        found = brain.critic.first(torch.zeros(1, 2), torch.eye(3)[:1])
    assert float(found) == pytest.approx(value, abs=0.1)
    assert agent.stats.mean_return == 1.0
    assert agent.stats.episodes == 200


def test_updates_are_due_by_transitions() -> None:
    agent = quick(Bandit(size=8), corners(), learning_starts=40, train_freq=16, gradient_steps=3)
    # 40 transitions to start with; then after 48, 64, ..., 128.
    assert agent.learn(128).stats.updates == 6 * 3


def test_divergence_is_said() -> None:
    class Huge(Bandit):
        def step(self, actions: Any) -> tuple[Rows, Rows, bool]:
            obs, rewards, cut = super().step(actions)
            return obs, np.full_like(rewards, 1e30), cut

    with pytest.raises(FloatingPointError, match="loss of the critic is inf after 0 updates"):
        quick(Huge(), corners()).learn(200)


# ---------------------------------------------------------------- reports


def test_reports_and_callback() -> None:
    seen: list[Training] = []

    def stop(report: Training) -> bool:
        seen.append(report)
        return report.timesteps >= 56

    agent = quick(Bandit(size=8, horizon=3), corners())
    agent.learn(1000, callback=stop)
    assert [report.timesteps for report in seen] == list(range(8, 57, 8))
    assert seen[-1].episodes == 16
    assert math.isnan(seen[1].mean_return)
    assert -9.0 < seen[-1].mean_return < 3.0
    assert agent.num_timesteps == 56
    assert agent.status is Status.STOPPED
    assert agent.learn(16, callback=lambda _: None, reset_num_timesteps=False).status is Status.FINISHED
    assert agent.num_timesteps == 72
    assert agent.learn(16).num_timesteps == 16


@pytest.mark.slow
def test_audits_measure_the_oracle() -> None:
    rows = cloud(400)
    exact = quick(Bandit(), ActionSet(rows), audit_every=4).learn(160).stats
    assert exact.ratio_mean == pytest.approx(1.0)
    weak = wolfhound.RandomSubset(rows, size=4, seed=0)
    poor = quick(Bandit(), ActionSet(rows, oracle=weak, cache=0), audit_every=4).learn(160).stats
    assert poor.ratio_p5 < poor.ratio_mean < 0.95
    assert poor.scored < exact.scored
    assert math.isnan(quick(Bandit(), corners()).learn(80).stats.ratio_mean)


def test_csv_log_is_continued(tmp_path: Path) -> None:
    log = tmp_path / "log.csv"
    agent = quick(Bandit(size=8), corners())
    agent.learn(64, log=log, log_interval=16)
    agent.learn(32, log=log, log_interval=16, reset_num_timesteps=False)
    with log.open() as stream:
        rows = list(csv.DictReader(stream))
    assert [int(row["timesteps"]) for row in rows] == [8, 16, 32, 48, 64, 72, 80, 96]
    assert float(rows[-1]["critic_loss"]) == agent.stats.critic_loss
    assert int(rows[-1]["updates"]) == agent.stats.updates


def test_time_is_limited() -> None:
    agent = quick(Bandit(size=8), corners()).learn(10**6, max_seconds=0.0)
    assert agent.status is Status.MAX_SECONDS
    assert agent.num_timesteps == 8


def test_what_was_learned_stays_after_an_interruption() -> None:
    def interrupt(training: Training) -> None:
        if training.timesteps == 64:
            raise KeyboardInterrupt

    agent, other = (quick(Bandit(size=8), corners()) for _ in range(2))
    agent.learn(1000, callback=interrupt)
    assert agent.status is Status.INTERRUPTED
    assert all(map(np.array_equal, weights(agent), weights(other.learn(64))))
    assert agent.learn(16, reset_num_timesteps=False).status is Status.FINISHED
    assert agent.num_timesteps == 80


# ---------------------------------------------------------------- files


@pytest.mark.slow
def test_a_loaded_agent_decides_and_learns_alike(tmp_path: Path) -> None:
    rows, obs = cloud(), np.random.default_rng(2).standard_normal((6, 2))
    agent = quick(Bandit(), ActionSet(rows)).learn(120)
    agent.save(tmp_path / "agent", replay=True)
    env = Bandit()
    copies = [Agent.load(tmp_path / "agent", ActionSet(rows), env=each) for each in (Bandit(), env)]
    assert copies[0].settings == agent.settings
    assert copies[0].num_timesteps == agent.num_timesteps
    for one, two in zip(weights(agent), weights(copies[0]), strict=True):
        assert np.array_equal(one, two)
    assert np.array_equal(copies[0].predict(obs)[0], agent.predict(obs)[0])
    # The buffer, the moments of Adam and the generator came along: one more update is the same.
    for each in (agent, copies[0]):
        learner(each).update()
    for one, two in zip(weights(agent), weights(copies[0]), strict=True):
        assert np.array_equal(one, two)
    copies[1].learn(80, reset_num_timesteps=False)
    assert env.seeds == [120, None]
    assert copies[1].num_timesteps == 200
    assert copies[1].stats.updates > agent.stats.updates


FORGED: dict[str, Callable[[dict[str, Any], dict[str, Any]], object]] = {
    "a network as large as memory": lambda _, params: params["settings"].update(hidden=10**7),
    "observations as wide as memory": lambda _, params: params.update(obs_dim=10**12),
    "weights that are nan": lambda arrays, _: arrays.update(actor=np.full_like(arrays["actor"], np.nan)),
    "moments of another size": lambda arrays, _: arrays.update(adam_actor_exp_avg=np.ones(3, np.float32)),
    "more transitions than are kept": lambda arrays, _: arrays.update(replay_added=np.array(7)),
    "counts of text": lambda _, params: params.update(counts=["many"] * 4),
    "another generator": lambda _, params: params["rng"].update(bit_generator="MT19937"),
    "an unknown rule": lambda _, params: params["rule"].update(name="bash"),
    "no settings": lambda _, params: params.pop("settings"),
}


@pytest.mark.slow
@pytest.mark.parametrize("how", FORGED)
def test_what_no_agent_can_have_saved_is_refused(how: str, tmp_path: Path) -> None:
    rows = cloud()
    quick(Bandit(), ActionSet(rows)).learn(120).save(tmp_path / "agent", replay=True)
    kind = store.describe(tmp_path / "agent")[0]
    stored = store.load(tmp_path / "agent", kind)
    arrays, params = dict(stored.arrays), dict(stored.params)
    FORGED[how](arrays, params)
    store.save(tmp_path / "agent", kind, arrays, params, stored.fingerprint)
    with pytest.raises(StoreError):
        Agent.load(tmp_path / "agent", ActionSet(rows))


def test_sfwpo_comes_back_as_sfwpo(tmp_path: Path) -> None:
    agent = SFWPO(
        Bandit(),
        corners(),
        settings=Settings(hidden=8, seed=7),
        decision=HullDecision(refine=1, project=2),
        execution=Nearest(),
    )
    agent.save(tmp_path / "saved")
    loaded = SFWPO.load(tmp_path / "saved", corners())
    assert isinstance(loaded, SFWPO)
    assert loaded.settings == Settings(hidden=8, seed=7)
    obs = np.ones(2)
    assert np.array_equal(loaded.predict(obs)[0], agent.predict(obs)[0])
    with pytest.raises(ValueError, match="`env` must be given to `load`"):
        loaded.learn(10)


def test_wrong_files_are_refused(tmp_path: Path) -> None:
    Agent(Bandit(), corners(), rule=TD3(), settings=QUICK).save(tmp_path / "saved")
    with pytest.raises(StoreError, match="must be the atoms that"):
        Agent.load(tmp_path / "saved", ActionSet(2.0 * np.eye(3, dtype=np.float32)))
    with pytest.raises(StoreError, match=r"must hold an agent of sfwpo\. Got one of td3"):
        SFWPO.load(tmp_path / "saved", corners())
    with pytest.raises(ValueError, match="`critic_features` must be such that critic has 770 weights"):
        Agent.load(tmp_path / "saved", corners(), critic_features=lambda obs, actions: obs)
    with pytest.raises(StoreError, match="No such file"):
        Agent.load(tmp_path / "none", corners())


# ---------------------------------------------------------------- wrong use


@pytest.mark.parametrize(
    ("name", "value", "rule"),
    [
        ("gamma", 1.0, r"in \[0, 1\)"),
        ("tau", 0.0, r"in \(0, 1\]"),
        ("learning_rate", 0.0, "a number > 0"),
        ("learning_rate", math.inf, "finite"),
        ("batch_size", 0, "an integer >= 1"),
        ("policy_delay", 0, "an integer >= 1"),
        ("seed", -1, "an integer >= 0"),
        ("exploration", 1.5, r"in \[0, 1\]"),
        ("refine", -1, "an integer >= 0"),
    ],
)
def test_bad_options_are_refused(name: str, value: float, rule: str) -> None:
    record: Any = HullDecision if name in ("exploration", "refine") else Settings
    with pytest.raises(ValueError, match=f"`{name}` must be {rule}"):
        record(**{name: value})


def test_bad_environments_and_observations_are_refused() -> None:
    nowhere: Any = object()
    with pytest.raises(TypeError, match=r"`env` must be a batched or a Gymnasium environment\. Got a obj"):
        quick(nowhere, corners())
    with pytest.raises(ValueError, match=r"`env.action_space` must be a Box of shape \(2,\)"):
        quick(Ending(True), ActionSet(np.eye(2)))
    agent = quick(Bandit(), corners(), execution=Mix())
    with pytest.raises(ValueError, match="`observation` must be of 2 numbers each"):
        agent.predict(np.zeros((1, 3)))
    with pytest.raises(ValueError, match="`observation` must be finite"):
        agent.predict([np.nan, 0.0])
    with pytest.raises(ValueError, match="`total_timesteps` must be an integer >= 1"):
        agent.learn(0)


def test_agents_say_what_they_are() -> None:
    agent = SFWPO(Bandit(), corners(), settings=QUICK).learn(100)
    far = f"{agent.num_timesteps} steps, mean return {agent.stats.mean_return:.4g}"
    assert repr(agent) == f"SFWPO({agent.actions!r}, Mix(), {far})"
    assert repr(quick(Bandit(), corners())).startswith("Agent(FrankWolfeRule(decision=HullDecision(project=4")
    assert "mean return" not in repr(SFWPO(Bandit(), corners(), settings=QUICK))


def test_learning_says_what_it_earns(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("wolfhound.core.progress._LINE_INTERVAL", 0.0)
    SFWPO(Bandit(), corners(), settings=QUICK).learn(100, progress=True)
    assert re.search(r"\d+ of 100 steps, mean return -?[\d.]+, ", capfd.readouterr().err)
