"""Policies whose actions are the hull of many given vectors.

`actions` knows the vectors and how directions are answered; no state, reward or critic. `tabular` has
finitely many states with a known model and proved optima: begin with its `fwpo`. `deep` learns from samples:
begin with its `agent`, which needs ``wolfhound[rl]`` and is imported when first used. These two rooms know
nothing of each other.
"""

# SPDX-License-Identifier: Apache-2.0
import importlib
from typing import TYPE_CHECKING

from wolfhound.policy.actions import ActionSet as ActionSet
from wolfhound.policy.actions import Chosen as Chosen
from wolfhound.policy.actions import HullPoints as HullPoints
from wolfhound.policy.actions import Subset as Subset
from wolfhound.policy.deep import EXECUTIONS as EXECUTIONS
from wolfhound.policy.deep import RULES as RULES
from wolfhound.policy.deep.worlds import BatchEnv as BatchEnv
from wolfhound.policy.deep.worlds import evaluate as evaluate
from wolfhound.policy.tabular.acmdp import ACMDP as ACMDP
from wolfhound.policy.tabular.acmdp import Evaluation as Evaluation
from wolfhound.policy.tabular.acmdp import random_acmdp as random_acmdp
from wolfhound.policy.tabular.fwpo import PolicyState as PolicyState
from wolfhound.policy.tabular.fwpo import fwpo as fwpo
from wolfhound.policy.tabular.fwpo import policy_iteration as policy_iteration
from wolfhound.policy.tabular.fwpo import sfwpo as sfwpo
from wolfhound.policy.tabular.models import AffineReward as AffineReward
from wolfhound.policy.tabular.models import AffineTransition as AffineTransition
from wolfhound.policy.tabular.models import QuadraticReward as QuadraticReward
from wolfhound.policy.tabular.models import SmoothReward as SmoothReward
from wolfhound.policy.tabular.models import SmoothTransition as SmoothTransition
from wolfhound.policy.tabular.models import SoftmaxTransition as SoftmaxTransition
from wolfhound.policy.tabular.result import TabularResult as TabularResult
from wolfhound.policy.tabular.steps import Backtracking as Backtracking
from wolfhound.policy.tabular.steps import PaperStep as PaperStep
from wolfhound.policy.tabular.steps import PerState as PerState
from wolfhound.policy.tabular.steps import Visitation as Visitation
from wolfhound.policy.tabular.steps import policy_plan as policy_plan
from wolfhound.policy.tabular.steps import policy_steps as policy_steps
from wolfhound.policy.tabular.steps import scales as scales

if TYPE_CHECKING:
    from wolfhound.policy.deep.agent import SFWPO as SFWPO
    from wolfhound.policy.deep.agent import Agent as Agent
    from wolfhound.policy.deep.rules import Described as Described
    from wolfhound.policy.deep.rules import Draw as Draw
    from wolfhound.policy.deep.rules import Execution as Execution
    from wolfhound.policy.deep.rules import FrankWolfeRule as FrankWolfeRule
    from wolfhound.policy.deep.rules import HullDecision as HullDecision
    from wolfhound.policy.deep.rules import Mix as Mix
    from wolfhound.policy.deep.rules import Nearest as Nearest
    from wolfhound.policy.deep.rules import Rule as Rule
    from wolfhound.policy.deep.training import Settings as Settings
    from wolfhound.policy.deep.training import Training as Training

_LEARNING = {
    "agent": ("SFWPO", "Agent"),
    "rules": ("Described", "Draw", "Execution", "FrankWolfeRule", "HullDecision", "Mix", "Nearest", "Rule"),
    "training": ("Settings", "Training"),
}

if not TYPE_CHECKING:  # a typed __getattr__ would let mypy accept any name

    def __getattr__(name: str) -> object:
        """Load what needs torch when it is first used (PEP 562)."""
        for module, names in _LEARNING.items():
            if name in names:
                return getattr(importlib.import_module(f"wolfhound.policy.deep.{module}"), name)
        raise AttributeError(f"module 'wolfhound.policy' has no attribute {name!r}")
