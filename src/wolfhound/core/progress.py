"""How far a job is: who sweeps atoms reports rows, who runs the job listens, one display shows it on stderr.

The display is a bar on a terminal, a line that is written over in a notebook, a line per second elsewhere.
It hears the states of a run and the rows of its passes, and knows no job but by a function that reads them.
Last, how long a job took: without the time in which kernels were compiled or loaded.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import contextlib
import math
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any, NamedTuple, TypeAlias

from wolfhound.core.contracts import Status
from wolfhound.core.text import bytes_text
from wolfhound.core.validate import flag


class Cut(Exception):
    """Raised by a report to leave a pass; carries the status of the run."""

    def __init__(self, status: Status) -> None:
        super().__init__(status.value)
        self.status = status


_listener: ContextVar[Callable[[int], None]] = ContextVar("progress", default=lambda rows: None)


def report_rows(rows: int) -> None:
    """Say that `rows` atoms were swept; may raise `Cut`. Driver thread only."""
    _listener.get()(rows)


@contextlib.contextmanager
def on_progress(listener: Callable[[int], None]) -> Iterator[None]:
    """Call `listener`, then any outer listener, at every report."""
    outer = _listener.get()

    def both(rows: int) -> None:
        listener(rows)
        outer(rows)

    token = _listener.set(both)
    try:
        yield
    finally:
        _listener.reset(token)


# ---------------------------------------------------------------- the display

_PATIENCE = 2.0  # seconds that a job may take before it is shown, where nobody asked
_BAR_INTERVAL, _LINE_INTERVAL = 0.1, 1.0
_LEAST_SHARE = 0.02  # before that an estimate of the time left is a guess
_now = time.monotonic


class Reading(NamedTuple):
    """What is shown: the share done in [0, 1], and one line of numbers."""

    share: float
    text: str


class Job:
    """What is known of a job while it runs.

    The state that it said last and when it was heard, the rows that were read since then and swept since it
    began, and the widest finite gap of its states.
    """

    def __init__(self) -> None:
        self._began = _now()
        self.state: Any = None
        self.rows = self.swept = 0
        self.heard = self.widest = 0.0

    @property
    def seconds(self) -> float:
        """Since it began."""
        return _now() - self._began

    def hear(self, state: Any) -> None:
        """Remember a state; what was read before it is now part of its passes."""
        self.state, self.rows, self.heard = state, 0, self.seconds
        gap = getattr(state, "gap", 0.0)
        self.widest = max(self.widest, gap) if math.isfinite(gap) else self.widest

    def hear_rows(self, rows: int) -> None:
        """Count the rows of a pass."""
        self.rows += rows
        self.swept += rows

    def time_text(self, share: float) -> str:
        """Say how long it took, and how long it may still take."""
        left = f", about {self.seconds * (1.0 - share) / share:.0f} s left" if share > _LEAST_SHARE else ""
        return f"{self.seconds:.0f} s{left}"


Reader: TypeAlias = Callable[[Job], Reading]
Show: TypeAlias = Callable[[Reading], None]
Callback: TypeAlias = Callable[[Any], bool | None]

_SHOWN = threading.Lock()  # held by the job that is shown: those inside it, and beside it, are not
_SAY: list[Callable[[str], None]] = []  # how the display that is there, if any, writes a line of its own


@contextlib.contextmanager
def show_progress(
    progress: bool | None, read: Reader, callback: Callback | None = None
) -> Iterator[Callback | None]:
    """Show how far a job is while the block lasts; give the callback that is to hear its states.

    True: at once; False: not at all; None: after two seconds, on a terminal or in a notebook, unless
    WOLFHOUND_QUIET is set. A job inside another that is shown is never shown itself.
    """
    wanted = progress is None or flag(progress, "progress")
    if not wanted or (progress is None and not _is_watched()) or not _SHOWN.acquire(blocking=False):
        yield callback
        return
    job, patience = Job(), _PATIENCE if progress is None else 0.0
    with contextlib.ExitStack() as stack:
        stack.callback(_SHOWN.release)
        show: Show | None = None
        interval = _BAR_INTERVAL if _on_terminal() or _in_notebook() else _LINE_INTERVAL
        due = _now() + max(patience, interval)

        def refresh() -> None:
            nonlocal show, due
            if _now() < due:
                return
            show = _open(stack) if show is None else show
            show(read(job))
            due = _now() + interval

        def hear(state: Any) -> bool | None:
            job.hear(state)
            refresh()
            return None if callback is None else callback(state)

        def hear_rows(rows: int) -> None:
            job.hear_rows(rows)
            refresh()

        if progress and _on_terminal():
            show = _open(stack)  # a spinner, while nothing is heard
        elif progress:
            _SAY.append(lambda text: _write(f"{text}\n") if _now() >= due else None)
            stack.callback(_SAY.pop)
        stack.enter_context(on_progress(hear_rows))
        yield hear


def say(text: str) -> None:
    """Write a line for who watches, above the bar if there is one; not where WOLFHOUND_QUIET is set."""
    if "WOLFHOUND_QUIET" in os.environ:
        return
    if _SAY:
        _SAY[-1](text)
    elif _is_watched():
        _write(f"{text}\n")


def _is_watched() -> bool:
    """Whether somebody looks at stderr, and may be told what was not asked for."""
    return "WOLFHOUND_QUIET" not in os.environ and (_on_terminal() or _in_notebook())


def _on_terminal() -> bool:
    return sys.stderr is not None and sys.stderr.isatty()


def _in_notebook() -> bool:
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return hasattr(shell, "kernel")


def _write(text: str) -> None:
    # A run does not end because nobody can hear how far it is.
    with contextlib.suppress(OSError, AttributeError):
        sys.stderr.write(text)
        sys.stderr.flush()


def _open(stack: contextlib.ExitStack) -> Show:
    """Open what fits stderr; the stack closes it."""
    if not _on_terminal() and not _in_notebook():
        return lambda reading: _write(reading.text + "\n")
    if not _on_terminal():
        stack.callback(_write, "\r" + " " * 100 + "\r")
        return lambda reading: _write(f"\r{reading.text:<100}")
    from rich.console import Console  # noqa: PLC0415 - most jobs end before they are shown
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn  # noqa: PLC0415

    console = Console(file=sys.stderr, highlight=False, emoji=False, markup=False)
    columns = SpinnerColumn(), BarColumn(24), TextColumn("{task.description}", markup=False)
    # Redirecting would send results to stderr when only stdout is piped.
    bar = Progress(*columns, console=console, transient=True, redirect_stdout=False, redirect_stderr=False)
    stack.enter_context(bar)
    task = bar.add_task("starting", total=1.0)
    _SAY.append(lambda text: console.print(text, soft_wrap=True))
    stack.callback(_SAY.pop)
    return lambda reading: bar.update(task, completed=reading.share, description=reading.text)


# ---------------------------------------------------------------- what there is to read


def read_gap(n: int, goal: float, row: int = 0) -> Reader:
    """Read a run over n atoms, of `row` bytes if passes are long, by how far its gap has fallen, in logs."""

    def read(job: Job) -> Reading:
        passes = job.rows / n + (0.0 if job.state is None else job.state.passes)
        gap = math.inf if job.state is None else job.state.gap
        falling = 0.0 < goal < job.widest and goal < gap <= job.widest
        share = min(math.log(job.widest / gap) / math.log(job.widest / goal), 0.99) if falling else 0.0
        parts = [f"gap {gap:.1e}"] if math.isfinite(gap) else []
        parts.append(f"{passes:.2f} passes")
        swept, spent = job.rows % n, job.seconds - job.heard
        if row and swept and spent > 1.0:
            size = f"{bytes_text(swept * row)} of {bytes_text(n * row)}"
            parts.append(f"{size}, {(n - swept) * spent / job.rows:.0f} s left of this pass")
        return Reading(share, ", ".join([*parts, job.time_text(share)]))

    return read


def read_count(
    what: str, total: int, count: Callable[[Any], int] = int, tell: Callable[[Any], str] = lambda state: ""
) -> Reader:
    """Read how many of a total are done, from the state of a job, and what else it tells."""

    def read(job: Job) -> Reading:
        done, told = (0, "") if job.state is None else (count(job.state), tell(job.state))
        share = min(done / total, 1.0)
        return Reading(share, f"{done:,} of {total:,} {what}{told}, {job.time_text(share)}")

    return read


def read_rows(what: str, total: float = math.inf, row: int = 0) -> Reader:
    """Read how many rows were read, of how many, if that is known."""

    def read(job: Job) -> Reading:
        share = min(job.swept / total, 1.0)
        told = f"{job.swept:,} rows" if math.isinf(total) else f"{100 * share:.0f} %"
        size = f" of {bytes_text(total * row)}" if row and math.isfinite(total) else ""
        return Reading(share, f"{what}, {told}{size}, {job.time_text(share)}")

    return read


# ---------------------------------------------------------------- how long it took


class Stopwatch:
    """Time that went by while it ran; it may be started again before it is stopped.

    Of several threads that run it at once every second counts once.
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
