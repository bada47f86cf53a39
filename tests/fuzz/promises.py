"""Indexes that promise (ratio, tau) with some delta, the least too, asked for atoms at tau.

A promise is a probability, and so is the measurement behind it: an index is found out where its
misses are less likely than `CHANCE`, with cuts as bad as they are that seldom. Planted atoms lie in
random directions, one for each query, so that given the hashes misses are independent. Where other
atoms hide that an index misses one, its tables do not: each is asked whether it would look into the
bucket of the atom.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import beta, binom

from tests.fuzz.supervise import Findings
from wolfhound import CrossPolytope, LshIndex, SimHash
from wolfhound.oracles.hashes import Hash
from wolfhound.oracles.promises import CONFIDENCE, PAIRS, find_least_delta

Array = NDArray[Any]
Rng = np.random.Generator

CHANCE = 1e-9
"""Probability of a finding where there is none, once for the cuts and once for the misses."""

PLANTED = 1000
"""Atoms that are asked for."""

AT = 1.0 + 1e-6
"""Queries score so much more than tau that rounding leaves them there."""


def judge(seed: int, batch: int) -> Iterator[str | Findings]:
    """Build one index with a promise, and ask it and its tables for atoms that they must find."""
    rng = np.random.default_rng([seed, batch, 8])
    name, rows = draw_rows(rng)
    options = draw_options(rng)
    label, found = f"{seed}/{batch} {name}, {len(rows)} x {rows.shape[1]}, {options}", Findings()
    yield label
    index = LshIndex.build(rows, **options)
    asked, queries = plant_queries(rng, index, rows[:PLANTED])
    share, tables = highest_share(options), [table.bucketing for table in index._tables.all]
    hidden = [count_hidden(table, index.promise.cuts[0], asked, queries) for table in tables]
    missed = [("the index", count_misses(index, queries), share ** len(tables))]
    for what, many, most in missed + [("a table", many, share) for many in hidden]:
        found.counts["promised"] += len(queries)
        if binom.sf(many - 1, len(queries), most) < CHANCE:
            found.violations.append(f"{label}: {what} misses {many} of {len(queries)}, may miss {most:.3g}")
    yield found


def draw_rows(rng: Rng) -> tuple[str, Array]:
    """Draw atoms: planted ones of equal or different norms in all directions, then others of any kind."""
    n, d = int(rng.choice([30, 300, 3000])), int(rng.choice([1, 2, 3, 5, 8, 16, 48]))
    planted, others = rng.standard_normal((PLANTED, d)), rng.standard_normal((n, d))
    planted /= np.linalg.norm(planted, axis=1, keepdims=True)
    if rng.random() < 0.5:
        planted *= rng.uniform(0.3, 1.0, (PLANTED, 1))
    units = others / np.linalg.norm(others, axis=1, keepdims=True)
    kinds: dict[str, Callable[[], Array]] = {
        "sphere": lambda: units,
        "many norms": lambda: units * 2.0 ** rng.uniform(-6.0, 0.0, (n, 1)),
        "clusters": lambda: 0.5 * units[rng.integers(0, 5, n)] + 0.01 * others,
        "thin": lambda: units * np.logspace(0.0, -3.0, d),
        "one side": lambda: 0.5 * np.abs(units),
    }
    name = str(rng.choice(sorted(kinds)))
    rows = np.concatenate([planted, kinds[name]()]) * 10.0 ** rng.uniform(-6.0, 6.0)
    return name, rows.astype(rng.choice(["float32", "float64"]))


def draw_options(rng: Rng) -> dict[str, Any]:
    """Draw what is promised: every second time with the least delta."""
    tables = int(rng.choice([1, 1, 2]))
    delta = find_least_delta(tables) if rng.random() < 0.5 else 10.0 ** rng.uniform(-3.0, -0.3)
    return {
        "ratio": float(rng.choice([0.5, 0.8, 0.95])),
        "tau": float(rng.choice([0.2, 0.5, 0.8, 0.95])),
        "delta": float(delta),
        "tables": tables,
        "copies": int(rng.choice([1, 1, 2, 3])),
        "family": CrossPolytope() if rng.random() < 0.7 else SimHash(),
        "seed": int(rng.integers(1 << 30)),
    }


def plant_queries(rng: Rng, index: LshIndex, planted: Array) -> tuple[Array, Array]:
    """(m, d) atoms that can be at tau, and unit queries, each turned away from its atom until it just is."""
    away = planted.astype(np.float64) - index.centre
    lengths = np.linalg.norm(away, axis=1, keepdims=True)
    cosines = AT * index.promise.taus[0] * index.radius / lengths
    units = away / lengths
    across = rng.standard_normal(units.shape)
    across -= np.einsum("ij,ij->i", across, units)[:, None] * units
    across /= np.maximum(np.linalg.norm(across, axis=1, keepdims=True), 1e-9)
    queries = cosines * units + np.sqrt(np.maximum(0.0, 1.0 - np.square(cosines))) * across
    queries /= np.linalg.norm(queries, axis=1, keepdims=True)
    able = cosines[:, 0] <= 1.0
    return planted[able], queries[able]


def count_misses(index: LshIndex, queries: Array) -> int:
    """How many answers have less than was promised."""
    if not len(queries):
        return 0
    promise, scores = index.promise, index.query(queries).scores[:, 0] - queries @ index.centre
    return int((scores < promise.ratio * promise.taus[0] * index.radius * (1.0 - 1e-6)).sum())


def count_hidden(table: Hash, cuts: Sequence[float], atoms: Array, queries: Array) -> int:
    """How many atoms lie in buckets that show less of their query than the cut of their norm."""
    rows, shown = table.scale(atoms), np.zeros(len(atoms))
    for block in (table.first, table.second):
        codes = table.family.assign(rows @ block.T)[0]
        spread = table.family.spread(queries.astype(np.float32) @ block.T)
        shown += spread[np.arange(len(codes)), codes]
    ranges = np.searchsorted(table.edges, np.linalg.norm(rows, axis=1))
    return int((shown < np.asarray(cuts)[ranges] - 1e-5).sum())


def highest_share(options: dict[str, Any]) -> float:
    """The share of misses that a table exceeds with a probability of `CHANCE`: that of a rare bad cut."""
    missing = options["delta"] ** (1.0 / options["tables"])
    rank = max(1, int((binom.cdf(np.arange(PAIRS), PAIRS, missing) <= 1.0 - CONFIDENCE).sum()))
    return float(beta.isf(CHANCE, rank, PAIRS + 1 - rank))
