"""`Int8Scan`: the answers of `Scan`, to the bit, from codes."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.conformance.oracle import _same as same
from tests.conformance.oracle import check_hits, check_oracle, check_proof, locked, true_scores
from wolfhound.core.contracts import Hits, Ids, Matrix, Status
from wolfhound.core.progress import Cut, on_progress
from wolfhound.core.rounding import TINY, gamma
from wolfhound.core.threads import set_threads
from wolfhound.data.atoms import ArrayAtoms, ConcatAtoms, FileAtoms
from wolfhound.data.store import StoreError
from wolfhound.oracles.asking import lengths
from wolfhound.oracles.int8 import codes as _codes
from wolfhound.oracles.int8 import codes as _encoding
from wolfhound.oracles.int8 import scan as _sweep
from wolfhound.oracles.int8 import scan as int8
from wolfhound.oracles.int8.layout import GROUP
from wolfhound.oracles.int8.scan import Int8Scan
from wolfhound.oracles.scan import Scan


@pytest.mark.slow
def test_conformance() -> None:
    check_oracle(Int8Scan.build, exact=True)


# ---------------------------------------------------------------- exactness, adversarially


def check_like_scan(oracle: Int8Scan, queries: Matrix, k: int, exclude: Ids | None = None) -> Hits:
    """Compare a batch with its queries one by one, and these with `Scan`."""
    rows = oracle.atoms.take(np.arange(oracle.atoms.shape[0]))
    hits = oracle.query(queries, k=k, exclude=exclude)
    banned = np.full((len(queries), 1), -1) if exclude is None else exclude
    d, best, sizes = rows.shape[1], hits.scores[:, 0], lengths(np.asarray(queries, np.float64))
    for i in range(len(queries)):
        here = slice(i, i + 1)
        alone = oracle.query(queries[here], k=k, exclude=banned[here])
        full = Scan(oracle.atoms, screen=False).query(queries[here], k=k, exclude=banned[here])
        np.testing.assert_array_equal(alone.ids, full.ids)
        np.testing.assert_array_equal(alone.scores, full.scores)
        for name in ("ids", "scores", "bounds"):
            np.testing.assert_array_equal(getattr(hits, name)[here], getattr(alone, name))
        room = 1.1 * gamma(d + 2) * sizes[i] * alone.radius + d * TINY + np.spacing(np.abs(best[i]))
        assert hits.bounds[i] <= max(best[i] + 2.0 * room, full.bounds[0])
    truth = true_scores(queries, rows)
    for scores, out in zip(truth, banned, strict=True):
        scores[out[out >= 0]] = -np.inf
    check_hits(hits, queries, rows, k)
    check_proof(hits, truth, exact=True)
    return hits


Family = Callable[[np.random.Generator, int, int], Matrix]


def _single(family: Family) -> Family:
    return lambda rng, n, d: family(rng, n, d).astype(np.float32)


FAMILIES: dict[str, Family] = {
    "normal": lambda rng, n, d: rng.standard_normal((n, d)),
    "non-negative": _single(lambda rng, n, d: np.abs(rng.standard_normal((n, d)))),
    "near ties": _single(lambda rng, n, d: rng.random(d) + 1e-7 * rng.standard_normal((n, d))),
    "copies": _single(lambda rng, n, d: rng.standard_normal((3, d))[rng.integers(0, 3, n)]),
    "wild": _single(lambda rng, n, d: rng.standard_cauchy((n, d)) * np.exp(rng.uniform(-25, 25, (n, 1)))),
    "denormal": _single(lambda rng, n, d: 1e-42 * rng.standard_normal((n, d))),
    "huge": _single(lambda rng, n, d: 1e37 * rng.standard_normal((n, d))),
    "ordered": _single(lambda rng, n, d: np.sort(rng.standard_normal((n, d)), axis=0)),
    "one outlier": lambda rng, n, d: np.where(np.arange(n)[:, None] == n // 2, -1e15, rng.random((n, d))),
    "unequal errors": lambda rng, n, d: np.where(
        (rng.random((n, 1)) < 0.1) & (np.arange(d) == 0), -200.0, rng.standard_normal((n, d))
    ),
}


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize(("n", "d"), [(2001, 3), (300, 784)])
def test_answers_are_those_of_scan(name: str, n: int, d: int) -> None:
    rng = np.random.default_rng(d)
    rows = FAMILIES[name](rng, n, d)
    queries = np.concatenate(
        [rng.standard_normal((GROUP, d)), np.ones((1, d)), -np.ones((1, d)), rows[:1].astype(np.float64)]
    )
    queries[:4] *= np.array([[1e-200], [1e-30], [1e60], [1e200]])
    check_like_scan(Int8Scan.build(rows), queries, 3)


@pytest.mark.slow
@given(
    seed=st.integers(0, 10**6),
    n=st.integers(1, 500),
    d=st.integers(1, 40),
    m=st.sampled_from([1, 3, GROUP, GROUP + 2]),
    k=st.integers(1, 600),
    exponents=st.tuples(st.integers(-40, 36), st.integers(-300, 250)),
    double=st.booleans(),
)
@settings(max_examples=40)
def test_any_scale_is_proved(
    seed: int, n: int, d: int, m: int, k: int, exponents: tuple[int, int], double: bool
) -> None:
    rng = np.random.default_rng(seed)
    values = 10.0 ** exponents[0] * rng.standard_normal((n, d)) * rng.integers(0, 2, (n, 1))
    rows = values.astype({True: np.float64, False: np.float32}[double])
    queries = 10.0 ** exponents[1] * rng.standard_normal((m, d))
    check_like_scan(Int8Scan.build(rows), queries, k)


@pytest.mark.parametrize(
    ("dtype", "scale"),
    [(np.float64, scale) for scale in (1e-310, 1e-300, 1e-170, 1e-100, 1e100, 1e150, 3e153)]
    + [(np.float32, scale) for scale in (1e-44, 1e-38, 1e-30, 1e30, 3.4e38)],
)
def test_atoms_of_any_size(dtype: type[np.floating[Any]], scale: float) -> None:
    rng = np.random.default_rng(1)
    rows = (scale * rng.uniform(-1.0, 1.0, (700, 2))).astype(dtype)
    queries = np.outer(10.0 ** np.array([-300.0, -170.0, -20.0, 0.0, 20.0, 100.0]), [1.0, -0.3])
    check_like_scan(Int8Scan.build(rows), queries, 3)


@pytest.mark.parametrize("k", [1, 10, 1000, 20000, 40000])
def test_the_whole_top_is_exact(k: int) -> None:
    rng = np.random.default_rng(3)
    rows = rng.integers(-2, 3, (20003, 6)).astype(np.float32)  # many ties
    query = rng.integers(-2, 3, (1, 6)).astype(np.float64)
    scores = rows.astype(np.float64) @ query[0]
    expected = np.lexsort((np.arange(len(rows)), -scores))[:k]
    hits = Int8Scan.build(rows).query(query, k=k)
    np.testing.assert_array_equal(hits.ids[0, : len(expected)], expected)
    np.testing.assert_array_equal(hits.scores[0, : len(expected)], scores[expected])
    assert (hits.ids[0, len(expected) :] == -1).all()


@pytest.mark.parametrize("leave", [1, 3, 40, 2003])
def test_excluding_many(leave: int) -> None:
    rng = np.random.default_rng(4)
    rows, queries = rng.standard_normal((2003, 6)), rng.standard_normal((GROUP + 3, 6))
    best_first = np.argsort(-(queries @ rows.T), axis=1)
    check_like_scan(Int8Scan.build(rows), queries, 5, best_first[:, : 2003 - leave])


@pytest.mark.slow
def test_excluding_all_leaves_nothing() -> None:
    rows = np.random.default_rng(4).standard_normal((2003, 6))
    everything = np.broadcast_to(np.arange(2003), (GROUP + 1, 2003))
    hits = Int8Scan.build(rows).query(rows[: GROUP + 1], k=5, exclude=everything)
    assert (hits.ids == -1).all()
    assert (hits.bounds == -np.inf).all()


# ---------------------------------------------------------------- what codes cannot decide


def test_equal_rows_take_a_pass_over_the_atoms() -> None:
    rows = np.full((20001, 3), 0.3, np.float32)
    queries = np.random.default_rng(5).standard_normal((3, 3))
    hits = check_like_scan(Int8Scan.build(rows), queries, 2)
    assert hits.passes == 2.0
    np.testing.assert_array_equal(hits.ids, [[0, 1]] * 3)
    np.testing.assert_array_equal(hits.scored, 2 * 20001)


def test_a_batch_that_codes_cannot_decide_is_exact_in_the_whole_top() -> None:
    rng = np.random.default_rng(0)
    base = rng.standard_normal(8)
    rows = (base + 1e-7 * rng.standard_normal((20001, 8))).astype(np.float32)
    rows[7] += 1.0
    check_like_scan(Int8Scan.build(rows), base + rng.standard_normal((GROUP, 8)), 10)


def test_queries_that_codes_say_nothing_of_take_only_a_pass_over_the_atoms() -> None:
    rng = np.random.default_rng(6)
    rows = rng.standard_normal((900, 4))
    queries = rng.standard_normal((GROUP + 2, 4))
    queries[[2, 9]] = 0.0
    hits = check_like_scan(Int8Scan.build(rows), queries, 3)
    assert hits.passes == 2.0
    assert (hits.scored[[2, 9]] == 900).all()
    assert (np.delete(hits.scored, [2, 9]) < 930).all()
    np.testing.assert_array_equal(hits.ids[[2, 9]], [[0, 1, 2]] * 2)


@pytest.mark.parametrize(("scale", "size"), [(1e-170, 1e-170), (1e-38, 1e-280)])
def test_products_that_underflow_take_a_pass_over_the_atoms(scale: float, size: float) -> None:
    rng = np.random.default_rng(7)
    oracle = Int8Scan.build(scale * rng.standard_normal((3000, 8)))
    assert check_like_scan(oracle, size * rng.standard_normal((2, 8)), 3).passes == 1.0


def late(n: int, m: int, spread: float) -> tuple[Matrix, Matrix]:
    """Return atoms that differ much along 4 axes and little along others, and queries across these 4.

    So it is late in a run: along axes that matter the gradient is 0.
    """
    rng = np.random.default_rng(8)
    rows, queries = spread * rng.standard_normal((n, 64)), rng.standard_normal((m, 64))
    rows[:, :4] += rng.standard_normal((n, 4))
    queries[:, :4] = 0.0
    return rows.astype(np.float32), queries


@pytest.mark.parametrize("m", [1, 3, GROUP + 4])
def test_codes_that_tell_little_leave_it_to_the_rows(m: int) -> None:
    rows, queries = late(20_000, m, spread=0.001)
    assert check_like_scan(Int8Scan.build(rows), queries, 2).passes == 2.0


def test_codes_are_given_up_query_by_query() -> None:
    rows, queries = late(20_000, 2 * GROUP + 1, spread=0.001)
    queries[::2, 0] = 10.0
    hits = check_like_scan(Int8Scan.build(rows), queries, 3)
    assert hits.passes == 2.0
    assert (hits.scored[::2] < 20_000 + 300).all()
    assert (hits.scored[1::2] >= 40_000).all()


def test_codes_that_tell_enough_are_not_given_up() -> None:
    rows, queries = late(20_000, GROUP + 1, spread=0.1)
    exclude = np.argsort(-(queries @ rows.T), axis=1)[:, :50]
    hits = check_like_scan(Int8Scan.build(rows), queries, 40, exclude)
    assert hits.passes == 1.0
    assert (hits.scored < 1.2 * 20_000).all()


@pytest.mark.parametrize(
    ("dtype", "large", "small"),
    [(np.float64, *sizes) for sizes in ((1e30, 1.0), (1e150, 1.0), (1e100, 1e-300), (1e150, 1e-310))]
    + [(np.float32, *sizes) for sizes in ((1e30, 1.0), (3e38, 1e-42), (1e-30, 0.0))],
)
def test_a_sample_that_misses_the_scale(
    dtype: type[np.floating[Any]], large: float, small: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_encoding, "_SAMPLE", 4)
    rng = np.random.default_rng(8)
    rows = small * rng.standard_normal((3000, 4))
    rows[1234] = large
    queries = np.concatenate([np.ones((1, 4)), -np.ones((1, 4)), rng.standard_normal((2, 4))])
    check_like_scan(Int8Scan.build(rows.astype(dtype)), queries, 3)


@pytest.mark.parametrize("size", [-3.0, -1e17, -1e30])
def test_a_non_negative_sample_may_hide_negative_rows(size: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_encoding, "_SAMPLE", 4)
    rng = np.random.default_rng(9)
    rows = np.abs(rng.standard_normal((1000, 300))).astype(np.float32)  # squares of residuals may overflow
    rows[[300, 700, 999]] *= np.float32(size)
    hits = check_like_scan(Int8Scan.build(rows), -np.eye(300)[:3], 3)
    assert np.isin(hits.ids, [300, 700, 999]).all()


# ---------------------------------------------------------------- rows of any kind


@pytest.mark.parametrize("dtype", [np.float16, np.int8, np.int64, np.float32, np.float64])
def test_types_and_layouts_are_converted(dtype: type[np.generic]) -> None:
    rng = np.random.default_rng(10)
    rows = (20.0 * rng.standard_normal((701, 5))).astype(dtype)
    queries = rng.standard_normal((3, 5))
    plain = check_like_scan(Int8Scan.build(locked(rows)), queries, 4)
    same(Int8Scan.build(np.asfortranarray(rows)).query(queries, k=4), plain)


def test_files_and_maps_are_read_as_arrays_are(tmp_path: Path) -> None:
    rng = np.random.default_rng(11)
    rows, queries = rng.standard_normal((701, 5)).astype(np.float32), rng.standard_normal((3, 5))
    np.save(tmp_path / "rows.npy", rows)
    plain = Int8Scan.build(rows).query(queries, k=4)
    mapped = np.load(tmp_path / "rows.npy", mmap_mode="r")
    for atoms in (tmp_path / "rows.npy", FileAtoms(tmp_path / "rows.npy"), mapped, ArrayAtoms(mapped)):
        same(Int8Scan.build(atoms).query(queries, k=4), plain)


def test_the_same_at_any_number_of_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(12)
    rows, queries = FAMILIES["unequal errors"](rng, 5003, 6), rng.standard_normal((GROUP + 1, 6))
    monkeypatch.setattr(_codes, "CHUNK", 2000)
    atoms = ConcatAtoms([rows[i : i + 701] for i in range(0, len(rows), 701)])
    answers = []
    try:
        for threads in (1, 2, 3):
            set_threads(threads)
            oracle = Int8Scan.build(atoms)
            answers.append([oracle.query(queries[:m], k=k) for m in (1, GROUP + 1) for k in (1, 40)])
    finally:
        set_threads(None)
    for other in answers[1:]:
        for a, b in zip(answers[0], other, strict=True):
            same(a, b)


@pytest.mark.parametrize("name", FAMILIES)
def test_answers_over_several_chunks(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_codes, "CHUNK", 2000)
    rng = np.random.default_rng(13)
    rows, queries = FAMILIES[name](rng, 3001, 6), rng.standard_normal((GROUP + 1, 6))
    check_like_scan(Int8Scan.build(rows), queries, 40)


def test_groups_of_queries_are_joined(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(14)
    rows, queries = rng.standard_normal((900, 6)), rng.standard_normal((10, 6))
    oracle = Int8Scan.build(rows)
    whole = oracle.query(queries, k=2)
    monkeypatch.setattr(int8, "_MEMORY", 3 * 32 * _sweep.room(2))
    parts = oracle.query(queries, k=2)
    check_hits(parts, queries, rows, 2)
    assert parts.passes == 4.0
    for name in ("ids", "scores", "bounds", "scored"):
        np.testing.assert_array_equal(getattr(parts, name), getattr(whole, name))


# ---------------------------------------------------------------- what is reported


@pytest.mark.parametrize("chunk", [2000, 1 << 20])
@pytest.mark.parametrize("name", ["normal", "unequal errors"])
@pytest.mark.parametrize("k", [1, 5, 40])
def test_scored_counts_codes_and_the_rows_scored_again(
    name: str, k: int, chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_codes, "CHUNK", chunk)
    rng = np.random.default_rng(15)
    rows, queries = FAMILIES[name](rng, 3001, 6), rng.standard_normal((GROUP + 3, 6))
    queries[:, 0] = np.abs(queries[:, 0]) * np.array([3.0, *[0.01] * (GROUP + 2)])
    # Rows in one array are scored where they are; those in parts are taken first.
    oracle = Int8Scan.build(ConcatAtoms([rows[:5], rows[5:]]))
    taken, original = set[int](), ConcatAtoms.take
    together = oracle.query(queries, k=k)

    def take(atoms: ConcatAtoms, ids: Ids) -> Matrix:
        taken.update(ids.tolist())
        return original(atoms, ids)

    monkeypatch.setattr(ConcatAtoms, "take", take)
    for i in range(len(queries)):
        taken.clear()
        hits = oracle.query(queries[i : i + 1], k=k)
        assert k <= len(taken) < 3001
        assert hits.scored[0] == 3001 + len(taken)
        assert together.scored[i] == hits.scored[0]


def test_few_rows_are_scored_again() -> None:
    rng = np.random.default_rng(16)
    rows, queries = rng.standard_normal((20001, 16)).astype(np.float32), rng.standard_normal((5, 16))
    for k, most in ((1, 8), (256, 320)):
        hits = Int8Scan.build(rows).query(queries, k=k)
        assert (hits.scored <= 20001 + most).all()
        assert hits.passes == 1.0


@pytest.mark.parametrize(("n", "chunk"), [(100, 64), (1601, 2000), (40, 1 << 20)])
def test_reports_count_every_row_once(n: int, chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_codes, "CHUNK", chunk)
    rows = np.random.default_rng(17).standard_normal((n, 4))
    seen: list[int] = []
    with on_progress(seen.append):
        oracle = Int8Scan.build(ConcatAtoms([rows[:30], rows[30:]]))
    assert seen == [30, n - 30]
    for m in (1, GROUP + 1):
        seen.clear()
        with on_progress(seen.append):
            oracle.query(rows[:m])
        assert sum(seen) == n
        assert min(seen) > 0


def test_a_pass_that_was_cut_leaves_the_oracle_usable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_codes, "CHUNK", 2000)
    rows = np.random.default_rng(18).standard_normal((3001, 4))
    oracle = Int8Scan.build(rows)
    before = oracle.query(rows[:9], k=3)
    seen: list[int] = []

    def cut(swept: int) -> None:
        seen.append(swept)
        if len(seen) == 3:
            raise Cut(Status.MAX_SECONDS)

    with on_progress(cut), pytest.raises(Cut):
        oracle.query(rows[:9], k=3)
    assert 0 < sum(seen) < 3001
    same(oracle.query(rows[:9], k=3), before)


def test_repr_and_size() -> None:
    oracle = Int8Scan.build(np.ones((100, 3), np.float32))
    assert oracle.nbytes == 112 * (4 + 8)
    assert repr(oracle) == "Int8Scan(ArrayAtoms(100 x 3, float32), 0.0 MiB)"


# ---------------------------------------------------------------- saving


def test_saved_codes_answer_alike(tmp_path: Path) -> None:
    rng = np.random.default_rng(20)
    rows, queries = rng.standard_normal((701, 5)).astype(np.float32), rng.standard_normal((9, 5))
    oracle = Int8Scan.build(rows)
    oracle.save(tmp_path / "codes")
    again = Int8Scan.load(tmp_path / "codes", rows)
    for k in (1, 40):
        same(again.query(queries, k=k), oracle.query(queries, k=k))
    assert again.nbytes == oracle.nbytes
    with pytest.raises(StoreError):
        Int8Scan.load(tmp_path / "codes", rows + 1.0)
    with pytest.raises(StoreError):
        Int8Scan.load(tmp_path / "nothing", rows)


# ---------------------------------------------------------------- what is refused


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("row", [0, 33, 5123])
def test_rows_that_are_not_finite_are_named(row: int, bad: float) -> None:
    rows = np.ones((6000, 3), np.float32)
    rows[row, 1] = bad
    with pytest.raises(ValueError, match=rf"finite\. Got {bad} in row {row}, column 1"):
        Int8Scan.build(ConcatAtoms([rows[:30], rows[30:]]))


@pytest.mark.parametrize("value", [1e154, 1e200, 1.7e308])
def test_norms_that_overflow_are_named(value: float) -> None:
    rows = np.ones((40, 3))
    rows[37] = value
    with pytest.raises(ValueError, match=r"norms below 1e154\. Got a larger one in row 37"):
        Int8Scan.build(ConcatAtoms([rows[:30], rows[30:]]))


def test_norms_at_the_limit_are_answered() -> None:
    rows = np.full((40, 4), 2.0**510 * (1.0 - 1e-9))
    check_like_scan(Int8Scan.build(rows), np.ones((1, 4)), 2)


@pytest.mark.parametrize("m", [1, 2, GROUP + 1])
@pytest.mark.parametrize("size", [1e250, 1.7e308])
def test_products_that_overflow_are_refused(m: int, size: float) -> None:
    oracle = Int8Scan.build(np.full((4, 3), 1e100))
    with pytest.raises(ValueError, match="`queries` must be so small"):
        oracle.query(np.full((m, 3), size))


@pytest.mark.parametrize(
    ("queries", "options", "message"),
    [
        (np.ones((1, 1, 3)), {}, "`queries` must be an array with 2 axes"),
        (np.ones((1, 4)), {}, r"`queries` must be an \(m, 3\) array. Got shape \(1, 4\)"),
        (np.ones((1, 3)), {"k": 0}, "`k` must be an integer >= 1"),
        (np.ones((1, 3)), {"exclude": np.array([[5]])}, r"`exclude` must be ids in \[0, 5\) or -1"),
    ],
)
def test_wrong_arguments(queries: Matrix, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Int8Scan.build(np.ones((5, 3))).query(queries, **options)
