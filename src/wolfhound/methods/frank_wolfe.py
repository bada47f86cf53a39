"""Frank-Wolfe: one loop for all directions, step sizes, and ways to ask.

Stopping, timing and printing are the driver's; asking and proving the asker's.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np

from wolfhound.core.contracts import Hits, Objective, Oracle, Point, Start, State, Status, StepSize, Vector
from wolfhound.core.validate import count, flag, kind, require
from wolfhound.methods.asking import Asker, best_atom, is_finite, noise
from wolfhound.methods.atom_sets import ALL, ActiveSet, Move
from wolfhound.methods.directions import Direction, Vanilla
from wolfhound.methods.steps import LineSearch, step_back

PROVED = 100  # so much more patience where steps are proved to be the best: the gap may fall where f cannot
GAINED = 0.99  # the gap has fallen if it is below this share of the least so far


class Seeker(Protocol):
    """Finds the atom of a step: which gap is wanted, and what if none has it.

    One for every run: it may remember.
    """

    @property
    def ask(self) -> Asker:
        """Through which all queries of the run go."""

    @property
    def enough(self) -> float:
        """Gaps up to this lead nowhere, unless they are proved to be the best."""

    def __call__(self, point: Point, *, best: bool) -> Hits | None:
        """Return an atom to step to (`best`: only the best will do); None: none is good enough.

        After a None it is asked again for the same point.
        """

    def over(self, t: int) -> Status | None:
        """Why the run ends, with t steps taken; None: it goes on."""


@dataclass(frozen=True, slots=True)
class FrankWolfe:
    """Moves along atoms that the oracle finds: few atoms, no projections.

    `FrankWolfe(Vanilla(), OpenLoop(2))` with an exact oracle is the classical
    method; with an index and a promise on its answers, see
    `SublinearFrankWolfe`.

    Parameters
    ----------
    direction
        `Vanilla`, `Away`, `Pairwise` or `BlendedPairwise`.
    step
        `LineSearch`, `ShortStep`, `Adaptive`, `OpenLoop` or `Clipped`.
    lazy
        Take a move inside the active set, without a query, whenever its gap is
        at least half of what is left, ``(value - lower) / 2``. Saves most
        queries when a lower bound is known.
    patience
        Steps in a row that may fail to move, to change f by more than its rounding
        or, with atoms not proved to be the best, to promise more than the goal, before
        the run ends. One without a move is enough where the oracle proves that nothing
        is better; 100 times as many may leave f as it is where the gap is proved.

    Examples
    --------
    >>> FrankWolfe(lazy=True).patience
    10
    """

    direction: Direction = field(default_factory=Vanilla)
    step: StepSize = field(default_factory=LineSearch)
    lazy: bool = field(default=False, kw_only=True)
    patience: int = field(default=10, kw_only=True)

    def __post_init__(self) -> None:
        count(self.patience, "patience", low=1)
        flag(self.lazy, "lazy")
        kind(self.direction, "direction", "a direction such as Away()", "inside", "choose")
        kind(self.step, "step", "a step size such as LineSearch()", "begin", "__call__")

    def begin(self, objective: Objective, start: Start, rng: np.random.Generator) -> Start:
        """Begin at the best atom of the pool."""
        return best_atom(objective, start)

    def states(
        self, objective: Objective, oracle: Oracle, start: Start, *, goal: float, rng: np.random.Generator
    ) -> Iterator[State]:
        """Yield the start, then a state per step, null steps included."""
        ask = Asker(objective, oracle, start, goal=goal)
        return self.walk(_HalfOfWhatIsLeft(ask), start)

    def walk(self, seek: Seeker, start: Start) -> Iterator[State]:
        """Yield the states of a run to the atoms that `seek` finds.

        Where it finds none, a state of kind "none" shows the same point again
        with what was proved on the way.
        """
        ask, objective = seek.ask, seek.ask.objective
        active = ActiveSet(start.ids, start.weights, start.rows.reshape(-1, ask.oracle.atoms.shape[1]))
        point = _start(objective, active)
        # The origin need not lie in the hull: there f bounds nothing.
        first = point if len(active) else replace(point, value_error=math.inf)
        estimate = self.step.begin() if start.estimate is None else start.estimate
        show, tries = functools.partial(_state, ask, active), _Tries(self.patience)
        yield show(start.t, first, estimate, kind="start")
        for t in itertools.count(start.t):
            move, hit, proved = None, -1, False
            if self.lazy and not tries.tired and len(active):
                move = self._inside(active, point, ask.expect(point))
            asked = move is None
            if move is None:
                if active.age:
                    active.refresh()
                    point = objective.at(active.x, active.drift)
                # Where steps lead nowhere only the best will do: an atom that is good enough would
                # be answered, and lead nowhere, again and again.
                while (hits := seek(point, best=tries.tired or not len(active))) is None:
                    end = seek.over(t)
                    yield show(t, point, estimate, kind="none", end=end)
                    if end is not None:
                        return
                move, hit, proved = self._towards(hits, ask, active, point)
            s, estimate = self._length(objective, active, point, move=move, t=t, estimate=estimate)
            tries.nulls = 0 if s > 0.0 else tries.nulls + 1
            if s > 0.0:
                active.step(move, s, fresh=asked)
                point = objective.at(active.x, active.drift)
                if not is_finite(point):
                    return  # the step was inside: only rounding is between x and the edge
                tries.note(point, point.upper - ask.lower, proved or move.gap > seek.enough)
            else:
                active.drop()
            kind, end = move.kind if s > 0.0 else "null", seek.over(t + 1)
            yield show(t + 1, point, estimate, kind=kind, hit=hit, end=end)
            if end is not None or tries.over(proved, objective.convex):
                return

    def _inside(self, active: ActiveSet, point: Point, lower: float) -> Move | None:
        """Return a move without a query, if one is good enough."""
        wanted = _half_left(point, lower)
        if wanted is None or point.value - lower <= point.value_error:
            return None  # nothing to compare with, or only rounding is left: let the oracle prove it
        move = self.direction.inside(*_scores(active, point))
        return move if move.gap >= wanted else None

    def _towards(self, hits: Hits, ask: Asker, active: ActiveSet, point: Point) -> tuple[Move, int, bool]:
        """Return the move, the atom that was hit, whether it is proved best."""
        hit, score, bound = int(hits.ids[0, 0]), float(hits.scores[0, 0]), float(hits.bounds[0])
        # At a worse point than before, near the edge of a domain, rounding may be large: go on from there.
        best = math.isfinite(bound) and point.upper - ask.upper <= 2.0 * noise(point)
        rounding = best and point.upper - ask.lower <= 2.0 * ask.slack < math.inf
        if len(active) and (rounding or ask.stationary(point)):
            return Move(0.0), hit, True  # nothing is left but rounding
        proved = is_proved_best(hits, ask.slack)
        scores, here = _scores(active, point)
        if hit < 0:
            return self.direction.inside(scores, here) if len(active) else Move(0.0), hit, proved
        position = active.add(hit, hits.rows[hits.slots[0, 0]])
        if len(scores) == 0:
            return Move(score - here, up=position), hit, proved
        return self.direction.choose(scores, here, position, score), hit, proved

    def _length(
        self, objective: Objective, active: ActiveSet, point: Point, *, move: Move, t: int, estimate: float
    ) -> tuple[float, float]:
        """Return the step along a move, 0 if it leads nowhere, and the new estimate."""
        if not active.weights.any():
            return (0.0 if move.up == ALL else 1.0), estimate  # from the origin straight into the hull
        end = active.end(move)
        if not (move.gap > 0.0 and end > 0.0):
            return 0.0, estimate
        line = objective.line(point, active.direction(move))
        s, estimate = self.step(line, end, t, estimate)
        if not 0.0 <= s <= end:
            require(False, "step", f"a rule that answers in [0, {end:g}]", s)
        return step_back(line, s), estimate


def _state(ask: Asker, active: ActiveSet, t: int, point: Point, estimate: float, **more: Any) -> State:
    """As `Asker.state`, at the weights of the active set."""
    return ask.state(t, point, active.ids, active.weights, estimate=estimate, **more)


@dataclass(slots=True)
class _Tries:
    """Steps in a row that led nowhere: without a move, or without a gain."""

    patience: int
    nulls: int = 0
    still: int = 0
    least: float = math.inf
    mark: float = math.inf

    @property
    def tired(self) -> bool:
        """Whether only the best atom will do."""
        return self.nulls > 0 or self.still >= self.patience

    def note(self, point: Point, gap: float, worthy: bool) -> None:
        """Note a step: where it led, the gap there, and whether it promised enough."""
        moved = abs(point.value - self.mark) > noise(point)
        if moved:
            self.mark = point.value
        self.still = 0 if (moved and worthy) or gap < GAINED * self.least else self.still + 1
        self.least = min(self.least, gap)

    def over(self, proved: bool, convex: bool) -> bool:
        """Whether enough was tried."""
        patience = self.patience * (PROVED if proved and convex else 1)
        return self.nulls >= (1 if proved else self.patience) or self.still > patience


@dataclass(frozen=True, slots=True)
class _HalfOfWhatIsLeft:
    """Any atom will do that has half of the gap left; whatever is found is used."""

    ask: Asker

    @property
    def enough(self) -> float:
        """The goal."""
        return self.ask.goal

    def __call__(self, point: Point, *, best: bool) -> Hits:
        """Ask once."""
        return self.ask(point, wanted=None if best else _half_left(point, self.ask.lower))

    def over(self, t: int) -> None:
        """Never."""
        return


def is_proved_best(hits: Hits, slack: float) -> bool:
    """Whether no atom is better than the first hit, up to rounding.

    A finite bound alone does not say so: it may come from an audit.
    """
    return math.isfinite(hits.bounds[0]) and bool(hits.bounds[0] - hits.scores[0, 0] <= slack < math.inf)


def _scores(active: ActiveSet, point: Point) -> tuple[Vector, float]:
    """Scores of the active atoms and of x: a query's score is <-grad, s>."""
    return -(active.rows @ point.grad), -float(point.grad @ point.x)


def _half_left(point: Point, lower: float) -> float | None:
    """Gap that is good enough: half of what is left; None if that is unknown."""
    return 0.5 * (point.upper - lower) if lower > -math.inf else None


def _start(objective: Objective, active: ActiveSet) -> Point:
    point = objective.at(active.x, active.drift)
    if not is_finite(point):
        raise FloatingPointError(f"f must be finite at the start, like its gradient. Got f = {point.value}.")
    return point
