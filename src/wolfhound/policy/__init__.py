"""Policies whose actions are the hull of many given vectors.

Needs numpy and the rest of wolfhound only. What learns from samples
(`wolfhound.policy.agent`, `wolfhound.policy.envs`) needs ``wolfhound[rl]``, and is
not imported here.
"""

# SPDX-License-Identifier: Apache-2.0
from wolfhound.policy._answers import Chosen as Chosen
from wolfhound.policy._answers import HullPoints as HullPoints
from wolfhound.policy._answers import Subset as Subset
from wolfhound.policy._search import PolicyState as PolicyState
from wolfhound.policy.acmdp import ACMDP as ACMDP
from wolfhound.policy.acmdp import Evaluation as Evaluation
from wolfhound.policy.acmdp import random_acmdp as random_acmdp
from wolfhound.policy.actions import ActionSet as ActionSet
from wolfhound.policy.result import TabularResult as TabularResult
from wolfhound.policy.result import load_policy as load_policy
from wolfhound.policy.rewards import AffineReward as AffineReward
from wolfhound.policy.rewards import QuadraticReward as QuadraticReward
from wolfhound.policy.rewards import SmoothReward as SmoothReward
from wolfhound.policy.steps import Backtracking as Backtracking
from wolfhound.policy.steps import PaperStep as PaperStep
from wolfhound.policy.steps import PerState as PerState
from wolfhound.policy.steps import Visitation as Visitation
from wolfhound.policy.tabular import fwpo as fwpo
from wolfhound.policy.tabular import policy_iteration as policy_iteration
from wolfhound.policy.tabular import sfwpo as sfwpo
from wolfhound.policy.theory import policy_plan as policy_plan
from wolfhound.policy.theory import policy_steps as policy_steps
from wolfhound.policy.theory import scales as scales
from wolfhound.policy.transitions import AffineTransition as AffineTransition
from wolfhound.policy.transitions import SmoothTransition as SmoothTransition
from wolfhound.policy.transitions import SoftmaxTransition as SoftmaxTransition
