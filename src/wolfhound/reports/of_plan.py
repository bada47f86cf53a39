"""What is told of plans: what every oracle costs, which of them pays, what the theorems say."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from collections.abc import Sequence

from wolfhound.planning.choose import Choice, Option
from wolfhound.planning.plan import Plan
from wolfhound.reports import figures
from wolfhound.reports.story import Chart, RowLabels, Section, Story
from wolfhound.text import bytes_text, seconds_text


def tell_plan(result: Plan, labels: RowLabels) -> Story:
    """Tell what a run would cost with every oracle."""
    return _tell(result, "What a run would cost")


def tell_choice(result: Choice, labels: RowLabels) -> Story:
    """Tell which oracle is the cheapest, and why."""
    return _tell(result, "The oracle that pays")


def _tell(result: Plan | Choice, title: str) -> Story:
    told, best = result.summary(), result.chosen
    return Story(
        title=title,
        status="",
        good=True,
        sentence=told.heading,
        tiles=(
            ("oracle", best.title),
            ("in all", seconds_text(best.total_seconds)),
            ("per query", seconds_text(best.query_seconds)),
            ("memory beside the atoms", bytes_text(best.nbytes)),
        ),
        sections=(
            Section("What was asked", (told.heading,), told.lines),
            Section("The plan", told.notes, charts=(_draw_totals(result.options, best),), grids=told.grids),
        ),
    )


def _draw_totals(options: Sequence[Option], chosen: Option) -> Chart:
    known = [each for each in options if math.isfinite(each.total_seconds) and each.total_seconds > 0.0]
    groups = {
        "chosen": [each for each in known if each is chosen],
        "will do": [each for each in known if each is not chosen and not each.objection],
        "will not do": [each for each in known if each.objection],
    }
    data = [
        figures.draw_bars(
            name, [each.total_seconds for each in some], range(len(some)), slot, orientation="h"
        )
        | {"y": [figures.plain(each.title) for each in some]}
        for (name, some), slot in zip(groups.items(), (1, 0, -1), strict=True)
        if some
    ]
    figure = figures.lay_out(data, x="seconds in all, building included", y="", x_log=True)
    figure["layout"]["yaxis"] |= {"autorange": "reversed", "automargin": True}
    label = f"{chosen.title} takes {seconds_text(chosen.total_seconds)} in all, building included."
    columns = {"oracle": [each.title for each in known], "seconds": [each.total_seconds for each in known]}
    grid = figures.list_columns("Seconds in all", columns)
    return Chart("Time in all, by oracle", label, (("time", figure),), grid)
