"""The one active set: least 1/2 w'(G + ridge I)w - c'w over 0 <= w <= cap, with sum w = total or without.

Atoms are free, at zero or at their cap. For the free atoms F a factor is carried,

    L L' = G_FF + ridge I + alpha 11',   u = L^-1 b,   v = L^-1 1,   b = c_F - G_FU cap_U,

where U are the atoms at their cap. With a sum, alpha > 0 (best near the mean of G's diagonal) changes
nothing, as the free weights sum to a constant, but makes the factor exist wherever the atoms are
*affinely* independent; alpha = 0 says that there is no sum. The minimum over F without bounds is

    w = L^-T (u + s v),   s = (total_F - u'v) / v'v with a sum, else 0,

and all free atoms have the price (Gw + ridge w - c)_i = mu = s - alpha total_F there.

Minor cycle (`descend`, Wolfe 1976): step towards that minimum; at the first weight that reaches a
bound stop, let its atom leave, go on. Neither move needs G: the column of G that an atom j at its
cap pulls by is L L[j]', so u changes by a multiple of L[j]' - alpha v.
Major cycle: an atom at zero of price below mu, or at its cap of price above, becomes free.

An atom that depends on the free ones (pivot below `DEPENDENT` of its diagonal) is exchanged: f is
nearly linear along the move that gives it weight and takes the same mixture away from the others, so
the move goes to the first bound, whose atom leaves, or to the minimum if that comes first (`admit`).

Two kinds of callers share these kernels. `corral.Corral` serves those whose prices come from outside:
a pool of atoms, a Newton model. `enter` and `walk` are compiled loops over Gram rows, one target after
the other, with prices in the type of the rows that they are given.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from wolfhound.core import Ints, Vector
from wolfhound.jit import fast_kernel, lean_fast_kernel, lean_kernel
from wolfhound.rounding import UNIT

DEPENDENT = 1e-10
"""A pivot below this share of its diagonal: dependent."""

LEAST = 1e-13
"""Pivots are raised to this share of the diagonal."""

VANISHING = 1e-12
"""Shares up to this do not limit an exchange: they are rounding."""

ZERO = 1e-14
"""Weights up to this share of the total are zero."""

U, V, ROW, AIM, WEIGHT, CAP, LINEAR, COSINE, SINE = range(9)
"""Lines of (9, capacity) numbers per free atom; ROW and AIM are to work on, LINEAR is c."""

FREE, GONE, STEPS, SPARES = range(4)
"""Of (4,) counts: free atoms, those that left since the caller looked, atoms that joined, spare rows."""

ALPHA, TOTAL, RIDGE, MU, FLOOR, CAPPED = range(6)
"""Of (6,) numbers: alpha, sum of the free weights, ridge, price of the free atoms, what counts as zero,
and 1 if any atom has a cap (in the compiled loop only)."""


# ---------------------------------------------------------------- the factor


@lean_fast_kernel
def forward(factor: Vector, first: int, last: int, x: Vector) -> None:
    """Solve L x = b in place, given the solution up to place `first`."""
    for i in range(first, last):
        s = 0.0
        for j in range(i):
            s += factor[i, j] * x[j]
        x[i] = (x[i] - s) / factor[i, i]


@lean_fast_kernel
def backward(factor: Vector, k: int, x: Vector) -> None:
    """Solve L'x = b in place, four rows of L at a time (they are read once)."""
    i = k - 1
    while i >= 3:
        r0, r1, r2, r3 = factor[i], factor[i - 1], factor[i - 2], factor[i - 3]
        a = x[i] / r0[i]
        b = (x[i - 1] - r0[i - 1] * a) / r1[i - 1]
        c = (x[i - 2] - r0[i - 2] * a - r1[i - 2] * b) / r2[i - 2]
        e = (x[i - 3] - r0[i - 3] * a - r1[i - 3] * b - r2[i - 3] * c) / r3[i - 3]
        x[i], x[i - 1], x[i - 2], x[i - 3] = a, b, c, e
        for j in range(i - 3):
            x[j] -= r0[j] * a + r1[j] * b + r2[j] * c + r3[j] * e
        i -= 4
    while i >= 0:
        x[i] /= factor[i, i]
        for j in range(i):
            x[j] -= factor[i, j] * x[i]
        i -= 1


@lean_fast_kernel
def delete_row(factor: Vector, lines: Vector, k: int, at: int) -> None:
    """Remove a row of the factor by Givens rotations, four rows at a time, and turn U, V and ROW with it."""
    cosines, sines = lines[COSINE], lines[SINE]
    t = at
    while t < k - 1:
        m = min(4, k - 1 - t)
        for a in range(m):
            for i in range(at):
                factor[t + a, i] = factor[t + a + 1, i]
        x0 = factor[t + 1, at]
        x1, x2, x3 = x0, x0, x0
        first = at
        if m == 4:  # independent chains
            r0, r1, r2, r3, r4 = factor[t], factor[t + 1], factor[t + 2], factor[t + 3], factor[t + 4]
            x1, x2, x3 = r2[at], r3[at], r4[at]
            for i in range(at, t):
                c = cosines[i]
                s = sines[i]
                y0, y1, y2, y3 = r1[i + 1], r2[i + 1], r3[i + 1], r4[i + 1]
                r0[i] = c * x0 + s * y0
                r1[i] = c * x1 + s * y1
                r2[i] = c * x2 + s * y2
                r3[i] = c * x3 + s * y3
                x0, x1 = c * y0 - s * x0, c * y1 - s * x1
                x2, x3 = c * y2 - s * x2, c * y3 - s * x3
            first = t
        for a in range(m):
            p = t + a
            x = x0
            if m == 4:
                x = x0 if a == 0 else (x1 if a == 1 else (x2 if a == 2 else x3))
            else:
                x = factor[p + 1, at]
            for i in range(first, p):
                y = factor[p + 1, i + 1]
                factor[p, i] = cosines[i] * x + sines[i] * y
                x = cosines[i] * y - sines[i] * x
            y = factor[p + 1, p + 1]
            r = np.sqrt(x * x + y * y)
            cosines[p], sines[p], factor[p, p] = x / r, y / r, r
        t += m
    for line in range(3):
        x = lines[line, at]
        for i in range(at, k - 1):
            y = lines[line, i + 1]
            lines[line, i] = cosines[i] * x + sines[i] * y
            x = cosines[i] * y - sines[i] * x


@lean_fast_kernel
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
    a, b = linear, 1.0
    for j in range(k):
        new[j] = row[j]
        a -= row[j] * u[j]
        b -= row[j] * v[j]
    new[k] = np.sqrt(pivot)
    u[k], v[k] = a / new[k], b / new[k]
    sizes[FREE] = k + 1


@lean_kernel
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
    """Let a free atom leave, for zero or for its cap; note its label, and where it went, in (2, c) `gone`."""
    k, u, v = sizes[FREE], lines[U], lines[V]
    if capped:
        cap, row = lines[CAP, at], factor[at]
        for j in range(k):
            u[j] += cap * numbers[ALPHA] * v[j]
        for j in range(at + 1):
            u[j] -= cap * row[j]
        numbers[TOTAL] -= cap
    gone[0, sizes[GONE]], gone[1, sizes[GONE]] = labels[at], 1 if capped else 0
    sizes[GONE] += 1
    delete_row(factor, lines, k, at)
    for j in range(at, k - 1):
        labels[j] = labels[j + 1]
        for line in range(WEIGHT, LINEAR + 1):
            lines[line, j] = lines[line, j + 1]
    sizes[FREE] = k - 1


@fast_kernel
def forward_panel(factor: Vector, first: int, last: int, rows: Vector) -> None:
    """Solve L x = b for every row, within the places of a panel."""
    count = rows.shape[0]
    panel = np.empty((last - first, count))
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


@lean_kernel
def absorb(
    factor: Vector,
    lines: Vector,
    labels: Ints,
    sizes: Ints,
    numbers: Vector,
    rows: Vector,
    gram: Vector,
    terms: Vector,
    names: Ints,
    kept: Ints,
) -> int:
    """Free the atoms of a block with weight 0, but for those that depend on the ones before; how many.

    Parameters
    ----------
    rows : (B, k)
        L^-1 of their Gram entries with the free atoms, alpha added.
    gram : (B, B)
        Gram entries among themselves.
    terms : (3, B)
        Their entries of b, cap and c.
    names, kept : (B,)
        Their labels; set to the places in the block of those that joined.
    """
    first, count = sizes[FREE], 0
    row = lines[ROW]
    for i in range(len(names)):
        k = sizes[FREE]
        copy(row, rows[i])
        for a in range(count):
            row[first + a] = gram[i, kept[a]] + numbers[ALPHA]
        forward(factor, first, k, row)
        whole = gram[i, i] + numbers[RIDGE] + numbers[ALPHA]
        pivot = whole
        for j in range(k):
            pivot -= row[j] * row[j]
        if k < len(labels) and pivot > DEPENDENT * whole:
            lines[WEIGHT, k], lines[CAP, k], lines[LINEAR, k], labels[k] = (
                0.0,
                terms[1, i],
                terms[2, i],
                names[i],
            )
            append(factor, lines, sizes, numbers, max(pivot, LEAST * whole), terms[0, i], 0.0)
            kept[count] = i
            count += 1
    return count


# ---------------------------------------------------------------- moves


@lean_kernel
def descend(factor: Vector, lines: Vector, labels: Ints, gone: Ints, sizes: Ints, numbers: Vector) -> bool:
    """Go to the minimum over the bounds of the free atoms; whether any weight moved.

    Atoms that reach a bound leave. Sets the price of those that stay.
    """
    u, v, y, weights, caps = lines[U], lines[V], lines[AIM], lines[WEIGHT], lines[CAP]
    summed, floor, moved = numbers[ALPHA] > 0.0, numbers[FLOOR], False
    while sizes[FREE] > 0:
        k = sizes[FREE]
        shift = 0.0
        if summed:
            vv, uv = 0.0, 0.0
            for i in range(k):
                vv += v[i] * v[i]
                uv += u[i] * v[i]
            shift = (numbers[TOTAL] - uv) / vv
        for i in range(k):
            y[i] = u[i] + shift * v[i]
        backward(factor, k, y)
        if summed and k == 1:
            y[0] = numbers[TOTAL]
        reach, block, total = 1.0, -1, 0.0
        for i in range(k):
            total += y[i]
            if y[i] <= floor or y[i] > caps[i] * (1.0 + ZERO):
                bound = 0.0 if y[i] <= floor else caps[i]
                ratio = abs(weights[i] - bound) / max(abs(weights[i] - y[i]), 1e-300)
                if block < 0 or ratio < reach:
                    reach, block = min(ratio, 1.0), i
        if not np.isfinite(total):
            return False
        if block < 0:
            for i in range(k):
                weights[i] = min(y[i], caps[i])
            numbers[MU] = shift - numbers[ALPHA] * numbers[TOTAL]
            return True
        moved = moved or reach > 0.0
        for i in range(k):
            weights[i] += reach * (y[i] - weights[i])
        for i in range(k - 1, -1, -1):
            low, high = y[i] <= floor, y[i] > caps[i] * (1.0 + ZERO)
            if i == block or (low and weights[i] <= 0.0) or (high and weights[i] >= caps[i]):
                drop(factor, lines, labels, gone, sizes, numbers, i, high and not low)
    return moved


@lean_kernel
def admit(
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
) -> int:
    """Free one atom, by exchange if it depends on the free ones.

    lines[ROW] holds its Gram entries with the free atoms. `square` is G_jj, `linear` its c less the
    pull of the other atoms at their cap, `gain` by how much its price is on the wrong side of mu
    (inf: it is exchanged in any case), `bound` its cap, `sign` -1 if it comes from there.

    Returns
    -------
    how
        1: it is free; 2: it went from one bound to the other; 0: it gains nothing, nothing has changed.
    """
    k, row, alpha = sizes[FREE], lines[ROW], numbers[ALPHA]
    weights, caps, share = lines[WEIGHT], lines[CAP], lines[AIM]
    whole = square + numbers[RIDGE] + alpha
    for i in range(k):
        row[i] += alpha
    forward(factor, 0, k, row)
    pivot, weight = whole, 0.0
    for i in range(k):
        pivot -= row[i] * row[i]
    if k == len(labels) or gain == np.inf or not pivot > DEPENDENT * whole:
        for i in range(k):
            share[i] = sign * row[i]
        backward(factor, k, share)
        weight, where, capped = np.inf, -1, False
        for i in range(k):
            if share[i] > VANISHING and weights[i] < weight * share[i]:
                weight, where, capped = weights[i] / share[i], i, False
            if share[i] < -VANISHING and caps[i] - weights[i] < -weight * share[i]:
                weight, where, capped = (weights[i] - caps[i]) / share[i], i, True
        if pivot > 0.0 and gain < weight * pivot and k < len(labels):
            weight, where = gain / pivot, -1
        if bound < np.inf and bound <= weight:
            weight, where = bound, -2
        if not (gain > 0.0 and weight < np.inf):
            return 0
        for i in range(k):
            weights[i] = min(max(0.0, weights[i] - weight * share[i]), caps[i])
        if where == -2:  # only its pull changes
            for i in range(k):
                lines[U, i] -= sign * bound * (row[i] - alpha * lines[V, i])
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
        pivot = max(pivot, LEAST * whole)
    weights[k], labels[k], caps[k] = weight if sign > 0 else bound - weight, label, bound
    numbers[TOTAL] += 0.0 if sign > 0 else bound
    append(factor, lines, sizes, numbers, pivot, linear, 0.0 if sign > 0 else bound)
    sizes[STEPS] += 1
    return 1


# ---------------------------------------------------------------- a compiled loop over Gram rows


PRICE, TERM, SHARE = range(3)
"""Lines of (3, wide) numbers per atom in the type of the prices: price, c, and room for weights."""

EXACT, BOUND = range(2)
"""Lines of (2, n) float64 numbers per atom: c and cap."""

STATE, SLOT, SPARE = range(3)
"""Lines of (3, n) places per atom: how it is, which row of the prices it has; a stack of spare rows."""

AT_ZERO, IS_FREE, AT_CAP, BARRED = range(4)
"""How an atom is."""

LANES = 16
"""Columns of prices come in multiples of this."""

SHUT = -1e30
"""TERM of a barred atom and of the padding: its price is never least."""


@lean_fast_kernel
def dot(a: NDArray[Any], b: Vector) -> float:
    """<a, b> in float64, in whatever order."""
    total = 0.0
    for i in range(len(b)):
        total += np.float64(a[i]) * b[i]
    return total


@lean_fast_kernel
def copy(out: NDArray[Any], values: NDArray[Any]) -> None:
    """Set out = values, of whatever type it is."""
    for i in range(len(values)):
        out[i] = values[i]


@lean_fast_kernel
def add_rows(out: NDArray[Any], rows: NDArray[Any], at: Ints, weights: NDArray[Any]) -> None:
    """Add the rows at some places by their weights, four at a time; all of one type."""
    i = 0
    while i + 4 <= len(at):
        a, b, c, d = rows[at[i]], rows[at[i + 1]], rows[at[i + 2]], rows[at[i + 3]]
        wa, wb, wc, wd = weights[i], weights[i + 1], weights[i + 2], weights[i + 3]
        for j in range(len(out)):
            out[j] += (wa * a[j] + wb * b[j]) + (wc * c[j] + wd * d[j])
        i += 4
    while i < len(at):
        a, wa = rows[at[i]], weights[i]
        for j in range(len(out)):
            out[j] += wa * a[j]
        i += 1


@lean_kernel
def lowest(values: NDArray[Any]) -> int:
    """Place of the least of 8 m numbers: eight chains, as a plain minimum is not vectorised."""
    r0 = r1 = r2 = r3 = r4 = r5 = r6 = r7 = values[0]
    for i in range(0, len(values), 8):
        part = values[i : i + 8]
        r0 = part[0] if part[0] < r0 else r0
        r1 = part[1] if part[1] < r1 else r1
        r2 = part[2] if part[2] < r2 else r2
        r3 = part[3] if part[3] < r3 else r3
        r4 = part[4] if part[4] < r4 else r4
        r5 = part[5] if part[5] < r5 else r5
        r6 = part[6] if part[6] < r6 else r6
        r7 = part[7] if part[7] < r7 else r7
    least = min(r0, r1, r2, r3, r4, r5, r6, r7)
    for i in range(len(values)):
        if values[i] == least:
            return i
    return 0


@lean_kernel
def cut_gap(gap: float, excess: float) -> float:
    """Largest possible decrease of a quadratic f with 2 (f - min f) <= excess; rounded up."""
    if gap >= excess:
        return 0.5 * excess
    return gap * (1.0 - 0.5 * gap / excess) * (1.0 + 4.0 * UNIT)


@lean_kernel
def fetch(gram: Vector, singles: NDArray[Any], rows: Vector, marks: Ints, sizes: Ints, b: int) -> int:
    """Which line of `gram` has the products of atom b: its own, or the first, made of `rows` where given."""
    if len(rows) == 0:
        return b
    line = gram[0]
    for j in range(marks.shape[1]):
        line[j] = dot(rows[j], rows[b])
    sizes[SPARES] -= 1
    marks[SLOT, b] = marks[SPARE, sizes[SPARES]]
    copy(singles[marks[SLOT, b]], line)
    return 0


@lean_kernel
def settle(marks: Ints, gone: Ints, sizes: Ints, spares: bool) -> None:
    """Note the atoms that left, and that their rows of prices are spare."""
    for i in range(sizes[GONE]):
        j = gone[0, i]
        marks[STATE, j] = AT_CAP if gone[1, i] == 1 else AT_ZERO
        if spares and gone[1, i] == 0:
            marks[SPARE, sizes[SPARES]] = marks[SLOT, j]
            sizes[SPARES] += 1
    sizes[GONE] = 0


@lean_kernel
def step_to(
    gram: Vector,
    singles: NDArray[Any],
    rows: Vector,
    terms: Vector,
    marks: Ints,
    factor: Vector,
    lines: Vector,
    labels: Ints,
    gone: Ints,
    sizes: Ints,
    numbers: Vector,
    b: int,
    gain: float,
) -> bool:
    """Free atom b, whose price is on the wrong side by `gain`, and descend; whether a weight moved."""
    sign, linear = -1 if marks[STATE, b] == AT_CAP else 1, terms[EXACT, b]
    line = gram[fetch(gram, singles, rows, marks, sizes, b)]
    for i in range(sizes[FREE]):
        lines[ROW, i] = line[labels[i]]
    for j in range(marks.shape[1] if numbers[CAPPED] > 0.0 else 0):
        linear -= line[j] * terms[BOUND, j] if marks[STATE, j] == AT_CAP and j != b else 0.0
    how = admit(factor, lines, labels, gone, sizes, numbers, b, line[b], linear, gain, terms[BOUND, b], sign)
    moved = how == 2 or (how == 1 and lines[WEIGHT, sizes[FREE] - 1] > 0.0)
    if how == 1:
        marks[STATE, b] = IS_FREE
    else:
        gone[0, sizes[GONE]], gone[1, sizes[GONE]] = b, 1 if (how == 2) == (sign > 0) else 0
        sizes[GONE] += 1
    moved = (how > 0 and descend(factor, lines, labels, gone, sizes, numbers)) or moved
    settle(marks, gone, sizes, len(rows) > 0)
    return moved


@lean_kernel
def enter(
    gram: Vector,
    singles: NDArray[Any],
    rows: Vector,
    terms: Vector,
    marks: Ints,
    factor: Vector,
    lines: Vector,
    labels: Ints,
    gone: Ints,
    sizes: Ints,
    numbers: Vector,
    ids: Ints,
    weights: Vector,
) -> None:
    """Free these atoms with these weights but for dependent ones, and descend: a start, warm or of one atom.

    No atom may be free before; those at their cap are noted in `marks`, and not in TOTAL.
    """
    total = 0.0
    for i in range(len(ids)):
        b, k = ids[i], sizes[FREE]
        linear, row = terms[EXACT, b], lines[ROW]
        line = gram[fetch(gram, singles, rows, marks, sizes, b)]
        for j in range(k):
            row[j] = line[labels[j]] + numbers[ALPHA]
        for j in range(marks.shape[1] if numbers[CAPPED] > 0.0 else 0):
            linear -= line[j] * terms[BOUND, j] if marks[STATE, j] == AT_CAP else 0.0
        forward(factor, 0, k, row)
        whole = line[b] + numbers[RIDGE] + numbers[ALPHA]
        pivot = whole
        for j in range(k):
            pivot -= row[j] * row[j]
        if k < len(labels) and pivot > DEPENDENT * whole:
            lines[WEIGHT, k], lines[CAP, k], labels[k], marks[STATE, b] = (
                weights[i],
                terms[BOUND, b],
                b,
                IS_FREE,
            )
            append(factor, lines, sizes, numbers, pivot, linear, 0.0)
            total += weights[i]
        elif len(rows) > 0:
            marks[SPARE, sizes[SPARES]] = marks[SLOT, b]
            sizes[SPARES] += 1
    if numbers[ALPHA] > 0.0 and total > 0.0:
        for i in range(sizes[FREE]):
            lines[WEIGHT, i] *= numbers[TOTAL] / total
    descend(factor, lines, labels, gone, sizes, numbers)
    settle(marks, gone, sizes, len(rows) > 0)


@lean_kernel
def price_capped(
    singles: NDArray[Any], terms: Vector, quick: NDArray[Any], marks: Ints, sizes: Ints, numbers: Vector
) -> tuple[float, float]:
    """Add the atoms at their cap to prices, w'p and c'w; set MU if none is free."""
    here, bend, top = 0.0, 0.0, -np.inf
    for j in range(marks.shape[1]):
        if marks[STATE, j] == AT_CAP:
            quick[SHARE, 0] = terms[BOUND, j]
            add_rows(quick[PRICE], singles, marks[SLOT, j : j + 1], quick[SHARE, :1])
    for j in range(marks.shape[1]):
        if marks[STATE, j] == AT_CAP:
            cap = terms[BOUND, j]
            price = quick[PRICE, j] + numbers[RIDGE] * cap
            here += cap * price
            bend += cap * terms[EXACT, j]
            top = max(top, price)
    if sizes[FREE] == 0:
        numbers[MU] = top if numbers[ALPHA] > 0.0 else 0.0
    return here, bend


@lean_kernel
def choose_capped(
    terms: Vector, quick: NDArray[Any], marks: Ints, sizes: Ints, numbers: Vector, total: float
) -> tuple[int, float, float]:
    """The atom whose price is furthest on the wrong side, by how much, and the gap over the whole set."""
    best, gain, gap, mu, first = -1, 0.0, 0.0, numbers[MU], -1
    for j in range(marks.shape[1]):
        cap = terms[BOUND, j]
        if marks[STATE, j] == AT_ZERO:
            wrong = mu - quick[PRICE, j]
        elif marks[STATE, j] == AT_CAP:
            wrong = quick[PRICE, j] + numbers[RIDGE] * cap - mu
            first = j if wrong >= 0.0 else first
        else:
            wrong = 0.0
        if wrong > 0.0:
            gap += wrong * (min(cap, total) if numbers[ALPHA] > 0.0 else (cap if cap < np.inf else 1.0))
        if wrong > gain:
            best, gain = j, wrong
    if best >= 0 and sizes[FREE] == 0 and numbers[ALPHA] > 0.0:
        best = (
            first  # where none is free, the sum is fixed: the atom at its cap of highest price is freed first
        )
    return best, gain, gap


@lean_kernel
def walk(
    gram: Vector,
    singles: NDArray[Any],
    rows: Vector,
    terms: Vector,
    quick: NDArray[Any],
    marks: Ints,
    factor: Vector,
    lines: Vector,
    labels: Ints,
    gone: Ints,
    sizes: Ints,
    numbers: Vector,
    square: float,
    goal: float,
    most: int,
    steps: int,
) -> None:
    """Free the atom of largest violation and descend, until the gap is at most the goal or f falls no more.

    Parameters
    ----------
    gram, rows : (n, wide) and (0, d), or (1, wide) and (n, d)
        All products in float64; or a line to work on, and rows whose products are made as atoms join
        (then no atom has a cap).
    singles : (n or capacity, wide)
        The same products in the type of the prices, of atom j in row ``marks[SLOT, j]``.
    terms, quick, marks
        Per atom, as `EXACT`, `PRICE` and `STATE` say.
    factor, lines, labels, gone, sizes, numbers
        The free atoms, after `enter`; (c, c), (9, c), (c,), (2, c + 2), (4,), (6,).
    square
        f is 1/2 w'(G + ridge I)w - c'w + square / 2 >= 0.
    goal
        Wanted gap; without a sum and caps, the largest violation accepted.
    most, steps
        Most free atoms, and atoms that join.
    """
    last, total, capped, prices = np.inf, numbers[TOTAL], numbers[CAPPED] > 0.0, quick[PRICE]
    for j in range(marks.shape[1] if capped else 0):
        total += terms[BOUND, j] if marks[STATE, j] == AT_CAP else 0.0
    while sizes[FREE] < most and sizes[STEPS] < steps:
        k, bend = sizes[FREE], 0.0
        for j in range(len(prices)):
            prices[j] = -quick[TERM, j]
        for i in range(k):
            # Places of the rows: `gone` is empty here.
            quick[SHARE, i], gone[0, i] = lines[WEIGHT, i], marks[SLOT, labels[i]]
            bend += lines[WEIGHT, i] * terms[EXACT, labels[i]]
        add_rows(prices, singles, gone[0, :k], quick[SHARE, :k])
        here = numbers[MU] * numbers[TOTAL] if numbers[ALPHA] > 0.0 and k > 0 else 0.0
        if capped:
            a, b = price_capped(singles, terms, quick, marks, sizes, numbers)
            here, bend = here + a, bend + b
            best, gain, gap = choose_capped(terms, quick, marks, sizes, numbers, total)
        else:
            numbers[MU] = numbers[MU] if numbers[ALPHA] > 0.0 else 0.0
            for i in range(k):
                prices[labels[i]] = numbers[MU]
            best = lowest(prices)
            gain = numbers[MU] - prices[best]
            gap = gain * total if numbers[ALPHA] > 0.0 else gain
        value = 0.5 * (here - bend + square)
        if best < 0 or marks[STATE, best] == IS_FREE or (k > 0 and not value < last):
            return
        if not cut_gap(max(gap, 0.0), max(2.0 * value, 0.0)) > goal:
            return
        last = value if k > 0 else np.inf
        step_to(gram, singles, rows, terms, marks, factor, lines, labels, gone, sizes, numbers, best, gain)
