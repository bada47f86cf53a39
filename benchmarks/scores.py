"""How the scores of a query are spread over the atoms, and what a uniform subset finds."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math

import numpy as np
from reference import Matrix, Vector
from walks import Walk

TOP = 4096
"""Scores that are kept per query: a subset of n/100 atoms hardly ever misses them all."""

_TOGETHER = 32


def spread(atoms: Matrix, walk: Walk, ratio: float) -> tuple[Vector, float]:
    """Mean gap ratio of the best, second, ... atom, and how many atoms have a ratio."""
    top = min(TOP, len(atoms))
    profile, good = np.zeros(top), 0
    for at in range(0, len(walk.here), _TOGETHER):
        some = walk.part(slice(at, at + _TOGETHER))
        scores = some.queries.astype(atoms.dtype) @ atoms.T
        floor = some.here + ratio * (some.best - some.here)
        good += int((scores >= floor.astype(atoms.dtype)[:, None]).sum())
        best = np.sort(np.partition(scores, len(atoms) - top, axis=1)[:, -top:], axis=1)[:, ::-1]
        profile += ((best - some.here[:, None]) / (some.best - some.here)[:, None]).sum(0)
    return profile / len(walk.here), good / len(walk.here)


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
