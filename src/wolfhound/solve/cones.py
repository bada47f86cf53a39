"""Many targets over one cone: by a Gram matrix and a compiled loop, then proved together.

Of few atoms there is one Gram matrix; of many each target has that of its pool, into which every pass brings
the atoms of largest score.

With r = b - S'w, min F is at least <b, y> - 1/2 |y|^2 for every y with <s_i, y> <= price (see
`core.weights`): a multiple of r where there is a price; without one r - delta u, where <s_i, u> > 0 for all
atoms. With a ridge any y will do, and (<s_i, y> - price)_+^2 / (2 ridge) is taken off for every atom.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from wolfhound.compiled.active_set import SHUT, GramState, make_room, make_state, pad
from wolfhound.core.contracts import Ints, State, Vector
from wolfhound.core.rounding import SAFE, TINY, UNIT, gamma, length
from wolfhound.core.weights import ray_bound
from wolfhound.methods.atom_sets import best_of
from wolfhound.objectives.plain import SquaredDistance
from wolfhound.solve._cone_kernels import solve_cones
from wolfhound.solve.minimize import minimize

BLOCK = 1 << 16  # entries of atoms that are scaled at a time
EVEN = 1e6  # atoms are not scaled whose squared lengths are between this and its inverse
CHUNK = 1024  # targets that are solved and proved at once, where there is one Gram matrix
POOLED, SCORES = 64, 1 << 22  # the same where every target has a pool: that many, of so many scores in all
JOIN = 64  # most atoms that join a pool at once; of n atoms sqrt(n), if that is more: a pass costs more, too
PASSES = 40  # most that are made for pools
SPREAD = 0.05  # least share of its square that all atoms have along their mean, if that is the direction

NOTHING: tuple[Ints, Ints] = np.empty(0, np.int64), np.empty(0, np.int64)


class ConeAnswers(NamedTuple):
    """(k, n) weights; (k,) proved upper bounds of |r| and of F, lower bounds of min F; passes."""

    weights: Vector
    away: Vector
    value: Vector
    lower: Vector
    passes: Ints


class ConeAtoms:
    """Atoms of a cone; where no price or ridge knows lengths, uneven ones are scaled by powers of two."""

    def __init__(self, rows: Vector, *, price: float = 0.0, ridge: float = 0.0) -> None:
        self.price, self.ridge = price, ridge
        self.atoms, self.exponents, error = rows, np.zeros(len(rows), np.int64), gamma(rows.shape[1] + 4)
        with np.errstate(over="ignore"):
            squares = np.einsum("ij,ij->i", rows, rows)
            self.empty = np.flatnonzero(squares == 0.0)
            self.empty = self.empty[~rows[self.empty].any(axis=1)]
            some = np.delete(squares, self.empty)
            even = bool(((some > 1.0 / EVEN) & (some < EVEN)).all())
            if price == 0.0 and ridge == 0.0 and not even:
                largest = np.maximum(rows.max(axis=1), -rows.min(axis=1))
                self.exponents = 1 - np.frexp(largest)[1].astype(np.int64)
                self.atoms = self._scale(rows)
                squares = np.einsum("ij,ij->i", self.atoms, self.atoms)
        self.norms = np.sqrt(squares + rows.shape[1] * TINY) * (1.0 + error)
        self.shortest = math.sqrt(np.delete(squares, self.empty).min(initial=math.inf)) * (1.0 - error)

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

    def open(self, few: int) -> ConeBatch | None:
        """Make the Gram matrix, of at most so many atoms; None if nothing could be proved of a batch."""
        u, least = np.zeros(self.atoms.shape[1]), math.inf
        if len(self.empty) == len(self.atoms) or not np.isfinite(self.norms @ self.norms):
            return None
        if self.price == 0.0 and self.ridge == 0.0:
            u, least = self._find_direction()
        return ConeBatch(self, u, least, few=few) if least > 0.0 else None

    def _find_direction(self) -> tuple[Vector, float]:
        """u, and a proved lower bound of <a, u> over all atoms; <= 0 where none was found."""
        mean = self.atoms.sum(axis=0) / (len(self.atoms) - len(self.empty))
        least = self._bound_below(mean)
        if least >= SPREAD * float(mean @ mean):
            return mean, least

        def found(state: State) -> bool:
            return state.kind == "pass" and state.lower > 0.25 * state.value

        origin = SquaredDistance(np.zeros(len(mean)))
        run = minimize(origin, self.atoms, max_passes=50, exclude=self.empty, callback=found, progress=False)
        return run.x, self._bound_below(run.x)

    def _bound_below(self, u: Vector) -> float:
        along = np.delete(self.atoms @ u, self.empty)
        return float(along.min()) - SAFE * gamma(len(u) + 2) * float(self.norms.max()) * length(u)


class ConeBatch:
    """Solves batches over such atoms, by a direction u with <a, u> >= `least` for all of them.

    `most` targets at once are no more than needed, or than there is room for.
    """

    def __init__(self, cone: ConeAtoms, u: Vector, least: float, *, few: int) -> None:
        self._cone, self._u, self._least = cone, u, least
        n, d = cone.atoms.shape
        self._room = (n if cone.ridge > 0.0 else min(n, d)) + 1
        self._state = self._make_state(cone.atoms) if n <= few else None
        self.most = CHUNK if n <= few else max(1, min(POOLED, SCORES // n))

    def _make_state(self, rows: Vector) -> GramState:
        n, d = rows.shape
        gram = make_room((n, pad(n)))
        gram[:, :n] = rows @ rows.T
        gram[np.arange(n), np.arange(n)] += self._cone.ridge
        return make_state(gram, gram, np.empty((0, d)), min(self._room, n + 1))

    def solve(self, b: Vector, goals: Vector, shut: tuple[Ints, Ints] = NOTHING) -> ConeAnswers:
        """Solve (k, d) targets to gaps of about (k,) goals; `shut`: pairs (target, atom) that must not be."""
        (m, n), unknown = (len(b), len(self._cone.atoms)), np.full(len(b), np.inf)
        out = ConeAnswers(np.zeros((m, n)), unknown, unknown.copy(), np.zeros(m), np.zeros(m, np.int64))
        with np.errstate(over="ignore", invalid="ignore"):
            squares = np.einsum("ij,ij->i", b, b)
            accepted = self._accept(goals, squares)
            if self._state is None:
                self._solve_pools(b, goals, (squares, accepted), shut, out)
            else:
                dense, atoms = out.weights, self._cone.atoms
                cross = b @ atoms.T - self._cone.price
                cross[:, self._cone.empty] = SHUT
                cross[shut] = SHUT
                self._walk(self._state, cross, (squares, accepted), dense)
                r = b - dense @ atoms
                out.away[:], out.value[:], out.lower[:] = self._prove(b, dense, r, self._score(r, shut))
                out.passes[:] = 1
        return out._replace(weights=np.ldexp(out.weights, self._cone.exponents))

    def _solve_pools(
        self,
        b: Vector,
        goals: Vector,
        sizes: tuple[Vector, Vector],
        shut: tuple[Ints, Ints],
        out: ConeAnswers,
    ) -> None:
        """Passes over all atoms until all targets are proved: whose score is largest joins the pool."""
        atoms, dense, r, left = self._cone.atoms, out.weights, b.copy(), np.arange(len(b))
        join = max(JOIN, math.isqrt(len(atoms)))
        while len(left) and out.passes[left[0]] < PASSES:
            here = np.isin(shut[0], left)
            scores = self._score(r[left], (np.searchsorted(left, shut[0][here]), shut[1][here]))
            out.passes[left] += 1
            found = self._prove(b[left], dense[left], r[left], scores)
            out.away[left], out.value[left], out.lower[left] = found
            scores[dense[left] > 0.0] = -np.inf
            goes_on = ~(found[1] - found[2] <= goals[left]) & (scores.max(axis=1) > self._cone.price)
            left, scores = left[goes_on], scores[goes_on]
            for t, row in zip(left.tolist(), scores, strict=True):
                held, new = np.flatnonzero(dense[t]), np.flatnonzero(row > self._cone.price)
                pool = np.concatenate([held, new[best_of(row[new], join)]])
                rows, one = np.ascontiguousarray(atoms[pool]), slice(t, t + 1)
                weights = dense[one, pool]
                cross = (rows @ b[t] - self._cone.price)[None]
                self._walk(self._make_state(rows), cross, (sizes[0][one], sizes[1][one]), weights, len(held))
                dense[t, pool] = weights[0]
                r[t] = b[t] - weights[0] @ rows

    def _walk(
        self, state: GramState, cross: Vector, sizes: tuple[Vector, Vector], dense: Vector, held: int = 0
    ) -> None:
        """Move the (k, n) `dense` weights, of the first `held` atoms, to where F is least.

        `cross` (k, n) are products with all atoms, less the price; `sizes` |b|^2, and what `_accept` gives.
        """
        (k, n), room = dense.shape, len(state.labels)
        padded = np.full((k, state.gram.shape[1]), SHUT)
        padded[:, :n] = cross
        ids, weights, support = np.zeros((k, room), np.int64), np.zeros((k, room)), np.full(k, held)
        ids[:, :held], weights[:, :held] = np.arange(held), dense[:, :held]
        solve_cones(state, padded, *sizes, ids, weights, support)
        dense[:], inside = 0.0, np.arange(room) < support[:, None]
        dense[np.repeat(np.arange(k), support), ids[inside]] = weights[inside]

    def _score(self, r: Vector, shut: tuple[Ints, Ints]) -> Vector:
        """(k, n) products with all atoms, rounded up; -inf for those that must not be."""
        cone, d = self._cone, r.shape[1]
        scores: Vector = r @ cone.atoms.T
        sizes = np.linalg.norm(r, axis=1) * (1.0 + gamma(d + 4))
        scores += (SAFE * gamma(d + 4) * float(cone.norms.max()) * sizes + d * TINY)[:, None]
        scores[:, cone.empty] = 0.0
        scores[shut] = -np.inf
        return scores

    def _accept(self, goals: Vector, squares: Vector) -> Vector:
        """Violations of <s_i, r> <= price that cost a tenth of the goals, about."""
        cone, sizes = self._cone, np.maximum(squares, TINY)
        if cone.ridge > 0.0:
            return np.sqrt(0.2 * goals * cone.ridge / len(cone.atoms))
        if cone.price > 0.0:
            return 0.2 * goals * cone.price / sizes
        return 0.1 * goals * self._least / (np.sqrt(sizes) * max(length(self._u), TINY))

    def _prove(self, b: Vector, dense: Vector, r: Vector, scores: Vector) -> tuple[Vector, Vector, Vector]:
        """(k,) proved upper bounds of |r| and F, and lower ones of min F, by y = r - delta u."""
        cone, d, n = self._cone, b.shape[1], len(self._cone.atoms)
        held = np.maximum((dense > 0.0).sum(axis=1), 1)
        mass, whole = dense @ cone.norms, np.linalg.norm(b, axis=1)
        sizes = np.linalg.norm(r, axis=1) * (1.0 + gamma(d + 4))
        lost = SAFE * np.array([gamma(int(h) + 4) for h in held]) * (mass + whole) + d * TINY
        top = np.maximum(scores.max(axis=1), 0.0)
        delta = top / self._least * (1.0 + 4.0 * UNIT)  # with a price or a ridge 0
        y = r - delta[:, None] * self._u
        reach = sizes + SAFE * delta * length(self._u)
        error = SAFE * gamma(d + 8) * (1.01 * whole * reach + 3.0 * reach * reach) + d * TINY
        along, square = np.einsum("ij,ij->i", b, y) - error, np.einsum("ij,ij->i", y, y) + error
        away = sizes + lost
        # Squares of weights and scores may underflow where they matter; their products with the ridge do not.
        paid = cone.price * dense.sum(axis=1) + 0.5 * np.einsum("ij,ij->i", dense, cone.ridge * dense)
        value = (0.5 * away * away + paid * (1.0 + gamma(n + 8))) * (1.0 + 8.0 * UNIT) + n * TINY
        if cone.ridge > 0.0:
            beyond = np.maximum(scores - cone.price, 0.0) * (1.0 + 4.0 * UNIT)
            cost = 0.5 * np.einsum("ij,ij->i", beyond, beyond / cone.ridge) * (1.0 + gamma(n + 8)) + TINY
            lower = along - 0.5 * square - cost - 8.0 * UNIT * (np.abs(along) + square + cost)
        else:
            limits = np.full(len(b), np.inf)
            if cone.price > 0.0:
                np.divide(cone.price * (1.0 - 4.0 * UNIT), top, out=limits, where=top > 0.0)
            lower = np.array(
                [ray_bound(*map(float, each)) for each in zip(along, square, limits, strict=True)]
            )
        return away, value, np.minimum(np.maximum(lower, 0.0), value)
