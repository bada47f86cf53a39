"""Few atoms and a squared distance: the whole of `minimize` as one compiled solve.

The solve and its proofs are those of `minimize_many` over a small dictionary. What it
does not prove is left to the ordinary run.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
import threading
import time
from typing import NamedTuple

import numpy as np

from wolfhound.core import Distance, Ids, Matrix, Objective, Start, Vector
from wolfhound.result import Trace, TraceRow
from wolfhound.rounding import TINY, UNIT, gamma
from wolfhound.stopwatch import time_solving

FEW = 256
"""Up to so many atoms."""

WORK = 1 << 24
"""Up to so many multiplications for all their products."""

_ROOMS = threading.local()
"""What a thread worked on last: room for problems of one size after the other."""

SMALLEST, LARGEST = 1e-60, 1e60
"""Sizes between which nothing over- or underflows that matters."""


class FewResult(NamedTuple):
    """What a `Result` says of the run."""

    x: Vector
    ids: Ids
    weights: Vector
    value: float
    lower: float
    goal: float
    steps: int
    passes: float
    scored: int
    seconds: float
    trace: Trace


def solve_few(
    objective: Objective, start: Start, *, rtol: float, atol: float, began: float
) -> FewResult | None:
    """Minimise a squared distance over a pool of all atoms; None if this way does not prove the goal.

    Parameters
    ----------
    objective
        Any; it is a squared distance if it has `as_distance`.
    start
        Its pool is all atoms that may be used.
    rtol, atol
        As in `minimize`.
    began
        ``time.perf_counter()`` at the start of the run.
    """
    n, d = start.pool.shape
    describe = getattr(objective, "as_distance", None)
    if describe is None or n > FEW or n * (n + d) * d > WORK or not max(rtol, atol) > 0.0:
        return None
    with np.errstate(all="ignore"):
        distance = describe(start.pool)
        if distance is None or not _is_moderate(distance.rows, distance.target):
            return None
        return _solve(distance, start, (rtol, atol), began)


def _is_moderate(*arrays: Matrix) -> bool:
    return SMALLEST < max(max(float(each.max()), -float(each.min())) for each in arrays) < LARGEST


def _solve(distance: Distance, start: Start, goals: tuple[float, float], began: float) -> FewResult | None:
    from wolfhound.gram._answers import PROVED, Rules  # noqa: PLC0415 - compiles only what is used
    from wolfhound.gram._small import build_small  # noqa: PLC0415 - likewise

    n = len(start.pool_ids)
    small = build_small(distance.rows, np.arange(n), zero=False, rooms=_ROOMS)
    twice = 2 * small.units.exponent
    target = small.units.convert(distance.target[None])  # no size is so far from another that it overflows
    rules = Rules(goals[0], math.ldexp(goals[1], -twice), small.cap + 1)
    found = small.solve(target, np.zeros(2, np.int64), np.empty(0, np.int64), rules)
    goal = math.ldexp(found.goal[0], twice)
    value = _widen(math.ldexp(found.value[0], twice), distance.error)
    lower = _narrow(math.ldexp(found.lower[0], twice), distance.error)
    if found.code[0] != PROVED or not value - lower <= goal:
        return None
    best = int((0.5 * small.atoms.squares[:n] - small.atoms.rows @ target[0]).argmin())
    at, weights = found.ids[0, : found.support[0]], found.weights[0, : found.support[0]]
    at, weights = at[weights > 0.0], weights[weights > 0.0]
    steps, passes = int(found.steps[0]), float(found.passes[0])
    solving = time_solving(began)
    rows = [
        TraceRow(0, _first_value(distance, best), 0.0, 0.0, n, solving, math.nan, "start"),
        TraceRow(steps, value, lower, passes, n + n * int(passes), solving, math.nan, "pass"),
    ]
    x = weights @ start.pool[at].astype(np.float64)
    cost = steps, passes, n + n * int(passes), time.perf_counter() - began
    return FewResult(x, start.pool_ids[at], weights, value, lower, goal, *cost, Trace.of(rows))


# Every image is off by at most `error`, and so is every distance.


def _widen(value: float, error: float) -> float:
    """At least f, given that of the computed images."""
    far = math.sqrt(2.0 * value) * (1.0 + 4.0 * UNIT) + error
    return 0.5 * far * far * (1.0 + 8.0 * UNIT) + TINY if error else value + TINY


def _narrow(value: float, error: float) -> float:
    """At most f, given that of the computed images."""
    near = max(math.sqrt(2.0 * value) * (1.0 - 4.0 * UNIT) - error, 0.0)
    return max(0.5 * near * near * (1.0 - 8.0 * UNIT) - TINY if error else value - TINY, 0.0)


def _first_value(distance: Distance, best: int) -> float:
    """At least f at this atom alone."""
    away = distance.rows[best] - distance.target
    square = float(away @ away)
    p = len(distance.target)
    return _widen(0.5 * square * (1.0 + gamma(p + 8)) + p * TINY, distance.error)
