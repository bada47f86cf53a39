"""What is read of a folder: nothing that is not as it was saved, however it was forged."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.test_store import rewrite, save_small
from wolfhound.store import StoreError, load


@pytest.mark.parametrize("text", [b"[" * 100_000, b"9" * 100_000, b"NaN", b'{"a":' * 100_000])
def test_manifests_that_cannot_be_parsed_are_refused(tmp_path: Path, text: bytes) -> None:
    save_small(tmp_path)
    (tmp_path / "manifest.json").write_bytes(text)
    with pytest.raises(StoreError, match=r"manifest.json"):
        load(tmp_path, "index")


WRONG: dict[str, list[Any]] = {
    "kind": [None, 3, ["index"]],
    "params": [None, 3, "x", [3]],
    "arrays": [None, 3, [3], {"ids": 3}, {"ids": {}}, {"ids": {"file": "ids"}}],
    "fingerprint": [None, 3, {"a": 3}, [3], [[1, 2, 3, 4]], [[10**30, 1, "a", "b"]], [[0, 1, "a", "b"]]],
}


@pytest.mark.parametrize(("key", "value"), [(key, value) for key in WRONG for value in WRONG[key]])
def test_entries_of_the_wrong_kind_are_refused(tmp_path: Path, key: str, value: Any) -> None:
    rewrite(save_small(tmp_path), lambda manifest: manifest.update({key: value}))
    with pytest.raises(StoreError, match="is damaged: an entry is missing or of the wrong kind"):
        load(tmp_path, "index")


@pytest.mark.parametrize("key", WRONG)
def test_entries_that_are_missing_are_refused(tmp_path: Path, key: str) -> None:
    rewrite(save_small(tmp_path), lambda manifest: manifest.pop(key))
    with pytest.raises(StoreError, match="is damaged: an entry is missing or of the wrong kind"):
        load(tmp_path, "index")


@pytest.mark.parametrize(
    "file", ["../ids-{}.npy", "/ids-{}.npy", "sub/ids-{}.npy", "./ids-{}.npy", "ids-{}.npy\n", 3, None]
)
def test_names_that_leave_the_folder_are_refused(tmp_path: Path, file: Any) -> None:
    folder = save_small(tmp_path / "saved")
    array = next(folder.glob("ids-*"))
    (folder / "sub").mkdir()
    for place in (tmp_path, folder / "sub"):
        shutil.copy(array, place)
    name = file.format(array.stem[4:]) if isinstance(file, str) else file
    rewrite(folder, lambda manifest: manifest["arrays"]["ids"].update(file=name))
    with pytest.raises(StoreError, match="an entry is missing or of the wrong kind"):
        load(folder, "index")


@pytest.mark.parametrize("name", ["ids-*", "manifest.json"])
@pytest.mark.parametrize("kind", ["link", "pipe", "folder"])
def test_files_that_are_not_plain_are_refused(tmp_path: Path, name: str, kind: str) -> None:
    folder = save_small(tmp_path / "saved")
    path = next(folder.glob(name))
    shutil.move(path, tmp_path / "away")
    makers: dict[str, Callable[[], object]] = {
        "link": lambda: path.symlink_to(tmp_path / "away"),
        "pipe": lambda: os.mkfifo(path),
        "folder": path.mkdir,
    }
    makers[kind]()
    with pytest.raises(StoreError, match=path.name):
        load(folder, "index")


def forge(folder: Path, name: str, data: bytes, **entry: object) -> None:
    """Write an array file again, with the right checksum."""
    file = next(folder.glob(f"{name}-*"))
    file.write_bytes(data)
    entry |= {"bytes": len(data), "checksum": hashlib.blake2b(data, digest_size=32).hexdigest()}
    rewrite(folder, lambda manifest: manifest["arrays"][name].update(entry))


def npy(dtype: str, shape: object) -> bytes:
    header = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode()


CLAIMS = [
    ("<i8", [10**13]),
    ("<i8", [-1]),
    ("|O", [1]),
    ("<U0", [10**13]),
    ("<i8", [10**30]),
    ("<i8", [3] * 99),
]


@pytest.mark.parametrize(("dtype", "shape"), CLAIMS)
def test_arrays_that_claim_more_than_they_hold_are_refused(
    tmp_path: Path, dtype: str, shape: list[int]
) -> None:
    forge(save_small(tmp_path), "ids", npy(dtype, tuple(shape)), dtype=dtype, shape=shape)
    with pytest.raises(StoreError, match=r"ids-\w+.npy is damaged: "):
        load(tmp_path, "index")


def test_arrays_are_asked_for_by_type_shape_and_range(tmp_path: Path) -> None:
    stored = load(save_small(tmp_path), "index")
    np.testing.assert_array_equal(stored.array("ids", np.int64, (2,), low=1, high=3), [3, 1])
    assert stored.array("none", np.float32, (0, None)).shape == (0, 3)
    assert stored.array("kind", "U", (None,)).tolist() == ["start", "päss"]
    asked: list[tuple[str, Any, tuple[int | None, ...], dict[str, float]]] = [
        ("absent", np.int64, (2,), {}),
        ("ids", np.int32, (2,), {}),
        ("ids", ">i8", (2,), {}),
        ("ids", np.int64, (3,), {}),
        ("ids", np.int64, (None, None), {}),
        ("ids", np.int64, (2,), {"low": 2}),
        ("ids", np.int64, (2,), {"high": 2}),
        ("codes", np.int8, (2, 3), {}),  # columns are contiguous, not rows
    ]
    for name, dtype, shape, options in asked:
        with pytest.raises(StoreError, match=f"is damaged: .*'{name}'"):
            stored.array(name, dtype, shape, **options)


def test_whatever_a_wrong_value_leads_to_is_one_error(tmp_path: Path) -> None:
    stored = load(save_small(tmp_path), "index")
    with pytest.raises(StoreError, match=r"is damaged: .*KeyError: 'absent'"), stored.reading():
        stored.params["absent"]
    with pytest.raises(KeyError), stored.reading(KeyError):
        stored.params["absent"]
