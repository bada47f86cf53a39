"""Agents that learn from samples; they need ``wolfhound[rl]``, which is not imported here.

`wolfhound.policy.deep.agent` has all that a caller needs. The tables of rules and
executions are here: ``RULES.add(MyRule)`` makes a rule of your own known to training,
saving and loading.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import TYPE_CHECKING

from wolfhound.core.registry import Registry

if TYPE_CHECKING:
    from wolfhound.policy.deep.rules import Execution, Rule

RULES: Registry[type[Rule]] = Registry(
    "rule", ("ahead", "loss", "to_json", "from_json"), {"sfwpo": "wolfhound.policy.deep.rules:FrankWolfeRule"}
)
"""How agents decide and learn, by name; see `wolfhound.policy.deep.rules.Rule`."""

EXECUTIONS: Registry[type[Execution]] = Registry(
    "execution",
    ("act", "single", "to_json", "from_json"),
    {
        "mix": "wolfhound.policy.deep.rules:Mix",
        "nearest": "wolfhound.policy.deep.rules:Nearest",
        "draw": "wolfhound.policy.deep.rules:Draw",
    },
)
"""How a point of the hull becomes what the environment is given, by name."""
