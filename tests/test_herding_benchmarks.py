"""What claim_herding measures with: exact MMD, random features, packages, rows per class."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.patience import PATIENCE

FOLDER = Path(__file__).parents[1] / "benchmarks"
MODULES = ("data", "downstream", "herd_rivals", "herd_targets", "isolated", "reference", "rig")


@pytest.fixture(scope="module", autouse=True)
def on_path() -> Iterator[None]:
    """Scripts find their neighbours in their own folder; so do these tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(FOLDER))
        yield
        for name in MODULES:
            sys.modules.pop(name, None)


def module(name: str) -> Any:
    return importlib.import_module(name)


def kernel(left: Any, right: Any) -> Any:
    differences = left[:, None].astype(np.float64) - right[None].astype(np.float64)
    return np.exp(-0.5 * np.square(differences).sum(2))


def normal(n: int, d: int) -> Any:
    return np.random.default_rng(7).standard_normal((n, d)).astype(np.float32)


def silent(text: str) -> None:
    """Say nothing."""


# ---------------------------------------------------------------- exact MMD


def test_row_sums_are_those_of_the_kernel_matrix() -> None:
    rows = normal(1300, 3)
    sums = module("herd_targets").row_sums(rows, [100, 612, 1300], silent)
    full = kernel(rows, rows)
    parts = [full[:, :100].sum(1), full[:, 100:612].sum(1), full[:, 612:].sum(1)]
    np.testing.assert_allclose(sums, parts, rtol=1e-5)


@pytest.mark.parametrize("n", [200, 700])
def test_mmd_of_weighted_rows_is_the_double_sum(
    n: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WOLFHOUND_DATA", str(tmp_path))
    of_rows = module("herd_targets").of_rows
    target = of_rows("some", normal(700, 4), [200], silent)[n]
    ids, weights = np.array([3, 150, 3, 90]), np.array([0.1, 0.4, 0.3, 0.2])
    full = kernel(target.rows, target.rows)
    square = weights @ full[np.ix_(ids, ids)] @ weights - 2 * weights @ full[ids].mean(1) + full.mean()
    assert target.mmd(ids, weights) == pytest.approx(np.sqrt(square), rel=1e-5)
    assert target.mmd(np.arange(n)) == pytest.approx(0.0, abs=1e-3)
    (kept,) = tmp_path.iterdir()
    before = kept.stat().st_mtime_ns
    assert of_rows("some", normal(700, 4), [200], silent)[n].square == target.square
    assert kept.stat().st_mtime_ns == before
    of_rows("some", normal(700, 5), [200], silent)
    assert len(list(tmp_path.iterdir())) == 2


def test_lengthscale_is_the_median_distance() -> None:
    scaled, length = module("herd_targets").in_lengthscales(3.0 * normal(500, 6))
    distances = np.linalg.norm(scaled[:, None] - scaled[None], axis=2)
    assert np.median(distances) == pytest.approx(1.0, rel=0.03)
    np.testing.assert_allclose(scaled * length, 3.0 * normal(500, 6), rtol=1e-5)


def test_the_mixture_has_the_means_of_its_rows() -> None:
    target, labels = module("herd_targets").of_mixture(20_000, 5, clusters=3)
    ids = np.arange(40)
    values = kernel(target.rows[ids], target.rows)
    errors = (values.mean(1) - target.means(ids)) / (values.std(1) / np.sqrt(values.shape[1]))
    assert np.abs(errors).max() < 4.5
    assert target.square == pytest.approx(target.means(np.arange(20_000)).mean(), abs=0.01)
    assert np.bincount(labels).min() > 6000


def test_random_subsets_are_as_far_as_theory_says() -> None:
    target, _ = module("herd_targets").of_mixture(20_000, 5, clusters=3)
    squares = np.square(target.random(50, draws=200))
    assert squares.mean() == pytest.approx((1.0 - target.square) / 50, rel=0.15)


# ---------------------------------------------------------------- rivals


def test_exact_herding_is_the_recursion_and_passes_through_smaller_sizes() -> None:
    rivals = module("herd_rivals")
    phi = rivals.random_features(normal(300, 3), count=32)
    runs = rivals.exact_herding(phi, [5, 12])
    values, state, picks = phi.values.astype(np.float64), phi.mean.copy(), []
    for _ in range(12):
        picks.append(int((values @ state).argmax()))
        state += phi.mean - values[picks[-1]]
    assert runs[12].ids.tolist() == picks
    assert runs[5].ids.tolist() == picks[:5]
    assert runs[5].seconds <= runs[12].seconds
    assert runs[12].passes == 13.0
    assert 3600 <= runs[12].scored <= 2 * 3600  # all codes, and some rows again


def test_random_features_are_the_kernel_in_the_mean() -> None:
    rows = normal(40, 3)
    values = module("herd_rivals").random_features(rows, count=20_000).values
    np.testing.assert_allclose(values @ values.T, kernel(rows, rows), atol=0.05)


def tool(script: str) -> Any:
    return module("isolated").Tool("none", (), script)


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Scripts run in this very Python; nothing is installed."""
    monkeypatch.setattr(module("isolated"), "install", lambda tool: Path(sys.executable))


@pytest.mark.usefixtures("here")
def test_a_tool_gets_arrays_and_gives_arrays() -> None:
    given = {"x": np.arange(3.0), "y": np.array(2)}
    answer = module("isolated").call(
        tool("answer = {'z': given['x'] * given['y'] * threads}"), given, threads=3, limit=PATIENCE
    )
    np.testing.assert_array_equal(answer["z"], [0.0, 6.0, 12.0])


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(
    ("script", "limit", "words"),
    [
        ("raise ValueError('no /such/folder here')", PATIENCE, "its script failed: ValueError: no ... here"),
        (f"time.sleep({PATIENCE})", 0.01, "not finished within 0.01 s"),
    ],
)
def test_a_tool_that_fails_says_why_without_folders(script: str, limit: float, words: str) -> None:
    with pytest.raises(RuntimeError, match=words.replace(".", r"\.")):
        module("isolated").call(tool(script), {}, threads=1, limit=limit)


# ---------------------------------------------------------------- downstream


def test_random_rows_per_class_have_its_share() -> None:
    labels = np.repeat([0, 1, 2], [600, 300, 100])
    downstream = module("downstream")
    split = downstream.Split(normal(1000, 2), labels, normal(10, 2), labels[:10])
    for seed in range(5):
        ids = downstream.random_ids(split, 50, seed=seed, by_class=True)
        assert len(np.unique(ids)) == 50
        assert np.abs(np.bincount(labels[ids]) - [30, 15, 5]).max() <= 1
    assert len(np.unique(downstream.random_ids(split, 50, seed=0, by_class=False))) == 50


def test_shares_of_classes_that_are_told_apart() -> None:
    downstream = module("downstream")
    rows = np.concatenate([normal(50, 2) - 9.0, normal(50, 2) + 9.0])
    split = downstream.Split(rows, np.repeat([0, 1], 50), rows, np.tile([0, 1], 50))
    np.testing.assert_allclose(downstream.per_class(split, np.arange(100)), [0.5, 0.5])
