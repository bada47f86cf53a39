"""`report`: a result as one page that anyone can open.

`page_parts/` holds HTML, style and script; `markup` escapes text. Pictures of matplotlib stand in the page
as SVG: text stays text, colours follow the theme of the page.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import base64
import contextlib
import datetime
import hashlib
import os
import platform
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Any, TypeAlias
from xml.etree import ElementTree

from wolfhound.core.atomic import write_file
from wolfhound.core.threads import get_threads
from wolfhound.core.validate import describe, file_path, hint_keywords, kind, require
from wolfhound.show import plot
from wolfhound.show.compare import picture_runs
from wolfhound.show.markup import (
    Atom,
    Field,
    Grid,
    HasSummary,
    Picture,
    RowLabels,
    Summary,
    escape,
    list_facts,
    list_notes,
    read_part,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Thumbnail: TypeAlias = bytes | str | os.PathLike[str]
"""A picture: its bytes, or the path of a file."""

Thumbnails: TypeAlias = Mapping[int, Thumbnail] | Sequence[Thumbnail] | Callable[[int], Thumbnail | None]
"""Pictures by id of an atom."""

Names: TypeAlias = Mapping[int, str] | Sequence[str]
"""Names by id of an atom."""

ENDINGS = (".html", ".htm")
"""Of pages."""

_PACKAGES = ("wolfhound", "numpy", "scipy", "numba", "matplotlib")

_STARTS = {
    b"\x89PNG\r\n\x1a\n": "png",
    b"\xff\xd8\xff": "jpeg",
    b"GIF87a": "gif",
    b"GIF89a": "gif",
    b"RIFF": "webp",
}

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


@hint_keywords
def report(
    result: object,
    path: str | os.PathLike[str],
    *,
    title: str | None = None,
    names: Names | None = None,
    thumbnails: Thumbnails | None = None,
    plan: HasSummary | None = None,
    command: str | None = None,
) -> Path:
    """Write a page that shows a result: one file, which needs no network.

    It holds what was asked, the answer, the proved band between value and bound, what the
    oracle did, and what is needed to repeat it.

    Parameters
    ----------
    result
        What any function of this package gives back, or a dict of several by name.
    path
        Where to write it: .html. Written whole or not at all.
    title
        Heading; by default what kind of result it is.
    names
        Names of atoms by id: a sequence, or a dict.
    thumbnails
        Pictures of atoms by id: a sequence, a dict, or a function of an id that may give
        None; each the bytes or the path of a PNG, JPEG, GIF or WebP file.
    plan
        A plan or a choice of an oracle, shown after the result.
    command
        The command that makes it again.

    Returns
    -------
    path : Path
        The page.

    Examples
    --------
    >>> import tempfile
    >>> import wolfhound as wh
    >>> run = wh.minimize(wh.SquaredDistance([1.0, 0.2]), [[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     page = wh.report(run, f"{folder}/run.html", names=["none", "left", "right"])
    """
    where = file_path(path, "path", ENDINGS)
    if plan is not None:
        kind(plan, "plan", "a plan or a choice of an oracle", HasSummary)
    _check_table(names, "names", "names by id: a sequence or a dict")
    if not callable(thumbnails):
        _check_table(thumbnails, "thumbnails", "pictures by id: a sequence, a dict or a function")
    for name, text in {"title": title, "command": command}.items():
        if text is not None:
            kind(text, name, "a string", str)
    page = make_page(result, title, PageLabels(names, thumbnails), plan, command)
    write_file(where, page.encode("utf-8", "replace"))  # names of files may be no UTF-8
    return where


def _check_table(value: object, name: str, rule: str) -> None:
    """Refuse what is not looked up by id; a text would be taken as its letters."""
    if isinstance(value, str | bytes):
        raise TypeError(f"`{name}` must be {rule}. Got {describe(value)}.")
    if value is not None:
        kind(value, name, rule, "__getitem__", "__len__")


def make_page(
    result: object, title: str | None, labels: RowLabels, plan: HasSummary | None, command: str | None
) -> str:
    """Return the text of the page; see `report`."""
    page = Page(labels)
    if isinstance(result, Mapping):
        require(bool(result), "result", "at least one result", "an empty dict")
        for each in result.values():
            _check_result(each)
        page.add_pictures("All runs", picture_runs(result))
        for name, each in result.items():
            page.add(_check_result(each).summary(), str(name))
        heading = f"{len(result)} results"
    else:
        told = _check_result(result).summary()
        page.add(told)
        heading = told.title
    if plan is not None:
        page.add_plan(plan.summary())
    code = f'<pre tabindex="0"><code>{escape(command)}</code></pre>' if command else ""
    page.add_section("To repeat it", list_notes([_SAME]) + list_facts(_list_versions()) + code)
    return page.write(heading if title is None else title)


def _check_result(value: object) -> HasSummary:
    if not isinstance(value, HasSummary):
        rule = "what a function of wolfhound gives back, such as a Result, or a dict of several by name"
        raise TypeError(f"`result` must be {rule}. Got {describe(value)}.")
    return value


def _list_versions() -> list[tuple[str, str]]:
    now, found = datetime.datetime.now(datetime.UTC), []
    for name in _PACKAGES:
        with contextlib.suppress(PackageNotFoundError):
            found.append((name, version(name)))
    return [
        *found,
        ("Python", platform.python_version()),
        ("system", f"{platform.system()} {platform.machine()}, threads {get_threads()}"),
        ("written", f"{now:%Y-%m-%d %H:%M} UTC"),
    ]


# ---------------------------------------------------------------- names and pictures


class PageLabels(RowLabels):
    """What stands for an atom on a page: its picture, and the name that was given, else the one it has."""

    def __init__(self, names: Names | None = None, thumbnails: Thumbnails | None = None) -> None:
        self._names, self._thumbnails = names, thumbnails

    def name(self, atom: Atom) -> str:
        """Return the name of an atom."""
        found = _look_up(self._names, atom.id)
        return super().name(atom) if found is None else str(found)

    def html(self, atom: Atom) -> str:
        """Return the picture and the name of an atom, as HTML."""
        name = self.name(atom)
        pictures = self._thumbnails
        found = pictures(atom.id) if callable(pictures) else _look_up(pictures, atom.id)
        if found is None:
            return escape(name)
        picture = f'<img src="{_embed(found)}" alt="{escape(f"picture of {name}")}">'
        return f'<span class="named">{picture}{escape(name)}</span>'


def _look_up(table: Any, i: int) -> Any:
    if table is None:
        return None
    if isinstance(table, Mapping):
        return table.get(i)
    return table[i] if 0 <= i < len(table) else None


def _embed(picture: Thumbnail) -> str:
    """A picture as an address that holds it; only kinds that every browser knows."""
    data = picture if isinstance(picture, bytes) else Path(picture).read_bytes()
    kinds = [kind for start, kind in _STARTS.items() if data.startswith(start)]
    if not kinds:
        got = "other bytes" if isinstance(picture, bytes) else os.fspath(picture)
        raise ValueError(f"`thumbnails` must be PNG, JPEG, GIF or WebP. Got {got}.")
    return f"data:image/{kinds[0]};base64,{base64.b64encode(data).decode()}"


# ---------------------------------------------------------------- the page


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
        meant = list_notes([told.meaning] if told.meaning else ())
        self.add_section("The answer", meant + list_facts(told.lines()) + list_notes(told.notes), level)
        self.add_pictures("In pictures", told.pictures(), level)
        more = told.details()
        self.add_section("In tables", self._write_tables(more.answers or told.tables), level)
        found = list_facts([(name, text) for name, text, *_ in more.fields]) + list_notes(more.notes)
        self.add_section("How it was found", found + self._write_tables(more.tables), level)

    def add_pictures(self, heading: str, pictures: Iterable[Picture], level: int = 2) -> None:
        """Add pictures under a heading, if there are any."""
        drawn = "".join(map(self._write_picture, pictures))
        self.add_section(heading, drawn and f'<div class="pictures">{drawn}</div>', level)

    def add_plan(self, told: Summary) -> None:
        """Add what other oracles would have cost."""
        facts = list_facts([("chosen", told.heading), *told.lines()])
        self.add_section("The plan", facts + list_notes(told.notes) + self._write_tables(told.tables))

    def write(self, title: str) -> str:
        """Return the whole page."""
        script = read_part("page.js")
        # A script that is not this one does not run, wherever it comes from.
        digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        links = "".join(f'<li><a href="#{anchor}">{escape(name)}</a></li>' for anchor, name in self._contents)
        return Template(read_part("page.html")).substitute(
            title=escape(title),
            digest=f"'sha256-{digest}'",
            style=read_part("page.css"),
            contents=f'<nav aria-label="Contents"><ul>{links}</ul></nav>',
            body="".join(self._body),
            script=script,
        )

    def add_section(self, heading: str, inside: str, level: int = 2) -> None:
        """Add what is inside under a heading, if there is anything."""
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
