"""Each kernel of the active set against a plain numpy twin, and its loop against exact conditions."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import pytest
from hypothesis import given, settings
from scipy.linalg import solve_triangular
from scipy.optimize import nnls

from tests.compiled.test_corral import Options, bounded
from tests.problems import exact_minimum, rational, squared_distance
from wolfhound.compiled import active_set as kernels
from wolfhound.compiled.active_set import (
    ALPHA,
    CAP,
    FLOOR,
    FREE,
    GONE,
    INVERSE,
    ROW,
    STEPS,
    TOTAL,
    WEIGHT,
    U,
    V,
)
from wolfhound.compiled.corral import Corral, forward_rows
from wolfhound.compiled.jit import lean_kernel
from wolfhound.core.contracts import Ints, Vector

SIZES = (1, 2, 3, 4, 5, 6, 7, 8, 9, 63, 64, 65, 130)


@dataclass
class Held:
    """A factor with its lines, and the matrix it should be of (alpha is in it: it is 0 here)."""

    gram: Vector
    linear: Vector
    factor: Vector
    lines: Vector
    labels: Ints
    gone: Ints = field(default_factory=lambda: np.zeros((2, 400), np.int64))
    sizes: Ints = field(default_factory=lambda: np.zeros(5, np.int64))
    numbers: Vector = field(default_factory=lambda: np.zeros(5))

    @property
    def state(self) -> tuple[Vector, Vector, Ints, Ints, Ints, Vector]:
        return self.factor, self.lines, self.labels, self.gone, self.sizes, self.numbers

    @property
    def size(self) -> int:
        return int(self.sizes[FREE])

    def delete(self, at: int) -> None:
        rest = np.delete(np.arange(self.size), at)
        kernels.drop(*self.state, at, False)
        self.sizes[GONE] = 0
        self.gram, self.linear = self.gram[np.ix_(rest, rest)], self.linear[rest]

    def check(self) -> None:
        k = self.size
        lower = np.linalg.cholesky(self.gram)
        carried = np.linalg.solve(lower, np.stack([self.linear, np.ones(k)], axis=1)).T
        np.testing.assert_allclose(np.tril(self.factor[:k, :k]), lower, rtol=1e-9, atol=1e-10)
        np.testing.assert_allclose(self.lines[[U, V], :k], carried, rtol=1e-9, atol=1e-10)
        np.testing.assert_array_equal(self.lines[INVERSE, :k], 1.0 / self.factor.diagonal()[:k])


def random_gram(k: int, rng: np.random.Generator) -> Vector:
    rows = rng.standard_normal((k, k + 4))
    return rows @ rows.T + 0.1 * np.eye(k)


def hold(gram: Vector, linear: Vector, *, room: int = 20) -> Held:
    k = len(gram)
    lower = np.linalg.cholesky(gram) if k else np.empty((0, 0))
    factor = np.full((k + room, k + room), np.nan)
    factor[:k, :k] = np.tril(lower) + np.triu(np.full((k, k), 7.0), 1)
    lines = np.full((10, k + room), np.nan)
    lines[INVERSE, :k] = 1.0 / lower.diagonal()
    lines[U, :k], lines[V, :k] = np.linalg.solve(lower, linear), np.linalg.solve(lower, np.ones(k))
    lines[CAP], lines[WEIGHT, :k] = np.inf, 0.0
    one = Held(gram, linear, factor, lines, np.arange(k + room))
    one.sizes[FREE] = k
    return one


def held(k: int, seed: int = 0, *, room: int = 20) -> Held:
    rng = np.random.default_rng(seed)
    return hold(random_gram(k, rng), rng.standard_normal(k), room=room)


def descend(one: Held) -> bool:
    return bool(kernels.advance(*one.state, -1, 0.0, 0.0, 0.0, 0.0, 1, True))


def join(one: Held, cross: Vector, gram: Vector, linear: Vector) -> Ints:
    """Free a block as a caller would; return the positions kept."""
    corral = Corral(len(one.labels), 0.0, total=None)
    corral._factor, corral._lines, corral._labels = one.factor, one.lines, one.labels
    corral._sizes, corral._numbers = one.sizes, one.numbers
    kept = corral.append(np.arange(len(linear)), cross, gram, linear)
    one.gram = np.block([[one.gram, cross[kept].T], [cross[kept], gram[np.ix_(kept, kept)]]])
    one.linear = np.concatenate([one.linear, linear[kept]])
    return kept


@pytest.mark.parametrize("k", SIZES)
def test_backward_solves_the_transposed_system(k: int) -> None:
    one = held(k)
    factor, right = one.factor, np.random.default_rng(1).standard_normal(k)
    out = right.copy()
    kernels.backward(factor, one.lines[INVERSE], k, out)
    np.testing.assert_allclose(
        out, solve_triangular(factor[:k, :k], right, lower=True, trans="T"), atol=1e-11
    )


@pytest.mark.parametrize("k", SIZES)
def test_forward_solves_the_system(k: int) -> None:
    one = held(k)
    factor, right = one.factor, np.random.default_rng(1).standard_normal(k)
    out = right.copy()
    kernels.forward(factor, one.lines[INVERSE], 0, k, out)
    np.testing.assert_allclose(out, solve_triangular(factor[:k, :k], right, lower=True), atol=1e-11)


@pytest.mark.parametrize("k", SIZES)
@pytest.mark.parametrize("count", [1, 3, 17])
def test_forward_rows_solves_the_system_for_every_row(k: int, count: int) -> None:
    factor = held(k).factor
    right = np.random.default_rng(1).standard_normal((count, k))
    out = right.copy()
    forward_rows(factor, k, out)
    np.testing.assert_allclose(out, solve_triangular(factor[:k, :k], right.T, lower=True).T, atol=1e-11)


def test_forward_rows_of_an_empty_factor_does_nothing() -> None:
    out = np.empty((3, 0))
    forward_rows(np.empty((4, 4)), 0, out)
    assert out.shape == (3, 0)


@pytest.mark.parametrize("count", [1, 2, 9, 64])
@pytest.mark.parametrize("rank", [1, 5, 64])
def test_a_block_is_factored_without_its_dependent_atoms(count: int, rank: int) -> None:
    rows = np.random.default_rng(count + rank).standard_normal((count, rank))
    rows[count // 2] = rows[0]
    block, kept = rows @ rows.T, np.empty(count, np.int64)
    first = np.flatnonzero(np.diff([np.linalg.matrix_rank(rows[:i]) for i in range(count + 1)]))
    lower = np.linalg.cholesky(block[np.ix_(first, first)])
    found = kernels.factor_block(block, 1e-10 * block.diagonal(), kept)
    np.testing.assert_array_equal(kept[:found], first)
    np.testing.assert_allclose(np.tril(block[:found, :found]), lower, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("k", [0, 1, 5, 70])
@pytest.mark.parametrize("count", [1, 2, 9])
def test_a_block_extends_the_factor(k: int, count: int) -> None:
    rng = np.random.default_rng(2)
    whole, linear = random_gram(k + count, rng), rng.standard_normal(k + count)
    one = hold(whole[:k, :k], linear[:k])
    kept = join(one, whole[k:, :k], whole[k:, k:], linear[k:])
    np.testing.assert_array_equal(kept, np.arange(count))
    one.check()


def test_a_block_goes_without_what_depends_on_the_factor_or_on_the_block() -> None:
    rng = np.random.default_rng(3)
    rows = rng.standard_normal((4, 9))
    block = np.stack([rows[0] + rows[1], rng.standard_normal(9), rows[2], rng.standard_normal(9)])
    block = np.concatenate([block, block[1:2] - 2.0 * block[3:], np.zeros((1, 9))])
    one = hold(rows @ rows.T, rng.standard_normal(4))
    kept = join(one, block @ rows.T, block @ block.T, rng.standard_normal(6))
    np.testing.assert_array_equal(kept, [1, 3])
    one.check()


@pytest.mark.parametrize("k", [1, 4, 9])
@pytest.mark.parametrize("alpha", [0.0, 2.0])
def test_an_atom_at_its_cap_pulls_until_it_is_free_again(k: int, alpha: float) -> None:
    """After a cap and back, u is what it was; in between, b is less by the pull."""
    rng = np.random.default_rng(k)
    gram, linear = random_gram(k + 1, rng), rng.standard_normal(k + 1)
    for at in range(k + 1):
        one = hold(gram + alpha, linear)
        one.numbers[ALPHA], one.numbers[TOTAL], one.lines[CAP, : k + 1] = alpha, 1.0, 0.25
        kernels.drop(*one.state, at, True)
        rest = np.delete(np.arange(k + 1), at)
        one.gram, one.linear = gram[np.ix_(rest, rest)] + alpha, linear[rest] - 0.25 * gram[rest, at]
        one.check()
        assert one.gone[:, 0].tolist() == [at, 1]
        assert one.numbers[TOTAL] == pytest.approx(0.75)
        one.lines[ROW, :k] = gram[at, rest]
        assert kernels.advance(*one.state, at, gram[at, at], linear[at], 1.0, 0.25, -1, False) == 1
        order = np.append(rest, at)
        one.gram, one.linear = gram[np.ix_(order, order)] + alpha, linear[order]
        one.check()
        assert one.lines[WEIGHT, k] == 0.25
        assert one.numbers[TOTAL] == pytest.approx(1.0)


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
        join(one, new @ points.T, new @ new.T, rng.standard_normal(len(new)))
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
    one = hold(points @ points.T + 1.0, points @ target)
    one.numbers[ALPHA], one.numbers[TOTAL], one.numbers[FLOOR] = 1.0, 1.0, 1e-14
    start = rng.dirichlet(np.ones(k))
    one.labels[:k], one.lines[WEIGHT, :k] = np.arange(10, 10 + k), start
    exact, goal = rational(points), rational(target)[0]
    first = squared_distance(exact, goal, rational(start)[0])
    descend(one)
    stay, weights = one.labels[: one.size], one.lines[WEIGHT, : one.size]
    rows = [exact[label - 10] for label in stay]
    assert sorted([*stay, *one.gone[0, : one.sizes[GONE]]]) == list(range(10, 10 + k))
    assert (weights > 0.0).all()
    assert weights.sum() == pytest.approx(1.0, abs=1e-13)
    found = squared_distance(rows, goal, rational(weights)[0])
    assert float(found - exact_minimum(rows, goal)) <= 1e-13
    assert float(found - first) <= 1e-13


def test_descend_gives_up_on_nan_without_moving() -> None:
    one = held(3)
    one.lines[U, :3] = np.nan
    one.lines[WEIGHT, :3] = 1.0 / 3.0
    one.numbers[ALPHA] = one.numbers[TOTAL] = 1.0
    assert not descend(one)
    assert (one.size, one.sizes[GONE]) == (3, 0)
    np.testing.assert_array_equal(one.lines[WEIGHT, :3], np.full(3, 1.0 / 3.0))


# ---------------------------------------------------------------- the compiled loop


@dataclass
class Loop:
    """One target over a Gram matrix, or over rows whose products are made as atoms join."""

    gram: Vector
    linear: Vector
    options: Options
    kind: type = np.float64
    rows: Vector | None = None
    barred: tuple[int, ...] = ()
    most: int = 1 << 40
    steps: int = 1 << 40
    fine: bool = True

    def solve(self, ids: Ints | None = None, weights: Vector | None = None, *, goal: float = 0.0) -> Vector:
        n, wide = len(self.linear), kernels.pad(len(self.linear))
        padded = np.zeros((n, wide))
        padded[:, :n] = self.gram
        demand = self.rows is not None
        gram = np.zeros((1, wide)) if demand else padded
        rows = np.empty((0, 1)) if self.rows is None else self.rows
        state = kernels.make_state(
            gram, (np.zeros((n, wide)) if demand else padded).astype(self.kind), rows, n
        )
        state.linear[:n] = self.linear
        for j in self.barred:
            state.linear[j] = kernels.SHUT
        total = self.options.total
        alpha = 0.0 if total is None else float(np.trace(self.gram)) / n + 1e-300
        start(state, n, alpha, total or 0.0, self.options.ridge)
        if ids is None or weights is None:
            best = 0.5 * self.gram.diagonal() - self.linear
            best[list(self.barred)] = np.inf
            ids, weights = np.array([best.argmin()])[: total is not None], np.array([1.0])
        state = state if self.fine else state._replace(fine=np.empty(0))
        begun = ids, weights, len(ids)
        kernels.walk(state, self.rows, *begun, self.options.square, goal, self.most, self.steps)
        assert state.sizes[STEPS] <= self.steps
        out, k = np.zeros(n), state.sizes[FREE]
        out[state.labels[:k]] = state.lines[WEIGHT, :k]
        return out


@lean_kernel
def start(state: kernels.GramState, n: int, alpha: float, total: float, ridge: float) -> None:
    """`begin` is part of those who call it."""
    kernels.begin(state, n, alpha, total, ridge)


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@settings(max_examples=100)
@given(bounded(capped=False))
def test_the_loop_is_optimal_in_exact_arithmetic(kind: type, program: tuple[Vector, Vector, Options]) -> None:
    gram, linear, options = program
    options.check(gram, linear, Loop(gram, linear, options, kind=kind).solve())


@dataclass(frozen=True)
class Projection:
    """Atoms and a target, and the set of weights."""

    points: Vector
    target: Vector
    options: Options

    @classmethod
    def draw(cls, seed: int, n: int = 60, d: int = 12) -> Projection:
        rng = np.random.default_rng(seed)
        points, target = rng.standard_normal((n, d)), rng.choice([0.3, 1.0, 3.0]) * rng.standard_normal(d)
        return cls(points, target, Options(np.full(n, np.inf), 0.0, 1.0, float(target @ target)))

    @property
    def loop(self) -> Loop:
        return Loop(self.points @ self.points.T, self.points @ self.target, self.options)

    def value(self, weights: Vector) -> float:
        return 0.5 * float(np.sum((weights @ self.points - self.target) ** 2))


@pytest.mark.parametrize("seed", range(8))
def test_single_prices_come_as_near_as_they_can(seed: int) -> None:
    problem = Projection.draw(seed)
    best = problem.value(problem.loop.solve())
    found = problem.value(replace(problem.loop, kind=np.float32, fine=False).solve())
    size = float(problem.target @ problem.target + 12.0)  # both are differences of such numbers
    assert best - 1e-12 * size <= found <= best + 1e-5 * size


@pytest.mark.parametrize("seed", range(8))
def test_rows_on_demand_give_what_the_matrix_gives(seed: int) -> None:
    problem = Projection.draw(seed)
    plain = problem.loop.solve()
    demanded = replace(problem.loop, rows=problem.points).solve()
    np.testing.assert_allclose(demanded @ problem.points, plain @ problem.points, atol=1e-6)


@pytest.mark.parametrize("seed", range(8))
def test_a_warm_start_ends_where_a_cold_one_does(seed: int) -> None:
    problem, rng = Projection.draw(seed), np.random.default_rng(seed)
    ids = rng.choice(60, 30, replace=False)
    warm = problem.loop.solve(ids, rng.dirichlet(np.ones(30)))
    assert problem.value(warm) == pytest.approx(problem.value(problem.loop.solve()), abs=1e-12)


@pytest.mark.parametrize("seed", range(4))
def test_a_start_at_the_answer_takes_no_step(seed: int) -> None:
    problem = Projection.draw(seed)
    best = problem.loop.solve()
    ids = np.flatnonzero(best)
    again = replace(problem.loop, steps=0).solve(ids, best[ids])
    np.testing.assert_allclose(again, best, atol=1e-10)


@pytest.mark.parametrize("seed", range(4))
def test_steps_and_atoms_are_limited(seed: int) -> None:
    problem = Projection.draw(seed)
    values = [problem.value(replace(problem.loop, steps=steps).solve()) for steps in range(12)]
    assert values == sorted(values, reverse=True)
    few = replace(problem.loop, most=3).solve()
    assert np.count_nonzero(few) <= 3


@pytest.mark.parametrize("seed", range(4))
def test_barred_atoms_are_as_if_they_were_not_there(seed: int) -> None:
    problem = Projection.draw(seed)
    barred = tuple(np.flatnonzero(problem.loop.solve())[:3].tolist())
    found = replace(problem.loop, barred=barred).solve()
    rest = np.delete(np.arange(60), barred)
    other = Projection(
        problem.points[rest], problem.target, replace(problem.options, cap=np.full(57, np.inf))
    )
    assert not found[list(barred)].any()
    np.testing.assert_allclose(found @ problem.points, other.loop.solve() @ other.points, atol=1e-6)


@pytest.mark.parametrize("seed", range(4))
def test_the_loop_without_a_sum_agrees_with_nnls(seed: int) -> None:
    rng = np.random.default_rng(seed)
    matrix, target = rng.gamma(0.5, 1.0, (30, 60)), 2.0 * rng.gamma(0.5, 1.0, 30)
    options = Options(np.full(60, np.inf), 0.0, None, float(target @ target))
    weights = Loop(matrix.T @ matrix, matrix.T @ target, options).solve()
    assert np.linalg.norm(matrix @ weights - target) == pytest.approx(
        float(nnls(matrix, target)[1]), abs=1e-9
    )
