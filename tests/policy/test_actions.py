"""`ActionSet`: batched directions, the cache, subsets, points of the hull, draws."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from tests.policy.problems import Blind, Mute
from wolfhound import ClusterIndex, RandomSubset, Scan
from wolfhound.data.atoms import ArrayAtoms
from wolfhound.policy import ActionSet, fwpo, random_acmdp
from wolfhound.policy.actions import Winners

Array = NDArray[np.float64]


def normal(n: int, d: int, seed: int = 0, dtype: type = np.float64) -> NDArray[Any]:
    return np.random.default_rng(seed).standard_normal((n, d)).astype(dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("m", [1, 3, 40])
def test_exact_argmax_is_the_best_atom(m: int, dtype: type) -> None:
    rows, directions, points = normal(300, 6, dtype=dtype), normal(m, 6, 1), normal(m, 6, 2)
    chosen = ActionSet(rows).argmax(directions, points=points)
    scores = directions @ rows.T.astype(np.float64)
    np.testing.assert_array_equal(chosen.ids, scores.argmax(axis=1))
    np.testing.assert_array_equal(chosen.rows, rows[chosen.ids])
    assert chosen.rows.dtype == dtype
    np.testing.assert_allclose(chosen.scores, scores.max(axis=1), rtol=1e-12)
    np.testing.assert_allclose(chosen.gaps, scores.max(axis=1) - (directions * points).sum(axis=1), rtol=1e-9)
    assert chosen.is_proved.all() and (chosen.bounds >= chosen.scores).all()
    assert chosen.scored >= 300 * m and chosen.passes == 1.0


def test_gaps_are_unknown_without_points() -> None:
    assert np.isnan(ActionSet(np.eye(3)).argmax(np.eye(3)).gaps).all()


def test_inputs_are_not_written_to() -> None:
    rows, directions = normal(50, 4), normal(5, 4, 1)
    rows.setflags(write=False)
    directions.setflags(write=False)
    before = rows.copy(), directions.copy()
    actions = ActionSet(rows, oracle=RandomSubset(rows, size=5))
    actions.argmax(directions, points=directions)
    actions.project(directions)
    np.testing.assert_array_equal(rows, before[0])
    np.testing.assert_array_equal(directions, before[1])


def test_past_winners_join_where_nothing_is_proved() -> None:
    rows = np.concatenate([normal(20, 5), 10.0 * np.eye(5)])
    actions = ActionSet(rows, oracle=Blind(rows, 20))
    directions = np.eye(5)
    assert (actions.argmax(directions).ids < 20).all()
    # Choosing from a subset finds them, and the cache keeps them.
    found = actions.argmax(directions, subset=[20, 21])
    assert set(found.ids.tolist()) == {20, 21}
    again = actions.argmax(directions)
    np.testing.assert_array_equal(again.ids[:2], [20, 21])
    np.testing.assert_array_equal(again.scores[:2], [10.0, 10.0])
    np.testing.assert_array_equal(again.rows, rows[again.ids])
    assert np.isinf(again.bounds).all()


def test_without_a_cache_winners_are_forgotten() -> None:
    rows = np.concatenate([normal(20, 5), 10.0 * np.eye(5)])
    actions = ActionSet(rows, oracle=Blind(rows, 20), cache=0)
    actions.argmax(np.eye(5), subset=[20, 21])
    assert (actions.argmax(np.eye(5)).ids < 20).all()


def test_an_exact_set_needs_no_cache() -> None:
    actions = ActionSet(np.eye(3))
    assert actions.argmax(np.eye(3)).scored == actions.argmax(np.eye(3)).scored


def test_the_cache_lifts_what_a_poor_oracle_finds() -> None:
    rows, directions = normal(2000, 16), normal(64, 16, 3)
    best = (directions @ rows.T).max(axis=1).mean()
    shares = []
    for cache in (0, 256):
        actions = ActionSet(rows, oracle=RandomSubset(rows, size=50), cache=cache)
        shares.append([actions.argmax(directions).scores.mean() / best for _ in range(20)][-1])
    assert shares[1] > shares[0] + 0.1


@given(
    st.lists(st.lists(st.integers(0, 30), min_size=1, max_size=12), min_size=1, max_size=12),
    st.integers(0, 8),
)
@settings(max_examples=60, deadline=None)
def test_winners_are_the_last_distinct_ones(batches: list[list[int]], room: int) -> None:
    rows = np.arange(31.0)[:, None]
    winners = Winners(ArrayAtoms(rows), room)
    order: list[int] = []
    for batch in batches:
        ids = np.array(batch, np.int64)
        winners.remember(ids, rows[ids])
        ranked = sorted(set(batch), key=lambda i: (-batch.count(i), i))[:room]
        order = [i for i in order if i not in ranked] + ranked[::-1]
        order = order[max(0, len(order) - room) :]
    kept, kept_rows = (winners.ids, winners.rows)
    assert kept.tolist() == order[::-1]
    np.testing.assert_array_equal(kept_rows[:, 0], kept)


@pytest.mark.parametrize("mute", [[0], [0, 1, 2]])
def test_what_an_oracle_leaves_unanswered_is_scanned(mute: list[int]) -> None:
    rows, directions = normal(300, 6), normal(3, 6, 1)
    chosen = ActionSet(rows, oracle=Mute(rows, 40, mute=mute), cache=0).argmax(directions)
    best = (directions @ rows.T).argmax(axis=1)
    np.testing.assert_array_equal(chosen.ids[mute], best[mute])
    np.testing.assert_array_equal(chosen.rows, rows[chosen.ids])
    assert chosen.is_proved[mute].all() and chosen.passes == 1.0


# ---------------------------------------------------------------- subsets


@pytest.mark.parametrize("size", [1, 5, 60, 300])
def test_a_subset_gives_its_best_atom(size: int) -> None:
    rows, directions = normal(300, 6), normal(9, 6, 1)
    part = np.random.default_rng(2).permutation(300)[:size]
    chosen = ActionSet(rows).argmax(directions, subset=part)
    expected = np.sort(part)[(directions @ rows[np.sort(part)].T).argmax(axis=1)]
    np.testing.assert_array_equal(chosen.ids, expected)
    np.testing.assert_array_equal(chosen.rows, rows[expected])
    assert chosen.passes == pytest.approx(size / 300)


def test_a_large_subset_of_an_index_is_filtered() -> None:
    rows, directions = normal(300, 6), normal(9, 6, 1)
    oracle = Blind(rows, 300)
    part = np.arange(0, 300, 2)
    chosen = ActionSet(rows, oracle=oracle, cache=0).argmax(directions, subset=part)
    np.testing.assert_array_equal(chosen.ids, part[(directions @ rows[part].T).argmax(axis=1)])
    assert oracle.asked == [(9, 32)] and chosen.passes == 0.0


def test_what_filtering_leaves_empty_is_scanned() -> None:
    rows, directions = normal(300, 6), normal(9, 6, 1)
    part = np.arange(200, 300)
    chosen = ActionSet(rows, oracle=Blind(rows, 150), cache=0).argmax(directions, subset=part)
    np.testing.assert_array_equal(chosen.ids, part[(directions @ rows[part].T).argmax(axis=1)])
    assert chosen.is_proved.all() and chosen.passes == pytest.approx(1 / 3)


def test_a_small_subset_of_an_index_is_scanned() -> None:
    rows = normal(300, 6)
    oracle = Blind(rows, 300)
    chosen = ActionSet(rows, oracle=oracle).argmax(normal(4, 6, 1), subset=np.arange(29))
    assert oracle.asked == [] and chosen.is_proved.all()


def test_the_cache_stays_within_the_subset() -> None:
    rows = np.concatenate([normal(60, 5), 10.0 * np.eye(5)])
    actions = ActionSet(rows, oracle=Blind(rows, 40))
    actions.argmax(np.eye(5), subset=np.arange(60, 65))
    chosen = actions.argmax(np.eye(5), subset=np.arange(50))
    assert (chosen.ids < 50).all()


def test_a_prepared_subset_is_the_same() -> None:
    actions = ActionSet(normal(100, 4))
    part = actions.subset([9, 3, 50])
    assert len(part) == 3
    np.testing.assert_array_equal(part.has(np.array([3, 4, 50, -1])), [True, False, True, False])
    np.testing.assert_array_equal(
        actions.argmax(normal(5, 4, 1), subset=part).ids,
        actions.argmax(normal(5, 4, 1), subset=[3, 9, 50]).ids,
    )


# ---------------------------------------------------------------- points of the hull


def test_projections_are_mixtures_of_atoms_and_come_closer() -> None:
    rows, points = normal(200, 8), 3.0 * normal(20, 8, 1)
    distances = []
    for steps in (0, 1, 4, 60):
        found = ActionSet(rows).project(points, steps=steps)
        assert found.ids.shape == found.weights.shape == (20, steps + 1)
        assert (found.weights >= 0.0).all()
        np.testing.assert_allclose(found.weights.sum(axis=1), 1.0, rtol=1e-12)
        np.testing.assert_allclose(found.points, np.einsum("mk,mkd->md", found.weights, rows[found.ids]))
        distances.append(np.square(found.points - points).sum(axis=1))
    assert all((after <= before + 1e-9).all() for before, after in itertools.pairwise(distances))
    exact = np.array([2.0 * ActionSet(rows).prove(point).value for point in points])
    assert (distances[-1] >= exact - 1e-6).all() and (distances[-1] <= 1.05 * exact).all()


def test_a_point_inside_stays_put() -> None:
    found = ActionSet(np.eye(2)).project([[0.25, 0.75]], steps=1)
    np.testing.assert_allclose(found.points, [[0.25, 0.75]], atol=1e-12)


def test_prove_says_how_far_the_hull_is() -> None:
    inside, outside = (
        ActionSet(np.eye(3)).prove(np.full(3, 1 / 3)),
        ActionSet(np.eye(3)).prove([2.0, 0.0, 0.0]),
    )
    assert inside.value <= 1e-9 and outside.lower == pytest.approx(0.5)


@pytest.mark.parametrize("unit", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_nearest_is_the_nearest(unit: bool, dtype: type) -> None:
    rows, points = normal(400, 5, dtype=dtype), 2.0 * normal(30, 5, 1)
    rows = rows / (np.sqrt(np.square(rows).sum(axis=1, keepdims=True)) if unit else dtype(1.0))
    squares = np.square(points[:, None] - rows.astype(np.float64)).sum(axis=2)
    actions = ActionSet(rows, oracle=RandomSubset(rows, size=3))
    np.testing.assert_array_equal(actions.nearest(points), squares.argmin(axis=1))
    np.testing.assert_array_equal(actions.neighbours(points, 4), np.argsort(squares, axis=1)[:, :4])
    assert actions.neighbours(points, 1000).shape == (30, 400)


def test_drawing_is_unbiased() -> None:
    rows = normal(30, 3)
    actions = ActionSet(rows)
    mixture = actions.project(normal(1, 3, 1), steps=6)
    m = 20_000
    ids = actions.draw(np.repeat(mixture.ids, m, axis=0), np.repeat(mixture.weights, m, axis=0))
    spread = rows[ids].std(axis=0) / np.sqrt(m)
    assert (np.abs(rows[ids].mean(axis=0) - mixture.points[0]) <= 5.0 * spread + 1e-9).all()


@given(st.integers(0, 2**32), st.integers(1, 6))
@settings(max_examples=40, deadline=None)
def test_what_has_no_weight_is_never_drawn(seed: int, k: int) -> None:
    rng = np.random.default_rng(seed)
    weights = rng.dirichlet(np.ones(k), 50) * (rng.random((50, k)) < 0.5)
    weights[:, 0] += weights.sum(axis=1) == 0.0
    weights /= weights.sum(axis=1, keepdims=True)
    ids = np.tile(np.arange(k), (50, 1))
    drawn = ActionSet(np.eye(6)).draw(ids, weights, rng)
    assert (weights[np.arange(50), drawn] > 0.0).all()


def test_random_atoms_and_seeds() -> None:
    rows = normal(50, 3)
    drawn, ids = ActionSet(rows, seed=4).random(500)
    np.testing.assert_array_equal(drawn, rows[ids])
    assert len(np.unique(ids)) > 45
    np.testing.assert_array_equal(ids, ActionSet(rows, seed=4).random(500)[1])
    assert not np.array_equal(ids, ActionSet(rows, seed=5).random(500)[1])
    np.testing.assert_array_equal(ids, ActionSet(rows).random(500, np.random.default_rng(4))[1])


def test_an_index_in_the_set() -> None:
    rows = normal(3000, 8, dtype=np.float32)
    index = ClusterIndex.build(rows)
    actions = ActionSet(rows, oracle=index)
    chosen = actions.argmax(normal(20, 8, 1), points=np.zeros((20, 8)))
    assert actions.oracle is index and not actions.exact
    assert (actions.n, actions.dim) == (3000, 8)
    assert chosen.scored < 20 * 3000 and chosen.passes == 0.0 and not chosen.is_proved.any()
    assert "ClusterIndex" in repr(actions)


# ---------------------------------------------------------------- mistakes


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda a: a.argmax(np.ones((2, 4))), r"`directions` must be a \(m, 3\) array. Got shape \(2, 4\)"),
        (lambda a: a.argmax(np.ones((2, 3)), points=np.ones((1, 3))), r"`points` must be a \(2, 3\) array"),
        (lambda a: a.argmax(np.full((1, 3), np.nan)), "`directions` must be finite"),
        (lambda a: a.argmax(np.ones((1, 3)), subset=[]), "`subset` must be at least one id. Got none"),
        (lambda a: a.argmax(np.ones((1, 3)), subset=[0, 3]), r"`subset` must be ids in \[0, 3\)"),
        (lambda a: a.argmax(np.ones((1, 3)), subset=[1, 1]), "`subset` must be distinct ids"),
        (
            lambda a: a.argmax(np.ones((1, 3)), subset=ActionSet(np.eye(9)).subset([8])),
            r"`subset` must be ids in \[0, 3\). Got up to 8",
        ),
        (lambda a: a.project(np.ones((1, 3)), steps=-1), "`steps` must be an integer >= 0"),
        (lambda a: a.neighbours(np.ones((1, 3)), 0), "`k` must be an integer >= 1"),
        (lambda a: a.draw([[0, 1]], [[0.5, 0.6]]), "`weights` must be >= 0 with rows of sum 1"),
        (lambda a: a.draw([[0]], [[0.5, 0.5]]), r"`ids` must be like `weights`, \(1, 2\)"),
        (lambda a: a.random(0), "`m` must be an integer >= 1"),
        (lambda a: ActionSet(np.eye(3), oracle=Scan(np.eye(4))), "`oracle` must be an oracle over the same"),
        (lambda a: ActionSet(np.eye(3), cache=-1), "`cache` must be an integer >= 0"),
    ],
)
def test_mistakes(call: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call(ActionSet(np.eye(3)))


def test_ids_to_draw_are_integers() -> None:
    with pytest.raises(TypeError, match="`ids` must be an array of integer ids"):
        ActionSet(np.eye(3)).draw([[0.5]], [[1.0]])


@pytest.mark.parametrize("wrong", [-1, 3, 99])
def test_ids_to_draw_are_atoms(wrong: int) -> None:
    actions = ActionSet(np.eye(3))
    with pytest.raises(ValueError, match=r"`ids` must be ids in \[0, 3\)"):
        actions.draw([[0, wrong]], [[0.5, 0.5]])
    assert actions.draw([[2, wrong]], [[1.0, 0.0]]) == [2]


def test_policies_with_padded_ids_can_be_drawn() -> None:
    result = fwpo(random_acmdp(4, 20, 3, curvature=1.0))
    assert (result.ids == -1).any()
    drawn = ActionSet(np.eye(20)).draw(result.ids, result.weights)
    assert (drawn >= 0).all()
