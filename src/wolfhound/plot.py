"""Plain arrays -> matplotlib figures: the way to a proof, a plan, a herd.

The only importer of matplotlib. Figures are made without pyplot, so nothing is
global and no display is needed.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from wolfhound.core import Matrix, Vector
from wolfhound.validate import path as checked_path
from wolfhound.validate import require

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
"""Okabe and Ito's palette: distinct for colour-blind readers and in grey."""

_MARKERS = ("o", "s", "^", "D", "v", "P")
_GREY = "#666666"
_PASSES = "passes over all atoms"
_FEW = 40  # states up to which each one gets a marker
_FEW_PASSES = 12.0  # up to which a linear axis shows them all


class Run(NamedTuple):
    """One curve of `draw_gaps`.

    Parameters
    ----------
    passes, seconds, gap : (states,)
        Cost so far, twice, and the proved gap there. Gaps that are not finite
        and positive are not drawn.
    """

    passes: Vector
    seconds: Vector
    gap: Vector


def draw_convergence(
    *,
    passes: Vector,
    seconds: Vector,
    value: Vector,
    lower: Vector,
    goal: float | None = None,
    title: str = "",
) -> Figure:
    """Draw value, lower bound and gap against passes and against seconds.

    Parameters
    ----------
    passes, seconds, value, lower : (states,)
        Columns of a trace.
    goal
        Wanted gap, drawn as a dashed line.
    title
        Heading; empty for none.

    Examples
    --------
    >>> one = np.array([0.0, 1.0])
    >>> figure = draw_convergence(passes=one, seconds=one, value=3.0 - one, lower=one)
    >>> [axes.get_xlabel() for axes in figure.axes]
    ['', '', 'passes over all atoms', 'seconds']
    """
    figure = make_figure(9.0, 5.6, title)
    grid = figure.subplots(2, 2, sharex="col", sharey="row")
    with np.errstate(invalid="ignore"):  # infinities have no difference
        gap = _positive(value - lower)
    for column, cost in enumerate((passes, seconds)):
        top, bottom = grid[:, column]
        _curve(top, cost, value, 0, "value")
        _curve(top, cost, lower, 1, "lower bound (proved)")
        _curve(bottom, cost, gap, 2, "gap")
        _goal(bottom, goal)
    _use_log(grid[1, 0].set_yscale, gap)
    grid[1, 0].locator_params(axis="x", integer=True)
    finish_axes(grid[0, 0], y="f")
    finish_axes(grid[0, 1], legend=True)
    finish_axes(grid[1, 0], _PASSES, "proved gap")
    finish_axes(grid[1, 1], "seconds", legend=True)
    return figure


def draw_gaps(runs: Mapping[str, Run], *, goal: float | None = None, title: str = "") -> Figure:
    """Draw the proved gaps of several runs against passes and seconds.

    Parameters
    ----------
    runs
        Label -> curve, drawn in this order.
    goal
        Wanted gap, drawn as a dashed line.
    title
        Heading; empty for none.
    """
    require(0 < len(runs) <= len(COLOURS), "runs", f"1 to {len(COLOURS)} runs", f"{len(runs)} runs")
    figure = make_figure(9.0, 3.9, title)
    left, right = figure.subplots(1, 2, sharey=True)
    for i, (label, run) in enumerate(runs.items()):
        gap = _positive(run.gap)
        _curve(left, run.passes, gap, i, label)
        _curve(right, _positive(run.seconds), gap, i, label)
    _scale_passes(left, max(float(run.passes.max(initial=1.0)) for run in runs.values()))
    _use_log(right.set_xscale, *(run.seconds for run in runs.values()))
    _use_log(left.set_yscale, *(run.gap for run in runs.values()))
    for axes in (left, right):
        _goal(axes, goal)
    finish_axes(left, _PASSES, "proved gap")
    finish_axes(right, "seconds")
    _legend_below(figure, left, len(runs) + 1)
    return figure


def draw_tradeoff(
    *,
    sizes: Vector,
    scored: Mapping[str, Vector],
    n: float,
    ratios: Vector,
    seconds: Mapping[str, Vector],
    levels: Mapping[str, float],
    ratio: float,
    title: str = "",
) -> Figure:
    """Draw atoms scored against n, and the total time against the gap ratio.

    Parameters
    ----------
    sizes : (s,)
        Numbers of atoms.
    scored
        Label -> (s,) atoms that a query scores.
    n
        The number of atoms to be marked.
    ratios : (r,)
        Gap ratios.
    seconds
        Label -> (r,) total times.
    levels
        Label -> total time that no ratio changes, drawn as a dashed line.
    ratio
        The gap ratio to be marked.
    title
        Heading; empty for none.
    """
    figure = make_figure(11.0, 5.0, title)
    left, right = figure.subplots(1, 2)
    for i, (label, counts) in enumerate(scored.items()):
        _curve(left, sizes, counts, i, label)
    left.plot(sizes, sizes, color=_GREY, linestyle="--", linewidth=1.0, label="scan: all n")
    for i, (label, times) in enumerate(seconds.items()):
        _curve(right, ratios, _positive(times), i, label)
    for i, (label, level) in enumerate(levels.items(), len(seconds)):
        right.axhline(level, color=COLOURS[i % len(COLOURS)], linestyle="--", linewidth=1.4, label=label)
    finish_axes(left, "atoms n", "atoms scored per query")
    finish_axes(right, "gap ratio c", "seconds in all")
    left.set_xscale("log")
    for axes, marked in ((left, n), (right, ratio)):
        axes.axvline(marked, color=_GREY, linestyle=":", linewidth=1.0)
        axes.set_yscale("log")
        axes.legend(frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.14), ncols=3, fontsize=8)
    return figure


def draw_herd(
    *,
    sizes: Vector,
    mmd: Vector,
    random: Vector,
    last: float = np.nan,
    sample: Matrix | None = None,
    chosen: Matrix | None = None,
    weights: Vector | None = None,
    title: str = "",
) -> Figure:
    """Draw the MMD of m rows beside random, and chosen rows among the others.

    Parameters
    ----------
    sizes, mmd, random : (s,)
        Numbers of rows, the MMD of so many chosen rows and of random ones; may be empty.
    last
        The MMD of the whole result, marked if it is not that of the curve: rows
        of the curve are not weighted.
    sample, chosen : (r, d), (m, d), optional
        Some of all rows and the chosen ones, drawn along the two directions in
        which the sample varies most.
    weights : (m,), optional
        Of the chosen rows: the areas of their dots.
    title
        Heading; empty for none.

    Examples
    --------
    >>> sizes = np.array([1.0, 10.0])
    >>> figure = draw_herd(sizes=sizes, mmd=1.0 / sizes, random=sizes**-0.5)
    >>> [axes.get_xlabel() for axes in figure.axes]
    ['rows m']
    """
    panels = [len(sizes) > 0, sample is not None and chosen is not None]
    require(any(panels), "sizes", "given, or `sample` and `chosen`", "nothing to draw")
    figure = make_figure(4.6 * sum(panels), 4.0, title)
    axes = list(np.atleast_1d(figure.subplots(1, sum(panels))))
    if panels[0]:
        _against_random(axes.pop(0), sizes, mmd, random, last)
    if sample is not None and chosen is not None:
        _projection(axes.pop(0), sample, chosen, weights)
    return figure


def error_map(distance: Matrix, *, title: str = "") -> Figure:
    """Draw distances of (rows, columns) pixels from their mixtures as a picture; nan is left white."""
    figure = make_figure(6.4, 5.2, title)
    axes = figure.subplots()
    drawn = axes.imshow(distance, cmap="viridis", interpolation="nearest")
    axes.set_aspect("equal" if min(distance.shape) > 1 else "auto")  # of a line, nothing would be seen
    figure.colorbar(drawn, ax=axes, label="distance from the mixture")
    axes.set(xlabel="column", ylabel="row")
    return figure


def draw_distances(distance: Vector, *, title: str = "") -> Figure:
    """Draw how many targets are how far from the hull."""
    figure = make_figure(6.4, 4.0, title)
    axes = figure.subplots()
    axes.hist(distance, bins=min(60, max(5, len(distance) // 5)), color=COLOURS[0])
    axes.set(xlabel="distance from the mixture", ylabel="targets")
    return figure


def render(figure: Figure, kind: str) -> bytes:
    """Return a figure as the bytes of a file of this kind: png, svg, pdf, ..."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format=kind, dpi=150)
    return buffer.getvalue()


def save(figure: Figure, path: str | Path) -> None:
    """Write a figure; the ending of the path chooses the format."""
    where = checked_path(path, "path")
    where.write_bytes(render(figure, where.suffix[1:]))


def make_figure(width: float, height: float, title: str) -> Figure:
    """Return an empty figure; its size is in inches."""
    from matplotlib.figure import Figure  # noqa: PLC0415 - 0.3 s, only for those who plot

    figure = Figure(figsize=(width, height), layout="constrained")
    if title:
        figure.suptitle(title, x=0.01, ha="left", fontsize=12, fontweight="bold")
    return figure


def _positive(values: Vector) -> Vector:
    """Hide what a log axis has no place for."""
    return np.where(np.isfinite(values) & (values > 0.0), values, np.nan)


def _curve(axes: Axes, cost: Vector, height: Vector, i: int, label: str) -> None:
    # An infinite height would stretch the axis over everything.
    height = np.where(np.isfinite(height), height, np.nan)
    lap, i = divmod(i, len(COLOURS))
    marker, line = _MARKERS[i] if len(cost) <= _FEW else "", "-." if lap else "-"
    axes.plot(cost, height, line, color=COLOURS[i], marker=marker, markersize=4.5, linewidth=1.8, label=label)


def _against_random(axes: Axes, sizes: Vector, mmd: Vector, random: Vector, last: float) -> None:
    _curve(axes, sizes, _positive(random), 1, "random (mean)")
    _curve(axes, sizes, _positive(mmd), 0, "chosen")
    if last > 0.0 and last != mmd[-1]:
        star: dict[str, Any] = {"marker": "*", "markersize": 11, "linestyle": ""}
        axes.plot(sizes[-1:], [last], color=COLOURS[2], label="weighted", **star)
    axes.set_xscale("log")
    _use_log(axes.set_yscale, mmd, random)
    finish_axes(axes, "rows m", "MMD", legend=True)


def _projection(axes: Axes, sample: Matrix, chosen: Matrix, weights: Vector | None) -> None:
    centre = sample.mean(axis=0, dtype=np.float64)
    directions = np.linalg.svd(sample - centre, full_matrices=False)[2][:2]
    # One column or row has one direction: the other axis is then 0.
    plane = np.zeros((2, sample.shape[1]))
    plane[: len(directions)] = directions
    others, dots = (sample - centre) @ plane.T, (chosen - centre) @ plane.T
    areas = np.full(len(dots), 22.0) if weights is None else 22.0 * weights * len(weights)
    axes.scatter(others[:, 0], others[:, 1], s=5.0, color="#BBBBBB", linewidths=0.0, label="rows (a sample)")
    edge: dict[str, Any] = {"edgecolors": "white", "linewidths": 0.4, "alpha": 0.9}
    axes.scatter(dots[:, 0], dots[:, 1], s=areas, color=COLOURS[0], label="chosen", **edge)
    finish_axes(axes, "first principal axis", "second principal axis", legend=True)


def _goal(axes: Axes, goal: float | None) -> None:
    if goal is not None and np.isfinite(goal) and goal > 0.0:
        axes.axhline(goal, color=_GREY, linestyle="--", linewidth=1.0, zorder=1, label="goal")


def _scale_passes(axes: Axes, most: float) -> None:
    if most <= _FEW_PASSES:
        axes.locator_params(axis="x", integer=True)
    else:
        # Linear up to one pass: a run starts at none, and some never need one.
        axes.set_xscale("symlog", linthresh=1.0)
        ticks = [0.0] + [10.0**e for e in range(int(np.log10(most)) + 1)]
        axes.set_xticks(ticks, [f"{tick:,.0f}" for tick in ticks])
        axes.set_xlim(0.0, 1.4 * most)


def _use_log(set_scale: Callable[[str], None], *values: Vector) -> None:
    """Scale an axis by logarithms, unless nothing could stand on it."""
    if any(np.isfinite(_positive(each)).any() for each in values):
        set_scale("log")


def finish_axes(axes: Axes, x: str = "", y: str = "", *, legend: bool = False) -> None:
    """Name the axes and give them the look that all figures have."""
    axes.set(xlabel=x, ylabel=y)
    axes.grid(visible=True, which="major", color="#E6E6E6", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    if legend:
        axes.legend(frameon=False, loc="best")


def _legend_below(figure: Figure, axes: Axes, columns: int) -> None:
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=min(columns, len(labels)), frameon=False)


# ---------------------------------------------------------------- learned policies


class Learning(NamedTuple):
    """One curve of `draw_learning`.

    Parameters
    ----------
    steps : (k,)
        Steps of the environment so far.
    returns : (seeds, k)
        The return there, for each seed.
    """

    steps: Vector
    returns: Vector


def draw_learning(curves: Mapping[str, Learning], *, levels: Mapping[str, float], title: str = "") -> Figure:
    """Draw returns against steps: the mean of the seeds, from least to most.

    Parameters
    ----------
    curves
        Label -> curve, drawn in this order.
    levels
        Label -> return of what does not learn, drawn as a grey line.
    title
        Heading; empty for none.

    Examples
    --------
    >>> curve = Learning(np.array([0.0, 100.0]), np.array([[1.0, 3.0], [2.0, 4.0]]))
    >>> figure = draw_learning({"learned": curve}, levels={"random": 0.5})
    >>> [text.get_text() for text in figure.legends[0].get_texts()]
    ['learned', 'random']
    """
    figure = make_figure(9.0, 5.0, title)
    axes = figure.subplots()
    for i, (label, curve) in enumerate(curves.items()):
        again, place = divmod(i, len(COLOURS))
        style, marker = ("-", "--", ":")[again % 3], _MARKERS[(i + again) % len(_MARKERS)]
        shown: dict[str, Any] = {"marker": marker, "markersize": 4.5, "label": label}
        axes.plot(curve.steps, curve.returns.mean(axis=0), style, color=COLOURS[place], **shown)
        extent = curve.returns.min(axis=0), curve.returns.max(axis=0)
        axes.fill_between(curve.steps, *extent, color=COLOURS[place], alpha=0.12, linewidth=0.0)
    for i, (label, level) in enumerate(levels.items()):
        axes.axhline(level, color=_GREY, linestyle=((i, (1 + 3 * i, 2))), linewidth=1.2, label=label)
    finish_axes(axes, "steps of the environment", "return of an episode")
    _legend_below(figure, axes, 4)
    return figure
