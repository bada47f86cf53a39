"""`Sharded`: one oracle over many shards, a round trip per pass.

Knows shards by their futures only; where they live, another module knows.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from typing import Any, final

import numpy as np

from wolfhound import validate
from wolfhound._files import lock, summary, valid_ids
from wolfhound.atoms import Fingerprint
from wolfhound.core import Hits, Ids, Matrix, Oracle, Vector
from wolfhound.oracles._hits import merge
from wolfhound.oracles._question import CheckedOracle, Question
from wolfhound.oracles.shards import AtomFacts, Crew, LocalShard, Shard, ShardFacts, ShardSearch, Take
from wolfhound.validate import count, require


@final
class ShardedAtoms:
    """The atoms of all shards, one after the other; ids run through.

    Rows are fetched when they are asked for: `take` is one round trip to the shards
    that have some, `blocks` streams them. A block never spans two shards.
    """

    __slots__ = ("_crew", "_facts", "_inner", "fn")

    def __init__(self, crew: Crew, facts: Sequence[AtomFacts] | None = None) -> None:
        self._crew, self._inner = crew, facts is not None
        self._facts = tuple(each.atoms for each in crew.facts) if facts is None else tuple(facts)
        mapped = {each.mapped and each.mapped[0] for each in crew.facts}
        self.fn = mapped.pop() if len(mapped) == 1 and not self._inner else None
        """The function by which all shards map other atoms, if they do."""

    @property
    def inner(self) -> ShardedAtoms:
        """The atoms before `fn` has mapped them; these, if none has."""
        facts = [each.mapped[1] for each in self._crew.facts if each.mapped is not None]
        return self if self.fn is None else ShardedAtoms(self._crew, facts)

    @property
    def shape(self) -> tuple[int, int]:
        """(n, d)."""
        return int(self._crew.firsts[-1]), self._facts[0].shape[1]

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
        ids, firsts = valid_ids(ids, self.shape[0]), self._crew.firsts
        out = np.empty((len(ids), self.shape[1]), self.dtype)
        owner = np.searchsorted(firsts, ids, side="right") - 1
        mine = {int(i): np.flatnonzero(owner == i) for i in np.unique(owner)}
        if mine:
            found = self._crew.ask(
                "take", {i: Take(ids[at] - firsts[i], self._inner) for i, at in mine.items()}
            )
            for i, at in mine.items():
                out[at] = found[i]
        return out

    def blocks(self, rows: int) -> Iterator[tuple[int, Matrix]]:
        """Yield (first id, read-only block) over all rows once, in order."""
        count(rows, "rows", low=1)
        for start, stop in itertools.pairwise(self._crew.firsts.tolist()):
            for first in range(start, stop, rows):
                yield first, lock(self.take(np.arange(first, min(first + rows, stop))))

    def __repr__(self) -> str:
        """Shape, dtype and number of shards."""
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
        Parts of the atoms, in order; `over` and `wolfhound.cluster.shard` make them.
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
        self._crew = Crew(shards)
        widths = [facts.atoms.shape[1] for facts in self._crew.facts]
        same = len(set(widths)) == 1
        other = next((i for i, width in enumerate(widths) if width != widths[0]), 0)
        got = f"dimension {widths[0]} in shard 0 and {widths[other]} in shard {other}"
        require(same, "shards", "atoms of equal dimension", got)
        self._atoms = ShardedAtoms(self._crew)

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
        return {name: tally.total for name, tally in self._crew.trips.items()}

    def describe(self) -> tuple[ShardFacts, ...]:
        """Ask the shards what they are: shape, dtype, fingerprint and process."""
        return self._crew.describe()

    def answer(self, question: Question, thresholds: Vector | None = None) -> Hits:
        """Answer checked queries in one round trip."""
        sizes, shards = self._crew.sizes, len(self._crew.sizes)
        wide = question.k if self._width is None else max(self._width, -(-question.k // shards))
        task = ShardSearch(question.queries, min(wide, question.k), thresholds, question.exclude)
        tasks = dict.fromkeys(range(shards), self._pack(task))
        parts = self._crew.ask("query", tasks, lambda i, hits: round(hits.passes * sizes[i]))
        return merge([parts[i] for i in tasks], sizes, question)

    def close(self) -> None:
        """End the shards; the oracle can no longer be asked. More than once does no harm."""
        if self._crew.close():
            self._on_close()

    def __enter__(self) -> Sharded:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        """The atoms and the round trips so far."""
        trips = ", ".join(f"{name} {times}" for name, times in self.counts.items())
        return f"Sharded({self._atoms!r}; {trips})"
