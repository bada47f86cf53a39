"""Results: what they say, how they are kept, and that they go on."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
import pickle
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from wolfhound import ArrayAtoms, Scan, Status
from wolfhound.core.contracts import Matrix, Vector
from wolfhound.data import store
from wolfhound.herding import Gaussian, Laplace, Linear, Stein, herd, herd_in_features, mmd, with_scores
from wolfhound.herding.kernels import Kernel
from wolfhound.herding.mmd import Curve
from wolfhound.herding.result import HerdResult

ROWS = np.random.default_rng(0).normal(size=(400, 2))
LABELS = np.where(ROWS[:, 0] > 0.5, "high", "low")
WEIGHTS = np.exp(ROWS[:, 1])
OTHERS = np.random.default_rng(1).normal(1.0, 1.0, size=(300, 2))


class Doubled(Kernel):
    """A kernel that is not one of ours."""

    plain = Gaussian(1.0)

    def gram(self, left: Matrix, right: Matrix) -> Matrix:
        return 2.0 * self.plain.gram(left, right)

    def diagonal(self, rows: Matrix) -> Vector:
        return np.full(len(rows), 2.0)

    def __repr__(self) -> str:
        return "Doubled()"


@pytest.fixture(scope="module")
def result() -> HerdResult:
    return herd(ROWS, 30, weights=True)


# ---------------------------------------------------------------- what it says


def test_numbers(result: HerdResult) -> None:
    assert result.ess == pytest.approx(1.0 / (result.weights**2).sum())
    assert 1.0 < result.ess < 30.0
    assert result.gain == result.mmd_random / result.mmd
    assert result.success
    assert result.seconds > 0.0
    assert result.evaluation_seconds > 0.0
    assert result.passes == 1.0
    assert result.scored >= 30 * 400


def test_repr_has_quality_reference_and_cost(result: HerdResult) -> None:
    lines = repr(result).splitlines()
    assert lines[0] == "HerdResult(FINISHED: all that was asked for is done)"
    assert lines[1].startswith("  atoms    30 of 400, effective ")
    assert f"{result.gain:.3g} times closer than random" in lines[2]
    assert lines[3] == "  on       all 400 rows (exact); 10 random subsets"
    assert "1 pass," in lines[4]
    assert lines[5].startswith("  in       Gaussian(lengthscale=")
    assert result.message.startswith("all that was asked for is done: MMD ")


def test_curve_ends_where_equal_weights_do(result: HerdResult) -> None:
    sizes, found, random = result.curve
    assert sizes[0] == 1
    assert sizes[-1] == 30
    for size, value in zip(sizes, found, strict=True):
        assert value == pytest.approx(mmd(ROWS[result.ids[:size]], ROWS, result.kernel), abs=2e-5)  # type: ignore[arg-type]
    assert result.mmd < found[-1]
    assert random[-1] == pytest.approx(result.mmd_random)


def test_nothing_evaluated() -> None:
    result = herd(ROWS, 5, evaluate=False)
    assert np.isnan([result.mmd, result.mmd_random, result.mmd_random_spread, result.gain]).all()
    assert len(result.curve.sizes) == 0
    assert "not evaluated" in repr(result)


def test_random_of_no_distance_has_no_gain(result: HerdResult) -> None:
    same = replace(result, mmd=0.0, mmd_random=0.0)
    assert math.isnan(same.gain)
    assert "random 0" in repr(same)


def test_no_finite_distance_has_no_gain_in_words(result: HerdResult) -> None:
    """Only a forged file says so; it is told all the same."""
    assert "MMD inf, random" in repr(replace(result, mmd=math.inf))


# ---------------------------------------------------------------- pictures


@pytest.mark.slow
def test_plot_shows_the_curve_and_the_rows(result: HerdResult, tmp_path: Path) -> None:
    figure = result.plot(tmp_path / "herd.png")
    left, right = figure.axes
    chosen = next(line for line in left.get_lines() if line.get_label() == "chosen")
    np.testing.assert_array_equal(chosen.get_ydata(), result.curve.mmd)
    star = next(line for line in left.get_lines() if line.get_label() == "weighted")
    np.testing.assert_array_equal(star.get_xydata(), [[30.0, result.mmd]])
    others, dots = (np.asarray(part.get_offsets()) for part in right.collections)
    assert others.shape == (400, 2)
    # Both axes of two columns: a turn, which keeps all distances.
    wanted = np.linalg.norm(ROWS[result.ids] - ROWS[result.ids[0]], axis=1)
    np.testing.assert_allclose(np.linalg.norm(dots - dots[0], axis=1), wanted, atol=1e-9)
    assert (tmp_path / "herd.png").stat().st_size > 1000


def test_plot_without_rows_shows_the_curve_only(result: HerdResult) -> None:
    alone = replace(result, session=None)
    assert len(alone.plot().axes) == 1
    assert len(alone.plot(atoms=ROWS, title="mine").axes) == 2


def test_plot_of_one_column() -> None:
    assert len(herd(ROWS[:, :1], 4).plot().axes) == 2


def test_plot_of_other_rows(result: HerdResult) -> None:
    with pytest.raises(ValueError, match="`atoms` must be the atoms that were herded"):
        result.plot(atoms=ROWS[:3])


# ---------------------------------------------------------------- kept


@pytest.mark.parametrize(
    "kernel",
    [Gaussian(1.3), Laplace(2.0), Linear(), Stein(1.1)],
    ids=["gaussian", "laplace", "linear", "stein"],
)
def test_save_and_load(kernel: Kernel, tmp_path: Path) -> None:
    saved = herd(with_scores(ROWS, -ROWS), 9, kernel=kernel, exclude=[7])
    saved.save(tmp_path / "saved")
    loaded = HerdResult.load(tmp_path / "saved")
    assert repr(loaded) == repr(saved)
    assert loaded.kernel == kernel
    for name in ("ids", "weights"):
        np.testing.assert_array_equal(getattr(loaded, name), getattr(saved, name))
    for name in Curve._fields:
        np.testing.assert_array_equal(getattr(loaded.curve, name), getattr(saved.curve, name))
    np.testing.assert_array_equal(loaded.trace.value, saved.trace.value)
    assert loaded.mmd_random_spread == saved.mmd_random_spread
    assert loaded.status is Status.FINISHED


def test_labels_are_kept(tmp_path: Path) -> None:
    saved = herd(ROWS, 9, by=LABELS)
    saved.save(tmp_path / "saved")
    np.testing.assert_array_equal(np.asarray(HerdResult.load(tmp_path / "saved").labels), LABELS[saved.ids])


def test_load_checks_the_rows(result: HerdResult, tmp_path: Path) -> None:
    result.save(tmp_path / "saved")
    HerdResult.load(tmp_path / "saved", atoms=ArrayAtoms(ROWS))
    HerdResult.load(tmp_path / "saved", atoms=ROWS)
    with pytest.raises(store.StoreError, match="other rows"):
        HerdResult.load(tmp_path / "saved", atoms=ArrayAtoms(ROWS + 1.0))


def test_load_refuses_another_kind(tmp_path: Path) -> None:
    store.save(tmp_path / "saved", "result", {}, {})
    with pytest.raises(store.StoreError, match="must hold a saved herd"):
        HerdResult.load(tmp_path / "saved")


FORGED: dict[str, Callable[[dict[str, Any], dict[str, Any]], object]] = {
    "ids out of range": lambda arrays, _: arrays.update(ids=arrays["ids"] + 10**15),
    "negative weights": lambda arrays, _: arrays.update(weights=-arrays["weights"]),
    "weights of another sum": lambda arrays, _: arrays.update(weights=0.5 * arrays["weights"]),
    "a short curve": lambda arrays, _: arrays.update(curve_mmd=np.zeros(1)),
    "excluded atoms out of range": lambda _, params: params["settings"].update(exclude=[10**15]),
    "an unknown kernel": lambda _, params: params["settings"]["kernel"].update(name="cosine"),
    "a length of text": lambda _, params: params["settings"]["kernel"].update(lengthscale="long"),
    "no settings": lambda _, params: params.update(settings={}),
    "more atoms held than there are": lambda _, params: params["settings"].update(held=10**6),
    "a target that is no fingerprint": lambda _, params: params["settings"].update(target=[[1, 2]]),
}


@pytest.mark.parametrize("how", FORGED)
def test_what_no_run_can_have_given_is_refused(how: str, result: HerdResult, tmp_path: Path) -> None:
    result.save(tmp_path / "saved")
    stored = store.load(tmp_path / "saved", "herd")
    arrays, params = dict(stored.arrays), dict(stored.params)
    FORGED[how](arrays, params)
    store.save(tmp_path / "saved", "herd", arrays, params, stored.fingerprint)
    with pytest.raises(store.StoreError, match="is damaged: "):
        HerdResult.load(tmp_path / "saved")


# ---------------------------------------------------------------- going on

RUNS: dict[str, dict[str, Any]] = {
    "plain": {},
    "start": {"start": [4, 9]},
    "exclude": {"exclude": [11, 2, 3]},
    "target": {"target": OTHERS},
    "weighted rows": {"row_weights": WEIGHTS},
    "labels": {"by": LABELS},
    "balanced": {"by": LABELS, "balanced": True, "row_weights": WEIGHTS},
    "few candidates": {"candidates": 50},
    "laplace": {"kernel": Laplace()},
    "seed": {"seed": 5, "candidates": 60},
}


@pytest.mark.parametrize("options", RUNS.values(), ids=RUNS.keys())
def test_extend_equals_one_longer_run(options: dict[str, Any], tmp_path: Path) -> None:
    short, long = herd(ROWS, 12, **options), herd(ROWS, 20, **options)
    extended = short.extend(20)
    np.testing.assert_array_equal(extended.ids, long.ids)
    np.testing.assert_array_equal(extended.weights, long.weights)
    assert extended.mmd == long.mmd
    assert extended.scored == long.scored
    np.testing.assert_array_equal(short.extend(16).extend(20).ids, long.ids)
    short.save(tmp_path / "saved")
    again = {name: options[name] for name in ("target", "by", "row_weights") if name in options}
    loaded = HerdResult.load(tmp_path / "saved").extend(20, atoms=ROWS, **again)
    np.testing.assert_array_equal(loaded.ids, long.ids)
    assert loaded.mmd == long.mmd


def test_extend_swaps_and_weighs_anew() -> None:
    short = herd(ROWS, 12, swap=True, weights=True)
    long = short.extend(20)
    assert len(np.unique(long.ids)) == 20
    assert long.weights.sum() == pytest.approx(1.0)
    assert long.mmd < short.mmd


def test_extend_goes_on_after_a_stop() -> None:
    stopped = herd(ROWS, 20, callback=lambda state: state.t == 8)
    assert stopped.status is Status.STOPPED
    np.testing.assert_array_equal(stopped.extend(20).ids, herd(ROWS, 20).ids)


def test_extend_in_a_feature_space() -> None:
    short, long = (herd_in_features(ROWS, m, np.sin(ROWS), oracle=Scan) for m in (8, 15))
    extended = short.extend(15)
    np.testing.assert_array_equal(extended.ids, long.ids)
    np.testing.assert_allclose(extended.weights, long.weights, rtol=1e-12)


def test_a_pickled_result_needs_its_rows(result: HerdResult) -> None:
    plain = herd(ROWS, 12)
    copy = pickle.loads(pickle.dumps(plain))
    assert repr(copy) == repr(plain)
    assert copy.session is None
    np.testing.assert_array_equal(copy.extend(20, atoms=ROWS).ids, plain.extend(20).ids)
    assert pickle.loads(pickle.dumps(herd_in_features(ROWS, 3, np.sin))).session is None


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, "`atoms` must be given"),
        ({"atoms": ROWS + 1.0}, "`atoms` must be what the result was made from. Got other data"),
        ({"atoms": ROWS, "by": LABELS}, "`row_weights` must be what the result was made from. Got none"),
        ({"atoms": ROWS, "row_weights": WEIGHTS}, "`by` must be what"),
        ({"atoms": ROWS, "by": LABELS[::-1], "row_weights": WEIGHTS}, "`by` must be what .* Got other data"),
        (
            {"atoms": ROWS, "by": LABELS, "row_weights": WEIGHTS, "target": OTHERS},
            "`target` must be left out",
        ),
    ],
)
def test_extend_checks_what_it_is_given(given: dict[str, Any], words: str) -> None:
    kept = replace(herd(ROWS, 9, by=LABELS, row_weights=WEIGHTS, evaluate=False), session=None)
    with pytest.raises(ValueError, match=words):
        kept.extend(12, **given)


@pytest.mark.parametrize("m", [9, 3, 51])
def test_extend_to_an_impossible_size(m: int) -> None:
    with pytest.raises(ValueError, match="more than the 9 atoms so far, at most the 50 candidates"):
        herd(ROWS, 9, candidates=50, evaluate=False).extend(m)


@pytest.mark.parametrize(
    "saved", [herd(ROWS, 6, kernel=Doubled()), herd_in_features(ROWS, 6, np.sin)], ids=["kernel", "features"]
)
def test_what_a_file_cannot_hold_cannot_go_on_from_it(saved: HerdResult, tmp_path: Path) -> None:
    saved.save(tmp_path / "saved")
    loaded = HerdResult.load(tmp_path / "saved")
    assert loaded.space == saved.space
    assert loaded.kernel is None
    with pytest.raises(ValueError, match="cannot go on: call herd with its ids as `start`"):
        loaded.extend(9, atoms=ROWS)
