"""Exact designs: apportionment, exchange, and their efficiencies."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wolfhound import AOptimal, DOptimal, Factors, IOptimal, LinearModel, Quadratic, design, encode, load
from wolfhound.designs.exact import apportion
from wolfhound.designs.result import show_efficiency


@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 2**32), k=st.integers(1, 12), runs=st.integers(1, 60))
def test_apportionment_is_efficient(seed: int, k: int, runs: int) -> None:
    weights = np.random.default_rng(seed).dirichlet(np.ones(k))
    counts = apportion(weights, runs)
    assert counts.sum() == runs
    assert (counts >= (runs >= k)).all()
    # Pukelsheim and Rieder: no transfer of one run raises the least n_i / w_i, for runs >= k.
    least = (counts / weights).min() if runs >= k else 0.0
    takers = (counts - 1)[counts > 1] / weights[counts > 1]
    assert runs < k or takers.max(initial=-np.inf) <= least + 1e-9


def _brute(rows: Any, runs: int, value: Any) -> float:
    best = -np.inf
    for chosen in itertools.combinations_with_replacement(range(len(rows)), runs):
        picked = rows[list(chosen)]
        best = max(best, value(picked.T @ picked / runs))
    return best


def _log_det(matrix: Any) -> float:
    return float(np.linalg.slogdet(matrix)[1]) / len(matrix)


def _minus_trace(matrix: Any) -> float:
    singular = np.linalg.cond(matrix) > 1e12
    return -np.inf if singular else -float(np.log(np.trace(np.linalg.inv(matrix))))


@pytest.mark.parametrize(("criterion", "value"), [(DOptimal(), _log_det), (AOptimal(), _minus_trace)])
def test_exchange_comes_close_to_all_combinations(criterion: Any, value: Any) -> None:
    rows = np.random.default_rng(5).standard_normal((9, 2))
    found = design(rows, criterion=criterion)
    for runs in (2, 3, 5):
        exact = found.round(runs)
        picked = np.repeat(rows[exact.ids], exact.counts, axis=0)
        here = value(picked.T @ picked / runs)
        assert here == pytest.approx(_brute(rows, runs, value), abs=0.03)
        assert exact.efficiency <= np.exp(here - value(found.information)) + 1e-9
        assert exact.efficiency >= np.exp(here - value(found.information)) - 1e-5


def test_whole_weights_are_kept() -> None:
    found = design(Factors({"x": np.linspace(-1.0, 1.0, 9)}), model=Quadratic())
    exact = found.round(9)
    assert exact.counts.tolist() == [3, 3, 3]
    assert exact.efficiency > 1.0 - 1e-6
    assert exact.runs == 9
    assert "9 runs at 3 points" in repr(exact)


def test_tables_show_what_was_given() -> None:
    grid = Factors({"temperature": [20.0, 30.0], "catalyst": ["none", "Pd"], "id": [1.0, 2.0]})
    exact = design(grid, model=LinearModel(), criterion=IOptimal()).round(8)
    frame = exact.to_frame()
    assert list(frame.columns) == ["run", "design_id", "temperature", "catalyst", "id"]
    assert len(frame) == 8
    assert set(frame["catalyst"]) == {"none", "Pd"}
    assert set(frame["temperature"]) == {20.0, 30.0}


@pytest.mark.parametrize("runs", [300_000_000, 10**9, 10**15])
def test_huge_plans_make_only_the_runs_that_are_shown(runs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []
    repeat = np.repeat

    def count_rows(values: Any, repeats: Any) -> Any:
        made.append(int(np.sum(repeats)))
        return repeat(values, repeats)

    plan = design(Factors({"x": [-1.0, 0.0, 1.0], "kind": ["a", "b"]}), model=Quadratic()).round(runs)
    assert plan.runs == runs
    monkeypatch.setattr(np, "repeat", count_rows)
    assert f"of {runs:,})" in plan._repr_html_()
    assert f"{runs}" in repr(plan)
    assert plan._repr_html_().count("<tr") <= 40
    assert len(plan.to_frame(most=7)) == 7
    assert max(made) <= 500
    with pytest.raises(ValueError, match=r"`most` must be given for more than 10,000,000 runs"):
        plan.to_frame()
    with pytest.raises(ValueError, match=r"`runs` must be at most 1e\+15"):
        design(np.eye(3)).round(10**15 + 1)


def test_the_first_runs_are_those_of_the_whole_plan() -> None:
    plan = design(Factors({"x": [-1.0, 0.0, 1.0], "kind": ["a", "b"]}), model=Quadratic()).round(11)
    whole = plan.to_columns()
    for most in range(13):
        some = plan.to_columns(most=most)
        assert list(some) == list(whole)
        for name, values in some.items():
            np.testing.assert_array_equal(values, whole[name][:most])


def test_a_seed_shuffles_the_runs() -> None:
    plan = design(Factors({"x": [-1.0, 0.0, 1.0], "kind": ["a", "b"]}), model=Quadratic()).round(11)
    whole, mixed = plan.to_columns(), plan.to_columns(seed=3)
    assert mixed["run"].tolist() == whole["run"].tolist()
    assert mixed["id"].tolist() != whole["id"].tolist()
    assert sorted(mixed["id"]) == sorted(whole["id"])
    np.testing.assert_array_equal(plan.to_frame(most=4, seed=3)["id"], mixed["id"][:4])
    with pytest.raises(ValueError, match="`seed` must be None for more than 10,000,000 runs"):
        design(np.eye(3)).round(10**9).to_frame(most=4, seed=3)


def test_too_few_runs_name_what_they_leave() -> None:
    found = design(Factors({"a": [0.0, 1.0], "b": [0.0, 1.0]}), model=LinearModel())
    with pytest.raises(
        ValueError, match=r"at least 3 for 3 terms\. Got 2, which leaves 1 group of aliased terms"
    ):
        found.round(2)
    more = design(
        Factors({"a": [0.0, 1.0], "b": [0.0, 1.0]}), model=LinearModel(), given=[[0.0, 0.0]], runs=2
    )
    assert more.round(2).efficiency > 0.5
    with pytest.raises(ValueError, match="`runs` must be 2"):
        more.round(3)


def test_a_saved_design_rounds_too(tmp_path: Any) -> None:
    rows = np.random.default_rng(0).standard_normal((500, 3))
    found = design(rows)
    found.save(tmp_path / "plan")
    back = load(tmp_path / "plan", rows)
    for name in ("ids", "weights", "information", "settings"):
        np.testing.assert_array_equal(getattr(back, name), getattr(found, name))
    assert (back.efficiency, back.model, back.status) == (found.efficiency, found.model, found.status)
    assert back.round(12).efficiency == pytest.approx(found.round(12).efficiency, abs=0.02)
    assert repr(back) == repr(found)


def test_efficiencies_are_never_shown_above() -> None:
    assert show_efficiency(0.99876) == "0.9987"
    assert show_efficiency(1.0 - 2.5e-9) == "1 - 2.5e-09"


@pytest.mark.parametrize("names", [("id", "t"), ("run", "id_"), ("weight", "id"), ("id", "design_id")])
def test_factors_keep_their_names_whatever_they_are(names: tuple[str, str]) -> None:
    candidates = Factors(dict(zip(names, ([1.0, 2.0, 3.0], [0.0, 1.0]), strict=True)))
    plan = design(candidates, model=LinearModel())
    runs = plan.round(4)
    for found in (plan, runs):
        columns = found.to_columns()
        assert len(columns) == len(names) + 2
        np.testing.assert_array_equal(np.transpose([columns[name] for name in names])[0], found.settings[0])
        more = design(candidates, model=LinearModel(), given=found.to_frame(), runs=4)
        assert np.abs(more.given).max() <= 1.0
    assert "design_id" in design(Factors({"id": [0.0, 1.0]}), model=LinearModel()).to_columns()


def test_given_runs_that_are_left_out_are_said(tmp_path: Path) -> None:
    done = pd.DataFrame({"x": [0.0, np.nan, 2.0]})
    plan = design(Factors({"x": [0.0, 1.0, 2.0]}), model=LinearModel(), given=done, runs=4)
    assert len(plan.given) == 2
    assert "1 of 3 rows left out for missing values: x (1)" in repr(plan)
    plan.save(tmp_path / "plan")
    assert load(tmp_path / "plan").given_table == plan.given_table


def test_options_of_rows_that_are_coded_are_refused() -> None:
    rows = encode(pd.DataFrame({"a": [0.0, 1.0, 2.0], "b": [0.0, 1.0, 0.0]}))
    with pytest.raises(ValueError, match="`columns` and `numeric_only` must be left out"):
        design(rows, model=LinearModel(), columns=["a"])
