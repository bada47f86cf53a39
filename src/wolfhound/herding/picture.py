"""A herd in pictures: its distance against random, and the chosen among the others."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from wolfhound import plot
from wolfhound.core import Matrix, Vector

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_CLASSES = len(plot.COLOURS) - 1
"""So many labels have a colour of their own; the last is for all others."""

_AREA = 24.0


def draw_curve(axes: Axes, sizes: Vector, mmd: Vector, random: Vector, last: float = np.nan) -> None:
    """Draw the MMD of m rows beside that of random ones.

    The MMD of the whole result, `last`, is marked if it is not that of the curve: rows of the curve are not
    weighted.
    """
    plot.draw_curve(axes, sizes, plot.hide_nonpositive(random), 1, "random (mean)")
    plot.draw_curve(axes, sizes, plot.hide_nonpositive(mmd), 0, "chosen")
    if last > 0.0 and last != mmd[-1]:
        star: dict[str, Any] = {"marker": "*", "markersize": 11, "linestyle": ""}
        axes.plot(sizes[-1:], [last], color=plot.COLOURS[2], label="weighted", **star)
    axes.set_xscale("log")
    plot.use_log(axes.set_yscale, mmd, random)
    plot.finish_axes(axes, "rows m", "MMD", legend=True)


def draw_rows(
    axes: Axes, others: Vector, dots: Vector, weights: Vector, labels: NDArray[Any] | None = None
) -> None:
    """Draw chosen rows (m, 2) among others (r, 2), as `project_rows` gives them: weights are areas."""
    areas = _AREA * weights * len(weights)
    axes.scatter(others[:, 0], others[:, 1], s=5.0, color=plot.PALE, linewidths=0.0, label="rows (a sample)")
    for i, (label, which) in enumerate(group_labels(labels, len(dots)).items()):
        look: dict[str, Any] = {"color": plot.COLOURS[i], "marker": plot.MARKERS[i]}
        edge: dict[str, Any] = {"edgecolors": "white", "linewidths": 0.4, "alpha": 0.9}
        axes.scatter(
            dots[which, 0], dots[which, 1], s=areas[which], label=plot.verbatim(label), **look, **edge
        )
    plot.finish_axes(axes, "first principal axis", "second principal axis", legend=True)
    plot.limit_axes(axes, np.concatenate([others, dots]), "rows")


def project_rows(sample: Matrix, chosen: Matrix) -> tuple[Vector, Vector]:
    """(r, 2) and (m, 2) rows along the two directions in which the sample varies most.

    A few far rows do not choose the directions: for these, columns are cut at their
    0.5 and 99.5 per cent.
    """
    ends = np.quantile(sample, [0.005, 0.995], axis=0)
    near = np.clip(sample.astype(np.float64), *ends)
    centre = near.mean(axis=0)
    directions = np.linalg.svd(near - centre, full_matrices=False)[2][:2]
    # One column or row has one direction: the other axis is then 0.
    plane = np.zeros((2, sample.shape[1]))
    plane[: len(directions)] = directions
    return (sample - centre) @ plane.T, (chosen - centre) @ plane.T


def group_labels(labels: NDArray[Any] | None, m: int) -> dict[str, NDArray[np.bool_]]:
    """Which of m rows have which label; beyond the most frequent few, all others together."""
    if labels is None:
        return {"chosen": np.ones(m, bool)}
    values, counts = np.unique(labels, return_counts=True)
    order = np.argsort(-counts, kind="stable")
    own = order if len(values) <= _CLASSES + 1 else order[:_CLASSES]
    groups = {str(values[i]): labels == values[i] for i in np.sort(own)}
    rest = ~np.any(list(groups.values()), axis=0)
    return groups | ({f"{len(values) - len(own)} other labels": rest} if rest.any() else {})
