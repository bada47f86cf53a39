"""`Tiered`: good enough or proved best. `Audited`: an index's hits, exact bounds."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.conformance.oracle import check_hits, check_oracle, check_proof, true_scores
from tests.oracles.degraded import EveryOther, Scripted
from wolfhound.core.contracts import Atoms, Hits, Ids, Matrix, Oracle, Vector
from wolfhound.data.atoms import ConcatAtoms, FileAtoms, as_atoms
from wolfhound.oracles.asking import check_question, offer
from wolfhound.oracles.lsh import LshIndex
from wolfhound.oracles.scan import Scan
from wolfhound.oracles.subset import RandomSubset
from wolfhound.oracles.wrappers import Audited, Tiered


def nothing(rows: Matrix) -> Scripted:
    """An index that finds nothing."""

    def answer(queries: Matrix, k: int, exclude: Ids | None) -> Hits:
        none = np.empty((len(queries), 0), np.int64)
        question = check_question(as_atoms(rows), queries, k, exclude)
        return offer(as_atoms(rows), question, none, scored=np.zeros(len(queries), np.int64))

    return Scripted(rows, answer)


class Narrow(EveryOther):
    """As `EveryOther`, with `most` answers at most: so that a cache holds what a test says."""

    most = 1

    def query(
        self, queries: Matrix, *, k: int = 1, thresholds: Vector | None = None, exclude: Ids | None = None
    ) -> Hits:
        return super().query(queries, k=min(k, self.most), thresholds=thresholds, exclude=exclude)


# ---------------------------------------------------------------- conformance


def test_without_thresholds_tiers_are_exact() -> None:
    def make(atoms: Atoms) -> Oracle:
        tiered = Tiered(EveryOther(atoms))
        return Scripted(atoms, lambda queries, k, exclude: tiered.query(queries, k=k, exclude=exclude))

    check_oracle(make, exact=True)


# ---------------------------------------------------------------- thresholds


@pytest.mark.slow
@given(
    seed=st.integers(0, 10**6),
    n=st.integers(1, 40),
    m=st.integers(1, 7),
    k=st.integers(1, 4),
    cache=st.sampled_from([0, 1, 3, 256]),
    calls=st.integers(1, 4),
)
def test_an_answer_reaches_its_threshold_or_is_the_proved_best(
    seed: int, n: int, m: int, k: int, cache: int, calls: int
) -> None:
    rng = np.random.default_rng(seed)
    rows = rng.integers(-2, 3, (n, 3)).astype(np.float64)
    index = EveryOther(rows)
    tiered = Tiered(index, cache=cache)
    for _ in range(calls):
        queries = rng.integers(-2, 3, (m, 3)).astype(np.float64)
        thresholds = rng.choice([-np.inf, -1.0, 0.0, 2.0, 6.0, 100.0, np.inf], m)
        exclude = rng.integers(-1, n, (m, 2))
        truth = true_scores(queries, rows)
        for scores, banned in zip(truth, exclude, strict=True):
            scores[banned[banned >= 0]] = -np.inf
        before = tiered.counts
        hits = tiered.query(queries, k=k, thresholds=thresholds, exclude=exclude)
        check_hits(hits, queries, rows, k)
        check_proof(hits, truth, exact=False)
        assert not (hits.ids[:, :, None] == np.where(exclude >= 0, exclude, -2)[:, None]).any()
        # Accepted if and only if it reaches the threshold, which the best may do as well.
        proved = hits.bounds < np.inf
        np.testing.assert_array_equal(hits.scores[proved, 0], truth.max(axis=1)[proved])
        assert ((hits.scores[:, 0] >= thresholds) | proved).all()
        found = index.query(queries, exclude=exclude)
        reached = (found.ids[:, 0] >= 0) & (found.scores[:, 0] >= thresholds)
        assert not (proved & reached).any()
        served = {name: times - before[name] for name, times in tiered.counts.items()}
        assert served["exact"] == proved.sum()
        assert sum(served.values()) == m
        assert hits.passes == float(proved.any())


def test_minus_infinity_accepts_anything_but_nothing() -> None:
    rows = np.eye(3)
    queries, thresholds = np.array([[1.0, 3.0, 2.0]]), np.array([-np.inf])
    hits = Tiered(EveryOther(rows)).query(queries, thresholds=thresholds)
    assert (hits.ids[0, 0], hits.bounds[0]) == (2, np.inf)
    hits = Tiered(nothing(rows)).query(queries, thresholds=thresholds)
    assert (hits.ids[0, 0], hits.bounds[0] < np.inf) == (1, True)


def test_without_thresholds_the_exact_tier_is_asked() -> None:
    rows = np.eye(3)
    index = EveryOther(rows)
    tiered = Tiered(index)
    hits = tiered.query(np.array([[1.0, 3.0, 2.0]]))
    assert hits.ids[0, 0] == 1
    assert hits.bounds[0] < 3.0 + 1e-12
    assert (hits.passes, hits.scored[0], hits.radius < np.inf) == (1.0, 3, True)
    assert index.calls == []
    assert tiered.counts == {"cache": 0, "index": 0, "exact": 1}


def test_the_index_sees_what_is_left() -> None:
    """The first query is served by the cache, the others go on together."""
    rows = np.diag([5.0, 1.0, 1.0, 1.0])
    index = EveryOther(rows)
    tiered = Tiered(index, cache=1)
    tiered.query(rows[[0, 0, 0]], thresholds=np.full(3, 25.0))
    index.calls.clear()
    queries, thresholds, exclude = rows[[0, 2, 1]], np.array([5.0, 0.5, 0.5]), np.array([[3], [3], [-1]])
    hits = tiered.query(queries, thresholds=thresholds, exclude=exclude)
    (call,) = index.calls
    np.testing.assert_array_equal(call["queries"], queries[1:])
    np.testing.assert_array_equal(call["thresholds"], thresholds[1:])
    np.testing.assert_array_equal(call["exclude"], exclude[1:])
    np.testing.assert_array_equal(hits.ids[:, 0], [0, 2, 1])
    np.testing.assert_array_equal(np.isinf(hits.bounds), [True, True, False])
    # One cached atom each; two of the index; four of the scan.
    np.testing.assert_array_equal(hits.scored, [1, 1 + 2, 1 + 2 + 4])
    assert hits.passes == 1.0
    assert math.isclose(hits.radius, 5.0)
    assert tiered.counts == {"cache": 1, "index": 4, "exact": 1}


@pytest.mark.parametrize(
    ("thresholds", "text"),
    [
        ([0.0, np.nan], "`thresholds` must be numbers. Got nan"),
        ([0.0], "`thresholds` must be a vector of length 2. Got length 1"),
        ([[0.0, 0.0]], "`thresholds` must be an array with 1 axes"),
    ],
)
def test_wrong_thresholds(thresholds: list[Any], text: str) -> None:
    tiered = Tiered(EveryOther(np.eye(3)))
    with pytest.raises(ValueError, match=text):
        tiered.query(np.ones((2, 3)), thresholds=np.array(thresholds))
    assert sum(tiered.counts.values()) == 0


def test_scores_that_overflow_are_not_accepted() -> None:
    rows = np.full((3, 2), 1e150)
    some = Scan(rows).query(np.ones((1, 2)))
    endless = replace(some, scores=np.array([[np.inf]]), bounds=np.array([np.inf]))
    tiered = Tiered(Scripted(rows, lambda queries, k, exclude: endless))
    with pytest.raises(ValueError, match="`queries` must be so small"):
        tiered.query(np.full((1, 2), 1e300), thresholds=np.zeros(1))


# ---------------------------------------------------------------- the cache


def spread(n: int) -> Matrix:
    """n points on an arc: the best atom for an angle is the one at that angle."""
    angles = np.linspace(0.0, 3.0, n)
    return np.stack([np.cos(angles), np.sin(angles)], 1)


def test_the_cache_answers_with_what_was_returned() -> None:
    rows = spread(50)
    tiered = Tiered(nothing(rows), cache=1, sample=0)  # too small to harvest
    tiered.query(rows[7:8], thresholds=np.array([1.0]))
    hits = tiered.query(rows[7:8], thresholds=np.array([1.0]))
    assert hits.ids[0, 0] == 7
    assert (hits.bounds[0], hits.passes, hits.scored[0]) == (np.inf, 0.0, 1)
    np.testing.assert_array_equal(hits.rows[hits.slots[0, 0]], rows[7])
    assert tiered.counts == {"cache": 1, "index": 0, "exact": 1}


def test_the_atom_that_was_returned_longest_ago_goes_first() -> None:
    rows = spread(50)
    tiered = Tiered(Narrow(rows), cache=3, sample=0)
    above = np.array([1.0 - 1e-12])

    def question(atom: int) -> dict[str, int]:
        before = tiered.counts
        assert tiered.query(rows[atom : atom + 1], thresholds=above).ids[0, 0] == atom
        return {name: times - before[name] for name, times in tiered.counts.items()}

    from_cache, from_index = {"cache": 1, "index": 0, "exact": 0}, {"cache": 0, "index": 1, "exact": 0}
    assert [question(atom) for atom in (10, 20, 30)] == [from_index] * 3
    assert question(10) == from_cache  # used again, so 20 is now the oldest
    assert question(40) == from_index
    assert [question(atom) for atom in (10, 30, 40)] == [from_cache] * 3
    assert question(20) == from_index
    assert question(10) == from_index


def test_a_pass_fills_half_of_the_cache_with_its_best() -> None:
    rows = spread(50)
    tiered = Tiered(nothing(rows), cache=8, sample=0)
    tiered.query(rows[20:21], thresholds=np.array([1.0 - 1e-12]))
    neighbours = [int(i) for i in np.argsort(-(rows @ rows[20]), kind="stable")[:4]]
    for atom in neighbours:
        hits = tiered.query(rows[atom : atom + 1], thresholds=np.array([1.0 - 1e-12]))
        assert (hits.ids[0, 0], hits.scored[0]) == (atom, 4)
    assert tiered.counts == {"cache": 4, "index": 0, "exact": 1}


def test_of_one_answer_the_worst_goes_first() -> None:
    rows = spread(50)
    tiered = Tiered(Narrow(rows), cache=3, sample=0)
    best, second, _ = tiered.query(rows[20:21], k=3).ids[0]
    tiered.query(rows[40:41], thresholds=np.array([0.9]))
    kept = tiered.query(rows[20:21], k=3, thresholds=np.array([-1.0]))
    assert tiered.counts["cache"] == 1
    np.testing.assert_array_equal(kept.ids[0], [best, second, 40])


def test_a_batch_shares_the_cache() -> None:
    """Of four queries each brings two atoms, as the cache has room for eight."""
    rows = spread(50)
    tiered = Tiered(nothing(rows), cache=16, sample=0)
    tiered.query(rows[[5, 15, 25, 35]])
    hits = tiered.query(rows[:1], k=8, thresholds=np.array([-1.0]))
    assert (hits.scored[0], hits.passes, tiered.counts["exact"]) == (8, 0.0, 4)
    assert {5, 15, 25, 35} <= set(hits.ids[0])


@pytest.mark.parametrize(("k", "banned", "tier"), [(3, -1, "cache"), (4, -1, "index"), (3, 12, "index")])
def test_answers_of_the_cache_are_k_wide(k: int, banned: int, tier: str) -> None:
    """Three atoms are kept; where that is too few, the index is asked."""
    rows = spread(50)
    index = Narrow(rows)
    tiered = Tiered(index, cache=4, sample=0)
    for atom in (10, 12, 14):
        tiered.query(rows[atom : atom + 1], thresholds=np.array([1.0 - 1e-12]))
    index.most, served = 4, tiered.counts
    hits = tiered.query(rows[:1], k=k, thresholds=np.array([-1.0]), exclude=np.array([[banned]]))
    assert (hits.ids >= 0).all()
    assert banned not in hits.ids
    assert tiered.counts == {**served, tier: served[tier] + 1}


def test_equal_rows_in_the_cache_give_the_smallest_id() -> None:
    rows = np.repeat(spread(5), 4, axis=0)
    tiered = Tiered(nothing(rows), cache=64, sample=0)
    for query in rows[::-4]:
        tiered.query(query[None])
    tiered.query(rows[:1], thresholds=np.array([1.0 - 1e-12]))
    hits = tiered.query(rows[9:10], k=4, thresholds=np.array([1.0 - 1e-12]))
    np.testing.assert_array_equal(hits.ids, [[8, 9, 10, 11]])
    assert tiered.counts["cache"] == 1


def test_answers_stay_as_they_are() -> None:
    """The cache overwrites its rows, not those it gave away."""
    rows = spread(50)
    tiered = Tiered(EveryOther(rows), cache=1)
    _, hits, _ = (tiered.query(rows[i : i + 1], thresholds=np.array([0.9])) for i in (10, 10, 40))
    np.testing.assert_array_equal(hits.rows[hits.slots[0, 0]], rows[10])


def test_files(tmp_path: Path) -> None:
    rows = spread(40).astype(np.float32)
    np.save(tmp_path / "rows.npy", rows)
    tiered = Tiered(EveryOther(FileAtoms(tmp_path / "rows.npy")))
    for atom in (3, 4, 3, 8):
        query = rows[atom : atom + 1].astype(np.float64)
        hits = tiered.query(query, thresholds=np.array([1.0 - 1e-6]))
        check_hits(hits, query, rows, 1)
        assert hits.ids[0, 0] == atom


# ---------------------------------------------------------------- beside the index


def test_too_poor_is_less_than_a_share_of_what_the_index_found_last() -> None:
    """It exceeded its threshold by 1: atoms that are kept must exceed theirs by 0.8."""
    index = Narrow(np.array([[2.0, 0.0], [0.0, 0.0], [0.0, 9.0]]))
    tiered = Tiered(index, sample=0)
    asked = [
        (np.array([1.0, 0.0]), 1.0, "index"),  # nothing to compare with
        (np.array([1.0, 0.0]), 1.1, "cache"),
        (np.array([1.0, 0.1]), 1.3, "index"),  # 2.0 reaches it, by 0.7 alone
        (np.array([1.0, 0.1]), 1.3, "cache"),
    ]
    for query, floor, tier in asked:
        before = tiered.counts
        hits = tiered.query(query[None], thresholds=np.array([floor]))
        assert (hits.ids[0, 0], tiered.counts[tier] - before[tier]) == (0, 1)
    assert len(index.calls) == 2


def test_what_the_index_found_before_may_count_on_for_a_while() -> None:
    """As above; 0.8 of 1, of 0.95 and of 0.95^2 are more than the 0.7 that the best has."""
    index = Narrow(np.array([[2.0, 0.0], [0.0, 0.0], [0.0, 9.0]]))
    tiered, query = Tiered(index, sample=0, fading=0.95), np.array([[1.0, 0.1]])
    tiered.query(query, thresholds=np.array([1.0]))
    tiers = []
    for _ in range(4):
        before = tiered.counts
        tiered.query(query, thresholds=np.array([1.3]))
        tiers += [tier for tier, times in tiered.counts.items() if times > before[tier]]
    assert tiers == ["index", "index", "index", "cache"]


def test_another_number_of_queries_is_compared_with_nothing() -> None:
    index = EveryOther(spread(50))
    tiered = Tiered(index, sample=0)
    for many in (1, 2, 2, 1):
        tiered.query(np.tile(index.atoms.take(np.array([20])), (many, 1)), thresholds=np.full(many, 0.9))
    assert tiered.counts == {"cache": 2, "index": 4, "exact": 0}


def test_the_sample_sees_where_the_index_is_blind() -> None:
    rows = np.random.default_rng(0).standard_normal((2000, 3))
    found = {}
    for sample in (0, 40):
        tiered = Tiered(nothing(rows), cache=0, sample=sample)
        hits = [tiered.query(rows[i : i + 1], thresholds=np.zeros(1)) for i in range(20)]
        found[sample] = tiered.counts["exact"]
        assert [each.passes > 0.0 for each in hits] == [each.bounds[0] < np.inf for each in hits]
        assert all((each.scored[0] - sample) % 2000 == 0 for each in hits)
    assert found == {0: 20, 40: 0}


def test_the_best_of_all_that_are_asked_is_the_answer() -> None:
    """Of the cache, of the sample, of the index: each atom once."""
    rows = np.random.default_rng(0).standard_normal((400, 3))
    sampled = RandomSubset(rows, size=20, seed=3)
    tiered = Tiered(EveryOther(rows), cache=8, sample=20, seed=3)
    tiered.query(rows[1:2], k=3)
    known = Scan(rows).query(rows[1:2], k=4).ids[0]
    query = rows[1:2] + 0.01
    ids = sampled.query(query, k=20).ids[0]
    hits = tiered.query(query, k=10, thresholds=np.zeros(1))
    every = np.unique(np.concatenate([known, ids, np.arange(0, 400, 2)]))
    scores = rows[every] @ query[0]
    np.testing.assert_array_equal(hits.ids[0], every[np.argsort(-scores, kind="stable")][:10])
    check_hits(hits, query, rows, 10)


def test_samples_grow_until_passes_are_cheaper() -> None:
    rows = np.random.default_rng(0).standard_normal((1000, 3))
    tiered = Tiered(nothing(rows), cache=0, sample=10)
    sizes = []
    for _ in range(4):
        hits = tiered.query(rows[:1], thresholds=np.array([-np.inf]))
        sizes.append((tiered.sample, int(hits.scored[0]), hits.passes))
        tiered.widen()
    assert sizes == [(10, 10, 0.0), (40, 40, 0.0), (160, 160, 0.0), (640, 1000, 1.0)]


def test_an_index_that_proves_may_make_the_passes() -> None:
    """It is asked for what it has at hand; its passes fill the cache."""
    rows = np.random.default_rng(0).standard_normal((3000, 6))
    index = LshIndex.build(rows, budget=50, proof=True)
    tiered = Tiered(index, index, sample=0)
    hits = tiered.query(rows[:1], thresholds=np.array([1e9]))
    assert (hits.passes, tiered.counts) == (1.0, {"cache": 0, "index": 0, "exact": 1})
    again = tiered.query(rows[:1], k=128, thresholds=np.array([-1e9]))
    np.testing.assert_array_equal(again.ids, Scan(rows).query(rows[:1], k=128).ids)


def test_one_proof_is_enough() -> None:
    """An index that has proved that none reaches the threshold is not asked to be confirmed."""
    rows = spread(50)

    def never(queries: Matrix, k: int, exclude: Ids | None) -> Hits:
        raise AssertionError("a second pass")

    hits = Tiered(Scan(rows), Scripted(rows, never)).query(rows[:1], thresholds=np.array([2.0]))
    assert (hits.ids[0, 0], hits.passes) == (0, 1.0)


# ---------------------------------------------------------------- audits


def test_audits_return_the_hits_of_the_oracle_with_true_bounds() -> None:
    rng = np.random.default_rng(0)
    rows, queries = rng.standard_normal((60, 4)), rng.standard_normal((7, 4))
    exclude = np.argsort(-(queries @ rows.T), axis=1)[:, :3]
    plain = EveryOther(rows).query(queries, k=3, exclude=exclude)
    audited = Audited(EveryOther(rows), every=1)
    hits = audited.query(queries, k=3, exclude=exclude)
    exact = Scan(rows).query(queries, exclude=exclude)
    np.testing.assert_array_equal(hits.ids, plain.ids)
    np.testing.assert_array_equal(hits.scores, plain.scores)
    np.testing.assert_array_equal(hits.bounds, exact.bounds)
    np.testing.assert_array_equal(hits.scored, plain.scored + exact.scored)
    assert (hits.passes, hits.radius) == (1.0, exact.radius)
    assert (hits.scores[:, 0] < exact.scores[:, 0]).any()


@pytest.mark.parametrize("every", [1, 3, 10])
def test_every_so_many_calls_are_audited(every: int) -> None:
    audited = Audited(EveryOther(np.eye(4)), every=every)
    bounds = [audited.query(np.ones((2, 4))).bounds for _ in range(21)]
    expected = [call % every == 0 for call in range(21)]
    assert [bool((bound < np.inf).all()) for bound in bounds] == expected
    assert [bool((bound < np.inf).any()) for bound in bounds] == expected
    assert audited.audits == sum(expected)


def test_the_thresholds_are_passed_on() -> None:
    index = EveryOther(np.eye(4))
    Audited(index).query(np.ones((1, 4)), thresholds=np.array([0.25]))
    np.testing.assert_array_equal(index.calls[0]["thresholds"], [0.25])


def test_the_better_of_two_bounds() -> None:
    """A bound of the oracle's own is proved as well."""
    rows = np.eye(3)
    best = Scan(rows).query(rows[:1])
    loose = Scripted(rows, lambda queries, k, exclude: replace(best, bounds=np.array([9.0]), radius=7.0))
    for audited in (Audited(loose, Scan(rows)), Audited(Scan(rows), loose)):
        hits = audited.query(rows[:1])
        assert hits.bounds[0] == best.bounds[0]
        assert hits.radius == best.radius


def test_a_bound_is_never_below_the_score() -> None:
    """An oracle with sums of its own may err by more than the exact one allows for."""
    rows = np.eye(3)
    best = Scan(rows).query(rows[:1])
    high = replace(best, scores=best.scores + 1e-9, bounds=np.array([np.inf]))
    hits = Audited(Scripted(rows, lambda queries, k, exclude: high)).query(rows[:1])
    assert hits.scores[0, 0] == hits.bounds[0] == 1.0 + 1e-9


# ---------------------------------------------------------------- wrong use

ROWS = spread(100)


@pytest.mark.parametrize("wrapper", [Tiered, Audited])
@pytest.mark.parametrize(
    ("other", "text"),
    [
        (ROWS[:-1], "`exact` must be an oracle over the same atoms, 100 x 2 float64. Got 99 x 2 float64"),
        (np.eye(100), "`exact` must be an oracle over the same atoms, 100 x 2 float64. Got 100 x 100"),
        (ROWS.astype(np.float32), "Got 100 x 2 float32"),
        (ROWS[::-1].copy(), "`exact` must be an oracle over the same atoms, 100 x 2 float64. Got other rows"),
    ],
)
def test_other_atoms_are_refused(wrapper: type[Tiered] | type[Audited], other: Matrix, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        wrapper(EveryOther(ROWS), Scan(other))


@pytest.mark.parametrize("wrapper", [Tiered, Audited])
def test_the_same_atoms_elsewhere_are_accepted(wrapper: type[Tiered] | type[Audited]) -> None:
    other = Scan(ConcatAtoms([ROWS[:30], ROWS[30:].copy()]))
    assert wrapper(EveryOther(ROWS), other).query(ROWS[:1]).bounds[0] < np.inf


def test_wrong_options() -> None:
    with pytest.raises(ValueError, match=r"`cache` must be an integer >= 0. Got -1"):
        Tiered(EveryOther(ROWS), cache=-1)
    with pytest.raises(ValueError, match=r"`sample` must be an integer >= 0. Got -1"):
        Tiered(EveryOther(ROWS), sample=-1)
    with pytest.raises(ValueError, match=r"`ratio` must be in \(0, 1\]. Got 1.5"):
        Tiered(EveryOther(ROWS), ratio=1.5)
    with pytest.raises(ValueError, match=r"`every` must be an integer >= 1. Got 0"):
        Audited(EveryOther(ROWS), every=0)


@pytest.mark.parametrize("wrapper", [Tiered, Audited])
@pytest.mark.parametrize("arguments", [{"queries": np.ones((1, 3))}, {"queries": np.ones((1, 2)), "k": 0}])
def test_wrong_queries(wrapper: type[Tiered] | type[Audited], arguments: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"`queries` must be|`k` must be"):
        wrapper(EveryOther(ROWS)).query(**arguments)


def test_what_was_served_cannot_be_changed() -> None:
    tiered = Tiered(EveryOther(ROWS))
    tiered.counts["exact"] = 7
    assert tiered.counts["exact"] == 0


def test_repr() -> None:
    tiered = Tiered(RandomSubset(ROWS, size=9), cache=7)
    tiered.query(ROWS[:1])
    atoms = "ArrayAtoms(100 x 2, float64)"
    inside = f"RandomSubset({atoms}, size=9), Scan({atoms}, screen=False)"
    assert repr(tiered) == f"Tiered({inside}, cache=7, sample=5; served: cache 0, index 0, exact 1)"
    assert repr(Audited(RandomSubset(ROWS, size=9))) == f"Audited({inside}, every=10)"
