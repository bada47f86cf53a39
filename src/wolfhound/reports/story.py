"""Records of a page: what is told of a result, before it is HTML."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import base64
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from wolfhound.markup import Cell, Grid, Markup, escape

Thumbnail: TypeAlias = bytes | str | os.PathLike[str]
"""A picture: its bytes, or the path of a file."""

Thumbnails: TypeAlias = Mapping[int, Thumbnail] | Sequence[Thumbnail] | Callable[[int], Thumbnail | None]
"""Pictures by id of an atom."""

Names: TypeAlias = Mapping[int, str] | Sequence[str]
"""Names by id of an atom."""

_STARTS = {
    b"\x89PNG\r\n\x1a\n": "png",
    b"\xff\xd8\xff": "jpeg",
    b"GIF87a": "gif",
    b"GIF89a": "gif",
    b"RIFF": "webp",
}


class Chart(NamedTuple):
    """A picture that answers to the pointer.

    Attributes
    ----------
    title : str
        What it shows.
    label : str
        What there is to see, in one sentence: for those who cannot see it.
    views : tuple of (name, figure)
        The same against different axes; the first is shown first.
    grid : Grid
        Its numbers, or some of them.
    """

    title: str
    label: str
    views: tuple[tuple[str, dict[str, Any]], ...]
    grid: Grid


class Section(NamedTuple):
    """A part of a page under a heading."""

    heading: str
    text: tuple[str, ...] = ()
    facts: tuple[tuple[str, str], ...] = ()
    charts: tuple[Chart, ...] = ()
    grids: tuple[Grid, ...] = ()
    code: str = ""


class Story(NamedTuple):
    """All that is told of a result.

    Attributes
    ----------
    title : str
        What it is.
    status : str
        How it ended, in a word; empty if nothing was run.
    good : bool
        Whether it did what was asked.
    sentence : str
        How it ended, or what it says.
    tiles : tuple of (name, text)
        The numbers to see first.
    sections : tuple of Section
        What was asked, the answer, the proof, the cost.
    """

    title: str
    status: str
    good: bool
    sentence: str
    tiles: tuple[tuple[str, str], ...]
    sections: tuple[Section, ...]


class RowLabels:
    """What stands for an atom: its name, its picture, else its id.

    Parameters
    ----------
    names, thumbnails
        By id.
    """

    def __init__(self, names: Names | None = None, thumbnails: Thumbnails | None = None) -> None:
        self._names, self._thumbnails = names, thumbnails

    def name(self, i: int, known: str | None = None) -> str:
        """Return the name that was given, else the one that is known, else the id."""
        found = _look_up(self._names, i)
        return known or f"#{i}" if found is None else str(found)

    def cell(self, i: int, known: str | None = None) -> Cell:
        """Return a cell with the picture and the name of an atom."""
        name = self.name(i, known)
        found = self._thumbnails(i) if callable(self._thumbnails) else _look_up(self._thumbnails, i)
        if found is None:
            return name
        alt = escape(f"picture of {name}")
        return Markup(f'<span class="named"><img src="{_embed(found)}" alt="{alt}">{escape(name)}</span>')

    def names_of(self, pairs: Sequence[tuple[int, float]]) -> str:
        """Return "a 0.60, b 0.40" of ids and weights."""
        return ", ".join(f"{self.name(i)} {weight:.3f}" for i, weight in pairs)


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
