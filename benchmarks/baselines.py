"""Baselines that the library does not have: written in numpy and scipy, fairly.

They get the same floor and the same sharpened lower bound as our own method, and
their scores come from the fastest product, without a proof of its rounding.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
import time

import numpy as np
from problems import Problem
from reference import Distance, Ids, Matrix, Squares, Vector, largest_decrease
from runs import Run
from scipy.linalg import cholesky, solve_triangular

_DEPENDENT = 1e-11


class _Log:
    """Collects the states of a run and says when it is over."""

    def __init__(self, goal: float, cap: float) -> None:
        self.goal, self.cap = goal, cap
        self.begin = time.perf_counter()
        self.value, self.lower = math.inf, -math.inf
        self.rows: list[tuple[float, float, float]] = []

    def over(self, value: float, lower: float, passes: float) -> bool:
        """Record a state; whether the goal or the time limit is reached."""
        self.value, self.lower = value, max(self.lower, lower)
        elapsed = time.perf_counter() - self.begin
        self.rows.append((elapsed, passes, value - self.lower))
        return value - self.lower <= self.goal or elapsed > self.cap

    def run(self, ids: Ids, weights: Vector, *, n: int, steps: int) -> Run:
        """The record of the run."""
        clock, swept, gaps = np.array(self.rows).T
        return Run(
            seconds=float(clock[-1]),
            value=self.value,
            lower=self.lower,
            ids=ids,
            weights=weights,
            steps=steps,
            passes=float(swept[-1]),
            scored=int(n * swept[-1]),
            status="GAP_REACHED" if gaps[-1] <= self.goal else "MAX_SECONDS",
            clock=clock,
            swept=swept,
            gaps=gaps,
        )


# ---------------------------------------------------------------- fully corrective, a scan per step


class _Corral:
    """Minimum of 1/2 |w'Z - target|^2 over the simplex of held rows Z (Wolfe 1976).

    The factor is that of Z Z' + alpha 11'; alpha changes nothing, as the weights
    sum to 1. LAPACK does the work: append O(k^2), drop O((k - j)^3 / 3).
    """

    def __init__(self, row: Vector, target: Vector, label: int, alpha: float) -> None:
        self.target, self.alpha = target, alpha
        self.rows, self.labels, self.weights = row[None], np.array([label]), np.ones(1)
        self.factor = np.array([[math.sqrt(row @ row + alpha)]])

    def add(self, row: Vector, label: int) -> None:
        """Add a row, by an exchange if it depends on the held ones."""
        line, square = self._line(row)
        weight = 0.0
        if square <= _DEPENDENT * (row @ row + self.alpha):
            share = solve_triangular(self.factor, line, lower=True, trans=1, check_finite=False)
            ratios = np.full(len(share), np.inf)
            np.divide(self.weights, share, out=ratios, where=share > 1e-12)
            leaves = int(ratios.argmin())
            weight = float(ratios[leaves])
            self.weights = np.maximum(self.weights - weight * share, 0.0)
            self._drop(leaves)
            line, square = self._line(row)
        k = len(line)
        factor = np.zeros((k + 1, k + 1))
        factor[:k, :k] = self.factor
        factor[k, :k] = line
        factor[k, k] = math.sqrt(max(square, 1e-13 * float(row @ row + self.alpha)))
        self.factor = factor
        self.rows = np.concatenate([self.rows, row[None]])
        self.labels = np.append(self.labels, label)
        self.weights = np.append(self.weights, weight)

    def _line(self, row: Vector) -> tuple[Vector, float]:
        products = self.rows @ row + self.alpha
        line: Vector = solve_triangular(self.factor, products, lower=True, check_finite=False)
        return line, float(row @ row + self.alpha - line @ line)

    def _drop(self, at: int) -> None:
        tail = self.factor[at + 1 :, at:]
        factor = np.delete(np.delete(self.factor, at, 0), -1, 1)
        factor[at:, at:] = cholesky(tail @ tail.T, lower=True, check_finite=False)
        self.factor = factor
        self.rows = np.delete(self.rows, at, 0)
        self.labels = np.delete(self.labels, at)
        self.weights = np.delete(self.weights, at)

    def descend(self) -> None:
        """Minor steps: to the affine minimum, or to the boundary and drop."""
        while True:
            right = np.stack([self.rows @ self.target, np.ones(len(self.rows))], 1)
            u, v = solve_triangular(self.factor, right, lower=True, check_finite=False).T
            end = solve_triangular(
                self.factor, u + (1.0 - u @ v) / (v @ v) * v, lower=True, trans=1, check_finite=False
            )
            blocked = end <= 1e-14
            if not blocked.any():
                self.weights = end
                return
            fall = np.maximum(self.weights - end, 1e-300)
            ratios = np.where(blocked, self.weights / fall, np.inf)
            leaves = int(ratios.argmin())
            self.weights = np.maximum(self.weights + min(ratios[leaves], 1.0) * (end - self.weights), 0.0)
            self._drop(leaves)
            if len(self.rows) == 1:
                self.weights = np.ones(1)
                return


def corrective_scan(problem: Problem, goal: float, *, cap: float) -> Run:
    """Fully corrective Frank-Wolfe for quadratic f that reads all atoms per step."""
    loss = problem.loss
    assert isinstance(loss, (Distance, Squares))
    log, atoms = _Log(goal, cap), problem.atoms
    first = np.random.default_rng(0).integers(0, len(atoms), 256)
    lifted = loss.lift(atoms[first])
    squares = np.square(lifted - loss.target).sum(1)
    best = int(squares.argmin())
    corral = _Corral(lifted[best], loss.target, int(first[best]), float(np.square(lifted).sum(1).mean()))
    passes = 0
    lower = loss.floor
    while True:
        weights = corral.weights / corral.weights.sum()
        x = weights @ atoms[corral.labels].astype(np.float64)
        value, grad = loss.value(x), loss.grad(x)
        if log.over(value, lower, passes):
            return log.run(corral.labels, weights, n=len(atoms), steps=passes)
        scores = atoms @ -grad.astype(atoms.dtype)
        passes += 1
        label = _best(atoms, scores, grad, corral.labels)
        gap = float(grad @ (x - atoms[label].astype(np.float64)))
        lower = value - largest_decrease(max(gap, 0.0), loss.excess(x))
        if log.over(value, lower, passes) or label in corral.labels:
            return log.run(corral.labels, weights, n=len(atoms), steps=passes)
        corral.add(loss.lift(atoms[label][None])[0], label)
        corral.descend()


def _best(atoms: Matrix, scores: Matrix, grad: Vector, held: Ids) -> int:
    best = int(scores.argmax())
    if best not in held:
        return best
    # Near the end float32 scores tie: decide among the best in float64.
    near = np.argpartition(scores, -64)[-64:] if len(scores) > 64 else np.arange(len(scores))
    return int(near[(atoms[near].astype(np.float64) @ -grad).argmax()])


# ---------------------------------------------------------------- mixtures


def expectation_maximization(problem: Problem, goal: float, *, cap: float) -> Run:
    """EM for the weights of all candidates: two products with all atoms per step.

    The multiplier of candidate j is <atom_j, 1/x>/m, and its maximum minus 1 is
    the Frank-Wolfe gap: the certificate is free.
    """
    atoms = problem.atoms
    n, m = atoms.shape
    log = _Log(goal, cap)
    weights = np.full(n, 1.0 / n, np.float32)
    steps = 0
    while True:
        x = (weights @ atoms).astype(np.float64)
        value = -float(np.log(x).mean())
        factors = atoms @ (1.0 / (m * x)).astype(np.float32)
        steps += 1
        if log.over(value, value - (float(factors.max()) - 1.0), 2.0 * steps):
            ids = np.flatnonzero(weights)
            return log.run(ids, weights[ids].astype(np.float64), n=n, steps=steps)
        weights *= factors
        weights /= weights.sum(dtype=np.float64)
