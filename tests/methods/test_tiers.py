"""Runs on indexes: bare ones stall, tiers do not, audits tell the true gap ratio."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import pytest

from tests.conformance.method import at_atom, check_method, problems, run
from tests.conformance.oracle import check_oracle
from tests.oracles.degraded import Degraded, EveryOther, Follower, Scripted
from wolfhound.core.contracts import (
    Atoms,
    Hits,
    Ids,
    Matrix,
    Method,
    Objective,
    Oracle,
    Start,
    State,
    Status,
    StepSize,
)
from wolfhound.methods.directions import Away, BlendedPairwise, Direction, Pairwise, Vanilla
from wolfhound.methods.frank_wolfe import FrankWolfe
from wolfhound.methods.fully_corrective import FullyCorrective
from wolfhound.methods.steps import Adaptive, LineSearch, OpenLoop, ShortStep
from wolfhound.objectives.plain import SquaredDistance
from wolfhound.oracles.scan import Scan
from wolfhound.oracles.subset import RandomSubset
from wolfhound.oracles.wrappers import Audited, Tiered
from wolfhound.solve.minimize import minimize

LINEAR: tuple[Direction, ...] = (Away(), Pairwise(), BlendedPairwise())


def outside(n: int = 600, d: int = 12, far: float = 1.5) -> tuple[SquaredDistance, Matrix]:
    """A point outside the hull: its projection lies on a face of several atoms."""
    rng = np.random.default_rng(5)
    rows = rng.standard_normal((n, d))
    return SquaredDistance(far * rng.standard_normal(d)), rows


def true_gap(objective: SquaredDistance, rows: Matrix, state: State) -> float:
    """Frank-Wolfe gap over all rows, by numpy alone."""
    grad = state.point.x - objective.target
    return float(grad @ state.point.x - (rows @ grad).min())


@dataclass(frozen=True)
class On:
    """A method that asks another oracle over the same atoms."""

    method: Method
    make: Callable[[Atoms], Oracle]

    def begin(self, objective: Objective, start: Start, rng: np.random.Generator) -> Start:
        return self.method.begin(objective, start, rng)

    def states(
        self, objective: Objective, oracle: Oracle, start: Start, *, goal: float, rng: np.random.Generator
    ) -> Iterator[State]:
        return self.method.states(objective, self.make(oracle.atoms), start, goal=goal, rng=rng)


def halved(atoms: Atoms) -> Oracle:
    return Tiered(EveryOther(atoms))


def uncached(atoms: Atoms) -> Oracle:
    return Tiered(EveryOther(atoms), cache=0)


def sampled(atoms: Atoms) -> Oracle:
    return Tiered(RandomSubset(atoms, size=3), cache=8)


# ---------------------------------------------------------------- stalling


@pytest.mark.parametrize("direction", LINEAR)
@pytest.mark.parametrize("lazy", [False, True])
def test_a_bare_index_stalls_and_tiers_reach_a_proof(direction: Direction, lazy: bool) -> None:
    objective, rows = outside()
    method = FrankWolfe(direction, lazy=lazy)
    exact = minimize(objective, rows, rtol=1e-9)
    bare = minimize(objective, EveryOther(rows), method=method, max_steps=5000)
    assert bare.status is Status.STALLED
    assert bare.lower == objective.floor
    assert bare.value - exact.value > 1e3 * bare.goal
    tiered = Tiered(EveryOther(rows))
    result = minimize(objective, tiered, method=method, max_steps=5000)
    assert result.status is Status.GAP_REACHED
    assert result.gap <= result.goal
    assert result.lower <= exact.value
    assert exact.lower <= result.value <= exact.value + result.goal
    assert tiered.counts["index"] > 0
    assert 0 < tiered.counts["exact"] < 30
    assert result.passes <= tiered.counts["exact"]


def test_the_cache_serves_most_steps() -> None:
    objective, rows = outside()
    tiered = Tiered(EveryOther(rows))
    result = minimize(objective, tiered, method=FrankWolfe(BlendedPairwise()), max_steps=5000)
    assert result.success
    assert tiered.counts["cache"] > 0.8 * result.steps


@pytest.mark.slow
def test_vanilla_goes_on_where_the_bare_index_has_nothing_to_offer() -> None:
    objective, rows = outside()
    exact = minimize(objective, rows, rtol=1e-9)
    bare = minimize(objective, EveryOther(rows), method=FrankWolfe(), rtol=1e-3, max_steps=3000)
    result = minimize(objective, Tiered(EveryOther(rows)), method=FrankWolfe(), rtol=1e-3, max_steps=3000)
    assert bare.value - exact.value > 10.0 * bare.goal
    assert result.status is Status.GAP_REACHED


@pytest.mark.slow
@pytest.mark.parametrize("direction", LINEAR)
@pytest.mark.parametrize(
    ("make", "step", "lazy"),
    [
        (halved, LineSearch(), True),
        (halved, LineSearch(), False),
        (halved, Adaptive(), True),
        (sampled, LineSearch(), True),
    ],
)
def test_tiers_keep_what_methods_promise(
    make: Callable[[Atoms], Oracle], direction: Direction, step: StepSize, lazy: bool
) -> None:
    check_method(On(FrankWolfe(direction, step, lazy=lazy), make), monotone=True, gap=1e-6, steps=4000)


@pytest.mark.slow
@pytest.mark.parametrize("step", [LineSearch(), Adaptive()])
def test_vanilla_in_tiers(step: StepSize) -> None:
    check_method(On(FrankWolfe(Vanilla(), step), halved), monotone=True, gap=2e-3, steps=3000)


def test_open_loop_in_tiers() -> None:
    for problem in problems():
        goal = 0.02 * problem.scale
        states = run(On(FrankWolfe(Vanilla(), OpenLoop()), halved), problem, steps=1000, gap=goal)
        assert states[-1].gap <= max(goal, 8.0 * states[-1].slack), problem.name


@pytest.mark.slow
def test_fully_corrective_in_tiers() -> None:
    """It wants a harvest and a bound, so every query goes to the exact tier."""
    check_method(On(FullyCorrective(), halved), monotone=True, gap=1e-6)
    objective, rows = outside()
    tiered = Tiered(EveryOther(rows))
    plain, result = minimize(objective, rows), minimize(objective, tiered)
    assert result.status is Status.GAP_REACHED
    np.testing.assert_array_equal(result.x, plain.x)
    assert (result.value, result.lower, result.passes) == (plain.value, plain.lower, plain.passes)
    assert tiered.counts == {"cache": 0, "index": 0, "exact": math.ceil(plain.passes)}


# ---------------------------------------------------------------- the end of a run


@pytest.mark.slow
@pytest.mark.parametrize("make", [halved, uncached, sampled])
@pytest.mark.parametrize("direction", LINEAR)
@pytest.mark.parametrize("lazy", [False, True])
def test_runs_end_in_a_proof_when_only_rounding_is_left(
    make: Callable[[Atoms], Oracle], direction: Direction, lazy: bool
) -> None:
    """Answers that are good enough must not be accepted for ever."""
    for problem in problems():
        states = run(On(FrankWolfe(direction, lazy=lazy), make), problem, steps=5000, gap=-1.0)
        assert len(states) < 5000, problem.name
        assert states[-1].gap <= 8.0 * states[-1].slack, problem.name


def test_an_accepted_answer_that_leads_nowhere_is_not_asked_for_again() -> None:
    """This index praises the first atom, whatever is asked."""
    objective, rows = outside()

    def praise(queries: Matrix, k: int, exclude: Ids | None) -> Hits:
        hits = Scan(rows[:1]).query(queries)
        return replace(hits, scores=np.full((1, 1), 1e6), bounds=np.full(1, math.inf), passes=0.0)

    tiered = Tiered(Scripted(rows, praise), cache=0)
    result = minimize(objective, tiered, method=FrankWolfe(BlendedPairwise()), max_steps=5000)
    assert result.status is Status.GAP_REACHED
    assert tiered.counts["exact"] > 10
    kinds = result.trace.kind
    assert (kinds == "null").sum() > 10
    assert not ((kinds[1:] == "null") & (kinds[:-1] == "null")).any()


# ---------------------------------------------------------------- audits


@pytest.mark.slow
def test_conformance_of_degraded() -> None:
    check_oracle(lambda atoms: Degraded(Scan(atoms), 0.5, lambda query: -1.0), exact=False)


@pytest.mark.parametrize("c", [0.3, 0.8, 1.0])
@pytest.mark.parametrize("every", [1, 4])
def test_the_audited_ratio_is_what_was_injected(c: float, every: int) -> None:
    objective, rows = outside()
    follower = Follower()
    degraded = Degraded(Scan(rows), c, follower.here)
    audited = Audited(degraded, Scan(rows, screen=False), every=every)
    result = minimize(
        objective, audited, method=FrankWolfe(), rtol=1e-3, max_steps=60, callback=follower, seed=1
    )
    measured, injected = result.trace.ratio[1:], np.array(degraded.ratios)
    seen = np.arange(len(measured)) % every == 0
    assert len(measured) > 8
    np.testing.assert_allclose(measured[seen], injected[seen], rtol=1e-9)
    assert np.isnan(measured[~seen]).all()
    assert (injected >= c).all()
    assert injected.min() < c + 0.1
    assert audited.audits == seen.sum() == result.passes
    assert result.lower <= minimize(objective, rows, rtol=1e-9).value


def test_audits_prove_what_a_bare_index_reached() -> None:
    objective, rows = outside()
    exact = minimize(objective, rows, rtol=1e-9)
    method = FrankWolfe(BlendedPairwise())
    result = minimize(objective, Audited(EveryOther(rows), every=5), method=method, max_steps=5000)
    assert result.status is Status.STALLED
    assert objective.floor < result.lower <= exact.value
    assert result.value > exact.value + 1e3 * result.goal
    assert np.nanmin(result.trace.ratio) < 0.5


def test_a_null_step_at_an_audit_does_not_end_the_run() -> None:
    """The bound is finite, but a better atom exists: the next sample may show it."""
    objective, rows = outside()
    scan = Scan(rows, screen=False)
    calls = itertools.count()

    def answer(queries: Matrix, k: int, exclude: Ids | None) -> Hits:
        bad = next(calls) % 4 < 2
        hits = scan.query(-queries if bad else queries)
        scores = (hits.rows[hits.slots[:, 0]] * queries).sum(axis=1)[:, None]
        return replace(hits, scores=scores, bounds=np.full(1, math.inf))

    oracle = Audited(Scripted(rows, answer), every=1)
    result = minimize(objective, oracle, method=FrankWolfe(), rtol=1e-2, max_steps=3000)
    assert result.status is Status.GAP_REACHED
    assert (result.trace.kind == "null").sum() > 10


# ---------------------------------------------------------------- theory


def follow(method: FrankWolfe, objective: SquaredDistance, rows: Matrix, c: float, steps: int) -> list[State]:
    """States of a run with an oracle of gap ratio c, from the worst atom."""
    follower, states = Follower(), []
    start = at_atom(rows, int(objective.values(rows).argmax()))
    oracle = Degraded(Scan(rows), c, follower.here)
    rng = np.random.default_rng(0)
    for state in itertools.islice(method.states(objective, oracle, start, goal=0.0, rng=rng), steps + 1):
        follower(state)
        states.append(state)
    return states


def diameter(rows: Matrix) -> float:
    return float(np.linalg.norm(rows[:, None] - rows[None], axis=2).max())


@pytest.mark.parametrize("c", [0.2, 0.5, 0.9, 1.0])
def test_the_schedule_of_a_ratio(c: float) -> None:
    """h_t <= 2 (beta D^2 / c + h_0) / (c t + 2) for steps 2 / (c t + 2)."""
    objective, rows = outside(300, 10, 0.8)
    least = minimize(objective, rows, rtol=1e-9).lower
    states = follow(FrankWolfe(Vanilla(), OpenLoop(2.0 / c)), objective, rows, c, 400)
    excess = np.array([state.value - least for state in states])
    t = np.arange(len(excess))
    assert len(excess) == 401
    assert (excess <= 2.0 * (diameter(rows) ** 2 / c + excess[0]) / (c * t + 2.0)).all()
    assert excess[-1] < 0.05 * excess[0]


@pytest.mark.parametrize("c", [0.2, 0.5, 0.9, 1.0])
def test_short_steps_with_a_ratio(c: float) -> None:
    """min g_t <= (1/c) max(2 h_0 / (T+1), sqrt(2 beta D^2 h_0 / (T+1)))."""
    objective, rows = outside(300, 10, 0.8)
    least = minimize(objective, rows, rtol=1e-9).lower
    states = follow(FrankWolfe(Vanilla(), ShortStep(1.0)), objective, rows, c, 300)
    gaps = np.minimum.accumulate([true_gap(objective, rows, state) for state in states])
    h0, t = states[0].value - least, np.arange(1, len(gaps) + 1)
    assert len(gaps) == 301
    assert (gaps <= np.maximum(2.0 * h0 / t, diameter(rows) * np.sqrt(2.0 * h0 / t)) / c).all()


def test_a_worse_ratio_needs_more_steps() -> None:
    """So that the two tests above measure something."""
    objective, rows = outside(300, 10, 0.8)
    least = minimize(objective, rows, rtol=1e-9).lower
    excess = []
    for c in (0.1, 1.0):
        states = follow(FrankWolfe(Vanilla(), ShortStep(1.0)), objective, rows, c, 30)
        excess.append(states[-1].value - least)
    assert excess[0] > 2.0 * excess[1]
