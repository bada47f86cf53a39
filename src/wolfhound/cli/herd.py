"""`wolfhound herd`: a few weighted rows of a file that stand for all of them."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from wolfhound.cli import _options as opt
from wolfhound.cli import _output as output
from wolfhound.cli import _places as places
from wolfhound.cli._herding import Given, Job, KernelName, read
from wolfhound.cli._progress import Meter, Reading
from wolfhound.core import Atoms, Status
from wolfhound.planning.text import bytes_text, seconds_text
from wolfhound.writers import TABLES, write_rows

if TYPE_CHECKING:
    from wolfhound.herding.herd import Expected
    from wolfhound.herding.result import HerdResult

EXAMPLES = """[bold]Examples:[/]

wolfhound herd rows.parquet -m 500 -o core.parquet

wolfhound herd rows.parquet -m 500 -o core.parquet --by label --balanced

wolfhound herd pool.npy -m 1000 -o matched.npy --target population.npy

wolfhound herd chain.npy -m 200 -o thin.csv --kernel stein --scores gradients.npy

wolfhound herd rows.csv -m 100 --columns age,income --standardize --weights --json
"""

_WHAT = "What stands for what"
_HOW = "How it is chosen"
_SHOWN = 8


def herd(
    rows: Annotated[
        str,
        typer.Argument(metavar="ROWS", help="A table: .npy, .npz, .csv, .parquet or a quoted glob."),
    ],
    m: Annotated[int, typer.Option("-m", "--size", min=1, help="Rows to choose.")],
    out: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--out",
            metavar="FILE",
            rich_help_panel=opt.OUTPUT,
            help="Write the chosen rows, with all their columns, ids and weights: "
            ".csv, .json, .npy or .parquet.",
        ),
    ] = None,
    columns: Annotated[
        list[str] | None,
        typer.Option(metavar="A,B,C", rich_help_panel=_WHAT, help="Columns that count; else all of numbers."),
    ] = None,
    target: Annotated[
        str | None,
        typer.Option(metavar="FILE", rich_help_panel=_WHAT, help="Rows to match; else ROWS themselves."),
    ] = None,
    by: Annotated[
        list[str] | None,
        typer.Option(
            metavar="LABELS",
            rich_help_panel=_WHAT,
            help="Choose within each class: a column of ROWS, or a .npy or .txt file; may be repeated.",
        ),
    ] = None,
    balanced: Annotated[
        bool,
        typer.Option("--balanced", rich_help_panel=_WHAT, help="Equally many rows of every class."),
    ] = False,
    init: Annotated[
        list[str] | None,
        typer.Option(
            metavar="IDS",
            rich_help_panel=_WHAT,
            help="Rows that are chosen already, part of the m: 3,17,4 or a file of ids.",
        ),
    ] = None,
    exclude: Annotated[
        list[str] | None,
        typer.Option(
            metavar="IDS", rich_help_panel=_WHAT, help="Rows not to choose: 3,17,4 or a file of ids."
        ),
    ] = None,
    kernel: Annotated[
        KernelName,
        typer.Option(metavar="NAME", rich_help_panel=_HOW, help=f"One of {', '.join(KernelName)}."),
    ] = KernelName.GAUSSIAN,
    scores: Annotated[
        str | None,
        typer.Option(metavar="FILE", rich_help_panel=_HOW, help="Gradients of log p at ROWS, for stein."),
    ] = None,
    lengthscale: Annotated[
        float | None,
        typer.Option(rich_help_panel=_HOW, help="Of the kernel; a median distance if not given."),
    ] = None,
    standardize: Annotated[
        bool,
        typer.Option("--standardize", rich_help_panel=_HOW, help="Scale the columns to variance 1 first."),
    ] = False,
    weights: Annotated[
        bool, typer.Option("--weights", rich_help_panel=_HOW, help="Fit weights; else they are equal.")
    ] = False,
    swap: Annotated[
        bool, typer.Option("--swap", rich_help_panel=_HOW, help="Try to swap every chosen row at the end.")
    ] = False,
    candidates: Annotated[
        int | None,
        typer.Option(min=1, rich_help_panel=_HOW, help="Random rows to choose among: more, better, slower."),
    ] = None,
    max_seconds: opt.MaxSeconds = opt.UNLIMITED,
    seed: Annotated[int, typer.Option(min=0, help="Seed of all that is random.")] = 0,
    save: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER", rich_help_panel=opt.OUTPUT, help="Save the result, for HerdResult.load."
        ),
    ] = None,
    picture: Annotated[
        Path | None,
        typer.Option(
            "--plot",
            metavar="FILE",
            rich_help_panel=opt.OUTPUT,
            help="Draw the distance by m, and the chosen rows: .png, .svg or .pdf.",
        ),
    ] = None,
    as_json: opt.Json = False,
) -> None:
    """Choose m rows that stand for all: training sets, thinning, matched samples.

    The kernel distance (MMD) of the chosen rows from all of them is made small,
    then measured and compared with that of random subsets of m rows.
    """
    from wolfhound.herding.herd import expected  # noqa: PLC0415 - numba
    from wolfhound.herding.herd import herd as choose  # noqa: PLC0415

    output.check_path(out, "--out", TABLES)
    output.check_path(picture, "--plot", output.PICTURES)
    places.check_folder(save, "--save", "rows that were chosen", ["herd"])
    given = Given(
        rows=rows,
        columns=columns or (),
        target=target,
        by=by or (),
        balanced=balanced,
        init=init or (),
        exclude=exclude or (),
        kernel=kernel,
        scores=scores,
        lengthscale=lengthscale,
    )
    job = read(given)
    as_taken = job.prepared(standardize=False)
    labels = 1 if as_taken.by is None else len(np.unique(as_taken.by))
    cost = expected(as_taken.rows, m, candidates=candidates, labels=labels, swap=swap, weights=weights)
    meter = _meter(job.rows.shape[0], m, swap, _intent(job, m, cost))
    with _too_late(as_json=as_json), contextlib.nullcontext() if as_json else meter.job() as watch:
        ready = job.prepared(standardize=standardize)
        result = choose(
            ready.rows,
            m,
            kernel=ready.kernel,
            target=ready.target,
            by=ready.by,
            balanced=balanced,
            init=ready.init,
            exclude=ready.exclude,
            weights=weights,
            swap=swap,
            candidates=candidates,
            max_seconds=max_seconds,
            callback=watch,
            seed=seed,
        )
    _write(ready, result, out, save, picture)
    if as_json:
        output.print_json(_document(job, result, cost))
    else:
        _print(output.stdout(), job, result, out)
    raise typer.Exit(_exit_code(result))


# ---------------------------------------------------------------- before and while it runs


def _intent(job: Job, m: int, cost: Expected) -> str:
    n, d = job.rows.shape
    shown_names = ", ".join(job.columns[:_SHOWN]) + (", ..." if len(job.columns) > _SHOWN else "")
    counted = f" ({shown_names})" if job.columns else ""
    taken = f"about {bytes_text(cost.nbytes)} beside the rows, {seconds_text(cost.seconds)} to choose"
    measured = f"{seconds_text(cost.evaluation_seconds)} to measure"
    return f"{m:,} of {n:,} rows by {d:,} columns{counted}: {taken}, {measured}"


def _meter(n: int, m: int, swap: bool, intent: str) -> Meter:
    """Shows the passes before the first row, then the rows."""

    def read(meter: Meter) -> Reading:
        # Rows of --init are there from the start.
        steps = 0 if meter.state is None or meter.state.kind == "start" else meter.state.t
        # Which half of the work is longer depends on n and m.
        share = 0.5 * min(meter.swept / n, 1.0) if not steps else 0.5 + 0.5 * steps / ((2 if swap else 1) * m)
        where = _where(m, steps) if steps else f"{output.passes_text(meter.swept / n)} over all rows"
        return Reading(min(share, 1.0), f"{where}, {meter.seconds:.0f} s")

    return Meter(read, intent=intent)


def _where(m: int, steps: int) -> str:
    """Say what was done: a step per row, then one per swap."""
    swaps = f", {steps - m:,} tried for a swap" if steps > m else ""
    return f"{min(steps, m):,} of {m:,} rows{swaps}"


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
            output.stderr().print(str(error), markup=False, soft_wrap=True)
        raise typer.Exit(1) from None


# ---------------------------------------------------------------- what it gives


def _exit_code(result: HerdResult) -> int:
    if result.status is Status.INTERRUPTED:
        return 130
    return 0 if result.success else 1


def _write(job: Job, result: HerdResult, out: Path | None, save: Path | None, picture: Path | None) -> None:
    if out is not None:
        write_rows(out, job.source, result.ids, result.weights)
    if save is not None:
        result.save(save)
    if picture is not None:
        output.write_picture(picture, result.plot(rows=_points(job.rows)))


def _points(rows: Atoms) -> Atoms:
    """Return what is drawn: a sample without its scores."""
    from wolfhound.herding.kernels import ScoredAtoms  # noqa: PLC0415 - numba

    return rows.rows if isinstance(rows, ScoredAtoms) else rows


def _ratio(result: HerdResult) -> float:
    """Return how many times closer than random; nan if one is not known or 0."""
    known = result.mmd > 0.0 and result.mmd_random > 0.0
    return result.mmd_random / result.mmd if known else math.nan


def _document(job: Job, result: HerdResult, cost: Expected) -> dict[str, object]:
    n, d = job.rows.shape
    chosen = zip(result.ids.tolist(), result.weights.tolist(), strict=True)
    rows: list[dict[str, object]] = [{"id": i, "weight": weight} for i, weight in chosen]
    if result.labels is not None:
        rows = [{**row, "label": label} for row, label in zip(rows, result.labels.tolist(), strict=True)]
    return {
        "status": result.status.name,
        "success": result.success,
        "message": result.message,
        "n": n,
        "d": d,
        "m": len(result.ids),
        "columns": list(job.columns),
        "kernel": result.space,
        "mmd": result.mmd,
        "mmd_random": result.mmd_random,
        "mmd_random_spread": result.mmd_random_spread,
        "times_closer": _ratio(result),
        "reference": result.reference,
        "ess": result.ess,
        "seconds": result.seconds,
        "evaluation_seconds": result.evaluation_seconds,
        "passes": result.passes,
        "scored": result.scored,
        "expected": {
            "bytes": cost.nbytes,
            "seconds": cost.seconds,
            "evaluation_seconds": cost.evaluation_seconds,
        },
        "rows": rows,
    }


def _print(console: Console, job: Job, result: HerdResult, out: Path | None) -> None:
    colour = "green" if result.success else "yellow"
    chosen = f"{len(result.ids):,} of {job.rows.shape[0]:,} rows chosen"
    why = "" if result.success else f"; {result.status.value}"
    console.print(f"[bold {colour}]{result.status.name}[/] {chosen}{why}", soft_wrap=True)
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(style="dim")
    table.add_row("kernel", output.plain(result.space))
    table.add_row("MMD", f"{result.mmd:.4g} ({output.plain(result.reference)})")
    spread = f"{result.mmd_random:.4g}, give or take {result.mmd_random_spread:.2g}"
    table.add_row("random", f"{spread}: {_verdict(result)}")
    table.add_row("effective", f"{result.ess:,.1f} of {len(result.ids):,} rows")
    if result.labels is not None:
        table.add_row("classes", output.plain(_counts(result.labels)))
    table.add_row("passes", f"{result.passes:.3g} ({result.scored:,} atoms scored)")
    measured = f", then {seconds_text(result.evaluation_seconds)} to measure"
    table.add_row("time", seconds_text(result.seconds) + measured)
    more = ", ..." if len(result.ids) > _SHOWN else ""
    table.add_row("rows", ", ".join(map(str, result.ids[:_SHOWN].tolist())) + more)
    console.print(table)
    if out is not None:
        console.print(f"Written to [bold]{output.plain(str(out))}[/]", soft_wrap=True)


def _verdict(result: HerdResult) -> str:
    ratio = _ratio(result)
    if math.isnan(ratio):
        return "not compared"
    if ratio >= 1.0:
        return f"{ratio:.2g} times closer than a random subset"
    return f"{1.0 / ratio:.2g} times farther than a random subset"


def _counts(labels: NDArray[Any]) -> str:
    values, counts = np.unique(labels, return_counts=True)
    parts = [f"{value}: {count:,}" for value, count in zip(values, counts, strict=True)]
    return ", ".join(parts[:_SHOWN]) + (f", ... ({len(parts)} classes)" if len(parts) > _SHOWN else "")
