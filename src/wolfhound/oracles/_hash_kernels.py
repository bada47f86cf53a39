"""Compiled loops of hashing: projections, promises of pairs of codes, planted pairs."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import numpy as np

from wolfhound.core import Ints, Singles, Vector
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
def mirror(values: Singles, out: Singles) -> None:
    """Write values, then their opposites; out: (m, 2 w)."""
    m, width = values.shape
    for i in range(m):
        for w in range(width):
            out[i, w], out[i, width + w] = values[i, w], -values[i, w]


@kernel
def project_queries(
    queries: Vector,
    sizes: Vector,
    hashing: tuple[Singles, Singles, Singles, Singles, Singles, float, float],
    out: tuple[Singles, Singles, Singles],
) -> None:
    """Project unit queries on the directions of both codes, and write what their best row adds.

    Parameters
    ----------
    queries : (m, d)
    sizes : (m,)
        Their norms, rounded up.
    hashing
        Fields of `Hash`: first, second, norms, shifts, variances, weight, above.
    out : (m, w), (m, w), (m, r)
    """
    first, second, norms, shifts, variances, weight, above = hashing
    one, two, lift = out
    m, d = queries.shape
    units, squares, spread = (
        np.empty((m, d), np.float32),
        np.empty((m, d), np.float32),
        np.empty((m, 1), np.float32),
    )
    for i in range(m):
        size = sizes[i] if 0.0 < sizes[i] < np.inf else np.inf
        for j in range(d):
            units[i, j] = np.float32(queries[i, j] / size)
            squares[i, j] = units[i, j] * units[i, j]
    project(units, first, one)
    project(units, second, two)
    project(squares, variances.reshape(1, d), spread)
    project(units, shifts, lift)
    for i in range(m):
        for w in range(one.shape[1]):
            one[i, w] *= np.float32(weight)
        for w in range(two.shape[1]):
            two[i, w] *= np.float32(weight)
        for r in range(norms.shape[0]):
            lift[i, r] = np.float32(above) * np.sqrt(spread[i, 0]) + lift[i, r] / norms[r]


@kernel
def count_above(promises: Promises, sizes: Ints, cuts: Singles, out: Ints) -> None:
    """Atoms that are probed by the time that all buckets which promise at least a cut were.

    Parameters
    ----------
    promises
        What buckets promise.
    sizes : (buckets,)
        Atoms in each.
    cuts : (t,)
    out : (t, m)
    """
    first, second, norms, lift = promises
    promised = np.empty(sizes.shape[0], np.float32)
    held = np.empty(BINS, np.int64)
    for q in range(first.shape[0]):
        b = 0
        for r in range(norms.shape[0]):
            for i in range(first.shape[1]):
                for j in range(second.shape[1]):
                    promised[b] = promise(norms[r], lift[q, r], first[q, i], second[q, j])
                    b += 1
        low, scale = spans(promised, BINS)
        held[:] = 0
        for b in range(sizes.shape[0]):
            held[bin_of(promised[b], low, scale, BINS)] += sizes[b]
        for t in range(cuts.shape[0]):
            # Within a bin the order is not that of promises: a bin that is cut counts whole.
            out[t, q] = held[bin_of(cuts[t], low, scale, BINS) :].sum()
