"""Herding in a finite feature space on any oracle: going on, giving up, bad input."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from tests.herding.test_feature_picks import cloud, exact, schedule_weights, widest
from tests.oracles.degraded import Scripted
from wolfhound.core.contracts import Hits, Ids, Matrix, Status, Vector
from wolfhound.herding.in_features import map_atoms, pick_in_features, sample_fresh
from wolfhound.methods.directions import Vanilla
from wolfhound.methods.frank_wolfe import FrankWolfe
from wolfhound.methods.fully_corrective import FullyCorrective
from wolfhound.methods.steps import LineSearch, OpenLoop
from wolfhound.oracles.asking import check_question, offer
from wolfhound.oracles.lsh import LshIndex
from wolfhound.oracles.scan import Scan
from wolfhound.oracles.subset import RandomSubset
from wolfhound.oracles.wrappers import Audited
from wolfhound.paper import theory
from wolfhound.paper.adaptive import QuantizedQueries
from wolfhound.paper.sublinear_frank_wolfe import SublinearFrankWolfe
from wolfhound.solve.driver import Limits

# ---------------------------------------------------------------- any oracle


def test_equal_weights_stay_equal_where_every_answer_is_bad() -> None:
    rows = cloud(1000, 5)
    run = pick_in_features(rows, 300, oracle=functools.partial(RandomSubset, size=1))
    ids, times = np.unique(run.picks, return_counts=True)
    order = np.argsort(run.ids)
    assert len(run.picks) == 300
    assert run.status is Status.FINISHED
    assert_array_equal(run.ids[order], ids)
    assert_allclose(run.weights[order], times / 300, rtol=1e-12)
    rose = np.diff(run.trace.value[1:]) > 0
    assert rose.any()  # a schedule takes its step in any case


def test_a_line_search_leaves_bad_answers_alone() -> None:
    oracle = RandomSubset(cloud(1000, 5), size=1)
    run = pick_in_features(cloud(1000, 5), 60, oracle=oracle, step=LineSearch())
    assert len(run.picks) == 60
    assert "null" in run.trace.kind
    assert np.all(np.diff(run.trace.value[1:]) <= 1e-12)


def test_identical_rows_are_picked_all_the_same() -> None:
    rows = np.full((2000, 3), 0.1)
    run = pick_in_features(rows, 40)
    assert run.status is Status.FINISHED
    assert run.distance <= 1e-14
    assert exact(rows, 40).picks.tolist() == [0]


@dataclass
class Noted:
    """An oracle that notes the thresholds that it is given."""

    oracle: Scan
    thresholds: list[Vector | None]

    @property
    def atoms(self) -> Any:
        return self.oracle.atoms

    def query(
        self, queries: Matrix, *, k: int = 1, thresholds: Vector | None = None, exclude: Ids | None = None
    ) -> Hits:
        self.thresholds.append(thresholds)
        return self.oracle.query(queries, k=k, exclude=exclude)


def test_the_best_is_asked_for_as_half_of_what_is_left_is_too_little() -> None:
    rows = cloud(100, 4)
    ours, own = Noted(Scan(rows), []), Noted(Scan(rows), [])
    pick_in_features(rows, 10, oracle=ours)
    pick_in_features(rows, 10, oracle=own, method=FrankWolfe(Vanilla(), OpenLoop(1.0)))
    assert ours.thresholds == [None] * 10
    assert any(wanted is not None for wanted in own.thresholds)


@pytest.mark.slow
@pytest.mark.parametrize(
    "make",
    [
        LshIndex.build,
        functools.partial(RandomSubset, size=1500),
        lambda atoms: QuantizedQueries(Scan(atoms), side=0.05),
        lambda atoms: QuantizedQueries(LshIndex.build(atoms), side=0.05),
    ],
)
def test_an_index_keeps_the_rate_of_its_ratio(make: Callable[[Any], Any]) -> None:
    rows = cloud(3000, 8).astype(np.float32)
    run = pick_in_features(rows, 200, oracle=lambda atoms: Audited(make(atoms), every=1))
    c = float(np.nanmin(run.trace.ratio))
    assert c > 0.55
    bounds = [theory.herding_gap_after(t, c=c, diameter=widest(rows[::10]) * 1.5) for t in range(1, 201)]
    assert np.all(run.trace.value[1:] <= bounds)
    assert len(run.picks) == 200


@pytest.mark.parametrize("schedule", [None, OpenLoop(1.0)])
def test_the_sublinear_method_promises_a_share(schedule: OpenLoop | None) -> None:
    rows = cloud(4000, 6).astype(np.float32)
    method = SublinearFrankWolfe(ratio=0.9, schedule=schedule)
    run = pick_in_features(rows, 150, oracle=LshIndex.build, method=method)
    assert len(run.picks) == 150
    assert run.status is Status.FINISHED
    wanted = schedule_weights(run.picks, 2 / 0.9 if schedule is None else 1.0)
    assert_array_equal(run.ids, list(wanted))
    assert_allclose(run.weights, list(wanted.values()), rtol=1e-9)
    assert run.distance < 0.2
    assert run.passes < 20


def test_where_all_that_was_found_is_excluded_a_pass_answers() -> None:
    rows = cloud(50, 3)

    def nothing(queries: Matrix, k: int, exclude: Ids | None) -> Hits:
        empty = np.full((len(queries), 1), -1)
        return offer(
            oracle.atoms, check_question(oracle.atoms, queries, k, exclude), empty, scored=np.ones(1, int)
        )

    oracle = Scripted(rows, nothing)
    run = pick_in_features(rows, 20, oracle=oracle)
    assert_array_equal(run.picks, exact(rows, 20).picks)
    assert run.passes >= 20
    assert run.scored >= 20 * 51


def test_the_default_is_a_fresh_sample_for_every_pick() -> None:
    rows = cloud(5000, 4)
    run, again = pick_in_features(rows, 50, seed=3), pick_in_features(rows, 50, seed=np.random.default_rng(3))
    assert_array_equal(run.picks, again.picks)
    assert run.scored == 50 * 1000
    assert run.picks.tolist() != pick_in_features(rows, 50, seed=4).picks.tolist()
    atoms, rng = map_atoms(cloud(40_000, 1), None), np.random.default_rng(0)
    assert [sample_fresh(atoms, m, rng).size for m in (299, 300)] == [2000, 1000]


# ---------------------------------------------------------------- going on, leaving out, giving up


@pytest.mark.parametrize("step", [OpenLoop(1.0), OpenLoop(2.0), LineSearch()])
def test_a_run_goes_on_where_it_ended(step: OpenLoop | LineSearch) -> None:
    rows = cloud(300, 6)
    whole, half = exact(rows, 50, step=step), exact(rows, 20, step=step)
    longer = exact(rows, 50, step=step, start=half)
    assert_array_equal(longer.picks, whole.picks)
    assert_array_equal(longer.ids, whole.ids)
    assert_allclose(longer.weights, whole.weights, rtol=1e-9)
    assert longer.t == whole.t == 50


def test_a_run_that_was_over_goes_on_to_another_mean() -> None:
    over = exact(np.eye(4), 10)
    assert (len(over.picks), over.t) == (4, 4)
    longer = exact(np.eye(4), 6, start=over, target=[[1.0, 0.0, 0.0, 0.0]])
    assert longer.picks[4:].tolist() == [0, 0]
    assert_allclose(longer.weights[longer.ids == 0], 3 / 6, rtol=1e-12)
    assert_allclose(longer.weights[longer.ids != 0], 1 / 6, rtol=1e-12)


def test_picks_of_equal_weight_may_begin_and_repeat() -> None:
    rows = cloud(12, 3)
    whole = exact(rows, 60)
    longer = exact(rows, 60, start=whole.picks[:35])
    assert_array_equal(longer.picks, whole.picks)
    assert_allclose(longer.weights, whole.weights, rtol=1e-9)
    begun = exact(rows, 4, start=[7, 7, 2])
    assert begun.picks[:3].tolist() == [7, 7, 2]
    wanted = (2 * rows[7] + rows[2] + rows[begun.picks[3]]) / 4
    assert_allclose(begun.x, wanted, atol=1e-14)


def test_excluded_atoms_are_not_picked_even_if_they_began() -> None:
    rows = cloud(100, 4)
    left_out = np.unique(exact(rows, 30).picks)
    assert not np.isin(exact(rows, 30, exclude=left_out).picks, left_out).any()
    begun = exact(rows, 30, start=left_out[:5], exclude=left_out)
    assert_array_equal(begun.picks[:5], left_out[:5])
    assert not np.isin(begun.picks[5:], left_out).any()
    assert begun.weights[:5] == pytest.approx(1 / 30)


def test_limits_and_callbacks_keep_the_picks_so_far() -> None:
    rows = cloud(200, 5)
    few = exact(rows, 50, limits=Limits(steps=7))
    assert (few.status, len(few.picks)) == (Status.MAX_STEPS, 7)
    stopped = exact(rows, 50, callback=lambda state: state.t == 9)
    assert (stopped.status, len(stopped.picks)) == (Status.STOPPED, 9)
    assert_array_equal(few.picks, stopped.picks[:7])
    none = exact(rows, 50, limits=Limits(seconds=0.0))
    assert (none.status, len(none.ids), len(none.weights)) == (Status.MAX_SECONDS, 0, 0)


def test_a_read_only_array_stays_as_it_is() -> None:
    rows = cloud(50, 3)
    rows.flags.writeable = False
    assert len(pick_in_features(rows, 10, row_weights=np.ones(50)).picks) == 10


# ---------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"m": 0}, "`m` must be an integer >= 1. Got 0."),
        ({"exclude": [20]}, r"`exclude` must be ids in \[0, 20\)"),
        ({"exclude": np.arange(20)}, "`exclude` must be fewer than all atoms. Got 20 of 20."),
        ({"start": [1, 2, 3, 4, 5]}, "`start` must be fewer than m = 5 picks. Got 5."),
        ({"start": [-1]}, r"`start` must be ids in \[0, 20\)"),
        ({"target": np.ones((4, 2))}, "`target` must be rows of 3 columns, as the atoms have. Got 2."),
        ({"row_weights": np.ones(19)}, "`row_weights` must be a vector of length 20. Got length 19."),
        ({"row_weights": np.zeros(20)}, "`row_weights` must be above 0 in some entry. Got all 0."),
        ({"row_weights": np.full(20, -1.0)}, "`row_weights` must be >= 0 in each entry. Got -1."),
        (
            {"oracle": Scan(np.eye(3))},
            "`oracle` must be an oracle over the 20 x 3 features. Got one over 3 x 3.",
        ),
        ({"step": OpenLoop(1.0), "method": FrankWolfe()}, "`step` must be left out where `method` is given"),
        ({"target": [[math.nan, 0.0, 0.0]]}, "`target` must be finite"),
    ],
)
def test_bad_input_is_named(options: dict[str, Any], message: str) -> None:
    given_options = {"m": 5} | options
    with pytest.raises(ValueError, match=message):
        pick_in_features(cloud(20, 3), **given_options)


def test_other_methods_have_no_picks() -> None:
    method: Any = FullyCorrective()
    with pytest.raises(
        TypeError, match="`method` must be a FrankWolfe, SublinearFrankWolfe or SublinearHerding"
    ):
        pick_in_features(cloud(20, 3), 5, method=method)


def test_rows_that_are_not_finite_are_named() -> None:
    rows = cloud(20, 3)
    rows[7, 1] = np.inf
    with pytest.raises(ValueError, match="row 7, column 1"):
        pick_in_features(rows, 5)
