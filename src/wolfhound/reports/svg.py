"""Pictures of matplotlib -> SVG that stands in a page: text stays text, colours follow its theme."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING
from xml.etree import ElementTree

from wolfhound import plot

if TYPE_CHECKING:
    from matplotlib.axes import Axes

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
