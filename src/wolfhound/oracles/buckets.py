"""Probing: the most promising buckets of a store of codes, in rounds.

Atoms are kept as int8 codes, bucket after bucket, so that probing reads
contiguous memory. What the buckets are is a `Bucketing`'s: k-means or a hash.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, Protocol, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from wolfhound.core.contracts import Atoms, Hits, Ids, Ints, Matrix, Vector
from wolfhound.core.progress import report_rows
from wolfhound.core.threads import map_ordered
from wolfhound.core.validate import count, require
from wolfhound.data.atoms import block_rows, finite_rows
from wolfhound.data.store import Stored
from wolfhound.oracles import _probe_kernels as kernels
from wolfhound.oracles import asking
from wolfhound.oracles._probe_kernels import Promises
from wolfhound.oracles.asking import CheckedOracle, Question
from wolfhound.oracles.int8.codes import Codes, check_codes, check_norms, encode_atoms, encode_queries
from wolfhound.oracles.int8.layout import BareRows, PackedRows
from wolfhound.oracles.int8.scan import answer_by_codes
from wolfhound.oracles.scan import Scan, empty_lists

ENOUGH = 4  # candidates that are re-scored per query, at least
CAP = 0.25  # share of the atoms after which probing ends, where scores are asked for
_TOGETHER = 32  # queries that one thread answers at a time
_PART = 4096  # rows whose lengths one thread takes at a time
_LARGEST_BUDGET = 1 << 40

_NONE: Ints = np.empty(0, np.int64)


class Bucketing(Protocol):
    """Puts atoms into buckets, and says which buckets to try first."""

    @property
    def buckets(self) -> int:
        """How many buckets there are."""

    @property
    def cost(self) -> int:
        """How many vectors a query is multiplied with to order the buckets."""

    def assign(self, rows: Matrix) -> Ints:
        """Bucket of each row."""

    def promises(self, queries: Vector, sizes: Vector) -> Promises:
        """Numbers for all buckets, which are tried from the highest to the lowest."""


@dataclass(frozen=True, slots=True, eq=False)
class Buckets:
    """Codes of the atoms in the order of their buckets."""

    codes: Codes
    offsets: Ints  # (buckets + 1,) places where buckets begin

    @classmethod
    def of(
        cls, stored: Stored, numbers: Mapping[str, Any], shape: tuple[int, int], buckets: int, prefix: str
    ) -> Buckets:
        """Put together what was saved, see `Codes.of`; the buckets hold every atom once."""
        codes = Codes.of(stored, numbers, shape, prefix)
        require(len(codes.ids) == codes.n, "ids", "one for each atom", len(codes.ids))
        offsets = stored.array(f"{prefix}_offsets", np.int64, (buckets + 1,), low=0)
        rising = offsets[0] == 0 and offsets[-1] == codes.n and bool((np.diff(offsets) >= 0).all())
        require(rising, "offsets", f"rising from 0 to {codes.n}", "others")
        return cls(codes, offsets)

    @property
    def nbytes(self) -> int:
        """Memory that it takes."""
        return self.codes.nbytes + self.offsets.nbytes

    def owners(self) -> Ints:
        """Bucket of each atom."""
        owner = np.empty(self.codes.n, np.int64)
        owner[self.codes.ids] = np.repeat(np.arange(len(self.offsets) - 1), np.diff(self.offsets))
        return owner

    def estimates(self) -> BareRows:
        """Fields of `PackedRows` where errors count for nothing, and are not worth a read."""
        codes = self.codes
        return codes.blocks, codes.scales, codes.scales, codes.ids, codes.n

    def arrays(self, prefix: str) -> dict[str, NDArray[Any]]:
        """What is to be saved, with `codes.numbers()`."""
        return self.codes.arrays(prefix) | {f"{prefix}_offsets": self.offsets}


def fill_buckets(atoms: Atoms, bucketing: Bucketing, centre: Vector, known: Ints = _NONE) -> Buckets:
    """Assign and encode all atoms: two passes.

    Inside a bucket they are ordered by falling distance from the centre: where a
    budget ends inside one, the others are more likely to score high.
    The buckets of the first atoms may be known: of an edited index.
    """
    owners, lengths = [known], []
    middle = centre.astype(atoms.dtype)
    for first, block in atoms.blocks(block_rows(atoms)):
        report_rows(len(block))
        if first + len(block) > len(known):
            owners.append(bucketing.assign(block[max(0, len(known) - first) :]))
        lengths.append(_measure(block, middle))
    owner = np.concatenate(owners)
    offsets = np.concatenate([[0], np.cumsum(np.bincount(owner, minlength=bucketing.buckets))])
    # Integers that rise with the bucket, then fall with the length in float32: one sort instead of two.
    with np.errstate(over="ignore"):
        bits = np.concatenate(lengths).astype(np.float32).view(np.uint32)  # of numbers >= 0: in their order
    keys = (owner.astype(np.uint64) << np.uint64(32)) | (np.uint64(0xFFFFFFFF) - bits)
    ids = np.argsort(keys, kind="stable")
    return Buckets(encode_atoms(atoms, ids=ids, centre=centre), offsets.astype(np.int64))


def _measure(block: Matrix, centre: Matrix) -> Vector:
    """Distances from the centre; inf where one overflows."""

    def work(start: int) -> Matrix:
        with np.errstate(over="ignore", invalid="ignore"):
            return np.asarray(np.linalg.norm(block[start : start + _PART] - centre, axis=1))

    parts = map_ordered(work, range(0, len(block), _PART), blas=False)
    return np.concatenate([np.empty(0), *parts])


B_co = TypeVar("B_co", bound=Bucketing, covariant=True)


class BucketTable(NamedTuple, Generic[B_co]):
    """Buckets, and what puts them in order."""

    buckets: Buckets
    bucketing: B_co


def default_budget(atoms: Atoms) -> int:
    """Atoms to probe for a query where nothing else is said."""
    return max(1, round(8.0 * math.sqrt(atoms.shape[0])))


Round: TypeAlias = tuple[int | Ints, Vector | None]
"""Atoms that a table has probed by the end of a round, perhaps by (table, query), and scores that then
are enough."""


def doubling(budget: int, most: int, thresholds: Vector) -> list[Round]:
    """List rounds of doubling budgets, until the scores are reached."""
    rounds: list[Round] = []
    while budget < most:
        rounds.append((budget, thresholds))
        budget *= 2
    return [*rounds, (most, None)]


class ProbingIndex(CheckedOracle):
    """An index that probes the buckets of some tables; a subclass may say in which rounds.

    A query probes `budget` atoms, with thresholds in the first round. With `proof`, one that misses its
    threshold, or has none, is answered by a certified pass over the codes.
    """

    def __init__(
        self, atoms: Atoms, tables: Sequence[BucketTable[Bucketing]], *, budget: int, proof: bool
    ) -> None:
        self._atoms, self._searched = atoms, tables
        self._budget, self._proof = budget, proof
        # Answers what codes cannot decide.
        self._scan = Scan(atoms, screen=False) if proof else None

    @property
    def budget(self) -> int:
        """Atoms that a query probes, in each of independent copies."""
        return self._budget

    def _follow_budget(self, atoms: Atoms) -> int:
        """Return the budget for edited atoms: one that was the default stays the default."""
        return default_budget(atoms) if self._budget == default_budget(self._atoms) else self._budget

    def rounds(self, question: Question, thresholds: Vector | None) -> list[Round]:
        """Budgets of a table, round by round, and the scores that are enough."""
        return self._double(self._budget, thresholds)

    def _double(self, first: int, thresholds: Vector | None) -> list[Round]:
        if thresholds is None:
            return [(first, None)]
        return doubling(first, max(first, int(CAP * self._atoms.shape[0])), thresholds)

    def answer(self, question: Question, thresholds: Vector | None = None) -> Hits:
        """Answer checked queries by `probe`; what misses its score, or has none, perhaps by a pass."""
        codes, scan = self._searched[0].buckets.codes, self._scan
        if scan is not None and thresholds is None:
            return answer_by_codes(self._atoms, codes, scan, question)
        hits = probe(self._atoms, self._searched, question, self.rounds(question, thresholds))
        if scan is None or thresholds is None:
            return hits
        missed = np.flatnonzero(hits.scores[:, 0] < thresholds)
        if not len(missed):
            return hits
        return asking.patch(hits, missed, answer_by_codes(self._atoms, codes, scan, question.only(missed)))


def probe(
    atoms: Atoms, tables: Sequence[BucketTable[Bucketing]], question: Question, rounds: Sequence[Round]
) -> Hits:
    """Answer from the best buckets of all tables, in rounds of growing budgets.

    A query is finished after the first round in which its best atom scores enough, or after the last.
    """
    rows = asking.in_memory(atoms) if question.often and len(tables) == len(question.queries) == 1 else None
    if rows is not None:
        return _probe_at_once(rows, tables[0], question, rounds)
    probes = [_Probe(table, question) for table in tables]
    every = left = np.arange(len(question.queries))
    for budget, thresholds in rounds:
        if not len(left):
            break
        for probe, budgets in zip(probes, np.full((len(probes), len(every)), budget), strict=True):
            probe.round(left, budgets)
        if thresholds is not None:
            ids = _together([probe.ids(left) for probe in probes])
            best = asking.rescore_pairs(atoms, question.queries[left], ids).max(axis=1, initial=-np.inf)
            left = left[best < thresholds[left]]
    ids = _together([probe.ids(every) for probe in probes])
    scored = functools.reduce(np.add, [probe.progress.scored for probe in probes])
    return asking.offer(atoms, question, ids, scored=scored)


def _probe_at_once(
    rows: Matrix, table: BucketTable[Bucketing], question: Question, rounds: Sequence[Round]
) -> Hits:
    """Answer one query from one table and rows in memory, as `probe` does."""
    buckets, bucketing = table
    budgets, enough = np.empty(len(rounds), np.int64), np.empty(len(rounds))
    for i, (budget, scores) in enumerate(rounds):
        budgets[i : i + 1], enough[i] = budget, math.inf if scores is None else scores[0]
    promises = bucketing.promises(question.queries, question.sizes)
    top = asking.empty_top(rows, question.k, bucketing.cost)
    found = kernels.best_of_probed(
        rows,
        question.queries,
        question.sizes,
        question.exclude,
        promises[:],  # a plain tuple
        (buckets.estimates(), buckets.codes.bare[1], buckets.offsets),
        (budgets, enough, max(ENOUGH, 2 * question.k)),
        top,
    )
    if found < 0:
        asking.refuse_overflow(question)
    return asking.make_hits(top, found, 0.0, math.inf)


def _together(parts: list[Ids]) -> Ids:
    """Join the candidates of several tables, each atom once."""
    if len(parts) == 1:
        return parts[0]
    ids = np.sort(np.concatenate(parts, axis=1), axis=1)
    ids[:, 1:][ids[:, 1:] == ids[:, :-1]] = -1
    return ids


class _Probe:
    """What is known of a batch of queries between two rounds."""

    def __init__(self, table: BucketTable[Bucketing], question: Question) -> None:
        buckets, bucketing = table
        m, most = len(question.queries), max(ENOUGH, 2 * question.k)
        self._offsets, self._most = buckets.offsets, most
        self._packed = PackedRows(*buckets.estimates())
        self._queries = encode_queries(buckets.codes, question)
        self._queries.rules["size"] = 0.0
        self._promises = bucketing.promises(question.queries, question.sizes)
        best = empty_lists(m, most, self._queries.rules["floor"])
        self.progress = kernels.ProbeState(*best, np.zeros(m, np.int64), np.full(m, bucketing.cost))

    def ids(self, which: Ints) -> Ids:
        """(m, r) candidates of some queries, padded with -1."""
        places, fill = self.progress.places[which, : self._most], self.progress.fill[which]
        known = np.arange(self._most) < fill[:, None]
        return np.where(known, self._packed.ids[np.where(known, places, 0)], -1)

    def round(self, which: Ints, budgets: Ints) -> None:
        """Go on with some of the queries until their buckets hold so many atoms, by query."""
        parts = [which[start : start + _TOGETHER] for start in range(0, len(which), _TOGETHER)]
        known = self._promises, self._offsets, self._packed, self._queries, self.progress

        def scan(part: Ints) -> None:
            kernels.probe(part, budgets, *known, kernels.make_room(len(self._offsets)))

        for _ in map_ordered(scan, parts, blas=False) if len(parts) > 1 else map(scan, parts):
            report_rows(0)


FAR = 1e15  # entries beyond are cut off: squares of what is left fit into float32

_MOST = 1000


def sample_rows(atoms: Atoms, ids: Ids) -> Matrix:
    """Take rows; ValueError names one that is not finite, or too long for sums of squares."""
    rows = finite_rows(atoms, ids)
    with np.errstate(over="ignore"):
        long = np.flatnonzero(~np.isfinite(np.einsum("ij,ij->i", rows, rows, dtype=np.float64)))
    for bad in long:
        check_norms(rows[bad : bad + 1], int(ids[bad]))
    return rows


def unit_of(reach: float) -> float:
    """Return a power of two that brings a number near 1.

    Examples
    --------
    >>> unit_of(5.0)
    0.125
    """
    return math.ldexp(1.0, -min(max(math.frexp(reach)[1], -_MOST), _MOST))


def scale_rows(rows: Matrix, unit: float, centre: Vector | None = None) -> NDArray[np.float32]:
    """Return ``unit (rows - centre)`` in float32; what is far too large for it is cut off."""
    # In two steps: the unit of tiny float32 rows is too large for float32.
    half = math.ldexp(1.0, math.frexp(unit)[1] // 2)
    with np.errstate(over="ignore", invalid="ignore"):
        out = rows if centre is None else rows - centre.astype(rows.dtype)
        out = out * rows.dtype.type(half)
        out *= rows.dtype.type(unit / half)
    return np.clip(out, -FAR, FAR).astype(np.float32, copy=False)


def read_probing(stored: Stored, codes: Codes, atoms: Atoms) -> tuple[int, bool]:
    """Return the budget and whether misses are proved: by these codes, which are then checked."""
    with stored.reading():
        budget, proof = count(stored.params["budget"], "budget", low=1), stored.params["proof"]
        # Kernels multiply budgets by numbers of buckets.
        require(budget <= _LARGEST_BUDGET, "budget", f"<= {_LARGEST_BUDGET}", budget)
        require(isinstance(proof, bool), "proof", "true or false", proof)
    if proof:
        check_codes(stored, codes, atoms)
    return budget, bool(proof)
