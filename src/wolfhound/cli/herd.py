"""`wolfhound herd`: a few weighted rows of a file that stand for all of them."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from numpy.typing import NDArray
from typer import Exit

from wolfhound.cli import _options as opt
from wolfhound.cli import _output as output
from wolfhound.cli._herding import HerdOptions, Job, read_job
from wolfhound.cli._options import option
from wolfhound.core import Status
from wolfhound.text import seconds_text
from wolfhound.writers import write_rows

if TYPE_CHECKING:
    from wolfhound.herding.result import HerdResult

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
    document = _document(job, result)
    outputs.write(
        lambda path: write_rows(path, job.source, result.ids, result.weights),
        result.save,
        figure=lambda: result.plot(atoms=None if job.scores is None else ready.points),
    )
    outputs.tell(result)
    output.show(as_json, lambda: document, lambda: _print(job, result, out))
    raise Exit(output.exit_code(result))


# ---------------------------------------------------------------- while it runs


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


# ---------------------------------------------------------------- what it gives


def _document(job: Job, result: HerdResult) -> dict[str, object]:
    columns = {"id": result.ids, "weight": result.weights}
    columns |= {} if result.labels is None else {"label": _show_labels(result.labels)}
    chosen = zip(*(column.tolist() for column in columns.values()), strict=True)
    return {
        **output.describe_outcome(result),
        "n": job.rows,
        "d": job.points.shape[1],
        "m": len(result.ids),
        "columns": list(job.columns),
        "table": None if result.table is None else result.table.to_json(),
        "target_table": None if result.target_table is None else result.target_table.to_json(),
        "kernel": result.space,
        "gain": result.gain,
        **output.pick(result, "mmd", "mmd_random", "mmd_random_spread", "reference", "ess"),
        **output.pick(result, "evaluation_seconds", "seconds", "passes", "scored"),
        "rows": [dict(zip(columns, row, strict=True)) for row in chosen],
    }


def _show_labels(labels: NDArray[Any]) -> NDArray[Any]:
    """Labels as JSON can hold them: dates and bytes are texts."""
    if labels.dtype.kind == "S":
        return np.char.decode(labels, "utf-8", "backslashreplace")
    return labels if labels.dtype.kind in "biufU" else labels.astype(np.str_)


def _print(job: Job, result: HerdResult, out: Path | None) -> None:
    console = output.stdout()
    why = "" if result.success else f"; {result.status.value}"
    output.print_status(console, result, f"{len(result.ids):,} of {job.rows:,} rows chosen{why}")
    spread = f"{result.mmd_random:.4g}, give or take {result.mmd_random_spread:.2g}"
    more = ", ..." if len(result.ids) > _SHOWN else ""
    classes = [] if result.labels is None else [("classes", _counts(result.labels))]
    measured = f", then {seconds_text(result.evaluation_seconds)} to measure"
    fields = [
        *result.notes,
        ("kernel", result.space),
        ("MMD", f"{result.mmd:.4g} ({result.reference})"),
        ("random", f"{spread}: {_verdict(result)}"),
        ("effective", f"{result.ess:,.1f} of {len(result.ids):,} rows"),
        *classes,
        ("passes", f"{result.passes:.3g} ({result.scored:,} atoms scored)"),
        ("time", seconds_text(result.seconds) + measured),
        ("rows", ", ".join(map(str, result.ids[:_SHOWN].tolist())) + more),
    ]
    output.print_fields(console, fields)
    if out is not None:
        console.print(f"Written to [bold]{output.plain(str(out))}[/]", soft_wrap=True)


def _verdict(result: HerdResult) -> str:
    ratio = result.gain
    if math.isnan(ratio):
        return "not compared"
    if ratio >= 1.0:
        return f"{ratio:.2g} times closer than a random subset"
    return f"{1.0 / ratio:.2g} times farther than a random subset"


def _counts(labels: NDArray[Any]) -> str:
    values, counts = np.unique(labels, return_counts=True)
    parts = [f"{value}: {count:,}" for value, count in zip(values, counts, strict=True)]
    return ", ".join(parts[:_SHOWN]) + (f", ... ({len(parts)} classes)" if len(parts) > _SHOWN else "")
