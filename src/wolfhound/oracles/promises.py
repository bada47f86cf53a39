"""(c, tau): what an index promises of its answers."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from wolfhound.core import Ints, Vector
from wolfhound.oracles.buckets import Round, doubling
from wolfhound.validate import count, number, require, within


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
    """What an index was built for; see `LshIndex.build`.

    Attributes
    ----------
    ratio, delta : float
    taus : tuple of float
        Rungs, descending; none: nothing is promised.
    cuts : tuple of tuple of float
        Of every rung and range of norms, what a bucket must show of a query to be probed:
        the sum of its projections. An atom at tau is in such a bucket with probability
        1 - delta, whatever the query and the other atoms are.
    budgets : tuple of int
        Atoms above the cuts of a rung in a table, on average over queries.
    """

    ratio: float
    delta: float
    taus: tuple[float, ...] = ()
    cuts: tuple[tuple[float, ...], ...] = ()
    budgets: tuple[int, ...] = ()

    @classmethod
    def check(cls, ratio: float, tau: float | Ladder | None, delta: float) -> Promise:
        """Check what is to be promised; its budgets are not known yet."""
        within(ratio, "ratio", "(0, 1]")
        within(delta, "delta", "(0, 1)")
        if isinstance(tau, Ladder):
            return cls(ratio=ratio, delta=delta, taus=tau.rungs)
        return cls(ratio=ratio, delta=delta, taus=() if tau is None else (within(tau, "tau", "(0, 1]"),))

    def rounds(self, first: int, most: Ints, sizes: Vector, *, radius: float, start: Vector) -> list[Round]:
        """Budgets of a table, `first` at the beginning, and the scores that are enough.

        Parameters
        ----------
        first
            Atoms that are probed before the first answer is looked at, where there is one tau.
        most : (rungs, tables, m)
            Atoms above the cuts.
        sizes, start : (m,)
            Norms of the queries, and scores of the centre.
        radius
            R.
        """
        with np.errstate(over="ignore"):  # what overflows is no score that could be enough
            length = self.ratio * sizes * radius
        enough = [tau * length + start for tau in self.taus]
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
