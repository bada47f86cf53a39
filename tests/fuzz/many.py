"""Many hostile targets in one call of `minimize_many`, each judged exactly, by the truths of `problems`."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import tempfile
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tests.fuzz import exact, hostile
from tests.fuzz.problems import RTOLS, UNDERFLOW, draw_rows, refuse
from tests.fuzz.supervise import Findings
from wolfhound import Hull, ManyResult, Scan, Status, minimize_many
from wolfhound.core.contracts import Atoms, Hits
from wolfhound.core.rounding import UNIT

ROUNDS = 6
"""Calls for each set of atoms."""

TARGETS = 8
"""Most targets of a call."""


DEPENDENT = 1e-9
"""Least noise about a line or plane, relative to its size."""

STUCK = 1000.0
"""Times what rounding can keep open: a target that stalls further from its goal was given up too early."""

OFFSETS = (0.0, 0.0, 1e4, 1e6, 1e8)
"""How far atoms are from the origin, relative to their size."""


def judge(seed: int, batch: int) -> Iterator[str | Findings]:
    """Solve targets over one set of atoms, then over nearly dependent ones."""
    rng = np.random.default_rng([seed, batch, 3])
    with tempfile.TemporaryDirectory() as folder:
        rows = draw_rows(rng, batch, Path(folder))
        found, label = Findings(), f"{seed}/{batch} {rows.name}"
        for turn in range(ROUNDS):
            yield f"{label}, many {turn}"
            solve_many(found, f"{label}, many {turn}", rng, rows)
        for turn in range(ROUNDS):
            dependent = draw_dependent(rng, large=batch % 4 == 3 and turn == 0)
            name = f"{seed}/{batch} {dependent.name}, many {turn}"
            yield name
            solve_many(found, name, rng, dependent)
        yield found


def draw_dependent(rng: np.random.Generator, *, large: bool) -> hostile.Rows:
    """Draw atoms near a line or a plane, in mixed units of columns, far from the origin."""
    n = int(rng.integers(1100, 1400)) if large else int(rng.choice((12, 40, 120)))
    d, rank = int(rng.choice((2, 3, 5, 8))), int(rng.choice((1, 1, 2)))
    noise = float(10.0 ** rng.uniform(np.log10(DEPENDENT), -2.0))
    flat = rng.standard_normal((n, rank)) @ rng.standard_normal((rank, d))
    rows = flat + noise * rng.standard_normal((n, d))
    mixed = bool(rng.random() < 0.3)
    if mixed:
        rows *= 10.0 ** rng.uniform(-4.0, 4.0, d)
    offset = float(rng.choice(OFFSETS))
    rows += offset * np.abs(rows).max(axis=0) * rng.standard_normal(d)
    dtype = hostile.DTYPES[int(rng.random() < 0.7)]
    values = rows.astype(dtype)
    units = ", mixed units" if mixed else ""
    name = f"rank {rank} + {noise:.0e} + {offset:.0e}{units}, {n} x {d} {dtype.__name__}"
    return hostile.Rows(name, values, values)


class Passed(NamedTuple):
    """An oracle of the caller's: asked as it is, in the units of its atoms."""

    oracle: Scan

    @property
    def atoms(self) -> Atoms:
        """The atoms that are searched."""
        return self.oracle.atoms

    def query(self, queries: hostile.Array, **options: Any) -> Hits:
        """Pass the question on."""
        return self.oracle.query(queries, **options)


def solve_many(found: Findings, label: str, rng: np.random.Generator, rows: hostile.Rows) -> None:
    """Draw targets, solve them in one call, and judge."""
    m = int(rng.integers(1, 3 if len(rows.values) > 1000 else TARGETS))
    targets = np.stack([draw_target(rng, rows.values) for _ in range(m)])
    banned = [hostile.draw_banned(rng, rows.values) for _ in range(m)]
    options: dict[str, Any] = {
        "rtol": float(rng.choice(RTOLS)),
        "exclude": banned if any(map(len, banned)) else None,
        "over": Hull(at_most=bool(rng.random() < 0.3)),
        "max_atoms": int(rng.integers(1, 4)) if rng.random() < 0.2 else None,
        "seed": int(rng.integers(1 << 31)),
    }
    asked = bool(rng.random() < 0.2)
    try:
        result = minimize_many(targets, Passed(Scan(rows.given)) if asked else rows.given, **options)
    except Exception as error:
        refuse(found, label, error, np.concatenate([targets, rows.values.astype(np.float64)]))
        return
    found.counts["targets"] += m
    for i in range(m):
        found.counts[result.status[i].name] += 1
        rules = Rules(banned[i], options["over"].at_most, options["max_atoms"], asked)
        wrong = judge_target(result, i, targets[i], rows.values, rules)
        settings = {name: value for name, value in options.items() if name != "exclude"} | {"asked": asked}
        found.violations.extend(f"{label}, target {i}, {settings}: {text}" for text in wrong)


def draw_target(rng: np.random.Generator, rows: hostile.Array) -> hostile.Array:
    """Draw a target as for `minimize`, or away from the atoms by some times their own spread."""
    if rng.random() < 0.5:
        return hostile.draw_target(rng, rows)
    points = rows.astype(np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        away = points.mean(axis=0) + 3.0 * rng.standard_normal(points.shape[1]) * points.std(axis=0)
    return np.asarray(np.clip(np.nan_to_num(away), -1e300, 1e300))


class Rules(NamedTuple):
    """What a target may use: not these ids, the origin too, at most so many atoms; if an oracle was asked."""

    banned: hostile.Array
    origin: bool
    most: int | None
    asked: bool


def judge_target(
    result: ManyResult, i: int, target: hostile.Array, rows: hostile.Array, rules: Rules
) -> list[str]:
    """Return what is wrong with an answer."""
    here = slice(result.indptr[i], result.indptr[i + 1])
    ids, weights = result.ids[here], result.weights[here]
    wrong = judge_weights(ids, weights, rules.banned, rules.origin)
    if rules.most is not None and len(ids) > rules.most:
        wrong.append(f"{len(ids)} atoms, at most {rules.most} are allowed")
    if wrong:
        return wrong
    origin = np.zeros((1, rows.shape[1]), rows.dtype)
    everything = np.vstack([rows, origin]) if rules.origin else rows
    usable = everything[np.delete(np.arange(len(everything)), rules.banned)]
    least = exact.least_half_square(usable, None, target)
    value = Fraction(float(result.value[i]))
    at = exact.half_square(_mix(rows[ids], weights, rules.origin), target).low
    if at > value:
        wrong.append(f"f(weights) {float(at)!r} > value {result.value[i]!r}")
    if Fraction(float(result.lower[i])) > least:
        wrong.append(f"lower {result.lower[i]!r} > min f {float(least)!r}")
    size = bound_rounding(everything, target, len(ids), moved=not rules.asked)
    return wrong + judge_status(result, i, size, limited=rules.most is not None)


def judge_status(result: ManyResult, i: int, rounding: float, *, limited: bool) -> list[str]:
    """Return what is wrong with what a target is said to have ended by: a claim, too."""
    gap, goal, status = result.gap[i], result.goal[i], result.status[i]
    text = f"{status.name} with a gap of {gap}, value {result.value[i]}, goal {goal}"
    rules = {
        Status.GAP_REACHED: bool(gap <= goal),
        Status.ROUNDING: bool(goal < gap <= rounding),
        # The bound without a limit is as good as asked: what is left is the price of the limit.
        Status.FINISHED: limited and bool(gap - price_of(result, i) <= max(goal, rounding)),
        Status.STALLED: bool(goal < gap <= STUCK * rounding + price_of(result, i)),
    }
    return [] if rules.get(status, False) else [text]


def price_of(result: ManyResult, i: int) -> float:
    """What a limit of atoms cost target i."""
    return 0.0 if result.price is None else float(result.price[i])


def bound_rounding(rows: hostile.Array, target: hostile.Array, k: int, *, moved: bool) -> float:
    """The largest gap that rounding can keep open, with room: of float64 sums about the atoms' middle.

    An oracle scores atoms where they are: about the origin, not `moved`. The products of d entries and
    mixtures of k rows each lose so many units, and 8 times that is still said to be rounding.
    """
    points = rows.astype(np.float64)
    with np.errstate(over="ignore", under="ignore"):
        middle = points.mean(axis=0) * moved
        centred, away = points - middle, np.asarray(target, np.float64) - middle
        radius = float(np.sqrt((centred * centred).sum(axis=1)).max())
        far = float(np.sqrt((away * away).sum()))
        units = 8.0 * (12.0 * k + 6.0 * rows.shape[1] + 120.0) * UNIT
        found = units * (radius + far) * (2.0 * radius + far) + UNDERFLOW
        return min(float(found), float(np.finfo(np.float64).max))


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
