"""k-means: the same bits at any thread count. Knows arrays only."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from wolfhound.core import Ids, Ints, Singles
from wolfhound.progress import report_rows
from wolfhound.threads import map_ordered
from wolfhound.validate import count, real_array, require, require_finite

_TILE = 1 << 22
"""Scores of a block of rows against all centres: 16 MB."""

_ITERATIONS = 6


def kmeans(rows: NDArray[Any], clusters: int, *, seed: int, iterations: int = _ITERATIONS) -> Singles:
    """Centres of clusters of rows, by Lloyd's iterations from random rows.

    The same bits at any thread count, which faiss.Kmeans does not promise. A
    cluster that loses all its rows starts again at one of the rows that are
    farthest from their centres.

    Parameters
    ----------
    rows : (r, d)
        Finite; fewer distinct rows than clusters give repeated centres.
    clusters
        How many centres.
    seed
        Of the random rows to begin with.
    iterations
        How often all rows are assigned; 0 keeps the random rows.

    Returns
    -------
    (clusters, d) float32

    Examples
    --------
    >>> kmeans(np.array([[0.0], [1.0], [10.0], [11.0]]), 2, seed=0).ravel().tolist()
    [10.5, 0.5]
    """
    table = _table(rows, "rows")
    clusters = count(clusters, "clusters", low=1)
    rng = np.random.default_rng(count(seed, "seed"))
    centres = table[np.resize(rng.permutation(len(table)), clusters)]
    for _ in range(count(iterations, "iterations")):
        ids, distances = nearest(centres, table)
        centres = _means(table, ids, centres)
        empty = np.flatnonzero(np.bincount(ids, minlength=clusters) == 0)[: len(table)]
        if len(empty):
            far = np.argsort(-distances, kind="stable")[: len(empty)]
            centres[empty] = table[far]
    return centres


def nearest(centres: NDArray[Any], rows: NDArray[Any]) -> tuple[Ids, Singles]:
    """Nearest centre of each row, and its squared distance; ties: smallest id.

    Exact up to float32 rounding of the products, after centring and scaling.
    The same bits at any thread count.

    Parameters
    ----------
    centres : (c, d)
    rows : (r, d)

    Returns
    -------
    ids : (r,) int64
    distances : (r,) float32
        Computed from the difference, without cancellation; inf on overflow.

    Examples
    --------
    >>> ids, distances = nearest(np.array([[0.0], [10.0]]), np.array([[9.0], [2.0]]))
    >>> ids, distances
    (array([1, 0]), array([1., 4.], dtype=float32))
    """
    centres, rows = _table(centres, "centres"), _table(rows, "rows")
    require(
        rows.shape[1] == centres.shape[1], "rows", f"an (r, {centres.shape[1]}) array", f"shape {rows.shape}"
    )
    middle = centres.mean(axis=0, dtype=np.float64).astype(np.float32)
    # A power of two, so that squares of huge or tiny entries stay in range.
    exponent = min(126, -int(np.frexp(max(_largest(rows), _largest(centres)))[1]))
    scale = np.float32(2.0**exponent)
    moved = centres * scale - middle * scale
    half = (-0.5 * np.square(moved, dtype=np.float64).sum(axis=1)).astype(np.float32)

    def assign(block: Singles) -> tuple[Ids, Singles]:
        here = block * scale
        here -= middle * scale
        scores = here @ moved.T
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


def _largest(rows: Singles) -> float:
    return float(max(rows.max(), -rows.min()))


def _table(value: NDArray[Any], name: str) -> Singles:
    out = np.ascontiguousarray(real_array(value, name, 2), np.float32)
    require(out.size > 0, name, "non-empty", f"shape {out.shape}")
    require_finite(out, name)
    return out


def kmeans_products(n: int, d: int, *, centres: int, sample: int) -> float:
    """Products to train centres on a sample of n rows, find its spread, and assign all rows."""
    return float(centres) * d * ((_ITERATIONS + 1) * min(n, sample) + n)
