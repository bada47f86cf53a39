"""Second-order models of f over some atoms, for the Newton solve.

`Curved` knows the space and the curvature. `Hot` has the whole Gram matrix of a
few lifted atoms; `Near` prices many atoms by the model's gradient, and the
curvature meets only those that join. Labels count the active atoms, then others.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import TypeAlias

import numpy as np

from wolfhound.compiled.corral import BLOCK, Corral, Dense, most_violated
from wolfhound.core import Ints, Matrix, Objective, Point, Vector
from wolfhound.methods._secant import Secant
from wolfhound.oracles._hits import rescore

SMALL = 128
"""Up to this d a Hessian matrix costs less than the lifts and the Gram matrix of a model."""

TALL = 8
"""It is made where the lift has at least so many times d numbers."""

LARGEST = 1 << 24
"""Numbers up to which the matrix of a lift is kept."""


def lift(objective: Objective, rows: Matrix) -> Vector:
    """(r, p) float64 lift of the rows by an objective that has one."""
    lifted = objective.lift(rows)
    if lifted is None:
        raise TypeError(f"{objective!r} must have a lift: it is quadratic, or a Newton model is made of it")
    return lifted.astype(np.float64, copy=False)


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
        lifted, d = lift(objective, x[None]), len(x)
        self.diagonal = np.shares_memory(lifted, x) and np.array_equal(lifted, x[None])
        if d <= SMALL and TALL * d <= lifted.shape[1] <= LARGEST // d:
            self._design = lift(objective, np.eye(d))
            self._root = np.empty_like(self._design)
        self.cheap = self.diagonal or self._design is not None

    def lift(self, rows: Matrix) -> Vector:
        """(r, p) float64 rows in the space."""
        return lift(self._objective, rows) if self._design is None else rows.astype(np.float64, copy=False)

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
        """(r, r) products of rows of the lifted space, exactly symmetric."""
        scaled = rows * np.sqrt(self._curvature)
        return np.asarray(scaled @ scaled.T)

    def change(self, point: Point, move: Vector) -> float:
        """Curvature along a move at another point, as a share of the present."""
        lifted = move if self._design is None else move @ self._design
        square = lifted * lifted
        present = float(self._curvature @ square)
        return float(self._objective.curvature(point) @ square) / max(present, 1e-300)


Space: TypeAlias = Curved | Secant
"""Where f is expanded, and its curvature there."""


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
        self._curved = curved
        self._point = point
        self._others = others
        self._twins = twins
        self._linear = curved.bend(point.x) - point.grad
        self._tol = tol
        # Atoms that are or were held, and where.
        self._first = self._used = k = len(active)
        self._store = np.empty((k + BLOCK, len(point.x)))
        self._store[:k] = active
        self._slot = np.full(k + len(others), -1, np.int64)
        self._slot[:k] = np.arange(k)

    def rows(self, labels: Ints) -> Vector:
        """(r, d) rows of labels that are or were held."""
        return self._store[self._slot[labels]]

    def linear(self, labels: Ints) -> Vector:
        """(r,) entries of b, likewise."""
        return np.asarray(self.rows(labels) @ self._linear)

    @property
    def scale(self) -> float:
        """Mean diagonal of the active atoms' Gram matrix."""
        rows = self._store[: self._first]
        return float((rows * self._curved.bend(rows)).sum()) / self._first

    def gram_of(self, labels: Ints) -> Vector:
        """Nothing: the factor is all that is kept."""
        return np.empty((0, 0))

    def price(self, corral: Corral) -> tuple[float, Ints]:
        """Return the model's change of f, and the other labels that promise most."""
        weights = np.zeros(self._used)
        weights[self._slot[corral.labels]] = corral.weights
        x = weights @ self._store[: self._used]
        move = x - self._point.x
        bend = self._curved.bend(move)
        grad = self._point.grad + bend
        value = float(grad @ move - 0.5 * (bend @ move))
        violation = float(grad @ x) - rescore(self._others, grad)
        held = np.zeros(len(self._slot) + 1, bool)
        held[corral.labels] = True
        violation[held[self._first : -1] | held[self._twins]] = -np.inf
        best = float(violation.max())
        if not best > self._tol:
            return value, corral.labels[:0]
        worst = most_violated(violation, max(Dense.SHARE * best, self._tol))
        return value, self._first + worst[:BLOCK]

    def gram(self, new: Ints, held: Ints) -> tuple[Vector, Vector, Vector]:
        """(cross, gram, linear) of the new labels."""
        self._enter(new[self._slot[new] < 0])
        rows = self.rows(new)
        curved = self._curved.bend(rows)
        cross = (curved @ self._store[: self._used].T)[:, self._slot[held]]
        return cross, curved @ rows.T, rows @ self._linear

    def _enter(self, fresh: Ints) -> None:
        end = self._used + len(fresh)
        if end > len(self._store):
            more = np.empty((end, self._store.shape[1]))
            self._store = np.concatenate([self._store[: self._used], more])
        self._store[self._used : end] = self._others[fresh - self._first]
        self._slot[fresh] = np.arange(self._used, end)
        self._used = end

    def swap(self, joined: Ints, left: Ints) -> None:
        """Nothing to note: rows stay."""
