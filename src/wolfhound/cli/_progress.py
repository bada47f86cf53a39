"""How far a command is: a bar on a terminal, a line per second elsewhere.

Hears the states of a run and the pulses inside a pass; writes to stderr only.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeAlias

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn

from wolfhound.cli._output import stderr
from wolfhound.core import State
from wolfhound.pulse import on_pulse

_TERMINAL_INTERVAL = 0.1
_LINE_INTERVAL = 1.0
_LEAST_SHARE = 0.02  # below it, an estimate of the time left is a guess


class Report(NamedTuple):
    """What is shown: the share done in [0, 1], and one line of numbers."""

    share: float
    text: str


Show: TypeAlias = Callable[[Report], None]


class Meter:
    """Watches `jobs` runs over n atoms, one after the other.

    Parameters
    ----------
    n
        Atoms.
    rtol
        Wanted relative gap: a run is taken to be as far as its gap has fallen
        towards it, on a log scale.
    jobs
        Runs.
    clock
        Seconds since any fixed time.
    """

    def __init__(
        self, n: int, *, rtol: float, jobs: int = 1, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._n, self._rtol, self._jobs, self._clock = n, rtol, jobs, clock
        self._begun = self._shown = clock()
        self._done = self._rows = 0
        self._passes = 0.0
        self._first = self._gap = math.inf

    @contextlib.contextmanager
    def job(self) -> Iterator[Callable[[State], None]]:
        """Show one run while the block lasts; give the callback for `minimize`."""
        with display() as (show, interval), self.watch(show, interval) as on_state:
            yield on_state

    @contextlib.contextmanager
    def watch(self, show: Show, interval: float) -> Iterator[Callable[[State], None]]:
        """As `job`, but tell `show`, at most every `interval` seconds."""
        self._rows, self._passes, self._first, self._gap = 0, 0.0, math.inf, math.inf

        def refresh() -> None:
            now = self._clock()
            if now - self._shown >= interval:
                self._shown = now
                show(self.report())

        def on_state(state: State) -> None:
            # What was swept since the last state is now part of its passes.
            self._gap, self._passes, self._rows = state.gap, state.passes, 0
            self._first = min(self._first, state.gap) if math.isinf(self._first) else self._first
            refresh()

        def on_rows(rows: int) -> None:
            self._rows += rows
            refresh()

        with on_pulse(on_rows):
            yield on_state
        self._done += 1

    def report(self) -> Report:
        """Say where we are."""
        share = min((self._done + self._share()) / self._jobs, 1.0)
        seconds = self._clock() - self._begun
        parts = [f"{self._done + 1} of {self._jobs}"] if self._jobs > 1 else []
        parts += [f"gap {self._gap:.1e}"] if math.isfinite(self._gap) else []
        parts += [f"{self._passes + self._rows / self._n:.2f} passes", f"{seconds:.0f} s"]
        parts += [f"about {seconds * (1.0 - share) / share:.0f} s left"] if share > _LEAST_SHARE else []
        return Report(share, ", ".join(parts))

    def _share(self) -> float:
        if not (0.0 < self._rtol < 1.0 and 0.0 < self._gap < self._first < math.inf):
            return 0.0
        return min(math.log(self._first / self._gap) / math.log(1.0 / self._rtol), 0.99)


@contextlib.contextmanager
def display() -> Iterator[tuple[Show, float]]:
    console = stderr()
    if console.is_terminal:
        with _bar(console) as show:
            yield show, _TERMINAL_INTERVAL
    else:
        yield lambda report: console.print(report.text, markup=False, soft_wrap=True), _LINE_INTERVAL


@contextlib.contextmanager
def _bar(console: Console) -> Iterator[Show]:
    from wolfhound.jit import on_compile  # noqa: PLC0415 - numba: any run that gets here needs it

    columns = (SpinnerColumn(), BarColumn(24), TextColumn("{task.description}"))
    # Redirecting would send results to stderr when only stdout is piped.
    bar = Progress(*columns, console=console, transient=True, redirect_stdout=False, redirect_stderr=False)
    told: list[bool] = []

    def say() -> None:
        if not told:
            told.append(True)
            console.print("compiling kernels (once) ...", style="dim")

    with bar, on_compile(say):
        task = bar.add_task("starting", total=1.0)
        yield lambda report: bar.update(task, completed=report.share, description=report.text)
