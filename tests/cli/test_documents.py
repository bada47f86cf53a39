"""`--json` of every command that gives a result: strict JSON with the names that the docs list."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.cli.conftest import Run

PAGE = Path(__file__).parents[2] / "docs" / "command-line.md"
COMMANDS = {
    "solve": "solve atoms.npy --objective squared-distance --target point.npy",
    "explain": "explain atoms.npy --target 3 --exclude-self",
    "unmix": "unmix points.npy --library atoms.npy",
    "npmle": "npmle counts.csv --x x --family poisson --exposure 1",
    "herd": "herd atoms.npy -m 5",
    "design": "design --factor x=-1,0,1 --factor y=a,b --runs 6",
    "policy solve": "policy solve --states 5 --rows 30 --dim 3",
}


def parse(text: str) -> dict[str, Any]:
    def refuse(word: str) -> None:
        raise ValueError(f"{word} is no JSON")

    found: dict[str, Any] = json.loads(text, parse_constant=refuse)
    return found


def listed(command: str) -> list[str]:
    """The names that the table of the page has."""
    row = re.search(rf"^\| `{command}` \| (.*) \|$", PAGE.read_text(), re.M)
    assert row is not None
    return re.findall(r"`(\w+)`", row[1])


@pytest.mark.parametrize("command", COMMANDS)
def test_a_document_has_the_names_that_are_listed(run: Run, folder: Path, command: str) -> None:
    (folder / "counts.csv").write_text("x\n0\n1\n1\n2\n5\n")
    ran = run(*COMMANDS[command].split(), "--json")
    assert (ran.code, ran.err) == (0, "")
    assert sorted(parse(ran.out)) == sorted(listed(command))


def test_entries_have_the_names_that_are_listed(run: Run, folder: Path) -> None:
    (folder / "labels.txt").write_text("\n".join("ab"[i % 2] for i in range(60)))
    atoms = {"id", "name", "weight"}
    one = parse(run(*COMMANDS["explain"].split(), "--json").out)["targets"][0]
    assert set(one) == {"target", "distance", *listed("solve")} and set(one["atoms"][0]) == atoms
    each = parse(run("explain", "atoms.npy", "--targets", "points.npy", "--json").out)["targets"][0]
    costs = {"message", "steps", "scored", "seconds", "objective", "method"}
    assert set(each) == set(one) - costs and set(each["atoms"][0]) == atoms
    rows = parse(run(*COMMANDS["herd"].split(), "--by", "labels.txt", "--json").out)["rows"]
    assert set(rows[0]) == {"id", "weight", "label"}
    plan = parse(run(*COMMANDS["design"].split(), "--json").out)["plan"]
    assert set(plan) == {"runs", "efficiency", "rows"} and len(plan["rows"]) == 6


def test_what_is_not_known_is_null(run: Run, folder: Path) -> None:
    np.save("likelihoods.npy", np.random.default_rng(0).random((30, 6)))
    ran = run("solve", "likelihoods.npy", "--objective", "mixture", "--max-seconds", 0, "--json")
    found = parse(ran.out)
    assert ran.code == 1 and found["lower"] is None and found["gap"] is None
