"""Rows of any scale as float32 near 1: what k-means and hashes look at."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from wolfhound.atoms import finite_rows
from wolfhound.core import Atoms, Ids, Matrix, Vector
from wolfhound.oracles.int8.encoding import check_norms

FAR = 1e15
"""Entries beyond are cut off: squares of what is left fit into float32."""

_MOST = 1000


def sample_rows(atoms: Atoms, ids: Ids) -> Matrix:
    """Take rows; ValueError names one that is not finite, or too long for sums of squares."""
    rows = finite_rows(atoms, ids)
    with np.errstate(over="ignore"):
        long = np.flatnonzero(~np.isfinite(np.einsum("ij,ij->i", rows, rows, dtype=np.float64)))
    for bad in long:
        check_norms(rows[bad : bad + 1], int(ids[bad]))
    return rows


def unit_of(reach: float) -> float:
    """Return a power of two that brings a number near 1.

    Examples
    --------
    >>> unit_of(5.0)
    0.125
    """
    return math.ldexp(1.0, -min(max(math.frexp(reach)[1], -_MOST), _MOST))


def scale_rows(rows: Matrix, unit: float, centre: Vector | None = None) -> NDArray[np.float32]:
    """Return ``unit (rows - centre)`` in float32; what is far too large for it is cut off."""
    # In two steps: the unit of tiny float32 rows is too large for float32.
    half = math.ldexp(1.0, math.frexp(unit)[1] // 2)
    with np.errstate(over="ignore", invalid="ignore"):
        out = rows if centre is None else rows - centre.astype(rows.dtype)
        out = out * rows.dtype.type(half)
        out *= rows.dtype.type(unit / half)
    return np.clip(out, -FAR, FAR).astype(np.float32, copy=False)
