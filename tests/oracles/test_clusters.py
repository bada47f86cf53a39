"""`ClusterIndex`: probing in rounds, proofs on demand, and the bucketing itself."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.conformance.oracle import check_hits, check_oracle, true_scores
from wolfhound.core.contracts import Matrix, Vector
from wolfhound.core.threads import set_threads
from wolfhound.data.atoms import ArrayAtoms, ConcatAtoms, FileAtoms
from wolfhound.oracles import _probe_kernels as kernels
from wolfhound.oracles import buckets
from wolfhound.oracles.clusters import ClusterIndex, Clusters, nearest
from wolfhound.oracles.scan import Scan


def blobs(n: int = 4000, d: int = 12, seed: int = 0) -> Matrix:
    rng = np.random.default_rng(seed)
    centres = 3.0 * rng.standard_normal((20, d))
    return (centres[rng.integers(0, 20, n)] + rng.standard_normal((n, d))).astype(np.float32)


ROWS = blobs()
INDEX = ClusterIndex.build(ROWS)


@pytest.mark.slow
def test_conformance() -> None:
    check_oracle(ClusterIndex.build, exact=False)


def test_conformance_with_proof() -> None:
    # Without thresholds exact; the kit's thresholds of 0 may be met by any atom.
    rows = blobs(200)
    queries = np.random.default_rng(1).standard_normal((9, 12))
    hits = ClusterIndex.build(rows, proof=True).query(queries, k=4)
    exact = Scan(rows).query(queries, k=4)
    np.testing.assert_array_equal(hits.ids, exact.ids)
    np.testing.assert_array_equal(hits.scores, exact.scores)
    assert (hits.bounds >= true_scores(queries, rows).max(axis=1)).all()
    assert hits.passes == 1.0


def test_most_answers_are_the_best_from_few_atoms() -> None:
    queries = np.random.default_rng(2).standard_normal((200, 12))
    hits = INDEX.query(queries, k=3)
    check_hits(hits, queries, ROWS, 3)
    best = true_scores(queries, ROWS).max(axis=1)
    assert (hits.scores[:, 0] >= best - 1e-9).mean() > 0.9
    assert hits.scored.mean() < 0.4 * len(ROWS)
    assert hits.passes == 0.0
    assert (hits.bounds == np.inf).all()


@pytest.mark.slow
@given(seed=st.integers(0, 10**6), quantile=st.floats(0.0, 1.1), m=st.integers(1, 40))
def test_a_threshold_is_met_or_proved_out_of_reach(seed: int, quantile: float, m: int) -> None:
    rng = np.random.default_rng(seed)
    queries = rng.standard_normal((m, 12))
    truth = true_scores(queries, ROWS).astype(np.float64)
    low, high = np.median(truth, axis=1), truth.max(axis=1)
    thresholds = low + quantile * (high - low)
    options: dict[str, Any] = {"budget": 20, "proof": True}  # so small that rounds are needed
    index = ClusterIndex(INDEX.atoms, INDEX._clusters, INDEX._buckets, training=INDEX._training, **options)
    hits = index.query(queries, thresholds=thresholds)
    check_hits(hits, queries, ROWS, 1)
    met = hits.scores[:, 0] >= thresholds
    assert (hits.bounds[~met] < thresholds[~met] + 1e-9).all()
    assert (hits.bounds >= high - 1e-9).all()


def test_rounds_go_on_until_the_threshold() -> None:
    queries = np.random.default_rng(3).standard_normal((50, 12))
    best = true_scores(queries, ROWS).astype(np.float64).max(axis=1)
    index = INDEX.with_budget(30)
    once, rounds = index.query(queries), index.query(queries, thresholds=best - 1e-9)
    easy = index.query(queries, thresholds=np.full(50, -np.inf))
    np.testing.assert_array_equal(easy.scores, once.scores)
    np.testing.assert_array_equal(easy.scored, once.scored)
    missed = once.scores[:, 0] < best - 1e-9
    assert missed.any()
    assert (rounds.scored[missed] > once.scored[missed]).all()
    np.testing.assert_array_equal(rounds.scored[~missed], once.scored[~missed])
    assert (rounds.scores >= once.scores).all()
    assert (rounds.scored <= buckets.CAP * len(ROWS) + 2000).all()


def test_a_larger_budget_scores_more_and_is_never_worse() -> None:
    queries = np.random.default_rng(4).standard_normal((30, 12))
    answers = [INDEX.with_budget(budget).query(queries) for budget in (10, 100, 1000, 4000)]
    for a, b in itertools.pairwise(answers):
        assert (a.scored <= b.scored).all()
        assert (a.scores[:, 0] <= b.scores[:, 0]).all()
    np.testing.assert_allclose(answers[-1].scores[:, 0], true_scores(queries, ROWS).max(axis=1).astype(float))


def test_alone_and_together_the_answers_are_the_same() -> None:
    queries = np.random.default_rng(5).standard_normal((70, 12))
    try:
        for threads in (1, 2, 3):
            set_threads(threads)
            together = INDEX.query(queries, k=2, thresholds=np.full(70, 8.0))
            alone = [INDEX.query(query[None], k=2, thresholds=np.array([8.0])) for query in queries]
            np.testing.assert_array_equal(together.ids, np.concatenate([hits.ids for hits in alone]))
            np.testing.assert_array_equal(together.scored, np.concatenate([hits.scored for hits in alone]))
    finally:
        set_threads(None)


@pytest.mark.parametrize("scale", [1e-300, 1e-30, 1e30, 1e150])
def test_any_scale(scale: float) -> None:
    rows = scale * blobs(300).astype(np.float64)
    query = np.random.default_rng(6).standard_normal((1, 12)) / scale
    wide = ClusterIndex.build(rows, budget=300)
    assert wide.query(query).ids[0, 0] == Scan(rows).query(query).ids[0, 0]


def test_atoms_in_parts_and_in_files(tmp_path: Path) -> None:
    np.save(tmp_path / "rows.npy", ROWS)
    queries = np.random.default_rng(7).standard_normal((5, 12))
    expected = INDEX.query(queries, k=3)
    for atoms in (FileAtoms(tmp_path / "rows.npy"), ConcatAtoms([ROWS[:17], ROWS[17:]])):
        hits = ClusterIndex.build(atoms).query(queries, k=3)
        np.testing.assert_array_equal(hits.ids, expected.ids)
        np.testing.assert_array_equal(hits.scores, expected.scores)


def test_a_row_that_is_not_finite_is_named() -> None:
    rows = blobs(300).copy()
    rows[211, 3] = np.nan
    with pytest.raises(ValueError, match="row 211, column 3"):
        ClusterIndex.build(rows)


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"clusters": 0}, ValueError, "`clusters` must be an integer >= 1"),
        ({"budget": 0}, ValueError, "`budget` must be an integer >= 1"),
        ({"seed": -1}, ValueError, "`seed` must be"),
        ({"clusters": 2.5}, TypeError, "`clusters` must be an integer"),
    ],
)
def test_wrong_options_are_named(options: dict[str, Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        ClusterIndex.build(ROWS, **options)


@pytest.mark.parametrize(
    ("thresholds", "text"), [(np.zeros(3), "length 2"), (np.array([0.0, np.nan]), "nan")]
)
def test_wrong_thresholds_are_named(thresholds: Vector, text: str) -> None:
    with pytest.raises(ValueError, match=f"`thresholds` must be.*{text}"):
        INDEX.query(np.ones((2, 12)), thresholds=thresholds)


def test_repr_says_what_it_is() -> None:
    assert "clusters=126, budget=506, proof=False" in repr(INDEX)


# ---------------------------------------------------------------- the parts


@pytest.mark.slow
@given(seed=st.integers(0, 10**6), budget=st.integers(1, 3000), ties=st.booleans())
def test_order_lists_the_most_promising_buckets_first(seed: int, budget: int, ties: bool) -> None:
    rng = np.random.default_rng(seed)
    count = int(rng.choice([1, 30, 200, 1000, 5000]))
    sizes = rng.integers(0, int(rng.choice([40, 2000])), count)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    promises = (rng.integers(0, 3, count) if ties else rng.standard_normal(count)).astype(np.float32)
    room, more = kernels.make_room(count), kernels.make_room(count)
    whole = kernels.Promises.plain(promises[None])
    found = kernels.order(whole, 0, offsets, budget, room)
    chosen = room[1][0, :found]
    np.testing.assert_array_equal(chosen, np.argsort(-promises, kind="stable")[:found])
    # No more than is needed, and enough.
    assert sizes[chosen].sum() >= min(budget, sizes.sum())
    assert sizes[chosen[:-1]].sum() < budget
    # A larger budget begins with the same buckets.
    kernels.order(whole, 0, offsets, 2 * budget, more)
    np.testing.assert_array_equal(more[1][0, :found], chosen)


def test_promises_are_centre_scores_and_spreads() -> None:
    clusters = Clusters.train(ROWS, 30, len(ROWS), seed=0)
    queries = np.random.default_rng(8).standard_normal((11, 12))
    sizes = np.linalg.norm(queries, axis=1)
    promises = clusters.promises(queries, sizes).first
    owner, squares = nearest(clusters.centres, ROWS * np.float32(clusters.unit))
    counts = np.bincount(owner, minlength=30)
    spread = np.sqrt(np.bincount(owner, squares, minlength=30) / counts / 12 * 2.0 * np.log(counts))
    expected = queries @ clusters.centres.T.astype(np.float64) + sizes[:, None] * spread
    # Promises are only compared within a query: a shift and a scale of each are free.
    for mine, true in zip(promises, expected, strict=True):
        slope, shift = np.polyfit(mine, true, 1)
        assert slope > 0.0
        np.testing.assert_allclose(slope * mine + shift, true, atol=2e-2 * np.ptp(true))


def test_buckets_hold_every_atom_once() -> None:
    store = INDEX._buckets
    np.testing.assert_array_equal(np.sort(store.codes.ids), np.arange(len(ROWS)))
    owner = INDEX._clusters.assign(ROWS)
    lengths = np.linalg.norm(ROWS - store.codes.centre, axis=1)
    for bucket in range(len(store.offsets) - 1):
        held = store.codes.ids[store.offsets[bucket] : store.offsets[bucket + 1]]
        assert (owner[held] == bucket).all()
        assert (np.diff(lengths[held]) <= 1e-4).all()


@pytest.mark.parametrize("budget", [1, 15, 16, 100, 1003, 4000])
def test_a_budget_is_what_is_scored(budget: int) -> None:
    queries = np.random.default_rng(4).standard_normal((40, 12))
    ordering = len(INDEX._clusters.centres)
    hits = INDEX.with_budget(budget).query(queries)
    np.testing.assert_array_equal(hits.scored, ordering + budget)


def test_no_round_scores_an_atom_again() -> None:
    queries = np.random.default_rng(4).standard_normal((40, 12))
    ordering = len(INDEX._clusters.centres)
    hits = INDEX.with_budget(7).query(queries, thresholds=np.full(40, np.inf))
    np.testing.assert_array_equal(hits.scored, ordering + int(buckets.CAP * len(ROWS)))
    once = INDEX.with_budget(int(buckets.CAP * len(ROWS))).query(queries)
    np.testing.assert_array_equal(hits.ids, once.ids)


def test_the_same_seed_gives_the_same_index() -> None:
    queries = np.random.default_rng(9).standard_normal((20, 12))
    a, b = (ClusterIndex.build(ArrayAtoms(ROWS), seed=3).query(queries) for _ in range(2))
    np.testing.assert_array_equal(a.ids, b.ids)
    np.testing.assert_array_equal(a.scored, b.scored)
