"""One word per idea in all public signatures: the words of CONTRIBUTING's vocabulary, and no others."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from typing import Any, NamedTuple

import pytest

import wolfhound

EXEMPT = {"theory", "paper"}
"""Modules and packages that keep the letters of the paper that they cite."""

FORMULAS = ("policy.tabular.steps.policy_plan", "policy.tabular.steps.policy_steps")
"""Functions that do."""


def adds(function: str) -> bool:
    """Whether it adds rows to atoms that there are."""
    return function.endswith((".append", ".append_rows"))


class Word(NamedTuple):
    """A name of an argument or field that was not chosen, and where it is refused."""

    name: str
    chosen: str
    where: Callable[[str, str], bool] = lambda function, kind: True


WORDS = (
    Word("init", "start"),
    Word("initial", "start"),
    Word("c", "ratio"),
    Word("eps", "atol"),
    Word("memory", "max_memory"),
    Word("timeout", "max_seconds"),
    Word("directory", "folder"),
    Word("dir", "folder"),
    Word("folder", "path", lambda function, kind: function.endswith((".save", ".load"))),
    Word("rows", "atoms", lambda function, kind: "AtomsLike" in kind and not adds(function)),
    Word("X", "atoms", lambda function, kind: "AtomsLike" in kind),
    Word("on_step", "callback"),
    Word("random_state", "seed", lambda function, kind: not function.startswith("herding.select.")),
    Word("rng", "seed", lambda function, kind: "int" in kind),
)


class Use(NamedTuple):
    """An argument of a public function, or a field of a public record."""

    function: str
    name: str
    kind: str


def public_modules() -> Iterator[str]:
    for found in pkgutil.walk_packages(wolfhound.__path__, "wolfhound."):
        parts = found.name.split(".")
        if not any(part.startswith("_") or part in EXEMPT for part in parts) and parts[1] != "cli":
            yield found.name


def uses() -> Iterator[Use]:
    """Yield all arguments and fields that a caller can name."""
    for name in public_modules():
        try:
            module = importlib.import_module(name)
        except ImportError:  # of an optional package
            continue
        for thing in vars(module).values():
            if getattr(thing, "__module__", "") == name and not getattr(thing, "__name__", "_").startswith(
                "_"
            ):
                yield from _uses_of(f"{name.partition('.')[2]}.{thing.__name__}", thing)


def _uses_of(name: str, thing: Any) -> Iterator[Use]:
    if inspect.isclass(thing):
        if is_dataclass(thing):
            yield from (Use(name, field.name, str(field.type)) for field in fields(thing))
        elif hasattr(thing, "_fields"):
            yield from (Use(name, field, str(thing.__annotations__.get(field))) for field in thing._fields)
        members = {key: getattr(value, "__func__", value) for key, value in vars(thing).items()}
        for key, value in members.items():
            if inspect.isfunction(value) and (not key.startswith("_") or key == "__init__"):
                yield from _uses_of(f"{name}.{key}", value)
    elif callable(thing):
        given = inspect.signature(thing).parameters.values()
        yield from (Use(name, each.name, str(each.annotation)) for each in given)


USES = sorted({use for use in uses() if use.function not in FORMULAS})


def test_there_is_something_to_read() -> None:
    assert len(USES) > 500
    assert Use("solve.minimize.minimize", "max_seconds", "float") in USES
    assert Use("methods.steps.Clipped", "ratio", "float") in USES


@pytest.mark.parametrize("word", WORDS, ids=lambda word: word.name)
def test_no_signature_has_a_word_that_was_not_chosen(word: Word) -> None:
    found = [use for use in USES if use.name == word.name and word.where(use.function, use.kind)]
    assert not found, f"say {word.chosen}"
