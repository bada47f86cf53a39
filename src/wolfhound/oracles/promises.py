"""(c, tau): what an index promises of its answers, and how far a table must be probed to keep it.

The directions of a hash are random, so a pair of a query and an atom at a given
angle is as good as any other pair at that angle. What is measured is how much of the
query the bucket of the atom shows: the sum of two projections, which no other atom
changes. So a cut that most planted pairs reach holds for every query and any data; how
many atoms lie above it is counted query by query.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import ROUND_CEILING, ROUND_FLOOR, Context
from typing import Any

import numpy as np
from scipy.special import bdtr

from wolfhound.core.contracts import Ints, Matrix, Singles, Vector
from wolfhound.core.rounding import product
from wolfhound.core.validate import count, number, require, within
from wolfhound.oracles.buckets import Round, doubling
from wolfhound.oracles.hashes import Family, Hash, draw_hash


@dataclass(frozen=True, slots=True)
class Ladder:
    """Rungs ``tau = (1 + zeta)^-i`` from 1 down to `low`, asked from the top.

    A structure for (c, tau) promises c tau, not c times the best score. Asked
    for one rung after the other, until an answer is verified, it promises
    c / (1 + zeta) of the best score: only the rung just below it must succeed.

    Examples
    --------
    >>> Ladder(zeta=1.0, low=0.2).rungs
    (1.0, 0.5, 0.25, 0.2)
    """

    zeta: float = 0.1
    low: float = 0.1

    def __post_init__(self) -> None:
        number(self.zeta, "zeta", low=0.0, strict=True)
        within(self.low, "low", "(0, 1)")

    @property
    def rungs(self) -> tuple[float, ...]:
        """All tau, descending."""
        steps = math.ceil(-math.log(self.low) / math.log1p(self.zeta) - 1e-9)
        return (*((1.0 + self.zeta) ** -i for i in range(steps)), self.low)


@dataclass(frozen=True, slots=True, kw_only=True)
class Promise:
    """What an index was built for; see `LshIndex.build`."""

    ratio: float
    delta: float
    taus: tuple[float, ...] = ()  # rungs, descending; none: nothing is promised
    # Of every rung and range of norms, what a bucket must show of a query to be probed: the sum of its
    # projections. An atom at tau is in such a bucket with probability 1 - delta, whatever the query
    # and the other atoms are.
    cuts: tuple[tuple[float, ...], ...] = ()
    budgets: tuple[int, ...] = ()  # atoms above the cuts of a rung in a table, on average over queries

    @classmethod
    def check(cls, ratio: float, tau: float | Ladder | None, delta: float) -> Promise:
        """Check what is to be promised; its budgets are not known yet."""
        within(ratio, "ratio", "(0, 1]")
        within(delta, "delta", "(0, 1)")
        if isinstance(tau, Ladder):
            return cls(ratio=ratio, delta=delta, taus=tau.rungs)
        return cls(ratio=ratio, delta=delta, taus=() if tau is None else (within(tau, "tau", "(0, 1]"),))

    def scores(self, sizes: Vector, *, radius: float, start: Vector) -> list[Vector]:
        """Scores that are enough, rung by rung; `sizes` are norms of queries, `start` the centre's scores."""
        with np.errstate(over="ignore"):  # what overflows is no score that could be enough
            length = self.ratio * sizes * radius
        return [tau * length + start for tau in self.taus]

    def rounds(self, first: int, most: Ints, enough: Sequence[Vector]) -> list[Round]:
        """Budgets of a table, and the scores that are enough.

        Where there is one tau, `first` atoms are probed before the first answer is looked at. `most`
        (rungs, tables, m) are the atoms above the cuts, `enough` (m,) scores of each rung.
        """
        if len(enough) == 1:
            early = doubling(first, int(most.max(initial=0)), enough[0])[:-1]
            return [*((np.minimum(budget, most[0]), scores) for budget, scores in early), (most[0], None)]
        rungs: list[Vector | None] = [*enough[:-1], None]
        return list(zip(most, rungs, strict=True))

    @classmethod
    def of(cls, params: Mapping[str, Any]) -> Promise:
        """Return a promise that was saved; ValueError if none can be so."""
        ratio, delta = within(params["ratio"], "ratio", "(0, 1]"), within(params["delta"], "delta", "(0, 1)")
        taus = tuple(within(tau, "tau", "(0, 1]") for tau in params["taus"])
        budgets = tuple(count(budget, "budgets", low=1) for budget in params["budgets"])
        cuts = tuple(tuple(number(cut, "cuts") for cut in rung) for rung in params["cuts"])
        require(len(budgets) == len(taus) == len(cuts), "budgets", "one for each tau, as cuts", budgets)
        require(len(set(map(len, cuts))) <= 1, "cuts", "as many for each tau", cuts)
        small = all(abs(cut) < 2**20 for rung in cuts for cut in rung)
        require(small, "cuts", "smaller", cuts)
        require(max(budgets, default=1) < 2**40, "budgets", "smaller", budgets)
        return cls(ratio=ratio, delta=delta, taus=taus, cuts=cuts, budgets=budgets)


PAIRS = 4096  # planted pairs of a table
CONFIDENCE = 0.95  # probability, over the planted pairs, that a cut is missed no more often than is promised
QUERIES = 64  # queries whose atoms above a cut are counted
LENGTHS = (16, 48, 144, 432)  # atoms per bucket that are tried
ORDERED = 0.02  # what it costs to order a bucket, in atoms scored
_MARGIN = 1e-5  # by which norms may be rounded


def find_least_delta(tables: int = 1) -> float:
    """Return the least delta of a promise that the planted pairs back.

    Where none of the pairs misses a cut, no more than ``1 - (1 - CONFIDENCE)^(1/PAIRS)`` of all
    do, with `CONFIDENCE`: the bound of Clopper and Pearson. Independent tables all miss with
    the product.
    """
    return float(-math.expm1(math.log1p(-CONFIDENCE) / PAIRS)) ** tables


def split_delta(delta: float, tables: int = 1) -> tuple[int, float]:
    """Return the fewest copies that all miss no more often than delta, and the delta that each promises."""
    least, copies, each = find_least_delta(tables), 1, delta
    while each < least:
        copies += 1
        each = _round(delta ** (1.0 / copies), ROUND_FLOOR)
    return copies, each


def check_backed(delta: float, tables: int) -> None:
    """Refuse a delta that is below what the planted pairs of a table can tell."""
    least, (copies, each) = find_least_delta(tables), split_delta(delta, tables)
    rule = (
        f">= {_round(least, ROUND_CEILING):g}, the least that {PAIRS:,} planted pairs back; for less, "
        f"build with copies={copies}, delta={each:g}: independent copies all miss with delta^copies"
    )
    require(delta >= least, "delta", rule, f"{delta:g}")


def _round(value: float, rounding: str) -> float:
    """Three digits of a number, so that what is printed is true as well."""
    return float(Context(prec=3, rounding=rounding).create_decimal_from_float(value))


def choose_length(
    family: Family, sample: Matrix, n: int, taus: Sequence[float], *, tables: int, delta: float
) -> int:
    """Atoms per bucket with which an atom at the last tau takes the least work to find, by a sample of n."""

    def work(per_bucket: int) -> float:
        rng = np.random.default_rng(per_bucket)
        hashing = draw_hash(family, sample, n, per_bucket=per_bucket, rng=rng)
        sizes = np.bincount(hashing.assign(sample), minlength=hashing.buckets)
        rows = hashing.scale(sample)
        radius = float(np.sqrt(np.einsum("ij,ij->i", rows, rows)).max())
        cuts = find_cuts(hashing, radius, taus[-1:], delta=delta, tables=tables, rng=rng)
        found = count_typical(replace(hashing, cuts=cuts), sizes, rows, rng)[-1]
        return float(found) * n / len(sample) + ORDERED * hashing.buckets

    return min(LENGTHS, key=work)


def find_cuts(
    hashing: Hash,
    radius: float,
    taus: Sequence[float],
    *,
    delta: float,
    tables: int,
    rng: np.random.Generator,
) -> Vector:
    """(t, r) projections that the bucket of an atom at tau shows with probability 1 - delta.

    Of one table: others of the same kind have cuts of their own, in few dimensions they differ. `radius` is
    the largest norm of a centred and scaled atom, `taus` are ``<q, s> / (|q| radius)`` of the atom to be
    found; `delta` is how often it may be missed by all of so many tables, each with cuts like these.
    """
    measure, most = _plant(hashing, rng)
    missing = delta ** (1.0 / tables)
    known: dict[float, float] = {}
    out = np.empty((len(taus), len(hashing.norms)))
    for i, tau in enumerate(taus):
        # Of all atoms in a range of norms the longest has the smallest cosine.
        for r, norm in enumerate((*hashing.edges.astype(float), radius)):
            longest, least = norm * (1.0 + _MARGIN), tau * radius
            cosine = min(1.0, least / longest) if longest > 0.0 else 1.0
            if cosine not in known:
                known[cosine] = _quantile(measure(cosine), missing)
            out[i, r] = known[cosine] if longest >= least else most  # none of them can be at tau
    return np.minimum.accumulate(out)  # a lower rung looks at least as far


def _plant(hashing: Hash, rng: np.random.Generator) -> tuple[Callable[[float], Vector], float]:
    """What the buckets of planted atoms show, by their cosine with the query; and what none shows."""
    d = hashing.first.shape[1]
    units, across = rng.standard_normal((2, PAIRS, d))
    units /= np.linalg.norm(units, axis=1, keepdims=True)
    across -= np.einsum("ij,ij->i", across, units)[:, None] * units
    across /= np.maximum(np.linalg.norm(across, axis=1, keepdims=True), 1e-300)
    blocks = hashing.first, hashing.second
    spreads = [hashing.family.spread(_project(units, block)) for block in blocks]
    every = np.arange(PAIRS)

    def measure(cosine: float) -> Vector:
        planted = cosine * units + math.sqrt(1.0 - cosine**2) * across
        codes = [hashing.family.assign(_project(planted, block))[0] for block in blocks]
        first, second = (spread[every, code] for spread, code in zip(spreads, codes, strict=True))
        return np.asarray(first + second, np.float64)

    return measure, 1.25 * float((spreads[0].max(axis=1) + spreads[1].max(axis=1)).max())


def _project(rows: Vector, block: Singles) -> Singles:
    return product(rows.astype(np.float32), block.T)


def _quantile(shown: Vector, missing: float) -> float:
    """The highest of what pairs showed that no more than this share of all pairs miss, with `CONFIDENCE`.

    Below the one of rank r lie more than a share p of all with the probability that of so many
    pairs at most r miss what a share p misses: a sum of binomials.
    """
    size = len(shown)
    unlikely = bdtr(np.arange(size), size, missing) <= 1.0 - CONFIDENCE
    return float(np.sort(shown)[max(0, int(unlikely.sum()) - 1)])


def count_typical(hashing: Hash, sizes: Ints, sample: Singles, rng: np.random.Generator) -> Ints:
    """(t,) mean count of atoms above the cuts, over queries from the whole sphere and from the atoms."""
    picked = sample[rng.integers(0, len(sample), QUERIES)].astype(np.float64)
    queries = np.concatenate([picked + 1e-9, rng.standard_normal(picked.shape)])
    found = hashing.count_above(queries, np.linalg.norm(queries, axis=1), sizes)
    return np.asarray(np.ceil(found.mean(axis=1)), np.int64)
