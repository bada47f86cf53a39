"""What is proved of mixtures of few rows: values, and bounds for all atoms.

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

from typing import NamedTuple

import numpy as np

from wolfhound.core import Ints, Vector
from wolfhound.rounding import TINY, UNIT, gamma

SAFE = 1.01
"""Factor on an error bound that covers the rounding of the bound itself."""

R, X, RHO, AWAY, LOST, SQUARE = range(6)
"""Of (m, 6) sizes of points: |r| and |x| rounded up, sum w |a|, `away`, `lost`, the computed |r|^2."""


class Brackets(NamedTuple):
    """Per target ``lower <= min f``, ``f <= value``, and the part of their difference that is rounding."""

    value: Vector
    lower: Vector
    slack: Vector


def measure_points(
    x: Vector, r: Vector, rho: Vector, *, norms: Vector, support: Ints, shift: float
) -> Vector:
    """(m, 6) sizes of points x, mixtures of `support` rows each, whose residuals are r.

    `rho` is at least sum w |a|, `norms` at least the norm of every target; `shift` is the norm of what is
    added to x where the weights do not sum to 1 (0: x is of the sum's share).
    """
    m, d = x.shape
    out, up = np.zeros((m, 6)), 1.0 + gamma(d + 6)
    out[:, RHO] = rho
    out[:, SQUARE] = np.einsum("ij,ij->i", r, r)
    out[:, R] = np.sqrt(out[:, SQUARE] + d * TINY) * up
    out[:, X] = np.sqrt(np.einsum("ij,ij->i", x, x) + d * TINY) * up
    terms = 2 * support + 8
    out[:, AWAY] = SAFE * (terms * UNIT / (1.0 - terms * UNIT) * (rho + shift) + (support + 2) * d * TINY)
    out[:, LOST] = SAFE * (UNIT * (out[:, R] + 2.0 * norms) + out[:, AWAY])
    return out


def certify(sizes: Vector, d: int, inner: Vector, least: Vector, *, radius: float, error: Vector) -> Brackets:
    """Prove what a pricing shows.

    `inner` and `least` are the computed <r, x>, and the least computed <r, a> over all atoms; `radius` is at
    least every |a|, `error` (m,) that of `least` against the product of the computed r and rows.
    """
    value, lost, size = 0.5 * sizes[:, SQUARE], sizes[:, LOST], sizes[:, R]
    off = SAFE * (gamma(d + 4) * value + d * TINY + lost * (size + 0.5 * lost))
    far = np.maximum(radius, sizes[:, X]) * (1.0 + 8.0 * UNIT)
    rounding = 2.0 * lost * far + size * (sizes[:, AWAY] + 2.0 * UNIT * far)
    rounding += gamma(d + 2) * size * sizes[:, X] + error + (d + 2) * TINY
    rounding *= SAFE
    # Rounding of the difference: a unit of either part.
    with np.errstate(invalid="ignore"):  # where nothing is known of some atoms
        gap = inner - least + rounding + 4.0 * UNIT * (np.abs(inner) + np.abs(least))
    gap = np.where(np.isnan(gap), np.inf, np.maximum(gap, 0.0))
    excess = 2.0 * (value + off) * (1.0 + 4.0 * UNIT) + TINY
    # The largest possible decrease of a quadratic f with 2 (f - min f) <= excess; rounded up.
    inside = np.minimum(gap, excess)
    cut = np.where(gap >= excess, 0.5 * excess, inside * (1.0 - 0.5 * inside / excess) * (1.0 + 4.0 * UNIT))
    proved = value - off - cut - 4.0 * UNIT * value - TINY
    upper = (value + off) * (1.0 + 2.0 * UNIT)
    slack = 2.0 * (off + rounding) + 4.0 * UNIT * value
    return Brackets(upper, np.minimum(np.maximum(proved, 0.0), upper), slack)
