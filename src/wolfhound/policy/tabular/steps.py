"""How far each state goes towards its atom: the paper's step, and better ones.

A rule sees one `PolicyMove` and answers (S,) step sizes in [0, 1]. What it promises in
return, a least increase of J, is its own method, so that it can be tested.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from wolfhound.core import Matrix, Vector
from wolfhound.policy.tabular.acmdp import ACMDP, Evaluation
from wolfhound.policy.tabular.theory import scales
from wolfhound.validate import as_floats, number, require

_TRIALS = 80  # doublings after which backtracking takes what it has


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PolicyMove:
    """Where a policy can go: towards one atom per state."""

    here: Evaluation
    atoms: Vector  # (S, d)
    delta: Vector  # (S, d) the atom minus the action
    gaps: Vector  # (S,) ghat, <grad_a Q, delta>
    squares: Vector  # (S,) |delta|^2

    @classmethod
    def towards(cls, here: Evaluation, atoms: Matrix) -> PolicyMove:
        """Make the move to (S, d) atoms."""
        rows = as_floats(atoms, "atoms")
        delta = rows - here.policy
        gaps = np.einsum("ij,ij->i", here.gradients, delta)
        squares = np.einsum("ij,ij->i", delta, delta)
        return cls(here=here, atoms=rows, delta=delta, gaps=gaps, squares=squares)

    def after(self, alphas: Vector) -> Vector:
        """(S, d) the policy after these steps."""
        moved = self.here.policy + alphas[:, None] * self.delta
        return np.where(alphas[:, None] == 1.0, self.atoms, moved)


class PolicyStep(Protocol):
    """Chooses step sizes. What it remembers is one number, its estimate."""

    def __call__(self, acmdp: ACMDP, move: PolicyMove, estimate: float) -> tuple[Vector, float]:
        """Return ((S,) step sizes in [0, 1], new estimate); the first estimate is 0."""

    def promise(self, acmdp: ACMDP, move: PolicyMove, estimate: float) -> float:
        """What J gains at least by this rule's step; estimate as before the call."""


def short(gaps: Vector, curvature: Vector) -> Vector:
    """``min(1, gap / curvature)``; 0 without a gap, 1 without curvature.

    Examples
    --------
    >>> short(np.array([-1.0, 1.0, 1.0]), np.array([1.0, 0.0, 4.0]))
    array([0.  , 1.  , 0.25])
    """
    gains = gaps > 0.0
    whole = gains & (gaps >= curvature)
    part = gains & ~whole
    return np.where(whole, 1.0, np.where(part, gaps / np.where(part, curvature, 1.0), 0.0))


@dataclass(frozen=True, slots=True)
class PerState:
    """``min(1, ghat / (L_a |delta|^2))``, with L_a the smoothness of Q in the action.

    The default. 0 where ghat <= 0, and 1 where L_a = 0: then it is policy iteration. By
    the performance-difference lemma J gains at least ``1/2 sum_s mu(s) alpha(s) ghat(s)``,
    whatever the other states do.

    Examples
    --------
    >>> from wolfhound.policy.tabular.acmdp import random_acmdp
    >>> acmdp = random_acmdp(3, 20, 4)
    >>> here = acmdp.evaluate(acmdp.atoms_of([0, 1, 2]))
    >>> move = PolicyMove.towards(here, acmdp.atoms_of([3, 4, 5]))
    >>> alphas, _ = PerState()(acmdp, move, 0.0)
    >>> bool((alphas == (move.gaps > 0)).all())
    True
    """

    def __call__(self, acmdp: ACMDP, move: PolicyMove, estimate: float) -> tuple[Vector, float]:
        """Return the step sizes."""
        smoothness = move.here.smoothness
        rule = "of known smoothness, or use Backtracking()"
        require(smoothness < math.inf, "acmdp", rule, f"{acmdp!r}")
        return short(move.gaps, smoothness * move.squares), estimate

    def promise(self, acmdp: ACMDP, move: PolicyMove, estimate: float) -> float:
        """``1/2 sum_s mu alpha ghat``."""
        alphas, _ = self(acmdp, move, estimate)
        return 0.5 * float(acmdp.start @ (alphas * move.gaps))


@dataclass(frozen=True, slots=True)
class Visitation:
    """``min(1, d(s) ghat / (L |delta|^2))``, with d(s) = sum_t gamma^t Pr(s_t = s).

    The paper's step, corrected: d(s) ghat is the slope of J, and clipping is part of
    the proof. J gains at least ``1/2 sum_s d(s) alpha(s) ghat(s)``. As L grows like
    2 / (1 - gamma)^3 it is slow.

    Parameters
    ----------
    smoothness
        L, of J in the whole policy; default: the bound of `scales`.
    """

    smoothness: float | None = None

    def __post_init__(self) -> None:
        if self.smoothness is not None:
            number(self.smoothness, "smoothness", low=0.0, strict=True)

    def __call__(self, acmdp: ACMDP, move: PolicyMove, estimate: float) -> tuple[Vector, float]:
        """Return the step sizes, and L."""
        smoothness = estimate or self.smoothness or _find_smoothness(acmdp)
        slopes = acmdp.occupancy(move.here) * move.gaps
        return short(slopes, smoothness * move.squares), smoothness

    def promise(self, acmdp: ACMDP, move: PolicyMove, estimate: float) -> float:
        """``1/2 sum_s d alpha ghat``."""
        alphas, _ = self(acmdp, move, estimate)
        return 0.5 * float(acmdp.occupancy(move.here) @ (alphas * move.gaps))


@dataclass(frozen=True, slots=True)
class PaperStep:
    """``min(1, (1 - gamma) mu_min ghat / (L D^2))``, as printed but clipped at 1.

    For comparison only: after 2,000 steps more than nine tenths of the distance to the optimum are
    left (`benchmarks/claim_policy_tabular.py`).

    Parameters
    ----------
    smoothness
        L, of J in the whole policy; default: the bound of `scales`.
    diameter
        D of the actions; default: `diameter_bound`.
    """

    smoothness: float | None = None
    diameter: float | None = None

    def __post_init__(self) -> None:
        for name in ("smoothness", "diameter"):
            if getattr(self, name) is not None:
                number(getattr(self, name), name, low=0.0, strict=True)

    def __call__(self, acmdp: ACMDP, move: PolicyMove, estimate: float) -> tuple[Vector, float]:
        """Return the step sizes, and L D^2."""
        scale = estimate or self._scale(acmdp)
        least = float(acmdp.start.min())
        require(least > 0.0, "start", "positive in every state, for PaperStep", f"least {least:g}")
        return short((1.0 - acmdp.gamma) * least * move.gaps, np.full(len(move.gaps), scale)), scale

    def promise(self, acmdp: ACMDP, move: PolicyMove, estimate: float) -> float:
        """``sum_s d alpha ghat - L/2 sum_s alpha^2 |delta|^2``, for any steps."""
        alphas, scale = self(acmdp, move, estimate)
        diameter = self.diameter or scales(acmdp).diameter
        first = float(acmdp.occupancy(move.here) @ (alphas * move.gaps))
        return first - 0.5 * scale / diameter**2 * float(alphas**2 @ move.squares)

    def _scale(self, acmdp: ACMDP) -> float:
        smoothness = self.smoothness or _find_smoothness(acmdp)
        return smoothness * (self.diameter or scales(acmdp).diameter) ** 2


@dataclass(frozen=True, slots=True)
class Backtracking:
    """``min(1, ghat / (L_k |delta|^2))`` with L_k found by trying, on J itself.

    L_k is halved at every step, then doubled until J gains at least
    ``share * sum_s d(s) alpha(s) ghat(s)``, or until `PerState`'s own condition holds. Needs no
    smoothness, and evaluates about two policies per step.

    Parameters
    ----------
    share
        Of the slope of J that a step must keep, in (0, 1/2].
    """

    share: float = 0.5

    def __post_init__(self) -> None:
        require(0.0 < number(self.share, "share") <= 0.5, "share", "in (0, 1/2]", self.share)

    def __call__(self, acmdp: ACMDP, move: PolicyMove, estimate: float) -> tuple[Vector, float]:
        """Return the step sizes, and L_k."""
        here = move.here
        smoothness = 0.5 * estimate or _guess(move)
        slopes = acmdp.occupancy(here) * move.gaps
        for _ in range(_TRIALS):
            alphas = short(move.gaps, smoothness * move.squares)
            if smoothness >= here.smoothness or not alphas.any():
                break
            after = acmdp.evaluate(move.after(alphas))
            if after.score + after.error >= here.score + self.share * float(alphas @ slopes):
                break
            smoothness *= 2.0
        return alphas, smoothness

    def promise(self, acmdp: ACMDP, move: PolicyMove, estimate: float) -> float:
        """The least of what ends the search: ``sum_s min(1/2 mu, share d) alpha ghat``."""
        alphas, _ = self(acmdp, move, estimate)
        chance = np.minimum(0.5 * acmdp.start, self.share * acmdp.occupancy(move.here))
        return float(chance @ (alphas * move.gaps))


def _guess(move: PolicyMove) -> float:
    """A first L_k: half of the states would take whole steps."""
    gains = (move.gaps > 0.0) & (move.squares > 0.0)
    return float(np.median(move.gaps[gains] / move.squares[gains])) if gains.any() else 1.0


def _find_smoothness(acmdp: ACMDP) -> float:
    smoothness = scales(acmdp).policy_smoothness
    require(0.0 < smoothness < math.inf, "smoothness", "given, as it is not known", f"{smoothness:g}")
    return smoothness
