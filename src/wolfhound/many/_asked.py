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

from wolfhound.atoms import finite_rows
from wolfhound.core import Hits, Ids, Ints, Oracle, Status, Vector
from wolfhound.gram._answers import LOST, OUT_OF_TIME, PROVED, STALLED, UNFOUND, Answers, Rules, judge
from wolfhound.gram._small import fit_chunk
from wolfhound.gram._units import Units, choose_units, measure_norms
from wolfhound.many._fit import Fitter, prove
from wolfhound.many._pool_kernels import Ask
from wolfhound.many._room import require_room
from wolfhound.many._rows import RowTable
from wolfhound.many._scale import ScalePool, locate_banned, measure_scales
from wolfhound.many._state import FLAT, ChunkState, begin_state, choose_room, pool_size
from wolfhound.progress import Cut, on_progress
from wolfhound.rounding import TINY, UNIT, gamma
from wolfhound.validate import require, require_moderate

ANSWERS = 128
"""Atoms that a question asks for per target."""

CHUNK = 1024
"""Most targets that share a question."""

PASSES = 100
"""Most questions."""


@dataclass(frozen=True, slots=True)
class Asked:
    """An oracle, and random atoms to begin with.

    Attributes
    ----------
    fitter : Fitter
    oracle : Oracle
    pool : ScalePool
        The random atoms, which give the scale of rtol, too.
    table : RowTable
        Their rows, and the origin if it is an atom.
    zero : int
        Its id, or -1.
    most : int
        Most targets per chunk.
    over
        Tells whether time is over.
    """

    fitter: Fitter
    oracle: Oracle
    pool: ScalePool
    table: RowTable
    zero: int
    most: int
    over: Callable[[], bool]
    alone = True
    quick = False

    @property
    def units(self) -> Units:
        """Units of targets and rules."""
        return self.fitter.units

    @property
    def cap(self) -> int:
        """Most atoms that an answer can have."""
        return self.fitter.cap

    def chunk(self, m: int) -> int:
        """How many targets share a question."""
        return self.most

    def solve(self, targets: Vector, starts: Ints, banned: Ids, rules: Rules) -> Answers:
        """Solve a chunk of targets in these units; arguments are those of `Small.solve`."""
        goals = np.maximum(rules.atol, rules.rtol * measure_scales(self.pool, targets, starts, banned))
        room = choose_room(rules.limit, self.cap, targets.shape[1])
        state = begin_state(Ask(targets, measure_norms(targets), goals, self.cap + 1, room), self.cap)
        exclude, table = _pad(starts, banned), self.table
        self._begin(state, starts, banned)
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
            end = OUT_OF_TIME
        except OSError:
            end = LOST
        out = _judge(state, certified, end)
        return self.fitter.limit(state, table, rules.limit, out)

    def _watch(self, rows: int) -> None:
        if self.over():
            raise Cut(Status.MAX_SECONDS)

    def _begin(self, state: ChunkState, starts: Ints, banned: Ids) -> None:
        """Solve every target on the random atoms that it may use."""
        m, ids = len(state.value), self.pool.ids
        out = np.zeros((m, len(ids)), np.bool_)
        out[locate_banned(ids, starts, banned)] = True
        order = np.argsort(out, axis=1, kind="stable")
        lists, fill = self._with_zero(ids[order], len(ids) - out.sum(axis=1))
        best = self.fitter.work(state, self.table, lists, fill)
        prove(state, best, np.full(m, np.inf), 0.0)

    def _with_zero(self, ids: Ids, fill: Ints) -> tuple[Ids, Ints]:
        """Lists that begin with the origin, if it is an atom."""
        if self.zero < 0:
            return ids, fill
        return np.concatenate([np.full((len(ids), 1), self.zero), ids], axis=1), fill + 1

    def _take(self, state: ChunkState, table: RowTable, hits: Hits) -> RowTable:
        """Prove what the answers prove of the points, then solve on them; return all rows that are named."""
        radius, rest = self._bound(state.points.query, hits)
        nothing = np.full(len(rest), -np.inf)
        prove(state, nothing, rest, radius)
        before = state.value.copy()
        found = hits.ids >= 0
        rows = hits.rows[hits.slots[found]]
        require(bool(np.isfinite(rows).all()), "atoms", "finite", "rows that are not")
        require_moderate(rows, "atoms")
        table = table.add(rows, hits.ids[found])
        lists, fill = self._with_zero(hits.ids, found.sum(axis=1))
        self.fitter.work(state, table, lists, fill)
        prove(state, nothing, np.full(len(rest), np.inf), 0.0)
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


def _judge(state: ChunkState, certified: np.ndarray[tuple[int], np.dtype[np.bool_]], end: int) -> Answers:
    """Say why each target ended."""
    out = state.answers()
    out.code[:] = judge(state.gap, state.ask.goals, state.slack)
    unknown = ~certified & (out.code != PROVED)
    stuck = np.where(unknown, UNFOUND, STALLED)
    cut = (state.flat < FLAT) & (end != STALLED)
    out.code[:] = np.where(unknown | (out.code == STALLED), np.where(cut, end, stuck), out.code)
    return out


def _pad(starts: Ints, banned: Ids) -> Ids:
    """(m, e) atoms that each must not use, padded with -1."""
    counts = np.diff(starts)
    out = np.full((len(counts), int(counts.max(initial=0))), -1, np.int64)
    out[np.arange(out.shape[1]) < counts[:, None]] = banned
    return out


def build_asked(
    oracle: Oracle, pool_ids: Ids, *, zero: bool, memory: float, over: Callable[[], bool]
) -> Asked:
    """Read the random atoms, no others.

    Parameters
    ----------
    oracle
        Who is asked.
    pool_ids
        Random atoms that give the scale of rtol.
    zero
        Whether the origin is one more atom, whose weight is left out of the answer.
    memory
        Bytes to work in.
    over
        Tells whether time is over.
    """
    n, d = oracle.atoms.shape
    cap = min(n + zero, d + 1) + 1
    each = ANSWERS * (24 + 16 * d) + 8 * (pool_size(d) + cap + 8 * d + 4 * len(pool_ids))
    least = len(pool_ids) * d * (oracle.atoms.dtype.itemsize + 24) + each
    require_room(memory, least)
    raw = finite_rows(oracle.atoms, pool_ids)
    require_moderate(raw, "atoms")
    units, _ = choose_units(raw)
    order = np.argsort(pool_ids)
    table = RowTable(raw[order], pool_ids[order])
    if zero:
        table = table.add(np.zeros((1, d), raw.dtype), np.array([n]))
    shift = float(measure_norms(units.convert(np.zeros((1, d))))[0]) if zero else 0.0
    fitter = Fitter(units, cap, shift)
    pool = ScalePool(pool_ids, units.convert(raw))
    most = fit_chunk(CHUNK, each // 8, memory)
    return Asked(fitter, oracle, pool, table, n if zero else -1, most, over)
