"""`wolfhound plan`: the table, the document, the picture, and wrong use."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tests.cli.conftest import Run, words
from wolfhound.oracles.indexes import Speeds
from wolfhound.planning.plan import plan

ROWS = np.random.default_rng(3).standard_normal((300, 6)).astype(np.float32)
SIZE = ("--n", "1e6", "--d", "128")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder with atoms, made the current one, on a machine of fixed speeds."""
    monkeypatch.setattr(Speeds, "here", Speeds)
    monkeypatch.chdir(tmp_path)
    np.save("atoms.npy", ROWS)


def test_numbers_alone_are_enough(run: Run) -> None:
    ran = run("plan", *SIZE, "--ratio", "0.9", "--queries", "2e5")
    expected = plan(n=10**6, d=128, ratio=0.9, queries=200_000, speeds=Speeds())
    assert ran == (0, f"{expected}\n", "")


def test_atoms_are_looked_at(run: Run) -> None:
    ran = run("plan", "atoms.npy", "--seed", "5")
    assert ran == (0, f"{plan('atoms.npy', seed=5)}\n", "")
    assert "typical of herding, by a sample" in ran.out


def test_every_option_is_passed_on(run: Run) -> None:
    arguments = "--ratio .7 --tau .6 --interior --batch 8 --queries 1e5".split()
    expected = plan(n=10**6, d=128, ratio=0.7, tau=0.6, interior=True, batch=8, queries=10**5)
    assert run("plan", *SIZE, *arguments).out == f"{expected}\n"


def test_json_of_a_plan(run: Run) -> None:
    ran = run("plan", *SIZE, "--ratio", "1", "--json")
    assert (ran.code, ran.err) == (0, "")
    document = json.loads(ran.out)
    expected = plan(n=10**6, d=128, ratio=1.0)
    assert document["options"][0]["total_seconds"] == expected.options[0].total_seconds
    assert document["break_even"] == expected.break_even
    assert document["pays"] is False
    assert [each["total_seconds"] for each in document["options"] if each["name"] == "subset"] == [None]


@pytest.mark.slow
@pytest.mark.parametrize("ending", ["png", "svg"])
def test_a_picture_is_drawn(run: Run, ending: str) -> None:
    assert run("plan", *SIZE, "--plot", f"plan.{ending}").code == 0
    assert Path(f"plan.{ending}").stat().st_size > 10_000


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "`ATOMS` must be given, or both `--n` and `--d`."),
        (["--n", "10"], "`ATOMS` must be given, or both `--n` and `--d`."),
        (["atoms.npy", "--n", "10"], "`--n` and `--d` must not be given with `ATOMS`"),
        (["--n", "1.5", "--d", "3"], "`--n` must be a whole number. Got 1.5."),
        (["--n", "inf", "--d", "3"], "`--n` must be a whole number. Got inf."),
        (["--n", "1", "--d", "3"], "`--n` must be an integer >= 3. Got 1."),
        ([*SIZE, "--queries", "nan"], "`--queries` must be a whole number. Got nan."),
        ([*SIZE, "--ratio", "1.5"], "`--ratio` must be in (0, 1]. Got 1.5."),
        ([*SIZE, "--tau", "0"], "`--tau` must be in (0, 1). Got 0.0."),
        ([*SIZE, "--plot", "plan.txt"], "`--plot` must end in .png, .svg, .pdf. Got plan.txt."),
        ([*SIZE, "--plot", "no/plan.png"], "`--plot` must be in a folder that exists."),
        (["missing.npy"], "missing.npy"),
    ],
)
def test_a_mistake_is_told_in_one_line(run: Run, arguments: list[str], message: str) -> None:
    ran = run("plan", *arguments)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("error: ")
    assert message in ran.err
    assert ran.err.count("\n") == 1


@pytest.mark.parametrize("arguments", [["--n", "many"], [*SIZE, "--batch", "0"], [*SIZE, "--fly"]])
def test_what_is_no_option_exits_with_2(run: Run, arguments: list[str]) -> None:
    ran = run("plan", *arguments)
    assert (ran.code, ran.out) == (2, "")


def test_help_shows_examples(run: Run) -> None:
    ran = run("plan", "--help")
    assert ran.code == 0
    assert "wolfhound plan --n 1e6 --d 128 --ratio 0.9" in words(ran.out)
