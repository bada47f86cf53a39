"""What a caller gives to `minimize`, checked, and what is said of it."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from wolfhound import validate
from wolfhound._arrow import find_frame
from wolfhound.core import Atoms, Ids, Vector
from wolfhound.encoding import EncodingPlan, RowAtoms, TableAtoms, encode_source
from wolfhound.result import Result

REMEMBERED = 256
"""Up to so many ids, the first order of a seed is remembered."""


def check_kinds(objective: object, method: object, start: object, callback: object) -> None:
    """Raise TypeError or ValueError if one of these is something else."""
    what = "an objective such as SquaredDistance(target)"
    validate.kind(objective, "objective", what, "dim", "quadratic", "at", "values", "line", "lift")
    validate.kind(method, "method", "a method such as FullyCorrective()", "begin", "states")
    if start is not None:
        validate.kind(start, "start", "a Result, or (ids, weights)", Result, tuple, list)
        pair = isinstance(start, Result) or len(start) == 2  # type: ignore[arg-type] # a tuple or list
        validate.require(pair, "start", "a Result, or (ids, weights)", validate.describe(start))
    if callback is not None:
        validate.function(callback, "callback", "a function of a State")


def find_rows(atoms: Any) -> TableAtoms | None:
    """Return a frame or a table as atoms, without the rows that have missing values; None for others."""
    if isinstance(atoms, TableAtoms):
        return atoms
    source = None if validate.is_oracle(atoms) else find_frame(atoms)
    return None if source is None else encode_source(source, EncodingPlan(called="atoms"))


def take_by_rows(table: TableAtoms) -> Atoms:
    """Return atoms whose ids are rows of the table, as those of its results are."""
    return table.atoms if table.ids is None else RowAtoms(table)


def refuse_gaps(table: TableAtoms, value: object, name: str) -> None:
    """Refuse what is written during a run, by places, where rows of the table are left out."""
    rule = "None where rows of a table are left out; leave them out before the call"
    validate.require(value is None or table.ids is None, name, rule, value)


def call_by_places(table: TableAtoms, options: dict[str, Any]) -> dict[str, Any]:
    """Return the options of a run over the rows that are kept: ids become places."""
    start, callback = options["start"], options["callback"]
    if isinstance(start, Result):
        start = replace(start, ids=table.find_places(start.ids, "start"))
    elif start is not None and table.ids is not None:
        start = (table.find_places(start[0], "start"), *start[1:])
    return options | {
        "exclude": table.find_places(options["exclude"], "exclude", strict=False),
        "names": table.pick(options["names"], "names"),
        "start": start,
        "callback": callback and (lambda state: callback(replace(state, ids=table.name_rows(state.ids)))),
    }


def as_names(names: Any, n: int) -> Sequence[str] | None:
    """Check that there is a name for every id; a table's own labels do not count."""
    if names is None:
        return None
    rule = f"{n} strings, one per atom"
    unordered = (str, bytes, Mapping)
    if isinstance(names, unordered) or not (hasattr(names, "__len__") and hasattr(names, "__getitem__")):
        raise TypeError(f"`names` must be {rule}. Got {validate.describe(names)}.")
    given: Sequence[str] = names.to_numpy() if hasattr(names, "to_numpy") else names
    validate.require(len(given) == n, "names", rule, len(given))
    return given


def pick_names(names: Sequence[str] | None, ids: Ids) -> tuple[str, ...] | None:
    """Names of these ids, if there are names."""
    return None if names is None else tuple(str(names[i]) for i in ids)


def as_start(
    start: Result | tuple[ArrayLike, ArrayLike] | None, n: int, exclude: Ids
) -> tuple[Ids, Vector, int] | None:
    """Ids, weights and steps of a warm start, checked."""
    if start is None:
        return None
    given, shares, t = (start.ids, start.weights, start.steps) if isinstance(start, Result) else (*start, 0)
    ids = validate.ids(given, "start ids", n)
    weights = validate.vector(shares, "start weights", size=len(ids))
    good = len(ids) > 0 and bool((weights >= 0.0).all()) and abs(weights.sum() - 1.0) <= 1e-6
    validate.require(good, "start weights", ">= 0 with sum 1", f"sum {weights.sum():g} of {len(ids)} weights")
    validate.require(not np.isin(ids, exclude).any(), "start ids", "none of `exclude`", "some of them")
    return ids, weights / weights.sum(), t


class Chance:
    """What is random in one run: as a generator has it, which is made of a seed only if it is needed.

    A run over few atoms asks for one order of them, and for no more.

    Examples
    --------
    >>> chance, rng = Chance(5), np.random.default_rng(5)
    >>> chance.shuffle(np.arange(6)).tolist() == rng.permutation(6).tolist()
    True
    >>> bool(chance.generator.integers(1000) == rng.integers(1000))
    True
    """

    def __init__(self, seed: int | np.random.Generator) -> None:
        self._generator = seed if isinstance(seed, np.random.Generator) else None
        self._seed = 0 if isinstance(seed, np.random.Generator) else validate.count(seed, "seed")
        self._shuffled = 0

    @property
    def generator(self) -> np.random.Generator:
        """The generator, after all that was drawn."""
        if self._generator is None:
            self._generator = validate.rng(self._seed)
            self._generator.permutation(self._shuffled)
        return self._generator

    def shuffle(self, ids: Ids) -> Ids:
        """The ids in random order, a new array."""
        if self._generator is not None or self._shuffled or len(ids) > REMEMBERED:
            return self.generator.permutation(ids)
        self._shuffled = len(ids)
        return ids[_shuffle_first(self._seed, self._shuffled)]


@functools.lru_cache(maxsize=64)
def _shuffle_first(seed: int, size: int) -> Ids:
    """The order in which a new generator puts so many; it is shared, so none may write it."""
    order = validate.rng(seed).permutation(size)
    order.flags.writeable = False
    return order


def describe_method(method: object) -> str:
    """Name of a method with the settings that are not its defaults."""
    if not is_dataclass(method):
        return repr(method)
    settings = []
    for field in fields(method):
        default = field.default if field.default_factory is MISSING else field.default_factory()
        value = getattr(method, field.name)
        settings += [] if value == default else [f"{field.name}={value!r}"]
    return f"{type(method).__name__}({', '.join(settings)})"
