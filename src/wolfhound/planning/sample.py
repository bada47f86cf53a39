"""What a sample of the atoms shows: how they spread, and how well queries find them."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from dataclasses import dataclass
from typing import final

import numpy as np
from scipy.special import betaincinv, btdtria

from wolfhound.atoms import finite_rows
from wolfhound.core import Atoms, Vector
from wolfhound.validate import require

SAMPLE = 4096
"""Atoms that are read."""

_PICKS = 64
_SKIPPED = 8
_EDGE = 1e-9


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What a sample of atoms shows.

    Attributes
    ----------
    sample : int
        Atoms that were read.
    radius : float
        The largest |s - m|, m their mean.
    spread : float
        The 90th percentile of |s - m| over the 10th.
    tau : float
        The median of ``<q, s - m> / (|q| radius)`` of the best atom s for the
        queries q of herding, carried over from the sample to n.
    """

    sample: int
    radius: float
    spread: float
    tau: float


def sample_facts(atoms: Atoms, *, seed: int) -> Facts:
    """Read a sample of atoms with random ids, and pick some of them by herding.

    Examples
    --------
    >>> from wolfhound.atoms import ArrayAtoms
    >>> square = ArrayAtoms([[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]])
    >>> found = sample_facts(square, seed=0)
    >>> found.sample, round(found.radius, 6), found.spread
    (4, 1.414214, 1.0)
    """
    n = atoms.shape[0]
    rng = np.random.default_rng(seed)
    ids = np.sort(rng.choice(n, min(n, SAMPLE), replace=False))
    rows = finite_rows(atoms, ids)
    unit = float(np.abs(rows).max())
    require(unit > 0.0, "atoms", "of different rows", "only zeros")
    centred = rows / np.float64(unit)
    centred -= centred.mean(axis=0)
    lengths = np.sqrt(np.einsum("ij,ij->i", centred, centred))
    radius = float(lengths.max())
    # The mean of equal rows is not exact.
    require(radius > 1e-12, "atoms", "of different rows", f"{len(rows):,} equal ones")
    low, high = np.quantile(lengths, [0.1, 0.9])
    return Facts(
        sample=len(rows),
        radius=unit * radius,
        spread=float(high / low) if low > 0.0 else math.inf,
        tau=_carry_over(_typical(centred / radius, int(rng.integers(len(rows)))), len(rows), n),
    )


def isotropic_tau(n: int, d: int) -> float:
    """Cosine of a direction with the best of n random ones; the median.

    A cap of cosine t holds a share of ``I((d-1)/2, 1/2; 1 - t^2) / 2`` of the sphere, I
    the incomplete beta function; all n miss a cap of share log(2) / n with
    probability 1/2.

    Examples
    --------
    >>> round(isotropic_tau(10**6, 128), 3), round(isotropic_tau(10**6, 3), 6)
    (0.41, 0.999999)
    """
    return _best_of(n, 0.5 * (d - 1)) if d > 1 else 1.0 - _EDGE


def _typical(units: Vector, first: int) -> float:
    """Median over the queries ``mean - w`` of herding from one of the atoms."""
    w = units[first].copy()
    found = []
    for t in range(_PICKS):
        size = float(np.linalg.norm(w))
        if size < _EDGE:
            break
        scores = units @ (-w / size)
        best = int(scores.argmax())
        found.append(float(scores[best]))
        w += (units[best] - w) / (t + 2.0)
    # The first queries are those of single atoms.
    return _inside(float(np.median(found[_SKIPPED:] or found or [1.0])))


def _carry_over(tau: float, sample: int, n: int) -> float:
    """Carry tau over to n atoms, as if they filled a sphere of some dimension, not necessarily whole."""
    if sample == n:
        return tau
    half = float(btdtria(_miss_share(sample), 0.5, 1.0 - tau * tau))
    return _best_of(n, half) if math.isfinite(half) and half > 0.0 else tau


def _best_of(n: int, half: float) -> float:
    return _inside(math.sqrt(1.0 - float(betaincinv(half, 0.5, _miss_share(n)))))


def _miss_share(n: int) -> float:
    """Twice the share of a cap that n random points miss with probability 1/2."""
    return 2.0 * math.log(2.0) / n


def _inside(tau: float) -> float:
    return min(max(tau, _EDGE), 1.0 - _EDGE)
