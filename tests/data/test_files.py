"""Atoms in files: the right rows, or an error that names the file."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import itertools
import os
import pickle
import threading
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.conformance.atoms import check_atoms
from wolfhound.core.contracts import Atoms, Status
from wolfhound.core.progress import Cut, on_progress
from wolfhound.core.threads import set_threads
from wolfhound.data.atoms import ArrayAtoms, ConcatAtoms, FileAtoms, as_atoms, norms, widen
from wolfhound.data.files import read_ahead

DTYPES = ["f2", "f4", "f8", "?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", ">f4", ">f8", ">i2"]


@pytest.fixture
def files(tmp_path: Path) -> Iterator[Callable[[], Path]]:
    numbers = itertools.count()
    yield lambda: tmp_path / f"{next(numbers)}.npy"


def saved(path: Path, rows: NDArray[Any]) -> Path:
    np.save(path, rows)
    return path


@pytest.mark.parametrize("dtype", ["f8", "f4", "f2", ">f8", ">i4", "u1", "i8"])
def test_file_atoms_conform(files: Callable[[], Path], dtype: str) -> None:
    check_atoms(lambda rows: FileAtoms(saved(files(), rows.astype(dtype))))


def test_memory_maps_and_paths_conform(files: Callable[[], Path]) -> None:
    check_atoms(lambda rows: as_atoms(np.load(saved(files(), rows), mmap_mode="r")))
    check_atoms(lambda rows: as_atoms(str(saved(files(), rows))))
    check_atoms(lambda rows: as_atoms([saved(files(), rows)]))
    check_atoms(lambda rows: FileAtoms.raw(saved(files(), rows), rows.shape, "f8", offset=128))


@pytest.mark.parametrize("dtype", DTYPES)
def test_widening_is_exact_for_what_fits(dtype: str) -> None:
    stored = np.dtype(dtype)
    out = widen(stored, "atoms")
    assert out.isnative
    assert out in (np.float32, np.float64)
    assert np.can_cast(stored, out, "safe") or stored.kind in "iu"
    assert (out.itemsize == 4) == (stored.str[1:] in ("f2", "f4", "b1", "i1", "u1", "i2", "u2"))


def test_a_memory_map_becomes_file_atoms_at_its_place(tmp_path: Path) -> None:
    path = saved(tmp_path / "x.npy", np.arange(30.0).reshape(10, 3))
    mapped = np.load(path, mmap_mode="r")
    part = as_atoms(mapped[2:9][1:5])
    assert isinstance(part, FileAtoms)
    np.testing.assert_array_equal(part.take(np.arange(4)), mapped[3:7])
    assert isinstance(as_atoms(mapped[::2]), ArrayAtoms)
    assert isinstance(as_atoms(mapped[:, :2]), ArrayAtoms)
    assert isinstance(as_atoms(mapped + 1), ArrayAtoms)


def test_a_changed_memory_map_is_read_as_changed(tmp_path: Path) -> None:
    path = saved(tmp_path / "x.npy", np.zeros((2, 2)))
    private = np.load(path, mmap_mode="c")
    private[0, 0] = 7
    np.testing.assert_array_equal(as_atoms(private).take(np.array([0])), [[7, 0]])
    shared = np.load(path, mmap_mode="r+")
    shared[1, 1] = 5
    np.testing.assert_array_equal(as_atoms(shared).take(np.array([1])), [[0, 5]])


@pytest.mark.parametrize("size", [50, 30, 5])
def test_a_map_whose_file_was_replaced_shows_its_own_rows(size: int, tmp_path: Path) -> None:
    rows = np.random.default_rng(0).standard_normal((50, 3))
    path = tmp_path / "rows.npy"
    np.save(path, rows)
    mapped = np.load(path, mmap_mode="r")
    np.save(tmp_path / "new.npy", np.ones((size, 3)))
    os.replace(tmp_path / "new.npy", path)
    np.testing.assert_array_equal(as_atoms(mapped).take(np.arange(50)), rows)
    np.testing.assert_array_equal(as_atoms(mapped[10:20]).take(np.arange(10)), rows[10:20])


def test_a_memory_map_whose_file_is_gone_stays_an_array(tmp_path: Path) -> None:
    path = saved(tmp_path / "x.npy", np.ones((2, 2)))
    mapped = np.load(path, mmap_mode="r")
    path.unlink()
    np.testing.assert_array_equal(as_atoms(mapped).take(np.array([1])), [[1, 1]])


def test_fortran_order_is_refused_with_the_remedy(tmp_path: Path) -> None:
    path = saved(tmp_path / "x.npy", np.asfortranarray(np.ones((3, 2))))
    with pytest.raises(ValueError, match=r"`path` must be in C order.*np.ascontiguousarray"):
        FileAtoms(path)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (np.zeros(3), "2-D"),
        (np.zeros((0, 3)), "at least one row"),
        (np.zeros((2, 2), complex), "complex128"),
        (np.zeros((2, 2), [("a", "f4")]), "dtype"),
    ],
)
def test_files_of_other_arrays_are_refused(tmp_path: Path, value: NDArray[Any], text: str) -> None:
    path = saved(tmp_path / "x.npy", value)
    with pytest.raises((ValueError, TypeError), match=f"`path` must.*{text}"):
        FileAtoms(path)


@pytest.mark.parametrize(
    "content", [b"", b"PK\x03\x04 nonsense", b"\x93NUMPY\x01\x00\x10\x00{'descr': '<f4'"]
)
def test_files_that_are_not_npy_are_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "x.npy"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"`path` must be a .npy file"):
        FileAtoms(path)


def test_a_truncated_file_is_refused(tmp_path: Path) -> None:
    path = saved(tmp_path / "x.npy", np.zeros((10, 5), np.float32))
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(
        ValueError, match=r"`path` must be a file of 10 x 5 float32 values, 328 bytes. Got 327"
    ):
        FileAtoms(path)
    with pytest.raises(ValueError, match=r"1000 x 5 float32 values, 20004 bytes"):
        FileAtoms.raw(path, (1000, 5), "f4", offset=4)


def test_a_file_that_changes_or_goes_raises_oserror_with_its_path(tmp_path: Path) -> None:
    path = saved(tmp_path / "x.npy", np.zeros((10, 5), np.float32))
    atoms = FileAtoms(path)
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(OSError, match=r"x.npy has changed since it was opened"):
        atoms.take(np.array([0]))
    with pytest.raises(OSError, match=r"x.npy has changed since it was opened"):
        list(atoms.blocks(4))
    path.unlink()
    with pytest.raises(OSError, match=r"x.npy"):
        list(atoms.blocks(4))


CHANGES: dict[str, Callable[[Path], object]] = {
    "shrinks": lambda path: os.truncate(path, path.stat().st_size - 1),
    "goes": lambda path: path.unlink(),
    "is replaced": lambda path: os.replace(saved(path.with_name("other.npy"), np.ones((10, 5))), path),
    "is written": lambda path: os.utime(path, ns=(1, 1)),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_pass_over_a_file_that_changes_ends_with_an_error(
    tmp_path: Path, change: Callable[[Path], object]
) -> None:
    path = saved(tmp_path / "x.npy", np.zeros((10, 5)))
    blocks = ConcatAtoms([np.ones((3, 5)), FileAtoms(path)]).blocks(2)
    next(blocks)
    change(path)
    with pytest.raises(OSError, match=r"x\.npy"):
        list(blocks)


def test_a_file_that_is_cut_while_it_is_read_is_named(tmp_path: Path) -> None:
    rows = FileAtoms(saved(tmp_path / "x.npy", np.zeros((10, 5), np.float32)))
    with pytest.raises(OSError, match=r"x.npy ends inside row 8 or"), rows.open() as file:
        os.truncate(rows.path, 300)
        rows.fill(file, 8, np.empty((2, 5), np.float32))


def test_a_pickled_file_is_that_of_the_other_machine(tmp_path: Path) -> None:
    path = saved(tmp_path / "x.npy", np.zeros((10, 5)))
    sent = pickle.dumps(FileAtoms(path))
    np.save(path, np.ones((10, 5)))
    atoms = pickle.loads(sent)
    np.testing.assert_array_equal(atoms.take(np.array([0])), np.ones((1, 5)))
    np.save(path, np.zeros((11, 5)))
    with pytest.raises(OSError, match="has changed"):
        atoms.take(np.array([0]))


def test_files_are_read_ahead_from_one_to_the_next(tmp_path: Path) -> None:
    paths = [saved(tmp_path / f"{i}.npy", np.full((3, 2), i, dtype)) for i, dtype in enumerate(["f4", "f8"])]
    joined = as_atoms([FileAtoms(path) for path in paths])
    blocks = joined.blocks(3)
    first, block = next(blocks)
    assert (first, block.dtype.name, block.flags.writeable) == (0, "float64", False)
    paths[1].unlink()  # too late: the block was read, or is about to be refused
    before = threading.active_count()
    blocks.close()  # type: ignore[attr-defined]
    assert threading.active_count() < before


def test_what_a_reader_raises_reaches_the_caller_and_ends_it() -> None:
    def fail() -> int:
        raise OSError("gone")

    before = set(threading.enumerate())
    reader = read_ahead([lambda: 1, fail, lambda: 3])
    assert next(reader) == 1
    with pytest.raises(OSError, match="gone"):
        list(reader)
    assert set(threading.enumerate()) == before


def test_a_cut_pass_leaves_no_reader(tmp_path: Path) -> None:
    atoms = FileAtoms(saved(tmp_path / "x.npy", np.zeros((40, 5))))

    def leave(rows: int) -> None:
        raise Cut(Status.STOPPED)

    before = {each.name for each in threading.enumerate()}
    for threads in (1, 2):
        set_threads(threads)
        with pytest.raises(Cut) as caught, on_progress(leave):
            norms(atoms)
        assert caught.value.status is Status.STOPPED
        assert not [
            name for name in {each.name for each in threading.enumerate()} - before if "reader" in name
        ]
    set_threads(None)


def test_leaving_a_pass_early_leaves_no_thread(tmp_path: Path) -> None:
    atoms = FileAtoms(saved(tmp_path / "x.npy", np.zeros((10, 5))))
    before = set(threading.enumerate())
    blocks = atoms.blocks(2)
    next(blocks)
    assert set(threading.enumerate()) > before
    blocks.close()  # type: ignore[attr-defined]
    assert set(threading.enumerate()) == before


@pytest.mark.parametrize("apart", [1, 2, 7, 300, 5000])
def test_rows_near_and_far_are_taken_alike(tmp_path: Path, apart: int) -> None:
    rows = np.random.default_rng(0).standard_normal((20_000, 30)).astype(np.float32)
    atoms = FileAtoms(saved(tmp_path / "x.npy", rows))
    ids = np.random.default_rng(1).permutation(np.arange(3, 20_000, apart))
    np.testing.assert_array_equal(atoms.take(ids), rows[ids])
    assert atoms.take(ids[:0]).shape == (0, 30)


STORED: dict[str, Callable[[Path], Atoms]] = {
    "file": FileAtoms,
    "array float16": lambda path: ArrayAtoms(np.load(path).astype(np.float16)),
    "array F order": lambda path: ArrayAtoms(np.asfortranarray(np.load(path))),
}


@pytest.mark.parametrize("make", STORED.values(), ids=STORED.keys())
def test_a_pass_and_a_take_hold_a_few_blocks_only(tmp_path: Path, make: Callable[[Path], Atoms]) -> None:
    atoms = make(saved(tmp_path / "x.npy", np.zeros((40_000, 50), np.float32)))  # 8 MB
    tracemalloc.start()
    try:
        for _, block in atoms.blocks(1000):  # 0.2 MB
            assert len(block) == 1000
        atoms.take(np.arange(0, 40_000, 40))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 1_500_000
