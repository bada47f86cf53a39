"""Shards: parts of the atoms that live elsewhere and are asked through futures.

Knows tasks, who runs them, and how to wait for them; must not know where shards live.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import itertools
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeAlias, final

import numpy as np

from wolfhound.atoms import Fingerprint, MappedAtoms, fingerprint
from wolfhound.core import Hits, Ids, Matrix, Oracle, Status, Vector
from wolfhound.progress import Cut, on_progress, report_rows
from wolfhound.threads import Tally, set_threads

BEAT = 0.05
"""Seconds between two reports of who waits: so late a deadline or Ctrl-C is obeyed."""

_PAUSE = 0.1
"""Seconds after which a shard that was down is asked again."""

_REMEMBERED = 1024
"""Tickets that were stopped and are not forgotten; more are never under way."""

Ticket: TypeAlias = tuple[int, int]
"""Names one round trip: the process that asks, and a count."""

Swept: TypeAlias = Callable[[int, Any], int]
"""How many atoms the answer of a shard stands for."""

_tickets = itertools.count()


class ShardDown(OSError):
    """A shard cannot answer now, and may be asked again: it is being started."""


# ---------------------------------------------------------------- what a shard is asked


class ShardPlace(NamedTuple):
    """Where a shard stands among all.

    Attributes
    ----------
    first : int
        Id of its first atom.
    expected : Fingerprint, optional
        Of its atoms when they were first read; others are refused.
    """

    first: int = 0
    expected: Fingerprint | None = None


class ShardTask(Protocol):
    """Something to do where a shard lives; pickled on the way there, as is its answer."""

    def run(self, oracle: Oracle, first: int) -> Any:
        """Do it; `first` is the id that the shard's first atom has among all."""


class AtomFacts(NamedTuple):
    """What a shard says of its atoms."""

    shape: tuple[int, int]
    dtype: str
    fingerprint: Fingerprint


class ShardFacts(NamedTuple):
    """What a shard says of itself.

    Attributes
    ----------
    atoms : AtomFacts
    mapped : (function, AtomFacts), optional
        If the atoms are others, mapped by a function of a module: that, and those.
    pid : int
    """

    atoms: AtomFacts
    mapped: tuple[Callable[..., Any], AtomFacts] | None
    pid: int


@final
class Describe:
    """Ask for the `ShardFacts`: the host has them."""


def _describe(oracle: Oracle, known: Fingerprint) -> ShardFacts:
    """Return the facts of a shard whose atoms have this fingerprint, which is not made twice."""
    atoms, mapped = oracle.atoms, None
    if isinstance(atoms, MappedAtoms) and "<" not in getattr(atoms.fn, "__qualname__", "<"):
        inner = atoms.atoms
        mapped = atoms.fn, AtomFacts(inner.shape, inner.dtype.name, fingerprint(inner))
    return ShardFacts(AtomFacts(atoms.shape, atoms.dtype.name, known), mapped, os.getpid())


@final
@dataclass(frozen=True, slots=True)
class ShardSearch:
    """Ask for atoms, as `Oracle.query` does; the same for all shards.

    Attributes
    ----------
    exclude : (m, e) int64
        Ids among all atoms, padded with -1.
    """

    queries: Vector
    k: int
    thresholds: Vector | None
    exclude: Ids

    def run(self, oracle: Oracle, first: int) -> Hits:
        """Answer with ids counted from the shard's own first atom."""
        return oracle.query(
            self.queries,
            k=self.k,
            thresholds=self.thresholds,
            exclude=self._mine(first, oracle.atoms.shape[0]),
        )

    def _mine(self, first: int, n: int) -> Ids | None:
        """The excluded atoms of this shard, in its own ids, as narrow as they fit."""
        inside = (self.exclude >= first) & (self.exclude < first + n)
        width = int(inside.sum(axis=1).max(initial=0))
        if width == 0:
            return None
        front = np.argsort(~inside, axis=1, kind="stable")[:, :width]
        return np.where(
            np.take_along_axis(inside, front, 1), np.take_along_axis(self.exclude, front, 1) - first, -1
        )


@final
@dataclass(frozen=True, slots=True)
class Take:
    """Ask for rows, by ids of the shard's own; `inner`: for those that its atoms are mapped from."""

    ids: Ids
    inner: bool = False

    def run(self, oracle: Oracle, first: int) -> Matrix:
        """Gather the rows."""
        atoms = oracle.atoms
        return (
            atoms.atoms.take(self.ids)
            if self.inner and isinstance(atoms, MappedAtoms)
            else atoms.take(self.ids)
        )


# ---------------------------------------------------------------- who runs it


@final
class ShardHost:
    """One shard where it lives: opens its oracle when first asked, runs tasks, leaves those that are stopped.

    Parameters
    ----------
    make
        Makes the oracle: reads the atoms, builds what is to be built.
    threads
        For passes in this process; None: as it is.
    """

    def __init__(self, make: Callable[[], Oracle], threads: int | None = None) -> None:
        self._make = make
        self._opening = threading.Lock()
        self._opened: tuple[Oracle, Fingerprint] | None = None
        self._stopped: deque[Ticket] = deque(maxlen=_REMEMBERED)
        if threads is not None:
            set_threads(threads)

    def run(self, ticket: Ticket, task: ShardTask | Describe, place: ShardPlace) -> Any:
        """Do a task; None if it was stopped.

        Raises
        ------
        OSError
            If the atoms are not those that were expected.
        """

        def leave(rows: int) -> None:
            if ticket in self._stopped:
                raise Cut(Status.STOPPED)

        try:
            with on_progress(leave):
                leave(0)
                oracle, known = self._open(place.expected)
                if isinstance(task, Describe):
                    return _describe(oracle, known)
                return task.run(oracle, place.first)
        except Cut:
            return None

    def stop(self, ticket: Ticket) -> None:
        """Leave the task of this ticket, at its next report; from another thread."""
        self._stopped.append(ticket)

    def pid(self) -> int:
        """Say which process this is, at any time."""
        return os.getpid()

    def _open(self, expected: Fingerprint | None) -> tuple[Oracle, Fingerprint]:
        with self._opening:
            if self._opened is None:
                oracle = self._make()
                self._opened = oracle, fingerprint(oracle.atoms)
            oracle, known = self._opened
            if expected is not None and known != expected:
                self._opened = None  # next time what is there then is read
                raise OSError(f"{oracle.atoms!r} has changed since the shard was first read")
            return oracle, known


class Shard(Protocol):
    """Where a shard is asked from: all that `Sharded` knows of it."""

    def begin(self, ticket: Ticket, task: Any, place: ShardPlace) -> Future[Any]:
        """Start a task; the future fails with `ShardDown` if it is to be asked again."""

    def stop(self, ticket: Ticket) -> None:
        """Let the work on this ticket end soon, and do not wait for it."""

    def close(self) -> None:
        """End the shard."""


@final
class LocalShard:
    """A shard in this process, run by an executor of threads."""

    def __init__(self, oracle: Oracle, executor: Executor) -> None:
        self._host, self._executor = ShardHost(lambda: oracle), executor

    def begin(self, ticket: Ticket, task: Any, place: ShardPlace) -> Future[Any]:
        """Start a task on a thread of the executor."""
        return self._executor.submit(self._host.run, ticket, task, place)

    def stop(self, ticket: Ticket) -> None:
        """Leave a task at its next report."""
        self._host.stop(ticket)

    def close(self) -> None:
        """Nothing to end: the executor is the caller's."""


# ---------------------------------------------------------------- who waits for it


class RoundTrip:
    """Tasks for some shards, begun at once and waited for with a report.

    A shard that is down is asked again until it answers or fails for good. Whatever else
    ends the wait, a deadline, Ctrl-C or an error, stops the work that is under way.

    Parameters
    ----------
    shards
        All shards.
    places
        Of each.
    tasks
        What to ask, by number of the shard.
    """

    def __init__(
        self, shards: Sequence[Shard], places: Sequence[ShardPlace], tasks: Mapping[int, Any]
    ) -> None:
        self._shards, self._places, self._tasks = shards, places, tasks
        self._ticket = (os.getpid(), next(_tickets))
        self._pending: dict[Future[Any], int] = {}
        self._later: dict[int, float] = {}
        self.answers: dict[int, Any] = {}
        self.down: set[int] = set()

    def run(self, swept: Swept) -> dict[int, Any]:
        """Return the answers by shard; `swept` says how many atoms one stands for."""
        try:
            for i in self._tasks:
                self._begin(i)
            while self._pending or self._later:
                for i in self._hear():
                    report_rows(swept(i, self.answers[i]))
                report_rows(0)
        except BaseException:
            for future, i in self._pending.items():
                self._shards[i].stop(self._ticket)
                future.cancel()
            raise
        return self.answers

    def _begin(self, i: int) -> None:
        self._pending[self._shards[i].begin(self._ticket, self._tasks[i], self._places[i])] = i

    def _hear(self) -> list[int]:
        """Wait for a beat; return the shards that have answered."""
        if self._pending:
            done, _ = wait(self._pending, BEAT, FIRST_COMPLETED)
        else:
            time.sleep(BEAT)
            done = set()
        heard = [self._pending.pop(future) for future in done if self._note(future)]
        now = time.monotonic()
        for i in [i for i, due in self._later.items() if due <= now]:
            del self._later[i]
            self._begin(i)
        return heard

    def _note(self, future: Future[Any]) -> bool:
        """Keep an answer; whether there is one, not a shard to be asked again."""
        i, error = self._pending[future], future.exception()
        if isinstance(error, ShardDown):
            del self._pending[future]
            self._later[i] = time.monotonic() + _PAUSE
            self.down.add(i)
            return False
        if type(error) is ValueError:
            raise ValueError(f"shard {i}: {error}") from error
        self.answers[i] = future.result()
        return True


@final
class Crew:
    """All shards, and how often they were asked.

    Parameters
    ----------
    shards
        In the order of their atoms.

    Attributes
    ----------
    facts : tuple of ShardFacts
        What the shards said of themselves when they were first read.
    sizes, firsts : (s,), (s + 1,) int64
        Atoms of each shard, and the id of its first; the last entry is n.
    trips : dict of Tally
        Round trips for queries and for rows, and how often a shard was down in one.
    """

    def __init__(self, shards: Sequence[Shard]) -> None:
        self.shards = tuple(shards)
        self._open, self._places = True, [ShardPlace()] * len(self.shards)
        self._waits = Tally()
        self.facts = self.describe()
        self._waits = Tally()  # the first start is none
        self.trips = {"query": Tally(), "take": Tally(), "waits": self._waits}
        self.sizes = [facts.atoms.shape[0] for facts in self.facts]
        self.firsts: Ids = np.cumsum([0, *self.sizes], dtype=np.int64)
        starts = self.firsts.tolist()
        self._places = [
            ShardPlace(s, facts.atoms.fingerprint) for s, facts in zip(starts, self.facts, strict=False)
        ]

    def describe(self) -> tuple[ShardFacts, ...]:
        """Ask all shards what they are now."""
        found = self._ask(dict.fromkeys(range(len(self.shards)), Describe()))
        return tuple(found[i] for i in range(len(self.shards)))

    def ask(self, kind: str, tasks: Mapping[int, Any], swept: Swept | None = None) -> dict[int, Any]:
        """Make one round trip to some shards, counted as `kind`; see `RoundTrip.run`."""
        self.trips[kind].add()
        return self._ask(tasks, swept)

    def _ask(self, tasks: Mapping[int, Any], swept: Swept | None = None) -> dict[int, Any]:
        if not self._open:
            raise OSError("the shards are closed")
        trip = RoundTrip(self.shards, self._places, tasks)
        try:
            return trip.run(swept or (lambda i, answer: 0))
        finally:
            self._waits.add(len(trip.down))

    def close(self) -> bool:
        """End the shards; whether they were open."""
        was, self._open = self._open, False
        for each in self.shards if was else ():
            each.close()
        return was
