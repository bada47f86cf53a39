"""What the indexes of faiss cost, and how each is built by name."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from functools import partial
from typing import Any

from wolfhound.machine import Speed, fit_line
from wolfhound.oracles._kmeans import kmeans_products
from wolfhound.oracles.faiss_index import FaissIndex, Hnsw, IvfPq, Pq, Wrapped
from wolfhound.oracles.indexes import BuildTime, Estimate, IndexKind, Workload

# Mean gap ratios late in Frank-Wolfe runs on word vectors, images and mixtures, the
# lowest of them: (target inside the hull, outside). benchmarks/claim_ratio.py measures them.
TYPICAL_PQ = (0.98, 0.95)
TYPICAL_IVF_PQ = (0.95, 0.85)

_PROBED = 0.05
"""Share of the codes that `IvfPq` reads."""


def _code_bytes(n: float, d: int) -> float:
    """Bytes of n codes: 4 bits for two columns."""
    return n * (d + d % 2) / 4


def _code_seconds(work: Workload) -> float:
    """Seconds to learn and write codes."""
    learnt = min(1.0, work.n / 8192)
    return work.speeds.train * work.d * learnt + work.speeds.quantise * work.nbytes


def _estimate_pq(work: Workload) -> Estimate:
    """Every code, for every query."""
    codes = _code_bytes(work.n, work.d)
    return Estimate(
        recipe="FaissIndex.build(atoms, kind=Pq())",
        make=partial(FaissIndex.build, kind=Pq()),
        build=_code_seconds(work) + work.file_seconds(2),
        query=work.speeds.pq.seconds(codes, work.batch) + work.fetch_seconds(Pq().rerank),
        reads=codes,
        scored=work.n,
        nbytes=codes,
        ratio=TYPICAL_PQ[0 if work.interior else 1],
    )


def _estimate_ivf_pq(work: Workload) -> Estimate:
    """The codes of 5 % of the lists, after a pass over the centres of all."""
    n, d, speeds, lists = work.n, work.d, work.speeds, _lists(work.n)
    codes, centres = _PROBED * _code_bytes(n, d), 4.0 * lists * d
    return Estimate(
        recipe="FaissIndex.build(atoms, kind=IvfPq())",
        make=partial(FaissIndex.build, kind=IvfPq()),
        build=speeds.lists * _products(work) + _code_seconds(work) + work.file_seconds(3),
        query=speeds.ivfpq.seconds(codes + centres, work.batch) + work.fetch_seconds(IvfPq().rerank),
        reads=codes + centres,
        scored=_PROBED * n + lists,
        nbytes=_code_bytes(n, d) + 8.0 * n + centres,
        ratio=TYPICAL_IVF_PQ[0 if work.interior else 1],
    )


def _lists(n: int) -> int:
    return min(n, round(4.0 * math.sqrt(n)))


def _products(work: Workload) -> float:
    """Products of the k-means of `IvfPq`."""
    lists = _lists(work.n)
    return kmeans_products(work.n, work.d, centres=lists, sample=64 * lists)


def _list_speeds(speed: Speed, few: BuildTime, many: BuildTime) -> dict[str, Any]:
    work, seconds = many
    training = max(0.5 * seconds, seconds - _code_seconds(work))
    return {"ivfpq": speed, "lists": training / _products(work)}


def _speeds(speed: Speed, few: BuildTime, many: BuildTime) -> dict[str, Any]:
    learning, quantise = fit_line((few.work.nbytes, few.seconds), (many.work.nbytes, many.seconds))
    return {"pq": speed, "quantise": quantise, "train": learning / many.work.d}


PQ = IndexKind(
    name=Pq.name,
    title="FaissIndex Pq",
    build=FaissIndex.build,
    load=FaissIndex.load,
    expected=_estimate_pq,
    passes=2,
    speeds=_speeds,
)
IVF_PQ = IndexKind(
    name=IvfPq.name,
    title="FaissIndex IvfPq",
    build=partial(FaissIndex.build, kind=IvfPq()),
    load=FaissIndex.load,
    expected=_estimate_ivf_pq,
    passes=3,
    speeds=_list_speeds,
)
HNSW = IndexKind(
    name=Hnsw.name,
    title="FaissIndex Hnsw",
    build=partial(FaissIndex.build, kind=Hnsw()),
    load=FaissIndex.load,
    passes=2,
)
WRAPPED = IndexKind(name=Wrapped.name, title="FaissIndex Wrapped", load=FaissIndex.load)
