"""`ClusterIndex`: buckets of k-means, probed in the order of their promise."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any, final

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_matrix

from wolfhound.core.contracts import Atoms, AtomsLike, Ids, Ints, Matrix, Singles, Vector
from wolfhound.core.progress import read_rows, report_rows, show_progress
from wolfhound.core.rounding import product
from wolfhound.core.threads import map_ordered
from wolfhound.core.validate import count, flag, number, require
from wolfhound.data.atoms import ArrayAtoms, append_rows, as_atoms, check_removed, remove_rows
from wolfhound.oracles import indexes as saved
from wolfhound.oracles._probe_kernels import Promises
from wolfhound.oracles.buckets import (
    FAR,
    Buckets,
    BucketTable,
    ProbingIndex,
    default_budget,
    fill_buckets,
    read_probing,
    sample_rows,
    scale_rows,
    unit_of,
)
from wolfhound.oracles.indexes import Estimate, IndexKind, Workload
from wolfhound.oracles.int8._kernels import bound_queries
from wolfhound.oracles.int8.codes import Codes, encode_atoms
from wolfhound.oracles.int8.layout import empty_queries
from wolfhound.oracles.int8.scan import code_bytes

NAME = "clusters"

PER_CLUSTER = 100  # atoms of the sample that k-means has per cluster: 40 are quicker, and find less


@dataclass(frozen=True, slots=True, eq=False)
class Clusters:
    """A `Bucketing` by the nearest of some centres."""

    centres: NDArray[np.float32]  # (c, d)
    unit: float  # the power of two by which atoms are multiplied, so that float32 holds them
    codes: Codes  # of the centres; the "error" of each: what its best atom may add, per unit of the query

    @property
    def buckets(self) -> int:
        """How many centres there are."""
        return len(self.centres)

    @property
    def cost(self) -> int:
        """Every centre is scored."""
        return len(self.centres)

    def assign(self, rows: Matrix) -> Ints:
        """Return the nearest centre of each row."""
        return nearest(self.centres, scale_rows(rows, self.unit))[0]

    def promises(self, queries: Vector, sizes: Vector) -> Promises:
        """Score of the centre, and what its best atom adds to it."""
        out = np.empty((len(queries), len(self.codes.scales)), np.float32)
        asked = empty_queries(queries.shape[1], np.empty((len(queries), 0), np.int64))
        bound_queries(queries, sizes, self.codes.bare, asked, out)
        return Promises.plain(np.ascontiguousarray(out[:, : self.buckets]))

    @classmethod
    def train(cls, rows: Matrix, clusters: int, n: int, *, seed: int) -> Clusters:
        """Run k-means on a sample; the best of k scores of deviation s adds about s sqrt(2 log k)."""
        unit = unit_of(float(np.abs(rows).max()))
        near = scale_rows(rows, unit)
        centres = kmeans(near, clusters, seed=seed)
        owner, squares = nearest(centres, near)
        sizes = np.bincount(owner, minlength=clusters)
        total = np.bincount(owner, squares, minlength=clusters)
        mean = np.where(sizes > 0, total / np.maximum(sizes, 1), squares.mean(dtype=np.float64))
        expected = np.maximum(sizes * (n / len(rows)), 2.0)
        above = np.sqrt(mean / rows.shape[1] * 2.0 * np.log(expected))
        # In the precision of the atoms: a second one is compiled too.
        exact = ArrayAtoms(centres.astype(rows.dtype))
        codes = encode_atoms(exact, centre=centres.mean(axis=0, dtype=np.float64))
        errors = np.zeros_like(codes.errors)
        errors[:clusters] = np.ldexp(above, -codes.exponent)
        return cls(centres, unit, replace(codes, errors=errors))


CROWDED = 2.0  # times fuller that the cluster of an atom may be, on average, than when k-means was trained

_LARGEST = 1 << 60


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterTraining:
    """What k-means was trained on, n atoms of this `crowding`, and how many rows came or went since."""

    n: int
    crowding: float
    seed: int
    edits: int = 0

    def is_stale(self, offsets: Ints) -> bool:
        """Whether to train anew.

        That is so where the cluster of an atom holds twice as many as it did, by growth or
        because what was added falls into few clusters, where half of the atoms have gone, or where
        as many rows came and went as there were: training is then paid for by as many edits.
        """
        fuller = crowding(offsets) > CROWDED * max(self.crowding, 1.0)
        return fuller or 2 * int(offsets[-1]) < self.n or self.edits >= self.n

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> ClusterTraining:
        """Return one that was saved."""
        n, seed, edits = (count(given[name], name) for name in ("n", "seed", "edits"))
        require(n < _LARGEST, "n", "of moderate size", n)
        return cls(n=n, crowding=number(given["crowding"], "crowding", low=0.0), seed=seed, edits=edits)


def crowding(offsets: Ints) -> float:
    """Atoms in the cluster of an atom, on average over the atoms: 2.5 for clusters of 1 and 3."""
    return float(np.square(np.diff(offsets).astype(np.float64)).sum() / offsets[-1])


@final
class ClusterIndex(ProbingIndex):
    """Probes the clusters of atoms that promise the highest scores.

    Int8 codes of the atoms, cluster after cluster, are scanned from the most
    promising cluster on, and the best few are scored again in float64. With
    thresholds, the number of atoms probed doubles until the score is reached, up
    to a quarter of all. Nothing is proved (bounds are inf), except with `proof`.

    Made by `build` or `load`.

    Examples
    --------
    >>> rows = np.random.default_rng(0).standard_normal((2000, 8))
    >>> hits = ClusterIndex.build(rows).query(rows[:1])
    >>> hits.scores.shape, bool(hits.scored[0] < 2000), hits.bounds
    ((1, 1), True, array([inf]))
    """

    def __init__(
        self,
        atoms: Atoms,
        clusters: Clusters,
        buckets: Buckets,
        *,
        budget: int,
        proof: bool,
        training: ClusterTraining,
    ) -> None:
        super().__init__(atoms, [BucketTable(buckets, clusters)], budget=budget, proof=proof)
        self._clusters = clusters
        self._buckets = buckets
        self._training = training

    @classmethod
    def build(
        cls,
        atoms: AtomsLike,
        *,
        clusters: int | None = None,
        budget: int | None = None,
        proof: bool = False,
        progress: bool | None = None,
        seed: int = 0,
    ) -> ClusterIndex:
        """Train k-means on a sample, then assign and encode all atoms.

        Parameters
        ----------
        atoms
            Atoms, an array or a path.
        clusters
            How many; default 2 sqrt(n).
        budget
            Atoms to probe for a query, with thresholds in the first round;
            default 8 sqrt(n).
        proof
            Whether a query that misses its threshold, or has none, is answered
            by a certified pass over the codes.
        progress
            As for `minimize`.
        seed
            Of the sample and of k-means.
        """
        rows = as_atoms(atoms)
        n = rows.shape[0]
        chosen = _default_clusters(n) if clusters is None else min(n, count(clusters, "clusters", low=1))
        first = default_budget(rows) if budget is None else count(budget, "budget", low=1)
        seed = count(seed, "seed")
        rng = np.random.default_rng(seed)
        with show_progress(progress, read_rows("building", 2 * n)):
            sample = sample_rows(rows, np.sort(rng.permutation(n)[: PER_CLUSTER * chosen]))
            made = Clusters.train(sample, chosen, n, seed=seed)
            buckets = fill_buckets(rows, made, sample.mean(axis=0, dtype=np.float64))
        training = ClusterTraining(n=n, crowding=crowding(buckets.offsets), seed=seed)
        return cls(rows, made, buckets, budget=first, proof=flag(proof, "proof"), training=training)

    def with_budget(self, budget: int) -> ClusterIndex:
        """Return the same index with another budget; nothing is copied."""
        first = count(budget, "budget", low=1)
        options: dict[str, Any] = {"proof": self._proof, "training": self._training}
        return ClusterIndex(self._atoms, self._clusters, self._buckets, budget=first, **options)

    # ------------------------------------------------------------ edits

    def append(self, rows: AtomsLike, *, rebuild: bool | None = None) -> ClusterIndex:
        """Return the index of the atoms followed by these rows, whose ids are n, n + 1, ...

        It is what `build` would make of them with the centres of this index, which stays as it is:
        the new rows are assigned, and all are encoded. A default budget stays the default.

        Parameters
        ----------
        rows : (r, d) array, or whatever `build` takes
            Rows in memory are joined to atoms in memory; all else stays where it is.
        rebuild
            Whether to train k-means again on all atoms; default: where it pays, see
            `ClusterTraining.is_stale`.
        """
        return self._edit(append_rows(self._atoms, rows), self._buckets.owners(), rebuild)

    def remove(self, ids: ArrayLike, *, rebuild: bool | None = None) -> ClusterIndex:
        """Return the index of the atoms without some; those behind move up, as with ``numpy.delete``.

        Parameters
        ----------
        ids : (r,) integers
            Distinct; one atom must stay.
        rebuild
            As of `append`.
        """
        gone = check_removed(self._atoms, ids)
        if not len(gone):
            return self
        known = np.delete(self._buckets.owners(), gone)
        return self._edit(remove_rows(self._atoms, gone), known, rebuild)

    def _edit(self, atoms: Atoms, known: Ints, rebuild: bool | None) -> ClusterIndex:
        """Return the index of other atoms, of which the clusters of the first are known."""
        again = None if rebuild is None else flag(rebuild, "rebuild")
        rows = abs(atoms.shape[0] - self._atoms.shape[0])
        training = replace(self._training, edits=self._training.edits + rows)
        options: dict[str, Any] = {"budget": self._follow_budget(atoms), "proof": self._proof}
        if not again:
            buckets = fill_buckets(atoms, self._clusters, self._buckets.codes.centre, known)
            if again is False or not training.is_stale(buckets.offsets):
                return ClusterIndex(atoms, self._clusters, buckets, training=training, **options)
        chosen = self._clusters.buckets
        clusters = None if chosen == _default_clusters(training.n) else chosen
        return ClusterIndex.build(atoms, clusters=clusters, seed=training.seed, **options)

    @property
    def nbytes(self) -> int:
        """Memory that the index takes."""
        return self._buckets.nbytes + self._clusters.codes.nbytes + self._clusters.centres.nbytes

    def save(self, path: saved.PathLike) -> None:
        """Write the index to a file, whole or not at all; see `load`."""
        params = {"budget": self._budget, "proof": self._proof, "unit": self._clusters.unit}
        codes = {"training": asdict(self._training)}
        codes |= {"codes": self._buckets.codes.numbers(), "centre_codes": self._clusters.codes.numbers()}
        arrays = self._buckets.arrays("codes") | self._clusters.codes.arrays("centre_codes")
        arrays["centres"] = self._clusters.centres
        saved.save_index(path, NAME, arrays, {**params, **codes}, self._atoms)

    @classmethod
    def load(cls, path: saved.PathLike, atoms: AtomsLike) -> ClusterIndex:
        """Read an index that `save` wrote; the atoms must be the same: all are read, and hashed.

        With `proof`, one pass proves that the codes are those of the atoms, as for
        `Int8Scan.load`. Without, a file that was forged gives bad answers at worst.

        Raises
        ------
        StoreError
            If the file is damaged, or was made from other atoms.
        """
        rows, stored = saved.open_index(path, atoms, [NAME])
        params, d = stored.params, rows.shape[1]
        with stored.reading():
            unit = number(params["unit"], "unit", low=0.0, strict=True)
            centres = stored.array("centres", np.float32, (None, d), low=-FAR, high=FAR)
            codes = Codes.of(stored, params["centre_codes"], centres.shape, "centre_codes")
            buckets = Buckets.of(stored, params["codes"], rows.shape, len(centres), "codes")
            training = ClusterTraining.of(params["training"])
        budget, proof = read_probing(stored, buckets.codes, rows)
        clusters = Clusters(centres, unit, codes)
        return cls(rows, clusters, buckets, budget=budget, proof=proof, training=training)

    def __repr__(self) -> str:
        return (
            f"ClusterIndex({self._atoms!r}, clusters={self._clusters.buckets}, budget={self._budget}, "
            f"proof={self._proof}, {self.nbytes / 2**20:.1f} MiB)"
        )


def _default_clusters(n: int) -> int:
    return min(n, max(1, round(2.0 * math.sqrt(n))))


# ---------------------------------------------------------------- what it costs

_RESCORED = 24  # rows that a query reads one by one

# Mean gap ratios late in Frank-Wolfe runs on word vectors, images and mixtures, the
# lowest of them: (target inside the hull, outside). benchmarks/claim_ratio.py measures them.
_LOSS = (0.2, 0.35)  # a budget of ``f sqrt(n)`` atoms reaches ``1 - loss / sqrt(f)``
_LEARNT = 1.6  # products for one of k-means


def _estimate(work: Workload) -> Estimate:
    """The codes of `budget` atoms, and those of all centres."""
    n, d, root, loss = work.n, work.d, math.sqrt(work.n), _LOSS[0 if work.interior else 1]
    wish = (loss / (1.0 - work.ratio)) ** 2 * root if work.ratio < 1.0 else 0.0
    # Beyond a quarter of the atoms a pass is the better way.
    budget = min(n, math.ceil(max(8.0 * root, min(wish, n / 4))))
    centres = _default_clusters(n)
    # To train centres on a sample, find its spread, and assign all rows.
    products = float(centres) * d * ((_ITERATIONS + 1) * min(n, PER_CLUSTER * centres) + n)
    reads = code_bytes(centres + budget, d)
    return Estimate(
        recipe=f"ClusterIndex.build(atoms, budget={budget})",
        make=partial(ClusterIndex.build, budget=budget),
        build=work.build_seconds(_LEARNT * products, encoded=work.nbytes, passes=2),
        query=work.query_seconds(reads, scattered=True, shared=False) + work.fetch_seconds(_RESCORED),
        scored=budget + centres,
        nbytes=code_bytes(n, d) + 8.0 * n + centres * (4.0 * d) + code_bytes(centres, d),
        ratio=max(0.0, 1.0 - loss / math.sqrt(budget / root)),
    )


CLUSTERS = IndexKind(
    name=NAME,
    title="ClusterIndex",
    build=ClusterIndex.build,
    load=ClusterIndex.load,
    expected=_estimate,
    passes=2,
    takes_ratio=True,
)


_TILE = 1 << 22  # scores of a block of rows against all centres: 16 MB
_ITERATIONS = 6


def kmeans(rows: Matrix, clusters: int, *, seed: int, iterations: int = _ITERATIONS) -> Singles:
    """Centres of clusters of finite rows, by Lloyd's iterations from random rows.

    The same bits at any thread count, which faiss.Kmeans does not promise. A
    cluster that loses all its rows starts again at one of the rows that are
    farthest from their centres.

    Fewer distinct rows than clusters give repeated centres; 0 iterations keep the random rows.
    """
    rows = rows.astype(np.float32, copy=False)
    centres = rows[np.resize(np.random.default_rng(seed).permutation(len(rows)), clusters)]
    for _ in range(iterations):
        ids, distances = nearest(centres, rows)
        centres = _means(rows, ids, centres)
        empty = np.flatnonzero(np.bincount(ids, minlength=clusters) == 0)[: len(rows)]
        if len(empty):
            far = np.argsort(-distances, kind="stable")[: len(empty)]
            centres[empty] = rows[far]
    return centres


def nearest(centres: Matrix, rows: Matrix) -> tuple[Ids, Singles]:
    """Nearest centre of each row, and its squared distance; ties: smallest id.

    Exact up to float32 rounding of the products, after centring and scaling; distances are computed from the
    difference, without cancellation, inf on overflow. The same bits at any thread count.
    """
    centres, rows = (each.astype(np.float32, copy=False) for each in (centres, rows))
    middle = centres.mean(axis=0, dtype=np.float64).astype(np.float32)
    # A power of two, so that squares of huge or tiny entries stay in range.
    largest = max(float(max(each.max(), -each.min())) for each in (rows, centres))
    exponent = min(126, -int(np.frexp(largest)[1]))
    scale = np.float32(2.0**exponent)
    moved = centres * scale - middle * scale
    half = (-0.5 * np.square(moved, dtype=np.float64).sum(axis=1)).astype(np.float32)

    def assign(block: Singles) -> tuple[Ids, Singles]:
        here = block * scale
        here -= middle * scale
        scores = product(here, moved.T)
        scores += half
        ids = scores.argmax(axis=1)
        here -= moved[ids]
        with np.errstate(over="ignore"):
            squares = np.ldexp(np.einsum("ij,ij->i", here, here).astype(np.float64), -2 * exponent)
            return ids, squares.astype(np.float32)

    step = max(1, min(_TILE // len(centres), 1 << 16))
    parts = []
    for part in map_ordered(assign, (rows[at : at + step] for at in range(0, len(rows), step))):
        report_rows(0)  # it may take long
        parts.append(part)
    ids, distances = (np.concatenate(part) for part in zip(*parts, strict=True))
    return ids, distances


def _means(rows: Singles, ids: Ids, old: Singles) -> Singles:
    """Mean of the rows of each cluster; the old centre where there are none."""
    counts: Ints = np.bincount(ids, minlength=len(old))
    bounds = np.concatenate([[0], np.cumsum(counts)])
    order = np.argsort(ids, kind="stable")
    shares = np.repeat((1.0 / np.maximum(counts, 1)).astype(np.float32), counts)
    means = csr_matrix((shares, order, bounds), shape=(len(old), len(rows))) @ rows
    return np.where(counts[:, None] > 0, means, old)
