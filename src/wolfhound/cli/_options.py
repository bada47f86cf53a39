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
from wolfhound.cli._progress import watch_reading
from wolfhound.core import Atoms
from wolfhound.tables import open_table
from wolfhound.validate import require

UNLIMITED = math.inf


def option(help: str, *flags: str, **settings: Any) -> Any:
    """Return `typer.Option`: what it is for comes first."""
    return Option(*flags, help=help, **settings)


def in_panel(name: str, **settings: Any) -> Callable[..., Any]:
    """Return `option` for a panel of the help."""
    return functools.partial(option, rich_help_panel=name, **settings)


stopping = in_panel("When to stop")
output = in_panel("Output")
file_output = in_panel("Output", metavar="FILE")

AtomsFile = Annotated[
    str,
    Argument(
        metavar="ATOMS",
        help="Atoms, one per row: .npy, .npz, .csv, .parquet, .h5, .zarr or .safetensors, "
        "a quoted glob, several with commas between; file::name for one array of a file.",
    ),
]
Names = Annotated[
    str | None, option("Names, one per line; else the only text column of ATOMS, if any.", metavar="FILE")
]
Rtol = Annotated[float, stopping("Wanted proved gap, relative to the scale of f on random atoms.")]
Atol = Annotated[float, stopping("Wanted proved gap, absolute; the larger counts.")]
MaxSteps = Annotated[float, stopping("Stop after so many steps.", show_default=False)]
MaxPasses = Annotated[float, stopping("Stop after so many passes over all atoms.", show_default=False)]
MaxSeconds = Annotated[float, stopping("Stop after so long; the best stays.", show_default=False)]
MaxMemory = Annotated[
    str | None,
    option("Bytes to work in, such as 500MB, besides Python's own; any if not given.", metavar="SIZE"),
]
Seed = Annotated[int, option("Seed of the random atoms that are read first.", min=0)]
Checkpoint = Annotated[
    Path | None, output("Kept after every pass: the same command goes on from there.", metavar="FOLDER")
]
Top = Annotated[int, output("Atoms to print, by weight.", min=0)]
Out = Annotated[Path | None, file_output("Write all weights: .csv, .json, .npy or .parquet.")]
Summary = Annotated[
    Path | None, file_output("Write value, lower, gap, status per target: .csv, .json, .npy or .parquet.")
]
Save = Annotated[Path | None, output("Save the result, for wolfhound.load.", metavar="FOLDER")]
Plot = Annotated[Path | None, file_output("Draw the convergence: .png, .svg or .pdf.", "--plot")]
Report = Annotated[
    Path | None, file_output("Write a page that shows it all, for a browser: .html.", "--report")
]
Json = Annotated[bool, output("Print one JSON document and nothing else.", "--json")]


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


def open_atoms(path: str) -> Atoms:
    """Read atoms, and show how far it is."""
    with watch_reading():
        return readers.read_atoms(path)


def read_atoms(path: str, names: str | None) -> tuple[Atoms, tuple[str, ...] | None]:
    """Read the atoms and their names.

    Without a file of names, the only text column of the atoms serves.
    """
    if names is None:
        table = open_table(path)
        only = table.texts[0] if len(table.texts) == 1 else None
        known = None if only is None else tuple(table.column(only, missing="None").tolist())
        with watch_reading():
            return join(table.parts(None)), known
    atoms, read = open_atoms(path), readers.read_names(names)
    n = atoms.shape[0]
    if len(read) != n:
        raise ValueError(f"`--names` must hold {n:,} names, one per atom. Got {len(read):,} in {names}.")
    return atoms, read
