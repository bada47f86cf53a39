"""How long kernels were compiled or loaded: time that is not spent on a problem.

Knows no compiler: `wolfhound.compiled.jit` says when it begins and ends.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import threading
import time


class Stopwatch:
    """Time that went by while it ran; it may be started again before it is stopped.

    Of several threads that run it at once every second counts once.

    Examples
    --------
    >>> watch, began = Stopwatch(), time.perf_counter()
    >>> watch.start(), watch.start(), time.sleep(0.01), watch.stop(), watch.stop()
    (None, None, None, None, None)
    >>> watch.since(began) >= 0.01, watch.since(began) == watch.since(began)
    (True, True)
    >>> watch.since(time.perf_counter())
    0.0
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._depth, self._start = 0, 0.0
        self._runs: list[tuple[float, float]] = []  # one per kernel at most

    def start(self) -> None:
        """Begin to count."""
        with self._lock:
            self._start = self._start if self._depth else time.perf_counter()
            self._depth += 1

    def stop(self) -> None:
        """End what was begun last."""
        with self._lock:
            self._depth -= 1
            if not self._depth:
                self._runs.append((self._start, time.perf_counter()))

    def since(self, began: float) -> float:
        """How long it ran from ``time.perf_counter() == began`` until now."""
        with self._lock:
            if not self._depth and not (self._runs and self._runs[-1][1] > began):
                return 0.0  # asked after every step: nearly always there was none
            runs = [*self._runs, (self._start, time.perf_counter())] if self._depth else self._runs
            return sum((end - max(start, began) for start, end in runs if end > began), 0.0)


COMPILING = Stopwatch()
"""Runs while kernels are compiled, or loaded from disk."""


def time_solving(began: float) -> float:
    """Seconds since ``time.perf_counter() == began`` in which no kernel was compiled or loaded."""
    return time.perf_counter() - began - COMPILING.since(began)
