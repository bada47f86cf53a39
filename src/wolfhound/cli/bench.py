"""`wolfhound bench`: how fast the oracles are on this machine, and whether they are right."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from rich.console import Console
from typer import Exit

from wolfhound.cli import _options as opt
from wolfhound.cli import _output as output
from wolfhound.cli import _places as places
from wolfhound.cli._options import option
from wolfhound.display import Reading, show_progress
from wolfhound.machine import default_path
from wolfhound.text import seconds_text

if TYPE_CHECKING:
    from wolfhound.planning.measure import Benchmark, Measurement

N, D, ROUNDS = 400_000, 96, 13


def bench(
    save: Annotated[
        bool, option("Keep the speeds, for choose_oracle and index build.", "--save/--no-save")
    ] = True,
    as_json: opt.Json = False,
) -> None:
    """Time the oracles on this machine and check their answers, in under a minute.

    The speeds are kept where WOLFHOUND_CALIBRATION says, else in the user's
    cache folder; estimates use them from then on.

    Examples
    --------
    wolfhound bench

    wolfhound --threads 1 bench --no-save --json
    """
    from wolfhound.planning.measure import measure  # noqa: PLC0415 - numba, faiss

    path = default_path() if save else None
    if path is not None:  # what could not be written is refused before any work is done
        path.parent.mkdir(parents=True, exist_ok=True)
        places.check_file(path, "WOLFHOUND_CALIBRATION", (path.suffix.lower(),))
    with show_progress(True, lambda job: job.state or Reading(0.0, "starting")) as hear:

        def say(share: float, text: str) -> None:
            if hear is not None:
                hear(Reading(share, text))

        report = measure(n=N, d=D, rounds=ROUNDS, say=say)
    # Speeds of wrong answers are worth nothing.
    saved = report.calibration.save(path) if path is not None and report.right else None
    output.show(as_json, lambda: _document(report, saved), lambda: _print(output.stdout(), report, saved))
    raise Exit(0 if report.right else 1)


def _document(report: Benchmark, saved: Path | None) -> dict[str, object]:
    return {
        **output.pick(report, "n", "d", "seconds"),
        "passed": report.right,
        "saved": None if saved is None else str(saved),
        "oracles": [asdict(each) for each in report.oracles],
        "calibration": asdict(report.calibration),
    }


def _print(console: Console, report: Benchmark, saved: Path | None) -> None:
    threads, read = report.calibration.threads, report.calibration.read
    console.print(
        f"[bold]{report.n:,} x {report.d} float32 atoms[/], "
        f"{threads} {'thread' if threads == 1 else 'threads'}, {report.seconds:.0f} s in all\n"
    )
    table = output.make_table()
    table.add_column("oracle")
    for heading in ("build", "ms a query", "in a batch", "GB/s", "ratio", "pays from"):
        table.add_column(heading, justify="right")
    for each in report.oracles:
        table.add_row(*_row(each))
    table.add_row("plain read", "", "", "", f"{1e-9 / read:.1f}", "", "")
    console.print(table)
    console.print("\npays from: so many queries, one at a time, cost as much as with Scan, building included")
    for each in report.oracles:
        for fault in each.faults:
            console.print(f"[bold red]WRONG[/] {output.plain(f'{each.title}: {fault}')}")
    if report.right:
        console.print("All answers are right: the exact oracles agree, and no score exceeds a bound.")
    if saved is not None:
        console.print(f"Speeds saved in [bold]{output.plain(str(saved))}[/]")


def _row(each: Measurement) -> tuple[str, ...]:
    return (
        each.title,
        seconds_text(each.build),
        f"{1e3 * each.one:.3g}",
        f"{1e3 * each.many:.3g}",
        f"{1e-9 * each.speed:.1f}",
        "1" if each.ratio == 1.0 else f"{each.ratio:.3f}",
        "-" if math.isinf(each.pays_from) else f"{each.pays_from:,.0f}",
    )
