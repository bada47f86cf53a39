"""Many targets over the cone of a few atoms: by one Gram matrix and a compiled loop, then proved together.

With r = b - S'w, min F is at least <b, y> - 1/2 |y|^2 for every y with <s_i, y> <= price (see
`core.weights`): a multiple of r where there is a price; without one r - delta u, where <s_i, u> > 0 for all
atoms. With a ridge any y will do, and (<s_i, y> - price)_+^2 / (2 ridge) is taken off for every atom.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from wolfhound.compiled.active_set import SHUT, make_state, pad
from wolfhound.core.contracts import Ints, State, Vector
from wolfhound.core.rounding import SAFE, TINY, UNIT, gamma, length
from wolfhound.core.weights import ray_bound
from wolfhound.objectives.plain import SquaredDistance
from wolfhound.solve._cone_kernels import solve_cones
from wolfhound.solve.minimize import minimize

BLOCK = 1 << 16
"""Entries of atoms that are scaled at a time."""

SPREAD = 0.05
"""Least share of its square that all atoms must have along their mean, for that to be the direction."""

NOTHING: tuple[Ints, Ints] = np.empty(0, np.int64), np.empty(0, np.int64)


class ConeAnswers(NamedTuple):
    """(k, n) weights; (k,) proved upper bounds of |r| and of F, lower bounds of min F; nan: none."""

    weights: Vector
    away: Vector
    value: Vector
    lower: Vector


class ConeAtoms:
    """Atoms of a cone; where no price or ridge knows their lengths, scaled by powers of two, exactly."""

    def __init__(self, rows: Vector, *, price: float = 0.0, ridge: float = 0.0) -> None:
        self.price, self.ridge = price, ridge
        self.atoms, self.exponents = rows, np.zeros(len(rows), np.int64)
        largest = np.maximum(rows.max(axis=1), -rows.min(axis=1))
        if price == 0.0 and ridge == 0.0:
            self.exponents = 1 - np.frexp(largest)[1].astype(np.int64)
            self.atoms = self._scale(rows)
        with np.errstate(over="ignore"):
            squares = np.einsum("ij,ij->i", self.atoms, self.atoms)
        self.norms = np.sqrt(squares) * (1.0 + gamma(rows.shape[1] + 4))
        self.empty = np.flatnonzero(largest == 0.0)

    def _scale(self, rows: Vector) -> Vector:
        """Multiply rows by their powers of two, in blocks that fit a cache; those that would round stay."""
        scaled, step = np.empty_like(rows), max(1, BLOCK // rows.shape[1])
        with np.errstate(over="ignore", invalid="ignore"):
            for first in range(0, len(rows), step):
                part, block = slice(first, first + step), scaled[first : first + step]
                np.multiply(rows[part], np.ldexp(1.0, self.exponents[part])[:, None], out=block)
                back = block * np.ldexp(1.0, -self.exponents[part])[:, None]
                rounds = ~(back == rows[part]).all(axis=1)
                block[rounds], self.exponents[part][rounds] = rows[part][rounds], 0
        return scaled

    def open(self) -> ConeBatch | None:
        """Make the Gram matrix; None if nothing could be proved by it."""
        u, least = np.zeros(self.atoms.shape[1]), math.inf
        if len(self.empty) == len(self.atoms) or not np.isfinite(self.norms @ self.norms):
            return None
        if self.price == 0.0 and self.ridge == 0.0:
            u, least = self._find_direction()
        return ConeBatch(self, u, least) if least > 0.0 else None

    def _find_direction(self) -> tuple[Vector, float]:
        """u, and a proved lower bound of <a, u> over all atoms; <= 0 where none was found."""
        atoms = np.delete(self.atoms, self.empty, axis=0)
        mean = atoms.mean(axis=0)
        least = self._bound_below(atoms, mean)
        if least >= SPREAD * float(mean @ mean):
            return mean, least

        def found(state: State) -> bool:
            return state.kind == "pass" and state.lower > 0.25 * state.value

        run = minimize(
            SquaredDistance(np.zeros(len(mean))), atoms, max_passes=50, callback=found, progress=False
        )
        return run.x, self._bound_below(atoms, run.x)

    def _bound_below(self, atoms: Vector, u: Vector) -> float:
        return float((atoms @ u).min()) - SAFE * gamma(len(u) + 2) * float(self.norms.max()) * length(u)


class ConeBatch:
    """The Gram matrix of such atoms, and a direction u with <a, u> >= `least` for all of them."""

    def __init__(self, cone: ConeAtoms, u: Vector, least: float) -> None:
        self._cone, self._u, self._least = cone, u, least
        n, d = cone.atoms.shape
        self._room = (n if cone.ridge > 0.0 else min(n, d)) + 1
        gram = np.zeros((n, pad(n)))
        np.matmul(cone.atoms, cone.atoms.T, out=gram[:, :n])
        gram[np.arange(n), np.arange(n)] += cone.ridge
        self._state = make_state(gram, gram, np.empty((0, d)), self._room)

    def solve(self, b: Vector, goals: Vector, shut: tuple[Ints, Ints] = NOTHING) -> ConeAnswers:
        """Solve (k, d) targets to gaps of about (k,) goals; `shut`: pairs (target, atom) that must not be."""
        cone, n = self._cone, len(self._cone.atoms)
        with np.errstate(over="ignore", invalid="ignore"):
            squares = np.einsum("ij,ij->i", b, b)
            cross = np.full((len(b), self._state.gram.shape[1]), SHUT)
            np.matmul(b, cone.atoms.T, out=cross[:, :n])
            cross[:, :n] -= cone.price
            cross[:, cone.empty] = SHUT
            cross[shut] = SHUT
            ids, weights = np.zeros((len(b), self._room), np.int64), np.zeros((len(b), self._room))
            support, accepted = np.zeros(len(b), np.int64), self._accept(goals, squares)
            solve_cones(self._state, cross, squares, accepted, ids, weights, support)
            dense, held = np.zeros((len(b), n)), np.arange(self._room) < support[:, None]
            dense[np.repeat(np.arange(len(b)), support), ids[held]] = weights[held]
            away, value, lower = self._prove(b, dense, shut)
        return ConeAnswers(np.ldexp(dense, cone.exponents), away, value, lower)

    def _accept(self, goals: Vector, squares: Vector) -> Vector:
        """Violations of <s_i, r> <= price that cost a tenth of the goals, about."""
        cone, sizes = self._cone, np.maximum(squares, TINY)
        if cone.ridge > 0.0:
            return np.sqrt(0.2 * goals * cone.ridge / len(cone.atoms))
        if cone.price > 0.0:
            return 0.2 * goals * cone.price / sizes
        return 0.1 * goals * self._least / (np.sqrt(sizes) * max(length(self._u), TINY))

    def _prove(self, b: Vector, dense: Vector, shut: tuple[Ints, Ints]) -> tuple[Vector, Vector, Vector]:
        """(k,) proved upper bounds of |r| and F, and lower ones of min F, by y = r - delta u."""
        cone, d, n = self._cone, b.shape[1], len(self._cone.atoms)
        r = b - dense @ cone.atoms
        held = np.maximum((dense > 0.0).sum(axis=1), 1)
        mass, far, whole = dense @ cone.norms, float(cone.norms.max()), np.linalg.norm(b, axis=1)
        sizes = np.linalg.norm(r, axis=1) * (1.0 + gamma(d + 4))
        lost = SAFE * np.array([gamma(int(h) + 4) for h in held]) * (mass + whole) + d * TINY
        scores = r @ cone.atoms.T
        scores += (SAFE * gamma(d + 4) * far * sizes + d * TINY)[:, None]
        scores[shut] = -np.inf
        top = np.maximum(scores.max(axis=1), 0.0)
        delta = top / self._least * (1.0 + 4.0 * UNIT)  # with a price or a ridge 0
        y = r - delta[:, None] * self._u
        reach = sizes + SAFE * delta * length(self._u)
        error = SAFE * gamma(d + 8) * (1.01 * whole * reach + 3.0 * reach * reach) + d * TINY
        along, square = np.einsum("ij,ij->i", b, y) - error, np.einsum("ij,ij->i", y, y) + error
        away = sizes + lost
        paid = cone.price * dense.sum(axis=1) + 0.5 * cone.ridge * np.einsum("ij,ij->i", dense, dense)
        value = (0.5 * away * away + paid * (1.0 + gamma(n + 8))) * (1.0 + 8.0 * UNIT) + TINY
        if cone.ridge > 0.0:
            beyond = np.maximum(scores - cone.price, 0.0) * (1.0 + 4.0 * UNIT)
            cost = np.einsum("ij,ij->i", beyond, beyond) / (2.0 * cone.ridge) * (1.0 + gamma(n + 8)) + TINY
            lower = along - 0.5 * square - cost - 8.0 * UNIT * (np.abs(along) + square + cost)
        else:
            limits = np.full(len(b), np.inf)
            if cone.price > 0.0:
                np.divide(cone.price * (1.0 - 4.0 * UNIT), top, out=limits, where=top > 0.0)
            lower = np.array(
                [ray_bound(*map(float, each)) for each in zip(along, square, limits, strict=True)]
            )
        return away, value, np.minimum(np.maximum(lower, 0.0), value)
