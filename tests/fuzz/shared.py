"""One oracle shared by eight threads that solve problems of their own, judged exactly."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from tests.fuzz import cells, hostile
from tests.fuzz.problems import STEPS, Call, draw_calls, dtype_of, judge_result
from tests.fuzz.supervise import Findings
from wolfhound import BlendedPairwise, FrankWolfe, Result

THREADS = 8
ROWS = 2000
"""Atoms: enough that a query takes a while and that screening pays."""


def judge(seed: int, batch: int) -> Iterator[str | Findings]:
    """Solve problems at the same time on one oracle, for every oracle."""
    rng = np.random.default_rng([seed, batch, 2])
    rows = draw_rows(rng, batch)
    for name, make in cells.ORACLES.items():
        found, label = Findings(), f"{seed}/{batch} {rows.name}, {name}, {THREADS} threads"
        yield label
        oracle = make(rows.given, rng)
        calls = list(draw_calls(rng, batch, rows, (name, oracle), label))
        calls[1::2] = [blend(call) for call in calls[1::2]]
        solve(found, calls, rows.values)
        yield found


def blend(call: Call) -> Call:
    """Solve by the method that asks most; few steps, since it may need tens of thousands of passes."""
    return call._replace(method=FrankWolfe(BlendedPairwise()), steps=min(call.steps, max(STEPS)))


def draw_rows(rng: np.random.Generator, batch: int) -> hostile.Rows:
    """Draw atoms of ordinary size, in memory."""
    dtype, d = dtype_of(batch), int(rng.integers(2, 7))
    positive = batch // 2 % 6 == 0
    values = rng.standard_normal((ROWS, d))
    values = (np.exp(-np.square(values)) if positive else values).astype(dtype)
    return hostile.Rows(f"{ROWS} x {d} {dtype.__name__}", values, values)


def solve(found: Findings, calls: list[Call], values: hostile.Array) -> None:
    """Make all calls at once, and judge each answer."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(THREADS) as threads:
            answers = list(threads.map(attempt, calls))
    finally:
        sys.setswitchinterval(before)
    for call, answer in zip(calls, answers, strict=True):
        found.counts["shared runs"] += 1
        wrong = (
            [f"{type(answer).__name__}: {answer}"]
            if isinstance(answer, Exception)
            else judge_result(answer, call, values)
        )
        found.violations.extend(f"{call.label}: {text}" for text in wrong)


def attempt(call: Call) -> Result | Exception:
    """Solve; an error is an answer, too."""
    try:
        return call()
    except Exception as error:
        return error
