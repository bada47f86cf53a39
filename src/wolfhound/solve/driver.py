"""The one driver: it runs the states of any method, and knows stopping, callbacks, deadlines, the trace."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from wolfhound.core import validate
from wolfhound.core.contracts import INNER, Progress, Status
from wolfhound.core.progress import Cut, on_progress, time_solving
from wolfhound.core.rounding import ends_in_rounding
from wolfhound.core.threads import one_blas_thread
from wolfhound.solve.result import TraceRow

P = TypeVar("P", bound=Progress)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """When to give up."""

    steps: float = math.inf
    passes: float = math.inf
    seconds: float = math.inf

    def __post_init__(self) -> None:
        """Check the numbers."""
        for name in ("steps", "passes", "seconds"):
            validate.number(getattr(self, name), f"max_{name}", low=0.0)

    def after(self, steps: int) -> Limits:
        """Limits of a run that goes on: steps count from its beginning."""
        return replace(self, steps=max(self.steps - steps, 0.0))


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome(Generic[P]):
    """What `drive` saw."""

    last: P
    best: P  # the one with least value; of a run that ends STATIONARY, the last
    status: Status
    rows: list[TraceRow]  # one per state
    seconds: float  # since `began`, without those in which kernels were compiled or loaded


def drive(
    states: Iterator[P],
    *,
    goal: float,
    limits: Limits,
    stake: float = 0.0,
    callback: Callable[[P], bool | None] | None = None,
    began: float | None = None,
    spent: float = 0.0,
    keep: Callable[[Outcome[P]], None] | None = None,
) -> Outcome[P]:
    """Run a method until its gap is at most the goal, or a limit is reached.

    Deadlines and Ctrl-C are also obeyed inside a pass; the last state stays. The first state comes before
    any query. A gap that rounding keeps open is a success only if it is small beside `stake`, how much f
    varies, or beside f. A callback that returns True stops the run; `keep` is called between states with
    what was seen so far, INTERRUPTED. `began` is by ``time.perf_counter()``, now if None; `spent` are the
    seconds of the runs that this one goes on from.
    """
    log: RunLog[P] = RunLog(time.perf_counter() if began is None else began, spent, limits, stake)
    status = None
    try:
        with one_blas_thread(), on_progress(log.watch):
            while status is None and (state := _next(states, log)) is not None:
                status = state if isinstance(state, Status) else log.add(state, goal, callback)
                if status is None and keep is not None:
                    keep(log.run(Status.INTERRUPTED))
    except KeyboardInterrupt:
        if not log.rows:
            raise
        status = Status.INTERRUPTED
    return log.run(status)


def _next(states: Iterator[P], log: RunLog[P]) -> P | Status | None:
    """Return the next state, why there is none, or None if the method is done."""
    try:
        return next(states, None)
    except Cut as cut:
        return cut.status
    except OSError:
        if not log.rows:
            raise
        return Status.LOST


class RunLog(Generic[P]):
    """The states so far, and when to stop."""

    def __init__(self, began: float, spent: float, limits: Limits, stake: float) -> None:
        self.rows: list[TraceRow] = []
        self._stake, self._spent = stake, spent
        self._began, self._limits, self._stopped = began, limits, False
        self._last: P | None = None
        self._best: P | None = None

    def watch(self, swept: int) -> None:
        """Obey the callback and the deadline inside a step, once there is a state to return."""
        if self._stopped:
            raise Cut(Status.STOPPED)
        if self.rows and time.perf_counter() - self._began > self._limits.seconds:
            raise Cut(Status.MAX_SECONDS)

    def add(self, state: P, goal: float, callback: Callable[[P], bool | None] | None) -> Status | None:
        """Note a state; return why to stop, if so."""
        if math.isnan(state.value):
            raise FloatingPointError(f"f is nan at step {state.t}: is it finite on the whole hull?")
        seconds = time.perf_counter() - self._began
        inner = state.kind == INNER
        if not inner:
            self._last = state
            if self._best is None or state.value <= self._best.value:
                self._best = state
        numbers = state.t, state.value, state.lower, state.passes, state.scored
        self.rows.append(TraceRow(*numbers, self._seconds(), state.ratio, state.kind))
        self._stopped = self._stopped or (callback is not None and bool(callback(state)))
        if inner:
            return None  # nothing is proved here: the method ends the step, at once if it is to stop
        reasons = (
            (Status.GAP_REACHED, state.value - state.lower <= goal),
            (Status.STOPPED, self._stopped),
            (state.end, state.end is not None),
            (Status.MAX_STEPS, state.t - self.rows[0].t >= self._limits.steps),
            (Status.MAX_PASSES, state.passes >= self._limits.passes),
            (Status.MAX_SECONDS, seconds > self._limits.seconds),
        )
        return next((status for status, holds in reasons if holds), None)

    def run(self, status: Status | None) -> Outcome[P]:
        """Close the log; without a status the method had nothing left to do."""
        if self._last is None or self._best is None:
            raise RuntimeError("the method yielded no state")
        if status is None:
            # Rounding at the last point says nothing of a better one before.
            rounding = ends_in_rounding(self._best, self._last, self._stake)
            status = Status.ROUNDING if rounding else Status.STALLED
        # A point is known to be stationary where that was proved, not where f is least.
        best = self._last if status is Status.STATIONARY else self._best
        return Outcome(last=self._last, best=best, status=status, rows=self.rows, seconds=self._seconds())

    def _seconds(self) -> float:
        return self._spent + time_solving(self._began)
