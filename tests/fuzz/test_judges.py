"""The judges see what is wrong, and the supervisor sees who dies or hangs."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from tests.fuzz import bounds, cells, exact, hostile, mixtures, problems, supervise, weights
from wolfhound import Cone, FullyCorrective, Hull, Scan, SquaredDistance, Status
from wolfhound.data.store import StoreError
from wolfhound.mixtures._continuum import NORMAL, Continuum

ROWS = np.random.default_rng(0).standard_normal((12, 3))
TARGET = np.array([1.0, 2.0, 3.0])
PROBLEM = cells.Problem(
    "SquaredDistance",
    SquaredDistance(TARGET),
    lambda x: exact.half_square(exact.images(None, x), TARGET),
    lambda kept: exact.least_half_square(kept, None, TARGET),
)
CALL = problems.Call(
    "label", "cell", PROBLEM, FullyCorrective(), Scan(ROWS), 1e-6, math.inf, np.empty(0, np.int64), 0
)


def test_a_right_answer_is_right() -> None:
    assert problems.judge_result(CALL(), CALL, ROWS) == []


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda r: {"lower": r.value * (1.0 + 1e-12)}, "> min f"),
        (lambda r: {"value": r.value * (1.0 - 1e-12)}, "> value"),
        (lambda r: {"goal": -1.0}, "GAP_REACHED"),
        (lambda r: {"status": Status.ROUNDING, "lower": 0.0}, "ROUNDING"),
        (lambda r: {"status": Status.ROUNDING, "value": r.value * 1.01}, "above the minimum"),
        (lambda r: {"ids": np.where(np.arange(len(r.ids)) == 0, -1, r.ids)}, "in range"),
        (lambda r: {"ids": r.ids[[0] * len(r.ids)]}, "distinct"),
        (lambda r: {"weights": 2.0 * r.weights}, "sum to 1"),
        (lambda r: {"weights": r.weights * np.where(np.arange(len(r.ids)) == 0, -1.0, 1.0)}, ">= 0"),
    ],
)
def test_a_wrong_answer_is_found(change: Any, words: str) -> None:
    result = CALL()
    assert len(result.ids) > 1
    wrong = problems.judge_result(replace(result, **change(result)), CALL, ROWS)
    assert words in " ".join(wrong)


@pytest.mark.parametrize("over", [Hull(cap=0.4), Cone(price=0.01)])
@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda r: {"lower": r.value * (1.0 + 1e-12)}, "> min F"),
        (lambda r: {"value": r.value * (1.0 - 1e-9)}, "> value"),
        (lambda r: {"goal": -1.0}, "GAP_REACHED"),
        (lambda r: {"ids": np.where(np.arange(len(r.ids)) == 0, -1, r.ids)}, "in range"),
        (lambda r: {"weights": r.weights * np.where(np.arange(len(r.ids)) == 0, -1.0, 1.0)}, ">= 0"),
        (lambda r: {"mass": 0.5 * r.weights.sum()}, "within the mass"),
    ],
)
def test_a_wrong_answer_over_a_set_is_found(over: Any, change: Any, words: str) -> None:
    call = weights.Call("label", "cell", PROBLEM, Scan(ROWS), over, 0.0, 1e-9, np.empty(0, np.int64), 0)
    result = call()
    assert len(result.ids) > 1
    assert weights.judge_result(result, call, ROWS) == []
    wrong = weights.judge_result(replace(result, **change(result)), call, ROWS)
    assert words in " ".join(wrong)


@pytest.mark.parametrize("over", [Hull(cap=0.4), Hull(at_most=True), Cone(price=0.01)])
def test_the_exact_minimum_over_a_set_judges_few_atoms(over: Any) -> None:
    call = weights.Call("label", "cell", PROBLEM, Scan(ROWS[:3]), over, 0.25, 1e-9, np.empty(0, np.int64), 0)
    result = call()
    assert weights.judge_result(result, call, ROWS[:3]) == []
    high = replace(result, lower=result.value * (1.0 - 1e-14), value=2.0 * result.value)
    assert "> min F" not in " ".join(weights.judge_result(result, call, ROWS[:3]))
    assert "> min F" in " ".join(
        weights.judge_result(replace(high, lower=result.value * (1.0 + 1e-12)), call, ROWS[:3])
    )


def test_a_warm_start_that_ends_worse_is_found() -> None:
    warm = CALL._replace(start=(np.array([0]), np.ones(1)))
    worse = replace(warm(), status=Status.STALLED, value=2.0 * warm().value)
    assert problems.judge_warm(warm(), warm, ROWS) == []
    assert "warm STALLED" in problems.judge_warm(worse, warm, ROWS)[0]


def test_an_excluded_atom_is_found() -> None:
    result = CALL()
    assert "excluded" in problems.judge_result(result, CALL._replace(banned=result.ids[:1]), ROWS)[0]


@pytest.mark.parametrize(
    ("error", "found"),
    [(ValueError("`a` must be"), True), (StoreError("damaged"), True), (IndexError("1"), True)],
)
def test_an_error_is_a_finding_where_numbers_are_ordinary(error: Exception, found: bool) -> None:
    findings = supervise.Findings()
    problems.refuse(findings, "label", error, ROWS)
    assert bool(findings.violations) is found


def test_only_clear_errors_are_allowed_for_extreme_numbers() -> None:
    findings = supervise.Findings()
    problems.refuse(findings, "label", ValueError("`atoms` must be smaller"), 1e200 * ROWS)
    assert findings.violations == []
    problems.refuse(findings, "label", RuntimeWarning("overflow"), 1e200 * ROWS)
    assert len(findings.violations) == 1


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda h: {"bounds": np.nextafter(h.scores[:, 0], -np.inf)}, "< best score"),
        (lambda h: {"scores": h.scores + 1e-9}, "off by"),
        (lambda h: {"ids": h.ids + 12}, "ids up to"),
        (lambda h: {"ids": np.roll(h.ids, 1, axis=1)}, "rows are not"),
    ],
)
def test_a_wrong_hit_is_found(change: Any, words: str) -> None:
    queries = np.random.default_rng(1).standard_normal((5, 3))
    hits = Scan(ROWS).query(queries, k=3)
    assert list(bounds.judge_hits(hits, queries, ROWS, None)) == []
    wrong = list(bounds.judge_hits(replace(hits, **change(hits)), queries, ROWS, None))
    assert words in " ".join(wrong)


def test_an_excluded_hit_is_found() -> None:
    queries = np.random.default_rng(1).standard_normal((5, 3))
    hits = Scan(ROWS).query(queries, k=3)
    assert "excluded" in " ".join(bounds.judge_hits(hits, queries, ROWS, hits.ids[:, :1]))


# ---------------------------------------------------------------- what is true


def test_integers_hold_any_float() -> None:
    values = np.array([0.0, -0.0, 5e-324, -1.5, 1e300, 2.0**-1022])
    numbers = exact.whole(values)
    assert [exact.scaled(int(n), numbers.exponent) for n in numbers.numbers] == [
        Fraction(float(value)) for value in values
    ]


@pytest.mark.parametrize("z", [0.0, -1e-30, -1.0, -700.0, -2999.0, -1e50])
def test_softplus_is_enclosed(z: float) -> None:
    low, high = exact.logistic([Fraction(-z)], np.ones(1))
    assert 0 <= low <= high
    assert float(low) == pytest.approx(math.log1p(math.exp(max(z, -745.0))), rel=1e-12, abs=1e-300)


def test_logs_are_enclosed() -> None:
    low, high = exact.mean_negative_log([Fraction(1, 8), Fraction(2)], [Fraction(1, 2)] * 2)
    assert low < high
    assert float(low) == pytest.approx(math.log(2.0), rel=1e-15)


def test_every_storage_holds_the_same_rows(tmp_path: Any) -> None:
    names = set()
    for seed in range(80):
        name, given = hostile.stored(np.random.default_rng(seed), ROWS, tmp_path)
        names.add(name)
        np.testing.assert_array_equal(Scan(given).atoms.take(np.arange(12)), ROWS)
    assert len(names) == 10


# ---------------------------------------------------------------- who dies


def judge(seed: int, batch: int) -> Iterator[str | supervise.Findings]:
    """Attack this file's own supervisor: batch 1 dies, batch 3 hangs."""
    yield f"case {batch}"
    if batch == 1:
        import os

        os.abort()
    while batch == 3:
        pass
    yield supervise.Findings(Counter(done=1), [])


@pytest.mark.slow
def test_deaths_and_hangs_are_findings() -> None:
    found = supervise.run("test_judges", 0, range(6), limit=2.0, workers=1)
    assert found.counts == {"done": 4, "deaths": 1, "hangs": 1}
    assert any("death" in text and "case 1" in text for text in found.violations)
    assert any("hang" in text and "case 3" in text for text in found.violations)


attack: Any = mixtures  # without its types: what it imports is replaced


def test_a_bound_that_is_too_low_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    right = Continuum.certify
    monkeypatch.setattr(
        Continuum,
        "certify",
        lambda data, f, wanted=0.0: (found := right(data, f, wanted))._replace(
            upper=math.log(found.attained) - 1e-6
        ),
    )
    rng = np.random.default_rng(0)
    wrong = [judged for _ in range(6) for judged in attack.judge_certificate(rng, NORMAL)]
    assert len(wrong) >= 5


def test_a_gap_that_is_too_small_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    right = attack.npmle
    monkeypatch.setattr(attack, "npmle", lambda *a, **k: replace(right(*a, grid=[0.5], **k), gap=1e-6))
    seen = np.array([0.0, 2.0, 7.0]), np.full(3, 9.0), np.full(3, 1.0 / 3.0)
    monkeypatch.setattr(attack, "draw", lambda rng, kind: seen)
    assert all(attack.judge_fit(np.random.default_rng(seed)) for seed in range(3))


@pytest.mark.parametrize("status", [Status.GAP_REACHED, Status.ROUNDING, Status.STALLED])
def test_a_status_that_claims_too_much_is_seen(status: Status, monkeypatch: pytest.MonkeyPatch) -> None:
    right = attack.fit_weights
    monkeypatch.setattr(
        attack, "fit_weights", lambda *a, **k: replace(right(*a, **k), gap=0.17, status=status)
    )
    assert all(attack.judge_matrix(np.random.default_rng(seed)) for seed in range(3))
