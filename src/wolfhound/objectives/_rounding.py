"""Proved bounds on what float64 loses: norms rounded up, the length of a drift.

Assumed once, for all objectives: BLAS sums products in some order (no Strassen);
exp, log and log1p are within 4 units in the last place (8 `UNIT` relative).
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math

import numpy as np

from wolfhound.core import Matrix, Vector
from wolfhound.rounding import TINY, gamma, norm

SAFE = 1.01
"""Factor on an error bound that covers the rounding of the bound itself."""

_SMALLEST = 1e-250
"""Sums of squares above this lose nothing that matters to underflow."""

ELEMENTWISE = 32
"""More than the units that evaluating one loss, its slope and its mean can lose."""


def length(vector: Matrix) -> float:
    """Upper bound on the Euclidean (Frobenius) norm.

    Examples
    --------
    >>> 5.0 <= length(np.array([3.0, 4.0])) < 5.0 + 1e-14
    True
    """
    with np.errstate(over="ignore"):
        squares = float(np.vdot(vector, vector))
    if _SMALLEST < squares < math.inf:
        # Squares may underflow: each then loses less than TINY.
        return math.sqrt(squares + vector.size * TINY) * (1.0 + gamma(vector.size + 6))
    return norm(vector) * (1.0 + gamma(vector.size + 8)) + TINY


def drift_length(drift: Vector | float, d: int) -> float:
    """Upper bound on the norm of a drift that is bounded componentwise."""
    if isinstance(drift, np.ndarray):
        return length(np.broadcast_to(drift, (d,)).astype(np.float64))
    return float(drift) * math.sqrt(d) * (1.0 + gamma(4))
