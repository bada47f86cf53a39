"""Policies whose actions are the hull of many given vectors.

Needs numpy and the rest of wolfhound only. What learns from samples
(`wolfhound.policy.deep.agent`, `wolfhound.policy.feed.item_feed`) needs
``wolfhound[rl]``, and is not imported here.
"""

# SPDX-License-Identifier: Apache-2.0
from wolfhound.policy.actions import ActionSet as ActionSet
from wolfhound.policy.answers import Chosen as Chosen
from wolfhound.policy.answers import HullPoints as HullPoints
from wolfhound.policy.answers import Subset as Subset
from wolfhound.policy.deep import EXECUTIONS as EXECUTIONS
from wolfhound.policy.deep import RULES as RULES
from wolfhound.policy.deep.evaluation import evaluate as evaluate
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
