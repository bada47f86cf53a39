"""A memory limit that is kept, and the least that would do."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from wolfhound import FileAtoms, FrankWolfe, FullyCorrective, Scan, SquaredDistance, minimize
from wolfhound.core.threads import set_threads
from wolfhound.data.atoms import ArrayAtoms
from wolfhound.oracles.scan import plan_pass
from wolfhound.solve.minimize import fit_memory

ROWS = np.random.default_rng(0).standard_normal((60_000, 32)).astype(np.float32)
TARGET = np.full(32, 0.6)


@pytest.fixture
def atoms(tmp_path: Path) -> FileAtoms:
    np.save(tmp_path / "x.npy", ROWS)
    return FileAtoms(tmp_path / "x.npy")


@pytest.mark.slow
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("limit", [2_500_000, 6_000_000, 20_000_000])
def test_the_limit_is_kept_and_the_gap_is_proved(atoms: FileAtoms, limit: int, threads: int) -> None:
    free = minimize(SquaredDistance(TARGET), ROWS)
    set_threads(threads)
    tracemalloc.start()
    try:
        result = minimize(SquaredDistance(TARGET), atoms, max_memory=limit)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
        set_threads(None)
    assert result.success
    assert peak < limit
    assert result.value == pytest.approx(free.value, abs=free.goal)


def test_too_little_is_refused_with_the_least_that_would_do(atoms: FileAtoms) -> None:
    with pytest.raises(
        ValueError, match=r"`max_memory` must be at least [\d,]+ bytes .*\. Got 1,000\."
    ) as caught:
        minimize(SquaredDistance(TARGET), atoms, max_memory=1000)
    least = int(str(caught.value).split("least ")[1].split(" ")[0].replace(",", ""))
    assert minimize(SquaredDistance(TARGET), atoms, max_memory=least).success
    with pytest.raises(ValueError, match="`max_memory` must be at least"):
        minimize(SquaredDistance(TARGET), atoms, max_memory=least - 1)


@pytest.mark.parametrize("wrong", [0, -1, "much", "0GB", "5", float("nan"), None, True])
def test_limits_are_numbers_of_bytes(wrong: Any) -> None:
    given = {"screen": "no"} if wrong is None else {"max_memory": wrong}
    with pytest.raises((ValueError, TypeError), match=r"`max_memory` must be|`screen` must be"):
        Scan(ROWS, **given)


def test_an_oracle_has_its_own_memory(atoms: FileAtoms) -> None:
    with pytest.raises(ValueError, match=r"`max_memory` must be None for an oracle"):
        minimize(SquaredDistance(TARGET), Scan(atoms), max_memory="1GB")


def test_pool_and_harvest_shrink_together_and_other_methods_stay(atoms: FileAtoms) -> None:
    _, large = fit_memory(atoms, FullyCorrective(), "1GB")
    _, small = fit_memory(atoms, FullyCorrective(), "5MB")
    assert large == FullyCorrective()
    assert isinstance(small, FullyCorrective)
    assert small.pool < large.pool
    assert small.harvest < large.harvest
    assert fit_memory(atoms, FrankWolfe(), "5MB")[1] == FrankWolfe()


def test_screening_is_given_up_before_blocks_become_too_small() -> None:
    atoms = ArrayAtoms(ROWS)
    assert plan_pass(atoms, 1e9, None).screen
    assert not plan_pass(atoms, 1_300_000, None).screen
    assert plan_pass(atoms, 1e9, False).block > plan_pass(atoms, 1_500_000, False).block
    with pytest.raises(ValueError, match="`max_memory` must be at least"):
        plan_pass(atoms, 720_000, True)


def test_answers_do_not_depend_on_the_limit(atoms: FileAtoms) -> None:
    queries = np.random.default_rng(1).standard_normal((9, 32))
    for m in (1, 9):
        one = Scan(ROWS, screen=False).query(queries[:m], k=7)
        other = Scan(atoms, screen=False, max_memory="1MB").query(queries[:m], k=7)
        np.testing.assert_array_equal(one.ids, other.ids)
        np.testing.assert_array_equal(one.scores, other.scores)
        np.testing.assert_array_equal(one.bounds, other.bounds)
