"""What a sample of the atoms shows, and plans that rest on it."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wolfhound.core.contracts import Vector
from wolfhound.data.atoms import ArrayAtoms, FileAtoms
from wolfhound.oracles.indexes import Speeds
from wolfhound.planning import plan as module
from wolfhound.planning.plan import isotropic_tau, plan, sample_tau

FIXED = Speeds()
ROWS = np.random.default_rng(0).standard_normal((3000, 6)).astype(np.float32)


def on_sphere(n: int, d: int, seed: int = 0) -> Vector:
    rows = np.random.default_rng(seed).standard_normal((n, d))
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True))


# ---------------------------------------------------------------- atoms


def herded(rows: Vector, start: int) -> float:
    """The median cosine of herding's queries after the eighth pick, plainly."""
    centred = rows - rows.mean(axis=0)
    radius = np.linalg.norm(centred, axis=1).max()
    picks, cosines = [start], []
    for _ in range(64):
        query = -centred[picks].mean(axis=0)
        scores = centred @ query
        cosines.append(scores.max() / (np.linalg.norm(query) * radius))
        picks.append(int(scores.argmax()))
    return float(np.median(cosines[8:]))


def test_tau_is_what_herding_finds() -> None:
    rows = on_sphere(500, 6)
    found = plan(rows, speeds=FIXED)
    assert found.tau_from == "measured"
    starts = [herded(rows, start) for start in range(20)]
    assert min(starts) - 0.01 <= found.tau <= max(starts) + 0.01


@pytest.mark.parametrize("d", [8, 24])
def test_tau_of_a_sample_is_carried_over(d: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = on_sphere(20_000, d)
    monkeypatch.setattr(module, "SAMPLE", 20_000)
    whole = plan(rows, speeds=FIXED).tau
    monkeypatch.setattr(module, "SAMPLE", 2000)
    part = plan(rows, speeds=FIXED)
    assert part.tau == pytest.approx(whole, abs=0.03)
    assert part.tau > 1.01 * sample_tau(ArrayAtoms(rows[:2000]), seed=0)


@pytest.mark.parametrize("d", [6, 24])
def test_random_directions_find_what_they_are_said_to(d: int) -> None:
    best = (on_sphere(200, d, seed=1) @ on_sphere(20_000, d).T).max(axis=1)
    assert isotropic_tau(20_000, d) == pytest.approx(np.median(best), abs=0.01)
    assert plan(n=20_000, d=d, speeds=FIXED).tau == isotropic_tau(20_000, d)


@settings(max_examples=30)
@given(scale=st.floats(1e-100, 1e100), shift=st.floats(-10.0, 10.0))
def test_tau_does_not_depend_on_scale_and_place(scale: float, shift: float) -> None:
    rows = ROWS[:200].astype(np.float64)
    plain, moved = (sample_tau(ArrayAtoms(each), seed=3) for each in (rows, (rows + shift) * scale))
    assert moved == pytest.approx(plain, rel=1e-6)


@pytest.mark.parametrize("rows", [[[0.0], [1.0], [2.0]], [[-1.0], [0.0], [1.0]], np.eye(5), ROWS[:, :1]])
def test_odd_atoms_have_a_tau(rows: Any) -> None:
    assert 0.0 < plan(rows, speeds=FIXED).tau < 1.0


def test_a_file_is_planned_as_an_array_is(tmp_path: Path) -> None:
    np.save(tmp_path / "rows.npy", ROWS)
    memory, file = (plan(each, speeds=FIXED) for each in (ROWS, FileAtoms(tmp_path / "rows.npy")))
    assert file.tau == memory.tau
    assert file.workload.in_files
    assert file.option("scan").query_seconds > memory.option("scan").query_seconds
    assert "3,000 x 6 in files, tau" in str(file)


def test_the_seed_decides_the_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SAMPLE", 100)
    one, same, other = (plan(ROWS, seed=seed, speeds=FIXED) for seed in (1, 1, 2))
    assert one == same
    assert one.tau != other.tau
