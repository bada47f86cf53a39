"""`wolfhound explain`: targets as sparse convex mixtures of atoms."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import difflib
import math
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import numpy as np
from rich.console import Console
from typer import Exit

import wolfhound as wh
from wolfhound import plot
from wolfhound.cli import _many as many
from wolfhound.cli import _options as opt
from wolfhound.cli import _output as output
from wolfhound.cli._explain_many import explain_many
from wolfhound.cli._options import option
from wolfhound.cli._places import check_run
from wolfhound.cli.solve import weigh_oracles
from wolfhound.core import Status, Vector
from wolfhound.result import Result
from wolfhound.text import passes_text, seconds_text
from wolfhound.validate import number, require
from wolfhound.writers import TABLES, Columns, write_table

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Target(NamedTuple):
    """A point to explain, and the atom that it is, if it is one."""

    name: str
    point: Vector
    atom: int | None
    id: int


class Explanation(NamedTuple):
    """A target and its mixture."""

    target: str
    result: Result
    id: int = 0

    @property
    def distance(self) -> float:
        """|x - target|."""
        return math.sqrt(2.0 * max(self.result.value, 0.0))


def explain(
    atoms: opt.AtomsFile,
    targets: Annotated[str | None, option("Points to explain, one per row.", metavar="FILE")] = None,
    target: Annotated[
        list[str] | None, option("An atom to explain; may be repeated.", metavar="NAME_OR_ID")
    ] = None,
    names: opt.Names = None,
    exclude_self: Annotated[bool, option("Explain an atom by the others only.", "--exclude-self")] = False,
    missing: opt.MissingValues = "drop",
    numeric_only: opt.NumericOnly = False,
    rtol: opt.Rtol = 1e-4,
    max_seconds: opt.MaxSeconds = opt.UNLIMITED,
    top: opt.Top = 10,
    seed: opt.Seed = 0,
    skip: Annotated[bool, option("Pass over targets of the file that are not finite.", "--skip")] = False,
    out: opt.Out = None,
    summary: opt.Summary = None,
    save: Annotated[
        Path | None,
        opt.output(
            "With --targets: write answers there as they come; a run that was cut goes on.", metavar="FOLDER"
        ),
    ] = None,
    checkpoint: opt.Checkpoint = None,
    picture: Annotated[
        Path | None,
        opt.file_output("Draw the convergence, of --targets the distances: .png, .svg or .pdf.", "--plot"),
    ] = None,
    page: opt.Report = None,
    as_json: opt.Json = False,
) -> None:
    """Explain points as sparse convex mixtures of atoms, with a proved gap.

    For each target t: the point x of the hull with the least 1/2 |x - t|^2.

    Examples
    --------
    wolfhound explain words.npy --names words.txt --target king --exclude-self

    wolfhound explain atoms.npy --target 17 --target 42 --exclude-self --json

    wolfhound explain atoms.npy --targets points.npy --out mixtures.csv

    wolfhound explain 'part-*.npy' --targets points.csv --summary gaps.csv --save run

    wolfhound explain 'part-*.npy' --target 17 --exclude-self --checkpoint run
    """
    outputs = output.Outputs(out, None, picture, page).check()
    output.check_path(summary, "--summary", TABLES)
    check_run(save, "--save")
    if (targets is None) == (not target):
        raise ValueError("`--target` or `--targets` must be given, and not both.")
    rows = opt.read_table(atoms, names, missing=missing, numeric_only=numeric_only)
    notes = [] if rows.table is None else rows.table.report.notes
    for subject, text in notes:
        output.notify(f"{subject}: {text}")
    limit = number(max_seconds, "max_seconds", low=0.0)
    goal: dict[str, Any] = {"rtol": rtol, "max_seconds": limit, "seed": seed}
    if targets is not None:
        require(checkpoint is None, "--checkpoint", "given with one `--target`", "`--targets`; see --save")
        found = explain_many(rows, targets, exclude_self=exclude_self, skip=skip, out=save, **goal)
        found.deliver(outputs, summary, as_json=as_json, top=top)
        raise Exit(many.exit_code(found.result))
    for given, option_name in ((summary, "--summary"), (save, "--save"), (skip or None, "--skip")):
        require(given is None, option_name, "given with `--targets` only", "`--target`")
    wanted = _targets(rows, target or [], exclude_self)
    console = output.stdout()
    live = not (as_json or any(outputs))  # files come first: who reads the lines may leave
    done = []
    kept: dict[str, Any] = {"checkpoint": checkpoint, "resumed": _check_checkpoint(checkpoint, len(wanted))}
    for explanation in _explain_all(rows, wanted, **goal, **kept):
        done.append(explanation)
        if live:
            print_explanation(console, explanation, top)
    outputs.write(lambda path: write_table(path, _join_weights(done)), figure=lambda: _draw(done))
    told = ", ".join(dict.fromkeys(each.target for each in done))
    outputs.tell(
        _told(done),
        lambda: weigh_oracles(rows.atoms, *(each.result for each in done)),
        title=f"{told}, explained",
    )
    if as_json:
        output.print_json({"table": rows.describe(), "targets": list(map(_document, done))})
    else:
        for explanation in [] if live else done:
            print_explanation(console, explanation, top)
        console.print(_summary(done, len(wanted)))
    # A run that is cut short leaves targets out; its own status already says so.
    raise Exit(output.exit_code(*(explanation.result for explanation in done)))


def _check_checkpoint(path: Path | None, targets: int) -> str:
    """As for solve, of one target: a file keeps one run."""
    one = path is None or targets == 1
    require(one, "--checkpoint", "given with one target", f"{targets} targets")
    return output.check_checkpoint(path)


def find_atom(text: str, names: Sequence[str] | None, n: int) -> int:
    """Return the id of an atom given by name or id; a name goes first."""
    if names is not None and text in names:
        return names.index(text)
    if text.isdecimal() and int(text) < n:
        return int(text)
    close = difflib.get_close_matches(text, names, 3) if names is not None else []
    rule = f"an id in [0, {n})" if names is None else f"a name of an atom or an id in [0, {n})"
    hint = f" Did you mean {' or '.join(close)}?" if close else ""
    raise ValueError(f"`--target` must be {rule}. Got {text}.{hint}")


def _targets(rows: opt.NamedRows, given: Sequence[str], exclude_self: bool) -> list[Target]:
    n, names = rows.size, rows.names
    ids = [find_atom(text, names, n) for text in given]
    places = [rows.find_place(i) for i in ids]
    points = rows.atoms.take(np.array(places, np.int64)).astype(np.float64)
    return [
        Target(names[i] if names else str(i), point, place if exclude_self else None, i)
        for i, place, point in zip(ids, places, points, strict=True)
    ]


def _explain_all(
    rows: opt.NamedRows,
    targets: Sequence[Target],
    *,
    rtol: float,
    max_seconds: float,
    seed: int,
    checkpoint: Path | None,
    resumed: str,
) -> Iterator[Explanation]:
    # One oracle for all: what it learns of the atoms in a first pass is kept.
    oracle, names = wh.Scan(rows.atoms), rows.kept_names
    end = time.monotonic() + max_seconds
    if resumed:
        output.notify(resumed)
    for target in targets:
        result = wh.minimize(
            wh.SquaredDistance(target.point),
            oracle,
            rtol=rtol,
            max_seconds=max(end - time.monotonic(), 0.0),
            exclude=None if target.atom is None else [target.atom],
            names=names,
            checkpoint=checkpoint,
            progress=True,
            seed=seed,
        )
        yield Explanation(target.name, rows.name_rows(result), target.id)
        if result.status in (Status.INTERRUPTED, Status.MAX_SECONDS, Status.LOST):
            return


def print_explanation(console: Console, explanation: Explanation, top: int) -> None:
    """Print a target, its distance, its atoms and the proof."""
    result = explanation.result
    why = "" if result.success else result.status.value
    told = f"{explanation.distance:.6g}, proved gap {result.gap:.2g}, {result.support} atoms"
    cost = f"{passes_text(result.passes)}, {seconds_text(result.seconds)}"
    output.print_mixture(console, explanation.target, result.summary().tables[0], top, f"{told}, {cost}", why)


def _document(explanation: Explanation) -> dict[str, object]:
    document = explanation.result.summary().document()
    return {"target": explanation.target, "distance": explanation.distance, **document}


def _summary(done: Sequence[Explanation], wanted: int) -> str:
    results = [explanation.result for explanation in done]
    proved = sum(result.success for result in results)
    support = np.mean([result.support for result in results])
    seconds = seconds_text(sum(result.seconds for result in results))
    passes = passes_text(sum(result.passes for result in results))
    return (
        f"[bold]{proved} of {wanted} targets proved[/] to the wanted gap,"
        f" {support:.3g} atoms each on average, {passes}, {seconds}"
    )


def _join_weights(done: Sequence[Explanation]) -> Columns:
    tables = [output.list_weights(explanation.result) for explanation in done]
    targets = np.repeat([e.target for e in done], [e.result.support for e in done])
    joined = {name: np.concatenate([table[name] for table in tables]) for name in tables[0]}
    return {"target": targets, **joined}


def _told(done: Sequence[Explanation]) -> Any:
    """One result, or several by the names of their targets; who asks twice is told once."""
    return done[0].result if len(done) == 1 else {name: each.result for name, each in _by_name(done).items()}


def _by_name(done: Sequence[Explanation]) -> dict[str, Explanation]:
    """Each target once, by a name of its own: atoms that share one have their ids behind it."""
    targets = {each.id: each for each in done}
    shared = Counter(each.target for each in targets.values())
    named: dict[str, Explanation] = {}
    for i, each in targets.items():
        name = each.target if shared[each.target] == 1 else f"{each.target} (#{i})"
        while name in named:  # another atom is called so
            name += " "
        named[name] = each
    return named


def _draw(done: Sequence[Explanation]) -> Figure:
    if len(done) == 1:
        return done[0].result.plot(title=done[0].target)
    named = _by_name(done)
    shown = list(named)[: len(plot.COLOURS)]
    count = f"all {len(named)}" if len(shown) == len(named) else f"the first {len(shown)} of {len(named)}"
    curves = {name: trace_gap(named[name].result) for name in shown}
    return plot.draw_gaps(curves, title=f"proved gaps of {count} targets")


def trace_gap(result: Result) -> plot.Run:
    """Return the curve of a gap."""
    return plot.Run(result.trace.passes, result.trace.seconds, result.trace.gap)
