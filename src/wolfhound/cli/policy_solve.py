"""`wolfhound policy solve`: the best policy of a model with finitely many states."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, cast

import numpy as np
import typer
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from wolfhound import readers
from wolfhound.cli import _options as opt
from wolfhound.cli import _output as output
from wolfhound.cli import _places as places
from wolfhound.cli._policy import AUTO, SCAN, Search, find_index
from wolfhound.cli._progress import GapMeter
from wolfhound.core import Status
from wolfhound.validate import number, require
from wolfhound.writers import TABLES, write_table

if TYPE_CHECKING:
    from collections.abc import Callable

    from wolfhound.core import Atoms, Oracle
    from wolfhound.oracles.indexes import Make
    from wolfhound.policy import ACMDP, PolicyState, TabularResult
    from wolfhound.policy.tabular.steps import PolicyStep

EXAMPLES = """[bold]Examples:[/]

wolfhound policy solve

wolfhound policy solve atoms.npy --reward R.npy --transition P.npy --gamma 0.95

wolfhound policy solve atoms.npy --reward R.npy --transition P.npy \\
  --centres C.npy --curvature 2 --search clusters --save run --plot run.png
"""

_MODEL = "The model"
_RANDOM = "A random model, without ATOMS"
_HOW = "The method"


class StepName(StrEnum):
    """How far the actions move."""

    PER_STATE = "per-state"
    BACKTRACKING = "backtracking"
    VISITATION = "visitation"
    PAPER = "paper"


class Given(NamedTuple):
    """The files of a model; None: not given."""

    reward: str | None
    transition: str | None
    start: str | None
    centres: str | None


def solve(
    atoms: Annotated[
        str | None,
        typer.Argument(
            metavar="ATOMS", help="Actions are mixtures of these, one per row.", show_default=False
        ),
    ] = None,
    reward: Annotated[
        str | None,
        typer.Option(metavar="FILE", rich_help_panel=_MODEL, help="R, a row per state: r(s, a) = <R[s], a>."),
    ] = None,
    transition: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            rich_help_panel=_MODEL,
            help="P, a .npy of S x d x S: P(t | s, a) = sum over j of a[j] P[s, j, t].",
        ),
    ] = None,
    start: Annotated[
        str | None,
        typer.Option(metavar="FILE", rich_help_panel=_MODEL, help="Chances of the first state; else alike."),
    ] = None,
    gamma: Annotated[float, typer.Option(rich_help_panel=_MODEL, help="Discount, in [0, 1).")] = 0.9,
    curvature: Annotated[
        float,
        typer.Option(min=0.0, rich_help_panel=_MODEL, help="k of a cost k/2 |a - centre[s]|^2; 0: none."),
    ] = 0.0,
    centres: Annotated[
        str | None, typer.Option(metavar="FILE", rich_help_panel=_MODEL, help="A row per state; else 0.")
    ] = None,
    states: Annotated[int, typer.Option(min=1, rich_help_panel=_RANDOM, help="Number of states.")] = 100,
    rows: Annotated[
        float, typer.Option(metavar="N", rich_help_panel=_RANDOM, help="Number of atoms, such as 1e5.")
    ] = 1e4,
    dim: Annotated[int, typer.Option(min=1, rich_help_panel=_RANDOM, help="Entries of an action.")] = 16,
    search: Search = SCAN,
    ratio: Annotated[
        float, typer.Option(rich_help_panel=_HOW, help="The share of the gap that an index finds.")
    ] = 0.8,
    step: Annotated[
        StepName, typer.Option(metavar="NAME", rich_help_panel=_HOW, help=f"One of {', '.join(StepName)}.")
    ] = StepName.PER_STATE,
    rtol: Annotated[
        float, typer.Option(rich_help_panel=opt.STOPPING, help="Wanted gap, relative to that of the start.")
    ] = 1e-3,
    atol: Annotated[
        float | None,
        typer.Option(
            rich_help_panel=opt.STOPPING,
            help="Wanted root of the sum of squared gaps; else by rtol.",
        ),
    ] = None,
    max_steps: opt.MaxSteps = 1000,
    max_seconds: opt.MaxSeconds = opt.UNLIMITED,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the first policy, and of a random model.")] = 0,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            rich_help_panel=opt.OUTPUT,
            help="Write state, atom and weight: .csv, .json, .npy or .parquet.",
        ),
    ] = None,
    save: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", rich_help_panel=opt.OUTPUT, help="Save it, for wolfhound.load."),
    ] = None,
    picture: opt.Plot = None,
    as_json: opt.Json = False,
) -> None:
    """Find the best policy of a model with finitely many states, with a proved gap.

    In every state the actions are all mixtures of the atoms. Without ATOMS a random model shows it.
    """
    output.check_path(out, "--out", TABLES)
    output.check_path(picture, "--plot", output.PICTURES)
    places.check_folder(save, "--save", "a policy", ["policy"])
    require(0.0 < ratio <= 1.0, "ratio", "in (0, 1]", ratio)
    number(max_steps, "max_steps", low=0.0)
    given = Given(reward, transition, start, centres)
    model = (
        _random(given, states, rows, dim, gamma=gamma, curvature=curvature, seed=seed)
        if atoms is None
        else _read(atoms, given, gamma=gamma, curvature=curvature)
    )
    model, oracle = _searched(model, search, ratio, max_steps)
    result = _run(
        model,
        None if oracle is None else ratio,
        _step(step),
        rtol=rtol,
        atol=atol,
        limits=(max_steps, max_seconds),
        seed=seed,
    )
    _write(result, out, save, picture)
    if as_json:
        output.print_json(document(result))
    else:
        _print(output.stdout(), result)
    raise typer.Exit(_exit_code(result))


# ---------------------------------------------------------------- names and files -> objects


def _random(
    given: Given, states: int, rows: float, dim: int, *, gamma: float, curvature: float, seed: int
) -> ACMDP:
    """A random model; files of a model make no sense then."""
    from wolfhound.policy import random_acmdp  # noqa: PLC0415 - numba

    for name, value in given._asdict().items():
        if value is not None:
            raise ValueError(f"`--{name}` must not be given without ATOMS. Got {value}.")
    if not (math.isfinite(rows) and rows == int(rows)):
        raise ValueError(f"`--rows` must be a whole number. Got {rows:g}.")
    return random_acmdp(states, int(rows), dim, gamma=gamma, curvature=curvature, seed=seed)


def _read(atoms: str, given: Given, *, gamma: float, curvature: float) -> ACMDP:
    from wolfhound.policy import ACMDP, AffineReward, AffineTransition, QuadraticReward  # noqa: PLC0415
    from wolfhound.policy.tabular.rewards import Reward  # noqa: PLC0415

    for name in ("reward", "transition"):
        if getattr(given, name) is None:
            raise ValueError(f"`--{name}` must be given with ATOMS.")
    weights = np.asarray(readers.read_matrix(str(given.reward)), np.float64)
    reward: Reward = AffineReward(weights)
    if curvature > 0.0:
        centres = np.zeros_like(weights)
        if given.centres is not None:
            centres = np.asarray(readers.read_matrix(given.centres), np.float64)
        reward = QuadraticReward(weights, centres, curvature=curvature)
    elif given.centres is not None:
        raise ValueError(f"`--centres` must not be given without --curvature. Got {given.centres}.")
    first = np.full(len(weights), 1.0 / len(weights))
    if given.start is not None:
        first = readers.read_vector(given.start)
    chances = AffineTransition(_tensor(str(given.transition)))
    return ACMDP(reward, chances, gamma, first, readers.read_atoms(atoms))


def _tensor(path: str) -> NDArray[Any]:
    if not path.endswith(".npy"):
        raise ValueError(f"`--transition` must be a .npy file of S x d x S numbers. Got {path}.")
    return readers.read_array(path)


def _searched(model: ACMDP, search: str, ratio: float, max_steps: float) -> tuple[ACMDP, Oracle | None]:
    """The model with the oracle of this name."""
    from wolfhound.policy import ActionSet  # noqa: PLC0415

    atoms = model.actions.atoms
    oracle = _oracle(atoms, search, ratio, round(model.states * min(max_steps, 100.0)), model.states)
    if oracle is None:
        return model, None
    return model.with_actions(ActionSet(atoms, oracle=oracle)), oracle


def _oracle(atoms: Atoms, search: str, ratio: float, queries: int, batch: int) -> Oracle | None:
    import wolfhound as wh  # noqa: PLC0415

    if search == SCAN:
        return None
    if search == AUTO:
        return wh.choose_oracle(atoms, queries=queries, ratio=ratio, proof=False, batch=batch).build()
    return cast("Make", find_index(search).build)(atoms)


def _step(name: StepName) -> PolicyStep:
    from wolfhound import policy  # noqa: PLC0415

    rules: dict[StepName, PolicyStep] = {
        StepName.PER_STATE: policy.PerState(),
        StepName.BACKTRACKING: policy.Backtracking(),
        StepName.VISITATION: policy.Visitation(),
        StepName.PAPER: policy.PaperStep(),
    }
    return rules[name]


def _run(
    model: ACMDP,
    ratio: float | None,
    step: PolicyStep,
    *,
    rtol: float,
    atol: float | None,
    limits: tuple[float, float],
    seed: int,
) -> TabularResult:
    """Solve by exact scans, or with an index that finds a share of the gap."""
    from wolfhound.policy import fwpo, sfwpo  # noqa: PLC0415

    most, seconds = limits
    with GapMeter(model.actions.n, rtol=rtol).job() as meter:
        # A meter looks at the gap and the passes only, which all states have.
        callback = cast("Callable[[PolicyState], None]", meter)
        if ratio is None:
            return fwpo(
                model,
                step=step,
                rtol=rtol,
                atol=atol,
                max_steps=most,
                max_seconds=seconds,
                callback=callback,
                seed=seed,
            )
        return sfwpo(
            model,
            ratio=ratio,
            step=step,
            rtol=rtol,
            atol=atol,
            max_steps=most,
            max_seconds=seconds,
            callback=callback,
            seed=seed,
        )


# ---------------------------------------------------------------- output


def document(result: TabularResult) -> dict[str, object]:
    """Return a result as plain values for JSON."""
    return {
        "problem": result.problem,
        "method": result.method,
        "status": result.status.name,
        "success": result.success,
        "message": result.message,
        "J": result.score,
        "upper": result.upper,
        "gap": result.gap,
        "goal": result.goal,
        "gap_norm": float(np.sqrt(np.square(result.gaps).sum())),
        "atol": result.atol,
        "steps": result.steps,
        "passes": result.passes,
        "scored": result.scored,
        "seconds": result.seconds,
        "policy": [
            {"atoms": ids[ids >= 0].tolist(), "weights": weights[ids >= 0].tolist()}
            for ids, weights in zip(result.ids, result.weights, strict=True)
        ],
    }


def _exit_code(result: TabularResult) -> int:
    if result.status is Status.INTERRUPTED:
        return 130
    return 0 if result.success else 1


def _write(result: TabularResult, out: Path | None, save: Path | None, picture: Path | None) -> None:
    if out is not None:
        where = np.nonzero(result.ids >= 0)
        columns = {"state": where[0], "id": result.ids[where], "weight": result.weights[where]}
        write_table(out, columns)
    if save is not None:
        result.save(save)
    if picture is not None:
        output.write_picture(picture, result.plot())


def _print(console: Console, result: TabularResult) -> None:
    colour = "green" if result.success else "yellow"
    console.print(f"[bold {colour}]{result.status.name}[/] {result.status.value}")
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(style="dim")
    first, states = float(result.scores[0]), len(result.policy)
    table.add_row("J", f"{result.score:.9g} (at the start {first:.6g})")
    table.add_row("upper", f"{result.upper:.9g}")
    table.add_row("gap", f"{result.gap:.3g} (goal {result.goal:.3g})")
    norm = float(np.sqrt(np.square(result.gaps).sum()))
    table.add_row("states' gaps", f"largest {result.gaps.max():.3g}, root of squares {norm:.3g}")
    table.add_row("steps", f"{result.steps:,}")
    table.add_row("passes", f"{result.passes:.3g} ({result.scored:,} atoms scored)")
    table.add_row("time", output.seconds_text(result.seconds))
    atoms = (result.weights > 0.0).sum(axis=1)
    table.add_row("policy", f"{states:,} states, {atoms.mean():.3g} atoms each, at most {atoms.max()}")
    console.print(table)
