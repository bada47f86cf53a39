"""Mixture likelihood: domain, expectation-maximisation, scaled atoms."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import norm

from wolfhound.core.contracts import Matrix
from wolfhound.objectives.likelihood import MixtureLikelihood, likelihood_atoms

F = MixtureLikelihood()


def _logs(seed: int = 0) -> Matrix:
    rng = np.random.default_rng(seed)
    data = np.concatenate([rng.normal(-2.0, 0.5, 60), rng.normal(3.0, 1.0, 40)])
    return np.asarray(norm.logpdf(data, np.linspace(-4.0, 6.0, 41)[:, None], 0.5))


@pytest.mark.parametrize("bad", [0.0, -1.0, 1e-320])
def test_outside_the_domain_nothing_is_claimed(bad: float) -> None:
    point = F.at(np.array([1.0, bad]))
    assert point.value == point.value_error == point.grad_error == math.inf
    np.testing.assert_array_equal(point.grad, 0.0)
    np.testing.assert_array_equal(F.values(np.array([[1.0, bad], [1.0, 1.0]])), [math.inf, 0.0])


def test_line_points_back_inside() -> None:
    line = F.line(F.at(np.array([1.0, 0.5])), np.array([0.0, -1.0]))
    assert line.value(0.6) == math.inf
    assert line.slope(0.6) == math.inf
    assert line.slope(0.25) == 2.0


def test_a_drift_as_large_as_x_proves_nothing() -> None:
    x = np.array([1.0, 1e-3])
    assert F.at(x, 1e-3).value_error == math.inf
    assert F.at(x, np.array([1e-3, 5e-4])).value_error < 1.0


def test_curvature_stays_finite() -> None:
    assert np.isfinite(F.curvature(F.at(np.array([1e-300, 1.0])))).all()


def test_atoms_recover_the_likelihood() -> None:
    logs = _logs()
    atoms, offsets = likelihood_atoms(logs)
    weights = np.full(len(logs), 1.0 / len(logs))
    true = np.log(weights @ np.exp(logs)).mean()
    assert atoms.dtype == np.float32
    np.testing.assert_array_equal(atoms.max(axis=0), 1.0)
    found = offsets.mean() - F.at(weights @ atoms.astype(np.float64)).value
    np.testing.assert_allclose(found, true, rtol=1e-6)


def test_atoms_are_made_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = likelihood_atoms(_logs())
    monkeypatch.setattr("wolfhound.objectives.likelihood._BLOCK_ENTRIES", 700)
    blocks = likelihood_atoms(_logs())
    np.testing.assert_array_equal(whole[0], blocks[0])
    np.testing.assert_array_equal(whole[1], blocks[1])


def test_atoms_survive_tiny_likelihoods() -> None:
    atoms, offsets = likelihood_atoms(np.array([[-2000.0, -np.inf], [-2001.0, -5.0]]))
    np.testing.assert_allclose(atoms, [[1.0, 0.0], [math.exp(-1.0), 1.0]], rtol=1e-6)
    np.testing.assert_array_equal(offsets, [-2000.0, -5.0])


@pytest.mark.parametrize(
    ("logs", "column"),
    [([[0.0, np.nan], [1.0, 0.0]], 1), ([[-np.inf], [-np.inf]], 0), ([[0.0, 0.0, np.inf]], 2)],
)
def test_wrong_log_likelihoods(logs: Matrix, column: int) -> None:
    with pytest.raises(ValueError, match=rf"`log_likelihoods` must be .* in columns \[{column}\]"):
        likelihood_atoms(logs)


def test_begin_never_lowers_the_likelihood() -> None:
    atoms, _ = likelihood_atoms(_logs())
    rows = atoms.astype(np.float64)
    weights = F.begin(atoms)
    assert weights.shape == (len(atoms),)
    assert weights.min() >= 0.0
    np.testing.assert_allclose(weights.sum(), 1.0, rtol=1e-14)
    np.testing.assert_array_equal(weights[(weights > 0) & (weights < 1e-7 / 41)], [])
    assert F.at(weights @ rows).value < F.at(rows.mean(axis=0)).value - 0.1


def test_begin_is_ten_em_steps() -> None:
    atoms, _ = likelihood_atoms(_logs())
    rows, weights = atoms.astype(np.float64), np.full(len(atoms), 1.0 / len(atoms))
    for _ in range(10):
        weights = weights * (rows @ (1.0 / (weights @ rows))) / rows.shape[1]
    np.testing.assert_allclose(F.begin(atoms), weights, atol=1e-6)
    np.testing.assert_allclose(F.begin(rows * 1e-60), weights, atol=1e-6)


def test_begin_survives_observations_that_no_row_explains() -> None:
    rows = np.array([[1.0, 0.0, 0.5], [0.5, 0.0, 1.0]])
    np.testing.assert_allclose(F.begin(rows), 0.5)
    np.testing.assert_allclose(F.begin(np.zeros((4, 2))), 0.25)


def test_uncovered_are_the_observations_that_no_row_explains() -> None:
    rows = np.array([[1.0, 1e-4, 0.5, 0.0], [0.5, 9e-4, 1.0, 2e-3]], np.float32)
    found = F.find_uncovered(rows)
    np.testing.assert_array_equal(found, [1])
    assert found.dtype == np.int64
    np.testing.assert_array_equal(F.find_uncovered(rows[:0]), [0, 1, 2, 3])


def test_dimension_is_free() -> None:
    assert F.dim is None


def test_atoms_in_float64_for_smaller_gaps() -> None:
    logs = np.random.default_rng(0).normal(-3.0, 2.0, (6, 9))
    atoms, offsets = likelihood_atoms(logs, dtype=np.float64)
    np.testing.assert_allclose(np.log(atoms) + offsets, logs, atol=1e-14)
    with pytest.raises(ValueError, match="dtype"):
        likelihood_atoms(logs, dtype=np.float16)
