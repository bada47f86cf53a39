"""Codes on disk: those that are made in memory, and the same answers; nothing false, nothing half-written."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import errno
import os
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.data.test_store import failing
from wolfhound.core.contracts import Matrix, Status
from wolfhound.core.progress import on_progress
from wolfhound.data import store
from wolfhound.data.atoms import ArrayAtoms, ConcatAtoms, FileAtoms, fingerprint
from wolfhound.data.store import StoreError
from wolfhound.objectives.plain import SquaredDistance
from wolfhound.oracles.int8 import file_scan as on_disk
from wolfhound.oracles.int8.file_scan import Int8FileScan, align_blocks
from wolfhound.oracles.int8.scan import Int8Scan
from wolfhound.solve.minimize import minimize


def draw(n: int, d: int, dtype: str = "f4") -> Matrix:
    rows: Matrix = np.random.default_rng(n).standard_normal((n, d)).astype(dtype)
    return rows


ROWS = draw(1003, 6)
QUERIES = np.random.default_rng(1).standard_normal((12, 6))


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("cuts", [(), (1,), (7, 8, 500), (16, 999)])
def test_the_codes_are_those_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cuts: tuple[int, ...], dtype: str
) -> None:
    monkeypatch.setattr(on_disk, "block_rows", lambda atoms: 40)
    atoms = ConcatAtoms(np.split(ROWS.astype(dtype), cuts))
    Int8FileScan.build(atoms, tmp_path / "codes")
    stored, codes = store.load(tmp_path / "codes", "index"), Int8Scan.build(atoms)._codes
    for name, array in codes.arrays().items():
        np.testing.assert_array_equal(stored.arrays[name], array)
    assert {**codes.numbers(), "index": "int8-file"} == stored.params


def test_a_sample_that_misses_the_scale_writes_codes_again(tmp_path: Path) -> None:
    rows = draw(9000, 3)
    rows[8111] = 2.0**70
    heard: list[int] = []
    with on_progress(heard.append):
        Int8FileScan.build(rows, tmp_path / "codes")
    assert sum(heard) in (9000, 18_000)
    np.testing.assert_array_equal(
        store.load(tmp_path / "codes", "index").arrays["codes_blocks"], Int8Scan.build(rows)._codes.blocks
    )


@pytest.mark.parametrize("m", [1, 12])
@pytest.mark.parametrize("chunk", [1, 3000])
def test_answers_are_those_in_memory(monkeypatch: pytest.MonkeyPatch, chunk: int, m: int) -> None:
    monkeypatch.setattr(on_disk, "CHUNK", chunk)
    exclude = np.random.default_rng(2).integers(0, 1003, (m, 3))
    one, other = (
        kind.build(ROWS).query(QUERIES[:m], k=9, exclude=exclude) for kind in (Int8Scan, Int8FileScan)
    )
    for name in ("ids", "scores", "bounds", "rows"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))


def test_codes_of_either_kind_are_opened_by_both(tmp_path: Path) -> None:
    Int8Scan.build(ROWS).save(tmp_path / "memory")
    Int8FileScan.build(ROWS, tmp_path / "disk")
    hits = [
        Int8FileScan.load(tmp_path / "memory", ROWS).query(QUERIES),
        Int8FileScan.load(tmp_path / "disk", ROWS).query(QUERIES),
        Int8Scan.load(tmp_path / "disk", ROWS).query(QUERIES),
    ]
    assert len({each.ids.tobytes() + each.bounds.tobytes() for each in hits}) == 1


@pytest.mark.slow
def test_building_and_asking_take_little_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(on_disk, "block_rows", lambda atoms: 1000)
    monkeypatch.setattr(on_disk, "CHUNK", 100_000)
    np.save(tmp_path / "x.npy", np.tile(draw(1000, 50), (200, 1)))  # 40 MB, codes of 11.6
    atoms, query = FileAtoms(tmp_path / "x.npy"), draw(1, 50).astype(np.float64)
    Int8FileScan.build(atoms).query(query)
    tracemalloc.start()
    try:
        scan = Int8FileScan.build(atoms, tmp_path / "codes")
        built = tracemalloc.get_traced_memory()[1]
        scan.query(query)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert built < 6_000_000  # a sample of the rows, and a few blocks
    assert peak < 6_000_000


def test_a_temporary_file_goes_with_the_oracle() -> None:
    scan = Int8FileScan.build(ROWS)
    file = scan._path
    assert file.is_file()
    del scan
    assert not file.parent.exists()


def test_blocks_are_cut_anew() -> None:
    rows = np.arange(23.0)[:, None]
    for cuts in ([], [1], [3, 4, 5, 20], [16]):
        atoms = ConcatAtoms(np.split(rows, cuts))
        found = list(align_blocks(atoms.blocks(7), 4))
        assert all(first % 4 == 0 for first, _ in found)
        assert all(len(block) % 4 == 0 for _, block in found[:-1])
        np.testing.assert_array_equal(np.concatenate([block for _, block in found]), rows)


# ---------------------------------------------------------------- damage


FORGED: dict[str, Callable[[Any], Any]] = {
    "codes_scales": lambda array: array * 2,
    "codes_errors": lambda array: array * 0,
    "codes_blocks": lambda array: array ^ 3,
    "codes_centre": lambda array: array + 1,
}


@pytest.mark.parametrize("name", FORGED)
def test_forged_codes_are_refused(tmp_path: Path, name: str) -> None:
    Int8FileScan.build(ROWS, tmp_path / "codes")
    stored = store.load(tmp_path / "codes", "index")
    arrays = {**stored.arrays, name: FORGED[name](stored.arrays[name])}
    store.save(tmp_path / "forged", "index", arrays, stored.params, stored.fingerprint)
    with pytest.raises(StoreError, match="that is not the one of these codes"):
        Int8FileScan.load(tmp_path / "forged", ROWS)


@pytest.mark.parametrize("value", [np.nan, np.inf, -1.0, 1e30])
def test_scales_and_errors_out_of_range_are_refused(tmp_path: Path, value: float) -> None:
    Int8FileScan.build(ROWS, tmp_path / "codes")
    stored = store.load(tmp_path / "codes", "index")
    for name in ("codes_scales", "codes_errors"):
        changed = stored.arrays[name].copy()
        changed[77] = value
        store.save(
            tmp_path / name, "index", {**stored.arrays, name: changed}, stored.params, stored.fingerprint
        )
        with pytest.raises(StoreError, match="that is not the one of these codes"):
            Int8FileScan.load(tmp_path / name, ROWS)


def test_codes_in_another_order_are_refused(tmp_path: Path) -> None:
    codes = Int8Scan.build(ROWS)._codes
    arrays, params = codes.arrays() | {"codes_ids": np.arange(1003)}, {"index": "int8", **codes.numbers()}
    store.save(tmp_path / "saved", "index", arrays, params, fingerprint(ArrayAtoms(ROWS)))
    with pytest.raises(StoreError, match="in the order of the atoms"):
        Int8FileScan.load(tmp_path / "saved", ROWS)


CHANGES: dict[str, Callable[[Path], object]] = {
    "shrinks": lambda path: os.truncate(path, 1000),
    "goes": lambda path: path.unlink(),
    "is written": lambda path: os.utime(path, ns=(1, 1)),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_codes_that_change_end_a_run_as_lost(tmp_path: Path, change: Callable[[Path], object]) -> None:
    scan = Int8FileScan.build(ROWS, tmp_path / "codes")
    path = tmp_path / "codes.safetensors"

    def meddle(state: object) -> None:
        if path.exists():
            change(path)

    result = minimize(SquaredDistance(np.full(6, 2.0)), scan, callback=meddle)
    assert result.status is Status.LOST
    assert result.lower <= minimize(SquaredDistance(np.full(6, 2.0)), ROWS).value <= result.value
    with pytest.raises(OSError, match=path.name):
        scan.query(QUERIES[:1])


@pytest.mark.parametrize("after", [0, 3, 5])
def test_a_full_disk_leaves_nothing_and_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    monkeypatch.setattr(on_disk, "block_rows", lambda atoms: 40)
    with monkeypatch.context() as patch, pytest.raises(OSError, match=r"No space left.*codes") as caught:
        patch.setattr(store.ArrayWriter, "write", failing(store.ArrayWriter.write, after))
        Int8FileScan.build(ROWS, tmp_path / "codes")
    assert caught.value.errno == errno.ENOSPC
    assert list(tmp_path.iterdir()) == []


def test_rows_that_are_not_finite_are_named_and_nothing_is_left(tmp_path: Path) -> None:
    rows = ROWS.copy()
    rows[777, 2] = np.nan
    with pytest.raises(ValueError, match=r"`atoms` must be finite\. Got nan in row 777, column 2"):
        Int8FileScan.build(ArrayAtoms(rows), tmp_path / "codes")
    assert list(tmp_path.iterdir()) == []
