"""Probing: the most promising buckets of a store of codes, in rounds.

Atoms are kept as int8 codes, bucket after bucket, so that probing reads
contiguous memory. What the buckets are is a `Bucketing`'s: k-means or a hash.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from wolfhound.atoms import block_rows
from wolfhound.core import Atoms, Hits, Ids, Ints, Matrix, Vector, pulse
from wolfhound.oracles import _probe_kernels as kernels
from wolfhound.oracles._asked import Asked
from wolfhound.oracles._codes import Codes, coded
from wolfhound.oracles._encoding import encoded
from wolfhound.oracles._hits import offered, rescore_pairs
from wolfhound.threads import ordered

ENOUGH = 24
"""Candidates that are re-scored per query, at least."""

CAP = 0.25
"""Share of the atoms after which probing ends."""

_TOGETHER = 32
"""Queries that one thread answers at a time."""


class Bucketing(Protocol):
    """Puts atoms into buckets, and says which buckets to try first."""

    @property
    def buckets(self) -> int:
        """How many buckets there are."""

    def assign(self, rows: Matrix) -> Ints:
        """Bucket of each row."""

    def promises(self, queries: Vector, sizes: Vector) -> NDArray[np.float32]:
        """(m, buckets) numbers; buckets are tried from the highest to the lowest.

        Parameters
        ----------
        queries : (m, d) float64
        sizes : (m,)
            Their norms, rounded up.
        """


@dataclass(frozen=True, slots=True, eq=False)
class Buckets:
    """Codes of the atoms in the order of their buckets.

    Attributes
    ----------
    codes : Codes
    offsets : (buckets + 1,) int64
        Places where buckets begin.
    """

    codes: Codes
    offsets: Ints

    @classmethod
    def of(cls, arrays: Mapping[str, NDArray[Any]], numbers: Mapping[str, Any]) -> Buckets:
        """Put together what was saved."""
        return cls(Codes.of(arrays, numbers), np.asarray(arrays["offsets"]))

    @property
    def nbytes(self) -> int:
        """Memory that it takes."""
        return self.codes.nbytes + self.offsets.nbytes

    def arrays(self) -> dict[str, NDArray[Any]]:
        """What is to be saved, with `codes.numbers()`."""
        return self.codes.arrays() | {"offsets": self.offsets}


def filled(atoms: Atoms, bucketing: Bucketing, centre: Vector) -> Buckets:
    """Assign and encode all atoms: two passes."""
    parts = []
    for _, block in atoms.blocks(block_rows(atoms)):
        pulse(len(block))
        parts.append(bucketing.assign(block))
    owner = np.concatenate(parts)
    offsets = np.concatenate([[0], np.cumsum(np.bincount(owner, minlength=bucketing.buckets))])
    ids = np.argsort(owner, kind="stable")
    return Buckets(encoded(atoms, ids=ids, centre=centre), offsets.astype(np.int64))


def probed(
    atoms: Atoms,
    buckets: Buckets,
    bucketing: Bucketing,
    ask: Asked,
    *,
    thresholds: Vector | None,
    budget: int,
) -> Hits:
    """Answer from the best buckets, in rounds of doubling budgets.

    Parameters
    ----------
    atoms, buckets, bucketing
        What is searched.
    ask
        The queries.
    thresholds : (m,), optional
        A query is finished once its best atom scores as much, or when `CAP` of the
        atoms were probed. Without thresholds there is one round.
    budget
        Atoms to probe in the first round.
    """
    probe = _Probe(buckets, bucketing, ask)
    most = max(budget, int(CAP * buckets.codes.n))
    left = np.arange(len(ask.queries))
    while True:
        probe.round(left, budget)
        if thresholds is None or budget >= most:
            break
        best = rescore_pairs(atoms, ask.queries[left], probe.ids[left]).max(axis=1, initial=-np.inf)
        left = left[best < thresholds[left]]
        if not len(left):
            break
        budget = min(2 * budget, most)
    return offered(atoms, ask, probe.ids, scored=probe.scored)


class _Probe:
    """What is known of a batch of queries between two rounds."""

    def __init__(self, buckets: Buckets, bucketing: Bucketing, ask: Asked) -> None:
        m, room = len(ask.queries), max(ENOUGH, 2 * ask.k)
        self._buckets = buckets
        self._exclude = ask.exclude
        self._coded = coded(buckets.codes, ask)
        self._coded.rules["size"] = 0.0
        self._promises = bucketing.promises(ask.queries, ask.sizes)
        self._keys = np.empty((m, room), np.float32)
        self._places = np.empty((m, room), np.int64)
        self._fill = np.zeros(m, np.int64)
        self._done = np.zeros(m, np.int64)
        self.scored = np.full(m, bucketing.buckets, np.int64)

    @property
    def ids(self) -> Ids:
        """(m, room) candidates, padded with -1."""
        held = np.arange(self._places.shape[1]) < self._fill[:, None]
        return np.where(held, self._buckets.codes.ids[np.where(held, self._places, 0)], -1)

    def round(self, which: Ints, budget: int) -> None:
        """Go on with some queries until their buckets hold `budget` atoms."""
        parts = [which[start : start + _TOGETHER] for start in range(0, len(which), _TOGETHER)]
        if len(parts) == 1:
            self._go_on(which, budget)
            return
        for _ in ordered(lambda part: self._go_on(part, budget), parts, blas=False):
            pulse(0)

    def _go_on(self, which: Ints, budget: int) -> None:
        codes = self._buckets.codes
        kernels.probe(
            which,
            self._promises,
            self._buckets.offsets,
            budget,
            codes.blocks,
            codes.scales,
            codes.ids,
            self._coded.levels,
            self._coded.rules,
            self._exclude,
            self._keys,
            self._places,
            self._fill,
            self._done,
            self.scored,
        )
