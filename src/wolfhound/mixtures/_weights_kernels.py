"""One read of a likelihood matrix: the log-likelihood and the gradient of all components."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import numpy as np

from wolfhound.core import Ints, Matrix, Vector
from wolfhound.jit import fast_kernel

LEAST_MIXED = 1e-290
"""A mixture's likelihood below this is outside the domain: quotients would lose digits."""

ROWS = 128
"""Rows that stay in the nearest cache between their two uses."""


@fast_kernel
def read_block(L: Matrix, w: Vector, act: Ints, x: Vector, last: Vector, u: Vector, g: Vector) -> Vector:
    """Read rows once: u = L[:, act] x, g_k += sum_j w_j L_jk / u_j for every k.

    Returns (sum_j w_j log u_j, sum_j w_j / u_j, least u_j / last_j, rows outside the domain).
    `last` may be empty.
    """
    n, m = L.shape
    ka = len(act)
    q = np.zeros(ROWS + 4)
    part = np.zeros(m)
    value = 0.0
    mass = 0.0
    least = np.inf
    bad = 0.0
    for s in range(0, n, ROWS):
        r = min(ROWS, n - s)
        for j in range(r):
            R = L[s + j]
            t = 0.0
            for a in range(ka):
                t += np.float64(R[act[a]]) * x[a]
            if not LEAST_MIXED < t < np.inf:
                bad += 1.0
                t = 1.0
            u[s + j] = t
            if len(last):
                least = min(least, t / last[s + j])
            q[j] = w[s + j] / t
            value += w[s + j] * np.log(t)
            mass += q[j]
        part[:] = 0.0
        j = 0
        while j + 4 <= r:
            q0, q1, q2, q3 = q[j], q[j + 1], q[j + 2], q[j + 3]
            A, B, C, D = L[s + j], L[s + j + 1], L[s + j + 2], L[s + j + 3]
            for k in range(m):
                part[k] += (q0 * np.float64(A[k]) + q1 * np.float64(B[k])) + (
                    q2 * np.float64(C[k]) + q3 * np.float64(D[k])
                )
            j += 4
        while j < r:
            for k in range(m):
                part[k] += q[j] * np.float64(L[s + j, k])
            j += 1
        for k in range(m):
            g[k] += part[k]
    return np.array([value, mass, least, bad])
