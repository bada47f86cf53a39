"""The best design over a pool of candidates: Newton steps that are projections.

At M = LL' a criterion is, to second order, half the squared distance of a point of a hull
from a target: for -log det the atoms are svec(u u'), u = L^-1 x, and the target is 2 I; for
trace C'M^-1 C they are u v', v = C'M^-1 x, and the target is 3/2 L^-1 C. So a Newton point
is a quadratic program over the simplex, whose Gram entries are (u_i'u_j)(v_i'v_j).
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import solve_triangular

from wolfhound.compiled.corral import BLOCK, Corral, correct, most_violated
from wolfhound.core.contracts import Ints, Vector
from wolfhound.core.progress import report_rows
from wolfhound.core.rounding import UNIT

STEPS = 60  # Newton steps at most; three to eight are usual
_SMALL = 1e-13  # weights below are dropped
_MANY = 12  # times as many active candidates as terms: more than an optimal design has


@dataclass(frozen=True, slots=True, eq=False)
class Task:
    """What is minimised, with M = (1 - share) sum w_i x_i x_i' + share * fixed."""

    root: Vector | None  # (d, r) C of trace C'M^-1 C; None: -log det M
    fixed: Vector  # (d, d) information of the given runs, a mean over them
    share: float = 0.0

    def information(self, rows: Vector, weights: Vector) -> Vector:
        """(d, d) M."""
        mixed = (rows * weights[:, None]).T @ rows
        return np.asarray((1.0 - self.share) * mixed + self.share * self.fixed)


class Local:
    """The criterion at M = LL': a target, and how far each candidate of a pool leads to it.

    Efficiency is at least 1 / (1 + `gap`) among these candidates.
    """

    def __init__(self, task: Task, rows: Vector, information: Vector) -> None:
        factor = np.linalg.cholesky(information)
        share = task.share
        self.left = solve_triangular(factor, rows.T, lower=True, check_finite=False).T
        self.pull: Vector | None = None
        self.right, pace = self.left, 2.0
        if task.root is not None:
            pull = solve_triangular(factor, task.root, lower=True, check_finite=False)
            # By a power of two: all that follows is relative, and squares must not overflow.
            self.pull = np.ldexp(pull, -int(np.frexp(np.abs(pull).max())[1]))
            self.right, pace = self.left @ self.pull, 1.5
        self.scores = np.einsum("ij,ij->i", self.right, self.right)
        level = float(information.shape[0]) if self.pull is None else float((self.pull**2).sum())
        self.linear = pace * self.scores
        reached = float(self.scores.max())
        if share:
            half = solve_triangular(factor, task.fixed, lower=True, check_finite=False)
            settled = solve_triangular(factor, half.T, lower=True, check_finite=False)
            kept = settled if self.pull is None else settled @ self.pull
            self.linear = (self.linear - share * _forms(self.left, kept, self.right)) / (1.0 - share)
            there = np.trace(kept) if self.pull is None else np.sum(kept * self.pull)
            reached = (1.0 - share) * reached + share * float(there)
        self.gap = reached / level - 1.0
        self._share = share
        self._tol = 0.0

    def price(self, corral: Corral) -> tuple[float, Ints]:
        """Return the model's value, and places that violate optimality, best first."""
        report_rows(0)
        held, weights = corral.labels, corral.weights
        mixed = (self.left[held] * weights[:, None]).T @ self.right[held]
        scores = self.linear - _forms(self.left, mixed, self.right)
        here = float(weights @ scores[held])
        value = -0.5 * (float(weights @ self.linear[held]) + here)
        violation = scores - here
        violation[held] = -np.inf
        return value, most_violated(violation, self._tol)[: 4 * BLOCK]

    def gram(self, new: Ints, held: Ints) -> tuple[Vector, Vector, Vector]:
        """(cross, gram, linear) of the new places."""
        left, right = self.left[new], self.right[new]
        cross = (left @ self.left[held].T) * (right @ self.right[held].T)
        return cross, (left @ left.T) * (right @ right.T), self.linear[new]

    def swap(self, joined: Ints, left: Ints) -> None:
        """Nothing to note."""

    def step(self, weights: Vector) -> Vector:
        """Return the weights after one Newton step with an exact line search."""
        active = np.flatnonzero(weights > 0.0)
        _, width = self.left.shape
        room = width * self.right.shape[1] + 1 + BLOCK
        size = self.scores * np.einsum("ij,ij->i", self.left, self.left)
        noise = 64.0 * UNIT * float(size.max())
        # A product: the power of a huge gap would raise an error.
        share = min(1e-3, 0.01 * self.gap, 0.01 * (self.gap * self.gap))
        self._tol = max(noise, share * float(self.scores.max()))
        corral = Corral(min(room, len(weights) + BLOCK), float(size[active].mean()))
        first = active
        if len(active) > _MANY * width:  # they depend on each other: begin with a few, others join
            first = active[np.argsort(-weights[active], kind="stable")[: 2 * width]]
        corral.adopt(first, weights[first], self)
        correct(corral, self)
        aim = -weights
        aim[corral.labels] += corral.weights / corral.weights.sum()
        moved = np.flatnonzero(aim)
        turn = (1.0 - self._share) * (self.left[moved] * aim[moved, None]).T @ self.left[moved]
        out = np.maximum(weights + self._search(turn) * aim, 0.0)
        out[out < _SMALL] = 0.0
        return np.asarray(out / out.sum())

    def _search(self, turn: Vector) -> float:
        """How far to go, at most 1: sum c / (1 + s l)^power falls until its slope is zero."""
        values, vectors = np.linalg.eigh(0.5 * (turn + turn.T))
        shares = np.ones(len(values)) if self.pull is None else ((vectors.T @ self.pull) ** 2).sum(axis=1)
        power = 1 if self.pull is None else 2

        def slope(s: float) -> float:
            return -float((shares * values / (1.0 + s * values) ** power).sum())

        low, high = 0.0, 1.0 if 1.0 + values[0] > 0.0 else min(1.0, -0.999999 / float(values[0]))
        if slope(high) <= 0.0:
            return high
        for _ in range(60):
            middle = 0.5 * (low + high)
            low, high = (middle, high) if slope(middle) <= 0.0 else (low, middle)
        return low


def _forms(left: Vector, matrix: Vector, right: Vector) -> Vector:
    """u'Sv of every pair of rows."""
    return np.asarray(np.einsum("ij,ij->i", left @ matrix, right))


def improve(task: Task, rows: Vector, weights: Vector, goal: float) -> Vector:
    """Solve the design problem over a pool of (r, d) float64 rows; the best weights seen.

    The weights to begin with must have an M of full rank; `goal` is the wanted gap of the pool, relative.
    """
    best, least, idle = weights, np.inf, 0
    for _ in range(STEPS):
        active = weights > 0.0
        try:
            # Candidates far outside of what M spans overflow; such a step leads nowhere, and is the last.
            with np.errstate(over="ignore", invalid="ignore"):
                here = Local(task, rows, task.information(rows[active], weights[active]))
                idle = 0 if here.gap < 0.7 * least else idle + 1
                if here.gap < least:
                    best, least = weights, here.gap
                if least <= goal or idle > 6:
                    break
                weights = here.step(weights)
        except np.linalg.LinAlgError:  # a step too far: rounding has eaten what was gained
            break
        if not np.isfinite(weights).all():
            break
    return best
