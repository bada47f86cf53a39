"""A memory limit for `minimize`: shared out between the passes and the pool."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from dataclasses import replace

from wolfhound.core import Atoms, Method
from wolfhound.methods.fully_corrective import FullyCorrective
from wolfhound.oracles._pass import least_memory
from wolfhound.oracles.scan import Scan
from wolfhound.validate import memory, require

_START = 1300
"""Random atoms that are read before the first step, at least."""

_COPIES = 4
"""Copies of a row of the pool: itself, room to grow, the harvest, and a copy in float64 now and then."""

_BESIDE = 100
"""Bytes beside each row: ids, scores, places."""

_LEAST = FullyCorrective(harvest=64, pool=_START)


def fit_memory(atoms: Atoms, method: Method, max_memory: float | str) -> tuple[Scan, Method]:
    """Return a `Scan` and a method that together keep a memory limit; ValueError says what would do.

    Passes give up screening and large blocks; `FullyCorrective` gives up a large pool
    and harvest. Of other methods only the pool that they start from is known.
    """
    given, passes = memory(max_memory, "max_memory"), least_memory(atoms)
    adjust = isinstance(method, FullyCorrective)
    least = passes + _weigh(atoms, _LEAST)
    require(given >= least, "max_memory", f"at least {least:,} bytes for these atoms", f"{given:,.0f}")
    fitted = method if isinstance(method, FullyCorrective) else _LEAST
    while adjust and _weigh(atoms, fitted) > max((given - passes) / 2, _weigh(atoms, _LEAST)):
        fitted = replace(fitted, harvest=max(fitted.harvest // 2, 64), pool=max(fitted.pool // 2, _START))
    scan = Scan(atoms, max_memory=given - _weigh(atoms, fitted))
    return scan, fitted if adjust else method


def _weigh(atoms: Atoms, method: FullyCorrective) -> int:
    """Bytes that a fully corrective run over these atoms takes, at most: d + 1 atoms are active."""
    d = atoms.shape[1]
    active = min(d + 1, atoms.shape[0])
    rows = max(method.pool, 10 * active, _START, 4 * d) + max(method.harvest, 8 * active)
    factor = 16 * (d + 65) * d + 24 * (d + 65) ** 2
    return min(rows, atoms.shape[0]) * (_COPIES * d * atoms.dtype.itemsize + _BESIDE) + factor
