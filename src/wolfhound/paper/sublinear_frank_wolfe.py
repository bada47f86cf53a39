"""Sublinear Frank-Wolfe: every step goes to an atom of gap at least c Phi.

Algorithm 2 of Shrivastava, Song and Xu, corrected, on any oracle. The loop is `FrankWolfe`'s; what it asks
for is weak separation: an atom of gap at least c Phi, or a proof that none has Phi. Algorithm 1 is
``FrankWolfe(Vanilla(), OpenLoop(2))`` with an exact oracle.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TypeAlias, final

import numpy as np

from wolfhound.core.contracts import Hits, Objective, Oracle, Point, Start, State, Status, StepSize
from wolfhound.core.rounding import norm
from wolfhound.core.validate import count, flag, kind, number, oracle, require, within
from wolfhound.data.atoms import diameter_bound
from wolfhound.methods.asking import Asker, best_atom, random_mixture
from wolfhound.methods.directions import Vanilla
from wolfhound.methods.frank_wolfe import FrankWolfe, is_proved_best
from wolfhound.methods.steps import OpenLoop
from wolfhound.oracles.wrappers import Tiered
from wolfhound.paper import theory

_FADING = 0.95
"""Of `Tiered`: the steps of a schedule are slow, and the gap is hardly less at the next."""


@dataclass(frozen=True, slots=True)
class Halving:
    """A wanted gap Phi that is all that is left, or falls at every proved "none".

    A (c, tau)-MaxIP structure is the weak separation oracle of Braun, Pokutta and
    Zink (2017) with K = 1/c: an atom of gap c Phi, or a proof that none has Phi.
    Where a lower bound is known, Phi is value - lower: every answer has at least c of
    f(w) - min f, and with the steps 2 / (c t + 2) the theorem holds as it stands; a "none" proves a
    better bound. Where none is, Phi becomes half of the gap that was proved. Neither the
    number of steps nor f(w_0) - min f need be known.

    Parameters
    ----------
    first
        Phi at the start, where no lower bound is known; default: the first query is answered by a pass.
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

    Phi is what theory asks for, and may be far less than the best gap. So the index is asked as
    `Tiered` does it, beside the atoms that were found before and a fresh random sample:
    an atom that these have will do if its gap is (1 + c) / 2 of what the index found of late. After n, 2n,
    3n, ... more atoms were scored, a pass measures the share of the best gap, which the trace
    records (`ratio`); where its mean is below c, samples grow by four, up to passes for every step, whose
    states are of kind "exact".
    An oracle that proves its answers is believed without a second pass. If every answer
    has a share c of the best gap, `theory.gap_after` bounds f(w_t) - min f.

    Parameters
    ----------
    ratio
        c, in (0, 1]: the share of the wanted gap that every answer must have, and of the best gap
        that answers are to have on average.
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
        not, the oracle is asked alone, and a "none" ends the run as NOT_FOUND, at w_t, and adds
        nothing to `lower`.
    exact
        Oracle of these passes; default ``Scan(oracle.atoms)``. An index with proof may be its own.
    cache, sample
        Atoms that are remembered, and random ones of every step, see `Tiered`. With neither
        the index is asked alone, and nothing is measured. An oracle that is `Tiered` stays as it is.
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
    cache: int = 384
    sample: int = 500
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
        for name in ("cache", "sample", "mixed"):
            count(getattr(self, name), name)

    def begin(self, objective: Objective, start: Start, rng: np.random.Generator) -> Start:
        """Begin at random weights of random atoms of the pool."""
        if self.mixed == 0:
            return best_atom(objective, start)
        return random_mixture(objective, start, rng, size=self.mixed)

    def states(
        self, objective: Objective, oracle: Oracle, start: Start, *, goal: float, rng: np.random.Generator
    ) -> Iterator[State]:
        """Yield the start, then a state per step and per "none"."""
        if self.confirm and not isinstance(oracle, Tiered):
            # On average c of the best gap: of what the index finds, which may be less, a little more.
            share = 0.5 * (1.0 + self.ratio)
            oracle = Tiered(
                oracle,
                self.exact,
                cache=self.cache,
                sample=self.sample,
                ratio=share,
                fading=_FADING,
                seed=rng,
            )
        ask = Asker(objective, oracle, start, goal=goal)
        loop = FrankWolfe(Vanilla(), OpenLoop(2.0 / self.ratio) if self.schedule is None else self.schedule)
        wanted = self._choose_gap(start, goal)
        for state in loop.walk(Separation(ask, wanted, ratio=self.ratio), start):
            fallen_back = isinstance(oracle, Tiered) and oracle.exact_only and state.kind == "forward"
            yield replace(state, kind="exact") if fallen_back else state

    def _choose_gap(self, start: Start, goal: float) -> Wanted:
        if isinstance(self.tau, Halving):
            return Halved(self.tau.first, trusted=self.confirm)
        # The number of steps is that of the default schedule, from its beginning.
        atol = goal if self.schedule is None and start.t == 0 else 0.0
        return Fixed(self.tau, self.diameter, ratio=self.ratio, atol=atol)


# ---------------------------------------------------------------- the wanted gap, and who seeks it


@final
class Halved:
    """What is left where that is known, else half of the gap that was last proved, see `Halving`.

    If "none" is confirmed, `trusted`, too large a Phi does no harm; if not, what is left counts only
    where this run has proved it. Where "none" was said, half of the gap that was proved there: what is left
    may be rounding for the most part, and would be asked for again and again.
    """

    steps = math.inf  # the driver sees the goal

    def __init__(self, first: float | None, *, trusted: bool) -> None:
        self._phi, self._guessed, self._trusted = first, first is None, trusted
        self._empty: Point | None = None

    def at(self, point: Point, ask: Asker) -> float:
        """Phi at a point."""
        left = point.upper - ask.lower
        known = left < math.inf and (self._trusted or ask.slack < math.inf)
        if known and point is not self._empty:
            return left
        if self._phi is None:
            self._phi = left
        return min(self._phi, left)

    def none(self, point: Point, proved: float) -> None:
        """Halve, as no atom has more than this gap."""
        self._phi, self._guessed, self._empty = 0.5 * max(proved, 0.0), False, point

    def guess(self, gap: float) -> bool:
        """Take a gap that some atom may have for Phi, if Phi is no more than a guess."""
        taken = self._guessed and gap > 0.0
        if taken:
            self._phi, self._guessed = gap, False
        return taken


@final
class Fixed:
    """``tau |q| R`` until a "none", or until the theorem's T steps are taken.

    The diameter is 2R, measured at the first step if None. T is that of answers with `ratio` of the gap
    and a wanted f(w_T) - min f of `atol`; 0: no T.
    """

    def __init__(self, tau: float, diameter: float | None, *, ratio: float, atol: float) -> None:
        self._tau, self._diameter = tau, diameter
        self._ratio, self._atol = ratio, atol
        self.steps = math.inf  # T, once it is known
        self._begun = False

    def at(self, point: Point, ask: Asker) -> float:
        """Phi for this gradient; at the first point, also T."""
        if self._diameter is None:
            self._diameter = diameter_bound(ask.oracle.atoms)
            ask.passes += 2.0
        if not self._begun:
            self._begun = True
            curvature, first = ask.objective.smoothness * self._diameter**2, point.upper - ask.lower
            known = self._atol > 0.0 and curvature < math.inf and first < math.inf
            wanted = {"c": self._ratio, "curvature": curvature, "first": first}
            self.steps = theory.steps(min(self._atol, 1e300), **wanted) if known else math.inf
        return self._tau * norm(point.grad) * 0.5 * self._diameter

    def none(self, point: Point, proved: float) -> Status:
        """Why the run ends where no atom has Phi: later points of a schedule need not be better."""
        return Status.FINISHED

    def guess(self, gap: float) -> bool:
        """Never: Phi is given."""
        return False


Wanted: TypeAlias = Halved | Fixed
"""The gap Phi that is wanted along one run."""


@final
class Separation:
    """A `Seeker` that wants atoms of gap c Phi, and measures the share of the best gap that they have."""

    def __init__(self, ask: Asker, wanted: Wanted, *, ratio: float) -> None:
        self.ask = ask
        self._wanted, self._ratio = wanted, ratio
        self._held: Hits | None = None
        self._end: Status | None = None
        self._shares = [ratio]  # and those of audits: the first one below it has samples grow
        self._since = ask.scored  # at the last pass

    @property
    def enough(self) -> float:
        """The goal; 0 where the theorem's steps lead on."""
        return self.ask.goal if math.isinf(self._wanted.steps) else 0.0

    def __call__(self, point: Point, *, best: bool) -> Hits | None:
        """Return an atom of gap c Phi (Case 2), or None (Case 1)."""
        held, self._held = self._held, None
        if held is not None:
            return held
        if best:
            return self.ask(point)
        phi = self._wanted.at(point, self.ask)
        hits = self._audit(point, self.ask(point, wanted=self._ratio * phi))
        found, proved = _gaps(point, hits)
        sure = is_proved_best(hits, self.ask.slack)
        if proved < phi:
            self._end = self._wanted.none(point, proved)
            # The next Phi is smaller, and this atom may have it: it is not asked for twice.
            self._held = hits if sure or found >= self._ratio * self._wanted.at(point, self.ask) else None
            return None
        if sure or found >= self._ratio * phi or self._wanted.guess(found / self._ratio):
            return hits
        self._end = Status.NOT_FOUND
        return None

    def over(self, t: int) -> Status | None:
        """Why the run ends: as was found, or finished after T of the theorem. None: it goes on."""
        return Status.FINISHED if self._end is None and t >= self._wanted.steps else self._end

    def _audit(self, point: Point, hits: Hits) -> Hits:
        """Make a pass where enough was scored since the last one: audits cost no more than the run."""
        tiers, scored = self.ask.oracle, self.ask.scored
        if not (isinstance(tiers, Tiered) and tiers.sample):
            return hits
        if not is_proved_best(hits, self.ask.slack):
            if scored - self._since < len(self._shares) * tiers.atoms.shape[0]:
                return hits
            found, hits = _gaps(point, hits)[0], self.ask(point)
            best = _gaps(point, hits)[1]
            self.ask.ratio = found / best if best > 0.0 else 1.0
            self._shares.append(self.ask.ratio)
            if np.mean(self._shares) < self._ratio:
                tiers.widen()
        self._since = self.ask.scored
        return hits


def _gaps(point: Point, hits: Hits) -> tuple[float, float]:
    """Gap of the atom that was found, and proved bound on the gap of any."""
    here = -float(point.grad @ point.x)
    return float(hits.scores[0, 0]) - here, float(hits.bounds[0]) - here
