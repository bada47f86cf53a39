"""The run over all chunks of targets: threads, time, callbacks, and the folder that it may be written to.

`out` holds a file that says what is run, and files ``targets-0000000000.safetensors`` named for the first
target of each group of chunks, each whole or not there. What is there is complete, so the folder can be read
at any time, and a run that was cut short goes on with the groups that are missing. Answers are joined in
files without a name beside them, never in memory.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import contextlib
import errno
import hashlib
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from wolfhound.core.contracts import AtomsLike, Objective, Oracle, Status
from wolfhound.core.progress import Job, Reading, show_progress, time_solving
from wolfhound.core.threads import map_ordered
from wolfhound.core.validate import count, path, require
from wolfhound.data import store
from wolfhound.data.atoms import Fingerprint, as_atoms
from wolfhound.data.files import FileRows
from wolfhound.many.batch import (
    Goals,
    TargetBatch,
    TargetSolver,
    join_batches,
    make_unsolved,
    mark_skipped,
    solve_batch,
)
from wolfhound.many.given import Excluded, Targets, solve_objective
from wolfhound.many.result import CODES, COLUMNS, RUN, ManyResult, check_columns
from wolfhound.many.set_solver import SetSolver

# ---------------------------------------------------------------- the folder


GROUP = "many targets"

_DIGESTED = 1 << 24


class Stream(NamedTuple):
    """A folder that grows."""

    folder: Path
    fingerprint: Fingerprint
    over: str  # what weights may be

    def place(self, start: int) -> Path:
        """Where the group that begins at a target is kept."""
        return self.folder / f"targets-{start:010d}{store.ENDING}"

    def write(self, start: int, batch: TargetBatch) -> None:
        """Keep the answers of a group; on an OSError, as of a full disk, those written before stay."""
        if not (self.folder / store.RUN_FILE).exists():
            text = "`out` must stay where it is during the run. It is gone"
            raise FileNotFoundError(errno.ENOENT, text, str(self.folder))
        params = {"start": start, "count": len(batch.value)}
        try:
            store.save(self.place(start), GROUP, batch._asdict(), params, self.fingerprint)
        except OSError as error:
            text = f"`out` must be writable, with room: {error.strerror}. What is finished stays"
            raise OSError(error.errno, f"{text}, and the same call goes on", str(self.folder)) from None

    def read(self, start: int, size: int) -> TargetBatch | None:
        """Answers of a group of so many targets; None if it is not there or was cut off."""
        file = self.place(start)
        if not file.exists():
            return None
        stored = store.load(file, GROUP)
        if stored.fingerprint != self.fingerprint:
            raise store.StoreError(f"{file} must be of the run that it lies in. Got one of other atoms.")
        with stored.reading():
            m = count(stored.params["count"], "count")
            require(m == size, "count", f"{size} targets", m)
            sizes: dict[str, int | None] = {"n": stored.shape[0], "m": m, "m1": m + 1}
            found: dict[str, Any] = {name: each.read(stored, name, sizes) for name, each in COLUMNS.items()}
            require(found["price"] is not None, "price", "there", "none")
            require(found["mass"] is not None, "mass", "there", "none")
            check_columns(batch := TargetBatch(**found), self.over)
            return batch


def digest(*arrays: NDArray[Any] | FileRows) -> str:
    """What tells arrays apart, read block by block."""
    found = hashlib.blake2b(digest_size=16)
    for array in arrays:
        found.update(f"{array.dtype} {array.shape}".encode())
        step = max(1, _DIGESTED // max(array[:1].nbytes, 1))
        for start in range(0, len(array), step):
            found.update(np.ascontiguousarray(array[start : start + step]).tobytes())
    return found.hexdigest()


def check_out(out: str | PathLike[str] | None) -> None:
    """Raise StoreError if nothing of a run can be written there: before anything is read."""
    if out is None:
        return
    root = path(out, "out")
    require(root.is_dir() or not root.exists(), "out", "a folder", f"a file, {root}")
    # What a first write left that was killed does not count.
    if root.is_dir() and any(not each.name.startswith(f".{store.RUN_FILE}.") for each in root.iterdir()):
        rule = "`out` must be new or empty, or hold a run of many targets."
        try:
            held, _ = store.describe(root)
        except store.StoreError as error:
            raise store.StoreError(f"{rule} Got {root}: {error}") from None
        if held != RUN:
            raise store.StoreError(f"{rule} Got a {held} in {root}.")


def open_stream(folder: str | PathLike[str], params: Mapping[str, Any], source: Fingerprint) -> Stream:
    """Begin a run in a new or empty folder, or go on with one of the same settings and atoms.

    A folder that holds anything else is a StoreError that names what differs.
    """
    check_out(folder)
    root = path(folder, "out")
    if not (root / store.RUN_FILE).exists():
        store.save(root / store.RUN_FILE, RUN, {}, params, source)
        return Stream(root, source, params["over"])
    stored = store.load(root, RUN)
    rule = "`out` must be new, or hold a run with the same targets, settings and atoms."
    for name, value in params.items():
        held = stored.params.get(name)
        if held != value:
            got = f"other {name}" if name in ("targets", "exclude") else f"{name} = {held}"
            raise store.StoreError(f"{rule} Got {got} in {root}{'' if 'other' in got else f', not {value}'}.")
    if stored.fingerprint != source:
        raise store.StoreError(f"{rule} Got other atoms in {root}.")
    return Stream(root, source, params["over"])


# ---------------------------------------------------------------- reading all groups


def join_on_disk(folder: Path, batches: Iterable[TargetBatch]) -> TargetBatch:
    """Put answers for consecutive targets together, in files that vanish with the answer."""
    names = TargetBatch._fields
    with contextlib.ExitStack() as stack:
        files = {name: stack.enter_context(_open_nameless(folder)) for name in names}
        kinds = {name: column.dtype for name, column in make_unsolved(0, Status.SKIPPED)._asdict().items()}
        end = np.zeros(1, np.int64)
        files["indptr"].write(end.tobytes())
        for batch in batches:
            for name, column in batch._asdict().items():
                part = end + column[1:] if name == "indptr" else column
                files[name].write(np.ascontiguousarray(part, kinds[name]).tobytes())
            end = end + batch.indptr[-1]
        return TargetBatch(**{name: _map(files[name], kinds[name]) for name in names})


def _open_nameless(folder: Path) -> IO[bytes]:
    try:
        return tempfile.TemporaryFile(dir=folder)
    except OSError:  # a folder that may only be read
        return tempfile.TemporaryFile()


def _map(file: IO[bytes], kind: np.dtype[Any]) -> NDArray[Any]:
    file.flush()
    if not file.tell():
        return np.empty(0, kind)
    return np.asarray(np.memmap(file, kind, "r"))


def read_stream(folder: str | PathLike[str], atoms: AtomsLike | None = None) -> ManyResult:
    """Read what a run has written so far; targets that are not there yet are INTERRUPTED.

    Atoms, if given, must be those of the run.
    """
    stored = store.load(folder, RUN)
    if atoms is not None:
        store.check_fingerprint(stored, atoms)
    with stored.reading():
        total = count(stored.params["total"], "total")
        step = count(stored.params["group"], "group", low=1)
        shape = tuple(count(size, "shape") for size in stored.params["shape"])
        require(int(np.prod(shape, dtype=object)) == total, "shape", f"of {total} targets", shape)
        over = str(stored.params["over"])
        left_out = {"price": stored.params["max_atoms"] is None, "mass": not over.startswith("Cone")}
    stream = Stream(Path(folder), stored.fingerprint, over)

    def read() -> Iterator[TargetBatch]:
        for start in range(0, total, step):
            size = min(step, total - start)
            batch = stream.read(start, size)
            yield make_unsolved(size, Status.INTERRUPTED) if batch is None else batch

    columns = join_on_disk(stream.folder, read())._asdict()
    columns |= {name: None for name, out in left_out.items() if out}
    known = None if atoms is None else as_atoms(atoms)
    return ManyResult(
        **columns, seconds=0.0, shape=shape, over=over, fingerprint=stored.fingerprint, atoms=known
    )


# ---------------------------------------------------------------- the run


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
    """When all began, and when to stop."""

    began: float
    deadline: float
    stopped: bool = False

    def over(self) -> bool:
        """Whether there is no time left."""
        return self.stopped or time.perf_counter() > self.deadline

    def left(self) -> float:
        """Seconds that are left."""
        return 0.0 if self.stopped else max(self.deadline - time.perf_counter(), 0.0)


class Span(NamedTuple):
    """Targets start .. stop: a chunk, and the group that it is written with."""

    start: int
    stop: int
    group: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ManyJob:
    """All that is to be solved, chunk by chunk, and where answers are written."""

    solve: Callable[[Span], TargetBatch]
    total: int
    chunk: int = 1  # targets that are solved at once
    group: int = 1  # targets that are written at once
    alone: bool = True  # whether chunks are solved one after the other
    stream: Stream | None = None

    def spans(self, start: int) -> list[Span]:
        """Chunks of the group that begins at a target."""
        end = start + self.size(start)
        return [Span(first, min(first + self.chunk, end), start) for first in range(start, end, self.chunk)]

    def size(self, start: int) -> int:
        """Targets of the group that begins at a target."""
        return min(self.group, self.total - start)

    def read(self, start: int) -> TargetBatch | None:
        """Return a group that was written, now or by an earlier run."""
        return None if self.stream is None else self.stream.read(start, self.size(start))

    def write(self, start: int, batch: TargetBatch) -> bool:
        """Write a group, if there is where, unless a part of it was cut short; return whether it was."""
        if self.stream is None or np.isin(batch.codes, _CUT).any():
            return False
        self.stream.write(start, batch)
        return True


def plan_targets(
    regime: TargetSolver | SetSolver,
    targets: Targets,
    excluded: Excluded,
    wanted: Goals,
    stream: Stream | None,
) -> ManyJob:
    """Return the job of targets that a solver takes chunk by chunk."""

    def solve(span: Span) -> TargetBatch:
        here = span.start, span.stop
        rows, good, banned = targets.read(*here), targets.good[slice(*here)], excluded.read(*here)
        if isinstance(regime, SetSolver):
            return mark_skipped(regime.answer(rows, banned), ~good)
        return mark_skipped(solve_batch(regime, rows, banned, wanted), ~good)

    m = len(targets.rows)
    return ManyJob(
        solve=solve,
        total=m,
        chunk=regime.chunk(m),
        group=group_size(regime, m),
        alone=regime.alone,
        stream=stream,
    )


def plan_objectives(
    objectives: Sequence[Objective], oracle: Oracle, excluded: Excluded, clock: Clock, options: dict[str, Any]
) -> ManyJob:
    """Return the job of objectives that are minimised one after the other."""

    def solve(span: Span) -> TargetBatch:
        left = {"max_seconds": clock.left()}
        banned = excluded.read(span.start, span.stop).atoms
        return solve_objective(objectives[span.start], oracle, banned, options | left)

    return ManyJob(solve=solve, total=len(objectives))


def group_size(regime: TargetSolver | SetSolver, m: int) -> int:
    """How many of m targets are written at once: whole chunks."""
    step = regime.chunk(m)
    return step * max(1, GROUPED // step) if regime.quick else step


def open_out(
    out: str | PathLike[str] | None,
    job: tuple[Targets, Excluded, Goals, TargetSolver | SetSolver],
    seed: int | str,
    source: Fingerprint,
    settings: dict[str, str],
) -> Stream | None:
    """Open the folder that answers are written to, if any; `settings` say what answers, and over what set."""
    if out is None:
        return None
    targets, excluded, wanted, regime = job
    m = len(targets.rows)
    params = {
        **settings,
        "total": m,
        "shape": list(targets.shape),
        "group": group_size(regime, m),
        "rtol": wanted.rtol,
        "atol": wanted.atol,
        "max_atoms": wanted.max_atoms,
        "exclude": digest(excluded.starts, excluded.ids),
        "seed": seed,
        "targets": digest(targets.rows, targets.good),
    }
    return open_stream(out, params, source)


@dataclass(slots=True)
class _RunLog:
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
        state = ManyState(
            done=self.done,
            total=self.job.total,
            proved=self.proved,
            seconds=time_solving(self.began),
            before=self.before,
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
    starts = range(0, job.total, job.group)
    status = Status.INTERRUPTED
    with show_progress(progress, read_done, callback) as hear:
        log = _RunLog(job, clock, hear)
        for start in starts:
            log.read(start)
        spans = [span for start in starts if start not in log.written for span in job.spans(start)]
        with contextlib.suppress(KeyboardInterrupt), _solve_all(job, spans, clock) as solved:
            for span, batch in zip(spans, solved, strict=False):
                log.add(span, batch)
                ended = log.look()
                if ended is None and (batch.codes == CODES[Status.INTERRUPTED]).any():
                    break
                if ended is not None:
                    status = ended
                    break
    return log.batches(starts, status)


@contextlib.contextmanager
def _solve_all(job: ManyJob, spans: list[Span], clock: Clock) -> Iterator[Iterator[TargetBatch]]:
    """Solve chunks in order, on all threads; on leaving, tell those under way to stop, and wait for them."""
    one_by_one = (job.solve(span) for span in spans)
    solved = one_by_one if job.alone else map_ordered(job.solve, spans)
    try:
        yield solved
    finally:
        clock.stopped = True
        solved.close()  # type: ignore[attr-defined] # a generator
