"""The tau of least time, picks of herding, and many targets."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math

import numpy as np
import pytest

from wolfhound.machine import Calibration
from wolfhound.planning.aims import TauAim
from wolfhound.planning.plan import plan
from wolfhound.planning.report import Plan
from wolfhound.planning.theorems import PROVED, UNPROVED

FIXED = Calibration()


def aim_at(tau: float | None, d: int = 16) -> TauAim:
    aim = plan(n=10**6, d=d, ratio=0.9, tau=tau, calibration=FIXED).aim
    assert aim is not None
    return aim


def sharing(targets: int) -> Plan:
    return plan(n=10**6, d=128, targets=targets, ratio=0.9, calibration=FIXED)


@pytest.mark.parametrize("d", [8, 16, 64])
def test_no_other_tau_costs_less(d: int) -> None:
    chosen = aim_at(None, d)
    # Nothing is known of the queries but the median of what they find, which a given tau replaces.
    typical = plan(n=10**6, d=d, ratio=0.9, calibration=FIXED).tau
    assert not chosen.given
    assert chosen.tau <= typical + 0.05
    assert chosen.query_seconds <= chosen.pass_seconds * 1.5
    assert 0.5 < chosen.reached <= 1.0


def test_a_given_tau_is_kept() -> None:
    given = aim_at(0.8)
    assert (given.tau, given.given) == (0.8, True)
    assert given.reached == pytest.approx(0.5, abs=1e-6)  # it is taken for the median
    assert "tau 0.8 as given" in next(given.lines())


def test_a_higher_tau_scores_less() -> None:
    scored = [aim_at(tau).scored for tau in (0.3, 0.5, 0.7, 0.9)]
    assert scored == sorted(scored, reverse=True)
    assert scored[-1] < 0.02 * 10**6


def test_picks_come_from_inside_and_grow_by_their_own_bound() -> None:
    found = plan(n=10**6, d=64, picks=1000, ratio=0.75, calibration=FIXED)
    assert found.workload.interior
    assert found.option("scan").queries == 1000
    assert found.option("lsh").queries == pytest.approx(1000 / (2 * found.option("lsh").ratio - 1), abs=1)
    assert "1,000 picks of herding" in str(found)
    assert "1/(2c - 1)" in str(found)


def test_an_index_of_half_the_gap_never_ends_herding() -> None:
    found = plan(n=10**6, d=64, picks=1000, ratio=0.5, calibration=FIXED)
    assert math.isinf(found.demand.at(0.5))
    assert "never" in str(found)


def test_targets_are_asked_together_and_say_where_an_index_pays() -> None:
    found = sharing(300)
    exact, index = found.option("int8"), found.index
    assert found.workload.batch == 300
    assert exact.queries == PROVED * 300
    asks = UNPROVED / index.ratio**2
    start = (index.build_seconds - exact.build_seconds) / (
        PROVED * exact.query_seconds - asks * index.query_seconds
    )
    assert f"from about {float(f'{math.ceil(start):.2g}'):,.0f} targets on" in str(found)


def test_targets_beyond_a_chunk_are_asked_in_chunks() -> None:
    assert sharing(10**5).workload.batch == 1024


def test_more_targets_make_an_index_pay() -> None:
    assert not sharing(10).pays
    assert sharing(10**5).pays


def test_a_plan_with_an_aim_is_plain_data() -> None:
    document = sharing(10).to_dict()
    assert document["aim"]["tau"] == sharing(10).aim.tau  # type: ignore[union-attr]
    assert np.isfinite(document["aim"]["query_seconds"])
