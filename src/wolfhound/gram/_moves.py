"""Moves of the compiled active set: atoms join, leave and change places."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from wolfhound.core import Vector
from wolfhound.gram import _tableau as table
from wolfhound.gram._tableau import (
    AIM,
    ALONG_U,
    ALONG_V,
    ALPHA,
    COLUMNS,
    FREE,
    GAIN,
    INVERSE,
    LAM,
    LAST,
    SIZE,
    SPARE,
    STEPS,
    WEIGHT,
    Tableau,
    U,
    V,
)
from wolfhound.jit import lean_fast_kernel, lean_kernel

DEPENDENT = 1e-11
"""A pivot below this share of its diagonal: affinely dependent."""

LEAST_PIVOT = 1e-13
"""Share of its diagonal that a pivot is at least taken to have."""

VANISHING = 1e-12
"""Shares up to this do not limit an exchange: they are rounding."""


# ---------------------------------------------------------------- joining and leaving


@lean_kernel
def clear(tab: Tableau, q: int, alpha: float) -> None:
    """Begin a target with no active atom; `exact`, `linear`, `least` and `pivot` are the caller's."""
    tab.sizes[SIZE], tab.sizes[COLUMNS], tab.sizes[STEPS] = 0, q, 0
    tab.numbers[ALPHA], tab.numbers[LAM], tab.numbers[LAST], tab.numbers[GAIN] = alpha, 0.0, np.inf, 0.0
    for j in range(q):
        tab.lines[ALONG_U, j] = tab.lines[ALONG_V, j] = np.float32(0.0)
        tab.lines[FREE, j] = np.float32(-1.0)


@lean_fast_kernel
def solve_row(tab: Tableau, b: int, gram: Vector) -> float:
    """Row k of L for column b, but for its diagonal; returns the pivot."""
    k, alpha, factor, at = tab.sizes[SIZE], tab.numbers[ALPHA], tab.factor, tab.at
    line, inverse = factor[k], tab.active[INVERSE]
    pivot: float = gram[b] + alpha
    for i in range(k):
        z = gram[at[i]] + alpha
        other = factor[i]
        for j in range(i):
            z -= line[j] * other[j]
        z *= inverse[i]
        line[i] = z
        pivot -= z * z
    return pivot


@lean_kernel
def join(tab: Tableau, b: int, gram: Vector, singles: NDArray[Any], pivot: float) -> None:
    """Add column b with weight 0, after `solve_row`.

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
    inverse = 1.0 / root
    line[k], tab.active[INVERSE, k] = root, inverse
    tab.active[U, k], tab.active[V, k] = u * inverse, v * inverse
    rest, lift = tab.rest[k], np.float32(alpha)
    for j in range(q):
        rest[j] = singles[j] + lift
    table.subtract_rows(tab.rest, line, k, q)
    table.add_along(tab, k, q, np.float32(inverse))
    tab.at[k], tab.active[WEIGHT, k], tab.lines[FREE, b] = b, 0.0, np.float32(0.0)
    tab.sizes[SIZE], tab.sizes[STEPS] = k + 1, tab.sizes[STEPS] + 1


@lean_kernel
def leave(tab: Tableau, where: int) -> None:
    """Drop an active atom: Givens rotations of L's columns, carried through u, v and Z."""
    k, q, factor, u, v = tab.sizes[SIZE], tab.sizes[COLUMNS], tab.factor, tab.active[U], tab.active[V]
    tab.lines[FREE, tab.at[where]] = np.float32(-1.0)
    for i in range(where, k - 1):
        tab.at[i], tab.active[WEIGHT, i] = tab.at[i + 1], tab.active[WEIGHT, i + 1]
        for j in range(i + 2):
            factor[i, j] = factor[i + 1, j]
    uc, vc = u[where], v[where]
    turns = tab.turns
    for j in range(where, k - 1):
        a, b = factor[j, j], factor[j, j + 1]
        inverse = 1.0 / np.sqrt(a * a + b * b)
        c, s = a * inverse, b * inverse
        tab.active[INVERSE, j] = inverse
        for i in range(j, k - 1):
            x, y = factor[i, j], factor[i, j + 1]
            factor[i, j] = c * x + s * y
            factor[i, j + 1] = c * y - s * x
        u[j], uc = c * uc + s * u[j + 1], c * u[j + 1] - s * uc
        v[j], vc = c * vc + s * v[j + 1], c * v[j + 1] - s * vc
        turns[2 * j], turns[2 * j + 1] = c, s
    _rotate_rows(tab, where, k, q)
    table.take_along(tab, q, np.float32(uc), np.float32(vc))
    tab.sizes[SIZE] = k - 1


@lean_kernel
def _rotate_rows(tab: Tableau, where: int, k: int, q: int) -> None:
    """Carry the row that leaves through the rows of Z below it, by the turns of `leave`."""
    carry, rest, turns = tab.lines[SPARE, :q], tab.rest, tab.turns
    first = rest[where]
    for i in range(q):
        carry[i] = first[i]
    j = where
    while j + 2 < k:
        table.rotate_twice((rest[j], rest[j + 1], rest[j + 2]), carry, turns[2 * j : 2 * j + 4])
        j += 2
    if j + 1 < k:
        c, s = np.float32(turns[2 * j]), np.float32(turns[2 * j + 1])
        table.rotate(rest[j], rest[j + 1], carry, c, s)


# ---------------------------------------------------------------- moving


@lean_kernel
def _back_substitute(factor: Vector, inverse: Vector, k: int, values: Vector) -> None:
    """Solve L' x = values, in place, two unknowns at a time."""
    i = k - 1
    while i > 0:
        line, above = factor[i], factor[i - 1]
        x = values[i] * inverse[i]
        y = (values[i - 1] - x * line[i - 1]) * inverse[i - 1]
        values[i], values[i - 1] = x, y
        for j in range(i - 1):
            values[j] -= x * line[j] + y * above[j]
        i -= 2
    if i == 0:
        values[0] *= inverse[0]


@lean_kernel
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
    _back_substitute(tab.factor, tab.active[INVERSE], k, aim)
    tab.numbers[LAM] = lam


@lean_kernel
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


@lean_kernel
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
    bend = _set_shares(tab, b, gram)
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
    join(tab, b, gram, singles, solve_row(tab, b, gram))
    weights[tab.sizes[SIZE] - 1] = reach
    return True


@lean_kernel
def _set_shares(tab: Tableau, b: int, gram: Vector) -> float:
    """Shares of the active atoms in column b, in `aim`; returns what of it they leave, squared."""
    k, alpha, share, factor = tab.sizes[SIZE], tab.numbers[ALPHA], tab.active[AIM], tab.factor
    left: float = gram[b] + alpha
    for i in range(k):
        z = gram[tab.at[i]] + alpha
        line = factor[i]
        for j in range(i):
            z -= share[j] * line[j]
        z *= tab.active[INVERSE, i]
        share[i] = z
        left -= z * z
    _back_substitute(factor, tab.active[INVERSE], k, share)
    return left


@lean_kernel
def step_to(tab: Tableau, b: int, gram: Vector, singles: NDArray[Any], gain: float) -> bool:
    """Let a column join, by exchange if it depends on the active atoms; whether a weight moved."""
    if tab.lines[FREE, b] == 0.0:  # it is active: its slope is rounding
        return False
    k = tab.sizes[SIZE]
    if k < tab.factor.shape[0]:
        pivot = solve_row(tab, b, gram)
        if pivot > DEPENDENT * (gram[b] + tab.numbers[ALPHA]):
            join(tab, b, gram, singles, pivot)
            return descend(tab)
    if not exchange(tab, b, gram, singles, gain):
        return False
    descend(tab)
    return True
