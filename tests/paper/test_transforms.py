"""The identities of the maps to rounding, and that the paper's versions break them."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from numpy.typing import NDArray

from tests.conformance.oracle import locked
from wolfhound.core.contracts import Matrix, Vector
from wolfhound.core.rounding import gamma
from wolfhound.data.atoms import ArrayAtoms, ConcatAtoms, FileAtoms, MappedAtoms, norms
from wolfhound.objectives.plain import SquaredDistance
from wolfhound.oracles.scan import Scan
from wolfhound.paper import theory
from wolfhound.paper import transforms as tr

seeds = st.integers(0, 10**6)
scales = st.sampled_from([1e-6, 1e-3, 1.0, 1e3, 1e6])
dims = st.integers(1, 8)


def drawn(seed: int, *scales_: float, m: int = 5, d: int = 4) -> list[Vector]:
    """Random rows, one set per scale."""
    rng = np.random.default_rng(seed)
    return [scale * rng.standard_normal((m, d)) for scale in scales_]


def long(rows: Matrix) -> NDArray[np.longdouble]:
    return rows.astype(np.longdouble)


def lengths(rows: Matrix) -> Vector:
    return np.asarray(np.sqrt((rows**2).sum(axis=1)))


def check_products(phi: Vector, psi: Vector, truth: NDArray[Any], size: Vector) -> None:
    """<phi, psi> is the truth but for some roundings of `size`, the sum without signs."""
    assert phi.dtype == psi.dtype == np.float64
    got = long(phi) @ long(psi).T
    assert (np.abs(got - truth) <= 2 * gamma(phi.shape[1] + 10) * size).all()


def gaps_of(x: Vector, grad: Vector, y: Vector) -> tuple[NDArray[np.longdouble], Vector]:
    """<x - y, grad> of all pairs, and their sums without signs."""
    truth = (long(x) * long(grad)).sum(axis=1)[:, None] - long(grad) @ long(y).T
    return truth, np.abs(x * grad).sum(axis=1)[:, None] + np.abs(grad) @ np.abs(y).T


# ---------------------------------------------------------------- gaps


@given(seeds, scales, scales, scales, dims)
def test_shift_gives_the_gap(seed: int, s1: float, s2: float, s3: float, d: int) -> None:
    x, grad, y = drawn(seed, s1, s2, s3, d=d)
    gaps, size = gaps_of(x, grad, y)
    phi, psi = tr.shift_query(x, grad), tr.shift_atom(y)
    assert phi.shape == psi.shape == (5, d + 1)
    check_products(phi, psi, gaps, size)


@given(seeds, scales, scales, scales, dims)
def test_policy_gives_the_gain(seed: int, s1: float, s2: float, s3: float, d: int) -> None:
    pi, grad, a = drawn(seed, s1, s2, s3, d=d)
    gaps, size = gaps_of(pi, grad, a)
    check_products(tr.policy_query(pi, grad), tr.policy_atom(a), -gaps, size)
    # To stay gains nothing, but for rounding.
    own = (tr.policy_query(pi, grad) * tr.policy_atom(pi)).sum(axis=1)
    assert (np.abs(own) <= 4 * gamma(d + 4) * lengths(pi) * lengths(grad)).all()


def test_policy_as_printed_gains_by_staying() -> None:
    """With Q for its gradient in the last entry; Q(a) = (a + .1)^2 / 2 of one state."""
    pi, value, grad = 0.5, 0.18, 0.6
    printed = np.array([[grad, pi * value]])
    gain = printed @ tr.policy_atom([[pi], [1.0]]).T
    assert abs(gain[0, 0]) > 0.2
    assert gain[0, 1] == pytest.approx(grad - pi * value)  # the truth is grad (1 - pi)
    assert_allclose(tr.policy_query([[pi]], [[grad]]) @ tr.policy_atom([[pi], [1.0]]).T, [[0.0, 0.3]])


# ---------------------------------------------------------------- the sphere


@given(seeds, scales, scales, dims, st.floats(1.0, 50.0), st.booleans())
def test_sphere_keeps_scores_and_makes_unit_rows(
    seed: int, s1: float, s2: float, d: int, room: float, own: bool
) -> None:
    x, y = drawn(seed, s1, s2, d=d)
    size_x = lengths(x) if own else np.full(5, room * lengths(x).max())
    size_y = room * lengths(y).max()
    phi, psi = tr.sphere_query(x, size_x), tr.sphere_atom(y, size_y)
    assert phi.shape == psi.shape == (5, d + 2)
    for rows in (phi, psi):
        assert (np.abs((long(rows) ** 2).sum(axis=1) - 1) <= 8 * gamma(d + 4)).all()
    scale = size_x[:, None] * size_y
    check_products(phi, psi, long(x) @ long(y).T / scale, np.abs(x) @ np.abs(y).T / scale)
    assert_array_equal(phi[:, d] * psi[:, d] + phi[:, d + 1] * psi[:, d + 1], np.zeros(5))


@given(seeds, scales, scales, scales, dims)
def test_paper_composition_on_a_run(seed: int, s1: float, s2: float, s3: float, d: int) -> None:
    x, grad, y = drawn(seed, s1, s2, s3, d=d)
    radius = max(lengths(x).max(), lengths(y).max())
    size_x, size_y = theory.lift_norms(lengths(grad).max(), smoothness=0.0, diameter=0.0, radius=radius)
    phi, psi = tr.paper_query(x, grad, size_x), tr.paper_atom(y, size_y)
    assert phi.shape == psi.shape == (5, d + 3)
    gaps, size = gaps_of(x, grad, y)
    check_products(phi, psi, gaps / (size_x * size_y), size / (size_x * size_y))
    for rows in (phi, psi):
        assert (np.abs((long(rows) ** 2).sum(axis=1) - 1) <= 8 * gamma(d + 4)).all()
    best = np.argmin(y @ grad[0] - x[0] @ grad[0])
    assert (phi @ psi.T)[0].max() - (phi @ psi.T)[0, best] <= 1e-14


def test_diameters_do_not_lift_a_far_tight_cloud() -> None:
    rng = np.random.default_rng(0)
    y = np.array([100.0, 0.0, 0.0]) + 0.1 * rng.random((20, 3))
    lifted = tr.shift_atom(y)
    diameter = max(float(np.linalg.norm(a - b)) for a in lifted for b in lifted)
    assert (1.0 - (lifted**2).sum(axis=1) / diameter**2 < 0.0).all()  # under the paper's root
    with pytest.raises(ValueError, match=r"`size` must be at least the norm of every row .* diameter"):
        tr.paper_atom(y, diameter)
    radius = float(norms(ConcatAtoms([y])).max())
    _, size = theory.lift_norms(0.0, smoothness=0.0, diameter=0.0, radius=radius)
    assert_allclose(lengths(tr.paper_atom(y, size)), 1.0, rtol=1e-14)
    # Gradients that hardly differ, the same.
    grad = np.array([[5.0, 0.0, 0.0], [5.01, 0.0, 0.0]])
    phi0 = tr.shift_query(y[:2], grad)
    with pytest.raises(ValueError, match="`size`"):
        tr.paper_query(y[:2], grad, float(np.linalg.norm(phi0[0] - phi0[1])))
    with pytest.raises(ValueError, match="`size`"):
        tr.sphere_query(grad, np.array([5.0, 5.0]))


def test_a_norm_rounded_down_is_not_an_error() -> None:
    rows = np.random.default_rng(1).standard_normal((1000, 30))
    sizes = np.linalg.norm(rows, axis=1)
    assert_allclose(lengths(tr.sphere_atom(rows, sizes)), 1.0, rtol=1e-14)
    with pytest.raises(ValueError, match="`size`"):
        tr.sphere_atom(rows, sizes * (1 - 1e-12))


# ---------------------------------------------------------------- norm ranges


@given(seeds, st.integers(1, 60), st.integers(1, 12), st.booleans())
def test_norm_ranges_are_quantiles(seed: int, n: int, ranges: int, whole: bool) -> None:
    rng = np.random.default_rng(seed)
    sizes = np.where(whole, rng.integers(0, 5, n), rng.random(n)).astype(np.float64)
    owner, upper = tr.norm_ranges(sizes, ranges)
    assert owner.dtype == np.int64
    assert (np.diff(upper) > 0).all()
    assert len(upper) <= min(n, ranges)
    for group, top in enumerate(upper):
        assert sizes[owner == group].max() == top
    assert (np.diff(owner[np.argsort(sizes, kind="stable")]) >= 0).all()
    assert len({(a, b) for a, b in zip(sizes, owner, strict=True)}) == len(np.unique(sizes))
    counts = np.bincount(owner)
    assert whole or counts.max() - counts.min() <= 1
    order = rng.permutation(n)
    assert_array_equal(tr.norm_ranges(sizes[order], ranges)[0], owner[order])


def test_one_lift_crushes_short_atoms_and_one_per_group_does_not() -> None:
    rng = np.random.default_rng(0)
    y = rng.standard_normal((400, 8))
    y *= (10.0 ** rng.uniform(-3, 1, 400) / lengths(y))[:, None]
    owner, upper = tr.norm_ranges(lengths(y), 8)
    short = owner == 0
    crushed, kept = tr.sphere_atom(y, upper[-1])[short], tr.sphere_atom(y, upper[owner])[short]
    assert (crushed @ crushed.T).min() > 0.9999
    assert (kept @ kept.T).min() < 0.0


# ---------------------------------------------------------------- polynomials


@given(seeds, scales, st.integers(0, 3), st.integers(1, 4), st.integers(0, 4))
def test_polynomial_of_the_distance(seed: int, scale: float, k1: int, k2: int, degree: int) -> None:
    rng = np.random.default_rng(seed)
    (a1, b1), (a2, b2) = drawn(seed, 1.0, 1.0, d=k1), drawn(seed + 1, scale, scale, d=k2)
    p = rng.standard_normal(degree + 1)
    squares = ((long(a2)[:, None] - long(b2)[None]) ** 2).sum(axis=2)
    truth = long(a1) @ long(b1).T + sum(p[i] * squares**i for i in range(degree + 1))
    phi, psi = tr.polynomial_query(a1, a2, p), tr.polynomial_atom(b1, b2, degree)
    assert phi.shape == psi.shape == (5, tr.polynomial_dim(k1, k2, degree))
    # The entries err by a few roundings each, which cancel nowhere: squares of all signs alike.
    bound = tr.polynomial_query(np.abs(a1), -np.abs(a2), np.abs(p)) @ np.abs(psi).T
    assert (np.abs(long(phi) @ long(psi).T - truth) <= gamma(8 * k2 + 20 * degree + 20) * bound).all()


def test_polynomial_dimension() -> None:
    assert tr.polynomial_dim(0, 3, 3) == 35
    assert tr.polynomial_dim(7, 2, 0) == 8
    weights = np.concatenate([w for _, w in tr._monomials(4, 3)])
    assert weights.sum() == sum(4**g for g in range(4))


def test_polynomial_as_printed() -> None:
    """|z|^(2i) is not sum_j z_j^(2i); i = 0 counts k2 times; binomials and signs are missing."""
    none, a, b = np.empty((1, 0)), np.array([[1.0, 0.0]]), np.array([[0.0, 1.0]])
    z = (a - b)[0]
    for p, truth in (([0.0, 0.0, 1.0], 4.0), ([3.0], 3.0), ([0.0, 1.0], 2.0)):
        printed = sum(p[i] * (z ** (2 * i)).sum() for i in range(len(p)))
        assert (printed == truth) == (p == [0.0, 1.0])  # only i = 1 is right
        right = tr.polynomial_query(none, a, p) @ tr.polynomial_atom(none, b, len(p) - 1).T
        assert right[0, 0] == pytest.approx(truth)
    u, v = np.array([4.0, 2.0, 1.0]), np.array([1.0, 3.0, 9.0])
    assert u @ v != (2.0 - 3.0) ** 2


# ---------------------------------------------------------------- regularised MinIP


@given(seeds, scales, scales, dims, st.floats(0.0, 5.0))
def test_squared_norms_are_inner_products(seed: int, s1: float, s2: float, d: int, alpha: float) -> None:
    x, direction, y = drawn(seed, s1, s2, s1, d=d)
    away = long(y)[None] - long(x)[:, None]
    values = (away * long(direction)[:, None]).sum(axis=2) + alpha * (away**2).sum(axis=2)
    constant = alpha * (long(x) ** 2).sum(axis=1) - (long(x) * long(direction)).sum(axis=1)
    phi, psi = tr.squared_min_ip_query(x, direction, alpha), tr.squared_min_ip_atom(y)
    got = constant[:, None] - long(phi) @ long(psi).T
    slopes = lengths(direction)[:, None] * lengths(y)[None]
    size = slopes + alpha * (lengths(x)[:, None] + lengths(y)[None]) ** 2
    assert (np.abs(got - values) <= gamma(4 * d + 20) * size).all()


@given(seeds, scales, dims, st.floats(-1.0, 5.0))
def test_regularized_min_ip_is_the_minimum(seed: int, scale: float, d: int, alpha: float) -> None:
    x, direction, y = drawn(seed, scale, 1.0, scale, m=23, d=d)
    away = long(y) - long(x[0])
    values = away @ long(direction[0]) + alpha * np.sqrt((away**2).sum(axis=1))
    atoms = ConcatAtoms([y[:10], y[10:11], y[11:]])
    atom, value = tr.regularized_min_ip(atoms, x[0], direction[0], alpha)
    rounding = gamma(4 * d + 20) * (lengths(direction)[0] + abs(alpha)) * lengths(away.astype(float)).max()
    assert abs(value - values[atom]) <= rounding
    assert values[atom] - values.min() <= 2 * rounding


def test_regularized_min_ip_takes_the_first_of_equals(tmp_path: Path) -> None:
    rows = np.random.default_rng(2).standard_normal((7, 3)).astype(np.float32)
    twice = np.concatenate([rows, rows, rows[::-1]])
    x, direction = np.array([0.1, -0.2, 0.3]), np.array([1.0, 0.5, -2.0])
    np.save(tmp_path / "rows.npy", twice)
    once = tr.regularized_min_ip(rows, x, direction, 0.7)
    assert tr.regularized_min_ip(locked(twice), locked(x), locked(direction), 0.7) == once
    assert tr.regularized_min_ip(ConcatAtoms([twice[:8], twice[8:]]), x, direction, 0.7) == once
    assert tr.regularized_min_ip(FileAtoms(tmp_path / "rows.npy"), x, direction, 0.7) == once


def test_regularized_min_ip_without_weight_is_a_scan() -> None:
    (rows,) = drawn(3, 1.0, m=50)
    atom, value = tr.regularized_min_ip(rows, rows[7], rows[8], 0.0)
    hits = Scan(rows).query(-rows[8:9])
    assert atom == hits.ids[0, 0]
    assert value == pytest.approx(-hits.scores[0, 0] - rows[7] @ rows[8])


def test_the_norm_and_its_square_choose_different_atoms() -> None:
    rows = np.array([[-4.0], [-1.0], [0.0]])
    phi, psi = tr.squared_min_ip_query([[0.0]], [[1.0]], 0.5), tr.squared_min_ip_atom(rows)
    assert (phi @ psi.T).argmax() == 1
    assert tr.regularized_min_ip(rows, [0.0], [1.0], 0.5) == (0, -2.0)


# ---------------------------------------------------------------- fewer dimensions


def worst_distortion(rows: Matrix, matrix: Matrix) -> float:
    """max | |Ax - Ay|^2 / |x - y|^2 - 1 | over all pairs."""
    i, j = np.triu_indices(len(rows), 1)
    before = ((rows[i] - rows[j]) ** 2).sum(axis=1)
    return float(np.abs((((rows[i] - rows[j]) @ matrix) ** 2).sum(axis=1) / before - 1.0).max())


@pytest.mark.slow
@pytest.mark.parametrize("eps", [0.3, 0.6])
def test_distances_are_kept_as_the_bound_says(eps: float) -> None:
    (rows,) = drawn(0, 1.0, m=60, d=1500)
    dim = tr.projection_dim(60, eps)
    for seed in range(3):
        assert worst_distortion(rows, tr.johnson_lindenstrauss(1500, dim, seed)) <= eps
        assert worst_distortion(rows, tr.johnson_lindenstrauss(1500, dim // 10, seed)) > eps


def test_projection_is_seeded_and_grows_with_what_is_asked() -> None:
    assert_array_equal(tr.johnson_lindenstrauss(9, 4, 1), tr.johnson_lindenstrauss(9, 4, 1))
    assert (tr.johnson_lindenstrauss(9, 4, 1) != tr.johnson_lindenstrauss(9, 4, 2)).all()
    assert tr.projection_dim(10**6, 0.2) > tr.projection_dim(10**3, 0.2) > tr.projection_dim(10**3, 0.4)
    assert tr.projection_dim(100, 0.2, delta=1e-6) > tr.projection_dim(100, 0.2)
    # Dasgupta and Gupta's own bound, where delta is nearly 1.
    own = 4 * math.log(100) / (0.02 - 0.008 / 3)
    assert tr.projection_dim(100, 0.2, delta=1 - 1e-9) == math.ceil(own)


# ---------------------------------------------------------------- lemmas of the paper


def mixed(seed: int, rows: Matrix) -> Vector:
    """A random point of the hull."""
    return np.asarray(np.random.default_rng(seed).dirichlet(np.full(len(rows), 0.3)) @ rows)


@given(seeds, dims)
def test_some_atom_has_a_gap_wherever_we_are_in_the_hull(seed: int, d: int) -> None:
    """MaxIP condition: for any vector in place of the gradient, convex f or not."""
    rows, grads = drawn(seed, 1.0, 1.0, m=9, d=d)
    x = mixed(seed, rows)
    gaps = tr.shift_query(np.tile(x, (9, 1)), grads) @ tr.shift_atom(rows).T
    assert (gaps.max(axis=1) >= -1e-13).all()
    # Not so outside of the hull.
    outside = 3.0 * rows[rows[:, 0].argmin()] - 2.0 * rows.mean(axis=0)
    first = np.eye(1, d)
    assert (tr.shift_query(outside[None], first) @ tr.shift_atom(rows).T).max() < 0.0


@given(seeds, dims)
def test_the_maximum_over_the_hull_is_at_an_atom(seed: int, d: int) -> None:
    rows, queries = drawn(seed, 1.0, 1.0, m=9, d=d)
    best = Scan(rows).query(queries)
    points = np.stack([mixed(seed + i, rows) for i in range(20)])
    assert (points @ queries.T <= best.bounds + 1e-13).all()


@given(seeds, scales, dims)
def test_the_objective_of_herding_is_convex_and_1_smooth(seed: int, scale: float, d: int) -> None:
    mu, x, y = (rows[0] for rows in drawn(seed, scale, scale, scale, d=d))
    objective = SquaredDistance(mu)
    start, end = objective.at(x), objective.at(y)
    line = start.value + start.grad @ (y - x)
    assert objective.convex
    assert objective.smoothness == 1.0
    assert end.value == pytest.approx(line + 0.5 * (y - x) @ (y - x), rel=1e-12, abs=1e-13 * scale**2)
    assert end.value > line + 0.49 * (y - x) @ (y - x)  # so no smaller constant will do


# ---------------------------------------------------------------- rows


ATOM_MAPS: dict[str, Callable[[Matrix], Vector]] = {
    "shift": tr.shift_atom,
    "policy": tr.policy_atom,
    "sphere": lambda rows: tr.sphere_atom(rows, 100.0),
    "paper": lambda rows: tr.paper_atom(rows, 100.0),
    "polynomial": lambda rows: tr.polynomial_atom(rows[:, :2], rows[:, 2:5], 2),
    "squared": tr.squared_min_ip_atom,
}


@pytest.mark.parametrize("name", ATOM_MAPS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rows_do_not_depend_on_their_neighbours(name: str, dtype: type) -> None:
    fn = ATOM_MAPS[name]
    rows = locked(np.random.default_rng(4).standard_normal((37, 300)).astype(dtype))
    together = fn(rows)
    assert_array_equal(np.concatenate([fn(rows[i : i + 1]) for i in range(37)]), together)
    assert_array_equal(fn(rows[5:19:2]), together[5:19:2])
    mapped = MappedAtoms(ArrayAtoms(rows), fn, together.shape[1])
    assert mapped.take(np.empty(0, np.int64)).shape == (0, together.shape[1])


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda rows: tr.shift_query(rows, rows[:1]), "grad"),
        (lambda rows: tr.policy_query(rows, rows[:, :1]), "grad"),
        (lambda rows: tr.shift_query(rows * np.nan, rows), "x"),
        (lambda rows: tr.shift_atom(rows[0]), "y"),
        (lambda rows: tr.sphere_query(rows, 0.0), "size"),
        (lambda rows: tr.sphere_query(rows, np.inf), "size"),
        (lambda rows: tr.sphere_query(rows, np.ones(2)), "size"),
        (lambda rows: tr.sphere_atom(rows, 0.5), "size"),
        (lambda rows: tr.sphere_atom(rows, 1e-320), "size"),
        (lambda rows: tr.polynomial_query(rows, rows[:1], [1.0]), "a2"),
        (lambda rows: tr.polynomial_query(rows, rows, []), "coefficients"),
        (lambda rows: tr.polynomial_atom(rows, rows, -1), "degree"),
        (lambda rows: tr.norm_ranges(np.ones(0), 2), "norms"),
        (lambda rows: tr.norm_ranges(np.ones(3), 0), "ranges"),
        (lambda rows: tr.squared_min_ip_query(rows, rows, np.inf), "alpha"),
        (lambda rows: tr.regularized_min_ip(rows, rows[0], rows[0], np.nan), "alpha"),
        (lambda rows: tr.regularized_min_ip(rows, rows[0, :1], rows[0], 1.0), "x"),
        (lambda rows: tr.regularized_min_ip(rows * np.nan, rows[0], rows[0], 1.0), "atoms"),
        (lambda rows: tr.projection_dim(10, 1.0), "eps"),
        (lambda rows: tr.projection_dim(10, 0.5, delta=0.0), "delta"),
        (lambda rows: tr.johnson_lindenstrauss(3, 0), "dim"),
    ],
)
def test_wrong_arguments_are_named(call: Callable[[Matrix], object], name: str) -> None:
    with pytest.raises(ValueError, match=f"`{name}` must be"):
        call(np.ones((3, 2)))
