"""What is true, in integers: scores, values and minima without any rounding.

Nothing here uses the package. A float is an integer times a power of two, so
sums and products of floats are exact in Python's integers. Only logarithms and
exponentials need mpmath; their enclosures are wider than its error.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import mpmath
import numpy as np
from numpy.typing import NDArray

from tests.problems import least_square

Array = NDArray[Any]

BITS = 400
"""Precision of mpmath."""

GUARD = Fraction(1, 1 << 300)
"""Relative error that is allowed to mpmath: more than it has."""


FAR = 3000
"""Beyond this, exp(-z) is taken to lie between 0 and 2**-z."""


class Whole(NamedTuple):
    """Floats as integers: ``numbers * 2**exponent``."""

    numbers: Array
    exponent: int


def whole(values: Array) -> Whole:
    """Return an array of floats as integers, exactly."""
    values = np.asarray(values, np.float64)
    mantissas, exponents = np.frexp(values)
    mantissas = np.ldexp(mantissas, 53).astype(np.int64)
    exponents = np.where(mantissas == 0, 1 << 20, exponents - 53)
    least = int(exponents.min(initial=0))
    shifts = np.where(mantissas == 0, 0, exponents - least)
    numbers = np.empty(values.shape, object)
    flat = [int(m) << int(s) for m, s in zip(mantissas.ravel(), shifts.ravel(), strict=True)]
    numbers.ravel()[:] = flat
    return Whole(numbers.reshape(values.shape), least)


def scaled(number: int | Fraction, exponent: int) -> Fraction:
    """``number * 2**exponent``."""
    return number * Fraction(2) ** exponent


def scores(queries: Array, rows: Array) -> Whole:
    """(m, n) inner products, exactly."""
    q, s = whole(queries), whole(rows)
    return Whole(q.numbers @ s.numbers.T, q.exponent + s.exponent)


def at_least(bound: float, number: int, exponent: int) -> bool:
    """Whether a bound is at least an exact number; inf is."""
    return bound == np.inf or Fraction(bound) >= scaled(number, exponent)


class Mixed(NamedTuple):
    """A point of a hull: ``numbers * 2**exponent / total``."""

    numbers: Array
    total: int
    exponent: int

    def fractions(self) -> list[Fraction]:
        """The coordinates."""
        return [scaled(Fraction(int(x), self.total), self.exponent) for x in self.numbers]


def mix(rows: Array, weights: Array) -> Mixed:
    """Sum of the rows by their weights, over the sum of the weights."""
    points, shares = whole(rows), whole(weights)
    return Mixed(shares.numbers @ points.numbers, int(shares.numbers.sum()), points.exponent)


class Between(NamedTuple):
    """An enclosure of a number."""

    low: Fraction
    high: Fraction


def sure(value: Fraction) -> Between:
    """A number that is known."""
    return Between(value, value)


# ---------------------------------------------------------------- objectives


def images(design: Array | None, x: Mixed) -> list[Fraction]:
    """A x, exactly; x itself without a matrix."""
    if design is None:
        return x.fractions()
    lines = whole(design)
    return [scaled(Fraction(int(z), x.total), x.exponent + lines.exponent) for z in lines.numbers @ x.numbers]


def half_square(z: Sequence[Fraction], response: Array) -> Between:
    """1/2 |z - b|^2."""
    residuals = (a - Fraction(float(b)) for a, b in zip(z, response, strict=True))
    return sure(sum((r * r for r in residuals), Fraction()) / 2)


def huber(z: Sequence[Fraction], response: Array, delta: float) -> Between:
    """Mean Huber loss."""
    width = Fraction(delta)
    total = Fraction()
    for a, b in zip(z, response, strict=True):
        residual = abs(a - Fraction(float(b)))
        clipped = min(residual, width)
        total += clipped * (residual - clipped / 2)
    return sure(total / len(z))


def logistic(z: Sequence[Fraction], labels: Array) -> Between:
    """Mean logistic loss: all terms are positive, so that nothing cancels."""
    low = high = Fraction()
    for a, y in zip(z, labels, strict=True):
        margin = a * int(y)
        tail, linear = _softplus(-abs(margin)), max(-margin, Fraction())
        low, high = low + linear + tail.low, high + linear + tail.high
    return Between(low / len(z), high / len(z))


def _softplus(z: Fraction) -> Between:
    """log(1 + exp(z)) for z <= 0."""
    if z < -FAR:
        return Between(Fraction(0), Fraction(1, 1 << FAR))
    with mpmath.workprec(BITS):
        value = mpmath.log1p(mpmath.exp(_big(z)))
        return _around(value, value)


def mean_negative_log(x: Sequence[Fraction], shares: Sequence[Fraction]) -> Between:
    """-sum of shares times logs, x > 0."""
    with mpmath.workprec(BITS):
        logs = [_big(share) * mpmath.log(_big(a)) for share, a in zip(shares, x, strict=True)]
        return _around(-mpmath.fsum(logs), mpmath.fsum(abs(log) for log in logs))


def _big(number: Fraction) -> Any:
    return mpmath.mpf(number.numerator) / mpmath.mpf(number.denominator)


def _fraction(number: Any) -> Fraction:
    sign, mantissa, exponent, _ = number._mpf_
    value = scaled(int(mantissa), int(exponent))
    return -value if sign else value


def _around(value: Any, size: Any) -> Between:
    middle, room = _fraction(value), _fraction(size) * GUARD
    return Between(middle - room, middle + room)


# ---------------------------------------------------------------- minima


def least_half_square(rows: Array, design: Array | None, response: Array) -> Fraction:
    """min 1/2 |A x - b|^2 over the hull of the rows, exactly."""
    points = whole(rows)
    numbers, exponent = points.numbers, points.exponent
    if design is not None:
        lines = whole(design)
        numbers, exponent = numbers @ lines.numbers.T, exponent + lines.exponent
    target = whole(response)
    least = min(exponent, target.exponent)
    away = numbers * (1 << (exponent - least)) - target.numbers * (1 << (target.exponent - least))
    return scaled(least_square(away), 2 * least) / 2
