"""The door: what a caller gives, checked once, and tables that become atoms.

A table becomes atoms here, and the ids of a caller, which are rows of it, places among the rows that are
kept; `to_rows` maps them back. `minimize`, `minimize_many`, `herd` and `design` all do it by these lines.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from wolfhound.core import validate
from wolfhound.core.contracts import Atoms, Ids, Method, Objective, Vector, WeightSet
from wolfhound.core.weights import Cone, Hull, caps_of, fill
from wolfhound.data.encoding import EncodingPlan, RowAtoms, TableAtoms, encode_source
from wolfhound.data.tables import find_frame
from wolfhound.methods.fully_corrective import FullyCorrective
from wolfhound.solve.result import Result

# ---------------------------------------------------------------- tables


def find_rows(atoms: Any) -> TableAtoms | None:
    """Return a frame or a table as atoms, without the rows that have missing values; None for others."""
    if isinstance(atoms, TableAtoms):
        return atoms
    source = None if validate.is_oracle(atoms) else find_frame(atoms)
    return None if source is None else encode_source(source, EncodingPlan(called="atoms"))


def to_places(table: TableAtoms | None, rows: Any, name: str, *, strict: bool = True) -> Any:
    """Return the ids of atoms for those of a caller; if strict, rows that are left out are refused."""
    return rows if table is None else table.find_places(rows, name, strict=strict)


def to_rows(table: TableAtoms | None, places: Ids) -> Ids:
    """Return the ids of a caller for those of atoms."""
    return places if table is None else table.name_rows(places)


def hear_rows(table: TableAtoms | None, callback: Any) -> Any:
    """Return a callback that hears states whose ids are those of the caller."""
    if callback is None or table is None or table.ids is None:
        return callback
    return lambda state: callback(replace(state, ids=table.name_rows(state.ids)))


def take_by_rows(table: TableAtoms) -> Atoms:
    """Return atoms whose ids are rows of the table, as those of its results are."""
    return table.atoms if table.ids is None else RowAtoms(table)


def refuse_gaps(table: TableAtoms | None, value: object, name: str) -> None:
    """Refuse what is written during a run, by places, where rows of the table are left out."""
    rule = "None where rows of a table are left out; leave them out before the call"
    validate.require(value is None or table is None or table.ids is None, name, rule, value)


# ---------------------------------------------------------------- other arguments


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


class WarmStart(NamedTuple):
    """Where a run is to begin, and the steps that led there."""

    ids: Ids
    weights: Vector
    t: int


def as_weights(
    over: Any, ridge: Any, table: TableAtoms | None, n: int, exclude: Ids, *, kinds: tuple[Objective, Method]
) -> WeightSet | None:
    """Check what weights may be, for such an objective and method; None: the plain hull.

    Methods that know the hull alone are refused, and cones that nothing bounds.
    """
    over, paid = read_weights(over, ridge, table)
    found: WeightSet | None = over.bind(n, paid, exclude)
    if found is None:
        return None
    objective, method = kinds
    only = "FullyCorrective for a cap, a cone, a ridge or `at_most`"
    validate.require(isinstance(method, FullyCorrective), "method", only, describe_method(method))
    bounded = not found.free or (objective.quadratic and hasattr(objective, "residual"))
    rule = "a cone with a cap, a mass or a ridge, but for SquaredDistance and LeastSquares"
    validate.require(bounded, "over", rule, f"{over!r} for {objective!r}")
    return found


def read_weights(over: Any, ridge: Any, table: TableAtoms | None) -> tuple[Hull | Cone, float]:
    """Check a set and a ridge; caps of a table are those of its rows that are kept."""
    validate.kind(over, "over", "Hull() or Cone()", Hull, Cone)
    paid = validate.number(ridge, "ridge", low=0.0)
    validate.require(paid < math.inf, "ridge", "finite", ridge)
    if table is not None and isinstance(over.cap, np.ndarray):
        over = replace(over, cap=table.pick(over.cap, "cap"))
    return over, paid


def describe_weights(over: Hull | Cone, ridge: float) -> str:
    """What weights may be, in a word."""
    return f"{over!r}, ridge={ridge!r}" if ridge > 0.0 else repr(over)


def as_start(
    start: Result | tuple[ArrayLike, ArrayLike] | None,
    table: TableAtoms | None,
    n: int,
    exclude: Ids,
    over: WeightSet | None = None,
) -> WarmStart | None:
    """Check a warm start."""
    if start is None:
        return None
    given, shares, t = (start.ids, start.weights, start.steps) if isinstance(start, Result) else (*start, 0)
    ids = validate.ids(to_places(table, given, "start"), "start ids", n)
    weights = validate.vector(shares, "start weights", size=len(ids))
    validate.require(not np.isin(ids, exclude).any(), "start ids", "none of `exclude`", "some of them")
    if over is not None:
        most = caps_of(over, ids) * (1.0 + 1e-6)
        good = bool((weights >= 0.0).all() and (weights <= most).all())
        good = good and bool(weights.sum() <= over.total * (1.0 + 1e-6))
        full = over.at_most or bool(weights.sum() >= over.total * (1.0 - 1e-6))
        validate.require(
            good and full, "start weights", "weights of the set `over`", f"sum {weights.sum():g}"
        )
        held = weights > 0.0
        within = fill(over, weights[held], caps_of(over, ids[held]), np.arange(held.sum()))
        return WarmStart(ids[held], within, t) if held.any() else None
    good = len(ids) > 0 and bool((weights >= 0.0).all()) and abs(weights.sum() - 1.0) <= 1e-6
    validate.require(good, "start weights", ">= 0 with sum 1", f"sum {weights.sum():g} of {len(ids)} weights")
    return WarmStart(ids, weights / weights.sum(), t)


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
