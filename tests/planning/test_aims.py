"""The tau of least time, picks of herding, and many targets."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from wolfhound.machine import Calibration
from wolfhound.planning.aims import TauAim
from wolfhound.planning.options import weigh
from wolfhound.planning.plan import plan
from wolfhound.planning.report import Plan
from wolfhound.planning.sharing import share
from wolfhound.planning.theorems import PROVED, UNPROVED, Demand

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
    rival, index = found.rival, found.index
    assert found.workload.batch == 300
    assert (rival.name, rival.queries, rival.proves) == ("together", PROVED * 300, True)
    assert found.chosen is rival
    assert index.queries == math.ceil(300 * UNPROVED / index.ratio**2)
    each = [(way.total_seconds - way.build_seconds) / 300 for way in (rival, index)]
    start = math.ceil((index.build_seconds - rival.build_seconds) / (each[0] - each[1]))
    assert index.pays_from == start
    assert f"from about {float(f'{start:.2g}'):,.0f} targets on" in str(found)


def test_an_index_costs_less_than_minimize_many_from_where_the_plan_says() -> None:
    start = int(sharing(600).index.pays_from)
    for targets, pays in ((start // 2, False), (2 * start, True)):
        found = sharing(targets)
        assert (found.index.total_seconds < found.rival.total_seconds) is pays
        assert found.pays is pays


def test_exact_oracles_stand_for_their_atoms() -> None:
    found = sharing(300)
    assert [each.objection for each in found.options if each.proves] == ["stands for its atoms"] * 2 + [""]


def test_few_atoms_never_want_an_index_for_their_targets() -> None:
    found = plan(n=10**5, d=128, targets=10**4, ratio=0.9, calibration=FIXED)
    assert math.isinf(found.index.pays_from)
    assert f"Against minimize_many {found.index.title} never pays." in str(found)


def test_atoms_in_files_are_read_before_targets_are_solved() -> None:
    work = sharing(300).workload
    demand = Demand(targets=300)
    options = weigh(work, demand.at)
    kept, read = (share(options, replace(work, in_files=where), demand)[-1] for where in (False, True))
    assert read.build_seconds - kept.build_seconds == pytest.approx(2 * work.nbytes * FIXED.file)


def test_targets_beyond_a_chunk_are_asked_in_chunks() -> None:
    assert sharing(10**5).workload.batch == 1024


def test_more_targets_make_an_index_pay() -> None:
    assert not sharing(10).pays
    assert sharing(10**5).pays


def test_a_plan_with_an_aim_is_plain_data() -> None:
    document = sharing(10).to_dict()
    assert document["aim"]["tau"] == sharing(10).aim.tau  # type: ignore[union-attr]
    assert np.isfinite(document["aim"]["query_seconds"])
