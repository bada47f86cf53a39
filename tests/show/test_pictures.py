"""`plot` of every result: a figure of matplotlib, written if a path is given, and nothing shown."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure

import wolfhound as wh
from tests.show.cases import CASES, HOSTILE, make
from wolfhound.herding.result import group_labels, project_rows
from wolfhound.many.result import draw_errors
from wolfhound.show import plot

WITHOUT = ("Ellipsoid", "several")


@pytest.mark.parametrize("name", [name for name in CASES if name not in WITHOUT])
def test_every_result_is_drawn(name: str, tmp_path: Path) -> None:
    figure = make(name).plot(tmp_path / "a.svg")
    assert isinstance(figure, Figure)
    assert all(axes.has_data() for axes in figure.axes)
    assert (tmp_path / "a.svg").stat().st_size > 1000


def test_classes_are_coloured_and_far_rows_are_told() -> None:
    scatter = make("HerdResult").plot().axes[1]
    names = [text.get_text() for text in scatter.get_legend().get_texts()]
    assert names == ["rows (a sample)", HOSTILE, "other"]
    colours = [tuple(dots.get_facecolor()[0]) for dots in scatter.collections]
    assert len(set(colours)) == 3
    assert scatter.get_xlabel().endswith("\n(1 of 620 rows lie outside this picture)")


def test_labels_are_drawn_as_they_stand(tmp_path: Path) -> None:
    rows = np.random.default_rng(0).standard_normal((200, 3))
    labels = np.where(rows[:, 0] > 0.0, "$x_{$", "_y")
    legend = wh.herd(rows, 20, by=labels).plot(tmp_path / "a.svg").axes[1].get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == ["rows (a sample)", r"\$x_{\$", "\u200b_y"]


def test_a_far_row_does_not_choose_the_axes() -> None:
    rows = np.random.default_rng(0).standard_normal((500, 3)) * [10.0, 1.0, 0.1]
    rows[0] = [0.0, 0.0, 1e9]
    others, _ = project_rows(rows, rows[:2])
    np.testing.assert_allclose(np.abs(np.corrcoef(others[1:, 0], rows[1:, 0])[0, 1]), 1.0, atol=1e-2)


def test_many_labels_share_the_last_colour() -> None:
    groups = group_labels(np.arange(40) % 9, 40)
    assert list(groups)[-1] == "4 other labels"
    assert sum(which.sum() for which in groups.values()) == 40
    assert group_labels(None, 3)["chosen"].all()


@pytest.mark.parametrize(("family", "name"), [(wh.Binomial, "n"), (wh.Poisson, "exposure")])
def test_counts_of_unequal_size_are_drawn_as_rates(family: Any, name: str) -> None:
    random = np.random.default_rng(0)
    sizes = random.integers(20, 400, 80)
    fit = wh.npmle(random.binomial(sizes, random.beta(4.0, 16.0, 80)), family(sizes))
    axes = fit.plot().axes[1]
    assert axes.get_xlabel() == f"rate, x / {name}"
    data, fitted = (steps.get_data() for steps in axes.patches)  # type: ignore[attr-defined]
    np.testing.assert_allclose(data.values.sum(), 1.0)
    assert 0.9 < fitted.values.sum() <= 1.0 + 1e-9
    rates = 0.5 * (data.edges[1:] + data.edges[:-1])
    np.testing.assert_allclose(rates @ fitted.values, rates @ data.values, rtol=0.1)


def test_a_map_says_what_it_leaves_out() -> None:
    distance = np.ones(100) + 0.01 * np.arange(100)
    distance[3], distance[4] = np.nan, 1e6
    axes = plot.make_figure(4.0, 4.0, "").subplots()
    draw_errors(axes, distance, (10, 10))
    assert axes.get_title(loc="right") == "1 of 100 not solved, 1 beyond the colours"
    assert axes.images[0].get_clim()[1] < 3.0


def test_nothing_to_draw_is_refused() -> None:
    with pytest.raises(ValueError, match="nothing to draw"):
        make("Ellipsoid").plot()
