"""`wolfhound solve`: every objective and method agree with the library."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import csv
import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wolfhound as wh
from tests.cli.conftest import NAMES, Run
from wolfhound.core.contracts import Objective

PROBLEMS: dict[str, list[str]] = {
    "squared-distance": ["--target", "point.npy"],
    "least-squares": ["--design", "A.npy", "--response", "b.npy"],
    "logistic": ["--design", "A.npy", "--labels", "y.npy"],
    "huber": ["--design", "A.npy", "--response", "b.npy", "--delta", "0.5"],
    "mixture": [],
}
POINT = ["solve", "atoms.npy", "--objective", "squared-distance", "--target", "point.npy"]


def library(name: str) -> Objective:
    """Return the same objective, made by hand."""
    design, response = np.load("A.npy"), np.load("b.npy")
    objectives: dict[str, Objective] = {
        "squared-distance": wh.SquaredDistance(np.load("point.npy")),
        "least-squares": wh.LeastSquares(design, response),
        "logistic": wh.Logistic(design, np.load("y.npy")),
        "huber": wh.Huber(design, response, delta=0.5),
        "mixture": wh.MixtureLikelihood(),
    }
    return objectives[name]


def document(text: str) -> dict[str, Any]:
    """Parse the one JSON document of a command."""
    found: dict[str, Any] = json.loads(text)
    return found


@pytest.mark.parametrize("name", PROBLEMS)
def test_objectives_are_those_of_the_library(run: Run, folder: Path, name: str) -> None:
    atoms = "likelihoods.npy"  # positive, as mixtures need; the others do not mind
    ran = run("solve", atoms, "--objective", name, *PROBLEMS[name], "--json")
    assert (ran.code, ran.err) == (0, "")
    expected = wh.minimize(library(name), np.load(atoms))
    found = document(ran.out)
    assert found["value"] == expected.value
    assert [atom["id"] for atom in found["atoms"]] == expected.ids.tolist()
    assert found["objective"] == expected.objective
    assert found["method"] == expected.method


@pytest.mark.parametrize("step", ["line-search", "short-step", "adaptive"])
@pytest.mark.parametrize("method", ["frank-wolfe", "away", "pairwise", "blended-pairwise"])
def test_methods_prove_the_same_minimum(run: Run, folder: Path, method: str, step: str) -> None:
    expected = document(run(*POINT, "--json").out)
    ran = run(*POINT, "--method", method, "--step", step, "--lazy", "--rtol", "1e-2", "--json")
    assert ran.code == 0
    found = document(ran.out)
    assert found["lower"] <= expected["value"] <= found["value"] + expected["gap"]
    assert "lazy=True" in found["method"]


def test_method_options_reach_the_method(run: Run, folder: Path) -> None:
    ran = run(*POINT, "--method", "away", "--step", "open-loop", "--max-steps", "3", "--json")
    assert ran.code == 1
    method = wh.FrankWolfe(wh.Away(), wh.OpenLoop())
    expected = wh.minimize(library("squared-distance"), "atoms.npy", method=method, max_steps=3)
    assert document(ran.out)["method"] == expected.method
    assert document(ran.out)["value"] == expected.value


def test_the_same_seed_gives_the_same_answer(run: Run, folder: Path) -> None:
    texts = [document(run(*POINT, "--seed", seed, "--json").out)["atoms"] for seed in (5, 5)]
    assert texts[0] == texts[1]


@pytest.mark.parametrize("exclude", [["--exclude", "{0},{1}"], ["--exclude", "{0}", "--exclude", " {1} ,"]])
def test_excluded_atoms_are_not_used(run: Run, folder: Path, exclude: list[str]) -> None:
    first, second, *_ = (atom["id"] for atom in document(run(*POINT, "--json").out)["atoms"])
    ran = run(*POINT, *(part.format(first, second) for part in exclude), "--json")
    assert {first, second} & {atom["id"] for atom in document(ran.out)["atoms"]} == set()


@pytest.mark.parametrize(
    ("limit", "status"),
    [("--max-steps", "MAX_STEPS"), ("--max-passes", "MAX_PASSES"), ("--max-seconds", "MAX_SECONDS")],
)
def test_a_limit_exits_with_1_and_null_for_what_is_unknown(
    run: Run, folder: Path, limit: str, status: str
) -> None:
    ran = run("solve", "likelihoods.npy", "--objective", "mixture", limit, "0", "--json")
    assert (ran.code, ran.err) == (1, "")
    found = document(ran.out)
    assert found["status"] == status
    assert found["success"] is False
    assert found["lower"] is None
    assert found["gap"] is None


def test_the_text_says_what_the_document_says(run: Run, folder: Path) -> None:
    found = document(run(*POINT, "--names", "names.txt", "--json").out)
    ran = run(*POINT, "--names", "names.txt", "--top", "2")
    assert (ran.code, ran.err) == (0, "")
    lines = ran.out.splitlines()
    assert lines[0] == "Result(GAP_REACHED: the proved gap is at most the goal)"
    assert [line.split()[0] for line in lines[1:7]] == "value lower gap cost support of".split()
    assert lines[1].split()[1] == f"{found['value']:.9g}"
    assert lines[3].split()[1:] == [f"{found['gap']:.3g}", "(goal", f"{found['goal']:.3g})"]
    assert f"{found['scored']:,} atoms scored" in lines[4] and f"{found['steps']:,} steps" in lines[4]
    assert [line.split()[0] for line in lines[8:10]] == [atom["name"] for atom in found["atoms"][:2]]


def test_out_save_and_plot(run: Run, folder: Path, rows: np.ndarray[Any, np.dtype[np.float64]]) -> None:
    ran = run(
        *POINT, "--names", "names.txt", "--out", "w.csv", "--save", "run", "--plot", "run.svg", "--json"
    )
    assert ran.code == 0
    with open("w.csv", newline="") as file:
        table = [(int(r["id"]), r["name"], float(r["weight"])) for r in csv.DictReader(file)]
    result = wh.load("run", atoms=wh.ArrayAtoms(rows))
    assert table == result.top(result.support)
    assert result.names == tuple(NAMES[i] for i in result.ids)
    assert document(ran.out)["value"] == result.value
    assert "<svg" in Path("run.svg").read_text()


@pytest.mark.parametrize(
    ("name", "option"),
    [
        (name, option)
        for name, given in PROBLEMS.items()
        for option in ("--target", "--design", "--response", "--labels", "--delta")
        if option not in given
    ],
)
def test_options_of_other_objectives_are_refused(run: Run, folder: Path, name: str, option: str) -> None:
    ran = run("solve", "likelihoods.npy", "--objective", name, *PROBLEMS[name], option, "1")
    assert (ran.code, ran.out) == (2, "")
    assert f"`{option}` must not be given with --objective {name}." in ran.err


@pytest.mark.parametrize(
    ("name", "option"),
    [
        (name, option)
        for name, given in PROBLEMS.items()
        for option in itertools.islice(given, 0, None, 2)
        if option != "--delta"
    ],
)
def test_missing_options_are_asked_for(run: Run, folder: Path, name: str, option: str) -> None:
    given = PROBLEMS[name]
    at = given.index(option)
    ran = run("solve", "atoms.npy", "--objective", name, *given[:at], *given[at + 2 :])
    assert (ran.code, ran.out) == (2, "")
    assert f"`{option}` must be given with --objective {name}." in ran.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--step", "adaptive"], "`--step` must not be given with --method fully-corrective."),
        (["--lazy"], "`--lazy` must not be given with --method fully-corrective."),
        (["--exclude", "1,x"], "`--exclude` must be ids with commas between. Got x."),
        (["--exclude", "99"], "`--exclude` must be ids in [0, 60). Got 99 .. 99."),
        (["--exclude", "1,1"], "`--exclude` must be distinct ids."),
        (["--out", "w.txt"], "`--out` must end in .csv, .json, .npy, .parquet, .arrow, .feather. Got w.txt."),
        (["--plot", "no/w.png"], "`--plot` must be in a folder that exists. Got no/w.png."),
        (["--max-steps=-1"], "`--max-steps` must be a number >= 0."),
        (["--names", "missing.txt"], "missing.txt"),
    ],
)
def test_mistakes_are_named(run: Run, folder: Path, arguments: list[str], message: str) -> None:
    ran = run(*POINT, *arguments)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("error: ")
    assert message in ran.err


def test_short_steps_need_a_smoothness(run: Run, folder: Path) -> None:
    arguments = ["--objective", "mixture", "--method", "frank-wolfe", "--step", "short-step"]
    ran = run("solve", "likelihoods.npy", *arguments)
    assert ran.code == 2
    assert "`--step` must not be short-step" in ran.err


def test_shapes_that_do_not_fit_are_refused(run: Run, folder: Path) -> None:
    np.save("long.npy", np.zeros(6))
    for arguments in (
        ["squared-distance", "--target", "long.npy"],
        ["least-squares", "--design", "A.npy", "--response", "long.npy"],
        ["squared-distance", "--target", "points.npy"],
    ):
        ran = run("solve", "atoms.npy", "--objective", *arguments)
        assert (ran.code, ran.out) == (2, "")
        assert ran.err.startswith("error: ")


# ---------------------------------------------------------------- checkpoints


def test_a_run_goes_on_from_its_checkpoint(run: Run, folder: Path) -> None:
    options = ("--method", "away", "--rtol", "1e-3", "--checkpoint", "kept", "--json")
    first = run(*POINT, *options, "--max-passes", "1")
    assert (first.code, first.err) == (1, "")
    second = run(*POINT, *options)
    assert second.code == 0
    assert second.err.startswith(
        "resumed after pass 1 of SquaredDistance(d=5) by FrankWolfe(direction=Away()), gap "
    )
    assert document(second.out)["passes"] > document(first.out)["passes"] == 1.0
    third = run(*POINT, *options)
    assert (third.code, third.err) == (0, "the run in kept has ended\n")
    found, again = document(second.out), document(third.out)
    assert (again["passes"], again["lower"]) == (found["passes"], found["lower"])
    assert wh.load("kept", "atoms.npy").success


def test_another_run_is_refused_by_its_checkpoint(run: Run, folder: Path) -> None:
    assert run(*POINT, "--checkpoint", "kept").code == 0
    ran = run(*POINT, "--checkpoint", "kept", "--seed", "1")
    assert ran.code == 2
    assert "error: `--checkpoint` must be new, or hold a run of the same atoms, " in ran.err
    assert "Got another seed in kept.safetensors." in ran.err


def test_a_checkpoint_elsewhere_is_refused_before_any_work(run: Run, folder: Path) -> None:
    (folder / "notes").mkdir()
    (folder / "notes" / "todo.txt").write_text("mine")
    ran = run(*POINT, "--checkpoint", "notes")
    assert ran.code == 2
    assert "`--checkpoint` must be a new file, or one that holds a saved checkpoint." in ran.err
    assert [path.name for path in (folder / "notes").iterdir()] == ["todo.txt"]


# ---------------------------------------------------------------- memory and files


def test_a_memory_limit_is_handed_on(run: Run, folder: Path) -> None:
    ran = run(*POINT, "--max-memory", "100MB", "--json")
    assert (ran.code, ran.err) == (0, "")
    assert document(ran.out)["status"] == "GAP_REACHED"
    for wrong, words in (("1kB", "at least"), ("much", "1.5GB")):
        ran = run(*POINT, "--max-memory", wrong)
        assert (ran.code, ran.out) == (2, "")
        assert words in ran.err
        assert "max_memory" in ran.err or "--max-memory" in ran.err


def test_atoms_may_be_several_files(run: Run, folder: Path) -> None:
    rows = np.load("atoms.npy")
    np.save("a.npy", rows[:7])
    np.save("b,c.npy", rows[7:])
    whole = document(run(*POINT, "--json").out)
    np.save("d.npy", rows[7:])
    parts = document(run("solve", "a.npy, d.npy", *POINT[2:], "--json").out)
    assert parts["value"] == whole["value"]
    assert run("solve", "b,c.npy", *POINT[2:], "--json").code == 0


@pytest.mark.parametrize(
    ("options", "over", "ridge"),
    [
        (["--cap", "0.2"], wh.Hull(cap=0.2), 0.0),
        (["--at-most"], wh.Hull(at_most=True), 0.0),
        (["--at-most", "--cap", "0.3", "--ridge", "0.5"], wh.Hull(cap=0.3, at_most=True), 0.5),
        (["--cone"], wh.Cone(), 0.0),
        (["--cone", "--price", "0.1", "--mass", "3", "--cap", "2"], wh.Cone(0.1, 2.0, 3.0), 0.0),
    ],
)
def test_weights_are_those_of_the_library(
    run: Run, folder: Path, options: list[str], over: wh.Hull | wh.Cone, ridge: float
) -> None:
    ran = run(*POINT, *options, "--json")
    assert (ran.code, ran.err) == (0, "")
    expected = wh.minimize(library("squared-distance"), np.load("atoms.npy"), over=over, ridge=ridge)
    found = document(ran.out)
    assert found["value"] == expected.value
    assert found["lower"] == expected.lower
    assert found["over"] == expected.over


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--price", "1"], "`--price` must be given with --cone. Got 1.0."),
        (["--mass", "1"], "`--mass` must be given with --cone. Got 1.0."),
        (["--cone", "--at-most"], "`--at-most` must be given without --cone, see --mass. Got both."),
        (["--cap", "0"], "`--cap` must be a number > 0. Got 0.0."),
        (["--cone", "--price", "-1"], "`--price` must be a number >= 0. Got -1.0."),
        (["--cone", "--method", "away"], "must be FullyCorrective for a cap, a cone, a ridge"),
    ],
)
def test_wrong_weights_are_refused_by_name(run: Run, folder: Path, options: list[str], message: str) -> None:
    ran = run(*POINT, *options)
    assert ran.code == 2
    assert message in " ".join(ran.err.split())
