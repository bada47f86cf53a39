"""What is told of a policy that was solved."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import numpy as np

from wolfhound._brief import known
from wolfhound.markup import Grid
from wolfhound.policy.tabular.result import TabularResult
from wolfhound.reports.of_run import describe_atoms, tell_oracle, tell_proof
from wolfhound.reports.story import RowLabels, Section, Story
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
