"""herd: what it picks, what it refuses, how it ends, what it reports."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import importlib
import math
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wolfhound import FileAtoms, LineSearch, OpenLoop, Scan, Status, get_threads, set_threads
from wolfhound.core import progress
from wolfhound.core.contracts import Matrix, Progress
from wolfhound.herding import (
    Gaussian,
    Laplace,
    Linear,
    Stein,
    herd,
    herd_in_features,
    mmd,
    session,
    with_scores,
)
from wolfhound.herding.greedy import Herd
from wolfhound.solve import driver

ROWS = np.random.default_rng(0).normal(size=(500, 2))
LARGE = np.random.default_rng(1).normal(size=(21_000, 2)).astype(np.float32)


# ---------------------------------------------------------------- rows and weights


@settings(max_examples=40)
@given(st.integers(0, 10**6), st.integers(1, 25), st.booleans(), st.booleans(), st.data())
def test_rows_are_distinct_and_weights_on_the_simplex(
    seed: int, m: int, weights: bool, swap: bool, data: st.DataObject
) -> None:
    n = data.draw(st.integers(m + 5, 60))
    rows = np.random.default_rng(seed).normal(size=(n, 3))
    banned = data.draw(st.lists(st.integers(0, n - 1), max_size=5, unique=True))
    free = [i for i in range(n) if i not in banned]
    init = data.draw(st.lists(st.sampled_from(free), max_size=m - 1, unique=True))
    result = herd(rows, m, weights=weights, swap=swap, exclude=banned, start=init, seed=seed, evaluate=False)
    assert len(np.unique(result.ids)) == m
    assert result.ids.dtype == np.int64
    assert not np.isin(result.ids, banned).any()
    assert result.ids[: len(init)].tolist() == init
    assert result.weights.min() >= 0.0
    assert result.weights.sum() == pytest.approx(1.0, abs=1e-12)
    assert 1.0 - 1e-9 <= result.ess <= m + 1e-9
    assert result.status is Status.FINISHED


@settings(max_examples=25)
@given(st.integers(0, 10**6))
def test_the_order_of_the_rows_does_not_matter(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows, order = rng.normal(size=(40, 3)), rng.permutation(40)
    plain = herd(rows, 8, kernel=Gaussian(1.0), evaluate=False)
    turned = herd(rows[order], 8, kernel=Gaussian(1.0), evaluate=False)
    np.testing.assert_array_equal(order[turned.ids], plain.ids)


@pytest.mark.parametrize("kernel", [None, Laplace(), Linear()], ids=["gaussian", "laplace", "linear"])
def test_better_than_random(kernel: Any) -> None:
    plain = herd(ROWS, 20, kernel=kernel)
    assert plain.gain > 1.7
    assert plain.mmd == pytest.approx(mmd(ROWS[plain.ids], ROWS, plain.kernel), abs=1e-5)  # type: ignore[arg-type]
    swapped = herd(ROWS, 20, kernel=kernel, swap=True)
    assert swapped.mmd <= plain.mmd
    weighted = herd(ROWS, 20, kernel=kernel, weights=True)
    assert weighted.mmd <= plain.mmd + 1e-6
    np.testing.assert_array_equal(weighted.ids, plain.ids)


def test_the_default_kernel_has_the_median_distance() -> None:
    from scipy.spatial.distance import pdist

    kernel = herd(ROWS, 3, evaluate=False).kernel
    assert isinstance(kernel, Gaussian)
    assert kernel.lengthscale == pytest.approx(np.median(pdist(ROWS)))


def test_a_target_is_matched() -> None:
    target = np.random.default_rng(2).normal([2.0, 0.0], 0.3, size=(200, 2))
    result = herd(ROWS, 12, target=target)
    assert ROWS[result.ids, 0].mean() > 1.2
    assert result.gain > 2.0
    assert result.reference == "all 200 rows of the target (exact); 10 random subsets"


def test_row_weights_move_the_mean() -> None:
    weights = (ROWS[:, 0] > 0.0).astype(np.float64)
    result = herd(ROWS, 20, row_weights=weights)
    wanted = herd(ROWS[ROWS[:, 0] > 0.0], 20, kernel=result.kernel)
    assert ROWS[result.ids, 0].mean() == pytest.approx(ROWS[ROWS[:, 0] > 0.0, 0].mean(), abs=0.05)
    assert result.mmd < 1.5 * wanted.mmd


def test_init_counts_in_the_mean() -> None:
    far = np.argsort(ROWS[:, 0])[-5:]
    result = herd(ROWS, 15, start=far)
    assert ROWS[result.ids[5:], 0].mean() < -0.3
    rng = np.random.default_rng(3)
    filled = [np.concatenate([far, rng.choice(500, 10, replace=False)]) for _ in range(10)]
    assert result.mmd < 0.8 * np.mean([mmd(ROWS[ids], ROWS, Gaussian(1.6)) for ids in filled])


def test_stein_thins_a_chain_that_is_too_wide() -> None:
    samples = 2.0 * ROWS  # of a standard normal, but drawn too wide
    result = herd(with_scores(samples, -samples), 30, kernel=Stein())
    assert result.gain > 2.0
    assert samples[result.ids].std() < 0.75 * samples.std()
    assert result.reference == "the density itself (exact); 10 random subsets"
    assert result.passes == 0.0


def test_all_rows_have_no_distance() -> None:
    result = herd(ROWS[:30], 30)
    assert sorted(result.ids.tolist()) == list(range(30))
    assert result.mmd == pytest.approx(0.0, abs=1e-3)


def test_constant_columns_and_few_rows() -> None:
    rows = np.column_stack([ROWS, np.full(500, 7.0)])
    kernel = Gaussian(1.0)
    np.testing.assert_array_equal(herd(rows, 9, kernel=kernel).ids, herd(ROWS, 9, kernel=kernel).ids)
    assert herd(ROWS[:2], 1).ids.tolist() in ([0], [1])


def test_equal_rows_with_a_lengthscale() -> None:
    result = herd(np.ones((20, 3)), 4, kernel=Gaussian(1.0))
    assert result.ids.tolist() == [0, 1, 2, 3]


def test_types_and_sources_agree(tmp_path: Path) -> None:
    rows = LARGE[:3000]
    np.save(tmp_path / "rows.npy", rows)
    options: dict[str, Any] = {"candidates": 300, "evaluate": False}
    wanted = herd(rows, 20, **options).ids
    locked = rows.copy()
    locked.flags.writeable = False
    for source in (locked, FileAtoms(tmp_path / "rows.npy"), str(tmp_path / "rows.npy")):
        np.testing.assert_array_equal(herd(source, 20, **options).ids, wanted)
    np.testing.assert_array_equal(herd([rows[:900], rows[900:]], 20, **options).ids, wanted)


@pytest.mark.slow
def test_the_same_at_any_number_of_threads() -> None:
    before, found = get_threads(), []
    for threads in (1, 3):
        set_threads(threads)
        found.append(herd(LARGE, 40, candidates=2000, swap=True, weights=True))
    set_threads(before)
    np.testing.assert_array_equal(found[0].ids, found[1].ids)
    np.testing.assert_array_equal(found[0].weights, found[1].weights)
    assert found[0].mmd == found[1].mmd
    assert found[0].mmd_random == found[1].mmd_random


def test_seeds() -> None:
    one, two = (herd(ROWS, 10, candidates=60, seed=seed, evaluate=False).ids for seed in (1, 2))
    assert not np.isin(one, two).all()
    drawn = [herd(ROWS, 10, candidates=60, seed=np.random.default_rng(3), evaluate=False) for _ in range(2)]
    np.testing.assert_array_equal(drawn[0].ids, drawn[1].ids)


# ---------------------------------------------------------------- feature spaces


def _waves(rows: Matrix) -> Matrix:
    return np.hstack([np.cos(rows), np.sin(rows)])


def test_features_as_a_map_and_as_an_array() -> None:
    mapped = herd_in_features(ROWS, 25, _waves, oracle=Scan)
    given_array = herd_in_features(ROWS, 25, _waves(ROWS), oracle=Scan)
    np.testing.assert_array_equal(mapped.ids, given_array.ids)
    mean = _waves(ROWS).mean(axis=0)
    apart = np.linalg.norm(mapped.weights @ _waves(ROWS[mapped.ids]) - mean)
    assert mapped.mmd == pytest.approx(apart, rel=1e-9)
    assert mapped.gain > 3.3
    assert mapped.space == "a space of 4 features"
    assert mapped.curve.mmd[-1] == pytest.approx(mapped.mmd, rel=1e-6)
    np.testing.assert_allclose(mapped.weights * 25, (mapped.weights * 25).round(), atol=1e-9)


def test_without_features_the_atoms_are_them() -> None:
    scanned = herd_in_features(ROWS, 25, oracle=Scan)
    np.testing.assert_array_equal(scanned.ids, herd_in_features(ROWS, 25, ROWS, oracle=Scan).ids)
    assert herd_in_features(ROWS, 25, step=LineSearch()).mmd < scanned.mmd
    assert herd_in_features(ROWS, 25, step=OpenLoop(2), oracle=Scan).weights.std() > 1e-3


def test_a_target_in_a_feature_space() -> None:
    target = ROWS[ROWS[:, 0] > 1.0]
    result = herd_in_features(ROWS, 30, _waves, target=target, oracle=Scan)
    apart = np.linalg.norm(result.weights @ _waves(ROWS[result.ids]) - _waves(target).mean(axis=0))
    assert result.mmd == pytest.approx(apart, rel=1e-9)
    assert result.gain > 5.0


def test_start_and_exclude_in_a_feature_space() -> None:
    result = herd_in_features(ROWS, 12, ROWS, oracle=Scan, start=[3, 5], exclude=[0, 1])
    assert result.ids[:2].tolist() == [3, 5]
    assert not np.isin([0, 1], result.ids).any()


# ---------------------------------------------------------------- ends


def test_a_callback_sees_every_state_and_can_stop() -> None:
    seen: list[tuple[int, str]] = []

    def stop(state: Progress) -> bool:
        seen.append((state.t, state.kind))
        return state.t == 4

    result = herd(ROWS, 20, callback=stop)
    assert seen == [(0, "start"), (1, "pick"), (2, "pick"), (3, "pick"), (4, "pick")]
    assert result.status is Status.STOPPED
    assert not result.success
    np.testing.assert_array_equal(result.ids, herd(ROWS, 20).ids[:4])
    np.testing.assert_array_equal(result.weights, np.full(4, 0.25))
    assert len(result.trace) == 5


def test_ctrl_c_returns_the_rows_so_far() -> None:
    press = Mock(side_effect=[None] * 5 + [KeyboardInterrupt])  # at the fifth pick
    result = herd(ROWS, 20, callback=press, weights=True)
    assert result.status is Status.INTERRUPTED
    np.testing.assert_array_equal(result.ids, herd(ROWS, 20).ids[:5])
    assert math.isfinite(result.mmd)
    np.testing.assert_array_equal(result.extend(20).ids, herd(ROWS, 20).ids)


def test_ctrl_c_in_the_middle_of_a_pick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half a pick is undone before weights are fitted and the run goes on."""
    join = Mock(side_effect=[None] * 5 + [KeyboardInterrupt] + [None] * 99)
    plain = Herd._enter
    monkeypatch.setattr(Herd, "_enter", lambda herd, place: (plain(herd, place), join())[1])
    result = herd(ROWS, 20)
    assert result.status is Status.INTERRUPTED
    np.testing.assert_array_equal(result.ids, herd(ROWS, 20).ids[:5])
    np.testing.assert_array_equal(result.extend(20).ids, herd(ROWS, 20).ids)


class Clock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = 0.0

    def perf_counter(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    for module in (driver, session, progress, importlib.import_module("wolfhound.herding.herd")):
        monkeypatch.setattr(module, "time", made)
    monkeypatch.setattr(progress, "COMPILING", progress.Stopwatch())  # it ran by another clock
    return made


@pytest.mark.parametrize("options", [{}, {"by": np.arange(500) % 3}], ids=["all", "labels"])
def test_a_deadline_returns_the_rows_so_far(clock: Clock, options: dict[str, Any]) -> None:
    def tick(state: Progress) -> None:
        clock.now += 1.0

    result = herd(ROWS, 20, max_seconds=7.5, callback=tick, **options)
    assert result.status is Status.MAX_SECONDS
    assert len(result.ids) == 8
    assert result.weights.sum() == pytest.approx(1.0)
    assert result.seconds == 9.0
    np.testing.assert_array_equal(result.ids, herd(ROWS, 20, **options).ids[:8])


def test_a_deadline_during_swaps_keeps_all_rows(clock: Clock) -> None:
    def tick(state: Progress) -> None:
        clock.now += 1.0

    result = herd(ROWS, 10, swap=True, max_seconds=12.5, callback=tick)
    assert result.status is Status.MAX_SECONDS
    assert len(np.unique(result.ids)) == 10


@pytest.mark.parametrize("rows", [ROWS, LARGE], ids=["small", "in the pass"])
def test_a_deadline_before_the_first_row(clock: Clock, rows: Any) -> None:
    def tick(state: Progress) -> None:
        clock.now += 10.0

    with pytest.raises(TimeoutError, match="`max_seconds` = 5 was over before the first pick"):
        herd(rows, 10, max_seconds=5.0, callback=tick, kernel=Gaussian(1.0))


def test_a_stop_or_ctrl_c_before_the_first_row() -> None:
    def press(state: Progress) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        herd(ROWS, 10, callback=press)
    with pytest.raises(RuntimeError, match="before the first pick"):
        herd(ROWS, 10, callback=lambda state: True)


def test_a_file_that_vanishes_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "rows.npy"
    np.save(path, LARGE)

    def remove(state: Progress) -> None:
        path.unlink(missing_ok=True)

    with pytest.raises(OSError, match=r"rows\.npy"):
        herd(FileAtoms(path), 5, callback=remove)


# ---------------------------------------------------------------- bad input

HOLED = np.where(np.arange(1000).reshape(500, 2) == 155, np.nan, ROWS)


@pytest.mark.parametrize(
    ("m", "options", "words"),
    [
        (501, {}, "`m` must be an integer in [1, 500], the atoms there are. Got 501."),
        (500, {"exclude": [1]}, "`m` must be an integer in [1, 499], the atoms there are without `exclude`"),
        (0, {}, "`m` must be an integer >= 1. Got 0."),
        (5, {"candidates": 4}, "`candidates` must be at least 5, the atoms to pick. Got 4."),
        (5, {"start": [1, 1]}, "`start` must be distinct ids."),
        (5, {"start": [500]}, "`start` must be ids in [0, 500). Got 500 .. 500."),
        (5, {"start": range(5)}, "`m` must be more than the 5 atoms of `start`. Got 5."),
        (5, {"start": [3], "exclude": [3]}, "`start` must be none of `exclude`. Got atom 3 in both."),
        (5, {"exclude": [-1]}, "`exclude` must be ids in [0, 500)."),
        (5, {"target": ROWS[:, :1]}, "`target` must be rows of 2 columns. Got 1 columns."),
        (5, {"target": HOLED}, "`target` must be finite. Got nan in row 77, column 1."),
        (5, {"row_weights": np.ones(3)}, "`row_weights` must be a vector of length 500. Got length 3."),
        (5, {"row_weights": -np.ones(500)}, "`row_weights` must be >= 0"),
        (5, {"row_weights": np.zeros(500)}, "`row_weights` must be above 0 in some entry"),
        (5, {"max_seconds": -1.0}, "`max_seconds` must be a number >= 0. Got -1.0."),
        (5, {"seed": -1}, "`seed` must be an integer >= 0. Got -1."),
        (5, {"target": ROWS, "kernel": Stein()}, "`target` must be None with Stein()"),
        (5, {"row_weights": np.ones(500), "kernel": Stein()}, "`row_weights` must be None: the kernel"),
    ],
)
def test_bad_arguments(m: int, options: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError) as error:
        herd(ROWS, m, **options)
    assert words in str(error.value)


@pytest.mark.parametrize(
    ("m", "options", "words"),
    [
        (501, {}, "`m` must be an integer in [1, 500], the atoms there are. Got 501."),
        (5, {"start": range(5)}, "`m` must be more than the 5 atoms of `start`. Got 5."),
        (5, {"start": [3], "exclude": [3]}, "`start` must be none of `exclude`. Got atom 3 in both."),
        (5, {"row_weights": -np.ones(500)}, "`row_weights` must be >= 0"),
        (5, {"max_seconds": -1.0}, "`max_seconds` must be a number >= 0. Got -1.0."),
        (5, {"features": ROWS[:9]}, "`features` must be 500 rows, one per atom. Got 9 rows."),
        (5, {"features": lambda rows: rows[0]}, "`features` must be a map of (r, d) rows to (r, p)."),
        (5, {"features": ROWS, "target": ROWS[:, :1]}, "`target` must be rows of 2 columns"),
    ],
)
def test_bad_arguments_in_a_feature_space(m: int, options: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError) as error:
        herd_in_features(ROWS, m, **options)
    assert words in str(error.value)


@pytest.mark.parametrize(
    ("m", "options", "words"),
    [
        (2.5, {}, "`m` must be an integer >= 1. Got 2.5."),
        (True, {}, "`m` must be an integer >= 1. Got True."),
        (5, {"start": [0.5]}, "`start` must be a vector of integer ids."),
        (5, {"kernel": Gaussian}, "`kernel` must be a kernel such as Gaussian()."),
    ],
)
def test_arguments_of_another_type(m: Any, options: dict[str, Any], words: str) -> None:
    with pytest.raises(TypeError) as error:
        herd(ROWS, m, **options)
    assert words in str(error.value)


@pytest.mark.parametrize("kernel", [None, Gaussian(1.0), Linear()], ids=["fitted", "given", "linear"])
def test_rows_that_are_not_finite(kernel: Any) -> None:
    with pytest.raises(ValueError, match=r"`atoms` must be finite. Got nan in row 77, column 1\."):
        herd(HOLED, 5, kernel=kernel)


def test_rows_that_do_not_differ() -> None:
    with pytest.raises(ValueError, match=r"`lengthscale` must be given where rows do not differ"):
        herd(np.ones((30, 2)), 5)


@pytest.mark.parametrize("kernel", [Gaussian(), Laplace(), Linear()], ids=["Gaussian", "Laplace", "linear"])
@pytest.mark.parametrize("scale", [1e158, 1e300])
def test_rows_too_large_are_named(kernel: Any, scale: float) -> None:
    with pytest.raises(ValueError, match=r"`atoms` must be of moderate size.*: scale them\. Got"):
        herd(scale * ROWS, 5, kernel=kernel, weights=True)


@pytest.mark.parametrize("scale", [2.0**-400, 2.0**-130, 2.0**-120, 2.0**120, 2.0**128, 2.0**130, 2.0**400])
def test_rows_of_any_moderate_size_are_herded_alike(scale: float) -> None:
    kept, scaled = herd(ROWS, 5, weights=True), herd(scale * ROWS, 5, weights=True)
    np.testing.assert_array_equal(scaled.ids, kept.ids)
    assert scaled.mmd == pytest.approx(kept.mmd, rel=1e-4)


def test_an_extension_is_not_given_what_it_does_not_read() -> None:
    with pytest.raises(ValueError, match="`atoms` must be given where `by` is"):
        herd(ROWS, 3).extend(5, by=np.zeros(len(ROWS)))
