"""Weak separation: an atom of gap at least c Phi, or a proof that none has Phi.

What a step of `SublinearFrankWolfe` asks for. Knows no step sizes and no loop.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from typing import TypeAlias, final

from wolfhound import theory
from wolfhound.atoms import diameter_bound
from wolfhound.core import Atoms, Hits, Ids, Matrix, Oracle, Point, Status, Vector
from wolfhound.methods._ask import Asker
from wolfhound.methods.frank_wolfe import is_proved_best
from wolfhound.oracles.wrappers import check_exact
from wolfhound.rounding import norm


@final
class Halved:
    """Half of the gap that was last proved, see `Halving`.

    It begins with `first`, or with what is left at the start, a guess. If "none" is confirmed, `trusted`, too
    large a Phi does no harm; if not, half of what is left counts only where this run has proved it.
    """

    def __init__(self, first: float | None, *, trusted: bool) -> None:
        self._phi = first
        self._guessed = first is None
        self._trusted = trusted

    @property
    def steps(self) -> float:
        """Inf: the driver sees the goal."""
        return math.inf

    def at(self, point: Point, ask: Asker) -> float:
        """Phi at a point: between half and all of what is left, where that is known."""
        left = point.upper - ask.lower
        if self._phi is None:
            self._phi = left
        known = left < math.inf and (self._trusted or ask.slack < math.inf)
        return min(max(self._phi, 0.5 * left if known else 0.0), left)

    def none(self, proved: float) -> None:
        """Halve, as no atom has more than this gap."""
        self._phi, self._guessed = 0.5 * max(proved, 0.0), False

    def guess(self, gap: float) -> bool:
        """Take a gap that some atom may have for Phi, if Phi is no more than a guess."""
        taken = self._guessed and gap > 0.0
        if taken:
            self._phi, self._guessed = gap, False
        return taken

    def over(self, t: int) -> None:
        """Never: the driver sees the goal."""
        return


@final
class Fixed:
    """``tau |q| R`` until a "none", or until the theorem's T steps are taken.

    The diameter is 2R, measured at the first step if None. T is that of answers with `ratio` of the gap
    and a wanted f(w_T) - min f of `atol`; 0: no T.
    """

    def __init__(self, tau: float, diameter: float | None, *, ratio: float, atol: float) -> None:
        self._tau = tau
        self._diameter = diameter
        self._ratio = ratio
        self._atol = atol
        self._steps: float | None = None

    @property
    def steps(self) -> float:
        """T, inf before it is known."""
        return math.inf if self._steps is None else self._steps

    def at(self, point: Point, ask: Asker) -> float:
        """Phi for this gradient; at the first point, also T."""
        if self._diameter is None:
            self._diameter = diameter_bound(ask.oracle.atoms)
            ask.passes += 2.0
        if self._steps is None:
            curvature = ask.objective.smoothness * self._diameter**2
            self._steps = self._count_steps(curvature, point.upper - ask.lower)
        return self._tau * norm(point.grad) * 0.5 * self._diameter

    def none(self, proved: float) -> Status:
        """Why the run ends where no atom has Phi: later points of a schedule need not be better."""
        return Status.FINISHED

    def guess(self, gap: float) -> bool:
        """Never: Phi is given."""
        return False

    def over(self, t: int) -> Status | None:
        """Why the run ends, with t steps taken: finished after T. None: it goes on."""
        return Status.FINISHED if t >= self.steps else None

    def _count_steps(self, curvature: float, first: float) -> float:
        """T, inf if something that it depends on is unknown."""
        if not (self._atol > 0.0 and curvature < math.inf and first < math.inf):
            return math.inf
        return theory.steps(min(self._atol, 1e300), c=self._ratio, curvature=curvature, first=first)


Wanted: TypeAlias = Halved | Fixed
"""The gap Phi that is wanted along one run."""


@final
class Separation:
    """A `Seeker` that wants atoms of gap c Phi.

    With `confirm` it makes a pass where too little is found and nothing proved: its oracle is `Confirmed`.
    """

    def __init__(self, ask: Asker, wanted: Wanted, *, ratio: float, confirm: bool) -> None:
        self.ask = ask
        self._wanted = wanted
        self._ratio = ratio
        self._confirm = confirm
        self._held: Hits | None = None
        self._end: Status | None = None

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
        hits = self._answer(point, self._ratio * phi)
        found, proved = _gaps(point, hits)
        sure = is_proved_best(hits, self.ask.slack)
        if proved < phi:
            self._end = self._wanted.none(proved)
            # The next Phi is smaller, and this atom may have it: it is not asked for twice.
            self._held = hits if sure or found >= self._ratio * self._wanted.at(point, self.ask) else None
            return None
        if sure or found >= self._ratio * phi or self._wanted.guess(found / self._ratio):
            return hits
        self._end = Status.NOT_FOUND
        return None

    def over(self, t: int) -> Status | None:
        """Why the run ends, with t steps taken; None: it goes on."""
        return self._wanted.over(t) if self._end is None else self._end

    def _answer(self, point: Point, wanted: float) -> Hits:
        """Ask the oracle; where it finds too little and proves nothing, make a pass."""
        hits = self.ask(point, wanted=wanted)
        if not self._confirm or _gaps(point, hits)[0] >= wanted or is_proved_best(hits, self.ask.slack):
            return hits
        audited = self.ask.ratio
        hits = self.ask(point)
        if not math.isnan(audited):
            self.ask.ratio = audited  # an audit is about the index
        return hits


def _gaps(point: Point, hits: Hits) -> tuple[float, float]:
    """Gap of the atom that was found, and proved bound on the gap of any."""
    here = -float(point.grad @ point.x)
    return float(hits.scores[0, 0]) - here, float(hits.bounds[0]) - here


@final
class Confirmed:
    """Answers with thresholds by an index, without them by an exact oracle."""

    def __init__(self, index: Oracle, exact: Oracle | None) -> None:
        self._index = index
        self._exact = check_exact(exact, index.atoms)

    @property
    def atoms(self) -> Atoms:
        """The atoms that are searched."""
        return self._index.atoms

    def query(
        self, queries: Matrix, *, k: int = 1, thresholds: Vector | None = None, exclude: Ids | None = None
    ) -> Hits:
        """Answer m queries, see `Oracle.query`."""
        oracle = self._exact if thresholds is None else self._index
        return oracle.query(queries, k=k, thresholds=thresholds, exclude=exclude)
