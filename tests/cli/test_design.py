"""`wolfhound design`: plans from files and factors, pictures, JSON, exit codes."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import csv
import itertools
import json
from pathlib import Path

import pytest

import wolfhound as wh
from tests.cli.conftest import Run, words


@pytest.fixture
def table(folder: Path) -> Path:
    """Possible experiments, with a name for each."""
    levels = (range(300, 401, 10), (1, 2, 3), ("none", "Pd"))
    with open("possible.csv", "w") as file:
        file.write("name,temperature,pressure,catalyst\n")
        for i, (a, b, c) in enumerate(itertools.product(*levels)):
            file.write(f"run {i},{a},{b},{c}\n")
    return Path("possible.csv")


@pytest.mark.slow
def test_a_plan_of_a_table(run: Run, table: Path) -> None:
    columns = ("--columns", "temperature,pressure,catalyst")
    files = ("-o", "plan.csv", "--plot", "plan.png", "--save", "saved")
    ran = run("design", table, *columns, "--model", "quadratic", "--runs", 24, *files)
    assert ran.code == 0
    assert "24 runs at" in words(ran.out)
    with open("plan.csv") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 24
    assert [int(row["id"]) for row in rows] != sorted(int(row["id"]) for row in rows)
    assert "the runs of plan.csv are in random order, as --seed 0 draws it" in words(ran.out)
    assert run("design", table, *columns, "--model", "quadratic", "--runs", 24, "-o", "again.csv").code == 0
    assert Path("again.csv").read_text() == Path("plan.csv").read_text()
    assert {row["catalyst"] for row in rows} == {"none", "Pd"}
    assert Path("plan.png").read_bytes()[:4] == b"\x89PNG"
    assert wh.load("saved").efficiency > 1.0 - 1e-6


def test_weights_of_factors_as_json(run: Run, folder: Path) -> None:
    ran = run("design", "--factor", "x=-1,0,1", "--model", "quadratic", "--json")
    assert ran.code == 0
    document = json.loads(ran.out)
    assert document["status"] == "GAP_REACHED"
    assert document["efficiency"] > 1.0 - 1e-6
    assert document["terms"] == ["1", "x", "x^2"]
    assert [row["weight"] for row in document["design"]] == pytest.approx([1 / 3] * 3, abs=1e-5)
    with_runs = json.loads(
        run("design", "--factor", "x=-1,0,1", "--runs", 4, "--criterion", "i", "--json").out
    )
    assert with_runs["plan"]["runs"] == len(with_runs["plan"]["rows"]) == 4


def test_huge_plans_are_shown_and_not_listed(run: Run, folder: Path) -> None:
    plan = ("design", "--factor", "x=-1,0,1", "--model", "quadratic", "--runs", 10**9)
    ran = run(*plan, "--report", "plan.html")
    assert ran.code == 0
    assert "1000000000 runs at 3 points" in words(ran.out)
    assert Path("plan.html").stat().st_size < 10**7
    for more in (("-o", "plan.csv"), ("--json",)):
        ran = run(*plan, *more)
        assert ran.code == 2
        assert "`--runs` must be at most 1,000,000 with --out or --json" in words(ran.err)
        assert not Path("plan.csv").exists()


def test_given_runs_and_limits(run: Run, folder: Path) -> None:
    Path("done.csv").write_text("a,b\n1,x\n1,x\n")
    factors = ("--factor", "a=0,1", "--factor", "b=x,y")
    assert run("design", *factors, "--given", "done.csv", "--runs", 4, "--criterion", "a").code == 0
    ran = run("design", "atoms.npy", "--model", "terms", "--max-passes", 0)
    assert ran.code == 1
    assert "MAX_PASSES" in ran.out


def test_formulas_and_expressions(run: Run, table: Path) -> None:
    hot, options = "temperature > 380 and catalyst == 'Pd'", ("--columns", "temperature,pressure,catalyst")
    model = ("--model", "1 + temperature + C(catalyst)")
    ran = run("design", table, *options, *model, "--exclude", hot, "--runs", 6, "-o", "plan.csv")
    assert ran.code == 0
    with open("plan.csv") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 6
    assert not any(float(row["temperature"]) > 380 and row["catalyst"] == "Pd" for row in rows)
    for wrong, said in (
        (("--model", "1 + speed"), "`--model` must be a formula of temperature, pressure, catalyst"),
        (("--model", "cubic"), "`--model` must be one of linear, interactions, quadratic, terms, or"),
        ((*model, "--no-intercept"), "`--no-intercept` must be left out with a formula"),
        (("--exclude", "speed > 3"), "`--exclude` must be an expression of temperature"),
        (("--exclude", "3", "--exclude", hot), "`--exclude` must be ids of candidates, 3,17,4, or one expr"),
    ):
        failed = run("design", table, *options, *wrong)
        assert failed.code == 2
        assert said in words(failed.err)
