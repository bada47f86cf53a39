"""The exponents, copies and queries of a plan, against formulas written out."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wolfhound.machine import Calibration
from wolfhound.planning.plan import plan
from wolfhound.planning.report import Plan
from wolfhound.planning.theorems import Demand
from wolfhound.theory import Regime

FIXED = Calibration()


def million(**wish: Any) -> Plan:
    return plan(n=10**6, d=128, **({"calibration": FIXED} | wish))


# ---------------------------------------------------------------- what the theorems say


def test_exponents_of_all_regimes_by_hand() -> None:
    found = million(ratio=0.5, tau=0.9).exponents
    near = 1.0 - (0.5 * 0.9 / (1.0 - 0.45)) ** 2
    expected = {
        Regime.NEAR_LINEAR: near,
        Regime.FILTERS: 1.0 - (0.45 / (1.0 - 0.5 * 0.81)) ** 2,
        Regime.CROSS_POLYTOPE: 0.1 * 1.45 / (0.55 * 1.9),
        Regime.BALANCED: 0.1 / (1.9 - 0.9),
    }
    assert {regime: each.rho for regime, each in found.regimes.items()} == pytest.approx(expected)
    by_hand = math.exp(near * math.log(1e6) + math.sqrt(math.log(1e6)))
    assert found.near_linear.candidates == pytest.approx(by_hand)
    assert found.break_even == pytest.approx(0.683, abs=5e-4)
    assert found.sublinear


def test_the_printed_exponent_is_shown_as_wrong() -> None:
    found = million(ratio=0.5, tau=0.9)
    assert found.exponents.printed.rho == pytest.approx(0.065, abs=5e-4)
    assert found.exponents.printed.rho < min(each.rho for each in found.exponents.regimes.values())
    assert "as the paper prints it: WRONG, too low 0.065" in " ".join(str(found).split())
    assert found.to_dict()["exponents"]["printed"]["true"] is False


@settings(max_examples=50)
@given(c=st.floats(0.05, 0.99), tau=st.floats(0.05, 0.99))
def test_the_curve_of_space_and_time(c: float, tau: float) -> None:
    found = million(ratio=c, tau=tau).exponents
    square = (1.0 - c * tau) / (1.0 - tau)
    assert found.curve[0].rho_q == pytest.approx(found.near_linear.rho)
    for rho_u, rho_q in found.curve:
        left = square * math.sqrt(rho_q) + (square - 1.0) * math.sqrt(rho_u)
        assert left == pytest.approx(max(math.sqrt(2.0 * square - 1.0), (square - 1.0) * math.sqrt(rho_u)))


@pytest.mark.parametrize(
    ("ratio", "tau", "line"),
    [
        (0.9, 0.91, "The theorem gives nothing at this n: n^"),
        (0.9, 0.92, "The theorem is sublinear here: n^"),
        (0.5, 0.68, "The theorem gives nothing at this n: n^"),
        (0.5, 0.69, "The theorem is sublinear here: n^"),
    ],
)
def test_below_the_break_even_the_theorem_gives_nothing(ratio: float, tau: float, line: str) -> None:
    found = million(ratio=ratio, tau=tau)
    assert line in str(found)
    assert found.exponents.sublinear == (found.exponents.near_linear.candidates < 10**6)


def test_at_a_small_atol_the_theorem_is_not_sublinear() -> None:
    found = million(ratio=0.5, tau=0.9, atol=1e-4)
    assert found.demand.last_tau == pytest.approx(1e-4 / 2.0)  # D_x D_y = 2 beta D^2
    assert "takes tau <= 5e-05: n^1.000000, not sublinear." in str(found)
    assert found.exponents.sublinear
    assert "not sublinear" not in str(million(ratio=0.5, tau=0.9, atol=1.9))


def test_copies_for_a_run() -> None:
    assert million(queries=1000, ratio=1.0, delta=0.01).copies.fixed == 5
    assert million(queries=1000, ratio=0.5, delta=0.01).copies.fixed == 6  # 4000 queries
    assert million(queries=1000, ratio=0.5, delta=0.01).copies.lattice is None


def test_copies_for_adaptive_queries_three_times() -> None:
    atol = 2e-3 / 0.9  # an error of 1e-3 in the units of the index
    found = plan(n=10**6, d=100, ratio=0.9, delta=0.01, atol=atol, calibration=FIXED).copies
    assert (found.printed, found.union, found.lattice) == (3063, 539, 430)


# ---------------------------------------------------------------- how many queries


def test_steps_of_a_solve() -> None:
    found = million(ratio=0.5, atol=0.01, smoothness=0.25, diameter=2.0, first=2.0)
    assert found.demand.at(0.5) == 1596
    assert found.option("scan").queries == 598
    assert found.demand == Demand(atol=0.01, curvature=1.0, first=2.0)


def test_an_atol_without_numbers_is_relative() -> None:
    small, large = (million(atol=1e-3 * by, diameter=math.sqrt(by)).demand.at(0.7) for by in (1.0, 64.0))
    assert small == large
    assert million(atol=1e-3).demand.at(0.7) == small


@given(queries=st.integers(1, 10**12), c=st.floats(0.01, 1.0))
def test_queries_grow_with_the_inverse_square(queries: int, c: float) -> None:
    assert Demand(queries=queries).at(1.0) == queries
    assert Demand(queries=queries).at(c) == math.ceil(queries / Fraction(c) ** 2)


@pytest.mark.slow
def test_an_answer_of_no_use_never_ends() -> None:
    assert Demand(queries=1).at(0.0) == math.inf
    found = million(ratio=1.0).option("subset")
    assert (found.ratio, found.total_seconds, found.pays_from) == (0.0, math.inf, math.inf)
