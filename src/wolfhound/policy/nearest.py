"""The nearest atoms to given points, by an exact scan."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import final

import numpy as np

from wolfhound.atoms import MappedAtoms, norms
from wolfhound.core import Atoms, Ids, Vector
from wolfhound.oracles.scan import Scan
from wolfhound.paper.transforms import squared_min_ip_atom, squared_min_ip_query

_ALIKE = 1e-6
"""Norms that differ by no more than this share are taken as equal."""


@final
class NearestScan:
    """Finds neighbours by inner products: with one more coordinate, unless all atoms are as long."""

    def __init__(self, atoms: Atoms) -> None:
        sizes = norms(atoms)
        self._lifted = float(np.ptp(sizes)) > _ALIKE * float(sizes.max())
        wider = MappedAtoms(atoms, squared_min_ip_atom, atoms.shape[1] + 1) if self._lifted else atoms
        self._scan = Scan(wider, screen=False)

    def query(self, points: Vector, k: int) -> Ids:
        """(m, k) nearest atoms to (m, d) points, the nearest first."""
        queries = squared_min_ip_query(points, np.zeros_like(points), 1.0) if self._lifted else points
        return self._scan.query(queries, k=k).ids
