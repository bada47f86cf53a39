"""Weights other than those of the plain hull, over hostile atoms, judged exactly.

Every set by every objective on every oracle: ``lower <= min F <= F(weights) <= value`` where F has price and
ridge, weights within their caps and sum, GAP_REACHED where it is true. A batch is one set of atoms.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import contextlib
import math
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import numpy as np

from tests import weight_sets
from tests.fuzz import cells, exact, hostile
from tests.fuzz.problems import CLEAR, OPEN, RTOLS, TRUSTED, UNDERFLOW, draw_rows, refuse
from tests.fuzz.supervise import Findings
from wolfhound import Cone, FullyCorrective, Hull, LeastSquares, Result, Status, minimize, minimize_many
from wolfhound.core.contracts import Oracle, WeightSet
from wolfhound.core.rounding import UNIT
from wolfhound.core.weights import caps_of
from wolfhound.many.solve import SMALL

FEW = 3
"""Atoms up to which the exact minimum is known."""

MANY = 300
"""Atoms that may be used in all calls but one per batch: caps and ridges keep as many active, which takes
the cube of their number."""

SETS = (
    "ridge",
    "cap",
    "caps",
    "at most",
    "at most, cap, ridge",
    "cone",
    "cone, price",
    "cone, ridge",
    "cone, cap",
    "cone, mass",
    "cone, all",
)


class Call(NamedTuple):
    """One call of `minimize`, and the cell that it counts for."""

    label: str
    cell: str
    problem: cells.Problem
    oracle: Oracle
    over: Hull | Cone
    ridge: float
    rtol: float
    banned: hostile.Array
    seed: int

    def __call__(self) -> Result:
        """Solve."""
        return minimize(
            self.problem.objective,
            self.oracle,
            over=self.over,
            ridge=self.ridge,
            rtol=self.rtol,
            method=FullyCorrective(),
            exclude=self.banned,
            max_passes=60.0,
            seed=self.seed,
        )


def judge(seed: int, batch: int) -> Iterator[str | Findings]:
    """Solve over every set, on every oracle of one set of atoms; the objectives take turns."""
    rng = np.random.default_rng([seed, batch])
    with tempfile.TemporaryDirectory() as folder:
        rows = draw_rows(rng, batch, Path(folder))
        for place, (name, make) in enumerate(cells.ORACLES.items()):
            found, label = Findings(), f"{seed}/{batch} {rows.name}, {name}"
            yield label
            try:
                oracle = make(rows.given, rng)
            except Exception as error:
                refuse(found, label, error, rows.values)
            else:
                whole = SETS[batch % len(SETS)] if place == batch % len(cells.ORACLES) else ""
                for call in draw_calls(rng, batch + place, rows, (name, oracle), label, whole=whole):
                    yield call.label
                    solve(found, call, rows.values)
            yield found


def draw_calls(
    rng: np.random.Generator,
    turn: int,
    rows: hostile.Rows,
    oracle: tuple[str, Oracle],
    label: str,
    *,
    whole: str,
) -> Iterator[Call]:
    """Draw a problem for every set; that of the set `whole` may use any number of atoms."""
    for place, name in enumerate(SETS):
        kind = cells.SIGNED[(turn + place) % len(cells.SIGNED)]
        if rows.values.min() >= 0.0 and rows.values.max() > 0.0 and (turn + place) % 3 == 0:
            kind = cells.mixture
        banned = hostile.draw_banned(rng, rows.values)
        left = np.setdiff1d(np.arange(len(rows.values)), banned)
        if len(left) > MANY and name != whole:
            banned = np.concatenate([banned, rng.choice(left, len(left) - MANY, replace=False)])
        try:
            problem = kind(rng, rows.values)
            over, ridge = draw_set(rng, name, problem, rows.values, banned)
        except CLEAR:  # numbers that are refused
            continue
        yield Call(
            label=f"{label}, {problem.name}, {name}: {over!r}, ridge {ridge!r}",
            cell=f"{problem.name}|{name}|{oracle[0]}",
            problem=problem,
            oracle=oracle[1],
            over=over,
            ridge=ridge,
            rtol=float(rng.choice(RTOLS)),
            banned=banned,
            seed=int(rng.integers(1 << 31)),
        )


def draw_set(
    rng: np.random.Generator, name: str, problem: cells.Problem, values: hostile.Array, banned: hostile.Array
) -> tuple[Hull | Cone, float]:
    """Draw a set whose price and ridge are of the size of the problem, or far from it."""
    n, left = len(values), len(values) - len(np.unique(banned))
    with np.errstate(all="ignore"):
        rows = values.astype(np.float64)
        slopes = rows @ problem.objective.at(rows.mean(axis=0)).grad
        steep, size = float(np.abs(slopes).max()), float(np.square(rows).sum(axis=1).max())
    price, ridge = (
        10.0 ** rng.uniform(-6.0, 2.0) * (x if 1e-290 < x < 1e290 else 1.0) for x in (steep, size)
    )
    cap = min(float(rng.choice([1.0, 1.001, 1.5, 3.0, 50.0])) / left * (1.0 + 8.0 * UNIT * n), 1.0)
    caps = np.maximum(rng.uniform(0.5, 2.0, n), 1.0) * cap
    least, convex = problem.name in ("SquaredDistance", "LeastSquares"), problem.objective.convex
    bounded = {"cap": float(rng.choice([0.01, 1.0, 100.0]))} if not least else {}
    drawn: dict[str, tuple[Hull | Cone, float]] = {
        "ridge": (Hull(), ridge),
        "cap": (Hull(cap=cap), 0.0),
        "caps": (Hull(cap=caps), float(rng.choice([0.0, ridge]))),
        "at most": (Hull(at_most=True), 0.0),
        "at most, cap, ridge": (Hull(at_most=True, cap=0.7 * cap), float(rng.choice([0.0, ridge]))),
        "cone": (Cone(**bounded), 0.0),
        "cone, price": (Cone(price=price, **bounded), 0.0),
        "cone, ridge": (Cone(float(rng.choice([0.0, price])), **({} if convex else {"cap": 1.0})), ridge),
        "cone, cap": (Cone(cap=caps * float(rng.choice([0.1, 1.0, 30.0]))), 0.0),
        "cone, mass": (Cone(mass=float(rng.choice([0.1, 1.0, 30.0]))), 0.0),
        "cone, all": (Cone(price=price, cap=cap, mass=2.0), ridge),
    }
    return drawn[name]


def solve(found: Findings, call: Call, values: hostile.Array) -> None:
    """Solve and judge."""
    try:
        result = call()
    except Exception as error:
        refuse(found, call.label, error, values)
        return
    found.counts["problems over sets"] += 1
    found.counts[call.cell] += 1
    found.counts[result.status.name] += 1
    wrong = judge_result(result, call, values)
    if call.problem.name == "SquaredDistance":
        wrong += [f"many: {text}" for text in solve_many(found, call, values, result)]
    found.violations.extend(f"{call.label}, rtol {call.rtol}, seed {call.seed}: {text}" for text in wrong)


def solve_many(found: Findings, call: Call, values: hostile.Array, alone: Result) -> list[str]:
    """Solve it by `minimize_many`, twice in one call, and judge the second answer as one of `minimize`.

    In every second call few atoms are solved as many are, without a Gram matrix of all.
    """
    target: hostile.Array = getattr(call.problem.objective, "target")  # noqa: B009
    options: dict[str, Any] = {
        "over": call.over,
        "ridge": call.ridge,
        "rtol": call.rtol,
        "exclude": call.banned,
    }
    try:
        with mock.patch("wolfhound.many.solve.SMALL", SMALL * (call.seed % 2)):
            many = minimize_many(np.stack([target, target]), call.oracle, seed=call.seed, **options)
    except CLEAR:
        return []
    here = slice(many.indptr[1], many.indptr[2])
    answer = replace(
        alone,
        ids=many.ids[here],
        weights=many.weights[here],
        x=many.x(1),
        value=float(many.value[1]),
        lower=float(many.lower[1]),
        goal=float(many.goal[1]),
        status=many.status[1],
        mass=math.inf if many.mass is None else float(many.mass[1]),
    )
    found.counts["many over sets"] += 1
    found.counts[f"many {answer.status.name}"] += 1
    return judge_result(answer, call, values)


# ---------------------------------------------------------------- judging


def judge_result(result: Result, call: Call, values: hostile.Array) -> list[str]:
    """Return what is wrong with an answer."""
    over = call.over.bind(len(values), call.ridge, call.banned) or WeightSet()
    wrong = judge_weights(result, over, call.banned, len(values))
    if wrong:
        return wrong
    here = value_at(call, over, values[result.ids], result.weights)
    room = Fraction(TRUSTED * size_of(result, call, over, values)) * call.problem.trusted
    if here is None or math.isinf(result.value):
        return [] if math.isinf(result.value) else [f"value {result.value} outside the domain"]
    if here.low > Fraction(result.value) + room:
        wrong.append(f"F(weights) {float(here.low)!r} > value {result.value!r}")
    best = best_known(result, call, over, values, here)
    if result.lower > -math.inf and Fraction(result.lower) > best + room:
        wrong.append(f"lower {result.lower!r} > min F {float(best)!r}")
    if result.status is Status.GAP_REACHED and not result.value - result.lower <= result.goal:
        wrong.append(f"GAP_REACHED with a gap of {result.gap} and a goal of {result.goal}")
    return wrong


def judge_weights(result: Result, over: WeightSet, banned: hostile.Array, n: int) -> list[str]:
    """Return what is wrong with ids and weights."""
    ids, weights, k = result.ids, result.weights, len(result.ids)
    sum_of, room = math.fsum(weights), 4.0 * UNIT * (k + 4)
    rules = {
        "some are active": k > 0 or over.at_most,
        "ids are distinct": len(np.unique(ids)) == k,
        "ids are in range": k == 0 or (ids.min() >= 0 and ids.max() < n),
        "none is excluded": not np.isin(ids, banned).any(),
        "weights are >= 0": bool((weights >= 0.0).all()),
        "weights are within their caps": bool((weights <= caps_of(over, ids)).all()),
        "weights have their sum": sum_of <= over.total * (1.0 + room),
        "weights have all of it": over.at_most or sum_of >= over.total * (1.0 - room),
        "weights are within the mass": sum_of <= result.mass,
    }
    return [f"not so: {rule}: {ids[:9]} {weights[:9]}" for rule, holds in rules.items() if not holds]


def value_at(
    call: Call, over: WeightSet, rows: hostile.Array, weights: hostile.Array
) -> exact.Between | None:
    """F at weights, exactly."""
    points, parts = exact.whole(rows), exact.whole(weights)
    if over.at_most:
        x = exact.Mixed(parts.numbers @ points.numbers, 1, points.exponent + parts.exponent)
    else:
        x = exact.mix(rows, weights)
    found = call.problem.value(x if len(rows) else exact.Mixed(np.array([0] * rows.shape[1], object), 1, 0))
    paid = weight_sets.paid(over, weight_sets.shares(over, weights))
    return None if found is None else exact.Between(found.low + paid, found.high + paid)


def best_known(
    result: Result, call: Call, over: WeightSet, values: hostile.Array, here: exact.Between
) -> Fraction:
    """The exact minimum where atoms are few, or the least exact value that is known."""
    kept = np.delete(np.arange(len(values)), call.banned)
    if call.problem.name in ("SquaredDistance", "LeastSquares") and len(kept) <= FEW:
        return least(result, call, over, values[kept], caps_of(over, kept))
    known = [here.high]
    with contextlib.suppress(*CLEAR):
        other = minimize(
            call.problem.objective,
            values,
            over=call.over,
            ridge=call.ridge,
            rtol=0.0,
            max_passes=9.0,
            exclude=call.banned,
            seed=1,
        )
        if other.weights.sum() <= result.mass:
            better = value_at(call, over, values[other.ids], other.weights)
            known.append(here.high if better is None else better.high)
    return min(known)


def least(result: Result, call: Call, over: WeightSet, rows: hostile.Array, caps: hostile.Array) -> Fraction:
    """The exact minimum of a quadratic; of a cone that holds a line, up to the mass that was proved."""
    objective = call.problem.objective
    points = [
        exact.images(getattr(objective, "design", None), exact.mix(row[None], np.ones(1))) for row in rows
    ]
    b = objective.response if isinstance(objective, LeastSquares) else getattr(objective, "target")  # noqa: B009
    target = weight_sets.fractions(b)
    bounded = over if math.isinf(result.mass) else replace(over, total=result.mass)
    return weight_sets.least(points, target, bounded, caps.tolist())


def size_of(result: Result, call: Call, over: WeightSet, values: hostile.Array) -> float:
    """Sizes that rounding is relative to: of f, its slopes and its curvature."""
    with np.errstate(all="ignore"):
        grad = call.problem.objective.at(result.x).grad
        mass = max(float(result.weights.sum()), min(over.total, 1.0))
        radius = float(np.abs(values).astype(np.float64).sum(axis=1).max()) * (1.0 + mass)
        size = abs(result.value) + float(np.abs(grad).max()) * radius
        size += call.problem.bend(result.x) * radius * radius + over.ridge * mass * mass
        size += UNDERFLOW / OPEN * (1.0 + radius * radius)
    return size if math.isfinite(size) else float(np.finfo(np.float64).max)
