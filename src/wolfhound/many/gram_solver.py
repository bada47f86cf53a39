"""Few atoms: their Gram matrix is made once, then one product per chunk of targets gives all that is needed.

Each thread solves chunks of its own with `_target_kernels.solve_dictionary`.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
import threading
from dataclasses import dataclass

import numpy as np

from wolfhound.compiled.active_set import make_state, pad
from wolfhound.core import Ids, Ints, Matrix, Vector
from wolfhound.many._target_kernels import (
    LOWER,
    PASSES,
    PRICE_OF_LIMIT,
    SLACK,
    SUPPORT,
    VALUE,
    Chunk,
    Dictionary,
    Found,
    Workspace,
    solve_dictionary,
)
from wolfhound.many.batch import FINISHED, STALLED, Answers, Rules, judge, locate_banned, measure_scales
from wolfhound.many.memory import fit_chunk
from wolfhound.many.units import Units, choose_units, measure_norms

CHUNK, LEAST_CHUNK = 1024, 256
"""Targets that are solved in one go: of very many, and at least."""


@dataclass(frozen=True, slots=True)
class GramSolver:
    """A dictionary, ready for targets.

    Attributes
    ----------
    units : Units
    atoms : Dictionary
    gram, singles : (n, wide)
        Products of the rows, padded with zeros, in float64 and float32.
    pool : (p,) int64
        Random atoms that give the scale of rtol.
    cap, most : int
        Most active atoms; targets per chunk.
    rooms : threading.local
        The `Workspace` of a thread: it serves one chunk after the other.
    """

    units: Units
    atoms: Dictionary
    gram: Vector
    singles: Matrix
    pool: Ids
    cap: int
    most: int
    rooms: threading.local
    alone = False
    quick = True

    def chunk(self, m: int) -> int:
        """How many of m targets are solved in one go: many, but some chunks for the threads."""
        return min(self.most, max(LEAST_CHUNK, -(-m // 16)))

    def solve(self, targets: Vector, starts: Ints, banned: Ids, rules: Rules) -> Answers:
        """Solve a chunk of targets, (m, d) as `Units.convert_targets` gives them.

        Atoms that target i must not use are ``banned[starts[i]:starts[i + 1]]``.
        """
        m, n, pool = len(targets), len(self.atoms.rows), self.pool
        cross = np.zeros((m, self.gram.shape[1]))
        np.matmul(targets, self.atoms.rows.T, out=cross[:, :n])
        scales = measure_scales(
            self.atoms.squares[pool],
            cross[:, pool],
            locate_banned(pool, starts, banned),
            lambda near: self.gram[np.ix_(pool[near], pool)],
        )
        goals = np.maximum(rules.atol, rules.rtol * scales)
        chunk = Chunk(targets, measure_norms(targets), goals, cross, starts, banned)
        room = np.empty((m, self.cap), np.int64), np.empty((m, self.cap))
        out = Found(*room, np.zeros((4, m)), np.zeros((3, m), np.int64))
        out.numbers[VALUE] = np.inf
        solve_dictionary(self.atoms, self._find_room(), chunk, rules.limit, out)
        value, lower, slack, price = (out.numbers[i] for i in (VALUE, LOWER, SLACK, PRICE_OF_LIMIT))
        codes = judge(value - price - lower, goals, slack)
        codes[(price > 0.0) & (codes != STALLED) & (value - lower > goals)] = FINISHED
        support, passes = out.counts[SUPPORT], out.counts[PASSES]
        return Answers(out.ids, out.weights, support, value, lower, slack, goals, codes, passes, price)

    def _find_room(self) -> Workspace:
        room: Workspace | None = getattr(self.rooms, "room", None)
        if room is None:
            d, wide = self.atoms.rows.shape[1], self.gram.shape[1]
            state = make_state(self.gram, self.singles, np.empty((0, d)), self.cap)
            kept = np.zeros((2, self.cap + 1), np.int64), np.zeros((2, self.cap + 1))
            room = self.rooms.room = Workspace(state, np.zeros((2, d)), np.zeros(6), np.zeros(wide), *kept)
        return room


def weigh_gram(n: int, d: int) -> int:
    """About the bytes that a small dictionary and one target take."""
    return 16 * n * n + 32 * n * d + 8 * (5 * n + 2 * d + 2 * most_active(n, d))


def most_active(n: int, d: int) -> int:
    """Room for active atoms: as many as can be independent, and one more."""
    return min(n, d + 1) + 1


def build_gram_solver(rows: Matrix, pool: Ids, *, zero: bool, memory: float = math.inf) -> GramSolver:
    """Make the Gram matrix of (n, d) rows; `zero`: the last is the origin, whose weight is left out of answers."""
    n, d = rows.shape
    cap, wide = most_active(n, d), pad(n)
    units, moved = choose_units(rows)
    gram = np.zeros((n, wide))
    np.matmul(moved, moved.T, out=gram[:, :n])
    squares = np.zeros(wide)
    squares[:n] = np.einsum("ij,ij->i", moved, moved)
    gram[np.arange(n), np.arange(n)] = squares[:n]
    norms, mean = measure_norms(moved), float(squares.sum()) / n
    # Without the origin's weight the others sum to what they do, not to 1.
    shift = float(norms[n - 1]) if zero else 0.0
    atoms = Dictionary(moved, norms, squares, float(norms.max()), mean if mean > 0.0 else 1.0, shift)
    most = fit_chunk(CHUNK, 8 * (5 * n + 2 * d + 2 * cap), memory)
    return GramSolver(units, atoms, gram, gram.astype(np.float32), pool, cap, most, threading.local())
