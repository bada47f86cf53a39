"""Screening: most atoms cannot win a query that is close to an earlier one.

With the scores of a reference query q0 and the norms kept, any number a gives
``<q, s> = a <q0, s> + <q - a q0, s> <= a <q0, s> + |q - a q0| |s|``.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from wolfhound.core import Atoms, Ids, Singles, Vector
from wolfhound.oracles import _scan_kernels as kernels
from wolfhound.oracles._best import Best
from wolfhound.oracles._hits import rescore
from wolfhound.oracles._norms import Norms
from wolfhound.oracles._one_kernels import CHUNK, PROBES, SHARE, BareReference, screen_rule

WORTH = 2 * PROBES
"""Atoms from which on screening can score fewer than all."""

_RANGE = 2.0**100


@dataclass(frozen=True, slots=True)
class ReferencePass:
    """A full pass that was kept.

    Attributes
    ----------
    query : (d,) float64
    size : float
        |query|, rounded up.
    scale : float
        The power of two by which kept scores were multiplied.
    scores : (n,) float32
        ``scale * score``.
    norms : Norms
        Of each atom too.
    """

    query: Vector
    size: float
    scale: float
    scores: Singles
    norms: Norms

    def rule(self, query: Vector, size: float) -> kernels.ScreenRule:
        """Bounds on the true and on the computed float64 scores of a query, see `screen_rule`."""
        return screen_rule(query, size, self.query, self.size, self.scale)

    def pack(self) -> BareReference:
        """What kernels read."""
        return (self.query, self.size, self.scale, self.scores, self.norms.each)


def scale_of(size: float) -> float:
    """Return a power of two that brings a query of this size near 1."""
    return math.ldexp(1.0, -math.frexp(size)[1])


def fits(size: float, radius: float) -> bool:
    """Whether scaled scores and norms are far from the limits of float32."""
    return 1.0 / _RANGE < size < _RANGE and 1.0 / _RANGE < radius < _RANGE


class Screen:
    """Upper bounds on the scores of one query, computed chunk by chunk.

    Parameters
    ----------
    reference
        What is known.
    query, size
        The new query and its norm, rounded up; `fits` must hold.
    banned
        Atoms that are not asked for, ascending.
    """

    def __init__(self, reference: ReferencePass, query: Vector, size: float, banned: Ids) -> None:
        self._reference = reference
        self._query = query
        self._size = size
        self._banned = banned
        self._rule = reference.rule(query, size)
        self.probed = 0

    def survivors(self, atoms: Atoms, k: int) -> Ids | None:
        """Return the atoms that can win, filled up to k by best upper bounds.

        None if more than a small share of the atoms can win.
        """
        if self._rule.slope <= 0.0 or self._rule.rho > 0.5 * self._size:
            return None
        probes = self._probes()
        if not len(probes):
            return None
        self.probed = len(probes)
        best = float(rescore(atoms.take(probes), self._query).max())
        can_win = self._reaching(best, int(SHARE * atoms.shape[0]))
        if can_win is None or len(can_win) >= k:
            return can_win
        return self._highest(k)

    def _chunks(self) -> Iterator[tuple[int, Vector]]:
        """Yield (first id, upper bounds); -inf for banned atoms."""
        ref = self._reference
        for first in range(0, len(ref.scores), CHUNK):
            stop = min(first + CHUNK, len(ref.scores))
            out = np.empty(stop - first)
            kernels.uppers(ref.scores[first:stop], ref.norms.each[first:stop], self._rule, out)
            low, high = np.searchsorted(self._banned, (first, stop))
            out[self._banned[low:high] - first] = -np.inf
            yield first, out

    def _probes(self) -> Ids:
        """Return atoms with high upper bounds, far apart: the best is a good threshold."""
        n = len(self._reference.scores)
        window = max(1, n // PROBES)
        best, ids = np.full(-(-n // window), -np.inf), np.full(-(-n // window), -1)
        for first, uppers in self._chunks():
            kernels.peaks(uppers, first, window, best[first // window :], ids[first // window :])
        return ids[ids >= 0]

    def _reaching(self, threshold: float, most: int) -> Ids | None:
        """Return the atoms whose upper bound is at least the threshold."""
        below = np.nextafter(threshold, -np.inf)
        parts, size = [], 0
        for first, uppers in self._chunks():
            parts.append(kernels.collect(uppers, below) + first)
            size += len(parts[-1])
            if size > most:
                return None
        return np.concatenate(parts)

    def _highest(self, k: int) -> Ids:
        """Return the k atoms of highest upper bounds."""
        best = Best(k)
        for first, uppers in self._chunks():
            found = kernels.collect(uppers, best.floor_for(uppers))
            best.add(uppers[found], found + first)
        return best.entries()[1]
