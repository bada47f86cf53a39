"""Each compiled kernel against a plain numpy twin."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from scipy.linalg import solve_triangular

from tests.problems import exact_minimum, rational, squared_distance
from wolfhound import _cholesky as cholesky
from wolfhound.core import Ints, Vector

SIZES = (1, 2, 3, 4, 5, 6, 7, 8, 9, 63, 64, 65, 130)


@dataclass
class Held:
    """A factor with its carried vectors, and the matrix it should be of."""

    gram: Vector
    linear: Vector
    factor: Vector
    carried: Vector

    @property
    def size(self) -> int:
        return len(self.gram)

    def delete(self, at: int) -> None:
        k = self.size
        cholesky.delete_row(self.factor, self.carried, k, at, np.empty((2, k)))
        rest = np.delete(np.arange(k), at)
        self.gram, self.linear = self.gram[np.ix_(rest, rest)], self.linear[rest]

    def check(self) -> None:
        k = self.size
        lower = np.linalg.cholesky(self.gram)
        np.testing.assert_allclose(np.tril(self.factor[:k, :k]), lower, rtol=1e-9, atol=1e-10)
        np.testing.assert_allclose(
            self.carried[0, :k], np.linalg.solve(lower, self.linear), rtol=1e-9, atol=1e-10
        )
        np.testing.assert_allclose(
            self.carried[1, :k], np.linalg.solve(lower, np.ones(k)), rtol=1e-9, atol=1e-10
        )


def random_gram(k: int, rng: np.random.Generator) -> Vector:
    rows = rng.standard_normal((k, k + 4))
    return rows @ rows.T + 0.1 * np.eye(k)


def held(k: int, seed: int = 0, *, room: int = 20) -> Held:
    rng = np.random.default_rng(seed)
    gram, linear = random_gram(k, rng), rng.standard_normal(k)
    factor = np.full((k + room, k + room), np.nan)
    lower = np.linalg.cholesky(gram)
    factor[:k, :k] = np.tril(lower) + np.triu(np.full((k, k), 7.0), 1)
    carried = np.full((2, k + room), np.nan)
    carried[:, :k] = np.linalg.solve(lower, linear), np.linalg.solve(lower, np.ones(k))
    return Held(gram, linear, factor, carried)


def absorb(held: Held, cross: Vector, gram: Vector, linear: Vector, *, tol: float = 1e-11) -> Ints:
    """Append a block as a caller would; return the positions kept."""
    rows = cross.copy()
    cholesky.forward_rows(held.factor, held.size, rows)
    schur = gram - rows @ rows.T
    diagonal = np.diagonal(gram).copy()
    kept: Ints = cholesky.absorb(held.factor, held.carried, rows, schur, diagonal, linear, tol)
    block = np.block([[held.gram, cross[kept].T], [cross[kept], gram[np.ix_(kept, kept)]]])
    held.gram, held.linear = block, np.concatenate([held.linear, linear[kept]])
    return kept


@pytest.mark.parametrize("k", SIZES)
def test_back_substitute_solves_the_transposed_system(k: int) -> None:
    factor = held(k).factor
    right = np.random.default_rng(1).standard_normal(k)
    out = right.copy()
    cholesky.back_substitute(factor, k, out)
    np.testing.assert_allclose(
        out, solve_triangular(factor[:k, :k], right, lower=True, trans="T"), atol=1e-11
    )


@pytest.mark.parametrize("k", SIZES)
def test_forward_substitute_solves_the_system(k: int) -> None:
    factor = held(k).factor
    right = np.random.default_rng(1).standard_normal(k)
    out = right.copy()
    cholesky.forward_substitute(factor, k, out)
    np.testing.assert_allclose(out, solve_triangular(factor[:k, :k], right, lower=True), atol=1e-11)


@pytest.mark.parametrize("k", SIZES)
@pytest.mark.parametrize("count", [1, 3, 17])
def test_forward_rows_solves_the_system_for_every_row(k: int, count: int) -> None:
    factor = held(k).factor
    right = np.random.default_rng(1).standard_normal((count, k))
    out = right.copy()
    cholesky.forward_rows(factor, k, out)
    np.testing.assert_allclose(out, solve_triangular(factor[:k, :k], right.T, lower=True).T, atol=1e-11)


def test_forward_rows_of_an_empty_factor_does_nothing() -> None:
    out = np.empty((3, 0))
    cholesky.forward_rows(np.empty((4, 4)), 0, out)
    assert out.shape == (3, 0)


@pytest.mark.parametrize("k", [0, 1, 5, 70])
@pytest.mark.parametrize("count", [1, 2, 9])
def test_absorb_extends_the_factor(k: int, count: int) -> None:
    rng = np.random.default_rng(2)
    whole, linear = random_gram(k + count, rng), rng.standard_normal(k + count)
    one = held(k)
    one.gram, one.linear = whole[:k, :k], linear[:k]
    one.factor[:k, :k] = np.linalg.cholesky(one.gram) if k else 0.0
    one.carried[0, :k] = np.linalg.solve(np.tril(one.factor[:k, :k]), linear[:k])
    one.carried[1, :k] = np.linalg.solve(np.tril(one.factor[:k, :k]), np.ones(k))
    kept = absorb(one, whole[k:, :k], whole[k:, k:], linear[k:])
    np.testing.assert_array_equal(kept, np.arange(count))
    one.check()


def test_absorb_skips_what_depends_on_the_factor_or_on_the_block() -> None:
    rng = np.random.default_rng(3)
    rows = rng.standard_normal((4, 9))
    block = np.stack([rows[0] + rows[1], rng.standard_normal(9), rows[2], rng.standard_normal(9)])
    block = np.concatenate([block, block[1:2] - 2.0 * block[3:], np.zeros((1, 9))])
    one = held(4)
    one.gram, one.linear = rows @ rows.T, rng.standard_normal(4)
    one.factor[:4, :4] = np.linalg.cholesky(one.gram)
    one.carried[0, :4] = np.linalg.solve(one.factor[:4, :4], one.linear)
    one.carried[1, :4] = np.linalg.solve(one.factor[:4, :4], np.ones(4))
    kept = absorb(one, block @ rows.T, block @ block.T, rng.standard_normal(6))
    np.testing.assert_array_equal(kept, [1, 3])
    one.check()


def test_absorb_raises_the_pivot_of_a_forced_dependent_atom() -> None:
    one = held(1)
    one.gram[:], one.factor[0, 0] = 4.0, 2.0
    kept = absorb(one, np.full((1, 1), 4.0), np.full((1, 1), 4.0), np.ones(1), tol=-np.inf)
    assert kept.tolist() == [0]
    assert one.factor[1, 0] == 2.0
    assert one.factor[1, 1] == pytest.approx(np.sqrt(4e-13))


@pytest.mark.parametrize("k", range(1, 14))
def test_delete_row_removes_any_atom(k: int) -> None:
    for at in range(k):
        one = held(k, seed=k)
        one.delete(at)
        one.check()


@pytest.mark.parametrize("seed", range(4))
def test_a_long_history_leaves_no_trace(seed: int) -> None:
    """After many appends and deletions the factor is that of what is held."""
    rng = np.random.default_rng(seed)
    one = held(3, seed, room=120)
    points = np.hstack([np.linalg.cholesky(one.gram), np.zeros((3, 60))])
    for _ in range(60):
        new = rng.standard_normal((int(rng.integers(1, 6)), points.shape[1]))
        absorb(one, new @ points.T, new @ new.T, rng.standard_normal(len(new)))
        points = np.concatenate([points, new])
        for _ in range(max(min(int(rng.integers(6)), one.size - 1), one.size - 40)):
            at = int(rng.integers(one.size))
            one.delete(at)
            points = np.delete(points, at, axis=0)
        one.check()


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("k", [1, 2, 5, 9])
def test_descend_ends_at_the_minimum_over_what_stays(k: int, seed: int) -> None:
    """Wolfe's minor cycle: it never rises, and what stays is at its own minimum."""
    rng = np.random.default_rng(100 * k + seed)
    points, target = rng.standard_normal((k, k + 1)), 2.0 * rng.standard_normal(k + 1)
    gram, linear = points @ points.T, points @ target
    one = held(k)
    one.factor[:k, :k] = np.linalg.cholesky(gram + 1.0)
    one.carried[0, :k] = np.linalg.solve(np.tril(one.factor[:k, :k]), linear)
    one.carried[1, :k] = np.linalg.solve(np.tril(one.factor[:k, :k]), np.ones(k))
    labels, weights = np.arange(10, 10 + k), rng.dirichlet(np.ones(k))
    exact, goal = rational(points), rational(target)[0]
    first = squared_distance(exact, goal, rational(weights)[0])
    gone = np.full(k, -1)
    size, left, _ = cholesky.descend(one.factor, one.carried, weights, labels, k, gone)
    stay = [exact[label - 10] for label in labels[:size]]
    assert sorted([*labels[:size], *gone[:left]]) == list(range(10, 10 + k))
    assert (weights[:size] > 0.0).all()
    assert weights[:size].sum() == pytest.approx(1.0, abs=1e-13)
    found = squared_distance(stay, goal, rational(weights[:size])[0])
    assert float(found - exact_minimum(stay, goal)) <= 1e-13
    assert float(found - first) <= 1e-13


def test_descend_gives_up_on_nan_without_moving() -> None:
    one = held(3)
    one.carried[0, :3] = np.nan
    weights = np.full(3, 1.0 / 3.0)
    size, left, moved = cholesky.descend(
        one.factor, one.carried, weights, np.arange(3), 3, np.empty(3, np.int64)
    )
    assert (size, left, moved) == (3, 0, False)
    np.testing.assert_array_equal(weights, np.full(3, 1.0 / 3.0))
