"""Queries as they come along real Frank-Wolfe runs, with their exact answers."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import problems
from reference import Loss, Matrix, Vector

from wolfhound.core.contracts import Oracle

INTERIOR, BOUNDARY = "interior", "boundary"
SHARES = {INTERIOR: 0.0, BOUNDARY: 1.0}


@dataclass(frozen=True, slots=True)
class Walk:
    """Queries of a run, or of several.

    Attributes
    ----------
    queries : (m, d) float64
        Negative gradients.
    here, best : (m,) float64
        <query, x> and the highest score of an atom.
    """

    queries: Vector
    here: Vector
    best: Vector

    def ratios(self, scores: Vector) -> Vector:
        """Gap ratios of answers: 1 is the best atom, 0 as good as staying."""
        return np.asarray((scores - self.here) / (self.best - self.here))

    def part(self, which: slice) -> Walk:
        """Some of the queries."""
        return Walk(self.queries[which], self.here[which], self.best[which])


def loss_of(atoms: Matrix, kind: str, seed: int) -> Loss:
    """Squared distance to a target inside or outside the hull, another for each seed."""
    if kind == INTERIOR:
        return problems.inside(kind, atoms, seed=seed).loss
    return problems.distance(kind, atoms, share=SHARES[kind], seed=seed).loss


def walk(atoms: Matrix, exact: Oracle, kind: str, *, steps: int, seed: int) -> Walk:
    """Frank-Wolfe with line search towards a target inside or outside the hull.

    The seed decides the target and the start, a random atom: a run with another seed is another
    run, not the same one from elsewhere.
    """
    return follow(loss_of(atoms, kind, seed), atoms, exact, steps=steps, seed=seed)


def follow(loss: Loss, atoms: Matrix, exact: Oracle, *, steps: int, seed: int) -> Walk:
    """Frank-Wolfe with line search on a loss, from a random atom."""
    x = atoms[np.random.default_rng(seed).integers(len(atoms))].astype(np.float64)
    queries, here, best = np.empty((steps, len(x))), np.empty(steps), np.empty(steps)
    for t in range(steps):
        queries[t] = -loss.grad(x)
        hits = exact.query(queries[t : t + 1])
        here[t], best[t] = queries[t] @ x, hits.scores[0, 0]
        move = hits.rows[hits.slots[0, 0]].astype(np.float64) - x
        x = x + min(1.0, max(0.0, float(queries[t] @ move) / float(move @ move))) * move
    return Walk(queries, here, best)


def joined(walks: Sequence[Walk]) -> Walk:
    """Queries of several runs."""
    return Walk(*(np.concatenate([getattr(part, name) for part in walks]) for name in Walk.__slots__))
