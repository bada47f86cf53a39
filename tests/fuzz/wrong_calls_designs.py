"""Wrong uses of designs: what is called, what the error must name."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

import wolfhound
from tests.fuzz.wrong_calls import Wrong

wh: Any = wolfhound

ROWS = np.random.default_rng(0).standard_normal((40, 3))
FLAT = np.column_stack([ROWS, ROWS[:, 0]])
HOLE = np.where(ROWS > 1.5, np.nan, ROWS)
GRID = wh.Factors({"a": [0.0, 1.0, 2.0], "b": ["x", "y"]})
PLAN = wh.design(GRID, model=wh.LinearModel())
MORE = wh.design(ROWS, given=ROWS[:4], runs=6)


def _design(candidates: Any = ROWS, **options: Any) -> Callable[[], object]:
    return lambda: wh.design(candidates, **options)


def _bad_model(rows: Any) -> Any:
    return rows.sum()


CANDIDATES: dict[str, tuple[Any, tuple[str, ...]]] = {
    "None": (None, ("`candidates`",)),
    "a number": (5, ("`candidates`", "2 axes")),
    "a vector": (np.ones(3), ("`candidates`", "(3,)")),
    "empty": (np.empty((0, 3)), ("`candidates`", "(0, 3)")),
    "texts": (np.array([["a", "b"]]), ("`candidates`", "real numbers")),
    "holes": (HOLE, ("finite", "nan")),
    "flat": (FLAT, ("`model`", "x1 ~ x4")),
    "zeros": (np.zeros((9, 2)), ("`model`", "aliased", "x1")),
    "too few": (ROWS[:2], ("`model`", "aliased")),
    "huge": (1e90 * ROWS, ("`candidates`", "1e+70")),
    "tiny": (1e-90 * ROWS, ("`candidates`", "1e-70")),
    "a plain oracle": (wh.Scan(ROWS), ("`candidates`", "FormScan")),
    "categories": (GRID, ("`model`", "LinearModel()", "'b'")),
    "names": (
        pd.DataFrame({"n": [f"r{i}" for i in range(99)]}),
        ("`candidates`", "n (more than 64 different"),
    ),
    "an empty frame": (pd.DataFrame({"n": np.empty(0)}), ("`candidates`", "rows")),
}

OPTIONS: list[tuple[str, Callable[[], object], tuple[str, ...]]] = [
    ("criterion='Q'", _design(criterion="Q"), ("`criterion`", "D, A, I", "'Q'")),
    ("criterion=DOptimal", _design(criterion=wh.DOptimal), ("`criterion`", "the class DOptimal")),
    ("region=vector", _design(criterion=wh.IOptimal(np.ones(3))), ("`region`",)),
    ("region=narrow", _design(criterion=wh.IOptimal(np.ones((2, 2)))), ("`region`", "3 columns")),
    ("model='cubic'", _design(model="cubic"), ("`model`", "quadratic", "'cubic'")),
    ("model=Quadratic", _design(model=wh.Quadratic), ("`model`", "Quadratic()")),
    ("model=function", _design(model=_bad_model), ("`model`", "one row of terms per row")),
    ("Quadratic(1)", lambda: wh.Quadratic(1), ("`intercept`", "True or False", "1")),
    ("Interactions('a')", lambda: wh.Interactions("a"), ("`intercept`", "'a'")),
    ("LinearModel(None)", lambda: wh.LinearModel(None), ("`intercept`", "None")),
    ("given without runs", _design(given=ROWS[:2]), ("`runs`", "`given`")),
    ("given narrow", _design(given=ROWS[:, :2], runs=3), ("`given`", "3 columns")),
    ("given texts", _design(GRID, model=wh.LinearModel(), given=[[0.0, 7.0]], runs=3), ("b", "place")),
    ("runs=0", _design(given=ROWS[:2], runs=0), ("`runs`", ">= 1", "0")),
    ("exclude=all", _design(exclude=np.arange(40)), ("`exclude`", "fewer than all")),
    ("exclude=99", _design(exclude=[99]), ("`exclude`", "[0, 40)")),
    ("exclude=twice", _design(exclude=[1, 1]), ("`exclude`", "distinct")),
    ("efficiency=1", _design(efficiency=1.0), ("`efficiency`", "(0, 1)")),
    ("efficiency='a'", _design(efficiency="a"), ("`efficiency`", "'a'")),
    ("max_passes=-1", _design(max_passes=-1), ("`max_passes`", ">= 0")),
    ("max_seconds='a'", _design(max_seconds="a"), ("`max_seconds`", "'a'")),
    ("seed=-1", _design(seed=-1), ("`seed`", ">= 0")),
    ("Factors(list)", lambda: wh.Factors([1, 2]), ("`levels`", "mapping")),
    ("Factors({})", lambda: wh.Factors({}), ("`levels`", "at least one")),
    ("Factors(empty)", lambda: wh.Factors({"a": []}), ("levels of a",)),
    ("Factors(number)", lambda: wh.Factors({"a": 5}), ("levels of a", "5")),
    ("Factors(twice)", lambda: wh.Factors({"a": [1, 1]}), ("levels of a", "distinct")),
    ("Factors(nan)", lambda: wh.Factors({"a": [1.0, np.nan]}), ("levels of a", "finite")),
    ("Factors(endless)", lambda: wh.Factors({str(i): range(9) for i in range(40)}), ("`levels`", "2^62")),
    ("round(0)", lambda: PLAN.round(0), ("`runs`", ">= 1")),
    ("round('a')", lambda: PLAN.round("a"), ("`runs`", "'a'")),
    ("round(2)", lambda: PLAN.round(2), ("`runs`", "at least 3", "aliased")),
    ("round(max_passes)", lambda: PLAN.round(6, max_passes=-1), ("`max_passes`", ">= 0")),
    ("round(other)", lambda: MORE.round(7), ("`runs`", "6", "7")),
    ("variance(narrow)", lambda: PLAN.variance([[1.0]]), ("`atoms`", "2 columns")),
    ("variance(level)", lambda: PLAN.variance([[1.0, 9.0]]), ("b", "2 levels")),
    ("ellipsoid(flat)", lambda: wh.enclosing_ellipsoid(FLAT), ("`points`", "x1 ~ x4", "leave out")),
    ("ellipsoid(same)", lambda: wh.enclosing_ellipsoid(np.ones((9, 2))), ("`points`", "constant")),
    ("ellipsoid(holes)", lambda: wh.enclosing_ellipsoid(HOLE), ("`points`", "finite")),
    ("ellipsoid(huge)", lambda: wh.enclosing_ellipsoid(1e90 * ROWS), ("`points`", "1e+70")),
    ("ellipsoid(max_seconds)", lambda: wh.enclosing_ellipsoid(ROWS, max_seconds=-1), ("`max_seconds`",)),
    ("round(endless)", lambda: PLAN.round(10**30), ("`runs`", "1e+15")),
    ("to_frame(most=-1)", lambda: PLAN.round(6).to_frame(most=-1), ("`most`", ">= 0")),
    ("to_frame(huge)", lambda: PLAN.round(10**9).to_frame(), ("`most`", "`counts`")),
    ("region=zeros", _design(criterion=wh.IOptimal(0.0 * ROWS)), ("`region`", "zero")),
    ("region=holes", _design(criterion=wh.IOptimal(HOLE)), ("`region`", "finite")),
    ("ellipsoid(vector)", lambda: wh.enclosing_ellipsoid(np.ones(3)), ("`points`",)),
    ("ellipsoid(ratio)", lambda: wh.enclosing_ellipsoid(ROWS, ratio=1.0), ("`ratio`", "(0, 1)")),
    ("FormScan(None)", lambda: wh.FormScan(None), ("`atoms`",)),
    ("FormScan.query(3)", lambda: wh.FormScan(ROWS).query(np.ones((1, 3))), ("`queries`", "(m, 6)")),
    ("FormScan.query(k=0)", lambda: wh.FormScan(ROWS).query(np.ones((1, 6)), k=0), ("`k`", ">= 1")),
    ("FormScan(huge)", lambda: wh.FormScan(1e90 * ROWS).query(np.ones((1, 6))), ("`atoms`", "1e+75")),
]

CALLS: list[Wrong] = [
    *(Wrong(f"design({name})", _design(value), words) for name, (value, words) in CANDIDATES.items()),
    *(Wrong(*each) for each in OPTIONS),
]
