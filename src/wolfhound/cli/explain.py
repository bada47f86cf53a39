"""`wolfhound explain`: targets as sparse convex mixtures of atoms, one by one or all of a file in one run."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import difflib
import math
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from typer import Exit

import wolfhound as wh
from wolfhound.cli import _options as opt
from wolfhound.cli import _output as output
from wolfhound.cli._options import option
from wolfhound.cli.solve import weigh_oracles
from wolfhound.core.contracts import Status
from wolfhound.core.text import passes_text, seconds_text
from wolfhound.core.validate import number, require
from wolfhound.data.atoms import to_places
from wolfhound.data.encoding import EncodingPlan, Missing, encode_source
from wolfhound.data.files import FileRows
from wolfhound.data.table_files import NAMED, ArrayTable, open_table
from wolfhound.data.writers import TABLES, Columns, write_table
from wolfhound.many.result import STATUSES, ManyResult
from wolfhound.show.markup import Grid, draw_pictures, list_records, list_weights
from wolfhound.solve.result import Result, picture_weights

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SHOWN = 20
"""Targets of a file whose atoms are printed."""

_DRAWN = 6  # targets whose mixtures are drawn


class Explanation(NamedTuple):
    """A target, an atom of this id, and its mixture."""

    target: str
    result: Result
    id: int = 0
    away: float | None = None  # |x - target|, where more than that is minimised

    @property
    def distance(self) -> float:
        """|x - target|."""
        return math.sqrt(2.0 * max(self.result.value, 0.0)) if self.away is None else self.away

    def document(self) -> dict[str, object]:
        """Return the target, its distance, and what the result tells, as JSON values."""
        return {"target": self.target, "distance": self.distance, **self.result.summary().document()}

    def print(self, console: Console, top: int) -> None:
        """Print the target, its atoms, its distance and the proof."""
        told, result = self.result.summary(), self.result
        cost = f"{passes_text(result.passes)}, {seconds_text(result.seconds)}"
        proof = f"{self.distance:.6g}, proved gap {result.gap:.2g}, {result.support} atoms, {cost}"
        print_mixture(console, self.target, told.tables[0], top, proof, result.status)


def print_mixture(console: Console, target: str, atoms: Grid, top: int, proof: str, status: Status) -> None:
    """Print a target and its mixture: the largest weights, how far it is, and why it is not better."""
    console.print(f"[bold]{output.plain(target)}[/]")
    output.print_weights(console, atoms, top)
    console.print(f"[dim]distance {proof}[/]")
    if not status.success:
        console.print(f"[yellow]{status.value}[/]")
    console.print()


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
    cone: opt.IsCone = False,
    price: opt.Price = None,
    mass: opt.Mass = None,
    cap: opt.Cap = None,
    at_most: opt.AtMost = False,
    ridge: opt.Ridge = 0.0,
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
        Path | None, opt.picture_output("Draw the mixture, of --targets the distances")
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

    wolfhound explain words.npy --names words.txt --target king --exclude-self --cone --price 0.2
    """
    outputs = output.Outputs(out, None, picture, page).check()
    opt.check_file(summary, "--summary", TABLES)
    opt.check_run(save, "--save")
    if (targets is None) == (not target):
        raise ValueError("`--target` or `--targets` must be given, and not both.")
    rows = opt.read_table(atoms, names, missing=missing, numeric_only=numeric_only)
    for subject, text in [] if rows.table is None else rows.table.report.notes:
        output.notify(f"{subject}: {text}")
    limit = number(max_seconds, "max_seconds", low=0.0)
    goal: dict[str, Any] = {"rtol": rtol, "max_seconds": limit, "seed": seed}
    goal |= {"over": opt.make_weights(cone, price, mass, cap, at_most), "ridge": ridge}
    if targets is not None:
        require(checkpoint is None, "--checkpoint", "given with one `--target`", "`--targets`; see --save")
        goal |= {"skip": skip, "out": save}
        called, result = _explain_file(rows, targets, exclude_self=exclude_self, **goal)
        columns = {"target": np.array(called, np.str_), **result.to_columns()}
        if summary is not None:
            write_table(summary, columns)
        mixtures = list_mixtures(result, {"target": columns["target"]}, "weight")
        outputs.write(result, lambda path: write_table(path, mixtures), names=result.names)
        if as_json:
            output.print_json({"table": rows.describe(), "targets": _list_documents(result, columns)})
        else:
            _print_file(called, result, top)
        raise Exit(output.exit_code(result))
    for given, option_name in ((summary, "--summary"), (save, "--save"), (skip or None, "--skip")):
        require(given is None, option_name, "given with `--targets` only", "`--target`")
    wanted = [find_atom(text, rows.names, rows.size) for text in target or []]
    one = checkpoint is None or len(wanted) == 1  # a file keeps one run
    require(one, "--checkpoint", "given with one target", f"{len(wanted)} targets")
    if resumed := output.check_checkpoint(checkpoint):
        output.notify(resumed)
    coming = _explain_atoms(rows, wanted, exclude_self, checkpoint=checkpoint, **goal)
    done = _deliver(coming, len(wanted), outputs, rows, as_json=as_json, top=top)
    # A run that is cut short leaves targets out; its own status already says so.
    raise Exit(output.exit_code(*(explanation.result for explanation in done)))


# ---------------------------------------------------------------- atoms by name or id


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


def _explain_atoms(
    rows: opt.NamedRows, ids: Sequence[int], exclude_self: bool, *, max_seconds: float, **settings: Any
) -> Iterator[Explanation]:
    """Explain some rows of the file, one after the other, until one is cut short."""
    places = np.array(to_places(rows.table, ids, "--target"), np.int64)
    points = rows.atoms.take(places).astype(np.float64)
    # One oracle for all: what it learns of the atoms in a first pass is kept.
    oracle, names = wh.Scan(rows.atoms), rows.kept_names
    end = time.monotonic() + max_seconds
    for i, place, point in zip(ids, places, points, strict=True):
        result = wh.minimize(
            wh.SquaredDistance(point),
            oracle,
            max_seconds=max(end - time.monotonic(), 0.0),
            exclude=[place] if exclude_self else None,
            names=names,
            progress=True,
            **settings,
        )
        paid = result.over.startswith("Cone") or "ridge" in result.over
        away = float(np.linalg.norm(result.x - point)) if paid else None
        yield Explanation(rows.names[i] if rows.names else str(i), rows.name_rows(result), i, away)
        if result.status in (Status.INTERRUPTED, Status.MAX_SECONDS, Status.LOST):
            return


def _deliver(
    coming: Iterator[Explanation],
    wanted: int,
    outputs: output.Outputs,
    rows: opt.NamedRows,
    *,
    as_json: bool,
    top: int,
) -> list[Explanation]:
    """Print each explanation as it comes, or write them all; returns those that came."""
    console, done = output.stdout(), []
    live = not (as_json or any(outputs))  # files come first: who reads the lines may leave
    for explanation in coming:
        done.append(explanation)
        if live:
            explanation.print(console, top)
    _write_explanations(outputs, rows, done)
    if as_json:
        output.print_json({"table": rows.describe(), "targets": [each.document() for each in done]})
        return done
    for explanation in [] if live else done:
        explanation.print(console, top)
    results = [explanation.result for explanation in done]
    proved = sum(result.success for result in results)
    support = np.mean([result.support for result in results])
    seconds = seconds_text(sum(result.seconds for result in results))
    passes = passes_text(sum(result.passes for result in results))
    cost = f"{support:.3g} atoms each on average, {passes}, {seconds}"
    console.print(f"[bold]{proved} of {wanted} targets proved[/] to the wanted gap, {cost}")
    return done


def _write_explanations(outputs: output.Outputs, rows: opt.NamedRows, done: Sequence[Explanation]) -> None:
    """Write all weights, a picture of the mixtures, and a page of all targets."""

    def join_weights() -> Columns:
        tables = [output.list_weights(each.result) for each in done]
        targets = np.repeat([each.target for each in done], [each.result.support for each in done])
        whole = {name: np.concatenate([table[name] for table in tables]) for name in tables[0]}
        return {"target": targets, **whole}

    def draw() -> Figure:
        named = _name_results(done)
        shown = list(named)[:_DRAWN]
        count = "" if len(shown) == len(named) else f" (the first {len(shown)} of {len(named)} targets)"
        mixtures = [picture_weights(named[name])._replace(title=name) for name in shown]
        return draw_pictures(mixtures, f"{', '.join(shown)}, explained{count}")

    told = ", ".join(dict.fromkeys(each.target for each in done))
    outputs.write(
        done[0].result if len(done) == 1 else _name_results(done),
        lambda path: write_table(path, join_weights()),
        figure=draw,
        plan=lambda: weigh_oracles(rows.atoms, *(each.result for each in done)),
        title=f"{told}, explained",
    )


def _name_results(done: Sequence[Explanation]) -> dict[str, Result]:
    """Each target once, by a name of its own: atoms that share one have their ids behind it."""
    targets = {each.id: each for each in done}
    shared = Counter(each.target for each in targets.values())
    named: dict[str, Result] = {}
    for i, each in targets.items():
        name = each.target if shared[each.target] == 1 else f"{each.target} (#{i})"
        while name in named:  # another atom is called so
            name += " "
        named[name] = each.result
    return named


# ---------------------------------------------------------------- all points of a file


def _list_documents(result: ManyResult, columns: Columns) -> list[dict[str, object]]:
    """Every target with its columns and its atoms, as JSON values."""
    documents = list_records(columns)
    for i, document in enumerate(documents):
        document["success"] = STATUSES[result.codes[i]].success
        document["atoms"] = [atom._asdict() for atom in result.top(i, len(result.ids))]
    return documents


def _print_file(called: Sequence[str], result: ManyResult, top: int) -> None:
    """Print the first targets with their atoms, and how many were proved."""
    console = output.stdout()
    for i in range(min(len(result), SHOWN)):
        grid = list_weights("", result.top(i, len(result.ids)), size=int(result.support[i]))
        cost = f"{result.support[i]} atoms, {passes_text(float(result.passes[i]))}"
        proof = f"{result.distance[i]:.6g}, proved gap {result.gap[i]:.2g}, {cost}"
        print_mixture(console, called[i], grid, top, proof, STATUSES[result.codes[i]])
    if len(result) > SHOWN:
        console.print(f"[dim]... {len(result) - SHOWN:,} more: --out and --summary write all[/]")
    support = result.support.mean() if len(result) else 0.0
    cost = f"{support:.3g} atoms each on average, {seconds_text(result.seconds)}"
    console.print(f"[bold]{result.verdict()}[/], {cost}")


def list_mixtures(result: ManyResult, places: Columns, weight: str) -> dict[str, NDArray[Any]]:
    """Columns with one row per target and atom that has weight."""
    which, names = np.repeat(np.arange(len(result)), result.support), result.names
    labels = np.array([""] if names is None else names, np.str_)
    found = {name: column[which] for name, column in places.items()}
    found |= {"id": result.ids, "name": labels[result.ids if names is not None else 0 * result.ids]}
    return found | {weight: result.weights}


def _explain_file(
    rows: opt.NamedRows, file: str, *, exclude_self: bool, **options: Any
) -> tuple[Sequence[str], ManyResult]:
    """Names of all points of a file, one per row, and their mixtures.

    `exclude_self`: point i is atom i, which is not used.
    """
    atoms = rows.atoms
    if rows.table is not None and rows.table.ids is not None:
        rule = "None where rows of ATOMS are left out: write them to a file of their own first"
        require(options["out"] is None, "--save", rule, options["out"])
    points = _read_points(file, rows, skip=bool(options["skip"]))
    n, d = atoms.shape
    if points.ndim != 2 or points.shape[1] != d:
        got = points.shape[1] if points.ndim == 2 else f"shape {points.shape}"
        raise ValueError(f"`--targets` must have {d} columns, as the atoms. Got {got} in {file}.")
    m = len(points)
    if exclude_self and m != n:
        rule = f"come with {n:,} targets, row i being atom i"
        raise ValueError(f"`--exclude-self` must {rule}. Got {m:,} in {file}.")
    with opt.name_options(**{"out": "--save", "skip=True": "--skip"}):
        result = wh.minimize_many(
            points, atoms, exclude=np.arange(m)[:, None] if exclude_self else None, progress=True, **options
        )
    kept = rows.kept_names if exclude_self else None
    called = [str(i) for i in range(m)] if kept is None else kept
    return called, replace(rows.name_rows(result), names=rows.names)


def _read_points(file: str, rows: opt.NamedRows, *, skip: bool) -> NDArray[Any] | FileRows:
    """Points of a file: by the names of the columns that count, where both have names.

    A row with missing values is refused, or nan, which is passed over.
    """
    if rows.table is None or not file.lower().endswith(NAMED):
        return opt.read_points(file)
    source = open_table(file)
    counted = {column.name for column in rows.table.columns}
    if isinstance(source, ArrayTable) or not counted <= set(source.names):
        return opt.read_points(file)
    plan = EncodingPlan(missing=Missing.DROP, like=rows.table.columns, called="--targets")
    table = encode_source(source, plan)
    if not skip:
        opt.require_complete(table, "--targets", "pass over such rows with --skip, or fill them in the file")
    points = np.full((table.report.rows, table.shape[1]), np.nan, table.dtype)
    points[slice(None) if table.ids is None else table.ids] = table.take(np.arange(table.shape[0]))
    return points
