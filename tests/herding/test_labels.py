"""Labels: who gets how many rows, and the rows of one label as atoms."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from wolfhound import encode
from wolfhound.herding import Gaussian, mmd
from wolfhound.herding.herd import herd
from wolfhound.herding.labels import Labels, allot, next_label

ROWS = np.random.default_rng(0).normal(size=(300, 2))
NAMES = np.repeat(["a", "b", "c"], [200, 75, 25])[np.random.default_rng(1).permutation(300)]


def sizes_of(result_labels: NDArray[Any] | None) -> dict[str, int]:
    names, counts = np.unique(np.asarray(result_labels), return_counts=True)
    return dict(zip(names.tolist(), counts.tolist(), strict=True))


# ---------------------------------------------------------------- labels


def test_labels_sort_the_rows() -> None:
    labels = Labels.of(["b", "a", "b", "c"], 4, np.array([0.5, 1.0, 0.5, 2.0]))
    assert [ids.tolist() for ids in labels.members] == [[1], [0, 2], [3]]
    np.testing.assert_allclose(labels.shares, [0.25, 0.25, 0.5])


def test_labels_without_weight_are_left_out() -> None:
    labels = Labels.of([0, 1, 1], 3, np.array([1.0, 0.0, 0.0]))
    assert [ids.tolist() for ids in labels.members] == [[0]]
    np.testing.assert_array_equal(labels.shares, [1.0])


def test_labels_of_objects_become_plain() -> None:
    labels = Labels.of(np.array(["x", "yy", "x"], object), 3)
    assert labels.values.dtype.kind == "U"
    assert labels.values.tolist() == ["x", "yy", "x"]


@pytest.mark.parametrize(
    "by",
    [pa.array(["b", "a", "b"]), pa.chunked_array([["b"], ["a", "b"]]), pl.Series(["b", "a", "b"])],
    ids=type,
)
def test_labels_of_any_library(by: Any) -> None:
    assert [ids.tolist() for ids in Labels.of(by, 3).members] == [[1], [0, 2]]
    assert Labels.of(pa.array([True, False, True]), 3).values.tolist() == [True, False, True]
    holed = encode(pd.DataFrame({"x": [1.0, None, 2.0]}))
    assert list(holed.pick(by, "by")) == ["b", "b"]


@pytest.mark.parametrize(
    ("by", "error", "words"),
    [
        ([0, 1], ValueError, r"`by` must be 3 labels, one per row. Got shape \(2,\)."),
        ([[0, 1, 2]], ValueError, r"Got shape \(1, 3\)"),
        ([0.0, np.nan, 1.0], ValueError, "no missing labels"),
        (np.array(["a", None, "b"], object), ValueError, "no missing labels"),
        (np.array(["a", 1, "b"], object), TypeError, "labels of one kind"),
        (pd.Series(["a", None, "b"], dtype="string"), ValueError, "no missing labels"),
        (pa.array(["a", None, "b"]), ValueError, "no missing labels"),
        (pa.array([{"a": 1}] * 3), TypeError, "numbers, strings or dates. Got a column of dict"),
        (
            pl.Series([["a"], ["b", "c"], ["a"]]),
            TypeError,
            "numbers, strings or dates. Got a column of ndarray",
        ),
    ],
)
def test_bad_labels(by: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        Labels.of(by, 3)


# ---------------------------------------------------------------- turns

COUNTS = st.lists(st.integers(1, 40), min_size=1, max_size=6)


@given(COUNTS, st.booleans(), st.data())
def test_allotted_adds_up_and_a_longer_run_begins_like_a_shorter(
    sizes: list[int], balanced: bool, data: st.DataObject
) -> None:
    room = np.array(sizes)
    shares, none = room / room.sum(), np.zeros(len(room), np.int64)
    m = data.draw(st.integers(len(sizes), sum(sizes)))
    given_rows = allot(m, none, room, shares, balanced=balanced)
    assert given_rows.sum() == m
    assert (given_rows >= 1).all()
    assert (given_rows <= room).all()
    more = allot(sum(sizes), given_rows, room, shares, balanced=balanced)
    np.testing.assert_array_equal(more, room)
    shorter = allot(len(sizes), none, room, shares, balanced=balanced)
    assert (shorter <= given_rows).all()


@pytest.mark.slow
@given(st.lists(st.integers(1, 20), min_size=2, max_size=6), st.integers(1, 30))
def test_multiples_of_the_shares_are_met_exactly(parts: list[int], times: int) -> None:
    """Where m shares are whole numbers there is nothing to round."""
    wanted = np.array(parts) * times
    none = np.zeros(len(parts), np.int64)
    found = allot(int(wanted.sum()), none, 10 * wanted, wanted / wanted.sum(), balanced=False)
    np.testing.assert_array_equal(found, wanted)


@given(st.integers(2, 6), st.integers(1, 60))
def test_balanced_differs_by_one_at_most(labels: int, extra: int) -> None:
    none, room = np.zeros(labels, np.int64), np.full(labels, 100)
    shares = np.arange(1.0, labels + 1.0)
    found = allot(labels + extra, none, room, shares / shares.sum(), balanced=True)
    assert found.max() - found.min() <= 1


def test_no_turn_without_room() -> None:
    counts = np.array([2, 3])
    assert next_label(counts, counts, np.array([0.5, 0.5]), balanced=False) == -1
    assert next_label(counts, np.array([2, 4]), np.array([0.9, 0.1]), balanced=False) == 1


# ---------------------------------------------------------------- herds


@pytest.mark.parametrize(
    ("balanced", "wanted"),
    [(False, {"a": 24, "b": 9, "c": 3}), (True, {"a": 12, "b": 12, "c": 12})],
    ids=["proportional", "balanced"],
)
@pytest.mark.parametrize("weights", [False, True], ids=["equal", "fitted"])
def test_herd_by_labels(balanced: bool, wanted: dict[str, int], weights: bool) -> None:
    result = herd(ROWS, 36, by=NAMES, balanced=balanced, weights=weights)
    assert sizes_of(result.labels) == wanted
    np.testing.assert_array_equal(result.labels, NAMES[result.ids])
    assert len(np.unique(result.ids)) == 36
    within = [result.weights[result.labels == name].sum() for name in "abc"]
    np.testing.assert_allclose(within, [200 / 300, 75 / 300, 25 / 300], rtol=1e-12)
    assert result.mmd < result.mmd_random
    assert result.passes == 2.0


@pytest.mark.parametrize("balanced", [False, True], ids=["proportional", "balanced"])
@pytest.mark.parametrize("init", [[], [7, 3, 44]], ids=["from nothing", "from init"])
def test_picks_are_those_of_the_definition(balanced: bool, init: list[int]) -> None:
    """In the kernel k(x, y) (1 + [same label]) each pick is the best of its label."""
    kernel = Gaussian(1.0)
    same = NAMES[:, None] == NAMES
    gram = kernel.gram(ROWS, ROWS) * (1.0 + same)
    sizes = same.sum(axis=1)
    mass = [np.full(300, 1.0 / 300), 1.0 / (3.0 * sizes)][balanced]
    linear = gram @ mass
    codes = np.unique(NAMES, return_inverse=True)[1]
    shares, room = np.bincount(codes) / 300, np.bincount(codes)
    chosen = list(init)
    while len(chosen) < 30:
        turn = next_label(np.bincount(codes[chosen], minlength=3), room, shares, balanced=balanced)
        scores = (len(chosen) + 1) * linear - gram[:, chosen].sum(axis=1)
        scores[chosen] = -np.inf
        scores[codes != turn] = -np.inf
        chosen.append(int(scores.argmax()))
    result = herd(ROWS, 30, by=NAMES, kernel=kernel, balanced=balanced, start=init)
    assert result.ids.tolist() == chosen
    wanted = gram[np.ix_(chosen, chosen)].mean() - 2.0 * linear[chosen].mean() + mass @ linear
    assert 2.0 * result.trace.value[-1] == pytest.approx(wanted, abs=1e-6)


def test_few_rows_of_many_labels_are_not_all_in_the_middle() -> None:
    labels = np.random.default_rng(2).integers(60, size=300)
    result = herd(ROWS, 120, by=labels)
    assert (np.bincount(np.asarray(result.labels), minlength=60) >= 1).all()
    assert result.gain > 2.0


def test_each_label_is_matched_too() -> None:
    rows = ROWS + 6.0 * np.unique(NAMES, return_inverse=True)[1][:, None]
    kernel = Gaussian(1.5)
    result = herd(rows, 60, by=NAMES, kernel=kernel)
    rng = np.random.default_rng(3)
    for name in "ab":
        all_rows, mine = rows[NAMES == name], rows[result.ids[result.labels == name]]
        random = [mmd(rng.choice(all_rows, len(mine), replace=False), all_rows, kernel) for _ in range(10)]
        assert mmd(mine, all_rows, kernel) < 0.5 * np.mean(random)


def test_one_label_is_no_label() -> None:
    plain = herd(ROWS, 20, kernel=Gaussian(1.0))
    np.testing.assert_array_equal(herd(ROWS, 20, kernel=Gaussian(1.0), by=np.zeros(300)).ids, plain.ids)


def test_init_counts_for_its_label() -> None:
    init = np.flatnonzero(NAMES == "c")[:5]
    result = herd(ROWS, 40, by=NAMES, start=init, swap=True)
    np.testing.assert_array_equal(result.ids[:5], init)
    assert sizes_of(result.labels)["c"] == 5
    assert len(np.unique(result.ids)) == 40


def test_exclude_holds_within_labels() -> None:
    banned = np.flatnonzero(NAMES == "c")[:22]
    result = herd(ROWS, 60, by=NAMES, balanced=True, exclude=banned)
    assert not np.isin(result.ids, banned).any()
    assert sizes_of(result.labels) == {"a": 29, "b": 28, "c": 3}


def test_weights_of_rows_change_the_shares() -> None:
    rare = np.where(NAMES == "c", 8.0, 1.0)
    result = herd(ROWS, 19, by=NAMES, row_weights=rare)
    assert sizes_of(result.labels) == {"a": 8, "b": 3, "c": 8}
    assert result.weights[result.labels == "c"].sum() == pytest.approx(200 / 475, rel=1e-12)


def test_a_row_that_is_not_finite_is_named_by_its_own_number() -> None:
    rows = ROWS.copy()
    rows[123, 1] = np.inf
    with pytest.raises(ValueError, match="Got inf in row 123, column 1"):
        herd(rows, 9, by=NAMES, kernel=Gaussian(1.0))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"by": NAMES[:-1]}, "300 labels, one per row"),
        ({"by": np.arange(300)}, "`m` must be at least 300, one atom for each of 300 labels. Got 20."),
        ({"by": NAMES, "target": ROWS}, "`target` must be None with `by`"),
        ({"by": NAMES, "exclude": np.flatnonzero(NAMES == "c")}, "none left of"),
        ({"by": NAMES, "candidates": 5}, "`candidates` must be at least 13, the atoms to pick of one label"),
        (
            {"by": NAMES, "start": np.flatnonzero(NAMES == "c")[:1], "row_weights": NAMES != "c"},
            "`start` must be atoms of labels that weigh anything",
        ),
        ({"balanced": True}, "`balanced` must be False without `by`"),
    ],
)
def test_bad_options(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        herd(ROWS, 20, **options)
