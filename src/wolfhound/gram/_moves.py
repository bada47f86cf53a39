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
    FAR,
    GAIN,
    LAM,
    LANES,
    LAST,
    LINEAR,
    OF_U,
    OF_V,
    ROW,
    SIZE,
    SPAN,
    SPARE,
    STEPS,
    WEIGHT,
    Tableau,
    U,
    V,
)
from wolfhound.jit import inner_fast_kernel, inner_kernel, lean_kernel

DEPENDENT = 1e-11
"""A pivot below this share of its diagonal: affinely dependent."""

LEAST_PIVOT = 1e-13
"""Share of its diagonal that a pivot is at least taken to have."""

VANISHING = 1e-12
"""Shares up to this do not limit an exchange: they are rounding."""


# ---------------------------------------------------------------- joining and leaving


@lean_kernel
def clear(tab: Tableau, q: int, alpha: float) -> None:
    """Begin a target with no active atom; `exact`, `linear` and `pivot` are the caller's."""
    tab.sizes[SIZE], tab.sizes[COLUMNS], tab.sizes[STEPS] = 0, q, 0
    tab.numbers[ALPHA], tab.numbers[LAM], tab.numbers[LAST], tab.numbers[GAIN] = alpha, 0.0, np.inf, 0.0
    for j in range(q):
        tab.lines[ALONG_U, j] = tab.lines[ALONG_V, j] = np.float32(0.0)


@lean_kernel
def solve_row(tab: Tableau, b: int, gram: Vector) -> float:
    """Set the row of L for column b, but for its diagonal; returns the pivot."""
    k, alpha, at, span, row = tab.sizes[SIZE], tab.numbers[ALPHA], tab.at, tab.active[SPAN], tab.active[ROW]
    for i in range(k):
        span[i] = gram[at[i]] + alpha
    for i in range(k, table.padded(k)):
        span[i] = row[i] = 0.0
    pivot: float = gram[b] + alpha - table.multiply(tab.inverse, k, span, row)
    return pivot


@lean_kernel
def _open_lanes(tab: Tableau, k: int) -> None:
    """Set what the next active atoms will use to 0."""
    for line in (U, V, OF_U, OF_V, ROW):
        for j in range(k, k + LANES):
            tab.active[line, j] = 0.0
    for i in range(min(k + LANES, len(tab.inverse))):
        for j in range(k, k + LANES):
            tab.inverse[i, j] = 0.0


@inner_kernel
def join(tab: Tableau, b: int, gram: Vector, singles: NDArray[Any], pivot: float) -> None:
    """Add column b with weight 0, after `solve_row`.

    Parameters
    ----------
    gram, singles : (q,)
        Its Gram row, and the same for prices.
    pivot
        Square of the diagonal entry.
    """
    k, q, u, v, row = tab.sizes[SIZE], tab.sizes[COLUMNS], tab.active[U], tab.active[V], tab.active[ROW]
    scale = 1.0 / np.sqrt(max(pivot, LEAST_PIVOT * (gram[b] + tab.numbers[ALPHA])))
    wide, factors = table.padded(k), tab.lines[SPARE]
    if wide == k:
        _open_lanes(tab, k)
    u[k] = scale * (tab.exact[b] - table.product(row, u, wide))
    v[k] = scale * (1.0 - table.product(row, v, wide))
    for i in range(k):
        factors[i] = np.float32(row[i])
    table.combine(tab.rest, k, factors, tab.rest[k], q)
    table.add_along(tab, singles, k, q, scale)
    table.combine(tab.inverse, k, row, tab.inverse[k], wide)
    table.add_row(tab, k, scale)
    tab.at[k], tab.active[WEIGHT, k], tab.lines[LINEAR, b] = b, 0.0, FAR
    tab.sizes[SIZE], tab.sizes[STEPS] = k + 1, tab.sizes[STEPS] + 1


@lean_kernel
def leave(tab: Tableau, where: int) -> None:
    """Drop an active atom: rotations of rows, after which all but the last row are without it."""
    k, q, inverse, u, v = tab.sizes[SIZE], tab.sizes[COLUMNS], tab.inverse, tab.active[U], tab.active[V]
    b, turns, wide = tab.at[where], tab.turns, table.padded(k)
    tab.lines[LINEAR, b] = np.float32(tab.exact[b] + tab.numbers[ALPHA])
    carry = tab.active[SPAN, :wide]
    for j in range(wide):
        carry[j] = inverse[where, j]
    size, uc, vc = carry[where], u[where], v[where]
    for i in range(where, k - 1):
        tab.at[i], tab.active[WEIGHT, i] = tab.at[i + 1], tab.active[WEIGHT, i + 1]
        below = inverse[i + 1, where]
        root = np.sqrt(size * size + below * below)
        c, s = size / root, below / root
        size = root
        table.rotate(inverse[i], inverse[i + 1], carry, c, s)
        _close(inverse[i], where, i + 1)
        u[i], uc = c * u[i + 1] - s * uc, c * uc + s * u[i + 1]
        v[i], vc = c * v[i + 1] - s * vc, c * vc + s * v[i + 1]
        turns[2 * i], turns[2 * i + 1] = c, s
    u[k - 1] = v[k - 1] = 0.0
    for line, share in ((OF_U, uc), (OF_V, vc)):
        of = tab.active[line]
        for j in range(wide):
            of[j] -= share * carry[j]
        _close(of, where, k - 1)
    _rotate_rows(tab, where, k, q)
    table.take_along(tab, q, np.float32(uc), np.float32(vc))
    tab.sizes[SIZE] = k - 1


@inner_kernel
def _close(line: Vector, where: int, last: int) -> None:
    """Move what follows a place up to the last one down by one; the last becomes 0."""
    for j in range(where, last):
        line[j] = line[j + 1]
    line[last] = 0.0


@inner_kernel
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


@inner_fast_kernel
def take_aim(tab: Tableau) -> None:
    """Set `aim` to the minimiser on the affine hull of the active atoms, and lambda."""
    u, v, aim, of_u, of_v = tab.active[U], tab.active[V], tab.active[AIM], tab.active[OF_U], tab.active[OF_V]
    wide = table.padded(tab.sizes[SIZE])
    lam = (1.0 - table.product(u, v, wide)) / table.product(v, v, wide)
    for j in range(wide):
        aim[j] = of_u[j] + lam * of_v[j]
    tab.numbers[LAM] = lam


@inner_kernel
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
def settle(tab: Tableau) -> None:
    """Go to the minimum over the simplex of the active atoms again, without the rounding of many steps."""
    k = tab.sizes[SIZE]
    table.combine(tab.inverse, k, tab.active[U], tab.active[OF_U], table.padded(k))
    table.combine(tab.inverse, k, tab.active[V], tab.active[OF_V], table.padded(k))
    descend(tab)


@lean_kernel
def exchange(tab: Tableau, gain: float, bend: float) -> tuple[float, int]:
    """Make way for a column that depends on the active atoms, after `solve_row`.

    f is nearly linear along the move that gives it weight and takes the same mixture
    away from the others. The move goes to the first weight that vanishes, whose atom is
    to leave, or to the minimum if that comes first.

    Parameters
    ----------
    gain
        Slope of f from here towards the column, with its sign turned.
    bend
        The pivot: the square of what the active atoms leave of the column.

    Returns
    -------
    reach, where
        The weight of the column, -1 if it gains nothing; which atom is to leave, -1 if none.
    """
    k, share, weights = tab.sizes[SIZE], tab.active[AIM], tab.active[WEIGHT]
    table.combine(tab.inverse, k, tab.active[ROW], share, table.padded(k))
    reach, where = np.inf, -1
    for i in range(k):
        if share[i] > VANISHING and weights[i] / share[i] < reach:
            reach, where = weights[i] / share[i], i
    lowest_at = gain / bend if bend > 0.0 else np.inf
    if not (gain > 0.0 and min(reach, lowest_at) < np.inf):
        return -1.0, -1
    full = len(tab.at) == k
    if lowest_at < reach and not full:
        reach, where = lowest_at, -1
    for i in range(k):
        weights[i] = max(0.0, weights[i] - reach * share[i])
    return reach, where


@lean_kernel
def step_to(tab: Tableau, b: int, gram: Vector, singles: NDArray[Any], gain: float) -> bool:
    """Let a column join, by exchange if it depends on the active atoms; whether a weight moved."""
    if tab.lines[LINEAR, b] == FAR:  # it is active: its slope is rounding
        return False
    pivot, weight = solve_row(tab, b, gram), 0.0
    fits = tab.sizes[SIZE] < len(tab.at) and pivot > DEPENDENT * (gram[b] + tab.numbers[ALPHA])
    if not fits:
        weight, where = exchange(tab, gain, pivot)
        if weight < 0.0:
            return False
        if where >= 0:
            leave(tab, where)
            pivot = solve_row(tab, b, gram)
    join(tab, b, gram, singles, pivot)
    tab.active[WEIGHT, tab.sizes[SIZE] - 1] = weight
    return descend(tab) or not fits
