# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from tests.conformance.method import at_atom, origin, pool_of, problems
from wolfhound.core import Matrix, Vector
from wolfhound.methods._begin import best_atom
from wolfhound.methods.frank_wolfe import FrankWolfe
from wolfhound.objectives.quadratic import SquaredDistance


def test_begin_at_the_best_atom() -> None:
    problem = problems()[1]
    begun = best_atom(problem.objective, pool_of(problem.rows))
    assert begun.ids[0] == np.argmin(problem.objective.values(problem.rows))
    assert_array_equal(begun.rows, problem.rows[begun.ids])
    assert_array_equal(begun.weights, [1.0])


def test_begin_looks_at_256_atoms() -> None:
    rows = np.linspace(0.0, 1.0, 300)[:, None]
    start = replace(pool_of(rows), pool_ids=np.arange(300), pool=rows)
    assert_array_equal(best_atom(SquaredDistance([1.0]), start).ids, [255])


def test_begin_keeps_a_warm_start() -> None:
    rows = np.eye(3)
    start = at_atom(rows, 1)
    assert FrankWolfe().begin(SquaredDistance([1.0, 0.0, 0.0]), start, np.random.default_rng(0)) is start


class _Mixed(SquaredDistance):
    """An objective that knows its start."""

    def begin(self, rows: Matrix) -> Vector | None:
        return np.array([0.0, 3.0, 1.0])


class _Partial(SquaredDistance):
    """f is not a number at the first row."""

    def values(self, rows: Matrix) -> Vector:
        out = SquaredDistance.values(self, rows)
        out[0] = math.nan
        return out


def test_begin_where_the_objective_says() -> None:
    rows = np.eye(3)
    start = replace(pool_of(rows), pool_ids=np.array([7, 8, 9]), pool=rows)
    begun = best_atom(_Mixed(np.zeros(3)), start)
    assert_array_equal(begun.ids, [8, 9])
    assert_array_equal(begun.weights, [0.75, 0.25])
    assert_array_equal(begun.rows, rows[1:])


def test_begin_ignores_nan() -> None:
    rows = np.eye(3)
    start = replace(pool_of(rows), pool_ids=np.arange(3), pool=rows)
    assert_array_equal(best_atom(_Partial(np.array([0.9, 0.5, 0.0])), start).ids, [1])


def test_begin_needs_a_pool() -> None:
    with pytest.raises(ValueError, match="`start` must be a start with ids or a pool"):
        best_atom(SquaredDistance(np.zeros(3)), origin(3))
