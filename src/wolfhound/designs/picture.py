"""A design and its variance function in pictures."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from wolfhound import plot
from wolfhound.core import Vector
from wolfhound.designs.factors import Column

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_CURVES = 6
_POINTS = 101
_LONGEST = 16  # letters of a level that axes have room for
_STYLES = ("-", "--", "-.", ":")


def draw_support(
    axes: Axes, columns: Sequence[Column], settings: Vector, weights: Vector, what: str = "weight"
) -> None:
    """Draw the first two factors, areas for weights; one factor against its weights.

    Settings are (k, c); `what` the weights are, in the singular.
    """
    if len(columns) == 1:
        plot.draw_stems(axes, settings[:, 0], weights, x=columns[0].name, y=what)
        _name_levels(columns, axes.set_xticks)
        return
    points, owner = np.unique(settings[:, :2], axis=0, return_inverse=True)
    sums = np.bincount(owner.reshape(-1), weights, minlength=len(points))
    area = 900.0 * sums / sums.max()
    axes.scatter(points[:, 0], points[:, 1], s=area, color=plot.COLOURS[0], alpha=0.55, edgecolor="white")
    _name_levels(columns, axes.set_xticks, axes.set_yticks)
    axes.margins(0.15)
    plot.finish_axes(axes, columns[0].name, f"{columns[1].name} (areas: {what}s)")


def _name_levels(columns: Sequence[Column], *ticks: Callable[..., object]) -> None:
    """Write the names of levels to the axes of the first factors, those below aslant."""
    for column, set_ticks, turn in zip(columns, ticks, (30, 0), strict=False):
        if column.levels:
            names = [plot.verbatim(_cut(level)) for level in column.levels]
            set_ticks(range(len(names)), labels=names, rotation=turn)


def _cut(level: str) -> str:
    return level if len(level) <= _LONGEST else f"{level[: _LONGEST - 1]}\u2026"


def draw_variance(
    axes: Axes,
    columns: Sequence[Column],
    settings: Vector,
    weights: Vector,
    variance: Callable[[Vector], Vector],
) -> None:
    """Draw how the variance of a prediction changes with each factor, the others at the design's centre.

    `variance` is one of rows of factors, relative to one run of variance 1.
    """
    centre = weights @ settings / weights.sum()
    for j, column in enumerate(columns):
        if column.levels:
            shares = np.bincount(settings[:, j].astype(np.int64), weights, minlength=len(column.levels))
            centre[j] = float(shares.argmax())
    for j, column in enumerate(columns[:_CURVES]):
        low, high = float(settings[:, j].min()), float(settings[:, j].max())
        if high <= low:
            continue
        values = np.linspace(low, high, _POINTS)
        if column.levels:
            values = np.arange(len(column.levels), dtype=np.float64)
        rows = np.repeat(centre[None], len(values), axis=0)
        rows[:, j] = values
        where = (values - low) / (high - low)
        style = "o:" if column.levels else _STYLES[j % len(_STYLES)]  # curves may coincide
        look: dict[str, Any] = {"color": plot.COLOURS[j], "markersize": 4, "alpha": 0.8}
        axes.plot(where, variance(rows), style, label=plot.verbatim(column.name), **look)
    level = float(variance(settings).max())  # that of an optimal design over its candidates
    axes.axhline(level, color=plot.GREY, linestyle="--", linewidth=1.0)
    place: dict[str, Any] = {"xycoords": ("axes fraction", "data"), "fontsize": 8, "color": plot.GREY}
    axes.annotate(f"{level:.3g}", (1.0, level), **place)
    plot.finish_axes(
        axes, "factor, from its least to its largest value", "variance of a prediction", legend=True
    )
    axes.set_ylim(0.0, 1.08 * max(level, axes.get_ylim()[1]))
