"""One small result of every kind that a page can show."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

import wolfhound as wh
from wolfhound.policy import fwpo, random_acmdp

HOSTILE = '<script>alert("1")</script><img src=x onerror=alert(2)>&\'"'
"""A name that would run, if it were not escaped."""


def normal(n: int, d: int, seed: int = 0) -> np.ndarray[Any, np.dtype[np.float64]]:
    return np.random.default_rng(seed).standard_normal((n, d))


def run() -> wh.Result:
    names = [HOSTILE] * 2000
    return wh.minimize(wh.SquaredDistance(np.full(6, 2.0)), normal(2000, 6), names=names)


def trusted() -> wh.Result:
    f = wh.Custom(lambda x: (0.5 * float((x - 2.0) @ (x - 2.0)), x - 2.0), convex=True)
    return wh.minimize(f, normal(200, 3))


def unbounded() -> wh.Result:
    f = wh.Custom(lambda x: (0.5 * float((x - 2.0) @ (x - 2.0)), x - 2.0), convex=False)
    return wh.minimize(f, normal(200, 3), max_passes=2)


def many() -> wh.ManyResult:
    return wh.minimize_many(normal(60, 5, 1).reshape(6, 10, 5), normal(30, 5))


def herd() -> wh.HerdResult:
    rows = normal(600, 3)
    rows[5] = 1e6  # would squash a picture
    return wh.herd(rows, 20, by=np.where(rows[:, 0] > 0.5, HOSTILE, "other"))


def policy() -> object:
    return fwpo(random_acmdp(6, 40, 4, seed=0), rtol=1e-2)


def unknown_policy() -> object:
    return fwpo(random_acmdp(6, 40, 4, seed=0), max_seconds=0.0)


def design() -> wh.Design:
    factors = wh.Factors({HOSTILE: np.linspace(-1.0, 1.0, 5), "catalyst": ["none", HOSTILE]})
    return wh.design(factors, model=wh.Interactions())


def line_design() -> wh.Design:
    return wh.design(wh.Factors({"x": np.linspace(-1.0, 1.0, 21)}), model=wh.Quadratic())


def level_design() -> wh.Design:
    return wh.design(wh.Factors({"catalyst": ["none", "zinc", HOSTILE]}), model=wh.LinearModel())


def runs() -> object:
    return design().round(6)


def ellipsoid() -> object:
    return wh.enclosing_ellipsoid(normal(50, 2))


def mixture() -> wh.MixtureFit:
    return wh.npmle(range(8), wh.Poisson(), weights=[7840, 1317, 239, 42, 14, 4, 4, 1])


def weights() -> wh.WeightsFit:
    return wh.fit_weights(np.random.default_rng(0).random((40, 5)))


def plan() -> object:
    return wh.plan(n=10**6, d=64, ratio=0.9)


def choice() -> object:
    return wh.choose_oracle(np.zeros((1000, 8), np.float32), queries=100)


CASES: dict[str, Callable[[], Any]] = {
    "Result": run,
    "Result that is trusted": trusted,
    "Result without a bound": unbounded,
    "ManyResult": many,
    "HerdResult": herd,
    "TabularResult": policy,
    "TabularResult before a query": unknown_policy,
    "Design": design,
    "Design of one factor": line_design,
    "Design of one factor with levels": level_design,
    "ExactDesign": runs,
    "Ellipsoid": ellipsoid,
    "MixtureFit": mixture,
    "WeightsFit": weights,
    "Plan": plan,
    "Choice": choice,
    "several": lambda: {"first": run(), HOSTILE: mixture()},
}


@functools.cache
def make(name: str) -> Any:
    """The result of this name, made once."""
    return CASES[name]()
