"""One query over rows in memory: a compiled call gives what the general way gives, bit for bit."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.conformance.oracle import check_hits, check_proof, true_scores
from wolfhound.core.contracts import Hits, Matrix, Oracle, Vector
from wolfhound.core.progress import on_progress
from wolfhound.data.atoms import ArrayAtoms
from wolfhound.oracles import _scan_kernels as kernels
from wolfhound.oracles import asking as _question
from wolfhound.oracles import hashes, subset
from wolfhound.oracles.asking import check_question, check_thresholds, empty_top, lengths, make_hits, rescore
from wolfhound.oracles.clusters import ClusterIndex
from wolfhound.oracles.int8.scan import Int8Scan
from wolfhound.oracles.lsh import LshIndex
from wolfhound.oracles.scan import Scan, empty_lists
from wolfhound.oracles.subset import RandomSubset

FIELDS = ("ids", "scores", "bounds", "rows", "slots", "scored", "passes", "radius")


@pytest.fixture(autouse=True, scope="module")
def at_once() -> Iterator[None]:
    """One call from the second query on."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_question, "OFTEN", 0)
        yield


# ---------------------------------------------------------------- kernels and their twins


def rank_in_numpy(scores: Vector, ids: Any, k: int) -> tuple[Vector, Any]:
    order = np.lexsort((ids, -scores))[:k]
    return scores[order], ids[order]


@given(
    seed=st.integers(0, 10**6),
    n=st.integers(1, 60),
    k=st.integers(1, 70),
    banned=st.integers(0, 60),
    double=st.booleans(),
)
@settings(max_examples=60)
def test_the_best_of_all_rows_and_of_some(seed: int, n: int, k: int, banned: int, double: bool) -> None:
    rng = np.random.default_rng(seed)
    rows: Matrix = rng.integers(-2, 3, (n, 3)).astype(np.float64 if double else np.float32)  # many ties
    query, k = rng.integers(-2, 3, 3).astype(np.float64), min(k, n)
    exclude = np.sort(np.concatenate([[-1], rng.permutation(n)[:banned]]))[None]
    plain, scores, kept = ArrayAtoms(rows).plain, rescore(rows, query), np.empty(n, np.float32)
    assert plain is not None
    allowed, none = np.setdiff1d(np.arange(n), exclude), np.empty(0)
    asked, best, ids = (query[None], 0, exclude), *rank_in_numpy(scores[allowed], allowed, k)
    squares, lists = np.empty(n), empty_lists(1, k)
    kernels.scan_rows(plain, 0, asked, lists[:], (squares, kept, 0.5))
    found = int(lists.fill[0])
    mine = rank_in_numpy(np.asarray(lists.keys[0, :found]), lists.ids[0, :found], k)
    np.testing.assert_array_equal(mine[0], best)
    np.testing.assert_array_equal(mine[1], ids)
    assert lists.floors[0] == (best[-1] if len(best) == k else -np.inf)
    np.testing.assert_array_equal(kept, (0.5 * scores).astype(np.float32))
    np.testing.assert_array_equal(squares, (rows.astype(np.float64) ** 2).sum(axis=1))
    later = empty_lists(1, k, np.asarray(lists.floors.copy()))
    kernels.scan_rows(plain, 0, asked, later[:], (none, kept[:0], 1.0))
    np.testing.assert_array_equal(np.sort(later.ids[0, : later.fill[0]]), np.sort(ids))
    some, top = np.sort(rng.permutation(n)[: 1 + n // 2]), empty_top(plain, k)
    room = np.empty((1, len(some))), np.empty((1, len(some)), np.int64)
    found = kernels.best_listed(plain, query[None], some[None], exclude, room, top)
    inside = np.intersect1d(some, allowed)
    best, ids = rank_in_numpy(scores[inside], inside, k)
    hits = make_hits(top, found, 0.0, np.inf)
    np.testing.assert_array_equal(hits.ids[0, :found], ids)
    np.testing.assert_array_equal(hits.scores[0, :found], best)
    np.testing.assert_array_equal(hits.rows, rows[ids])
    np.testing.assert_array_equal(hits.slots[0, :found], np.arange(found))
    assert (found, hits.scored[0], hits.bounds[0]) == (len(ids), len(some), np.inf)
    assert (hits.ids[0, found:] == -1).all()
    assert (hits.scores[0, found:] == -np.inf).all()


@pytest.mark.parametrize("value", [np.inf, np.nan])
def test_a_score_that_is_not_finite_is_told(value: float) -> None:
    rows = ArrayAtoms(np.array([[1.0], [value], [2.0], [3.0], [0.0]])).plain
    assert rows is not None
    none, ids, room = (
        np.empty((1, 0), np.int64),
        np.arange(5)[None],
        (np.empty((1, 5)), np.empty((1, 5), np.int64)),
    )
    assert kernels.best_listed(rows, np.ones((1, 1)), ids, none, room, empty_top(rows, 2)) == -1


def test_the_opposites_come_after_all_directions() -> None:
    values = np.array([[1.0, -2.0]], np.float32)
    np.testing.assert_array_equal(hashes.CrossPolytope().spread(values), [[1.0, -2.0, -1.0, 2.0]])


# ---------------------------------------------------------------- the general way


MAKERS: dict[str, Callable[[Matrix], Oracle]] = {
    "Scan": Scan,
    "Scan, screening": lambda rows: Scan(rows, screen=True),
    "Int8Scan": Int8Scan.build,
    "ClusterIndex": lambda rows: ClusterIndex.build(rows, budget=20),
    "ClusterIndex, proving": lambda rows: ClusterIndex.build(rows, budget=20, proof=True),
    "LshIndex": lambda rows: LshIndex.build(rows, budget=20),
    "LshIndex, promising": lambda rows: LshIndex.build(rows, tau=0.7, ratio=0.5),
    "RandomSubset": lambda rows: RandomSubset(rows, size=100),
}


def ask_in_turn(oracle: Oracle, rows: Matrix, queries: Matrix) -> list[Hits]:
    """Answers with and without thresholds and exclusions, the queries close to each other."""
    answers = []
    for i, query in enumerate(queries[:, None]):
        scores = rows @ query[0]
        banned = np.argsort(-scores)[None, :3].astype(np.int64)
        enough = np.array([np.quantile(scores, 0.99)])
        answers.append(oracle.query(query, k=1 + i % 3))
        answers.append(oracle.query(query, k=2, thresholds=enough, exclude=banned))
    return answers


@pytest.mark.slow
@pytest.mark.parametrize("name", MAKERS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_general_way_gives_the_same(
    name: str, dtype: type[np.float64], monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(1)
    rows = rng.standard_normal((900, 6)).astype(dtype)
    queries = np.cumsum(
        np.concatenate([rng.standard_normal((1, 6)), 1e-3 * rng.standard_normal((7, 6))]), axis=0
    )
    queries = np.concatenate([queries, rng.standard_normal((4, 6)), np.zeros((1, 6))])
    quick = ask_in_turn(MAKERS[name](rows), rows, queries)
    for module in (_question, subset):
        monkeypatch.setattr(module, "in_memory", lambda atoms: None)
    general = ask_in_turn(MAKERS[name](rows), rows, queries)
    for mine, other in zip(quick, general, strict=True):
        for field in FIELDS:
            np.testing.assert_array_equal(getattr(mine, field), getattr(other, field), err_msg=field)


@given(seed=st.integers(0, 10**6), n=st.integers(1, 800), k=st.integers(1, 40), near=st.floats(1e-9, 1.0))
@settings(max_examples=40)
def test_answers_after_answers_are_proved(seed: int, n: int, k: int, near: float) -> None:
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((n, 5)) * rng.integers(0, 2, (n, 1))
    oracle, query = Scan(rows, screen=True), rng.standard_normal((1, 5))
    for _ in range(4):
        hits = oracle.query(query, k=k)
        check_hits(hits, query, rows, k)
        check_proof(hits, true_scores(query, rows), exact=True)
        query = query + near * rng.standard_normal((1, 5))


def test_a_few_atoms_are_always_scored_once() -> None:
    rows = np.random.default_rng(0).standard_normal((400, 4))
    oracle = Scan(rows)
    for _ in range(3):
        hits = oracle.query(np.ones((1, 4)))
        assert (hits.scored[0], hits.passes) == (400, 1.0)


def test_few_queries_do_not_wait_for_a_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_question, "OFTEN", 2)
    calls: list[int] = []

    def make(*args: Any) -> Hits:
        calls.append(1)
        return make_hits(*args)

    monkeypatch.setattr(_question, "make_hits", make)
    oracle, made = Int8Scan.build(np.eye(5)), []
    for _ in range(4):
        oracle.query(np.ones((1, 5)))
        made.append(len(calls))
    assert made == [0, 0, 1, 2]


@pytest.mark.parametrize("make", [Scan, Int8Scan.build])
def test_every_answer_is_a_listener(make: Callable[[Matrix], Oracle]) -> None:
    oracle = make(np.eye(5))
    swept: list[int] = []
    oracle.query(np.ones((1, 5)))
    with on_progress(swept.append):
        oracle.query(np.ones((1, 5)))
    assert swept == [5]


# ---------------------------------------------------------------- what is asked


@given(seed=st.integers(0, 10**6), d=st.integers(1, 40), exponent=st.integers(-300, 300))
def test_one_query_has_the_size_that_it_has_among_others(seed: int, d: int, exponent: int) -> None:
    atoms = ArrayAtoms(np.ones((3, d)))
    queries = 10.0**exponent * np.random.default_rng(seed).standard_normal((2, d))
    alone = check_question(atoms, queries[:1].copy(), 9, None)
    assert alone.k == 3
    assert (
        alone.sizes[0]
        == lengths(queries[:1])[0]
        == check_question(atoms, queries[:1].tolist(), 1, None).sizes[0]
    )


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
def test_a_query_that_is_not_finite_is_refused(value: float) -> None:
    with pytest.raises(ValueError, match=r"`queries` must be finite. Got .* at index \(0, 1\)"):
        Scan(np.eye(3)).query(np.array([[1.0, value, 0.0]]))


def test_one_threshold_is_checked() -> None:
    given_ = np.array([-np.inf])
    assert check_thresholds(given_, 1) is given_
    with pytest.raises(ValueError, match=r"`thresholds` must be numbers. Got nan"):
        check_thresholds(np.array([np.nan]), 1)
    with pytest.raises(ValueError, match=r"`thresholds` must be a vector of length 2"):
        check_thresholds(given_, 2)


def test_other_layouts_of_a_query_give_the_same() -> None:
    rng = np.random.default_rng(0)
    oracle, query = Scan(rng.standard_normal((50, 4))), rng.integers(-4, 5, (1, 4)).astype(np.float64)
    expected = oracle.query(query)
    read_only, swapped = query.copy(), query.astype(">f8")
    read_only.flags.writeable = False
    strided = np.repeat(query, 2, axis=1)[:, ::2]
    others: list[Any] = [read_only, swapped, strided, query.astype(np.float32), query.astype(np.int8)]
    for other in [*others, query.tolist()]:
        hits = oracle.query(other)
        assert (hits.ids[0, 0], hits.bounds[0]) == (expected.ids[0, 0], expected.bounds[0])


def test_rows_in_memory_are_read_where_they_are_and_pickled_once() -> None:
    rows = np.ones((1000, 4))
    atoms = ArrayAtoms(rows)
    assert atoms.plain is not None
    assert np.shares_memory(atoms.plain, rows)
    assert not atoms.plain.flags.writeable
    assert len(pickle.dumps(atoms)) < 1.1 * rows.nbytes
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(atoms)).plain, rows)
    assert ArrayAtoms(np.asfortranarray(rows)).plain is None
    assert ArrayAtoms(rows.astype(np.int8)).plain is None
