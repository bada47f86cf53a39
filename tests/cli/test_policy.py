"""`wolfhound policy`: train and compare, and every way to misuse them."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import csv
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import wolfhound as wh
from tests.cli.conftest import Run, words
from tests.cli.test_main import shell
from wolfhound import store
from wolfhound.cli import _policy
from wolfhound.policy.actions import ActionSet
from wolfhound.policy.deep.agent import SFWPO, Agent
from wolfhound.policy.deep.training import Trainer
from wolfhound.policy.feed import Feed, feed_features

ITEMS = np.random.default_rng(5).standard_normal((200, 4)) + 0.3
SMALL = ("--steps", 64, "--users", 50, "--episodes", 4)
"""Too little to learn from."""

ENOUGH = ("--steps", 832, "--users", 50, "--episodes", 4)
"""A little more than is collected before the first update."""


@pytest.fixture(autouse=True)
def items(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder with items, made the current one."""
    monkeypatch.chdir(tmp_path)
    np.save("items.npy", ITEMS)
    np.save("other.npy", ITEMS)


def numbers(text: str) -> dict[str, float]:
    """The table of returns."""
    lines = text.splitlines()[1:6]
    return {line.rsplit(None, 1)[0].strip(): float(line.rsplit(None, 1)[1]) for line in lines}


# ---------------------------------------------------------------- help


@pytest.mark.parametrize(
    ("command", "example"),
    [
        ("train", "wolfhound policy train items.npy --out agent --log training.csv"),
        ("compare", "wolfhound policy compare --steps 3000 --seeds 2"),
    ],
)
def test_help_shows_examples(run: Run, command: str, example: str) -> None:
    ran = run("policy", command, "--help")
    assert ran.code == 0
    assert example in words(ran.out)


def test_the_group_lists_its_commands(run: Run) -> None:
    ran = run("policy", "--help")
    assert ran.code == 0
    assert all(f" {command} " in words(ran.out) for command in ("solve", "train", "compare"))


@pytest.mark.slow
def test_help_loads_nothing_heavy() -> None:
    code = (
        "import sys; from typer.testing import CliRunner; from wolfhound.cli._app import app;"
        "assert CliRunner().invoke(app, ['policy', 'train', '--help']).exit_code == 0;"
        "print([m for m in ('numba', 'scipy', 'matplotlib', 'torch', 'gymnasium') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


# ---------------------------------------------------------------- train


@pytest.mark.slow
def test_an_agent_is_trained_tested_and_saved(run: Run) -> None:
    ran = run("policy", "train", "items.npy", *ENOUGH, "--out", "agent", "--log", "run.csv")
    assert (ran.code, ran.err) == (0, "")
    assert list(numbers(ran.out)) == ["agent", "myopic hull", "greedy", "mean item", "random"]
    assert "832 steps and 12 updates" in ran.out
    assert ran.out.endswith("Agent: agent\n")
    feed = Feed.build(ITEMS, users=50)
    agent = SFWPO.load("agent", ActionSet(feed.atoms), critic_features=feed_features)
    action, _ = agent.predict(feed.start(1, np.random.default_rng(0)))
    assert ActionSet(feed.atoms).prove(action[0], rtol=1e-9).value < 1e-8
    with open("run.csv", newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert [int(row["timesteps"]) for row in rows] == sorted(int(row["timesteps"]) for row in rows)


@pytest.mark.slow
def test_json_is_one_document(run: Run) -> None:
    ran = run("policy", "train", "items.npy", *SMALL, "--json")
    document = json.loads(ran.out)
    assert (ran.code, ran.err) == (0, "")
    assert set(document["returns"]) == {"agent", "myopic hull", "greedy", "mean item", "random"}
    assert (document["timesteps"], document["updates"], document["folder"]) == (64, 0, None)
    assert document["ms_per_update"] is None
    assert document["returns"]["random"] < document["returns"]["myopic hull"]


@pytest.mark.slow
def test_the_seed_decides(run: Run) -> None:
    first, again, other = (
        json.loads(run("policy", "train", "items.npy", *SMALL, "--seed", seed, "--json").out)["returns"]
        for seed in (1, 1, 2)
    )
    assert first == again
    assert first["agent"] != other["agent"]


@pytest.mark.slow
@pytest.mark.parametrize("method", ["nfwpo", "td3", "wolpertinger"])
def test_rivals_are_trained_too(run: Run, method: str) -> None:
    ran = run("policy", "train", "items.npy", *ENOUGH, "--method", method, "--out", "agent", "--json")
    assert ran.code == 0
    feed = Feed.build(ITEMS, users=50)
    agent = Agent.load("agent", ActionSet(feed.atoms), critic_features=feed_features)
    assert agent.predict(feed.start(2, np.random.default_rng(0)))[0].shape == (2, 4)


@pytest.mark.slow
@pytest.mark.parametrize("execution", ["nearest", "draw"])
def test_single_items_can_be_executed(run: Run, execution: str) -> None:
    ran = run("policy", "train", "items.npy", *SMALL, "--execution", execution, "--out", "agent")
    assert ran.code == 0
    feed = Feed.build(ITEMS, users=50)
    agent = SFWPO.load("agent", ActionSet(feed.atoms), critic_features=feed_features)
    shown, _ = agent.predict(feed.start(6, np.random.default_rng(0)))
    assert (shown[:, None] == feed.atoms[None]).all(axis=2).any(axis=1).all()


@pytest.mark.parametrize(
    ("search", "kind"), [("int8", wh.Int8Scan), ("clusters", wh.ClusterIndex), ("lsh", wh.LshIndex)]
)
def test_every_search_has_its_oracle(search: str, kind: type) -> None:
    feed = Feed.build(np.random.default_rng(0).standard_normal((4000, 8)), users=5)
    assert isinstance(_policy.oracle_of(feed, search, 1000, 0.8), kind)


def test_a_scan_needs_no_oracle_and_auto_chooses_one() -> None:
    feed = Feed.build(ITEMS, users=5)
    assert _policy.oracle_of(feed, _policy.SCAN, 1000, 0.8) is None
    assert _policy.oracle_of(feed, _policy.AUTO, 1000, 1.0) is not None


def test_an_interrupted_run_saves_what_it_learned(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(self: Trainer) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Trainer, "advance", interrupted)
    assert run("policy", "train", "items.npy", *SMALL, "--out", "agent").code == 130
    assert store.kind("agent") == "agent"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["missing.npy"], "missing.npy"),
        (["items.npy", "--log", "run.txt"], "`--log` must end in .csv. Got run.txt."),
        (["items.npy", "--out", "items.npy"], "`--out` must not be what ATOMS reads. Got items.npy."),
        (["items.npy", "--out", "other.npy"], "`--out` must be a new or empty folder"),
        (["items.npy", "--ratio", "2"], "`--ratio` must be in (0, 1]. Got 2.0."),
    ],
)
def test_misuse_is_told_in_a_line(run: Run, arguments: list[str], message: str) -> None:
    ran = run("policy", "train", *arguments)
    assert (ran.code, ran.out) == (2, "")
    assert message in ran.err
    assert ran.err.count("\n") == 1


def test_nothing_but_an_agent_is_written_over(run: Run) -> None:
    wh.minimize(wh.SquaredDistance(np.ones(4)), ITEMS).save("kept")
    ran = run("policy", "train", "items.npy", "--out", "kept")
    assert ran.code == 2
    assert "Got a result in kept" in ran.err
    assert store.kind("kept") == "result"


# ---------------------------------------------------------------- compare


@pytest.mark.slow
def test_policies_are_compared(run: Run) -> None:
    only = "sfwpo-index,td3,greedy,random"
    arguments = ("--seeds", 1, "--points", 1, "--only", only, "--plot", "c.svg")
    ran = run("policy", "compare", "items.npy", *ENOUGH, *arguments)
    assert (ran.code, ran.err) == (0, "")
    names = {line.split("  ")[0] for line in ran.out.splitlines()[1:5]}
    assert names == {"SFWPO, index", "TD3", "greedy", "random"}
    assert ran.out.endswith("Picture: c.svg\n")
    assert Path("c.svg").read_bytes().startswith(b"<?xml")


@pytest.mark.slow
def test_json_of_a_comparison(run: Run) -> None:
    arguments = ("--seeds", 2, "--points", 2, "--only", "sfwpo-exact, mean-item", "--json")
    ran = run("policy", "compare", "items.npy", *SMALL, *arguments)
    policies = {row["name"]: row for row in json.loads(ran.out)["policies"]}
    assert (ran.code, ran.err) == (0, "")
    assert set(policies) == {"SFWPO, exact", "mean item"}
    learned = policies["SFWPO, exact"]
    assert np.shape(learned["returns"]) == (2, 2)
    assert learned["steps"] == [32, 64]
    assert learned["mean"] == pytest.approx(np.mean(learned["returns"], axis=0)[-1])
    assert policies["mean item"]["ms_per_update"] is None


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--only", "sfwpo-index,magic"], "`--only` must be of sfwpo-index, sfwpo-exact, nfwpo,"),
        (["--plot", "curves.txt"], "`--plot` must end in .png, .svg, .pdf. Got curves.txt."),
    ],
)
def test_misuse_of_compare_is_told_in_a_line(run: Run, arguments: list[str], message: str) -> None:
    ran = run("policy", "compare", "items.npy", *arguments)
    assert (ran.code, ran.out) == (2, "")
    assert message in ran.err
    assert ran.err.count("\n") == 1


# ---------------------------------------------------------------- without the extra


@pytest.fixture
def no_torch(tmp_path: Path) -> str:
    """A folder in which importing torch or gymnasium fails, to come first on the path."""
    blocked = tmp_path / "blocked"
    blocked.mkdir()
    for name in ("torch", "gymnasium"):
        (blocked / f"{name}.py").write_text(f"raise ImportError('No module named {name}')\n")
    return str(blocked)


@pytest.mark.slow
@pytest.mark.parametrize("command", ["train", "compare"])
def test_without_torch_it_says_what_to_install(no_torch: str, command: str) -> None:
    path = f"{no_torch}:{Path(wh.__file__).parents[1]}"
    done = shell("policy", command, "items.npy", PYTHONPATH=path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "error: policies that learn need torch: pip install 'wolfhound[rl]'\n"


@pytest.mark.slow
def test_the_tabular_command_needs_neither(no_torch: str) -> None:
    path = f"{no_torch}:{Path(wh.__file__).parents[1]}"
    done = shell("policy", "solve", "--states", "5", "--rows", "100", "--dim", "4", PYTHONPATH=path)
    # Compiling may take long enough for a line of progress on stderr.
    assert done.returncode == 0
    assert done.stdout.startswith("GAP_REACHED")
