"""`HerdingSelector`: scikit-learn's own checks, and the same rows as `herd`."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import importlib
import pickle
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn import datasets
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from wolfhound.herding import Laplace
from wolfhound.herding.select import HerdingSelector

herd = importlib.import_module("wolfhound.herding.herd").herd

Array = np.ndarray[Any, np.dtype[np.float64]]

N = 300


@pytest.fixture
def rows() -> Array:
    """300 rows."""
    return np.random.default_rng(5).standard_normal((N, 3))


@pytest.fixture
def labels() -> Any:
    """Three classes of 200, 80 and 20 rows."""
    return np.repeat(["a", "b", "c"], [200, 80, 20])


@parametrize_with_checks([HerdingSelector(), HerdingSelector(5, weights=True, swap=True)])  # type: ignore[untyped-decorator]
def test_checks_of_scikit_learn(estimator: HerdingSelector, check: Callable[[HerdingSelector], None]) -> None:
    check(estimator)


def test_the_rows_are_those_of_herd(rows: Array) -> None:
    options: dict[str, Any] = {"kernel": Laplace(), "weights": True, "swap": True, "candidates": 100}
    selector = HerdingSelector(20, random_state=4, **options).fit(rows)
    expected = herd(rows, 20, seed=4, **options)
    np.testing.assert_array_equal(selector.indices_, expected.ids)
    np.testing.assert_array_equal(selector.weights_, expected.weights)
    np.testing.assert_array_equal(selector.sample_indices_, expected.ids)
    assert (selector.mmd_, selector.mmd_random_) == (expected.mmd, expected.mmd_random)
    assert selector.result_.kernel == expected.kernel
    assert selector.n_features_in_ == 3


@pytest.mark.parametrize(
    ("n_rows", "m"),
    [(1, 1), (N, N), (0.1, 30), (0.999, 299), (1e-9, 1), (np.int32(7), 7), (np.float32(0.5), 150)],
)
def test_a_number_or_a_share(rows: Array, n_rows: Any, m: int) -> None:
    assert len(HerdingSelector(n_rows).fit(rows).indices_) == m


def test_a_share_has_a_row_of_every_class(rows: Array, labels: Any) -> None:
    assert sorted(labels[HerdingSelector(1e-3).fit(rows, labels).indices_]) == ["a", "b", "c"]


@pytest.mark.parametrize(("balanced", "counts"), [(False, [20, 8, 2]), (True, [10, 10, 10])])
def test_classes(rows: Array, labels: Any, balanced: bool, counts: list[int]) -> None:
    selector = HerdingSelector(30, balanced=balanced).fit(rows, labels)
    assert np.unique(labels[selector.indices_], return_counts=True)[1].tolist() == counts
    shares = [selector.weights_[labels[selector.indices_] == name].sum() for name in "abc"]
    np.testing.assert_allclose(shares, [200 / N, 80 / N, 20 / N])
    expected = herd(rows, 30, by=labels, balanced=balanced)
    np.testing.assert_array_equal(selector.indices_, expected.ids)


@pytest.mark.parametrize(
    "kind", [list, np.asarray, pd.Series, pd.Categorical, lambda y: np.asarray(y)[:, None]]
)
def test_classes_of_every_kind(rows: Array, labels: Any, kind: Callable[[Any], Any]) -> None:
    expected = HerdingSelector(30).fit(rows, labels).indices_
    np.testing.assert_array_equal(HerdingSelector(30).fit(rows, kind(labels)).indices_, expected)


@pytest.mark.parametrize(
    ("load", "by_class"),
    [(datasets.load_diabetes, False), (datasets.load_iris, True), (datasets.load_digits, True)],
)
@pytest.mark.parametrize("kind", [np.float64, np.int64])
def test_classes_are_told_from_the_target_of_a_regression(load: Any, by_class: bool, kind: Any) -> None:
    X, y = load(return_X_y=True)
    selector = HerdingSelector(0.1, candidates=500).fit(X, y.astype(kind))
    assert len(selector.indices_) == len(X) // 10
    assert (selector.result_.labels is not None) == by_class


@pytest.mark.parametrize(
    ("y", "by_class"),
    [
        (np.arange(N) // 10, True),  # 30 numbers, 10 rows of each
        (np.arange(N) // 9, False),
        (np.arange(N) // 9.0, False),
        (np.char.add("c", (np.arange(N) // 2).astype(str)), True),  # names are classes however many
        (np.arange(N) > 1, True),
        (np.arange(N) * 0.1, False),
        (np.arange(2 * N).reshape(N, 2), False),
        (np.eye(N, 4), False),
    ],
)
def test_which_targets_have_classes(rows: Array, y: Any, by_class: bool) -> None:
    assert (HerdingSelector(150).fit(rows, y).result_.labels is not None) == by_class
    if_asked = HerdingSelector(150, by_label=False).fit(rows, y)
    assert if_asked.result_.labels is None


def test_few_numbers_are_classes_of_two_rows_or_more() -> None:
    found = [HerdingSelector(6).fit(np.eye(12), np.arange(12) // rows).result_.labels for rows in (2, 1)]
    assert found[0] is not None
    assert found[1] is None


def test_y_may_be_anything_if_it_does_not_count(rows: Array) -> None:
    y = np.linspace(0.0, 1.0, 2 * N).reshape(N, 2)
    selector = HerdingSelector(30, by_label=False)
    few, responses = selector.fit_resample(rows, y)
    np.testing.assert_array_equal(selector.indices_, HerdingSelector(30).fit(rows).indices_)
    np.testing.assert_array_equal(few, rows[selector.indices_])
    np.testing.assert_array_equal(responses, y[selector.indices_])


def test_fit_resample_keeps_data_frames(rows: Array, labels: Any) -> None:
    frame = pd.DataFrame(rows, columns=["x", "y", "z"], index=np.arange(N) + 1000)
    selector = HerdingSelector(30)
    few, classes = selector.fit_resample(frame, pd.Series(labels, index=frame.index))
    pd.testing.assert_frame_equal(few, frame.iloc[selector.indices_])
    assert classes.tolist() == labels[selector.indices_].tolist()
    assert classes.index.equals(few.index)
    assert list(selector.feature_names_in_) == ["x", "y", "z"]


@pytest.mark.parametrize("missing", ["drop", "level"])
def test_frames_with_texts_and_gaps_are_those_of_herd(rows: Array, labels: Any, missing: str) -> None:
    frame = pd.DataFrame(rows, columns=["x", "y", "z"]).assign(
        shop=np.array(["a", "b", "c"])[np.arange(N) % 3]
    )
    frame.loc[::10, "x"] = np.nan
    selector = HerdingSelector(30, missing=missing)
    few, classes = selector.fit_resample(frame, labels)
    expected = herd(frame, 30, by=labels, missing=missing)
    np.testing.assert_array_equal(selector.indices_, expected.ids)
    assert few["x"].isna().any() == (missing == "level")
    assert classes.tolist() == labels[selector.indices_].tolist()
    assert list(selector.feature_names_in_) == ["x", "y", "z", "shop"]
    assert selector.n_features_in_ == 4


def test_the_last_step_of_a_pipeline(rows: Array) -> None:
    units = np.array([1.0, 1e3, 1e-3])
    found = make_pipeline(StandardScaler(), HerdingSelector(20)).fit(rows * units)[-1].indices_
    expected = make_pipeline(StandardScaler(), HerdingSelector(20)).fit(rows)[-1].indices_
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("state", [3, np.random.RandomState(3)])
def test_a_seed_decides(rows: Array, state: Any) -> None:
    options: dict[str, Any] = {"n_rows": 10, "candidates": 40}
    first, again = (
        HerdingSelector(**options, random_state=pickle.loads(pickle.dumps(state))).fit(rows) for _ in range(2)
    )
    np.testing.assert_array_equal(first.indices_, again.indices_)
    drawn = {tuple(HerdingSelector(**options, random_state=None).fit(rows).indices_) for _ in range(5)}
    assert len(drawn) > 1


def test_float32_is_kept(rows: Array) -> None:
    single = rows.astype(np.float32)
    np.testing.assert_array_equal(HerdingSelector(20).fit(single).indices_, herd(single, 20).ids)


def test_pickle_and_clone(rows: Array) -> None:
    selector = HerdingSelector(20, kernel=Laplace(2.0)).fit(rows)
    again = pickle.loads(pickle.dumps(selector))
    np.testing.assert_array_equal(again.indices_, selector.indices_)
    assert clone(selector).get_params() == selector.get_params()
    with pytest.raises(NotFittedError):
        _ = clone(selector).sample_indices_


@pytest.mark.parametrize(
    ("options", "y", "error", "message"),
    [
        (
            {"n_rows": 0},
            None,
            ValueError,
            r"`n_rows` must be an integer in \[1, 300\] or a share in \(0, 1\)",
        ),
        ({"n_rows": N + 1}, None, ValueError, "`n_rows` must be .* Got 301"),
        ({"n_rows": 1.0}, None, ValueError, "`n_rows` must be .* Got 1.0"),
        ({"n_rows": float("nan")}, None, ValueError, "`n_rows` must be"),
        ({"n_rows": "all"}, None, TypeError, "`n_rows` must be .* Got 'all'"),
        ({"n_rows": True}, None, TypeError, "`n_rows` must be .* Got True"),
        ({"balanced": True}, None, ValueError, "`balanced` must be False without classes"),
        ({"balanced": True, "by_label": False}, [0] * N, ValueError, "`balanced` must be False without"),
        ({}, [0, 1], ValueError, r"`y` must be of length 300, as X. Got shape \(2,\)"),
        (
            {"by_label": True},
            np.zeros((N, 2)),
            ValueError,
            r"`y` must be one class per row, or `by_label` False. Got multilabel.*, shape \(300, 2\)",
        ),
        (
            {"by_label": True},
            np.linspace(0.0, 1.0, N),
            ValueError,
            "`y` must be one class per row, or `by_label` False. Got continuous, shape",
        ),
        (
            {},
            [1j] * N,
            ValueError,
            "`y` must be one class per row, or `by_label` False. Got Unknown label type",
        ),
        ({}, np.ma.masked_less(np.arange(N), 3), TypeError, "`y` must be .* Got a masked array with 3 of"),
        ({}, np.array([np.nan] * N), ValueError, "`y` must be finite. Got nan at index 0"),
        (
            {"n_rows": 2},
            [0, 1, 2] * (N // 3),
            ValueError,
            r"`n_rows` must be at least 3, one row of every class of y \(or `by_label` False\). Got 2",
        ),
        ({"by_label": "auto"}, None, TypeError, "`by_label` must be True, False or None. Got 'auto'"),
        ({"random_state": "x"}, None, TypeError, "`random_state` must be .* Got 'x'"),
        ({"random_state": -1}, None, ValueError, "`random_state` must be an integer >= 0. Got -1"),
    ],
)
def test_mistakes_are_named(
    rows: Array, options: dict[str, Any], y: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        HerdingSelector(**options).fit(rows, y)


@pytest.mark.slow
def test_without_scikit_learn_the_error_says_what_to_install() -> None:
    code = "import sys; sys.modules['sklearn'] = None; import wolfhound.herding.select"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "ImportError: HerdingSelector needs scikit-learn: pip install 'wolfhound[sklearn]'" in done.stderr
