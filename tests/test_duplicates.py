"""`deduplicate`: by brute force, by construction, and at any scale."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray

from wolfhound import ClusterIndex, Duplicates, deduplicate, duplicates
from wolfhound.atoms import ConcatAtoms, FileAtoms
from wolfhound.core import Matrix


def brute_force(rows: Matrix, within: float) -> NDArray[np.int64]:
    """The first kept row that is near each, by comparing with all of them."""
    kept: list[int] = []
    group = np.arange(len(rows))
    for i, row in enumerate(rows.astype(np.float64)):
        away = np.sqrt(np.square(rows[kept].astype(np.float64) - row).sum(axis=1))
        near = np.flatnonzero(away <= within)
        group[i] = kept[near[0]] if len(near) else i
        kept.extend([i] * (len(near) == 0))
    return group


def check(found: Duplicates, rows: Matrix, within: float) -> None:
    expected = brute_force(rows, within)
    np.testing.assert_array_equal(found.group, expected)
    np.testing.assert_array_equal(found.keep, np.unique(expected))
    np.testing.assert_array_equal(found.removed, np.flatnonzero(expected != np.arange(len(rows))))
    assert found.sizes.sum() == len(rows)
    assert found.keep.dtype == found.group.dtype == np.int64


@given(
    hnp.arrays(np.float64, st.tuples(st.integers(1, 40), st.integers(1, 3)), elements=st.integers(-4, 4)),
    st.sampled_from([0.0, 0.5, 1.0, 1.5, 5.0, 100.0]),
)
def test_as_by_brute_force(rows: Any, within: float) -> None:
    # Whole numbers: sums of squares are exact, and so is the comparison with a distance.
    check(deduplicate(rows, within=within), rows, within)
    check(deduplicate(rows.astype(np.float32), within=within), rows, within)


@pytest.mark.parametrize("d", [1, 4, 19, 33])
@pytest.mark.parametrize("within", [0.0, 1e-6, 0.02, 0.3, 2.0])
def test_near_copies_of_random_rows(d: int, within: float) -> None:
    rng = np.random.default_rng(d)
    base = rng.standard_normal((120, d))
    moved = base[rng.integers(0, 120, 150)] + within * rng.uniform(-1.0, 1.0, (150, d)) / np.sqrt(d)
    rows = rng.permutation(np.concatenate([base, moved, base[:20]]))
    check(deduplicate(rows, within=within), rows, within)


def test_cells_do_not_change_the_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = np.random.default_rng(0).standard_normal((400, 3))
    wanted = deduplicate(rows, within=0.2).group
    for name, value in (("_PER_CELL", 1), ("_PER_CELL", 10**9), ("_ROOM", 0.01), ("_AXES", 1)):
        monkeypatch.setattr(duplicates, name, value)
        np.testing.assert_array_equal(deduplicate(rows, within=0.2).group, wanted)


@pytest.mark.parametrize("scale", [2.0**-900, 2.0**-40, 2.0**900])
def test_powers_of_two_change_nothing(scale: float) -> None:
    rows = np.random.default_rng(1).standard_normal((200, 2)) + 3.0
    wanted = deduplicate(rows, within=0.3).group
    np.testing.assert_array_equal(deduplicate(scale * rows, within=0.3 * scale).group, wanted)


def test_far_from_the_origin() -> None:
    rows = np.random.default_rng(2).integers(0, 40, (300, 2)) + 2.0**40
    check(deduplicate(rows, within=2.0), rows, 2.0)


def test_equal_means_equal_numbers() -> None:
    rows = np.array([[0.0, 1.0], [-0.0, 1.0], [0.0, np.nextafter(1.0, 2.0)], [0.0, 1.0]])
    assert deduplicate(rows).group.tolist() == [0, 0, 2, 0]
    assert deduplicate(np.array([[1, 2], [3, 4], [1, 2]], np.int8)).keep.tolist() == [0, 1]


def test_rows_whose_hashes_are_equal_by_chance_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = np.random.default_rng(3).integers(0, 3, (200, 2)).astype(np.float32)
    monkeypatch.setattr(duplicates, "hash_rows", lambda block, factors: np.zeros(len(block), np.uint64))
    check(deduplicate(rows), rows, 0.0)


def test_in_files_and_parts(tmp_path: Path) -> None:
    rows = np.random.default_rng(4).integers(0, 5, (500, 3)).astype(np.float32)
    np.save(tmp_path / "rows.npy", rows)
    for atoms in (
        FileAtoms(tmp_path / "rows.npy"),
        ConcatAtoms([rows[:7], rows[7:]]),
        np.asfortranarray(rows),
    ):
        for within in (0.0, 1.0):
            check(deduplicate(atoms, within=within), rows, within)


def test_what_goes_can_be_removed_from_an_index() -> None:
    rows = np.random.default_rng(5).integers(0, 4, (300, 3)).astype(np.float32)
    found = deduplicate(rows)
    index = ClusterIndex.build(rows).remove(found.removed)
    np.testing.assert_array_equal(index.atoms.take(np.arange(len(found.keep))), rows[found.keep])


def test_text_and_table() -> None:
    found = deduplicate([[0.0], [1.0], [0.0]])
    assert repr(found) == "Duplicates(3 rows, 2 kept, 1 duplicates of 1 rows, within 0)"
    assert found.to_frame().to_dict("list") == {
        "id": [0, 1, 2],
        "group": [0, 1, 0],
        "kept": [True, True, False],
    }


@pytest.mark.parametrize("within", [-1.0, np.nan, np.inf, "a", None])
def test_no_distance(within: Any) -> None:
    with pytest.raises((ValueError, TypeError), match="`within` must be a"):
        deduplicate([[1.0]], within=within)


@pytest.mark.parametrize("within", [0.0, 1.0])
def test_rows_must_be_finite(within: float) -> None:
    with pytest.raises(ValueError, match=r"`atoms` must be finite. Got nan in row 1, column 0"):
        deduplicate([[1.0], [np.nan]], within=within)


BIG = np.array([[1, 2**53], [1, 2**53 + 1]])


@pytest.mark.parametrize(
    "given",
    [BIG, -BIG, BIG.astype(np.uint64), BIG.tolist(), [BIG, BIG], pd.DataFrame(BIG), pl.DataFrame(BIG)],
    ids=["int64", "negative", "uint64", "lists", "parts", "pandas", "polars"],
)
@pytest.mark.parametrize("within", [0.0, 1.0])
def test_integers_that_float64_merges_are_refused(given: Any, within: float) -> None:
    text = r"float64 holds exactly.* leave out .* Got -?9007199254740993 (in row|at) "
    with pytest.raises(ValueError, match=text):
        deduplicate(given, within=within)


@pytest.mark.parametrize("given", [BIG.astype(np.float64), BIG - 2**53, pd.DataFrame(BIG.astype(float))])
def test_other_numbers_are_not_refused(given: Any) -> None:
    assert len(deduplicate(given).group) == 2


def test_large_integers_in_files_are_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "big.npy", BIG)
    for atoms in (str(tmp_path / "big.npy"), FileAtoms(tmp_path / "big.npy")):
        with pytest.raises(ValueError, match=r"big.npy` must be made of .* in row 1, column 1"):
            deduplicate(atoms)
