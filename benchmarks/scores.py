"""How the scores of a query are spread over the atoms, and what a uniform subset finds."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math

import numpy as np
from reference import Matrix, Vector
from walks import Walk

TOP = 4096
"""Scores that are kept per query: a subset of n/100 atoms hardly ever misses them all."""


def spread(walk: Walk, scores: Matrix, ratio: float) -> tuple[Vector, float]:
    """Mean gap ratio of the best, second, ... atom, and how many atoms have a ratio.

    `scores` are (m, n), of all atoms.
    """
    n = scores.shape[1]
    top = min(TOP, n)
    floor = walk.here + ratio * (walk.best - walk.here)
    good = float((scores >= floor.astype(scores.dtype)[:, None]).sum(1).mean())
    best = np.sort(np.partition(scores, n - top, axis=1)[:, -top:], axis=1)[:, ::-1]
    profile = (best - walk.here[:, None]) / (walk.best - walk.here)[:, None]
    return profile.mean(0, dtype=np.float64), good


def uniform_share(profile: Vector, ratio: float) -> float:
    """Share of the atoms that a random subset needs for a mean gap ratio.

    The best atom of a subset of share p is the j-th best of all with probability
    p (1-p)^j. Beyond the profile atoms are taken for as good as its last, which
    is far from the share that is looked for.

    Examples
    --------
    >>> round(uniform_share(np.array([1.0, 0.5, 0.0]), 0.75), 6)
    0.609612
    """
    ranks = np.arange(len(profile))
    low, high = 1e-6, 1.0
    for _ in range(60):
        share = math.sqrt(low * high)
        missed = (1.0 - share) ** ranks
        mean = float((share * missed) @ profile + missed[-1] * (1.0 - share) * profile[-1])
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
