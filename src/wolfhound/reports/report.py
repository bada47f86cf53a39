"""`report`: a result as one page that anyone can open."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import datetime
import os
import platform
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from wolfhound.planning.choose import Choice
from wolfhound.planning.plan import Plan
from wolfhound.reports.kinds import find_teller
from wolfhound.reports.page import fill_page, import_plotly
from wolfhound.reports.render import Renderer
from wolfhound.reports.story import Names, RowLabels, Section, Story, Thumbnails
from wolfhound.threads import get_threads
from wolfhound.validate import describe, file_path, kind, require
from wolfhound.writers import write_file

ENDINGS = (".html", ".htm")
"""Of pages."""

_PACKAGES = ("wolfhound", "numpy", "scipy", "numba", "plotly")


def report(
    result: object,
    path: str | os.PathLike[str],
    *,
    title: str | None = None,
    names: Names | None = None,
    thumbnails: Thumbnails | None = None,
    plan: object | None = None,
    command: str | None = None,
) -> Path:
    """Write a page that shows a result: one file, which needs no network.

    It holds what was asked, the answer, the proved band between value and bound, what the
    oracle did, and what is needed to repeat it. Needs ``wolfhound[report]``.

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

    Raises
    ------
    ImportError
        If plotly is not installed.

    Examples
    --------
    >>> import tempfile
    >>> import wolfhound as wh
    >>> run = wh.minimize(wh.SquaredDistance([1.0, 0.2]), [[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    >>> with tempfile.TemporaryDirectory() as folder:  # doctest: +SKIP
    ...     page = wh.report(run, f"{folder}/run.html", names=["none", "left", "right"])
    """
    where = file_path(path, "path", ENDINGS)
    if plan is not None:
        kind(plan, "plan", "a plan or a choice of an oracle", Plan, Choice)
    _check_table(names, "names", "names by id: a sequence or a dict")
    if not callable(thumbnails):
        _check_table(thumbnails, "thumbnails", "pictures by id: a sequence, a dict or a function")
    for name, text in {"title": title, "command": command}.items():
        if text is not None:
            kind(text, name, "a string", str)
    import_plotly()  # says what to install before anything else is done
    page = make_page(result, title, RowLabels(names, thumbnails), plan, command)
    write_file(where, page.encode("utf-8", "replace"))  # names of files may be no UTF-8
    return where


def _check_table(value: object, name: str, rule: str) -> None:
    """Refuse what is not looked up by id; a text would be taken as its letters."""
    if isinstance(value, str | bytes):
        raise TypeError(f"`{name}` must be {rule}. Got {describe(value)}.")
    if value is not None:
        kind(value, name, rule, "__getitem__", "__len__")


def make_page(
    result: object, title: str | None, labels: RowLabels, plan: object | None, command: str | None
) -> str:
    """Return the text of the page; see `report`."""
    renderer = Renderer()
    if isinstance(result, Mapping):
        require(bool(result), "result", "at least one result", "an empty dict")
        stories = {str(name): find_teller(each)(each, labels) for name, each in result.items()}
        body, heading = renderer.stories(stories), f"{len(stories)} results"
    else:
        story: Story = find_teller(result)(result, labels)
        body, heading = renderer.story(story), story.title
    last = [] if plan is None else _tell_plan(find_teller(plan)(plan, labels))
    body += "".join(renderer.section(each, 2) for each in (*last, _tell_repeat(command)))
    return fill_page(heading if title is None else title, renderer.contents, body)


def _tell_plan(story: Story) -> list[Section]:
    """The plan as one section of another page."""
    _, found, *_ = story.sections
    return [found._replace(heading="The plan", text=(f"{story.sentence}.", *found.text))]


def _tell_repeat(command: str | None) -> Section:
    now = datetime.datetime.now(datetime.UTC)
    facts = (
        *((name, found) for name in _PACKAGES if (found := _find_version(name))),
        ("Python", platform.python_version()),
        ("system", f"{platform.system()} {platform.machine()}, threads {get_threads()}"),
        ("written", f"{now:%Y-%m-%d %H:%M} UTC"),
    )
    text = ("The same seed and the same versions give the same bits, at any number of threads.",)
    return Section("To repeat it", text, facts, code=command or "")


def _find_version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return ""
