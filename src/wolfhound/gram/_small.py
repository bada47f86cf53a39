"""The small dictionary: its Gram matrix once, then one product per chunk of targets."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
import threading
from typing import NamedTuple

import numpy as np

from wolfhound.core import Ids, Ints, Matrix, Vector
from wolfhound.gram import _small_kernels as kernels
from wolfhound.gram._answers import Answers, Rules, make_answers
from wolfhound.gram._small_kernels import Dictionary
from wolfhound.gram._tableau import make_lines, pad
from wolfhound.gram._units import Units, choose_units, measure_norms, round_norms

MEMORY = 4.0 * 2**30
"""Bytes to work in, unless the caller says otherwise."""

CHUNK = 256
"""Targets that are solved in one go."""


class Small(NamedTuple):
    """A dictionary, its units, room for as many active atoms as there can be, and targets per chunk."""

    units: Units
    atoms: Dictionary
    cap: int
    most: int

    @property
    def alone(self) -> bool:
        """Threads solve a chunk each."""
        return False

    def chunk(self, m: int) -> int:
        """How many of m targets are solved in one go."""
        return self.most

    def solve(
        self, targets: Vector, starts: Ints, banned: Ids, rules: Rules, rooms: threading.local | None = None
    ) -> Answers:
        """Solve a chunk of targets in these units.

        Parameters
        ----------
        targets : (m, d)
            As `Units.convert_targets` gives them.
        starts, banned
            As in `Chunk`.
        rules
            In these units.
        rooms
            Keeps the room of this thread for the next call; default: it is made anew.
        """
        m, d = targets.shape
        n, wide = self.atoms.gram.shape
        cross = make_lines(m, wide)
        np.matmul(targets, self.atoms.rows.T, out=cross[:, :n])
        chunk = kernels.Chunk(targets, measure_norms(targets), cross, starts, banned)
        room = self._make_room(d, rooms)
        out = make_answers(m, self.cap)
        kernels.solve_chunk(self.atoms, room, chunk, rules, out)
        if rules.limit < self.cap and (out.support > rules.limit).any():
            kernels.limit_chunk(self.atoms, room, chunk, rules, out)
        return out

    def _make_room(self, d: int, rooms: threading.local | None) -> kernels.Workspace:
        size = self.cap, self.atoms.gram.shape[0], d
        known: tuple[object, kernels.Workspace] | None = getattr(rooms, "last", None)
        if known is not None and known[0] == size:
            return known[1]
        room = kernels.make_workspace(*size)
        if rooms is not None:
            rooms.last = size, room
        return room


def fit_chunk(most: int, each: int, memory: float) -> int:
    """At most `most` targets of `each` bytes, of which some chunks fit into a part of the memory."""
    least = 16 if memory >= MEMORY else 1
    return int(max(least, min(most, memory / 16.0 / each)))


def weigh_small(n: int, d: int) -> int:
    """About the bytes that a small dictionary and one target take."""
    return 16 * n * n + 32 * n * d + 8 * (n + 2 * d + 2 * (min(n, d + 1) + 1))


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
    units, inside = choose_units(rows)
    n, d = inside.shape
    gram, singles = make_lines(n, pad(n)), make_lines(n, pad(n), np.float32)
    np.matmul(inside, inside.T, out=gram[:, :n])
    squares, norms = np.zeros(pad(n)), np.zeros(pad(n))
    squares[:n] = np.einsum("ij,ij->i", inside, inside)
    gram.reshape(-1)[: n * (pad(n) + 1) : pad(n) + 1] = squares[:n]
    norms[:n] = round_norms(squares[:n], d)
    singles[:] = gram
    mean = float(squares.sum()) / n
    atoms = Dictionary(
        inside,
        gram,
        singles,
        squares,
        norms,
        pool,
        float(norms.max()),
        mean if mean > 0.0 else 1.0,
        # Without the origin's weight the others sum to what they do, not to 1.
        float(norms[n - 1]) if zero else 0.0,
    )
    cap = min(n, d + 1) + 1
    return Small(units, atoms, cap, fit_chunk(CHUNK, 8 * (n + 2 * d + 2 * cap), memory))
