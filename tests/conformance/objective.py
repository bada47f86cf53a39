"""What every objective must satisfy; adding one is a line in a table."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import itertools
import pickle

import numpy as np

from wolfhound.core.contracts import Matrix, Objective, Point, Vector


def check_objective(objective: Objective, points: Matrix, rows: Matrix) -> None:
    """Check a convex objective at points inside its domain.

    Parameters
    ----------
    points : (r, d) float64
        At least two; f is smooth around each.
    rows : (s, d)
        Atoms, of any dtype.
    """
    assert objective.convex
    _check_points(objective, points)
    _check_gradient(objective, points)
    _check_inequalities(objective, points)
    _check_rows(objective, rows)
    for first, second in itertools.pairwise(points):
        _check_line(objective, first, second)
    _check_pickle(objective, points[0])


def check_lift(objective: Objective, points: Matrix, *, slack: float = 0.0) -> None:
    """Check that the lift gives the gradient and the Hessian, or a majorant.

    Parameters
    ----------
    slack
        How far the majorant may be above the Hessian.
    """
    eye = np.eye(points.shape[1])
    lift = objective.lift(eye)
    assert lift is not None
    assert lift.dtype == np.float64
    for x in points:
        point = objective.at(x)
        slope, curvature = objective.slope(point), objective.curvature(point)
        scale = float(np.linalg.norm(point.grad) + np.linalg.norm(lift * slope))
        np.testing.assert_allclose(lift @ slope, point.grad, rtol=0, atol=1e-12 * scale)
        np.testing.assert_allclose(objective.pull(slope), point.grad, rtol=0, atol=1e-12 * scale)
        hessian = (lift * curvature) @ lift.T
        found = np.array([_difference(objective, x, 1e-5 * e) for e in eye])
        tolerance = 1e-6 * float(np.linalg.norm(hessian))
        above = np.linalg.eigvalsh(hessian - 0.5 * (found + found.T))
        assert above.min() >= -tolerance
        assert above.max() <= slack + tolerance


def _difference(objective: Objective, x: Vector, step: Vector) -> Vector:
    change = objective.at(x + step).grad - objective.at(x - step).grad
    return np.asarray(change / (2.0 * np.linalg.norm(step)))


def _check_points(objective: Objective, points: Matrix) -> None:
    for x in points:
        kept = x.copy()
        x.flags.writeable = False
        point = objective.at(x)
        np.testing.assert_array_equal(point.x, kept)
        assert isinstance(point.value, float)
        assert point.grad.shape == x.shape
        assert point.grad.dtype == np.float64
        assert 0.0 <= point.value_error <= 1e-9 * (1.0 + abs(point.value))
        assert 0.0 <= point.grad_error <= 1e-9 * (1.0 + float(np.linalg.norm(point.grad)))
        assert objective.floor <= point.upper
        assert objective.at(x, 1e-9).value_error > point.value_error
        assert objective.at(x, np.full(len(x), 1e-9)).value_error > point.value_error


def _check_gradient(objective: Objective, points: Matrix) -> None:
    for x in points:
        steps = 1e-5 * np.eye(len(x))
        found = [(objective.at(x + h).value - objective.at(x - h).value) / 2e-5 for h in steps]
        grad = objective.at(x).grad
        np.testing.assert_allclose(grad, found, rtol=0, atol=1e-6 * (1.0 + float(np.linalg.norm(grad))))


def _check_inequalities(objective: Objective, points: Matrix) -> None:
    for first, second in itertools.permutations(points, 2):
        here, there = objective.at(first), objective.at(second)
        away = second - first
        model = here.value + float(here.grad @ away)
        slack = 1e-12 * (1.0 + abs(here.value) + abs(there.value))
        assert there.value >= model - slack
        assert here.excess >= 2.0 * (here.value - there.value) - slack
        assert there.value <= model + 0.5 * objective.smoothness * float(away @ away) + slack


def _check_rows(objective: Objective, rows: Matrix) -> None:
    kept = rows.copy()
    rows.flags.writeable = False
    values = objective.values(rows)
    expected = [objective.at(row.astype(np.float64)).value for row in rows]
    np.testing.assert_allclose(values, expected, rtol=1e-12)
    missing = objective.find_uncovered(rows)
    assert missing.dtype == np.int64
    objective.begin(rows)
    objective.lift(rows)
    np.testing.assert_array_equal(rows, kept)


def _check_line(objective: Objective, first: Vector, second: Vector) -> None:
    start, direction = objective.at(first), second - first
    line = objective.line(start, direction)
    assert line.start is start
    np.testing.assert_allclose(line.sq_length, direction @ direction, rtol=1e-14)
    for s in (0.0, 0.3, 1.0):
        there = objective.at(first + s * direction)
        _check_close(line.at(s), there)
        scale = float(np.linalg.norm(there.grad) * np.linalg.norm(direction))
        np.testing.assert_allclose(line.value(s), there.value, rtol=1e-10, atol=1e-14)
        np.testing.assert_allclose(line.slope(s), there.grad @ direction, rtol=0, atol=1e-10 * (1.0 + scale))


def _check_close(found: Point, expected: Point) -> None:
    np.testing.assert_allclose(found.x, expected.x, rtol=0, atol=1e-14 * float(np.linalg.norm(expected.x)))
    assert abs(found.value - expected.value) <= found.value_error + expected.value_error + 1e-12
    missed = float(np.linalg.norm(found.grad - expected.grad))
    assert missed <= found.grad_error + expected.grad_error + 1e-12
    np.testing.assert_allclose(found.excess, expected.excess, rtol=1e-6)


def _check_pickle(objective: Objective, x: Vector) -> None:
    again = pickle.loads(pickle.dumps(objective))
    np.testing.assert_array_equal(again.at(x).grad, objective.at(x).grad)
    assert repr(again) == repr(objective)
