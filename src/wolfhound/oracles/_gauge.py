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
            self.radius = kernels.norm_above(max(self._tops), self._d)

    def score(self, first: int, block: Matrix, query: Vector, scores: Vector) -> None:
        """Score a block, and measure it if that is still to be done."""
        if self.ready:
            kernels.score(block, query, scores)
            return
        norms = self._place(first, len(block))
        self._note(kernels.score_and_measure(block, query, scores, norms), first, block)

    def measure(self, first: int, block: Matrix) -> kernels.Singles:
        """Return the norms of a block's rows, rounded up to float32."""
        norms = self._place(first, len(block))
        if not (self.ready and self._keep):
            self._note(kernels.measure(block, norms), first, block)
        return norms

    def _place(self, first: int, rows: int) -> kernels.Singles:
        return self.norms[first : first + rows] if self._keep else np.empty(rows, np.float32)

    def _note(self, top: float, first: int, block: Matrix) -> None:
        if not math.isfinite(top):
            check_finite(block, first)
            row = first + int(np.abs(block).max(axis=1).argmax())
            raise ValueError(f"`atoms` must have norms below 1e154. Got a larger one in row {row}.")
        self._tops.append(top)
