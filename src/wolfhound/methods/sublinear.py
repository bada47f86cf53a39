"""Sublinear Frank-Wolfe: every step goes to an atom of gap at least c Phi.

Algorithm 2 of Shrivastava, Song and Xu, corrected, on any oracle. The loop is
`FrankWolfe`'s, what it asks for `Separation`'s.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from wolfhound.core import Objective, Oracle, Start, State, StepSize
from wolfhound.methods._ask import Asker
from wolfhound.methods._begin import best_atom, random_mixture
from wolfhound.methods._separation import Confirmed, Fixed, Halved, Separation, Wanted
from wolfhound.methods.directions import Vanilla
from wolfhound.methods.frank_wolfe import FrankWolfe
from wolfhound.methods.steps import OpenLoop
from wolfhound.validate import count, flag, kind, number, oracle, require, within


@dataclass(frozen=True, slots=True)
class Halving:
    """A wanted gap Phi that starts high and falls at every proved "none".

    A (c, tau)-MaxIP structure is the weak separation oracle of Braun, Pokutta and
    Zink (2017) with K = 1/c: an atom of gap c Phi, or a proof that none has Phi.
    Then Phi becomes half of the gap that was proved. It is kept between half and
    all of what is left, value - lower, where that is known: so every answer has
    at least c/2 of f(w) - min f, and f(w_t) - min f falls like log(t) / t with the
    steps 2 / (c t + 2). Neither their number nor f(w_0) - min f need be known.

    Parameters
    ----------
    first
        Phi at the start; default: what is left there. If that is unknown too,
        the first query is answered by a pass.
    """

    first: float | None = None

    def __post_init__(self) -> None:
        if self.first is not None:
            number(self.first, "first", low=0.0, strict=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class SublinearFrankWolfe:
    """Frank-Wolfe with an index that finds a share c of the gap, or says "none".

    From a random w_0, steps ``w += eta_t (s_t - w)`` with ``eta_t = 2 / (c t + 2)``.
    The oracle is asked for a score of ``<q, w> + c Phi``, with q = -grad f(w):

    - Case 2: the atom that it finds has a gap ``<q, s - w>`` of at least c Phi. Step.
    - Case 1, "none": it finds less. That is no proof, so an exact pass confirms it.
      If the index was wrong, the run goes on with the best atom. Else no atom has
      Phi, `lower` rises, a state of kind "none" is shown, and `tau` says how it
      goes on.

    An oracle that proves its answers (`Scan`, `Tiered`, ``proof=True``) is believed
    without a second pass. If every answer has a share c of the best gap,
    `theory.gap_after` bounds f(w_t) - min f; an `Audited` index shows the share in
    the trace. On the boundary of the hull an index may miss the same atom again and
    again, a pass each time: `Tiered` remembers it.

    Parameters
    ----------
    ratio
        c, the share of the wanted gap that an answer must have, in (0, 1].
    tau
        `Halving()`, or one tau in (0, 1] for the whole run, as in the paper:
        ``Phi = tau |q| R``, R half the diameter, so that tau is what an index of
        normalised queries and centred atoms is built for. At a "none" the run ends
        (FINISHED). That proves a gap of eps if ``tau <= eps / (D_x D_y)``, the norms of
        `theory.lift_norms`, since |q| R <= D_x D_y.
    schedule
        Step size; default ``OpenLoop(2 / c)``. ``Clipped(c)`` is the paper's, and with
        `ShortStep` f need not be convex.
    confirm
        Whether a "none" of an oracle that proves nothing is confirmed by a pass. If
        not, it ends the run as NOT_FOUND, at w_t, and adds nothing to `lower`.
    exact
        Oracle of these passes; default ``Scan(oracle.atoms)``.
    diameter
        Bound D on the diameter of the hull, needed for a fixed tau only; default
        `diameter_bound`, two passes. Such a run also ends (FINISHED) after the T steps,
        `theory.steps`, that reach the goal if every answer has a share c of the best
        gap; T is known where the smoothness of f and a lower bound are.
    mixed
        Atoms of the random w_0; 0: begin at the best atom of the pool.

    Examples
    --------
    >>> from wolfhound import RandomSubset, SquaredDistance, minimize
    >>> rows = np.random.default_rng(0).standard_normal((5000, 4))
    >>> method = SublinearFrankWolfe(ratio=0.5)
    >>> result = minimize(SquaredDistance(rows[0]), RandomSubset(rows, size=500), method=method, rtol=1e-2)
    >>> result.success, result.passes < result.steps
    (True, True)
    """

    ratio: float = 0.8
    tau: float | Halving = field(default_factory=Halving)
    schedule: StepSize | None = None
    confirm: bool = True
    exact: Oracle | None = None
    diameter: float | None = None
    mixed: int = 16

    def __post_init__(self) -> None:
        within(self.ratio, "ratio", "(0, 1]")
        if not isinstance(self.tau, Halving):
            within(self.tau, "tau", "(0, 1]")
        if self.schedule is not None:
            kind(self.schedule, "schedule", "a step size such as Clipped(0.8)", "begin", "__call__")
        if self.exact is not None:
            oracle(self.exact, "exact")
        if self.diameter is not None:
            size = number(self.diameter, "diameter")
            require(0.0 <= size < math.inf, "diameter", "finite and >= 0", size)
        flag(self.confirm, "confirm")
        count(self.mixed, "mixed")

    def begin(self, objective: Objective, start: Start, rng: np.random.Generator) -> Start:
        """Begin at random weights of random atoms of the pool."""
        if self.mixed == 0:
            return best_atom(objective, start)
        return random_mixture(objective, start, rng, size=self.mixed)

    def states(
        self, objective: Objective, oracle: Oracle, start: Start, *, goal: float, rng: np.random.Generator
    ) -> Iterator[State]:
        """Yield the start, then a state per step and per "none"."""
        if self.confirm:
            oracle = Confirmed(oracle, self.exact)
        ask = Asker(objective, oracle, start.exclude, goal=goal, start=start)
        loop = FrankWolfe(Vanilla(), OpenLoop(2.0 / self.ratio) if self.schedule is None else self.schedule)
        wanted = self._choose_gap(start, goal)
        return loop.walk(Separation(ask, wanted, ratio=self.ratio, confirm=self.confirm), start)

    def _choose_gap(self, start: Start, goal: float) -> Wanted:
        if isinstance(self.tau, Halving):
            return Halved(self.tau.first, trusted=self.confirm)
        # The number of steps is that of the default schedule, from its beginning.
        atol = goal if self.schedule is None and start.t == 0 else 0.0
        return Fixed(self.tau, self.diameter, ratio=self.ratio, atol=atol)
