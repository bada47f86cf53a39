"""What a result says of itself, once: text, HTML, JSON and pictures are made of its `Summary`.

All that comes from outside is escaped here, and nowhere else.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import html
from abc import abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from numpy.typing import NDArray

from wolfhound.core.contracts import Status
from wolfhound.core.text import finite_text
from wolfhound.show import plot

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_WIDTH = 8  # of a name in lines of text
_SHOWN = 10  # rows of a table in a notebook
_LISTED = 40  # rows of the numbers of a picture


def read_part(name: str) -> str:
    """Return a file of `page_parts`: HTML, style or script."""
    return (Path(__file__).parent / "page_parts" / name).read_text("utf-8")


def escape(text: str) -> str:
    """Return text that HTML shows as it stands, also inside quotes."""
    return html.escape(text, quote=True)


# ---------------------------------------------------------------- tables


class Atom(NamedTuple):
    """A cell that stands for an atom: a page may know another name of it, or its picture."""

    id: int
    name: str | None = None


class Bar(NamedTuple):
    """A cell with a number beside a bar; `most` has the full length."""

    value: float
    most: float
    form: str = ".4f"

    @property
    def text(self) -> str:
        """The number."""
        return f"{self.value:{self.form}}"

    @property
    def share(self) -> float:
        """Of the full length, in [0, 1]."""
        return min(max(self.value / (self.most or 1.0), 0.0), 1.0)


Mixture: TypeAlias = tuple[tuple[Atom, float], ...]
"""A cell of atoms and weights, the largest first."""

Cell: TypeAlias = str | Atom | Bar | Mixture


class RowLabels:
    """What stands for an atom: the name that it has, else its id; pages know more."""

    def name(self, atom: Atom) -> str:
        """Return the name of an atom."""
        return atom.name or f"#{atom.id}"

    def html(self, atom: Atom) -> str:
        """Return what stands for an atom, as HTML."""
        return escape(self.name(atom))


PLAIN = RowLabels()


class Grid(NamedTuple):
    """A table."""

    caption: str
    headings: tuple[str, ...]
    rows: Sequence[tuple[Cell, ...]]  # a cell per column; the first one names the row
    left: Collection[int] = (0,)  # columns that are aligned to the left
    size: int | None = None  # rows that there are, if these are but the first of them
    key: str = ""  # its name in documents; empty: it is not in them
    records: Callable[[], object] = list  # all rows as JSON values

    def html(self, labels: RowLabels = PLAIN, most: int = _SHOWN) -> str:
        """Return a table with a caption, and headings of columns and rows."""
        grid = self._name_atoms(labels)
        shown, size = grid.rows[:most], len(self.rows) if self.size is None else self.size
        sides = [' class="left"' if at in grid.left else "" for at in range(len(grid.headings))]
        head = "".join(
            f'<th scope="col"{side}>{escape(name)}</th>'
            for name, side in zip(grid.headings, sides, strict=True)
        )
        body = ""
        for row in shown:
            first, *rest = (_write_cell(cell, labels) for cell in row)
            cells = "".join(f"<td{side}>{cell}</td>" for cell, side in zip(rest, sides[1:], strict=True))
            body += f'<tr><th scope="row"{sides[0]}>{first}</th>{cells}</tr>'
        some = f" ({len(shown):,} of {size:,})" if len(shown) < size else ""
        caption = f"<caption>{escape(self.caption)}{some}</caption>"
        return f"<table>{caption}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"

    def _name_atoms(self, labels: RowLabels) -> Grid:
        """Return the table with a second column of ids, if its rows are atoms with other names."""
        atoms = [row[0] for row in self.rows if isinstance(row[0], Atom)]
        if all(labels.html(atom) == f"#{atom.id}" for atom in atoms):
            return self
        rows = [(atom, f"{atom.id}", *row[1:]) for atom, row in zip(atoms, self.rows, strict=True)]
        left = [at + (at > 0) for at in self.left]
        return self._replace(headings=(self.headings[0], "id", *self.headings[1:]), rows=rows, left=left)


def _write_cell(cell: Cell, labels: RowLabels) -> str:
    match cell:
        case str():
            return escape(cell)
        case Atom():
            return labels.html(cell)
        case Bar():
            length = f'<i style="width:{100.0 * cell.share:.1f}%"></i>'
            bar = f'<span class="bar" aria-hidden="true">{length}</span>'
            return f'<span class="number">{escape(cell.text)}</span>{bar}'
        case _:
            return escape(", ".join(f"{labels.name(atom)} {weight:.3f}" for atom, weight in cell))


def list_weights(
    caption: str, atoms: Sequence[tuple[int, str | None, float]], *, size: int, **more: Any
) -> Grid:
    """Return a table of atoms (id, name, weight) of `size` in all, the largest first, each with a bar."""
    most = max((weight for _, _, weight in atoms), default=1.0)
    rows = [(Atom(i, name), Bar(weight, most)) for i, name, weight in atoms]
    return Grid(caption, ("atom", "weight"), rows, (0, 1), size, **more)


def list_columns(caption: str, columns: Mapping[str, Any]) -> Grid:
    """Return the numbers of a picture as a table, evenly some rows of it."""
    size = len(next(iter(columns.values())))
    some = dict.fromkeys(round(i * (size - 1) / (_LISTED - 1)) for i in range(_LISTED)) if size else {}
    rows = [tuple(_show(column[i]) for column in columns.values()) for i in some]
    return Grid(caption, tuple(columns), rows, size=size)


def list_records(columns: Mapping[str, NDArray[Any]]) -> list[dict[str, object]]:
    """Return columns as a dict per row, for documents."""
    rows = zip(*(column.tolist() for column in columns.values()), strict=True)
    return [dict(zip(columns, row, strict=True)) for row in rows]


def _show(value: Any) -> str:
    return value if isinstance(value, str) else finite_text(value, ".6g", unknown="-")


def pick(record: object, *names: str) -> dict[str, Any]:
    """Return some attributes by their names."""
    return {name: getattr(record, name) for name in names}


# ---------------------------------------------------------------- of a result


class Field(NamedTuple):
    """A fact of a result: a line of text; without a text it is in documents only."""

    name: str
    text: str = ""
    values: Mapping[str, object] = {}  # the numbers behind it, by their names in JSON documents
    tile: tuple[str, str] | None = None  # what a page shows of it in large letters


class Picture(NamedTuple):
    """What is drawn of a result, in axes of its own."""

    title: str
    text: str  # what there is to see, in one sentence: for those who cannot see it
    draw: Callable[[Axes], None]
    numbers: Grid | None = None  # its numbers, or some of them


class Details(NamedTuple):
    """What only a page tells, as it may take time: how it was found, and fuller tables of the answer."""

    fields: tuple[Field, ...] = ()
    tables: tuple[Grid, ...] = ()
    notes: tuple[str, ...] = ()
    answers: tuple[Grid, ...] = ()


class Summary(NamedTuple):
    """All that is told of a result."""

    heading: str  # the first line of its text
    fields: tuple[Field | tuple[str, str], ...] = ()  # facts; a pair of texts will do
    tables: tuple[Grid, ...] = ()
    notes: tuple[str, ...] = ()  # sentences that follow
    meaning: str = ""  # of its numbers, for those who know the data and not the method: on pages
    title: str = ""  # what it is, for those who know no names of classes
    status: str = ""  # how it ended, in a word; empty if nothing was run
    success: bool = True
    message: str = ""  # how it ended and what it is worth, in one sentence
    caption: str = ""  # heading of its pictures
    pictures: Callable[[], Iterable[Picture]] = tuple  # made when they are asked for
    details: Callable[[], Details] = Details  # likewise

    @classmethod
    def of_run(cls, name: str, status: Status, **told: Any) -> Summary:
        """Return the summary of a result of this class that ended so."""
        ended: dict[str, Any] = {"status": status.name, "success": status.success, "message": status.value}
        return cls(f"{name}({status.name}: {status.value})", **ended | told)

    def lines(self) -> list[tuple[str, str]]:
        """Return names and texts of the facts."""
        return [(name, text) for name, text, *_ in self.fields if text]

    def text(self) -> str:
        """Return the heading and a line per fact.

        Examples
        --------
        >>> print(Summary("Run(GOOD)", (("value", "1"), ("of", "x"))).text())
        Run(GOOD)
          value    1
          of       x
        """
        return "\n".join([self.heading, *(f"  {name:<{_WIDTH}} {text}" for name, text in self.lines())])

    def html(self) -> str:
        """Return a small piece of a page, in the colours of what is around it."""
        tables = "".join(grid.html() for grid in self.tables)
        title = f"<p><strong>{escape(self.heading)}</strong></p>"
        body = f"{title}{list_facts(self.lines())}{tables}{list_notes(self.notes)}"
        return f'<div class="wolfhound"><style>{read_part("notebook.css")}</style>{body}</div>'

    def document(self) -> dict[str, object]:
        """Return names and plain values, all rows of the tables among them, as for JSON.

        Examples
        --------
        >>> Summary("Run(GOOD)", (Field("gap", "1e-3 (goal 1)", {"gap": 1e-3, "goal": 1.0}),)).document()
        {'gap': 0.001, 'goal': 1.0}
        """
        found: dict[str, object] = {}
        if self.status:
            found |= {"status": self.status, "success": self.success, "message": self.message}
        for field in self.fields:
            found |= Field(*field).values
        return found | {grid.key: grid.records() for grid in self.tables if grid.key}


def list_facts(facts: Sequence[tuple[str, str]]) -> str:
    """Return names and texts as a list of descriptions."""
    items = "".join(f"<dt>{escape(name)}</dt><dd>{escape(text)}</dd>" for name, text in facts)
    return f"<dl>{items}</dl>" if facts else ""


def list_notes(notes: Iterable[str]) -> str:
    """Return sentences as paragraphs."""
    return "".join(f"<p>{escape(note)}</p>" for note in notes)


def draw_pictures(pictures: Iterable[Picture], title: str) -> Figure:
    """Draw pictures side by side, each with its title, unless it is the only one."""
    every = list(pictures)
    titles = [picture.title for picture in every] if len(every) > 1 else ()
    return plot.draw_all([picture.draw for picture in every], title=title, titles=titles)


class HasSummary:
    """A result that has a `summary`: its text, picture and what a notebook shows follow from it."""

    __slots__ = ()

    @abstractmethod
    def summary(self) -> Summary:
        """Return all that is told of it."""

    def __repr__(self) -> str:
        """The summary, on several lines."""
        return self.summary().text()

    def _repr_html_(self) -> str:
        """The summary, for notebooks."""
        return self.summary().html()

    def plot(self, path: str | PathLike[str] | None = None, *, title: str | None = None) -> Figure:
        """Draw it; nothing is shown by itself.

        Parameters
        ----------
        path
            Where to write the picture; its ending chooses the format.
        title
            Heading; by default what it is and what is proved of it.
        """
        told = self.summary()
        return plot.keep(draw_pictures(told.pictures(), told.caption if title is None else title), path)


class RunResult(HasSummary):
    """A result with a status: why its run ended."""

    __slots__ = ()
    status: Status

    @property
    def success(self) -> bool:
        """Whether the run did what was asked, or all that rounding allows."""
        return self.status.success
