"""Oracles around oracles: `Tiered` escalates to a proof, `Audited` measures.

They know nothing of how the oracles inside find their atoms.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple, TypeAlias, final

import numpy as np

from wolfhound.core import validate
from wolfhound.core.contracts import Atoms, Hits, Ids, Matrix, Oracle, Vector
from wolfhound.core.threads import Tally
from wolfhound.core.validate import count, require
from wolfhound.oracles.asking import CheckedOracle, Question, ask_index, patch, rescore
from wolfhound.oracles.scan import Scan

_COMPARED = 64
"""Rows that are compared to see whether two oracles have the same atoms."""

_Tier: TypeAlias = Callable[[Question, Vector], Hits]
"""Answers queries, given their thresholds."""


@final
class Tiered(CheckedOracle):
    """Asks an index first, and an exact oracle when the index finds too little.

    A query with a threshold is answered by the first tier that reaches it: the
    atoms that were returned last, the index, the exact oracle. So an answer is
    either good enough or the best there is, with its proof; a method that asks
    for half of the gap that is left converges wherever it does with the exact
    oracle. Without thresholds the exact oracle is asked.

    Answers of the first two tiers prove nothing (unless the index does): their
    bounds are inf.

    Parameters
    ----------
    index
        Any oracle, fast and unproved.
    exact
        An oracle over the same atoms that proves its answers; default:
        ``Scan(index.atoms)``.
    cache
        How many of the atoms that were returned last are kept, with their rows.
        A pass of the exact oracle brings up to half as many, its best.

    Examples
    --------
    >>> from wolfhound.oracles.subset import RandomSubset
    >>> tiered = Tiered(RandomSubset(np.eye(3), size=1))
    >>> queries = np.array([[1.0, 3.0, 2.0]])
    >>> tiered.query(queries).ids, tiered.query(queries, thresholds=np.array([2.5])).bounds
    (array([[1]]), array([inf]))
    >>> tiered.counts
    {'cache': 1, 'index': 0, 'exact': 1}
    """

    def __init__(self, index: Oracle, exact: Oracle | None = None, *, cache: int = 256) -> None:
        self._index = validate.oracle(index, "index")
        self._atoms, self._exact = index.atoms, check_exact(exact, index.atoms)
        self._room = min(count(cache, "cache"), index.atoms.shape[0])
        self._cache = _AtomCache.empty(index.atoms)  # replaced whole: queries of other threads may read it
        self._served = {"cache": Tally(), "index": Tally(), "exact": Tally()}

    @property
    def counts(self) -> dict[str, int]:
        """How many queries each tier has answered so far, a copy."""
        return {name: tally.total for name, tally in self._served.items()}

    def answer(self, question: Question, thresholds: Vector | None = None) -> Hits:
        """Answer checked queries; each escalates on its own.

        An answer below its threshold is the best of all, with a finite bound.
        """
        hits = self._prove(question) if thresholds is None else self._escalate(question, thresholds)
        self._cache = self._cache.remember(hits, self._room)
        return hits

    def __repr__(self) -> str:
        """The tiers, and what each has answered."""
        served = ", ".join(f"{name} {times}" for name, times in self.counts.items())
        return f"Tiered({self._index!r}, {self._exact!r}, cache={self._room}; served: {served})"

    def _escalate(self, question: Question, floors: Vector) -> Hits:
        hits, left = None, np.arange(len(floors))
        tiers: list[tuple[str, _Tier]] = [("index", functools.partial(ask_index, self._index))]
        if question.k <= len(self._cache.ids):
            tiers.insert(0, ("cache", self._cache.query))
        for name, tier in tiers:
            found = tier(question.only(left), floors[left])
            hits = found if hits is None else patch(hits, left, found)
            best = found.scores[:, 0]
            # Not an overflow to inf: the exact oracle has an error for that.
            good = (found.ids[:, 0] >= 0) & (best >= floors[left]) & (best < np.inf)
            self._served[name].add(int(good.sum()))
            left = left[~good]
            if not len(left):
                return hits
        proved = self._prove(question.only(left))
        return proved if hits is None else patch(hits, left, proved)

    def _prove(self, question: Question) -> Hits:
        """Ask the exact oracle, also for the atoms that the next queries will want.

        A pass costs hardly more for them, and a tenth of the passes is enough.
        """
        m, k = len(question.queries), question.k
        self._served["exact"].add(m)
        wide = max(k, self._room // (2 * m))
        hits = ask_index(self._exact, replace(question, k=wide), None)
        if wide > k:
            self._cache = self._cache.remember(hits, self._room)
            hits = replace(hits, ids=hits.ids[:, :k], scores=hits.scores[:, :k], slots=hits.slots[:, :k])
        return hits


@final
class Audited(CheckedOracle):
    """Answers as an oracle does, with a proved bound at every so many calls.

    From the bound a method computes the true gap ratio of the answer, (score -
    <q, x>) / (bound - <q, x>), which the trace of a run records. Audits are
    counted in `scored` and `passes`.

    Parameters
    ----------
    oracle
        The oracle that is measured; its atoms and scores are returned.
    exact
        An oracle over the same atoms that proves its answers; default:
        ``Scan(oracle.atoms)``.
    every
        A call is audited, all its queries, if so many calls came since the
        last audit; the first call is.

    Examples
    --------
    >>> from wolfhound.oracles.subset import RandomSubset
    >>> audited = Audited(RandomSubset(np.eye(3), size=1), every=2)
    >>> queries = np.array([[1.0, 3.0, 2.0]])
    >>> [round(float(audited.query(queries).bounds[0]), 9) for _ in range(4)]
    [3.0, inf, 3.0, inf]
    """

    def __init__(self, oracle: Oracle, exact: Oracle | None = None, *, every: int = 10) -> None:
        self._oracle = validate.oracle(oracle, "oracle")
        self._atoms, self._exact = oracle.atoms, check_exact(exact, oracle.atoms)
        self._every = count(every, "every", low=1)
        self._calls = Tally()

    @property
    def audits(self) -> int:
        """How many calls were audited so far."""
        return -(-self._calls.total // self._every)

    def answer(self, question: Question, thresholds: Vector | None = None) -> Hits:
        """Answer checked queries, and audit the answers if it is time."""
        hits = ask_index(self._oracle, question, thresholds)
        if self._calls.add() % self._every:
            return hits
        truth = ask_index(self._exact, replace(question, k=1), None)
        return replace(
            hits,
            # Both are proved. An oracle with sums of its own may err above a bound by rounding.
            bounds=np.maximum(np.minimum(hits.bounds, truth.bounds), hits.scores[:, 0]),
            scored=hits.scored + truth.scored,
            passes=hits.passes + truth.passes,
            radius=min(hits.radius, truth.radius),
        )

    def __repr__(self) -> str:
        """The oracles and how often they are compared."""
        return f"Audited({self._oracle!r}, {self._exact!r}, every={self._every})"


# ---------------------------------------------------------------- arguments


def check_exact(exact: Oracle | None, atoms: Atoms) -> Oracle:
    """Return the oracle that proves answers over these atoms, by default a scan."""
    if exact is None:
        return Scan(atoms)
    check_same_atoms(atoms, validate.oracle(exact, "exact").atoms, "exact")
    return exact


def check_same_atoms(mine: Atoms, other: Atoms, name: str) -> None:
    """Raise ValueError if oracle `name` searches other atoms; some rows are compared."""
    if mine is other:
        return
    what = f"{mine.shape[0]} x {mine.shape[1]} {mine.dtype}"
    got = f"{other.shape[0]} x {other.shape[1]} {other.dtype}"
    require(what == got, name, f"an oracle over the same atoms, {what}", got)
    ids = np.unique(np.linspace(0, mine.shape[0] - 1, _COMPARED).astype(np.int64))
    same = np.array_equal(mine.take(ids), other.take(ids))
    require(same, name, f"an oracle over the same atoms, {what}", "other rows")


# ---------------------------------------------------------------- tiers


class _AtomCache(NamedTuple):
    """The distinct atoms that were returned last, with their rows; never changed."""

    ids: Ids  # (r,)
    rows: Matrix  # (r, d)
    places: dict[int, int]  # where each atom is, the one that was returned longest ago first

    @classmethod
    def empty(cls, atoms: Atoms) -> _AtomCache:
        """Return a cache of no atoms."""
        return cls(np.empty(0, np.int64), np.empty((0, atoms.shape[1]), atoms.dtype), {})

    def query(self, question: Question, thresholds: Vector) -> Hits:
        """Answer from the atoms kept; nothing is proved of the others."""
        m, size = len(question.queries), len(self.ids)
        scores = np.stack([rescore(self.rows, query) for query in question.queries])
        if question.exclude.shape[1]:
            for i in range(m):
                scores[i, np.isin(self.ids, question.exclusions(i))] = -np.inf
        best = np.lexsort((np.broadcast_to(self.ids, scores.shape), -scores), axis=1)[:, : question.k]
        scores = np.take_along_axis(scores, best, 1)
        # Where too few are left for k answers, others may fill the rest.
        good = np.broadcast_to(scores[:, -1:] > -np.inf, scores.shape)
        return Hits(
            ids=np.where(good, self.ids[best], -1),
            scores=np.where(good, scores, -np.inf),
            bounds=np.full(m, np.inf),
            rows=self.rows[best.ravel()],
            slots=np.where(good, np.arange(best.size).reshape(best.shape), 0),
            scored=np.full(m, size),
            passes=0.0,
        )

    def remember(self, hits: Hits, room: int) -> _AtomCache:
        """Return a cache with the atoms of an answer too, the best of each query kept longest."""
        fresh: dict[int, int] = {}
        for atom, slot in zip(hits.ids.T.ravel().tolist(), hits.slots.T.ravel().tolist(), strict=True):
            if len(fresh) == room:
                break
            if atom >= 0:
                fresh.setdefault(atom, slot)
        places = dict(self.places)
        new: list[tuple[int, int, int]] = []
        for atom, slot in reversed(fresh.items()):
            place = places.pop(atom, None)
            if place is None:
                place = len(places) if len(places) < room else places.pop(next(iter(places)))
                new.append((place, atom, slot))
            places[atom] = place
        if not new:
            return _AtomCache(self.ids, self.rows, places)
        at, atoms, slots = (list(part) for part in zip(*new, strict=True))
        ids = np.empty(len(places), np.int64)
        rows = np.empty((len(places), self.rows.shape[1]), self.rows.dtype)
        ids[: len(self.ids)], rows[: len(self.ids)] = self.ids, self.rows
        ids[at], rows[at] = atoms, hits.rows[slots]
        return _AtomCache(ids, rows, places)
