"""Compiled: one target after the other, over a dictionary with its Gram matrix or over a pool of rows.

`solve_dictionary` and `solve_pools` are the two roots that a run compiles, `limit_dictionary` and
`limit_pools` those of a run with few atoms per target. All walk by float32 prices, then by float64 ones
(`compiled.active_set`); what they find is proved in `proofs`.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import NamedTuple

import numpy as np

from wolfhound.compiled.active_set import (
    ALPHA,
    AT_ZERO,
    ATOMS,
    FREE,
    INVERSE,
    IS_FREE,
    LANES,
    MU,
    PRICE,
    ROW,
    SHARE,
    SHUT,
    SLOT,
    STATE,
    WEIGHT,
    GramState,
    V,
    add_rows,
    begin,
    dot,
    forward,
    lowest,
    walk,
)
from wolfhound.compiled.jit import inlined, lean_fast_kernel, lean_kernel
from wolfhound.core.contracts import Ids, Ints, Matrix, Vector
from wolfhound.core.rounding import TINY
from wolfhound.many.proofs import RHO, SQUARE, X

CLOSE = 0.7
"""Share of the goal at which a walk ends: proofs are of a little less."""

INNER = 0.25
"""Share of the goal to which a pool is solved."""

TURNS = 8
"""How often a list is solved at most before the next pass."""

TRIED = 32
"""Atoms of least price of which one may take the place of another, where few are allowed."""

WORTH = 1e-9
"""Relative decrease of f for which an exchange is made."""

MANY = 1 << 40


@lean_kernel
def keep(state: GramState, ids: Ids, weights: Vector) -> int:
    """Copy the free atoms and weights."""
    k: int = state.sizes[FREE]
    for i in range(k):
        ids[i], weights[i] = state.labels[i], state.lines[WEIGHT, i]
    return k


# ---------------------------------------------------------------- few atoms of many


@lean_kernel
def worth(state: GramState, square: float) -> float:
    """Return f at the weights of the free atoms, after a descent; below 0 it is rounding, and no progress."""
    bend = 0.0
    for i in range(state.sizes[FREE]):
        bend += state.lines[WEIGHT, i] * state.linear[state.labels[i]]
    return max(0.0, float(0.5 * (state.numbers[MU] - bend + square)))


@lean_kernel
def find_cheapest(state: GramState) -> int:
    """The free atom without which f grows least: by w_i^2 / 2 over its entry of the inverse on sum w = 1."""
    k, unit, v = state.sizes[FREE], state.lines[ROW], state.lines[V]
    vv, best, least = 0.0, 0, np.inf
    for i in range(k):
        vv += v[i] * v[i]
    for i in range(k):
        for j in range(k):
            unit[j] = 1.0 if j == i else 0.0
        forward(state.factor, state.lines[INVERSE], i, k, unit)
        own, across = 0.0, 0.0
        for j in range(i, k):
            own += unit[j] * unit[j]
            across += unit[j] * v[j]
        cost = state.lines[WEIGHT, i] * state.lines[WEIGHT, i] / max(own - across * across / vv, 1e-300)
        if cost < least:
            best, least = i, cost
    return best


@lean_kernel
def find_entrant(state: GramState, squares: Vector) -> tuple[int, float]:
    """Of the `TRIED` atoms of least price the one whose joining lowers f most, and by how much.

    With pivot p and y its row of the factor, f falls by gain^2 / 2 over p + (1 - v'y)^2 / v'v.
    """
    k, row, v, alpha = state.sizes[FREE], state.lines[ROW], state.lines[V], state.numbers[ALPHA]
    quick, at, prices = state.quick, state.gone[0], state.quick[PRICE]
    wide = (state.sizes[ATOMS] + LANES - 1) // LANES * LANES
    for j in range(wide):
        prices[j] = -state.linear[j]
    for i in range(k):
        quick[SHARE, i], at[i] = state.lines[WEIGHT, i], state.marks[SLOT, state.labels[i]]
    add_rows(prices, wide, state.singles, at, quick[SHARE], k)
    for i in range(k):
        prices[state.labels[i]] = state.numbers[MU]
    vv, best, most = 0.0, -1, 0.0
    for i in range(k):
        vv += v[i] * v[i]
    for _ in range(TRIED):
        j = lowest(prices, wide)
        gain = state.numbers[MU] - prices[j]
        if state.marks[STATE, j] != AT_ZERO or not gain > 0.0:
            break
        prices[j] = -SHUT
        whole = squares[j] + alpha
        pivot, across = whole, 1.0
        for i in range(k):
            row[i] = state.singles[state.marks[SLOT, state.labels[i]], j] + alpha
        forward(state.factor, state.lines[INVERSE], 0, k, row)
        for i in range(k):
            pivot -= row[i] * row[i]
            across -= v[i] * row[i]
        fall = 0.5 * gain * gain / max(pivot + across * across / vv, 1e-6 * whole)
        if fall > most:
            best, most = j, fall
    return best, most


@lean_kernel
def refit(
    state: GramState, rows: Vector | None, ids: Ids, weights: Vector, count: int, without: int, entrant: int
) -> None:
    """Fit the atoms of the first line anew, but for one, or with one more; the second line is to work on."""
    for i in range(state.sizes[FREE]):
        state.marks[STATE, state.labels[i]] = AT_ZERO
    begin(state, state.sizes[ATOMS], state.numbers[ALPHA], 1.0, 0.0)
    left = 0
    for i in range(count):
        if i != without:
            ids[1, left], weights[1, left] = ids[0, i], weights[0, i]
            left += 1
    if entrant >= 0:
        ids[1, left], weights[1, left] = entrant, 0.0
        left += 1
    walk(state, rows, ids[1], weights[1], left, 0.0, 0.0, 0, 0)


@lean_kernel
def grow(
    state: GramState,
    rows: Vector | None,
    squares: Vector,
    square: float,
    limit: int,
    ids: Ids,
    weights: Vector,
) -> float:
    """Let atoms join that lower f most, as long as there are fewer than the limit; return f."""
    value = worth(state, square)
    while state.sizes[FREE] < limit:
        b, _ = find_entrant(state, squares)
        if b < 0:
            return value
        k = keep(state, ids[0], weights[0])
        refit(state, rows, ids, weights, k, -1, b)
        last, value = value, worth(state, square)
        if not value < (1.0 - WORTH) * last:
            refit(state, rows, ids, weights, k, -1, -1)
            return last
    return value


@lean_kernel
def limit_atoms(
    state: GramState,
    rows: Vector | None,
    squares: Vector,
    square: float,
    limit: int,
    first: int,
    ids: Ids,
    weights: Vector,
) -> int:
    """Find a good mixture of at most `limit` atoms, from a better one of more; how many it has.

    The best of two: atoms leave the better mixture, the cheapest first; atoms join `first`. From there one
    atom is exchanged for another as long as f falls. (4, c + 1) `ids` and `weights` get it in their first
    line; the others are to work on.
    """
    while state.sizes[FREE] > limit:
        k = keep(state, ids[0], weights[0])
        refit(state, rows, ids, weights, k, find_cheapest(state), -1)
    best = grow(state, rows, squares, square, limit, ids, weights)
    k = keep(state, ids[2], weights[2])
    ids[0, 0], weights[0, 0] = first, 1.0
    refit(state, rows, ids, weights, 1, -1, -1)
    value = grow(state, rows, squares, square, limit, ids, weights)
    if value < best:
        best, k = value, keep(state, ids[2], weights[2])
    at, since = 0, 0
    while since < k:  # until no atom of the mixture can be exchanged
        at = at + 1 if at + 1 < k else 0
        since += 1
        for i in range(k):
            ids[0, i], weights[0, i] = ids[2, i], weights[2, i]
        refit(state, rows, ids, weights, k, at, -1)
        b, fall = find_entrant(state, squares)
        if b < 0 or not worth(state, square) - fall < (1.0 - WORTH) * best:
            continue
        left = keep(state, ids[0], weights[0])
        refit(state, rows, ids, weights, left, -1, b)
        value = grow(state, rows, squares, square, limit, ids, weights)
        if value < (1.0 - WORTH) * best:
            best, k, since = value, keep(state, ids[2], weights[2]), 0
    for i in range(k):
        ids[0, i], weights[0, i] = ids[2, i], weights[2, i]
    refit(state, rows, ids, weights, k, -1, -1)
    return keep(state, ids[0], weights[0])


# ---------------------------------------------------------------- a dictionary


class Dictionary(NamedTuple):
    """Few atoms in units of their own: rows (n, d), |row|^2 and |row| rounded up (wide,), the mean square."""

    rows: Vector
    squares: Vector
    norms: Vector
    alpha: float


class Chunk(NamedTuple):
    """Some targets in these units."""

    targets: Vector  # (m, d)
    norms: Vector  # (m,) rounded up
    cross: Vector  # (m, wide) products with all atoms; `SHUT` for those that it must not use, and the padding
    goals: Vector  # (m,) wanted gaps


class Points(NamedTuple):
    """Per target what a proof needs: the query -r (m, d), <-r, x> (m,), and what `measure_points` takes."""

    query: Vector
    here: Vector
    sums: Vector


class FoundMixtures(NamedTuple):
    """Per target (m, c) ids and weights, by decreasing weight, of which `support`; its point, least price."""

    ids: Ids
    weights: Vector
    support: Ints
    points: Points
    least: Vector


@inlined
def write_point(x: Vector, rho: float, target: Vector, out: Points, t: int) -> None:
    """Note what a proof needs of a point x, a mixture of rows with sum w |a| about `rho`."""
    sums, query = out.sums[t], out.query[t]
    for i in range(len(target)):
        query[i] = target[i] - x[i]
    sums[RHO], sums[SQUARE], sums[X] = rho, dot(query, query), dot(x, x)
    out.here[t] = dot(query, x)


@inlined
def begin_target(state: GramState, atoms: Dictionary, chunk: Chunk, t: int) -> int:
    """Forget the last target; return the best single atom for this one, -1 if none may be used."""
    n, squares, states = len(atoms.rows), atoms.squares, state.marks[STATE]
    cross, linear, fine = chunk.cross[t], state.linear, state.fine
    begin(state, n, atoms.alpha, 1.0, 0.0)
    for j in range(n):
        states[j] = AT_ZERO
    for j in range(len(linear)):
        linear[j] = cross[j]
        fine[j] = 0.5 * squares[j] - cross[j]
    first = lowest(fine, len(fine))
    return first if linear[first] > SHUT else -1


@inlined
def end_target(
    state: GramState,
    atoms: Dictionary,
    chunk: Chunk,
    t: int,
    mixture: tuple[Ids, Vector, int],
    out: FoundMixtures,
) -> None:
    """Write k atoms by decreasing weight, of sum 1, equal weights by id; their point, and the least price."""
    (labels, shares, k), ids, weights = mixture, out.ids[t], out.weights[t]
    x, fine, linear, total, rho = state.point, state.fine, state.linear, 0.0, 0.0
    for i in range(k):
        a, w, j = labels[i], shares[i], i
        total += w
        while j > 0 and (weights[j - 1] < w or (weights[j - 1] == w and ids[j - 1] > a)):
            ids[j], weights[j] = ids[j - 1], weights[j - 1]
            j -= 1
        ids[j], weights[j] = a, w
    for i in range(k):
        weights[i] /= total
        rho += weights[i] * atoms.norms[ids[i]]
    for j in range(len(fine)):
        fine[j] = -linear[j]
    add_rows(fine, len(fine), state.gram, ids, weights, k)
    for i in range(len(x)):
        x[i] = 0.0
    add_rows(x, len(x), atoms.rows, ids, weights, k)
    write_point(x, rho, chunk.targets[t], out.points, t)
    out.support[t], out.least[t] = k, fine[lowest(fine, len(fine))]


@lean_kernel
def solve_dictionary(state: GramState, atoms: Dictionary, chunk: Chunk, out: FoundMixtures) -> None:
    """Solve all targets of a chunk over the atoms of a Gram matrix."""
    for t in range(len(chunk.goals)):
        first = begin_target(state, atoms, chunk, t)
        if first < 0:
            continue
        out.ids[t, 0], out.weights[t, 0] = first, 1.0
        square = chunk.norms[t] * chunk.norms[t]
        walk(state, None, out.ids[t], out.weights[t], 1, square, CLOSE * chunk.goals[t], MANY, MANY)
        mixture = state.labels, state.lines[WEIGHT], state.sizes[FREE]
        end_target(state, atoms, chunk, t, mixture, out)


@lean_kernel
def limit_dictionary(
    state: GramState,
    atoms: Dictionary,
    chunk: Chunk,
    limit: int,
    kept: tuple[Ids, Vector],
    out: FoundMixtures,
) -> None:
    """Solve targets that have more atoms than the limit again with fewer; `kept` is room, (4, c + 1)."""
    ids, weights = kept
    for t in range(len(chunk.goals)):
        if out.support[t] > limit:
            first = begin_target(state, atoms, chunk, t)
            k, square = out.support[t], chunk.norms[t] * chunk.norms[t]
            for i in range(k):
                ids[0, i], weights[0, i] = out.ids[t, i], out.weights[t, i]
            refit(state, None, ids, weights, k, -1, -1)
            k = limit_atoms(state, None, atoms.squares, square, limit, first, ids, weights)
            end_target(state, atoms, chunk, t, (ids[0], weights[0], k), out)


# ---------------------------------------------------------------- pools of rows


class Source(NamedTuple):
    """Rows (r, d) of the caller and their units: centre (d,), a power of two."""

    rows: Matrix
    centre: Vector
    scale: float


class Pools(NamedTuple):
    """Per target: atoms (m, q) of which `size`, the first `active` with `weights` (m, c)."""

    ids: Ids
    size: Ints
    active: Ints
    weights: Vector


class Ask(NamedTuple):
    """What is asked of each target: (m, d) targets, (m,) norms rounded up and goals.

    Pools larger than `room` lose atoms that promise little.
    """

    targets: Vector
    norms: Vector
    goals: Vector
    room: int


class TargetLists(NamedTuple):
    """Lists of atoms (m, l) of which `fill`; the best score (m,) of each; room for those that join."""

    ids: Ids
    fill: Ints
    best: Vector
    new: Ids
    keys: Vector


@lean_fast_kernel
def load_row(source: Source, which: int, out: Vector) -> None:
    """Set `out` to a row in our units: each entry is off by a unit of itself."""
    row, centre, scale = source.rows[which], source.centre, source.scale
    for i in range(len(out)):
        out[i] = (np.float64(row[i]) - centre[i]) * scale


@lean_fast_kernel
def score_row(source: Source, which: int, query: Vector) -> float:
    """<query, row> in our units."""
    row, centre, scale = source.rows[which], source.centre, source.scale
    total = 0.0
    for i in range(len(query)):
        total += query[i] * ((np.float64(row[i]) - centre[i]) * scale)
    return total


class Workspace(NamedTuple):
    """What one thread works on: rows (q, d) less the target, their squares; mixtures (4, q); x; old ids."""

    state: GramState
    squares: Vector
    ids: Ids
    weights: Vector
    x: Vector


@lean_kernel
def load_pool(source: Source, work: Workspace, pools: Pools, t: int, target: Vector) -> int:
    """Load the rows of a pool less the target; return its nearest atom, and set where to begin.

    The quadratic is 1/2 |sum w z|^2 with z = a - b: nothing cancels where the target is close to the hull.
    """
    state, q, first = work.state, pools.size[t], 0
    for j in range(q):
        row = state.rows[j]
        load_row(source, pools.ids[t, j], row)
        for i in range(len(target)):
            row[i] -= target[i]
        work.squares[j] = dot(row, row)
        first = j if work.squares[j] < work.squares[first] else first
        state.linear[j], state.marks[STATE, j] = 0.0, AT_ZERO
    for j in range(q, len(state.linear)):
        state.linear[j] = SHUT
    for i in range(pools.active[t]):
        work.ids[0, i], work.weights[0, i] = i, pools.weights[t, i]
    if pools.active[t] == 0:
        work.ids[0, 0], work.weights[0, 0] = first, 1.0
    return first


@inlined
def mean_square(squares: Vector, q: int) -> float:
    """Return alpha for a pool: the mean of its squares."""
    total = 0.0
    for j in range(q):
        total += squares[j]
    return total / q if total > 0.0 else 1.0


@lean_kernel
def leave_pool(source: Source, work: Workspace, pools: Pools, t: int, ask: Ask, out: Points) -> None:
    """Write back the pool, free atoms first, and evaluate the point; beyond its room, larger slopes go."""
    state, q, r, x, target = work.state, pools.size[t], work.state.point, work.x, ask.targets[t]
    ids, old, prices, k, d = pools.ids[t], work.ids[1], work.squares, state.sizes[FREE], len(target)
    mean, total, end = 0.0, 0.0, k
    for i in range(k):
        total += state.lines[WEIGHT, i]
    for i in range(k):
        state.lines[WEIGHT, i] /= total
    for i in range(d):
        r[i] = 0.0
    add_rows(r, d, state.rows, state.labels, state.lines[WEIGHT], k)
    for j in range(q):
        old[j] = ids[j]
        prices[j] = dot(state.rows[j], r)
        mean += prices[j] / q
    for i in range(k):
        ids[i], pools.weights[t, i] = old[state.labels[i]], state.lines[WEIGHT, i]
    here = dot(r, r)
    for j in range(q):
        if state.marks[STATE, j] != IS_FREE and (q <= ask.room or prices[j] < here + 0.3 * (mean - here)):
            ids[end] = old[j]
            end += 1
    pools.size[t], pools.active[t] = end, k
    # Once more, from the rows themselves: what the proof is of.
    row, rho = state.rows[0], 0.0
    for i in range(d):
        x[i] = 0.0
    for i in range(k):
        load_row(source, ids[i], row)
        weight = pools.weights[t, i]
        for j in range(d):
            x[j] += weight * row[j]
        rho += weight * np.sqrt(dot(row, row) + d * TINY)
    write_point(x, rho, target, out, t)


@inlined
def harvest(source: Source, lists: TargetLists, t: int, query: Vector, floor: float) -> int:
    """Score the list of target t; put the best above the floor into `lists.new`, and count them."""
    ids, keys, new, most = lists.ids[t], lists.keys, lists.new, len(lists.new)
    count, best = 0, -np.inf
    for j in range(lists.fill[t]):
        score = score_row(source, ids[j], query)
        best = score if score > best else best
        if score > floor and (count < most or score > keys[count - 1]):
            at = count if count < most else most - 1
            while at > 0 and keys[at - 1] < score:
                keys[at], new[at] = keys[at - 1], new[at - 1]
                at -= 1
            keys[at], new[at] = score, ids[j]
            count += 1 if count < most else 0
    lists.best[t] = best
    return count


@lean_kernel
def solve_pools(
    source: Source, work: Workspace, pools: Pools, ask: Ask, lists: TargetLists, out: Points
) -> None:
    """Solve every target on its list: violators join its pool until none is left."""
    state = work.state
    for t in range(len(ask.targets)):
        floor, goal = out.here[t], INNER * ask.goals[t]
        for turn in range(TURNS):
            new = harvest(source, lists, t, out.query[t], floor)
            if turn == TURNS - 1 or (new == 0 and (pools.active[t] > 0 or pools.size[t] == 0)):
                break
            size = pools.size[t]
            for i in range(new):
                seen = False
                for j in range(size):
                    seen = seen or pools.ids[t, j] == lists.new[i]
                if not seen and size < pools.ids.shape[1]:
                    pools.ids[t, size] = lists.new[i]
                    size += 1
            pools.size[t] = size
            load_pool(source, work, pools, t, ask.targets[t])
            begin(state, size, mean_square(work.squares, size), 1.0, 0.0)
            count = pools.active[t] if pools.active[t] > 0 else 1
            walk(state, state.rows, work.ids[0], work.weights[0], count, 0.0, CLOSE * goal, MANY, MANY)
            leave_pool(source, work, pools, t, ask, out)
            floor = out.here[t] + goal


@lean_kernel
def limit_pools(source: Source, work: Workspace, pools: Pools, ask: Ask, limit: int, out: Points) -> None:
    """Solve every target again over its pool with fewer atoms."""
    state = work.state
    for t in range(len(ask.targets)):
        first = load_pool(source, work, pools, t, ask.targets[t])
        state.sizes[FREE], state.sizes[ATOMS] = 0, pools.size[t]
        state.numbers[ALPHA] = mean_square(work.squares, pools.size[t])
        refit(state, state.rows, work.ids, work.weights, pools.active[t], -1, -1)
        limit_atoms(state, state.rows, work.squares, 0.0, limit, first, work.ids, work.weights)
        leave_pool(source, work, pools, t, ask, out)
