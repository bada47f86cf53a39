"""`wolfhound unmix`: fractions as arrays and tables, maps, runs that go on, wrong uses."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wolfhound as wh
from tests.cli.conftest import Run, words

Array = np.ndarray[Any, np.dtype[np.float64]]


@pytest.fixture
def cube(folder: Path, rows: Array) -> Array:
    """A cube of 3 x 4 pixels in a file, mixtures of the atoms in atoms.npy."""
    pixels: Array = np.random.default_rng(0).dirichlet(np.ones(60), (3, 4)) @ rows
    pixels[0, 0] = 3.0 * rows[7]
    np.save("cube.npy", pixels)
    return pixels


@pytest.mark.slow
def test_fractions_as_an_array(run: Run, cube: Array, rows: Array) -> None:
    ran = run("unmix", "cube.npy", "--library", "atoms.npy", "--out", "fractions.npy", "--plot", "map.png")
    assert ran.code == 0
    assert "3 x 4 targets: 12 GAP_REACHED" in words(ran.out)
    fractions = np.load("fractions.npy")
    assert fractions.shape == (3, 4, 60)
    np.testing.assert_array_equal(fractions, wh.minimize_many(cube, rows).to_dense())
    assert Path("map.png").read_bytes()[:4] == b"\x89PNG"


def test_fractions_as_a_table(run: Run, cube: Array) -> None:
    options = ("--names", "names.txt", "--max-atoms", "2", "--out", "fractions.csv")
    assert run("unmix", "cube.npy", "--library", "atoms.npy", *options).code == 0
    with open("fractions.csv") as file:
        table = list(csv.DictReader(file))
    assert list(table[0]) == ["row", "column", "id", "name", "fraction"]
    assert all(line["name"] == f"atom-{line['id']}" for line in table)
    assert 12 <= len(table) <= 24


def test_a_summary_has_a_row_per_pixel(run: Run, cube: Array) -> None:
    assert run("unmix", "cube.npy", "--library", "atoms.npy", "--summary", "pixels.csv").code == 0
    with open("pixels.csv") as file:
        table = list(csv.DictReader(file))
    assert [(line["row"], line["column"]) for line in table[:5]] == [
        *(("0", str(i)) for i in range(4)),
        ("1", "0"),
    ]
    assert {line["status"] for line in table} == {"GAP_REACHED"}
    assert all(0.0 <= float(line["gap"]) <= float(line["goal"]) for line in table)


def test_pixels_of_a_table(run: Run, cube: Array) -> None:
    np.savetxt("pixels.csv", cube.reshape(12, 5), delimiter=",")
    options = ("--out", "out.json", "--plot", "line.svg", "--json")
    ran = run("unmix", "pixels.csv", "--library", "atoms.npy", *options)
    document = json.loads(ran.out)
    assert (document["targets"], document["shape"], document["success"]) == (12, [12], True)
    assert {"pixel", "id", "name", "fraction"} == set(json.loads(Path("out.json").read_text())[0])


def test_at_most_and_skip(run: Run, cube: Array) -> None:
    cube[1, 1, 2] = np.nan
    np.save("bad.npy", cube)
    ran = run("unmix", "bad.npy", "--library", "atoms.npy")
    assert ran.code == 2
    assert "Got nan in target (1, 1)" in words(ran.err)
    ran = run("unmix", "bad.npy", "--library", "atoms.npy", "--skip", "--at-most", "--json")
    assert ran.code == 0
    assert json.loads(ran.out)["status"] == {"GAP_REACHED": 11, "SKIPPED": 1}
    assert json.loads(ran.out)["success"] is True


def test_fractions_of_other_sets(run: Run, cube: Array, rows: Array) -> None:
    for options, over in (
        (("--cone", "--price", "0.1"), wh.Cone(price=0.1)),
        (("--cap", "0.4", "--at-most"), wh.Hull(cap=0.4, at_most=True)),
    ):
        ran = run("unmix", "cube.npy", "--library", "atoms.npy", *options, "--out", "parts.npy", "--json")
        assert ran.code == 0
        assert json.loads(ran.out)["over"] == repr(over)
        known = wh.minimize_many(cube, rows, over=over)
        np.testing.assert_allclose(np.load("parts.npy"), known.to_dense(), atol=1e-6)
    refused = run("unmix", "cube.npy", "--library", "atoms.npy", "--cone", "--max-atoms", "2")
    assert refused.code == 2
    assert "`--max-atoms` must be left out over a cone" in words(refused.err)


@pytest.mark.parametrize("dead", [0, 1], ids=["all", "skip"])
def test_few_atoms_are_told_alike_everywhere(dead: int, run: Run, cube: Array, rows: Array) -> None:
    cube = cube + 0.3 * np.random.default_rng(1).standard_normal(cube.shape)
    cube.reshape(12, 5)[:dead] = np.nan
    np.save("noisy.npy", cube)
    few = wh.minimize_many(cube, rows, max_atoms=2, skip=True)
    said = few.verdict()
    assert said.startswith(f"{12 - dead} of 12 targets are solved with at most 2 atoms; ")
    options = ("noisy.npy", "--library", "atoms.npy", "--max-atoms", "2", "--skip")
    ran = run("unmix", *options, "--report", "page.html")
    assert ran.code == 0
    assert said in words(ran.out)
    page = Path("page.html").read_text()
    assert said in page
    assert "DONE AS ASKED" in page
    assert "ALL PROVED" not in page
    document = json.loads(run("unmix", *options, "--json").out)
    proved = int((few.gap <= few.goal).sum())
    assert (document["success"], document["proved"], document["message"]) == (few.success, proved, said)
    assert few.success


def test_a_run_is_saved_and_goes_on(run: Run, cube: Array, rows: Array) -> None:
    assert run("unmix", "cube.npy", "--library", "atoms.npy", "--save", "run").code == 0
    assert wh.load("run", rows).success
    assert run("unmix", "cube.npy", "--library", "atoms.npy", "--save", "run").code == 0
    ran = run("unmix", "cube.npy", "--library", "atoms.npy", "--save", "run", "--rtol", "1e-3")
    assert ran.code == 2
    assert "`--save` must be new, or hold a run with the same targets, settings" in words(ran.err)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("missing.npy", "--library", "atoms.npy"), "missing.npy"),
        (("cube.npy", "--library", "missing.npy"), "missing.npy"),
        (("cube.npy", "--library", "points.npy", "--out", "x.txt"), "`--out` must end in"),
        (("cube.npy",), "--library"),
        (("cube.npy", "--library", "atoms.npy", "--out", "cube.npy"), "must not be what CUBE reads"),
        (("cube.npy", "--library", "atoms.npy", "--save", "names.txt"), "`--save` must be"),
    ],
)
def test_wrong_uses(run: Run, cube: Array, arguments: tuple[str, ...], text: str) -> None:
    ran = run("unmix", *arguments)
    assert ran.code == 2
    assert text in words(ran.err)


def test_mistakes_name_the_cube(run: Run, folder: Path) -> None:
    np.save("complex.npy", np.ones((3, 4), complex))
    np.save("atoms.npy", np.eye(4))
    ran = run("unmix", "complex.npy", "--library", "atoms.npy")
    assert ran.code == 2
    assert "`CUBE` must be an array of real numbers" in words(ran.err)
