"""Frank-Wolfe: one loop for all directions, step sizes, and the lazy variant.

Stopping, timing and printing are the driver's; asking and proving the asker's.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from wolfhound.active import ALL, ActiveSet, Move
from wolfhound.core import Objective, Oracle, Point, Start, State, StepSize, Vector
from wolfhound.methods._ask import Asker
from wolfhound.methods._begin import best_atom
from wolfhound.methods.directions import Direction, Vanilla
from wolfhound.methods.steps import LineSearch
from wolfhound.validate import count, require


@dataclass(frozen=True, slots=True)
class FrankWolfe:
    """Moves along atoms that the oracle finds: few atoms, no projections.

    Parameters
    ----------
    direction
        `Vanilla`, `Away`, `Pairwise` or `BlendedPairwise`.
    step
        `LineSearch`, `ShortStep`, `Adaptive` or `OpenLoop`.
    lazy
        Take a move inside the active set, without a query, whenever its gap is
        at least half of what is left, ``(value - lower) / 2``. Saves most
        queries when a lower bound is known.
    patience
        Steps in a row that may fail to move (or, with atoms not proved to be
        the best, to change f by more than its rounding) before the run ends;
        one is enough where the oracle proves that nothing is better.

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

    def begin(self, objective: Objective, start: Start, rng: np.random.Generator) -> Start:
        """Begin at the best atom of the pool."""
        return best_atom(objective, start)

    def states(
        self, objective: Objective, oracle: Oracle, start: Start, *, goal: float, rng: np.random.Generator
    ) -> Iterator[State]:
        """Yield the start, then a state per step, null steps included."""
        ask = Asker(objective, oracle, start.exclude)
        active = ActiveSet(start.ids, start.weights, start.rows.reshape(-1, oracle.atoms.shape[1]))
        point = _evaluate(objective, active, start.t)
        # The origin need not lie in the hull: there f bounds nothing.
        first = point if len(active) else replace(point, value_error=math.inf)
        yield ask.state(start.t, first, active.ids, active.weights, kind="start")
        memory, nulls, still = self.step.init(), 0, 0
        for t in itertools.count(start.t):
            move, hit, proved = None, -1, False
            tired = nulls > 0 or still >= self.patience
            if self.lazy and not tired and len(active):
                move = self._inside(active, point, ask.lower)
            asked = move is None
            if move is None:
                if active.age:
                    active.refresh()
                    point = _evaluate(objective, active, t)
                move, hit, proved = self._ask(ask, active, point, best=tired)
            s, memory = self._length(objective, active, point, move=move, t=t, memory=memory)
            nulls = 0 if s > 0.0 else nulls + 1
            if s > 0.0:
                before = point.value
                active.step(move, s, fresh=asked)
                point = _evaluate(objective, active, t + 1)
                flat = abs(point.value - before) <= point.value_error
                still = still + 1 if flat and not proved else 0
            else:
                active.drop()
            kind = move.kind if s > 0.0 else "null"
            yield ask.state(t + 1, point, active.ids, active.weights, kind=kind, hit=hit)
            if nulls >= self.patience or still > self.patience or (nulls and proved):
                return

    def _inside(self, active: ActiveSet, point: Point, lower: float) -> Move | None:
        """Return a move without a query, if one is good enough."""
        wanted = _wanted(point, lower)
        if wanted is None or point.value - lower <= point.value_error:
            return None  # nothing to compare with, or only rounding is left: let the oracle prove it
        move = self.direction.inside(*_scores(active, point))
        return move if move.gap >= wanted else None

    def _ask(self, ask: Asker, active: ActiveSet, point: Point, *, best: bool) -> tuple[Move, int, bool]:
        """Query; return the move, the atom that was hit, whether it is proved best.

        Where steps lead nowhere only the best will do: an atom that is good
        enough would be answered, and lead nowhere, again and again.
        """
        hits = ask(point, wanted=_wanted(point, ask.lower) if len(active) and not best else None)
        hit, score, bound = int(hits.ids[0, 0]), float(hits.scores[0, 0]), float(hits.bounds[0])
        if math.isfinite(bound) and len(active) and point.upper - ask.lower <= 2.0 * ask.slack:
            return Move(0.0), hit, True  # all that is left is rounding
        # A bound may also come from an audit, with an atom that is not the best.
        proved = math.isfinite(bound) and bound - score <= ask.slack
        scores, here = _scores(active, point)
        if hit < 0:
            return self.direction.inside(scores, here) if len(active) else Move(0.0), hit, proved
        position = active.add(hit, hits.rows[hits.slots[0, 0]])
        if len(scores) == 0:
            return Move(score - here, up=position), hit, proved
        return self.direction.choose(scores, here, position, score), hit, proved

    def _length(
        self, objective: Objective, active: ActiveSet, point: Point, *, move: Move, t: int, memory: float
    ) -> tuple[float, float]:
        """Return the step along a move, 0 if it leads nowhere, and the new memory."""
        if not active.weights.any():
            return (0.0 if move.up == ALL else 1.0), memory  # from the origin straight into the hull
        end = active.end(move)
        if not (move.gap > 0.0 and end > 0.0):
            return 0.0, memory
        s, memory = self.step(objective.line(point, active.direction(move)), end, t, memory)
        require(0.0 <= s <= end, "step", f"a rule that answers in [0, {end:g}]", s)
        return s, memory


def _scores(active: ActiveSet, point: Point) -> tuple[Vector, float]:
    """Scores of the active atoms and of x: a query's score is <-grad, s>."""
    return -(active.rows @ point.grad), -float(point.grad @ point.x)


def _wanted(point: Point, lower: float) -> float | None:
    """Gap that is good enough: half of what is left; None if that is unknown."""
    return 0.5 * (point.upper - lower) if lower > -math.inf else None


def _evaluate(objective: Objective, active: ActiveSet, t: int) -> Point:
    point = objective.at(active.x, active.drift)
    if not (math.isfinite(point.value) and np.isfinite(point.grad).all()):
        raise FloatingPointError(f"f or its gradient is not finite at step {t}. Got f = {point.value}.")
    return point
