"""Oracles around oracles: `Tiered` remembers, samples and escalates to a proof, `Audited` measures.

They know nothing of how the oracles inside find their atoms.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple, final

import numpy as np

from wolfhound.core import validate
from wolfhound.core.contracts import Atoms, Hits, Ids, Ints, Matrix, Oracle, Vector
from wolfhound.core.threads import Tally
from wolfhound.core.validate import count, require, rng, within
from wolfhound.oracles import asking
from wolfhound.oracles.asking import CheckedOracle, Cost, Question
from wolfhound.oracles.scan import Scan
from wolfhound.oracles.subset import RandomSubset

_COMPARED = 64  # rows that are compared to see whether two oracles have the same atoms
_KEPT = 4  # best atoms of an answer of the index that are remembered: it has scored so many again in any case
_SMALL, _WIDER, _MOST = 0.05, 4, 0.25
"""Share of the atoms that a sample has at most; how it grows where too little is found; the share from
which on a pass, which proves its answer, is made instead."""


@final
class Tiered(CheckedOracle):
    """Asks what was found before and a fresh sample, an index beside them, then an exact oracle.

    A query with a threshold is answered by the best of the atoms that were returned last
    and of a small random sample; where these are too poor, by the best of them and of what
    the index finds; where that misses the threshold, by the exact oracle. So an answer is either good
    enough or the best there is, with its proof; a method that asks for a share of the gap
    that is left converges wherever it does with the exact oracle. Without thresholds the
    exact oracle is asked.

    Too poor is what exceeds its threshold by less than `ratio` of what the last answer with the
    index did: a threshold may ask for much less than there is. The sample sees where the
    index is blind, and what is remembered is what both would miss again
    (`benchmarks/claim_promise.py`).

    Answers of the first two tiers prove nothing (unless the index does): their
    bounds are inf.

    Parameters
    ----------
    index
        Any oracle, fast and unproved. One that proves its answers may be `exact`, too.
    exact
        An oracle over the same atoms that proves its answers; default:
        ``Scan(index.atoms)``.
    cache
        How many of the atoms that were returned last are kept, with their rows.
        A pass of the exact oracle brings up to half as many, its best.
    sample
        Fresh random atoms of every call, at most 5 % of all; see `widen`.
    ratio
        In (0, 1], see above.
    fading
        In [0, 1): how much of what the index found before counts on where its next answer is poorer. 0:
        the last alone, for steps that close gaps quickly; near 1 for slow ones, along which an index
        finds much less at one step than at the next.
    seed
        Of the samples.

    Examples
    --------
    >>> from wolfhound.oracles.subset import RandomSubset
    >>> tiered = Tiered(RandomSubset(np.eye(3), size=1), sample=0)
    >>> queries = np.array([[1.0, 3.0, 2.0]])
    >>> [tiered.query(queries, thresholds=each).ids[0].tolist() for each in (None, [2.5])]
    [[1], [1]]
    >>> tiered.counts
    {'cache': 0, 'index': 1, 'exact': 1}
    """

    def __init__(
        self,
        index: Oracle,
        exact: Oracle | None = None,
        *,
        cache: int = 256,
        sample: int = 500,
        ratio: float = 0.8,
        fading: float = 0.0,
        seed: int | np.random.Generator = 0,
    ) -> None:
        self._index = validate.oracle(index, "index")
        self._atoms, self._exact = index.atoms, check_exact(exact, index.atoms)
        self._room = min(count(cache, "cache"), index.atoms.shape[0])
        self._ratio, self._rng = within(ratio, "ratio", "(0, 1]"), rng(seed)
        self._fading = within(fading, "fading", "[0, 1)")
        self._few = min(count(sample, "sample"), round(_SMALL * index.atoms.shape[0]))
        self._sample = RandomSubset(index.atoms, size=max(1, self._few), seed=self._rng)
        # Replaced whole: queries of other threads may read them.
        self._cache = _AtomCache(np.empty(0, np.int64), index.atoms.take(np.empty(0, np.int64)))
        self._above: Vector = np.empty(0)  # by how much late answers with the index exceeded thresholds
        self._served = {"cache": Tally(), "index": Tally(), "exact": Tally()}

    @property
    def counts(self) -> dict[str, int]:
        """How many queries each tier has answered so far, a copy."""
        return {name: tally.total for name, tally in self._served.items()}

    @property
    def sample(self) -> int:
        """Random atoms of every call."""
        return self._few

    @property
    def exact_only(self) -> bool:
        """Whether samples have grown so far that every answer is a pass."""
        return self._few > _MOST * self._atoms.shape[0]

    def widen(self) -> None:
        """Take samples of four times the size from now on, and where that is more than a quarter, passes."""
        self._few = _WIDER * max(1, self._few)
        self._sample = RandomSubset(self._atoms, size=self._few, seed=self._rng)

    def answer(self, question: Question, thresholds: Vector | None = None) -> Hits:
        """Answer checked queries; each escalates on its own.

        An answer below its threshold is the best of all, with a finite bound.
        """
        if thresholds is None or self.exact_only:
            hits = self._prove(question)
        else:
            hits = self._escalate(question, thresholds)
        self._cache = self._cache.remember(hits, self._room)
        return hits

    def __repr__(self) -> str:
        served = ", ".join(f"{name} {times}" for name, times in self.counts.items())
        kept = f"cache={self._room}, sample={self.sample}"
        return f"Tiered({self._index!r}, {self._exact!r}, {kept}; served: {served})"

    def _escalate(self, question: Question, floors: Vector) -> Hits:
        hits, left, above = self._cache.query(question), np.arange(len(floors)), self._above
        if self._few:
            hits = _best_of([hits, asking.ask_index(self._sample, question, None)])
        if len(above) == len(floors):  # else with which of the last answers to compare is not known
            # Where too few are known for k answers, the index may have the rest.
            enough = np.where(hits.ids[:, -1] >= 0, floors + self._ratio * above, np.inf)
            left = self._serve("cache", hits, enough)
        if len(left):
            found = _best_of([_without_cost(hits, left), self._search(question.only(left), floors[left])])
            hits = asking.patch(hits, left, found)
            self._note(left, found, floors)
            # Where it is proved that none reaches the threshold, no second pass is made.
            enough = np.where(found.bounds < floors[left], -np.inf, floors[left])
            left = left[self._serve("index", found, enough)]
        if len(left):
            found = self._prove(question.only(left))
            hits = asking.patch(hits, left, found)
            self._note(left, found, floors)
        return hits

    def _search(self, question: Question, floors: Vector) -> Hits:
        """Ask the index, and remember more of its answer than is wanted."""
        # One that proves would make a pass where it misses; that pass is to bring a harvest.
        asked = np.full_like(floors, -np.inf) if self._index is self._exact else floors
        return self._harvest(self._index, question, min(_KEPT, self._room), asked)

    def _serve(self, tier: str, found: Hits, enough: Vector) -> Ints:
        """Count what a tier has answered well enough; return the others."""
        best = found.scores[:, 0]
        # Not an overflow to inf: the exact oracle has an error for that.
        good = (found.ids[:, 0] >= 0) & (best >= enough) & (best < np.inf)
        self._served[tier].add(int(good.sum()))
        return np.flatnonzero(~good)

    def _note(self, which: Ints, found: Hits, floors: Vector) -> None:
        """Note by how much answers of the index or of a pass exceed their thresholds."""
        above = self._above.copy() if len(self._above) == len(floors) else np.zeros(len(floors))
        with np.errstate(invalid="ignore"):
            excess = found.scores[:, 0] - floors[which]
        # What the index misses now it may have found before: that counts on, a little less each time.
        known = np.maximum(np.maximum(excess, 0.0), self._fading * above[which])
        above[which] = np.where(np.isfinite(excess), known, 0.0)
        self._above = above

    def _prove(self, question: Question) -> Hits:
        """Ask the exact oracle, also for the atoms that the next queries will want.

        A pass costs hardly more for them, and a tenth of the passes is enough.
        """
        m = len(question.queries)
        self._served["exact"].add(m)
        return self._harvest(self._exact, question, self._room // (2 * m), None)

    def _harvest(self, oracle: Oracle, question: Question, most: int, floors: Vector | None) -> Hits:
        """Ask for more atoms than are wanted, remember all, and return those that are wanted."""
        k = question.k
        hits = asking.ask_index(oracle, replace(question, k=max(k, most)), floors)
        self._cache = self._cache.remember(hits, self._room)
        return replace(hits, ids=hits.ids[:, :k], scores=hits.scores[:, :k], slots=hits.slots[:, :k])


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
        hits = asking.ask_index(self._oracle, question, thresholds)
        if self._calls.add() % self._every:
            return hits
        truth = asking.ask_index(self._exact, replace(question, k=1), None)
        return replace(
            hits,
            # Both are proved. An oracle with sums of its own may err above a bound by rounding.
            bounds=np.maximum(np.minimum(hits.bounds, truth.bounds), hits.scores[:, 0]),
            scored=hits.scored + truth.scored,
            passes=hits.passes + truth.passes,
            radius=min(hits.radius, truth.radius),
        )

    def __repr__(self) -> str:
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
    """The distinct atoms that were returned last, with their rows, the latest first; never changed."""

    ids: Ids  # (r,)
    rows: Matrix  # (r, d)

    def query(self, question: Question) -> Hits:
        """Answer from the atoms kept; nothing is proved of the others."""
        m, size, k = len(question.queries), len(self.ids), question.k
        scores = np.empty((m, size))
        for i, query in enumerate(question.queries):
            scores[i] = asking.rescore(self.rows, query)
            if question.exclude.shape[1]:
                scores[i, np.isin(self.ids, question.exclusions(i))] = -np.inf
        scores, ids = asking.rank(scores, np.broadcast_to(self.ids, scores.shape), k)
        ids = np.where(scores > -np.inf, ids, -1)
        order = np.argsort(self.ids)

        def take(wanted: Ids) -> Matrix:
            return self.rows[order[np.searchsorted(self.ids, wanted, sorter=order)]]

        return asking.build_hits(take, scores, ids, np.full(m, np.inf), Cost(np.full(m, size)))

    def remember(self, hits: Hits, room: int) -> _AtomCache:
        """Return a cache with the atoms of an answer too, the best of each query kept longest."""
        found, slots = hits.ids.T.ravel(), hits.slots.T.ravel()[hits.ids.T.ravel() >= 0]
        ids = np.concatenate([found[found >= 0], self.ids])
        kept = np.sort(np.unique(ids, return_index=True)[1])[:room]
        return _AtomCache(ids[kept], np.concatenate([hits.rows[slots], self.rows])[kept])


# ---------------------------------------------------------------- answers to the same questions


def _best_of(parts: Sequence[Hits]) -> Hits:
    """Return the best atoms of several answers to the same questions."""
    best = np.max([part.scores[:, 0] for part in parts], axis=0)
    # Each is proved of all atoms. An oracle with sums of its own may err above one by rounding.
    bounds = np.maximum(np.min([part.bounds for part in parts], axis=0), best)
    return asking.best_of(parts, bounds, parts[0].ids.shape[1])


def _without_cost(hits: Hits, which: Ints) -> Hits:
    """Return the answers to some queries, whose cost was counted already."""
    each = {name: getattr(hits, name)[which] for name in ("ids", "scores", "bounds", "slots")}
    return replace(hits, **each, scored=np.zeros(len(which), np.int64), passes=0.0)
