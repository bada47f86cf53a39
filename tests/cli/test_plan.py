"""`wolfhound plan`: the table, the document, the picture, and wrong use."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tests.cli.conftest import Run, words
from wolfhound.machine import Calibration
from wolfhound.planning.plan import plan

ROWS = np.random.default_rng(3).standard_normal((300, 6)).astype(np.float32)
SIZE = ("--n", "1e6", "--d", "128")


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with atoms, made the current one; nothing is calibrated."""
    path = tmp_path / "speeds.json"
    monkeypatch.setenv("WOLFHOUND_CALIBRATION", str(path))
    monkeypatch.chdir(tmp_path)
    np.save("atoms.npy", ROWS)
    return path


def test_numbers_alone_are_enough(run: Run) -> None:
    ran = run("plan", *SIZE, "--ratio", "0.9", "--queries", "2e5")
    expected = plan(n=10**6, d=128, ratio=0.9, queries=200_000, calibration=Calibration())
    assert ran == (0, f"{expected}\n", "")


def test_atoms_are_looked_at(run: Run) -> None:
    ran = run("plan", "atoms.npy", "--atol", "1e-3", "--seed", "5")
    assert ran == (0, f"{plan('atoms.npy', atol=1e-3, seed=5)}\n", "")
    assert "300 atoms read: radius " in ran.out


def test_every_option_is_passed_on(run: Run) -> None:
    arguments = "--ratio .7 --tau .6 --delta .2 --interior --batch 8 --queries 1e4".split()
    expected = plan(n=10**6, d=128, ratio=0.7, tau=0.6, delta=0.2, interior=True, batch=8, queries=10**4)
    assert run("plan", *SIZE, *arguments).out == f"{expected}\n"
    arguments = "--atol .01 --smoothness 2 --diameter 3 --first 4".split()
    expected = plan(n=10**6, d=128, atol=0.01, smoothness=2.0, diameter=3.0, first=4.0)
    assert run("plan", *SIZE, *arguments).out == f"{expected}\n"


def test_the_saved_speeds_are_used(run: Run, place: Path) -> None:
    before = run("plan", *SIZE).out
    Calibration(threads=1, file=1e-3, read=1e-3, encode=1.0).save(place)
    assert run("plan", *SIZE).out != before
    place.write_text("{")
    ran = run("plan", *SIZE)
    assert (ran.code, ran.out) == (2, "")
    assert "run `wolfhound bench` again, or delete the file." in ran.err


def test_json_of_a_plan(run: Run) -> None:
    ran = run("plan", *SIZE, "--ratio", "1", "--json")
    assert (ran.code, ran.err) == (0, "")
    document = json.loads(ran.out)
    expected = plan(n=10**6, d=128, ratio=1.0)
    assert document["options"][0]["total_seconds"] == expected.options[0].total_seconds
    assert document["break_even"] == expected.exponents.break_even
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
        ([*SIZE, "--first", "1"], "`--first` must be given with `--atol` only. Got 1."),
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
