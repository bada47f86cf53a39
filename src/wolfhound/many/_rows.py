"""Rows that the lists and pools of a chunk name, at hand for compiled loops."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from wolfhound._files import lock
from wolfhound.atoms import ArrayAtoms
from wolfhound.core import Atoms, Ids, Ints
from wolfhound.many._pool_kernels import Pools
from wolfhound.many._room import PortionedAtoms


class RowTable(NamedTuple):
    """Rows at hand: those of `ids`, or of all atoms if these are None."""

    rows: NDArray[Any]
    ids: Ids | None

    def find(self, ids: Ids) -> Ids:
        """Places of atoms that are here; anything for others."""
        if self.ids is None:
            return ids
        return np.minimum(np.searchsorted(self.ids, ids), len(self.ids) - 1)

    def name(self, places: Ids) -> Ids:
        """Atoms at these places."""
        return places if self.ids is None else self.ids[places]

    def keep(self, pools: Pools, zero: int) -> RowTable:
        """Rows that pools name, and that of the origin."""
        if self.ids is None:
            return self
        named = np.isin(self.ids, pools.ids[np.arange(pools.ids.shape[1]) < pools.size[:, None]])
        here = named | (self.ids == zero)
        return RowTable(self.rows[here], self.ids[here])

    def add(self, rows: NDArray[Any], ids: Ids) -> RowTable:
        """With the rows of these atoms, which may be here already."""
        if self.ids is None:
            return self
        wanted, first = np.unique(np.concatenate([self.ids, ids]), return_index=True)
        return RowTable(lock(np.concatenate([self.rows, rows])[first]), wanted)


def gather(atoms: Atoms, ids: Ids, fill: Ints, pools: Pools) -> RowTable:
    """Rows in memory as they are; of others, those that lists and pools name."""
    atoms = atoms.whole if isinstance(atoms, PortionedAtoms) else atoms
    if isinstance(atoms, ArrayAtoms) and atoms.rows.dtype == atoms.dtype and atoms.rows.flags.c_contiguous:
        return RowTable(lock(atoms.rows.view()), None)
    listed = ids[np.arange(ids.shape[1]) < fill[:, None]]
    pooled = pools.ids[np.arange(pools.ids.shape[1]) < pools.size[:, None]]
    wanted = np.union1d(listed, pooled)
    wanted = wanted if len(wanted) else np.zeros(1, np.int64)
    return RowTable(lock(atoms.take(wanted)), wanted)
