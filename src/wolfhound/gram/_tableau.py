"""The compiled active set: least 1/2 w'Gw - c'w over the simplex, on Gram rows.

Wolfe's algorithm on L = chol(G_PP + alpha 11') of the active atoms P. Its inverse is
carried, with u = L^-1 c and v = L^-1 1, in float64: products with it wait for nothing,
where a solve takes one number after the other. Beside it Z = L^-1 (G_P. + alpha) is
carried for all atoms, so that prices and pivots of all of them cost O(n) per step, and
the atom of largest gain, violation^2 / pivot, joins (steepest edge). Z, prices and
pivots are float32: they choose, and prove nothing. Adding alpha to all of G changes
nothing, as the weights sum to 1. Positions are columns of Z; sizes: k active, q columns.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from wolfhound.core import Ints, Vector
from wolfhound.gram._proof_kernels import cut_gap
from wolfhound.jit import inner_fast_kernel, inner_kernel, lean_fast_kernel, lean_kernel

Singles = NDArray[np.float32]

CLOSE = 0.7
"""Share of the goal at which float32 prices are left."""

FAR = np.float32(-1e30)
"""Linear term, in prices, of an atom that must not join: it is active, or excluded."""

SHARE = 1e-5
"""Of its square, what is added to a column's pivot: rounding may leave less."""

LANES = 16
"""Columns come in multiples of this, those of the inverse, too."""

CACHE_LINE = 64
"""Bytes."""

ALPHA, LAM, LAST, GAIN = range(4)
SIZE, COLUMNS, STEPS = range(3)
U, V, OF_U, OF_V, WEIGHT, AIM, ROW, SPAN = range(8)
ALONG_U, ALONG_V, PIVOT, LINEAR, SPARE = range(5)


class Tableau(NamedTuple):
    """Room for one target after the other; `cap` active atoms, `wide` columns.

    Few arrays, because a compiled call costs by the arrays that it is given.

    Attributes
    ----------
    inverse, rest : (cap, pad(cap)) float64, (cap, wide) float32
        L^-1 and Z. Of a row of L^-1, what follows the diagonal up to pad(k) is 0.
    active : (8, pad(cap))
        Per active atom: u = L^-1 c and v = L^-1 1, what L^-T makes of them, the weight,
        where it goes; the row of L of the column that was looked at last; a line to work
        on. Of all but the weight and the last, what follows up to pad(k) is 0.
    lines : (5, wide) float32
        Per column: Z'u, Z'v, the pivot and a little more, c + alpha; a line to work on.
    exact : (wide,) float64
        c.
    at : (cap,) int64
        Columns of the active atoms.
    numbers : (4,)
        alpha, the multiplier lambda of sum w = 1, the last value of the model, and the
        slope towards the column that was chosen.
    sizes : (3,) int64
        k, q and the atoms that have joined.
    turns : (2 cap,)
        Cosines and sines of the last rotations.
    """

    inverse: Vector
    rest: Singles
    active: Vector
    lines: Singles
    exact: Vector
    at: Ints
    numbers: Vector
    sizes: Ints
    turns: Vector


def make_tableau(cap: int, columns: int) -> Tableau:
    """Return empty room for `cap` active atoms among `columns`."""
    wide = pad(columns)
    return Tableau(
        make_lines(cap, pad(cap)),
        make_lines(cap, wide, np.float32),
        make_lines(8, pad(cap)),
        make_lines(5, wide, np.float32),
        np.zeros(wide),
        np.zeros(cap, np.int64),
        np.zeros(4),
        np.zeros(3, np.int64),
        np.zeros(2 * cap),
    )


def make_lines(count: int, wide: int, dtype: type = np.float64) -> NDArray[Any]:
    """(count, wide) zeros, each line on whole lines of the cache."""
    size = np.dtype(dtype).itemsize
    room: NDArray[Any] = np.zeros(count * wide + CACHE_LINE // size, dtype)
    skip = -room.__array_interface__["data"][0] % CACHE_LINE // size
    return room[skip : skip + count * wide].reshape(count, wide)


def pad(columns: int) -> int:
    """Columns rounded up to whole lanes."""
    return -(-columns // LANES) * LANES


# ---------------------------------------------------------------- the inverse


@inner_kernel
def padded(k: int) -> int:
    """Compiled `pad`."""
    return (k + LANES - 1) // LANES * LANES


@inner_fast_kernel
def product(a: Vector, b: Vector, wide: int) -> float:
    """<a, b> over `wide` entries."""
    total = 0.0
    for i in range(wide):
        total += a[i] * b[i]
    return total


@inner_kernel
def multiply(rows: Vector, k: int, values: Vector, out: Vector) -> float:
    """Set out = rows values, for k rows and pad(k) values; returns |out|^2."""
    square = 0.0
    for i in range(k):
        out[i] = product(rows[i], values, padded(k))
        square += out[i] * out[i]
    return square


@lean_fast_kernel
def combine(rows: NDArray[Any], k: int, factors: NDArray[Any], out: NDArray[Any], wide: int) -> None:
    """Set out to the sum of k rows by their factors, many at a time; all of one type."""
    i = k % 4
    a, b, c = rows[0], rows[min(1, k)], rows[min(2, k)]
    fa, fb, fc = factors[0], factors[1], factors[2]
    if i == 0:
        for j in range(wide):
            out[j] = 0.0
    elif i == 1:
        for j in range(wide):
            out[j] = fa * a[j]
    elif i == 2:
        for j in range(wide):
            out[j] = fa * a[j] + fb * b[j]
    else:
        for j in range(wide):
            out[j] = fa * a[j] + fb * b[j] + fc * c[j]
    if (k - i) % 8 == 4:
        a, b, c, d = rows[i], rows[i + 1], rows[i + 2], rows[i + 3]
        fa, fb, fc, fd = factors[i], factors[i + 1], factors[i + 2], factors[i + 3]
        for j in range(wide):
            out[j] += (fa * a[j] + fb * b[j]) + (fc * c[j] + fd * d[j])
        i += 4
    while i < k:
        a, b, c, d = rows[i], rows[i + 1], rows[i + 2], rows[i + 3]
        e, f, g, h = rows[i + 4], rows[i + 5], rows[i + 6], rows[i + 7]
        fa, fb, fc, fd = factors[i], factors[i + 1], factors[i + 2], factors[i + 3]
        fe, ff, fg, fh = factors[i + 4], factors[i + 5], factors[i + 6], factors[i + 7]
        for j in range(wide):
            first = (fa * a[j] + fb * b[j]) + (fc * c[j] + fd * d[j])
            out[j] += first + ((fe * e[j] + ff * f[j]) + (fg * g[j] + fh * h[j]))
        i += 8


@inner_fast_kernel
def add_row(tab: Tableau, k: int, scale: float) -> None:
    """Set row k of the inverse, given what the others make of its row of L, and add it to L^-T u and v."""
    line, of_u, of_v = tab.inverse[k], tab.active[OF_U], tab.active[OF_V]
    for j in range(padded(k)):
        line[j] *= -scale
    line[k] = scale
    uk, vk = tab.active[U, k], tab.active[V, k]
    for j in range(padded(k + 1)):
        of_u[j] += uk * line[j]
        of_v[j] += vk * line[j]


# ---------------------------------------------------------------- rows


@lean_kernel
def lowest(values: NDArray[Any], count: int) -> Any:
    """Least of `count` numbers, a multiple of eight; eight chains, as a plain minimum is not vectorised."""
    r0 = r1 = r2 = r3 = r4 = r5 = r6 = r7 = values[0]
    for i in range(0, count, 8):
        part = values[i : i + 8]
        r0 = part[0] if part[0] < r0 else r0
        r1 = part[1] if part[1] < r1 else r1
        r2 = part[2] if part[2] < r2 else r2
        r3 = part[3] if part[3] < r3 else r3
        r4 = part[4] if part[4] < r4 else r4
        r5 = part[5] if part[5] < r5 else r5
        r6 = part[6] if part[6] < r6 else r6
        r7 = part[7] if part[7] < r7 else r7
    return min(r0, r1, r2, r3, r4, r5, r6, r7)


@lean_kernel
def find(values: NDArray[Any], wanted: Any, count: int) -> int:
    """First place of a number that is there; 0 if it is not."""
    for i in range(count):
        if values[i] == wanted:
            return i
    return 0


@inner_fast_kernel
def find_gain(tab: Tableau, top: Any, q: int) -> int:
    """The first column below `top` of largest gain; -1 if there is none.

    A float32 >= 0 orders as its bits do: one maximum of integers, bits above the place
    from the end, is vectorised and tells both.
    """
    along_u, along_v, pivot = tab.lines[ALONG_U], tab.lines[ALONG_V], tab.lines[PIVOT]
    linear, lam, one = tab.lines[LINEAR], np.float32(tab.numbers[LAM]), np.float32(1.0)
    best = 0
    for j in range(q):
        x = top - (along_u[j] + lam * along_v[j] - linear[j])
        x = x + abs(x)
        p = pivot[j]
        gain = np.float32(x * x / (p if p != 0.0 else one))
        best = max(best, int(np.int64(gain.view(np.int32)) << 32) | (q - j))
    return q - (best & 0xFFFFFFFF) if best >> 32 > 0 else -1


@lean_fast_kernel
def set_slopes(tab: Tableau, out: Singles, q: int) -> None:
    """Slope of f towards every column."""
    lines, lam = tab.lines, np.float32(tab.numbers[LAM])
    along_u, along_v, linear = lines[ALONG_U], lines[ALONG_V], lines[LINEAR]
    for j in range(q):
        out[j] = along_u[j] + lam * along_v[j] - linear[j]


@inner_fast_kernel
def add_along(tab: Tableau, singles: NDArray[Any], k: int, q: int, scale: float) -> None:
    """Set row k of Z, given what of its Gram row the others have, and add it to prices and pivots."""
    lines, line = tab.lines, tab.rest[k]
    along_u, along_v, pivot = lines[ALONG_U], lines[ALONG_V], lines[PIVOT]
    uk, vk = np.float32(tab.active[U, k]), np.float32(tab.active[V, k])
    lift, factor = np.float32(tab.numbers[ALPHA]), np.float32(scale)
    for j in range(q):
        z = (np.float32(singles[j]) + lift - line[j]) * factor
        line[j] = z
        along_u[j] += uk * z
        along_v[j] += vk * z
        pivot[j] -= z * z


@inner_fast_kernel
def rotate(out: NDArray[Any], line: NDArray[Any], carry: NDArray[Any], c: Any, s: Any) -> None:
    """Set out, carry = c line - s carry, c carry + s line."""
    for i in range(len(carry)):
        x, y = carry[i], line[i]
        out[i] = c * y - s * x
        carry[i] = c * x + s * y


@inner_fast_kernel
def rotate_twice(lines: tuple[Singles, Singles, Singles], carry: Singles, turns: Vector) -> None:
    """Rotate as twice `rotate`, of three lines one below the other: one sweep where memory is the cost.

    `turns` holds the cosine and sine of the first rotation, then of the second.
    """
    out, middle, last = lines
    c, s = np.float32(turns[0]), np.float32(turns[1])
    e, t = np.float32(turns[2]), np.float32(turns[3])
    for i in range(len(carry)):
        x, y, z = carry[i], middle[i], last[i]
        out[i] = c * y - s * x
        x = c * x + s * y
        middle[i] = e * z - t * x
        carry[i] = e * x + t * z


@inner_fast_kernel
def take_along(tab: Tableau, q: int, u: Any, v: Any) -> None:
    """Take what has left, the row in `spare`, out of the prices and pivots."""
    lines = tab.lines
    carry, along_u, along_v, pivot = lines[SPARE], lines[ALONG_U], lines[ALONG_V], lines[PIVOT]
    for j in range(q):
        z = carry[j]
        along_u[j] -= u * z
        along_v[j] -= v * z
        pivot[j] += z * z


@inner_fast_kernel
def model_value(tab: Tableau) -> float:
    """w'(G + alpha) w - 2 c'w at the minimum over the active atoms: it must fall at every step."""
    total, lam, u, v = 0.0, tab.numbers[LAM], tab.active[U], tab.active[V]
    for i in range(padded(tab.sizes[SIZE])):
        z = u[i] + lam * v[i]
        total += z * (z - 2.0 * u[i])
    return total


@inner_kernel
def choose_column(tab: Tableau, square: float, goal: float) -> int:
    """The column of largest gain by float32 prices; -1 where they see no gap, or f falls no more.

    Parameters
    ----------
    square
        |target|^2.
    goal
        Wanted gap.
    """
    q, now, lines = tab.sizes[COLUMNS], model_value(tab), tab.lines
    if not now < tab.numbers[LAST]:
        return -1
    tab.numbers[LAST] = now
    # At the minimum over the active atoms all of them have this slope.
    here = tab.numbers[LAM] - tab.numbers[ALPHA]
    b = find_gain(tab, np.float32(here), q)
    if b < 0:
        return -1
    gap = here - (lines[ALONG_U, b] + tab.numbers[LAM] * lines[ALONG_V, b] - lines[LINEAR, b])
    tab.numbers[GAIN] = gap
    excess = max(now - tab.numbers[ALPHA] + square, 0.0)
    if cut_gap(gap, excess) > CLOSE * goal:
        return b
    # The largest gain is not always where the slope is largest.
    set_slopes(tab, lines[SPARE], q)
    return b if cut_gap(max(here - lowest(lines[SPARE], q), 0.0), excess) > CLOSE * goal else -1
