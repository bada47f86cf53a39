# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize, nnls

from tests.problems import exact_minimum, rational, squared_distance
from wolfhound.compiled import active_set as kernels
from wolfhound.compiled.active_set import U, V
from wolfhound.compiled.corral import BLOCK, Corral, Dense, correct, solve
from wolfhound.core.contracts import Ints, Vector
from wolfhound.core.rounding import UNIT

NONE: Ints = np.empty(0, np.int64)
ALPHA = 2.0


class Limited:
    """A `Dense` model that fails the test when it is priced too often."""

    def __init__(self, model: Dense, prices: int) -> None:
        self._model = model
        self._left = prices
        self.held: set[int] = set()

    def price(self, corral: Corral) -> tuple[float, Ints]:
        self._left -= 1
        assert self._left > 0
        assert self.held == set(corral.labels.tolist())
        return self._model.price(corral)

    def gram(self, new: Ints, held: Ints) -> tuple[Vector, Vector, Vector]:
        return self._model.gram(new, held)

    def swap(self, joined: Ints, left: Ints) -> None:
        self.held |= set(joined.tolist())
        self.held -= set(left.tolist())


def model_of(points: Vector, target: Vector, tol: float = 0.0) -> Dense:
    return Dense(points @ points.T, points @ target, tol)


def join(corral: Corral, model: Dense, labels: list[int]) -> list[int]:
    new = np.array(labels)
    return [labels[i] for i in corral.append(new, *model.gram(new, corral.labels))]


def drop(corral: Corral, at: int) -> None:
    state = corral._factor, corral._lines, corral._labels, corral._gone, corral._sizes, corral._numbers
    kernels.drop(*state, at, False)
    corral._note_gone()


def check_factor(corral: Corral, points: Vector, target: Vector) -> None:
    """The factor, u and v are those of the held atoms, whatever happened before."""
    held = points[corral.labels]
    k = corral.size
    lower = np.linalg.cholesky(held @ held.T + corral.alpha)
    np.testing.assert_allclose(np.tril(corral._factor[:k, :k]), lower, rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(
        corral._lines[U, :k], np.linalg.solve(lower, held @ target), rtol=1e-7, atol=1e-8
    )
    np.testing.assert_allclose(corral._lines[V, :k], np.linalg.solve(lower, np.ones(k)), rtol=1e-7, atol=1e-8)
    assert (corral.weights >= 0.0).all()
    assert len(set(corral.labels.tolist())) == k


def check_optimal(gram: Vector, linear: Vector, weights: Vector, tol: float) -> None:
    grad = gram @ weights - linear
    assert (weights >= 0.0).all()
    assert weights.sum() == pytest.approx(1.0, abs=1e-14)
    assert float(weights @ grad - grad.min()) <= tol


# ---------------------------------------------------------------- Corral


@pytest.mark.parametrize("seed", range(6))
def test_corral_keeps_its_factor_through_a_random_history(seed: int) -> None:
    rng = np.random.default_rng(seed)
    points, target = rng.standard_normal((80, 25)), rng.standard_normal(25)
    model = model_of(points, target)
    corral = Corral(40, ALPHA)
    join(corral, model, [7])
    corral.weights[:] = 1.0
    for _ in range(40):
        outside = np.setdiff1d(np.arange(80), corral.labels)
        room = min(corral.room, 24 - corral.size)
        join(corral, model, rng.permutation(outside)[: min(room, int(rng.integers(1, 9)))].tolist())
        check_factor(corral, points, target)
        before = set(corral.labels.tolist())
        gone, _ = corral.descend()
        assert before == set(corral.labels.tolist()) | set(gone.tolist())
        assert corral.weights.sum() == pytest.approx(1.0, abs=1e-12)
        check_factor(corral, points, target)
        for _ in range(max(corral.size - int(rng.integers(3, 20)), 0)):
            drop(corral, int(rng.integers(corral.size)))
        corral.weights[:] = rng.dirichlet(np.ones(corral.size))
        check_factor(corral, points, target)


def test_corral_replaces_b_and_keeps_the_factor() -> None:
    rng = np.random.default_rng(0)
    points = rng.standard_normal((6, 8))
    corral = Corral(9, ALPHA)
    join(corral, model_of(points, np.zeros(8)), [4, 1, 3])
    target = rng.standard_normal(8)
    corral.relinearize(points[corral.labels] @ target)
    check_factor(corral, points, target)


def test_corral_leaves_dependent_atoms_out() -> None:
    rng = np.random.default_rng(1)
    points = rng.standard_normal((5, 3))
    points[2] = points[0]
    points[3] = 0.5 * points[0] + 0.5 * points[1]
    corral = Corral(9, ALPHA)
    assert join(corral, model_of(points, np.zeros(3)), [0, 1]) == [0, 1]
    assert join(corral, model_of(points, np.zeros(3)), [2, 3, 4]) == [4]
    check_factor(corral, points, np.zeros(3))


def test_zero_and_opposite_atoms_are_independent() -> None:
    """Affine, not linear dependence counts: the constant alpha sees to that."""
    points = np.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 0.0], [0.0, 1.0]])
    corral = Corral(9, 0.0)
    assert join(corral, model_of(points, np.zeros(2)), [0, 1]) == [0, 1]
    assert join(corral, model_of(points, np.zeros(2)), [2, 3]) == [3]


def test_clear_forgets_all() -> None:
    points = np.eye(3)
    corral = Corral(3, ALPHA)
    join(corral, model_of(points, np.ones(3)), [0, 2])
    corral.clear(1.0)
    assert (corral.size, corral.room) == (0, 3)
    join(corral, model_of(points, np.ones(3)), [1, 0])
    check_factor(corral, points, np.ones(3))


def test_weights_that_ran_away_exchange_nothing() -> None:
    points = np.random.default_rng(0).standard_normal((3, 4))
    model, corral = model_of(points, np.ones(4)), Corral(9, ALPHA)
    join(corral, model, [0, 1])
    corral.weights[:] = 1e200
    cross, gram, linear = model.gram(np.array([2]), corral.labels)
    with np.errstate(over="ignore"):
        assert corral.exchange(2, cross[0], float(gram[0, 0]), float(linear[0])) is None


@pytest.mark.parametrize("seed", range(8))
def test_exchange_swaps_a_dependent_atom_without_moving_the_point(seed: int) -> None:
    rng = np.random.default_rng(seed)
    points, weights = rng.standard_normal((5, 6)), rng.dirichlet(np.ones(4))
    share = rng.standard_normal(4)
    points[4] = (share / share.sum()) @ points[:4]
    before = weights @ points[:4]
    target = before + 10.0 * (points[4] - before)
    model = model_of(points, target)
    corral = Corral(9, ALPHA)
    join(corral, model, [0, 1, 2, 3])
    corral.weights[:] = weights[corral.labels]
    cross, gram, linear = model.gram(np.array([4]), corral.labels)
    left = corral.exchange(4, cross[0], float(gram[0, 0]), float(linear[0]))
    assert left is not None
    assert set(corral.labels.tolist()) == {0, 1, 2, 3, 4} - set(left.tolist())
    assert len(left) == 1
    assert corral.weights.sum() == pytest.approx(1.0, abs=1e-9)
    np.testing.assert_allclose(corral.weights @ points[corral.labels], before, atol=1e-8)
    check_factor(corral, points, target)


@pytest.mark.parametrize("seed", range(8))
def test_adopt_keeps_the_point_of_dependent_atoms(seed: int) -> None:
    rng = np.random.default_rng(seed)
    points = np.concatenate([rng.standard_normal((12, 4)), np.zeros((1, 4))])
    points[5], points[6] = points[4], 0.3 * points[1] + 0.7 * points[2]
    weights = rng.dirichlet(np.ones(13))
    corral = Corral(5 + BLOCK, ALPHA)
    model = Limited(model_of(points, np.zeros(4)), 1)
    labels = rng.permutation(13)
    held = corral.adopt(labels, weights, model)
    assert corral.size <= 5
    assert model.held == set(held.tolist()) == set(corral.labels.tolist())
    assert corral.weights.sum() == pytest.approx(1.0, abs=1e-12)
    np.testing.assert_allclose(corral.weights @ points[held], weights @ points[labels], atol=1e-9)
    check_factor(corral, points, np.zeros(4))


def test_adopt_takes_more_atoms_than_a_block() -> None:
    rng = np.random.default_rng(0)
    points = rng.standard_normal((3 * BLOCK, 4 * BLOCK))
    weights = rng.dirichlet(np.ones(3 * BLOCK))
    corral = Corral(5 * BLOCK, float(4 * BLOCK))
    held = corral.adopt(np.arange(3 * BLOCK), weights, model_of(points, np.zeros(4 * BLOCK)))
    np.testing.assert_array_equal(held, np.arange(3 * BLOCK))
    np.testing.assert_allclose(corral.weights, weights, rtol=1e-12)


# ---------------------------------------------------------------- correct


@pytest.mark.parametrize("seed", range(5))
def test_correct_tells_the_model_who_joins_and_leaves(seed: int) -> None:
    rng = np.random.default_rng(seed)
    points, target = rng.standard_normal((200, 10)), 3.0 * rng.standard_normal(10)
    gram, linear = points @ points.T, points @ target
    model = Limited(Dense(gram, linear, 1e-12), 500)
    corral = Corral(11 + BLOCK, 10.0)
    held = corral.adopt(np.array([3]), np.ones(1), model)
    assert held.tolist() == [3]
    joined = correct(corral, model)
    assert joined >= len(model.held - {3})
    weights = np.zeros(200)
    weights[corral.labels] = corral.weights
    check_optimal(gram, linear, weights / weights.sum(), 1e-11)


def test_correct_stops_at_its_tolerance() -> None:
    rng = np.random.default_rng(0)
    points, target = rng.standard_normal((50, 5)), 3.0 * rng.standard_normal(5)
    gram, linear = points @ points.T, points @ target
    loose = solve(gram, linear, tol=0.5)
    check_optimal(gram, linear, loose, 0.5)
    assert np.count_nonzero(loose) <= np.count_nonzero(solve(gram, linear))


NEARLY_EQUAL = np.array([[-0.12855192771477808], [-0.1285519550047006], [-0.12855192102389507]])


@pytest.mark.parametrize(
    ("points", "target"),
    [
        (NEARLY_EQUAL, np.array([-0.12855193266000173])),
        (NEARLY_EQUAL, NEARLY_EQUAL[1]),
        (np.array([[1.0, 0.0], [1.0, 1e-7], [1.0, -1e-7], [0.0, 0.0]]), np.array([0.5, 1e-9])),
        (np.repeat(np.eye(3), 4, axis=0), np.full(3, 1.0 / 3.0)),
        (np.zeros((4, 2)), np.ones(2)),
    ],
)
def test_correct_ends_on_nearly_dependent_atoms(points: Vector, target: Vector) -> None:
    """An exchange must not go past the minimum on its way, or two atoms take turns for ever."""
    check_it_ends(points, target)


@settings(max_examples=100)
@given(st.integers(0, 2**32 - 1), st.sampled_from([3, 5, 10, 40]), st.sampled_from([1, 2, 5, 10]))
def test_correct_ends_on_thin_and_clustered_atoms(seed: int, count: int, dim: int) -> None:
    rng = np.random.default_rng(seed)
    points = rng.standard_normal((count, dim))
    thin = points * np.logspace(0.0, -8.0, dim)
    clustered = points[rng.integers(0, (count + 1) // 2, count)] + 1e-8 * points
    check_it_ends(thin, rng.dirichlet(np.ones(count)) @ thin)
    check_it_ends(clustered, rng.dirichlet(np.ones(count)) @ clustered)


def check_it_ends(points: Vector, target: Vector, tol: float | None = None) -> None:
    gram, linear = points @ points.T, points @ target
    noise = 8.0 * len(points) * UNIT * float(np.abs(gram).max() + np.abs(linear).max())
    model = Limited(Dense(gram, linear, noise if tol is None else tol), 200 + 20 * len(points))
    corral = Corral(len(points) + BLOCK, float(gram.trace()) / len(points))
    corral.adopt(np.array([0]), np.ones(1), model)
    correct(corral, model)
    weights = np.zeros(len(points))
    weights[corral.labels] = corral.weights / corral.weights.sum()
    value = 0.5 * float(np.sum((weights @ points - target) ** 2))
    first = 0.5 * float(np.sum((points[0] - target) ** 2))
    assert value <= first + noise


# ---------------------------------------------------------------- solve


@st.composite
def programs(draw: st.DrawFn) -> tuple[Vector, Vector]:
    """Points and a target: few and many, repeated, zero, on a line, of any scale."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    count, dim = draw(st.sampled_from([1, 2, 3, 6, 12])), draw(st.sampled_from([1, 2, 3, 5]))
    points = rng.standard_normal((count, dim))
    kind = draw(st.sampled_from(["plain", "repeated", "zeros", "line", "lattice"]))
    shapes = {
        "plain": points,
        "repeated": points[rng.integers(0, (count + 1) // 2, count)],
        "zeros": points * (rng.random((count, 1)) < 0.5),
        "line": points[:, :1] * points[:1] + 1.0,
        "lattice": rng.integers(-2, 3, (count, dim)).astype(np.float64),
    }
    points = shapes[kind]
    aims = {
        "inside": rng.dirichlet(np.ones(count)) @ points,
        "outside": points.mean(axis=0) + 3.0 * rng.standard_normal(dim),
        "on a point": points[0],
    }
    scale = 10.0 ** draw(st.sampled_from([-60, -3, 0, 0, 0, 3, 60]))
    return scale * points, scale * aims[draw(st.sampled_from(sorted(aims)))]


@settings(max_examples=150)
@given(programs())
def test_correct_ends_even_without_a_tolerance(program: tuple[Vector, Vector]) -> None:
    """A caller's tolerance may lie below the rounding of the model."""
    check_it_ends(*program, tol=0.0)


@pytest.mark.slow
@settings(max_examples=150)
@given(programs())
def test_solve_finds_the_exact_minimum(program: tuple[Vector, Vector]) -> None:
    points, target = program
    gram, linear = points @ points.T, points @ target
    weights = solve(gram, linear)
    noise = 16.0 * len(points) * UNIT * float(np.abs(gram).max() + np.abs(linear).max())
    check_optimal(gram, linear, weights, noise)
    exact, goal = rational(points), rational(target)[0]
    found = squared_distance(exact, goal, rational(weights)[0])
    # The Gram matrix itself is rounded: that costs dim units more.
    assert 0 <= found - exact_minimum(exact, goal) <= Fraction(4.0 * noise)


@pytest.mark.parametrize("seed", range(5))
def test_solve_agrees_with_nnls(seed: int) -> None:
    rng = np.random.default_rng(seed)
    points, target = rng.standard_normal((60, 20)), rng.standard_normal(20)
    weights = solve(points @ points.T, points @ target)
    heavy = 1e4
    system = np.vstack([(points - target).T, np.full(60, heavy)])
    other, _ = nnls(system, np.append(np.zeros(20), heavy))
    np.testing.assert_allclose(weights @ points, other / other.sum() @ points, atol=1e-6)


def test_solve_takes_a_linear_term_outside_the_range_of_the_matrix() -> None:
    """Not every program is a projection: here SLSQP is the judge."""
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((8, 3))
    gram, linear = rows @ rows.T, rng.standard_normal(8)
    weights = solve(gram, linear)
    other = minimize(
        lambda w: 0.5 * w @ gram @ w - linear @ w,
        np.full(8, 0.125),
        jac=lambda w: gram @ w - linear,
        bounds=[(0.0, 1.0)] * 8,
        constraints={"type": "eq", "fun": lambda w: w.sum() - 1.0},
        options={"ftol": 1e-14, "maxiter": 1000},
    )
    assert 0.5 * weights @ gram @ weights - linear @ weights <= other.fun + 1e-9


@pytest.mark.parametrize(
    ("gram", "linear", "weights"),
    [
        ([[3.0]], [7.0], [1.0]),
        ([[0.0]], [0.0], [1.0]),
        (np.zeros((3, 3)), [0.0, 2.0, 1.0], [0.0, 1.0, 0.0]),
        (np.eye(3), [1.0, 0.2, -5.0], [0.9, 0.1, 0.0]),
        (np.eye(2), [9.0, 0.0], [1.0, 0.0]),
    ],
)
def test_solve_small(gram: Vector, linear: Vector, weights: list[float]) -> None:
    np.testing.assert_allclose(solve(np.asarray(gram), np.asarray(linear)), weights, atol=1e-14)


def test_solve_does_not_write_to_its_arguments() -> None:
    gram, linear = np.eye(4), np.arange(4.0)
    gram.flags.writeable = linear.flags.writeable = False
    assert solve(gram, linear).argmax() == 3


@pytest.mark.parametrize(
    ("gram", "linear", "named"),
    [
        (np.eye(2), np.zeros(3), "`linear` must be a vector of length 2"),
        (np.ones((2, 3)), np.zeros(2), "`gram` must be square"),
        (np.eye(2) * np.nan, np.zeros(2), "`gram` must be finite"),
        (np.eye(2), np.array([0.0, np.inf]), "`linear` must be finite"),
        (np.eye(2)[0], np.zeros(2), "`gram` must be an array with 2 axes"),
        (np.empty((0, 0)), np.zeros(0), "`gram` must be non-empty"),
    ],
)
def test_solve_names_a_bad_argument(gram: Vector, linear: Vector, named: str) -> None:
    with pytest.raises(ValueError, match=named):
        solve(gram, linear)


# ---------------------------------------------------------------- bounds


def exact_gap(gram: Vector, linear: Vector, weights: Vector, caps: Vector, options: Options) -> Fraction:
    """max over the set of <-grad, v - w> at these weights, in rational numbers: 0 at the optimum alone."""
    w = rational(weights)[0]
    ridge = Fraction(options.ridge)
    prices = [
        sum((g * x for g, x in zip(row, w, strict=True)), ridge * w[i]) - c
        for i, (row, c) in enumerate(zip(rational(gram), rational(linear)[0], strict=True))
    ]
    here = sum((p * x for p, x in zip(prices, w, strict=True)), Fraction())
    order = sorted(range(len(w)), key=prices.__getitem__)
    least, left = Fraction(), None if options.total is None else sum(w, Fraction())
    for i in order:
        room = Fraction(caps[i])
        share = (room if prices[i] < 0 else Fraction()) if left is None else min(room, left)
        least += share * prices[i]
        left = None if left is None else left - share
    return here - least


@dataclass(frozen=True)
class Options:
    """What `solve` is told."""

    cap: Vector
    ridge: float
    total: float | None
    square: float = 0.0

    def check(self, gram: Vector, linear: Vector, weights: Vector) -> None:
        """Exactly within the bounds, of the wanted sum, and optimal but for rounding."""
        size = float(np.abs(gram).max() + np.abs(linear).max() + self.ridge)
        assert (weights >= 0.0).all()
        assert (weights <= self.cap).all()
        if self.total is not None:
            assert weights.sum() == pytest.approx(self.total, rel=1e-13)
        reach = float(np.minimum(self.cap, weights.sum() + 1.0).sum())
        gap = exact_gap(gram, linear, weights, np.minimum(self.cap, weights.sum() + 1.0), self)
        assert float(gap) <= 64.0 * len(weights) * UNIT * size * (1.0 + reach) ** 2


@st.composite
def bounded(draw: st.DrawFn, *, capped: bool = True) -> tuple[Vector, Vector, Options]:
    """Programs with caps, ridges and sums of all kinds, over degenerate and dependent atoms, too."""
    points, target = draw(programs().filter(lambda drawn: 1e-2 < np.abs(drawn[0]).max(initial=0.0) < 1e2))
    n = len(points)
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    total = draw(st.sampled_from([1.0, 1.0, 2.5, None]))
    base = 1.0 if total is None else total
    caps = {
        "none": np.full(n, np.inf),
        "exact": np.full(n, base / n),
        "tight": np.full(n, 1.3 * base / n),
        "mixed": base * np.where(rng.random(n) < 0.5, 1.1, rng.uniform(0.1, 1.0, n)) + base / n,
    }
    ridge = draw(st.sampled_from([0.0, 0.0, 0.3, 10.0]))
    cap = caps[draw(st.sampled_from(sorted(caps) if capped else ["none"]))]
    return points @ points.T, points @ target, Options(cap, ridge, total, float(target @ target))


@settings(max_examples=200)
@given(bounded())
def test_solve_is_optimal_within_bounds_in_exact_arithmetic(program: tuple[Vector, Vector, Options]) -> None:
    gram, linear, options = program
    weights = solve(gram, linear, cap=options.cap, ridge=options.ridge, total=options.total)
    options.check(gram, linear, weights)


def test_solve_without_a_sum_agrees_with_nnls() -> None:
    rng = np.random.default_rng(0)
    matrix, target = rng.gamma(0.5, 1.0, (30, 60)), 2.0 * rng.gamma(0.5, 1.0, 30)
    weights = solve(matrix.T @ matrix, matrix.T @ target, total=None)
    best = float(nnls(matrix, target)[1])
    assert np.linalg.norm(matrix @ weights - target) == pytest.approx(best, abs=1e-9)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"cap": 0.0}, "`cap` must be > 0"),
        ({"cap": 0.3}, "`cap` must be of sum >= 1"),
        ({"ridge": -1.0}, "`ridge` must be >= 0"),
        ({"total": 0.0}, "`total` must be > 0"),
    ],
)
def test_solve_names_a_bad_bound(options: dict[str, float], named: str) -> None:
    with pytest.raises(ValueError, match=named):
        solve(np.eye(3), np.ones(3), **options)


@pytest.mark.parametrize("seed", range(6))
def test_a_corral_with_caps_goes_on_after_b_is_replaced(seed: int) -> None:
    """The pull of atoms at their cap stays in b when c changes; warm starts at a cap are kept there."""
    rng = np.random.default_rng(seed)
    points = rng.standard_normal((20, 6))
    gram, first, second = points @ points.T, points @ rng.standard_normal(6), points @ rng.standard_normal(6)
    options = Options(np.full(20, 0.15), 0.0, 1.0)
    corral = Corral(20, 6.0, cap=0.15)
    corral.adopt(np.arange(10), np.full(10, 0.1), Dense(gram, first, 0.0))
    correct(corral, Dense(gram, first, 0.0))
    assert len(corral.labels) > corral.size
    corral.relinearize(second[corral.labels])
    correct(corral, Dense(gram, second, 0.0))
    weights = np.zeros(20)
    weights[corral.labels] = corral.weights
    options.check(gram, second, weights)
    again = Corral(20, 6.0, cap=0.15)
    held = again.adopt(corral.labels, corral.weights, Dense(gram, second, 0.0))
    assert sorted(held) == sorted(corral.labels)
    gone, _ = again.descend()
    assert len(gone) == 0
    np.testing.assert_allclose(np.sort(again.weights), np.sort(corral.weights), atol=1e-12)


@pytest.mark.parametrize("ridge", [1.0, 1e17, 1e56])
def test_an_atom_whose_entry_cancels_the_ridge_joins(ridge: float) -> None:
    corral = Corral(3, 1.0, ridge=ridge)
    assert join(corral, Dense(np.array([[-ridge]]), np.zeros(1), 0.0), [0]) == [0]
