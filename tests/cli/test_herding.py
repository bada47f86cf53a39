"""What `wolfhound herd` reads besides atoms: ids of rows that were chosen before, labels of any kind."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.cli.conftest import Run

N, M = 40, 4


@pytest.fixture
def numbered(folder: Path) -> None:
    """A table with a column of the user's own called id, which is no row number."""
    points = np.random.default_rng(4).standard_normal((N, 2)).tolist()
    lines = [f"{N - 1 - i},{a!r},{b!r}" for i, (a, b) in enumerate(points)]
    Path("rows.csv").write_text("id,a,b\n" + "\n".join(lines) + "\n")


@pytest.mark.parametrize("ending", ["csv", "npy", "parquet"])
def test_rows_that_were_written_are_the_start_of_more(run: Run, numbered: None, ending: str) -> None:
    first = json.loads(run("herd", "rows.csv", "-m", M, "-o", f"core.{ending}", "--json").out)
    more = json.loads(run("herd", "rows.csv", "-m", M + 1, "--start", f"core.{ending}", "--json").out)
    other = json.loads(run("herd", "rows.csv", "-m", M, "--exclude", f"core.{ending}", "--json").out)
    ids, extended, apart = ([row["id"] for row in each["rows"]] for each in (first, more, other))
    assert extended[:M] == ids
    assert not set(apart) & set(ids)


def test_a_table_of_ids_alone_is_read_by_its_own_name(run: Run, numbered: None) -> None:
    Path("ids.csv").write_text("id\n3\n17\n")
    found = json.loads(run("herd", "rows.csv", "-m", M, "--start", "ids.csv", "--json").out)
    assert [row["id"] for row in found["rows"]][:2] == [3, 17]
    Path("none.csv").write_text("a\n3\n")
    ran = run("herd", "rows.csv", "-m", M, "--start", "none.csv")
    assert (ran.code, "`--start` must be a file with a column herd_id or id." in ran.err) == (2, True)


@pytest.mark.parametrize(
    ("labels", "shown"),
    [
        (np.array(["2024-01-02", "2024-03-04"], "M8[D]"), {"2024-01-02", "2024-03-04"}),
        (np.array(["2024-01-02T03", "2024-03-04"], "M8[h]"), {"2024-01-02T03", "2024-03-04T00"}),
        (np.array([b"x", b"\xff"]), {"x", r"\xff"}),
        (np.array([1.5, 2.0]), {1.5, 2.0}),
    ],
)
def test_labels_of_any_kind_are_told(
    run: Run, folder: Path, labels: np.ndarray[Any, np.dtype[Any]], shown: set[object]
) -> None:
    np.save("labels.npy", np.tile(labels, 30))
    ran = run("herd", "atoms.npy", "-m", M, "--by", "labels.npy", "--json", "-o", "core.csv")
    assert ran.code == 0
    assert {row["label"] for row in json.loads(ran.out)["rows"]} == shown


def test_nothing_is_written_before_it_is_known_what_to_tell(
    run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise ValueError("no document")

    monkeypatch.setattr("wolfhound.herding.result._list_rows", fail)
    assert run("herd", "atoms.npy", "-m", M, "--json", "-o", "core.csv").code == 2
    assert not Path("core.csv").exists()
