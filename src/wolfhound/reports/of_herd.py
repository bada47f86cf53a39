"""What is told of a herd: the rows, how near they are, and how much nearer than random ones."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from wolfhound.herding.picture import group_labels, project_rows
from wolfhound.herding.result import HerdResult, take_drawn
from wolfhound.markup import Grid, bar, drop_ids
from wolfhound.reports import figures
from wolfhound.reports.of_run import LISTED, describe_atoms, tell_oracle
from wolfhound.reports.story import Chart, RowLabels, Section, Story
from wolfhound.text import seconds_text


def tell_herd(result: HerdResult, labels: RowLabels) -> Story:
    """Tell of rows that stand for all."""
    known = not math.isnan(result.gain)
    nearer = f"{result.gain:.3g} times" if known else "-"
    asked = (
        ("choose", f"{len(result.ids):,} rows that stand for all"),
        ("of", describe_atoms(result.fingerprint)),
        ("near by", result.space),
        ("measured on", result.reference),
        *result.notes,
    )
    told = f"{len(result.ids):,} rows, {nearer} closer to all rows than a random subset" if known else ""
    return Story(
        title="Rows that stand for all",
        status=result.status.name,
        good=result.success,
        sentence=told or result.status.value,
        tiles=(
            ("rows", f"{len(result.ids):,}"),
            ("MMD", f"{result.mmd:.3g}"),
            ("closer than random", nearer),
            ("effective rows", f"{result.ess:,.4g}"),
            ("time", seconds_text(result.seconds)),
        ),
        sections=(
            Section("What was asked", facts=asked),
            Section("The answer", charts=tuple(_draw_rows(result)), grids=tuple(_list_rows(result, labels))),
            Section("How good it is", _say_quality(result), charts=tuple(_draw_curve(result))),
            tell_oracle(result.trace, result.seconds),
        ),
    )


def _say_quality(result: HerdResult) -> tuple[str, ...]:
    if math.isnan(result.mmd):
        return (f"The distance was not measured: {result.reference}.",)
    random = f"{result.mmd_random:.4g}, give or take {result.mmd_random_spread:.2g}"
    return (f"MMD {result.mmd:.4g}; of random subsets of as many rows {random}.",)


def _list_rows(result: HerdResult, labels: RowLabels) -> Iterator[Grid]:
    most = float(result.weights.max())
    rows = []
    for at, i in enumerate(result.ids[:LISTED].tolist()):
        label = () if result.labels is None else (str(result.labels[at]),)
        weight = float(result.weights[at])
        rows.append((labels.cell(i), f"{i}", *label, bar(f"{weight:.3g}", weight / most)))
    headings = ("row", "id", *(() if result.labels is None else ("label",)), "weight")
    caption = f"The first {len(rows):,} of {len(result.ids):,} rows, in the order of their picks"
    yield drop_ids(Grid(caption, headings, rows, (0, *range(2, len(headings)))))
    if result.labels is not None:
        values, counts = np.unique(result.labels, return_counts=True)
        within = ["-"] * len(values) if result.mmd_by is None else [f"{each:.3g}" for each in result.mmd_by]
        cells = [
            (str(value), f"{count:,}", mmd) for value, count, mmd in zip(values, counts, within, strict=True)
        ]
        yield Grid("Rows by label", ("label", "rows", "MMD within the label"), cells[:LISTED])


def _draw_rows(result: HerdResult) -> Iterator[Chart]:
    """The chosen rows among the others, if the rows are still at hand."""
    if result.session is None:
        return
    sample, chosen = take_drawn(result.session.atoms, result.ids, result.session.table)
    others, dots = project_rows(sample, chosen)
    sizes = 7.0 * np.sqrt(np.clip(result.weights * len(result.weights), 0.1, 6.0))
    data = [
        figures.draw_dots(
            "rows (a sample)", others[:, 0], others[:, 1], -1, marker={"size": 3.5, "opacity": 0.6}
        )
    ]
    for slot, (name, which) in enumerate(group_labels(result.labels, len(dots)).items()):
        texts = [f"row {i}" for i in result.ids[which].tolist()]
        marker = {"size": sizes[which].tolist(), "opacity": 0.9}
        data.append(figures.draw_dots(name, dots[which, 0], dots[which, 1], slot, marker=marker, text=texts))
    figure = figures.lay_out(data, x="first principal axis", y="second principal axis")
    said = figures.limit(figure, np.concatenate([others, dots]), "rows")
    label = f"{len(dots):,} chosen rows spread over {len(others):,} of all rows.{said}"
    columns = {
        "row": [str(i) for i in result.ids.tolist()],
        "first axis": dots[:, 0],
        "second axis": dots[:, 1],
    }
    title = f"The chosen rows among the others.{said}" if said else "The chosen rows among the others"
    yield Chart(title, label, (("rows", figure),), figures.list_columns("Where the chosen rows are", columns))


def _draw_curve(result: HerdResult) -> Iterator[Chart]:
    curve = result.curve
    if not len(curve.sizes):
        return
    sizes = curve.sizes.astype(np.float64)
    data = [
        figures.draw_line("chosen", sizes, np.where(curve.mmd > 0.0, curve.mmd, np.nan), 0),
        figures.draw_line("random (mean)", sizes, np.where(curve.random > 0.0, curve.random, np.nan), 1),
    ]
    if result.mmd > 0.0 and result.mmd != curve.mmd[-1]:
        data.append(figures.draw_dots("weighted", sizes[-1:], [result.mmd], 2, marker={"size": 11}))
    label = (
        f"Two falling lines: with {sizes[-1]:,.0f} rows the chosen ones are at {curve.mmd[-1]:.3g}, "
        f"random ones at {curve.random[-1]:.3g}."
    )
    figure = figures.lay_out(data, x="rows m", y="MMD", x_log=True, y_log=True)
    columns = {"rows": sizes, "chosen": curve.mmd, "random": curve.random}
    grid = figures.list_columns("MMD by number of rows", columns)
    yield Chart("Distance from all rows, by their number", label, (("rows", figure),), grid)
