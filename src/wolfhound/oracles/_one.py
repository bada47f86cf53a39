"""One query at a time, over rows in memory: what every such answer begins and ends with.

Frank-Wolfe asks so. A kernel does the work and fills a `Top`; here are the few lines around it.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import numpy as np

from wolfhound.core import Hits, Matrix
from wolfhound.oracles._one_kernels import BareTop


def empty_top(rows: Matrix, k: int, scored: int = 0) -> BareTop:
    """Room for k answers; `scored` is counted already."""
    ids, slots, count = np.empty((1, k), np.int64), np.empty((1, k), np.int64), np.empty(1, np.int64)
    count[0] = scored
    return np.empty((1, k)), ids, slots, np.empty(1), count, np.empty((k, rows.shape[1]), rows.dtype)


def make_hits(top: BareTop, found: int, passes: float, radius: float) -> Hits:
    """Make `Hits` of what a kernel has found."""
    scores, ids, slots, bounds, scored, rows = top
    return Hits(
        ids=ids,
        scores=scores,
        bounds=bounds,
        rows=rows if found == len(rows) else rows[:found],
        slots=slots,
        scored=scored,
        passes=passes,
        radius=radius,
    )
