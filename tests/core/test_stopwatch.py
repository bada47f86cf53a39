"""Time of compiling is counted once, and is no time of a run."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from wolfhound.core import progress
from wolfhound.core.progress import Stopwatch


class Clock:
    """`perf_counter` that is told the time."""

    def __init__(self) -> None:
        self.now = 0.0

    def perf_counter(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    found = Clock()
    monkeypatch.setattr(progress, "time", found)
    return found


def test_what_overlaps_counts_once(clock: Clock) -> None:
    watch = Stopwatch()
    watch.start()
    clock.now = 2.0
    watch.start()
    clock.now = 3.0
    watch.stop()
    assert watch.since(1.0) == 2.0
    clock.now = 5.0
    watch.stop()
    clock.now = 9.0
    assert [watch.since(began) for began in (0.0, 4.0, 5.0, 8.0)] == [5.0, 1.0, 0.0, 0.0]


def test_solving_stands_still_while_kernels_are_compiled(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "COMPILING", Stopwatch())
    clock.now = 1.0
    progress.COMPILING.start()
    clock.now = 4.0
    assert progress.time_solving(0.0) == 1.0
    progress.COMPILING.stop()
    clock.now = 6.0
    assert progress.time_solving(0.0) == 3.0
