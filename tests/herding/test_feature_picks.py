"""Herding in a finite feature space: Alg. 3 and 4 as E3 and E18 correct them.

Each run is compared with a recursion in plain numpy that shares no line with it.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from tests.oracles.degraded import Degraded, Follower
from wolfhound.core.contracts import Ids, Matrix, State, Status, Vector
from wolfhound.herding.features import RandomFourier
from wolfhound.herding.in_features import FeatureRun, pick_in_features
from wolfhound.methods.steps import LineSearch, OpenLoop
from wolfhound.objectives.plain import SquaredDistance
from wolfhound.oracles.scan import Scan
from wolfhound.paper import theory
from wolfhound.solve.minimize import minimize

seeds = st.integers(0, 2**32 - 1)
exact = functools.partial(pick_in_features, oracle=Scan)


def cloud(n: int, d: int, seed: int = 0) -> Vector:
    return np.random.default_rng(seed).standard_normal((n, d))


def ring(size: int) -> Vector:
    angles = 2 * np.pi * np.arange(size) / size
    return np.stack([np.cos(angles), np.sin(angles)], axis=1)


def widest(rows: Matrix) -> float:
    return float(np.linalg.norm(rows[:, None] - rows[None], axis=2).max())


def half_square(x: Vector, mean: Vector) -> float:
    return 0.5 * float((x - mean) @ (x - mean))


@dataclass
class Diary:
    """Notes the points and picks of a run."""

    points: list[Vector]
    hits: list[int]

    def __call__(self, state: State) -> None:
        self.points.append(state.point.x)
        self.hits.append(state.hit)


def followed(run: Callable[..., FeatureRun], *args: Any, **options: Any) -> tuple[FeatureRun, Diary]:
    diary = Diary([], [])
    return run(*args, callback=diary, **options), diary


# ---------------------------------------------------------------- E3: the sign


def walked(rows: Vector, mean: Vector, picks: int, *, sign: float) -> list[Vector]:
    """Means of picks argmax sign <mean - w, s>; the paper prints sign = -1."""
    w, points = np.zeros(rows.shape[1]), []
    for t in range(picks):
        w = w + (rows[np.argmax(rows @ (sign * (mean - w)))] - w) / (t + 1)
        points.append(w)
    return points


@pytest.mark.parametrize("rows", [cloud(7, 2, seed=2) + 3.0, cloud(60, 4), cloud(30, 2, seed=1)])
def test_e3_picks_go_towards_the_mean_and_the_printed_sign_away(rows: Vector) -> None:
    mean, diameter = rows.mean(axis=0), widest(rows)
    _, diary = followed(exact, rows, 40)
    ours = np.array([half_square(x, mean) for x in diary.points[1:]])
    times = range(1, len(ours) + 1)
    bounds = np.array([theory.herding_gap_after(t, c=1.0, diameter=diameter) for t in times])
    assert np.all(ours <= bounds)
    right, printed = (walked(rows, mean, len(ours), sign=sign) for sign in (1.0, -1.0))
    assert_allclose(diary.points[1:], right, atol=1e-12)
    away = np.array([half_square(x, mean) for x in printed])
    assert away[-1] > 3 * bounds[-1]
    assert away[-1] > 30 * ours[-1]


# ---------------------------------------------------------------- E18: herding is Frank-Wolfe, when


def recursion(rows: Vector, mean: Vector, picks: int) -> tuple[list[int], list[Vector]]:
    """x = argmax <W, s>, W += mean - s, from W_0 = 0, whose tie the mean breaks."""
    w, chosen, seen = np.zeros(rows.shape[1]), [int(np.argmax(rows @ mean))], []
    for _ in range(picks):
        w = w + mean - rows[chosen[-1]]
        seen.append(w)
        chosen.append(int(np.argmax(rows @ w)))
    return chosen[:-1], seen


@pytest.mark.parametrize("seed", range(4))
def test_e18_each_step_is_one_of_herding_for_equal_weights_only(seed: int) -> None:
    rows = cloud(80, 5, seed) + 0.5
    mean = rows.mean(axis=0)
    chosen, seen = recursion(rows, mean, 60)
    run, diary = followed(exact, rows, 60)
    assert_array_equal(run.picks, chosen)
    assert_array_equal(diary.hits[1:], chosen)
    for t, (w, x) in enumerate(zip(seen, diary.points[1:], strict=True), start=1):
        assert_allclose(t * (mean - x), w, atol=1e-12)  # W_t = t (mu - w_t)
    printed, other = followed(exact, rows, 60, step=OpenLoop(2.0))  # the steps of Alg. 3
    assert printed.picks.tolist() != chosen
    assert np.abs(60 * (mean - other.points[60]) - seen[59]).max() > 0.1


def test_e18_another_first_w_picks_others() -> None:
    rows = cloud(80, 5)
    mean = rows.mean(axis=0)
    w, chosen = 10.0 * rows[0], []
    for _ in range(40):
        chosen.append(int(np.argmax(rows @ w)))
        w = w + mean - rows[chosen[-1]]
    assert exact(rows, 40).picks.tolist() != chosen


def schedule_weights(picks: Ids, ell: float) -> dict[int, float]:
    """v_t = eta_t prod_(j>t) (1 - eta_j), summed over the repeats of an atom."""
    etas = ell / (np.arange(len(picks)) + ell)
    weights: dict[int, float] = {}
    for t, atom in enumerate(picks.tolist()):
        weights[atom] = weights.get(atom, 0.0) + float(etas[t] * np.prod(1.0 - etas[t + 1 :]))
    return weights


@pytest.mark.parametrize("ell", [1.0, 2.0, 4.0])
def test_e18_the_schedule_decides_the_weights_and_repeats_are_merged(ell: float) -> None:
    rows = cloud(12, 3)
    run = exact(rows, 50, step=OpenLoop(ell))
    wanted = schedule_weights(run.picks, ell)
    assert len(run.picks) == 50
    assert len(run.ids) < 50
    assert_array_equal(run.ids, list(wanted))  # in the order of the first pick
    assert_allclose(run.weights, list(wanted.values()), rtol=1e-12)
    assert_allclose(run.weights @ rows[run.ids], run.x, atol=1e-14)


def test_e18_equal_steps_count_picks_and_the_printed_ones_favour_the_late() -> None:
    rows = np.eye(40)  # no repeats: 40 corners
    even, late = (exact(rows, 30, step=OpenLoop(ell)) for ell in (1.0, 2.0))
    assert len(even.ids) == len(late.ids) == 30
    assert_allclose(even.weights, 1 / 30, rtol=1e-12)
    assert_allclose(late.weights, 2 * np.arange(1, 31) / (30 * 31), rtol=1e-12)


def test_e18_the_hull_is_that_of_the_features_not_of_the_rows() -> None:
    rows = cloud(300, 3)
    features = RandomFourier(cloud(3, 8, seed=1))
    phi = features(rows)
    run = exact(rows, 60, features)
    assert_array_equal(run.picks, exact(phi, 60).picks)
    assert run.picks.tolist() != exact(rows, 60).picks.tolist()
    assert_allclose(run.mean, phi.mean(axis=0, dtype=np.float64), atol=1e-6)
    assert run.value <= theory.herding_gap_after(60, c=1.0, diameter=widest(phi))


# ---------------------------------------------------------------- E18: rates with the worst answers


def worst(rows: Vector, c: float) -> tuple[Degraded, Follower]:
    follower = Follower()
    return Degraded(Scan(rows), c, follower.here), follower


@pytest.mark.slow
@given(seeds, st.sampled_from([0.55, 0.6, 0.75, 0.9, 1.0]))
def test_e18_a_ratio_above_one_half_keeps_one_over_t(seed: int, c: float) -> None:
    draws = np.random.default_rng(seed)
    rows = draws.standard_normal((15, 3)) * draws.uniform(0.1, 3.0, 3)
    weights = draws.dirichlet(np.full(15, 0.3))
    oracle, follower = worst(rows, c)
    gaps: list[float] = []

    def note(state: State) -> None:
        follower(state)
        gaps.append(half_square(state.point.x, weights @ rows))

    pick_in_features(rows, 30, oracle=oracle, row_weights=weights, callback=note)
    assert min(oracle.ratios) >= c
    for t, gap in enumerate(gaps[1:], start=1):
        assert gap <= theory.herding_gap_after(t, c=c, diameter=widest(rows)) * (1 + 1e-12)


def far_end(c: float, picks: int) -> list[float]:
    """h_t on [0, 1] for mu = 100: the worst answers go a share c of what is left of the way."""
    rows = np.append(1.0 - 0.97 ** np.arange(400), 1.0)[:, None]
    oracle, follower = worst(rows, c)
    gaps: list[float] = []

    def note(state: State) -> None:
        follower(state)
        gaps.append(half_square(state.point.x, np.array([100.0])) - 0.5 * 99.0**2)

    pick_in_features(rows, picks, oracle=oracle, target=[[100.0]], callback=note)
    return gaps[1:]


@pytest.mark.slow
@pytest.mark.parametrize("c", [0.55, 0.75, 0.9])
def test_e18_for_a_mean_outside_only_t_to_the_minus_c_holds(c: float) -> None:
    gaps = far_end(c, 400)
    inside = theory.herding_gap_after(400, c=c, diameter=1.0)
    assert gaps[-1] > 2 * inside  # the rate of a mean in the hull is not kept
    outside = [gaps[0]]
    for t in range(1, 400):  # h_(t+1) <= (1 - c/(t+1)) h_t + D^2 / (2 (t+1)^2)
        outside.append((1 - c / (t + 1)) * outside[-1] + 0.5 / (t + 1) ** 2)
    assert np.all(np.array(gaps) <= np.array(outside) * (1 + 1e-9))
    fitted = np.polyfit(np.log(np.arange(50, 401)), np.log(gaps[49:]), 1)[0]
    assert fitted == pytest.approx(-c, abs=0.05)


# ---------------------------------------------------------------- closed forms


@pytest.mark.parametrize("n", [2, 5, 16])
def test_on_the_simplex_each_corner_is_picked_once(n: int) -> None:
    run, diary = followed(exact, np.eye(n), 3 * n)
    assert sorted(run.picks.tolist()) == list(range(n))  # then w is the mean, and the run is over
    assert run.status is Status.FINISHED
    assert_allclose(run.weights, 1 / n, rtol=1e-12)
    assert run.distance <= 1e-15
    values = [half_square(x, run.mean) for x in diary.points[1 : n + 1]]
    assert_allclose(values, [0.5 / t - 0.5 / n for t in range(1, n + 1)], atol=1e-14)


@pytest.mark.parametrize("size", [4, 6, 10])
def test_on_an_even_ring_picks_come_in_opposite_pairs(size: int) -> None:
    rows = ring(size)
    run = exact(rows, 2, row_weights=np.ones(size))
    assert_allclose(rows[run.picks].sum(axis=0), 0.0, atol=1e-15)
    assert run.distance <= 1e-15


def test_line_search_is_frank_wolfe_from_the_best_first_atom() -> None:
    rows = cloud(200, 6) + 1.0
    mean = rows.mean(axis=0)
    run = exact(rows, 30, step=LineSearch())
    w = rows[np.argmax(rows @ mean)]
    for _ in range(29):
        away = rows[np.argmax(rows @ (mean - w))] - w
        w = w + min(1.0, float(away @ (mean - w)) / float(away @ away)) * away
    assert_allclose(run.x, w, atol=1e-12)
    assert run.value < exact(rows, 30).value
    assert run.weights.sum() == pytest.approx(1.0, abs=1e-12)


# ---------------------------------------------------------------- the mean


def test_the_mean_is_that_of_the_rows_of_weighted_rows_or_of_a_target() -> None:
    rows, other, shares = cloud(100, 4), cloud(70, 4, seed=1) + 0.3, np.arange(100.0)
    assert_allclose(exact(rows, 2).mean, rows.mean(axis=0), atol=1e-14)
    assert_allclose(exact(rows, 2, row_weights=shares).mean, shares @ rows / shares.sum(), atol=1e-14)
    matched = exact(rows, 200, target=other)
    assert_allclose(matched.mean, other.mean(axis=0), atol=1e-14)
    assert matched.distance < 0.05
    assert exact(rows, 2).passes == 1 + matched.trace.passes[2]
    weighted = exact(rows, 2, target=other, row_weights=np.arange(70.0))
    assert_allclose(weighted.mean, np.arange(70.0) @ other / np.arange(70.0).sum(), atol=1e-14)


def test_a_mean_far_outside_is_answered_by_the_closest_point() -> None:
    rows = cloud(50, 3)
    run = exact(rows, 40, target=[[9.0, 1.0, 0.0]], step=LineSearch())
    best = minimize(SquaredDistance([9.0, 1.0, 0.0]), rows, rtol=1e-9)
    assert run.lower <= best.value * (1 + 1e-12)
    assert run.value >= best.lower
    assert run.value == pytest.approx(best.value, rel=1e-3)


def test_one_atom_that_is_the_closest_ends_the_run() -> None:
    rows = np.array([[1.0, 0.0], [-1.0, 0.5], [-1.0, -0.5]])
    run = exact(rows, 20, target=[[5.0, 0.0]])
    assert run.picks.tolist() == [0]  # each further pick would be the same
    assert (run.status, run.weights.tolist()) == (Status.FINISHED, [1.0])
