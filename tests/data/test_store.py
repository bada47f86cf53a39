"""Files that are complete or refused, whatever happens to them and however they were forged."""

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
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

from wolfhound.core.atomic import open_atomically, write_file
from wolfhound.data import store
from wolfhound.data.atoms import ArrayAtoms, ConcatAtoms, as_atoms, fingerprint
from wolfhound.data.store import StoreError, check_fingerprint, compose, load, save

ROWS = np.arange(12.0).reshape(4, 3)
ARRAYS = {
    "ids": np.array([3, 1]),
    "weights": np.array([0.25, 0.75]),
    "codes": np.asfortranarray(np.arange(6, dtype=np.int8).reshape(2, 3)),
    "kind": np.array(["start", "päss"]),
    "days": np.array(["2024-01-01", "2024-01-02"], "datetime64[D]"),
    "big": np.array([1, 2], ">i4"),
    "none": np.empty((0, 3), np.float32),
    "number": np.array(7.5),
    "truth": np.array([True, False]),
}
PARAMS: dict[str, Any] = {"c": 0.1, "names": ["é", None], "nested": {"on": True}, "limit": float("inf")}


def save_small(path: Path) -> Path:
    save(path, "index", ARRAYS, PARAMS, fingerprint(ArrayAtoms(ROWS)))
    return store.place(path)


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_what_is_saved_is_loaded(tmp_path: Path) -> None:
    file = save_small(tmp_path / "new" / "saved")
    assert file.name == "saved.safetensors"
    for path in (file, tmp_path / "new" / "saved"):
        stored = load(path, "index")
        assert stored.params == PARAMS
        assert stored.path == file
        assert stored.fingerprint == fingerprint(ArrayAtoms(ROWS))
        assert stored.arrays.keys() == ARRAYS.keys()
        for name, array in ARRAYS.items():
            np.testing.assert_array_equal(stored.arrays[name], array)
            assert stored.arrays[name].dtype == array.dtype
            assert stored.arrays[name].flags.writeable


def test_others_can_read_the_arrays(tmp_path: Path) -> None:
    found = load_file(save_small(tmp_path / "saved"))
    for name in ("ids", "weights", "codes", "none", "number", "truth"):
        np.testing.assert_array_equal(found[name], ARRAYS[name])
        assert found[name].dtype == ARRAYS[name].dtype


def test_arrays_on_disk_are_found_not_loaded(tmp_path: Path) -> None:
    file = save_small(tmp_path / "saved")
    stored = load(file, "index", on_disk=("ids", "weights"))
    assert "ids" not in stored.arrays
    place = stored.find("ids", np.int64, (2,))
    with open(file, "rb") as stream:
        np.testing.assert_array_equal(place.values(stream), ARRAYS["ids"])
    for dtype, shape in ((np.int32, (2,)), (np.int64, (3,)), (np.int64, (None, None))):
        with pytest.raises(StoreError, match="is damaged: 'ids' must be"):
            stored.find("ids", dtype, shape)
    with pytest.raises(StoreError, match="there is no array 'codes'"):
        stored.find("codes", np.int8, (2, 3))


def test_a_new_save_replaces_the_old_and_leaves_nothing(tmp_path: Path) -> None:
    file = save_small(tmp_path / "saved")
    (tmp_path / f".{file.name}.{'0' * 16}.tmp").write_bytes(b"left by a killed save")
    (tmp_path / f".other{file.name}.{'0' * 16}.tmp").write_bytes(b"not ours")
    (tmp_path / "notes.npy").write_bytes(b"not ours")
    old = load(file, "index")
    save(tmp_path / "saved", "index", {"ids": np.array([9])}, {})
    assert names(tmp_path) == {file.name, "notes.npy", f".other{file.name}.{'0' * 16}.tmp"}
    np.testing.assert_array_equal(load(file, "index").arrays["ids"], [9])
    np.testing.assert_array_equal(old.arrays["ids"], ARRAYS["ids"])


def test_a_link_stays_and_what_it_points_to_is_replaced(tmp_path: Path) -> None:
    file = save_small(tmp_path / "saved")
    link = tmp_path / "link.safetensors"
    link.symlink_to(file)
    save(link, "index", {}, {"new": True})
    assert link.is_symlink()
    assert load(file, "index").params == load(link, "index").params == {"new": True}


@pytest.mark.parametrize(
    ("arrays", "params", "error", "text"),
    [
        ({"a b": np.zeros(1)}, {}, ValueError, "`arrays` must be named by letters.*'a b'"),
        ({"../a": np.zeros(1)}, {}, ValueError, r"`arrays` must be named by letters.*'\.\./a'"),
        ({"a": np.array([{}])}, {}, ValueError, "`arrays` must be of numbers or text. Got object"),
        ({}, {"f": print}, TypeError, "JSON"),
    ],
)
def test_what_cannot_be_saved_leaves_the_old(
    tmp_path: Path, arrays: Any, params: Any, error: type[Exception], text: str
) -> None:
    file = save_small(tmp_path / "saved")
    before = file.read_bytes()
    with pytest.raises(error, match=text):
        save(file, "index", {"ids": np.zeros(2), **arrays}, params)
    assert names(tmp_path) == {file.name}
    assert file.read_bytes() == before


# ---------------------------------------------------------------- damage


@pytest.mark.slow
def test_every_flipped_bit_is_refused(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    file = save_small(tmp_path / "saved")
    good = file.read_bytes()
    for _ in range(300):
        bad = bytearray(good)
        bad[rng.integers(len(bad))] ^= 1 << int(rng.integers(8))
        file.write_bytes(bad)
        with pytest.raises(StoreError):
            load(file, "index")
        with pytest.raises(StoreError):
            load(file, "index", on_disk=("ids", "weights", "codes"))
    file.write_bytes(good)
    assert load(file, "index").params == PARAMS


def test_every_truncation_and_addition_is_refused(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    file = save_small(tmp_path / "saved")
    good = file.read_bytes()
    cut = [good[: int(size)] for size in rng.integers(0, len(good), 30)]
    for bad in [*cut, good[:-1], b"", good + b"\n", good[:8]]:
        file.write_bytes(bad)
        with pytest.raises(StoreError):
            load(file, "index")
    file.unlink()
    with pytest.raises(StoreError, match=r"`path` must be a file that can be read. Got .*No such file"):
        load(file, "index")


def test_an_altered_array_is_named(tmp_path: Path) -> None:
    file = save_small(tmp_path / "saved")
    data = file.read_bytes()
    at = data.index(ARRAYS["weights"].tobytes())
    file.write_bytes(data[:at] + b"\x01" + data[at + 1 :])
    with pytest.raises(StoreError, match=r"saved.safetensors is damaged: the checksum of 'weights' differs"):
        load(file, "index")


def split(path: Path) -> tuple[dict[str, Any], dict[str, Any], bytes]:
    """Manifest and entries of a file, and its arrays."""
    data = store.find(path).read_bytes()
    end = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:end])
    return json.loads(header.pop("__metadata__")["wolfhound"]), header, data[end:]


def join(path: Path, manifest: Any, entries: dict[str, Any], body: bytes) -> None:
    """Write a file of these, with right checksums of the header, however wrong they are."""
    told = {"wolfhound": json.dumps(manifest, sort_keys=True)}
    told["seal"] = store._hash(json.dumps([entries, told], sort_keys=True).encode()).hexdigest()
    text = json.dumps({**entries, "__metadata__": told}, sort_keys=True).encode()
    store.find(path).write_bytes(len(text).to_bytes(8, "little") + text + body)


def rewrite(path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Write a manifest again after a change, with a right checksum."""
    manifest, entries, body = split(path)
    change(manifest)
    join(path, manifest, entries, body)


@pytest.mark.parametrize("version", [0, store.VERSION + 1, None])
def test_other_format_versions_are_refused(tmp_path: Path, version: int | None) -> None:
    file = save_small(tmp_path / "saved")
    rewrite(file, lambda manifest: manifest.update(version=version))
    with pytest.raises(StoreError, match=f"format version {store.VERSION}.*Got version {version}"):
        load(file, "index")
    with pytest.raises(StoreError, match=f"Got version {version}"):
        store.describe(file)


def test_other_formats_and_kinds_are_refused(tmp_path: Path) -> None:
    file = save_small(tmp_path / "saved")
    with pytest.raises(StoreError, match=r"`path` must hold a saved result. Got a index"):
        load(file, "result")
    rewrite(file, lambda manifest: manifest.update(format="other"))
    with pytest.raises(StoreError, match="Got another format"):
        load(file, "index")
    np.save(tmp_path / "rows.npy", ROWS)
    os.replace(tmp_path / "rows.npy", file)
    with pytest.raises(StoreError, match=r"`path` must be a file that wolfhound saved\. Got another format"):
        load(file, "index")
    with pytest.raises(StoreError, match=r"run.safetensors: No such file"):
        load(tmp_path, "index")


def test_what_a_file_holds_is_told_from_its_header_alone(tmp_path: Path) -> None:
    file = save_small(tmp_path / "saved")
    manifest, entries, body = split(file)
    join(file, manifest, entries, bytes(len(body)))
    assert store.describe(file) == ("index", PARAMS)


# ---------------------------------------------------------------- forgery


HEADERS = [b"[" * 100_000, b"9" * 100_000, b"NaN", b'{"a":' * 100_000, b"[1]", b"{}", b'{"__metadata__": 3}']


@pytest.mark.parametrize("text", HEADERS)
def test_headers_that_cannot_be_parsed_are_refused(tmp_path: Path, text: bytes) -> None:
    file = tmp_path / "saved.safetensors"
    file.write_bytes(len(text).to_bytes(8, "little") + text)
    with pytest.raises(StoreError, match="Got another format"):
        load(file, "index")


WRONG: dict[str, list[Any]] = {
    "kind": [None, 3, ["index"]],
    "params": [None, 3, "x", [3]],
    "checksums": [None, 3, [3], {}, {"ids": 3}],
    "types": [
        None,
        [3],
        {"ids": "<U1"},
        {"kind": "<U4"},
        {"kind": "|O8"},
        {"absent": "<U1"},
        {"kind": "V20"},
    ],
    "fingerprint": [None, 3, {"a": 3}, [3], [[1, 2, 3, 4]], [[10**30, 1, "a", "b"]], [[0, 1, "a", "b"]]],
}


@pytest.mark.parametrize(("key", "value"), [(key, value) for key in WRONG for value in WRONG[key]])
def test_entries_of_the_wrong_kind_are_refused(tmp_path: Path, key: str, value: Any) -> None:
    file = save_small(tmp_path / "saved")
    rewrite(file, lambda manifest: manifest.update({key: value}))
    with pytest.raises(StoreError, match="is damaged: an entry is missing, or of the wrong kind or size"):
        load(file, "index")


@pytest.mark.parametrize("key", WRONG)
def test_entries_that_are_missing_are_refused(tmp_path: Path, key: str) -> None:
    file = save_small(tmp_path / "saved")
    rewrite(file, lambda manifest: manifest.pop(key))
    with pytest.raises(StoreError, match="is damaged: an entry is missing, or of the wrong kind or size"):
        load(file, "index")


CLAIMS: list[dict[str, Any]] = [
    {"shape": [10**13]},
    {"shape": [-1]},
    {"shape": [10**30]},
    {"shape": [1] * 99 + [2]},
    {"shape": [2.0]},
    {"shape": None},
    {"dtype": "F4"},
    {"dtype": "I32"},
    {"dtype": ["I64"]},
    {"data_offsets": [0, 10**13]},
    {"data_offsets": [-8, 8]},
    {"data_offsets": [8, 24]},
    {"data_offsets": [0]},
    {"data_offsets": "ab"},
]


@pytest.mark.parametrize("claim", CLAIMS, ids=str)
def test_arrays_that_claim_more_than_they_hold_are_refused(tmp_path: Path, claim: dict[str, Any]) -> None:
    file = save_small(tmp_path / "saved")
    manifest, entries, body = split(file)
    entries["ids"].update(claim)
    join(file, manifest, entries, body)
    with pytest.raises(StoreError, match="is damaged: an entry is missing, or of the wrong kind or size"):
        load(file, "index")


@pytest.mark.parametrize("kind", ["pipe", "folder", "device"])
def test_files_that_are_not_plain_are_refused(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "saved.safetensors"
    makers: dict[str, Callable[[], object]] = {
        "device": lambda: path.symlink_to("/dev/zero"),
        "pipe": lambda: os.mkfifo(path),
        "folder": path.mkdir,
    }
    makers[kind]()
    with pytest.raises(StoreError, match=path.name):
        load(path, "index")
    with pytest.raises(StoreError, match="`path` must be a new file, or one that holds a saved index"):
        save(path, "index", {}, {})


def test_arrays_are_asked_for_by_type_shape_and_range(tmp_path: Path) -> None:
    stored = load(save_small(tmp_path / "saved"), "index")
    np.testing.assert_array_equal(stored.array("ids", np.int64, (2,), low=1, high=3), [3, 1])
    assert stored.array("none", np.float32, (0, None)).shape == (0, 3)
    assert stored.array("kind", "U", (None,)).tolist() == ["start", "päss"]
    asked: list[tuple[str, Any, tuple[int | None, ...], dict[str, float]]] = [
        ("absent", np.int64, (2,), {}),
        ("ids", np.int32, (2,), {}),
        ("big", np.int32, (2,), {}),
        ("ids", np.int64, (3,), {}),
        ("ids", np.int64, (None, None), {}),
        ("ids", np.int64, (2,), {"low": 2}),
        ("ids", np.int64, (2,), {"high": 2}),
    ]
    for name, dtype, shape, options in asked:
        with pytest.raises(StoreError, match=f"is damaged: .*'{name}'"):
            stored.array(name, dtype, shape, **options)


def test_whatever_a_wrong_value_leads_to_is_one_error(tmp_path: Path) -> None:
    stored = load(save_small(tmp_path / "saved"), "index")
    with pytest.raises(StoreError, match=r"is damaged: .*KeyError: 'absent'"), stored.reading():
        stored.params["absent"]
    with pytest.raises(KeyError), stored.reading(KeyError):
        stored.params["absent"]


# ---------------------------------------------------------------- of which atoms


def test_other_atoms_are_refused_with_what_differs(tmp_path: Path) -> None:
    stored = load(save_small(tmp_path / "saved"), "index")
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
    rows, path = np.random.default_rng(0).standard_normal((3000, 2)), tmp_path / "saved"
    splits: list[Any] = [
        rows,
        ConcatAtoms([rows[:2], rows[2:]]),
        ConcatAtoms([rows[:1500], rows[1500:2000], rows[2000:]]),
    ]
    for saved in splits:
        save(path, "index", {}, {}, fingerprint(as_atoms(saved)))
        for given in splits:
            check_fingerprint(load(path, "index"), given)
        other = np.concatenate([rows[1:], rows[:1]])
        for given in (other, ConcatAtoms([other[:7], other[7:]])):
            with pytest.raises(StoreError, match=r"Got other rows in part 0"):
                check_fingerprint(load(path, "index"), given)
    mixed = ConcatAtoms([rows[:2].astype(np.float32), rows[2:]])
    with pytest.raises(StoreError, match=r"Got other rows in part 0"):
        check_fingerprint(load(path, "index"), mixed)
    with pytest.raises(StoreError, match=r"Got 2,999 rows in 1 part\(s\) instead of 3,000 rows in 3"):
        check_fingerprint(load(path, "index"), rows[1:])


def test_parts_of_two_types_are_the_rows_that_they_are_together(tmp_path: Path) -> None:
    rows = np.round(np.random.default_rng(0).standard_normal((3000, 2)), 1).astype(np.float32)
    parts, path = ConcatAtoms([rows[:2000].astype(np.float64), rows[2000:]]), tmp_path / "saved"
    save(path, "index", {}, {}, fingerprint(as_atoms(rows.astype(np.float64))))
    check_fingerprint(load(path, "index"), parts)
    with pytest.raises(StoreError, match="dtype = float32 instead of float64"):
        check_fingerprint(load(path, "index"), rows)


# ---------------------------------------------------------------- failures while writing


def failing(call: Callable[..., Any], after: int) -> Callable[..., Any]:
    """Let `after` calls through, then fail as a full disk does."""
    left = iter(range(after))

    def wrapped(*args: Any) -> Any:
        if next(left, None) is None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return call(*args)

    return wrapped


@pytest.mark.parametrize(
    ("owner", "name", "after"),
    [(os, "fsync", 0), *[(store.ArrayWriter, "write", after) for after in range(len(ARRAYS))]],
)
def test_a_full_disk_leaves_the_old(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, after: int
) -> None:
    save(tmp_path / "saved", "index", {"ids": np.array([5])}, {"old": True})
    with monkeypatch.context() as patch, pytest.raises(OSError, match=r"No space left.*saved.safetensors"):
        patch.setattr(owner, name, failing(getattr(owner, name), after))
        save_small(tmp_path / "saved")
    assert names(tmp_path) == {"saved.safetensors"}
    assert load(tmp_path / "saved", "index").params == {"old": True}
    save_small(tmp_path / "saved")
    assert load(tmp_path / "saved", "index").params == PARAMS


def test_a_failure_after_the_new_is_in_place_leaves_the_new(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(tmp_path / "saved", "index", {"ids": np.array([5])}, {"old": True})
    with monkeypatch.context() as patch, pytest.raises(OSError, match="No space left"):
        patch.setattr(os, "fsync", failing(os.fsync, 1))
        save_small(tmp_path / "saved")
    assert load(tmp_path / "saved", "index").params == PARAMS


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "out.json"
    write_file(path, b"first")
    assert path.read_bytes() == b"first"
    with pytest.raises(OSError, match="No space left"), open_atomically(path) as stream:
        stream.write(b"half")
        raise OSError(errno.ENOSPC, "No space left")
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
    for owner, name in (*places, (store.ArrayWriter, "write")):
        setattr(owner, name, counted(getattr(owner, name)))


KILLER = """
import os, sys
import numpy as np
from tests.data.test_store import kill_at
from wolfhound.data.store import load, save

def write(k):
    save(sys.argv[1], "index", {f"a{j}": np.full(20, k) for j in range(8)}, {"k": k})

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
        cwd=Path(__file__).parents[2],
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
    assert len(during) > 10
    assert set(killed) == {1}
    assert set(whole) == {1}
    assert list(new) == sorted(new)
    assert set(new) == {0, 1}  # some kills were before the new one was in place, some after
    assert last == [0, 1, 1]
    assert names(tmp_path) == {"saved.safetensors"}  # what the killed saves left is gone


def test_a_first_save_that_is_killed_does_not_stand_in_the_way(tmp_path: Path) -> None:
    script = "import sys; from tests.data.test_store import *; kill_at(5); save_small(Path(sys.argv[1]))"
    command = [sys.executable, "-c", script, str(tmp_path / "saved")]
    run = subprocess.run(command, cwd=Path(__file__).parents[2], check=False)
    assert run.returncode == -signal.SIGKILL
    assert len(names(tmp_path)) == 1
    with pytest.raises(StoreError, match=r"No such file"):
        load(tmp_path / "saved", "index")
    save_small(tmp_path / "saved")
    assert names(tmp_path) == {"saved.safetensors"}


# ---------------------------------------------------------------- what is there already


@pytest.mark.parametrize("other", ["index", "thesis", "rows"])
def test_other_files_are_not_written_over(tmp_path: Path, other: str) -> None:
    path = tmp_path / "saved.safetensors"
    makers: dict[str, Callable[[], object]] = {
        "index": lambda: save_small(path),
        "thesis": lambda: path.write_bytes(b"all of it"),
        "rows": lambda: np.save(tmp_path / "rows.npy", ROWS),
    }
    makers[other]()
    before = {each.name: each.read_bytes() for each in tmp_path.iterdir()}
    given = tmp_path if other == "rows" else path
    with pytest.raises(
        StoreError, match=r"`path` must be a new file, or one that holds a saved result\. Got "
    ):
        save(given, "result", {"ids": np.array([1])}, {})
    assert {each.name: each.read_bytes() for each in tmp_path.iterdir()} == before


@pytest.mark.parametrize("path", [None, "", 3, b"saved", "a\0b"])
def test_what_is_no_path_is_refused(path: Any) -> None:
    with pytest.raises((TypeError, ValueError), match=r"`path` must be a path\. Got "):
        save(path, "index", {}, {})
    with pytest.raises((TypeError, ValueError), match=r"`path` must be a path\. Got "):
        load(path, "index")


WRITER = """
import sys, numpy as np
from wolfhound.data.store import load, save
for k in range(int(sys.argv[2]), int(sys.argv[2]) + 60):
    save(sys.argv[1], "index", {f"a{j}": np.full(2000, k) for j in range(4)}, {"k": k})
    load(sys.argv[1], "index")
"""


@pytest.mark.slow
def test_processes_that_save_at_the_same_time_leave_a_whole_file(tmp_path: Path) -> None:
    file = save_small(tmp_path / "saved")
    command = [sys.executable, "-c", WRITER, str(file)]
    writers = [subprocess.Popen([*command, str(first)]) for first in (1000, 2000, 3000)]
    seen = []
    while any(writer.poll() is None for writer in writers):
        stored = load(file, "index")
        seen.append(stored.params.get("k"))
        arrays = stored.arrays if seen[-1] else {}
        assert all((array == seen[-1]).all() for array in arrays.values())
    assert [writer.returncode for writer in writers] == [0, 0, 0]
    assert load(file, "index").params["k"] in (1059, 2059, 3059)
    assert names(tmp_path) == {file.name}
    assert len(set(seen)) > 2  # it was read while it was written


def test_without_locks_what_others_write_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    file = save_small(tmp_path / "saved")
    aside = tmp_path / f".{file.name}.{'0' * 16}.tmp"  # another save is under way
    aside.touch()
    monkeypatch.setattr("fcntl.flock", none)
    save(file, "index", {}, {})
    assert names(tmp_path) == {file.name, aside.name}


@pytest.mark.parametrize(
    ("error", "name"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), "run.html"),
        (OSError(errno.EIO, "Input/output error", "atoms.npy"), "atoms.npy"),
    ],
)
def test_an_error_of_writing_names_the_file(tmp_path: Path, error: OSError, name: str) -> None:
    with pytest.raises(OSError) as raised, open_atomically(tmp_path / "run.html"):
        raise error
    assert Path(raised.value.filename).name == name
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_takes_no_file_is_named_by_the_file_that_was_wanted(tmp_path: Path) -> None:
    with pytest.raises(OSError) as raised:
        write_file(tmp_path / "none" / "run.html", b"")
    assert str(raised.value).endswith(f"'{tmp_path / 'none' / 'run.html'}'")


# ---------------------------------------------------------------- block by block


def test_blocks_make_the_arrays_that_were_promised(tmp_path: Path) -> None:
    layout = {"rows": (np.float32, (3, 2)), "ids": (np.int64, (3,))}
    with compose(tmp_path / "whole", "index", layout) as draft:
        rows, ids = draft.open("rows"), draft.open("ids")
        for row in range(3):
            rows.write(np.full((1, 2), row))
            ids.write(np.array([row]))
        draft.params = {"k": 1}
    stored = load(tmp_path / "whole", "index")
    np.testing.assert_array_equal(stored.arrays["rows"], [[0, 0], [1, 1], [2, 2]])
    np.testing.assert_array_equal(stored.arrays["ids"], [0, 1, 2])
    assert (stored.arrays["rows"].dtype.name, stored.params) == ("float32", {"k": 1})
    assert load_file(tmp_path / "whole.safetensors")["ids"].tolist() == [0, 1, 2]


@pytest.mark.parametrize("wrong", ["too few", "none", "too many settings"])
def test_what_was_not_promised_leaves_nothing(tmp_path: Path, wrong: str) -> None:
    with (
        pytest.raises(ValueError, match=r"`rows` must be 24 bytes\. Got [08]\.|`params` must be of"),
        compose(tmp_path / "part", "index", {"rows": (np.float32, (3, 2))}) as draft,
    ):
        many = {"too few": 1, "none": 0, "too many settings": 3}[wrong]
        draft.open("rows").write(np.zeros((many, 2)))
        draft.params = {"text": "x" * 100_000}
    assert list(tmp_path.iterdir()) == []


def test_an_array_may_be_begun_again(tmp_path: Path) -> None:
    with compose(tmp_path / "saved", "index", {"ids": (np.int64, (1,))}) as draft:
        for value in (1, 2):
            draft.open("ids").write(np.array([value]))
    assert load(tmp_path / "saved", "index").arrays["ids"].tolist() == [2]
