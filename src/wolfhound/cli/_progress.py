"""How far a command is: a bar on a terminal, a line per second elsewhere.

Hears the states of a run and the reports inside a pass; writes to stderr only.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TypeAlias

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn

from wolfhound.cli._output import notify, stderr
from wolfhound.core import State
from wolfhound.progress import on_progress
from wolfhound.text import bytes_text

_TERMINAL_INTERVAL = 0.1
_LINE_INTERVAL = 1.0
_LEAST_SHARE = 0.02  # below it, an estimate of the time left is a guess


class Reading(NamedTuple):
    """What is shown: the share done in [0, 1], and one line of numbers."""

    share: float
    text: str


Show: TypeAlias = Callable[[Reading], None]


class Meter:
    """Shows how far runs are, one after the other, no more often than can be read.

    Parameters
    ----------
    read
        What to show, from the attributes of the meter.
    intent
        A line that is said first, once there is something to show.
    clock
        Seconds since any fixed time.

    Attributes
    ----------
    state : object
        What the run said last; None before it has said anything.
    rows, swept : int
        Rows of the passes since then, and since the run began.
    done : int
        Runs that are over.
    """

    def __init__(
        self,
        read: Callable[[Meter], Reading],
        *,
        intent: str = "",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._read, self._intent, self._clock = read, intent, clock
        self._begun = self._shown = clock()
        self.state: Any = None
        self.rows = self.swept = self.done = 0

    @property
    def seconds(self) -> float:
        """Since the first run began."""
        return self._clock() - self._begun

    @contextlib.contextmanager
    def job(self) -> Iterator[Callable[[Any], None]]:
        """Show one run while the block lasts; give the callback that hears its states."""
        with display() as (show, interval), self.watch(show, interval) as on_state:
            yield on_state

    @contextlib.contextmanager
    def watch(self, show: Show, interval: float) -> Iterator[Callable[[Any], None]]:
        """As `job`, but tell `show`, at most every `interval` seconds."""
        self.state, self.rows, self.swept = None, 0, 0

        def refresh() -> None:
            if self._intent:
                notify(self._intent)
                self._intent = ""
            now = self._clock()
            if now - self._shown >= interval:
                self._shown = now
                show(self._read(self))

        def on_state(state: Any) -> None:
            self.hear(state)
            refresh()

        def on_rows(rows: int) -> None:
            self.rows += rows
            self.swept += rows
            refresh()

        with on_progress(on_rows):
            yield on_state
        self.done += 1

    def hear(self, state: Any) -> None:
        """Remember a state; what was swept before it is now part of its passes."""
        self.state, self.rows = state, 0


class GapMeter(Meter):
    """Watches `jobs` runs over n atoms whose gap falls.

    Parameters
    ----------
    n
        Atoms.
    rtol
        Wanted relative gap: a run is taken to be as far as its gap has fallen
        towards it, on a log scale.
    row
        Bytes of an atom: then the bytes of a pass are told, and when it will be over.
    jobs
        Runs.
    intent, clock
        As for `Meter`.
    """

    def __init__(
        self,
        n: int,
        *,
        rtol: float,
        row: int = 0,
        jobs: int = 1,
        intent: str = "",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(lambda _: self.read(), intent=intent, clock=clock)
        self._n, self._rtol, self._row, self._jobs = n, rtol, row, jobs
        self._first, self._heard = math.inf, 0.0

    def hear(self, state: State) -> None:
        """Remember the first gap that is known, too."""
        if self.state is None:
            self._first = math.inf
        super().hear(state)
        self._heard = self.seconds
        self._first = state.gap if math.isinf(self._first) else self._first

    def read(self) -> Reading:
        """Say where we are."""
        passes = self.rows / self._n + (0.0 if self.state is None else self.state.passes)
        gap = math.inf if self.state is None else self.state.gap
        share = min((self.done + self._share(gap)) / self._jobs, 1.0)
        seconds = self.seconds
        parts = [f"{self.done + 1} of {self._jobs}"] if self._jobs > 1 else []
        parts += [f"gap {gap:.1e}"] if math.isfinite(gap) else []
        parts += [f"{passes:.2f} passes", *self._bytes(seconds - self._heard), f"{seconds:.0f} s"]
        parts += [f"about {seconds * (1.0 - share) / share:.0f} s left"] if share > _LEAST_SHARE else []
        return Reading(share, ", ".join(parts))

    def _bytes(self, seconds: float) -> list[str]:
        """How far the pass is that began so many seconds ago."""
        swept = self.rows % self._n
        if not (self._row and swept and seconds > 0.0):
            return []
        read, whole = bytes_text(swept * self._row), bytes_text(self._n * self._row)
        left = (self._n - swept) * seconds / self.rows
        return [f"{read} of {whole}, {left:.0f} s left of this pass"]

    def _share(self, gap: float) -> float:
        if not (0.0 < self._rtol < 1.0 and 0.0 < gap < self._first < math.inf):
            return 0.0
        return min(math.log(self._first / gap) / math.log(1.0 / self._rtol), 0.99)


@contextlib.contextmanager
def watch_reading() -> Iterator[None]:
    """Show how many rows were read of files that are written anew before anything else is done."""
    with Meter(lambda meter: Reading(0.0, f"reading, {meter.swept:,} rows, {meter.seconds:.0f} s")).job():
        yield


@contextlib.contextmanager
def show_texts() -> Iterator[Callable[[float, str], None]]:
    """Give a function that shows the share that is done and a text."""
    with Meter(lambda meter: meter.state or Reading(0.0, "starting")).job() as on_state:
        yield lambda share, text: on_state(Reading(share, text))


@contextlib.contextmanager
def display() -> Iterator[tuple[Show, float]]:
    console = stderr()
    if console.is_terminal:
        with _bar(console) as show:
            yield show, _TERMINAL_INTERVAL
    else:
        yield lambda reading: notify(reading.text), _LINE_INTERVAL


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
        yield lambda reading: bar.update(task, completed=reading.share, description=reading.text)
