"""`wolfhound policy solve`: files and names to a policy, a table, a document."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from tests.cli.conftest import Ran, Run, words
from wolfhound.cli._app import app
from wolfhound.core import progress
from wolfhound.policy import ACMDP, QuadraticReward, TabularResult, policy_iteration, random_acmdp


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run the command by itself, with the error messages of the whole command line."""
    monkeypatch.setattr(progress, "_LINE_INTERVAL", math.inf)

    def call(*arguments: object) -> Ran:
        given = ["policy", "solve", *(str(argument) for argument in arguments)]
        result = CliRunner().invoke(app, given, catch_exceptions=False)
        return Ran(result.exit_code, result.stdout, result.stderr)

    return call


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ACMDP:
    """A small affine model, its parts in files of the current folder."""
    acmdp: Any = random_acmdp(6, 80, 4, gamma=0.8)
    np.save(tmp_path / "atoms.npy", acmdp.actions.atoms.take(np.arange(80)))
    np.save(tmp_path / "R.npy", acmdp.reward.weights)
    np.save(tmp_path / "P.npy", acmdp.transition.tensor)
    np.save(tmp_path / "C.npy", np.full((6, 4), 0.25))
    np.save(tmp_path / "mu.npy", np.array([1.0, 0.0, 0.0, 0.0, 0.0, 0.0]))
    monkeypatch.chdir(tmp_path)
    solved: ACMDP = acmdp
    return solved


FILES = ("atoms.npy", "--reward", "R.npy", "--transition", "P.npy", "--gamma", 0.8)


def test_files_make_the_model(run: Run, model: ACMDP) -> None:
    ran = run(*FILES, "--json", "--rtol", 1e-6)
    found = json.loads(ran.out)
    best = policy_iteration(model)
    assert ran.code == 0 and found["success"]
    assert found["J"] == pytest.approx(best.score) and found["upper"] == pytest.approx(best.score)
    assert [state["weights"] for state in found["policy"]] == [[1.0]] * 6
    assert [state["atoms"] for state in found["policy"]] == best.ids[:, :1].tolist()


def test_curvature_centres_and_start(run: Run, model: ACMDP) -> None:
    more = ("--curvature", 2.0, "--centres", "C.npy", "--start", "mu.npy", "--rtol", 0.01)
    found = json.loads(run(*FILES, *more, "--json").out)
    reward = QuadraticReward(np.load("R.npy"), np.load("C.npy"), curvature=2.0)
    acmdp = ACMDP(reward, model.transition, 0.8, np.load("mu.npy"), model.actions)
    rows = np.load("atoms.npy")
    policy = np.stack([np.array(s["weights"]) @ rows[s["atoms"]] for s in found["policy"]])
    assert acmdp.evaluate(policy).score == pytest.approx(found["J"])
    assert found["success"] and "QuadraticReward" in found["problem"]


@pytest.mark.slow
@pytest.mark.parametrize("search", ["scan", "int8", "clusters", "lsh", "auto"])
def test_every_search_gets_there(run: Run, model: ACMDP, search: str) -> None:
    found = json.loads(run(*FILES, "--search", search, "--json", "--rtol", 1e-6).out)
    assert found["success"] and found["J"] == pytest.approx(policy_iteration(model).score)


STEPS = [("per-state", 0), ("backtracking", 0), ("visitation", 1), ("paper", 1)]


@pytest.mark.parametrize(("step", "code"), STEPS)
def test_every_step_is_there(run: Run, model: ACMDP, step: str, code: int) -> None:
    ran = run(*FILES, "--step", step, "--max-steps", 30)
    assert ran.code == code
    assert ("MAX_STEPS" in ran.out) == bool(code)


def test_a_random_model_by_default(run: Run) -> None:
    ran = run("--states", 5, "--rows", 60, "--dim", 3)
    told = words(ran.out)
    assert ran.code == 0 and "5 states, actions of 3 entries, at most 1 atoms each" in told
    assert all(word in told for word in ("GAP_REACHED", "upper", "passes", "5 of 5 states proved"))


@pytest.mark.slow
def test_files_are_written(run: Run, model: ACMDP, tmp_path: Path) -> None:
    ran = run(*FILES, "--out", "policy.csv", "--save", "run", "--plot", "run.svg")
    assert ran.code == 0
    lines = (tmp_path / "policy.csv").read_text().splitlines()
    assert lines[0] == "state,id,weight" and len(lines) == 7
    saved = TabularResult.load(tmp_path / "run", atoms=model.actions.atoms)
    assert [int(line.split(",")[1]) for line in lines[1:]] == saved.ids[:, 0].tolist()
    assert (tmp_path / "run.svg").stat().st_size > 1000


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--reward", "R.npy"), "`--reward` must not be given without ATOMS. Got R.npy."),
        (("--rows", 10.5), "`--rows` must be a whole number. Got 10.5."),
        (("atoms.npy",), "`--reward` must be given with ATOMS."),
        (("atoms.npy", "--reward", "R.npy"), "`--transition` must be given with ATOMS."),
        ((*FILES, "--centres", "C.npy"), "`--centres` must not be given without --curvature. Got C.npy."),
        ((*FILES[:4], "P.csv"), "`--transition` must be a .npy file of S x d x S numbers. Got P.csv."),
        ((*FILES[:4], "Q.npy"), "`path` must name a file. Got 'Q.npy', which is not there."),
        ((*FILES, "--gamma", 1.0), "`--gamma` must be in [0, 1). Got 1.0."),
        (
            (*FILES, "--out", "x.txt"),
            "`--out` must end in .csv, .json, .npy, .parquet, .arrow, .feather. Got x.txt.",
        ),
    ],
)
def test_mistakes(run: Run, model: ACMDP, arguments: tuple[object, ...], message: str) -> None:
    ran = run(*arguments)
    assert ran.code == 2 and message in words(ran.err)
