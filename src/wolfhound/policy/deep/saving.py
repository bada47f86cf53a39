"""Rules and executions as JSON values, and back by their tables; saved weights, checked."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, TypeVar

import numpy as np

from wolfhound.policy.deep.rules import Execution, Rule
from wolfhound.registry import Registry
from wolfhound.store import Stored

Thing = TypeVar("Thing", Rule, Execution)


def describe(table: Registry[type[Thing]], thing: Thing, argument: str) -> dict[str, Any]:
    """Name and settings of a thing, as they are saved.

    Raises
    ------
    TypeError
        If it is not in the table, or its settings are no JSON: it could not be loaded again.
    """
    name = getattr(thing, "name", None)
    if not isinstance(name, str) or name not in table or table[name] is not type(thing):
        rule = f"of the table of {', '.join(table)}: add its class by `{argument.upper()}S.add`"
        raise TypeError(f"`{argument}` must be {rule}. Got {thing!r}.")
    saved = {"name": name, "settings": thing.to_json()}
    json.dumps(saved)
    return saved


def recall(table: Registry[type[Thing]], saved: Mapping[str, Any]) -> Thing:
    """The thing that `describe` described.

    Examples
    --------
    >>> from wolfhound.policy.deep import RULES
    >>> from wolfhound.policy.deep.rivals import Wolpertinger
    >>> recall(RULES, describe(RULES, Wolpertinger(neighbours=3), "rule"))
    Wolpertinger(neighbours=3, noise=0.15)
    """
    return table.find(saved["name"]).from_json(saved["settings"])


def check_weights(stored: Stored, least: int) -> None:
    """Raise StoreError unless all arrays hold finite numbers, those of the actor at least so many.

    So that the networks which are made for them are no larger than what was saved.
    """
    for name, array in stored.arrays.items():
        if array.dtype.kind not in "fiu" or not np.isfinite(array).all():
            raise stored.wrong(f"{name!r} must hold finite numbers")
    if len(stored.array("actor", np.float32, (None,))) < least:
        raise stored.wrong(f"'actor' must hold {least} numbers at least")
