"""Formulas make the terms that they say, expressions exclude what they say, mistakes are named."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pickle
import sys

import numpy as np
import pytest

from wolfhound import Factors, design
from wolfhound.designs.factors import Formula

GRID = Factors({"t": [20.0, 40.0, 60.0, 80.0, 100.0], "p": [1.0, 2.0, 3.0], "cat": ["none", "Pd", "Pt"]})
TEXT = "1 + t * p + C(cat) + I(t**2)"
HOT = "t > 80 and cat == 'Pd'"


def test_terms_are_those_of_the_formula() -> None:
    rows = GRID.take(np.arange(GRID.shape[0]))
    formula = Formula(TEXT, GRID.columns, rows)
    assert formula.names == ("1", "t", "p", "C(cat)[T.Pd]", "C(cat)[T.Pt]", "I(t ** 2)", "t:p")
    t, p, cat = rows.T
    expected = np.stack([t**0, t, p, cat == 1.0, cat == 2.0, t**2, t * p], axis=1)
    np.testing.assert_array_equal(formula(rows), expected)
    # A block without some category has the same terms, and so has a copy in another process.
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(formula))(rows[:1]), expected[:1])
    assert formula(rows.astype(np.float32)).dtype == np.float32


def test_what_a_term_learns_it_learns_once() -> None:
    rows = GRID.take(np.arange(GRID.shape[0]))
    formula = Formula("0 + center(t)", GRID.columns, rows)
    np.testing.assert_allclose(formula(rows[:2])[:, 0], rows[:2, 0] - 60.0, rtol=1e-15)


def test_a_formula_and_an_expression_plan_what_functions_do() -> None:
    found = design(GRID, model=TEXT, exclude=HOT)
    allowed = GRID.to_frame().query(f"not ({HOT})").index
    formula = Formula(TEXT, GRID.columns, GRID.take(np.arange(GRID.shape[0])))
    other = design(GRID, model=formula, exclude=lambda x: (x["t"] > 80) & (x["cat"] == "Pd"))
    sizes = [np.linalg.slogdet(each.information)[1] for each in (found, other)]
    assert abs(sizes[0] - sizes[1]) < 1e-4
    assert set(other.ids.tolist()) <= set(allowed)
    assert set(found.ids.tolist()) <= set(allowed)
    assert found.efficiency > 0.999999
    assert found.model.terms == formula.names
    assert design(GRID.to_frame(), model=TEXT, exclude=HOT).efficiency > 0.999999


@pytest.mark.parametrize(
    ("model", "why"),
    [
        ("t + speed", "a formula of t, p, cat, .*`speed` is not present"),
        ("t +* p", "a formula of t, p, cat, .*incorrectly used"),
        ("p ~ t", ".*without a left side. Got p ~ t"),
        ("0", ".*at least one term"),
        ("cubic", "one of linear, interactions, quadratic"),
    ],
)
def test_formulas_that_are_none_are_named(model: str, why: str) -> None:
    with pytest.raises(ValueError, match=f"`model` must be {why}"):
        design(GRID, model=model)


@pytest.mark.parametrize(
    ("exclude", "why"),
    [
        ("t >", "an expression of t, p, cat, .*invalid syntax"),
        ("speed > 3", "an expression of t, p, cat, .*'speed' is not defined"),
        ("cat > 3", "an expression of t, p, cat"),
        ("t", "a rule of one truth per candidate"),
        ("t.max() > 3", "a rule of one truth per candidate"),
    ],
)
def test_expressions_that_are_none_are_named(exclude: str, why: str) -> None:
    with pytest.raises(ValueError, match=f"`exclude` must be {why}"):
        design(GRID, model="linear", exclude=exclude)


def test_without_formulaic_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "formulaic", None)
    with pytest.raises(ImportError, match=r"pip install \"wolfhound\[formulas\]\""):
        design(GRID, model=TEXT)
