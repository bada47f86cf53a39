"""`wolfhound unmix`: every pixel of a cube as a mixture of spectra."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from numpy.typing import NDArray
from typer import Argument, Exit

import wolfhound as wh
from wolfhound import plot, readers
from wolfhound.cli import _options as opt
from wolfhound.cli import _output as output
from wolfhound.cli._options import option
from wolfhound.cli._places import check_folder
from wolfhound.cli._progress import Meter, Reading
from wolfhound.core import Status
from wolfhound.many.result import RUN, STATUSES, ManyResult
from wolfhound.writers import npy_bytes, write_file, write_table

if TYPE_CHECKING:
    from matplotlib.figure import Figure


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
    shadow: Annotated[bool, option("Fractions sum to at most 1: the rest is shadow.", "--shadow")] = False,
    max_atoms: Annotated[int | None, option("Most spectra per pixel, chosen greedily.", min=1)] = None,
    skip: Annotated[bool, option("Pass over pixels that are not finite.", "--skip")] = False,
    rtol: opt.Rtol = 1e-6,
    max_seconds: opt.MaxSeconds = opt.UNLIMITED,
    seed: opt.Seed = 0,
    out: Annotated[
        Path | None, opt.file_output("Write fractions: .npy, one array; .csv, .json or .parquet, a table.")
    ] = None,
    save: Annotated[
        Path | None,
        opt.output("Write answers there as they come; a run that was cut goes on.", metavar="FOLDER"),
    ] = None,
    picture: Annotated[
        Path | None, opt.file_output("Draw a map of errors: .png, .svg or .pdf.", "--plot")
    ] = None,
    as_json: opt.Json = False,
) -> None:
    """Unmix pixels: the mixture of spectra that is closest to each, with a proved gap.

    Examples
    --------
    wolfhound unmix cube.npy --library spectra.npy --out fractions.npy --plot errors.png

    wolfhound unmix pixels.csv --library spectra.csv --shadow --max-atoms 4 --out fractions.csv

    wolfhound unmix cube.npy --library spectra.npy --skip --save run
    """
    outputs = output.Outputs(out, None, picture).check()
    check_folder(save, "--save", "a run of many targets", [RUN])
    pixels = _read_pixels(cube)
    spectra, known = opt.read_atoms(library, names)
    with Meter(_read_meter).job() as callback:
        result = wh.minimize_many(
            pixels,
            spectra,
            rtol=rtol,
            at_most_one=shadow,
            max_atoms=max_atoms,
            max_seconds=max_seconds,
            skip=skip,
            out=save,
            callback=callback,
            seed=seed,
        )
    outputs.write(lambda path: _write_fractions(path, result, known), figure=lambda: _draw(result, cube))
    output.show(as_json, lambda: _document(result), lambda: output.print_plain(repr(result)))
    raise Exit(_exit_code(result, skip=skip))


def _read_pixels(file: str) -> NDArray[Any]:
    """A cube as it is, or a table."""
    if file.endswith(".npy") and Path(file).is_file():
        cube: NDArray[Any] = np.load(file, mmap_mode="r", allow_pickle=False)
        return cube
    return readers.read_matrix(file)


def _read_meter(meter: Meter) -> Reading:
    """How many targets are done, how fast, and what is left."""
    state = meter.state
    if state is None or not state.done:
        return Reading(0.0, "starting")
    speed = state.done / max(state.seconds, 1e-9)
    left = (state.total - state.done) / speed
    text = f"{state.done:,} of {state.total:,} targets, {speed:,.0f} per second, about {left:.0f} s left"
    return Reading(state.done / state.total, text)


def _write_fractions(path: Path, result: ManyResult, names: Sequence[str] | None) -> None:
    """One array for .npy, else a row per pixel and spectrum that has a part in it."""
    if path.suffix.lower() == ".npy":
        write_file(path, npy_bytes(result.to_dense()))
        return
    pixels = np.repeat(np.arange(len(result)), result.support)
    columns: dict[str, NDArray[Any]] = {"pixel": pixels}
    if len(result.shape) == 2:
        columns = dict(zip(("row", "column"), np.unravel_index(pixels, result.shape), strict=True))
    labels = np.array([""] if names is None else names, np.str_)
    columns |= {"id": result.ids, "name": labels[result.ids if names is not None else 0 * result.ids]}
    write_table(path, columns | {"fraction": result.weights})


def _draw(result: ManyResult, title: str) -> Figure:
    """A map of a cube; other pixels are one line."""
    shape = result.shape if len(result.shape) == 2 else (1, len(result))
    distance = np.where(np.isfinite(result.value), result.distance, np.nan)
    return plot.error_map(distance.reshape(shape), title=Path(title).name)


def _document(result: ManyResult) -> dict[str, object]:
    solved = np.isfinite(result.value)
    counts = np.bincount(result.codes, minlength=len(STATUSES)).tolist()
    return {
        "targets": len(result),
        "shape": list(result.shape),
        "success": result.success,
        "status": {status.name: n for status, n in zip(STATUSES, counts, strict=True) if n},
        "largest_gap": float(result.gap[solved].max(initial=0.0)),
        "mean_distance": float(result.distance[solved].mean()) if solved.any() else math.nan,
        "mean_support": float(result.support.mean()) if len(result) else math.nan,
        "seconds": result.seconds,
    }


def _exit_code(result: ManyResult, *, skip: bool) -> int:
    """130 if it was interrupted; 0 if all was done, but for what was to be passed over."""
    found = {STATUSES[code] for code in np.unique(result.codes)}
    if Status.INTERRUPTED in found:
        return 130
    return 0 if all(status.success or (skip and status is Status.SKIPPED) for status in found) else 1
