"""Int8 codes: their bounds against long doubles, their kernels against numpy."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from wolfhound.core.contracts import Matrix, Singles, Vector
from wolfhound.data.atoms import ArrayAtoms, ConcatAtoms
from wolfhound.data.store import Stored
from wolfhound.oracles.asking import Question, check_question, rescore
from wolfhound.oracles.int8 import codes as _codes
from wolfhound.oracles.int8 import codes as _encoding
from wolfhound.oracles.int8.codes import Codes, encode_atoms, encode_queries
from wolfhound.oracles.int8.layout import ROWS, CodedQueries, allocate
from wolfhound.oracles.int8.scan import sweep_codes

Long = NDArray[np.longdouble]

# ---------------------------------------------------------------- all bounds of a case


@dataclass(frozen=True, slots=True, eq=False)
class Bounds:
    """(m, n) bounds of all rows, and what they must enclose."""

    codes: Codes
    coded: CodedQueries
    uppers: Vector
    lowers: Long
    slack: Long
    truth: Long
    computed: Vector


def all_keys(codes: Codes, queries: CodedQueries) -> Singles:
    """(m, n) keys of all rows, in the order of their places."""
    m, n = len(queries.levels), codes.n
    found = sweep_codes(
        codes, queries._replace(exclude=np.empty((m, 0), np.int64)), n
    )  # all rows are among the n best
    np.testing.assert_array_equal(found.places, np.broadcast_to(np.arange(n), (m, n)))
    return found.keys


def allowed(codes: Codes, question: Question) -> Question:
    """Leave out the queries that oracles refuse, and those that codes do not answer."""
    fit = question.only(np.flatnonzero(question.sizes < 2.0**1000 / codes.radius))
    return fit.only(np.flatnonzero(~encode_queries(codes, fit).hopeless))


def bounds_of(rows: Matrix, queries: Matrix, centre: Vector | None = None) -> Bounds:
    atoms = ArrayAtoms(rows)
    codes = encode_atoms(atoms, centre=centre)
    question = allowed(codes, check_question(atoms, queries, 1, None))
    with_slack = encode_queries(codes, question)
    keys = all_keys(codes, with_slack)
    units = np.ldexp(np.longdouble(1.0), with_slack.numbers[2].astype(np.int64))[:, None]
    base, slack, size = (
        value.astype(np.longdouble)[:, None]
        for value in (with_slack.numbers[0], with_slack.slack, with_slack.rules["size"])
    )
    errors = codes.errors[: codes.n].astype(np.longdouble)
    return Bounds(
        codes=codes,
        coded=with_slack,
        uppers=with_slack.scores(keys),
        lowers=(base + keys - 2.0 * size * errors - slack) * units,
        slack=slack * units,
        truth=question.queries.astype(np.longdouble) @ rows.astype(np.longdouble).T,
        computed=np.array([rescore(rows, query) for query in question.queries]).reshape(-1, codes.n),
    )


def check(bounds: Bounds) -> int:
    """Check that bounds hold; return how many pairs of row and query there were."""
    assert (bounds.uppers >= bounds.truth).all()
    assert (bounds.uppers >= bounds.computed).all()
    assert (bounds.lowers <= bounds.truth).all()
    assert (bounds.lowers <= bounds.computed).all()
    return bounds.truth.size


# ---------------------------------------------------------------- rows and queries that hurt


def families(rng: np.random.Generator, n: int, d: int) -> Iterator[tuple[str, Matrix, Vector]]:
    """Yield names, float64 rows and a query that hurts them."""
    normal, q = rng.standard_normal((n, d)), rng.standard_normal(d)
    yield "normal", normal, q
    yield "wild norms", normal * np.exp(rng.uniform(-25.0, 25.0, (n, 1))), q
    yield "cauchy", rng.standard_cauchy((n, d)), q
    yield "non-negative", np.abs(normal), q
    yield "along the query", np.outer(rng.uniform(-3.0, 3.0, n), q) + 1e-3 * normal, q
    yield "constant", np.ones((n, d)) * rng.uniform(0.0, 1.0, (n, 1)), np.sign(q)
    few = max(16, n // 8)
    yield "zero", np.zeros((8, d)), q
    yield "denormal", 1e-38 * normal[:few], q
    yield "large", 1e15 * normal[:few], q


def tight_families(rng: np.random.Generator, n: int, d: int) -> Iterator[tuple[str, Matrix, Vector]]:
    """Yield rows and queries for which nothing is left between bound and score."""
    signs = rng.choice([-1.0, 1.0], d)
    # Residuals parallel to the query; one column, of which the query knows nothing, keeps the scale.
    rest = np.arange(d) != d // 2
    grid = rng.integers(-126, 127, (n, d)).astype(np.float64)
    grid[:, d // 2] = 127.0
    scale = 2.0 ** rng.integers(-20, 20, (n, 1))
    query = np.where(rest, signs, float(d == 1))
    yield "residual along the query", scale * (grid + 0.499 * signs * rest), query
    yield "residual against the query", scale * (grid - 0.499 * signs * rest), query
    # The query's one huge entry makes the others round to nothing.
    query = np.where(rest, 1e-5 * signs, 1.0)
    yield "along what the query loses", rng.choice([-1.0, 1.0], (n, 1)) * signs * rest, query
    yield "spike", np.eye(d)[rng.integers(0, d, n)], query


def extreme_families(rng: np.random.Generator, n: int, d: int) -> Iterator[tuple[str, Matrix, Vector]]:
    """Yield float64 rows of any size."""
    normal, q = rng.standard_normal((n, d)), rng.standard_normal(d)
    yield "denormal", 1e-310 * normal, q
    yield "very small", 1e-300 * normal, q
    yield "very large", 1e150 * normal, q
    yield "whole range", normal * 10.0 ** rng.uniform(-320.0, 150.0, (n, 1)), q


def queries_of(rng: np.random.Generator, q: Vector) -> Matrix:
    sizes = np.array([1.0, -0.7, 3e-300, 1e-30, 5e20, 7e299])
    return np.concatenate([np.outer(sizes, q), rng.standard_normal((2, len(q)))])


SIZES = [(1, 1500), (2, 1500), (3, 1500), (64, 1000), (100, 800), (257, 400), (784, 160), (1024, 120)]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("d", "n"), SIZES)
def test_bounds_hold_for_every_row(d: int, n: int, dtype: type[np.floating[Any]]) -> None:
    rng = np.random.default_rng(d)
    checked = 0
    for _, rows, q in (*families(rng, n, d), *tight_families(rng, n, d)):
        queries = queries_of(rng, q)
        centre = rows.mean(0) + rng.choice([0.0, 1e-3, 1e6]) * rng.standard_normal(d)
        checked += check(bounds_of(rows.astype(dtype), queries))
        checked += check(bounds_of(rows.astype(dtype), queries[::3], centre))
    assert checked > 70 * n


@pytest.mark.parametrize("d", [1, 3, 100, 784])
def test_bounds_hold_at_the_ends_of_float64(d: int) -> None:
    rng = np.random.default_rng(d)
    for _, rows, q in extreme_families(rng, 60, d):
        queries = np.outer(10.0 ** np.arange(-300.0, 301.0, 30.0), q)
        assert check(bounds_of(rows, queries)) > 500
        assert check(bounds_of(rows, queries, rows.mean(0))) > 500


@pytest.mark.parametrize("away", [1e3, 1e9, 1e15])
@pytest.mark.parametrize("d", [1, 3, 100, 784])
def test_bounds_hold_far_from_the_origin(d: int, away: float) -> None:
    # Next to the product with the centre, all else is rounding.
    rng = np.random.default_rng(d)
    centre = away * rng.standard_normal(d)
    for spread in (0.0, 1e-16, 1e-13, 1e-10):
        rows = centre + spread * away * rng.standard_normal((60, d))
        assert check(bounds_of(rows, rng.standard_normal((9, d)), centre)) == 540


@pytest.mark.parametrize("d", [2, 3, 64, 257, 1024])
def test_bounds_are_violated_without_the_slack(d: int) -> None:
    for _, rows, q in tight_families(np.random.default_rng(d), 600, d):
        bounds = bounds_of(rows, q[None])
        above = bounds.uppers - bounds.slack < bounds.truth
        below = bounds.lowers + bounds.slack > bounds.truth
        assert (above | below).any()


@pytest.mark.parametrize("d", [3, 100, 1024])
def test_the_slack_is_small(d: int) -> None:
    rng = np.random.default_rng(d)
    for rows in (rng.standard_normal((50, d)), np.abs(rng.standard_normal((50, d)))):
        bounds = bounds_of(rows, rng.standard_normal((4, d)))
        sizes = bounds.coded.rules["size"].astype(np.float64)
        assert (bounds.coded.slack < 3e-4 * sizes * bounds.codes.height).all()


@pytest.mark.slow
def test_integers_do_not_overflow_in_the_widest_rows() -> None:
    d = 2**20
    signs = np.random.default_rng(0).choice(np.array([-1.0, 1.0], np.float32), (2, d))
    for rows in (signs, np.abs(signs)):
        atoms, queries = ArrayAtoms(rows), np.concatenate([signs[:1], -rows[1:]]).astype(np.float64)
        codes = encode_atoms(atoms)
        with_slack = encode_queries(codes, check_question(atoms, queries, 1, None))
        scores = queries @ rows.T.astype(np.float64)  # sums of integers: exact
        np.testing.assert_allclose(with_slack.scores(all_keys(codes, with_slack)), scores, atol=2.0)
    with pytest.raises(ValueError, match=r"`atoms` must be of dimension <= 1,048,576\. Got 1048577"):
        encode_atoms(ArrayAtoms(np.ones((1, d + 1), np.float32)))


@pytest.mark.parametrize(
    ("scale", "sizes", "hopeless"),
    [(1.0, (1.0, 0.0, 1e-300), (False, True, True)), (1e-110, (1e-150, 1e-170), (False, True))],
)
def test_queries_whose_products_underflow_are_hopeless(
    scale: float, sizes: tuple[float, ...], hopeless: tuple[bool, ...]
) -> None:
    atoms = ArrayAtoms(scale * np.random.default_rng(0).standard_normal((20, 3)))
    question = check_question(atoms, np.outer(sizes, [1.0, -1.0, 0.5]), 1, None)
    np.testing.assert_array_equal(encode_queries(encode_atoms(atoms), question).hopeless, hopeless)


# ---------------------------------------------------------------- codes


def unpacked(codes: Codes) -> NDArray[np.int64]:
    """(n, d) codes as integers between -127 and 255, row by row."""
    d = codes.centre.size
    blocks = np.asarray(codes.blocks).view(np.int8).reshape(*codes.blocks.shape, 2)
    rows = blocks.transpose(0, 2, 1, 3).reshape(ROWS * len(blocks), -1)[: codes.n, :d]
    return rows.astype(np.int64) + codes.zero


@given(
    seed=st.integers(0, 10**6),
    n=st.integers(1, 50),
    d=st.integers(1, 9),
    exponent=st.integers(-35, 35),
    kind=st.sampled_from(["signed", "non-negative", "centred"]),
    double=st.booleans(),
)
@settings(max_examples=80)
def test_codes_are_the_nearest_and_errors_the_distance(
    seed: int, n: int, d: int, exponent: int, kind: str, double: bool
) -> None:
    rng = np.random.default_rng(seed)
    values = 10.0**exponent * np.abs(rng.standard_normal((n, d))) * 10.0 ** rng.uniform(-30.0, 0.0, (n, 1))
    values[:, 0] *= {"non-negative": 1.0}.get(kind, -1.0)
    rows: Matrix = values.astype({True: np.float64, False: np.float32}[double])
    centre = 10.0**exponent * rng.standard_normal(d) * (kind == "centred")
    codes = encode_atoms(ArrayAtoms(rows), centre={"centred": centre}.get(kind))
    assert codes.zero in {"non-negative": (0, 128)}.get(kind, (0,))
    unit = np.ldexp(np.longdouble(1.0), codes.exponent)
    shifted = (rows.astype(np.longdouble) - centre) / unit
    levels, scales = unpacked(codes), codes.scales[:n, None].astype(np.longdouble)
    low, high = (0, 255) if codes.zero else (-127, 127)
    assert low <= levels.min() <= levels.max() <= high
    entries = np.abs(shifted).max(axis=1).astype(np.float64)
    np.testing.assert_allclose(scales[:, 0].astype(np.float64), entries / high, rtol=1e-5)
    rest = shifted - scales * levels
    assert (np.abs(rest) <= (0.5 + 1e-3) * scales).all()
    distance = np.sqrt(np.square(rest).sum(axis=1))
    errors = codes.errors[:n].astype(np.longdouble)
    assert (errors >= distance).all()
    assert (errors <= 1.001 * distance + 1e-5 * entries + 1e-20).all()
    heights = np.sqrt(np.square(scales * levels).sum(axis=1))
    assert heights.max() <= codes.height <= heights.max() * (1.0 + 1e-5)
    assert codes.error == codes.errors.max()
    norms = np.sqrt(np.square(rows.astype(np.longdouble)).sum(axis=1))
    assert codes.radius >= norms.max()


@pytest.mark.parametrize("exponent", [-300, -200, -130, -100, 0, 100, 150])
def test_codes_use_their_range_at_any_scale(exponent: int) -> None:
    rows = 10.0**exponent * np.random.default_rng(0).standard_normal((100, 5))
    codes = encode_atoms(ArrayAtoms(rows))
    assert (np.abs(unpacked(codes)).max(axis=1) == 127).all()
    assert 0.0 < codes.error < 0.01 * codes.height


def same_codes(a: Codes, b: Codes) -> None:
    for name in ("blocks", "scales", "errors", "centre"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name))
    for name in ("zero", "exponent", "height", "error", "radius", "n"):
        assert getattr(a, name) == getattr(b, name)


@pytest.mark.parametrize("sizes", [(37,), (16, 16, 5), (1, 15, 17, 4), (5,) * 7 + (2,)])
def test_rows_are_encoded_alike_in_any_parts_and_order(sizes: tuple[int, ...]) -> None:
    rng = np.random.default_rng(0)
    rows = rng.uniform(0.6, 0.9, (37, 5))  # any sample gives the same exponent
    parts = ConcatAtoms([rows[a:b] for a, b in itertools.pairwise(np.cumsum([0, *sizes]))])
    ids = rng.permutation(37)
    same_codes(encode_atoms(parts), encode_atoms(ArrayAtoms(rows)))
    expected = encode_atoms(ArrayAtoms(rows[ids]))
    for atoms in (parts, ArrayAtoms(rows)):  # read in their own order, and gathered
        moved = encode_atoms(atoms, ids=ids)
        same_codes(moved, expected)
        np.testing.assert_array_equal(moved.ids, ids)
    runs = np.concatenate([np.arange(20, 37), np.arange(20)])  # whole blocks at shifted places
    same_codes(encode_atoms(parts, ids=runs), encode_atoms(ArrayAtoms(rows[runs])))


@pytest.mark.parametrize(
    ("bad", "says"), [(np.nan, "finite. Got nan"), (1e200, "norms below 1e154. Got a larger")]
)
def test_a_row_that_cannot_be_encoded_is_named_in_any_order(bad: float, says: str) -> None:
    rows = np.random.default_rng(0).uniform(0.6, 0.9, (37, 5))
    rows[11, 2] = bad
    with pytest.raises(ValueError, match=rf"{says}.* in row 11"):
        encode_atoms(ArrayAtoms(rows), ids=np.arange(37)[::-1].copy())


def test_what_is_saved_makes_the_same_codes() -> None:
    rows = np.random.default_rng(0).standard_normal((37, 5))
    codes = encode_atoms(ArrayAtoms(rows), ids=np.arange(37)[::-1].copy())
    stored = Stored(path=Path(), arrays=codes.arrays("x"), on_disk={}, params={}, fingerprint=())
    again = Codes.of(stored, codes.numbers(), rows.shape, "x")
    same_codes(codes, again)
    np.testing.assert_array_equal(again.ids, codes.ids)
    assert codes.nbytes == again.nbytes == 48 * (6 + 8) + 8 * 37


@pytest.mark.parametrize(("large", "small"), [(1e30, 1.0), (1e150, 1e-300), (1e-30, 0.0), (1e150, 0.0)])
def test_a_sample_that_misses_the_scale_costs_a_second_pass(
    large: float, small: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_encoding, "_SAMPLE", 4)
    rows = small * np.random.default_rng(0).standard_normal((3000, 4))
    rows[1234] = (large, -large, 0.5 * large, 0.0)
    codes = encode_atoms(ArrayAtoms(rows))
    assert 0.1 < codes.height < 10.0
    queries = np.outer([1.0, 1e-100, 1e100], [1.0, -0.5, 2.0, 1.0])
    assert check(bounds_of(rows, queries)) == 3 * 3000


def test_a_non_negative_sample_may_hide_negative_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_encoding, "_SAMPLE", 4)
    rng = np.random.default_rng(1)
    rows = np.abs(rng.standard_normal((3000, 4)))
    rows[[700, 1500]] *= -1.0
    assert encode_atoms(ArrayAtoms(rows)).zero == 128
    assert check(bounds_of(rows, rng.standard_normal((5, 4)))) == 5 * 3000


def test_buffers_start_at_a_cache_line() -> None:
    for shape in ((3,), (5, 7), (1, 1, 1)):
        buffer = allocate(shape, np.int16)
        assert buffer.ctypes.data % 64 == 0
        assert buffer.shape == shape


# ---------------------------------------------------------------- a pass


@given(
    seed=st.integers(0, 10**6),
    n=st.integers(1, 3000),
    m=st.sampled_from([1, 2, 8, 9]),
    k=st.sampled_from([1, 3, 50, 400]),
    chunk=st.sampled_from([1, 600, 1 << 20]),
    ordered=st.booleans(),
)
@settings(max_examples=60)
def test_rows_that_are_no_candidates_are_below_the_k_best(
    seed: int, n: int, m: int, k: int, chunk: int, ordered: bool
) -> None:
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((n, 3)) * np.exp(rng.uniform(-3.0, 3.0, (n, 1)))
    rows = rows[np.argsort(rows[:, 0])] if ordered else rows
    atoms, queries = ArrayAtoms(rows), rng.standard_normal((m, 3))
    k = min(k, n)
    codes = encode_atoms(atoms)
    question = check_question(atoms, queries, k, rng.integers(-1, n, (m, 5)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_codes, "CHUNK", chunk)
        found = sweep_codes(codes, encode_queries(codes, question), k)
    keys = all_keys(codes, encode_queries(codes, question))
    scores = np.array([rescore(rows, query) for query in question.queries])
    for i in range(m):
        places = found.places[i][found.places[i] >= 0]
        assert len(np.unique(places)) == len(places)
        assert not np.isin(places, question.exclude[i]).any()
        np.testing.assert_array_equal(found.keys[i][found.places[i] >= 0], keys[i, places])
        left = np.setdiff1d(np.arange(n), question.exclude[i])
        dropped = np.setdiff1d(left, places)
        assert (keys[i, dropped] < found.floors[i]).all()
        best = np.sort(scores[i, left])[::-1][:k]
        assert (scores[i, dropped] < best.min(initial=np.inf)).all()


def test_too_many_candidates_give_up() -> None:
    rows = np.ones((20000, 2), np.float32)
    atoms = ArrayAtoms(rows)
    codes, question = encode_atoms(atoms), check_question(atoms, np.array([[1.0, 0.0]]), 1, None)
    found = sweep_codes(codes, encode_queries(codes, question), 1)
    assert found.floors[0] == np.inf


@pytest.mark.parametrize("size", [1e-41, 1e-30, 1.0, 1e30])
def test_rows_that_all_are_the_centre_have_small_errors(size: float) -> None:
    rows = np.full((5, 3), size, np.float32)
    codes = encode_atoms(ArrayAtoms(rows), ids=np.arange(5), centre=rows[0].astype(np.float64))
    assert codes.radius <= 1.001 * math.sqrt(3.0) * float(rows[0, 0])
