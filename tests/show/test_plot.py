"""Figures hold the data they were given, survive bad numbers, and are written."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import errno
import os
import subprocess
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from wolfhound.core.contracts import Vector
from wolfhound.show import plot
from wolfhound.solve.result import Trace, TraceRow, picture_trace

PASSES = np.array([0.0, 1.0, 2.0])
SECONDS = np.array([0.0, 0.1, 0.3])
VALUE = np.array([5.0, 4.0, 3.5])
LOWER = np.array([-np.inf, 3.0, 3.499])


def _line(axes: Axes, label: str) -> Line2D:
    return next(line for line in axes.get_lines() if line.get_label() == label)


def trace(value: Vector, lower: Vector) -> Trace:
    rows = zip(value, lower, PASSES, SECONDS, strict=False)
    return Trace.of([TraceRow(t, *row[:3], t, row[3], np.nan, "pass") for t, row in enumerate(rows)])


def draw(value: Vector, lower: Vector, goal: float) -> Figure:
    return plot.draw_all([picture.draw for picture in picture_trace(trace(value, lower), goal=goal)])


def test_a_trace_is_drawn_as_it_is() -> None:
    top, right, bottom, _ = draw(VALUE, LOWER, 1e-2).axes
    np.testing.assert_array_equal(_line(top, "value").get_xydata(), np.column_stack([PASSES, VALUE]))
    np.testing.assert_array_equal(_line(right, "value").get_xdata(), SECONDS)
    np.testing.assert_array_equal(_line(top, "lower bound (proved)").get_ydata(), [np.nan, 3.0, 3.499])
    np.testing.assert_allclose(
        np.asarray(_line(bottom, "gap").get_ydata()), np.array([np.nan, 1.0, 0.001]), rtol=1e-9
    )
    np.testing.assert_array_equal(_line(bottom, "goal").get_ydata(), [1e-2, 1e-2])
    assert bottom.get_yscale() == "log"
    assert top.get_yscale() == "linear"


def test_a_trace_labels_the_axes() -> None:
    figure = draw(VALUE, LOWER, 1e-2)
    assert [axes.get_xlabel() for axes in figure.axes] == 2 * [plot.PASSES, plot.SECONDS]
    assert [axes.get_ylabel() for axes in figure.axes[::2]] == ["f", "proved gap"]
    assert plot.draw_all([lambda axes: None], title="a run").get_suptitle() == "a run"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("value", "lower"),
    [
        ([np.inf, np.inf, np.inf], [-np.inf, -np.inf, -np.inf]),
        ([np.inf, 2.0, 1.0], [-np.inf, 1.0, 1.0]),
        ([1.0, 1.0, 1.0], [1.0, 1.0, 1.0]),
        ([np.nan, 1.0, 1.0], [0.0, 0.0, 2.0]),
        ([], []),
    ],
)
def test_what_is_not_proved_is_drawn_as_far_as_it_goes(
    value: list[float], lower: list[float], tmp_path: Path
) -> None:
    plot.keep(draw(np.array(value), np.array(lower), 0.0), tmp_path / "run.png")
    assert (tmp_path / "run.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
def test_an_empty_run_is_drawn(tmp_path: Path) -> None:
    none = np.empty(0)
    plot.keep(plot.draw_gaps({"a": plot.Run(none, none, none)}), tmp_path / "b.png")
    plot.keep(plot.draw_gaps({"a": plot.Run(SECONDS * 0, SECONDS * 0, PASSES + np.inf)}), tmp_path / "c.png")
    assert (tmp_path / "c.png").stat().st_size > 0


def test_compare_draws_every_run() -> None:
    gaps = {"a": np.array([2.0, 1.0, 0.5]), "b": np.array([np.inf, -1.0, 1e-3])}
    figure = plot.draw_gaps({label: plot.Run(PASSES, SECONDS, gap) for label, gap in gaps.items()}, goal=1e-2)
    left, right = figure.axes
    np.testing.assert_array_equal(_line(left, "a").get_ydata(), gaps["a"])
    np.testing.assert_array_equal(_line(left, "b").get_ydata(), [np.nan, np.nan, 1e-3])
    np.testing.assert_array_equal(_line(right, "a").get_xdata(), [np.nan, 0.1, 0.3])
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["a", "b", "goal"]


def test_curves_have_colours_of_their_own() -> None:
    runs = {str(i): plot.Run(PASSES, SECONDS, VALUE) for i in range(len(plot.COLOURS))}
    lines = plot.draw_gaps(runs).axes[0].get_lines()
    assert len({str(line.get_color()) for line in lines}) == len(plot.COLOURS)


@pytest.mark.parametrize("how_many", [0, len(plot.COLOURS) * len(plot.DASHES) + 1])
def test_compare_refuses_more_runs_than_looks(how_many: int) -> None:
    runs = {str(i): plot.Run(PASSES, SECONDS, VALUE) for i in range(how_many)}
    with pytest.raises(ValueError, match=r"`runs` must be 1 to \d+ runs\. Got \d"):
        plot.draw_gaps(runs)


def test_the_ending_chooses_the_format(tmp_path: Path) -> None:
    figure = plot.draw_gaps({"a": plot.Run(PASSES, SECONDS, VALUE)})
    plot.keep(figure, tmp_path / "a.svg")
    assert "<svg" in (tmp_path / "a.svg").read_text()
    with pytest.raises(ValueError, match="nonsense"):
        plot.keep(figure, tmp_path / "a.nonsense")


@pytest.mark.parametrize("name", ["a", "a.nonsense", "none/a.png", "folder.png", "b.svg/a.png"])
def test_places_that_cannot_be_written_are_refused_by_name(tmp_path: Path, name: str) -> None:
    (tmp_path / "folder.png").mkdir()
    (tmp_path / "b.svg").write_text("old")
    figure = plot.draw_gaps({"a": plot.Run(PASSES, SECONDS, VALUE)})
    with pytest.raises(ValueError, match=r"`path` must be (a file|in a folder).* Got .*/") as raised:
        plot.keep(figure, tmp_path / name)
    assert ".tmp" not in str(raised.value)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["b.svg", "folder.png"]


def test_a_picture_is_written_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "real.png").write_text("old")
    (tmp_path / "a.PNG").symlink_to("real.png")
    figure = plot.draw_gaps({"a": plot.Run(PASSES, SECONDS, VALUE)})
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", _fail)
        with pytest.raises(OSError, match="No space"):
            plot.keep(figure, tmp_path / "a.PNG")
    assert (tmp_path / "real.png").read_text() == "old"
    assert len(list(tmp_path.iterdir())) == 2
    plot.keep(figure, tmp_path / "a.PNG")
    assert (tmp_path / "a.PNG").is_symlink() and (tmp_path / "real.png").read_bytes().startswith(b"\x89PNG")


def _fail(descriptor: int) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


ODD = ("$x_{$", "a $ b", r"\$5 $", "_hidden", "$$", "__", "\udcff")


@pytest.mark.parametrize("name", ODD)
def test_texts_of_users_are_drawn_as_they_stand(tmp_path: Path, name: str) -> None:
    run, ones = plot.Run(PASSES, SECONDS, VALUE), np.ones(3)
    figure = plot.draw_gaps({name: run, "other": run}, title=name)
    assert len(figure.legends[0].get_texts()) == 2
    plot.keep(figure, tmp_path / "a.svg")
    totals = partial(plot.draw_totals, seconds={name: 1.0, "other": 2.0}, marked=name)
    stems = partial(plot.draw_stems, places=ones, weights=ones, x=name, y=name)
    bars = partial(
        plot.draw_bars, names=[name, "2 more"], values=np.array([0.7, 0.3]), x="weight", faint=True
    )
    figure = plot.draw_all([totals, stems, bars], title=name, titles=[name] * 3)
    assert [axes.get_title("left").replace("\n", " ") for axes in figure.axes] == [plot.verbatim(name)] * 3
    plot.keep(figure, tmp_path / "a.png")


@pytest.mark.slow
def test_importing_does_not_load_matplotlib_and_drawing_no_pyplot() -> None:
    code = (
        "import sys, numpy as np; from wolfhound.show import plot; assert 'matplotlib' not in sys.modules;"
        "a = np.ones(2); plot.draw_all([lambda axes: plot.draw_gap(axes, a, a, 'x', goal=1.0)]);"
        "assert 'matplotlib.pyplot' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(("most", "scale"), [(2.0, "linear"), (2000.0, "symlog")])
def test_many_passes_are_drawn_on_a_log_scale(most: float, scale: str) -> None:
    run = plot.Run(np.array([0.0, 1.0, most]), SECONDS, VALUE)
    assert plot.draw_gaps({"a": run}).axes[0].get_xscale() == scale


def test_lines_differ_in_colour_and_in_dashes() -> None:
    axes = plot.make_figure(4.0, 4.0, "").subplots()
    for i in range(12):
        plot.draw_curve(axes, PASSES, VALUE, i, str(i))
    looks = {(str(line.get_color()), str(line._dash_pattern)) for line in axes.get_lines()}  # type: ignore[attr-defined]
    assert len(looks) == 12


def test_far_points_do_not_squash_a_scatter_and_it_is_said() -> None:
    rng = np.random.default_rng(0)
    points = np.concatenate([rng.standard_normal((500, 2)), [[1e6, 0.0], [0.0, -1e6]]])
    axes = plot.make_figure(4.0, 4.0, "").subplots()
    plot.limit_axes(axes, points, "rows")
    assert axes.get_xlim()[1] < 5.0
    assert axes.get_ylim()[0] > -5.0
    assert axes.get_xlabel() == "\n(2 of 502 rows lie outside this picture)"


@given(hnp.arrays(np.float64, st.integers(1, 60), elements=st.floats(-1e6, 1e6)))
def test_limits_hold_nearly_all_and_go_little_beyond(values: Vector) -> None:
    low, high = plot.robust_limits(values)
    assert low < high
    assert np.mean((values < low) | (values > high)) <= max(0.01, 2.0 / len(values)) + 1.0 / len(values)
    room = 0.25 * float(np.ptp(values)) or 1.0
    assert low >= values.min() - room
    assert high <= values.max() + room


def test_without_far_points_nothing_is_left_out() -> None:
    axes = plot.make_figure(4.0, 4.0, "").subplots()
    plot.limit_axes(axes, np.random.default_rng(0).random((300, 2)), "rows")
    assert axes.get_xlabel() == ""


def test_a_legend_hides_nothing() -> None:
    figure = plot.draw_all(
        [lambda axes: plot.draw_gap(axes, PASSES, VALUE, "passes", goal=1.0)], titles=["a title"]
    )
    figure.draw_without_rendering()
    (axes,) = figure.axes
    legend = axes.get_legend()
    assert legend is not None
    box = legend.get_window_extent()
    assert box.y0 >= axes.get_window_extent().y1
    assert axes.title.get_window_extent().y0 >= 0.0
    left = axes._left_title.get_window_extent()  # type: ignore[attr-defined]
    assert left.y0 >= box.y1 - 1.0


def test_bars_hold_one_whole_number_each() -> None:
    months = np.arange(1200.0) % 12.0 + 1.0
    axes = plot.make_figure(4.0, 4.0, "").subplots()
    plot.draw_histograms(axes, months, months[:12], np.full(12, 1 / 12), x="month")
    heights = [bar.get_height() for bar in axes.containers[0]]
    np.testing.assert_allclose(heights, 1 / 12)
    plot.draw_histograms(axes, np.append(months, 1e6), months[:12], np.full(12, 1 / 12), x="month")
    assert "1 of 1,213 rows" in axes.get_xlabel()
