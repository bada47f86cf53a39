"""Sublinear herding: equal weights from an index, with a share that is verified.

How a herding step moves and what it asks for; `herding.in_features` runs it.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import final

import numpy as np

from wolfhound.core.contracts import Hits, Objective, Oracle, Point, Start, State, Vector
from wolfhound.core.rounding import TINY
from wolfhound.core.validate import count, number, require
from wolfhound.core.validate import oracle as is_one
from wolfhound.methods.asking import Asker
from wolfhound.methods.atom_sets import Move
from wolfhound.methods.directions import Vanilla
from wolfhound.methods.frank_wolfe import FrankWolfe
from wolfhound.methods.steps import OpenLoop
from wolfhound.oracles.wrappers import Tiered

_PATIENT = 1 << 30


@final
@dataclass(frozen=True, slots=True)
class Onwards:
    """Towards the hit, like `Vanilla`, and even where f rises: the step decides.

    A schedule weighs the t-th pick by t alone; a rule that looks at f answers 0.

    Examples
    --------
    >>> Onwards().choose(np.array([1.0]), 1.0, 1, 0.5).gap > 0.0
    True
    """

    def inside(self, scores: Vector, here: float) -> Move:
        """Move towards the best active atom."""
        return Vanilla().inside(scores, here)

    def choose(self, scores: Vector, here: float, hit: int, score: float) -> Move:
        """Move towards the hit."""
        return Move(max(score - here, TINY), up=hit)  # the loop asks no rule where the gap is 0


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class SublinearHerding:
    """Picks of equal weight, each with a verified share `ratio` of |w - mu|^2.

    Algorithm 4 without a Case 1: if mu lies in the hull, some atom has a gap <mu - w, s -
    w> of at least |w - mu|^2, so there always is something to find. The index is asked
    for c times that, and where it finds less a pass answers. Then
    ``1/2 |w_t - mu|^2 <= D^2 / (2 (2c - 1) t)``, `theory.herding_gap_after`, whatever the index
    and however its misses depend on the run. If mu lies outside, the pick of every pass is
    the best atom, and no more is promised.

    A method of `pick_in_features`.

    Parameters
    ----------
    ratio
        c, in (1/2, 1].
    exact
        Oracle of the passes; default ``Scan(oracle.atoms)``. An index with proof may be its own.
    sample
        Random atoms of every pick that are asked first, see `Tiered`; 0: the index alone. Herding's
        query turns so fast that nothing is remembered.

    Examples
    --------
    >>> from wolfhound.paper import theory
    >>> from wolfhound.data.atoms import as_atoms, diameter_bound
    >>> from wolfhound.herding.in_features import pick_in_features
    >>> rows = np.random.default_rng(0).standard_normal((5000, 4))
    >>> run = pick_in_features(rows, 100, method=SublinearHerding(ratio=0.9))
    >>> run.value <= theory.herding_gap_after(100, c=0.9, diameter=diameter_bound(as_atoms(rows)))
    True
    """

    ratio: float = 0.9
    exact: Oracle | None = None
    sample: int = 500

    def __post_init__(self) -> None:
        count(self.sample, "sample")
        require(0.5 < number(self.ratio, "ratio") <= 1.0, "ratio", "in (1/2, 1]", self.ratio)
        if self.exact is not None:
            is_one(self.exact, "exact")

    def states(
        self, objective: Objective, oracle: Oracle, start: Start, *, goal: float, rng: np.random.Generator
    ) -> Iterator[State]:
        """Yield the start, then a state per pick; the objective is 1/2 |w - mu|^2."""
        tiers = Tiered(oracle, self.exact, cache=0, sample=self.sample, ratio=self.ratio, seed=rng)
        ask = Asker(objective, tiers, start)
        return FrankWolfe(Onwards(), OpenLoop(1.0), patience=_PATIENT).walk(_Share(ask, self.ratio), start)


@final
@dataclass(frozen=True, slots=True)
class _Share:
    """A `Seeker` that wants gaps of ratio |w - mu|^2."""

    ask: Asker
    ratio: float

    @property
    def enough(self) -> float:
        """0: it is the number of steps that ends a run."""
        return 0.0

    def __call__(self, point: Point, *, best: bool) -> Hits:
        """Ask once: the oracle reaches the gap, or makes a pass."""
        return self.ask(point, wanted=2.0 * self.ratio * point.value)

    def over(self, t: int) -> None:
        """Never."""
        return
