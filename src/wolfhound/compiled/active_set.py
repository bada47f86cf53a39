"""The one active set: least 1/2 w'(G + ridge I)w - c'w over 0 <= w <= cap, with sum w = total or without.

Atoms are free, at zero or at their cap. For the free atoms F a factor is carried,

    L L' = G_FF + ridge I + alpha 11',   u = L^-1 b,   v = L^-1 1,   b = c_F - G_FU cap_U,

where U are the atoms at their cap. With a sum, alpha > 0 (best near the mean of G's diagonal) changes
nothing, as the free weights sum to a constant, but makes the factor exist wherever the atoms are
*affinely* independent; alpha = 0 says that there is no sum. The minimum over F without bounds is

    w = L^-T (u + s v),   s = (total_F - u'v) / v'v with a sum, else 0,

and all free atoms have the price (Gw + ridge w - c)_i = mu = s - alpha total_F there.

Minor cycle (Wolfe 1976): step towards that minimum; at the first weight that reaches a
bound stop, let its atom leave, go on. Neither move needs G: the column of G that an atom j at its
cap pulls by is L L[j]', so u changes by a multiple of L[j]' - alpha v.
Major cycle: an atom at zero of price below mu, or at its cap of price above, becomes free.

An atom that depends on the free ones (pivot below `DEPENDENT` of its diagonal) is exchanged: f is
nearly linear along the move that gives it weight and takes the same mixture away from the others, so
the move goes to the first bound, whose atom leaves, or to the minimum if that comes first.

Two kinds of callers share these kernels. `corral.Corral` serves those whose prices come from outside:
a pool of atoms, a Newton model. `walk` is a compiled loop over Gram rows, one target after the other, with
prices in the type of the rows that it is given, then in float64; it knows no caps. `advance` and
`walk` are longer than other functions, and have no `min` and `max`: what a kernel calls is compiled again
with it, level by level.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from wolfhound.compiled.jit import inlined, lean_fast_kernel, lean_kernel
from wolfhound.core.contracts import Ints, Vector

DEPENDENT = 1e-10
"""A pivot below this share of its diagonal: dependent."""

LEAST = 1e-13
"""Pivots are raised to this share of the diagonal."""

VANISHING = 1e-12
"""Shares up to this do not limit an exchange: they are rounding."""

ZERO = 1e-14
"""Weights up to this share of the total are zero."""

U, V, ROW, AIM, WEIGHT, CAP, LINEAR, COSINE, SINE, INVERSE = range(10)
"""Lines of (10, capacity) numbers per free atom; ROW and AIM are to work on, LINEAR is c.

INVERSE is 1 / L_ii: solves with L wait for every entry, and a product is three times as quick as a ratio.
"""

FREE, GONE, STEPS, SPARES, ATOMS = range(5)
"""Of (5,) counts: free atoms, those that left since the caller looked, atoms that joined; in the compiled
loop spare rows, and all atoms."""

ALPHA, TOTAL, RIDGE, MU, FLOOR = range(5)
"""Of (5,) numbers: alpha, sum of the free weights, ridge, price of the free atoms, what counts as zero."""


# ---------------------------------------------------------------- the factor


@inlined
def forward(factor: Vector, inverse: Vector, first: int, last: int, x: Vector) -> float:
    """Solve L x = b in place, given the solution up to place `first`; |x|^2.

    Two rows at a time: each waits for the one before it.
    """
    size = 0.0
    for j in range(first):
        size += x[j] * x[j]
    i = first
    while i < last:
        below = i + 1 if i + 1 < last else i
        upper, lower, s, t = factor[i], factor[below], x[i], x[below]
        for j in range(i):
            s -= upper[j] * x[j]
            t -= lower[j] * x[j]
        s *= inverse[i]
        x[i], size = s, size + s * s
        if below > i:
            t = (t - lower[i] * s) * inverse[below]
            x[below], size = t, size + t * t
        i += 2
    return size


@lean_fast_kernel
def backward(factor: Vector, inverse: Vector, k: int, x: Vector) -> None:
    """Solve L'x = b in place, row by row of L."""
    for i in range(k - 1, -1, -1):
        row, s = factor[i], x[i] * inverse[i]
        x[i] = s
        for j in range(i):
            x[j] -= row[j] * s


@inlined
def append(
    factor: Vector, lines: Vector, sizes: Ints, numbers: Vector, pivot: float, linear: float, released: float
) -> None:
    """Make lines[ROW] the next row of the factor.

    `pivot` is the square of its diagonal entry, `linear` its entry of b, `released` the cap from which
    its atom comes, or 0.
    """
    k = sizes[FREE]
    row, u, v, new = lines[ROW], lines[U], lines[V], factor[k]
    if released > 0.0:  # it pulled at the others: no more
        pull = released * numbers[ALPHA]
        for j in range(k):
            u[j] += released * row[j] - pull * v[j]
    for j in range(k):
        new[j] = row[j]
    a, b = linear, 1.0
    for j in range(k):  # on its own: a sum beside a store depends on where arrays lie
        a -= row[j] * u[j]
        b -= row[j] * v[j]
    new[k] = np.sqrt(pivot)
    lines[INVERSE, k], u[k], v[k] = 1.0 / new[k], a / new[k], b / new[k]
    sizes[FREE] = k + 1


@lean_fast_kernel
def drop(
    factor: Vector,
    lines: Vector,
    labels: Ints,
    gone: Ints,
    sizes: Ints,
    numbers: Vector,
    at: int,
    capped: bool,
) -> None:
    """Let a free atom leave, for zero or for its cap; note its label, and where it went, in (2, c) `gone`.

    Its row leaves the factor by Givens rotations, which turn U, V and ROW, too.
    """
    k, u, v, cosines, sines = sizes[FREE], lines[U], lines[V], lines[COSINE], lines[SINE]
    if capped:
        cap, own = lines[CAP, at], factor[at]
        for j in range(k):
            u[j] += cap * numbers[ALPHA] * v[j]
        for j in range(at + 1):
            u[j] -= cap * own[j]
        numbers[TOTAL] -= cap
    gone[0, sizes[GONE]], gone[1, sizes[GONE]] = labels[at], 1 if capped else 0
    sizes[GONE] += 1
    for p in range(at, k - 1):
        old, new = factor[p + 1], factor[p]
        for i in range(at):
            new[i] = old[i]
        x = old[at]
        for i in range(at, p):
            y = old[i + 1]
            new[i] = cosines[i] * x + sines[i] * y
            x = cosines[i] * y - sines[i] * x
        y = old[p + 1]
        new[p] = np.sqrt(x * x + y * y)
        inverse = 1.0 / new[p]
        cosines[p], sines[p], lines[INVERSE, p] = x * inverse, y * inverse, inverse
    for line in range(3):
        turned = lines[line]
        x = turned[at]
        for i in range(at, k - 1):
            y = turned[i + 1]
            turned[i] = cosines[i] * x + sines[i] * y
            x = cosines[i] * y - sines[i] * x
    for line in range(WEIGHT, LINEAR + 1):
        for j in range(at, k - 1):
            lines[line, j] = lines[line, j + 1]
    for j in range(at, k - 1):
        labels[j] = labels[j + 1]
    sizes[FREE] = k - 1


@lean_fast_kernel
def forward_panel(factor: Vector, first: int, last: int, rows: Vector, panel: Vector) -> None:
    """Solve L x = b for every one of B rows, within the places of a panel; `panel` is (places, B) of room."""
    count = rows.shape[0]
    for i in range(last - first):
        z = panel[i]
        for r in range(count):
            z[r] = rows[r, first + i]
        for j in range(i):
            a = factor[first + i, first + j]
            y = panel[j]
            for r in range(count):
                z[r] -= a * y[r]
        pivot = factor[first + i, first + i]
        for r in range(count):
            z[r] /= pivot
            rows[r, first + i] = z[r]


@lean_fast_kernel
def factor_block(block: Vector, least: Vector, kept: Ints) -> int:
    """Factor a positive semidefinite block where it is, without atoms that depend on those before them.

    Their pivots are at most `least` (B,). The rows of the others come first, of which there are as many as it
    returns; `kept` says which they are.
    """
    count = 0
    for i in range(len(least)):
        old, new, pivot = block[i], block[count], block[i, i]
        for p in range(count):
            entry, row = old[kept[p]], block[p]
            for j in range(p):
                entry -= row[j] * new[j]
            new[p] = entry / row[p]
            pivot -= new[p] * new[p]
        if pivot > least[i]:
            new[count], kept[count] = np.sqrt(pivot), i
            count += 1
    return count


# ---------------------------------------------------------------- moves


@lean_fast_kernel
def advance(
    factor: Vector,
    lines: Vector,
    labels: Ints,
    gone: Ints,
    sizes: Ints,
    numbers: Vector,
    label: int,
    square: float,
    linear: float,
    gain: float,
    bound: float,
    sign: int,
    onward: bool,
) -> int:
    """Free one atom, by exchange if it depends on the free ones; then descend, if `onward` or label -1.

    lines[ROW] holds its Gram entries with the free atoms, `square` is G_jj, `linear` its c less the pull of
    the other atoms at their cap, `gain` by how much its price is on the wrong side of mu (inf: it is
    exchanged in any case; 0: it never is), `bound` its cap, `sign` -1 if it comes from there.

    A descent goes to the minimum over the bounds of the free atoms. Atoms that reach a bound leave. It
    sets the price of those that stay. (One kernel for both moves: each that calls others is compiled anew
    with all of them.)

    Returns
    -------
    how
        1: it is free; 2: it went from one bound to the other; 0: it gains nothing, nothing has changed.
        Of a descent, whether any weight moved.
    """
    weights, caps, y = lines[WEIGHT], lines[CAP], lines[AIM]
    u, v, alpha = lines[U], lines[V], numbers[ALPHA]
    k = sizes[FREE]
    if label >= 0:
        row, whole = lines[ROW], square + numbers[RIDGE] + alpha
        for i in range(k):
            row[i] += alpha
        pivot, weight = whole - forward(factor, lines[INVERSE], 0, k, row), 0.0
        if k == len(labels) or gain == np.inf or not pivot > DEPENDENT * whole:
            for i in range(k):
                y[i] = sign * row[i]
            backward(factor, lines[INVERSE], k, y)
            weight, where, capped = np.inf, -1, False
            for i in range(k):
                share, here, room = y[i], weights[i], caps[i] - weights[i]
                if share > VANISHING and here < weight * share:
                    weight, where, capped = here / share, i, False
                if share < -VANISHING and room < -weight * share:
                    weight, where, capped = -room / share, i, True
            if pivot > 0.0 and gain < weight * pivot and k < len(labels):
                weight, where = gain / pivot, -1
            if bound < np.inf and bound <= weight:
                weight, where = bound, -2
            if not (gain > 0.0 and weight < np.inf):
                return 0
            for i in range(k):
                here = weights[i] - weight * y[i]
                here = here if here > 0.0 else 0.0
                weights[i] = here if here < caps[i] else caps[i]
            if where == -2:  # only its pull changes
                for i in range(k):
                    u[i] -= sign * bound * (row[i] - alpha * v[i])
                numbers[TOTAL] -= sign * bound
                return 2
            if where >= 0:
                for i in range(where + 1 if capped else 0):  # it will pull at the new one: G = L row - alpha
                    linear -= caps[where] * factor[where, i] * row[i]
                linear += caps[where] * alpha if capped else 0.0
                drop(factor, lines, labels, gone, sizes, numbers, where, capped)
                k -= 1
                pivot = whole
                for i in range(k):
                    pivot -= row[i] * row[i]
            pivot = pivot if pivot > LEAST * whole else LEAST * whole
        weights[k], labels[k], caps[k] = weight if sign > 0 else bound - weight, label, bound
        numbers[TOTAL] += 0.0 if sign > 0 else bound
        append(factor, lines, sizes, numbers, pivot, linear, 0.0 if sign > 0 else bound)
        sizes[STEPS] += 1
        if not onward:
            return 1
        k = sizes[FREE]
    moved = 0
    while k > 0:
        shift = 0.0
        if alpha > 0.0:
            vv, uv = 0.0, 0.0
            for i in range(k):
                vv += v[i] * v[i]
                uv += u[i] * v[i]
            shift = (numbers[TOTAL] - uv) / vv
        for i in range(k):
            y[i] = u[i] + shift * v[i]
        backward(factor, lines[INVERSE], k, y)
        if alpha > 0.0 and k == 1:
            y[0] = numbers[TOTAL]
        reach, block, total, floor = 1.0, -1, 0.0, numbers[FLOOR]
        for i in range(k):
            aim, end = y[i], caps[i]
            total += aim
            if aim <= floor or aim > end * (1.0 + ZERO):
                end, here = 0.0 if aim <= floor else end, weights[i]
                ratio = abs(here - end) / (abs(here - aim) + 1e-300)
                if block < 0 or ratio < reach:
                    reach, block = ratio if ratio < 1.0 else 1.0, i
        if not abs(total) < np.inf:
            return 0
        if block < 0:
            for i in range(k):
                weights[i] = y[i] if y[i] < caps[i] else caps[i]
            numbers[MU] = shift - alpha * numbers[TOTAL]
            return 1
        moved = 1 if reach > 0.0 else moved
        for i in range(k):
            weights[i] += reach * (y[i] - weights[i])
        for i in range(k - 1, -1, -1):
            low, high, here, end = y[i] <= floor, y[i] > caps[i] * (1.0 + ZERO), weights[i], caps[i]
            if i == block or (low and here <= 0.0) or (high and here >= end):
                drop(factor, lines, labels, gone, sizes, numbers, i, high and not low)
        k = sizes[FREE]
    return moved


# ---------------------------------------------------------------- a compiled loop over Gram rows


PRICE, SHARE, NONE = range(3)
"""Lines of numbers per atom in the type of the prices: price, room for weights, price where all are zero."""

STATE, SLOT, SPARE = range(3)
"""Lines of places per atom: how it is, which row of the prices it has; a stack of spare rows."""

AT_ZERO, IS_FREE = range(2)
"""How an atom is."""

LANES = 32
"""Columns of prices come in multiples of this."""

LINE = 64
"""Bytes of a line of the cache."""

SHUT = -np.inf
"""Entry of c of a barred atom and of the padding: its price is never least."""


class GramState(NamedTuple):
    """What one thread works on: a target after the other, over up to n atoms of which `capacity` may be free.

    Attributes
    ----------
    gram, rows : (n, wide) and (0, d), or (1, wide) and (n, d)
        All products in float64; or a line to work on, and rows whose products are made as atoms join.
    singles : (n or capacity + 1, wide)
        The same products in the type of the prices, of atom j in row ``marks[SLOT, j]``.
    linear, quick, marks : (wide,), (3, wide), (3, n)
        c; and per atom what `PRICE` and `STATE` say.
    fine, point : (wide,), (d,)
        Prices in float64, after those of `quick`; empty: none. With rows, sum w a.
    factor, lines, labels, gone, sizes, numbers
        The free atoms: (c, c), (10, c), (c,), (2, c + 2), (5,), (5,).
    """

    gram: Vector
    singles: NDArray[Any]
    rows: Vector
    linear: Vector
    quick: NDArray[Any]
    marks: Ints
    fine: Vector
    point: Vector
    factor: Vector
    lines: Vector
    labels: Ints
    gone: Ints
    sizes: Ints
    numbers: Vector


def pad(columns: int) -> int:
    """Columns rounded up to whole lanes."""
    return -(-columns // LANES) * LANES


def make_room(shape: tuple[int, ...], dtype: DTypeLike = np.float64) -> NDArray[Any]:
    """Zeros that begin where a line of the cache does: a register that is loaded across two takes longer."""
    size = math.prod(shape) * np.dtype(dtype).itemsize
    room = np.zeros(size + LINE, np.uint8)
    first = -room.__array_interface__["data"][0] % LINE
    return room[first : first + size].view(dtype).reshape(shape)


def make_state(gram: Vector, singles: NDArray[Any], rows: Vector, capacity: int) -> GramState:
    """Return room for targets over the atoms of a Gram matrix, or of rows."""
    n, wide, c = max(len(rows), len(gram)), gram.shape[1], pad(capacity)
    marks = np.zeros((3, n), np.int64)
    marks[SLOT] = np.arange(n)
    linear, quick, fine = np.full(wide, SHUT), make_room((3, wide), singles.dtype), make_room((wide,))
    # One block: how loops are run may depend on how far arrays are from each other.
    block = make_room((c + 11, c))
    factor, lines = block[:capacity], block[c + 1 : c + 11]
    lines[CAP] = np.inf
    free = np.zeros(capacity, np.int64), np.zeros((2, capacity + 2), np.int64), np.zeros(5, np.int64)
    point = np.zeros(rows.shape[1])
    return GramState(
        gram, singles, rows, linear, quick, marks, fine, point, factor, lines, *free, np.zeros(5)
    )


@lean_fast_kernel
def dot(a: NDArray[Any], b: Vector) -> float:
    """<a, b> in float64, in whatever order."""
    total = 0.0
    for i in range(len(b)):
        total += np.float64(a[i]) * b[i]
    return total


@lean_fast_kernel
def add_rows(
    out: NDArray[Any], wide: int, rows: NDArray[Any], at: Ints, weights: NDArray[Any], count: int
) -> None:
    """Add the first `count` of the rows at some places by their weights, four at a time; all of one type.

    Counts, no slices, of which each costs more to compile than a loop.
    """
    i = 0
    while i + 4 <= count:
        a, b, c, d = rows[at[i]], rows[at[i + 1]], rows[at[i + 2]], rows[at[i + 3]]
        wa, wb, wc, wd = weights[i], weights[i + 1], weights[i + 2], weights[i + 3]
        for j in range(wide):
            out[j] += (wa * a[j] + wb * b[j]) + (wc * c[j] + wd * d[j])
        i += 4
    while i < count:
        a, wa = rows[at[i]], weights[i]
        for j in range(wide):
            out[j] += wa * a[j]
        i += 1


@lean_kernel
def lowest(values: NDArray[Any], wide: int) -> int:
    """Place of the least of whole lanes of numbers, the first of equal ones: most lanes hold nothing less."""
    least, place = values[0], 0
    for start in range(0, wide, LANES):
        part, less = values[start : start + LANES], 0
        for j in range(len(part)):  # a count is vectorised, a minimum is not
            less += part[j] < least
        if less > 0:
            for j in range(len(part)):
                if part[j] < least:
                    least, place = part[j], start + j
    return place


@inlined
def fetch(gram: Vector, singles: NDArray[Any], rows: Vector, marks: Ints, sizes: Ints, b: int) -> None:
    """Make products of atom b with all from the rows: a line to work on, and a spare row of the prices."""
    line = gram[0]
    for j in range(sizes[ATOMS]):
        line[j] = dot(rows[j], rows[b])
    sizes[SPARES] -= 1
    marks[SLOT, b] = marks[SPARE, sizes[SPARES]]
    single = singles[marks[SLOT, b]]
    for j in range(sizes[ATOMS]):
        single[j] = line[j]


@inlined
def begin(state: GramState, n: int, alpha: float, total: float, ridge: float) -> None:
    """Forget all free atoms; of n atoms, `linear` and `marks` are the caller's. alpha 0: no sum."""
    sizes, numbers = state.sizes, state.numbers
    sizes[FREE], sizes[GONE], sizes[STEPS], sizes[SPARES], sizes[ATOMS] = 0, 0, 0, 0, n
    numbers[ALPHA], numbers[TOTAL], numbers[RIDGE] = alpha, total, ridge
    numbers[MU], numbers[FLOOR] = 0.0, ZERO * total if alpha > 0.0 else 0.0
    if len(state.rows) > 0:
        sizes[SPARES] = len(state.singles)
        for i in range(len(state.singles)):
            state.marks[SPARE, i] = i


@inlined
def walk(
    state: GramState,
    rows: Vector | None,
    ids: Ints,
    weights: Vector,
    count: int,
    square: float,
    goal: float,
    most: int,
    steps: int,
) -> None:
    """Free the first of these atoms, then always that of largest violation; descend.

    Until the gap is at most the goal, or f falls no more: by prices of `quick`, where these stall by `fine`.
    Dependent atoms of the start are left out.

    `state` is that after `begin`; `rows` are its rows, None where it has a matrix: half of this is not
    compiled then. The walk starts at the first `count` of `ids`, with a sum at least one; it ends with `most`
    free atoms, after `steps` atoms that joined, or where the gap of
    f = 1/2 w'(G + ridge I)w - c'w + square / 2 >= 0, without a sum the largest violation, is at most `goal`.
    """
    gram, singles, linear, quick = state.gram, state.singles, state.linear, state.quick
    marks, factor, lines, labels = state.marks, state.factor, state.lines, state.labels
    gone, sizes, numbers, fine = state.gone, state.sizes, state.numbers, state.fine
    summed, wide = numbers[ALPHA] > 0.0, (sizes[ATOMS] + LANES - 1) // LANES * LANES
    row, prices, none = lines[ROW], quick[PRICE], quick[NONE]
    for j in range(wide):
        none[j] = -linear[j]
    last, finely, made, diagonal, term = np.inf, False, rows is None, 0.0, 0.0
    started, total, b, gain = 0, 0.0, -1, 0.0
    while True:
        onward = started == count
        if not onward:  # one that depends on those before gains nothing: it is left out
            b, gain = ids[started], 0.0
        if b >= 0:
            line = gram[b if rows is None else 0]
            if rows is not None:
                fetch(gram, singles, rows, marks, sizes, b)
            for i in range(sizes[FREE]):
                row[i] = line[labels[i]]
            marks[STATE, b], diagonal, term = IS_FREE, line[b], linear[b]
        joined = sizes[STEPS]
        advance(factor, lines, labels, gone, sizes, numbers, b, diagonal, term, gain, np.inf, 1, onward)
        if b >= 0 and sizes[STEPS] == joined:  # it gains nothing
            gone[0, 0], sizes[GONE] = b, 1
        for i in range(sizes[GONE]):  # who left, and whose row of prices is spare
            marks[STATE, gone[0, i]] = AT_ZERO
            if rows is not None:
                marks[SPARE, sizes[SPARES]] = marks[SLOT, gone[0, i]]
                sizes[SPARES] += 1
        sizes[GONE] = 0
        if not onward:
            if sizes[STEPS] > joined:
                lines[WEIGHT, joined] = weights[started]
                total += weights[started]
            started, b = started + 1, -1
            if started == count:
                for i in range(sizes[FREE] if summed and total > 0.0 else 0):
                    lines[WEIGHT, i] *= numbers[TOTAL] / total
                sizes[STEPS] = 0
            continue
        k, bend, mu = sizes[FREE], 0.0, numbers[MU] if summed else 0.0
        if k >= most or sizes[STEPS] >= steps:
            break
        for i in range(k):
            bend += lines[WEIGHT, i] * linear[labels[i]]
        if not finely:
            for j in range(wide):
                prices[j] = none[j]
            for i in range(k):  # nobody is gone here: places of the rows
                quick[SHARE, i], gone[0, i] = lines[WEIGHT, i], marks[SLOT, labels[i]]
            add_rows(prices, wide, singles, gone[0], quick[SHARE], k)
            for i in range(k):
                prices[labels[i]] = mu
            b = lowest(prices, wide)
            gain = mu - prices[b]
        else:
            if rows is None:
                for j in range(wide):
                    fine[j] = -linear[j]
                add_rows(fine, wide, gram, labels, lines[WEIGHT], k)
            else:
                point = state.point
                for j in range(len(point)):
                    point[j] = 0.0
                add_rows(point, len(point), rows, labels, lines[WEIGHT], k)
                for j in range(wide):
                    fine[j] = dot(rows[j], point) - linear[j] if j < sizes[ATOMS] else -SHUT
            for i in range(k):
                fine[labels[i]] = mu
            b = lowest(fine, wide)
            gain = mu - fine[b]
        value = 0.5 * ((mu * numbers[TOTAL] if summed else 0.0) - bend + square)
        gap, excess = gain * numbers[TOTAL] if summed else gain, 2.0 * value if value > 0.0 else 0.0
        gap = gap if gap > 0.0 else 0.0
        gap = 0.5 * excess if gap >= excess else gap * (1.0 - 0.5 * gap / excess)
        solved = not gap > goal
        if solved or marks[STATE, b] != AT_ZERO or (k > 0 and not value < last):
            # Of a matrix, a proof by its residual follows; rows on demand are priced finely once more here.
            if finely or len(fine) == 0 or (solved and made):
                break
            last, finely, b = np.inf, True, -1
            continue
        last = value
