"""`wolfhound herd`: a few weighted rows of a file that stand for all of them."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

from typer import Exit

from wolfhound.cli import _options as opt
from wolfhound.cli import _output as output
from wolfhound.cli._herding import HerdOptions, read_job
from wolfhound.cli._options import option
from wolfhound.core import Status
from wolfhound.writers import write_rows

_SHOWN = 8

_what = opt.in_panel("What stands for what")
_how = opt.in_panel("How it is chosen")

Texts = list[str] | None


def herd(
    atoms: opt.AtomsFile,
    m: Annotated[int, option("Rows to choose.", "-m", "--size", min=1)],
    out: Annotated[
        Path | None,
        opt.file_output(
            "Write the chosen rows, with all their columns, ids and weights: .csv, .json, .npy or .parquet.",
            "-o",
            "--out",
        ),
    ] = None,
    columns: Annotated[Texts, _what("Columns that count; else all that can.", metavar="A,B,C")] = None,
    target: Annotated[str | None, _what("Rows to match; else ATOMS themselves.", metavar="FILE")] = None,
    by: Annotated[
        Texts,
        _what(
            "Choose within each class: a column of ATOMS, or a .npy or .txt file; may be repeated.",
            metavar="LABELS",
        ),
    ] = None,
    missing: opt.MissingValues = "drop",
    numeric_only: opt.NumericOnly = False,
    balanced: Annotated[bool, _what("Equally many rows of every class.", "--balanced")] = False,
    start: Annotated[
        Texts, _what("Rows that are chosen already, part of the m: 3,17,4 or a file of ids.", metavar="IDS")
    ] = None,
    exclude: Annotated[Texts, _what("Rows not to choose: 3,17,4 or a file of ids.", metavar="IDS")] = None,
    kernel: Annotated[
        str, _how("gaussian, laplace, linear, stein, ...; a wrong name lists them all.", metavar="NAME")
    ] = "gaussian",
    scores: Annotated[str | None, _how("Gradients of log p at ATOMS, for stein.", metavar="FILE")] = None,
    lengthscale: Annotated[float | None, _how("Of the kernel; a median distance if not given.")] = None,
    standardize: Annotated[bool, _how("Scale the columns to variance 1 first.", "--standardize")] = False,
    weights: Annotated[bool, _how("Fit weights; else they are equal.", "--weights")] = False,
    swap: Annotated[bool, _how("Try to swap every chosen row at the end.", "--swap")] = False,
    candidates: Annotated[
        int | None, _how("Random rows to choose among: more, better, slower.", min=1)
    ] = None,
    max_seconds: opt.MaxSeconds = opt.UNLIMITED,
    seed: Annotated[int, option("Seed of all that is random.", min=0)] = 0,
    save: opt.Save = None,
    picture: Annotated[
        Path | None,
        opt.file_output("Draw the distance by m, and the chosen rows: .png, .svg or .pdf.", "--plot"),
    ] = None,
    page: opt.Report = None,
    as_json: opt.Json = False,
) -> None:
    """Choose m rows that stand for all: training sets, thinning, matched samples.

    The kernel distance (MMD) of the chosen rows from all of them is made small,
    then measured and compared with that of random subsets of m rows.

    Examples
    --------
    wolfhound herd rows.parquet -m 500 -o core.parquet

    wolfhound herd rows.parquet -m 500 -o core.parquet --by label --balanced

    wolfhound herd flights.csv -m 500 --by carrier --standardize --missing mean -o core.csv

    wolfhound herd pool.npy -m 1000 -o matched.npy --target population.npy

    wolfhound herd chain.npy -m 200 -o thin.csv --kernel stein --scores gradients.npy

    wolfhound herd rows.csv -m 100 --columns age,income --standardize --weights --json
    """
    from wolfhound.herding.herd import herd as choose  # noqa: PLC0415 - numba

    outputs = output.Outputs(out, save, picture, page).check("rows that were chosen", "herd")
    sets = (atoms, columns or (), target, by or (), balanced, start or (), exclude or ())
    job = read_job(HerdOptions(*sets, kernel, scores, lengthscale, missing, numeric_only))
    with _too_late(as_json=as_json):
        ready = job.prepare(standardize=standardize)
        result = choose(
            ready.atoms,
            m,
            kernel=ready.kernel,
            target=ready.target,
            by=ready.by,
            standardize=standardize and job.scores is None,
            **(job.options if job.scores is None else {}),
            balanced=balanced,
            start=ready.start,
            exclude=ready.exclude,
            weights=weights,
            swap=swap,
            candidates=candidates,
            max_seconds=max_seconds,
            progress=not as_json,
            seed=seed,
        )
    told = result.summary()
    outputs.write(
        lambda path: write_rows(path, job.source, result.ids, result.weights),
        result.save,
        figure=lambda: result.plot(atoms=None if job.scores is None else ready.points),
    )
    outputs.tell(result)
    output.tell(told, as_json, n=job.rows, d=job.points.shape[1], columns=list(job.columns))
    if out is not None and not as_json:
        output.stdout().print(f"Written to [bold]{output.plain(str(out))}[/]", soft_wrap=True)
    raise Exit(output.exit_code(result))


@contextlib.contextmanager
def _too_late(*, as_json: bool) -> Iterator[None]:
    """Say that time was over before the first row: not wrong use, but nothing to write."""
    try:
        yield
    except TimeoutError as error:
        if as_json:
            status = Status.MAX_SECONDS
            output.print_json({"status": status.name, "success": status.success, "message": str(error)})
        else:
            output.notify(str(error))
        raise Exit(1) from None
