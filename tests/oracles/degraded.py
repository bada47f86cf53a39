"""Bad oracles: `Degraded` has a known gap ratio, for experiments on the theory."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from wolfhound.core.contracts import Atoms, AtomsLike, Hits, Ids, Matrix, Oracle, State, Vector
from wolfhound.data.atoms import as_atoms
from wolfhound.oracles.asking import check_question, offer


@dataclass
class Follower:
    """Knows where a run is: a callback of `minimize`."""

    x: Vector = field(default_factory=lambda: np.empty(0))

    def __call__(self, state: State) -> None:
        self.x = state.point.x

    def here(self, query: Vector) -> float:
        """<query, x>."""
        return float(query @ self.x)


@dataclass
class Degraded:
    """Answers with the worst atom whose gap ratio is at least c; proves nothing.

    The ratio of an atom is (score - here) / (best score - here), where here is
    <query, x>. No oracle knows x, so the caller must say.

    Parameters
    ----------
    oracle
        Exact, and its top-k too.
    c
        In (0, 1].
    here
        <query, x> of a query.

    Attributes
    ----------
    ratios : list
        Of all answers so far; 1 where nothing is better than x.
    """

    oracle: Oracle
    c: float
    here: Callable[[Vector], float]
    ratios: list[float] = field(default_factory=list)

    @property
    def atoms(self) -> Atoms:
        return self.oracle.atoms

    def query(
        self, queries: Matrix, *, k: int = 1, thresholds: Vector | None = None, exclude: Ids | None = None
    ) -> Hits:
        queries = np.atleast_2d(queries)
        m, n = len(queries), self.atoms.shape[0]
        every = self.oracle.query(queries, k=n, exclude=exclude)
        columns = np.array([self._column(every.scores[i], queries[i]) for i in range(m)])
        which = columns[:, None] + np.arange(min(k, n))
        there = which < n
        which = np.minimum(which, n - 1)
        return Hits(
            ids=np.where(there, np.take_along_axis(every.ids, which, 1), -1),
            scores=np.where(there, np.take_along_axis(every.scores, which, 1), -np.inf),
            bounds=np.full(m, math.inf),
            rows=every.rows,
            slots=np.where(there, np.take_along_axis(every.slots, which, 1), 0),
            scored=np.full(m, n),
            passes=0.0,
        )

    def _column(self, scores: Matrix, query: Vector) -> int:
        """Place of the answer among the atoms, best first."""
        gaps = scores[np.isfinite(scores)] - self.here(query)
        hopeless = len(gaps) == 0 or gaps[0] <= 0.0
        ratios = np.ones(1) if hopeless else gaps / gaps[0]
        column = int(np.flatnonzero(ratios >= self.c)[-1])
        self.ratios.append(float(ratios[column]))
        return column


class Scripted:
    """Answers as a function of (queries, k, exclude) says."""

    def __init__(self, atoms: AtomsLike, answer: Callable[[Matrix, int, Ids | None], Hits]) -> None:
        self.atoms = as_atoms(atoms)
        self.answer = answer

    def query(
        self, queries: Matrix, *, k: int = 1, thresholds: Vector | None = None, exclude: Ids | None = None
    ) -> Hits:
        return self.answer(queries, k, exclude)


class EveryOther:
    """An index that knows the atoms of even ids only, and notes what it is asked."""

    def __init__(self, atoms: AtomsLike) -> None:
        self.atoms = as_atoms(atoms)
        self.calls: list[dict[str, Any]] = []

    def query(
        self, queries: Matrix, *, k: int = 1, thresholds: Vector | None = None, exclude: Ids | None = None
    ) -> Hits:
        self.calls.append({"queries": queries, "k": k, "thresholds": thresholds, "exclude": exclude})
        question = check_question(self.atoms, queries, k, exclude)
        ids = np.tile(np.arange(0, self.atoms.shape[0], 2), (len(queries), 1))
        for i in range(len(ids)):
            ids[i, np.isin(ids[i], question.exclusions(i))] = -1
        return offer(self.atoms, question, ids, scored=np.full(len(ids), ids.shape[1]))
