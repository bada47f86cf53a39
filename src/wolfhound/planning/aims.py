"""`TauAim`: the tau for which an index with a promise costs least.

A high tau is found in few atoms, but fewer queries have an atom at it; the others are
answered "none", which only a pass confirms. A low tau is there for every query, and
takes more atoms.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import final

from scipy.special import betainc, btdtria

from wolfhound.oracles.indexes import INDEXES, Workload
from wolfhound.text import count_text, seconds_text

_QUANTILES = tuple(i / 50 for i in range(1, 50))
_STEPS = 60


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class TauAim:
    """An index with a promise, at the tau with the least time per query.

    Attributes
    ----------
    title, recipe : str
        The index, and how it is made by hand.
    tau : float
        Chosen, unless it was given.
    given : bool
    reached : float
        Share of the queries that have an atom at tau.
    scored : float
        Atoms that a query scores at most: if nothing better than tau is in reach.
    query_seconds : float
        Per query, with a pass where "none" has to be confirmed.
    pass_seconds : float
        Of the fastest exact oracle, for every query.
    """

    title: str
    recipe: str
    tau: float
    given: bool
    reached: float
    scored: float
    query_seconds: float
    pass_seconds: float

    def lines(self) -> Iterator[str]:
        """Say what it costs."""
        choice = "as given" if self.given else "costs least"
        yield (
            f"With a promise, tau {self.tau:.3g} {choice}: {100 * self.reached:.0f} % of the queries "
            "have an atom there, the others take a pass."
        )
        yield (
            f"{self.recipe}: {count_text(self.scored)} atoms at most, "
            f"{seconds_text(self.query_seconds)} a query (pass {seconds_text(self.pass_seconds)})."
        )


def choose_aim(
    work: Workload, typical: float, *, delta: float, tau: float | None, passing: float
) -> TauAim | None:
    """Choose tau for the cheapest index that takes one; None if there is none.

    Parameters
    ----------
    work
        What is to be done.
    typical
        The median, over queries, of what the best atom has.
    delta
        How often a copy may fail.
    tau
        If given, nothing is chosen.
    passing
        Seconds per query of the fastest exact oracle.
    """
    half = _fit_half(typical, work.n)
    taus = [_quantile(share, work.n, half) for share in _QUANTILES] if tau is None else [tau]
    found = []
    for kind in INDEXES.values():
        if kind.takes_tau and kind.expected is not None:
            for each in taus:
                cost = kind.expected(replace(work, tau=each, delta=delta))
                reached = 1.0 - _miss(each, work.n, half)
                seconds = cost.query + (1.0 - reached) * passing
                found.append(
                    TauAim(
                        title=kind.title,
                        recipe=cost.recipe,
                        tau=each,
                        given=tau is not None,
                        reached=reached,
                        scored=cost.scored,
                        query_seconds=seconds,
                        pass_seconds=passing,
                    )
                )
    return min(found, key=lambda aim: aim.query_seconds, default=None)


def _fit_half(typical: float, n: int) -> float:
    """Half of the dimension less 1 of the sphere whose best of n random atoms has this median."""
    half = float(btdtria(2.0 * math.log(2.0) / n, 0.5, 1.0 - typical * typical))
    return half if math.isfinite(half) and half > 0.0 else 0.5


def _miss(tau: float, n: int, half: float) -> float:
    """Probability that the best of n random atoms is below tau; a cap holds a share of the sphere."""
    cap = 0.5 * float(betainc(half, 0.5, 1.0 - tau * tau))
    return math.exp(n * math.log1p(-min(cap, 0.5)))


def _quantile(share: float, n: int, half: float) -> float:
    """The tau that a share of the queries miss, by bisection."""
    low, high = 0.0, 1.0
    for _ in range(_STEPS):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if _miss(middle, n, half) < share else (low, middle)
    return min(max(0.5 * (low + high), 1e-9), 1.0 - 1e-9)
