"""Compiled steps on a lower Cholesky factor that grows and shrinks.

Kernels on plain arrays: `factor` (c, c) holds L in its first k rows, ``u =
L^-1 b`` and ``v = L^-1 1``, the rows of `carried` (2, c), are carried along, so
that a step to the minimum over the affine hull of the held atoms is one
back-substitution.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import numpy as np

from wolfhound.core import Ints, Vector
from wolfhound.jit import fast_kernel, kernel

PANEL = 64
ZERO = 1e-14
"""Weights up to this are zero: the atom leaves."""

LEAST = 1e-13
"""Pivots are raised to this share of the diagonal."""


@fast_kernel
def back_substitute(factor: Vector, k: int, x: Vector) -> None:
    """Solve L'x = b in place, four rows of L at a time (they are read once)."""
    i = k - 1
    while i >= 3:
        r0, r1, r2, r3 = factor[i], factor[i - 1], factor[i - 2], factor[i - 3]
        a = x[i] / r0[i]
        b = (x[i - 1] - r0[i - 1] * a) / r1[i - 1]
        c = (x[i - 2] - r0[i - 2] * a - r1[i - 2] * b) / r2[i - 2]
        e = (x[i - 3] - r0[i - 3] * a - r1[i - 3] * b - r2[i - 3] * c) / r3[i - 3]
        x[i], x[i - 1], x[i - 2], x[i - 3] = a, b, c, e
        for j in range(i - 3):
            x[j] -= r0[j] * a + r1[j] * b + r2[j] * c + r3[j] * e
        i -= 4
    while i >= 0:
        x[i] /= factor[i, i]
        for j in range(i):
            x[j] -= factor[i, j] * x[i]
        i -= 1


@fast_kernel
def forward_substitute(factor: Vector, k: int, x: Vector) -> None:
    """Solve L x = b in place."""
    for i in range(k):
        s = 0.0
        for j in range(i):
            s += factor[i, j] * x[j]
        x[i] = (x[i] - s) / factor[i, i]


def forward_rows(factor: Vector, k: int, rows: Vector) -> None:
    """Replace each row r of (B, k) `rows` by L^-1 r, in panels that fit a cache."""
    for first in range(0, k, PANEL):
        last = min(k, first + PANEL)
        _forward_panel(factor, first, last, rows)
        if last < k:
            rows[:, last:k] -= rows[:, first:last] @ factor[last:k, first:last].T


@fast_kernel
def _forward_panel(factor: Vector, first: int, last: int, rows: Vector) -> None:
    count = rows.shape[0]
    panel = np.empty((last - first, count))
    for i in range(last - first):
        z = panel[i]
        for r in range(count):
            z[r] = rows[r, first + i]
        for j in range(i):
            a = factor[first + i, first + j]
            y = panel[j]
            for r in range(count):
                z[r] -= a * y[r]
        pivot = factor[first + i, first + i]
        for r in range(count):
            z[r] /= pivot
            rows[r, first + i] = z[r]


@kernel
def absorb(
    factor: Vector, carried: Vector, rows: Vector, schur: Vector, diagonal: Vector, linear: Vector, tol: float
) -> Ints:
    """Append atoms to the factor, skipping those dependent on the ones before.

    `rows` (B, k) is L^-1 of their Gram columns, `schur` (B, B) the Gram matrix
    less rows rows', `linear` (B,) their entries of b. Returns the block positions
    that were appended.
    """
    size, k = rows.shape
    u, v = carried[0], carried[1]
    count = 0
    kept, line = np.empty(size, np.int64), np.empty(size)
    for i in range(size):
        pivot = schur[i, i]
        for a in range(count):
            s = schur[i, kept[a]]
            for e in range(a):
                s -= factor[k + a, k + e] * line[e]
            line[a] = s / factor[k + a, k + a]
            pivot -= line[a] * line[a]
        if not pivot > tol * diagonal[i]:
            continue
        row = factor[k + count]
        root = np.sqrt(max(pivot, LEAST * diagonal[i]))
        ru = linear[i]
        rv = 1.0
        for j in range(k):
            row[j] = rows[i, j]
            ru -= row[j] * u[j]
            rv -= row[j] * v[j]
        for a in range(count):
            row[k + a] = line[a]
            ru -= line[a] * u[k + a]
            rv -= line[a] * v[k + a]
        row[k + count] = root
        u[k + count] = ru / root
        v[k + count] = rv / root
        kept[count] = i
        count += 1
    return kept[:count]


@fast_kernel
def delete_row(factor: Vector, carried: Vector, k: int, j: int, turns: Vector) -> None:
    """Remove atom j: Givens rotations, four rows at a time (independent chains); `turns`: (2, k) room."""
    u, v, cosines, sines = carried[0], carried[1], turns[0], turns[1]
    t = j
    ends = np.empty(4)
    while t < k - 1:
        m = min(4, k - 1 - t)
        for a in range(m):
            for i in range(j):
                factor[t + a, i] = factor[t + a + 1, i]
            ends[a] = factor[t + a + 1, j]
        if m == 4:
            x0, x1, x2, x3 = ends[0], ends[1], ends[2], ends[3]
            r0, r1, r2, r3, r4 = factor[t], factor[t + 1], factor[t + 2], factor[t + 3], factor[t + 4]
            for i in range(j, t):
                c = cosines[i]
                s = sines[i]
                y0, y1, y2, y3 = r1[i + 1], r2[i + 1], r3[i + 1], r4[i + 1]
                r0[i] = c * x0 + s * y0
                r1[i] = c * x1 + s * y1
                r2[i] = c * x2 + s * y2
                r3[i] = c * x3 + s * y3
                x0, x1 = c * y0 - s * x0, c * y1 - s * x1
                x2, x3 = c * y2 - s * x2, c * y3 - s * x3
            ends[0], ends[1], ends[2], ends[3] = x0, x1, x2, x3
        else:
            for a in range(m):
                ends[a] = _rotate(factor, t + a, j, t, ends[a], cosines, sines)
        for a in range(m):
            p = t + a
            x = _rotate(factor, p, t, p, ends[a], cosines, sines)
            y = factor[p + 1, p + 1]
            r = np.sqrt(x * x + y * y)
            cosines[p], sines[p], factor[p, p] = x / r, y / r, r
        t += m
    x, y = u[j], v[j]
    for i in range(j, k - 1):
        a, b = u[i + 1], v[i + 1]
        u[i] = cosines[i] * x + sines[i] * a
        v[i] = cosines[i] * y + sines[i] * b
        x, y = cosines[i] * a - sines[i] * x, cosines[i] * b - sines[i] * y


@fast_kernel
def _rotate(factor: Vector, p: int, first: int, last: int, x: float, cosines: Vector, sines: Vector) -> float:
    for i in range(first, last):
        y = factor[p + 1, i + 1]
        factor[p, i] = cosines[i] * x + sines[i] * y
        x = cosines[i] * y - sines[i] * x
    return x


@kernel
def descend(
    factor: Vector, carried: Vector, weights: Vector, labels: Ints, k: int, gone: Ints
) -> tuple[int, int, bool]:
    """Wolfe's minor cycle: go to the minimum over the simplex of the held atoms.

    Step towards the minimum over their affine hull; where a weight would turn
    negative stop there and let that atom leave. Returns the new k, how many
    labels were written to `gone`, and whether any weight moved.
    """
    u, v = carried[0], carried[1]
    turns, y = np.empty((2, k)), np.empty(k)
    left, moved = 0, False
    while k > 1:
        vv = 0.0
        uv = 0.0
        for i in range(k):
            vv += v[i] * v[i]
            uv += u[i] * v[i]
        shift = (1.0 - uv) / vv
        for i in range(k):
            y[i] = u[i] + shift * v[i]
        back_substitute(factor, k, y)
        reach, block, total = 1.0, -1, 0.0
        for i in range(k):
            total += y[i]
            if y[i] <= ZERO:
                ratio = weights[i] / max(weights[i] - y[i], 1e-300)
                if block < 0 or ratio < reach:
                    reach, block = min(ratio, 1.0), i
        if not np.isfinite(total):
            return k, left, False
        if block < 0:
            for i in range(k):
                weights[i] = y[i]
            return k, left, True
        moved = moved or reach > 0.0
        for i in range(k):
            weights[i] += reach * (y[i] - weights[i])
        for i in range(k - 1, -1, -1):
            if i == block or (weights[i] <= 0.0 and y[i] <= ZERO):
                delete_row(factor, carried, k, i, turns)
                gone[left] = labels[i]
                left += 1
                for j in range(i, k - 1):
                    weights[j] = weights[j + 1]
                    labels[j] = labels[j + 1]
                k -= 1
    weights[0] = 1.0
    return k, left, moved
