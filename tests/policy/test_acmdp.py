"""Decision processes: evaluation against sums, gradients against differences, checks."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.policy.problems import rows_of, softmax_acmdp
from wolfhound.core.contracts import Vector
from wolfhound.policy import (
    ACMDP,
    ActionSet,
    AffineReward,
    AffineTransition,
    QuadraticReward,
    SmoothReward,
    SmoothTransition,
    SoftmaxTransition,
    policy_plan,
    policy_steps,
    random_acmdp,
    scales,
)


def hull_policy(acmdp: ACMDP, seed: int = 0) -> Vector:
    """Random mixtures of three atoms per state."""
    rng = np.random.default_rng(seed)
    rows = rows_of(acmdp)[rng.integers(acmdp.actions.n, size=(acmdp.states, 3))]
    return np.asarray(np.einsum("sk,skd->sd", rng.dirichlet(np.ones(3), acmdp.states), rows))


PROBLEMS: dict[str, Callable[[int], ACMDP]] = {
    "affine": lambda seed: random_acmdp(6, 40, 4, seed=seed),
    "quadratic": lambda seed: random_acmdp(6, 40, 4, curvature=2.0, seed=seed),
    "softmax": lambda seed: softmax_acmdp(5, 30, 3, seed=seed),
}


@pytest.mark.parametrize("name", PROBLEMS)
def test_values_are_discounted_sums(name: str) -> None:
    acmdp = PROBLEMS[name](0)
    policy = hull_policy(acmdp)
    here = acmdp.evaluate(policy)
    chances, rewards = acmdp.transition.matrix(policy), acmdp.reward.values(policy)
    values, ahead = np.zeros(acmdp.states), np.eye(acmdp.states)
    visits = np.zeros(acmdp.states)
    for t in range(600):
        values += acmdp.gamma**t * ahead @ rewards
        visits += acmdp.gamma**t * acmdp.start @ ahead
        ahead = ahead @ chances
    np.testing.assert_allclose(here.values, values, rtol=1e-10)
    assert here.score == pytest.approx(acmdp.start @ values)
    assert abs(here.score - acmdp.start @ values) <= here.error + 1e-9 * abs(here.score)
    np.testing.assert_allclose(acmdp.occupancy(here), visits, rtol=1e-10)
    assert (acmdp.occupancy(here) >= acmdp.start).all()
    assert acmdp.occupancy(here).sum() == pytest.approx(1.0 / (1.0 - acmdp.gamma))
    assert here.score == pytest.approx(acmdp.occupancy(here) @ rewards)


@pytest.mark.parametrize("name", PROBLEMS)
def test_the_gradient_of_j_is_visits_times_the_gradient_of_q(name: str) -> None:
    acmdp = PROBLEMS[name](1)
    policy = hull_policy(acmdp)
    here = acmdp.evaluate(policy)
    slopes = acmdp.occupancy(here)[:, None] * here.gradients
    for s in range(acmdp.states):
        for j in range(acmdp.dim):
            step = np.zeros_like(policy)
            step[s, j] = 4e-7
            # Steps off the simplex leave rows of sum 1 +- 4e-7, which are allowed.
            found = (acmdp.evaluate(policy + step).score - acmdp.evaluate(policy - step).score) / 8e-7
            assert found == pytest.approx(slopes[s, j], rel=2e-5, abs=2e-6)


@given(st.sampled_from(sorted(PROBLEMS)), st.integers(0, 50))
@settings(max_examples=30, deadline=None)
def test_q_is_as_smooth_as_said(name: str, seed: int) -> None:
    """|Q(s, b) - Q(s, a) - <grad, b - a>| <= L_a / 2 |b - a|^2, for the V of a policy."""
    acmdp = PROBLEMS[name](seed % 3)
    first, second = hull_policy(acmdp, seed), hull_policy(acmdp, seed + 1000)
    here = acmdp.evaluate(first)

    def q(policy: Vector) -> Vector:
        return acmdp.reward.values(policy) + acmdp.gamma * acmdp.transition.matrix(policy) @ here.values

    rest = q(second) - q(first) - np.einsum("ij,ij->i", here.gradients, second - first)
    limit = 0.5 * here.smoothness * np.square(second - first).sum(axis=1)
    assert (np.abs(rest) <= limit + 1e-9).all()


@pytest.mark.parametrize("name", PROBLEMS)
def test_gradients_pass_their_check(name: str) -> None:
    acmdp = PROBLEMS[name](2)
    assert acmdp.check(hull_policy(acmdp)) < 1e-5


@given(st.sampled_from(["affine", "quadratic", "softmax"]), st.integers(0, 20))
@settings(max_examples=20, deadline=None)
def test_scales_bound_every_policy(name: str, seed: int) -> None:
    acmdp = PROBLEMS[name](seed % 2)
    known = scales(acmdp)
    here, other = acmdp.evaluate(hull_policy(acmdp, seed)), acmdp.evaluate(hull_policy(acmdp, seed + 99))
    assert np.ptp(here.values) <= known.span
    assert np.sqrt(np.square(here.gradients).sum(axis=1)).max() <= known.slope
    assert here.smoothness <= known.action_smoothness
    # J along the line between two policies, against the parabola of its smoothness.
    slopes = acmdp.occupancy(here)[:, None] * here.gradients
    rest = other.score - here.score - (slopes * (other.policy - here.policy)).sum()
    assert abs(rest) <= 0.5 * known.policy_smoothness * np.square(other.policy - here.policy).sum() + 1e-9


def test_the_smoothness_of_j_grows_with_the_cube_of_the_horizon() -> None:
    near, far = (scales(random_acmdp(6, 40, 4, gamma=g)).policy_smoothness for g in (0.9, 0.99))
    assert far / near == pytest.approx(1000.0, rel=0.5)


def test_unknown_slopes_have_no_scales() -> None:
    acmdp = ACMDP(_bowl(2), _stay(2), 0.5, [0.5, 0.5], np.eye(2))
    assert scales(acmdp).policy_smoothness == np.inf
    with pytest.raises(ValueError, match="`acmdp` must be of known slopes"):
        policy_plan(acmdp, c=0.9, eps=0.1, delta=0.1)


# ---------------------------------------------------------------- the models


def test_arrays_become_affine_models() -> None:
    acmdp = ACMDP(np.ones((2, 2)), np.full((2, 2, 2), 0.5), 0.5, [1.0, 0.0], np.eye(2))
    assert isinstance(acmdp.reward, AffineReward) and isinstance(acmdp.transition, AffineTransition)
    assert acmdp.affine and acmdp.concave and acmdp.evaluate(np.eye(2)).score == pytest.approx(2.0)


def test_offsets_are_added() -> None:
    reward = AffineReward(np.zeros((2, 1)), np.array([1.0, 3.0]))
    transition = AffineTransition(np.zeros((2, 1, 2)), np.array([[0.0, 1.0], [1.0, 0.0]]))
    acmdp = ACMDP(reward, transition, 0.5, [1.0, 0.0], [[7.0]])
    np.testing.assert_allclose(acmdp.evaluate([[7.0], [7.0]]).values, [2.5 / 0.75, 3.5 / 0.75])


def test_what_is_concave_and_what_is_affine() -> None:
    kinds = {name: (make(0).concave, make(0).affine) for name, make in PROBLEMS.items()}
    assert kinds == {"affine": (True, True), "quadratic": (True, False), "softmax": (False, False)}


def _bowl(states: int, sign: float = -1.0) -> SmoothReward:
    return SmoothReward(
        lambda a: -np.square(a).sum(axis=1), lambda a: sign * 2.0 * a, smoothness=2.0, concave=True
    )


def _stay(states: int) -> SmoothTransition:
    return SmoothTransition(lambda a: np.eye(len(a)), lambda a, v: np.zeros_like(a), smoothness=0.0)


def _softmax_by_hand(logits: Vector, scale: float) -> SmoothTransition:
    inner = SoftmaxTransition(logits)
    return SmoothTransition(inner.matrix, lambda a, v: scale * inner.pull(a, v), smoothness=inner.smoothness)


def test_functions_are_models_too() -> None:
    rng = np.random.default_rng(0)
    logits, atoms, start = rng.standard_normal((3, 3, 2)), rng.standard_normal((20, 2)), np.full(3, 1 / 3)
    centres = np.zeros((3, 2))
    made = ACMDP(_bowl(3), _softmax_by_hand(logits, 1.0), 0.7, start, atoms)
    same = ACMDP(
        QuadraticReward(centres, centres, curvature=2.0), SoftmaxTransition(logits), 0.7, start, atoms
    )
    policy = hull_policy(made)
    one, other = made.evaluate(policy), same.evaluate(policy)
    assert one.score == pytest.approx(other.score) and one.smoothness == pytest.approx(other.smoothness)
    np.testing.assert_allclose(one.gradients, other.gradients)


@pytest.mark.parametrize(
    ("reward", "transition", "message"),
    [
        (_bowl(2, sign=1.0), _stay(2), "`gradient` of the reward gives .* in state"),
        (_bowl(2), _softmax_by_hand(np.random.default_rng(0).standard_normal((2, 2, 2)), 0.9), "transition"),
    ],
)
def test_wrong_gradients_are_found(reward: Any, transition: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ACMDP(reward, transition, 0.5, [0.5, 0.5], np.random.default_rng(0).standard_normal((9, 2)))


def test_what_functions_return_is_checked() -> None:
    wide = SmoothReward(lambda a: np.zeros(len(a) + 1), lambda a: a, smoothness=1.0)
    with pytest.raises(ValueError, match=r"`value\(policy\)` must be of shape \(2,\)"):
        ACMDP(wide, _stay(2), 0.5, [0.5, 0.5], np.eye(2))
    infinite = SmoothReward(lambda a: np.full(len(a), np.inf), lambda a: a, smoothness=1.0)
    with pytest.raises(FloatingPointError, match=r"Got inf for state 0"):
        infinite.values(np.eye(2))


def test_functions_may_not_write_into_policies() -> None:
    def value(a: Vector) -> Vector:
        a[:] = 0.0
        return np.zeros(len(a))

    acmdp = ACMDP(SmoothReward(value, np.zeros_like, smoothness=0.0), _stay(2), 0.5, [0.5, 0.5], np.eye(2))
    policy = np.eye(2)
    acmdp.evaluate(policy)
    np.testing.assert_array_equal(policy, np.eye(2))


# ---------------------------------------------------------------- actions that lead nowhere


def test_atoms_off_the_simplex_are_found() -> None:
    tensor = np.full((2, 2, 2), 0.5)
    with pytest.raises(ValueError, match=r"a row of sum 1.2 with least entry 0.6 for atom 1 in state 0"):
        ACMDP(np.ones((2, 2)), tensor, 0.5, [0.5, 0.5], [[0.5, 0.5], [0.6, 0.6]])


def test_negative_chances_are_found() -> None:
    tensor = np.array([[[1.0, 0.0], [0.0, 1.0]]] * 2)
    with pytest.raises(ValueError, match=r"with least entry -0.5 for atom 0 in state 0"):
        ACMDP(np.ones((2, 2)), tensor, 0.5, [0.5, 0.5], [[1.5, -0.5], [1.0, 0.0]])


def test_subsets_are_checked_for_their_own_state_only() -> None:
    tensor = np.array([[[1.0, 0.0], [0.0, 1.0]]] * 2)
    atoms = [[1.5, -0.5], [1.0, 0.0]]
    acmdp = ACMDP(np.ones((2, 2)), tensor, 0.5, [0.5, 0.5], atoms, subsets=[[1], [1]])
    assert len(acmdp.subsets or ()) == 2
    with pytest.raises(ValueError, match="for atom 0 in state 1"):
        ACMDP(np.ones((2, 2)), tensor, 0.5, [0.5, 0.5], atoms, subsets=[[1], [0, 1]])


def test_policies_that_lead_nowhere_are_found() -> None:
    acmdp = random_acmdp(3, 20, 4)
    with pytest.raises(ValueError, match=r"must give distributions. Got a row of sum 2 .* state 1"):
        acmdp.evaluate(np.array([[1.0, 0, 0, 0], [2.0, 0, 0, 0], [1.0, 0, 0, 0]]))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"gamma": 1.0}, r"`gamma` must be in \[0, 1\)"),
        ({"gamma": -0.1}, "`gamma` must be a number >= 0"),
        ({"start": [0.5, 0.6]}, "`start` must be >= 0 with sum 1. Got sum 1.1"),
        ({"reward": np.ones((3, 2))}, "`reward` must be a model of 2 states and actions of 2 entries"),
        ({"transition": np.ones((2, 3, 2))}, "`transition` must be a model of 2 states"),
        ({"subsets": [[0]]}, "`subsets` must be 2 vectors. Got 1"),
        ({"transition": np.ones((2, 2, 3))}, r"`tensor` must be an \(S, d, S\) array"),
    ],
)
def test_mistakes(change: dict[str, Any], message: str) -> None:
    parts: dict[str, Any] = {
        "reward": np.ones((2, 2)),
        "transition": np.full((2, 2, 2), 0.5),
        "gamma": 0.5,
        "start": [0.5, 0.5],
        "actions": np.eye(2),
    }
    with pytest.raises(ValueError, match=message):
        ACMDP(**parts | change)


def test_policies_have_the_right_shape() -> None:
    acmdp = random_acmdp(3, 20, 4)
    with pytest.raises(ValueError, match=r"`policy` must be of shape \(3, 4\)"):
        acmdp.evaluate(np.ones((2, 4)))
    with pytest.raises(ValueError, match="`ids` must be 3 ids"):
        acmdp.atoms_of([0, 1])


def test_other_actions_over_the_same_atoms() -> None:
    acmdp = random_acmdp(3, 20, 4)
    other = acmdp.with_actions(ActionSet(acmdp.actions.atoms, cache=7))
    assert other.actions is not acmdp.actions and other.reward is acmdp.reward
    with pytest.raises(ValueError, match="`actions` must be an oracle over the same atoms"):
        acmdp.with_actions(ActionSet(np.eye(4)))


# ---------------------------------------------------------------- the generator and the plan


def test_random_problems_are_alike_for_a_seed() -> None:
    one, same, other = (random_acmdp(4, 30, 3, seed=seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(rows_of(one), rows_of(same))
    assert not np.array_equal(rows_of(one), rows_of(other))
    np.testing.assert_allclose(rows_of(one).sum(axis=1), 1.0)


def test_random_first_atoms_are_of_the_states_own_sets() -> None:
    acmdp = random_acmdp(2, 30, 3)
    parts = ACMDP(acmdp.reward, acmdp.transition, 0.9, acmdp.start, acmdp.actions, subsets=[[3, 5], [7]])
    drawn = {tuple(parts.random_ids(np.random.default_rng(seed)).tolist()) for seed in range(20)}
    assert drawn == {(3, 7), (5, 7)}


def test_steps_of_the_theorem() -> None:
    """T = 2 max(G, L_a D^2) span / (mu_min c^2 eps^2), four times that with half of c eps for the lattice."""
    plain = policy_steps(0.1, c=0.5, span=10.0, largest=1.0, curvature=3.0, least=0.25)
    assert plain == 96_000
    half = 0.5 * 0.5 * 0.1 / 3.0
    halved = policy_steps(0.1, c=0.5, span=10.0, largest=1.0, curvature=3.0, least=0.25, states=9, error=half)
    assert halved == pytest.approx(4 * plain, abs=1)


def test_the_plan_of_adaptive_queries() -> None:
    acmdp = random_acmdp(9, 100, 4)
    plan = policy_plan(acmdp, c=0.8, eps=0.3, delta=0.01)
    assert plan.gap_error == pytest.approx(0.8 * 0.3 / (2.0 * 3.0))
    # T |S| fixed queries; all cells of the lattice if they may depend on the index.
    assert plan.copies == int(np.ceil(np.log10(plan.steps * 9 / 0.01)))
    assert plan.lattice == int(np.ceil(4 * np.log10(np.ceil(2.0 / plan.side)) + 2.0))
    known = scales(acmdp)
    error = plan.gap_error / (known.slope * known.diameter)
    assert plan.side == pytest.approx(2.0 * error / 1.8 / 2.0)


@pytest.mark.slow
def test_the_package_needs_neither_torch_nor_gymnasium() -> None:
    code = "import sys, wolfhound.policy; print(sorted({'torch', 'gymnasium'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
