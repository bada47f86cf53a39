"""Several runs in one picture, and on one page."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import wolfhound as wh
from tests.show.cases import normal
from wolfhound.show import compare, plot
from wolfhound.solve.result import picture_weights

ROWS, F = normal(300, 4), wh.SquaredDistance(np.full(4, 2.0))
FAST = wh.minimize(F, ROWS)
SLOW = wh.minimize(F, ROWS, method=wh.FrankWolfe(), rtol=1e-2)
INDEX = wh.minimize(F, wh.RandomSubset(ROWS, size=50, seed=0), max_steps=5)


def test_runs_are_named_by_their_methods() -> None:
    assert list(compare.name_runs([FAST, SLOW])) == ["FullyCorrective()", "FrankWolfe()"]
    assert list(compare.name_runs([FAST, FAST])) == ["FullyCorrective() (1)", "FullyCorrective() (2)"]
    assert list(compare.name_runs([FAST, SLOW], ["a", "b"])) == ["a", "b"]


def test_runs_on_one_problem_stand_above_the_best_bound() -> None:
    found = compare.read_runs({"fast": FAST, "index": INDEX}, shared=True)
    best = max(FAST.trace.lower.max(), INDEX.trace.lower.max())
    np.testing.assert_array_equal(found.runs["index"].gap, INDEX.trace.value - best)
    assert (found.x, found.y) == (plot.SCORED, "f above the best bound")
    np.testing.assert_array_equal(found.runs["index"].passes, INDEX.trace.scored)


def test_runs_on_two_problems_have_their_own_gaps() -> None:
    other = wh.minimize(wh.SquaredDistance(np.full(4, 9.0)), ROWS + 1.0)
    found = compare.read_runs({"fast": FAST, "other": other})
    np.testing.assert_array_equal(found.runs["other"].gap, other.trace.gap)
    assert (found.goal, found.y) == (None, "proved gap")
    with pytest.raises(ValueError, match="`shared` must be False for runs on several f or atoms"):
        wh.plot(FAST, other, shared=True)


def test_a_picture_of_several_runs(tmp_path: Path) -> None:
    figure = wh.plot(FAST, SLOW, path=tmp_path / "runs.png", title="two ways")
    assert [axes.get_xlabel() for axes in figure.axes] == [plot.PASSES, plot.SECONDS]
    assert (tmp_path / "runs.png").read_bytes()[:4] == b"\x89PNG"
    assert len(wh.plot({"one": FAST}).axes) == 2


def test_what_has_no_trace_is_refused() -> None:
    many = wh.minimize_many(ROWS[:3], ROWS)
    with pytest.raises(TypeError, match="`results` must be results with a trace"):
        wh.plot(FAST, many)
    with pytest.raises(ValueError, match="`results` must be at least one"):
        wh.plot()
    with pytest.raises(ValueError, match=r"`names` must be 2 names, one per result\. Got 1"):
        wh.plot(FAST, SLOW, names=["a"])


def test_a_page_of_several_runs_begins_with_all_of_them(tmp_path: Path) -> None:
    page = wh.report({"fast": FAST, "slow": SLOW}, tmp_path / "both.html").read_text()
    assert page.index("All runs, by passes over all atoms") < page.index("The proved band")
    assert "All runs" not in wh.report({"fast": FAST}, tmp_path / "one.html").read_text()


def test_a_mixture_is_drawn_by_its_largest_weights() -> None:
    picture = picture_weights(FAST)
    assert picture.numbers is not None
    assert len(picture.numbers.rows) == FAST.support
    assert picture.text.startswith(f"{FAST.support} atoms have weight; the largest is #{FAST.ids[0]}")
