# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wolfhound.methods.atom_sets import AtomPool, best_of
from wolfhound.oracles.asking import rescore

ATOMS = np.random.default_rng(0).standard_normal((500, 3)).astype(np.float32)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [(0, 3), (1, 1), (7, 5), (100, 33)])
def test_score_sums_in_float64(dtype: type[np.floating[Any]], shape: tuple[int, int]) -> None:
    rng = np.random.default_rng(1)
    rows, query = rng.standard_normal(shape).astype(dtype), rng.standard_normal(shape[1])
    apart = np.abs(rescore(rows, query) - rows.astype(np.float64) @ query)
    assert (apart <= shape[1] * np.finfo(np.float64).eps * (np.abs(rows) @ np.abs(query))).all()


def check(pool: AtomPool) -> None:
    assert pool.size == len(pool.ids) == len(pool.rows) == len(np.unique(pool.ids))
    np.testing.assert_array_equal(pool.rows, ATOMS[pool.ids])
    assert pool.rows.dtype == np.float32


@pytest.mark.slow
@given(st.integers(0, 10**6))
def test_rows_stay_with_their_ids(seed: int) -> None:
    """After any history, position by position; a set of ids is the twin."""
    rng = np.random.default_rng(seed)
    first = rng.permutation(500)[:5]
    pool, twin = AtomPool(first, ATOMS[first]), set(first.tolist())
    for _ in range(6):
        new = rng.permutation(500)[: int(rng.integers(0, 60))]
        assert pool.add(new, ATOMS, new) == len(set(new.tolist()) - twin)
        twin |= set(new.tolist())
        check(pool)
        assert set(pool.ids.tolist()) == twin
        before = pool.ids.copy()
        stay = np.sort(rng.permutation(pool.size)[: int(rng.integers(1, pool.size + 1))])
        moved = pool.keep(stay)
        check(pool)
        np.testing.assert_array_equal(pool.ids, before[stay])
        np.testing.assert_array_equal(pool.ids[moved[stay]], before[stay])
        assert (np.delete(moved, stay) == -1).all()
        twin = set(pool.ids.tolist())


def test_positions_stay_when_atoms_are_added() -> None:
    pool = AtomPool(np.array([4, 2]), ATOMS[[4, 2]])
    pool.add(np.array([2, 9, 4, 7]), ATOMS, np.array([2, 9, 4, 7]))
    assert pool.ids.tolist() == [4, 2, 9, 7]


def test_the_callers_arrays_are_not_written() -> None:
    ids, rows = np.array([3, 1, 2]), ATOMS[[3, 1, 2]]
    pool = AtomPool(ids, rows.copy())
    ids.flags.writeable = False
    pool.keep(np.array([2]))
    pool.add(np.array([8]), ATOMS, np.array([8]))
    assert ids.tolist() == [3, 1, 2]


@pytest.mark.parametrize("count", [1, 5, 29, 30, 99])
def test_best_of(count: int) -> None:
    scores = np.random.default_rng(2).standard_normal(30)
    chosen = best_of(scores, count)
    assert len(chosen) == len(np.unique(chosen)) == min(count, 30)
    np.testing.assert_array_equal(np.sort(scores[chosen]), np.sort(scores)[30 - len(chosen) :])


def test_best_of_keeps_infinite_scores() -> None:
    assert 3 in best_of(np.array([1.0, 2.0, 3.0, np.inf, 0.0]), 2)
