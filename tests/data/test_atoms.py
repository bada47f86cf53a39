"""Atoms in memory, in files, joined and mapped; passes and fingerprints."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import hashlib
import json
import pickle
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray

from tests.conformance.atoms import Rows, check_atoms
from wolfhound.core.contracts import Atoms, Matrix, Status
from wolfhound.core.progress import Cut as CutPass
from wolfhound.core.progress import on_progress
from wolfhound.core.threads import set_threads
from wolfhound.data import atoms as atoms_file
from wolfhound.data import atoms as module
from wolfhound.data.atoms import (
    ArrayAtoms,
    ConcatAtoms,
    FileAtoms,
    MappedAtoms,
    PartPrint,
    as_atoms,
    block_rows,
    check_finite,
    diameter_bound,
    fingerprint,
    norms,
)

Make = Callable[[Rows], Atoms]


def same(rows: Matrix) -> Matrix:
    return rows


def doubled(rows: Matrix) -> Matrix:
    return rows + rows


def in_array(dtype: str, *, order: Any = "C") -> Make:
    return lambda rows: ArrayAtoms(np.array(rows, dtype, order=order))


def halves(rows: Rows) -> Atoms:
    middle = len(rows) // 2
    parts = [part for part in (rows[:middle], rows[middle:]) if len(part)]
    return ConcatAtoms([parts[0].astype(np.float32), *parts[1:]])


IN_MEMORY: dict[str, Make] = {
    "array float64": ArrayAtoms,
    "array float32": in_array("f4"),
    "array float16": in_array("f2"),
    "array uint8": in_array("u1"),
    "array int32": in_array("i4"),
    "array big-endian": in_array(">f4"),
    "array F order": in_array("f8", order="F"),
    "array F order int16": in_array("i2", order="F"),
    "array strided": lambda rows: ArrayAtoms(np.repeat(np.repeat(rows, 2, 0), 3, 1)[::2, ::3]),
    "array reversed": lambda rows: ArrayAtoms(rows[::-1].copy()[::-1]),
    "list": lambda rows: as_atoms(rows.tolist()),
    "frame": lambda rows: as_atoms(pd.DataFrame(rows)),
    "concat one": lambda rows: ConcatAtoms([rows]),
    "concat halves": halves,
    "concat nested": lambda rows: ConcatAtoms([halves(rows)]),
    "mapped": lambda rows: MappedAtoms(ArrayAtoms(rows / 2), doubled, rows.shape[1]),
    "mapped float32": lambda rows: MappedAtoms(ArrayAtoms(rows), same, rows.shape[1], np.dtype("f4")),
}


@pytest.mark.parametrize("make", IN_MEMORY.values(), ids=IN_MEMORY.keys())
def test_atoms_in_memory_conform(make: Make) -> None:
    check_atoms(make)


def saved(path: Path, rows: NDArray[Any]) -> Path:
    np.save(path, rows)
    return path


# ---------------------------------------------------------------- arrays


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_plain_arrays_are_not_copied(dtype: str) -> None:
    rows = np.ones((5, 3), dtype)
    rows.flags.writeable = False
    assert all(np.shares_memory(block, rows) for _, block in ArrayAtoms(rows).blocks(2))


@pytest.mark.parametrize(
    ("value", "error", "text"),
    [
        (np.zeros(3), ValueError, "`X` must be an array with 2 axes"),
        (np.zeros((2, 2, 2)), ValueError, "`X` must be an array with 2 axes"),
        (np.zeros((0, 3)), ValueError, r"`X` must be an array with at least one row.*\(0, 3\)"),
        (np.zeros((3, 0)), ValueError, r"`X` must be an array with at least one row.*\(3, 0\)"),
        (np.zeros((2, 2), complex), TypeError, "`X` must be .*complex128"),
        (np.zeros((2, 2), object), TypeError, "`X` must be .*object"),
        (np.zeros((2, 2), np.longdouble), TypeError, "`X` must be .*longdouble|float128"),
        (np.zeros((2, 2), "M8[s]"), TypeError, "`X` must be .*datetime64"),
        (np.array([["a"]]), TypeError, "`X` must be .*<U1"),
        (scipy.sparse.eye(3).tocsr(), TypeError, "`X` must be .*scipy.sparse csr_"),
        (scipy.sparse.eye_array(3), TypeError, "`X` must be .*scipy.sparse dia_array"),
        (np.ma.masked_array([[1.0]], [[True]]), TypeError, "`X` must be .*mask"),
        (pd.DataFrame({"a": [1j]}), ValueError, "`X` must be one with columns that can count. Got a"),
        (None, TypeError, "`X` must be .*None"),
    ],
)
def test_wrong_values_are_refused_by_name(value: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        as_atoms(value, "X")


@pytest.mark.parametrize("ids", [np.array([0.0]), np.array([[0]]), np.array([True])])
def test_ids_must_be_a_vector_of_integers(ids: Any) -> None:
    with pytest.raises(TypeError, match="`ids` must be a vector of integers"):
        ArrayAtoms(np.eye(2)).take(ids)


def test_reprs_are_short(tmp_path: Path) -> None:
    rows = np.zeros((2000, 3), np.float32)
    path = saved(tmp_path / "x.npy", rows)
    assert repr(ArrayAtoms(rows)) == "ArrayAtoms(2000 x 3, float32)"
    assert repr(FileAtoms(path)) == f"FileAtoms(2000 x 3, float32, {path})"
    assert repr(ConcatAtoms([rows, rows])) == "ConcatAtoms(4000 x 3, float32, 2 parts)"


# ---------------------------------------------------------------- joined, mapped


def test_joined_atoms_have_the_widest_dtype_and_one_dimension() -> None:
    single, double = np.zeros((2, 3), np.float32), np.zeros((2, 3))
    assert ConcatAtoms([single, single]).dtype == np.float32
    assert ConcatAtoms([single, double]).dtype == np.float64
    assert isinstance(as_atoms((single, double)), ConcatAtoms)
    with pytest.raises(
        ValueError, match=r"`parts` must be atoms of equal dimension. Got dimensions \[2, 3\]"
    ):
        ConcatAtoms([np.zeros((1, 2)), single])
    with pytest.raises(ValueError, match="`parts` must be at least one"):
        ConcatAtoms([])


def test_a_map_must_keep_its_word() -> None:
    rows = ArrayAtoms(np.eye(3))
    with pytest.raises(ValueError, match=r"`fn` must be a map to 2 columns. Got \(3, 3\)"):
        MappedAtoms(rows, same, 2).take(np.arange(3))
    with pytest.raises(ValueError, match=r"`dtype` must be float32 or float64. Got int64"):
        MappedAtoms(rows, same, 3, np.dtype(np.int64))
    with pytest.raises(ValueError, match="`dim` must be"):
        MappedAtoms(rows, same, 0)


# ---------------------------------------------------------------- passes


def test_blocks_have_a_fixed_size_in_bytes() -> None:
    wide = MappedAtoms(ArrayAtoms(np.zeros((1, 1))), same, 1 << 30)
    assert block_rows(wide) == 1
    assert block_rows(ArrayAtoms(np.zeros((9, 100))), 1600) == 2


def test_the_row_that_is_not_finite_is_named() -> None:
    block = np.zeros((4, 6), np.float32)
    block[2, 5] = np.nan
    with pytest.raises(ValueError, match=r"`atoms` must be finite. Got nan in row 1234, column 5\."):
        check_finite(block, 1232)
    with pytest.raises(ValueError, match=r"Got -inf in row 3, column 0\."):
        norms(ArrayAtoms(np.array([[1.0], [2.0], [3.0], [-np.inf]])))


def test_a_sum_that_overflows_is_finite() -> None:
    check_finite(np.full((4, 6), 3e38, np.float32), 0)
    check_finite(np.array([[1.7e308, 1.7e308], [-1.7e308, -1.7e308]]), 0)


ROWS = hnp.arrays(
    np.float64,
    st.tuples(st.integers(1, 6), st.integers(1, 5)),
    elements=st.one_of(
        st.floats(-1e3, 1e3), st.sampled_from([0.0, 5e-324, 1e-200, 3e-160, 1e155, -1e300, 1.7e308])
    ),
)


def squared(values: NDArray[Any]) -> Fraction:
    return sum((Fraction(float(value)) ** 2 for value in values), Fraction(0))


@settings(max_examples=150, deadline=None)
@given(ROWS)
def test_norms_are_proved_and_tight(rows: Rows) -> None:
    for row, norm in zip(rows, norms(ArrayAtoms(rows)), strict=True):
        exact = squared(row)
        assert np.isinf(norm) or Fraction(float(norm)) ** 2 >= exact
        tight = exact * (1 + Fraction(1, 10**13)) + Fraction(1, 10**640)  # 1e-320: the smallest numbers
        assert exact > Fraction(1.7e308) ** 2 or Fraction(float(norm)) ** 2 <= tight


@settings(max_examples=150, deadline=None)
@given(ROWS)
def test_the_diameter_bound_is_proved(rows: Rows) -> None:
    bound = diameter_bound(ArrayAtoms(rows))
    widest = max(
        squared(
            np.array([Fraction(float(x)) - Fraction(float(y)) for x, y in zip(a, b, strict=True)], object)
        )
        for a in rows
        for b in rows
    )
    assert np.isinf(bound) or Fraction(bound) ** 2 >= widest


def test_the_diameter_bound_is_at_most_twice_too_large() -> None:
    rows = np.random.default_rng(3).normal(size=(50, 4)) + 1000
    widest = max(np.linalg.norm(a - b) for a in rows for b in rows)
    assert widest <= diameter_bound(ArrayAtoms(rows)) <= 2 * widest
    assert diameter_bound(ArrayAtoms(rows[:1])) == 0.0


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(module, "block_rows", lambda *_: 7)
    yield
    set_threads(None)


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("threads", [1, 2, 4])
def test_passes_do_not_depend_on_threads_or_storage(tmp_path: Path, threads: int) -> None:
    rows = np.random.default_rng(0).normal(size=(100, 9)).astype(np.float32)
    expected = np.linalg.norm(rows.astype(np.float64), axis=1)
    set_threads(1)
    reference = norms(ArrayAtoms(rows)), diameter_bound(ArrayAtoms(rows))
    np.testing.assert_allclose(reference[0], expected, rtol=1e-14)
    set_threads(threads)
    atoms = FileAtoms(saved(tmp_path / "x.npy", rows))
    np.testing.assert_array_equal(norms(atoms), reference[0])
    assert diameter_bound(atoms) == reference[1]


@pytest.mark.usefixtures("small_blocks")
def test_passes_report_after_every_block_and_can_be_cut() -> None:
    atoms = ArrayAtoms(np.ones((20, 2)))
    seen: list[int] = []
    with on_progress(seen.append):
        norms(atoms)
        diameter_bound(atoms)
    assert seen == [7, 7, 6] * 3

    def cut(rows: int) -> None:
        raise CutPass(Status.MAX_SECONDS)

    with on_progress(cut), pytest.raises(CutPass):
        norms(atoms)


# ---------------------------------------------------------------- fingerprints


@pytest.mark.parametrize("n", [1, 1023, 1024, 1025, 5000])
def test_a_fingerprint_knows_content_not_storage(tmp_path: Path, n: int) -> None:
    rows = np.random.default_rng(n).normal(size=(n, 3)).astype(np.float32)
    print_ = fingerprint(ArrayAtoms(rows))
    assert fingerprint(FileAtoms(saved(tmp_path / "x.npy", rows))) == print_
    assert fingerprint(ArrayAtoms(np.asfortranarray(rows))) == print_
    assert fingerprint(ArrayAtoms(rows.astype(">f4"))) == print_
    assert fingerprint(ConcatAtoms([rows])) == print_
    assert fingerprint(ConcatAtoms([rows, rows])) == print_ + print_
    assert fingerprint(ArrayAtoms(rows.astype(np.float64))) != print_
    assert fingerprint(ArrayAtoms(rows + 1)) != print_
    assert fingerprint(ArrayAtoms(rows[:, :2])) != print_
    assert pickle.loads(pickle.dumps(print_)) == print_
    assert [PartPrint(*part) for part in json.loads(json.dumps([list(part) for part in print_]))] == list(
        print_
    )


def test_a_fingerprint_never_changes_between_versions() -> None:
    rows = (np.arange(6000) % 251).reshape(2000, 3).astype(np.float32)
    whole = "08494bd50bf33025371d22cca80b59b6363f1d2f98fde876ed8b59fcbf461814"
    few = "a9a81c4846bc7ba33064a0fb8008834e407f00f5e4be527928d88aeecb7c2a2a"
    assert list(fingerprint(ArrayAtoms(rows))[0]) == [2000, 3, "float32", whole]
    assert list(fingerprint(ArrayAtoms(rows[:1000]))[0]) == [1000, 3, "float32", few]


def hash_all(rows: NDArray[Any], step: int) -> str:
    """The digest of many rows, as its tree is described."""
    leaves = [rows[first : first + step].tobytes() for first in range(0, len(rows), step)]
    hashes = [hashlib.blake2b(leaf, digest_size=32).digest() for leaf in leaves]
    return hashlib.blake2b(b"".join(hashes), digest_size=32, person=b"leaves").hexdigest()


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("leaf", [1, 24, 2400, 10**9])
def test_a_digest_is_a_tree_of_all_rows_at_any_number_of_threads(
    monkeypatch: pytest.MonkeyPatch, leaf: int, threads: int
) -> None:
    monkeypatch.setattr(atoms_file, "LEAF", leaf)
    rows = np.random.default_rng(0).standard_normal((1500, 3))
    set_threads(threads)
    try:
        found = fingerprint(ArrayAtoms(rows))[0].digest
        parts = fingerprint(ConcatAtoms([rows[:7], rows[7:]]), [1200, 300])
        assert [part.digest for part in parts] == [
            hash_all(rows[:1200], max(1, leaf // 24)),
            hashlib.blake2b(rows[1200:].tobytes(), digest_size=32).hexdigest(),
        ]
    finally:
        set_threads(None)
    assert found == hash_all(rows, max(1, leaf // 24))


@settings(max_examples=50, deadline=None)
@given(st.data())
def test_a_digest_changes_with_any_bit(data: st.DataObject) -> None:
    n = data.draw(st.sampled_from([3, 1024, 1025, 3000]))
    rows = np.random.default_rng(n).standard_normal((n, 2)).astype(np.float32)
    before = fingerprint(ArrayAtoms(rows.copy()))
    bit = np.uint32(1 << data.draw(st.integers(0, 31)))
    rows.view(np.uint32)[data.draw(st.integers(0, n - 1)), data.draw(st.integers(0, 1))] ^= bit
    assert fingerprint(ArrayAtoms(rows)) != before


class Counted:
    """Atoms that count how often all of them are read."""

    def __init__(self, rows: NDArray[Any]) -> None:
        self._atoms, self.passes = ArrayAtoms(rows), 0
        self.shape, self.dtype, self.take = self._atoms.shape, self._atoms.dtype, self._atoms.take

    def blocks(self, rows: int) -> Iterator[tuple[int, Matrix]]:
        self.passes += 1
        return self._atoms.blocks(rows)


def test_all_rows_are_read_once_and_only_when_a_digest_is_asked_for() -> None:
    atoms = Counted(np.ones((5000, 2)))
    found = fingerprint(atoms)
    assert (found[0].kind, found == tuple(found), atoms.passes) == ((5000, 2, "float64"), True, 0)
    assert found == fingerprint(ArrayAtoms(np.ones((5000, 2))))
    assert found != fingerprint(ArrayAtoms(np.zeros((5000, 2))))
    assert pickle.loads(pickle.dumps(found)) == found
    assert atoms.passes == 1


def test_rows_that_changed_before_they_were_hashed_have_no_digest() -> None:
    rows = np.ones((5000, 2))
    found = fingerprint(ArrayAtoms(rows))[0]
    rows[:] = 2.0
    with pytest.raises(OSError, match=r"ArrayAtoms.* has changed since it was first read"):
        _ = found.digest
    unknown = found.settle()
    assert (unknown.kind, unknown.digest, unknown == found.settle()) == (found.kind, "", False)
    assert pickle.loads(pickle.dumps(found)).digest == ""
