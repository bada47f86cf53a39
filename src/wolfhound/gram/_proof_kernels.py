"""What is proved of a mixture of few rows: its value and a bound for all atoms.

Rows and targets are centred and scaled: each entry is that of the caller, less a fixed
vector, times a power of two, rounded once, so that its error is at most a unit of
itself. All bounds hold for sums in any order, fused or not.

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

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from wolfhound.core import Ints, Matrix, Vector
from wolfhound.jit import lean_fast_kernel, lean_kernel
from wolfhound.rounding import TINY, UNIT

SAFE = 1.01
"""Factor on an error bound that covers the rounding of the bound itself."""


class Bracket(NamedTuple):
    """What is known of a point: ``lower <= min f``, ``f <= value``.

    `slack` is the part of `value - lower` that is rounding.
    """

    value: float
    lower: float
    slack: float


class Residual(NamedTuple):
    """A point and its distance from the target, with errors.

    Attributes
    ----------
    x, r : (d,)
        The point, and the point less the target.
    sizes : (6,)
        |r| and |x| rounded up, sum w |a|, `away`, `lost`, the computed |r|^2.
    """

    x: Vector
    r: Vector
    sizes: Vector


R, X, RHO, AWAY, LOST, SQUARE = range(6)


def make_residual(d: int) -> Residual:
    """Return room for one point."""
    return Residual(np.zeros(d), np.zeros(d), np.zeros(6))


@lean_kernel
def gamma(operations: int) -> float:
    """Relative error bound of a sum of products."""
    return operations * UNIT / (1.0 - operations * UNIT)


@lean_fast_kernel
def dot(a: NDArray[Any], b: Vector) -> float:
    """<a, b> in float64, in whatever order."""
    total = 0.0
    for i in range(len(b)):
        total += np.float64(a[i]) * b[i]
    return total


@lean_kernel
def round_norm(square: float, d: int) -> float:
    """Root of a computed square of d entries, rounded up."""
    return float(np.sqrt(square + d * TINY) * (1.0 + gamma(d + 8)))


@lean_fast_kernel
def copy(out: NDArray[Any], values: Vector) -> None:
    """Set out = values, of whatever type it is."""
    for i in range(len(out)):
        out[i] = values[i]


@lean_fast_kernel
def add_scaled(out: Vector, weight: float, row: NDArray[Any]) -> None:
    """Add weight times row."""
    for i in range(len(out)):
        out[i] += weight * np.float64(row[i])


@lean_fast_kernel
def add_rows(out: Vector, rows: NDArray[Any], at: Ints, weights: Vector) -> None:
    """Add the rows at some places by their weights, four at a time."""
    i = 0
    while i + 4 <= len(at):
        a, b, c, d = rows[at[i]], rows[at[i + 1]], rows[at[i + 2]], rows[at[i + 3]]
        wa, wb, wc, wd = weights[i], weights[i + 1], weights[i + 2], weights[i + 3]
        for j in range(len(out)):
            out[j] += (wa * a[j] + wb * b[j]) + (wc * c[j] + wd * d[j])
        i += 4
    while i < len(at):
        add_scaled(out, weights[i], rows[at[i]])
        i += 1


@lean_fast_kernel
def subtract(out: Vector, a: Vector, b: Vector) -> None:
    """Set out = a - b."""
    for i in range(len(out)):
        out[i] = a[i] - b[i]


@lean_kernel
def normalise(weights: Vector, k: int) -> None:
    """Divide by the sum."""
    total = 0.0
    for i in range(k):
        total += weights[i]
    for i in range(k):
        weights[i] /= total


@lean_kernel
def mix(rows: Matrix, norms: Vector, at: Ints, weights: Vector, out: Residual) -> None:
    """Set the point of these weights, (k,) as `at`; `norms` are rounded up."""
    x, rho = out.x, 0.0
    for i in range(len(x)):
        x[i] = 0.0
    add_rows(x, rows, at, weights)
    for i in range(len(at)):
        rho += weights[i] * norms[at[i]]
    out.sizes[RHO] = rho * (1.0 + gamma(len(at) + 4))


@lean_kernel
def measure(out: Residual, target: Vector, target_norm: float, k: int, shift: float) -> None:
    """Set the residual and its errors, given the point.

    Parameters
    ----------
    target, target_norm
        The target, and its norm rounded up.
    k
        How many rows were mixed.
    shift
        Norm of what is added to x where the weights do not sum to 1; 0: x is of the sum's share.
    """
    d, sizes = len(out.x), out.sizes
    subtract(out.r, out.x, target)
    square = dot(out.r, out.r)
    up = 1.0 + gamma(d + 6)
    sizes[SQUARE] = square
    sizes[R] = np.sqrt(square + d * TINY) * up
    sizes[X] = np.sqrt(dot(out.x, out.x) + d * TINY) * up
    away = gamma(2 * k + 8) * (sizes[RHO] + shift) + (k + 2) * d * TINY
    sizes[AWAY] = SAFE * away
    sizes[LOST] = SAFE * (UNIT * (sizes[R] + 2.0 * target_norm) + sizes[AWAY])


@lean_kernel
def bound_value(sizes: Vector, d: int) -> tuple[float, float]:
    """Return the computed f, and at most how far the true f is from it."""
    value = 0.5 * sizes[SQUARE]
    lost, size = sizes[LOST], sizes[R]
    return value, SAFE * (gamma(d + 4) * value + d * TINY + lost * (size + 0.5 * lost))


@lean_kernel
def cut_gap(gap: float, excess: float) -> float:
    """Largest possible decrease of a quadratic f with 2 (f - min f) <= excess; rounded up."""
    if gap >= excess:
        return 0.5 * excess
    return gap * (1.0 - 0.5 * gap / excess) * (1.0 + 4.0 * UNIT)


@lean_kernel
def certify(sizes: Vector, d: int, inner: float, least: float, radius: float, error: float) -> Bracket:
    """Prove what a pricing shows.

    Parameters
    ----------
    sizes, d
        Of a `Residual`, and its dimension.
    inner
        The computed <r, x>.
    least
        Least computed <r, a> over all atoms.
    radius
        At least every |a|.
    error
        Of `least`, against the product of the computed r with the computed rows.
    """
    value, off = bound_value(sizes, d)
    far = max(radius, sizes[X]) * (1.0 + 8.0 * UNIT)
    rounding = 2.0 * sizes[LOST] * far + sizes[R] * (sizes[AWAY] + 2.0 * UNIT * far)
    rounding += gamma(d + 2) * sizes[R] * sizes[X] + error + (d + 2) * TINY
    rounding *= SAFE
    # Rounding of the difference: a unit of either part.
    gap = inner - least + rounding + 4.0 * UNIT * (abs(inner) + abs(least))
    excess = 2.0 * (value + off) * (1.0 + 4.0 * UNIT) + TINY
    proved = value - off - cut_gap(max(gap, 0.0), excess)
    proved = proved - 4.0 * UNIT * value - TINY
    upper = (value + off) * (1.0 + 2.0 * UNIT)
    slack = 2.0 * (off + rounding) + 4.0 * UNIT * value
    return Bracket(upper, min(max(proved, 0.0), upper), slack)
