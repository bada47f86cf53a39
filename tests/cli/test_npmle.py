"""`wolfhound npmle`: posterior means for every row, pictures, JSON, wrong uses."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest

import wolfhound as wh
from tests.cli.conftest import Run, words


@pytest.fixture
def table(folder: Path) -> None:
    """Estimates with names and standard errors, and a table of counts."""
    rng = np.random.default_rng(1)
    errors = rng.uniform(0.3, 2.0, 80)
    z = np.where(rng.random(80) < 0.7, 0.0, 3.0) + errors * rng.standard_normal(80)
    lines = [f"g{i},{a!r},{b!r}" for i, (a, b) in enumerate(zip(z.tolist(), errors.tolist(), strict=True))]
    Path("data.csv").write_text("name,z,s\n" + "\n".join(lines) + "\n")
    counts = [7840, 1317, 239, 42, 14, 4, 4, 1]
    Path("claims.csv").write_text("claims,policies\n" + "\n".join(f"{i},{n}" for i, n in enumerate(counts)))


@pytest.mark.slow
def test_every_row_gets_a_posterior_mean(run: Run, table: None) -> None:
    options = ("--se", "s", "-o", "posterior.csv", "--plot", "prior.png", "--save", "fit")
    ran = run("npmle", "data.csv", "--x", "z", *options)
    assert ran.code == 0
    assert "proved over the continuum" in words(ran.out)
    with open("posterior.csv") as file:
        lines = list(csv.DictReader(file))
    assert list(lines[0]) == ["name", "z", "s", "posterior_mean", "low", "high", "lfsr"]
    fit = wh.load("fit")
    np.testing.assert_array_equal([float(line["posterior_mean"]) for line in lines], fit.posterior_mean())
    assert Path("prior.png").read_bytes()[:4] == b"\x89PNG"


def test_counts_with_weights_as_json(run: Run, table: None) -> None:
    options = ("--weights", "policies", "--family", "poisson", "--exposure", "1", "--json")
    document = json.loads(run("npmle", "claims.csv", "--x", "claims", *options).out)
    assert document["success"]
    assert document["gap"] <= 1e-6
    assert sum(document["mass"]) == pytest.approx(1.0)


def test_a_goal_below_rounding_is_said(run: Run, table: None) -> None:
    ran = run("npmle", "data.csv", "--x", "z", "--se", "1", "--atol", "1e-300")
    assert ran.code == 0
    assert "ROUNDING: the gap is as small as rounding allows; the goal is smaller" in ran.out


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("--x z", "--se"),
        ("--x q --se s", "--x"),
        ("--x z --se q", "--se"),
        ("--x z --se s --family gauss", "--family"),
        ("--x z --se s --family poisson", "--se"),
        ("--x z --se s --df 3", "--df"),
        ("--x z --se s --family student-t", "--df"),
        ("--x z --se s --weights q", "--weights"),
        ("--x z --se s --out data.csv", "--out"),
        ("--x z --se s --out posterior.txt", "--out"),
        ("--x name --se s", "name"),
    ],
)
def test_wrong_uses(run: Run, table: None, options: str, said: str) -> None:
    ran = run("npmle", "data.csv", *options.split())
    assert ran.code == 2
    assert said in ran.err
    assert len(ran.err.strip().splitlines()) == 1


def test_what_was_observed_stays_as_it_was(run: Run, folder: Path) -> None:
    Path("data.csv").write_text("low,z,s\na,1.5,1\nb,NA,1\nc,-2,\nd,2.5,2\n")
    assert run("npmle", "data.csv", "--x", "z", "--se", "s", "-o", "posterior.csv").code == 0
    with open("posterior.csv") as file:
        lines = list(csv.DictReader(file))
    assert list(lines[0]) == ["low", "z", "s", "posterior_mean", "npmle_low", "high", "lfsr"]
    assert [line["low"] for line in lines] == list("abcd")
    assert [line["z"] for line in lines] == ["1.5", "nan", "-2.0", "2.5"]
    assert [line["npmle_low"] == "nan" for line in lines] == [False, True, True, False]


def test_a_file_of_arrays_is_named_first(run: Run, folder: Path) -> None:
    ran = run("npmle", "atoms.npy", "--x", "z", "--se", "s")
    assert ran.code == 2
    assert "DATA must be a .csv or .parquet table. Got arrays without names." in words(ran.err)


def test_missing_values_are_refused_with_a_remedy_that_is_taken(run: Run, folder: Path) -> None:
    Path("data.csv").write_text("z,s\n1,1\n,1\n2,\n")
    ran = run("npmle", "data.csv", "--x", "z", "--se", "s", "--missing", "error")
    assert ran.code == 2
    remedy = "leave such rows out with --missing drop. Got some, the first in row 1: z (1), s (1)."
    assert f"`DATA` must be free of missing values; {remedy}" in words(ran.err)
