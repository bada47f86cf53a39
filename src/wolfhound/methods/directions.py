"""Directions: which way Frank-Wolfe moves, given scores. Four small rules.

They see the scores <-grad, s_i> of the active atoms, the score of x itself and
that of the oracle's hit; they know no objective, no step size and no oracle.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from wolfhound.core.contracts import Vector
from wolfhound.methods.atom_sets import Move


class Direction(Protocol):
    """Chooses a move from scores; positions are those of the active set."""

    def inside(self, scores: Vector, here: float) -> Move:
        """Return the best move among the k >= 1 active atoms, of (k,) scores, where that of x is `here`."""

    def choose(self, scores: Vector, here: float, hit: int, score: float) -> Move:
        """Return the move to make once the oracle has answered an atom: `hit` is k if it is new."""


class _Towards:
    """A rule that moves among the active atoms as if the best of them were the hit."""

    __slots__ = ()

    def inside(self: Direction, scores: Vector, here: float) -> Move:
        """Choose as for a hit at the best active atom."""
        best = int(scores.argmax())
        return self.choose(scores, here, best, float(scores[best]))


@dataclass(frozen=True, slots=True)
class Vanilla(_Towards):
    """Towards the hit, x + s (hit - x): Frank and Wolfe 1956.

    Converges like 1/t when the solution lies on a face of the hull.
    """

    def choose(self, scores: Vector, here: float, hit: int, score: float) -> Move:
        """Move towards the hit."""
        return Move(score - here, up=hit)


@dataclass(frozen=True, slots=True)
class Away(_Towards):
    """Towards the hit or away from the worst active atom, whichever falls faster.

    Linear convergence on polytopes (Guelat and Marcotte 1986; Lacoste-Julien
    and Jaggi 2015).
    """

    def choose(self, scores: Vector, here: float, hit: int, score: float) -> Move:
        """Towards the hit or away from the worst active atom."""
        worst = int(scores.argmin())
        away = here - float(scores[worst])
        return Move(score - here, up=hit) if score - here >= away else Move(away, down=worst)


@dataclass(frozen=True, slots=True)
class Pairwise(_Towards):
    """From the worst active atom straight to the hit.

    Linear convergence on polytopes (Lacoste-Julien and Jaggi 2015), but a run
    may spend many steps swapping one atom for another.
    """

    def choose(self, scores: Vector, here: float, hit: int, score: float) -> Move:
        """From the worst active atom to the hit."""
        worst = int(scores.argmin())
        return Move(score - float(scores[worst]), up=hit, down=worst)


@dataclass(frozen=True, slots=True)
class BlendedPairwise:
    """From the worst to the best active atom, or towards the hit if that is better.

    No swap steps, and a sparse active set (Tsuji, Tanaka and Pokutta 2022).
    """

    def inside(self, scores: Vector, here: float) -> Move:
        """From the worst to the best active atom."""
        return Pairwise().inside(scores, here)

    def choose(self, scores: Vector, here: float, hit: int, score: float) -> Move:
        """Stay inside the active set unless the hit promises more."""
        local = self.inside(scores, here)
        return local if local.gap >= score - here else Move(score - here, up=hit)
