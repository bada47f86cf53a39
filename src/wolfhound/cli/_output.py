"""What the commands print and write: tables, JSON documents, files."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from wolfhound import plot, store
from wolfhound.checkpoint import KIND, Checkpoint
from wolfhound.cli import _places as places
from wolfhound.cli._console import TYPED, write
from wolfhound.cli._console import stderr as stderr  # noqa: PLC0414 - commands find all printing here
from wolfhound.cli._console import stdout as stdout  # noqa: PLC0414
from wolfhound.core import Status
from wolfhound.markup import PLAIN, Atom, Bar, Grid, Summary
from wolfhound.markup import pick as pick  # noqa: PLC0414
from wolfhound.result import Result
from wolfhound.text import passes_text as passes_text  # noqa: PLC0414
from wolfhound.text import seconds_text as seconds_text  # noqa: PLC0414
from wolfhound.writers import TABLES, as_json, write_file

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PICTURES = (".png", ".svg", ".pdf")
PAGES = (".html", ".htm")

_BAR = 24
_BRACKET = re.compile(r"(\\*)\[([a-z#/@][^[]*?\])?")  # the second group: what rich takes for a tag


# ---------------------------------------------------------------- results


class HasStatus(Protocol):
    """What every result has."""

    @property
    def status(self) -> Status:
        """Why it ended."""

    @property
    def success(self) -> bool:
        """Whether it did what was asked."""


def exit_code(*results: HasStatus) -> int:
    """0 if all did what was asked, 130 if one was interrupted, else 1."""
    if any(result.status is Status.INTERRUPTED for result in results):
        return 130
    return 0 if all(result.success for result in results) else 1


def print_fields(console: Console, fields: Iterable[tuple[str, str]]) -> None:
    """Print names and values, a line each; markup is shown as it stands."""
    table = make_table(show_header=False)
    table.add_column(style="dim")
    for name, value in fields:
        table.add_row(name, plain(value))
    console.print(table)


def make_table(**settings: Any) -> Table:
    """Return a table without lines."""
    return Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim", **settings)


def print_grid(console: Console, grid: Grid, top: int) -> None:
    """Print the first rows of a table of weights, each with a bar; then how much there is besides."""
    table = make_table(show_header=False)
    table.add_column(min_width=12)
    table.add_column(justify="right")
    table.add_column(style="cyan")
    block = "#" if console.options.ascii_only else "█"
    rest, left = 1.0, (len(grid.rows) if grid.size is None else grid.size) - top
    for atom, bar in grid.rows[:top]:
        if isinstance(atom, Atom) and isinstance(bar, Bar):
            rest -= bar.value
            table.add_row(plain(PLAIN.name(atom)), bar.text, block * max(1, round(_BAR * bar.share)))
    if left > 0:
        table.add_row(f"[dim]{left} more[/]", f"[dim]{max(rest, 0.0):.4f}[/]", "")
    console.print(table)


def print_mixture(console: Console, target: str, grid: Grid, top: int, distance: str, why: str) -> None:
    """Print a target and its mixture: the largest weights, how far it is, and why it is not better."""
    console.print(f"[bold]{plain(target)}[/]")
    print_grid(console, grid, top)
    console.print(f"[dim]distance {distance}[/]")
    if why:
        console.print(f"[yellow]{why}[/]")
    console.print()


def plain(text: str) -> str:
    """Return text in which rich sees no markup, whatever comes after it."""
    escaped = _BRACKET.sub(_escape, text)
    body = escaped.rstrip("\\")
    # At the end backslashes would escape the tag that comes next: one that does nothing takes them.
    return escaped if body == escaped else f"{body}{2 * escaped[len(body) :]}[none][/none]"


def _escape(found: re.Match[str]) -> str:
    """Rich halves backslashes before a tag, and takes one from those before any other bracket."""
    slashes, tag = found.groups()
    return f"{slashes * (2 if tag else 1)}\\[{tag or ''}"


def print_plain(text: str) -> None:
    """Print a text on stdout as it stands: without markup, lines not folded."""
    stdout().print(text, markup=False, soft_wrap=True)


def check_checkpoint(path: Path | None) -> str:
    """Refuse a file that cannot serve as --checkpoint; return what to say of a run that goes on."""
    places.check_saved(path, "--checkpoint", "a checkpoint", KIND)
    if path is None or not store.place(path).exists():
        return ""
    found = Checkpoint.load(path)
    if found.success:
        notify(f"the run in {path} has ended")
        return ""
    run = f"{found.objective} by {found.method}, gap {found.gap:.3g}, goal {found.goal:.3g}"
    return f"resumed after pass {found.passes:.3g} of {run}"


def notify(text: str) -> None:
    """Print a text on stderr as it stands."""
    stderr().print(text, markup=False, soft_wrap=True)


# ---------------------------------------------------------------- JSON


def tell(told: Summary, as_json: bool = False, *, top: int = 0, **more: object) -> None:
    """Print what is told of a result with `top` rows of its table, or its document with `more` in it."""
    if as_json:
        print_json(told.document() | more)
        return
    console, colour = stdout(), "green" if told.success else "yellow"
    console.print(f"[bold {colour}]{plain(told.heading)}[/]", soft_wrap=True)
    for name, text in told.lines():
        console.print(f"  [dim]{plain(f'{name:<8}')}[/] {plain(text)}", soft_wrap=True)
    if top:
        console.print()
        print_grid(console, told.tables[0], top)


def show(as_json: bool, document: Callable[[], object], text: Callable[[], object]) -> None:
    """Print a document for JSON, or let `text` print."""
    if as_json:
        print_json(document())
    else:
        text()


def print_json(value: object) -> None:
    """Print one JSON document on stdout; inf and nan become null."""
    write(as_json(value, indent=2))


# ---------------------------------------------------------------- files


class Outputs(NamedTuple):
    """Where a command writes a table, the result, a picture and a page; None: not at all."""

    out: Path | None = None
    save: Path | None = None
    picture: Path | None = None
    page: Path | None = None

    def check(self, what: str = "", kind: str = "") -> Outputs:
        """Refuse what could not be written; `what`, of this kind, may be replaced."""
        check_path(self.out, "--out", TABLES)
        check_path(self.picture, "--plot", PICTURES)
        check_page(self.page)
        places.check_saved(self.save, "--save", what, kind)
        return self

    def write(
        self,
        table: Callable[[Path], None],
        save: Callable[[Path], object] | None = None,
        *,
        figure: Callable[[], Figure],
    ) -> None:
        """Write what was asked for, by these."""
        if self.out is not None:
            table(self.out)
        if self.save is not None and save is not None:
            save(self.save)
        if self.picture is not None:
            write_picture(self.picture, figure())

    def tell(self, result: object, plan: Callable[[], object] | None = None, **told: Any) -> None:
        """Write the page, if it was asked for; `told` as in `wolfhound.report`."""
        if self.page is not None:
            write_page(self.page, result, plan=None if plan is None else plan(), **told)


def check_page(page: Path | None) -> None:
    """Refuse a page that could not be written."""
    places.check_file(page, "--report", PAGES)


def write_page(page: Path | None, result: object, **told: Any) -> None:
    """Write a page that shows a result, and how it was made."""
    if page is None:
        return
    from wolfhound.reports.report import report  # noqa: PLC0415 - not needed by most

    report(result, page, command=TYPED.get(), **told)


def check_path(path: Path | None, option: str, endings: tuple[str, ...]) -> None:
    """Refuse a path that could not be written, before any work is done."""
    places.check_file(path, option, endings)


def write_picture(path: Path, figure: Figure) -> None:
    """Write a figure, all or nothing."""
    write_file(path, plot.render(figure, path.suffix[1:].lower()))


def list_weights(result: Result) -> dict[str, NDArray[Any]]:
    """Return the active atoms as columns id, name, weight."""
    names = result.names if result.names is not None else ("",) * result.support
    return {"id": result.ids, "name": np.array(names, np.str_), "weight": result.weights}
