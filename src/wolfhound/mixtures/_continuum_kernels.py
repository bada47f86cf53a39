"""Likelihoods of one observation over the line: values, slopes, remainders of interpolation.

Each likelihood is divided by its maximum and written in a variable z in which its width is
constant: Normal theta = z, Poisson theta = z^2, Binomial theta = sin(z)^2. A logarithm is a sum
of terms of one sign, each of the difference to the mode: x log(mean) - mean would lose all digits
of counts of 1e12. A place is told by u = theta and v = 1 - theta.
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

REACH = 8.5
"""Beyond so many s an observation is bounded by its envelope exp(-REACH^2 / 2)."""

CRAMER = 1.0864354 * math.exp(-0.5 * math.lgamma(DEGREE + 2) - DEGREE * math.log(2.0))
"""Cramer's constant over 2^K sqrt((K+1)!): |He_k(t)| exp(-t^2/4) <= 1.0864354 sqrt(k!)."""

ROUNDED = 8.0 * UNIT * 0.5 * (REACH + 2.0) ** 2 + 64.0 * UNIT
"""Rounding of a likelihood within reach of a cell, as a share of its maximum, its place being exact."""

CLOSE = 1e-14
"""A bound so near a value that is attained needs no bisection."""

SERIES = np.array([1.0 / (2.0 * k + 3.0) for k in range(17, -1, -1)])
"""1/37, ..., 1/5, 1/3: of atanh; the rest is below 1e-18 where it is used."""


class Waves(NamedTuple):
    """Observations, as the kernels see them; (n,) each.

    a, b: x and sigma, x and exposure, x and trials.
    """

    kind: int
    a: Vector
    b: Vector


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
    """All cells: (cells, 16) values u, v at the nodes, and (cells,) how far these may be off in z."""

    low: float
    u: Matrix
    v: Matrix
    shift: Vector


@kernel
def miss(x: float, more: float, ratio: float) -> float:
    """x log(ratio) - more, where ratio = 1 + more / x: never positive, and of full relative precision."""
    if x == 0.0:
        return -more
    r = more / x
    if abs(r) > 0.5:
        return float(x * (np.log(ratio) - r))
    # log(1 + r) = 2 atanh(s); 2 s - r = -r s
    s = r / (2.0 + r)
    t = s * s
    total = 0.0
    for k in range(len(SERIES)):
        total = total * t + SERIES[k]
    return -x * s * (r - 2.0 * t * total)


@kernel
def evaluate(kind: int, a: float, b: float, u: float, v: float) -> float:
    """Logarithm of one likelihood, as a share of its maximum."""
    if kind == NORMAL:
        t = (u - a) / b
        return -0.5 * t * t
    # 1 - theta has its own digits where theta is near 1.
    more = u * b - a if kind == POISSON or u <= 0.5 else (b - a) - v * b
    if kind == POISSON:
        return miss(a, more, u * b / a)
    return miss(a, more, u * b / a) + miss(b - a, -more, v * b / (b - a))


@kernel
def fill(waves: Waves, u: Vector, v: Vector, out: Matrix) -> None:
    """Logarithms of the likelihoods of all observations (rows) at all places (columns)."""
    for j in range(len(waves.a)):
        for k in range(len(u)):
            out[j, k] = evaluate(waves.kind, waves.a[j], waves.b[j], u[k], v[k])


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
        more = (R + square) * b - a
        e = 2.0 * b * square + miss(a, more, (R + square) * b / a)
    else:
        # |sin z|^2 = sin^2 Re + sinh^2 Im, |cos z|^2 = cos^2 Re + sinh^2 Im
        square = math.sinh(tall) ** 2
        C = 1.0 + 2.0 * square
        across = math.floor(lo / math.pi) != math.floor(hi / math.pi)
        over = math.floor(lo / math.pi + 0.5) != math.floor(hi / math.pi + 0.5)
        s0, s1, c0, c1 = math.sin(lo) ** 2, math.sin(hi) ** 2, math.cos(lo) ** 2, math.cos(hi) ** 2
        S = min(max(C * a / b - square, 0.0 if across else min(s0, s1)), 1.0 if over else max(s0, s1))
        K = min(max(C * (b - a) / b - square, 0.0 if over else min(c0, c1)), 1.0 if across else max(c0, c1))
        S, K = (S + square) * b, (K + square) * b
        e = 2.0 * b * square + miss(a, S - a, S / a) + miss(b - a, K - (b - a), K / (b - a))
    return 4.0 * math.exp(min(e, 600.0) - DEGREE * math.log(r)) / (r - 1.0)


@kernel
def accumulate(
    waves: Waves, touched: Touched, cells: Cells, c: Vector, values: Matrix, errors: Matrix
) -> None:
    """values[cell] += c_j p_j(nodes), errors[cell] += what p_j's interpolant may lack, and its rounding."""
    for j in range(len(c)):
        h, a, b = touched.half[j], waves.a[j], waves.b[j]
        s = b if waves.kind == NORMAL else 0.5 / math.sqrt(b)
        for i in range(touched.many[j]):
            at = touched.slot[j] + i
            centre = cells.low + (2.0 * (touched.first[j] + i) + 1.0) * h
            row, u, v = values[at], cells.u[at], cells.v[at]
            for k in range(len(row)):
                row[k] += c[j] * math.exp(evaluate(waves.kind, a, b, u[k], v[k]))
            errors[at, 0] += c[j] * bound_remainder(waves.kind, a, b, centre, h)
            # A node is off by `shift` at most, and no likelihood is steeper than 1/s.
            errors[at, 1] += c[j] * LEBESGUE * (ROUNDED + cells.shift[at] / s)


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
            if most <= max(best, wanted - errors[i]) or most - ends < CLOSE or d == depth:
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
    for j in range(len(waves.a)):
        a, b = waves.a[j], waves.b[j]
        for k in range(m):
            y = math.exp(evaluate(waves.kind, a, b, u[k], v[k]))
            first = 0.0
            second = 0.0
            if waves.kind == NORMAL:
                first = (a - z[k]) / (b * b)
                second = -1.0 / (b * b)
            elif y > 0.0 and waves.kind == POISSON:
                first = -2.0 * (u[k] * b - a) / z[k] if a > 0.0 else -2.0 * b * z[k]
                second = -2.0 * (b + (a / u[k] if a > 0.0 else 0.0))
            elif y > 0.0:
                more = u[k] * b - a if u[k] <= 0.5 else (b - a) - v[k] * b
                both = math.sqrt(u[k] * v[k])
                first = -2.0 * more / both if both > 0.0 else 0.0
                second = -2.0 * ((a / u[k] if a > 0.0 else 0.0) + ((b - a) / v[k] if b > a else 0.0))
            out[j, k] = y
            out[j, m + k] = y * first
            out[j, 2 * m + k] = y * (first * first + second)
