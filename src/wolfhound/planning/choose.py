"""`choose_oracle`: which oracle is the cheapest for so many queries.

Weighs the models of `costs` against each other; asks no clock.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import final

from wolfhound.atoms import as_atoms
from wolfhound.core import Atoms, AtomsLike, Oracle
from wolfhound.machine import Calibration, as_calibration
from wolfhound.planning.costs import MODELS, Estimate, Make, Task, in_files
from wolfhound.planning.text import (
    about_text,
    bytes_text,
    queries_text,
    ratio_text,
    rounded,
    seconds_text,
    speeds_text,
    table_lines,
)
from wolfhound.threads import get_threads
from wolfhound.validate import count, flag, number, require, within

_EXACT = "Scan"
"""What every other oracle must beat."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """An oracle with what it is expected to cost.

    Attributes
    ----------
    name, recipe : str
        What it is called, and how it is made by hand.
    build_seconds, query_seconds, total_seconds : float
        To build it, per query, and both for all queries.
    nbytes : int
        Memory beside the atoms.
    ratio : float
        The gap ratio that is typical of it, not promised; 1 if it is exact.
    proves : bool
        Whether its bounds are finite.
    pays_from : float
        Queries from which on it costs less than `Scan`; inf: never.
    objection : str
        Why it is not eligible; "" if it is.
    """

    name: str
    recipe: str
    build_seconds: float
    query_seconds: float
    total_seconds: float
    nbytes: int
    ratio: float
    proves: bool
    pays_from: float
    objection: str
    make: Make = field(repr=False, compare=False)


@final
@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Choice:
    """The cheapest oracle that will do, and all that were weighed.

    Its text explains it. Made by `choose_oracle`.

    Attributes
    ----------
    chosen : Candidate
    candidates : tuple of Candidate
        All, eligible or not; the chosen is one of them.
    queries, batch : int
    ratio : float
    proof, interior : bool
    memory : float
        What was asked for.
    calibration : Calibration
        The speeds that were used.
    """

    atoms: Atoms = field(compare=False)
    chosen: Candidate
    candidates: tuple[Candidate, ...]
    queries: int
    batch: int
    ratio: float
    proof: bool
    interior: bool
    memory: float
    calibration: Calibration

    def build(self, *, seed: int = 0) -> Oracle:
        """Build the chosen oracle.

        Parameters
        ----------
        seed
            Of whatever is random in it.
        """
        return self.chosen.make(self.atoms, count(seed, "seed"))

    def __repr__(self) -> str:
        """The choice, the table of all candidates, and what it rests on."""
        return "\n".join([*self._title(), "", *self._table(), "", self._verdict(), *self._basis()])

    def _title(self) -> list[str]:
        n, d = self.atoms.shape
        where = " in files" if in_files(self.atoms) else ""
        asked = "one at a time" if self.batch == 1 else f"{self.batch:,} at a time"
        wanted = ["the best atom"] if self.ratio == 1.0 or self.proof else [f"gap ratio {self.ratio:g}"]
        wanted += ["with proof" if self.proof else "no proof needed"]
        wanted += ["from inside the hull"] if self.interior else []
        wanted += [f"at most {bytes_text(self.memory)}"] if math.isfinite(self.memory) else []
        return [
            f"{self.chosen.name}, for {queries_text(self.queries)} {asked}: {', '.join(wanted)}",
            f"{n:,} x {d:,} {self.atoms.dtype}{where}",
        ]

    def _table(self) -> list[str]:
        lines = [("  oracle", "build", "per query", "in all", "memory", "ratio", "pays from", "")]
        for each in self.candidates:
            lines.append(
                (
                    ("* " if each is self.chosen else "  ") + each.name,
                    seconds_text(each.build_seconds),
                    seconds_text(each.query_seconds),
                    seconds_text(each.total_seconds),
                    bytes_text(each.nbytes),
                    ratio_text(each.ratio),
                    _from(each),
                    each.objection and f"  {each.objection}",
                )
            )
        return table_lines(lines, left=(0, 7))

    def _verdict(self) -> str:
        """Where the choice would turn."""
        best, rivals = self.chosen, [each for each in self.candidates if not each.objection]
        if best.name == _EXACT:
            later = [each for each in rivals if math.isfinite(each.pays_from)]
            if not later:
                return "Nothing that will do pays, however many queries there are."
            first = min(later, key=lambda each: each.pays_from)
            return f"{first.name} would pay from {about_text(first.pays_from)} on."
        if math.isinf(best.pays_from):
            return f"{best.name} never pays against Scan, which needs no building."
        start = max(best.pays_from, *(_even(best, each) for each in rivals))
        against = f" ({rounded(best.pays_from)} against Scan alone)" if best.pays_from < start else ""
        return f"{best.name} pays from {about_text(start)} on{against}."

    def _basis(self) -> list[str]:
        basis = speeds_text(self.calibration, get_threads())
        return [f"Made by {self.chosen.recipe}", f"Ratios ~ are typical, not promised. {basis}"]


def choose_oracle(
    atoms: AtomsLike,
    *,
    queries: int = 1,
    ratio: float = 1.0,
    proof: bool = True,
    interior: bool = False,
    batch: int = 1,
    memory: float | None = None,
    savable: bool = False,
    calibration: Calibration | None = None,
) -> Choice:
    """Weigh the oracles for a number of queries, and say why one is the cheapest.

    Seconds are estimated from bytes and the speeds of a calibration, for the one
    best atom of each query (k = 1), without the screening of `Scan`. The same
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
        Whether bounds are needed: only `Scan` and `Int8Scan` will do.
    interior
        Whether x stays well inside the hull, as in herding: there many atoms
        are nearly as good as the best. At the boundary few are.
    batch
        Queries that are asked together.
    memory
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
    'Scan'
    >>> choose_oracle(rows, queries=10_000, calibration=fixed).chosen.name
    'Int8Scan'
    >>> choose_oracle(rows, queries=10**7, ratio=0.9, proof=False, calibration=fixed).chosen.name
    'ClusterIndex'
    """
    rows = as_atoms(atoms)
    asked, together = count(queries, "queries", low=1), count(batch, "batch", low=1)
    wanted = within(ratio, "ratio", "(0, 1]")
    for name, value in {"proof": proof, "interior": interior, "savable": savable}.items():
        flag(value, name)
    limit = math.inf if memory is None else number(memory, "memory", low=0.0)
    speeds = as_calibration(calibration)
    n, d = rows.shape
    task = Task(
        n=n,
        d=d,
        row=d * rows.dtype.itemsize,
        in_files=in_files(rows),
        ratio=wanted,
        interior=interior,
        batch=together,
        memory=limit,
        speeds=speeds,
    )
    exact, *others = (model(task) for model in MODELS)
    found = tuple(
        _weighed(each, exact, asked, _objection(each, task, proof=proof, savable=savable))
        for each in (exact, *others)
    )
    eligible = [each for each in found if not each.objection]
    require(bool(eligible), "memory", "enough for one of the oracles", f"{limit:g} bytes")
    return Choice(
        atoms=rows,
        chosen=min(eligible, key=lambda each: each.total_seconds),
        candidates=found,
        queries=asked,
        batch=together,
        ratio=wanted,
        proof=proof,
        interior=interior,
        memory=limit,
        calibration=speeds,
    )


def _objection(each: Estimate, task: Task, *, proof: bool, savable: bool) -> str:
    if proof and not each.proves:
        return "proves nothing"
    if savable and not each.savable:
        return "nothing to save"
    # Rounding of the formulas must not decide.
    if each.ratio < task.ratio * (1.0 - 1e-9):
        return "ratio too low"
    return "too much memory" if each.nbytes > task.memory else ""


def _even(each: Candidate, rival: Candidate) -> float:
    """Queries from which on a candidate costs less than one that is built sooner."""
    later, saved = each.build_seconds - rival.build_seconds, rival.query_seconds - each.query_seconds
    return max(1.0, math.ceil(later / saved)) if later > 0.0 and saved > 0.0 else 1.0


def _weighed(each: Estimate, exact: Estimate, queries: int, objection: str) -> Candidate:
    saved = exact.query - each.query
    return Candidate(
        name=each.name,
        recipe=each.recipe,
        build_seconds=each.build,
        query_seconds=each.query,
        total_seconds=each.build + queries * each.query,
        nbytes=math.ceil(each.nbytes),
        ratio=each.ratio,
        proves=each.proves,
        pays_from=max(1.0, math.ceil(each.build / saved)) if saved > 0.0 else math.inf,
        objection=objection,
        make=each.make,
    )


# ---------------------------------------------------------------- text


def _from(each: Candidate) -> str:
    if each.name == _EXACT:
        return "-"
    return rounded(each.pays_from) if math.isfinite(each.pays_from) else "never"
