"""`choose_oracle`: which oracle is the cheapest for so many queries, and why.

Weighs what the entries of `INDEXES` say of themselves; knows none of them.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, cast, final

from wolfhound import plot
from wolfhound.atoms import as_atoms
from wolfhound.core import Atoms, AtomsLike, Oracle
from wolfhound.editing import in_files
from wolfhound.markup import Field, Grid, HasSummary, Picture, Summary
from wolfhound.oracles.costs import Estimate, Make, Speeds, Workload, check_speeds
from wolfhound.oracles.indexes import INDEXES, IndexKind
from wolfhound.text import (
    about_text,
    bytes_text,
    count_text,
    queries_text,
    ratio_text,
    seconds_text,
    table_lines,
)
from wolfhound.validate import count, flag, memory, require, within


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
        To build it, per query, and both for all queries.
    nbytes : int
        Memory beside the atoms.
    pays_from : float
        Queries, as an exact oracle would ask, from which on it costs less than a scan; inf: never.
    objection : str
        Why it is not eligible; "" if it is.
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
    make: Make = field(repr=False, compare=False)


def weigh(
    work: Workload, queries: Callable[[float], float], *, proof: bool = False, savable: bool = False
) -> tuple[Option, ...]:
    """Weigh all oracles that say what they cost, the exact one that all others must beat first.

    `queries` is how many there are by the gap ratio of the answers; savable: it must be an index.
    """
    models = [(kind, kind.expected(work)) for kind in INDEXES.values() if kind.expected is not None]
    scan, least = models[0][1], queries(1.0)
    found = []
    for kind, each in models:
        needed = queries(each.ratio)
        saved = scan.query - needed / least * each.query
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
                total_seconds=each.build + needed * each.query,
                nbytes=math.ceil(each.nbytes),
                pays_from=max(1.0, math.ceil(each.build / saved)) if saved > 0.0 else math.inf,
                objection=_object(kind, each, work, proof=proof, savable=savable),
                make=each.make,
            )
        )
    return tuple(found)


def _object(kind: IndexKind, each: Estimate, work: Workload, *, proof: bool, savable: bool) -> str:
    if proof and not kind.proves:
        return "proves nothing"
    if savable and kind.load is None:
        return "nothing to save"
    # Rounding of the formulas must not decide.
    if each.ratio < work.ratio * (1.0 - 1e-9):
        return "ratio too low"
    return "too much memory" if each.nbytes > work.max_memory else ""


def find_cheapest(options: Sequence[Option]) -> Option:
    """Return the one with the least total time of those that will do; the first of equals."""
    return min((each for each in options if not each.objection), key=lambda each: each.total_seconds)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Choice(HasSummary):
    """The cheapest oracle that will do, and all that were weighed.

    Its text explains it. Made by `choose_oracle`.

    Attributes
    ----------
    atoms : Atoms, optional
        None: a plan for atoms that are not there yet.
    chosen : Option
    options : tuple of Option
        All, eligible or not; the chosen is one of them, the first is a scan.
    queries : int
        As an exact oracle would ask.
    proof : bool
        Whether bounds were asked for.
    workload : Workload
        What was asked of every oracle, speeds included.
    """

    atoms: Atoms | None = field(compare=False)
    chosen: Option
    options: tuple[Option, ...]
    queries: int
    proof: bool
    workload: Workload

    def option(self, name: str) -> Option:
        """Return the option of this name."""
        found = {each.name: each for each in self.options}
        require(name in found, "name", f"one of {', '.join(found)}", name)
        return found[name]

    def build(self, name: str | None = None, *, seed: int = 0) -> Oracle:
        """Build the chosen oracle, or another one.

        Parameters
        ----------
        name
            One of `INDEXES`; it is set up for what was asked for.
        seed
            Of whatever is random in it.
        """
        if self.atoms is None:
            raise ValueError("`atoms` must be given to a plan whose oracle is to be built.")
        made = {each.name: each.make for each in self.options}
        name = self.chosen.name if name is None else name
        make = made[name] if name in made else INDEXES.find(name, "name").build
        require(make is not None, "name", "an index that is built from atoms", repr(name))
        return cast(Make, make)(self.atoms, seed=count(seed, "seed"))

    def summary(self) -> Summary:
        """Return the choice, all options, and what it rests on."""
        best, heading = self.chosen, self._heading()
        tiles = {
            "oracle": best.title,
            "in all": seconds_text(best.total_seconds),
            "per query": seconds_text(best.query_seconds),
            "memory beside the atoms": bytes_text(best.nbytes),
        }
        return Summary(
            heading,
            (("atoms", self._shape()), *(Field("", tile=tile) for tile in tiles.items())),
            (self._table(),),
            (*self._verdict(), *self._basis()),
            title="The oracle that pays",
            caption=heading,
            pictures=self._picture_totals,
        )

    def __repr__(self) -> str:
        """The choice, the tables, and what it rests on."""
        told = self.summary()
        parts = [[told.heading, *(text for _, text in told.lines())]]
        for grid in told.tables:
            rows = [tuple(map(str, row)) for row in (grid.headings, *grid.rows)]
            parts.append([f"{grid.caption}:", *table_lines(rows, left=grid.left)])
        return "\n\n".join("\n".join(part) for part in (*parts, told.notes))

    def _picture_totals(self) -> list[Picture]:
        best = self.chosen
        draw = partial(
            plot.draw_totals,
            seconds={each.title: each.total_seconds for each in self.options},
            marked=best.title,
            faint=[each.title for each in self.options if each.objection],
        )
        said = f"{best.title} takes {seconds_text(best.total_seconds)} in all, building included."
        return [Picture("Time in all, by oracle", said, draw)]

    def _heading(self) -> str:
        work = self.workload
        together = "one at a time" if work.batch == 1 else f"{work.batch:,} at a time"
        wish = ["the best atom"] if work.ratio == 1.0 or self.proof else [f"gap ratio {work.ratio:g}"]
        wish += ["with proof" if self.proof else "no proof needed"]
        wish += ["from inside the hull"] if work.interior else []
        wish += [f"at most {bytes_text(work.max_memory)}"] if math.isfinite(work.max_memory) else []
        return f"{self.chosen.title}, for {queries_text(self.queries)} {together}: {', '.join(wish)}"

    def _shape(self) -> str:
        work = self.workload
        return f"{work.n:,} x {work.d:,}{' in files' if work.in_files else ''}"

    def _table(self) -> Grid:
        scan = self.options[0]
        columns: dict[str, Callable[[Option], str]] = {
            "  oracle": lambda each: ("* " if each is self.chosen else "  ") + each.title,
            "scored": lambda each: count_text(each.scored),
            "build": lambda each: seconds_text(each.build_seconds),
            "per query": lambda each: seconds_text(each.query_seconds),
            "in all": lambda each: _finite_text(each.total_seconds, seconds_text),
            "memory": lambda each: bytes_text(each.nbytes),
            "ratio": lambda each: ratio_text(each.ratio),
            "pays from": lambda each: "-" if each is scan else _finite_text(each.pays_from, count_text),
            "": lambda each: each.objection,
        }
        rows: list[tuple[Any, ...]] = [
            tuple(cell(each) for cell in columns.values()) for each in self.options
        ]
        caption = f"What every oracle costs; {self.chosen.title} is chosen"
        return Grid(caption, tuple(columns), rows, (0, len(columns) - 1))

    def _verdict(self) -> list[str]:
        """Where the choice would turn."""
        best, scan = self.chosen, self.options[0]
        rivals = [each for each in self.options if not each.objection]
        if best is scan:
            later = [each for each in rivals if math.isfinite(each.pays_from)]
            if not later:
                return ["Nothing that will do pays, however many queries there are."]
            first = min(later, key=lambda each: each.pays_from)
            return [f"{first.title} would pay from {about_text(first.pays_from)} on."]
        if math.isinf(best.pays_from):
            return [f"{best.title} never pays against {scan.title}, which needs no building."]
        start = max(best.pays_from, *(_break_even(best, each) for each in rivals))
        alone = f" ({count_text(best.pays_from)} against {scan.title} alone)"
        return [f"{best.title} pays from {about_text(start)} on{alone if best.pays_from < start else ''}."]

    def _basis(self) -> list[str]:
        speeds = self.workload.speeds
        return [
            f"Made by {self.chosen.recipe}",
            "Ratios ~ are typical, not promised. Seconds are estimates, for a machine that reads "
            f"{1e-9 / speeds.byte:.2g} GB/s and makes {1e-9 / speeds.product:.2g} billion products a second.",
        ]


def choose_oracle(
    atoms: AtomsLike,
    *,
    queries: int = 1,
    ratio: float = 1.0,
    proof: bool = True,
    interior: bool = False,
    batch: int = 1,
    max_memory: float | str | None = None,
    savable: bool = False,
    speeds: Speeds | None = None,
) -> Choice:
    """Weigh the oracles for a number of queries, and say why one is the cheapest.

    Seconds are estimated from bytes, products and two speeds of the machine, for the one
    best atom of each query (k = 1), without the screening of a scan. The same speeds give
    the same choice.

    Parameters
    ----------
    atoms
        Atoms, an array or a path; only their shape is looked at.
    queries
        Queries to come, in all.
    ratio
        The gap ratio that is needed on average, in (0, 1]: (score - <q, x>) /
        (best score - <q, x>). 1: the best atom. What an index reaches is
        typical, not promised.
    proof
        Whether bounds are needed: only an exact oracle will do.
    interior
        Whether x stays well inside the hull, as in herding: there many atoms
        are nearly as good as the best. At the boundary few are.
    batch
        Queries that are asked together.
    max_memory
        Bytes that the oracle may take beside the atoms; default: any.
    savable
        Whether it must be an index that can be saved.
    speeds
        Default: measured, in about a second, once per process.

    Returns
    -------
    Choice
        ``.build()`` makes the oracle; the text explains the choice.

    Examples
    --------
    >>> import numpy as np
    >>> rows = np.zeros((100_000, 64), np.float32)
    >>> fixed = Speeds()
    >>> choose_oracle(rows, queries=1, speeds=fixed).chosen.name
    'scan'
    >>> choose_oracle(rows, queries=10_000, speeds=fixed).chosen.name
    'int8'
    >>> choose_oracle(rows, queries=10**7, ratio=0.9, proof=False, speeds=fixed).chosen.name
    'clusters'
    """
    rows = as_atoms(atoms)
    for name, value in {"proof": proof, "interior": interior, "savable": savable}.items():
        flag(value, name)
    n, d = rows.shape
    many = count(queries, "queries", low=1)
    work = Workload(
        n=n,
        d=d,
        row=d * rows.dtype.itemsize,
        in_files=in_files(rows),
        ratio=within(ratio, "ratio", "(0, 1]"),
        interior=interior,
        batch=count(batch, "batch", low=1),
        max_memory=math.inf if max_memory is None else memory(max_memory, "max_memory", strict=False),
        speeds=check_speeds(speeds),
    )
    found = weigh(work, lambda ratio: many, proof=proof, savable=savable)
    some = any(not each.objection for each in found)
    require(some, "max_memory", "enough for one of the oracles", f"{work.max_memory:g} bytes")
    best = find_cheapest(found)
    return Choice(atoms=rows, chosen=best, options=found, queries=many, proof=proof, workload=work)


def _finite_text(value: float, text: Callable[[float], str]) -> str:
    return text(value) if math.isfinite(value) else "never"


def _break_even(each: Option, rival: Option) -> float:
    """Queries from which on an option costs less than one that is built sooner."""
    later, saved = each.build_seconds - rival.build_seconds, rival.query_seconds - each.query_seconds
    return max(1.0, math.ceil(later / saved)) if later > 0.0 and saved > 0.0 else 1.0
