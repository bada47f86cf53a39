"""Targets over the atoms that were listed for them, and what that proves."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import NamedTuple

import numpy as np

from wolfhound.core import Ids, Ints, Vector
from wolfhound.gram._answers import LIMITED, PROVED, ROUNDING, Answers
from wolfhound.gram._units import Units
from wolfhound.many import _pool_kernels as pool_kernels
from wolfhound.many._pool_kernels import PoolAnswer, Source
from wolfhound.many._rows import RowTable
from wolfhound.many._state import ChunkState

JOIN = 48
"""Most atoms that join a pool at once."""


class Fitter(NamedTuple):
    """Solves targets on lists of atoms.

    Attributes
    ----------
    units, cap
        As in `Small`.
    shift : float
        What `measure` adds.
    """

    units: Units
    cap: int
    shift: float

    def work(self, state: ChunkState, table: RowTable, ids: Ids, fill: Ints) -> Vector:
        """Solve every target on its list, or again with few atoms; return the best score of each list.

        Parameters
        ----------
        state
            Where the targets are.
        table
            All rows that their lists and pools name.
        ids, fill : (m, l) and (m,)
            The lists, of which `fill`.
        """
        pools, (m, d) = state.pools, state.ask.targets.shape
        source = Source(table.rows, self.units.centre, 2.0**-self.units.exponent, self.shift)
        inside = pools._replace(ids=table.find(pools.ids))
        bench = pool_kernels.make_bench(self.cap, pools.ids.shape[1], d)
        found = PoolAnswer(table.find(ids), fill, JOIN, np.empty(m), np.empty(JOIN, np.int64), np.empty(JOIN))
        if state.ask.limit <= self.cap:
            pool_kernels.limit_all(source, bench, inside, state.ask, state.points)
        else:
            pool_kernels.work_lists(source, bench, inside, state.ask, found, state.points)
        pools.ids[:] = table.name(inside.ids)
        return found.best

    def limit(self, state: ChunkState, table: RowTable, limit: int, out: Answers) -> Answers:
        """Solve again, greedily with few atoms of its pool, what has more; its bound stays."""
        many = np.flatnonzero(out.support > limit)
        if not len(many):
            return out
        part = state.pick(many)
        part.ask = part.ask._replace(limit=limit)
        self.work(part, table, np.zeros((len(many), 1), np.int64), np.zeros(len(many), np.int64))
        full = out.value[many]
        nothing = np.full(len(many), np.inf)
        prove(part, nothing, nothing, 0.0)
        part.write(out, many)
        out.price[many], out.value[many] = part.value - full, part.value
        done = np.isin(out.code[many], (PROVED, ROUNDING))
        out.code[many[done & (part.value - out.lower[many] > out.goal[many])]] = LIMITED
        return out


def prove(state: ChunkState, best: Vector, rest: Vector, radius: float) -> None:
    """Note what the scores of the lists and the bound on all others prove.

    Parameters
    ----------
    state
        Where the targets are.
    best, rest : (m,)
        The computed score of the best of each list; a true bound for all other atoms.
    radius
        At least the norm of every atom.
    """
    proved = np.zeros((3, len(best)))
    pool_kernels.certify_all(state.points, best, rest, radius, proved)
    there = state.pools.active > 0  # others have no point yet
    state.value[there], state.slack[there] = proved[0, there], proved[2, there]
    state.lower[there] = np.minimum(np.maximum(state.lower, proved[1]), state.value)[there]
