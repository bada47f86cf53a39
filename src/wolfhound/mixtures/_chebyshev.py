"""Polynomials of degree 15 by their values at Chebyshev nodes: halves, Bernstein coefficients.

The nodes are float64 numbers, and the maps between them are made in integers and rounded
once: an entry is off by one unit at most.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import functools
from math import comb
from typing import NamedTuple

import numpy as np

from wolfhound.core import Vector
from wolfhound.mixtures._continuum_kernels import DEGREE

FINE = 24
"""Points of a cell at which local maxima are looked for."""

_BITS = 60


def _nodes() -> Vector:
    odd = 2.0 * np.arange(DEGREE, -1, -1) + 1.0
    return np.asarray(np.cos(odd * np.pi / (2.0 * DEGREE + 2.0)))


NODES = _nodes()
"""(16,) of [-1, 1], increasing."""

FINE_POINTS = (np.arange(FINE) + 0.5) / FINE * 2.0 - 1.0


class Maps(NamedTuple):
    """Linear maps of the values at the nodes."""

    left: Vector  # (16, 16) to the values at the nodes of either half
    right: Vector
    chebyshev: Vector  # (16, 16) to coefficients of Chebyshev polynomials
    bernstein: Vector  # from these to Bernstein's: at once, values would lose four digits more
    fine: Vector  # (FINE, 16) to values at `FINE_POINTS`


@functools.cache
def make_maps() -> Maps:
    """Make the maps from the exact nodes."""
    size = DEGREE + 1
    # Nodes of [0, 1] as whole multiples of 1 / whole.
    whole = 1 << (_BITS + 1)
    roots = [(1 << _BITS) + int(node * 2.0**_BITS) for node in NODES.tolist()]
    left, right, fine = (np.empty((rows, size)) for rows in (size, size, FINE))
    chebyshev = np.empty((size, size))
    places = [int(point * 2.0**_BITS) + (1 << _BITS) for point in FINE_POINTS.tolist()]
    for i in range(size):
        others = [root for j, root in enumerate(roots) if j != i]
        below = _product(roots[i] - root for root in others)
        for q, node in enumerate(roots):
            left[q, i] = _product(node - 2 * root for root in others) / (below << DEGREE)
            right[q, i] = _product(whole + node - 2 * root for root in others) / (below << DEGREE)
        for q, place in enumerate(places):
            fine[q, i] = _product(place - root for root in others) / below
        # In t of [-1, 1]: t^p = 2^(1-p) sum_k comb(p, (p-k)/2) T_k, half of it for k = 0.
        powers = _expand([2 * root - whole for root in others], whole)
        for k in range(size):
            terms = (comb(p, (p - k) // 2) * (powers[p] << (DEGREE - p)) for p in range(k, size, 2))
            chebyshev[k, i] = sum(terms) * (1 if k else 0.5) * 2 / (below << (2 * DEGREE))
    return Maps(left, right, chebyshev, _make_bernstein(), fine)


def _make_bernstein() -> Vector:
    """Bernstein coefficients of T_0 .. T_15 as columns."""
    size = DEGREE + 1
    out = np.empty((size, size))
    for k in range(size):
        signed = [(-1) ** (k - i) * comb(2 * k, 2 * i) for i in range(k + 1)]
        for p in range(size):
            inside = range(max(0, p - DEGREE + k), min(k, p) + 1)
            out[p, k] = sum(signed[i] * comb(DEGREE - k, p - i) for i in inside) / comb(DEGREE, p)
    return out


def _product(factors: object) -> int:
    out = 1
    for factor in factors:  # type: ignore[attr-defined]
        out *= factor
    return out


def _expand(roots: list[int], whole: int) -> list[int]:
    """Coefficients of the product of ``whole s - root``, lowest power first."""
    out = [1]
    for root in roots:
        shifted = [0, *(whole * each for each in out)]
        out = [up - root * low for up, low in zip(shifted, [*out, 0], strict=True)]
    return out
