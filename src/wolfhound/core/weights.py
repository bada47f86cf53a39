"""What weights may be: `Hull`, `Cone`, and what is proved of the least linear function over each.

F(w) = f(S'w) + price sum w + ridge/2 |w|^2 over 0 <= w <= cap and sum w = total (or at most that, or no
sum). With g the gradient of a convex f at any x and q_i = <g, s_i> + price,

    F(w) >= f(x) - <g, x> + sum_i (q_i w_i + ridge/2 w_i^2)   for all w,

and by Lagrange the least of the last sum is, for *any* mu (<= 0 where the sum may be less, 0 without a sum),

    at least  total mu + sum_i m_i(q_i - mu),   m_i(p) = min over 0 <= v <= cap_i of p v + ridge/2 v^2 <= 0:

a sum over atoms with q_i < mu alone. The atoms that have weight are known exactly; all others have a proved
bound on their q, and mu goes no higher. Nothing is sorted, and a mu that is not the best is a proof, too.

A cone without cap, ridge or sum makes that -inf. For f = 1/2 |z - b|^2 its dual is max <b, y> - 1/2 |y|^2
over y with <s_i, y> <= price for all atoms: `ray_bound` takes any such y, and the best of its multiples.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from wolfhound.core import validate
from wolfhound.core.contracts import Ids, Ints, Vector, WeightSet
from wolfhound.core.rounding import TINY, UNIT, gamma

NOBODY = -1  # id of the zero atom, which takes what is left of a sum that may be less: no cap, price, ridge

_HALVINGS = 200  # most of an interval for mu: more than float64 has


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Hull:
    """Weights that sum to 1: the convex hull of the atoms, or a part of it.

    Parameters
    ----------
    cap : number, or (n,)
        Most weight of an atom, or of each atom; > 0, of sum at least 1.
    at_most
        Whether weights may also sum to less than 1: the hull of the atoms and of 0.

    Examples
    --------
    >>> Hull(cap=0.2), Hull(at_most=True)
    (Hull(cap=0.2), Hull(at_most=True))
    """

    cap: float | Vector = 1.0
    at_most: bool = False

    def __init__(self, cap: float | ArrayLike = 1.0, at_most: bool = False) -> None:
        object.__setattr__(self, "cap", _check_cap(cap))
        object.__setattr__(self, "at_most", validate.flag(at_most, "at_most"))

    def __repr__(self) -> str:
        return f"Hull({_tell(cap=(self.cap, 1.0), at_most=(self.at_most, False))})"

    def bind(self, n: int, ridge: float, exclude: Ids) -> WeightSet | None:
        """Return the set for n atoms, None for the plain hull; ValueError where caps leave nothing."""
        cap = _clip_cap(self.cap, n, 1.0)
        found = WeightSet(at_most=self.at_most, cap=cap, ridge=ridge)
        if not (found.capped or found.slack or ridge > 0.0):
            return None
        if found.capped and not found.slack:
            left = n - len(np.unique(exclude))
            room = float(np.delete(cap, exclude).sum()) if isinstance(cap, np.ndarray) else cap * left
            enough = room >= 1.0 - 4.0 * n * UNIT
            validate.require(enough, "cap", "of sum >= 1 over the atoms that may be used", f"{room:g}")
        return found


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Cone:
    """Weights of any sum: the cone of the atoms, or a part of it.

    Parameters
    ----------
    price
        Added to f per unit of the sum of weights, >= 0: a non-negative lasso.
    cap : number, or (n,)
        Most weight of an atom, or of each atom; > 0.
    mass
        Most that weights may sum to, > 0; None: any.

    Examples
    --------
    >>> Cone(), Cone(price=0.5, mass=10.0)
    (Cone(), Cone(price=0.5, mass=10.0))
    """

    price: float = 0.0
    cap: float | Vector = math.inf
    mass: float | None = None

    def __init__(
        self, price: float = 0.0, cap: float | ArrayLike = math.inf, mass: float | None = None
    ) -> None:
        object.__setattr__(self, "price", _finite(validate.number(price, "price", low=0.0), "price"))
        object.__setattr__(self, "cap", _check_cap(cap))
        if mass is not None:
            mass = _finite(validate.number(mass, "mass", low=0.0, strict=True), "mass")
        object.__setattr__(self, "mass", mass)

    def __repr__(self) -> str:
        return f"Cone({_tell(price=(self.price, 0.0), cap=(self.cap, math.inf), mass=(self.mass, None))})"

    def bind(self, n: int, ridge: float, exclude: Ids) -> WeightSet:
        """Return the set for n atoms."""
        total = math.inf if self.mass is None else self.mass
        cap = _clip_cap(self.cap, n, total)
        return WeightSet(total=total, at_most=True, cap=cap, price=self.price, ridge=ridge)


def _check_cap(cap: float | ArrayLike) -> float | Vector:
    """Check a cap; an array is copied, and cannot be written."""
    if validate.array(cap, "cap", "a number, or one per atom").ndim == 0:
        return validate.number(cap, "cap", low=0.0, strict=True)
    caps = validate.vector(cap, "cap").copy()
    least = float(caps.min(initial=math.inf))
    validate.require(least > 0.0, "cap", "> 0", least)
    caps.flags.writeable = False
    return caps


def _clip_cap(cap: float | Vector, n: int, total: float) -> float | Vector:
    """Caps as they matter for n atoms: inf where one is no less than the sum."""
    if not isinstance(cap, np.ndarray):
        return cap if cap < total else math.inf
    validate.require(len(cap) == n, "cap", f"a number, or {n} numbers, one per atom", f"{len(cap)}")
    return cap if (cap < total).any() else math.inf


def _finite(value: float, name: str) -> float:
    validate.require(value < math.inf, name, "finite", value)
    return value


def _tell(**settings: tuple[object, object]) -> str:
    """The settings that are not their defaults, as they are written."""
    texts = []
    for name, (value, default) in settings.items():
        if isinstance(value, np.ndarray):
            texts.append(f"{name}={len(value)} numbers from {value.min():g} to {value.max():g}")
        elif value != default:
            texts.append(f"{name}={value!r}")
    return ", ".join(texts)


# ---------------------------------------------------------------- weights of a set


def caps_of(over: WeightSet, ids: Ids) -> Vector:
    """(k,) caps of atoms; the zero atom has none."""
    caps = over.cap[ids] if isinstance(over.cap, np.ndarray) else np.full(len(ids), over.cap)
    return np.asarray(np.where(ids == NOBODY, math.inf, caps))


def fill(over: WeightSet, weights: Vector, caps: Vector, order: Ints) -> Vector:
    """Weights of the set near given ones >= 0: what caps take away goes to other atoms, in an order."""
    total = float(weights.sum())
    scale = over.total / total if total > over.total or not over.at_most else 1.0
    weights = np.minimum(scale * weights, caps)
    left = over.total - float(weights.sum())
    if not over.at_most and left > 0.0:
        room = (caps - weights)[order]
        room = np.where(np.isfinite(room), room, over.total)
        weights[order] += np.clip(left - (np.cumsum(room) - room), 0.0, room)
    return weights


def fill_pool(over: WeightSet, drawn: Ids, n: int, exclude: Ids) -> Ids:
    """Add atoms to a random pool until their caps can sum to the total: those of the largest caps."""
    caps = caps_of(over, drawn[~np.isin(drawn, exclude)])
    if over.at_most or not over.capped or float(caps.sum()) >= 2.0 * over.total:
        return drawn
    others = np.setdiff1d(np.arange(n), np.concatenate([drawn, exclude]))
    others = others[np.argsort(-caps_of(over, others), kind="stable")]
    room = float(caps.sum()) + np.cumsum(caps_of(over, others))
    return np.concatenate([drawn, others[: 1 + int(np.searchsorted(room, 2.0 * over.total))]])


def settle(over: WeightSet, weights: Vector, caps: Vector) -> Vector:
    """Weights of an active set, zero atom and all, whose sum and caps hold up to rounding.

    A factor that is nearly singular keeps the sum no better than it is conditioned: weights are scaled, and
    what caps take from that goes to those that have room.
    """
    if over.total == math.inf or not len(weights):
        return np.minimum(weights, caps)
    scale: float = over.total / float(weights.sum())
    out: Vector = np.minimum(weights * scale, caps)
    if over.capped:
        left, room = over.total - float(out.sum()), np.minimum(caps, over.total) - out
        if 0.0 < left < float(room.sum()):
            out = np.minimum(out + room * (left / float(room.sum())), caps)
    return out


def pay(over: WeightSet, weights: Vector) -> float:
    """price sum w + ridge/2 |w|^2."""
    # Not ridge |w|^2: squares of small weights underflow, though a large ridge makes them count.
    with np.errstate(over="ignore"):
        return over.price * float(weights.sum()) + 0.5 * float(weights @ (over.ridge * weights))


# ---------------------------------------------------------------- proofs


class Least(NamedTuple):
    """A proved lower bound, and how much of it is rounding."""

    value: float
    rounding: float


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownPrices:
    """What is known of q: lower bounds of the active atoms', with their caps, and of all `count` others'."""

    active: Vector
    caps: Vector
    others: float
    count: int
    widest: float = math.inf  # largest cap of the others


def least_price(over: WeightSet, prices: KnownPrices) -> Least:
    """Lower bound of sum_i (q_i w_i + ridge/2 w_i^2) over the set: see the head of this page.

    Weights as they are printed meet sum and caps up to rounding: so do these, a little larger.

    Examples
    --------
    Two atoms of price 1 and 2, none above 0.6; all others cost 3 or more:

    >>> known = KnownPrices(active=np.array([1.0, 2.0]), caps=np.full(2, 0.6), others=3.0, count=9)
    >>> round(least_price(WeightSet(cap=0.6), known).value, 12)
    1.4
    """
    wider = 1.0 + gamma(len(prices.active) + 16)
    caps = np.minimum(prices.caps, over.total) * wider
    total = over.total * wider if over.at_most else over.total
    mu = 0.0 if total == math.inf else _choose_mu(over, total, prices, caps)
    beyond = float(min(prices.widest, over.total) * wider)
    known = _gain(over, prices.active - mu, caps)
    unknown = _gain(over, np.array([prices.others - mu]), np.array([beyond])) if prices.count else np.zeros(1)
    terms = float(known.sum()) + prices.count * float(unknown[0])
    base = 0.0 if mu == 0.0 else total * mu
    rounding = gamma(len(known) + 16) * (abs(base) - terms) + 8.0 * TINY
    return Least(base + terms - rounding, rounding)


def _gain(over: WeightSet, p: Vector, caps: Vector) -> Vector:
    """m(p), the least p v + ridge/2 v^2 over 0 <= v <= cap; its rounding is a few units of itself."""
    below = np.minimum(p, 0.0)
    if over.ridge > 0.0:
        with np.errstate(over="ignore", invalid="ignore"):  # what floats cannot hold is -inf: still a bound
            v = -below / over.ridge
            return np.where(v <= caps, 0.5 * below * v, caps * (below + 0.5 * over.ridge * caps))
    return np.multiply(below, caps, out=np.zeros(len(below)), where=below < 0.0)


def _choose_mu(over: WeightSet, total: float, prices: KnownPrices, caps: Vector) -> float:
    """The best mu that no other atom undercuts: where the weights that it draws sum to the total."""
    high = prices.others if prices.count else math.inf
    if over.at_most:
        high = min(high, 0.0)
    elif len(prices.active):  # beyond this all of them are at their caps
        high = min(high, float(prices.active.max()) + over.ridge * total)
    low = min(high, float(prices.active.min(initial=high)))
    if _sum_at(over, prices.active, caps, high) <= total:
        return high
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        if not low < middle < high:
            break
        low, high = (low, middle) if _sum_at(over, prices.active, caps, middle) > total else (middle, high)
    return low


def _sum_at(over: WeightSet, prices: Vector, caps: Vector, mu: float) -> float:
    """Sum of the weights that are least for their price at mu."""
    below = np.maximum(mu - prices, 0.0)
    if over.ridge > 0.0:
        with np.errstate(over="ignore"):
            return float(np.minimum(below / over.ridge, caps).sum())
    return float(caps[below > 0.0].sum())


def ray_bound(along: float, square: float, limit: float) -> float:
    """Lower bound of max theta <b, y> - theta^2/2 |y|^2 over 0 <= theta <= limit, and of 0.

    `along` is at most <b, y>, `square` at least |y|^2.

    Examples
    --------
    >>> round(ray_bound(2.0, 1.0, np.inf), 12), round(ray_bound(2.0, 1.0, 0.5), 12)
    (2.0, 0.875)
    """
    if not along > 0.0:
        return 0.0
    theta = min(along / square if square > 0.0 else math.inf, limit)
    if not theta < math.inf:
        return 0.0
    value = theta * (along - 0.5 * theta * square)
    return max(value - 8.0 * UNIT * theta * (along + theta * square) - TINY, 0.0)
