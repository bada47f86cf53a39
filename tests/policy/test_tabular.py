"""`fwpo` and `sfwpo` against brute force, closed forms and each other."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from poor_oracles import with_share_of_gap, with_share_of_score

from tests.policy.problems import Blind, best_by_brute_force, best_by_value_iteration, rows_of, softmax_acmdp
from wolfhound import (
    Audited,
    ClusterIndex,
    QuantizedQueries,
    RandomSubset,
    Scan,
    SquaredDistance,
    Status,
    minimize,
    set_threads,
)
from wolfhound.data.atoms import ArrayAtoms
from wolfhound.data.store import StoreError
from wolfhound.policy import (
    ACMDP,
    ActionSet,
    AffineTransition,
    Backtracking,
    HullPoints,
    PolicyState,
    QuadraticReward,
    TabularResult,
    fwpo,
    policy_iteration,
    policy_plan,
    random_acmdp,
    sfwpo,
)


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    """Small problems: threads would only hand them about."""
    set_threads(1)
    yield
    set_threads(None)


def indexed(acmdp: ACMDP, oracle: object) -> ACMDP:
    return acmdp.with_actions(ActionSet(acmdp.actions.atoms, oracle=oracle))  # type: ignore[arg-type]


def parts(acmdp: ACMDP, sets: list[list[int]]) -> ACMDP:
    return ACMDP(acmdp.reward, acmdp.transition, acmdp.gamma, acmdp.start, acmdp.actions, subsets=sets)


# ---------------------------------------------------------------- affine: policy iteration


@pytest.mark.slow
@given(st.integers(0, 10**6), st.sampled_from([0.0, 0.5, 0.95]))
@settings(max_examples=20, deadline=None)
def test_affine_problems_are_solved_exactly(seed: int, gamma: float) -> None:
    acmdp = random_acmdp(4, 25, 3, gamma=gamma, seed=seed)
    best = best_by_value_iteration(acmdp)
    result = policy_iteration(acmdp, seed=seed)
    assert result.success and result.steps <= 10
    assert result.score == pytest.approx(best, rel=1e-9)
    assert result.score <= best + 1e-9 and best <= result.upper + 1e-9


def test_policy_iteration_against_all_policies() -> None:
    acmdp = random_acmdp(3, 7, 3)
    assert policy_iteration(acmdp).score == pytest.approx(best_by_brute_force(acmdp))


def test_policy_iteration_is_for_affine_problems() -> None:
    with pytest.raises(ValueError, match="`acmdp` must be affine in the action"):
        policy_iteration(random_acmdp(3, 7, 3, curvature=1.0))


@pytest.mark.slow
@given(st.integers(0, 10**6), st.floats(0.0, 3.0))
@settings(max_examples=10, deadline=None)
def test_the_optimum_lies_between_the_bounds(seed: int, curvature: float) -> None:
    acmdp = random_acmdp(4, 30, 3, curvature=curvature, seed=seed)
    rough, fine = fwpo(acmdp, max_steps=6), fwpo(acmdp, rtol=1e-5, max_steps=80)
    assert rough.score <= fine.score + 1e-9
    assert fine.score <= rough.upper + 1e-9 and fine.upper <= rough.upper + 1e-12
    assert best_by_value_iteration(acmdp) <= fine.upper + 1e-9


def test_one_state_is_a_projection() -> None:
    """r = -1/2 |a - centre|^2 in a state that leads to itself: J = r / (1 - gamma)."""
    rows = np.random.default_rng(3).standard_normal((80, 4))
    centre = np.full((1, 4), 1.5)
    stay = AffineTransition(np.zeros((1, 4, 1)), np.ones((1, 1)))
    acmdp = ACMDP(QuadraticReward(np.zeros((1, 4)), centre, curvature=1.0), stay, 0.75, [1.0], rows)
    result = fwpo(acmdp, rtol=2e-3, max_steps=3000)
    exact = minimize(SquaredDistance(centre[0]), rows)
    assert result.success
    assert -4.0 * exact.value == pytest.approx(result.score, abs=result.goal)
    assert result.score <= -4.0 * exact.lower and -4.0 * exact.value <= result.upper


# ---------------------------------------------------------------- any model


@pytest.mark.parametrize("seed", range(3))
def test_curved_problems_reach_small_gaps_and_j_is_monotone(seed: int) -> None:
    acmdp = softmax_acmdp(4, 40, 3, seed=seed)
    result = fwpo(acmdp, rtol=0.02, max_steps=3000)
    assert result.status is Status.FINISHED and result.upper == np.inf
    assert (np.diff(result.scores) >= -1e-12).all()
    # The gaps, computed again from scratch.
    here = acmdp.evaluate(result.policy)
    gaps = (here.gradients @ rows_of(acmdp).T).max(axis=1) - (here.gradients * result.policy).sum(axis=1)
    assert np.sqrt(np.square(gaps).sum()) <= result.atol
    np.testing.assert_allclose(result.gaps, np.maximum(gaps, 0.0), atol=1e-12)
    assert (gaps <= result.bounds).all()


@pytest.mark.slow
def test_smooth_problems_come_within_one_percent_in_150_steps() -> None:
    acmdp = random_acmdp(20, 300, 6, curvature=2.0)
    result = fwpo(acmdp, rtol=1e-9, max_steps=250)
    scores = result.scores
    left = (result.upper - scores[1:]) / (result.upper - scores[0])
    assert left[150] <= 0.01 and (np.diff(scores) >= -1e-12).all()


def test_policies_are_mixtures_of_their_atoms() -> None:
    acmdp = random_acmdp(10, 100, 5, curvature=2.0)
    result = fwpo(acmdp, max_steps=40)
    assert (result.weights >= 0.0).all() and (np.diff(result.weights, axis=1) <= 0.0).all()
    np.testing.assert_allclose(result.weights.sum(axis=1), 1.0, rtol=1e-12)
    assert ((result.ids >= 0) == (result.weights > 0.0)).all()
    mixed = np.einsum("sk,skd->sd", result.weights, rows_of(acmdp)[result.ids])
    np.testing.assert_allclose(mixed, result.policy, atol=1e-12)
    assert all(len(set(row[row >= 0].tolist())) == (row >= 0).sum() for row in result.ids)


def test_a_run_goes_on_from_its_policy() -> None:
    acmdp = random_acmdp(10, 100, 5, curvature=2.0)
    whole, half = fwpo(acmdp, rtol=0.0, max_steps=40), fwpo(acmdp, rtol=0.0, max_steps=20)
    start = HullPoints(points=half.policy, ids=half.ids, weights=half.weights)
    rest = fwpo(acmdp, rtol=0.0, start=start, max_steps=20)
    assert rest.score == pytest.approx(whole.score, rel=1e-9)
    np.testing.assert_allclose(rest.policy, whole.policy, atol=1e-9)
    mixed = np.einsum("sk,skd->sd", rest.weights, rows_of(acmdp)[rest.ids])
    np.testing.assert_allclose(mixed, rest.policy, atol=1e-12)


def test_the_same_seed_gives_the_same_policy() -> None:
    acmdp = random_acmdp(10, 200, 5)
    index = ClusterIndex.build(acmdp.actions.atoms)
    one, same = (sfwpo(indexed(acmdp, index), seed=3) for _ in range(2))
    np.testing.assert_array_equal(one.policy, same.policy)
    np.testing.assert_array_equal(one.trace.value, same.trace.value)
    assert fwpo(acmdp, seed=1).scores[0] != fwpo(acmdp, seed=2).scores[0]


# ---------------------------------------------------------------- poor oracles


@pytest.mark.slow
@pytest.mark.parametrize("curvature", [0.0, 2.0])
def test_half_of_the_gap_is_enough(curvature: float) -> None:
    acmdp = random_acmdp(30, 500, 8, curvature=curvature)
    exact = fwpo(acmdp, rtol=1e-4, max_steps=150)
    result = sfwpo(with_share_of_gap(acmdp, 0.5), ratio=0.5, rtol=1e-4, max_steps=150)
    assert (exact.score - result.score) / (exact.score - result.scores[0]) <= 0.005
    assert (np.diff(result.scores) >= -1e-12).all()


def test_most_of_the_inner_product_is_not_enough() -> None:
    """0.99 of the best score, yet it stalls; half of the gap gets there."""
    acmdp = random_acmdp(30, 500, 8)
    best = policy_iteration(acmdp).score
    stalled = sfwpo(with_share_of_score(acmdp, 0.99), confirm=False, max_steps=200)
    moved = sfwpo(with_share_of_gap(acmdp, 0.5), ratio=0.5, confirm=False, max_steps=200)
    first = stalled.scores[0]
    assert (best - stalled.score) / (best - first) > 0.05
    assert (best - moved.score) / (best - first) < 0.001
    assert stalled.status is Status.NOT_FOUND


@given(st.integers(0, 1000), st.floats(0.3, 1.0))
@settings(max_examples=15, deadline=None)
def test_the_measure_covers_the_true_gaps(seed: int, share: float) -> None:
    """sum g^2 <= sum ghat^2 / c^2 over answered states + (states with none) tau^2."""
    acmdp = random_acmdp(6, 60, 4, curvature=1.0, seed=seed)
    rows = rows_of(acmdp)
    seen: list[PolicyState] = []
    sfwpo(
        with_share_of_gap(acmdp, share),
        ratio=share,
        confirm=False,
        rtol=0.05,
        max_steps=20,
        callback=seen.append,
    )
    for state in seen[1:]:
        here = state.here
        gaps = (here.gradients @ rows.T).max(axis=1) - (here.gradients * here.policy).sum(axis=1)
        assert np.sqrt(np.square(gaps).sum()) <= state.measure + 1e-9


# ---------------------------------------------------------------- Case 1


def test_states_in_doubt_are_confirmed_together_and_the_end_is_proved() -> None:
    acmdp = random_acmdp(20, 400, 6)
    states: list[PolicyState] = []
    result = sfwpo(
        indexed(acmdp, RandomSubset(acmdp.actions.atoms, size=20)), rtol=1e-3, callback=states.append
    )
    assert result.success and result.score == pytest.approx(policy_iteration(acmdp).score, rel=1e-3)
    kinds = [state.kind for state in states]
    assert kinds[0] == "start" and kinds[-1] == "confirm" and "forward" in kinds
    assert all(np.isfinite(state.bounds).any() for state in states if state.kind == "confirm")
    assert np.isfinite(states[-1].bounds).all()  # the last pass is for all states
    assert result.passes == kinds.count("confirm")


@pytest.mark.parametrize("seed", range(3))
def test_a_state_that_goes_on_does_not_keep_the_others_waiting(seed: int) -> None:
    acmdp = random_acmdp(16, 2000, 12, curvature=2.0, seed=seed)
    exact = fwpo(acmdp, rtol=3e-3)
    index = ClusterIndex.build(acmdp.actions.atoms, budget=60)
    result = sfwpo(indexed(acmdp, index), rtol=0.0, atol=exact.atol)
    assert result.success and result.measures[-1] <= exact.atol  # proved: the last pass is for all states
    assert 0.0 < result.passes < 0.5 * exact.passes


def test_unconfirmed_none_is_not_found() -> None:
    acmdp = random_acmdp(20, 400, 6)
    few = ActionSet(acmdp.actions.atoms, oracle=RandomSubset(acmdp.actions.atoms, size=2), cache=0)
    result = sfwpo(acmdp.with_actions(few), confirm=False, rtol=1e-2)
    assert result.status is Status.NOT_FOUND and not result.success
    assert result.upper == np.inf and result.passes == 0.0


def test_insisting_makes_an_index_go_on() -> None:
    acmdp = random_acmdp(20, 3000, 8)
    index = ClusterIndex.build(acmdp.actions.atoms, budget=30)
    easy, hard = (
        sfwpo(indexed(acmdp, index), insist=insist, confirm=False, max_steps=3) for insist in (False, True)
    )
    assert hard.scored > easy.scored


# ---------------------------------------------------------------- exact against sublinear


@pytest.mark.parametrize("curvature", [0.0, 2.0])
def test_an_index_gets_where_a_scan_gets(curvature: float) -> None:
    acmdp = random_acmdp(20, 4000, 8, curvature=curvature)
    exact = fwpo(acmdp, rtol=1e-2)
    found = sfwpo(indexed(acmdp, ClusterIndex.build(acmdp.actions.atoms)), rtol=1e-2)
    assert exact.success and found.success
    assert found.score == pytest.approx(exact.score, abs=exact.goal + found.goal)
    assert found.passes < exact.passes
    assert found.upper >= exact.score


@pytest.mark.parametrize("oracle", [None, "index"])
def test_shared_and_separate_sets_agree(oracle: str | None) -> None:
    acmdp = random_acmdp(12, 300, 5)
    oracles = {None: acmdp, "index": indexed(acmdp, Blind(rows_of(acmdp), 300))}
    acmdp = oracles[oracle]
    shared = sfwpo(acmdp, seed=1, start=np.arange(12))
    apart = sfwpo(parts(acmdp, [list(range(300))] * 12), seed=1, start=np.arange(12))
    np.testing.assert_allclose(apart.policy, shared.policy, atol=1e-12)
    assert apart.score == pytest.approx(shared.score)


def test_separate_sets_against_all_policies() -> None:
    acmdp = random_acmdp(3, 40, 4, seed=5)
    sets = [list(range(0, 6)), list(range(6, 40, 4)), [3, 30]]
    apart = parts(acmdp, sets)
    result = policy_iteration(apart)
    assert result.score == pytest.approx(best_by_brute_force(apart))
    assert all(set(ids.tolist()) <= set(own) for ids, own in zip(result.ids[:, :1], sets, strict=True))


def test_separate_sets_on_an_index() -> None:
    acmdp = random_acmdp(4, 600, 5)
    rng = np.random.default_rng(0)
    sets = [sorted(rng.permutation(600)[:size].tolist()) for size in (20, 100, 300, 600)]
    index = ClusterIndex.build(acmdp.actions.atoms)
    exact, found = (sfwpo(parts(one, sets), rtol=1e-6) for one in (acmdp, indexed(acmdp, index)))
    assert found.score == pytest.approx(exact.score, rel=1e-6)


def test_quantised_queries_cost_what_the_plan_says() -> None:
    """lambda = c eps / (2 sqrt|S|): every answer has c g - lambda."""
    acmdp = random_acmdp(9, 200, 3, gamma=0.5)
    rows = rows_of(acmdp)
    plan = policy_plan(acmdp, c=1.0, eps=0.5, delta=0.1)
    states: list[PolicyState] = []
    lattice = QuantizedQueries(Scan(ArrayAtoms(rows)), side=plan.side)
    result = sfwpo(indexed(acmdp, lattice), ratio=1.0, atol=0.5, callback=states.append)
    assert result.success and result.steps <= plan.steps
    for state in states[1:]:
        here = state.here
        gaps = (here.gradients @ rows.T).max(axis=1) - (here.gradients * here.policy).sum(axis=1)
        assert (state.gaps >= gaps - plan.gap_error - 1e-12).all()
    # Cells of the size of all queries are another matter.
    coarse = QuantizedQueries(Scan(ArrayAtoms(rows)), side=1.5)
    rough = sfwpo(indexed(acmdp, coarse), ratio=1.0, atol=1e-3, confirm=False, max_steps=30)
    assert rough.score < policy_iteration(acmdp).score - 1e-6


def test_audits_tell_the_share_of_the_gap() -> None:
    acmdp = random_acmdp(20, 2000, 8)
    result = sfwpo(indexed(acmdp, Audited(RandomSubset(acmdp.actions.atoms, size=100), every=2)))
    shares = result.trace.ratio
    assert np.isnan(shares[0]) and 0.5 < shares[1] < 1.0
    assert np.nanmin(shares) >= 0.0 and np.nanmax(shares) <= 1.0 + 1e-9


# ---------------------------------------------------------------- ends, results, mistakes


def test_limits_and_callbacks() -> None:
    acmdp = random_acmdp(10, 100, 5, curvature=2.0)
    assert fwpo(acmdp, max_steps=5, rtol=0.0).status is Status.MAX_STEPS
    assert fwpo(acmdp, max_steps=5, rtol=0.0).steps == 5
    stopped = fwpo(acmdp, callback=lambda state: state.t == 3, rtol=0.0)
    assert stopped.status is Status.STOPPED and stopped.steps == 3
    late = fwpo(acmdp, max_seconds=0.0)
    assert late.status is Status.MAX_SECONDS and len(late.trace) == 1
    assert np.isfinite(late.score) and late.weights.shape == (10, 1)


def test_the_trace_tells_j_and_the_gaps() -> None:
    acmdp = random_acmdp(10, 100, 5, curvature=2.0)
    result = fwpo(acmdp, max_steps=30, rtol=0.0)
    assert len(result.trace) == len(result.measures) == 32
    assert np.isnan(result.measures[0]) and result.trace.kind[0] == "start"
    assert result.score == result.scores.max() == result.J
    np.testing.assert_array_equal(result.trace.t, [0, *range(31)])
    assert (np.diff(result.trace.lower) >= 0.0).all()
    assert result.gap == result.upper - result.score > 0.0


@pytest.mark.slow
def test_a_run_that_was_never_asked_is_saved_and_says_what_is_not_known(tmp_path: Path) -> None:
    result = fwpo(random_acmdp(5, 100, 4), max_steps=0, max_seconds=0.0)
    result.save(tmp_path / "run")
    same = TabularResult.load(tmp_path / "run")
    assert np.isposinf(same.gaps).all() and np.isposinf(same.bounds).all()
    assert "not known" in repr(same) and "nan" not in repr(same) and "inf" not in repr(same)


def test_results_are_saved_drawn_and_told(tmp_path: Path) -> None:
    acmdp = random_acmdp(10, 100, 5)
    result = fwpo(acmdp)
    result.save(tmp_path / "run")
    same = TabularResult.load(tmp_path / "run", atoms=acmdp.actions.atoms)
    for name in TabularResult.__dataclass_fields__:
        mine, read = getattr(result, name), getattr(same, name)
        np.testing.assert_equal(*((mine.value, read.value) if name == "trace" else (mine, read)))
    with pytest.raises(StoreError):
        TabularResult.load(tmp_path / "run", atoms=np.eye(5))
    figure = result.plot(tmp_path / "run.svg")
    assert (tmp_path / "run.svg").stat().st_size > 1000
    assert figure.axes[0].get_ylabel() == "J"
    np.testing.assert_array_equal(figure.axes[0].get_lines()[0].get_ydata(), result.scores)
    assert "GAP_REACHED" in repr(result) and "10 states" in repr(result) and "J" in result.message


def test_first_policies_are_checked() -> None:
    acmdp = random_acmdp(3, 20, 4)
    with pytest.raises(ValueError, match="`start` must be 3 ids"):
        fwpo(acmdp, start=[0, 1])
    with pytest.raises(ValueError, match=r"`start` must be points of shape \(3, 4\)"):
        fwpo(acmdp, start=HullPoints(points=np.eye(4), ids=np.zeros((4, 1), int), weights=np.ones((4, 1))))
    with pytest.raises(ValueError, match=r"atoms of the states' own sets. Got atom 5 in state 2"):
        fwpo(parts(acmdp, [[0], [1], [2]]), start=[0, 1, 5])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"ratio": 0.0}, r"`ratio` must be in \(0, 1\]"),
        ({"rtol": -1.0}, "`rtol` must be a number >= 0"),
        ({"atol": -1.0}, "`atol` must be a number >= 0"),
        ({"max_steps": -1}, "`max_steps` must be a number >= 0"),
    ],
)
def test_mistakes(options: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        sfwpo(random_acmdp(3, 20, 4), **options)  # type: ignore[arg-type]


def test_backtracking_and_the_default_agree() -> None:
    acmdp = random_acmdp(10, 100, 5, curvature=2.0)
    one, other = (fwpo(acmdp, step=step, rtol=5e-3) for step in (None, Backtracking()))
    assert one.score == pytest.approx(other.score, abs=one.goal + other.goal)


def test_gaps_of_any_size_are_told() -> None:
    found = fwpo(random_acmdp(5, 100, 4), max_steps=2)
    assert "root of squares 1e+200" in repr(replace(found, gaps=1e200 * np.eye(len(found.gaps))[0]))
