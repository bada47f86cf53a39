"""Atoms in hand: the active set, which has the weights, and the pool, where almost all work happens.

`PoolWeights` says what weights of a pool's atoms may be.
All know ids and rows, no objective and no oracle. Every x of an active set comes with a proved
bound on its distance from the exact hull point, so that f(x) can be certified.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from wolfhound.compiled.corral import Corral
from wolfhound.core.contracts import Ids, Ints, Line, Matrix, Objective, Point, Vector, WeightSet
from wolfhound.core.rounding import LEAST, TINY, UNIT, gamma
from wolfhound.core.validate import require, require_moderate
from wolfhound.core.weights import NOBODY, caps_of, pay, settle

T = TypeVar("T", bound=np.generic)

ALL = -1  # instead of one atom: all active atoms in proportion, that is x itself
SCALED = 4.0 * UNIT  # how far from 1 weights that were scaled may sum; more is scaled again
WIDE, FAR = 16.0, 256.0  # times the sum of weights in hand: the room they get; where room is too much
_MAX_AGE = 64  # moves after which x is recomputed, lest its drift grow


@dataclass(frozen=True, slots=True)
class Move:
    """Weight goes to atom `up` and comes from atom `down`: x + s (u - v).

    u and v are the rows at the positions `up` and `down` of the active set,
    or x where they are `ALL`.
    """

    gap: float  # <-grad, u - v>, how fast f falls at s = 0
    up: int = ALL
    down: int = ALL

    @property
    def kind(self) -> str:
        """The name of such a step: "forward", "away" or "pairwise"."""
        if self.down == ALL:
            return "forward"
        return "away" if self.up == ALL else "pairwise"


def enlarge(array: NDArray[T], room: int) -> NDArray[T]:
    """Return a copy with room for so many rows; those beyond the first hold anything."""
    out = np.empty((room, *array.shape[1:]), array.dtype)
    out[: len(array)] = array
    return out


class ActiveSet:
    """Distinct atoms with weights w >= 0 of sum 1, and x = sum_i w_i s_i in float64.

    The weights sum to 1 only up to rounding: x, a fresh array after every move, stands for the exact quotient
    (sum_i w_i s_i) / (sum_i w_i), and `drift` (d,) bounds their distance. Without atoms it is the origin.
    `age` counts the moves since x was last computed from all the weights.
    """

    __slots__ = ("_ids", "_mass", "_peak", "_rows", "_size", "_weights", "age", "drift", "x")

    def __init__(self, ids: Ids, weights: Vector, rows: Matrix) -> None:
        ok = bool((weights >= 0.0).all()) and (len(ids) == 0 or 0.0 < weights.sum() < np.inf)
        require(ok, "weights", "non-negative, finite and not all zero", weights)
        require(len(np.unique(ids)) == len(ids), "ids", "distinct ids", "repeated ids")
        require_moderate(rows, "atoms")
        self._ids = np.array(ids, np.int64)
        self._weights = np.array(weights, np.float64)
        self._rows = np.array(rows, np.float64, order="C")
        self._size = len(self._ids)
        self._peak: Vector = np.abs(self._rows).max(axis=0, initial=0.0)
        self.x: Vector = np.zeros(rows.shape[1])
        self.drift: Vector = np.zeros(rows.shape[1])
        self.drop()
        # Weights that were scaled once stay as they are, to the bit: a run that goes on repeats itself.
        self.refresh(scale=abs(float(self.weights.sum()) - 1.0) > SCALED)

    def __len__(self) -> int:
        return self._size

    @property
    def ids(self) -> Ids:
        """(k,) atoms: a view, valid until the set changes."""
        return self._ids[: self._size]

    @property
    def weights(self) -> Vector:
        """(k,) weights: a view, valid until the set changes."""
        return self._weights[: self._size]

    @property
    def rows(self) -> Vector:
        """(k, d) rows: a view, valid until the set changes."""
        return self._rows[: self._size]

    def add(self, atom: int, row: Matrix) -> int:
        """Return the position of an atom; a new one enters with weight 0."""
        found = np.flatnonzero(self.ids == atom)
        if len(found):
            return int(found[0])
        k = self._size
        if k == len(self._ids):
            room = max(8, 2 * k)
            self._ids, self._weights = enlarge(self.ids, room), enlarge(self.weights, room)
            self._rows = enlarge(self.rows, room)
        self._ids[k], self._weights[k], self._rows[k] = atom, 0.0, row
        require_moderate(self._rows[k], "atoms")
        np.maximum(self._peak, np.abs(self._rows[k]), out=self._peak)
        self._size = k + 1
        return k

    def drop(self) -> None:
        """Forget the atoms of weight 0; the last ones take their places."""
        w = self.weights
        size = int(np.count_nonzero(w))
        if size == len(w):
            return
        holes = np.flatnonzero(w[:size] == 0.0)
        last = size + np.flatnonzero(w[size:])
        for array in (self._ids, self._weights, self._rows):
            array[holes] = array[last]
        self._size = size

    def direction(self, move: Move) -> Vector:
        """(d,) vector u - v of the move."""
        up = self.x if move.up == ALL else self._rows[move.up]
        down = self.x if move.down == ALL else self._rows[move.down]
        out: Vector = up - down
        return out

    def end(self, move: Move) -> float:
        """Return the largest step that keeps all weights >= 0."""
        if move.down == ALL:
            return 1.0
        weight = float(self._weights[move.down])
        if move.up != ALL:
            return weight if move.up != move.down else 0.0
        w = self.weights
        others = float(w[: move.down].sum() + w[move.down + 1 :].sum())
        return weight / others if others > weight * TINY else 0.0

    def step(self, move: Move, s: float, *, fresh: bool = True) -> None:
        """Make a move of length 0 <= s <= end(move) and forget the atoms it leaves empty.

        Fresh: x is computed from all the weights, (k d) work. If not, a pairwise move only adds s (u - v) to
        x, and to the drift.
        """
        if s == 0.0:
            return
        fresh = fresh or move.kind != "pairwise" or self.age + 1 >= _MAX_AGE
        end, vector = self.end(move), None if fresh else self.direction(move)
        w = self.weights
        if move.down == ALL:
            w *= 1.0 - s
        elif move.up == ALL:
            w *= 1.0 + s
        if move.up != ALL:
            w[move.up] += s
        if move.down != ALL:
            w[move.down] = max(w[move.down] - s, 0.0) if s < end else 0.0
        self.drop()
        if vector is None:
            self.refresh()
        else:
            self._shift(s, vector)

    def refresh(self, *, scale: bool = True) -> None:
        """Scale the weights to sum 1, unless they do already, and compute x and its drift from them."""
        self.age = 0
        k = self._size
        if k == 0:
            return
        w = self.weights
        if scale:
            w /= w.sum()
        more = 0 if scale else 8  # the sum of weights that are not scaled now errs by SCALED, too
        self.x, self.drift = mix(w, self.rows, more)
        self._mass = gamma(k + 2 + more)

    def _shift(self, s: float, vector: Vector) -> None:
        """Add s (u - v) to x after a pairwise move.

        The two new weights err by u (w_up + w_down) <= 1.1 u, which moves the
        sum and its quotient by 2.2 u |rows|; an inexact sum 1 + m of all
        weights by 2 s m |rows|; adding to x by u |x| + 4.1 s u |rows|.
        """
        self.age += 1
        self._mass += 2.0 * UNIT
        self.x = self.x + s * vector
        error = 4.0 * UNIT + s * (8.0 * UNIT + 2.5 * self._mass)
        self.drift = self.drift * (1.0 + 4.0 * UNIT) + error * self._peak + 4.0 * TINY


# ---------------------------------------------------------------- the pool


def mix(weights: Vector, rows: Vector, more: int = 0) -> tuple[Vector, Vector]:
    """(d,) sum of rows by weights, and a bound on its distance from where weights of sum 1 would lead."""
    # The product loses gamma_k, and the weights sum to 1 only within gamma_(k+1), and `more` units; the rest
    # covers the rounding of the bound itself.
    k = len(weights)
    return weights @ rows, gamma(2 * k + 5 + more) * (weights @ np.abs(rows)) + (k + 1) * LEAST


class AtomPool:
    """Distinct atoms with their ids; a position is an index into both. Rows keep their dtype."""

    def __init__(self, ids: Ids, rows: Matrix) -> None:
        require_moderate(rows, "atoms")
        self._ids = ids.copy()
        self._rows = np.ascontiguousarray(rows)
        self.size = len(ids)

    @property
    def ids(self) -> Ids:
        """(size,) atom ids by position."""
        return self._ids[: self.size]

    @property
    def rows(self) -> Matrix:
        """(size, d) atoms by position."""
        return self._rows[: self.size]

    def add(self, ids: Ids, rows: Matrix, slots: Ints) -> int:
        """Add the distinct atoms ``ids[i]``, ``rows[slots[i]]``, not yet here; return how many were new."""
        fresh = np.flatnonzero(~np.isin(ids, self.ids))
        end = self.size + len(fresh)
        if end > len(self._ids):
            room = end + end // 2
            self._ids, self._rows = enlarge(self.ids, room), enlarge(self.rows, room)
        self._ids[self.size : end] = ids[fresh]
        np.take(rows, slots[fresh], axis=0, out=self._rows[self.size : end], mode="clip")
        require_moderate(self._rows[self.size : end], "atoms")
        self.size = end
        return len(fresh)

    def keep(self, positions: Ints) -> Ints:
        """Keep only these (sorted) positions; return old position -> new, or -1."""
        moved = np.full(self.size, -1, np.int64)
        moved[positions] = np.arange(len(positions))
        self._ids[: len(positions)] = self.ids[positions]
        self._rows[: len(positions)] = self.rows[positions]
        self.size = len(positions)
        return moved


def best_of(scores: Vector, count: int) -> Ints:
    """Positions of the `count` largest scores, in no order."""
    if count >= len(scores):
        return np.arange(len(scores))
    return np.argpartition(scores, len(scores) - count)[len(scores) - count :]


def lift_rows(objective: Objective, rows: Matrix) -> Vector:
    """(r, p) float64 lift of the rows by an objective that has one."""
    lifted = objective.lift(rows)
    if lifted is None:
        raise TypeError(f"{objective!r} must have a lift: it is quadratic, or a Newton model is made of it")
    return lifted.astype(np.float64, copy=False)


# ---------------------------------------------------------------- weights of its atoms


class HullPoint(NamedTuple):
    """Weights of atoms of the pool, and f there."""

    positions: Ints
    weights: Vector
    point: Point


class PoolWeights:
    """What weights of a pool's atoms may be. Where a sum may be less, the zero atom is one of the pool.

    Moves keep to the sum `room`: beside far more than is needed all else would be rounding.
    """

    def __init__(self, over: WeightSet | None, pool: AtomPool) -> None:
        self.plain, self.over, self.pool = over is None, WeightSet() if over is None else over, pool
        self.room, self._given = self.over.total, True

    def fit_room(self, positions: Ints, weights: Vector) -> tuple[Ints, Vector] | None:
        """Take less room where far less was needed at first, more where all was; None if it stays."""
        real, first, self._given = self.real(positions), self._given, False
        held = float(weights[real].sum())
        full = self.room < self.over.total and held >= self.room * (1.0 - SCALED)
        if not (self.over.slack and (full or (first and 0.0 < held * FAR < self.room))):
            return None
        self.room = min(WIDE * held, self.over.total)
        nobody = np.flatnonzero(self.pool.ids == NOBODY)
        return np.append(nobody, positions[real]), np.append(self.room - held, weights[real])

    def caps(self, positions: Ints | slice = slice(None)) -> Vector:
        """Caps of some atoms, or of all."""
        return caps_of(self.over, self.pool.ids[positions])

    def corral(self, capacity: int, alpha: float) -> Corral:
        """Return an active set for such weights."""
        total = None if self.room == np.inf else self.room
        return Corral(capacity, alpha, ridge=self.over.ridge, total=total)

    def settle(self, positions: Ints, weights: Vector, total: float | None = None) -> Vector:
        """Weights of an active set whose sum and caps hold up to rounding; `total`: of a part of it."""
        if self.plain:
            return np.asarray(weights / weights.sum())
        over = replace(self.over, total=self.room if total is None else total)
        return settle(over, weights, self.caps(positions))

    def real(self, positions: Ints) -> NDArray[np.bool_]:
        """(k,) whether atoms are more than the zero atom."""
        return np.asarray(self.pool.ids[positions] != NOBODY)

    def prices(self, positions: Ints, weights: Vector, scores: Vector) -> Vector:
        """(k,) derivatives of F by weights, of scores <grad, s>."""
        return scores + np.where(self.real(positions), self.over.price + self.over.ridge * weights, 0.0)

    def costs(self, positions: Ints) -> Vector:
        """(k,) prices per unit of weight."""
        return np.where(self.real(positions), self.over.price, 0.0)

    def ridges(self, positions: Ints) -> Vector:
        """(k,) what the diagonal of a Gram matrix lacks: the zero atom has no ridge, which a corral adds."""
        return np.where(self.real(positions), 0.0, -self.over.ridge)

    def pay(self, positions: Ints, weights: Vector) -> float:
        """What is paid for weights."""
        return 0.0 if self.plain else pay(self.over, weights[self.real(positions)])

    def common(self, prices: Vector, weights: Vector, free: int) -> float:
        """The price that those of all free atoms, which come first, should have."""
        if self.over.total == np.inf:
            return 0.0
        held = float(weights[:free].sum())
        return float(weights[:free] @ prices[:free]) / held if held > 0.0 else float(prices.max(initial=0.0))


class PaidLine:
    """F along a line of f, where weights go from `before` to `after`."""

    def __init__(self, line: Line, over: WeightSet, before: Vector, after: Vector) -> None:
        self._line, way = line, after - before
        self.start, self.sq_length = line.start, line.sq_length
        self._slope = over.price * float(way.sum()) + over.ridge * float(before @ way)
        self._bend = over.ridge * float(way @ way)

    def value(self, s: float) -> float:
        """phi(s), but for what is paid at its start."""
        return self._line.value(s) + s * (self._slope + 0.5 * s * self._bend)

    def slope(self, s: float) -> float:
        """phi'(s)."""
        return self._line.slope(s) + self._slope + s * self._bend

    def at(self, s: float) -> Point:
        """The point of f."""
        return self._line.at(s)
