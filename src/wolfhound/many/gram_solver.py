"""Few atoms: their Gram matrix is made once, then one product per chunk of targets gives all that is needed.

Each thread solves chunks of its own with `_target_kernels.solve_dictionary`, and proves them by two products
of matrices.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
import threading
from dataclasses import dataclass

import numpy as np

from wolfhound.compiled.active_set import GramState, make_state, pad
from wolfhound.core import Ids, Ints, Matrix, Vector
from wolfhound.many._target_kernels import Chunk, Found, limit_dictionary, solve_dictionary
from wolfhound.many.batch import FINISHED, STALLED, Answers, Rules, judge, locate_banned, measure_scales
from wolfhound.many.memory import fit_chunk
from wolfhound.many.pools import PoolFitter, RowTable, begin_pools
from wolfhound.many.proofs import Brackets, R, certify, measure_points
from wolfhound.many.units import Units, choose_units, measure_norms
from wolfhound.rounding import TINY, gamma

CHUNK, LEAST_CHUNK = 1024, 256
"""Targets that are solved in one go: of very many, and at least."""


AGAIN = 6
"""Most rounds over all atoms for a target that is not proved by its Gram matrix."""


@dataclass(frozen=True, slots=True)
class GramSolver:
    """A dictionary, ready for targets."""

    units: Units
    rows: Vector  # (n, d) atoms in these units
    norms: Vector  # (n,) |row| rounded up
    squares: Vector  # (wide,) |row|^2
    gram: Vector  # (n, wide) products of the rows, padded with zeros
    singles: Matrix  # the same in float32
    shift: float  # what `measure_points` adds
    pool: Ids  # random atoms that give the scale of rtol
    cap: int  # most active atoms
    most: int  # targets per chunk
    rooms: threading.local  # the `GramState` of a thread: it serves one chunk after the other
    alone = False
    quick = True

    def chunk(self, m: int) -> int:
        """How many of m targets are solved in one go: many, but some chunks for the threads."""
        return min(self.most, max(LEAST_CHUNK, -(-m // 16)))

    def solve(self, targets: Vector, starts: Ints, banned: Ids, rules: Rules) -> Answers:
        """Solve a chunk of targets in these units; see `TargetSolver`."""
        m, n, pool = len(targets), len(self.rows), self.pool
        cross = np.zeros((m, self.gram.shape[1]))
        np.matmul(targets, self.rows.T, out=cross[:, :n])
        scales = measure_scales(
            self.squares[pool],
            cross[:, pool],
            locate_banned(pool, starts, banned),
            lambda near: self.gram[np.ix_(pool[near], pool)],
        )
        goals, norms = np.maximum(rules.atol, rules.rtol * scales), measure_norms(targets)
        chunk = Chunk(cross, norms * norms, goals, starts, banned)
        room = np.zeros((m, self.cap), np.int64), np.zeros((m, self.cap)), np.zeros(m, np.int64)
        found, alpha = Found(*room, np.zeros(m, np.int64)), float(self.squares.sum()) / n or 1.0
        solve_dictionary(self._find_room(), self.squares, alpha, chunk, found)
        value, lower, slack = self._prove(targets, norms, chunk, found)
        passes, codes = np.ones(m, np.int64), judge(value - lower, goals, slack)
        out = Answers(*room, value, lower, slack, goals, codes, passes, np.zeros(m))
        self._repeat(targets, norms, chunk, out)
        if (found.support > rules.limit).any():
            kept = np.zeros((4, self.cap + 1), np.int64), np.zeros((4, self.cap + 1))
            limit_dictionary(self._find_room(), self.squares, alpha, chunk, rules.limit, kept, found)
            few = self._prove(targets, norms, chunk, found).value
            out.price[:], out.value[:] = np.maximum(few - value, 0.0), np.maximum(few, value)
            far = (out.codes != STALLED) & (out.price > 0.0) & (out.value - lower > goals)
            out.codes[far] = FINISHED
        return out

    def _prove(self, targets: Vector, norms: Vector, chunk: Chunk, found: Found) -> Brackets:
        """Prove the points of all targets by products with their residuals; weights are made to sum to 1."""
        (m, d), n, support = targets.shape, len(self.rows), found.support
        held = np.arange(self.cap) < support[:, None]
        weights = np.where(held, found.weights, 0.0)
        weights /= np.where(support > 0, weights.sum(axis=1), 1.0)[:, None]
        found.weights[:] = weights
        dense = np.zeros((m, n))
        dense[np.nonzero(held)[0], found.ids[held]] = weights[held]
        x = dense @ self.rows
        r = x - targets
        rho = (dense @ self.norms) * (1.0 + gamma(self.cap + 4))
        sizes = measure_points(x, r, rho, norms=norms, support=support, shift=self.shift)
        prices = np.matmul(r, self.rows.T, out=dense)
        prices[np.repeat(np.arange(m), np.diff(chunk.starts)), chunk.banned] = np.inf
        radius = float(self.norms.max())
        error = gamma(d + 4) * radius * sizes[:, R] + d * TINY
        inner = np.einsum("ij,ij->i", r, x)
        proof = certify(sizes, d, inner, prices.min(axis=1), radius=radius, error=error)
        none = support == 0
        proof.value[none], proof.lower[none] = np.inf, 0.0
        return proof

    def _repeat(self, targets: Vector, norms: Vector, chunk: Chunk, out: Answers) -> None:
        """Solve targets that stalled again, as pools of rows less the target: there nothing cancels."""
        stalled = np.flatnonzero((out.codes == STALLED) & (out.support > 0))
        if not len(stalled):
            return
        n, d = self.rows.shape
        state = begin_pools(targets[stalled], norms[stalled], out.goal[stalled], self.cap + 1, self.cap)
        lists, fill = np.zeros((len(stalled), n), np.int64), np.zeros(len(stalled), np.int64)
        for i, t in enumerate(stalled):
            left = np.setdiff1d(np.arange(n), chunk.banned[chunk.starts[t] : chunk.starts[t + 1]])
            lists[i, : len(left)], fill[i] = left, len(left)
        fitter = PoolFitter(Units(np.zeros(d), 0), self.cap, self.shift)
        for _ in range(AGAIN):
            before = state.value.copy()
            best = fitter.work(state, RowTable(self.rows, None), lists, fill)
            state.prove(best, np.full(len(best), -np.inf), float(self.norms.max()))
            state.note_progress(before)
            out.passes[stalled] += 1
            if state.settled().all():
                break
        better = np.flatnonzero(state.value < out.value[stalled])
        state.pick(better).write(out, stalled[better])
        for column, mine in ((out.value, state.value), (out.slack, state.slack)):
            column[stalled[better]] = mine[better]
        out.lower[stalled] = np.minimum(np.maximum(out.lower[stalled], state.lower), out.value[stalled])
        gap = out.value[stalled] - out.lower[stalled]
        out.codes[stalled] = judge(gap, out.goal[stalled], out.slack[stalled])

    def _find_room(self) -> GramState:
        room: GramState | None = getattr(self.rooms, "room", None)
        if room is None:
            none = np.empty((0, self.rows.shape[1]))
            room = self.rooms.room = make_state(self.gram, self.singles, none, self.cap)
        return room


def weigh_gram(n: int, d: int) -> int:
    """About the bytes that a small dictionary and one target take."""
    return 16 * n * n + 32 * n * d + 8 * (5 * n + 2 * d + 2 * most_active(n, d))


def most_active(n: int, d: int) -> int:
    """Room for active atoms: as many as can be independent, and one more."""
    return min(n, d + 1) + 1


def build_gram_solver(rows: Matrix, pool: Ids, *, zero: bool, max_memory: float = math.inf) -> GramSolver:
    """Make the Gram matrix of (n, d) rows; `zero`: the last is the origin, whose weight answers leave out."""
    n, d = rows.shape
    cap, wide = most_active(n, d), pad(n)
    units, moved = choose_units(rows)
    gram = np.zeros((n, wide))
    np.matmul(moved, moved.T, out=gram[:, :n])
    squares = np.zeros(wide)
    squares[:n] = np.einsum("ij,ij->i", moved, moved)
    gram[np.arange(n), np.arange(n)] = squares[:n]
    norms, singles = measure_norms(moved), gram.astype(np.float32)
    # Without the origin's weight the others sum to what they do, not to 1.
    shift = float(norms[n - 1]) if zero else 0.0
    most = fit_chunk(CHUNK, 8 * (7 * n + 4 * d + 4 * cap), max_memory)
    return GramSolver(units, moved, norms, squares, gram, singles, shift, pool, cap, most, threading.local())
