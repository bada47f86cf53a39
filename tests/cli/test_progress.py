"""The meter: shares, estimates, and how often it speaks."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math

import numpy as np
import pytest

from wolfhound.cli._progress import GapMeter, Meter, Reading, show_texts
from wolfhound.core import Point, State
from wolfhound.progress import report_rows


class Clock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def state(value: float, lower: float, passes: float = 0.0) -> State:
    """Return a state with this gap."""
    point = Point(x=np.zeros(1), value=value, grad=np.zeros(1))
    ids, weights = np.zeros(1, np.int64), np.ones(1)
    return State(
        t=0,
        point=point,
        lower=lower,
        ids=ids,
        weights=weights,
        passes=passes,
        scored=0,
        ratio=math.nan,
        slack=0.0,
        kind="pass",
    )


def test_it_counts_passes_gaps_and_time_left() -> None:
    clock, shown = Clock(), list[Reading]()
    meter = GapMeter(100, rtol=1e-4, clock=clock)
    with meter.watch(shown.append, 0.0) as on_state:
        on_state(state(1.0, -math.inf))
        clock.now = 2.0
        report_rows(150)
        on_state(state(1.0, 0.0, 1.0))
        report_rows(25)
        on_state(state(1.0, 0.99, 1.5))
    assert shown[0] == (0.0, "0.00 passes, 0 s")
    assert shown[1] == (0.0, "1.50 passes, 2 s")
    assert shown[3] == (0.0, "gap 1.0e+00, 1.25 passes, 2 s")
    share, text = shown[4]
    assert share == pytest.approx(0.5)
    assert text == "gap 1.0e-02, 1.50 passes, 2 s, about 2 s left"


def test_bytes_and_time_left_of_a_pass_are_told() -> None:
    clock, shown = Clock(), list[Reading]()
    meter = GapMeter(1000, rtol=1e-4, row=4_000_000, clock=clock)
    with meter.watch(shown.append, 0.0) as on_state:
        clock.now = 3.0
        on_state(state(1.0, -math.inf))
        clock.now = 5.0
        report_rows(250)
        clock.now = 13.0
        report_rows(1000)
    assert shown[0].text == "0.00 passes, 3 s"
    assert shown[1].text == "0.25 passes, 1.0 GB of 4.0 GB, 6 s left of this pass, 5 s"
    assert shown[2].text == "1.25 passes, 1.0 GB of 4.0 GB, 6 s left of this pass, 13 s"


def test_jobs_add_up() -> None:
    clock, shown = Clock(), list[Reading]()
    meter = GapMeter(10, rtol=1e-2, jobs=4, clock=clock)
    with meter.watch(shown.append, 0.0):
        pass
    clock.now = 3.0
    with meter.watch(shown.append, 0.0) as on_state:
        on_state(state(5.0, 0.0))
    assert shown == [(0.25, "2 of 4, gap 5.0e+00, 0.00 passes, 3 s, about 9 s left")]


def test_it_speaks_at_most_once_per_interval() -> None:
    clock, shown = Clock(), list[Reading]()
    with GapMeter(10, rtol=1e-2, clock=clock).watch(shown.append, 1.0) as on_state:
        for tick in range(51):
            clock.now = tick / 10
            on_state(state(1.0, 0.0))
            report_rows(1)
    assert len(shown) == 5


@pytest.mark.parametrize("rtol", [0.0, 1.0, 5.0])
@pytest.mark.parametrize("gap", [0.0, 1.0, math.inf, math.nan])
def test_odd_numbers_give_a_share_in_range(rtol: float, gap: float) -> None:
    shown = list[Reading]()
    with GapMeter(10, rtol=rtol, clock=Clock()).watch(shown.append, 0.0) as on_state:
        on_state(state(2.0, 0.0))
        on_state(state(gap, 0.0))
    assert [report for report in shown if not 0.0 <= report.share <= 1.0] == []


def test_reports_after_a_job_are_not_heard() -> None:
    shown = list[Reading]()
    meter = GapMeter(10, rtol=0.1, clock=Clock())
    with meter.watch(shown.append, 0.0):
        pass
    report_rows(5)
    assert shown == []


def test_texts_are_shown_at_most_once_per_interval(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    clock = Clock()
    monkeypatch.setattr(Meter.__init__, "__kwdefaults__", {"intent": "", "clock": clock})
    with show_texts() as say:
        for now, text in ((0.4, "one"), (1.2, "two"), (1.9, "three"), (2.5, "four")):
            clock.now = now
            say(0.5, text)
    assert capsys.readouterr().err.split() == ["two", "four"]


def test_what_is_meant_is_said_once_and_first(capsys: pytest.CaptureFixture[str]) -> None:
    shown = list[Reading]()
    meter = Meter(lambda meter: Reading(0.0, f"{meter.swept}"), intent="so many rows", clock=Clock())
    with meter.watch(shown.append, 0.0):
        assert capsys.readouterr().err == ""
        report_rows(2)
        report_rows(3)
    assert capsys.readouterr().err == "so many rows\n"
    assert [text for _, text in shown] == ["2", "5"]
