"""Goals near rounding: what float32 passes hide is found in float64, and a target says truly how it ended."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import wolfhound as wh
from tests.many.judge import check_proofs
from tests.many.test_many import same
from wolfhound.core.contracts import Status
from wolfhound.core.rounding import WORN
from wolfhound.many.batch import PROVED, ROUNDING, STALLED, judge
from wolfhound.many.given import widen_result
from wolfhound.many.result import STATUSES
from wolfhound.many.rows import RowBlocks
from wolfhound.many.solve import SMALL

Array = NDArray[Any]


def near_a_line(seed: int, *, n: int = SMALL + 50, d: int = 10, noise: float = 1e-6) -> tuple[Array, Array]:
    """Atoms near a line, and targets some times their spread away: float32 passes hide their goals."""
    rng = np.random.default_rng(seed)
    atoms = np.outer(rng.standard_normal(n), rng.standard_normal(d)) + noise * rng.standard_normal((n, d))
    return atoms, atoms.mean(axis=0) + 3.0 * rng.standard_normal((6, d)) * atoms.std(axis=0)


@pytest.mark.parametrize("seed", range(3))
def test_float32_passes_alone_stall_and_say_so(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    atoms, targets = near_a_line(seed)
    monkeypatch.setattr(RowBlocks, "exact", lambda self: self)
    result = wh.minimize_many(targets, atoms)
    assert Status.STALLED in set(result.status)
    assert not result.success
    assert (result.gap[result.status == Status.STALLED] > result.goal[result.status == Status.STALLED]).all()


@pytest.mark.parametrize("offset", [0.0, 1e4, 1e8])
@pytest.mark.parametrize("noise", [1e-4, 1e-6, 1e-9])
@pytest.mark.parametrize("n", [200, SMALL + 50])
def test_nearly_collinear_atoms_are_proved(n: int, noise: float, offset: float) -> None:
    for seed in range(3):
        atoms, targets = near_a_line(seed, n=n, noise=noise)
        atoms, targets = atoms + offset, targets + offset
        result = wh.minimize_many(targets, atoms)
        assert set(result.status) == {Status.GAP_REACHED}
        assert (result.gap <= result.goal).all()
        check_proofs(result, targets, atoms, some=range(seed, seed + 1))


@pytest.mark.parametrize(
    "options",
    [{"over": wh.Hull(at_most=True)}, {"exclude": np.arange(400)}, {"max_atoms": 1}, {"max_memory": "40MB"}],
)
def test_options_hold_near_rounding(options: dict[str, Any]) -> None:
    atoms, targets = near_a_line(1)
    result = wh.minimize_many(targets, atoms, **options)
    excluded = [options.get("exclude", [])] * len(targets)
    origin = "over" in options
    assert result.success
    assert result.support.max() <= options.get("max_atoms", len(atoms))
    check_proofs(result, targets, atoms, exclude=excluded, at_most=origin, some=range(2))


def test_float64_passes_leave_the_price_of_a_limit() -> None:
    atoms, targets = near_a_line(2)
    free, few = wh.minimize_many(targets, atoms), wh.minimize_many(targets, atoms, max_atoms=1)
    assert few.price is not None
    np.testing.assert_allclose(few.value - few.price, free.value, rtol=1e-6)
    assert (few.gap <= few.price + few.goal).all()
    assert set(few.status) <= {Status.FINISHED, Status.GAP_REACHED}


def test_no_float64_pass_depends_on_threads() -> None:
    atoms, targets = near_a_line(3)
    answers = []
    for threads in (1, 2, 4):
        wh.set_threads(threads)
        answers.append(wh.minimize_many(np.tile(targets, (30, 1)), atoms))
    wh.set_threads(None)
    assert answers[0].success
    assert same(answers[0], answers[1])
    assert same(answers[0], answers[2])


@pytest.mark.parametrize("rtol", [1e-6, 1e-13])
def test_numbers_that_underflow_are_judged_as_they_are_given(rtol: float) -> None:
    rng = np.random.default_rng(0)
    for power in range(-175, -155):
        atoms, targets = 10.0**power * rng.standard_normal((5, 3)), 10.0**power * rng.standard_normal((8, 3))
        result = wh.minimize_many(targets, atoms, rtol=rtol, over=wh.Hull(at_most=True))
        assert ((result.gap <= result.goal) == (result.status == Status.GAP_REACHED)).all()


# ---------------------------------------------------------------- what rounding is


@pytest.mark.parametrize(
    ("gap", "goal", "slack", "code"),
    [
        (1.0, 1.0, 0.0, PROVED),
        (1.0, 0.5, 1.0 / WORN, ROUNDING),
        (1.0, 0.0, 1.0, ROUNDING),
        (1.0, 0.5, 0.99 / WORN, STALLED),
        (np.inf, 0.0, 1.0, STALLED),
        (np.inf, np.inf, 1.0, PROVED),
    ],
)
def test_rounding_is_what_is_proved_to_be(gap: float, goal: float, slack: float, code: int) -> None:
    assert judge(np.array([gap]), np.array([goal]), np.array([slack])).tolist() == [code]


@pytest.mark.parametrize("rtol", [1e-13, 0.0])
@pytest.mark.parametrize("n", [40, SMALL + 50])
def test_goals_beyond_rounding_end_within_it(n: int, rtol: float) -> None:
    for seed in range(3):
        atoms, targets = near_a_line(seed, n=n, noise=0.1)
        result = wh.minimize_many(targets, atoms, rtol=rtol)
        sizes = np.linalg.norm(atoms, axis=1).max() + np.linalg.norm(targets, axis=1)
        # Products of 10 entries and mixtures of up to 11 rows: some hundred units, 8 times.
        assert (result.gap <= 8.0 * 400.0 * 2.0**-53 * sizes**2).all()
        assert set(result.status) <= {Status.GAP_REACHED, Status.ROUNDING}


def test_targets_beyond_all_numbers_are_rounding_unless_that_was_asked() -> None:
    atoms, target = 1e-10 * np.random.default_rng(0).standard_normal((20, 3)), np.full((1, 3), 1e149)
    assert wh.minimize_many(target, atoms).status[0] is Status.ROUNDING
    found = wh.minimize_many(target, atoms, atol=1e290)
    assert found.status[0] is Status.GAP_REACHED
    assert found.gap[0] <= 1e290


@pytest.mark.parametrize(
    ("off", "status"), [(0.0, Status.GAP_REACHED), (1e-9, Status.STALLED), (1e-3, Status.ROUNDING)]
)
def test_what_lifting_loses_is_rounding_only_if_it_is_the_most(off: float, status: Status) -> None:
    atoms, targets = near_a_line(0, n=40, noise=0.1)
    result = wh.minimize_many(targets[:1], atoms)
    tight = wh.ManyResult(
        **{
            name: getattr(result, name)
            for name in ("indptr", "ids", "weights", "codes", "passes", "seconds", "shape")
        },
        value=result.lower + 1e-6 * result.lower,
        lower=result.lower,
        goal=1e-6 * result.lower * (1.0 + 1e-6),
    )
    found = widen_result(tight, off * float(np.sqrt(2.0 * result.lower[0])))
    assert STATUSES[found["codes"][0]] is status
