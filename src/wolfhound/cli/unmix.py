"""`wolfhound unmix`: every pixel of a cube as a mixture of spectra."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Argument

import wolfhound as wh
from wolfhound.cli import _options as opt
from wolfhound.cli import _output as output
from wolfhound.cli._options import option
from wolfhound.cli.explain import list_mixtures
from wolfhound.core.atomic import write_file
from wolfhound.data.writers import TABLES, npy_bytes, write_table
from wolfhound.many.result import ManyResult


def unmix(
    cube: Annotated[
        str,
        Argument(
            metavar="CUBE", help="Pixels: a .npy array (rows, columns, bands), or a table, one per row."
        ),
    ],
    library: Annotated[str, option("Spectra, one per row, as wide as a pixel.", metavar="FILE")],
    names: Annotated[
        str | None, option("Names, one per line; else the only text column of the library.", metavar="FILE")
    ] = None,
    max_atoms: Annotated[int | None, option("Most spectra per pixel, chosen greedily.", min=1)] = None,
    skip: Annotated[bool, option("Pass over pixels that are not finite.", "--skip")] = False,
    cone: opt.IsCone = False,
    price: opt.Price = None,
    mass: opt.Mass = None,
    cap: opt.Cap = None,
    at_most: opt.AtMost = False,
    ridge: opt.Ridge = 0.0,
    rtol: opt.Rtol = 1e-6,
    max_seconds: opt.MaxSeconds = opt.UNLIMITED,
    seed: opt.Seed = 0,
    out: Annotated[
        Path | None,
        opt.file_output("Write fractions: .npy, one array; .csv, .json or .parquet, a table.", "-o", "--out"),
    ] = None,
    save: Annotated[
        Path | None,
        opt.output("Write answers there as they come; a run that was cut goes on.", metavar="FOLDER"),
    ] = None,
    summary: opt.Summary = None,
    picture: Annotated[
        Path | None, opt.picture_output("Draw maps of the misfit and the largest fractions")
    ] = None,
    page: opt.Report = None,
    as_json: opt.Json = False,
) -> None:
    """Unmix pixels: the mixture of spectra that is closest to each, with a proved gap.

    Examples
    --------
    wolfhound unmix cube.npy --library spectra.npy --out fractions.npy --plot errors.png

    wolfhound unmix pixels.csv --library spectra.csv --at-most --max-atoms 4 --out fractions.csv

    wolfhound unmix cube.npy --library spectra.npy --cone --price 0.01 --out abundances.npy

    wolfhound unmix cube.npy --library spectra.npy --skip --save run --summary pixels.csv
    """
    outputs = output.Outputs(out, None, picture, page).check()
    opt.check_file(summary, "--summary", TABLES)
    opt.check_run(save, "--save")
    if not cube.endswith(".npy"):
        opt.check_files(library, cube, "CUBE")
    pixels = opt.read_points(cube)
    spectra, known = opt.read_atoms(library, names)
    named = {"targets": "`CUBE`", "atoms": "--library", "out": "--save", "skip=True": "--skip"}
    with opt.name_options(**named):
        result = wh.minimize_many(
            pixels,
            spectra,
            rtol=rtol,
            over=opt.make_weights(cone, price, mass, cap, at_most),
            ridge=ridge,
            max_atoms=max_atoms,
            names=known,
            max_seconds=max_seconds,
            skip=skip,
            out=save,
            progress=True,
            seed=seed,
        )
    if summary is not None:
        write_table(summary, {**result.to_places(), **result.to_columns()})
    title = f"all {len(result):,} pixels of {Path(cube).name}, by {Path(library).name}"
    outputs.finish(
        result,
        lambda path: _write_fractions(path, result),
        as_json=as_json,
        figure=lambda: result.plot(title=title),
        names=known,
    )


def _write_fractions(path: Path, result: ManyResult) -> None:
    """One array for .npy, else a row per pixel and spectrum that has a part in it."""
    if path.suffix.lower() == ".npy":
        write_file(path, npy_bytes(result.to_dense()))
        return
    write_table(path, list_mixtures(result, result.to_places(), "fraction"))
