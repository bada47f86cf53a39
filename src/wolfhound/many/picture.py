"""Many targets in pictures: how far each is from its mixture."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from wolfhound import plot
from wolfhound.core import Vector

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def draw_errors(axes: Axes, distance: Vector, shape: tuple[int, ...]) -> None:
    """Draw how far targets are from their mixtures: a map of a cube, else how many are how far.

    `shape` is that of the targets; a distance of nan: not solved.
    """
    solved = distance[np.isfinite(distance)]
    left_out = len(distance) - len(solved)
    said = [f"{left_out:,} of {len(distance):,} were not solved"] if left_out else []
    if len(shape) == 2:
        # A few pixels that nothing explains must not hide the differences of all others.
        low, high = plot.robust_limits(solved) if len(solved) else (0.0, 1.0)
        above = int((solved > high).sum())
        said += [f"{above:,} beyond the colours"] if above else []
        drawn = axes.imshow(
            distance.reshape(shape), cmap="viridis", interpolation="nearest", vmin=max(low, 0.0), vmax=high
        )
        axes.set_aspect("equal" if min(shape) > 1 else "auto")  # of a line, nothing would be seen
        ends = "max" if above else "neither"
        axes.figure.colorbar(drawn, ax=axes, label="distance from the mixture", extend=ends)
        axes.set(xlabel="column", ylabel="row")
    else:
        axes.hist(solved, bins=min(60, max(5, len(solved) // 5)), color=plot.COLOURS[0])
        plot.finish_axes(axes, "distance from the mixture", "targets")
    axes.set_title(", ".join(said), fontsize=8, color=plot.GREY, loc="right")


def draw_gaps(axes: Axes, names: list[str], counts: list[int]) -> None:
    """Draw how many targets have which share of the wanted gap; the last are beyond it."""
    axes.bar(names, counts, color=[plot.COLOURS[2]] * (len(names) - 1) + [plot.COLOURS[1]])
    plot.finish_axes(axes, "proved gap / wanted gap", "targets")
