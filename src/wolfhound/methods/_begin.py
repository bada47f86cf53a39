"""Where a method begins: at the best atom of the pool, or at a random mixture."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from dataclasses import replace

import numpy as np

from wolfhound.core import Ints, Objective, Start, Vector
from wolfhound.validate import require, require_moderate

_TRIED = 256
"""Pool atoms whose f is computed."""


def best_atom(objective: Objective, start: Start) -> Start:
    """Choose the first point of a start that has only its pool.

    The objective's own weights if it has any (a mixture's single atoms are
    mostly infinite), else the atom of least f among the first 256; where f is
    infinite at all of them, the mean of the pool.

    Parameters
    ----------
    objective
        Judges the pool.
    start
        Returned as it is if it has ids already.
    """
    known = _begin_there(objective, start)
    if known is not None:
        return known
    values = objective.values(start.pool[:_TRIED])
    finite = np.isfinite(values)
    if not finite.any():
        return _at(start, np.arange(len(start.pool)), np.ones(len(start.pool)))
    return _at(start, np.array([np.argmin(np.where(finite, values, np.inf))]), np.ones(1))


def random_mixture(objective: Objective, start: Start, rng: np.random.Generator, *, size: int) -> Start:
    """Choose a random point of the hull: Dirichlet weights on random atoms.

    The objective's own weights, if it has any, come first.

    Parameters
    ----------
    objective
        Asked for weights of its own.
    start
        Returned as it is if it has ids already.
    rng
        Draws the atoms from the pool, and their weights, uniform on the simplex.
    size
        How many atoms, if the pool has as many.
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
