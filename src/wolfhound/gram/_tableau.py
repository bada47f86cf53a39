"""The compiled active set: least 1/2 w'Gw - c'w over the simplex, on Gram rows.

Wolfe's algorithm on L = chol(G_PP + alpha 11') of the active atoms P, with u = L^-1 c
and v = L^-1 1 carried, in float64. Beside it Z = L^-1 (G_P. + alpha) is carried for
all atoms, so that prices and pivots of all of them cost O(n) per step, and the atom
of largest gain, violation^2 / pivot, joins (steepest edge). Z, prices and pivots are
float32: they choose, and prove nothing. Adding alpha to all of G changes nothing, as
the weights sum to 1. Positions are columns of Z; sizes: k active, q columns.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from wolfhound.core import Ints, Vector
from wolfhound.gram._proof_kernels import cut_gap
from wolfhound.jit import lean_fast_kernel, lean_kernel

Singles = NDArray[np.float32]

CLOSE = 0.7
"""Share of the goal at which float32 prices are left."""

FAR = np.float32(-1e30)
"""Linear term, in prices, of an atom that must not join."""

LANES = 16
"""Columns come in multiples of this."""

CACHE_LINE = 64
"""Bytes."""

ALPHA, LAM, LAST, GAIN = range(4)
SIZE, COLUMNS, STEPS = range(3)
U, V, WEIGHT, AIM, INVERSE = range(5)
ALONG_U, ALONG_V, PIVOT, LINEAR, LEAST, PRICE, SPARE, FREE = range(8)


class Tableau(NamedTuple):
    """Room for one target after the other; `cap` active atoms, `wide` columns.

    Few arrays, because a compiled call costs by the arrays that it is given.

    Attributes
    ----------
    factor, rest : (cap, cap) float64, (cap, wide) float32
        L and Z.
    active : (5, cap)
        Per active atom: u = L^-1 c, v = L^-1 1, the weight, where it goes, and 1 / L's diagonal.
    lines : (8, wide) float32
        Per column: Z'u, Z'v, pivot, c + alpha, what is added to the pivot, two lines to
        work on, and -1 if it may join.
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

    factor: Vector
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
        np.zeros((cap, cap)),
        make_lines(cap, wide, np.float32),
        np.zeros((5, cap)),
        make_lines(8, wide, np.float32),
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


@lean_fast_kernel
def set_gains(tab: Tableau, top: Any, q: int) -> None:
    """Slope of f towards every column, and minus four times the gain of adding those below `top`."""
    lines = tab.lines
    along_u, along_v, linear, price = lines[ALONG_U], lines[ALONG_V], lines[LINEAR], lines[PRICE]
    pivot, least, free, spare = lines[PIVOT], lines[LEAST], lines[FREE], lines[SPARE]
    lam = np.float32(tab.numbers[LAM])
    for j in range(q):
        slope = along_u[j] + lam * along_v[j] - linear[j]
        price[j] = slope
        x = top - slope
        x = x + abs(x)
        spare[j] = x * x * free[j] / (pivot[j] + least[j])


@lean_fast_kernel
def subtract_rows(rest: Singles, factors: Vector, k: int, q: int) -> None:
    """Row k of Z less the first k rows by their factors, many at a time."""
    line = rest[k]
    i = 0
    while i + 8 <= k:
        a, b, c, d = rest[i], rest[i + 1], rest[i + 2], rest[i + 3]
        e, f, g, h = rest[i + 4], rest[i + 5], rest[i + 6], rest[i + 7]
        fa, fb = np.float32(factors[i]), np.float32(factors[i + 1])
        fc, fd = np.float32(factors[i + 2]), np.float32(factors[i + 3])
        fe, ff = np.float32(factors[i + 4]), np.float32(factors[i + 5])
        fg, fh = np.float32(factors[i + 6]), np.float32(factors[i + 7])
        for j in range(q):
            first = (fa * a[j] + fb * b[j]) + (fc * c[j] + fd * d[j])
            line[j] -= first + ((fe * e[j] + ff * f[j]) + (fg * g[j] + fh * h[j]))
        i += 8
    if i + 4 <= k:
        a, b, c, d = rest[i], rest[i + 1], rest[i + 2], rest[i + 3]
        fa, fb = np.float32(factors[i]), np.float32(factors[i + 1])
        fc, fd = np.float32(factors[i + 2]), np.float32(factors[i + 3])
        for j in range(q):
            line[j] -= (fa * a[j] + fb * b[j]) + (fc * c[j] + fd * d[j])
        i += 4
    if i + 2 <= k:
        a, b, fa, fb = rest[i], rest[i + 1], np.float32(factors[i]), np.float32(factors[i + 1])
        for j in range(q):
            line[j] -= fa * a[j] + fb * b[j]
        i += 2
    if i < k:
        a, fa = rest[i], np.float32(factors[i])
        for j in range(q):
            line[j] -= fa * a[j]


@lean_fast_kernel
def add_along(tab: Tableau, k: int, q: int, scale: Any) -> None:
    """Scale row k of Z, and add it to the prices and pivots."""
    lines, line = tab.lines, tab.rest[k]
    along_u, along_v, pivot = lines[ALONG_U], lines[ALONG_V], lines[PIVOT]
    uk, vk = np.float32(tab.active[U, k]), np.float32(tab.active[V, k])
    for j in range(q):
        z = line[j] * scale
        line[j] = z
        along_u[j] += uk * z
        along_v[j] += vk * z
        pivot[j] -= z * z


@lean_fast_kernel
def rotate(out: Singles, line: Singles, carry: Singles, c: Any, s: Any) -> None:
    """Set out, carry = c carry + s line, c line - s carry."""
    for i in range(len(carry)):
        x, y = carry[i], line[i]
        out[i] = c * x + s * y
        carry[i] = c * y - s * x


@lean_fast_kernel
def rotate_twice(lines: tuple[Singles, Singles, Singles], carry: Singles, turns: Vector) -> None:
    """Rotate as twice `rotate`, of three lines one below the other: one sweep where memory is the cost.

    `turns` holds the cosine and sine of the first rotation, then of the second.
    """
    out, middle, last = lines
    c, s = np.float32(turns[0]), np.float32(turns[1])
    e, t = np.float32(turns[2]), np.float32(turns[3])
    for i in range(len(carry)):
        x, y, z = carry[i], middle[i], last[i]
        out[i] = c * x + s * y
        y = c * y - s * x
        middle[i] = e * y + t * z
        carry[i] = e * z - t * y


@lean_fast_kernel
def take_along(tab: Tableau, q: int, u: Any, v: Any) -> None:
    """Take what has left, the row in `spare`, out of the prices and pivots."""
    lines = tab.lines
    carry, along_u, along_v, pivot = lines[SPARE], lines[ALONG_U], lines[ALONG_V], lines[PIVOT]
    for j in range(q):
        z = carry[j]
        along_u[j] -= u * z
        along_v[j] -= v * z
        pivot[j] += z * z


@lean_kernel
def model_value(tab: Tableau) -> float:
    """w'(G + alpha) w - 2 c'w at the minimum over the active atoms: it must fall at every step."""
    total, lam = 0.0, tab.numbers[LAM]
    for i in range(tab.sizes[SIZE]):
        z = tab.active[U, i] + lam * tab.active[V, i]
        total += z * (z - 2.0 * tab.active[U, i])
    return total


@lean_kernel
def choose_column(tab: Tableau, square: float, goal: float) -> int:
    """The column of largest gain by float32 prices; -1 where they see no gap, or f falls no more.

    Parameters
    ----------
    square
        |target|^2.
    goal
        Wanted gap.
    """
    q, now = tab.sizes[COLUMNS], model_value(tab)
    if not now < tab.numbers[LAST]:
        return -1
    tab.numbers[LAST] = now
    # At the minimum over the active atoms all of them have this slope.
    here = tab.numbers[LAM] - tab.numbers[ALPHA]
    set_gains(tab, np.float32(here), q)
    score = lowest(tab.lines[SPARE], q)
    if not score < 0.0:
        return -1
    b = find(tab.lines[SPARE], score, q)
    gap = here - tab.lines[PRICE, b]
    tab.numbers[GAIN] = gap
    excess = max(now - tab.numbers[ALPHA] + square, 0.0)
    if cut_gap(gap, excess) > CLOSE * goal:
        return b
    # The largest gain is not always where the slope is largest.
    return b if cut_gap(max(here - lowest(tab.lines[PRICE], q), 0.0), excess) > CLOSE * goal else -1
