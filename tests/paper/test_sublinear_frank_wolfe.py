"""The paper's method: its bounds hold, with any index, for convex f and others."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from tests.conformance.method import at_atom, pool_of
from tests.methods.shares import (
    ANY,
    Case,
    Reluctant,
    alone,
    always,
    cases,
    cloud,
    degraded,
    far,
    follow,
    not_convex,
    worst_of,
)
from wolfhound.core.contracts import Line, Matrix, Oracle, Start, State, Status, Vector
from wolfhound.methods.asking import random_mixture
from wolfhound.methods.directions import Vanilla
from wolfhound.methods.frank_wolfe import FrankWolfe
from wolfhound.methods.steps import Clipped, OpenLoop, ShortStep
from wolfhound.objectives.plain import SquaredDistance
from wolfhound.oracles.clusters import ClusterIndex
from wolfhound.oracles.lsh import LshIndex
from wolfhound.oracles.scan import Scan
from wolfhound.oracles.subset import RandomSubset
from wolfhound.oracles.wrappers import Audited, Tiered
from wolfhound.paper import theory
from wolfhound.paper.sublinear_frank_wolfe import Halving, SublinearFrankWolfe
from wolfhound.solve.minimize import minimize

SHARES = (0.5, 0.7, 0.9, 1.0)


# ---------------------------------------------------------------- the steps


@dataclass(frozen=True)
class Printed:
    """The paper's step, as printed."""

    c: float

    def at(self, t: int) -> float:
        return 2.0 / (self.c * (t + 2))

    def begin(self) -> float:
        return 0.0

    def __call__(self, line: Line, end: float, t: int, estimate: float) -> tuple[float, float]:
        return self.at(t), estimate


@pytest.mark.parametrize("c", [0.5, 0.65, 0.7, 0.99])
def test_the_printed_step_leaves_the_hull(c: float) -> None:
    """At t = 0 for every c < 1, at t = 1 too for c < 2/3: weights become negative."""
    first, second = np.eye(3)[:2]
    x = first + Printed(c).at(0) * (second - first)
    assert x.min() < 0.0
    assert (Printed(c).at(1) > 1.0) == (c < 2.0 / 3.0)
    case = Case(SquaredDistance([0.0, 1.0, 0.0]), np.eye(3), 0.0)
    with pytest.raises(ValueError, match=r"`step` must be a rule that answers in \[0, 1\]"):
        follow(FrankWolfe(Vanilla(), Printed(c)), case, always(Scan(np.eye(3))), states=2)
    for schedule in (OpenLoop(2.0 / c), Clipped(c)):
        assert schedule.at(0) == 1.0
        assert all(0.0 < schedule.at(t + 1) <= schedule.at(t) for t in range(20))


def test_clipped_is_the_printed_step_up_to_one() -> None:
    assert_allclose([Clipped(0.5).at(t) for t in range(5)], [1.0, 1.0, 1.0, 0.8, 2.0 / 3.0])
    assert [Clipped(1.0).at(t) for t in range(9)] == [Printed(1.0).at(t) for t in range(9)]
    line = SquaredDistance([1.0]).line(SquaredDistance([1.0]).at(np.zeros(1)), np.ones(1))
    assert Clipped(0.5)(line, 0.25, 0, 7.0) == (0.25, 7.0)
    with pytest.raises(ValueError, match=r"`ratio` must be in \(0, 1\]"):
        Clipped(1.5)


@pytest.mark.slow
@pytest.mark.parametrize("c", SHARES)
@pytest.mark.parametrize(
    ("clipped", "bound"),
    [(False, theory.gap_after), (True, theory.gap_after_clipped)],
    ids=["corrected", "clipped"],
)
def test_the_gap_never_exceeds_the_theory(c: float, clipped: bool, bound: Callable[..., float]) -> None:
    method = alone(ratio=c, tau=ANY, diameter=1.0, schedule=Clipped(c) if clipped else None)
    ratios: list[float] = []
    for case in (far(), *cases()):
        states = follow(method, case, degraded(case, c, ratios), states=201)
        first = states[0].point.value - case.least
        for state in states:
            allowed = bound(state.t, c=c, curvature=case.curvature, first=first)
            assert state.point.value - case.least <= allowed * (1.0 + 1e-9)
    assert len(ratios) > 800
    assert c <= min(ratios) < c + 0.01


@pytest.mark.parametrize("schedule", [None, Clipped(0.5)])
def test_the_printed_bound_forgets_the_start(schedule: Clipped | None) -> None:
    """2 beta D^2 / (c^2 (t+1)) has no h_0, which is what is left of a far target."""
    case = far()
    method = alone(ratio=0.5, tau=ANY, diameter=1.0, schedule=schedule)
    states = follow(method, case, degraded(case, 0.5, []), states=3)
    assert states[1].value - case.least > 2.0 * case.curvature / (0.5**2 * 2.0)


@pytest.mark.parametrize("c", [0.5, 1.0])
@pytest.mark.parametrize(
    "begin", [lambda case: case.worst, lambda case: case.middle], ids=["worst", "middle"]
)
def test_halving_keeps_half_of_the_share(c: float, begin: Callable[[Case], Start]) -> None:
    """Each answer has c/2 of h_t, so h_t <= ((a-1) h_0 + (2C/c^2)(1/a + ln(1+t/a))) / (t+a-1), a = 2/c."""
    method, a = alone(ratio=c), 2.0 / c
    for case in cases():
        states = follow(method, case, always(Reluctant(case.rows)), start=begin(case), states=150)
        steps = [(p, q) for p, q in itertools.pairwise(states) if q.kind == "forward"]
        assert len(steps) > 100
        for before, after in steps:
            gap = float(before.point.grad @ (before.point.x - case.rows[after.hit]))
            assert gap >= 0.5 * c * (before.point.value - case.least) * (1.0 - 1e-9)
        t, excess = np.array([(s.t, s.point.value - case.least) for s in states]).T
        logs = 2.0 * case.curvature / c**2 * (1.0 / a + np.log1p(t / a))
        assert (excess <= ((a - 1.0) * excess[0] + logs) / (t + a - 1.0) * (1.0 + 1e-9)).all()


@pytest.mark.parametrize("c", [0.5, 1.0])
def test_with_an_exact_oracle_it_is_the_classical_method(c: float) -> None:
    """For c = 1 Algorithm 1: the same points, bit for bit; only "none" shows some of them twice."""
    for case in cases():
        scan = always(Scan(case.rows))
        classical = follow(FrankWolfe(Vanilla(), OpenLoop(2.0 / c)), case, scan, states=61)
        mine = follow(alone(ratio=c), case, scan, states=90)
        moved = [state for state in mine if state.kind != "none"][:61]
        assert len(moved) == 61
        assert_array_equal([state.point.x for state in moved], [state.point.x for state in classical])


# ---------------------------------------------------------------- indexes and audits


@pytest.mark.slow
@pytest.mark.parametrize(
    "make",
    [LshIndex.build, ClusterIndex.build, lambda rows: RandomSubset(rows, size=300)],
    ids=["lsh", "clusters", "subset"],
)
@pytest.mark.parametrize("far", [0.0, 1.2], ids=["interior", "boundary"])
def test_halving_reaches_a_proof_with_any_index(make: Callable[[Matrix], Oracle], far: float) -> None:
    rows = cloud(3000, 8)
    f = SquaredDistance(rows.mean(axis=0) + far)
    exact = minimize(f, rows, rtol=1e-9)
    result = minimize(f, make(rows), method=alone(ratio=0.8), rtol=1e-3, max_steps=20_000)
    assert result.status is Status.GAP_REACHED
    assert exact.lower <= result.value <= exact.value + result.goal
    assert result.lower <= exact.value
    again = minimize(f, make(rows), method=alone(ratio=0.8), rtol=1e-3, max_steps=20_000)
    assert_array_equal(again.x, result.x)
    assert_array_equal(again.trace.value, result.trace.value)


@pytest.mark.parametrize("confirm", [True, False])
def test_interior_targets_need_no_pass(confirm: bool) -> None:
    """f >= 0 is the proof, and Phi falls with f."""
    rows = cloud(3000, 8)
    f, method = SquaredDistance(rows.mean(axis=0)), alone(confirm=confirm)
    result = minimize(f, LshIndex.build(rows), method=method, rtol=1e-3)
    assert result.status is Status.GAP_REACHED
    assert result.passes == 0.0
    assert result.scored < 0.5 * len(rows) * result.steps


def test_the_trace_has_the_audited_ratio() -> None:
    case, ratios = cases()[1], list[float]()
    method = alone(ratio=0.7, tau=ANY, diameter=1.0)
    states = follow(method, case, lambda f: Audited(degraded(case, 0.7, ratios)(f), every=1), states=60)
    assert_allclose([state.ratio for state in states[1:]], ratios, rtol=1e-9)
    assert all(state.lower > 0.0 for state in states[1:])


def test_the_ratio_is_that_of_the_step_where_a_pass_takes_the_place_of_an_answer() -> None:
    rows = cloud(200, 4)
    f = SquaredDistance(np.full(4, 1.5))
    oracle = Audited(worst_of(rows), every=2)
    result = minimize(f, oracle, method=alone(), rtol=1e-2, max_steps=50)
    measured = result.trace.ratio[result.trace.kind == "forward"]
    assert len(measured) > 5
    assert (measured > 0.99).all()


# ---------------------------------------------------------------- beside the index


def shares_of(rows: Matrix, states: list[State], target: Vector) -> Vector:
    """Share of the best gap that each step had, by numpy alone."""
    out = []
    for before, after in itertools.pairwise(states):
        query = target - before.point.x
        best = float((rows @ query).max() - query @ before.point.x)
        out.append((float(rows[after.hit] @ query) - float(query @ before.point.x)) / best)
    return np.array(out)


@pytest.mark.slow
@pytest.mark.parametrize("inside", [True, False])
def test_the_share_of_the_best_gap_is_what_was_asked_for(inside: bool) -> None:
    """On rows of norm 1 beside a common direction, which hashes alone find hard."""
    rows = cloud(20_000, 24) + 0.6
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    target = rows[:64].mean(axis=0) + (0.0 if inside else 1.5 * cloud(1, 24, seed=1)[0] / math.sqrt(24.0))
    states: list[State] = []
    method = SublinearFrankWolfe(ratio=0.8, mixed=0)
    result = minimize(
        SquaredDistance(target), LshIndex.build(rows), method=method, max_steps=120, callback=states.append
    )
    moves = [state for state in states if state.kind != "none"]
    assert shares_of(rows, moves, target).mean() >= 0.8
    assert result.scored < 0.35 * len(rows) * result.steps


def test_a_share_that_is_too_low_is_noticed_and_mended() -> None:
    """An index that finds the worst: samples grow until the mean of what is audited is enough."""
    rows = cloud(2000, 6)
    tiers = Tiered(worst_of(rows), sample=2, cache=0)
    f, method = SquaredDistance(rows[:50].mean(axis=0)), SublinearFrankWolfe(ratio=0.9)
    result = minimize(f, tiers, method=method, rtol=0.0, max_steps=400)
    audited = result.trace.ratio[np.isfinite(result.trace.ratio)]
    assert len(audited) >= 2
    assert audited[0] < 0.9
    assert tiers.sample >= 8
    bare = minimize(f, worst_of(rows), method=alone(ratio=0.9), rtol=0.0, max_steps=400)
    assert result.scored < 0.5 * bare.scored


def test_a_run_that_cannot_have_the_share_falls_back_to_passes_and_says_so() -> None:
    """Every atom wanted is the best one, and the index finds the worst."""
    rows = cloud(500, 6)
    f, method = SquaredDistance(np.full(6, 2.0)), SublinearFrankWolfe(ratio=1.0)
    result = minimize(f, worst_of(rows), method=method, rtol=0.0, max_steps=60)
    kinds, ratios = result.trace.kind, result.trace.ratio
    first = int((kinds == "exact").argmax())
    assert 1 < first < 40
    assert "exact" not in kinds[:first] and "forward" not in kinds[first:]
    assert_allclose(ratios[first:][kinds[first:] == "exact"][1:], 1.0)
    assert "the same by a pass" in str(result.summary().details())


def test_audits_cost_no_more_than_the_run() -> None:
    rows = cloud(3000, 8)
    tiers = Tiered(LshIndex.build(rows))
    f = SquaredDistance(rows[:64].mean(axis=0))
    result = minimize(f, tiers, method=SublinearFrankWolfe(ratio=0.5), rtol=0.0, max_steps=300)
    assert result.passes >= 1.0
    assert 3000 * result.passes <= 0.5 * result.scored


# ---------------------------------------------------------------- f that is not convex


@pytest.mark.parametrize("c", SHARES)
def test_short_steps_find_a_small_gap_without_convexity(c: float) -> None:
    """min g_t <= (1/c) max(2 h_0 / (T+1), sqrt(2 beta D^2 h_0 / (T+1))), and no lower bound."""
    for case in not_convex():
        method = alone(ratio=c, schedule=ShortStep(case.objective.smoothness))
        states = follow(method, case, degraded(case, c, []), states=120)
        gaps = np.minimum.accumulate([case.gap(state) for state in states])
        more, first = np.array([state.t + 1.0 for state in states]), states[0].value - case.least
        allowed = np.maximum(2.0 * first / more, np.sqrt(2.0 * case.curvature * first / more)) / c
        assert (gaps <= allowed).all()
        assert gaps[-1] < 0.2 * gaps[0]
        assert all(state.lower == -math.inf for state in states)
        assert all(after.value <= before.value + 1e-12 for before, after in itertools.pairwise(states))


# ---------------------------------------------------------------- the start


class _Known(SquaredDistance):
    """An objective that knows its start."""

    def begin(self, rows: Matrix) -> Vector | None:
        return np.array([0.0, 0.0, 1.0] + [0.0] * (len(rows) - 3))


def test_a_random_start_is_a_mixture_of_random_atoms() -> None:
    rows, f = cloud(50, 3), SquaredDistance(np.zeros(3))
    pool = pool_of(rows, exclude=np.arange(20))
    starts = [alone().begin(f, pool, np.random.default_rng(seed)) for seed in (0, 0, 1)]
    for start in starts:
        assert len(np.unique(start.ids)) == 16
        assert not np.isin(start.ids, np.arange(20)).any()
        assert_array_equal(start.rows, rows[start.ids])
        assert (start.weights > 0.0).all()
        assert math.isclose(start.weights.sum(), 1.0)
    assert_array_equal(starts[0].ids, starts[1].ids)
    assert_array_equal(starts[0].weights, starts[1].weights)
    assert not np.array_equal(starts[0].ids, starts[2].ids)


def test_random_starts_are_uniform_on_the_simplex() -> None:
    """Of k weights each has the mean 1/k and the variance (k-1) / (k^2 (k+1))."""
    rng, f, pool = np.random.default_rng(0), SquaredDistance(np.zeros(3)), pool_of(np.eye(3))
    weights = np.zeros((4000, 3))
    for row in weights:
        start = random_mixture(f, pool, rng, size=16)
        row[start.ids] = start.weights
    assert_allclose(weights.mean(axis=0), 1.0 / 3.0, atol=0.02)
    assert_allclose(weights.var(axis=0), 1.0 / 18.0, rtol=0.1)


def test_other_starts() -> None:
    rows, rng = cloud(50, 3), np.random.default_rng(0)
    f, pool = SquaredDistance(np.zeros(3)), pool_of(rows)
    assert len(alone(mixed=3).begin(f, pool, rng).ids) == 3
    assert len(alone().begin(f, pool_of(rows[:5]), rng).ids) == 5
    assert_array_equal(alone(mixed=0).begin(f, pool, rng).ids, [f.values(rows).argmin()])
    assert_array_equal(alone().begin(_Known(np.zeros(3)), pool, rng).ids, pool.pool_ids[2:3])
    warm = at_atom(rows, 7)
    assert alone().begin(f, warm, rng) is warm
    with pytest.raises(ValueError, match="`start` must be a start with ids or a pool"):
        alone().begin(f, replace(pool, pool_ids=pool.ids), rng)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"ratio": 0.0}, r"`ratio` must be in \(0, 1\]. Got 0.0."),
        ({"ratio": 1.5}, r"`ratio` must be in \(0, 1\]"),
        ({"tau": 0.0}, r"`tau` must be in \(0, 1\]"),
        ({"tau": 1.5}, r"`tau` must be in \(0, 1\]"),
        ({"tau": "high"}, r"`tau` must be a number in \(0, 1\]. Got 'high'."),
        ({"schedule": "clipped"}, r"`schedule` must be a step size such as Clipped\(0.8\). Got 'clipped'."),
        ({"diameter": math.inf}, "`diameter` must be finite and >= 0"),
        ({"mixed": -1}, "`mixed` must be an integer >= 0"),
    ],
)
def test_arguments(options: dict[str, Any], message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        alone(**options)


def test_the_first_gap_is_positive() -> None:
    with pytest.raises(ValueError, match="`first` must be a number > 0"):
        Halving(0.0)
