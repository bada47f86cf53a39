"""The compiled loop that finds, row after row, the first row that was kept near it."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from wolfhound.core import Ids, Ints, Matrix
from wolfhound.jit import kernel

_STEP = 16
"""Entries between two looks whether rows are too far apart already."""


class RowCells(NamedTuple):
    """Cells of rows by some coordinates.

    Attributes
    ----------
    own, low, high : (n, axes) int32
        Of each row: its cell, and the first and the last in which rows near it can be.
    strides : (axes,) int64
        What a cell counts of each axis.
    heads, tails : (cells,) int64
        The first and the last row that was kept in each cell, -1 if there is none.
    links : (n,) int64
        The row that was kept next in the same cell, -1 if there is none.
    """

    own: Any
    low: Any
    high: Any
    strides: Ints
    heads: Ids
    tails: Ids
    links: Ids


@kernel
def is_near(rows: Matrix, a: int, b: int, unit: float, limit: float) -> bool:
    """Whether rows a and b are within ``limit / unit``: float64 sums of every fourth entry, then of these."""
    enough, d = limit * limit * (1.0 + 1e-12), rows.shape[1]
    s0 = s1 = s2 = s3 = 0.0
    for start in range(0, d, _STEP):
        stop = min(d, start + _STEP)
        whole = start + 4 * ((stop - start) // 4)
        for j in range(start, whole, 4):
            d0 = (np.float64(rows[a, j]) - np.float64(rows[b, j])) * unit
            d1 = (np.float64(rows[a, j + 1]) - np.float64(rows[b, j + 1])) * unit
            d2 = (np.float64(rows[a, j + 2]) - np.float64(rows[b, j + 2])) * unit
            d3 = (np.float64(rows[a, j + 3]) - np.float64(rows[b, j + 3])) * unit
            s0, s1, s2, s3 = s0 + d0 * d0, s1 + d1 * d1, s2 + d2 * d2, s3 + d3 * d3
        for j in range(whole, stop):
            d0 = (np.float64(rows[a, j]) - np.float64(rows[b, j])) * unit
            s0 += d0 * d0
        if (s0 + s1) + (s2 + s3) > enough:
            return False
    near: bool = np.sqrt((s0 + s1) + (s2 + s3)) <= limit
    return near


@kernel
def _first_near(rows: Matrix, i: int, best: int, head: int, links: Ids, unit: float, limit: float) -> int:
    """The first row of a chain, before `best`, that is near row i; else `best`."""
    j = head
    while 0 <= j < best:
        if is_near(rows, i, j, unit, limit):
            return j
        j = links[j]
    return best


@kernel
def lead(rows: Matrix, span: tuple[int, int], grid: RowCells, unit: float, limit: float, group: Ids) -> None:
    """Write for each row of a span the first kept row within the limit; a row that has none is kept.

    Rows before the span must have been looked at.
    """
    axes = grid.own.shape[1]
    at = np.empty(axes, np.int64)
    for i in range(span[0], span[1]):
        best = i
        at[:] = grid.low[i]
        axis = 0
        while axis < axes:
            cell = 0
            for k in range(axes):
                cell += at[k] * grid.strides[k]
            best = _first_near(rows, i, best, grid.heads[cell], grid.links, unit, limit)
            # The next cell of the box, or none.
            axis = 0
            while axis < axes and at[axis] == grid.high[i, axis]:
                at[axis] = grid.low[i, axis]
                axis += 1
            if axis < axes:
                at[axis] += 1
        group[i] = best
        if best == i:
            cell = 0
            for k in range(axes):
                cell += grid.own[i, k] * grid.strides[k]
            if grid.tails[cell] >= 0:
                grid.links[grid.tails[cell]] = i
            else:
                grid.heads[cell] = i
            grid.tails[cell] = i
