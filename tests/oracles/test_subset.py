"""`RandomSubset`: fresh samples, every atom with the same chance, exact within."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.conformance.oracle import check_hits
from wolfhound.core.contracts import Atoms, Ids, Matrix
from wolfhound.core.progress import on_progress
from wolfhound.core.threads import set_threads
from wolfhound.data.atoms import ArrayAtoms, ConcatAtoms, FileAtoms
from wolfhound.oracles._scan_kernels import score_pairs
from wolfhound.oracles.asking import rescore
from wolfhound.oracles.scan import Scan
from wolfhound.oracles.subset import RandomSubset, _draw


def sample_of(subset: RandomSubset) -> Ids:
    """The ids that the next call reads, by asking for all of them."""
    hits = subset.query(np.ones((1, subset.atoms.shape[1])), k=subset.size)
    return np.sort(hits.ids[0])


# ---------------------------------------------------------------- samples


@given(n=st.integers(1, 200), share=st.floats(0.0, 1.0), run=st.integers(1, 300), seed=st.integers(0, 10**6))
def test_samples_are_distinct_ascending_and_of_the_right_size(
    n: int, share: float, run: int, seed: int
) -> None:
    size = max(1, round(share * n))
    ids = _draw(np.random.default_rng(seed), n, size, run)
    assert len(ids) == size
    assert ids.dtype == np.int64
    assert (np.diff(ids) > 0).all()
    assert 0 <= ids[0]
    assert ids[-1] < n


@given(n=st.integers(2, 200), run=st.integers(1, 20), seed=st.integers(0, 10**6))
def test_samples_are_runs_on_a_ring(n: int, run: int, seed: int) -> None:
    """At most one run is shorter than the others."""
    size = max(1, n // 3)
    ids = _draw(np.random.default_rng(seed), n, size, run)
    held = np.zeros(n, bool)
    held[ids] = True
    begins = int((held & ~np.roll(held, 1)).sum())
    assert begins <= -(-size // run)


@pytest.mark.parametrize(("n", "size", "run"), [(23, 7, 3), (40, 8, 8), (11, 10, 4), (7, 1, 1), (50, 21, 5)])
def test_every_atom_has_the_same_chance(n: int, size: int, run: int) -> None:
    """The ends of the file too: counts within five deviations of their mean."""
    rng, rounds = np.random.default_rng(0), 5_000
    counts = np.zeros(n)
    for _ in range(rounds):
        counts[_draw(rng, n, size, run)] += 1
    chance = size / n
    deviation = np.sqrt(rounds * chance * (1.0 - chance))
    assert counts.sum() == rounds * size
    assert np.abs(counts - rounds * chance).max() < 5.0 * deviation


def test_long_runs_are_as_likely_to_begin_anywhere() -> None:
    rng = np.random.default_rng(1)
    begins = [int(_draw(rng, 12, 4, 4)[0]) for _ in range(12_000)]
    # Those that go round begin at 0, too: starts 9, 10, 11 and 0.
    counts = np.bincount(begins, minlength=12)
    assert np.abs(counts - 1000.0 * np.array([4, *[1] * 8, 0, 0, 0])).max() < 200.0


def test_every_call_draws_anew_and_a_seed_repeats() -> None:
    rows = np.random.default_rng(0).standard_normal((5000, 3))
    one, two = RandomSubset(rows, size=100, seed=4), RandomSubset(rows, size=100, seed=4)
    first, second = sample_of(one), sample_of(one)
    assert len(np.intersect1d(first, second)) < 50
    np.testing.assert_array_equal(first, sample_of(two))
    np.testing.assert_array_equal(second, sample_of(two))
    assert not np.array_equal(first, sample_of(RandomSubset(rows, size=100, seed=5)))


def test_a_generator_goes_on_from_where_it_is() -> None:
    rows = np.random.default_rng(0).standard_normal((5000, 3))
    rng = np.random.default_rng(4)
    first, second = (sample_of(RandomSubset(rows, size=100, seed=rng)) for _ in range(2))
    assert not np.array_equal(first, second)
    np.testing.assert_array_equal(first, sample_of(RandomSubset(rows, size=100, seed=4)))


@pytest.mark.parametrize(("n", "size"), [(10, 10), (1000, 1000), (5000, 1000), (250_000, 2500)])
def test_default_size(n: int, size: int) -> None:
    assert RandomSubset(np.zeros((n, 1), np.float32)).size == size


def test_size_is_at_most_n() -> None:
    assert RandomSubset(np.zeros((5, 1)), size=9).size == 5


def test_small_samples_of_narrow_atoms_are_not_one_run() -> None:
    """32 KiB would be 4096 rows of two columns."""
    ids = sample_of(RandomSubset(np.random.default_rng(0).standard_normal((100_000, 2)), size=1000))
    assert (np.diff(ids) > 1).sum() >= 60


# ---------------------------------------------------------------- answers


@pytest.mark.parametrize("m", [1, 4, 5, 20])
def test_answers_are_exact_within_the_sample(m: int) -> None:
    rng = np.random.default_rng(m)
    rows = rng.integers(-3, 4, (3000, 5)).astype(np.float32)  # many ties
    queries = rng.integers(-3, 4, (m, 5)).astype(np.float64)
    ids = sample_of(RandomSubset(rows, size=500, seed=2))
    hits = RandomSubset(rows, size=500, seed=2).query(queries, k=6)
    check_hits(hits, queries, rows, 6)
    expected = Scan(rows[ids]).query(queries, k=6)
    np.testing.assert_array_equal(hits.ids, ids[expected.ids])
    np.testing.assert_array_equal(hits.scores, expected.scores)
    assert (hits.scored == 500).all()
    assert (hits.bounds == np.inf).all()
    assert (hits.passes, hits.radius) == (0.0, np.inf)


@pytest.mark.parametrize("m", [1, 6])
def test_exclude_within_the_sample(m: int) -> None:
    rng = np.random.default_rng(3)
    rows, queries = rng.standard_normal((2000, 4)), rng.standard_normal((m, 4))
    ids = sample_of(RandomSubset(rows, size=50, seed=1))
    order = ids[np.argsort(-(rows[ids] @ queries[0]))]
    exclude = np.tile(np.append(order[:48], [-1, 7]), (m, 1))
    hits = RandomSubset(rows, size=50, seed=1).query(queries, k=5, exclude=exclude)
    check_hits(hits, queries, rows, 5)
    left = np.setdiff1d(ids, exclude)
    for found in hits.ids:
        np.testing.assert_array_equal(np.sort(found[found >= 0]), left)


@pytest.mark.parametrize("m", [1, 6])
def test_a_sample_of_excluded_atoms_answers_nothing(m: int) -> None:
    rows = np.random.default_rng(3).standard_normal((20, 4))
    exclude = np.tile(np.arange(20), (m, 1))
    hits = RandomSubset(rows, size=3).query(np.ones((m, 4)), k=2, exclude=exclude)
    assert (hits.ids == -1).all()
    assert (hits.scores == -np.inf).all()
    assert (hits.bounds == np.inf).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("d", [1, 7, 64, 129])
def test_scores_in_place_have_the_same_bits(d: int, dtype: type[np.floating[Any]]) -> None:
    rng = np.random.default_rng(d)
    rows: Matrix = rng.standard_normal((300, d)).astype(dtype)
    rows.flags.writeable = False
    query = rng.standard_normal(d)
    for size in (0, 1, 3, 4, 50, 299):
        ids = rng.permutation(300)[:size]
        scores = np.empty((1, size))
        score_pairs(rows, ids[None], query[None], (0, size), scores)
        np.testing.assert_array_equal(scores[0], rescore(rows[ids], query))
        np.testing.assert_allclose(scores[0], rows[ids].astype(np.float64) @ query, rtol=0.0, atol=1e-12 * d)


def test_kinds_of_atoms_give_the_same_answers(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    rows = rng.integers(-9, 9, (900, 6)).astype(np.int16)
    np.save(tmp_path / "rows.npy", rows.astype(np.float32))
    kinds: list[Atoms] = [
        ArrayAtoms(rows.astype(np.float32)),
        ArrayAtoms(rows),
        ArrayAtoms(np.asfortranarray(rows.astype(np.float32))),
        FileAtoms(tmp_path / "rows.npy"),
        ConcatAtoms([rows[:100].astype(np.float32), rows[100:].astype(np.float32)]),
    ]
    for m in (1, 3, 6):
        queries = rng.standard_normal((m, 6))
        answers = [RandomSubset(atoms, size=200, seed=3).query(queries, k=4) for atoms in kinds]
        for hits in answers[1:]:
            np.testing.assert_array_equal(hits.ids, answers[0].ids)
            np.testing.assert_array_equal(hits.scores, answers[0].scores)


def test_large_samples_are_the_same_on_any_number_of_threads() -> None:
    """Two blocks of at most 32 MiB."""
    rows = np.random.default_rng(0).standard_normal((12_000, 1024), dtype=np.float32)
    queries, reports, answers = np.ones((2, 1024)), list[int](), []
    try:
        for threads in (1, 2):
            set_threads(threads)
            with on_progress(reports.append):
                answers.append(RandomSubset(rows, size=9000, seed=1).query(queries, k=9))
    finally:
        set_threads(None)
    np.testing.assert_array_equal(answers[0].ids, answers[1].ids)
    np.testing.assert_array_equal(answers[0].scores, answers[1].scores)
    assert reports == [8192, 808] * 2


# ---------------------------------------------------------------- wrong use


@pytest.mark.parametrize("m", [1, 6])
@pytest.mark.parametrize("k", [1, 3])
def test_atoms_that_are_not_finite_are_named(m: int, k: int) -> None:
    rows = np.random.default_rng(0).standard_normal((50, 3))
    rows[37, 1] = np.nan
    with pytest.raises(ValueError, match=r"`atoms` must be finite\. Got nan in row 37, column 1"):
        RandomSubset(rows, size=50).query(np.ones((m, 3)), k=k)


@pytest.mark.parametrize("m", [1, 6])
def test_queries_that_overflow_are_named(m: int) -> None:
    rows = np.full((20, 3), 1e150)
    with pytest.raises(ValueError, match="`queries` must be so small"):
        RandomSubset(rows, size=5).query(np.full((m, 3), -1e300))


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"size": 0}, ValueError, "`size` must be an integer >= 1. Got 0"),
        ({"size": 2.5}, TypeError, "`size` must be an integer >= 1. Got 2.5"),
        ({"seed": -1}, ValueError, "`seed` must be an integer >= 0. Got -1"),
    ],
)
def test_wrong_options(options: dict[str, Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        RandomSubset(np.eye(3), **options)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"queries": np.ones((1, 4))}, "`queries` must be an"),
        ({"queries": np.ones((1, 3)), "k": 0}, "`k` must be an integer >= 1"),
        ({"queries": np.ones((1, 3)), "exclude": np.array([[3]])}, "`exclude` must be ids"),
    ],
)
def test_wrong_queries(arguments: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        RandomSubset(np.eye(3)).query(**arguments)


def test_options_are_keywords() -> None:
    with pytest.raises(TypeError):
        RandomSubset(np.eye(3), 2)  # type: ignore[call-arg]


def test_repr() -> None:
    assert repr(RandomSubset(np.eye(3), size=2)) == "RandomSubset(ArrayAtoms(3 x 3, float64), size=2)"
