"""Adaptive queries: a lattice between a run and an index, and what a run on it needs.

The queries of a run depend on earlier answers, so on the hashes of the index. The
centres of a lattice's cells do not: a union bound over all of them covers any run.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import final

import numpy as np

from wolfhound.core import validate
from wolfhound.core.contracts import Hits, Ints, Oracle, Vector
from wolfhound.core.rounding import TINY, UNIT
from wolfhound.core.validate import count, number, require, within
from wolfhound.data.atoms import norms
from wolfhound.oracles.asking import CheckedOracle, Question, ask_index, lengths, offer, slacks
from wolfhound.paper import theory

_FINEST = 2.0**-50
"""Smaller cells are lost in the rounding of queries."""

_WIDTH = 2.0
"""D_X: queries of norm 1 lie in [-1, 1]^d."""


@final
class QuantizedQueries(CheckedOracle):
    """Asks an oracle with the centre of the lattice cell that a query lies in.

    Queries are scaled to norm 1; [-1, 1]^d is cut into ``ceil(2 / side)^d`` cubic cells.
    All queries in a cell, whatever their norms, become one and the same query, its
    centre, within ``r = side sqrt(d) / 2`` of each. Answers are scored again with the
    caller's query. If the oracle finds a share c of the best score (or gap), so does
    this, but for ``(1 + c) r |q| max|s|`` (or ``D_max`` for ``max|s|``).

    Proofs stay proofs: with e the distance of a query from its centre, in units of
    the query, the oracle's bounds are raised by ``e max|s|``. Its thresholds are
    lowered by as much, lest an atom that reaches one is missed.

    Parameters
    ----------
    oracle
        Any oracle.
    side
        Side of a cell, relative to |q|; `adaptive` and `theory.lattice_side` say
        which is small enough for a wanted error.
    radius
        At least max|s|. By default what the oracle's answers prove, else it is
        measured, once, when it is first needed: a pass.

    Examples
    --------
    >>> from wolfhound.oracles.scan import Scan
    >>> oracle = QuantizedQueries(Scan(np.eye(3)), side=0.1)
    >>> hits = oracle.query(np.array([[1.0, 3.0, 2.0]]))
    >>> hits.ids, hits.scores, bool(3.0 < hits.bounds[0] < 3.0 + 0.1 * 3.0**0.5 * 14.0**0.5)
    (array([[1]]), array([[3.]]), True)
    """

    def __init__(self, oracle: Oracle, *, side: float, radius: float | None = None) -> None:
        self._oracle, self._atoms = validate.oracle(oracle, "oracle"), oracle.atoms
        self._side = number(side, "side", low=_FINEST)
        require(self._side < _WIDTH, "side", "< 2, the width of all queries", side)
        self._radius = math.inf if radius is None else max(number(radius, "radius", low=0.0), TINY)

    @property
    def cells(self) -> int:
        """How many cells there are in all, so how many queries the oracle may see."""
        return int(math.ceil(_WIDTH / self._side) ** self.atoms.shape[1])

    def answer(self, question: Question, thresholds: Vector | None = None) -> Hits:
        """Answer checked queries from the centres of their cells."""
        lattice = _locate(question.queries, math.ceil(_WIDTH / self._side))
        radius, passes = self._radius, 0.0
        if thresholds is not None:
            radius, passes = self._measure(radius)
            thresholds = lattice.lower(thresholds, radius)
        hits = ask_index(self._oracle, replace(question, queries=lattice.centres), thresholds)
        radius = min(radius, max(hits.radius, TINY))
        bounds = hits.bounds.copy()
        proved = np.isfinite(bounds)
        if proved.any():
            radius, more = self._measure(radius)
            passes += more
            above = lattice.lift(np.where(proved, bounds, 0.0), radius)
            slack = slacks(question.sizes, self.atoms.shape[1], radius)
            bounds[proved] = np.nextafter(above + slack, np.inf)[proved]
        if radius < math.inf:
            self._radius = radius  # other threads may have found another one: all are right
        scored = hits.scored + (hits.ids >= 0).sum(axis=1)
        found = offer(self.atoms, question, hits.ids, scored=scored)
        return replace(found, bounds=bounds, passes=passes + hits.passes, radius=radius)

    def __repr__(self) -> str:
        """The oracle and the side of a cell."""
        return f"QuantizedQueries({self._oracle!r}, side={self._side:g})"

    def _measure(self, radius: float) -> tuple[float, float]:
        """Return a finite radius, measured if it is not known, and the passes that it took."""
        if radius < math.inf:
            return radius, 0.0
        return max(float(norms(self.atoms).max()), TINY), 1.0


@dataclass(frozen=True, slots=True, eq=False)
class _Lattice:
    """Queries and their centres: query = 2^exponent (size * centre + offset)."""

    centres: Vector  # (m, d)
    sizes: Vector  # (m,) norms of the queries, in units of 2^exponent: no scale over- or underflows
    exponents: Ints  # (m,)
    offsets: Vector  # (m,) proved bounds on the norms of the offsets

    def lower(self, scores: Vector, radius: float) -> Vector:
        """Thresholds for the centres: all atoms that reach a score reach it there."""
        with np.errstate(over="ignore"):
            return np.asarray((np.ldexp(scores, -self.exponents) - self.offsets * radius) / self.sizes)

    def lift(self, bounds: Vector, radius: float) -> Vector:
        """Bounds on the scores of the queries from those of the centres."""
        best, more = self.sizes * bounds, self.offsets * radius
        with np.errstate(over="ignore"):
            return np.ldexp(best + more + 8.0 * UNIT * (np.abs(best) + more), self.exponents)


def _locate(queries: Vector, cells: int) -> _Lattice:
    """Find the cells of queries, `cells` along each axis; zero is its own centre."""
    exponents = np.frexp(np.abs(queries).max(axis=1))[1]
    rows = np.ldexp(queries, -exponents[:, None])
    sizes = np.sqrt(np.einsum("ij,ij->i", rows, rows))
    some = sizes > 0.0
    sizes = np.where(some, sizes, 1.0)
    places = np.floor((rows / sizes[:, None] + 1.0) * (0.5 * cells)).clip(0, cells - 1)
    centres = np.where(some[:, None], (2.0 * places + 1.0 - cells) / cells, 0.0)
    # Products and differences err by a unit each; products are at most |rows| + |offset|.
    rounding = 4.0 * UNIT * lengths(rows)
    offsets = (1.0 + 8.0 * UNIT) * lengths(rows - sizes[:, None] * centres) + rounding
    return _Lattice(centres, sizes, exponents, offsets)


# ---------------------------------------------------------------- the plan of a run


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
