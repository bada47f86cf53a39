"""The run over all chunks of targets: threads, time, callbacks, what is kept."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from os import PathLike
from typing import NamedTuple

import numpy as np

from wolfhound.atoms import Fingerprint
from wolfhound.core import Status
from wolfhound.many._given import Excluded, Targets
from wolfhound.many._portion import (
    Goals,
    Portion,
    TargetSolver,
    join_portions,
    make_unsolved,
    mark_skipped,
    solve_portion,
)
from wolfhound.many.result import CODES
from wolfhound.many.stream import Stream, digest, open_stream
from wolfhound.threads import map_ordered

GROUPED = 16384
"""About so many targets over a small dictionary are written at once."""


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
        Since the start.
    """

    done: int
    total: int
    proved: int
    seconds: float


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

    def solve(self, span: Span) -> Portion:
        """Solve a chunk."""
        here = span.start, span.stop
        starts, banned = self.excluded.read(*here)
        rows, good = self.targets.read(*here), self.targets.good[slice(*here)]
        return mark_skipped(solve_portion(self.regime, rows, starts, banned, self.wanted), ~good)

    def read(self, start: int) -> Portion | None:
        """Return a group that an earlier run has written."""
        return None if self.stream is None else self.stream.read(start, self._rows(start))

    def write(self, start: int, portion: Portion) -> None:
        """Keep a group, unless time was over for a part of it."""
        if self.stream is not None and not (portion.codes == CODES[Status.MAX_SECONDS]).any():
            self.stream.write(start, portion, self._rows(start))

    def _rows(self, start: int) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
        return self.targets.read(start, min(start + self.group, len(self.targets.rows)))


def group_size(regime: TargetSolver, m: int) -> int:
    """How many of m targets are written at once: whole chunks."""
    step = regime.chunk(m)
    return step * max(1, GROUPED // step) if step <= 256 else step


def open_out(
    out: str | PathLike[str] | None,
    job: tuple[Targets, Excluded, Goals, TargetSolver],
    seed: object,
    source: Fingerprint,
) -> Stream | None:
    """Open the folder that answers are written to, if any."""
    if out is None:
        return None
    targets, excluded, wanted, regime = job
    m = len(targets.rows)
    params = {
        "total": m,
        "shape": list(targets.shape),
        "group": group_size(regime, m),
        "rtol": wanted.rtol,
        "atol": wanted.atol,
        "max_atoms": wanted.max_atoms,
        "at_most_one": wanted.zero >= 0,
        "exclude": digest(np.concatenate([excluded.starts, excluded.ids])),
        "seed": seed if isinstance(seed, int) else "a generator",
    }
    return open_stream(out, params, source)


def run(job: ManyJob, clock: Clock, callback: Callable[[ManyState], bool | None] | None) -> list[Portion]:
    """Solve the chunks in order; those that there is no time for come back unsolved."""
    began, total = time.perf_counter(), len(job.targets.rows)
    starts = range(0, total, job.group)
    groups = {start: portion for start in starts if (portion := job.read(start)) is not None}
    spans = [span for start in starts if start not in groups for span in job.spans(start)]
    parts: dict[int, list[Portion]] = {start: [] for start in starts if start not in groups}
    done = sum(len(portion.value) for portion in groups.values())
    proved = sum(int((portion.codes == 0).sum()) for portion in groups.values())
    status = Status.INTERRUPTED
    with contextlib.suppress(KeyboardInterrupt), _stop(_solve_all(job, spans), clock) as solved:
        for span, portion in zip(spans, solved, strict=False):
            parts[span.group].append(portion)
            if span == job.spans(span.group)[-1]:
                groups[span.group] = join_portions(parts[span.group])
                job.write(span.group, groups[span.group])
            done, proved = done + len(portion.value), proved + int((portion.codes == 0).sum())
            now = time.perf_counter() - began
            if callback is not None and callback(
                ManyState(done=done, total=total, proved=proved, seconds=now)
            ):
                status = Status.STOPPED
                break
            if clock.over():
                status = Status.MAX_SECONDS
                break
    return [groups[start] if start in groups else _fill(job, start, parts[start], status) for start in starts]


def _solve_all(job: ManyJob, spans: list[Span]) -> Iterator[Portion]:
    """Solve chunks in order, on all threads."""
    if job.regime.alone:
        return (job.solve(span) for span in spans)
    return map_ordered(job.solve, spans)


@contextlib.contextmanager
def _stop(solved: Iterator[Portion], clock: Clock) -> Iterator[Iterator[Portion]]:
    """Tell chunks under way to stop when the block is left, then wait for them."""
    try:
        yield solved
    finally:
        clock.stopped = True
        solved.close()  # type: ignore[attr-defined] # a generator


def _fill(job: ManyJob, start: int, parts: list[Portion], status: Status) -> Portion:
    """A group of which some chunks were not solved."""
    missing = job.spans(start)[len(parts) :]
    return join_portions([*parts, *(make_unsolved(span.stop - span.start, status) for span in missing)])
