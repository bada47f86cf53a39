"""The compiled active set: what it carries is what numpy computes anew."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from wolfhound.gram import _moves as moves
from wolfhound.gram import _small_kernels as kernels
from wolfhound.gram import _tableau as table
from wolfhound.gram._small import build_small
from wolfhound.gram._tableau import ALONG_U, ALONG_V, ALPHA, FAR, LAM, LINEAR, OF_U, OF_V, PIVOT, SIZE, U, V

Array = NDArray[Any]


class Case:
    """A dictionary, one target, and the tableau over them."""

    def __init__(self, n: int, d: int, seed: int) -> None:
        rng = np.random.default_rng(seed)
        self.atoms = build_small(rng.standard_normal((n, d)), np.arange(n), zero=False).atoms
        self.cross = np.zeros(self.atoms.gram.shape[1])
        self.cross[:n] = self.atoms.rows @ rng.standard_normal(d)
        self.room = kernels.make_workspace(min(n, d + 1) + 1, n, d)
        self.tab = self.room.tab
        kernels.begin(self.atoms, self.room, self.cross, np.empty(0, np.int64))

    def join(self, b: int) -> None:
        gram, singles = self.atoms.gram[b], self.atoms.singles[b]
        moves.join(self.tab, b, gram, singles, moves.solve_row(self.tab, b, gram))

    @property
    def active(self) -> Array:
        return self.tab.at[: self.tab.sizes[SIZE]]

    def check(self) -> None:
        """Compare all that is carried with what it is by definition."""
        tab, at, k, n = self.tab, self.active, len(self.active), len(self.atoms.rows)
        lifted = self.atoms.gram[:n, :n] + tab.numbers[ALPHA]
        inverse = np.linalg.inv(np.linalg.cholesky(lifted[np.ix_(at, at)]))
        np.testing.assert_allclose(tab.inverse[:k, :k], inverse, atol=1e-9)
        u, v, z = inverse @ self.cross[at], inverse.sum(axis=1), inverse @ lifted[at]
        for line, wanted in ((U, u), (V, v), (OF_U, inverse.T @ u), (OF_V, inverse.T @ v)):
            np.testing.assert_allclose(tab.active[line, :k], wanted, atol=1e-9)
            assert not tab.active[line, k : table.pad(k)].any()
        assert not np.triu(tab.inverse[:k, : table.pad(k)], 1).any()
        np.testing.assert_allclose(tab.rest[:k, :n], z, atol=1e-3)
        np.testing.assert_allclose(tab.lines[ALONG_U, :n], u @ z, atol=1e-3)
        np.testing.assert_allclose(tab.lines[ALONG_V, :n], v @ z, atol=1e-3)
        own = (1.0 + table.SHARE) * self.atoms.squares[:n] + tab.numbers[ALPHA]
        np.testing.assert_allclose(tab.lines[PIVOT, :n], own - (z * z).sum(axis=0), atol=1e-3)
        assert set(np.flatnonzero(tab.lines[LINEAR, :n] == FAR)) == set(at)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000), st.integers(20, 60), st.data())
def test_atoms_join_and_leave(seed: int, d: int, data: st.DataObject) -> None:
    case = Case(40, d, seed)
    for _ in range(data.draw(st.integers(1, 30), "moves")):
        k = len(case.active)
        if k > 1 and data.draw(st.booleans(), "leaves"):
            moves.leave(case.tab, data.draw(st.integers(0, k - 1), "where"))
        elif k < min(19, d):
            others = np.setdiff1d(np.arange(40), case.active)
            case.join(int(others[data.draw(st.integers(0, len(others) - 1), "which")]))
    case.check()


@pytest.mark.parametrize("k", [15, 16, 17, 31, 32, 33])
def test_lanes_open_and_close(k: int) -> None:
    case = Case(40, 60, 3)
    others = np.setdiff1d(np.arange(40), case.active)
    for b in others[: k - 1]:
        case.join(int(b))
    case.check()
    for where in (k - 1, 0, k // 2):
        moves.leave(case.tab, where % len(case.active))
        case.check()


def test_nothing_is_left_of_the_target_before() -> None:
    case = Case(40, 60, 4)
    for b in np.setdiff1d(np.arange(40), case.active)[:33]:
        case.join(int(b))
    case.tab.inverse[:] = case.tab.active[:] = np.nan
    kernels.begin(case.atoms, case.room, case.cross, np.empty(0, np.int64))
    for b in np.setdiff1d(np.arange(40), case.active)[:18]:
        case.join(int(b))
    case.check()


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 600))
def test_the_largest_gain(seed: int, columns: int) -> None:
    rng, tab = np.random.default_rng(seed), table.make_tableau(3, columns)
    q, top = table.pad(columns), np.float32(0.1)
    tab.lines[:PIVOT] = rng.standard_normal((PIVOT, q))
    tab.lines[PIVOT] = rng.uniform(-0.1, 1.0, q)
    tab.lines[LINEAR] = rng.standard_normal(q)
    tab.lines[LINEAR, columns:] = FAR
    tab.lines[LINEAR, rng.random(q) < 0.3] = FAR
    tab.numbers[LAM] = 0.5
    lines = tab.lines.astype(np.float64)
    below = top - (lines[ALONG_U] + 0.5 * lines[ALONG_V] - lines[LINEAR])
    gains = np.where((below > 0.0) & (lines[PIVOT] > 0.0), below**2 / lines[PIVOT], 0.0)
    found = table.find_gain(tab, top, q)
    assert (found < 0) == (gains.max() == 0.0)
    assert found < 0 or gains[found] >= gains.max() * (1.0 - 2.0**-18)


@pytest.mark.parametrize("best", [0, 1, 63, 298])
def test_of_equal_gains_the_first(best: int) -> None:
    tab = table.make_tableau(3, 300)
    tab.lines[PIVOT] = tab.lines[LINEAR] = 1.0
    tab.lines[LINEAR, best:300] = 2.0
    tab.lines[LINEAR, 300:] = FAR
    assert table.find_gain(tab, np.float32(0.0), table.pad(300)) == best


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=64))
def test_the_median_above_the_least(values: list[float]) -> None:
    found = kernels.median_above_least(np.array(values), len(values))
    assert found == np.median(values) - min(values)
