"""`wolfhound solve`: minimise an objective over the hull of atoms in a file."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, NamedTuple

import typer
from rich.console import Console
from rich.table import Table

import wolfhound as wh
from wolfhound import readers
from wolfhound.cli import _options as opt
from wolfhound.cli import _output as output
from wolfhound.cli import _places as places
from wolfhound.cli._progress import GapMeter
from wolfhound.core import Method, Objective, StepSize
from wolfhound.methods.directions import Direction
from wolfhound.result import Result
from wolfhound.writers import TABLES, write_table

EXAMPLES = """[bold]Examples:[/]

wolfhound solve atoms.npy --objective squared-distance --target point.npy

wolfhound solve atoms.npy --objective logistic --design A.npy --labels y.npy

wolfhound solve likelihoods.npy --objective mixture --rtol 0 --atol 1e-6

wolfhound solve atoms.npy --objective least-squares --design A.npy \\
  --response b.npy --exclude 0,7 --save run --plot run.png
"""

_F = "The objective f"
_HOW = "The method"


class ObjectiveName(StrEnum):
    """Which f."""

    SQUARED_DISTANCE = "squared-distance"
    LEAST_SQUARES = "least-squares"
    LOGISTIC = "logistic"
    HUBER = "huber"
    MIXTURE = "mixture"


class MethodName(StrEnum):
    """How to move."""

    FULLY_CORRECTIVE = "fully-corrective"
    FRANK_WOLFE = "frank-wolfe"
    AWAY = "away"
    PAIRWISE = "pairwise"
    BLENDED_PAIRWISE = "blended-pairwise"


class StepName(StrEnum):
    """How far to move."""

    LINE_SEARCH = "line-search"
    SHORT_STEP = "short-step"
    ADAPTIVE = "adaptive"
    OPEN_LOOP = "open-loop"


class Given(NamedTuple):
    """The options that only some objectives take; None: not given."""

    target: str | None
    design: str | None
    response: str | None
    labels: str | None
    delta: float | None


_TAKES = {
    ObjectiveName.SQUARED_DISTANCE: ("target",),
    ObjectiveName.LEAST_SQUARES: ("design", "response"),
    ObjectiveName.LOGISTIC: ("design", "labels"),
    ObjectiveName.HUBER: ("design", "response", "delta"),
    ObjectiveName.MIXTURE: (),
}


def solve(
    atoms: opt.AtomsFile,
    objective: Annotated[
        ObjectiveName,
        typer.Option(metavar="NAME", rich_help_panel=_F, help=f"One of {', '.join(ObjectiveName)}."),
    ],
    target: Annotated[
        str | None,
        typer.Option(metavar="FILE", rich_help_panel=_F, help="t of squared-distance: 1/2 |x - t|^2."),
    ] = None,
    design: Annotated[
        str | None, typer.Option(metavar="FILE", rich_help_panel=_F, help="Matrix A, a row per case.")
    ] = None,
    response: Annotated[
        str | None,
        typer.Option(
            metavar="FILE", rich_help_panel=_F, help="b of least-squares, 1/2 |Ax - b|^2, and huber."
        ),
    ] = None,
    labels: Annotated[
        str | None, typer.Option(metavar="FILE", rich_help_panel=_F, help="Classes of logistic: -1 and 1.")
    ] = None,
    delta: Annotated[
        float | None, typer.Option(rich_help_panel=_F, help="Where huber turns linear; 1 if not given.")
    ] = None,
    method: Annotated[
        MethodName,
        typer.Option(metavar="NAME", rich_help_panel=_HOW, help=f"One of {', '.join(MethodName)}."),
    ] = MethodName.FULLY_CORRECTIVE,
    step: Annotated[
        StepName | None,
        typer.Option(
            metavar="NAME",
            rich_help_panel=_HOW,
            help=f"One of {', '.join(StepName)}. Not for fully-corrective.",
        ),
    ] = None,
    lazy: Annotated[
        bool,
        typer.Option("--lazy", rich_help_panel=_HOW, help="Active atoms first. Not for fully-corrective."),
    ] = False,
    names: opt.Names = None,
    exclude: Annotated[
        list[str] | None, typer.Option(metavar="IDS", help="Atoms not to use: ids with commas between.")
    ] = None,
    rtol: opt.Rtol = 1e-6,
    atol: opt.Atol = 0.0,
    max_steps: opt.MaxSteps = opt.UNLIMITED,
    max_passes: opt.MaxPasses = opt.UNLIMITED,
    max_seconds: opt.MaxSeconds = opt.UNLIMITED,
    top: opt.Top = 10,
    seed: opt.Seed = 0,
    out: opt.Out = None,
    save: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER", rich_help_panel=opt.OUTPUT, help="Save the result, for wolfhound.load."
        ),
    ] = None,
    picture: opt.Plot = None,
    as_json: opt.Json = False,
) -> None:
    """Minimise a smooth convex f over the hull of the atoms, with a proved gap."""
    output.check_path(out, "--out", TABLES)
    output.check_path(picture, "--plot", output.PICTURES)
    places.check_folder(save, "--save", "a result", ["result"])
    f = make_objective(objective, Given(target, design, response, labels, delta))
    mover = make_method(method, step, lazy, smoothness=f.smoothness)
    rows, known = opt.read_atoms(atoms, names)
    with GapMeter(rows.shape[0], rtol=rtol).job() as callback:
        result = wh.minimize(
            f,
            rows,
            method=mover,
            rtol=rtol,
            atol=atol,
            max_steps=max_steps,
            max_passes=max_passes,
            max_seconds=max_seconds,
            exclude=parse_ids(exclude or []),
            names=known,
            callback=callback,
            seed=seed,
        )
    _write(result, out, save, picture)
    if as_json:
        output.print_json({"objective": result.objective, "method": result.method, **output.document(result)})
    else:
        _print(output.stdout(), result, top)
    raise typer.Exit(output.exit_code(result))


def make_objective(name: ObjectiveName, given: Given) -> Objective:
    """Return f from the files that were given."""
    _check_given(name, given)
    if name is ObjectiveName.MIXTURE:
        return wh.MixtureLikelihood()
    if name is ObjectiveName.SQUARED_DISTANCE:
        return wh.SquaredDistance(readers.read_vector(str(given.target)))
    design = readers.read_matrix(str(given.design))
    if name is ObjectiveName.LOGISTIC:
        return wh.Logistic(design, readers.read_vector(str(given.labels)))
    response = readers.read_vector(str(given.response))
    if name is ObjectiveName.LEAST_SQUARES:
        return wh.LeastSquares(design, response)
    return wh.Huber(design, response, delta=1.0 if given.delta is None else given.delta)


def _check_given(name: ObjectiveName, given: Given) -> None:
    """Refuse options of another objective; ask for those that are missing."""
    for field, value in given._asdict().items():
        takes = field in _TAKES[name]
        if value is not None and not takes:
            raise ValueError(f"`--{field}` must not be given with --objective {name}. Got {value}.")
        if value is None and takes and field != "delta":
            raise ValueError(f"`--{field}` must be given with --objective {name}.")


def make_method(name: MethodName, step: StepName | None, lazy: bool, *, smoothness: float) -> Method:
    """Return the method that the options describe."""
    if name is MethodName.FULLY_CORRECTIVE:
        for option, value in (("--step", step), ("--lazy", lazy or None)):
            if value is not None:
                raise ValueError(f"`{option}` must not be given with --method {name}.")
        return wh.FullyCorrective()
    return wh.FrankWolfe(_direction(name), _step(step, smoothness), lazy=lazy)


def _direction(name: MethodName) -> Direction:
    match name:
        case MethodName.AWAY:
            return wh.Away()
        case MethodName.PAIRWISE:
            return wh.Pairwise()
        case MethodName.BLENDED_PAIRWISE:
            return wh.BlendedPairwise()
        case _:
            return wh.Vanilla()


def _step(name: StepName | None, smoothness: float) -> StepSize:
    match name:
        case StepName.SHORT_STEP:
            if not 0.0 < smoothness < math.inf:
                raise ValueError("`--step` must not be short-step for an objective of unknown smoothness.")
            return wh.ShortStep(smoothness)
        case StepName.ADAPTIVE:
            return wh.Adaptive()
        case StepName.OPEN_LOOP:
            return wh.OpenLoop()
        case _:
            return wh.LineSearch()


def parse_ids(texts: Sequence[str]) -> list[int]:
    """Return the ids of "1,5" "9"."""
    return opt.ids(opt.parts(texts), "--exclude", "ids with commas between")


def _write(result: Result, out: Path | None, save: Path | None, picture: Path | None) -> None:
    if out is not None:
        write_table(out, output.columns(result))
    if save is not None:
        result.save(save)
    if picture is not None:
        output.write_picture(picture, result.plot())


def _print(console: Console, result: Result, top: int) -> None:
    colour = "green" if result.success else "yellow"
    console.print(f"[bold {colour}]{result.status.name}[/] {result.status.value}")
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(style="dim")
    table.add_row("value", f"{result.value:.9g}")
    table.add_row("lower", f"{result.lower:.9g}")
    table.add_row("gap", f"{result.gap:.3g} (goal {result.goal:.3g})")
    table.add_row("steps", f"{result.steps:,}")
    table.add_row("passes", f"{result.passes:.3g} ({result.scored:,} atoms scored)")
    table.add_row("time", output.seconds_text(result.seconds))
    table.add_row("atoms", f"{result.support:,} with weight")
    console.print(table)
    console.print()
    output.print_atoms(console, result, top)
