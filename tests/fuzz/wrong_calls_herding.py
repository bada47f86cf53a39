"""Wrong uses of herding and of policies: what is called, what the error must name.

Every call must raise ValueError or TypeError, with one line that holds the words.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

import wolfhound
import wolfhound.herding
import wolfhound.herding.in_features
import wolfhound.herding.select
import wolfhound.paper.sublinear_herding
import wolfhound.policy
from tests.fuzz.wrong_calls import Wrong
from tests.policy.deep import Bandit

# Without their types: wrong calls are the point.
wh: Any = wolfhound
hd: Any = wolfhound.herding
picks: Any = wolfhound.herding.in_features
Selector: Any = wolfhound.herding.select.HerdingSelector
Sublinear: Any = wolfhound.paper.sublinear_herding.SublinearHerding
pl: Any = wolfhound.policy
ag: Any = wolfhound.policy

ROWS = np.random.default_rng(0).standard_normal((40, 3))
BY = np.arange(40) % 3
MASKED = np.ma.masked_greater(ROWS, 1.0)
KERNEL = hd.Gaussian(1.0)
FIRST = wh.herd(ROWS, 3)
ACMDP = pl.random_acmdp(4, 20, 3)
ACTIONS = ACMDP.actions
POINT = [[0.2, 0.3, 0.5]]
ENV = Bandit(4)
SET = pl.ActionSet(ROWS)
AGENT = ag.SFWPO(ENV, SET, settings=ag.Settings(hidden=4))

Table = Mapping[str, Mapping[str, tuple[object, str]]]

CALLABLES: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "herd": (wh.herd, {"atoms": ROWS, "m": 5}),
    "herd by": (wh.herd, {"atoms": ROWS, "m": 5, "by": BY}),
    "herd_in_features": (wh.herd_in_features, {"atoms": ROWS, "m": 5, "features": ROWS}),
    "herd_in_features again": (wh.herd_in_features, {"atoms": ROWS, "m": 5, "features": ROWS}),
    "extend": (FIRST.extend, {"m": 5}),
    "plot": (FIRST.plot, {}),
    "Gaussian": (hd.Gaussian, {}),
    "Laplace": (hd.Laplace, {}),
    "Stein": (hd.Stein, {}),
    "with_scores": (hd.with_scores, {"atoms": ROWS, "scores": ROWS}),
    "mmd": (hd.mmd, {"left": ROWS, "right": ROWS, "kernel": KERNEL}),
    "Reference.of": (hd.Reference.of, {"rows": ROWS, "kernel": KERNEL}),
    "Reference.draw": (hd.Reference.draw, {"atoms": ROWS, "kernel": KERNEL, "rng": np.random.default_rng(0)}),
    "features": (KERNEL.features, {"dim": 3, "count": 4, "rng": np.random.default_rng(0)}),
    "feature_mean": (hd.feature_mean, {"atoms": ROWS, "features": hd.Identity(3)}),
    "pick_in_features": (picks.pick_in_features, {"atoms": ROWS, "m": 5}),
    "SublinearHerding": (Sublinear, {}),
    "selector": (lambda **options: Selector(**options).fit(ROWS, BY), {}),
    "selector.fit": (Selector(5).fit, {"X": ROWS, "y": BY}),
    "ActionSet": (pl.ActionSet, {"atoms": ROWS}),
    "argmax": (ACTIONS.argmax, {"directions": POINT}),
    "subset": (ACTIONS.subset, {}),
    "project": (ACTIONS.project, {"points": POINT}),
    "prove": (ACTIONS.prove, {"point": POINT[0]}),
    "neighbours": (ACTIONS.neighbours, {"points": POINT, "k": 2}),
    "draw": (ACTIONS.draw, {"ids": [[1, 2]], "weights": [[0.5, 0.5]]}),
    "random": (ACTIONS.random, {"m": 2}),
    "ACMDP": (
        pl.ACMDP,
        {
            "reward": ACMDP.reward,
            "transition": ACMDP.transition,
            "gamma": 0.9,
            "start": ACMDP.start,
            "actions": ACTIONS,
        },
    ),
    "with_actions": (ACMDP.with_actions, {}),
    "atoms_of": (ACMDP.atoms_of, {}),
    "evaluate": (ACMDP.evaluate, {}),
    "check": (ACMDP.check, {"policy": ACMDP.atoms_of([0, 1, 2, 3])}),
    "random_acmdp": (pl.random_acmdp, {"states": 4, "n": 20, "dim": 3}),
    "QuadraticReward": (pl.QuadraticReward, {"weights": ROWS, "centres": ROWS, "curvature": 1.0}),
    "SmoothReward": (pl.SmoothReward, {"value": len, "gradient": len, "smoothness": 1.0}),
    "SmoothTransition": (pl.SmoothTransition, {"value": len, "gradient": len, "smoothness": 1.0}),
    "Backtracking": (pl.Backtracking, {}),
    "fwpo": (pl.fwpo, {"acmdp": ACMDP}),
    "sfwpo": (pl.sfwpo, {"acmdp": ACMDP}),
    "policy_iteration": (pl.policy_iteration, {}),
    "scales": (pl.scales, {}),
    "policy_plan": (pl.policy_plan, {"acmdp": ACMDP, "c": 0.9, "eps": 0.1, "delta": 0.1}),
    "policy_steps": (
        pl.policy_steps,
        {"eps": 0.1, "c": 0.9, "span": 1.0, "largest": 1.0, "curvature": 0.0, "least": 0.1},
    ),
    "SFWPO": (ag.SFWPO, {"env": ENV, "actions": SET}),
    "Settings": (ag.Settings, {}),
    "HullDecision": (ag.HullDecision, {}),
    "Agent": (ag.Agent, {"env": ENV, "actions": SET, "rule": pl.FrankWolfeRule()}),
    "learn": (AGENT.learn, {"total_timesteps": 4}),
    "predict": (AGENT.predict, {"observation": np.zeros(2)}),
    "decide": (AGENT.decide, {}),
    "evaluate a policy": (pl.evaluate, {"policy": len, "env": ENV}),
}
"""What can be called, and arguments that are right: a wrong use changes one of them."""

FLAGS = "must be True or False"

USES: Table = {
    "herd": {
        "atoms": (MASKED, "without masked entries"),
        "m": (2.5, "must be an integer"),
        "kernel": (hd.Gaussian, "a kernel such as Gaussian(). Got the class Gaussian"),
        "target": (MASKED, "without masked entries"),
        "by": (np.ma.masked_less(BY, 1), "without masked entries"),
        "balanced": ("no", FLAGS),
        "start": (np.ma.masked_less([0, 1], 1), "without masked entries"),
        "exclude": ([40], "ids in [0, 40)"),
        "weights": (np.ones(40), f"{FLAGS}. Got an array of float64, shape (40,)"),
        "swap": (1, FLAGS),
        "row_weights": (np.ma.masked_less(np.ones(40), 2.0), "without masked entries"),
        "candidates": ("all", "an integer >= 1"),
        "max_seconds": (None, "a number >= 0"),
        "callback": ("print", "a function of a state"),
        "seed": (0.5, "an integer >= 0"),
        "evaluate": (None, FLAGS),
    },
    "herd by": {"weights": ("fit", FLAGS), "balanced": (None, FLAGS)},
    "herd_in_features": {
        "atoms": (MASKED, "without masked entries"),
        "m": (2.5, "must be an integer"),
        "features": (dict, "Got the class dict"),
        "target": (MASKED, "without masked entries"),
        "start": (np.ma.masked_less([0, 1], 1), "without masked entries"),
        "exclude": ([40], "ids in [0, 40)"),
        "row_weights": (np.ma.masked_less(np.ones(40), 2.0), "without masked entries"),
        "oracle": (5, "an oracle such as Scan(atoms), or what makes one, such as Scan. Got 5"),
        "step": (5, "a step such as LineSearch(). Got 5"),
        "max_seconds": (None, "a number >= 0"),
        "callback": ("print", "a function of a state"),
        "seed": (0.5, "an integer >= 0"),
        "evaluate": (None, FLAGS),
    },
    "herd_in_features again": {
        "oracle": (lambda atoms: None, "what makes one, such as Scan. Got what makes None"),
        "step": (wh.LineSearch, "a step such as LineSearch(). Got the class LineSearch"),
    },
    "extend": {
        "m": ("all", "an integer >= 1"),
        "callback": (5, "a function of a state"),
        "by": (BY, "`atoms` must be given"),
    },
    "plot": {"path": (5, "a path"), "title": (np.zeros(3), "a string")},
    "Gaussian": {"lengthscale": (1e-300, "in [1e-150, 1e+150]: scale the rows. Got 1e-300")},
    "Laplace": {"lengthscale": (math.nan, "a number > 0. Got nan")},
    "Stein": {"lengthscale": ("median", "a number > 0. Got 'median'")},
    "with_scores": {"scores": (MASKED, "without masked entries")},
    "mmd": {
        "kernel": (None, "a kernel such as Gaussian(). Got None"),
        "left_weights": ([1.0], "a vector of length 40"),
    },
    "Reference.of": {
        "rows": (5.0, "an array with 2 axes"),
        "kernel": ("gaussian", "Got 'gaussian'"),
        "exact": (5, FLAGS),
    },
    "Reference.draw": {"rng": (0, "a numpy.random.Generator. Got 0"), "kernel": (0.5, "Got 0.5")},
    "features": {"rng": (None, "a numpy.random.Generator"), "count": (0, ">= 1")},
    "feature_mean": {"features": (len, "a map such as Identity(d)")},
    "pick_in_features": {
        "features": (5, "a map such as Identity(d). Got 5"),
        "oracle": (set(), "an oracle such as Scan(atoms)"),
        "method": (np.zeros((2, 2)), "FrankWolfe, SublinearFrankWolfe or SublinearHerding"),
        "limits": (10, "Limits(...)"),
        "seed": ("0", "an integer >= 0. Got '0'"),
    },
    "SublinearHerding": {"ratio": ("0.9", "a number"), "exact": (5, "an oracle such as Scan(atoms)")},
    "selector": {
        "by_label": ("auto", "True, False or None"),
        "n_rows": (2, "at least 3, one row of every class of y (or `by_label` False)"),
        "random_state": (-1, "an integer >= 0"),
        "weights": ("balanced", FLAGS),
        "kernel": ("rbf", "one of gaussian, laplace, linear, stein. Got 'rbf'"),
    },
    "selector.fit": {"y": (np.ma.masked_less(BY, 1), "without masked entries")},
    "ActionSet": {
        "atoms": (MASKED, "without masked entries"),
        "oracle": (5, "an oracle such as Scan(atoms). Got 5"),
        "cache": (-1, "an integer >= 0"),
        "seed": (None, "an integer >= 0"),
    },
    "argmax": {
        "directions": (np.zeros(3), "an array with 2 axes"),
        "points": ([[1.0]], "a (1, 3) array"),
        "thresholds": ("low", "an array of real numbers"),
        "subset": ([99], "ids in [0, 20)"),
    },
    "subset": {"ids": ([], "at least one id")},
    "project": {"points": ([[math.nan] * 3], "finite"), "steps": (None, "an integer >= 0")},
    "prove": {"point": ([1.0], "a vector of length 3"), "rtol": ("tight", "a number")},
    "neighbours": {"k": (0, "an integer >= 1")},
    "draw": {
        "ids": ([[1, 20]], "ids in [0, 20). Got 1 .. 20"),
        "weights": ([[0.5, 0.6]], ">= 0 with rows of sum 1"),
        "seed": ("0", "an integer >= 0. Got '0'"),
    },
    "random": {"m": (0, "an integer >= 1"), "seed": (np.random, "an integer >= 0")},
    "ACMDP": {
        "reward": (None, "an array of real numbers. Got None"),
        "transition": ("matrix", "an array of real numbers. Got 'matrix'"),
        "gamma": ("0.9", "a number >= 0. Got '0.9'"),
        "start": (np.ma.masked_less(np.full(4, 0.25), 1.0), "without masked entries"),
        "actions": (None, "an array of real numbers. Got None"),
        "subsets": (5, "a list of vectors of ids. Got 5"),
    },
    "with_actions": {"actions": (ROWS, "an ActionSet. Got an array")},
    "atoms_of": {"ids": ([0, 1, 2, 20], "ids in [0, 20)")},
    "evaluate": {"policy": (None, "an array of real numbers")},
    "check": {"rtol": (None, "a number >= 0"), "policy": (ROWS[:2], "of shape (4, 3)")},
    "random_acmdp": {"dim": ("3", "an integer >= 1"), "curvature": (set(), "a number >= 0")},
    "QuadraticReward": {"curvature": ("1", "a number >= 0"), "centres": (ROWS[:2], "like `weights`")},
    "SmoothReward": {
        "value": (5, "a function of a policy. Got 5"),
        "gradient": (None, "a function of a policy. Got None"),
        "concave": ("yes", FLAGS),
    },
    "SmoothTransition": {"gradient": (np.zeros(3), "a function of a policy and values")},
    "Backtracking": {"share": (None, "a number")},
    "fwpo": {
        "acmdp": (None, "an ACMDP. Got None"),
        "step": (pl.PerState, "a step such as PerState(). Got the class PerState"),
        "start": ([0, 1], "4 ids"),
        "callback": (5, "a function of a PolicyState"),
        "max_steps": (math.nan, "a number"),
        "seed": ("0", "an integer >= 0"),
    },
    "sfwpo": {
        "acmdp": (pl.ACMDP, "an ACMDP. Got the class ACMDP"),
        "ratio": ("0.8", "a number in (0, 1]"),
        "confirm": ("no", FLAGS),
        "insist": (None, FLAGS),
    },
    "policy_iteration": {"acmdp": (5, "an ACMDP. Got 5")},
    "scales": {"acmdp": ("x", "an ACMDP. Got 'x'")},
    "policy_plan": {"acmdp": (set(), "an ACMDP"), "eps": (math.inf, "finite"), "c": (None, "(0, 1]")},
    "policy_steps": {"span": (None, "a number >= 0"), "least": ("0", "(0, 1]"), "error": ("0", "a number")},
    "SFWPO": {
        "env": (None, "a batched or a Gymnasium environment"),
        "actions": (5, "an array with 2 axes"),
        "decision": (5, "a HullDecision(...). Got 5"),
        "execution": (ag.Mix, "Mix(), Nearest() or Draw(). Got the class Mix"),
        "critic_features": (5, "a function of observations and actions"),
    },
    "Settings": {
        "gamma": (None, "a number in [0, 1)"),
        "tau": ("0.1", "a number in (0, 1]"),
        "hidden": (2.0, "an integer >= 1"),
    },
    "HullDecision": {"exploration": (set(), "a number in [0, 1]")},
    "Agent": {
        "rule": (pl.FrankWolfeRule, "a rule such as FrankWolfeRule(). Got the class FrankWolfeRule"),
        "settings": ({"seed": 1}, "Settings(...). Got {'seed': 1}"),
    },
    "learn": {
        "total_timesteps": (1e4, "an integer >= 1"),
        "callback": (5, "a function of a Training"),
        "log": (5, "a path. Got 5"),
        "max_seconds": (-1.0, "a number >= 0"),
        "reset_num_timesteps": (None, FLAGS),
    },
    "predict": {
        "observation": (np.ma.masked_less(np.zeros(2), 1.0), "without masked entries"),
        "deterministic": (None, FLAGS),
    },
    "decide": {"observation": ("now", "an array of real numbers")},
    "evaluate a policy": {
        "policy": (None, "a function of observations"),
        "env": (None, "a Gymnasium environment. Got None"),
        "episodes": (0, "an integer >= 1"),
    },
}
"""By what is called: the argument, a wrong value, what the error says beside the argument's name."""


def _uses() -> Iterator[Wrong]:
    for name, wrongs in USES.items():
        function, right = CALLABLES[name]
        for argument, (value, words) in wrongs.items():
            given = {**right, argument: value}

            def call(function: Callable[..., Any] = function, given: dict[str, Any] = given) -> object:
                return function(**given)

            yield Wrong(f"{name}({argument})", call, (f"`{argument}`", words))


HUGE, SMALL = 1e158 * ROWS, 1e-158 * ROWS

SIZES = [
    Wrong("rows of 1e158", lambda: wh.herd(HUGE, 5), ("`atoms` must be of moderate size", "scale them")),
    Wrong("rows of 1e-158", lambda: wh.herd(SMALL, 5), ("`atoms` must be of moderate size", "scale them")),
    Wrong(
        "rows of 1e158, linear",
        lambda: wh.herd(HUGE, 5, kernel=hd.Linear()),
        ("`atoms`", "moderate", "scale"),
    ),
    Wrong(
        "rows of 1e-40 in float32",
        lambda: wh.herd((1e-40 * ROWS).astype(np.float32), 5),
        ("`lengthscale` must be in [1e-18, 1e+18] for float32 rows",),
    ),
    Wrong(
        "many rows of 1e-45",
        lambda: wh.herd(1e-45 * np.arange(11_000.0)[:, None], 5, candidates=50),
        ("`lengthscale` must be larger", "scale the rows"),
    ),
    Wrong(
        "many rows of 1e40",
        lambda: wh.herd(1e40 * np.arange(11_000.0)[:, None], 5, candidates=50),
        ("`atoms` must be of moderate size", "scale them"),
    ),
]
"""Rows of extreme sizes."""

CALLS: list[Wrong] = [*_uses(), *SIZES]
