"""Plain arrays -> matplotlib figures: the way to a proof, a plan, a herd.

The only importer of matplotlib. Figures are made without pyplot, so nothing is
global and no display is needed.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import io
import math
import textwrap
from collections.abc import Callable, Collection, Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from wolfhound.core.atomic import write_file
from wolfhound.core.contracts import Vector
from wolfhound.core.validate import file_path, require

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
"""Okabe and Ito's palette: distinct for colour-blind readers and in grey."""

DASHES: tuple[Any, ...] = (
    "-",
    "--",
    "-.",
    (0, (1, 1.2)),
    (0, (6, 1.5, 1, 1.5, 1, 1.5)),
    (0, (3, 3)),
    (0, (8, 2)),
)
"""One more than there are colours, so that no two of the first 42 lines look alike."""

MARKERS = ("o", "s", "^", "D", "v", "P")
GREY = "#666666"
"""Of what is beside the point: goals, notes."""

PALE, LINE, SOFT = "#BBBBBB", "#E6E6E6", "#C8D6E5"
"""Of dots behind others, of grids, of bars behind a curve."""

PANEL = (4.6, 3.7)
"""Inches of one picture."""

PASSES = "passes over all atoms"
SCORED = "atoms scored"
SECONDS = "seconds, without compiling"
_APART = 2  # times as many states that atoms scored tell apart: passes stand still, as those of an index do
_DECADES = 50.0  # from here on times need a log axis; on a shorter one its numbers would collide
_LONGEST = 28  # letters of a name beside a bar
_WIDTH = 52  # letters of a title in a line
_LETTERS = 9.0  # of a heading in an inch
_LEGEND_LINE = 15.0  # points of a line of a legend
_HANDLE = 6  # letters that would stand in place of its dash
_WIDE = 6.0  # times the spread of the middle of the values: a picture that is wider is squashed
_FEW = 40  # states up to which each one gets a marker
_FEW_PASSES = 12.0  # up to which a linear axis shows them all


class Run(NamedTuple):
    """One curve of `draw_gaps`: cost so far, twice, and the gap there, if finite and positive."""

    passes: Vector  # or atoms scored
    seconds: Vector
    gap: Vector


def draw_all(
    drawings: Sequence[Callable[[Axes], None]], *, title: str = "", titles: Sequence[str] = ()
) -> Figure:
    """Draw several pictures, each in axes of its own with a title, side by side, four of them two by two."""
    require(len(drawings) > 0, "plot", "of a result that has a picture", "nothing to draw")
    columns = min(len(drawings), 2 if len(drawings) == 4 else 3)
    rows = math.ceil(len(drawings) / columns)
    figure = make_figure(max(PANEL[0] * columns, 6.0), PANEL[1] * rows, title)
    places = figure.subplots(rows, columns, squeeze=False).flatten()
    for draw, axes in zip(drawings, places, strict=False):
        draw(axes)
    for axes in places[len(drawings) :]:
        axes.remove()
    for axes, text in zip(places, titles, strict=False):
        below = "\n" if axes.get_title("right") else ""  # a note, which has the line to itself
        labels = axes.get_legend_handles_labels()[1]
        room = 6.0 + _LEGEND_LINE * math.ceil(len(labels) / _count_columns(labels))
        look: dict[str, Any] = {"fontsize": 10, "loc": "left", "pad": room if axes.get_legend() else 6.0}
        axes.set_title(verbatim(textwrap.fill(text, _WIDTH)) + below, **look)
    return figure


def draw_band(
    axes: Axes, cost: Vector, value: Vector, bound: Vector, x: str, *, names: tuple[str, str], y: str = "f"
) -> None:
    """Draw how value and bound, of these names, came together with the cost, and the band between them."""
    both = np.isfinite(value) & np.isfinite(bound)  # else there is no band
    axes.fill_between(cost[both], bound[both], value[both], step="post", color=COLOURS[0], alpha=0.15, lw=0)
    draw_curve(axes, cost, value, 0, names[0], steps=True)
    draw_curve(axes, cost, bound, 1, names[1], steps=True)
    axes.locator_params(axis="x", integer=x == PASSES)
    finish_axes(axes, x, y, legend=True)


def is_by_atoms(passes: Vector, scored: NDArray[np.int64]) -> bool:
    """Whether a run is drawn by the atoms that it scored: it makes hardly a pass, or rests between passes.

    Examples
    --------
    >>> is_by_atoms(np.array([0.0, 0.0, 0.0, 1.0, 1.0]), np.array([50, 90, 130, 1130, 1170]))
    True
    """
    few = float(passes[-1:].sum()) < 1.0
    return len(passes) > 0 and (few or len(np.unique(scored)) > _APART * len(np.unique(passes)))


def draw_gap(axes: Axes, cost: Vector, gap: Vector, x: str, *, goal: float | None, y: str = "gap") -> None:
    """Draw how a gap fell to the wanted one, dashed; what is not positive has no place on a log axis."""
    draw_curve(axes, cost, hide_nonpositive(gap), 2, "gap", steps=True)
    _goal(axes, goal)
    use_log(axes.set_yscale, gap)
    axes.locator_params(axis="x", integer=x == PASSES)
    finish_axes(axes, x, y, legend=True)


def draw_gaps(
    runs: Mapping[str, Run],
    *,
    goal: float | None = None,
    title: str = "",
    x: str = PASSES,
    y: str = "proved gap",
) -> Figure:
    """Draw the gaps of several runs against passes, or atoms scored, and seconds; the goal is dashed."""
    most = len(COLOURS) * len(DASHES)
    require(0 < len(runs) <= most, "runs", f"1 to {most} runs", f"{len(runs)} runs")
    figure = make_figure(9.0, 3.9 + 0.2 * (len(runs) // 4), title)
    left, right = figure.subplots(1, 2, sharey=True)
    draw_gaps_by(left, runs, x, goal=goal, y=y)
    draw_gaps_by(right, runs, SECONDS, goal=goal)
    for axes, cost in ((left, x), (right, SECONDS)):
        axes.set_title(f"All runs, by {cost.split(',')[0]}", fontsize=10, loc="left")
    handles, labels = left.get_legend_handles_labels()
    columns = min(len(labels), 4)
    figure.legend(handles, labels, loc="outside lower center", ncols=columns, frameon=False)
    return figure


def draw_gaps_by(
    axes: Axes, runs: Mapping[str, Run], x: str, *, goal: float | None, y: str = "", legend: bool = False
) -> None:
    """Draw the gaps of several runs against `PASSES`, `SCORED` or `SECONDS`."""
    costs = [hide_nonpositive(run.seconds) if x == SECONDS else run.passes for run in runs.values()]
    for i, ((label, run), cost) in enumerate(zip(runs.items(), costs, strict=True)):
        draw_curve(axes, cost, hide_nonpositive(run.gap), i, label, steps=True)
    spent = np.concatenate(costs)
    spent = spent[np.isfinite(spent)]
    if x == PASSES:
        _scale_passes(axes, float(spent.max(initial=1.0)))
    elif len(spent) and spent.max() > _DECADES * spent.min() > 0.0:
        axes.set_xscale("log")
    else:
        axes.locator_params(axis="x", nbins=5)
    use_log(axes.set_yscale, *(run.gap for run in runs.values()))
    _goal(axes, goal)
    finish_axes(axes, x, y, legend=legend)


def draw_stems(axes: Axes, places: Vector, weights: Vector, *, x: str, y: str) -> None:
    """Draw a stem per weight; the axis begins at 0."""
    axes.vlines(places, 0.0, weights, color=COLOURS[0], linewidth=2.0)
    axes.plot(places, weights, "o", color=COLOURS[0], markersize=5.0)
    axes.set_ylim(bottom=0.0)
    axes.locator_params(axis="x", integer=bool((places == np.rint(places)).all()))
    finish_axes(axes, x, y)


def draw_bars(axes: Axes, names: Sequence[str], values: Vector, *, x: str, faint: bool = False) -> None:
    """Draw a bar per name, the first at the top, each with its number; the last may be of all others."""
    colours = [COLOURS[0]] * (len(names) - faint) + [PALE] * faint
    places = np.arange(len(names))
    bars = axes.barh(places, values, color=colours)
    axes.bar_label(bars, [f"{value:.3g}" for value in values], padding=3, fontsize=8, color=GREY)
    axes.margins(x=0.12)
    finish_axes(axes, x)
    _name_bars(axes, names)


def draw_histograms(axes: Axes, every: Vector, chosen: Vector, weights: Vector, *, x: str) -> None:
    """Draw how numbers of all rows and of the chosen, weighted ones are spread, as shares: n differs."""
    both = np.concatenate([every, chosen])
    low, high = robust_limits(both)
    edges = np.linspace(low, high, min(24, max(8, len(chosen) // 8)) + 1).tolist()
    if high - low <= _FEW and (both == np.rint(both)).all():  # a bar that holds one number more misleads
        low, high = math.ceil(low) - 0.5, math.floor(high) + 0.5
        edges = np.arange(low, high + 1.0).tolist()
    inside, near = (np.clip(values, low, high) for values in (every, chosen))  # ends hold what is beyond
    shares = np.full(len(every), 1.0 / len(every))
    axes.hist(inside, edges, weights=shares, color=PALE, label="all rows")
    look: dict[str, Any] = {"histtype": "step", "color": COLOURS[0], "linewidth": 1.8}
    axes.hist(near, edges, weights=weights, label="chosen", **look)
    axes.locator_params(axis="x", nbins=5)
    finish_axes(axes, x, "share of rows", legend=True)
    beyond = int(((both < low) | (both > high)).sum())
    if beyond:
        add_note(axes, f"bars at the ends hold what is beyond: {beyond:,} of {len(both):,} rows")


def draw_shares(axes: Axes, names: Sequence[str], every: Vector, chosen: Vector, *, y: str) -> None:
    """Draw the share of each level among all rows and among the chosen, beside each other."""
    places, width = np.arange(len(names)), 0.4
    axes.barh(places - width / 2, every, width, color=PALE, label="all rows")
    axes.barh(places + width / 2, chosen, width, color=COLOURS[0], label="chosen")
    finish_axes(axes, "share of rows", y, legend=True)
    _name_bars(axes, names)


def _name_bars(axes: Axes, names: Sequence[str]) -> None:
    """Name horizontal bars, the first at the top; no line of a grid lies between them."""
    shown = [name if len(name) <= _LONGEST else f"{name[: _LONGEST - 1]}\u2026" for name in names]
    axes.set_yticks(np.arange(len(names)), labels=[verbatim(name) for name in shown], fontsize=9)
    axes.invert_yaxis()
    axes.grid(visible=False, axis="y")


def draw_totals(
    axes: Axes, seconds: Mapping[str, float], *, marked: str, faint: Collection[str] = ()
) -> None:
    """Draw a bar per label for its finite time in all; the chosen is marked, those that will not do faint."""
    times = hide_nonpositive(np.array(list(seconds.values())))
    looks = {each: ("", COLOURS[0]) for each in seconds}
    looks |= {each: (" (will not do)", PALE) for each in faint} | {marked: (" (chosen)", COLOURS[1])}
    names = [verbatim(each + looks[each][0]) for each in seconds]
    colours = [looks[each][1] for each in seconds]
    axes.barh(names, np.nan_to_num(times), color=colours)
    axes.invert_yaxis()
    if np.nanmax(times, initial=0.0) > _DECADES * np.nanmin(times, initial=math.inf):
        axes.set_xscale("log")
    else:
        axes.locator_params(axis="x", nbins=5)
    finish_axes(axes, "seconds in all, building included")


def robust_limits(values: Vector) -> tuple[float, float]:
    """Return limits of an axis that a few far values, all finite, do not stretch.

    All are inside where they spread at most six times as wide as the middle 95 per cent. Else those far
    outside these are left out if there are at most two of them, or one per cent; else one per cent is.

    Examples
    --------
    >>> values = np.append(np.linspace(0.0, 1.0, 999), 1e6)
    >>> [round(limit, 2) for limit in robust_limits(values)]
    [-0.05, 1.05]
    """
    low, high = np.quantile(values, [0.025, 0.975]).tolist()
    room = (high - low) or float(np.ptp(values)) or 1.0
    wide = math.inf if np.ptp(values) <= _WIDE * (high - low) else room
    inside = values[(values >= low - wide) & (values <= high + wide)]
    if len(values) - len(inside) > max(2.0, 0.01 * len(values)):
        low, high = np.quantile(values, [0.005, 0.995]).tolist()
        inside = values[(values >= low) & (values <= high)]
    return float(inside.min()) - 0.05 * room, float(inside.max()) + 0.05 * room


def limit_axes(axes: Axes, points: Vector, what: str) -> None:
    """Keep a few far points (n, 2) from squashing a scatter, and say how many of `what` are not shown."""
    (left, right), (bottom, top) = (robust_limits(column) for column in points.T)
    inside = (points >= (left, bottom)).all(axis=1) & (points <= (right, top)).all(axis=1)
    axes.set(xlim=(left, right), ylim=(bottom, top))
    say_outside(axes, np.asarray(inside), what)


def say_outside(axes: Axes, inside: NDArray[np.bool_], what: str) -> None:
    """Say below a picture how many of `what` it does not show, if any."""
    if not inside.all():
        add_note(axes, f"{int((~inside).sum()):,} of {len(inside):,} {what} lie outside this picture")


def add_note(axes: Axes, text: str) -> None:
    """Say something in words below a picture whose axes are named."""
    axes.set_xlabel(f"{axes.get_xlabel()}\n({text})")


def render_svg(draw: Callable[[Axes], None]) -> bytes:
    """Return a picture on its own as SVG: no background, text as text, the same bytes every time."""
    from matplotlib import rc_context  # noqa: PLC0415 - as in `make_figure`

    figure, buffer = make_figure(*PANEL, ""), io.BytesIO()
    axes = figure.subplots()
    draw(axes)
    # A map has a shape of its own: what it leaves empty is cut off.
    size = {} if axes.get_aspect() == "auto" else {"bbox_inches": "tight"}
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "wolfhound"}):
        figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None}, **size)
    return buffer.getvalue()


def keep(figure: Figure, path: str | PathLike[str] | None) -> Figure:
    """Return a figure; write it too, all or nothing, if there is a path, whose ending chooses the format."""
    if path is not None:
        where = file_path(path, "path", [f".{kind}" for kind in figure.canvas.get_supported_filetypes()])
        buffer = io.BytesIO()
        figure.savefig(buffer, format=where.suffix[1:].lower(), dpi=150)
        write_file(where, buffer.getvalue())
    return figure


def verbatim(text: str) -> str:
    """Return text that matplotlib shows as it stands: no mathematics, nothing left out of a legend."""
    shown = text.encode("utf-8", "replace").decode().replace("$", r"\$")
    return f"\u200b{shown}" if shown.startswith("_") else shown  # a space without width


def make_figure(width: float, height: float, title: str) -> Figure:
    """Return an empty figure; its size is in inches."""
    from matplotlib.figure import Figure  # noqa: PLC0415 - 0.3 s, only for those who plot

    figure = Figure(figsize=(width, height), layout="constrained")
    if title:
        heading = textwrap.fill(title, int(_LETTERS * width))
        figure.suptitle(verbatim(heading), x=0.01, ha="left", fontsize=12, fontweight="bold")
    return figure


def hide_nonpositive(values: Vector) -> Vector:
    """Hide what a log axis has no place for."""
    return np.where(np.isfinite(values) & (values > 0.0), values, np.nan)


def draw_curve(axes: Axes, cost: Vector, height: Vector, i: int, label: str, *, steps: bool = False) -> None:
    """Draw the i-th line of a figure: every i has a colour and dashes of its own.

    With `steps` a height holds until the next: what is proved does.
    """
    # An infinite height would stretch the axis over everything.
    height = np.where(np.isfinite(height), height, np.nan)
    line, (lap, place) = DASHES[i % len(DASHES)], divmod(i, len(COLOURS))
    marker = MARKERS[(place + lap) % len(MARKERS)] if len(cost) <= _FEW else ""
    shown: dict[str, Any] = {"marker": marker, "markersize": 4.5, "linewidth": 1.8, "label": verbatim(label)}
    shown |= {"drawstyle": "steps-post"} if steps else {}
    axes.plot(cost, height, linestyle=line, color=COLOURS[place], **shown)


def _goal(axes: Axes, goal: float | None) -> None:
    if goal is not None and np.isfinite(goal) and goal > 0.0:
        axes.axhline(goal, color=GREY, linestyle="--", linewidth=1.0, zorder=1, label="goal")


def _scale_passes(axes: Axes, most: float) -> None:
    if most <= _FEW_PASSES:
        axes.locator_params(axis="x", integer=True)
    else:
        # Linear up to one pass: a run starts at none, and some never need one.
        axes.set_xscale("symlog", linthresh=1.0)
        ticks = [0.0] + [10.0**e for e in range(int(np.log10(most)) + 1)]
        axes.set_xticks(ticks, [f"{tick:,.0f}" for tick in ticks])
        axes.set_xlim(0.0, 1.4 * most)


def use_log(set_scale: Callable[[str], None], *values: Vector) -> None:
    """Scale an axis by logarithms, unless nothing could stand on it."""
    if any(np.isfinite(hide_nonpositive(each)).any() for each in values):
        set_scale("log")


def finish_axes(axes: Axes, x: str = "", y: str = "", *, legend: bool = False) -> None:
    """Name the axes and give them the look that all figures have."""
    axes.set(xlabel=verbatim(x), ylabel=verbatim(y))
    axes.grid(visible=True, which="major", color=LINE, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    if legend:  # above the axes, where it hides nothing
        columns = _count_columns(axes.get_legend_handles_labels()[1])
        place: dict[str, Any] = {"loc": "lower left", "bbox_to_anchor": (0.0, 1.0), "borderaxespad": 0.1}
        axes.legend(ncols=columns, fontsize=9, frameon=False, columnspacing=1.2, **place)


def _count_columns(labels: Sequence[str]) -> int:
    """How many names of a legend stand beside each other."""
    widest = _HANDLE + max(map(len, labels), default=0)
    return max(1, min(len(labels), _WIDTH // widest))
