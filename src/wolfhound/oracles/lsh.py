"""`LshIndex`: (c, tau)-MaxIP by locality-sensitive hashing, in near-linear space.

One or two tables; the work is on the query's side, which tries many buckets.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from wolfhound.core.contracts import Atoms, AtomsLike, Matrix, Vector
from wolfhound.core.progress import read_rows, show_progress
from wolfhound.core.threads import one_blas_thread
from wolfhound.core.validate import count, flag, kind, number, require, within
from wolfhound.data.atoms import as_atoms
from wolfhound.data.store import Stored
from wolfhound.oracles import indexes as saved
from wolfhound.oracles.asking import Question, check_question, check_thresholds
from wolfhound.oracles.buckets import (
    FAR,
    Buckets,
    BucketTable,
    ProbingIndex,
    Round,
    default_budget,
    fill_buckets,
    read_probing,
    sample_rows,
)
from wolfhound.oracles.hashes import CrossPolytope, Family, Hash, draw_hash
from wolfhound.oracles.indexes import BuiltAnew, Estimate, IndexKind, Workload
from wolfhound.oracles.int8.scan import answer_by_codes, code_bytes
from wolfhound.oracles.promises import Ladder, Promise, check_backed, choose_length, count_typical, find_cuts
from wolfhound.oracles.scan import Scan

NAME = "lsh"


@final
class LshIndex(ProbingIndex, BuiltAnew):
    """Probes the buckets of a hash that promise the highest scores.

    Atoms are hashed by the direction and the length of ``s - m``, m their centre,
    and kept as int8 codes bucket after bucket. A query is scaled to length 1 and
    tries buckets in the order of their promise; the best few atoms are scored
    again in float64. Nothing is proved (bounds are inf), except with `proof`.

    - Built for some tau: if there is an atom with ``<q, s - m> >= tau |q| R``, R = max|s - m|,
      then one of at least ``ratio tau |q| R`` is found with probability 1 - delta; with copies, 1 -
      delta^copies. With a ratio of 1, up to the error of the codes by which atoms are chosen. The first
      such atom ends the search; with a threshold the first that reaches it, and then an atom at tau
      that reaches it is not missed more often.
    - Else with thresholds: budgets double until the score is reached, up to a quarter
      of the atoms.
    - Without either: `budget` atoms are probed.

    Made by `build` or `load`.

    Examples
    --------
    >>> rows = np.random.default_rng(0).standard_normal((2000, 8))
    >>> hits = LshIndex.build(rows).query(rows[:1])
    >>> hits.scores.shape, bool(hits.scored[0] < 2000), hits.bounds
    ((1, 1), True, array([inf]))
    """

    def __init__(
        self, atoms: Atoms, tables: HashTables, *, budget: int, promise: Promise, proof: bool
    ) -> None:
        # In the order of their promise, or as a promise of tau takes.
        self._aimed = tables.aim(np.array(promise.cuts)) if promise.taus else tables.all
        super().__init__(atoms, self._aimed, budget=budget, proof=proof)
        self._tables, self._promise = tables, promise

    @classmethod
    def build(
        cls,
        atoms: AtomsLike,
        *,
        ratio: float = 0.8,
        tau: float | Ladder | None = None,
        delta: float = 0.1,
        family: Family | None = None,
        tables: int = 1,
        copies: int = 1,
        axes: int | None = None,
        bucket: float | None = None,
        budget: int | None = None,
        proof: bool = False,
        progress: bool | None = None,
        seed: int = 0,
    ) -> LshIndex:
        """Draw hashes, put all atoms into buckets and encode them.

        Parameters
        ----------
        atoms
            Atoms, an array or a path.
        ratio, tau, delta
            What is promised without thresholds, see the class; a `Ladder` instead
            of one tau promises ``ratio / (1 + zeta)`` of the best score. The atoms to
            be probed are measured on planted pairs, which tell of no delta below 0.00074 for
            one table: take copies for less. None: nothing is promised.
        family
            `CrossPolytope` (default) or `SimHash`.
        tables
            Hash tables that share the budget; two help where few atoms are good.
        copies
            Independent copies, all asked with the whole budget; see
            `theory.copies`.
        axes
            Leading principal axes of the atoms that the hashes look at, such as 8 or 32:
            fewer atoms need be probed where a few directions tell atoms apart. Nothing
            can be promised then: not with tau. None: all directions are alike.
        bucket
            Atoms that a bucket holds on average. Default 96; with tau, chosen for it.
        budget
            Atoms to probe for a query and copy, with thresholds in the first
            round; default 8 sqrt(n). See also `tune`.
        proof
            Whether a query that misses its threshold, or has none, is answered
            by a certified pass over the codes.
        progress
            As for `minimize`.
        seed
            Of the hashes.
        """
        rows = as_atoms(atoms)
        promise = Promise.check(ratio, tau, delta)
        given = {"tables": tables, "copies": copies, "axes": axes, "bucket": bucket, "seed": seed}
        settings = DrawSettings.of(given)
        if promise.taus:
            check_backed(promise.delta, settings.tables)
            require(axes is None, "axes", "None where tau is given: pairs are no longer alike", axes)
            require(bucket is None, "bucket", "None where tau is given: it is chosen for tau", bucket)
        chosen: Family = CrossPolytope() if family is None else family
        kind(chosen, "family", "CrossPolytope() or SimHash()", "directions", "codes", "assign", "spread")
        first = default_budget(rows) if budget is None else count(budget, "budget", low=1)
        with show_progress(progress, read_rows("building", 2 * rows.shape[0])):
            made, promise = draw_tables(rows, chosen, promise, settings)
        return cls(rows, made, budget=first, promise=promise, proof=flag(proof, "proof"))

    # ------------------------------------------------------------ what it is

    @property
    def nbytes(self) -> int:
        """Memory that the index takes."""
        return sum(table.buckets.nbytes + table.bucketing.nbytes for table in self._tables.all)

    @property
    def buckets(self) -> int:
        """Buckets of a table."""
        return self._tables.all[0].bucketing.buckets

    @property
    def centre(self) -> Vector:
        """m, subtracted from every atom."""
        return self._tables.all[0].bucketing.centre.copy()

    @property
    def radius(self) -> float:
        """R, at least the largest |s - m|."""
        return self._tables.radius

    @property
    def promise(self) -> Promise:
        """What it was built for."""
        return self._promise

    # ------------------------------------------------------------ asking

    def rounds(self, question: Question, thresholds: Vector | None) -> list[Round]:
        """Budgets of a table, round by round, and the scores that are enough."""
        first = -(-self._budget // self._tables.settings.tables)
        if not self._promise.taus:
            return self._double(first, thresholds)
        start = self._score_centre(question.queries)
        most = [
            hashing.count_above(question.queries, question.sizes, np.diff(buckets.offsets))
            for buckets, hashing in self._aimed
        ]
        rungs = self._promise.scores(question.sizes, radius=self.radius, start=start)
        enough = rungs if thresholds is None else [thresholds] * len(rungs)
        return self._promise.rounds(first, np.stack(most, axis=1), enough)

    def _score_centre(self, queries: Vector) -> Vector:
        return np.asarray(np.einsum("ij,j->i", queries, self.centre))

    def with_budget(self, budget: int) -> LshIndex:
        """Return the same index with another budget, and no tau; nothing is copied."""
        return self._with(count(budget, "budget", low=1), proof=self._proof)

    def tune(self, queries: Matrix, ratio: float, *, here: Vector | None = None) -> LshIndex:
        """Return the index with the least budget whose mean gap ratio on some queries is enough.

        Parameters
        ----------
        queries : (m, d)
            Like those to come.
        ratio
            Wanted mean of ``(score - here) / (best score - here)``.
        here : (m,), optional
            Scores of the points that the queries come from; default: of the centre.
        """
        within(ratio, "ratio", "(0, 1]")
        question = check_question(self._atoms, queries, 1, None)
        given = check_thresholds(here, len(question.queries))
        start = self._score_centre(question.queries) if given is None else given
        codes, scan = self._tables.all[0].buckets.codes, Scan(self._atoms, screen=False)
        best = answer_by_codes(self._atoms, codes, scan, question).scores[:, 0]
        # Where nothing is better than the point itself, nothing is missed.
        gaps = np.where(best > start, best - start, np.inf)
        size, budget = self._atoms.shape[0], 16.0
        while True:
            index = self._with(min(round(budget), size), proof=False)
            missed = (best - index.query(question.queries).scores[:, 0]) / gaps
            if 1.0 - missed.mean() >= ratio or index.budget == size:
                return index._with(index.budget, proof=self._proof)
            budget *= 1.25

    def _with(self, budget: int, *, proof: bool) -> LshIndex:
        """Return the same index with other options, and no tau."""
        promise = replace(self._promise, taus=(), cuts=(), budgets=())
        return LshIndex(self._atoms, self._tables, budget=budget, promise=promise, proof=proof)

    def _build_again(self, atoms: Atoms) -> LshIndex:
        """Draw new tables: what is promised is measured on the new atoms."""
        family, promise = self._tables.all[0].bucketing.family, replace(self._promise, cuts=(), budgets=())
        tables, promise = draw_tables(atoms, family, promise, self._tables.settings)
        budget = self._follow_budget(atoms)
        return LshIndex(atoms, tables, budget=budget, promise=promise, proof=self._proof)

    # ------------------------------------------------------------ saving

    def save(self, path: saved.PathLike) -> None:
        """Write the index to a file, whole or not at all; see `load`."""
        params = {"budget": self._budget, "proof": self._proof, **asdict(self._promise)}
        saved.save_index(path, NAME, self._tables.arrays(), params | self._tables.numbers(), self._atoms)

    @classmethod
    def load(cls, path: saved.PathLike, atoms: AtomsLike) -> LshIndex:
        """Read an index that `save` wrote, on the terms of `ClusterIndex.load`; StoreError if damaged."""
        rows, stored = saved.open_index(path, atoms, [NAME])
        with stored.reading():
            tables, promise = HashTables.of(stored, rows.shape), Promise.of(stored.params)
            if promise.taus:
                check_backed(promise.delta, tables.settings.tables)
                tables.aim(np.array(promise.cuts))  # refuses what does not fit the tables
        budget, proof = read_probing(stored, tables.all[0].buckets.codes, rows)
        return cls(rows, tables, budget=budget, promise=promise, proof=proof)

    def __repr__(self) -> str:
        return (
            f"LshIndex({self._atoms!r}, buckets={self.buckets}, tables={self._tables.settings.tables}, "
            f"copies={self._tables.settings.copies}, "
            f"budget={self._budget}, proof={self._proof}, {self.nbytes / 2**20:.1f} MiB)"
        )


# ---------------------------------------------------------------- what it costs

# For a ratio of 0.9, inside the hull and outside; benchmarks/claim_paper_tables.py measures them.
_NEEDED = ((32.0, 0.4), (2.0, 0.75))
"""A budget of ``a n^e`` atoms reaches 0.9; four times as many halve what is lost."""

_AXES, _RESCORED = 32, 24  # principal axes that it looks at; rows that a query reads one by one
_HASHED, _ARRANGED, _SAMPLED = 2.0, (30, 12_000), 2000.0
"""Products for one with a direction, for what else a row takes (per entry, and per row), and for an
entry of the sample whose principal axes are found."""


def _estimate(work: Workload) -> Estimate:
    """The codes of `budget` atoms, after the promises of all buckets."""
    n, d = work.n, work.d
    factor, exponent = _NEEDED[0 if work.interior else 1]
    known = factor * math.pow(n, exponent)
    wish = (0.1 / (1.0 - work.ratio)) ** 2 * known if work.ratio < 1.0 else known
    budget = min(n, math.ceil(max(PER_BUCKET, min(wish, n / 4))))
    values = 2 * max(1, round(math.sqrt(n / PER_BUCKET) / 2.0))  # of each of the two codes of a bucket
    per_entry, per_row = _ARRANGED
    products = _HASHED * n * ((values + per_entry) * d + per_row) + _SAMPLED * min(n, SAMPLE) * d
    reads = code_bytes(budget, d) + 2.0 * values**2
    return Estimate(
        recipe=f"LshIndex.build(atoms, axes={_AXES}, budget={budget})",
        make=partial(LshIndex.build, axes=_AXES, budget=budget),
        build=work.build_seconds(products, passes=2),
        query=work.query_seconds(reads, scattered=True, shared=False) + work.fetch_seconds(_RESCORED),
        scored=budget + values,
        nbytes=code_bytes(n, d) + 8.0 * (n + values**2) + values * (4.0 * d),
        ratio=max(0.0, 1.0 - 0.1 * math.sqrt(known / budget)),
    )


LSH = IndexKind(
    name=NAME,
    title="LshIndex",
    build=LshIndex.build,
    load=LshIndex.load,
    expected=_estimate,
    passes=2,
    takes_ratio=True,
)


PER_BUCKET = 96
SAMPLE = 20_000  # atoms that tell centre, scale, norms and principal axes


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawSettings:
    """What tables are drawn with, again after an edit; as of `LshIndex.build`."""

    tables: int
    copies: int
    axes: int | None
    bucket: float | None
    seed: int

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> DrawSettings:
        """Return those that were saved, or that a caller gives."""
        axes, bucket = given["axes"], given["bucket"]
        return cls(
            tables=count(given["tables"], "tables", low=1),
            copies=count(given["copies"], "copies", low=1),
            axes=None if axes is None else count(axes, "axes", low=1),
            bucket=None if bucket is None else number(bucket, "bucket", low=1.0),
            seed=count(given["seed"], "seed"),
        )


@dataclass(frozen=True, slots=True, eq=False)
class HashTables:
    """Buckets of atoms by several hashes."""

    all: list[BucketTable[Hash]]  # copy after copy
    settings: DrawSettings

    @property
    def radius(self) -> float:
        """R, at least the largest |s - m|."""
        codes = self.all[0].buckets.codes
        return math.ldexp(codes.height + codes.error, codes.exponent)

    def aim(self, cuts: Vector) -> list[BucketTable[Hash]]:
        """The same tables, probed as far as a promise takes."""
        ranges = {len(hashing.norms) for _, hashing in self.all}
        require(ranges == {cuts.shape[1]}, "cuts", f"one for each range of norms, {ranges}", cuts.shape[1])
        return [BucketTable(buckets, replace(hashing, cuts=cuts)) for buckets, hashing in self.all]

    # ------------------------------------------------------------ to be saved

    def arrays(self) -> dict[str, NDArray[Any]]:
        """What is to be saved, with `numbers`."""
        arrays: dict[str, NDArray[Any]] = {}
        for i, (buckets, hashing) in enumerate(self.all):
            arrays |= buckets.arrays(f"table{i}") | hashing.arrays(f"hash{i}")
        return arrays

    def numbers(self) -> dict[str, Any]:
        """What is to be saved, with `arrays`."""
        tables = {
            str(i): {"codes": buckets.codes.numbers(), "hash": hashing.numbers()}
            for i, (buckets, hashing) in enumerate(self.all)
        }
        return {"settings": asdict(self.settings), "tables": tables}

    @classmethod
    def of(cls, stored: Stored, shape: tuple[int, int]) -> HashTables:
        """Put together what was saved; whatever it holds, it can be searched."""
        params, tables = stored.params, []
        for i in range(len(params["tables"])):
            numbers = params["tables"][str(i)]
            hashing = Hash.of(stored, numbers["hash"], shape[1], f"hash{i}")
            buckets = Buckets.of(stored, numbers["codes"], shape, hashing.buckets, f"table{i}")
            tables.append(BucketTable(buckets, hashing))
        settings = DrawSettings.of(params["settings"])
        wanted = settings.tables * settings.copies
        require(len(tables) == wanted, "tables", f"{wanted}, those of all copies", len(tables))
        return cls(tables, settings)


def draw_tables(
    atoms: Atoms, family: Family, promise: Promise, settings: DrawSettings
) -> tuple[HashTables, Promise]:
    """Draw and fill all tables; measure what the promise takes."""
    n, taus, delta, tables = atoms.shape[0], promise.taus, promise.delta, settings.tables
    rng = np.random.default_rng(settings.seed)
    with one_blas_thread():  # rotations and projections have the same bits at any thread count
        sample = sample_rows(atoms, np.sort(rng.permutation(n)[:SAMPLE]))
        length = settings.bucket or PER_BUCKET
        if taus:
            length = choose_length(family, sample, n, taus, tables=tables, delta=delta)
        filled = []
        for _ in range(tables * settings.copies):
            hashing = draw_hash(family, sample, n, per_bucket=length, rng=rng, axes=settings.axes)
            filled.append(BucketTable(fill_buckets(atoms, hashing, hashing.centre), hashing))
        made, hashing = HashTables(filled, settings), filled[0].bucketing
        if not taus:
            return made, promise
        radius = min(made.radius * hashing.unit, FAR * math.sqrt(atoms.shape[1]))
        options: dict[str, Any] = {"delta": delta, "tables": tables, "rng": rng}
        # What one table shows is not what another does: the lowest cut holds for all of them.
        each = [find_cuts(table.bucketing, radius, taus, **options) for table in filled]
        cuts = np.min(each, axis=0)
        sizes = np.diff(filled[0].buckets.offsets)
        found = count_typical(replace(hashing, cuts=cuts), sizes, hashing.scale(sample), rng)
    return made, replace(promise, cuts=tuple(map(tuple, cuts.tolist())), budgets=tuple(found.tolist()))
