"""Factors, codings and models."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import wolfhound
from wolfhound import Factors, Interactions, LinearModel, Quadratic, design
from wolfhound.core.threads import set_threads
from wolfhound.designs.factors import Coding, TermMap, read_factors

GRID = Factors({"t": [300.0, 350.0, 400.0], "kind": ["a", "b", "c"], "p": [1.0, 2.0]})


def test_a_grid_has_all_combinations() -> None:
    assert GRID.shape == (18, 3)
    rows = GRID.take(np.arange(18))
    assert len(np.unique(rows, axis=0)) == 18
    np.testing.assert_array_equal(np.concatenate([block for _, block in GRID.blocks(5)]), rows)
    assert repr(GRID) == "Factors(t: 3, kind: 3, p: 2)"
    huge = Factors({f"x{i}": np.linspace(-1.0, 1.0, 11) for i in range(15)})
    assert huge.shape[0] == 11**15
    np.testing.assert_array_equal(huge.take(np.array([11**15 - 1])), np.ones((1, 15)))


def test_a_grid_is_a_frame_of_what_was_written() -> None:
    frame = GRID.to_frame()
    assert list(frame.columns) == ["t", "kind", "p"]
    assert frame.iloc[7].tolist() == [350.0, "a", 2.0]
    with pytest.raises(ValueError, match="at most 10,000,000 combinations"):
        Factors({f"x{i}": np.arange(20.0) for i in range(6)}).to_frame()


@pytest.mark.parametrize(
    ("model", "names"),
    [
        (LinearModel(), "1 t kind[a] kind[b] p"),
        (LinearModel(intercept=False), "t kind[a] kind[b] p"),
        (Interactions(), "1 t kind[a] kind[b] p t*kind[a] t*kind[b] t*p kind[a]*p kind[b]*p"),
        (Quadratic(), "1 t kind[a] kind[b] p t^2 t*kind[a] t*kind[b] t*p kind[a]*p kind[b]*p p^2"),
    ],
)
def test_terms(model: Any, names: str) -> None:
    terms = TermMap(model, Coding(GRID.columns, np.array([350.0, 0.0, 1.5]), np.array([50.0, 1.0, 0.5])))
    assert " ".join(terms.names) == names
    row = terms(np.array([[400.0, 2.0, 1.0]]))[0]
    values = {"1": 1.0, "t": 1.0, "kind[a]": -1.0, "kind[b]": -1.0, "p": -1.0}
    parts = [name.replace("t^2", "t*t").replace("p^2", "p*p").split("*") for name in terms.names]
    np.testing.assert_array_equal(row, [np.prod([values[part] for part in each]) for each in parts])
    assert terms(np.zeros((2, 3), np.float32)).dtype == np.float32


def test_frames_files_and_grids_give_the_same_design(tmp_path: Path) -> None:
    rows = GRID.take(np.arange(18))
    frame = pd.DataFrame({"t": rows[:, 0], "kind": [GRID.columns[1].levels[int(i)] for i in rows[:, 1]]})
    frame["p"] = rows[:, 2]
    frame.to_csv(tmp_path / "c.csv", index=False)
    frame.to_parquet(tmp_path / "c.parquet")
    ways: list[Any] = [GRID, frame, tmp_path / "c.csv", tmp_path / "c.parquet"]
    found = [design(way, model=Interactions()) for way in ways]
    for each in found[1:]:
        assert each.efficiency > 1.0 - 1e-6
        np.testing.assert_allclose(
            np.linalg.det(each.information), np.linalg.det(found[0].information), rtol=1e-4
        )
    assert found[1].columns[-1].levels == ("a", "b", "c")
    at = frame.iloc[[0, 7]][["p", "kind", "t"]]
    np.testing.assert_allclose(found[2].variance(at), found[1].variance(at), rtol=1e-4)
    assert found[1].to_frame().shape[1] == 5


def test_wrong_tables_are_named(tmp_path: Path) -> None:
    frame = pd.DataFrame({"x": [1.0, 2.0, 3.0], "kind": ["a", "b", "b"]})
    known = read_factors(frame, "candidates")[1]
    with pytest.raises(
        ValueError, match=r"`given` must be a table with the columns that count\. Got no kind"
    ):
        read_factors(frame[["x"]], "given", known)
    with pytest.raises(ValueError, match="`kind` must be one of a, b"):
        read_factors(frame.replace("b", "z"), "given", known)
    with pytest.raises(ValueError, match=r"Got name \(more than 64 different texts\)"):
        read_factors(pd.DataFrame({"name": [f"r{i}" for i in range(70)]}), "candidates")
    with pytest.raises(ValueError, match="rows of 2 columns"):
        read_factors(np.ones((2, 3)), "given", known)
    frame.to_csv(tmp_path / "c.csv", index=False)
    with pytest.raises(ValueError, match=r"`columns` must be among x, kind\. Got y"):
        read_factors(tmp_path / "c.csv", "candidates", columns=["y"])


def test_threads_do_not_matter() -> None:
    rows = np.random.default_rng(0).standard_normal((70_000, 5)).astype(np.float32)
    answers = []
    try:
        for threads in (1, 2):
            set_threads(threads)
            answers.append(design(rows))
    finally:
        set_threads(None)
    np.testing.assert_array_equal(answers[0].ids, answers[1].ids)
    np.testing.assert_array_equal(answers[0].weights, answers[1].weights)
    assert answers[0].efficiency == answers[1].efficiency


def test_levels_of_one_factor_are_named(tmp_path: Path) -> None:
    figure = design(Factors({"catalyst": ["none", "zinc", "iron"]}), model=LinearModel()).plot(
        tmp_path / "a.svg"
    )
    assert [label.get_text() for label in figure.axes[0].get_xticklabels()] == ["none", "zinc", "iron"]


@pytest.mark.parametrize("name", ["$x_{$", "a $ b", "_hidden"])
def test_names_are_drawn_as_they_stand(tmp_path: Path, name: str) -> None:
    found = design(Factors({name: [name, f"{name} 2", "c"], "x": [-1.0, 1.0]}), model=LinearModel())
    legend = found.plot(tmp_path / "a.svg").axes[1].get_legend()
    assert legend is not None
    shown = [text.get_text().lstrip("\u200b") for text in legend.get_texts()]
    assert shown == [name.replace("$", r"\$"), "x"]


def test_pictures(tmp_path: Path) -> None:
    design(GRID, model=Interactions()).plot(tmp_path / "a.png")
    design(Factors({"x": [-1.0, 0.0, 1.0]}), model=Quadratic()).plot(tmp_path / "b.svg", title="one factor")
    assert (tmp_path / "a.png").read_bytes()[:4] == b"\x89PNG"
    assert "one factor" in (tmp_path / "b.svg").read_text()


@pytest.mark.parametrize(
    ("name", "number"), [("half", 0.0), ("half", 1e-310), ("half", -1.0), ("centre", 1e300)]
)
def test_a_forged_coding_is_refused(name: str, number: float, tmp_path: Path) -> None:
    found = design(np.array([[0.0, 1.0], [2.0, 5.0], [7.0, 3.0], [4.0, 9.0]]), model=LinearModel())
    forged: dict[str, Any] = {name: (number, *getattr(found.model, name)[1:])}
    model = found.model._replace(**forged)
    replace(found, model=model).save(tmp_path / "forged")
    with pytest.raises(ValueError, match=name):
        wolfhound.load(tmp_path / "forged")


def test_a_rule_excludes_candidates() -> None:
    grid = Factors({"t": np.linspace(20.0, 100.0, 9), "catalyst": ["none", "Pd"], "p": [1.0, 2.0, 3.0]})
    found = design(grid, model="quadratic", exclude=lambda x: (x["t"] > 50) & (x["catalyst"] == "Pd"))
    frame = grid.to_frame()
    ids = np.flatnonzero((frame["t"] > 50) & (frame["catalyst"] == "Pd"))
    np.testing.assert_array_equal(found.weights, design(grid, model="quadratic", exclude=ids).weights)
    assert not np.isin(found.ids, ids).any()
    with pytest.raises(ValueError, match="`exclude` must be a rule of one truth per candidate"):
        design(grid, model="linear", exclude=lambda x: x["t"])


def test_all_factors_are_drawn() -> None:
    names = "abcde"
    grid = Factors({name: [-1.0, 1.0] for name in names})
    plan = design(grid, model="linear").round(8)
    titles = [picture.title for picture in plan.summary().pictures()]
    assert [title.split(":")[1].split(",")[0] for title in titles] == [" a and b", " c and d", " e"]
    assert len(plan.plot().axes) == 3
