"""Indexes of faiss as the claims compare them: built with care for inner products, asked as oracles.

Atoms are centred, which adds one number to all scores of a query and spares codes; atoms belong to
the list of the nearest centre, and lists are probed by inner product. The same bits at any thread count.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import faiss as untyped_faiss
import numpy as np
from reference import Matrix

from wolfhound import FaissIndex
from wolfhound.oracles.clusters import kmeans, nearest

faiss: Any = untyped_faiss

_PER_CODE, _PER_LIST = 8192, 64
"""Rows that codes are trained on, and rows per list."""


def pq(atoms: Matrix) -> FaissIndex:
    """Product quantisation, 4 bits for two columns, 256 candidates scored again."""
    rows = _centre(atoms)
    index = faiss.IndexPQFastScan(rows.shape[1], _codes(rows), 4, faiss.METRIC_INNER_PRODUCT)
    _train(index, _sample(rows, _PER_CODE))
    index.add(rows)
    return FaissIndex(index, atoms, rerank=256)


def ivf_pq(atoms: Matrix) -> FaissIndex:
    """The same codes in 4 sqrt(n) lists, of which 5 % are read."""
    index = build_ivf_pq(atoms, round(4.0 * len(atoms) ** 0.5))
    index.nprobe = max(1, round(0.05 * index.nlist))
    return FaissIndex(index, atoms)


def hnsw(atoms: Matrix) -> FaissIndex:
    """Return a graph of near atoms, built by one thread so that it does not depend on their timing."""
    index = faiss.IndexHNSWFlat(atoms.shape[1], 32, faiss.METRIC_INNER_PRODUCT)
    index.hnsw.efConstruction, index.hnsw.efSearch = 40, 64
    before = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(1)
    index.add(_centre(atoms))
    faiss.omp_set_num_threads(before)
    return FaissIndex(index, atoms, rerank=16)


def sq8(atoms: Matrix, *, times: int = 2) -> Any:
    """A code of 8 bits for every number; of so many times the top the rows are scored: an index of faiss."""
    rows = np.asarray(atoms, np.float32)
    codes = faiss.IndexScalarQuantizer(
        rows.shape[1], faiss.ScalarQuantizer.QT_8bit, faiss.METRIC_INNER_PRODUCT
    )
    codes.train(_sample(rows, 100_000))
    codes.add(rows)
    index = faiss.IndexRefineFlat(codes, faiss.swig_ptr(rows))
    index.k_factor = float(times)
    return index


def build_ivf_pq(atoms: Matrix, lists: int) -> Any:
    """Lists of the nearest centres, quantised residuals, probed by inner product: an index of faiss."""
    rows = _centre(atoms)
    sample = _sample(rows, _PER_LIST * lists)
    centres = kmeans(sample, min(lists, len(rows)), seed=0)
    used, assigned = np.unique(nearest(centres, rows)[0], return_inverse=True)
    centres, width = centres[used], rows.shape[1]
    by_distance, by_product = faiss.IndexFlatL2(width), faiss.IndexFlatIP(width)
    by_distance.add(centres)
    by_product.add(centres)
    shape = width, len(centres), _codes(rows), 4
    plain = faiss.IndexIVFPQ(by_distance, *shape, faiss.METRIC_INNER_PRODUCT)
    _train(plain, sample)
    ids, lists_of = np.arange(len(rows)), assigned.astype(np.int64)
    plain.add_core(len(rows), faiss.swig_ptr(rows), faiss.swig_ptr(ids), faiss.swig_ptr(lists_of))
    index = faiss.IndexIVFPQFastScan(plain)
    index.quantizer, index.own_fields = by_product, True
    by_product.this.disown()
    return index


def _centre(atoms: Matrix) -> Matrix:
    rows = np.asarray(atoms, np.float32)
    return np.ascontiguousarray(rows - rows.mean(axis=0, dtype=np.float64).astype(np.float32))


def _sample(rows: Matrix, size: int) -> Matrix:
    ids = np.sort(np.random.default_rng(0).choice(len(rows), min(len(rows), size), replace=False))
    return np.ascontiguousarray(rows[ids])


def _codes(rows: Matrix) -> int:
    """Codes of a row: one for two columns, where they come in pairs."""
    width = rows.shape[1]
    return int(width if width % 2 else width // 2)


def _train(index: Any, rows: Matrix) -> None:
    index.pq.cp.min_points_per_centroid = 1  # below it faiss prints a warning
    before = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(1)
    index.train(rows)
    faiss.omp_set_num_threads(before)
