"""What is told of policies: one that was solved, or several that were compared."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import numpy as np

from wolfhound._brief import known
from wolfhound.markup import Grid
from wolfhound.policy.feed.compare import HEADINGS, Comparison, Standing
from wolfhound.policy.tabular.result import TabularResult
from wolfhound.reports import figures
from wolfhound.reports.of_run import describe_atoms, tell_oracle, tell_proof
from wolfhound.reports.story import Chart, RowLabels, Section, Story
from wolfhound.text import seconds_text

_LISTED = 40
_TOP = 4


def tell_policy(result: TabularResult, labels: RowLabels) -> Story:
    """Tell of a policy and how near the best it is."""
    asked = (
        ("maximise", f"J of {result.problem}"),
        ("by", result.method),
        ("actions are mixtures of", describe_atoms(result.fingerprint)),
        ("to a gap of", known(result.goal)),
    )
    upper = f"{result.upper:.9g}, a proved upper bound on the best J of all policies"
    upper = upper if np.isfinite(result.upper) else "not known"
    answer = (
        ("J", f"{result.score:.9g}, a proved lower bound on the worth of the policy"),
        ("upper", upper),
        ("gaps of the states", result.gaps_text()),
    )
    proof = tell_proof(result.trace, goal=result.goal, names=("J", "upper bound"), sign=-1.0)
    return Story(
        title="The best policy",
        status=result.status.name,
        good=result.success,
        sentence=result.status.value,
        tiles=(
            ("J", f"{result.score:.6g}"),
            ("proved gap", known(result.gap)),
            ("states", f"{len(result.policy):,}"),
            ("passes", f"{result.passes:.3g}"),
            ("time", seconds_text(result.seconds)),
        ),
        sections=(
            Section("What was asked", facts=asked),
            Section("The answer", facts=answer, grids=(_list_states(result, labels),)),
            proof,
            tell_oracle(result.trace, result.seconds),
        ),
    )


def _list_states(result: TabularResult, labels: RowLabels) -> Grid:
    rows = []
    for state in range(min(len(result.policy), _LISTED)):
        held = result.ids[state] >= 0
        pairs = list(zip(result.ids[state, held].tolist(), result.weights[state, held].tolist(), strict=True))
        numbers = f"{result.values[state]:.6g}", known(result.gaps[state], ".2g"), f"{int(held.sum())}"
        rows.append((f"{state}", *numbers, labels.names_of(pairs[:_TOP])))
    headings = ("state", "V(s)", "gap", "atoms", "largest weights")
    return Grid(f"The first {len(rows):,} of {len(result.policy):,} states", headings, rows, (0, 4))


def tell_comparison(result: Comparison, labels: RowLabels) -> Story:
    """Tell how policies fared on the same users."""
    best = result.standings[0]
    seeds = len(best.returns)
    grid = Grid("Returns of an episode on fresh users, the best first", HEADINGS, result.cells())
    notes = ("All policies saw the same users; spread is the standard deviation over the seeds.",)
    return Story(
        title="Policies side by side",
        status="",
        good=True,
        sentence=f"{best.name} has the largest return, {best.mean:.2f} on average of {seeds} seeds",
        tiles=(
            ("policies", f"{len(result.standings)}"),
            ("seeds", f"{seeds}"),
            ("best return", f"{best.mean:.2f}"),
        ),
        sections=(
            Section("The answer", notes, grids=(grid,)),
            Section("How they learned", charts=(_draw_learning(result),)),
        ),
    )


def _draw_learning(result: Comparison) -> Chart:
    data = []
    ends = [float(each.steps[-1]) for each in result.standings if each.learns] or [1.0]
    for slot, each in enumerate(result.standings):
        if each.learns:
            data += _draw_learner(each, slot)
        else:
            data.append(figures.draw_level(each.name, each.mean, (0.0, max(ends)), slot))
    label = ", ".join(f"{each.name} ends at {each.mean:.2f}" for each in result.standings)
    figure = figures.lay_out(data, x="steps of the environment", y="return of an episode")
    steps = [(each.name, step, mean) for each in result.standings
             for step, mean in zip(each.steps, each.returns.mean(axis=0), strict=True)]  # fmt: skip
    columns = {
        "policy": [name for name, _, _ in steps],
        "steps": [step for _, step, _ in steps],
        "return": [mean for _, _, mean in steps],
    }
    grid = figures.list_columns("Mean returns by steps of training", columns)
    title = "Returns against steps: means of the seeds, from least to most"
    return Chart(title, f"{label}.", (("returns", figure),), grid)


def _draw_learner(each: Standing, slot: int) -> list[figures.Figure]:
    edge = {"mode": "lines", "showlegend": False, "hoverinfo": "skip", "line": {"width": 0}}
    least = figures.draw_line("", each.steps, each.returns.min(axis=0), slot, **edge)
    most = figures.draw_line("", each.steps, each.returns.max(axis=0), slot, **edge, fill="tonexty")
    return [least, most, figures.draw_line(each.name, each.steps, each.returns.mean(axis=0), slot)]
