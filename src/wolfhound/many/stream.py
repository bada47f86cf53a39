"""A run that is written as it goes: a folder with one file per group of targets, each whole or not there.

`out` holds a file that says what is run, and files ``targets-0000000000.safetensors`` named
for the first target of each. What is there is complete, so the folder can be read at any
time, and a run that was cut short goes on with the groups that are missing. Answers are
joined in files without a name beside them, never in memory.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import contextlib
import errno
import hashlib
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from os import PathLike
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from wolfhound import store
from wolfhound._files import FileRows
from wolfhound.atoms import Fingerprint, as_atoms
from wolfhound.codec import WEIGHTS
from wolfhound.core import AtomsLike, Status
from wolfhound.many.batch import TargetBatch, make_unsolved
from wolfhound.many.result import RUN, STATUSES, ManyResult
from wolfhound.validate import count, path, require

GROUP = "many targets"

_DIGESTED = 1 << 24


class Stream(NamedTuple):
    """A folder that grows."""

    folder: Path
    fingerprint: Fingerprint

    def place(self, start: int) -> Path:
        """Where the group that begins at a target is kept."""
        return self.folder / f"targets-{start:010d}{store.ENDING}"

    def write(self, start: int, batch: TargetBatch) -> None:
        """Keep the answers of a group; on an OSError, as of a full disk, those written before stay."""
        if not (self.folder / store.RUN_FILE).exists():
            text = "`out` must stay where it is during the run. It is gone"
            raise FileNotFoundError(errno.ENOENT, text, str(self.folder))
        params = {"start": start, "count": len(batch.value)}
        try:
            store.save(self.place(start), GROUP, batch._asdict(), params, self.fingerprint)
        except OSError as error:
            text = f"`out` must be writable, with room: {error.strerror}. What is finished stays"
            raise OSError(error.errno, f"{text}, and the same call goes on", str(self.folder)) from None

    def read(self, start: int, size: int) -> TargetBatch | None:
        """Answers of a group of so many targets; None if it is not there or was cut off."""
        file = self.place(start)
        if not file.exists():
            return None
        stored = store.load(file, GROUP)
        if stored.fingerprint != self.fingerprint:
            raise store.StoreError(f"{file} must be of the run that it lies in. Got one of other atoms.")
        with stored.reading():
            m = count(stored.params["count"], "count")
            require(m == size, "count", f"{size} targets", m)
            return _read_batch(stored, m)


def _read_batch(stored: store.Stored, m: int) -> TargetBatch:
    n = stored.shape[0]
    ends = stored.array("indptr", np.int64, (m + 1,), low=0)
    size = int(ends[-1])
    require(ends[0] == 0 and bool((np.diff(ends) >= 0).all()), "indptr", "rising from 0", "not")
    columns = {name: stored.array(name, np.float64, (m,)) for name in ("value", "lower")}
    columns |= {name: stored.array(name, np.float64, (m,), low=0.0) for name in ("goal", "price")}
    batch = TargetBatch(
        indptr=ends,
        ids=stored.array("ids", np.int64, (size,), low=0, high=n - 1),
        weights=stored.array("weights", np.float64, (size,), low=0.0, high=1.0 + WEIGHTS),
        codes=stored.array("codes", np.int8, (m,), low=0, high=len(STATUSES) - 1),
        passes=stored.array("passes", np.int64, (m,), low=0),
        **columns,
    )
    require(bool((batch.lower <= batch.value).all()), "lower", "<= value", "more")
    return batch


def digest(*arrays: NDArray[Any] | FileRows) -> str:
    """What tells arrays apart, read block by block."""
    found = hashlib.blake2b(digest_size=16)
    for array in arrays:
        found.update(f"{array.dtype} {array.shape}".encode())
        step = max(1, _DIGESTED // max(array[:1].nbytes, 1))
        for start in range(0, len(array), step):
            found.update(np.ascontiguousarray(array[start : start + step]).tobytes())
    return found.hexdigest()


def check_out(out: str | PathLike[str] | None) -> None:
    """Raise StoreError if nothing of a run can be written there: before anything is read."""
    if out is None:
        return
    root = path(out, "out")
    require(root.is_dir() or not root.exists(), "out", "a folder", f"a file, {root}")
    # What a first write left that was killed does not count.
    if root.is_dir() and any(not each.name.startswith(f".{store.RUN_FILE}.") for each in root.iterdir()):
        rule = "`out` must be new or empty, or hold a run of many targets."
        try:
            held, _ = store.describe(root)
        except store.StoreError as error:
            raise store.StoreError(f"{rule} Got {root}: {error}") from None
        if held != RUN:
            raise store.StoreError(f"{rule} Got a {held} in {root}.")


def open_stream(folder: str | PathLike[str], params: Mapping[str, Any], source: Fingerprint) -> Stream:
    """Begin a run in a new or empty folder, or go on with one of the same settings and atoms.

    A folder that holds anything else is a StoreError that names what differs.
    """
    check_out(folder)
    root = path(folder, "out")
    if not (root / store.RUN_FILE).exists():
        store.save(root / store.RUN_FILE, RUN, {}, params, source)
        return Stream(root, source)
    stored = store.load(root, RUN)
    rule = "`out` must be new, or hold a run with the same targets, settings and atoms."
    for name, value in params.items():
        held = stored.params.get(name)
        if held != value:
            got = f"other {name}" if name in ("targets", "exclude") else f"{name} = {held}"
            raise store.StoreError(f"{rule} Got {got} in {root}{'' if 'other' in got else f', not {value}'}.")
    if stored.fingerprint != source:
        raise store.StoreError(f"{rule} Got other atoms in {root}.")
    return Stream(root, source)


# ---------------------------------------------------------------- reading all groups


def join_on_disk(folder: Path, batches: Iterable[TargetBatch]) -> TargetBatch:
    """Put answers for consecutive targets together, in files that vanish with the answer."""
    names = TargetBatch._fields
    with contextlib.ExitStack() as stack:
        files = {name: stack.enter_context(_open_nameless(folder)) for name in names}
        kinds = {name: column.dtype for name, column in make_unsolved(0, Status.SKIPPED)._asdict().items()}
        end = np.zeros(1, np.int64)
        files["indptr"].write(end.tobytes())
        for batch in batches:
            for name, column in batch._asdict().items():
                part = end + column[1:] if name == "indptr" else column
                files[name].write(np.ascontiguousarray(part, kinds[name]).tobytes())
            end = end + batch.indptr[-1]
        return TargetBatch(**{name: _map(files[name], kinds[name]) for name in names})


def _open_nameless(folder: Path) -> IO[bytes]:
    try:
        return tempfile.TemporaryFile(dir=folder)
    except OSError:  # a folder that may only be read
        return tempfile.TemporaryFile()


def _map(file: IO[bytes], kind: np.dtype[Any]) -> NDArray[Any]:
    file.flush()
    if not file.tell():
        return np.empty(0, kind)
    return np.asarray(np.memmap(file, kind, "r"))


def read_stream(folder: str | PathLike[str], atoms: AtomsLike | None = None) -> ManyResult:
    """Read what a run has written so far; targets that are not there yet are INTERRUPTED.

    Atoms, if given, must be those of the run.
    """
    stored = store.load(folder, RUN)
    if atoms is not None:
        store.check_fingerprint(stored, atoms)
    with stored.reading():
        total = count(stored.params["total"], "total")
        step = count(stored.params["group"], "group", low=1)
        shape = tuple(count(size, "shape") for size in stored.params["shape"])
        require(int(np.prod(shape, dtype=object)) == total, "shape", f"of {total} targets", shape)
        priced = stored.params["max_atoms"] is not None
    stream = Stream(Path(folder), stored.fingerprint)

    def read() -> Iterator[TargetBatch]:
        for start in range(0, total, step):
            size = min(step, total - start)
            batch = stream.read(start, size)
            yield make_unsolved(size, Status.INTERRUPTED) if batch is None else batch

    columns = join_on_disk(stream.folder, read())._asdict() | ({} if priced else {"price": None})
    known = None if atoms is None else as_atoms(atoms)
    return ManyResult(**columns, seconds=0.0, shape=shape, fingerprint=stored.fingerprint, atoms=known)
