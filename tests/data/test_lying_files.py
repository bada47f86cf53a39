"""Files of rows that claim what they do not hold: one line, before anything is allocated."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import tracemalloc
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.data.test_readers import write_parquet
from wolfhound.data import datasets
from wolfhound.data.readers import read_array, read_atoms, read_matrix


def header(dtype: str, shape: object, version: int = 1, length: int | None = None) -> bytes:
    """The start of a .npy file that says so."""
    text = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    size = len(text) if length is None else length
    return b"\x93NUMPY" + bytes([version, 0]) + size.to_bytes(2 if version == 1 else 4, "little") + text


LIES = {
    "more rows": header("<f8", (10**13, 4)),
    "more columns": header("<f8", (4, 10**13)),
    "more than addresses": header("<f8", (10**30, 4)),
    "less than none": header("<f8", (-1, 4)),
    "two times less than none": header("<f8", (-(10**9), -(10**9))),
    "objects": header("|O", (1, 1)) + b"\x80\x04N.",
    "long text": header("<U2000000000", (1, 1)),
    "no text": header("<U0", (10**13, 4)),
    "a long header": header("<f8", (1, 1), version=2, length=2**32 - 1),
    "a header longer than the file": header("<f8", (1, 1), length=9999),
    "version 3": header("<f8", (1, 1), version=3),
    "many axes": header("<f8", (1,) * 99) + bytes(8),
    "nested": header("<f8", "(" * 5000),
}


@pytest.mark.slow
@pytest.mark.parametrize("ending", [".npy", ".npz"])
@pytest.mark.parametrize("lie", LIES)
def test_files_that_lie_are_refused_before_anything_is_allocated(
    tmp_path: Path, lie: str, ending: str
) -> None:
    path = tmp_path / f"x{ending}"
    with zipfile.ZipFile(tmp_path / "x.npz", "w") as archive:
        archive.writestr("a.npy", LIES[lie])
    (tmp_path / "x.npy").write_bytes(LIES[lie])
    tracemalloc.start()
    try:
        for read in (read_atoms, read_array, read_matrix):
            with pytest.raises((ValueError, TypeError), match=r"`path` must |`rows` must ") as caught:
                read(path)
            assert "\n" not in str(caught.value)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 5_000_000


def test_an_archive_whose_array_is_packed_too_well_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(datasets, "_HARMLESS", 1 << 20)
    np.savez_compressed(tmp_path / "x.npz", a=np.zeros((1 << 15, 64)), b=np.ones(3))
    with pytest.raises(ValueError, match=r"packed at most 200 times.*Got 16,777,344 bytes in a.npy of"):
        read_atoms(tmp_path / "x.npz")
    np.testing.assert_array_equal(read_array(f"{tmp_path}/x.npz:b"), np.ones(3))


def test_an_archive_that_claims_more_than_it_holds_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    np.savez(path, np.ones((8, 4)))
    data = path.read_bytes()
    size = (8 * 4 * 8 + 128).to_bytes(4, "little")
    path.write_bytes(data.replace(size, (2**31).to_bytes(4, "little")))
    with pytest.raises(ValueError, match=r"`path` must be a .npz file of numbers. Got "):
        read_atoms(path)


@pytest.mark.parametrize("dtype", ["<f8", ">f4", "<i2", "?"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_honest_files_are_read_as_numpy_reads_them(tmp_path: Path, dtype: str, order: Any) -> None:
    rows = np.asarray(np.arange(12).reshape(4, 3), dtype=dtype, order=order)
    np.save(tmp_path / "x.npy", rows)
    np.savez_compressed(tmp_path / "x.npz", rows)
    with open(tmp_path / "v2.npy", "wb") as file:
        np.lib.format.write_array(file, rows, version=(2, 0))
    for name in ("x.npy", "x.npz", "v2.npy"):
        np.testing.assert_array_equal(read_array(tmp_path / name), rows)
        np.testing.assert_array_equal(read_atoms(tmp_path / name).take(np.array([3])), rows[3:])


def test_a_parquet_file_that_was_damaged_inside_is_named(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    write_parquet(path, np.random.default_rng(0).standard_normal((500, 4)))
    data = bytearray(path.read_bytes())
    data[20:2000] = bytes(1980)
    path.write_bytes(data)
    with pytest.raises(ValueError, match=r"`path` must be a .parquet file that can be read. Got .*x.parquet"):
        read_atoms(path)
