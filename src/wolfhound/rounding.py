"""How float64 rounds: units, and norms that neither over- nor underflow.

Knows numpy only.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math

import numpy as np

from wolfhound.core import Matrix

UNIT = 2.0**-53
"""Unit roundoff of float64."""

TINY = 2.0**-1022
"""More than the absolute error of an operation whose result underflows."""

LEAST = 2.0**-1074
"""Smallest positive float64: twice what one product can lose to underflow."""


def gamma(operations: int, unit: float = UNIT) -> float:
    """Relative error bound of a sum of products, ``c u / (1 - c u)``.

    Examples
    --------
    >>> gamma(100) < 1.2e-14
    True
    """
    return operations * unit / (1.0 - operations * unit)


def norm(vector: Matrix) -> float:
    """Euclidean norm, also where the squares overflow or underflow.

    Examples
    --------
    >>> f"{norm(np.array([3e200, 4e200])):g}", norm(np.zeros(0))
    ('5e+200', 0.0)
    """
    top = float(np.abs(vector).max(initial=0.0))
    if not 0.0 < top < math.inf:
        return top
    scaled = vector / top
    return top * math.sqrt(float(np.vdot(scaled, scaled)))
