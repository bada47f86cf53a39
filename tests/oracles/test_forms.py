"""The exact oracle of quadratic forms, against long doubles and numpy twins."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wolfhound import ConcatAtoms, FormScan, Scan, SquaredDistance, minimize
from wolfhound.oracles import _form_kernels as kernels
from wolfhound.oracles.forms import find_candidates, pair_rows, survey, svec, view_pairs

NONE = np.empty(0, np.int64)


def symmetric(rng: np.random.Generator, d: int) -> Any:
    matrix = rng.standard_normal((d, d))
    return matrix + matrix.T


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**32), n=st.integers(1, 90), d=st.integers(1, 11), wide=st.booleans())
def test_kernels_and_their_twins(seed: int, n: int, d: int, wide: bool) -> None:
    rng = np.random.default_rng(seed)
    rows: Any = rng.standard_normal((n, d)).astype(np.float64 if wide else np.float32)
    rows.flags.writeable = False
    matrix = symmetric(rng, d)
    padded = np.zeros((-(-d // 4) * 4,) * 2)
    padded[:d, :d] = np.triu(matrix) + np.triu(matrix, 1)
    scores, squares = np.empty(n), np.empty(n)
    kernels.forms(rows, padded, scores, squares, kernels.make_room(len(padded)))
    twin = rows.astype(np.longdouble)
    truth = ((twin @ matrix.astype(np.longdouble)) * twin).sum(axis=1)
    room = 4e-16 * (2 * d + 4) * (twin**2).sum(axis=1) * np.linalg.norm(matrix)
    assert (np.abs(scores - truth) <= room).all()
    np.testing.assert_allclose(squares, (rows.astype(np.float64) ** 2).sum(axis=1), rtol=1e-14)
    np.testing.assert_allclose(pair_rows(rows) @ svec(matrix), scores, rtol=1e-9, atol=1e-9)


def test_equal_rows_have_equal_bits_wherever_they_stand() -> None:
    rng = np.random.default_rng(0)
    rows = np.repeat(rng.standard_normal((1, 7)), 101, axis=0)
    hits = FormScan(rows).query(svec(symmetric(rng, 7))[None], k=101)
    assert len(np.unique(hits.scores)) == 1
    np.testing.assert_array_equal(hits.ids[0], np.arange(101))


def test_it_answers_as_a_scan_of_all_products() -> None:
    rng = np.random.default_rng(1)
    rows = rng.standard_normal((3000, 6)).astype(np.float32)
    queries = rng.standard_normal((3, 21))
    forms, scan = FormScan(rows), Scan(pair_rows(rows))
    mine, other = forms.query(queries, k=5), scan.query(queries, k=5)
    np.testing.assert_array_equal(mine.ids, other.ids)
    np.testing.assert_allclose(mine.scores, other.scores, rtol=1e-13)
    assert (mine.bounds >= other.scores[:, 0]).all()
    np.testing.assert_allclose(mine.bounds, other.bounds, rtol=1e-12)
    again = pickle.loads(pickle.dumps(forms)).query(queries, k=5)
    np.testing.assert_array_equal(again.ids, mine.ids)


def test_many_answers_are_spread_out_and_led_by_the_best() -> None:
    rng = np.random.default_rng(2)
    rows = np.sort(rng.standard_normal((20_000, 3)), axis=0)
    found = survey(FormScan(rows), np.eye(3), 1000, np.array([19_999]))
    assert len(np.unique(found.ids)) == 1000
    assert found.ids[0] == (rows[:-1] ** 2).sum(axis=1).argmax()
    assert 19_999 not in found.ids
    assert (np.diff(found.scores) <= 0.0).all()
    assert len(np.unique(found.ids // 40)) > 450
    through = survey(Scan(view_pairs(rows)), np.eye(3), 5, NONE)
    assert through.ids[0] == (rows**2).sum(axis=1).argmax()


def test_it_is_an_oracle_of_minimize() -> None:
    rows = np.random.default_rng(3).standard_normal((500, 3))
    result = minimize(SquaredDistance(svec(np.eye(3))), FormScan(rows))
    mixed = (rows[result.ids] * result.weights[:, None]).T @ rows[result.ids]
    np.testing.assert_allclose(mixed, np.eye(3), atol=1e-2)


def test_candidates_are_known_behind_their_pairs() -> None:
    rows = np.ones((4, 2))
    view = view_pairs(rows)
    assert find_candidates(view) is view.atoms
    both = find_candidates(ConcatAtoms([view, view]))
    assert both is not None
    assert both.shape == (8, 2)
    assert find_candidates(view.atoms) is None
    assert "FormScan(" in repr(FormScan(rows))


def test_sizes_beyond_reason_are_refused() -> None:
    with pytest.raises(ValueError, match="norms below 1e"):
        FormScan(np.full((3, 2), 1e80)).query(np.ones((1, 3)))
    with pytest.raises(ValueError, match="`queries` must be"):
        FormScan(np.ones((3, 2))).query(np.full((1, 3), 1e305))
    with pytest.raises(ValueError, match="finite"):
        FormScan(np.array([[1.0, np.nan]])).query(np.ones((1, 3)))
