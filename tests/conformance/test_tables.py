"""Every line of the tables keeps the promises of its protocol."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from tests.conformance.kernel import check_kernel
from tests.conformance.method import check_method
from tests.conformance.objective import check_lift, check_objective
from tests.conformance.oracle import check_oracle
from tests.conformance.tables import KERNELS, METHODS, OBJECTIVES, ORACLES
from tests.objectives.cases import LIFTED, SLACK


@pytest.mark.slow
@pytest.mark.parametrize("name", ORACLES)
def test_oracle(name: str) -> None:
    check_oracle(ORACLES[name].make, exact=ORACLES[name].exact, see=ORACLES[name].see)


@pytest.mark.parametrize("name", OBJECTIVES)
def test_objective(name: str) -> None:
    objective, points, rows = OBJECTIVES[name]
    check_objective(objective, points.copy(), rows.copy())


@pytest.mark.parametrize("name", LIFTED)
def test_lift(name: str) -> None:
    objective, points, _ = OBJECTIVES[name]
    check_lift(objective, points, slack=SLACK.get(name, 0.0))


@pytest.mark.slow
@pytest.mark.parametrize("name", METHODS)
def test_method(name: str) -> None:
    method, gap, steps, monotone = METHODS[name]
    check_method(method, monotone=monotone, gap=gap, steps=steps)


@pytest.mark.parametrize("name", KERNELS)
def test_kernel(name: str) -> None:
    check_kernel(KERNELS[name])
