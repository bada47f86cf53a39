"""Compiled exchange of runs: Fedorov's moves on the inverse of the information matrix."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import NamedTuple

import numpy as np

from wolfhound.core import Ints, Vector
from wolfhound.jit import fast_kernel, kernel


class Exchange(NamedTuple):
    """What the exchange works on; `counts` and `inverse` are changed."""

    rows: Vector  # (r, d) candidates
    inverse: Vector  # (d, d) of the information of all runs, counted in runs
    root: Vector  # (d, c) C of trace C'M^-1 C; of width 0 for the determinant
    counts: Ints  # (r,) runs of each candidate


@fast_kernel
def _times(rows: Vector, vector: Vector, out: Vector) -> None:
    """Write <row, vector> of every row."""
    for i in range(rows.shape[0]):
        total = 0.0
        for j in range(rows.shape[1]):
            total += rows[i, j] * vector[j]
        out[i] = total


@kernel
def _gain(pair: tuple[float, float, float], far: tuple[float, float, float], trace: bool) -> float:
    """By how much the determinant grows, relatively, or the trace falls, if x_j takes the place of x_i.

    `pair` are x'M^-1 x of i, j and both, `far` the same of M^-1 CC' M^-1.
    """
    di, dj, dij = pair
    det = (1.0 + dj) * (1.0 - di) + dij * dij
    if not det > 1e-9:
        return -np.inf
    if not trace:
        return det - 1.0
    fi, fj, fij = far
    return (fj * (1.0 - di) + 2.0 * fij * dij - fi * (1.0 + dj)) / det


class Prices(NamedTuple):
    """x'M^-1 x of every candidate, and with the one that may leave; `far` the same of M^-1 CC' M^-1."""

    own: Vector
    cross: Vector
    far_own: Vector
    far_cross: Vector


@kernel
def _turn(state: Exchange, sign: float, vector: Vector, own: Vector) -> None:
    """Update the inverse, and x'M^-1 x of all, for one run more (sign 1) or less (-1)."""
    inverse = state.inverse
    d = inverse.shape[0]
    lifted = np.empty(d)
    _times(inverse, vector, lifted)
    size = 0.0
    for j in range(d):
        size += lifted[j] * vector[j]
    factor = sign / (1.0 + sign * size)
    for i in range(d):
        for j in range(d):
            inverse[i, j] -= factor * lifted[i] * lifted[j]
    parts = np.empty(own.shape[0])
    _times(state.rows, lifted, parts)
    for k in range(own.shape[0]):
        own[k] -= factor * parts[k] * parts[k]


@kernel
def _pull(root: Vector, lifted: Vector, pulled: Vector) -> float:
    """Write C'v and return its squared norm."""
    square = 0.0
    for c in range(root.shape[1]):
        total = 0.0
        for j in range(root.shape[0]):
            total += root[j, c] * lifted[j]
        pulled[c] = total
        square += total * total
    return square


@kernel
def _price(state: Exchange, prices: Prices, alone: bool) -> None:
    """Fill in what belongs to one candidate alone."""
    rows, inverse, root, _ = state
    lifted, pulled = np.empty(rows.shape[1]), np.empty(root.shape[1])
    for k in range(rows.shape[0]):
        _times(inverse, rows[k], lifted)
        if alone:
            total = 0.0
            for j in range(rows.shape[1]):
                total += lifted[j] * rows[k, j]
            prices.own[k] = total
        prices.far_own[k] = _pull(root, lifted, pulled)


@kernel
def _cross(state: Exchange, prices: Prices, i: int) -> None:
    """Fill in what belongs to each candidate and to i."""
    rows, inverse, root, _ = state
    lifted, pulled = np.empty(rows.shape[1]), np.empty(root.shape[1])
    _times(inverse, rows[i], lifted)
    _times(rows, lifted, prices.cross)
    if root.shape[1] > 0:
        _pull(root, lifted, pulled)
        back = np.empty(rows.shape[1])
        _times(root, pulled, back)
        _times(inverse, back, lifted)
        _times(rows, lifted, prices.far_cross)


@kernel
def exchange(state: Exchange, least: float) -> int:
    """One round: the best exchanges of the runs of every candidate; return how many were made."""
    rows, _, root, counts = state
    n, trace, moves = rows.shape[0], root.shape[1] > 0, 0
    prices = Prices(np.empty(n), np.empty(n), np.zeros(n), np.zeros(n))
    _price(state, prices, True)
    for i in range(n):
        while counts[i] > 0:
            _cross(state, prices, i)
            best, where = least, -1
            for k in range(n):
                pair = (prices.own[i], prices.own[k], prices.cross[k])
                far = (prices.far_own[i], prices.far_own[k], prices.far_cross[k])
                gain = _gain(pair, far, trace)
                if k != i and gain > best:
                    best, where = gain, k
            if where < 0:
                break
            _turn(state, 1.0, rows[where], prices.own)
            _turn(state, -1.0, rows[i], prices.own)
            counts[i] -= 1
            counts[where] += 1
            moves += 1
            if trace:
                _price(state, prices, False)
    return moves
