"""The certificate over the continuum: remainders against mpmath, bounds against brute force."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fuzz.mixtures import draw, share, share_of
from wolfhound.mixtures._continuum import (
    BINOMIAL,
    DEGREE,
    FINE_POINTS,
    LEBESGUE,
    NODES,
    NORMAL,
    POISSON,
    REACH,
    Continuum,
    bound_cells,
    bound_remainder,
    evaluate,
    from_theta,
    log_shares,
    make_maps,
    tabulate,
    tabulate_theta,
    to_theta,
)

Array = np.ndarray[Any, np.dtype[np.float64]]
KINDS = (NORMAL, POISSON, BINOMIAL)


def interpolate(values: list[Any], t: Any) -> Any:
    """The polynomial through values at the nodes, by Lagrange's formula, with all digits."""
    total = mpmath.mpf(0)
    for i, value in enumerate(values):
        term = mpmath.mpf(value)
        for j, node in enumerate(NODES.tolist()):
            if j != i:
                term *= (t - mpmath.mpf(node)) / (mpmath.mpf(NODES[i]) - mpmath.mpf(node))
        total += term
    return total


def test_maps_are_exact_but_for_one_rounding() -> None:
    maps = make_maps()
    bernstein = maps.bernstein @ maps.chebyshev
    with mpmath.workdps(50):
        for i in (0, 6, 15):
            basis = [float(i == j) for j in range(DEGREE + 1)]
            for q in (0, 9, 15):
                node = mpmath.mpf(NODES[q])
                for found, place in (
                    (maps.left[q, i], (node - 1) / 2),
                    (maps.right[q, i], (node + 1) / 2),
                    (maps.fine[q, i], mpmath.mpf(FINE_POINTS[q])),
                ):
                    assert abs(found - interpolate(basis, place)) <= 2.0**-53 * abs(found)
            for t in (0.0, 0.3, 1.0):
                weights = [
                    mpmath.binomial(15, p) * mpmath.mpf(t) ** p * (1 - mpmath.mpf(t)) ** (15 - p)
                    for p in range(16)
                ]
                total = mpmath.fsum(w * mpmath.mpf(b) for w, b in zip(weights, bernstein[:, i], strict=True))
                assert abs(total - interpolate(basis, 2 * mpmath.mpf(t) - 1)) < 1e-11


def test_the_lebesgue_constant_is_bounded() -> None:
    fine = np.abs(make_maps().fine).sum(axis=1).max()
    assert fine < LEBESGUE
    assert 2.0 / np.pi * np.log(DEGREE + 1.0) + 1.0 < LEBESGUE


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from(KINDS), st.integers(0, 30), st.integers(1, 40), st.floats(-8.0, 8.0), st.floats(0.5, 1.0)
)
def test_remainders_hold(kind: int, x: int, more: int, away: float, share_of_width: float) -> None:
    a, b = (
        (0.3 * x, 0.1 * more) if kind == NORMAL else (float(x), float(more if kind == POISSON else x + more))
    )
    mode = a if kind == NORMAL else float(from_theta(kind, np.array(a / b)))
    width = b if kind == NORMAL else 0.5 / np.sqrt(b)
    h = share_of_width * width
    centre = mode + away * width
    bound = bound_remainder(kind, a, b, centre, h)
    with mpmath.workdps(40):
        values = [
            share(kind, mpmath.mpf(a), mpmath.mpf(b), mpmath.mpf(centre) + mpmath.mpf(h) * mpmath.mpf(n))
            for n in NODES
        ]
        for t in (-1.0, -0.98, -0.5, 0.05, 0.9, 1.0):
            truth = share(
                kind, mpmath.mpf(a), mpmath.mpf(b), mpmath.mpf(centre) + mpmath.mpf(h) * mpmath.mpf(t)
            )
            assert abs(truth - interpolate(values, mpmath.mpf(t))) <= bound


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("x", [0, 1, 2, 5, 30])
@pytest.mark.parametrize("more", [0, 1, 7])
def test_tails_and_slopes_are_as_the_proof_has_them(kind: int, x: int, more: int) -> None:
    b = {NORMAL: 1.5, POISSON: 1.0 + more, BINOMIAL: float(max(x + more, 1))}[kind]
    data = Continuum(kind, np.array([float(x)]), np.array([b]), np.ones(1))
    ends = {NORMAL: (-40.0, 60.0), POISSON: (0.0, 20.0), BINOMIAL: (0.0, np.pi / 2.0)}[kind]
    z = np.linspace(*ends, 20_001)
    p = data.likelihood(z)[0]
    far = np.abs(z - data.modes[0]) >= REACH * data.reach[0]
    assert p[far].max(initial=0.0) <= np.exp(-0.5 * REACH**2) * 1.01
    assert np.abs(np.diff(p) / np.diff(z)).max() <= 1.0 / data.width[0]
    assert p.max() <= 1.0 + 1e-12


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(st.sampled_from(KINDS), st.integers(0, 100_000))
def test_no_place_is_above_the_bound(kind: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    x, second, w = draw(rng, kind)
    data = Continuum(kind, x, second, w)
    f = np.maximum(data.likelihood(rng.choice(data.modes, 5)) @ np.full(5, 0.2), 10.0 ** rng.uniform(-30, -1))
    found = data.certify(f)
    z = np.concatenate([np.linspace(data.low, data.high, 3000), data.modes])
    heights = (w / f) @ data.likelihood(z)
    assert found.upper >= np.log(heights.max()) - 1e-12
    # And it is no idle bound: what is seen is near it.
    assert np.log(found.attained) <= found.upper


def test_the_bound_is_close() -> None:
    rng = np.random.default_rng(0)
    x, s = rng.standard_normal(500) * 3.0, np.exp(rng.uniform(-1.0, 1.0, 500))
    data = Continuum(NORMAL, x, s, np.full(500, 1.0 / 500.0))
    f = data.mix(np.linspace(-9.0, 9.0, 40), np.full(40, 1.0 / 40.0))
    found = data.certify(f)
    z = np.linspace(data.low, data.high, 20_000)
    assert found.upper == pytest.approx(float(np.log(((data.w / f) @ data.likelihood(z)).max())), abs=1e-6)


def test_bernstein_bounds_are_above_their_polynomials() -> None:
    rng = np.random.default_rng(1)
    values = rng.standard_normal((50, DEGREE + 1))
    maps = make_maps()
    bounds = bound_cells(values @ maps.chebyshev.T @ maps.bernstein.T, np.zeros(50), -np.inf, 12)
    assert (bounds >= (values @ maps.fine.T).max(axis=1) - 1e-9).all()


@pytest.mark.parametrize("kind", KINDS)
def test_tables_of_places_and_parameters_agree(kind: int) -> None:
    z = np.linspace(0.1, 1.4, 9)
    for one, other in zip(tabulate(kind, z), tabulate_theta(kind, to_theta(kind, z)), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-14)
    np.testing.assert_allclose(from_theta(kind, to_theta(kind, z)), z, atol=1e-12)


@settings(max_examples=200, deadline=None)
@given(
    st.sampled_from((POISSON, BINOMIAL)), st.floats(0.0, 15.0), st.floats(-6.0, 12.0), st.floats(-30.0, 30.0)
)
def test_logarithms_keep_their_digits_for_counts_of_any_size(
    kind: int, size: float, second: float, away: float
) -> None:
    x = np.floor(10.0**size) - 1.0
    b = 10.0**second if kind == POISSON else x + np.floor(10.0 ** abs(second))
    data = Continuum(kind, np.array([x]), np.array([b]), np.ones(1))
    spread = np.sqrt(x + 1.0) / b if kind == POISSON else np.sqrt((x + 1.0) * (b - x + 1.0) / b) / b
    theta = float(np.clip(x / b + away * spread, 0.0, np.inf if kind == POISSON else 1.0))
    found = float(log_shares(data.told, tabulate_theta(kind, np.array([theta])))[0, 0])
    with mpmath.workdps(60):
        exact = share_of(kind, mpmath.mpf(x), mpmath.mpf(b), mpmath.mpf(theta))
        truth = mpmath.log(exact) if exact > 0 else mpmath.mpf("-inf")
        off = float(abs(truth - found)) if np.isfinite(found) else float(exact)
    assert off <= data.bound_rounding(min(max(-float(truth), 0.0), 1e9))[0]


@pytest.mark.parametrize("offset", [0.0, 1e4, -1e8, 1e12])
def test_an_offset_of_normal_means_costs_no_digits(offset: float) -> None:
    x = offset + np.arange(-8.0, 9.0)
    data = Continuum(NORMAL, x, np.ones(17), np.full(17, 1.0 / 17.0))
    found = data.certify(data.mix(x, np.full(17, 1.0 / 17.0)))
    assert found.slack < 1e-11
    assert np.log(found.attained) <= found.upper


def test_an_unexplained_observation_proves_nothing_and_is_named() -> None:
    data = Continuum(NORMAL, np.array([0.0, 1e3]), np.ones(2), np.full(2, 0.5))
    found = data.certify(data.mix(np.zeros(1), np.ones(1)))
    assert found.upper == np.inf
    np.testing.assert_array_equal(data.to_theta(found.places), [1e3])


def test_far_apart_observations_need_few_cells() -> None:
    x = np.array([0.0, 1.0, 1e9])
    data = Continuum(NORMAL, x, np.array([1e-3, 1.0, 1.0]), np.full(3, 1.0 / 3.0))
    found = data.certify(np.ones(3) / 3.0)
    assert len(data._half) < 500
    assert found.upper >= 0.0
    assert evaluate(NORMAL, 0.0, 1.0, 0.0, 0.0) == 0.0
