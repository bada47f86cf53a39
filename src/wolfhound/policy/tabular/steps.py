"""How far each state goes towards its atom, and how large and curved a problem can be.

A rule sees one `PolicyMove` and answers (S,) step sizes in [0, 1]. What it promises in
return, a least increase of J, is its own method, so that it can be tested. The constants of
the theorems, which some steps need, come first.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol

import numpy as np

from wolfhound.core.contracts import Matrix, Vector
from wolfhound.core.validate import as_floats, count, kind, number, require, within
from wolfhound.data.atoms import diameter_bound, norms
from wolfhound.paper import theory
from wolfhound.policy.tabular.acmdp import ACMDP, Evaluation

_SAMPLE = 256  # atoms whose mean is taken as the middle of the hull

_WIDTH = 2.0  # D_X: queries of norm 1 lie in [-1, 1]^d


@dataclass(frozen=True, slots=True, kw_only=True)
class Scales:
    """Bounds that hold for every policy; inf where a model does not know its slope."""

    diameter: float  # D of the actions
    span: float  # max V - min V, so at least J* - J
    slope: float  # of |grad_a Q|
    action_smoothness: float  # L_a of grad_a Q(s, a) in a, L_r + gamma L_P span / 2
    # L of the gradient of J in the whole policy. With k the slopes of r and P, v half the span and
    # h = 1 / (1 - gamma): 2 gamma h^2 k_P (k_r + gamma k_P v) + h L_a, of order h^3.
    policy_smoothness: float


def scales(acmdp: ACMDP) -> Scales:
    """Bound diameter, values, slopes and curvatures; three passes over the atoms.

    Examples
    --------
    >>> from wolfhound.policy.tabular.acmdp import random_acmdp
    >>> near, far = (scales(random_acmdp(10, 50, 4, gamma=g)).policy_smoothness for g in (0.9, 0.99))
    >>> 500.0 < far / near < 2000.0
    True
    """
    kind(acmdp, "acmdp", "an ACMDP", ACMDP)
    atoms, g = acmdp.actions.atoms, acmdp.gamma
    h = 1.0 / (1.0 - g)
    diameter = diameter_bound(atoms)
    k_r, k_p = acmdp.reward.slope(float(norms(atoms).max())), acmdp.transition.slope
    if not (math.isfinite(k_r) and math.isfinite(k_p)):
        names = ("span", "slope", "action_smoothness", "policy_smoothness")
        return Scales(diameter=diameter, **dict.fromkeys(names, math.inf))
    # From the middle of the hull, the reward of a state changes by at most slope times diameter.
    ids = np.unique(np.linspace(0, acmdp.actions.n - 1, _SAMPLE).astype(np.int64))
    middle = atoms.take(ids).mean(axis=0, dtype=np.float64)
    rewards = acmdp.reward.values(np.tile(middle, (acmdp.states, 1)))
    span = h * (float(np.ptp(rewards)) + 2.0 * k_r * diameter)
    slope = k_r + g * k_p * 0.5 * span
    smoothness = acmdp.reward.smoothness + g * acmdp.transition.smoothness * 0.5 * span
    return Scales(
        diameter=diameter,
        span=span,
        slope=slope,
        action_smoothness=smoothness,
        policy_smoothness=2.0 * g * h**2 * k_p * slope + h * smoothness,
    )


def policy_steps(
    eps: float,
    *,
    c: float,
    span: float,
    largest: float,
    curvature: float,
    least: float,
    states: int = 1,
    error: float = 0.0,
) -> int:
    """Steps T after which some policy had ``sqrt(sum_s g(s)^2) <= eps``.

    ``T = ceil(2 max(G, L_a D^2) span / (mu_min (c eps - error sqrt|S|)^2))`` for the per-state
    step, if every answer has a gap of at least c times the best minus `error`. (The
    paper's T, for its own step, has L in the place of L_a, which is far larger.)

    Parameters
    ----------
    eps, c, error, states
        As said.
    span
        At least J* - J of the start; 1 / (1 - gamma) for rewards in [0, 1].
    largest
        G, at least every gap.
    curvature
        L_a D^2.
    least
        mu_min, the smallest chance of a first state.

    Examples
    --------
    >>> policy_steps(0.1, c=0.5, span=10.0, largest=2.0, curvature=0.0, least=0.05)
    320000
    """
    within(c, "c", "(0, 1]")
    within(least, "least", "(0, 1]")
    for name, value in (("span", span), ("largest", largest), ("curvature", curvature), ("error", error)):
        require(number(value, name, low=0.0) < math.inf, name, "finite", value)
    most = within(eps, "eps", "[0, inf)")
    root = Fraction(math.isqrt(count(states, "states", low=1) << 106), 1 << 53)  # of any number of states
    left = Fraction(c) * Fraction(most) - Fraction(error) * root
    require(left > 0, "eps", "> error sqrt(states) / c", eps)
    return math.ceil(2 * Fraction(max(largest, curvature)) * Fraction(span) / (Fraction(least) * left**2))


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class PolicyPlan:
    """What policies need whose queries depend on earlier answers; see `policy_plan`."""

    gap_error: float  # lambda: an answer's gap is at least c times the best minus this
    side: float  # of the cells of `QuantizedQueries`, relative to |q|
    steps: int  # T
    copies: int  # kappa for T |S| queries that do not depend on the index
    lattice: int  # kappa for all cells of the lattice: the queries may depend on it

    def __repr__(self) -> str:
        """The sizes, and the two numbers of copies."""
        return (
            f"PolicyPlan({self.steps:,} steps, side {self.side:.3g} |q|, lambda {self.gap_error:.3g}; "
            f"copies: {self.copies:,} for queries fixed in advance, {self.lattice:,} for the lattice)"
        )


def policy_plan(acmdp: ACMDP, *, c: float, eps: float, delta: float) -> PolicyPlan:
    """Plan a run of `sfwpo` on a randomised index, to ``sqrt(sum_s g(s)^2) <= eps``.

    Half of c eps is left to the lattice, ``lambda = c eps / (2 sqrt|S|)``, half to the
    steps. ``QuantizedQueries(index, side=plan.side)`` asks as planned.

    Parameters
    ----------
    acmdp
        The problem; every state must be a possible first one.
    c
        Share of the best gap that an answer of the index has.
    eps
        Wanted root of the sum of squared gaps.
    delta
        Allowed probability that any answer of the run is wrong.

    Examples
    --------
    >>> from wolfhound.policy.tabular.acmdp import random_acmdp
    >>> policy_plan(random_acmdp(10, 100, 4), c=0.9, eps=0.1, delta=0.01)
    PolicyPlan(... steps, side ... |q|, lambda 0.0142; copies: ... for queries fixed in advance, ... lattice)
    """
    within(c, "c", "(0, 1]")
    require(number(eps, "eps", low=0.0, strict=True) < math.inf, "eps", "finite", eps)
    known = scales(acmdp)
    require(known.slope < math.inf, "acmdp", "of known slopes", f"{acmdp!r}")
    error = 0.5 * c * eps / math.sqrt(acmdp.states)
    most = known.slope * known.diameter
    require(most > 0.0, "acmdp", "one whose actions differ", f"{acmdp!r}")
    side = theory.lattice_side(min(1.0, error / most), acmdp.dim, c=c)
    steps = policy_steps(
        eps,
        c=c,
        span=known.span,
        largest=most,
        curvature=known.action_smoothness * known.diameter**2,
        least=float(acmdp.start.min()),
        states=acmdp.states,
        error=error,
    )
    return PolicyPlan(
        gap_error=error,
        side=side,
        steps=steps,
        copies=theory.copies(steps * acmdp.states, delta),
        lattice=theory.copies(1, delta, cells=math.ceil(_WIDTH / side), dim=acmdp.dim),
    )


# ---------------------------------------------------------------- steps

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


def short(gaps: Vector, curvature: Vector) -> Vector:
    """``min(1, gap / curvature)``; 0 without a gap, 1 without curvature."""
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


@dataclass(frozen=True, slots=True)
class PaperStep:
    """``min(1, (1 - gamma) mu_min ghat / (L D^2))``, as printed but clipped at 1.

    As any steps alpha do, it gains J at least ``sum_s d alpha ghat - L/2 sum_s alpha^2 |delta|^2``.
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
        least, scale = float(acmdp.start.min()), estimate
        if not scale:
            smoothness = self.smoothness or _find_smoothness(acmdp)
            scale = smoothness * (self.diameter or scales(acmdp).diameter) ** 2
        require(least > 0.0, "start", "positive in every state, for PaperStep", f"least {least:g}")
        return short((1.0 - acmdp.gamma) * least * move.gaps, np.full(len(move.gaps), scale)), scale


@dataclass(frozen=True, slots=True)
class Backtracking:
    """``min(1, ghat / (L_k |delta|^2))`` with L_k found by trying, on J itself.

    L_k is halved at every step, then doubled until J gains at least
    ``share * sum_s d(s) alpha(s) ghat(s)``, or until `PerState`'s own condition holds: so it gains at
    least ``sum_s min(1/2 mu, share d) alpha ghat``. Needs no smoothness, and evaluates about two
    policies per step.

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
        smoothness = 0.5 * estimate
        if not smoothness:  # at first half of the states take whole steps
            gains = (move.gaps > 0.0) & (move.squares > 0.0)
            smoothness = float(np.median(move.gaps[gains] / move.squares[gains])) if gains.any() else 1.0
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


def _find_smoothness(acmdp: ACMDP) -> float:
    smoothness = scales(acmdp).policy_smoothness
    require(0.0 < smoothness < math.inf, "smoothness", "given, as it is not known", f"{smoothness:g}")
    return smoothness
