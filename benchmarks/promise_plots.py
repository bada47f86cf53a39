"""The two plots of claim_promise, drawn from its rows: seconds against n, and against c.

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
PROBLEMS = 10
"""Over the same atoms, in the plot with builds."""
STYLES = {
    "Alg. 1, Scan": ("#555555", "o", "-"),
    "Alg. 1, Int8Scan": ("#000000", "s", "-"),
    "Alg. 2, LshIndex": ("#d62728", "D", "-"),
    "Alg. 2, ClusterIndex": ("#1f77b4", "^", "-"),
    "Alg. 2, RandomSubset 1 %": ("#2ca02c", "v", "--"),
    "Alg. 2, RandomSubset 1,000": ("#98c379", "<", "--"),
    "minimize, its default": ("#9467bd", "*", ":"),
}
Row = Mapping[str, Cell]


def draw_all(rows: Sequence[Row], folder: Path | None) -> None:
    """Draw both plots into a folder; None: into the air, to see that they can be drawn."""
    for name, draw in PLOTS.items():
        figure = draw(rows)
        target: Path | io.BytesIO = io.BytesIO()
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
            target = folder / name
        figure.savefig(target, format="svg", metadata={"Date": None})


def draw_growth(rows: Sequence[Row]) -> Figure:
    """Seconds against n: one problem without the build, ten with it."""
    figure, (alone, built) = _panels()
    mine = [row for row in rows if row["table"] in ("growth", "solve") and _is(row, "gaussian", "interior")]
    sums: tuple[Callable[[Any], float], ...] = (
        lambda row: row["seconds"],
        lambda row: row["build_s"] + PROBLEMS * row["seconds"],
    )
    for axes, total in zip((alone, built), sums, strict=True):
        for way, some in _by_way(mine).items():
            _line(axes, way, [(row["n"], total(row)) for row in some if row["seconds"] is not None])
        axes.set(xscale="log", yscale="log", xlabel="atoms n")
    alone.set(title="one problem, without the build", ylabel="seconds to 1e-3")
    built.set(title=f"{PROBLEMS} problems over the same atoms, with the build")
    return _name_lines(figure, alone)


def draw_trade(rows: Sequence[Row]) -> Figure:
    """Seconds against c, inside the hull and at its boundary."""
    figure, panels = _panels()
    for axes, kind in zip(panels, ("interior", "boundary"), strict=True):
        mine = [row for row in rows if row["table"] == "trade" and _is(row, "gaussian", kind)]
        for way, some in _by_way(mine).items():
            name = "Alg. 2, RandomSubset of the size for c" if "Random" in way else way
            points = [(row["c"], row["seconds"]) for row in some if row["seconds"] is not None]
            _line(axes, way, points, name)
        for row in rows:
            known = row["table"] == "solve" and _is(row, "gaussian", kind) and row["seconds"] is not None
            if known and ("Alg. 1" in str(row["way"]) or "minimize" in str(row["way"])):
                colour, _, _ = STYLES[str(row["way"])]
                style = ":" if "minimize" in str(row["way"]) else "--"
                axes.axhline(_number(row["seconds"]), color=colour, linestyle=style, label=str(row["way"]))
        axes.set(yscale="log", xlabel="c, mean gap ratio that the index is set up for", title=kind)
    panels[0].set(ylabel="seconds to eps, without the build")
    return _name_lines(figure, panels[0])


PLOTS: Mapping[str, Callable[[Sequence[Row]], Figure]] = {
    "promise-n.svg": draw_growth,
    "promise-c.svg": draw_trade,
}


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


def _line(axes: Axes, way: str, points: Sequence[tuple[Any, Any]], name: str | None = None) -> None:
    colour, marker, style = STYLES[way]
    x, y = zip(*points, strict=True) if points else ((), ())
    axes.plot(x, y, color=colour, marker=marker, linestyle=style, markersize=5, label=name or way)


def _is(row: Row, name: str, kind: str) -> bool:
    data = str(row["data"])
    return data.startswith(name) and data.endswith(kind)


def _by_way(rows: Sequence[Row]) -> dict[str, list[Row]]:
    ways = dict.fromkeys(str(row["way"]) for row in rows)
    return {way: [row for row in rows if row["way"] == way] for way in ways}


def _number(cell: Cell) -> float:
    return float(cell) if isinstance(cell, (int, float)) else float("nan")


if __name__ == "__main__":
    draw_all(json.loads((RESULTS / "claim_promise.json").read_text())["rows"], FOLDER)
    sys.exit(0)
