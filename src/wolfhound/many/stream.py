"""A run that is written as it goes: one folder per group of targets, each whole or not there.

`out` holds a manifest that says what is run, and folders ``targets-0000000000`` named
for the first target of each. What is there is complete, so a folder can be read at any
time, and a run that was cut short goes on with the groups that are missing.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import hashlib
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from wolfhound import store
from wolfhound.atoms import Fingerprint, as_atoms
from wolfhound.codec import WEIGHTS
from wolfhound.core import AtomsLike, Status, Vector
from wolfhound.many._portion import Portion, join_portions, make_unsolved
from wolfhound.many.result import RUN, STATUSES, ManyResult
from wolfhound.validate import count, path, require

GROUP = "many targets"


class Stream(NamedTuple):
    """A folder that grows."""

    folder: Path
    fingerprint: Fingerprint

    def place(self, start: int) -> Path:
        """Where the group that begins at a target is kept."""
        return self.folder / f"targets-{start:010d}"

    def write(self, start: int, portion: Portion, rows: Vector) -> None:
        """Keep the answers of a group, and of which targets they are."""
        params = {"start": start, "count": len(portion.value), "targets": digest(rows)}
        store.save(self.place(start), GROUP, portion._asdict(), params, self.fingerprint)

    def read(self, start: int, rows: Vector) -> Portion | None:
        """Answers of a group that is there; None if it is not. StoreError if it is of other targets."""
        portion, params = read_group(self.place(start))
        if portion is None:
            return None
        if params.get("targets") != digest(rows):
            raise store.StoreError(
                f"`out` must be new, or hold a run with the same targets. Got others in {self.place(start)}."
            )
        return portion


def digest(rows: Vector) -> str:
    """What tells targets apart."""
    return hashlib.blake2b(np.ascontiguousarray(rows).tobytes(), digest_size=16).hexdigest()


def open_stream(folder: str | PathLike[str], params: Mapping[str, Any], source: Fingerprint) -> Stream:
    """Begin a run in a new or empty folder, or go on with one of the same settings and atoms.

    Raises
    ------
    StoreError
        If the folder holds anything else; the message names what differs.
    """
    root = path(folder, "out")
    if not (root.is_dir() and any(root.iterdir())):
        store.save(root, RUN, {}, params, source)
        return Stream(root, source)
    stored = store.load(root, RUN)
    rule = "`out` must be new, or hold a run with the same settings and atoms."
    for name, value in params.items():
        if stored.params.get(name) != value:
            raise store.StoreError(f"{rule} Got {name} = {stored.params.get(name)} in {root}, not {value}.")
    if stored.fingerprint != source:
        raise store.StoreError(f"{rule} Got other atoms in {root}.")
    return Stream(root, source)


def read_group(folder: Path) -> tuple[Portion | None, Mapping[str, Any]]:
    """Answers of one group and what is said of them; None if it is not there or was cut off."""
    if not (folder / "manifest.json").exists():
        return None, {}
    stored = store.load(folder, GROUP, mmap=False)
    with stored.reading():
        m, n = count(stored.params["count"], "count"), stored.shape[0]
        ends = stored.array("indptr", np.int64, (m + 1,), low=0)
        size = int(ends[-1])
        require(ends[0] == 0 and bool((np.diff(ends) >= 0).all()), "indptr", "rising from 0", "not")
        columns = {
            name: stored.array(name, np.float64, (m,), low=0.0)
            for name in ("value", "lower", "goal", "price")
        }
        portion = Portion(
            indptr=ends,
            ids=stored.array("ids", np.int64, (size,), low=0, high=n - 1),
            weights=stored.array("weights", np.float64, (size,), low=0.0, high=1.0 + WEIGHTS),
            codes=stored.array("codes", np.int8, (m,), low=0, high=len(STATUSES) - 1),
            passes=stored.array("passes", np.int64, (m,), low=0),
            **columns,
        )
        require(bool((portion.lower <= portion.value).all()), "lower", "<= value", "more")
    return portion, stored.params


def read_stream(folder: str | PathLike[str], atoms: AtomsLike | None = None) -> ManyResult:
    """Read what a run has written so far; targets that are not there yet are INTERRUPTED.

    Parameters
    ----------
    folder
        The `out` of the run.
    atoms
        If given, must be the atoms of the run.
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
    portions = []
    for start in range(0, total, step):
        size = min(step, total - start)
        portion, _ = read_group(stream.place(start))
        portions.append(make_unsolved(size, Status.INTERRUPTED) if portion is None else portion)
        if len(portions[-1].value) != size:
            raise stored.wrong(f"{stream.place(start).name} holds {len(portions[-1].value)} targets")
    whole = join_portions([*portions, make_unsolved(0, Status.INTERRUPTED)])
    columns = whole._asdict() | ({} if priced else {"price": None})
    known = None if atoms is None else as_atoms(atoms)
    return ManyResult(**columns, seconds=0.0, shape=shape, fingerprint=stored.fingerprint, atoms=known)
