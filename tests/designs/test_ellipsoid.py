"""Enclosing ellipsoids: closed forms, containment and volumes."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from typing import Any

import mpmath
import numpy as np
import pytest

from wolfhound import enclosing_ellipsoid


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
    with mpmath.workdps(50):
        shape = mpmath.matrix(found.matrix.tolist())
        centre = mpmath.matrix(found.centre.tolist())
        for row in points[near].astype(np.float64).tolist():
            away = mpmath.matrix(row) - centre
            assert (away.T * shape * away)[0] <= 1
    assert found.measure(points).max() == pytest.approx(1.0, abs=1e-5)


def test_flat_points_are_refused() -> None:
    with pytest.raises(ValueError, match="aliased terms"):
        enclosing_ellipsoid(np.ones((5, 2)))
    with pytest.raises(ValueError, match="`ratio` must be in"):
        enclosing_ellipsoid(np.eye(3), ratio=2.0)
