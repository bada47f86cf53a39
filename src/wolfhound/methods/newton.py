"""Fully corrective moves over the pool for smooth f: Newton models on a simplex.

At x the model is f's second-order expansion over the active atoms and promising
ones of the pool, a simplex quadratic program. After a short step the old point stays
as one virtual atom, which keeps its weights.

First the spaces in which f is expanded: `Curved`, by f's own curvature, or `Secant`, by that which
the gradients seen so far suggest. Then the `NewtonModel` over some atoms, which are priced by its gradient:
only those that join are lifted. Last `NewtonInner`, which moves.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TypeAlias

import numpy as np

from wolfhound.compiled.corral import BLOCK, Corral, correct, most_violated
from wolfhound.core.contracts import Ints, Line, Matrix, Objective, Point, Vector
from wolfhound.core.progress import report_rows
from wolfhound.core.rounding import UNIT, norm
from wolfhound.methods.atom_sets import AtomPool, HullPoint, PoolWeights, best_of, enlarge, lift_rows
from wolfhound.methods.steps import LineSearch
from wolfhound.oracles.asking import rescore

# ---------------------------------------------------------------- where f is expanded

SMALL = 256  # up to this d a Hessian matrix costs less than the lifts of a model, and their products
TALL = 8  # it is made where the lift has at least so many times d numbers
LARGEST = 1 << 24  # numbers up to which the matrix of a lift is kept
LARGE = 1024  # up to this d the Hessian is a matrix, beyond it a sum of its last updates
UPDATES = 128  # updates after which such a sum starts again
DAMPED = 0.2  # least share of the expected curvature that an update may find (Powell 1978)
HUGE = 1e150  # entries of updates from which on their products overflow
NOISE = 64.0 * UNIT  # gradients differ by rounding if by less than this share of their size


class Curved:
    """The space in which f is expanded, and its curvature there.

    The lifted space, where the curvature is diagonal; or that of the atoms, with a Hessian matrix, where d
    is small and the lift long. `diagonal`: the lift is the identity, curvature costs nothing; `patience`:
    pricings of all in a row that need not lower the gap much.
    """

    patience = 6

    def __init__(self, objective: Objective, x: Vector) -> None:
        self._objective = objective
        self._curvature = self._hessian = self._root = np.empty(0)
        self._design: Vector | None = None
        lifted, d = lift_rows(objective, x[None]), len(x)
        self.diagonal = np.shares_memory(lifted, x) and np.array_equal(lifted, x[None])
        if d <= SMALL and TALL * d <= lifted.shape[1] <= LARGEST // d:
            self._design = lift_rows(objective, np.eye(d))
            self._root = np.empty_like(self._design)

    def lift(self, rows: Matrix) -> Vector:
        """(r, p) float64 rows in the space."""
        if self._design is None:
            return lift_rows(self._objective, rows)
        return rows.astype(np.float64, copy=False)

    def move(self, point: Point) -> None:
        """Take the curvature at this point."""
        self._curvature = self._objective.curvature(point)
        if self._design is not None:
            np.multiply(self._design, np.sqrt(self._curvature), out=self._root)
            self._hessian = self._root @ self._root.T

    def bend(self, rows: Vector) -> Vector:
        """(r, p) or (p,) products of the Hessian with rows of the space."""
        return rows * self._curvature if self._design is None else np.asarray(rows @ self._hessian)

    def slope(self, point: Point) -> Vector:
        """(p,) derivative of f in the space."""
        return self._objective.slope(point) if self._design is None else point.grad

    def pull(self, slope: Vector) -> Vector:
        """(d,) gradient of a derivative in the space."""
        return self._objective.pull(slope) if self._design is None else slope

    def change(self, point: Point, move: Vector) -> float:
        """Curvature along a move at another point, as a share of the present."""
        lifted = move if self._design is None else move @ self._design
        square = lifted * lifted
        present = float(self._curvature @ square)
        return float(self._objective.curvature(point) @ square) / max(present, 1e-300)


class Secant:
    """The space of the atoms with an approximate Hessian, see `Curved`.

    It begins with the scale that the rows of the pool show of every coordinate.
    """

    diagonal = False
    patience = 40

    def __init__(self, point: Point, pool: Matrix) -> None:
        rows = pool.astype(np.float64)
        spread = rows.std(axis=0)
        with np.errstate(all="ignore"):
            base = 1.0 / (spread * spread)
        self._base = np.where(np.isfinite(base), base, 0.0)
        # One step of the first model goes about as far as the best atom of the pool promises.
        scores = rows @ point.grad
        best = rows[scores.argmin()] - point.x
        self._scale(best, float(-point.grad @ best))
        self._first, self._last = True, point
        self._clear()

    def _scale(self, step: Vector, along: float) -> None:
        """Give the first model this curvature along a step, if floats can hold it."""
        with np.errstate(all="ignore"):
            bent = float(self._base @ (step * step))
            base = self._base * np.divide(along, bent)
        if along > 0.0 and np.isfinite(base).all():
            self._base = base

    def _clear(self) -> None:
        d = len(self._base)
        self._matrix = np.diag(self._base) if d <= LARGE else None
        self._plus: list[Vector] = []
        self._minus: list[Vector] = []

    def lift(self, rows: Matrix) -> Vector:
        """(r, d) float64 rows."""
        return rows.astype(np.float64, copy=False)

    def move(self, point: Point) -> None:
        """Learn from the way to this point."""
        step, turn = point.x - self._last.x, point.grad - self._last.grad
        noise = NOISE * (norm(point.grad) + norm(self._last.grad))
        self._last = point
        if not noise < norm(turn) < math.inf:
            return
        along = float(step @ turn)
        if self._first and along > 0.0:
            self._scale(step, along)
            self._clear()
            self._first = False
        self._update(step, turn, along)

    def _update(self, step: Vector, turn: Vector, along: float) -> None:
        bent = self.bend(step)
        expected = float(step @ bent)
        if not 0.0 < expected < math.inf:
            return
        if along < DAMPED * expected:
            share = (1.0 - DAMPED) * expected / (expected - along)
            turn = share * turn + (1.0 - share) * bent
            along = float(step @ turn)
        plus, minus = turn / math.sqrt(along), bent / math.sqrt(expected)
        if not max(np.abs(plus).max(), np.abs(minus).max()) < HUGE:
            return  # nothing is learnt of a curvature that floats cannot hold
        if self._matrix is not None:
            self._matrix += np.outer(plus, plus) - np.outer(minus, minus)
        elif len(self._plus) == UPDATES:
            self._clear()
        else:
            self._plus.append(plus)
            self._minus.append(minus)

    def bend(self, rows: Vector) -> Vector:
        """(r, d) or (d,) products of the Hessian with rows."""
        if self._matrix is not None:
            return np.asarray(rows @ self._matrix)
        out = rows * self._base
        if self._plus:
            plus, minus = np.array(self._plus), np.array(self._minus)
            out += (rows @ plus.T) @ plus - (rows @ minus.T) @ minus
        return np.asarray(out)

    def slope(self, point: Point) -> Vector:
        """(d,) gradient of f."""
        return point.grad

    def pull(self, slope: Vector) -> Vector:
        """(d,) itself: the space is that of the atoms."""
        return slope

    def change(self, point: Point, move: Vector) -> float:
        """Inf: every step teaches something."""
        return math.inf


Space: TypeAlias = Curved | Secant
"""Where f is expanded, and its curvature there."""

# ---------------------------------------------------------------- the model over some atoms


class NewtonModel:
    """f's expansion at a point over its active atoms, in the space (k, p), and others (M, d).

    Labels count the active atoms, then the others; rows of these enter the space when they first join. Others
    may be active atoms, too, whose label `twins` has, else -1: a corral holds them once. Violations up to
    `tol` are accepted.
    """

    def __init__(
        self,
        space: Space,
        point: Point,
        active: Vector,
        weights: Vector,
        *,
        others: Matrix,
        twins: Ints,
        tol: float,
    ) -> None:
        self._space, self._tol = space, tol
        self._others, self._twins = others, twins
        self._here, self._slope = weights @ active, space.slope(point)
        self._linear = space.bend(self._here) - self._slope
        self._first = self._used = k = len(active)
        self._rows = enlarge(active, k + BLOCK)  # of atoms that are or were held, in the order of joining
        self._slot = np.concatenate([np.arange(k), np.full(len(others), -1)])  # where that of a label is

    def rows(self, labels: Ints) -> Vector:
        """(r, p) rows of labels that are or were held."""
        return np.asarray(self._rows[self._slot[labels]])

    def linear(self, labels: Ints) -> Vector:
        """(r,) entries of b, likewise."""
        return np.asarray(self.rows(labels) @ self._linear)

    @property
    def scale(self) -> float:
        """Mean diagonal of the active atoms' Gram matrix."""
        rows = self._rows[: self._first]
        return float((rows * self._space.bend(rows)).sum()) / self._first

    def price(self, corral: Corral) -> tuple[float, Ints]:
        """Return the model's change of f, and the other labels that promise most."""
        weights = np.zeros(self._used)
        weights[self._slot[corral.labels]] = corral.weights
        z = weights @ self._rows[: self._used]
        move = z - self._here
        bend = self._space.bend(move)
        slope = self._slope + bend
        # A curvature may be far too large; the line search judges where the model leads.
        with np.errstate(over="ignore", invalid="ignore"):
            value = float(slope @ move - 0.5 * (bend @ move))
            violation = float(slope @ z) - rescore(self._others, self._space.pull(slope))
        held = np.zeros(len(self._slot) + 1, bool)
        held[corral.labels] = True
        violation[held[self._first : -1] | held[self._twins]] = -np.inf
        return value, self._first + most_violated(violation, self._tol)[:BLOCK]

    def gram(self, new: Ints, held: Ints) -> tuple[Vector, Vector, Vector]:
        """(cross, gram, linear) of the new labels."""
        fresh = new[self._slot[new] < 0]
        end = self._used + len(fresh)
        if end > len(self._rows):
            self._rows = enlarge(self._rows[: self._used], self._used + end)
        self._rows[self._used : end] = self._space.lift(self._others[fresh - self._first])
        self._slot[fresh], self._used = np.arange(self._used, end), end
        rows, slots = self.rows(new), self._slot[held]
        curved = self._space.bend(rows)
        cross = (curved @ self._rows[: slots.max(initial=-1) + 1].T)[:, slots]
        return cross, curved @ rows.T, rows @ self._linear

    def swap(self, joined: Ints, left: Ints) -> None:
        """Nothing to note: rows stay."""


# ---------------------------------------------------------------- moves

NEAR = 128  # least number of the pool's best atoms that are priced between two pricings of all
SPREAD = 128  # most others beside them, evenly from the pool: the best may be neighbours of one peak
WORN = 0.1  # the near atoms are used up once their gap is below this share of the pool's
CAREFUL = 4  # both are so many times larger where a model costs more than pricing all
TURNS = 8  # most models between two pricings of the whole pool
SOLVED = 0.03  # the model is solved to this share of the gap
FLAT = 0.1  # a full step is taken if the slope there is at most this share of the first
CHORD = 0.25  # the curvature is kept while it changes by less than this share on a step
FARTHEST = 64.0  # longest step, where a curvature that is far too large makes the model too timid
SAMPLE = 32
GAIN = 0.7
VIRTUAL = -1


class NearAtoms:
    """The pool's best atoms, and some of all, `care` times more: priced alone between two pricings of all."""

    def __init__(self, pool: AtomPool, *, care: int) -> None:
        self._pool, self._care = pool, care
        self.positions, self.rows = np.empty(0, np.int64), pool.rows[:0]
        self._worn, self.turns = 0.0, 0

    def find_twins(self, active: Ints) -> Ints:
        """Return as which of the active atoms each near atom is active, or -1."""
        at = np.minimum(np.searchsorted(self.positions, active), len(self.positions) - 1)
        labels = np.flatnonzero(self.positions[at] == active)
        twins = np.full(len(self.positions), -1)
        twins[at[labels]] = labels
        return twins

    def price(self, point: Point, active: int, tol: float) -> tuple[Vector, bool]:
        """Return violations of the near atoms, and whether the largest is the pool's.

        Between two pricings of all only the near atoms are priced, a few times
        and while they promise a good share of what all did.
        """
        grad, here = point.grad, float(point.grad @ point.x)
        if self.turns > 0:
            self.turns -= 1
            violation = here - rescore(self.rows, grad)
            if violation.max() >= max(self._worn, tol):
                return violation, False
        violation = here - rescore(self._pool.rows, grad)
        best, size = max(self._care * NEAR, active), len(violation)
        if size <= 2 * max(best + SPREAD, self._care * (NEAR + SPREAD)):
            self.positions, self.rows = np.arange(size), self._pool.rows
            return violation, True
        self.positions = np.union1d(best_of(violation, best), np.arange(0, size, -(-size // SPREAD)))
        self.rows = self._pool.rows[self.positions]
        self._worn, self.turns = self._care * WORN * float(violation.max()), TURNS
        return violation[self.positions], True


class NewtonInner:
    """Minimises f over the hull of the pool by Newton models, of no more atoms than there are, `most`."""

    def __init__(
        self, objective: Objective, within: PoolWeights, start: HullPoint, *, most: int = 1 << 62
    ) -> None:
        pool, (positions, weights, point) = within.pool, start
        self._objective, self._pool = objective, pool
        self.point = point  # f where the last step led
        lifts = objective.lift(pool.rows[:1]) is not None
        self._space: Space = Curved(objective, point.x) if lifts else Secant(point, pool.rows)
        lifted = self._space.lift(point.x[None])
        self._near = NearAtoms(pool, care=1 if self._space.diagonal else CAREFUL)
        self._corral = Corral(min(len(point.x), lifted.shape[1], most) + 2 + BLOCK, 1.0)
        # Several atoms start as one virtual atom: the first models choose among the pool.
        single = len(positions) == 1
        self._virtual = None if single else (positions.copy(), weights.copy())
        self._virtual_x, self._lifted = point.x, lifted
        self._active = positions.copy() if single else np.array([VIRTUAL])
        self._weights, self._stale = np.ones(1), True
        self._span = float(np.linalg.norm(pool.rows[:SAMPLE].astype(np.float64), axis=1).max())
        self.work = 0.0

    @property
    def positions(self) -> Ints:
        """(k,) pool positions of the active atoms."""
        return np.flatnonzero(self._dense())

    @property
    def weights(self) -> Vector:
        """(k,) their weights."""
        dense = self._dense()
        return dense[dense > 0.0]

    def _dense(self) -> Vector:
        """Weights by pool position, the virtual atom resolved."""
        out = np.zeros(self._pool.size)
        real = self._active >= 0
        out[self._active[real]] = self._weights[real]
        if self._virtual is not None:
            out[self._virtual[0]] += self._weights[~real].sum() * self._virtual[1]
        return out

    def renumber(self, where: Ints) -> None:
        """The pool's positions changed: old position -> new."""
        real = self._active >= 0
        self._active[real] = where[self._active[real]]
        if self._virtual is not None:
            self._virtual = where[self._virtual[0]], self._virtual[1]

    def improve(self, *, stop: float, tol: float, budget: float) -> Iterator[int]:
        """Move until f <= stop, the pool's gap < tol, or work > budget; yield how many atoms joined."""
        idle, least, self.work = 0, np.inf, 0.0
        self._near.turns = 0
        while True:
            report_rows(0)
            violation, full = self._near.price(self.point, len(self._active), tol)
            gap = float(violation.max())
            if full:
                idle = idle + 1 if gap > GAIN * least else 0
                least = min(gap, least)
            priced = self._pool.size if full else len(violation)
            self.work += priced * len(self.point.x) + len(self._active) ** 2 * self._lifted.shape[1]
            done = gap <= tol or self.point.upper <= stop or idle >= self._space.patience
            if done or self.work >= budget:
                return
            self._stale = self._stale or idle > 0
            joined = self._step(gap, tol)
            self.work += joined * len(violation) * len(self.point.x)
            yield joined

    def _step(self, gap: float, tol: float) -> int:
        """One model and one line search; returns how many atoms joined."""
        space, near, point, corral, k = self._space, self._near, self.point, self._corral, len(self._active)
        # Both sides of a violation are sums that may cancel.
        noise = 16.0 * UNIT * norm(point.grad) * (norm(point.x) + self._span)
        accepted = max(SOLVED * gap, 0.5 * tol, noise)
        if self._stale:
            space.move(point)
        twins = near.find_twins(self._active)
        model = NewtonModel(
            space, point, self._lifted, self._weights, others=near.rows, twins=twins, tol=accepted
        )
        if self._stale:
            corral.clear(model.scale)
            corral.adopt(np.arange(k), self._weights, model)
        else:
            corral.relinearize(model.linear(np.arange(k)))
        joined = correct(corral, model)
        self._search(np.concatenate([self._active, near.positions]), model, gap)
        return joined

    @property
    def _z(self) -> Vector:
        """The point in the space of the models."""
        return np.asarray(self._weights @ self._lifted)

    def _search(self, places: Ints, model: NewtonModel, gap: float) -> None:
        """Go towards the model's minimum."""
        labels, weights = self._corral.labels, self._corral.weights / self._corral.weights.sum()
        active, lifted = places[labels], model.rows(labels)
        real = active >= 0
        line = self._objective.line(self.point, self._mix(active, weights) - self.point.x)
        reach = step_length(line, self._end(labels, weights), gap)
        if reach < 1.0:
            self._blend(reach, active[real], weights[real], lifted[real], float(weights[~real].sum()))
            self.point = line.at(reach)
            return
        if reach == 1.0:
            self.point = line.at(1.0)
        else:
            before = self._before(labels)
            weights = before + reach * (weights - before)
            weights = np.maximum(weights, 0.0) / np.maximum(weights, 0.0).sum()
            self._corral.weights[:] = weights
            # Beyond 1 a line multiplies what rounding has put between x and its weights: mix anew.
            self.point = self._objective.at(self._mix(active, weights))
        change = self._space.change(self.point, weights @ lifted - self._z)
        self._stale = abs(change - 1.0) > CHORD
        self._active, self._weights, self._lifted = active, weights, lifted
        self._corral.labels[:] = np.arange(len(labels))

    def _mix(self, active: Ints, weights: Vector) -> Vector:
        """The point of these weights, by pool position or virtual."""
        real = active >= 0
        x = weights[real] @ self._pool.rows[active[real]].astype(np.float64)
        return np.asarray(x + weights[~real].sum() * self._virtual_x)

    def _before(self, labels: Ints) -> Vector:
        """Weights that the labels of a model had before it."""
        return np.concatenate([self._weights, np.zeros(labels.max() + 1)])[labels]

    def _end(self, labels: Ints, weights: Vector) -> float:
        """How far beyond the model's minimum all weights stay positive; 1 if atoms left."""
        before = self._before(labels)
        if before.sum() < 1.0 - 1e-12:
            return 1.0
        fall = before - weights
        return float((before[fall > 0.0] / fall[fall > 0.0]).min(initial=FARTHEST))

    def _blend(self, reach: float, active: Ints, weights: Vector, lifted: Vector, virtual: float) -> None:
        """After a short step the old point, with its weights, is the virtual atom."""
        share = 1.0 - reach + reach * virtual
        old = self._dense() * (1.0 - reach)
        blended = (1.0 - reach) * self._z
        if self._virtual is not None and virtual > 0.0:
            old[self._virtual[0]] += reach * virtual * self._virtual[1]
            blended += reach * virtual * self._lifted[self._active < 0][0]
        where = np.flatnonzero(old)
        self._virtual_x = ((1.0 - reach) * self.point.x + reach * virtual * self._virtual_x) / share
        self._virtual = where, old[where] / share
        self._active = np.concatenate([active, [VIRTUAL]])
        self._weights = np.concatenate([reach * weights, [share]])
        self._lifted = np.concatenate([lifted, blended[None] / share])
        self._stale = True


def step_length(line: Line, end: float, gap: float) -> float:
    """1 if the slope there is flat, else near the minimiser on [0, end], end >= 1."""
    first, last = line.slope(0.0), line.slope(1.0)
    if not first < 0.0:
        # The model's start is x only up to dependent atoms and rounding. A step that costs
        # little beside the gap gets rid of them.
        return 1.0 if last <= FLAT * gap else 0.0
    if abs(last) <= FLAT * abs(first) or (last < 0.0 and end == 1.0):
        return 1.0
    return LineSearch(rtol=0.5 * FLAT)(line, end if last < 0.0 else 1.0, 0, 0.0)[0]
