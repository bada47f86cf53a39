# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.conformance.method import origin
from tests.problems import exact_minimum, rational
from wolfhound.core.contracts import Atoms, Hits, Ids, Matrix, Point, Vector
from wolfhound.data.atoms import ArrayAtoms
from wolfhound.methods.asking import Asker, cutgap
from wolfhound.objectives.custom import Custom
from wolfhound.objectives.plain import SquaredDistance
from wolfhound.oracles.scan import Scan

NONE: Ids = np.empty(0, np.int64)
ROWS = np.array([[1.0, 0.0], [0.0, 2.0], [-1.0, -1.0], [0.5, 0.5]])
TARGET = SquaredDistance([3.0, 1.0])


@dataclass
class Spy:
    """A scan that notes what it is asked, and whose hits can be changed."""

    atoms: Atoms
    changes: dict[str, Any] = field(default_factory=dict)
    calls: list[dict[str, Any]] = field(default_factory=list)

    def query(
        self, queries: Matrix, *, k: int = 1, thresholds: Vector | None = None, exclude: Ids | None = None
    ) -> Hits:
        self.calls.append({"queries": queries, "k": k, "thresholds": thresholds, "exclude": exclude})
        hits = Scan(self.atoms).query(queries, k=k, exclude=exclude)
        return replace(hits, **self.changes)


def asker(exclude: Ids = NONE, **changes: Any) -> tuple[Asker, Spy]:
    spy = Spy(ArrayAtoms(ROWS), changes)
    return Asker(TARGET, spy, replace(origin(2), exclude=exclude)), spy


# ---------------------------------------------------------------- cutgap


@pytest.mark.parametrize(
    ("gap", "excess", "cut"),
    [
        (0.0, 2.0, 0.0),
        (1.0, 2.0, 0.75),
        (2.0, 2.0, 1.0),
        (9.0, 2.0, 1.0),
        (9.0, math.inf, 9.0),
        (0.0, 0.0, 0.0),
        (3.0, 0.0, 0.0),
        (1e-200, 1e-180, 1e-200),
    ],
)
def test_cutgap(gap: float, excess: float, cut: float) -> None:
    assert cutgap(gap, excess) == pytest.approx(cut, rel=1e-14)


@given(st.floats(0.0, 1e100), st.floats(1e-100, 1e100))
def test_cutgap_is_rounded_up_and_never_above_the_gap(gap: float, excess: float) -> None:
    cut, g, n = Fraction(cutgap(gap, excess)), Fraction(gap), Fraction(excess)
    exact = g - g * g / (2 * n) if g < n else n / 2
    assert exact <= cut <= exact * (1 + Fraction(1, 2**48))


@given(st.integers(0, 10**6))
def test_cutgap_is_the_minimum_over_a_half_space(seed: int) -> None:
    """Of 1/2 |y|^2 over <x, y> >= |x|^2 - gap: along x itself, or 0."""
    rng = np.random.default_rng(seed)
    x, gap = rng.standard_normal(3), float(rng.exponential())
    excess = float(x @ x)
    y = max(1.0 - gap / excess, 0.0) * x
    assert 0.5 * excess - cutgap(gap, excess) == pytest.approx(0.5 * float(y @ y), abs=1e-12)


@given(st.floats(0.0, 10.0), st.floats(0.0, 10.0), st.floats(0.01, 10.0), st.floats(0.01, 10.0))
def test_cutgap_grows_with_both(gap: float, more: float, excess: float, wider: float) -> None:
    """So upper bounds on gap and excess give an upper bound."""
    assert cutgap(gap, excess) <= cutgap(gap + more, excess + wider) * (1.0 + 1e-15)


# ---------------------------------------------------------------- Asker


def test_the_query_is_minus_the_gradient() -> None:
    ask, spy = asker()
    point = TARGET.at(np.array([0.5, 0.5]))
    hits = ask(point, k=3)
    np.testing.assert_array_equal(spy.calls[0]["queries"], [[2.5, 0.5]])
    assert spy.calls[0]["k"] == 3
    assert spy.calls[0]["thresholds"] is None
    assert spy.calls[0]["exclude"] is None
    assert hits.ids[0, 0] == 0


def test_a_wanted_gap_becomes_a_score() -> None:
    ask, spy = asker()
    ask(TARGET.at(np.array([0.5, 0.5])), wanted=0.25)
    assert spy.calls[0]["thresholds"] == [0.25 + 1.5]


def test_excluded_atoms_go_with_every_query() -> None:
    ask, spy = asker(np.array([0, 2]))
    hits = ask.query(np.eye(2))
    np.testing.assert_array_equal(spy.calls[0]["exclude"], [[0, 2], [0, 2]])
    assert set(hits.ids[:, 0].tolist()) <= {1, 3}


def test_costs_add_up() -> None:
    ask, _ = asker()
    ask.query(np.eye(2))
    ask(TARGET.at(ROWS[0]))
    assert (ask.passes, ask.scored) == (2.0, 12)


def test_lower_starts_at_the_floor() -> None:
    ask, _ = asker()
    assert (ask.lower, ask.slack) == (0.0, math.inf)
    assert math.isnan(ask.ratio)
    ask.query(np.eye(2))
    assert (ask.lower, ask.slack) == (0.0, math.inf)


@given(st.integers(0, 10**6))
def test_lower_never_passes_the_minimum_and_never_falls(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows, target = rng.standard_normal((6, 3)), 2.0 * rng.standard_normal(3)
    best = exact_minimum(rational(rows), rational(target)[0])
    objective = SquaredDistance(target)
    ask = Asker(objective, Scan(rows), origin(2))
    for _ in range(5):
        before = ask.lower
        ask(objective.at(rng.dirichlet(np.full(6, 0.3)) @ rows))
        assert before <= ask.lower
        assert Fraction(ask.lower) <= best


def test_the_bound_is_tight_at_the_minimum() -> None:
    """(3, 1) projected on the hull: the closest point lies on the edge (1, 0) - (0, 2)."""
    ask, _ = asker()
    x = np.array([1.0, 0.0])
    point = TARGET.at(x + 0.0)
    ask(point)
    assert ask.lower == pytest.approx(2.5, rel=1e-13)
    assert ask.lower < 2.5 <= point.upper
    assert point.upper - ask.lower <= 8.0 * ask.slack
    assert ask.slack < 1e-13


@pytest.mark.parametrize("bound", [math.inf, math.nan])
def test_no_bound_proves_nothing(bound: float) -> None:
    ask, _ = asker(bounds=np.array([bound]))
    ask(TARGET.at(ROWS[0]))
    assert (ask.lower, ask.slack) == (0.0, math.inf)
    assert math.isnan(ask.ratio)


def test_a_looser_bound_gives_a_lower_lower() -> None:
    tight, _ = asker()
    loose, _ = asker(bounds=np.array([2.5]))
    point = TARGET.at(ROWS[0])
    tight(point)
    loose(point)
    assert 0.0 < loose.lower < tight.lower


def test_the_ratio_compares_the_hit_with_the_bound() -> None:
    """At (0.5, 0.5) the query (2.5, 0.5) scores 1.5; atom 0 scores 2.5."""
    ask, _ = asker(bounds=np.array([3.5]))
    ask(TARGET.at(np.array([0.5, 0.5])))
    assert ask.ratio == pytest.approx(0.5)
    ask.query(np.eye(2))
    assert math.isnan(ask.ratio)


def half_square(x: Vector) -> tuple[float, Vector]:
    return 0.5 * float(x @ x), x


def test_a_function_that_is_not_convex_gets_no_lower_bound() -> None:
    objective = Custom(half_square, convex=False, floor=0.0)
    ask = Asker(objective, Scan(ROWS), origin(2))
    ask(objective.at(ROWS[0]))
    assert ask.lower == -math.inf


def test_errors_of_value_and_gradient_lower_the_bound() -> None:
    exact = TARGET.at(ROWS[0])
    rough = replace(exact, value_error=0.125, grad_error=0.0625)
    sharp, _ = asker()
    blunt, _ = asker()
    sharp(exact)
    blunt(rough)
    # value_error once; the gradient's error times at most |s| + |x| <= 4, cut by less than all of it.
    assert 0.125 < sharp.lower - blunt.lower <= 0.125 + 4.0 * 0.0625 * 1.001
    assert blunt.slack >= 2.0 * (0.125 + 2.0 * 0.0625)


def test_the_slack_covers_what_is_left_with_a_single_atom() -> None:
    """The gap of a lone atom is rounding and nothing else, also for trusted functions."""
    rng = np.random.default_rng(0)
    for _ in range(20):
        row = 10.0 * rng.standard_normal((1, 3))
        for objective in (SquaredDistance(rng.standard_normal(3)), Custom(half_square, convex=True)):
            ask = Asker(objective, Scan(row), origin(2))
            point = objective.at(row[0])
            ask(point)
            assert point.upper - ask.lower <= 8.0 * ask.slack


def test_a_state_is_a_snapshot() -> None:
    ask, _ = asker()
    ids, weights = np.array([1, 2]), np.array([0.5, 0.5])
    point = TARGET.at(weights @ ROWS[ids])
    seen = ask.state(4, point, ids, weights, kind="away", hit=2)
    ids[:], weights[:] = 0, 0.0
    ask(point)
    assert seen.ids.tolist() == [1, 2]
    assert seen.weights.tolist() == [0.5, 0.5]
    assert (seen.t, seen.kind, seen.hit, seen.end, seen.passes) == (4, "away", 2, None, 0.0)
    assert seen.value == point.upper
    assert seen.gap == point.upper


def test_a_point_without_gradient_is_proved_at_once() -> None:
    ask, _ = asker()
    objective = SquaredDistance(ROWS[1])
    ask = Asker(objective, Scan(ROWS), origin(2))
    point: Point = objective.at(ROWS[1])
    ask(point)
    assert ask.lower == 0.0
    assert point.upper <= 1e-300


# ---------------------------------------------------------------- a run that goes on


def go_on(proof: Vector | None, lower: float = 0.1, goal: float = 0.0) -> tuple[Asker, Spy]:
    start = replace(origin(2), passes=3.0, scored=12, lower=lower, proof=proof)
    spy = Spy(ArrayAtoms(ROWS))
    return Asker(TARGET, spy, start, goal=goal), spy


def test_the_first_query_proves_the_old_bound_again() -> None:
    good, poor = TARGET.at(np.array([0.95, 0.1])), TARGET.at(np.zeros(2))
    before, _ = asker()
    before(good)
    ask, spy = go_on(good.x, lower=before.lower)
    assert ask.lower == TARGET.floor
    hits = ask(poor, k=2, wanted=0.5)
    assert ask.lower == before.lower
    assert ask.state(0, poor, NONE, np.empty(0), kind="pass").proof is good.x
    assert (ask.passes, ask.scored) == (4.0, 20)  # one pass, of two queries
    np.testing.assert_array_equal(spy.calls[0]["queries"], [-poor.grad, -good.grad])
    assert spy.calls[0]["thresholds"] is None
    alone = Scan(ROWS).query(-poor.grad[None], k=2)
    np.testing.assert_array_equal(hits.ids, alone.ids)
    np.testing.assert_array_equal(hits.bounds, alone.bounds)
    np.testing.assert_array_equal(hits.rows[hits.slots[0]], ROWS[alone.ids[0]])
    ask(poor, wanted=0.5)
    assert spy.calls[1]["queries"].shape == (1, 2)
    assert spy.calls[1]["thresholds"] is not None


def test_a_better_proof_takes_the_place_of_the_old() -> None:
    good, poor = TARGET.at(np.array([0.95, 0.1])), TARGET.at(np.zeros(2))
    ask, _ = go_on(poor.x)
    ask(good)
    assert ask.state(0, good, NONE, np.empty(0), kind="pass").proof is good.x


@pytest.mark.parametrize("junk", [np.full(2, 1e200), np.full(2, np.nan), np.full(2, np.inf)])
def test_a_proof_that_is_none_is_left_out(junk: Vector) -> None:
    ask, spy = go_on(junk)
    ask(TARGET.at(np.array([0.9, 0.3])))
    assert spy.calls[0]["queries"].shape == (1, 2)
    assert ask.lower <= exact_minimum(rational(ROWS), rational(TARGET.target[None])[0])


def test_a_bound_that_was_kept_steers_until_it_is_proved_or_would_end_the_run() -> None:
    point = TARGET.at(np.array([0.9, 0.3]))
    ask, _ = go_on(point.x, lower=point.value - 0.5, goal=0.1)
    assert ask.expect(point) == point.value - 0.5
    assert go_on(point.x, lower=point.value - 0.05, goal=0.1)[0].expect(point) == point.value
    assert go_on(point.x, lower=1e9, goal=0.1)[0].expect(point) == point.value
    ask(point)
    assert ask.expect(point) == ask.lower
    assert go_on(None, lower=2.0)[0].expect(point) == TARGET.floor
