"""Many hostile targets in one call of `minimize_many`, each judged exactly; then some of them alone.

The same truths as for `problems`; alone, `minimize` goes its default way, which over few
atoms is one compiled solve.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import tempfile
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from tests.fuzz import cells, exact, hostile
from tests.fuzz.problems import OPEN, RTOLS, UNDERFLOW, Call, draw_rows, refuse, solve
from tests.fuzz.supervise import Findings
from wolfhound import ManyResult, Scan, Status, minimize_many
from wolfhound.rounding import UNIT

ROUNDS = 6
"""Calls for each set of atoms."""

TARGETS = 8
"""Most targets of a call."""

ALONE = 6
"""Problems that are solved alone, of each kind."""


def judge(seed: int, batch: int) -> Iterator[str | Findings]:
    """Solve targets over one set of atoms, together and alone."""
    rng = np.random.default_rng([seed, batch, 3])
    with tempfile.TemporaryDirectory() as folder:
        rows = draw_rows(rng, batch, Path(folder))
        found, label = Findings(), f"{seed}/{batch} {rows.name}"
        for turn in range(ROUNDS):
            yield f"{label}, many {turn}"
            solve_many(found, f"{label}, many {turn}", rng, rows)
        for call in draw_alone(rng, rows, label):
            yield call.label
            solve(found, call, rows.values)
        yield found


def draw_alone(rng: np.random.Generator, rows: hostile.Rows, label: str) -> Iterator[Call]:
    """Draw problems for the default method."""
    oracle = Scan(rows.given)
    for turn in range(ALONE):
        for kind in (cells.squared_distance, cells.least_squares):
            try:
                problem = kind(rng, rows.values)
            except ValueError:  # a target or a design that is refused
                continue
            yield Call(
                label=f"{label}, {problem.name}, alone {turn}",
                cell=f"alone: {problem.name}",
                problem=problem,
                method=None,
                oracle=oracle,
                rtol=float(rng.choice(RTOLS)),
                steps=np.inf,
                banned=hostile.draw_banned(rng, rows.values),
                seed=int(rng.integers(1 << 31)),
            )


def solve_many(found: Findings, label: str, rng: np.random.Generator, rows: hostile.Rows) -> None:
    """Draw targets, solve them in one call, and judge."""
    m = int(rng.integers(1, 3 if len(rows.values) == hostile.MANY else TARGETS))
    targets = np.stack([hostile.draw_target(rng, rows.values) for _ in range(m)])
    banned = [hostile.draw_banned(rng, rows.values) for _ in range(m)]
    options: dict[str, Any] = {
        "rtol": float(rng.choice(RTOLS)),
        "exclude": banned if any(map(len, banned)) else None,
        "at_most_one": bool(rng.random() < 0.3),
        "max_atoms": int(rng.integers(1, 4)) if rng.random() < 0.2 else None,
        "seed": int(rng.integers(1 << 31)),
    }
    try:
        result = minimize_many(targets, rows.given, **options)
    except Exception as error:
        refuse(found, label, error, np.concatenate([targets, rows.values.astype(np.float64)]))
        return
    found.counts["targets"] += m
    for i in range(m):
        found.counts[result.status[i].name] += 1
        wrong = judge_target(result, i, targets[i], rows.values, (banned[i], options["at_most_one"]))
        settings = {name: value for name, value in options.items() if name != "exclude"}
        found.violations.extend(f"{label}, target {i}, {settings}: {text}" for text in wrong)


def judge_target(
    result: ManyResult, i: int, target: hostile.Array, rows: hostile.Array, rules: tuple[hostile.Array, bool]
) -> list[str]:
    """Return what is wrong with an answer; `rules`: excluded ids, and whether the origin is an atom."""
    banned, origin = rules
    here = slice(result.indptr[i], result.indptr[i + 1])
    ids, weights = result.ids[here], result.weights[here]
    wrong = judge_weights(ids, weights, banned, origin)
    if wrong:
        return wrong
    everything = np.vstack([rows, np.zeros((1, rows.shape[1]), rows.dtype)]) if origin else rows
    kept = np.delete(np.arange(len(everything)), banned)
    least = exact.least_half_square(everything[kept], None, target)
    value = Fraction(float(result.value[i]))
    at = exact.half_square(_mix(rows[ids], weights, origin), target).low
    if at > value:
        wrong.append(f"f(weights) {float(at)!r} > value {result.value[i]!r}")
    if Fraction(float(result.lower[i])) > least:
        wrong.append(f"lower {result.lower[i]!r} > min f {float(least)!r}")
    gap, goal, status = result.gap[i], result.goal[i], result.status[i]
    if status is Status.GAP_REACHED and not gap <= goal:
        wrong.append(f"GAP_REACHED with a gap of {gap} and a goal of {goal}")
    radius = float(np.abs(rows).astype(np.float64).sum(axis=1).max()) + float(np.abs(target).sum())
    if status is Status.ROUNDING and gap > OPEN * radius * radius + UNDERFLOW:
        wrong.append(f"ROUNDING with a gap of {gap}, value {result.value[i]}, goal {goal}")
    return wrong


def _mix(rows: hostile.Array, weights: hostile.Array, origin: bool) -> list[Fraction]:
    """The point of these weights; with the origin as an atom they need not sum to 1."""
    if not origin:
        return list(exact.mix(rows, weights).fractions())
    columns = rows.astype(np.float64).T.tolist()
    parts = [Fraction(weight) for weight in weights.tolist()]
    return [
        sum((w * Fraction(a) for w, a in zip(parts, column, strict=True)), Fraction()) for column in columns
    ]


def judge_weights(
    ids: hostile.Array, weights: hostile.Array, banned: hostile.Array, origin: bool
) -> list[str]:
    """Return what is wrong with ids and weights."""
    total, k = float(weights.sum()), len(ids)
    rules = {
        "some are active": origin or k > 0,
        "ids are distinct": len(np.unique(ids)) == k,
        "none is excluded": not np.isin(ids, banned).any(),
        "weights are > 0": bool((weights > 0.0).all()),
        "weights sum to 1": total <= 1.0 + 8.0 * UNIT * (k + 1)
        and (origin or total >= 1.0 - 8.0 * UNIT * (k + 1)),
    }
    return [f"not so: {rule}: {ids[:9]} {weights[:9]}" for rule, holds in rules.items() if not holds]
