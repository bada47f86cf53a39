"""The oracles of `INDEXES`, weighed for a number of queries; in a table, in words."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import final

from wolfhound import plot
from wolfhound.machine import Calibration
from wolfhound.markup import Field, Grid, Picture
from wolfhound.oracles.indexes import INDEXES, Estimate, IndexKind, Make, Workload
from wolfhound.text import bytes_text, count_text, ratio_text, seconds_text, table_lines
from wolfhound.threads import get_threads


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """An oracle with what it is expected to cost.

    Attributes
    ----------
    name, title, recipe : str
        What `INDEXES` and tables call it, and how it is made by hand.
    ratio : float
        The gap ratio that is typical of it, not promised; 1 if it is exact.
    proves : bool
        Whether its bounds are finite.
    indexed : bool
        Whether something is built that answers without proof.
    scored : float
        Atoms that a query scores, as rows or codes.
    queries : float
        Queries that are needed with this ratio.
    build_seconds, query_seconds, total_seconds : float
        To build it, per query, and both for all queries, with what is spent on the answers.
    nbytes : int
        Memory beside the atoms.
    pays_from : float
        Queries, as an exact oracle would ask, from which on it costs less than a
        scan; of a plan for targets, targets from which on it costs less than
        `minimize_many` over the atoms; inf: never.
    objection : str
        Why it is not eligible; "" if it is.
    details : dict
        Further numbers of this oracle.
    """

    name: str
    title: str
    recipe: str
    ratio: float
    proves: bool
    indexed: bool
    scored: float
    queries: float
    build_seconds: float
    query_seconds: float
    total_seconds: float
    nbytes: int
    pays_from: float
    objection: str
    details: Mapping[str, int] = field(hash=False)
    make: Make = field(repr=False, compare=False)


def weigh(
    work: Workload,
    queries: Callable[[float], float],
    *,
    spent: float = 0.0,
    proof: bool = False,
    savable: bool = False,
) -> tuple[Option, ...]:
    """Weigh all oracles that have a cost model, the exact one that all others must beat first.

    Parameters
    ----------
    work
        What they are to do.
    queries
        How many, by the gap ratio of the answers.
    spent
        Seconds that the caller spends on each answer, whoever gives it.
    proof, savable
        Whether bounds are needed; whether it must be an index that can be saved.
    """
    models = [(kind, kind.expected(work)) for kind in INDEXES.values() if kind.expected is not None]
    scan, least = models[0][1], queries(1.0)
    found = []
    for kind, each in models:
        needed = queries(each.ratio)
        saved = scan.query + spent - needed / least * (each.query + spent)
        found.append(
            Option(
                name=kind.name,
                title=kind.title,
                recipe=each.recipe,
                ratio=each.ratio,
                proves=kind.proves,
                indexed=kind.passes > 0 and not kind.proves,
                scored=each.scored,
                queries=needed,
                build_seconds=each.build,
                query_seconds=each.query,
                total_seconds=each.build + needed * (each.query + spent),
                nbytes=math.ceil(each.nbytes),
                pays_from=max(1.0, math.ceil(each.build / saved)) if saved > 0.0 else math.inf,
                objection=_objection(kind, each, work, proof=proof, savable=savable),
                details=each.details,
                make=each.make,
            )
        )
    return tuple(found)


def _objection(kind: IndexKind, each: Estimate, work: Workload, *, proof: bool, savable: bool) -> str:
    if proof and not kind.proves:
        return "proves nothing"
    if savable and kind.load is None:
        return "nothing to save"
    # Rounding of the formulas must not decide.
    if each.ratio < work.ratio * (1.0 - 1e-9):
        return "ratio too low"
    return "too much memory" if each.nbytes > work.max_memory else ""


def cheapest(options: Sequence[Option]) -> Option:
    """The one with the least total time of those that will do; the first of equals."""
    return min((each for each in options if not each.objection), key=lambda each: each.total_seconds)


# ---------------------------------------------------------------- in words


def options_table(options: Sequence[Option], chosen: Option, *, without: Collection[str] = ()) -> list[str]:
    """Return a line per option, the chosen one marked, without the columns of these names."""
    grid = options_grid(options, chosen, without=without)
    rows = [("  " + grid.headings[0], *grid.headings[1:-1], "")]
    for each, (title, *cells, why) in zip(options, grid.rows, strict=True):
        mark = "*" if each is chosen else " "
        rows.append((f"{mark} {title}", *map(str, cells), f"  {why}" if why else ""))
    return table_lines(rows, left=grid.left)


def options_grid(options: Sequence[Option], chosen: Option, *, without: Collection[str] = ()) -> Grid:
    """Return a row per option, without the columns of these names."""
    scan = options[0]
    columns: dict[str, Callable[[Option], str]] = {
        "oracle": lambda each: each.title,
        "scored": lambda each: count_text(each.scored),
        "build": lambda each: seconds_text(each.build_seconds),
        "per query": lambda each: seconds_text(each.query_seconds),
        "queries": lambda each: _finite_text(each.queries, count_text),
        "in all": lambda each: _finite_text(each.total_seconds, seconds_text),
        "memory": lambda each: bytes_text(each.nbytes),
        "ratio": lambda each: ratio_text(each.ratio),
        "pays from": lambda each: "-" if each is scan else _finite_text(each.pays_from, count_text),
        "objection": lambda each: each.objection,
    }
    shown = {heading: cell for heading, cell in columns.items() if heading not in without}
    rows = [tuple(cell(each) for cell in shown.values()) for each in options]
    return Grid(f"What every oracle costs; {chosen.title} is chosen", tuple(shown), rows, (0, len(shown) - 1))


def _finite_text(value: float, text: Callable[[float], str]) -> str:
    return text(value) if math.isfinite(value) else "never"


def basis_lines(chosen: Option, speeds: Calibration) -> list[str]:
    """Say how the chosen oracle is made, and where the speeds are from."""
    basis, threads = "Speeds are fixed defaults; `wolfhound bench` measures this machine.", get_threads()
    if speeds.origin is not None:
        now = f" (now {threads})" if threads != speeds.threads else ""
        basis = f"Speeds: {speeds.origin.machine}, {speeds.origin.date[:10]}, threads {speeds.threads}{now}."
    return [f"Made by {chosen.recipe}", f"Ratios ~ are typical, not promised. {basis}"]


def list_tiles(chosen: Option) -> list[Field]:
    """The numbers to see first: what the chosen oracle takes."""
    tiles = {
        "oracle": chosen.title,
        "in all": seconds_text(chosen.total_seconds),
        "per query": seconds_text(chosen.query_seconds),
        "memory beside the atoms": bytes_text(chosen.nbytes),
    }
    return [Field("", tile=tile) for tile in tiles.items()]


def picture_totals(options: Sequence[Option], chosen: Option) -> list[Picture]:
    """What every oracle takes in all, as a picture."""
    draw = partial(
        plot.draw_totals,
        seconds={each.title: each.total_seconds for each in options},
        marked=chosen.title,
        faint=[each.title for each in options if each.objection],
    )
    said = f"{chosen.title} takes {seconds_text(chosen.total_seconds)} in all, building included."
    return [Picture("Time in all, by oracle", said, draw)]
