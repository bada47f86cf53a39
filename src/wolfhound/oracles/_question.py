"""What an oracle is asked: checked arguments, their sizes, the error of a score."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import abc
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from wolfhound.core import Atoms, Hits, Ids, Ints, Matrix, Oracle, Vector
from wolfhound.oracles._scan_kernels import square_all
from wolfhound.rounding import TINY, gamma
from wolfhound.validate import array, count, matrix, real_array, require

OFTEN = 32
"""So many single queries are answered in several calls: few are not worth seconds of compiling."""

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
    often : bool
        Whether the oracle was asked for single queries so often that a compiled way for them pays.
    """

    queries: Vector
    k: int
    exclude: Ids
    sizes: Vector
    often: bool = False

    def only(self, which: Ints | slice) -> Question:
        """Return some of the queries."""
        return Question(self.queries[which], self.k, self.exclude[which], self.sizes[which], self.often)

    def exclusions(self, i: int) -> Ids:
        """Excluded atoms of query i, ascending."""
        row: Ids = self.exclude[i]
        return row[row >= 0]


def check_question(atoms: Atoms, queries: Any, k: int, exclude: Any, *, often: bool = False) -> Question:
    """Check the arguments of `Oracle.query`."""
    n, d = atoms.shape
    if exclude is None and type(k) is int and k >= 1 and (sizes := _size_of_one(queries, d)) is not None:
        return Question(queries, min(k, n), _NONE, sizes, often)
    given = array(queries, "queries", "an array of real numbers")
    rows = matrix(given[None] if given.ndim == 1 else queries, "queries")
    require(rows.shape[1] == d, "queries", f"an (m, {d}) array", f"shape {rows.shape}")
    k = min(count(k, "k", low=1), n)
    if exclude is None:
        return Question(rows, k, np.empty((len(rows), 0), np.int64), lengths(rows), often)
    out = array(exclude, "exclude", "an array of integer ids")
    if out.dtype.kind not in "iu":
        raise TypeError(f"`exclude` must be an array of integer ids. Got dtype {out.dtype}.")
    if out.ndim == 1 and len(rows) == 1:
        out = out[None]
    shape_ok = out.ndim == 2 and len(out) == len(rows)
    require(shape_ok, "exclude", f"an ({len(rows)}, e) array", f"shape {out.shape}")
    if out.size:
        low, high = out.min(), out.max()
        require(bool(low >= -1 and high < n), "exclude", f"ids in [0, {n}) or -1", f"{low} .. {high}")
    return Question(rows, k, np.sort(out.astype(np.int64), axis=1), lengths(rows), often)


_NONE: Ids = np.empty((1, 0), np.int64)
_DOUBLE = np.dtype(np.float64)
_SMALL, _LARGE = 2.0**-780, 2.0**780


def _size_of_one(rows: Any, d: int) -> Vector | None:
    """`lengths` of one well-formed query, all that there is to check; None if it must be looked into.

    A sum of squares that is far from the limits of float64 tells that all entries are finite.
    """
    if type(rows) is not np.ndarray or rows.dtype != _DOUBLE or rows.shape != (1, d):
        return None
    if not rows.flags.carray:
        return None
    sizes = np.empty(1)
    square_all(rows, sizes)
    square = float(sizes[0])
    if not _SMALL < square < _LARGE:
        return None
    sizes[0] = math.sqrt(square) * (1.0 + gamma(d + 4))
    return sizes


def check_thresholds(thresholds: Any, m: int) -> Vector | None:
    """Check the thresholds of m queries; infinite ones are allowed."""
    if thresholds is None:
        return None
    if type(thresholds) is np.ndarray and thresholds.dtype == _DOUBLE and thresholds.shape == (1,) == (m,):
        if not math.isnan(thresholds[0]):
            return thresholds
    one = m == 1 and isinstance(thresholds, (int, float, np.number)) and not isinstance(thresholds, bool)
    out = np.ascontiguousarray(real_array([thresholds] if one else thresholds, "thresholds", 1), np.float64)
    require(len(out) == m, "thresholds", f"a vector of length {m}", f"length {len(out)}")
    require(not np.isnan(out).any(), "thresholds", "numbers", "nan")
    return out


def ask_index(oracle: Oracle, question: Question, thresholds: Vector | None) -> Hits:
    """Hand a checked question on to another oracle."""
    exclude = question.exclude if question.exclude.shape[1] else None
    return oracle.query(question.queries, k=question.k, thresholds=thresholds, exclude=exclude)


def ask_unchecked(oracle: Oracle, queries: Vector, *, k: int = 1, thresholds: Vector | None = None) -> Hits:
    """Ask finite, C-ordered float64 queries that a loop of ours made: they are not checked again."""
    if not isinstance(oracle, CheckedOracle):
        return oracle.query(queries, k=k, thresholds=thresholds)
    none, often = np.empty((len(queries), 0), np.int64), oracle._asked >= OFTEN
    oracle._asked += len(queries) == 1
    return oracle.answer(Question(queries, k, none, lengths(queries), often), thresholds)


class CheckedOracle(abc.ABC):
    """An oracle that is asked checked questions: a subclass gives `answer`, and sets its atoms."""

    _atoms: Atoms
    _asked = 0  # single queries; threads may lose a count

    @property
    def atoms(self) -> Atoms:
        """The atoms that are searched."""
        return self._atoms

    def query(
        self, queries: Matrix, *, k: int = 1, thresholds: Vector | None = None, exclude: Ids | None = None
    ) -> Hits:
        """Answer m queries, see `Oracle.query` and `answer`."""
        question = check_question(self._atoms, queries, k, exclude, often=self._asked >= OFTEN)
        self._asked += len(question.queries) == 1
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
    up, squares = 1.0 + gamma(rows.shape[1] + 4), np.empty(len(rows))
    if 2.0**-400 < largest.min() and largest.max() < 2.0**400:  # nothing to fear from squares
        square_all(np.ascontiguousarray(rows), squares)
        return np.asarray(np.sqrt(squares) * up)
    exponents = np.frexp(largest)[1]
    square_all(np.ascontiguousarray(np.ldexp(rows, -exponents[:, None])), squares)
    with np.errstate(over="ignore"):
        out = np.ldexp(np.sqrt(squares), exponents) * up + TINY
    return np.asarray(np.where(largest > 0.0, out, 0.0))


def slacks(sizes: Vector, d: int, radius: float) -> Vector:
    """Proved bound on |computed - true score| of any atom, by the float64 loop.

    ``gamma_d |q| |s|`` in any order of summation, plus underflow; d + 2 pays for
    the rounding of the norms and of this product.
    """
    _require_moderate(float(sizes.max()), radius)
    return np.asarray(gamma(d + 2) * sizes * radius + d * TINY)


def slack_of_one(size: float, d: int, radius: float) -> float:
    """As `slacks`, for one query."""
    _require_moderate(size, radius)
    return gamma(d + 2) * size * radius + d * TINY


def _require_moderate(size: float, radius: float) -> None:
    if not size < _LARGEST / radius:
        require(False, "queries", "so small that |query| max|atom| < 1e301", f"{size:.3g} * {radius:.3g}")
