"""Where a method begins: at the best atom of the pool, a random mixture or a warm start; on what scale."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from wolfhound.core import INNER, Ints, Method, Objective, Oracle, Start, State, Vector
from wolfhound.rounding import UNIT, ends_in_rounding
from wolfhound.validate import require, require_moderate

POOL = 1300
"""Least number of random atoms that a run begins with, and that give the scale of rtol."""

TRIED = 256
"""Pool atoms whose f is computed."""

SAMPLE = 64
"""Atoms whose values of f give the scale of rtol."""

_SAME = 64.0 * UNIT
"""Relative difference of atoms that are one point but for rounding."""


def best_atom(objective: Objective, start: Start) -> Start:
    """Choose the first point of a start that has only its pool.

    The objective's own weights if it has any (a mixture's single atoms are
    mostly infinite), else the atom of least f among the first 256; where f is
    infinite at all of them, the mean of the pool.
    """
    known = _begin_there(objective, start)
    if known is not None:
        return known
    values = objective.values(start.pool[:TRIED])
    finite = np.isfinite(values)
    if not finite.any():
        return _at(start, np.arange(len(start.pool)), np.ones(len(start.pool)))
    return _at(start, np.array([np.argmin(np.where(finite, values, np.inf))]), np.ones(1))


def random_mixture(objective: Objective, start: Start, rng: np.random.Generator, *, size: int) -> Start:
    """Choose a random point of the hull for a start without one: uniform weights on `size` atoms of its pool.

    The objective's own weights, if it has any, come first.
    """
    known = _begin_there(objective, start)
    if known is not None:
        return known
    if not np.isfinite(objective.values(start.pool[:1])).all():
        return best_atom(objective, start)  # f has a domain, which random atoms need not reach
    chosen = rng.choice(len(start.pool_ids), min(size, len(start.pool_ids)), replace=False)
    return _at(start, chosen, rng.dirichlet(np.ones(len(chosen))))


def _begin_there(objective: Objective, start: Start) -> Start | None:
    """The start itself if it has ids, or where the objective's own weights lead, if it has any."""
    if len(start.ids):
        return start
    require(len(start.pool_ids) > 0, "start", "a start with ids or a pool", "neither")
    require_moderate(start.pool, "atoms")
    weights = objective.begin(start.pool)
    return None if weights is None else _at(start, np.arange(len(weights)), weights)


def _at(start: Start, chosen: Ints, weights: Vector) -> Start:
    """Begin at the atoms of the pool that have weight."""
    held = weights > 0.0
    chosen, weights = chosen[held], weights[held] / weights[held].sum()
    return replace(start, ids=start.pool_ids[chosen], weights=weights, rows=start.pool[chosen])


def find_scale(objective: Objective, starts: Sequence[Start]) -> tuple[float, float]:
    """Return what rtol is relative to, and how much f varies over all that was seen; 0 if that is one point.

    The first is of the last start, which is cold, so that a warm one changes no goal; neither takes a pass.
    """
    begun = starts[-1]
    pool = begun.pool.astype(np.float64)
    points = [objective.at(each.weights @ each.rows.astype(np.float64)) for each in reversed(starts)]
    cold, scale = points[0], 0.0
    if math.isfinite(cold.value):
        scale = max(float((cold.grad @ cold.x - pool @ cold.grad).max()), 0.0)
    values = objective.values(begun.pool[:SAMPLE])
    values = values[np.isfinite(values)]
    if len(values):
        scale = max(scale, float(np.median(values) - values.min()))
    rows = np.concatenate([pool, *(each.rows.astype(np.float64) for each in starts)])
    if (np.ptp(rows, axis=0) <= _SAME * np.abs(rows).max(axis=0)).all():
        return scale, 0.0
    values = np.append(values, [point.value for point in points if math.isfinite(point.value)])
    return scale, max(scale, float(np.ptp(values)) if len(values) else 0.0)


def _follow(start: Start, last: State | None) -> Start:
    """Take over counters and proof of the run that has ended here."""
    if last is None:
        return start
    known = replace(start, lower=last.lower, proof=last.proof)
    return replace(known, t=last.t, passes=last.passes, scored=last.scored)


def try_starts(
    method: Method,
    objective: Objective,
    oracle: Oracle,
    starts: Sequence[Start],
    *,
    goal: float,
    stake: float,
    rng: np.random.Generator,
) -> Iterator[State]:
    """Yield a method's states from the first start, and from the next where they end without a proof.

    At the edge of a domain slopes and curvature tell nothing of what lies inside: from a warm start
    there a run may stall that a cold one solves. The next start goes on with counters and proof; those
    before the last are tried only if f is finite there. `stake`: see `wolfhound.rounding.ends_in_rounding`.
    """
    best: State | None = None
    last: State | None = None
    for start in starts:
        x = start.weights @ start.rows.astype(np.float64)
        if start is not starts[-1] and not np.isfinite(objective.values(x[None])).all():
            continue
        proved = -math.inf if last is None else last.lower
        for state in method.states(objective, oracle, _follow(start, last), goal=goal, rng=rng):
            best = state if best is None or (state.kind != INNER and state.value <= best.value) else best
            # What was proved stays so, also before the method has proved it again.
            held = min(proved, best.value)
            last = replace(state, lower=held) if held > state.lower else state
            yield last
        if best is None or last is None or ends_in_rounding(best, last.lower, stake):
            return
