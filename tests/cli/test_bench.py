"""`wolfhound bench` on few atoms: the table, the file, and wrong answers."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Run, words
from wolfhound.cli import bench
from wolfhound.core import Hits
from wolfhound.machine import Calibration
from wolfhound.oracles.int8.scan import Int8Scan


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Few atoms, and a place for their speeds."""
    for name, value in (("N", 1200), ("D", 6), ("ROUNDS", 2)):
        monkeypatch.setattr(bench, name, value)
    path = tmp_path / "cache" / "speeds.json"
    monkeypatch.setenv("WOLFHOUND_CALIBRATION", str(path))
    return path


@pytest.mark.slow
def test_bench_prints_a_table_and_saves_the_speeds(run: Run, place: Path) -> None:
    ran = run("bench")
    assert (ran.code, ran.err) == (0, "")
    lines = ran.out.splitlines()
    assert lines[0].startswith("1,200 x 6 float32 atoms, ")
    assert lines[2].split() == "oracle build ms a query in a batch GB/s ratio pays from".split()
    assert [line.split("  ")[0] for line in lines[3:11]] == [
        "Scan",
        "Int8Scan",
        "ClusterIndex",
        "LshIndex",
        "RandomSubset",
        "FaissIndex Pq",
        "FaissIndex IvfPq",
        "plain read",
    ]
    assert "All answers are right" in ran.out
    assert f"Speeds saved in {place}" in words(ran.out)
    assert Calibration.load().origin is not None


def test_bench_prints_json(run: Run, place: Path) -> None:
    ran = run("bench", "--json")
    assert (ran.code, ran.err) == (0, "")
    document = json.loads(ran.out)
    assert document["passed"] is True
    assert document["saved"] == str(place)
    assert [each["name"] for each in document["oracles"]][:2] == ["scan", "int8"]
    assert document["oracles"][0]["pays_from"] is None
    assert document["calibration"]["scan"]["first"] == Calibration.load().scan.first


def test_bench_saves_nothing_if_told(run: Run, place: Path) -> None:
    ran = run("bench", "--no-save")
    assert ran.code == 0
    assert "saved" not in ran.out
    assert not place.exists()


def test_wrong_answers_exit_with_1_and_are_not_saved(
    run: Run, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = Int8Scan.query

    def wrong(self: Int8Scan, queries: Any, **options: Any) -> Hits:
        hits = right(self, queries, **options)
        return replace(hits, scores=hits.scores + 1.0)

    monkeypatch.setattr(Int8Scan, "query", wrong)
    ran = run("bench")
    assert ran.code == 1
    assert "WRONG Int8Scan: a score is not the inner product of query and atom" in ran.out
    assert "All answers are right" not in ran.out
    assert not place.exists()


@pytest.mark.parametrize("blocked", ["", "speeds.json/below.json"])
def test_a_place_that_cannot_be_written_is_refused_before_any_work(
    run: Run, place: Path, monkeypatch: pytest.MonkeyPatch, blocked: str
) -> None:
    place.parent.mkdir()
    place.touch()
    monkeypatch.setenv("WOLFHOUND_CALIBRATION", str(place.parent / blocked))
    monkeypatch.setattr(bench, "show_progress", None)  # would be used to measure
    ran = run("bench")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("error: ")


def test_bench_goes_on_where_the_old_file_is_damaged(run: Run, place: Path) -> None:
    place.parent.mkdir()
    place.write_text("{")
    assert run("bench").code == 0
    assert Calibration.load().origin is not None
