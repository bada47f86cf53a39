"""`Sharded`: one oracle over shards, parts of the atoms that live elsewhere, a round trip per pass.

Knows tasks, who runs them, and how to wait for them, by futures; where shards live, another module knows.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import itertools
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeAlias, final

import numpy as np

from wolfhound.core import validate
from wolfhound.core.contracts import Hits, Ids, Matrix, Oracle, Status, Vector
from wolfhound.core.progress import Cut, on_progress, report_rows
from wolfhound.core.threads import Tally, set_threads
from wolfhound.core.validate import count, require
from wolfhound.data.atoms import Fingerprint, MappedAtoms, fingerprint
from wolfhound.data.files import lock, summary, valid_ids
from wolfhound.oracles.asking import CheckedOracle, Question, merge

BEAT = 0.05  # seconds between two reports of who waits: so late a deadline or Ctrl-C is obeyed
_PAUSE = 0.1  # seconds after which a shard that was down is asked again
_REMEMBERED = 1024  # tickets that were stopped and are not forgotten; more are never under way

Ticket: TypeAlias = tuple[int, int]  # names one round trip: the process that asks, and a count

_tickets = itertools.count()


class ShardDown(OSError):
    """A shard cannot answer now, and may be asked again: it is being started."""


# ---------------------------------------------------------------- what a shard is asked


class ShardPlace(NamedTuple):
    """Where a shard stands among all."""

    first: int = 0  # id of its first atom
    expected: Fingerprint | None = None  # of its atoms when they were first read; others are refused


class AtomFacts(NamedTuple):
    """What a shard says of its atoms."""

    shape: tuple[int, int]
    dtype: str
    fingerprint: Fingerprint


class ShardFacts(NamedTuple):
    """What a shard says of itself."""

    atoms: AtomFacts
    mapped: tuple[Callable[..., Any], AtomFacts] | None  # a function of a module, and what it maps
    pid: int


def describe_shard(oracle: Oracle, known: Fingerprint) -> ShardFacts:
    """Return the facts of a shard whose atoms have this fingerprint, which is not made twice."""
    atoms, mapped = oracle.atoms, None
    if isinstance(atoms, MappedAtoms) and "<" not in getattr(atoms.fn, "__qualname__", "<"):
        inner = atoms.atoms
        mapped = atoms.fn, AtomFacts(inner.shape, inner.dtype.name, fingerprint(inner))
    return ShardFacts(AtomFacts(atoms.shape, atoms.dtype.name, known), mapped, os.getpid())


@final
@dataclass(frozen=True, slots=True)
class ShardSearch:
    """Ask for atoms, as `Oracle.query` does; the same for all shards."""

    queries: Vector
    k: int
    thresholds: Vector | None
    exclude: Ids  # (m, e) ids among all atoms, padded with -1

    def run(self, oracle: Oracle, first: int) -> Hits:
        """Answer with ids counted from the shard's own first atom."""
        inside = (self.exclude >= first) & (self.exclude < first + oracle.atoms.shape[0])
        mine = np.where(inside, self.exclude - first, -1) if inside.any() else None
        return oracle.query(self.queries, k=self.k, thresholds=self.thresholds, exclude=mine)


@final
@dataclass(frozen=True, slots=True)
class Take:
    """Ask for rows, by ids of the shard's own; `inner`: for those that its atoms are mapped from."""

    ids: Ids
    inner: bool = False

    def run(self, oracle: Oracle, first: int) -> Matrix:
        """Gather the rows."""
        atoms = oracle.atoms
        source = atoms.atoms if self.inner and isinstance(atoms, MappedAtoms) else atoms
        return source.take(self.ids)


# ---------------------------------------------------------------- who runs it


@final
class ShardHost:
    """One shard where it lives: opens its oracle when first asked, runs tasks, leaves those that are stopped.

    `make` reads the atoms, and builds what is to be built; `threads` are for passes in this process.
    """

    def __init__(self, make: Callable[[], Oracle], threads: int | None = None) -> None:
        self._make = make
        self._opening = threading.Lock()
        self._opened: tuple[Oracle, Fingerprint] | None = None
        self._stopped: deque[Ticket] = deque(maxlen=_REMEMBERED)
        if threads is not None:
            set_threads(threads)

    def run(self, ticket: Ticket, task: ShardSearch | Take | None, place: ShardPlace) -> Any:
        """Do a task, or say what the shard is where there is none; None if it was stopped.

        OSError if the atoms are not those that were expected.
        """

        def leave(rows: int) -> None:
            if ticket in self._stopped:
                raise Cut(Status.STOPPED)

        try:
            with on_progress(leave):
                leave(0)
                oracle, known = self._open(place.expected)
                return describe_shard(oracle, known) if task is None else task.run(oracle, place.first)
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


@final
class ShardSet:
    """All shards, and how often they were asked."""

    def __init__(self, shards: Sequence[Shard]) -> None:
        self.shards = tuple(shards)
        self._open, self._places = True, [ShardPlace()] * len(self.shards)
        self.trips = {name: Tally() for name in ("query", "take", "waits")}
        self.facts = self.describe()  # what the shards said of themselves when they were first read
        self.trips["waits"] = Tally()  # the first start is none
        self.sizes = [facts.atoms.shape[0] for facts in self.facts]
        self.firsts: Ids = np.cumsum([0, *self.sizes], dtype=np.int64)
        starts = self.firsts.tolist()
        self._places = [
            ShardPlace(s, facts.atoms.fingerprint) for s, facts in zip(starts, self.facts, strict=False)
        ]

    def describe(self) -> tuple[ShardFacts, ...]:
        """Ask all shards what they are now."""
        found = self.ask(dict.fromkeys(range(len(self.shards))))
        return tuple(found[i] for i in range(len(self.shards)))

    def ask(
        self, tasks: Mapping[int, Any], swept: Callable[[int, Any], int] = lambda i, answer: 0
    ) -> dict[int, Any]:
        """Begin tasks at once, and wait for the answers with a report; both by number of the shard.

        `swept` says how many atoms the answer of a shard stands for.
        A shard that is down is asked again until it answers or fails for good. Whatever else
        ends the wait, a deadline, Ctrl-C or an error, stops the work that is under way.
        """
        if not self._open:
            raise OSError("the shards are closed")
        ticket, answers, down = (os.getpid(), next(_tickets)), dict[int, Any](), set[int]()
        pending, due = dict[Future[Any], int](), dict.fromkeys(tasks, 0.0)
        try:
            while pending or due:
                now = time.monotonic()
                for i in [i for i, when in due.items() if when <= now]:
                    del due[i]
                    pending[self.shards[i].begin(ticket, tasks[i], self._places[i])] = i
                if not pending:
                    time.sleep(BEAT)
                for future in wait(pending, BEAT, FIRST_COMPLETED).done:
                    i, error = pending[future], future.exception()
                    if isinstance(error, ShardDown):
                        down.add(i)
                        due[i] = time.monotonic() + _PAUSE
                    elif type(error) is ValueError:
                        raise ValueError(f"shard {i}: {error}") from error
                    else:
                        answers[i] = future.result()
                        report_rows(swept(i, answers[i]))
                    del pending[future]
                report_rows(0)
        except BaseException:
            for future, i in pending.items():
                self.shards[i].stop(ticket)
                future.cancel()
            raise
        finally:
            self.trips["waits"].add(len(down))
        return answers

    def close(self) -> bool:
        """End the shards; whether they were open."""
        was, self._open = self._open, False
        for each in self.shards if was else ():
            each.close()
        return was


@final
class ShardedAtoms:
    """The atoms of all shards, one after the other; ids run through.

    Rows are fetched when they are asked for: `take` is one round trip to the shards
    that have some, `blocks` streams them. A block never spans two shards.
    """

    __slots__ = ("_facts", "_inner", "_set", "fn")

    def __init__(self, shards: ShardSet, facts: Sequence[AtomFacts] | None = None) -> None:
        self._set, self._inner = shards, facts is not None
        self._facts = tuple(each.atoms for each in shards.facts) if facts is None else tuple(facts)
        mapped = {each.mapped and each.mapped[0] for each in shards.facts}
        self.fn = mapped.pop() if len(mapped) == 1 and not self._inner else None
        """The function by which all shards map other atoms, if they do."""

    @property
    def atoms(self) -> ShardedAtoms:
        """As of `MappedAtoms`: the atoms before `fn` has mapped them; these, if none has."""
        facts = [each.mapped[1] for each in self._set.facts if each.mapped is not None]
        return self if self.fn is None else ShardedAtoms(self._set, facts)

    @property
    def shape(self) -> tuple[int, int]:
        """(n, d)."""
        return int(self._set.firsts[-1]), self._facts[0].shape[1]

    @property
    def dtype(self) -> np.dtype[Any]:
        """float32 or float64: the widest of the shards."""
        return np.result_type(*(facts.dtype for facts in self._facts))

    @property
    def fingerprint(self) -> Fingerprint:
        """As of the parts joined; the shards said theirs when they were first read."""
        return tuple(part for facts in self._facts for part in facts.fingerprint)

    def take(self, ids: Ids) -> Matrix:
        """Return the rows of these ids, a fresh C-ordered array; one round trip."""
        ids, firsts = valid_ids(ids, self.shape[0]), self._set.firsts
        out = np.empty((len(ids), self.shape[1]), self.dtype)
        owner = np.searchsorted(firsts, ids, side="right") - 1
        mine = {int(i): np.flatnonzero(owner == i) for i in np.unique(owner)}
        if mine:
            self._set.trips["take"].add()
            found = self._set.ask({i: Take(ids[at] - firsts[i], self._inner) for i, at in mine.items()})
            for i, at in mine.items():
                out[at] = found[i]
        return out

    def blocks(self, rows: int) -> Iterator[tuple[int, Matrix]]:
        """Yield (first id, read-only block) over all rows once, in order."""
        count(rows, "rows", low=1)
        for start, stop in itertools.pairwise(self._set.firsts.tolist()):
            for first in range(start, stop, rows):
                yield first, lock(self.take(np.arange(first, min(first + rows, stop))))

    def __repr__(self) -> str:
        return summary(self, f"{len(self._facts)} shards")


@final
class Sharded(CheckedOracle):
    """An oracle over atoms in several places: each shard has its own oracle.

    A call is one round trip for all its queries; every shard answers and proves for
    its own atoms, here the best of these are kept. Over exact oracles the answer is
    that of one exact oracle over all atoms, to the bit; over indexes it is as good, and
    as proved, as that of the worst shard.

    Waiting, it obeys deadlines and Ctrl-C, which also stop the work of the shards. A
    shard that is lost for good raises OSError, so a run ends with `Status.LOST` and the
    best point so far.

    Parameters
    ----------
    shards
        Parts of the atoms, in order; `over` and `wolfhound.oracles.cluster.shard` make them.
    width
        Answers per query that a shard sends back, at least its share of k. With fewer
        than k, less travels: the best atom and the bound stay exact, the other answers
        are good. None: k.
    pack
        Prepares what is sent to all shards, once per round trip.
    on_close
        Called after the shards are closed.

    Examples
    --------
    >>> from concurrent.futures import ThreadPoolExecutor
    >>> from wolfhound.oracles.scan import Scan
    >>> threads = ThreadPoolExecutor(2)
    >>> oracle = Sharded.over([Scan(np.eye(3)), Scan(2.0 * np.eye(3))], threads)
    >>> hits = oracle.query(np.array([[1.0, 3.0, 2.0]]), k=2)
    >>> hits.ids, hits.scores, oracle.counts
    (array([[4, 5]]), array([[6., 4.]]), {'query': 1, 'take': 0, 'waits': 0})
    >>> threads.shutdown()
    """

    def __init__(
        self,
        shards: Sequence[Shard],
        *,
        width: int | None = None,
        pack: Callable[[ShardSearch], Any] = lambda task: task,
        on_close: Callable[[], None] = lambda: None,
    ) -> None:
        validate.kind(shards, "shards", "a list of shards", list, tuple)
        require(len(shards) > 0, "shards", "at least one shard", "none")
        for each in shards:
            validate.kind(each, "shards", "a list of shards, see Sharded.over", "begin", "stop", "close")
        self._width = None if width is None else count(width, "width", low=1)
        self._pack, self._on_close = pack, on_close
        self._set = ShardSet(shards)
        widths = [facts.atoms.shape[1] for facts in self._set.facts]
        other = next((i for i, width in enumerate(widths) if width != widths[0]), 0)
        got = f"dimension {widths[0]} in shard 0 and {widths[other]} in shard {other}"
        require(other == 0, "shards", "atoms of equal dimension", got)
        self._atoms = ShardedAtoms(self._set)

    @classmethod
    def over(cls, oracles: Sequence[Oracle], executor: Executor, *, width: int | None = None) -> Sharded:
        """Return the oracle over these, each asked by a thread of the executor."""
        validate.kind(oracles, "oracles", "a list of oracles", list, tuple)
        validate.kind(executor, "executor", "an executor of threads", "submit")
        checked = [validate.oracle(each, "oracles") for each in oracles]
        return cls([LocalShard(each, executor) for each in checked], width=width)

    @property
    def counts(self) -> dict[str, int]:
        """Round trips so far, for queries and for rows; and how often one waited for a shard to start."""
        return {name: tally.total for name, tally in self._set.trips.items()}

    def describe(self) -> tuple[ShardFacts, ...]:
        """Ask the shards what they are: shape, dtype, fingerprint and process."""
        return self._set.describe()

    def answer(self, question: Question, thresholds: Vector | None = None) -> Hits:
        """Answer checked queries in one round trip."""
        sizes, shards = self._set.sizes, len(self._set.sizes)
        wide = question.k if self._width is None else max(self._width, -(-question.k // shards))
        task = ShardSearch(question.queries, min(wide, question.k), thresholds, question.exclude)
        tasks = dict.fromkeys(range(shards), self._pack(task))
        self._set.trips["query"].add()
        parts = self._set.ask(tasks, lambda i, hits: round(hits.passes * sizes[i]))
        return merge([parts[i] for i in tasks], sizes, question)

    def close(self) -> None:
        """End the shards; the oracle can no longer be asked. More than once does no harm."""
        if self._set.close():
            self._on_close()

    def __enter__(self) -> Sharded:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        trips = ", ".join(f"{name} {times}" for name, times in self.counts.items())
        return f"Sharded({self._atoms!r}; {trips})"
