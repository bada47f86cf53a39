"""Hash families: collision probabilities, codes and what their buckets promise."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wolfhound.core.contracts import Matrix, Vector
from wolfhound.core.threads import one_blas_thread, set_threads
from wolfhound.oracles._probe_kernels import Promises, make_room, order
from wolfhound.oracles.hashes import CrossPolytope, Family, Hash, SimHash, draw_hash
from wolfhound.paper import theory

FAMILIES: list[Family] = [CrossPolytope(), SimHash()]
every_family = pytest.mark.parametrize("family", FAMILIES, ids=["cross-polytope", "simhash"])
TRIALS = 4000


def pair(cosine: float, d: int, rng: np.random.Generator) -> tuple[Vector, Vector]:
    """Two random unit vectors at a given angle."""
    first, other = np.linalg.qr(rng.standard_normal((d, 2)))[0].T
    return first, cosine * first + math.sqrt(1.0 - cosine**2) * other


def collisions(family: Family, cosine: float, d: int, codes: int) -> float:
    """How often two fixed vectors get the same code from fresh directions."""
    rng = np.random.default_rng(0)
    pairs = np.stack(pair(cosine, d, rng)).astype(np.float32)
    same = 0
    with one_blas_thread():
        for _ in range(TRIALS // 2):
            for block in family.directions(d, codes, rng).astype(np.float32):
                one, two = family.assign(pairs @ block.T)[0]
                same += one == two
    return same / TRIALS


def gaussian_cross_polytope(cosine: float, width: int) -> float:
    """Collision probability with `width` independent normal directions, by quadrature.

    Both vectors have the direction i, with the same sign, if their projections on
    it exceed all others: ``2 w int phi(x, y) P(|X| < x, |Y| < y)^(w-1)`` over x, y > 0.
    """
    grid = np.linspace(0.0, 7.0, 701)[1:] - 0.005
    x, y = np.meshgrid(grid, grid, indexing="ij")

    def density(sign: float) -> Matrix:
        rho = sign * cosine
        return np.exp(-(x * x - 2 * rho * x * y + y * y) / (2 * (1 - rho**2))) / (
            2 * math.pi * math.sqrt(1 - rho**2)
        )

    cell = 0.01**2
    inside = np.cumsum(np.cumsum(2.0 * cell * (density(1.0) + density(-1.0)), axis=0), axis=1)
    return float(2 * width * cell * (density(1.0) * inside ** (width - 1)).sum())


@pytest.mark.parametrize("cosine", [-0.5, 0.0, 0.4, 0.8, 0.95])
def test_simhash_collides_as_the_theory_says(cosine: float) -> None:
    # Three hyperplanes must all agree.
    expected = theory.simhash_collision(cosine) ** 3
    measured = collisions(SimHash(), cosine, 20, 8)
    assert abs(measured - expected) < 4.0 * math.sqrt(expected * (1 - expected) / TRIALS) + 1e-12


@pytest.mark.slow
@pytest.mark.parametrize(("cosine", "codes"), [(0.4, 16), (0.8, 16), (0.8, 64), (0.95, 64)])
def test_cross_polytopes_collide_as_the_theory_says(cosine: float, codes: int) -> None:
    # Few directions out of many dimensions are nearly independent and normal.
    expected = gaussian_cross_polytope(cosine, codes // 2)
    measured = collisions(CrossPolytope(), cosine, 96, codes)
    assert abs(measured - expected) < 4.0 * math.sqrt(expected * (1 - expected) / TRIALS) + 0.01 * expected


def test_the_leading_term_of_cross_polytopes_is_too_optimistic() -> None:
    """What `theory.cross_polytope_collision` warns of: plan by measuring."""
    assert gaussian_cross_polytope(0.8, 32) < 0.9 * theory.cross_polytope_collision(0.8, 32)


def test_rotations_are_uniform() -> None:
    rng = np.random.default_rng(1)
    first = np.array([CrossPolytope().directions(3, 2, rng)[0, 0] for _ in range(4000)])
    np.testing.assert_allclose(first.mean(axis=0), 0.0, atol=0.04)
    np.testing.assert_allclose(first.T @ first / 4000, np.eye(3) / 3, atol=0.03)


@pytest.mark.parametrize(("d", "codes"), [(5, 4), (5, 10), (5, 40), (1, 8)])
def test_cross_polytope_directions_are_orthonormal_in_groups(d: int, codes: int) -> None:
    rows = CrossPolytope().directions(d, codes, np.random.default_rng(2))
    assert rows.shape == (2, codes // 2, d)
    flat = rows.reshape(-1, d)
    for start in range(0, len(flat), d):
        part = flat[start : start + d]
        np.testing.assert_allclose(part @ part.T, np.eye(len(part)), atol=1e-12)


@every_family
@given(seed=st.integers(0, 10**6), width=st.integers(1, 7))
def test_the_code_of_a_vector_is_the_one_with_the_largest_sum(family: Family, seed: int, width: int) -> None:
    projections = np.random.default_rng(seed).standard_normal((20, width)).astype(np.float32)
    codes, values = family.assign(projections)
    sums = family.spread(projections)
    assert sums.shape == (20, family.codes(width))
    np.testing.assert_array_equal(codes, sums.argmax(axis=1))
    directions = width if isinstance(family, SimHash) else 1
    np.testing.assert_allclose(directions * values, sums.max(axis=1), rtol=1e-5)


# ---------------------------------------------------------------- buckets


def rows_of(spread: float, n: int = 3000, d: int = 10) -> Matrix:
    rng = np.random.default_rng(3)
    rows = rng.standard_normal((n, d))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return (5.0 + rows * np.linspace(1.0, spread, n)[:, None]).astype(np.float32)


def promised(hashing: Hash, queries: Vector) -> Matrix:
    """(m, buckets) promises, written out."""
    first, second, norms, lift = hashing.promises(queries, np.linalg.norm(queries, axis=1))
    sums = lift[:, :, None, None] + first[:, None, :, None] + second[:, None, None, :]
    return (norms[:, None, None] * sums).reshape(len(queries), -1)


def hash_of(family: Family, rows: Matrix, per_bucket: float = 20.0) -> Hash:
    return draw_hash(family, rows, len(rows), per_bucket=per_bucket, rng=np.random.default_rng(4))


@pytest.mark.parametrize(("spread", "ranges"), [(1.2, 1), (1.8, 4), (6.0, 8)])
def test_the_more_norms_spread_the_more_ranges(spread: float, ranges: int) -> None:
    hashing = hash_of(CrossPolytope(), rows_of(spread))
    assert len(hashing.norms) == ranges == len(hashing.edges) + 1
    assert (np.diff(hashing.norms) > 0).all()


@every_family
def test_buckets_are_codes_and_ranges(family: Family) -> None:
    rows = rows_of(6.0)
    hashing = hash_of(family, rows)
    centred = ((rows - hashing.centre.astype(np.float32)) * np.float32(hashing.unit)).astype(np.float32)
    owner = np.searchsorted(hashing.edges, np.linalg.norm(centred, axis=1))
    one, two = (family.assign(centred @ block.T)[0] for block in (hashing.first, hashing.second))
    each = family.codes(len(hashing.first))
    expected = (owner * each + one) * each + two
    got = hashing.assign(rows)
    assert (got == expected).mean() > 0.999  # but for rounding at an edge
    assert got.max() < hashing.buckets
    assert 5.0 < len(rows) / hashing.buckets < 80.0


@every_family
def test_promises_are_scores_of_the_means_of_buckets(family: Family) -> None:
    rows = rows_of(6.0)
    hashing = hash_of(family, rows)
    queries = np.random.default_rng(5).standard_normal((6, 10))
    sizes = np.linalg.norm(queries, axis=1)
    promises = promised(hashing, queries).reshape(6, 8, family.codes(len(hashing.first)), -1)
    units = (queries / sizes[:, None]).astype(np.float32)
    first, second = (family.spread(units @ block.T) for block in (hashing.first, hashing.second))
    lift = hashing.above * np.sqrt(units**2 @ hashing.variances)
    sums = first[:, :, None] + second[:, None, :]
    expected = hashing.norms[:, None, None] * (lift[:, None, None] + hashing.weight * sums)[:, None]
    owner = np.searchsorted(hashing.edges, np.linalg.norm(hashing.scale(rows), axis=1))
    means = np.stack([hashing.scale(rows)[owner == r].mean(axis=0) for r in range(8)])
    expected += 0.5 * (units @ means.T)[:, :, None, None]
    np.testing.assert_allclose(promises, expected, rtol=1e-4, atol=1e-5)


@every_family
def test_promises_rank_buckets_by_their_best_atom(family: Family) -> None:
    rows = rows_of(3.0)
    hashing = hash_of(family, rows)
    owner = hashing.assign(rows)
    queries = np.random.default_rng(6).standard_normal((40, 10))
    promises = promised(hashing, queries)
    best = (queries @ rows.T).argmax(axis=1)
    filled = np.unique(owner)
    rank = [(promises[i, filled] > promises[i, owner[b]]).mean() for i, b in enumerate(best)]
    assert np.mean(rank) < 0.12


def test_promises_do_not_depend_on_the_batch_or_the_threads() -> None:
    hashing = hash_of(CrossPolytope(), rows_of(3.0))
    queries = np.random.default_rng(7).standard_normal((33, 10))
    sizes = np.linalg.norm(queries, axis=1)
    together = hashing.promises(queries, sizes)
    alone = [hashing.promises(queries[i : i + 1], sizes[i : i + 1]) for i in range(33)]
    for i in (0, 1, 3):
        np.testing.assert_array_equal(together[i], np.concatenate([each[i] for each in alone]))
    try:
        owners = []
        for threads in (1, 2, 3):
            set_threads(threads)
            owners.append(hashing.assign(rows_of(3.0, n=50_000)))
        np.testing.assert_array_equal(owners[0], owners[1])
        np.testing.assert_array_equal(owners[0], owners[2])
    finally:
        set_threads(None)


def test_a_query_of_no_length_is_answered() -> None:
    hashing = hash_of(CrossPolytope(), rows_of(1.0))
    assert all(np.isfinite(part).all() for part in hashing.promises(np.zeros((1, 10)), np.zeros(1)))


@given(seed=st.integers(0, 10**6), budget=st.integers(1, 4000))
def test_pairs_are_listed_as_whole_promises_are(seed: int, budget: int) -> None:
    rng = np.random.default_rng(seed)
    ranges, one, two = (int(size) for size in rng.integers(1, 12, 3))
    first, second = (rng.standard_normal(size).astype(np.float32) for size in (one, two))
    norms = rng.uniform(0.0, 2.0, ranges).astype(np.float32)
    lift = rng.uniform(-3.0, 3.0, ranges).astype(np.float32)
    offsets = np.concatenate([[0], np.cumsum(rng.integers(0, 9, ranges * one * two))])
    whole = norms[:, None, None] * (lift[:, None, None] + first[:, None]) + norms[:, None, None] * second
    rooms = [make_room(len(offsets)) for _ in range(2)]
    promises = Promises(first[None], second[None], norms, lift[None])
    found = order(promises, 0, offsets, budget, rooms[0])
    chosen = rooms[0][1][0, :found]
    assert len(np.unique(chosen)) == found
    sizes = np.diff(offsets)
    assert sizes[chosen].sum() >= min(budget, sizes.sum())
    assert sizes[chosen[:-1]].sum() < budget
    left = np.setdiff1d(np.arange(len(sizes)), chosen)
    width = np.ptp(whole) / 250.0
    assert whole.ravel()[left].max(initial=-np.inf) <= whole.ravel()[chosen].min() + width
    # A larger budget begins with the same buckets.
    order(promises, 0, offsets, 2 * budget, rooms[1])
    np.testing.assert_array_equal(rooms[1][1][0, :found], chosen)


def test_short_rows_on_one_side_are_found_there() -> None:
    # On a sphere the rows nearest to the centre lie on its side: the shortest score highest.
    rng = np.random.default_rng(11)
    rows = rng.standard_normal((8000, 24)) + 1.0
    rows = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)
    hashing = hash_of(CrossPolytope(), rows)
    towards = rows.mean(axis=0, dtype=np.float64)[None]
    ranges = promised(hashing, towards).reshape(len(hashing.norms), -1).mean(axis=1)
    assert len(ranges) > 1
    plain = replace(hashing, shifts=np.zeros_like(hashing.shifts))
    before = promised(plain, towards).reshape(len(hashing.norms), -1).mean(axis=1)
    assert before[0] < before[-1]  # as if long rows scored higher
    assert ranges[-1] - ranges[0] < 0.1 * (before[-1] - before[0])


def test_principal_axes_are_found() -> None:
    rng = np.random.default_rng(8)
    basis = np.linalg.qr(rng.standard_normal((40, 40)))[0]
    rows = (rng.standard_normal((2000, 40)) * 0.7 ** np.arange(40)) @ basis.T + 3.0
    hashing = draw_hash(CrossPolytope(), rows, 2000, per_bucket=20.0, rng=rng, axes=5)
    values, vectors = np.linalg.eigh(np.cov(rows.T))
    leading = vectors[:, np.argsort(-values)[:5]]
    for block in (hashing.first, hashing.second):
        np.testing.assert_allclose(np.linalg.norm(block @ leading, axis=1), 1.0, atol=1e-3)
    # More axes than there are columns: all of them.
    wide = draw_hash(CrossPolytope(), rows[:, :3], 2000, per_bucket=20.0, rng=rng, axes=5)
    assert wide.first.shape[1] == 3
