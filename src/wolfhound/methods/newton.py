"""Fully corrective moves over the pool for smooth f: Newton models on a simplex.

At x the model is f's second-order expansion over the active atoms and promising
ones of the pool, a simplex quadratic program: over the hottest, each lifted once,
or over many where a lift costs nothing. After a short step the old point stays
as one virtual atom, which keeps its weights.

First the spaces in which f is expanded: `Curved`, by f's own curvature, or `Secant`, by that which
the gradients seen so far suggest. Then the models over some atoms: `Hot` has the whole Gram matrix of a few
lifted atoms; `Near` prices many by the model's gradient, and the curvature meets only those that join.
Labels count the active atoms, then others. Last `NewtonInner`, which moves.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TypeAlias

import numpy as np

from wolfhound.compiled.corral import BLOCK, Corral, Dense, correct, most_violated
from wolfhound.core.contracts import Ints, Line, Matrix, Objective, Point, Vector
from wolfhound.core.progress import report_rows
from wolfhound.core.rounding import UNIT, norm
from wolfhound.methods.atom_sets import AtomPool, best_of, enlarge, lift_rows
from wolfhound.methods.steps import LineSearch
from wolfhound.oracles.asking import rescore

# ---------------------------------------------------------------- where f is expanded

SMALL = 128
"""Up to this d a Hessian matrix costs less than the lifts and the Gram matrix of a model."""

TALL = 8
"""It is made where the lift has at least so many times d numbers."""

LARGEST = 1 << 24
"""Numbers up to which the matrix of a lift is kept."""

LARGE = 1024
"""Up to this d the Hessian is a matrix, beyond it a sum of its last updates."""

UPDATES = 128
"""Updates after which such a sum starts again."""

DAMPED = 0.2
"""Least share of the expected curvature that an update may find (Powell 1978)."""

HUGE = 1e150
"""Entries of updates from which on their products overflow."""

NOISE = 64.0 * UNIT
"""Gradients differ by rounding if by less than this share of their size."""


class Curved:
    """The space in which f is expanded, and its curvature there.

    The lifted space, where the curvature is diagonal; or that of the atoms, with a Hessian matrix, where d
    is small and the lift long. `diagonal`: the lift is the identity, curvature costs nothing; `cheap`:
    entering the space does not; `patience`: pricings of all in a row that need not lower the gap much.
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
        self.cheap = self.diagonal or self._design is not None

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

    def gram(self, rows: Vector) -> Vector:
        """(r, r) products of rows of the space, exactly symmetric where it is the lifted one."""
        if self._design is not None:
            return np.asarray(self.bend(rows) @ rows.T)
        scaled = rows * np.sqrt(self._curvature)
        return np.asarray(scaled @ scaled.T)

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
    cheap = True
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

    def gram(self, rows: Vector) -> Vector:
        """(r, r) products of rows."""
        return np.asarray(self.bend(rows) @ rows.T)

    def change(self, point: Point, move: Vector) -> float:
        """Inf: every step teaches something."""
        return math.inf


Space: TypeAlias = Curved | Secant
"""Where f is expanded, and its curvature there."""

# ---------------------------------------------------------------- models over some atoms


class RowStore:
    """Rows by label, each put in when it is first needed; only rows that are used take memory."""

    def __init__(self, room: int, width: int, labels: int) -> None:
        self._rows = np.empty((room, width))
        self._used = 0
        self.slot = np.full(labels, -1, np.int64)  # where the row of a label is; -1: nowhere

    @property
    def rows(self) -> Vector:
        """(used, width) all rows, in the order in which they came."""
        return self._rows[: self._used]

    def put(self, labels: Ints, rows: Matrix) -> None:
        """Keep the rows of new labels."""
        end = self._used + len(labels)
        if end > len(self._rows):
            self._rows = enlarge(self.rows, self._used + end)
        self._rows[self._used : end] = rows
        self.slot[labels] = np.arange(self._used, end)
        self._used = end

    def take(self, labels: Ints) -> Vector:
        """(r, width) rows of labels that were put in."""
        return self._rows[self.slot[labels]]


class Hot(Dense):
    """A model over the active atoms and a few others, by its Gram matrix.

    Atoms are lifted, (k, p) and (r, p); `linear` is H z - f's derivative at the point z there. `known` is the
    Gram matrix of the active atoms if it still holds, else (0, 0). Violations up to `tol` are accepted.
    """

    def __init__(
        self, curved: Space, linear: Vector, *, active: Vector, others: Vector, known: Vector, tol: float
    ) -> None:
        self._rows = np.concatenate([active, others])
        k = len(known)
        if k == 0:
            gram = curved.gram(self._rows)
        else:
            below = curved.bend(others) @ self._rows.T
            gram = np.block([[known, below[:, :k].T], [below[:, :k], below[:, k:]]])
        super().__init__(gram, self._rows @ linear, tol)

    def rows(self, labels: Ints) -> Vector:
        """(r, p) rows of labels."""
        return self._rows[labels]

    def linear(self, labels: Ints) -> Vector:
        """(r,) entries of b."""
        return self._linear[labels]

    @property
    def scale(self) -> float:
        """Mean diagonal of the Gram matrix."""
        return float(self._gram.trace()) / len(self._gram)

    def gram_of(self, labels: Ints) -> Vector:
        """(r, r) Gram matrix of labels."""
        return self._gram[np.ix_(labels, labels)]


class Near:
    """A model over the active atoms (k, d) and many others (M, d), by its gradient; its space is cheap.

    Others may be active atoms, too, whose label `twins` has, else -1: a corral holds them once. Violations
    up to `tol` are accepted.
    """

    def __init__(
        self, curved: Space, point: Point, *, active: Vector, others: Matrix, twins: Ints, tol: float
    ) -> None:
        self._curved, self._point, self._tol = curved, point, tol
        self._others, self._twins = others, twins
        self._linear = curved.bend(point.x) - point.grad
        self._first = k = len(active)
        self._held = RowStore(k + BLOCK, len(point.x), k + len(others))  # atoms that are or were held
        self._held.put(np.arange(k), active)

    def rows(self, labels: Ints) -> Vector:
        """(r, d) rows of labels that are or were held."""
        return self._held.take(labels)

    def linear(self, labels: Ints) -> Vector:
        """(r,) entries of b, likewise."""
        return np.asarray(self.rows(labels) @ self._linear)

    @property
    def scale(self) -> float:
        """Mean diagonal of the active atoms' Gram matrix."""
        rows = self._held.rows[: self._first]
        return float((rows * self._curved.bend(rows)).sum()) / self._first

    def gram_of(self, labels: Ints) -> Vector:
        """Nothing: the factor is all that is kept."""
        return np.empty((0, 0))

    def price(self, corral: Corral) -> tuple[float, Ints]:
        """Return the model's change of f, and the other labels that promise most."""
        weights = np.zeros(len(self._held.rows))
        weights[self._held.slot[corral.labels]] = corral.weights
        x = weights @ self._held.rows
        move = x - self._point.x
        bend = self._curved.bend(move)
        grad = self._point.grad + bend
        value = float(grad @ move - 0.5 * (bend @ move))
        violation = float(grad @ x) - rescore(self._others, grad)
        held = np.zeros(len(self._held.slot) + 1, bool)
        held[corral.labels] = True
        violation[held[self._first : -1] | held[self._twins]] = -np.inf
        best = float(violation.max())
        if not best > self._tol:
            return value, corral.labels[:0]
        worst = most_violated(violation, max(Dense.SHARE * best, self._tol))
        return value, self._first + worst[:BLOCK]

    def gram(self, new: Ints, held: Ints) -> tuple[Vector, Vector, Vector]:
        """(cross, gram, linear) of the new labels."""
        fresh = new[self._held.slot[new] < 0]
        self._held.put(fresh, self._others[fresh - self._first])
        rows = self.rows(new)
        curved = self._curved.bend(rows)
        cross = (curved @ self._held.rows.T)[:, self._held.slot[held]]
        return cross, curved @ rows.T, rows @ self._linear

    def swap(self, joined: Ints, left: Ints) -> None:
        """Nothing to note: rows stay."""


# ---------------------------------------------------------------- moves

HOT = 64
"""Pool atoms that join a model where lifts are dear."""

NEAR = 128
"""Least number of the pool's best atoms that are priced between two pricings of all."""

SPREAD = 128
"""Most others beside them, evenly from the pool: the best may be neighbours of one peak."""

WORN = 0.1
"""The near atoms are used up once their gap is below this share of the pool's."""

CAREFUL = 4
"""Both are so many times larger where a model costs more than pricing all."""

TURNS = 8
"""Most models between two pricings of the whole pool."""

SOLVED = 0.03
"""The model is solved to this share of the gap."""

FLAT = 0.1
"""A full step is taken if the slope there is at most this share of the first."""

CHORD = 0.25
"""The curvature is kept while it changes by less than this share on a step."""

FARTHEST = 64.0
"""Longest step, where a curvature that is far too large makes the model too timid."""

SAMPLE = 32
GAIN = 0.7
VIRTUAL = -1


class NearAtoms:
    """The pool's best atoms, and some of all: priced alone between two pricings of the whole pool.

    With `care`, so many times more atoms are near.
    """

    def __init__(self, pool: AtomPool, point: Point, *, care: int) -> None:
        self._pool, self._care = pool, care
        self._scores, self._scored = np.empty(0), point
        self.positions, self.rows = np.empty(0, np.int64), pool.rows[:0]
        self._worn, self.turns = 0.0, 0

    def forget(self) -> None:
        """Forget all scores: the pool's positions changed."""
        self._scores = self._scores[:0]

    def find(self, active: Ints) -> tuple[Ints, Ints]:
        """Return which near atoms are active, and as which."""
        at = np.minimum(np.searchsorted(self.positions, active), len(self.positions) - 1)
        labels = np.flatnonzero(self.positions[at] == active)
        return at[labels], labels

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
        # A pass only adds atoms: the others were scored at this point before.
        known = self._scores if self._scored is point else self._scores[:0]
        fresh = rescore(self._pool.rows[len(known) :], grad)
        self._scores, self._scored = np.concatenate([known, fresh]), point
        violation = here - self._scores
        best, size = max(self._care * NEAR, active), len(violation)
        if size <= 2 * max(best + SPREAD, self._care * (NEAR + SPREAD)):
            self.positions, self.rows = np.arange(size), self._pool.rows
            return violation, True
        self.positions = np.union1d(best_of(violation, best), np.arange(0, size, -(-size // SPREAD)))
        self.rows = self._pool.rows[self.positions]
        self._worn, self.turns = self._care * WORN * float(violation.max()), TURNS
        return violation[self.positions], True


class NewtonInner:
    """Minimises f over the hull of the pool by Newton models.

    The caller, who shares the pool, may add atoms: see `renumber`. No model holds more atoms than there are,
    `most`, however many dimensions they have.
    """

    def __init__(
        self,
        objective: Objective,
        pool: AtomPool,
        point: Point,
        positions: Ints,
        weights: Vector,
        *,
        most: int = 1 << 62,
    ) -> None:
        self._objective, self._pool = objective, pool
        self.point = point  # f where the last step led
        lifts = objective.lift(pool.rows[:1]) is not None
        self._curved: Space = Curved(objective, point.x) if lifts else Secant(point, pool.rows)
        lifted = self._curved.lift(point.x[None])
        self._near = NearAtoms(pool, point, care=1 if self._curved.diagonal else CAREFUL)
        self._corral = Corral(min(len(point.x), lifted.shape[1], most) + 2 + BLOCK, 1.0)
        # Several atoms start as one virtual atom: the first models choose among the pool.
        single = len(positions) == 1
        self._virtual = None if single else (positions.copy(), weights.copy())
        self._virtual_x, self._lifted = point.x, lifted
        self._active = positions.copy() if single else np.array([VIRTUAL])
        self._weights, self._known, self._stale = np.ones(1), np.empty((0, 0)), True
        self._clear_lifts()
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
        self._clear_lifts()
        self._near.forget()

    def _clear_lifts(self) -> None:
        """Forget the lifted rows: positions changed."""
        room = 0 if self._curved.cheap else 64 * HOT  # of a cheap space none are kept
        self._lifts = RowStore(room, self._lifted.shape[1], self._pool.size)

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
            done = gap <= tol or self.point.upper <= stop or idle >= self._curved.patience
            if done or self.work >= budget:
                return
            self._stale = self._stale or idle > 0
            joined = self._step(violation, gap, tol)
            self.work += joined * len(violation) * len(self.point.x)
            yield joined

    def _step(self, violation: Vector, gap: float, tol: float) -> int:
        """One model and one line search; returns how many atoms joined."""
        if self._stale:
            self._curved.move(self.point)
            self._known = self._known[:0, :0]
        accepted, corral, k = max(SOLVED * gap, 0.5 * tol), self._corral, len(self._active)
        others, model = self._model(violation, tol, accepted)
        if self._stale:
            corral.clear(model.scale)
            corral.adopt(np.arange(k), self._weights, model)
        else:
            corral.relinearize(model.linear(np.arange(k)))
        joined = correct(corral, model)
        self._search(np.concatenate([self._active, others]), model, gap)
        return joined

    def _model(self, violation: Vector, tol: float, accepted: float) -> tuple[Ints, Hot | Near]:
        """Return the other atoms of a model, and the model."""
        curved, point, near, active = self._curved, self.point, self._near, self._lifted
        places, labels = near.find(self._active)
        if curved.cheap:
            # Both sides of a violation are sums that may cancel.
            size = norm(point.grad) * (norm(point.x) + self._span)
            accepted = max(accepted, 16.0 * UNIT * size)
            twins = np.full(len(near.positions), -1)
            twins[places] = labels
            model = Near(curved, point, active=active, others=near.rows, twins=twins, tol=accepted)
            return near.positions, model
        violation[places] = -np.inf
        hot = best_of(violation, HOT)
        others = near.positions[hot[violation[hot] > tol]]
        lifts = self._lifts
        if len(lifts.slot) < self._pool.size:
            lifts.slot = np.append(lifts.slot, np.full(self._pool.size - len(lifts.slot), -1))
        new = others[lifts.slot[others] < 0]
        lifts.put(new, curved.lift(self._pool.rows[new]))
        linear, rows = curved.bend(self._z) - self._objective.slope(point), lifts.take(others)
        return others, Hot(curved, linear, active=active, others=rows, known=self._known, tol=accepted)

    @property
    def _z(self) -> Vector:
        """The point in the space of the models."""
        return np.asarray(self._weights @ self._lifted)

    def _search(self, places: Ints, model: Hot | Near, gap: float) -> None:
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
        change = self._curved.change(self.point, weights @ lifted - self._z)
        self._stale = abs(change - 1.0) > CHORD
        self._known = model.gram_of(labels)
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
