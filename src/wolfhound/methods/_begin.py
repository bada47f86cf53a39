"""Where a method begins: the best atom of the pool."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from dataclasses import replace

import numpy as np

from wolfhound.core import Objective, Start
from wolfhound.validate import require

_TRIED = 256
"""Pool atoms whose f is computed."""


def best_atom(objective: Objective, start: Start) -> Start:
    """Choose the first point of a start that has only its pool.

    The objective's own weights if it has any (a mixture's single atoms are
    mostly infinite), else the atom of least f among the first 256.

    Parameters
    ----------
    objective
        Judges the pool.
    start
        Returned as it is if it has ids already.
    """
    if len(start.ids):
        return start
    require(len(start.pool_ids) > 0, "start", "a start with ids or a pool", "neither")
    weights = objective.begin(start.pool)
    if weights is not None:
        chosen = np.flatnonzero(weights > 0.0)
        weights = weights[chosen] / weights[chosen].sum()
    else:
        values = objective.values(start.pool[:_TRIED])
        chosen = np.array([np.argmin(np.where(np.isnan(values), np.inf, values))])
        weights = np.ones(1)
    return replace(start, ids=start.pool_ids[chosen], weights=weights, rows=start.pool[chosen])
