"""How far a run is: a bar on a terminal, a line per second elsewhere.

Hears the states of a run and the pulses inside a pass; writes to stderr only.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn

from wolfhound.cli._output import stderr
from wolfhound.core import State, on_pulse

_TERMINAL_INTERVAL = 0.1
_LINE_INTERVAL = 1.0


@dataclass(frozen=True, slots=True)
class Report:
    """What is shown: share done in [0, 1], and one line of numbers."""

    share: float
    text: str


class Meter:
    """Counts the work of `jobs` runs over n atoms and reports now and then.

    Parameters
    ----------
    n
        Atoms.
    rtol
        Wanted relative gap: a run is taken to be as far as its gap has fallen
        towards it, on a log scale.
    jobs
        Runs, one after the other.
    show
        Told a report at most every `interval` seconds.
    interval
        Seconds.
    clock
        Seconds since any fixed time.
    """

    def __init__(
        self,
        n: int,
        *,
        rtol: float,
        jobs: int,
        show: Callable[[Report], None],
        interval: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._n, self._rtol, self._jobs = n, rtol, jobs
        self._show, self._interval, self._clock = show, interval, clock
        self._begun = self._shown = clock()
        self._done = 0
        self._rows = 0
        self._first = self._gap = math.inf

    def on_state(self, state: State) -> None:
        """Hear a state: the callback of `minimize`."""
        self._gap = state.gap
        if not math.isfinite(self._first):
            self._first = state.gap
        self._refresh()

    def on_rows(self, rows: int) -> None:
        """Hear that rows were swept: the listener of `core.on_pulse`."""
        self._rows += rows
        self._refresh()

    def next_job(self) -> None:
        """One run is over."""
        self._done += 1
        self._rows = 0
        self._first = self._gap = math.inf
        self._refresh()

    def report(self) -> Report:
        """Say where we are."""
        share = (min(self._done, self._jobs) + self._share()) / max(self._jobs, 1)
        seconds = self._clock() - self._begun
        parts = [f"{self._done}/{self._jobs} targets"] if self._jobs > 1 else []
        parts += [f"gap {self._gap:.1e}"] if math.isfinite(self._gap) else []
        parts += [f"{self._rows / self._n:.2f} passes", f"{seconds:.0f} s"]
        parts += [f"about {seconds * (1.0 - share) / share:.0f} s left"] if share > 0.02 else []
        return Report(min(share, 1.0), ", ".join(parts))

    def _share(self) -> float:
        if self._done >= self._jobs or not 0.0 < self._rtol < 1.0:
            return 0.0
        if not (math.isfinite(self._first) and 0.0 < self._gap < self._first):
            return 0.0
        return min(math.log(self._first / self._gap) / math.log(1.0 / self._rtol), 0.99)

    def _refresh(self) -> None:
        now = self._clock()
        if now - self._shown >= self._interval:
            self._shown = now
            self._show(self.report())


@contextlib.contextmanager
def meter(n: int, *, rtol: float, jobs: int = 1) -> Iterator[Meter]:
    """Show progress on stderr while the block runs; give its `on_state` to `minimize`."""
    console = stderr()
    with contextlib.ExitStack() as stack:
        if console.is_terminal:
            show, interval = stack.enter_context(_bar(console)), _TERMINAL_INTERVAL
        else:
            show, interval = _line, _LINE_INTERVAL
        watch = Meter(n, rtol=rtol, jobs=jobs, show=show, interval=interval)
        stack.enter_context(on_pulse(watch.on_rows))
        yield watch


def _line(report: Report) -> None:
    stderr().print(report.text, soft_wrap=True, markup=False)


@contextlib.contextmanager
def _bar(console: Console) -> Iterator[Callable[[Report], None]]:
    from wolfhound.jit import on_compile  # noqa: PLC0415 - numba, needed by any run that gets here

    columns = (SpinnerColumn(), BarColumn(24), TextColumn("{task.description}"))
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("starting", total=1.0)
        told = False

        def say() -> None:
            nonlocal told
            if not told:
                told = True
                console.print("compiling kernels (once) ...", style="dim")

        def show(report: Report) -> None:
            progress.update(task, completed=report.share, description=report.text)

        with on_compile(say):
            yield show
