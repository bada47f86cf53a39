"""What the theorems promise: exponents, step counts, copies, probabilities.

Pure functions of numbers, after Shrivastava, Song and Xu's analysis of
Frank-Wolfe with (c, tau)-MaxIP, corrected where its formulas are wrong: c in
(0, 1] is the share of the gap that an answer is promised to have, tau the inner
product on the unit sphere that the best atom is promised to have.

Arguments are finite. Counts are whole numbers of any size; what float64 cannot hold is inf.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import enum
import math
from fractions import Fraction
from statistics import NormalDist

from wolfhound.core.validate import count, kind, require, within


class Regime(enum.Enum):
    """Hashing schemes whose query exponent is known; the value says which."""

    NEAR_LINEAR = "data-dependent hashing in space n^(1+o(1))"
    FILTERS = "data-independent spherical filters in space n^(1+o(1))"
    CROSS_POLYTOPE = "tables of cross-polytope hashes in space n^(1+rho)"
    BALANCED = "data-dependent hashing in space n^(1+rho)"


def distance_ratio(c: float, tau: float, *, here: float = 0.0) -> float:
    """Ratio cbar of far to near distance in (c, tau)-MaxIP on the sphere.

    ``cbar^2 = (1 - b - c tau) / (1 - b - tau)``: a score of b + tau exists, one
    of b + c tau is wanted. b (`here`) is 0 where gaps are searched; where scores
    are, it is the current point's: <q, w - m> / (|q| R), with the atoms in the
    ball of radius R around m, and tau the gap / (|q| R).

    Examples
    --------
    >>> round(distance_ratio(0.5, 0.9), 3), round(distance_ratio(0.5, 0.3, here=0.6), 3)
    (2.345, 1.581)
    """
    within(c, "c", "(0, 1]")
    within(tau, "tau", f"(0, {1.0 - within(here, 'here', '(-inf, 1)')})")
    return math.sqrt((1.0 - here - c * tau) / (1.0 - here - tau))


def rho(c: float, tau: float, regime: Regime = Regime.NEAR_LINEAR) -> float:
    """Exponent of a query: n^(rho + o(1)) atoms are scored.

    Near-linear: ``1 - rho = ((1-c) tau / (1 - c tau))^2``; filters:
    ``1 - rho = ((1-c) tau / (1 - c tau^2))^2``; cross-polytope:
    ``(1-tau)(1+c tau) / ((1-c tau)(1+tau))``; balanced:
    ``(1-tau) / (1 + tau - 2 c tau)``.

    Examples
    --------
    >>> [round(rho(0.5, 0.9, regime), 3) for regime in Regime]
    [0.331, 0.428, 0.139, 0.1]
    """
    within(c, "c", "(0, 1]")
    within(tau, "tau", "(0, 1)")
    kind(regime, "regime", "a Regime such as Regime.NEAR_LINEAR", Regime)
    match regime:
        case Regime.NEAR_LINEAR:
            return 1.0 - ((1.0 - c) * tau / (1.0 - c * tau)) ** 2
        case Regime.FILTERS:
            return 1.0 - ((1.0 - c) * tau / (1.0 - c * tau**2)) ** 2
        case Regime.CROSS_POLYTOPE:
            return (1.0 - tau) * (1.0 + c * tau) / ((1.0 - c * tau) * (1.0 + tau))
        case Regime.BALANCED:
            return (1.0 - tau) / (1.0 + tau - 2.0 * c * tau)


def rho_printed(c: float, tau: float) -> float:
    """Exponent as the paper prints it, 2/cbar^4 - 1/cbar^8; not true.

    The paper squares 1/cbar^2 once too often. At c = 0.5, tau = 0.9 this lies
    even below `Regime.BALANCED`, which needs more space. For comparison only.

    Examples
    --------
    >>> round(rho_printed(0.5, 0.9), 3), round(rho(0.5, 0.9), 3)
    (0.065, 0.331)
    """
    x = distance_ratio(c, tau) ** -4
    return 2.0 * x - x * x


def space_time(cbar: float, rho_u: float) -> float:
    """Query exponent rho_q for the space n^(1 + rho_u), data-dependent.

    Andoni, Laarhoven, Razenshteyn and Waingarten (2017): ``cbar^2 sqrt(rho_q) +
    (cbar^2 - 1) sqrt(rho_u) = sqrt(2 cbar^2 - 1)``; 0 past the curve's end.

    Examples
    --------
    >>> cbar = distance_ratio(0.5, 0.9)
    >>> [round(space_time(cbar, rho_u), 3) for rho_u in (0.0, 0.1, 0.3, 0.6)]
    [0.331, 0.1, 0.016, 0.0]
    """
    x = within(cbar, "cbar", "[1, inf)") ** -2  # the equation, divided by cbar^2, which may overflow
    left = math.sqrt(x * (2.0 - x)) - (1.0 - x) * math.sqrt(within(rho_u, "rho_u", "[0, inf)"))
    return max(left, 0.0) ** 2


def candidates(n: int, exponent: float) -> float:
    """Atoms scored per query, ``n^rho n^o(1)`` with ``n^o(1) = exp(sqrt(ln n))``.

    Examples
    --------
    >>> round(candidates(10**6, 0.0)), round(candidates(10**6, 0.331))
    (41, 3983)
    """
    logarithm = math.log(count(n, "n", low=1))
    power = within(exponent, "exponent", "(-inf, inf)") * logarithm + math.sqrt(logarithm)
    return math.exp(power) if power < _HIGHEST else math.inf


def break_even(n: int, c: float) -> float:
    """The tau above which near-linear hashing scores fewer than n atoms.

    ``(1-c) tau / (1 - c tau) > (ln n)^(-1/4)``, from `candidates` < n.

    Examples
    --------
    >>> round(break_even(10**6, 0.9), 3), round(break_even(10**6, 0.5), 3)
    (0.915, 0.683)
    """
    within(c, "c", "(0, 1]")
    ratio = math.pow(math.log(count(n, "n", low=3)), -0.25)
    return ratio / (1.0 - c + c * ratio)


def probed_share(tau: float, codes: int, *, delta: float = 0.1) -> float:
    """Share of isotropic atoms that `LshIndex` probes to find one at tau with probability 1 - delta.

    A bucket is a pair of codes, each the nearest of so many directions. An atom at
    cosine tau shows ``2 w tau`` of the query in its bucket, w the mean largest of `codes` normal
    variables, with a variance of ``2 (tau^2 s^2 + 1 - tau^2)``, s^2 that of the largest; other atoms
    show 0, with variance 2. With P and z the tail of the normal distribution and its quantile:
    ``P(sqrt(2) w tau - z(delta) sqrt(tau^2 s^2 + 1 - tau^2))``, which falls like
    ``codes^(-2 tau^2)``: the exponent of n tends to 1 - tau^2.

    Examples
    --------
    >>> [round(probed_share(tau, 44), 3) for tau in (0.5, 0.7, 0.9)]
    [0.337, 0.119, 0.022]
    """
    within(tau, "tau", "(0, 1]")
    normal = NormalDist()
    # exp(-0.577) / codes of a normal distribution lie above the mean largest of them. By the lower
    # tail: 1 - p is 1 for a p that is small.
    top = -normal.inv_cdf(0.5615 / _size(codes, "codes", low=2))
    spread = tau * tau * _GUMBEL / (1.0 + top * top) + 1.0 - tau * tau
    missed = -normal.inv_cdf(within(delta, "delta", "(0, 1)"))
    return 0.5 * math.erfc(top * tau - missed * math.sqrt(0.5 * spread))


_GUMBEL = math.pi**2 / 6.0
_HIGHEST = 709.0  # exp of more overflows


def centred_tau(c: float, tau: float) -> float:
    """What is left of tau where all other atoms are at c tau, once their centre is subtracted.

    Atoms of norm 1 with ``<q, s> = c tau`` have the centre m = c tau q and lie within
    ``R = sqrt(1 - c^2 tau^2)`` of it. An atom at tau then scores ``(1-c) tau / R``, in units of
    |q| R, and all others 0: what the theorems find hardest is for `LshIndex` a plain search for an atom at
    this tau.

    Examples
    --------
    >>> [round(centred_tau(c, 0.9), 3) for c in (0.5, 0.7, 0.9)]
    [0.504, 0.348, 0.153]
    """
    within(c, "c", "(0, 1]")
    within(tau, "tau", "(0, 1)")
    return (1.0 - c) * tau / math.sqrt(1.0 - (c * tau) ** 2)


def gap_after(t: int, *, c: float, curvature: float, first: float, error: float = 0.0) -> float:
    """Bound on f(w_t) - min f with the steps 2 / (c t + 2) from t = 0.

    ``h_t <= error/c + 2 (beta D^2 / c + h_0) / (c t + 2)``, after Lacoste-Julien,
    Jaggi, Schmidt and Pletscher (2013), if every answer has a gap of at least c
    times the best minus `error`. `curvature` is beta D^2 (smoothness times squared
    diameter), `first` at least h_0 = f(w_0) - min f.

    Examples
    --------
    >>> [gap_after(t, c=0.5, curvature=1.0, first=2.0) for t in (0, 4, 12)]
    [4.0, 2.0, 1.0]
    """
    within(c, "c", "(0, 1]")
    _require_sizes(curvature=curvature, first=first, error=error)
    share = Fraction(c)
    first_gap = Fraction(curvature) / share + Fraction(first)
    return _float(Fraction(error) / share + 2 * first_gap / (share * count(t, "t") + 2))


def gap_after_clipped(t: int, *, c: float, curvature: float, first: float) -> float:
    """As `gap_after`, with the paper's steps 2 / (c (t+2)) clipped at 1.

    Unclipped, the first step exceeds 1 for every c < 1 and leaves the hull.
    With t0 = ceil(2/c - 2) and A_t = t(t+1)/2, from t0 on
    ``h_t <= (A_t0 h_t0 + (t - t0) beta D^2 / c^2) / A_t``; up to t0
    ``h_t <= (1-c)^t h_0 + beta D^2 (1 - (1-c)^t) / (2 c)``.

    Examples
    --------
    >>> [gap_after_clipped(t, c=0.5, curvature=1.0, first=2.0) for t in (0, 2, 7)]
    [2.0, 1.25, 0.8482142857142857]
    """
    within(c, "c", "(0, 1]")
    _require_sizes(curvature=curvature, first=first)
    clipped = math.ceil(2 / Fraction(c)) - 2
    whole = min(count(t, "t"), clipped)
    # 1 - (1-c)^whole without the rounding of 1 - c, which is 1 for a small c
    lost = -math.expm1(float(whole * Fraction(math.log1p(-c)))) if whole else 0.0
    gap = Fraction(1.0 - lost) * Fraction(first) + Fraction(curvature) * Fraction(lost) / (2 * Fraction(c))
    if t <= clipped:
        return _float(gap)
    later = 2 * (t - clipped) * Fraction(curvature) / Fraction(c) ** 2
    return _float((clipped * (clipped + 1) * gap + later) / (t * (t + 1)))


def steps(eps: float, *, c: float, curvature: float, first: float, error: float = 0.0) -> int:
    """Steps T after which `gap_after` is at most eps.

    ``T = ceil((2/c) ((beta D^2 / c + h_0) / (eps - error/c) - 1))``.

    Examples
    --------
    >>> steps(0.01, c=0.5, curvature=1.0, first=2.0)
    1596
    """
    within(c, "c", "(0, 1]")
    _require_sizes(eps=eps, curvature=curvature, first=first, error=error)
    share = Fraction(c)
    floor = Fraction(error) / share
    require(eps > floor, "eps", f"> error / c = {_float(floor):g}", eps)
    first_gap = Fraction(curvature) / share + Fraction(first)
    return max(0, math.ceil(2 / share * (first_gap / (Fraction(eps) - floor) - 1)))


def herding_gap_after(t: int, *, c: float, diameter: float) -> float:
    """Bound on 1/2 |w_t - mu|^2 after t picks of equal weight, mu in the hull.

    ``h_t <= D^2 / (2 (2c - 1) t)`` for c > 1/2, with steps 1/(t+1) from the origin
    and D the diameter of the features.

    Examples
    --------
    >>> herding_gap_after(100, c=0.75, diameter=2.0)
    0.04
    """
    within(c, "c", "(0.5, 1]")
    _require_sizes(diameter=diameter)
    return _float(Fraction(diameter) ** 2 / (2 * (2 * Fraction(c) - 1) * count(t, "t", low=1)))


def lift_norms(grad_norm: float, *, smoothness: float, diameter: float, radius: float) -> tuple[float, float]:
    """D_x and D_y: bounds on the norms of lifted queries and lifted atoms.

    ``D_y = sqrt(1 + max|s|^2)``, ``D_x = (|grad(w_0)| + beta D_max) D_y``. Norms, not
    diameters: those of a far, tight cloud are too small to lift it to a sphere.
    "No score above tau" then means a gap below tau D_x D_y: ask for a tau of at
    most eps / (D_x D_y).

    Examples
    --------
    >>> lift_norms(3.0, smoothness=1.0, diameter=2.0, radius=0.75)
    (6.25, 1.25)
    """
    _require_sizes(grad_norm=grad_norm, smoothness=smoothness, diameter=diameter, radius=radius)
    atoms = math.hypot(1.0, radius)
    return (grad_norm + smoothness * diameter) * atoms, atoms


def copies(queries: int, delta: float, *, cells: int = 1, dim: int = 1) -> int:
    """Copies kappa, each right with probability 0.9, that a run needs.

    ``kappa = ceil(log10(queries cells^dim / delta))``: with probability 1 - delta one copy at
    least is right for each of the queries, a set fixed before the hashes are
    drawn. A run asks T, of policies T per state. Where queries depend on earlier
    answers, all cells^dim of a lattice count, ``cells = ceil(D_X / side)`` a side; verified answers
    need no copies.

    Examples
    --------
    >>> cells = math.ceil(2.0 / lattice_side(1e-3, 100, c=0.9))
    >>> copies(1000, 0.01), copies(1, 0.01, cells=cells, dim=100)
    (5, 430)
    """
    within(delta, "delta", "(0, 1)")
    fixed = math.log10(count(queries, "queries", low=1)) - math.log10(delta)
    lattice = count(dim, "dim") * Fraction(math.log10(count(cells, "cells", low=1)))
    return max(1, math.ceil(lattice + Fraction(fixed)))


def copies_printed(n: int, d: int, error: float, diameter: float, delta: float) -> int:
    """Copies as the paper prints them, d ln(n d D_X / (lambda delta)).

    The union bound of its own proof, over n (d D_X / lambda)^d events, needs
    fewer, and `lattice_side` fewer still. For comparison only.

    Examples
    --------
    >>> copies_printed(10**6, 100, 1e-3, 2.0, 0.01), copies(10**6, 0.01, cells=200_000, dim=100)
    (3063, 539)
    """
    width, side = within(diameter, "diameter", "(0, inf)"), within(error, "error", "(0, inf)")
    events = math.log(count(n, "n", low=1) * count(d, "d", low=1))
    logarithm = events + math.log(width) - math.log(side) - math.log(within(delta, "delta", "(0, 1)"))
    return max(1, math.ceil(d * Fraction(logarithm)))


def additive_error(eps: float, *, c: float) -> float:
    """lambda = c eps / 2: half of eps for the lattice, half for the `steps`.

    The paper prints eps / (4 c^2), whose floor lambda / c exceeds eps for c < 0.63.

    Examples
    --------
    >>> additive_error(0.25, c=0.5)
    0.0625
    """
    within(c, "c", "(0, 1]")
    return 0.5 * c * within(eps, "eps", "[0, inf)")


def lattice_side(error: float, dim: int, *, c: float, on_sphere: bool = False) -> float:
    """Side of the cubic cells whose centres answer with this additive error.

    A query within r of its centre gets ``<x, z> >= c max - (1 + c) r`` on unit atoms,
    so ``r = sigma = lambda / (1 + c)`` and ``side = 2 r / sqrt(dim)``. If the centre
    is put back on the sphere, ``r = sigma sqrt(1 - sigma^2 / 4)``.

    Examples
    --------
    >>> round(lattice_side(1e-3, 100, c=0.9), 9)
    0.000105263
    """
    within(c, "c", "(0, 1]")
    radius = within(error, "error", "[0, inf)") / (1.0 + c)
    if on_sphere:
        require(radius * radius <= 2.0, "error", "at most sqrt(2) (1 + c)", error)
        radius *= math.sqrt(1.0 - 0.25 * radius * radius)
    return 2.0 * (radius / math.sqrt(_size(dim, "dim", low=1)))


def simhash_collision(cosine: float) -> float:
    """Probability that a random hyperplane does not separate two vectors.

    ``1 - angle / pi``, exact.

    Examples
    --------
    >>> simhash_collision(1.0), simhash_collision(0.0), simhash_collision(-1.0)
    (1.0, 0.5, 0.0)
    """
    within(cosine, "cosine", "[-1, 1]")
    return 1.0 - math.acos(cosine) / math.pi


def cross_polytope_collision(cosine: float, dim: int) -> float:
    """Leading term of a cross-polytope hash's collision probability.

    ``dim^-((1 - cos) / (1 + cos))``: Andoni, Indyk, Laarhoven, Razenshteyn and
    Schmidt (2015) prove ``ln(1/p) = (1-cos)/(1+cos) ln dim + O(ln ln dim)``. The
    second term is not small in practice: real hashes collide less often than
    this, near pairs above all. Use it to compare, measure to plan.

    Examples
    --------
    >>> cross_polytope_collision(1.0, 128), round(cross_polytope_collision(0.5, 1000), 9)
    (1.0, 0.1)
    """
    within(cosine, "cosine", "(-1, 1]")
    return math.pow(_size(dim, "dim", low=2), -(1.0 - cosine) / (1.0 + cosine))


def _require_sizes(**values: float) -> None:
    for name, value in values.items():
        within(value, name, "[0, inf)")


def _size(value: int, name: str, *, low: int) -> float:
    """Return a count that is used as a number; beyond what float64 can hold it is refused."""
    most = 10**300
    require(
        count(value, name, low=low) <= most, name, "an integer <= 1e300", f"one of {len(str(value))} digits"
    )
    return float(value)


def _float(value: Fraction) -> float:
    """Return what float64 can hold, or inf: quotients of extreme numbers are taken exactly."""
    try:
        return float(value)
    except OverflowError:
        return math.inf
