"""Arrays by name in .h5, .zarr and .safetensors files, and rows that are spooled."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import importlib
import json
import os
import shutil
import tempfile
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import h5py
import numpy as np
import pytest
import zarr
from safetensors import numpy as safetensors

from tests.data.test_readers import values
from wolfhound.core.progress import on_progress
from wolfhound.data import files
from wolfhound.data.atoms import FileAtoms, as_atoms
from wolfhound.data.datasets import weigh_rows
from wolfhound.data.readers import read_array, read_atoms, read_matrix, read_vector

ROWS = np.random.default_rng(0).standard_normal((300, 4)).astype(np.float32)


@pytest.fixture(autouse=True)
def nothing_is_loaded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(files, "IN_MEMORY", 0)
    monkeypatch.chdir(tmp_path)


def write_h5() -> None:
    with h5py.File("x.h5", "w") as file:
        file["a"], file["deep/b"], file["v"] = ROWS, ROWS.astype(np.float16), ROWS[0]


def write_zarr() -> None:
    group = zarr.open_group("x.zarr", mode="w")
    group.create_array("a", data=ROWS, chunks=(7, 4))
    group.create_group("deep").create_array("b", data=ROWS.astype(np.float16), chunks=(300, 1))
    group.create_array("v", data=ROWS[0])


def write_safetensors() -> None:
    Path("x.safetensors").write_bytes(
        safetensors.save({"a": ROWS, "deep/b": ROWS.astype(np.float16), "v": ROWS[0]}, {"of": "us"})
    )


WRITERS: dict[str, Callable[[], None]] = {
    ".h5": write_h5,
    ".zarr": write_zarr,
    ".safetensors": write_safetensors,
}
every_format = pytest.mark.parametrize("ending", WRITERS)


@every_format
def test_an_array_is_chosen_by_its_name(ending: str) -> None:
    WRITERS[ending]()
    np.testing.assert_array_equal(values(read_atoms(f"x{ending}::a")), ROWS)
    halves = as_atoms(f"x{ending}::/deep/b")
    assert halves.dtype == np.float32
    np.testing.assert_array_equal(values(halves), ROWS.astype(np.float16))
    np.testing.assert_array_equal(read_vector(f"x{ending}::v"), ROWS[0])
    np.testing.assert_array_equal(read_array(f"x{ending}::a"), ROWS)
    both = read_atoms([f"x{ending}::a", f"*{ending}::deep/b"])
    np.testing.assert_array_equal(values(both), np.concatenate([ROWS, ROWS.astype(np.float16)]))


@every_format
@pytest.mark.parametrize("name", ["", "::c"])
def test_what_is_not_clear_is_answered_by_a_list(ending: str, name: str) -> None:
    WRITERS[ending]()
    listed = rf"`path` must be x{ending}::name, name one of .*a \(300, 4\).*v \(4,\).* Got 'x{ending}{name}'"
    with pytest.raises(ValueError, match=listed):
        read_atoms(f"x{ending}{name}")
    with pytest.raises(ValueError, match=r"an array with 2 axes. Got \(4,\) in x"):
        read_atoms(f"x{ending}::v")


def test_plain_arrays_are_read_where_they_lie() -> None:
    write_h5()
    write_safetensors()
    for path in ("x.h5", "x.safetensors"):
        atoms = read_atoms(f"{path}::a")
        assert isinstance(atoms, FileAtoms)
        assert atoms.path == Path(path).absolute()


def test_what_is_not_plain_is_spooled_with_a_listener() -> None:
    with h5py.File("x.h5", "w", userblock_size=512) as file:
        file["a"] = ROWS
        file.create_dataset("chunks", data=ROWS, chunks=(16, 2), compression="gzip")
        file["turned"] = ROWS.astype(">f8")
    heard: list[int] = []
    with on_progress(heard.append):
        for name in ("a", "chunks", "turned"):
            atoms = read_atoms(f"x.h5::{name}")
            assert isinstance(atoms, FileAtoms)
            assert str(atoms.path).startswith(files.spool_folder())
            np.testing.assert_array_equal(values(atoms), ROWS)
    assert sum(heard) == 900


@pytest.mark.parametrize(("package", "ending"), [("h5py", ".h5"), ("zarr", ".zarr")])
def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch, package: str, ending: str) -> None:
    WRITERS[ending]()
    real = importlib.import_module

    def without(name: str, package_: str | None = None) -> ModuleType:
        if name == package:
            raise ImportError(name)
        return real(name, package_)

    monkeypatch.setattr(importlib, "import_module", without)
    with pytest.raises(ImportError, match=rf'\{ending} needs {package}: pip install "wolfhound\[files\]"'):
        read_atoms(f"x{ending}::a")


# ---------------------------------------------------------------- damage


@pytest.mark.parametrize("ending", [".h5", ".safetensors"])
@pytest.mark.parametrize("content", [b"nothing of the kind", b"\xff" * 64, b"\x00" * 8])
def test_other_content_is_refused_by_name(ending: str, content: bytes) -> None:
    Path(f"x{ending}").write_bytes(content)
    with pytest.raises(ValueError, match=rf"`path` must be an? .* file. Got x{ending}: ") as caught:
        read_atoms(f"x{ending}")
    assert "\n" not in str(caught.value)


def test_a_folder_that_is_no_zarr_store_is_refused() -> None:
    Path("x.zarr").mkdir()
    with pytest.raises(ValueError, match=r"`path` must be a Zarr folder. Got x.zarr"):
        read_atoms("x.zarr")


ENTRY = {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}
LIES: dict[str, Any] = {
    "more rows": {**ENTRY, "shape": [10**12, 3]},
    "less than none": {**ENTRY, "shape": [-2, -3]},
    "no numbers": {**ENTRY, "shape": ["2", 3]},
    "beyond the end": {**ENTRY, "shape": [2 * 10**11, 3], "data_offsets": [0, 24 * 10**11]},
    "before the start": {**ENTRY, "data_offsets": [-24, 0]},
    "no offsets": {"dtype": "F32", "shape": [2, 3]},
    "a list": [1, 2],
}


@pytest.mark.parametrize("lie", LIES)
def test_tensors_that_lie_are_refused_before_anything_is_allocated(lie: str) -> None:
    header = json.dumps({"a": LIES[lie]}).encode()
    Path("x.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + bytes(24))
    tracemalloc.start()
    try:
        for read in (read_atoms, read_array):
            with pytest.raises(ValueError, match="`path` must be "):
                read("x.safetensors")
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


def test_types_that_numpy_has_not_are_refused_by_name() -> None:
    header = json.dumps({"a": {"dtype": "BF16", "shape": [2, 3], "data_offsets": [0, 12]}}).encode()
    Path("x.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + bytes(12))
    with pytest.raises(TypeError, match=r"`x.safetensors::a` must hold real numbers of at most 64 bits"):
        read_atoms("x.safetensors")


# ---------------------------------------------------------------- no room


def spooled() -> list[str]:
    return os.listdir(files.spool_folder())


def test_no_room_for_a_copy_is_told_before_it_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    write_zarr()
    before = spooled()
    monkeypatch.setattr(shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(10**6, 10**6, 1000))
    with pytest.raises(
        OSError, match=r"No room for a copy of the rows, 4,800 bytes, .* 1,000 are free; set TMPDIR"
    ):
        read_atoms("x.zarr::a")
    assert spooled() == before


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a disk that is full is told by Linux only")
def test_a_disk_that_becomes_full_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    write_zarr()
    before = spooled()
    real = tempfile.mkstemp

    def full(**options: Any) -> tuple[int, str]:
        descriptor, name = real(**options)
        os.close(descriptor)
        return os.open("/dev/full", os.O_WRONLY), name

    monkeypatch.setattr(tempfile, "mkstemp", full)
    with pytest.raises(OSError, match="No room for a copy of the rows"):
        read_atoms("x.zarr::a")
    assert spooled() == before


# ---------------------------------------------------------------- files that name other files


def write_secret() -> Path:
    secret = Path("secret").absolute()
    secret.write_bytes(bytes(range(128)))
    return secret


def forge_external(file: Any) -> None:
    """Values that lie in another file."""
    file.create_dataset("a", (8, 16), "u1", external=[(str(write_secret()), 0, 128)])


def forge_many_externals(file: Any) -> None:
    """Values that lie in several, of which one is not there."""
    parts = [("nowhere", 0, 64), (str(write_secret()), 64, 64)]
    file.create_dataset("a", (8, 16), "u1", external=parts)


def forge_virtual(file: Any) -> None:
    """A view of a dataset in another file."""
    with h5py.File("other.h5", "w") as other:
        other["b"] = np.arange(128, dtype="u1").reshape(8, 16)
    layout = h5py.VirtualLayout((8, 16), "u1")
    layout[:] = h5py.VirtualSource("other.h5", "b", (8, 16))
    file.create_virtual_dataset("a", layout)


def forge_virtual_external(file: Any) -> None:
    """A view of a dataset of the same file, which lies in another."""
    file.create_dataset("b", (128,), "u1", external=[(str(write_secret()), 0, 128)])
    layout = h5py.VirtualLayout((8, 16), "u1")
    layout[0] = h5py.VirtualSource(".", "b", (128,))[:16]
    file.create_virtual_dataset("a", layout)


FORGED = (forge_external, forge_many_externals, forge_virtual, forge_virtual_external)


@pytest.mark.parametrize("read", [read_atoms, read_array, read_matrix, weigh_rows])
@pytest.mark.parametrize("name", ["x.h5", "x.h5::a", "x.hdf5::a"])
@pytest.mark.parametrize("forge", FORGED)
def test_a_file_cannot_have_another_file_read(
    forge: Callable[[Any], None], name: str, read: Callable[[str], Any]
) -> None:
    with h5py.File(name.removesuffix("::a"), "w") as file:
        forge(file)
        file.pop("b", None)
    told = r"^`path` must be an array that is read without opening other files or running code\. Got "
    with pytest.raises(ValueError, match=told + r"x\.\w+::a, (whose storage is external|a virtual dataset)"):
        read(name)


def test_links_to_other_files_are_not_followed() -> None:
    with h5py.File("other.h5", "w") as other:
        other["b"] = np.ones((8, 16))
    with h5py.File("x.h5", "w") as file:
        file["a"] = h5py.ExternalLink("other.h5", "b")
        file["c"] = h5py.SoftLink("/a")
        file["group/d"] = np.zeros((2, 3))
    assert read_atoms("x.h5").shape == (2, 3)
    for name in ("a", "c", "/a"):
        with pytest.raises(ValueError, match=r"name one of group/d \(2, 3\)"):
            read_atoms(f"x.h5::{name}")


def test_other_arrays_of_such_a_file_can_be_read() -> None:
    with h5py.File("x.h5", "w") as file:
        forge_external(file)
        file["b"] = np.ones((2, 3))
    np.testing.assert_array_equal(read_array("x.h5::b"), np.ones((2, 3)))


@pytest.mark.parametrize("place", ["0.0", "zarr.json", "deep"])
@pytest.mark.parametrize("relative", [True, False])
def test_a_zarr_folder_with_links_out_of_it_is_refused(place: str, relative: bool) -> None:
    secret = write_secret()
    zarr.create_array("x.zarr", data=np.zeros((8, 16), "u1"), chunks=(8, 16), zarr_format=2)
    link = Path("x.zarr", place)
    link.unlink(missing_ok=True)
    link.symlink_to(os.path.relpath(secret, "x.zarr") if relative else secret)
    for read in (read_atoms, read_array):
        with pytest.raises(ValueError, match=rf"without links that lead out of it\. Got .*{place}"):
            read("x.zarr")


def test_a_zarr_folder_may_be_a_link_and_have_links_inside() -> None:
    zarr.create_array("real", data=np.ones((8, 16)), chunks=(4, 16), zarr_format=2, compressors=None)
    Path("real/1.0").unlink()
    Path("real/1.0").symlink_to("0.0")
    Path("x.zarr").symlink_to("real")
    np.testing.assert_array_equal(read_array("x.zarr"), np.ones((8, 16)))


def test_a_zarr_folder_cannot_name_another() -> None:
    zarr.create_array("other", data=np.ones((8, 16)))
    zarr.create_group("x.zarr")
    root = json.loads(Path("x.zarr/zarr.json").read_text())
    array = json.loads(Path("other/zarr.json").read_text())
    for name in ("..", "../other", "a/../../other", str(Path("other").absolute())):
        root["consolidated_metadata"] = {
            "kind": "inline",
            "must_understand": False,
            "metadata": {name: array},
        }
        Path("x.zarr/zarr.json").write_text(json.dumps(root))
        for path in ("x.zarr", f"x.zarr::{name}"):
            with pytest.raises(ValueError, match=r"^`path` must be "):
                read_atoms(path)


@pytest.mark.parametrize(
    ("compressor", "filters"),
    [(None, ["vlen-utf8", "pickle"]), ({"id": "pickle"}, ["vlen-utf8"]), (None, ["pickle"])],
)
def test_nothing_is_unpickled(compressor: Any, filters: list[str]) -> None:
    folder = Path("x.zarr")
    folder.mkdir()
    layout = {
        "zarr_format": 2,
        "shape": [2, 2],
        "chunks": [2, 2],
        "dtype": "|O",
        "fill_value": "",
        "order": "C",
    }
    codecs = {"compressor": compressor, "filters": [{"id": name} for name in filters]}
    (folder / ".zarray").write_text(json.dumps(layout | codecs))
    (folder / "0.0").write_bytes(b"cos\nsystem\n(S'touch ran'\ntR.")
    for read in (read_atoms, read_array):
        with pytest.raises(ValueError, match=r"^`path` must be .*([Uu]npickle|No Zarr data type)"):
            read("x.zarr")
    assert not Path("ran").exists()
