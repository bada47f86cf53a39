"""What every `Method` promises, checked on small problems with known minima."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import minimize as scipy_minimize

from wolfhound.core.contracts import Ids, Matrix, Method, Objective, Oracle, Start, State
from wolfhound.data.atoms import ArrayAtoms
from wolfhound.objectives.linear import Huber, LeastSquares, Logistic
from wolfhound.objectives.plain import SquaredDistance
from wolfhound.oracles.scan import Scan

NONE: Ids = np.empty(0, np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class Problem:
    """An objective over a few rows, its minimum and the scale of its values."""

    name: str
    objective: Objective
    rows: Matrix
    best: float
    scale: float

    @property
    def oracle(self) -> Oracle:
        """A scan of the rows."""
        return Scan(ArrayAtoms(self.rows))


def pool_of(rows: Matrix, *, seed: int = 0, exclude: Ids = NONE) -> Start:
    """Return a start whose pool is all rows, in random order, read-only."""
    ids = np.random.default_rng(seed).permutation(len(rows))
    ids = ids[~np.isin(ids, exclude)]
    pool = rows[ids]
    for array in (ids, pool):
        array.flags.writeable = False
    return Start(ids=NONE, weights=np.empty(0), rows=pool[:0], pool_ids=ids, pool=pool, exclude=exclude)


def origin(d: int) -> Start:
    """Return a start at the origin, without a pool."""
    none = np.empty((0, d))
    return Start(ids=NONE, weights=np.empty(0), rows=none, pool_ids=NONE, pool=none, exclude=NONE)


def at_atom(rows: Matrix, i: int) -> Start:
    """Return a start at one atom."""
    return replace(pool_of(rows), ids=np.array([i]), weights=np.ones(1), rows=rows[i : i + 1])


def minimum(objective: Objective, rows: Matrix) -> float:
    """Return least f that SLSQP finds on the simplex of weights: never below min f."""
    rows = rows.astype(np.float64)
    k = len(rows)
    out = scipy_minimize(
        lambda w: objective.at(w @ rows).value,
        np.full(k, 1.0 / k),
        jac=lambda w: rows @ objective.at(w @ rows).grad,
        bounds=[(0.0, 1.0)] * k,
        constraints={"type": "eq", "fun": lambda w: w.sum() - 1.0, "jac": lambda w: np.ones(k)},
        options={"ftol": 1e-15, "maxiter": 500},
    )
    weights = np.maximum(out.x, 0.0)
    weights /= weights.sum()
    return min(objective.at(weights @ rows).upper, *(objective.at(row).upper for row in rows))


def _problem(name: str, objective: Objective, rows: Matrix) -> Problem:
    rows = rows.copy()
    rows.flags.writeable = False
    best = minimum(objective, rows)
    scale = float(np.median(objective.values(rows))) - best
    return Problem(name, objective, rows, best, max(scale, 1e-3 * abs(best), 1e-3))


@functools.cache
def problems() -> Sequence[Problem]:
    """Targets inside, outside and on atoms; ties; one atom; one dimension; losses."""
    rng = np.random.default_rng(7)
    cloud = rng.standard_normal((30, 4))
    design = rng.standard_normal((12, 4))
    response = 3.0 * rng.standard_normal(12)
    labels = np.sign(design @ np.array([1.0, -2.0, 0.5, 0.0]) + 0.5)
    far = np.array([1.2, 0.8, -1.0, 1.3])
    return (
        _problem("inside", SquaredDistance(cloud.mean(axis=0)), cloud),
        _problem("outside", SquaredDistance(far), cloud),
        _problem("outside, float32", SquaredDistance(far), cloud.astype(np.float32)),
        _problem("far from the origin", SquaredDistance(far + 100.0), cloud + 100.0),
        _problem("on an atom", SquaredDistance(cloud[3]), cloud),
        _problem("beyond an atom", SquaredDistance(4.0 * np.eye(4)[1]), np.eye(4)),
        _problem("on the simplex", SquaredDistance([0.9, 0.3, -0.2, 0.1]), np.eye(4)),
        _problem("one atom", SquaredDistance(far), cloud[:1]),
        _problem("one atom, no gradient", SquaredDistance(cloud[0]), cloud[:1]),
        _problem("one dimension", SquaredDistance([0.3]), cloud[:, :1]),
        _problem("one dimension, outside", SquaredDistance([9.0]), cloud[:, :1]),
        _problem("duplicates", SquaredDistance(far), np.repeat(cloud[:10], 3, axis=0)),
        _problem("all the same", SquaredDistance(far), np.repeat(cloud[:1], 5, axis=0)),
        _problem("least squares", LeastSquares(design, response), cloud),
        _problem("least squares, wide", LeastSquares(design[:2], response[:2] + 5.0), cloud),
        _problem("logistic", Logistic(design, labels), cloud),
        _problem("huber", Huber(design, response), cloud),
    )


def run(
    method: Method, problem: Problem, start: Start | None = None, *, steps: int = 500, gap: float = 0.0
) -> list[State]:
    """Collect the states until a gap or a number of states is reached."""
    rng = np.random.default_rng(1)
    begun = method.begin(problem.objective, pool_of(problem.rows) if start is None else start, rng)
    states = method.states(problem.objective, problem.oracle, begun, goal=gap, rng=rng)
    return list(_until(states, steps, gap))


def _until(states: Iterator[State], steps: int, gap: float) -> Iterator[State]:
    for index, state in enumerate(states):
        yield state
        if state.gap <= gap or index >= steps:
            return


def check_method(method: Method, *, monotone: bool, gap: float, steps: int = 500) -> None:
    """Check a method on all problems.

    Parameters
    ----------
    method
        What is checked.
    monotone
        Whether it promises that f never rises.
    gap
        Proved gap that it must reach, relative to each problem's scale.
    steps
        States within which it must.
    """
    for problem in problems():
        states = run(method, problem, steps=steps, gap=gap * problem.scale)
        _check_first(states[0])
        for state in states:
            _check_state(problem, state)
        _check_trace(states, problem, monotone=monotone)
        assert states[-1].gap <= max(gap * problem.scale, 8.0 * states[-1].slack), problem.name
    _check_repeatable(method)
    _check_exclude(method, gap, steps)
    _check_warm_start(method, gap, steps)


def _check_first(state: State) -> None:
    assert (state.kind, state.hit, state.passes) == ("start", -1, 0.0)
    assert state.end is None


def _check_state(problem: Problem, state: State) -> None:
    rows = problem.rows.astype(np.float64)
    assert len(np.unique(state.ids)) == len(state.ids), problem.name
    assert state.ids.dtype == np.int64
    assert (state.weights >= 0.0).all(), problem.name
    assert math.isclose(state.weights.sum(), 1.0, rel_tol=1e-12), problem.name
    size = np.abs(rows).max()
    np.testing.assert_allclose(state.point.x, state.weights @ rows[state.ids], rtol=0.0, atol=1e-12 * size)
    assert state.lower <= problem.best, problem.name
    assert state.value >= problem.best - 1e-8 * problem.scale, problem.name
    assert state.value >= state.point.value


def _check_trace(states: Sequence[State], problem: Problem, *, monotone: bool) -> None:
    for before, after in itertools.pairwise(states):
        assert after.t >= before.t
        assert after.lower >= before.lower, problem.name
        assert (after.passes, after.scored) >= (before.passes, before.scored)
        rise = after.point.value - before.point.value
        allowed = 2.0 * (before.point.value_error + after.point.value_error)
        assert not monotone or rise <= allowed, problem.name


def _check_repeatable(method: Method) -> None:
    problem = problems()[1]
    once, again = run(method, problem, steps=20), run(method, problem, steps=20)
    for a, b in zip(once, again, strict=True):
        np.testing.assert_array_equal(a.ids, b.ids)
        np.testing.assert_array_equal(a.weights, b.weights)


def _check_exclude(method: Method, gap: float, steps: int) -> None:
    """The best atoms are taken away; the rest is a problem of its own."""
    problem = problems()[1]
    exclude = np.argsort(problem.objective.values(problem.rows))[:3].astype(np.int64)
    rest = _problem("excluded", problem.objective, np.delete(problem.rows, exclude, axis=0))
    start = pool_of(problem.rows, exclude=exclude)
    states = run(method, problem, start, steps=steps, gap=gap * rest.scale)
    assert all(not np.isin(state.ids, exclude).any() for state in states)
    assert states[-1].lower <= rest.best <= states[-1].value + 1e-8 * rest.scale
    assert states[-1].gap <= gap * rest.scale


def _check_warm_start(method: Method, gap: float, steps: int) -> None:
    problem = problems()[1]
    cold = run(method, problem, steps=steps, gap=gap * problem.scale)
    last = cold[-1]
    start = replace(
        pool_of(problem.rows), ids=last.ids, weights=last.weights, rows=problem.rows[last.ids], t=last.t
    )
    states = run(method, problem, start, steps=steps, gap=gap * problem.scale)
    assert math.isclose(states[0].value, last.value, rel_tol=1e-12)
    assert states[-1].gap <= gap * problem.scale
    assert len(states) <= len(cold)
