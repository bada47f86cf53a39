"""What an agent is made of, read from a saved one."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

from wolfhound import validate
from wolfhound.policy.deep import EXECUTIONS, RULES
from wolfhound.policy.deep.learner import check_weights
from wolfhound.policy.deep.rules import Rule, recall
from wolfhound.policy.deep.settings import Settings
from wolfhound.store import Stored, StoreError


def recall_parts(stored: Stored, wanted: type[Rule] | None) -> tuple[int, dict[str, Any]]:
    """Width of observations, and what an agent is made of."""
    params = stored.params
    with stored.reading():
        width, settings = validate.count(params["obs_dim"], "obs_dim", low=1), Settings(**params["settings"])
        rule, execution = recall(RULES, params["rule"]), recall(EXECUTIONS, params["execution"])
        check_weights(stored, width * settings.hidden)
    if wanted is not None and type(rule) is not wanted:
        got = f"one of {params['rule']['name']} in {stored.folder}"
        raise StoreError(f"`folder` must hold an agent of {wanted.name}. Got {got}.")
    return width, {"rule": rule, "settings": settings, "execution": execution}
