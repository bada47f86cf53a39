"""Names as people type them: a text for a thing of a table, and what a wrong word may have meant."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import difflib
import functools
import inspect
from collections.abc import Callable, Collection, Mapping
from typing import Any, ParamSpec, TypeVar

from wolfhound.core.validate import require

P = ParamSpec("P")
R = TypeVar("R")

FOREIGN = {
    "stratify": "by",
    "groups": "by",
    "strata": "by",
    "random_state": "seed",
    "rng": "seed",
    "tol": "rtol",
    "tolerance": "rtol",
    "max_iter": "max_steps",
    "maxiter": "max_steps",
    "n_samples": "m",
    "k": "m",
    "sample_weight": "row_weights",
    "x0": "start",
    "warm_start": "start",
    "verbose": "progress",
    "timeout": "max_seconds",
    "formula": "model",
    "optimality": "criterion",
    "search": "query",
    "add": "append",
    "kneighbors": "query",
}
"""Words of scikit-learn, scipy, faiss and R -> ours."""


def make_named(value: Any, table: Mapping[str, Callable[[], Any]], name: str) -> Any:
    """Return what a text names in a table, with its usual settings; anything that is no text as it is."""
    if not isinstance(value, str):
        return value
    if value not in table:
        require(False, name, f"one of {', '.join(table)}", repr(value))
    return table[value]()


def suggest(word: str, known: Collection[str]) -> str:
    """Return what a word may have meant, as the end of an error; "" if nobody knows.

    Examples
    --------
    >>> suggest("stratify", ["by", "seed"]), suggest("sed", ["by", "seed"]), suggest("colour", ["by"])
    (' Did you mean `by`?', ' Did you mean `seed`?', '')
    """
    ours = FOREIGN.get(word, "")
    close = [ours] if ours in known else difflib.get_close_matches(word, list(known), 1)
    return f" Did you mean `{close[0]}`?" if close else ""


def hint_keywords(function: Callable[P, R]) -> Callable[P, R]:
    """Let a function say of a keyword that it does not take which one may have been meant."""
    known = inspect.signature(function).parameters

    @functools.wraps(function)
    def call(*args: P.args, **options: P.kwargs) -> R:
        for word in options:
            if word not in known:
                raise TypeError(f"{function.__name__}() takes no `{word}`.{suggest(word, known)}")
        return function(*args, **options)

    return call
