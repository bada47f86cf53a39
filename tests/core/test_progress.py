"""The display: when it appears, where, how often it speaks, and what it says."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import io
import math
import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import wolfhound as wh
from wolfhound.core import progress
from wolfhound.core.contracts import Point, State
from wolfhound.core.progress import (
    Job,
    Reader,
    Reading,
    read_count,
    read_gap,
    read_rows,
    report_rows,
    say,
    show_progress,
)


class Clock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(progress, "_now", made)
    return made


@pytest.fixture
def lines(capsys: pytest.CaptureFixture[str]) -> Callable[[], list[str]]:
    """What was written since to an stderr that nobody looks at."""

    def read() -> list[str]:
        return capsys.readouterr().err.splitlines()

    return read


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


def swept(job: Job) -> Reading:
    """Read how many rows were read."""
    return Reading(0.0, f"{job.swept}")


# ---------------------------------------------------------------- what is read


def test_gaps_passes_and_time_left(clock: Clock) -> None:
    job, read = Job(), read_gap(100, 1e-4)
    job.hear(state(1.0, -math.inf))
    assert read(job) == (0.0, "0.00 passes, 0 s")
    clock.now = 2.0
    job.hear_rows(150)
    assert read(job) == (0.0, "1.50 passes, 2 s")
    job.hear(state(1.0, 0.0, 1.0))
    job.hear_rows(25)
    assert read(job) == (0.0, "gap 1.0e+00, 1.25 passes, 2 s")
    job.hear(state(1.0, 0.99, 1.5))
    share, text = read(job)
    assert share == pytest.approx(0.5)
    assert text == "gap 1.0e-02, 1.50 passes, 2 s, about 2 s left"


def test_bytes_and_time_left_of_a_pass(clock: Clock) -> None:
    job, read = Job(), read_gap(1000, 1e-4, 4_000_000)
    clock.now = 3.0
    job.hear(state(1.0, -math.inf))
    assert read(job).text == "0.00 passes, 3 s"
    clock.now = 5.0
    job.hear_rows(250)
    assert read(job).text == "0.25 passes, 1.0 GB of 4.0 GB, 6 s left of this pass, 5 s"
    clock.now = 13.0
    job.hear_rows(1000)
    assert read(job).text == "1.25 passes, 1.0 GB of 4.0 GB, 6 s left of this pass, 13 s"


@pytest.mark.parametrize("goal", [0.0, 1.0, 5.0, math.inf])
@pytest.mark.parametrize("gap", [0.0, 1.0, math.inf, math.nan])
def test_odd_numbers_give_a_share_in_range(goal: float, gap: float) -> None:
    job = Job()
    job.hear(state(2.0, 0.0))
    job.hear(state(gap, 0.0))
    assert 0.0 <= read_gap(10, goal)(job).share <= 1.0


@pytest.mark.parametrize(
    ("read", "said"),
    [
        (read_count("resamples", 200), (0.25, "50 of 200 resamples, 3 s, about 9 s left")),
        (read_rows("reading"), (0.0, "reading, 1,000 rows, 3 s")),
        (read_rows("building", 4000, 24), (0.25, "building, 25 % of 96 kB, 3 s, about 9 s left")),
    ],
)
def test_counts_and_rows(clock: Clock, read: Reader, said: tuple[float, str]) -> None:
    job = Job()
    clock.now = 3.0
    job.hear(50)
    job.hear_rows(1000)
    assert read(job) == said


# ---------------------------------------------------------------- when and where it is shown


def test_it_speaks_at_most_once_per_interval(clock: Clock, lines: Callable[[], list[str]]) -> None:
    with show_progress(True, swept) as hear:
        assert hear is not None
        for tick in range(51):
            clock.now = tick / 10
            hear(None)
            report_rows(1)
    assert len(lines()) == 5


def test_what_comes_after_the_job_is_not_heard(lines: Callable[[], list[str]], clock: Clock) -> None:
    with show_progress(True, swept):
        pass
    clock.now = 9.0
    report_rows(5)
    assert lines() == []


@pytest.mark.parametrize("progress", [None, False])
def test_nobody_is_told_who_did_not_ask_and_does_not_look(
    clock: Clock, lines: Callable[[], list[str]], progress: bool | None
) -> None:
    with show_progress(progress, swept) as hear:
        clock.now = 9.0
        report_rows(5)
    assert (hear, lines()) == (None, [])


def test_a_line_of_its_own_is_part_of_the_display(
    clock: Clock, lines: Callable[[], list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("WOLFHOUND_QUIET", raising=False)
    with show_progress(True, swept):
        say("too early")
        clock.now = 9.0
        say("compiling")
        report_rows(5)
    say("too late")
    assert lines() == ["compiling", "5"]


def test_a_job_inside_another_is_part_of_it(clock: Clock, lines: Callable[[], list[str]]) -> None:
    with show_progress(True, swept):
        with show_progress(True, lambda job: Reading(0.0, "inner")):
            clock.now = 9.0
            report_rows(5)
        clock.now = 18.0
        report_rows(6)
    assert lines() == ["5", "11"]
    with show_progress(True, lambda job: Reading(0.0, "later")):
        clock.now = 27.0
        report_rows(5)
    assert lines() == ["later"]


def test_the_callback_of_the_caller_hears_every_state_and_stops(clock: Clock) -> None:
    heard = list[Any]()

    def callback(state: Any) -> bool:
        heard.append(state)
        return bool(state == 2)

    with show_progress(True, swept, callback) as hear:
        assert hear is not None
        assert [hear(i) for i in range(4)] == [False, False, True, False]
    assert heard == [0, 1, 2, 3]


@pytest.mark.parametrize("seconds", [1.0, 3.0])
def test_on_a_terminal_it_appears_after_two_seconds(
    clock: Clock, monkeypatch: pytest.MonkeyPatch, seconds: float
) -> None:
    monkeypatch.delenv("WOLFHOUND_QUIET", raising=False)
    stderr = Terminal()
    monkeypatch.setattr(sys, "stderr", stderr)
    with show_progress(None, swept):
        clock.now = seconds
        report_rows(55_555)
        say("[bold] is no markup")
    written = stderr.getvalue()
    assert ("55555" in written) == (seconds > 2.0)
    assert written.count("[bold] is no markup\n") == 1


def test_quiet_is_quiet_unless_asked(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WOLFHOUND_QUIET", "1")
    stderr = Terminal()
    monkeypatch.setattr(sys, "stderr", stderr)
    with show_progress(None, swept):
        clock.now = 9.0
        report_rows(5)
        say("something")
    assert stderr.getvalue() == ""
    with show_progress(True, swept):
        clock.now = 18.0
        report_rows(77_777)
    assert "77777" in stderr.getvalue()


def test_in_a_notebook_one_line_is_written_over(
    clock: Clock, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    shell = SimpleNamespace(kernel=None)
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    monkeypatch.delenv("WOLFHOUND_QUIET", raising=False)
    with show_progress(None, swept):
        for now in (3.0, 6.0):
            clock.now = now
            report_rows(5)
    assert capsys.readouterr().err == f"\r{'5':<100}\r{'10':<100}\r{'':<100}\r"


def test_a_closed_stderr_ends_no_run(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    for stderr in (None, io.StringIO()):
        monkeypatch.setattr(sys, "stderr", stderr)
        with show_progress(True, swept):
            clock.now += 9.0
            report_rows(5)


# ---------------------------------------------------------------- every door has it

ROWS = np.random.default_rng(0).standard_normal((400, 3))

DOORS: dict[str, tuple[Callable[[bool | None], object], str]] = {
    "minimize": (lambda p: wh.minimize(wh.SquaredDistance(2.0 * ROWS[0]), ROWS, progress=p), " passes, "),
    "minimize_many": (lambda p: wh.minimize_many(ROWS[:5], ROWS[9:], progress=p), "5 of 5 targets, "),
    "objectives": (
        lambda p: wh.minimize_many([wh.Huber(ROWS[:9], ROWS[:9, 0])] * 2, ROWS, progress=p),
        "2 of 2 targets, ",
    ),
    "herd": (lambda p: wh.herd(ROWS, 5, progress=p), "5 of 5 rows, "),
    "npmle": (lambda p: wh.npmle(ROWS[:, 0], wh.Normal(), progress=p), " reads of 400 observations, "),
    "bootstrap": (lambda p: wh.npmle(ROWS[:, 0], wh.Normal()).bootstrap(3, progress=p), "3 of 3 resamples, "),
    "design": (lambda p: wh.design(ROWS, progress=p), "efficiency >= "),
    "Int8Scan": (lambda p: wh.Int8Scan.build(ROWS, progress=p), "building, 100 %, "),
    "Int8FileScan": (lambda p: wh.Int8FileScan.build(ROWS, progress=p), "building, 100 %, "),
    "ClusterIndex": (lambda p: wh.ClusterIndex.build(ROWS, progress=p), "building, 100 %, "),
    "LshIndex": (lambda p: wh.LshIndex.build(ROWS, progress=p), "building, 100 %, "),
    "warm_up": (lambda p: wh.warm_up("design", progress=p), ""),
}


@pytest.mark.parametrize("door", DOORS)
def test_every_door_shows_how_far_it_is(
    door: str, lines: Callable[[], list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "_LINE_INTERVAL", 0.0)
    call, said = DOORS[door]
    for quiet in (None, False):
        call(quiet)
    assert lines() == []
    call(True)
    assert any(said in line for line in lines())


@pytest.mark.parametrize("door", DOORS)
def test_every_door_refuses_what_is_neither_true_nor_false(door: str) -> None:
    with pytest.raises(TypeError, match="`progress` must be True or False"):
        DOORS[door][0]("yes")  # type: ignore[arg-type]
