"""`Plan`: what was planned, in words, as a picture, and as plain values."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, fields, replace
from os import PathLike
from typing import TYPE_CHECKING, Any, final

import numpy as np

from wolfhound import plot, theory
from wolfhound.markup import Details, HasSummary, Summary
from wolfhound.oracles.indexes import INDEXES, Workload
from wolfhound.planning.aims import TauAim
from wolfhound.planning.options import (
    Option,
    basis_lines,
    list_tiles,
    options_grid,
    options_table,
    picture_totals,
    weigh,
)
from wolfhound.planning.sample import Facts
from wolfhound.planning.sharing import solve_seconds
from wolfhound.planning.theorems import PROVED, UNPROVED, Copies, Demand, Exponent, Exponents
from wolfhound.text import about_text, count_text, queries_text, seconds_text, table_lines
from wolfhound.theory import Regime
from wolfhound.validate import require

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PASSES = 4
"""Passes that `minimize` needs at most; benchmarks/claim_passes.py measures them."""

RATIOS = tuple(c / 100 for c in range(50, 100))
"""Gap ratios that are tried."""

_ORIGINS = {
    "given": "given",
    "measured": "typical of herding, by a sample",
    "isotropic": "that of random directions",
}


@final
@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Plan(HasSummary):
    """What oracles cost for a number of queries, and which of them pays.

    Its text explains it. Made by `plan`.

    Attributes
    ----------
    tau, delta : float
        The inner product on the unit sphere that the best atom has, and how often a
        run may fail.
    tau_from : str
        Where tau comes from: "given", "measured" or "isotropic".
    demand : Demand
        How many queries, by the ratio.
    facts : Facts, optional
        What a sample of the atoms shows.
    exponents : Exponents
        What the theorems say.
    copies : Copies
    aim : TauAim, optional
        An index with a promise at the tau with the least time per query.
    options : tuple of Option
        What every oracle costs at this ratio: the first is a scan, the last `minimize`, or
        `minimize_many` if the plan is for targets.
    chosen : Option
        The cheapest that will do.
    best : Option
        The cheapest that proves nothing, at the ratio that suits it best.
    best_ratio : float
        That ratio.
    workload : Workload
        What the cost models were told, speeds included.
    """

    tau: float
    tau_from: str
    delta: float
    demand: Demand
    facts: Facts | None
    exponents: Exponents
    copies: Copies
    aim: TauAim | None
    options: tuple[Option, ...]
    chosen: Option
    best: Option
    best_ratio: float
    workload: Workload = field(repr=False)

    @property
    def ratio(self) -> float:
        """The gap ratio that answers are to have."""
        return self.workload.ratio

    @property
    def pays(self) -> bool:
        """Whether the cheapest is an index that answers without a pass."""
        return self.chosen.indexed

    @property
    def rival(self) -> Option:
        """What an index must beat: a scan, or `minimize_many` over the atoms if the plan is for targets."""
        return self.options[0] if self.demand.targets is None else self.options[-1]

    @property
    def index(self) -> Option:
        """The cheapest index at this ratio, even if it does not pay."""
        indexes = [each for each in self.options if each.indexed]
        return min(indexes, key=lambda each: (bool(each.objection), each.total_seconds))

    def option(self, name: str) -> Option:
        """Return the option of this name."""
        found = {each.name: each for each in self.options}
        require(name in found, "name", f"one of {', '.join(found)}", name)
        return found[name]

    def plot(self, path: str | PathLike[str] | None = None, *, title: str | None = None) -> Figure:
        """Draw candidates against n, and the total time against the ratio.

        Parameters
        ----------
        path
            Where to write the picture; its ending chooses the format.
        title
            Heading; by default the atoms and the ratio.
        """
        figure = _draw(self, title)
        return plot.keep(figure, path)

    def to_dict(self) -> dict[str, Any]:
        """Return all numbers in dicts, lists, strings and numbers, as for JSON."""
        work, found = self.workload, self.exponents
        return {
            **_pick(work, "n", "d", "ratio"),
            **_pick(self, "tau", "tau_from", "delta"),
            **_pick(work, "interior", "batch"),
            "demand": asdict(self.demand),
            "facts": None if self.facts is None else asdict(self.facts),
            "pays": self.pays,
            "chosen": self.chosen.name,
            "advice": " ".join(_advice(self)),
            "aim": None if self.aim is None else asdict(self.aim),
            "best_ratio": self.best_ratio,
            "best": _pick(self.best, *_SHOWN),
            "options": [_pick(each, *_SHOWN) for each in self.options],
            "exponents": {
                **{regime.name.lower(): found.regimes[regime]._asdict() for regime in Regime},
                "printed": {**found.printed._asdict(), "true": False},
            },
            "curve": [place._asdict() for place in found.curve],
            "break_even": found.break_even,
            "sublinear": found.sublinear,
            "copies": asdict(self.copies),
        }

    def summary(self) -> Summary:
        """Return the table of all oracles, and what pays and why."""
        title, *rest = _title(self)
        grid = options_grid(self.options, self.chosen)
        notes = (*_advice(self), *basis_lines(self.chosen, self.workload.speeds))
        return Summary(
            title,
            (*(("of", line) for line in rest), *list_tiles(self.chosen)),
            (grid,),
            notes,
            title="What a run would cost",
            pictures=lambda: picture_totals(self.options, self.chosen),
            details=lambda: Details(notes=tuple(self.theorems())),
        )

    def theorems(self) -> list[str]:
        """What the theorems say, in sentences."""
        return [*_theorem(self), *_hashing(self)]

    def __repr__(self) -> str:
        """The table of all oracles, what pays and why, and what the theorems say."""
        parts = [
            _title(self),
            options_table(self.options, self.chosen),
            _advice(self),
            _exponents(self),
            [*self.theorems(), *basis_lines(self.chosen, self.workload.speeds)],
        ]
        return "\n\n".join("\n".join(part) for part in parts)


_SHOWN = tuple(part.name for part in fields(Option) if part.name != "make")


def _pick(record: object, *names: str) -> dict[str, Any]:
    return {name: getattr(record, name) for name in names}


# ---------------------------------------------------------------- what oracles cost


def _title(plan: Plan) -> list[str]:
    work, demand, facts = plan.workload, plan.demand, plan.facts
    together = "one at a time" if work.batch == 1 else f"{work.batch:,} at a time"
    wish = ["exact, with proof"] if plan.chosen.proves else [f"gap ratio {plan.ratio:g}", "no proof"]
    wish += ["from inside the hull"] if work.interior else []
    lines = [
        f"{plan.chosen.title}, for {_purpose(demand)}, {together}: {', '.join(wish)}",
        f"{work.n:,} x {work.d:,}{' in files' if work.in_files else ''}, "
        f"tau {plan.tau:.3g} ({_ORIGINS[plan.tau_from]})",
    ]
    if facts is not None:
        lines.append(
            f"{facts.sample:,} atoms read: radius {facts.radius:.3g}, "
            f"90th over 10th percentile of norms {facts.spread:.2f}"
        )
    return lines


def _purpose(demand: Demand) -> str:
    if demand.picks is not None:
        return f"{demand.picks:,} picks of herding"
    if demand.targets is not None:
        return f"{demand.targets:,} targets over the same atoms"
    return queries_text(demand.queries) if demand.atol is None else f"a solve to a gap of {demand.atol:.3g}"


def _advice(plan: Plan) -> list[str]:
    lines = [*_verdict(plan), *_trade(plan)]
    if plan.demand.targets is not None:
        lines += _sharing(plan)
    elif plan.demand.picks is not None:
        lines.append("Fresh random atoms (RandomSubset) have no blind spot and often serve herding as well.")
    elif plan.demand.atol is None:
        lines.append(
            "If they are the steps of one solve, `minimize` needs no index: "
            f"1 to {PASSES} passes with proof, at most {seconds_text(plan.options[-1].total_seconds)}."
        )
    elif not plan.workload.interior:
        lines.append("At the boundary of the hull a bare index stalls before that; `Tiered(index)` does not.")
    return lines


def _verdict(plan: Plan) -> Iterator[str]:
    best, rival, index = plan.chosen, plan.rival, plan.index
    if plan.pays:
        total = seconds_text(rival.total_seconds)
        yield f"{best.title} pays here: {_cost(best)}, against {total} with {rival.title}."
    elif index.objection:
        yield f"An index does not pay here: none reaches the ratio {plan.ratio:g}."
        return
    else:
        total = seconds_text(best.total_seconds)
        yield f"An index does not pay here: {best.title} takes {total} in all, {index.title} {_cost(index)}."
    if plan.demand.targets is None:
        verb = "it pays" if plan.pays else f"{index.title} would pay"
        start = f"{verb} from {about_text(index.pays_from)} on"
        never = f"{index.title} never pays"
        yield f"Against {rival.title} {start if math.isfinite(index.pays_from) else never}."


def _sharing(plan: Plan) -> Iterator[str]:
    """Where one index for many targets pays."""
    index, rival = plan.index, plan.rival
    start = f"costs less from about {count_text(index.pays_from)} targets on"
    yield (
        f"By itself `minimize_many` makes about {PROVED} passes over codes per target, and proves what it "
        f"finds; it asks {index.title} about {UNPROVED / index.ratio**2:.0f} times, which proves nothing."
    )
    yield f"Against {rival.title} {index.title} {start if math.isfinite(index.pays_from) else 'never pays'}."


def _cost(each: Option) -> str:
    return f"{seconds_text(each.build_seconds)} to build and {seconds_text(each.total_seconds)} in all"


def _trade(plan: Plan) -> Iterator[str]:
    """What the ratio does to the total."""
    best, rival = plan.best, plan.rival
    yield (
        f"Without proof the ratio {plan.best_ratio:g} costs least: {best.title}, "
        f"{seconds_text(best.total_seconds)} in all ({rival.title} {seconds_text(rival.total_seconds)})."
    )
    if plan.demand.targets is None:
        more = "1/(2c - 1)" if plan.demand.picks is not None else "1/c^2"
        yield f"Below it there are more queries, like {more}; above it each is dearer."


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
        f"What the theorems say for c = {found.ratio:g}, tau = {found.tau:.3g}:",
        *table_lines(lines, left=(0, 3)),
        *table_lines([space, spent], left=()),
    ]


def _cells(plan: Plan, exponent: Exponent) -> tuple[str, str, str]:
    many = "more than all" if exponent.candidates >= plan.workload.n else ""
    return f"{exponent.rho:.3f}", count_text(exponent.candidates), many


def _theorem(plan: Plan) -> Iterator[str]:
    found, ratio = plan.exponents, plan.ratio
    verdict = "is sublinear here" if found.sublinear else "gives nothing at this n"
    yield (
        f"The theorem {verdict}: n^{found.near_linear.rho:.3f} exp(sqrt(ln n)) is "
        f"{count_text(found.near_linear.candidates)}, of {found.n:,} atoms in all."
    )
    yield f"At c = {ratio:g}, near-linear space takes tau > {found.break_even:.3f} to score fewer than n."
    last = plan.demand.last_tau
    if last is not None and last < found.break_even:
        yield (
            f"To end with this gap the paper's one scale for all queries takes tau <= {last:.2g}: "
            f"n^{theory.rho(ratio, last):.6f}, not sublinear."
        )


def _hashing(plan: Plan) -> Iterator[str]:
    for each in plan.options:
        if each.details:
            numbers = ", ".join(f"{name} {value:,}" for name, value in each.details.items())
            yield f"{each.title}: {numbers}."
    if plan.aim is not None:
        yield from plan.aim.lines()
    kappa = plan.copies
    asked = plan.demand.at(plan.ratio)
    many = queries_text(int(asked)) if math.isfinite(asked) else "any queries"
    yield (
        f"Copies for {many} to succeed with probability {1.0 - plan.delta:g}: {kappa.fixed}; "
        f"verified answers need none."
    )
    if kappa.lattice is not None:
        yield (
            f"Copies for adaptive queries: {kappa.lattice:,} by a lattice, {kappa.union:,} by the paper's "
            f"union bound, {kappa.printed:,} as it prints."
        )


# ---------------------------------------------------------------- as a picture


def _draw(plan: Plan, title: str | None) -> Figure:
    """Draw candidates against n, and the total time against the ratio."""
    work, levels = plan.workload, [each for each in plan.options if each.proves]
    heading = f"{work.n:,} x {work.d:,} atoms, c = {plan.ratio:g}, tau = {plan.tau:.2g}"
    sizes = np.geomspace(1e3, max(1e10, 10.0 * work.n), 61).round()
    scored, seconds = {}, {}
    for regime, exponent in plan.exponents.regimes.items():
        title = f"{regime.name.lower().replace('_', '-')} (theorem)"
        scored[title] = np.array([theory.candidates(int(n), exponent.rho) for n in sizes])
    spent = solve_seconds(work, plan.demand)
    grid = [weigh(replace(work, ratio=ratio), plan.demand.at, spent=spent) for ratio in RATIOS]
    for kind in INDEXES.values():
        if kind.takes_ratio and kind.expected is not None:
            models = [kind.expected(replace(work, n=int(n))) for n in sizes]
            scored[f"{kind.title} (model)"] = np.array([each.scored for each in models])
            weighed = [each for found in grid for each in found if each.name == kind.name]
            totals = [math.nan if each.objection else each.total_seconds for each in weighed]
            seconds[kind.title] = np.array(totals)
    return plot.draw_tradeoff(
        sizes=sizes,
        scored=scored,
        n=work.n,
        ratios=np.array(RATIOS),
        seconds=seconds,
        levels={each.title: each.total_seconds for each in levels},
        ratio=plan.best_ratio,
        title=heading if title is None else title,
    )
