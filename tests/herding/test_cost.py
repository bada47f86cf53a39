"""The memory and time that are stated before a run."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import tracemalloc
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from wolfhound import FileAtoms
from wolfhound.herding import cost as module
from wolfhound.herding import herd
from wolfhound.herding.cost import HerdCost, estimate_cost
from wolfhound.machine import Calibration

LARGE = np.random.default_rng(1).normal(size=(21_000, 2)).astype(np.float32)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("n", "d", "m", "options"),
    [(2000, 5, 50, {}), (11_000, 2, 200, {}), (4000, 40, 300, {"weights": True, "swap": True})],
)
def test_memory_is_as_expected(n: int, d: int, m: int, options: dict[str, Any]) -> None:
    rows = np.random.default_rng(0).normal(size=(n, d)).astype(np.float32)
    cost = estimate_cost(rows, m, **options)
    herd(rows[:100], 5, **options)  # what is loaded and compiled once
    tracemalloc.start()
    herd(rows, m, **options)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert 0.5 * peak < cost.nbytes < 3.0 * peak


def test_more_work_takes_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "Calibration", SimpleNamespace(here=Calibration))
    plain = estimate_cost(LARGE, 100)
    assert estimate_cost(LARGE, 100, swap=True).seconds > plain.seconds
    assert estimate_cost(LARGE, 100, weights=True).seconds > plain.seconds
    assert estimate_cost(LARGE, 1000).seconds > plain.seconds
    assert estimate_cost(LARGE, 100, labels=7).seconds > plain.seconds
    assert estimate_cost(LARGE, 100, labels=7).nbytes > plain.nbytes
    assert estimate_cost(LARGE, 100, candidates=20_000).nbytes > plain.nbytes
    assert estimate_cost(LARGE, 100, evaluate=False).evaluation_seconds == 0.0
    assert str(HerdCost(nbytes=54_000_000, seconds=1.2, evaluation_seconds=0.3)) == "about 54 MB and 1.5 s"


def test_files_add_what_is_read_ahead(tmp_path: Path) -> None:
    np.save(tmp_path / "rows.npy", LARGE)
    in_memory, in_file = estimate_cost(LARGE, 100), estimate_cost(FileAtoms(tmp_path / "rows.npy"), 100)
    assert in_file.nbytes == in_memory.nbytes + LARGE.nbytes
    assert in_file.seconds > in_memory.seconds


def test_expected_refuses_more_rows_than_there_are() -> None:
    with pytest.raises(ValueError, match="`m` must be an integer in"):
        estimate_cost(LARGE, 21_001)
