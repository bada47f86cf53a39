"""The plot of claim_promise, drawn from its rows: atoms scored against n.

python benchmarks/promise_plots.py     # again, from results/claim_promise.json
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rig import RESULTS, Cell

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FOLDER = Path(__file__).parents[1] / "docs" / "images"
STYLES = {
    "Alg. 1, Int8Scan": ("#000000", "s", "-"),
    "Alg. 2, LshIndex, memory and sample": ("#d62728", "D", "-"),
    "Alg. 2, memory and sample": ("#2ca02c", "v", "--"),
    "Alg. 2, LshIndex alone": ("#1f77b4", "^", "-"),
}
Row = Mapping[str, Cell]


def draw_all(rows: Sequence[Row], folder: Path | None) -> None:
    """Draw all plots into a folder; None: into the air, to see that they can be drawn."""
    for name, draw in PLOTS.items():
        figure = draw(rows)
        target: Path | io.BytesIO = io.BytesIO()
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
            target = folder / name
        figure.savefig(target, format="svg", metadata={"Date": None})


def draw_growth(rows: Sequence[Row]) -> Figure:
    """Atoms scored in all against n, inside the hull and at its boundary."""
    figure, panels = _panels()
    for axes, kind in zip(panels, ("interior", "boundary"), strict=True):
        mine = [row for row in rows if row["table"] == "growth" and row["data"] == f"gaussian {kind}"]
        for way in dict.fromkeys(str(row["way"]) for row in mine):
            points = [
                (row["n"], row["atoms"]) for row in mine if row["way"] == way and row["atoms"] is not None
            ]
            _line(axes, way, points)
        axes.set(xscale="log", yscale="log", xlabel="atoms n", title=kind)
    panels[0].set(ylabel="atoms scored to 1e-3")
    return _name_lines(figure, panels[0])


PLOTS: Mapping[str, Callable[[Sequence[Row]], Figure]] = {"promise-atoms.svg": draw_growth}


def _panels() -> tuple[Figure, Any]:
    import matplotlib as mpl  # noqa: PLC0415 - 0.3 s, at the end of a claim
    from matplotlib.figure import Figure  # noqa: PLC0415

    # The same rows give the same bytes, and letters stay letters.
    mpl.rcParams.update({"svg.hashsalt": "promise", "svg.fonttype": "none"})
    figure = Figure(figsize=(9.5, 4.4), layout="constrained")
    panels = figure.subplots(1, 2, sharey=True)
    for axes in panels:
        axes.grid(visible=True, which="major", color="#dddddd", linewidth=0.6)
    return figure, panels


def _name_lines(figure: Figure, axes: Axes) -> Figure:
    """Name all lines below the panels, where they hide none."""
    figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=4, fontsize=8)
    return figure


def _line(axes: Axes, way: str, points: Sequence[tuple[Any, Any]]) -> None:
    colour, marker, style = STYLES[way]
    x, y = zip(*points, strict=True) if points else ((), ())
    axes.plot(x, y, color=colour, marker=marker, linestyle=style, markersize=5, label=way)


if __name__ == "__main__":
    draw_all(json.loads((RESULTS / "claim_promise.json").read_text())["rows"], FOLDER)
    sys.exit(0)
