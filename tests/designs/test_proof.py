"""Proved efficiencies against high precision."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.designs.precise import criterion_of, efficiency_of
from wolfhound import AOptimal, DOptimal, IOptimal, design
from wolfhound.designs.proof import Between, certify, compare, enclose, enclose_log_det


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**32), d=st.integers(1, 5), spread=st.floats(0.0, 3.0), trace=st.booleans())
def test_criteria_are_enclosed(seed: int, d: int, spread: float, trace: bool) -> None:
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((d + 3, d)) * 10.0 ** rng.uniform(-spread, spread, d)
    shares = rng.dirichlet(np.ones(d + 3))
    root = np.eye(d) if trace else None
    found = enclose(rows, shares, root)
    true = criterion_of(rows, shares, root)
    low, high = (-np.inf, np.inf) if found is None else found
    assert low <= true <= high
    assert found is None or high - low <= 1e-6 * (1.0 + abs(float(true)))


def test_a_matrix_is_enclosed_and_a_singular_one_is_not() -> None:
    low, high = enclose_log_det(np.array([[2.0, 1.0], [1.0, 3.0]])) or Between(1.0, 0.0)
    assert low <= mpmath.log(5) / 2 <= high
    assert enclose_log_det(np.ones((2, 2))) is None
    assert enclose(np.ones((3, 2)), np.ones(3) / 3, np.eye(2)) is None
    assert compare(Between(1.0, 1.0), Between(1.0, 1.0), np.eye(2)) <= 1.0


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    d=st.integers(1, 4),
    trace=st.booleans(),
    runs=st.sampled_from([0, 3]),
    spoil=st.sampled_from([0.0, 1e-9, 1e-3]),
)
def test_no_efficiency_is_above_the_true_one(seed: int, d: int, trace: bool, runs: int, spoil: float) -> None:
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((12, d))
    past = rows[:runs]
    share = 0.4 if runs else 0.0
    root = rng.standard_normal((d, 2)) if trace else None
    weights = rng.dirichlet(np.ones(12)) + spoil
    proof = certify(rows, weights, root=root, given=past, share=share)
    assert proof is not None
    forms = [float(x @ proof.query @ x) for x in rows]
    found = proof.efficiency(max(forms) * (1.0 + 1e-15), float((rows**2).sum(axis=1).max()))
    assert 0.0 < found <= efficiency_of(rows, weights, root, past, share, rows)


@pytest.mark.parametrize("criterion", [DOptimal(), AOptimal(), IOptimal()])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_efficiency_of_a_design_is_true(criterion: Any, dtype: Any) -> None:
    rows = np.random.default_rng(3).standard_normal((60, 3)).astype(dtype)
    for goal in (0.5, 0.999, 1.0 - 1e-9):
        found = design(rows, criterion=criterion, efficiency=goal)
        wide = rows.astype(np.float64)
        best = efficiency_of(wide[found.ids], found.weights, found.root, wide[:0], 0.0, wide)
        assert found.efficiency <= best
        assert found.efficiency >= goal


def test_nothing_is_proved_by_a_bound_that_is_none() -> None:
    proof = certify(np.eye(2), np.ones(2) / 2, root=None, given=np.empty((0, 2)), share=0.0)
    assert proof is not None
    assert proof.efficiency(np.inf, 1.0) == 0.0
    assert certify(np.zeros((2, 2)), np.ones(2), root=None, given=np.empty((0, 2)), share=0.0) is None
    flat = certify(np.ones((2, 2)), np.ones(2), root=None, given=np.empty((0, 2)), share=0.0)
    assert flat is None or flat.efficiency(1.0, 2.0) == 0.0


@pytest.mark.parametrize("seed", [2, 4, 11, 38, 51])
def test_candidates_that_vanish_in_most_directions_raise_no_alarm(seed: int) -> None:
    rows = 10.0 ** np.random.default_rng(seed).uniform(-300.0, 0.0, (20, 2))
    found = design(rows, criterion=IOptimal(), efficiency=0.99, max_passes=12.0)
    assert 0.0 <= found.efficiency <= 1.0
    assert found.weights.sum() == pytest.approx(1.0)
