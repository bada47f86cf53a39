"""Maximum likelihood of a mixture: the mean negative log of a positive point."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from wolfhound.core.contracts import Ints, Matrix, Point, Vector
from wolfhound.core.rounding import ELEMENTWISE, SAFE, TINY, gamma, length, product
from wolfhound.core.validate import as_floats, real_array, require
from wolfhound.objectives.plain import PlainObjective, outside

_COVERED = 1e-3
_EM_STEPS = 10
_NEGLIGIBLE = 1e-7
_BLOCK_ENTRIES = 1 << 22


@dataclass(frozen=True, slots=True, eq=False)
class MixtureLikelihood(PlainObjective):
    """Mean negative log-likelihood of a mixture (the mixture NPMLE).

    f(x) = -1/d sum_j log x_j. An atom holds the likelihoods of one component at
    the d observations, so x = sum_i w_i s_i holds those of the mixture with
    weights w. Atoms should be scaled so that each observation's maximum over the
    components is 1, which only adds a constant to f: see `likelihood_atoms`.
    Outside the domain (an x_j below the smallest normal number) the value is inf
    and the gradient 0, with infinite errors.

    Examples
    --------
    >>> point = MixtureLikelihood().at(np.array([1.0, 0.25]))
    >>> round(point.value, 6), point.grad
    (0.693147, array([-0.5, -2. ]))
    """

    convex = True
    smoothness = math.inf  # unbounded near the edge of the domain
    floor = -math.inf  # x may be anything positive

    def at(self, x: Vector, drift: Vector | float = 0.0) -> Point:
        """Evaluate f at x."""
        x = as_floats(x, "x")
        d = len(x)
        if not x.min() >= TINY:
            return outside(x)
        logs, grad = np.log(x), -1.0 / (d * x)
        moved, turn = _bound_drift(x, grad, drift)
        lost = gamma(d + ELEMENTWISE) * float(np.abs(logs).sum()) / d
        return Point(
            x=x,
            value=-float(logs.sum()) / d,
            grad=grad,
            value_error=SAFE * (lost + moved + TINY),
            grad_error=gamma(4) * length(grad),
            turn=turn,
        )

    def values(self, rows: Matrix) -> Vector:
        """f at each row."""
        rows = as_floats(rows, "rows")
        inside = rows.min(axis=1) >= TINY
        out = np.full(len(rows), math.inf)
        out[inside] = -np.log(rows[inside]).mean(axis=1)
        return out

    def curvature(self, point: Point) -> Vector:
        """1 / (d x^2)."""
        # Kept finite; the square of a smaller number would underflow.
        x = np.maximum(point.x, 1e-150)
        return np.asarray(1.0 / (len(x) * x * x))

    def begin(self, rows: Matrix) -> Vector:
        """Weights after 10 steps of expectation-maximisation, from equal ones.

        Every step multiplies w_i by 1/d sum_j s_ij / x_j, which keeps the sum 1
        and never lowers the likelihood. Negligible weights become 0.
        """
        top = rows.max(axis=0)
        scaled = np.maximum(rows / np.where(top > 0.0, top, 1.0), 0.0).astype(np.float32, copy=False)
        weights = np.full(len(rows), 1.0 / len(rows))
        for _ in range(_EM_STEPS):
            mixed = np.maximum(product(weights.astype(np.float32), scaled), np.float32(1e-30))
            grown = weights * product(scaled, 1.0 / mixed)
            weights = grown / grown.sum() if grown.sum() > 0.0 else weights
        weights[weights < _NEGLIGIBLE / len(weights)] = 0.0
        return np.asarray(weights / weights.sum())

    def find_uncovered(self, rows: Matrix) -> Ints:
        """Observations that no row explains: maximum below 1e-3."""
        return np.flatnonzero(rows.max(axis=0, initial=0.0) < _COVERED).astype(np.int64)


def likelihood_atoms(
    log_likelihoods: Matrix, *, dtype: type[np.floating[Any]] = np.float32
) -> tuple[Matrix, Vector]:
    """Turn log-likelihoods into atoms whose largest entry is 1 per observation.

    atoms[i, j] = exp(l_ij - o_j) with o_j = max_i l_ij, in logs before float32,
    so that nothing that matters underflows. The mean log-likelihood of the
    mixture x is ``offsets.mean() - MixtureLikelihood().at(x).value``.

    Parameters
    ----------
    log_likelihoods : (n, d)
        One row per component, one column per observation; -inf is allowed.
    dtype
        float32, whose rounding moves the minimum by up to 6e-8, or float64 for smaller gaps.

    Returns
    -------
    atoms : (n, d)
    offsets : (d,) float64

    Examples
    --------
    >>> atoms, offsets = likelihood_atoms(np.log([[0.2, 0.1], [0.1, 0.4]]))
    >>> atoms
    array([[1.  , 0.25],
           [0.5 , 1.  ]], dtype=float32)
    """
    require(dtype in (np.float32, np.float64), "dtype", "np.float32 or np.float64", dtype)
    logs = real_array(log_likelihoods, "log_likelihoods", 2)
    n, d = logs.shape
    require(n > 0 and d > 0, "log_likelihoods", "non-empty", f"shape {logs.shape}")
    step = max(1, _BLOCK_ENTRIES // d)
    offsets = np.full(d, -np.inf)
    for first in range(0, n, step):
        np.maximum(offsets, logs[first : first + step].max(axis=0), out=offsets)
    bad = np.flatnonzero(~np.isfinite(offsets))
    rule = "below inf, not nan, and above -inf somewhere in each column"
    require(len(bad) == 0, "log_likelihoods", rule, f"a maximum of {offsets[bad[:1]]} in columns {bad[:5]}")
    atoms = np.empty((n, d), dtype)
    for first in range(0, n, step):
        np.exp(logs[first : first + step] - offsets, out=atoms[first : first + step], casting="same_kind")
    return atoms, offsets


def _bound_drift(x: Vector, grad: Vector, drift: Vector | float) -> tuple[float, float]:
    """Upper bounds on |f(x') - f(x)| and |grad f(x') - grad f(x)| for all |x' - x| <= drift."""
    shares = np.asarray(drift, np.float64) / x * (1.0 + gamma(4))
    if shares.max() >= 1.0:
        return math.inf, math.inf
    moved = float(-np.log1p(-shares).sum()) / len(x) if np.any(drift) else 0.0
    return moved, SAFE * length(grad * (shares / (1.0 - shares)))
