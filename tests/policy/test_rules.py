"""The table of rules: all conform, and one from outside is known everywhere."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

import wolfhound
from tests.conformance.rule import check_rule
from tests.outside import Cautious
from tests.policy.deep import QUICK, Bandit, corners, observations
from wolfhound.policy import EXECUTIONS, RULES, Agent, HullDecision, Mix
from wolfhound.policy.actions import HullPoints, Rows
from wolfhound.policy.deep.rules import Described, Execution, FrankWolfeRule


@pytest.fixture(autouse=True)
def one_thread(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A few atoms are not worth the way to another thread; what a test registers goes with it."""
    for table in (RULES, EXECUTIONS):
        monkeypatch.setattr(table, "_things", dict(table._things))
    wolfhound.set_threads(1)
    yield
    wolfhound.set_threads(None)


@dataclass(frozen=True)
class Shrunk(Described):
    """A part of the way from the first atom."""

    name: ClassVar[str] = "shrunk"
    single: ClassVar[bool] = False
    share: float = 0.5

    def act(self, actions: Any, hull: HullPoints, rng: np.random.Generator) -> Rows:
        first = actions.atoms.take(np.zeros(1, np.int64))
        out: Rows = (first + self.share * (hull.points - first)).astype(np.float32)
        return out


@pytest.mark.slow
@pytest.mark.parametrize("decision", [HullDecision(), HullDecision(refine=0)])
def test_the_rule_conforms(decision: HullDecision) -> None:
    check_rule(FrankWolfeRule(decision=decision))


@pytest.mark.slow
def test_a_rule_from_outside_conforms_once_it_is_added(tmp_path: Path) -> None:
    rule = Cautious(reach=0.7, decision=HullDecision(refine=2))
    with pytest.raises(TypeError, match=r"add its class by `RULES\.add`"):
        Agent(Bandit(), corners(), rule=rule)
    RULES.add(Cautious)
    check_rule(rule)
    agent = Agent(Bandit(), corners(), rule=rule, settings=QUICK).learn(64)
    agent.save(tmp_path / "saved")
    loaded = wolfhound.load(tmp_path / "saved", corners().atoms)
    assert loaded.rule == rule
    obs = observations(5).numpy()
    np.testing.assert_array_equal(loaded.predict(obs)[0], agent.predict(obs)[0])


def test_an_execution_from_outside_is_saved(tmp_path: Path) -> None:
    execution: Execution = Shrunk(share=0.25)
    with pytest.raises(TypeError, match=r"add its class by `EXECUTIONS\.add`"):
        Agent(Bandit(), corners(), rule=FrankWolfeRule(), execution=execution)
    EXECUTIONS.add(Shrunk)
    Agent(Bandit(), corners(), rule=FrankWolfeRule(), execution=execution).save(tmp_path / "saved")
    assert Agent.load(tmp_path / "saved", corners()).execution == execution


def test_what_is_no_json_is_refused_before_training() -> None:
    RULES.add(Cautious)
    wrong: Any = Cautious(reach=np.float32(0.5))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="JSON"):
        Agent(Bandit(), corners(), rule=wrong)


@pytest.mark.parametrize("name", EXECUTIONS)
def test_executions_come_back(name: str) -> None:
    made = EXECUTIONS[name].from_json({})
    assert EXECUTIONS[name].from_json(made.to_json()) == made
    assert (made == Mix()) == (name == "mix")
