"""Many copies of an index behind one question: the best of their answers, or a noisy vote on them.

A vote is what hides the hashes of each copy from a run that depends on its answers: after Beimel, Kaplan,
Mansour, Nissim, Saranurak and Stemmer (2022) about sqrt(T) copies do for T adaptive queries, where a union
bound over a lattice asks for as many as the dimension.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from wolfhound.core.contracts import Hits, Ids, Oracle, Vector
from wolfhound.oracles.asking import CheckedOracle, Question, ask_index, offer

NOISE = 1.0
"""Scale of the Laplace noise on every count, in votes."""


class Copies(CheckedOracle):
    """Asks all copies; answers with the best that one found, or, with noise from `rng`, by a vote."""

    def __init__(self, copies: Sequence[Oracle], *, rng: np.random.Generator | None = None) -> None:
        self._copies, self._atoms, self._rng = copies, copies[0].atoms, rng

    def answer(self, question: Question, thresholds: Vector | None = None) -> Hits:
        """Answer checked queries with one atom each."""
        answers = [ask_index(copy, question, thresholds) for copy in self._copies]
        ids = np.stack([hits.ids[:, 0] for hits in answers], axis=1)
        if self._rng is None:
            best = np.stack([hits.scores[:, 0] for hits in answers], axis=1).argmax(axis=1)
            chosen = ids[np.arange(len(ids)), best]
        else:
            chosen = np.array([vote(row, self._rng) for row in ids])
        scored = np.sum([hits.scored for hits in answers], axis=0)
        return offer(self.atoms, question, chosen[:, None], scored=scored)


def vote(ids: Ids, rng: np.random.Generator) -> int:
    """Return the atom that most copies name, counts with noise."""
    named, counts = np.unique(ids, return_counts=True)
    return int(named[(counts + rng.laplace(scale=NOISE, size=len(named))).argmax()])
