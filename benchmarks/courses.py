"""Runs that follow the answers of an oracle: Frank-Wolfe, herding, a policy over a few states."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np
import walks
from reference import Matrix, Vector
from walks import BOUNDARY, INTERIOR, Walk

from wolfhound.core.contracts import Oracle

HERDING, POLICY = "herding", "policy"
KINDS = (INTERIOR, BOUNDARY, HERDING, POLICY)

STATES, GAMMA = 4, 0.9


class Course(Protocol):
    """Where a run is, what it asks, and how it moves to an answer."""

    @property
    def point(self) -> Vector:
        """x, that gaps are counted from."""

    def query(self) -> Vector:
        """What is asked next."""

    def move(self, atom: Vector) -> None:
        """Take a step towards the answer."""


class Descent:
    """Frank-Wolfe with line search to a target inside or outside the hull, from a random atom."""

    def __init__(self, atoms: Matrix, kind: str, seed: int) -> None:
        self._loss = walks.loss_of(atoms, kind, seed)
        self.point = atoms[np.random.default_rng(seed).integers(len(atoms))].astype(np.float64)

    def query(self) -> Vector:
        """The negative gradient."""
        return np.asarray(-self._loss.grad(self.point))

    def move(self, atom: Vector) -> None:
        """Go as far as f falls."""
        move = atom - self.point
        length = float(self.query() @ move) / max(float(move @ move), 1e-300)
        self.point = self.point + min(1.0, max(0.0, length)) * move


class Herding:
    """Picks of equal weight towards the mean of all atoms, from a random atom."""

    def __init__(self, atoms: Matrix, seed: int) -> None:
        self._mean = atoms.mean(0, dtype=np.float64)
        self.point = atoms[np.random.default_rng(seed).integers(len(atoms))].astype(np.float64)
        self._picks = 1

    def query(self) -> Vector:
        """What is missing."""
        return np.asarray(self._mean - self.point)

    def move(self, atom: Vector) -> None:
        """Add a pick."""
        self._picks += 1
        self.point = self.point + (atom - self.point) / self._picks


class Policy:
    """One policy over a few states that share their actions, asked state after state.

    Rewards ``-1/2 |a - t_s|^2`` with targets near the hull's centre, transitions linear in the
    action; every sweep evaluates the policy and moves each state by alpha = min(1, gap / |delta|^2).
    """

    def __init__(self, atoms: Matrix, seed: int) -> None:
        rng = np.random.default_rng(seed)
        mean, radius = atoms.mean(0, dtype=np.float64), float(np.abs(atoms).max())
        picked = atoms[rng.integers(len(atoms), size=(STATES, 8))].astype(np.float64)
        self._targets = mean + 1.5 * (picked.mean(1) - mean)
        tilt = rng.standard_normal((STATES, STATES, atoms.shape[1]))
        self._tilt = (tilt - tilt.mean(1, keepdims=True)) * (0.02 / (radius * atoms.shape[1]))
        self._policy = atoms[rng.integers(len(atoms), size=STATES)].astype(np.float64)
        self._next = self._policy.copy()
        self._at = 0
        self._evaluate()

    def _evaluate(self) -> None:
        """V of the policy, and the part of grad_a Q that comes from it."""
        chances = 1.0 / STATES + np.einsum("sud,sd->su", self._tilt, self._policy)
        rewards = -0.5 * np.square(self._policy - self._targets).sum(1)
        values = np.linalg.solve(np.eye(STATES) - GAMMA * chances, rewards)
        self._drift = GAMMA * np.einsum("sud,u->sd", self._tilt, values)

    @property
    def point(self) -> Vector:
        """The action of the state whose turn it is."""
        return np.asarray(self._policy[self._at])

    def query(self) -> Vector:
        """grad_a Q at that action."""
        return np.asarray(self._targets[self._at] - self.point + self._drift[self._at])

    def move(self, atom: Vector) -> None:
        """Move the state; after the last, the policy is evaluated anew."""
        move = atom - self.point
        length = float(self.query() @ move) / max(float(move @ move), 1e-300)
        self._next[self._at] = self.point + min(1.0, max(0.0, length)) * move
        self._at = (self._at + 1) % STATES
        if self._at == 0:
            self._policy = self._next.copy()
            self._evaluate()


def begin(atoms: Matrix, kind: str, seed: int) -> Course:
    """Return a run of this kind at its start."""
    if kind == HERDING:
        return Herding(atoms, seed)
    return Policy(atoms, seed) if kind == POLICY else Descent(atoms, kind, seed)


def lead(course: Course, asked: Callable[[int], Oracle], exact: Oracle, *, steps: int) -> tuple[Vector, Walk]:
    """Gap ratios along a run that follows the answers of ``asked(step)``, and its queries."""
    d = len(course.point)
    queries, here, best, found = np.empty((steps, d)), *np.empty((3, steps))
    for t in range(steps):
        queries[t] = course.query()
        here[t] = queries[t] @ course.point
        best[t] = exact.query(queries[t : t + 1]).scores[0, 0]
        hits = asked(t).query(queries[t : t + 1])
        found[t] = hits.scores[0, 0]
        course.move(hits.rows[hits.slots[0, 0]].astype(np.float64))
    walk = Walk(queries, here, best)
    return walk.ratios(found), walk
