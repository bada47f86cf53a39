"""The run over all chunks of targets: threads, time, callbacks, what is kept."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from os import PathLike
from typing import Any, NamedTuple

import numpy as np

from wolfhound.atoms import Fingerprint
from wolfhound.core import Objective, Oracle, Status
from wolfhound.display import Job, Reading, show_progress
from wolfhound.many.batch import (
    Goals,
    TargetBatch,
    TargetSolver,
    join_batches,
    make_unsolved,
    mark_skipped,
    solve_batch,
)
from wolfhound.many.given import Excluded, Targets
from wolfhound.many.objectives import solve_objective
from wolfhound.many.result import CODES
from wolfhound.many.stream import Stream, digest, open_stream
from wolfhound.stopwatch import time_solving
from wolfhound.threads import map_ordered

GROUPED = 16384
"""About so many targets over a small dictionary are written at once."""

_CUT = [CODES[status] for status in (Status.MAX_SECONDS, Status.LOST, Status.INTERRUPTED, Status.STOPPED)]
"""How targets end that are to be solved again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ManyState:
    """How far a run is.

    Attributes
    ----------
    done, total : int
        Targets that are finished, and all.
    proved : int
        Those whose gap is at most the goal.
    seconds : float
        Since the start, without that in which kernels were compiled or loaded.
    before : int
        Targets that an earlier run had finished.
    """

    done: int
    total: int
    proved: int
    seconds: float
    before: int = 0


def read_done(job: Job) -> Reading:
    """Say how far a run is; see `show_progress`."""
    state: ManyState | None = job.state
    if state is None or state.done == state.before:
        return Reading(0.0, f"starting, {job.seconds:.0f} s")
    speed = (state.done - state.before) / max(state.seconds, 1e-9)
    left = (state.total - state.done) / speed
    text = f"{state.done:,} of {state.total:,} targets, {speed:,.0f} per second, about {left:.0f} s left"
    return Reading(state.done / state.total, text)


@dataclass(slots=True)
class Clock:
    """When to stop."""

    deadline: float
    stopped: bool = False

    def over(self) -> bool:
        """Whether there is no time left."""
        return self.stopped or time.perf_counter() > self.deadline


class Span(NamedTuple):
    """Targets start .. stop: a chunk, and the group that it is written with."""

    start: int
    stop: int
    group: int


@dataclass(frozen=True, slots=True)
class ManyJob:
    """All that a chunk needs, and where answers are written."""

    regime: TargetSolver
    targets: Targets
    excluded: Excluded
    wanted: Goals
    stream: Stream | None

    @property
    def group(self) -> int:
        """Targets per group."""
        return group_size(self.regime, len(self.targets.rows))

    def spans(self, start: int) -> list[Span]:
        """Chunks of the group that begins at a target."""
        end = min(start + self.group, len(self.targets.rows))
        step = self.regime.chunk(len(self.targets.rows))
        return [Span(first, min(first + step, end), start) for first in range(start, end, step)]

    def solve(self, span: Span) -> TargetBatch:
        """Solve a chunk."""
        here = span.start, span.stop
        starts, banned = self.excluded.read(*here)
        rows, good = self.targets.read(*here), self.targets.good[slice(*here)]
        return mark_skipped(solve_batch(self.regime, rows, starts, banned, self.wanted), ~good)

    def size(self, start: int) -> int:
        """Targets of the group that begins at a target."""
        return min(self.group, len(self.targets.rows) - start)

    def read(self, start: int) -> TargetBatch | None:
        """Return a group that was written, now or by an earlier run."""
        return None if self.stream is None else self.stream.read(start, self.size(start))

    def write(self, start: int, batch: TargetBatch) -> bool:
        """Write a group, if there is where, unless a part of it was cut short; return whether it was."""
        if self.stream is None or np.isin(batch.codes, _CUT).any():
            return False
        self.stream.write(start, batch)
        return True


def group_size(regime: TargetSolver, m: int) -> int:
    """How many of m targets are written at once: whole chunks."""
    step = regime.chunk(m)
    return step * max(1, GROUPED // step) if regime.quick else step


def open_out(
    out: str | PathLike[str] | None,
    job: tuple[Targets, Excluded, Goals, TargetSolver],
    seed: int | str,
    source: Fingerprint,
    *,
    oracle: str,
) -> Stream | None:
    """Open the folder that answers are written to, if any; `oracle` says what kind answers."""
    if out is None:
        return None
    targets, excluded, wanted, regime = job
    m = len(targets.rows)
    params = {
        "oracle": oracle,
        "total": m,
        "shape": list(targets.shape),
        "group": group_size(regime, m),
        "rtol": wanted.rtol,
        "atol": wanted.atol,
        "max_atoms": wanted.max_atoms,
        "at_most_one": wanted.zero >= 0,
        "exclude": digest(excluded.starts, excluded.ids),
        "seed": seed,
        "targets": digest(targets.rows, targets.good),
    }
    return open_stream(out, params, source)


@dataclass(slots=True)
class _Log:
    """What is finished, groups that are written counted and others kept; who is told of it."""

    job: ManyJob
    clock: Clock
    callback: Callable[[ManyState], bool | None] | None
    began: float = field(default_factory=time.perf_counter)
    before: int = 0
    done: int = 0
    proved: int = 0
    written: set[int] = field(default_factory=set)
    parts: dict[int, list[TargetBatch]] = field(default_factory=dict)

    def read(self, start: int) -> None:
        """Look for a group that an earlier run has written."""
        batch = self.job.read(start)
        if batch is not None:
            self.written.add(start)
            self._count(batch)
            self.before = self.done

    def add(self, span: Span, batch: TargetBatch) -> None:
        """Note a chunk; a group that is whole is written."""
        self._count(batch)
        mine = self.parts.setdefault(span.group, [])
        mine.append(batch)
        if span.stop == span.group + self.job.size(span.group):
            whole = join_batches(mine)
            mine[:] = [whole]
            if self.job.write(span.group, whole):
                self.written.add(span.group)
                del self.parts[span.group]

    def _count(self, batch: TargetBatch) -> None:
        self.done += len(batch.value)
        self.proved += int((batch.codes == CODES[Status.GAP_REACHED]).sum())

    def look(self) -> Status | None:
        """Tell the callback how far the run is; return why to stop, if so."""
        total, seconds = len(self.job.targets.rows), time_solving(self.began)
        state = ManyState(
            done=self.done, total=total, proved=self.proved, seconds=seconds, before=self.before
        )
        if self.callback is not None and self.callback(state):
            return Status.STOPPED
        return Status.MAX_SECONDS if self.clock.over() else None

    def batches(self, starts: range, status: Status) -> Iterator[TargetBatch]:
        """All groups in order; chunks that were not solved end with the status."""
        for start in starts:
            found = self.job.read(start) if start in self.written else None
            if found is not None:
                yield found
                continue
            parts = self.parts.get(start, [])
            missing = self.job.size(start) - sum(len(part.value) for part in parts)
            yield join_batches([*parts, make_unsolved(missing, status)])


def run(
    job: ManyJob,
    clock: Clock,
    callback: Callable[[ManyState], bool | None] | None,
    progress: bool | None = None,
) -> Iterator[TargetBatch]:
    """Solve the chunks in order; give all groups, those that there is no time for unsolved."""
    starts = range(0, len(job.targets.rows), job.group)
    status = Status.INTERRUPTED
    with show_progress(progress, read_done, callback) as hear:
        log = _Log(job, clock, hear)
        for start in starts:
            log.read(start)
        spans = [span for start in starts if start not in log.written for span in job.spans(start)]
        with contextlib.suppress(KeyboardInterrupt), _stop(_solve_all(job, spans), clock) as solved:
            for span, batch in zip(spans, solved, strict=False):
                log.add(span, batch)
                ended = log.look()
                if ended is not None:
                    status = ended
                    break
    return log.batches(starts, status)


def _solve_all(job: ManyJob, spans: list[Span]) -> Iterator[TargetBatch]:
    """Solve chunks in order, on all threads."""
    if job.regime.alone:
        return (job.solve(span) for span in spans)
    return map_ordered(job.solve, spans)


@contextlib.contextmanager
def _stop(solved: Iterator[TargetBatch], clock: Clock) -> Iterator[Iterator[TargetBatch]]:
    """Tell chunks under way to stop when the block is left, then wait for them."""
    try:
        yield solved
    finally:
        clock.stopped = True
        solved.close()  # type: ignore[attr-defined] # a generator


def run_objectives(
    objectives: Sequence[Objective],
    oracle: Oracle,
    excluded: Excluded,
    clock: Clock,
    *,
    options: dict[str, Any],
    callback: Callable[[ManyState], bool | None] | None,
) -> TargetBatch:
    """Minimise objectives in turn; those that there is no time for come back unsolved."""
    began, total = time.perf_counter(), len(objectives)
    parts: list[TargetBatch] = []
    proved, status = 0, Status.INTERRUPTED
    with contextlib.suppress(KeyboardInterrupt):
        for i, objective in enumerate(objectives):
            left = {"max_seconds": max(clock.deadline - time.perf_counter(), 0.0)}
            batch, ended = solve_objective(objective, oracle, excluded.read(i, i + 1)[1], options | left)
            parts.append(batch)
            proved += ended is Status.GAP_REACHED
            state = ManyState(done=i + 1, total=total, proved=proved, seconds=time_solving(began))
            stopped = callback is not None and callback(state)
            if ended is Status.INTERRUPTED or stopped or clock.over():
                status = ended if ended is Status.INTERRUPTED else Status.MAX_SECONDS
                status = Status.STOPPED if stopped else status
                break
    return join_batches([*parts, make_unsolved(total - len(parts), status)])
