"""Few atoms in one compiled solve: the same answers as the ordinary run, proved, or none."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import wolfhound as wh
from tests.fuzz import exact
from tests.patience import PATIENCE
from wolfhound import few
from wolfhound.core import Objective, Start, State, Status

Array = NDArray[Any]
DESIGN, RESPONSE = (
    np.random.default_rng(7).standard_normal((9, 5)),
    np.random.default_rng(8).standard_normal(9),
)


def cloud(n: int = 40, d: int = 5, *, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal((n, d))


OBJECTIVES: dict[str, Objective] = {
    "outside": wh.SquaredDistance(np.full(5, 2.0)),
    "inside": wh.SquaredDistance(np.full(5, 0.05)),
    "far": wh.SquaredDistance(np.full(5, 1e6)),
    "least squares": wh.LeastSquares(DESIGN, RESPONSE),
    "fewer observations": wh.LeastSquares(DESIGN[:3], RESPONSE[:3]),
}


def whole(rows: Array) -> Start:
    """A start whose pool is all rows."""
    ids, none = np.arange(len(rows)), np.empty(0, np.int64)
    return Start(ids=none, weights=np.empty(0), rows=rows[:0], pool_ids=ids, pool=rows, exclude=none)


def alone(objective: Objective, rows: Array, *, rtol: float = 1e-6) -> few.FewResult | None:
    return few.solve_few(objective, whole(rows), rtol=rtol, atol=0.0, began=0.0)


@pytest.mark.parametrize("name", OBJECTIVES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_answer_is_that_of_the_ordinary_run(name: str, dtype: type) -> None:
    rows: Array = cloud().astype(dtype)
    objective = OBJECTIVES[name]
    result = wh.minimize(objective, rows)
    ordinary = wh.minimize(objective, rows, method=wh.FullyCorrective())
    assert result.status is ordinary.status is Status.GAP_REACHED
    assert result.goal == pytest.approx(ordinary.goal, rel=1e-9)
    assert result.lower <= ordinary.value
    assert ordinary.lower <= result.value
    assert result.gap <= result.goal
    np.testing.assert_allclose(result.weights @ rows[result.ids], result.x, atol=1e-12)
    assert (result.method, result.objective, result.fingerprint) == (
        ordinary.method,
        ordinary.objective,
        ordinary.fingerprint,
    )


@pytest.mark.parametrize("name", OBJECTIVES)
def test_it_is_taken(name: str) -> None:
    assert alone(OBJECTIVES[name], cloud()) is not None
    result = wh.minimize(OBJECTIVES[name], cloud())
    assert result.trace.kind.tolist() == ["start", "pass"]
    assert result.trace.value[0] >= result.lower
    assert result.trace.value[1] == result.value
    assert result.trace.lower.tolist() == [0.0, result.lower]
    assert (result.passes, result.scored) == (1.0, 80)
    assert result.steps >= result.support
    assert 0.0 < result.trace.seconds[0] <= result.trace.seconds[1] <= result.seconds


def test_names_and_excluded_atoms() -> None:
    rows, objective = cloud(), OBJECTIVES["outside"]
    first = wh.minimize(objective, rows)
    names = [f"atom {i}" for i in range(40)]
    other = wh.minimize(objective, rows, exclude=first.ids, names=names)
    assert not np.isin(other.ids, first.ids).any()
    assert other.names == tuple(f"atom {i}" for i in other.ids)
    kept = np.setdiff1d(np.arange(40), first.ids)
    assert other.value == pytest.approx(wh.minimize(objective, rows[kept]).value, rel=1e-12)


@pytest.mark.parametrize(
    "options",
    [
        {"method": wh.FullyCorrective()},
        {"max_steps": 1000},
        {"max_seconds": PATIENCE},
        {"callback": lambda state: None},
        {"start": ([0], [1.0])},
    ],
    ids=lambda options: next(iter(options)),
)
def test_who_asks_for_more_gets_the_ordinary_run(options: dict[str, Any]) -> None:
    result = wh.minimize(OBJECTIVES["outside"], cloud(), **options)
    assert "corrective" in result.trace.kind.tolist()
    assert result.status is Status.GAP_REACHED


def test_a_callback_sees_every_state() -> None:
    seen: list[State] = []
    wh.minimize(OBJECTIVES["outside"], cloud(), callback=seen.append)
    assert len(seen) >= 3


@pytest.mark.parametrize(
    ("objective", "rows", "options"),
    [
        (wh.Logistic(DESIGN, np.where(RESPONSE > 0.0, 1.0, -1.0)), cloud(), {}),
        (OBJECTIVES["outside"], cloud(few.FEW + 1), {}),
        (OBJECTIVES["outside"], cloud(), {"rtol": 0.0}),
        (OBJECTIVES["outside"], cloud(), {"rtol": 1e-30}),
        (OBJECTIVES["outside"], 1e100 * cloud(), {}),
        (OBJECTIVES["outside"], np.zeros((3, 5)), {"rtol": 1e-30}),
        (wh.SquaredDistance(np.zeros(5)), np.zeros((3, 5)), {}),
        (wh.SquaredDistance(np.full(5, 1e100)), cloud(), {}),
        (wh.SquaredDistance(np.full(5, 1e-200)), 1e-200 * cloud(), {}),
        (wh.LeastSquares(np.ones((4000, 5)), np.ones(4000)), cloud(), {}),
        (wh.LeastSquares(1e-100 * DESIGN, 1e-100 * RESPONSE), cloud(), {}),
    ],
    ids=range(11),
)
def test_what_it_cannot_do_is_left_to_the_ordinary_run(
    objective: Objective, rows: Array, options: dict[str, Any]
) -> None:
    assert alone(objective, rows, **options) is None
    assert wh.minimize(objective, rows, **options).success


@pytest.mark.parametrize("n", [few.FEW, few.FEW + 1])
def test_both_sides_of_the_switch_are_proved(n: int) -> None:
    result = wh.minimize(OBJECTIVES["outside"], cloud(n))
    assert result.status is Status.GAP_REACHED
    assert (len(result.trace) == 2) == (n <= few.FEW)


@pytest.mark.parametrize("shape", [(1, 1), (1, 3), (2, 1), (5, 1)])
def test_the_smallest_problems(shape: tuple[int, int]) -> None:
    rows = cloud(*shape)
    target = np.full(shape[1], 0.3)
    result = wh.minimize(wh.SquaredDistance(target), rows, atol=1e-9)
    check(result, rows, None, target)


def check(result: wh.Result, rows: Array, design: Array | None, target: Array) -> None:
    """Value and bound, in exact arithmetic."""
    least = exact.least_half_square(rows, design, target)
    here = exact.half_square(exact.images(design, exact.mix(rows[result.ids], result.weights)), target)
    assert Fraction(result.lower) <= least
    assert here.low <= Fraction(result.value)
    assert result.gap <= result.goal


@settings(max_examples=60, deadline=None)
@given(
    st.integers(1, 12),
    st.integers(1, 4),
    st.integers(0, 10_000),
    st.sampled_from([1e-20, 1.0, 1e20]),
    st.booleans(),
)
def test_proofs_hold_exactly(n: int, d: int, seed: int, scale: float, duplicates: bool) -> None:
    rng = np.random.default_rng(seed)
    rows = scale * np.repeat(rng.standard_normal((n, d)), 1 + duplicates, axis=0)
    target, design = scale * rng.standard_normal(d), rng.standard_normal((3, d))
    check(wh.minimize(wh.SquaredDistance(target), rows, atol=1e-9 * scale**2), rows, None, target)
    response = scale * rng.standard_normal(3)
    check(wh.minimize(wh.LeastSquares(design, response), rows, atol=1e-9 * scale**2), rows, design, response)


def test_bounds_of_images_are_widened() -> None:
    assert few._widen(2.0, 0.5) == pytest.approx(0.5 * 2.5**2)
    assert few._narrow(2.0, 0.5) == pytest.approx(0.5 * 1.5**2)
    assert few._narrow(2.0, 3.0) == 0.0
    assert few._widen(2.0, 0.0) == 2.0
    assert math.isclose(few._narrow(2.0, 0.0), 2.0)
