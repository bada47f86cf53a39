"""What weights may be: checks, words, and the least price over a set against brute force."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.weight_sets import fractions, least, paid
from wolfhound import Cone, Hull
from wolfhound.core.contracts import Point, WeightSet
from wolfhound.core.weights import KnownPrices, caps_of, fill, fill_pool, least_price, pay, ray_bound, settle
from wolfhound.methods.asking import add_paid

NONE = np.empty(0, np.int64)


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda: Hull(cap=0.0), "`cap` must be a number > 0. Got 0.0."),
        (lambda: Hull(cap=math.nan), "`cap` must be a number > 0. Got nan."),
        (lambda: Hull(cap=[0.5, -1.0]), "`cap` must be > 0. Got -1.0."),
        (lambda: Hull(cap=[0.5, math.nan]), "`cap` must be finite. Got nan at index 1."),
        (
            lambda: Hull(cap=0.1).bind(5, 0.0, NONE),
            "`cap` must be of sum >= 1 over the atoms that may be used",
        ),
        (
            lambda: Hull(cap=[0.6, 0.4]).bind(3, 0.0, NONE),
            "`cap` must be a number, or 3 numbers, one per atom",
        ),
        (lambda: Hull(cap=[0.6, 0.4]).bind(2, 0.0, np.array([0])), "`cap` must be of sum >= 1"),
        (lambda: Cone(price=-1.0), "`price` must be a number >= 0. Got -1.0."),
        (lambda: Cone(price=math.inf), "`price` must be finite. Got inf."),
        (lambda: Cone(mass=0.0), "`mass` must be a number > 0. Got 0.0."),
        (lambda: Cone(mass=math.inf), "`mass` must be finite. Got inf."),
    ],
)
def test_bad_sets_are_refused_by_name(make: Any, error: str) -> None:
    with pytest.raises(ValueError) as raised:
        make()
    assert error in str(raised.value)


def test_wrong_kinds_are_refused_by_name() -> None:
    with pytest.raises(TypeError, match="`at_most` must be"):
        Hull(at_most=1)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="`cap` must be"):
        Hull(cap="0.5")


def test_sets_say_what_they_are() -> None:
    assert repr(Hull()) == "Hull()"
    assert repr(Hull(cap=[0.5, 0.75])) == "Hull(cap=2 numbers from 0.5 to 0.75)"
    assert repr(Cone(price=1.0, cap=2.0, mass=3.0)) == "Cone(price=1.0, cap=2.0, mass=3.0)"


def test_caps_are_copied_and_cannot_be_written() -> None:
    given_caps = np.array([0.5, 0.75])
    caps = Hull(cap=given_caps).cap
    given_caps[0] = 9.0
    assert isinstance(caps, np.ndarray)
    assert caps.tolist() == [0.5, 0.75]
    assert not caps.flags.writeable


def test_a_plain_hull_is_none() -> None:
    assert Hull().bind(3, 0.0, NONE) is None
    assert Hull(cap=[1.0, 2.0]).bind(2, 0.0, NONE) is None
    assert Hull().bind(3, 0.5, NONE) is not None
    assert Hull(at_most=True).bind(3, 0.0, NONE) is not None


def test_caps_that_sum_to_one_but_for_rounding_will_do() -> None:
    assert Hull(cap=1.0 / 49.0).bind(49, 0.0, NONE) is not None


SETS = (
    WeightSet(cap=0.4),
    WeightSet(cap=0.4, ridge=0.5),
    WeightSet(ridge=2.0),
    WeightSet(at_most=True),
    WeightSet(at_most=True, cap=0.4, ridge=0.25),
    WeightSet(total=np.inf, at_most=True, cap=0.75),
    WeightSet(total=np.inf, at_most=True, ridge=0.5),
    WeightSet(total=np.inf, at_most=True, ridge=0.5, cap=2.0),
    WeightSet(total=3.0, at_most=True),
    WeightSet(total=3.0, at_most=True, ridge=0.5, cap=2.0),
)
QUARTERS = st.integers(-8, 8).map(lambda k: k / 4.0)


@pytest.mark.parametrize("over", SETS)
@given(st.lists(QUARTERS, min_size=3, max_size=4), st.integers(0, 4))
def test_the_least_price_is_a_bound_and_tight_where_all_are_known(
    over: WeightSet, prices: list[float], known: int
) -> None:
    """The least of sum q w + ridge/2 w^2 by all faces: no atom has a direction, each a price of its own."""
    q = np.array(prices)
    truth = _least_linear(over, q)
    k = min(known, len(q))
    others = float(q[k:].min(initial=np.inf))
    ids = np.arange(len(q))
    found = least_price(
        over,
        KnownPrices(
            active=q[:k],
            caps=caps_of(over, ids[:k]),
            others=others,
            count=len(q) - k,
            widest=float(np.max(over.cap)),
        ),
    )
    assert found.value <= truth
    assert k < len(q) or found.value >= truth - 1e-13 * (1.0 + abs(truth))


def test_a_single_atom_at_its_cap_is_proved_where_the_sum_may_be_less() -> None:
    """It is cheaper than nothing, and no other atom is there to bound mu."""
    known = KnownPrices(active=np.array([-2.0]), caps=np.array([0.7]), others=math.inf, count=0)
    assert least_price(WeightSet(at_most=True, cap=0.7), known).value == pytest.approx(-1.4)


def _least_linear(over: WeightSet, q: np.ndarray[Any, Any]) -> float:
    """By a fine grid of mu where there is a sum, in closed form elsewhere: an independent way."""
    caps = np.minimum(caps_of(over, np.arange(len(q))), over.total)

    def drawn(mu: float) -> np.ndarray[Any, Any]:
        if over.ridge > 0.0:
            return np.clip((mu - q) / over.ridge, 0.0, caps)
        return np.where(q < mu, caps, 0.0)

    def value(weights: np.ndarray[Any, Any]) -> float:
        return float(q @ weights + 0.5 * over.ridge * weights @ weights)

    if over.total == np.inf or (over.at_most and drawn(0.0).sum() <= over.total):
        return value(drawn(0.0))
    order = np.argsort(q, kind="stable")
    if over.ridge == 0.0:  # greedily, the cheapest first
        filled = np.clip(over.total - (np.cumsum(caps[order]) - caps[order]), 0.0, caps[order])
        return float(q[order] @ filled)
    low, high = float(q.min()), float(q.max()) + over.ridge * over.total
    for _ in range(200):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if drawn(middle).sum() > over.total else (middle, high)
    return value(drawn(high))


def test_the_reference_is_right_in_closed_form() -> None:
    over = WeightSet(total=np.inf, at_most=True, price=1.0)
    rows = [fractions(np.array([2.0, 0.0])), fractions(np.array([0.0, 1.0]))]
    # w = (2 * 3 - 1) / 4 along the first, nothing along the second
    assert least(rows, fractions(np.array([3.0, 0.5])), over, [np.inf] * 2) == 0.125 + 0.125 + 1.25


@given(st.floats(-5.0, 5.0), st.floats(0.01, 5.0), st.floats(0.01, 5.0))
def test_a_ray_is_bounded_by_its_best_multiple(along: float, square: float, limit: float) -> None:
    theta = np.linspace(0.0, limit, 1001)
    best = float((theta * along - 0.5 * theta**2 * square).max())
    assert best - 1e-4 * (1.0 + square * limit**2) <= ray_bound(along, square, limit) + 1e-12
    at = min(max(along / square, 0.0), limit)
    assert ray_bound(along, square, limit) <= at * along - 0.5 * at**2 * square + 1e-300


def test_weights_are_brought_into_a_set() -> None:
    caps = np.array([0.5, 0.3, 0.9])
    filled = fill(WeightSet(cap=caps), np.array([1.0, 0.0, 0.0]), caps, np.array([1, 2, 0]))
    assert filled.tolist() == pytest.approx([0.5, 0.3, 0.2])
    less = fill(WeightSet(cap=caps, at_most=True), np.array([0.1, 0.9, 0.0]), caps, np.arange(3))
    assert less.tolist() == [0.1, 0.3, 0.0]
    assert settle(WeightSet(), np.array([1.0, 3.0]), np.full(2, np.inf)).tolist() == [0.25, 0.75]
    cone = WeightSet(total=np.inf, at_most=True, cap=2.0)
    assert settle(cone, np.array([1.0, 3.0]), np.full(2, 2.0)).tolist() == [1.0, 2.0]


def test_what_caps_take_from_a_sum_goes_where_there_is_room() -> None:
    caps = np.array([0.25, 0.5, 0.5])
    settled = settle(WeightSet(cap=caps), np.array([0.25, 0.3, 0.2]), caps)
    assert settled.sum() == pytest.approx(1.0, abs=1e-15)
    assert (settled <= caps).all()


def test_a_pool_grows_until_its_caps_can_sum_to_the_total() -> None:
    caps = np.full(100, 0.02)
    caps[90:] = 0.1
    found = fill_pool(WeightSet(cap=caps), np.arange(5), 100, np.array([99]))
    assert caps[found].sum() >= 1.0
    assert 99 not in found
    assert fill_pool(WeightSet(), np.arange(5), 100, NONE).tolist() == list(range(5))


def test_what_is_paid() -> None:
    over, weights = WeightSet(price=2.0, ridge=4.0), np.array([1.0, 0.5])
    assert pay(over, weights) == 3.0 + 2.5
    whole = add_paid(over, Point(x=np.zeros(1), value=1.0, grad=np.zeros(1)), weights)
    assert whole.value == 1.0 + 3.0 + 2.5
    assert 0.0 < whole.value_error < 1e-13


def test_a_price_that_floats_cannot_hold_is_no_bound() -> None:
    """-below^2 / (2 ridge) overflows: that is -inf, of which inf had been made."""
    known = KnownPrices(active=np.array([-1e150]), caps=np.array([np.inf]), others=np.inf, count=0)
    assert least_price(WeightSet(total=np.inf, ridge=1e-200), known).value == -np.inf


@pytest.mark.parametrize("cap", [0.25, 3.0, np.inf])
def test_a_ridge_weighs_to_its_minimum_or_to_the_cap(cap: float) -> None:
    known = KnownPrices(active=np.array([-2.0]), caps=np.array([cap]), others=np.inf, count=0)
    lowest = min(-2.0 * v + 0.5 * v * v for v in np.linspace(0.0, min(cap, 4.0), 100_001))
    assert least_price(WeightSet(total=np.inf, ridge=1.0), known).value == pytest.approx(lowest, abs=1e-9)


def test_squares_of_weights_that_underflow_are_paid_for() -> None:
    """A large ridge makes small weights count."""
    over, weights = Cone().bind(2, 1e110, NONE), np.array([1e-160, 3e-161])
    found = pay(over, weights)
    whole = add_paid(over, Point(x=np.zeros(1), value=0.0, grad=np.zeros(1)), weights)
    assert abs(Fraction(found) - paid(over, fractions(weights))) <= Fraction(whole.value_error)
    assert found > 0.0
    assert pay(Cone().bind(1, 1e300, NONE), np.array([1e10])) == math.inf
