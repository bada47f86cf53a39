"""Digests of what things are made of."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import functools
import subprocess
import sys
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import wolfhound as wh
from wolfhound.core.identity import identify, is_known

ROWS = np.arange(6.0).reshape(3, 2)


def value_and_grad(x: Any) -> Any:
    return 0.5 * float(x @ x), x


THINGS: dict[str, Any] = {
    "none": lambda: None,
    "number": lambda: 1.5,
    "other number": lambda: 1.25,
    "integer": lambda: 1,
    "true": lambda: True,
    "text": lambda: "1",
    "array": lambda: np.arange(6.0),
    "matrix": lambda: np.arange(6.0).reshape(2, 3),
    "turned": lambda: np.arange(6.0).reshape(3, 2),
    "single": lambda: np.arange(6.0, dtype=np.float32),
    "nested": lambda: [[1, 2]],
    "nested otherwise": lambda: [[1], 2],
    "tuple": lambda: (1, 2),
    "dict": lambda: {"a": 1},
    "generator": lambda: np.random.default_rng(0),
    "other generator": lambda: np.random.default_rng(1),
    "function": lambda: value_and_grad,
    "partial": lambda: functools.partial(value_and_grad, 1),
    "distance": lambda: wh.SquaredDistance([1.0, 2.0]),
    "other distance": lambda: wh.SquaredDistance([1.0, 2.5]),
    "squares": lambda: wh.LeastSquares(ROWS, [1.0, 2.0, 3.0]),
    "huber": lambda: wh.Huber(ROWS, [1.0, 2.0, 3.0]),
    "other huber": lambda: wh.Huber(ROWS, [1.0, 2.0, 3.0], delta=2.0),
    "logistic": lambda: wh.Logistic(ROWS, [1.0, -1.0, 1.0]),
    "mixture": wh.MixtureLikelihood,
    "custom": lambda: wh.Custom(value_and_grad, convex=True),
    "custom, not convex": lambda: wh.Custom(value_and_grad, convex=False),
    "method": wh.FullyCorrective,
    "other method": lambda: wh.FullyCorrective(harvest=7),
    "frank-wolfe": lambda: wh.FrankWolfe(wh.Away(), wh.OpenLoop(2.0)),
    "other step": lambda: wh.FrankWolfe(wh.Away(), wh.OpenLoop(3.0)),
    "sublinear": lambda: wh.SublinearFrankWolfe(exact=wh.Scan(ROWS)),
}


@pytest.mark.parametrize("name", THINGS)
def test_the_same_has_the_same_digest(name: str) -> None:
    assert identify(THINGS[name]()) == identify(THINGS[name]())


def test_others_have_other_digests() -> None:
    digests = {identify(make()) for make in THINGS.values()}
    assert len(digests) == len(THINGS)


def test_what_an_objective_learns_does_not_change_it() -> None:
    objective = wh.LeastSquares(ROWS, [1.0, 2.0, 3.0])
    before = identify(objective)
    assert objective.smoothness > 0.0  # computed once, and kept
    assert identify(objective) == before


def test_a_generator_that_was_used_is_another() -> None:
    used = np.random.default_rng(0)
    used.random()
    assert identify(used) != identify(np.random.default_rng(0))


@pytest.mark.slow
def test_another_process_finds_the_same_digest() -> None:
    script = (
        "import wolfhound as wh; from wolfhound.core.identity import identify;"
        "print(identify((wh.SquaredDistance([1.0, 2.0]), wh.FrankWolfe(lazy=True))))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == identify((wh.SquaredDistance([1.0, 2.0]), wh.FrankWolfe(lazy=True)))


@dataclass
class Mine:
    """A class whose code may change."""

    number: int


def test_what_is_known_by_its_name_only_is_told() -> None:
    rows, hidden = np.eye(3), np.array([None])
    ours: list[Any] = [
        wh.SquaredDistance(rows[0]),
        wh.LeastSquares(rows, rows[0]),
        wh.Logistic(rows, np.array([1.0, -1.0, 1.0])),
        wh.Huber(rows, rows[0], delta=1.0),
        wh.MixtureLikelihood(),
        {"a": [1, (2.0, "b")]},
        np.random.default_rng(0),
    ]
    assert all(map(is_known, ours))
    others: list[Any] = [len, hidden, [len], {"a": hidden}, object(), Mine(3)]
    assert not any(map(is_known, others))
