"""The parts that turn candidates into hits, against plain numpy."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from tests.conformance.oracle import check_hits, true_scores
from wolfhound.core.contracts import Hits, Vector
from wolfhound.data.atoms import ArrayAtoms
from wolfhound.oracles.asking import (
    Cost,
    check_question,
    join,
    keep_highest,
    lengths,
    offer,
    patch,
    rank,
    rescore,
    settle,
    slacks,
)

few_values = arrays(np.float64, st.integers(1, 60), elements=st.sampled_from([-1.0, 0.0, 0.5, 2.0]))


@given(scores=few_values, count=st.integers(1, 70))
def test_the_highest_are_the_first_of_equals(scores: Vector, count: int) -> None:
    expected = np.lexsort((np.arange(len(scores)), -scores))[:count]
    found, ids = keep_highest(scores, np.arange(len(scores)), count)
    np.testing.assert_array_equal(ids, np.sort(expected))
    np.testing.assert_array_equal(found, scores[ids])


@pytest.mark.slow
@given(seed=st.integers(0, 10**6), limit=st.sampled_from([1, 7, 900, 30000]), step=st.integers(1, 5000))
def test_best_of_a_stream_is_the_best_of_all(seed: int, limit: int, step: int) -> None:
    scores = np.random.default_rng(seed).integers(0, 200, 20000).astype(np.float64)
    best, ids = np.empty(0), np.empty(0, np.int64)
    for start in range(0, len(scores), step):
        more = scores[start : start + step]
        places = start + np.arange(len(more))
        best, ids = keep_highest(np.concatenate((best, more)), np.concatenate((ids, places)), limit)
    expected = rank(scores[None], np.arange(len(scores))[None], limit)
    assert len(ids) == min(limit, len(scores))
    for mine, right in zip(rank(best[None], ids[None], limit), expected, strict=True):
        np.testing.assert_array_equal(mine, right)


def test_best_of_nothing_is_empty() -> None:
    scores, ids = keep_highest(np.empty(0), np.empty(0, np.int64), 2)
    assert len(scores) == len(ids) == 0


@given(
    st.integers(1, 20).flatmap(
        lambda d: arrays(
            np.float64, (3, d), elements=st.floats(-1e300, 1e300, allow_nan=False, allow_subnormal=True)
        )
    )
)
def test_lengths_are_rounded_up(rows: Vector) -> None:
    truth = np.sqrt((rows.astype(np.longdouble) ** 2).sum(axis=1))
    computed = lengths(rows)
    assert (computed >= truth).all()
    assert (computed <= truth * (1.0 + 1e-14) + 1e-300).all()


def test_lengths_beyond_float64_are_infinite() -> None:
    assert lengths(np.full((1, 9), 1e308))[0] == np.inf


def test_slack_grows_with_query_and_radius() -> None:
    small, large = slacks(np.array([1.0, 2.0]), 100, 3.0)
    assert 0.0 < small < large < 1e-12
    with pytest.raises(ValueError, match="`queries` must be so small"):
        slacks(np.array([1e200]), 100, 1e150)


def test_rescore_takes_rows_as_they_are() -> None:
    rows = np.arange(6, dtype=np.float32).reshape(3, 2)
    np.testing.assert_array_equal(rescore(rows, np.array([1.0, 10.0])), [10.0, 32.0, 54.0])
    assert rows.flags.writeable


def test_rank_breaks_ties_by_id_and_pads() -> None:
    scores, ids = rank(np.array([[1.0, 2.0, 2.0, -np.inf]]), np.array([[4, 9, 3, -1]]), 6)
    np.testing.assert_array_equal(ids, [[3, 9, 4, -1, -1, -1]])
    np.testing.assert_array_equal(scores[0, :3], [2.0, 2.0, 1.0])
    assert (scores[0, 3:] == -np.inf).all()


def test_excluded_ids_are_sorted_and_banned() -> None:
    question = check_question(
        ArrayAtoms(np.ones((9, 2))), np.ones((2, 2)), 1, np.array([[5, -1, 2], [-1, -1, -1]])
    )
    np.testing.assert_array_equal(question.exclusions(0), [2, 5])
    assert len(question.exclusions(1)) == 0
    assert len(question.only(slice(1, 2)).queries) == 1


# ---------------------------------------------------------------- settle


def _settled(error: float, *, k: int, m: int = 40, n: int = 300) -> tuple[Hits, Vector, Vector]:
    """Settle candidates whose upper bounds are wrong by up to twice `error`."""
    rng = np.random.default_rng(k)
    rows, queries = rng.standard_normal((n, 4)), rng.standard_normal((m, 4))
    uppers = queries @ rows.T + error * (1.0 + rng.uniform(-1.0, 1.0, (m, n)))
    order = np.argsort(-uppers, axis=1)
    sorted_uppers = np.take_along_axis(uppers, order, 1)
    width = n // 2
    hits = settle(
        ArrayAtoms(rows),
        check_question(ArrayAtoms(rows), queries, k, None),
        order[:, :width],
        sorted_uppers[:, :width] + 1e-9,
        rest=sorted_uppers[:, width] + 1e-9,
        cost=Cost(np.full(m, n), 1.0, float(lengths(rows).max())),
    )
    return hits, rows, queries


@pytest.mark.parametrize("k", [1, 3, 40])
@pytest.mark.parametrize("error", [0.0, 0.1, 0.7])
def test_settle_finds_the_best_behind_wrong_bounds(error: float, k: int) -> None:
    hits, rows, queries = _settled(error, k=k)
    truth = true_scores(queries, rows)
    check_hits(hits, queries, rows, k)
    np.testing.assert_array_equal(hits.ids[:, 0], truth.argmax(axis=1))
    assert (hits.bounds >= truth.max(axis=1)).all()
    assert (hits.bounds <= truth.max(axis=1) + 1e-12).all()


def test_settle_says_when_the_rest_may_be_better() -> None:
    hits, _, _ = _settled(100.0, k=2)
    assert (hits.bounds > hits.scores[:, 0] + 10.0).all()


def test_settle_without_candidates_proves_that_there_are_none() -> None:
    atoms = ArrayAtoms(np.ones((4, 2)))
    hits = settle(
        atoms,
        check_question(atoms, np.ones((1, 2)), 3, None),
        np.full((1, 5), -1),
        np.full((1, 5), -np.inf),
        rest=np.array([-np.inf]),
        cost=Cost(np.array([4]), 1.0, 2.0),
    )
    np.testing.assert_array_equal(hits.ids, [[-1, -1, -1]])
    assert hits.bounds[0] == hits.scores[0, 0] == -np.inf
    assert hits.rows.shape == (0, 2)


# ---------------------------------------------------------------- putting answers together


def test_joined_answers_keep_their_rows() -> None:
    hits, rows, queries = _settled(0.1, k=3)
    again = join([hits, hits])
    check_hits(again, np.concatenate([queries, queries]), rows, 3)
    assert again.passes == 2.0
    assert join([hits]) is hits


def test_patched_answers_replace_and_add_cost() -> None:
    hits, rows, queries = _settled(100.0, k=2)
    question = check_question(ArrayAtoms(rows), queries[[1, 3]], 2, None)
    exact = rank(question.queries @ rows.T, np.tile(np.arange(len(rows)), (2, 1)), 2)
    other = Hits(
        ids=exact[1],
        scores=exact[0],
        bounds=exact[0][:, 0] + 1e-12,
        rows=rows,
        slots=exact[1],
        scored=np.array([300, 300]),
        passes=1.0,
        radius=hits.radius,
    )
    out = patch(hits, np.array([1, 3]), other)
    check_hits(out, queries, rows, 2)
    np.testing.assert_array_equal(out.ids[[1, 3]], exact[1])
    np.testing.assert_array_equal(out.ids[[0, 2, 4]], hits.ids[[0, 2, 4]])
    np.testing.assert_array_equal(out.scored - hits.scored, 300 * np.isin(np.arange(len(queries)), [1, 3]))
    assert (hits.scored > 300).all()  # the re-scored count, too
    assert out.passes == 2.0


def test_offered_ranks_what_it_is_given_and_proves_nothing() -> None:
    rows = np.random.default_rng(3).standard_normal((20, 4)).astype(np.float32)
    question = check_question(ArrayAtoms(rows), rows[:2], 3, None)
    ids = np.array([[5, 0, 7, -1], [-1, -1, 4, 1]])
    hits = offer(ArrayAtoms(rows), question, ids, scored=np.array([3, 2]))
    check_hits(hits, question.queries, rows, 3)
    assert (hits.bounds == np.inf).all()
    assert (hits.passes, hits.radius) == (0.0, np.inf)
    assert hits.ids[0, 0] == 0
    assert set(hits.ids[1]) == {1, 4, -1}


def test_offered_names_a_query_whose_score_overflows() -> None:
    rows = np.full((3, 2), 1e200)
    question = check_question(ArrayAtoms(rows), np.full((1, 2), 1e200), 1, None)
    with pytest.raises(ValueError, match="`queries` must be so small"):
        offer(ArrayAtoms(rows), question, np.array([[0, 1]]), scored=np.array([2]))
