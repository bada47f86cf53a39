"""How large and how curved a problem can be: the constants of the theorems."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from wolfhound import theory
from wolfhound.atoms import diameter_bound, norms
from wolfhound.policy.tabular.acmdp import ACMDP
from wolfhound.validate import count, kind, number, require, within

_SAMPLE = 256  # atoms whose mean is taken as the middle of the hull

_WIDTH = 2.0  # D_X: queries of norm 1 lie in [-1, 1]^d


@dataclass(frozen=True, slots=True, kw_only=True)
class Scales:
    """Bounds that hold for every policy; inf where a model does not know its slope.

    Attributes
    ----------
    diameter : float
        D of the actions.
    span : float
        ``max V - min V``, so at least J* - J.
    slope : float
        |grad_a Q|.
    action_smoothness : float
        L_a of grad_a Q(s, a) in a, ``L_r + gamma L_P span / 2``.
    policy_smoothness : float
        L of the gradient of J in the whole policy. With k the slopes of r and P, v half the
        span and h = 1 / (1 - gamma): ``2 gamma h^2 k_P (k_r + gamma k_P v) + h L_a``, of order h^3.
    """

    diameter: float
    span: float
    slope: float
    action_smoothness: float
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
    """What policies need whose queries depend on earlier answers; see `policy_plan`.

    Attributes
    ----------
    gap_error : float
        lambda: an answer's gap is at least c times the best minus this.
    side : float
        Of the cells of `QuantizedQueries`, relative to |q|.
    steps : int
        T.
    copies : int
        kappa for T |S| queries that do not depend on the index.
    lattice : int
        kappa for all cells of the lattice: the queries may depend on it.
    """

    gap_error: float
    side: float
    steps: int
    copies: int
    lattice: int

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
