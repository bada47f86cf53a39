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
from wolfhound.jit import fast_kernel, kernel

Singles = NDArray[np.float32]

DEPENDENT = 1e-11
"""A pivot below this share of its diagonal: affinely dependent."""

LEAST_PIVOT = 1e-13
"""Share of its diagonal that a pivot is at least taken to have."""

VANISHING = 1e-12
"""Shares up to this do not limit an exchange: they are rounding."""

FAR = np.float32(-1e30)
"""Linear term, in prices, of an atom that must not join."""

LANES = 16
"""Columns come in multiples of this."""

ALPHA, LAM = 0, 1
SIZE, COLUMNS = 0, 1
U, V, WEIGHT, AIM = range(4)
ALONG_U, ALONG_V, PIVOT, LINEAR, LEAST, PRICE, SPARE, FREE = range(8)


class Tableau(NamedTuple):
    """Room for one target after the other; `cap` active atoms, `wide` columns.

    Few arrays, because a compiled call costs by the arrays that it is given.

    Attributes
    ----------
    factor, rest : (cap, cap) float64, (cap, wide) float32
        L and Z.
    active : (4, cap)
        Per active atom: u = L^-1 c, v = L^-1 1, the weight, and where it goes.
    lines : (8, wide) float32
        Per column: Z'u, Z'v, pivot, c + alpha, what is added to the pivot, two lines to
        work on, and -1 if it may join.
    exact : (wide,) float64
        c.
    at : (cap,) int64
        Columns of the active atoms.
    numbers : (2,)
        alpha and the multiplier lambda of sum w = 1.
    sizes : (2,) int64
        k and q.
    """

    factor: Vector
    rest: Singles
    active: Vector
    lines: Singles
    exact: Vector
    at: Ints
    numbers: Vector
    sizes: Ints


def make_tableau(cap: int, columns: int) -> Tableau:
    """Return empty room for `cap` active atoms among `columns`."""
    wide = pad(columns)
    return Tableau(
        np.zeros((cap, cap)),
        np.zeros((cap, wide), np.float32),
        np.zeros((4, cap)),
        np.zeros((8, wide), np.float32),
        np.zeros(wide),
        np.zeros(cap, np.int64),
        np.zeros(2),
        np.zeros(2, np.int64),
    )


def pad(columns: int) -> int:
    """Columns rounded up to whole lanes."""
    return -(-columns // LANES) * LANES


# ---------------------------------------------------------------- rows


@kernel
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
    return min(min(min(r0, r4), min(r1, r5)), min(min(r2, r6), min(r3, r7)))


@kernel
def find(values: NDArray[Any], wanted: Any, count: int) -> int:
    """First place of a number that is there; 0 if it is not."""
    for i in range(count):
        if values[i] == wanted:
            return i
    return 0


@fast_kernel
def set_prices(tab: Tableau, q: int) -> None:
    """Slope of f towards every column, up to the same constant for all."""
    along_u, along_v, linear, price = tab.lines[ALONG_U], tab.lines[ALONG_V], tab.lines[LINEAR], tab.lines[PRICE]
    lam = np.float32(tab.numbers[LAM])
    for j in range(q):
        price[j] = along_u[j] + lam * along_v[j] - linear[j]


@fast_kernel
def set_gains(tab: Tableau, top: Any, q: int) -> None:
    """Minus four times the gain of adding each column whose slope is below `top`."""
    price, pivot, least, free, spare = tab.lines[PRICE], tab.lines[PIVOT], tab.lines[LEAST], tab.lines[FREE], tab.lines[SPARE]
    for j in range(q):
        x = top - price[j]
        x = x + abs(x)
        spare[j] = x * x * free[j] / (pivot[j] + least[j])


@fast_kernel
def _subtract_rows(rest: Singles, factors: Vector, k: int, q: int) -> None:
    """Row k of Z less the first k rows by their factors, four at a time."""
    line = rest[k]
    i = 0
    while i + 4 <= k:
        a, b, c, d = rest[i], rest[i + 1], rest[i + 2], rest[i + 3]
        fa, fb = np.float32(factors[i]), np.float32(factors[i + 1])
        fc, fd = np.float32(factors[i + 2]), np.float32(factors[i + 3])
        for j in range(q):
            line[j] -= (fa * a[j] + fb * b[j]) + (fc * c[j] + fd * d[j])
        i += 4
    while i < k:
        a, fa = rest[i], np.float32(factors[i])
        for j in range(q):
            line[j] -= fa * a[j]
        i += 1


@fast_kernel
def _add_along(tab: Tableau, k: int, q: int, scale: Any) -> None:
    """Scale row k of Z, and add it to the prices and pivots."""
    line, along_u, along_v, pivot = tab.rest[k], tab.lines[ALONG_U], tab.lines[ALONG_V], tab.lines[PIVOT]
    uk, vk = np.float32(tab.active[U, k]), np.float32(tab.active[V, k])
    for j in range(q):
        z = line[j] * scale
        line[j] = z
        along_u[j] += uk * z
        along_v[j] += vk * z
        pivot[j] -= z * z


@fast_kernel
def _rotate(line: Singles, carry: Singles, c: Any, s: Any, out: Singles) -> None:
    """out, carry = c carry + s line, c line - s carry."""
    for i in range(len(line)):
        x, y = carry[i], line[i]
        out[i] = c * x + s * y
        carry[i] = c * y - s * x


@fast_kernel
def _take_along(tab: Tableau, q: int, u: Any, v: Any) -> None:
    """Take what has left, the row in `spare`, out of the prices and pivots."""
    carry, along_u, along_v, pivot = tab.lines[SPARE], tab.lines[ALONG_U], tab.lines[ALONG_V], tab.lines[PIVOT]
    for j in range(q):
        z = carry[j]
        along_u[j] -= u * z
        along_v[j] -= v * z
        pivot[j] += z * z


# ---------------------------------------------------------------- joining and leaving


@kernel
def clear(tab: Tableau, q: int, alpha: float) -> None:
    """Begin a target with no active atom; `exact`, `linear`, `least` and `pivot` are the caller's."""
    tab.sizes[SIZE], tab.sizes[COLUMNS] = 0, q
    tab.numbers[ALPHA], tab.numbers[LAM] = alpha, 0.0
    for j in range(q):
        tab.lines[ALONG_U, j] = tab.lines[ALONG_V, j] = np.float32(0.0)
        tab.lines[FREE, j] = np.float32(-1.0)


@fast_kernel
def _solve_row(tab: Tableau, b: int, gram: Vector) -> float:
    """Row k of L for column b, but for its diagonal; returns the pivot."""
    k, alpha, factor, at = tab.sizes[SIZE], tab.numbers[ALPHA], tab.factor, tab.at
    line = factor[k]
    pivot = gram[b] + alpha
    for i in range(k):
        z = gram[at[i]] + alpha
        other = factor[i]
        for j in range(i):
            z -= line[j] * other[j]
        z /= other[i]
        line[i] = z
        pivot -= z * z
    return pivot


@kernel
def join(tab: Tableau, b: int, gram: Vector, singles: NDArray[Any], pivot: float) -> None:
    """Add column b with weight 0, after `_solve_row`.

    Parameters
    ----------
    gram, singles : (q,)
        Its Gram row, and the same for prices.
    pivot
        Square of the diagonal entry.
    """
    k, q, alpha = tab.sizes[SIZE], tab.sizes[COLUMNS], tab.numbers[ALPHA]
    pivot = max(pivot, LEAST_PIVOT * (gram[b] + alpha))
    root = np.sqrt(pivot)
    line = tab.factor[k]
    u, v = tab.exact[b], 1.0
    for i in range(k):
        u -= line[i] * tab.active[U, i]
        v -= line[i] * tab.active[V, i]
    line[k], tab.active[U, k], tab.active[V, k] = root, u / root, v / root
    rest, lift = tab.rest[k], np.float32(alpha)
    for j in range(q):
        rest[j] = singles[j] + lift
    _subtract_rows(tab.rest, line, k, q)
    _add_along(tab, k, q, np.float32(1.0 / root))
    tab.at[k], tab.active[WEIGHT, k], tab.lines[FREE, b] = b, 0.0, np.float32(0.0)
    tab.sizes[SIZE] = k + 1


@kernel
def leave(tab: Tableau, where: int) -> None:
    """Drop an active atom: Givens rotations of L's columns, carried through u, v and Z."""
    k, q, factor, u, v = tab.sizes[SIZE], tab.sizes[COLUMNS], tab.factor, tab.active[U], tab.active[V]
    tab.lines[FREE, tab.at[where]] = np.float32(-1.0)
    for i in range(where, k - 1):
        tab.at[i], tab.active[WEIGHT, i] = tab.at[i + 1], tab.active[WEIGHT, i + 1]
        for j in range(i + 2):
            factor[i, j] = factor[i + 1, j]
    carry = tab.lines[SPARE, :q]
    carry[:] = tab.rest[where, :q]
    uc, vc = u[where], v[where]
    for j in range(where, k - 1):
        a, b = factor[j, j], factor[j, j + 1]
        r = np.sqrt(a * a + b * b)
        c, s = a / r, b / r
        for i in range(j, k - 1):
            x, y = factor[i, j], factor[i, j + 1]
            factor[i, j] = c * x + s * y
            factor[i, j + 1] = c * y - s * x
        _rotate(tab.rest[j + 1, :q], carry, np.float32(c), np.float32(s), tab.rest[j, :q])
        u[j], uc = c * uc + s * u[j + 1], c * u[j + 1] - s * uc
        v[j], vc = c * vc + s * v[j + 1], c * v[j + 1] - s * vc
    _take_along(tab, q, np.float32(uc), np.float32(vc))
    tab.sizes[SIZE] = k - 1


# ---------------------------------------------------------------- moving


@kernel
def _back_substitute(factor: Vector, k: int, values: Vector) -> None:
    """Solve L' x = values, in place."""
    for i in range(k - 1, -1, -1):
        line = factor[i]
        x = values[i] / line[i]
        values[i] = x
        for j in range(i):
            values[j] -= x * line[j]


@kernel
def take_aim(tab: Tableau) -> None:
    """Set `aim` to the minimiser on the affine hull of the active atoms, and lambda."""
    k, u, v, aim = tab.sizes[SIZE], tab.active[U], tab.active[V], tab.active[AIM]
    uv = vv = 0.0
    for i in range(k):
        uv += u[i] * v[i]
        vv += v[i] * v[i]
    lam = (1.0 - uv) / vv
    for i in range(k):
        aim[i] = u[i] + lam * v[i]
    _back_substitute(tab.factor, k, aim)
    tab.numbers[LAM] = lam


@kernel
def descend(tab: Tableau) -> bool:
    """Go to the minimum over the simplex of the active atoms; whether any weight moved."""
    moved = False
    while True:
        take_aim(tab)
        k, weights, aim = tab.sizes[SIZE], tab.active[WEIGHT], tab.active[AIM]
        step, where = 1.0, -1
        for i in range(k):
            if not aim[i] > 0.0:
                reach = weights[i] / (weights[i] - aim[i]) if weights[i] > 0.0 else 0.0
                if reach < step or where < 0:
                    step, where = reach, i
        if where < 0 or k == 1:
            for i in range(k):
                moved = moved or weights[i] != aim[i]
                weights[i] = aim[i] if k > 1 else 1.0
            return moved
        moved = moved or step > 0.0
        for i in range(k):
            weights[i] = max(0.0, weights[i] + step * (aim[i] - weights[i]))
        leave(tab, where)


@kernel
def model_value(tab: Tableau) -> float:
    """w'(G + alpha) w - 2 c'w at the minimum over the active atoms: it must fall at every step."""
    total, lam = 0.0, tab.numbers[LAM]
    for i in range(tab.sizes[SIZE]):
        z = tab.active[U, i] + lam * tab.active[V, i]
        total += z * (z - 2.0 * tab.active[U, i])
    return total


@kernel
def exchange(tab: Tableau, b: int, gram: Vector, singles: NDArray[Any], gain: float) -> bool:
    """Take in one column that depends on the active atoms; False if that gains nothing.

    f is nearly linear along the move that gives it weight and takes the same mixture
    away from the others. The move goes to the first weight that vanishes, whose atom
    leaves, or to the minimum if that comes first.

    Parameters
    ----------
    gram, singles : (q,)
        As in `join`.
    gain
        Slope of f from here towards the column, with its sign turned.
    """
    k, share, weights = tab.sizes[SIZE], tab.active[AIM], tab.active[WEIGHT]
    bend = _solve_row_spare(tab, b, gram)
    reach, where = np.inf, -1
    for i in range(k):
        if share[i] > VANISHING and weights[i] / share[i] < reach:
            reach, where = weights[i] / share[i], i
    lowest_at = gain / bend if bend > 0.0 else np.inf
    if not (gain > 0.0 and min(reach, lowest_at) < np.inf):
        return False
    full = tab.factor.shape[0] == k
    if lowest_at < reach and not full:
        reach, where = lowest_at, -1
    for i in range(k):
        weights[i] = max(0.0, weights[i] - reach * share[i])
    if where >= 0:
        leave(tab, where)
    join(tab, b, gram, singles, _solve_row(tab, b, gram))
    weights[tab.sizes[SIZE] - 1] = reach
    return True


@kernel
def _solve_row_spare(tab: Tableau, b: int, gram: Vector) -> float:
    """Shares of the active atoms in column b, in `aim`; returns what of it they leave, squared."""
    k, alpha, share, factor = tab.sizes[SIZE], tab.numbers[ALPHA], tab.active[AIM], tab.factor
    left = gram[b] + alpha
    for i in range(k):
        z = gram[tab.at[i]] + alpha
        line = factor[i]
        for j in range(i):
            z -= share[j] * line[j]
        z /= line[i]
        share[i] = z
        left -= z * z
    _back_substitute(factor, k, share)
    return left


@kernel
def step_to(tab: Tableau, b: int, gram: Vector, singles: NDArray[Any], gain: float) -> bool:
    """Let a column join, by exchange if it depends on the active atoms; whether a weight moved."""
    k = tab.sizes[SIZE]
    if k < tab.factor.shape[0]:
        pivot = _solve_row(tab, b, gram)
        if pivot > DEPENDENT * (gram[b] + tab.numbers[ALPHA]):
            join(tab, b, gram, singles, pivot)
            return descend(tab)
    if not exchange(tab, b, gram, singles, gain):
        return False
    descend(tab)
    return True
