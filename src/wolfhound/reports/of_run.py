"""What is told of a run: the mixture, the proved band, what each step cost."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from wolfhound._brief import known
from wolfhound.atoms import Fingerprint
from wolfhound.core import Vector
from wolfhound.markup import Grid, list_weights
from wolfhound.reports import figures
from wolfhound.reports.story import Chart, RowLabels, Section, Story
from wolfhound.result import Result, Trace
from wolfhound.text import seconds_text

TRUSTED = "trusted, not proved"
"""As `Custom` says of itself, and what is told of its bounds."""

LISTED = 50
"""Atoms that a table holds."""

AXES = ("passes", "seconds")
"""Against what a run is drawn."""

_AXES = {"passes": "passes over all atoms", "seconds": "seconds, without compiling"}
_KINDS = {
    "start": "the start, before any query",
    "pass": "a pass over all atoms: proves",
    "inner": "between passes, on the atoms in hand",
    "corrective": "weights of the atoms in hand, solved anew",
    "none": "no atom was found that promises more",
    "null": "a step of length 0",
    "forward": "a step towards the atom found",
    "away": "a step away from an active atom",
    "pairwise": "weight moved from one atom to another",
    "pick": "an atom is picked",
    "swap": "an atom is exchanged",
}


def tell_result(result: Result, labels: RowLabels) -> Story:
    """Tell of one run of `minimize`."""
    top = result.top(LISTED)
    shown = f"{len(top):,} of {result.support:,} atoms with weight, the largest first"
    asked = (
        ("minimise", result.objective or "f"),
        ("by", result.method),
        ("over the hull of", describe_atoms(result.fingerprint)),
        ("to a gap of", known(result.goal)),
    )
    trusted = is_trusted(result)
    return Story(
        title="Minimum over a hull",
        status=result.status.name,
        good=result.success,
        sentence=result.status.value.replace("proved gap", "trusted gap" if trusted else "proved gap"),
        tiles=(
            ("value", f"{result.value:.6g}"),
            ("gap, trusted" if trusted else "proved gap", known(result.gap, unknown="none")),
            ("atoms with weight", f"{result.support:,}"),
            ("passes", f"{result.passes:.3g}"),
            ("time", seconds_text(result.seconds)),
        ),
        sections=(
            Section("What was asked", facts=asked),
            Section(
                "The answer", facts=_tell_bounds(result), grids=(list_weights(shown, top, show=labels.cell),)
            ),
            tell_proof(result.trace, goal=result.goal, trusted=trusted),
            tell_oracle(result.trace, result.seconds),
        ),
    )


def is_trusted(result: Result) -> bool:
    """Whether f is a function of the user's, of which nothing can be proved: it says so itself."""
    return TRUSTED in result.objective


def _tell_bounds(result: Result) -> tuple[tuple[str, str], ...]:
    """Value, bound and gap: how much of each is proved."""
    upper, lower = "a proved upper bound on f at the point", "a proved lower bound on the minimum"
    rest = ""
    if is_trusted(result):
        upper = f"as the function gives it, rounding not known: {TRUSTED}"
        lower = f"a lower bound on the minimum if value and gradient are right: {TRUSTED}"
        rest = ", if value and gradient are right"
    has_gap = math.isfinite(result.gap)
    return (
        ("value", f"{result.value:.9g}, {upper}" if math.isfinite(result.value) else "none"),
        ("lower", f"{result.lower:.9g}, {lower}" if math.isfinite(result.lower) else "none"),
        ("gap", f"{result.gap:.3g}: no point of the hull is better by more{rest}" if has_gap else "none"),
    )


def describe_atoms(source: Fingerprint) -> str:
    """Say how many atoms there were, of what, and how to know them again."""
    if not source:
        return "atoms"
    n = sum(part.n for part in source)
    more = f" in {len(source)} parts" if len(source) > 1 else ""
    known = source[0].settle().digest[:12] or "not known"
    return f"{n:,} x {source[0].d:,} {source[0].dtype} atoms{more}, fingerprint {known}"


# ---------------------------------------------------------------- the proof


def tell_proof(
    trace: Trace,
    *,
    goal: float,
    names: Sequence[str] = ("value", "lower bound"),
    sign: float = 1.0,
    trusted: bool = False,
) -> Section:
    """Tell how value and bound came together.

    Parameters
    ----------
    trace
        Of the run.
    goal
        The gap that was wanted.
    names
        Of the value and of the bound.
    sign
        -1: the trace minimises what the user maximises.
    trusted
        Whether the bounds rest on a function that nothing is proved of.
    """
    word = "trusted" if trusted else "proved"
    some = figures.choose_points(len(trace))
    costs = {"passes": trace.passes[some], "seconds": trace.seconds[some]}
    value, bound, gap = sign * trace.value[some], sign * trace.lower[some], trace.gap[some]
    columns = {**costs, names[0]: value, names[1]: bound, "gap": gap}
    grid = figures.list_columns("States of the run", columns)
    band = Chart(
        f"The {word} band between {names[0]} and {names[1]}",
        _say_band(value, bound, names),
        tuple((axis, _draw_band(costs[axis], value, bound, names, _AXES[axis], word=word)) for axis in AXES),
        grid,
    )
    closing = Chart(
        f"The {word} gap",
        f"A falling line: the gap ends at {gap[-1]:.3g}, and {goal:.3g} was wanted."
        if len(gap)
        else "No states.",
        tuple((axis, _draw_gap(costs[axis], gap, goal, _AXES[axis], word)) for axis in AXES),
        grid,
    )
    if not np.isfinite(trace.gap).any():
        none = ("Nothing was proved in this run: there is no finite bound.",)
        return Section("The proof", none, charts=(band,))
    return Section(
        "The bounds" if trusted else "The proof", _say_proof(names, trusted=trusted), charts=(band, closing)
    )


def _say_proof(names: Sequence[str], *, trusted: bool) -> tuple[str, str]:
    told = f"The optimum lies between the {names[1]} and the {names[0]} of every state"
    rest = f", if the value and the gradient of the function are right: {TRUSTED}." if trusted else ""
    seconds = "Time in which kernels were compiled or loaded is left out of the seconds."
    return told + (rest or ", rounding included."), seconds


def _say_band(value: Vector, bound: Vector, names: Sequence[str]) -> str:
    if not len(value):
        return "No states."
    told = f"The {names[0]} goes from {value[0]:.6g} to {value[-1]:.6g}"
    known = bound[np.isfinite(bound)]
    return f"{told}, the {names[1]} from {known[0]:.6g} to {known[-1]:.6g}." if len(known) else f"{told}."


def _draw_band(
    cost: Vector, value: Vector, bound: Vector, names: Sequence[str], axis: str, *, word: str
) -> figures.Figure:
    lower = figures.draw_steps(f"{names[1]} ({word})", cost, bound, 1)
    upper = figures.draw_steps(names[0], cost, value, 0)
    # Only where both ends are known is there a band.
    both = np.isfinite(bound) & np.isfinite(value)
    edge = {"mode": "lines", "showlegend": False, "hoverinfo": "skip", "line": {"width": 0, "shape": "hv"}}
    floor = figures.draw_line("", cost[both], bound[both], 0, **edge)
    band = figures.draw_line("", cost[both], value[both], 0, **edge, fill="tonexty")
    return figures.lay_out([floor, band, lower, upper], x=axis, y="f" if names[0] == "value" else names[0])


def _draw_gap(cost: Vector, gap: Vector, goal: float, axis: str, word: str) -> figures.Figure:
    positive = np.where(gap > 0.0, gap, np.nan)
    data = [figures.draw_steps(f"{word} gap", cost, positive, 2)]
    if goal > 0.0 and math.isfinite(goal) and len(cost):
        data.append(figures.draw_level("goal", goal, (float(cost[0]), float(cost[-1])), -1))
    return figures.lay_out(data, x=axis, y=f"{word} gap", y_log=bool(np.isfinite(positive).any()))


# ---------------------------------------------------------------- the cost


def tell_oracle(trace: Trace, seconds: float) -> Section:
    """Tell what the steps of each kind cost, and how good the answers were."""
    kinds = list(dict.fromkeys(trace.kind.tolist()))
    spent = {
        name: np.diff(getattr(trace, name), prepend=0.0 * getattr(trace, name)[:1])
        for name in ("passes", "scored", "seconds")
    }
    rows = []
    for kind in kinds:
        which = trace.kind == kind
        passes, scored, took = (float(spent[name][which].sum()) for name in ("passes", "scored", "seconds"))
        number = f"{int(which.sum()):,}"
        rows.append(
            (kind, _KINDS.get(kind, ""), number, f"{passes:.3g}", f"{scored:,.0f}", seconds_text(took))
        )
    headings = ("kind", "what it is", "states", "passes", "atoms scored", "time")
    grid = Grid("States of the run by kind", headings, rows, (0, 1))
    solved = float(trace.seconds[-1]) if len(trace) else 0.0
    facts = [("time in all", f"{seconds_text(seconds)}, of which {seconds_text(solved)} on the problem")]
    audited = trace.ratio[np.isfinite(trace.ratio)]
    if len(audited):
        found = f"mean {audited.mean():.3f}, least {audited.min():.3f} of {len(audited):,} audited queries"
        facts.append(("gap found / true gap", found))
    return Section("What the oracle did", facts=tuple(facts), grids=(grid,))
