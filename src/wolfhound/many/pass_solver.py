"""The large dictionary: passes for all targets of a chunk, and proofs by list.

A ladder of random subsets brings every point near its place. Then a pass lists, for
the query q of each target, about 750 atoms of largest key <q, a> + rho |a|. The target
is solved on its list; for its new query p every atom outside has, with any s >= 0,

    <p, a> <= s (level + error) + (|p - s q| - s rho) |a|,

where |a| is the largest or the least length, so that most targets are proved without a
pass of their own. Passes read int8 codes; a target that gets no further by them is asked
again in float32.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from wolfhound.core.contracts import Atoms, Ids, Ints, Singles, Status, Vector
from wolfhound.core.rounding import UNIT, gamma
from wolfhound.core.validate import require_moderate
from wolfhound.data.atoms import finite_rows
from wolfhound.many.batch import (
    MEMORY,
    STALLED,
    TILE,
    Answers,
    Banned,
    Rules,
    fit_chunk,
    plan_room,
    weigh_listed,
)
from wolfhound.many.pools import FLAT, JOIN, PoolFitter, PoolState, RandomAtoms, gather_rows, pool_size
from wolfhound.many.proofs import most_active
from wolfhound.many.result import CODES
from wolfhound.many.rows import AtomSizes, EncodedRows, RowBlocks, encode_rows, encode_some, measure_atoms

LADDER = ((32, 2), (6, 1))
"""Shares of the atoms that are looked at first, and how often."""

LEAST_STEP = 2048
"""Least number of atoms of such a share."""

LIST = 1024
"""Most atoms that a pass lists for a target; a level lets about three quarters of it pass."""

CODED = 1 << 20
"""Entries of atoms from which on a pass over codes is faster than one over float32 rows."""

RHO = (0.1, 0.04, 0.01, 0.001, 0.0)
"""How far the query of a target may turn, relative to its length, after the first pass, the second, ..."""

CHUNK = 1024
"""Most targets that share a pass."""

READ_CHUNK = 4096
"""The same where atoms are read anew in each pass."""

PASSES = 40
"""Most passes."""


class Step(NamedTuple):
    """A subset of the atoms: their sheet and ids."""

    sheet: RowBlocks | EncodedRows
    ids: Ids


@dataclass(frozen=True, slots=True)
class PassSolver(PoolFitter):
    """All atoms as a sheet, and subsets of it."""

    sheet: RowBlocks
    codes: EncodedRows | None  # the same atoms, if there is room for them
    steps: tuple[Step, ...]  # the ladder
    pool: RandomAtoms
    least: float  # at most the length of every atom
    most: int  # targets per chunk
    over: Callable[[], bool]  # whether time is over
    alone = False
    quick = False

    def chunk(self, m: int) -> int:
        """How many of m targets share a pass: many, but some chunks for the threads."""
        return min(self.most, max(64, -(-m // 8)))

    def solve(self, targets: Vector, banned: Banned, rules: Rules) -> Answers:
        """Solve a chunk of targets in these units; see `TargetSolver`."""
        goals = self.pool.find_goals(targets, banned, rules)
        state = self.begin(targets, goals, rules.limit)
        pairs = banned.by_atom()
        late = not all(self._climb(state, step, pairs) for step in self.steps)
        for turn in range(PASSES):
            left = np.flatnonzero(~state.settled())
            if late or not len(left):
                break
            # Where codes did not help, or how far queries may turn hides the rest, rows may.
            flat, rho = state.flat[left], float(np.float32(RHO[min(turn, len(RHO) - 1)]))
            ways = (
                (self.codes or self.sheet, left[flat == 0], rho),
                (self.sheet, left[flat == 1], 0.0),
                (self.sheet.exact(), left[flat > 1], 0.0),
            )
            for sheet, rows, turned in ways:
                if len(rows) and not late:
                    part = state.pick(rows)
                    late = not self._pass(sheet, part, pairs.only(rows, len(targets)), turned)
                    state.put(rows, part)
        out, m = self._answers(state, late), len(targets)
        nothing = np.zeros((m, 1), np.int64), np.zeros(m, np.int64)
        table = gather_rows(self.sheet.atoms, *nothing, state.pools)
        return self.limit(state, table, rules.limit, out)

    def _answers(self, state: PoolState, late: bool) -> Answers:
        out = state.answers()
        out.codes[(out.codes == STALLED) & late & (state.flat < FLAT)] = CODES[Status.MAX_SECONDS]
        return out

    # ------------------------------------------------ passes

    def _climb(self, state: PoolState, step: Step, banned: Banned) -> bool:
        """One look at a subset; False if time is over."""
        queries = _round(state.points.query)
        found = step.sheet.list_atoms(queries, 0.0, banned.among(step.ids), 2 * JOIN, over=self.over)
        if found is None:
            return False
        best = self._work(state, step.ids[found.ids], found.fill)
        state.prove(best, np.full(len(best), np.inf), self.sheet.radius)
        return True

    def _pass(self, sheet: RowBlocks | EncodedRows, state: PoolState, banned: Banned, rho: float) -> bool:
        """One pass over all atoms, then each target on its list; False if time is over."""
        fine = isinstance(sheet, RowBlocks) and sheet.kept.dtype == np.float64
        queries, before = _round(state.points.query, fine=fine), state.value.copy()
        # Levels of codes are too high for rows: their keys hold errors.
        level = self._level(queries, rho, banned) if sheet is (self.codes or self.sheet) else None
        found = sheet.list_atoms(queries, rho, banned, self._list, level=level, over=self.over)
        if found is None:
            return False
        best = self._work(state, found.ids, found.fill)
        state.passes += 1
        lengths = self.least, self.sheet.radius
        rest = bound_rest(state.points.query, queries, rho, found.edge, lengths)
        state.prove(best, rest, self.sheet.radius)
        state.note_progress(before)
        return True

    def _work(self, state: PoolState, ids: Ids, fill: Ints) -> Vector:
        table = gather_rows(self.sheet.atoms, ids, fill, state.pools)
        return self.work(state, table, ids, fill)

    @property
    def _list(self) -> int:
        """Atoms per list: fewer where there are few."""
        return min(LIST, max(LIST // 4, self.sheet.atoms.shape[0] // 64))

    def _level(self, queries: Vector, rho: float, banned: Banned) -> Singles | None:
        """Level that about three quarters of a list pass, from the smallest subset."""
        if not self.steps:
            return None
        step = self.steps[0]
        share = self.sheet.atoms.shape[0] // len(step.ids)
        h = max(8, 3 * self._list // (4 * share))
        found = step.sheet.list_atoms(queries, rho, banned.among(step.ids), h)
        return None if found is None else found.level


def bound_rest(
    queries: Vector, asked: Vector, rho: float, edge: Vector, lengths: tuple[float, float]
) -> Vector:
    """Bound on <query, a> for all atoms outside the lists of the queries that were asked.

    What was asked has norm up to 1; atoms outside have <asked, a> + rho |a| <= edge (-inf: there are none).
    `lengths` are at most and at least every |a|.
    """
    least, radius = lengths
    d = queries.shape[1]
    share = np.einsum("ij,ij->i", queries, asked) / np.einsum("ij,ij->i", asked, asked).clip(min=0.5)
    share = np.maximum(share, 0.0)
    turn = queries - share[:, None] * asked
    up = 1.0 + gamma(d + 8)
    size = np.sqrt(np.einsum("ij,ij->i", queries, queries)) * up
    turned = np.sqrt(np.einsum("ij,ij->i", turn, turn)) * up + 4.0 * UNIT * (size + 2.0 * share)
    listed, known = edge > -np.inf, edge < np.inf
    more = turned - share * rho * (1.0 - 4.0 * UNIT)
    out = share * np.where(listed & known, edge, 0.0) + more * np.where(more > 0.0, radius, least)
    out += 8.0 * UNIT * (np.abs(out) + size * radius)
    # Without a level every atom was listed that may be.
    return np.where(listed, np.where(known, out, np.inf), -np.inf)


def build_pass_solver(
    atoms: Atoms,
    pool_ids: Ids,
    rng: np.random.Generator,
    *,
    zero: bool,
    max_memory: float,
    over: Callable[[], bool],
) -> PassSolver:
    """Read the atoms and lay them out; `zero`: the last one is the origin, left out of the answer.

    Codes, n (d + 12) bytes, or float32 rows of few atoms are kept if they take up to half of `max_memory`
    (a third, of less than is there by default), else float32 rows are made anew in each pass.
    """
    n, d = atoms.shape
    cap = most_active(n, d)
    each = 12 * (2 * LIST + 64) + 4 * TILE + 8 * (pool_size(d) + cap + 8 * d + 2 * len(pool_ids))
    listed = weigh_listed(atoms, LIST) if max_memory < MEMORY else 0
    room = plan_room(atoms, len(pool_ids), each + listed, max_memory)
    rows = finite_rows(atoms, pool_ids).astype(np.float64)
    require_moderate(rows, "atoms")
    atoms = room.portion(atoms)
    measured = measure_atoms(atoms, rows.mean(axis=0))
    units = measured.units
    coded = n * d >= CODED and n * (d + 12) <= room.kept
    keep = not coded and 4 * n * (d + 1) <= room.kept
    sheet = RowBlocks(units, float(measured.lengths.max()), np.empty((0, d + 1), np.float32), atoms)
    sheet = sheet.take(np.arange(n)) if keep else sheet
    steps = _draw_steps(sheet, measured, rng, coded=coded, room=room.step)
    shift = units.measure_origin() if zero else 0.0
    most = fit_chunk(CHUNK if keep or coded else READ_CHUNK, each + listed, room.chunk)
    codes = encode_rows(atoms, measured) if coded else None
    # Lengths are rounded up by far less.
    least = float(measured.lengths.min()) * (1.0 - 2.0**-20)
    pool = RandomAtoms(pool_ids, units.convert(rows))
    return PassSolver(units, cap, shift, sheet, codes, steps, pool, least, most, over)


def _draw_steps(
    sheet: RowBlocks, measured: AtomSizes, rng: np.random.Generator, *, coded: bool, room: float
) -> tuple[Step, ...]:
    """Draw the subsets of the ladder, but none that has no room; a code is made of a row in memory."""
    atoms, steps = sheet.atoms, list[Step]()
    n, d = atoms.shape
    each = d + 12 + d * (2 * atoms.dtype.itemsize + 16) if coded else 4 * (d + 1)
    for share, times in LADDER:
        if n // share >= LEAST_STEP and n // share * each <= room:
            ids = np.sort(rng.choice(n, n // share, replace=False).astype(np.int64))
            steps += [Step(encode_some(atoms, ids, measured) if coded else sheet.take(ids), ids)] * times
    return tuple(steps)


def _round(queries: Vector, *, fine: bool = False) -> Vector:
    """Queries scaled to norm 1, but not more, and rounded to float32 unless they are to be fine."""
    size = np.sqrt(np.einsum("ij,ij->i", queries, queries))
    unit = queries / np.where(size > 0.0, size, 1.0)[:, None] * (1.0 - 2.0**-20)
    return np.asarray(unit if fine else unit.astype(np.float32).astype(np.float64))
