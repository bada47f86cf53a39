"""Numbers -> figures as plotly's JavaScript takes them. Colours are slots: the page knows the theme."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

import numpy as np

from wolfhound.core import Ints, Vector
from wolfhound.markup import Grid
from wolfhound.plot import robust_limits

Figure: TypeAlias = dict[str, Any]

MOST = 1500
"""Points of a line; of longer ones some are left out, never the first or the last."""

_LISTED = 40
_DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
_SYMBOLS = ("circle", "square", "triangle-up", "diamond", "triangle-down", "cross")
_FEW = 60


def numbers(values: Iterable[Any]) -> list[float | None]:
    """Return numbers for JSON: what is not finite has no place in a figure."""
    return [float(value) if math.isfinite(value) else None for value in values]


def plain(text: str) -> str:
    """Return text in which plotly sees no markup."""
    return text.replace("&", "&amp;").replace("<", "&lt;")


def choose_points(size: int, most: int = MOST) -> Ints:
    """Return which of so many points are kept: evenly, the first and the last among them."""
    return np.unique(np.linspace(0, max(size - 1, 0), min(size, most)).astype(np.int64))


def draw_line(name: str, x: Any, y: Any, slot: int, **more: Any) -> Figure:
    """Return a line; the slot decides colour and dashes.

    Parameters
    ----------
    name
        As the legend says it.
    x, y : (k,)
    slot
        Which line of the figure it is.
    more
        Further settings of plotly.
    """
    few = len(x) <= _FEW
    return {
        "type": "scatter",
        "mode": "lines+markers" if few else "lines",
        "name": plain(name),
        "x": numbers(x),
        "y": numbers(y),
        "line": {"dash": _DASHES[slot % len(_DASHES)], "width": 2},
        "marker": {"symbol": _SYMBOLS[slot % len(_SYMBOLS)], "size": 6},
        "meta": {"slot": slot},
        **more,
    }


def draw_steps(name: str, x: Any, y: Any, slot: int) -> Figure:
    """Return a line that stays as it is until the next point: what is proved holds until more is."""
    line = draw_line(name, x, y, slot)
    return line | {"line": line["line"] | {"shape": "hv"}}


def draw_dots(name: str, x: Any, y: Any, slot: int, **more: Any) -> Figure:
    """Return dots; a slot of -1 is grey."""
    marker = {"symbol": _SYMBOLS[slot % len(_SYMBOLS)], "size": 7} | more.pop("marker", {})
    places = {"x": numbers(x), "y": numbers(y)}
    meta = {"slot": slot}
    return {
        "type": "scatter",
        "mode": "markers",
        "name": plain(name),
        **places,
        "marker": marker,
        "meta": meta,
        **more,
    }


def draw_bars(name: str, x: Any, y: Any, slot: int, **more: Any) -> Figure:
    """Return bars; x may be names."""
    places = [plain(each) if isinstance(each, str) else float(each) for each in x]
    return {"type": "bar", "name": plain(name), "x": places, "y": numbers(y), "meta": {"slot": slot}, **more}


def draw_level(name: str, height: float, ends: Sequence[float], slot: int) -> Figure:
    """Return a level from one end to the other."""
    return draw_line(name, ends, [height, height], slot, mode="lines", line={"dash": "dash", "width": 1.5})


def lay_out(
    data: list[Figure], *, x: str, y: str, x_log: bool = False, y_log: bool = False, **more: Any
) -> Figure:
    """Return a figure of these traces, with named axes."""
    layout: Figure = {"xaxis": {"title": {"text": plain(x)}}, "yaxis": {"title": {"text": plain(y)}}}
    for axis, log in (("xaxis", x_log), ("yaxis", y_log)):
        layout[axis] |= {"type": "log", "nticks": 8, "exponentformat": "power"} if log else {}
    return {"data": data, "layout": layout | more}


def limit(figure: Figure, points: Vector, what: str) -> str:
    """Keep a few far points from squashing a figure; return a sentence that says so, if there are any.

    Parameters
    ----------
    figure
        Its axes get ranges.
    points : (n, 2)
        All that is drawn.
    what
        What they are, in the plural.
    """
    (left, right), (bottom, top) = (robust_limits(column) for column in points.T)
    inside = (points >= (left, bottom)).all(axis=1) & (points <= (right, top)).all(axis=1)
    if inside.all():
        return ""
    figure["layout"]["xaxis"]["range"] = [left, right]
    figure["layout"]["yaxis"]["range"] = [bottom, top]
    return (
        f" {int((~inside).sum()):,} of {len(points):,} {what} lie outside the picture; zoom out to see them."
    )


def list_columns(caption: str, columns: dict[str, Any]) -> Grid:
    """Return the numbers of a figure as a table, at most some rows of it."""
    size = len(next(iter(columns.values())))
    some = choose_points(size, _LISTED).tolist()
    rows = [tuple(show_number(column[i]) for column in columns.values()) for i in some]
    left_out = f" ({len(some)} of {size:,} rows)" if len(some) < size else ""
    return Grid(caption + left_out, tuple(columns), rows)


def show_number(value: Any) -> str:
    """Return a number in few digits; text as it is; "-" for what is not known."""
    if isinstance(value, str):
        return value
    return f"{value:.6g}" if math.isfinite(value) else "-"
