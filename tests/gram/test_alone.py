"""One target over few rows: its units are those of many, and its desk is nobody else's."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import wolfhound as wh
from wolfhound.gram import _alone, _small
from wolfhound.gram._alone import solve_alone
from wolfhound.gram._alone_kernels import convert
from wolfhound.gram._proof_kernels import round_norm
from wolfhound.gram._units import LOWEST, average, choose_units, measure_norms

Array = NDArray[Any]


def cloud(n: int, d: int, *, seed: int = 0) -> tuple[Array, Array]:
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, d)), 0.5 * rng.standard_normal(d)


def move(rows: Array, target: Array) -> tuple[float, int, Array, Array]:
    """Size and exponent, with rows and target in their units."""
    inside, aside = rows.copy(), target.copy()
    size, exponent = convert(inside, aside, average(rows), np.empty(len(target)), LOWEST)
    return size, exponent, inside, aside


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 40), st.integers(1, 20), st.integers(0, 1000), st.integers(-190, 190))
def test_the_units_are_those_of_many_targets(n: int, d: int, seed: int, power: int) -> None:
    rows, target = (2.0**power * each for each in cloud(n, d, seed=seed))
    units, there = choose_units(rows)
    size, exponent, inside, aside = move(rows, target)
    assert exponent == units.exponent
    assert size == max(np.abs(rows).max(), np.abs(target).max())
    np.testing.assert_array_equal(inside, there)
    np.testing.assert_array_equal(aside, units.convert(target[None])[0])


def test_equal_rows_have_no_size() -> None:
    size, exponent, inside, _ = move(np.ones((3, 2)), np.zeros(2))
    assert (size, exponent, inside.tolist()) == (1.0, 0, [[0.0, 0.0]] * 3)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("place", [(0, 0), (4, 2), None])
def test_what_is_not_finite_has_no_units(bad: float, place: tuple[int, int] | None) -> None:
    rows, target = cloud(5, 3)
    (target if place is None else rows)[1 if place is None else place] = bad
    assert move(rows, target)[0] == math.inf
    assert solve_alone(rows, target, 1e-6, 0.0) is None


@pytest.mark.parametrize("scale", [1e-70, 1e70])
def test_extreme_sizes_are_left_to_others(scale: float) -> None:
    rows, target = cloud(5, 3)
    assert solve_alone(scale * rows, scale * target, 1e-6, 0.0) is None


@pytest.mark.parametrize("atol", [1e250, 1e300, 1.7e308])
def test_a_goal_beyond_all_numbers_in_these_units_is_left_to_others(atol: float) -> None:
    rows, target = (1e-50 * each for each in cloud(20, 7))
    assert solve_alone(rows, target, 1e-6, atol) is None
    result = wh.minimize(wh.SquaredDistance(target), rows, atol=atol)
    assert (result.success, result.goal) == (True, atol)


@pytest.mark.parametrize("atol", [1e-300, 1.0, 1.7e308, math.inf])
def test_other_goals_are_reached(atol: float) -> None:
    found = solve_alone(*cloud(20, 7), 0.0, atol)
    assert (found is None) == (atol < 1e-200)
    assert found is None or found.goal == atol


def test_one_norm_is_rounded_as_many_are() -> None:
    rows = np.random.default_rng(1).random((50, 7))
    squares = np.einsum("ij,ij->i", rows, rows)
    assert [round_norm(each, 7) for each in squares.tolist()] == measure_norms(rows).tolist()


def outcome(rows: Array, target: Array) -> tuple[Any, ...]:
    found = solve_alone(rows, target, 1e-6, 0.0)
    assert found is not None
    return found.at.tolist(), found.weights.tolist(), *found[2:]


def test_what_was_solved_before_leaves_no_trace() -> None:
    problems = [cloud(n, d, seed=seed) for seed, (n, d) in enumerate([(20, 7), (20, 7), (9, 7), (20, 7)])]
    apart = []
    for rows, target in problems:
        _alone._KEPT.__dict__.clear()
        apart.append(outcome(rows, target))
    assert [outcome(rows, target) for rows, target in [*problems, *problems]] == apart * 2


def test_a_solve_inside_a_solve_has_a_desk_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    (rows, target), (others, there) = cloud(20, 7), cloud(20, 7, seed=1)
    wanted = outcome(rows, target)
    multiply = _small.multiply

    def interrupt(*given: Any, **options: Any) -> Any:
        atoms = multiply(*given, **options)
        monkeypatch.setattr(_alone, "multiply", multiply)
        outcome(others, there)
        return atoms

    monkeypatch.setattr(_alone, "multiply", interrupt)
    assert outcome(rows, target) == wanted


def test_threads_do_not_share_a_desk() -> None:
    problems = [cloud(20, 7, seed=seed) for seed in range(64)]
    wanted = [outcome(*problem) for problem in problems]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(lambda problem: outcome(*problem), problems)) == wanted
