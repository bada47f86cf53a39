"""Atoms that change between a save and its use, and files that shrink after they were opened.

Something is saved, at every door that takes atoms again. Then one entry of one row is
changed, by its last bit or by much, and it is used: it must be refused. Only codes that are
proved when they are loaded may be taken where the change is less than they tell; then their
bounds are judged against the atoms as they are now, in extended precision. With the atoms
as they were, nothing may be refused. In the end the files of an index are cut off: what was
loaded answers, or says which file has changed; a process that dies is a finding.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tests.fuzz.supervise import Findings
from wolfhound import SquaredDistance, design, herd, load, minimize, minimize_many
from wolfhound.data import store
from wolfhound.data.store import StoreError
from wolfhound.oracles.clusters import ClusterIndex
from wolfhound.oracles.int8.file_scan import Int8FileScan
from wolfhound.oracles.int8.scan import Int8Scan
from wolfhound.oracles.lsh import LshIndex

CHANGES = 8
"""Changed atoms that each saved thing is used with."""

Rows = NDArray[Any]


class Door(NamedTuple):
    """How something is saved, and used with atoms; `cut`: its files are cut off after it was loaded."""

    save: Callable[[Path, Rows, Rows], object]
    use: Callable[[Path, Rows, Rows], Any]
    cut: bool = False


def _load(folder: Path, rows: Rows, target: Rows) -> Any:
    return load(folder, atoms=rows)


def _index(oracle: Any, **options: Any) -> Door:
    return Door(
        lambda folder, rows, target: oracle.build(rows, **options).save(folder),
        lambda folder, rows, target: oracle.load(folder, rows),
        cut=True,
    )


DOORS = {
    "checkpoint": Door(
        lambda folder, rows, target: minimize(SquaredDistance(target), rows, checkpoint=folder),
        lambda folder, rows, target: minimize(SquaredDistance(target), rows, checkpoint=folder),
    ),
    "checkpoint loaded": Door(
        lambda folder, rows, target: minimize(SquaredDistance(target), rows, checkpoint=folder), _load
    ),
    "stream": Door(
        lambda folder, rows, target: minimize_many(target[None], rows, out=folder),
        lambda folder, rows, target: minimize_many(target[None], rows, out=folder),
    ),
    "stream loaded": Door(lambda folder, rows, target: minimize_many(target[None], rows, out=folder), _load),
    "result": Door(lambda folder, rows, target: minimize(SquaredDistance(target), rows).save(folder), _load),
    "many": Door(lambda folder, rows, target: minimize_many(target[None], rows).save(folder), _load),
    "herd": Door(lambda folder, rows, target: herd(rows, 1).save(folder), _load),
    "design": Door(lambda folder, rows, target: design(rows).save(folder), _load),
    "clusters": _index(ClusterIndex),
    "clusters proof": _index(ClusterIndex, proof=True),
    "lsh": _index(LshIndex),
    "int8": _index(Int8Scan),
    "int8 on disk": _index(Int8FileScan),
}
PROVED = ("int8", "int8 on disk")
"""Doors where all that was saved is proved against the atoms."""


def judge(seed: int, batch: int) -> Iterator[str | Findings]:
    """Yield what each case of a batch is, then what was found: one saved thing, many atoms."""
    rng = np.random.default_rng([seed, batch, 27])
    name = list(DOORS)[int(rng.integers(len(DOORS)))]
    # From 300 on: designs and indexes of fewer are refused for reasons of their own.
    n, d = int(rng.choice([300, 1024, 1025, 1500, 4000])), int(rng.integers(2, 7))
    rows = rng.standard_normal((n, d)).astype(rng.choice(["float32", "float64"]))
    target = rng.standard_normal(d) * 3.0
    found, label = Findings(), f"{seed}/{batch}, {name}, {n} x {d} {rows.dtype}"
    yield label
    with tempfile.TemporaryDirectory() as place:
        folder, door = Path(place) / "saved", DOORS[name]
        door.save(folder, rows, target)
        for _ in range(CHANGES):
            changed, what = change(rows, target, rng)
            yield f"{label}: {what}"
            found.counts["changed atoms"] += 1
            try:
                used = door.use(folder, changed, target)
            except StoreError:
                found.counts["refused"] += 1
                continue
            wrong = [f"taken: {what}"] if name not in PROVED else check_bounds(used, changed, rng)
            found.violations.extend(f"{label}: {text}" for text in wrong)
        yield f"{label}: as it was"
        try:
            used = door.use(folder, rows.copy(), target)
        except StoreError as error:
            found.violations.append(f"{label}: refused with its own atoms: {error}")
        else:
            if door.cut:
                yield f"{label}: shrunk"
                found.violations.extend(f"{label}: {text}" for text in ask_shrunk(used, folder, rows, rng))
                found.counts["shrunk"] += 1
    yield found


def change(rows: Rows, target: Rows, rng: np.random.Generator) -> tuple[Rows, str]:
    """Return the atoms with one entry changed, or one row put where the minimum is 0."""
    out = rows.copy()
    i, j = int(rng.integers(len(rows))), int(rng.integers(rows.shape[1]))
    how = str(rng.choice(["last bit", "little", "much", "target"]))
    old = out[i, j]
    new = {"last bit": np.nextafter(old, rows.dtype.type(np.inf)), "little": old * 1.001, "much": old + 50.0}
    out[i, j] = new.get(how, old)
    if how == "target":
        out[i] = target
    return out, f"{how} at row {i}, column {j}"


def check_bounds(oracle: Any, rows: Rows, rng: np.random.Generator) -> list[str]:
    """Ask an index that proves; return what is false of the atoms as they are."""
    queries = rng.standard_normal((5, rows.shape[1]))
    hits = oracle.query(queries, k=2)
    wide = queries.astype(np.longdouble) @ rows.astype(np.longdouble).T
    slack = 1e-18 * (np.abs(queries) @ np.abs(rows.astype(np.float64)).T).max(axis=1)
    low = hits.bounds < wide.max(axis=1) - slack
    return [f"bounds {hits.bounds[low]} below {wide.max(axis=1)[low]}"] if low.any() else []


def ask_shrunk(oracle: Any, folder: Path, rows: Rows, rng: np.random.Generator) -> list[str]:
    """Cut the files of an index off and ask it; return what is wrong with its answer or error."""
    file = store.place(folder)
    os.truncate(file, int(rng.integers(file.stat().st_size)))
    try:
        return check_bounds(oracle, rows, rng)
    except OSError as error:
        return [] if file.name in str(error) else [f"an error that names no file: {error}"]
