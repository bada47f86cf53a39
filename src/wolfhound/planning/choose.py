"""`choose_oracle`: which oracle is the cheapest for so many queries.

Weighs the cost models of `INDEXES` against each other; asks no clock.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast, final

from wolfhound.atoms import as_atoms
from wolfhound.core import Atoms, AtomsLike, Oracle
from wolfhound.machine import Calibration, as_calibration
from wolfhound.markup import HasSummary, Summary
from wolfhound.oracles.indexes import INDEXES, Make, Workload, in_files
from wolfhound.planning.options import (
    Option,
    basis_lines,
    cheapest,
    list_tiles,
    options_grid,
    options_table,
    picture_totals,
    weigh,
)
from wolfhound.text import about_text, bytes_text, count_text, queries_text
from wolfhound.validate import count, flag, memory, require, within

if TYPE_CHECKING:
    pass

_WITHOUT = ("scored", "queries")


@final
@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Choice(HasSummary):
    """The cheapest oracle that will do, and all that were weighed.

    Its text explains it. Made by `choose_oracle`.

    Attributes
    ----------
    atoms : Atoms
    chosen : Option
    options : tuple of Option
        All, eligible or not; the chosen is one of them, the first is a scan.
    queries : int
    proof : bool
        What was asked for.
    workload : Workload
        What the cost models were told, speeds included.
    """

    atoms: Atoms = field(compare=False)
    chosen: Option
    options: tuple[Option, ...]
    queries: int
    proof: bool
    workload: Workload

    def build(self, name: str | None = None, *, seed: int = 0) -> Oracle:
        """Build the chosen oracle, or another one.

        Parameters
        ----------
        name
            One of `INDEXES`; it is set up for what was asked for.
        seed
            Of whatever is random in it.
        """
        made = {each.name: each.make for each in self.options}
        name = self.chosen.name if name is None else name
        make = made[name] if name in made else INDEXES.find(name, "name").build
        require(make is not None, "name", "an index that is built from atoms", repr(name))
        return cast(Make, make)(self.atoms, seed=count(seed, "seed"))

    def __repr__(self) -> str:
        """The choice, the table of all options, and what it rests on."""
        table = options_table(self.options, self.chosen, without=_WITHOUT)
        basis = basis_lines(self.chosen, self.workload.speeds)
        return "\n".join([*self._title(), "", *table, "", self._verdict(), *basis])

    def summary(self) -> Summary:
        """Return the choice, all options, and what it rests on."""
        title, shape = self._title()
        grid = options_grid(self.options, self.chosen, without=_WITHOUT)
        notes = (self._verdict(), *basis_lines(self.chosen, self.workload.speeds))
        return Summary(
            title,
            (("atoms", shape), *list_tiles(self.chosen)),
            (grid,),
            notes,
            title="The oracle that pays",
            caption=title,
            pictures=lambda: picture_totals(self.options, self.chosen),
        )

    def _title(self) -> list[str]:
        work = self.workload
        where = " in files" if work.in_files else ""
        together = "one at a time" if work.batch == 1 else f"{work.batch:,} at a time"
        wish = ["the best atom"] if work.ratio == 1.0 or self.proof else [f"gap ratio {work.ratio:g}"]
        wish += ["with proof" if self.proof else "no proof needed"]
        wish += ["from inside the hull"] if work.interior else []
        wish += [f"at most {bytes_text(work.max_memory)}"] if math.isfinite(work.max_memory) else []
        return [
            f"{self.chosen.title}, for {queries_text(self.queries)} {together}: {', '.join(wish)}",
            f"{work.n:,} x {work.d:,} {self.atoms.dtype}{where}",
        ]

    def _verdict(self) -> str:
        """Where the choice would turn."""
        best, scan = self.chosen, self.options[0]
        rivals = [each for each in self.options if not each.objection]
        if best is scan:
            later = [each for each in rivals if math.isfinite(each.pays_from)]
            if not later:
                return "Nothing that will do pays, however many queries there are."
            first = min(later, key=lambda each: each.pays_from)
            return f"{first.title} would pay from {about_text(first.pays_from)} on."
        if math.isinf(best.pays_from):
            return f"{best.title} never pays against {scan.title}, which needs no building."
        start = max(best.pays_from, *(_break_even(best, each) for each in rivals))
        alone = f" ({count_text(best.pays_from)} against {scan.title} alone)"
        return f"{best.title} pays from {about_text(start)} on{alone if best.pays_from < start else ''}."


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
    calibration: Calibration | None = None,
) -> Choice:
    """Weigh the oracles for a number of queries, and say why one is the cheapest.

    Seconds are estimated from bytes and the speeds of a calibration, for the one
    best atom of each query (k = 1), without the screening of a scan. The same
    calibration gives the same choice.

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
    calibration
        Speeds; default: those that `wolfhound bench` saved, else fixed ones.

    Returns
    -------
    Choice
        ``.build()`` makes the oracle; the text explains the choice.

    Examples
    --------
    >>> import numpy as np
    >>> rows = np.zeros((100_000, 64), np.float32)
    >>> fixed = Calibration()
    >>> choose_oracle(rows, queries=1, calibration=fixed).chosen.name
    'scan'
    >>> choose_oracle(rows, queries=10_000, calibration=fixed).chosen.name
    'int8'
    >>> choose_oracle(rows, queries=10**7, ratio=0.9, proof=False, calibration=fixed).chosen.name
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
        speeds=as_calibration(calibration),
    )
    found = weigh(work, lambda ratio: many, proof=proof, savable=savable)
    some = any(not each.objection for each in found)
    require(some, "max_memory", "enough for one of the oracles", f"{work.max_memory:g} bytes")
    return Choice(atoms=rows, chosen=cheapest(found), options=found, queries=many, proof=proof, workload=work)


def _break_even(each: Option, rival: Option) -> float:
    """Queries from which on an option costs less than one that is built sooner."""
    later, saved = each.build_seconds - rival.build_seconds, rival.query_seconds - each.query_seconds
    return max(1.0, math.ceil(later / saved)) if later > 0.0 and saved > 0.0 else 1.0
