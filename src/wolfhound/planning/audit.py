"""Whether an oracle's answers are right, and how good they are."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from wolfhound.core import Atoms, Hits, Ids, Vector

_SAMPLE = 1024
_CHUNK = 1 << 14


@dataclass(frozen=True, slots=True)
class QuerySample:
    """Queries to test with.

    Attributes
    ----------
    queries : (m, d) float64
        Random, spread as the atoms are.
    here : (m,) float64
        <query, mean of some atoms>: where a gap is counted from.
    """

    queries: Vector
    here: Vector

    def ratios(self, hits: Hits, truth: Hits) -> Vector:
        """(m,) gap ratios: 1 is the best atom, 0 no better than the mean."""
        gaps = truth.scores[:, 0] - self.here
        return np.where(gaps > 0.0, (hits.scores[:, 0] - self.here) / np.where(gaps > 0.0, gaps, 1.0), 1.0)


def sample_queries(atoms: Atoms, size: int, *, seed: int) -> QuerySample:
    """Return `size` random combinations of atoms about their mean."""
    rng = np.random.default_rng(seed)
    n = atoms.shape[0]
    ids: Ids = np.sort(rng.choice(n, min(n, _SAMPLE), replace=False))
    rows = atoms.take(ids).astype(np.float64)
    mean = rows.mean(axis=0)
    queries = rng.standard_normal((size, len(rows))) @ (rows - mean) / np.sqrt(len(rows))
    return QuerySample(queries, queries @ mean)


def find_faults(atoms: Atoms, queries: Vector, hits: Hits, truth: Hits, *, exact: bool) -> list[str]:
    """Say what is wrong with answers (k = 1); an empty list if nothing is.

    Parameters
    ----------
    atoms, queries
        What was searched, and for what.
    hits
        The answers.
    truth
        Those of `Scan`.
    exact
        Whether they must be the same.
    """
    ids, scores = hits.ids[:, 0], hits.scores[:, 0]
    if not ((ids >= 0) & (ids < atoms.shape[0])).all():
        return ["a query has no answer"]
    rows = atoms.take(ids).astype(np.float64)
    slack = 1e-9 * np.abs(rows * queries).sum(axis=1)
    found = []
    if (np.abs(np.einsum("ij,ij->i", rows, queries) - scores) > slack).any():
        found.append("a score is not the inner product of query and atom")
    if (scores > truth.bounds).any():
        found.append("a score lies above the proved bound of Scan")
    if (truth.scores[:, 0] > hits.bounds).any():
        found.append("the best atom lies above a bound")
    if exact and not (np.array_equal(ids, truth.ids[:, 0]) and np.array_equal(scores, truth.scores[:, 0])):
        found.append("the answers are not those of Scan")
    return found


def is_best(atoms: Atoms, queries: Vector, truth: Hits) -> bool:
    """Whether numpy, in float64, finds the same best scores, below the bounds."""
    best, largest = np.full(len(queries), -np.inf), 0.0
    for _, rows in atoms.blocks(_CHUNK):
        best = np.maximum(best, (rows.astype(np.float64) @ queries.T).max(axis=0))
        largest = max(largest, float(np.abs(rows).max()))
    slack = 1e-12 * np.abs(queries).sum(axis=1) * largest
    same = np.abs(truth.scores[:, 0] - best) <= slack
    return bool((same & (best <= truth.bounds + slack)).all())
