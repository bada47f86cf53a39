"""Columns in any units, far from the origin or nearly dependent: what is proved stays true."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.designs.precise import at_most, moments_of
from wolfhound import AOptimal, Design, DOptimal, IOptimal, Status, design, load
from wolfhound.designs.criteria import factor_moments
from wolfhound.designs.proof import OPEN

CRITERIA: dict[str, Any] = {"D": DOptimal(), "A": AOptimal(), "I": IOptimal()}
NOTHING = np.empty((0, 3))


def limit(found: Design, rows: Any, past: Any, region: Any = None) -> Any:
    """What the efficiency may be at most, by the true moments of the region."""
    moments = {"I": moments_of(rows if region is None else region)}.get(found.criterion)
    mine = (rows[found.ids], found.weights)
    best = at_most(mine, found.root, past, found.share, rows, moments=moments)
    assert best is not None
    return best


@pytest.mark.parametrize("seed", range(6))
def test_the_units_of_issue_27_give_the_design_of_plain_ones(seed: int) -> None:
    units = np.array([1e-4, 1.0, 1e4])
    plain = np.random.default_rng(seed).standard_normal((30, 3))
    mixed = design(plain * units, criterion=IOptimal())
    assert mixed.status is Status.GAP_REACHED
    assert mixed.efficiency <= limit(mixed, plain * units, NOTHING)
    even = design(plain, criterion=IOptimal())
    weights = np.zeros((2, 30))
    weights[0, mixed.ids], weights[1, even.ids] = mixed.weights, even.weights
    np.testing.assert_allclose(weights[0], weights[1], atol=1e-3)


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    name=st.sampled_from(sorted(CRITERIA)),
    spread=st.sampled_from([0.0, 4.0, 8.0]),
    near=st.sampled_from([1.0, 1e-2, 1e-4, 1e-6]),
    shift=st.sampled_from([0.0, 1e2, 1e4, 1e8]),
    past=st.sampled_from([0, 2]),
)
def test_no_efficiency_is_above_the_true_one_in_any_units(
    seed: int, name: str, spread: float, near: float, shift: float, past: int
) -> None:
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((20, 3))
    rows[:, 1] = rows[:, 0] + near * rows[:, 1]
    rows[:, 2] += shift
    rows *= 10.0 ** rng.uniform(-spread, spread, 3)
    options: dict[str, Any] = {"given": rows[:past], "runs": 4} if past else {}
    found = design(rows, criterion=CRITERIA[name], efficiency=1.0 - 1e-8, **options)
    assert found.efficiency <= limit(found, rows, rows[:past])
    claims = {
        Status.GAP_REACHED: found.efficiency >= (1.0 - 1e-8) * (1.0 - 1e-15),
        Status.ROUNDING: found.efficiency >= 1.0 - 8.0 * OPEN,
        Status.STALLED: True,
    }
    assert claims[found.status]
    assert found.success == (found.status is not Status.STALLED)


@pytest.mark.parametrize("name", sorted(CRITERIA))
@pytest.mark.parametrize("seed", range(3))
def test_whole_runs_are_proved_in_any_units(name: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((25, 3))
    units = 10.0 ** rng.uniform(-8.0, 8.0, 3)
    found = design(rows * units, criterion=CRITERIA[name])
    plan = found.round(12)
    moments = {"I": moments_of(rows * units)}.get(name)
    mine = (rows[plan.ids] * units, plan.counts.astype(np.float64))
    best = at_most(mine, found.root, NOTHING, 0.0, rows * units, moments=moments)
    assert 0.8 < plan.efficiency <= best


@pytest.mark.parametrize("name", sorted(CRITERIA))
@pytest.mark.parametrize("seed", range(8))
def test_whole_runs_of_nearly_dependent_terms_are_found(name: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((9, 4))
    rows[:, 2:] = rows[:, :1] * rng.standard_normal(2) + 10.0 ** -rng.uniform(6.0, 8.5) * rows[:, 2:]
    found = design(rows, criterion=CRITERIA[name], efficiency=0.5)
    plan = found.round(9)
    moments = {"I": moments_of(rows)}.get(name)
    mine = (rows[plan.ids], plan.counts.astype(np.float64))
    best = at_most(mine, found.root, np.empty((0, 4)), 0.0, rows, moments=moments)
    assert plan.runs == 9
    assert plan.efficiency <= (1.0 if best is None else best)


@pytest.mark.parametrize("units", [np.ones(3), np.array([1e-8, 1.0, 1e8])])
def test_a_region_may_be_flat(units: Any) -> None:
    rng = np.random.default_rng(4)
    rows, region = rng.standard_normal((40, 3)) * units, np.array([[1.0, 2.0, -1.0]]) * units
    found = design(rows, criterion=IOptimal(region))
    assert found.status is Status.GAP_REACHED
    assert found.efficiency <= limit(found, rows, NOTHING, region)
    with pytest.raises(ValueError, match="`region` must be rows of which some are not zero"):
        design(rows, criterion=IOptimal(0.0 * region))


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    n=st.sampled_from([1, 2, 5, 300, 3000]),
    d=st.integers(1, 5),
    near=st.sampled_from([1.0, 1e-6, 0.0]),
)
def test_moments_are_factored_within_their_bound(seed: int, n: int, d: int, near: float) -> None:
    """R = (C + F)(C + F)' with rows of F below the bound: |R - CC'|_ij <= (2 e + e^2) |C_i| |C_j|."""
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((n, d)) * 10.0 ** rng.uniform(-8.0, 8.0, d)
    rows[:, -1] = rows[:, 0] + near * rows[:, -1]
    root, error = factor_moments(rows)
    true = moments_of(rows)
    with mpmath.workdps(120):
        c = mpmath.matrix(root.tolist())
        left = true - c * c.T
        sizes = [mpmath.sqrt(true[i, i]) for i in range(d)]
        worst = max(abs(left[i, j]) / (sizes[i] * sizes[j]) for i in range(d) for j in range(d))
    assert worst <= 2.1 * error
    assert error < 1e-9


def test_ill_conditioned_candidates_are_not_called_solved() -> None:
    rng = np.random.default_rng(0)
    line = np.column_stack([np.ones(50), 1e8 + rng.standard_normal(50)])
    found = design(line)
    assert found.status is Status.STALLED
    assert not found.success


def test_a_saved_design_knows_how_well_its_region_is_known(tmp_path: Path) -> None:
    rows = np.random.default_rng(2).standard_normal((30, 3)) * [1e-6, 1.0, 1e6]
    found = design(rows, criterion=IOptimal())
    found.save(tmp_path / "plan")
    back = load(tmp_path / "plan")
    assert back.root_error == found.root_error > 0.0
    assert replace(back, root_error=1e-3).round(9).efficiency < back.round(9).efficiency
    assert replace(back, root_error=np.inf).round(9).efficiency == 0.0
