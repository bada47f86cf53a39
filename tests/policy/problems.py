"""Small decision processes, and slow answers to compare with."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import itertools
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wolfhound.core.contracts import Atoms, Hits, Ids, Matrix, Vector
from wolfhound.data.atoms import ArrayAtoms
from wolfhound.oracles.scan import Scan
from wolfhound.policy import ACMDP, AffineTransition, QuadraticReward, SmoothReward, SoftmaxTransition


def rows_of(acmdp: ACMDP) -> Vector:
    """All atoms, in float64."""
    return acmdp.actions.atoms.take(np.arange(acmdp.actions.n)).astype(np.float64)


def softmax_acmdp(states: int, n: int, dim: int, *, curvature: float = 1.0, seed: int = 0) -> ACMDP:
    """A problem whose transition is curved, so that Q is not concave."""
    rng = np.random.default_rng(seed)
    weights, centres = rng.uniform(-1.0, 1.0, (states, dim)), rng.uniform(-0.5, 0.5, (states, dim))
    start = rng.dirichlet(np.ones(states))
    return ACMDP(
        QuadraticReward(weights, centres, curvature=curvature),
        SoftmaxTransition(rng.standard_normal((states, states, dim))),
        0.8,
        start,
        rng.standard_normal((n, dim)),
    )


def best_by_brute_force(acmdp: ACMDP) -> float:
    """The best J of all policies that take one atom per state."""
    rows = rows_of(acmdp)
    sets = [np.arange(len(rows))] * acmdp.states
    sets = sets if acmdp.subsets is None else [part.ids for part in acmdp.subsets]
    policies = itertools.product(*(ids.tolist() for ids in sets))
    return max(acmdp.evaluate(rows[list(ids)]).score for ids in policies)


def best_by_value_iteration(acmdp: ACMDP, sweeps: int = 2000) -> float:
    """The best J of all policies that take one atom per state, by Bellman's operator."""
    rows = rows_of(acmdp)
    tables = [np.tile(row, (acmdp.states, 1)) for row in rows]
    rewards = np.stack([acmdp.reward.values(table) for table in tables])
    chances = np.stack([acmdp.transition.matrix(table) for table in tables])
    values = np.zeros(acmdp.states)
    for _ in range(sweeps):
        values = (rewards + acmdp.gamma * chances @ values).max(axis=0)
    return float(acmdp.start @ values)


@dataclass
class Blind:
    """An oracle that sees only the first atoms, proves nothing, and notes what it is asked."""

    rows: NDArray[Any]
    seen: int
    asked: list[tuple[int, int]] = field(default_factory=list)

    @property
    def atoms(self) -> Atoms:
        return ArrayAtoms(self.rows)

    def query(
        self, queries: Matrix, *, k: int = 1, thresholds: Vector | None = None, exclude: Ids | None = None
    ) -> Hits:
        self.asked.append((len(queries), k))
        hits = Scan(self.rows[: self.seen]).query(queries, k=k, exclude=exclude)
        return replace(hits, bounds=np.full(len(queries), np.inf), passes=0.0)


@dataclass
class Mute(Blind):
    """A blind oracle that has no answer at all to some queries."""

    mute: list[int] = field(default_factory=list)

    def query(
        self, queries: Matrix, *, k: int = 1, thresholds: Vector | None = None, exclude: Ids | None = None
    ) -> Hits:
        hits = super().query(queries, k=k, thresholds=thresholds, exclude=exclude)
        ids, scores = hits.ids.copy(), hits.scores.copy()
        ids[self.mute], scores[self.mute] = -1, -np.inf
        return replace(hits, ids=ids, scores=scores)


def rising_gap() -> ACMDP:
    """One state that leads to itself, actions [0, 1], r(a) = (a + 0.1)^2 / 2: gaps rise before they fall."""
    reward = SmoothReward(
        lambda a: 0.5 * np.square(a[:, 0] + 0.1), lambda a: a + 0.1, smoothness=1.0, concave=False
    )
    stay = AffineTransition(np.zeros((1, 1, 1)), np.ones((1, 1)))
    return ACMDP(reward, stay, 0.5, [1.0], [[0.0], [1.0]])
