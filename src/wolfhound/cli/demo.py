"""`wolfhound demo`: words and a sentence as mixtures of other words, with proof."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
from rich.console import Console
from typer import Exit

import wolfhound as wh
from wolfhound.cli import _output as output
from wolfhound.cli._options import option
from wolfhound.cli.explain import Explanation
from wolfhound.core.contracts import Atoms, Objective, Status
from wolfhound.core.text import seconds_text
from wolfhound.data import shipped as data
from wolfhound.solve.result import Result

WORDS = ("king", "paris", "piano", "physics")
SENTENCE = "the old sailor told stories about the storm"

_RTOL = 1e-5
_CLASSICAL = wh.FrankWolfe(wh.Vanilla(), wh.LineSearch())
_CLASSICAL_STEPS = 2000
_TOP = 6


class Race(NamedTuple):
    """One problem solved by the default method and by classical Frank-Wolfe."""

    name: str
    ours: Result
    classical: Result


def demo(
    picture: Annotated[
        Path, option("Where to draw the comparison: .png, .svg or .pdf.", "--plot", metavar="FILE")
    ] = Path("wolfhound-demo.png"),
) -> None:
    """Explain words by other words, prove it, and race classical Frank-Wolfe.

    20,000 GloVe vectors come with the package: nothing is downloaded.

    Examples
    --------
    wolfhound demo

    wolfhound demo --plot gaps.svg
    """
    outputs = output.Outputs(picture=picture).check()
    began = time.monotonic()
    console = output.stdout()
    words = data.words()
    n, d = words.vectors.shape
    console.print(f"[bold]{n:,} words, {d} dimensions.[/] Each target is written as the closest mixture")
    console.print(
        "(weights >= 0, sum 1) of [italic]other[/] words, with a proof of how close to the best it is."
    )
    console.print("This takes some ten seconds; the first time as long again, to compile the kernels.\n")
    atoms, races = wh.ArrayAtoms(words.vectors), []
    for name, text in [(word, word) for word in WORDS] + [(f'"{SENTENCE}"', SENTENCE)]:
        f = wh.SquaredDistance(words.sentence(text))
        # The words themselves would give it away.
        exclude = np.unique([words.id(word) for word in text.split()])
        ours = _solve(f, atoms, exclude=exclude, rtol=_RTOL, names=words.names)
        Explanation(name, ours).print(console, _TOP)
        limits = {"rtol": 0.0, "atol": ours.goal, "max_steps": _CLASSICAL_STEPS}
        races.append(Race(name, ours, _solve(f, atoms, exclude=exclude, method=_CLASSICAL, **limits)))
    _print_races(console, races)
    first = races[0]
    runs = {"wolfhound": first.ours, "classical Frank-Wolfe": first.classical}
    title = f'"{first.name}" as a mixture of {n - 1:,} other words'
    outputs.write(races, figure=lambda: wh.plot(runs, title=title))
    seconds = f"{time.monotonic() - began:.0f} s in all"
    console.print(f"\nPicture: [bold]{output.plain(str(picture))}[/] ({seconds})")
    console.print("Next, with your own vectors, one per row:")
    console.print("  [bold]wolfhound explain vectors.npy --target 17 --exclude-self[/]")
    raise Exit(output.exit_code(*(race.ours for race in races)))


def _solve(f: Objective, atoms: Atoms, **settings: Any) -> Result:
    result = wh.minimize(f, atoms, progress=True, **settings)
    if result.status is Status.INTERRUPTED:  # part of a race is no result
        raise KeyboardInterrupt
    return result


def _print_races(console: Console, races: list[Race]) -> None:
    console.print("[bold]The same problems by classical Frank-Wolfe[/] with exact line search.")
    first = races[0]
    console.print(f"Goal: rtol = {_RTOL:.0e}, for {first.name} a gap of {first.ours.goal:.1e};", end=" ")
    console.print(f"cut off after {_CLASSICAL_STEPS:,} steps.")
    console.print("Both use a screened scan, so that a query can cost less than a pass.\n")
    table = output.make_table()
    table.add_column("\ntarget", max_width=16, no_wrap=True)
    for heading in ("wolfhound\npasses", "\ntime"):
        table.add_column(heading, justify="right", style="cyan")
    for heading in ("Frank-Wolfe\nsteps", "\npasses", "\ntime"):
        table.add_column(heading, justify="right")
    table.add_column("\nproved gap")
    for name, ours, classical in races:
        times = [seconds_text(result.seconds) for result in (ours, classical)]
        gap = "reached" if classical.success else f"{classical.gap / ours.goal:,.0f} x the goal"
        steps, passes = f"{classical.steps:,}", f"{classical.passes:.3g}"
        table.add_row(output.plain(name), f"{ours.passes:.3g}", times[0], steps, passes, times[1], gap)
    console.print(table)
