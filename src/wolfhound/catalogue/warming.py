"""`warm_up`: what is compiled at the first call, compiled before it."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Callable

import numpy as np

from wolfhound.core import validate
from wolfhound.core.contracts import Matrix, Oracle
from wolfhound.core.progress import Job, Reading, report_rows, show_progress
from wolfhound.designs.design import design
from wolfhound.herding.herd import herd
from wolfhound.many.solve import minimize_many
from wolfhound.mixtures.families import Normal
from wolfhound.mixtures.npmle import npmle
from wolfhound.mixtures.weights import fit_weights
from wolfhound.objectives.linear import Logistic
from wolfhound.objectives.plain import SquaredDistance
from wolfhound.oracles.asking import OFTEN
from wolfhound.oracles.clusters import ClusterIndex
from wolfhound.oracles.int8.scan import Int8Scan
from wolfhound.oracles.lsh import LshIndex
from wolfhound.oracles.scan import Scan
from wolfhound.solve.minimize import minimize


def warm_up(*what: str | Oracle, progress: bool | None = None) -> int:
    """Compile kernels before they are needed, or load them from disk.

    The first call in a process otherwise does: it loads what an earlier process compiled, in a
    fraction of a second, or compiles it, in some seconds. Call this before you measure time, or
    where a service starts.

    Parameters
    ----------
    *what : names or oracles
        "minimize", "many" (for `minimize_many`), "herd", "npmle", "fit_weights", "design", "Int8Scan",
        "ClusterIndex", "LshIndex"; an oracle is asked a question alone, and some at once. By
        default all names.
    progress
        As for `minimize`.

    Returns
    -------
    compiled : int
        How many were compiled rather than loaded; 0 when all were there.

    Examples
    --------
    >>> import time
    >>> import wolfhound as wh
    >>> _ = wh.warm_up("minimize")
    >>> began = time.perf_counter()
    >>> run = wh.minimize(wh.SquaredDistance([0.2, 0.3]), [[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    >>> run.seconds <= time.perf_counter() - began
    True
    """
    from wolfhound.compiled.jit import on_compile  # noqa: PLC0415 - files that import it on top hold kernels

    for each in what:
        known = validate.is_oracle(each) or each in _DOORS
        validate.require(known, "what", f"an oracle, or one of {', '.join(_DOORS)}", each)
    compiled, ready, wanted = 0, 0, what or tuple(_DOORS)
    rng = np.random.default_rng(0)

    def read(job: Job) -> Reading:
        each = wanted[ready]
        name = each if isinstance(each, str) else type(each).__name__
        text = f"{name}, {ready + 1} of {len(wanted)}: {compiled} kernels compiled, {job.seconds:.0f} s"
        return Reading(ready / len(wanted), text)

    def count() -> None:
        nonlocal compiled
        compiled += 1
        report_rows(0)

    with show_progress(progress, read), on_compile(count):
        for each in wanted:
            if isinstance(each, str):
                for dtype in (np.float32, np.float64):
                    _DOORS[each](rng.standard_normal((3000, 8)).astype(dtype))
            else:
                _ask(each)
            ready += 1
    return compiled


def _minimize(rows: Matrix) -> None:
    rng = np.random.default_rng(1)
    minimize(SquaredDistance(2.0 * rows[0]), rows)
    flat = np.repeat(rows[:40, :2], 4, axis=1)
    minimize(SquaredDistance(flat.mean(axis=0)), flat, start=(np.arange(20), np.full(20, 0.05)))  # dependent
    minimize(Logistic(rng.standard_normal((9, 8)), np.repeat([-1.0, 1.0, 1.0], 3)), rows)
    _ask(Scan(rows))


def _ask(oracle: Oracle) -> None:
    """Ask for single directions until one call answers each, a near one and another; and for some at once."""
    query = np.ones((1, oracle.atoms.shape[1]))
    for _ in range(OFTEN + 1):
        oracle.query(query)
    oracle.query(-query)
    oracle.query(np.repeat(query, 8, axis=0))


_DOORS: dict[str, Callable[[Matrix], object]] = {
    "minimize": _minimize,
    "many": lambda rows: [minimize_many(2.0 * rows[:4], atoms) for atoms in (rows, rows[:100])],
    "herd": lambda rows: herd(rows, 8),
    "npmle": lambda rows: npmle(rows[:200, 0], Normal()),
    "fit_weights": lambda rows: fit_weights(np.exp(-rows[:200])),
    "design": design,
    "Int8Scan": lambda rows: _ask(Int8Scan.build(rows)),
    "ClusterIndex": lambda rows: _ask(ClusterIndex.build(rows)),
    "LshIndex": lambda rows: _ask(LshIndex.build(rows)),
}
"""What can be named, each with a small call of its ordinary use."""
