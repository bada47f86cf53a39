"""Compiled: a target over its own small pool of atoms, with Gram rows on demand.

Rows are those of the caller; each is moved to the units of `_units` when it is used.
The pool of a target lists its active atoms first. The quadratic is 1/2 |sum w z|^2 with
z = a - b, rows less the target: nothing cancels where the target is close to the hull.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import NamedTuple

import numpy as np

from wolfhound.core import Ids, Ints, Matrix, Vector
from wolfhound.gram import _moves as moves
from wolfhound.gram import _proof_kernels as proofs
from wolfhound.gram import _tableau as table
from wolfhound.gram._proof_kernels import Residual
from wolfhound.gram._tableau import ALPHA, GAIN, LINEAR, PIVOT, SIZE, WEIGHT, Tableau
from wolfhound.jit import fast_kernel, kernel
from wolfhound.rounding import TINY

INNER = 0.25
"""Share of the goal to which a pool is solved."""

TURNS = 8
"""How often a list is solved at most before the next pass."""

EXACT = 64
"""Most steps by float64 prices in one go."""


class Source(NamedTuple):
    """Rows of the caller, and their units.

    Attributes
    ----------
    rows : (r, d)
    centre : (d,)
    scale : float
        A power of two.
    shift : float
        What `measure` adds.
    """

    rows: Matrix
    centre: Vector
    scale: float
    shift: float


class Pools(NamedTuple):
    """Per target: atoms (m, q) of which `size`, the first `active` with `weights` (m, cap)."""

    ids: Ids
    size: Ints
    active: Ints
    weights: Vector


class Points(NamedTuple):
    """Per target: the query -r (m, d), <-r, x> (m,), and the sizes of a `Residual` (m, 6)."""

    query: Vector
    here: Vector
    sizes: Vector


class Ask(NamedTuple):
    """What is asked of each target: (m, d) targets, (m,) norms rounded up and goals; most atoms.

    Pools larger than `room` lose atoms that promise little.
    """

    targets: Vector
    norms: Vector
    goals: Vector
    limit: int
    room: int


class PoolAnswer(NamedTuple):
    """Lists of atoms (m, l) of which `fill`; how many join at once; the best score (m,) of each list."""

    ids: Ids
    fill: Ints
    most: int
    best: Vector
    new: Ids
    keys: Vector


class Bench(NamedTuple):
    """What one thread works on: a tableau, rows (q, d) less the target, and lines for a pool."""

    tab: Tableau
    point: Residual
    rows: Vector
    gram: Vector
    old: Ids
    kept: Ints


def make_bench(cap: int, pool: int, d: int) -> Bench:
    """Return room for pools of this size."""
    wide = table.pad(pool)
    return Bench(
        table.make_tableau(cap, pool),
        proofs.make_residual(d),
        np.zeros((wide, d)),
        np.zeros(wide),
        np.zeros(wide, np.int64),
        np.zeros(wide, np.int64),
    )


@fast_kernel
def load_row(source: Source, which: int, out: Vector) -> None:
    """Set `out` to a row in our units: each entry is off by a unit of itself."""
    row, centre, scale = source.rows[which], source.centre, source.scale
    for i in range(len(out)):
        out[i] = (np.float64(row[i]) - centre[i]) * scale


@fast_kernel
def score_row(source: Source, which: int, query: Vector) -> float:
    """<query, row> in our units."""
    row, centre, scale = source.rows[which], source.centre, source.scale
    total = 0.0
    for i in range(len(query)):
        total += query[i] * ((np.float64(row[i]) - centre[i]) * scale)
    return total


@kernel
def add_new(pools: Pools, t: int, new: Ids) -> None:
    """Append atoms that are not in the pool yet, as long as there is room."""
    ids, size = pools.ids[t], pools.size[t]
    for p in new:
        seen = False
        for i in range(size):
            seen = seen or ids[i] == p
        if not seen and size < len(ids):
            ids[size] = p
            size += 1
    pools.size[t] = size


@kernel
def _load(source: Source, bench: Bench, ids: Ids, target: Vector) -> None:
    """Set the rows of a pool less the target, and begin a tableau over them."""
    q, tab, square = len(ids), bench.tab, 0.0
    wide = -(-q // table.LANES) * table.LANES
    moves.clear(tab, wide, 1.0)
    lines = tab.lines
    for j in range(q):
        row = bench.rows[j]
        load_row(source, ids[j], row)
        proofs.subtract(row, row, target)
        own = proofs.dot(row, row)
        bench.gram[j] = own
        square += own
    alpha = square / q if square > 0.0 else 1.0
    tab.numbers[ALPHA] = alpha
    for j in range(wide):
        own = bench.gram[j] if j < q else 0.0
        tab.exact[j] = 0.0
        lines[PIVOT, j] = np.float32(own + table.SHARE * own + alpha)
        lines[LINEAR, j] = np.float32(alpha) if j < q else table.FAR


@kernel
def _set_gram(bench: Bench, b: int, q: int) -> None:
    """Products of row b with all rows."""
    row = bench.rows[b]
    for j in range(q):
        bench.gram[j] = proofs.dot(bench.rows[j], row)


@kernel
def _enter(bench: Bench, pools: Pools, t: int) -> None:
    """Begin at the weights that the pool has, or at its best atom."""
    tab, q, active = bench.tab, pools.size[t], pools.active[t]
    nearest = 0
    for j in range(q):
        nearest = j if bench.gram[j] < bench.gram[nearest] else nearest
    if active == 0:
        _set_gram(bench, nearest, q)
        moves.join(tab, nearest, bench.gram, bench.gram, bench.gram[nearest] + tab.numbers[ALPHA])
        tab.active[WEIGHT, 0] = 1.0
    for i in range(active):
        _set_gram(bench, i, q)
        pivot = moves.solve_row(tab, i, bench.gram)
        if pivot > moves.DEPENDENT * (bench.gram[i] + tab.numbers[ALPHA]) or tab.sizes[SIZE] == 0:
            moves.join(tab, i, bench.gram, bench.gram, pivot)
            tab.active[WEIGHT, tab.sizes[SIZE] - 1] = pools.weights[t, i]
    proofs.normalise(tab.active[WEIGHT], tab.sizes[SIZE])
    moves.descend(tab)


@kernel
def _walk(bench: Bench, q: int, goal: float, limit: int) -> None:
    """Move by float32 prices, then by float64 prices where these still see a gap."""
    tab = bench.tab
    while tab.sizes[SIZE] < limit:
        b = table.choose_column(tab, 0.0, goal)
        if b < 0:
            break
        _set_gram(bench, b, q)
        moves.step_to(tab, b, bench.gram, bench.gram, tab.numbers[GAIN])
    moves.settle(tab)
    best = np.inf
    for _ in range(EXACT if tab.sizes[SIZE] < limit else 0):
        b, gap, value = _price(bench, q)
        fell = value < best
        best = min(best, value)
        if not (fell and proofs.cut_gap(gap, 2.0 * value + TINY) > goal) or tab.sizes[SIZE] >= limit:
            return
        for i in range(tab.sizes[SIZE]):
            if tab.at[i] == b:  # only its weight is wrong: rounding hides by how much
                return
        _set_gram(bench, b, q)
        moved = moves.step_to(tab, b, bench.gram, bench.gram, gap)
        moves.settle(tab)
        if not moved:
            return


@kernel
def _price(bench: Bench, q: int) -> tuple[int, float, float]:
    """The pool atom of least slope in float64, the gap to it, and f."""
    tab, r = bench.tab, bench.point.r
    for i in range(len(r)):
        r[i] = 0.0
    for i in range(tab.sizes[SIZE]):
        proofs.add_scaled(r, tab.active[WEIGHT, i], bench.rows[tab.at[i]])
    best, least = 0, np.inf
    for j in range(q):
        slope = proofs.dot(bench.rows[j], r)
        if slope < least:
            best, least = j, slope
    square = proofs.dot(r, r)
    return best, max(square - least, 0.0), 0.5 * square


@kernel
def _leave_pool(bench: Bench, pools: Pools, t: int, room: int) -> None:
    """Write back the pool, active atoms first; of one beyond its room, the larger slopes go."""
    tab, q, k = bench.tab, pools.size[t], bench.tab.sizes[SIZE]
    ids, old, kept = pools.ids[t], bench.old, bench.kept
    for j in range(q):
        old[j], kept[j] = ids[j], 1
    for i in range(k):
        ids[i], pools.weights[t, i], kept[tab.at[i]] = old[tab.at[i]], tab.active[WEIGHT, i], 0
    mean = 0.0
    for j in range(q):
        bench.gram[j] = proofs.dot(bench.rows[j], bench.point.r)
        mean += bench.gram[j] / q
    here = proofs.dot(bench.point.r, bench.point.r)
    full = q > room
    end = k
    for j in range(q):
        if kept[j] == 1 and (not full or bench.gram[j] < here + 0.3 * (mean - here)):
            ids[end] = old[j]
            end += 1
    pools.size[t], pools.active[t] = end, k


@kernel
def _evaluate(source: Source, bench: Bench, ids: Ids, weights: Vector, target: Vector, norm: float) -> None:
    """Set the point of these atoms in float64, with its errors."""
    point, row, rho, k = bench.point, bench.rows[0], 0.0, len(ids)
    for i in range(len(point.x)):
        point.x[i] = 0.0
    for i in range(k):
        load_row(source, ids[i], row)
        proofs.add_scaled(point.x, weights[i], row)
        rho += weights[i] * np.sqrt(proofs.dot(row, row) + len(row) * TINY)
    point.sizes[proofs.RHO] = rho * (1.0 + proofs.gamma(len(row) + k + 8))
    proofs.measure(point, target, norm, k, source.shift)


@kernel
def improve(source: Source, bench: Bench, pools: Pools, t: int, ask: Ask, out: Points) -> None:
    """Solve target t over its pool, and evaluate the point."""
    target, q = ask.targets[t], pools.size[t]
    _load(source, bench, pools.ids[t, :q], target)
    _enter(bench, pools, t)
    _walk(bench, q, INNER * ask.goals[t], ask.limit)
    tab = bench.tab
    proofs.normalise(tab.active[WEIGHT], tab.sizes[SIZE])
    _price(bench, q)
    _leave_pool(bench, pools, t, ask.room)
    k = pools.active[t]
    _evaluate(source, bench, pools.ids[t, :k], pools.weights[t], target, ask.norms[t])
    point = bench.point
    for i in range(len(target)):
        out.query[t, i] = -point.r[i]
    out.here[t] = -proofs.dot(point.r, point.x)
    for i in range(len(point.sizes)):
        out.sizes[t, i] = point.sizes[i]


@kernel
def harvest(source: Source, found: PoolAnswer, t: int, query: Vector, floor: float) -> int:
    """Score the list of target t; put the best above the floor into `found.new`, and count them."""
    ids, keys, new, most = found.ids[t], found.keys, found.new, found.most
    count, best = 0, -np.inf
    for j in range(found.fill[t]):
        score = score_row(source, ids[j], query)
        best = max(best, score)
        if score > floor and (count < most or score > keys[count - 1]):
            at = count if count < most else most - 1
            while at > 0 and keys[at - 1] < score:
                keys[at], new[at] = keys[at - 1], new[at - 1]
                at -= 1
            keys[at], new[at] = score, ids[j]
            count = min(count + 1, most)
    found.best[t] = best
    return count


@kernel
def work_lists(source: Source, bench: Bench, pools: Pools, ask: Ask, found: PoolAnswer, out: Points) -> None:
    """Solve every target on its list: violators join its pool until none is left, `ask.limit` rounds."""
    for t in range(len(ask.targets)):
        floor = out.here[t]
        for turn in range(TURNS):
            new = harvest(source, found, t, out.query[t], floor)
            if turn == TURNS - 1 or (new == 0 and pools.active[t] > 0):
                break
            if new == 0 and pools.size[t] == 0:
                break
            add_new(pools, t, found.new[:new])
            improve(source, bench, pools, t, ask, out)
            floor = out.here[t] + INNER * ask.goals[t]


@kernel
def limit_all(source: Source, bench: Bench, pools: Pools, ask: Ask, out: Points) -> None:
    """Solve every target again over its pool, greedily with at most `ask.limit` atoms."""
    for t in range(len(ask.targets)):
        pools.active[t] = 0
        improve(source, bench, pools, t, ask, out)


@kernel
def certify_all(out: Points, best: Vector, rest: Vector, radius: float, proved: Vector) -> None:
    """Prove every target from the best score of its list, and a bound on those of all other atoms.

    Parameters
    ----------
    best, rest : (m,)
        The computed score of the best of the list; a true bound for the others.
    radius
        At least the norm of every atom.
    proved : (3, m)
        Set to value, lower and slack.
    """
    d = out.query.shape[1]
    for t in range(len(best)):
        sizes = out.sizes[t]
        error = proofs.gamma(d + 6) * radius * sizes[proofs.R] + d * TINY
        least = -max(best[t], rest[t])
        found = proofs.certify(sizes, d, -out.here[t], least, radius, error)
        proved[0, t], proved[1, t], proved[2, t] = found.value, found.lower, found.slack
