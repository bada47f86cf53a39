# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wolfhound.methods.atom_sets import ActiveSet, Move
from wolfhound.methods.directions import Away, BlendedPairwise, Direction, Pairwise, Vanilla

SCORES = np.array([1.0, 4.0, -2.0])
HERE = 1.5
DIRECTIONS: tuple[Direction, ...] = (Vanilla(), Away(), Pairwise(), BlendedPairwise())


@pytest.mark.parametrize(
    ("direction", "move"),
    [
        (Vanilla(), Move(2.5, up=1)),
        (Away(), Move(3.5, down=2)),
        (Pairwise(), Move(6.0, up=1, down=2)),
        (BlendedPairwise(), Move(6.0, up=1, down=2)),
    ],
)
def test_inside(direction: Direction, move: Move) -> None:
    assert direction.inside(SCORES, HERE) == move


@pytest.mark.parametrize(
    ("direction", "score", "move"),
    [
        (Vanilla(), 4.5, Move(3.0, up=3)),
        (Vanilla(), 9.0, Move(7.5, up=3)),
        (Away(), 4.5, Move(3.5, down=2)),
        (Away(), 9.0, Move(7.5, up=3)),
        (Pairwise(), 4.5, Move(6.5, up=3, down=2)),
        (Pairwise(), 9.0, Move(11.0, up=3, down=2)),
        (BlendedPairwise(), 4.5, Move(6.0, up=1, down=2)),
        (BlendedPairwise(), 9.0, Move(7.5, up=3)),
    ],
)
def test_choose(direction: Direction, score: float, move: Move) -> None:
    assert direction.choose(SCORES, HERE, 3, score) == move


def test_away_moves_towards_the_best_when_that_is_steeper() -> None:
    assert Away().inside(np.array([0.0, 5.0]), 1.0) == Move(4.0, up=1)


@pytest.mark.parametrize("direction", DIRECTIONS)
@given(seed=st.integers(0, 10**6), k=st.integers(1, 8))
def test_gap_is_the_slope_of_its_vector(direction: Direction, seed: int, k: int) -> None:
    rng = np.random.default_rng(seed)
    active = ActiveSet(np.arange(k), rng.random(k) + 0.01, rng.standard_normal((k, 3)))
    query, row = rng.standard_normal(3), 2.0 * rng.standard_normal(3)
    scores, here = active.rows @ query, float(active.x @ query)
    position = active.add(99, row)
    inside = direction.inside(scores, here)
    chosen = direction.choose(scores, here, position, float(row @ query))
    assert np.isclose(inside.gap, active.direction(inside) @ query)
    assert np.isclose(chosen.gap, active.direction(chosen) @ query)
    assert inside.gap >= -1e-12


@pytest.mark.parametrize("direction", [Away(), Pairwise(), BlendedPairwise()])
@given(seed=st.integers(0, 10**6), k=st.integers(1, 8))
def test_a_move_falls_at_least_half_as_fast_as_the_best_pair(direction: Direction, seed: int, k: int) -> None:
    """What linear convergence rests on: gap >= (best score - worst active score) / 2."""
    rng = np.random.default_rng(seed)
    weights = rng.random(k) + 0.01
    scores = rng.standard_normal(k)
    here = float(weights @ scores / weights.sum())
    score = float(scores.max() + rng.exponential())
    move = direction.choose(scores, here, k, score)
    assert 2.0 * move.gap >= score - scores.min() - 1e-12
