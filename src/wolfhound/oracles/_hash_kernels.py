"""Compiled loops of hashing: projections, promises of pairs of codes, planted pairs."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import numpy as np

from wolfhound.core import Ints, Singles
from wolfhound.jit import fast_kernel, kernel
from wolfhound.oracles._order_kernels import BINS, Promises, bin_of, promise, spans


@fast_kernel
def project(rows: Singles, directions: Singles, out: Singles) -> None:
    """Inner products of rows and directions; a row's do not depend on the others."""
    for i in range(rows.shape[0]):
        for w in range(directions.shape[0]):
            total = np.float32(0.0)
            for j in range(rows.shape[1]):
                total += rows[i, j] * directions[w, j]
            out[i, w] = total


@kernel
def measure_budgets(promises: Promises, sizes: Ints, owners: Ints, out: Ints) -> None:
    """Budget with which bucket ``owners[q]`` is surely probed for query q.

    Parameters
    ----------
    promises
        What buckets promise.
    sizes : (buckets,)
        Atoms in each.
    owners, out : (m,)
    """
    first, second, norms, lift = promises
    one, two = first.shape[1], second.shape[1]
    promised = np.empty(sizes.shape[0], np.float32)
    for q in range(first.shape[0]):
        b = 0
        for r in range(norms.shape[0]):
            for i in range(one):
                for j in range(two):
                    promised[b] = promise(norms[r], lift[q, r], first[q, i], second[q, j])
                    b += 1
        low, scale = spans(promised, BINS)
        own = bin_of(promised[owners[q]], low, scale)
        total = 0
        for b in range(sizes.shape[0]):
            if bin_of(promised[b], low, scale) >= own:
                total += sizes[b]
        out[q] = total
