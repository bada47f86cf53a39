"""What the theorems say of n atoms: exponents, candidates, copies, queries.

Arranges the numbers of `theory` for a plan; knows no oracle and no speed.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple, final

from wolfhound import theory
from wolfhound.theory import Regime
from wolfhound.validate import require

SPACES = (0.0, 0.1, 0.2, 0.5, 1.0)
"""rho_u at which the curve of space and time is shown: space n^(1 + rho_u)."""

PROVED, UNPROVED = 2, 4
"""Queries of a target in `minimize_many`, with an exact oracle and with one that proves nothing but
finds the best; benchmarks/claim_plan.py measures them."""

_DOMAIN = 2  # diameter of the unit sphere, on which queries lie


class Exponent(NamedTuple):
    """Query exponent of a way to hash, and the atoms that it scores, n^(rho + o(1))."""

    rho: float
    candidates: float


class Place(NamedTuple):
    """A point of the curve: space n^(1 + rho_u), time n^rho_q."""

    rho_u: float
    rho_q: float


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Exponents:
    """The exponents of (c, tau)-MaxIP among n atoms.

    Attributes
    ----------
    n : int
    ratio, tau : float
        c of the formulas, and tau.
    regimes : dict
        `Exponent` of every `theory.Regime`.
    printed : Exponent
        As the paper prints it. Wrong: too low.
    curve : tuple of Place
        Andoni, Laarhoven, Razenshteyn and Waingarten (2017).
    break_even : float
        The tau above which near-linear hashing scores fewer than n atoms.

    Examples
    --------
    >>> found = Exponents.of(10**6, ratio=0.5, tau=0.9)
    >>> round(found.regimes[Regime.NEAR_LINEAR].candidates), round(found.printed.rho, 3), found.sublinear
    (3960, 0.065, True)
    """

    n: int
    ratio: float
    tau: float
    regimes: dict[Regime, Exponent]
    printed: Exponent
    curve: tuple[Place, ...]
    break_even: float

    @classmethod
    def of(cls, n: int, *, ratio: float, tau: float) -> Exponents:
        """Compute all of them."""

        def with_candidates(rho: float) -> Exponent:
            return Exponent(rho, theory.candidates(n, rho))

        cbar = theory.distance_ratio(ratio, tau)
        return cls(
            n=n,
            ratio=ratio,
            tau=tau,
            regimes={regime: with_candidates(theory.rho(ratio, tau, regime)) for regime in Regime},
            printed=with_candidates(theory.rho_printed(ratio, tau)),
            curve=tuple(Place(rho_u, theory.space_time(cbar, rho_u)) for rho_u in SPACES),
            break_even=theory.break_even(n, ratio),
        )

    @property
    def near_linear(self) -> Exponent:
        """That of the theorem: data-dependent hashing in near-linear space."""
        return self.regimes[Regime.NEAR_LINEAR]

    @property
    def sublinear(self) -> bool:
        """Whether the theorem promises to score fewer than all atoms."""
        return self.tau > self.break_even


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """How many queries there will be, by the gap ratio of their answers.

    Attributes
    ----------
    queries : int
        If every answer is the best atom; ``queries / ratio^2`` else, as the steps of
        Frank-Wolfe grow. Counts only if there is no `atol`.
    picks : int, optional
        Of herding with equal weights: ``picks / (2 ratio - 1)`` have the bound of exact ones,
        `theory.herding_gap_after`.
    targets : int, optional
        Problems over the same atoms, asked together: `PROVED` queries each if every answer is
        proved, ``UNPROVED / ratio^2`` if not.
    atol : float, optional
        The gap that a solve is to end with: ``theory.steps`` queries.
    curvature, first : float
        beta D^2 and h_0 of the solve.

    Examples
    --------
    >>> Demand(queries=1000).at(0.5)
    4000.0
    >>> Demand(atol=0.01, curvature=1.0, first=2.0).at(0.5)
    1596.0
    >>> Demand(picks=100).at(0.75), Demand(targets=100).at(1.0)
    (200.0, 200.0)
    """

    queries: int = 1
    picks: int | None = None
    targets: int | None = None
    atol: float | None = None
    curvature: float = 1.0
    first: float = 0.5

    def at(self, ratio: float) -> float:
        """Queries with answers of this gap ratio; inf if they are of no use."""
        if ratio <= 0.0:
            return math.inf
        share = Fraction(ratio)
        if self.picks is not None:
            return _ceil(self.picks / (2 * share - 1)) if ratio > 0.5 else math.inf
        if self.targets is not None:
            return _ceil(self.targets * (Fraction(PROVED) if ratio == 1.0 else UNPROVED / share**2))
        if self.atol is None:
            return _ceil(self.queries / share**2)
        steps = theory.steps(self.atol, c=ratio, curvature=self.curvature, first=self.first)
        return _ceil(Fraction(max(1, steps)))

    @property
    def last_tau(self) -> float | None:
        """The tau below which "none" ends a solve with a gap of atol.

        ``atol / (D_x D_y)`` with one scale for all queries, as in the paper, atoms in
        a ball of radius 1 and a gradient that vanishes somewhere in the hull.
        """
        if self.atol is None:
            return None
        smoothness = 0.25 * self.curvature  # in units of the radius, D is 2
        query, atom = theory.lift_norms(2.0 * smoothness, smoothness=smoothness, diameter=2.0, radius=1.0)
        return self.atol / (query * atom)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Copies:
    """Copies of an index, each right with probability 0.9, that a run needs.

    Attributes
    ----------
    fixed : int
        Where queries do not depend on earlier answers.
    lattice, union, printed : int, optional
        Where they do: by the cells of a lattice, by the union bound of the
        paper's proof, and as the paper prints it. None without an atol.
    """

    fixed: int
    lattice: int | None = None
    union: int | None = None
    printed: int | None = None

    @classmethod
    def of(cls, n: int, d: int, demand: Demand, *, ratio: float, delta: float) -> Copies:
        """Count them for the queries of a demand."""
        many = demand.at(ratio)
        fixed = theory.copies(int(many) if math.isfinite(many) else 1, delta)
        if demand.atol is None:
            return cls(fixed=fixed)
        # In the units of the index: a gap is at most |q| D, and |q| at most beta D.
        error = min(1.0, theory.additive_error(demand.atol, c=ratio) / demand.curvature)
        side = theory.lattice_side(error, d, c=ratio)
        require(side > 0.0, "atol", "large enough for a lattice that float64 can tell from 0", demand.atol)
        return cls(
            fixed=fixed,
            lattice=theory.copies(1, delta, cells=math.ceil(_DOMAIN / Fraction(side)), dim=d),
            union=theory.copies(n, delta, cells=math.ceil(d * _DOMAIN / Fraction(error)), dim=d),
            printed=theory.copies_printed(n, d, error, _DOMAIN, delta),
        )


def _ceil(value: Fraction) -> float:
    """Return the next whole number; inf where float64 has none."""
    try:
        return float(math.ceil(value))
    except OverflowError:
        return math.inf
