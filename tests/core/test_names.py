"""Names as people type them, at the doors of the package."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

import wolfhound as wh

ROWS = np.random.default_rng(0).standard_normal((60, 3))
GRID = wh.Factors({"t": [-1.0, 0.0, 1.0], "p": [-1.0, 0.0, 1.0]})


def test_a_name_of_a_kernel() -> None:
    named = wh.herd(ROWS, 5, kernel="laplace")
    np.testing.assert_array_equal(named.ids, wh.herd(ROWS, 5, kernel=wh.Laplace()).ids)
    assert named.space == wh.herd(ROWS, 5, kernel=wh.Laplace()).space
    with pytest.raises(ValueError, match=r"`kernel` must be one of gaussian, .* Got 'rbf'\."):
        wh.herd(ROWS, 5, kernel="rbf")


def test_names_of_models_and_criteria() -> None:
    named = wh.design(GRID, model="quadratic", criterion="A")
    made = wh.design(GRID, model=wh.Quadratic(), criterion=wh.AOptimal())
    np.testing.assert_array_equal(named.weights, made.weights)
    assert named.criterion == "A"
    with pytest.raises(ValueError, match=r"`model` must be one of linear, .* Got 'cubic'\."):
        wh.design(GRID, model="cubic")
    with pytest.raises(ValueError, match=r"`criterion` must be one of D, A, I. Got 'E'\."):
        wh.design(GRID, criterion="E")


def test_names_of_columns_and_of_what_missing_values_do() -> None:
    frame = pd.DataFrame(ROWS, columns=["a", "b", "c"])
    frame.loc[3, "a"] = np.nan
    one = wh.herd(frame, 5, columns="b", missing="drop")
    np.testing.assert_array_equal(one.ids, wh.herd(frame, 5, columns=["b"]).ids)
    assert wh.design(frame, model="linear", columns="a", missing="mean").settings.shape[1] == 1
    assert wh.npmle(frame["a"], wh.Normal(), missing="drop").ids is not None


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (lambda: wh.herd(ROWS, 5, stratify="y"), r"herd\(\) takes no `stratify`. Did you mean `by`\?"),  # type: ignore[call-arg]
        (lambda: wh.herd(ROWS, 5, strata="y"), r"herd\(\) takes no `strata`. Did you mean `by`\?"),  # type: ignore[call-arg]
        (lambda: wh.herd(ROWS, 5, random_state=1), "Did you mean `seed`?"),  # type: ignore[call-arg]
        (lambda: wh.herd(ROWS, 5, blue=1), r"herd\(\) takes no `blue`\.$"),  # type: ignore[call-arg]
        (lambda: wh.minimize_many(ROWS, ROWS, tol=1.0), "Did you mean `rtol`?"),  # type: ignore[call-arg]
        (lambda: wh.design(GRID, modle="linear"), "Did you mean `model`?"),  # type: ignore[call-arg]
        (lambda: wh.minimize(wh.SquaredDistance(ROWS[0]), ROWS, maxiter=3), "`max_steps`"),  # type: ignore[call-arg]
    ],
)
def test_a_wrong_keyword_gets_a_suggestion(call: Callable[[], Any], told: str) -> None:
    with pytest.raises(TypeError, match=told):
        call()


@pytest.mark.parametrize("word", ["search", "kneighbors"])
def test_a_word_of_another_library_gets_a_suggestion(word: str) -> None:
    with pytest.raises(AttributeError, match=f"no attribute '{word}'. Did you mean `query`?"):
        getattr(wh.Scan(ROWS), word)
    with pytest.raises(AttributeError, match=r"Did you mean `append`\?"):
        wh.ClusterIndex.build(ROWS).add  # noqa: B018
    assert not hasattr(wh.Scan(ROWS), "__array_interface__")


def test_signatures_are_those_of_the_functions() -> None:
    assert list(inspect.signature(wh.minimize).parameters)[:2] == ["objective", "atoms"]
    assert "hull" in (wh.minimize.__doc__ or "")
