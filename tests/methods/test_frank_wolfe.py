# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, field, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from tests.conformance.method import Problem, at_atom, origin, problems, run
from wolfhound.core.contracts import (
    Atoms,
    Hits,
    Ids,
    Line,
    Matrix,
    Oracle,
    Point,
    Start,
    State,
    Status,
    Vector,
)
from wolfhound.data.atoms import ArrayAtoms
from wolfhound.methods.directions import Away, BlendedPairwise, Direction, Pairwise, Vanilla
from wolfhound.methods.frank_wolfe import FrankWolfe
from wolfhound.methods.steps import LineSearch, OpenLoop
from wolfhound.objectives.likelihood import MixtureLikelihood
from wolfhound.objectives.plain import PlainLine, SquaredDistance
from wolfhound.oracles.scan import Scan
from wolfhound.solve.minimize import minimize

DIRECTIONS: tuple[Direction, ...] = (Vanilla(), Away(), Pairwise(), BlendedPairwise())
LINEAR: tuple[Direction, ...] = (Away(), Pairwise(), BlendedPairwise())


@dataclass
class Recorder:
    """Passes queries on; can hide the proof or the answers."""

    inner: Oracle
    proves: bool = True
    finds: bool = True
    wanted: list[float] = field(default_factory=list)

    @property
    def atoms(self) -> Atoms:
        return self.inner.atoms

    def query(
        self, queries: Matrix, *, k: int = 1, thresholds: Vector | None = None, exclude: Ids | None = None
    ) -> Hits:
        self.wanted.append(math.nan if thresholds is None else float(thresholds[0]))
        hits = self.inner.query(queries, k=k, thresholds=thresholds, exclude=exclude)
        return replace(
            hits,
            ids=np.where(self.finds, hits.ids, -1),
            scores=np.where(self.finds, hits.scores, -math.inf),
            bounds=np.where(self.proves, hits.bounds, math.inf),
        )


def follow(
    method: FrankWolfe, objective: SquaredDistance, oracle: Oracle, start: Start, steps: int
) -> list[State]:
    states = method.states(objective, oracle, start, goal=0.0, rng=np.random.default_rng(0))
    return list(itertools.islice(states, steps + 1))


def outside() -> Problem:
    """Project a point on a face of the hull of 300 atoms in 20 dimensions."""
    rng = np.random.default_rng(3)
    rows = rng.standard_normal((300, 20))
    return Problem("face", SquaredDistance(1.2 * rng.standard_normal(20)), rows, math.nan, 1.0)


# ---------------------------------------------------------------- herding


@pytest.mark.parametrize("seed", range(3))
def test_open_loop_from_the_origin_is_herding(seed: int) -> None:
    """w += mu - s, s = argmax <w, s>, W_t = t (mu - x_t): uniform weights over the picks."""
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((60, 4))
    mean = rows.mean(axis=0)
    w, picks, points = np.zeros(4), [], []
    for t in range(1, 41):
        # W_0 = 0 ties all atoms in the paper; Frank-Wolfe asks for -grad(0) = mu first.
        picks.append(int(np.argmax(rows @ (w if t > 1 else mean))))
        w = w + mean - rows[picks[-1]]
        points.append(mean - w / t)
    method = FrankWolfe(Vanilla(), OpenLoop(1.0))
    states = follow(method, SquaredDistance(mean), Scan(ArrayAtoms(rows)), origin(4), 40)
    assert [state.hit for state in states[1:]] == picks
    assert_allclose([state.point.x for state in states[1:]], points, atol=1e-12)
    ids, counts = np.unique(picks, return_counts=True)
    order = np.argsort(states[-1].ids)
    assert_array_equal(states[-1].ids[order], ids)
    assert_allclose(states[-1].weights[order], counts / 40, rtol=1e-12)


def test_the_origin_bounds_nothing() -> None:
    """f is 0 at the origin, which is not in the hull."""
    rows = np.eye(3)
    first, second = follow(FrankWolfe(), SquaredDistance(np.zeros(3)), Scan(ArrayAtoms(rows)), origin(3), 1)
    assert first.value == math.inf
    assert len(first.ids) == 0
    assert_array_equal(second.weights, [1.0])
    assert_array_equal(second.point.x, rows[second.ids[0]])


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("lazy", [False, True])
def test_every_direction_leaves_the_origin(direction: Direction, lazy: bool) -> None:
    f, rows = SquaredDistance([0.7, 0.2, 0.1]), np.eye(3)
    states = follow(FrankWolfe(direction, lazy=lazy), f, Scan(ArrayAtoms(rows)), origin(3), 60)
    assert math.isclose(states[1].weights.sum(), 1.0)
    assert states[-1].value < 1e-2


def test_schedules_continue() -> None:
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((30, 3))
    f, oracle = SquaredDistance(rows.mean(axis=0)), Scan(ArrayAtoms(rows))
    method = FrankWolfe(Vanilla(), OpenLoop(1.0))
    whole = follow(method, f, oracle, origin(3), 20)
    half = whole[8]
    start = replace(origin(3), ids=half.ids, weights=half.weights, rows=rows[half.ids], t=half.t)
    rest = follow(method, f, oracle, start, 12)
    assert [state.t for state in rest] == list(range(8, 21))
    assert_allclose(rest[-1].point.x, whole[-1].point.x, atol=1e-12)


# ---------------------------------------------------------------- lazy


@pytest.mark.parametrize("direction", LINEAR)
def test_lazy_saves_queries(direction: Direction) -> None:
    problem = outside()
    asked = run(FrankWolfe(direction), problem, steps=400, gap=1e-8)
    lazy = run(FrankWolfe(direction, lazy=True), problem, steps=400, gap=1e-8)
    assert lazy[-1].gap <= 1e-8
    assert sum(state.hit >= 0 for state in lazy) < 0.4 * sum(state.hit >= 0 for state in asked)


def test_lazy_steps_inside_have_at_least_half_of_the_gap_left() -> None:
    problem = outside()
    states = run(FrankWolfe(BlendedPairwise(), lazy=True), problem, steps=200)
    inside = [(a, b) for a, b in itertools.pairwise(states) if b.hit < 0 and b.kind == "pairwise"]
    assert len(inside) > 20
    for before, after in inside:
        scores = -problem.rows[before.ids] @ before.point.grad
        assert np.ptp(scores) >= 0.5 * before.gap * (1.0 - 1e-9)
        assert (after.passes, after.lower) == (before.passes, before.lower)


def test_lazy_points_stay_exact_over_many_steps() -> None:
    """x moves without its weights for up to 63 steps; its value must stay a bound."""
    problem = outside()
    states = run(FrankWolfe(BlendedPairwise(), lazy=True), problem, steps=300)
    for state in states:
        exact = problem.objective.at(state.weights @ problem.rows[state.ids])
        assert_allclose(state.point.x, exact.x, atol=1e-13)
        assert abs(state.point.value - exact.value) <= state.point.value_error + exact.value_error


def test_wanted_gap_is_half_of_what_is_left() -> None:
    problem = outside()
    oracle = Recorder(problem.oracle)
    f = SquaredDistance(np.ones(20))
    states = follow(FrankWolfe(), f, oracle, at_atom(problem.rows, 0), 5)
    expected = [-(s.point.grad @ s.point.x) + 0.5 * s.gap for s in states[:-1]]
    assert_allclose(oracle.wanted, expected)


def test_nothing_is_wanted_without_a_lower_bound() -> None:
    problem = outside()
    oracle = Recorder(problem.oracle, proves=False)
    f = _Unbounded(np.ones(20))
    states = follow(FrankWolfe(BlendedPairwise(), lazy=True), f, oracle, at_atom(problem.rows, 0), 5)
    assert np.isnan(oracle.wanted).all()
    assert len(oracle.wanted) == 5
    assert all(state.lower == -math.inf for state in states)


class _Unbounded(SquaredDistance):
    """No floor is known."""

    floor = -math.inf


class _NotConvex(SquaredDistance):
    convex = False


@pytest.mark.parametrize("lazy", [False, True])
def test_no_lower_bound_without_convexity(lazy: bool) -> None:
    rows = np.eye(3)
    f = _NotConvex(np.array([0.7, 0.3, -0.1]))
    states = follow(FrankWolfe(Away(), lazy=lazy), f, Scan(ArrayAtoms(rows)), at_atom(rows, 2), 30)
    assert all(state.lower == -math.inf for state in states)
    assert_allclose(states[-1].point.x, [0.7, 0.3, 0.0], atol=1e-6)


# ---------------------------------------------------------------- the end


def test_one_null_step_ends_a_proved_run() -> None:
    """The best vertex is the minimum: nothing is better, and the scan proves it."""
    rows = np.eye(3)
    f = SquaredDistance([5.0, 0.0, 0.0])
    states = follow(FrankWolfe(), f, Scan(ArrayAtoms(rows)), at_atom(rows, 0), 100)
    assert [state.kind for state in states] == ["start", "null"]
    assert states[-1].gap <= 8.0 * states[-1].slack


@pytest.mark.parametrize("patience", [1, 4])
def test_patience_ends_a_run_without_proof(patience: int) -> None:
    rows = np.eye(3)
    f = SquaredDistance([5.0, 0.0, 0.0])
    oracle = Recorder(Scan(ArrayAtoms(rows)), proves=False)
    states = follow(FrankWolfe(patience=patience), f, oracle, at_atom(rows, 0), 100)
    assert [state.kind for state in states] == ["start"] + ["null"] * patience
    assert [state.t for state in states] == list(range(patience + 1))


@pytest.mark.slow
@pytest.mark.parametrize("direction", LINEAR)
@pytest.mark.parametrize("lazy", [False, True])
def test_runs_end_when_only_rounding_is_left(direction: Direction, lazy: bool) -> None:
    for problem in problems():
        states = run(FrankWolfe(direction, lazy=lazy), problem, steps=2000, gap=-1.0)
        assert len(states) < 2000, problem.name
        assert states[-1].gap <= 8.0 * states[-1].slack, problem.name


def test_an_oracle_that_finds_nothing() -> None:
    rows = np.eye(3)
    f = SquaredDistance([0.5, 0.5, 0.0])
    oracle = Recorder(Scan(ArrayAtoms(rows)), proves=False, finds=False)
    single = follow(FrankWolfe(BlendedPairwise(), patience=3), f, oracle, at_atom(rows, 0), 100)
    assert [state.kind for state in single[1:]] == ["null"] * 3
    pair = replace(at_atom(rows, 0), ids=np.array([0, 1]), weights=np.array([0.9, 0.1]), rows=rows[:2])
    moved = follow(FrankWolfe(BlendedPairwise(), patience=3), f, oracle, pair, 1)
    assert_allclose(moved[-1].weights, [0.5, 0.5])
    nowhere = follow(FrankWolfe(patience=2), f, oracle, origin(3), 100)
    assert [len(state.ids) for state in nowhere] == [0, 0, 0]


def test_open_loop_keeps_the_only_atom() -> None:
    """The hit is also the worst active atom: a pairwise move leads nowhere."""
    rows = np.ones((1, 3))
    f = SquaredDistance([0.1, 0.2, 0.7])
    states = follow(FrankWolfe(Pairwise(), OpenLoop()), f, Scan(ArrayAtoms(rows)), at_atom(rows, 0), 5)
    assert all(len(state.ids) == 1 for state in states)


class _Overflows(SquaredDistance):
    """f is infinite where the first coordinate exceeds 1/2."""

    def at(self, x: Vector, drift: Vector | float = 0.0) -> object:  # type: ignore[override]
        point = SquaredDistance.at(self, x, drift)
        return replace(point, value=point.value if x[0] <= 0.5 else math.inf)

    def line(self, start: Point, direction: Vector) -> PlainLine:  # type: ignore[override]
        return PlainLine(self, start, direction)  # type: ignore[arg-type]


def test_an_infinite_start_is_named() -> None:
    rows = np.eye(3)
    f = _Overflows(np.array([9.0, 0.0, 0.0]))
    oracle = Scan(ArrayAtoms(rows))
    method = FrankWolfe(Vanilla(), OpenLoop())
    with pytest.raises(FloatingPointError, match="at the start"):
        follow(method, f, oracle, at_atom(rows, 0), 10)


def test_a_schedule_steps_back_into_the_domain() -> None:
    rows = np.eye(3)
    f = _Overflows(np.array([9.0, 0.0, 0.0]))
    states = follow(FrankWolfe(Vanilla(), OpenLoop()), f, Scan(ArrayAtoms(rows)), at_atom(rows, 1), 10)
    assert_allclose(states[1].point.x, [0.5, 0.5, 0.0])
    assert all(math.isfinite(state.value) for state in states)


def test_line_search_stays_where_f_is_finite() -> None:
    rows = np.eye(3)
    f = _Overflows(np.array([9.0, 0.0, 0.0]))
    states = follow(FrankWolfe(), f, Scan(ArrayAtoms(rows)), at_atom(rows, 1), 1)
    assert_allclose(states[1].point.x, [0.5, 0.5, 0.0], atol=1e-6)


def test_arguments() -> None:
    with pytest.raises(ValueError, match="`patience` must be an integer >= 1"):
        FrankWolfe(patience=0)
    with pytest.raises(TypeError):
        FrankWolfe(Vanilla(), LineSearch(), True)  # type: ignore[call-arg]


@dataclass(frozen=True)
class _Share:
    """Always goes this share of the way to the end."""

    share: float

    def begin(self) -> float:
        return 0.0

    def __call__(self, line: Line, end: float, t: int, estimate: float) -> tuple[float, float]:
        return self.share * end, estimate


def test_after_a_null_step_inside_the_oracle_is_asked() -> None:
    rows = np.eye(3)
    pair = replace(at_atom(rows, 0), ids=np.array([0, 1]), weights=np.array([0.9, 0.1]), rows=rows[:2])
    method = FrankWolfe(BlendedPairwise(), _Share(0.0), lazy=True)
    states = follow(method, SquaredDistance([0.1, 0.9, 0.0]), Scan(ArrayAtoms(rows)), pair, 10)
    assert [state.kind for state in states] == ["start", "null", "null"]
    assert [state.hit >= 0 for state in states] == [False, False, True]


def test_a_step_beyond_the_hull_is_refused() -> None:
    rows = np.eye(3)
    with pytest.raises(ValueError, match="`step` must be a rule that answers in"):
        follow(
            FrankWolfe(Vanilla(), _Share(2.0)),
            SquaredDistance(np.ones(3)),
            Scan(ArrayAtoms(rows)),
            at_atom(rows, 0),
            3,
        )


@given(
    seed=st.integers(0, 10**6),
    n=st.integers(1, 12),
    d=st.integers(1, 4),
    direction=st.sampled_from(DIRECTIONS),
    lazy=st.booleans(),
    repeat=st.booleans(),
)
def test_lower_bounds_every_point_of_the_hull(
    seed: int, n: int, d: int, direction: Direction, lazy: bool, repeat: bool
) -> None:
    rng = np.random.default_rng(seed)
    rows = np.repeat(rng.standard_normal((n, d)), 1 + repeat, axis=0)
    f = SquaredDistance(2.0 * rng.standard_normal(d))
    states = follow(FrankWolfe(direction, lazy=lazy), f, Scan(ArrayAtoms(rows)), at_atom(rows, 0), 30)
    others = rng.dirichlet(np.full(len(rows), 0.3), 200) @ rows
    least = min(float(f.values(others).min()), float(f.values(rows).min()))
    for state in states:
        assert state.lower <= least * (1.0 + 1e-14)
        assert state.lower <= state.value
        assert (state.weights > 0.0).all()
        assert len(np.unique(state.ids)) == len(state.ids)


def test_rounding_at_a_worse_point_does_not_end_a_run() -> None:
    """An open loop jumps to an atom at the edge of the domain, where the gradient is huge."""
    rows = np.array([[0.7, 4e-17], [4e-17, 0.42], [0.4, 1e-15]])
    result = minimize(
        MixtureLikelihood(), rows, method=FrankWolfe(Vanilla(), OpenLoop()), rtol=1e-9, max_steps=30
    )
    assert result.steps == 30
    assert result.status is Status.MAX_STEPS
