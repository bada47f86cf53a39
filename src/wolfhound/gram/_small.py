"""The small dictionary: its Gram matrix once, then one product per chunk of targets."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
import threading
from typing import NamedTuple

import numpy as np

from wolfhound.core import Ids, Ints, Matrix, Vector
from wolfhound.gram import _small_kernels as kernels
from wolfhound.gram._answers import Answers, Rules, judge, make_answers
from wolfhound.gram._small_kernels import Dictionary
from wolfhound.gram._tableau import Singles, make_lines, pad
from wolfhound.gram._units import Units, choose_units, measure_norms

MEMORY = 4.0 * 2**30
"""Bytes to work in, unless the caller says otherwise."""

CHUNK, LEAST_CHUNK = 1024, 256
"""Targets that are solved in one go: of very many, and at least."""


class ChunkRoom(NamedTuple):
    """What a thread works on: one target after the other, products with all atoms, ids and weights."""

    work: kernels.Workspace
    cross: Vector
    ids: Ids
    weights: Vector


class Small(NamedTuple):
    """A dictionary, ready for targets.

    Attributes
    ----------
    units : Units
    atoms : Dictionary
    cap : int
        Most active atoms.
    most : int
        Targets per chunk.
    rooms : threading.local
        The `ChunkRoom` of a thread: it serves one chunk after the other.
    """

    units: Units
    atoms: Dictionary
    cap: int
    most: int
    rooms: threading.local

    @property
    def alone(self) -> bool:
        """Threads solve a chunk each."""
        return False

    @property
    def quick(self) -> bool:
        """A chunk takes some hundredths of a second."""
        return True

    def chunk(self, m: int) -> int:
        """How many of m targets are solved in one go: many, but some chunks for the threads."""
        return min(self.most, max(LEAST_CHUNK, -(-m // 16)))

    def solve(self, targets: Vector, starts: Ints, banned: Ids, rules: Rules) -> Answers:
        """Solve a chunk of targets in these units.

        Parameters
        ----------
        targets : (m, d)
            As `Units.convert_targets` gives them.
        starts, banned
            As in `Chunk`.
        rules
            In these units.

        Returns
        -------
        Answers
            Ids and weights last until this thread solves another chunk.
        """
        m, room = len(targets), self._find_room(len(targets))
        cross = room.cross[:m]
        np.matmul(targets, self.atoms.rows.T, out=cross[:, : len(self.atoms.rows)])
        chunk = kernels.Chunk(targets, measure_norms(targets), cross, starts, banned)
        out = make_answers(room.ids[:m], room.weights[:m])
        kernels.solve_chunk(self.atoms, room.work, chunk, rules, out)
        out.code[:] = judge(out.value - out.lower, out.goal, out.slack)
        if rules.limit < self.cap and (out.support > rules.limit).any():
            kernels.limit_chunk(self.atoms, room.work, chunk, rules, out)
        return out

    def _find_room(self, m: int) -> ChunkRoom:
        """Room for m targets: that of the last chunk, if it is large enough."""
        room: ChunkRoom | None = getattr(self.rooms, "room", None)
        if room is None or len(room.cross) < m:
            (n, d), size = self.atoms.rows.shape, (m, self.cap)
            work, cross = kernels.make_workspace(self.cap, n, d), make_lines(m, pad(n))
            room = self.rooms.room = ChunkRoom(work, cross, np.empty(size, np.int64), np.empty(size))
        return room


def fit_chunk(most: int, each: int, memory: float) -> int:
    """At most `most` targets of `each` bytes, of which some chunks fit into a part of the memory."""
    least = 16 if memory >= MEMORY else 1
    return int(max(least, min(most, memory / 16.0 / each)))


def weigh_small(n: int, d: int) -> int:
    """About the bytes that a small dictionary and one target take."""
    return 16 * n * n + 32 * n * d + 8 * (n + 2 * d + 2 * most_active(n, d))


def build_small(rows: Matrix, pool: Ids, *, zero: bool, memory: float = math.inf) -> Small:
    """Make the Gram matrix.

    Parameters
    ----------
    rows : (n, d)
        All atoms.
    pool
        Random atoms that give the scale of rtol.
    zero
        Whether the last atom is the origin, whose weight is left out of the answer.
    memory
        Bytes to work in.
    """
    n, d = rows.shape
    page, cap = make_page(n, d), most_active(n, d)
    units, _ = choose_units(rows, page.rows)
    atoms = multiply(page, pool, zero=zero)
    most = fit_chunk(CHUNK, 8 * (n + 2 * d + 2 * cap), memory)
    return Small(units, atoms, cap, most, threading.local())


def most_active(n: int, d: int) -> int:
    """Room for active atoms: as many as can be independent, and one more."""
    return min(n, d + 1) + 1


class Page(NamedTuple):
    """Room for the numbers of a dictionary of n atoms: see `Dictionary`."""

    rows: Vector
    gram: Vector
    singles: Singles
    squares: Vector
    norms: Vector


def make_page(n: int, d: int) -> Page:
    """Return empty room."""
    wide = pad(n)
    gram, singles = make_lines(n, wide), make_lines(n, wide, np.float32)
    return Page(np.empty((n, d)), gram, singles, np.zeros(wide), np.zeros(wide))


def multiply(page: Page, pool: Ids, *, zero: bool) -> Dictionary:
    """Write all products of the rows; arguments are those of `build_small`."""
    n = len(page.rows)
    np.matmul(page.rows, page.rows.T, out=page.gram[:, :n])
    mean = kernels.complete(*page) / n
    # Without the origin's weight the others sum to what they do, not to 1.
    shift = float(page.norms[n - 1]) if zero else 0.0
    return Dictionary(*page, pool, float(page.norms.max()), mean if mean > 0.0 else 1.0, shift)
