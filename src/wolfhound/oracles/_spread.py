"""Hits that are spread out, for a harvest: not k near-copies of one atom.

Neighbours on a grid are near-copies, and the plain top-k sits on one peak. A
third of the hits are the best atoms, a third the best of windows of consecutive
ids (atoms in the order of a grid), a third the best of random-sign buckets of
the top atoms (atoms in any order).
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import numpy as np

from wolfhound.core import Atoms, Ids, Matrix, Vector
from wolfhound.threads import one_blas_thread

LEAST = 192
"""Fewer hits than this are simply the best."""

_TOP = 16384
_PER_HIT = 16
_BITS = 10


def top_size(n: int, k: int) -> int:
    """How many of the best atoms are put into buckets, for k spread hits."""
    return min(n, max(k, min(_TOP, _PER_HIT * k)))


def window_size(n: int, k: int) -> int:
    """Atoms per window, so that there are about 2k windows."""
    return max(1, n // (2 * k))


def spread(
    atoms: Atoms, top: tuple[Vector, Ids], windows: tuple[Vector, Ids], k: int
) -> tuple[Vector, Ids, Matrix]:
    """Choose k of the top atoms and of the windows' best.

    Parameters
    ----------
    atoms
        Where rows are taken from: once for the top, once for other windows.
    top : scores and ids
        More than k of the best atoms, best first.
    windows : scores and ids
        The best atoms of the best windows.
    k
        Hits wanted.

    Returns
    -------
    scores, ids, rows
        k of each, best first.
    """
    scores, ids = top
    order = np.argsort(ids)
    rows = atoms.take(ids[order])
    place = np.empty(len(ids), np.int64)
    place[order] = np.arange(len(ids))  # rows[place[i]] is the atom ids[i]

    fresh = ~np.isin(windows[1], ids)
    chosen = np.zeros(len(ids), bool)
    chosen[: k // 3] = True
    chosen[np.isin(ids, windows[1][~fresh])] = True
    chosen[_bucket_tops(rows, place)[: k // 3]] = True
    spare = k - int(chosen.sum()) - int(fresh.sum())
    chosen[np.flatnonzero(~chosen)[:spare]] = True

    outside = np.argsort(windows[1][fresh])
    more_scores, more_ids = windows[0][fresh][outside], windows[1][fresh][outside]
    all_scores = np.concatenate([scores[chosen], more_scores])
    all_ids = np.concatenate([ids[chosen], more_ids])
    all_rows = np.concatenate([rows[place[chosen]], atoms.take(more_ids)])
    best_first = np.lexsort((all_ids, -all_scores))
    return all_scores[best_first], all_ids[best_first], all_rows[best_first]


def _bucket_tops(rows: Matrix, place: Ids) -> Ids:
    """Ranks of the best atom of each random-sign bucket, best first."""
    signs = np.random.default_rng(0).standard_normal((rows.shape[1], _BITS)).astype(rows.dtype)
    with one_blas_thread(), np.errstate(over="ignore", invalid="ignore"):
        sides = rows @ signs
        bits = sides > np.median(sides, axis=0)
    keys = (bits @ (1 << np.arange(_BITS)))[place]
    return np.sort(np.unique(keys, return_index=True)[1])
