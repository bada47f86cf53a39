"""Compiled: one target after the other over a small dictionary with its Gram matrix."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import NamedTuple

import numpy as np

from wolfhound.core import Ids, Ints, Vector
from wolfhound.gram import _moves as moves
from wolfhound.gram import _proof_kernels as proofs
from wolfhound.gram import _tableau as table
from wolfhound.gram._answers import LIMITED, STALLED, Answers, Rules, write_sorted
from wolfhound.gram._proof_kernels import Bracket, Residual
from wolfhound.gram._tableau import COLUMNS, GAIN, LINEAR, PIVOT, SIZE, STEPS, WEIGHT, Singles, Tableau
from wolfhound.jit import lean_fast_kernel, lean_kernel
from wolfhound.rounding import TINY

PATIENCE = 6
"""Exact steps in a row that need not make the gap smaller."""

TRIED = 256
"""Pool atoms among which the cold start is chosen, as `minimize` does."""

SAMPLE = 64
"""Pool atoms whose values of f give the scale of rtol, as `minimize` does."""


class Dictionary(NamedTuple):
    """Few atoms, centred and scaled, and all their products.

    Attributes
    ----------
    rows : (n, d) float64
    gram, singles : (n, wide) float64 and float32
        Products of the rows, padded with zeros.
    squares, norms : (wide,)
        |row|^2, and |row| rounded up.
    pool : (p,) int64
        Random atoms that give the scale of rtol.
    radius, alpha, shift : float
        Largest norm; mean square; what `measure` adds.
    """

    rows: Vector
    gram: Vector
    singles: Singles
    squares: Vector
    norms: Vector
    pool: Ids
    radius: float
    alpha: float
    shift: float


class Chunk(NamedTuple):
    """Some targets, centred and scaled.

    Attributes
    ----------
    targets, norms : (m, d), (m,)
        The targets, and their norms rounded up.
    cross : (m, wide)
        Their products with all rows, padded with zeros.
    starts, banned : (m + 1,), (e,)
        Atoms that target i must not use are ``banned[starts[i]:starts[i + 1]]``.
    """

    targets: Vector
    norms: Vector
    cross: Vector
    starts: Ints
    banned: Ids


class Workspace(NamedTuple):
    """What one thread works on."""

    tab: Tableau
    here: Residual
    prices: Vector
    ids: Ids
    weights: Vector
    sample: Vector


def make_workspace(cap: int, columns: int, d: int) -> Workspace:
    """Return room for one target after the other."""
    tab = table.make_tableau(cap, columns)
    return Workspace(
        tab,
        proofs.make_residual(d),
        np.zeros(table.pad(columns)),
        np.zeros(cap, np.int64),
        np.zeros(cap),
        np.zeros(SAMPLE),
    )


@lean_kernel
def complete(rows: Vector, gram: Vector, singles: Singles, squares: Vector, norms: Vector) -> float:
    """Set what follows from the products of all rows, and their diagonal; returns the sum of squares."""
    d, total = rows.shape[1], 0.0
    for i in range(len(rows)):
        square = proofs.dot(rows[i], rows[i])
        squares[i] = gram[i, i] = square
        norms[i] = proofs.round_norm(square, d)
        total += square
        proofs.copy(singles[i], gram[i])
    return total


# ---------------------------------------------------------------- a target begins


@lean_fast_kernel
def _load(atoms: Dictionary, tab: Tableau, prices: Vector, cross: Vector, q: int) -> None:
    """Set linear terms and pivots, and in `prices` f at every atom, less a constant."""
    alpha = atoms.alpha
    exact, squares = tab.exact, atoms.squares
    linear, pivot = tab.lines[LINEAR], tab.lines[PIVOT]
    for j in range(q):
        exact[j] = cross[j]
        linear[j] = np.float32(cross[j] + alpha)
        pivot[j] = np.float32(squares[j] + table.SHARE * squares[j] + alpha)
        prices[j] = 0.5 * squares[j] - cross[j]


@lean_kernel
def _ban(tab: Tableau, n: int, banned: Ids) -> None:
    """Shut the padding, and atoms that must not be used."""
    for j in range(n, tab.sizes[COLUMNS]):
        tab.lines[LINEAR, j] = table.FAR
    for j in banned:
        tab.lines[LINEAR, j] = table.FAR


@lean_kernel
def _best_of_pool(atoms: Dictionary, prices: Vector) -> int:
    """The pool atom of least f among the first that are not banned, -1 if none."""
    best, seen = -1, 0
    for p in atoms.pool:
        if prices[p] < np.inf:
            best = p if best < 0 or prices[p] < prices[best] else best
            seen += 1
            if seen == TRIED:
                break
    return best


@lean_kernel
def _select(values: Vector, count: int, k: int) -> None:
    """Put the k-th least of some numbers at its place, none above it before, none below it after."""
    low, high = 0, count - 1
    while low < high:
        pivot, i, j = values[k], low, high
        while i <= j:
            while values[i] < pivot:
                i += 1
            while pivot < values[j]:
                j -= 1
            if i <= j:
                values[i], values[j] = values[j], values[i]
                i += 1
                j -= 1
        low = i if j < k else low
        high = j if k < i else high


@lean_kernel
def median_above_least(values: Vector, count: int) -> float:
    """Median less minimum of the first numbers, whose order changes."""
    k = (count - 1) // 2
    _select(values, count, k)
    least, above = values[k], np.inf
    for i in range(k):
        least = min(least, values[i])
    for i in range(k + 1, count):
        above = min(above, values[i])
    middle = values[k] if count % 2 == 1 else 0.5 * (values[k] + above)
    spread: float = middle - least
    return spread


@lean_kernel
def _spread(atoms: Dictionary, prices: Vector, sample: Vector) -> float:
    """Median less minimum of f over the first pool atoms that are not banned."""
    count = 0
    for p in atoms.pool:
        if prices[p] < np.inf:
            sample[count] = prices[p]
            count += 1
            if count == SAMPLE:
                break
    return median_above_least(sample, count) if count > 0 else 0.0


@lean_kernel
def measure_scale(atoms: Dictionary, prices: Vector, cross: Vector, sample: Vector) -> float:
    """Scale of rtol as in `minimize`, from the values of f at all atoms."""
    best = _best_of_pool(atoms, prices)
    if best < 0:
        return 0.0
    line, least = atoms.gram[best], np.inf
    for p in atoms.pool:
        if prices[p] < np.inf:
            least = min(least, line[p] - cross[p])
    gap: float = atoms.squares[best] - cross[best] - least
    return max(gap, _spread(atoms, prices, sample), 0.0)


@lean_kernel
def _shut(prices: Vector, n: int, banned: Ids) -> float:
    """Give excluded atoms and the padding the price inf; return the least price."""
    for j in range(n, len(prices)):
        prices[j] = np.inf
    for j in banned:
        prices[j] = np.inf
    least: float = table.lowest(prices, len(prices))
    return least


@lean_kernel
def begin(atoms: Dictionary, room: Workspace, cross: Vector, banned: Ids) -> float:
    """Start at the best single atom; return the scale of rtol, -1 if no atom is left."""
    tab, n, q = room.tab, len(atoms.rows), atoms.gram.shape[1]
    moves.clear(tab, q, atoms.alpha)
    prices = room.prices
    _load(atoms, tab, prices, cross, q)
    _ban(tab, n, banned)
    least = _shut(prices, n, banned)
    if not least < np.inf:
        return -1.0
    first = table.find(prices, least, n)
    scale = measure_scale(atoms, prices, cross, room.sample)
    moves.join(tab, first, atoms.gram[first], atoms.singles[first], atoms.squares[first] + atoms.alpha)
    tab.active[WEIGHT, 0] = 1.0
    moves.take_aim(tab)
    return scale


# ---------------------------------------------------------------- it moves


@lean_kernel
def walk(atoms: Dictionary, tab: Tableau, square: float, goal: float, limit: int) -> None:
    """Move by float32 prices, until they see no gap, f falls no more, or `limit` atoms are active."""
    while tab.sizes[SIZE] < limit:
        b = table.choose_column(tab, square, goal)
        if b < 0:
            return
        moves.step_to(tab, b, atoms.gram[b], atoms.singles[b], tab.numbers[GAIN])


@lean_kernel
def prove(
    atoms: Dictionary, room: Workspace, target: Vector, norm: float, banned: Ids, goal: float
) -> Bracket:
    """Prove the point of the tableau's weights; `room.prices` are then those of all atoms.

    First by the Gram matrix, whose rounding is relative to the radius; where that hides
    the goal, by fresh products with the residual.
    """
    tab, here, prices, n = room.tab, room.here, room.prices, len(atoms.rows)
    k, d = tab.sizes[SIZE], len(target)
    proofs.normalise(tab.active[WEIGHT], k)
    proofs.mix(atoms.rows, atoms.norms, tab.at[:k], tab.active[WEIGHT], here)
    proofs.measure(here, target, norm, k, atoms.shift)
    for j in range(len(prices)):
        prices[j] = -tab.exact[j]
    proofs.add_rows(prices, atoms.gram, tab.at[:k], tab.active[WEIGHT])
    least = _shut(prices, n, banned)
    error = proofs.gamma(d + k + 8) * atoms.radius * (here.sizes[proofs.RHO] + norm)
    inner = proofs.dot(here.r, here.x)
    proof = proofs.certify(here.sizes, d, inner, least, atoms.radius, error + (d + k) * TINY)
    if proof.value - proof.lower <= goal or 32.0 * proof.slack < goal:
        return proof
    for j in range(n):
        prices[j] = proofs.dot(atoms.rows[j], here.r)
    least = _shut(prices, n, banned)
    error = proofs.gamma(d + 4) * atoms.radius * here.sizes[proofs.R]
    return proofs.certify(here.sizes, d, inner, least, atoms.radius, error + d * TINY)


@lean_kernel
def _keep(room: Workspace) -> int:
    """Copy the active atoms and weights."""
    k: int = room.tab.sizes[SIZE]
    for i in range(k):
        room.ids[i], room.weights[i] = room.tab.at[i], room.tab.active[WEIGHT, i]
    return k


@lean_kernel
def _step_exactly(atoms: Dictionary, room: Workspace) -> bool:
    """Let the atom of least price join; False if that is an active one, or nothing moves."""
    tab, prices = room.tab, room.prices
    b = table.find(prices, table.lowest(prices, len(prices)), len(prices))
    here = 0.0
    for i in range(tab.sizes[SIZE]):
        here += tab.active[WEIGHT, i] * prices[tab.at[i]]
        if tab.at[i] == b:
            return False
    moved = moves.step_to(tab, b, atoms.gram[b], atoms.singles[b], here - prices[b])
    moves.settle(tab)
    return moved


@lean_kernel
def _solve_target(
    atoms: Dictionary, room: Workspace, chunk: Chunk, rules: Rules, out: Answers, t: int
) -> None:
    """Solve target t: float32 prices, a proof, then exact steps where that does not reach the goal."""
    target, norm, tab = chunk.targets[t], chunk.norms[t], room.tab
    banned = chunk.banned[chunk.starts[t] : chunk.starts[t + 1]]
    scale = begin(atoms, room, chunk.cross[t], banned)
    if scale < 0.0:
        return
    goal = max(rules.atol, rules.rtol * scale)
    walk(atoms, tab, norm * norm, goal, len(tab.at) + 1)
    moves.settle(tab)
    value, lower, slack, best, idle, k, passes = np.inf, 0.0, 0.0, np.inf, 0, 0, 0
    while True:
        proof = prove(atoms, room, target, norm, banned, goal)
        passes += 1
        lower = max(lower, proof.lower)
        if proof.value < value:
            value, slack, k = proof.value, proof.slack, _keep(room)
        idle = 0 if value - lower < 0.99 * best else idle + 1
        best = min(best, value - lower)
        if value - lower <= goal or idle > PATIENCE or not _step_exactly(atoms, room):
            break
    write_sorted(room.ids, room.weights, k, out.ids[t], out.weights[t])
    out.support[t], out.value[t], out.lower[t], out.goal[t] = k, value, min(lower, value), goal
    out.slack[t], out.passes[t], out.steps[t] = slack, passes, tab.sizes[STEPS]


@lean_kernel
def _limit_target(
    atoms: Dictionary, room: Workspace, chunk: Chunk, rules: Rules, out: Answers, t: int
) -> None:
    """Solve target t again, greedily with few atoms; its bound stays."""
    target, norm, tab = chunk.targets[t], chunk.norms[t], room.tab
    banned = chunk.banned[chunk.starts[t] : chunk.starts[t + 1]]
    begin(atoms, room, chunk.cross[t], banned)
    walk(atoms, tab, norm * norm, out.goal[t], rules.limit)
    moves.settle(tab)
    proof = prove(atoms, room, target, norm, banned, np.inf)
    k = _keep(room)
    write_sorted(room.ids, room.weights, k, out.ids[t], out.weights[t])
    out.price[t] = proof.value - out.value[t]
    out.support[t], out.value[t] = k, proof.value
    if out.code[t] != STALLED and out.value[t] - out.lower[t] > out.goal[t]:
        out.code[t] = LIMITED


@lean_kernel
def solve_chunk(atoms: Dictionary, room: Workspace, chunk: Chunk, rules: Rules, out: Answers) -> None:
    """Solve all targets of a chunk; `judge` says how each ended."""
    for t in range(len(chunk.targets)):
        _solve_target(atoms, room, chunk, rules, out, t)


@lean_kernel
def limit_chunk(atoms: Dictionary, room: Workspace, chunk: Chunk, rules: Rules, out: Answers) -> None:
    """Solve those targets again whose answer has more atoms than it may."""
    for t in range(len(chunk.targets)):
        if out.support[t] > rules.limit:
            _limit_target(atoms, room, chunk, rules, out, t)
