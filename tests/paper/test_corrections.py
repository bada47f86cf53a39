"""Where the paper's text is wrong, on the smallest examples: its version fails, ours holds.

Formulas only, in numpy. The runs of these corrections are tested with the methods,
the transforms with the oracles. docs/paper.md tells the story of each number.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from tests.oracles.degraded import Degraded, Follower
from wolfhound import Custom, FrankWolfe, Scan, ShortStep, SquaredDistance, Vanilla, minimize
from wolfhound.core.contracts import State, Vector
from wolfhound.data.atoms import ArrayAtoms, diameter_bound
from wolfhound.paper import theory
from wolfhound.paper.theory import rho

shares = st.floats(0.05, 0.99)
seeds = st.integers(0, 2**32 - 1)


def ring(size: int) -> Vector:
    angles = 2 * np.pi * np.arange(size) / size
    return np.stack([np.cos(angles), np.sin(angles)], axis=1)


def widest(rows: Vector) -> float:
    return float(np.linalg.norm(rows[:, None] - rows[None], axis=2).max())


# ---------------------------------------------------------------- E1: the exponent


@given(shares, st.floats(0.05, 0.95))
def test_e1_exponent_follows_from_the_distances_of_unit_vectors(c: float, tau: float) -> None:
    query = np.array([1.0, 0.0])
    near, far = (np.array([s, math.sqrt(1 - s**2)]) for s in (tau, c * tau))
    cbar = float(np.linalg.norm(far - query) / np.linalg.norm(near - query))
    assert 2 / cbar**2 - 1 / cbar**4 == pytest.approx(rho(c, tau), rel=1e-9)
    ratio = (1 - tau) / (1 - c * tau)  # the paper: 2 ratio^2 - ratio^4
    assert 2 * ratio**2 - ratio**4 == pytest.approx(theory.rho_printed(c, tau), rel=1e-9)
    assert theory.rho_printed(c, tau) < rho(c, tau)


@pytest.mark.parametrize("n", [10**6, 10**9])
def test_e1_hashing_at_the_tau_of_a_small_eps_scores_all_atoms(n: int) -> None:
    for_eps = 1e-3 / math.prod(theory.lift_norms(1.0, smoothness=1.0, diameter=2.0, radius=1.0))
    assert for_eps < theory.break_even(n, 0.5)
    assert theory.candidates(n, rho(0.5, for_eps)) > n


# ---------------------------------------------------------------- E3, E18: herding


def herd(choose: Callable[[Vector], Vector], picks: int, rows: Vector) -> list[Vector]:
    """Frank-Wolfe with steps 2 / (t + 2) towards the mean of the rows, from row 0."""
    points = [rows[0]]
    for t in range(picks):
        direction = choose(points[-1] - rows.mean(axis=0))
        points.append(points[-1] + 2 / (t + 2) * (rows[np.argmax(rows @ direction)] - points[-1]))
    return points


def test_e3_the_printed_sign_goes_away_from_the_mean() -> None:
    rows = ring(7)
    errors = [0.5 * float(x @ x) for x in herd(lambda away: -away, 50, rows)]
    printed = [0.5 * float(x @ x) for x in herd(lambda away: away, 50, rows)]
    bounds = [theory.gap_after(t, c=1.0, curvature=widest(rows) ** 2, first=0.5) for t in range(51)]
    assert np.all(np.array(errors) <= bounds)
    assert errors[-1] < 0.01
    assert_allclose(printed, 0.5)  # it stays at the atom that it began with
    assert printed[-1] > bounds[-1]


def recursion(first: Vector, picks: int, rows: Vector) -> list[int]:
    """Picks of x = argmax <W, s>, W += mean - s."""
    w, chosen = first.copy(), []
    for _ in range(picks):
        chosen.append(int(np.argmax(rows @ w)))
        w += rows.mean(axis=0) - rows[chosen[-1]]
    return chosen


def open_loop(ell: float, picks: int, rows: Vector) -> list[int]:
    """Picks of Frank-Wolfe on 1/2 |w - mean|^2 with steps ell / (t + ell) from the origin."""
    w, chosen = np.zeros(rows.shape[1]), []
    for t in range(picks):
        chosen.append(int(np.argmax(rows @ (rows.mean(axis=0) - w))))
        w += ell / (t + ell) * (rows[chosen[-1]] - w)
    return chosen


@pytest.mark.parametrize("seed", range(3))
def test_e18_herding_is_frank_wolfe_for_the_steps_of_a_mean_only(seed: int) -> None:
    rows = np.random.default_rng(seed).standard_normal((60, 4))
    first = rows.mean(axis=0)  # W_0 = 0 ties all atoms; Frank-Wolfe asks for the mean first
    same = open_loop(1.0, 40, rows)
    w = np.zeros(4)
    for pick, following in itertools.pairwise(same):
        w += first - rows[pick]  # W_t = t (mean - w_t), from W_0 = 0
        assert following == np.argmax(rows @ w)
    assert open_loop(2.0, 40, rows) != same  # the steps that Alg. 3 prints
    assert recursion(10 * rows[0], 40, rows) != same  # W_0 is not 0


def test_e18_the_printed_steps_weigh_late_picks_more() -> None:
    etas = 2 / (np.arange(20) + 2)
    left = np.append(np.cumprod((1 - etas)[:0:-1])[::-1], 1.0)  # prod over j > t
    assert_allclose(etas * left, 2 * (np.arange(20) + 1) / (20 * 21), rtol=1e-12)


def worst_herding(c: float, picks: int) -> Vector:
    """h_{t+1} = (1 - 2c/(t+1)) h_t + 1/(2 (t+1)^2), with D = 1, from a full first step."""
    gaps = [0.5]
    for t in range(1, picks):
        gaps.append((1 - 2 * c / (t + 1)) * gaps[-1] + 0.5 / (t + 1) ** 2)
    return np.array(gaps)


def test_e18_half_of_the_gap_is_where_herding_gets_slower_than_one_over_t() -> None:
    t = np.arange(1, 20_001)
    above, below = worst_herding(0.75, len(t)), worst_herding(0.25, len(t))
    assert np.all(above <= [theory.herding_gap_after(int(at), c=0.75, diameter=1.0) for at in t])
    assert np.all(below <= 2.0 * t**-0.5)  # t^-2c
    assert below[-1] * t[-1] > 30 * below[9] * t[9]


# ---------------------------------------------------------------- E4: steps and start


@pytest.mark.parametrize("c", [0.2, 0.5, 0.66, 0.99])
def test_e4_the_printed_first_step_leaves_the_hull(c: float) -> None:
    x, atom = 0.0, 1.0  # the hull is [0, 1]
    assert x + 2 / (c * 2) * (atom - x) > 1.0
    ours = 2 / (c * np.arange(1000) + 2)
    assert np.all((ours > 0) & (ours <= 1))


def test_e4_a_bound_without_h0_is_wrong() -> None:
    # f = -x on [0, 1], nearly no curvature; the atoms let the oracle take half of the gap each time.
    c, curvature = 0.5, 1e-6
    atoms = np.append(1 - 0.5 ** np.arange(40), 1.0)
    times = np.arange(10)
    for steps, bound in (
        (2 / (c * times + 2), theory.gap_after),
        (np.minimum(1, 2 / (c * (times + 2))), theory.gap_after_clipped),
    ):
        x, gaps = 0.0, []
        for step in steps:
            gaps.append(1 - x)
            good = atoms - x >= c * (1 - x) * (1 - 1e-12)
            x += step * (float(atoms[good].min()) - x)
        printed = 2 * curvature / (c**2 * (times + 1))
        ours = [bound(t, c=c, curvature=curvature, first=1.0) for t in times.tolist()]
        assert np.all(np.array(gaps) > printed)
        assert np.all(np.array(gaps) <= ours)


# ---------------------------------------------------------------- E5: Case 1


def far_cloud() -> tuple[Vector, Vector, float, float]:
    """Atoms, a target, and D_x, D_y for 1/2 |x - target|^2 from atom 0."""
    rng = np.random.default_rng(0)
    atoms, target = 10 * rng.standard_normal((50, 3)), 10 * rng.standard_normal(3)
    norms = theory.lift_norms(
        float(np.linalg.norm(atoms[0] - target)),
        smoothness=1.0,
        diameter=widest(atoms),
        radius=float(np.linalg.norm(atoms, axis=1).max()),
    )
    return atoms, target, *norms


def test_e5_the_printed_tau_stops_far_from_the_optimum() -> None:
    atoms, target, d_x, d_y = far_cloud()
    gap = float(((atoms - atoms[0]) @ (target - atoms[0])).max())
    eps = 1e-6
    score = gap / (d_x * d_y)  # max <psi(s), phi(w)>
    assert gap > 100
    assert 0 < d_x * d_y * eps < 1  # the paper's tau is allowed ...
    assert score < d_x * d_y * eps  # ... and says that the start is optimal to 1e-6
    assert score > eps / (d_x * d_y)  # ours does not


@given(seeds)
def test_e5_case_1_proves_eps_with_our_tau(seed: int) -> None:
    atoms, target, d_x, d_y = far_cloud()
    x, *others = np.random.default_rng(seed).dirichlet(np.full(50, 0.1), size=50) @ atoms
    score = ((atoms - x) @ (target - x)).max() / (d_x * d_y)
    best = 0.5 * np.square(np.array(others) - target).sum(axis=1).min()
    eps = float(score * d_x * d_y)  # the least eps whose tau is not below the score
    assert 0.5 * np.square(x - target).sum() - best <= eps * (1 + 1e-9)


# ---------------------------------------------------------------- E8: policies


def test_e8_the_sum_of_squared_gaps_may_rise_while_the_return_does() -> None:
    # One state that loops, actions {0, 1}, r(a) = (a + 0.1)^2 / 2, gamma = 1/2, exact answers.
    action, gamma, gaps, returns = 0.0, 0.5, [], []
    for _ in range(200):
        gaps.append((1 - action) * (action + 0.1))
        returns.append(0.5 * (action + 0.1) ** 2 / (1 - gamma))
        smoothness = 1 / (1 - gamma)  # of the return
        action += (1 - gamma) / smoothness * gaps[-1] * (1 - action)
    assert np.all(np.diff(returns) > 0)
    assert gaps[0] ** 2 == pytest.approx(0.01)
    assert max(gaps) ** 2 == pytest.approx(0.0915, abs=5e-4)
    bound = 2 * smoothness / (1 - gamma) ** 2 * returns[-1]  # (T+1) min g^2 <= sum g^2 <= this
    for t in range(200):
        assert min(gaps[: t + 1]) ** 2 <= bound / (t + 1)


# ---------------------------------------------------------------- E10: c tau is not c max


def stingy(scores: Vector, c: float, tau: float) -> float:
    """The worst answer that a (cbar, r) structure may give; -inf where nothing is promised."""
    if scores.max() < tau:
        return -math.inf
    return float(scores[scores >= c * tau].min())


def test_e10_one_structure_need_not_find_a_share_of_the_maximum() -> None:
    scores, c, tau = np.array([0.1, 0.3, 1.0]), 0.5, 0.2
    assert stingy(scores, c, tau) == 0.1
    assert stingy(scores, c, tau) < c * scores.max()


@given(st.lists(st.floats(0.11, 1.0), min_size=1, max_size=30), shares, st.floats(0.01, 1.0))
def test_e10_a_ladder_from_the_top_does(values: list[float], c: float, zeta: float) -> None:
    scores, low = np.array(values), 0.1
    rungs = (1 + zeta) ** -np.arange(math.ceil(math.log(1 / low) / math.log1p(zeta)) + 1)
    answers = ((tau, stingy(scores, c, tau)) for tau in rungs)
    found = next(answer for tau, answer in answers if answer >= c * tau)
    assert found >= c / (1 + zeta) * scores.max() * (1 - 1e-12)


# ---------------------------------------------------------------- E15: the lattice


def test_e15_the_printed_error_lets_a_run_rest_above_eps() -> None:
    # f(x) = x over {0, start}: an answer of gap >= c g - lambda may be the start itself, gap 0.
    c, eps = 0.6, 1e-3
    for error, rests_below in ((eps / (4 * c**2), False), (theory.additive_error(eps, c=c), True)):
        start = error / c
        assert c * start - error <= 1e-15
        assert (start <= eps) is rests_below


def test_e15_a_cell_of_the_appendix_errs_by_more_than_lambda() -> None:
    # Diameter 2 lambda: the centre is up to lambda away, and c max - (1 + c) lambda is all that is left.
    c, error, alpha = 0.9, 0.1, np.pi / 3
    centre = math.sqrt(1 - error**2) * np.array([1.0, 0.0])
    query = centre + np.array([0.0, error])
    beta = math.acos(c * math.cos(alpha))
    best, answer = np.array([[math.cos(alpha), math.sin(alpha)], [math.cos(beta), -math.sin(beta)]])
    assert np.linalg.norm(query) == pytest.approx(1.0)
    assert centre @ answer == pytest.approx(c * centre @ best)  # allowed for the centre
    assert query @ answer < c * (query @ best) - error
    radius = error / (1 + c)  # ours
    nearer = (query - centre) * radius / error
    moved = math.sqrt(1 - radius**2) * np.array([1.0, 0.0]) + nearer
    assert moved @ answer >= c * (moved @ best) - error


# ---------------------------------------------------------------- E16: D_max


def test_e16_a_point_outside_the_hull_measures_the_distance_not_the_diameter() -> None:
    cloud = np.random.default_rng(0).standard_normal((40, 3)) + 1e4
    diameter = widest(cloud)
    assert diameter <= diameter_bound(ArrayAtoms(cloud)) <= 2 * diameter
    assert 2 * np.linalg.norm(cloud, axis=1).max() > 1000 * diameter


# ---------------------------------------------------------------- E17, E19: without convexity


@pytest.mark.parametrize("c", [0.4, 0.8, 1.0])
def test_e19_a_ratio_bounds_the_least_gap_of_a_run(c: float) -> None:
    rng = np.random.default_rng(3)
    rows = rng.standard_normal((40, 4))
    form = np.diag([2.0, 1.0, -1.0, -2.0])  # indefinite; smoothness 2
    objective = Custom(lambda x: (0.5 * float(x @ form @ x), form @ x), convex=False)
    follower = Follower()
    oracle = Degraded(Scan(rows), c, follower.here)
    gaps: list[float] = []
    values: list[float] = []

    def note(state: State) -> None:
        follower(state)
        values.append(state.point.value)
        gaps.append(float(((follower.x - rows) @ (form @ follower.x)).max()))

    method = FrankWolfe(Vanilla(), ShortStep(2.0))
    result = minimize(objective, oracle, method=method, max_steps=60, rtol=0.0, callback=note)
    assert result.lower == -math.inf  # E17: nothing is claimed
    first = values[0] + float(np.square(rows).sum(axis=1).max())  # f >= -|x|^2: at least h_0
    for t in range(len(gaps)):
        curved = math.sqrt(2 * 2.0 * widest(rows) ** 2 * first / (t + 1))
        assert min(gaps[: t + 1]) <= max(2 * first / (t + 1), curved) / c
    assert min(gaps) < 0.5 * gaps[0]


# ---------------------------------------------------------------- lemmas that need no correction


@given(seeds)
def test_an_atom_is_as_good_as_any_point_of_the_hull(seed: int) -> None:
    """Cor. hull maximum, and the MaxIP condition: no convexity of f is used."""
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((12, 3))
    points = rng.dirichlet(np.full(12, 0.3), size=20) @ rows
    query = rng.standard_normal(3)
    best = float(Scan(rows).query(query[None]).scores[0, 0])
    assert np.all(points @ query <= best + 1e-12)


@given(seeds)
def test_the_herding_objective_is_its_own_quadratic_model(seed: int) -> None:
    """Lemma 1-smooth: g(y) = g(x) + <grad g(x), y - x> + 1/2 |y - x|^2."""
    rng = np.random.default_rng(seed)
    x, y, mean = rng.standard_normal((3, 5))
    f = SquaredDistance(mean)
    at = f.at(x)
    assert f.smoothness == 1.0
    assert f.at(y).value == pytest.approx(at.value + at.grad @ (y - x) + 0.5 * float((y - x) @ (y - x)))
