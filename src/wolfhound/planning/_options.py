"""What every oracle costs for a demand, and the gap ratio that costs least."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import NamedTuple, final

from wolfhound.planning._exponents import Demand
from wolfhound.planning.costs import MODELS, Estimate, Task, hash_codes, lsh

INDEXES = ("ClusterIndex", "LshIndex", "FaissIndex Pq", "FaissIndex IvfPq")
"""Oracles that are built and answer without proof."""

POOL = "FullyCorrective"
"""No oracle: the method that needs none of them."""

PASSES = 4
"""Passes that it needs at most; benchmarks/claim_passes.py measures them."""

RATIOS = tuple(c / 100 for c in range(50, 100))
"""Gap ratios that are tried."""

_POOL_ROWS = 16_384


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """An oracle with what it is expected to cost.

    Attributes
    ----------
    name, recipe : str
        What it is called, and how it is made by hand.
    ratio : float
        The gap ratio that is typical of it, not promised; 1 if it is exact.
    proves : bool
        Whether its bounds are finite.
    scored : float
        Atoms that a query scores, as rows or codes.
    queries : float
        Queries that are needed with this ratio.
    build_seconds, query_seconds, total_seconds : float
        To build it, per query, and both for all queries.
    nbytes : int
        Memory beside the atoms.
    pays_from : float
        Queries, as an exact oracle would ask, from which on it costs less than
        `Scan`; inf: never.
    objection : str
        Why it is not eligible; "" if it is.
    """

    name: str
    recipe: str
    ratio: float
    proves: bool
    scored: float
    queries: float
    build_seconds: float
    query_seconds: float
    total_seconds: float
    nbytes: int
    pays_from: float
    objection: str


class Hashing(NamedTuple):
    """How `LshIndex` hashes: two codes of so many values make a bucket."""

    codes: int
    buckets: int
    tables: int
    probes: int


def hashing(task: Task) -> Hashing:
    """Return codes, buckets and tables, and how many buckets a query tries on average."""
    codes = hash_codes(task.n)
    budget = lsh(task).scored - codes
    return Hashing(codes, codes**2, 1, math.ceil(budget / max(1.0, task.n / codes**2)))


def options(task: Task, demand: Demand) -> tuple[Option, ...]:
    """Weigh all oracles at the ratio of a task, and the method that needs no index."""
    exact, *others = (model(task) for model in MODELS)
    found = [_option(each, exact, task.ratio, demand) for each in (exact, *others)]
    return (*found, _pool(exact, task, demand))


def best_ratio(task: Task, demand: Demand) -> tuple[float, Option]:
    """Return the ratio, and the oracle that proves nothing, with the least total time.

    Where several ratios cost the same, the highest.
    """
    found = [
        (c, each)
        for c in reversed(RATIOS)
        for each in options(replace(task, ratio=c), demand)
        if not each.proves and not each.objection
    ]
    return min(found, key=lambda pair: pair[1].total_seconds)


def _option(each: Estimate, exact: Estimate, wanted: float, demand: Demand) -> Option:
    queries, least = demand.at(each.ratio), demand.at(1.0)
    saved = exact.query - queries / least * each.query
    return Option(
        name=each.name,
        recipe=each.recipe,
        ratio=each.ratio,
        proves=each.proves,
        scored=each.scored,
        queries=queries,
        build_seconds=each.build,
        query_seconds=each.query,
        total_seconds=each.build + queries * each.query,
        nbytes=math.ceil(each.nbytes),
        pays_from=max(1.0, math.ceil(each.build / saved)) if saved > 0.0 else math.inf,
        # Rounding of the formulas must not decide.
        objection="ratio too low" if each.ratio < wanted * (1.0 - 1e-9) else "",
    )


def _pool(exact: Estimate, task: Task, demand: Demand) -> Option:
    """A pool of atoms, corrected in full between passes: no query but a few passes."""
    return Option(
        name=POOL,
        recipe="minimize(objective, atoms)",
        ratio=1.0,
        proves=True,
        scored=exact.scored,
        queries=float(PASSES),
        build_seconds=0.0,
        query_seconds=exact.query,
        total_seconds=PASSES * exact.query,
        nbytes=math.ceil(exact.nbytes + min(task.n, _POOL_ROWS) * task.row),
        pays_from=float(PASSES),
        objection="" if demand.eps is not None else "for one solve",
    )
