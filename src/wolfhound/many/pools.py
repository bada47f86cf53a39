"""Where the targets of a chunk are, whoever finds atoms for them: a pool of atoms each, and what is proved.

`PoolFitter.work` solves every target on the atoms that were listed for it; `prove` notes what the scores of
these and a bound on all others show. Pass and oracle solvers differ in who makes lists and bounds.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from wolfhound.compiled.active_set import make_room, make_state, pad
from wolfhound.core.contracts import Atoms, Ids, Ints, Vector
from wolfhound.core.rounding import TINY, gamma
from wolfhound.data.atoms import ArrayAtoms
from wolfhound.data.files import lock
from wolfhound.many._target_kernels import (
    Ask,
    Points,
    Pools,
    Source,
    TargetLists,
    Workspace,
    limit_pools,
    solve_pools,
)
from wolfhound.many.batch import Answers, Banned, PortionedAtoms, Rules, judge, measure_scales, note_limit
from wolfhound.many.proofs import Units, certify, measure_norms, measure_points

FLAT = 3
"""Passes in a row without progress after which a target is given up."""

JOIN = 48
"""Most atoms that join a pool at once."""

_COLUMNS = ("value", "lower", "slack", "passes", "best", "flat")


class RowTable(NamedTuple):
    """Rows at hand for compiled loops: those of `ids`, or of all atoms if these are None."""

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
        here = np.isin(self.ids, _listed(pools.ids, pools.size)) | (self.ids == zero)
        return RowTable(self.rows[here], self.ids[here])

    def add(self, rows: NDArray[Any], ids: Ids) -> RowTable:
        """With the rows of these atoms, which may be here already."""
        if self.ids is None:
            return self
        wanted, first = np.unique(np.concatenate([self.ids, ids]), return_index=True)
        return RowTable(lock(np.concatenate([self.rows, rows])[first]), wanted)


def _listed(ids: Ids, fill: Ints) -> Ids:
    return ids[np.arange(ids.shape[1]) < fill[:, None]]


def gather_rows(atoms: Atoms, ids: Ids, fill: Ints, pools: Pools) -> RowTable:
    """Rows in memory as they are; of others, those that lists and pools name."""
    atoms = atoms.whole if isinstance(atoms, PortionedAtoms) else atoms
    if isinstance(atoms, ArrayAtoms) and atoms.rows.dtype == atoms.dtype and atoms.rows.flags.c_contiguous:
        return RowTable(lock(atoms.rows.view()), None)
    wanted = np.union1d(_listed(ids, fill), _listed(pools.ids, pools.size))
    wanted = wanted if len(wanted) else np.zeros(1, np.int64)
    return RowTable(lock(atoms.take(wanted)), wanted)


@dataclass(slots=True)
class PoolState:
    """Where the targets of a chunk are."""

    ask: Ask
    pools: Pools
    points: Points
    shift: float  # what `measure_points` adds
    value: Vector
    lower: Vector
    slack: Vector
    passes: Ints
    best: Vector
    flat: Ints

    def pick(self, rows: Ints) -> PoolState:
        """Copy some targets."""
        mine = {name: getattr(self.ask, name)[rows] for name in ("targets", "norms", "goals")}
        ask = self.ask._replace(**mine)
        pools, points = Pools._make(c[rows] for c in self.pools), Points._make(c[rows] for c in self.points)
        columns = {name: getattr(self, name)[rows] for name in _COLUMNS}
        return PoolState(ask, pools, points, self.shift, **columns)

    def put(self, rows: Ints, part: PoolState) -> None:
        """Write some targets back."""
        for mine, theirs in ((self.pools, part.pools), (self.points, part.points)):
            for column, other in zip(mine, theirs, strict=True):
                column[rows] = other
        for name in _COLUMNS:
            getattr(self, name)[rows] = getattr(part, name)

    @property
    def gap(self) -> Vector:
        """(m,) what is not proved yet."""
        return self.value - self.lower

    def settled(self) -> NDArray[np.bool_]:
        """Which targets need no more passes."""
        return np.asarray((self.gap <= self.ask.goals) | (self.flat >= FLAT))

    def note_progress(self, before: Vector) -> None:
        """Count passes in a row after which neither the gap nor f, `before` it, was clearly smaller."""
        fell = before > self.value + 0.01 * self.ask.goals
        self.flat = np.where(self.gap < 0.99 * self.best, 0, np.where(fell, self.flat, self.flat + 1))
        self.best = np.minimum(self.best, self.gap)

    def prove(self, best: Vector, rest: Vector, radius: float) -> None:
        """Note what the computed best score of each list, and a true bound on all others, show.

        `radius` is at least the norm of every atom.
        """
        points, d = self.points, self.ask.targets.shape[1]
        sizes = measure_points(points.sums, self.pools.active, self.ask.norms, d, self.shift)
        error = gamma(d + 6) * radius * sizes.r + d * TINY
        least = -np.maximum(best, rest)
        found = certify(sizes, d, -points.here, least, radius=radius, error=error)
        there = self.pools.active > 0  # others have no point yet
        self.value[there], self.slack[there] = found.value[there], found.slack[there]
        self.lower[there] = np.minimum(np.maximum(self.lower, found.lower), self.value)[there]

    def write(self, out: Answers, where: Ints) -> None:
        """Write atoms by decreasing weight, equal weights by id."""
        active, wide = self.pools.active, self.pools.weights.shape[1]
        held = np.arange(wide) < active[:, None]
        weights, ids = np.where(held, self.pools.weights, -1.0), self.pools.ids[:, :wide]
        order = np.lexsort((ids, -weights), axis=-1)
        out.ids[where] = np.take_along_axis(ids, order, axis=1)
        out.weights[where] = np.take_along_axis(weights, order, axis=1)
        out.support[where] = active

    def answers(self) -> Answers:
        """What is known of all."""
        (m, wide), goals = self.pools.weights.shape, self.ask.goals
        codes, value = judge(self.gap, goals, self.slack), self.value.copy()
        room = np.empty((m, wide), np.int64), np.empty((m, wide)), np.zeros(m, np.int64)
        out = Answers(*room, value, self.lower, self.slack, goals, codes, self.passes, np.zeros(m))
        self.write(out, np.arange(m))
        return out


class RandomAtoms(NamedTuple):
    """Random atoms that give the scale of rtol: their ids, and rows (p, d) in the units of a solver."""

    ids: Ids
    rows: Vector

    def find_goals(self, targets: Vector, banned: Banned, rules: Rules) -> Vector:
        """(m,) the gap that is wanted of each target."""
        rows = self.rows
        scales = measure_scales(
            np.einsum("ij,ij->i", rows, rows),
            targets @ rows.T,
            np.arange(len(rows)),
            banned.among(self.ids),
            lambda near: rows[near] @ rows.T,
        )
        return np.maximum(rules.atol, rules.rtol * scales)


def pool_size(d: int) -> int:
    """Most atoms in the pool of a target: three times as many as can be active."""
    return max(384, 3 * (d + 2))


@dataclass(frozen=True, slots=True)
class PoolFitter:
    """Solves targets on lists of atoms; who makes the lists is added by solvers."""

    units: Units  # of targets and rules
    cap: int  # most atoms that an answer can have
    shift: float  # what `measure_points` adds

    def begin(self, targets: Vector, goals: Vector, limit: int) -> PoolState:
        """Return the state of targets before anything is known.

        Pools keep active atoms only, unless few of many are to be chosen in the end.
        """
        (m, d), cap = targets.shape, self.cap
        ask = Ask(targets, measure_norms(targets), goals, 0 if limit > cap else 3 * pool_size(d) // 4)
        none = np.zeros(m, np.int64)
        pools = Pools(np.zeros((m, pool_size(d)), np.int64), none, none.copy(), np.zeros((m, cap)))
        points = Points(targets.copy(), np.full(m, -np.inf), np.zeros((m, 3)))
        unknown = np.full(m, np.inf), np.zeros(m), np.zeros(m)
        known = none.copy(), np.full(m, np.inf), none.copy()
        return PoolState(ask, pools, points, self.shift, *unknown, *known)

    def work(self, state: PoolState, table: RowTable, ids: Ids, fill: Ints) -> Vector:
        """Solve every target on its list; return the best score of each list.

        (m, l) `ids`, of which `fill`; `table` has all rows that these and pools name.
        """
        m = len(ids)
        source, work, inside = self._prepare(state, table)
        lists = TargetLists(table.find(ids), fill, np.empty(m), np.empty(JOIN, np.int64), np.empty(JOIN))
        solve_pools(source, work, inside, state.ask, lists, state.points)
        state.pools.ids[:] = table.name(inside.ids)
        return lists.best

    def _prepare(self, state: PoolState, table: RowTable) -> tuple[Source, Workspace, Pools]:
        """Rows as kernels take them, what they work on, and pools that name places in the table."""
        size, d = state.pools.ids.shape[1], state.ask.targets.shape[1]
        source = Source(table.rows, self.units.centre, 2.0**-self.units.exponent)
        wide, kept = pad(size), max(size, self.cap) + 1
        singles = make_room((self.cap + 1, wide), np.float32)
        space = make_state(np.zeros((1, wide)), singles, np.zeros((size, d)), self.cap)
        room = np.zeros((4, kept), np.int64), np.zeros((4, kept))
        work = Workspace(space, np.zeros(wide), *room, np.zeros(d))
        return source, work, state.pools._replace(ids=table.find(state.pools.ids))

    def limit(self, state: PoolState, table: RowTable, limit: int, out: Answers) -> Answers:
        """Solve again with few atoms of its pool what has more; its bound stays."""
        many = np.flatnonzero(out.support > limit)
        if not len(many):
            return out
        part = state.pick(many)
        source, work, inside = self._prepare(part, table)
        limit_pools(source, work, inside, part.ask, limit, part.points)
        part.pools.ids[:] = table.name(inside.ids)
        nothing = np.full(len(many), np.inf)
        part.prove(nothing, nothing, 0.0)
        part.write(out, many)
        note_limit(out, many, part.value)
        return out
