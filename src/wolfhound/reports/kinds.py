"""The table of results that a page can show, and who describes each."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pkgutil
from collections.abc import Callable
from typing import Any, TypeAlias

from wolfhound.reports.story import RowLabels, Story
from wolfhound.validate import describe

Teller: TypeAlias = Callable[[Any, RowLabels], Story]
"""A result, and what its atoms are called, to all that is told of it."""

TELLERS = {
    "Result": "wolfhound.reports.of_run:tell_result",
    "ManyResult": "wolfhound.reports.of_many:tell_many",
    "HerdResult": "wolfhound.reports.of_herd:tell_herd",
    "TabularResult": "wolfhound.reports.of_policy:tell_policy",
    "Design": "wolfhound.reports.of_design:tell_design",
    "ExactDesign": "wolfhound.reports.of_design:tell_runs",
    "Ellipsoid": "wolfhound.reports.of_design:tell_ellipsoid",
    "MixtureFit": "wolfhound.reports.of_mixture:tell_mixture",
    "WeightsFit": "wolfhound.reports.of_mixture:tell_weights",
    "Plan": "wolfhound.reports.of_plan:tell_plan",
    "Choice": "wolfhound.reports.of_plan:tell_choice",
}
"""By the name of the class; imported when first asked for."""


def find_teller(result: object) -> Teller:
    """Return who describes a result; TypeError that lists all kinds if nobody does."""
    for each in type(result).__mro__:
        if each.__name__ in TELLERS and each.__module__.startswith("wolfhound."):
            teller: Teller = pkgutil.resolve_name(TELLERS[each.__name__])
            return teller
    rule = f"one of {', '.join(TELLERS)}, or a dict of them by name"
    raise TypeError(f"`result` must be {rule}. Got {describe(result)}.")
