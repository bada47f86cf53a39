"""Designs over hostile candidates, and forms asked hostile queries: efficiencies and bounds judged exactly.

A proved efficiency must be no more than that of the design returned, relative to any other
design; those that it is compared with come from multiplicative steps, from equal weights and
from a second search, and all are evaluated in 120 digits.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tests.designs.precise import at_most
from tests.fuzz import bounds, hostile
from tests.fuzz.problems import CLEAR, EXTREME, draw_rows, refuse
from tests.fuzz.supervise import Findings
from wolfhound import AOptimal, Design, DOptimal, FormScan, IOptimal, Status, design
from wolfhound.oracles.forms import pair_rows

GOALS = (0.5, 0.99, 1.0 - 1e-6, 1.0 - 1e-10)
ASKED = 3
"""Rounds of queries."""

SINGULAR = 1e-6
"""Candidates that are closer than this to a subspace may be called aliased."""


class Case(NamedTuple):
    """One call of `design`."""

    criterion: Any
    goal: float
    banned: hostile.Array
    given: hostile.Array
    runs: int
    seed: int

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
        rows = draw_rows(rng, batch, Path(folder))
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
        yield found


def draw_case(rng: np.random.Generator, rows: hostile.Array, criterion: Any) -> Case:
    """Draw what is asked of some candidates."""
    past = rows[rng.integers(0, len(rows), int(rng.choice([0, 0, 1, 5])))]
    return Case(
        criterion,
        float(rng.choice(GOALS)),
        hostile.draw_banned(rng, rows),
        past,
        int(rng.integers(1, 30)),
        int(rng.integers(1 << 31)),
    )


def solve(found: Findings, label: str, case: Case, rows: hostile.Rows) -> None:
    """Solve and judge."""
    kept = np.delete(np.arange(len(rows.values)), case.banned)
    try:
        result = case(rows.given)
    except Exception as error:
        found.counts["refused"] += 1
        known = isinstance(error, CLEAR) and "aliased terms" in str(error) and "\n" not in str(error)
        if not (known and is_flat(np.concatenate([rows.values[kept], case.given]))):
            refuse(found, label, error, rows.values)
        return
    found.counts["designs"] += 1
    found.counts[result.status.name] += 1
    found.violations.extend(
        f"{label}, seed {case.seed}: {text}" for text in judge_design(result, case, rows.values)
    )


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
    }
    wrong = [f"not so: {rule}" for rule, holds in rules.items() if not holds]
    if wrong or result.efficiency == 0.0:
        return wrong
    kept = np.delete(np.arange(len(rows)), case.banned)
    past = case.given.astype(np.float64)
    mine = (rows[ids].astype(np.float64), weights)
    best = at_most(mine, result.root, past, result.share, rows[kept].astype(np.float64))
    if best is not None and result.efficiency > best:
        wrong.append(f"efficiency {result.efficiency!r} > {float(best)!r} = 1 - {float(1 - best):.3g}")
    return wrong
