"""Norms of the atoms, measured while the first pass reads them anyway."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from wolfhound.atoms import check_finite
from wolfhound.core import Atoms, Matrix, Singles, Vector
from wolfhound.oracles import _scan_kernels as kernels
from wolfhound.rounding import TINY, UNIT

_SQUARES_UNDERFLOW = 1e-150
"""Norms below are known by the largest entry: their squares say too little."""


class Norms(NamedTuple):
    """What a whole pass has measured; never written to.

    Attributes
    ----------
    radius : float
        The largest norm, rounded up.
    each : (n,) float32
        Norms, rounded up; empty if they are not kept.
    """

    radius: float
    each: Singles


class Gauge:
    """Measures the atoms during one pass, which also checks that they are finite.

    A pass has its own: passes of other threads measure for themselves.

    Parameters
    ----------
    atoms
        What is measured.
    known
        What an earlier pass has measured: nothing is measured again.
    keep
        Whether the norm of each atom is kept (4n bytes), else only the maximum.
    """

    def __init__(self, atoms: Atoms, known: Norms | None = None, *, keep: bool) -> None:
        n, self._d = atoms.shape
        self._known = known
        self._each = np.empty(n if keep and known is None else 0, np.float32)
        self._tops: list[float] = []

    def norms(self) -> Norms:
        """Return what is known after a pass that has read all atoms."""
        return Norms(max(self._tops), self._each) if self._known is None else self._known

    def room(self, rows: int) -> Vector:
        """Return room for the squared norms of a block; none if they are known."""
        return np.empty(rows if self._known is None else 0)

    def measure(self, first: int, block: Matrix) -> Singles:
        """Return the norms of a block's rows, rounded up to float32."""
        if self._known is not None and len(self._known.each):
            return self._known.each[first : first + len(block)]
        squares = np.empty(len(block))
        kernels.square_all(block, squares)
        return self.note(first, block, squares)

    def note(self, first: int, block: Matrix, squares: Vector) -> Singles:
        """Take the squared norms of a block, once; return its norms, rounded up."""
        stop = first + len(block)
        norms = self._each[first:stop] if len(self._each) else np.empty(len(block), np.float32)
        top = kernels.norms_above(squares, self._d, norms)
        if not math.isfinite(top):
            check_finite(block, first)
            row = first + int(np.flatnonzero(~np.isfinite(squares))[0])
            raise ValueError(f"`atoms` must have norms below 1e154. Got a larger one in row {row}.")
        if top < _SQUARES_UNDERFLOW:
            top = min(top, math.sqrt(self._d) * float(np.abs(block).max()) * (1.0 + 8.0 * UNIT) + TINY)
        self._tops.append(top)
        return norms
