"""Designs whose optimum is known in closed form."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest

from wolfhound import (
    AOptimal,
    Design,
    DOptimal,
    Factors,
    FormScan,
    Interactions,
    IOptimal,
    LinearModel,
    Quadratic,
    design,
)
from wolfhound.core.contracts import Vector

LINE = np.linspace(-1.0, 1.0, 41)


def spread(found: Design) -> dict[tuple[float, ...], float]:
    """Weights by factors."""
    return {
        tuple(np.round(row, 9).tolist()): float(weight)
        for row, weight in zip(found.settings, found.weights, strict=True)
    }


def test_a_line_is_run_at_its_ends() -> None:
    found = design(Factors({"x": LINE}), model=LinearModel())
    assert spread(found) == pytest.approx({(-1.0,): 0.5, (1.0,): 0.5}, abs=1e-6)
    assert found.efficiency > 1.0 - 1e-6
    np.testing.assert_allclose(found.information, np.eye(2), atol=1e-6)


def test_a_parabola_is_run_at_three_points() -> None:
    found = design(Factors({"x": LINE}), model=Quadratic())
    assert spread(found) == pytest.approx({(-1.0,): 1 / 3, (0.0,): 1 / 3, (1.0,): 1 / 3}, abs=1e-5)


def test_the_a_optimal_parabola_has_weights_one_two_one() -> None:
    found = design(Factors({"x": LINE}), model=Quadratic(), criterion=AOptimal())
    assert spread(found) == pytest.approx({(-1.0,): 0.25, (0.0,): 0.5, (1.0,): 0.25}, abs=1e-5)
    assert np.trace(np.linalg.inv(found.information)) == pytest.approx(8.0, rel=1e-6)


def test_the_i_optimal_parabola() -> None:
    # With u = E x^2 of the design, trace M^-1 R is a function of u alone, minimised by a fine search.
    nodes, shares = np.polynomial.legendre.leggauss(8)
    terms = np.stack([np.ones(8), nodes, nodes**2], axis=1)
    moments = (terms * shares[:, None] / 2).T @ terms
    ends = np.linspace(0.05, 0.45, 400_001)
    u = 2.0 * ends
    values = moments[1, 1] / u + (u - 2.0 * u * moments[0, 2] + moments[2, 2]) / (u * (1.0 - u))
    region = np.linspace(-1.0, 1.0, 20_001)[:, None]
    found = design(Factors({"x": LINE}), model=Quadratic(), criterion=IOptimal(region))
    assert spread(found)[(1.0,)] == pytest.approx(ends[values.argmin()], abs=2e-4)


@pytest.mark.parametrize("q", [2, 3, 4])
def test_a_linear_model_on_a_cube_has_information_one(q: int) -> None:
    found = design(Factors({f"x{i}": [-1.0, 0.0, 1.0] for i in range(q)}), model=LinearModel())
    np.testing.assert_allclose(found.information, np.eye(q + 1), atol=1e-5)


def test_a_quadratic_model_on_a_square() -> None:
    # Weights of Fedorov: corners .1458, middles of sides .0802, centre .0962.
    found = design(Factors({"x": LINE, "y": LINE}), model=Quadratic())
    weights = spread(found)
    for point in itertools.product((-1.0, 1.0), repeat=2):
        assert weights[point] == pytest.approx(0.1458, abs=1e-4)
    assert weights[(0.0, 0.0)] == pytest.approx(0.0962, abs=1e-4)
    assert weights[(1.0, 0.0)] == pytest.approx(0.0802, abs=1e-4)


def _lattice(steps: int) -> Vector:
    parts = [p for p in itertools.product(range(steps + 1), repeat=3) if sum(p) == steps]
    return np.array(parts) / steps


def test_mixtures_of_scheffe() -> None:
    linear = design(_lattice(6), model=LinearModel(intercept=False))
    assert spread(linear) == pytest.approx(
        {(1.0, 0.0, 0.0): 1 / 3, (0.0, 1.0, 0.0): 1 / 3, (0.0, 0.0, 1.0): 1 / 3}, abs=1e-6
    )
    double = design(_lattice(6), model=Interactions(intercept=False))
    assert len(double.ids) == 6
    np.testing.assert_allclose(double.weights, 1 / 6, atol=1e-6)


def test_given_runs_are_made_up_for() -> None:
    # Four runs at 1 and eight to come: six at -1 and two at 1 balance a line.
    found = design(Factors({"x": LINE}), model=LinearModel(), given=[[1.0]] * 4, runs=8)
    assert spread(found) == pytest.approx({(-1.0,): 0.75, (1.0,): 0.25}, abs=1e-5)
    assert found.share == pytest.approx(1 / 3)
    exact = found.round(8)
    assert dict(zip(exact.settings[:, 0], exact.counts, strict=True)) == {-1.0: 6, 1.0: 2}
    assert exact.efficiency > 1.0 - 1e-6


@pytest.mark.parametrize("criterion", [DOptimal(), AOptimal(), IOptimal()])
def test_excluded_candidates_are_not_used(criterion: Any) -> None:
    found = design(Factors({"x": LINE}), model=Quadratic(), criterion=criterion, exclude=[0, 20])
    assert not np.isin([0, 20], found.ids).any()
    assert found.efficiency > 1.0 - 1e-6
    assert found.settings.min() == LINE[1]


def test_an_oracle_and_a_function_give_the_same() -> None:
    terms = np.stack([np.ones(41), LINE, LINE**2], axis=1)
    by_oracle = design(FormScan(terms))
    by_function = design(
        LINE[:, None], model=lambda x: np.stack([x[:, 0] ** 0, x[:, 0], x[:, 0] ** 2], axis=1)
    )
    by_terms = design(terms)
    for found in (by_oracle, by_function, by_terms):
        np.testing.assert_array_equal(np.sort(found.ids), [0, 20, 40])
    assert by_function.variance([[1.0]]) == pytest.approx(3.0, rel=1e-5)


def test_scale_and_units_do_not_matter_to_d() -> None:
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((3000, 4))
    plain = design(rows)
    scaled = design(rows * np.array([1e-9, 1.0, 1e6, 3.0]))
    assert scaled.efficiency > 1.0 - 1e-6
    both = np.intersect1d(plain.ids, scaled.ids)
    assert plain.weights[np.isin(plain.ids, both)].sum() > 0.999


def test_rare_levels_are_found_though_no_sample_has_them() -> None:
    rows = np.zeros((200_000, 3))
    rows[:, 0] = 1.0
    rows[:, 1] = np.random.default_rng(0).uniform(-1.0, 1.0, len(rows))
    rows[123_456, 2] = 1.0
    found = design(rows)
    assert 123_456 in found.ids
    assert found.efficiency > 1.0 - 1e-6


def test_aliased_terms_are_named() -> None:
    with pytest.raises(ValueError, match=r"1 group of aliased terms: 1 ~ a\^2\."):
        design(Factors({"a": [0.0, 1.0], "b": [0.0, 1.0, 2.0]}), model=Quadratic())
    rows = np.random.default_rng(0).standard_normal((50, 3))
    with pytest.raises(ValueError, match="x1 ~ x2 ~ x3 ~ x4"):
        design(np.column_stack([rows, rows @ [1.0, 2.0, 3.0]]))


@pytest.mark.slow
@pytest.mark.parametrize("criterion", [DOptimal(), AOptimal(), IOptimal()])
def test_few_passes_over_many_candidates(criterion: Any) -> None:
    rows = np.random.default_rng(1).uniform(-1.0, 1.0, (100_000, 3)).astype(np.float32)
    found = design(rows, model=Quadratic(), criterion=criterion)
    assert found.efficiency >= 1.0 - 1e-6
    assert found.passes <= 6.0
    again = design(rows, model=Quadratic(), criterion=criterion)
    np.testing.assert_array_equal(found.ids, again.ids)
    np.testing.assert_array_equal(found.weights, again.weights)


def test_limits_end_a_search() -> None:
    rows = np.random.default_rng(1).standard_normal((50_000, 6))
    found = design(rows, max_passes=1.0)
    assert found.status.name == "MAX_PASSES"
    assert 0.0 < found.efficiency < 1.0 - 1e-6
    stopped = design(rows, callback=lambda state: True)
    assert stopped.status.name == "STOPPED"
    assert math.isclose(stopped.weights.sum(), 1.0)
