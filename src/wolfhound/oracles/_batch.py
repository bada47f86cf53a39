"""Many queries at once: matrix products find candidates, with proved errors.

Products run in the precision of the atoms. Each candidate's key is an upper
bound on its score; a list per query keeps the highest keys.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from wolfhound.atoms import block_rows
from wolfhound.core import Atoms, Ids, Ints, Matrix, Singles, Vector
from wolfhound.oracles import _scan_kernels as kernels
from wolfhound.oracles._pass import NormRecorder, Norms
from wolfhound.oracles._question import Question, lengths
from wolfhound.progress import report_rows
from wolfhound.rounding import gamma
from wolfhound.threads import map_ordered

SPARE = 128
"""Candidates beyond k: more near-ties than this are left to the float64 loop."""

_MEMORY = 256 << 20
_AHEAD = 5
_TILE = 1 << 19
_WIDEST = 1024
_SINGLE_LIMIT = 2.0**100


@dataclass(frozen=True, slots=True)
class RoundedQueries:
    """Queries scaled to norms near 1 and rounded to the atoms' dtype.

    Attributes
    ----------
    queries : (m, d)
    exponents : (m,)
        The caller's query is about ``2**exponent`` times the rounded one.
    width, shift : (m,) and scalar, of the same dtype
        ``product + (width * norm + shift)`` is at least the true and at least
        the computed float64 score of an atom, in the scale of `queries`.
    """

    queries: Matrix
    exponents: Ints
    width: Matrix
    shift: np.floating[Any]


def round_queries(question: Question, dtype: np.dtype[Any]) -> RoundedQueries:
    """Scale and round queries, and bound what that and the product can lose.

    The width is the sum of: the product in any order, ``gamma_d |q|`` in the
    unit roundoff u of its dtype; the rounding of the query; the float64 loop
    that defines a score; 8u for the arithmetic of the key.
    """
    d = question.queries.shape[1]
    unit = float(np.finfo(dtype).eps) / 2.0
    exponents = np.frexp(question.sizes)[1].astype(np.int64)
    exact = np.ldexp(question.queries, -exponents[:, None])
    low = exact.astype(dtype)
    width = gamma(d, unit) * lengths(low.astype(np.float64)) + lengths(exact - low)
    width += (gamma(d + 2) + 8.0 * unit) * lengths(exact)
    width = np.nextafter((width * (1.0 + 8.0 * unit)).astype(dtype), dtype.type(np.inf))
    shift = dtype.type(2.0 * (d + 4) * float(np.finfo(dtype).tiny))
    return RoundedQueries(low, exponents, width, shift)


def _empty_lists(floors: Matrix, size: int) -> kernels.Lists:
    """Return m empty lists that take keys above the floors."""
    m = len(floors)
    keys, ids = np.empty((m, 2 * size), floors.dtype), np.empty((m, 2 * size), np.int64)
    return kernels.Lists(keys, ids, np.zeros(m, np.int64), floors)


def group_size(atoms: Atoms, size: int, memory: float = math.inf) -> int:
    """How many queries one pass can serve within the memory."""
    return max(1, int(min(_MEMORY, memory / 4)) // ((8 + atoms.dtype.itemsize) * 2 * size * _AHEAD))


def candidates(atoms: Atoms, k: int) -> int:
    """How many candidates are kept per query."""
    return min(atoms.shape[0] + 1, k + SPARE)  # n + 1: a list that holds all atoms is never full


def product_pass(
    atoms: Atoms, recorder: NormRecorder, question: Question, size: int, *, block: int = 16 << 20
) -> tuple[Ids, Vector, Vector, Norms]:
    """Read all atoms once, blocks of so many bytes; return the candidates of every query.

    Returns
    -------
    ids, uppers : (m, size)
        Highest upper bounds first, as `settle` wants them.
    rest : (m,)
        At least the score of every other atom that is not excluded.
    norms : Norms
        What was measured.
    """
    low = round_queries(question, atoms.dtype)
    best = _empty_lists(np.full(len(low.queries), -np.inf, atoms.dtype), size)

    def work(task: tuple[int, Matrix]) -> tuple[int, kernels.Lists]:
        first, block = task
        part = _empty_lists(best.floors.copy(), size)
        _multiply(block, first, recorder.measure(first, block), low, question.exclude, part)
        return len(block), part

    for rows, part in map_ordered(work, atoms.blocks(block_rows(atoms, block))):
        report_rows(rows)
        kernels.merge_lists(best, part)

    norms = recorder.norms()
    full = best.fill == size
    # Products of huge float32 rows may have overflowed: nothing is then known.
    unsafe = atoms.dtype == np.float32 and norms.radius > _SINGLE_LIMIT
    rest = np.where(full, _above(best.floors, low.exponents), -np.inf)
    kernels.sort_lists(best)
    ids, keys = best.ids[:, :size], best.keys[:, :size]
    uppers = np.where(ids >= 0, _above(keys, low.exponents[:, None]), -np.inf)
    return ids, uppers, np.full_like(rest, np.inf) if unsafe else rest, norms


def _above(keys: Matrix, exponents: Ints) -> Vector:
    """Keys in the caller's scale, rounded up."""
    with np.errstate(over="ignore"):
        return np.asarray(np.nextafter(np.ldexp(keys.astype(np.float64), exponents), np.inf))


def _multiply(
    block: Matrix, first: int, norms: Singles, low: RoundedQueries, exclude: Ids, lists: kernels.Lists
) -> None:
    """Offer all rows of a block to the lists, in tiles that suit the cache."""
    m = len(low.queries)
    wide = min(m, _WIDEST)
    tall = max(512, _TILE // wide)
    for start in range(0, len(block), tall):
        rows, sizes = block[start : start + tall], norms[start : start + tall]
        for q in range(0, m, wide):
            here = slice(q, q + wide)
            with np.errstate(over="ignore", invalid="ignore"):
                products = low.queries[here] @ rows.T
            mine = kernels.Lists(*(getattr(lists, name)[here] for name in lists._fields))
            kernels.keep_products(
                products, sizes, (low.width[here], low.shift), first + start, exclude[here], mine
            )
