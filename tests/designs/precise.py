"""Criteria and efficiencies in 60 digits."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import contextlib
from typing import Any

import mpmath
import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

DIGITS = 400
"""Of what efficiencies are compared with: weights of a rival may be as small as 1e-187, and count."""

LOST = mpmath.mpf("1e-300")
"""A determinant below this share of the product of the diagonal may be rounding, even in so many digits."""


def inform(rows: Array, shares: Array) -> Any:
    """The information matrix of float rows and float shares, exactly up to 60 digits."""
    matrix = mpmath.matrix(rows.shape[1], rows.shape[1])
    for row, share in zip(rows.tolist(), shares.tolist(), strict=True):
        x = mpmath.matrix([mpmath.mpf(value) for value in row])
        matrix += mpmath.mpf(share) * (x * x.T)
    return matrix


def criterion_of(rows: Array, shares: Array, root: Array | None) -> Any:
    """Log det M / d, or trace C'M^-1 C."""
    with mpmath.workdps(60):
        return _evaluate(inform(rows, shares), root)


def _evaluate(matrix: Any, root: Array | None, moments: Any = None) -> Any:
    """Log det M / d, or trace M^-1 R; R is CC' where it is not given."""
    if root is None:
        return mpmath.log(mpmath.det(matrix)) / matrix.rows
    if moments is None:
        c = mpmath.matrix(root.tolist())
        moments = c * c.T
    solved = mpmath.inverse(matrix) * moments
    return sum(solved[i, i] for i in range(matrix.rows))


def moments_of(region: Array) -> Any:
    """The mean of x x' over a region, exactly up to 400 digits: what I-optimality is about."""
    with mpmath.workdps(DIGITS):
        return inform(region.astype(np.float64), np.ones(len(region))) / len(region)


def efficiency_of(
    rows: Array, weights: Array, root: Array | None, given: Array, share: float, candidates: Array
) -> Any:
    """At least the efficiency of a design: relative to the best that multiplicative steps find."""
    best = _climb(candidates, root, given, share, np.full(len(candidates), 1.0 / len(candidates)))
    with mpmath.workdps(60):
        mine = _with_given(rows, weights, given, share)
        other = _with_given(candidates, best, given, share)
        a, b = _evaluate(mine, root), _evaluate(other, root)
        return min(mpmath.mpf(1), mpmath.exp(a - b) if root is None else b / a)


def at_most(
    mine: tuple[Array, Array],
    root: Array | None,
    given: Array,
    share: float,
    candidates: Array,
    *,
    moments: Any = None,
    rival: Array | None = None,
) -> Any:
    """A number that no proved efficiency may exceed, in 400 digits; None if M is singular.

    The design is compared with equal weights, and with where multiplicative steps lead from there, in
    columns of equal sizes and in whitened ones; and with the weights of a rival. `moments` are the true R
    of I-optimality. A rival whose M is singular, or too close to it for the digits, proves nothing.
    """
    scale = np.exp2(-np.frexp(np.abs(candidates).max(axis=0, initial=0.0))[1].clip(-1000, 1000).astype(float))
    start = np.full(len(candidates), 1.0 / len(candidates))
    others = [start] if rival is None else [start, rival]
    with np.errstate(all="ignore"):
        even, c = candidates * scale, None if root is None else root * scale[:, None]
        for turn in (lambda: np.eye(len(scale)), lambda: np.linalg.inv(np.linalg.qr(even, mode="r"))):
            with contextlib.suppress(np.linalg.LinAlgError):
                w = turn()
                past = given * scale @ w
                others.append(_climb(even @ w, None if c is None else w.T @ c, past, share, start))
    with mpmath.workdps(DIGITS):
        here = _with_given(*mine, given, share)
        if not _is_regular(here):
            return None
        value, best = _evaluate(here, root, moments), mpmath.mpf(1)
        for other in others:
            if np.isfinite(other).all() and other.sum() > 0.0:
                matrix = _with_given(candidates, other, given, share)
                if _is_regular(matrix):
                    there = _evaluate(matrix, root, moments)
                    best = min(best, mpmath.exp(value - there) if root is None else there / value)
        return best


def _is_regular(matrix: Any) -> bool:
    """Whether the digits hold the inverse: by Hadamard the determinant is at most this product."""
    product = mpmath.fprod(matrix[i, i] for i in range(matrix.rows))
    return bool(mpmath.det(matrix) > LOST * product)


def _with_given(rows: Array, weights: Array, given: Array, share: float) -> Any:
    total = mpmath.fsum(map(mpmath.mpf, weights.tolist()))
    matrix = (1 - mpmath.mpf(share)) / total * inform(rows, weights)
    if share:
        matrix += mpmath.mpf(share) / len(given) * inform(given, np.ones(len(given)))
    return matrix


def _climb(rows: Array, root: Array | None, given: Array, share: float, weights: Array) -> Array:
    """Multiplicative steps in float64: each design is one to compare with, wherever they end."""
    fixed = given.T @ given / max(len(given), 1)
    for _ in range(400):
        matrix = (1.0 - share) * (rows * weights[:, None]).T @ rows + share * fixed
        solved = np.linalg.solve(matrix, rows.T)
        lifted = solved if root is None else root.T @ solved
        scores = (rows.T * solved).sum(axis=0) if root is None else (lifted**2).sum(axis=0)
        weights = weights * scores ** (1.0 if root is None else 0.5)
        weights = weights / weights.sum()
    return weights
