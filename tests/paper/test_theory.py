# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wolfhound.core.contracts import Vector
from wolfhound.paper import theory
from wolfhound.paper.theory import Regime, rho

shares = st.floats(0.01, 0.99)
taus = st.floats(0.01, 0.99)
sizes = st.floats(1e-3, 1e3)


# ---------------------------------------------------------------- exponents


def test_exponents_at_the_example_of_the_docs() -> None:
    assert rho(0.5, 0.9, Regime.NEAR_LINEAR) == pytest.approx(1 - (0.45 / 0.55) ** 2, rel=1e-12)
    assert rho(0.5, 0.9, Regime.NEAR_LINEAR) == pytest.approx(0.331, abs=5e-4)
    assert rho(0.5, 0.9, Regime.BALANCED) == pytest.approx(0.100, abs=5e-4)
    assert theory.rho_printed(0.5, 0.9) == pytest.approx(0.065, abs=5e-4)


@given(shares, taus)
def test_printed_exponent_is_too_optimistic(c: float, tau: float) -> None:
    assert theory.rho_printed(c, tau) <= rho(c, tau) * (1 + 1e-12)
    assert theory.rho_printed(0.5, 0.9) < rho(0.5, 0.9, Regime.BALANCED)


@given(shares, taus)
def test_regimes_are_ordered_by_what_they_may_use(c: float, tau: float) -> None:
    # Known inner products of any pair: alpha = tau near, beta = c tau far.
    exponents = {regime: rho(c, tau, regime) for regime in Regime}
    assert exponents[Regime.BALANCED] <= exponents[Regime.NEAR_LINEAR] + 1e-12
    assert exponents[Regime.BALANCED] <= exponents[Regime.CROSS_POLYTOPE] + 1e-12
    assert exponents[Regime.NEAR_LINEAR] <= exponents[Regime.FILTERS] + 1e-12
    assert exponents[Regime.CROSS_POLYTOPE] <= exponents[Regime.FILTERS] + 1e-12
    assert 0 < min(exponents.values()) <= max(exponents.values()) < 1


@pytest.mark.parametrize("regime", Regime)
@given(c=shares, tau=taus, by=st.floats(1e-3, 0.5))
def test_exponent_falls_with_tau_and_rises_with_c(regime: Regime, c: float, tau: float, by: float) -> None:
    assert rho(c, tau + by * (1 - tau), regime) < rho(c, tau, regime)
    assert rho(c + by * (1 - c), tau, regime) > rho(c, tau, regime)


@pytest.mark.parametrize("regime", Regime)
def test_exponent_at_its_limits(regime: Regime) -> None:
    assert rho(0.5, 1 - 1e-9, regime) == pytest.approx(0, abs=1e-7)
    assert rho(0.5, 1e-9, regime) == pytest.approx(1, abs=1e-7)
    assert rho(1.0, 0.5, regime) == pytest.approx(1, abs=1e-12)


@given(shares, taus)
def test_cross_polytope_exponent_is_the_ratio_of_its_collision_exponents(c: float, tau: float) -> None:
    near, far = (math.log(theory.cross_polytope_collision(s, 64)) for s in (tau, c * tau))
    assert rho(c, tau, Regime.CROSS_POLYTOPE) == pytest.approx(near / far, rel=1e-9)


@given(shares, taus, st.floats(0.0, 2.0))
def test_space_time_curve_satisfies_its_equation(c: float, tau: float, share: float) -> None:
    square = theory.distance_ratio(c, tau) ** 2
    rho_u = share * (2 * square - 1) / (square - 1) ** 2
    rho_q = theory.space_time(math.sqrt(square), rho_u)
    left = square * math.sqrt(rho_q) + (square - 1) * math.sqrt(rho_u)
    assert left == pytest.approx(max(1, math.sqrt(share)) * math.sqrt(2 * square - 1), rel=1e-6)


@given(shares, taus)
def test_space_time_curve_passes_through_both_data_dependent_regimes(c: float, tau: float) -> None:
    cbar = theory.distance_ratio(c, tau)
    balanced = rho(c, tau, Regime.BALANCED)
    assert theory.space_time(cbar, 0.0) == pytest.approx(rho(c, tau, Regime.NEAR_LINEAR), rel=1e-9)
    assert theory.space_time(cbar, balanced) == pytest.approx(balanced, rel=1e-6)


@given(shares, taus, st.floats(0.0, 0.9))
def test_score_of_the_current_point_shrinks_the_sphere(c: float, tau: float, here: float) -> None:
    gap = tau * (1 - here)
    exponent = theory.space_time(theory.distance_ratio(c, gap, here=here), 0.0)
    assert 1 - exponent == pytest.approx(((1 - c) * gap / (1 - here - c * gap)) ** 2, abs=1e-9)


@given(st.integers(3, 10**12), shares)
def test_hashing_breaks_even_where_it_scores_all_atoms(n: int, c: float) -> None:
    tau = theory.break_even(n, c)
    assert theory.candidates(n, rho(c, tau)) == pytest.approx(n, rel=1e-6)


def test_break_even_at_a_million_atoms() -> None:
    assert theory.candidates(10**6, 0.0) == pytest.approx(41, abs=0.5)
    assert theory.break_even(10**6, 0.9) == pytest.approx(0.915, abs=5e-4)
    assert theory.break_even(10**6, 0.5) == pytest.approx(0.683, abs=5e-4)


# ---------------------------------------------------------------- steps


@given(shares, sizes, sizes, st.floats(1e-3, 10.0), st.floats(0.0, 0.9))
def test_steps_reach_eps_and_one_fewer_does_not(
    c: float, curvature: float, first: float, eps: float, share: float
) -> None:
    error = share * c * eps
    count = theory.steps(eps, c=c, curvature=curvature, first=first, error=error)
    after = theory.gap_after(count, c=c, curvature=curvature, first=first, error=error)
    before = theory.gap_after(max(count - 1, 0), c=c, curvature=curvature, first=first, error=error)
    assert after <= eps * (1 + 1e-9)
    assert count == 0 or before >= eps * (1 - 1e-9)


def recursion(steps: Vector, c: float, curvature: float, first: float, error: float) -> list[float]:
    """h_{t+1} = (1 - c eta) h_t + eta^2 beta D^2 / 2 + eta error: the worst that can happen."""
    gaps = [first]
    for eta in steps:
        gaps.append((1 - c * eta) * gaps[-1] + 0.5 * eta**2 * curvature + eta * error)
    return gaps


@given(shares, sizes, sizes, st.floats(0.0, 1.0))
def test_gap_after_covers_the_worst_recursion(c: float, curvature: float, first: float, error: float) -> None:
    gaps = recursion(2 / (c * np.arange(300) + 2), c, curvature, first, error)
    bounds = [theory.gap_after(t, c=c, curvature=curvature, first=first, error=error) for t in range(301)]
    assert np.all(np.array(gaps) <= np.array(bounds) * (1 + 1e-9))


@pytest.mark.slow
@given(shares, sizes, sizes)
def test_gap_after_clipped_covers_the_worst_recursion(c: float, curvature: float, first: float) -> None:
    steps = np.minimum(1.0, 2 / (c * (np.arange(300) + 2)))
    gaps = recursion(steps, c, curvature, first, 0.0)
    bounds = [theory.gap_after_clipped(t, c=c, curvature=curvature, first=first) for t in range(301)]
    assert np.all(np.array(gaps) <= np.array(bounds) * (1 + 1e-9))


@pytest.mark.parametrize("c", [0.3, 0.6, 1.0])
def test_a_run_with_the_worst_allowed_answers_stays_below_the_bound(c: float) -> None:
    rng = np.random.default_rng(0)
    atoms = rng.standard_normal((60, 5))
    diameter = max(float(np.linalg.norm(a - b)) for a in atoms for b in atoms)
    x = atoms[0]
    target = atoms.mean(axis=0)  # inside the hull: min f = 0
    first = 0.5 * float((x - target) @ (x - target))
    for t in range(200):
        gaps = (atoms - x) @ (target - x)
        answer = np.argmin(np.where(gaps >= c * gaps.max(), gaps, np.inf))
        x = x + 2 / (c * t + 2) * (atoms[answer] - x)
        left = 0.5 * float((x - target) @ (x - target))
        assert left <= theory.gap_after(t + 1, c=c, curvature=diameter**2, first=first)


@pytest.mark.slow
@given(st.floats(0.51, 1.0), st.floats(0.0, 100.0))
def test_herding_bound_covers_the_worst_recursion(c: float, first: float) -> None:
    # mu in the hull: the gap is at least |w - mu|^2 = 2h, so h shrinks twice as fast; the first
    # step is a full one and forgets where it started.
    gap = 0.5 * min(first, 1.0)
    for t in range(1, 300):
        assert gap <= theory.herding_gap_after(t, c=c, diameter=1.0) * (1 + 1e-9)
        gap = (1 - 2 * c / (t + 1)) * gap + 0.5 / (t + 1) ** 2


def test_herding_bound_on_a_ring() -> None:
    angles = 2 * np.pi * np.arange(7) / 7
    ring = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    total = np.zeros(2)
    for t in range(1, 100):
        total += ring[np.argmax(ring @ (0.0 - total))]
        assert 0.5 * float(total @ total) / t**2 <= theory.herding_gap_after(t, c=1.0, diameter=2.0)


# ---------------------------------------------------------------- lifts, copies, lattices


@given(st.integers(0, 2**32 - 1), st.floats(0.0, 50.0))
def test_lift_norms_bound_every_lifted_vector(seed: int, far: float) -> None:
    rng = np.random.default_rng(seed)
    atoms = rng.standard_normal((8, 3)) + far
    weights = rng.dirichlet(np.ones(8), size=5)
    points, target = weights @ atoms, rng.standard_normal(3)
    grads = points - target  # of 1/2 |x - target|^2, smoothness 1
    diameter = max(float(np.linalg.norm(a - b)) for a in atoms for b in atoms)
    query_norm, atom_norm = theory.lift_norms(
        float(np.linalg.norm(grads[0])),
        smoothness=1.0,
        diameter=diameter,
        radius=float(np.linalg.norm(atoms, axis=1).max()),
    )
    lifted = np.column_stack([grads, (points * grads).sum(axis=1)])
    assert np.linalg.norm(lifted, axis=1).max() <= query_norm * (1 + 1e-12)
    assert np.linalg.norm(np.column_stack([atoms, np.ones(8)]), axis=1).max() <= atom_norm * (1 + 1e-12)


def test_copies_of_the_paper_its_proof_and_our_lattice() -> None:
    n, d, error, diameter, delta = 10**6, 100, 1e-3, 2.0, 0.01
    side = theory.lattice_side(error, d, c=0.9)
    assert theory.copies_printed(n, d, error, diameter, delta) == 3063
    assert theory.copies(n * round(d * diameter / error) ** d, delta) == 539
    assert theory.copies(math.ceil(diameter / side) ** d, delta) == 430


@given(st.integers(1, 10**9), st.floats(1e-9, 0.99))
def test_copies_are_the_fewest_that_satisfy_the_union_bound(queries: int, delta: float) -> None:
    kappa = theory.copies(queries, delta)
    assert queries * 10.0**-kappa <= delta * (1 + 1e-9)
    assert kappa == 1 or queries * 10.0 ** (1 - kappa) >= delta * (1 - 1e-9)


@given(shares, st.floats(1e-6, 10.0))
def test_additive_error_leaves_half_of_eps_to_the_steps(c: float, eps: float) -> None:
    error = theory.additive_error(eps, c=c)
    assert error / c == pytest.approx(eps / 2, rel=1e-12)
    split = theory.steps(eps, c=c, curvature=1.0, first=1.0, error=error)
    assert split == pytest.approx(theory.steps(eps / 2, c=c, curvature=1.0, first=1.0), abs=1)


def test_printed_additive_error_is_too_large() -> None:
    # eps / (4 c^2) is a floor of lambda / c = eps / (4 c^3), above eps for c < 0.63.
    c, eps = 0.6, 1.0
    printed = eps / (4 * c**2)
    with pytest.raises(ValueError, match="`eps` must be > error / c"):
        theory.steps(eps, c=c, curvature=1.0, first=1.0, error=printed)


@pytest.mark.parametrize("on_sphere", [False, True])
@given(seed=st.integers(0, 2**32 - 1), c=shares, error=st.floats(1e-3, 0.5))
def test_lattice_centre_answers_within_the_error(seed: int, c: float, error: float, on_sphere: bool) -> None:
    rng = np.random.default_rng(seed)
    atoms, query = unit(rng.standard_normal((40, 4))), unit(rng.standard_normal((1, 4)))[0]
    side = theory.lattice_side(error, 4, c=c, on_sphere=on_sphere)
    centre = (np.floor(query / side) + 0.5) * side
    centre = (centre, unit(centre[None])[0])[on_sphere]
    scores = atoms @ centre
    allowed = scores >= c * scores.max()
    assert np.all(atoms[allowed] @ query >= c * (atoms @ query).max() - error * (1 + 1e-9))


def test_a_centre_put_back_on_the_sphere_needs_a_smaller_cell() -> None:
    assert theory.lattice_side(0.5, 4, c=0.5, on_sphere=True) < theory.lattice_side(0.5, 4, c=0.5)


def unit(rows: Vector) -> Vector:
    scaled: Vector = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return scaled


# ---------------------------------------------------------------- collisions


@pytest.mark.parametrize("cosine", [-0.6, 0.0, 0.5, 0.95])
def test_simhash_collision_is_what_random_hyperplanes_do(cosine: float) -> None:
    planes = np.random.default_rng(1).standard_normal((200_000, 2))
    pair = np.array([[1.0, 0.0], [cosine, math.sqrt(1 - cosine**2)]])
    sides = planes @ pair.T > 0
    assert theory.simhash_collision(cosine) == pytest.approx((sides[:, 0] == sides[:, 1]).mean(), abs=5e-3)


@given(st.floats(-0.99, 0.99), st.floats(1e-3, 1.0), st.integers(2, 4096))
def test_collisions_rise_with_the_cosine(cosine: float, by: float, dim: int) -> None:
    nearer = cosine + by * (1 - cosine)
    assert theory.simhash_collision(nearer) > theory.simhash_collision(cosine)
    assert theory.cross_polytope_collision(nearer, dim) > theory.cross_polytope_collision(cosine, dim)


@pytest.mark.slow
def test_real_cross_polytope_hashes_collide_less_often_than_the_leading_term() -> None:
    rng = np.random.default_rng(2)
    dim, trials = 256, 20_000
    first, second = rng.standard_normal((2, trials, dim))
    rows, near, excess = np.arange(trials), np.argmax(np.abs(first), axis=1), []
    for cosine in (0.95, 0.9, 0.8, 0.6):
        other = cosine * first + math.sqrt(1 - cosine**2) * second
        far = np.argmax(np.abs(other), axis=1)
        same = (near == far) & (first[rows, near] * other[rows, far] > 0)
        excess.append(math.log(same.mean()) / math.log(theory.cross_polytope_collision(cosine, dim)))
    assert excess == sorted(excess, reverse=True)  # worst for near pairs
    assert excess[-1] > 1


# ---------------------------------------------------------------- mistakes


@pytest.mark.parametrize("c", [0.0, -0.5, 1.5, math.nan])
def test_share_outside_its_range_is_refused(c: float) -> None:
    with pytest.raises(ValueError, match=r"`c` must be in \(0, 1\]. Got"):
        rho(c, 0.5)
    with pytest.raises(ValueError, match=r"`c` must be in \(0.5, 1\]. Got"):
        theory.herding_gap_after(1, c=c, diameter=1.0)


@pytest.mark.parametrize("tau", [0.0, 1.0, math.nan])
def test_tau_outside_its_range_is_refused(tau: float) -> None:
    with pytest.raises(ValueError, match="`tau` must be in"):
        rho(0.5, tau)
    with pytest.raises(ValueError, match="`tau` must be in"):
        theory.distance_ratio(0.5, tau)


def test_other_arguments_outside_their_range_are_refused() -> None:
    with pytest.raises(ValueError, match="`cbar` must be"):
        theory.space_time(0.9, 0.0)
    with pytest.raises(ValueError, match="`delta` must be"):
        theory.copies(10, 1.0)
    with pytest.raises(ValueError, match="`cosine` must be"):
        theory.simhash_collision(1.1)
    with pytest.raises(ValueError, match="`error` must be"):
        theory.lattice_side(10.0, 4, c=0.5, on_sphere=True)
