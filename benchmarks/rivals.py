"""The indexes that claim_lsh and claim_clusters compare, each with the parameters that are tried."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import functools
import itertools
import time
from collections.abc import Callable, Sequence
from typing import Any

import faiss as untyped_faiss
import faissed
import lineage
import numpy as np
from levels import Ladder, Setting
from reference import Matrix, Vector

import wolfhound
from wolfhound.core.contracts import Oracle
from wolfhound.oracles.hashes import CrossPolytope, SimHash
from wolfhound.oracles.lsh import LshIndex

faiss: Any = untyped_faiss

OURS, RIVAL = "LshIndex, any direction", "IVF-PQ FastScan"
AXES, CLUSTERS, PASS, HNSW = "LshIndex, principal axes", "ClusterIndex", "Int8Scan, a pass", "HNSW"
HNSW_SOME, HNSW_MOST = 100_000, 500_000
"""Atoms above which its build takes half a minute, and minutes."""
TABLES = 32
ALL_AXES, SOME_AXES = (None,), (6, 32)
"""Principal axes that hashes look at; `None`: all directions alike."""


def builders(n: int) -> dict[str, Callable[[Matrix], list[Ladder]]]:
    """What is compared at n atoms."""
    made: dict[str, Callable[[Matrix], list[Ladder]]] = {
        OURS: functools.partial(_hashed, family=CrossPolytope(), many=(1, 2), axes=ALL_AXES),
        AXES: functools.partial(_hashed, family=CrossPolytope(), many=(1,), axes=SOME_AXES),
        "LshIndex SimHash": functools.partial(_hashed, family=SimHash(), many=(1,), axes=ALL_AXES),
        "Simple-LSH tables": functools.partial(_tables, lifts=lineage.simple, family=lineage.sign_keys),
        "L2-ALSH tables": functools.partial(_tables, lifts=lineage.l2_alsh, family=lineage.floor_keys),
        "RandomSubset": _subsets,
    }
    return made | standards(n, hnsw=HNSW_SOME)


def standards(n: int, *, hnsw: int = HNSW_MOST) -> dict[str, Callable[[Matrix], list[Ladder]]]:
    """What every index is compared with at n atoms: the best of faiss, clusters, and a pass."""
    made: dict[str, Callable[[Matrix], list[Ladder]]] = {RIVAL: _ivf_pq, CLUSTERS: _clusters, PASS: _pass}
    return made | ({HNSW: _hnsw} if n <= hnsw else {})


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
    atoms: Matrix, *, family: CrossPolytope | SimHash, many: Sequence[int], axes: Sequence[int | None]
) -> list[Ladder]:
    ladders = []
    for tables, some in itertools.product(many, axes):
        begin = time.perf_counter()
        index = LshIndex.build(atoms, tables=tables, family=family, axes=some)
        seconds = time.perf_counter() - begin
        what = f"tables {tables}, axes {some or 'all'}, budget"
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
                    every=40,
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


def _pass(atoms: Matrix) -> list[Ladder]:
    begin = time.perf_counter()
    oracle = wolfhound.Int8Scan.build(atoms)
    return [[_asked(oracle, "exact", time.perf_counter() - begin, oracle.nbytes)]]


def _hnsw(atoms: Matrix) -> list[Ladder]:
    n, d = atoms.shape
    begin = time.perf_counter()
    index = faiss.IndexHNSWFlat(d, 32, faiss.METRIC_INNER_PRODUCT)
    index.hnsw.efConstruction = 80
    index.add(atoms)
    seconds = time.perf_counter() - begin
    return [
        [
            Setting(
                parameters=f"breadth {breadth}",
                scores=functools.partial(_found, index, faiss.SearchParametersHNSW(efSearch=breadth)),
                scored=None,
                build_seconds=seconds,
                nbytes=n * (4 * d + 4 * 2 * 32),
            )
            for breadth in (8, 16, 32, 64, 128, 256, 512, 1024)
        ]
    ]


def _ivf_pq(atoms: Matrix) -> list[Ladder]:
    """Lists of nearest centres, probed by inner product; the best are re-ranked, in C++."""
    begin = time.perf_counter()
    base = faissed.build_ivf_pq(atoms, int(4 * len(atoms) ** 0.5))
    index = faiss.IndexRefineFlat(base, faiss.swig_ptr(atoms))
    seconds, nbytes = time.perf_counter() - begin, faiss.serialize_index(base).nbytes
    probes = sorted({max(1, round(share * base.nlist)) for share in np.geomspace(0.0005, 0.3, 25)})
    return [
        [
            Setting(
                parameters=f"probes {some}/{base.nlist}, re-rank {wide}",
                scores=functools.partial(_found, index, _refining(some, wide)),
                scored=functools.partial(_probed, base, some, wide),
                build_seconds=seconds,
                nbytes=nbytes,
            )
            for some in probes
        ]
        for wide in (8, 16, 32, 64, 128)
    ]


def _refining(probes: int, wide: int) -> Any:
    return faiss.IndexRefineSearchParameters(
        k_factor=float(wide), base_index_params=faiss.IVFSearchParameters(nprobe=probes)
    )


def _found(index: Any, parameters: Any, queries: Vector) -> Vector:
    """The best score as faiss returns it: nothing of ours is in its time but the call."""
    scores, ids = index.search(queries.astype(np.float32), 1, params=parameters)
    return np.where(ids[:, 0] >= 0, scores[:, 0], -np.inf)


def _probed(base: Any, probes: int, wide: int, queries: Vector) -> Vector:
    """Codes in the lists that are probed, and rows re-ranked."""
    sizes = np.array([base.invlists.list_size(at) for at in range(base.nlist)])
    _, lists = base.quantizer.search(queries.astype(np.float32), probes)
    return np.asarray(np.where(lists >= 0, sizes[lists], 0).sum(1) + float(base.nlist + wide))
