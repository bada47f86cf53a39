"""`LshIndex`: (c, tau) kept as often as promised, rounds, tables, copies, saving."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import itertools
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from tests.conformance.oracle import check_hits, check_oracle, true_scores
from wolfhound.core.contracts import Matrix, Vector
from wolfhound.core.threads import set_threads
from wolfhound.data import store
from wolfhound.data.atoms import ConcatAtoms, FileAtoms
from wolfhound.oracles.hashes import SimHash
from wolfhound.oracles.lsh import LshIndex
from wolfhound.oracles.promises import Ladder
from wolfhound.oracles.scan import Scan


def cloud(n: int = 4000, d: int = 12, seed: int = 0) -> Matrix:
    rng = np.random.default_rng(seed)
    return (rng.standard_normal((n, d)) * np.linspace(0.5, 2.0, n)[:, None] + 1.0).astype(np.float32)


ROWS = cloud()
INDEX = LshIndex.build(ROWS)


def best_scores(queries: Vector, rows: Matrix) -> Vector:
    return np.asarray(true_scores(queries, rows).astype(np.float64).max(axis=1))


# ---------------------------------------------------------------- an oracle


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [{}, {"tables": 2, "copies": 2}, {"family": SimHash()}, {"tau": 0.5}, {"axes": 3}, {"bucket": 8}],
)
def test_conformance(options: dict[str, Any]) -> None:
    check_oracle(lambda atoms: LshIndex.build(atoms, **options), exact=False)


def test_with_proof_it_is_exact() -> None:
    queries = np.random.default_rng(1).standard_normal((9, 12))
    hits = LshIndex.build(ROWS, proof=True, tables=2).query(queries, k=4)
    exact = Scan(ROWS).query(queries, k=4)
    np.testing.assert_array_equal(hits.ids, exact.ids)
    np.testing.assert_array_equal(hits.scores, exact.scores)
    assert (hits.bounds >= best_scores(queries, ROWS)).all()


@pytest.mark.slow
@given(seed=st.integers(0, 10**6), quantile=st.floats(0.0, 1.1), m=st.integers(1, 40))
def test_a_threshold_is_met_or_proved_out_of_reach(seed: int, quantile: float, m: int) -> None:
    queries = np.random.default_rng(seed).standard_normal((m, 12))
    truth = true_scores(queries, ROWS).astype(np.float64)
    low, high = np.median(truth, axis=1), truth.max(axis=1)
    thresholds = low + quantile * (high - low)
    hits = INDEX._with(20, proof=True).query(queries, thresholds=thresholds)
    check_hits(hits, queries, ROWS, 1)
    met = hits.scores[:, 0] >= thresholds
    assert (hits.bounds[~met] < thresholds[~met] + 1e-9).all()
    assert (hits.bounds >= high - 1e-9).all()


def test_most_answers_are_good_from_few_atoms() -> None:
    queries = np.random.default_rng(2).standard_normal((200, 12))
    hits = INDEX.query(queries, k=3)
    check_hits(hits, queries, ROWS, 3)
    mean = queries @ ROWS.mean(axis=0)
    ratio = (hits.scores[:, 0] - mean) / (best_scores(queries, ROWS) - mean)
    assert ratio.mean() > 0.95
    assert hits.scored.mean() < 0.3 * len(ROWS)
    assert hits.passes == 0.0
    assert (hits.bounds == np.inf).all()


@pytest.mark.slow
def test_a_few_axes_are_enough_where_atoms_differ_in_a_few() -> None:
    rng = np.random.default_rng(3)
    spread = np.where(np.arange(300) < 10, 1.0, 0.1)
    rows = (rng.standard_normal((8000, 300)) * spread).astype(np.float32)
    queries = rng.standard_normal((200, 300)) * spread
    plain, few = (LshIndex.build(rows, axes=axes, budget=200).query(queries).scores for axes in (None, 10))
    best = best_scores(queries, rows)
    assert (1.0 - few[:, 0] / best).mean() < 0.6 * (1.0 - plain[:, 0] / best).mean()


def test_bucket_is_the_mean_number_of_atoms_in_one() -> None:
    for bucket in (16, 64, 250.5):
        index = LshIndex.build(ROWS, bucket=bucket)
        assert 0.4 * bucket <= len(ROWS) / index.buckets <= 2.5 * bucket
    with pytest.raises(ValueError, match=r"`bucket` must be a number >= 1\. Got 0"):
        LshIndex.build(ROWS, bucket=0)
    with pytest.raises(ValueError, match="`bucket` must be None where tau is given"):
        LshIndex.build(ROWS, bucket=50, tau=0.5)


@pytest.mark.parametrize("tables", [1, 2])
def test_budgets_are_what_is_scored_also_in_rounds(tables: int) -> None:
    queries = np.random.default_rng(4).standard_normal((30, 12))
    index = LshIndex.build(ROWS, tables=tables, budget=100)
    ordering = sum(table.bucketing.cost for table in index._tables.all)
    np.testing.assert_array_equal(index.query(queries).scored, ordering + 100)
    rounds = index.query(queries, thresholds=np.full(30, np.inf))
    np.testing.assert_array_equal(rounds.scored, ordering + tables * (len(ROWS) // 4))


def test_a_larger_budget_scores_more_and_is_never_worse() -> None:
    queries = np.random.default_rng(4).standard_normal((30, 12))
    answers = [INDEX.with_budget(budget).query(queries) for budget in (10, 100, 1000, 4000)]
    for a, b in itertools.pairwise(answers):
        assert (a.scored <= b.scored).all()
        assert (a.scores[:, 0] <= b.scores[:, 0]).all()
    np.testing.assert_allclose(answers[-1].scores[:, 0], best_scores(queries, ROWS))


@pytest.mark.parametrize("options", [{}, {"tables": 2}, {"tau": Ladder(zeta=0.5, low=0.2)}])
def test_alone_and_together_the_answers_are_the_same(options: dict[str, Any]) -> None:
    index = LshIndex.build(ROWS, budget=50, **options)
    queries = np.random.default_rng(5).standard_normal((70, 12))
    try:
        for threads, score in ((1, None), (2, 14.0), (3, None)):
            set_threads(threads)
            many, one = (None if score is None else np.full(m, score) for m in (70, 1))
            together = index.query(queries, k=2, thresholds=many)
            alone = [index.query(query[None], k=2, thresholds=one) for query in queries]
            np.testing.assert_array_equal(together.ids, np.concatenate([hits.ids for hits in alone]))
            np.testing.assert_array_equal(together.scored, np.concatenate([hits.scored for hits in alone]))
    finally:
        set_threads(None)


@pytest.mark.slow
def test_the_same_seed_gives_the_same_index_at_any_thread_count(tmp_path: Path) -> None:
    try:
        for threads in (1, 2):
            set_threads(threads)
            index = LshIndex.build(cloud(30_000), tables=2, tau=0.4, seed=7)
            index.save(tmp_path / str(threads))
    finally:
        set_threads(None)
    first, second = (store.load(tmp_path / name, "index") for name in ("1", "2"))
    assert first.params == second.params
    assert first.arrays.keys() == second.arrays.keys()
    for name, array in first.arrays.items():
        np.testing.assert_array_equal(array, second.arrays[name])
    other = LshIndex.build(cloud(30_000), tables=2, seed=8)
    assert not np.array_equal(other._tables.all[0].bucketing.first, index._tables.all[0].bucketing.first)


# ---------------------------------------------------------------- what is promised


def planted(tau: float, seed: int, n: int = 3000, d: int = 16, m: int = 20) -> tuple[Matrix, Vector]:
    """Atoms on a sphere, none near the queries but one each, at cosine tau."""
    rng = np.random.default_rng(seed)
    queries = np.linalg.qr(rng.standard_normal((d, d)))[0][: min(m, d // 2)]
    rows = rng.standard_normal((n, d))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    # The others score at most half of what is accepted.
    high = np.abs(rows @ queries.T).max(axis=1) > 0.4 * tau
    rows[high] -= (rows[high] @ queries.T) @ queries
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    across = np.linalg.qr(np.concatenate([queries, rng.standard_normal((d, d))]).T)[0].T[len(queries)]
    rows[: len(queries)] = tau * queries + math.sqrt(1 - tau**2) * across
    return rows[rng.permutation(n)], queries


def successes(
    tau: float, *, asked: float | Ladder, share: float, seeds: int, **options: Any
) -> tuple[int, int]:
    """How many queries find a share of their planted atom, over fresh data and hashes."""
    good = total = 0
    for seed in range(seeds):
        rows, queries = planted(tau, seed)
        index = LshIndex.build(rows, tau=asked, seed=1000 + seed, **options)
        hits = index.query(queries)
        start = queries @ index.centre
        found = hits.scores[:, 0] - start >= share * (best_scores(queries, rows) - start) * (1 - 1e-9)
        good, total = good + int(found.sum()), total + len(queries)
    return good, total


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, {"tables": 2}, {"family": SimHash()}], ids=["one", "two", "simhash"])
def test_an_atom_at_tau_is_found_as_often_as_promised(options: dict[str, Any]) -> None:
    good, total = successes(0.6, asked=0.55, share=0.8, seeds=25, ratio=0.8, delta=0.1, **options)
    assert binom.cdf(good, total, 0.9) > 1e-4


def test_the_promise_is_not_kept_by_scoring_everything() -> None:
    rows, queries = planted(0.7, 0)
    index = LshIndex.build(rows, tau=0.65, ratio=0.8)
    assert index.promise.budgets[0] < 0.5 * len(rows)
    assert index.query(queries).scored.mean() < 0.5 * len(rows)


@pytest.mark.slow
def test_copies_boost_the_probability() -> None:
    low = {"ratio": 0.8, "delta": 0.5}
    one, total = successes(0.6, asked=0.55, share=0.8, seeds=20, **low)
    three, _ = successes(0.6, asked=0.55, share=0.8, seeds=20, copies=3, **low)
    assert binom.cdf(one, total, 0.5) > 1e-4
    assert binom.cdf(three, total, 1.0 - 0.5**3) > 1e-4
    assert three > one


@pytest.mark.slow
def test_a_ladder_promises_a_share_of_the_best() -> None:
    """A structure for one tau promises c tau, not c of the best: here half of it."""
    ladder = Ladder(zeta=0.25, low=0.2)
    good, total = successes(0.8, asked=ladder, share=0.8 / 1.25, seeds=15, ratio=0.8)
    assert binom.cdf(good, total, 0.9) > 1e-4


def test_one_tau_promises_nothing_of_the_best() -> None:
    rows, queries = planted(0.9, 3)
    rows[:1500] = rows[:1500] - (rows[:1500] @ queries.T) @ queries + 0.25 * queries.sum(axis=0)
    truth = best_scores(queries, rows)
    index = LshIndex.build(rows, tau=0.2, ratio=0.5, budget=1)
    answer = index.query(queries)
    length = np.linalg.norm(queries, axis=1) * index.radius
    assert (answer.scores[:, 0] >= queries @ index.centre + 0.5 * 0.2 * length).all()
    assert (answer.scores[:, 0] < 0.8 * truth).any()


def test_budgets_grow_down_the_ladder() -> None:
    promise = LshIndex.build(ROWS, tau=Ladder(zeta=0.5, low=0.1)).promise
    assert promise.taus == tuple(sorted(promise.taus, reverse=True))
    assert promise.budgets == tuple(sorted(promise.budgets))
    assert promise.budgets[0] < promise.budgets[-1]


@given(seed=st.integers(0, 1000), quantile=st.floats(0.1, 1.0))
def test_without_tau_a_threshold_is_sought_in_a_quarter_of_the_atoms(seed: int, quantile: float) -> None:
    queries = np.random.default_rng(seed).standard_normal((5, 12))
    thresholds = quantile * best_scores(queries, ROWS)
    index = INDEX.with_budget(30)
    hits = index.query(queries, thresholds=thresholds)
    good = hits.scores[:, 0] >= thresholds
    assert (hits.scored[~good] >= 0.25 * len(ROWS)).all()  # not given up before
    assert (hits.scores >= index.query(queries).scores).all()


def test_a_promise_says_how_far_is_looked_for_a_threshold() -> None:
    """As far as without one, where nothing reaches it; an index for a higher tau looks less far."""
    queries, most = np.random.default_rng(1).standard_normal((40, ROWS.shape[1])), []
    for tau in (0.4, 0.9):
        index = LshIndex.build(ROWS, ratio=1.0, tau=tau, budget=1)
        hopeless = index.query(queries, thresholds=np.full(40, np.inf))
        most.append(hopeless.scored.mean())
        planted = index.query(queries)
        assert (planted.scored <= hopeless.scored).all()
        assert (planted.scores <= hopeless.scores).all()
    assert most[1] < 0.5 * most[0]


def test_tuned_budgets_are_enough_and_no_more() -> None:
    rng = np.random.default_rng(9)
    queries = rng.standard_normal((300, 12))
    start = queries @ ROWS[:50].mean(axis=0)

    def ratio(index: LshIndex) -> float:
        best = best_scores(queries, ROWS)
        return float(((index.query(queries).scores[:, 0] - start) / (best - start)).mean())

    index = INDEX.tune(queries, 0.9, here=start)
    assert ratio(index) >= 0.9
    assert index.budget == 16 or ratio(INDEX.with_budget(round(index.budget / 1.25))) < 0.9
    assert INDEX.tune(queries, 0.99, here=start).budget > index.budget
    assert INDEX.tune(queries, 1.0).query(queries).scores[:, 0] == pytest.approx(best_scores(queries, ROWS))


# ---------------------------------------------------------------- any atoms


@pytest.mark.parametrize("scale", [1e-300, 1e-30, 1e30, 1e150])
def test_any_scale(scale: float) -> None:
    rows = scale * cloud(300).astype(np.float64)
    query = np.random.default_rng(6).standard_normal((1, 12)) / scale
    index = LshIndex.build(rows, budget=300)
    assert index.query(query).ids[0, 0] == Scan(rows).query(query).ids[0, 0]
    assert LshIndex.build(rows, tau=0.1, ratio=1.0).query(query).ids[0, 0] >= 0


@pytest.mark.parametrize(
    "rows",
    [np.zeros((1, 3)), np.ones((5, 1)), np.zeros((40, 3)), np.repeat(np.eye(3), 30, axis=0)],
    ids=["one", "one column", "zeros", "repeated"],
)
def test_hardly_any_atoms(rows: Matrix) -> None:
    query = np.ones((1, rows.shape[1]))
    for options in ({}, {"tau": 0.5}, {"tables": 2, "copies": 2}):
        index = LshIndex.build(rows, budget=len(rows), **options)
        assert index.query(query).scores[0, 0] == (rows @ query[0]).max()


def test_atoms_in_parts_and_in_files(tmp_path: Path) -> None:
    np.save(tmp_path / "rows.npy", ROWS)
    queries = np.random.default_rng(7).standard_normal((5, 12))
    expected = INDEX.query(queries, k=3)
    for atoms in (FileAtoms(tmp_path / "rows.npy"), ConcatAtoms([ROWS[:17], ROWS[17:]])):
        hits = LshIndex.build(atoms).query(queries, k=3)
        np.testing.assert_array_equal(hits.ids, expected.ids)
        np.testing.assert_array_equal(hits.scores, expected.scores)


def test_a_row_that_is_not_finite_is_named() -> None:
    rows = cloud(300).copy()
    rows[211, 3] = np.nan
    with pytest.raises(ValueError, match="row 211, column 3"):
        LshIndex.build(rows)


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"ratio": 0.0}, ValueError, r"`ratio` must be in \(0, 1\]"),
        ({"tau": 1.5}, ValueError, r"`tau` must be in \(0, 1\]"),
        ({"delta": 1.0}, ValueError, r"`delta` must be in \(0, 1\)"),
        ({"tables": 0}, ValueError, "`tables` must be an integer >= 1"),
        ({"copies": 0}, ValueError, "`copies` must be an integer >= 1"),
        ({"axes": 0}, ValueError, "`axes` must be an integer >= 1"),
        ({"axes": 4, "tau": 0.5}, ValueError, "`axes` must be None where tau is given"),
        ({"budget": 0}, ValueError, "`budget` must be an integer >= 1"),
        ({"seed": -1}, ValueError, "`seed` must be"),
    ],
)
def test_wrong_options_are_named(options: dict[str, Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        LshIndex.build(ROWS, **options)


@pytest.mark.parametrize(("zeta", "low"), [(0.0, 0.1), (-1.0, 0.1), (0.1, 0.0), (0.1, 1.0)])
def test_wrong_ladders_are_named(zeta: float, low: float) -> None:
    with pytest.raises(ValueError, match=r"`(zeta|low)` must be"):
        Ladder(zeta, low)


def test_repr_says_what_it_is() -> None:
    assert "tables=1, copies=1, budget=506, proof=False" in repr(INDEX)
    assert INDEX.nbytes > ROWS.nbytes / 4
