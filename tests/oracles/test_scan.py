"""`Scan`: exact, proved, the same alone and in a batch, with and without screening."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.conformance.oracle import check_hits, check_proof, true_scores
from wolfhound.core.contracts import Matrix, Status
from wolfhound.core.progress import Cut, on_progress
from wolfhound.data.atoms import ArrayAtoms, ConcatAtoms
from wolfhound.oracles import scan as _batch
from wolfhound.oracles.asking import check_question, lengths, rescore
from wolfhound.oracles.scan import NormRecorder, Norms, ReferencePass, Scan, scale_of

# ---------------------------------------------------------------- exactness, adversarially


def _near_ties(rng: np.random.Generator, n: int, d: int) -> Matrix:
    base = rng.standard_normal(d)
    return (base + 1e-7 * rng.standard_normal((n, d))).astype(np.float32)


def _copies(rng: np.random.Generator, n: int, d: int) -> Matrix:
    return rng.standard_normal((3, d)).astype(np.float32)[rng.integers(0, 3, n)]


def _cancelling(rng: np.random.Generator, n: int, d: int) -> Matrix:
    rows = rng.standard_cauchy((n, d)) * np.exp(3.0 * rng.standard_normal((n, 1)))
    return rows.astype(np.float32)


def _denormal(rng: np.random.Generator, n: int, d: int) -> Matrix:
    return (1e-42 * rng.standard_normal((n, d))).astype(np.float32)


def _huge(rng: np.random.Generator, n: int, d: int) -> Matrix:
    return (1e37 * rng.standard_normal((n, d))).astype(np.float32)


def _one_outlier(rng: np.random.Generator, n: int, d: int) -> Matrix:
    rows = np.abs(rng.standard_normal((n, d)))
    rows[n // 2] *= 1e15
    return rows


FAMILIES = [_near_ties, _copies, _cancelling, _denormal, _huge, _one_outlier]


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.__name__.strip("_"))
@pytest.mark.parametrize("d", [3, 784])
def test_batch_and_single_give_the_same_proved_answer(
    family: Callable[[np.random.Generator, int, int], Matrix], d: int
) -> None:
    rng = np.random.default_rng(d)
    rows = family(rng, 700, d)
    queries = np.concatenate([rng.standard_normal((3, d)), -np.ones((1, d)), rows[:1].astype(np.float64)])
    queries = queries * np.array([1.0, 1e-30, 1e60, 1.0, 1.0])[:, None]
    together = Scan(rows).query(queries, k=40)
    truth = true_scores(queries, rows)
    check_proof(together, truth, exact=True)
    check_hits(together, queries, rows, 40)
    for i, query in enumerate(queries):
        alone = Scan(rows, screen=False).query(query[None], k=40)
        check_proof(alone, truth[i : i + 1], exact=True)
        np.testing.assert_array_equal(alone.ids[0], together.ids[i])
        np.testing.assert_array_equal(alone.scores[0], together.scores[i])
        assert alone.bounds[0] == together.bounds[i]


@given(
    seed=st.integers(0, 10**6),
    n=st.integers(1, 400),
    d=st.integers(1, 40),
    m=st.sampled_from([1, 2, 5, 7]),
    k=st.integers(1, 300),
    exponents=st.tuples(st.integers(-40, 36), st.integers(-250, 250)),
    double=st.booleans(),
)
@settings(max_examples=60)
def test_any_scale_is_proved(
    seed: int, n: int, d: int, m: int, k: int, exponents: tuple[int, int], double: bool
) -> None:
    rng = np.random.default_rng(seed)
    values = 10.0 ** exponents[0] * rng.standard_normal((n, d)) * rng.integers(0, 2, (n, 1))
    rows: Matrix = values.astype(np.float64 if double else np.float32)
    queries = 10.0 ** exponents[1] * rng.standard_normal((m, d))
    hits = Scan(rows).query(queries, k=k)
    check_hits(hits, queries, rows, k)
    check_proof(hits, true_scores(queries, rows), exact=True)
    for i, query in enumerate(queries):
        alone = Scan(rows, screen=False).query(query[None], k=k)
        np.testing.assert_array_equal(alone.ids[0], hits.ids[i])
        np.testing.assert_array_equal(alone.scores[0], hits.scores[i])


@pytest.mark.parametrize("d", [1, 2, 7, 8, 31, 64, 100, 129, 784])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_one_score_has_one_value(d: int, dtype: type[np.floating[Any]]) -> None:
    rng = np.random.default_rng(d)
    rows = rng.standard_normal((50, d)).astype(dtype)
    query = rng.standard_normal((1, d))
    scan = Scan(rows)
    first, pair, batch = (scan.query(np.repeat(query, m, axis=0), k=50) for m in (1, 2, 6))
    again = scan.query(query, k=50)
    order = np.argsort(first.ids[0])
    expected = rescore(rows, query[0])
    np.testing.assert_array_equal(first.scores[0, order], expected)
    np.testing.assert_array_equal(again.scores, first.scores)
    for several, m in ((pair, 2), (batch, 6)):
        np.testing.assert_array_equal(several.scores, np.repeat(first.scores, m, axis=0))
        np.testing.assert_array_equal(several.ids, np.repeat(first.ids, m, axis=0))


def test_top_k_is_exact() -> None:
    rng = np.random.default_rng(3)
    rows = rng.integers(-2, 3, (30000, 6)).astype(np.float32)  # many ties
    query = rng.integers(-2, 3, (1, 6)).astype(np.float64)
    atoms = ConcatAtoms([rows[i : i + 1700] for i in range(0, len(rows), 1700)])
    scores = rows.astype(np.float64) @ query[0]
    for k in (1, 10, 1000, 20000, 40000):
        hits = Scan(atoms).query(query, k=k)
        expected = np.lexsort((np.arange(len(rows)), -scores))[:k]
        np.testing.assert_array_equal(hits.ids[0, : len(expected)], expected)
        np.testing.assert_array_equal(hits.scores[0, : len(expected)], scores[expected])


def test_top_k_of_a_batch_over_several_blocks() -> None:
    rng = np.random.default_rng(4)
    rows = rng.standard_normal((6000, 8)).astype(np.float32)
    queries = rng.standard_normal((5, 8))
    atoms = ConcatAtoms([rows[i : i + 700] for i in range(0, len(rows), 700)])
    hits = Scan(atoms).query(queries, k=20)
    expected = np.argsort(-(queries @ rows.astype(np.float64).T), axis=1)[:, :20]
    np.testing.assert_array_equal(hits.ids, expected)
    assert hits.passes == 1.0
    assert ((hits.scored >= 6020) & (hits.scored < 6030)).all()  # and the best again in float64


def test_queries_that_products_cannot_decide_take_one_more_pass() -> None:
    rng = np.random.default_rng(5)
    rows = _near_ties(rng, 2000, 100)
    queries = np.concatenate([rows[:2].astype(np.float64), rng.standard_normal((4, 100))])
    hits = Scan(rows).query(queries, k=2)
    assert hits.passes == 2.0
    check_proof(hits, true_scores(queries, rows), exact=True)
    check_hits(hits, queries, rows, 2)


def test_groups_of_queries_are_joined(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(6)
    rows, queries = rng.standard_normal((900, 6)), rng.standard_normal((10, 6))
    whole = Scan(rows).query(queries, k=2)
    monkeypatch.setattr(_batch, "_LISTS_MEMORY", 2 * 3 * 5 * 16 * 130)
    parts = Scan(rows).query(queries, k=2)
    check_hits(parts, queries, rows, 2)
    assert parts.passes == 4.0
    for name in ("ids", "scores", "bounds", "scored"):
        np.testing.assert_array_equal(getattr(parts, name), getattr(whole, name))


def test_products_that_overflow_float32_are_left_to_the_loop() -> None:
    rows = np.full((300, 8), 3e38, np.float32)
    rows[200] = 2e38
    hits = Scan(rows).query(-np.ones((6, 8)))
    np.testing.assert_array_equal(hits.ids[:, 0], 200)
    assert hits.passes == 2.0


@pytest.mark.parametrize("value", [0.1, 0.3, 0.7, 1.1, 1.7])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_upper_bounds_of_products_hold_where_rounding_piles_up(
    value: float, dtype: type[np.floating[Any]]
) -> None:
    # Equal terms round the same way each time, the worst case for a sum.
    rows: Matrix = np.outer(np.linspace(0.5, 1.0, 60), np.full(5000, value)).astype(dtype)
    atoms = ArrayAtoms(rows)
    queries = np.outer([1.0, -1.0, 1e-9, 1 / 3], np.full(5000, 1.3))
    question = check_question(atoms, queries, 1, None)
    ids, uppers, rest, _ = _batch.product_pass(atoms, NormRecorder(atoms, keep=False), question, 61)
    truth = np.take_along_axis(true_scores(queries, rows), ids[:, :60], 1)
    assert (uppers[:, :60] >= truth).all()
    assert (uppers[:, :60] <= truth + 2e-3 * np.abs(truth)).all()
    assert (np.diff(uppers, axis=1) <= 0.0).all()
    assert (ids[:, 60] == -1).all()
    assert (rest == -np.inf).all()


@pytest.mark.slow
@given(seed=st.integers(0, 10**6), size=st.integers(1, 30), per_block=st.integers(1, 40))
def test_lists_keep_the_smallest_ids_of_equal_keys(seed: int, size: int, per_block: int) -> None:
    rng = np.random.default_rng(seed)
    rows = rng.integers(0, 3, (200, 2)).astype(np.float64)
    atoms = ConcatAtoms([rows[i : i + per_block] for i in range(0, 200, per_block)])
    queries = np.array([[1.0, 0.0], [0.0, 0.0]])
    ids, uppers, rest, _ = _batch.product_pass(
        atoms, NormRecorder(atoms, keep=True), check_question(atoms, queries, 1, None), size
    )
    order = np.lexsort((ids, -uppers), axis=1)
    np.testing.assert_array_equal(order, np.tile(np.arange(size), (2, 1)))
    np.testing.assert_array_equal(ids[1], np.arange(size))  # all keys are equal
    np.testing.assert_array_equal(rest, uppers[:, -1])


@pytest.mark.slow
@given(seed=st.integers(0, 10**6), exponent=st.integers(-44, 18), double=st.booleans())
def test_norms_are_rounded_up(seed: int, exponent: int, double: bool) -> None:
    values = 10.0**exponent * np.random.default_rng(seed).standard_normal((40, 3))
    rows: Matrix = values.astype(np.float64 if double else np.float32)
    recorder = NormRecorder(ArrayAtoms(rows), keep=True)
    norms = recorder.measure(0, rows)
    truth = np.sqrt((rows.astype(np.longdouble) ** 2).sum(axis=1))
    assert (norms >= truth).all()
    assert (norms <= truth * (1.0 + 1e-6) + 1e-44).all()
    assert truth.max() <= recorder.norms().radius <= truth.max() * (1.0 + 1e-14) + 1e-150


@pytest.mark.parametrize("exponent", [-160, -200, -280])
def test_the_radius_is_known_where_squares_underflow(exponent: int) -> None:
    rows: Matrix = 10.0**exponent * np.array([[3.0, -4.0], [0.0, 1.0]])
    found = Scan(rows).query(np.array([[1.0, 0.0]]))
    assert 5.0 <= found.radius * 10.0**-exponent <= 4.0 * np.sqrt(2.0) * (1.0 + 1e-14)


# ---------------------------------------------------------------- screening


@pytest.mark.parametrize("distance", [0.0, 1e-9, 0.2])
@pytest.mark.parametrize("factor", [1.0, -3e-7, 1e20])
def test_screening_bounds_hold_for_atoms_that_attain_them(distance: float, factor: float) -> None:
    rng = np.random.default_rng(12)
    d = 40
    first = rng.standard_normal(d)
    query = factor * (first + distance * rng.standard_normal(d))
    # Atoms along q0 lose most when their score is stored in float32, atoms along q - a q0 when a changes.
    apart = query - (query @ first) / (first @ first) * first
    rows = np.concatenate(
        [np.outer(rng.uniform(-9, 9, 200), first), np.outer(rng.uniform(-9, 9, 200), apart)]
    )
    size = float(lengths(first[None])[0])
    norms = np.nextafter(lengths(rows).astype(np.float32), np.float32(np.inf))
    scores = (scale_of(size) * rescore(rows, first)).astype(np.float32)
    reference = ReferencePass(query=first, size=size, scores=scores, norms=Norms(9.0, norms))
    slope, rho, shift = reference.rule(query, float(lengths(query[None])[0]))
    uppers = slope * scores.astype(np.float64) + (rho * norms.astype(np.float64) + shift)
    assert (uppers >= true_scores(query[None], rows)[0]).all()
    assert (uppers >= rescore(rows, query)).all()


@given(
    seed=st.integers(0, 10**6),
    distance=st.sampled_from([0.0, 1e-12, 1e-7, 1e-4, 1e-2, 0.1]),
    factor=st.sampled_from([1.0, 1e-20, 1e12]),
    k=st.sampled_from([1, 30, 400]),
    double=st.booleans(),
)
@settings(max_examples=60)
def test_screening_changes_no_best_and_no_bound(
    seed: int, distance: float, factor: float, k: int, double: bool
) -> None:
    rng = np.random.default_rng(seed)
    rows: Matrix = rng.standard_normal((2000, 12)).astype(np.float64 if double else np.float32)
    rows[1000:] = rows[:1000] * (1.0 + 1e-7)  # near-ties of the reference
    first = rng.standard_normal((1, 12))
    query = factor * (first + distance * rng.standard_normal((1, 12)))
    banned = np.sort(rng.integers(0, 2000, (1, 50)))
    scan = Scan(rows, screen=True)
    scan.query(first)
    hits = scan.query(query, k=k, exclude=banned)
    full = Scan(rows, screen=False).query(query, k=k, exclude=banned)
    assert hits.ids[0, 0] == full.ids[0, 0]
    assert hits.scores[0, 0] == full.scores[0, 0]
    assert hits.bounds[0] == full.bounds[0]
    assert not np.isin(hits.ids, banned).any()
    check_hits(hits, query, rows, k)
    assert (hits.ids >= 0).all()


def test_screening_may_change_the_next_best() -> None:
    rng = np.random.default_rng(8)
    rows, first = rng.standard_normal((4000, 6)), rng.standard_normal((1, 6))
    query, scan = first + 0.02 * rng.standard_normal((1, 6)), Scan(rows, screen=True)
    scan.query(first)
    hits, full = scan.query(query, k=300), Scan(rows, screen=False).query(query, k=300)
    assert hits.passes < 1.0
    np.testing.assert_array_equal(hits.ids[:, 0], full.ids[:, 0])
    np.testing.assert_array_equal(hits.bounds, full.bounds)
    check_hits(hits, query, rows, 300)
    shared = np.intersect1d(hits.ids, full.ids)
    assert 250 < len(shared) < 300  # good, not exact: what the docs say


def test_screening_reads_a_small_share() -> None:
    rng = np.random.default_rng(7)
    rows = rng.standard_normal((20000, 16)).astype(np.float32)
    query = rng.standard_normal((1, 16))
    scan = Scan(rows)
    assert scan.query(query).passes == 1.0
    near = scan.query(query + 1e-3, k=40)
    assert near.passes < 0.05
    assert near.scored[0] == round(near.passes * 20000)
    expected = np.argsort(-(rows.astype(np.float64) @ (query[0] + 1e-3)))[:20]
    np.testing.assert_array_equal(near.ids[0, :20], expected)
    assert scan.query(-query).passes == 1.0
    assert scan.query(-query - 1e-3).passes < 0.05  # the last full pass is the reference
    assert Scan(rows, screen=False).query(query).passes == 1.0


def _cut(rows: int) -> None:
    raise Cut(Status.MAX_SECONDS)


def test_a_pass_that_was_cut_leaves_no_reference() -> None:
    rows = np.full((4000, 2), 1e-3, np.float32)
    rows[10], rows[3000] = (10.0, 0.0), (5.0, 0.0)
    scan = Scan(ConcatAtoms([rows[:1500], rows[1500:]]), screen=True)
    query = np.array([[1.0, 0.0]])
    assert scan.query(query).ids[0, 0] == 10
    with on_progress(_cut), pytest.raises(Cut):
        scan.query(-query)  # the scores of the first block are overwritten before this ends
    assert scan.query(query).ids[0, 0] == 10


def test_a_first_pass_that_was_cut_is_measured_again() -> None:
    rows = np.random.default_rng(9).standard_normal((100, 3))
    scan = Scan(ConcatAtoms([rows[:50], rows[50:]]))
    with on_progress(_cut), pytest.raises(Cut):
        scan.query(rows[:1])
    for hits in (scan.query(rows[:1]), scan.query(rows[:2]), scan.query(rows[:6])):
        assert hits.radius == Scan(rows).query(rows[:1]).radius


# ---------------------------------------------------------------- what is reported, what is refused


def test_reports_count_all_rows_on_every_pass() -> None:
    rows = np.random.default_rng(11).standard_normal((64, 3))
    scan = Scan(ConcatAtoms([rows[:20], rows[20:]]), screen=False)
    for queries in (rows[:1], rows[:3], rows[:6]):
        seen: list[int] = []
        with on_progress(seen.append):
            scan.query(queries)
        assert seen == [20, 44]


@pytest.mark.parametrize("m", [1, 2, 6])
def test_rows_that_are_not_finite_are_named(m: int) -> None:
    rows = np.ones((40, 3), np.float32)
    rows[33, 1] = np.nan
    with pytest.raises(ValueError, match="row 33"):
        Scan(ConcatAtoms([rows[:30], rows[30:]])).query(np.ones((m, 3)))


@pytest.mark.parametrize("m", [1, 2, 6])
def test_norms_that_overflow_are_named(m: int) -> None:
    rows = np.ones((40, 3))
    rows[7] = 1e200
    with pytest.raises(ValueError, match=r"norms below 1e154\. Got a larger one in row 7"):
        Scan(rows).query(np.ones((m, 3)))


@pytest.mark.parametrize("m", [1, 2, 6])
def test_products_that_overflow_are_refused(m: int) -> None:
    with pytest.raises(ValueError, match="`queries` must be so small"):
        Scan(np.full((4, 3), 1e100)).query(np.full((m, 3), 1e250))


@pytest.mark.parametrize(
    ("queries", "options", "message"),
    [
        (np.ones((1, 1, 3)), {}, "`queries` must be an array with 2 axes"),
        (np.ones((1, 4)), {}, r"`queries` must be an \(m, 3\) array. Got shape \(1, 4\)"),
        (np.full((1, 3), np.nan), {}, "`queries` must be finite"),
        (np.ones((0, 3)), {}, "`queries` must be non-empty"),
        (np.ones((1, 3)), {"k": 0}, "`k` must be an integer >= 1"),
        (np.ones((2, 3)), {"exclude": np.zeros((1, 1), int)}, r"`exclude` must be an \(2, e\) array"),
        (np.ones((1, 3)), {"exclude": np.array([[5]])}, r"`exclude` must be ids in \[0, 5\) or -1"),
    ],
)
def test_wrong_arguments(queries: Matrix, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Scan(np.ones((5, 3))).query(queries, **options)


def test_exclude_must_hold_integers() -> None:
    with pytest.raises(TypeError, match="`exclude` must be an array of integer ids"):
        Scan(np.ones((5, 3))).query(np.ones((1, 3)), exclude=np.ones((1, 1)))  # type: ignore[arg-type]


def test_repr_names_atoms_and_options() -> None:
    assert repr(Scan(np.ones((5, 3)))) == "Scan(ArrayAtoms(5 x 3, float64), screen=False)"
