"""Norms of the atoms, measured while the first pass reads them anyway."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math

import numpy as np

from wolfhound.atoms import check_finite
from wolfhound.core import Atoms, Matrix, Vector
from wolfhound.oracles import _scan_kernels as kernels


class Gauge:
    """Norms of the atoms, rounded up; the first pass also checks that they are finite.

    Parameters
    ----------
    atoms
        What is measured.
    keep
        Whether the norm of each atom is kept (4n bytes), else only the maximum.
    """

    def __init__(self, atoms: Atoms, *, keep: bool) -> None:
        self.radius = math.inf
        self.norms = np.empty(0, np.float32)
        self._n, self._d = atoms.shape
        self._keep = keep
        self._tops: list[float] = []

    @property
    def ready(self) -> bool:
        """Whether all atoms were measured."""
        return self.radius < math.inf

    def begin(self) -> None:
        """Start a pass; one that was left early is forgotten."""
        if not self.ready:
            self._tops = []
            self.norms = np.empty(self._n if self._keep else 0, np.float32)

    def finish(self) -> None:
        """End a pass that has read all atoms."""
        if not self.ready:
            self.radius = max(self._tops)

    def room(self, rows: int) -> Vector:
        """Return room for the squared norms of a block; none if they are known."""
        return np.empty(0 if self.ready else rows)

    def measure(self, first: int, block: Matrix) -> kernels.Singles:
        """Return the norms of a block's rows, rounded up to float32."""
        if self.ready and self._keep:
            return self.norms[first : first + len(block)]
        squares = np.empty(len(block))
        kernels.square_all(block, squares)
        return self.note(first, block, squares)

    def note(self, first: int, block: Matrix, squares: Vector) -> kernels.Singles:
        """Take the squared norms of a block, once; return its norms, rounded up."""
        stop = first + len(block)
        norms = self.norms[first:stop] if self._keep else np.empty(len(block), np.float32)
        top = kernels.norms_above(squares, self._d, norms)
        if not math.isfinite(top):
            check_finite(block, first)
            row = first + int(np.flatnonzero(~np.isfinite(squares))[0])
            raise ValueError(f"`atoms` must have norms below 1e154. Got a larger one in row {row}.")
        self._tops.append(top)
        return norms
