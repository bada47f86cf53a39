"""Designs and ellipsoids over hostile candidates, and forms asked hostile queries, judged exactly.

A proved efficiency must be no more than that of the design returned, relative to any other
design; those that it is compared with come from multiplicative steps, from equal weights and from a second,
finer search, and all are evaluated in 400 digits, with the true moments of a region. Half of the
candidates have columns in mixed units, or far from the origin. Whole runs are judged like weights. An
ellipsoid must hold every point and be definite, and no other one that does may be smaller than is proved.
ROUNDING is said only of a small gap.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import contextlib
import math
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tests.designs import ellipsoids
from tests.designs.precise import at_most, moments_of
from tests.fuzz import bounds, hostile
from tests.fuzz.problems import CLEAR, EXTREME, draw_rows, dtype_of, refuse
from tests.fuzz.supervise import Findings
from wolfhound import AOptimal, Design, DOptimal, FormScan, IOptimal, Status, design, enclosing_ellipsoid
from wolfhound.oracles.forms import pair_rows

GOALS = (0.5, 0.99, 1.0 - 1e-6, 1.0 - 1e-10)
ASKED = 3
"""Rounds of queries."""

SINGULAR = 1e-6
"""Candidates that are closer than this to a subspace may be called aliased."""

OPEN = 0.01
"""More than rounding may keep open of an efficiency or a volume that is called solved."""

UNITS = (0.0, 0.0, 4.0, 8.0)
"""Columns are multiplied by powers of ten up to so many, and divided."""

SHIFTS = (0.0, 0.0, 0.0, 1e4, 1e6, 1e8)
"""Columns are moved by so many times their size."""


class Case(NamedTuple):
    """One call of `design`."""

    criterion: Any
    goal: float
    banned: hostile.Array
    given: hostile.Array
    runs: int
    seed: int
    region: hostile.Array | None = None

    def __call__(self, candidates: Any) -> Design:
        """Solve."""
        return design(
            candidates,
            criterion=self.criterion,
            efficiency=self.goal,
            exclude=self.banned,
            given=self.given if len(self.given) else None,
            runs=self.runs,
            max_passes=12.0,
            seed=self.seed,
        )


def judge(seed: int, batch: int) -> Iterator[str | Findings]:
    """Judge forms and designs of one set of candidates."""
    rng = np.random.default_rng([seed, batch, 3])
    with tempfile.TemporaryDirectory() as folder:
        rows = draw_rows(rng, batch, Path(folder)) if rng.random() < 0.5 else draw_cloud(rng, batch)
        rows = vary(rng, rows, Path(folder))
        found, label = Findings(), f"{seed}/{batch} {rows.name}"
        yield f"{label}, forms"
        size = float(np.abs(rows.values).max())
        if size == 0.0 or 1.0 / EXTREME < size < EXTREME:  # else products of two are no numbers: refused
            for _ in range(ASKED):
                bounds.ask(found, f"{label}, forms", rng, FormScan(rows.given), pair_rows(rows.values))
        for criterion in (DOptimal(), AOptimal(), IOptimal()):
            case = draw_case(rng, rows.values, criterion)
            name = f"{label}, {criterion.name}, goal {case.goal}"
            yield name
            solve(found, name, case, rows)
        yield f"{label}, ellipsoid"
        enclose(found, f"{label}, ellipsoid", rng, rows)
        yield found


def draw_cloud(rng: np.random.Generator, batch: int) -> hostile.Rows:
    """Draw rows that span all dimensions, though some nearly do not: what is solved, not refused."""
    d = int(rng.integers(1, 6))
    rows = rng.standard_normal((int(rng.integers(2 * d + 2, 40)), d))
    near = float(rng.choice([1.0, 1.0, 1e-2, 1e-4, 1e-6]))
    rows[:, -1] = rows[:, 0] + near * rows[:, -1]
    values = rows.astype(dtype_of(batch))
    return hostile.Rows(f"cloud, near {near:g}, {rows.shape} {values.dtype}", values, values)


def vary(rng: np.random.Generator, rows: hostile.Rows, folder: Path) -> hostile.Rows:
    """Give columns of moderate sizes other units, and move them away from the origin."""
    values, top = rows.values, np.abs(rows.values).max(axis=0)
    spread, shift = float(rng.choice(UNITS)), float(rng.choice(SHIFTS))
    if not (top.max() < 1e20 and top.min() > 1e-20) or (spread, shift) == (0.0, 0.0):
        return rows
    moved = values + shift * top * rng.integers(0, 2, values.shape[1])
    changed = (moved * 10.0 ** rng.uniform(-spread, spread, values.shape[1])).astype(values.dtype)
    store, given = hostile.stored(rng, changed, folder)
    return hostile.Rows(f"{rows.name}, units {spread:g}, shift {shift:g}, {store}", changed, given)


def draw_case(rng: np.random.Generator, rows: hostile.Array, criterion: Any) -> Case:
    """Draw what is asked of some candidates."""
    past = rows[rng.integers(0, len(rows), int(rng.choice([0, 0, 1, 5])))]
    region = None
    if criterion.name == "I" and rng.random() < 0.4:
        region = rows[rng.integers(0, len(rows), int(rng.choice([1, 2, 9])))]
        criterion = IOptimal(region)
    return Case(
        criterion,
        float(rng.choice(GOALS)),
        hostile.draw_banned(rng, rows),
        past,
        int(rng.integers(1, 30)),
        int(rng.integers(1 << 31)),
        region,
    )


def solve(found: Findings, label: str, case: Case, rows: hostile.Rows) -> None:
    """Solve and judge."""
    kept = np.delete(np.arange(len(rows.values)), case.banned)
    try:
        result = case(rows.given)
    except Exception as error:
        found.counts["refused"] += 1
        known = isinstance(error, CLEAR) and "\n" not in str(error)
        flat = "aliased terms" in str(error) and is_flat(np.concatenate([rows.values[kept], case.given]))
        empty = "`region`" in str(error) and case.region is not None and not case.region.any()
        if not (known and (flat or empty)):
            refuse(found, label, error, rows.values)
        return
    found.counts["designs"] += 1
    found.counts[result.status.name] += 1
    found.violations.extend(
        f"{label}, seed {case.seed}: {text}" for text in judge_design(result, case, rows.values)
    )
    found.violations.extend(f"{label}: {text}" for text in judge_plan(found, result, case, rows.values))


def is_flat(rows: hostile.Array) -> bool:
    """Whether rows nearly lie in a subspace, their columns scaled to equal sizes."""
    wide = rows.astype(np.longdouble)
    sizes = np.abs(wide).max(axis=0)
    scaled = (wide / np.where(sizes > 0, sizes, 1)).astype(np.float64)
    values = np.linalg.svd(scaled, compute_uv=False)
    few = len(rows) < rows.shape[1]
    return bool(few or values.max() == 0.0 or values.min() < SINGULAR * values.max())


def judge_design(result: Design, case: Case, rows: hostile.Array) -> list[str]:
    """Return what is wrong with a design."""
    ids, weights = result.ids, result.weights
    rules = {
        "ids are distinct and in range": len(np.unique(ids)) == len(ids) > 0
        and 0 <= ids.min()
        and ids.max() < len(rows),
        "none is excluded": not np.isin(ids, case.banned).any(),
        "weights are on the simplex": bool((weights > 0.0).all()) and abs(math.fsum(weights) - 1.0) < 1e-12,
        "efficiency is in [0, 1]": 0.0 <= result.efficiency <= 1.0,
        "the goal is reached": result.status is not Status.GAP_REACHED
        or result.efficiency >= case.goal * (1 - 1e-15),
        "rounding is the reason": result.status is not Status.ROUNDING or result.efficiency >= 1.0 - OPEN,
        "success is no more than is proved": not result.success
        or result.efficiency >= min(case.goal * (1 - 1e-15), 1.0 - OPEN),
    }
    wrong = [f"not so: {rule}" for rule, holds in rules.items() if not holds]
    if wrong or result.efficiency == 0.0:
        return wrong
    return _judge_efficiency("efficiency", result.efficiency, (ids, weights), (result, case, rows))


def _judge_efficiency(
    name: str,
    claimed: float,
    mine: tuple[hostile.Array, hostile.Array],
    asked: tuple[Design, Case, hostile.Array],
) -> list[str]:
    """Compare what is claimed of a design with what other designs allow."""
    result, case, rows = asked
    kept = np.delete(np.arange(len(rows)), case.banned)
    wide = rows.astype(np.float64)
    moments = None
    if result.criterion == "I":
        moments = moments_of(wide if case.region is None else case.region.astype(np.float64))
    rival = np.zeros(len(rows))
    with contextlib.suppress(*CLEAR):  # judged where it is a case of its own
        other = case._replace(goal=1.0 - 1e-11)(rows)
        rival[other.ids] = other.weights
    best = at_most(
        (wide[mine[0]], mine[1]),
        result.root,
        case.given.astype(np.float64),
        result.share,
        wide[kept],
        moments=moments,
        rival=rival[kept],
    )
    if best is not None and claimed > best:
        return [f"{name} {claimed!r} > {float(best)!r} = 1 - {float(1 - best):.3g}"]
    return []


def judge_plan(found: Findings, result: Design, case: Case, rows: hostile.Array) -> list[str]:
    """Judge whole runs, as many as were planned or some more than there are terms."""
    runs = case.runs if len(case.given) else case.runs + 2 * rows.shape[1]
    try:
        plan = result.round(runs, max_passes=2)
    except CLEAR as error:
        few = "aliased terms" in str(error) and runs < rows.shape[1] + 1
        return [] if few else [f"round({runs}): {type(error).__name__}: {error}"]
    found.counts["plans"] += 1
    if plan.runs != runs or np.isin(plan.ids, case.banned).any() or plan.counts.min() < 1:
        return [f"plan of {plan.runs} runs for {runs}: {plan.ids} {plan.counts}"]
    if plan.efficiency == 0.0:
        return []
    mine = (plan.ids, plan.counts.astype(np.float64))
    return _judge_efficiency("plan's efficiency", plan.efficiency, mine, (result, case, rows))


# ---------------------------------------------------------------- ellipsoids


def enclose(found: Findings, label: str, rng: np.random.Generator, rows: hostile.Rows) -> None:
    """Enclose the points, and judge what holds them."""
    goal = float(rng.choice(GOALS))
    wide = rows.values.astype(np.float64)
    try:
        result = enclosing_ellipsoid(rows.given, ratio=goal, max_passes=12.0, seed=int(rng.integers(1 << 31)))
    except Exception as error:
        found.counts["refused"] += 1
        known = isinstance(error, CLEAR) and "\n" not in str(error) and "`points`" in str(error)
        flat = "must span all" in str(error) and ellipsoids.is_flat(wide, SINGULAR)
        if not (known and flat):
            refuse(found, label, error, rows.values)
        return
    found.counts["ellipsoids"] += 1
    found.counts[result.status.name] += 1
    rules = {
        "the ratio is in [0, 1]": 0.0 <= result.ratio <= 1.0,
        "the goal is reached": result.status is not Status.GAP_REACHED or result.ratio >= goal,
        "rounding is the reason": result.status is not Status.ROUNDING or result.ratio >= 1.0 - OPEN,
        "it is definite": ellipsoids.is_definite(result),
        "every point is inside": ellipsoids.holds(result, wide),
        "no other is smaller than is proved": ellipsoids.is_least(result, wide),
    }
    found.violations.extend(f"{label}, goal {goal}: not so: {rule}" for rule, so in rules.items() if not so)
