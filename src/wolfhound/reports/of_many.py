"""What is told of many targets: how far each is from its mixture, and how many are proved."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import itertools

import numpy as np

from wolfhound import plot
from wolfhound.core import Status, Vector
from wolfhound.many.result import STATUSES, ManyResult
from wolfhound.markup import Grid
from wolfhound.reports import figures
from wolfhound.reports.of_run import describe_atoms
from wolfhound.reports.story import Chart, RowLabels, Section, Story
from wolfhound.text import seconds_text

_LISTED = 40
_TOP = 4
_SIDE = 400  # pixels of a map; larger ones are thinned
_BINS = 40


def tell_many(result: ManyResult, labels: RowLabels) -> Story:
    """Tell of a run of `minimize_many`."""
    m = len(result)
    ended = [(status.name, status.value, f"{number:,}") for status, number in result.tally()]
    support = result.support.mean() if m else 0.0
    shape = " x ".join(f"{size:,}" for size in result.shape)
    each = seconds_text(result.seconds / max(m, 1))
    asked = (
        ("targets", shape),
        ("as mixtures of", describe_atoms(result.fingerprint)),
        ("to a gap of", f"{result.goal.min(initial=np.inf):.3g} to {result.goal.max(initial=0.0):.3g}"),
    )
    statuses = Grid("How the targets ended", ("status", "meaning", "targets"), ended, (0, 1))
    passes = (
        f"{result.passes.mean():.3g} on average, {result.passes.max(initial=0):,} at most" if m else "none"
    )
    cost = (
        ("time in all", seconds_text(result.seconds)),
        ("per target", each),
        ("passes per target", passes),
    )
    return Story(
        title="Mixtures for many targets",
        status=_name_outcome(result),
        good=result.success,
        sentence=result.verdict(),
        tiles=(
            ("targets", f"{m:,}"),
            ("largest proved gap", f"{_largest(result.gap):.3g}"),
            ("atoms each", f"{support:.3g}"),
            ("time", seconds_text(result.seconds)),
        ),
        sections=(
            Section("What was asked", facts=asked),
            Section("The answer", charts=_draw_distances(result), grids=(_list_targets(result, labels),)),
            Section("The proof", charts=_draw_gaps(result), grids=(statuses,)),
            Section("What the oracle did", facts=cost),
        ),
    )


def _name_outcome(result: ManyResult) -> str:
    """Two words: what was done as asked need not be proved, where few atoms were asked for."""
    if not result.success:
        return "NOT ALL PROVED"
    found = {status for status, _ in result.tally()}
    return "DONE AS ASKED" if found & {Status.FINISHED, Status.SKIPPED} else "ALL PROVED"


def _largest(values: Vector) -> float:
    return float(values[np.isfinite(values)].max(initial=0.0))


def _list_targets(result: ManyResult, labels: RowLabels) -> Grid:
    rows = []
    for i in range(min(len(result), _LISTED)):
        here = slice(result.indptr[i], result.indptr[i] + min(_TOP, result.support[i]))
        pairs = zip(result.ids[here].tolist(), result.weights[here].tolist(), strict=True)
        place = ", ".join(str(part) for part in np.unravel_index(i, result.shape))
        numbers = f"{result.distance[i]:.6g}", f"{result.gap[i]:.2g}", f"{result.support[i]}"
        rows.append((place, *numbers, STATUSES[result.codes[i]].name, labels.names_of(list(pairs))))
    headings = ("target", "distance", "gap", "atoms", "status", "largest weights")
    return Grid(f"The first {len(rows):,} of {len(result):,} targets", headings, rows, (0, 4, 5))


def _draw_distances(result: ManyResult) -> tuple[Chart, ...]:
    distance = np.where(np.isfinite(result.value), result.distance, np.nan)
    solved = distance[np.isfinite(distance)]
    if not len(solved):
        return ()
    counts, edges = np.histogram(solved, bins=min(_BINS, max(5, len(solved) // 5)))
    middle, width = 0.5 * (edges[1:] + edges[:-1]), np.diff(edges)
    bars = figures.draw_bars("targets", middle, counts, 0, width=width.tolist())
    views = [("how many", figures.lay_out([bars], x="distance from the mixture", y="targets"))]
    if len(result.shape) == 2 and min(result.shape) > 1:
        views.insert(0, ("map", _draw_map(distance.reshape(result.shape), solved)))
    label = (
        f"Distances of {len(solved):,} solved targets from their mixtures: least {solved.min():.4g}, "
        f"median {np.median(solved):.4g}, largest {solved.max():.4g}."
    )
    columns = {"from": edges[:-1], "to": edges[1:], "targets": counts}
    grid = figures.list_columns("How many targets are how far", columns)
    return (Chart("How far the targets are from their mixtures", label, tuple(views), grid),)


def _draw_map(distance: Vector, solved: Vector) -> figures.Figure:
    rows, columns = (figures.choose_points(size, _SIDE) for size in distance.shape)
    low, high = plot.robust_limits(solved)
    heat = {
        "type": "heatmap",
        "z": [figures.numbers(row) for row in distance[np.ix_(rows, columns)]],
        "x": columns.tolist(),
        "y": rows.tolist(),
        "zmin": max(low, 0.0),
        "zmax": high,
        "colorscale": "Viridis",
        "colorbar": {"title": {"text": "distance"}, "outlinewidth": 0},
        "meta": {"slot": 0},
    }
    figure = figures.lay_out([heat], x="column", y="row")
    figure["layout"]["yaxis"] |= {"autorange": "reversed", "scaleanchor": "x", "constrain": "domain"}
    figure["layout"]["xaxis"] |= {"constrain": "domain"}
    return figure


def _draw_gaps(result: ManyResult) -> tuple[Chart, ...]:
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(result.gap > 0.0, result.gap / result.goal, 0.0)[np.isfinite(result.value)]
    edges = [-np.inf, 1e-6, 1e-4, 1e-2, 1e-1, 1.0, np.inf]
    names = ["<= 1e-6", "<= 1e-4", "<= 0.01", "<= 0.1", "<= 1", "> 1"]
    counts = [int(((ratio > low) & (ratio <= high)).sum()) for low, high in itertools.pairwise(edges)]
    bars = figures.draw_bars("targets", names, counts, 2)
    view = figures.lay_out([bars], x="proved gap / wanted gap", y="targets")
    beyond = f"{counts[-1]:,} targets are beyond the wanted gap, {sum(counts[:-1]):,} are within it."
    grid = figures.list_columns(
        "Targets by proved gap over wanted gap", {"gap / goal": names, "targets": counts}
    )
    return (Chart("Proved gaps, relative to what was wanted", beyond, (("how many", view),), grid),)
