"""Folders that are complete or refused, whatever happens to them."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pytest

from wolfhound import _draft, store
from wolfhound._manifest import seal
from wolfhound.atoms import ArrayAtoms, ConcatAtoms, as_atoms, fingerprint
from wolfhound.store import StoreError, check_fingerprint, compose, load, save, write_atomically

ROWS = np.arange(12.0).reshape(4, 3)
ARRAYS = {
    "ids": np.array([3, 1]),
    "weights": np.array([0.25, 0.75]),
    "codes": np.asfortranarray(np.arange(6, dtype=np.int8).reshape(2, 3)),
    "kind": np.array(["start", "päss"]),
    "none": np.empty((0, 3), np.float32),
    "number": np.array(7.5),
}
PARAMS: dict[str, Any] = {"c": 0.1, "names": ["é", None], "nested": {"on": True}, "limit": float("inf")}


def save_small(folder: Path) -> Path:
    save(folder, "index", ARRAYS, PARAMS, fingerprint(ArrayAtoms(ROWS)))
    return folder


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


@pytest.mark.parametrize("on_disk", [(), ("ids",)])
def test_what_is_saved_is_loaded(tmp_path: Path, on_disk: tuple[str, ...]) -> None:
    stored = load(save_small(tmp_path / "new" / "folder"), "index", on_disk=on_disk)
    assert stored.params == PARAMS
    assert stored.fingerprint == fingerprint(ArrayAtoms(ROWS))
    assert stored.arrays.keys() == ARRAYS.keys()
    mapped = [name for name, array in stored.arrays.items() if isinstance(array, np.memmap)]
    assert mapped == list(on_disk)
    for name, array in ARRAYS.items():
        np.testing.assert_array_equal(stored.arrays[name], array)
        assert stored.arrays[name].dtype == array.dtype


def test_a_new_save_replaces_the_old_and_leaves_nothing(tmp_path: Path) -> None:
    save_small(tmp_path)
    (tmp_path / f"ids-{'0' * 16}.npy").write_bytes(b"left by a killed save")
    (tmp_path / f".manifest.json.{'0' * 16}.tmp").write_bytes(b"left by a killed save")
    (tmp_path / "notes.npy").write_bytes(b"not ours")
    old = load(tmp_path, "index")
    save(tmp_path, "index", {"ids": np.array([9])}, {})
    assert len(names(tmp_path)) == 3
    assert {"manifest.json", "notes.npy"} < names(tmp_path)
    np.testing.assert_array_equal(load(tmp_path, "index").arrays["ids"], [9])
    np.testing.assert_array_equal(old.arrays["ids"], ARRAYS["ids"])


@pytest.mark.parametrize(
    ("arrays", "params", "error", "text"),
    [
        ({"a b": np.zeros(1)}, {}, ValueError, "`arrays` must have names.*'a b'"),
        ({"../a": np.zeros(1)}, {}, ValueError, r"`arrays` must have names.*'\.\./a'"),
        ({"a": np.array([{}])}, {}, ValueError, "Object arrays"),
        ({}, {"f": print}, TypeError, "JSON"),
    ],
)
def test_what_cannot_be_saved_leaves_the_old(
    tmp_path: Path, arrays: Any, params: Any, error: type[Exception], text: str
) -> None:
    before = names(save_small(tmp_path))
    with pytest.raises(error, match=text):
        save(tmp_path, "index", {"ids": np.zeros(2), **arrays}, params)
    assert names(tmp_path) == before
    assert load(tmp_path, "index").params == PARAMS


# ---------------------------------------------------------------- damage


@pytest.mark.slow
def test_every_flipped_bit_is_refused(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    files = sorted(save_small(tmp_path).iterdir())
    for _ in range(200):
        path = files[rng.integers(len(files))]
        good = path.read_bytes()
        bad = bytearray(good)
        bad[rng.integers(len(bad))] ^= 1 << int(rng.integers(8))
        path.write_bytes(bad)
        with pytest.raises(StoreError):
            load(tmp_path, "index")
        path.write_bytes(good)
    assert load(tmp_path, "index").params == PARAMS


def test_every_truncation_and_addition_is_refused(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    for path in sorted(save_small(tmp_path).iterdir()):
        good = path.read_bytes()
        cut = [good[: int(size)] for size in rng.integers(0, len(good), 10)]
        for bad in [*cut, good[:-1], b"", good + b"\n"]:
            path.write_bytes(bad)
            with pytest.raises(StoreError):
                load(tmp_path, "index")
        path.unlink()
        with pytest.raises(StoreError):
            load(tmp_path, "index")
        path.write_bytes(good)
    assert load(tmp_path, "index").params == PARAMS


def test_an_altered_array_is_named(tmp_path: Path) -> None:
    path = next(save_small(tmp_path).glob("weights-*"))
    path.write_bytes(path.read_bytes()[:-1] + b"\x00")
    with pytest.raises(StoreError, match=r"weights-\w+.npy is damaged: its checksum differs"):
        load(tmp_path, "index")


def rewrite(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Write a manifest again after a change, with a right checksum."""
    path = folder / "manifest.json"
    manifest = json.loads(path.read_bytes())
    del manifest["checksum"]
    change(manifest)
    path.write_bytes(seal(manifest))


@pytest.mark.parametrize("version", [0, store.VERSION + 1, None])
def test_other_format_versions_are_refused(tmp_path: Path, version: int | None) -> None:
    rewrite(save_small(tmp_path), lambda manifest: manifest.update(version=version))
    with pytest.raises(StoreError, match=f"format version {store.VERSION}.*Got version {version}"):
        load(tmp_path, "index")


def test_other_formats_and_kinds_are_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"`folder` must hold a saved result. Got a index"):
        load(save_small(tmp_path), "result")
    rewrite(tmp_path, lambda manifest: manifest.update(format="other"))
    with pytest.raises(StoreError, match="Got another format"):
        load(tmp_path, "index")
    (tmp_path / "manifest.json").write_text("[1]")
    with pytest.raises(StoreError, match="Got another format"):
        load(tmp_path, "index")
    with pytest.raises(StoreError, match=r"`folder` must hold manifest.json. Got .*absent"):
        load(tmp_path / "absent", "index")


def test_the_kind_is_told_from_the_manifest_alone(tmp_path: Path) -> None:
    for path in save_small(tmp_path).glob("*.npy"):
        path.unlink()
    assert store.kind(tmp_path) == "index"
    rewrite(tmp_path, lambda manifest: manifest.update(version=0))
    with pytest.raises(StoreError, match="Got version 0"):
        store.kind(tmp_path)
    with pytest.raises(StoreError, match=r"`folder` must hold manifest.json"):
        store.kind(tmp_path / "absent")


def test_an_array_that_differs_from_its_entry_is_refused(tmp_path: Path) -> None:
    rewrite(save_small(tmp_path), lambda manifest: manifest["arrays"]["ids"].update(shape=[1, 2]))
    with pytest.raises(StoreError, match="is damaged: it holds int64 of shape"):
        load(tmp_path, "index")


def test_other_atoms_are_refused_with_what_differs(tmp_path: Path) -> None:
    stored = load(save_small(tmp_path), "index")
    check_fingerprint(stored, ArrayAtoms(ROWS))
    others = {
        "n = 3 instead of 4 in part 0": ArrayAtoms(ROWS[:3]),
        "d = 2 instead of 3 in part 0": ArrayAtoms(ROWS[:, :2]),
        "dtype = float32 instead of float64 in part 0": ArrayAtoms(ROWS.astype(np.float32)),
        "other rows in part 0": ArrayAtoms(ROWS + 1),
    }
    for text, atoms in others.items():
        with pytest.raises(StoreError, match=f"`atoms` must be the atoms that .* Got {text}"):
            check_fingerprint(stored, atoms)
    with pytest.raises(StoreError, match=r"Got 5 rows in 2 part\(s\) instead of 4 rows in 1"):
        check_fingerprint(stored, ConcatAtoms([ROWS[:2], ROWS[1:]]))


def test_the_same_rows_in_other_parts_are_the_same_atoms(tmp_path: Path) -> None:
    rows = np.random.default_rng(0).standard_normal((3000, 2))
    splits: list[Any] = [
        rows,
        ConcatAtoms([rows[:2], rows[2:]]),
        ConcatAtoms([rows[:1500], rows[1500:2000], rows[2000:]]),
    ]
    for saved in splits:
        save(tmp_path, "index", {}, {}, fingerprint(as_atoms(saved)))
        for given in splits:
            check_fingerprint(load(tmp_path, "index"), given)
        other = np.concatenate([rows[1:], rows[:1]])
        for given in (other, ConcatAtoms([other[:7], other[7:]])):
            with pytest.raises(StoreError, match=r"Got other rows in part 0"):
                check_fingerprint(load(tmp_path, "index"), given)
    mixed = ConcatAtoms([rows[:2].astype(np.float32), rows[2:]])
    with pytest.raises(StoreError, match=r"Got other rows in part 0"):
        check_fingerprint(load(tmp_path, "index"), mixed)
    with pytest.raises(StoreError, match=r"Got 2,999 rows in 1 part\(s\) instead of 3,000 rows in 3"):
        check_fingerprint(load(tmp_path, "index"), rows[1:])


def test_parts_of_two_types_are_the_rows_that_they_are_together(tmp_path: Path) -> None:
    rows = np.round(np.random.default_rng(0).standard_normal((3000, 2)), 1).astype(np.float32)
    parts = ConcatAtoms([rows[:2000].astype(np.float64), rows[2000:]])
    save(tmp_path, "index", {}, {}, fingerprint(as_atoms(rows.astype(np.float64))))
    check_fingerprint(load(tmp_path, "index"), parts)
    with pytest.raises(StoreError, match="dtype = float32 instead of float64"):
        check_fingerprint(load(tmp_path, "index"), rows)


# ---------------------------------------------------------------- failures while writing


def failing(call: Callable[..., Any], after: int) -> Callable[..., Any]:
    """Let `after` calls through, then fail as a full disk does."""
    left = iter(range(after))

    def wrapped(*args: Any) -> Any:
        if next(left, None) is None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return call(*args)

    return wrapped


@pytest.mark.parametrize("after", range(len(ARRAYS) + 2))
@pytest.mark.parametrize("name", ["fsync", "write"])
def test_a_full_disk_leaves_the_old(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, after: int
) -> None:
    save(tmp_path, "index", {"ids": np.array([5])}, {"old": True})
    before = names(tmp_path)
    owner: Any = {"fsync": os, "write": _draft.Hashing}[name]
    with monkeypatch.context() as patch, pytest.raises(OSError, match="No space left"):
        patch.setattr(owner, name, failing(getattr(owner, name), after))
        save_small(tmp_path)
    assert names(tmp_path) == before
    assert load(tmp_path, "index").params == {"old": True}
    save_small(tmp_path)
    assert load(tmp_path, "index").params == PARAMS


def test_a_failure_after_the_new_is_in_place_leaves_the_new(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(tmp_path, "index", {"ids": np.array([5])}, {"old": True})
    with monkeypatch.context() as patch, pytest.raises(OSError, match="No space left"):
        patch.setattr(os, "fsync", failing(os.fsync, len(ARRAYS) + 2))
        save_small(tmp_path)
    assert load(tmp_path, "index").params == PARAMS


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "out.json"
    write_atomically(path, lambda stream: print(stream.write(b"first"), end=""))
    assert path.read_bytes() == b"first"

    def broken(stream: BinaryIO) -> None:
        stream.write(b"half")
        raise OSError(errno.ENOSPC, "No space left")

    with pytest.raises(OSError, match="No space left"):
        write_atomically(path, broken)
    assert path.read_bytes() == b"first"
    assert names(tmp_path) == {"out.json"}


def kill_at(step: int) -> None:
    """Let this process be killed just before the step-th time that it changes the disk."""
    left = iter(range(step))

    def counted(call: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*args: Any, **options: Any) -> Any:
            if next(left, None) is None:
                os.kill(os.getpid(), signal.SIGKILL)
            return call(*args, **options)

        return wrapped

    places: tuple[tuple[Any, str], ...] = ((os, "open"), (os, "fsync"), (os, "replace"), (os, "unlink"))
    for owner, name in (*places, (_draft.Hashing, "write")):
        setattr(owner, name, counted(getattr(owner, name)))


KILLER = """
import os, sys
import numpy as np
from tests.test_store import kill_at
from wolfhound.store import load, save

def write(k):
    save(sys.argv[1], "index", {f"a{j}": np.full(20, k) for j in range(3)}, {"k": k})

write(0)
for step in range(1000):
    child = os.fork()
    if not child:
        kill_at(step)
        write(step + 1)
        os._exit(0)
    killed = os.WIFSIGNALED(os.waitpid(child, 0)[1])
    stored = load(sys.argv[1], "index")
    whole = all((array == stored.params["k"]).all() for array in stored.arrays.values())
    print(int(killed), int(stored.params["k"] == step + 1), int(whole))
    if not killed:
        break
"""


def run_script(script: str, *arguments: object) -> list[list[int]]:
    """Run a script in a process of its own; return the numbers that it prints."""
    run = subprocess.run(
        [sys.executable, "-c", script, *map(str, arguments)],
        cwd=Path(__file__).parents[1],
        env=os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.stderr == ""
    return [[int(number) for number in line.split()] for line in run.stdout.splitlines()]


@pytest.mark.slow
def test_a_save_that_is_killed_at_any_step_leaves_the_old_or_the_new(tmp_path: Path) -> None:
    *during, last = run_script(KILLER, tmp_path / "saved")
    killed, new, whole = zip(*during, strict=True)
    assert len(during) > 12
    assert set(killed) == {1}
    assert set(whole) == {1}
    assert list(new) == sorted(new)
    assert set(new) == {0, 1}  # some kills were before the new one was in place, some after
    assert last == [0, 1, 1]
    assert len(names(tmp_path / "saved")) == 4  # what the killed saves left is gone


def test_a_first_save_that_is_killed_does_not_stand_in_the_way(tmp_path: Path) -> None:
    script = "import sys; from tests.test_store import *; kill_at(9); save_small(Path(sys.argv[1]))"
    folder = tmp_path / "saved"
    run = subprocess.run([sys.executable, "-c", script, folder], cwd=Path(__file__).parents[1], check=False)
    assert run.returncode == -signal.SIGKILL
    assert len(names(folder)) > 1
    with pytest.raises(StoreError, match=r"`folder` must hold manifest.json"):
        load(folder, "index")
    save_small(folder)
    assert len(names(folder)) == 1 + len(ARRAYS)


# ---------------------------------------------------------------- others in the folder


def test_files_of_others_are_never_deleted(tmp_path: Path) -> None:
    save_small(tmp_path)
    mine = {f"rows-{'0' * 16}.npy", "notes-0123456789abcdef.npy", ".manifest.json.swp"}
    for name in mine:
        (tmp_path / name).write_bytes(b"an input of somebody")
    save_small(tmp_path)
    assert names(tmp_path) > mine


@pytest.mark.parametrize("other", ["index", "thesis", "rows"])
def test_other_folders_are_not_written_to(tmp_path: Path, other: str) -> None:
    makers: dict[str, Callable[[], object]] = {
        "index": lambda: save_small(tmp_path),
        "thesis": lambda: (tmp_path / "thesis.tex").write_bytes(b"all of it"),
        "rows": lambda: (tmp_path / f"rows-{'0' * 16}.npy").write_bytes(b"all of it"),
    }
    makers[other]()
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(StoreError, match=r"`folder` must be new or empty, or hold a saved result\. Got "):
        save(tmp_path, "result", {"ids": np.array([1])}, {})
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    with pytest.raises(StoreError, match=r"`folder` must be a folder\. Got a file"):
        save(next(tmp_path.iterdir()), "result", {}, {})


@pytest.mark.parametrize("folder", [None, "", 3, b"saved", "a\0b"])
def test_what_is_no_path_is_refused(folder: Any) -> None:
    with pytest.raises((TypeError, ValueError), match=r"`folder` must be a path\. Got "):
        save(folder, "index", {}, {})
    with pytest.raises((TypeError, ValueError), match=r"`folder` must be a path\. Got "):
        load(folder, "index")


WRITER = """
import sys, numpy as np
from wolfhound.store import load, save
for k in range(int(sys.argv[2]), int(sys.argv[2]) + 60):
    save(sys.argv[1], "index", {f"a{j}": np.full(2000, k) for j in range(4)}, {"k": k})
    load(sys.argv[1], "index")
"""


@pytest.mark.slow
def test_processes_that_save_at_the_same_time_leave_a_whole_folder(tmp_path: Path) -> None:
    folder = save_small(tmp_path / "saved")
    command = [sys.executable, "-c", WRITER, str(folder)]
    writers = [subprocess.Popen([*command, str(first)]) for first in (1000, 2000, 3000)]
    seen = []
    while any(writer.poll() is None for writer in writers):
        stored = load(folder, "index")
        seen.append(stored.params.get("k"))
        arrays = stored.arrays if seen[-1] else {}
        assert all((array == seen[-1]).all() for array in arrays.values())
    assert [writer.returncode for writer in writers] == [0, 0, 0]
    assert load(folder, "index").params["k"] in (1059, 2059, 3059)
    assert len(names(folder)) == 5
    assert len(set(seen)) > 2  # it was read while it was written


def test_without_locks_saves_at_the_same_time_stay_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    save_small(tmp_path)
    (tmp_path / f".manifest.json.{'0' * 16}.tmp").touch()  # another save is under way
    (tmp_path / f"ids-{'0' * 16}.npy").touch()
    monkeypatch.setattr("fcntl.flock", none)
    save(tmp_path, "index", {}, {})
    assert names(tmp_path) == {"manifest.json", f".manifest.json.{'0' * 16}.tmp", f"ids-{'0' * 16}.npy"}


@pytest.mark.parametrize(
    ("error", "name"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), "run.html"),
        (OSError(errno.EIO, "Input/output error", "atoms.npy"), "atoms.npy"),
    ],
)
def test_an_error_of_writing_names_the_file(tmp_path: Path, error: OSError, name: str) -> None:
    def fail(stream: BinaryIO) -> None:
        raise error

    with pytest.raises(OSError) as raised:
        write_atomically(tmp_path / "run.html", fail)
    assert Path(raised.value.filename).name == name
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_takes_no_file_is_named_by_the_file_that_was_wanted(tmp_path: Path) -> None:
    with pytest.raises(OSError) as raised:
        write_atomically(tmp_path / "none" / "run.html", lambda stream: None)
    assert str(raised.value).endswith(f"'{tmp_path / 'none' / 'run.html'}'")


# ---------------------------------------------------------------- block by block


def test_blocks_make_the_array_that_was_promised(tmp_path: Path) -> None:
    with compose(tmp_path / "whole", "index") as draft:
        with draft.open("rows", np.float32, (3, 2)) as out:
            for row in range(3):
                out.write(np.full((1, 2), row))
        draft.params = {"k": 1}
    stored = load(tmp_path / "whole", "index")
    np.testing.assert_array_equal(stored.arrays["rows"], [[0, 0], [1, 1], [2, 2]])
    assert (stored.arrays["rows"].dtype.name, stored.params) == ("float32", {"k": 1})


def test_too_few_blocks_leave_nothing(tmp_path: Path) -> None:
    with (
        pytest.raises(ValueError, match=r"`rows` must be 6 values\. Got 2"),
        compose(tmp_path / "part", "index") as draft,
        draft.open("rows", np.float32, (3, 2)) as out,
    ):
        out.write(np.zeros((1, 2)))
    assert list(tmp_path.iterdir()) == []


def test_an_array_may_be_begun_again(tmp_path: Path) -> None:
    with compose(tmp_path, "index") as draft:
        for value in (1, 2):
            with draft.open("ids", np.int64, (1,)) as out:
                out.write(np.array([value]))
    assert load(tmp_path, "index").arrays["ids"].tolist() == [2]
