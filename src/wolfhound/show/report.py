"""`report`: a result as one page that anyone can open."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import base64
import datetime
import os
import platform
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, TypeAlias

from wolfhound.core.threads import get_threads
from wolfhound.core.validate import describe, file_path, kind, require
from wolfhound.data.writers import write_file
from wolfhound.show.compare import picture_runs
from wolfhound.show.markup import Atom, HasSummary, RowLabels, escape
from wolfhound.show.page import Page

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
    page.add_repeat(command, _list_versions())
    return page.write(heading if title is None else title)


def _check_result(value: object) -> HasSummary:
    if not isinstance(value, HasSummary):
        rule = "what a function of wolfhound gives back, such as a Result, or a dict of several by name"
        raise TypeError(f"`result` must be {rule}. Got {describe(value)}.")
    return value


def _list_versions() -> list[tuple[str, str]]:
    now = datetime.datetime.now(datetime.UTC)
    return [
        *((name, found) for name in _PACKAGES if (found := _find_version(name))),
        ("Python", platform.python_version()),
        ("system", f"{platform.system()} {platform.machine()}, threads {get_threads()}"),
        ("written", f"{now:%Y-%m-%d %H:%M} UTC"),
    ]


def _find_version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return ""


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
        found = (
            self._thumbnails(atom.id) if callable(self._thumbnails) else _look_up(self._thumbnails, atom.id)
        )
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
