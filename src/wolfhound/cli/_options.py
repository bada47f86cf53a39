"""Options that several commands share, each written once."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated, TypeAlias

import typer

AtomsFile: TypeAlias = Annotated[
    str,
    typer.Argument(metavar="ATOMS", help="Atoms, one per row: .npy, .npz, .csv, .parquet or a quoted glob."),
]
Names: TypeAlias = Annotated[
    str | None, typer.Option(metavar="FILE", help="Names of the atoms, one per line (or a csv column).")
]
Rtol: TypeAlias = Annotated[float, typer.Option(help="Wanted proved gap, relative to the gap at the start.")]
Atol: TypeAlias = Annotated[float, typer.Option(help="Wanted proved gap, absolute; the larger of both counts.")]
MaxSteps: TypeAlias = Annotated[float, typer.Option(help="Stop after so many steps.", show_default=False)]
MaxPasses: TypeAlias = Annotated[
    float, typer.Option(help="Stop after so many passes over all atoms.", show_default=False)
]
MaxSeconds: TypeAlias = Annotated[
    float, typer.Option(help="Stop after so long, with the best point so far.", show_default=False)
]
Top: TypeAlias = Annotated[int, typer.Option(min=0, help="Atoms to print, by weight.")]
Seed: TypeAlias = Annotated[int, typer.Option(min=0, help="Seed of the random atoms read first.")]
Out: TypeAlias = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Write the active atoms: .csv, .json, .npy or .parquet."),
]
Plot: TypeAlias = Annotated[
    Path | None, typer.Option("--plot", metavar="FILE", help="Draw the convergence: .png, .svg or .pdf.")
]
Json: TypeAlias = Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")]

UNLIMITED = math.inf
