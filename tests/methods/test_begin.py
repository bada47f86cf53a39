# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from tests.conformance.method import at_atom, origin, pool_of, problems
from wolfhound import Custom, Logistic, MixtureLikelihood, Status, minimize
from wolfhound.core.contracts import Matrix, Objective, Vector
from wolfhound.methods.asking import best_atom
from wolfhound.methods.frank_wolfe import FrankWolfe
from wolfhound.objectives.plain import SquaredDistance


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


def log_likelihood(x: Vector) -> tuple[float, Vector]:
    """As `MixtureLikelihood`, but a function of the caller: no weights of its own to begin at."""
    with np.errstate(all="ignore"):
        return -float(np.log(x).mean()), -1.0 / (len(x) * x)


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("width", [0.15, 0.3])
@pytest.mark.parametrize("f", [MixtureLikelihood(), Custom(log_likelihood, convex=True)])
def test_a_warm_start_at_the_edge_ends_no_worse_than_a_cold_one(
    f: Objective, width: float, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    rows = np.exp(-0.5 * ((rng.standard_normal((20, 1)) - rng.standard_normal(5)) / width) ** 2)
    cold = minimize(f, rows)
    for worst in np.argsort(rows.min(axis=1))[[0, 1, 10]]:
        warm = minimize(f, rows, start=([int(worst)], [1.0]))
        assert warm.success >= cold.success
        assert warm.value <= cold.value + cold.goal + 1e-9 * abs(cold.value)


def test_a_warm_start_outside_the_domain_is_a_cold_one() -> None:
    rows = np.array([[1.0, 0.0, 0.5], [0.0, 1.0, 0.5], [0.2, 0.2, 1.0]])
    warm, cold = (minimize(MixtureLikelihood(), rows, start=s) for s in (([0, 1], [1.0, 0.0]), None))
    assert warm.status is Status.GAP_REACHED
    assert warm.value == cold.value


def test_a_stalled_start_is_followed_by_the_next() -> None:
    """Counters go on, and so does what was proved."""
    rng = np.random.default_rng(0)
    rows = np.exp(-0.5 * ((rng.standard_normal((20, 1)) - rng.standard_normal(5)) / 0.15) ** 2)
    result = minimize(MixtureLikelihood(), rows, start=([int(rows.min(axis=1).argmin())], [1.0]))
    assert result.status is Status.GAP_REACHED
    assert np.all(np.diff(result.trace.passes) >= 0.0)
    assert all(a <= b for a, b in itertools.pairwise(result.trace.lower[2:]))
    assert list(result.trace.kind).count("start") == 2


def test_a_bad_warm_start_is_seen_where_the_cold_atoms_are_all_the_same() -> None:
    """f is 0 at most atoms, but not at the warm start, whose rounding is as large as f."""
    rows = 1e35 * np.eye(3)[[0, 0, 0, 0, 1]]
    f = Logistic(np.eye(3)[:2] * 100.0, [1.0, -1.0])
    warm, cold = (minimize(f, rows, rtol=1e-13, start=s) for s in (([4], [1.0]), None))
    assert warm.value <= cold.value + 1e-4
    assert cold.value < 1e30


@pytest.mark.parametrize("seed", range(5))
def test_a_mixture_of_equal_atoms_varies_by_rounding_only(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows = np.repeat(rng.standard_normal((1, 4)), 3, axis=0)
    warm = minimize(SquaredDistance(rows[0]), rows, start=([0, 1, 2], rng.dirichlet(np.ones(3))))
    assert warm.success
