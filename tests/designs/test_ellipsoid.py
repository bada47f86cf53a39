"""Enclosing ellipsoids: closed forms, containment and volumes, anywhere and in any units."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from typing import Any

import mpmath
import numpy as np
import pytest

from tests.designs.ellipsoids import holds, is_definite
from wolfhound import Status, enclosing_ellipsoid


def test_a_simplex_is_held_by_its_circumscribed_ball() -> None:
    corners = np.array([[1.0, 0.0], [-0.5, math.sqrt(0.75)], [-0.5, -math.sqrt(0.75)], [0.1, 0.1]])
    found = enclosing_ellipsoid(corners)
    np.testing.assert_allclose(found.centre, 0.0, atol=1e-6)
    np.testing.assert_allclose(found.matrix, np.eye(2), atol=1e-5)
    assert found.log_volume == pytest.approx(math.log(math.pi), abs=1e-5)
    assert found.ratio >= 1.0 - 1e-6
    np.testing.assert_array_equal(np.sort(found.ids), [0, 1, 2])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_every_point_is_inside_and_the_volume_is_least(dtype: type) -> None:
    rng = np.random.default_rng(0)
    points: Any = (rng.standard_normal((5000, 3)) @ np.diag([1.0, 5.0, 0.2]) + [1.0, -2.0, 0.5]).astype(dtype)
    found = enclosing_ellipsoid(points)
    assert found.status.name == "GAP_REACHED"
    assert found.ratio >= 1.0 - 1e-6
    near = np.argsort(-found.measure(points))[:20]
    assert holds(found, points[near])
    assert found.measure(points).max() == pytest.approx(1.0, abs=1e-5)


@pytest.mark.parametrize("shift", [1e4, 1e6, 1e8, 1e12])
@pytest.mark.parametrize("d", [1, 2, 4])
def test_points_far_away_have_the_ellipsoid_of_near_ones(shift: float, d: int) -> None:
    moved = np.random.default_rng(d).standard_normal((200, d)) + shift
    here = moved - shift  # exactly, as these are what rounding left of the points
    far, near = enclosing_ellipsoid(moved), enclosing_ellipsoid(here)
    assert holds(far, moved)
    assert is_definite(far)
    # The centre has as many digits as the points have.
    lost = 8.0 * d * float(np.spacing(shift)) * math.sqrt(float(np.linalg.norm(near.matrix)))
    assert far.log_volume == pytest.approx(near.log_volume, abs=1e-5 + lost)
    assert far.ratio >= 1.0 - 1e-6 - lost


@pytest.mark.parametrize("seed", range(4))
def test_units_and_offsets_of_columns_do_not_matter(seed: int) -> None:
    rng = np.random.default_rng(seed)
    units, shift = 10.0 ** rng.uniform(-8.0, 8.0, 3), 10.0 ** rng.uniform(0.0, 6.0, 3)
    plain = rng.standard_normal((100, 3))
    found = enclosing_ellipsoid((plain + shift) * units)
    assert found.status is Status.GAP_REACHED
    assert holds(found, (plain + shift) * units)
    assert is_definite(found)
    volume = enclosing_ellipsoid(plain).log_volume + math.fsum(np.log(units))
    assert found.log_volume == pytest.approx(volume, abs=1e-4)


@pytest.mark.parametrize("near", [1e-3, 1e-5, 1e-6])
def test_nearly_flat_points_are_held_and_called_what_they_are(near: float) -> None:
    points = np.random.default_rng(1).standard_normal((60, 2))
    points[:, 1] = points[:, 0] + near * points[:, 1]
    found = enclosing_ellipsoid(points, ratio=1.0 - 1e-12)
    assert holds(found, points)
    assert is_definite(found)
    assert found.success == (found.ratio >= 0.99)


FLAT = np.random.default_rng(0).standard_normal((10, 3))
SHEETS: dict[str, tuple[Any, str]] = {
    "the same point": (np.ones((5, 2)), "x1 is constant; x2 is constant"),
    "one column": (np.where(np.arange(3) == 0, 3.0, FLAT), "x1 is constant"),
    "a sum": (np.column_stack([FLAT, FLAT.sum(axis=1)]), "x1 ~ x2 ~ x3 ~ x4"),
    "too few": (FLAT[:3] + 1e8, "x1 ~ x2 ~ x3"),
    "closer than floats": (FLAT[:, :1] + 1e-8 * FLAT[:, :2], "closer together than float64"),
    "one point": (FLAT[:1], "x1 is constant"),
}


@pytest.mark.parametrize("name", SHEETS)
def test_flat_points_are_refused_by_their_own_name(name: str) -> None:
    points, where = SHEETS[name]
    with pytest.raises(ValueError, match=r"^`points` must span all . dimensions; leave out") as error:
        enclosing_ellipsoid(points)
    assert where in str(error.value)
    assert "model" not in str(error.value)


@pytest.mark.parametrize("seed", range(40))
def test_few_points_far_away_are_held(seed: int) -> None:
    points = np.random.default_rng(seed).standard_normal((4, 3)) + 1e8
    found = enclosing_ellipsoid(points)
    assert holds(found, points)
    assert is_definite(found)
    with mpmath.workdps(60):  # a simplex has its ellipsoid in closed form
        edges = mpmath.matrix((points[1:] - points[0]).tolist())
        ball = mpmath.pi ** mpmath.mpf("1.5") / mpmath.gamma(mpmath.mpf("2.5"))
        least = mpmath.log(ball * abs(mpmath.det(edges)) * mpmath.sqrt(27) / 16)
    assert found.log_volume >= float(least) - 1e-9
    assert found.log_volume + math.log(found.ratio) <= float(least) + 1e-9


@pytest.mark.parametrize("size", [1e-76, 1e-40, 1e60])
def test_points_of_any_moderate_size_are_held(size: float) -> None:
    points = size * (FLAT + 1e8)  # the smallest are 1e-68, and columns 1e-76 wide
    found = enclosing_ellipsoid(points)
    assert found.success
    assert holds(found, points)
    assert found.log_volume == pytest.approx(
        enclosing_ellipsoid(FLAT).log_volume + 3 * math.log(size), abs=1e-4
    )


@pytest.mark.parametrize(
    ("points", "words"),
    [
        (np.array([[0.0, 1.0], [np.nan, 2.0], [3.0, 1.0]]), "`points`"),
        (1e90 * FLAT, r"`points` must be below 1e\+70"),
        (1e-100 * FLAT, "`points` must be columns wider than 1e-90"),
    ],
)
def test_numbers_that_no_matrix_can_hold_are_refused(points: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        enclosing_ellipsoid(points)
    with pytest.raises(ValueError, match="`ratio` must be in"):
        enclosing_ellipsoid(np.eye(3), ratio=2.0)
