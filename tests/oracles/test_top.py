"""The one top-k of compiled loops, against numpy's sort."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wolfhound.core.contracts import Ids, Matrix
from wolfhound.oracles._scan_kernels import (
    ScreenRule,
    collect_reaching,
    find_peaks,
    is_listed,
    keep_best,
    measure_all,
    sort_best,
)


def draw(seed: int, count: int, dtype: str, kind: str) -> tuple[Matrix, Ids]:
    """Two rows of keys and distinct ids, more than count of each."""
    rng = np.random.default_rng(seed)
    keys = rng.standard_normal((2, count + 3)).astype(dtype)
    if kind == "ties":
        keys = np.round(keys)
    if kind == "far":
        keys[:, ::3] = rng.choice(np.array([1e30, -1e30, np.inf, -np.inf, 0.0, -0.0], dtype))
    if kind == "rising":
        keys.sort(axis=1)
    return keys, rng.permutation(10 * (count + 3))[: 2 * (count + 3)].reshape(2, -1)


CASES = given(
    seed=st.integers(0, 10**6),
    count=st.integers(1, 400),
    k=st.integers(1, 400),
    dtype=st.sampled_from(["float32", "float64"]),
    kind=st.sampled_from(["normal", "ties", "far", "rising"]),
)


@CASES
def test_the_best_are_kept_and_the_rest_left_alone(
    seed: int, count: int, k: int, dtype: str, kind: str
) -> None:
    keys, ids = draw(seed, count, dtype, kind)
    before = keys.copy(), ids.copy()
    least = keep_best(keys, ids, 1, count, k)
    order = np.lexsort((before[1][1, :count], -before[0][1, :count]))[:k]
    kept = ids[1, : min(k, count)]
    assert set(kept.tolist()) == set(before[1][1, order].tolist())
    assert least == before[0][1, order].min()
    known = dict(zip(before[1][1].tolist(), before[0][1].tolist(), strict=True))
    assert [known[i] for i in ids[1].tolist()] == keys[1].tolist()  # a key stays with its id
    for now, then in zip((keys, ids), before, strict=True):
        np.testing.assert_array_equal(now[0], then[0])
        np.testing.assert_array_equal(now[1, count:], then[1, count:])


@CASES
def test_sorting_is_by_falling_key_then_rising_id(
    seed: int, count: int, k: int, dtype: str, kind: str
) -> None:
    keys, ids = draw(seed, count, dtype, kind)
    before = keys.copy(), ids.copy()
    sort_best(keys, ids, 0, count)
    order = np.lexsort((before[1][0, :count], -before[0][0, :count]))
    np.testing.assert_array_equal(ids[0, :count], before[1][0, order])
    np.testing.assert_array_equal(keys[0, :count], before[0][0, order])
    for now, then in zip((keys, ids), before, strict=True):
        np.testing.assert_array_equal(now[1], then[1])
        np.testing.assert_array_equal(now[0, count:], then[0, count:])


@pytest.mark.parametrize("scale", [1e-45, 1e-39, 1.0, 1e38])
def test_sorting_at_any_scale(scale: float) -> None:
    keys = (scale * np.array([[1.0, -2.0, 0.0, 1.0, 2.0, -2.0]])).astype(np.float32)
    order = np.argsort(-keys[0].astype(np.float64), kind="stable")
    ids = np.arange(6)[None].copy()
    sort_best(keys, ids, 0, 6)
    np.testing.assert_array_equal(ids[0], order)


def test_sorting_nan_loses_nothing() -> None:
    rng = np.random.default_rng(1)
    for _ in range(200):
        keys, ids = (
            rng.choice(np.array([0.0, np.nan, np.inf, -1.0], np.float32), (1, 7)),
            np.arange(7)[None].copy(),
        )
        sort_best(keys, ids, 0, 7)
        np.testing.assert_array_equal(np.sort(ids[0]), np.arange(7))


@given(st.lists(st.integers(-1, 20), max_size=12), st.integers(0, 20))
def test_listed(ids: list[int], atom: int) -> None:
    assert is_listed(np.sort(np.array([ids], np.int64), axis=1), 0, atom) == (atom in ids)


@given(
    seed=st.integers(0, 10**6), n=st.integers(1, 700), window=st.integers(1, 300), first=st.integers(0, 900)
)
def test_bounds_of_screening_are_those_of_numpy(seed: int, n: int, window: int, first: int) -> None:
    rng = np.random.default_rng(seed)
    scores, norms = rng.integers(-9, 9, n).astype(np.float32), rng.integers(0, 3, n).astype(np.float32)
    rule, banned = ScreenRule(0.5, 0.25, 1.0), np.sort(rng.permutation(n + first)[: n // 3])[None]
    uppers = 0.5 * scores.astype(np.float64) + (0.25 * norms.astype(np.float64) + 1.0)
    windows = (first + np.arange(n)) // window - first // window
    best, where = np.full(windows[-1] + 1, -np.inf), np.full(windows[-1] + 1, -1)
    find_peaks(scores, norms, rule, first, banned, window, best, where)
    allowed = np.where(np.isin(first + np.arange(n), banned), -np.inf, uppers)
    for w, (top, at) in enumerate(zip(best, where, strict=True)):
        mine = np.where(windows == w, allowed, -np.inf)
        assert top == mine.max()
        assert at == (first + mine.argmax() if top > -np.inf else -1)
    floor, found = float(np.median(uppers)), np.empty(n, np.int64)
    expected = np.setdiff1d(np.flatnonzero(uppers >= floor), banned)
    count = collect_reaching(scores, norms, rule, banned, floor, found)
    np.testing.assert_array_equal(found[:count], expected)
    few = found[: max(0, count - 1)]
    assert collect_reaching(scores, norms, rule, banned, floor, few) == (-1 if count else 0)


@given(seed=st.integers(0, 10**6), d=st.integers(1, 40), exponent=st.integers(-300, 300))
def test_norms_are_those_of_numpy_and_squares_near_the_limits_are_told(
    seed: int, d: int, exponent: int
) -> None:
    rows, norms = np.random.default_rng(seed).uniform(1.0, 2.0, (3, d)), np.empty(3)
    rows[1] *= 10.0**exponent
    moderate = measure_all(rows, 1.5, norms)
    squares = np.square(rows[1].astype(np.longdouble)).sum()
    assert moderate == (2.0**-780 < squares < 2.0**780)
    told = [0, 2, *([1] if moderate else [])]
    np.testing.assert_allclose(norms[told], 1.5 * np.linalg.norm(rows[told], axis=1), rtol=1e-14)


@pytest.mark.parametrize("entry", [np.nan, np.inf, -np.inf, 0.0])
def test_norms_that_say_nothing_are_not_moderate(entry: float) -> None:
    assert not measure_all(np.full((1, 3), entry), 1.0, np.empty(1))
