"""What is written down of a training run: tests in between, a CSV file, TensorBoard."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tests.policy.deep import QUICK, Bandit, corners
from wolfhound.policy import SFWPO, Training, evaluate
from wolfhound.policy.deep.worlds import FRESH


def agent() -> SFWPO:
    return SFWPO(Bandit(), corners(), settings=QUICK)


def test_evaluations_are_in_the_log(tmp_path: Path) -> None:
    path, told = tmp_path / "training.csv", list[Training]()
    one = agent()
    options: dict[str, Any] = {"eval_env": Bandit(), "eval_freq": 40, "n_eval_episodes": 8}
    one.learn(80, log=path, log_interval=40, callback=told.append, **options)
    log = pd.read_csv(path)
    assert log.timesteps.tolist() == [8, 40, 80]
    assert math.isnan(log.eval_return[0])
    wanted = evaluate(one, Bandit(), episodes=8, seed=FRESH).mean()
    assert log.eval_return[2] == pytest.approx(wanted, rel=1e-12)
    assert [each.timesteps for each in told if each.eval_return == told[-1].eval_return] == [80]


def test_tests_do_not_disturb_training() -> None:
    obs = np.ones((3, 2), np.float32)
    watched = agent().learn(80, eval_env=Bandit(), eval_freq=8, n_eval_episodes=8)
    np.testing.assert_array_equal(watched.predict(obs)[0], agent().learn(80).predict(obs)[0])


def test_a_log_of_something_else_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "mine.csv"
    path.write_text("a,b\n1,2\n")
    with pytest.raises(ValueError, match="`log` must be a new file, or a log with the columns"):
        agent().learn(8, log=path)
    assert path.read_text() == "a,b\n1,2\n"


@pytest.mark.slow
def test_tensorboard_reads_what_was_written(tmp_path: Path) -> None:
    # In a process of its own: what tensorboard warns of is not ours to mend.
    script = f"""
from tests.policy.test_logs import agent
from tests.policy.deep import Bandit
agent().learn(80, tensorboard={str(tmp_path)!r}, log_interval=40, eval_env=Bandit(), eval_freq=40)
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
events = EventAccumulator({str(tmp_path)!r})
events.Reload()
print([each.step for each in events.Scalars("eval/mean_reward")])
print([each.step for each in events.Scalars("oracle/scored")])
"""
    root = Path(__file__).parents[2]
    run = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, cwd=root, check=False
    )
    assert run.stdout.split("\n")[:2] == ["[40, 80]", "[8, 40, 80]"], run.stderr


def test_without_tensorboard_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(ImportError, match=r'pip install "wolfhound\[tensorboard\]"'):
        agent().learn(8, tensorboard=tmp_path / "runs")
