# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from wolfhound.core.contracts import Vector
from wolfhound.methods.atom_sets import ActiveSet, Move

ROWS = np.array([[1.0, 0.0, 2.0], [0.0, 1.0, -1.0], [3.0, 3.0, 0.5], [-2.0, 0.1, 0.0]])


def make(weights: list[float]) -> ActiveSet:
    k = len(weights)
    return ActiveSet(np.arange(10, 10 + k), np.array(weights), ROWS[:k])


def exact_point(active: ActiveSet) -> list[Fraction]:
    """(sum_i w_i s_i) / (sum_i w_i) without any rounding."""
    weights = [Fraction(float(w)) for w in active.weights]
    total = sum(weights)
    columns = [[Fraction(float(v)) for v in column] for column in active.rows.T]
    return [
        sum((w * v for w, v in zip(weights, column, strict=True)), Fraction()) / total for column in columns
    ]


def assert_covered(active: ActiveSet) -> None:
    for x, drift, exact in zip(active.x, active.drift, exact_point(active), strict=True):
        assert abs(Fraction(float(x)) - exact) <= Fraction(float(drift))


def test_point_of_weights() -> None:
    active = make([1.0, 3.0])
    assert_array_equal(active.weights, [0.25, 0.75])
    assert_array_equal(active.x, [0.25, 0.75, -0.25])
    assert_array_equal(active.ids, [10, 11])


@given(
    st.lists(st.floats(1e-9, 1.0), min_size=1, max_size=30),
    st.lists(st.integers(-4, 4), min_size=30, max_size=30),
)
def test_weights_that_were_scaled_stay_to_the_bit(weights: list[float], units: list[int]) -> None:
    rows: Vector = np.resize(ROWS, (len(weights), 3)) * np.arange(1.0, len(weights) + 1.0)[:, None]
    once = ActiveSet(np.arange(len(weights)), np.array(weights), rows)
    assert_covered(once)
    again = ActiveSet(once.ids, once.weights, rows)
    assert_allclose(again.weights, once.weights, rtol=1e-15)
    assert_covered(again)
    moved = once.weights * (1.0 + 2.0**-53 * np.array(units[: len(weights)]))
    assert_covered(ActiveSet(once.ids, moved, rows))


def test_a_set_made_of_another_is_the_same() -> None:
    rng = np.random.default_rng(0)
    rows, weights = rng.standard_normal((20, 3)), rng.random(20)
    once = ActiveSet(np.arange(20), weights, rows)
    again = ActiveSet(once.ids, once.weights, once.rows)
    assert_array_equal(again.weights, once.weights)
    assert_array_equal(again.x, once.x)


def test_no_atoms_is_the_origin() -> None:
    active = make([])
    assert len(active) == 0
    assert_array_equal(active.x, np.zeros(3))
    active.add(5, ROWS[2])
    active.step(Move(1.0, up=0), 1.0)
    assert_array_equal(active.x, ROWS[2])
    assert_array_equal(active.weights, [1.0])


def test_atoms_without_weight_are_left_out() -> None:
    active = make([0.0, 0.5, 0.0, 0.5])
    assert sorted(active.ids) == [11, 13]
    assert_allclose(active.x, 0.5 * (ROWS[1] + ROWS[3]))


def test_inputs_are_not_shared() -> None:
    weights, rows = np.array([1.0, 1.0]), ROWS[:2].copy()
    for array in (weights, rows):
        array.flags.writeable = False
    active = ActiveSet(np.array([4, 2]), weights, rows)
    active.step(Move(1.0, up=0), 0.5)
    assert_allclose(active.weights, [0.75, 0.25])


@pytest.mark.parametrize("weights", [[-0.1, 1.1], [0.0, 0.0], [np.nan, 1.0], [np.inf, 1.0]])
def test_bad_weights(weights: list[float]) -> None:
    with pytest.raises(ValueError, match="`weights` must be non-negative, finite and not all zero"):
        make(weights)


def test_repeated_ids() -> None:
    with pytest.raises(ValueError, match="`ids` must be distinct ids"):
        ActiveSet(np.array([1, 1]), np.ones(2), ROWS[:2])


def test_add_finds_known_atoms_and_grows() -> None:
    active = make([0.5, 0.5])
    assert active.add(11, ROWS[1]) == 1
    rows = np.random.default_rng(0).standard_normal((40, 3)).astype(np.float32)
    positions = [active.add(100 + i, row) for i, row in enumerate(rows)]
    assert positions == list(range(2, 42))
    assert_array_equal(active.rows[2:], rows)
    assert_array_equal(active.weights[2:], 0.0)
    active.drop()
    assert_array_equal(active.ids, [10, 11])


def test_drop_fills_holes_from_the_end() -> None:
    active = make([0.25, 0.25, 0.25, 0.25])
    active.weights[[0, 2]] = 0.0
    active.drop()
    assert_array_equal(active.ids, [13, 11])
    assert_array_equal(active.rows, ROWS[[3, 1]])
    assert_array_equal(active.weights, [0.25, 0.25])


@pytest.mark.parametrize(
    ("move", "kind", "end"),
    [
        (Move(1.0, up=1), "forward", 1.0),
        (Move(1.0, down=1), "away", 0.3 / 0.7),
        (Move(1.0, up=2, down=1), "pairwise", 0.3),
    ],
)
@pytest.mark.parametrize("share", [0.3, 1.0])
@pytest.mark.parametrize("fresh", [True, False])
def test_moves(move: Move, kind: str, end: float, share: float, fresh: bool) -> None:
    active = make([0.2, 0.3, 0.5])
    vector = active.direction(move)
    s = share * active.end(move)
    x = active.x + s * vector
    active.step(move, s, fresh=fresh)
    assert move.kind == kind
    assert np.isclose(s, share * end)
    assert_allclose(active.x, x, atol=1e-14)
    assert_allclose(active.weights @ active.rows, x, atol=1e-14)
    assert active.weights.min() > 0.0
    assert_covered(active)


@pytest.mark.parametrize(
    ("move", "left"),
    [(Move(1.0, up=1), [11]), (Move(1.0, down=1), [10, 12]), (Move(1.0, up=2, down=1), [10, 12])],
)
def test_full_steps_drop_atoms(move: Move, left: list[int]) -> None:
    active = make([0.2, 0.3, 0.5])
    active.step(move, active.end(move))
    assert sorted(active.ids) == left
    assert np.isclose(active.weights.sum(), 1.0)


@pytest.mark.parametrize("seed", range(50))
def test_a_full_away_step_leaves_no_dust(seed: int) -> None:
    rng = np.random.default_rng(seed)
    active = ActiveSet(np.arange(5), rng.random(5), rng.standard_normal((5, 2)))
    move = Move(1.0, down=3)
    active.step(move, active.end(move))
    assert sorted(active.ids) == [0, 1, 2, 4]


@pytest.mark.parametrize("seed", range(50))
def test_drift_grows_with_moves(seed: int) -> None:
    """The same step again and again: its rounding errors all have one sign."""
    rng = np.random.default_rng(seed)
    active = ActiveSet(np.arange(2), np.array([0.1, 0.9]), rng.uniform(1.0, 2.0, (2, 4)))
    s = float(rng.uniform(0.001, 0.013))
    for _ in range(63):
        active.step(Move(1.0, up=0, down=1), s, fresh=False)
    assert active.age == 63
    assert_covered(active)


def test_no_way_from_a_single_atom() -> None:
    assert make([1.0]).end(Move(1.0, down=0)) == 0.0
    assert make([1.0, 0.0]).end(Move(1.0, down=0)) == 0.0
    assert make([0.5, 0.5]).end(Move(1.0, up=1, down=1)) == 0.0


def test_a_step_of_length_zero_changes_nothing() -> None:
    active = make([1.0])
    active.step(Move(1.0, down=0), 0.0)
    assert_array_equal(active.weights, [1.0])


def test_age() -> None:
    active = make([0.5, 0.5])
    ages = []
    for _ in range(66):
        active.step(Move(1.0, up=0, down=1), 1e-3, fresh=False)
        ages.append(active.age)
    assert ages == [*range(1, 64), 0, 1, 2]
    active.step(Move(1.0, up=0, down=1), 1e-3)
    assert active.age == 0


moves = st.lists(
    st.tuples(
        st.sampled_from(["forward", "away", "pairwise"]),
        st.integers(0, 99),
        st.integers(0, 99),
        st.floats(0.0, 1.0),
        st.booleans(),
    ),
    max_size=40,
)


def build(kind: str, up: int, down: int, size: int) -> Move:
    table = {
        "forward": Move(1.0, up=up % size),
        "away": Move(1.0, down=down % size),
        "pairwise": Move(1.0, up=up % size, down=(up % size + 1 + down % max(size - 1, 1)) % size),
    }
    return table[kind]


@pytest.mark.slow
@given(st.integers(0, 10**6), st.integers(1, 12), st.sampled_from([1e-300, 1e-5, 1.0, 1e100]), moves)
def test_drift_covers_the_exact_point(
    seed: int, k: int, size: float, script: list[tuple[str, int, int, float, bool]]
) -> None:
    rng = np.random.default_rng(seed)
    rows: Vector = size * (rng.standard_normal((k, 2)) + 3.0)
    active = ActiveSet(np.arange(k), rng.random(k) + 1e-9, rows)
    for kind, up, down, share, fresh in script:
        move = build(kind, up, down, len(active))
        active.step(move, share * active.end(move), fresh=fresh)
        assert (active.weights > 0.0).all()
        assert np.isclose(active.weights.sum(), 1.0, rtol=1e-12)
        assert_covered(active)
    assert active.drift.max() <= 1e-11 * size + 1e-305
