"""Compiled: one target after the other, over a dictionary with its Gram matrix or over a pool of rows.

Each target is walked by float32 prices (`compiled.active_set`), proved in float64, and where that does not
reach the goal goes on step by step with the prices of the proof. Rows and targets are centred and scaled:
each entry is that of the caller, less a fixed vector, times a power of two, rounded once, so that its error
is at most a unit of itself. All bounds hold for sums in any order, fused or not.

With x = sum w a / sum w for the true rows a, b the true target, r = x - b:

- the computed x is off by at most ``away = gamma_(2k+8) sum w |a|``, the computed r by
  ``lost = u (|r| + 2 |b|) + away``;
- f = |r|^2 / 2 is at most the computed one plus gamma_(d+4) of it plus
  ``lost (|r| + lost / 2)``;
- the gap max <r, x - a> is at most the computed one plus the errors of its two
  products plus ``2 lost radius + |r| (away + 2 u radius)``.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import NamedTuple

import numpy as np

from wolfhound.compiled.active_set import (
    ALPHA,
    AT_ZERO,
    ATOMS,
    BARRED,
    EXACT,
    FREE,
    IS_FREE,
    LANES,
    MU,
    PRICE,
    ROW,
    SHUT,
    SLOT,
    STATE,
    STEPS,
    TERM,
    WEIGHT,
    GramState,
    V,
    add_rows,
    begin,
    cut_gap,
    dot,
    drop,
    enter,
    forward,
    lowest,
    price_all,
    settle,
    settled_descent,
    step_to,
    walk,
)
from wolfhound.core import Ids, Ints, Matrix, Vector
from wolfhound.jit import lean_fast_kernel, lean_kernel
from wolfhound.rounding import TINY, UNIT

SAFE = 1.01
"""Factor on an error bound that covers the rounding of the bound itself."""

CLOSE = 0.7
"""Share of the goal at which float32 prices are left."""

PATIENCE = 6
"""Exact steps in a row that need not make the gap smaller."""

INNER = 0.25
"""Share of the goal to which a pool is solved."""

TURNS = 8
"""How often a list is solved at most before the next pass."""

STEPS_EXACT = 64
"""Most steps by float64 prices over a pool in one go."""

TRIED = 32
"""Atoms of least price of which one may take the place of another, where few are allowed."""

WORTH = 1e-9
"""Relative decrease of f for which an exchange is made."""

MANY = 1 << 40

R, X, RHO, AWAY, LOST, SQUARE = range(6)
"""Of (6,) sizes of a point: |r| and |x| rounded up, sum w |a|, `away`, `lost`, the computed |r|^2."""

VALUE, LOWER, SLACK, PRICE_OF_LIMIT = range(4)
"""Lines of (4, m) numbers that are found: ``lower <= min f``, ``f <= value``, the part of their difference
that is proved to be rounding, and by how much a limit of atoms raised f."""

SUPPORT, PASSES, JOINED = range(3)
"""Lines of (3, m) counts: atoms, pricings of all atoms in float64, atoms that joined."""


# ---------------------------------------------------------------- proofs


@lean_kernel
def gamma(operations: int) -> float:
    """Relative error bound of a sum of products."""
    return operations * UNIT / (1.0 - operations * UNIT)


@lean_kernel
def measure(point: Vector, sizes: Vector, target: Vector, target_norm: float, k: int, shift: float) -> None:
    """Set the residual point[1] and all sizes but RHO, given x = point[0] of k rows.

    `target_norm` is rounded up; `shift` is the norm of what is added to x where the weights do not sum to
    1 (0: x is of the sum's share).
    """
    x, r, d = point[0], point[1], len(target)
    for i in range(d):
        r[i] = x[i] - target[i]
    square, up = dot(r, r), 1.0 + gamma(d + 6)
    sizes[SQUARE] = square
    sizes[R] = np.sqrt(square + d * TINY) * up
    sizes[X] = np.sqrt(dot(x, x) + d * TINY) * up
    sizes[AWAY] = SAFE * (gamma(2 * k + 8) * (sizes[RHO] + shift) + (k + 2) * d * TINY)
    sizes[LOST] = SAFE * (UNIT * (sizes[R] + 2.0 * target_norm) + sizes[AWAY])


@lean_kernel
def certify(
    sizes: Vector, d: int, inner: float, least: float, radius: float, error: float
) -> tuple[float, float, float]:
    """Value, lower bound and slack that a pricing proves.

    `inner` is the computed <r, x>, `least` the least computed <r, a> over all atoms, off by at most `error`
    from the product of the computed r with the computed rows; `radius` is at least every |a|.
    """
    value, lost, size = 0.5 * sizes[SQUARE], sizes[LOST], sizes[R]
    off = SAFE * (gamma(d + 4) * value + d * TINY + lost * (size + 0.5 * lost))
    far = max(radius, sizes[X]) * (1.0 + 8.0 * UNIT)
    rounding = 2.0 * lost * far + size * (sizes[AWAY] + 2.0 * UNIT * far)
    rounding += gamma(d + 2) * size * sizes[X] + error + (d + 2) * TINY
    rounding *= SAFE
    # Rounding of the difference: a unit of either part.
    gap = inner - least + rounding + 4.0 * UNIT * (abs(inner) + abs(least))
    excess = 2.0 * (value + off) * (1.0 + 4.0 * UNIT) + TINY
    proved = value - off - cut_gap(max(gap, 0.0), excess)
    proved = proved - 4.0 * UNIT * value - TINY
    upper = (value + off) * (1.0 + 2.0 * UNIT)
    slack = 2.0 * (off + rounding) + 4.0 * UNIT * value
    return upper, min(max(proved, 0.0), upper), slack


@lean_kernel
def normalise(state: GramState) -> None:
    """Divide the weights by their sum."""
    total, weights = 0.0, state.lines[WEIGHT]
    for i in range(state.sizes[FREE]):
        total += weights[i]
    for i in range(state.sizes[FREE]):
        weights[i] /= total


@lean_kernel
def write_sorted(ids: Ids, weights: Vector, k: int, to_ids: Ids, to_weights: Vector) -> None:
    """Copy k atoms by decreasing weight, equal weights by id."""
    for i in range(k):
        a, w, j = ids[i], weights[i], i
        while j > 0 and (to_weights[j - 1] < w or (to_weights[j - 1] == w and to_ids[j - 1] > a)):
            to_ids[j], to_weights[j] = to_ids[j - 1], to_weights[j - 1]
            j -= 1
        to_ids[j], to_weights[j] = a, w


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
    """Return f at the weights of the free atoms, after a descent."""
    bend = 0.0
    for i in range(state.sizes[FREE]):
        bend += state.lines[WEIGHT, i] * state.terms[EXACT, state.labels[i]]
    return float(0.5 * (state.numbers[MU] - bend + square))


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
        forward(state.factor, i, k, unit)
        own, across = 0.0, 0.0
        for j in range(i, k):
            own += unit[j] * unit[j]
            across += unit[j] * v[j]
        cost = state.lines[WEIGHT, i] * state.lines[WEIGHT, i] / max(own - across * across / vv, 1e-300)
        if cost < least:
            best, least = i, cost
    return best


@lean_kernel
def find_entrant(state: GramState, squares: Vector) -> tuple[int, float, float]:
    """Of the `TRIED` atoms of least price the one whose joining lowers f most: which, its gain, and that.

    With pivot p and y its row of the factor, f falls by gain^2 / 2 over p + (1 - v'y)^2 / v'v.
    """
    k, row, v, alpha = state.sizes[FREE], state.lines[ROW], state.lines[V], state.numbers[ALPHA]
    price_all(state)
    prices = state.quick[PRICE, : (state.sizes[ATOMS] + LANES - 1) // LANES * LANES]
    vv, best, most, found = 0.0, -1, 0.0, 0.0
    for i in range(k):
        vv += v[i] * v[i]
    for _ in range(TRIED):
        j = lowest(prices)
        gain = state.numbers[MU] - prices[j]
        if state.marks[STATE, j] != AT_ZERO or not gain > 0.0:
            break
        prices[j] = -SHUT
        whole = squares[j] + alpha
        pivot, across = whole, 1.0
        for i in range(k):
            row[i] = state.singles[state.marks[SLOT, state.labels[i]], j] + alpha
        forward(state.factor, 0, k, row)
        for i in range(k):
            pivot -= row[i] * row[i]
            across -= v[i] * row[i]
        fall = 0.5 * gain * gain / max(pivot + across * across / vv, 1e-6 * whole)
        if fall > most:
            best, most, found = j, fall, gain
    return best, found, most


@lean_kernel
def restart(state: GramState, ids: Ids, weights: Vector, count: int, without: int) -> None:
    """Begin again at the atoms of the first line but for one; the second line is to work on."""
    for i in range(state.sizes[FREE]):
        state.marks[STATE, state.labels[i]] = AT_ZERO
    begin(state, state.sizes[ATOMS], state.numbers[ALPHA], 1.0, 0.0)
    left = 0
    for i in range(count):
        if i != without:
            ids[1, left], weights[1, left] = ids[0, i], weights[0, i]
            left += 1
    enter(state, ids[1], weights[1], left)


@lean_kernel
def grow(state: GramState, squares: Vector, square: float, limit: int) -> float:
    """Let atoms join that lower f most, as long as there are fewer than the limit; return f."""
    value = worth(state, square)
    while state.sizes[FREE] < limit:
        b, gain, _ = find_entrant(state, squares)
        if b < 0:
            return value
        step_to(state, b, gain)
        last, value = value, worth(state, square)
        if not value < (1.0 - WORTH) * last:
            return value
    return value


@lean_kernel
def limit_atoms(
    state: GramState, squares: Vector, square: float, limit: int, first: int, ids: Ids, weights: Vector
) -> int:
    """Find a good mixture of at most `limit` atoms, from a better one of more; how many it has.

    The best of two: atoms leave the better mixture, the cheapest first; atoms join `first`. From there one
    atom is exchanged for another as long as f falls. (2, c + 1) `ids` and `weights` get it in their first
    line.
    """
    while state.sizes[FREE] > limit:
        at = find_cheapest(state)
        drop(state.factor, state.lines, state.labels, state.gone, state.sizes, state.numbers, at, False)
        settle(state)
        normalise(state)
        settled_descent(state)
    best = grow(state, squares, square, limit)
    k = keep(state, ids[0], weights[0])
    for i in range(state.sizes[FREE]):
        state.marks[STATE, state.labels[i]] = AT_ZERO
    begin(state, state.sizes[ATOMS], state.numbers[ALPHA], 1.0, 0.0)
    ids[1, 0], weights[1, 0] = first, 1.0
    enter(state, ids[1], weights[1], 1)
    value = grow(state, squares, square, limit)
    if value < best:
        best, k = value, keep(state, ids[0], weights[0])
    at, since = 0, 0
    while since < k:  # until no atom of the mixture can be exchanged
        at = at + 1 if at + 1 < k else 0
        since += 1
        restart(state, ids, weights, k, at)
        b, gain, fall = find_entrant(state, squares)
        if b < 0 or not worth(state, square) - fall < (1.0 - WORTH) * best:
            continue
        step_to(state, b, gain)
        value = grow(state, squares, square, limit)
        if value < (1.0 - WORTH) * best:
            best, k, since = value, keep(state, ids[0], weights[0]), 0
    restart(state, ids, weights, k, -1)
    return keep(state, ids[0], weights[0])


# ---------------------------------------------------------------- a dictionary


class Dictionary(NamedTuple):
    """Few atoms, centred and scaled.

    Attributes
    ----------
    rows, norms, squares : (n, d), (n,), (wide,)
        |row| is rounded up.
    radius, alpha, shift : float
        Largest norm; mean square; what `measure` adds.
    """

    rows: Vector
    norms: Vector
    squares: Vector
    radius: float
    alpha: float
    shift: float


class Workspace(NamedTuple):
    """What one thread works on.

    Attributes
    ----------
    state : GramState
    point, sizes, prices : (2, d), (6,), (wide,)
        x and r, their sizes, and prices of all atoms in float64.
    ids, weights : (2, c + 1)
        Mixtures that are kept.
    """

    state: GramState
    point: Vector
    sizes: Vector
    prices: Vector
    ids: Ids
    weights: Vector


class Chunk(NamedTuple):
    """Some targets, centred and scaled.

    Attributes
    ----------
    targets, norms, goals : (m, d), (m,), (m,)
        The targets, their norms rounded up, and wanted gaps.
    cross : (m, wide)
        Products with all rows, padded with zeros.
    starts, banned : (m + 1,), (e,)
        Atoms that target i must not use are ``banned[starts[i]:starts[i + 1]]``.
    """

    targets: Vector
    norms: Vector
    goals: Vector
    cross: Vector
    starts: Ints
    banned: Ids


class Found(NamedTuple):
    """Per target: (m, c) ids and weights, by decreasing weight; (4, m) numbers as `VALUE`, (3, m) counts."""

    ids: Ids
    weights: Vector
    numbers: Vector
    counts: Ints


@lean_kernel
def shut(prices: Vector, n: int, banned: Ids) -> int:
    """Give excluded atoms and the padding the price inf; return the place of the least."""
    for j in range(n, len(prices)):
        prices[j] = np.inf
    for j in banned:
        prices[j] = np.inf
    return lowest(prices)


@lean_kernel
def prove(
    atoms: Dictionary, work: Workspace, target: Vector, norm: float, banned: Ids, goal: float
) -> tuple[float, float, float]:
    """Prove the point of the free atoms; `work.prices` are then those of all atoms.

    First by the Gram matrix, whose rounding is relative to the radius; where that hides
    the goal, by fresh products with the residual.
    """
    state, prices, x, sizes, n = work.state, work.prices, work.point[0], work.sizes, len(atoms.rows)
    normalise(state)
    k, d = state.sizes[FREE], len(target)
    at, weights, rho = state.labels[:k], state.lines[WEIGHT, :k], 0.0
    for i in range(d):
        x[i] = 0.0
    add_rows(x, atoms.rows, at, weights)
    for i in range(k):
        rho += weights[i] * atoms.norms[at[i]]
    sizes[RHO] = rho * (1.0 + gamma(k + 4))
    measure(work.point, sizes, target, norm, k, atoms.shift)
    for j in range(n):
        prices[j] = -state.terms[EXACT, j]
    add_rows(prices, state.gram, at, weights)
    least = prices[shut(prices, n, banned)]
    error = gamma(d + k + 8) * atoms.radius * (sizes[RHO] + norm) + (d + k) * TINY
    inner = dot(work.point[1], x)
    value, lower, slack = certify(sizes, d, inner, least, atoms.radius, error)
    if value - lower <= goal or 32.0 * slack < goal:
        return value, lower, slack
    for j in range(n):
        prices[j] = dot(atoms.rows[j], work.point[1])
    least = prices[shut(prices, n, banned)]
    error = gamma(d + 4) * atoms.radius * sizes[R] + d * TINY
    return certify(sizes, d, inner, least, atoms.radius, error)


@lean_kernel
def begin_target(
    atoms: Dictionary, state: GramState, cross: Vector, banned: Ids, ids: Ids, ones: Vector
) -> int:
    """Start at the best single atom, and return it; -1 if none may be used."""
    n, best, least = len(atoms.rows), -1, np.inf
    begin(state, n, atoms.alpha, 1.0, 0.0)
    for j in range(n):
        state.terms[EXACT, j] = cross[j]
        state.quick[TERM, j] = cross[j]
        state.marks[STATE, j] = AT_ZERO
    for j in banned:
        state.quick[TERM, j], state.marks[STATE, j] = SHUT, BARRED
    for j in range(n):
        value = 0.5 * atoms.squares[j] - cross[j]
        if value < least and state.marks[STATE, j] == AT_ZERO:
            best, least = j, value
    if best >= 0:
        ids[0], ones[0] = best, 1.0
        enter(state, ids, ones, 1)
    return best


@lean_kernel
def step_exactly(work: Workspace) -> bool:
    """Let the atom of least price join; False if that is a free one, or nothing moves."""
    state, prices = work.state, work.prices
    b, here = lowest(prices), 0.0
    for i in range(state.sizes[FREE]):
        here += state.lines[WEIGHT, i] * prices[state.labels[i]]
    return bool(state.marks[STATE, b] == AT_ZERO and step_to(state, b, here - prices[b]))


@lean_kernel
def solve_dictionary(atoms: Dictionary, work: Workspace, chunk: Chunk, limit: int, out: Found) -> None:
    """Solve all targets of a chunk: float32 prices, a proof, then exact steps where that misses the goal.

    Those with more atoms than the limit are solved again with fewer; their bound stays.
    """
    state, ids, weights, numbers = work.state, work.ids, work.weights, out.numbers
    for t in range(len(chunk.targets)):
        target, norm, goal = chunk.targets[t], chunk.norms[t], chunk.goals[t]
        banned = chunk.banned[chunk.starts[t] : chunk.starts[t + 1]]
        first = begin_target(atoms, state, chunk.cross[t], banned, ids[0], weights[0])
        if first < 0:
            continue
        square = norm * norm
        walk(state, square, CLOSE * goal, MANY, MANY)
        value, lower, slack, best, idle, k, passes = np.inf, 0.0, 0.0, np.inf, 0, 0, 0
        while True:
            high, low, rounding = prove(atoms, work, target, norm, banned, goal)
            passes += 1
            lower = max(lower, low)
            if high < value:
                value, slack, k = high, rounding, keep(state, ids[0], weights[0])
            idle = 0 if value - lower < 0.99 * best else idle + 1
            best = min(best, value - lower)
            if value - lower <= goal or idle > PATIENCE or not step_exactly(work):
                break
        out.counts[JOINED, t] = state.sizes[STEPS]
        if k > limit:
            restart(state, ids, weights, k, -1)
            limit_atoms(state, atoms.squares, square, limit, first, ids, weights)
            high, _, _ = prove(atoms, work, target, norm, banned, np.inf)
            k = keep(state, ids[0], weights[0])
            numbers[PRICE_OF_LIMIT, t], value = high - value, high
        write_sorted(ids[0], weights[0], k, out.ids[t], out.weights[t])
        numbers[VALUE, t], numbers[LOWER, t], numbers[SLACK, t] = value, min(lower, value), slack
        out.counts[SUPPORT, t], out.counts[PASSES, t] = k, passes


# ---------------------------------------------------------------- pools of rows


class Source(NamedTuple):
    """Rows (r, d) of the caller and their units: centre (d,), a power of two; what `measure` adds."""

    rows: Matrix
    centre: Vector
    scale: float
    shift: float


class Pools(NamedTuple):
    """Per target: atoms (m, q) of which `size`, the first `active` with `weights` (m, c)."""

    ids: Ids
    size: Ints
    active: Ints
    weights: Vector


class Points(NamedTuple):
    """Per target: the query -r (m, d), <-r, x> (m,), and the sizes of the point (m, 6)."""

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


class Lists(NamedTuple):
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


@lean_kernel
def enter_pool(source: Source, work: Workspace, pools: Pools, t: int, target: Vector) -> int:
    """Load the rows of a pool less the target, and begin at its weights or its nearest atom; return that.

    The quadratic is 1/2 |sum w z|^2 with z = a - b: nothing cancels where the target is close to the hull.
    """
    state, q, ids, weights = work.state, pools.size[t], work.ids, work.weights
    total, first = 0.0, 0
    for j in range(q):
        row = state.rows[j]
        load_row(source, pools.ids[t, j], row)
        for i in range(len(target)):
            row[i] -= target[i]
        work.prices[j] = dot(row, row)
        total += work.prices[j]
        first = j if work.prices[j] < work.prices[first] else first
        state.terms[EXACT, j] = 0.0
        state.quick[TERM, j] = 0.0
        state.marks[STATE, j] = AT_ZERO
    for j in range(q, state.quick.shape[1]):
        state.quick[TERM, j] = SHUT
    begin(state, q, total / q if total > 0.0 else 1.0, 1.0, 0.0)
    count = pools.active[t]
    for i in range(count):
        ids[1, i], weights[1, i] = i, pools.weights[t, i]
    if count == 0:
        ids[1, 0], weights[1, 0], count = first, 1.0, 1
    enter(state, ids[1], weights[1], count)
    return first


@lean_kernel
def price_pool(work: Workspace) -> tuple[int, float, float]:
    """The pool atom of least slope in float64, the gap to it, and f; sets r."""
    state, r = work.state, work.point[1]
    k = state.sizes[FREE]
    for i in range(len(r)):
        r[i] = 0.0
    add_rows(r, state.rows, state.labels[:k], state.lines[WEIGHT, :k])
    best, least = 0, np.inf
    for j in range(state.sizes[ATOMS]):
        slope = dot(state.rows[j], r)
        if slope < least:
            best, least = j, slope
    square = dot(r, r)
    return best, max(square - least, 0.0), 0.5 * square


@lean_kernel
def leave_pool(work: Workspace, pools: Pools, t: int, room: int) -> None:
    """Write back the pool, free atoms first; of one beyond its room, the larger slopes go."""
    state, q, r, prices = work.state, pools.size[t], work.point[1], work.prices
    ids, old, marks, k = pools.ids[t], work.ids[1], state.marks[STATE], state.sizes[FREE]
    mean, full, end = 0.0, q > room, k
    for j in range(q):
        prices[j] = dot(state.rows[j], r)
        mean += prices[j] / q
    for j in range(q):
        old[j] = ids[j]
    for i in range(k):
        ids[i], pools.weights[t, i] = old[state.labels[i]], state.lines[WEIGHT, i]
    here = dot(r, r)
    for j in range(q):
        if marks[j] != IS_FREE and (not full or prices[j] < here + 0.3 * (mean - here)):
            ids[end] = old[j]
            end += 1
    pools.size[t], pools.active[t] = end, k


@lean_kernel
def improve(source: Source, work: Workspace, pools: Pools, t: int, ask: Ask, out: Points) -> None:
    """Solve target t over its pool, with few atoms if so asked, and evaluate the point."""
    target, state, goal = ask.targets[t], work.state, INNER * ask.goals[t]
    first = enter_pool(source, work, pools, t, target)
    walk(state, 0.0, CLOSE * goal, MANY, MANY)
    last = np.inf
    for _ in range(STEPS_EXACT):
        b, gap, value = price_pool(work)
        if not (value < last and cut_gap(gap, 2.0 * value + TINY) > goal) or state.marks[STATE, b] != AT_ZERO:
            break
        last = value
        if not step_to(state, b, gap):
            break
    if state.sizes[FREE] > ask.limit:
        for j in range(pools.size[t]):
            work.prices[j] = dot(state.rows[j], state.rows[j])
        limit_atoms(state, work.prices, 0.0, ask.limit, first, work.ids, work.weights)
    normalise(state)
    price_pool(work)
    leave_pool(work, pools, t, ask.room)
    # Once more, from the rows themselves: what the proof is of.
    x, sizes, row, rho, k, d = work.point[0], work.sizes, state.rows[0], 0.0, pools.active[t], len(target)
    for i in range(d):
        x[i] = 0.0
    for i in range(k):
        load_row(source, pools.ids[t, i], row)
        for j in range(d):
            x[j] += pools.weights[t, i] * row[j]
        rho += pools.weights[t, i] * np.sqrt(dot(row, row) + d * TINY)
    sizes[RHO] = rho * (1.0 + gamma(d + k + 8))
    measure(work.point, sizes, target, ask.norms[t], k, source.shift)
    for i in range(d):
        out.query[t, i] = -work.point[1, i]
    out.here[t] = -dot(work.point[1], x)
    for i in range(len(sizes)):
        out.sizes[t, i] = sizes[i]


@lean_kernel
def harvest(source: Source, lists: Lists, t: int, query: Vector, floor: float) -> int:
    """Score the list of target t; put the best above the floor into `lists.new`, and count them."""
    ids, keys, new, most = lists.ids[t], lists.keys, lists.new, len(lists.new)
    count, best = 0, -np.inf
    for j in range(lists.fill[t]):
        score = score_row(source, ids[j], query)
        best = max(best, score)
        if score > floor and (count < most or score > keys[count - 1]):
            at = count if count < most else most - 1
            while at > 0 and keys[at - 1] < score:
                keys[at], new[at] = keys[at - 1], new[at - 1]
                at -= 1
            keys[at], new[at] = score, ids[j]
            count = min(count + 1, most)
    lists.best[t] = best
    return count


@lean_kernel
def solve_pools(source: Source, work: Workspace, pools: Pools, ask: Ask, lists: Lists, out: Points) -> None:
    """Solve every target on its list: violators join its pool until none is left; few atoms: on its pool."""
    for t in range(len(ask.targets)):
        if ask.limit < pools.active[t]:
            improve(source, work, pools, t, ask, out)
            continue
        floor = out.here[t]
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
            improve(source, work, pools, t, ask, out)
            floor = out.here[t] + INNER * ask.goals[t]


@lean_kernel
def certify_pools(out: Points, best: Vector, rest: Vector, radius: float, proved: Vector) -> None:
    """Set value, lower and slack, (3, m), from the best score of each list and a bound on all other atoms.

    `best` is computed, `rest` a true bound; `radius` is at least the norm of every atom.
    """
    d = out.query.shape[1]
    for t in range(len(best)):
        sizes = out.sizes[t]
        error = gamma(d + 6) * radius * sizes[R] + d * TINY
        found = certify(sizes, d, -out.here[t], -max(best[t], rest[t]), radius, error)
        proved[0, t], proved[1, t], proved[2, t] = found
