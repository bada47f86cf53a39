"""Oracles asked hostile queries; every score, id and bound is judged exactly."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from tests.fuzz import cells, exact, hostile
from tests.fuzz.problems import draw_rows, refuse
from tests.fuzz.supervise import Findings
from wolfhound.core.contracts import Hits, Oracle
from wolfhound.core.rounding import TINY, gamma

ROUNDS = 12
"""Calls of each oracle."""

SIZES = (1, 2, 1, 5, 16, 64)
"""Queries of a call."""

MOST = 50
"""Answers of a query."""


def judge(seed: int, batch: int) -> Iterator[str | Findings]:
    """Ask every oracle of one set of atoms."""
    rng = np.random.default_rng([seed, batch, 1])
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
                for _ in range(ROUNDS):
                    ask(found, label, rng, oracle, rows.values)
            yield found


def ask(found: Findings, label: str, rng: np.random.Generator, oracle: Oracle, rows: hostile.Array) -> None:
    """Ask a few queries and judge the answers."""
    n, m = len(rows), int(rng.choice(SIZES[: 2 if len(rows) == hostile.MANY else None]))
    queries, k = hostile.draw_queries(rng, rows, m), int(rng.integers(1, min(n + 3, MOST)))
    exclude = rng.integers(-1, n, (m, int(rng.integers(0, 2 * n)))) if rng.random() < 0.4 else None
    try:
        hits = oracle.query(queries, k=k, thresholds=draw_thresholds(rng, queries, rows), exclude=exclude)
    except Exception as error:
        refuse(found, label, error, np.concatenate([queries, rows.astype(np.float64)]))
        return
    wrong = judge_hits(hits, queries, rows, exclude)
    found.counts["queries"] += m
    found.counts["bounds"] += int((hits.bounds < np.inf).sum())
    found.violations.extend(f"{label}, m {m}, k {k}: {text}" for text in wrong)


def draw_thresholds(
    rng: np.random.Generator, queries: hostile.Array, rows: hostile.Array
) -> hostile.Array | None:
    """Return scores that some atoms reach, or none."""
    if rng.random() < 0.6:
        return None
    with np.errstate(all="ignore"):
        scores = np.nan_to_num(queries @ rows[:50].astype(np.float64).T)
    return np.asarray(np.sort(scores, axis=1)[:, int(rng.integers(scores.shape[1]))])


def judge_hits(
    hits: Hits, queries: hostile.Array, rows: hostile.Array, exclude: hostile.Array | None
) -> Iterator[str]:
    """Yield what is wrong with answers."""
    found = hits.ids >= 0
    good = hits.ids[found]
    if len(good) and good.max() >= len(rows):
        yield f"ids up to {good.max()}"
        return
    if not np.array_equal(hits.rows[hits.slots[found]], rows[good]):
        yield "rows are not those of the ids"
    truth = exact.scores(queries, rows)
    left = truth.numbers.copy()
    for i, ids in enumerate(hits.ids):
        mine = ids[ids >= 0]
        if len(np.unique(mine)) < len(mine):
            yield f"an id twice in {mine[:9]}"
        banned = np.empty(0, np.int64) if exclude is None else exclude[i][exclude[i] >= 0]
        if np.isin(mine, banned).any():
            yield f"excluded atoms among {mine[:9]}"
        left[i, banned] = None
    yield from _judge_bounds(hits.bounds, left, truth.exponent)
    places = np.nonzero(found)
    yield from _judge_scores(
        hits.scores[found], truth.numbers[places[0], good], truth.exponent, _room(queries, rows)[places[0]]
    )


def _judge_bounds(bounds: hostile.Array, left: hostile.Array, exponent: int) -> Iterator[str]:
    """Every bound is at least the best score of the atoms that are left."""
    for bound, scores in zip(bounds, left, strict=True):
        best = max((score for score in scores if score is not None), default=None)
        if best is not None and not exact.at_least(float(bound), best, exponent):
            yield f"bound {bound!r} < best score {float(exact.scaled(best, exponent))!r}"


def _judge_scores(
    scores: hostile.Array, truth: hostile.Array, exponent: int, room: hostile.Array
) -> Iterator[str]:
    """Every score is right up to the rounding of a sum in float64."""
    finite = np.isfinite(room)
    given, allowed = exact.whole(scores[finite]), exact.whole(room[finite])
    least = min(given.exponent, allowed.exponent, exponent)
    away = abs(given.numbers * (1 << (given.exponent - least)) - truth[finite] * (1 << (exponent - least)))
    wrong = np.flatnonzero(away > allowed.numbers * (1 << (allowed.exponent - least)))
    yield from (
        f"score {scores[finite][i]!r} is off by {float(exact.scaled(away[i], least))}" for i in wrong[:3]
    )


def _room(queries: hostile.Array, rows: hostile.Array) -> hostile.Array:
    """(m,) rounding that a float64 sum of products may have."""
    d = rows.shape[1]
    with np.errstate(over="ignore"):
        sizes = np.abs(queries).max(axis=1) * np.abs(rows.astype(np.float64)).max()
        return np.asarray(1.1 * d * gamma(d + 2) * sizes + d * TINY)
