"""Efficiencies that are proved: any float matrix is a certificate, rounding included.

With K symmetric, close to M^-1, and q at least x'Nx of every candidate:

- D, N = K: for every information matrix M*, log det M* + log det K <= d log(tr(K M*) / d), so
  the efficiency is at least (d / t) det(K M)^(1/d), t >= tr(K M*);
- trace C'M^-1 C, N = B B', B = K C: by Cauchy and Schwarz (tr B'C)^2 <= tr(B'M*B) tr(C'M*^-1 C), so
  it is at least (tr B'C)^2 / (t tr(C'M^-1 C)), t >= tr(B'M*B). This C is the true one, which the
  computed one differs from by at most a known share of its rows: of a singular region, and in any units.

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

from wolfhound.core.contracts import Matrix, Vector
from wolfhound.core.rounding import SAFE, UNIT, gamma, length

WIDE = np.longdouble
_FINE = float(np.finfo(WIDE).eps) / 2.0
OPEN = 1e-3  # rounding that keeps more of an efficiency, or of a volume, open than this is no excuse


class Certificate(NamedTuple):
    """What is asked of all candidates, and what their answer proves."""

    query: Vector  # (d, d) N, symmetric
    root: Vector | None  # (d, r) C
    lead: float  # lower bound of log det(K M) / d, or of (tr B'C)^2 / tr(C'M^-1 C); -inf: nothing proved
    plain: float  # the same as computed, without any bound on its rounding
    spill: float  # bound on the Frobenius norm of B B' - N
    fixed: float  # bound on the mean of x'Nx over the given runs
    fixed_size: float  # and of |x|^2
    fixed_plain: float  # the mean of x'Nx as computed
    share: float  # a, rounded such that t is not too small

    def efficiency(self, bound: float, radius: float) -> float:
        """Lower bound of the efficiency, from bounds on <svec N, svec xx'> and on |x|^2 of all candidates."""
        if not (math.isfinite(bound) and math.isfinite(radius) and math.isfinite(self.lead)):
            return 0.0
        # The query and the atoms were rounded: three units each, off the diagonal.
        top = bound + (self.spill + 8.0 * UNIT * length(self.query)) * radius
        given = self.fixed + self.spill * self.fixed_size
        reach = ((1.0 - self.share) * top + self.share * given) * (1.0 + 16.0 * UNIT)
        return max(0.0, self._relate(self.lead, reach) * (1.0 - 32.0 * UNIT))

    def slack(self, score: float, bound: float, radius: float) -> float:
        """How much of minus the logarithm of `efficiency` is owed to bounds on rounding; inf if too much.

        `score` is the largest x'Nx of all candidates, as computed.
        """
        reach = (1.0 - self.share) * score + self.share * self.fixed_plain
        return excuse(self._relate(self.plain, reach), self.efficiency(bound, radius))

    def _relate(self, lead: float, reach: float) -> float:
        """Efficiency by the lead and t."""
        if not (reach > 0.0 and math.isfinite(lead)):
            return 0.0
        return len(self.query) / reach * math.exp(lead) if self.root is None else lead / reach


def excuse(plain: float, proved: float) -> float:
    """Logarithm of what was computed over what is proved: owed to rounding; inf if that explains too much.

    Examples
    --------
    >>> round(excuse(1.0, 1.0 - 1e-9), 12), excuse(1.0, 0.5)
    (1e-09, inf)
    """
    if not 0.0 < proved <= plain < math.inf:
        return 0.0 if proved > 0.0 else math.inf
    found = math.log(plain / proved)
    return found if found <= OPEN else math.inf


def certify(
    rows: Matrix,
    weights: Vector,
    *,
    root: Vector | None,
    given: Matrix,
    share: float,
    root_error: float = 0.0,
) -> Certificate | None:
    """Prepare the proof for a design; None if its information cannot be inverted.

    Weights are taken relative to their sum. `given` (g, d) are rows run already, `share` that of these in
    all; `root_error` is the share of their norms by which rows of the true C may differ from `root`.
    """
    wide = np.concatenate([rows.astype(WIDE), given.astype(WIDE)])
    total = max(1.0, math.fsum(weights) * (1.0 + 2.0 * UNIT))
    each = np.full(len(given), WIDE(share) / max(len(given), 1))
    shares = np.concatenate([(1 - WIDE(share)) * weights.astype(WIDE), each])
    information = (wide * shares[:, None]).T @ wide
    inverse = invert(information.astype(np.float64))
    if inverse is None:
        return None
    e, trace, plain = _bound_error(inverse, information, len(wide))
    query, spill, d = inverse, 0.0, len(inverse)
    if root is not None:
        lift = inverse @ root
        query = lift @ lift.T
        query = np.triu(query) + np.triu(query, 1).T
        spill = gamma(root.shape[1] + 2) * length(lift) ** 2 * (1.0 + 1e-12)
    if not e < 0.5:
        lead = plain = -math.inf
    elif root is None:
        lead = (trace - e * e / (2.0 * (1.0 - e) ** 2) * (1.0 + 1e-12)) / d - 4.0 * UNIT
        lead -= math.log(total) + 4.0 * UNIT
        plain /= d
    else:
        lead, plain = _lead_of_trace(inverse, root, e, root_error)
        lead /= total
    size = gamma(2 * d + 8) * length(query)
    fixed_size = float((given.astype(np.float64) ** 2).sum(axis=1).mean()) * (1.0 + 1e-12) if share else 0.0
    fixed = float(np.einsum("ij,jk,ik->", given, query, given)) / max(len(given), 1) if share else 0.0
    lost = (size + gamma(len(given) + 2) * length(query)) * fixed_size
    return Certificate(query, root, lead, plain, spill, fixed + lost, fixed_size, fixed, share)


def invert(information: Vector) -> Vector | None:
    """A symmetric matrix close to the inverse."""
    try:
        factor = np.linalg.inv(np.linalg.cholesky(information))
    except np.linalg.LinAlgError:
        return None
    inverse = factor.T @ factor
    inverse = np.triu(inverse) + np.triu(inverse, 1).T
    return inverse if np.isfinite(inverse).all() else None


def _bound_error(inverse: Vector, information: Matrix, k: int) -> tuple[float, float, float]:
    """Bounds: of the norm of K M - I from above, of its trace from below; and the trace as computed."""
    d = len(inverse)
    rest = inverse.astype(WIDE) @ information - np.eye(d, dtype=WIDE)
    # The entries of M are sums of k products of three factors; its norm is at most its trace.
    size = float(np.trace(information)) * (1.0 + 1e-12)
    lost = gamma(k + 2 * d + 16, _FINE) * length(inverse) * size * (1.0 + 1e-12) + 4.0 * d * _FINE
    e = float(np.sqrt((rest * rest).sum())) * (1.0 + 1e-12) + lost
    trace = float(np.trace(rest))
    return e, trace - math.sqrt(d) * lost * (1.0 + 1e-12) - 4.0 * UNIT * d * e, trace


def _lead_of_trace(inverse: Vector, root: Vector, e: float, root_error: float) -> tuple[float, float]:
    """(tr B'C)^2 / tr(C'M^-1 C), B = fl(K C): a lower bound for the true C, and as computed."""
    lift, wide = inverse @ root, root.astype(WIDE)
    near = float((lift.astype(WIDE) * wide).sum())
    fine = gamma(root.size + len(inverse) + 8, _FINE)
    overlap = near * (1.0 - 4.0 * UNIT) - 2.0 * fine * length(lift) * length(root)
    # The true C is C + F, rows of F below the error times those of C: |tr B'F| <= sum |B_j| |F_j|.
    sizes = np.sqrt((lift * lift).sum(axis=1) * (root * root).sum(axis=1))
    overlap -= root_error * float(sizes.sum()) * SAFE
    value, plain = _bound_trace(inverse, root, e, root_error)
    if not (overlap > 0.0 and value.high > 0.0 and plain > 0.0):
        return -math.inf, -math.inf
    return overlap * overlap / value.high * (1.0 - 8.0 * UNIT), near * near / plain


class Between(NamedTuple):
    """Proved bounds on a criterion."""

    low: float
    high: float


def enclose(rows: Matrix, shares: Vector, root: Vector | None, root_error: float = 0.0) -> Between | None:
    """Bounds on log det M / d, or on trace C'M^-1 C, of M = sum shares_i x_i x_i'.

    With W lower triangular and W M W' = I + E, log det M = log det(I + E) - 2 sum log W_ii.
    None if M cannot be inverted well enough.
    """
    wide = rows.astype(WIDE)
    information = (wide * shares.astype(WIDE)[:, None]).T @ wide
    if root is None:
        return enclose_log_det(information, len(rows))
    inverse = invert(information.astype(np.float64))
    e = math.inf if inverse is None else _bound_error(inverse, information, len(rows))[0]
    return _bound_trace(inverse, root, e, root_error)[0] if inverse is not None and e < 0.5 else None


def enclose_log_det(matrix: Matrix, k: int = 0) -> Between | None:
    """Bounds on log det / d of a symmetric matrix that was summed up from k products."""
    d, wide = len(matrix), matrix.astype(WIDE)
    try:
        factor = np.tril(np.linalg.inv(np.linalg.cholesky(matrix.astype(np.float64))))
    except np.linalg.LinAlgError:
        return None
    turned = factor.astype(WIDE) @ wide @ factor.T.astype(WIDE) - np.eye(d, dtype=WIDE)
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


def _bound_trace(inverse: Vector, root: Vector, e: float, root_error: float) -> tuple[Between, float]:
    """Bounds on tr(C'M^-1 C) for the true C, where e < 1 bounds |K M - I|; and tr(C'K C) as computed."""
    wide = root.astype(WIDE)
    exact = inverse.astype(WIDE) @ wide
    plain = float((wide * exact).sum())
    away = e / (1.0 - e) * length(root) * length(exact.astype(np.float64)) * (1.0 + 1e-12)
    lost = 2.0 * gamma(root.size + len(inverse) + 8, _FINE) * length(root) ** 2 * length(inverse)
    low, high = plain * (1.0 - 4.0 * UNIT) - away - lost, plain * (1.0 + 4.0 * UNIT) + away + lost
    # The true C has F more: |M^-1/2 F| is at most this, since |M^-1| <= |K| / (1 - e).
    more = root_error * (length(root) * math.sqrt(length(inverse) / (1.0 - e)) * SAFE)
    low = max(0.0, math.sqrt(max(low, 0.0)) - more)
    high = max(0.0, math.sqrt(max(high, 0.0)) + more)
    return Between(low * low * (1.0 - 8.0 * UNIT), high * high * (1.0 + 8.0 * UNIT)), plain


def compare(one: Between, other: Between, root: Vector | None) -> float:
    """Lower bound of the efficiency of one design relative to another, from their criteria.

    Examples
    --------
    >>> round(compare(Between(0.0, 0.0), Between(0.1, 0.1), None), 6)
    0.904837
    """
    if root is None:
        return math.exp(one.low - other.high) * (1.0 - 16.0 * UNIT)
    return other.low / one.high * (1.0 - 16.0 * UNIT) if one.high > 0.0 else 0.0
