"""Draw docs/images/band.svg, the picture of the README and of the site's first page.

``python tools/draw_band.py [FILE]``: the word "king" as a mixture of the other words that ship
with the package, by the default method and by classical Frank-Wolfe with exact line
search. Between `lower` and `value` lies the minimum: what is drawn is what is proved.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import sys
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import wolfhound as wh
from wolfhound.data.shipped import words

PICTURE = Path(__file__).parents[1] / "docs" / "images" / "band.svg"
WORD, MOST_PASSES = "king", 40
OURS, THEIRS = "#1f5fbf", "#c2571a"
IN_THE_DARK = {"#ffffff": "#16191d", "#000000": "#c9ced6", OURS: "#7aaeff", THEIRS: "#f0905a"}
"""What colours become for readers whose system is dark; an <img> follows that, too."""


def solve_both() -> tuple[wh.Result, wh.Result]:
    """Solve by both methods; a query of the classical one is a whole pass, as it is described."""
    glove = words()
    king = glove.id(WORD)
    objective = wh.SquaredDistance(glove.vectors[king])
    ours = wh.minimize(objective, glove.vectors, exclude=[king])
    classical = wh.minimize(
        objective,
        wh.Scan(glove.vectors, screen=False),
        exclude=[king],
        method=wh.FrankWolfe(wh.Vanilla(), wh.LineSearch()),
        max_steps=MOST_PASSES,
        rtol=0.0,
    )
    return ours, classical


def draw_band(axes: Axes, result: wh.Result, colour: str, label: str) -> None:
    """Shade what is left between the proved lower bound and the value, by passes."""
    trace = result.trace
    passes = np.append(trace.passes, MOST_PASSES)  # what is proved stays proved
    value, lower = (np.append(column, column[-1]) for column in (trace.value, trace.lower))
    axes.fill_between(passes, lower, value, step="post", color=colour, alpha=0.25, lw=0)
    axes.step(passes, value, where="post", color=colour, lw=1.8, label=label)
    axes.step(passes, lower, where="post", color=colour, lw=1.8, ls=(0, (4, 1.5)))


def draw(ours: wh.Result, classical: wh.Result) -> Figure:
    """Draw both bands over the passes that they took."""
    figure = Figure(figsize=(8.0, 3.4), layout="constrained", facecolor="white")
    axes = figure.add_subplot()
    draw_band(
        axes,
        classical,
        THEIRS,
        f"classical Frank-Wolfe: a gap of {classical.gap:.2g} after {MOST_PASSES} passes",
    )
    draw_band(axes, ours, OURS, f"wolfhound: a gap of {ours.gap:.0e} after {ours.passes:.0f} passes")
    near = ours.value
    axes.set(xlim=(0, MOST_PASSES), ylim=(0.0, 2.5 * near), xlabel="passes over all 19,999 other words")
    axes.set_ylabel("f: half the squared distance")
    axes.annotate(
        "value: what was found",
        (MOST_PASSES, classical.trace.value[-1]),
        (-6, 14),
        textcoords="offset points",
        ha="right",
        color=THEIRS,
    )
    axes.annotate(
        "lower: what no mixture can beat, proved",
        (MOST_PASSES, classical.trace.lower[-1]),
        (-6, -16),
        textcoords="offset points",
        ha="right",
        color=THEIRS,
    )
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(loc="upper right", frameon=False, reverse=True)
    axes.set_title(
        f'"{WORD}" as a mixture of other words: the minimum lies between the lines', loc="left", fontsize=11
    )
    return figure


def follow_the_theme(svg: str) -> str:
    """Return a picture that is light or dark as the reader's system is."""
    rules = [
        f"[style*='{what}: {light}']{{{what}:{dark}!important}}"
        for light, dark in IN_THE_DARK.items()
        for what in ("fill", "stroke")
    ]
    # Letters without a colour of their own have that of the whole.
    dark = f"svg{{fill:{IN_THE_DARK['#000000']}}}{''.join(rules)}"
    return svg.replace("</style>", f"@media (prefers-color-scheme: dark){{{dark}}}</style>", 1)


def main() -> None:
    """Solve, draw, save; the same picture gives the same bytes."""
    place = Path(sys.argv[1]) if len(sys.argv) > 1 else PICTURE
    with mpl.rc_context({"svg.hashsalt": "wolfhound", "svg.fonttype": "path", "font.size": 10}):
        draw(*solve_both()).savefig(place, metadata={"Date": None})
    place.write_text(follow_the_theme(place.read_text()))


if __name__ == "__main__":
    main()
