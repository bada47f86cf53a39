"""Tables as atoms, target and labels of herding: what is left out is said, what is meant is found."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from wolfhound import Missing, encode, herd, load

N = 60


@pytest.fixture
def frame() -> pd.DataFrame:
    """Two numbers and two categories."""
    rng = np.random.default_rng(6)
    kinds = {
        "c": np.array(["x", "y"])[np.arange(N) % 2],
        "origin": np.array(["p", "q", "r"])[np.arange(N) % 3],
    }
    return pd.DataFrame({"a": rng.standard_normal(N), "b": rng.standard_normal(N), **kinds})


def test_rows_of_a_target_that_are_left_out_are_said(frame: pd.DataFrame, tmp_path: Path) -> None:
    target = frame.iloc[:30].assign(a=[np.nan if i < 20 else float(i) for i in range(30)])
    weights = np.arange(30.0)
    result = herd(frame, 5, target=target, row_weights=weights, missing="drop")
    kept = herd(frame, 5, target=target.iloc[20:], row_weights=weights[20:])
    np.testing.assert_array_equal(result.ids, kept.ids)
    assert result.table is not None
    assert result.target_table is not None
    assert result.target_table.dropped == 20
    assert ("target", "20 of 30 rows left out for missing values: a (20)") in result.notes
    assert "20 of 30 rows left out" in repr(result)
    encoded = herd(frame, 5, target=encode(target), row_weights=weights)
    np.testing.assert_array_equal(encoded.ids, kept.ids)
    result.save(tmp_path / "run")
    loaded = load(tmp_path / "run")
    assert loaded.target_table == result.target_table
    more = loaded.extend(7, atoms=frame, target=target, row_weights=weights)
    np.testing.assert_array_equal(more.ids, result.extend(7).ids)
    with pytest.raises(
        ValueError, match=r"`target` must be free of missing values in a, .*leave such rows out"
    ):
        herd(frame, 5, target=target)


def test_row_weights_of_a_target_are_of_its_own_length(frame: pd.DataFrame) -> None:
    target = frame.assign(a=[np.nan if i == 3 else 1.0 for i in range(N)])
    with pytest.raises(
        ValueError, match=r"`row_weights` must be 60 values, one per row of the table\. Got 59"
    ):
        herd(frame, 5, target=target, row_weights=np.ones(N - 1), missing="drop")


def test_labels_that_are_missing_are_a_label(frame: pd.DataFrame) -> None:
    holes = frame.assign(
        c=[None if i % 4 == 0 else "x" for i in range(N)],
        k=[np.nan if i % 5 == 0 else i % 2 for i in range(N)],
    )
    for by, wanted in (("c", {"missing", "x"}), ("k", {"missing", "0", "1"})):
        result = herd(holes, 12, by=by)
        assert result.labels is not None
        assert set(result.labels.tolist()) == wanted
        assert (holes[by].iloc[result.ids].isna().to_numpy() == (result.labels == "missing")).all()
    both = herd(holes, 12, by=["c", "k"]).labels
    assert both is not None
    assert set(both.tolist()) >= {"('missing', 'missing')", "('x', '1')"}
    with pytest.raises(ValueError, match=r"must be free of missing values; leave such rows out .*k \(12\)"):
        herd(holes, 12, by="k", missing="mean")


def test_names_of_columns_that_are_misspelt_are_named(frame: pd.DataFrame) -> None:
    for by in (["c", "orign"], ["c", "c"]):
        with pytest.raises(
            ValueError, match=r"`by` must be distinct columns among a, b, c, origin, or 60 labels"
        ):
            herd(frame, 5, by=by)


def test_labels_may_be_names_of_columns(frame: pd.DataFrame) -> None:
    labels = ["a", "c"] * (N // 2)
    result = herd(frame, 6, by=labels)
    assert result.labels is not None
    assert result.labels.tolist() == [labels[i] for i in result.ids]


def test_options_that_coded_rows_do_not_follow_are_refused(frame: pd.DataFrame) -> None:
    holes = frame.assign(a=[np.nan if i == 3 else 1.0 * i for i in range(N)])
    rule = "must be left out, or as `encode` had it: these rows are coded already"
    with pytest.raises(ValueError, match=f"`columns` and `numeric_only` {rule}"):
        herd(encode(frame), 5, columns=["a"], numeric_only=True)
    with pytest.raises(ValueError, match=f"`missing` {rule}"):
        herd(encode(holes), 5, missing=Missing.MEAN)
    with pytest.raises(ValueError, match=f"`missing` {rule}"):
        herd(encode(holes), 5, missing=Missing.ERROR)
    same = herd(encode(frame, columns=["a"]), 5, columns=["a"], numeric_only=True)
    np.testing.assert_array_equal(same.ids, herd(frame, 5, columns=["a"]).ids)


def test_a_column_may_be_called_by_its_number() -> None:
    frame = pd.DataFrame({0: np.arange(8.0), 1: np.arange(8.0)[::-1], 2: ["u", "v"] * 4})
    labels = herd(frame, 4, by=2, evaluate=False).labels
    assert labels is not None
    assert set(labels.tolist()) == {"u", "v"}


def test_all_rows_are_drawn_against_the_chosen() -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.normal(size=300), "kind": rng.choice(["a", "b"], 300), "y": 0.0})
    frame["y"] = 0.1 * frame["x"]
    result = herd(frame, 30)
    titles = [picture.title for picture in result.summary().pictures()]
    assert titles[2:] == [f"{name}: all rows and the chosen" for name in ("x", "kind", "y")]
    assert len(result.plot().axes) == 5
    shares = list(result.summary().pictures())[3].numbers
    assert shares is not None
    expected = [f"{float(share):.6g}" for share in frame["kind"].value_counts(normalize=True)]
    assert [row[1] for row in shares.rows] == expected


def test_a_page_shows_the_chosen_rows_with_their_columns() -> None:
    frame = pd.DataFrame({"x": np.linspace(0.0, 1.0, 40), "kind": ["a", "b"] * 20, "when": ["today"] * 40})
    result = herd(frame, 6, columns="x")
    rows = result.summary().details().answers[0]
    assert rows.headings == ("row", "x", "kind", "when")
    first = int(result.ids[0])
    assert rows.rows[0][1:] == (f"{frame['x'][first]:.6g}", frame["kind"][first], "today")
