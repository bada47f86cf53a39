"""Measuring: sane numbers, and wrong answers do not pass."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

import numpy as np
import pytest

import wolfhound as wh
from wolfhound.core import Hits
from wolfhound.machine import Calibration
from wolfhound.oracles.int8.scan import Int8Scan
from wolfhound.planning.measure import Benchmark, measure

SMALL: dict[str, Any] = {"n": 1500, "d": 6, "rounds": 2}


@pytest.fixture(scope="module")
def report() -> Benchmark:
    """One run on few atoms."""
    return measure(**SMALL)


def test_every_oracle_is_measured_and_right(report: Benchmark) -> None:
    assert [trial.name for trial in report.oracles] == ["scan", "int8", "clusters", "lsh", "subset"]
    assert report.right
    for trial in report.oracles:
        assert trial.one > 0.0
        assert trial.many > 0.0
        assert trial.speed > 0.0
        assert trial.ratio <= 1.0
        assert trial.pays_from >= 1.0
    assert [trial.name for trial in report.oracles if trial.ratio == 1.0][:2] == ["scan", "int8"]
    assert [trial.name for trial in report.oracles if trial.build == 0.0] == ["scan", "subset"]


def test_the_calibration_is_whole(report: Benchmark) -> None:
    found = report.calibration
    assert found.threads == wh.get_threads()
    assert found.origin is not None
    assert found.origin.numpy == np.__version__
    assert found.origin.wolfhound == wh.__version__
    for name in ("read", "file", "fetch", "encode", "kmeans", "hashing", "quantise", "lists"):
        assert getattr(found, name) > 0.0
    for name in ("scan", "int8", "probe", "hash", "subset"):
        assert getattr(found, name).first > 0.0
        assert getattr(found, name).more > 0.0


def test_the_calibration_can_be_saved_and_used(report: Benchmark) -> None:
    report.calibration.save()
    assert Calibration.here() == report.calibration
    choice = wh.choose_oracle(np.zeros((1000, 4)))
    assert choice.workload.speeds == report.calibration


def test_progress_goes_forward() -> None:
    said: list[tuple[float, str]] = []
    measure(**SMALL, say=lambda share, text: said.append((share, text)))
    shares = [share for share, _ in said]
    assert shares == sorted(shares)
    assert (shares[0], said[0][1]) == (0.0, "making atoms")
    assert shares[-1] < 1.0


def test_a_wrong_answer_does_not_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    right = Int8Scan.query

    def wrong(self: Int8Scan, queries: Any, **options: Any) -> Hits:
        hits = right(self, queries, **options)
        return replace(hits, bounds=hits.bounds - 1.0)

    monkeypatch.setattr(Int8Scan, "query", wrong)
    report = measure(**SMALL)
    assert not report.right
    assert {trial.name: trial.faults for trial in report.oracles if trial.faults} == {
        "int8": ("the best atom lies above a bound",)
    }


def test_the_atoms_depend_on_the_seed_only(report: Benchmark) -> None:
    again = measure(**SMALL)
    other = measure(**SMALL, seed=5)
    ratios = [[trial.ratio for trial in each.oracles] for each in (report, again, other)]
    assert ratios[0] == ratios[1] != ratios[2]


def test_a_report_is_plain_data(report: Benchmark) -> None:
    assert asdict(report)["n"] == 1500


@pytest.mark.parametrize("name", ["n", "d"])
def test_sizes_are_checked(name: str) -> None:
    with pytest.raises(ValueError, match=f"`{name}` must be an integer"):
        measure(**(SMALL | {name: 0}))
