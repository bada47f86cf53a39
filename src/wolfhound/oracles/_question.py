"""What an oracle is asked: checked arguments, their sizes, the error of a score."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import abc
from dataclasses import dataclass
from typing import Any

import numpy as np

from wolfhound.core import Atoms, Hits, Ids, Ints, Matrix, Oracle, Vector
from wolfhound.rounding import TINY, gamma
from wolfhound.validate import array, count, matrix, real_array, require

_LARGEST = 2.0**1000
"""Largest |query| max|atom|: no sum of products can then overflow."""


@dataclass(frozen=True, slots=True)
class Question:
    """Checked arguments of `Oracle.query`.

    Attributes
    ----------
    queries : (m, d) float64
    k : int
        At most n.
    exclude : (m, e) int64
        Each row in ascending order, padded with -1.
    sizes : (m,) float64
        Norms of the queries, rounded up.
    """

    queries: Vector
    k: int
    exclude: Ids
    sizes: Vector

    def only(self, which: Ints | slice) -> Question:
        """Return some of the queries."""
        return Question(self.queries[which], self.k, self.exclude[which], self.sizes[which])

    def exclusions(self, i: int) -> Ids:
        """Excluded atoms of query i, ascending."""
        row: Ids = self.exclude[i]
        return row[row >= 0]


def check_question(atoms: Atoms, queries: Any, k: int, exclude: Any) -> Question:
    """Check the arguments of `Oracle.query`."""
    n, d = atoms.shape
    rows = matrix(queries, "queries")
    require(rows.shape[1] == d, "queries", f"an (m, {d}) array", f"shape {rows.shape}")
    k = min(count(k, "k", low=1), n)
    if exclude is None:
        return Question(rows, k, np.empty((len(rows), 0), np.int64), lengths(rows))
    out = array(exclude, "exclude", "an array of integer ids")
    if out.dtype.kind not in "iu":
        raise TypeError(f"`exclude` must be an array of integer ids. Got dtype {out.dtype}.")
    shape_ok = out.ndim == 2 and len(out) == len(rows)
    require(shape_ok, "exclude", f"an ({len(rows)}, e) array", f"shape {out.shape}")
    if out.size:
        low, high = out.min(), out.max()
        require(bool(low >= -1 and high < n), "exclude", f"ids in [0, {n}) or -1", f"{low} .. {high}")
    return Question(rows, k, np.sort(out.astype(np.int64), axis=1), lengths(rows))


def check_thresholds(thresholds: Any, m: int) -> Vector | None:
    """Check the thresholds of m queries; infinite ones are allowed."""
    if thresholds is None:
        return None
    out = np.ascontiguousarray(real_array(thresholds, "thresholds", 1), np.float64)
    require(len(out) == m, "thresholds", f"a vector of length {m}", f"length {len(out)}")
    require(not np.isnan(out).any(), "thresholds", "numbers", "nan")
    return out


def ask_index(oracle: Oracle, question: Question, thresholds: Vector | None) -> Hits:
    """Hand a checked question on to another oracle."""
    exclude = question.exclude if question.exclude.shape[1] else None
    return oracle.query(question.queries, k=question.k, thresholds=thresholds, exclude=exclude)


class CheckedOracle(abc.ABC):
    """An oracle that is asked checked questions: a subclass gives `answer`, and sets its atoms."""

    _atoms: Atoms

    @property
    def atoms(self) -> Atoms:
        """The atoms that are searched."""
        return self._atoms

    def query(
        self, queries: Matrix, *, k: int = 1, thresholds: Vector | None = None, exclude: Ids | None = None
    ) -> Hits:
        """Answer m queries, see `Oracle.query` and `answer`."""
        question = check_question(self._atoms, queries, k, exclude)
        return self.answer(question, check_thresholds(thresholds, len(question.queries)))

    @abc.abstractmethod
    def answer(self, question: Question, thresholds: Vector | None = None) -> Hits:
        """Answer a checked question."""


def lengths(rows: Vector) -> Vector:
    """Norms of float64 rows, rounded up; inf if a norm overflows.

    Examples
    --------
    >>> float(lengths(np.array([[3.0, 4.0]]))[0]) >= 5.0
    True
    """
    largest = np.abs(rows).max(axis=1, initial=0.0)
    if 2.0**-400 < largest.min() and largest.max() < 2.0**400:  # nothing to fear from squares
        return np.asarray(np.sqrt(np.einsum("ij,ij->i", rows, rows)) * (1.0 + gamma(rows.shape[1] + 4)))
    exponents = np.frexp(largest)[1]
    unit = np.ldexp(rows, -exponents[:, None])
    with np.errstate(over="ignore"):
        out = np.ldexp(np.sqrt(np.einsum("ij,ij->i", unit, unit)), exponents)
        out = out * (1.0 + gamma(rows.shape[1] + 4)) + TINY
    return np.asarray(np.where(largest > 0.0, out, 0.0))


def slacks(sizes: Vector, d: int, radius: float) -> Vector:
    """Proved bound on |computed - true score| of any atom, by the float64 loop.

    ``gamma_d |q| |s|`` in any order of summation, plus underflow; d + 2 pays for
    the rounding of the norms and of this product.
    """
    rule = "so small that |query| max|atom| < 1e301"
    require(bool((sizes < _LARGEST / radius).all()), "queries", rule, f"{sizes.max():.3g} * {radius:.3g}")
    return np.asarray(gamma(d + 2) * sizes * radius + d * TINY)
