"""An active set whose prices come from outside: a pool of atoms, a Newton model, a matrix.

Wolfe's algorithm on the kernels of `active_set`, whose head has the mathematics, in blocks: products
with many atoms are the caller's, in BLAS.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import numpy as np

from wolfhound.compiled import active_set as kernels
from wolfhound.compiled.active_set import (
    ALPHA,
    CAP,
    FLOOR,
    FREE,
    GONE,
    INVERSE,
    LINEAR,
    RIDGE,
    ROW,
    STEPS,
    TOTAL,
    WEIGHT,
    U,
    V,
)
from wolfhound.core.contracts import Ints, Matrix, Vector
from wolfhound.core.rounding import UNIT
from wolfhound.core.validate import matrix, require, vector

PATIENCE = 4
"""Rounds in a row that need not lower the model: more is rounding."""

BLOCK = 64
"""Most atoms added at once."""

PANEL = 64
"""Rows of the factor that are applied to a block at once."""

_NONE: Ints = np.empty(0, np.int64)


def forward_rows(factor: Vector, k: int, rows: Vector) -> None:
    """Replace each row r of (B, k) `rows` by L^-1 r, in panels that fit a cache."""
    panel = np.empty((min(k, PANEL), len(rows)))
    for first in range(0, k, PANEL):
        last = min(k, first + PANEL)
        kernels.forward_panel(factor, first, last, rows, panel)
        if last < k:
            rows[:, last:k] -= rows[:, first:last] @ factor[last:k, first:last].T


class Corral:
    """Atoms with weights, and the factor that moves them; "corral" is Wolfe's word.

    Atoms are known by the caller's labels. The free ones, up to `capacity`, come first, then those at their
    cap; with a ridge, where none depends on others, room grows. Where weights have a sum, `total`, `alpha`
    is added to every entry of G: best near the mean of its diagonal. `cap` is a number, or one per label.
    """

    def __init__(
        self,
        capacity: int,
        alpha: float,
        *,
        cap: float | Vector = np.inf,
        ridge: float = 0.0,
        total: float | None = 1.0,
    ) -> None:
        self.cap = cap
        self.total = total
        self._factor = np.zeros((capacity, capacity))
        self._lines = np.zeros((10, capacity))
        self._labels = np.zeros(capacity, np.int64)
        self._gone = np.zeros((2, capacity + 2), np.int64)
        self._sizes = np.zeros(5, np.int64)
        self._numbers = np.zeros(5)
        self._numbers[RIDGE] = ridge
        self.clear(alpha)

    @property
    def size(self) -> int:
        """How many atoms are free."""
        return int(self._sizes[FREE])

    @property
    def room(self) -> int:
        """How many more can be."""
        return len(self._labels) - self.size

    @property
    def alpha(self) -> float:
        """What is added to every entry of G; 0 without a sum."""
        return float(self._numbers[ALPHA])

    @property
    def ridge(self) -> float:
        """What is added to its diagonal."""
        return float(self._numbers[RIDGE])

    @property
    def labels(self) -> Ints:
        """(k,) labels of the atoms that have weight or may get it; a view where none is at its cap."""
        free = self._labels[: self.size]
        return np.concatenate([free, self.capped]) if len(self.capped) else free

    @property
    def weights(self) -> Vector:
        """(k,) their weights; a view, that the caller may write, where none is at its cap."""
        free = self._lines[WEIGHT, : self.size]
        return np.concatenate([free, self.caps(self.capped)]) if len(self.capped) else free

    def caps(self, labels: Ints) -> Vector:
        """(r,) caps of some labels."""
        return self.cap[labels] if isinstance(self.cap, np.ndarray) else np.full(len(labels), self.cap)

    def clear(self, alpha: float) -> None:
        """Forget all atoms."""
        self._sizes[:] = 0
        summed = self.total is not None
        self._numbers[ALPHA] = 0.0 if not summed else (alpha if alpha > 0.0 else 1.0)
        self._numbers[TOTAL] = self.total if self.total is not None else 0.0
        self._numbers[FLOOR] = kernels.ZERO * self._numbers[TOTAL]
        self.capped: Ints = np.empty(0, np.int64)  # labels of the atoms at their cap

    def append(self, labels: Ints, cross: Vector, gram: Vector, linear: Vector) -> Ints:
        """Free a block of B atoms without weight, but for dependent ones; return the places of the others.

        `cross` (B, k) are Gram entries with the atoms of `self.labels`, in their order, `gram` (B, B) those
        among themselves, `linear` (B,) entries of c.
        """
        self.keep_room(len(labels))
        first, block, kept = self.size, gram.copy(), np.empty(len(labels), np.int64)
        # The ridge first: it may cancel an entry of -ridge, beside which alpha would be lost.
        np.fill_diagonal(block, block.diagonal() + self.ridge)
        block += self.alpha
        least = kernels.DEPENDENT * block.diagonal()
        rows = np.add(cross[:, :first], self.alpha, order="C")
        forward_rows(self._factor, first, rows)
        block -= rows @ rows.T
        kept = kept[: kernels.factor_block(block, least, kept)][: self.room]
        joined, end = len(kept), first + len(kept)
        self._factor[first:end, :first], new = rows[kept], slice(first, end)
        self._factor[new, new] = block[:joined, :joined]
        self._labels[new] = labels[kept]
        lines = self._lines[:, new]
        lines[INVERSE] = 1.0 / block.diagonal()[:joined]
        lines[U] = self._find_pull(cross, linear)[kept] - rows[kept] @ self._lines[U, :first]
        lines[V] = 1.0 - rows[kept] @ self._lines[V, :first]
        kernels.forward_panel(self._factor, first, end, self._lines[: V + 1], np.empty((joined, 2)))
        lines[WEIGHT], lines[CAP], lines[LINEAR] = 0.0, self.caps(labels[kept]), linear[kept]
        self._sizes[FREE], self._sizes[STEPS] = end, self._sizes[STEPS] + joined
        return kept

    def relabel(self, where: Ints) -> None:
        """The caller's labels changed: old label -> new."""
        self._labels[: self.size] = where[self._labels[: self.size]]
        self.capped = where[self.capped]

    def keep_room(self, new: int) -> None:
        """With a ridge any number of atoms may be free: double the room where it is short."""
        if self.ridge == 0.0 or self.room >= new:
            return
        k, more = len(self._labels), max(new, len(self._labels))
        self._factor = np.pad(self._factor, (0, more))
        self._lines = np.pad(self._lines, ((0, 0), (0, more)))
        self._gone = np.zeros((2, k + more + 2), np.int64)
        self._labels = np.pad(self._labels, (0, more))

    def _find_pull(self, cross: Vector, linear: Vector) -> Vector:
        """Entries of b: c less the pull of the atoms at their cap."""
        return linear - cross[:, self.size :] @ self.caps(self.capped) if len(self.capped) else linear

    def exchange(self, label: int, cross: Vector, square: float, linear: float) -> Ints | None:
        """Free one atom that depends on the free ones, or is at its cap; return labels that lost all weight.

        Arguments are those of `append` for one atom, `cross` (k,) and `square` its diagonal entry. None: the
        move gains nothing, and nothing is changed.
        """
        k, at = self.size, np.flatnonzero(self.capped == label)
        sign, cap = -1 if len(at) else 1, float(self.caps(np.array([label]))[0])
        price = float(cross @ self.weights) - linear + (self.ridge * cap if len(at) else 0.0)
        # Where none is free, the sum is fixed: any atom at its cap may be freed.
        gain = sign * (self._here() - price) if k or self.total is None else 1e300
        if not (gain > 0.0 and np.isfinite(gain)):
            return None
        others = self.capped, np.delete(self.capped, at)
        self.capped, cross = others[1], np.delete(cross, k + at)
        how = self._admit(label, cross, square, linear, gain, cap, sign)
        if how == 0:
            self.capped = others[0]
            return None
        left = self._note_gone()
        if how == 2 and sign > 0:
            self.capped = np.append(self.capped, label)
        return np.append(left, label) if how == 2 and sign < 0 else left

    def _admit(
        self, label: int, cross: Vector, square: float, linear: float, gain: float, bound: float, sign: int
    ) -> int:
        self.keep_room(1)
        pulled = float(self._find_pull(cross[None], np.array([linear]))[0])
        self._lines[ROW, : self.size] = cross[: self.size]
        how = self._advance(label, square, pulled, gain, bound, sign, False)
        if how == 1:
            self._lines[LINEAR, self.size - 1] = linear
        return how

    def _advance(self, *move: float) -> int:
        """Let the kernel make a move."""
        state = self._factor, self._lines, self._labels, self._gone, self._sizes, self._numbers
        return kernels.advance(*state, *move)  # type: ignore[arg-type]

    def _here(self) -> float:
        """Mean price of the free atoms, from the factor; 0 without a sum, where that is what it should be."""
        k, total = self.size, float(self._lines[WEIGHT, : self.size].sum())
        if self.total is None:
            return 0.0
        moved = self._lines[WEIGHT, :k] @ np.tril(self._factor[:k, :k])
        # Products, no powers: where weights have run away they are inf, and an exchange gains nothing.
        return float(moved @ (moved - self._lines[U, :k])) / total - self.alpha * total

    def adopt(self, labels: Ints, weights: Vector, model: Model) -> Ints:
        """Hold these atoms with these weights, from an empty corral; return a copy of the labels now held.

        An atom that depends on the others hands its weight on to them, so that
        sum(weights * atoms) stays; where that empties another, that one leaves.
        """
        full = weights >= self.caps(labels)
        self.capped = labels[full]
        self._numbers[TOTAL] -= float(self.caps(self.capped).sum())
        for first in range(0, len(self.capped), BLOCK):
            model.gram(self.capped[first : first + BLOCK], _NONE)
            model.swap(self.capped[first : first + BLOCK], _NONE)
        labels, weights = labels[~full], weights[~full]
        for first in range(0, len(labels), BLOCK):
            self.keep_room(BLOCK)
            block = labels[first : first + min(BLOCK, self.room)]
            kept = self.append(block, *model.gram(block, self.labels))
            self._lines[WEIGHT, self.size - len(kept) : self.size] = weights[first + kept]
            model.swap(block[kept], block[:0])
            for at in np.delete(np.arange(len(block)), kept):
                self._hand_on(block[at : at + 1], float(weights[first + at]), model)
        if self.total is not None and self.size:
            free = self._lines[WEIGHT, : self.size]
            free *= self._numbers[TOTAL] / free.sum()
        return self.labels.copy()

    def _hand_on(self, label: Ints, weight: float, model: Model) -> None:
        """Treat an atom as if its weight were its cap, and free it from there."""
        k, (cross, gram, linear) = self.size, model.gram(label, self.labels)
        pull = cross[0, :k] + self.alpha
        kernels.forward(self._factor, self._lines[INVERSE], 0, k, pull)
        self._lines[U, :k] -= weight * (pull - self.alpha * self._lines[V, :k])
        how = self._admit(int(label[0]), cross[0], float(gram[0, 0]), float(linear[0]), np.inf, weight, -1)
        self._numbers[TOTAL] -= weight  # it never was part of the others' total
        if how == 1:
            self._lines[CAP, self.size - 1] = self.caps(label)[0]
        model.swap(label[: int(how == 1)], self._note_gone())

    def _note_gone(self) -> Ints:
        """Labels that lost all weight since it was asked last; others that left are at their cap."""
        if not self._sizes[GONE]:
            return _NONE
        gone: Ints = self._gone[:, : self._sizes[GONE]].copy()
        labels, capped = gone[0], gone[1]
        self._sizes[GONE] = 0
        self.capped = np.concatenate([self.capped, labels[capped == 1]])
        return np.asarray(labels[capped == 0])

    def descend(self) -> tuple[Ints, bool]:
        """Go to the minimum over the bounds of the free atoms; who lost all weight, and whether any moved."""
        moved = bool(self._advance(-1, 0.0, 0.0, 0.0, 0.0, 1, True))
        return self._note_gone(), moved

    def relinearize(self, linear: Vector) -> None:
        """Replace c, (k,) in the order of `labels`; the factor stays."""
        k = self.size
        b = linear[:k].astype(np.float64)
        if len(self.capped):
            b -= self._lines[LINEAR, :k] - np.tril(self._factor[:k, :k]) @ self._lines[U, :k]
        self._lines[LINEAR, :k] = linear[:k]
        self._lines[U, :k] = b
        kernels.forward(self._factor, self._lines[INVERSE], 0, k, self._lines[U])


class Model(Protocol):
    """A quadratic over labelled atoms, whose minimum is sought."""

    def price(self, corral: Corral) -> tuple[float, Ints]:
        """Return the model's value, and labels whose price is on the wrong side, best first.

        Only labels that are not free, whose violation is a good share of the best; none at all means
        that the model is solved well enough. Where a sum holds and no atom is free, the atom at its
        cap of highest price comes first.
        """

    def gram(self, new: Ints, held: Ints) -> tuple[Vector, Vector, Vector]:
        """(cross, gram, linear) of the new labels, as `Corral.append` takes them."""

    def swap(self, joined: Ints, left: Ints) -> None:
        """Labels that joined and then labels that left the corral."""


def correct(corral: Corral, model: Model) -> int:
    """Minimise the model over the weights of all its labels; return how many atoms joined."""
    return sum(corrections(corral, model))


def corrections(corral: Corral, model: Model) -> Iterator[int]:
    """Minimise the model as `correct` does, and yield at every pricing how many atoms joined before it.

    Blocks of at most ``max(1, k/4)`` atoms join, then the corral descends; where
    a block moves no weight, single atoms are tried.
    """
    count, single, idle, best = 0, False, 0, np.inf
    model.swap(_NONE, corral.descend()[0])
    while True:
        value, candidates = model.price(corral)
        yield count
        count = 0
        idle = 0 if value < best - 4.0 * UNIT * abs(best) or best == np.inf else idle + 1
        best = min(best, value)
        corral.keep_room(BLOCK)
        block = 1 if single or idle else min(BLOCK, max(4, corral.size // 2))
        new = candidates[: min(block, corral.room)]
        if len(new) == 0 or idle > PATIENCE:
            return
        back = bool((corral.capped == new[0]).any())
        if len(corral.capped):
            new = new[:1] if back else new[~np.isin(new, corral.capped)]
        cross, gram, linear = model.gram(new, corral.labels)
        joined = _NONE if back else new[corral.append(new, cross, gram, linear)]
        if len(joined) == 0 and len(new) > 1:
            single = True
            continue
        left = _NONE
        if len(joined) == 0:
            swapped = corral.exchange(int(new[0]), cross[0], float(gram[0, 0]), float(linear[0]))
            if swapped is None:
                return
            joined, left = _NONE if back else new, swapped
        gone, moved = corral.descend()
        model.swap(joined, np.concatenate([left, gone]))
        count = len(new)
        single = not moved


SHARE = 0.3
"""Atoms join a model whose violation is at least this share of the largest."""


def most_violated(violation: Vector, tol: float) -> Ints:
    """Places that join a model, the largest violation first; none if all are within the tolerance."""
    best = float(violation.max())
    if not best > tol:
        return _NONE
    places: Ints = np.flatnonzero(violation >= max(SHARE * best, tol))
    return places[np.argsort(-violation[places], kind="stable")]


class Dense:
    """A `Model` with its whole Gram matrix at hand; labels are 0 .. M-1.

    Violations up to `tol` are accepted; those up to rounding always.
    """

    def __init__(self, gram: Vector, linear: Vector, tol: float) -> None:
        self._gram = gram
        self._linear = linear
        noise = float(np.abs(gram).max() + np.abs(linear).max())
        self._tol = max(tol, 8 * len(linear) * UNIT * noise)

    def price(self, corral: Corral) -> tuple[float, Ints]:
        """Return the value, and labels that violate optimality, best first."""
        held, weights, k = corral.labels, corral.weights, corral.size
        prices = weights @ self._gram[held] - self._linear
        prices[held] += corral.ridge * weights
        with np.errstate(over="ignore", invalid="ignore"):  # nothing but progress is told by it
            value = 0.5 * float(weights @ (prices[held] - self._linear[held]))
        here, capped = 0.0, held[k:]
        if corral.total is not None:
            free = weights[:k].sum()
            here = float(weights[:k] @ prices[held[:k]] / free) if free > 0.0 else float(prices[capped].max())
        violation = here - prices
        violation[capped] *= -1.0
        violation[held[:k]] = -np.inf
        if not violation.max() > self._tol * max(1.0, float(weights.sum())):
            return value, _NONE
        worst = most_violated(violation, self._tol)
        if corral.total is not None and k == 0:
            worst = np.concatenate([capped[prices[capped].argmax()][None], worst])
        return value, worst

    def gram(self, new: Ints, held: Ints) -> tuple[Vector, Vector, Vector]:
        """(cross, gram, linear) of the new labels."""
        return self._gram[np.ix_(new, held)], self._gram[np.ix_(new, new)], self._linear[new]

    def swap(self, joined: Ints, left: Ints) -> None:
        """Nothing to note."""


def solve(
    gram: Matrix,
    linear: Vector,
    *,
    tol: float = 0.0,
    cap: float | Vector = np.inf,
    ridge: float = 0.0,
    total: float | None = 1.0,
) -> Vector:
    """Weights that minimise 1/2 w'(G + ridge I)w - c'w over 0 <= w <= cap and sum w = total.

    (M, M) `gram` is symmetric, positive semidefinite; violations <-grad, e_i - w> up to `tol` are accepted,
    rounding always. Caps, a number or one per atom, must sum to `total` at least; None: no sum, and f must
    have a minimum.

    Examples
    --------
    Project (1, 0.2) on the simplex, and on the part of it below 0.6:

    >>> solve(np.eye(2), np.array([1.0, 0.2])).round(12)
    array([0.9, 0.1])
    >>> solve(np.eye(2), np.array([1.0, 0.2]), cap=0.6).round(12)
    array([0.6, 0.4])
    """
    gram = matrix(gram, "gram")
    linear = vector(linear, "linear", size=len(gram))
    require(gram.shape[0] == gram.shape[1], "gram", "square", f"shape {gram.shape}")
    size, caps = len(linear), np.broadcast_to(np.asarray(cap, np.float64), linear.shape)
    require(bool((caps > 0.0).all()), "cap", "> 0", cap)
    require(ridge >= 0.0, "ridge", ">= 0", ridge)
    corral = Corral(size, float(gram.trace()) / size, cap=caps.copy(), ridge=ridge, total=total)
    model = Dense(gram, linear, tol)
    if total is not None:
        require(total > 0.0, "total", "> 0", total)
        room = float(caps.sum())
        require(room >= total * (1.0 - 4.0 * size * UNIT), "cap", f"of sum >= {total:g}", room)
        order = np.argsort(0.5 * gram.diagonal() - linear, kind="stable")
        most = np.minimum(caps[order], total)
        share = np.clip(total - (np.cumsum(most) - most), 0.0, most)
        first = order[share > 0.0]
        corral.adopt(first, share[share > 0.0], model)
    correct(corral, model)
    weights = np.zeros(size)
    weights[corral.labels] = corral.weights
    if total is not None and not len(corral.labels[corral.size :]):
        weights *= total / weights.sum()
    return weights
