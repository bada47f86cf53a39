"""The indexes that claim_lsh compares, each with the parameters that are tried."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import functools
import itertools
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import faiss as untyped_faiss
import lineage
import numpy as np
from claim_clusters import BUILDERS
from reference import Matrix, Vector
from walks import Walk

import wolfhound
from wolfhound.atoms import ArrayAtoms
from wolfhound.core import Oracle
from wolfhound.oracles import _faiss
from wolfhound.oracles.hashes import CrossPolytope, SimHash
from wolfhound.oracles.lsh import LshIndex

faiss: Any = untyped_faiss

OURS, RIVAL = "LshIndex", "IVF-PQ FastScan"
HNSW_MOST = 500_000
"""Atoms above which its build takes minutes."""
TABLES = 32
HASHES = ((None, 96), (6, 96), (6, 32), (8, 64), (32, 96))
"""Principal axes that hashes look at, and atoms per bucket, that are tried."""
Search = Callable[[Vector], Vector]


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One index with parameters.

    Attributes
    ----------
    parameters : str
    scores : Search
        (m, d) queries -> (m,) scores of the answers.
    scored : Search, optional
        -> (m,) atoms that were scored for them.
    build_seconds : float
    nbytes : int
        Memory beside the atoms.
    every : int
        It is asked each so many queries only: some are a thousand times slower than others.
    """

    parameters: str
    scores: Search
    scored: Search | None
    build_seconds: float
    nbytes: int
    every: int = 1

    def asked(self, walk: Walk) -> Walk:
        """Return the queries that it is asked."""
        return walk.part(slice(None, None, self.every))


Ladder = list[Setting]
"""Settings of rising ratio."""


Tried = tuple[Setting, float, float]
"""A setting, its mean ratio and its seconds."""


def builders(n: int) -> dict[str, Callable[[Matrix], list[Ladder]]]:
    """What is compared at n atoms."""
    made: dict[str, Callable[[Matrix], list[Ladder]]] = {
        OURS: functools.partial(_hashed, family=CrossPolytope(), many=(1, 2), hashes=HASHES),
        f"{OURS}, any direction": functools.partial(_hashed, family=CrossPolytope(), many=(1, 2)),
        "LshIndex SimHash": functools.partial(_hashed, family=SimHash(), many=(1,)),
        "Simple-LSH tables": functools.partial(_tables, lifts=lineage.simple, family=lineage.sign_keys),
        "L2-ALSH tables": functools.partial(_tables, lifts=lineage.l2_alsh, family=lineage.floor_keys),
        RIVAL: _ivf_pq,
        "ClusterIndex": _clusters,
        "RandomSubset": _subsets,
    }
    return made | ({"HNSW": _hnsw} if n <= HNSW_MOST else {})


def _budgets(n: int) -> list[int]:
    """From sqrt(n)/4 by factors of 1.19."""
    return sorted({max(1, round(n**0.5 * factor)) for factor in 2.0 ** np.arange(-2, 7.6, 0.25)})


def _asked(oracle: Oracle, parameters: str, seconds: float, nbytes: int) -> Setting:
    def scores(queries: Vector) -> Vector:
        return oracle.query(queries).scores[:, 0].astype(np.float64)

    def scored(queries: Vector) -> Vector:
        return oracle.query(queries).scored.astype(np.float64)

    return Setting(parameters=parameters, scores=scores, scored=scored, build_seconds=seconds, nbytes=nbytes)


def _hashed(
    atoms: Matrix,
    *,
    family: CrossPolytope | SimHash,
    many: Sequence[int],
    hashes: Sequence[tuple[int | None, int]] = HASHES[:1],
) -> list[Ladder]:
    ladders = []
    for tables, (axes, bucket) in itertools.product(many, hashes):
        begin = time.perf_counter()
        index = LshIndex.build(atoms, tables=tables, family=family, axes=axes, bucket=bucket)
        seconds = time.perf_counter() - begin
        what = f"tables {tables}, axes {axes or 'all'}, bucket {bucket}, budget"
        ladders.append(
            [
                _asked(index.with_budget(budget), f"{what} {budget}", seconds, index.nbytes)
                for budget in _budgets(len(atoms))
            ]
        )
    return ladders


def _tables(
    atoms: Matrix, *, lifts: Callable[[Matrix], lineage.Lifts], family: Callable[..., lineage.Hash]
) -> list[Ladder]:
    """Keys of several lengths; for each, so many tables that they are not too slow to try."""
    ladders = []
    lifted = lifts(atoms)
    for hashes in lineage.bucket_bits(len(atoms), (1024, 256, 64)):
        begin = time.perf_counter()
        keys = family(lifted.dim, hashes=hashes, tables=TABLES, seed=hashes)
        made = lineage.Tables(atoms, lifted, keys)
        seconds = time.perf_counter() - begin
        ladders.append(
            [
                Setting(
                    parameters=f"{tables} tables of {hashes} hashes",
                    scores=functools.partial(_gathered, made, tables, 0),
                    scored=functools.partial(_gathered, made, tables, 1),
                    build_seconds=seconds * tables / TABLES,
                    nbytes=made.nbytes * tables // TABLES,
                    every=20,
                )
                for tables in (4, 8, 16, TABLES)
            ]
        )
    return ladders


def _gathered(tables: lineage.Tables, many: int, part: int, queries: Vector) -> Vector:
    return tables.query(queries, np.zeros(len(queries)), many)[part].astype(np.float64)


def _clusters(atoms: Matrix) -> list[Ladder]:
    begin = time.perf_counter()
    index = wolfhound.ClusterIndex.build(atoms)
    seconds = time.perf_counter() - begin
    budgets = _budgets(len(atoms))
    return [[_asked(index.with_budget(each), f"budget {each}", seconds, index.nbytes) for each in budgets]]


def _subsets(atoms: Matrix) -> list[Ladder]:
    sizes = sorted({max(1, round(share * len(atoms))) for share in 2.0 ** np.arange(-9.0, 0.1)})
    return [[_asked(wolfhound.RandomSubset(atoms, size=size), f"size {size}", 0.0, 0) for size in sizes]]


def _hnsw(atoms: Matrix) -> list[Ladder]:
    built = BUILDERS["HNSW"](atoms)
    costs: dict[str, Any] = {"scored": None, "build_seconds": built.seconds, "nbytes": built.nbytes}
    return [[Setting(parameters=s.parameters, scores=s.scores, **costs) for s in built.settings]]


def _ivf_pq(atoms: Matrix) -> list[Ladder]:
    """Lists of nearest centres, probed by inner product; the best are re-ranked, in C++."""
    begin = time.perf_counter()
    rows, rng = ArrayAtoms(atoms), np.random.default_rng(0)
    lists = int(4 * len(atoms) ** 0.5)
    base = _faiss.build_ivf_pq(rows, _faiss.frame(rows, 2), lists=lists, columns=2, rng=rng)
    index = faiss.IndexRefineFlat(base, faiss.swig_ptr(atoms))
    seconds, nbytes = time.perf_counter() - begin, _faiss.to_bytes(base).nbytes
    probes = sorted({max(1, round(share * base.nlist)) for share in np.geomspace(0.0005, 0.3, 25)})
    return [
        [
            Setting(
                parameters=f"probes {some}/{base.nlist}, re-rank {wide}",
                scores=functools.partial(_refined, index, some, wide, atoms),
                scored=functools.partial(_probed, base, some, wide),
                build_seconds=seconds,
                nbytes=nbytes,
            )
            for some in probes
        ]
        for wide in (8, 16, 32, 64, 128)
    ]


def _refined(index: Any, probes: int, wide: int, atoms: Matrix, queries: Vector) -> Vector:
    refine = faiss.IndexRefineSearchParameters(
        k_factor=float(wide), base_index_params=faiss.IVFSearchParameters(nprobe=probes)
    )
    _, ids = index.search(queries.astype(np.float32), 1, params=refine)
    found = atoms[ids[:, 0]].astype(np.float64)
    return np.where(ids[:, 0] >= 0, np.einsum("ij,ij->i", queries, found), -np.inf)


def _probed(base: Any, probes: int, wide: int, queries: Vector) -> Vector:
    """Codes in the lists that are probed, and rows re-ranked."""
    sizes = np.array([base.invlists.list_size(at) for at in range(base.nlist)])
    _, lists = base.quantizer.search(queries.astype(np.float32), probes)
    return np.asarray(np.where(lists >= 0, sizes[lists], 0).sum(1) + float(base.nlist + wide))
