"""Kernel herding on candidates with a mean embedding: picks, then swaps.

A pick is the candidate c that makes the squared MMD of the larger set least:
the largest ``t <mu, k_c> - sum_q k(c, q) - k(c, c)/2`` with t the new size. For
kernels with a constant diagonal this is herding as published; where the
diagonal varies (Stein, linear) the last term is what makes a pick optimal.
Knows no files.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeAlias, final

import numpy as np

from wolfhound import simplex
from wolfhound.core import Ids, Ints, Matrix, Vector
from wolfhound.herding._greedy_kernels import absolute_distances, best, shift, squared_distances
from wolfhound.herding.embedding import Embedding
from wolfhound.herding.kernels import Gaussian, Kernel, Laplace
from wolfhound.threads import map_ordered

KernelRow: TypeAlias = Callable[[Matrix], Matrix]
"""(d,) row -> (N,) kernel values with all candidates, in a buffer that is used again."""

_ALONE = 16 << 20
"""Bytes of candidates up to which one thread is as fast: they stay in its cache."""

_BLOCK = 4 << 20
"""Bytes of candidates per task above that."""


def kernel_row(kernel: Kernel, rows: Matrix) -> KernelRow:
    """Return the fastest way to evaluate the kernel between one row and many.

    Parameters
    ----------
    kernel
        With nothing left to choose.
    rows : (N, d)
        The candidates, C-ordered.
    """
    if isinstance(kernel, Gaussian) and kernel.lengthscale is not None:
        return _exponential(squared_distances, rows, -0.5 / kernel.lengthscale**2)
    if isinstance(kernel, Laplace) and kernel.lengthscale is not None:
        return _exponential(absolute_distances, rows, -1.0 / kernel.lengthscale)
    columns = kernel.against(rows)
    return lambda row: np.ascontiguousarray(columns(row[None])[:, 0])


def _exponential(
    distances: Callable[[Matrix, Matrix, float, Matrix], None], rows: Matrix, scale: float
) -> KernelRow:
    out = np.empty(len(rows), rows.dtype)
    step = len(rows)
    if rows.nbytes > _ALONE:
        step = max(1, _BLOCK // (rows.shape[1] * rows.itemsize))

    def values(row: Matrix) -> Matrix:
        def fill(first: int) -> None:
            part = out[first : first + step]
            distances(rows[first : first + step], row, scale, part)
            np.exp(part, out=part)

        firsts = range(0, len(rows), step)
        done: Iterable[None] = (
            map(fill, firsts) if step == len(rows) else map_ordered(fill, firsts, blas=False)
        )
        for _ in done:
            pass
        return out

    return values


@final
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Pool:
    """Candidates, and the mean to be matched at each of them.

    With labels the kernel is ``k(x, y) (1 + [same label])``: what is matched is the mean
    of all rows and that of each label at once. Each label on its own would choose
    the middle of its rows first, and few rows of many labels would all lie there.

    Attributes
    ----------
    ids, rows : (c,), (c, d)
        The candidates, those of one label after those of another.
    ku : (c,)
        <mu, k(c, .)>, with labels in the kernel with labels.
    square : float
        |mu|^2 in the same kernel.
    starts : (labels + 1,) int64
        Where the candidates of each label begin; without labels: 0 and c.
    same : float
        What k is multiplied by for rows of one label: 2; without labels 1.
    """

    ids: Ids
    rows: Matrix
    ku: Vector
    square: float
    starts: Ints
    same: float = 1.0

    @classmethod
    def of(cls, embedding: Embedding) -> Pool:
        """Return the candidates of an embedding, without labels."""
        starts = np.array([0, len(embedding.ids)])
        return cls(
            ids=embedding.ids, rows=embedding.rows, ku=embedding.ku, square=embedding.square, starts=starts
        )

    def label(self, place: int) -> int:
        """Label of a candidate."""
        return int(np.searchsorted(self.starts, place, side="right")) - 1


@final
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Held:
    """Rows that are in a set from the start, none of them a candidate.

    Attributes
    ----------
    rows : (r, d)
    labels : (r,) int64
        0 without labels.
    ku : (r,)
        The mean to be matched there.
    """

    rows: Matrix
    labels: Ints
    ku: Vector


class Greedy:
    """A growing set of rows, and the scores of all candidates to join it.

    Parameters
    ----------
    pool
        Candidates and the mean to be matched.
    kernel
        With nothing left to choose.
    held
        Rows that are in the set from the start.
    """

    def __init__(self, pool: Pool, kernel: Kernel, held: Held) -> None:
        size = len(pool.ids)
        self.pool = pool
        self.held = held
        self.places: list[int] = []
        self.scored = 0
        self._kernel = kernel
        self._row = kernel_row(kernel, pool.rows)
        self._diagonal: Vector = pool.same * kernel.diagonal(pool.rows).astype(np.float64)
        self._half = 0.5 * self._diagonal  # infinite where a candidate is taken
        self._potential = np.zeros(size)  # sum of k(c, q) over the set
        self._scores = np.empty(size)
        self._pairs = 0.0  # sum of k over all pairs of the set, (q, q) included
        self._linear = float(held.ku.sum())  # sum of <mu, k_q> over the set
        for row, label in zip(held.rows, held.labels, strict=True):
            shift(self._potential, self._values(row, int(label)), 1.0)
        if len(held.rows):
            gram = kernel.gram(held.rows, held.rows)
            alike = held.labels[:, None] == held.labels
            self._pairs = float((gram * np.where(alike, pool.same, 1.0)).sum(dtype=np.float64))

    def _values(self, row: Matrix, label: int) -> Matrix:
        """(c,) kernel values of one row with all candidates."""
        self.scored += len(self._potential)
        out = self._row(row)
        if self.pool.same > 1.0:
            out[self.pool.starts[label] : self.pool.starts[label + 1]] *= self.pool.same
        return out

    @property
    def size(self) -> int:
        """Rows in the set."""
        return len(self.held.rows) + len(self.places)

    @property
    def squared(self) -> float:
        """Squared MMD between the set and the mean, up to rounding >= 0."""
        t = max(1, self.size)
        return max(0.0, self._pairs / t**2 - 2.0 * self._linear / t + self.pool.square)

    def pick(self, label: int = 0) -> int:
        """Place of the best candidate of this label that is not in the set."""
        place = self._best(self._potential, label, self.size + 1)
        if place < 0:
            raise FloatingPointError(
                "`rows` must be of moderate size: no candidate has a finite score; scale the rows"
            )
        return place

    def _best(self, potential: Vector, label: int, size: int) -> int:
        first, stop = self.pool.starts[label : label + 2]
        part = slice(first, stop)
        found = best(potential[part], self.pool.ku[part], self._half[part], float(size), self._scores[part])
        return found if found < 0 else int(first) + found

    def add(self, place: int) -> None:
        """Take a candidate into the set."""
        self._pairs += 2.0 * float(self._potential[place]) + float(self._diagonal[place])
        self._linear += float(self.pool.ku[place])
        self._enter(place)
        self.places.append(place)

    def swap(self, at: int) -> bool:
        """Replace the pick at this position by the best of its label, if that is better."""
        old = self.places[at]
        label = self.pool.label(old)
        without = self._potential.copy()
        shift(without, self._values(self.pool.rows[old], label), -1.0)
        self._half[old] = 0.5 * self._diagonal[old]
        new = self._best(without, label, self.size)
        self._half[old] = math.inf
        if not self._scores[new] > self._scores[old]:
            return False
        self._half[old] = 0.5 * self._diagonal[old]
        self._pairs += 2.0 * float(without[new] - without[old])
        self._pairs += float(self._diagonal[new] - self._diagonal[old])
        self._linear += float(self.pool.ku[new] - self.pool.ku[old])
        self._potential = without
        self._enter(new)
        self.places[at] = new
        return True

    def _enter(self, place: int) -> None:
        row = self._values(self.pool.rows[place], self.pool.label(place))
        shift(self._potential, row, 1.0)
        self._half[place] = math.inf

    def empty(self) -> Greedy:
        """Return the set as it was before the first pick."""
        return Greedy(self.pool, self._kernel, self.held)

    def copy(self) -> Greedy:
        """Return a set that grows on its own."""
        twin = copy.copy(self)
        twin.places = self.places.copy()
        twin._half, twin._potential = self._half.copy(), self._potential.copy()
        twin._scores = self._scores.copy()
        twin._row = kernel_row(self._kernel, self.pool.rows)
        return twin


def fitted_weights(kernel: Kernel, rows: Matrix, linear: Vector) -> Vector:
    """(r,) weights on the simplex that fit a mean best in the kernel.

    Parameters
    ----------
    kernel
        With nothing left to choose.
    rows : (r, d)
    linear : (r,)
        The mean embedding at the rows.
    """
    return simplex.solve(kernel.gram(rows, rows), linear)
