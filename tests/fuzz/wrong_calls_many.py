"""Wrong uses of `minimize_many` and of what it gives back: what is called, what the error must name."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import datetime
import functools
import math
from collections.abc import Iterator
from typing import Any

import numpy as np

import wolfhound
from tests.fuzz.wrong_calls import Wrong

# Without their types: wrong calls are the point.
wh: Any = wolfhound

ROWS = np.random.default_rng(0).standard_normal((40, 3))
TARGETS = np.random.default_rng(1).standard_normal((4, 3))
HOLE = np.where(np.arange(12).reshape(4, 3) == 7, np.nan, TARGETS)
RESULT = wh.minimize_many(TARGETS, ROWS)
HERE = __file__

GIVEN: dict[str, tuple[Any, tuple[str, ...]]] = {
    "None": (None, ("`targets`", "array of real numbers")),
    "path": ("pixels.npy", ("`targets`", "array of real numbers", "'pixels.npy'")),
    "vector": (TARGETS[0], ("`targets`", "(m, 3)", "shape (3,)")),
    "number": (3.0, ("`targets`", "(m, 3)")),
    "narrow": (TARGETS[:, :2], ("`targets`", "as wide as the atoms", "(4, 2)")),
    "wide cube": (np.zeros((2, 2, 4)), ("`targets`", "(rows, columns, 3)", "(2, 2, 4)")),
    "complex": (TARGETS * 1j, ("`targets`", "array of real numbers")),
    "text": ([["a", "b", "c"]], ("`targets`", "array of real numbers")),
    "objects": (np.array([[None, 1, 2]], object), ("`targets`", "array of real numbers")),
    "dates": (np.zeros((2, 3), "M8[s]"), ("`targets`", "array of real numbers")),
    "nan": (HOLE, ("`targets`", "finite", "nan in target 2", "`skip=True`")),
    "inf": (np.full((2, 3), np.inf), ("`targets`", "finite", "inf in target 0")),
    "huge": (1e200 * TARGETS, ("`targets`", "at most 1e+150", "scale the problem")),
    "ragged": ([[1.0, 2.0, 3.0], [1.0]], ("`targets`", "length 3", "length 1 in target 1", "`skip=True`")),
    "ragged text": ([[1.0, 2.0, 3.0], ["a"]], ("`targets[1]`", "real numbers")),
    "no objective": ([wh.SquaredDistance([1.0, 2.0, 3.0]), TARGETS[0]], ("`targets[1]`", "an objective")),
    "classes": ([wh.SquaredDistance], ("`targets[0]`", "an objective")),
    "other width": ([wh.SquaredDistance([1.0, 2.0])], ("`targets[0]`", "dimension 3", "2")),
}

OPTIONS: list[tuple[str, Any, tuple[str, ...]]] = [
    ("rtol", -1.0, (">= 0", "-1")),
    ("rtol", math.nan, (">= 0", "nan")),
    ("rtol", "1e-6", (">= 0", "'1e-6'")),
    ("rtol", None, (">= 0", "None")),
    ("rtol", True, (">= 0", "True")),
    ("atol", -1e-9, (">= 0",)),
    ("atol", [0.1], (">= 0",)),
    ("atol", 1j, (">= 0",)),
    ("max_seconds", -1, (">= 0", "-1")),
    ("max_seconds", "60", (">= 0", "'60'")),
    ("max_seconds", datetime.timedelta(seconds=1), ("timedelta",)),
    ("max_memory", 0, ("> 0", "0")),
    ("max_memory", -1e9, ("> 0",)),
    ("max_memory", "1 cow", ("1 cow",)),
    ("max_atoms", 0, (">= 1", "0")),
    ("max_atoms", -3, (">= 1",)),
    ("max_atoms", 2.5, ("integer", "2.5")),
    ("max_atoms", "3", ("integer", "'3'")),
    ("over", True, ("Hull() or Cone()", "True")),
    ("over", "cone", ("Hull() or Cone()", "'cone'")),
    ("ridge", -1.0, (">= 0", "-1")),
    ("ridge", math.inf, ("finite", "inf")),
    ("skip", 0, ("True or False", "0")),
    ("skip", None, ("True or False",)),
    ("callback", 5, ("function of a ManyState", "5")),
    ("callback", "stop", ("function of a ManyState", "'stop'")),
    ("seed", -1, ("seed",)),
    ("seed", 1.5, ("seed", "1.5")),
    ("seed", "zero", ("seed", "'zero'")),
    ("out", "", ("a path",)),
    ("out", 5, ("path", "5")),
    ("out", HERE, ("folder", "wrong_calls_many.py")),
    ("exclude", [40], ("ids in [0, 40)", "40")),
    ("exclude", [-1], ("ids in [0, 40)", "-1")),
    ("exclude", [1, 1], ("distinct",)),
    ("exclude", ["a"], ("integer ids",)),
    ("exclude", [0.5], ("integer ids",)),
    ("exclude", range(40), ("fewer than all atoms", "40")),
    ("exclude", [[1]], ("4 vectors of ids", "1")),
    ("exclude", np.zeros((5, 1), np.int64), ("4 vectors of ids", "5")),
    ("exclude", np.full((4, 1), 40), ("padded with -1", "40")),
    ("exclude", np.full((4, 1), -2), ("padded with -1", "-2")),
    ("exclude", np.zeros((4, 2), np.int64), ("distinct ids for each target",)),
]

ATOMS: dict[str, tuple[Any, tuple[str, ...]]] = {
    "None": (None, ("`atoms`",)),
    "vector": (ROWS[0], ("`atoms`",)),
    "empty": (ROWS[:0], ("`atoms`",)),
    "nan": (np.where(ROWS > 1.5, np.nan, ROWS), ("`atoms`", "finite")),
    "huge": (1e200 * ROWS, ("`atoms`",)),
    "objective": (wh.SquaredDistance([1.0, 2.0, 3.0]), ("`atoms`",)),
}

LISTED = [wh.SquaredDistance(TARGETS[0]), wh.LeastSquares(ROWS[:9], np.ones(9))]


def _wrong() -> Iterator[Wrong]:
    solve = functools.partial
    for name, (targets, words) in GIVEN.items():
        yield Wrong(f"many, targets {name}", solve(wh.minimize_many, targets, ROWS), words)
    for kind, atoms in {"array": ROWS, "oracle": wh.RandomSubset(ROWS, size=30)}.items():
        for i, (option, value, words) in enumerate(OPTIONS):
            call = solve(wh.minimize_many, TARGETS, atoms, **{option: value})
            yield Wrong(f"many, {kind}, {option} {i}", call, (f"`{option}", *words))
    for name, (given, words) in ATOMS.items():
        yield Wrong(f"many, atoms {name}", solve(wh.minimize_many, TARGETS, given), words)
    for option, value in {"out": "run", "max_atoms": 2}.items():
        call = solve(wh.minimize_many, LISTED, ROWS, **{option: value})
        yield Wrong(f"many, listed, {option}", call, (f"`{option}`",))


def _results() -> Iterator[Wrong]:
    yield Wrong("many result, x beyond", lambda: RESULT.x(4), ("`i`", "[0, 4)", "4"))
    yield Wrong("many result, x before", lambda: RESULT.x(-5), ("`i`", "[0, 4)", "-5"))
    yield Wrong("many result, few atoms", lambda: RESULT.to_dense(1), ("`n`", ">"))
    yield Wrong("many result, half an atom", lambda: RESULT.to_dense(40.5), ("`n`", "integer"))
    yield Wrong("many result, save a number", lambda: RESULT.save(5), ("`path`", "5"))
    yield Wrong("many result, save to a folder", lambda: RESULT.save("/"), ("`path`",))
    yield Wrong("many result, load nothing", lambda: wh.ManyResult.load("none"), ("`path`", "none"))


CALLS = [*_wrong(), *_results()]
