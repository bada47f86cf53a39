"""Options that several commands share, each written once."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

from wolfhound import readers
from wolfhound.atoms import join
from wolfhound.core import Atoms
from wolfhound.tables import open_table
from wolfhound.validate import require

UNLIMITED = math.inf


def in_panel(name: str) -> Callable[..., Any]:
    """Return `typer.Option` for a panel of the help."""
    return functools.partial(Option, rich_help_panel=name)


stopping = in_panel("When to stop")
output = in_panel("Output")
file_output = functools.partial(output, metavar="FILE")

AtomsFile = Annotated[
    str, Argument(metavar="ATOMS", help="Atoms, one per row: .npy, .npz, .csv, .parquet or a quoted glob.")
]
Names = Annotated[
    str | None,
    Option(metavar="FILE", help="Names, one per line; else the only text column of ATOMS, if any."),
]
Rtol = Annotated[float, stopping(help="Wanted proved gap, relative to the scale of f on random atoms.")]
Atol = Annotated[float, stopping(help="Wanted proved gap, absolute; the larger counts.")]
MaxSteps = Annotated[float, stopping(show_default=False, help="Stop after so many steps.")]
MaxPasses = Annotated[float, stopping(show_default=False, help="Stop after so many passes over all atoms.")]
MaxSeconds = Annotated[float, stopping(show_default=False, help="Stop after so long; the best stays.")]
Seed = Annotated[int, Option(min=0, help="Seed of the random atoms that are read first.")]
Top = Annotated[int, output(min=0, help="Atoms to print, by weight.")]
Out = Annotated[Path | None, file_output(help="Write all weights: .csv, .json, .npy or .parquet.")]
Save = Annotated[Path | None, output(metavar="FOLDER", help="Save the result, for wolfhound.load.")]
Plot = Annotated[Path | None, file_output("--plot", help="Draw the convergence: .png, .svg or .pdf.")]
Json = Annotated[bool, output("--json", help="Print one JSON document and nothing else.")]


def split(texts: Sequence[str]) -> list[str]:
    """Return a, b, c of "a, b" "c": options may be repeated, and hold lists."""
    return [part.strip() for text in texts for part in text.split(",") if part.strip()]


def parse_ids(texts: Sequence[str], option: str, rule: str) -> list[int]:
    """Return texts as ids of atoms."""
    for text in texts:
        # int() refuses, in other words, what is thousands of digits long; no atom has such an id.
        require(text.isascii() and text.isdecimal() and len(text) < 19, option, rule, text[:40])
    return [int(text) for text in texts]


def parse_count(value: float, option: str) -> int:
    """Return a count that may be written as 1e6."""
    require(math.isfinite(value) and value == int(value), option, "a whole number", f"{value:g}")
    return int(value)


def read_atoms(path: str, names: str | None) -> tuple[Atoms, tuple[str, ...] | None]:
    """Read the atoms and their names.

    Without a file of names, the only text column of the atoms serves.
    """
    if names is None:
        table = open_table(path)
        only = table.texts[0] if len(table.texts) == 1 else None
        known = None if only is None else tuple(table.column(only, missing="None").tolist())
        return join(table.parts(None)), known
    atoms, read = readers.read_atoms(path), readers.read_names(names)
    n = atoms.shape[0]
    if len(read) != n:
        raise ValueError(f"`--names` must hold {n:,} names, one per atom. Got {len(read):,} in {names}.")
    return atoms, read
