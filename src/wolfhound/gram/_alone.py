"""One target over few atoms, in room that a thread keeps for the next of the same size."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
import sys
import threading
from typing import NamedTuple

import numpy as np

from wolfhound.core import Ids, Vector
from wolfhound.gram import _small_kernels as kernels
from wolfhound.gram._alone_kernels import convert, meet
from wolfhound.gram._answers import Answers, Rules, make_answers
from wolfhound.gram._small import Page, make_page, most_active, multiply
from wolfhound.gram._tableau import make_lines
from wolfhound.gram._units import LOWEST, average

SMALLEST, LARGEST = 1e-60, 1e60
"""Sizes between which nothing over- or underflows that matters."""

_KEPT = threading.local()
"""The desk that a thread worked at last."""


class Desk(NamedTuple):
    """All that is written while one target is solved, for n rows of d entries.

    Attributes
    ----------
    size : (n, d)
    pool : (n,)
        All rows: they give the scale of rtol.
    page, chunk, work, out
        The rows and their products, the target, what the loops work on, and the answer.
    sizes : (d,)
        To measure the rows in.
    """

    size: tuple[int, int]
    pool: Ids
    page: Page
    sizes: Vector
    chunk: kernels.Chunk
    work: kernels.Workspace
    out: Answers


class LoneAnswer(NamedTuple):
    """What is proved of a target, in the units of the caller.

    Attributes
    ----------
    at, weights : (k,)
        Active rows, by decreasing weight.
    value, lower, goal : float
        As in `Result`.
    steps, passes, first : int
        Rows that joined, proofs, and the row that is best alone.
    """

    at: Ids
    weights: Vector
    value: float
    lower: float
    goal: float
    steps: int
    passes: int
    first: int


def solve_alone(rows: Vector, target: Vector, rtol: float, atol: float) -> LoneAnswer | None:
    """Minimise the squared distance from a target to the hull of the rows; None if the goal is not proved.

    Parameters
    ----------
    rows, target : (n, d), (d,)
        Where their squares could over- or underflow, nothing is proved.
    rtol, atol
        As in `minimize`.
    """
    desk = _take_desk(*rows.shape)
    found = _solve(desk, rows, target, (rtol, atol))
    _KEPT.desk = desk
    return found


def _take_desk(n: int, d: int) -> Desk:
    """Return a desk that nobody else has: a signal's handler may solve, too, before this is done."""
    kept: Desk | None = _KEPT.__dict__.pop("desk", None)
    return kept if kept is not None and kept.size == (n, d) else _make_desk(n, d)


def _make_desk(n: int, d: int) -> Desk:
    page, cap = make_page(n, d), most_active(n, d)
    starts, banned = np.zeros(2, np.int64), np.empty(0, np.int64)
    chunk = kernels.Chunk(np.empty((1, d)), np.empty(1), make_lines(1, len(page.squares)), starts, banned)
    work = kernels.make_workspace(cap, n, d)
    out = make_answers(np.empty((1, cap), np.int64), np.empty((1, cap)))
    return Desk((n, d), np.arange(n), page, np.empty(d), chunk, work, out)


def _fits(value: float, exponent: int) -> bool:
    """Whether a finite number is still one when it is scaled by a power of two."""
    return value == math.inf or math.frexp(value)[1] + exponent <= sys.float_info.max_exp


def _solve(desk: Desk, rows: Vector, target: Vector, goals: tuple[float, float]) -> LoneAnswer | None:
    page, chunk, out = desk.page, desk.chunk, desk.out
    page.rows[:], chunk.targets[0] = rows, target
    centre = average(page.rows)
    size, exponent = convert(page.rows, chunk.targets[0], centre, desk.sizes, LOWEST)
    if not (SMALLEST < size < LARGEST and _fits(goals[1], -2 * exponent)):
        return None
    atoms, twice = multiply(page, desk.pool, zero=False), 2 * exponent
    chunk.norms[0], first = meet(page.rows, page.squares, chunk.targets[0], chunk.cross[0])
    rules = Rules(goals[0], math.ldexp(goals[1], -twice), len(desk.work.ids) + 1)
    out.value[0] = math.inf
    kernels.solve_chunk(atoms, desk.work, chunk, rules, out)
    if not (out.value[0] < math.inf and out.value[0] - out.lower[0] <= out.goal[0]):
        return None
    k = int(out.support[0])
    held = out.weights[0, :k] > 0.0
    return LoneAnswer(
        out.ids[0, :k][held],
        out.weights[0, :k][held],
        math.ldexp(out.value[0], twice),
        math.ldexp(out.lower[0], twice),
        math.ldexp(out.goal[0], twice),
        int(out.steps[0]),
        int(out.passes[0]),
        first,
    )
