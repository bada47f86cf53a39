"""Likelihoods of one observation over the line: values, slopes, remainders of interpolation.

Each likelihood is divided by its maximum and written in a variable z in which its width is
constant: Normal theta = z, Poisson theta = z^2, Binomial theta = sin(z)^2. Then
log p = A u + B v + C with u, v of the place alone (Normal: log p = B (u - A)^2).
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from wolfhound.core import Ints, Matrix, Vector
from wolfhound.jit import kernel
from wolfhound.rounding import UNIT

NORMAL, POISSON, BINOMIAL = 0, 1, 2

DEGREE = 15
"""Degree of the interpolants."""

LEBESGUE = 2.8
"""More than the Lebesgue constant of the Chebyshev nodes, 2/pi log(16) + 1 = 2.77 at most."""

REACH = 7.0
"""Beyond so many s an observation is bounded by its envelope exp(-REACH^2 / 2)."""

CRAMER = 1.0864354 * math.exp(-0.5 * math.lgamma(DEGREE + 2) - DEGREE * math.log(2.0))
"""Cramer's constant over 2^K sqrt((K+1)!): |He_k(t)| exp(-t^2/4) <= 1.0864354 sqrt(k!)."""

EXACT = 16.0 * UNIT
"""Relative rounding of one exponential, and of each part of its argument."""

NORMAL_ROUNDING = 8.0 * UNIT * 0.5 * (REACH + 2.0) ** 2 + EXACT
"""Relative rounding of a normal likelihood within reach of a cell."""


class Waves(NamedTuple):
    """Observations, as the kernels see them; (n,) each.

    a, b: x and sigma, x and exposure, x and trials; A, B, C: see above.
    """

    kind: int
    a: Vector
    b: Vector
    A: Vector
    B: Vector
    C: Vector


class Touched(NamedTuple):
    """The cells that observations touch; (n,) each.

    half: half-width of the cells; first: number of the first; many: how many; slot: where
    the first stands among all cells.
    """

    half: Vector
    first: Ints
    many: Ints
    slot: Ints


class Cells(NamedTuple):
    """What is known of all cells; (cells, 16) values u, v at the nodes, and (cells,) largest |u|, |v|."""

    low: float
    u: Matrix
    v: Matrix
    most_u: Vector
    most_v: Vector
    shift: float


@kernel
def evaluate(kind: int, A: float, B: float, C: float, u: float, v: float) -> float:
    """One likelihood, as a share of its maximum."""
    if kind == NORMAL:
        t = u - A
        return math.exp(B * t * t)
    return math.exp(A * u + B * v + C)


@kernel
def fill(waves: Waves, u: Vector, v: Vector, out: Matrix) -> None:
    """Likelihoods of all observations (rows) at all places (columns)."""
    for j in range(len(waves.A)):
        for k in range(len(u)):
            out[j, k] = evaluate(waves.kind, waves.A[j], waves.B[j], waves.C[j], u[k], v[k])


@kernel
def bound_remainder(kind: int, a: float, b: float, c: float, h: float) -> float:
    """Upper bound on |p - interpolant| on [c - h, c + h].

    Normal: h^(K+1) / (2^K (K+1)!) max|p^(K+1)|, by Cramer's inequality. Others: 4 M r^-K / (r-1)
    with M the maximum of |p| on a box around the Bernstein ellipse of parameter r.
    """
    if kind == NORMAL:
        d = max(abs(c - a) - h, 0.0) / b
        return CRAMER * (h / b) ** (DEGREE + 1) * math.exp(-0.25 * d * d)
    r = max(2.0 * math.sqrt(DEGREE) * 0.5 / (math.sqrt(b) * h), 1.5)
    wide, tall = 0.5 * (r + 1.0 / r) * h, 0.5 * (r - 1.0 / r) * h
    lo, hi = c - wide, c + wide
    if kind == POISSON:
        # |z^2x e^-bz^2| = (R + I)^x e^-b(R - I), R = Re^2, I = Im^2
        square = tall * tall
        least = 0.0 if lo <= 0.0 <= hi else min(lo * lo, hi * hi)
        R = min(max(a / b - square, least), max(lo * lo, hi * hi))
        e = -b * (R - square)
        if a > 0.0:
            e += a * math.log((R + square) * b / a) + a
    else:
        # |sin z|^2 = (cosh 2 Im - cos 2 Re) / 2, |cos z|^2 = (cosh 2 Im + cos 2 Re) / 2
        C = math.cosh(2.0 * tall)
        q0, q1 = math.cos(2.0 * lo), math.cos(2.0 * hi)
        least, most = min(q0, q1), max(q0, q1)
        if math.floor(lo / math.pi) != math.floor(hi / math.pi):
            most = 1.0
        if math.floor(lo / math.pi + 0.5) != math.floor(hi / math.pi + 0.5):
            least = -1.0
        q = min(max(C * (1.0 - 2.0 * a / b), least), most)
        e = 0.0
        if a > 0.0:
            e += a * math.log((C - q) / 2.0 * b / a)
        if b > a:
            e += (b - a) * math.log((C + q) / 2.0 * b / (b - a))
    return 4.0 * math.exp(min(e, 600.0) - DEGREE * math.log(r)) / (r - 1.0)


@kernel
def accumulate(
    waves: Waves, touched: Touched, cells: Cells, c: Vector, values: Matrix, errors: Vector
) -> None:
    """values[cell] += c_j p_j(nodes), errors[cell] += what p_j's interpolant may lack, rounding too."""
    for j in range(len(c)):
        h, A, B, C = touched.half[j], waves.A[j], waves.B[j], waves.C[j]
        s = waves.b[j] if waves.kind == NORMAL else 0.5 / math.sqrt(waves.b[j])
        for i in range(touched.many[j]):
            at = touched.slot[j] + i
            centre = cells.low + (2.0 * (touched.first[j] + i) + 1.0) * h
            row, u, v = values[at], cells.u[at], cells.v[at]
            if waves.kind == NORMAL:
                for k in range(len(row)):
                    t = u[k] - A
                    row[k] += c[j] * math.exp(B * t * t)
                rounding = NORMAL_ROUNDING
            else:
                for k in range(len(row)):
                    row[k] += c[j] * math.exp(A * u[k] + B * v[k] + C)
                size = abs(A) * (cells.most_u[at] + 1.0) + abs(B) * (cells.most_v[at] + 1.0) + abs(C)
                rounding = EXACT * (size + 1.0)
            # A node is off by `shift` at most, and no likelihood is steeper than 1/s.
            wrong = LEBESGUE * (rounding + cells.shift / s)
            errors[at] += c[j] * (bound_remainder(waves.kind, waves.a[j], waves.b[j], centre, h) + wrong)


@kernel
def bound_cells(coefficients: Matrix, errors: Vector, wanted: float, depth: int) -> Vector:
    """Upper bounds of polynomials on their cells, by Bernstein coefficients.

    A cell is bisected while its bound is above `wanted` and not close to an attained value.
    (Loops, not array expressions: three of those took half of what `npmle` compiles.)
    """
    n, m = coefficients.shape
    stack = np.empty((depth + 2, m))
    level = np.empty(depth + 2, np.int64)
    out = np.empty(n)
    q = np.empty(m)
    for i in range(n):
        for k in range(m):
            stack[0, k] = coefficients[i, k]
        level[0] = 0
        top = 1
        best = -np.inf
        while top:
            top -= 1
            d = level[top]
            most = -np.inf
            for k in range(m):
                q[k] = stack[top, k]
                most = max(most, q[k])
            ends = max(q[0], q[m - 1])
            if most <= max(best, wanted - errors[i]) or most - ends < 1e-10 or d == depth:
                best = max(best, most)
                continue
            # De Casteljau: control points of both halves.
            for k in range(m):
                stack[top, k] = q[0]
                stack[top + 1, m - 1 - k] = q[m - 1 - k]
                for t in range(m - 1 - k):
                    q[t] = 0.5 * (q[t] + q[t + 1])
            level[top] = d + 1
            level[top + 1] = d + 1
            top += 2
        out[i] = best + errors[i]
    return out


@kernel
def fill_slopes(waves: Waves, u: Vector, v: Vector, z: Vector, out: Matrix) -> None:
    """p, p', p'' in z of all observations: columns 0..k-1, k..2k-1, 2k..3k-1."""
    m = len(z)
    for j in range(len(waves.A)):
        a, b = waves.a[j], waves.b[j]
        for k in range(m):
            y = evaluate(waves.kind, waves.A[j], waves.B[j], waves.C[j], u[k], v[k])
            first = 0.0
            second = 0.0
            if waves.kind == NORMAL:
                first = (a - z[k]) / (b * b)
                second = -1.0 / (b * b)
            elif y > 0.0 and waves.kind == POISSON:
                first = -2.0 * b * z[k]
                second = -2.0 * b
                if a > 0.0:
                    first += 2.0 * a / z[k]
                    second -= 2.0 * a / (z[k] * z[k])
            elif y > 0.0:
                t = math.exp(u[k] - v[k])
                if a > 0.0:
                    first += 2.0 * a / t
                    second -= 2.0 * a * (1.0 + 1.0 / (t * t))
                if b > a:
                    first -= 2.0 * (b - a) * t
                    second -= 2.0 * (b - a) * (1.0 + t * t)
            out[j, k] = y
            out[j, m + k] = y * first
            out[j, 2 * m + k] = y * (first * first + second)
