"""Compiled loops of hashing: projections, and atoms above a cut."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import numpy as np

from wolfhound.core import Ints, Singles, Vector
from wolfhound.jit import lean_fast_kernel, lean_kernel
from wolfhound.oracles._probe_kernels import BINS, Promises, bin_of, per_unit, promise


@lean_fast_kernel
def project(units: Singles, directions: Singles, weight: float, i: int, out: Singles) -> None:
    """Write row i of out: weighted products with all directions, and their opposites if there is room."""
    wide = directions.shape[0]
    for w in range(wide):
        total = np.float32(0.0)
        for j in range(directions.shape[1]):
            total += units[j] * directions[w, j]
        out[i, w] = total * np.float32(weight)
        if out.shape[1] > wide:
            out[i, wide + w] = -out[i, w]


@lean_kernel
def project_queries(
    queries: Vector,
    sizes: Vector,
    hashing: tuple[Singles, Singles, Singles, Singles, Singles, float, float],
    out: tuple[Singles, Singles, Singles],
    units: Singles,
) -> None:
    """Project unit queries on the directions of both codes, and write what their best row adds.

    Parameters
    ----------
    queries : (m, d)
    sizes : (m,)
        Their norms, rounded up.
    hashing
        Fields of `Hash`: first, second, norms, shifts, variances, weight, above.
    out : (m, w) or (m, 2 w), the same, (m, r)
    units : (d,)
        Room for a query.
    """
    first, second, norms, shifts, variances, weight, above = hashing
    one, two, lift = out
    for i in range(queries.shape[0]):
        size = sizes[i] if 0.0 < sizes[i] < np.inf else np.inf
        spread = np.float32(0.0)
        for j in range(queries.shape[1]):
            units[j] = np.float32(queries[i, j] / size)
            spread += units[j] * units[j] * variances[j]
        project(units, first, weight, i, one)
        project(units, second, weight, i, two)
        project(units, shifts, 1.0, i, lift)
        added = np.float32(above) * np.sqrt(spread)
        for r in range(norms.shape[0]):
            lift[i, r] = added + lift[i, r] / norms[r]


@lean_kernel
def count_above(promises: Promises, sizes: Ints, cuts: Singles, room: Ints, out: Ints) -> None:
    """Atoms that are probed by the time that all buckets which promise at least a cut were.

    Parameters
    ----------
    promises
        What buckets promise.
    sizes : (buckets,)
        Atoms in each.
    cuts : (t,)
    room : (BINS,)
    out : (t, m)
    """
    first, second, norms, lift = promises
    for q in range(first.shape[0]):
        low = high = promise(norms[0], lift[q, 0], first[q, 0], second[q, 0])
        for r in range(norms.shape[0]):
            for i in range(first.shape[1]):
                for j in range(second.shape[1]):
                    promised = promise(norms[r], lift[q, r], first[q, i], second[q, j])
                    low, high = min(low, promised), max(high, promised)
        scale = per_unit(low, high, BINS)
        for b in range(BINS):
            room[b] = 0
        b = 0
        for r in range(norms.shape[0]):
            for i in range(first.shape[1]):
                for j in range(second.shape[1]):
                    promised = promise(norms[r], lift[q, r], first[q, i], second[q, j])
                    room[bin_of(promised, low, scale, BINS)] += sizes[b]
                    b += 1
        for t in range(cuts.shape[0]):
            # Within a bin the order is not that of promises: a bin that is cut counts whole.
            out[t, q] = 0
            for b in range(bin_of(cuts[t], low, scale, BINS), BINS):
                out[t, q] += room[b]
