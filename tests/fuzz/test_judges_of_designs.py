"""The judges of designs and ellipsoids see what is wrong."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.designs import ellipsoids
from tests.designs.precise import at_most, moments_of
from tests.fuzz import designs
from tests.fuzz.supervise import Findings
from wolfhound import AOptimal, DOptimal, IOptimal, Status, enclosing_ellipsoid

ROWS = np.random.default_rng(0).standard_normal((30, 3)) * [1e-4, 1.0, 1e4]
NONE = np.empty(0, np.int64)
CASE = designs.Case(IOptimal(), 1.0 - 1e-6, NONE, ROWS[:0], 9, 0)


@pytest.mark.parametrize("criterion", [DOptimal(), AOptimal(), IOptimal()])
def test_a_right_design_is_right(criterion: Any) -> None:
    case = CASE._replace(criterion=criterion)
    result = case(ROWS)
    assert designs.judge_design(result, case, ROWS) == []
    assert designs.judge_plan(Findings(), result, case, ROWS) == []


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"weights": np.array([0.4, 0.3, 0.3]), "ids": np.array([0, 1, 2])}, "efficiency 0.99"),
        ({"efficiency": 0.5}, "the goal is reached"),
        ({"efficiency": 0.5, "status": Status.ROUNDING}, "rounding is the reason"),
        ({"ids": np.array([30, 1, 2]), "weights": np.array([0.4, 0.3, 0.3])}, "in range"),
    ],
)
def test_a_wrong_design_is_found(change: dict[str, Any], words: str) -> None:
    result = CASE(ROWS)
    assert words in " ".join(designs.judge_design(replace(result, **change), CASE, ROWS))


@pytest.mark.parametrize("criterion", [DOptimal(), AOptimal(), IOptimal()])
def test_an_efficiency_that_is_a_little_too_large_is_found(criterion: Any) -> None:
    case = CASE._replace(criterion=criterion, goal=1.0 - 1e-3, given=ROWS[:2])
    result = case(ROWS)
    blurred = 0.9999 * result.weights + 0.0001 / len(result.weights)
    wrong = designs.judge_design(replace(result, weights=blurred, efficiency=1.0), case, ROWS)
    assert "efficiency 1.0 >" in " ".join(wrong)


def test_directions_that_a_root_lost_are_missed_by_the_judge_of_that_root_only() -> None:
    """What issue 27 found: a root without the small columns makes any design of these columns look good."""
    lost = np.diag([0.0, 0.0, 1e4])
    blind = replace(CASE._replace(criterion=IOptimal(ROWS[:, :] * [0.0, 0.0, 1.0]))(ROWS), root=lost)
    assert "efficiency" in " ".join(designs.judge_design(blind, CASE, ROWS))


@pytest.mark.parametrize("small", [[0.0, 1e-13, 0.0], [1e-53, 1e-107, 1e-142], [1e-187, 1e-60, 1e-90]])
@pytest.mark.parametrize("seed", range(4))
def test_a_rival_that_digits_do_not_hold_beats_no_true_design(seed: int, small: list[float]) -> None:
    """To predict at one candidate alone is best done there, by a design whose information is singular."""
    rows = np.random.default_rng(seed).standard_normal((4, 4)) + np.array([0.0, 0.0, 0.0, 1e6])
    rows[0] *= 1.5
    mine = np.array([1.0 - 3e-9, 1e-9, 1e-9, 1e-9])
    moments, rival = moments_of(rows[:1]), np.array([1.0, *small])
    found = at_most((rows, mine), rows[:1].T, rows[:0], 0.0, rows, moments=moments, rival=rival)
    assert 1.0 - 4e-9 <= found <= 1.0


POINTS = np.random.default_rng(1).standard_normal((40, 2)) * [1e-6, 1e6] + [1.0, 1e12]


@pytest.mark.parametrize(
    ("change", "rules"),
    [
        (lambda e: {}, (True, True, True)),
        (lambda e: {"matrix": e.matrix * 1.00001}, (False, True, True)),
        (lambda e: {"matrix": e.matrix * 0.9}, (True, True, False)),
        (lambda e: {"matrix": -e.matrix}, (True, False, True)),
        (lambda e: {"ratio": 1.0, "matrix": e.matrix * (1.0 - 1e-5)}, (True, True, False)),
    ],
)
def test_wrong_ellipsoids_are_found(change: Any, rules: tuple[bool, bool, bool]) -> None:
    right = enclosing_ellipsoid(POINTS)
    found = replace(right, **change(right))
    holds, definite = ellipsoids.holds(found, POINTS), ellipsoids.is_definite(found)
    least = not definite or ellipsoids.is_least(found, POINTS)
    assert (holds, definite, least) == rules


def test_flat_points_are_told_from_others_anywhere() -> None:
    assert not ellipsoids.is_flat(POINTS, designs.SINGULAR)
    assert ellipsoids.is_flat(np.column_stack([POINTS, POINTS @ [1.0, 2.0]]), designs.SINGULAR)
