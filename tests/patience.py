"""How long a test waits for another process or thread: until it hangs, however busy the machine is.

A hang is judged by the CPU time that a process takes, which a load does not stretch. What only
waits to be woken has `PATIENCE`: a bound that ends a suite which would never end, no judgement.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

PATIENCE = 3600.0
"""Seconds by the clock on the wall, for what takes a moment on an idle machine."""

POLL, IDLE_POLLS, IDLE_CPU = 1.0, 900, 1.0
"""Seconds between polls; who takes less CPU seconds over so many polls waits for what will not come."""

_TICK = 1.0 / os.sysconf("SC_CLK_TCK")


def cpu_seconds(pid: int) -> float:
    """CPU seconds of a process and all its children; 0 where the system does not tell."""
    return _TICK * sum(_ticks(pid) for pid in _family(pid))


def _family(pid: int) -> Iterator[int]:
    yield pid
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in _read(task).split():
            yield from _family(int(child))


def _ticks(pid: int) -> int:
    """Own ticks and those of children that ended, in user and system mode."""
    # The name of the program comes before the last bracket, and may hold anything.
    fields = _read(Path(f"/proc/{pid}/stat")).rpartition(")")[2].split()
    return sum(map(int, fields[11:15]))


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:  # it ended meanwhile
        return ""


class Watch:
    """Says when a process hangs; polled every `POLL` seconds while it is silent.

    Parameters
    ----------
    spent
        CPU seconds of the process so far.
    allowed
        CPU seconds that it may take between two words.
    """

    def __init__(self, spent: Callable[[], float], allowed: float) -> None:
        self._spent, self.allowed = spent, allowed
        self.heard()

    def heard(self) -> None:
        """It has spoken: all begins anew."""
        self._since = self._mark = self._spent()
        self._polls = 0

    def hangs(self) -> bool:
        """Whether it took more than allowed since it spoke, or nothing for very long."""
        now = self._spent()
        self._polls += 1
        if now - self._mark >= IDLE_CPU:
            self._mark, self._polls = now, 0
        return now - self._since > self.allowed or self._polls >= IDLE_POLLS
