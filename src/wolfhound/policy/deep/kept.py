"""Rules and executions as JSON values, and back."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np

from wolfhound.policy.deep.rivals import NFWPO, TD3, Wolpertinger
from wolfhound.policy.deep.rules import Draw, Execution, FrankWolfeRule, Hull, HullDecision, Nearest, Rule
from wolfhound.store import Stored, StoreError

_RULES = {rule.__name__: rule for rule in (FrankWolfeRule, NFWPO, TD3, Wolpertinger)}
_EXECUTIONS: dict[str, Execution] = {"Hull": Hull(), "Nearest": Nearest(), "Draw": Draw()}


def rule_params(rule: Rule) -> dict[str, Any]:
    """Name and fields of a rule."""
    if type(rule) not in _RULES.values():
        raise TypeError(f"`rule` must be one of {', '.join(_RULES)} to be saved. Got {rule!r}.")
    return {"name": type(rule).__name__, "fields": asdict(rule)}  # type: ignore[call-overload]


def rule_of(params: Mapping[str, Any]) -> Rule:
    """The rule that `rule_params` described.

    Examples
    --------
    >>> rule_of(rule_params(Wolpertinger(k=3)))
    Wolpertinger(k=3, noise=0.15)
    """
    fields = dict(params["fields"])
    if params["name"] not in _RULES:
        raise StoreError(f"`folder` must hold a rule of {', '.join(_RULES)}. Got {params['name']!r}.")
    if "decision" in fields:
        fields["decision"] = HullDecision(**fields["decision"])
    rule: Rule = _RULES[params["name"]](**fields)
    return rule


def execution_of(name: str) -> Execution:
    """The execution of this class name."""
    if name not in _EXECUTIONS:
        raise StoreError(f"`folder` must hold an execution of {', '.join(_EXECUTIONS)}. Got {name!r}.")
    return _EXECUTIONS[name]


def check_weights(stored: Stored, least: int) -> None:
    """Raise StoreError unless all arrays hold finite numbers, those of the actor at least so many.

    So that the networks which are made for them are no larger than what was saved.
    """
    for name, array in stored.arrays.items():
        if array.dtype.kind not in "fiu" or not np.isfinite(array).all():
            raise stored.wrong(f"{name!r} must hold finite numbers")
    stored.array("actor", np.float32, (None,))
    if len(stored.arrays["actor"]) < least:
        raise stored.wrong(f"'actor' must hold {least} numbers at least")
