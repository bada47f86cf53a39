"""Efficiencies that are proved: any float matrix is a certificate, rounding included.

With K symmetric, close to M^-1, and q at least x'Nx of every candidate:

- D, N = K: for every information matrix M*, log det M* + log det K <= d log(tr(K M*) / d), so
  the efficiency is at least (d / t) det(K M)^(1/d), t >= tr(K M*);
- trace C'M^-1 C, N = B B', B = K C: by Cauchy and Schwarz (tr B'C)^2 <= tr(B'M*B) tr(C'M*^-1 C), so
  it is at least (tr B'C)^2 / (t tr(C'M^-1 C)), t >= tr(B'M*B).

Here t = (1 - a) q + a tr(N M0), with given runs of information M0 at share a. K M = I + E is
evaluated in extended precision where there is one, with a bound e on the Frobenius norm of E
and its error: K is then positive definite if e < 1, log det(K M) >= tr E - e^2 / (2 (1 - e)^2),
and M^-1 = (I + E)^-1 K.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from wolfhound.core import Matrix, Vector
from wolfhound.rounding import UNIT, gamma, length

_WIDE = np.longdouble
_FINE = float(np.finfo(_WIDE).eps) / 2.0


class Certificate(NamedTuple):
    """What is asked of all candidates, and what their answer proves.

    Attributes
    ----------
    query : (d, d)
        N, symmetric.
    root : (d, r) or None
        C.
    lead : float
        Lower bound of log det(K M) / d, or of (tr B'C)^2 / tr(C'M^-1 C); -inf if nothing is proved.
    spill : float
        Bound on the Frobenius norm of B B' - N.
    fixed, fixed_size : float
        Bounds on the mean of x'Nx and of |x|^2 over the given runs.
    share : float
        a, rounded such that t is not too small.
    """

    query: Vector
    root: Vector | None
    lead: float
    spill: float
    fixed: float
    fixed_size: float
    share: float

    def efficiency(self, bound: float, radius: float) -> float:
        """Lower bound of the efficiency, from bounds on <svec N, svec xx'> and on |x|^2 of all candidates."""
        if not (math.isfinite(bound) and math.isfinite(radius) and math.isfinite(self.lead)):
            return 0.0
        # The query and the atoms were rounded: three units each, off the diagonal.
        top = bound + (self.spill + 8.0 * UNIT * length(self.query)) * radius
        given = self.fixed + self.spill * self.fixed_size
        reach = ((1.0 - self.share) * top + self.share * given) * (1.0 + 16.0 * UNIT)
        if not reach > 0.0:
            return 0.0
        d = len(self.query)
        found = d / reach * math.exp(self.lead) if self.root is None else self.lead / reach
        return max(0.0, found * (1.0 - 32.0 * UNIT))


def certify(
    rows: Matrix, weights: Vector, *, root: Vector | None, given: Matrix, share: float
) -> Certificate | None:
    """Prepare the proof for a design; None if its information cannot be inverted.

    Parameters
    ----------
    rows, weights : (k, d), (k,)
        The design; weights are taken relative to their sum.
    root : (d, r) or None
        C; None: the determinant.
    given : (g, d)
        Rows run already.
    share
        Of these in all.
    """
    wide = np.concatenate([rows.astype(_WIDE), given.astype(_WIDE)])
    total = math.fsum(weights) * (1.0 + 2.0 * UNIT)
    shares = np.concatenate([(1 - _WIDE(share)) * weights.astype(_WIDE), _each(given, share)])
    information = (wide * shares[:, None]).T @ wide
    inverse = _invert(information.astype(np.float64))
    if inverse is None:
        return None
    e, trace = _bound_error(inverse, information, len(wide))
    if not e < 0.5:
        lead = -math.inf
        query, spill = _ask(inverse, root)
    elif root is None:
        query, spill = inverse, 0.0
        d = len(inverse)
        lead = (trace - e * e / (2.0 * (1.0 - e) ** 2) * (1.0 + 1e-12)) / d - 4.0 * UNIT
        lead -= math.log(max(1.0, total)) + 4.0 * UNIT
    else:
        query, spill = _ask(inverse, root)
        lead = _lead_of_trace(inverse, root, e) / max(1.0, total)
    size = gamma(2 * len(query) + 8) * length(query)
    fixed_size = float((given.astype(np.float64) ** 2).sum(axis=1).mean()) * (1.0 + 1e-12) if share else 0.0
    fixed = float(np.einsum("ij,jk,ik->", given, query, given)) / max(len(given), 1) if share else 0.0
    fixed += (size + gamma(len(given) + 2) * length(query)) * fixed_size
    return Certificate(query, root, lead, spill, fixed, fixed_size, share)


def _each(given: Matrix, share: float) -> Matrix:
    return np.full(len(given), _WIDE(share) / max(len(given), 1))


def _invert(information: Vector) -> Vector | None:
    """A symmetric matrix close to the inverse."""
    try:
        factor = np.linalg.inv(np.linalg.cholesky(information))
    except np.linalg.LinAlgError:
        return None
    inverse = factor.T @ factor
    inverse = np.triu(inverse) + np.triu(inverse, 1).T
    return inverse if np.isfinite(inverse).all() else None


def _bound_error(inverse: Vector, information: Matrix, k: int) -> tuple[float, float]:
    """Bounds: of the norm of K M - I from above, of its trace from below."""
    d = len(inverse)
    rest = inverse.astype(_WIDE) @ information - np.eye(d, dtype=_WIDE)
    # The entries of M are sums of k products of three factors; its norm is at most its trace.
    size = float(np.trace(information)) * (1.0 + 1e-12)
    lost = gamma(k + 2 * d + 16, _FINE) * length(inverse) * size * (1.0 + 1e-12) + 4.0 * d * _FINE
    e = float(np.sqrt((rest * rest).sum())) * (1.0 + 1e-12) + lost
    return e, float(np.trace(rest)) - math.sqrt(d) * lost * (1.0 + 1e-12) - 4.0 * UNIT * d * e


def _ask(inverse: Vector, root: Vector | None) -> tuple[Vector, float]:
    """N and a bound on what it differs from B B'."""
    if root is None:
        return inverse, 0.0
    lift = inverse @ root
    query = lift @ lift.T
    query = np.triu(query) + np.triu(query, 1).T
    return query, gamma(root.shape[1] + 2) * length(lift) ** 2 * (1.0 + 1e-12)


def _lead_of_trace(inverse: Vector, root: Vector, e: float) -> float:
    """Lower bound of (tr B'C)^2 / tr(C'M^-1 C), B = fl(K C)."""
    d, lift = len(inverse), inverse @ root
    wide = root.astype(_WIDE)
    fine = gamma(root.size + d + 8, _FINE)
    exact = inverse.astype(_WIDE) @ wide
    value = float((wide * exact).sum()) * (1.0 + 4.0 * UNIT)
    value += e / (1.0 - e) * length(root) * length(exact.astype(np.float64)) * (1.0 + 1e-12)
    value += 2.0 * fine * length(root) ** 2 * length(inverse)
    overlap = float((lift.astype(_WIDE) * wide).sum()) * (1.0 - 4.0 * UNIT)
    overlap -= 2.0 * fine * length(lift) * length(root)
    return overlap * overlap / value * (1.0 - 8.0 * UNIT) if overlap > 0.0 and value > 0.0 else -math.inf


# ---------------------------------------------------------------- the criterion of any design


class Between(NamedTuple):
    """Proved bounds on a criterion."""

    low: float
    high: float


def enclose(rows: Matrix, shares: Vector, root: Vector | None) -> Between | None:
    """Bounds on log det M / d, or on trace C'M^-1 C, of M = sum shares_i x_i x_i'.

    With W lower triangular and W M W' = I + E, log det M = log det(I + E) - 2 sum log W_ii.
    None if M cannot be inverted well enough.

    Examples
    --------
    >>> low, high = enclose(np.eye(2), np.array([0.5, 0.5]), None)
    >>> low <= math.log(0.5) <= high, high - low < 1e-13
    (True, True)
    """
    wide = rows.astype(_WIDE)
    information = (wide * shares.astype(_WIDE)[:, None]).T @ wide
    if root is not None:
        return _enclose_trace(information, root, len(rows))
    return enclose_log_det(information, len(rows))


def enclose_log_det(matrix: Matrix, k: int = 0) -> Between | None:
    """Bounds on log det / d of a symmetric matrix that was summed up from k products.

    Examples
    --------
    >>> low, high = enclose_log_det(np.diag([2.0, 8.0]))
    >>> low <= math.log(4.0) <= high
    True
    """
    d, wide = len(matrix), matrix.astype(_WIDE)
    try:
        factor = np.tril(np.linalg.inv(np.linalg.cholesky(matrix.astype(np.float64))))
    except np.linalg.LinAlgError:
        return None
    turned = factor.astype(_WIDE) @ wide @ factor.T.astype(_WIDE) - np.eye(d, dtype=_WIDE)
    size = float(np.trace(wide)) * length(factor) ** 2 * (1.0 + 1e-12)
    lost = gamma(k + 2 * d + 16, _FINE) * size + 4.0 * d * _FINE
    e = float(np.sqrt((turned * turned).sum())) * (1.0 + 1e-12) + lost
    diagonal = np.diagonal(factor)
    if not (e < 0.5 and diagonal.min() > 0.0):
        return None
    logs = [-2.0 * math.log(value) for value in diagonal]
    middle = (float(np.trace(turned)) + math.fsum(logs)) / d
    away = math.sqrt(d) * lost + e * e / (2.0 * (1.0 - e) ** 2) + 16.0 * UNIT * (1.0 + sum(map(abs, logs)))
    away = away / d * (1.0 + 1e-12) + 4.0 * UNIT * (1.0 + abs(middle))
    return Between(middle - away, middle + away)


def _enclose_trace(information: Matrix, root: Vector, k: int) -> Between | None:
    inverse = _invert(information.astype(np.float64))
    if inverse is None:
        return None
    e, _ = _bound_error(inverse, information, k)
    if not e < 0.5:
        return None
    wide = root.astype(_WIDE)
    exact = inverse.astype(_WIDE) @ wide
    middle = float((wide * exact).sum())
    away = e / (1.0 - e) * length(root) * length(exact.astype(np.float64)) * (1.0 + 1e-12)
    away += 2.0 * gamma(root.size + len(inverse) + 8, _FINE) * length(root) ** 2 * length(inverse)
    away += 4.0 * UNIT * abs(middle)
    return Between(middle - away, middle + away)


def compare(one: Between, other: Between, root: Vector | None) -> float:
    """Lower bound of the efficiency of one design relative to another, from their criteria.

    Examples
    --------
    >>> round(compare(Between(0.0, 0.0), Between(0.1, 0.1), None), 6)
    0.904837
    """
    if root is None:
        return math.exp(one.low - other.high) * (1.0 - 16.0 * UNIT)
    return max(0.0, other.low / one.high) * (1.0 - 16.0 * UNIT)
