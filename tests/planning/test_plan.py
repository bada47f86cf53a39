"""`plan`: the numbers of the theorems and of the models, and what is advised."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
import math
import pickle
import re
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.planning.test_calibration import MEASURED
from wolfhound.machine import Calibration, CalibrationError
from wolfhound.oracles.indexes import INDEXES
from wolfhound.oracles.lsh_kind import hash_values
from wolfhound.planning.plan import plan
from wolfhound.planning.report import PASSES, RATIOS, Plan
from wolfhound.theory import Regime

FIXED = Calibration()
ROWS = np.random.default_rng(0).standard_normal((3000, 6)).astype(np.float32)


def million(**wish: Any) -> Plan:
    return plan(n=10**6, d=128, **({"calibration": FIXED} | wish))


# ---------------------------------------------------------------- what oracles cost


def test_all_ways_are_weighed() -> None:
    assert [each.name for each in million().options] == [
        "scan",
        "int8",
        "clusters",
        "lsh",
        "subset",
        "fully-corrective",
    ]


def test_totals_by_hand() -> None:
    found = million(queries=1000, ratio=0.9)
    pass_ = 4.5e-4 + 3.2e-11 * 512e6
    assert found.option("scan").total_seconds == pytest.approx(1000 * pass_)
    assert found.option("fully-corrective").total_seconds == pytest.approx(PASSES * pass_)


def test_hashing_by_hand() -> None:
    found = million(queries=1000, ratio=0.9)
    hashed = found.option("lsh")
    budget = hashed.scored - 102
    tried = math.ceil(budget / (1e6 / 102**2))
    assert list(hashed.details.values()) == [1, 102**2, 102, tried]
    assert hashed.recipe == f"LshIndex.build(atoms, axes=32, budget={budget})"
    assert hashed.build_seconds == pytest.approx(
        3.5e-8 * 20_000 * 128 + 6e-11 * 1e6 * ((102 + 60) * 128 + 9_000)
    )
    assert hashed.query_seconds == pytest.approx(2.4e-4 + 5e-11 * (136 * budget + 2 * 102**2))


@pytest.mark.slow
@settings(max_examples=60)
@given(
    n=st.integers(3, 10**9),
    c=st.floats(0.3, 0.98),
    by=st.floats(0.0, 1.0),
    interior=st.booleans(),
    queries=st.integers(1, 10**9),
)
def test_a_higher_ratio_takes_more_atoms_and_fewer_queries(
    n: int, c: float, by: float, interior: bool, queries: int
) -> None:
    higher = c + by * (0.99 - c)
    low, high = (
        plan(n=n, d=64, ratio=each, queries=queries, interior=interior, calibration=FIXED)
        for each in (c, higher)
    )
    for one, other in zip(low.options, high.options, strict=True):
        assert one.scored <= other.scored
        assert one.queries >= other.queries
    for regime in Regime:
        counts = [each.exponents.regimes[regime].candidates for each in (low, high)]
        assert counts[0] <= counts[1] * (1.0 + 1e-12)
    assert low.copies.fixed >= high.copies.fixed
    assert low.exponents.break_even <= high.exponents.break_even * (1.0 + 1e-12)


@pytest.mark.slow
@settings(max_examples=60)
@given(
    n=st.integers(3, 10**9), d=st.integers(1, 4096), queries=st.integers(1, 10**10), interior=st.booleans()
)
def test_the_chosen_and_the_best_ratio_cost_least(n: int, d: int, queries: int, interior: bool) -> None:
    found = plan(n=n, d=d, queries=queries, interior=interior, calibration=FIXED)
    eligible = [each for each in found.options if not each.objection]
    assert found.chosen.total_seconds == min(each.total_seconds for each in eligible)
    for each in found.options:
        assert each.total_seconds == each.build_seconds + each.queries * each.query_seconds
    totals = [
        each.build + math.ceil(queries / each.ratio**2) * each.query
        for c in RATIOS
        for kind in INDEXES.values()
        if kind.expected is not None and not kind.proves
        for each in [kind.expected(replace(found.workload, ratio=c))]
        if each.ratio >= c - 1e-9
    ]
    assert found.best.total_seconds == min(totals)
    assert found.ratio == found.best_ratio


@pytest.mark.slow
@settings(max_examples=50)
@given(n=st.integers(3, 10**9), c=st.floats(0.5, 0.95), interior=st.booleans())
def test_the_break_even_is_where_totals_meet(n: int, c: float, interior: bool) -> None:
    found = plan(n=n, d=64, ratio=c, queries=10**6, interior=interior, calibration=FIXED)
    scan = found.option("scan").query_seconds
    for each in [each for each in found.options if each.indexed and each.pays_from < 1e12]:
        start, rate = each.pays_from, each.queries / 1e6 * each.query_seconds
        assert each.build_seconds + start * rate <= start * scan * (1.0 + 1e-9)
        assert each.build_seconds + (start - 1.0) * rate >= (start - 1.0) * scan * (1.0 - 1e-9)


# ---------------------------------------------------------------- advice


def test_an_index_does_not_pay_for_ten_queries() -> None:
    found = million(queries=10, ratio=0.9)
    assert not found.pays
    assert "An index does not pay here: " in str(found)
    assert found.index.build_seconds > found.option("scan").total_seconds


@pytest.mark.parametrize("interior", [True, False])
def test_an_index_pays_for_ten_million_queries(interior: bool) -> None:
    found = million(queries=10**7, interior=interior)
    assert found.pays
    assert f"{found.chosen.title} pays here: " in str(found)
    assert found.chosen.total_seconds < 0.1 * found.option("scan").total_seconds


def test_no_index_pays_for_one_solve() -> None:
    found = million(atol=1e-6)
    assert found.chosen.name == "fully-corrective"
    assert "An index does not pay here: FullyCorrective takes 67 ms in all" in str(found)
    assert "If they are the steps of one solve" not in str(found)


def test_queries_may_be_one_solve_all_the_same() -> None:
    found = million(queries=10**7)
    assert found.option("fully-corrective").objection == "for one solve"
    line = "`minimize` needs no index: 1 to 4 passes with proof, at most 67 ms."
    assert f"If they are the steps of one solve, {line}" in str(found)


def test_no_index_gives_the_best_atom() -> None:
    found = million(queries=10**7, ratio=1.0)
    assert found.chosen.name == "int8"
    assert "An index does not pay here: none reaches the ratio 1." in str(found)
    assert found.best.ratio < 1.0


def test_an_index_that_is_slower_than_a_scan_never_pays() -> None:
    found = plan(n=100, d=4, ratio=0.8, queries=10**6, calibration=replace(FIXED, scan=FIXED.subset))
    assert math.isinf(found.index.pays_from)
    assert f"Against Scan {found.index.title} never pays." in str(found)


def test_the_best_ratio_does_not_depend_on_the_given_one() -> None:
    first, second = million(ratio=0.6, interior=True), million(ratio=0.95, interior=True)
    assert (first.best_ratio, first.best) == (second.best_ratio, second.best)
    assert million(interior=True).ratio == first.best_ratio


# ---------------------------------------------------------------- what it is


def test_the_same_calibration_gives_the_same_plan_without_a_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_clock() -> float:
        raise AssertionError("a clock was read")

    first = plan(ROWS, queries=10**5, calibration=MEASURED)
    for name in ("time", "monotonic", "perf_counter", "process_time"):
        monkeypatch.setattr(time, name, no_clock)
    again = plan(ROWS, queries=10**5, calibration=MEASURED)
    assert again == first
    assert repr(again) == repr(first)


def test_the_saved_speeds_count(place: Path) -> None:
    fixed = plan(n=10**6, d=128)
    replace(MEASURED, scan=replace(FIXED.scan, first=1.0)).save()
    assert plan(n=10**6, d=128).option("scan").total_seconds > fixed.option("scan").total_seconds
    place.write_text("{")
    with pytest.raises(CalibrationError, match="run `wolfhound bench` again"):
        plan(n=10**6, d=128)


def test_a_plan_can_be_pickled_and_written_as_json() -> None:
    found = plan(ROWS, atol=1e-3, calibration=FIXED)
    assert pickle.loads(pickle.dumps(found)) == found
    document = json.loads(json.dumps(found.to_dict()))
    assert document["chosen"] == found.chosen.name
    assert document["options"][0]["total_seconds"] == found.options[0].total_seconds
    assert document["exponents"]["near_linear"]["rho"] == found.exponents.near_linear.rho
    assert document["curve"][0] == {"rho_u": 0.0, "rho_q": found.exponents.curve[0].rho_q}
    assert document["copies"]["printed"] == found.copies.printed


def test_the_picture() -> None:
    found = million(queries=10**6, ratio=0.9)
    left, right = found.plot().axes
    lines = {str(line.get_label()): line for line in left.get_lines()}
    sizes = np.asarray(lines["LshIndex (model)"].get_xdata(), np.float64)
    at = int(np.searchsorted(sizes, 1e6))
    scored = np.asarray(lines["LshIndex (model)"].get_ydata(), np.float64)
    assert scored[at] - hash_values(int(sizes[at])) == pytest.approx(
        found.option("lsh").scored - 144, rel=0.3
    )
    assert [name for name in lines if "theorem" in name] == [
        f"{name} (theorem)" for name in ("near-linear", "filters", "cross-polytope", "balanced")
    ]
    totals = {str(line.get_label()): np.asarray(line.get_ydata(), np.float64) for line in right.get_lines()}
    assert totals["LshIndex"][RATIOS.index(0.9)] == found.option("lsh").total_seconds
    assert totals["Scan"][0] == found.option("scan").total_seconds
    assert (left.get_xscale(), left.get_yscale(), right.get_yscale()) == ("log", "log", "log")


@pytest.mark.slow
@pytest.mark.parametrize("wish", [{"n": 3, "d": 1}, {"n": 10**12, "d": 1, "ratio": 1.0}])
def test_odd_pictures_are_drawn(wish: dict[str, Any], tmp_path: Path) -> None:
    plan(**wish, calibration=FIXED).plot(tmp_path / "plan.png")
    assert (tmp_path / "plan.png").read_bytes().startswith(b"\x89PNG")


TEXT = """\
ClusterIndex, for 200,000 queries, one at a time: gap ratio 0.9, no proof
1,000,000 x 128, tau 0.41 (that of random directions)

  oracle              scored   build  per query  queries   in all  memory  ratio  pays from
  Scan             1,000,000       -      17 ms  200,000   56 min  8.0 MB      1          -
  Int8Scan         1,000,000  128 ms     5.2 ms  200,000   17 min  136 MB      1         11
* ClusterIndex        14,000    12 s     337 us  250,000  1.6 min  145 MB  ~0.90        760
  LshIndex            63,000   1.9 s     671 us  250,000  2.8 min  144 MB  ~0.90        120
  RandomSubset       250,000       -     7.3 ms  250,000   30 min       -  ~0.90          1
  FullyCorrective  1,000,000       -      17 ms        4    67 ms   16 MB      1          4    for one solve

ClusterIndex pays here: 12 s to build and 1.6 min in all, against 56 min with Scan.
Against Scan it pays from about 760 queries on.
Without proof the ratio 0.87 costs least: ClusterIndex, 1.5 min in all (Scan 56 min).
Below it there are more queries, like 1/c^2; above it each is dearer.
If they are the steps of one solve, `minimize` needs no index: 1 to 4 passes with proof, at most 67 ms.

What the theorems say for c = 0.9, tau = 0.41:
  hashing                                                   rho  candidates
  data-dependent hashing in space n^(1+o(1))              0.996  39,000,000  more than all
  data-independent spherical filters in space n^(1+o(1))  0.998  40,000,000  more than all
  tables of cross-polytope hashes in space n^(1+rho)      0.908  12,000,000  more than all
  data-dependent hashing in space n^(1+rho)               0.878   7,600,000  more than all
  as the paper prints it: WRONG, too low                  0.984  33,000,000  more than all
  data-dependent hashing: space      n^1    n^1.1    n^1.2    n^1.5      n^2
                           time  n^0.996  n^0.955  n^0.939  n^0.906  n^0.870

The theorem gives nothing at this n: n^0.996 exp(sqrt(ln n)) is 39,000,000, of 1,000,000 atoms in all.
At c = 0.9, near-linear space takes tau > 0.915 to score fewer than n.
LshIndex: tables 1, buckets 10,404, values of a code 102, buckets tried 659.
With a promise, tau 0.382 costs least: 98 % of the queries have an atom there, the others take a pass.
LshIndex.build(atoms, ratio=0.9, tau=0.382, delta=0.1): 370,000 atoms at most, 2.9 ms a query (pass 5.2 ms).
Copies for 246,914 queries to succeed with probability 0.9: 7; verified answers need none.
Made by ClusterIndex.build(atoms, budget=12251)
Ratios ~ are typical, not promised. Speeds are fixed defaults; `wolfhound bench` measures this machine."""


def test_the_text_explains_the_plan() -> None:
    found = million(queries=200_000, ratio=0.9)
    assert repr(found) == TEXT
    assert str(found) == TEXT


# ---------------------------------------------------------------- wrong use


@pytest.mark.parametrize(
    ("wish", "message"),
    [
        ({}, "`atoms` must be given, or both `n` and `d`."),
        ({"n": 10}, "`atoms` must be given, or both `n` and `d`."),
        ({"atoms": ROWS, "n": 10}, "`n` and `d` must not be given with `atoms`, which have their own."),
        ({"n": 2, "d": 3}, "`n` must be an integer >= 3. Got 2."),
        ({"n": 9, "d": 3, "picks": 0}, "`picks` must be an integer >= 1. Got 0."),
        ({"n": 9, "d": 3, "picks": 5, "queries": 7}, "`picks` must not be given with `queries`. Got 5."),
        (
            {"n": 9, "d": 3, "targets": 5, "atol": 0.1},
            "`targets` must not be given with `atol`, which decides how many. Got 5.",
        ),
        ({"n": 10, "d": 0}, "`d` must be an integer >= 1. Got 0."),
        ({"atoms": ROWS[:2]}, "`atoms` must be at least 3 rows. Got 2."),
        ({"atoms": np.ones((9, 2))}, "`atoms` must be of different rows. Got 9 equal ones."),
        ({"atoms": np.zeros((9, 2))}, "`atoms` must be of different rows. Got only zeros."),
        ({"atoms": np.full((9, 2), np.nan)}, "`atoms` must be finite. Got nan in row 0, column 0."),
        ({"atoms": ROWS, "ratio": 0.0}, "`ratio` must be in (0, 1]. Got 0.0."),
        ({"atoms": ROWS, "ratio": 1.1}, "`ratio` must be in (0, 1]. Got 1.1."),
        ({"atoms": ROWS, "tau": 1.0}, "`tau` must be in (0, 1). Got 1.0."),
        ({"atoms": ROWS, "delta": 0.0}, "`delta` must be in (0, 1). Got 0.0."),
        ({"atoms": ROWS, "queries": 0}, "`queries` must be an integer >= 1. Got 0."),
        ({"atoms": ROWS, "batch": 0}, "`batch` must be an integer >= 1. Got 0."),
        ({"atoms": ROWS, "seed": -1}, "`seed` must be an integer >= 0. Got -1."),
        ({"atoms": ROWS, "atol": 0.0}, "`atol` must be a number > 0. Got 0.0."),
        ({"atoms": ROWS, "atol": math.inf}, "`atol` must be finite. Got inf."),
        ({"atoms": ROWS, "atol": 0.1, "queries": 5}, "`queries` must not be given with `atol`"),
        ({"atoms": ROWS, "diameter": 2.0}, "`diameter` must be given with `atol` only. Got 2."),
        ({"atoms": ROWS, "atol": 0.1, "first": -1.0}, "`first` must be a number > 0. Got -1.0."),
    ],
)
def test_wrong_arguments_are_named(wish: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        plan(**wish, calibration=FIXED)


def test_an_option_that_is_not_weighed() -> None:
    with pytest.raises(ValueError, match=r"`name` must be one of scan, int8, .* Got hnsw"):
        million().option("hnsw")
