"""Policies whose actions are the hull of many given vectors.

Needs numpy and the rest of wolfhound only. What learns from samples, `SFWPO` and what it is
made of, needs ``wolfhound[rl]``, and is imported when first used.
"""

# SPDX-License-Identifier: Apache-2.0
from typing import TYPE_CHECKING

from wolfhound.policy.actions import ActionSet as ActionSet
from wolfhound.policy.answers import Chosen as Chosen
from wolfhound.policy.answers import HullPoints as HullPoints
from wolfhound.policy.answers import Subset as Subset
from wolfhound.policy.deep import EXECUTIONS as EXECUTIONS
from wolfhound.policy.deep import RULES as RULES
from wolfhound.policy.deep.worlds import evaluate as evaluate
from wolfhound.policy.tabular.acmdp import ACMDP as ACMDP
from wolfhound.policy.tabular.acmdp import Evaluation as Evaluation
from wolfhound.policy.tabular.acmdp import random_acmdp as random_acmdp
from wolfhound.policy.tabular.fwpo import fwpo as fwpo
from wolfhound.policy.tabular.fwpo import policy_iteration as policy_iteration
from wolfhound.policy.tabular.fwpo import sfwpo as sfwpo
from wolfhound.policy.tabular.result import TabularResult as TabularResult
from wolfhound.policy.tabular.rewards import AffineReward as AffineReward
from wolfhound.policy.tabular.rewards import QuadraticReward as QuadraticReward
from wolfhound.policy.tabular.rewards import SmoothReward as SmoothReward
from wolfhound.policy.tabular.search import PolicyState as PolicyState
from wolfhound.policy.tabular.steps import Backtracking as Backtracking
from wolfhound.policy.tabular.steps import PaperStep as PaperStep
from wolfhound.policy.tabular.steps import PerState as PerState
from wolfhound.policy.tabular.steps import Visitation as Visitation
from wolfhound.policy.tabular.theory import policy_plan as policy_plan
from wolfhound.policy.tabular.theory import policy_steps as policy_steps
from wolfhound.policy.tabular.theory import scales as scales
from wolfhound.policy.tabular.transitions import AffineTransition as AffineTransition
from wolfhound.policy.tabular.transitions import SmoothTransition as SmoothTransition
from wolfhound.policy.tabular.transitions import SoftmaxTransition as SoftmaxTransition

if TYPE_CHECKING:
    from wolfhound.policy.deep.agent import SFWPO as SFWPO
    from wolfhound.policy.deep.agent import Agent as Agent
    from wolfhound.policy.deep.rules import Draw as Draw
    from wolfhound.policy.deep.rules import FrankWolfeRule as FrankWolfeRule
    from wolfhound.policy.deep.rules import Hull as Hull
    from wolfhound.policy.deep.rules import HullDecision as HullDecision
    from wolfhound.policy.deep.rules import Nearest as Nearest
    from wolfhound.policy.deep.settings import Settings as Settings
    from wolfhound.policy.deep.settings import Training as Training

_LEARNING = (
    "SFWPO",
    "Agent",
    "Draw",
    "FrankWolfeRule",
    "Hull",
    "HullDecision",
    "Nearest",
    "Settings",
    "Training",
)

if not TYPE_CHECKING:  # a typed __getattr__ would let mypy accept any name

    def __getattr__(name: str) -> object:
        """Load what needs torch when it is first used (PEP 562)."""
        if name not in _LEARNING:
            raise AttributeError(f"module 'wolfhound.policy' has no attribute {name!r}")
        from wolfhound.policy.deep import agent  # noqa: PLC0415

        return getattr(agent, name)
