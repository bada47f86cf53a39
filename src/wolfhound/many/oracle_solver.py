"""Any oracle: one question per pass for all targets of a chunk.

A pass asks for the atoms of largest score of every unfinished target at once. What the
oracle proves bounds the point that was asked about; then each target is solved on what
was found. Rows come with the answers: atoms are read for the random pool only. Of an
oracle that proves nothing, the floor is all that is known.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from wolfhound.core.contracts import Hits, Ids, Ints, Oracle, Status, Vector
from wolfhound.core.progress import Cut, on_progress
from wolfhound.core.rounding import TINY, UNIT, gamma
from wolfhound.core.validate import require, require_moderate
from wolfhound.data.atoms import finite_rows
from wolfhound.many.batch import PROVED, STALLED, Answers, Banned, Rules, fit_chunk, require_room
from wolfhound.many.pools import FLAT, PoolFitter, PoolState, RandomAtoms, RowTable, pool_size
from wolfhound.many.proofs import choose_units, measure_norms, most_active
from wolfhound.many.result import CODES

ANSWERS = 128
"""Atoms that a question asks for per target."""

CHUNK = 1024
"""Most targets that share a question."""

PASSES = 100
"""Most questions."""


@dataclass(frozen=True, slots=True)
class OracleSolver(PoolFitter):
    """An oracle, and random atoms to begin with."""

    oracle: Oracle
    pool: RandomAtoms
    table: RowTable  # their rows, and the origin if it is an atom
    zero: int  # its id, or -1
    most: int  # targets per chunk
    over: Callable[[], bool]  # whether time is over
    alone = True
    quick = False

    def chunk(self, m: int) -> int:
        """How many targets share a question."""
        return self.most

    def solve(self, targets: Vector, banned: Banned, rules: Rules) -> Answers:
        """Solve a chunk of targets in these units; see `TargetSolver`."""
        goals = self.pool.find_goals(targets, banned, rules)
        state = self.begin(targets, goals, rules.limit)
        exclude, table = _pad(banned, len(targets)), self.table
        self._solve_random(state, banned)
        certified, end = np.zeros(len(targets), np.bool_), STALLED
        try:
            with on_progress(self._watch):
                for _ in range(PASSES):
                    left = np.flatnonzero(~state.settled())
                    if not len(left):
                        break
                    self._watch(0)
                    hits = self.oracle.query(
                        state.points.query[left],
                        k=min(ANSWERS, self.oracle.atoms.shape[0]),
                        exclude=exclude[left],
                    )
                    part = state.pick(left)
                    table = self._take(part, table.keep(state.pools, self.zero), hits)
                    certified[left] |= np.isfinite(hits.bounds)
                    state.put(left, part)
        except Cut:
            end = CODES[Status.MAX_SECONDS]
        except OSError:
            end = CODES[Status.LOST]
        out = _judge(state, certified, end)
        return self.limit(state, table, rules.limit, out)

    def _watch(self, rows: int) -> None:
        if self.over():
            raise Cut(Status.MAX_SECONDS)

    def _solve_random(self, state: PoolState, banned: Banned) -> None:
        """Solve every target on the random atoms that it may use."""
        m, ids = len(state.value), self.pool.ids
        out = np.zeros((m, len(ids)), np.bool_)
        out[banned.among(ids)] = True
        order = np.argsort(out, axis=1, kind="stable")
        lists, fill = self._with_zero(ids[order], len(ids) - out.sum(axis=1))
        best = self.work(state, self.table, lists, fill)
        state.prove(best, np.full(m, np.inf), 0.0)

    def _with_zero(self, ids: Ids, fill: Ints) -> tuple[Ids, Ints]:
        """Lists that begin with the origin, if it is an atom."""
        if self.zero < 0:
            return ids, fill
        return np.concatenate([np.full((len(ids), 1), self.zero), ids], axis=1), fill + 1

    def _take(self, state: PoolState, table: RowTable, hits: Hits) -> RowTable:
        """Prove what the answers prove of the points, then solve on them; return all rows that are named."""
        radius, rest = self._bound(state.points.query, hits)
        nothing = np.full(len(rest), -np.inf)
        state.prove(nothing, rest, radius)
        before = state.value.copy()
        found = hits.ids >= 0
        rows = hits.rows[hits.slots[found]]
        require(bool(np.isfinite(rows).all()), "atoms", "finite", "rows that are not")
        require_moderate(rows, "atoms")
        table = table.add(rows, hits.ids[found])
        lists, fill = self._with_zero(hits.ids, found.sum(axis=1))
        self.work(state, table, lists, fill)
        state.prove(nothing, np.full(len(rest), np.inf), 0.0)
        state.passes += 1
        state.note_progress(before)
        return table

    def _bound(self, queries: Vector, hits: Hits) -> tuple[float, Vector]:
        """The radius, and bounds on <query, a> over all atoms, in our units; inf where nothing is proved."""
        units, d = self.units, queries.shape[1]
        size = measure_norms(queries)
        far = float(measure_norms(units.centre[None])[0])
        reach = (hits.radius + far) * (1.0 + 4.0 * UNIT)
        if not math.isfinite(reach):
            return 0.0, np.full(len(queries), np.inf)
        middle = queries @ units.centre
        rest = hits.bounds - middle
        rest = rest + 1.01 * gamma(d + 4) * size * reach + 4.0 * UNIT * (np.abs(rest) + np.abs(middle))
        if self.zero >= 0:
            rest = np.maximum(rest, 1.01 * gamma(d + 4) * size * far - middle)
        scale = 2.0**-units.exponent
        return reach * scale + TINY, rest * scale + TINY


def _judge(state: PoolState, certified: np.ndarray[tuple[int], np.dtype[np.bool_]], end: int) -> Answers:
    """Say why each target ended."""
    out = state.answers()
    unknown = ~certified & (out.codes != PROVED)
    stuck = np.where(unknown, CODES[Status.NOT_FOUND], STALLED)
    cut = (state.flat < FLAT) & (end != STALLED)
    out.codes[:] = np.where(unknown | (out.codes == STALLED), np.where(cut, end, stuck), out.codes)
    return out


def _pad(banned: Banned, m: int) -> Ids:
    """(m, e) atoms that each must not use, padded with -1."""
    counts = np.bincount(banned.targets, minlength=m)
    out = np.full((m, int(counts.max(initial=0))), -1, np.int64)
    out[np.arange(out.shape[1]) < counts[:, None]] = banned.atoms
    return out


def build_oracle_solver(
    oracle: Oracle, pool_ids: Ids, *, zero: bool, max_memory: float, over: Callable[[], bool]
) -> OracleSolver:
    """Read the random atoms, no others; `zero`: the origin is one more atom, left out of the answer."""
    n, d = oracle.atoms.shape
    cap = most_active(n + zero, d)
    each = ANSWERS * (24 + 16 * d) + 8 * (pool_size(d) + cap + 8 * d + 4 * len(pool_ids))
    least = len(pool_ids) * d * (oracle.atoms.dtype.itemsize + 24) + each
    require_room(max_memory, least)
    raw = finite_rows(oracle.atoms, pool_ids)
    require_moderate(raw, "atoms")
    units, _ = choose_units(raw)
    order = np.argsort(pool_ids)
    table = RowTable(raw[order], pool_ids[order])
    if zero:
        table = table.add(np.zeros((1, d), raw.dtype), np.array([n]))
    shift = units.measure_origin() if zero else 0.0
    most, pool = fit_chunk(CHUNK, each // 8, max_memory), RandomAtoms(pool_ids, units.convert(raw))
    return OracleSolver(units, cap, shift, oracle, pool, table, n if zero else -1, most, over)
