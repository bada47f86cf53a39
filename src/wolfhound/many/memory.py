"""How a memory limit is shared out between the parts of a run over many atoms."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from wolfhound.atoms import ArrayAtoms
from wolfhound.core import Atoms, Ids, Matrix
from wolfhound.validate import require

MEMORY = 4.0 * 2**30
"""Bytes to work in, unless the caller says otherwise."""

_THREADS = 4
"""Threads that are counted on: shares do not depend on how many there are, else answers would."""

_LEAST_ROWS = 64
"""Least rows of a block."""

TILE = 512
"""Atoms per product."""


@dataclass(frozen=True, slots=True, eq=False)
class PortionedAtoms:
    """Atoms that are read in blocks of at most `most` rows, whatever a pass asks for."""

    whole: Atoms
    most: int

    @property
    def shape(self) -> tuple[int, int]:
        """(n, d)."""
        return self.whole.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """float32 or float64."""
        return self.whole.dtype

    def take(self, ids: Ids) -> Matrix:
        """Return the rows of these ids."""
        return self.whole.take(ids)

    def blocks(self, rows: int) -> Iterator[tuple[int, Matrix]]:
        """Yield (first id, read-only block) over all rows once, in order."""
        return self.whole.blocks(min(rows, self.most))


class Allotment(NamedTuple):
    """Bytes for each part."""

    kept: float  # all atoms, as codes or float32 rows
    step: float  # a subset of the ladder
    chunk: float  # what `fit_chunk` fits targets into
    rows: int  # rows of a block; 0: as many as a pass likes

    def portion(self, atoms: Atoms) -> Atoms:
        """Return atoms that are read in blocks of this size."""
        return PortionedAtoms(atoms, self.rows) if self.rows else atoms


def plan_room(atoms: Atoms, pool: int, each: int, max_memory: float) -> Allotment:
    """Share out a memory limit; ValueError, which says what would do, if it is too little.

    `pool` random atoms give the scale of rtol; a target takes `each` bytes besides the rows that its list
    names. A limit as large as the default, or larger, is not looked into.
    """
    if max_memory >= MEMORY:
        return Allotment(max_memory / 2, math.inf, max_memory, 0)
    n, d = atoms.shape
    fixed = pool * d * (atoms.dtype.itemsize + 24) + 16 * n
    # Blocks are read ahead for all threads, and each makes float64 copies.
    row = d * (atoms.dtype.itemsize * (2 * _THREADS + 2) + 32 * _THREADS)
    least = fixed + _THREADS * max(each, _LEAST_ROWS * row)
    require_room(max_memory, least)
    left = max_memory - fixed
    rows = max(_LEAST_ROWS, int(left / 6 / row))
    return Allotment(left / 3, left / 6, 4.0 * left, rows // TILE * TILE or rows)


def require_room(max_memory: float, least: int) -> None:
    """Raise ValueError if a limit, unless it is as much as by default, is less than what is needed."""
    enough = max_memory >= min(least, MEMORY)
    require(enough, "max_memory", f"at least {least:,} bytes for these atoms", f"{max_memory:,.0f}")


def weigh_listed(atoms: Atoms, listed: int) -> int:
    """Bytes of the rows that a list names, while they are read; none of rows in memory."""
    plain = isinstance(atoms, ArrayAtoms) and atoms.plain is not None
    return 0 if plain else 3 * listed * atoms.shape[1] * atoms.dtype.itemsize


def find_portion(atoms: Atoms, rows: int) -> int:
    """How many of so many rows are taken at once."""
    return min(rows, atoms.most) if isinstance(atoms, PortionedAtoms) else rows


def fit_chunk(most: int, each: int, max_memory: float) -> int:
    """At most `most` targets of `each` bytes, of which some chunks fit into a part of the memory."""
    least = 16 if max_memory >= MEMORY else 1
    return int(max(least, min(most, max_memory / 16.0 / each)))
