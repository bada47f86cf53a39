"""Arguments of minimize: what a seed gives, whether its generator is made or not."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import numpy as np
import pytest

from wolfhound._given import REMEMBERED, Chance


@pytest.mark.parametrize("size", [1, 2, 50, REMEMBERED, REMEMBERED + 1])
@pytest.mark.parametrize("seed", [0, 3, 2**70])
def test_a_seed_gives_what_its_generator_does(size: int, seed: int) -> None:
    ids = np.random.default_rng(1).choice(10 * size, size, replace=False)
    chance, rng = Chance(seed), np.random.default_rng(seed)
    for _ in range(2):  # the second order is another
        np.testing.assert_array_equal(chance.shuffle(ids), rng.permutation(ids))
    assert chance.generator.bit_generator.state == rng.bit_generator.state


def test_what_is_drawn_after_an_order_is_as_if_it_had_been_drawn() -> None:
    chance, rng = Chance(5), np.random.default_rng(5)
    chance.shuffle(np.arange(20))
    rng.permutation(20)
    assert chance.generator.bit_generator.state == rng.bit_generator.state
    assert chance.generator is chance.generator


def test_a_generator_is_used_itself() -> None:
    given, rng = np.random.default_rng(7), np.random.default_rng(7)
    chance = Chance(given)
    assert chance.generator is given
    np.testing.assert_array_equal(chance.shuffle(np.arange(9)), rng.permutation(9))
    assert given.bit_generator.state == rng.bit_generator.state


def test_an_order_can_be_written_without_harm() -> None:
    first = Chance(0).shuffle(np.arange(12))
    kept = first.copy()
    first[:] = 0
    np.testing.assert_array_equal(Chance(0).shuffle(np.arange(12)), kept)


@pytest.mark.parametrize("seed", [-1, 1.5, True, None, "0"])
def test_what_is_no_seed_is_refused(seed: object) -> None:
    with pytest.raises((TypeError, ValueError), match="`seed` must be an integer >= 0"):
        Chance(seed)  # type: ignore[arg-type]
