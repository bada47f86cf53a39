"""How the scores of a query are spread over the atoms, and what a uniform subset finds."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math

import numpy as np
from reference import Matrix, Vector
from walks import Walk

TOP = 4096
"""Scores that are kept per query: a subset of n/100 atoms hardly ever misses them all."""


def profile(walk: Walk, scores: Matrix) -> Vector:
    """Mean gap ratio of the best, second, ... atom; `scores` are (m, n), of all atoms."""
    n = scores.shape[1]
    top = min(TOP, n)
    best = np.sort(np.partition(scores, n - top, axis=1)[:, -top:], axis=1)[:, ::-1]
    ratios = (best - walk.here[:, None]) / (walk.best - walk.here)[:, None]
    return np.asarray(ratios.mean(0, dtype=np.float64))


def good(walk: Walk, scores: Matrix, ratio: float) -> float:
    """How many atoms have a gap ratio; the median over queries, as the first of a run have very many."""
    floor = walk.here + ratio * (walk.best - walk.here)
    return float(np.median((scores >= floor.astype(scores.dtype)[:, None]).sum(1)))


def cosine(walk: Walk, scores: Matrix, atoms: Matrix, centre: Vector) -> float:
    """Mean cosine of a query and its best atom, seen from the centre."""
    away = atoms[scores.argmax(1)] - centre
    products = np.einsum("ij,ij->i", walk.queries, away)
    return float((products / np.linalg.norm(walk.queries, axis=1) / np.linalg.norm(away, axis=1)).mean())


def uniform_share(ratios: Vector, ratio: float) -> float:
    """Share of the atoms that a random subset needs for a mean gap ratio.

    The best atom of a subset of share p is the j-th best of all with probability
    p (1-p)^j. `ratios` are a `profile`; atoms beyond it count as much as its last,
    which does not matter near the share that is looked for.

    Examples
    --------
    >>> round(uniform_share(np.array([1.0, 0.5, 0.0]), 0.75), 6)
    0.609612
    """
    ranks = np.arange(len(ratios))
    low, high = 1e-6, 1.0
    for _ in range(60):
        share = math.sqrt(low * high)
        missed = (1.0 - share) ** ranks
        mean = float((share * missed) @ ratios + missed[-1] * (1.0 - share) * ratios[-1])
        low, high = (share, high) if mean < ratio else (low, share)
    return high


def needed(costs: Vector, ratios: Vector, wanted: float) -> float:
    """Cost of a wanted ratio on a rising curve, between its points in logarithms; nan if none.

    Examples
    --------
    >>> round(needed(np.array([10.0, 1000.0]), np.array([0.8, 1.0]), 0.9), 9)
    100.0
    """
    rising = np.maximum.accumulate(ratios)
    if rising[-1] < wanted:
        return math.nan
    at = int(np.argmax(rising >= wanted))
    if at == 0:
        return float(costs[0])
    share = (wanted - rising[at - 1]) / (rising[at] - rising[at - 1])
    return float(costs[at - 1] ** (1.0 - share) * costs[at] ** share)
