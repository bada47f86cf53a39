"""The scale of rtol, as `minimize` measures it, for many targets at once."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from wolfhound.core import Ids, Ints, Vector
from wolfhound.gram._small_kernels import SAMPLE, TRIED


class ScalePool(NamedTuple):
    """Random atoms (p,), and their rows (p, d) in our units."""

    ids: Ids
    rows: Vector


def measure_scales(pool: ScalePool, targets: Vector, starts: Ints, banned: Ids) -> Vector:
    """The larger of the gap at the best of some atoms, and median less minimum of f over some.

    Parameters
    ----------
    pool
        Where the atoms come from.
    targets : (m, d)
        In the units of the pool.
    starts, banned
        Atoms that target i must not use are ``banned[starts[i]:starts[i + 1]]``.
    """
    out = locate_banned(pool.ids, starts, banned)
    squares = np.einsum("ij,ij->i", pool.rows, pool.rows)
    values = 0.5 * squares - targets @ pool.rows.T
    values[out] = np.inf
    each, near = np.arange(len(targets)), _first(values, TRIED).argmin(axis=1)
    slope = pool.rows[near] - targets
    prices = slope @ pool.rows.T
    prices[out] = np.inf
    gap = np.einsum("ij,ij->i", slope, pool.rows[near]) - prices.min(axis=1)
    sample = np.sort(_first(values, SAMPLE), axis=1)
    count = np.maximum(np.isfinite(sample).sum(axis=1), 1)
    median = 0.5 * (sample[each, (count - 1) // 2] + sample[each, count // 2])
    # A target none of whose pool may be used has no scale.
    known = np.isfinite(sample[:, 0])
    spread = np.where(known, median, 0.0) - np.where(known, sample[:, 0], 0.0)
    return np.asarray(np.maximum(np.where(known, gap, 0.0), spread))


def locate_banned(pool: Ids, starts: Ints, banned: Ids) -> tuple[Ints, Ints]:
    """Pairs (target, place in the pool) of atoms that must not be used."""
    order = np.argsort(pool)
    at = np.minimum(np.searchsorted(pool, banned, sorter=order), len(order) - 1)
    which = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    inside = pool[order[at]] == banned
    return which[inside], order[at[inside]]


def _first(values: Vector, count: int) -> NDArray[np.float64]:
    """The first finite values of each row; others are inf."""
    finite = np.isfinite(values)
    if finite[:, :count].all():
        return values[:, :count]
    return np.where(np.cumsum(finite, axis=1) <= count, values, np.inf)
