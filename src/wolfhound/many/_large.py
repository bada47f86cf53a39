"""The large dictionary: passes for all targets of a chunk, and proofs by list.

A ladder of random subsets brings every point near its place. Then a pass lists, for
the query q of each target, about 750 atoms of largest key <q, a> + rho |a|. The target
is solved on its list; for its new query p every atom outside has, with any s >= 0,

    <p, a> <= s (level + error) + max(|p - s q| - s rho, 0) max |a|,

so that most targets are proved without a pass of their own.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from wolfhound.atoms import finite_rows
from wolfhound.core import Atoms, Ids, Ints, Vector
from wolfhound.gram._answers import (
    LIMITED,
    OUT_OF_TIME,
    PROVED,
    ROUNDING,
    STALLED,
    Answers,
    Rules,
    make_answers,
    write_sorted,
)
from wolfhound.gram._small import fit_chunk
from wolfhound.gram._tableau import Singles
from wolfhound.gram._units import Units, measure_norms
from wolfhound.many import _pool_kernels as pool_kernels
from wolfhound.many._pool_kernels import Ask, Points, PoolAnswer, Pools, Source
from wolfhound.many._rows import gather
from wolfhound.many._scale import ScalePool, measure_scales
from wolfhound.many._sheet import TILE, Banned, Sheet, build_sheet, measure_sheet, order_banned, scan
from wolfhound.rounding import UNIT, gamma
from wolfhound.validate import require_moderate

LADDER = ((32, 2), (6, 1))
"""Shares of the atoms that are looked at first, and how often."""

LEAST_STEP = 2048
"""Least number of atoms of such a share."""

LIST = 1024
"""Most atoms that a pass lists for a target; a level lets about three quarters of it pass."""

JOIN = 32
"""Most atoms that join a pool at once."""

RHO = (0.1, 0.04, 0.02)
"""How far the query of a target may turn, relative to its length, after the first pass, the second, ..."""

CHUNK = 1024
"""Most targets that share a pass."""

READ_CHUNK = 4096
"""The same where atoms are read anew in each pass."""

PASSES = 40
"""Most passes."""

FLAT = 3
"""Passes in a row without progress after which a target is given up."""


class Step(NamedTuple):
    """A subset of the atoms: their sheet and ids."""

    sheet: Sheet
    ids: Ids


_COLUMNS = ("value", "lower", "slack", "passes", "best", "flat")


@dataclass(slots=True)
class _State:
    """Where the targets of a chunk are."""

    ask: Ask
    pools: Pools
    points: Points
    value: Vector
    lower: Vector
    slack: Vector
    passes: Ints
    best: Vector
    flat: Ints

    def pick(self, rows: Ints) -> _State:
        """Copy some targets."""
        ask = Ask(self.ask.targets[rows], self.ask.norms[rows], self.ask.goals[rows], self.ask.limit)
        pools, points = Pools._make(c[rows] for c in self.pools), Points._make(c[rows] for c in self.points)
        return _State(ask, pools, points, **{name: getattr(self, name)[rows] for name in _COLUMNS})

    def put(self, rows: Ints, part: _State) -> None:
        """Write some targets back."""
        for mine, theirs in ((self.pools, part.pools), (self.points, part.points)):
            for column, other in zip(mine, theirs, strict=True):
                column[rows] = other
        for name in _COLUMNS:
            getattr(self, name)[rows] = getattr(part, name)


@dataclass(frozen=True, slots=True)
class Large:
    """All atoms as a sheet, and subsets of it.

    Attributes
    ----------
    units, cap
        As in `Small`.
    sheet, steps
        All atoms, and the ladder.
    pool : ScalePool
        Random atoms that give the scale of rtol.
    shift : float
        What `measure` adds.
    most : int
        Most targets per chunk.
    over
        Tells whether time is over.
    """

    units: Units
    cap: int
    sheet: Sheet
    steps: tuple[Step, ...]
    pool: ScalePool
    shift: float
    most: int
    over: Callable[[], bool]

    def chunk(self, m: int) -> int:
        """How many of m targets share a pass: many, but some chunks for the threads."""
        return min(self.most, max(64, -(-m // 8)))

    def solve(self, targets: Vector, starts: Ints, banned: Ids, rules: Rules) -> Answers:
        """Solve a chunk of targets in these units; arguments are those of `Small.solve`."""
        goals = np.maximum(rules.atol, rules.rtol * measure_scales(self.pool, targets, starts, banned))
        state = self._begin(Ask(targets, measure_norms(targets), goals, self.cap + 1))
        pairs = order_banned(starts, banned)
        left = np.arange(len(targets))
        late = False
        for step in self.steps:
            late = late or not self._climb(state, step, pairs)
        left = np.flatnonzero(~_settle(state))
        for turn in range(PASSES):
            if late or not len(left):
                break
            part = state.pick(left)
            late = not self._pass(part, _only(pairs, left, len(targets)), turn)
            state.put(left, part)
            left = np.flatnonzero(~_settle(state))
        return self._limit(state, rules.limit, self._answers(state, late))

    # ------------------------------------------------ begin and end

    def _begin(self, ask: Ask) -> _State:
        m, d = ask.targets.shape
        pools = Pools(
            np.zeros((m, pool_size(d)), np.int64),
            np.zeros(m, np.int64),
            np.zeros(m, np.int64),
            np.zeros((m, self.cap)),
        )
        points = Points(ask.targets.copy(), np.full(m, -np.inf), np.zeros((m, 6)))
        return _State(
            ask,
            pools,
            points,
            np.full(m, np.inf),
            np.zeros(m),
            np.zeros(m),
            np.zeros(m, np.int64),
            np.full(m, np.inf),
            np.zeros(m, np.int64),
        )

    def _answers(self, state: _State, late: bool) -> Answers:
        m, wide = len(state.value), state.pools.weights.shape[1]
        out = make_answers(m, wide)
        gap = state.value - state.lower
        _write(state, out, np.arange(m))
        out.value[:], out.lower[:], out.goal[:] = state.value, state.lower, state.ask.goals
        out.passes[:] = state.passes
        rounding = gap <= np.maximum(
            8.0 * state.slack, 128.0 * UNIT * self.sheet.radius * (self.sheet.radius + state.ask.norms)
        )
        open_ = np.where(rounding, ROUNDING, np.where(late & (state.flat < FLAT), OUT_OF_TIME, STALLED))
        out.code[:] = np.where(gap <= state.ask.goals, PROVED, open_)
        return out

    # ------------------------------------------------ passes

    def _climb(self, state: _State, step: Step, banned: Banned) -> bool:
        """One look at a subset; False if time is over."""
        queries = _as_single(state.points.query, np.zeros(len(state.value)))[0]
        lists = scan(step.sheet, queries, _inside(banned, step.ids), 2 * JOIN, over=self.over)
        if lists is None:
            return False
        best = self._work(state, step.ids[lists.ids], lists.fill)
        self._prove(state, best, np.full(len(state.value), np.inf))
        return True

    def _pass(self, state: _State, banned: Banned, turn: int) -> bool:
        """One pass over all atoms, then each target on its list; False if time is over."""
        m = len(state.value)
        rho = np.full(m, RHO[min(turn, len(RHO) - 1)])
        queries, exact, rho = _as_single(state.points.query, rho)
        level = self._level(queries, banned)
        lists = scan(self.sheet, queries, banned, self._list, level=level, over=self.over)
        if lists is None:
            return False
        best = self._work(state, lists.ids, lists.fill)
        state.passes += 1
        self._prove(state, best, self._bound_rest(state.points.query, exact, rho, lists.level))
        gap = state.value - state.lower
        state.flat = np.where(gap < 0.99 * state.best, 0, state.flat + 1)
        state.best = np.minimum(state.best, gap)
        return True

    @property
    def _list(self) -> int:
        """Atoms per list: fewer where there are few."""
        return min(LIST, max(LIST // 4, self.sheet.atoms.shape[0] // 64))

    def _level(self, queries: Singles, banned: Banned) -> Singles | None:
        """Level that about three quarters of a list pass, from the smallest subset."""
        if not self.steps:
            return None
        step = self.steps[0]
        share = self.sheet.atoms.shape[0] // len(step.ids)
        lists = scan(step.sheet, queries, _inside(banned, step.ids), max(8, 3 * self._list // (4 * share)))
        return None if lists is None else lists.level

    def _limit(self, state: _State, limit: int, out: Answers) -> Answers:
        """Solve again, greedily with few atoms of its pool, what has more; its bound stays."""
        many = np.flatnonzero(out.support > limit)
        if not len(many):
            return out
        part = state.pick(many)
        part.ask = part.ask._replace(limit=limit)
        self._work(part, np.zeros((len(many), 1), np.int64), np.zeros(len(many), np.int64))
        full = out.value[many]
        self._prove(part, np.full(len(many), np.inf), np.full(len(many), np.inf))
        _write(part, out, many)
        out.price[many], out.value[many] = part.value - full, part.value
        open_ = many[part.value - out.lower[many] > out.goal[many]]
        out.code[open_] = LIMITED
        return out

    def _work(self, state: _State, ids: Ids, fill: Ints) -> Vector:
        """Solve every target on its list, or again with few atoms; return the best score of each list."""
        pools, (m, d) = state.pools, state.ask.targets.shape
        table = gather(self.sheet.atoms, ids, fill, pools)
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

    def _prove(self, state: _State, best: Vector, rest: Vector) -> None:
        """Note what the scores of the lists and the bound on all others prove."""
        proved = np.zeros((3, len(best)))
        pool_kernels.certify_all(state.points, best, rest, self.sheet.radius, proved)
        state.value[:], state.slack[:] = proved[0], proved[2]
        state.lower[:] = np.minimum(np.maximum(state.lower, proved[1]), state.value)

    def _bound_rest(self, queries: Vector, asked: Vector, rho: Vector, level: Singles) -> Vector:
        """Bound on <query, a> for all atoms outside the lists of the queries that were asked."""
        d = queries.shape[1]
        share = np.einsum("ij,ij->i", queries, asked) / np.einsum("ij,ij->i", asked, asked).clip(min=0.5)
        share = np.maximum(share, 0.0)
        turn = queries - share[:, None] * asked
        up = 1.0 + gamma(d + 8)
        size = np.sqrt(np.einsum("ij,ij->i", queries, queries)) * up
        turned = np.sqrt(np.einsum("ij,ij->i", turn, turn)) * up + 4.0 * UNIT * (size + 2.0 * share)
        listed = level > -np.inf
        edge = np.where(listed, level, 0.0).astype(np.float64) + self.sheet.error(rho)
        more = np.maximum(turned - share * rho * (1.0 - 4.0 * UNIT), 0.0)
        out = share * edge + more * self.sheet.radius
        out += 8.0 * UNIT * (np.abs(out) + size * self.sheet.radius)
        # Without a level every atom was listed that may be.
        return np.where(listed, out, -np.inf)


def build_large(
    atoms: Atoms,
    pool_ids: Ids,
    rng: np.random.Generator,
    *,
    zero: bool,
    memory: float,
    over: Callable[[], bool],
) -> Large:
    """Read the atoms and lay them out.

    Parameters
    ----------
    atoms
        All of them.
    pool_ids
        Random atoms that give the scale of rtol.
    rng
        Draws the subsets.
    zero
        Whether the last atom is the origin, whose weight is left out of the answer.
    memory
        Bytes to work in. The float32 rows, n (d + 1) 4 bytes, are kept if they take up to half of it,
        else made anew in each pass.
    over
        Tells whether time is over.
    """
    n, d = atoms.shape
    rows = finite_rows(atoms, pool_ids).astype(np.float64)
    require_moderate(rows, "atoms")
    units = measure_sheet(atoms, rows.mean(axis=0))
    sheet = build_sheet(atoms, units, keep=4 * n * (d + 1) <= memory / 2)
    steps: list[Step] = []
    for share, times in LADDER:
        if n // share >= LEAST_STEP:
            ids = np.sort(rng.choice(n, n // share, replace=False).astype(np.int64))
            steps += [Step(sheet.take(ids), ids)] * times
    shift = float(measure_norms(units.convert(np.zeros((1, d))))[0]) if zero else 0.0
    cap = min(n, d + 1) + 1
    each = 12 * (2 * LIST + 64) + 4 * TILE + 8 * (pool_size(d) + cap + 8 * d + 2 * len(pool_ids))
    most = fit_chunk(CHUNK if len(sheet.kept) else READ_CHUNK, each, memory)
    return Large(units, cap, sheet, tuple(steps), ScalePool(pool_ids, units.convert(rows)), shift, most, over)


def pool_size(d: int) -> int:
    """Most atoms in the pool of a target: three times as many as can be active."""
    return max(384, 3 * (d + 2))


def _write(state: _State, out: Answers, where: Ints) -> None:
    """Write atoms by decreasing weight, equal weights by id."""
    for t, place in enumerate(where):
        k = int(state.pools.active[t])
        write_sorted(state.pools.ids[t], state.pools.weights[t], k, out.ids[place], out.weights[place])
        out.support[place] = k


# ---------------------------------------------------------------- queries and bans


def _as_single(queries: Vector, rho: Vector) -> tuple[Singles, Vector, Vector]:
    """Queries scaled to norm 1 with their rho, as float32; and what that is in float64."""
    m, d = queries.shape
    size = np.sqrt(np.einsum("ij,ij->i", queries, queries))
    out = np.zeros((m, d + 1), np.float32)
    out[:, :d] = queries / np.where(size > 0.0, size, 1.0)[:, None] * (1.0 - 2.0**-20)
    out[:, d] = rho
    return out, out[:, :d].astype(np.float64), out[:, d].astype(np.float64)


def _inside(banned: Banned, ids: Ids) -> Banned:
    """The same for a subset of the atoms."""
    at = np.minimum(np.searchsorted(ids, banned.places), len(ids) - 1)
    here = ids[at] == banned.places
    return Banned(banned.targets[here], at[here])


def _only(banned: Banned, rows: Ints, m: int) -> Banned:
    """The same for some of m targets."""
    new = np.full(m, -1)
    new[rows] = np.arange(len(rows))
    targets = new[banned.targets]
    return Banned(targets[targets >= 0], banned.places[targets >= 0])


def _settle(state: _State) -> NDArray[np.bool_]:
    """Which targets need no more passes."""
    return np.asarray((state.value - state.lower <= state.ask.goals) | (state.flat >= FLAT))
