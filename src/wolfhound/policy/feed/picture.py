"""Learning curves as a figure."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from wolfhound import plot
from wolfhound.core import Vector

if TYPE_CHECKING:
    from matplotlib.figure import Figure


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
    >>> import numpy as np
    >>> curve = Learning(np.array([0.0, 100.0]), np.array([[1.0, 3.0], [2.0, 4.0]]))
    >>> figure = draw_learning({"learned": curve}, levels={"random": 0.5})
    >>> [text.get_text() for text in figure.legends[0].get_texts()]
    ['learned', 'random']
    """
    figure = plot.make_figure(9.0, 5.0, title)
    axes = figure.subplots()
    for i, (label, curve) in enumerate(curves.items()):
        place = i % len(plot.COLOURS)
        plot.draw_curve(axes, curve.steps, curve.returns.mean(axis=0), i, label)
        extent = curve.returns.min(axis=0), curve.returns.max(axis=0)
        axes.fill_between(curve.steps, *extent, color=plot.COLOURS[place], alpha=0.12, linewidth=0.0)
    for i, (label, level) in enumerate(levels.items()):
        dashes = (i, (1 + 3 * i, 2))
        axes.axhline(level, color=plot.GREY, linestyle=dashes, linewidth=1.2, label=plot.verbatim(label))
    plot.finish_axes(axes, "steps of the environment", "return of an episode")
    plot.put_legend_below(figure, axes, 4)
    return figure
