"""Sublinear herding keeps the rate of E18 on any index, by verified answers."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from tests.oracles.degraded import EveryOther
from wolfhound.core.contracts import Oracle, State, Status, Vector
from wolfhound.herding.in_features import pick_in_features
from wolfhound.oracles.lsh import LshIndex
from wolfhound.oracles.scan import Scan
from wolfhound.oracles.subset import RandomSubset
from wolfhound.paper import theory
from wolfhound.paper.sublinear_herding import Onwards, SublinearHerding

PICKS = 120


def halves(n: int, d: int, seed: int = 0) -> Vector:
    """Rows of which those of even ids lie on one side."""
    rows = np.random.default_rng(seed).standard_normal((n, d))
    rows[::2, 0] += 8.0
    return rows


def widest(rows: Vector) -> float:
    return float(np.linalg.norm(rows[:, None] - rows[None], axis=2).max())


@pytest.mark.slow
@pytest.mark.parametrize(
    "make",
    [EveryOther, functools.partial(RandomSubset, size=1), functools.partial(LshIndex.build, budget=1), Scan],
)
@pytest.mark.parametrize("c", [0.6, 0.9, 1.0])
def test_every_pick_has_its_share_and_the_rate_is_kept(make: Callable[[Any], Oracle], c: float) -> None:
    rows = halves(200, 3)
    mean, points, hits = rows.mean(axis=0), [], []

    def note(state: State) -> None:
        points.append(state.point.x)
        hits.append(state.hit)

    run = pick_in_features(rows, PICKS, oracle=make, method=SublinearHerding(ratio=c), callback=note)
    for t, (x, hit) in enumerate(zip(points, hits[1:], strict=False)):
        wanted = c * float((mean - x) @ (mean - x))
        assert (mean - x) @ (rows[hit] - x) >= wanted * (1 - 1e-9), t
    errors = np.array([0.5 * float((mean - x) @ (mean - x)) for x in points[1:]])
    bounds = [theory.herding_gap_after(t, c=c, diameter=widest(rows)) for t in range(1, PICKS + 1)]
    assert np.all(errors <= bounds)
    ids, times = np.unique(run.picks, return_counts=True)
    assert (run.status, len(run.picks)) == (Status.FINISHED, PICKS)
    assert_array_equal(np.sort(run.ids), ids)
    assert_allclose(run.weights[np.argsort(run.ids)], times / PICKS, rtol=1e-10)


@pytest.mark.slow
@given(st.integers(0, 2**32 - 1), st.sampled_from([0.55, 0.8]))
def test_the_rate_holds_for_any_weighted_mean(seed: int, c: float) -> None:
    draws = np.random.default_rng(seed)
    rows = draws.standard_normal((20, 3))
    run = pick_in_features(
        rows,
        25,
        oracle=EveryOther,
        method=SublinearHerding(ratio=c),
        row_weights=draws.dirichlet(np.full(20, 0.2)),
    )
    times = run.trace.t[1:].tolist()
    bounds = [theory.herding_gap_after(t, c=c, diameter=widest(rows)) for t in times]
    assert np.all(run.trace.value[1:] <= np.array(bounds) * (1 + 1e-9) + 1e-12)


@pytest.mark.slow
def test_an_index_that_is_blind_on_one_side_stalls_alone() -> None:
    rows = halves(200, 3)
    bare = pick_in_features(rows, 2000, oracle=EveryOther)
    bound = theory.herding_gap_after(2000, c=0.9, diameter=widest(rows))
    assert bare.value > 10 * bound
    sure = pick_in_features(rows, 2000, oracle=EveryOther, method=SublinearHerding(ratio=0.9))
    assert sure.value <= bound
    assert 0 < sure.passes < 1800  # and only where the index finds too little


def test_no_passes_where_the_index_is_good_enough() -> None:
    rows = np.random.default_rng(0).standard_normal((4000, 8))
    run = pick_in_features(rows, 100, oracle=LshIndex.build, method=SublinearHerding(ratio=0.9))
    assert run.passes == 1.0  # of the mean
    assert run.scored < 100 * 1000


def test_the_passes_may_be_another_exact_oracle_s() -> None:
    rows = halves(300, 3)
    exact = Scan(rows)
    given_one = pick_in_features(rows, 60, oracle=EveryOther, method=SublinearHerding(ratio=0.9, exact=exact))
    default = pick_in_features(rows, 60, oracle=EveryOther, method=SublinearHerding(ratio=0.9))
    assert_array_equal(given_one.picks, default.picks)


def test_for_a_mean_outside_every_pick_is_the_best() -> None:
    rows = halves(100, 3)
    far = [[50.0, 1.0, 0.0]]
    run = pick_in_features(rows, 30, oracle=EveryOther, method=SublinearHerding(), target=far)
    assert_array_equal(run.picks, pick_in_features(rows, 30, oracle=Scan, target=far).picks)


def test_a_run_goes_on_where_it_ended() -> None:
    rows = halves(200, 4)
    options: dict[str, Any] = {"oracle": EveryOther, "method": SublinearHerding(ratio=0.8, sample=0)}
    half = pick_in_features(rows, 30, **options)
    assert_array_equal(
        pick_in_features(rows, 70, start=half, **options).picks, pick_in_features(rows, 70, **options).picks
    )


@pytest.mark.parametrize("c", [0.5, 1.1, -1.0])
def test_a_share_of_half_or_less_is_refused(c: float) -> None:
    with pytest.raises(ValueError, match=r"`ratio` must be in \(1/2, 1\]. Got"):
        SublinearHerding(ratio=c)


def test_onwards_never_stands_still() -> None:
    scores = np.array([1.0, 3.0])
    good, bad = (Onwards().choose(scores, 2.0, 2, score) for score in (2.5, 1.5))
    assert (good.gap, good.up) == (0.5, 2)
    assert (bad.gap > 0.0, bad.up) == (True, 2)
    assert Onwards().inside(scores, 2.0).up == 1
