"""Compiled: few rows and one target are brought into units of their own, where they lie."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math

from wolfhound.core import Vector
from wolfhound.gram._proof_kernels import dot, round_norm
from wolfhound.jit import lean_kernel


@lean_kernel
def _move(row: Vector, centre: Vector) -> None:
    for j in range(len(row)):
        row[j] -= centre[j]


@lean_kernel
def _scale(rows: Vector, scale: float) -> None:
    for i in range(len(rows)):
        row = rows[i]
        for j in range(len(row)):
            row[j] *= scale


@lean_kernel
def _largest(row: Vector) -> float:
    """The largest entry in size, inf if one is nan."""
    top = 0.0
    for entry in row:
        if not abs(entry) < math.inf:
            return math.inf
        top = max(top, abs(entry))
    return top


@lean_kernel
def _measure(rows: Vector, sizes: Vector) -> float:
    """The largest entry in size; nan is passed over. First of every column, as vector registers can."""
    for j in range(len(sizes)):
        sizes[j] = 0.0
    for i in range(len(rows)):
        row = rows[i]
        for j in range(len(row)):
            sizes[j] = max(sizes[j], abs(row[j]))
    return _largest(sizes)


@lean_kernel
def meet(rows: Vector, squares: Vector, target: Vector, cross: Vector) -> tuple[float, int]:
    """Set the products of a target with all rows; return its norm, rounded up, and the nearest row."""
    nearest = 0
    for i in range(len(rows)):
        cross[i] = dot(rows[i], target)
        if 0.5 * squares[i] - cross[i] < 0.5 * squares[nearest] - cross[nearest]:
            nearest = i
    return round_norm(dot(target, target), len(target)), nearest


@lean_kernel
def convert(rows: Vector, target: Vector, centre: Vector, sizes: Vector, lowest: int) -> tuple[float, int]:
    """Bring rows and a target into the units of a centre, as `choose_units` does.

    Parameters
    ----------
    rows, target : (n, d), (d,)
        They are written.
    centre : (d,)
        The mean of the rows: it is finite only if all of them are.
    sizes : (d,)
        To work on.
    lowest
        Least power of two that is 1.

    Returns
    -------
    size, exponent
        The largest entry in size before, inf if one is nan; the power of two that is 1.
    """
    size = max(_measure(rows, sizes), _largest(target))
    if not max(size, _largest(centre)) < math.inf:
        return math.inf, 0
    for i in range(len(rows)):
        _move(rows[i], centre)
    _move(target, centre)
    top = _measure(rows, sizes)
    exponent = max(math.frexp(top)[1], lowest) if top > 0.0 else 0
    scale = math.ldexp(1.0, -exponent)
    _scale(rows, scale)
    for j in range(len(target)):
        target[j] *= scale
    return size, exponent
