"""`plan_adaptive`: what a run needs whose queries depend on earlier answers."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from wolfhound import theory
from wolfhound.validate import count, require, within

_WIDTH = 2
"""D_X: queries of norm 1 lie in [-1, 1]^d."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class AdaptivePlan:
    """What Frank-Wolfe with adaptive queries to an index needs; see `plan_adaptive`.

    Attributes
    ----------
    gap_error : float
        lambda: an answer's gap is at least c times the best minus this.
    error : float
        The same in the units of the index, where queries and gaps are at most 1.
    side : float
        Of the cells of `QuantizedQueries`, relative to |q|.
    steps : int
        T.
    printed, union, lattice : int
        Copies kappa of an index that is right with probability 0.9: as the paper
        prints them; by the union bound of its own proof; for the cells of `side`.
    """

    gap_error: float
    error: float
    side: float
    steps: int
    printed: int
    union: int
    lattice: int

    def __repr__(self) -> str:
        """The sizes, and the three numbers of copies."""
        return (
            f"AdaptivePlan({self.steps:,} steps, side {self.side:.3g} |q|, lambda {self.gap_error:.3g} "
            f"({self.error:.3g} of the largest gap); copies: {self.printed:,} as printed in the paper, "
            f"{self.union:,} by its union bound, {self.lattice:,} for this lattice)"
        )


def plan_adaptive(
    *,
    n: int,
    d: int,
    c: float,
    eps: float,
    curvature: float,
    first: float,
    diameter: float,
    size: float,
    delta: float,
) -> AdaptivePlan:
    """Plan a run whose queries depend on earlier answers, to a gap of eps.

    Half of eps is left to the lattice, ``lambda = c eps / 2``, half to the steps
    2 / (c t + 2). In units of the index, with queries scaled to norm 1, lambda is
    divided by |q| D_max, the most that a gap can be.

    Parameters
    ----------
    n, d
        Atoms and their dimension.
    c
        Share of the best gap that an answer of the index has.
    eps
        Wanted ``f - min f``.
    curvature, first
        beta D_max^2 and a bound on f(w_0) - min f, as in `theory.steps`.
    diameter
        D_max of the hull.
    size
        At least |q| = |grad f| wherever the run goes, such as |grad f(w_0)| + beta D_max.
    delta
        Allowed probability that any answer of the run is wrong.

    Examples
    --------
    >>> kept = {"curvature": 2, "first": 1, "diameter": 1, "size": 1}
    >>> plan_adaptive(n=10**6, d=100, c=0.9, eps=1 / 450, delta=0.01, **kept)
    AdaptivePlan(6,443 steps, ... copies: 3,063 as printed in the paper, 539 by its union bound, 430 ...)
    """
    scale = Fraction(within(diameter, "diameter", "(0, inf)")) * Fraction(within(size, "size", "(0, inf)"))
    gap_error = theory.additive_error(within(eps, "eps", "(0, inf)"), c=c)
    error = float(min(Fraction(1), Fraction(gap_error) / scale))  # more is no restriction
    side = theory.lattice_side(error, count(d, "d", low=1), c=c)
    require(
        side > 0.0, "eps", "large enough for cells of `diameter` * `size` that float64 can tell from 0", eps
    )
    return AdaptivePlan(
        gap_error=gap_error,
        error=error,
        side=side,
        steps=theory.steps(eps, c=c, curvature=curvature, first=first, error=gap_error),
        printed=theory.copies_printed(n, d, error, _WIDTH, delta),
        union=theory.copies(n, delta, cells=math.ceil(d * _WIDTH / Fraction(error)), dim=d),
        lattice=theory.copies(1, delta, cells=math.ceil(_WIDTH / Fraction(side)), dim=d),
    )
