"""Atoms after edits: the rows that numpy's own concatenate and delete give, wherever they are."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tests.conformance.atoms import check_atoms
from wolfhound.core.contracts import Atoms, Matrix
from wolfhound.data.atoms import (
    ArrayAtoms,
    ConcatAtoms,
    FewAtoms,
    FileAtoms,
    KeptAtoms,
    append_rows,
    as_atoms,
    check_removed,
    fingerprint,
    remove_rows,
)
from wolfhound.oracles.int8.scan import Int8Scan

ROWS = np.random.default_rng(0).standard_normal((40, 3)).astype(np.float32)
MORE = np.random.default_rng(1).standard_normal((7, 3)).astype(np.float32)


def all_rows(atoms: Atoms) -> Matrix:
    return atoms.take(np.arange(atoms.shape[0]))


def in_file(rows: Matrix, folder: Path) -> Atoms:
    np.save(folder / "rows.npy", rows)
    return FileAtoms(folder / "rows.npy")


WAYS: dict[str, Callable[[Matrix, Path], Atoms]] = {
    "array": lambda rows, folder: ArrayAtoms(rows),
    "integers": lambda rows, folder: ArrayAtoms(np.rint(8 * rows).astype(np.int16)),
    "file": in_file,
    "parts": lambda rows, folder: ConcatAtoms([rows[:9], in_file(rows[9:20], folder), rows[20:]]),
    "kept": lambda rows, folder: KeptAtoms(in_file(np.repeat(rows, 2, axis=0), folder), np.arange(0, 80, 2)),
}


@pytest.mark.parametrize("some", [KeptAtoms, FewAtoms])
def test_some_atoms_keep_the_promises_of_atoms(some: type[KeptAtoms]) -> None:
    def make(rows: Matrix) -> Atoms:
        return some(ArrayAtoms(np.repeat(rows, 3, axis=0)), np.arange(1, 3 * len(rows), 3))

    check_atoms(make)
    check_atoms(lambda rows: some(ArrayAtoms(rows), np.arange(len(rows))))


def test_an_error_of_few_atoms_names_the_row_of_all() -> None:
    rows = ROWS.copy()
    rows[30, 1] = np.nan
    few = FewAtoms(ArrayAtoms(rows), np.array([2, 30]))
    with pytest.raises(ValueError, match="30"):
        few.take(np.array([1]))
    with pytest.raises(ValueError, match="30"):
        list(few.blocks(1))


@pytest.mark.parametrize("way", WAYS)
def test_rows_come_behind_the_atoms(way: str, tmp_path: Path) -> None:
    atoms = WAYS[way](ROWS, tmp_path)
    joined = append_rows(atoms, MORE.astype(atoms.dtype))
    expected = np.concatenate([all_rows(atoms), MORE])
    np.testing.assert_array_equal(all_rows(joined), expected)
    assert joined.dtype == atoms.dtype


@pytest.mark.parametrize("way", WAYS)
def test_rows_are_left_out(way: str, tmp_path: Path) -> None:
    atoms = WAYS[way](ROWS, tmp_path)
    for gone in (np.array([0, 8, 9, 19, 20, 39]), np.arange(9), np.arange(1, 40), np.arange(0)):
        left = remove_rows(atoms, gone)
        np.testing.assert_array_equal(all_rows(left), np.delete(all_rows(atoms), gone, axis=0))
        blocks = np.concatenate([block for _, block in left.blocks(4)])
        np.testing.assert_array_equal(blocks, all_rows(left))
        again = remove_rows(left, np.array([0])) if left.shape[0] > 1 else left
        assert again.shape[0] == max(1, left.shape[0] - 1)


def test_one_array_stays_one_and_nothing_given_is_shared() -> None:
    rows = ROWS.copy()
    joined = append_rows(ArrayAtoms(rows), MORE)
    assert isinstance(joined, ArrayAtoms)
    assert not np.shares_memory(joined.rows, rows)
    assert len(fingerprint(joined)) == 1


def test_one_row_may_be_a_vector_and_one_id_a_number() -> None:
    assert append_rows(ArrayAtoms(ROWS), MORE[0]).shape == (41, 3)
    assert check_removed(as_atoms(ROWS), 7).tolist() == [7]


def test_types_stay(tmp_path: Path) -> None:
    wide = ArrayAtoms(ROWS.astype(np.float64))
    assert append_rows(wide, MORE).dtype == np.float64
    assert append_rows(wide, in_file(MORE, tmp_path)).dtype == np.float64
    assert append_rows(ArrayAtoms(ROWS), MORE.astype(np.float64)).dtype == np.float32
    with pytest.raises(ValueError, match=r"`rows` must be float32, as the atoms.* Got float64"):
        append_rows(ArrayAtoms(ROWS), MORE.astype(np.float64) / 3.0)
    with pytest.raises(ValueError, match=r"`rows` must be float32, as the atoms.* Got float64"):
        append_rows(ArrayAtoms(ROWS), in_file(MORE.astype(np.float64), tmp_path))


@pytest.mark.parametrize(
    ("rows", "text"),
    [
        (
            np.zeros((2, 4), np.float32),
            r"`rows` must be vectors of 3 entries, as the atoms. Got shape \(2, 4\)",
        ),
        (np.array([[0.0, np.nan, 1.0]]), r"`rows` must be finite. Got nan in row 0, column 1"),
        (np.zeros((0, 3)), r"`rows` must be an array with at least one row"),
    ],
)
def test_rows_that_do_not_fit_are_refused(rows: Any, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        append_rows(ArrayAtoms(ROWS), rows)


@pytest.mark.parametrize(
    ("ids", "text"),
    [
        ([40], r"`ids` must be ids in \[0, 40\)"),
        ([3, 3], r"`ids` must be distinct ids"),
        (np.arange(40), r"`ids` must be at most 39 of the 40 atoms: one must stay. Got 40 ids"),
    ],
)
def test_ids_that_cannot_go_are_refused(ids: Any, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        check_removed(ArrayAtoms(ROWS), ids)


def test_rows_whose_columns_are_in_another_order_are_refused() -> None:
    frame = pd.DataFrame(np.arange(12.0).reshape(4, 3), columns=list("abc"))
    text = r"`rows` must be a table with .* in their order, a, b, c\. Got c, b, a\."
    for index in (Int8Scan.build(frame), Int8Scan.build(frame).append(frame.to_numpy())):
        with pytest.raises(ValueError, match=text):
            index.append(frame[list("cba")])
    assert Int8Scan.build(frame).append(frame).append(frame).atoms.shape == (12, 3)
    assert pickle.loads(pickle.dumps(as_atoms(frame))).names == ("a", "b", "c")
