"""`plan`: what a run costs by theorem and by model, and whether an index pays.

Weighs the cost models of `INDEXES` at every gap ratio; asks no clock.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from dataclasses import replace

from wolfhound.atoms import as_atoms
from wolfhound.core import Atoms, AtomsLike
from wolfhound.editing import in_files
from wolfhound.machine import Calibration, as_calibration
from wolfhound.oracles.indexes import Workload
from wolfhound.planning.aims import choose_aim
from wolfhound.planning.options import Option, cheapest, weigh
from wolfhound.planning.report import PASSES, RATIOS, Plan
from wolfhound.planning.sample import Facts, isotropic_tau, sample_facts
from wolfhound.planning.sharing import share, solve_seconds
from wolfhound.planning.theorems import Copies, Demand, Exponents
from wolfhound.validate import LARGEST, count, flag, number, require, within

_LEAST = 3  # atoms below which the theorem has no break-even

_QUERIES = 10_000

_CHUNK = 1024  # targets that `minimize_many` asks for at once

_POOL = 16_384  # atoms that `minimize` keeps


def plan(
    atoms: AtomsLike | None = None,
    *,
    n: int | None = None,
    d: int | None = None,
    ratio: float | None = None,
    tau: float | None = None,
    delta: float = 0.1,
    queries: int | None = None,
    picks: int | None = None,
    targets: int | None = None,
    atol: float | None = None,
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
    `n` and `d` are enough. The same calibration gives the same plan.

    Parameters
    ----------
    atoms
        Atoms, an array or a path.
    n, d
        How many atoms, of which dimension, in float32, if there are none yet.
    ratio
        c in (0, 1], the gap ratio that answers are to have. Default: the one with
        the least total time. The steps of a run grow like 1/c^2, the cost of a
        query falls with c.
    tau
        The inner product that the best atom is promised to have with a query,
        both scaled to the unit sphere: ``<q, s - m> / (|q| max|s - m|)``. Default for what
        the theorems say: what herding typically finds among a sample of the atoms; without
        atoms, what random directions find. For an index with a promise (`Plan.aim`): the
        one with the least time per query. The higher, the less is scored, but the more
        queries have no atom at tau and take a pass.
    delta
        How often a run may fail.
    queries
        Queries to come, if every answer is the best atom: states of a policy, steps.
        Default 10,000.
    picks
        Instead of `queries`: picks of herding. They come from inside the hull.
    targets
        Instead of `queries`: problems over the same atoms for `minimize_many`, to about 5 %,
        with an index that it asks for all of them together, or by itself.
    atol
        Instead of `queries`: the gap that one solve is to end with.
    smoothness, diameter, first
        beta, D and h_0 of that solve. Default: 1; as measured, or 1, so that atol is in
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
    >>> few = plan(n=10**6, d=128, queries=10, calibration=fixed)
    >>> many = plan(n=10**6, d=128, queries=10**7, calibration=fixed)
    >>> few.pays, many.pays
    (False, True)
    >>> plan(n=10**6, d=128, picks=1000, calibration=fixed).workload.interior
    True
    >>> solve = plan(n=10**6, d=128, atol=1e-4, calibration=fixed)
    >>> solve.chosen.title, solve.option("scan").queries
    ('FullyCorrective', 29998.0)
    """
    known, n, d, row = _size(atoms, n, d)
    within(delta, "delta", "(0, 1)")
    if ratio is not None:
        within(ratio, "ratio", "(0, 1]")
    if tau is not None:
        within(tau, "tau", "(0, 1)")
    seed = count(seed, "seed")
    facts = None if known is None else sample_facts(known, seed=seed)
    counts = {"queries": queries, "picks": picks, "targets": targets}
    demand = _demand(facts, counts, atol, {"smoothness": smoothness, "diameter": diameter, "first": first})
    work = Workload(
        n=n,
        d=d,
        row=row,
        in_files=known is not None and in_files(known),
        interior=flag(interior, "interior") or picks is not None,
        batch=count(batch, "batch", low=1) if targets is None else min(demand.targets or 1, _CHUNK),
        max_memory=math.inf,
        speeds=as_calibration(calibration),
    )
    best_ratio, best = _best_ratio(work, demand)
    work = replace(work, ratio=best_ratio if ratio is None else float(ratio))
    options = weigh(work, demand.at, spent=solve_seconds(work, demand))
    if demand.targets is None:
        options = (*options, _pool(options[0], work, demand))
    else:
        options = share(options, work, demand)
    typical, origin = _tau(tau, facts, n, d)
    passing = min(each.query_seconds for each in options if each.proves)
    return Plan(
        aim=choose_aim(work, typical, delta=delta, tau=tau, passing=passing),
        tau=typical,
        tau_from=origin,
        delta=float(delta),
        demand=demand,
        facts=facts,
        exponents=Exponents.of(n, ratio=work.ratio, tau=typical),
        copies=Copies.of(n, d, demand, ratio=work.ratio, delta=delta),
        options=options,
        chosen=cheapest(options),
        best=best,
        best_ratio=best_ratio,
        workload=work,
    )


def _best_ratio(work: Workload, demand: Demand) -> tuple[float, Option]:
    """Return the ratio, and the oracle that proves nothing, with the least total time.

    Where several ratios cost the same, the highest.
    """
    found = [
        (ratio, each)
        for ratio in reversed(RATIOS)
        for each in weigh(replace(work, ratio=ratio), demand.at, spent=solve_seconds(work, demand))
        if not each.proves and not each.objection
    ]
    return min(found, key=lambda pair: pair[1].total_seconds)


def _pool(scan: Option, work: Workload, demand: Demand) -> Option:
    """`minimize`: a pool of atoms, corrected in full between passes, asks but a few times."""
    return replace(
        scan,
        name="fully-corrective",
        title="FullyCorrective",
        recipe="minimize(objective, atoms)",
        queries=float(PASSES),
        total_seconds=PASSES * scan.query_seconds,
        nbytes=scan.nbytes + min(work.n, _POOL) * work.row,
        pays_from=float(PASSES),
        objection="" if demand.atol is not None else "for one solve",
    )


def _size(atoms: AtomsLike | None, n: int | None, d: int | None) -> tuple[Atoms | None, int, int, int]:
    """Atoms, n, d, and the bytes of a row."""
    if atoms is not None:
        if n is not None or d is not None:
            raise ValueError("`n` and `d` must not be given with `atoms`, which have their own.")
        known = as_atoms(atoms)
        n, d = known.shape
        require(n >= _LEAST, "atoms", f"at least {_LEAST} rows", f"{n}")
        return known, n, d, d * known.dtype.itemsize
    if n is None or d is None:
        raise ValueError("`atoms` must be given, or both `n` and `d`.")
    n, d = _count(n, "n", low=_LEAST), _count(d, "d", low=1)
    return None, n, d, 4 * d


def _demand(
    facts: Facts | None, counts: dict[str, int | None], atol: float | None, solve: dict[str, float | None]
) -> Demand:
    asked = {name: _count(value, name, low=1) for name, value in counts.items() if value is not None}
    for name in list(asked)[1:]:
        raise ValueError(f"`{name}` must not be given with `{next(iter(asked))}`. Got {asked[name]}.")
    given = {name: _positive(value, name) for name, value in solve.items() if value is not None}
    if atol is None:
        for name, value in given.items():
            raise ValueError(f"`{name}` must be given with `atol` only. Got {value:g}.")
        return Demand(**({"queries": _QUERIES} | asked))
    for name, many in asked.items():
        raise ValueError(f"`{name}` must not be given with `atol`, which decides how many. Got {many}.")
    diameter = given.get("diameter", 1.0 if facts is None else 2.0 * facts.radius)
    curvature = given.get("smoothness", 1.0) * diameter * diameter
    blamed = next((name for name in ("smoothness", "diameter") if name in given), "atoms")
    rule = "such that smoothness * diameter^2 is between 1e-150 and 1e150; scale the problem"
    require(1e-150 <= curvature <= LARGEST, blamed, rule, f"{curvature:g} of it")
    first = given.get("first", 0.5 * curvature)
    return Demand(atol=_positive(atol, "atol"), curvature=curvature, first=first)


def _count(value: int, name: str, *, low: int) -> int:
    """Return a number of things, of which no machine holds 2^62."""
    out = count(value, name, low=low)
    require(out <= 2**62, name, "an integer <= 2^62", f"one of {out.bit_length()} bits")
    return out


def _positive(value: float, name: str) -> float:
    out = number(value, name, low=0.0, strict=True)
    require(math.isfinite(out), name, "finite", value)
    return out


def _tau(tau: float | None, facts: Facts | None, n: int, d: int) -> tuple[float, str]:
    if tau is not None:
        return float(tau), "given"
    return (isotropic_tau(n, d), "isotropic") if facts is None else (facts.tau, "measured")
