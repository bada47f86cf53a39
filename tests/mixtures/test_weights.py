"""Weights of given components: small exact cases, tall ones, files, proofs and wrong uses."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fuzz.mixtures import judge_matrix
from wolfhound import Cone, Hull, MixtureLikelihood, Status, fit_weights, minimize, set_threads
from wolfhound.mixtures import _newton
from wolfhound.mixtures._newton import LikelihoodRows, judge_end, read_block

Array = np.ndarray[Any, np.dtype[Any]]


def scales(n: int, m: int, seed: int = 0) -> Array:
    """Likelihoods of normal observations under m scales, as ashr has them."""
    rng = np.random.default_rng(seed)
    z = np.where(rng.random(n) < 0.7, 0.0, 2.0 * rng.standard_t(4, n)) + rng.standard_normal(n)
    variance = 1.0 + np.r_[0.0, np.geomspace(0.05, 20.0, m - 1)] ** 2
    logs = -0.5 * np.log(variance) - 0.5 * z[:, None] ** 2 / variance
    return np.asarray(np.exp(logs - logs.max(axis=1, keepdims=True)))


def measure_gap(matrix: Array, x: Array, shares: Array) -> float:
    """The gap of weights, in extended precision."""
    wide = matrix.astype(np.longdouble)
    return float(np.log(((shares / (wide @ x)) @ wide).max() / shares.sum()))


def test_two_components_in_closed_form() -> None:
    # A share p of the observations is of the first kind only: its weight is p.
    matrix = np.repeat([[1.0, 0.0], [0.0, 1.0]], [3, 7], axis=0)
    np.testing.assert_allclose(fit_weights(matrix, atol=1e-12).weights, [0.3, 0.7], atol=1e-6)


def test_counts_stand_for_repeats() -> None:
    matrix, counts = scales(40, 9), np.arange(40) % 4
    alone = fit_weights(np.repeat(matrix, counts, axis=0), atol=1e-10)
    counted = fit_weights(matrix, weights=counts, atol=1e-10)
    assert alone.value == pytest.approx(counted.value, abs=2e-10)


@pytest.mark.slow
def test_the_same_minimum_as_minimize() -> None:
    matrix = scales(500, 60)
    run = minimize(MixtureLikelihood(), matrix.T.copy(), rtol=0.0, atol=1e-9)
    fit = fit_weights(matrix, atol=1e-9)
    assert -fit.value == pytest.approx(run.value, abs=2e-9)


@pytest.mark.slow
@pytest.mark.parametrize("m", [1, 40, 300])
def test_tall_problems_take_few_reads(m: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_newton, "FIRST", 400)
    monkeypatch.setattr(_newton, "SECOND", 1500)
    matrix = scales(6000, m).astype(np.float32) if m > 1 else np.ones((6000, 1), np.float32)
    fit = fit_weights(matrix)
    assert fit.success
    assert fit.reads <= 8
    assert fit.gap >= measure_gap(matrix, fit.weights, np.full(6000, 1.0 / 6000))


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 40), st.integers(1, 12), st.integers(0, 10_000), st.booleans())
def test_a_proved_gap_is_no_smaller_than_the_true_one(n: int, m: int, seed: int, narrow: bool) -> None:
    rng = np.random.default_rng(seed)
    matrix = np.exp(-rng.exponential(4.0, (n, m))).astype(np.float32 if narrow else np.float64)
    weights = rng.dirichlet(np.ones(n))
    fit = fit_weights(matrix, weights=weights)
    assert fit.success
    assert fit.weights.min() >= 0.0
    assert fit.gap >= measure_gap(matrix, fit.weights, weights.astype(np.longdouble)) - 1e-15


def test_logarithms_files_and_arrays_agree(tmp_path: Path) -> None:
    matrix = scales(300, 20)
    logs = np.log(matrix) + np.linspace(-2000.0, 2000.0, 300)[:, None]
    np.save(tmp_path / "logs.npy", logs)
    np.save(tmp_path / "likelihoods.npy", matrix)
    plain = fit_weights(matrix, atol=1e-8)
    from_logs = fit_weights(logs, log=True, atol=1e-8)
    from_file = fit_weights(tmp_path / "logs.npy", log=True, atol=1e-8)
    np.testing.assert_array_equal(fit_weights(tmp_path / "likelihoods.npy", atol=1e-8).weights, plain.weights)
    np.testing.assert_array_equal(from_logs.weights, from_file.weights)
    assert from_logs.value == pytest.approx(plain.value, abs=1e-7)
    assert fit_weights(logs, log=True).gap > 1.1e-7  # float32 costs two roundings


@pytest.mark.parametrize("seed", range(20))
def test_kernels_of_zeros_and_ones_are_solved(seed: int) -> None:
    matrix = (np.random.default_rng(seed).random((200, 40)) < 0.3).astype(np.float64)
    matrix[:, 0] = np.maximum(matrix[:, 0], matrix.max(axis=1) == 0.0)
    fit = fit_weights(matrix, atol=1e-9)
    assert fit.status is Status.GAP_REACHED
    assert fit.gap >= measure_gap(matrix, fit.weights, np.full(200, 1.0 / 200)) - 1e-15


@pytest.mark.parametrize("seed", range(20))
def test_few_rows_with_zeros_are_solved_as_minimize_does(seed: int) -> None:
    rng = np.random.default_rng(seed)
    matrix = np.where(rng.random((3, 20)) < 0.4, 0.0, rng.random((3, 20)) ** 8)
    matrix[:, 0] = 1e-3
    fit = fit_weights(matrix, atol=1e-9)
    run = minimize(MixtureLikelihood(), np.ascontiguousarray(matrix.T), rtol=0.0, atol=1e-9)
    assert fit.status is Status.GAP_REACHED
    assert -fit.value == pytest.approx(run.value, abs=2e-9)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_hostile_matrices_are_solved_and_their_status_is_true(seed: int) -> None:
    assert judge_matrix(np.random.default_rng(seed)) == []


def test_a_support_larger_than_the_pool_is_found() -> None:
    # Components outside the pool move as one: the pool had to grow.
    rng = np.random.default_rng(66)
    matrix = np.where(rng.random((600, 300)) < 0.95, 0.0, rng.random((600, 300)) ** 8)
    matrix[np.arange(600), rng.integers(0, 300, 600)] += 1e-3
    fit = fit_weights(matrix, atol=1e-11)
    assert fit.status is Status.GAP_REACHED
    assert len(fit.support) > 2 * (_newton.POOL // 3)


@pytest.mark.parametrize("exponent", [30, 250, 1000])
@pytest.mark.parametrize("n", [60, 3000])
def test_scales_of_rows_cancel(n: int, exponent: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_newton, "FIRST", 300)
    monkeypatch.setattr(_newton, "SECOND", 600)
    powers = np.random.default_rng(0).integers(-exponent, min(exponent, 1000), n)
    # Entries of moderate size: a power of two then changes no digit.
    matrix = np.where(scales(n, 12) > 1e-4, scales(n, 12), 0.0)
    plain, scaled = fit_weights(matrix, atol=1e-9), fit_weights(np.ldexp(matrix, powers[:, None]), atol=1e-9)
    assert scaled.status is Status.GAP_REACHED
    assert scaled.value - np.log(2.0) * powers.mean() == pytest.approx(plain.value, abs=2e-9)


def test_a_sample_that_misses_rows_is_no_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_newton, "FIRST", 100)
    monkeypatch.setattr(_newton, "SECOND", 200)
    # Few rows are explained by one component only, each by another.
    matrix = np.ones((4000, 12)) * np.r_[1.0, np.full(11, 1e-3)]
    for k in range(11):
        matrix[97 * k + 1] = 0.0
        matrix[97 * k + 1, k + 1] = 1.0
    fit = fit_weights(matrix, atol=1e-9)
    assert fit.status is Status.GAP_REACHED


def test_weights_of_any_size_are_met() -> None:
    # The last row alone needs the last component, whose weight is that of the row: 1e-9, or less.
    matrix = np.array([[1.0, 0.5, 0.0], [0.5, 1.0, 0.0], [0.0, 0.0, 1.0]])
    for tiny in (1e-6, 1e-9, 1e-14):
        fit = fit_weights(matrix, weights=[1.0, 2.0, tiny], atol=1e-6)
        assert fit.status is Status.GAP_REACHED


@pytest.mark.parametrize(
    ("gap", "goal", "slack", "late", "status"),
    [
        (1e-9, 1e-9, 0.0, True, Status.GAP_REACHED),
        (8e-13, 1e-13, 1e-13, True, Status.ROUNDING),
        (9e-13, 1e-13, 1e-13, False, Status.STALLED),
        (9e-13, 1e-13, 1e-13, True, Status.MAX_SECONDS),
        (np.inf, 1e-6, np.inf, False, Status.STALLED),
    ],
)
def test_an_end_is_judged(gap: float, goal: float, slack: float, late: bool, status: Status) -> None:
    assert judge_end(gap, goal, slack, late=late) is status


def test_a_goal_below_rounding_says_so() -> None:
    fit = fit_weights(scales(500, 20), atol=0.0)
    assert fit.status is Status.ROUNDING
    assert fit.gap <= 1e-12


def test_a_row_at_the_edge_of_the_domain() -> None:
    matrix = np.ones((200, 3))
    matrix[0] = [1e-25, 1e-30, 1.0]
    fit = fit_weights(matrix[:, [0, 1, 2]] * np.array([1.0, 0.9, 0.5]))
    assert fit.success


def test_the_kernel_and_numpy_agree() -> None:
    matrix, x = scales(300, 7), np.array([0.3, 0.0, 0.2, 0.5, 0.0, 0.0, 0.0])
    w, u, g = np.random.default_rng(0).dirichlet(np.ones(300)), np.empty(300), np.zeros(7)
    active = np.flatnonzero(x)
    value, mass, least, bad = read_block(matrix, w, active, x[active], np.ones(300), u, g)
    mixed = matrix @ x
    np.testing.assert_allclose(u, mixed, rtol=1e-14)
    np.testing.assert_allclose(g, (w / mixed) @ matrix, rtol=1e-13)
    np.testing.assert_allclose(
        [value, mass, least, bad], [w @ np.log(mixed), (w / mixed).sum(), mixed.min(), 0]
    )


def test_an_unexplained_row_is_counted_and_nothing_is_proved() -> None:
    rows = LikelihoodRows(np.array([[1.0, 0.0], [0.0, 1.0]]), np.full(2, 0.5))
    look = rows.look(np.array([1.0, 0.0]), np.empty(2))
    assert look.bad == 1
    assert rows.prove(look, 1) == np.inf


@pytest.mark.slow
def test_few_atoms_of_very_many_dimensions() -> None:
    # A model is sized by the number of atoms: this asked for 75 GB once.
    atoms = scales(100_000, 12).T.copy()
    run = minimize(MixtureLikelihood(), atoms, rtol=0.0, atol=1e-6)
    assert run.success


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: fit_weights([[1.0, -0.1]]), "likelihoods"),
        (lambda: fit_weights([[1.0, np.nan]]), "likelihoods"),
        (lambda: fit_weights([[1.0, 2.0], [0.0, 0.0]]), "positive somewhere"),
        (lambda: fit_weights([[0.0, np.inf]], log=True), "likelihoods"),
        (lambda: fit_weights(np.empty((0, 3))), "likelihoods"),
        (lambda: fit_weights([[1.0]], weights=[-1.0]), "weights"),
        (lambda: fit_weights([[1.0]], weights=[1.0, 2.0]), "weights"),
        (lambda: fit_weights([[1.0]], atol=-1.0), "atol"),
        (lambda: fit_weights("nowhere.npy"), "nowhere.npy"),
    ],
)
def test_wrong_uses_are_named(call: Any, words: str) -> None:
    with pytest.raises((ValueError, TypeError, FileNotFoundError), match=words):
        call()


@pytest.mark.parametrize("wrong", [-1.0, np.nan, np.inf])
@pytest.mark.parametrize("n", [50, 9000])
def test_one_wrong_entry_among_many_is_found(wrong: float, n: int) -> None:
    matrix = scales(n, 4)
    matrix[n - 3, 2] = wrong
    with pytest.raises(ValueError, match=f"row {n - 3}"):
        fit_weights(matrix)


def test_any_number_of_threads_gives_the_same_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_newton, "BLOCK_ENTRIES", 1 << 13)
    matrix, found = scales(5000, 12), []
    for threads in (1, 2, 3):
        set_threads(threads)
        found.append(fit_weights(matrix))
    set_threads(None)
    assert len({(fit.weights.tobytes(), fit.gap, fit.value) for fit in found}) == 1


@pytest.mark.parametrize("log", [False, True])
@pytest.mark.parametrize(
    ("over", "ridge"), [(Hull(cap=0.3), 0.0), (Hull(), 0.1), (Hull(cap=np.full(12, 0.15)), 0.02)]
)
def test_caps_and_ridges_are_those_of_minimize(log: bool, over: Hull, ridge: float, tmp_path: Path) -> None:
    logs = -0.5 * np.random.default_rng(3).standard_normal((80, 12)) ** 2
    matrix = logs if log else np.exp(logs)
    fit = fit_weights(matrix, log=log, over=over, ridge=ridge, atol=1e-9)
    atoms = np.ascontiguousarray(np.exp(logs).T)
    run = minimize(MixtureLikelihood(), atoms, over=over, ridge=ridge, rtol=0.0, atol=1e-10)
    assert fit.success
    assert fit.gap <= 1e-9
    assert -run.value <= fit.value + fit.gap
    assert fit.value - 1e-12 <= -run.lower
    assert fit.over == run.over
    assert run.over in repr(fit)
    np.save(tmp_path / "likelihoods.npy", matrix)
    again = fit_weights(tmp_path / "likelihoods.npy", log=log, over=over, ridge=ridge, atol=1e-9)
    np.testing.assert_array_equal(again.weights, fit.weights)


def test_scores_whose_exponentials_are_zero_take_caps() -> None:
    logs = -0.5 * np.random.default_rng(4).standard_normal((50, 6)) ** 2
    near, far = (fit_weights(logs - low, log=True, over=Hull(cap=0.25)) for low in (0.0, 1000.0))
    assert far.value == pytest.approx(near.value - 1000.0)
    np.testing.assert_allclose(far.weights, near.weights, atol=1e-9)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"over": Cone()}, r"`over` must be Hull\(cap=...\): weights sum to 1. Got Cone\(\)."),
        ({"over": Hull(at_most=True)}, "`over` must be Hull"),
        ({"over": Hull(cap=0.1)}, "`cap` must be of sum >= 1"),
        ({"over": Hull(cap=[0.5, 0.5])}, "`cap` must be a number, or 4 numbers"),
        ({"ridge": -1.0}, "`ridge` must be a number >= 0"),
        ({"ridge": 1.0, "weights": np.ones(5)}, "`weights` must be None with a cap or a ridge"),
    ],
)
def test_other_sets_of_weights_are_refused_by_name(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        fit_weights(np.ones((5, 4)), **wrong)
