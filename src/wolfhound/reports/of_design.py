"""What is told of designs: the runs, what is proved of them, where predictions are sure."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from wolfhound.designs.ellipsoid import Ellipsoid
from wolfhound.designs.exact import ExactDesign, show_efficiency
from wolfhound.designs.factors import Column
from wolfhound.designs.result import Design
from wolfhound.markup import list_weights
from wolfhound.reports import figures
from wolfhound.reports.of_run import LISTED, describe_atoms
from wolfhound.reports.story import Chart, RowLabels, Section, Story
from wolfhound.text import seconds_text


def tell_design(result: Design, labels: RowLabels) -> Story:
    """Tell of weights over candidates."""
    efficiency = show_efficiency(result.efficiency)
    asked = (
        ("criterion", f"{result.criterion}-optimal"),
        ("factors", ", ".join(column.name for column in result.columns)),
        ("terms", f"{len(result.terms):,}: {', '.join(result.terms)}"),
        ("candidates", describe_atoms(result.fingerprint)),
    )
    proof = (
        f"Relative to the best of all designs, of any weights, the efficiency is at least {efficiency}: "
        "proved by a pass over all candidates, rounding included.",
    )
    cost = (
        ("passes", f"{result.passes:.3g}"),
        ("forms scored", f"{result.scored:,}"),
        ("time", seconds_text(result.seconds)),
    )
    return Story(
        title="A plan of experiments",
        status=result.status.name,
        good=result.success,
        sentence=f"{result.criterion}-efficiency at least {efficiency}, proved",
        tiles=(
            ("proved efficiency", efficiency),
            ("candidates with weight", f"{result.support:,}"),
            ("terms", f"{len(result.terms):,}"),
            ("passes", f"{result.passes:.3g}"),
            ("time", seconds_text(result.seconds)),
        ),
        sections=(
            Section("What was asked", facts=asked),
            Section("The answer", charts=(_draw_support(result),), grids=(result.list_support(LISTED),)),
            Section("The proof", proof),
            Section("What the oracle did", facts=cost),
        ),
    )


def _draw_support(result: Design) -> Chart:
    """The first two factors, areas for weights; one factor against its weights."""
    first, *more = result.columns
    texts = [f"weight {weight:.4f}" for weight in result.weights.tolist()]
    columns = {"id": [str(i) for i in result.ids.tolist()], "weight": result.weights}
    grid = figures.list_columns("The weights", columns)
    label = f"{result.support:,} candidates with weight; the largest is {result.weights.max():.4f}."
    if not more:
        bars = figures.draw_bars("weight", result.settings[:, 0], result.weights, 0)
        dots = figures.draw_dots("weight", result.settings[:, 0], result.weights, 0)
        bars |= {"width": [0.004 * (float(np.ptp(result.settings[:, 0])) or 1.0)] * result.support}
        figure = figures.lay_out([bars, dots], x=first.name, y="weight", showlegend=False)
        _name_levels(figure, result.columns, "xaxis")
        return Chart("The weights", label, (("weights", figure),), grid)
    points, owner = np.unique(result.settings[:, :2], axis=0, return_inverse=True)
    sums = np.bincount(owner.reshape(-1), result.weights, minlength=len(points))
    texts = [f"weight {each:.4f}" for each in sums.tolist()]
    marker = {"size": (8.0 + 32.0 * np.sqrt(sums / sums.max())).tolist(), "opacity": 0.7, "symbol": "circle"}
    dots = figures.draw_dots("weight", points[:, 0], points[:, 1], 0, marker=marker, text=texts)
    figure = figures.lay_out([dots], x=first.name, y=more[0].name, showlegend=False)
    _name_levels(figure, result.columns, "xaxis", "yaxis")
    title = f"Where the weight is: {first.name} and {more[0].name}, summed over all other factors"
    return Chart(title, label, (("weights", figure),), grid)


def _name_levels(figure: figures.Figure, columns: Sequence[Column], *axes: str) -> None:
    """Write the names of levels to the axes of the first factors."""
    for axis, column in zip(axes, columns, strict=False):
        if column.levels:
            names = [figures.plain(level) for level in column.levels]
            figure["layout"][axis] |= {"tickvals": list(range(len(names))), "ticktext": names}


def tell_runs(result: ExactDesign, labels: RowLabels) -> Story:
    """Tell of whole numbers of runs."""
    efficiency = show_efficiency(result.efficiency)
    proof = "The efficiency is proved against designs of any weights, which whole runs may not reach."
    return Story(
        title="Runs to be made",
        status="",
        good=True,
        sentence=f"{result.criterion}-efficiency at least {efficiency}, proved",
        tiles=(
            ("runs", f"{result.runs}"),
            ("points", f"{len(result.ids)}"),
            ("proved efficiency", efficiency),
        ),
        sections=(Section("The runs", (proof,), grids=(result.list_runs(500),)),),
    )


def tell_ellipsoid(result: Ellipsoid, labels: RowLabels) -> Story:
    """Tell of the smallest ellipsoid that holds all points."""
    pairs = [
        (i, None, weight) for i, weight in zip(result.ids.tolist(), result.weights.tolist(), strict=True)
    ]
    shown = sorted(pairs, key=lambda each: -each[2])[:LISTED]
    caption = f"{len(shown):,} of {len(pairs):,} points that hold it"
    return Story(
        title="The smallest enclosing ellipsoid",
        status=result.status.name,
        good=result.success,
        sentence=f"every point is inside; least volume / volume is at least {result.ratio:.9g}, proved",
        tiles=(
            ("proved ratio", f"{result.ratio:.9g}"),
            ("dimensions", f"{len(result.centre)}"),
            ("points that hold it", f"{len(result.ids):,}"),
            ("time", seconds_text(result.seconds)),
        ),
        sections=(
            Section(
                "The answer",
                facts=(("logarithm of the volume", f"{result.log_volume:.9g}"),),
                grids=(list_weights(caption, shown, show=labels.cell),),
            ),
            Section("What the oracle did", facts=(("passes", f"{result.passes:.3g}"),)),
        ),
    )
