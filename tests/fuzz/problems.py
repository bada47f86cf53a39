"""Hostile problems, solved by every method on every oracle and judged exactly.

``lower <= min f <= f(weights) <= value``, weights on the simplex, ids in range and
distinct, GAP_REACHED and ROUNDING where they are true, warm starts no worse than cold ones. A batch
is one set of atoms.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import contextlib
import math
import tempfile
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tests.fuzz import cells, exact, hostile
from tests.fuzz.supervise import Findings
from wolfhound import Audited, RandomSubset, Result, Status, minimize
from wolfhound.core.contracts import Method, Oracle
from wolfhound.core.rounding import UNIT, WORTH
from wolfhound.data.store import StoreError

RTOLS = (1e-2, 1e-4, 1e-6, 1e-9, 1e-13, 0.0)
STEPS = (3, 30, 200)

TRUSTED = 2.0**-36
"""Rounding of a function of the caller's, relative to the sizes involved."""

OPEN = 1e-7
"""More than rounding can keep a gap open, relative to the sizes involved."""

UNDERFLOW = 1e-200
"""More than underflow can, of numbers near 1."""

EXTREME = 1e70
"""Largest size that no problem may be refused for."""

CLEAR = (ValueError, TypeError, FloatingPointError, StoreError)
"""Errors that say what is wrong."""


class Call(NamedTuple):
    """One call of `minimize`, and the cell that it counts for."""

    label: str
    cell: str
    problem: cells.Problem
    method: Method | None
    oracle: Oracle
    rtol: float
    steps: float
    banned: hostile.Array
    seed: int
    start: tuple[hostile.Array, hostile.Array] | None = None

    def __call__(self) -> Result:
        """Solve."""
        return minimize(
            self.problem.objective,
            self.oracle,
            method=self.method,
            rtol=self.rtol,
            max_steps=self.steps,
            exclude=self.banned,
            seed=self.seed,
            start=self.start,
        )


def judge(seed: int, batch: int) -> Iterator[str | Findings]:
    """Solve by every method on every oracle of one set of atoms."""
    rng = np.random.default_rng([seed, batch])
    with tempfile.TemporaryDirectory() as folder:
        rows = draw_rows(rng, batch, Path(folder))
        for name, make in cells.ORACLES.items():
            found, label = Findings(), f"{seed}/{batch} {rows.name}, {name}"
            yield label
            try:
                oracle = make(rows.given, rng)
            except Exception as error:
                refuse(found, label, error, rows.values)
            else:
                for call in draw_calls(rng, batch, rows, (name, oracle), label):
                    yield call.label
                    solve(found, call, rows.values)
            found.counts["oracles built"] += 1
            yield found


def dtype_of(batch: int) -> type[np.floating[Any]]:
    """Both for every pair of batches, and for every other batch: two workers then have equal work."""
    return hostile.DTYPES[(batch + batch // 2) % 2]


def draw_rows(rng: np.random.Generator, batch: int, folder: Path) -> hostile.Rows:
    """Draw the atoms of a batch: dtypes take turns, one in six is nonnegative."""
    turn = batch // 2
    return hostile.draw_rows(
        rng, dtype=dtype_of(batch), positive=turn % 6 == 0, large=turn % 96 in (6, 7), folder=folder
    )


def draw_calls(
    rng: np.random.Generator, batch: int, rows: hostile.Rows, oracle: tuple[str, Oracle], label: str
) -> Iterator[Call]:
    """Draw a problem for every method; the objectives take turns."""
    turn = batch // 2
    for place, (how, make) in enumerate(cells.METHODS.items()):
        kinds = [cells.SIGNED[(turn + place) % len(cells.SIGNED)]]
        if turn % 6 == 0:
            kinds = [cells.mixture, cells.custom] if place % 4 == turn // 6 % 4 else [cells.mixture]
        for kind in kinds:
            try:
                problem = kind(rng, rows.values)
            except CLEAR:  # a target or a design that is refused: extreme, or it would be found below
                continue
            banned = hostile.draw_banned(rng, rows.values)
            start = hostile.draw_start(rng, rows.values, banned, _try_values(problem, rows.values))
            yield Call(
                label=f"{label}, {problem.name}, {how}{'' if start is None else ', warm'}",
                cell=cells.cell(problem.name, how, oracle[0], rows.values.dtype),
                problem=problem,
                method=make(rng),
                oracle=oracle[1],
                rtol=float(rng.choice(RTOLS)),
                steps=math.inf if how == "FullyCorrective" else float(rng.choice(STEPS)),
                banned=banned,
                seed=int(rng.integers(1 << 31)),
                start=start,
            )


def _try_values(problem: cells.Problem, rows: hostile.Array) -> hostile.Array:
    """Values of f at the rows, infinite where they cannot be computed."""
    with contextlib.suppress(*CLEAR), np.errstate(all="ignore"):
        return np.nan_to_num(problem.objective.values(rows), nan=np.inf)
    return np.full(len(rows), np.inf)


def refuse(found: Findings, label: str, error: Exception, values: hostile.Array) -> None:
    """Note an error: clear, of one line, and only for extreme numbers."""
    found.counts["refused"] += 1
    clear = isinstance(error, CLEAR) and "\n" not in str(error)
    sizes = np.abs(values[values != 0.0].astype(np.float64))
    extreme = len(sizes) == 0 or float(sizes.max()) > EXTREME or float(sizes.min()) < 1.0 / EXTREME
    outside = "finite at the start" in str(error) and bool((values <= 0.0).any())
    if not (clear and (extreme or outside)):
        found.violations.append(f"{label}: {type(error).__name__}: {error}")


def solve(found: Findings, call: Call, values: hostile.Array) -> None:
    """Solve and judge."""
    try:
        result = call()
    except Exception as error:
        refuse(found, call.label, error, values)
        return
    found.counts["problems"] += 1
    found.counts[call.cell] += 1
    found.counts[result.status.name] += 1
    found.counts["in one go"] += call.method is None and len(result.trace) == 2
    wrong = judge_result(result, call, values)
    found.violations.extend(f"{call.label}, rtol {call.rtol}, seed {call.seed}: {text}" for text in wrong)


# ---------------------------------------------------------------- judging


def judge_result(result: Result, call: Call, values: hostile.Array) -> list[str]:
    """Return what is wrong with an answer."""
    wrong = judge_weights(result, call.banned, len(values))
    if wrong:
        return wrong
    here = call.problem.value(exact.mix(values[result.ids], result.weights))
    room = Fraction(TRUSTED * size_of(result, call, values)) * call.problem.trusted
    if here is None or math.isinf(result.value):
        return [] if math.isinf(result.value) else [f"value {result.value} outside the domain"]
    if here.low > Fraction(result.value) + room:
        wrong.append(f"f(weights) {float(here.low)!r} > value {result.value!r}")
    if result.lower > -math.inf and Fraction(result.lower) > best_known(call, values, here) + room:
        wrong.append(f"lower {result.lower!r} > min f {float(best_known(call, values, here))!r}")
    if result.status is Status.GAP_REACHED and not result.value - result.lower <= result.goal:
        wrong.append(f"GAP_REACHED with a gap of {result.gap} and a goal of {result.goal}")
    if result.status is Status.ROUNDING and result.gap > OPEN * size_of(result, call, values):
        wrong.append(f"ROUNDING with a gap of {result.gap}, value {result.value}, goal {result.goal}")
    if result.status is Status.ROUNDING:
        missed = float(Fraction(result.value) - best_known(call, values, here))
        if missed > WORTH * stake_of(result, call, values) + UNDERFLOW:
            wrong.append(f"ROUNDING {missed} above the minimum, value {result.value}, goal {result.goal}")
    return wrong + judge_warm(result, call, values)


def judge_warm(result: Result, call: Call, values: hostile.Array) -> list[str]:
    """Return whether a warm start without limits has ended worse than a cold one.

    Samples of random atoms are others in every run, and which answers are audited depends on how many were
    asked for before: both say nothing of its start.
    """
    if (
        call.start is None
        or isinstance(call.oracle, (RandomSubset, Audited))
        or math.isfinite(call.steps)
        or result.status in (Status.STATIONARY, Status.NOT_FOUND)
    ):
        return []
    try:
        cold = call._replace(start=None)()
    except CLEAR:
        return []
    room = cold.goal + TRUSTED * size_of(cold, call, values)
    if result.value <= cold.value + room and (result.success or not cold.success):
        return []
    return [f"warm {result.status.name} {result.value!r}, cold {cold.status.name} {cold.value!r}"]


def stake_of(result: Result, call: Call, values: hostile.Array) -> float:
    """How large f is, and how much it varies over the atoms, by values and by slopes; inf if not at all."""
    kept, f = np.delete(np.arange(len(values)), call.banned)[:64], call.problem.objective
    rows = values[kept].astype(np.float64)
    with np.errstate(all="ignore"):
        found = _try_values(call.problem, rows)
        points = [f.at(row) for row in [*rows, rows.mean(axis=0)]]
        slopes = [(p.grad @ p.x - rows @ p.grad).max() for p in points if math.isfinite(p.value)]
        radius = np.abs(rows).sum(axis=1).max()
        blurs = [TRUSTED * np.abs(p.grad).max() * radius for p in points if math.isfinite(p.value)]
    found = found[np.isfinite(found)]
    varies = [slope for slope, blur in zip(slopes, blurs, strict=True) if slope > blur]
    varies += [np.ptp(found)] if len(found) and np.ptp(found) > TRUSTED * np.abs(found).max() else []
    one = bool((np.ptp(rows, axis=0) <= TRUSTED * np.abs(rows).max(axis=0)).all())
    return math.inf if one or not varies else max(abs(result.value), *map(float, varies))


def judge_weights(result: Result, banned: hostile.Array, n: int) -> list[str]:
    """Return what is wrong with ids and weights."""
    ids, weights, k = result.ids, result.weights, len(result.ids)
    rules = {
        "ids are int64": ids.dtype == np.int64,
        "some are active": k > 0,
        "ids are distinct": len(np.unique(ids)) == k,
        "ids are in range": k == 0 or (ids.min() >= 0 and ids.max() < n),
        "none is excluded": not np.isin(ids, banned).any(),
        "weights are >= 0": bool((weights >= 0.0).all()),
        "weights sum to 1": abs(math.fsum(weights) - 1.0) <= 4.0 * UNIT * max(k, 1),
    }
    return [f"not so: {rule}: {ids[:9]} {weights[:9]}" for rule, holds in rules.items() if not holds]


def best_known(call: Call, values: hostile.Array, here: exact.Between) -> Fraction:
    """The exact minimum, or the least exact value that is known."""
    kept = np.delete(np.arange(len(values)), call.banned)
    if call.problem.least is not None:
        return call.problem.least(values[kept])
    known = [here.high]
    for i in kept[:20]:
        single = call.problem.value(exact.mix(values[i : i + 1], np.ones(1)))
        known.append(here.high if single is None else single.high)
    with contextlib.suppress(Exception):  # judged where it is a case of its own
        other = minimize(call.problem.objective, values, rtol=0.0, max_passes=9.0, exclude=call.banned)
        better = call.problem.value(exact.mix(values[other.ids], other.weights))
        known.append(here.high if better is None else better.high)
    return min(known)


def size_of(result: Result, call: Call, values: hostile.Array) -> float:
    """Sizes that rounding is relative to: of f, its slopes and its curvature."""
    with np.errstate(all="ignore"):
        grad = call.problem.objective.at(result.x).grad
        radius = float(np.abs(values).astype(np.float64).sum(axis=1).max())
        bend = call.problem.bend(result.x) * radius * radius
        size = abs(result.value) + float(np.abs(grad).max()) * radius + bend
        size += UNDERFLOW / OPEN * (1.0 + radius * radius)
    return size if math.isfinite(size) else float(np.finfo(np.float64).max)
