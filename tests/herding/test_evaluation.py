"""Reports: on which rows an MMD is measured, and how many random subsets there are."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import importlib
from unittest.mock import Mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wolfhound import ArrayAtoms
from wolfhound.core.contracts import Progress
from wolfhound.herding import herd, mmd
from wolfhound.herding.mmd import Measured, curve_sizes, effort, evaluate
from wolfhound.solve import driver

MEASURE = importlib.import_module("wolfhound.herding.mmd")
LARGE = np.random.default_rng(1).normal(size=(21_000, 2)).astype(np.float32)


@pytest.mark.slow
def test_rows_are_held_out_where_there_are_enough() -> None:
    result = herd(LARGE, 30, candidates=500)
    assert result.reference == "10,000 rows held out, calibrated; 10 random subsets"
    assert result.mmd == pytest.approx(mmd(LARGE[result.ids], LARGE, result.kernel), abs=2e-3)  # type: ignore[arg-type]
    assert result.gain > 2.0
    assert 0.0 < result.mmd_random_spread < result.mmd_random


@pytest.mark.slow
def test_a_target_that_the_embedding_does_not_hold_whole_is_held_out_too() -> None:
    """12,000 rows, of which 2,000 are left: fewer than a quarter, so candidates are measured on."""
    for n, words in ((12_000, "10,000 rows drawn, also candidates"), (16_000, "6,000 rows held out")):
        result = herd(LARGE[:n], 50)
        assert result.reference == f"{words}, calibrated; 10 random subsets"
        wanted = mmd(LARGE[result.ids], LARGE[:n], result.kernel)  # type: ignore[arg-type]
        assert result.mmd == pytest.approx(wanted, abs=2e-3)


@pytest.mark.slow
def test_labels_that_are_exact_are_measured_together_on_fewer_rows() -> None:
    labels = np.arange(21_000) % 3
    result = herd(LARGE, 60, by=labels)
    assert result.reference.startswith("10,000 rows drawn, also candidates, calibrated")
    wanted = mmd(LARGE[result.ids], LARGE, result.kernel, left_weights=result.weights)  # type: ignore[arg-type]
    assert result.mmd == pytest.approx(wanted, abs=2e-3)


class Clock:
    """A clock that ticks whenever it is read."""

    def __init__(self, step: float) -> None:
        self.now, self.step = 0.0, step

    def perf_counter(self) -> float:
        self.now += self.step
        return self.now


@pytest.fixture
def measured() -> Measured:
    """A herd that was measured, on something whose distances are 1."""
    return Measured("something", 0.5, np.full(5, 0.5), None, lambda rows: np.ones(5))


@pytest.mark.parametrize(
    ("deadline", "words", "random"),
    [
        (99.0, "something; 10 random subsets", 1.0),
        (4.5, "something; 3 random subsets of 10: `max_seconds` was over", 1.0),
        (2.5, "something; 1 random subsets of 10: `max_seconds` was over", 1.0),
    ],
)
def test_an_evaluation_ends_at_the_deadline(
    deadline: float, words: str, random: float, measured: Measured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(MEASURE, "time", Clock(1.0))
    none, rng = np.empty(0, np.int64), np.random.default_rng(0)
    atoms = ArrayAtoms(LARGE[:100])
    found = evaluate(atoms, 5, none, lambda *_: measured, rng=rng, deadline=deadline)
    assert found.reference == words
    assert found.mmd == 0.5
    assert found.mmd_random == random


def test_an_evaluation_whose_time_is_over_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(0.0)
    for module in (driver, MEASURE, importlib.import_module("wolfhound.herding.herd")):
        monkeypatch.setattr(module, "time", clock)

    def tick(state: Progress) -> None:
        clock.now += 1.0

    result = herd(LARGE[:500], 8, max_seconds=8.5, callback=tick)
    assert len(result.ids) == 8
    assert np.isnan([result.mmd, result.mmd_random, result.gain]).all()
    assert result.reference.startswith("nothing: ")
    assert "not evaluated" in repr(result)
    assert result.extend(10).mmd > 0.0


def test_ctrl_c_ends_an_evaluation(measured: Measured) -> None:
    press = Mock(side_effect=[np.ones(5), KeyboardInterrupt])
    none, rng = np.empty(0, np.int64), np.random.default_rng(0)
    pressed = measured._replace(ruler=press)
    found = evaluate(ArrayAtoms(LARGE[:9]), 5, none, lambda *_: pressed, rng=rng, deadline=np.inf)
    assert found.mmd_random == 1.0
    assert found.reference.startswith("something; 1 random subsets of 10: ")


@pytest.mark.slow
def test_candidates_are_used_again_where_none_are_left() -> None:
    result = herd(LARGE, 10, candidates=20_500)
    assert result.reference == "10,000 rows drawn, also candidates, calibrated; 10 random subsets"


@pytest.mark.parametrize(("m", "wanted"), [(2000, 10), (10_000, 5), (10_001, 3)])
def test_large_herds_are_measured_with_less_effort(m: int, wanted: int) -> None:
    assert effort(m) == wanted


@pytest.mark.slow
@given(st.integers(1, 100_000))
def test_sizes_of_a_curve(m: int) -> None:
    sizes = curve_sizes(m)
    assert sizes[0] == 1
    assert sizes[-1] == m
    assert (np.diff(sizes) > 0).all()
    assert len(sizes) <= 24
