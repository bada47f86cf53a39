"""Case 1: "none" is a proof, or says that it is none; and the gap that is wanted."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from tests.methods.shares import (
    ANY,
    Reluctant,
    alone,
    always,
    cases,
    cloud,
    degraded,
    far,
    follow,
    not_convex,
    projection,
    worst_of,
)
from tests.oracles.degraded import EveryOther, Follower, Scripted
from wolfhound.core.contracts import Hits, Ids, Matrix, Status, Vector
from wolfhound.methods.steps import ShortStep
from wolfhound.objectives.custom import Custom
from wolfhound.objectives.plain import SquaredDistance
from wolfhound.oracles.clusters import ClusterIndex
from wolfhound.oracles.lsh import LshIndex
from wolfhound.oracles.scan import Scan
from wolfhound.oracles.wrappers import Tiered
from wolfhound.paper import theory
from wolfhound.paper.sublinear_frank_wolfe import Halving
from wolfhound.solve.minimize import minimize
from wolfhound.solve.result import Result


def never(queries: Matrix, k: int, exclude: Ids | None) -> Hits:
    raise AssertionError("a second pass")


# ---------------------------------------------------------------- Case 1


@pytest.mark.slow
def test_the_printed_tau_stops_at_once_and_the_corrected_does_not() -> None:
    """Case 1 needs tau <= eps / (D_x D_y), not >= D_x D_y eps."""
    rows = 20.0 * cloud(300, 5)
    case = projection(np.full(5, 40.0), rows)
    ids, weights = np.arange(16), np.full(16, 1.0 / 16.0)
    point = case.objective.at(weights @ rows[ids])
    lift = theory.lift_norms(
        float(np.linalg.norm(point.grad)),
        smoothness=1.0,
        diameter=case.diameter,
        radius=float(np.linalg.norm(rows, axis=1).max()),
    )
    eps = 0.9 / math.prod(lift)
    assert eps < 1e-6

    def run(tau: float) -> tuple[Status, int, float]:
        method = alone(ratio=0.9, tau=tau)
        result = minimize(
            case.objective, rows, method=method, rtol=0.0, atol=eps, start=(ids, weights), max_steps=400
        )
        return result.status, result.steps, result.value - case.least

    status, steps, excess = run(math.prod(lift) * eps)
    assert (status, steps) == (Status.FINISHED, 0)
    assert excess > 1e8 * eps
    assert run(eps / math.prod(lift))[:2] == (Status.MAX_STEPS, 400)
    assert run(eps / math.prod(lift))[2] < 1e-2 * excess


def test_a_confirmed_none_is_a_proof_and_an_unconfirmed_one_is_not() -> None:
    case = cases()[1]
    method = alone(ratio=0.9, tau=0.05, diameter=case.diameter)
    proved = minimize(case.objective, EveryOther(case.rows), method=method, rtol=0.0)
    assert proved.status is Status.FINISHED
    assert case.objective.floor < proved.lower <= case.least <= proved.value
    assert proved.passes >= 1
    bare = minimize(case.objective, EveryOther(case.rows), method=replace(method, confirm=False), rtol=0.0)
    assert bare.status is Status.NOT_FOUND
    assert not bare.success
    assert (bare.lower, bare.passes) == (case.objective.floor, 0.0)
    for result in (proved, bare):
        assert result.trace.kind[-1] == "none"
        assert result.trace.t[-1] == result.trace.t[-2] == result.steps > 0


def test_a_proved_none_below_the_goal_reaches_it() -> None:
    case = cases()[1]
    method = alone(ratio=0.9, tau=0.05, diameter=case.diameter)
    result = minimize(case.objective, EveryOther(case.rows), method=method, rtol=0.0, atol=1.0)
    assert result.status is Status.GAP_REACHED
    assert result.gap <= 1.0


@settings(max_examples=60)
@given(
    seed=st.integers(0, 10**6),
    c=st.floats(0.1, 1.0),
    tau=st.one_of(st.just(Halving()), st.floats(1e-3, 1.0)),
    confirm=st.booleans(),
)
def test_lower_is_below_the_exact_minimum(seed: int, c: float, tau: float | Halving, confirm: bool) -> None:
    rows = cloud(9, 2, seed)
    case = projection(2.0 * cloud(1, 2, seed + 1)[0], rows)
    method = alone(ratio=c, tau=tau, confirm=confirm)
    result = minimize(case.objective, EveryOther(rows), method=method, rtol=1e-2, max_steps=40, seed=seed)
    assert result.lower <= case.least * (1.0 + 1e-14) + 1e-300
    assert case.least <= result.value
    assert result.lower == 0.0 or confirm
    assert result.status is not Status.NOT_FOUND or not confirm
    assert (result.weights > 0.0).all()


def test_an_index_that_misses_everything() -> None:
    """Confirmed, every step is a pass; unconfirmed, the run ends where it began."""
    for case in cases()[:2]:
        result = minimize(case.objective, worst_of(case.rows), method=alone(), rtol=3e-2, max_steps=2000)
        assert result.status is Status.GAP_REACHED
        assert result.lower <= case.least <= result.value
        moved = int((result.trace.kind == "forward").sum())
        assert moved <= result.scored / len(case.rows) / 2.0 <= moved + 1
        bare = minimize(case.objective, worst_of(case.rows), method=alone(confirm=False))
        assert (bare.status, bare.steps, bare.lower) == (Status.NOT_FOUND, 0, 0.0)


def test_proving_oracles_need_no_second_pass() -> None:
    rows = cloud(2000, 6)
    f, unused = SquaredDistance(np.full(6, 3.0)), Scripted(rows, never)
    method = alone(ratio=0.8, exact=unused)
    oracles = (
        Scan(rows, screen=False),
        Tiered(EveryOther(rows)),
        ClusterIndex.build(rows, proof=True),
        LshIndex.build(rows, proof=True),
    )
    for oracle in oracles:
        result = minimize(f, oracle, method=method, rtol=1e-2, max_steps=3000)
        assert result.status is Status.GAP_REACHED
    plain = minimize(f, Scan(rows, screen=False), method=method, rtol=1e-2)
    kinds = plain.trace.kind
    assert (kinds == "none").sum() >= 2
    assert plain.passes == (kinds == "forward").sum() + (kinds[-1] == "none")


def test_halving_wants_half_of_the_gap_that_was_proved() -> None:
    """Where there is no lower bound to go by: inf at first, then half of each proved gap."""
    case = not_convex()[1]
    asked = Reluctant(case.rows)
    method = alone(ratio=0.5, schedule=ShortStep(case.objective.smoothness))
    states = follow(method, case, always(asked), states=40)
    halved = itertools.accumulate(
        states, lambda phi, state: 0.5 * case.gap(state) if state.kind == "none" else phi, initial=math.inf
    )
    pairs = [(state, phi) for state, phi in zip(states, [*halved][1:], strict=True) if state.kind != "none"]
    expected = [0.5 * phi - float(state.point.grad @ state.point.x) for state, phi in pairs[:-1]]
    assert len(states) - len(pairs) >= 3
    assert_allclose(asked.thresholds, expected)


def test_the_best_atom_is_good_enough_whatever_rounding_says() -> None:
    """Its score is a little less than the bound, and Phi is just the bound."""
    case = far()
    point = case.objective.at(case.worst.rows[0])
    bound = float(Scan(case.rows).query(-point.grad[None]).bounds[0])
    method = alone(ratio=1.0, tau=Halving(bound + float(point.grad @ point.x)), confirm=False)
    states = follow(method, case, always(Scan(case.rows)), states=2)
    assert [state.kind for state in states] == ["start", "forward"]


def test_a_bound_below_the_point_itself_ends_the_run() -> None:
    """By rounding nothing may seem as good as x, not even its own atom."""
    row = np.array([[1.0, 2.0]])
    f = SquaredDistance([5.0, 5.0])

    def answer(queries: Matrix, k: int, exclude: Ids | None) -> Hits:
        hits = Scan(row).query(queries)
        below = float(hits.scores[0, 0]) - 1e-14
        return replace(hits, scores=np.full((1, 1), below), bounds=np.full(1, below))

    result = minimize(f, Scripted(row, answer), method=alone(), rtol=0.0)
    assert list(result.trace.kind) == ["start", "none", "null"]
    assert result.status is Status.ROUNDING


def test_a_fixed_tau_is_a_share_of_the_gradient_and_the_radius() -> None:
    """Phi = tau |q| R with R = D / 2, and c Phi above <q, w> will do."""
    case = cases()[0]
    asked = Reluctant(case.rows)
    method = alone(ratio=0.5, tau=0.02, diameter=6.0)
    states = follow(method, case, always(asked), states=20)
    moved = [state for state in states if state.kind == "forward"]
    assert len(moved) == len(states) - 1
    queries = [-state.point.grad for state in states[:-1]]
    here = [float(q @ state.point.x) for q, state in zip(queries, states, strict=False)]
    phi = [0.02 * float(np.linalg.norm(q)) * 3.0 for q in queries]
    assert_allclose(asked.thresholds, np.add(here, 0.5 * np.array(phi)))


def test_the_exact_oracle_can_be_given() -> None:
    rows = cloud(200, 4)
    f, asked = SquaredDistance(np.full(4, 1.5)), EveryOther(rows)
    result = minimize(f, worst_of(rows), method=alone(exact=asked), rtol=1e-2)
    assert len(asked.calls) > 0
    assert result.status is Status.NOT_FOUND  # it proves nothing
    with pytest.raises(ValueError, match="`exact` must be an oracle over the same atoms"):
        minimize(f, rows, method=alone(exact=Scan(rows[:9])))


def test_without_a_lower_bound_the_first_query_is_a_pass() -> None:
    case = cases()[1]
    target = np.array([1.5, -1.0, 2.0])
    f = Custom(lambda x: (0.5 * float((x - target) @ (x - target)), x - target), convex=True)
    proved = minimize(f, EveryOther(case.rows), method=alone(), rtol=3e-2, max_steps=2000)
    assert list(proved.trace.kind[:3]) == ["start", "none", "forward"]
    assert proved.status is Status.GAP_REACHED
    assert -math.inf < proved.lower <= case.least
    bare = minimize(f, EveryOther(case.rows), method=alone(confirm=False), rtol=3e-2)
    assert (bare.status, bare.lower) == (Status.NOT_FOUND, -math.inf)
    assert bare.steps > 0  # Phi was guessed from the first answer
    given_first = minimize(f, Scan(case.rows), method=alone(tau=Halving(1e-3)), max_steps=1)
    assert list(given_first.trace.kind) == ["start", "forward"]


def test_a_fixed_tau_ends_after_the_steps_of_the_theorem() -> None:
    case = projection(np.array([3.0, -2.0, 4.0]), cloud(40, 3))
    follower, eps = Follower(), 0.2 * case.least
    oracle = degraded(case, 0.7, [])(follower)

    def run(
        start: Result | tuple[Ids, Vector],
        diameter: float | None = case.diameter,
        max_steps: float = math.inf,
    ) -> Result:
        method = alone(ratio=0.7, tau=ANY, diameter=diameter)
        return minimize(
            case.objective,
            oracle,
            method=method,
            rtol=0.0,
            atol=eps,
            start=start,
            max_steps=max_steps,
            callback=follower,
        )

    cold = run((case.worst.ids, case.worst.weights))
    assert cold.status is Status.FINISHED
    assert cold.steps == theory.steps(eps, c=0.7, curvature=case.curvature, first=cold.trace.value[0]) > 20
    assert cold.value - case.least <= eps < cold.gap
    warm = run(cold, max_steps=5)  # the theorem is about t = 0
    assert (warm.status, warm.steps) == (Status.MAX_STEPS, cold.steps + 5)
    assert run(cold, diameter=None, max_steps=3).passes == 2.0


def test_without_smoothness_there_is_no_number_of_steps_and_a_pass_ends_the_run() -> None:
    """Nothing proves the goal, and no schedule is over: after some steps below the goal a pass looks."""
    f = Custom(lambda x: (float(x @ x), 2.0 * x), convex=True, floor=-1.0)
    method = alone(ratio=0.9, tau=ANY, diameter=1.0)
    result = minimize(f, EveryOther(cloud(20, 2)), method=method, atol=0.5, max_steps=500)
    assert result.status is Status.GAP_REACHED
    assert result.steps < 100
    assert result.passes == 1.0
