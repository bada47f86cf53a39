"""`wolfhound policy`: solve a model, train an agent, compare policies."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import importlib
import re
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Typer

from wolfhound.cli import _options as opt
from wolfhound.cli import _output as output
from wolfhound.cli import _places as places
from wolfhound.cli import policy_solve
from wolfhound.cli._forecast import Forecast
from wolfhound.cli._frame import Command, Commands
from wolfhound.cli._options import option
from wolfhound.cli._policy import (
    AUTO,
    TESTED,
    Search,
    agent_of,
    exam_options,
    feed_of,
    oracle_of,
    returns_of,
    rule_of,
)
from wolfhound.cli._progress import Meter, Reading
from wolfhound.core import Status

if TYPE_CHECKING:
    from wolfhound.policy.deep.agent import Agent, Training
    from wolfhound.policy.feed.compare import Comparison

_ABOUT = "Policies whose actions are mixtures of many given vectors."
app = Typer(cls=Commands, no_args_is_help=True, help=_ABOUT)
app.command(cls=Command)(policy_solve.solve)

_training = opt.in_panel("Training")

Items = Annotated[
    str | None,
    Argument(
        metavar="[ATOMS]",
        help="Items, one per row, made unit: .npy, .npz, .csv, ...; else the shipped words.",
    ),
]
Steps = Annotated[int, _training("Transitions of training.", min=1)]
Users = Annotated[int, option("Users to learn from; tests are on others.", min=1)]
Ratio = Annotated[float, option("Gap ratio that the search needs on average; 1: the best atom.")]
Episodes = Annotated[int, option("Episodes per test.", min=1)]


# ---------------------------------------------------------------- train


@app.command(cls=Command)
def train(
    atoms: Items = None,
    steps: Steps = 10_000,
    method: Annotated[
        str, _training("sfwpo, nfwpo, td3, ...; a wrong name lists all that are known.", metavar="NAME")
    ] = "sfwpo",
    neighbours: Annotated[int | None, _training("Nearest items, for wolpertinger; else 10.", min=1)] = None,
    refine: Annotated[
        int | None, _training("Frank-Wolfe steps on the critic per decision; else 3.", min=0)
    ] = None,
    execution: Annotated[str, option("hull: a mixture; nearest, draw: one item.", metavar="NAME")] = "hull",
    search: Search = AUTO,
    ratio: Ratio = 0.9,
    users: Users = 20_000,
    episodes: Episodes = TESTED,
    seed: Annotated[int, option("Seed of everything.", min=0)] = 0,
    out: Annotated[Path | None, opt.output("Save the agent.", "-o", "--out", metavar="FOLDER")] = None,
    log: Annotated[Path | None, opt.file_output("Write a .csv row per 1,000 transitions.")] = None,
    tensorboard: Annotated[
        Path | None, opt.output("Write the same numbers for TensorBoard.", metavar="FOLDER")
    ] = None,
    eval_freq: Annotated[
        int, _training("Transitions between tests on fresh users that are logged; 0: none.", min=0)
    ] = 1000,
    as_json: opt.Json = False,
) -> None:
    """Learn to show items, or mixtures of them, to the users of a feed.

    Tested on users that the agent has not met, beside policies that learn nothing.

    Examples
    --------
    wolfhound policy train --steps 3000

    wolfhound policy train items.npy --out agent --log training.csv --tensorboard runs/a

    wolfhound policy train items.npy --method wolpertinger --neighbours 100 --seed 1
    """
    output.check_path(log, "--log", (".csv",))
    places.check_folder(out, "--out", "an agent", ["agent"])
    rule = rule_of(method, {"neighbours": neighbours, "refine": refine})
    feed = feed_of(atoms, users, seed)
    oracle = oracle_of(feed, search, steps, ratio)
    agent = agent_of(feed, rule=rule, execution=execution, oracle=oracle, seed=seed)
    logs = {"log": log, "tensorboard": tensorboard}
    seconds = _learn(agent, steps, logs | exam_options(feed, eval_freq if any(logs.values()) else 0, seed))
    if out is not None:
        agent.save(out)
    if agent.status is Status.INTERRUPTED:
        raise KeyboardInterrupt
    report = agent.stats  # before the tests, which search too
    returns = returns_of(feed, agent, episodes, seed)
    told = report, returns, seconds, out
    output.show(as_json, lambda: _document_training(*told), lambda: _print_training(*told))


def _learn(agent: Agent, steps: int, options: dict[str, Any]) -> float:
    """Train, showing how far it is; return the seconds that it took."""

    def read(meter: Meter) -> Reading:
        done: Training = meter.state or agent.stats
        text = f"{done.timesteps:,} steps, return {done.mean_return:.2f}, {meter.seconds:.0f} s"
        return Reading(min(done.timesteps / steps, 1.0), text)

    meter = Meter(read)
    with meter.job() as callback:
        agent.learn(steps, callback=callback, **options)
    return meter.seconds


_COUNTED = ("ms_per_update", "scored", "ratio_mean", "ratio_p5")


def _document_training(
    report: Training, returns: dict[str, float], seconds: float, out: Path | None
) -> dict[str, object]:
    folder = None if out is None else str(out)
    counted = output.pick(report, "timesteps", "updates", *_COUNTED)
    return {"returns": returns, **counted, "seconds": seconds, "folder": folder}


def _print_training(report: Training, returns: dict[str, float], seconds: float, out: Path | None) -> None:
    console = output.stdout()
    table = output.make_table(show_header=False)
    table.add_column()
    table.add_column(justify="right", style="cyan")
    for name, value in returns.items():
        table.add_row(f"[bold]{name}[/]" if name == "agent" else name, f"{value:.2f}")
    console.print("[bold]Return of an episode[/] on fresh users:")
    console.print(table)
    console.print(
        f"{report.timesteps:,} steps and {report.updates:,} updates in {output.seconds_text(seconds)}, "
        f"{report.ms_per_update:.3g} ms per update, {report.scored:,} atoms scored"
    )
    if report.ratio_mean == report.ratio_mean:  # not nan: there were audits
        console.print(f"gap ratio: mean {report.ratio_mean:.3f}, 5th percentile {report.ratio_p5:.3f}")
    if out is not None:
        console.print(f"Agent: [bold]{output.plain(str(out))}[/]")


# ---------------------------------------------------------------- compare


@app.command(cls=Command)
def compare(
    atoms: Items = None,
    steps: Steps = 10_000,
    seeds: Annotated[int, option("Runs of each policy; seeds 0, 1, ...", min=1)] = 3,
    points: Annotated[int, option("Points of a learning curve.", min=1)] = 5,
    only: Annotated[
        list[str] | None, option("Only these policies; a wrong name lists them all.", metavar="A,B,C")
    ] = None,
    search: Search = "clusters",
    ratio: Ratio = 0.9,
    users: Users = 20_000,
    episodes: Episodes = TESTED,
    picture: Annotated[
        Path | None, opt.file_output("Draw the learning curves: .png, .svg or .pdf.", "--plot")
    ] = None,
    page: opt.Report = None,
    as_json: opt.Json = False,
) -> None:
    """Train SFWPO and its rivals on a feed, and compare them on fresh users.

    All see the same users, networks and features. Takes minutes, and tells how many
    once it has begun: a smaller --steps, fewer --seeds or --only make it shorter.

    Examples
    --------
    wolfhound policy compare --steps 3000 --seeds 2

    wolfhound policy compare items.npy --only sfwpo-index,td3,myopic-hull --plot curves.svg
    """
    from wolfhound.policy.feed.compare import compare as contest  # noqa: PLC0415
    from wolfhound.policy.feed.contenders import feed_baselines, feed_learners, fresh_users  # noqa: PLC0415

    output.check_path(picture, "--plot", output.PICTURES)
    output.check_page(page)
    importlib.import_module("wolfhound.policy.deep.agent")  # says what to install before any work is done
    feed = feed_of(atoms, users, 0)
    learners = feed_learners(feed, oracle=oracle_of(feed, search, steps, ratio))
    baselines = feed_baselines(feed)
    chosen = _choose(only, [*learners, *baselines])
    learners = {name: make for name, make in learners.items() if name in chosen}
    baselines = {name: make for name, make in baselines.items() if name in chosen}
    with Meter(Forecast([*learners, *baselines], seeds).read).job() as callback:
        found = contest(
            learners,
            baselines,
            test=fresh_users(feed, size=min(episodes, TESTED)),
            steps=steps,
            points=points,
            seeds=range(seeds),
            episodes=episodes,
            callback=callback,
        )
    if picture is not None:
        title = f"{len(feed.atoms):,} items, {seeds} {'seed' if seeds == 1 else 'seeds'}"
        output.write_picture(picture, found.plot(title=title))
    output.write_page(page, found)
    output.show(as_json, lambda: _document_comparison(found), lambda: _print_comparison(found, picture))


def _choose(only: list[str] | None, names: Iterable[str]) -> set[str]:
    slugs = {re.sub(r"[^a-z0-9]+", "-", name.lower()): name for name in names}
    if not only:
        return set(slugs.values())
    wanted = opt.split(only)
    unknown = [part for part in wanted if part not in slugs] if wanted else only
    if unknown:
        raise ValueError(f"`--only` must be of {', '.join(slugs)}. Got {', '.join(unknown)}.")
    return {slugs[part] for part in wanted}


def _document_comparison(found: Comparison) -> dict[str, object]:
    numbers = [output.pick(row, "name", "mean", "spread", *_COUNTED) for row in found.standings]
    curves = [{"steps": row.steps.tolist(), "returns": row.returns.tolist()} for row in found.standings]
    return {"policies": [row | curve for row, curve in zip(numbers, curves, strict=True)]}


def _print_comparison(found: Comparison, picture: Path | None) -> None:
    from wolfhound.policy.feed.compare import HEADINGS  # noqa: PLC0415

    console = output.stdout()
    table = output.make_table()
    for i, heading in enumerate(HEADINGS):
        table.add_column(heading, justify="right" if i else "left", style="cyan" if i == 1 else None)
    for cells in found.cells():
        table.add_row(*cells)
    console.print(table)
    if picture is not None:
        console.print(f"Picture: [bold]{output.plain(str(picture))}[/]")
