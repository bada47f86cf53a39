"""`warm_up`: what is compiled at the first call, compiled before it."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import numpy as np

from wolfhound.core import AtomsLike
from wolfhound.herding.herd import herd
from wolfhound.objectives.glm import Logistic
from wolfhound.objectives.quadratic import SquaredDistance
from wolfhound.oracles.scan import OFTEN, Scan
from wolfhound.solve import minimize


def warm_up() -> int:
    """Compile the kernels of `minimize` and `herd` with their defaults, or load them from disk.

    The first call in a process otherwise does: it loads what an earlier process compiled,
    in a fraction of a second, or compiles it, in about ten seconds. Call this before you
    measure time, or where a service starts.

    Returns
    -------
    compiled : int
        How many were compiled rather than loaded; 0 when all were there.

    Examples
    --------
    >>> import time
    >>> import wolfhound as wh
    >>> _ = wh.warm_up()
    >>> began = time.perf_counter()
    >>> run = wh.minimize(wh.SquaredDistance([0.2, 0.3]), [[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    >>> run.seconds <= time.perf_counter() - began < 1.0
    True
    """
    from wolfhound.jit import on_compile  # noqa: PLC0415 - files that import it on top hold kernels

    compiled: list[None] = []
    rng = np.random.default_rng(0)
    with on_compile(lambda: compiled.append(None)):
        for dtype in (np.float32, np.float64):
            rows = rng.standard_normal((3000, 8)).astype(dtype)
            minimize(SquaredDistance(2.0 * rows[0]), rows)
            minimize(Logistic(rng.standard_normal((9, 8)), np.repeat([-1.0, 1.0, 1.0], 3)), rows)
            herd(rows, 8)
            _ask_often(rows)
    return len(compiled)


def _ask_often(rows: AtomsLike) -> None:
    """Ask for single directions until one call answers each, a near one and another."""
    scan = Scan(rows)
    query = np.ones((1, scan.atoms.shape[1]))
    for _ in range(OFTEN + 1):
        scan.query(query)
    scan.query(-query)
