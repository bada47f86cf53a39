"""Fast non-negative least squares (Bro and de Jong, 1997), compiled: the rival of nnls and of unmixing."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import numba
import numpy as np
from reference import Vector


@numba.njit(cache=True, error_model="numpy")
def fnnls(gram: Vector, cross: Vector, x: Vector, tol: float) -> None:  # noqa: C901 - one algorithm, as it is published
    """Put into x what minimises 1/2 x.gram x - cross.x over x >= 0.

    The passive set grows by the variable of steepest slope, if that is above `tol`, and is solved anew.
    """
    n = len(cross)
    passive = np.zeros(n, np.bool_)
    x[:] = 0.0
    for _ in range(3 * n):
        slope = cross - gram @ x
        best, place = tol, -1
        for j in range(n):
            if not passive[j] and slope[j] > best:
                best, place = slope[j], j
        if place < 0:
            return
        passive[place] = True
        while passive.any():
            held = np.flatnonzero(passive)
            small = np.empty((len(held), len(held)))
            for a in range(len(held)):
                for c in range(len(held)):
                    small[a, c] = gram[held[a], held[c]]
            s = np.linalg.solve(small, cross[held])
            if s.min() > 0.0:
                x[:] = 0.0
                x[held] = s
                break
            reach = 1.0
            for i in range(len(held)):
                if s[i] <= 0.0:
                    reach = min(reach, x[held[i]] / max(x[held[i]] - s[i], 1e-300))
            for i in range(len(held)):
                x[held[i]] += reach * (s[i] - x[held[i]])
                if s[i] <= 0.0 and x[held[i]] <= 1e-15:
                    x[held[i]] = 0.0
                    passive[held[i]] = False
