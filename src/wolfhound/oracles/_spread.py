"""Hits that are spread out, for a harvest: not k near-copies of one atom.

Neighbours on a grid are near-copies, and the plain top-k sits on one peak. A
third of the hits are the best atoms, a third the best of windows of consecutive
ids (atoms in the order of a grid), a third the best of random-sign buckets of
the top atoms (atoms in any order).
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import numpy as np

from wolfhound.core import Atoms, Ids, Vector
from wolfhound.oracles import _scan_kernels as kernels
from wolfhound.oracles._hits import highest
from wolfhound.threads import one_blas_thread

LEAST = 512
"""Fewer hits than this are simply the best."""

_TOP = 16384
_PER_HIT = 16
_SHARE = 32
_FEW = 4096
_BITS = 10
_SAMPLE = 8
_GATHER = 2 << 20


def top_size(n: int, k: int) -> int:
    """How many of the best atoms are put into buckets, for k spread hits.

    Gathering rows is dear, so they are a small share of many atoms.
    """
    return min(n, max(k, min(_TOP, _PER_HIT * k, max(_FEW, n // _SHARE))))


def window_size(n: int, k: int) -> int:
    """Atoms per window, so that there are about 2k windows."""
    return max(1, n // (2 * k))


def spread(atoms: Atoms, top: tuple[Vector, Ids], windows: tuple[Vector, Ids], k: int) -> tuple[Vector, Ids]:
    """Choose k of the top atoms and of the windows' best.

    Parameters
    ----------
    atoms
        Where the rows of the top are taken from.
    top : scores and ids
        At least k of the best atoms, ids ascending.
    windows : scores and ids
        The best atoms of the k/3 best windows, ids ascending.
    k
        Hits wanted.

    Returns
    -------
    scores, ids : (k,)
        Ids ascending.
    """
    scores, ids = top
    place = np.minimum(np.searchsorted(ids, windows[1]), len(ids) - 1)
    inside = ids[place] == windows[1]
    chosen = highest(scores, k // 3)
    chosen[place[inside]] = True
    buckets = _bucket_tops(atoms, scores, ids)
    chosen[buckets[highest(scores[buckets], k // 3)]] = True
    others = np.flatnonzero(~chosen)
    chosen[others[highest(scores[others], k - int(chosen.sum()) - int((~inside).sum()))]] = True
    all_ids = np.concatenate([ids[chosen], windows[1][~inside]])
    order = np.argsort(all_ids)
    return np.concatenate([scores[chosen], windows[0][~inside]])[order], all_ids[order]


def _bucket_tops(atoms: Atoms, scores: Vector, ids: Ids) -> Ids:
    """Places of the best atom of each random-sign bucket."""
    signs = np.random.default_rng(0).standard_normal((atoms.shape[1], _BITS)).astype(atoms.dtype)
    step = max(1, _GATHER // (atoms.shape[1] * atoms.dtype.itemsize))
    with one_blas_thread(), np.errstate(over="ignore", invalid="ignore"):
        # A few rows at a time: they are still in the cache when they are multiplied.
        sides = np.concatenate([atoms.take(ids[i : i + step]) @ signs for i in range(0, len(ids), step)])
        bits = sides > np.median(sides[::_SAMPLE], axis=0)
    places = np.full(1 << _BITS, -1, np.int64)
    kernels.bucket_tops(bits @ (1 << np.arange(_BITS)), scores, places)
    return places[places >= 0]
