"""`plan`: what a run costs by theorem and by model, and whether an index pays.

Weighs the models of `costs` at every gap ratio; asks no clock.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

from wolfhound import plot
from wolfhound.atoms import as_atoms
from wolfhound.core import Atoms, AtomsLike
from wolfhound.machine import Calibration, as_calibration
from wolfhound.planning import _report as report
from wolfhound.planning import costs
from wolfhound.planning._exponents import Copies, Demand, Exponents
from wolfhound.planning._facts import Facts, facts, isotropic_tau
from wolfhound.planning._options import INDEXES, Hashing, Option, best_ratio, hashing, options
from wolfhound.planning.costs import Task
from wolfhound.validate import count, flag, number, require, within

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_LEAST = 3
"""Rows below which the theorem has no break-even."""

_QUERIES = 10_000


@final
@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Plan:
    """What oracles cost for a number of queries, and which of them pays.

    Its text explains it. Made by `plan`.

    Attributes
    ----------
    ratio, tau, delta : float
        c, the inner product on the unit sphere that the best atom has, and how
        often a run may fail.
    tau_from : str
        Where tau comes from: "given", "measured" or "isotropic".
    demand : Demand
        How many queries, by the ratio.
    facts : Facts, optional
        What a sample of the atoms shows.
    exponents : Exponents
        What the theorems say.
    copies : Copies
    options : tuple of Option
        What every oracle costs at this ratio; the last is `FullyCorrective`.
    chosen : Option
        The cheapest that will do.
    best : Option
        The cheapest that proves nothing, at the ratio that suits it best.
    best_ratio : float
        That ratio.
    task : Task
        What the models were told, speeds included.
    """

    ratio: float
    tau: float
    tau_from: str
    delta: float
    demand: Demand
    facts: Facts | None
    exponents: Exponents
    copies: Copies
    options: tuple[Option, ...]
    chosen: Option
    best: Option
    best_ratio: float
    task: Task = field(repr=False)

    @property
    def rows(self) -> int:
        """n."""
        return self.task.n

    @property
    def dim(self) -> int:
        """d."""
        return self.task.d

    @property
    def pays(self) -> bool:
        """Whether the cheapest is an index that answers without a pass."""
        return self.chosen.name in INDEXES

    @property
    def index(self) -> Option:
        """The cheapest index at this ratio, even if it does not pay."""
        indexes = [each for each in self.options if each.name in INDEXES]
        return min(indexes, key=lambda each: (bool(each.objection), each.total_seconds))

    @property
    def hashing(self) -> Hashing:
        """How `LshIndex` would hash."""
        return hashing(self.task)

    def option(self, name: str) -> Option:
        """Return the option of this name."""
        found = [each for each in self.options if each.name == name]
        require(bool(found), "name", f"one of {', '.join(each.name for each in self.options)}", name)
        return found[0]

    def plot(self, path: str | Path | None = None) -> Figure:
        """Draw candidates against n, and the total time against the ratio.

        Parameters
        ----------
        path
            Where to write the picture; its ending chooses the format.
        """
        figure = report.picture(self)
        if path is not None:
            plot.save(figure, path)
        return figure

    def to_dict(self) -> dict[str, Any]:
        """Return all numbers as plain values, as for JSON."""
        return report.document(self)

    def __repr__(self) -> str:
        """The table of all oracles, what pays and why, and what the theorems say."""
        return report.text(self)


def plan(
    atoms: AtomsLike | None = None,
    *,
    rows: int | None = None,
    dim: int | None = None,
    ratio: float | None = None,
    tau: float | None = None,
    delta: float = 0.1,
    queries: int | None = None,
    eps: float | None = None,
    smoothness: float | None = None,
    diameter: float | None = None,
    first: float | None = None,
    interior: bool = False,
    batch: int = 1,
    seed: int = 0,
    calibration: Calibration | None = None,
) -> Plan:
    """Say what a run costs with every oracle, by theorem and by model, and what pays.

    Of atoms, their shape and a sample of rows are looked at; without atoms
    `rows` and `dim` are enough. The same calibration gives the same plan.

    Parameters
    ----------
    atoms
        Atoms, an array or a path.
    rows, dim
        How many atoms, of which dimension, in float32, if there are none yet.
    ratio
        c in (0, 1], the gap ratio that answers are to have. Default: the one with
        the least total time. The steps of a run grow like 1/c^2, the cost of a
        query falls with c.
    tau
        The inner product that the best atom is promised to have with a query,
        both scaled to the unit sphere: ``<q, s - m> / (|q| max|s - m|)``. The higher,
        the less is scored, so default: what herding typically finds among a
        sample of the atoms; without atoms, what random directions find.
    delta
        How often a run may fail.
    queries
        Queries to come, if every answer is the best atom: picks of herding,
        states of a policy. Default 10,000.
    eps
        Instead of `queries`: the gap that one solve is to end with.
    smoothness, diameter, first
        beta, D and h_0 of that solve. Default: 1; as measured, or 1, so that eps is in
        units of beta D^2; and beta D^2 / 2, which one exact step reaches.
    interior
        Whether x stays well inside the hull, as in herding.
    batch
        Queries that are asked together.
    seed
        Of the sample.
    calibration
        Speeds; default: those that `wolfhound bench` saved, else fixed ones.

    Examples
    --------
    >>> fixed = Calibration()
    >>> few = plan(rows=10**6, dim=128, queries=10, calibration=fixed)
    >>> many = plan(rows=10**6, dim=128, queries=10**7, calibration=fixed)
    >>> few.pays, many.pays
    (False, True)
    >>> solve = plan(rows=10**6, dim=128, eps=1e-4, calibration=fixed)
    >>> solve.chosen.name, solve.option("Scan").queries
    ('FullyCorrective', 29998.0)
    """
    known, n, d, row = _size(atoms, rows, dim)
    within(delta, "delta", "(0, 1)")
    if ratio is not None:
        within(ratio, "ratio", "(0, 1]")
    if tau is not None:
        within(tau, "tau", "(0, 1)")
    seed = count(seed, "seed")
    shown = None if known is None else facts(known, seed=seed)
    demand = _demand(shown, queries, eps, {"smoothness": smoothness, "diameter": diameter, "first": first})
    task = Task(
        n=n,
        d=d,
        row=row,
        in_files=known is not None and costs.in_files(known),
        ratio=1.0,
        interior=flag(interior, "interior"),
        batch=count(batch, "batch", low=1),
        memory=math.inf,
        speeds=as_calibration(calibration),
    )
    best_c, best = best_ratio(task, demand)
    c = best_c if ratio is None else float(ratio)
    task = replace(task, ratio=c)
    weighed = options(task, demand)
    typical, origin = _tau(tau, shown, n, d)
    return Plan(
        ratio=c,
        tau=typical,
        tau_from=origin,
        delta=float(delta),
        demand=demand,
        facts=shown,
        exponents=Exponents.of(n, c=c, tau=typical),
        copies=Copies.of(n, d, demand, c=c, delta=delta),
        options=weighed,
        chosen=min((each for each in weighed if not each.objection), key=lambda each: each.total_seconds),
        best=best,
        best_ratio=best_c,
        task=task,
    )


def _size(atoms: AtomsLike | None, rows: int | None, dim: int | None) -> tuple[Atoms | None, int, int, int]:
    """Atoms, n, d, and the bytes of a row."""
    if atoms is not None:
        if rows is not None or dim is not None:
            raise ValueError("`rows` and `dim` must not be given with `atoms`, which have their own.")
        known = as_atoms(atoms)
        n, d = known.shape
        require(n >= _LEAST, "atoms", f"at least {_LEAST} rows", f"{n}")
        return known, n, d, d * known.dtype.itemsize
    if rows is None or dim is None:
        raise ValueError("`atoms` must be given, or both `rows` and `dim`.")
    n, d = count(rows, "rows", low=_LEAST), count(dim, "dim", low=1)
    return None, n, d, 4 * d


def _demand(
    shown: Facts | None, queries: int | None, eps: float | None, solve: dict[str, float | None]
) -> Demand:
    given = {name: _positive(value, name) for name, value in solve.items() if value is not None}
    if eps is None:
        for name, value in given.items():
            raise ValueError(f"`{name}` must be given with `eps` only. Got {value:g}.")
        return Demand(queries=_QUERIES if queries is None else count(queries, "queries", low=1))
    if queries is not None:
        raise ValueError(f"`queries` must not be given with `eps`, which decides how many. Got {queries}.")
    diameter = given.get("diameter", 1.0 if shown is None else 2.0 * shown.radius)
    curvature = given.get("smoothness", 1.0) * diameter**2
    return Demand(eps=_positive(eps, "eps"), curvature=curvature, first=given.get("first", 0.5 * curvature))


def _positive(value: float, name: str) -> float:
    out = number(value, name, low=0.0, strict=True)
    require(math.isfinite(out), name, "finite", value)
    return out


def _tau(tau: float | None, shown: Facts | None, n: int, d: int) -> tuple[float, str]:
    if tau is not None:
        return float(tau), "given"
    return (isotropic_tau(n, d), "isotropic") if shown is None else (shown.tau, "measured")
