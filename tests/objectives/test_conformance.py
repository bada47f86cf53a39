"""Every objective passes the same checks."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from tests.conformance.objective import check_lift, check_objective
from tests.objectives.cases import CASES, LIFTED, SLACK


@pytest.mark.parametrize("name", CASES)
def test_objective(name: str) -> None:
    objective, points, rows = CASES[name]
    check_objective(objective, points.copy(), rows.copy())


@pytest.mark.parametrize("name", LIFTED)
def test_lift(name: str) -> None:
    objective, points, _ = CASES[name]
    check_lift(objective, points, slack=SLACK.get(name, 0.0))
