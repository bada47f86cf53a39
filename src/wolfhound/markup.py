"""What a result says of itself, as text and as HTML: for prompts, notebooks and reports.

Knows strings only. All that comes from outside is escaped here, and nowhere else.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import html
from abc import abstractmethod
from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple, TypeAlias

_WIDTH = 8  # of a name in lines of text


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


Cell: TypeAlias = str | Markup
"""What stands in a table: text is escaped, markup is not."""


def escape(text: str) -> str:
    """Return text that HTML shows as it stands, also inside quotes.

    Examples
    --------
    >>> escape('<b title="x">')
    '&lt;b title=&quot;x&quot;&gt;'
    """
    return text if isinstance(text, Markup) else html.escape(text, quote=True)


class Grid(NamedTuple):
    """A table.

    Attributes
    ----------
    caption : str
        What it holds.
    headings : tuple of str
        Of the columns.
    rows : sequence
        A cell per column; the first one names the row.
    left : collection of int
        Columns that are aligned to the left.
    """

    caption: str
    headings: tuple[str, ...]
    rows: Sequence[tuple[Cell, ...]]
    left: Collection[int] = (0,)

    def html(self) -> str:
        """Return a table with a caption, and headings of columns and rows."""
        head = "".join(
            f'<th scope="col"{self._side(at)}>{escape(name)}</th>' for at, name in enumerate(self.headings)
        )
        body = "".join(f"<tr>{self._cells(row)}</tr>" for row in self.rows)
        caption = f"<caption>{escape(self.caption)}</caption>"
        return f"<table>{caption}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"

    def _cells(self, row: tuple[Cell, ...]) -> str:
        first, *rest = row
        cells = "".join(f"<td{self._side(at)}>{escape(cell)}</td>" for at, cell in enumerate(rest, 1))
        return f'<th scope="row"{self._side(0)}>{escape(first)}</th>{cells}'

    def _side(self, at: int) -> str:
        return ' class="left"' if at in self.left else ""


def bar(text: str, share: float) -> Markup:
    """Return a number beside a bar of this share, in [0, 1], of the full length."""
    width = 100.0 * min(max(share, 0.0), 1.0)
    return Markup(
        f'{escape(text)}<span class="bar" aria-hidden="true"><i style="width:{width:.1f}%"></i></span>'
    )


# ---------------------------------------------------------------- of a result


class Summary(NamedTuple):
    """What is worth knowing of a result at first sight.

    Attributes
    ----------
    heading : str
        What it is, and how it ended.
    lines : tuple of (name, text)
    grids : tuple of Grid
        HasSummary in notebooks.
    notes : tuple of str
        Sentences that follow.
    """

    heading: str
    lines: tuple[tuple[str, str], ...]
    grids: tuple[Grid, ...] = ()
    notes: tuple[str, ...] = ()

    def text(self) -> str:
        """Return the heading and a line per fact.

        Examples
        --------
        >>> print(Summary("Run(GOOD)", (("value", "1"), ("of", "x"))).text())
        Run(GOOD)
          value    1
          of       x
        """
        return "\n".join([self.heading, *(f"  {name:<{_WIDTH}} {text}" for name, text in self.lines)])

    def html(self) -> str:
        """Return a small piece of a page, in the colours of what is around it."""
        grids = "".join(grid.html() for grid in self.grids)
        notes = "".join(f"<p>{escape(note)}</p>" for note in self.notes)
        title = f"<p><strong>{escape(self.heading)}</strong></p>"
        body = f"{title}{list_facts(self.lines)}{grids}{notes}"
        return f'<div class="wolfhound"><style>{_STYLE}</style>{body}</div>'


_STYLE = (
    ".wolfhound{font:13px/1.5 system-ui,sans-serif;color:inherit;max-width:60em}"
    ".wolfhound p{margin:.4em 0}"
    ".wolfhound dl{display:grid;grid-template-columns:max-content 1fr;gap:.1em 1em;margin:.4em 0}"
    ".wolfhound dt{opacity:.75;margin:0}.wolfhound dd{margin:0;overflow-wrap:anywhere}"
    ".wolfhound table{border-collapse:collapse;margin:.6em 0;background:none;color:inherit}"
    ".wolfhound caption{text-align:left;opacity:.75;padding:.2em 0}"
    ".wolfhound th,.wolfhound td{padding:.15em .8em .15em 0;text-align:right;font-weight:400;"
    "background:none;color:inherit;border:0;font-variant-numeric:tabular-nums;white-space:nowrap}"
    ".wolfhound .left{text-align:left}"
    ".wolfhound thead th{opacity:.75;border-bottom:1px solid currentColor}"
    ".wolfhound .bar{display:inline-block;width:8em;height:.7em;margin-left:.8em;text-align:left}"
    ".wolfhound .bar i{display:block;height:100%;background:#0072B2}"
)


def list_facts(facts: Sequence[tuple[str, str]]) -> str:
    """Return names and texts as a list of descriptions."""
    if not facts:
        return ""
    items = "".join(f"<dt>{escape(name)}</dt><dd>{escape(text)}</dd>" for name, text in facts)
    return f"<dl>{items}</dl>"


class HasSummary:
    """A result that has a `summary`: its text and what a notebook shows follow from it."""

    __slots__ = ()

    @abstractmethod
    def summary(self) -> Summary:
        """Return what is worth knowing at first sight."""

    def __repr__(self) -> str:
        """The summary, on several lines."""
        return self.summary().text()

    def _repr_html_(self) -> str:
        """The summary, for notebooks."""
        return self.summary().html()


def list_weights(
    caption: str,
    atoms: Sequence[tuple[int, str | None, float]],
    *,
    heading: str = "weight",
    show: Callable[[int, str | None], Cell] | None = None,
) -> Grid:
    """Return a table of atoms and their weights, each with a bar.

    Parameters
    ----------
    caption
        What they are.
    atoms
        Id, name and weight; the largest first.
    heading
        Of the weights.
    show
        What stands for an atom; by default its name, else its id.
    """
    most = max((weight for _, _, weight in atoms), default=0.0) or 1.0
    show = show or (lambda i, name: name or f"#{i}")
    rows = [(show(i, name), f"{i}", bar(f"{weight:.4f}", weight / most)) for i, name, weight in atoms]
    return drop_ids(Grid(caption, ("atom", "id", heading), rows, (0, 2)))


def drop_ids(grid: Grid) -> Grid:
    """Return a table of atoms without its second column, of ids, if atoms have no other names."""
    if not all(row[0] == f"#{row[1]}" for row in grid.rows):
        return grid
    cells = [(row[0], *row[2:]) for row in grid.rows]
    left = [at - (at > 1) for at in grid.left]
    return Grid(grid.caption, (grid.headings[0], *grid.headings[2:]), cells, left)
