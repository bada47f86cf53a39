"""Stories -> HTML. Text is escaped by `wolfhound.markup`; here is structure only."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from itertools import count

from wolfhound.markup import Grid, Markup, escape, list_facts
from wolfhound.reports.story import Chart, Section, Story


class Renderer:
    """Makes HTML of sections; no two elements of one page have the same id."""

    def __init__(self) -> None:
        self._numbers = count(1)
        self.contents: list[tuple[str, str]] = []

    def story(self, story: Story) -> str:
        """Return the head and the sections of one result."""
        sections = "".join(self.section(each, 2) for each in story.sections)
        return f"{self._head(story)}{sections}"

    def stories(self, stories: Mapping[str, Story]) -> str:
        """Return several results, a part each."""
        parts = []
        for name, story in stories.items():
            anchor = self._anchor(name)
            body = "".join(self.section(each, 3) for each in story.sections)
            parts.append(f'<h2 class="part" id="{anchor}">{escape(name)}</h2>{self._head(story)}{body}')
        return "".join(parts)

    def section(self, section: Section, level: int) -> str:
        """Return a section under a heading of this level."""
        anchor = self._anchor(section.heading, listed=level == 2)
        inside = [f"<p>{escape(line)}</p>" for line in section.text]
        inside.append(list_facts(section.facts))
        inside.append(f'<pre tabindex="0"><code>{escape(section.code)}</code></pre>' if section.code else "")
        inside += [self._chart(chart) for chart in section.charts]
        inside += [_wrap(grid) for grid in section.grids]
        title = f'<h{level} id="{anchor}">{escape(section.heading)}</h{level}>'
        return f'<section aria-labelledby="{anchor}">{title}{"".join(inside)}</section>'

    def _head(self, story: Story) -> str:
        look = "good" if story.good else "bad"
        badge = f'<span class="badge {look}">{escape(story.status)}</span> ' if story.status else ""
        items = (
            f'<div class="tile"><dt>{escape(name)}</dt><dd>{escape(text)}</dd></div>'
            for name, text in story.tiles
        )
        lead = f'<p class="lead">{badge}{escape(story.sentence)}</p>'
        return f'<div class="head">{lead}<dl class="tiles">{"".join(items)}</dl></div>'

    def _chart(self, chart: Chart) -> str:
        number = next(self._numbers)
        data = {name: figure for name, figure in chart.views}
        pieces = [
            f'<figure class="chart" id="figure-{number}">',
            f"<figcaption>{escape(chart.title)}</figcaption>",
            self._switch(chart, number) if len(chart.views) > 1 else "",
            f'<div class="plot" role="img" aria-label="{escape(chart.label)}"></div>',
            f'<script type="application/json">{_as_data(data)}</script>',
            f"<details><summary>Numbers of this picture</summary>{_wrap(chart.grid)}</details></figure>",
        ]
        return "".join(pieces)

    def _switch(self, chart: Chart, number: int) -> str:
        """Return the choice between the views of a chart."""
        group = f"view-{number}"
        options = "".join(self._option(group, name, at == 0) for at, (name, _) in enumerate(chart.views))
        return f'<fieldset class="switch"><legend>Show against</legend>{options}</fieldset>'

    def _option(self, group: str, name: str, first: bool) -> str:
        checked = " checked" if first else ""
        box = f'<input type="radio" name="{group}" value="{escape(name)}"{checked}>'
        return f"<label>{box}<span>{escape(name)}</span></label>"

    def _anchor(self, heading: str, *, listed: bool = True) -> str:
        anchor = f"part-{next(self._numbers)}"
        if listed:
            self.contents.append((anchor, heading))
        return anchor


def _wrap(grid: Grid) -> str:
    """A table that may be wider than the page: it is scrolled, by keys too."""
    place = f'class="wide" tabindex="0" role="region" aria-label="{escape(grid.caption)}"'
    return f"<div {place}>{grid.html()}</div>"


def _as_data(value: object) -> str:
    """JSON that no browser mistakes for the end of a script."""
    text = json.dumps(value, allow_nan=False, separators=(",", ":"))
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def list_contents(contents: list[tuple[str, str]]) -> Markup:
    """Return links to the parts of a page."""
    items: Iterator[str] = (f'<li><a href="#{anchor}">{escape(name)}</a></li>' for anchor, name in contents)
    return Markup(f'<nav aria-label="Contents"><ul>{"".join(items)}</ul></nav>')
