"""Few atoms and a squared distance: the whole of `minimize` as one compiled solve.

The solve and its proofs are those of `minimize_many` over a small dictionary. What it
does not prove is left to the ordinary run.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
import time
from typing import NamedTuple

import numpy as np

from wolfhound.core import Distance, Ids, Objective, Start, Vector
from wolfhound.result import Trace, TraceRow
from wolfhound.rounding import TINY, UNIT, gamma
from wolfhound.stopwatch import time_solving

FEW = 256
"""Up to so many atoms."""

WORK = 1 << 24
"""Up to so many multiplications for all their products."""


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
        return None if distance is None else _solve(distance, start, (rtol, atol), began)


def _solve(distance: Distance, start: Start, goals: tuple[float, float], began: float) -> FewResult | None:
    from wolfhound.gram._alone import solve_alone  # noqa: PLC0415 - compiles only what is used

    found = solve_alone(distance.rows, distance.target, *goals)
    if found is None:
        return None
    value, lower = _widen(found.value, distance.error), _narrow(found.lower, distance.error)
    if not value - lower <= found.goal:
        return None
    at, weights = found.at, found.weights
    n, passes, solving = len(start.pool_ids), float(found.passes), time_solving(began)
    scored = n + n * found.passes
    rows = [
        TraceRow(0, _first_value(distance, found.first), 0.0, 0.0, n, solving, math.nan, "start"),
        TraceRow(found.steps, value, lower, passes, scored, solving, math.nan, "pass"),
    ]
    x = weights @ np.asarray(start.pool[at], np.float64)
    cost = found.steps, passes, scored, time.perf_counter() - began
    return FewResult(x, start.pool_ids[at], weights, value, lower, found.goal, *cost, Trace.of(rows))


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
