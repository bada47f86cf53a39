"""What a sample of the atoms shows, and plans that rest on it."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wolfhound.atoms import ArrayAtoms, FileAtoms
from wolfhound.core import Vector
from wolfhound.machine import Calibration
from wolfhound.planning import sample
from wolfhound.planning.plan import plan
from wolfhound.planning.sample import isotropic_tau, sample_facts

FIXED = Calibration()
ROWS = np.random.default_rng(0).standard_normal((3000, 6)).astype(np.float32)


def on_sphere(n: int, d: int, seed: int = 0) -> Vector:
    rows = np.random.default_rng(seed).standard_normal((n, d))
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True))


# ---------------------------------------------------------------- atoms


def test_facts_of_all_atoms() -> None:
    found = plan(ROWS, calibration=FIXED).facts
    assert found is not None
    lengths = np.linalg.norm(ROWS - ROWS.mean(axis=0, dtype=np.float64), axis=1)
    assert found.sample == 3000
    assert found.radius == pytest.approx(lengths.max(), rel=1e-6)
    assert found.spread == pytest.approx(np.quantile(lengths, 0.9) / np.quantile(lengths, 0.1), rel=1e-6)


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
    found = plan(rows, calibration=FIXED)
    assert found.tau_from == "measured"
    starts = [herded(rows, start) for start in range(20)]
    assert min(starts) - 0.01 <= found.tau <= max(starts) + 0.01


@pytest.mark.parametrize("d", [8, 24])
def test_tau_of_a_sample_is_carried_over(d: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = on_sphere(20_000, d)
    monkeypatch.setattr(sample, "SAMPLE", 20_000)
    whole = plan(rows, calibration=FIXED).tau
    monkeypatch.setattr(sample, "SAMPLE", 2000)
    part = plan(rows, calibration=FIXED)
    assert part.facts is not None
    assert part.facts.sample == 2000
    assert part.tau == pytest.approx(whole, abs=0.03)
    assert part.tau > 1.01 * sample_facts(ArrayAtoms(rows[:2000]), seed=0).tau


@pytest.mark.parametrize("d", [6, 24])
def test_random_directions_find_what_they_are_said_to(d: int) -> None:
    best = (on_sphere(200, d, seed=1) @ on_sphere(20_000, d).T).max(axis=1)
    assert isotropic_tau(20_000, d) == pytest.approx(np.median(best), abs=0.01)
    assert plan(n=20_000, d=d, calibration=FIXED).tau == isotropic_tau(20_000, d)


@settings(max_examples=30)
@given(scale=st.floats(1e-100, 1e100), shift=st.floats(-10.0, 10.0))
def test_facts_do_not_depend_on_scale_and_place(scale: float, shift: float) -> None:
    rows = ROWS[:200].astype(np.float64)
    plain, moved = (sample_facts(ArrayAtoms(each), seed=3) for each in (rows, (rows + shift) * scale))
    assert moved.tau == pytest.approx(plain.tau, rel=1e-6)
    assert moved.spread == pytest.approx(plain.spread, rel=1e-6)
    assert moved.radius == pytest.approx(plain.radius * scale, rel=1e-6)


@pytest.mark.parametrize("rows", [[[0.0], [1.0], [2.0]], [[-1.0], [0.0], [1.0]], np.eye(5), ROWS[:, :1]])
def test_odd_atoms_have_a_tau(rows: Any) -> None:
    assert 0.0 < plan(rows, calibration=FIXED).tau < 1.0


def test_a_file_is_planned_as_an_array_is(tmp_path: Path) -> None:
    np.save(tmp_path / "rows.npy", ROWS)
    memory, file = (plan(each, calibration=FIXED) for each in (ROWS, FileAtoms(tmp_path / "rows.npy")))
    assert file.facts == memory.facts
    assert file.workload.in_files
    assert file.option("scan").query_seconds > memory.option("scan").query_seconds
    assert "3,000 x 6 in files, tau" in str(file)


def test_the_diameter_of_a_solve_is_measured() -> None:
    found = plan(ROWS, atol=1e-3, calibration=FIXED)
    assert found.facts is not None
    assert found.demand.curvature == (2.0 * found.facts.radius) ** 2


def test_the_seed_decides_the_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sample, "SAMPLE", 100)
    one, same, other = (plan(ROWS, seed=seed, calibration=FIXED) for seed in (1, 1, 2))
    assert one == same
    assert one.facts != other.facts
