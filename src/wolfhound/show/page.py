"""Summaries -> a page: `page_parts/` holds HTML, style and script; `markup` escapes text.

Pictures of matplotlib stand in it as SVG: text stays text, colours follow the theme of the page.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Callable, Iterable, Mapping
from importlib.resources import files
from string import Template
from typing import TYPE_CHECKING
from xml.etree import ElementTree

from wolfhound.show import plot
from wolfhound.show.markup import Field, Grid, Picture, RowLabels, Summary, escape, list_facts, list_notes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_ROWS = 500  # of a table; most hold fewer
_SAME = "The same seed and the same versions give the same bits, at any number of threads."

_THEME = {
    **{colour: f"c{slot}" for slot, colour in enumerate(plot.COLOURS)},
    plot.GREY: "soft",
    plot.PALE: "pale",
    plot.LINE: "line",
    plot.SOFT: "pale",
    "#000000": "ink",
    "#FFFFFF": "card",
}
_VARIABLES = {colour.lower(): f"var(--{name})" for colour, name in _THEME.items()}
_HREF = "{http://www.w3.org/1999/xlink}href"
_NOT_OURS = ("metadata", "style")  # the page has a style of its own


class Page:
    """Collects the parts of a page; no two elements of it have the same id."""

    def __init__(self, labels: RowLabels) -> None:
        self._labels, self._ids = labels, 0
        self._contents: list[tuple[str, str]] = []
        self._body: list[str] = []

    def add(self, told: Summary, name: str = "") -> None:
        """Add a result, as a part of this name if there are several."""
        level = 2
        if name:
            anchor, level = self._anchor(name, listed=True), 3
            self._body.append(f'<h2 class="part" id="{anchor}">{escape(name)}</h2>')
        self._body.append(_write_head(told))
        self._add_section("The answer", list_facts(told.lines()) + list_notes(told.notes), level)
        self.add_pictures("In pictures", told.pictures(), level)
        self._add_section("In tables", self._write_tables(told.tables), level)
        more = told.details()
        found = list_facts([(name, text) for name, text, *_ in more.fields]) + list_notes(more.notes)
        self._add_section("How it was found", found + self._write_tables(more.tables), level)

    def add_pictures(self, heading: str, pictures: Iterable[Picture], level: int = 2) -> None:
        """Add pictures under a heading, if there are any."""
        drawn = "".join(map(self._write_picture, pictures))
        self._add_section(heading, drawn and f'<div class="pictures">{drawn}</div>', level)

    def add_plan(self, told: Summary) -> None:
        """Add what other oracles would have cost."""
        facts = list_facts([("chosen", told.heading), *told.lines()])
        self._add_section("The plan", facts + list_notes(told.notes) + self._write_tables(told.tables), 2)

    def add_repeat(self, command: str | None, facts: list[tuple[str, str]]) -> None:
        """Add what is needed to make it again."""
        note = list_notes([_SAME])
        code = f'<pre tabindex="0"><code>{escape(command)}</code></pre>' if command else ""
        self._add_section("To repeat it", note + list_facts(facts) + code, 2)

    def write(self, title: str) -> str:
        """Return the whole page."""
        script = _read("page.js")
        # A script that is not this one does not run, wherever it comes from.
        digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        links = "".join(f'<li><a href="#{anchor}">{escape(name)}</a></li>' for anchor, name in self._contents)
        return Template(_read("page.html")).substitute(
            title=escape(title),
            digest=f"'sha256-{digest}'",
            style=_read("page.css"),
            contents=f'<nav aria-label="Contents"><ul>{links}</ul></nav>',
            body="".join(self._body),
            script=script,
        )

    def _add_section(self, heading: str, inside: str, level: int) -> None:
        if inside:
            anchor = self._anchor(heading, listed=level == 2)
            title = f'<h{level} id="{anchor}">{escape(heading)}</h{level}>'
            self._body.append(f'<section aria-labelledby="{anchor}">{title}{inside}</section>')

    def _anchor(self, heading: str, *, listed: bool) -> str:
        self._ids += 1
        anchor = f"part-{self._ids}"
        self._contents += [(anchor, heading)] if listed else []
        return anchor

    def _write_picture(self, picture: Picture) -> str:
        self._ids += 1
        drawn = f'<div class="plot" role="img" aria-label="{escape(picture.text)}">'
        drawn += draw_svg(picture.draw, f"p{self._ids}") + "</div>"
        table = "" if picture.numbers is None else self._write_tables([picture.numbers])
        numbers = table and f"<details><summary>Numbers of this picture</summary>{table}</details>"
        return f"<figure><figcaption>{escape(picture.title)}</figcaption>{drawn}{numbers}</figure>"

    def _write_tables(self, grids: Iterable[Grid]) -> str:
        """Tables that may be wider than the page: they are scrolled, by keys too."""
        place = 'class="wide" tabindex="0" role="region"'
        return "".join(
            f'<div {place} aria-label="{escape(grid.caption)}">{grid.html(self._labels, _ROWS)}</div>'
            for grid in grids
            if grid.rows
        )


def _write_head(told: Summary) -> str:
    look = "good" if told.success else "bad"
    badge = f'<span class="badge {look}">{escape(told.status)}</span> ' if told.status else ""
    tiles = [tile for *_, tile in (Field(*field) for field in told.fields) if tile]
    items = (
        f'<div class="tile"><dt>{escape(name)}</dt><dd>{escape(text)}</dd></div>' for name, text in tiles
    )
    lead = f'<p class="lead">{badge}{escape(told.message or told.heading)}</p>'
    return f'<div class="head">{lead}<dl class="tiles">{"".join(items)}</dl></div>'


def _read(name: str) -> str:
    return (files("wolfhound.show") / "page_parts" / name).read_text("utf-8")


# ---------------------------------------------------------------- pictures


def draw_svg(draw: Callable[[Axes], None], prefix: str) -> str:
    """Return a picture as an element of a page; `prefix` begins its ids: no two pictures may share one."""
    root = ElementTree.fromstring(plot.render_svg(draw))
    for parent in list(root.iter()):
        for child in list(parent):
            if child.tag.rpartition("}")[2] in _NOT_OURS:
                parent.remove(child)
    addresses = " ".join(each.get(_HREF, "") + each.get("clip-path", "") for each in root.iter())
    used = dict.fromkeys(re.findall(r"#([\w-]+)", addresses))
    names = {id: f"{prefix}-{at}" for at, id in enumerate(used)}
    for each in root.iter():
        each.tag, each.tail = each.tag.rpartition("}")[2], None
        each.attrib = _dress(each.attrib, names)
    for parent in root.iter("g"):
        styles = {child.get("style") for child in parent}
        if len(parent) > 1 and len(styles) == 1 and parent[0].tag == "use" and None not in styles:
            parent.set("style", str(styles.pop()))
            for child in parent:
                del child.attrib["style"]
    root.attrib = {"viewBox": root.attrib["viewBox"], "aria-hidden": "true"}
    return ElementTree.tostring(root, encoding="unicode")


def _dress(given: Mapping[str, str], names: Mapping[str, str]) -> dict[str, str]:
    """Attributes as a page takes them: its own ids, variables for colours, no more digits than are seen."""
    found: dict[str, str] = {}
    for name, text in given.items():
        match name:
            case "id":
                found |= {"id": names[text]} if text in names else {}
            case "clip-path":
                found[name] = re.sub(r"#([\w-]+)", lambda hit: f"#{names[hit[1]]}", text)
            case "style":
                plain = re.sub(r"font-family:[^;]*;? ?", "", text)
                found[name] = re.sub("#[0-9a-f]{6}", lambda hit: _VARIABLES.get(hit[0], hit[0]), plain)
            case "d" | "x" | "y":
                found[name] = re.sub(
                    r"-?\d+\.\d+", lambda hit: f"{float(hit[0]):.2f}", " ".join(text.split())
                )
            case _ if name == _HREF:
                found["href"] = f"#{names[text[1:]]}" if text.startswith("#") else text
            case _:
                found[name] = text
    return found
