"""Step rules: closed forms, what they promise against what is gained, the paper's step."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.policy.problems import rising_gap, rows_of, softmax_acmdp
from wolfhound import set_threads
from wolfhound.core.contracts import Vector
from wolfhound.policy import (
    ACMDP,
    AffineTransition,
    Backtracking,
    PaperStep,
    PerState,
    SmoothReward,
    Visitation,
    fwpo,
    random_acmdp,
    scales,
)
from wolfhound.policy.tabular.steps import PolicyMove, PolicyStep, short

RULES: dict[str, PolicyStep] = {
    "per state": PerState(),
    "visitation": Visitation(),
    "paper": PaperStep(),
    "backtracking": Backtracking(),
}


def gain_by_visits(acmdp: ACMDP, move: PolicyMove, alphas: Vector) -> float:
    """sum_s d alpha ghat: the slope of J along the step."""
    return float(acmdp.occupancy(move.here) @ (alphas * move.gaps))


# What J gains at least by the steps of a rule, by its estimate after them.
PROMISES: dict[str, Callable[[ACMDP, PolicyMove, Vector, float], float]] = {
    "per state": lambda acmdp, move, alphas, _: 0.5 * float(acmdp.start @ (alphas * move.gaps)),
    "visitation": lambda acmdp, move, alphas, _: 0.5 * gain_by_visits(acmdp, move, alphas),
    "paper": lambda acmdp, move, alphas, scale: (
        gain_by_visits(acmdp, move, alphas)
        - 0.5 * scale / scales(acmdp).diameter ** 2 * float(alphas**2 @ move.squares)
    ),
    "backtracking": lambda acmdp, move, alphas, _: float(
        np.minimum(0.5 * acmdp.start, 0.5 * acmdp.occupancy(move.here)) @ (alphas * move.gaps)
    ),
}


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    """Small problems: threads would only hand them about."""
    set_threads(1)
    yield
    set_threads(None)


def problem(kind: int, seed: int) -> ACMDP:
    """An affine, a quadratic, or a curved problem."""
    makers = (
        lambda: random_acmdp(5, 30, 4, seed=seed, gamma=0.8),
        lambda: random_acmdp(5, 30, 4, curvature=3.0, seed=seed, gamma=0.95),
        lambda: softmax_acmdp(4, 30, 3, seed=seed),
    )
    return makers[kind]()


def random_move(acmdp: ACMDP, seed: int) -> PolicyMove:
    """From a random mixture towards random atoms: some gaps are negative."""
    rng = np.random.default_rng(seed)
    rows = rows_of(acmdp)
    mixed = rng.dirichlet(np.full(len(rows), 0.1), acmdp.states) @ rows
    return PolicyMove.towards(acmdp.evaluate(mixed), rows[rng.integers(len(rows), size=acmdp.states)])


@pytest.mark.slow
@given(st.sampled_from(sorted(RULES)), st.integers(0, 2), st.integers(0, 10**6), st.booleans())
@settings(max_examples=120, deadline=None)
def test_j_gains_what_is_promised(name: str, kind: int, seed: int, greedy: bool) -> None:
    acmdp, rule = problem(kind, seed % 7), RULES[name]
    move = random_move(acmdp, seed)
    best = rows_of(acmdp)[(move.here.gradients @ rows_of(acmdp).T).argmax(axis=1)]
    move = PolicyMove.towards(move.here, np.where(greedy, best, move.atoms))
    alphas, estimate = rule(acmdp, move, 0.0)
    assert ((alphas >= 0.0) & (alphas <= 1.0)).all()
    assert (alphas[move.gaps <= 0.0] == 0.0).all()
    gained = acmdp.evaluate(move.after(alphas)).score - move.here.score
    promised = PROMISES[name](acmdp, move, alphas, estimate)
    assert gained >= promised - 1e-10
    assert promised > 0.0 or not (move.gaps > 1e-9).any()


@given(st.integers(1, 2), st.integers(0, 10**6))
@settings(max_examples=40, deadline=None)
def test_the_promise_of_the_default_is_that_of_the_theorem(kind: int, seed: int) -> None:
    """1/2 sum mu ghat min(1, ghat / (L_a |delta|^2)), written out."""
    acmdp = problem(kind, seed % 7)
    move = random_move(acmdp, seed)
    gaps = np.maximum(move.gaps, 0.0)
    steps = np.minimum(1.0, gaps / (move.here.smoothness * move.squares))
    expected = 0.5 * float((acmdp.start * gaps * steps).sum())
    found, estimate = PerState()(acmdp, move, 0.0)
    np.testing.assert_allclose(found, steps)
    assert PROMISES["per state"](acmdp, move, found, estimate) == pytest.approx(expected)


def test_visits_give_longer_steps_than_the_paper() -> None:
    """(1 - gamma) mu_min <= d(s), and D >= |delta|: E8's step is never shorter."""
    acmdp = problem(1, 0)
    move = random_move(acmdp, 3)
    known = scales(acmdp)
    ours, _ = Visitation()(acmdp, move, 0.0)
    paper, scale = PaperStep()(acmdp, move, 0.0)
    assert (ours >= paper).all() and ours.sum() > 10.0 * paper.sum()
    assert scale == pytest.approx(known.policy_smoothness * known.diameter**2)
    by_hand = (1.0 - acmdp.gamma) * acmdp.start.min() / scale * np.maximum(move.gaps, 0.0)
    np.testing.assert_allclose(paper, by_hand)
    given_both, scale_of_both = PaperStep(2.0, 3.0)(acmdp, move, 0.0)
    assert scale_of_both == 18.0
    np.testing.assert_allclose(given_both, by_hand * scale / 18.0)
    np.testing.assert_array_equal(PaperStep()(acmdp, move, 18.0)[0], given_both)


def test_steps_are_clipped_at_one() -> None:
    gaps = np.array([1.0, 1.0, 0.0, -2.0, 1e-300])
    curvature = np.array([0.5, 2.0, 0.0, 0.0, 0.0])
    np.testing.assert_array_equal(short(gaps, curvature), [1.0, 0.5, 0.0, 0.0, 1.0])


def test_a_whole_step_arrives_exactly() -> None:
    acmdp = problem(0, 1)
    move = random_move(acmdp, 1)
    np.testing.assert_array_equal(move.after(np.ones(acmdp.states)), move.atoms)
    np.testing.assert_array_equal(move.after(np.zeros(acmdp.states)), move.here.policy)


def test_backtracking_needs_no_smoothness() -> None:
    def bumps(a: Vector) -> Vector:
        return np.asarray(np.cos(3.0 * a).sum(axis=1))

    reward = SmoothReward(bumps, lambda a: -3.0 * np.sin(3.0 * a), smoothness=np.inf)
    stay = AffineTransition(np.zeros((2, 2, 2)), np.full((2, 2), 0.5))
    acmdp = ACMDP(reward, stay, 0.5, [0.5, 0.5], np.random.default_rng(0).standard_normal((50, 2)))
    result = fwpo(acmdp, step=Backtracking(), rtol=0.05, max_steps=200)
    assert result.success and (np.diff(result.scores) >= -1e-12).all()
    with pytest.raises(ValueError, match=r"of known smoothness, or use Backtracking"):
        fwpo(acmdp)
    with pytest.raises(ValueError, match="`smoothness` must be given, as it is not known"):
        fwpo(acmdp, step=Visitation())


def test_backtracking_finds_longer_steps_than_a_pessimist() -> None:
    """With L_a ten times too large, backtracking needs fewer steps."""
    exact = random_acmdp(8, 60, 4, curvature=1.0)
    reward = SmoothReward(exact.reward.values, exact.reward.gradients, smoothness=10.0, concave=True)
    acmdp = ACMDP(reward, exact.transition, exact.gamma, exact.start, exact.actions)
    slow, fast = (fwpo(acmdp, step=step, rtol=1e-2, max_steps=400) for step in (PerState(), Backtracking()))
    assert fast.success and fast.steps < slow.steps


def test_the_sum_of_squared_gaps_can_rise() -> None:
    """The paper's proof takes it to fall: g^2 goes from 0.010 to 0.0915 while J increases."""
    acmdp = rising_gap()
    # J = r / (1 - gamma), so L = 2; D = 1.
    result = fwpo(acmdp, step=PaperStep(2.0, 1.0), start=[0], atol=0.01, max_steps=100)
    squares = result.measures[1:] ** 2
    assert squares[0] == pytest.approx(0.010) and squares.max() == pytest.approx(0.0915, abs=2e-4)
    assert (np.diff(result.scores) >= 0.0).all()


def test_the_policy_of_the_least_gap_is_returned() -> None:
    """Stopped on the way up, the last policy is not the one that the theorem speaks of."""
    acmdp = rising_gap()
    result = fwpo(acmdp, step=PaperStep(2.0, 1.0), start=[0], atol=0.01, max_steps=20)
    assert result.status.name == "MAX_STEPS"
    assert result.measures[-1] > result.measures[1]
    assert result.policy[0, 0] == 0.0 and result.gaps[0] == pytest.approx(0.1)
    assert result.score < result.scores[-1]


@pytest.mark.parametrize("kind", [0, 1])
def test_the_step_of_the_paper_closes_hardly_anything(kind: int) -> None:
    acmdp = problem(kind, 0)
    slow, fast = (fwpo(acmdp, step=step, max_steps=150) for step in (PaperStep(), PerState()))
    closed = (slow.scores[-1] - slow.scores[0]) / (fast.score - slow.scores[0])
    assert 0.0 < closed < 0.01


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Visitation(0.0), "`smoothness` must be a number > 0"),
        (lambda: PaperStep(1.0, -1.0), "`diameter` must be a number > 0"),
        (lambda: Backtracking(0.6), r"`share` must be in \(0, 1/2\]"),
    ],
)
def test_mistakes(make: type, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


def test_the_step_of_the_paper_needs_every_first_state() -> None:
    acmdp = random_acmdp(3, 20, 4)
    start = np.array([0.5, 0.5, 0.0])
    acmdp = ACMDP(acmdp.reward, acmdp.transition, 0.9, start, acmdp.actions)
    with pytest.raises(ValueError, match="`start` must be positive in every state, for PaperStep"):
        fwpo(acmdp, step=PaperStep())
