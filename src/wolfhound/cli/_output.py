"""What the commands print and write: summaries of results, JSON documents, tables, pictures, pages."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table
from typer import Exit

from wolfhound.cli._app import TYPED, stderr, write
from wolfhound.cli._app import stdout as stdout  # noqa: PLC0414 - commands find all printing here
from wolfhound.cli._options import check_file, check_saved
from wolfhound.core.contracts import Status
from wolfhound.data import store
from wolfhound.data.writers import TABLES, as_json
from wolfhound.show import plot
from wolfhound.show.markup import PLAIN, Atom, Bar, Field, Grid, HasSummary, Summary

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from wolfhound.solve.result import Result

PICTURES = (".png", ".svg", ".pdf")
PAGES = (".html", ".htm")

_BAR = 24
_BRACKET = re.compile(r"(\\*)\[([a-z#/@][^[]*?\])?")  # the second group: what rich takes for a tag


def exit_code(*results: Any) -> int:
    """0 if all did what was asked, 130 if one was interrupted, else 1."""
    if any((np.array(result.status, object) == Status.INTERRUPTED).any() for result in results):
        return 130
    return 0 if all(result.success for result in results) else 1


# ---------------------------------------------------------------- what is printed


def tell(told: Summary, as_json: bool = False, *, top: int = 0, more: Mapping[str, object] = {}) -> None:
    """Print what is told of a result with `top` rows of its table, or its document with `more` in it."""
    if as_json:
        print_json({**told.document(), **more})
        return
    console, colour, lines = stdout(), "green" if told.success else "yellow", told.lines()
    indent, width = ("  ", 8) if told.heading else ("", 1 + max((len(name) for name, _ in lines), default=0))
    if told.heading:
        console.print(f"[bold {colour}]{plain(told.heading)}[/]", soft_wrap=True)
    for name, text in lines:
        console.print(f"{indent}[dim]{plain(f'{name:<{width}}')}[/] {plain(text)}", soft_wrap=True)
    if top:
        console.print()
        print_weights(console, told.tables[0], top)


def tell_record(as_json: bool, record: dict[str, object], text: str) -> None:
    """Print the numbers of what was done as JSON, or a text that says it."""
    tell(Summary(text, (Field("", values=record),)), as_json)


def print_json(value: object) -> None:
    """Print one JSON document on stdout; inf and nan become null."""
    write(as_json(value, indent=2))


def make_table(**settings: Any) -> Table:
    """Return a table without lines."""
    return Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim", **settings)


def print_weights(console: Console, grid: Grid, top: int) -> None:
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


def plain(text: str) -> str:
    """Return text in which rich sees no markup, whatever comes after it."""
    # Rich halves backslashes before a tag, and takes one from those before any other bracket.
    escaped = _BRACKET.sub(lambda hit: f"{hit[1] * (2 if hit[2] else 1)}\\[{hit[2] or ''}", text)
    body = escaped.rstrip("\\")
    # At the end backslashes would escape the tag that comes next: one that does nothing takes them.
    return escaped if body == escaped else f"{body}{2 * escaped[len(body) :]}[none][/none]"


def print_plain(text: str) -> None:
    """Print a text on stdout as it stands: without markup, lines not folded."""
    stdout().print(text, markup=False, soft_wrap=True)


def notify(text: str) -> None:
    """Print a text on stderr as it stands."""
    stderr().print(text, markup=False, soft_wrap=True)


# ---------------------------------------------------------------- what is written


class Outputs(NamedTuple):
    """Where a command writes a table, the result, a picture and a page; None: not at all."""

    out: Path | None = None
    save: Path | None = None
    picture: Path | None = None
    page: Path | None = None

    def check(self, kind: str = "") -> Outputs:
        """Refuse what could not be written; a save of this kind may be replaced."""
        check_file(self.out, "--out", TABLES)
        check_file(self.picture, "--plot", PICTURES)
        check_file(self.page, "--report", PAGES)
        check_saved(self.save, "--save", kind)
        return self

    def write(
        self,
        result: Any,
        table: Callable[[Path], None] | None = None,
        *,
        figure: Callable[[], Figure] | None = None,
        plan: Callable[[], object] | None = None,
        **told: Any,
    ) -> None:
        """Write what was asked for; the page shows the result, or a dict of several, as `told` has it."""
        if self.out is not None and table is not None:
            table(self.out)
        if self.save is not None:
            result.save(self.save)
        if self.picture is not None:
            plot.keep(result.plot() if figure is None else figure(), self.picture)
        if self.page is not None:
            from wolfhound.show.report import report  # noqa: PLC0415 - not needed by most

            planned = None if plan is None else plan()
            report(told.pop("shown", result), self.page, command=TYPED.get(), plan=planned, **told)  # type: ignore[arg-type]

    def finish(
        self,
        result: Any,
        table: Callable[[Path], None] | None = None,
        *,
        as_json: bool,
        top: int = 0,
        notes: Sequence[tuple[str, str]] = (),
        more: Mapping[str, object] = {},
        parts: Mapping[str, HasSummary] = {},
        say_where: bool = False,
        **written: Any,
    ) -> NoReturn:
        """Write a result, tell it with `notes` as lines, `more` as values, and leave with its exit code.

        `parts` are results that belong to it: told after it, and in its document by their names.
        """
        told = result.summary()  # nothing is written before it is known what to tell
        told = told._replace(fields=(*told.fields, *notes))
        others = {name: part.summary() for name, part in parts.items()}
        self.write(result, table, **written)
        documents = {name: each.document() for name, each in others.items()} if as_json else {}
        tell(told, as_json, top=top, more={**more, **documents})
        for each in () if as_json else others.values():
            tell(each)
        if say_where and self.out is not None and not as_json:
            stdout().print(f"Written to [bold]{plain(str(self.out))}[/]", soft_wrap=True)
        raise Exit(exit_code(result))


def list_weights(result: Result) -> dict[str, NDArray[Any]]:
    """Return the active atoms as columns id, name, weight."""
    names = result.names if result.names is not None else ("",) * result.support
    return {"id": result.ids, "name": np.array(names, np.str_), "weight": result.weights}


def check_checkpoint(path: Path | None) -> str:
    """Refuse a file that cannot serve as --checkpoint; return what to say of a run that goes on."""
    from wolfhound.solve.checkpoint import KIND, Checkpoint  # noqa: PLC0415 - not needed for --help

    check_saved(path, "--checkpoint", KIND)
    if path is None or not store.place(path).exists():
        return ""
    found = Checkpoint.load(path)
    if found.success:
        notify(f"the run in {path} has ended")
        return ""
    run = f"{found.objective} by {found.method}, gap {found.gap:.3g}, goal {found.goal:.3g}"
    return f"resumed after pass {found.passes:.3g} of {run}"
