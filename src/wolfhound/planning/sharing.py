"""Many targets over the same atoms: what `minimize_many` costs by itself, and through an index.

By itself it reads codes of all atoms about twice per target, lists atoms, and solves each target on
its list, proved. An index is asked for fewer atoms, more often, and proves nothing. The two
numbers below are rounded from runs; benchmarks/claim_plan.py compares plans with runs.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from wolfhound.oracles.indexes import Workload
from wolfhound.planning.options import Option
from wolfhound.planning.theorems import Demand

TOGETHER = "together"
"""Name of the option that asks no oracle."""

_SETUP = 9.0
"""Seconds before the first pass, in those of encoding: atoms are checked, measured, encoded, sampled."""

_SOLVE = 2e5
"""Products per coordinate, at the speed of k-means, that each answer costs besides: rows are gathered,
and the target is solved with them. The longer lists of a pass cost twice that."""


def solve_seconds(work: Workload, demand: Demand) -> float:
    """Return the seconds per query that are spent on its answer; 0 if it is the caller who spends them."""
    return 0.0 if demand.targets is None else _SOLVE * work.d * work.speeds.kmeans


def share(options: Sequence[Option], work: Workload, demand: Demand) -> tuple[Option, ...]:
    """Weigh oracles against `minimize_many` over the atoms, which is the last of the options.

    Parameters
    ----------
    options
        All oracles; `Scan` and `Int8Scan` stand for their atoms, and are not asked.
    work
        What they were weighed for.
    demand
        How many targets there are.
    """
    exact = min((each for each in options if each.proves), key=lambda each: each.query_seconds)
    solve = solve_seconds(work, demand)
    setup = _SETUP * work.speeds.encode * work.nbytes + work.file_seconds(2)
    together = replace(
        exact,
        name=TOGETHER,
        title="minimize_many",
        recipe="minimize_many(targets, atoms)",
        build_seconds=setup,
        total_seconds=setup + exact.queries * (exact.query_seconds + 2.0 * solve),
        nbytes=work.n * (work.d + 12),
        pays_from=1.0,
    )
    return (*(_beside(each, together, demand.targets or 1) for each in options), together)


def _beside(each: Option, together: Option, targets: int) -> Option:
    """From how many targets on an oracle costs less."""
    if each.proves:
        return replace(each, pays_from=math.inf, objection=each.objection or "stands for its atoms")
    saved = (_running(together) - _running(each)) / targets
    later = each.build_seconds - together.build_seconds
    if saved > 0.0:
        return replace(each, pays_from=max(1.0, math.ceil(later / saved)))
    return replace(each, pays_from=1.0 if each.total_seconds < together.total_seconds else math.inf)


def _running(each: Option) -> float:
    """Seconds of all targets, without what comes before."""
    return each.total_seconds - each.build_seconds
