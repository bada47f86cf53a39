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

from wolfhound.compiled.active_set import SHUT, GramState, make_room, make_state, pad
from wolfhound.core.contracts import Ids, Matrix, Vector
from wolfhound.core.rounding import TINY, UNIT, gamma
from wolfhound.many._target_kernels import (
    Chunk,
    Dictionary,
    FoundMixtures,
    Points,
    limit_dictionary,
    solve_dictionary,
)
from wolfhound.many.batch import STALLED, Answers, Banned, Rules, fit_chunk, judge, measure_scales, note_limit
from wolfhound.many.pools import PoolFitter, RowTable
from wolfhound.many.proofs import (
    Brackets,
    PointSizes,
    Units,
    certify,
    choose_units,
    measure_norms,
    measure_points,
    most_active,
)

CHUNK, LEAST_CHUNK = 1024, 256
"""Targets that are solved in one go: of very many, and at least."""


AGAIN = 6
"""Most rounds over all atoms for a target that is not proved by its Gram matrix."""


@dataclass(frozen=True, slots=True)
class GramSolver:
    """A dictionary, ready for targets."""

    units: Units
    atoms: Dictionary  # in these units
    gram: Vector  # (n, wide) products of the rows, padded with zeros
    singles: Matrix  # the same in float32
    pool: Ids  # random atoms that give the scale of rtol
    cap: int  # most active atoms
    shift: float  # what `measure_points` adds
    most: int  # targets per chunk
    rooms: threading.local  # the `GramState` of a thread: it serves one chunk after the other
    alone = False
    quick = True

    def chunk(self, m: int) -> int:
        """How many of m targets are solved in one go: many, but some chunks for the threads."""
        return min(self.most, max(LEAST_CHUNK, -(-m // 16)))

    def solve(self, targets: Vector, banned: Banned, rules: Rules) -> Answers:
        """Solve a chunk of targets in these units; see `TargetSolver`."""
        (m, d), n = targets.shape, len(self.atoms.rows)
        cross = np.full((m, self.gram.shape[1]), SHUT)
        np.matmul(targets, self.atoms.rows.T, out=cross[:, :n])
        goals = np.maximum(rules.atol, rules.rtol * self._measure_scales(cross, banned))
        cross[banned] = SHUT
        chunk = Chunk(targets, measure_norms(targets), cross, goals)
        room = np.zeros((m, self.cap), np.int64), np.zeros((m, self.cap)), np.zeros(m, np.int64)
        found = FoundMixtures(*room, Points(np.zeros((m, d)), np.zeros(m), np.zeros((m, 3))), np.zeros(m))
        solve_dictionary(self._find_room(), self.atoms, chunk, found)
        value, lower, slack = self._prove(chunk, found)
        passes, codes = np.ones(m, np.int64), judge(value - lower, goals, slack)
        out = Answers(*room, value, lower, slack, goals, codes, passes, np.zeros(m))
        self._repeat(chunk, out)
        many = np.flatnonzero(found.support > rules.limit)
        if len(many):
            kept = np.zeros((4, self.cap + 1), np.int64), np.zeros((4, self.cap + 1))
            limit_dictionary(self._find_room(), self.atoms, chunk, rules.limit, kept, found)
            note_limit(out, many, self._prove(chunk, found).value[many])
        return out

    def _measure_scales(self, cross: Vector, banned: Banned) -> Vector:
        """(m,) scales of rtol; the pool is all atoms but the origin and those that no target may use."""
        count = int(self.pool.max()) + 1
        inside = banned.among(np.arange(count))
        squares, gram = self.atoms.squares[:count], self.gram[:, :count]
        return measure_scales(squares, cross[:, :count], self.pool, inside, lambda near: gram[near])

    def _prove(self, chunk: Chunk, found: FoundMixtures) -> Brackets:
        """Prove all points by prices of the Gram matrix; where that does not do, by those of their residuals.

        A price sum w G - c, of products that are off by gamma_d |a| |b|, is off by what it is against the
        product with the computed residual.
        """
        points, radius, (n, d) = found.points, float(self.atoms.norms.max()), self.atoms.rows.shape
        terms = d + 2 * found.support + 12
        sizes = measure_points(points.sums, found.support, chunk.norms, d, self.shift)
        error = 1.01 * terms * UNIT / (1.0 - terms * UNIT) * radius * (sizes.rho + chunk.norms) + terms * TINY
        proof = certify(sizes, d, -points.here, found.least, radius=radius, error=error)
        none = found.support == 0
        proof.value[none], proof.lower[none] = np.inf, 0.0
        far = np.flatnonzero((proof.value - proof.lower > chunk.goals) & ~none)
        if len(far):
            prices = -points.query[far] @ self.atoms.rows.T
            prices[chunk.cross[far, :n] == SHUT] = np.inf
            sizes = PointSizes._make(each[far] for each in sizes)
            error = gamma(d + 4) * radius * sizes.r + d * TINY
            finer = certify(sizes, d, -points.here[far], prices.min(axis=1), radius=radius, error=error)
            for whole, part in zip(proof, finer, strict=True):
                whole[far] = part
        return proof

    def _repeat(self, chunk: Chunk, out: Answers) -> None:
        """Solve targets that stalled again, as pools of rows less the target: there nothing cancels."""
        stalled = np.flatnonzero((out.codes == STALLED) & (out.support > 0))
        if not len(stalled):
            return
        atoms, (n, d) = self.atoms, self.atoms.rows.shape
        fitter = PoolFitter(Units(np.zeros(d), 0), self.cap, self.shift)
        state = fitter.begin(chunk.targets[stalled], out.goal[stalled], self.cap + 1)
        lists, fill = np.zeros((len(stalled), n), np.int64), np.zeros(len(stalled), np.int64)
        for i, t in enumerate(stalled):
            left = np.flatnonzero(chunk.cross[t, :n] > SHUT)
            lists[i, : len(left)], fill[i] = left, len(left)
        for _ in range(AGAIN):
            before = state.value.copy()
            best = fitter.work(state, RowTable(atoms.rows, None), lists, fill)
            state.prove(best, np.full(len(best), -np.inf), float(atoms.norms.max()))
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
            none = np.empty((0, self.atoms.rows.shape[1]))
            room = self.rooms.room = make_state(self.gram, self.singles, none, self.cap)
        return room


def weigh_gram(n: int, d: int) -> int:
    """About the bytes that a small dictionary and one target take."""
    return 16 * n * n + 32 * n * d + 8 * (5 * n + 2 * d + 2 * most_active(n, d))


def build_gram_solver(rows: Matrix, pool: Ids, *, zero: bool, max_memory: float = math.inf) -> GramSolver:
    """Make the Gram matrix of (n, d) rows; `zero`: the last is the origin, whose weight answers leave out."""
    n, d = rows.shape
    cap, wide = most_active(n, d), pad(n)
    units, moved = choose_units(rows)
    gram, singles = make_room((n, wide)), make_room((n, wide), np.float32)
    np.matmul(moved, moved.T, out=gram[:, :n])
    squares = np.zeros(wide)
    squares[:n] = np.einsum("ij,ij->i", moved, moved)
    gram[np.arange(n), np.arange(n)] = squares[:n]
    singles[...] = gram
    norms, most = measure_norms(moved), fit_chunk(CHUNK, 8 * (7 * n + 4 * d + 4 * cap), max_memory)
    atoms = Dictionary(moved, squares, norms, float(squares.sum()) / n or 1.0)
    shift = units.measure_origin() if zero else 0.0
    return GramSolver(units, atoms, gram, singles, pool, cap, shift, most, threading.local())
