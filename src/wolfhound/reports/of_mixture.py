"""What is told of mixtures: the mixing distribution, the marginal, the shrinkage."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from wolfhound.markup import list_weights
from wolfhound.mixtures.fit import MixtureFit
from wolfhound.mixtures.picture import choose_drawn, find_bulk, shrink
from wolfhound.mixtures.weights import WeightsFit
from wolfhound.mixtures.words import describe_gaps, list_support, show_theta
from wolfhound.reports import figures
from wolfhound.reports.of_run import LISTED
from wolfhound.reports.story import Chart, RowLabels, Section, Story
from wolfhound.text import seconds_text


def tell_mixture(result: MixtureFit, labels: RowLabels) -> Story:
    """Tell of a mixing distribution."""
    gap = result.gap if math.isfinite(result.gap) else result.gap_on_grid
    asked = (
        ("observations", f"{len(result.x):,}, {result.family.name}"),
        ("maximise", "the mean log-likelihood over all mixing distributions"),
    )
    proof = (
        ("mean log-likelihood", f"{result.value:.9g}"),
        ("over the continuum", f"{result.gap:.3g} nats" if math.isfinite(result.gap) else "not proved"),
        (f"on the grid of {len(result.grid):,}", f"{result.gap_on_grid:.3g} nats"),
    )
    cost = (("rounds", f"{result.rounds}"), ("time", seconds_text(result.seconds)))
    return Story(
        title="A mixing distribution",
        status=result.status.name,
        good=result.success,
        sentence=describe_gaps(result),
        tiles=(
            ("observations", f"{len(result.x):,}"),
            ("points of support", f"{len(result.mass)}"),
            ("proved gap, nats", f"{gap:.2g}"),
            ("time", seconds_text(result.seconds)),
        ),
        sections=(
            Section("What was asked", facts=asked),
            Section("The answer", charts=tuple(_draw(result)), grids=(list_support(result, LISTED),)),
            Section("The proof", (f"The fit is {describe_gaps(result)}.",), proof),
            Section("What it cost", facts=cost),
        ),
    )


def _draw(fit: MixtureFit) -> Iterator[Chart]:
    """The prior and the shrinkage; two parameters have no line to stand on."""
    if fit.support.ndim != 1:
        return
    width = [0.004 * (float(np.ptp(fit.support)) or 1.0)] * len(fit.mass)
    stems = figures.draw_bars("mass", fit.support, fit.mass, 0, width=width)
    dots = figures.draw_dots("mass", fit.support, fit.mass, 0)
    figure = figures.lay_out([stems, dots], x="theta", y="prior mass", showlegend=False)
    low, high = find_bulk(fit)
    inside = (fit.support >= low) & (fit.support <= high)
    said = "" if inside.all() else f" {int((~inside).sum())} of {len(inside)} points lie outside the picture."
    if said:
        figure["layout"]["xaxis"]["range"] = [low, high]
    heavy = show_theta(fit.support[fit.mass.argmax()])
    label = f"{len(fit.mass)} points of support; the heaviest, {heavy}, has mass {fit.mass.max():.3g}.{said}"
    grid = figures.list_columns("The mixing distribution", {"theta": fit.support, "mass": fit.mass})
    yield Chart(f"The mixing distribution.{said}".rstrip("."), label, (("prior", figure),), grid)
    yield _draw_shrinkage(fit)


def _draw_shrinkage(fit: MixtureFit) -> Chart:
    alone, means = shrink(fit, choose_drawn(fit))
    ends = [float(min(alone.min(), means.min())), float(max(alone.max(), means.max()))]
    line = figures.draw_level("no shrinkage", 0.0, ends, -1) | {"y": ends}
    dots = figures.draw_dots("posterior mean", alone, means, 0, marker={"size": 5, "opacity": 0.7})
    figure = figures.lay_out([line, dots], x="estimate of each alone", y="posterior mean")
    said = figures.limit(figure, np.column_stack([alone, means]), "observations")
    span = f"from {means.min():.4g} to {means.max():.4g}"
    label = f"Posterior means of {len(alone):,} observations, {span}.{said}"
    grid = figures.list_columns("Posterior means", {"alone": alone, "posterior mean": means})
    return Chart(f"How observations are shrunken.{said}".rstrip("."), label, (("means", figure),), grid)


def tell_weights(result: WeightsFit, labels: RowLabels) -> Story:
    """Tell of the weights of given components."""
    top = result.top(LISTED)
    caption = f"{len(top):,} of {len(result.support):,} components with weight, the largest first"
    bars = figures.draw_bars("weight", result.support, result.weights[result.support], 0)
    figure = figures.lay_out([bars], x="component", y="weight", showlegend=False)
    columns = {"component": result.support, "weight": result.weights[result.support]}
    chart = Chart(
        "The weights",
        f"{len(result.support)} components have weight; the largest is {result.weights.max():.4g}.",
        (("weights", figure),),
        figures.list_columns("The weights", columns),
    )
    cost = (("reads of all likelihoods", f"{result.reads}"), ("time", seconds_text(result.seconds)))
    return Story(
        title="Weights of a mixture",
        status=result.status.name,
        good=result.success,
        sentence=result.status.value,
        tiles=(
            ("components with weight", f"{len(result.support)} of {len(result.weights)}"),
            ("mean log-likelihood", f"{result.value:.6g}"),
            ("proved gap, nats", f"{result.gap:.2g}"),
            ("time", seconds_text(result.seconds)),
        ),
        sections=(
            Section("The answer", charts=(chart,), grids=(list_weights(caption, top, show=labels.cell),)),
            Section("What it cost", facts=cost),
        ),
    )
