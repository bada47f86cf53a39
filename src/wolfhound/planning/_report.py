"""A plan in words, as a picture, and as plain values."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from wolfhound import plot, theory
from wolfhound.planning import costs
from wolfhound.planning._options import INDEXES, PASSES, POOL, RATIOS, Option, options
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
from wolfhound.theory import Regime
from wolfhound.threads import get_threads

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from wolfhound.planning._exponents import Exponent
    from wolfhound.planning.plan import Plan

_ORIGINS = {
    "given": "given",
    "measured": "typical of herding, by a sample",
    "isotropic": "that of random directions",
}

_CURVES = ("LshIndex", "ClusterIndex", "RandomSubset")
_LEVELS = ("Scan", "Int8Scan", POOL)


def text(plan: Plan) -> str:
    """Return the table of all oracles, the advice, and what the theorems say."""
    parts = [_title(plan), _table(plan), _advice(plan), _exponents(plan), [*_theorem(plan), *_basis(plan)]]
    return "\n\n".join("\n".join(part) for part in parts)


def _title(plan: Plan) -> list[str]:
    task = plan.task
    asked = "one at a time" if task.batch == 1 else f"{task.batch:,} at a time"
    wanted = ["exact, with proof"] if plan.chosen.proves else [f"gap ratio {plan.ratio:g}", "no proof"]
    wanted += ["from inside the hull"] if task.interior else []
    lines = [
        f"{plan.chosen.name}, for {_demanded(plan)}, {asked}: {', '.join(wanted)}",
        f"{plan.rows:,} x {plan.dim:,}{' in files' if task.in_files else ''}, "
        f"tau {plan.tau:.3g} ({_ORIGINS[plan.tau_from]})",
    ]
    if plan.facts is not None:
        seen = plan.facts
        lines.append(
            f"{seen.sample:,} atoms read: radius {seen.radius:.3g}, "
            f"90th over 10th percentile of norms {seen.spread:.2f}"
        )
    return lines


def _demanded(plan: Plan) -> str:
    if plan.demand.eps is None:
        return queries_text(plan.demand.queries)
    return f"a solve to a gap of {plan.demand.eps:.3g}"


# ---------------------------------------------------------------- what oracles cost


def _table(plan: Plan) -> list[str]:
    lines = [
        ("  oracle", "scored", "build", "per query", "queries", "in all", "memory", "ratio", "pays from", "")
    ]
    for each in plan.options:
        lines.append(
            (
                ("* " if each is plan.chosen else "  ") + each.name,
                rounded(each.scored),
                seconds_text(each.build_seconds),
                seconds_text(each.query_seconds),
                _finite(each.queries, rounded),
                _finite(each.total_seconds, seconds_text),
                bytes_text(each.nbytes),
                ratio_text(each.ratio),
                "-" if each.name == "Scan" else _finite(each.pays_from, rounded),
                each.objection and f"  {each.objection}",
            )
        )
    return table_lines(lines, left=(0, 9))


def _finite(value: float, said: Callable[[float], str]) -> str:
    return said(value) if math.isfinite(value) else "never"


def _advice(plan: Plan) -> list[str]:
    lines = [*_verdict(plan), *_trade(plan)]
    if plan.demand.eps is None:
        lines.append(_solve(plan))
    elif not plan.task.interior:
        lines.append("At the boundary of the hull a bare index stalls before that; `Tiered(index)` does not.")
    return lines


def _verdict(plan: Plan) -> Iterator[str]:
    best, scan, index = plan.chosen, plan.option("Scan"), plan.index
    if best.name in INDEXES:
        yield f"{best.name} pays here: {_cost(best)}, against {seconds_text(scan.total_seconds)} with Scan."
        yield f"Against Scan it pays from {about_text(best.pays_from)} on."
    elif index.objection:
        yield f"An index does not pay here: none reaches the ratio {plan.ratio:g}."
    else:
        total = seconds_text(best.total_seconds)
        yield f"An index does not pay here: {best.name} takes {total} in all, {index.name} {_cost(index)}."
        yield (
            f"Against Scan {index.name} would pay from {about_text(index.pays_from)} on."
            if math.isfinite(index.pays_from)
            else f"Against Scan {index.name} never pays."
        )


def _cost(each: Option) -> str:
    return f"{seconds_text(each.build_seconds)} to build and {seconds_text(each.total_seconds)} in all"


def _trade(plan: Plan) -> Iterator[str]:
    """What the ratio does to the total."""
    best, scan = plan.best, plan.option("Scan")
    yield (
        f"Without proof the ratio {plan.best_ratio:g} costs least: {best.name}, "
        f"{seconds_text(best.total_seconds)} in all (Scan {seconds_text(scan.total_seconds)})."
    )
    yield "Below it there are more queries, like 1/c^2; above it each is dearer."


def _solve(plan: Plan) -> str:
    """The way without any index."""
    return (
        f"If they are the steps of one solve, `minimize` needs no index: 1 to {PASSES} passes with proof, "
        f"at most {seconds_text(plan.option(POOL).total_seconds)}."
    )


# ---------------------------------------------------------------- what the theorems say


def _exponents(plan: Plan) -> list[str]:
    found = plan.exponents
    lines = [("  hashing", "rho", "candidates", "")]
    for regime, exponent in found.regimes.items():
        lines.append((f"  {regime.value}", *_cells(plan, exponent)))
    lines.append(("  as the paper prints it: WRONG, too low", *_cells(plan, found.printed)))
    space = ("  data-dependent hashing: space", *(f"n^{1.0 + place.rho_u:g}" for place in found.curve))
    spent = ("  time", *(f"n^{place.rho_q:.3f}" for place in found.curve))
    return [
        f"What the theorems say for c = {found.c:g}, tau = {found.tau:.3g}:",
        *table_lines(lines, left=(0, 3)),
        *table_lines([space, spent], left=()),
    ]


def _cells(plan: Plan, exponent: Exponent) -> tuple[str, str, str]:
    many = "more than all" if exponent.candidates >= plan.rows else ""
    return f"{exponent.rho:.3f}", rounded(exponent.candidates), many


def _theorem(plan: Plan) -> Iterator[str]:
    found = plan.exponents
    verdict = "is sublinear here" if found.sublinear else "gives nothing at this n"
    yield (
        f"The theorem {verdict}: n^{found.promised.rho:.3f} exp(sqrt(ln n)) is "
        f"{rounded(found.promised.candidates)}, of {plan.rows:,} atoms in all."
    )
    yield f"At c = {found.c:g}, near-linear space takes tau > {found.break_even:.3f} to score fewer than n."
    last = plan.demand.last_tau
    if last is not None and last < found.break_even:
        rho = theory.rho(found.c, last)
        yield (
            f"To end with this gap the paper's one scale for all queries takes tau <= {last:.2g}: "
            f"n^{rho:.6f}, not sublinear."
        )
    yield from _hashing(plan)


def _hashing(plan: Plan) -> Iterator[str]:
    shape = plan.hashing
    yield (
        f"LshIndex: {shape.tables} table of {shape.buckets:,} buckets, two codes of {shape.codes:,} values "
        f"each; a query tries about {shape.probes:,} buckets."
    )
    kappa = plan.copies
    asked = queries_text(int(plan.demand.at(plan.ratio)))
    yield (
        f"Copies for {asked} to succeed with probability {1.0 - plan.delta:g}: {kappa.fixed}; "
        f"verified answers need none."
    )
    if kappa.lattice is not None:
        yield (
            f"Copies for adaptive queries: {kappa.lattice:,} by a lattice, {kappa.union:,} by the paper's "
            f"union bound, {kappa.printed:,} as it prints."
        )


def _basis(plan: Plan) -> list[str]:
    basis = speeds_text(plan.task.speeds, get_threads())
    return [f"Made by {plan.chosen.recipe}", f"Ratios ~ are typical, not promised. {basis}"]


# ---------------------------------------------------------------- as a picture, as plain values


def picture(plan: Plan) -> Figure:
    """Draw candidates against n, and the total time against the ratio."""
    sizes = np.geomspace(1e3, max(1e10, 10.0 * plan.rows), 61).round()
    tasks = [replace(plan.task, n=int(n)) for n in sizes]
    scored = {
        f"{regime.name.lower().replace('_', '-')} (theorem)": np.array(
            [theory.candidates(task.n, exponent.rho) for task in tasks]
        )
        for regime, exponent in plan.exponents.regimes.items()
    }
    scored["LshIndex (model)"] = np.array([costs.lsh(task).scored for task in tasks])
    scored["random subset (model)"] = np.array([costs.subset(task).scored for task in tasks])
    grid = [options(replace(plan.task, ratio=c), plan.demand) for c in RATIOS]
    return plot.tradeoff(
        sizes=sizes,
        scored=scored,
        rows=plan.rows,
        ratios=np.array(RATIOS),
        seconds={
            name: np.array([_reached(each) for found in grid for each in found if each.name == name])
            for name in _CURVES
        },
        levels={name: plan.option(name).total_seconds for name in _LEVELS},
        ratio=plan.best_ratio,
        title=f"{plan.rows:,} x {plan.dim:,} atoms, c = {plan.ratio:g}, tau = {plan.tau:.2g}",
    )


def _reached(each: Option) -> float:
    return math.nan if each.objection else each.total_seconds


def document(plan: Plan) -> dict[str, Any]:
    """Return all numbers of a plan in dicts, lists, strings and numbers."""
    found = plan.exponents
    return {
        "rows": plan.rows,
        "dim": plan.dim,
        "ratio": plan.ratio,
        "tau": plan.tau,
        "tau_from": plan.tau_from,
        "delta": plan.delta,
        "interior": plan.task.interior,
        "batch": plan.task.batch,
        "demand": asdict(plan.demand),
        "facts": None if plan.facts is None else asdict(plan.facts),
        "pays": plan.pays,
        "chosen": plan.chosen.name,
        "advice": " ".join(_advice(plan)),
        "best": {"ratio": plan.best_ratio, **asdict(plan.best)},
        "options": [asdict(each) for each in plan.options],
        "exponents": {
            **{regime.name.lower(): found.regimes[regime]._asdict() for regime in Regime},
            "printed": {**found.printed._asdict(), "true": False},
        },
        "curve": [place._asdict() for place in found.curve],
        "break_even": found.break_even,
        "sublinear": found.sublinear,
        "copies": asdict(plan.copies),
        "hashing": plan.hashing._asdict(),
    }
