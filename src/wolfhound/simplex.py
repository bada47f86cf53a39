"""The quadratic program on the simplex: min 1/2 w'Gw - b'w, w >= 0, sum w = 1.

An active-set method (Wolfe 1976) on a Cholesky factor of G + alpha 11', in
blocks. It serves the corrective step, Newton models and herding weights; it
knows neither atoms nor f.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import numpy as np

from wolfhound import _cholesky as cholesky
from wolfhound.core import Ints, Matrix, Vector
from wolfhound.rounding import UNIT
from wolfhound.validate import matrix, require, vector

DEPENDENT = 1e-11
"""A pivot below this share of its diagonal: affinely dependent."""

VANISHING = 1e-12
"""Shares up to this do not limit an exchange: they are rounding."""

PATIENCE = 4
"""Rounds in a row that need not lower the model: more is rounding."""

BLOCK = 64
"""Most atoms added at once."""


class Corral:
    """Affinely independent atoms with weights, and the factor that moves them.

    "Corral" is Wolfe's word. Atoms are known by the caller's labels.

    Parameters
    ----------
    capacity
        Largest number of atoms held.
    alpha
        Added to every entry of G (nothing changes, as the weights sum to 1): it
        makes the factor exist. Best near the mean diagonal of G.
    """

    def __init__(self, capacity: int, alpha: float) -> None:
        self.alpha = alpha if alpha > 0.0 else 1.0
        self.size = 0
        self._factor = np.zeros((capacity, capacity))
        self._carried = np.zeros((2, capacity))
        self._weights = np.zeros(capacity)
        self._labels = np.zeros(capacity, np.int64)

    @property
    def room(self) -> int:
        """How many more atoms fit."""
        return len(self._labels) - self.size

    @property
    def labels(self) -> Ints:
        """(k,) labels of the held atoms, in the order of the factor; a view."""
        return self._labels[: self.size]

    @property
    def weights(self) -> Vector:
        """(k,) their weights; a view that the caller may write."""
        return self._weights[: self.size]

    def clear(self, alpha: float) -> None:
        """Forget all atoms."""
        self.size = 0
        self.alpha = alpha if alpha > 0.0 else 1.0

    def append(self, labels: Ints, cross: Vector, gram: Vector, linear: Vector) -> Ints:
        """Add a block of atoms with weight 0; dependent ones are left out.

        Parameters
        ----------
        labels : (B,)
        cross : (B, k)
            Gram entries with the held atoms, in their order.
        gram : (B, B)
            Gram entries among themselves.
        linear : (B,)
            Their entries of b.

        Returns
        -------
        kept : (r,)
            Positions in the block of the atoms that were added.
        """
        return self._append(labels, cross + self.alpha, gram + self.alpha, linear, tol=DEPENDENT)

    def _append(self, labels: Ints, cross: Vector, gram: Vector, linear: Vector, *, tol: float) -> Ints:
        k = self.size
        rows = np.ascontiguousarray(cross)
        cholesky.forward_rows(self._factor, k, rows)
        schur, diagonal, b = gram - rows @ rows.T, np.diagonal(gram).copy(), np.ascontiguousarray(linear)
        kept: Ints = cholesky.absorb(self._factor, self._carried, rows, schur, diagonal, b, tol)
        self.size = k + len(kept)
        self._labels[k : self.size] = labels[kept]
        self._weights[k : self.size] = 0.0
        return kept

    def exchange(self, label: int, cross: Vector, square: float, linear: float) -> Ints | None:
        """Take in one atom that depends on the held ones.

        f is nearly linear along the move that gives it weight and takes the same
        mixture away from the held atoms. The move goes to the first weight that
        vanishes, whose atom leaves, or to the minimum if that comes first.
        Arguments are those of `append` for one atom, `cross` (k,) and `square`
        its diagonal entry.

        Returns
        -------
        left : (0,) or (1,)
            The label that left; None if the move gains nothing: nothing is
            changed then.
        """
        k = self.size
        gain = linear - cross @ self.weights - self._here()
        share = cross + self.alpha
        cholesky.forward_substitute(self._factor, k, share)
        bend = square + self.alpha - float(share @ share)
        cholesky.back_substitute(self._factor, k, share)
        leaves, far = self._first_to_vanish(share)
        lowest = gain / bend if bend > 0.0 else np.inf
        reach = min(far, lowest)
        if not (gain > 0.0 and np.isfinite(reach)):
            return None
        self.weights[:] = np.maximum(0.0, self.weights - reach * share)
        left = self.labels[leaves : leaves + int(reach < lowest)].copy()
        if len(left):
            self._drop(leaves)
            cross = np.delete(cross, leaves)
        gram = np.full((1, 1), square + self.alpha)
        self._append(np.array([label]), cross[None] + self.alpha, gram, np.array([linear]), tol=-np.inf)
        self.weights[-1] = reach
        return left

    def _first_to_vanish(self, fall: Vector) -> tuple[int, float]:
        """Which weight vanishes first if they fall at these rates, and where; inf if none does."""
        ratios = np.full(self.size, np.inf)
        np.divide(self.weights, fall, out=ratios, where=fall > VANISHING)
        leaves = int(ratios.argmin())
        return leaves, float(ratios[leaves])

    def _here(self) -> float:
        """<b - Gw, w> from the factor."""
        factor = np.tril(self._factor[: self.size, : self.size])
        moved, total = self.weights @ factor, float(self.weights.sum())
        # A product, no power: where weights have run away it is inf, and the exchange gains nothing.
        return float(moved @ (self._carried[0, : self.size] - moved)) + self.alpha * (total * total)

    def adopt(self, labels: Ints, weights: Vector, model: Model) -> Ints:
        """Hold these atoms with these weights, from an empty corral.

        An atom that depends on the others hands its weight on to them, so that
        sum(weights * atoms) stays; where that empties another, that one leaves.

        Returns
        -------
        held : (k,)
            A copy of the labels now held.
        """
        for first in range(0, len(labels), BLOCK):
            block = labels[first : first + min(BLOCK, self.room)]
            cross, gram, linear = model.gram(block, self.labels)
            kept = self.append(block, cross, gram, linear)
            self.weights[self.size - len(kept) :] = weights[first + kept]
            model.swap(block[kept], block[:0])
            for at in np.setdiff1d(np.arange(len(block)), kept):
                self._hand_on(block[at : at + 1], float(weights[first + at]), model)
        self.weights[:] /= self.weights.sum()
        return self.labels.copy()

    def _hand_on(self, label: Ints, weight: float, model: Model) -> None:
        cross, gram, linear = model.gram(label, self.labels)
        share = cross[0] + self.alpha
        cholesky.forward_substitute(self._factor, self.size, share)
        cholesky.back_substitute(self._factor, self.size, share)
        leaves, far = self._first_to_vanish(-share)
        reach = min(weight, far)
        self.weights[:] = np.maximum(0.0, self.weights + reach * share)
        if reach == weight:
            return
        left = self.labels[leaves : leaves + 1].copy()
        self._drop(leaves)
        rest = np.delete(cross, leaves, axis=1) + self.alpha
        self._append(label, rest, gram + self.alpha, linear, tol=-np.inf)
        self.weights[-1] = weight - reach
        model.swap(label, left)

    def _drop(self, at: int) -> None:
        cholesky.delete_row(self._factor, self._carried, self.size, at, np.empty((2, self.size)))
        self._weights[at : self.size - 1] = self._weights[at + 1 : self.size]
        self._labels[at : self.size - 1] = self._labels[at + 1 : self.size]
        self.size -= 1

    def descend(self) -> tuple[Ints, bool]:
        """Go to the minimum over the simplex of the held atoms.

        Returns
        -------
        gone, moved
            Labels of the atoms that left, and whether any weight moved.
        """
        gone = np.empty(self.size, np.int64)
        self.size, left, moved = cholesky.descend(
            self._factor, self._carried, self._weights, self._labels, self.size, gone
        )
        return gone[:left], moved

    def relinearize(self, linear: Vector) -> None:
        """Replace b, (k,) in the order of `labels`; the factor stays."""
        self._carried[0, : self.size] = linear
        cholesky.forward_substitute(self._factor, self.size, self._carried[0])


class Model(Protocol):
    """A quadratic over labelled atoms, whose minimum on the simplex is sought."""

    def price(self, corral: Corral) -> tuple[float, Ints]:
        """Return the model's value, and labels that violate optimality, best first.

        Only labels outside the corral whose violation is a good share of the
        best; none at all means that the model is solved well enough.
        """

    def gram(self, new: Ints, held: Ints) -> tuple[Vector, Vector, Vector]:
        """(cross, gram, linear) of the new labels, as `Corral.append` takes them."""

    def swap(self, joined: Ints, left: Ints) -> None:
        """Labels that joined and then labels that left the corral."""


def correct(corral: Corral, model: Model) -> int:
    """Minimise the model over the simplex of all its labels; return how many atoms joined."""
    return sum(corrections(corral, model))


def corrections(corral: Corral, model: Model) -> Iterator[int]:
    """Minimise the model as `correct` does, and yield at every pricing how many atoms joined before it.

    Blocks of at most ``max(1, k/4)`` atoms join, then the corral descends; where
    a block moves no weight, single atoms are tried.
    """
    count, single, idle, best = 0, False, 0, np.inf
    none = np.empty(0, np.int64)
    model.swap(none, corral.descend()[0])
    while True:
        value, candidates = model.price(corral)
        yield count
        count = 0
        idle = 0 if value < best - 4.0 * UNIT * abs(best) or best == np.inf else idle + 1
        best = min(best, value)
        block = 1 if single or idle else min(BLOCK, max(1, corral.size // 4))
        new = candidates[: min(block, corral.room)]
        if len(new) == 0 or idle > PATIENCE:
            return
        cross, gram, linear = model.gram(new, corral.labels)
        joined = new[corral.append(new, cross, gram, linear)]
        if len(joined) == 0 and len(new) > 1:
            single = True
            continue
        left = none
        if len(joined) == 0:
            swapped = corral.exchange(int(new[0]), cross[0], float(gram[0, 0]), float(linear[0]))
            if swapped is None:
                return
            joined, left = new, swapped
        gone, moved = corral.descend()
        model.swap(joined, np.concatenate([left, gone]))
        count = len(joined)
        single = not moved


def most_violated(violation: Vector, least: float) -> Ints:
    """Places whose violation is at least this, the largest first."""
    places: Ints = np.flatnonzero(violation >= least)
    return places[np.argsort(-violation[places], kind="stable")]


class Dense:
    """A `Model` with its whole Gram matrix at hand; labels are 0 .. M-1.

    Parameters
    ----------
    gram : (M, M)
    linear : (M,)
    tol
        Violations up to this are accepted; those up to rounding always.
    """

    SHARE = 0.3

    def __init__(self, gram: Vector, linear: Vector, tol: float) -> None:
        self._gram = gram
        self._linear = linear
        noise = float(np.abs(gram).max() + np.abs(linear).max())
        self._tol = max(tol, 8 * len(linear) * UNIT * noise)

    def price(self, corral: Corral) -> tuple[float, Ints]:
        """Return the value, and labels that violate optimality, best first."""
        held, weights = corral.labels, corral.weights
        scores = self._linear - weights @ self._gram[held]
        value = -0.5 * float(weights @ (self._linear[held] + scores[held]))
        violation = scores - weights @ scores[held]
        violation[held] = -np.inf
        best = float(violation.max())
        if not best > self._tol:
            return value, np.empty(0, np.int64)
        return value, most_violated(violation, max(self.SHARE * best, self._tol))

    def gram(self, new: Ints, held: Ints) -> tuple[Vector, Vector, Vector]:
        """(cross, gram, linear) of the new labels."""
        return self._gram[np.ix_(new, held)], self._gram[np.ix_(new, new)], self._linear[new]

    def swap(self, joined: Ints, left: Ints) -> None:
        """Nothing to note."""


def solve(gram: Matrix, linear: Vector, *, tol: float = 0.0) -> Vector:
    """Weights that minimise 1/2 w'Gw - b'w over the simplex.

    Parameters
    ----------
    gram : (M, M)
        Symmetric, positive semidefinite.
    linear : (M,)
        b.
    tol
        Largest violation accepted, <-grad, e_i - w>; rounding is always.

    Examples
    --------
    Project (1, 0.2) on the simplex:

    >>> solve(np.eye(2), np.array([1.0, 0.2])).round(12)
    array([0.9, 0.1])
    """
    gram = matrix(gram, "gram")
    linear = vector(linear, "linear", size=len(gram))
    require(gram.shape[0] == gram.shape[1], "gram", "square", f"shape {gram.shape}")
    size = len(linear)
    corral = Corral(size, float(gram.trace()) / size)
    first = int((0.5 * gram.diagonal() - linear).argmin())
    label = np.array([first])
    corral.append(label, np.empty((1, 0)), gram[first : first + 1, first : first + 1], linear[label])
    corral.weights[:] = 1.0
    correct(corral, Dense(gram, linear, tol))
    weights = np.zeros(size)
    weights[corral.labels] = corral.weights
    return np.asarray(weights / weights.sum())
