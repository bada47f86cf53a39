"""Second-order models: the curvature, and the way to their minimum."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import numpy as np
import pytest

from tests.methods.losses import gaussian, huber, logistic, outside, quartic
from wolfhound import MixtureLikelihood
from wolfhound.compiled.corral import Corral, correct, solve
from wolfhound.core.contracts import Ints, Matrix, Objective, Vector
from wolfhound.methods import newton
from wolfhound.methods.newton import Curved, NewtonModel


def positive(n: int, d: int, seed: int = 0) -> Matrix:
    """Likelihoods of n normal locations at d observations."""
    rng = np.random.default_rng(seed)
    away = np.linspace(-3.0, 3.0, n)[:, None] - 1.5 * rng.standard_normal((1, d))
    return np.exp(-0.5 * away**2).astype(np.float32)


def objectives() -> list[tuple[Objective, Matrix]]:
    """One that is diagonal, one with a matrix, one that is lifted."""
    rows = gaussian(40, 6)
    return [(MixtureLikelihood(), positive(40, 6)), (logistic(rows), rows), (logistic(rows, m=20), rows)]


def numeric_hessian(objective: Objective, x: Vector) -> Vector:
    step = 1e-5
    ahead = [objective.at(x + step * unit).grad for unit in np.eye(len(x))]
    behind = [objective.at(x - step * unit).grad for unit in np.eye(len(x))]
    return (np.array(ahead) - np.array(behind)) / (2.0 * step)


@pytest.mark.parametrize("which", range(3))
def test_the_curvature_is_that_of_f(which: int) -> None:
    objective, atoms = objectives()[which]
    rows = atoms.astype(np.float64)
    point = objective.at(rows.mean(axis=0))
    curved = Curved(objective, point.x)
    curved.move(point)
    lifted = curved.lift(rows)
    expected = rows @ numeric_hessian(objective, point.x) @ rows.T
    np.testing.assert_allclose(curved.bend(lifted) @ lifted.T, expected, atol=1e-6 * np.abs(expected).max())


def test_the_space_is_chosen_by_the_lift() -> None:
    rows = gaussian(40, 6)
    found = [
        (curved.diagonal, curved.lift(rows).shape[1])
        for curved in (
            Curved(objective, np.full(6, 0.5))
            for objective in (MixtureLikelihood(), outside(rows), huber(rows), logistic(rows, m=20))
        )
    ]
    assert found == [(True, 6), (True, 6), (False, 6), (False, 20)]


def test_a_large_matrix_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = gaussian(40, 6)
    objective = logistic(rows)
    assert Curved(objective, np.ones(6)).lift(rows).shape[1] == 6
    monkeypatch.setattr(newton, "LARGEST", 6 * len(objective.design) - 1)
    assert Curved(objective, np.ones(6)).lift(rows).shape[1] == len(objective.design)


def test_an_objective_without_a_lift_is_refused() -> None:
    with pytest.raises(TypeError, match="lift"):
        Curved(quartic(gaussian(10, 3)), np.ones(3))


@pytest.mark.parametrize("which", range(3))
def test_the_change_of_curvature_along_a_move(which: int) -> None:
    objective, atoms = objectives()[which]
    rows = atoms.astype(np.float64)
    here, there = objective.at(rows.mean(axis=0)), objective.at(0.5 * rows.mean(axis=0) + 0.5 * rows[0])
    move = there.x - here.x
    curved = Curved(objective, here.x)
    curved.move(here)
    new, old = (move @ numeric_hessian(objective, point.x) @ move for point in (there, here))
    lifted = curved.lift(move[None])[0]
    assert curved.change(here, lifted) == pytest.approx(1.0)
    assert curved.change(there, lifted) == pytest.approx(new / old, rel=1e-5)


# ---------------------------------------------------------------- the model


def minimise(model: NewtonModel, k: int) -> tuple[Ints, Vector]:
    corral = Corral(100, model.scale)
    corral.adopt(np.arange(k), np.full(k, 1.0 / k), model)
    correct(corral, model)
    return corral.labels, corral.weights


def near_model(curved: Curved, objective: Objective, rows: Vector, k: int) -> NewtonModel:
    """Expand at the mean of the first k atoms; all atoms are others, too."""
    point = objective.at(rows[:k].mean(axis=0))
    curved.move(point)
    twins = np.concatenate([np.arange(k), np.full(len(rows) - k, -1)])
    active, weights = curved.lift(rows[:k]), np.full(k, 1.0 / k)
    return NewtonModel(curved, point, active, weights, others=rows, twins=twins, tol=1e-12)


def expected_minimum(objective: Objective, rows: Vector, k: int) -> Vector:
    """Solve the same model by its whole Gram matrix; return the point."""
    point = objective.at(rows[:k].mean(axis=0))
    lifted = objective.lift(rows)
    assert lifted is not None
    scaled = lifted * objective.curvature(point)
    z = lifted[:k].mean(axis=0)
    linear = scaled @ z - lifted @ objective.slope(point)
    return np.asarray(solve(scaled @ lifted.T, linear, tol=1e-12) @ rows)


@pytest.mark.parametrize("which", range(3))
@pytest.mark.parametrize("k", [1, 3])
def test_pricing_by_the_gradient_finds_the_minimum(which: int, k: int) -> None:
    objective, atoms = objectives()[which]
    rows = atoms.astype(np.float64)
    model = near_model(Curved(objective, rows[0]), objective, rows, k)
    labels, weights = minimise(model, k)
    atoms_held = np.concatenate([np.arange(k), np.arange(len(rows))])[labels]
    np.testing.assert_allclose(weights @ rows[atoms_held], expected_minimum(objective, rows, k), atol=1e-6)
    assert len(np.unique(atoms_held)) == len(labels)


def test_the_store_of_a_model_grows() -> None:
    """More atoms enter than there was room for; those before them stay."""
    atoms = positive(300, 5).astype(np.float64)
    objective = MixtureLikelihood()
    model = near_model(Curved(objective, atoms[0]), objective, atoms, 1)
    labels = 1 + np.arange(200)
    for first in range(0, 200, 50):
        model.gram(labels[first : first + 50], np.array([0]))
    np.testing.assert_array_equal(model.rows(labels), atoms[:200])
    np.testing.assert_array_equal(model.rows(np.array([0])), atoms[:1])
