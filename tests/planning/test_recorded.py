"""Estimates, choices and plans are the recorded ones: a change of the models is meant, or a mistake."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.planning.test_choose import Shape
from wolfhound.machine import Calibration
from wolfhound.planning.choose import choose_oracle
from wolfhound.planning.plan import plan

RECORDED: dict[str, list[Any]] = json.loads(Path(__file__).with_name("recorded.json").read_text())


@pytest.mark.parametrize("case", RECORDED["choices"], ids=lambda case: "-".join(map(str, case[:8])))
def test_estimates_and_choices(case: list[Any]) -> None:
    n, d, dtype, queries, ratio, interior, proof, batch, name, costs = case
    found = choose_oracle(
        Shape(n, d, dtype),
        queries=queries,
        ratio=ratio,
        interior=interior,
        proof=proof,
        batch=batch,
        calibration=Calibration(),
    )
    assert found.chosen.name == name
    for each, numbers in zip(found.options, costs, strict=True):
        mine = [each.build_seconds, each.query_seconds, each.nbytes, each.ratio]
        assert mine == pytest.approx(numbers, rel=1e-12)


@pytest.mark.parametrize("case", RECORDED["plans"], ids=lambda case: "-".join(map(str, case[:3])))
def test_plans(case: list[Any]) -> None:
    n, d, wish, name, best, best_ratio, *seconds = case
    found = plan(n=n, d=d, calibration=Calibration(), **wish)
    assert (found.chosen.name, found.best.name, found.best_ratio) == (name, best, best_ratio)
    mine = [found.chosen.total_seconds, found.best.total_seconds, found.exponents.near_linear.candidates]
    assert mine == pytest.approx(seconds, rel=1e-12)
