"""`wolfhound demo`: words and a sentence as mixtures of other words, with proof."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import numpy as np
import typer
from rich.console import Console
from rich.table import Table

import wolfhound as wh
from wolfhound import data, plot
from wolfhound.cli import _output as output
from wolfhound.cli._progress import GapMeter
from wolfhound.cli.explain import Explanation, print_explanation
from wolfhound.core import Atoms, Ids, Method, Status, Vector
from wolfhound.result import Result

if TYPE_CHECKING:
    from matplotlib.figure import Figure

EXAMPLES = """[bold]Examples:[/]

wolfhound demo

wolfhound demo --plot gaps.svg
"""

WORDS = ("king", "paris", "piano", "physics")
SENTENCE = "the old sailor told stories about the storm"

_RTOL = 1e-5
_CLASSICAL_STEPS = 2000
_TOP = 6


class Problem(NamedTuple):
    """A point to explain, and the atoms that would give it away."""

    name: str
    point: Vector
    exclude: Ids


class Race(NamedTuple):
    """One problem solved by the default method and by classical Frank-Wolfe."""

    name: str
    ours: Result
    classical: Result


def demo(
    picture: Annotated[
        Path, typer.Option("--plot", metavar="FILE", help="Where to draw the comparison: .png, .svg or .pdf.")
    ] = Path("wolfhound-demo.png"),
) -> None:
    """Explain words by other words, prove it, and race classical Frank-Wolfe.

    20,000 GloVe vectors come with the package: nothing is downloaded.
    """
    output.check_path(picture, "--plot", output.PICTURES)
    began = time.monotonic()
    console = output.stdout()
    words = data.words()
    n, d = words.vectors.shape
    console.print(f"[bold]{n:,} words, {d} dimensions.[/] Each target is written as the closest mixture")
    console.print(
        "(weights >= 0, sum 1) of [italic]other[/] words, with a proof of how close to the best it is.\n"
    )
    races = _race(console, words)
    _print_races(console, races)
    output.write_picture(picture, _figure(races[0], n))
    console.print(
        f"\nPicture: [bold]{output.plain(str(picture))}[/] ({time.monotonic() - began:.0f} s in all)"
    )
    console.print("Next, with your own vectors, one per row:")
    console.print("  [bold]wolfhound explain vectors.npy --target 17 --exclude-self[/]")
    raise typer.Exit(output.exit_code(*(race.ours for race in races)))


def _problems(words: data.Words) -> list[Problem]:
    single = [
        Problem(word, words.vector(word).astype(np.float64), np.array([words.id(word)])) for word in WORDS
    ]
    own = np.unique([words.id(word) for word in SENTENCE.split()])
    return [*single, Problem(f'"{SENTENCE}"', words.sentence(SENTENCE), own)]


def _race(console: Console, words: data.Words) -> list[Race]:
    atoms = wh.ArrayAtoms(words.vectors)
    problems = _problems(words)
    meter = GapMeter(len(words.names), rtol=_RTOL, jobs=2 * len(problems) + 1)
    with meter.job():
        _warm_up(atoms, problems[0])
    races = []
    for problem in problems:
        f = wh.SquaredDistance(problem.point)
        with meter.job() as callback:
            ours = wh.minimize(
                f, atoms, rtol=_RTOL, exclude=problem.exclude, names=words.names, callback=callback
            )
        _stop_if_interrupted(ours)
        print_explanation(console, Explanation(problem.name, ours), _TOP)
        with meter.job() as callback:
            classical = wh.minimize(
                f,
                atoms,
                method=_classical(),
                rtol=0.0,
                atol=ours.goal,
                max_steps=_CLASSICAL_STEPS,
                exclude=problem.exclude,
                callback=callback,
            )
        _stop_if_interrupted(classical)
        races.append(Race(problem.name, ours, classical))
    return races


def _classical() -> Method:
    return wh.FrankWolfe(wh.Vanilla(), wh.LineSearch())


def _warm_up(atoms: Atoms, problem: Problem) -> None:
    # Compiling and loading kernels must not count for either side.
    f, own = wh.SquaredDistance(problem.point), problem.exclude
    _stop_if_interrupted(wh.minimize(f, atoms, rtol=_RTOL, exclude=own))
    _stop_if_interrupted(wh.minimize(f, atoms, method=_classical(), max_steps=50, exclude=own))


def _stop_if_interrupted(result: Result) -> None:
    # Part of a race is no result.
    if result.status is Status.INTERRUPTED:
        raise KeyboardInterrupt


def _print_races(console: Console, races: list[Race]) -> None:
    console.print("[bold]The same problems by classical Frank-Wolfe[/] with exact line search.")
    first = races[0]
    console.print(f"Goal: rtol = {_RTOL:.0e}, for {first.name} a gap of {first.ours.goal:.1e};", end=" ")
    console.print(f"cut off after {_CLASSICAL_STEPS:,} steps.")
    console.print("Both use a screened scan, so that a query can cost less than a pass.\n")
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("\ntarget", max_width=16, no_wrap=True)
    for heading in ("wolfhound\npasses", "\ntime"):
        table.add_column(heading, justify="right", style="cyan")
    for heading in ("Frank-Wolfe\nsteps", "\npasses", "\ntime"):
        table.add_column(heading, justify="right")
    table.add_column("\nproved gap")
    for name, ours, classical in races:
        times = [output.seconds_text(result.seconds) for result in (ours, classical)]
        gap = "reached" if classical.success else f"{classical.gap / ours.goal:,.0f} x the goal"
        steps, passes = f"{classical.steps:,}", f"{classical.passes:.3g}"
        table.add_row(output.plain(name), f"{ours.passes:.3g}", times[0], steps, passes, times[1], gap)
    console.print(table)


def _figure(race: Race, n: int) -> Figure:
    traces = {"wolfhound": race.ours.trace, "classical Frank-Wolfe": race.classical.trace}
    runs = {label: plot.Run(trace.passes, trace.seconds, trace.gap) for label, trace in traces.items()}
    return plot.compare(
        runs, goal=race.ours.goal, title=f'"{race.name}" as a mixture of {n - 1:,} other words'
    )
